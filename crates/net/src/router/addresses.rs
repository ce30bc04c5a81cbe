//! Addresses of interfaces, with the routes and the link-local address that come with them.

use super::{OpError, Router, Source, Target};
use crate::interface;
use crate::neighbor::address::AddressState;
use crate::plane::table::FibIndex;
use ipnet::{IpNet, Ipv6Net};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

impl Router {
    /// The routes that come with an address.
    fn routes_of(&self, index: u32, net: IpNet) -> Vec<(IpNet, Target)> {
        let own = self.own_target(index, net.addr());
        let mut out: Vec<_> = own.map(|target| (IpNet::from(net.addr()), target)).into_iter().collect();
        if net.prefix_len() < net.max_prefix_len() {
            out.push((net.trunc(), Target::Glean(index)));
        }
        if let Some(a) = anycast(net).filter(|a| *a != net.addr()) {
            out.push((IpNet::from(a), Target::Local(index)));
        }
        if let IpNet::V4(n) = net {
            let sent =
                self.interfaces.get(index).is_some_and(|i| i.settings.get(&interface::DIRECTED_BROADCAST));
            let to_all = if sent { Target::DirectedBroadcast(index) } else { Target::Broadcast };
            for (a, target) in [(n.network(), Target::Broadcast), (n.broadcast(), to_all)] {
                if nobody(net, a.into()) && a != n.addr() {
                    out.push((IpNet::from(IpAddr::V4(a)), target));
                }
            }
        }
        out
    }

    /// What becomes of packets to an address of an interface. While detection runs they are nobody's, and when it has found
    /// another owner they are that one's: no route of the address's own (RFC 4862 sections 5.4 and 5.4.5).
    fn own_target(&self, index: u32, addr: IpAddr) -> Option<Target> {
        let here = || self.interfaces.get(index).into_iter().flat_map(|i| &i.addresses);
        let other = || here().any(|n| n.addr() != addr && anycast(*n) == Some(addr));
        match self.neighbors.addresses.state(index, addr) {
            Some(AddressState::Tentative) if !other() => Some(Target::Drop),
            Some(AddressState::Duplicate) if !other() => None,
            _ => Some(Target::Local(index)),
        }
    }

    /// The routes of an interface's IPv6 addresses follow what detection says of them.
    pub(super) fn sync_own_routes(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else { return };
        let (fib_index, all) = (i.table(true), i.addresses.clone());
        for addr in all.into_iter().map(|n| n.addr()).filter(IpAddr::is_ipv6) {
            let (net, want) = (IpNet::from(addr), self.own_target(index, addr));
            if self.route_at(fib_index, net, Source::Interface) == want {
                continue;
            }
            match want {
                Some(target) => {
                    if let Err(e) = self.set_route(fib_index, net, Source::Interface, target) {
                        self.note(true, e.message);
                    }
                }
                None => self.clear_route(fib_index, net, Source::Interface),
            }
        }
    }

    /// The routes of the broadcast addresses of an interface's prefixes follow what it does with such packets.
    pub(super) fn refresh_broadcast_routes(&mut self, index: u32) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get(index) else { return Ok(()) };
        let (addresses, fib_index) = (i.addresses.clone(), i.table(false));
        let routes: Vec<_> = addresses.into_iter().flat_map(|net| self.routes_of(index, net)).collect();
        for (prefix, target) in routes {
            if matches!(target, Target::DirectedBroadcast(_) | Target::Broadcast) {
                self.set_route(fib_index, prefix, Source::Interface, target)?;
            }
        }
        Ok(())
    }

    /// The FIB index of the table of an interface.
    pub(crate) fn table_of(&self, index: u32, v6: bool) -> FibIndex {
        self.interfaces.get(index).map_or(FibIndex::MAIN, |i| i.table(v6))
    }

    /// Adds an address with its routes and its link-local companion.
    pub(super) fn add_address(&mut self, index: u32, net: IpNet) -> Result<(), OpError> {
        if let Some(own) = link_local_of(net) {
            return self.choose_link_local(index, Some(own));
        }
        // First, as its routes hang on its state.
        let (now, mut actions) = (self.now(), vec![]);
        self.neighbors.addresses.added(now, index, net.addr(), &mut actions);
        let taken: Vec<IpNet> = self.interfaces.get(index).map(|i| i.addresses.clone()).unwrap_or_default();
        let mut done: Vec<IpNet> = vec![];
        let fib_index = self.table_of(index, net.addr().is_ipv6());
        for (prefix, target) in self.routes_of(index, net) {
            let shared = taken.iter().any(|t| self.routes_of(index, *t).iter().any(|(p, _)| *p == prefix));
            if shared {
                continue;
            }
            if let Err(e) = self.set_route(fib_index, prefix, Source::Interface, target) {
                for p in done {
                    self.clear_route(fib_index, p, Source::Interface);
                }
                self.neighbors.addresses.removed(index, net.addr(), &mut actions);
                return Err(e);
            }
            done.push(prefix);
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.addresses.push(net);
            let fib_index = i.table(net.addr().is_ipv6());
            self.interfaces.connect(fib_index, index, net);
        }
        if net.addr().is_ipv6() && self.interfaces.get(index).is_some_and(|i| i.link_local.is_none()) {
            self.set_link_local(index, true)?;
        }
        self.publish_interface(index);
        self.carry_out_addresses(actions);
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        self.tell_parts(|part, router| part.addresses_changed(router, index));
        Ok(())
    }

    /// The routes of all addresses of a family; of what several bring the first has it.
    fn connected_routes(&self, index: u32, v6: bool) -> (Vec<IpNet>, BTreeMap<IpNet, Target>) {
        let all = self.interfaces.get(index).into_iter().flat_map(|i| &i.addresses);
        let nets: Vec<IpNet> = all.filter(|n| n.addr().is_ipv6() == v6).copied().collect();
        let mut routes = BTreeMap::new();
        for (prefix, target) in nets.iter().flat_map(|net| self.routes_of(index, *net)) {
            routes.entry(prefix).or_insert(target);
        }
        (nets, routes)
    }

    /// Takes the routes of an interface's addresses and neighbors of a family out of its table, before it goes into another.
    pub(super) fn disconnect(&mut self, index: u32, v6: bool) {
        let fib_index = self.table_of(index, v6);
        let (nets, routes) = self.connected_routes(index, v6);
        nets.into_iter().for_each(|net| self.interfaces.disconnect(fib_index, index, net));
        routes.into_keys().for_each(|prefix| self.clear_route(fib_index, prefix, Source::Interface));
        let known: Vec<IpAddr> = self.neighbors.table.iter_interface(index).map(|n| n.addr).collect();
        for addr in known.into_iter().filter(|a| a.is_ipv6() == v6) {
            if self.route_at(fib_index, addr.into(), Source::Neighbor) == Some(Target::Neighbor(index, addr))
            {
                self.clear_route(fib_index, addr.into(), Source::Neighbor);
            }
        }
    }

    /// Sets the routes of its addresses in the table in which it is now.
    pub(super) fn connect(&mut self, index: u32, v6: bool) -> Result<(), OpError> {
        let fib_index = self.table_of(index, v6);
        let (nets, routes) = self.connected_routes(index, v6);
        nets.into_iter().for_each(|net| self.interfaces.connect(fib_index, index, net));
        let mut all = routes.into_iter();
        all.try_for_each(|(prefix, target)| self.set_route(fib_index, prefix, Source::Interface, target))
    }

    /// An address is about to go: with the last one of IPv6 goes the link-local address.
    pub(super) fn tell_of_last_address6(&mut self, index: u32, net: IpNet) {
        let Some(i) = self.interfaces.get(index) else { return };
        let others = i.configured().any(|n| n.addr().is_ipv6() && n != net);
        if net.addr().is_ipv6() && !others && i.configured().any(|n| n == net) {
            self.tell_parts(|part, router| part.link_local_goes(router, index, Some(net)));
        }
    }

    pub(super) fn del_address(&mut self, index: u32, net: IpNet) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        if i.own_link_local.is_some_and(|own| IpNet::V6(own) == net) {
            return self.choose_link_local(index, None);
        }
        let Some(at) = i.addresses.iter().position(|a| *a == net) else {
            return Err(OpError::new(format!("{} does not have the address {net}", i.name)));
        };
        i.addresses.remove(at);
        let (left, fib_index) = (i.addresses.clone(), i.table(net.addr().is_ipv6()));
        self.interfaces.disconnect(fib_index, index, net);
        for (prefix, _) in self.routes_of(index, net) {
            match left.iter().flat_map(|t| self.routes_of(index, *t)).find(|(p, _)| *p == prefix) {
                Some((_, target)) => {
                    let _ = self.set_route(fib_index, prefix, Source::Interface, target);
                }
                None => {
                    self.clear_route(fib_index, prefix, Source::Interface);
                }
            }
        }
        let mut out = vec![];
        self.neighbors.addresses.removed(index, net.addr(), &mut out);
        self.carry_out_addresses(out);
        if self.interfaces.get(index).is_some_and(|i| !i.has_ip6()) {
            self.set_link_local(index, false)?;
        }
        self.flush_neighbors(index, net, &left);
        self.publish_interface(index);
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        self.tell_parts(|part, router| part.addresses_changed(router, index));
        Ok(())
    }

    /// Takes the operator's link-local address in place of the one made from the MAC address, or that one again.
    fn choose_link_local(&mut self, index: u32, own: Option<Ipv6Net>) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        let had = i.link_local.is_some();
        if had {
            self.tell_parts(|part, router| part.link_local_goes(router, index, None));
            self.set_link_local(index, false)?;
        }
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        i.own_link_local = own;
        if i.has_ip6() {
            self.set_link_local(index, true)?;
        }
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        self.tell_parts(|part, router| part.addresses_changed(router, index));
        Ok(())
    }

    pub(super) fn set_link_local(&mut self, index: u32, on: bool) -> Result<(), OpError> {
        let mac = self.mac_of(index);
        let now = self.now();
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        let mut out = vec![];
        if on {
            let a = i.own_link_local.map_or_else(|| packet::ip6::addr::link_local(mac), |own| own.addr());
            i.link_local = Some(a);
            self.neighbors.addresses.added(now, index, a.into(), &mut out);
        } else if let Some(a) = i.link_local.take() {
            self.neighbors.addresses.removed(index, a.into(), &mut out);
        }
        self.carry_out_addresses(out);
        self.publish_interface(index);
        Ok(())
    }

    pub(super) fn set_usable6(&mut self, index: u32, addr: Ipv6Addr, usable: bool) {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.usable6.retain(|a| *a != addr);
            if usable {
                i.usable6.push(addr);
            }
        }
        self.publish_interface(index);
        if usable && self.interfaces.get(index).is_some_and(|i| i.link_local == Some(addr)) {
            // Without it nothing could be advertised.
            self.tell_parts(|part, router| part.addresses_changed(router, index));
        }
        self.sync_own_routes(index);
        // Those who use this address, too; it cannot fail, for no address comes or goes.
        let _ = self.follow_lent(index);
    }
}

/// The subnet-router anycast address of an IPv6 prefix, which every router on its link has (RFC 4291 section 2.6.1). A prefix of
/// two routers has none (RFC 6164), nor has one of a single address; a link-local one is of no use to anybody.
pub fn anycast(net: IpNet) -> Option<IpAddr> {
    let IpNet::V6(n) = net else { return None };
    let a = n.network();
    let useful = n.prefix_len() < 127 && !a.is_unspecified() && !a.is_multicast();
    (useful && !n.addr().is_unicast_link_local()).then_some(a.into())
}

/// Whether an address of a prefix is no host's: IPv4's network and broadcast address, unless the prefix holds just two.
pub fn nobody(net: IpNet, addr: IpAddr) -> bool {
    net.addr().is_ipv4() && net.prefix_len() < 31 && (addr == net.network() || addr == net.broadcast())
}

fn link_local_of(net: IpNet) -> Option<Ipv6Net> {
    match net {
        IpNet::V6(n) if n.addr().is_unicast_link_local() => Some(n),
        _ => None,
    }
}
