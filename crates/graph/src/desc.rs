//! Descriptors and vectors: what travels through the graph instead of the packets themselves.
//!
//! Who has a [`Desc`] owns its buffers: it can be moved, never copied. What is only to be looked at later is [`Seen`]; packets
//! that leave a vector together are [`Packets`].
#![allow(unsafe_code)]
// Upholds: descriptors are moved from place to place, and what is left behind is out of reach of safe code: behind the length of a
// vector, or in front of an iterator.

use crate::handle::Buffer;
use crate::prefetch::prefetch_to_write;
use std::hint::select_unpredictable;
use std::ops::Deref;

/// The most packets that one vector holds.
pub const VECTOR_SIZE: usize = 256;

/// Bits of [`Desc::flags`].
pub mod flags {
    /// The packet is traced: each node appends a record to the worker's trace log.
    pub const TRACED: u16 = 1 << 0;
    /// The packet continues in further buffers: the chain and [`crate::Meta::rest`] are valid.
    pub const CHAINED: u16 = 1 << 1;
    /// The transport checksum is partial (pseudo header only): `csum_start` and `csum_offset` of the meta are valid.
    pub const CSUM_PARTIAL: u16 = 1 << 2;
    /// A super-frame to be segmented: `gso_size`, `gso_type` and `hdr_len` of the meta are valid.
    pub const GSO: u16 = 1 << 3;
    /// Made by the router itself: no TTL decrement, no forwarding checks.
    pub const LOCAL: u16 = 1 << 4;
    /// Came as a link-layer multicast or broadcast: no ICMP error may answer it.
    pub const L2_GROUP: u16 = 1 << 5;
    /// Put into the graph behind its usual beginning: earlier nodes left nothing in the scratch words.
    pub const INJECTED: u16 = 1 << 6;
    /// The protocols know something of the packet that short cuts do not look at.
    pub const SPECIAL: u16 = 1 << 7;
    /// The transport checksum was verified by the device or by a Linux peer. What short cuts look for is all in one byte.
    pub const CSUM_VALID: u16 = 1 << 8;
    /// What a packet may not be for a node's short cut ([`crate::QuickNode`]).
    pub const UNUSUAL: u16 = TRACED | CHAINED | GSO | LOCAL | L2_GROUP | INJECTED | SPECIAL;
    /// Those that say nothing of the meta line: without any other there is nothing valid in it.
    pub const WITHOUT_META: u16 = LOCAL | L2_GROUP | INJECTED | CSUM_VALID;
    /// First bit free for the protocols' own use; the graph never looks at bits from here on.
    pub const USER: u16 = 1 << 9;
}

/// One packet in a vector: where its bytes are and what the nodes found out so far.
///
/// 32 bytes: a vector of 256 is 8 KiB and stays in the first-level cache, so a node that does not need a packet's
/// bytes never touches its memory.
///
/// Whoever has it owns the packet's buffers, so that there is one of each:
/// ```compile_fail,E0382
/// fn twice(d: graph::Desc) -> [graph::Desc; 2] {
///     [d, d]
/// }
/// ```
/// ```compile_fail,E0507
/// fn taken(d: &mut graph::Desc) -> graph::Buffer {
///     d.buf
/// }
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Desc {
    /// The first buffer.
    pub buf: Buffer,
    /// Where the current header starts: bytes from the start of the buffer's room (headroom included).
    pub off: u16,
    /// Bytes of the packet in the first buffer, from `off`.
    pub len: u16,
    /// See [`flags`].
    pub flags: u16,
    /// Where the link-layer header starts, as `off`.
    pub l2: u16,
    /// Interface (or sub-interface) on which the packet came.
    pub rx: u32,
    /// Interface to which it goes, once known.
    pub tx: u32,
    /// Scratch word handed from node to node: destination address, adjacency, drop reason.
    pub aux: u32,
    /// Second scratch word: flow hash.
    pub hash: u32,
    /// Features of the current arc that the packet has still to visit, one bit each.
    pub feat: u32,
}

impl Desc {
    /// Takes the packet over: the words stay, the buffers go to the caller.
    #[inline]
    pub fn take(&mut self) -> Desc {
        let d = self.moved();
        self.buf = Buffer::default();
        d
    }

    /// The same words, without a buffer.
    #[inline]
    pub fn words(&self) -> Desc {
        self.with(Buffer::default())
    }

    /// The same words, with another buffer.
    #[inline(always)]
    pub fn with(&self, buf: Buffer) -> Desc {
        Desc { buf, ..self.moved() }
    }

    /// The same descriptor a second time. The caller forgets one of them.
    #[inline(always)]
    pub(crate) fn moved(&self) -> Desc {
        // SAFETY: a descriptor is plain words; that only one of them is used is the caller's to see to, within this crate.
        unsafe { std::ptr::read(self) }
    }

    /// True when any of `bits` is set.
    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }

    /// Takes `N` bytes in front of the current header into the packet. The caller has seen that they are there.
    #[inline(always)]
    pub fn grow_front<const N: u16>(&mut self) {
        // Both fields in one word: left alone, the compiler may take them apart into twice the instructions.
        let both = u32::from(self.off) | u32::from(self.len) << 16;
        let both = both.wrapping_add((u32::from(N) << 16).wrapping_sub(u32::from(N)));
        (self.off, self.len) = (both as u16, (both >> 16) as u16);
    }
}

/// A descriptor as it once was, to be looked at. The packet may be another's by now, or no more.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Seen([u32; size_of::<Desc>() / 4]);

impl Seen {
    /// As the descriptor is now.
    #[inline(always)]
    pub fn of(d: &Desc) -> Seen {
        // SAFETY: both are 32 bytes without padding, of one alignment.
        unsafe { std::ptr::read(std::ptr::from_ref(d).cast()) }
    }
}

impl Seen {
    /// With other bytes of the same buffer: `len` from `off` on.
    #[inline]
    #[must_use]
    pub fn of_bytes(d: &Desc, off: u16, len: u16) -> Seen {
        let seen = Desc { off, len, ..d.moved() };
        Seen::of(&seen)
    }

    /// Without some of the flags.
    #[inline]
    #[must_use]
    pub fn without(d: &Desc, flags: u16) -> Seen {
        let seen = Desc { flags: d.flags & !flags, ..d.moved() };
        Seen::of(&seen)
    }
}

impl Deref for Seen {
    type Target = Desc;

    #[inline(always)]
    fn deref(&self) -> &Desc {
        // SAFETY: the words were a descriptor's, and any words are one; a shared reference gives no buffer away.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// Packets that have left their place together: each comes out once. Those that are never taken out are lost with their
/// buffers.
pub struct Packets<'a> {
    all: &'a mut [Desc],
}

impl<'a> Packets<'a> {
    /// All packets of a list, which is empty then.
    pub fn drain(all: &'a mut Vec<Desc>) -> Packets<'a> {
        let n = all.len();
        all.clear();
        let spare = all.as_mut_ptr();
        // SAFETY: `n` descriptors stand there, which have no destructor, and the list, borrowed as long, does not count them any more.
        Packets { all: unsafe { std::slice::from_raw_parts_mut(spare, n) } }
    }

    /// The packets that are left.
    #[inline]
    pub fn as_slice(&self) -> &[Desc] {
        self.all
    }

    /// The packets that are left, to be changed.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Desc] {
        self.all
    }

    /// How many are left.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True when none is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first `n` of them (all, if there are fewer); the others stay.
    #[inline]
    #[must_use]
    pub fn split_to(&mut self, n: usize) -> Packets<'a> {
        let all = std::mem::take(&mut self.all);
        let (first, rest) = all.split_at_mut(n.min(all.len()));
        self.all = rest;
        Packets { all: first }
    }
}

impl Deref for Packets<'_> {
    type Target = [Desc];

    #[inline]
    fn deref(&self) -> &[Desc] {
        self.all
    }
}

impl Iterator for Packets<'_> {
    type Item = Desc;

    #[inline(always)]
    fn next(&mut self) -> Option<Desc> {
        let (first, rest) = std::mem::take(&mut self.all).split_first_mut()?;
        self.all = rest;
        Some(first.moved())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.all.len(), Some(self.all.len()))
    }
}

/// Room to bring packets of one kind to the front of others.
pub struct Aside(Box<[Desc]>);

impl Aside {
    /// For up to `most` packets.
    pub fn new(most: usize) -> Aside {
        Aside((0..most).map(|_| Desc::default()).collect())
    }

    /// Moves those packets from place `from` on to the front of the others of which `wanted` says so, all in their order; the place
    /// behind them. `wanted` is told, of each, its place, and where it will stand: among those wanted, and among the others if
    /// it is not.
    #[inline(always)]
    pub fn bring_forward(
        &mut self,
        descs: &mut [Desc],
        from: usize,
        mut wanted: impl FnMut(&Desc, usize, usize, usize) -> bool,
    ) -> usize {
        let n = descs.len();
        let others = &mut self.0[..n];
        let (mut end, mut moved) = (from, 0);
        for i in from..n {
            let is_wanted = wanted(&descs[i], i, end, moved);
            // Written to both places, and one of them counts: nobody foretells which.
            (descs[end], others[moved]) = (descs[i].moved(), descs[i].moved());
            end += usize::from(is_wanted);
            moved += usize::from(!is_wanted);
        }
        for (to, d) in descs[end..].iter_mut().zip(&others[..moved]) {
            *to = d.moved();
        }
        end
    }
}

/// At most [`VECTOR_SIZE`] packets.
pub struct Vector {
    len: usize,
    descs: [Desc; VECTOR_SIZE],
}

impl Vector {
    /// An empty vector on the heap.
    pub fn boxed() -> Box<Vector> {
        Box::new(Vector { len: 0, descs: std::array::from_fn(|_| Desc::default()) })
    }

    /// Packets in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        VECTOR_SIZE - self.len
    }

    /// Appends a packet; gives it back when it is full.
    ///
    /// # Errors
    /// The packet, which does not fit.
    #[inline]
    pub fn push(&mut self, d: Desc) -> Result<(), Desc> {
        if self.room() == 0 {
            return Err(d);
        }
        self.put(d);
        Ok(())
    }

    /// Appends a packet for which there is room.
    #[inline(always)]
    pub(crate) fn put(&mut self, d: Desc) {
        self.descs[self.len] = d;
        self.len += 1;
    }

    /// Appends a packet, which the caller forgets, with other features, where there is room. It goes from place to place: a copy of which
    /// a word was changed just before would wait for that.
    #[inline(always)]
    pub(crate) fn put_from(&mut self, d: &Desc, feat: u32) {
        let to = &mut self.descs[self.len];
        *to = d.moved();
        to.feat = feat;
        self.len += 1;
    }

    /// Appends as many of the packets as fit; the others stay.
    #[inline]
    pub fn append(&mut self, packets: &mut Packets<'_>) {
        let some = packets.split_to(self.room());
        let n = some.all.len();
        let to = &mut self.descs[self.len..self.len + n];
        // SAFETY: both are `n` descriptors, one slice's by a reference that nobody else has; those of `some` are forgotten here.
        unsafe { std::ptr::copy_nonoverlapping(some.all.as_ptr(), to.as_mut_ptr(), n) }
        self.len += n;
    }

    /// Keeps the packets from place `from` on of which `kinds` says `kind`, and moves the others to `others`, which has none, and their
    /// kinds to the front of `kinds`; all in their order.
    #[inline(never)]
    pub(crate) fn split_off(&mut self, from: usize, kind: u32, kinds: &mut [u32], others: &mut Vector) {
        let n = self.len.min(VECTOR_SIZE);
        let kinds = &mut kinds[..n];
        let Some(same) = kinds[from..].iter().position(|k| *k != kind) else { return };
        let first = from + same;
        let (mut end, mut moved) = (first, 0);
        for i in first..n {
            let (d, of) = (self.descs[i].moved(), kinds[i]);
            kinds[moved] = of;
            // Nobody foretells which.
            let is = of == kind;
            *select_unpredictable(is, &mut self.descs[end], &mut others.descs[moved]) = d;
            end += usize::from(is);
            moved += usize::from(!is);
        }
        (self.len, others.len) = (end, moved);
    }

    /// Asks the CPU for the places of the next `n` packets, which another CPU may have written.
    #[inline]
    pub(crate) fn prefetch(&self, n: usize) {
        for line in self.descs.iter().skip(self.len).take(n).step_by(64 / size_of::<Desc>()) {
            prefetch_to_write(line);
        }
    }

    /// Takes all its packets out.
    #[inline]
    pub fn take(&mut self) -> Packets<'_> {
        let len = std::mem::take(&mut self.len);
        Packets { all: &mut self.descs[..len.min(VECTOR_SIZE)] }
    }

    /// Keeps the packets of which `keep` says so by their number, in their order; the others are forgotten, and those that were
    /// taken over.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut kept = 0;
        for i in 0..self.len.min(VECTOR_SIZE) {
            if keep(i) && self.descs[i].buf != Buffer::default() {
                self.descs[kept] = self.descs[i].moved();
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// The packets.
    #[inline]
    pub fn as_slice(&self) -> &[Desc] {
        &self.descs[..self.len.min(VECTOR_SIZE)]
    }

    /// The packets, to be changed.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Desc] {
        &mut self.descs[..self.len.min(VECTOR_SIZE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_half_a_cache_line() {
        assert_eq!(size_of::<Desc>(), 32);
        assert_eq!(align_of::<Desc>(), 32);
    }

    #[test]
    fn a_full_vector_takes_no_more() {
        let mut v = Vector::boxed();
        for i in 0..VECTOR_SIZE as u32 {
            assert!(v.push(Desc { buf: Buffer(i), ..Desc::default() }).is_ok());
        }
        assert!(v.push(Desc::default()).is_err());
        assert_eq!(v.len(), VECTOR_SIZE);
        assert_eq!(v.as_slice()[255].buf.number(), 255);
    }
}
