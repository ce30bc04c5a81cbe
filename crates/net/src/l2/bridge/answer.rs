//! `l2-arp-term`: answers ARP requests and neighbour solicitations for the entries of the bridge domain, so that they are not
//! flooded.

use crate::interface::{BridgePort, Interface, bflags, ifflags};
use crate::l2::bridge::{BridgeCache, Egress};
use crate::plane::{Bridge, IfCache, Plane};
use graph::buffer::ROOM;
use graph::counters::Table;
use graph::node::Step;
use graph::{Guard, Node, Packet, flags};
use packet::arp::{ArpMessage, ArpOp, ArpView};
use packet::eth::{EtherType, MacAddr};
use packet::ip6::Ip6View;
use packet::nd::{self, NdMessage};
use std::sync::Arc;
use tables::macs::MacReader;

graph::edges! {
    /// Where `l2-arp-term` sends frames.
    pub enum TermNext {
        Flood => "l2-flood",
        Output => "@l2-output",
        Bvi => "bvi-input",
    }
}

graph::reasons! {
    /// What `l2-arp-term` counts.
    pub enum TermReason {
        /// The interface is in no bridge domain any more.
        NoBridge => "l2-arp-term-no-bridge-domain",
        /// No entry holds the address, and the bridge domain or the interface does not flood.
        FloodOff => "l2-arp-term-flood-off",
        /// The entry's station is behind the interface on which the request came, or in its split-horizon group, or filtered.
        Refused => "l2-arp-term-refused",
        /// A request was answered.
        Answered => "l2-arp-term-answered" (info),
        /// A request was sent to its target alone.
        Unicast => "l2-arp-term-unicast" (info),
    }
}

/// The node.
pub struct L2ArpTerm {
    plane: Arc<Plane>,
    rx: Arc<Table>,
}

impl L2ArpTerm {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        L2ArpTerm { plane: Arc::clone(plane), rx: plane.counters.received.rx.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct TermView<'v> {
    rx: IfCache<'v>,
    tx: IfCache<'v>,
    bridge: BridgeCache<'v>,
    macs: MacReader<'v>,
    counts: &'v Table,
}

/// The frame that answers, and whom it asks for.
struct Answer {
    mac: [u8; 6],
    frame: [u8; 14 + nd::MAX_PACKET],
    len: usize,
}

fn find<K: Ord + Copy>(entries: &[(K, [u8; 6])], key: K) -> Option<[u8; 6]> {
    let at = entries.binary_search_by_key(&key, |e| e.0).ok()?;
    entries.get(at).map(|e| e.1)
}

/// The answer to a request for an entry; `None` for any other frame. What a station says of itself passes.
fn answer(frame: &[u8], bridge: &Bridge, bvi: Option<[u8; 6]>) -> Option<Answer> {
    let (head, rest) = frame.split_first_chunk::<14>()?;
    let mut out = [0; 14 + nd::MAX_PACKET];
    let ethertype = EtherType(u16::from_be_bytes([head[12], head[13]]));
    let (mac, len) = match ethertype {
        EtherType::ARP => {
            let arp = ArpView::parse(rest).ok()?;
            if arp.op() != ArpOp::Request || arp.is_gratuitous() {
                return None;
            }
            let mac = find(&bridge.arp4, u32::from(arp.target_ip()))?;
            let bytes = ArpMessage::reply_to(&arp, MacAddr(mac)).to_bytes();
            out[14..14 + bytes.len()].copy_from_slice(&bytes);
            (mac, bytes.len())
        }
        EtherType::IPV6 => {
            let ip = Ip6View::parse(rest).ok()?;
            let Ok(NdMessage::NeighborSolicitation(asked)) = NdMessage::parse(&ip) else { return None };
            let mac = find(&bridge.arp6, asked.target.to_bits())?;
            // Whether a station is a router is known of the router itself alone.
            let reply = nd::Advertisement {
                router: bvi == Some(mac),
                ..nd::Advertisement::answer(asked.target, MacAddr(mac), ip.src())
            };
            (mac, reply.emit(&mut out[14..]).ok()?)
        }
        _ => return None,
    };
    if head[6..12] == mac {
        return None;
    }
    out[..6].copy_from_slice(&head[6..12]);
    out[6..12].copy_from_slice(&mac);
    out[12..14].copy_from_slice(&head[12..14]);
    Some(Answer { mac, frame: out, len: 14 + len })
}

impl TermView<'_> {
    fn bvi_mac(&self, bridge: &Bridge) -> Option<[u8; 6]> {
        let all = self.rx.all();
        bridge.members.iter().filter_map(|m| all.get(m.interface)).find(|i| i.is(ifflags::BVI)).map(|i| i.mac)
    }

    /// Sends the answer where the request came from.
    fn send(&self, p: &mut Packet<'_>, a: &Answer, rx: &Interface, port: &BridgePort) -> Option<TermNext> {
        let at = usize::from(p.d.off);
        let room = p.env.buffers.room_mut(&p.d.buf).get_mut(at..(at + a.len).min(ROOM))?;
        if room.len() < a.len {
            return None;
        }
        room.copy_from_slice(&a.frame[..a.len]);
        p.d.len = (a.len as u16).max(p.d.len.min(60));
        p.count(TermReason::Answered);
        if port.bvi {
            super::to_bvi(p, p.d.rx, self.counts);
            return Some(TermNext::Bvi);
        }
        rx.retag.leave(p).ok()?;
        (p.d.tx, p.d.feat) = (p.d.rx, rx.l2_output);
        Some(TermNext::Output)
    }
}

impl Node for L2ArpTerm {
    const NAME: &'static str = "l2-arp-term";
    type Next = TermNext;
    type Drop = TermReason;
    type View<'v> = TermView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> TermView<'v> {
        let plane: &Plane = &self.plane;
        TermView {
            rx: IfCache::new(plane, guard),
            tx: IfCache::new(plane, guard),
            bridge: BridgeCache::new(plane, guard),
            macs: plane.l2.macs.reader(guard),
            counts: &self.rx,
        }
    }

    fn step(view: &mut TermView<'_>, p: &mut Packet<'_>) -> Step<TermNext, TermReason> {
        let Some(rx) = view.rx.get(p.d.rx) else { return Err(TermReason::NoBridge.into()) };
        let Some(port) = rx.bridge else { return Err(TermReason::NoBridge.into()) };
        let Some(bridge) = view.bridge.get(port.bridge) else { return Err(TermReason::NoBridge.into()) };
        let bvi = view.bvi_mac(bridge);
        let found = if p.has(flags::CHAINED) { None } else { answer(p.data(), bridge, bvi) };
        if let Some(a) = found {
            if port.is(bflags::ARP_UFWD) {
                p.data_mut()[..6].copy_from_slice(&a.mac);
                let entry = view.macs.find(port.bridge.key(a.mac));
                match super::towards(p, &port, entry, &mut view.tx, view.counts) {
                    Ok(Some(way)) => {
                        p.count(TermReason::Unicast);
                        return Ok(match way {
                            Egress::Output => TermNext::Output,
                            Egress::Bvi => TermNext::Bvi,
                        });
                    }
                    Ok(None) => {}
                    Err(_) => return Err(TermReason::Refused.into()),
                }
            } else if let Some(next) = view.send(p, &a, rx, &port) {
                return Ok(next);
            }
        }
        if port.is(bflags::FLOOD) { Ok(TermNext::Flood) } else { Err(TermReason::FloodOff.into()) }
    }
}
