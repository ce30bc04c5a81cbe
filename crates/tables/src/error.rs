//! What a writer refuses.

use thiserror::Error;

/// The change would take a table past its limit. Nothing of it was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{table} is full: {used} of {limit} bytes are in use")]
pub struct TableFull {
    /// Which table.
    pub table: &'static str,
    /// Bytes in use.
    pub used: usize,
    /// Bytes it may use.
    pub limit: usize,
}

/// Why a route or key was refused. Nothing of the change was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RouteError {
    /// No room.
    #[error(transparent)]
    Full(#[from] TableFull),
    /// The prefix is longer than an address.
    #[error("prefix length {0} is longer than the address")]
    Length(u8),
    /// Values end at 2^31 - 1; those of routes start at 1, as 0 means that there is none.
    #[error("value {0} is out of range")]
    Value(u32),
}
