//! `l2-xconnect`: frames of one interface go out of another, with the changes of tags that either has.

use crate::interface::RetagError;
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, flags, quick};
use std::sync::Arc;

graph::edges! {
    /// Where `l2-xconnect` sends frames.
    pub enum XconnectNext { Output => "@l2-output" }
}

graph::reasons! {
    /// Why `l2-xconnect` drops frames.
    pub enum XconnectDrop {
        /// The interface has no cross-connect any more.
        NoPeer => "no-cross-connect",
        /// The frame is too short to hold the tags to pop.
        TooShort => "too-short-for-tags",
        /// The frame has fewer tags than are to be taken away.
        NoTag => "cross-connect-no-tag-to-pop",
        /// There is no room in front of the frame for the tags to push.
        NoRoom => "no-room-for-tags",
    }
}

impl From<RetagError> for XconnectDrop {
    fn from(e: RetagError) -> Self {
        match e {
            RetagError::TooShort => XconnectDrop::TooShort,
            RetagError::NoTag => XconnectDrop::NoTag,
            RetagError::NoRoom => XconnectDrop::NoRoom,
        }
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
        rx.retag.enter(p).and_then(|()| tx.retag.leave(p)).map_err(XconnectDrop::from)?;
        (p.d.tx, p.d.feat) = (peer, tx.l2_output);
        p.d.flags &= !flags::L2_GROUP;
        Ok(XconnectNext::Output)
    }
}

/// The usual frames: from one interface, without tags to pop or push.
pub struct Common {
    rx: u32,
    tx: u32,
    features: u32,
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
        (rx.retag.is_none() && tx.retag.is_none())
            .then_some((XconnectNext::Output, Common { rx: first.rx, tx: peer, features: tx.l2_output }))
    }

    fn features(common: &Common) -> u32 {
        common.features
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
