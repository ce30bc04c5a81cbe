//! Capture files: packets read from one into the graph ([`PcapRx`]), packets of an interface written to one
//! ([`PcapTx`]), and packets that an operator asked for: a log
//! in memory ([`Capture`]), or a ring that somebody reads ([`Ring`]).
//!
//! Read are pcap (microseconds and nanoseconds, both byte orders) and pcapng with Ethernet frames; any bytes are
//! taken without a panic. Written is pcap with nanoseconds in little-endian order.

pub mod capture;
pub mod format;
pub mod ring;
pub mod rx;
mod slots;
pub mod source;
pub mod tx;
pub mod write;

pub use capture::{Capture, CaptureConfig, CaptureError, Direction};
pub use format::PcapError;
pub use ring::Ring;
pub use rx::{PcapConfig, PcapRate, PcapRx, PcapStats};
pub use slots::CaptureRecord;
pub use tx::PcapTx;
