//! What each fuzz target does with its bytes. A panic, also one that the dispatcher would contain, is a finding.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod api;
pub mod bench;
pub mod command;
pub mod documents;
pub mod frames;
pub mod packet;
pub mod punts;
pub mod state;
pub mod yaml;
