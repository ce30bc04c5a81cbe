//! `l2-bridge`: learns where a frame comes from, and sends it to where its destination is.

use crate::interface::retag::RetagError;
use crate::interface::{BridgePort, Interface, bflags, ifflags};
use crate::ip4::input::Checks4;
use crate::ip6::input::Checks6;
use crate::l2::bridge::tagged::Members;
use crate::l2::bridge::{BridgeCache, Egress, Refused, may_pass};
use crate::plane::sources::Marks;
use crate::plane::{Bridge, IfCache, Plane, RxCounts};
use crate::punt::Request;
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::stage;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, WINDOW, flags};
use packet::eth::EtherType;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::macs::{self, Entry, Learnt, Limits, MacReader};
use tables::slots::SlotsReader;

graph::edges! {
    /// Where `l2-bridge` sends frames.
    pub enum BridgeNext {
        Output => "@l2-output",
        Direct => "interface-tx",
        Flood => "l2-flood",
        Answer => "l2-arp-term",
        Bvi => "bvi-input",
        Ip4Features => "@ip4-unicast",
        Ip6Features => "@ip6-unicast",
    }
}

graph::reasons! {
    /// What `l2-bridge` counts.
    pub enum BridgeReason {
        /// The frame is shorter than an Ethernet header.
        TooShort => "l2-frame-too-short",
        /// The interface is in no bridge domain any more.
        NoBridge => "l2-no-bridge-domain",
        /// The source address is a group address or zero.
        BadSource => "l2-bad-source",
        /// To a group address of which frames never pass a bridge: spanning tree, LACP, LLDP (IEEE 802.1Q table 8-1).
        LinkLocal => "l2-link-local-multicast",
        /// The source or destination address is to be dropped (l2fib add ... filter).
        Filter => "l2-filter",
        /// The source address belongs behind another interface for good.
        StaticMoved => "l2-static-mac-moved",
        /// The destination is behind the interface on which the frame came.
        SameInterface => "l2-same-interface",
        /// The destination is in the same split-horizon group.
        SplitHorizon => "l2-split-horizon",
        /// The destination is a group, and the bridge domain or the interface does not flood.
        FloodOff => "l2-flood-off",
        /// The destination is not known, and the bridge domain or the interface does not flood such frames.
        UnknownUnicast => "l2-unknown-unicast",
        /// The frame has fewer tags than are to be taken away.
        NoTag => "l2-no-tag-to-pop",
        /// There is no room in front of the frame for the tags to push.
        NoRoom => "l2-no-room-for-tags",
        /// An address was learned.
        Learned => "l2-mac-learned" (info),
        /// An address is on another interface now.
        Moved => "l2-mac-moved" (info),
        /// Not learned: the bridge domain has as many addresses as it may.
        BridgeLimit => "l2-mac-limit-bridge" (info),
        /// Not learned: the interface has as many addresses as it may.
        PortLimit => "l2-mac-limit-interface" (info),
        /// Not learned: the router has as many addresses as it may.
        TableLimit => "l2-mac-limit-table" (info),
        /// Not learned: the table is growing.
        TableGrows => "l2-mac-table-grows" (info),
    }
}

impl From<RetagError> for BridgeReason {
    fn from(e: RetagError) -> Self {
        match e {
            RetagError::TooShort => BridgeReason::TooShort,
            RetagError::NoTag => BridgeReason::NoTag,
            RetagError::NoRoom => BridgeReason::NoRoom,
        }
    }
}

impl From<Refused> for BridgeReason {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Filter => BridgeReason::Filter,
            Refused::SameInterface => BridgeReason::SameInterface,
            Refused::SplitHorizon => BridgeReason::SplitHorizon,
            Refused::Tags(e) => e.into(),
        }
    }
}

/// The node.
pub struct L2Bridge {
    plane: Arc<Plane>,
    marks: Arc<Published<Marks>>,
    counts: RxCounts,
    tx: Arc<Table>,
    bridges: Arc<Table>,
    ports: Arc<Table>,
}

impl L2Bridge {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        let l2 = &plane.l2;
        let (bridges, ports) = (l2.bridge_events.of(worker), l2.port_events.of(worker));
        let (counts, tx) = (plane.counters.received_by(worker), plane.counters.tx.of(worker));
        L2Bridge { plane: Arc::clone(plane), marks: plane.publish(), counts, tx, bridges, ports }
    }
}

/// Snapshot of one vector.
pub struct BridgeView<'v> {
    plane: &'v Plane,
    rx: IfCache<'v>,
    tx: IfCache<'v>,
    bridge: BridgeCache<'v>,
    macs: MacReader<'v>,
    /// The stamp of now.
    now: u16,
    marks: &'v Marks,
    counts: &'v RxCounts,
    sent: &'v Table,
    bridges: &'v Table,
    ports: &'v Table,
}

/// A MAC address in a word.
pub(super) const MAC: u64 = (1 << 48) - 1;
/// Among the bits of an entry: the source address of the frame needs nothing. Its own stamp is not needed there.
const SETTLED: u32 = 1 << 16;
const STAMP: u32 = (macs::STAMP_MASK as u32) << 16;
/// The bits by which usual frames are told, and what they are for frames to another member, and to the BVI.
const KIND: u32 = Entry::LIVE | Entry::FILTER | Entry::BVI | SETTLED;
const TO_MEMBER: u32 = Entry::LIVE | SETTLED;
const TO_BVI: u32 = Entry::LIVE | Entry::BVI | SETTLED;

impl BridgeView<'_> {
    /// Learns the source address of a frame.
    fn learn(
        &self,
        p: &mut Packet<'_>,
        key: u64,
        port: &BridgePort,
        bridge: &Bridge,
    ) -> Result<(), BridgeReason> {
        let limits = Limits { bridge: bridge.limit, port: port.limit };
        let seen = Entry::learned(p.d.rx, self.now);
        if self.macs.find(key).is_settled(seen) {
            return Ok(());
        }
        let event = match self.macs.learn(key, seen, limits) {
            Learnt::Known | Learnt::Busy => return Ok(()),
            Learnt::Fixed(e) if e.is_filter() => return Err(BridgeReason::Filter),
            Learnt::Fixed(_) => return Err(BridgeReason::StaticMoved),
            Learnt::New => BridgeReason::Learned,
            Learnt::Moved => BridgeReason::Moved,
            Learnt::BridgeLimit => BridgeReason::BridgeLimit,
            Learnt::PortLimit => BridgeReason::PortLimit,
            Learnt::TableLimit => BridgeReason::TableLimit,
            Learnt::NoRoom => BridgeReason::TableGrows,
        };
        p.count(event);
        let rows = [self.bridges.get(port.bridge.into()), self.ports.get(p.d.rx)];
        for row in rows.into_iter().flatten() {
            match event {
                BridgeReason::Moved => row.bytes.add(1),
                BridgeReason::Learned => {}
                _ => row.packets.add(1),
            }
        }
        if self.macs.wants_room() {
            self.plane.punt.request(Request::MacTable);
        }
        Ok(())
    }
}

/// True for addresses of which frames never pass a bridge: 01:80:c2:00:00:00 to 0f.
#[inline]
fn is_link_local(dst: [u8; 6]) -> bool {
    dst[..5] == [0x01, 0x80, 0xc2, 0, 0] && dst[5] < 16
}

/// True for what `l2-arp-term` may answer: ARP, and IPv6 to a solicited-node address.
fn may_be_answered(p: &Packet<'_>) -> bool {
    let Some(h) = p.head::<14>() else { return false };
    match EtherType(u16::from_be_bytes([h[12], h[13]])) {
        EtherType::ARP => true,
        EtherType::IPV6 => h[..3] == [0x33, 0x33, 0xff],
        _ => false,
    }
}

impl Node for L2Bridge {
    const NAME: &'static str = "l2-bridge";
    type Next = BridgeNext;
    type Drop = BridgeReason;
    type View<'v> = BridgeView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> BridgeView<'v> {
        let plane: &Plane = &self.plane;
        BridgeView {
            plane,
            rx: IfCache::new(plane, guard),
            tx: IfCache::new(plane, guard),
            bridge: BridgeCache::new(plane, guard),
            macs: plane.l2.macs.reader(guard),
            now: plane.l2.clock.load(Ordering::Relaxed) as u16,
            marks: self.marks.load(guard),
            counts: &self.counts,
            sent: &self.tx,
            bridges: &self.bridges,
            ports: &self.ports,
        }
    }

    fn step(view: &mut BridgeView<'_>, p: &mut Packet<'_>) -> Step<BridgeNext, BridgeReason> {
        let Some(&head) = p.head::<14>() else { return Err(BridgeReason::TooShort.into()) };
        let Some(rx) = view.rx.get(p.d.rx) else { return Err(BridgeReason::NoBridge.into()) };
        let Some(port) = &rx.bridge else { return Err(BridgeReason::NoBridge.into()) };
        let Some(bridge) = view.bridge.get(port.bridge) else { return Err(BridgeReason::NoBridge.into()) };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = head;
        let (dst, src) = ([d0, d1, d2, d3, d4, d5], [s0, s1, s2, s3, s4, s5]);
        if is_link_local(dst) {
            return Err(BridgeReason::LinkLocal.into());
        }
        if src[0] & 1 != 0 || src == [0; 6] {
            return Err(BridgeReason::BadSource.into());
        }
        if !port.bvi && port.is(bflags::LEARN) {
            view.learn(p, port.bridge.key(src), port, bridge)?;
        }
        rx.retag.enter(p).map_err(BridgeReason::from)?;
        if dst[0] & 1 != 0 {
            if port.is(bflags::ARP_TERM) && may_be_answered(p) {
                return Ok(BridgeNext::Answer);
            }
            if !port.is(bflags::FLOOD) {
                return Err(BridgeReason::FloodOff.into());
            }
            return Ok(BridgeNext::Flood);
        }
        if port.is(bflags::FORWARD) {
            let found = view.macs.find(port.bridge.key(dst));
            match super::towards(p, port, found, &mut view.tx, &view.counts.rx).map_err(BridgeReason::from)? {
                Some(Egress::Output) => return Ok(BridgeNext::Output),
                Some(Egress::Bvi) => return Ok(BridgeNext::Bvi),
                None => {}
            }
        }
        if !port.is(bflags::UU_FLOOD) {
            return Err(BridgeReason::UnknownUnicast.into());
        }
        Ok(BridgeNext::Flood)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

/// What the usual frames of a vector have in common: they come from one interface without tags to change, and their
/// sources need nothing.
pub struct Common<'v> {
    from: Source<'v>,
    to: To<'v>,
    /// What they visit where they go.
    features: u32,
}

/// Where they come from.
#[derive(Clone, Copy)]
struct Source<'v> {
    rx: u32,
    port: BridgePort,
    /// What is known of their sources, if these are learned.
    seen: Option<Entry>,
    macs: MacReader<'v>,
    ifs: SlotsReader<'v, Interface>,
}

/// Where they go.
#[derive(Clone, Copy)]
enum To<'v> {
    /// From and to members with tags that are taken away or put in front: to the devices of these.
    Tagged(Members<'v>),
    /// The same, to `interface-output`, by members that have the same features on the way there.
    TaggedOutput(Members<'v>),
    /// Straight to the devices of other members: what `interface-output` would do is done here.
    Direct,
    /// To `interface-output`, from members without features on the way there.
    Output,
    /// IPv4 packets to the BVI, in which `bvi-input` and `ip4-input` would find nothing unusual.
    Ip4(Up<'v>),
    /// The same for IPv6.
    Ip6(Up<'v>),
    /// Frames to the BVI.
    Up(Up<'v>),
}

/// The BVI.
#[derive(Clone, Copy)]
struct Up<'v> {
    bvi: u32,
    /// Its MAC address in the low six bytes.
    mac: u64,
    marks: &'v Marks,
    counts: &'v RxCounts,
}

/// The addresses at the start of a frame, destination and source, each in the low six bytes.
#[inline(always)]
fn addresses(w: &[u8; WINDOW]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, ..] = *w;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]) & MAC, u64::from_le_bytes([g, h, i, j, k, l, m, n]) & MAC)
}

/// The same twelve bytes as they are: quicker to compare.
#[inline(always)]
fn raw(w: &[u8; WINDOW]) -> (u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *w;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]))
}

/// Addresses of a frame, destination and source, and where they belong.
type Ahead = ((u64, u64), (u32, u32));

/// Frames that are looked up together, at most: enough to hide the memory behind the table.
const CHUNK: usize = 64;

impl Source<'_> {
    /// What the table says of a pair of addresses: the entry of the destination, and whether the source is settled.
    #[inline(always)]
    fn find(&self, homes: (u32, u32), keys: (u64, u64)) -> u32 {
        let found = self.macs.find_at(homes.0, keys.0).bits() & !STAMP;
        let settled = match self.seen {
            // A group address is never learned, and so never settled.
            Some(seen) => self.macs.find_at(homes.1, keys.1).is_settled(seen),
            None => keys.1 & 1 == 0 && keys.1 & MAC != 0,
        };
        found | if settled { SETTLED } else { 0 }
    }

    /// Whether a frame is one to look at.
    #[inline(always)]
    fn fits<const UNUSUAL: u16>(&self, d: &Desc) -> bool {
        d.flags & UNUSUAL == 0 && d.rx == self.rx && d.len >= 14
    }

    /// Looks at the addresses of the frame at a place, and asks for what is known of them; false where there is none to look at.
    #[inline(always)]
    fn see<const UNUSUAL: u16>(
        &self,
        descs: &[Desc],
        at: usize,
        rooms: &mut Rooms<'_>,
        ahead: &mut [Ahead; CHUNK],
    ) -> bool {
        let w = descs.get(at).filter(|d| self.fits::<UNUSUAL>(d)).and_then(|d| rooms.window::<0>(d));
        let Some((dst, src)) = w.map(|w| addresses(w)) else { return false };
        let above = self.port.bridge.in_key();
        let (to, from) = (self.macs.home(dst | above), self.macs.home(src | above));
        self.macs.prefetch(to);
        self.macs.prefetch(from);
        ahead[at % CHUNK] = ((dst, src), (to, from));
        true
    }

    /// Hands frames from the front of `descs` to `usual`, with the way that `judge` says for a pair of addresses and what was
    /// found for it, until one is unusual or refused.
    #[inline(always)]
    fn run<const UNUSUAL: u16, W: Copy>(
        &self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        mut judge: impl FnMut((u64, u64), u32) -> Option<W>,
        mut usual: impl FnMut(&mut Desc, &mut [u8; WINDOW], W) -> bool,
    ) -> usize {
        const { assert!(UNUSUAL & flags::UNUSUAL == flags::UNUSUAL) };
        let (above, n) = (self.port.bridge.in_key(), descs.len());
        // The pair of the frame before, of which many come in a row, and its way.
        let mut last: Option<((u64, u64), W)> = None;
        let (mut at, mut chunk) = (0, 4);
        // The addresses of the frames ahead, and where they belong.
        let mut ahead = [((0u64, 0u64), (0u32, 0u32)); CHUNK];
        loop {
            if let Some(((dst, src), way)) = last {
                let pair = (dst | src << 48, (src >> 16) as u32);
                while at < n {
                    let d = &mut descs[at];
                    let Some(w) = rooms.window::<0>(d).filter(|_| self.fits::<UNUSUAL>(d)) else { return at };
                    if raw(w) != pair {
                        break;
                    }
                    if !usual(d, w, way) {
                        return at;
                    }
                    at += 1;
                }
            }
            // Further pairs, more and more of them as long as they are usual.
            chunk = (2 * chunk).min(CHUNK);
            let mut seen = at;
            while seen - at < chunk && self.see::<UNUSUAL>(descs, seen, &mut rooms, &mut ahead) {
                seen += 1;
            }
            if seen == at {
                return at;
            }
            while at < seen {
                let d = &mut descs[at];
                let Some(w) = rooms.window::<0>(d) else { return at };
                let (pair, homes) = ahead[at % CHUNK];
                let answer = self.find(homes, (pair.0 | above, pair.1 | above));
                let Some(way) = judge(pair, answer) else { return at };
                last = Some((pair, way));
                if !usual(d, w, way) {
                    return at;
                }
                at += 1;
                // All are different: what comes next is on its way while this one is served.
                if chunk == CHUNK && self.see::<UNUSUAL>(descs, seen, &mut rooms, &mut ahead) {
                    seen += 1;
                }
            }
        }
    }

    /// The longest frame that an interface takes as it is; `None` for one that is no usual member, or with `DIRECT` has features.
    #[inline]
    fn room<const DIRECT: bool>(&self, tx: u32) -> Option<u32> {
        let i = self.ifs.get(tx)?;
        let to = i.bridge.as_ref()?;
        (tx != self.rx
            && may_pass(&self.port, to)
            && i.retag.is_none()
            && i.is_ready(tx)
            && i.l2_output == 0
            && !(DIRECT && i.output != 0))
            .then(|| u32::from(i.mtu) + 14 + 8)
    }

    /// Frames to other members.
    #[inline(never)]
    fn across<const UNUSUAL: u16, const DIRECT: bool>(self, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let (mut last, mut room) = (u32::MAX, 0);
        let judge = |_, answer: u32| {
            if answer & KIND != TO_MEMBER {
                return None;
            }
            let tx = Entry::from_bits(answer).port();
            if tx != last {
                (last, room) = (tx, self.room::<DIRECT>(tx)?);
            }
            Some((tx, room))
        };
        self.run::<UNUSUAL, _>(descs, rooms, judge, |d, _, (tx, room)| {
            let fits = u32::from(d.len) <= room;
            if fits {
                d.tx = tx;
            }
            fits
        })
    }

    /// Frames to the BVI; `inside` says where the packet starts and how long it is, where nothing is unusual about it.
    #[inline(always)]
    fn up(
        self,
        up: Up<'_>,
        counts: &Table,
        descs: &mut [Desc],
        rooms: Rooms<'_>,
        inside: impl Fn(&[u8; WINDOW], &mut Desc) -> Option<(u16, u16)>,
    ) -> usize {
        let mut counts = Run::new(counts);
        counts.turn(up.bvi);
        let want = TO_BVI | up.bvi;
        // What comes from the address of the BVI itself is no usual frame.
        let judge =
            |pair: (u64, u64), answer| (answer & (KIND | 0xffff) == want && pair.1 != up.mac).then_some(());
        self.run::<{ flags::UNUSUAL }, _>(descs, rooms, judge, |d, w, ()| {
            let whole = d.len;
            let Some((at, len)) = inside(w, d) else { return false };
            counts.count(whole);
            d.rx = up.bvi;
            d.off += at;
            d.len = len;
            true
        })
    }

    #[inline(never)]
    fn up4(self, up: Up<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        self.up(up, &up.counts.rx4, descs, rooms, move |w, d| {
            let (total, dst) = stage::find(&Checks4::new(up.marks), d, w, 14)?;
            (w[12..14] == [0x08, 0x00]).then(|| d.aux = dst).map(|()| (14, total))
        })
    }

    #[inline(never)]
    fn up6(self, up: Up<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        self.up(up, &up.counts.rx6, descs, rooms, |w, d| {
            let (total, _) = stage::find(&Checks6, d, w, 14)?;
            (w[12..14] == [0x86, 0xdd]).then_some((14, total))
        })
    }
}

impl QuickNode for L2Bridge {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &BridgeView<'v>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(BridgeNext, Common<'v>)> {
        let rx = view.rx.peek(first.rx)?;
        let port = rx.bridge?;
        if !port.is(bflags::FORWARD) {
            return None;
        }
        let learns = port.is(bflags::LEARN) && !port.bvi;
        let seen = learns.then(|| Entry::learned(first.rx, view.now));
        let from = Source { rx: first.rx, port, seen, macs: view.macs, ifs: view.rx.all() };
        let w = rooms.window::<0>(first)?;
        let found = view.macs.find(addresses(w).0 | port.bridge.in_key());
        let tx = found.port();
        let visits = from.ifs.get(tx).filter(|_| found.is_live()).map_or(0, |i| i.l2_output);
        let members =
            Members { macs: view.macs, ifs: from.ifs, now: view.now, sent: view.sent, features: visits };
        // Members with features of their own are left to `interface-output`.
        let tagged = || match members.take::<true>(first.rx, rx, found) {
            true => Some((BridgeNext::Direct, To::Tagged(members))),
            false if !members.take::<false>(first.rx, rx, found) => None,
            false => Some((BridgeNext::Output, To::TaggedOutput(members))),
        };
        if !rx.retag.is_none() {
            return tagged().map(|(next, to)| (next, Common { from, to, features: visits }));
        }
        let (next, to, features) = match found.bits() & (KIND & !SETTLED) {
            kind if kind == TO_MEMBER & !SETTLED => match from.room::<true>(tx) {
                Some(_) => (BridgeNext::Direct, To::Direct, 0),
                None => {
                    let (next, to) = tagged()?;
                    (next, to, visits)
                }
            },
            kind if kind == TO_BVI & !SETTLED => {
                let i = from.ifs.get(tx).filter(|i| i.is(ifflags::UP))?;
                i.bridge.filter(|b| b.bvi && tx != first.rx && may_pass(&port, b))?;
                let up = Up { bvi: tx, mac: macs::key(0, i.mac), marks: view.marks, counts: view.counts };
                match EtherType(u16::from_be_bytes([w[12], w[13]])) {
                    EtherType::IPV4 if i.takes_ip4() => (BridgeNext::Ip4Features, To::Ip4(up), i.ip4_unicast),
                    EtherType::IPV6 if i.takes_ip6() => (BridgeNext::Ip6Features, To::Ip6(up), i.ip6_unicast),
                    _ => (BridgeNext::Bvi, To::Up(up), 0),
                }
            }
            _ => return None,
        };
        Some((next, Common { from, to, features }))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features
    }

    fn behind(common: &mut Common<'_>, edge: BridgeNext, _: &Desc) -> Option<BridgeNext> {
        (common.to, common.features) = match (common.to, edge) {
            (To::Direct, BridgeNext::Output) => (To::Output, 0),
            (To::Tagged(m), BridgeNext::Output) => (To::TaggedOutput(m), m.features),
            (To::Ip4(up) | To::Ip6(up), BridgeNext::Bvi) => (To::Up(up), 0),
            _ => return None,
        };
        Some(edge)
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let from = common.from;
        match common.to {
            To::Direct => from.across::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, true>(descs, rooms),
            To::Output => from.across::<{ flags::UNUSUAL }, false>(descs, rooms),
            To::Tagged(m) => m.quick::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, true>(descs, rooms),
            To::TaggedOutput(m) => m.quick::<{ flags::UNUSUAL }, false>(descs, rooms),
            To::Ip4(up) => from.up4(up, descs, rooms),
            To::Ip6(up) => from.up6(up, descs, rooms),
            To::Up(up) => from.up(up, &up.counts.rx, descs, rooms, |_, d| Some((0, d.len))),
        }
    }
}
