//! Commands on routes and adjacencies of both families; the state is in [`crate::router`], the nodes in
//! [`crate::ip4`] and [`crate::ip6`].

pub mod commands;
pub mod lines;

mod explain;
mod preferences;
pub(crate) mod show;
mod table_commands;
mod why;
