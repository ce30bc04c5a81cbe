//! Bridges and VXLAN devices of Linux's, as people and EVPN daemons make them beside pairs: each bridge is a bridge domain, with the interfaces whose
//! pairs are its ports, and with a tunnel to each other end of its VXLAN devices.
//!
//! All that is made of them is Linux's: the operator neither changes nor saves it, and it goes when it goes there. What Linux has is told whole
//! ([`take_bridges`], [`begin_macs`]) or as it changes ([`take_macs`]), and made in turns ([`work`]).

mod commands;
mod heard;
mod make;
mod part;
#[cfg(test)]
mod tests;

pub use heard::{
    Bridge, Device, MacAt, begin_macs, end_macs, forget, local_macs, svis, take_bridges, take_macs,
};
pub use make::work;
pub(crate) use part::LinuxBridges;
