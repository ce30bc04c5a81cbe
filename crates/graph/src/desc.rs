//! Descriptors and vectors: what travels through the graph instead of the packets themselves.

/// The most packets that one vector holds.
pub const VECTOR_SIZE: usize = 256;

/// Bits of [`Desc::flags`].
pub mod flags {
    /// The packet is traced: each node appends a record to the worker's trace log.
    pub const TRACED: u16 = 1 << 0;
    /// The packet continues in further buffers: [`crate::Meta::next`] and [`crate::Meta::rest`] are valid.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Desc {
    /// Index of the first buffer in the pool.
    pub buf: u32,
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

/// At most [`VECTOR_SIZE`] packets.
pub struct Vector {
    len: usize,
    descs: [Desc; VECTOR_SIZE],
}

impl Vector {
    /// An empty vector on the heap.
    pub fn boxed() -> Box<Vector> {
        Box::new(Vector { len: 0, descs: [Desc::default(); VECTOR_SIZE] })
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

    /// Appends a packet; false (and nothing done) when it is full.
    #[inline]
    #[must_use]
    pub fn push(&mut self, d: Desc) -> bool {
        if let Some(slot) = self.descs.get_mut(self.len) {
            *slot = d;
            self.len += 1;
            true
        } else {
            false
        }
    }

    /// Appends as many of the packets as fit, and answers how many.
    #[inline]
    pub fn append(&mut self, packets: &[Desc]) -> usize {
        let n = packets.len().min(self.room());
        self.descs[self.len..self.len + n].copy_from_slice(&packets[..n]);
        self.len += n;
        n
    }

    /// Forgets its packets. The caller has taken their buffers over.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the packets from `len` on.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
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
            assert!(v.push(Desc { buf: i, ..Desc::default() }));
        }
        assert!(!v.push(Desc::default()));
        assert_eq!(v.len(), VECTOR_SIZE);
        assert_eq!(v.as_slice()[255].buf, 255);
    }
}
