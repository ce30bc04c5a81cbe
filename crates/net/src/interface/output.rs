//! `interface-output`: the last decisions about a packet before its device.

use super::{IfCache, Interface, ifflags};
use crate::plane::Plane;
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, flags, quick};
use std::sync::Arc;
use tables::slots::SlotsReader;

graph::edges! {
    /// Where `interface-output` sends packets.
    pub enum OutputNext {
        Features => "@interface-output",
        Offload => "gso-segment",
    }
}

graph::reasons! {
    /// Why `interface-output` drops packets.
    pub enum OutputDrop {
        /// The output interface does not exist any more.
        Gone => "output-interface-gone",
        /// The output interface is administratively down.
        Down => "output-interface-down",
        /// The output interface has no link.
        NoLink => "output-link-down",
        /// The frame is larger than the output interface takes.
        TooBig => "output-frame-too-big",
    }
}

/// The node.
pub struct InterfaceOutput {
    plane: Arc<Plane>,
    tx: Arc<Table>,
}

impl InterfaceOutput {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        InterfaceOutput { plane: Arc::clone(plane), tx: plane.counters.tx.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct OutputView<'v> {
    ifs: IfCache<'v>,
    tx: &'v Table,
}

impl Node for InterfaceOutput {
    const NAME: &'static str = "interface-output";
    const READS_PACKET: bool = false;
    type Next = OutputNext;
    type Drop = OutputDrop;
    type View<'v> = OutputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> OutputView<'v> {
        OutputView { ifs: IfCache::new(&self.plane, guard), tx: &self.tx }
    }

    #[inline]
    fn step(view: &mut OutputView<'_>, p: &mut Packet<'_>) -> Step<OutputNext, OutputDrop> {
        let index = p.d.tx;
        let Some(i) = view.ifs.get(index) else { return Err(OutputDrop::Gone.into()) };
        if !i.is(ifflags::UP | ifflags::LINK) {
            return Err(if i.is(ifflags::UP) { OutputDrop::NoLink } else { OutputDrop::Down }.into());
        }
        if !p.has(flags::GSO) && p.total_len() > usize::from(i.mtu) + 14 + 8 {
            return Err(OutputDrop::TooBig.into());
        }
        if i.hw != index {
            if let Some(c) = view.tx.get(index) {
                c.packets.add(1);
                c.bytes.add(p.total_len() as u64);
            }
            p.d.tx = i.hw;
        }
        p.d.feat = i.output;
        if p.has(flags::GSO | flags::CSUM_PARTIAL) && !crate::offload::fits(p, &i.caps) {
            return Ok(OutputNext::Offload);
        }
        Ok(OutputNext::Features)
    }
}

/// The usual packets: whole frames that need nothing of the device, for interfaces without features.
pub struct Common<'v> {
    ifs: SlotsReader<'v, Interface>,
    tx: &'v Table,
}

impl QuickNode for InterfaceOutput {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &OutputView<'v>,
        _first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(OutputNext, Common<'v>)> {
        Some((OutputNext::Features, Common { ifs: view.ifs.all(), tx: view.tx }))
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], _rooms: Rooms<'_>) -> usize {
        let (ifs, mut counts) = (common.ifs, Run::new(common.tx));
        // What the last interface said; most packets go where the one before went.
        let (mut last, mut hw, mut room) = (u32::MAX, 0, 0);
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
            if d.tx != last {
                let Some(i) = ifs.get(d.tx).filter(|i| i.is(ifflags::UP | ifflags::LINK) && i.output == 0)
                else {
                    return false;
                };
                (last, hw, room) = (d.tx, i.hw, u32::from(i.mtu) + 14 + 8);
            }
            if u32::from(d.len) > room {
                return false;
            }
            if hw != last {
                counts.add(last, d.len);
                d.tx = hw;
            }
            true
        })
    }
}
