//! Configurations that survive a restart: what was applied and saved, numbered, with who did it and when.

mod folder;
mod record;
#[cfg(test)]
mod tests;

pub use folder::{Folder, Prepared, Record, SavedError};
pub use record::{Author, Commands, Header, Kind, date, digest, first_line, header, plain, read};
