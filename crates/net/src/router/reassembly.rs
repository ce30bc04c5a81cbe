//! Limits of reassembly, the walks that end what is too old, and what workers hold.

use super::op::Undo;
use super::{Op, OpError, Router};
use crate::neighbor::Millis;
use crate::reassembly::{Config, FullReassembly, Kind, Settings, Summary, V4, V6, VirtualReassembly};
use graph::Worker;

/// One kind of reassembly.
#[derive(Clone, Debug)]
pub struct ReassemblyStatus {
    /// Its limits.
    pub settings: Settings,
    /// What each worker holds.
    pub workers: Vec<Summary>,
}

/// Has the node of `kind` do one of two things.
macro_rules! visit {
    ($w:expr, $kind:expr, |$node:ident, $env:ident| $work:expr) => {{
        let (d, name) = (&mut $w.dispatcher, $kind.node());
        match ($kind.v6, $kind.shallow) {
            (false, false) => d.visit(name, |$node: &mut FullReassembly<V4>, $env| $work),
            (true, false) => d.visit(name, |$node: &mut FullReassembly<V6>, $env| $work),
            (false, true) => d.visit(name, |$node: &mut VirtualReassembly<V4>, $env| $work),
            (true, true) => d.visit(name, |$node: &mut VirtualReassembly<V6>, $env| $work),
        }
    }};
}

impl Router {
    pub(super) fn set_reassembly(&mut self, kind: Kind, s: Settings) -> Result<Undo, OpError> {
        let refuse = |what: &str, value: u128, range: String| {
            let name = kind.name();
            Err(OpError::new(format!("reassembly {name}: {what} {value} is out of range, {range}")))
        };
        let most = Settings::MOST_REASSEMBLIES;
        if s.max_reassemblies > most {
            return refuse("max-reassemblies", s.max_reassemblies.into(), format!("0 to {most}"));
        }
        let most = Settings::MOST_LENGTH;
        if s.max_length == 0 || s.max_length > most {
            return refuse("max-reassembly-length", s.max_length.into(), format!("1 to {most} fragments"));
        }
        for (what, time) in [("timeout", s.timeout), ("expire-walk-interval", s.walk)] {
            if !(1..=u128::from(Settings::MOST_MS)).contains(&time.as_millis()) {
                return refuse(what, time.as_millis(), format!("1 to {} ms", Settings::MOST_MS));
            }
        }
        let mut config: Config = self.current();
        let was = std::mem::replace(config.of_mut(kind), s);
        self.publish(config);
        self.next_walk = [Millis(0); 4];
        Ok(vec![Op::SetReassembly { kind, settings: was }])
    }

    /// The limits of one kind of reassembly.
    pub fn reassembly_settings(&self, kind: Kind) -> Settings {
        *self.current::<Config>().of(kind)
    }

    /// What the workers hold of one kind; `details` says whether the datagrams one by one, too.
    pub fn reassembly_status(&self, kind: Kind, details: bool) -> ReassemblyStatus {
        let settings = self.reassembly_settings(kind);
        let ask = move |w: &mut Worker| {
            visit!(w, kind, |node, env| {
                node.walk(env, &settings);
                node.summary(env.now_ns, details)
            })
        };
        let workers = self.workers.iter().map(|w| w.call(ask).flatten().unwrap_or_default()).collect();
        ReassemblyStatus { settings, workers }
    }

    /// When the next walk is due.
    pub(super) fn next_walk(&self) -> Millis {
        self.next_walk.iter().copied().fold(Millis(u64::MAX), Millis::min)
    }

    /// Ends what is too old on all workers. While no packet is held anywhere there is nothing to be done.
    pub(super) fn walk_reassembly(&mut self, now: Millis) {
        if now < self.next_walk() {
            return;
        }
        let (holds, config): (_, Config) = (self.pool.in_use() != 0, self.current());
        for (kind, next) in Kind::ALL.into_iter().zip(&mut self.next_walk) {
            if now < *next {
                continue;
            }
            let settings = *config.of(kind);
            *next = now.after(settings.walk.as_millis() as u64);
            if !holds {
                continue;
            }
            for w in &self.workers {
                w.send(move |w| {
                    visit!(w, kind, |node, env| node.walk(env, &settings));
                });
            }
        }
    }
}
