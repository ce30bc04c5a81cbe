//! The Link Aggregation Control Protocol (IEEE 802.1AX-2014 clause 6.4, version 1), as pure logic: time is an argument, what comes in is
//! a method call, and what is to be sent is pushed to a list of the caller.
//!
//! [`pdu`] reads and writes frames, [`port`] is what each link goes through (receive, periodic, mux and transmit machines), and [`lag`]
//! chooses the links that make up the bond (selection).
//!
//! A link without a partner carries nothing, as in VPP: the values that are taken for a partner which has not been heard of say that it
//! is not in step.

pub mod lag;
pub mod pdu;
pub mod port;
#[cfg(test)]
mod tests;

pub use lag::{Lag, Send};
pub use pdu::{Frame, Info, Marker, Pdu, state};
pub use port::{Mux, Port, PortConfig, Rx};
