//! `interface-output`: the last decisions about a packet before its device.

use crate::interface::{Interface, ifflags};
use crate::plane::{IN_TABLE, IfCache, Plane};
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
        Bridge => "@l2-input",
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
        p.d.aux = index;
        if let (true, Some(port)) = (i.is(ifflags::BVI), &i.bridge) {
            view.tx.count(index, p.total_len());
            // From here on it is a frame that came on the BVI.
            (p.d.rx, p.d.aux) = (index, port.bridge.into());
            p.d.l2 = p.d.off;
            p.d.feat = i.l2_input;
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
    /// For interfaces that have these.
    Featured { ifs: SlotsReader<'v, Interface>, tx: &'v Table, features: u32 },
    /// For one BVI.
    Bvi { bvi: u32, bridge: u32, room: u32, tx: &'v Table, features: u32 },
}

/// The longest frame that an interface takes.
fn room(i: &Interface) -> u32 {
    u32::from(i.mtu) + 14 + 8
}

/// What all frames have that a short cut sends to devices.
const READY: u16 = ifflags::UP | ifflags::LINK;

/// Hands frames to the devices of interfaces that have these features and no others: with `FEATURED` some, without none.
#[inline(always)]
fn send<const FEATURED: bool>(
    ifs: SlotsReader<'_, Interface>,
    tx: &Table,
    features: u32,
    descs: &mut [Desc],
) -> usize {
    let mut counts = Run::new(tx);
    // What the last interface said; most packets go where the one before went.
    let (mut last, mut hw, mut longest) = (u32::MAX, 0, 0);
    quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
        if d.tx != last {
            let has = |i: &Interface| if FEATURED { i.output == features } else { i.output == 0 };
            let usual = |i: &&Interface| i.flags & (READY | ifflags::BVI) == READY && has(i);
            let Some(i) = ifs.get(d.tx).filter(usual) else { return false };
            (last, hw, longest) = (d.tx, i.hw, room(i));
        }
        if u32::from(d.len) > longest {
            return false;
        }
        if FEATURED {
            d.aux = last;
        }
        if hw != last {
            counts.add(last, d.len);
            d.tx = hw;
        }
        true
    })
}

impl QuickNode for InterfaceOutput {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &OutputView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(OutputNext, Common<'v>)> {
        let (ifs, tx) = (view.ifs.all(), view.tx);
        let Some(i) = view.ifs.peek(first.tx).filter(|i| i.is(READY)) else {
            return Some((OutputNext::Features, Common::Plain { ifs, tx }));
        };
        if let (true, Some(port)) = (i.is(ifflags::BVI), &i.bridge) {
            let (bvi, bridge) = (first.tx, port.bridge.into());
            return Some((
                OutputNext::Bridge,
                Common::Bvi { bvi, bridge, room: room(i), tx, features: i.l2_input },
            ));
        }
        let common = match i.output {
            0 => Common::Plain { ifs, tx },
            features => Common::Featured { ifs, tx, features },
        };
        Some((OutputNext::Features, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        match common {
            Common::Featured { features, .. } | Common::Bvi { features, .. } => *features,
            Common::Plain { .. } => 0,
        }
    }

    const SORTS: bool = true;
    const SORTS_UNUSUAL: bool = false;

    /// Frames to interfaces with the same features, or to the same BVI. One flow leaves over one interface.
    fn kinds(view: &mut OutputView<'_>, descs: &[Desc], _rooms: Rooms<'_>, kinds: &mut [u32]) {
        const BVI: u32 = 1 << 31;
        for (d, kind) in descs.iter().zip(kinds) {
            *kind = match view.ifs.get(d.tx) {
                Some(i) if i.is(ifflags::BVI) => BVI | d.tx,
                Some(i) => i.output,
                None => 0,
            };
        }
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], _rooms: Rooms<'_>) -> usize {
        match *common {
            Common::Plain { ifs, tx } => send::<false>(ifs, tx, 0, descs),
            Common::Featured { ifs, tx, features } => send::<true>(ifs, tx, features, descs),
            Common::Bvi { bvi, bridge, room, tx, .. } => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};
    use tables::slots::SlotsWriter;

    /// Interface 3 becomes a sub-interface of 2, and both have these features.
    fn give(interfaces: &mut SlotsWriter<Interface>, features: u32) {
        for n in [2, 3] {
            let mut i = interfaces.get(n).unwrap().clone();
            (i.hw, i.output) = (2, features);
            interfaces.replace(n, i);
        }
    }

    fn over(tx: u32) -> Input {
        let mut i = Input::new(&[0x5a; 60]);
        i.d.tx = tx;
        i
    }

    #[test]
    fn features_learn_over_which_interface_a_frame_leaves() {
        let mut r = Rig::new(|plane| InterfaceOutput::new(plane, 0));
        give(&mut r.interfaces, 0);
        for (frame, tx) in [(over(2), 2), (over(3), 3)] {
            let a = r.one(frame);
            assert_eq!((a.node, a.d.tx, a.d.aux), ("interface-tx", 2, tx));
        }
    }

    #[test]
    fn whole_runs_go_to_the_features() {
        let mut r = Rig::new(|plane| InterfaceOutput::new(plane, 0));
        give(&mut r.interfaces, 6);
        let (plane, mut buffers) = (Arc::clone(&r.plane), r.buffers());
        r.read(|guard| {
            let mut node = InterfaceOutput::new(&plane, 0);
            let mut view = node.view(guard);
            let frames = |tx: [u32; 5]| tx.map(|tx| Desc { tx, len: 60, off: 128, ..Desc::default() });
            let mut taken = |tx, features, n| {
                let mut v = frames(tx);
                let (next, common) = InterfaceOutput::common(&view, &v[0], buffers.rooms(), guard).unwrap();
                assert_eq!((next, InterfaceOutput::features(&common)), (OutputNext::Features, features));
                assert_eq!(InterfaceOutput::quick(&common, &mut v, buffers.rooms()), n);
                v.map(|d| (d.tx, d.aux))
            };
            assert_eq!(taken([2, 3, 3, 2, 1], 6, 4), [(2, 2), (2, 3), (2, 3), (2, 2), (1, 0)]);
            assert_eq!(taken([1, 1, 1, 2, 1], 0, 3), [(1, 0), (1, 0), (1, 0), (2, 0), (1, 0)]);
            let mut kinds = [0; 5];
            InterfaceOutput::kinds(&mut view, &frames([2, 1, 3, 1, 9]), buffers.rooms(), &mut kinds);
            assert_eq!(kinds, [6, 0, 6, 0, 0]);
        });
    }
}
