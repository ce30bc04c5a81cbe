//! `interface-rx-dpo-l2`: a frame from below a label stack seems to come in on an interface.

use crate::interface::{comes_in, ifflags};
use crate::plane::{IfCache, Plane};
use graph::counters::Table;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::mpls::{CONTROL_WORD_LEN, ControlWord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `interface-rx-dpo-l2` sends frames.
    pub enum InterfaceRxL2Next { Ethernet => "@device-input" }
}

graph::reasons! {
    /// Why `interface-rx-dpo-l2` drops frames.
    pub enum InterfaceRxL2Drop {
        /// The interface does not exist any more.
        Gone => "pseudowire-interface-gone",
        /// The interface is administratively down.
        Down => "pseudowire-interface-down",
        /// The frame should have a control word, and what is there is none (RFC 4385).
        NoControlWord => "pseudowire-no-control-word",
    }
}

/// The node.
pub struct InterfaceRxL2 {
    plane: Arc<Plane>,
    received: Arc<Table>,
}

impl InterfaceRxL2 {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        InterfaceRxL2 { plane: Arc::clone(plane), received: plane.counters.received.rx.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct InterfaceRxL2View<'v> {
    ifs: IfCache<'v>,
    received: &'v Table,
}

impl Node for InterfaceRxL2 {
    const NAME: &'static str = "interface-rx-dpo-l2";
    type Next = InterfaceRxL2Next;
    type Drop = InterfaceRxL2Drop;
    type View<'v> = InterfaceRxL2View<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> InterfaceRxL2View<'v> {
        InterfaceRxL2View { ifs: IfCache::new(&self.plane, guard), received: &self.received }
    }

    /// `aux` is the interface; the packet begins behind its label stack.
    #[inline]
    fn step(
        view: &mut InterfaceRxL2View<'_>,
        p: &mut Packet<'_>,
    ) -> Step<InterfaceRxL2Next, InterfaceRxL2Drop> {
        let index = p.d.aux;
        let Some(i) = view.ifs.get(index) else { return Err(InterfaceRxL2Drop::Gone.into()) };
        if !i.is(ifflags::UP) {
            return Err(InterfaceRxL2Drop::Down.into());
        }
        if i.tunnel.is_some_and(|t| t.control_word) {
            let word = p.head::<CONTROL_WORD_LEN>().and_then(|w| ControlWord::from_bytes(*w));
            if word.is_none() || !p.advance(CONTROL_WORD_LEN) {
                return Err(InterfaceRxL2Drop::NoControlWord.into());
            }
        }
        comes_in(p.d, index, i.input);
        view.received.count(index, p.total_len());
        Ok(InterfaceRxL2Next::Ethernet)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Pseudowire;
    use crate::testing::{Input, Rig, hex};
    use graph::flags;
    use tables::groups::GroupId;

    // Behind the label: a control word, and a frame.
    const WORD: &str = "0fff1234";
    const FRAME: &str = "020000000002 020000000001 0800 45000014";

    fn rig() -> Rig {
        let mut r = Rig::new(|plane| InterfaceRxL2::new(plane, 0));
        let mut i = r.interfaces.get(2).unwrap().clone();
        i.tunnel = Some(Pseudowire { group: GroupId(7), control_word: true });
        r.interfaces.replace(2, i);
        r
    }

    #[test]
    fn frames_come_in_on_the_interface() {
        let mut r = rig();
        let a = r.one(Input::new(&hex(FRAME)).aux(3).flags(flags::L2_GROUP | flags::TRACED));
        assert_eq!((a.node, a.bytes, a.d.rx, a.d.l2), ("ethernet-input", hex(FRAME), 3, a.d.off));
        assert!(a.d.has(flags::TRACED) && !a.d.has(flags::L2_GROUP));
        let a = r.one(Input::new(&hex(&[WORD, FRAME].concat())).aux(2));
        assert_eq!((a.bytes, a.d.rx), (hex(FRAME), 2));
        assert_eq!(r.plane.counters.received.rx.of(0).get(2).unwrap().bytes.get(), 18);
    }

    #[test]
    fn frames_that_do_not() {
        let mut r = rig();
        assert_eq!(r.drops(Input::new(&hex(FRAME)).aux(99)), "pseudowire-interface-gone");
        for wrong in ["10000000", "45000000", "60", "000000"] {
            assert_eq!(r.drops(Input::new(&hex(wrong)).aux(2)), "pseudowire-no-control-word", "{wrong}");
        }
        let mut i = r.interfaces.get(2).unwrap().clone();
        i.flags &= !ifflags::UP;
        r.interfaces.replace(2, i);
        assert_eq!(r.drops(Input::new(&hex(&[WORD, FRAME].concat())).aux(2)), "pseudowire-interface-down");
    }
}
