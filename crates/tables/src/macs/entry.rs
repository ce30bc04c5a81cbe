//! What a key and a value are made of.

/// Bits of [`Entry::stamp`].
pub const STAMP_MASK: u16 = 0xfff;

const LIVE: u32 = Entry::LIVE;
const STATIC: u32 = 1 << 30;
const FILTER: u32 = Entry::FILTER;
const BVI: u32 = Entry::BVI;
const STAMP: u32 = (STAMP_MASK as u32) << 16;
const PORT: u32 = 0xffff;

/// The key of an address in a bridge domain (its number from 1 to 65,535): never 0.
#[inline(always)]
pub fn key(bridge: u16, mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) | u64::from(bridge) << 48
}

/// The bridge domain of a key.
pub fn key_bridge(key: u64) -> u16 {
    (key >> 48) as u16
}

/// The address of a key.
pub fn key_mac(key: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, _, _] = key.to_le_bytes();
    [a, b, c, d, e, f]
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub(super) u32);

impl Entry {
    /// The bit of [`Entry::is_live`].
    pub const LIVE: u32 = 1 << 31;
    /// The bit of [`Entry::is_filter`].
    pub const FILTER: u32 = 1 << 29;
    /// The bit of [`Entry::is_bvi`].
    pub const BVI: u32 = 1 << 28;
    /// Nothing.
    pub const NONE: Entry = Entry(0);
    /// Taken out, in the two colours of [`super::MacWriter`].
    pub(super) const DEAD: [Entry; 2] = [Entry(1), Entry(2)];
    /// About to be given to another key.
    pub(super) const FREED: Entry = Entry(3);

    /// An address learned on a port (below 65,536) at `stamp`.
    #[inline(always)]
    pub fn learned(port: u32, stamp: u16) -> Entry {
        Entry(LIVE | u32::from(stamp & STAMP_MASK) << 16 | port & PORT)
    }

    /// An address that the operator put behind a port.
    pub fn fixed(port: u32) -> Entry {
        Entry(LIVE | STATIC | port & PORT)
    }

    /// An address whose frames are dropped.
    pub fn filter() -> Entry {
        Entry(LIVE | STATIC | FILTER)
    }

    /// The address of a bridge domain's own interface.
    pub fn bvi(port: u32) -> Entry {
        Entry(LIVE | STATIC | BVI | port & PORT)
    }

    /// True when there is an entry.
    #[inline(always)]
    pub fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// True for one that workers do not change: static, filter or of a BVI.
    #[inline(always)]
    pub fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }

    /// True when its frames are dropped.
    #[inline(always)]
    pub fn is_filter(self) -> bool {
        self.0 & FILTER != 0
    }

    /// True for the address of a bridge domain's own interface.
    #[inline(always)]
    pub fn is_bvi(self) -> bool {
        self.0 & BVI != 0
    }

    /// The port behind which the address is.
    #[inline(always)]
    pub fn port(self) -> u32 {
        self.0 & PORT
    }

    /// When it was last seen; of no meaning for a static one.
    #[inline(always)]
    pub fn stamp(self) -> u16 {
        ((self.0 & STAMP) >> 16) as u16
    }

    /// True where a frame from the address on this port at this time changes nothing.
    #[inline(always)]
    pub fn is_settled(self, seen: Entry) -> bool {
        self == seen || (self.0 ^ seen.0) & !STAMP == STATIC
    }

    /// As a word: the port in the low 16 bits, the stamp in the next 12, and what it is above them.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// From such a word.
    #[inline(always)]
    pub fn from_bits(bits: u32) -> Entry {
        Entry(bits)
    }

    pub(super) fn is_dead(self) -> bool {
        Entry::DEAD.contains(&self)
    }
}
