//! Parts of the control side that are a feature's own: the router keeps their state and calls them when something happens that
//! they follow, and knows none of them by name. A part is one line in the list of parts.

use super::{BoxedOp, IfState, Op, OpError, Router};
use crate::interface::{Bits, BridgePort, L2_XCONNECT, Midchain, Pseudowire, Retag};
use crate::neighbor::Millis;
use crate::plane::Ends;
use crate::plane::table::FibIndex;
use crate::punt::PuntKind;
use command::Command;
use graph::Reclaimer;
use graph::arcs::Feature;
use ipnet::IpNet;
use rustix::fd::BorrowedFd;
use std::any::Any;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use tables::groups::GroupId;

/// What a feature follows. The parts are called in the order of their list.
pub(crate) trait Part: Sync {
    /// Its state, in which nothing is set. Its type is the part's own: see [`Router::state`].
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send>;

    /// The router stands, and no worker has a packet yet.
    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        let _ = router;
        Ok(())
    }

    /// A transaction has ended, well or not.
    fn settled(&self, router: &mut Router) {
        let _ = router;
    }

    /// The FIB index of a label table.
    fn label_fib_index(&self, router: &Router, id: u32) -> Option<FibIndex> {
        let _ = (router, id);
        None
    }

    /// The next-hop group that routes over an interface of its making lead to.
    fn group_behind(&self, router: &Router, index: u32) -> Option<GroupId> {
        let _ = (router, index);
        None
    }

    /// Which of its things has a next-hop group.
    fn holds_group(&self, router: &Router, group: GroupId) -> Option<String> {
        let _ = (router, group);
        None
    }

    /// Why these interfaces, of which one has this name, cannot go: something of its making leads over them.
    fn leads_over(&self, router: &Router, gone: &HashSet<u32>, name: &str) -> Option<String> {
        let _ = (router, gone, name);
        None
    }

    /// What frames on an interface of its making become.
    fn pseudowire(&self, router: &Router, index: u32) -> Option<Pseudowire> {
        let _ = (router, index);
        None
    }

    /// What it waits for beside time: [`Part::readable`] is called when it is readable.
    fn descriptor<'r>(&self, router: &'r Router) -> Option<BorrowedFd<'r>> {
        let _ = router;
        None
    }

    /// Does what its descriptor tells of, a little; whether there is more.
    fn readable(&self, router: &mut Router) -> bool {
        let _ = router;
        false
    }

    /// Its commands.
    fn commands(&self) -> Vec<Command<Router>> {
        vec![]
    }

    /// What the operator has told an interface, to be told again in this order.
    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let _ = (router, index);
        vec![]
    }

    /// The operations that make what it has of an interface and is not told with the settings of that (`told`): those that come
    /// before these settings, or those behind them.
    fn makes(&self, router: &Router, i: &IfState, before_features: bool) -> Vec<Op> {
        let _ = (router, i, before_features);
        vec![]
    }

    /// What an interface is to its bridge domain, and what becomes of the tags of its frames on layer 2.
    fn bridged(&self, router: &Router, i: &IfState) -> (Option<BridgePort>, Retag) {
        let _ = (router, i);
        Default::default()
    }

    /// The interface whose frames one carries, and with it takes as its own, and the command that ends that: it has nothing of layer 2 or
    /// 3 itself, the other's MAC address, and at least its MTU.
    fn carries(&self, router: &Router, index: u32) -> Option<(u32, String)> {
        let _ = (router, index);
        None
    }

    /// Those that carry the frames of one of its making.
    fn carried_by(&self, router: &Router, index: u32) -> Vec<u32> {
        let _ = (router, index);
        vec![]
    }

    /// The MAC address of an interface has changed.
    fn mac_changed(&self, router: &mut Router, index: u32) -> Result<(), OpError> {
        let _ = (router, index);
        Ok(())
    }

    /// Flags with which workers see an interface, of [`crate::interface::ifflags`].
    fn flags(&self, router: &Router, index: u32) -> u16 {
        let _ = (router, index);
        0
    }

    /// What an interface of its making puts around its packets, in a feature of `interface-output` that they visit.
    fn midchain(&self, router: &Router, index: u32) -> Option<Arc<Midchain>> {
        let _ = (router, index);
        None
    }

    /// Features that packets of an interface visit on its account, of any arc but those of adjacencies, `ip4-output` and `ip6-output`.
    /// Frames of sub-interfaces come in on the device below, where they visit what that has on `device-input`, and on
    /// `interface-output` they visit what either has.
    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        let _ = (router, index);
        vec![]
    }

    /// Multicast groups in which an interface is on its account.
    fn groups(&self, router: &Router, index: u32) -> Vec<IpAddr> {
        let _ = (router, index);
        vec![]
    }

    /// What of it stands on the routes of an interface of a family, so that this stays where it is: in words of what the interface
    /// does, and the command that undoes it.
    fn stands_on(&self, router: &Router, index: u32, v6: bool) -> Option<(String, String)> {
        let _ = (router, index, v6);
        None
    }

    /// Whether a host with this address is on the link of an interface on its account.
    fn is_on_link(&self, router: &Router, index: u32, address: IpAddr) -> bool {
        let _ = (router, index, address);
        false
    }

    /// Why no interface can have an address: it knows that as somebody else's. In words, and the command that undoes it.
    fn is_anothers(&self, router: &Router, address: IpAddr) -> Option<(String, String)> {
        let _ = (router, address);
        None
    }

    /// Why an interface cannot be without an IPv6 address.
    fn needs_ip6(&self, router: &Router, index: u32) -> Option<String> {
        let _ = (router, index);
        None
    }

    /// Why these interfaces cannot go: something of other interfaces refers to them. With the command that undoes it.
    fn needs(&self, router: &Router, gone: &HashSet<u32>) -> Option<String> {
        let _ = (router, gone);
        None
    }

    /// What undoes all by which interfaces refer to each other; asked of the last part of the list first.
    fn releases(&self, router: &Router) -> Vec<Op> {
        let _ = router;
        vec![]
    }

    /// The least MTU for IPv6 that it leaves an interface, bytes, and what would be wrong with a smaller one.
    fn least_mtu6(&self, router: &Router, index: u32) -> Option<(u32, String)> {
        let _ = (router, index);
        None
    }

    /// Workers are about to see an interface as it is now.
    fn publishing(&self, router: &mut Router, index: u32) {
        let _ = (router, index);
    }

    /// They see it.
    fn published(&self, router: &mut Router) {
        let _ = router;
    }

    /// An interface can carry packets from now on, after its addresses have taken that in; or no more, before they have. Also told
    /// where that has not changed.
    fn usable(&self, router: &mut Router, index: u32, usable: bool) {
        let _ = (router, index, usable);
    }

    /// The addresses of an interface have changed, or its link-local address can be used from now on.
    fn addresses_changed(&self, router: &mut Router, index: u32) {
        let _ = (router, index);
    }

    /// The operator's static neighbors of an interface have changed.
    fn neighbors_changed(&self, router: &mut Router, index: u32) {
        let _ = (router, index);
    }

    /// The link-local address of an interface that stays goes in a moment; `with` is an address that goes as well.
    fn link_local_goes(&self, router: &mut Router, index: u32, with: Option<IpNet>) {
        let _ = (router, index, with);
    }

    /// An interface is set down in a moment; none: the router ends. One that is taken out while it is up ends without a word.
    fn ends(&self, router: &mut Router, index: Option<u32>) {
        let _ = (router, index);
    }

    /// Linux has refused a companion, which is to be taken away.
    fn companion_refused(&self, router: &mut Router, index: u32) {
        let _ = (router, index);
    }

    /// An interface goes, and its number to another one some day.
    fn removed(&self, router: &mut Router, index: u32) {
        let _ = (router, index);
    }

    /// Why a routing table cannot go; nothing where it can.
    fn uses_table(&self, router: &Router, v6: bool, fib_index: FibIndex) -> Option<String> {
        let _ = (router, v6, fib_index);
        None
    }

    /// What leads by a next-hop group that is none of routes, in words; nothing where that is not this part's.
    fn leads_by(&self, router: &Router, group: GroupId) -> Option<String> {
        let _ = (router, group);
        None
    }

    /// Why a bridge domain cannot go; nothing where it can. With the command that undoes it.
    fn uses_bridge(&self, router: &Router, id: u32) -> Option<String> {
        let _ = (router, id);
        None
    }

    /// A routing table is gone, and its place goes to another one some day.
    fn table_removed(&self, router: &mut Router, v6: bool, fib_index: FibIndex) {
        let _ = (router, v6, fib_index);
    }

    /// Why there cannot be as few workers as these: something was given to one that would go. With the command that undoes it.
    fn needs_workers(&self, router: &Router, workers: usize) -> Option<String> {
        let _ = (router, workers);
        None
    }

    /// Another number of workers shares the work from now on.
    fn workers_changed(&self, router: &mut Router) {
        let _ = router;
    }

    /// When it has something to do next.
    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let _ = router;
        None
    }

    /// Workers have filled a table that only the control side can make larger.
    fn filled(&self, router: &mut Router) {
        let _ = router;
    }

    /// It is looked at what no worker sees any more. The numbers of interfaces that are gone are not given out again before.
    fn reclaiming(&self, router: &mut Router) {
        let _ = router;
    }

    /// Does what is due.
    fn tick(&self, router: &mut Router, now: Millis) {
        let _ = (router, now);
    }

    /// Which of what workers hand over is for it; several parts may hear the same.
    fn hears(&self, kind: PuntKind) -> bool {
        let _ = kind;
        false
    }

    /// Such a packet came.
    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let _ = (router, now, packet);
    }

    /// The names of its things of a kind that is its own, sorted: for completion, and to say early that there is none of a name.
    fn names(&self, router: &Router, kind: &str) -> Option<Vec<String>> {
        let _ = (router, kind);
        None
    }
}

/// With what parts start.
pub(crate) struct Start {
    /// For times that are chosen at random.
    pub seed: u64,
    /// What of all that workers read has one writer, which is its part's.
    pub ends: Ends,
}

/// A packet that a worker handed over.
#[derive(Clone, Copy)]
pub(crate) struct Handed<'p> {
    /// The interface on which it came.
    pub interface: u32,
    /// The whole packet.
    pub bytes: &'p [u8],
}

/// The parts, with their states in the same order.
#[derive(Default)]
pub(super) struct Parts {
    pub all: &'static [&'static dyn Part],
    states: Vec<Box<dyn Any + Send>>,
}

impl Parts {
    pub fn new(all: &'static [&'static dyn Part], mut start: Start) -> Self {
        Parts { all, states: all.iter().map(|p| p.state(&mut start)).collect() }
    }
}

impl Router {
    /// The state of the part that has this type for it; none where no list names the part.
    pub(crate) fn state<T: Any>(&self) -> Option<&T> {
        self.parts.states.iter().find_map(|s| s.downcast_ref())
    }

    /// The same, to change it.
    pub(crate) fn state_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.parts.states.iter_mut().find_map(|s| s.downcast_mut())
    }

    /// The state of a part together with what frees what workers do not see any more.
    pub(crate) fn with_reclaimer<T: Any, R>(
        &mut self,
        work: impl FnOnce(&mut T, &mut Reclaimer) -> R,
    ) -> Option<R> {
        let state = self.parts.states.iter_mut().find_map(|s| s.downcast_mut())?;
        Some(work(state, &mut self.grace.reclaimer))
    }

    /// What parts wait for, each with its number for [`Router::part_readable`].
    pub fn descriptors(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let all = self.parts.all.iter().enumerate();
        all.filter_map(|(n, part)| Some((n, part.descriptor(self)?))).collect()
    }

    /// Has a part do a little of what its descriptor tells of; whether there is more.
    pub fn part_readable(&mut self, number: usize) -> bool {
        self.parts.all.get(number).is_some_and(|part| part.readable(self))
    }

    /// The FIB index of a label table.
    pub(super) fn label_fib_index(&self, id: u32) -> Option<FibIndex> {
        self.parts.all.iter().find_map(|p| p.label_fib_index(self, id))
    }

    /// The next-hop group behind an interface that carries packets of routes over it alone.
    pub(super) fn group_behind(&self, index: u32) -> Option<GroupId> {
        self.parts.all.iter().find_map(|p| p.group_behind(self, index))
    }

    /// What of parts has a next-hop group.
    pub(super) fn holder_of(&self, group: GroupId) -> Option<String> {
        self.parts.all.iter().find_map(|p| p.holds_group(self, group))
    }

    /// Why a bridge domain cannot go.
    pub(crate) fn user_of_bridge(&self, id: u32) -> Option<String> {
        self.parts.all.iter().find_map(|p| p.uses_bridge(self, id))
    }

    /// The interface whose frames one carries, and the command that ends that.
    pub fn carries(&self, index: u32) -> Option<(u32, String)> {
        self.parts.all.iter().find_map(|p| p.carries(self, index))
    }

    /// The interfaces that carry the frames of one.
    pub(super) fn carried_by(&self, index: u32) -> Vec<u32> {
        self.parts.all.iter().flat_map(|p| p.carried_by(self, index)).collect()
    }

    /// Refuses what an interface cannot have that carries the frames of another.
    pub(crate) fn check_own_frames(&self, i: &IfState) -> Result<(), OpError> {
        self.without_own_frames(i.index).map_or(Ok(()), |why| Err(OpError::new(format!("{} {why}", i.name))))
    }

    /// Why an interface has no frames of its own, with what undoes it; nothing where it has.
    pub(super) fn without_own_frames(&self, index: u32) -> Option<String> {
        let (to, undo) = self.carries(index)?;
        Some(format!("carries the frames of {}: undo that first ({undo})", self.interface_name(to)))
    }

    /// What makes what parts have of an interface, before or behind its settings.
    pub(super) fn made_by_parts(&self, i: &IfState, before_features: bool) -> impl Iterator<Item = Op> {
        self.parts.all.iter().flat_map(move |p| p.makes(self, i, before_features))
    }

    /// Calls all parts.
    pub(super) fn tell_parts(&mut self, what: impl Fn(&dyn Part, &mut Router)) {
        for part in self.parts.all {
            what(*part, self);
        }
    }

    /// What the operator has told an interface that is for parts.
    pub(super) fn told_to_parts(&self, index: u32) -> impl Iterator<Item = BoxedOp> + '_ {
        self.parts.all.iter().flat_map(move |p| p.told(self, index))
    }

    /// Multicast groups in which an interface is on account of parts.
    pub(crate) fn groups_of_parts(&self, index: u32) -> impl Iterator<Item = IpAddr> + '_ {
        self.parts.all.iter().flat_map(move |p| p.groups(self, index))
    }

    /// The names of things of a kind that a part has.
    pub(crate) fn names_of_parts(&self, kind: &str) -> Option<Vec<String>> {
        self.parts.all.iter().find_map(|p| p.names(self, kind))
    }

    /// The features that packets of an interface visit, on account of its settings, its cross-connect and parts.
    pub(super) fn visited(&self, i: &IfState) -> Bits {
        let of_parts = self.parts.all.iter().flat_map(|p| p.visits(self, i.index));
        of_parts.chain(i.xconnect.map(|_| &L2_XCONNECT)).fold(self.feature_bits(i), |mut bits, f| {
            bits.add(f.arc, self.workers.feature_bit(f));
            bits
        })
    }

    /// What of parts stands on the routes of an interface, of any family.
    pub(super) fn stands_on_routes(&self, index: u32) -> Option<(String, String)> {
        let of = |v6| self.parts.all.iter().find_map(move |p| p.stands_on(self, index, v6));
        of(false).or_else(|| of(true))
    }

    /// Refuses an MTU for IPv6 that is less than a part leaves the interface.
    pub(super) fn check_mtu6(&self, index: u32, mtu: u16) -> Result<(), String> {
        let mut all = self.parts.all.iter().filter_map(|p| p.least_mtu6(self, index));
        all.find(|(least, _)| *least > mtu.into()).map_or(Ok(()), |(_, why)| Err(why))
    }
}
