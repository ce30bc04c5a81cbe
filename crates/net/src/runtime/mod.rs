//! Commands on the running graph: its counters, errors, trace, buffers and threads; and the program's version.

pub mod commands;

mod counters;
mod show;
mod trace;

pub use trace::{Told, named, numbers, told};
