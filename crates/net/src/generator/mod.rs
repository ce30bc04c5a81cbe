//! The packet generator's commands. Its streams are an input driver.

pub mod commands;
