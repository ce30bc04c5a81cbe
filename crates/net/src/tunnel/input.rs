//! What comes out of tunnels.

use super::{AllInbound, Ends, Inbound, hand_on};
use crate::interface::{Interface, comes_in, ifflags};
use crate::ip4::input::Checks4;
use crate::ip6::input::Checks6;
use crate::offload;
use crate::plane::sources::Marks;
use crate::plane::table::{Family, V4, V6, View};
use crate::plane::{IN_TABLE, IfCache, Plane, RxCounts};
use graph::counters::Run;
use graph::{Alike, Desc, Guard, Like, Packet, Published, Rooms, WINDOW, flags, quick, stage};
use packet::eth::EtherType;
use packet::ip4::{self, Ip4Header};
use packet::ip6::{self, Ip6Header};
use std::marker::PhantomData;
use std::sync::Arc;

/// The family outside.
pub trait Over: Send + 'static {
    /// Whether it is IPv6.
    const V6: bool;
    /// Bytes of its header without options or extension headers.
    const HEADER_LEN: usize;
    /// Where the source stands in it; the destination is behind.
    const ADDRESSES: usize;
    /// The byte of the congestion field, and its bits there.
    const ECN: (usize, u8);
    /// Its tables.
    type Family: Family;
    /// The ends, this one first, with the traffic class; `None` where the header is cut off. The packet begins with its IP header.
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)>;
}

/// Over IPv4.
pub enum Over4 {}
/// Over IPv6.
pub enum Over6 {}

impl Over for Over4 {
    const V6: bool = false;
    const HEADER_LEN: usize = ip4::HEADER_LEN;
    const ADDRESSES: usize = 12;
    const ECN: (usize, u8) = (1, 3);
    type Family = V4;

    #[inline(always)]
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)> {
        let h = Ip4Header(packet.first_chunk()?);
        Some((h.dst_u32().into(), h.src_u32().into(), h.tos()))
    }
}

impl Over for Over6 {
    const V6: bool = true;
    const HEADER_LEN: usize = ip6::HEADER_LEN;
    const ADDRESSES: usize = 8;
    const ECN: (usize, u8) = (1, 0x30);
    type Family = V6;

    #[inline(always)]
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)> {
        let h = Ip6Header(packet.first_chunk()?);
        Some((h.dst_u128(), h.src_u128(), h.traffic_class()))
    }
}

/// What a node has that takes the packets of tunnels.
pub(crate) struct Arrivals<O, K> {
    plane: Arc<Plane>,
    tunnels: Arc<Published<AllInbound<K>>>,
    marks: Arc<Published<Marks>>,
    received: RxCounts,
    over: PhantomData<O>,
}

impl<O: Over, K: Send + Sync + 'static> Arrivals<O, K> {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Arrivals {
            plane: Arc::clone(plane),
            tunnels: plane.publish(),
            marks: plane.publish(),
            received: plane.counters.received_by(worker),
            over: PhantomData,
        }
    }

    /// Snapshot of one vector.
    pub fn view<'v>(&'v self, guard: &'v Guard) -> ArrivalsView<'v, O, K> {
        ArrivalsView {
            plane: &self.plane,
            all: self.tunnels.load(guard),
            tables: View::new(&self.plane, guard),
            ifs: IfCache::new(&self.plane, guard),
            marks: self.marks.load(guard),
            received: &self.received,
            last: None,
        }
    }
}

/// Snapshot of one vector.
pub struct ArrivalsView<'v, O: Over, K> {
    pub(crate) plane: &'v Plane,
    all: &'v AllInbound<K>,
    tables: View<'v, O::Family>,
    ifs: IfCache<'v>,
    marks: &'v Marks,
    received: &'v RxCounts,
    /// The tunnel of the last packet: most packets of a vector share theirs.
    last: Option<(Ends, &'v Inbound)>,
}

/// Why a packet does not come out.
pub(crate) enum Fault {
    /// The packet ends within its headers.
    TooShort,
    /// A checksum that a Linux peer left partial cannot be completed.
    Checksum,
    /// A super-frame whose segments are not those of the packet inside.
    SuperFrame,
    /// The interface is administratively down.
    Down,
    /// The packet met congestion, and its sender does not know of it (RFC 6040 section 4.2).
    Congestion,
}

impl<'v, O: Over, K> ArrivalsView<'v, O, K> {
    /// The tunnel of a packet, and the traffic class outside; `None` where there is no such tunnel.
    #[inline]
    pub(crate) fn find(&mut self, p: &Packet<'_>, id: Option<u64>) -> Option<(&'v Inbound, u8)> {
        let (local, remote, class) = O::outer(p.data())?;
        let ends = Ends { local, remote, v6: O::V6, table: self.tables.fib_index(p.d), id };
        if self.last.is_none_or(|(was, _)| was != ends) {
            self.last = Some((ends, self.all.get(&ends)?));
        }
        self.last.map(|(_, tunnel)| (tunnel, class))
    }

    /// Finishes what a Linux peer left to be done for a packet with `len` bytes of headers outside: checksums inside, and
    /// super-frames, for which it answers true.
    #[inline]
    pub(crate) fn finish(p: &mut Packet<'_>, len: usize) -> Result<bool, Fault> {
        let whole = p.has(flags::GSO);
        if whole && usize::from(p.meta().csum_start) < usize::from(p.d.off) + len + ip4::HEADER_LEN {
            return Err(Fault::SuperFrame);
        }
        if !whole && p.has(flags::CSUM_PARTIAL) && !offload::complete(&mut p.env.buffers, p.d) {
            return Err(Fault::Checksum);
        }
        Ok(whole)
    }

    /// Whether packets of a tunnel are taken.
    #[inline]
    pub(crate) fn is_up(&mut self, tunnel: &Inbound) -> bool {
        self.ifs.get(tunnel.interface).is_some_and(|i| i.is(ifflags::UP))
    }

    /// Takes `len` bytes of headers off a packet: what is inside comes in on the tunnel's interface.
    #[inline]
    pub(crate) fn take(
        &mut self,
        p: &mut Packet<'_>,
        tunnel: &Inbound,
        len: usize,
        (what, class): (EtherType, u8),
    ) -> Result<(), Fault> {
        let whole = p.has(flags::GSO);
        let Some(i) = self.ifs.get(tunnel.interface).filter(|i| i.is(ifflags::UP)) else {
            return Err(Fault::Down);
        };
        if !p.advance(len) {
            return Err(Fault::TooShort);
        }
        if class & 3 != 0 && !hand_on(class & 3, what, p) {
            return Err(Fault::Congestion);
        }
        let to_do = if whole { p.d.flags & (flags::GSO | flags::CSUM_PARTIAL) } else { 0 };
        comes_in(p.d, tunnel.interface, if tunnel.frames { i.input } else { 0 });
        p.d.flags |= to_do;
        self.received.rx.count(tunnel.interface, p.total_len());
        Ok(())
    }

    /// What a short cut needs for packets like the first one, whose window is `w`: with these headers behind that of IP, as far as
    /// `masks` say, up to `len` bytes, and `what` inside.
    pub(crate) fn common(
        &self,
        first: &Desc,
        w: &[u8],
        (id, what): (Option<u64>, EtherType),
        masks: [u64; 2],
        len: usize,
        guard: &'v Guard,
    ) -> Option<(&'v Inbound, Common<'v>)> {
        // All are looked up in the table of the interface on which they came.
        let (local, remote, _) = O::outer(w).filter(|_| !first.has(IN_TABLE))?;
        let ends = Ends { local, remote, v6: O::V6, table: self.tables.fib_index(first), id };
        let tunnel = self.all.get(&ends).filter(|t| t.last.is_none())?;
        let i = self.plane.interfaces.get(tunnel.interface, guard).filter(|i| i.is(ifflags::UP))?;
        let len = O::HEADER_LEN + len;
        let (inside, features) = match tunnel.frames {
            true => Inside::of_frames(i),
            false => Inside::of_packets(i, what, len, self.marks),
        };
        let behind: &[u8; 16] = w.get(O::HEADER_LEN..)?.first_chunk()?;
        let masks: [u8; 16] = *masks.map(u64::to_be_bytes).as_flattened().first_chunk()?;
        let addresses = w.get(O::ADDRESSES..O::HEADER_LEN)?;
        let common = Common {
            rx: first.rx,
            like: Alike::default()
                .and(O::ECN.0, &[0], &[O::ECN.1])
                .and(O::ADDRESSES, addresses, &[0xff; 32])
                .and(O::HEADER_LEN, behind, &masks),
            len: len as u16,
            tunnel: tunnel.interface,
            inside,
            features,
            received: self.received,
        };
        Some((tunnel, common))
    }
}

/// What is done with what comes out, past the nodes to which it would go.
#[derive(Clone, Copy)]
pub(crate) enum Inside<'v> {
    /// Nothing.
    Any,
    /// What `ip4-input` does.
    Ip4(Checks4<'v>),
    /// What `ip6-input` does.
    Ip6(Checks6),
    /// What `ethernet-input` does for frames of this bridge domain.
    Bridged(u32),
}

impl<'v> Inside<'v> {
    /// Of the frames of a tunnel, with the features that they visit first.
    fn of_frames(i: &Interface) -> (Inside<'v>, u32) {
        match i.bridge {
            Some(port) if i.input == 0 && i.subs.is_none() && i.is(ifflags::L2) && !i.is_xconnect() => {
                (Inside::Bridged(port.bridge.into()), i.l2_input)
            }
            _ => (Inside::Any, i.input),
        }
    }

    /// The same for packets behind `len` bytes of headers: what is not in sight cannot be checked.
    fn of_packets(i: &Interface, what: EtherType, len: usize, marks: &'v Marks) -> (Inside<'v>, u32) {
        let sees = |header: usize| len + header <= WINDOW;
        match what {
            EtherType::IPV4 if i.takes_ip4() && sees(ip4::HEADER_LEN) => {
                (Inside::Ip4(Checks4::new(marks)), i.ip4_unicast)
            }
            EtherType::IPV6 if i.takes_ip6() && sees(ip6::HEADER_LEN) => {
                (Inside::Ip6(Checks6), i.ip6_unicast)
            }
            _ => (Inside::Any, 0),
        }
    }
}

/// What the usual packets of a vector have in common: they come out of one tunnel, with headers that say the same.
pub struct Common<'v> {
    rx: u32,
    /// The ends, and what stands behind the IP header, as far as it is the same; nobody met congestion.
    like: Alike<{ WINDOW / Like::BYTES }>,
    /// Bytes of all headers.
    len: u16,
    tunnel: u32,
    inside: Inside<'v>,
    features: u32,
    received: &'v RxCounts,
}

impl<'v> Common<'v> {
    /// What is done with what comes out.
    pub(crate) fn inside(&self) -> Inside<'v> {
        self.inside
    }

    /// [`graph::QuickNode::features`].
    pub fn features(&self) -> u32 {
        self.features
    }

    /// [`graph::QuickNode::behind`], where a packet went to the node of what is inside: all behind it go there as well.
    pub(crate) fn follow(&mut self) {
        (self.inside, self.features) = (Inside::Any, 0);
    }

    /// [`graph::QuickNode::quick`]; `fits` says whether the first word behind the IP header fits so many bytes from there on.
    #[inline(always)]
    pub fn quick<O: Over>(
        &self,
        descs: &mut [Desc],
        rooms: Rooms<'_>,
        fits: impl Fn(u64, u16) -> bool + Copy,
    ) -> usize {
        let received = self.received;
        match self.inside {
            Inside::Any => self.each::<O>(descs, rooms, Run::new(&received.rx), fits, |d, _, len| {
                Some((d.len - len, d.aux))
            }),
            Inside::Bridged(bridge) => {
                // As long as `ethernet-input` has usual frames.
                self.each::<O>(descs, rooms, Run::new(&received.rx), fits, move |d, _, len| {
                    let len = d.len - len;
                    (len >= 22).then_some((len, bridge))
                })
            }
            Inside::Ip4(checks) => {
                self.each::<O>(descs, rooms, Run::new(&received.rx4), fits, move |d, w, len| {
                    stage::find(&checks, d, w, len.into())
                })
            }
            Inside::Ip6(checks) => {
                self.each::<O>(descs, rooms, Run::new(&received.rx6), fits, move |d, w, len| {
                    stage::find(&checks, d, w, len.into())
                })
            }
        }
    }

    /// The same; `inside` says of a packet with so many bytes of headers how long what comes out is, and what stands in its `aux`
    /// then, or refuses it.
    #[inline(always)]
    fn each<O: Over>(
        &self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        mut received: Run<'_>,
        fits: impl Fn(u64, u16) -> bool,
        inside: impl Fn(&Desc, &[u8; WINDOW], u16) -> Option<(u16, u32)>,
    ) -> usize {
        let &Common { rx, len, tunnel, features, .. } = self;
        let like = self.like;
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL | IN_TABLE }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            if d.rx != rx || d.aux != O::HEADER_LEN as u32 || d.len < len || !like.holds(w) {
                return false;
            }
            let first = w[O::HEADER_LEN..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            if !fits(first, d.len - O::HEADER_LEN as u16) {
                return false;
            }
            let Some((rest, aux)) = inside(d, w, len) else { return false };
            received.add(tunnel, d.len - len);
            d.off += len;
            (d.len, d.aux) = (rest, aux);
            comes_in(d, tunnel, features);
            true
        })
    }
}
