//! `pcap trace`: a packet capture with its file; and captures that somebody follows. What takes the frames is in [`capture`](crate::capture).

mod commands;
mod part;

pub(crate) use part::Pcap;
pub use part::{CaptureStatus, MOST_FOLLOWED, follow, start, unfollow};

pub use drivers::pcap::capture::MAX_SNAP;
pub use drivers::pcap::{CaptureConfig, CaptureRecord, Direction, Ring};

/// What to add to the times of captured packets for nanoseconds since 1970.
pub fn wall_offset_ns() -> u64 {
    drivers::pcap::write::wall_offset_ns(&graph::clock::Clock::new())
}
