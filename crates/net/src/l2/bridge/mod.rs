//! Bridge domains (IEEE 802.1Q clause 8): workers learn and look up the addresses of all of them in one table.

mod answer;
mod commands;
mod flood;
mod forward;
mod macs;
mod ops;
#[cfg(test)]
mod oracle;
mod part;
mod port;
mod show;
mod tagged;
mod up;
#[cfg(test)]
mod vectors;

pub use answer::{L2ArpTerm, TermReason};
pub use flood::{FloodReason, L2Flood};
pub use forward::{BridgeReason, L2Bridge};
pub use macs::{
    MacCounts, MacInfo, bridge_events, flush_macs, learn_mac, mac_counts, macs, macs_from, port_events,
    static_macs,
};
pub(crate) use macs::{Told, tell_mac, untell_mac};
pub use ops::{BridgeOp, StaticMac};
pub use part::{BridgeSettings, BridgeState, MAX_BRIDGE_ID, bridge, bridges, bridges_from};
pub(crate) use part::{Bridging, Far, make_companion, set_far};
pub use port::{Port, PortFeatures, TagChange, VlanTag, port};
pub use up::{BviDrop, BviInput};

use crate::interface::{BdIndex, BridgePort, IfIndex, RetagError};
use crate::plane::{Bridge, IfCache, Plane};
use graph::counters::Table;
use graph::{Guard, Packet, flags};
use tables::macs::Entry;

/// The bridge domain of the last frame: most frames of a vector share theirs.
pub(crate) struct BridgeCache<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    index: BdIndex,
    found: Option<&'v Bridge>,
}

impl<'v> BridgeCache<'v> {
    pub fn new(plane: &'v Plane, guard: &'v Guard) -> Self {
        BridgeCache { plane, guard, index: BdIndex::default(), found: None }
    }

    /// Looked up without remembering it.
    #[inline]
    pub fn peek(&self, index: BdIndex) -> Option<&'v Bridge> {
        self.plane.l2.bridges.get(index.into(), self.guard)
    }

    #[inline]
    pub fn get(&mut self, index: BdIndex) -> Option<&'v Bridge> {
        if index != self.index {
            (self.index, self.found) = (index, self.peek(index));
        }
        self.found
    }
}

/// Whether a frame from one member may go to another.
#[inline]
fn may_pass(from: &BridgePort, to: &BridgePort) -> bool {
    from.bridge == to.bridge && (from.shg == 0 || from.shg != to.shg)
}

/// The frame goes up through the BVI.
#[inline]
fn to_bvi(p: &mut Packet<'_>, bvi: IfIndex, rx: &Table) {
    rx.count(bvi, p.total_len());
    p.d.rx = bvi;
    p.d.flags &= !flags::L2_GROUP;
}

/// How a frame goes on.
enum Egress {
    /// Out of the member in its descriptor.
    Output,
    /// Up through the BVI.
    Bvi,
}

/// Why a frame does not go to where its destination is.
enum Refused {
    Filter,
    SameInterface,
    SplitHorizon,
    Tags(RetagError),
}

/// Sends a frame of a member to where its destination is; `None` where that is not known.
#[inline]
fn towards(
    p: &mut Packet<'_>,
    port: &BridgePort,
    found: Entry,
    ifs: &mut IfCache<'_>,
    rx: &Table,
) -> Result<Option<Egress>, Refused> {
    if !found.is_live() {
        return Ok(None);
    }
    if found.is_filter() {
        return Err(Refused::Filter);
    }
    if found.port() == p.d.rx {
        return Err(Refused::SameInterface);
    }
    // An address whose interface has left the bridge domain is as good as unknown.
    let Some(tx) = ifs.get(found.port()) else { return Ok(None) };
    let Some(to) = tx.bridge.filter(|t| t.bridge == port.bridge) else { return Ok(None) };
    if !may_pass(port, &to) {
        return Err(Refused::SplitHorizon);
    }
    if to.bvi {
        to_bvi(p, found.port(), rx);
        return Ok(Some(Egress::Bvi));
    }
    tx.retag.leave(p).map_err(Refused::Tags)?;
    (p.d.tx, p.d.feat) = (found.port(), tx.l2_output);
    Ok(Some(Egress::Output))
}
