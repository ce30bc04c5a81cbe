//! Layer 2: bridge domains, the cross-connect of two interfaces or sub-interfaces, and the tags of frames.

pub mod bridge;
pub mod commands;
mod retag;
mod xconnect;

pub use retag::{Retag, RetagError, push};
pub use xconnect::{L2Xconnect, XconnectDrop};
