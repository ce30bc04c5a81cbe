//! Proxied addresses as a part of the control side: what the operator wants answered for, the routes of it, and what it needs of
//! interfaces.

use crate::neighbor::{MOST_PROXIES, Proxies};
use crate::router::{
    IfState, Kind, Named, Op, OpError, Part, PartOp, Router, Source, Start, Target, anycast,
};
use command::Command;
use ipnet::IpNet;
use packet::ip6::addr::solicited_node;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The part.
pub(crate) struct Proxy;

/// What is answered for.
#[derive(Default)]
struct Proxied {
    /// First and last addresses.
    arp: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    /// Addresses, and the interfaces behind which they are.
    nd: BTreeMap<Ipv6Addr, u32>,
}

impl Proxied {
    /// The first address behind one of these interfaces, and that.
    fn first_behind(&self, is: impl Fn(u32) -> bool) -> Option<(Ipv6Addr, u32)> {
        self.nd.iter().map(|(a, i)| (*a, *i)).find(|(_, i)| is(*i))
    }
}

/// Answers ARP requests for a range of addresses, or no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyArp {
    /// The first address.
    pub first: Ipv4Addr,
    /// The last one.
    pub last: Ipv4Addr,
    /// Answer.
    pub on: bool,
}

/// Answers neighbour solicitations for an address of another link, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdProxy {
    /// Interface behind which it is.
    pub name: String,
    /// The address.
    pub address: Ipv6Addr,
    /// Answer.
    pub on: bool,
}

impl PartOp for ProxyArp {
    fn subject(&self) -> String {
        format!("proxy ARP {} - {}", self.first, self.last)
    }

    fn off(&self) -> Option<Op> {
        Some(ProxyArp { on: false, ..*self }.into())
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let ProxyArp { first, last, on } = self;
        let fail = |why: &str| Err(OpError::new(format!("proxy ARP for {first} - {last}: {why}")));
        if first > last {
            return fail("the first address is behind the last");
        }
        let unicast =
            |a: Ipv4Addr| !(a.is_multicast() || a.is_broadcast() || a.is_unspecified() || a.is_loopback());
        if on && !(unicast(first) && unicast(last)) {
            return fail("not addresses of hosts");
        }
        let Some(proxied) = router.state_mut::<Proxied>() else { return fail("it is not there") };
        if on && proxied.arp.len() >= MOST_PROXIES {
            return fail("there are as many ranges as may be, 4096");
        }
        let changed = if on { proxied.arp.insert((first, last)) } else { proxied.arp.remove(&(first, last)) };
        if !changed {
            return fail(if on { "is set already" } else { "there is no such range" });
        }
        publish(router);
        Ok(vec![ProxyArp { on: !on, ..self }.into()])
    }
}

impl PartOp for NdProxy {
    fn subject(&self) -> String {
        format!("neighbor proxy {}", self.address)
    }

    fn off(&self) -> Option<Op> {
        Some(NdProxy { on: false, ..self.clone() }.into())
    }

    fn turned(&self, new: &Self) -> Option<Op> {
        (self == new).then(|| new.clone().into())
    }

    fn names(&self) -> Vec<Named> {
        vec![Named::Interface(self.name.clone())]
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let NdProxy { ref name, address, on } = self;
        let i = router.named(name)?;
        let (index, fib_index) = (i.index, i.table(true));
        let prefix = IpNet::from(IpAddr::V6(address));
        if on {
            check(router, i, address)?;
            let target = Target::Neighbor(index, address.into());
            router.set_route(fib_index, prefix, Source::Interface, target)?;
        } else {
            if nd(router).get(&address) != Some(&index) {
                return Err(refusal(name, address, "there is none"));
            }
            router.clear_route(fib_index, prefix, Source::Interface);
        }
        if let Some(proxied) = router.state_mut::<Proxied>() {
            match on {
                true => _ = proxied.nd.insert(address, index),
                false => _ = proxied.nd.remove(&address),
            }
        }
        publish(router);
        router.publish_interfaces();
        Ok(vec![NdProxy { on: !on, ..self }.into()])
    }
}

fn refusal(name: &str, address: Ipv6Addr, why: &str) -> OpError {
    OpError::new(format!("neighbor proxy for {address} behind {name}: {why}"))
}

/// Whether an address may stand behind an interface.
fn check(router: &Router, i: &IfState, address: Ipv6Addr) -> Result<(), OpError> {
    let fail = |why: &str| Err(refusal(&i.name, address, why));
    if address.is_multicast()
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
    {
        return fail("not the address of a host beyond its link");
    }
    router.check_routed(i)?;
    if i.link_local.is_none() {
        return fail(&format!("{} has no IPv6 address: it cannot ask for neighbors", i.name));
    }
    if let Some(other) = nd(router).get(&address) {
        return fail(&format!("it is behind {} already", router.interface_name(*other)));
    }
    let own = |i: &IfState| {
        let is = |n: &IpNet| n.addr() == IpAddr::V6(address) || anycast(*n) == Some(address.into());
        i.addresses.iter().any(is)
    };
    if router.interfaces().any(own) {
        return fail("it is the router's own address");
    }
    if nd(router).len() >= MOST_PROXIES {
        return fail("there are as many as may be, 4096");
    }
    Ok(())
}

fn proxied(router: &Router) -> Option<&Proxied> {
    router.state()
}

fn nd(router: &Router) -> &BTreeMap<Ipv6Addr, u32> {
    static NONE: BTreeMap<Ipv6Addr, u32> = BTreeMap::new();
    proxied(router).map_or(&NONE, |p| &p.nd)
}

/// Ranges of addresses for which ARP requests are answered.
pub fn arp_ranges(router: &Router) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    proxied(router).into_iter().flat_map(|p| p.arp.iter().copied()).collect()
}

/// IPv6 addresses that are answered for, with the interfaces behind which they are.
pub fn nd_proxies(router: &Router) -> Vec<(Ipv6Addr, u32)> {
    nd(router).iter().map(|(a, i)| (*a, *i)).collect()
}

/// Tells workers.
fn publish(router: &mut Router) {
    let proxies = Proxies::new(arp_ranges(router), nd_proxies(router));
    router.publish(proxies);
}

impl Part for Proxy {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Proxied::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn stands_on(&self, router: &Router, index: u32, v6: bool) -> Option<(String, String)> {
        let (address, _) = proxied(router)?.first_behind(|i| v6 && i == index)?;
        let how = format!("ip6 nd proxy del {} {address}", router.interface_name(index));
        Some((format!("has {address} behind it, which is answered for"), how))
    }

    fn is_on_link(&self, router: &Router, index: u32, address: IpAddr) -> bool {
        matches!(address, IpAddr::V6(a) if nd(router).get(&a) == Some(&index))
    }

    fn is_anothers(&self, router: &Router, address: IpAddr) -> Option<(String, String)> {
        let IpAddr::V6(a) = address else { return None };
        let behind = router.interface_name(*nd(router).get(&a)?);
        Some((format!("is behind {behind}, and answered for"), format!("ip6 nd proxy del {behind} {a}")))
    }

    fn needs_ip6(&self, router: &Router, index: u32) -> Option<String> {
        let (a, _) = proxied(router)?.first_behind(|i| i == index)?;
        let name = router.interface_name(index);
        Some(format!(
            "{a} is behind {name} and answered for, and without an IPv6 address {name} cannot ask for it: remove it first \
             (ip6 nd proxy del {name} {a})"
        ))
    }

    /// Those of the addresses behind other interfaces that are answered for on the link of this one.
    fn groups(&self, router: &Router, index: u32) -> Vec<IpAddr> {
        let hears = |i: &&IfState| {
            let stations = !(i.is_without_stations() || i.kind == Kind::Local || i.xconnect.is_some());
            stations && i.link_local.is_some()
        };
        if nd(router).is_empty() || router.interface(index).filter(hears).is_none() {
            return vec![];
        }
        let table = router.table_of(index, true);
        let here = |behind: u32| behind != index && router.table_of(behind, true) == table;
        let answered = nd(router).iter().filter(|(_, behind)| here(**behind));
        answered.map(|(a, _)| solicited_node(*a).into()).collect()
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let ranges = arp_ranges(router).into_iter();
        let hosts = nd_proxies(router).into_iter();
        let host = |(address, i)| NdProxy { name: router.interface_name(i), address, on: false }.into();
        ranges
            .map(|(first, last)| ProxyArp { first, last, on: false }.into())
            .chain(hosts.map(host))
            .collect()
    }
}
