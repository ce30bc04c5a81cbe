//! `l2-xconnect`: frames of one interface go out of another; a sub-interface's tags are popped on the way in and the
//! other's pushed on the way out.

use crate::interface::IfCache;
use crate::plane::Plane;
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, flags, quick};
use std::sync::Arc;

graph::edges! {
    /// Where `l2-xconnect` sends frames.
    pub enum XconnectNext { Output => "interface-output" }
}

graph::reasons! {
    /// Why `l2-xconnect` drops frames.
    pub enum XconnectDrop {
        /// The interface has no cross-connect any more.
        NoPeer => "no-cross-connect",
        /// The frame is too short to hold the tags to pop.
        TooShort => "too-short-for-tags",
        /// There is no room in front of the frame for the tags to push.
        NoRoom => "no-room-for-tags",
    }
}

/// The node.
pub struct L2Xconnect {
    plane: Arc<Plane>,
}

impl L2Xconnect {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        L2Xconnect { plane: Arc::clone(plane) }
    }
}

/// Snapshot of one vector.
pub struct XconnectView<'v> {
    rx: IfCache<'v>,
    tx: IfCache<'v>,
}

impl Node for L2Xconnect {
    const NAME: &'static str = "l2-xconnect";
    type Next = XconnectNext;
    type Drop = XconnectDrop;
    type View<'v> = XconnectView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> XconnectView<'v> {
        XconnectView { rx: IfCache::new(&self.plane, guard), tx: IfCache::new(&self.plane, guard) }
    }

    #[inline]
    fn step(view: &mut XconnectView<'_>, p: &mut Packet<'_>) -> Step<XconnectNext, XconnectDrop> {
        let Some(rx) = view.rx.get(p.d.rx) else { return Err(XconnectDrop::NoPeer.into()) };
        let Some(peer) = rx.xconnect else { return Err(XconnectDrop::NoPeer.into()) };
        let Some(tx) = view.tx.get(peer) else { return Err(XconnectDrop::NoPeer.into()) };
        let (pop, push) = (usize::from(rx.tags.count) * 4, tx.tags.as_slice());
        if pop != 0 || !push.is_empty() {
            let Some(&macs) = p.head::<12>() else { return Err(XconnectDrop::TooShort.into()) };
            if p.data().len() < 14 + pop || !p.advance(12 + pop) {
                return Err(XconnectDrop::TooShort.into());
            }
            if !p.prepend(12 + push.len()) {
                return Err(XconnectDrop::NoRoom.into());
            }
            let data = p.data_mut();
            data[..12].copy_from_slice(&macs);
            data[12..12 + push.len()].copy_from_slice(push);
            p.d.l2 = p.d.off;
        }
        p.d.tx = peer;
        p.d.flags &= !flags::L2_GROUP;
        Ok(XconnectNext::Output)
    }
}

/// The usual frames: from one interface, without tags to pop or push.
pub struct Common {
    rx: u32,
    tx: u32,
}

impl QuickNode for L2Xconnect {
    type Common<'v> = Common;

    fn common<'v>(
        view: &XconnectView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(XconnectNext, Common)> {
        let rx = view.rx.peek(first.rx)?;
        let peer = rx.xconnect?;
        let tx = view.tx.peek(peer)?;
        (rx.tags.count == 0 && tx.tags.count == 0)
            .then_some((XconnectNext::Output, Common { rx: first.rx, tx: peer }))
    }

    fn quick(common: &Common, descs: &mut [Desc], _rooms: Rooms<'_>) -> usize {
        let (rx, tx) = (common.rx, common.tx);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let good = d.rx == rx;
            if good {
                d.tx = tx;
            }
            good
        })
    }
}
