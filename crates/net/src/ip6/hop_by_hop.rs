//! `ip6-hop-by-hop`: packets with a hop-by-hop options header (RFC 8200 section 4.3).
//!
//! The router knows padding and router alert; it takes no note of an alert, but lets it pass. An option that it does not
//! know, jumbo payload among them, is treated as the two highest bits of its type demand.

use super::options::{self, Fault};
use crate::icmp::Ask;
use crate::plane::Plane;
use crate::punt::Class;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip6::ext::OPTION_ROUTER_ALERT;
use packet::ip6::{HEADER_LEN, Ip6Header, addr};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-hop-by-hop` sends packets.
    pub enum Ip6HopByHopNext {
        Features => "@ip6-unicast",
        Local => "ip6-local",
        Error => "ip6-icmp-error",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip6-hop-by-hop` counts.
    pub enum Ip6HopByHopReason {
        /// The packet ends before its hop-by-hop header.
        TooShort => "ip6-hop-by-hop-too-short",
        /// The header or the number of its options is beyond what a router need take (RFC 8504 section 5.3).
        TooLong => "ip6-hop-by-hop-too-long",
        /// An unknown option whose type says "discard".
        Discard => "ip6-hop-by-hop-option-discard",
        /// A header or option reaches beyond its place; the sender is told "erroneous header field".
        Malformed => "ip6-hop-by-hop-malformed" (info),
        /// An unknown option whose type says "discard and report"; the sender is told "unrecognized option".
        Unknown => "ip6-hop-by-hop-option-unknown" (info),
    }
}

/// Bytes of the longest header that is taken.
const MAX_BYTES: usize = 256;

/// The node.
pub struct Ip6HopByHop {
    plane: Arc<Plane>,
}

impl Ip6HopByHop {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6HopByHop { plane: Arc::clone(plane) }
    }
}

/// What is wrong with a packet: dropped in silence, or reported.
enum Refused {
    Silently(Ip6HopByHopReason),
    Report(Ip6HopByHopReason, Ask),
}

impl From<Fault> for Refused {
    fn from(f: Fault) -> Self {
        let why = match f {
            Fault::TooMany => Ip6HopByHopReason::TooLong,
            Fault::Discard => Ip6HopByHopReason::Discard,
            Fault::Malformed(_) => Ip6HopByHopReason::Malformed,
            Fault::Unknown(_) => Ip6HopByHopReason::Unknown,
        };
        f.ask().map_or(Refused::Silently(why), |ask| Refused::Report(why, ask))
    }
}

/// Checks a packet of `total` bytes of which `data` are at hand.
fn check(data: &[u8], total: usize) -> Result<(), Refused> {
    let (Some(fixed), Some(&units)) = (data.first_chunk::<HEADER_LEN>(), data.get(HEADER_LEN + 1)) else {
        return Err(Refused::Silently(Ip6HopByHopReason::TooShort));
    };
    let end = HEADER_LEN + (usize::from(units) + 1) * 8;
    if end > total {
        return Err(Fault::Malformed(HEADER_LEN + 1).into());
    }
    if end - HEADER_LEN > MAX_BYTES || end > data.len() {
        return Err(Refused::Silently(Ip6HopByHopReason::TooLong));
    }
    let multicast = addr::is_multicast(Ip6Header(fixed).dst_u128());
    options::check(data, HEADER_LEN..end, multicast, |option| match option.kind {
        // RFC 2711 section 2.1.
        OPTION_ROUTER_ALERT if option.data.len() != 2 => Err(Fault::Malformed(option.offset + 1)),
        kind => Ok(kind == OPTION_ROUTER_ALERT),
    })?;
    Ok(())
}

fn is_group(p: &Packet<'_>) -> bool {
    p.head::<HEADER_LEN>().is_some_and(|h| addr::is_multicast(Ip6Header(h).dst_u128()))
}

impl Node for Ip6HopByHop {
    const NAME: &'static str = "ip6-hop-by-hop";
    type Next = Ip6HopByHopNext;
    type Drop = Ip6HopByHopReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<Ip6HopByHopNext, Ip6HopByHopReason> {
        if !plane.admits(p, Class::Options) {
            return Ok(Ip6HopByHopNext::Policed);
        }
        match check(p.data(), p.total_len()) {
            // `ip6-input` lets only groups pass that the router listens to.
            Ok(()) if is_group(p) => Ok(Ip6HopByHopNext::Local),
            Ok(()) => Ok(Ip6HopByHopNext::Features),
            Err(Refused::Silently(why)) => Err(why.into()),
            Err(Refused::Report(why, ask)) => {
                p.count(why);
                p.d.aux = ask.word();
                Ok(Ip6HopByHopNext::Error)
            }
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};

    /// An IPv6 packet whose hop-by-hop header holds `options`, padded to its length.
    fn packet(options: &[u8]) -> Vec<u8> {
        let len = (options.len() + 2).next_multiple_of(8);
        let mut p = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        p[4..6].copy_from_slice(&(len as u16 + 8).to_be_bytes());
        p.extend([0x20; 32]);
        p.extend([17, (len / 8 - 1) as u8]);
        p.extend_from_slice(options);
        p.resize(40 + len, 0);
        p.extend([0x55; 8]);
        p
    }

    fn rig() -> Rig {
        Rig::new(Ip6HopByHop::new)
    }

    #[test]
    fn what_passes_unchanged() {
        let mut r = rig();
        for options in [
            &[1, 4, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 0, 0],
            &[5, 2, 0, 0],
            &[0x1e, 3, 1, 2, 3],
            &[0x3e, 0].repeat(8),
            &[0; 254],
        ] {
            let a = r.one(Input::new(&packet(options)).aux(77));
            assert_eq!((a.node, a.bytes, a.d.aux), ("ip6-lookup", packet(options), 77), "{options:?}");
        }
    }

    #[test]
    fn packets_to_a_group_are_for_the_router() {
        let mut many = packet(&[5, 2, 0, 0]);
        many[24] = 0xff;
        assert_eq!(rig().one(Input::new(&many)).node, "ip6-local");
    }

    #[test]
    fn what_is_reported() {
        let mut r = rig();
        let mut reported = |p: &[u8], code, pointer, reason: &str| {
            let before = r.count(reason);
            let a = r.one(Input::new(p));
            assert_eq!((a.node, &a.bytes[..]), ("ip6-icmp-error", p));
            assert_eq!(Ask::from_word(a.d.aux), Ask::v6_parameter_problem(code, pointer));
            assert_eq!(r.count(reason), before + 1);
        };
        let (malformed, unknown) = ("ip6-hop-by-hop-malformed", "ip6-hop-by-hop-option-unknown");
        reported(&packet(&[0x1e, 5, 0, 0, 0, 0]), 0, 43, malformed);
        reported(&packet(&[0, 0, 0, 0, 0, 5]), 0, 47, malformed);
        reported(&packet(&[5, 4, 0, 0, 0, 0]), 0, 43, malformed);
        reported(&packet(&[0, 5, 0]), 0, 44, malformed);
        reported(&packet(&[1, 0])[..47], 0, 41, malformed);
        let mut long = packet(&[1, 4, 0, 0, 0, 0]);
        long[41] = 2;
        reported(&long, 0, 41, malformed);
        reported(&packet(&[0x9e, 0]), 2, 42, unknown);
        reported(&packet(&[5, 2, 0, 0, 0xde, 0]), 2, 46, unknown);
        reported(&packet(&[0xc2, 4, 0, 1, 0, 0]), 2, 42, unknown);
        let mut many = packet(&[0x9e, 0]);
        many[24] = 0xff;
        reported(&many, 2, 42, unknown);
    }

    #[test]
    fn what_is_dropped() {
        let mut r = rig();
        assert_eq!(r.drops(Input::new(&packet(&[])[..39])), "ip6-hop-by-hop-too-short");
        assert_eq!(r.drops(Input::new(&packet(&[])[..41])), "ip6-hop-by-hop-too-short");
        assert_eq!(r.drops(Input::new(&packet(&[0; 255]))), "ip6-hop-by-hop-too-long");
        assert_eq!(r.drops(Input::new(&packet(&[0x3e, 0].repeat(9)))), "ip6-hop-by-hop-too-long");
        assert_eq!(r.drops(Input::new(&packet(&[1, 4, 0, 0, 0, 0])).split(47)), "ip6-hop-by-hop-too-long");
        assert_eq!(r.drops(Input::new(&packet(&[0x5e, 0]))), "ip6-hop-by-hop-option-discard");
        let mut many = packet(&[0xde, 0]);
        many[24] = 0xff;
        assert_eq!(r.drops(Input::new(&many)), "ip6-hop-by-hop-option-discard");
    }
}
