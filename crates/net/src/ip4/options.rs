//! `ip4-options`: packets whose header is longer than 20 bytes.
//!
//! The list of options must be well formed. Source routes are refused, as RFC 7126 section 4.3 advises. Everything else
//! is forwarded as it came: the router neither records its address (record route, timestamp) nor looks into packets
//! with a router alert.

use crate::icmp::Ask;
use crate::plane::Plane;
use crate::punt::{self, Class};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip4::{Ip4View, OptionKind};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-options` sends packets.
    pub enum Ip4OptionsNext {
        Features => "@ip4-unicast",
        Error => "ip4-icmp-error",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip4-options` counts.
    pub enum Ip4OptionsReason {
        /// The packet has no IPv4 header.
        TooShort => "ip4-options-no-header",
        /// An option has a wrong length; the sender is told "parameter problem" (RFC 1812 section 5.2.6).
        Malformed => "ip4-options-malformed" (info),
        /// A source route; the sender is told "source route failed".
        SourceRoute => "ip4-source-route-refused" (info),
    }
}

/// The node.
pub struct Ip4Options {
    plane: Arc<Plane>,
}

impl Ip4Options {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Options { plane: Arc::clone(plane) }
    }
}

impl Node for Ip4Options {
    const NAME: &'static str = "ip4-options";
    type Next = Ip4OptionsNext;
    type Drop = Ip4OptionsReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<Ip4OptionsNext, Ip4OptionsReason> {
        if !punt::admits(plane, p, Class::Options) {
            return Ok(Ip4OptionsNext::Policed);
        }
        let Ok(packet) = Ip4View::parse_quoted(p.data()) else {
            return Err(Ip4OptionsReason::TooShort.into());
        };
        let source_route = [OptionKind::LOOSE_SOURCE_ROUTE, OptionKind::STRICT_SOURCE_ROUTE];
        let mut refused = None;
        for option in packet.options() {
            match option {
                Err(bad) => {
                    refused = Some((Ip4OptionsReason::Malformed, Ask::v4_parameter_problem(bad.pointer)));
                    break;
                }
                Ok(o) if source_route.contains(&o.kind) => {
                    refused = Some((Ip4OptionsReason::SourceRoute, Ask::V4_SOURCE_ROUTE_FAILED));
                    break;
                }
                Ok(_) => {}
            }
        }
        let Some((why, ask)) = refused else { return Ok(Ip4OptionsNext::Features) };
        p.count(why);
        p.d.aux = ask.word();
        Ok(Ip4OptionsNext::Error)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, fix_ip4};

    fn packet(options: &[u8]) -> Vec<u8> {
        let mut p = vec![0x40 | (5 + options.len() as u8 / 4), 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
        p.extend([192, 0, 2, 9, 198, 51, 100, 77]);
        p.extend_from_slice(options);
        p.extend([0; 8]);
        let total = p.len() as u16;
        p[2..4].copy_from_slice(&total.to_be_bytes());
        fix_ip4(&mut p);
        p
    }

    #[test]
    fn harmless_options_pass_unchanged() {
        let mut r = Rig::new(Ip4Options::new);
        for options in [
            &[7, 7, 4, 0, 0, 0, 0, 0][..],
            &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[148, 4, 0, 0],
            &[1, 1, 1, 0],
            &[0, 131, 131, 131],
            &[222, 2, 1, 130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let a = r.one(Input::new(&packet(options)).aux(77));
            assert_eq!((a.node, a.bytes, a.d.aux), ("ip4-lookup", packet(options), 77), "{options:?}");
        }
    }

    #[test]
    fn what_is_refused() {
        let mut r = Rig::new(Ip4Options::new);
        for (options, ask, reason) in [
            (&[7, 0, 0, 0][..], Ask::new(12, 0, 21), "ip4-options-malformed"),
            (&[1, 1, 1, 7], Ask::new(12, 0, 23), "ip4-options-malformed"),
            (&[148, 4, 0, 0, 68, 5, 0, 0], Ask::new(12, 0, 25), "ip4-options-malformed"),
            (&[131, 7, 4, 10, 0, 0, 1, 0], Ask::new(3, 5, 0), "ip4-source-route-refused"),
            (&[1, 137, 7, 4, 10, 0, 0, 1], Ask::new(3, 5, 0), "ip4-source-route-refused"),
        ] {
            let before = r.count(reason);
            let a = r.one(Input::new(&packet(options)));
            assert_eq!((a.node, a.bytes), ("ip4-icmp-error", packet(options)));
            assert_eq!((Ask::from_word(a.d.aux), r.count(reason)), (ask, before + 1), "{options:?}");
        }
        assert_eq!(r.drops(Input::new(&packet(&[148, 4, 0, 0])[..23])), "ip4-options-no-header");
    }
}
