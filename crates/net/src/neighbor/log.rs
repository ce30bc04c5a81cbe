//! What operators read about neighbours and addresses.

use packet::MacAddr;
use std::fmt;
use std::net::IpAddr;

/// One line for the log. The interface is its index: the caller puts the name before the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighborLog {
    /// A neighbour answers from another MAC address than before.
    Moved {
        /// The interface.
        interface: u32,
        /// The neighbour.
        addr: IpAddr,
        /// Where it was.
        from: MacAddr,
        /// Where it is.
        to: MacAddr,
    },
    /// Somebody else claims the address of a static entry; nothing was changed.
    StaticClaimed {
        /// The interface.
        interface: u32,
        /// The address of the entry.
        addr: IpAddr,
        /// Who claims it.
        by: MacAddr,
    },
    /// No room for a new entry: the table or the number of resolutions under way is at its limit.
    Full {
        /// The interface.
        interface: u32,
        /// The address that was turned away.
        addr: IpAddr,
    },
    /// Duplicate address detection found another owner; the address is not used.
    Duplicate {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: IpAddr,
        /// The other owner.
        by: MacAddr,
    },
    /// Another station uses our address; it was announced again.
    Defended {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: IpAddr,
        /// The other station.
        by: MacAddr,
    },
}

impl NeighborLog {
    /// The interface it is about.
    pub fn interface(&self) -> u32 {
        match *self {
            Self::Moved { interface, .. }
            | Self::StaticClaimed { interface, .. }
            | Self::Full { interface, .. }
            | Self::Duplicate { interface, .. }
            | Self::Defended { interface, .. } => interface,
        }
    }
}

impl fmt::Display for NeighborLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { addr, from, to, .. } => write!(f, "neighbor {addr} moved from {from} to {to}"),
            Self::StaticClaimed { addr, by, .. } => write!(f, "static neighbor {addr} is claimed by {by}"),
            Self::Full { addr, .. } => write!(f, "no room in the neighbor table for {addr}"),
            Self::Duplicate { addr, by, .. } => {
                write!(f, "address {addr} is a duplicate of one at {by} and is not used")
            }
            Self::Defended { addr, by, .. } => write!(f, "our address {addr} is used by {by}, too"),
        }
    }
}
