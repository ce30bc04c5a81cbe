//! Room for nodes: single lines and arrays of 16, taken from one array, given back after their epoch.

use super::node::{self, Kind};
use super::{ARRAY_LINES, LINE};
use crate::retire::Retired;

pub(super) struct Arena {
    lines: usize,
    /// Lines that were ever given out.
    used: usize,
    /// First lines of what is free.
    single: Vec<u32>,
    arrays: Vec<u32>,
    retired: Retired<u32>,
}

impl Arena {
    pub(super) fn new(words: usize) -> Self {
        let lines = words / LINE;
        Arena { lines, used: 0, single: Vec::new(), arrays: Vec::new(), retired: Retired::new() }
    }

    /// The first line of room for a node.
    pub(super) fn alloc(&mut self, array: bool) -> u32 {
        loop {
            if let Some(line) = if array { self.arrays.pop() } else { self.single.pop() } {
                return line;
            }
            let block = match self.arrays.pop() {
                Some(block) => block,
                None if self.used + ARRAY_LINES <= self.lines => {
                    self.used += ARRAY_LINES;
                    (self.used - ARRAY_LINES) as u32
                }
                // The limit keeps what is live under a quarter of the room, so that nodes nobody
                // reclaims fill it. Using the oldest again may mislead a reader, but harms no memory.
                None => match self.retired.pop(u64::MAX) {
                    Some(pointer) => {
                        self.give_back(pointer);
                        continue;
                    }
                    None => 0,
                },
            };
            if array {
                return block;
            }
            self.single.extend((block..block + ARRAY_LINES as u32).rev());
        }
    }

    /// Most bytes that may be live.
    pub(super) fn most(&self) -> usize {
        self.lines / 4 * LINE * 4
    }

    pub(super) fn bytes(&self) -> usize {
        self.used * LINE * 4
    }

    /// Bytes by which it must grow to give out so many nodes of each size.
    pub(super) fn growth(&self, single: usize, arrays: usize) -> usize {
        let split = single.saturating_sub(self.single.len()).div_ceil(ARRAY_LINES);
        (arrays + split).saturating_sub(self.arrays.len()) * ARRAY_LINES * LINE * 4
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn spare(&self) -> usize {
        (self.single.len() + self.arrays.len() * ARRAY_LINES) * LINE * 4
    }

    pub(super) fn retire(&mut self, pointer: u32) {
        self.retired.push(pointer);
    }

    pub(super) fn retire_epoch(&mut self, epoch: u64) {
        self.retired.set_epoch(epoch);
    }

    pub(super) fn reclaim(&mut self, safe: u64) {
        while let Some(pointer) = self.retired.pop(safe) {
            self.give_back(pointer);
        }
    }

    pub(super) fn retired(&self) -> usize {
        self.retired.len()
    }

    fn give_back(&mut self, pointer: u32) {
        let line = (node::word(pointer) / LINE) as u32;
        if node::kind(pointer) == Kind::Array {
            self.arrays.push(line);
        } else {
            self.single.push(line);
        }
    }
}
