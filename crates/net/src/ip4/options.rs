//! `ip4-options`: packets whose header is longer than 20 bytes.
//!
//! The list of options must be well formed. Source routes are refused, as RFC 7126 section 4.3 advises. The router writes its
//! address and its time into record route and timestamp options (RFC 1812 sections 5.3.13.5 and 5.3.13.6), unless it is told to
//! leave them alone or to drop such packets. Everything else is forwarded as it came: router alerts are not looked at.

use crate::icmp::Ask;
use crate::plane::table::{V4, View};
use crate::plane::{Plane, kind};
use crate::punt::Class;
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use packet::flow;
use packet::ip4::{self, Ip4View, OptionKind, Options};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
        /// A record route or timestamp option, which the operator wants dropped.
        Dropped => "ip4-options-dropped",
        /// An option has a wrong length or points to a wrong place; the sender is told "parameter problem" (RFC 1812 section 5.2.6).
        Malformed => "ip4-options-malformed" (info),
        /// A source route; the sender is told "source route failed".
        SourceRoute => "ip4-source-route-refused" (info),
    }
}

/// The node.
pub struct Ip4Options {
    plane: Arc<Plane>,
    policy: Arc<Published<OptionPolicy>>,
}

impl Ip4Options {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Options { plane: Arc::clone(plane), policy: plane.publish() }
    }
}

/// What becomes of packets with record route and timestamp options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptionPolicy {
    /// The router writes its address and its time into them.
    #[default]
    Record,
    /// They are forwarded as they came.
    Pass,
    /// They are dropped.
    Drop,
}

impl OptionPolicy {
    /// All of them with their words.
    pub const ALL: &[(&str, OptionPolicy)] =
        &[("record", OptionPolicy::Record), ("pass", OptionPolicy::Pass), ("drop", OptionPolicy::Drop)];

    /// The word for it in commands and in the YAML document.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map_or("record", |(name, _)| name)
    }
}

/// Snapshot of one vector.
pub struct Ip4OptionsView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    policy: OptionPolicy,
}

/// Whether the router writes into options of this kind.
pub(crate) fn is_recorded(kind: OptionKind) -> bool {
    matches!(kind, OptionKind::RECORD_ROUTE | OptionKind::TIMESTAMP)
}

const DAY_MS: u64 = 86_400_000;

impl Ip4OptionsView<'_> {
    /// The router's address to be recorded: that of the interface by which the packet leaves (RFC 1812 section 5.3.13.5), or the
    /// one to which it came; `None` where it does not leave.
    fn own(&self, p: &Packet<'_>, dst: u32) -> Option<u32> {
        let tables = View::<V4>::new(self.plane, self.guard);
        let flow = || flow::of_ip4(p.data(), tables.flow(p.d));
        let mut e = self.plane.groups.resolve_with(tables.lookup_for(p.d, &dst), flow);
        if e.kind == kind::LOOKUP {
            e = tables.onward(e.adj, &dst, flow)?;
        }
        if e.kind == kind::LOCAL {
            return Some(dst);
        }
        if !kind::is_neighbor(e.kind) && e.kind != kind::GLEAN {
            return None;
        }
        let a = self.plane.adjacencies.get(e.adj, self.guard)?;
        let towards = match a.next_hop {
            IpAddr::V4(next) if !next.is_unspecified() => next.to_bits(),
            _ => dst,
        };
        self.plane.interfaces.get(a.interface, self.guard)?.source4(towards)
    }

    /// Whether an address is the router's.
    fn is_own(&self, p: &Packet<'_>, address: u32) -> bool {
        let tables = View::<V4>::new(self.plane, self.guard);
        self.plane.groups.resolve(tables.lookup_for(p.d, &address), 0).kind == kind::LOCAL
    }

    /// Milliseconds since midnight, universal time.
    fn time(&self, p: &Packet<'_>) -> u32 {
        let ns = p.env.now_ns.wrapping_add(self.plane.wall.load(Relaxed));
        (ns / 1_000_000 % DAY_MS) as u32
    }

    /// Fills the options of a header of `len` bytes. An error is the offset of the wrong octet.
    fn record(&self, p: &mut Packet<'_>, len: usize, dst: u32) -> Result<(), u8> {
        let Some(own) = self.own(p, dst) else { return Ok(()) };
        let now = self.time(p);
        let mut header = [0; ip4::MAX_HEADER_LEN];
        let Some(came) = p.data().get(..len) else { return Ok(()) };
        header[..len].copy_from_slice(came);
        for option in Options::new(came) {
            let Ok(o) = option else { break };
            let Some(to) = header.get_mut(usize::from(o.offset)..).and_then(|h| h.get_mut(..o.bytes.len()))
            else {
                break;
            };
            let done = match o.kind {
                OptionKind::RECORD_ROUTE => record_route(to, own),
                OptionKind::TIMESTAMP => timestamp(to, own, now, |a| self.is_own(p, a)),
                _ => continue,
            };
            done.map_err(|at| o.offset + at)?;
        }
        ip4::fill_checksum(&mut header[..len]);
        p.data_mut()[..len].copy_from_slice(&header[..len]);
        Ok(())
    }
}

/// Writes into a record route option (RFC 791 section 3.1); an error is the offset of the wrong octet in it.
fn record_route(option: &mut [u8], own: u32) -> Result<(), u8> {
    let len = option.len();
    let Some(at) = option.get(2).map(|p| usize::from(*p)) else { return Err(1) };
    if at < 4 {
        return Err(2);
    }
    // Full: it is forwarded as it is.
    if at > len {
        return Ok(());
    }
    let Some(place) = option.get_mut(at - 1..at + 3) else { return Err(2) };
    place.copy_from_slice(&own.to_be_bytes());
    option[2] = at as u8 + 4;
    Ok(())
}

/// Writes into a timestamp option (RFC 791 section 3.1); an error is the offset of the wrong octet in it. `is_own` says whether
/// an address that the sender named is the router's.
fn timestamp(option: &mut [u8], own: u32, now: u32, is_own: impl Fn(u32) -> bool) -> Result<(), u8> {
    const ALONE: u8 = 0;
    const WITH_ADDRESS: u8 = 1;
    const NAMED: u8 = 3;
    let len = option.len();
    let (Some(at), Some(word)) = (option.get(2).map(|p| usize::from(*p)), option.get(3).copied()) else {
        return Err(1);
    };
    if at < 5 {
        return Err(2);
    }
    let (missed, kind) = (word >> 4, word & 15);
    let size = if kind == ALONE { 4 } else { 8 };
    if at > len {
        // Full: those who found no room are counted, where the sender did not name who is meant.
        match (kind, missed) {
            (ALONE | WITH_ADDRESS, 15) => return Err(3),
            (ALONE | WITH_ADDRESS, _) => option[3] = (missed + 1) << 4 | kind,
            _ => {}
        }
        return Ok(());
    }
    let Some(place) = option.get_mut(at - 1..at - 1 + size) else { return Err(2) };
    match (kind, place.split_first_chunk_mut::<4>()) {
        (ALONE, _) => place.copy_from_slice(&now.to_be_bytes()),
        (WITH_ADDRESS, Some((address, time))) => {
            *address = own.to_be_bytes();
            time.copy_from_slice(&now.to_be_bytes());
        }
        (NAMED, Some((address, time))) if is_own(u32::from_be_bytes(*address)) => {
            time.copy_from_slice(&now.to_be_bytes());
        }
        _ => return Ok(()),
    }
    option[2] = (at + size) as u8;
    Ok(())
}

impl Node for Ip4Options {
    const NAME: &'static str = "ip4-options";
    type Next = Ip4OptionsNext;
    type Drop = Ip4OptionsReason;
    type View<'v> = Ip4OptionsView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4OptionsView<'v> {
        Ip4OptionsView { plane: &self.plane, guard, policy: *self.policy.load(guard) }
    }

    fn step(view: &mut Ip4OptionsView<'_>, p: &mut Packet<'_>) -> Step<Ip4OptionsNext, Ip4OptionsReason> {
        if !view.plane.admits(p, Class::Options) {
            return Ok(Ip4OptionsNext::Policed);
        }
        let Ok(packet) = Ip4View::parse_quoted(p.data()) else {
            return Err(Ip4OptionsReason::TooShort.into());
        };
        let source_route = [OptionKind::LOOSE_SOURCE_ROUTE, OptionKind::STRICT_SOURCE_ROUTE];
        let (mut refused, mut recorded) = (None, false);
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
                Ok(o) => recorded |= is_recorded(o.kind),
            }
        }
        if recorded && refused.is_none() {
            let (len, dst) = (packet.header().len(), packet.fixed().dst_u32());
            match view.policy {
                OptionPolicy::Pass => {}
                OptionPolicy::Drop => return Err(Ip4OptionsReason::Dropped.into()),
                OptionPolicy::Record => {
                    if let Err(at) = view.record(p, len, dst) {
                        refused = Some((Ip4OptionsReason::Malformed, Ask::v4_parameter_problem(at)));
                    }
                }
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
    fn a_record_route_option_is_filled() {
        let own = u32::from_be_bytes([10, 9, 8, 7]);
        let mut o = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(record_route(&mut o, own), Ok(()));
        assert_eq!(o, [7, 11, 8, 10, 9, 8, 7, 0, 0, 0, 0]);
        assert_eq!(record_route(&mut o, own), Ok(()));
        assert_eq!(o, [7, 11, 12, 10, 9, 8, 7, 10, 9, 8, 7]);
        assert_eq!(record_route(&mut o, own), Ok(()), "full");
        assert_eq!(o[2], 12);
        assert_eq!(record_route(&mut [7, 2], own), Err(1));
        assert_eq!(record_route(&mut [7, 7, 3, 0, 0, 0, 0], own), Err(2));
        assert_eq!(record_route(&mut [7, 7, 5, 0, 0, 0, 0], own), Err(2), "room for a part of an address");
        assert_eq!(record_route(&mut [7, 3, 255], own), Ok(()));
    }

    #[test]
    fn a_timestamp_option_is_filled() {
        let own = u32::from_be_bytes([10, 9, 8, 7]);
        let mine = |a: u32| a == own;
        let mut alone = [68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(timestamp(&mut alone, own, 0x0102_0304, mine), Ok(()));
        assert_eq!(timestamp(&mut alone, own, 0x0102_0305, mine), Ok(()));
        assert_eq!(alone, [68, 12, 13, 0, 1, 2, 3, 4, 1, 2, 3, 5]);
        assert_eq!(timestamp(&mut alone, own, 9, mine), Ok(()));
        assert_eq!(alone[2..4], [13, 0x10], "one found no room");
        alone[3] = 0xf0;
        assert_eq!(timestamp(&mut alone, own, 9, mine), Err(3), "more than can be counted");
        let mut with = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(timestamp(&mut with, own, 7, mine), Ok(()));
        assert_eq!(with, [68, 12, 13, 1, 10, 9, 8, 7, 0, 0, 0, 7]);
        let mut named = [68, 12, 5, 3, 10, 9, 8, 6, 0, 0, 0, 0];
        let before = named;
        assert_eq!(timestamp(&mut named, own, 7, mine), Ok(()));
        assert_eq!(named, before, "another is meant");
        named[7] = 7;
        assert_eq!(timestamp(&mut named, own, 7, mine), Ok(()));
        assert_eq!(named, [68, 12, 13, 3, 10, 9, 8, 7, 0, 0, 0, 7]);
        assert_eq!(timestamp(&mut [68, 3, 5], own, 7, mine), Err(1));
        assert_eq!(timestamp(&mut [68, 8, 4, 0, 0, 0, 0, 0], own, 7, mine), Err(2));
        assert_eq!(timestamp(&mut [68, 8, 5, 1, 0, 0, 0, 0], own, 7, mine), Err(2));
        assert_eq!(timestamp(&mut [68, 4, 255, 0], own, 7, mine), Ok(()));
    }

    #[test]
    fn the_policy() {
        let mut r = Rig::new(Ip4Options::new);
        let to_router = |options: &[u8]| {
            let mut p = packet(options);
            p[16..20].copy_from_slice(&[192, 0, 2, 1]);
            fix_ip4(&mut p);
            p
        };
        let sent = to_router(&[1, 7, 7, 4, 0, 0, 0, 0]);
        assert_eq!(r.one(Input::new(&sent)).bytes, to_router(&[1, 7, 7, 8, 192, 0, 2, 1]));
        r.at_ns(86_400_001_000_000);
        let time = to_router(&[68, 8, 5, 0, 0, 0, 0, 0]);
        assert_eq!(r.one(Input::new(&time)).bytes, to_router(&[68, 8, 9, 0, 0, 0, 0, 1]));
        let bad = r.one(Input::new(&to_router(&[1, 7, 7, 5, 0, 0, 0, 0])));
        assert_eq!((bad.node, Ask::from_word(bad.d.aux)), ("ip4-icmp-error", Ask::new(12, 0, 23)));
        r.change(|policy| *policy = OptionPolicy::Pass);
        assert_eq!(r.one(Input::new(&sent)).bytes, sent);
        r.change(|policy| *policy = OptionPolicy::Drop);
        assert_eq!(r.drops(Input::new(&sent)), "ip4-options-dropped");
        assert_eq!(r.one(Input::new(&to_router(&[148, 4, 0, 0]))).node, "ip4-lookup", "others pass");
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
