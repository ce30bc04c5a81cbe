//! Router advertisements: carries out what their machine says, and hears solicitations.

use super::{OpError, Router};
use crate::interface::MtuOf;
use crate::neighbor::wire::Message;
use crate::neighbor::{Heard, Millis};
use crate::ra::machine::AdvertCounts;
use crate::ra::{Action, Prefix, RaConfig};
use ipnet::{IpNet, Ipv6Net};
use packet::eth::{EthView, EtherType, MacAddr};
use packet::ip6::Ip6View;
use packet::ip6::addr::{ALL_NODES, multicast_mac};
use packet::nd::NdMessage;
use packet::vlan::VlanStack;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Turns of a worker in which it must have sent what it was given.
const FAREWELL_TURNS: usize = 1000;

impl Router {
    /// What an interface advertises.
    pub fn advertises(&self, index: u32) -> Option<&RaConfig> {
        self.adverts.config(index)
    }

    /// Advertisements that an interface has sent.
    pub fn advert_counts(&self, index: u32) -> AdvertCounts {
        self.adverts.counts(index)
    }

    /// When an interface advertises next of its own accord.
    pub fn next_advert(&self, index: u32) -> Option<Millis> {
        self.adverts.next(index)
    }

    /// The prefixes that an interface advertises.
    pub fn advertised_prefixes(&self, index: u32) -> BTreeMap<Ipv6Net, Prefix> {
        let addresses = self.interfaces.get(index).map_or(&[][..], |i| &i.addresses);
        self.adverts.config(index).map_or_else(BTreeMap::new, |c| c.prefixes(addresses))
    }

    pub(super) fn set_advertise(
        &mut self,
        index: u32,
        config: Option<Box<RaConfig>>,
    ) -> Result<Option<Box<RaConfig>>, OpError> {
        let Some(i) = self.interfaces.get(index) else { return Ok(None) };
        let fail = |why: String| Err(OpError::new(format!("{}: router advertisements: {why}", i.name)));
        let was = self.adverts.config(index).cloned().map(Box::new);
        let now = self.now();
        match config {
            Some(config) => {
                if let Err(why) = config.check() {
                    return fail(why);
                }
                if i.is_alone() {
                    return fail("nobody is behind a loopback".into());
                }
                if let Some(mtu) = config.mtu.filter(|m| *m > u32::from(i.mtu_of(MtuOf::Ip6))) {
                    return fail(format!(
                        "an MTU of {mtu}, more than the interface has, {}",
                        i.mtu_of(MtuOf::Ip6)
                    ));
                }
                let up = self.is_usable(index);
                self.adverts.enable(now, index, up, *config);
            }
            None => {
                let mut out = vec![];
                self.adverts.disable(now, index, &mut out);
                self.carry_out_adverts(out);
            }
        }
        Ok(was)
    }

    pub(super) fn carry_out_adverts(&mut self, actions: Vec<Action>) {
        for a in actions {
            self.advertise(a, None);
        }
    }

    /// Sends an advertisement; `without` is an address of the interface that goes in a moment.
    fn advertise(&mut self, a: Action, without: Option<IpNet>) {
        let config =
            self.adverts.config(a.interface).or_else(|| self.adverts.last_config(a.interface)).cloned();
        let (Some(config), Some(i)) = (config, self.interfaces.get(a.interface)) else { return };
        // Without its link-local address nothing can be said (RFC 4861 section 6.1.2).
        let Some(source) = i.link_local.filter(|l| i.usable6.contains(l)) else { return };
        let (mtu, mut addresses) = (i.mtu_of(MtuOf::Ip6), i.addresses.clone());
        addresses.retain(|n| Some(*n) != without);
        let (to, dst) = match a.to {
            Some(host) => (host, self.neighbors.get(a.interface, host.into()).and_then(|n| n.mac)),
            None => (ALL_NODES, Some(multicast_mac(ALL_NODES))),
        };
        let Some(dst) = dst else { return };
        let gone = match a.to {
            None => self.adverts.tell_all(a.interface, config.items(&addresses)),
            Some(_) => self.adverts.gone(a.interface),
        };
        for advert in config.adverts(self.mac_of(a.interface), mtu, &addresses, a.last, &gone) {
            if let Ok(payload) = advert.packet(source, to) {
                self.send_frame(a.interface, &Message { dst, ethertype: EtherType::IPV6, payload });
            }
        }
    }

    /// An address is about to go. With the last one of IPv6 goes the address from which hosts could be told later.
    pub(super) fn withdraw_address(&mut self, index: u32, net: IpNet) {
        let Some(i) = self.interfaces.get(index) else { return };
        let others = i.configured().any(|n| n.addr().is_ipv6() && n != net);
        if !others && i.configured().any(|n| n == net) {
            self.end_adverts(index, Some(net));
        }
    }

    /// Tells hosts that the router speaks from its link-local address no more (RFC 4861 section 6.2.8).
    pub(super) fn end_adverts(&mut self, index: u32, without: Option<IpNet>) {
        for farewell in self.adverts.farewells(Some(index)) {
            self.advertise(farewell, without);
        }
    }

    /// A solicitation came; `frame` begins with its Ethernet header.
    pub(super) fn heard_solicitation(&mut self, now: Millis, interface: u32, frame: &[u8]) {
        let Some((from, mac)) = solicitation(frame) else { return };
        if mac == self.mac_of(interface) {
            return;
        }
        let known = (!from.is_unspecified()).then_some(from);
        // RFC 4861 section 6.2.6: its source is a neighbour.
        if let Some(host) =
            known.filter(|h| h.is_unicast_link_local() || self.on_link(interface, (*h).into()))
        {
            let mut out = vec![];
            self.neighbors.heard(now, interface, host.into(), Some(mac), Heard::NsWithSource, &mut out);
            self.carry_out(out);
        }
        let mut out = vec![];
        self.adverts.solicited(now, interface, known, &mut out);
        self.carry_out_adverts(out);
    }

    /// Tells hosts that this router goes away: on one interface, or on all.
    pub(super) fn say_farewell(&mut self, only: Option<u32>) {
        let farewells = self.adverts.farewells(only);
        if farewells.is_empty() {
            return;
        }
        let sent =
            |r: &Router| -> u64 { farewells.iter().map(|f| r.plane.counters.tx.sum(f.interface).0).sum() };
        let want = sent(self) + farewells.len() as u64;
        self.carry_out_adverts(farewells.clone());
        // The first worker sends them: it takes mail, and then runs what the mail put into its graph. Mail that it takes in the
        // same turn comes back too soon, so its counters say when; one without a device never counts.
        let Some(w) = self.workers.first() else { return };
        for _ in 0..FAREWELL_TURNS {
            if w.call(|_| ()).is_none() || sent(self) >= want {
                return;
            }
            std::thread::yield_now();
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
