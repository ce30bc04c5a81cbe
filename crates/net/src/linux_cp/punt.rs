//! `linux-cp-punt`: hands what is for the router itself to Linux, with the headers with which it came.

use super::{Pairs, ToLinux, find};
use crate::interface::{IfIndex, Tags, retag};
use crate::plane::Plane;
use crate::punt::linux::{FRAME, KEPT};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use packet::eth::{self, EtherType};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `linux-cp-punt` sends packets.
    pub enum PuntLinuxNext { Tap => "interface-output" }
}

graph::reasons! {
    /// What `linux-cp-punt` counts.
    pub enum PuntLinuxDrop {
        /// The pair of the interface went a moment ago.
        NoPair => "linux-cp-punt-no-pair",
        /// The packet is no IP packet, or the frame has not the tags of its interface.
        Malformed => "linux-cp-punt-malformed",
        /// There is no room in front of the packet for an Ethernet header.
        NoRoom => "linux-cp-punt-no-room",
        /// A packet was handed to Linux.
        Punted => "linux-cp-packets-punted" (info),
    }
}

/// The node.
pub struct LinuxCpPunt {
    pairs: Arc<Published<Pairs>>,
}

impl LinuxCpPunt {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        LinuxCpPunt { pairs: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct PuntLinuxView<'v> {
    pairs: &'v Pairs,
    last: IfIndex,
    to: Option<ToLinux>,
}

/// The EtherType of an IP packet.
fn type_of(packet: &[u8]) -> Option<[u8; 2]> {
    match packet.first().map(|b| b >> 4) {
        Some(4) => Some(EtherType::IPV4.0.to_be_bytes()),
        Some(6) => Some(EtherType::IPV6.0.to_be_bytes()),
        _ => None,
    }
}

/// Puts an Ethernet header in front of an IP packet.
fn put(p: &mut Packet<'_>, macs: [u8; 12]) -> Result<(), PuntLinuxDrop> {
    let Some(ethertype) = type_of(p.data()) else { return Err(PuntLinuxDrop::Malformed) };
    if !p.prepend(eth::HEADER_LEN) {
        return Err(PuntLinuxDrop::NoRoom);
    }
    let Some(header) = p.head_mut::<{ eth::HEADER_LEN }>() else { return Err(PuntLinuxDrop::Malformed) };
    header[..12].copy_from_slice(&macs);
    header[12..].copy_from_slice(&ethertype);
    Ok(())
}

/// Makes an IP packet the frame in which it came: but for labels, which were taken off, and tags with them.
fn frame_of(p: &mut Packet<'_>) -> Result<bool, PuntLinuxDrop> {
    let (l2, off) = (usize::from(p.d.l2), usize::from(p.d.off));
    let header = p.env.buffers.room(&p.d.buf).get(l2..off).unwrap_or_default();
    let (Some(macs), Some(kind)) = (header.first_chunk::<12>().copied(), header.last_chunk::<2>().copied())
    else {
        return Err(PuntLinuxDrop::Malformed);
    };
    // The last entry of a label stack ends in an odd byte and a TTL, which no EtherType of IP is.
    if header.len() >= eth::HEADER_LEN && Some(kind) == type_of(p.data()) {
        return if p.seek(l2 as u16) { Ok(true) } else { Err(PuntLinuxDrop::Malformed) };
    }
    put(p, macs).map(|()| false)
}

impl Node for LinuxCpPunt {
    const NAME: &'static str = "linux-cp-punt";
    type Next = PuntLinuxNext;
    type Drop = PuntLinuxDrop;
    type View<'v> = PuntLinuxView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> PuntLinuxView<'v> {
        PuntLinuxView { pairs: self.pairs.load(guard), last: IfIndex::MAX, to: None }
    }

    fn step(view: &mut PuntLinuxView<'_>, p: &mut Packet<'_>) -> Step<PuntLinuxNext, PuntLinuxDrop> {
        if p.d.rx != view.last {
            (view.last, view.to) = (p.d.rx, find(&view.pairs.to, p.d.rx));
        }
        let Some(to) = view.to else { return Err(PuntLinuxDrop::NoPair.into()) };
        let tagged = match to.packets {
            Some(mac) => {
                let mut macs = [0; 12];
                macs[..6].copy_from_slice(&mac);
                macs[6..].copy_from_slice(&mac);
                put(p, macs)?;
                false
            }
            None if p.d.aux == FRAME => {
                if !p.seek(p.d.l2) {
                    return Err(PuntLinuxDrop::Malformed.into());
                }
                true
            }
            None => frame_of(p)?,
        };
        if tagged && to.pop != 0 && retag::change(p, to.pop, &Tags::default(), false).is_err() {
            return Err(PuntLinuxDrop::Malformed.into());
        }
        p.d.flags &= KEPT;
        (p.d.l2, p.d.tx) = (p.d.off, to.tap);
        p.count(PuntLinuxDrop::Punted);
        Ok(PuntLinuxNext::Tap)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  interface {}", r.before.rx)
    }
}
