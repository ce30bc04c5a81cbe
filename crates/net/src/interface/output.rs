//! `interface-output`: the last decisions about a packet before its device.

use super::{IfCache, Interface, ifflags};
use crate::mpls::IN_TABLE;
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
        Bridge => "l2-bridge",
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
        if !p.has(flags::GSO) && p.total_len() > room(i) as usize {
            return Err(OutputDrop::TooBig.into());
        }
        if i.hw != index {
            view.tx.count(index, p.total_len());
            p.d.tx = i.hw;
        }
        if let (true, Some(port)) = (i.is(ifflags::BVI), &i.bridge) {
            view.tx.count(index, p.total_len());
            // From here on it is a frame that came on the BVI.
            (p.d.rx, p.d.aux) = (index, port.bridge.into());
            p.d.l2 = p.d.off;
            p.d.flags &= !(flags::L2_GROUP | IN_TABLE);
            return Ok(OutputNext::Bridge);
        }
        p.d.feat = i.output;
        if p.has(flags::GSO | flags::CSUM_PARTIAL) && !crate::offload::fits(p, &i.caps) {
            return Ok(OutputNext::Offload);
        }
        Ok(OutputNext::Features)
    }
}

/// The usual packets: whole frames that need nothing of the device.
pub enum Common<'v> {
    /// For interfaces without features.
    Plain { ifs: SlotsReader<'v, Interface>, tx: &'v Table },
    /// For one BVI.
    Bvi { bvi: u32, bridge: u32, room: u32, tx: &'v Table },
}

/// The longest frame that an interface takes.
fn room(i: &Interface) -> u32 {
    u32::from(i.mtu) + 14 + 8
}

impl QuickNode for InterfaceOutput {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &OutputView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(OutputNext, Common<'v>)> {
        let up = ifflags::UP | ifflags::LINK | ifflags::BVI;
        if let Some(i) = view.ifs.peek(first.tx).filter(|i| i.is(up))
            && let Some(port) = &i.bridge
        {
            let (bvi, bridge) = (first.tx, port.bridge.into());
            return Some((OutputNext::Bridge, Common::Bvi { bvi, bridge, room: room(i), tx: view.tx }));
        }
        Some((OutputNext::Features, Common::Plain { ifs: view.ifs.all(), tx: view.tx }))
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], _rooms: Rooms<'_>) -> usize {
        match *common {
            Common::Plain { ifs, tx } => {
                let mut counts = Run::new(tx);
                // What the last interface said; most packets go where the one before went.
                let (mut last, mut hw, mut longest) = (u32::MAX, 0, 0);
                quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
                    if d.tx != last {
                        let up = ifflags::UP | ifflags::LINK;
                        let plain = |i: &&Interface| i.flags & (up | ifflags::BVI) == up && i.output == 0;
                        let Some(i) = ifs.get(d.tx).filter(plain) else { return false };
                        (last, hw, longest) = (d.tx, i.hw, room(i));
                    }
                    if u32::from(d.len) > longest {
                        return false;
                    }
                    if hw != last {
                        counts.add(last, d.len);
                        d.tx = hw;
                    }
                    true
                })
            }
            Common::Bvi { bvi, bridge, room, tx } => {
                let mut counts = Run::new(tx);
                quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
                    let good = d.tx == bvi && u32::from(d.len) <= room;
                    if good {
                        counts.add(bvi, d.len);
                        (d.rx, d.aux, d.l2) = (bvi, bridge, d.off);
                        d.flags &= !IN_TABLE;
                    }
                    good
                })
            }
        }
    }
}
