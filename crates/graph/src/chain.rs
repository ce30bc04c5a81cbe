//! Packets of several buffers, made, walked over and taken apart.

use crate::buffer::Buffers;
use crate::desc::{Desc, flags};
use crate::handle::{Buffer, NONE};

/// A packet that gets further buffers at its end.
#[derive(Debug)]
pub struct Chain {
    packet: Desc,
    last: u32,
}

impl Chain {
    /// Begins with a packet.
    pub fn new(buffers: &Buffers, packet: Desc) -> Chain {
        let last = buffers.last(&packet);
        Chain { packet, last }
    }

    /// Appends a buffer; its bytes are `off..off+len` of its room.
    pub fn push(&mut self, buffers: &mut Buffers, buf: Buffer, off: u16, len: u16) {
        self.last = buffers.link(&mut self.packet, self.last, buf, off, len);
    }

    /// Appends all bytes of a packet, from its current header.
    pub fn join(&mut self, buffers: &mut Buffers, more: Desc) {
        let rest = buffers.total_len(&more) as u32 - u32::from(more.len);
        let follows = if more.has(flags::CHAINED) { buffers.meta(&more.buf).next } else { NONE };
        let last = buffers.last(&more);
        self.push(buffers, more.buf, more.off, more.len);
        if follows != NONE {
            buffers.meta_at_mut(self.last).next = follows;
            buffers.meta_mut(&self.packet.buf).rest += rest;
            self.last = last;
        }
    }

    /// The whole packet.
    pub fn done(self) -> Desc {
        self.packet
    }
}

/// Buffers in a row, each with bytes, that belong to no packet: in the order in which they came.
#[derive(Debug)]
pub struct Row {
    first: u32,
    last: u32,
}

impl Default for Row {
    fn default() -> Self {
        Row { first: NONE, last: NONE }
    }
}

impl Row {
    /// The buffers of a packet, which is no more.
    pub fn of(buffers: &mut Buffers, d: Desc) -> Row {
        let last = buffers.last(&d);
        let m = buffers.meta_mut(&d.buf);
        (m.off, m.len) = (d.off, d.len);
        if !d.has(flags::CHAINED) {
            m.next = NONE;
        }
        Row { first: d.buf.0, last }
    }

    /// Appends a buffer; its bytes are `off..off+len` of its room.
    pub fn push(&mut self, buffers: &mut Buffers, buf: Buffer, off: u16, len: u16) {
        let m = buffers.meta_mut(&buf);
        (m.next, m.off, m.len) = (NONE, off, len);
        if self.first == NONE {
            self.first = buf.0;
        } else {
            buffers.meta_at_mut(self.last).next = buf.0;
        }
        self.last = buf.0;
    }

    /// Takes the first one out, with its place and number of bytes.
    pub fn pop(&mut self, buffers: &Buffers) -> Option<(Buffer, u16, u16)> {
        if self.first == NONE {
            return None;
        }
        let (buf, m) = (Buffer(self.first), buffers.meta_at(self.first));
        self.first = m.next;
        Some((buf, m.off, m.len))
    }

    /// Gives them all back.
    pub fn free(self, buffers: &mut Buffers) {
        buffers.free_chain(self.first);
    }
}

/// Bytes of one buffer of a packet, named where they lie: good as long as the packet is there and does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    buf: u32,
    /// Where they start in the buffer's room.
    pub off: u16,
    /// How many there are.
    pub len: u16,
}

impl Default for Piece {
    fn default() -> Self {
        Piece { buf: NONE, off: 0, len: 0 }
    }
}

impl Piece {
    /// The bytes; none when the piece lies outside of a buffer.
    pub fn bytes<'b>(&self, buffers: &'b Buffers) -> &'b [u8] {
        let at = usize::from(self.off);
        buffers.room_at(self.buf).get(at..at + usize::from(self.len)).unwrap_or_default()
    }
}

/// A walk over the bytes of a packet, from its current header on, piece by piece.
#[derive(Clone, Debug)]
pub struct Walk {
    here: Piece,
    next: u32,
}

impl Walk {
    /// From the packet's first byte.
    pub fn new(buffers: &Buffers, d: &Desc) -> Walk {
        let next = if d.has(flags::CHAINED) { buffers.meta(&d.buf).next } else { NONE };
        Walk { here: Piece { buf: d.buf.0, off: d.off, len: d.len }, next }
    }

    /// The next piece, of at most `most` bytes; `None` at the end. Empty buffers are passed over.
    #[inline]
    pub fn take(&mut self, buffers: &Buffers, most: usize) -> Option<Piece> {
        while self.here.len == 0 {
            if self.next == NONE {
                return None;
            }
            let m = buffers.meta_at(self.next);
            self.here = Piece { buf: self.next, off: m.off, len: m.len };
            self.next = m.next;
        }
        let len = usize::from(self.here.len).min(most) as u16;
        let piece = Piece { len, ..self.here };
        self.here.off += len;
        self.here.len -= len;
        Some(piece)
    }

    /// Passes over `n` bytes; false when there are fewer.
    pub fn skip(&mut self, buffers: &Buffers, mut n: usize) -> bool {
        while n != 0 {
            let Some(piece) = self.take(buffers, n) else { return false };
            n -= usize::from(piece.len);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, ROOM};
    use crate::{PoolConfig, PoolMemory};
    use proptest::prelude::*;

    fn config() -> ProptestConfig {
        let cases = if cfg!(miri) { 3 } else { 200 };
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn a_walk_gives_the_bytes_of_the_packet(
            parts in proptest::collection::vec(0usize..300, 1..8), skip in 0usize..1500, most in 1usize..400,
        ) {
            let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
            let mut b = pool.buffers();
            let bytes: Vec<u8> = (0..parts.iter().sum()).map(|i| (i * 7 + i / 251) as u8).collect();
            let first = b.alloc_bytes(&bytes[..parts[0]]).unwrap();
            let (mut at, mut chain) = (parts[0], Chain::new(&b, first));
            for &n in &parts[1..] {
                let buf = b.alloc().unwrap();
                b.room_mut(&buf)[5..5 + n].copy_from_slice(&bytes[at..at + n]);
                chain.push(&mut b, buf, 5, n as u16);
                at += n;
            }
            let d = chain.done();
            let mut walk = Walk::new(&b, &d);
            prop_assert_eq!(walk.skip(&b, skip), skip <= bytes.len());
            let mut got = vec![];
            while let Some(p) = walk.take(&b, most) {
                prop_assert!(p.len != 0 && usize::from(p.len) <= most);
                got.extend_from_slice(p.bytes(&b));
            }
            prop_assert_eq!(got, &bytes[skip.min(bytes.len())..]);
            let mut row = Row::of(&mut b, d);
            for &n in &parts {
                let (buf, _, len) = row.pop(&b).unwrap();
                prop_assert_eq!(usize::from(len), n);
                b.free_one(buf);
            }
            prop_assert!(row.pop(&b).is_none());
            prop_assert_eq!(pool.in_use(), 0);
        }

        #[test]
        fn packets_joined_are_one(
            parts in prop::collection::vec((prop_oneof![0usize..5000, 0usize..40], 0usize..60), 1..9),
            pulled in 0usize..2500,
        ) {
            let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
            let mut b = pool.buffers();
            let mut whole: Vec<u8> = vec![];
            let mut chain: Option<Chain> = None;
            for (n, (len, skip)) in parts.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
                let mut more = b.alloc_bytes(&bytes).unwrap();
                let skip = skip.min(usize::from(more.len));
                (more.off, more.len) = (more.off + skip as u16, more.len - skip as u16);
                whole.extend(&bytes[skip..]);
                match &mut chain {
                    None => chain = Some(Chain::new(&b, more)),
                    Some(c) => c.join(&mut b, more),
                }
                let c = chain.as_ref().unwrap();
                prop_assert_eq!(b.last(&c.packet), c.last);
                prop_assert_eq!(b.count(&c.packet) as usize, pool.in_use());
                prop_assert_eq!(b.total_len(&c.packet), whole.len());
                prop_assert_eq!(b.parts(&c.packet).flatten().copied().collect::<Vec<_>>(), whole.clone());
            }
            let mut d = chain.unwrap().done();
            b.pull(&mut d, pulled);
            let room = ROOM - usize::from(d.off);
            prop_assert!(usize::from(d.len) >= pulled.min(whole.len()).min(room));
            prop_assert_eq!(b.total_len(&d), whole.len());
            prop_assert_eq!(b.count(&d) as usize, pool.in_use());
            prop_assert_eq!(b.parts(&d).flatten().copied().collect::<Vec<_>>(), whole);
            b.free(d);
            prop_assert_eq!(pool.in_use(), 0);
        }
    }

    #[test]
    fn a_row_gives_back_what_it_was_given() {
        let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
        let mut b = pool.buffers();
        let mut row = Row::default();
        assert!(row.pop(&b).is_none());
        for n in 0..9 {
            let buf = b.alloc().unwrap();
            row.push(&mut b, buf, n, n + 1);
        }
        for n in 0..4 {
            let (buf, off, len) = row.pop(&b).unwrap();
            assert_eq!((off, len), (n, n + 1));
            b.free_one(buf);
        }
        row.free(&mut b);
        assert_eq!(pool.in_use(), 0);
    }
}
