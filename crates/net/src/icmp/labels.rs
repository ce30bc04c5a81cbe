//! The label stack with which a packet came, for the errors about it (RFC 4950).

use graph::Packet;
use packet::EtherType;
use packet::icmp_ext::MAX_LABELS;
use packet::mpls::StackView;
use packet::vlan::VlanStack;

/// The entries of the label stack between the link-layer header of `p` and its current header; none when there is no
/// such stack. Nodes that take labels off move the current header and leave the bytes, so they are as they came.
pub(super) fn received<'a>(p: &'a Packet<'_>) -> &'a [u8] {
    let room = p.env.buffers.room(&p.d.buf);
    let Some(front) = room.get(usize::from(p.d.l2)..usize::from(p.d.off)) else { return &[] };
    let Some(link) = VlanStack::parse(front).filter(|l| l.ethertype == EtherType::MPLS) else { return &[] };
    match StackView::parse(&front[usize::from(link.header_len)..], MAX_LABELS) {
        Ok(stack) if stack.payload().is_empty() => stack.as_bytes(),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use crate::icmp::{Ask, Ip4IcmpError, Ip6IcmpError};
    use crate::testing::{Input, Rig, hex};

    // Scapy: IP(src="203.0.113.7", dst="198.51.100.77", id=0x4242, ttl=1, flags="DF") /
    //   UDP(sport=1000, dport=33434) / b"probe", and the same from 2001:db8:9::9 to 2001:db8:5::5
    const V4: &str = "45000021424240000111d101cb007107c633644d 03e8829a000dcdf3 70726f6265";
    const V6: &str = "60000000000d1101 20010db8000900000000000000000009 20010db8000500000000000000000005
        03e8829a000dd8ee 70726f6265";
    const MACS: &str = "020000000001 0200000000aa";
    // Scapy: MPLS(label=16000, cos=3, s=0, ttl=1) / MPLS(label=100, cos=0, s=1, ttl=255), and in the object of RFC 4950
    const STACK: &str = "03e80601 000641ff";
    const EXTENSION: &str = "20009304 000c0101 03e80601 000641ff";

    fn input(l2: &[&str], packet: &str, ask: Ask) -> Input {
        Input { l2: hex(&l2.concat()), ..Input::new(&hex(packet)).aux(ask.word()) }
    }

    fn quoted(head: &str, packet: &str) -> Vec<u8> {
        let mut quote = hex(packet);
        quote.resize(128, 0);
        [hex(head), quote, hex(EXTENSION)].concat()
    }

    #[test]
    fn errors_tell_the_label_stack() {
        let mut r = Rig::new(Ip4IcmpError::new);
        for l2 in [
            &[MACS, "8847", STACK][..],
            &[MACS, "810000648847", STACK],
            &[MACS, "88a80001810000648847", STACK],
        ] {
            let a = r.one(input(l2, V4, Ask::V4_TTL_EXCEEDED));
            let mut want = quoted("45c000ac0001000040017b87c0000201cb007107 0b005b8700200000", V4);
            want[4..6].copy_from_slice(&a.bytes[4..6]);
            crate::testing::fix_ip4(&mut want);
            assert_eq!((a.node, a.bytes), ("ip4-lookup", want), "{l2:?}");
        }
        let a = Rig::new(Ip4IcmpError::new).one(input(
            &[MACS, "8847", STACK],
            V4,
            Ask::v4_fragmentation_needed(1400),
        ));
        assert_eq!(a.bytes, quoted("45c000ac0001000040017b87c0000201cb007107 03045e0b00200578", V4));
        let a =
            Rig::new(Ip6IcmpError::new).one(input(&[MACS, "8847", STACK], V6, Ask::V6_HOP_LIMIT_EXCEEDED));
        let head = "6000000000983a40 20010db8000100000000000000000001 20010db8000900000000000000000009
            03001fb710000000";
        assert_eq!(a.bytes, quoted(head, V6));
    }

    #[test]
    fn packet_too_big_has_no_room_for_it() {
        let without = Rig::new(Ip6IcmpError::new).one(input(&[MACS, "86dd"], V6, Ask::v6_too_big(1400)));
        let with = Rig::new(Ip6IcmpError::new).one(input(&[MACS, "8847", STACK], V6, Ask::v6_too_big(1400)));
        assert_eq!(with.bytes, without.bytes);
    }

    #[test]
    fn what_is_no_whole_stack_is_not_told() {
        let plain = Rig::new(Ip4IcmpError::new).one(input(&[MACS, "0800"], V4, Ask::V4_TTL_EXCEEDED));
        let deep = "00064040".repeat(32) + "00064140";
        for l2 in [
            &[MACS, "0800", STACK][..],
            &[MACS, "8847"],
            &[MACS, "8847", "03e80601"],
            &[MACS, "8847", "000641ff", "03e80601"],
            &[MACS, "8847", STACK, "00"],
            &[MACS, "8847", &deep],
            &[MACS],
            &[],
        ] {
            let a = Rig::new(Ip4IcmpError::new).one(input(l2, V4, Ask::V4_TTL_EXCEEDED));
            assert_eq!(a.bytes, plain.bytes, "{l2:?}");
        }
        let most = "00064040".repeat(31) + "00064140";
        let a = Rig::new(Ip4IcmpError::new).one(input(&[MACS, "8847", &most], V4, Ask::V4_TTL_EXCEEDED));
        assert_eq!(a.bytes.len(), 20 + 8 + 128 + 8 + 128);
    }
}
