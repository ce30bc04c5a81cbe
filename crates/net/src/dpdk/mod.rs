//! Devices of DPDK as interfaces. The driver does the work ([`drivers::dpdk`]), by a library that is loaded when one is first named; here are
//! what an operator asks for, and its place among interfaces.

mod commands;
mod control;
mod part;

pub use drivers::dpdk::{Config as DpdkConfig, MOST_QUEUES, Name as DpdkDevice};
pub(crate) use part::Dpdk;
pub use part::{DpdkOp, config};
