//! The packet generator: streams of made packets, which an input driver makes.

mod commands;
mod part;

pub(crate) use part::Generator;
pub use part::{StreamInfo, StreamOp, streams};
