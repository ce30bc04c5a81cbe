//! Layer 2: bridge domains, the cross-connect of two interfaces or sub-interfaces, and the tags of frames.

pub mod bridge;
pub mod commands;
mod xconnect;

pub use xconnect::{L2Xconnect, XconnectDrop};
