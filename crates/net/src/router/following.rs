//! What follows from a change of an interface for its sub-interfaces: at once for a few, and in turns for thousands, so that
//! nothing else waits for it.

use super::Router;
use super::interfaces::Interfaces;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long is worked on it in one turn of the control side.
const TURN: Duration = Duration::from_millis(2);
/// So many are served whatever the time.
const AT_ONCE: usize = 64;

/// What a sub-interface has to follow, beside what workers see of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    /// The state of its interface.
    pub state: bool,
    /// The interface could not send meanwhile, however short that was.
    pub down: bool,
    /// The MAC address.
    pub mac: bool,
}

/// Sub-interfaces that have not followed their interface yet.
#[derive(Default)]
pub(super) struct Following {
    waiting: BTreeMap<u32, Change>,
    busy: bool,
}

impl Following {
    /// It is gone.
    pub fn forget(&mut self, index: u32) {
        self.waiting.remove(&index);
    }
}

impl Interfaces {
    /// The sub-interfaces of an interface have something to follow; [`Router::catch_up`] has them do it.
    pub fn have_follow(&mut self, index: u32, change: Change) {
        let Some((i, following)) = self.followers(index) else { return };
        for s in i.subs.values() {
            let c = following.waiting.entry(*s).or_default();
            c.state |= change.state;
            c.down |= change.down;
            c.mac |= change.mac;
        }
    }
}

impl Router {
    /// Whether there are sub-interfaces that have not followed their interfaces yet, or prefixes that do not use yet what is
    /// the best of their routes now.
    pub fn is_behind(&self) -> bool {
        !self.interfaces.following.waiting.is_empty() || self.nexthops.backups.is_waiting()
    }

    /// Has sub-interfaces follow their interfaces, and prefixes use the best of their routes, for a moment each.
    pub fn catch_up(&mut self) {
        if std::mem::replace(&mut self.interfaces.following.busy, true) {
            return;
        }
        let (until, mut done) = (Instant::now() + TURN, 0);
        while let Some((index, change)) = self.interfaces.following.waiting.pop_first() {
            self.follow(index, change);
            done += 1;
            if done >= AT_ONCE && Instant::now() >= until {
                break;
            }
        }
        self.interfaces.following.busy = false;
        self.take_over();
    }

    fn follow(&mut self, index: u32, change: Change) {
        if change.mac
            && let Err(e) = self.renew_link_local(index)
        {
            self.note(true, e.to_string());
        }
        // As with the interface itself: routes leave it first, and come to one that is ready.
        let usable = self.is_usable(index);
        if change.down || change.state && !usable {
            self.nexthops.forget_dead(index);
            self.refresh_groups(&[index]);
        }
        self.publish_interface(index);
        if change.mac {
            self.refresh_adjacencies(index);
        }
        if change.down && usable {
            self.follow_state(index, false);
        }
        if change.state || change.mac && usable {
            self.follow_state(index, usable);
        }
        if change.state && usable {
            self.refresh_groups(&[index]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::interface::ifflags;
    use crate::router::{Encap, Op, PcapConfig, RouterConfig};
    use graph::{PoolConfig, PoolMemory};
    use packet::eth::MacAddr;

    /// `if0` with so many sub-interfaces, each with an address.
    fn router(subs: u32) -> Router {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
        let mut ops = vec![
            Op::CreatePcap { name: "if0".into(), config },
            Op::SetState { name: "if0".into(), up: true },
        ];
        for id in 1..=subs {
            let name = format!("if0.{id}");
            let encap = Encap::Tags { dot1ad: false, outer: Some(id as u16), inner: None, exact: true };
            ops.push(Op::CreateSub { parent: "if0".into(), id, encap });
            ops.push(Op::SetState { name: name.clone(), up: true });
            let net = format!("10.{}.{}.1/24", id >> 8, id & 255).parse().unwrap();
            ops.push(Op::AddAddress { name, net });
        }
        r.commit(ops).unwrap();
        settle(&mut r);
        r
    }

    fn settle(r: &mut Router) {
        while r.is_behind() {
            assert!(r.next_deadline() <= r.now(), "the rest is due");
            r.tick();
        }
    }

    fn set(r: &mut Router, up: bool) {
        r.commit(vec![Op::SetState { name: "if0".into(), up }]).unwrap();
    }

    #[test]
    fn thousands_follow_in_turns() {
        let mut r = router(4000);
        let last = r.interface_index("if0.4000").unwrap();
        set(&mut r, false);
        assert!(r.is_behind());
        // The state is the interface's at once.
        assert!(!r.is_usable(last));
        settle(&mut r);
        let linked = |r: &Router, i: u32| r.interfaces.slots.get(i).unwrap().is(ifflags::UP | ifflags::LINK);
        let all = |r: &Router| r.interfaces().map(|i| i.index).filter(|i| *i != 0).collect::<Vec<_>>();
        assert!(all(&r).iter().all(|i| !linked(&r, *i)));
        r.commit(vec![Op::SetMac { name: "if0".into(), mac: Some(MacAddr([2, 0, 0, 0, 9, 9])) }]).unwrap();
        set(&mut r, true);
        // One that goes meanwhile is not waited for.
        r.commit(vec![Op::Delete { name: "if0.3999".into() }]).unwrap();
        settle(&mut r);
        let all = all(&r);
        assert!(all.len() == 4000 && all.iter().all(|i| r.is_usable(*i) && linked(&r, *i)));
        assert!(all.iter().all(|i| r.interfaces.slots.get(*i).unwrap().mac == [2, 0, 0, 0, 9, 9]));
        r.shutdown();
    }

    #[test]
    fn nobody_misses_that_it_was_down() {
        let mut r = router(4000);
        let last = r.interface_index("if0.4000").unwrap();
        let (now, mut out) = (r.now(), vec![]);
        let neighbor = "10.15.160.9".parse().unwrap();
        r.neighbors.table.resolve_wanted(now, last, neighbor, &mut out);
        r.carry_out(out);
        assert!(r.neighbors.table.get(last, neighbor).is_some());
        set(&mut r, false);
        set(&mut r, true);
        assert!(r.is_behind());
        settle(&mut r);
        assert!(r.neighbors.table.get(last, neighbor).is_none(), "what was learnt is forgotten");
        assert!(r.is_usable(last));
        r.shutdown();
    }
}
