//! What a trace says of a packet at a node.

use crate::desc::Seen;
use crate::edge::NodeId;

/// Bytes of a packet that a record keeps.
pub const TRACE_BYTES: usize = 96;
/// Records kept for each traced packet.
pub const RECORDS_A_PACKET: usize = 24;
/// "Not dropped".
pub const NO_REASON: u32 = u32::MAX;

/// What one node did with one packet.
#[derive(Clone, Copy, Debug)]
pub struct TraceRecord {
    /// Number of the packet in the log.
    pub id: u32,
    /// The node.
    pub node: NodeId,
    /// The node it went to (the drop node when it was dropped); `None` when the node took it over.
    pub next: Option<NodeId>,
    /// Why it was dropped, or [`NO_REASON`].
    pub reason: u32,
    /// When, in nanoseconds of the TSC.
    pub time_ns: u64,
    /// The descriptor before the step.
    pub before: Seen,
    /// The descriptor after the step.
    pub after: Seen,
    /// Bytes of the packet from its current header, after the step.
    pub total_len: u32,
    /// Valid bytes of `data`.
    pub data_len: u16,
    /// The packet from its current header, after the step.
    pub data: [u8; TRACE_BYTES],
}

impl TraceRecord {
    /// The kept bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..usize::from(self.data_len).min(TRACE_BYTES)]
    }
}
