//! The short cut of `l2-bridge` for members whose frames have tags taken away or put in front, and that may change with
//! every frame.

use crate::interface::{BridgePort, Interface, Tags, bflags, ifflags};
use crate::l2::bridge::may_pass;
use graph::counters::{Run, Table};
use graph::{Desc, Rooms, WINDOW, flags};
use packet::eth::EtherType;
use tables::macs::{Entry, MacReader};
use tables::slots::SlotsReader;

/// What frames between members need.
#[derive(Clone, Copy)]
pub(super) struct Members<'v> {
    pub macs: MacReader<'v>,
    pub ifs: SlotsReader<'v, Interface>,
    /// The stamp of now.
    pub now: u16,
    /// Sent, by interface.
    pub sent: &'v Table,
    /// What they visit on the way out.
    pub features: u32,
}

/// Frames that are looked up together, at most.
const CHUNK: usize = 32;
/// Bytes in front of a frame that are shown: room for two tags.
const FRONT: usize = 8;
/// Sources and destinations, as [`addresses`] shows them.
type Pair = (u64, u64);

/// The addresses of a frame, destination and source, each in the low six bytes.
#[inline(always)]
fn addresses(w: &[u8; WINDOW]) -> Pair {
    let word = |at: usize| {
        let b = |n: usize| w[FRONT + at + n];
        u64::from_le_bytes([b(0), b(1), b(2), b(3), b(4), b(5), b(6), b(7)])
    };
    (word(0) & super::forward::MAC, word(6) & super::forward::MAC)
}

/// Where frames of one pair of addresses and one member go.
#[derive(Clone, Copy)]
struct TaggedPath {
    rx: u32,
    pair: Pair,
    /// Tags that are taken away.
    pop: u8,
    tx: u32,
    /// The interface whose queues carry them.
    hw: u32,
    /// Tags that are put in front.
    push: Tags,
    /// The longest frame.
    room: u32,
}

/// A usual member: tags are only taken away from its frames, if any.
#[inline(always)]
fn member(i: &Interface) -> Option<&BridgePort> {
    i.bridge.as_ref().filter(|port| !port.bvi && i.retag.push.count == 0)
}

impl Members<'_> {
    /// Hands frames from the front of `descs` on, as [`graph::QuickNode::quick`]: with `DIRECT` to their devices, and
    /// otherwise to `interface-output`.
    #[inline(never)]
    pub fn quick<const UNUSUAL: u16, const DIRECT: bool>(
        self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
    ) -> usize {
        const { assert!(UNUSUAL & flags::UNUSUAL == flags::UNUSUAL) };
        let n = descs.len();
        let fits = |d: &Desc| d.flags & UNUSUAL == 0 && d.len >= 22;
        let mut counts = Run::new(self.sent);
        let mut last = TaggedPath {
            rx: 0,
            pair: (u64::MAX, u64::MAX),
            pop: 0,
            tx: 0,
            hw: 0,
            push: Tags::default(),
            room: 0,
        };
        let (mut at, mut chunk) = (0, 4);
        while at < n {
            while let Some(d) = descs.get_mut(at) {
                let Some(w) = rooms.window::<FRONT>(d).filter(|_| fits(d)) else { return at };
                if addresses(w) != last.pair || d.rx != last.rx {
                    break;
                }
                if !send::<DIRECT>(d, w, &last, &mut counts) {
                    return at;
                }
                at += 1;
            }
            // Further ones, more and more of them as long as they are usual.
            chunk = (2 * chunk).min(CHUNK);
            let (mut keys, mut homes, mut len) = ([(0, 0); CHUNK], [(0, 0); CHUNK], 0);
            let mut from = [None; CHUNK];
            for (d, ((keys, homes), from)) in
                descs[at..].iter().zip(keys.iter_mut().zip(&mut homes).zip(&mut from)).take(chunk)
            {
                let Some(w) = rooms.window::<FRONT>(d).filter(|_| fits(d)) else { break };
                let Some(i) = self.ifs.get(d.rx) else { break };
                let Some(port) = member(i).filter(|p| p.flags & bflags::FORWARD != 0) else { break };
                let ((dst, src), above) = (addresses(w), port.bridge.in_key());
                if (dst | src) & 1 != 0 {
                    break;
                }
                *keys = (dst | above, src | above);
                *homes = (self.macs.home(keys.0), self.macs.home(keys.1));
                self.macs.prefetch(homes.0);
                self.macs.prefetch(homes.1);
                *from = Some((i, port));
                len += 1;
            }
            if len == 0 {
                return at;
            }
            let mut found = [Entry::NONE; CHUNK];
            for ((keys, homes), found) in keys.iter().zip(&homes).zip(&mut found).take(len) {
                *found = self.macs.find_at(homes.0, keys.0);
                if found.is_live() {
                    self.ifs.prefetch(found.port());
                }
            }
            for (((keys, homes), found), from) in keys.iter().zip(&homes).zip(&found).zip(&from).take(len) {
                let Some((i, port)) = from else { return at };
                let d = &mut descs[at];
                let settled = match port.flags & bflags::LEARN {
                    0 => keys.1 & super::forward::MAC != 0,
                    _ => self.macs.find_at(homes.1, keys.1).is_settled(Entry::learned(d.rx, self.now)),
                };
                let path = self.path::<DIRECT>(d.rx, *found, port);
                let Some(path) = path.filter(|_| settled) else { return at };
                let Some(w) = rooms.window::<FRONT>(d) else { return at };
                last = TaggedPath { pair: addresses(w), pop: i.retag.pop, ..path };
                if !send::<DIRECT>(d, w, &last, &mut counts) {
                    return at;
                }
                at += 1;
            }
        }
        at
    }

    /// The path from member `rx` to where an entry says; `None` where that is not usual, or leads not with `DIRECT` to the device.
    #[inline(always)]
    fn path<const DIRECT: bool>(&self, rx: u32, found: Entry, port: &BridgePort) -> Option<TaggedPath> {
        let tx = found.port();
        if !found.is_live() || found.is_filter() || found.is_bvi() || tx == rx {
            return None;
        }
        let to = self.ifs.get(tx)?;
        let up = ifflags::UP | ifflags::LINK;
        if !may_pass(port, member(to)?) || to.flags & (up | ifflags::BVI) != up || DIRECT && to.output != 0 {
            return None;
        }
        if to.l2_output != if DIRECT { 0 } else { self.features } {
            return None;
        }
        let push = to.retag.own;
        Some(TaggedPath { rx, pair: (0, 0), pop: 0, tx, hw: to.hw, push, room: u32::from(to.mtu) + 14 + 8 })
    }

    /// Whether frames from member `i` to where an entry says are usual, with `DIRECT` straight to the device.
    pub fn take<const DIRECT: bool>(&self, rx: u32, i: &Interface, found: Entry) -> bool {
        member(i).and_then(|port| self.path::<DIRECT>(rx, found, port)).is_some()
    }
}

/// Changes the tags of a frame and sends it on; `w` begins [`FRONT`] bytes before it. False, and nothing done, for one that
/// is not usual.
#[inline(always)]
fn send<const DIRECT: bool>(
    d: &mut Desc,
    w: &mut [u8; WINDOW],
    path: &TaggedPath,
    counts: &mut Run<'_>,
) -> bool {
    let is_tag = |at: usize| EtherType(u16::from_be_bytes([w[at], w[at + 1]])).is_vlan();
    if path.pop >= 1 && !is_tag(FRONT + 12) || path.pop >= 2 && !is_tag(FRONT + 16) {
        return false;
    }
    let (less, more) = (u16::from(path.pop) * 4, u16::from(path.push.count) * 4);
    let len = d.len - less + more;
    if u32::from(len) > path.room || d.off < FRONT as u16 {
        return false;
    }
    let at = FRONT + usize::from(less) - usize::from(more);
    if less != more {
        let Some(macs) = w[FRONT..].first_chunk::<12>().copied() else { return false };
        let Some(to) = w.get_mut(at..at + 12) else { return false };
        to.copy_from_slice(&macs);
    }
    let Some(tags) = w.get_mut(at + 12..at + 20) else { return false };
    match path.push.count {
        0 => {}
        1 => tags[..4].copy_from_slice(&path.push.bytes[..4]),
        _ => tags.copy_from_slice(&path.push.bytes),
    }
    (d.off, d.len) = (d.off + less - more, len);
    d.l2 = d.off;
    d.tx = path.tx;
    if DIRECT && path.hw != path.tx {
        counts.add(path.tx, len);
        d.tx = path.hw;
    }
    true
}
