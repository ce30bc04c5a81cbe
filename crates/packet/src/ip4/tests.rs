use super::*;
use proptest::prelude::*;

// Scapy: IP(src="192.0.2.1", dst="198.51.100.2", ttl=64, proto=17, id=0x1c46, flags="DF")/(b"\0"*8)
const PACKET: [u8; 28] = [
    0x45, 0, 0, 0x1c, 0x1c, 0x46, 0x40, 0, 0x40, 0x11, 0x32, 0x54, 192, 0, 2, 1, 198, 51, 100, 2, 0, 0, 0, 0,
    0, 0, 0, 0,
];

fn changed(change: impl Fn(&mut Vec<u8>)) -> Result<(), Ip4Error> {
    let mut bytes = PACKET.to_vec();
    change(&mut bytes);
    Ip4View::parse(&bytes).map(|_| ())
}

#[test]
fn reads_fields() {
    let view = Ip4View::parse(&PACKET).unwrap();
    assert_eq!((view.header_len(), view.total_len(), view.id()), (20, 28, 0x1c46));
    assert_eq!((view.ttl(), view.protocol(), view.dscp()), (64, IpProtocol::UDP, 0));
    assert!(view.dont_fragment() && !view.more_fragments() && view.is_first() && !view.is_fragment());
    assert_eq!((view.src(), view.dst()), (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2)));
    assert_eq!((view.src_u32(), view.dst_u32()), (0xc0000201, 0xc6336402));
    assert_eq!(view.payload(), [0; 8]);
    assert_eq!(view.options().count(), 0);
}

#[test]
fn each_check_in_order() {
    assert_eq!(Ip4View::parse(&PACKET[..19]).unwrap_err(), Ip4Error::TooShort);
    assert_eq!(changed(|b| b[0] = 0x65), Err(Ip4Error::BadVersion));
    assert_eq!(changed(|b| b[0] = 0x44), Err(Ip4Error::BadHeaderLength));
    assert_eq!(changed(|b| b[0] = 0x48), Err(Ip4Error::BadHeaderLength));
    assert_eq!(changed(|b| b[3] = 19), Err(Ip4Error::BadTotalLength));
    assert_eq!(changed(|b| b[3] = 29), Err(Ip4Error::BadTotalLength));
    // With two words of options a total length of 24 is under the header length, though over 20.
    assert_eq!(changed(|b| (b[0], b[3]) = (0x47, 24)), Err(Ip4Error::BadTotalLength));
    // A right checksum does not help a wrong length.
    for (total, packet_len) in [(0, 28), (19, 28), (29, 28), (28, 27)] {
        let mut bytes = PACKET;
        bytes[3] = total;
        fill_checksum(&mut bytes[..20]);
        assert_eq!(Ip4View::parse_chained(&bytes, packet_len).unwrap_err(), Ip4Error::BadTotalLength);
    }
    assert_eq!(changed(|b| b[8] = 63), Err(Ip4Error::BadChecksum));
    assert_eq!(changed(|b| b[0] = 0x46), Err(Ip4Error::BadChecksum));
    assert_eq!(changed(|_| ()), Ok(()));
}

#[test]
fn padding_and_chains() {
    let padded = [&PACKET[..], &[0xee; 18]].concat();
    assert_eq!(Ip4View::parse(&padded).unwrap().payload().len(), 8);
    // The payload may go on in other buffers; the header may not.
    assert_eq!(Ip4View::parse(&PACKET[..24]).unwrap_err(), Ip4Error::BadTotalLength);
    assert_eq!(Ip4View::parse_chained(&PACKET[..24], 28).unwrap().payload().len(), 4);
    let view = Ip4View::parse_quoted(&PACKET[..22]).unwrap();
    assert_eq!((view.total_len(), view.payload().len()), (28, 2));
}

#[test]
fn builder_makes_the_same_bytes() {
    let mut out = [0xaa; 28];
    let mut builder =
        Ip4Builder::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2), IpProtocol::UDP);
    builder.id = 0x1c46;
    builder.dont_fragment = true;
    assert_eq!(builder.emit(&mut out, 8), Ok(20));
    assert_eq!(out[..20], PACKET[..20]);
    assert_eq!(builder.emit(&mut out[..19], 8), Err(BuildError::NoRoom { needed: 20 }));
    assert_eq!(builder.emit(&mut out, 65516), Err(BuildError::TooLong));
    assert_eq!(builder.emit(&mut out, usize::MAX), Err(BuildError::TooLong));
    assert_eq!(builder.emit(&mut out, 65515), Ok(20));
    assert_eq!(builder.emit_with_options(&mut [0; 80], &[1; 41], 0), Err(BuildError::TooLong));
    assert_eq!(builder.emit_with_options(&mut out, &[148, 4, 0, 0, 1], 0), Ok(28));
    let view = Ip4View::parse(&out).unwrap();
    assert_eq!(view.header_len(), 28);
    assert_eq!(view.options().next().unwrap().unwrap().kind, OptionKind::ROUTER_ALERT);
}

#[test]
fn ttl_decrement_over_every_checksum() {
    for check in 0..=u16::MAX {
        for (ttl, proto) in [(1u8, 0u8), (2, 17), (64, 6), (128, 255), (255, 1)] {
            let mut h = *PACKET.first_chunk().unwrap();
            (h[8], h[9]) = (ttl, proto);
            put16(&mut h, 10, check);
            let expected = checksum::update16(check, be16(&h, 8), be16(&h, 8) - 0x100);
            assert_eq!(decrement_ttl(&mut h), ttl - 1);
            assert_eq!(be16(&h, 10), expected, "checksum {check:#06x}");
        }
    }
    let mut h = *PACKET.first_chunk().unwrap();
    h[8] = 0;
    let before = h;
    assert_eq!(decrement_ttl(&mut h), 0);
    assert_eq!(h, before);
}

#[test]
fn ttl_decrement_equals_a_fresh_checksum() {
    for id in 0..=u16::MAX {
        let mut h: [u8; 20] = *PACKET.first_chunk().unwrap();
        put16(&mut h, 4, id);
        fill_checksum(&mut h);
        assert!(check(&h, 28).is_ok());
        decrement_ttl(&mut h);
        let incremental = h;
        fill_checksum(&mut h);
        assert_eq!(incremental, h);
    }
}

proptest! {
    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100), len in 0usize..200) {
        let _ = Ip4View::parse(&data).map(|v| v.options().count());
        let _ = Ip4View::parse_chained(&data, len).map(|v| v.payload().len());
        let _ = Ip4View::parse_quoted(&data).map(|v| v.options().count());
    }

    #[test]
    fn mutated_packets_agree_with_etherparse(
        options in proptest::collection::vec(any::<u8>(), 0..41),
        payload in 0usize..60, at in 0usize..60, with: u8, mutate: bool,
    ) {
        let mut bytes = vec![0; 120];
        let builder = Ip4Builder::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), IpProtocol::TCP);
        let header = builder.emit_with_options(&mut bytes, &options, payload).unwrap();
        bytes.truncate(header + payload);
        prop_assert!(Ip4View::parse(&bytes).is_ok());
        if mutate && at < bytes.len() {
            bytes[at] = with;
        }
        let ours = Ip4View::parse(&bytes);
        let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes);
        match (&ours, &theirs) {
            (Ok(view), Ok(h)) => {
                prop_assert_eq!(view.header_len(), h.slice().len());
                prop_assert_eq!(view.src(), h.source_addr());
                prop_assert_eq!(view.dst(), h.destination_addr());
                prop_assert_eq!(view.total_len(), h.total_len());
                prop_assert_eq!(view.checksum(), h.to_header().calc_header_checksum());
            }
            (Err(Ip4Error::BadChecksum | Ip4Error::BadTotalLength), Ok(_)) => {}
            (Err(_), Err(_)) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn field_changes_keep_the_checksum(tos: u8, src: u32, dst: u32) {
        let mut h: [u8; 20] = *PACKET.first_chunk().unwrap();
        set_tos(&mut h, tos);
        set_src(&mut h, src.into());
        set_dst(&mut h, dst.into());
        let ours = h;
        fill_checksum(&mut h);
        prop_assert_eq!(ours, h);
        let view = Ip4Header(&ours);
        prop_assert_eq!((view.tos(), view.src_u32(), view.dst_u32()), (tos, src, dst));
    }
}
