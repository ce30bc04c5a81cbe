//! Reassembly as a part of the control side: limits, and what workers hold.

use super::{Config, FullReassembly, Kind, Settings, Summary, V4, V6, VirtualReassembly};
use crate::router::{Op, OpError, Part, PartOp, Router, Start};
use command::Command;
use graph::Worker;
use std::any::Any;

/// The part.
pub(crate) struct Reassembly;

/// What it holds stands in the workers.
struct Nothing;

/// Sets the limits of one kind of reassembly.
#[derive(Clone, Debug, PartialEq)]
pub struct SetLimits {
    /// Which.
    pub kind: Kind,
    /// Its limits.
    pub settings: Settings,
}

/// One kind of reassembly.
#[derive(Clone, Debug)]
pub(super) struct Status {
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

impl PartOp for SetLimits {
    fn subject(&self) -> String {
        format!("limits of reassembly {}", self.kind.name())
    }

    fn off(&self) -> Option<Op> {
        Some(SetLimits { kind: self.kind, settings: self.kind.defaults() }.into())
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let (kind, s) = (self.kind, self.settings);
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
        let mut config: Config = router.current();
        let was = std::mem::replace(config.of_mut(kind), s);
        router.publish(config);
        router.workers().each(move |w| {
            visit!(w, kind, |node, _env| node.walk_soon());
        });
        Ok(vec![SetLimits { kind, settings: was }.into()])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("reassembly {}: other limits", self.kind.name()))
    }
}

/// The limits of one kind of reassembly.
pub fn limits(router: &Router, kind: Kind) -> Settings {
    *router.current::<Config>().of(kind)
}

/// What the workers hold of one kind; `details` says whether the datagrams one by one, too.
pub(super) fn status(router: &Router, kind: Kind, details: bool) -> Status {
    let settings = limits(router, kind);
    let ask = move |w: &mut Worker| {
        visit!(w, kind, |node, env| {
            node.walk(env, &settings);
            node.summary(env.now_ns, details)
        })
    };
    let workers = router.workers().ask(ask).map(|summary| summary.flatten().unwrap_or_default());
    Status { settings, workers: workers.take(router.config().workers).collect() }
}

impl Part for Reassembly {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Nothing)
    }

    /// Datagrams go to the workers that have their fragments from now on.
    fn workers_changed(&self, router: &mut Router) {
        let (buffers, workers) = (router.pool().count(), router.config().workers);
        router.workers().each(move |w| {
            for kind in Kind::ALL {
                visit!(w, kind, |node, env| node.share_out(env, buffers, workers));
            }
        });
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }
}
