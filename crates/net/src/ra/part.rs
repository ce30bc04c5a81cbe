//! Router advertisements as a part of the control side: carries out what their machine says, and hears solicitations.

use super::machine::{Action, AdvertCounts, AdvertTable};
use super::{Prefix, RaConfig};
use crate::interface::{MtuOf, ifflags};
use crate::neighbor::wire::Message;
use crate::neighbor::{Heard, Millis};
use crate::punt::PuntKind;
use crate::router::{BoxedOp, Handed, InterfaceOp, OpError, Part, Router, Start};
use command::Command;
use ipnet::{IpNet, Ipv6Net};
use packet::eth::{EthView, EtherType, MacAddr};
use packet::ip6::Ip6View;
use packet::ip6::addr::{ALL_NODES, multicast_mac};
use packet::nd::NdMessage;
use packet::vlan::VlanStack;
use std::any::Any;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// The part.
pub(crate) struct Adverts;

/// What an interface advertises from now on; `None`: it sends no advertisements.
#[derive(Clone, Debug, PartialEq)]
pub struct Advertise(pub Option<Box<RaConfig>>);

/// What an interface advertises.
pub fn config(router: &Router, index: u32) -> Option<&RaConfig> {
    router.state::<AdvertTable>()?.config(index)
}

/// Advertisements that an interface has sent.
pub(super) fn counts(router: &Router, index: u32) -> AdvertCounts {
    router.state::<AdvertTable>().map_or_else(AdvertCounts::default, |t| t.counts(index))
}

/// When an interface advertises next of its own accord.
pub(super) fn next(router: &Router, index: u32) -> Option<Millis> {
    router.state::<AdvertTable>()?.next(index)
}

/// The prefixes that an interface advertises.
pub(super) fn prefixes(router: &Router, index: u32) -> BTreeMap<Ipv6Net, Prefix> {
    let addresses = router.interface(index).map_or(&[][..], |i| &i.addresses);
    config(router, index).map_or_else(BTreeMap::new, |c| c.prefixes(addresses))
}

impl InterfaceOp for Advertise {
    fn subject(&self) -> String {
        "router advertisements".into()
    }

    fn off(&self) -> Self {
        Advertise(None)
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let Some(i) = router.interface(index) else { return Ok(Advertise(None)) };
        let fail = |why: String| Err(OpError::new(format!("{}: router advertisements: {why}", i.name)));
        let was = config(router, index).cloned().map(Box::new);
        let (now, up) = (router.now(), router.is_usable(index));
        match self.0 {
            Some(config) => {
                if let Err(why) = config.check() {
                    return fail(why);
                }
                if i.is_without_stations() {
                    return fail("no host is behind a loopback or a tunnel".into());
                }
                let most = i.mtu_of(MtuOf::Ip6);
                if let Some(mtu) = config.mtu.filter(|m| *m > u32::from(most)) {
                    return fail(format!("an MTU of {mtu}, more than the interface has, {most}"));
                }
                if let Some(table) = router.state_mut::<AdvertTable>() {
                    table.enable(now, index, up, *config);
                }
            }
            None => machine(router, |table, out| table.disable(now, index, out)),
        }
        Ok(Advertise(was))
    }

    fn switches_on(&self) -> bool {
        self.0.is_some()
    }

    fn words(&self, name: &str) -> (String, String) {
        ("sends router advertisements".into(), format!("ip6 nd {name} ra-suppress"))
    }
}

impl Part for Adverts {
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send> {
        Box::new(AdvertTable::new(start.seed))
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let config = config(router, index).map(|c| Box::new(c.clone()));
        config.into_iter().map(|c| BoxedOp::new(Advertise(Some(c)))).collect()
    }

    fn flags(&self, router: &Router, index: u32) -> u16 {
        config(router, index).map_or(0, |_| ifflags::ADVERTISES)
    }

    fn least_mtu6(&self, router: &Router, index: u32) -> Option<(u32, String)> {
        let told = config(router, index)?.mtu?;
        let name = &router.interface(index)?.name;
        Some((told, format!("less than its router advertisements tell, {told} (ip6 nd {name} ra-mtu)")))
    }

    fn usable(&self, router: &mut Router, index: u32, usable: bool) {
        let now = router.now();
        let Some(table) = router.state_mut::<AdvertTable>() else { return };
        if usable {
            table.link_up(now, index);
        } else {
            table.link_down(index);
        }
    }

    fn addresses_changed(&self, router: &mut Router, index: u32) {
        let now = router.now();
        if let Some(table) = router.state_mut::<AdvertTable>() {
            table.changed(now, index);
        }
    }

    /// Hosts are told that the router speaks from its link-local address no more (RFC 4861 section 6.2.8).
    fn link_local_goes(&self, router: &mut Router, index: u32, with: Option<IpNet>) {
        for farewell in farewells(router, Some(index)) {
            advertise(router, farewell, with);
        }
    }

    fn ends(&self, router: &mut Router, index: Option<u32>) {
        let farewells = farewells(router, index);
        let frames: Vec<u32> = farewells.iter().map(|f| f.interface).collect();
        router.send_before(&frames, |router| {
            farewells.iter().for_each(|f| advertise(router, *f, None));
        });
    }

    fn removed(&self, router: &mut Router, index: u32) {
        if let Some(table) = router.state_mut::<AdvertTable>() {
            table.removed(index);
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        router.state::<AdvertTable>()?.next_deadline()
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        machine(router, |table, out| table.tick(now, out));
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Solicitation
    }

    /// A solicitation; `frame` begins with its Ethernet header.
    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let Handed { interface, bytes: frame, .. } = packet;
        let Some((from, mac)) = solicitation(frame) else { return };
        if mac == router.mac_of(interface) {
            return;
        }
        let known = (!from.is_unspecified()).then_some(from);
        // RFC 4861 section 6.2.6: its source is a neighbour.
        if let Some(host) =
            known.filter(|h| h.is_unicast_link_local() || router.on_link(interface, (*h).into()))
        {
            router.heard_of_neighbor(now, interface, host.into(), Some(mac), Heard::NsWithSource);
        }
        machine(router, |table, out| table.solicited(now, interface, known, out));
    }
}

/// Asks the machine, and carries out what it says.
fn machine(router: &mut Router, ask: impl FnOnce(&mut AdvertTable, &mut Vec<Action>)) {
    let mut out = vec![];
    if let Some(table) = router.state_mut::<AdvertTable>() {
        ask(table, &mut out);
    }
    for a in out {
        advertise(router, a, None);
    }
}

fn farewells(router: &Router, only: Option<u32>) -> Vec<Action> {
    router.state::<AdvertTable>().map_or_else(Vec::new, |t| t.farewells(only))
}

/// Sends an advertisement; `without` is an address of the interface that goes in a moment.
fn advertise(router: &mut Router, a: Action, without: Option<IpNet>) {
    let Some(table) = router.state::<AdvertTable>() else { return };
    let config = table.config(a.interface).or_else(|| table.last_config(a.interface)).cloned();
    let (Some(config), Some(i)) = (config, router.interface(a.interface)) else { return };
    // Without its link-local address nothing can be said (RFC 4861 section 6.1.2).
    let Some(source) = i.link_local.filter(|l| i.may_use(l)) else { return };
    let (mtu, mut addresses) = (i.mtu_of(MtuOf::Ip6), i.addresses.clone());
    addresses.retain(|n| Some(*n) != without);
    let (to, dst) = match a.to {
        Some(host) => (host, router.neighbor_mac(a.interface, host.into())),
        None => (ALL_NODES, Some(multicast_mac(ALL_NODES))),
    };
    let (Some(dst), mac) = (dst, router.mac_of(a.interface)) else { return };
    let Some(table) = router.state_mut::<AdvertTable>() else { return };
    let gone = match a.to {
        None => table.tell_all(a.interface, config.items(&addresses)),
        Some(_) => table.gone(a.interface),
    };
    for advert in config.adverts(mac, mtu, &addresses, a.last, &gone) {
        if let Ok(payload) = advert.packet(source, to) {
            router.send_frame(a.interface, &Message { dst, ethertype: EtherType::IPV6, payload });
        }
    }
}

/// Source address and MAC address of a valid solicitation.
fn solicitation(frame: &[u8]) -> Option<(Ipv6Addr, MacAddr)> {
    let (eth, stack) = (EthView::parse(frame).ok()?, VlanStack::parse(frame)?);
    let ip = Ip6View::parse(frame.get(usize::from(stack.header_len)..)?).ok()?;
    let Ok(NdMessage::RouterSolicitation(rs)) = NdMessage::parse(&ip) else { return None };
    let mac = rs.options.source_mac().unwrap_or(eth.src());
    mac.is_station().then_some((ip.src(), mac))
}
