//! The receive rings that AF_PACKET shares with the kernel (`packet_mmap`): TPACKET_V2 slots and TPACKET_V3 blocks.
#![allow(unsafe_code)]
// Upholds: every access lies within the mapping (offsets that the kernel wrote are checked against it); a slot or block
// is read only between the kernel's handing it over (acquire load of its status) and its return (release store); the
// slice given to the caller does not outlive that.

use crate::linux::{TP_STATUS_COPY, TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID};
use packet::gso::VnetHdr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bytes of the descriptor in front of a block (`struct tpacket_block_desc`).
const BLOCK_DESC: usize = 48;

/// One frame in a ring.
pub struct Frame<'a> {
    /// Bytes of the whole frame, without the tag in `vlan`.
    pub len: usize,
    /// The whole frame waits in the socket's queue, because the slot is too small for it.
    pub queued: bool,
    /// Protocol and control information of the VLAN tag that the kernel took out of the frame.
    pub vlan: Option<(u16, u16)>,
    /// Offloads.
    pub header: VnetHdr,
    /// The frame's bytes, from the Ethernet header, as far as they fit.
    pub data: &'a [u8],
}

/// Memory shared with the kernel.
struct Map {
    base: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the mapping's owner; nothing in it is tied to a thread.
unsafe impl Send for Map {}
// SAFETY: whoever has it beside the ring's reader looks at status words, which are atomics.
unsafe impl Sync for Map {}

impl Map {
    fn new(fd: &OwnedFd, len: usize) -> io::Result<Map> {
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { base: base.cast(), len })
    }

    /// A word that the kernel and this side hand over by.
    fn status(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len);
        // SAFETY: in range and aligned, as just checked; the kernel accesses it as one word.
        unsafe { AtomicU32::from_ptr(self.base.add(at).cast()) }
    }

    /// Bytes that belong to this side.
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: in range, as just checked; the caller has seen the status that hands them over.
        unsafe { core::slice::from_raw_parts(self.base.add(at), len) }
    }

    fn u32(&self, at: usize) -> u32 {
        let b = self.bytes(at, 4);
        u32::from_ne_bytes([b[0], b[1], b[2], b[3]])
    }

    fn u16(&self, at: usize) -> u16 {
        let b = self.bytes(at, 2);
        u16::from_ne_bytes([b[0], b[1]])
    }

    /// The frame described by the fields given, all of it within `at..end`.
    fn frame(&self, at: usize, end: usize, f: Fields) -> Frame<'_> {
        let start = at + usize::from(f.mac);
        let whole = usize::from(f.mac) >= VnetHdr::LEN && start <= end && f.snaplen <= end - start;
        let (header, data) = if whole {
            let mut h = [0; VnetHdr::LEN];
            h.copy_from_slice(self.bytes(start - VnetHdr::LEN, VnetHdr::LEN));
            (VnetHdr::parse(&h), self.bytes(start, f.snaplen))
        } else {
            (VnetHdr::default(), &[][..])
        };
        let tpid = if f.status & TP_STATUS_VLAN_TPID_VALID != 0 { f.tpid } else { 0x8100 };
        let vlan = (f.status & TP_STATUS_VLAN_VALID != 0).then_some((tpid, f.tci));
        Frame { len: f.len, queued: f.status & TP_STATUS_COPY != 0, vlan, header, data }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

struct Fields {
    status: u32,
    len: usize,
    snaplen: usize,
    mac: u16,
    tci: u16,
    tpid: u16,
}

/// A TPACKET_V2 ring: one slot a frame, handed over one by one.
pub struct RingV2 {
    /// Shared with the control side, which reads status words alone.
    map: Arc<Map>,
    slot: usize,
    slots: usize,
    /// Frames taken out so far.
    taken: u64,
}

/// What the control side sees of a receive ring, and has its reader do.
pub struct Progress {
    map: Option<(Arc<Map>, usize, usize)>,
    /// Frames that the reader has taken out, as of the end of its last poll.
    taken: AtomicU64,
    /// The reader leaves the ring as it is.
    held: AtomicBool,
}

impl Progress {
    /// Has the reader wait, before it reads for the first time, or go on.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    #[inline]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// The reader tells how far it is.
    #[inline]
    pub fn tell(&self, ring: &Ring) {
        if let Ring::V2(r) = ring {
            self.taken.store(r.taken, Ordering::Release);
        }
    }

    /// The frame behind all that are in the ring now, and the reader's last poll: it is out when those are.
    pub fn mark(&self) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        self.last(taken).map_or(taken, |last| taken + last + 1 + graph::VECTOR_SIZE as u64)
    }

    /// Whether the reader has taken all out that was in the ring at this mark. What it does with the last of it may not have ended.
    pub fn is_past(&self, mark: u64) -> bool {
        let taken = self.taken.load(Ordering::Acquire);
        taken >= mark || self.last(taken).is_none()
    }

    /// The last frame that waits, counted from the first. All slots are looked at: the kernel may be late with one in front of others.
    fn last(&self, taken: u64) -> Option<u64> {
        let (map, slot, slots) = self.map.as_ref()?;
        let at = |n: u64| (taken.wrapping_add(n) as usize & (slots - 1)) * slot;
        (0..*slots as u64).rev().find(|n| map.status(at(*n)).load(Ordering::Acquire) & TP_STATUS_USER != 0)
    }
}

/// A TPACKET_V3 ring: blocks of many frames, handed over when full or when their time is over.
pub struct RingV3 {
    map: Map,
    block: usize,
    blocks: usize,
    head: usize,
    /// Frames of the present block not yet taken, and where the next one is.
    left: u32,
    next: usize,
}

/// A receive ring.
pub enum Ring {
    /// TPACKET_V2.
    V2(RingV2),
    /// TPACKET_V3.
    V3(RingV3),
}

impl Ring {
    /// Maps a ring of `slots` slots (a power of two) of `slot` bytes each.
    pub fn v2(fd: &OwnedFd, slot: usize, slots: usize) -> io::Result<Ring> {
        Ok(Ring::V2(RingV2 { map: Arc::new(Map::new(fd, slot * slots)?), slot, slots, taken: 0 }))
    }

    /// What the control side sees of it.
    pub fn progress(&self) -> Progress {
        let map = match self {
            Ring::V2(r) => Some((Arc::clone(&r.map), r.slot, r.slots)),
            Ring::V3(_) => None,
        };
        Progress { map, taken: AtomicU64::new(0), held: AtomicBool::new(false) }
    }

    /// Maps a ring of `blocks` blocks of `block` bytes each.
    pub fn v3(fd: &OwnedFd, block: usize, blocks: usize) -> io::Result<Ring> {
        Ok(Ring::V3(RingV3 { map: Map::new(fd, block * blocks)?, block, blocks, head: 0, left: 0, next: 0 }))
    }

    /// Takes the next frame out, if one waits; its slot goes back when `f` returns.
    #[inline]
    pub fn take<R>(&mut self, f: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        match self {
            Ring::V2(r) => r.take(f),
            Ring::V3(r) => r.take(f),
        }
    }
}

impl RingV2 {
    #[inline]
    fn take<R>(&mut self, f: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let at = (self.taken as usize & (self.slots - 1)) * self.slot;
        let status = self.map.status(at).load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        // struct tpacket2_hdr: status, len, snaplen (u32), mac, net (u16), sec, nsec (u32), tci, tpid (u16).
        let m = &self.map;
        let fields = Fields {
            status,
            len: m.u32(at + 4) as usize,
            snaplen: m.u32(at + 8) as usize,
            mac: m.u16(at + 12),
            tci: m.u16(at + 24),
            tpid: m.u16(at + 26),
        };
        let result = f(m.frame(at, at + self.slot, fields));
        self.map.status(at).store(0, Ordering::Release);
        self.taken += 1;
        Some(result)
    }
}

impl RingV3 {
    #[inline]
    fn take<R>(&mut self, f: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let (block, m) = (self.head * self.block, &self.map);
        if self.left == 0 {
            // struct tpacket_block_desc: version, offset_to_priv, status, num_pkts, offset_to_first_pkt (u32).
            if m.status(block + 8).load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                return None;
            }
            self.left = m.u32(block + 12);
            self.next = m.u32(block + 16) as usize;
        }
        let at = block + self.next;
        if self.left == 0 || self.next < BLOCK_DESC || self.next > self.block - 48 {
            self.give_back();
            return None;
        }
        // struct tpacket3_hdr: next_offset, sec, nsec, snaplen, len, status (u32), mac, net (u16), rxhash, tci (u32),
        // tpid (u16).
        let fields = Fields {
            status: m.u32(at + 20),
            len: m.u32(at + 16) as usize,
            snaplen: m.u32(at + 12) as usize,
            mac: m.u16(at + 24),
            tci: m.u32(at + 32) as u16,
            tpid: m.u16(at + 36),
        };
        let step = m.u32(at) as usize;
        let result = f(m.frame(at, block + self.block, fields));
        self.left -= 1;
        if self.left == 0 {
            self.give_back();
        } else {
            self.next = self.next.saturating_add(step);
        }
        Some(result)
    }

    fn give_back(&mut self) {
        self.map.status(self.head * self.block + 8).store(0, Ordering::Release);
        self.left = 0;
        self.head = if self.head + 1 == self.blocks { 0 } else { self.head + 1 };
    }
}
