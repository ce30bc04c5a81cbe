//! Packets that programs have asked for, as workers see it: which, and into whose queue they go.

use super::Punt;
use crate::interface::IfIndex;
use packet::IpProtocol;
use packet::eth::EtherType;

/// A kind of packets that a program may ask for, as a number that stands in a descriptor's scratch word on the way to
/// `program-punt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked(u32);

const FRAME: u32 = 0;
const PROTOCOL: u32 = 1 << 17;
const UDP: u32 = 1 << 18;
const TCP: u32 = 1 << 19;
const V6: u32 = 1 << 16;

impl Asked {
    /// Frames of an EtherType.
    pub const fn frame(ethertype: EtherType) -> Asked {
        Asked(FRAME | ethertype.0 as u32)
    }

    /// Packets to the router of a protocol above IP.
    pub const fn protocol(v6: bool, protocol: IpProtocol) -> Asked {
        Asked(PROTOCOL | if v6 { V6 } else { 0 } | protocol.0 as u32)
    }

    /// Datagrams to a UDP port.
    pub const fn udp(v6: bool, port: u16) -> Asked {
        Asked(UDP | if v6 { V6 } else { 0 } | port as u32)
    }

    /// Segments to a TCP port.
    pub const fn tcp(v6: bool, port: u16) -> Asked {
        Asked(TCP | if v6 { V6 } else { 0 } | port as u32)
    }

    /// As it stands in a scratch word.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// What stands in a scratch word.
    pub const fn of_word(word: u32) -> Asked {
        Asked(word)
    }

    /// Whether these are frames, whatever is in them.
    pub const fn is_frame(self) -> bool {
        self.0 < PROTOCOL
    }
}

/// In the place of an interface: any.
const ANY: IfIndex = IfIndex::MAX;

/// All that is asked for.
#[derive(Clone, Default)]
pub struct Programs {
    /// By kind and interface, sorted, with the place of the queue.
    asked: Box<[(Asked, IfIndex, usize)]>,
    queues: Box<[Punt]>,
}

impl Programs {
    /// Of queues, with what each gets on which interfaces.
    pub fn new<'q>(all: impl Iterator<Item = (&'q Punt, &'q [(Asked, Option<IfIndex>)])>) -> Programs {
        let (mut asked, mut queues) = (vec![], vec![]);
        for (queue, wanted) in all {
            asked.extend(wanted.iter().map(|(what, on)| (*what, on.unwrap_or(ANY), queues.len())));
            queues.push(queue.clone());
        }
        asked.sort_unstable();
        Programs { asked: asked.into(), queues: queues.into() }
    }

    /// Who gets such a packet that came on an interface.
    #[inline]
    pub fn queue(&self, what: Asked, rx: IfIndex) -> Option<&Punt> {
        if self.asked.is_empty() {
            return None;
        }
        self.find(what, rx)
    }

    #[cold]
    fn find(&self, what: Asked, rx: IfIndex) -> Option<&Punt> {
        let at = |on| self.asked.binary_search_by_key(&(what, on), |(what, on, _)| (*what, *on)).ok();
        let (_, _, queue) = self.asked.get(at(rx).or_else(|| at(ANY))?)?;
        self.queues.get(*queue)
    }

    /// What the packet with its upper-layer header at `at` is that came on an interface, where a program gets it.
    #[inline]
    pub fn of_packet(
        &self,
        v6: bool,
        protocol: IpProtocol,
        packet: &[u8],
        at: usize,
        rx: IfIndex,
    ) -> Option<Asked> {
        if self.asked.is_empty() {
            return None;
        }
        let port = || packet.get(at + 2..).and_then(|p| p.first_chunk()).map(|p| u16::from_be_bytes(*p));
        let what = match protocol {
            IpProtocol::UDP => Asked::udp(v6, port()?),
            IpProtocol::TCP => Asked::tcp(v6, port()?),
            other => Asked::protocol(v6, other),
        };
        self.find(what, rx).map(|_| what)
    }

    /// Whether a program may get a fragment of a protocol: not each tells the port.
    #[inline]
    pub fn may_take(&self, v6: bool, protocol: IpProtocol) -> bool {
        let (first, last) = match protocol {
            IpProtocol::UDP => (Asked::udp(v6, 0), Asked::udp(v6, u16::MAX)),
            IpProtocol::TCP => (Asked::tcp(v6, 0), Asked::tcp(v6, u16::MAX)),
            other => (Asked::protocol(v6, other), Asked::protocol(v6, other)),
        };
        let from = self.asked.partition_point(|a| a.0 < first);
        self.asked.get(from).is_some_and(|a| a.0 <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_an_interface_goes_before_that_of_any() {
        let queues = [Punt::new().unwrap(), Punt::new().unwrap()];
        let (udp, gre) = (Asked::udp(false, 7), Asked::protocol(true, IpProtocol(47)));
        let wanted: [&[_]; 2] = [&[(udp, Some(3)), (gre, Some(3))], &[(udp, None)]];
        let p = Programs::new(queues.iter().zip(wanted));
        let tell = |what, rx| {
            let queue: &Punt = p.queue(what, rx)?;
            queue.packet(super::super::PuntKind::Program, rx, 0, std::iter::empty());
            queues.iter().position(|q| q.pop().is_some())
        };
        assert_eq!(
            (tell(udp, 3), tell(udp, 4), tell(gre, 3), tell(gre, 4)),
            (Some(0), Some(1), Some(0), None)
        );
        let packet = [9, 9, 0, 7];
        for (v6, protocol, want) in [
            (false, IpProtocol::UDP, Some(udp)),
            (true, IpProtocol::UDP, None),
            (false, IpProtocol::TCP, None),
            (true, IpProtocol(47), Some(gre)),
            (false, IpProtocol(47), None),
        ] {
            assert_eq!(p.of_packet(v6, protocol, &packet, 0, 3), want, "{protocol:?}");
            assert_eq!(p.may_take(v6, protocol), want.is_some(), "{protocol:?}");
        }
        assert_eq!(p.of_packet(false, IpProtocol::UDP, &packet[..3], 0, 3), None, "cut off");
        let none = Programs::default();
        assert!(none.queue(udp, 3).is_none() && !none.may_take(false, IpProtocol::UDP));
    }

    #[test]
    fn kinds_are_numbers() {
        let all = [
            Asked::frame(EtherType(0xffff)),
            Asked::protocol(false, IpProtocol(255)),
            Asked::protocol(true, IpProtocol(255)),
            Asked::udp(false, u16::MAX),
            Asked::udp(true, 0),
            Asked::udp(true, u16::MAX),
            Asked::tcp(false, 0),
        ];
        assert!(all.is_sorted() && all.iter().all(|a| Asked::of_word(a.word()) == *a));
        assert!(all[0].is_frame() && !all[1..].iter().any(|a| a.is_frame()));
    }
}
