//! All that there is of a kind, piece by piece, as a follower takes it. A piece is made at once, and so is told in order with
//! what happens.

use super::SharedRouter;
use super::queue::{Kinds, Queue, Room};
use super::what::{Change, Kind, LinkEvent, NeighborEvent, What};
use net::router::Router;
use std::net::IpAddr;

/// Interfaces and neighbours that are looked at for a piece: well below a millisecond.
const PIECE: usize = 256;

/// A kind, and how far it is told.
enum Telling {
    /// Interfaces from this number on.
    Links(u32),
    /// Neighbours behind this one.
    Neighbors(Option<(u32, IpAddr)>),
}

impl Telling {
    fn begin(kind: Kind) -> Option<Telling> {
        match kind {
            Kind::Link => Some(Telling::Links(0)),
            Kind::Neighbor => Some(Telling::Neighbors(None)),
            _ => None,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Telling::Links(_) => Kind::Link,
            Telling::Neighbors(_) => Kind::Neighbor,
        }
    }

    /// Tells a piece; false behind the last.
    fn piece(&mut self, router: &Router, queue: &Queue) -> bool {
        let mut seen = 0;
        match self {
            Telling::Links(from) => {
                for index in router.numbers_from(*from).take(PIECE) {
                    (seen, *from) = (seen + 1, index + 1);
                    if let Some(i) = router.interface(index).filter(|i| queue.wanted.takes(&i.name)) {
                        let link = router.link_state(i);
                        queue.tell(What::Link(LinkEvent { change: Change::There, link, was: None }));
                    }
                }
            }
            Telling::Neighbors(after) => {
                for n in router.neighbors_after(*after).take(PIECE) {
                    (seen, *after) = (seen + 1, Some((n.interface, n.addr)));
                    let interface = router.interface_name(n.interface);
                    let Some(mac) = n.mac.filter(|_| queue.wanted.takes(&interface)) else { continue };
                    queue.tell(What::Neighbor(NeighborEvent {
                        change: Change::There,
                        interface,
                        index: n.interface,
                        address: n.addr,
                        mac,
                        fixed: n.state == net::neighbor::State::Static,
                        was: None,
                    }));
                }
            }
        }
        seen == PIECE
    }
}

/// Tells a follower all that there is of the kinds that it wants, at first and behind each gap, until it follows no more.
pub(super) async fn keep(router: &SharedRouter, queue: &Queue) {
    let (mut left, mut now): (Kinds, Option<Telling>) = (Kinds::default(), None);
    loop {
        let anew = match queue.room() {
            Room::Closed => return,
            Room::None => {
                queue.wait_for_room().await;
                continue;
            }
            Room::Some(anew) => anew,
        };
        left.add(anew);
        // What is being told and was lost in part begins anew.
        now = now.filter(|n| !anew.has(n.kind())).or_else(|| left.take_first().and_then(Telling::begin));
        let Some(telling) = &mut now else {
            queue.wait_for_room().await;
            continue;
        };
        if !telling.piece(&router.borrow(), queue) {
            queue.tell(What::SnapshotEnd(telling.kind()));
            now = None;
        }
        tokio::task::yield_now().await;
    }
}
