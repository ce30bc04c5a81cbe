//! In which traces a packet is, beside its bytes.

/// Bits of a packet's number, which begins anew behind the last.
const BITS: u32 = 24;
pub(crate) const NUMBERS: u32 = (1 << BITS) - 1;

/// In which traces a packet is; valid only where its descriptor says that it is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mark {
    /// Its number in the log and 1; 0: it is not in the log.
    log: u32,
    /// Its number for those that are followed, and above it a bit for each of them.
    followed: u32,
}

impl Mark {
    /// A packet with this number in the log alone.
    pub const fn in_log(id: u32) -> Mark {
        Mark { log: id.wrapping_add(1), followed: 0 }
    }

    /// The same with this number in the log.
    pub(crate) fn with_log(self, id: u32) -> Mark {
        Mark { log: id.wrapping_add(1), ..self }
    }

    /// Its number in the log, if it is there.
    pub(crate) fn log(self) -> Option<u32> {
        self.log.checked_sub(1)
    }

    /// Which traces that are followed it is in, a bit each.
    pub(crate) fn slots(self) -> u8 {
        (self.followed >> BITS) as u8
    }

    pub(crate) fn number(self) -> u32 {
        self.followed & NUMBERS
    }

    pub(crate) fn with(self, slots: u8, number: u32) -> Mark {
        let slots = u32::from(self.slots() | slots);
        Mark { followed: slots << BITS | number & NUMBERS, ..self }
    }
}
