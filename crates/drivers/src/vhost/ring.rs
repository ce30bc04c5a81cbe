//! Split virtqueues as a device has them (virtio 1.2, section 2.7). The driver, in the other side's memory, puts chains of descriptors
//! into the available ring; the device answers each in the used ring. How far this side is it keeps to itself, and reads of the
//! other side's words and descriptors each once, before it checks them.

use super::memory::{Memory, Words};
use super::message::feature;
use crate::counts::RxDrop;
use crate::fill::Fill;
use crate::signal::Signal;
use crate::vnet;
use graph::chain::Walk;
use graph::{Buffers, Desc, Vector, flags};
use packet::gso::VnetHdr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Most descriptors of a queue.
pub const MOST_SIZE: u32 = 32_768;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Flags of a descriptor: another follows, the device writes, it names a table of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Flag of the available ring: no interrupts. Flag of the used ring: no notifications.
const SILENT: u16 = 1;
/// Most bytes of a frame.
const MOST_BYTES: usize = 65_535 + 22;
/// Least bytes of one.
const LEAST_BYTES: usize = 14;
/// Most descriptors of a chain, and most buffers and chains that a sent packet may take.
const MOST_CHAIN: usize = 256;
const MOST_SPANS: usize = 128;
const MOST_HEADS: usize = 64;
/// Bytes in front of a frame, and without the number of buffers (a legacy driver without mergeable ones).
const HEADER: usize = 12;
const OLD_HEADER: usize = VnetHdr::LEN;

/// The other side has written what cannot be: nothing of the queue can be relied on any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A chain of descriptors makes no sense.
struct Bad;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the driver's buffers.
    Yes,
    /// The driver has no buffers for it now.
    Full,
    /// It is longer than the driver's buffers can be.
    TooLong,
}

/// Where a queue lies, as the other side has announced it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Descriptors.
    pub size: u32,
    pub desc: u64,
    pub avail: u64,
    pub used: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Descriptor {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    #[inline]
    fn of(low: u64, high: u64) -> Descriptor {
        let [a, b, c, d, e, f, g, h] = high.to_ne_bytes();
        Descriptor {
            addr: low,
            len: u32::from_ne_bytes([a, b, c, d]),
            flags: u16::from_ne_bytes([e, f]),
            next: u16::from_ne_bytes([g, h]),
        }
    }
}

/// How far a chain has been read.
struct Chain {
    table: Option<(u64, u32)>,
    next: Option<u16>,
    seen: usize,
}

/// Chains whose beginnings are read at one go: the other side's memory is in another core's caches, and each line of it takes
/// longer to come than a packet takes.
const AHEAD: usize = 32;

/// Chains from `Ring::at` on: the head of each and its first descriptor, each read once.
#[derive(Debug)]
struct Ahead {
    all: [(u16, Descriptor); AHEAD],
    /// Those that are used up, and how many there were.
    used: usize,
    len: usize,
}

/// A queue.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<Memory>,
    desc: Words,
    avail: Words,
    used: Words,
    /// Descriptors less one.
    mask: u16,
    header: usize,
    offloads: bool,
    event_idx: bool,
    mergeable: bool,
    indirect: bool,
    /// How far the available ring is read, and the used one written.
    at: u16,
    used_at: u16,
    ahead: Ahead,
    /// How far that was when the other side was last woken.
    told: u16,
    /// It is woken next whatever it wants: nobody knows what a queue before this one has told.
    pub owes: bool,
    pub call: Option<Arc<Signal>>,
}

impl Ring {
    /// A queue of a driver with these features, of which `at` chains have been taken.
    ///
    /// # Errors
    /// What is wrong with its place.
    pub fn new(memory: &Arc<Memory>, p: Place, features: u64, at: u16) -> Result<Ring, String> {
        if !p.size.is_power_of_two() || p.size > MOST_SIZE {
            return Err(format!("{} descriptors, not a power of two up to {MOST_SIZE}", p.size));
        }
        let n = p.size as usize;
        let has = |bit| features & bit != 0;
        let place = |what: &str, at, len, align| {
            let no = || format!("its {what} at {at:#x} do not lie within the memory that was announced");
            memory.words(at, len, align).ok_or_else(no)
        };
        let mut ring = Ring {
            desc: place("descriptors", p.desc, n * DESCRIPTOR, 8)?,
            avail: place("available chains", p.avail, 6 + 2 * n, 2)?,
            used: place("used chains", p.used, 6 + 8 * n, 4)?,
            memory: Arc::clone(memory),
            mask: (n - 1) as u16,
            header: if has(feature::VERSION_1 | feature::MRG_RXBUF) { HEADER } else { OLD_HEADER },
            offloads: has(feature::CSUM),
            event_idx: has(feature::EVENT_IDX),
            mergeable: has(feature::MRG_RXBUF),
            indirect: has(feature::INDIRECT_DESC),
            at,
            used_at: 0,
            ahead: Ahead { all: [(0, Descriptor::default()); AHEAD], used: 0, len: 0 },
            told: 0,
            owes: true,
            call: None,
        };
        ring.used_at = ring.used.u16(2).load(Ordering::Acquire);
        ring.told = ring.used_at;
        Ok(ring)
    }

    /// How many chains have been taken.
    pub fn taken(&self) -> u16 {
        self.at
    }

    /// Descriptors.
    pub fn size(&self) -> u32 {
        u32::from(self.mask) + 1
    }

    /// Has the driver notify this side of what it makes available, or not.
    pub fn notifications(&self, on: bool) {
        if self.event_idx {
            if on {
                self.used.u16(4 + 8 * (usize::from(self.mask) + 1)).store(self.at, Ordering::Relaxed);
            }
        } else {
            self.used.u16(0).store(if on { 0 } else { SILENT }, Ordering::Relaxed);
        }
        // The ring is looked at again behind this.
        fence(Ordering::SeqCst);
    }

    /// Chains that the driver has made available.
    #[inline]
    fn available(&self) -> Result<u16, Broken> {
        let there = self.avail.u16(2).load(Ordering::Acquire).wrapping_sub(self.at);
        if u32::from(there) > self.size() { Err(Broken) } else { Ok(there) }
    }

    /// Whether something has come.
    pub fn has_packets(&self) -> bool {
        self.available() != Ok(0)
    }

    #[inline]
    fn head(&self, at: u16) -> Result<u16, Broken> {
        let head = self.avail.u16(4 + 2 * usize::from(at & self.mask)).load(Ordering::Relaxed);
        if head > self.mask { Err(Broken) } else { Ok(head) }
    }

    /// The head and the first descriptor of the chain at `self.at`, whose bytes are to be written or read; `None` where there is none.
    #[inline]
    fn next(&mut self, write: bool) -> Result<Option<(u16, Descriptor)>, Broken> {
        if self.ahead.used == self.ahead.len {
            self.look_ahead(write)?;
        }
        Ok(self.ahead.all[..self.ahead.len].get(self.ahead.used).copied())
    }

    fn look_ahead(&mut self, write: bool) -> Result<(), Broken> {
        let there = usize::from(self.available()?).min(AHEAD);
        for k in 0..there {
            let head = self.head(self.at.wrapping_add(k as u16))?;
            let first = self.descriptor(head);
            self.memory.prefetch(first.addr, write);
            self.ahead.all[k] = (head, first);
        }
        // Eight used chains are in a line.
        for k in (0..there).step_by(8) {
            let at = 4 + 8 * usize::from(self.used_at.wrapping_add(k as u16) & self.mask);
            graph::prefetch_to_write(self.used.u32(at).as_ptr());
        }
        (self.ahead.used, self.ahead.len) = (0, there);
        Ok(())
    }

    #[inline]
    fn descriptor(&self, index: u16) -> Descriptor {
        let at = usize::from(index) * DESCRIPTOR;
        Descriptor::of(
            self.desc.u64(at).load(Ordering::Relaxed),
            self.desc.u64(at + 8).load(Ordering::Relaxed),
        )
    }

    #[inline]
    fn chain(head: u16) -> Chain {
        Chain { table: None, next: Some(head), seen: 0 }
    }

    #[inline]
    fn step(&self, c: &mut Chain) -> Result<Option<Descriptor>, Bad> {
        let Some(mut index) = c.next else { return Ok(None) };
        loop {
            c.seen += 1;
            if c.seen > MOST_CHAIN {
                return Err(Bad);
            }
            let d = match c.table {
                None if index <= self.mask => self.descriptor(index),
                Some((addr, count)) if u32::from(index) < count => {
                    let mut b = [[0; 8]; 2];
                    let at = addr.checked_add(u64::from(index) * DESCRIPTOR as u64).ok_or(Bad)?;
                    if !self.memory.read(at, b.as_flattened_mut()) {
                        return Err(Bad);
                    }
                    Descriptor::of(u64::from_ne_bytes(b[0]), u64::from_ne_bytes(b[1]))
                }
                _ => return Err(Bad),
            };
            if d.flags & INDIRECT != 0 {
                if !self.indirect || c.table.is_some() || d.flags & NEXT != 0 {
                    return Err(Bad);
                }
                c.table = Some((d.addr, d.len / DESCRIPTOR as u32));
                index = 0;
                continue;
            }
            c.next = (d.flags & NEXT != 0).then_some(d.next);
            return Ok(Some(d));
        }
    }

    #[inline]
    fn give_back(&mut self, head: u16, len: u32) {
        let at = 4 + 8 * usize::from(self.used_at & self.mask);
        self.used.u32(at).store(head.into(), Ordering::Relaxed);
        self.used.u32(at + 4).store(len, Ordering::Relaxed);
        self.used_at = self.used_at.wrapping_add(1);
        self.at = self.at.wrapping_add(1);
        self.ahead.used = (self.ahead.used + 1).min(self.ahead.len);
    }

    /// Hands over what was given back, and wakes the driver if it wants that.
    #[inline]
    pub fn submit(&mut self) {
        self.used.u16(2).store(self.used_at, Ordering::Release);
        let told = std::mem::replace(&mut self.told, self.used_at);
        let owes = std::mem::take(&mut self.owes);
        // Who gets a call later is told then.
        let Some(call) = &self.call else { return };
        fence(Ordering::SeqCst);
        let wants = if self.event_idx {
            let event = self.avail.u16(4 + 2 * (usize::from(self.mask) + 1)).load(Ordering::Relaxed);
            self.used_at.wrapping_sub(event).wrapping_sub(1) < self.used_at.wrapping_sub(told)
        } else {
            self.avail.u16(0).load(Ordering::Relaxed) & SILENT == 0
        };
        if owes || wants {
            call.ring();
        }
    }

    /// Wakes the driver whatever it wants.
    pub fn tell(&self) {
        if let Some(call) = &self.call {
            call.ring();
        }
    }

    /// Takes packets, as many as `out` has room for; `dropped` is told of those that are lost.
    ///
    /// # Errors
    /// The queue makes no sense any more.
    pub fn receive(
        &mut self,
        buffers: &mut Buffers,
        interface: u32,
        out: &mut Vector,
        mut dropped: impl FnMut(RxDrop),
    ) -> Result<(), Broken> {
        // Chains that bring no packet count as well: a poll is bounded.
        let (began, most) = (self.at, out.room() as u16);
        while self.at.wrapping_sub(began) < most
            && let Some((head, first)) = self.next(false)?
        {
            match self.packet(buffers, interface, head, first) {
                Ok(d) => {
                    if let Err(d) = out.push(d) {
                        buffers.free(d);
                    }
                }
                Err(why) => dropped(why),
            }
            self.give_back(head, 0);
        }
        if self.at != began || self.owes {
            self.submit();
        }
        Ok(())
    }

    #[inline]
    fn packet(
        &self,
        buffers: &mut Buffers,
        interface: u32,
        head: u16,
        first: Descriptor,
    ) -> Result<Desc, RxDrop> {
        let mut fill = Fill::new(buffers, interface).ok_or(RxDrop::NoBuffer)?;
        let mut header = [0; HEADER];
        let whole = match self.copy_usual(buffers, &mut fill, &mut header, first) {
            true => Ok(()),
            false => self.copy_in(buffers, &mut fill, &mut header, head),
        };
        let mut d = fill.done(buffers).ok_or(RxDrop::NoBuffer)?;
        let whole = whole.and_then(|()| {
            let Some(h) = header.first_chunk().filter(|_| self.offloads) else { return Ok(()) };
            vnet::to_packet(VnetHdr::parse(h), 0, buffers, &mut d).map_err(|_| RxDrop::Malformed)
        });
        match whole {
            Ok(()) => Ok(d),
            Err(why) => {
                buffers.free(d);
                Err(why)
            }
        }
    }

    /// A packet behind its header in one descriptor, as long as a buffer has room for; false when it is another.
    #[inline]
    fn copy_usual(
        &self,
        buffers: &mut Buffers,
        fill: &mut Fill,
        header: &mut [u8; HEADER],
        d: Descriptor,
    ) -> bool {
        let Some(n) = (d.len as usize).checked_sub(self.header) else { return false };
        let Some((buf, from, room)) = fill.room(buffers) else { return false };
        if d.flags & (NEXT | WRITE | INDIRECT) != 0 || n < LEAST_BYTES || n > room {
            return false;
        }
        let to = &mut buffers.room_mut(buf)[from..from + n];
        if !self.memory.read_behind(d.addr, &mut header[..self.header], to) {
            return false;
        }
        fill.add(n);
        true
    }

    fn copy_in(
        &self,
        buffers: &mut Buffers,
        fill: &mut Fill,
        header: &mut [u8; HEADER],
        head: u16,
    ) -> Result<(), RxDrop> {
        let (mut got, mut bytes) = (0, 0);
        let mut chain = Ring::chain(head);
        while let Some(d) = self.step(&mut chain).map_err(|Bad| RxDrop::Malformed)? {
            let (mut addr, mut left) = (d.addr, d.len as usize);
            if d.flags & WRITE != 0 || addr.checked_add(d.len.into()).is_none() {
                return Err(RxDrop::Malformed);
            }
            if got < self.header {
                let n = left.min(self.header - got);
                if !self.memory.read(addr, &mut header[got..got + n]) {
                    return Err(RxDrop::Malformed);
                }
                (got, addr, left) = (got + n, addr + n as u64, left - n);
            }
            bytes += left;
            if bytes > MOST_BYTES {
                return Err(RxDrop::Malformed);
            }
            while left != 0 {
                let (buf, from, room) = fill.room(buffers).ok_or(RxDrop::NoBuffer)?;
                let n = left.min(room);
                if !self.memory.read(addr, &mut buffers.room_mut(buf)[from..from + n]) {
                    return Err(RxDrop::Malformed);
                }
                fill.add(n);
                (addr, left) = (addr + n as u64, left - n);
            }
        }
        if bytes < LEAST_BYTES { Err(RxDrop::Malformed) } else { Ok(()) }
    }

    /// Sends a packet behind this header.
    ///
    /// # Errors
    /// The queue makes no sense any more.
    #[inline]
    pub fn send(&mut self, buffers: &Buffers, d: &Desc, header: VnetHdr) -> Result<Sent, Broken> {
        let Some((head, first)) = self.next(true)? else { return Ok(Sent::Full) };
        let total = self.header + buffers.total_len(d);
        if first.flags & (WRITE | INDIRECT) == WRITE && first.len as usize >= total && !d.has(flags::CHAINED)
        {
            let front = Ring::front(header, 1);
            if self.memory.write_behind(first.addr, &front[..self.header], buffers.data(d)) {
                self.give_back(head, total as u32);
                return Ok(Sent::Yes);
            }
        }
        self.send_any(buffers, d, header, total)
    }

    /// What stands in front of a frame that takes so many of the driver's buffers.
    #[inline]
    fn front(header: VnetHdr, buffers: u16) -> [u8; HEADER] {
        let mut front = [0; HEADER];
        front[..VnetHdr::LEN].copy_from_slice(&header.to_bytes());
        front[VnetHdr::LEN..].copy_from_slice(&buffers.to_ne_bytes());
        front
    }

    /// A packet that takes any number of descriptors and chains.
    fn send_any(
        &mut self,
        buffers: &Buffers,
        d: &Desc,
        header: VnetHdr,
        total: usize,
    ) -> Result<Sent, Broken> {
        let there = self.available()?;
        let mut spans = [(0u64, 0u32); MOST_SPANS];
        // Chains, and how many spans there are up to the end of each.
        let mut heads = [(0u16, 0usize); MOST_HEADS];
        let (mut n, mut k, mut holds) = (0, 0, 0);
        while holds < total {
            if k == usize::from(there) {
                return Ok(Sent::Full);
            }
            if k == MOST_HEADS || k == 1 && !self.mergeable {
                return Ok(Sent::TooLong);
            }
            let head = self.head(self.at.wrapping_add(k as u16))?;
            let mut chain = Ring::chain(head);
            while holds < total
                && let Some(s) = self.step(&mut chain).map_err(|Bad| Broken)?
            {
                // No driver has empty buffers; they would make the way long.
                if s.flags & WRITE == 0 || s.len == 0 || s.addr.checked_add(s.len.into()).is_none() {
                    return Err(Broken);
                }
                let Some(place) = spans.get_mut(n) else { return Ok(Sent::TooLong) };
                *place = (s.addr, s.len);
                n += 1;
                holds += s.len as usize;
            }
            heads[k] = (head, n);
            k += 1;
        }
        let mut to = Spans { memory: &self.memory, all: &spans[..n], used: 0 };
        to.put(&Ring::front(header, k as u16)[..self.header])?;
        let mut walk = Walk::new(buffers, d);
        while let Some(piece) = walk.take(buffers, usize::MAX) {
            to.put(piece.bytes(buffers))?;
        }
        let (mut first, mut left) = (0, total);
        for (head, end) in &heads[..k] {
            let room: usize = spans[first..*end].iter().map(|(_, len)| *len as usize).sum();
            let len = room.min(left);
            self.give_back(*head, len as u32);
            (first, left) = (*end, left - len);
        }
        Ok(Sent::Yes)
    }
}

/// Room that is filled from its start.
struct Spans<'a> {
    memory: &'a Memory,
    all: &'a [(u64, u32)],
    /// Bytes of the first that are full.
    used: u32,
}

impl Spans<'_> {
    #[inline]
    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let Some((&(addr, len), rest)) = self.all.split_first() else { return Err(Broken) };
            let n = bytes.len().min((len - self.used) as usize);
            let (now, later) = bytes.split_at(n);
            if !self.memory.write(addr + u64::from(self.used), now) {
                return Err(Broken);
            }
            self.used += n as u32;
            if self.used == len {
                (self.all, self.used) = (rest, 0);
            }
            bytes = later;
        }
        Ok(())
    }
}
