//! One packet as a node sees it: its descriptor, its bytes and the worker's services.

use crate::buffer::{Meta, ROOM};
use crate::desc::{Desc, flags};
use crate::edge::{NodeId, Reason};
use crate::env::Env;

/// One packet of the vector being worked on.
pub struct Packet<'a> {
    /// Its descriptor.
    pub d: &'a mut Desc,
    /// The worker's buffers, frames and counters.
    pub env: &'a mut Env,
}

impl Packet<'_> {
    /// Bytes from the current header to the end of the first buffer.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.env.buffers.data(self.d)
    }

    /// The same, to be written.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.env.buffers.data_mut(self.d)
    }

    /// The first `N` bytes, if there are as many in the first buffer.
    #[inline]
    pub fn head<const N: usize>(&self) -> Option<&[u8; N]> {
        self.data().first_chunk()
    }

    /// The first `N` bytes, to be written.
    #[inline]
    pub fn head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.data_mut().first_chunk_mut()
    }

    /// Bytes of the whole packet from the current header.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.env.buffers.total_len(self.d)
    }

    /// Moves the current header `n` bytes on. False (nothing done) when the first buffer has not as many.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, n: usize) -> bool {
        if n > self.d.len as usize {
            return false;
        }
        self.d.off += n as u16;
        self.d.len -= n as u16;
        true
    }

    /// Moves the current header `n` bytes towards the front; the bytes there are whatever they were. False (nothing
    /// done) when there is no room.
    #[inline]
    #[must_use]
    pub fn prepend(&mut self, n: usize) -> bool {
        if n > self.d.off as usize || self.d.len as usize + n > ROOM {
            return false;
        }
        self.d.off -= n as u16;
        self.d.len += n as u16;
        true
    }

    /// Sets the current header to `off` (bytes from the start of the room), keeping the packet's end. False (nothing
    /// done) when that is behind the end of the first buffer.
    #[inline]
    #[must_use]
    pub fn seek(&mut self, off: u16) -> bool {
        let end = u32::from(self.d.off) + u32::from(self.d.len);
        if u32::from(off) > end {
            return false;
        }
        self.d.off = off;
        self.d.len = (end - u32::from(off)) as u16;
        true
    }

    /// Shortens the packet to `len` bytes from the current header.
    #[inline]
    pub fn trim(&mut self, len: usize) {
        self.env.buffers.trim(self.d, len);
    }

    /// The buffer's meta line.
    #[inline]
    pub fn meta(&self) -> &Meta {
        self.env.buffers.meta(&self.d.buf)
    }

    /// The buffer's meta line, to be written.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.env.buffers.meta_mut(&self.d.buf)
    }

    /// Takes the packet over, from the vector and from the graph: the node answers [`Exit::Consumed`](crate::Exit::Consumed).
    #[inline]
    pub fn take(&mut self) -> Desc {
        self.d.take()
    }

    /// Gives the packet's buffers back: the node answers [`Exit::Consumed`](crate::Exit::Consumed).
    #[inline]
    pub fn free(&mut self) {
        let d = self.d.take();
        self.env.buffers.free(d);
    }

    /// True when any of `bits` is set in the descriptor's flags.
    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.d.has(bits)
    }

    /// Counts an event of the running node that drops nothing.
    #[inline]
    pub fn count<R: Reason>(&mut self, event: R) {
        self.env.count(event);
    }

    /// Sends a further packet (a fragment, an answer) to `node`, past this node's own decision.
    #[inline]
    pub fn emit(&mut self, d: Desc, node: NodeId) {
        self.env.enqueue(d, node);
    }

    /// A copy of the packet in buffers of its own, with the same descriptor words. `None` when buffers ran out.
    pub fn duplicate(&mut self) -> Option<Desc> {
        let b = &mut self.env.buffers;
        let buf = b.alloc()?;
        let (off, len) = (self.d.off as usize, self.d.len as usize);
        b.copy_room(&self.d.buf, &buf, (self.d.l2 as usize).min(off)..off + len);
        if self.d.has(!flags::WITHOUT_META) {
            *b.meta_mut(&buf) = *b.meta(&self.d.buf);
        }
        let mut copy = self.d.with(buf);
        copy.flags &= !flags::CHAINED;
        if self.d.has(flags::CHAINED) {
            let (mut at, mut room) = (len, [0u8; ROOM]);
            let total = b.total_len(self.d);
            while at < total {
                let n = b.copy_out(self.d, at, &mut room);
                if n == 0 || !b.append(&mut copy, &room[..n]) {
                    b.free(copy);
                    return None;
                }
                at += n;
            }
        }
        Some(copy)
    }
}
