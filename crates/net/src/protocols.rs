//! Protocols above IP, and UDP ports, that features take: packets to the router of such a protocol or port go to the feature's
//! node, past the limits of what the router answers.

use crate::interface::Interface;
use crate::plane::Plane;
use graph::arcs::Feature;
use graph::{Desc, Guard, Like, Rooms, WINDOW, flags, quick};
use packet::IpProtocol;
use packet::{ip4, ip6, udp};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tables::slots::SlotsReader;

/// A protocol, and who takes its packets. They begin with the IP header, and `aux` says how many bytes the headers are long that
/// stand in front of the protocol's own.
pub struct LocalProtocol {
    /// Its number; for UDP the feature says which ports it takes.
    pub number: IpProtocol,
    /// Who takes it over IPv4, on the arc `ip4-protocol`.
    pub ip4: &'static Feature,
    /// Who takes it over IPv6, on the arc `ip6-protocol`.
    pub ip6: &'static Feature,
}

impl LocalProtocol {
    /// Both places.
    pub fn features(&self) -> [&'static Feature; 2] {
        [self.ip4, self.ip6]
    }
}

/// Who takes packets of which protocol at the moment, as workers read it. Packets of the others are answered as if nobody knew the
/// protocol.
pub struct Takers {
    ip4: Family,
    ip6: Family,
}

struct Family {
    protocols: [AtomicU32; 256],
    /// Of UDP.
    ports: Box<[AtomicU32]>,
    /// How many ports are taken.
    taken: AtomicU32,
}

impl Default for Takers {
    fn default() -> Self {
        let nobody = || Family {
            protocols: std::array::from_fn(|_| AtomicU32::new(0)),
            ports: (0..1 << 16).map(|_| AtomicU32::new(0)).collect(),
            taken: AtomicU32::new(0),
        };
        Takers { ip4: nobody(), ip6: nobody() }
    }
}

impl Takers {
    /// The bit on the arc of a family of who takes a protocol; 0: nobody.
    #[inline]
    pub fn of(&self, v6: bool, protocol: IpProtocol) -> u32 {
        self.entry(v6, protocol).load(Relaxed)
    }

    /// The same for a UDP port.
    #[inline]
    pub fn of_port(&self, v6: bool, port: u16) -> u32 {
        self.port(v6, port).load(Relaxed)
    }

    /// Of the packet with its upper-layer header at `at`, which is no fragment: who takes its protocol, or its port.
    #[inline]
    pub fn of_packet(&self, v6: bool, protocol: IpProtocol, packet: &[u8], at: usize) -> u32 {
        if protocol != IpProtocol::UDP {
            return self.of(v6, protocol);
        }
        let port = packet.get(at + 2..).and_then(|p| p.first_chunk()).map(|p| u16::from_be_bytes(*p));
        port.map_or(0, |port| self.of_port(v6, port))
    }

    /// The feature of this bit takes a protocol from now on; 0: nobody.
    pub fn set(&self, v6: bool, protocol: IpProtocol, bit: u32) {
        self.entry(v6, protocol).store(bit, Relaxed);
    }

    /// The same for a UDP port.
    pub fn set_port(&self, v6: bool, port: u16, bit: u32) {
        let was = self.port(v6, port).swap(bit, Relaxed);
        let taken = &self.family(v6).taken;
        match (was, bit) {
            (0, 1..) => _ = taken.fetch_add(1, Relaxed),
            (1.., 0) => _ = taken.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// Whether somebody may take a fragment of a protocol: not each tells the port.
    #[inline]
    pub fn may_take(&self, v6: bool, protocol: IpProtocol) -> bool {
        match protocol {
            IpProtocol::UDP => self.family(v6).taken.load(Relaxed) != 0,
            other => self.of(v6, other) != 0,
        }
    }

    fn family(&self, v6: bool) -> &Family {
        if v6 { &self.ip6 } else { &self.ip4 }
    }

    fn entry(&self, v6: bool, protocol: IpProtocol) -> &AtomicU32 {
        &self.family(v6).protocols[usize::from(protocol.0)]
    }

    fn port(&self, v6: bool, port: u16) -> &AtomicU32 {
        &self.family(v6).ports[usize::from(port)]
    }
}

/// What usual packets to the router have in common: a feature takes them, and their IP header ends where it can.
pub struct Common<'v> {
    protocol: u8,
    /// The port of datagrams, which have no checksum.
    port: Option<u16>,
    taken_by: u32,
    /// The interfaces, where some have features for packets to the router.
    ifs: Option<SlotsReader<'v, Interface>>,
}

/// The destination port of a datagram without a checksum, and its length.
#[inline(always)]
fn bare(w: &[u8; WINDOW], v6: bool) -> Option<(u16, u16)> {
    let h: &[u8; 8] = w[if v6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN }..].first_chunk()?;
    let word = u64::from_be_bytes(*h);
    (word as u16 == 0).then_some(((word >> 32) as u16, (word >> 16) as u16))
}

impl<'v> Common<'v> {
    /// Judged by the first packet, which begins with its IP header.
    pub fn of<const V6: bool>(
        takers: &Takers,
        plane: &'v Plane,
        guard: &'v Guard,
        first: &Desc,
        mut rooms: Rooms<'_>,
    ) -> Option<Common<'v>> {
        let w = rooms.window::<0>(first)?;
        let protocol = if V6 { w[6] } else { w[9] };
        let port = if protocol == IpProtocol::UDP.0 { Some(bare(w, V6)?.0) } else { None };
        let taken_by =
            port.map_or_else(|| takers.of(V6, IpProtocol(protocol)), |port| takers.of_port(V6, port));
        let ifs = plane.summaries.any_local().then(|| plane.interfaces.reader(guard));
        (taken_by != 0).then_some(Common { protocol, port, taken_by, ifs })
    }

    /// The bit of who takes them.
    pub fn features(&self) -> u32 {
        self.taken_by
    }

    /// [`graph::QuickNode::quick`].
    #[inline(always)]
    pub fn quick<const V6: bool>(&self, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let mut takes = self.takes(V6);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            takes(d, w)
        })
    }

    /// What the header says: the protocol; of IPv4, no options, and no fragment.
    fn like(&self, v6: bool) -> Like {
        if v6 {
            return Like::default().and(6, self.protocol, 0xff);
        }
        Like::default().and(0, 0x45, 0xff).and(6, 0, 0x3f).and(7, 0, 0xff).and(9, self.protocol, 0xff)
    }

    /// What hands a packet on, or refuses one that is not usual.
    #[inline(always)]
    pub fn takes(&self, v6: bool) -> impl FnMut(&mut Desc, &[u8; WINDOW]) -> bool + use<'v> {
        let len = if v6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN } as u16;
        let (like, wanted, ifs) = (self.like(v6), self.port, self.ifs);
        // The last interface that has no features for packets to the router.
        let mut last = u32::MAX;
        move |d, w| {
            if d.len < len || !like.holds(w) {
                return false;
            }
            if let Some(ifs) = ifs
                && d.rx != last
            {
                let has_none = |i: &Interface| if v6 { i.ip6_local == 0 } else { i.ip4_local == 0 };
                if !ifs.get(d.rx).is_some_and(has_none) {
                    return false;
                }
                last = d.rx;
            }
            if let Some(wanted) = wanted {
                let fits = |(port, n): (u16, u16)| {
                    port == wanted && (udp::HEADER_LEN as u16..=d.len - len).contains(&n)
                };
                if !bare(w, v6).is_some_and(fits) {
                    return false;
                }
            }
            d.aux = len.into();
            true
        }
    }
}
