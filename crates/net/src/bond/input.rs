//! `bond-input`: frames of members become those of their bond.

use super::plane::{Bonds, Member};
use crate::interface::IfIndex;
use crate::plane::{IfCache, Plane};
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, flags, quick};
use packet::eth::EtherType;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `bond-input` sends frames.
    pub enum BondInputNext {
        Continue => "@device-input",
        Lacp => "lacp-input",
    }
}

graph::reasons! {
    /// Why `bond-input` drops frames.
    pub enum BondInputDrop {
        /// The interface is in no bond any more.
        Gone => "bond-no-member",
        /// The member takes no part: it waits for another one to fail, or LACP has not agreed on it.
        Inactive => "bond-member-inactive",
    }
}

/// The node.
pub struct BondInput {
    plane: Arc<Plane>,
    bonds: Arc<Published<Bonds>>,
    rx: Arc<Table>,
}

impl BondInput {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        BondInput {
            plane: Arc::clone(plane),
            bonds: plane.publish(),
            rx: plane.counters.received.rx.of(worker),
        }
    }
}

/// Snapshot of one vector.
pub struct BondInputView<'v> {
    bonds: &'v Bonds,
    ifs: IfCache<'v>,
    rx: &'v Table,
    last: IfIndex,
    member: Option<Member>,
    /// Features of its bond.
    features: u32,
}

impl BondInputView<'_> {
    fn look(&mut self, index: IfIndex) {
        self.last = index;
        self.member = self.bonds.member(index);
        let bond = self.member.and_then(|m| self.ifs.get(m.bond));
        self.features = bond.map_or(0, |i| i.input);
    }
}

/// LACP and its like (IEEE 802.3 annex 57A), and LLDP (IEEE 802.1AB): between the two ends of a link, whatever carries more than it.
#[inline(always)]
fn is_of_link(ethertype: u16) -> bool {
    ethertype == SLOW_PROTOCOLS || ethertype == LLDP
}

const SLOW_PROTOCOLS: u16 = EtherType::SLOW.0;
const LLDP: u16 = EtherType::LLDP.0;

impl Node for BondInput {
    const NAME: &'static str = "bond-input";
    type Next = BondInputNext;
    type Drop = BondInputDrop;
    type View<'v> = BondInputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> BondInputView<'v> {
        BondInputView {
            bonds: self.bonds.load(guard),
            ifs: IfCache::new(&self.plane, guard),
            rx: &self.rx,
            last: IfIndex::MAX,
            member: None,
            features: 0,
        }
    }

    #[inline]
    fn step(view: &mut BondInputView<'_>, p: &mut Packet<'_>) -> Step<BondInputNext, BondInputDrop> {
        if p.d.rx != view.last {
            view.look(p.d.rx);
        }
        let Some(member) = view.member else { return Err(BondInputDrop::Gone.into()) };
        let ethertype = p.head::<14>().map(|h| u16::from_be_bytes([h[12], h[13]]));
        if let Some(ethertype) = ethertype.filter(|t| is_of_link(*t)) {
            let lacp = member.lacp && ethertype == SLOW_PROTOCOLS;
            return Ok(if lacp { BondInputNext::Lacp } else { BondInputNext::Continue });
        }
        if !member.takes {
            return Err(BondInputDrop::Inactive.into());
        }
        view.rx.count(member.bond, p.total_len());
        (p.d.rx, p.d.feat) = (member.bond, view.features);
        Ok(BondInputNext::Continue)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

/// The usual frames: those that one member takes for its bond.
pub struct Common<'v> {
    member: IfIndex,
    bond: IfIndex,
    features: u32,
    rx: &'v Table,
}

impl QuickNode for BondInput {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &BondInputView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(BondInputNext, Common<'v>)> {
        let member = view.bonds.member(first.rx).filter(|m| m.takes)?;
        let features = view.ifs.peek(member.bond)?.input;
        let common = Common { member: first.rx, bond: member.bond, features, rx: view.rx };
        Some((BondInputNext::Continue, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let (member, bond) = (common.member, common.bond);
        let mut counts = Run::new(common.rx);
        counts.turn(bond);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            let of_link = d.len < 14 || is_of_link(u16::from_be_bytes([w[12], w[13]]));
            let good = d.rx == member && !of_link;
            if good {
                counts.count(d.len);
                d.rx = bond;
            }
            good
        })
    }
}
