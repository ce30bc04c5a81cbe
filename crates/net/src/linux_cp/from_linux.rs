//! What was changed in Linux on the device of a pair, made on the interface: state, MTU, MAC address, VRF, addresses, neighbors.
//!
//! What Quiver itself gave the device is known ([`Applied`]) and is no change; so nothing goes back and forth. What is Linux's stands in
//! [`Elsewhere`], beside what the operator said.

use super::part::{self, State};
use super::sync::{self, Applied};
use crate::neighbor::{Heard, State as NeighborState};
use crate::router::{Elsewhere, IfState, Op, OpError, RouteTable, Router};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Changes made in a turn of the control thread.
const TURN: usize = 64;

/// A device as Linux has it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its index.
    pub ifindex: u32,
    /// Administratively up.
    pub up: bool,
    /// Bytes behind the Ethernet header.
    pub mtu: u32,
    /// Its MAC address.
    pub mac: Option<MacAddr>,
    /// Linux's index of the device that has it, a VRF device or a bridge; 0: none.
    pub master: u32,
    /// The table of the VRF in which it is.
    pub table: Option<u32>,
    /// Its addresses, but those that another host was found to have.
    pub addresses: BTreeSet<IpNet>,
}

/// What Quiver has given the device of a pair, and whether Linux has it all.
#[derive(Clone, Debug, PartialEq)]
pub struct Given(Applied, bool);

/// What it has given the device of the pair of this interface, if that has one. To be asked before the device is read.
pub fn given(router: &Router, index: u32) -> Option<Given> {
    router.state::<State>()?.pairs.get(&index).map(|p| Given(p.applied.clone(), p.is_told()))
}

/// How far the changes of a device were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// All of them.
    All,
    /// There is more to do.
    Some,
    /// None: Quiver has given the device something else since it was read, or gave it something then.
    Late,
}

/// What Linux knows of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing, or nothing any more.
    Nothing,
    /// Its MAC address, which it has heard.
    Learnt(MacAddr),
    /// Its MAC address, which somebody has said.
    Said(MacAddr),
}

pub(super) fn is_link_local(net: &IpNet) -> bool {
    matches!(net.addr(), IpAddr::V6(a) if a.is_unicast_link_local())
}

/// The value that an interface gets: Linux's when that has changed, the operator's again when Linux's went.
fn changed<T: PartialEq + Copy>(seen: T, was: T, has: T, operators: T, over: bool) -> Option<T> {
    match seen == was {
        false => (seen != has).then_some(seen),
        true => (over && has != seen).then_some(operators),
    }
}

/// An interface, and the pair through which it is told.
struct Told<'r> {
    router: &'r mut Router,
    index: u32,
    left: usize,
}

impl Told<'_> {
    fn interface(&self) -> Option<&IfState> {
        self.router.interface(self.index)
    }

    /// Makes a change, and says what is Linux's behind it, or before.
    fn commit(&mut self, op: Op, first: bool, what: impl FnOnce(&mut Elsewhere)) -> Result<(), OpError> {
        self.commit_all(vec![op], first, what)
    }

    fn commit_all(
        &mut self,
        mut ops: Vec<Op>,
        first: bool,
        what: impl FnOnce(&mut Elsewhere),
    ) -> Result<(), OpError> {
        self.left = self.left.saturating_sub(1);
        let Some(i) = self.interface() else { return Ok(()) };
        let mut elsewhere = i.elsewhere.clone();
        what(&mut elsewhere);
        let own = Op::SetElsewhere { name: i.name.clone(), what: elsewhere };
        ops.insert(if first { 0 } else { ops.len() }, own);
        self.router.with_companions(|r| r.commit(ops))
    }

    fn refused(&mut self, what: &str, e: &OpError) {
        let name = self.router.interface_name(self.index);
        self.router.note(true, format!("{name}: its pair in Linux has {what}, which it cannot have: {e}"));
    }

    fn settings(&mut self, seen: &Seen, was: &Applied) {
        let Some(i) = self.interface() else { return };
        let (name, has, operators) = (i.name.clone(), i.up, i.operators_up());
        if let Some(up) = changed(seen.up, was.up, has, operators, i.elsewhere.up.is_some()) {
            let made = self.commit(Op::SetState { name: name.clone(), up }, false, |e| {
                e.up = (up != operators).then_some(operators);
            });
            made.unwrap_or_else(|e| self.refused(if up { "the state up" } else { "the state down" }, &e));
        }
        let Some(i) = self.interface() else { return };
        let (has, operators) = (i.mtu, i.operators_mtu());
        let mtu = u16::try_from(seen.mtu).unwrap_or(u16::MAX);
        let set = match self.router.interface(i.hw()).filter(|_| i.companion) {
            // Linux alone has a say, but for what its interface carries.
            Some(hw) => Some(mtu.min(hw.mtu)).filter(|mtu| *mtu != has),
            None => changed(mtu, was.mtu, has, operators, i.elsewhere.mtu.is_some()),
        };
        if let Some(mtu) = set {
            let made = self.commit(Op::SetMtu { name: name.clone(), mtu }, false, |e| {
                e.mtu = (mtu != operators).then_some(operators);
            });
            made.unwrap_or_else(|e| self.refused(&format!("MTU {mtu}"), &e));
        }
        let (Some(i), Some(mac)) = (self.interface(), seen.mac) else { return };
        let has = part::mac(self.router, i);
        let (chosen, own) = (i.operators_mac(), i.own_mac);
        let operators = chosen.unwrap_or(own);
        if let Some(mac) = changed(mac, was.mac, has, operators, i.elsewhere.mac.is_some()) {
            let set = if mac == operators { chosen } else { Some(mac) };
            let made = self.commit(Op::SetMac { name, mac: set }, false, |e| {
                e.mac = (mac != operators).then_some(chosen);
            });
            made.unwrap_or_else(|e| self.refused(&format!("the MAC address {mac}"), &e));
        }
    }

    /// Puts the interface into the table of the VRF in which the device is, or, as in none, back into the operator's.
    fn tables(&mut self, seen: &Seen, was: &Applied) {
        let Some(i) = self.interface() else { return };
        let home = i.elsewhere.tables.into_iter().flatten().next();
        let refused = part::refused_table(self.router, self.index).cloned();
        if seen.master == was.master && refused.is_none() && (home.is_none() || seen.table.is_some()) {
            return;
        }
        let mut cannot = seen.table.and_then(|id| Some((id, self.move_to(seen.table).err()?)));
        // Better in the operator's than in that of a VRF that it has left.
        if let Some(home) = home.filter(|_| seen.table.is_none() || cannot.is_some())
            && let Err(e) = self.move_to(None)
        {
            cannot = cannot.or(Some((home, e)));
        }
        let cannot = cannot.map(|(id, e)| (id, e.message));
        if let Some((id, why)) = cannot.as_ref().filter(|_| cannot != refused) {
            let name = self.router.interface_name(self.index);
            let what = if seen.table.is_some() { "is in the VRF of" } else { "has left its VRF for" };
            self.router.note(
                true,
                format!("{name}: its pair in Linux {what} table {id}, and it cannot be there: {why}"),
            );
        }
        if let Some(p) = self.router.state_mut::<State>().and_then(|s| s.pairs.get_mut(&self.index)) {
            p.refused_table = cannot;
        }
    }

    /// Moves it with its addresses, which Linux's side keeps; `None`: into the operator's tables.
    fn move_to(&mut self, table: Option<u32>) -> Result<(), OpError> {
        let Some(i) = self.interface() else { return Ok(()) };
        let (mut moves, mut kept) = (vec![], [None; 2]);
        for v6 in [false, true] {
            let (is, operators) = (self.router.table_of_interface(i, v6), self.router.operators_table(i, v6));
            let id = table.unwrap_or(operators);
            kept[usize::from(v6)] = (id != operators).then_some(operators);
            moves.extend(
                (id != is).then(|| Op::MoveTable { name: i.name.clone(), table: RouteTable { v6, id } }),
            );
        }
        if moves.is_empty() && i.elsewhere.tables == kept {
            return Ok(());
        }
        // What is told to Linux meanwhile leaves its VRF alone.
        self.commit_all(moves, table.is_some(), |e| e.tables = kept)
    }

    /// Of Linux's link-local addresses the interface has one, unless the operator chose another: that which it has, or the first.
    fn link_local(&self, seen: &Seen) -> Option<IpNet> {
        let i = self.interface()?;
        let own = i.own_link_local.map(IpNet::V6);
        let linuxs = own.filter(|own| i.elsewhere.addresses.contains(own));
        if own.is_some() && linuxs.is_none() {
            return None;
        }
        let all = || seen.addresses.iter().filter(|n| is_link_local(n)).copied();
        if let Some(own) = linuxs.filter(|own| all().any(|n| n == *own)) {
            return Some(own);
        }
        let same = linuxs.is_none() && all().any(|n| i.link_local.is_some_and(|has| n.addr() == has));
        if same { None } else { all().next() }
    }

    /// The addresses that the interface is to have from Linux.
    fn wanted(&self, seen: &Seen, was: &Applied) -> BTreeSet<IpNet> {
        let Some(i) = self.interface() else { return BTreeSet::new() };
        let far = seen.addresses.iter().filter(|n| !is_link_local(n) && !was.addresses.contains(n)).copied();
        // One that stands alone in Linux (/32, /128) is one more of the prefix that the interface has around it: VRRP's are.
        let others = i.operators_addresses().chain(seen.addresses.iter().copied());
        let others: BTreeSet<IpNet> = others.filter(|o| !is_link_local(o)).map(|o| o.trunc()).collect();
        let lengths: BTreeSet<u8> = others.iter().map(IpNet::prefix_len).collect();
        let within = |n: IpNet| {
            if n.prefix_len() != n.max_prefix_len() {
                return n;
            }
            // There may be many addresses, but few lengths.
            let mut around = lengths.range(..n.prefix_len()).rev();
            let with = |length: &u8| IpNet::new(n.addr(), *length).ok();
            around.find_map(|length| with(length).filter(|o| others.contains(&o.trunc()))).unwrap_or(n)
        };
        let mut wanted: BTreeSet<IpNet> = far.map(within).collect();
        let operators: BTreeSet<IpNet> = i.operators_addresses().collect();
        wanted.retain(|n| !operators.contains(n));
        wanted.extend(self.link_local(seen));
        wanted
    }

    fn has(&self) -> BTreeSet<IpNet> {
        self.interface().map(|i| i.elsewhere.addresses.clone()).unwrap_or_default()
    }

    /// Takes away what Linux has no longer.
    fn old_addresses(&mut self, wanted: &BTreeSet<IpNet>) {
        for net in self.has().difference(wanted).copied() {
            if self.left == 0 {
                return;
            }
            let op = Op::DelAddress { name: self.router.interface_name(self.index), net };
            let made = self.commit(op, true, |e| _ = e.addresses.remove(&net));
            made.unwrap_or_else(|e| {
                let name = self.router.interface_name(self.index);
                self.router.note(true, format!("{name}: {net}, which is gone in Linux, stays: {e}"));
            });
        }
    }

    /// Gives it what Linux has.
    fn new_addresses(&mut self, wanted: &BTreeSet<IpNet>, again: bool) {
        let state = |router: &mut Router, index| {
            router
                .state_mut::<State>()
                .and_then(|s| s.pairs.get_mut(&index))
                .map(|p| std::mem::take(&mut p.refused))
        };
        let mut refused = state(self.router, self.index).unwrap_or_default();
        refused.retain(|net, _| wanted.contains(net));
        for net in wanted.difference(&self.has()).copied() {
            if self.left == 0 {
                break;
            }
            if !again && refused.contains_key(&net) {
                continue;
            }
            let op = Op::AddAddress { name: self.router.interface_name(self.index), net };
            match self.commit(op, true, |e| _ = e.addresses.insert(net)) {
                Ok(()) => _ = refused.remove(&net),
                Err(e) => {
                    // Once. Linux makes link-local addresses by itself, also where there can be none.
                    let why = e.message.clone();
                    if refused.insert(net, why.clone()) != Some(why) && !is_link_local(&net) {
                        self.refused(&format!("the address {net}"), &e);
                    }
                }
            }
        }
        if let Some(p) = self.router.state_mut::<State>().and_then(|s| s.pairs.get_mut(&self.index)) {
            p.refused = refused;
        }
    }
}

/// Makes on an interface what was changed in Linux on the device of its pair; `again`: also what was refused before. The device was
/// `seen` after it was asked what it had been `given`.
pub fn take_device(router: &mut Router, index: u32, seen: &Seen, given: &Given, again: bool) -> Made {
    let Some(pair) = router.state::<State>().and_then(|s| s.pairs.get(&index)) else { return Made::All };
    let was = pair.applied.clone();
    if !part::settings(router).nl_sync || was.ifindex != seen.ifindex {
        return Made::All;
    }
    if was != given.0 || !given.1 {
        return Made::Late;
    }
    let mut told = Told { router, index, left: TURN };
    // Without its last IPv6 address an MTU may be smaller, and an address wants the MTU that is.
    let wanted = told.wanted(seen, &was);
    told.old_addresses(&wanted);
    told.settings(seen, &was);
    told.tables(seen, &was);
    let wanted = told.wanted(seen, &was);
    told.new_addresses(&wanted, again);
    let made = if told.left == 0 { Made::Some } else { Made::All };
    // From here on Linux has what was seen: what it lost of the operator's, it gets again.
    let kept = |net: &IpNet| seen.addresses.contains(net) || !seen.up && net.addr().is_ipv6();
    if let Some(pair) = router.state_mut::<State>().and_then(|s| s.pairs.get_mut(&index)) {
        // What was made may have gone over to Linux already.
        let now = &mut pair.applied;
        now.addresses.retain(|net| kept(net) || !was.addresses.contains(net));
        if now.up == was.up {
            now.up = seen.up;
        }
        if now.master == was.master {
            now.master = seen.master;
        }
        if now.mtu == was.mtu {
            now.mtu = u16::try_from(seen.mtu).unwrap_or(u16::MAX);
        }
        if let Some(mac) = seen.mac.filter(|_| now.mac == was.mac) {
            now.mac = mac;
        }
    }
    sync::follow(router, index);
    made
}

/// The MAC address of a neighbor that Quiver has given the device of a pair.
pub fn given_neighbor(router: &Router, index: u32, address: IpAddr) -> Option<MacAddr> {
    router.state::<State>()?.pairs.get(&index)?.applied.neighbors.get(&address).copied()
}

/// Makes on an interface what Linux knows of a neighbor: what somebody has said is a static neighbor, what Linux has heard is believed where
/// nothing is known.
pub fn take_neighbor(router: &mut Router, index: u32, address: IpAddr, known: Known) {
    if !matches!(known, Known::Said(_)) {
        give_back(router, index, address);
    }
    let Some(i) = router.interface(index).filter(|_| part::settings(router).nl_sync) else { return };
    let (name, linuxs) = (i.name.clone(), i.elsewhere.neighbors.contains(&address));
    let on_link = is_link_local(&address.into()) || i.configured().any(|n| n.contains(&address));
    let has = router.neighbor(index, address);
    let fixed = has.as_ref().filter(|n| n.state == NeighborState::Static).and_then(|n| n.mac);
    let mut told = Told { router, index, left: TURN };
    if linuxs && !matches!(known, Known::Said(_)) {
        let op = Op::DelNeighbor { name: name.clone(), address };
        // It may be gone, with the address of its prefix.
        if told.commit(op, true, |e| _ = e.neighbors.remove(&address)).is_err()
            && let Some(i) = told.interface()
        {
            let mut what = i.elsewhere.clone();
            what.neighbors.remove(&address);
            let own = vec![Op::SetElsewhere { name: name.clone(), what }];
            let _ = told.router.with_companions(|r| r.commit(own));
        }
    }
    match known {
        // The operator's stays, and Linux has it again.
        Known::Said(mac) if fixed.is_some() && !linuxs => {
            if fixed != Some(mac) {
                give_back(router, index, address);
            }
        }
        Known::Said(mac) if fixed == Some(mac) => {}
        Known::Said(mac) => {
            let op = Op::SetNeighbor { name, address, mac };
            if let Err(e) = told.commit(op, false, |e| _ = e.neighbors.insert(address)) {
                told.refused(&format!("the neighbor {address}"), &e);
            }
        }
        Known::Learnt(mac) if on_link && has.is_none_or(|n| n.mac.is_none()) => {
            let heard =
                if address.is_ipv4() { Heard::ArpRequest { for_us: true } } else { Heard::NsWithSource };
            let now = router.now();
            router.heard_of_neighbor(now, index, address, Some(mac), heard);
        }
        Known::Learnt(_) | Known::Nothing => {}
    }
}

/// Linux has lost or changed a neighbor that Quiver has given it: it gets it again.
fn give_back(router: &mut Router, index: u32, address: IpAddr) {
    let pair = router.state_mut::<State>().and_then(|s| s.pairs.get_mut(&index));
    if pair.and_then(|p| p.applied.neighbors.remove(&address)).is_some() {
        sync::follow(router, index);
    }
}

/// Takes away the static neighbors of Linux's on an interface but these.
pub fn keep_neighbors(router: &mut Router, index: u32, keep: &BTreeSet<IpAddr>) {
    let Some(i) = router.interface(index) else { return };
    let gone: Vec<IpAddr> = i.elsewhere.neighbors.difference(keep).copied().collect();
    gone.into_iter().for_each(|a| take_neighbor(router, index, a, Known::Nothing));
}
