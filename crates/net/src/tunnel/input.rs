//! What comes out of tunnels.

use super::{AllInbound, Ends, Inbound, hand_on};
use crate::interface::{comes_in, ifflags};
use crate::offload;
use crate::plane::table::{Family, V4, V6, View};
use crate::plane::{IN_TABLE, IfCache, Plane};
use graph::counters::{Run, Table};
use graph::{Desc, Guard, Packet, Published, Rooms, flags, quick};
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
    received: Arc<Table>,
    over: PhantomData<O>,
}

impl<O: Over, K: Send + Sync + 'static> Arrivals<O, K> {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Arrivals {
            plane: Arc::clone(plane),
            tunnels: plane.publish(),
            received: plane.counters.received.rx.of(worker),
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
    received: &'v Table,
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
        self.received.count(tunnel.interface, p.total_len());
        Ok(())
    }

    /// What a short cut needs for packets like the first one, whose window is `w`: with these headers behind that of IP, as far as
    /// `masks` say, up to `len` bytes.
    pub(crate) fn common(
        &self,
        first: &Desc,
        w: &[u8],
        id: Option<u64>,
        masks: [u64; 2],
        len: usize,
        guard: &'v Guard,
    ) -> Option<(&'v Inbound, Common<'v>)> {
        // All are looked up in the table of the interface on which they came.
        let (local, remote, _) = O::outer(w).filter(|_| !first.has(IN_TABLE))?;
        let ends = Ends { local, remote, v6: O::V6, table: self.tables.fib_index(first), id };
        let tunnel = self.all.get(&ends).filter(|t| t.last.is_none())?;
        let i = self.plane.interfaces.get(tunnel.interface, guard).filter(|i| i.is(ifflags::UP))?;
        let common = Common {
            rx: first.rx,
            local,
            remote,
            words: words::<O>(w)?,
            masks,
            len: (O::HEADER_LEN + len) as u16,
            tunnel: tunnel.interface,
            features: if tunnel.frames { i.input } else { 0 },
            received: self.received,
        };
        Some((tunnel, common))
    }
}

/// The first bytes behind the IP header.
#[inline(always)]
fn words<O: Over>(w: &[u8]) -> Option<[u64; 2]> {
    let bytes: &[u8; 16] = w.get(O::HEADER_LEN..)?.first_chunk()?;
    let [a, b] = bytes.as_chunks::<8>().0 else { return None };
    Some([u64::from_be_bytes(*a), u64::from_be_bytes(*b)])
}

/// What the usual packets of a vector have in common: they come out of one tunnel, with headers that say the same.
pub struct Common<'v> {
    rx: u32,
    local: u128,
    remote: u128,
    /// What stands behind the IP header, as far as it is the same.
    words: [u64; 2],
    masks: [u64; 2],
    /// Bytes of all headers.
    len: u16,
    tunnel: u32,
    features: u32,
    received: &'v Table,
}

impl Common<'_> {
    /// [`graph::QuickNode::features`].
    pub fn features(&self) -> u32 {
        self.features
    }

    /// [`graph::QuickNode::quick`]; `fits` says whether the first word behind the IP header fits so many bytes from there on.
    #[inline(always)]
    pub fn quick<O: Over>(
        &self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        fits: impl Fn(u64, u16) -> bool,
    ) -> usize {
        let mut received = Run::new(self.received);
        let &Common { rx, local, remote, masks, len, tunnel, features, .. } = self;
        // Compared as they stand in memory: swapped here, and not for each packet.
        let ([first, second], masks) = (self.words.map(u64::to_be), masks.map(u64::to_be));
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL | IN_TABLE }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            let Some([a, b]) = words::<O>(w).map(|words| words.map(u64::to_be)) else { return false };
            let same = (a ^ first) & masks[0] | (b ^ second) & masks[1] == 0
                && O::outer(w).is_some_and(|(l, r, class)| l == local && r == remote && class & 3 == 0);
            if !same || d.rx != rx || d.aux != O::HEADER_LEN as u32 || d.len < len {
                return false;
            }
            if !fits(u64::from_be(a), d.len - O::HEADER_LEN as u16) {
                return false;
            }
            d.off += len;
            d.len -= len;
            comes_in(d, tunnel, features);
            received.add(tunnel, d.len);
            true
        })
    }
}
