//! Settings of an interface that are not the operator's but Linux's, whose side of a pair was changed. What the operator said is kept:
//! a dump writes it, and it comes back when Linux's goes. Whoever sets something last has it.

use super::interfaces::Interfaces;
use super::{IfState, Op, OpError, RouteTable, Router};
use crate::neighbor::State;
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

/// What of an interface is Linux's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The operator's state, where Linux's is in force.
    pub up: Option<bool>,
    /// The operator's MTU, where Linux's is in force.
    pub mtu: Option<u16>,
    /// The operator's MAC address, if any, where Linux's is in force.
    pub mac: Option<Option<MacAddr>>,
    /// The operator's tables, IPv4's and IPv6's, where that of Linux's VRF is in force.
    pub tables: [Option<u32>; 2],
    /// Addresses that Linux alone has given it.
    pub addresses: BTreeSet<IpNet>,
    /// Static neighbors that Linux alone has given it.
    pub neighbors: BTreeSet<IpAddr>,
}

/// What of an interface was Linux's, and what gives it that.
#[derive(Debug, Default)]
pub(crate) struct HadElsewhere {
    what: Elsewhere,
    ops: Vec<Op>,
    /// Static neighbors of the operator's in prefixes of Linux's, which go with those.
    operators: Vec<(IpAddr, MacAddr)>,
}

impl IfState {
    /// The state as the operator has it.
    pub fn operators_up(&self) -> bool {
        self.elsewhere.up.unwrap_or(self.up)
    }

    /// The MTU as the operator has it.
    pub fn operators_mtu(&self) -> u16 {
        self.elsewhere.mtu.unwrap_or(self.mtu)
    }

    /// The MAC address that the operator chose, if any.
    pub fn operators_mac(&self) -> Option<MacAddr> {
        self.elsewhere.mac.unwrap_or(self.mac_set.then_some(self.mac))
    }

    /// The addresses that the operator gave it.
    pub fn operators_addresses(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.configured().filter(|net| !self.elsewhere.addresses.contains(net))
    }
}

impl Interfaces {
    fn change_elsewhere<T>(&mut self, index: u32, change: impl FnOnce(&mut Elsewhere) -> T) -> Option<T> {
        let i = self.get_mut(index)?;
        let done = change(&mut i.elsewhere);
        match i.elsewhere.tables {
            [None, None] => _ = self.away.remove(&index),
            _ => _ = self.away.insert(index),
        }
        Some(done)
    }
}

impl Router {
    /// The number of the table of a family in which the operator has an interface.
    pub fn operators_table(&self, i: &IfState, v6: bool) -> u32 {
        i.elsewhere.tables[usize::from(v6)].unwrap_or_else(|| self.table_of_interface(i, v6))
    }

    /// The interfaces that come back into a table when Linux's VRF lets them go.
    pub(super) fn come_back_to(&self, table: RouteTable) -> impl Iterator<Item = &IfState> {
        let away = self.interfaces.away.iter().filter_map(|index| self.interface(*index));
        away.filter(move |i| i.elsewhere.tables[usize::from(table.v6)] == Some(table.id))
    }

    /// Says what of an interface is not the operator's.
    pub(super) fn set_elsewhere(&mut self, name: String, what: Elsewhere) -> Result<Vec<Op>, OpError> {
        let index = self.named(&name)?.index;
        let was = self.interfaces.change_elsewhere(index, |e| std::mem::replace(e, what));
        Ok(was.map(|what| Op::SetElsewhere { name, what }).into_iter().collect())
    }

    /// The operator sets something of an interface, which is his from then on; what undoes that.
    pub(super) fn operator_sets(&mut self, index: u32, change: impl FnOnce(&mut Elsewhere)) -> Vec<Op> {
        let Some(was) = self.interfaces.get(index).map(|i| i.elsewhere.clone()) else { return vec![] };
        self.interfaces.change_elsewhere(index, change);
        let Some(i) = self.interfaces.get(index) else { return vec![] };
        let name = i.name.clone();
        (i.elsewhere != was).then_some(Op::SetElsewhere { name, what: was }).into_iter().collect()
    }

    /// A link-local address of Linux's goes for another one, for there is one; what undoes that.
    pub(super) fn give_way(&mut self, index: u32, to: IpNet) -> Result<Vec<Op>, OpError> {
        let far = !matches!(to.addr(), IpAddr::V6(a) if a.is_unicast_link_local());
        let Some(i) = self.interfaces.get(index).filter(|_| !far) else { return Ok(vec![]) };
        let own = i.own_link_local.map(IpNet::V6).filter(|own| i.elsewhere.addresses.contains(own));
        let Some((net, name)) = own.map(|own| (own, i.name.clone())) else { return Ok(vec![]) };
        let mut undo = self.operator_sets(index, |e| _ = e.addresses.remove(&net));
        undo.extend(self.apply(Op::DelAddress { name, net })?);
        Ok(undo)
    }

    /// Whether an address is Linux's, and so not the operator's to take away.
    pub(super) fn check_not_elsewhere(&self, name: &str, net: IpNet) -> Result<(), OpError> {
        if self.named(name)?.elsewhere.addresses.contains(&net) {
            return Err(OpError::new(format!(
                "{name}: {net} was given in Linux, where it can be taken away (`ip address del`), or `lcp nl-sync off`"
            )));
        }
        Ok(())
    }

    /// What an interface has elsewhere, so that it can have it again.
    pub(crate) fn has_elsewhere(&self, index: u32) -> HadElsewhere {
        let Some(i) = self.interfaces.get(index) else { return HadElsewhere::default() };
        let (e, name) = (&i.elsewhere, || i.name.clone());
        let mut ops: Vec<Op> = vec![];
        ops.extend(e.up.map(|_| Op::SetState { name: name(), up: i.up }));
        ops.extend(e.mtu.map(|_| Op::SetMtu { name: name(), mtu: i.mtu }));
        ops.extend(e.mac.as_ref().map(|_| Op::SetMac { name: name(), mac: Some(i.mac) }));
        ops.extend([false, true].into_iter().filter(|v6| e.tables[usize::from(*v6)].is_some()).map(|v6| {
            let table = RouteTable { v6, id: self.table_of_interface(i, v6) };
            Op::MoveTable { name: name(), table }
        }));
        ops.extend(e.addresses.iter().map(|net| Op::AddAddress { name: name(), net: *net }));
        let mut what = e.clone();
        what.neighbors.retain(|address| {
            let mac = self.neighbor(index, *address).and_then(|n| n.mac);
            ops.extend(mac.map(|mac| Op::SetNeighbor { name: name(), address: *address, mac }));
            mac.is_some()
        });
        let goes = |address: &IpAddr| {
            !e.neighbors.contains(address) && e.addresses.iter().any(|net| net.contains(address))
        };
        let operators = self.static_neighbors(index).filter(|(address, _)| goes(address)).collect();
        HadElsewhere { what, ops, operators }
    }

    /// An interface has that again. What cannot be is told in the log.
    pub(crate) fn restore_elsewhere(&mut self, index: u32, had: HadElsewhere) {
        let HadElsewhere { mut what, ops, operators } = had;
        for op in ops {
            let again = op.clone();
            let Err(e) = self.with_companions(|r| r.apply(op)) else { continue };
            match again {
                Op::SetState { .. } => what.up = None,
                Op::SetMtu { .. } => what.mtu = None,
                Op::SetMac { .. } => what.mac = None,
                Op::MoveTable { table, .. } => what.tables[usize::from(table.v6)] = None,
                Op::AddAddress { net, .. } => _ = what.addresses.remove(&net),
                Op::SetNeighbor { address, .. } => _ = what.neighbors.remove(&address),
                _ => {}
            }
            self.note(true, e.message);
        }
        for (address, mac) in operators {
            // One that was set since stays.
            let Some(i) = self.interface(index).filter(|_| !self.is_static_neighbor(index, address)) else {
                continue;
            };
            let op = Op::SetNeighbor { name: i.name.clone(), address, mac };
            if let Err(e) = self.with_companions(|r| r.apply(op)) {
                self.note(true, e.message);
            }
        }
        self.interfaces.change_elsewhere(index, |e| *e = what);
    }

    fn is_static_neighbor(&self, index: u32, address: IpAddr) -> bool {
        self.neighbor(index, address).is_some_and(|n| n.state == State::Static)
    }

    /// Takes one thing out of what an interface has elsewhere; what is to be done, so that it has what the operator said again.
    pub(crate) fn next_elsewhere(&mut self, index: u32) -> Option<Op> {
        let own = self.interfaces.get(index)?.name.clone();
        let name = || own.clone();
        let next = |what: &mut Elsewhere| {
            let table = |what: &mut Elsewhere, v6: bool| {
                let id = what.tables[usize::from(v6)].take()?;
                Some(Op::MoveTable { name: name(), table: RouteTable { v6, id } })
            };
            let neighbor = what.neighbors.pop_first();
            neighbor
                .map(|address| Op::DelNeighbor { name: name(), address })
                .or_else(|| what.addresses.pop_first().map(|net| Op::DelAddress { name: name(), net }))
                .or_else(|| table(what, false))
                .or_else(|| table(what, true))
                .or_else(|| what.mac.take().map(|mac| Op::SetMac { name: name(), mac }))
                .or_else(|| what.mtu.take().map(|mtu| Op::SetMtu { name: name(), mtu }))
                .or_else(|| what.up.take().map(|up| Op::SetState { name: name(), up }))
        };
        self.interfaces.change_elsewhere(index, next)?
    }

    /// An interface has what the operator said again, `within` a transaction or by transactions of its own. What cannot be is told
    /// in the log. Ends when it is time to; whether all is done.
    pub(crate) fn drop_elsewhere(&mut self, index: u32, within: bool, end: Option<Instant>) -> bool {
        while let Some(op) = self.next_elsewhere(index) {
            // A neighbor may be gone with its address.
            let gone = matches!(op, Op::DelNeighbor { .. });
            let done = if within { self.apply(op).map(drop) } else { self.commit(vec![op]) };
            if let Err(e) = done
                && !gone
            {
                self.note(true, e.message);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::RouterConfig;
    use graph::{PoolConfig, PoolMemory};

    #[test]
    fn what_goes_with_linuxs_addresses_comes_back() {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let name = || String::from("loop0");
        let net: IpNet = "10.1.0.1/24".parse().unwrap();
        let neighbor = |text: &str, n: u8| {
            let mac = MacAddr([2, 0, 0, 0, 0, n]);
            Op::SetNeighbor { name: name(), address: text.parse().unwrap(), mac }
        };
        let what = Elsewhere { addresses: [net].into(), ..Elsewhere::default() };
        let own = Op::SetElsewhere { name: name(), what: what.clone() };
        let first = vec![Op::CreateLoopback { instance: None, mac: None }];
        r.commit(first).unwrap();
        r.with_companions(|r| r.commit(vec![Op::AddAddress { name: name(), net }, own])).unwrap();
        r.commit(vec![neighbor("10.1.0.8", 8), neighbor("10.1.0.9", 9)]).unwrap();
        let index = r.interface_index("loop0").unwrap();
        let all = |r: &Router| r.static_neighbors(index).collect::<Vec<_>>();
        let was = all(&r);
        assert_eq!(was.len(), 2);
        let had = r.has_elsewhere(index);
        assert!(r.with_companions(|r| r.drop_elsewhere(index, false, None)));
        assert!(all(&r).is_empty());
        r.restore_elsewhere(index, had);
        assert_eq!(all(&r), was);
        assert_eq!(r.interface(index).unwrap().elsewhere, what);
    }

    #[test]
    fn the_version_counts_what_a_document_says() {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let name = || String::from("loop0");
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let add = |text: &str| Op::AddAddress { name: name(), net: net(text) };
        let mut version = r.version();
        let mut counts = |r: &Router, more: u64, what: &str| {
            assert_eq!(r.version() - version, more, "{what}");
            version = r.version();
        };
        r.commit(vec![Op::CreateLoopback { instance: None, mac: None }, add("10.0.0.1/24")]).unwrap();
        counts(&r, 1, "the operator's, and one transaction");
        assert!(r.commit(vec![add("10.0.0.1/24"), add("10.0.0.1/16")]).is_err());
        counts(&r, 0, "refused");
        // Linux's: the dump of the interface is the same.
        let changes = r.changes();
        let what =
            Elsewhere { addresses: [net("10.1.0.1/24")].into(), up: Some(false), ..Elsewhere::default() };
        let linuxs = vec![
            add("10.1.0.1/24"),
            Op::SetState { name: name(), up: true },
            Op::SetElsewhere { name: name(), what: what.clone() },
        ];
        r.with_companions(|r| r.commit(linuxs)).unwrap();
        counts(&r, 0, "Linux's");
        assert_eq!(r.changes(), changes + 1);
        // A neighbor of the operator's goes with an address of Linux's.
        let address = "10.1.0.9".parse().unwrap();
        r.commit(vec![Op::SetNeighbor { name: name(), address, mac: MacAddr([2, 0, 0, 0, 0, 9]) }]).unwrap();
        counts(&r, 1, "the operator's neighbor");
        let del = vec![
            Op::SetElsewhere { name: name(), what: Elsewhere { addresses: BTreeSet::new(), ..what } },
            Op::DelAddress { name: name(), net: net("10.1.0.1/24") },
        ];
        r.with_companions(|r| r.commit(del)).unwrap();
        counts(&r, 1, "the neighbor went");
        r.with_companions(|r| r.commit(vec![Op::Delete { name: name() }])).unwrap();
        counts(&r, 1, "an interface went");
    }
}
