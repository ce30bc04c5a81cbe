//! Addresses of interfaces, with the routes and the link-local address that come with them.

use super::{OpError, Router, Source, Target};
use ipnet::{IpNet, Ipv6Net};
use std::net::{IpAddr, Ipv6Addr};

impl Router {
    /// The routes that come with an address.
    fn routes_of(index: u32, net: IpNet) -> Vec<(IpNet, Target)> {
        let mut out = vec![(IpNet::from(net.addr()), Target::Local(index))];
        if net.prefix_len() < net.max_prefix_len() {
            out.push((net.trunc(), Target::Glean(index)));
        }
        if let IpNet::V4(n) = net
            && n.prefix_len() < 31
        {
            for a in [n.network(), n.broadcast()] {
                if a != n.addr() {
                    out.push((IpNet::from(IpAddr::V4(a)), Target::Broadcast));
                }
            }
        }
        out
    }

    /// The place of the table of an interface.
    pub(super) fn table_of(&self, index: u32, v6: bool) -> u32 {
        self.interfaces.get(index).map_or(0, |i| i.table(v6))
    }

    /// Adds an address with its routes and its link-local companion.
    pub(super) fn add_address(&mut self, index: u32, net: IpNet) -> Result<(), OpError> {
        if let Some(own) = link_local_of(net) {
            return self.choose_link_local(index, Some(own));
        }
        let taken: Vec<IpNet> = self.interfaces.get(index).map(|i| i.addresses.clone()).unwrap_or_default();
        let mut done: Vec<IpNet> = vec![];
        let place = self.table_of(index, net.addr().is_ipv6());
        for (prefix, target) in Self::routes_of(index, net) {
            let shared = taken.iter().any(|t| Self::routes_of(index, *t).iter().any(|(p, _)| *p == prefix));
            if shared {
                continue;
            }
            if let Err(e) = self.set_route(place, prefix, Source::Interface, target) {
                for p in done {
                    self.clear_route(place, p, Source::Interface);
                }
                return Err(e);
            }
            done.push(prefix);
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.addresses.push(net);
            let place = i.table(net.addr().is_ipv6());
            self.interfaces.connect(place, index, net);
        }
        if net.addr().is_ipv6() && self.interfaces.get(index).is_some_and(|i| i.link_local.is_none()) {
            self.set_link_local(index, true)?;
        }
        let mut out = vec![];
        let now = self.now();
        self.addresses.added(now, index, net.addr(), &mut out);
        self.publish_interface(index);
        self.carry_out_addresses(out);
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        self.adverts.changed(now, index);
        Ok(())
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
        let (left, place) = (i.addresses.clone(), i.table(net.addr().is_ipv6()));
        self.interfaces.disconnect(place, index, net);
        for (prefix, _) in Self::routes_of(index, net) {
            match left.iter().flat_map(|t| Self::routes_of(index, *t)).find(|(p, _)| *p == prefix) {
                Some((_, target)) => {
                    let _ = self.set_route(place, prefix, Source::Interface, target);
                }
                None => {
                    self.clear_route(place, prefix, Source::Interface);
                }
            }
        }
        let mut out = vec![];
        self.addresses.removed(index, net.addr(), &mut out);
        self.carry_out_addresses(out);
        if self.interfaces.get(index).is_some_and(|i| !i.has_ip6()) {
            self.set_link_local(index, false)?;
        }
        self.flush_neighbors(index, net, &left);
        self.publish_interface(index);
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        let now = self.now();
        self.adverts.changed(now, index);
        Ok(())
    }

    /// Takes the operator's link-local address in place of the one made from the MAC address, or that one again.
    fn choose_link_local(&mut self, index: u32, own: Option<Ipv6Net>) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        let had = i.link_local.is_some();
        if had {
            self.end_adverts(index, None);
            self.set_link_local(index, false)?;
        }
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        i.own_link_local = own;
        if i.has_ip6() {
            self.set_link_local(index, true)?;
        }
        self.refresh_groups(&[index]);
        self.follow_lent(index)?;
        let now = self.now();
        self.adverts.changed(now, index);
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
            self.addresses.added(now, index, a.into(), &mut out);
        } else if let Some(a) = i.link_local.take() {
            self.addresses.removed(index, a.into(), &mut out);
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
            let now = self.now();
            self.adverts.changed(now, index);
        }
        // Those who use this address, too; it cannot fail, for no address comes or goes.
        let _ = self.follow_lent(index);
    }
}

fn link_local_of(net: IpNet) -> Option<Ipv6Net> {
    match net {
        IpNet::V6(n) if n.addr().is_unicast_link_local() => Some(n),
        _ => None,
    }
}
