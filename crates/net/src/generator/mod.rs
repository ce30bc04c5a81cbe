//! Commands on the packet generator, whose streams are an input driver.

pub mod commands;
