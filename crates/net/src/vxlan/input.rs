//! `vxlan4-input` and `vxlan6-input`: frames that come out of VXLAN tunnels.

use super::part::Vxlan;
use super::{header, part};
use crate::plane::Plane;
use crate::tunnel::{Arrivals, ArrivalsView, Common, Fault, Inside, Over, Over4, Over6};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord};
use packet::eth::EtherType;
use packet::udp;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `vxlan4-input` and `vxlan6-input` send frames.
    pub enum VxlanNext {
        Frames => "@device-input",
        Bridged => "@l2-input",
    }
}

graph::reasons! {
    /// Why `vxlan4-input` and `vxlan6-input` drop packets.
    pub enum VxlanDrop {
        /// The datagram ends within its header.
        TooShort => "vxlan-too-short",
        /// The header has no network identifier (RFC 7348 section 5).
        NoIdentifier => "vxlan-no-identifier",
        /// No tunnel has these ends, this port and this network identifier.
        NoTunnel => "vxlan-no-tunnel",
        /// A checksum inside cannot be completed.
        Checksum => "vxlan-bad-checksum",
        /// A super-frame whose segments are not those of the frame inside.
        SuperFrame => "vxlan-super-frame",
        /// The tunnel's interface is administratively down.
        Down => "vxlan-tunnel-down",
        /// Somebody on the way marked a packet as having met congestion whose sender does not know of it (RFC 6040 section 4.2).
        Congestion => "vxlan-congestion-not-ect",
    }
}

impl From<Fault> for VxlanDrop {
    fn from(f: Fault) -> Self {
        match f {
            Fault::TooShort => VxlanDrop::TooShort,
            Fault::Checksum => VxlanDrop::Checksum,
            Fault::SuperFrame => VxlanDrop::SuperFrame,
            Fault::Down => VxlanDrop::Down,
            Fault::Congestion => VxlanDrop::Congestion,
        }
    }
}

/// Bytes of the headers behind that of IP.
const HEADERS: usize = udp::HEADER_LEN + header::LEN;

/// What differs by the family outside.
pub trait VxlanOver: Over {
    /// Name of the node.
    const NAME: &'static str;
}

impl VxlanOver for Over4 {
    const NAME: &'static str = "vxlan4-input";
}

impl VxlanOver for Over6 {
    const NAME: &'static str = "vxlan6-input";
}

/// The node.
pub struct VxlanInput<O>(Arrivals<O, Vxlan>);

impl<O: VxlanOver> VxlanInput<O> {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        VxlanInput(Arrivals::new(plane, worker))
    }
}

/// The destination port, the length, and the header, of a datagram.
#[inline]
fn read(datagram: &[u8]) -> Option<(u16, usize, &[u8; header::LEN])> {
    let [_, _, a, b, c, d, ..] = *datagram else { return None };
    let h = datagram.get(udp::HEADER_LEN..)?.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]).into(), h))
}

impl<O: VxlanOver> Node for VxlanInput<O> {
    const NAME: &'static str = O::NAME;
    type Next = VxlanNext;
    type Drop = VxlanDrop;
    type View<'v> = ArrivalsView<'v, O, Vxlan>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> ArrivalsView<'v, O, Vxlan> {
        self.0.view(guard)
    }

    /// The packet begins with its IP header, and `aux` is how long all headers before that of UDP are, which was checked.
    #[inline]
    fn step(view: &mut ArrivalsView<'_, O, Vxlan>, p: &mut Packet<'_>) -> Step<VxlanNext, VxlanDrop> {
        let at = p.d.aux as usize;
        let Some((port, len, h)) = read(p.data().get(at..).unwrap_or_default()) else {
            return Err(VxlanDrop::TooShort.into());
        };
        let Some(vni) = header::parse(h) else { return Err(VxlanDrop::NoIdentifier.into()) };
        let Some((tunnel, class)) = view.find(p, Some(part::id(vni, port))) else {
            return Err(VxlanDrop::NoTunnel.into());
        };
        let whole = ArrivalsView::<O, Vxlan>::finish(p, at + HEADERS).map_err(VxlanDrop::from)?;
        if !whole && p.total_len() > at + len {
            p.trim(at + len);
        }
        view.take(p, tunnel, at + HEADERS, (EtherType::TRANSPARENT_ETHERNET, class))
            .map_err(VxlanDrop::from)?;
        Ok(VxlanNext::Frames)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

impl<O: VxlanOver> QuickNode for VxlanInput<O> {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &ArrivalsView<'v, O, Vxlan>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(VxlanNext, Common<'v>)> {
        let w = rooms.window::<0>(first)?;
        let (port, _, h) = read(&w[O::HEADER_LEN..])?;
        let id = part::id(header::parse(h)?, port);
        // The port, and what says the network.
        let masks = [0xffff << 32, 0x0800_0000_ffff_ff00];
        let what = (Some(id), EtherType::TRANSPARENT_ETHERNET);
        let (_, common) = view.common(first, w, what, masks, HEADERS, guard)?;
        let next =
            if let Inside::Bridged(_) = common.inside() { VxlanNext::Bridged } else { VxlanNext::Frames };
        Some((next, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn behind(common: &mut Common<'_>, edge: VxlanNext, _: &Desc) -> Option<VxlanNext> {
        let Inside::Bridged(_) = common.inside() else { return None };
        common.follow();
        Some(edge)
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        common.quick::<O>(descs, rooms, |udp, len| (udp >> 16) as u16 == len)
    }
}
