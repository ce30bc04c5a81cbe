//! `l2-flood`: a copy of the frame to every member of the bridge domain but the one on which it came.

use crate::interface::{IfIndex, Interface, ifflags};
use crate::l2::bridge::{BridgeCache, may_pass};
use crate::plane::{IfCache, Plane};
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `l2-flood` sends frames.
    pub enum FloodNext {
        Output => "interface-output",
        Features => "@l2-output",
        Bvi => "bvi-input",
    }
}

graph::reasons! {
    /// What `l2-flood` counts.
    pub enum FloodReason {
        /// The interface is in no bridge domain any more.
        NoBridge => "l2-flood-no-bridge-domain",
        /// No other member is there that may have it.
        NoMember => "l2-flood-no-member",
        /// The tags of the frame cannot be changed for a member.
        BadTags => "l2-flood-bad-tags" (info),
        /// A copy was sent.
        Copied => "l2-flood-copies" (info),
        /// A member got no copy: only buffers that other packets need are left.
        NoBuffers => "l2-flood-no-buffers" (info),
        /// A member got no copy: the frames of one vector were copied as often as may be.
        TooMany => "l2-flood-too-many-copies" (info),
    }
}

/// Copies for the frames of one vector.
const COPIES: usize = 4096;

/// The node.
pub struct L2Flood {
    plane: Arc<Plane>,
    rx: Arc<Table>,
}

impl L2Flood {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        L2Flood { plane: Arc::clone(plane), rx: plane.counters.received.rx.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct FloodView<'v> {
    ifs: IfCache<'v>,
    bridge: BridgeCache<'v>,
    counts: &'v Table,
    /// Copies that may still be made.
    left: usize,
}

impl FloodView<'_> {
    /// A copy, unless that would cost too much.
    fn copy(&mut self, p: &mut Packet<'_>) -> Option<Desc> {
        if self.left == 0 {
            p.count(FloodReason::TooMany);
            return None;
        }
        self.left -= 1;
        // The last eighth of the pool is for frames that are received.
        let pool = p.env.buffers.pool();
        let copy = if pool.global_free() < pool.count() / 8 { None } else { p.duplicate() };
        p.count(if copy.is_some() { FloodReason::Copied } else { FloodReason::NoBuffers });
        copy
    }

    /// Makes the frame ready for a member; where it goes.
    fn ready(&self, p: &mut Packet<'_>, to: IfIndex, i: &Interface) -> Option<FloodNext> {
        if i.is(ifflags::BVI) {
            super::to_bvi(p, to, self.counts);
            return Some(FloodNext::Bvi);
        }
        p.d.tx = to;
        match i.retag.leave(p) {
            Ok(()) if i.l2_output == 0 => Some(FloodNext::Output),
            Ok(()) => {
                p.d.feat = i.l2_output;
                Some(FloodNext::Features)
            }
            Err(_) => {
                p.count(FloodReason::BadTags);
                None
            }
        }
    }
}

impl Node for L2Flood {
    const NAME: &'static str = "l2-flood";
    type Next = FloodNext;
    type Drop = FloodReason;
    type View<'v> = FloodView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> FloodView<'v> {
        let plane: &Plane = &self.plane;
        let (ifs, bridge) = (IfCache::new(plane, guard), BridgeCache::new(plane, guard));
        FloodView { ifs, bridge, counts: &self.rx, left: COPIES }
    }

    fn step(view: &mut FloodView<'_>, p: &mut Packet<'_>) -> Step<FloodNext, FloodReason> {
        let rx = p.d.rx;
        let Some(port) = view.ifs.get(rx).and_then(|i| i.bridge) else {
            return Err(FloodReason::NoBridge.into());
        };
        let Some(bridge) = view.bridge.get(port.bridge) else { return Err(FloodReason::NoBridge.into()) };
        let all = view.ifs.all();
        let unicast = p.head::<1>().is_some_and(|h| h[0] & 1 == 0);
        // The last member gets the frame itself.
        let mut last: Option<(IfIndex, &Interface)> = None;
        for m in &bridge.members {
            let shut = m.interface == rx || port.shg != 0 && m.shg == port.shg;
            let up = ifflags::UP | ifflags::LINK;
            let Some(i) = all.get(m.interface).filter(|i| !shut && i.is(up)) else { continue };
            let Some(to) = i.bridge.filter(|to| may_pass(&port, to)) else { continue };
            // No address but its own leads up, and that one is always known.
            if to.bvi && unicast {
                continue;
            }
            if let Some((to, i)) = last.replace((m.interface, i))
                && let Some(mut copy) = view.copy(p)
            {
                let mut c = Packet { d: &mut copy, env: p.env };
                match view.ready(&mut c, to, i) {
                    Some(next) => p.env.forward(copy, next),
                    None => p.env.buffers.free(copy),
                }
            }
        }
        let Some((to, i)) = last else { return Err(FloodReason::NoMember.into()) };
        view.ready(p, to, i).ok_or_else(|| FloodReason::NoMember.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
