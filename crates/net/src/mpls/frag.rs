//! `mpls-frag`: labelled packets that exceed the MTU. An IPv4 packet without "don't fragment" is cut into fragments below its
//! labels, each with the whole stack (RFC 3032 section 3.4); about others an error is sent.

use crate::icmp::MplsAsk;
use crate::icmp::along::{self, MOST_BYTES};
use crate::ip4::frag::{Ip4FragReason, Work};
use crate::mpls::error::MOST;
use crate::plane::Plane;
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, TraceRecord, flags};
use packet::ip4::{self, Ip4Header};
use packet::mpls::{Payload, StackView};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `mpls-frag` sends packets.
    pub enum MplsFragNext {
        Output => "mpls-output",
        Error => "mpls-icmp-error",
    }
}

/// The node.
pub struct MplsFrag {
    plane: Arc<Plane>,
    work: Work,
}

impl MplsFrag {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MplsFrag { plane: Arc::clone(plane), work: Work::new() }
    }
}

/// Snapshot of one vector.
pub struct MplsFragView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    work: &'v mut Work,
}

/// Bytes of the labels above an IPv4 packet that may be fragmented, and of the packet. Nothing says that it is one
/// (RFC 4928): its header must be right in all.
fn fragmentable(p: &Packet<'_>) -> Option<(usize, usize)> {
    let stack = StackView::parse(p.data(), MOST).ok().filter(|_| !p.has(flags::GSO))?;
    let labels = stack.as_bytes().len();
    if labels > MOST_BYTES || Payload::guess(stack.payload()) != Payload::Ip4 {
        return None;
    }
    let header = Ip4Header(ip4::check(stack.payload(), p.total_len() - labels).ok()?);
    (!header.dont_fragment()).then(|| (labels, header.total_len().into()))
}

impl Node for MplsFrag {
    const NAME: &'static str = "mpls-frag";
    type Next = MplsFragNext;
    type Drop = Ip4FragReason;
    type View<'v> = MplsFragView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> MplsFragView<'v> {
        MplsFragView { plane: &self.plane, guard, work: &mut self.work }
    }

    /// `aux` is the adjacency.
    fn step(view: &mut MplsFragView<'_>, p: &mut Packet<'_>) -> Step<MplsFragNext, Ip4FragReason> {
        let Some(a) = view.plane.adjacencies.get(p.d.aux, view.guard) else {
            return Err(Ip4FragReason::Gone.into());
        };
        let mtu = usize::from(a.mtu);
        let Some((labels, total)) = fragmentable(p) else {
            p.d.tx = p.d.aux;
            p.d.aux = MplsAsk::too_big(a.mtu).word();
            return Ok(MplsFragNext::Error);
        };
        let mut stack = [0; MOST_BYTES];
        let stack = &mut stack[..labels];
        stack.copy_from_slice(&p.data()[..labels]);
        let _ = p.advance(labels);
        p.trim(total);
        view.work.cut(p, mtu.saturating_sub(labels))?;
        p.count(Ip4FragReason::Packets);
        p.env.count_n(Ip4FragReason::Fragments, view.work.made.len() as u64);
        for mut d in view.work.made.drain(..) {
            if along::put(&mut Packet { d: &mut d, env: p.env }, stack) {
                p.env.forward(d, MplsFragNext::Output);
            } else {
                p.env.drop(d, Ip4FragReason::NoBuffers);
            }
        }
        p.free();
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::stack(r.bytes(), f)
    }
}
