//! Offloads done in software: the virtio-net header, partial checksums, segmentation of TCP and UDP super-frames.
//!
//! A frame from a TAP or a packet socket comes with a [`VnetHdr`]. [`VnetHdr::validate`] turns its bytes, which
//! anybody may have written, into an [`Offload`] that fits the frame; [`complete_checksum`] and [`Segmenter`] do what
//! it asks for when the other side cannot.

mod segment;
mod vnet;

pub use segment::{GsoError, MAX_SEGMENTS, Segment, Segmenter, Segments};
pub use vnet::{Gso, GsoKind, Offload, PartialChecksum, VnetError, VnetHdr, complete_checksum};
