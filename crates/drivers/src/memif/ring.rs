//! Rings in shared memory. A ring has slots, `head`, which the slave alone writes, and `tail`, which the master alone writes. The
//! slave puts packets, or empty buffers for the master's packets, in front of `head`; the master takes or fills them and moves
//! `tail` behind. How far this side is it keeps to itself, and reads of the other side's word and of its slots each value once.

use super::region::{Region, Words};
use crate::counts::RxDrop;
use crate::fill::Fill;
use graph::chain::{Piece, Walk};
use graph::{Buffers, Desc, Vector, flags};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Bytes in front of the slots.
const HEADER: usize = 128;
/// Bytes of a slot.
const SLOT: usize = 16;
const COOKIE_AT: usize = 0;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
/// What a ring begins with.
const COOKIE: u32 = 0x03e3_1f20;
/// Flag of a ring: who receives from it polls.
const MASK_INT: u16 = 1;
/// Flag of a slot: the packet goes on in the next.
const NEXT: u16 = 1;
/// Most bytes of a packet, and most slots that one may lie in.
const MOST_BYTES: usize = 65_535 + 18;
pub const MOST_SLOTS: usize = 64;

/// Packets ahead whose bytes are asked for: they are in another core's caches.
const AHEAD: u16 = 8;

/// Largest binary logarithm of the number of slots.
pub const MOST_LOG2: u8 = 14;

/// The other side has written what cannot be: nothing of the ring can be relied on any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What became of a packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the ring.
    Yes,
    /// There is no room now.
    Full,
    /// It has more bytes than as many buffers hold as it may lie in, whoever empties them.
    TooLong,
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    flags: u16,
    region: u16,
    len: u32,
    at: u32,
}

/// Where the buffers lie that a slave has for the slots of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Number of their region.
    pub region: u16,
    /// Bytes from the start of that to the first.
    pub at: u32,
    /// Bytes of each.
    pub bytes: u32,
}

impl Own {
    fn slot(&self, slot: usize, len: u32, flags: u16) -> Slot {
        Slot { flags, region: self.region, len, at: self.at + self.bytes * slot as u32 }
    }
}

/// A ring, as either side has it.
#[derive(Debug)]
pub struct Ring {
    words: Words,
    regions: Arc<[Arc<Region>]>,
    /// Slots less one.
    mask: u16,
    /// The slave's buffers, where this side is the slave.
    own: Option<Own>,
    /// How far this side has read or written.
    at: u16,
    /// How far a slave that receives has put out empty buffers.
    put: u16,
    /// Slots that packets may be put into, as last seen: the other side changes its word all the time, and each look brings it over.
    room: u16,
}

/// Bytes of a ring with so many slots.
pub fn bytes(log2_slots: u8) -> usize {
    HEADER + (SLOT << log2_slots)
}

impl Ring {
    /// A ring that the slave has announced; `None` when it does not lie within its region. `own` where this side is the slave.
    pub fn new(
        regions: &Arc<[Arc<Region>]>,
        region: u16,
        at: u32,
        log2_slots: u8,
        own: Option<Own>,
    ) -> Option<Ring> {
        let within = regions.get(usize::from(region)).filter(|_| log2_slots <= MOST_LOG2)?;
        let words = Words::new(within, at as usize, bytes(log2_slots))?;
        let mask = ((1u32 << log2_slots) - 1) as u16;
        Some(Ring { words, regions: Arc::clone(regions), mask, own, at: 0, put: 0, room: 0 })
    }

    /// Writes what a new ring begins with, as the slave does.
    pub fn begin(&self) {
        self.words.u32(COOKIE_AT).store(COOKIE, Ordering::Relaxed);
        self.words.u16(FLAGS_AT).store(MASK_INT, Ordering::Relaxed);
        self.words.u16(HEAD_AT).store(0, Ordering::Relaxed);
        self.words.u16(TAIL_AT).store(0, Ordering::Release);
    }

    /// Whether it begins as a ring does.
    pub fn has_cookie(&self) -> bool {
        self.words.u32(COOKIE_AT).load(Ordering::Acquire) == COOKIE
    }

    /// Takes up work on it, after both sides have agreed: nothing has passed yet.
    pub fn start(&mut self, receives: bool) {
        if receives {
            self.interrupt(false);
        }
        let mine = if self.own.is_some() { HEAD_AT } else { TAIL_AT };
        self.words.u16(mine).store(0, Ordering::Release);
        if receives {
            self.refill();
        }
    }

    /// Has the other side write to the interrupt when it has put something there, or not.
    pub fn interrupt(&self, on: bool) {
        self.words.u16(FLAGS_AT).store(if on { 0 } else { MASK_INT }, Ordering::Relaxed);
        // The ring is looked at again behind this.
        fence(Ordering::SeqCst);
    }

    /// Whether the other side wants to be woken.
    pub fn wants_interrupt(&self) -> bool {
        fence(Ordering::SeqCst);
        self.words.u16(FLAGS_AT).load(Ordering::Relaxed) & MASK_INT == 0
    }

    fn size(&self) -> u16 {
        self.mask + 1
    }

    /// Where a slot is.
    #[inline]
    fn place(&self, index: u16) -> *mut u64 {
        self.words.u64(HEADER + usize::from(index & self.mask) * SLOT).as_ptr()
    }

    #[inline]
    fn read(&self, index: u16) -> Slot {
        let at = HEADER + usize::from(index & self.mask) * SLOT;
        let [a, b, c, d, e, f, g, h] = self.words.u64(at).load(Ordering::Relaxed).to_ne_bytes();
        let [i, j, k, l, ..] = self.words.u64(at + 8).load(Ordering::Relaxed).to_ne_bytes();
        Slot {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            len: u32::from_ne_bytes([e, f, g, h]),
            at: u32::from_ne_bytes([i, j, k, l]),
        }
    }

    #[inline]
    fn write(&self, index: u16, s: Slot) {
        let at = HEADER + usize::from(index & self.mask) * SLOT;
        let ([a, b], [c, d], [e, f, g, h]) =
            (s.flags.to_ne_bytes(), s.region.to_ne_bytes(), s.len.to_ne_bytes());
        self.words.u64(at).store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Ordering::Relaxed);
        let [i, j, k, l] = s.at.to_ne_bytes();
        self.words.u64(at + 8).store(u64::from_ne_bytes([i, j, k, l, 0, 0, 0, 0]), Ordering::Relaxed);
    }

    /// Slots that the other side has handed over: with packets, or (to a master that sends) with empty buffers.
    #[inline]
    fn handed(&self) -> Result<u16, Broken> {
        let (theirs, most) = match self.own {
            None => (HEAD_AT, self.size()),
            Some(_) => (TAIL_AT, self.put.wrapping_sub(self.at)),
        };
        let there = self.words.u16(theirs).load(Ordering::Acquire).wrapping_sub(self.at);
        if there > most { Err(Broken) } else { Ok(there) }
    }

    /// Whether something has come.
    pub fn has_packets(&self) -> bool {
        self.handed() != Ok(0)
    }

    /// Gives back what was received.
    #[inline]
    fn give_back(&mut self) {
        match self.own {
            None => self.words.u16(TAIL_AT).store(self.at, Ordering::Release),
            Some(_) => self.refill(),
        }
    }

    /// Puts out empty buffers where there is room.
    fn refill(&mut self) {
        let Some(own) = self.own else { return };
        while self.put.wrapping_sub(self.at) < self.size() {
            self.write(self.put, own.slot(usize::from(self.put & self.mask), own.bytes, 0));
            self.put = self.put.wrapping_add(1);
        }
        self.words.u16(HEAD_AT).store(self.put, Ordering::Release);
    }

    /// Takes packets, as many as `out` has room for; `dropped` is told of those that are lost.
    ///
    /// # Errors
    /// The ring makes no sense any more.
    pub fn receive(
        &mut self,
        buffers: &mut Buffers,
        interface: u32,
        out: &mut Vector,
        mut dropped: impl FnMut(RxDrop),
    ) -> Result<(), Broken> {
        let mut there = self.handed()?;
        if there == 0 {
            return Ok(());
        }
        (0..there.min(AHEAD)).for_each(|k| self.prefetch(k, false));
        while there != 0 && out.room() != 0 {
            if there > AHEAD {
                self.prefetch(AHEAD, false);
            }
            match self.packet(buffers, interface, &mut there) {
                Ok(d) => {
                    if let Err(d) = out.push(d) {
                        buffers.free(d);
                    }
                }
                Err(why) => dropped(why),
            }
        }
        self.give_back();
        Ok(())
    }

    /// Asks for the bytes of the packet so many slots ahead, or for the place of one that is to be written, if it is what it seems.
    #[inline]
    fn prefetch(&self, ahead: u16, write: bool) {
        let index = self.at.wrapping_add(ahead);
        let s = match self.own {
            Some(own) => own.slot(usize::from(index & self.mask), 0, 0),
            None => self.read(index),
        };
        if let Some(region) = self.regions.get(usize::from(s.region)) {
            region.prefetch(s.at as usize, write);
        }
    }

    /// The next packet, which lies in at least one of `there` slots; those are passed whatever becomes of it.
    #[inline]
    fn packet(&mut self, buffers: &mut Buffers, interface: u32, there: &mut u16) -> Result<Desc, RxDrop> {
        let mut fill: Option<Fill> = None;
        let mut failed = None;
        let mut bytes = 0;
        loop {
            let mut s = self.read(self.at);
            if let Some(own) = self.own {
                // The buffer is the one that was put out, whatever the slot says now.
                let was = own.slot(usize::from(self.at & self.mask), 0, 0);
                (s.region, s.at) = (was.region, was.at);
                if s.len > own.bytes {
                    failed = Some(RxDrop::Malformed);
                }
            }
            self.at = self.at.wrapping_add(1);
            *there -= 1;
            bytes += s.len as usize;
            if bytes > MOST_BYTES {
                failed = Some(RxDrop::Malformed);
            }
            if failed.is_none()
                && let Err(why) = self.part(&mut fill, buffers, interface, s)
            {
                failed = Some(why);
            }
            if s.flags & NEXT == 0 {
                break;
            }
            if *there == 0 {
                // A packet is handed over as a whole.
                failed = Some(RxDrop::Malformed);
                break;
            }
        }
        let packet = fill.and_then(|f| f.done(buffers));
        match (packet, failed) {
            (Some(d), None) if bytes != 0 => Ok(d),
            (d, why) => {
                if let Some(d) = d {
                    buffers.free(d);
                }
                Err(why.unwrap_or(RxDrop::Malformed))
            }
        }
    }

    #[inline]
    fn part(
        &self,
        fill: &mut Option<Fill>,
        buffers: &mut Buffers,
        interface: u32,
        s: Slot,
    ) -> Result<(), RxDrop> {
        let Some(region) = self.regions.get(usize::from(s.region)) else { return Err(RxDrop::Malformed) };
        let (mut at, mut left) = (s.at as usize, s.len as usize);
        let f = match fill {
            Some(f) => f,
            None => fill.insert(Fill::new(buffers, interface).ok_or(RxDrop::NoBuffer)?),
        };
        while left != 0 {
            let (buf, from, room) = f.room(buffers).ok_or(RxDrop::NoBuffer)?;
            let n = left.min(room);
            if !region.read(at, &mut buffers.room_mut(buf)[from..from + n]) {
                return Err(RxDrop::Malformed);
            }
            f.add(n);
            (at, left) = (at + n, left - n);
        }
        Ok(())
    }

    /// Slots that packets may be put into.
    fn look_for_room(&self) -> Result<u16, Broken> {
        match self.own {
            None => self.handed(),
            Some(_) => {
                let used = self.at.wrapping_sub(self.words.u16(TAIL_AT).load(Ordering::Acquire));
                self.size().checked_sub(used).ok_or(Broken)
            }
        }
    }

    /// What the slot says that a packet is to be put into.
    #[inline]
    fn empty(&self, index: u16) -> Result<Slot, Broken> {
        let s = match self.own {
            Some(own) => own.slot(usize::from(index & self.mask), own.bytes, 0),
            None => self.read(index),
        };
        if s.len == 0 { Err(Broken) } else { Ok(s) }
    }

    /// Sends a packet without its first `skip` bytes.
    ///
    /// # Errors
    /// The ring makes no sense any more.
    #[inline]
    pub fn send(&mut self, buffers: &Buffers, d: &Desc, skip: usize) -> Result<Sent, Broken> {
        if self.room == 0 {
            self.room = self.look_for_room()?;
        }
        if self.room != 0
            && !d.has(flags::CHAINED)
            && let Some(bytes) = buffers.data(d).get(skip..)
        {
            let s = self.empty(self.at)?;
            if s.len as usize >= bytes.len() {
                let region = self.regions.get(usize::from(s.region)).ok_or(Broken)?;
                if !region.write(s.at as usize, bytes) {
                    return Err(Broken);
                }
                self.write(self.at, Slot { flags: 0, len: bytes.len() as u32, ..s });
                (self.at, self.room) = (self.at.wrapping_add(1), self.room - 1);
                graph::prefetch_to_write(self.place(self.at.wrapping_add(2 * AHEAD)));
                if self.room > AHEAD {
                    self.prefetch(AHEAD, true);
                }
                return Ok(Sent::Yes);
            }
        }
        self.send_any(buffers, d, skip)
    }

    /// A packet of several buffers, or into several slots.
    fn send_any(&mut self, buffers: &Buffers, d: &Desc, skip: usize) -> Result<Sent, Broken> {
        let mut walk = Walk::new(buffers, d);
        if !walk.skip(buffers, skip) {
            return Ok(Sent::TooLong);
        }
        let total = buffers.total_len(d) - skip;
        let mut slots = [Slot { flags: 0, region: 0, len: 0, at: 0 }; MOST_SLOTS];
        let (mut n, mut holds) = (0, 0);
        while holds < total || n == 0 {
            let index = self.at.wrapping_add(n as u16);
            if n == MOST_SLOTS || n == usize::from(self.size()) {
                return Ok(Sent::TooLong);
            }
            if n >= usize::from(self.room) {
                self.room = self.look_for_room()?;
                if n >= usize::from(self.room) {
                    return Ok(Sent::Full);
                }
            }
            let s = self.empty(index)?;
            slots[n] = s;
            n += 1;
            holds += s.len as usize;
        }
        let mut left = total;
        for (i, s) in slots[..n].iter().enumerate() {
            let len = left.min(s.len as usize);
            let region = self.regions.get(usize::from(s.region)).ok_or(Broken)?;
            copy(buffers, &mut walk, region, s.at as usize, len)?;
            left -= len;
            let flags = if left != 0 { NEXT } else { 0 };
            self.write(self.at.wrapping_add(i as u16), Slot { flags, len: len as u32, ..*s });
        }
        (self.at, self.room) = (self.at.wrapping_add(n as u16), self.room - n as u16);
        Ok(Sent::Yes)
    }

    /// Hands over what was sent.
    pub fn submit(&self) {
        let mine = if self.own.is_some() { HEAD_AT } else { TAIL_AT };
        self.words.u16(mine).store(self.at, Ordering::Release);
    }
}

#[inline]
fn copy(
    buffers: &Buffers,
    walk: &mut Walk,
    region: &Region,
    mut at: usize,
    mut left: usize,
) -> Result<(), Broken> {
    while left != 0 {
        let Some(piece): Option<Piece> = walk.take(buffers, left) else { return Err(Broken) };
        if !region.write(at, piece.bytes(buffers)) {
            return Err(Broken);
        }
        at += usize::from(piece.len);
        left -= usize::from(piece.len);
    }
    Ok(())
}
