//! What an operation must meet before it is applied.

use super::addresses::{anycast, nobody};
use super::{Encap, IfState, Kind, OpError, RoutePath, RouteTable, Router, Target};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr};
use tables::groups::GroupId;

/// The most paths of a route, a label or a tunnel.
pub const MOST_PATHS: usize = tables::groups::MAX_BUCKETS;

impl Router {
    pub(super) fn check_target(&self, table: u32, prefix: IpNet, target: &Target) -> Result<(), OpError> {
        let paths = match target {
            Target::Paths(p) => p,
            Target::Drop | Target::Unreachable | Target::Prohibit => return Ok(()),
            _ => return Err(OpError::new(format!("route {prefix}: not a target for a static route"))),
        };
        if paths.is_empty() || paths.len() > MOST_PATHS {
            return Err(OpError::new(format!(
                "route {prefix}: {} paths, there must be 1 to {MOST_PATHS}",
                paths.len()
            )));
        }
        for p in paths {
            self.check_path(table, prefix, p).map_err(|e| OpError::new(format!("route {prefix}: {e}")))?;
        }
        Ok(())
    }

    fn check_path(&self, table: u32, prefix: IpNet, p: &RoutePath) -> Result<(), String> {
        let v6 = prefix.network().is_ipv6();
        if p.weight == 0 {
            return Err("a weight is 1 to 255".into());
        }
        let least = p.labels.least_mtu(v6);
        if p.mtu != 0 && p.mtu < least {
            return Err(format!("mtu {}: it is {least} to {} bytes", p.mtu, u16::MAX));
        }
        if p.mtu != 0 && p.address.is_none() && p.interface.is_none() {
            return Err("mtu: where packets are looked up once more, that route says it".into());
        }
        if let Some(i) = p.interface {
            if self.interface(i).is_none_or(|i| i.kind == Kind::Local) {
                return Err("there is no such interface".into());
            }
            if p.table.is_some() {
                return Err("a path leads over an interface or into a table, not both".into());
            }
        }
        p.labels.check()?;
        if p.lookup != super::Lookup::Own {
            return Err("only a label leads into a table of another kind".into());
        }
        let Some(a) = p.address else {
            let tunnel = p.interface.is_some_and(|i| self.group_behind(i).is_some());
            if !p.labels.is_none() && !tunnel {
                return Err("labels are put on for a neighbor: name its address".into());
            }
            return match (p.interface.and_then(|i| self.interface(i)), p.table) {
                (Some(i), _) => self.check_routed(i).map_err(|e| e.message),
                (None, None) => Err("a path needs an address, an interface or a table".into()),
                (None, Some(id)) if id == table => {
                    Err(format!("{} leads into itself", RouteTable { v6, id }))
                }
                (None, Some(id)) => {
                    self.fib_index_of(RouteTable { v6, id }).map(|_| ()).map_err(|e| e.message)
                }
            };
        };
        // Implicit null alone would send plain IPv6 as well.
        if a.is_ipv4() && v6 && p.labels.pops() {
            return Err(format!("{a} cannot be the next hop of an IPv6 route without labels"));
        }
        self.check_neighbor(table, a, p)
    }

    /// Why an interface cannot have addresses; nothing where it can.
    pub(super) fn takes_no_addresses(&self, interface: u32) -> Option<String> {
        let name = self.interface_name(interface);
        self.group_behind(interface).map(|_| {
            format!("{name} carries IP packets of routes over it alone: make it with l2-only for frames and addresses")
        })
    }

    /// Why an interface cannot have frames of its own; nothing where it can.
    pub(crate) fn takes_no_frames(&self, interface: u32) -> Option<String> {
        let packets = self.interface(interface).filter(|i| i.is_point_to_point());
        let packets = packets.map(|i| format!("{} carries packets and no frames", i.name));
        packets.or_else(|| self.takes_no_addresses(interface))
    }

    /// Whether packets over an interface go to one other end.
    pub(super) fn is_point_to_point(&self, interface: u32) -> bool {
        self.interface(interface).is_some_and(IfState::is_point_to_point)
    }

    /// Whether an address can be the next hop of a path of a table's route.
    pub(crate) fn check_neighbor(&self, table: u32, a: IpAddr, p: &RoutePath) -> Result<(), String> {
        if a.is_unspecified() || a.is_multicast() || a.is_loopback() || a == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(format!("{a} is not the address of a neighbor"));
        }
        if let Some(i) = p.interface.and_then(|i| self.interface(i)) {
            self.check_routed(i).map_err(|e| e.message)?;
        }

        let (own, broadcast) = match p.interface {
            Some(i) => {
                let nets = self.interface(i).map(|i| &i.addresses[..]).unwrap_or_default();
                let own = nets.iter().any(|n| n.addr() == a || anycast(*n) == Some(a));
                let broadcast = nets.iter().find(|n| nobody(**n, a)).map(IpNet::trunc);
                (own, broadcast)
            }
            None => {
                if matches!(a, IpAddr::V6(a) if a.is_unicast_link_local()) {
                    return Err(format!("next hop {a} is link-local: name its interface"));
                }
                let fib_index =
                    self.fib_index_of(RouteTable::of(a, p.table.unwrap_or(table))).map_err(|e| e.message)?;
                let (target, broadcast) = self.connected_around(fib_index, a);
                (matches!(target, Some(Target::Local(_))), broadcast)
            }
        };
        match broadcast {
            _ if own => Err(format!("next hop {a} is the router's own address")),
            Some(net) => {
                Err(format!("next hop {a} is the network or broadcast address of {net}, not a host's"))
            }
            None => Ok(()),
        }
    }

    /// Where packets for an address go, and the connected prefix of which it is the network or broadcast address.
    fn connected_around(&self, fib_index: FibIndex, a: IpAddr) -> (Option<&Target>, Option<IpNet>) {
        let Some(vrf) = self.fibs.get(a.is_ipv6(), fib_index) else { return (None, None) };
        let target = vrf.rib.longest(a).and_then(|(_, g)| self.nexthops.target(g));
        if !matches!(target, Some(Target::Broadcast | Target::DirectedBroadcast(_))) {
            return (target, None);
        }
        (target, vrf.rib.covering(a).iter().rev().map(|(net, _)| *net).find(|n| n.prefix_len() < 32))
    }

    pub(super) fn check_address(&self, name: &str, net: IpNet) -> Result<(), OpError> {
        let i = self.named(name)?;
        let a = net.addr();
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        if let Some(why) = self.takes_no_addresses(i.index) {
            return Err(OpError::new(why));
        }
        if i.configured().any(|n| n == net) {
            return fail(format!("has the address {net} already"));
        }
        // Class E and 0/8 as well: `ip4-input` drops packets from and to such addresses.
        let reserved = matches!(a, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
        if reserved || a.is_unspecified() || a.is_multicast() || a.is_loopback() {
            return fail(format!("{a} cannot be the address of an interface"));
        }
        if let IpNet::V4(n) = net
            && n.prefix_len() < 31
            && (n.addr() == n.network() || n.addr() == n.broadcast())
        {
            return fail(format!("{a} is the network or broadcast address of {}", n.trunc()));
        }
        if let Some(lender) = i.unnumbered {
            let lender = self.interface_name(lender);
            return fail(format!(
                "uses the addresses of {lender}: undo that first (set interface unnumbered del {name})"
            ));
        }
        if let Some(m) = i.membership.filter(|m| !m.bvi) {
            let id = m.bridge;
            return fail(format!(
                "is in bridge domain {id}, whose addresses stand on its BVI: take it out first"
            ));
        }
        self.check_routed(i)?;
        self.check_nobody_has(i, a)?;
        if let Kind::Sub { encap, .. } = i.kind
            && !matches!(
                encap,
                Encap::Untagged
                    | Encap::Tags { exact: true, outer: Some(_), inner: None | Some(Some(_)), .. }
            )
        {
            return fail("only a sub-interface with exact-match can have addresses".to_string());
        }
        if a.is_ipv6() && i.mtu < 1280 {
            return fail(format!("MTU {} is too small for IPv6, which needs 1280 bytes", i.mtu));
        }
        if a.is_ipv6() {
            self.check_borrowers_carry(i.index)?;
        }
        if matches!(a, IpAddr::V6(a) if a.is_unicast_link_local()) {
            return match i.own_link_local {
                Some(has) => {
                    fail(format!("has the link-local address {has}, and may have one: remove it first"))
                }
                None => Ok(()),
            };
        }
        self.check_free(i, i.table(a.is_ipv6()), net)?;
        match i.elsewhere.tables[usize::from(a.is_ipv6())] {
            // Where it comes back to, the operator's address comes along.
            Some(id) if !self.changes_companions() => {
                self.check_free(i, self.fib_index_of(RouteTable::of(a, id))?, net)
            }
            _ => Ok(()),
        }
    }

    /// Refuses an address of an interface in the table of a FIB index in which others have it, or one of its prefix, or lead to it.
    pub(super) fn check_free(&self, i: &IfState, fib_index: FibIndex, net: IpNet) -> Result<(), OpError> {
        let (a, name) = (net.addr(), &i.name);
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        let ends =
            [net.network(), net.broadcast()].into_iter().filter(|e| nobody(net, *e)).chain(anycast(net));
        for end in ends.filter(|e| *e != a) {
            if self.is_next_hop(i.index, fib_index, end) {
                return fail(format!(
                    "{end}, which {net} makes nobody's or the router's own, is the next hop of routes or tunnels: change them first"
                ));
            }
        }
        if let Some(connected) = self.interfaces.connected(fib_index, a.is_ipv6()) {
            if let Some(o) = connected.owner(a) {
                return fail(format!("{a} is an address of {} already", self.interface_name(o)));
            }
            if let Some((prefix, o)) = connected.overlapping(i.index, net)
                && let Some(o) = self.interface(o)
            {
                let with = o.addresses.iter().find(|t| t.trunc() == prefix).unwrap_or(&prefix);
                if o.index == i.index {
                    return fail(format!(
                        "{net} overlaps its address {with}, of another prefix: addresses of one interface share a prefix \
                         with the same length, or do not overlap"
                    ));
                }
                return fail(format!("{net} overlaps {with} on {}", o.name));
            }
        }
        if self.changes_companions() {
            return Ok(());
        }
        let table = RouteTable { v6: a.is_ipv6(), id: self.table_at(a.is_ipv6(), fib_index) };
        let overlaps = |o: &IpNet| o.contains(&net.trunc()) || net.contains(&o.trunc());
        let mut others = self.come_back_to(table).filter(|o| o.index != i.index);
        let with = |o: &IfState| Some((o.operators_addresses().find(overlaps)?, o.name.clone()));
        others.find_map(with).map_or(Ok(()), |(with, o)| {
            fail(format!("{net} overlaps {with} on {o}, which Linux's VRF has taken out of {table}"))
        })
    }

    /// Whether routes or MPLS tunnels have a next hop on an interface, or look it up in the table of a FIB index.
    fn is_next_hop(&self, index: u32, fib_index: FibIndex, addr: IpAddr) -> bool {
        let looked_up = self.fibs.get(addr.is_ipv6(), fib_index).and_then(|v| v.watched.get(&addr));
        let looked_up = looked_up.into_iter().flat_map(|w| w.groups.iter().copied());
        // What is looked up in another table is another's.
        let here = |p: &RoutePath| p.address == Some(addr) && p.interface.is_none_or(|i| i == index);
        let named = self.nexthops.over(&[index]).into_iter().chain(looked_up);
        // Groups may be held for a moment by what has gone already.
        let in_use = |id: GroupId, routes: u32| routes > 0 || self.holder_of(id).is_some();
        named.filter_map(|id| Some((id, self.group(id)?))).any(|(id, g)| {
            matches!(&g.target, Target::Paths(paths) if paths.iter().any(here)) && in_use(id, g.routes)
        })
    }

    pub(super) fn check_xconnect(&self, name: &str, peer: Option<&str>) -> Result<(), OpError> {
        let Some(peer) = peer else { return Ok(()) };
        let (a, b) = (self.named(name)?, self.named(peer)?);
        if a.index == b.index {
            return Err(OpError::new(format!("{name} cannot be cross-connected to itself")));
        }
        for i in [a, b] {
            if let Some(why) = self.takes_no_frames(i.index) {
                return Err(OpError::new(why));
            }
            self.check_own_frames(i)?;
            if let Some(m) = i.membership {
                let id = m.bridge;
                return Err(OpError::new(format!("{} is in bridge domain {id}: take it out first", i.name)));
            }
            if i.kind == Kind::Loopback {
                return Err(OpError::new(format!("{} is a loopback: it cannot be cross-connected", i.name)));
            }
            if let Some(has) = self.layer3(i) {
                return Err(OpError::new(format!("{} cannot be cross-connected: it {has}", i.name)));
            }
        }
        if !a.subs.is_empty() {
            return Err(OpError::new(format!("{name} has sub-interfaces: cross-connect those")));
        }
        if let Some(o) = self.interfaces.xconnected.get(&b.index).filter(|o| **o != a.index) {
            let name = self.interface_name(*o);
            return Err(OpError::new(format!("{peer} is the target of {name} already")));
        }
        Ok(())
    }
}
