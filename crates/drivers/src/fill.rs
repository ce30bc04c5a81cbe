//! A packet that a queue puts together out of bytes that lie elsewhere.

use graph::buffer::{DATA, HEADROOM, ROOM};
use graph::{Buffer, Buffers, Chain, Desc};

/// A packet that is put together.
pub(crate) struct Fill {
    /// The packet, as long as its first buffer is the last.
    first: Option<Desc>,
    /// The packet without its last buffer, after that.
    chain: Option<Chain>,
    last: Option<Buffer>,
    /// Where the next byte goes in the last buffer, and where that ends.
    at: usize,
    end: usize,
}

impl Fill {
    /// One without bytes; `None` when there is no buffer.
    #[inline]
    pub fn new(buffers: &mut Buffers, interface: u32) -> Option<Fill> {
        let first = Desc { rx: interface, ..buffers.alloc_desc()? };
        Some(Fill { first: Some(first), chain: None, last: None, at: HEADROOM, end: HEADROOM + DATA })
    }

    /// The last buffer joins the others.
    #[inline]
    fn seal(&mut self, buffers: &mut Buffers) {
        if let Some(mut first) = self.first.take() {
            first.len = (self.at - HEADROOM) as u16;
            self.chain = Some(Chain::new(buffers, first));
        } else if let (Some(chain), Some(last)) = (&mut self.chain, self.last.take()) {
            chain.push(buffers, last, 0, self.at as u16);
        }
    }

    /// A buffer with room, where that begins, and its bytes.
    #[inline]
    pub fn room(&mut self, buffers: &mut Buffers) -> Option<(&Buffer, usize, usize)> {
        if self.at == self.end {
            self.seal(buffers);
            (self.last, self.at, self.end) = (Some(buffers.alloc()?), 0, ROOM);
        }
        let buf = self.last.as_ref().or_else(|| self.first.as_ref().map(|d| &d.buf))?;
        Some((buf, self.at, self.end - self.at))
    }

    /// So many bytes were put into the room.
    #[inline]
    pub fn add(&mut self, n: usize) {
        self.at += n;
    }

    /// The whole packet.
    #[inline]
    pub fn done(mut self, buffers: &mut Buffers) -> Option<Desc> {
        if let Some(first) = &mut self.first {
            first.len = (self.at - HEADROOM) as u16;
            return self.first;
        }
        self.seal(buffers);
        self.chain.map(Chain::done)
    }
}
