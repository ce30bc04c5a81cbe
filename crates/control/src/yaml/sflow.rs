//! The section `sflow`.

use super::decode::Decoder;
use super::tree::Node;

pub(super) const SFLOW: &[&str] = &["header-bytes", "polling-interval", "sampling-rate"];

/// How packets are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sflow {
    /// Bytes of a packet that are sent, 1..256.
    pub header_bytes: u16,
    /// Seconds between two reports of counters, 5..600.
    pub polling_interval: u16,
    /// One packet of so many is sampled, 100..1000000.
    pub sampling_rate: u32,
}

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Sflow> {
    let fields = d.fields(node, SFLOW)?;
    let header = d.field(&fields, "header-bytes", |d, node| d.int(node, 1u16, 256));
    let polling = d.field(&fields, "polling-interval", |d, node| d.int(node, 5u16, 600));
    let rate = d.field(&fields, "sampling-rate", |d, node| d.int(node, 100u32, 1_000_000));
    Some(Sflow {
        header_bytes: header.unwrap_or(128),
        polling_interval: polling.unwrap_or(20),
        sampling_rate: rate.unwrap_or(10_000),
    })
}
