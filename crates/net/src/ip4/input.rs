//! `ip4-input`: the header checks of RFC 1812 section 5.2.2 and the martian addresses of section 5.3.7.

use crate::interface::{Column, Interface, Setting, ifflags};
use crate::layer::{self, Checked};
use crate::plane::sources::{Marks, is_odd};
use crate::plane::table::{V4, View};
use crate::plane::{IfCache, Plane, kind};
use graph::counters::Table;
use graph::node::Step;
use graph::stage::{self, CameOn, Found, Spot, Stage, Then};
use graph::{Desc, Guard, Like, Node, Packet, Published, QuickNode, Rooms, TraceRecord, WINDOW, flags};
use packet::ip4::{self, Ip4Error};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-input` sends packets.
    pub enum Ip4Next {
        Features => "@ip4-unicast",
        Options => "ip4-options",
        Local => "ip4-local",
    }
}

graph::reasons! {
    /// Why `ip4-input` drops packets.
    pub enum Ip4Drop {
        /// Fewer bytes than an IPv4 header has (RFC 1812 section 5.2.2, check 1).
        TooShort => "ip4-too-short",
        /// The IP version is not 4 (check 3).
        BadVersion => "ip4-bad-version",
        /// The header length is under 20 bytes or beyond the packet (check 4).
        BadHeaderLength => "ip4-bad-header-length",
        /// The total length is under the header length or beyond the packet (checks 1 and 5).
        BadTotalLength => "ip4-bad-total-length",
        /// The header checksum is wrong (check 2).
        BadChecksum => "ip4-bad-checksum",
        /// The interface has no IPv4 address.
        NotEnabled => "ip4-not-enabled",
        /// The source address cannot be a host's: 0/8, 127/8, multicast, broadcast, class E (RFC 1812 section 5.3.7).
        BadSource => "ip4-martian-source",
        /// The source is the network or broadcast address of a connected prefix, which no host has (RFC 1812 section 5.3.7).
        NoHost => "ip4-source-no-host",
        /// The destination address may not be seen on a link: 0/8, 127/8, class E (RFC 1812 section 5.3.7).
        BadDestination => "ip4-martian-destination",
        /// A group that the interface has not joined, or the limited broadcast: neither is forwarded.
        Multicast => "ip4-multicast-not-handled",
        /// An IPv4 unicast packet in a link-layer broadcast (RFC 1122 section 3.3.6).
        L2Broadcast => "ip4-unicast-in-l2-broadcast",
    }
}

impl From<Ip4Error> for Ip4Drop {
    fn from(e: Ip4Error) -> Self {
        match e {
            Ip4Error::TooShort => Ip4Drop::TooShort,
            Ip4Error::BadVersion => Ip4Drop::BadVersion,
            Ip4Error::BadHeaderLength => Ip4Drop::BadHeaderLength,
            Ip4Error::BadTotalLength => Ip4Drop::BadTotalLength,
            Ip4Error::BadChecksum => Ip4Drop::BadChecksum,
        }
    }
}

/// Whether packets received from the network or broadcast address of a connected prefix are forwarded all the same (RFC 1812
/// section 5.3.7 has them dropped).
pub static BROADCAST_SOURCES_FORWARD: Setting<bool> =
    Setting::new("forwards packets from broadcast addresses", "set interface ip broadcast-sources {} drop");

/// The node.
pub struct Ip4Input {
    plane: Arc<Plane>,
    marks: Arc<Published<Marks>>,
    forward: Column<bool>,
    counts: Arc<Table>,
}

impl Ip4Input {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip4Input {
            plane: Arc::clone(plane),
            marks: plane.publish(),
            forward: plane.columns.of(&BROADCAST_SOURCES_FORWARD),
            counts: plane.counters.received.ip4.of(worker),
        }
    }
}

/// Snapshot of one vector.
pub struct Ip4InputView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    ifs: IfCache<'v>,
    marks: &'v Marks,
    forward: Column<bool>,
    counts: &'v Table,
}

impl Ip4InputView<'_> {
    /// Whether an address is the network or broadcast address of a connected prefix in the table of an interface.
    #[cold]
    fn is_nobodys(&self, rx: u32, addr: u32) -> bool {
        let group = View::<V4>::new(self.plane, self.guard).lookup_one(rx, &addr);
        self.plane.groups.resolve(group, 0).kind == kind::BROADCAST
    }
}

/// Whether a packet between these addresses may be forwarded: both are of single hosts.
pub(crate) fn may_pass(src: u32, dst: u32) -> bool {
    !is_odd(src) && !is_odd(dst)
}

/// Whether an address is a group of one link (RFC 5771 section 4), or the broadcast.
fn is_near(dst: u32) -> bool {
    dst >> 8 == 0x00e0_0000 || dst == u32::MAX
}

/// Whether a host asks Linux for an address, where the interface has a pair (RFC 2131 section 4.1).
#[cold]
fn is_without_address(i: &Interface, dst: u32) -> bool {
    dst == u32::MAX && i.is(ifflags::LINUX)
}

impl Node for Ip4Input {
    const NAME: &'static str = "ip4-input";
    type Next = Ip4Next;
    type Drop = Ip4Drop;
    type View<'v> = Ip4InputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4InputView<'v> {
        Ip4InputView {
            plane: &self.plane,
            guard,
            ifs: IfCache::new(&self.plane, guard),
            marks: self.marks.load(guard),
            forward: self.forward,
            counts: &self.counts,
        }
    }

    #[inline]
    fn step(view: &mut Ip4InputView<'_>, p: &mut Packet<'_>) -> Step<Ip4Next, Ip4Drop> {
        view.counts.add(p.d.rx, 1);
        let have = p.total_len();
        let h = ip4::Ip4Header(ip4::check(p.data(), have).map_err(Ip4Drop::from)?);
        let (src, dst) = (h.src_u32(), h.dst_u32());
        let (total, options) = (usize::from(h.total_len()), h.header_len() > ip4::HEADER_LEN);
        let Some(i) = view.ifs.get(p.d.rx) else { return Err(Ip4Drop::NotEnabled.into()) };
        if !i.is(ifflags::IP4) {
            return Err(Ip4Drop::NotEnabled.into());
        }
        if total < have {
            // Ethernet padding.
            p.trim(total);
        }
        if is_odd(src) && !(src == 0 && is_without_address(i, dst)) {
            return Err(Ip4Drop::BadSource.into());
        }
        if view.marks.may_be_nobodys(src) && !i.settings.get(view.forward) && view.is_nobodys(p.d.rx, src) {
            return Err(Ip4Drop::NoHost.into());
        }
        if is_odd(dst) {
            let multicast = dst >> 28 == 0xe || dst == u32::MAX;
            if multicast && (i.groups4.binary_search(&dst).is_ok() || i.is(ifflags::LINUX) && is_near(dst)) {
                return Ok(Ip4Next::Local);
            }
            return Err(if multicast { Ip4Drop::Multicast } else { Ip4Drop::BadDestination }.into());
        }
        if p.has(flags::L2_GROUP) {
            return Err(Ip4Drop::L2Broadcast.into());
        }
        p.d.aux = dst;
        p.d.feat = i.ip4_unicast;
        if options {
            return Ok(Ip4Next::Options);
        }
        Ok(Ip4Next::Features)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// First byte of a header without options.
const PLAIN: u8 = 0x45;

/// Total length and destination of a usual packet whose header is `h`, behind `at` bytes of others, of `len` bytes with these:
/// nothing for which `step` does more. The caller has seen the first byte.
#[inline(always)]
fn sane(h: &[u8; ip4::HEADER_LEN], at: u16, len: u16, marks: &Marks) -> Option<(u16, u32)> {
    let total = u16::from_be_bytes([h[2], h[3]]);
    let both = u64::from_le_bytes(*h.last_chunk()?);
    // What does not fit 16 bits wraps to less than `at`: seen as too short.
    let end = at.wrapping_add(total);
    if end < at + ip4::HEADER_LEN as u16
        || end > len
        || !packet::checksum::is_valid20_by(h, &marks.multiples)
        || !marks.pass(both)
    {
        return None;
    }
    Some((total, both.swap_bytes() as u32))
}

/// The checks of a usual packet.
#[derive(Clone, Copy)]
pub struct Checks4<'v>(&'v Marks);

static UNLABELLED: Marks = Marks::PLAIN;

impl<'v> Checks4<'v> {
    /// As `ip4-input` makes them.
    pub fn new(marks: &'v Marks) -> Self {
        Checks4(marks)
    }

    /// For what comes out of labels, where `ip4-input` is not asked.
    pub fn unlabelled() -> Self {
        Checks4(&UNLABELLED)
    }
}

impl Stage for Checks4<'_> {
    type Needs = layer::Ip4;
    type Leaves = Checked<layer::Ip4>;
    const HEADER: u16 = 0;
    const NODE: &'static str = Ip4Input::NAME;

    fn asks(&self, like: Like, at: usize) -> Like {
        like.and(at, PLAIN, 0xff)
    }

    #[inline(always)]
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool {
        let Some(h) = spot.header(w) else { return false };
        if !spot.has_asked(0) && h[0] != PLAIN {
            return false;
        }
        let Some((total, dst)) = sane(h, spot.at as u16, d.len, self.0) else { return false };
        *found = Found { len: total.into(), aux: dst };
        true
    }
}

impl QuickNode for Ip4Input {
    /// The interface of the usual packets, which has an IPv4 address, and its features.
    type Common<'v> = (u32, u32, &'v Marks, &'v Table);

    fn common<'v>(
        view: &Ip4InputView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip4Next, Self::Common<'v>)> {
        let i = view.ifs.peek(first.rx)?;
        i.takes_ip4().then_some((Ip4Next::Features, (first.rx, i.ip4_unicast, view.marks, view.counts)))
    }

    fn features(common: &Self::Common<'_>) -> u32 {
        common.1
    }

    fn quick(&(rx, _, marks, counts): &Self::Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let taken = stage::run(Then::new(CameOn::new(rx), Checks4::new(marks)), descs, rooms);
        counts.add(rx, taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_packet_has_a_header_and_all_that_it_says() {
        let mut h = [0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 2, 3, 10, 4, 5, 6];
        for total in (0..=64).chain(1480..=1520).chain(u16::MAX - 64..=u16::MAX) {
            h[2..4].copy_from_slice(&total.to_be_bytes());
            ip4::fill_checksum(&mut h);
            for at in [0, 4, 14, 18, 22] {
                for len in [0, 13, 19, 33, 34, 46, 60, 1514, u16::MAX - 1, u16::MAX] {
                    let fits = total >= 20 && u32::from(at) + u32::from(total) <= len.into();
                    let found = sane(&h, at, len, &Marks::PLAIN);
                    assert_eq!(
                        found,
                        fits.then_some((total, 0x0a04_0506)),
                        "{total} bytes behind {at} of {len}"
                    );
                }
            }
        }
    }
}
