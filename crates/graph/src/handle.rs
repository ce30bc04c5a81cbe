//! Who owns a buffer.
#![allow(unsafe_code)]
// Upholds: the one unsafe function says what its caller promises; it does nothing itself.

/// "No buffer": the end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// A buffer of the pool, which the holder owns: not to be copied, and lost where it is dropped. By default none, which no function
/// takes for one.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Buffer(pub(crate) u32);

impl Default for Buffer {
    #[inline]
    fn default() -> Self {
        Buffer(NONE)
    }
}

impl Buffer {
    /// Its place in the pool.
    #[inline]
    pub fn number(&self) -> u32 {
        self.0
    }

    /// The buffer at this place, for which nobody else has a [`Buffer`]: it was lent to a device that knows numbers only.
    ///
    /// # Safety
    /// Whoever lent it has let go of it, and this is the only time that it comes back.
    #[inline]
    pub unsafe fn from_number(number: u32) -> Buffer {
        Buffer(number)
    }
}
