//! The datagrams of which fragments came, and the fragments that are held. Bounded, and without allocation once it is
//! made: memory is reserved at the start and touched when it is first used.

use graph::Desc;
use std::collections::HashMap;
use std::hash::Hash;

/// "None": the end of a list.
pub const END: u32 = u32::MAX;

/// A fragment that is held.
#[derive(Debug)]
pub struct Piece {
    /// The packet.
    pub d: Desc,
    /// Its place in the payload of its datagram, bytes.
    pub from: u32,
    /// The end of that place.
    pub to: u32,
    /// Bytes in front of the fragment's payload.
    pub header: u32,
    /// Buffers that it takes.
    pub buffers: u32,
    next: u32,
}

impl Piece {
    /// A fragment with this place.
    pub fn new(d: Desc, from: u32, to: u32, header: u32, buffers: u32) -> Piece {
        Piece { d, from, to, header, buffers, next: END }
    }
}

/// A datagram; `T` is what a node knows of it.
struct Context<K, T> {
    key: K,
    since_ns: u64,
    first: u32,
    last: u32,
    pieces: u32,
    older: u32,
    newer: u32,
    state: T,
}

/// Where a new fragment would stand among those of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind this piece; [`END`]: in front of all.
    Behind(u32),
    /// This piece has exactly the same place.
    Same(u32),
    /// It shares bytes with others.
    Overlap,
}

/// Datagrams by key, in the order of their age.
pub struct Table<K, T> {
    contexts: Vec<Context<K, T>>,
    free_context: u32,
    pieces: Vec<Piece>,
    free_piece: u32,
    /// Where each key stands. Keyed by the system's random numbers; room for twice as many: it then never allocates again.
    index: HashMap<K, u32>,
    oldest: u32,
    newest: u32,
    held: u32,
    buffers: u32,
}

impl<K: Copy + Eq + Hash, T> Table<K, T> {
    /// Room for `contexts` datagrams and `pieces` held fragments.
    pub fn new(contexts: usize, pieces: usize) -> Self {
        Table {
            contexts: Vec::with_capacity(contexts),
            free_context: END,
            pieces: Vec::with_capacity(pieces),
            free_piece: END,
            index: HashMap::with_capacity(2 * contexts),
            oldest: END,
            newest: END,
            held: 0,
            buffers: 0,
        }
    }

    /// Datagrams in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Fragments held.
    pub fn held(&self) -> usize {
        self.held as usize
    }

    /// Buffers of the fragments held.
    pub fn buffers(&self) -> usize {
        self.buffers as usize
    }

    /// True when no further datagram fits.
    pub fn is_full(&self) -> bool {
        self.free_context == END && self.contexts.len() == self.contexts.capacity()
    }

    /// True when no further fragment fits.
    pub fn pieces_full(&self) -> bool {
        self.free_piece == END && self.pieces.len() == self.pieces.capacity()
    }

    /// The datagram with this key.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// Adds a datagram; `None` when there is no room.
    pub fn open(&mut self, key: K, now_ns: u64, state: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let c = Context {
            key,
            since_ns: now_ns,
            first: END,
            last: END,
            pieces: 0,
            older: self.newest,
            newer: END,
            state,
        };
        let at = self.free_context;
        let at = match self.contexts.get_mut(at as usize) {
            Some(slot) => {
                self.free_context = slot.newer;
                *slot = c;
                at
            }
            None => {
                self.contexts.push(c);
                self.contexts.len() as u32 - 1
            }
        };
        match self.contexts.get_mut(self.newest as usize) {
            Some(n) => n.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.index.insert(key, at);
        Some(at)
    }

    /// The oldest datagram and when its first fragment came.
    pub fn oldest(&self) -> Option<(u32, u64)> {
        let c = self.contexts.get(self.oldest as usize)?;
        Some((self.oldest, c.since_ns))
    }

    /// The datagram that came after `c`.
    pub fn newer(&self, c: u32) -> Option<(u32, u64)> {
        let n = self.contexts.get(c as usize)?.newer;
        self.contexts.get(n as usize).map(|c| (n, c.since_ns))
    }

    /// What the node knows of a datagram. The number is one that `find`, `open` or `oldest` gave and that is still there.
    pub fn state(&mut self, c: u32) -> &mut T {
        &mut self.contexts[c as usize].state
    }

    /// Its key.
    pub fn key(&self, c: u32) -> K {
        self.contexts[c as usize].key
    }

    /// When its first fragment came.
    pub fn since(&self, c: u32) -> u64 {
        self.contexts[c as usize].since_ns
    }

    /// How many of its fragments are held.
    pub fn count(&self, c: u32) -> u32 {
        self.contexts[c as usize].pieces
    }

    /// The end of the place of the last fragment that is held; 0 without any.
    pub fn end(&self, c: u32) -> u32 {
        self.pieces.get(self.contexts[c as usize].last as usize).map_or(0, |p| p.to)
    }

    /// Its fragments that are held, in order.
    pub fn pieces(&self, c: u32) -> impl Iterator<Item = &Piece> {
        let mut at = self.contexts[c as usize].first;
        std::iter::from_fn(move || {
            let p = self.pieces.get(at as usize)?;
            at = p.next;
            Some(p)
        })
    }

    /// The piece of this number.
    pub fn piece(&self, p: u32) -> Option<&Piece> {
        self.pieces.get(p as usize)
    }

    /// Where a fragment stands among those that are held in the order of their places.
    pub fn place(&self, c: u32, from: u32, to: u32) -> Place {
        let c = &self.contexts[c as usize];
        // Most fragments come in order.
        if let Some(last) = self.pieces.get(c.last as usize)
            && last.to <= from
        {
            return Place::Behind(c.last);
        }
        let (mut at, mut behind) = (c.first, END);
        while let Some(p) = self.pieces.get(at as usize) {
            if p.to > from {
                return match p {
                    p if p.from >= to => Place::Behind(behind),
                    p if (p.from, p.to) == (from, to) => Place::Same(at),
                    _ => Place::Overlap,
                };
            }
            (behind, at) = (at, p.next);
        }
        Place::Behind(behind)
    }

    /// Holds a fragment behind piece `behind` of its datagram; `None` stands for the last one. False when there is no
    /// room.
    pub fn hold(&mut self, c: u32, behind: Option<u32>, piece: Piece) -> bool {
        if self.pieces_full() {
            return false;
        }
        let context = &self.contexts[c as usize];
        let behind = behind.unwrap_or(context.last);
        let next = self.pieces.get(behind as usize).map_or(context.first, |b| b.next);
        let buffers = piece.buffers;
        let piece = Piece { next, ..piece };
        let at = self.free_piece;
        let at = match self.pieces.get_mut(at as usize) {
            Some(slot) => {
                self.free_piece = slot.next;
                *slot = piece;
                at
            }
            None => {
                self.pieces.push(piece);
                self.pieces.len() as u32 - 1
            }
        };
        let context = &mut self.contexts[c as usize];
        context.pieces += 1;
        if next == END {
            context.last = at;
        }
        match self.pieces.get_mut(behind as usize) {
            Some(b) => b.next = at,
            None => context.first = at,
        }
        self.held += 1;
        self.buffers += buffers;
        true
    }

    /// Lets go of the fragments of a datagram, in order; it stays.
    pub fn release(&mut self, c: u32, mut each: impl FnMut(Piece)) {
        let context = &mut self.contexts[c as usize];
        let mut at = context.first;
        (context.first, context.last, context.pieces) = (END, END, 0);
        while let Some(p) = self.pieces.get_mut(at as usize) {
            let piece = Piece { d: p.d.take(), ..*p };
            let next = std::mem::replace(&mut p.next, self.free_piece);
            self.free_piece = at;
            at = next;
            self.held -= 1;
            self.buffers -= piece.buffers;
            each(piece);
        }
    }

    /// Takes a datagram out whose fragments were released.
    pub fn close(&mut self, c: u32) {
        let context = &self.contexts[c as usize];
        debug_assert_eq!(context.first, END, "its fragments were released");
        let (older, newer) = (context.older, context.newer);
        self.index.remove(&context.key);
        match self.contexts.get_mut(older as usize) {
            Some(o) => o.newer = newer,
            None => self.oldest = newer,
        }
        match self.contexts.get_mut(newer as usize) {
            Some(n) => n.older = older,
            None => self.newest = older,
        }
        self.contexts[c as usize].newer = self.free_context;
        self.free_context = c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number, start and end of fragments.
    type Places = Vec<(u32, u32, u32)>;

    fn piece(aux: u32, from: u32, to: u32) -> Piece {
        Piece::new(Desc { aux, ..Desc::default() }, from, to, 20, 1)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Against a list of lists.
        #[test]
        fn behaves_as_lists(ops in prop::collection::vec((0u8..4, 0u32..12, 0u32..20, 1u32..4), 1..200)) {
            let mut t: Table<u32, ()> = Table::new(8, 16);
            let mut model: Vec<(u32, u64, Places)> = vec![];
            for (n, (op, key, from, len)) in ops.into_iter().enumerate() {
                let (now, to) = (n as u64, from + len);
                let at = model.iter().position(|m| m.0 == key);
                prop_assert_eq!(t.find(&key).is_some(), at.is_some());
                match (op, at) {
                    (0..=2, None) => {
                        let opened = t.open(key, now, ());
                        prop_assert_eq!(opened.is_some(), model.len() < 8);
                        if opened.is_some() {
                            model.push((key, now, vec![]));
                        }
                    }
                    (0..=2, Some(i)) => {
                        let c = t.find(&key).unwrap();
                        let held: usize = model.iter().map(|m| m.2.len()).sum();
                        let list = &mut model[i].2;
                        let same = list.iter().any(|p| (p.1, p.2) == (from, to));
                        let overlap = list.iter().any(|p| p.1 < to && from < p.2);
                        match t.place(c, from, to) {
                            Place::Same(p) => {
                                prop_assert!(same);
                                prop_assert_eq!(t.piece(p).unwrap().from, from);
                            }
                            Place::Overlap => prop_assert!(overlap && !same),
                            Place::Behind(p) => {
                                prop_assert!(!overlap);
                                prop_assert_eq!(t.hold(c, Some(p), piece(n as u32, from, to)), held < 16);
                                if held < 16 {
                                    list.push((n as u32, from, to));
                                    list.sort_unstable_by_key(|p| p.1);
                                }
                            }
                        }
                    }
                    (_, Some(i)) => {
                        let c = t.find(&key).unwrap();
                        let mut got = vec![];
                        t.release(c, |p| got.push((p.d.aux, p.from, p.to)));
                        t.close(c);
                        prop_assert_eq!(got, model.remove(i).2);
                    }
                    _ => {}
                }
                for m in &model {
                    let c = t.find(&m.0).unwrap();
                    let got: Vec<_> = t.pieces(c).map(|p| (p.d.aux, p.from, p.to)).collect();
                    prop_assert_eq!((&got, t.count(c) as usize, t.since(c)), (&m.2, m.2.len(), m.1));
                }
                let mut ages = vec![];
                let mut at = t.oldest();
                while let Some((c, since)) = at {
                    ages.push((t.key(c), since));
                    at = t.newer(c);
                }
                prop_assert_eq!(ages, model.iter().map(|m| (m.0, m.1)).collect::<Vec<_>>(), "by age");
                let held: usize = model.iter().map(|m| m.2.len()).sum();
                prop_assert_eq!((t.len(), t.held(), t.buffers()), (model.len(), held, held));
            }
        }
    }

    #[test]
    fn nothing_is_allocated_once_it_is_made() {
        let mut t: Table<u32, ()> = Table::new(64, 64);
        let (index, contexts, pieces) = (t.index.capacity(), t.contexts.capacity(), t.pieces.capacity());
        for n in 0..100_000 {
            if t.is_full() {
                let (c, _) = t.oldest().unwrap();
                t.release(c, |_| {});
                t.close(c);
            }
            let c = t.open(n, n.into(), ()).unwrap();
            assert!(t.hold(c, None, piece(n, 0, 8)));
        }
        assert_eq!((t.contexts.capacity(), t.pieces.capacity()), (contexts, pieces));
        // What is left after removals counts for less, but a larger map would count for more.
        assert!(t.index.capacity() <= index);
    }
}
