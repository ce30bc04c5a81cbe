//! The Linux control plane (`lcp create`): an interface has a pair, a device in Linux under a name of the operator's, on which
//! Linux's tools and routing daemons work as on any host.
//!
//! What comes on the interface for the router itself goes to Linux through `linux-cp-punt`, whole and with the headers with which it
//! came; what Linux sends goes through `linux-cp-xc` and leaves by the interface, untouched. Between them is a TAP, which is a
//! companion of the interface: the operator sees it, but neither changes nor saves it.

pub mod commands;
mod from_linux;
mod part;
mod punt;
mod sync;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vlan_tests;
mod vlans;
#[cfg(test)]
mod vrf_tests;
mod vrfs;
mod xc;

pub use from_linux::{
    Given, Known, Made, Seen, given, given_neighbor, keep_neighbors, take_device, take_neighbor,
};
pub(crate) use part::LinuxCp;
pub use part::{
    DEFAULT_RX_BUFFER, FPM_HOLD, FpmListen, LcpSetting, LinuxPair, PairInfo, Paired, RX_BUFFER, Settings,
    is_host_name, pair, pair_over, pairs, settings, started,
};
pub use punt::{LinuxCpPunt, PuntLinuxDrop, PuntLinuxNext};
pub use vlans::{TakeVlans, VlanDevice, refused_vlans};
pub use vrfs::take_vrfs;
pub use xc::{LinuxCpXc, XcDrop, XcNext};

use crate::arcs;
use crate::interface::IfIndex;
use graph::Node;
use graph::arcs::Feature;

/// Where frames from Linux are taken out of the way of other frames.
pub static LINUX_CP_XC: Feature = Feature::new(&arcs::DEVICE_INPUT, LinuxCpXc::NAME);
/// Where Linux has what is for the router itself, of IPv4 and of IPv6.
pub static LINUX_CP_PUNT: [Feature; 2] =
    [Feature::new(&arcs::IP4_PUNT, LinuxCpPunt::NAME), Feature::new(&arcs::IP6_PUNT, LinuxCpPunt::NAME)];

/// How what is for the router on an interface gets to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToLinux {
    /// The TAP.
    tap: IfIndex,
    /// Tags that are taken off, since the TAP is the interface's alone.
    pop: u8,
    /// Packets come without Ethernet headers: the MAC address of the Linux side, for one.
    packets: Option<[u8; 6]>,
}

/// What becomes of frames that Linux sends on a TAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FromLinux {
    /// The interface.
    interface: IfIndex,
    /// No frames leave over it: they come in on it, and are routed.
    routed: bool,
}

/// The pairs as workers see them, by the number of the interface, and of the TAP.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pairs {
    to: Box<[(IfIndex, ToLinux)]>,
    from: Box<[(IfIndex, FromLinux)]>,
}

/// The entry of an interface.
#[inline]
fn find<T: Copy>(all: &[(IfIndex, T)], index: IfIndex) -> Option<T> {
    all.binary_search_by_key(&index, |(i, _)| *i).ok().and_then(|at| all.get(at)).map(|(_, found)| *found)
}
