//! `mpls-tunnel-tx`: frames that leave by a tunnel get its labels.

use crate::labels::PIPE_TTL;
use crate::plane::{IfCache, Plane, PlaneConfig, kind};
use graph::counters::Table;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::eth::EtherType;
use packet::flow::{self, Flow};
use packet::mpls::{CONTROL_WORD_LEN, ControlWord, ENTRY_LEN};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `mpls-tunnel-tx` sends frames.
    pub enum TunnelTxNext { Output => "mpls-output" }
}

graph::reasons! {
    /// Why `mpls-tunnel-tx` drops frames.
    pub enum TunnelTxDrop {
        /// The interface is no tunnel any more.
        Gone => "mpls-tunnel-gone",
        /// No path of the tunnel can be used.
        NoPath => "mpls-tunnel-no-path",
        /// The frame does not fit the MTU of the path with its labels.
        TooBig => "mpls-tunnel-frame-too-big",
        /// No room in front of the frame for the labels.
        NoRoom => "mpls-tunnel-no-headroom",
    }
}

/// The node.
pub struct MplsTunnelTx {
    plane: Arc<Plane>,
    sent: Arc<Table>,
}

impl MplsTunnelTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        MplsTunnelTx { plane: Arc::clone(plane), sent: plane.counters.tx.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct TunnelTxView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    config: &'v PlaneConfig,
    ifs: IfCache<'v>,
    sent: &'v Table,
}

impl Node for MplsTunnelTx {
    const NAME: &'static str = "mpls-tunnel-tx";
    type Next = TunnelTxNext;
    type Drop = TunnelTxDrop;
    type View<'v> = TunnelTxView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> TunnelTxView<'v> {
        let plane: &Plane = &self.plane;
        let config = plane.config.load(guard);
        TunnelTxView { plane, guard, config, ifs: IfCache::new(plane, guard), sent: &self.sent }
    }

    #[inline]
    fn step(view: &mut TunnelTxView<'_>, p: &mut Packet<'_>) -> Step<TunnelTxNext, TunnelTxDrop> {
        let Some(tunnel) = view.ifs.get(p.d.tx).and_then(|i| i.tunnel) else {
            return Err(TunnelTxDrop::Gone.into());
        };
        let flow = Flow::five_tuple(view.config.hash_seed);
        let entry = view.plane.groups.resolve_with(tunnel.group, || flow::of_frame(p.data(), flow));
        let adjacency =
            view.plane.adjacencies.get(entry.adj, view.guard).filter(|_| entry.kind == kind::LABEL);
        let Some((mtu, labels)) = adjacency.and_then(|a| Some((a.mtu, a.mpls.as_ref()?))) else {
            return Err(TunnelTxDrop::NoPath.into());
        };
        let word = if tunnel.control_word { CONTROL_WORD_LEN } else { 0 };
        if p.total_len() + labels.bytes() + word > usize::from(mtu) {
            return Err(TunnelTxDrop::TooBig.into());
        }
        view.sent.count(p.d.tx, p.total_len());
        if !p.prepend(labels.bytes() + word) {
            return Err(TunnelTxDrop::NoRoom.into());
        }
        let (places, rest) = p.data_mut().as_chunks_mut::<ENTRY_LEN>();
        debug_assert!(rest.len() < ENTRY_LEN);
        let all = labels.stack.as_slice();
        for (n, (place, push)) in places.iter_mut().zip(all).enumerate() {
            *place = push.above(PIPE_TTL, 0, n + 1 == all.len()).to_bytes();
        }
        if tunnel.control_word
            && let Some(place) = places.get_mut(all.len())
        {
            *place = ControlWord::default().to_bytes();
        }
        p.d.aux = entry.adj;
        p.d.hash = EtherType::MPLS.0.into();
        Ok(TunnelTxNext::Output)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::stack(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Pseudowire;
    use crate::testing::{Input, Rig};
    use tables::groups::GroupId;

    #[test]
    fn tunnels_that_lead_nowhere() {
        let mut r = Rig::new(|plane| MplsTunnelTx::new(plane, 0));
        let frame = || {
            let mut i = Input::new(&[0x5a; 60]);
            i.d.tx = 2;
            i
        };
        assert_eq!(r.drops(frame()), "mpls-tunnel-gone");
        let mut i = r.interfaces.get(2).unwrap().clone();
        i.tunnel = Some(Pseudowire { group: GroupId::NONE, control_word: false });
        r.interfaces.replace(2, i);
        assert_eq!(r.drops(frame()), "mpls-tunnel-no-path");
        assert_eq!(r.plane.counters.tx.of(0).get(2).unwrap().packets.get(), 0);
    }
}
