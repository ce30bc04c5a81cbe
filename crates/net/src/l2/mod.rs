//! Layer 2: the cross-connect of two interfaces or sub-interfaces.

pub mod commands;
mod xconnect;

pub use xconnect::{L2Xconnect, XconnectDrop};
