//! The addresses of others that the router answers for.

use super::addresses::anycast;
use super::{IfState, Op, OpError, Router, Source, Target};
use crate::neighbor::{MOST_PROXIES, Proxies};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Router {
    /// Addresses behind other interfaces that are answered for on the link of this one.
    pub(crate) fn answered_for_on(&self, index: u32) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let table = self.table_of(index, true);
        let here = move |behind: u32| behind != index && self.table_of(behind, true) == table;
        self.nd_proxies.iter().filter(move |(_, behind)| here(**behind)).map(|(a, _)| *a)
    }

    /// Ranges of addresses for which ARP requests are answered.
    pub fn proxy_arp_ranges(&self) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        self.proxy_arp.iter().copied().collect()
    }

    /// IPv6 addresses that are answered for, with the interfaces behind which they are.
    pub fn nd_proxies(&self) -> Vec<(Ipv6Addr, u32)> {
        self.nd_proxies.iter().map(|(a, i)| (*a, *i)).collect()
    }

    fn publish_proxies(&mut self) {
        let hosts = self.nd_proxies.iter().map(|(a, i)| (*a, *i));
        self.publish(Proxies::new(self.proxy_arp.iter().copied(), hosts));
    }

    pub(super) fn set_proxy_arp(
        &mut self,
        first: Ipv4Addr,
        last: Ipv4Addr,
        on: bool,
    ) -> Result<Vec<Op>, OpError> {
        let fail = |why: &str| Err(OpError::new(format!("proxy ARP for {first} - {last}: {why}")));
        if first > last {
            return fail("the first address is behind the last");
        }
        let unicast =
            |a: Ipv4Addr| !(a.is_multicast() || a.is_broadcast() || a.is_unspecified() || a.is_loopback());
        if on && !(unicast(first) && unicast(last)) {
            return fail("not addresses of hosts");
        }
        if on && self.proxy_arp.len() >= MOST_PROXIES {
            return fail("there are as many ranges as may be, 4096");
        }
        let changed =
            if on { self.proxy_arp.insert((first, last)) } else { self.proxy_arp.remove(&(first, last)) };
        if !changed {
            return fail(if on { "is set already" } else { "there is no such range" });
        }
        self.publish_proxies();
        Ok(vec![Op::SetProxyArp { first, last, on: !on }])
    }

    pub(super) fn set_nd_proxy(
        &mut self,
        name: String,
        address: Ipv6Addr,
        on: bool,
    ) -> Result<Vec<Op>, OpError> {
        let i = self.named(&name)?;
        let (index, has6, fib_index) = (i.index, i.link_local.is_some(), i.table(true));
        let fail =
            |why: String| Err(OpError::new(format!("neighbor proxy for {address} behind {name}: {why}")));
        if !on {
            if self.nd_proxies.get(&address) != Some(&index) {
                return fail("there is none".into());
            }
            self.nd_proxies.remove(&address);
            self.clear_route(fib_index, IpNet::from(IpAddr::V6(address)), Source::Interface);
        } else {
            if address.is_multicast()
                || address.is_unspecified()
                || address.is_loopback()
                || address.is_unicast_link_local()
            {
                return fail("not the address of a host beyond its link".into());
            }
            self.check_routed(self.named(&name)?)?;
            if !has6 {
                return fail(format!("{name} has no IPv6 address: it cannot ask for neighbors"));
            }
            if let Some(other) = self.nd_proxies.get(&address) {
                return fail(format!("it is behind {} already", self.interface_name(*other)));
            }
            let own = |i: &IfState| {
                let is = |n: &IpNet| n.addr() == IpAddr::V6(address) || anycast(*n) == Some(address.into());
                i.addresses.iter().any(is)
            };
            if self.interfaces().any(own) {
                return fail("it is the router's own address".into());
            }
            if self.nd_proxies.len() >= MOST_PROXIES {
                return fail("there are as many as may be, 4096".into());
            }
            let target = Target::Neighbor(index, address.into());
            self.set_route(fib_index, IpNet::from(IpAddr::V6(address)), Source::Interface, target)?;
            self.nd_proxies.insert(address, index);
        }
        self.publish_proxies();
        self.publish_interfaces();
        Ok(vec![Op::SetNdProxy { name, address, on: !on }])
    }
}
