//! `pcap trace`: a packet capture with its file. What takes the frames is in [`capture`](crate::capture).

mod commands;
mod part;

pub(crate) use part::Pcap;
pub use part::{CaptureStatus, start};
