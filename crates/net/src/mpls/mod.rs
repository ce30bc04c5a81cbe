//! MPLS (RFC 3031, RFC 3032): labels put on, swapped and taken off.
//!
//! A labelled packet is checked by `mpls-input`, and `mpls-lookup` finds the next-hop group of its label. From there it goes
//! through the nodes of label imposition (other labels take the label's place) or disposition (the packet below goes on without
//! it); what has a neighbour ends in `mpls-output`. IP packets come to label imposition from their own lookup.

pub(crate) mod along;
pub mod commands;
mod disposition;
mod error;
mod frag;
#[cfg(test)]
mod guards;
mod imposition;
mod input;
pub mod lines;
mod lookup;
#[cfg(test)]
mod model;
mod output;
mod show;
mod tunnel;

pub use crate::labels::{Exp, Imposition, MOST_LABELS, OutLabels, PIPE_TTL, Push, Stack, reserved};
pub use disposition::{DispositionReason, Ip4Pipe, Ip4Uniform, Ip6Pipe, Ip6Uniform, LabelDisposition};
pub use error::{Ask, MplsErrorReason, MplsIcmpError};
pub use frag::{MplsFrag, MplsFragNext};
pub use imposition::{
    ImpositionReason, LabelImposition, PushIp4Pipe, PushIp4Uniform, PushIp6Pipe, PushIp6Uniform, SwapPipe,
    SwapUniform,
};
pub use input::{MplsInput, MplsInputDrop};
pub use lookup::{MplsLookup, MplsLookupDrop};
pub use output::{MplsOutput, MplsOutputReason};
pub use tunnel::{InterfaceRxL2, InterfaceRxL2Drop, MplsTunnelTx, TUNNEL_TX, Tunnel, TunnelTxDrop};

use crate::interface::{Declared, Setting, ifflags};
use crate::plane::Plane;
use graph::{Guard, flags};
use packet::mpls::Entry;
use std::sync::Arc;
use tables::labels::{Labels, LabelsWriter};
use tables::slots::{Slots, SlotsWriter};

/// The most label tables, table 0 included.
pub const MAX_TABLES: usize = 4096;

/// Whether labelled packets of an interface are taken.
pub static TAKEN: Setting<bool> =
    Setting::new("takes labelled packets", "set interface mpls {} disable").any_layer().flag(ifflags::MPLS);

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 1] = [&TAKEN.declared];

/// Flag of a packet that is looked up in a table that does not follow from its interface: the place of that stands in
/// [`graph::Desc::tx`] until the packet has an interface to leave by.
pub const IN_TABLE: u16 = flags::USER << 1;

/// The writer of label tables, that of table 0, and what workers see.
pub type Table0 = (SlotsWriter<Arc<Labels>>, LabelsWriter, Arc<Slots<Arc<Labels>>>);

/// The label tables, with table 0 at place 0.
///
/// # Errors
/// The system has not the address space.
pub fn table0() -> std::io::Result<Table0> {
    let (mut writer, slots) = Slots::new(MAX_TABLES)?;
    let (main, shared) = Labels::new()?;
    // The first slot is free.
    let _ = writer.insert(shared);
    Ok((writer, main, slots))
}

/// Whether an adjacency puts labels on that copy TTL.
#[cold]
pub fn is_uniform(plane: &Plane, guard: &Guard, adj: u32) -> bool {
    plane.adjacencies.get(adj, guard).and_then(|a| a.mpls.as_ref()).is_some_and(|m| m.uniform)
}

/// The entry with which a packet begins.
#[inline]
pub(crate) fn top(data: &[u8]) -> Option<Entry> {
    data.first_chunk().map(|b| Entry::from_bytes(*b))
}
