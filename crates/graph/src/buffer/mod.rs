//! The buffer pool: fixed-size buffers in one region of memory, and each worker's list of free ones.
//!
//! A buffer is [`STRIDE`] bytes: one cache line of [`Meta`] (touched only for chains, offloads and traces), then
//! [`ROOM`] bytes of room of which the first [`HEADROOM`] are left free for encapsulation. The stride is an odd number
//! of cache lines, so that the first lines of packets spread over the cache's sets.
#![allow(unsafe_code)]
// Upholds: every access stays inside the region (index and range are checked on each access); a buffer is either in exactly one free
// list or has exactly one owner: a `Buffer` (a descriptor's, most often), the chain of a packet, or a device. Safe code cannot make
// a second `Buffer`; debug builds check on every alloc and free besides.

use crate::desc::{Desc, Packets, flags};
use crate::handle::Buffer;
use crate::handle::NONE;
use crate::mark::Mark;
use crate::prefetch::{prefetch, prefetch_to_write};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod pool;
mod shared;
#[cfg(test)]
mod tests;

pub use pool::{Pages, Pool, PoolConfig, PoolError, PoolMemory, available_mib};

/// Bytes left free in front of a received packet.
pub const HEADROOM: usize = 128;
/// Bytes of packet that one buffer takes behind the headroom.
pub const DATA: usize = 2048;
/// Bytes of a buffer that packets may use.
pub const ROOM: usize = HEADROOM + DATA;
/// Bytes from one buffer to the next.
pub const STRIDE: usize = 64 + ROOM;
/// Most free buffers that one worker keeps to itself.
pub const HOARD: usize = 512;
const BATCH: usize = 256;

/// Where the room of a buffer starts: bytes from the start of the pool's memory.
#[inline]
pub fn room_at(buf: u32) -> usize {
    buf as usize * STRIDE + size_of::<Meta>()
}

/// The buffer whose room starts there, whether or not the pool has it.
#[inline]
pub fn with_room_at(at: usize) -> Option<u32> {
    let from = at.checked_sub(size_of::<Meta>())?;
    from.is_multiple_of(STRIDE).then(|| u32::try_from(from / STRIDE).ok()).flatten()
}

/// What is known of a buffer beside its bytes; valid only where the descriptor's flags say so.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Meta {
    /// Next buffer of the chain, or [`NONE`] ([`flags::CHAINED`]).
    pub(crate) next: u32,
    /// Bytes of the packet in all following buffers (first buffer of a chain only).
    pub rest: u32,
    /// Where this buffer's bytes start in its room (following buffers only).
    pub off: u16,
    /// Bytes of the packet in this buffer (following buffers only).
    pub len: u16,
    /// In which traces the packet is, with which number ([`flags::TRACED`]).
    pub trace_id: Mark,
    /// Where checksumming starts, from the start of the room ([`flags::CSUM_PARTIAL`]).
    pub csum_start: u16,
    /// Where the checksum stands, from `csum_start`.
    pub csum_offset: u16,
    /// Payload bytes of each segment ([`flags::GSO`]).
    pub gso_size: u16,
    /// virtio-net `gso_type` of a super-frame.
    pub gso_type: u8,
    /// For the protocols' own use; the graph never looks at it.
    pub user: [u32; 4],
}

/// Bytes that [`Rooms`] shows of a packet at once.
pub const WINDOW: usize = 64;

/// What a loop over a vector needs of the pool to reach packets: two words that stay in registers.
pub struct Rooms<'b> {
    /// The first buffer's room.
    base: *mut u8,
    count: u32,
    owner: PhantomData<&'b mut Buffers>,
}

impl Rooms<'_> {
    /// The same, for one loop of several.
    #[inline(always)]
    pub fn again(&mut self) -> Rooms<'_> {
        Rooms { base: self.base, count: self.count, owner: PhantomData }
    }

    /// [`WINDOW`] bytes of the packet's first buffer from `BACK` bytes in front of its current header; `None` when the
    /// room does not hold them all. Which of them belong to the packet, the descriptor says.
    #[inline(always)]
    pub fn window<const BACK: usize>(&mut self, d: &Desc) -> Option<&mut [u8; WINDOW]> {
        self.sight(d, usize::from(d.off).wrapping_sub(BACK))
    }

    /// `N` bytes of the packet's first buffer from `start` on, which counts as [`Desc::off`]; `None` when the room does not hold
    /// them all.
    #[inline(always)]
    pub fn sight<const N: usize>(&mut self, d: &Desc, start: usize) -> Option<&mut [u8; N]> {
        const { assert!(N <= ROOM) };
        if d.buf.0 >= self.count || start > ROOM - N {
            return None;
        }
        // SAFETY: buffer and range were just checked; `&mut self` stands for the worker's buffers.
        Some(unsafe { &mut *self.base.add(d.buf.0 as usize * STRIDE + start).cast() })
    }
}

/// One worker's view of the pool: its own free list, refilled from and flushed to the shared one in batches.
pub struct Buffers {
    pool: Arc<Pool>,
    slot: usize,
    free: Vec<u32>,
    failures: u64,
}

impl Buffers {
    /// The pool behind it.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How often no buffer was left.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    fn publish(&self) {
        self.pool.cached[self.slot].0.store(self.free.len(), Ordering::Relaxed);
    }

    /// A buffer, or none when the pool is empty.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        if self.free.is_empty() {
            self.refill();
        }
        let buf = self.free.pop()?;
        self.pool.mark(buf, 0, 1);
        self.publish();
        Some(Buffer(buf))
    }

    /// As many buffers as the list has places, by number; false, and none, when there are not so many.
    #[inline]
    pub fn take(&mut self, numbers: &mut [u32]) -> bool {
        for at in 0..numbers.len() {
            if self.free.is_empty() {
                self.refill();
            }
            let Some(buf) = self.free.pop() else {
                numbers[..at].iter().for_each(|b| self.put_back_quietly(*b));
                self.publish();
                return false;
            };
            self.pool.mark(buf, 0, 1);
            numbers[at] = buf;
        }
        self.publish();
        true
    }

    /// Takes some of the shared list's.
    #[cold]
    fn refill(&mut self) {
        self.pool.free.pop_batch(&mut self.free);
        self.failures += u64::from(self.free.is_empty());
    }

    /// Gives one buffer (not its chain) back.
    #[inline]
    pub fn free_one(&mut self, buf: Buffer) {
        self.put_back(buf.0);
    }

    #[inline]
    fn put_back(&mut self, buf: u32) {
        self.put_back_quietly(buf);
        self.publish();
    }

    /// The caller tells how many there are now.
    #[inline(always)]
    fn put_back_quietly(&mut self, buf: u32) {
        assert!(buf < self.pool.count, "buffer index out of range");
        self.pool.mark(buf, 1, 0);
        if self.free.len() >= HOARD {
            self.share();
        }
        self.free.push(buf);
    }

    /// Gives some of its free buffers to all workers.
    #[cold]
    fn share(&mut self) {
        if let Some(batch) = self.free.first_chunk() {
            self.pool.free.push_batch(batch);
        }
        self.free.copy_within(BATCH.., 0);
        self.free.truncate(HOARD - BATCH);
    }

    /// Gives a packet's buffers back, chain included.
    #[inline]
    pub fn free(&mut self, d: Desc) {
        self.free_of(&d);
    }

    /// Gives the buffers of a packet back that its owner forgets.
    #[inline]
    fn free_of(&mut self, d: &Desc) {
        if d.has(flags::CHAINED) {
            let next = self.meta(&d.buf).next;
            self.free_chain(next);
        }
        self.put_back(d.buf.0);
    }

    /// Gives the buffers of several packets back.
    pub fn free_all(&mut self, packets: Packets<'_>) {
        for d in packets.as_slice() {
            if d.has(flags::CHAINED) {
                let next = self.meta(&d.buf).next;
                self.free_chain(next);
            }
            self.put_back_quietly(d.buf.0);
        }
        self.publish();
    }

    /// Gives several buffers (not their chains) back.
    #[inline]
    pub fn free_each(&mut self, buffers: impl Iterator<Item = Buffer>) {
        buffers.for_each(|b| self.put_back_quietly(b.0));
        self.publish();
    }

    /// Gives back `buf` and all that follow it.
    pub(crate) fn free_chain(&mut self, mut buf: u32) {
        // Bounded: a chain cannot be longer than the pool.
        for _ in 0..self.pool.count {
            if buf == NONE {
                break;
            }
            let next = self.meta_at(buf).next;
            self.put_back(buf);
            buf = next;
        }
    }

    /// A packet of one empty buffer: headroom in front, length 0.
    #[inline]
    pub fn alloc_desc(&mut self) -> Option<Desc> {
        let buf = self.alloc()?;
        Some(Desc { buf, off: HEADROOM as u16, l2: HEADROOM as u16, ..Desc::default() })
    }

    /// A packet holding `bytes`, chained when they do not fit in one buffer; `None` when buffers ran out (none is
    /// kept then).
    pub fn alloc_bytes(&mut self, bytes: &[u8]) -> Option<Desc> {
        let mut d = self.alloc_desc()?;
        let first = bytes.len().min(DATA);
        d.len = first as u16;
        self.room_mut(&d.buf)[HEADROOM..HEADROOM + first].copy_from_slice(&bytes[..first]);
        if bytes.len() > first && !self.append(&mut d, &bytes[first..]) {
            self.free(d);
            return None;
        }
        Some(d)
    }

    /// Appends bytes to a packet in new buffers of its chain; false when buffers ran out (what was appended so far
    /// stays part of the packet).
    pub fn append(&mut self, d: &mut Desc, mut bytes: &[u8]) -> bool {
        let mut last = self.last(d);
        while !bytes.is_empty() {
            let Some(buf) = self.alloc() else { return false };
            let n = bytes.len().min(ROOM);
            let (part, tail) = bytes.split_at(n);
            self.room_mut(&buf)[..n].copy_from_slice(part);
            last = self.link(d, last, buf, 0, n as u16);
            bytes = tail;
        }
        true
    }

    /// Makes `buf` the last buffer of packet `d`, behind `last`; its bytes are `off..off+len` of its room. Answers its number.
    pub(crate) fn link(&mut self, d: &mut Desc, last: u32, buf: Buffer, off: u16, len: u16) -> u32 {
        let m = self.meta_mut(&buf);
        (m.next, m.off, m.len) = (NONE, off, len);
        if d.has(flags::CHAINED) {
            self.meta_at_mut(last).next = buf.0;
            self.meta_mut(&d.buf).rest += u32::from(len);
        } else {
            d.flags |= flags::CHAINED;
            let m = self.meta_mut(&d.buf);
            (m.next, m.rest) = (buf.0, u32::from(len));
        }
        buf.0
    }

    /// Moves bytes of the buffers that follow into the first one until it has `n` of the packet, or all of them, as far as there is
    /// room. Buffers without bytes go back.
    pub fn pull(&mut self, d: &mut Desc, n: usize) {
        while d.has(flags::CHAINED) && usize::from(d.len) < n {
            let (next, end) = (self.meta(&d.buf).next, usize::from(d.off) + usize::from(d.len));
            let more = *self.meta_at(next);
            let mut bytes = [0; 128];
            let wanted = (n - usize::from(d.len)).min(bytes.len()).min(ROOM - end);
            let bytes = &mut bytes[..wanted.min(more.len.into())];
            if bytes.is_empty() && more.len != 0 {
                return;
            }
            bytes.copy_from_slice(&self.room_at(next)[more.off.into()..][..bytes.len()]);
            self.room_mut(&d.buf)[end..][..bytes.len()].copy_from_slice(bytes);
            let moved = bytes.len() as u16;
            d.len += moved;
            let first = self.meta_mut(&d.buf);
            first.rest -= u32::from(moved);
            if moved < more.len {
                let rest = self.meta_at_mut(next);
                (rest.off, rest.len) = (more.off + moved, more.len - moved);
                continue;
            }
            first.next = more.next;
            if more.next == NONE {
                d.flags &= !flags::CHAINED;
            }
            self.put_back(next);
        }
    }

    /// How many buffers a packet has.
    pub fn count(&self, d: &Desc) -> u32 {
        let (mut n, mut at) = (1, if d.has(flags::CHAINED) { self.meta(&d.buf).next } else { NONE });
        while at != NONE && n < self.pool.count {
            (n, at) = (n + 1, self.meta_at(at).next);
        }
        n
    }

    /// The last buffer of a packet.
    pub(crate) fn last(&self, d: &Desc) -> u32 {
        let mut last = d.buf.0;
        if d.has(flags::CHAINED) {
            for _ in 0..self.pool.count {
                let next = self.meta_at(last).next;
                if next == NONE {
                    break;
                }
                last = next;
            }
        }
        last
    }

    /// The buffer's room, to be read.
    #[inline]
    pub fn room(&self, buf: &Buffer) -> &[u8; ROOM] {
        self.room_at(buf.0)
    }

    #[inline]
    pub(crate) fn room_at(&self, buf: u32) -> &[u8; ROOM] {
        // SAFETY: `at` checked the index; the room starts 64 bytes into the buffer; its owner is the only one who touches it.
        unsafe { &*self.pool.at(buf).add(64).cast() }
    }

    /// The buffer's room, to be written.
    #[inline]
    pub fn room_mut(&mut self, buf: &Buffer) -> &mut [u8; ROOM] {
        // SAFETY: as `room_at`; `&mut self` keeps a second reference out of this worker.
        unsafe { &mut *self.pool.at(buf.0).add(64).cast() }
    }

    /// Copies these bytes of one buffer's room to the same place of another's.
    #[inline]
    pub fn copy_room(&mut self, from: &Buffer, to: &Buffer, bytes: Range<usize>) {
        let end = bytes.end.min(ROOM);
        let start = bytes.start.min(end);
        if from == to {
            return;
        }
        let (from, to) = (self.pool.at(from.0), self.pool.at(to.0));
        // SAFETY: `at` checked the indices; the range lies within the rooms of two buffers, which do not overlap; `&mut self` as
        // `room_mut`.
        unsafe { core::ptr::copy_nonoverlapping(from.add(64 + start), to.add(64 + start), end - start) }
    }

    /// The buffer's meta line.
    #[inline]
    pub fn meta(&self, buf: &Buffer) -> &Meta {
        self.meta_at(buf.0)
    }

    #[inline]
    pub(crate) fn meta_at(&self, buf: u32) -> &Meta {
        // SAFETY: `at` checked the index; the first 64 bytes of each buffer are its Meta, any bytes are a valid one.
        unsafe { &*self.pool.at(buf).cast() }
    }

    /// The buffer's meta line, to be written.
    #[inline]
    pub fn meta_mut(&mut self, buf: &Buffer) -> &mut Meta {
        self.meta_at_mut(buf.0)
    }

    #[inline]
    pub(crate) fn meta_at_mut(&mut self, buf: u32) -> &mut Meta {
        // SAFETY: as `meta_at`; `&mut self` keeps a second reference out of this worker.
        unsafe { &mut *self.pool.at(buf).cast() }
    }

    /// Asks the CPU for the line at the packet's current header.
    #[inline]
    pub fn prefetch(&self, d: &Desc) {
        prefetch(self.pool.base.wrapping_add(d.buf.0 as usize * STRIDE + 64 + d.off as usize));
    }

    /// The same, to write it.
    #[inline]
    pub fn prefetch_write(&self, d: &Desc) {
        prefetch_to_write(self.pool.base.wrapping_add(d.buf.0 as usize * STRIDE + 64 + d.off as usize));
    }

    /// The rooms of all buffers, for a loop over many packets.
    #[inline]
    pub fn rooms(&mut self) -> Rooms<'_> {
        Rooms { base: self.pool.base.wrapping_add(64), count: self.pool.count, owner: PhantomData }
    }

    /// The bytes of `d` from its current header, in the first buffer.
    #[inline]
    pub fn data(&self, d: &Desc) -> &[u8] {
        &self.room(&d.buf)[d.off as usize..][..d.len as usize]
    }

    /// The bytes of `d` in the first buffer, to be written.
    #[inline]
    pub fn data_mut(&mut self, d: &Desc) -> &mut [u8] {
        &mut self.room_mut(&d.buf)[d.off as usize..][..d.len as usize]
    }

    /// Bytes of the whole packet from its current header.
    #[inline]
    pub fn total_len(&self, d: &Desc) -> usize {
        let rest = if d.has(flags::CHAINED) { self.meta(&d.buf).rest as usize } else { 0 };
        d.len as usize + rest
    }

    /// All parts of a packet in order, from its current header.
    pub fn parts<'a>(&'a self, d: &Desc) -> Parts<'a> {
        let next = if d.has(flags::CHAINED) { self.meta(&d.buf).next } else { NONE };
        Parts { buffers: self, first: Some(self.data(d)), next, left: self.pool.count }
    }

    /// Copies bytes `at..` of the packet into `out`; returns how many there were.
    pub fn copy_out(&self, d: &Desc, mut at: usize, out: &mut [u8]) -> usize {
        let mut done = 0;
        for part in self.parts(d) {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            let n = (part.len() - at).min(out.len() - done);
            out[done..done + n].copy_from_slice(&part[at..at + n]);
            done += n;
            at = 0;
            if done == out.len() {
                break;
            }
        }
        done
    }

    /// Shortens the packet to `len` bytes from its current header; buffers no longer needed go back.
    pub fn trim(&mut self, d: &mut Desc, len: usize) {
        if len <= d.len as usize {
            d.len = len as u16;
            if d.has(flags::CHAINED) {
                let next = self.meta(&d.buf).next;
                d.flags &= !flags::CHAINED;
                self.free_chain(next);
            }
            return;
        }
        if !d.has(flags::CHAINED) {
            return;
        }
        let keep = len - d.len as usize;
        let (mut left, mut cur) = (keep, self.meta(&d.buf).next);
        while cur != NONE {
            let m = *self.meta_at(cur);
            if left <= m.len as usize {
                let cut = self.meta_at_mut(cur);
                cut.len = left as u16;
                cut.next = NONE;
                self.free_chain(m.next);
                self.meta_mut(&d.buf).rest = keep as u32;
                return;
            }
            left -= m.len as usize;
            cur = m.next;
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for b in self.free.drain(..) {
            self.pool.free.push(b);
        }
        self.publish();
    }
}

/// Iterator over the parts of a packet.
#[derive(Clone)]
pub struct Parts<'a> {
    buffers: &'a Buffers,
    first: Option<&'a [u8]>,
    next: u32,
    left: u32,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.next == NONE || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let cur = self.next;
        let m = self.buffers.meta_at(cur);
        self.next = m.next;
        let room = self.buffers.room_at(cur);
        room.get(m.off as usize..m.off as usize + m.len as usize)
    }
}
