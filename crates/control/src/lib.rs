//! Configuration: one YAML document, checked as a whole before anything is touched; and the control socket.

pub mod ctl;
pub mod yaml;
