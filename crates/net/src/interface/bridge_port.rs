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

/// What an interface is to its bridge domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// The number of the bridge domain in `L2Plane::bridges`, from 1.
    pub bridge: u16,
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
