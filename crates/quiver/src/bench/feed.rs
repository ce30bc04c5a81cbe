//! The packet generator of the benchmark: a receive queue that writes packets whole, each into a buffer of its own,
//! with destinations from a list.

use graph::buffer::{DATA, HEADROOM};
use graph::clock::tsc;
use graph::io::{Ready, RxQueue};
use graph::{Buffers, Desc, Vector};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Name of the input node under which its clocks are counted.
pub const NODE: &str = drivers::generator::queue::INPUT_NODE;

/// Where a template takes its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Every packet is the same.
    None,
    /// The IPv4 header that starts here gets the next address of the list, and its checksum follows.
    Ip4(usize),
    /// The word that starts here is the next of the list of IPv4 destinations: a label.
    Word(usize),
    /// The frame gets the next pair of MAC addresses.
    Macs,
    /// The IPv6 header that starts here gets the next address, and the checksum of the UDP behind it follows.
    Ip6(usize),
}

/// One kind of packet.
#[derive(Clone, Debug)]
pub struct Template {
    /// The frame, with destination 0.0.0.0 or :: where it is patched.
    pub bytes: Vec<u8>,
    /// What is written into it.
    pub patch: Patch,
    /// Bytes of VLAN tags behind the addresses that are written as well: 0, 4 or 8.
    pub tags: usize,
}

/// What all queues of a benchmark send.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Kinds of packets.
    pub templates: Vec<Template>,
    /// In which order they come, again and again; numbers of templates.
    pub order: Vec<u16>,
    /// IPv4 destinations.
    pub dst4: Arc<[u32]>,
    /// IPv6 destinations.
    pub dst6: Arc<[[u8; 16]]>,
    /// Destination and source MAC addresses.
    pub macs: Arc<[[u8; 12]]>,
    /// VLAN tags.
    pub tags: Arc<[[u8; 8]]>,
}

impl Traffic {
    /// The bytes of a template with the first destination.
    pub fn patched(&self, t: &Template) -> Vec<u8> {
        let mut bytes = t.bytes.clone();
        self.tags.first().into_iter().for_each(|tags| patch_tags(&mut bytes, tags, t.tags));
        match t.patch {
            Patch::None => {}
            Patch::Macs => self.macs.first().into_iter().for_each(|m| patch_macs(&mut bytes, m)),
            Patch::Ip4(l3) => self.dst4.first().into_iter().for_each(|d| patch4(&mut bytes, l3, *d)),
            Patch::Word(at) => self.dst4.first().into_iter().for_each(|w| patch_word(&mut bytes, at, *w)),
            Patch::Ip6(l3) => self.dst6.first().into_iter().for_each(|d| patch6(&mut bytes, l3, d)),
        }
        bytes
    }
}

/// How fast it sends; changed while it runs.
#[derive(Debug)]
pub struct Control {
    /// The interface is up.
    pub open: AtomicBool,
    /// The queue that sends while the others keep still, counted from 1; 0: all send.
    pub alone: AtomicUsize,
    /// Packets a second of each queue; 0: as fast as the graph takes them.
    pub pps: AtomicU64,
    /// Most packets of one vector.
    pub burst: AtomicU64,
    /// Longest time between two polls since this was set to 0, TSC clocks.
    pub gap: AtomicU64,
    /// Packets that a device with a ring of [`RING`] packets would have lost, because they waited too long.
    pub missed: AtomicU64,
    /// Packets get the time of their poll and the time at which they were due, see [`STAMP`].
    pub stamp: AtomicBool,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            open: AtomicBool::new(false),
            alone: AtomicUsize::new(0),
            pps: AtomicU64::new(0),
            burst: AtomicU64::new(graph::VECTOR_SIZE as u64),
            gap: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            stamp: AtomicBool::new(false),
        }
    }
}

/// Times a second that a queue which keeps still looks whether it may send.
const LOOKS: u64 = 1000;

/// Packets that wait at most, at a fixed rate: what the rings of common devices hold.
pub const RING: u64 = 4096;

/// Where a stamped frame carries its two stamps, from the start of the Ethernet header: behind IPv4 and UDP headers.
pub const STAMP: usize = 14 + 20 + 8;

/// One queue.
pub struct Feed {
    interface: u32,
    number: usize,
    traffic: Arc<Traffic>,
    control: Arc<Control>,
    at: usize,
    at4: usize,
    at6: usize,
    at_macs: usize,
    at_tags: usize,
    last: u64,
    /// Time at which the next packet is due, TSC clocks, and the rest of a clock (32 bits behind the point).
    due: u64,
    rest: u64,
    pps: u64,
    step: u64,
    hz: u64,
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Adds what changed from zero to a stored checksum (RFC 1624).
fn update(old: [u8; 2], added: u64) -> u16 {
    !fold(u64::from(!u16::from_be_bytes(old)) + added)
}

fn word_sum(addr: &[u8; 16]) -> u64 {
    let n = u128::from_be_bytes(*addr);
    let part = |shift: u32| u64::from((n >> shift) as u32);
    part(96) + part(64) + part(32) + part(0)
}

/// Writes the destination into the frame at the start of `room`.
#[inline]
fn patch4(room: &mut [u8], l3: usize, dst: u32) {
    let Some(h) = room.get_mut(l3..).and_then(|h| h.first_chunk_mut::<20>()) else { return };
    let sum = update([h[10], h[11]], u64::from(dst));
    h[10..12].copy_from_slice(&sum.to_be_bytes());
    h[16..20].copy_from_slice(&dst.to_be_bytes());
}

#[inline]
fn patch6(room: &mut [u8], l3: usize, dst: &[u8; 16]) {
    let Some(h) = room.get_mut(l3..).and_then(|h| h.first_chunk_mut::<48>()) else { return };
    h[24..40].copy_from_slice(dst);
    let sum = update([h[46], h[47]], word_sum(dst));
    let sum = if sum == 0 { 0xffff } else { sum };
    h[46..48].copy_from_slice(&sum.to_be_bytes());
}

/// Writes a word.
fn patch_word(frame: &mut [u8], at: usize, word: u32) {
    if let Some(place) = frame.get_mut(at..at + 4) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

#[inline]
fn patch_macs(room: &mut [u8], macs: &[u8; 12]) {
    if let Some(h) = room.first_chunk_mut() {
        *h = *macs;
    }
}

#[inline]
fn patch_tags(room: &mut [u8], tags: &[u8; 8], len: usize) {
    match (room.get_mut(12..20), len) {
        (Some(to), 4) => to[..4].copy_from_slice(&tags[..4]),
        (Some(to), 8) => to.copy_from_slice(tags),
        _ => {}
    }
}

#[inline]
fn next<T: Copy>(list: &[T], at: &mut usize) -> Option<T> {
    let x = *list.get(*at)?;
    *at += 1;
    if *at == list.len() {
        *at = 0;
    }
    Some(x)
}

impl Feed {
    /// Queue `n` of `of`; each starts at another place of the lists.
    pub fn new(interface: u32, n: usize, of: usize, traffic: &Traffic, control: Arc<Control>) -> Self {
        let start = |len: usize| len * n / of.max(1);
        Feed {
            interface,
            number: n + 1,
            at: 0,
            at4: start(traffic.dst4.len()),
            at6: start(traffic.dst6.len()),
            at_macs: start(traffic.macs.len()),
            at_tags: start(traffic.tags.len()),
            // Its own, so that nothing that two workers count in is shared.
            traffic: Arc::new(traffic.clone()),
            control,
            last: 0,
            due: 0,
            rest: 0,
            pps: 0,
            step: 0,
            hz: graph::clock::tsc_hz(),
        }
    }

    /// True while another queue sends alone.
    fn keeps_still(&self) -> bool {
        let alone = self.control.alone.load(Ordering::Relaxed);
        alone != 0 && alone != self.number
    }

    fn desc(&self, buf: graph::Buffer, len: usize) -> Desc {
        let at = HEADROOM as u16;
        let (rx, tx) = (self.interface, self.interface);
        Desc { buf, off: at, l2: at, len: len as u16, rx, tx, ..Desc::default() }
    }

    /// How many packets are due by now.
    fn allowed(&mut self, now: u64, want: usize) -> usize {
        let pps = self.control.pps.load(Ordering::Relaxed);
        if pps != self.pps {
            self.pps = pps;
            // Clocks between two packets, 32 bits behind the point.
            self.step = (u128::from(self.hz) << 32).checked_div(u128::from(pps)).unwrap_or(0) as u64;
            (self.due, self.rest) = (now, 0);
        }
        if pps == 0 {
            self.due = now;
            return want;
        }
        if now < self.due {
            return 0;
        }
        let behind = u128::from(now - self.due) << 32 | u128::from(u32::MAX);
        let due = (behind - u128::from(self.rest)) / u128::from(self.step.max(1)) + 1;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        if due > RING {
            let over = due - RING;
            self.control.missed.fetch_add(over, Ordering::Relaxed);
            let skip = u128::from(over) * u128::from(self.step) + u128::from(self.rest);
            self.due += (skip >> 32) as u64;
            self.rest = skip as u64 & u64::from(u32::MAX);
        }
        want.min(due.min(RING) as usize)
    }

    fn pass(&mut self) {
        let sum = self.rest + self.step;
        self.due += sum >> 32;
        self.rest = sum & u64::from(u32::MAX);
    }

    /// Writes the next tags.
    #[inline]
    fn tag(&mut self, t: &Template, room: &mut [u8]) {
        if t.tags != 0
            && let Some(tags) = next(&self.traffic.tags, &mut self.at_tags)
        {
            patch_tags(room, &tags, t.tags);
        }
    }

    /// Packets of one kind, at most 64 bytes long.
    #[inline]
    fn fill_short(
        &mut self,
        buffers: &mut Buffers,
        out: &mut Vector,
        want: usize,
        t: &Template,
        write: impl Fn(&mut Self, &mut [u8]),
    ) {
        let (mut whole, first, len) = ([0u8; 64], out.len(), t.bytes.len());
        whole[..len].copy_from_slice(&t.bytes);
        // All buffers first: what they held is long gone from the near caches.
        for _ in 0..want {
            let Some(buf) = buffers.alloc() else { break };
            let d = self.desc(buf, len);
            buffers.prefetch(&d);
            if let Err(d) = out.push(d) {
                buffers.free(d);
                break;
            }
        }
        for d in out.as_slice().get(first..).unwrap_or_default() {
            let room = &mut buffers.room_mut(&d.buf)[HEADROOM..];
            room[..64].copy_from_slice(&whole);
            self.tag(t, room);
            write(self, room);
        }
    }

    /// Writes the next packets, of which the traffic has one short kind, into buffers that another queue has brought.
    pub fn overwrite(&mut self, buffers: &mut Buffers, packets: &mut [Desc]) {
        let traffic = Arc::clone(&self.traffic);
        let [t] = traffic.templates.as_slice() else { return };
        let (mut whole, len) = ([0u8; 64], t.bytes.len().min(64));
        whole[..len].copy_from_slice(&t.bytes[..len]);
        for d in packets {
            d.len = len as u16;
            let Some(room) = buffers.room_mut(&d.buf).get_mut(usize::from(d.off)..) else { continue };
            let Some(frame) = room.first_chunk_mut::<64>() else { continue };
            *frame = whole;
            if let (Patch::Ip4(l3), Some(dst)) = (t.patch, next(&self.traffic.dst4, &mut self.at4)) {
                patch4(room, l3, dst);
            }
        }
    }

    fn fill(&mut self, buffers: &mut Buffers, out: &mut Vector, want: usize, now: u64) {
        let traffic = Arc::clone(&self.traffic);
        let stamp = self.control.stamp.load(Ordering::Relaxed);
        let template = |at: &mut usize| traffic.templates.get(usize::from(next(&traffic.order, at)?));
        let (mut at, first) = (self.at, out.len());
        // All buffers first: what they held is long gone from the near caches, or another worker has written it last.
        for _ in 0..want {
            let Some(t) = template(&mut self.at) else { break };
            let d = if t.bytes.len() <= DATA {
                let Some(buf) = buffers.alloc() else { break };
                let d = self.desc(buf, t.bytes.len());
                buffers.prefetch_write(&d);
                d
            } else {
                let Some(d) = buffers.alloc_bytes(&t.bytes) else { break };
                Desc { flags: d.flags, ..self.desc(d.buf, usize::from(d.len)) }
            };
            if let Err(d) = out.push(d) {
                buffers.free(d);
                break;
            }
        }
        for d in out.as_slice().get(first..).unwrap_or_default() {
            let Some(t) = template(&mut at) else { return };
            let room = &mut buffers.room_mut(&d.buf)[HEADROOM..];
            if t.bytes.len() <= DATA {
                room[..t.bytes.len()].copy_from_slice(&t.bytes);
            }
            self.tag(t, room);
            match t.patch {
                Patch::None => {}
                Patch::Macs => {
                    if let Some(macs) = next(&traffic.macs, &mut self.at_macs) {
                        patch_macs(room, &macs);
                    }
                }
                Patch::Ip4(l3) => {
                    if let Some(dst) = next(&traffic.dst4, &mut self.at4) {
                        patch4(room, l3, dst);
                    }
                }
                Patch::Word(at) => {
                    if let Some(word) = next(&traffic.dst4, &mut self.at4) {
                        patch_word(room, at, word);
                    }
                }
                Patch::Ip6(l3) => {
                    if let Some(dst) = next(&traffic.dst6, &mut self.at6) {
                        patch6(room, l3, &dst);
                    }
                }
            }
            if stamp {
                room[STAMP..STAMP + 8].copy_from_slice(&now.to_le_bytes());
                room[STAMP + 8..STAMP + 16].copy_from_slice(&self.due.to_le_bytes());
            }
            self.pass();
        }
    }
}

impl RxQueue for Feed {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        NODE
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        if !self.control.open.load(Ordering::Acquire) || self.keeps_still() {
            (self.last, self.pps) = (0, 0);
            return 0;
        }
        let now = tsc();
        if self.last != 0 {
            let gap = now.wrapping_sub(self.last);
            if gap > self.control.gap.load(Ordering::Relaxed) {
                self.control.gap.fetch_max(gap, Ordering::Relaxed);
            }
        }
        self.last = now;
        let burst = self.control.burst.load(Ordering::Relaxed) as usize;
        let want = self.allowed(now, out.room().min(burst));
        let before = out.len();
        let traffic = Arc::clone(&self.traffic);
        let plain = self.pps == 0 && !self.control.stamp.load(Ordering::Relaxed);
        match traffic.templates.as_slice() {
            [t] if plain && t.bytes.len() <= 64 => match t.patch {
                Patch::None => self.fill_short(buffers, out, want, t, |_, _| {}),
                Patch::Macs => self.fill_short(buffers, out, want, t, |s, room| {
                    if let Some(macs) = next(&traffic.macs, &mut s.at_macs) {
                        patch_macs(room, &macs);
                    }
                }),
                Patch::Ip4(l3) => self.fill_short(buffers, out, want, t, |s, room| {
                    if let Some(dst) = next(&traffic.dst4, &mut s.at4) {
                        patch4(room, l3, dst);
                    }
                }),
                Patch::Word(at) => self.fill_short(buffers, out, want, t, |s, room| {
                    if let Some(word) = next(&traffic.dst4, &mut s.at4) {
                        patch_word(room, at, word);
                    }
                }),
                Patch::Ip6(l3) => self.fill_short(buffers, out, want, t, |s, room| {
                    if let Some(dst) = next(&traffic.dst6, &mut s.at6) {
                        patch6(room, l3, &dst);
                    }
                }),
            },
            _ => self.fill(buffers, out, want, now),
        }
        out.len() - before
    }

    fn ready(&self) -> Ready {
        if !self.control.open.load(Ordering::Acquire) {
            Ready::Never
        } else if self.keeps_still() {
            Ready::At(graph::clock::Clock::new().to_ns(tsc() + self.hz / LOOKS))
        } else if self.pps == 0 {
            Ready::Now
        } else {
            Ready::At(graph::clock::Clock::new().to_ns(self.due))
        }
    }
}

#[cfg(test)]
mod tests;
