//! What an interface is to a bridge domain, as workers see it.

/// Bits of [`BridgePort::flags`].
pub mod bflags {
    /// Source addresses are learned.
    pub const LEARN: u8 = 1 << 0;
    /// Frames to known addresses go where these are.
    pub const FORWARD: u8 = 1 << 1;
    /// Broadcasts and multicasts go to all members.
    pub const FLOOD: u8 = 1 << 2;
    /// Frames to unknown addresses go to all members.
    pub const UU_FLOOD: u8 = 1 << 3;
    /// ARP requests and neighbour solicitations are answered for the entries of the bridge domain.
    pub const ARP_TERM: u8 = 1 << 4;
    /// They are sent to the entry's station instead.
    pub const ARP_UFWD: u8 = 1 << 5;
}

/// By what workers find a bridge domain, from 1; an operator knows it by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BdIndex(pub u16);

impl BdIndex {
    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The key of an address of it in the MAC table.
    #[inline(always)]
    pub fn key(self, mac: [u8; 6]) -> u64 {
        tables::macs::key(self.0, mac)
    }

    /// The bridge domain of a key.
    pub fn of(key: u64) -> BdIndex {
        BdIndex(tables::macs::key_bridge(key))
    }

    /// What it adds to the bytes of an address to be the key of that in the MAC table.
    #[inline(always)]
    pub fn in_key(self) -> u64 {
        u64::from(self.0) << 48
    }
}

impl From<BdIndex> for u32 {
    #[inline(always)]
    fn from(bd: BdIndex) -> u32 {
        bd.0.into()
    }
}

/// What an interface is to its bridge domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// The bridge domain, in `L2Plane::bridges`.
    pub bridge: BdIndex,
    /// Split-horizon group: members of one group other than 0 do not exchange frames.
    pub shg: u8,
    /// The interface through which the bridge domain is routed.
    pub bvi: bool,
    /// What the bridge domain and the interface both do, see [`bflags`].
    pub flags: u8,
    /// The most addresses that may be learned on it.
    pub limit: u32,
}

impl BridgePort {
    /// True when all of `bits` are set.
    #[inline]
    pub fn is(&self, bits: u8) -> bool {
        self.flags & bits == bits
    }
}
