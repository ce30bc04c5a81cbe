//! Router advertisements (RFC 4861 section 6.2): hosts learn of them which router to use, which prefixes are on their link and in
//! which to make addresses, where DNS servers are (RFC 8106), and which router is better for what (RFC 4191).
//!
//! `machine` says when to send, as pure logic with time as an argument; [`content`] what; `withdrawn` remembers what hosts were told;
//! `part` follows interfaces and addresses. An interface sends none unless the operator says so.

pub mod commands;
pub mod content;
mod machine;
mod part;
mod withdrawn;

pub use content::{Prefix, RaConfig, Route};
pub(crate) use part::Adverts;
pub use part::{Advertise, config};
