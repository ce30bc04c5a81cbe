//! Path MTUs as a part of the control side: takes what messages to the router say, and tells workers.

use super::{Learnt, PathMtuTable, Told};
use crate::neighbor::Millis;
use crate::plane::kind;
use crate::plane::table::FibIndex;
use crate::punt::PuntKind;
use crate::router::{Handed, Part, Router, Start};
use command::Command;
use std::any::Any;
use std::net::IpAddr;

/// The part.
pub(crate) struct PathMtuPart;

/// A path MTU as the operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathMtuInfo {
    /// Number of the table.
    pub table: u32,
    /// The destination.
    pub to: IpAddr,
    /// Bytes.
    pub mtu: u16,
    /// Milliseconds since it was heard of last.
    pub age_ms: u64,
}

/// What was learnt.
pub(super) fn all(router: &Router) -> Vec<PathMtuInfo> {
    let now = router.now();
    let info = |((fib_index, to), l): ((u32, IpAddr), Learnt)| PathMtuInfo {
        table: router.table_at(to.is_ipv6(), FibIndex(fib_index)),
        to,
        mtu: l.mtu,
        age_ms: now.0.saturating_sub(l.at.0),
    };
    router.state::<PathMtuTable>().into_iter().flat_map(PathMtuTable::iter).map(info).collect()
}

impl Part for PathMtuPart {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(PathMtuTable::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn table_removed(&self, router: &mut Router, v6: bool, fib_index: FibIndex) {
        change(router, |table| table.forget(v6, fib_index.0));
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        router.state::<PathMtuTable>()?.next_deadline()
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        change(router, |table| table.age(now));
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Icmp
    }

    /// An ICMP message; `message` begins with its IP header.
    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let Handed { interface, bytes: message, .. } = packet;
        let Some(told) = Told::read(message) else { return };
        // Nothing is between two hosts of one link.
        if matches!(told.to, IpAddr::V6(a) if a.is_unicast_link_local()) {
            return;
        }
        let v6 = told.to.is_ipv6();
        let fib_index = router.table_of(interface, v6);
        let own = router.lookup_in(router.table_at(v6, fib_index), told.own);
        if own.is_some_and(|g| g.paths.iter().any(|p| p.entry.kind == kind::LOCAL)) {
            change(router, |table| table.learn(now, fib_index.0, told));
        }
    }
}

/// Workers are told where `change` says so.
fn change(router: &mut Router, change: impl FnOnce(&mut PathMtuTable) -> bool) {
    let Some(table) = router.state_mut::<PathMtuTable>() else { return };
    if change(table) {
        let published = table.published();
        router.publish(published);
    }
}
