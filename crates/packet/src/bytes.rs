//! Big-endian access to fixed-size arrays: with constant offsets the compiler removes the bounds checks.

#[inline(always)]
pub(crate) fn be16<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[inline(always)]
pub(crate) fn be32<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[inline(always)]
pub(crate) fn put16<const N: usize>(b: &mut [u8; N], at: usize, value: u16) {
    b[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// `M` bytes from `at`; `at + M <= N` must hold for the constants of the caller.
#[inline(always)]
pub(crate) fn array<const N: usize, const M: usize>(b: &[u8; N], at: usize) -> [u8; M] {
    let mut out = [0; M];
    out.copy_from_slice(&b[at..at + M]);
    out
}

/// Splits a fixed-size head off `out`, or says how much room is needed.
#[inline]
pub(crate) fn head<const N: usize>(
    out: &mut [u8],
    needed: usize,
) -> Result<(&mut [u8; N], &mut [u8]), crate::BuildError> {
    match out.get_mut(..needed).and_then(|o| o.split_first_chunk_mut::<N>()) {
        Some(parts) => Ok(parts),
        None => Err(crate::BuildError::NoRoom { needed }),
    }
}
