//! `program-punt`: hands packets to the programs that have asked for them.

use crate::plane::Plane;
use crate::punt::{Asked, Programs, PuntKind};
use graph::node::{Exit, Never, Step};
use graph::{Guard, Node, Packet, Published, TraceRecord, flags};
use packet::eth::{self, EtherType};
use std::fmt;
use std::sync::Arc;

graph::reasons! {
    /// What `program-punt` counts.
    pub enum ProgramReason {
        /// A packet was handed to a program.
        Handed => "program-packets-punted" (info),
        /// The program has not taken the packets that came before.
        Slow => "program-behind",
        /// The program went a moment ago.
        Gone => "program-gone",
    }
}

/// The node.
pub struct ProgramPunt {
    programs: Arc<Published<Programs>>,
}

impl ProgramPunt {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        ProgramPunt { programs: plane.publish() }
    }
}

/// Where the Ethernet header of a packet stands, if it is there still: labels were taken off, and tags with them.
fn ethernet(p: &Packet<'_>, frame: bool) -> Option<u16> {
    let (l2, off) = (p.d.l2, p.d.off);
    let header = p.env.buffers.room(&p.d.buf).get(usize::from(l2)..usize::from(off))?;
    let kind = EtherType(u16::from_be_bytes(*header.last_chunk::<2>()?));
    let fits = match p.data().first().map(|b| b >> 4) {
        _ if frame => true,
        Some(4) => kind == EtherType::IPV4,
        Some(6) => kind == EtherType::IPV6,
        _ => false,
    };
    (fits && header.len() >= eth::HEADER_LEN).then_some(l2)
}

impl Node for ProgramPunt {
    const NAME: &'static str = "program-punt";
    type Next = Never;
    type Drop = ProgramReason;
    type View<'v> = &'v Programs;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> &'v Programs {
        self.programs.load(guard)
    }

    fn step(programs: &mut &Programs, p: &mut Packet<'_>) -> Step<Never, ProgramReason> {
        let asked = Asked::of_word(p.d.aux);
        let Some(queue) = programs.queue(asked, p.d.rx) else { return Err(ProgramReason::Gone.into()) };
        if p.has(flags::CSUM_PARTIAL) {
            crate::offload::complete(&mut p.env.buffers, p.d);
        }
        let network = p.d.off;
        if let Some(l2) = ethernet(p, asked.is_frame())
            && !p.seek(l2)
        {
            return Err(ProgramReason::Gone.into());
        }
        let l3 = network - p.d.off;
        if !queue.packet(PuntKind::Program, p.d.rx, l3, p.env.buffers.parts(p.d)) {
            return Err(ProgramReason::Slow.into());
        }
        p.count(ProgramReason::Handed);
        p.free();
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  interface {}", r.before.rx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::punt::{Message, Punt, Punted};
    use crate::testing::{Input, Rig};
    use packet::IpProtocol;

    const FRAME: Asked = Asked::frame(EtherType::LLDP);
    const UDP: Asked = Asked::udp(false, 7);

    fn rig() -> (Rig, Punt) {
        let mut r = Rig::new(ProgramPunt::new);
        let queue = Punt::new().unwrap();
        let wanted = [(FRAME, None), (UDP, Some(1))];
        r.change(|p: &mut Programs| *p = Programs::new([(&queue, &wanted[..])].into_iter()));
        (r, queue)
    }

    fn next(queue: &Punt) -> Option<Punted> {
        match queue.pop()? {
            Message::Packet(p) => Some(p),
            m @ Message::Request(_) => panic!("{m:?}"),
        }
    }

    fn input(asked: Asked, l2: &[u8], bytes: &[u8]) -> Input {
        let mut input = Input::new(bytes).aux(asked.word()).rx(1);
        input.l2 = l2.to_vec();
        input
    }

    #[test]
    fn packets_come_with_the_header_with_which_they_came() {
        let (mut r, queue) = rig();
        let link = |kind: [u8; 2]| [&[7; 12][..], &kind].concat();
        let (ip4, lldp, labels) = (link([8, 0]), link([0x88, 0xcc]), link([0x88, 0x47]));
        let packet = [&[0x45][..], &[9; 60]].concat();
        for (asked, l2, l3) in [
            (UDP, &ip4[..], 14),
            (UDP, &[], 0),
            // Labels stood between them, which were taken off.
            (UDP, &labels, 0),
            (FRAME, &lldp, 14),
        ] {
            for split in [None, Some(20)] {
                assert!(r.run(&[Input { split, ..input(asked, l2, &packet) }]).is_empty());
                let p = next(&queue).unwrap();
                let front = if l3 == 0 { &[][..] } else { l2 };
                assert_eq!((p.bytes, p.l3, p.interface), ([front, &packet].concat(), l3, 1));
            }
        }
        assert_eq!((r.count("program-packets-punted"), r.in_use()), (8, 0));
    }

    #[test]
    fn checksums_are_complete() {
        let (mut r, queue) = rig();
        let packet = [&[0x45][..], &[3; 59]].concat();
        let partial = Some((20, 6));
        let flags = flags::CSUM_PARTIAL;
        assert!(r.run(&[Input { partial, ..input(UDP, &[], &packet).flags(flags) }]).is_empty());
        let sum = packet::checksum::checksum(&packet[20..]);
        assert_eq!(next(&queue).unwrap().bytes[26..28], sum.to_be_bytes());
    }

    #[test]
    fn who_is_behind_or_gone_gets_nothing() {
        let (mut r, queue) = rig();
        let packet = [0x45; 40];
        let gone = Asked::protocol(false, IpProtocol::OSPF);
        assert_eq!(r.drops(input(gone, &[], &packet)), "program-gone");
        assert_eq!(r.drops(input(UDP, &[], &packet).rx(2)), "program-gone", "of another interface");
        while queue.packet(PuntKind::Program, 1, 0, std::iter::empty()) {}
        let lost = queue.lost();
        assert_eq!(r.drops(input(UDP, &[], &packet)), "program-behind");
        assert_eq!(queue.lost(), lost + 1);
    }
}
