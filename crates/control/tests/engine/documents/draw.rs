//! What is drawn from.

use std::collections::VecDeque;

/// Numbers out of bytes, and when those are used up, numbers that follow from a seed.
pub struct Draw {
    pub seed: u64,
    pub bytes: VecDeque<u8>,
}

impl Draw {
    pub fn next(&mut self) -> u64 {
        if let Some(byte) = self.bytes.pop_front() {
            return byte.into();
        }
        let s = &mut self.seed;
        *s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*s >> 33) ^ *s >> 13 & 0xffff
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
