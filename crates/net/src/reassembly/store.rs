//! What both kinds of reassembly do with their table: limits, ages, room, and what is counted.

use super::table::{Piece, Table};
use super::{Datagram, Settings, Summary, allowance, owner};
use crate::plane::Plane;
use graph::{Desc, Env};
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// What a store needs to know of a datagram.
pub trait Held: Default {
    /// What comes of it is dropped.
    fn refused(&self) -> bool;
    /// Bytes of payload that came.
    fn bytes(&self) -> u32;
    /// Nothing is waited for any more: nobody misses it.
    fn done(&self) -> bool {
        self.refused()
    }
}

/// The datagrams of one worker and one kind.
pub struct Store<K, T> {
    pub table: Table<K, T>,
    /// Buffers that may be held.
    allowance: u32,
    completed: u64,
    evicted: u64,
    timeouts: u64,
    refused: u64,
}

impl<K: Copy + Eq + Hash + fmt::Display, T: Held> Store<K, T> {
    /// One for a pool of `buffers` buffers, when so many workers share the work.
    pub fn new(buffers: usize, workers: usize) -> Self {
        Store {
            table: Table::new(Settings::MOST_REASSEMBLIES as usize, allowance(buffers, 1)),
            allowance: allowance(buffers, workers) as u32,
            completed: 0,
            evicted: 0,
            timeouts: 0,
            refused: 0,
        }
    }

    /// So many workers share the work from now on: has the fragments of datagrams that are others' now come to the running node again.
    pub fn share_out(&mut self, plane: &Plane, env: &mut Env, buffers: usize, workers: usize) {
        self.allowance = allowance(buffers, workers) as u32;
        let mut at = self.table.oldest();
        while let Some((c, _)) = at {
            at = self.table.newer(c);
            if owner(plane, &self.table.key(c)) != env.worker {
                self.table.release(c, |p| env.enqueue(p.d, env.node()));
                self.table.close(c);
            }
        }
    }

    /// The datagram of this key; a new one makes room first, of the oldest ones. `None` when none may be waited for.
    pub fn open(&mut self, key: K, now_ns: u64, s: &Settings, mut drop: impl FnMut(Desc)) -> Option<u32> {
        if let Some(c) = self.table.find(&key) {
            if !self.is_old(c, now_ns, s.timeout) {
                return Some(c);
            }
            // Not yet looked at since its time ran out.
            self.let_go(c, &mut drop);
        }
        while self.table.len() >= s.max_reassemblies as usize || self.table.is_full() {
            self.evict(&mut drop)?;
        }
        self.table.open(key, now_ns, T::default())
    }

    fn is_old(&self, c: u32, now_ns: u64, timeout: Duration) -> bool {
        now_ns.saturating_sub(self.table.since(c)) >= timeout.as_nanos() as u64
    }

    fn let_go(&mut self, c: u32, mut drop: impl FnMut(Desc)) {
        if !self.table.state(c).done() {
            self.evicted += 1;
        }
        self.table.release(c, |p| drop(p.d));
        self.table.close(c);
    }

    /// Lets the oldest datagram go, and answers its number.
    pub fn evict(&mut self, drop: impl FnMut(Desc)) -> Option<u32> {
        let (c, _) = self.table.oldest()?;
        self.let_go(c, drop);
        Some(c)
    }

    /// The oldest datagram, if its time ran out.
    pub fn expired(&self, now_ns: u64, timeout: Duration) -> Option<u32> {
        self.table.oldest().map(|o| o.0).filter(|c| self.is_old(*c, now_ns, timeout))
    }

    /// Takes a datagram out whose time ran out.
    pub fn finish(&mut self, c: u32, each: impl FnMut(Piece)) {
        if !self.table.state(c).done() {
            self.timeouts += 1;
        }
        self.table.release(c, each);
        self.table.close(c);
    }

    /// Takes a datagram out of which all fragments came.
    pub fn complete(&mut self, c: u32, each: impl FnMut(Piece)) {
        self.completed += 1;
        self.table.release(c, each);
        self.table.close(c);
    }

    /// Counts a datagram whose fragments all came, and which stays.
    pub fn count_completed(&mut self) {
        self.completed += 1;
    }

    /// Drops what is held of a datagram; it stays, to be known again.
    pub fn refuse(&mut self, c: u32, mut drop: impl FnMut(Desc)) {
        self.refused += 1;
        self.table.release(c, |p| drop(p.d));
    }

    /// True when a fragment of so many buffers may be held.
    pub fn has_room(&self, buffers: u32) -> bool {
        !self.table.pieces_full() && self.table.buffers() as u32 + buffers <= self.allowance
    }

    /// Takes a fragment over behind piece `behind`, if there is room; see [`Table::hold`].
    pub fn hold(
        &mut self,
        c: u32,
        behind: impl Into<Option<u32>>,
        d: &mut Desc,
        place: (u32, u32),
        header: u32,
        buffers: u32,
    ) -> bool {
        !self.table.pieces_full()
            && self.table.hold(c, behind.into(), Piece::new(d.take(), place.0, place.1, header, buffers))
    }

    /// What there is.
    pub fn summary(&mut self, now_ns: u64, details: bool) -> Summary {
        let mut s = Summary {
            datagrams: self.table.len(),
            fragments: self.table.held(),
            buffers: self.table.buffers(),
            allowance: self.allowance as usize,
            completed: self.completed,
            evicted: self.evicted,
            timeouts: self.timeouts,
            refused: self.refused,
            details: vec![],
        };
        let mut at = self.table.oldest().filter(|_| details);
        while let Some((c, since)) = at {
            let state = self.table.state(c);
            let (bytes, refused) = (state.bytes(), state.refused());
            s.details.push(Datagram {
                key: self.table.key(c).to_string(),
                age_ms: now_ns.saturating_sub(since) / 1_000_000,
                fragments: self.table.count(c),
                bytes,
                refused,
            });
            at = self.table.newer(c);
        }
        s
    }
}
