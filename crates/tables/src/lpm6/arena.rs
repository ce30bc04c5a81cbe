//! Room for nodes: single lines and runs of 16, taken from one array, given back after their epoch.

use super::{FULL, FULL_LINES, LINE, POINTER};
use crate::retire::Retired;

pub(super) struct Arena {
    lines: usize,
    /// Lines that were ever given out.
    used: usize,
    small: Vec<u32>,
    full: Vec<u32>,
    retired: Retired<u32>,
}

impl Arena {
    pub(super) fn new(words: usize) -> Self {
        Arena { lines: words / LINE, used: 0, small: Vec::new(), full: Vec::new(), retired: Retired::new() }
    }

    /// Room for a node, as a pointer to it.
    pub(super) fn alloc(&mut self, full: bool) -> u32 {
        loop {
            let got = if full { self.full.pop() } else { self.small.pop() };
            if let Some(line) = got {
                return POINTER | line | if full { FULL } else { 0 };
            }
            let block = match self.full.pop() {
                Some(block) => block,
                None if self.used + FULL_LINES <= self.lines => {
                    self.used += FULL_LINES;
                    (self.used - FULL_LINES) as u32
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
            if full {
                self.full.push(block);
            } else {
                self.small.extend((block..block + FULL_LINES as u32).rev());
            }
        }
    }

    /// Most bytes that may be live.
    pub(super) fn max(&self) -> usize {
        self.lines / 4 * LINE * 4
    }

    pub(super) fn bytes(&self) -> usize {
        self.used * LINE * 4
    }

    /// Bytes by which it must grow to give out so many nodes of each form.
    pub(super) fn growth(&self, small: usize, full: usize) -> usize {
        let split = small.saturating_sub(self.small.len()).div_ceil(FULL_LINES);
        (full + split).saturating_sub(self.full.len()) * FULL_LINES * LINE * 4
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn spare(&self) -> usize {
        (self.small.len() + self.full.len() * FULL_LINES) * LINE * 4
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
        let line = super::node::line_of(pointer) as u32;
        if pointer & FULL != 0 {
            self.full.push(line);
        } else {
            self.small.push(line);
        }
    }
}
