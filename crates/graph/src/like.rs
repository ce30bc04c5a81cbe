//! Headers compared with a pattern: all bytes at once.
#![allow(unsafe_code)]
// Upholds: what is loaded is an array of sixteen bytes, by instructions that each x86-64 processor has.

use crate::buffer::WINDOW;

/// What some bits of sixteen bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Like {
    want: [u8; 16],
    mask: [u8; 16],
}

impl Like {
    /// How many bytes are compared.
    pub const BYTES: usize = 16;

    /// The same where the bits of `mask` in byte `at` are as in `byte` as well; a byte beyond the sixteenth is not looked at.
    pub fn and(mut self, at: usize, byte: u8, mask: u8) -> Self {
        self.add(at, byte, mask);
        self
    }

    #[inline]
    fn add(&mut self, at: usize, byte: u8, mask: u8) {
        if let (Some(want), Some(bits)) = (self.want.get_mut(at), self.mask.get_mut(at)) {
            (*want, *bits) = (byte & mask, mask);
        }
    }

    /// True when the first bytes of a window have those bits.
    #[inline(always)]
    pub fn holds(&self, w: &[u8; WINDOW]) -> bool {
        let Some(head) = w.first_chunk() else { return false };
        self.is(head)
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn is(&self, head: &[u8; 16]) -> bool {
        use std::arch::x86_64::{_mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
        // SAFETY: see the head of this module.
        unsafe {
            let [head, want, mask] =
                [head, &self.want, &self.mask].map(|a| _mm_loadu_si128(a.as_ptr().cast()));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(head, mask), want)) == 0xffff
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline(always)]
    fn is(&self, head: &[u8; 16]) -> bool {
        u128::from_ne_bytes(*head) & u128::from_ne_bytes(self.mask) == u128::from_ne_bytes(self.want)
    }
}

/// What some bits of the first `16 * N` bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike<const N: usize>([Like; N]);

impl<const N: usize> Default for Alike<N> {
    fn default() -> Self {
        Alike([Like::default(); N])
    }
}

impl<const N: usize> Alike<N> {
    /// The same where the bits of `mask` in the bytes from `at` on are as in `bytes` as well.
    #[must_use]
    pub fn and(mut self, at: usize, bytes: &[u8], mask: &[u8]) -> Self {
        for ((byte, mask), at) in bytes.iter().zip(mask).zip(at..) {
            if let Some(like) = self.0.get_mut(at / Like::BYTES) {
                like.add(at % Like::BYTES, *byte, *mask);
            }
        }
        self
    }

    /// As [`Like::holds`].
    #[inline(always)]
    pub fn holds(&self, w: &[u8; WINDOW]) -> bool {
        const { assert!(N * Like::BYTES <= WINDOW) };
        let parts = w.as_chunks::<{ Like::BYTES }>().0;
        self.0.iter().zip(parts).fold(true, |all, (like, part)| all & like.is(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bits_of_the_mask_count() {
        let mut mask: [u8; 16] = [0xff; 16];
        (mask[3], mask[9]) = (0, 0x0f);
        let bytes: [u8; 16] = std::array::from_fn(|n| n as u8 * 17);
        let like = (0..20)
            .fold(Like::default(), |l, n| l.and(n, *bytes.get(n).unwrap_or(&0), *mask.get(n).unwrap_or(&1)));
        let mut alike = Alike::<3>::default();
        for at in 0..3 {
            alike = alike.and(16 * at, &bytes, &mask);
        }
        for at in 0..WINDOW {
            for bit in 0..8 {
                let mut w = [0; WINDOW];
                w[..48].copy_from_slice(&[bytes; 3].concat());
                assert!(alike.holds(&w));
                w[at] ^= 1 << bit;
                assert_eq!(alike.holds(&w), at >= 48 || mask[at % 16] >> bit & 1 == 0, "bit {bit} of {at}");
                let mut w = [0xa5; WINDOW];
                w[..16].copy_from_slice(&bytes);
                assert!(like.holds(&w));
                w[at] ^= 1 << bit;
                assert_eq!(
                    like.holds(&w),
                    mask.get(at).is_none_or(|m| m >> bit & 1 == 0),
                    "bit {bit} of {at}"
                );
            }
        }
    }
}
