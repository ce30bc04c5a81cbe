//! MPLS (RFC 3031, RFC 3032): labels put on, swapped and taken off.
//!
//! A labelled packet is checked by `mpls-input`, and `mpls-lookup` finds the next-hop group of its label. From there it goes
//! through the nodes of label imposition (other labels take the label's place) or disposition (the packet below goes on without
//! it); what has a neighbour ends in `mpls-output`. IP packets come to label imposition from their own lookup.

mod batch;
mod check;
mod commands;
mod disposition;
mod error;
mod frag;
#[cfg(test)]
mod guards;
mod imposition;
mod input;
pub mod lines;
mod lookup;
mod not_enabled;
#[cfg(test)]
mod oracle;
mod output;
mod part;
mod routes;
mod show;
mod tunnel;

pub use batch::LabelBatch;
pub use check::check_label;
pub use disposition::{DispositionReason, Ip4Pipe, Ip4Uniform, Ip6Pipe, Ip6Uniform, LabelDisposition};
pub use error::{MplsErrorReason, MplsIcmpError};
pub use frag::{MplsFrag, MplsFragNext};
pub use imposition::{
    ImpositionReason, LabelImposition, PushIp4Pipe, PushIp4Uniform, PushIp6Pipe, PushIp6Uniform, SwapPipe,
    SwapUniform,
};
pub use input::{FirstLabel, MplsInput, MplsInputDrop};
pub use lookup::{MplsLookup, MplsLookupDrop};
pub use not_enabled::{MplsNotEnabled, MplsNotEnabledDrop};
pub use output::{MplsOutput, MplsOutputReason};
pub(crate) use part::Mpls;
pub use part::{LabelTableInfo, MplsOp, label_table_at, label_tables};
pub use routes::{LabelRoute, label_route, label_routes, sweep_labels};
pub use tunnel::state::{MAX_TUNNEL, TunnelConfig, TunnelInfo, tunnel, tunnels};
pub use tunnel::{InterfaceRxL2, InterfaceRxL2Drop, MplsTunnelTx, TunnelTxDrop};

use crate::interface::{Declared, Setting, Switch};

/// Whether labelled packets of an interface are taken.
pub static TAKEN: Setting<bool> =
    Setting::new("takes labelled packets", "set interface mpls {} disable").any_layer();

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 1] = [&TAKEN.declared];

/// What the settings switch on.
pub static SWITCHES: [Switch; 1] = [not_enabled::SWITCH];
