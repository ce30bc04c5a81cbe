//! Messages received.

use super::super::address::{AddressState, ConflictKind};
use super::super::table::Heard;
use super::write::{Message, arp_reply, na_answer};
use packet::MacAddr;
use packet::arp::{ArpError, ArpOp, ArpView};
use packet::eth::{EthView, EtherType};
use packet::ip6::{Ip6Error, Ip6View};
use packet::nd::{NdError, NdMessage, NeighborAdvertisement, NeighborSolicitation};
use packet::vlan::VlanStack;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the reader must know of the interface that a frame came from.
pub trait Local {
    /// Its MAC address.
    fn mac(&self) -> MacAddr;
    /// Where an address of the interface stands; `None`: it is not ours.
    fn address(&self, addr: IpAddr) -> Option<AddressState>;
    /// Whether `addr` is the subnet-router anycast address of a prefix of the interface.
    fn is_anycast(&self, _addr: IpAddr) -> bool {
        false
    }
    /// Whether `addr` is in a subnet of the interface. Link-local IPv6 addresses are, without asking.
    fn on_link(&self, addr: IpAddr) -> bool;
}

/// Why a message is silently discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Neither ARP nor neighbour solicitation nor advertisement.
    NotNeighbor,
    /// The frame comes from a group address or from nobody.
    BadSource,
    /// A message of our own came back.
    OwnMac,
    /// Malformed ARP.
    Arp(ArpError),
    /// The sender hardware address of ARP, or the link-layer address option, is no station.
    BadMac,
    /// The sender's IP address is no host's, or missing in an ARP reply.
    BadSender,
    /// A malformed IPv6 header.
    Ip6(Ip6Error),
    /// Malformed neighbour discovery.
    Nd(NdError),
    /// A solicitation from an address that is ours.
    OwnAddress,
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeighbor => f.write_str("neither ARP nor neighbor discovery"),
            Self::BadSource => f.write_str("frame source is no station"),
            Self::OwnMac => f.write_str("our own message came back"),
            Self::Arp(e) => e.fmt(f),
            Self::BadMac => f.write_str("MAC address in the message is no station"),
            Self::BadSender => f.write_str("sender address is no host's"),
            Self::Ip6(e) => e.fmt(f),
            Self::Nd(e) => e.fmt(f),
            Self::OwnAddress => f.write_str("solicitation from our own address"),
        }
    }
}

impl std::error::Error for Discard {}

/// For [`NeighborTable::heard`](super::super::NeighborTable::heard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The neighbour.
    pub addr: IpAddr,
    /// Its MAC address, if told.
    pub mac: Option<MacAddr>,
    /// What was heard.
    pub what: Heard,
}

/// For [`AddressTable::conflict_seen`](super::super::AddressTable::conflict_seen).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Our address.
    pub addr: IpAddr,
    /// Who claims it.
    pub by: MacAddr,
    /// In which way.
    pub kind: ConflictKind,
}

/// What a valid message means to us; any part may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// News of a neighbour.
    pub neighbor: Option<Neighbor>,
    /// A claim of an address of ours.
    pub conflict: Option<Conflict>,
    /// The answer to send.
    pub reply: Option<Message>,
    /// The MAC address in the message is not the source of the frame: legal (proxies, some clusters), worth counting.
    pub mac_mismatch: bool,
}

/// A solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The address that is asked for.
    pub target: Ipv6Addr,
    /// Who asks.
    pub asker: Ipv6Addr,
    /// The asker's MAC address.
    pub mac: MacAddr,
}

/// The neighbor solicitation in a frame that starts with the Ethernet header; `None` where there is none, or no station asks.
pub fn asked(frame: &[u8]) -> Option<Asked> {
    let eth = EthView::parse(frame).ok()?;
    let payload = frame.get(usize::from(VlanStack::parse(frame)?.header_len)..)?;
    let ip = Ip6View::parse(payload).ok()?;
    let Ok(NdMessage::NeighborSolicitation(ns)) = NdMessage::parse(&ip) else { return None };
    let mac = ns.options.source_mac().unwrap_or(eth.src());
    mac.is_station().then_some(Asked { target: ns.target, asker: ip.src(), mac })
}

/// Reads a frame that starts with the Ethernet header; up to two tags are passed over.
pub fn read(frame: &[u8], local: &impl Local) -> Result<Reading, Discard> {
    let eth = EthView::parse(frame).map_err(|_| Discard::NotNeighbor)?;
    let stack = VlanStack::parse(frame).ok_or(Discard::NotNeighbor)?;
    let payload = frame.get(usize::from(stack.header_len)..).unwrap_or_default();
    if !eth.src().is_station() {
        return Err(Discard::BadSource);
    }
    match stack.ethertype {
        EtherType::ARP => read_arp(&eth, payload, local),
        EtherType::IPV6 => {
            let ip = Ip6View::parse(payload).map_err(Discard::Ip6)?;
            match NdMessage::parse(&ip) {
                Ok(NdMessage::NeighborSolicitation(ns)) => read_ns(&eth, &ip, &ns, local),
                Ok(NdMessage::NeighborAdvertisement(na)) => read_na(&eth, &na, local),
                Ok(_) | Err(NdError::NotNd) => Err(Discard::NotNeighbor),
                Err(e) => Err(Discard::Nd(e)),
            }
        }
        _ => Err(Discard::NotNeighbor),
    }
}

fn read_arp(eth: &EthView<'_>, payload: &[u8], local: &impl Local) -> Result<Reading, Discard> {
    let arp = ArpView::parse(payload).map_err(Discard::Arp)?;
    let (mac, sender, target) = (arp.sender_mac(), arp.sender_ip(), arp.target_ip());
    if !mac.is_station() {
        return Err(Discard::BadMac);
    }
    if mac == local.mac() {
        return Err(Discard::OwnMac);
    }
    if !arp.is_probe() && !is_host(sender) {
        return Err(Discard::BadSender);
    }
    let mut reading = Reading { mac_mismatch: mac != eth.src(), ..Reading::default() };
    let (addr, target) = (IpAddr::V4(sender), IpAddr::V4(target));
    if local.address(addr).is_some() {
        reading.conflict = Some(Conflict { addr, by: mac, kind: ConflictKind::Arp });
        return Ok(reading);
    }
    let for_us = local.address(target).is_some_and(AddressState::is_usable);
    let what = match arp.op() {
        ArpOp::Request => {
            reading.reply = for_us.then(|| arp_reply(local.mac(), &arp));
            Heard::ArpRequest { for_us }
        }
        ArpOp::Reply => Heard::ArpReply { solicited: for_us && eth.dst() == local.mac() },
    };
    if !arp.is_probe() && local.on_link(addr) {
        reading.neighbor = Some(Neighbor { addr, mac: Some(mac), what });
    }
    Ok(reading)
}

fn read_ns(
    eth: &EthView<'_>,
    ip: &Ip6View<'_>,
    ns: &NeighborSolicitation<'_>,
    local: &impl Local,
) -> Result<Reading, Discard> {
    let mac = option_mac(ns.options.source_mac())?;
    if eth.src() == local.mac() || mac == Some(local.mac()) {
        return Err(Discard::OwnMac);
    }
    let (src, target) = (ip.src(), IpAddr::V6(ns.target));
    let asker = mac.unwrap_or(eth.src());
    let mut reading = Reading { mac_mismatch: asker != eth.src(), ..Reading::default() };
    let anycast = || local.is_anycast(target).then_some(AddressState::Usable);
    let Some(state) = local.address(target).or_else(anycast) else { return Ok(reading) };
    if src.is_unspecified() {
        if matches!(state, AddressState::Tentative | AddressState::Optimistic) {
            reading.conflict = Some(Conflict { addr: target, by: eth.src(), kind: ConflictKind::DadSolicit });
        } else if state.is_usable() {
            reading.reply = Some(na_answer(local.mac(), ns.target, src, asker, false));
        }
        return Ok(reading);
    }
    let addr = IpAddr::V6(src);
    if src.is_multicast() || src.is_loopback() {
        return Err(Discard::BadSender);
    }
    if local.address(addr).is_some() {
        return Err(Discard::OwnAddress);
    }
    if state.is_usable() {
        let optimistic = state == AddressState::Optimistic;
        reading.reply = Some(na_answer(local.mac(), ns.target, src, asker, optimistic));
        if mac.is_some() && (src.is_unicast_link_local() || local.on_link(addr)) {
            reading.neighbor = Some(Neighbor { addr, mac, what: Heard::NsWithSource });
        }
    }
    Ok(reading)
}

fn read_na(
    eth: &EthView<'_>,
    na: &NeighborAdvertisement<'_>,
    local: &impl Local,
) -> Result<Reading, Discard> {
    let mac = option_mac(na.options.target_mac())?;
    if eth.src() == local.mac() || mac == Some(local.mac()) {
        return Err(Discard::OwnMac);
    }
    let addr = IpAddr::V6(na.target);
    let by = mac.unwrap_or(eth.src());
    let mut reading = Reading { mac_mismatch: by != eth.src(), ..Reading::default() };
    if local.address(addr).is_some() {
        reading.conflict = Some(Conflict { addr, by, kind: ConflictKind::Advert });
    } else if na.target.is_unicast_link_local() || local.on_link(addr) {
        let what = Heard::Na { solicited: na.solicited, override_: na.override_, router: na.router };
        reading.neighbor = Some(Neighbor { addr, mac, what });
    }
    Ok(reading)
}

/// An option that names no station makes the message worthless.
fn option_mac(mac: Option<MacAddr>) -> Result<Option<MacAddr>, Discard> {
    match mac {
        Some(mac) if !mac.is_station() => Err(Discard::BadMac),
        mac => Ok(mac),
    }
}

fn is_host(a: Ipv4Addr) -> bool {
    !a.is_unspecified() && !a.is_multicast() && !a.is_broadcast() && !a.is_loopback()
}
