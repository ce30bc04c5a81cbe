//! Text of packets for the trace.

use graph::TraceRecord;
use packet::arp::{ArpOp, ArpView};
use packet::eth::{EtherType, MacAddr};
use packet::ip4::{Ip4Header, Ip4View};
use packet::ip6::{Ip6Header, ext};
use packet::vlan::VlanStack;
use std::fmt;

/// An Ethernet header with its tags.
pub fn ethernet(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(h) = bytes.first_chunk::<14>() else { return writeln!(f, "  (cut off)") };
    let mac = |i: usize| MacAddr([h[i], h[i + 1], h[i + 2], h[i + 3], h[i + 4], h[i + 5]]);
    write!(f, "  {} -> {}", mac(6), mac(0))?;
    let mut at = 12;
    while let Some(&[a, b]) = bytes.get(at..at + 2).and_then(|s| s.first_chunk::<2>()) {
        let t = EtherType(u16::from_be_bytes([a, b]));
        if !t.is_vlan() || at > 18 {
            return writeln!(f, " {}", t.name().map_or(format!("0x{:04x}", t.0), str::to_string));
        }
        let tci = bytes.get(at + 2..at + 4).map_or(0, |s| u16::from_be_bytes([s[0], s[1]]));
        write!(f, " {} {}", if t == EtherType::VLAN { "dot1q" } else { "dot1ad" }, tci & 0xfff)?;
        at += 4;
    }
    writeln!(f)
}

fn ports(protocol: u8, l4: &[u8]) -> String {
    match (protocol, l4.first_chunk::<4>()) {
        (6 | 17, Some(p)) => {
            format!(" {} -> {}", u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))
        }
        (1 | 58, Some(p)) => format!(" type {} code {}", p[0], p[1]),
        _ => String::new(),
    }
}

fn protocol_name(n: u8) -> String {
    match n {
        1 => "ICMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        58 => "ICMP6".into(),
        n => format!("protocol {n}"),
    }
}

/// An IPv4 or IPv6 header with ports.
pub fn ip(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match bytes.first().map(|b| b >> 4) {
        Some(4) => {
            let Some(fixed) = bytes.first_chunk::<20>() else { return writeln!(f, "  (cut off)") };
            let h = Ip4Header(fixed);
            let l4 = Ip4View::parse_quoted(bytes).map_or(&[][..], |v| v.payload());
            let l4 = if h.is_first() { l4 } else { &[] };
            writeln!(
                f,
                "  {}: {} -> {}{}",
                protocol_name(h.protocol().0),
                h.src(),
                h.dst(),
                ports(h.protocol().0, l4)
            )?;
            let frag = match (h.dont_fragment(), h.is_fragment()) {
                (true, _) => " dont_fragment".to_string(),
                (_, true) => format!(" fragment offset {} more {}", h.fragment_offset(), h.more_fragments()),
                _ => String::new(),
            };
            writeln!(
                f,
                "    tos 0x{:02x}, ttl {}, length {}, id 0x{:04x}, checksum 0x{:04x}{frag}",
                h.tos(),
                h.ttl(),
                h.total_len(),
                h.id(),
                h.checksum()
            )
        }
        Some(6) => {
            let Some(fixed) = bytes.first_chunk::<40>() else { return writeln!(f, "  (cut off)") };
            let h = Ip6Header(fixed);
            let (proto, l4) = match ext::walk(bytes) {
                Ok(u) if !u.is_later_fragment() => (u.protocol.0, bytes.get(u.offset..).unwrap_or(&[])),
                Ok(u) => (u.protocol.0, &[][..]),
                Err(_) => (h.next_header().0, &[][..]),
            };
            writeln!(f, "  {}: {} -> {}{}", protocol_name(proto), h.src(), h.dst(), ports(proto, l4))?;
            writeln!(
                f,
                "    tc 0x{:02x}, hop-limit {}, payload length {}, flow label 0x{:05x}",
                h.traffic_class(),
                h.hop_limit(),
                h.payload_len(),
                h.flow_label()
            )
        }
        _ => writeln!(f, "  (no IP header)"),
    }
}

/// An ARP packet behind its Ethernet header.
fn arp(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match ArpView::parse(bytes) {
        Ok(a) if a.op() == ArpOp::Request => {
            writeln!(f, "  ARP: who has {}? tell {} ({})", a.target_ip(), a.sender_ip(), a.sender_mac())
        }
        Ok(a) => writeln!(f, "  ARP: {} is at {}", a.sender_ip(), a.sender_mac()),
        Err(e) => writeln!(f, "  ARP: {e}"),
    }
}

/// `arp-input`: the packet as it came, or the frame that answers it.
pub fn arp_step(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if r.after.off < r.before.off { frame(r.bytes(), f) } else { arp(r.bytes(), f) }
}

/// An Ethernet frame and what is in it.
pub fn frame(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ethernet(bytes, f)?;
    let Some(s) = VlanStack::parse(bytes) else { return Ok(()) };
    let payload = bytes.get(usize::from(s.header_len)..).unwrap_or(&[]);
    match s.ethertype {
        EtherType::ARP => arp(payload, f),
        EtherType::IPV4 | EtherType::IPV6 => ip(payload, f),
        EtherType::MPLS => crate::labels::stack(payload, f),
        _ => Ok(()),
    }
}

/// An input: the interface and the frame.
pub fn received(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "  rx interface {}, {} bytes", r.after.rx, r.total_len)?;
    frame(r.bytes(), f)
}

/// `interface-tx`: the interface and the frame.
pub fn sent(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "  tx interface {}, {} bytes", r.after.tx, r.total_len)?;
    frame(r.bytes(), f)
}

/// `ethernet-input`: the interface and, when the header is still there, the frame; else the packet.
pub fn interface_and_l2(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "  rx interface {}", r.after.rx)?;
    if r.after.off == r.before.off {
        return frame(r.bytes(), f);
    }
    match r.bytes().first().map(|b| b >> 4) {
        _ if r.after.hash == u32::from(EtherType::MPLS.0) => crate::labels::stack(r.bytes(), f),
        Some(4 | 6) => ip(r.bytes(), f),
        _ => arp(r.bytes(), f),
    }
}

/// A node that ends with a link-layer header in front.
pub fn output(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if r.after.off == r.before.off {
        return ip(r.bytes(), f);
    }
    writeln!(f, "  tx interface {} adjacency {}", r.after.tx, r.after.aux)?;
    frame(r.bytes(), f)
}
