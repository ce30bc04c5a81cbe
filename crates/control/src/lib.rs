//! Configuration: one YAML document, checked as a whole before anything is touched; and the control socket.

pub mod apply;
pub mod clients;
pub mod commands;
pub mod ctl;
pub mod dump;
pub mod edit;
pub mod engine;
pub mod events;
pub mod fd;
pub mod journal;
pub mod kernel;
pub mod last_words;
pub mod load;
pub mod machine;
pub mod memory;
pub mod places;
pub mod runtime;
pub mod saved;
pub mod trail;
mod written;
pub mod yaml;
