//! Next-hop groups: what a route points to.
//!
//! A group is one atomic word: a single path, or the place of an array of 2^n paths of which a
//! packet takes the one its flow hash says. Changing a group stores this word, and with it moves every route that
//! points to the group at once. Group 0 is reserved: it is what a lookup without a route
//! answers, and always resolves to the zero [`Entry`].

mod writer;

pub use writer::GroupsWriter;

use crate::error::TableFull;
use crate::mem::{Array, prefetch};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use thiserror::Error;

/// Buckets of the largest group; also the most paths of one.
pub const MAX_BUCKETS: usize = 256;
/// Words of buckets that address space is reserved for.
const BUCKETS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 26 };
/// Marks a word as the place of buckets: bits 0 to 31 are the first, 32 to 39 log2 of their number.
const MANY: u64 = 1 << 63;

/// What a packet does next: a kind, whose meaning is its user's, and the number of an adjacency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Entry {
    /// Up to 127.
    pub kind: u8,
    /// Meaning depends on the kind.
    pub adj: u32,
}

impl Entry {
    #[inline(always)]
    fn pack(self) -> u64 {
        u64::from(self.kind) << 32 | u64::from(self.adj)
    }

    #[inline(always)]
    fn unpack(word: u64) -> Entry {
        Entry { kind: (word >> 32) as u8, adj: word as u32 }
    }
}

/// The number of a next-hop group: what the tables of routes hold as the value of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct GroupId(pub u32);

impl GroupId {
    /// What a lookup without a route answers.
    pub const NONE: GroupId = GroupId(0);
    /// No group has a greater number.
    pub const MAX: GroupId = GroupId(u32::MAX);

    /// Its place in a list of all groups.
    #[inline(always)]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A path of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Where it leads.
    pub entry: Entry,
    /// Its share of the flows, against the other weights; at least 1.
    pub weight: u32,
}

impl Path {
    /// A path of weight 1.
    pub fn new(kind: u8, adj: u32) -> Path {
        Path { entry: Entry { kind, adj }, weight: 1 }
    }
}

/// Why a group was refused. Nothing of the change was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GroupError {
    /// No room.
    #[error(transparent)]
    Full(#[from] TableFull),
    /// A group has 1 to 256 paths.
    #[error("a group of {0} paths: there must be 1 to 256")]
    Paths(usize),
    /// Weights start at 1 and kinds end at 127.
    #[error("a path with weight {weight} and kind {kind}: weights start at 1, kinds end at 127")]
    Path {
        /// Its weight.
        weight: u32,
        /// Its kind.
        kind: u8,
    },
    /// There is no such group.
    #[error("there is no group {0}")]
    Unknown(GroupId),
}

/// The groups as workers see them.
pub struct Groups {
    words: Array<AtomicU64>,
    buckets: Array<AtomicU64>,
}

impl Groups {
    /// No groups, and at most `limit` of them later, group 0 included.
    pub fn new(limit: usize) -> io::Result<(GroupsWriter, Arc<Groups>)> {
        let shared = Arc::new(Groups {
            words: Array::reserve(limit.clamp(2, 1 << 30))?,
            buckets: Array::reserve_up_to(BUCKETS, 1 << 12)?,
        });
        Ok((GroupsWriter::new(shared.clone()), shared))
    }

    /// The path of a group for a flow hash (its low bits decide). A number without a group gives the zero entry.
    #[inline(always)]
    pub fn resolve(&self, id: GroupId, hash: u32) -> Entry {
        let word = self.words.get(id.at()).map_or(0, |w| w.load(Acquire));
        if word & MANY == 0 { Entry::unpack(word) } else { Entry::unpack(self.bucket(word, hash)) }
    }

    /// `resolve` with a hash that is worked out only where a group has several paths.
    #[inline(always)]
    pub fn resolve_with(&self, id: GroupId, hash: impl FnOnce() -> u32) -> Entry {
        let word = self.words.get(id.at()).map_or(0, |w| w.load(Acquire));
        if word & MANY == 0 { Entry::unpack(word) } else { Entry::unpack(self.bucket(word, hash())) }
    }

    /// The groups, for many lookups.
    #[inline(always)]
    pub fn reader(&self) -> GroupsReader<'_> {
        GroupsReader { words: &self.words, groups: self }
    }

    /// `resolve` for a batch: as many as the shortest slice has.
    pub fn resolve_batch(&self, ids: &[GroupId], hashes: &[u32], out: &mut [Entry]) {
        for &id in ids.iter().take(out.len()) {
            prefetch(&self.words, id.at());
        }
        for ((&id, &hash), out) in ids.iter().zip(hashes).zip(out) {
            *out = self.resolve(id, hash);
        }
    }

    #[inline(always)]
    fn bucket(&self, word: u64, hash: u32) -> u64 {
        let mask = (1u32 << ((word >> 32) & 31)) - 1;
        let at = word as u32 as usize + (hash & mask) as usize;
        self.buckets.get(at).map_or(0, |b| b.load(Acquire))
    }
}

/// The groups, for many lookups.
#[derive(Clone, Copy)]
pub struct GroupsReader<'g> {
    words: &'g [AtomicU64],
    groups: &'g Groups,
}

/// What a group's word says.
pub enum Paths {
    /// One path.
    One(Entry),
    /// Several; which one, [`GroupsReader::pick`] says.
    Many(u64),
}

impl GroupsReader<'_> {
    /// The path of a group, or what to [`GroupsReader::pick`] from.
    #[inline(always)]
    pub fn paths(&self, id: GroupId) -> Paths {
        let word = self.words.get(id.at()).map_or(0, |w| w.load(Acquire));
        if word & MANY == 0 { Paths::One(Entry::unpack(word)) } else { Paths::Many(word) }
    }

    /// One of several paths, for a flow hash.
    #[inline(always)]
    pub fn pick(&self, many: u64, hash: u32) -> Entry {
        Entry::unpack(self.groups.bucket(many, hash))
    }

    /// From how many places [`GroupsReader::pick`] picks, a power of two: the low bits of a hash are the place.
    #[inline(always)]
    pub fn places(&self, many: u64) -> usize {
        1 << ((many >> 32) & 31)
    }

    /// All of several paths, each as often as its weight asks.
    #[inline]
    pub fn all(&self, many: u64) -> impl Iterator<Item = Entry> {
        let first = many as u32 as usize;
        let buckets = self.groups.buckets.get(first..first + self.places(many)).unwrap_or_default();
        buckets.iter().map(|b| Entry::unpack(b.load(Acquire)))
    }
}

#[cfg(test)]
mod tests;
