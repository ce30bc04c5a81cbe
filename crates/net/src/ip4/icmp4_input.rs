//! `icmp4-input`: ICMP messages to the router. Echo requests are answered here; echo replies and errors go to the
//! control side.

use crate::ip4::OptionPolicy;
use crate::ip4::options::is_recorded;
use crate::plane::Plane;
use crate::punt::PuntKind;
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, Published, TraceRecord, flags};
use packet::checksum::Sum;
use packet::icmp4::{self, kind};
use packet::ip4::{self, Ip4Header, addr};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `icmp4-input` sends packets.
    pub enum Icmp4Next { Lookup => "ip4-lookup" }
}

graph::reasons! {
    /// What `icmp4-input` counts.
    pub enum Icmp4Reason {
        /// Fewer bytes than an IPv4 and an ICMP header have.
        TooShort => "icmp4-too-short",
        /// The checksum of the message is wrong.
        BadChecksum => "icmp4-bad-checksum",
        /// An echo request to a multicast or broadcast address (RFC 1812 section 4.3.3.6).
        ToGroup => "icmp4-echo-to-group",
        /// A redirect: routers do not heed them (RFC 1812 section 5.2.7.2).
        Redirect => "icmp4-redirect-ignored",
        /// A timestamp message: not answered (RFC 1812 section 4.3.3.8 leaves it open).
        Timestamp => "icmp4-timestamp-not-supported",
        /// A type that the router does not know or does not heed.
        Unsupported => "icmp4-unsupported-type",
        /// An echo request was answered.
        Replied => "icmp4-echo-replies-sent" (info),
        /// An echo reply or an error was handed to the control side.
        Punted => "icmp4-handed-to-control" (info),
        /// The control side was too far behind to take it.
        Lost => "icmp4-control-busy" (info),
    }
}

/// The node.
pub struct Icmp4Input {
    plane: Arc<Plane>,
    options: Arc<Published<OptionPolicy>>,
}

impl Icmp4Input {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Icmp4Input { plane: Arc::clone(plane), options: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct Icmp4InputView<'v> {
    plane: &'v Plane,
    ttl: u8,
    /// Options into which the router writes go back to who asks.
    keep: bool,
}

impl Node for Icmp4Input {
    const NAME: &'static str = "icmp4-input";
    type Next = Icmp4Next;
    type Drop = Icmp4Reason;
    type View<'v> = Icmp4InputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Icmp4InputView<'v> {
        Icmp4InputView {
            plane: &self.plane,
            ttl: self.plane.config.load(guard).ttl,
            keep: *self.options.load(guard) == OptionPolicy::Record,
        }
    }

    fn step(view: &mut Icmp4InputView<'_>, p: &mut Packet<'_>) -> Step<Icmp4Next, Icmp4Reason> {
        let Some(h) = p.head::<20>() else { return Err(Icmp4Reason::TooShort.into()) };
        let (header_len, dst) = (Ip4Header(h).header_len(), Ip4Header(h).dst_u32());
        if header_len < ip4::HEADER_LEN || header_len + icmp4::HEADER_LEN > p.data().len() {
            return Err(Icmp4Reason::TooShort.into());
        }
        if p.has(flags::CSUM_PARTIAL) && !crate::offload::complete(&mut p.env.buffers, p.d) {
            return Err(Icmp4Reason::BadChecksum.into());
        }
        let mut sum = Sum::new();
        for (i, part) in p.env.buffers.parts(p.d).enumerate() {
            sum.add_bytes(if i == 0 { part.get(header_len..).unwrap_or_default() } else { part });
        }
        if !sum.is_valid() {
            return Err(Icmp4Reason::BadChecksum.into());
        }
        match p.data()[header_len] {
            kind::ECHO_REQUEST => {
                if p.has(flags::L2_GROUP) || !addr::is_unicast(dst) {
                    return Err(Icmp4Reason::ToGroup.into());
                }
                reply(p, header_len, view.ttl, view.keep);
                p.count(Icmp4Reason::Replied);
                Ok(Icmp4Next::Lookup)
            }
            kind::ECHO_REPLY | kind::UNREACHABLE | kind::TIME_EXCEEDED | kind::PARAMETER_PROBLEM => {
                let sent = view.plane.punt.packet(PuntKind::Icmp, p.d.rx, 0, p.env.buffers.parts(p.d));
                p.count(if sent { Icmp4Reason::Punted } else { Icmp4Reason::Lost });
                p.free();
                Err(Exit::Consumed)
            }
            kind::REDIRECT => Err(Icmp4Reason::Redirect.into()),
            kind::TIMESTAMP | kind::TIMESTAMP_REPLY => Err(Icmp4Reason::Timestamp.into()),
            _ => Err(Icmp4Reason::Unsupported.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// Makes an echo request of `header_len` bytes of IP header its own reply. Of the options, those into which the router has
/// written go back (RFC 1812 section 4.3.3.6), with `keep`; source routes do not come here, and the others are left out. Type
/// of service and identification stay (RFC 1812 section 4.3.2.5).
fn reply(p: &mut Packet<'_>, header_len: usize, ttl: u8, keep: bool) {
    let len = if header_len == ip4::HEADER_LEN { header_len } else { keep_recorded(p, header_len, keep) };
    let total = p.total_len() as u16;
    let Some((h, message)) = p.data_mut().split_at_mut_checked(len) else { return };
    let Some(fixed) = h.first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return };
    fixed[0] = 0x40 | (len / 4) as u8;
    fixed[2..4].copy_from_slice(&total.to_be_bytes());
    fixed[6..8].fill(0);
    fixed[8] = ttl;
    let (from, to) = fixed[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    match len {
        // Most have this length, for which the sum is quicker.
        ip4::HEADER_LEN => ip4::fill_checksum(fixed),
        _ => ip4::fill_checksum(h),
    }
    if let Some(m) = message.first_chunk_mut() {
        icmp4::echo_reply_in_place(m);
    }
    p.d.flags = p.d.flags & !flags::L2_GROUP | flags::LOCAL;
}

/// Takes away the options that do not go back; how long the header is then.
#[cold]
fn keep_recorded(p: &mut Packet<'_>, header_len: usize, keep: bool) -> usize {
    let mut header = [0; ip4::MAX_HEADER_LEN];
    let Some(came) = p.data().get(..header_len) else { return header_len };
    header[..ip4::HEADER_LEN].copy_from_slice(&came[..ip4::HEADER_LEN]);
    let mut len = ip4::HEADER_LEN;
    for o in ip4::Options::new(came).map_while(Result::ok).filter(|o| keep && is_recorded(o.kind)) {
        header[len..len + o.bytes.len()].copy_from_slice(o.bytes);
        len += o.bytes.len();
    }
    let len = len.next_multiple_of(4);
    let moved = p.advance(header_len - len);
    debug_assert!(moved, "the header lies in the first buffer");
    if let Some(h) = p.data_mut().get_mut(..len) {
        h.copy_from_slice(&header[..len]);
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, fix_ip4, hex};

    // Scapy: IP(src="192.0.2.9", dst="192.0.2.1", id=0x1234, ttl=17, tos=0x28, flags="DF") /
    //   ICMP(type=8, id=7, seq=9) / b"quiver echo"
    const REQUEST: &str = "45280027123440001101d36fc0000209c0000201 0800c4c300070009 717569766572206563686f";
    // Scapy: IP(src="192.0.2.1", dst="192.0.2.9", id=0x1234, ttl=64, tos=0x28) / ICMP(type=0, id=7, seq=9) / ...
    const REPLY: &str = "45280027123400004001e46fc0000201c0000209 0000ccc300070009 717569766572206563686f";
    // REQUEST with IPOption_RR(routers=["0.0.0.0"])
    const WITH_OPTIONS: &str =
        "4728002f1234000011010661c0000209c00002010707040000000000 0800c4c300070009 717569766572206563686f";

    fn rig() -> Rig {
        Rig::new(Icmp4Input::new)
    }

    /// An ICMP message of this type with a right checksum.
    fn message(kind: u8) -> Vec<u8> {
        let mut p = hex(REQUEST);
        p[20] = kind;
        p[22..24].fill(0);
        let check = packet::checksum::checksum(&p[20..]);
        p[22..24].copy_from_slice(&check.to_be_bytes());
        p
    }

    #[test]
    fn an_echo_request_is_answered() {
        let mut r = rig();
        let a = r.one(Input::new(&hex(REQUEST)));
        assert_eq!((a.node, a.bytes), ("ip4-lookup", hex(REPLY)));
        assert!(a.d.has(flags::LOCAL) && a.d.rx == 1);
        assert_eq!(r.count("icmp4-echo-replies-sent"), 1);
        r.configure(|c| c.ttl = 200);
        assert_eq!(r.one(Input::new(&hex(REQUEST))).bytes[8], 200);
    }

    #[test]
    fn options_of_the_answer() {
        // Scapy: REPLY with IPOption_RR(routers=["0.0.0.0"])
        let with = "4728002f1234000040 01e762 c0000201c00002090707040000000000 0000ccc300070009 717569766572206563686f";
        let mut r = rig();
        let kept = r.one(Input::new(&hex(WITH_OPTIONS))).bytes;
        let mut want = hex(with);
        fix_ip4(&mut want);
        assert_eq!(kept, want);
        // A router alert does not go back, and leaves its place.
        let mut alert = hex(WITH_OPTIONS);
        alert[0] = 0x48;
        alert.splice(20..20, [148, 4, 0, 0]);
        alert[3] += 4;
        assert_eq!(r.one(Input::new(&alert)).bytes, want);
        r.change(|policy| *policy = OptionPolicy::Pass);
        assert_eq!(r.one(Input::new(&hex(WITH_OPTIONS))).bytes, hex(REPLY));
    }

    #[test]
    fn large_requests_in_several_buffers() {
        let payload: Vec<u8> = (0..3001).map(|i| (i % 251) as u8).collect();
        // Scapy: IP(src="192.0.2.9", dst="192.0.2.1", id=1) / ICMP(type=8, id=7, seq=9) / payload, and its reply
        let request =
            [hex("45000bd5000100004001eb1cc0000209c000020108008a7600070009"), payload.clone()].concat();
        let reply = [hex("45000bd5000100004001eb1cc0000201c00002090000927600070009"), payload].concat();
        let mut r = rig();
        for split in [28, 29, 101, 1000, 2000] {
            let a = r.one(Input::new(&request).split(split));
            assert_eq!((a.node, a.bytes == reply), ("ip4-lookup", true), "split at {split}");
        }
        let mut damaged = request;
        damaged[3000] ^= 1;
        assert_eq!(r.drops(Input::new(&damaged)), "icmp4-bad-checksum");
    }

    #[test]
    fn a_vector_of_all_kinds() {
        let mut r = rig();
        let inputs: Vec<Input> =
            (0..255).map(|i| Input::new(&message(if i % 2 == 0 { 8 } else { 5 })).rx(i % 3)).collect();
        let out = r.run(&inputs);
        assert_eq!(out.iter().filter(|a| a.bytes == hex(REPLY)).count(), 128);
        assert_eq!(out.iter().filter(|a| a.reason == "icmp4-redirect-ignored").count(), 127);
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        let mut p = hex(REQUEST);
        p[22..24].fill(0);
        let mut input = Input::new(&p);
        input.partial = Some((20, 2));
        let mut r = rig();
        let a = r.one(input.clone());
        assert_eq!(a.bytes, hex(REPLY));
        assert!(!a.d.has(flags::CSUM_PARTIAL));
        input.partial = Some((20, 2000));
        assert_eq!(r.drops(input), "icmp4-bad-checksum");
    }

    #[test]
    fn what_is_dropped() {
        let mut r = rig();
        assert_eq!(r.drops(Input::new(&hex(REQUEST)[..19])), "icmp4-too-short");
        assert_eq!(r.drops(Input::new(&hex(REQUEST)[..27])), "icmp4-too-short");
        assert_eq!(r.drops(Input::new(&hex(WITH_OPTIONS)[..35])), "icmp4-too-short");
        let mut p = hex(REQUEST);
        p[0] = 0x44;
        assert_eq!(r.drops(Input::new(&p)), "icmp4-too-short");
        for at in [21, 23, 38] {
            p = hex(REQUEST);
            p[at] ^= 0x10;
            assert_eq!(r.drops(Input::new(&p)), "icmp4-bad-checksum");
        }
        for group in [[224, 0, 0, 1], [255; 4]] {
            p = hex(REQUEST);
            p[16..20].copy_from_slice(&group);
            assert_eq!(r.drops(Input::new(&p)), "icmp4-echo-to-group");
        }
        assert_eq!(r.drops(Input::new(&hex(REQUEST)).flags(flags::L2_GROUP)), "icmp4-echo-to-group");
        assert_eq!(r.drops(Input::new(&message(5))), "icmp4-redirect-ignored");
        assert_eq!(r.drops(Input::new(&message(13))), "icmp4-timestamp-not-supported");
        assert_eq!(r.drops(Input::new(&message(14))), "icmp4-timestamp-not-supported");
        for kind in [1, 2, 4, 6, 7, 9, 10, 15, 17, 255] {
            assert_eq!(r.drops(Input::new(&message(kind))), "icmp4-unsupported-type");
        }
        assert!(r.punted().is_empty());
    }

    #[test]
    fn replies_and_errors_go_to_the_control_side() {
        let mut r = rig();
        for kind in [0, 3, 11, 12] {
            assert!(r.run(&[Input::new(&message(kind)).rx(2)]).is_empty());
            assert_eq!(r.punted(), [(PuntKind::Icmp, 2, 0, message(kind))]);
        }
        assert_eq!(r.count("icmp4-handed-to-control"), 4);
        r.fill_punt();
        assert!(r.run(&[Input::new(&message(0))]).is_empty());
        assert_eq!((r.count("icmp4-handed-to-control"), r.count("icmp4-control-busy")), (4, 1));
    }
}
