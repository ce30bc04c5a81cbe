use super::*;
use crate::ip4::Ip4Builder;
use crate::ip6::Ip6Builder;
use crate::tcp::TcpBuilder;
use crate::udp::{UdpBuilder, UdpView};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const A4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ALL_FLAGS: u8 = flag::CWR | flag::ACK | flag::PSH | flag::FIN;

/// A super-frame with `tags` tags whose L4 checksum is not computed.
fn frame(kind: GsoKind, v6: bool, tags: usize, tcp_options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2; 12];
    for _ in 0..tags {
        f.extend([0x81, 0, 0, 5]);
    }
    f.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
    let mut l4 = vec![0; 100 + payload.len()];
    let len = match kind {
        GsoKind::Udp => UdpBuilder { src_port: 1, dst_port: 2 }.emit4(&mut l4, A4, B4, payload),
        _ => {
            let mut b = TcpBuilder::new(1, 2);
            (b.seq, b.flags, b.options) = (u32::MAX - 1000, ALL_FLAGS, tcp_options);
            b.emit4(&mut l4, A4, B4, payload)
        }
    }
    .unwrap();
    let protocol = if kind == GsoKind::Udp { IpProtocol::UDP } else { IpProtocol::TCP };
    let mut ip = [0; 40];
    let at = if v6 {
        Ip6Builder::new(A6, B6, protocol).emit(&mut ip, len).unwrap()
    } else {
        Ip4Builder { id: 0xfffe, ..Ip4Builder::new(A4, B4, protocol) }.emit(&mut ip, len).unwrap()
    };
    f.extend_from_slice(&ip[..at]);
    f.extend_from_slice(&l4[..len]);
    f
}

/// Cuts a frame that lies in two pieces and gives the frames that come out.
fn cut(frame: &[u8], gso: Gso, piece: usize) -> Vec<Vec<u8>> {
    let s = Segmenter::new(frame, frame.len(), gso).unwrap();
    assert_eq!(s.segments().len(), s.count());
    let payload = &frame[s.header_len()..];
    s.segments()
        .map(|seg| {
            let mut out = vec![0; s.header_len()];
            let mine = &payload[seg.payload.clone()];
            let pieces = mine.split_at(piece.min(mine.len()));
            assert_eq!(s.write_headers_of(&seg, [pieces.0, pieces.1], &mut out), Ok(s.header_len()));
            out.extend_from_slice(mine);
            out
        })
        .collect()
}

/// Checks every field and checksum of the segments of `super_frame`.
fn verify(super_frame: &[u8], gso: Gso, segments: &[Vec<u8>], payload: &[u8]) {
    let l3 = usize::from(VlanStack::parse(super_frame).unwrap().header_len);
    let mut joined = Vec::new();
    for (i, f) in segments.iter().enumerate() {
        assert_eq!(f[..l3], super_frame[..l3]);
        let (last, p) = (i + 1 == segments.len(), &f[l3..]);
        let (l4, v6) = if p[0] >> 4 == 6 {
            let view = Ip6View::parse(p).unwrap();
            assert_eq!(view.total_len(), p.len());
            (view.payload(), true)
        } else {
            let view = Ip4View::parse(p).unwrap();
            assert_eq!(usize::from(view.total_len()), p.len());
            assert_eq!(view.id(), 0xfffe_u16.wrapping_add(i as u16));
            (view.payload(), false)
        };
        let body = if gso.kind == GsoKind::Udp {
            let view = UdpView::parse(l4).unwrap();
            assert!(if v6 { view.verify6(A6, B6) } else { view.verify4(A4, B4) && view.checksum() != 0 });
            assert_eq!(usize::from(view.len()), l4.len());
            view.payload()
        } else {
            let view = TcpView::parse(l4).unwrap();
            assert!(if v6 { view.verify6(A6, B6) } else { view.verify4(A4, B4) });
            assert_eq!(view.seq(), (u32::MAX - 1000).wrapping_add(joined.len() as u32));
            let mut flags = flag::ACK;
            flags |= if i == 0 { flag::CWR } else { 0 };
            flags |= if last { flag::PSH | flag::FIN } else { 0 };
            assert_eq!(view.flags(), flags);
            view.payload()
        };
        assert!(last || body.len() == usize::from(gso.size));
        joined.extend_from_slice(body);
        assert!(etherparse::SlicedPacket::from_ethernet(f).is_ok());
    }
    assert_eq!(joined, payload);
}

#[test]
fn tcp_bytes() {
    // Scapy: Ether(src="02:02:02:02:02:02", dst="02:02:02:02:02:02")/IP(src="192.0.2.1", dst="198.51.100.2", id=0xfffe)/
    //   TCP(sport=1, dport=2, seq=0xfffffc17, flags="CAPF", window=65535)/b"abcdefg", cut by hand into "abcd" and "efg"
    let f = frame(GsoKind::Tcp4, false, 0, &[], b"abcdefg");
    let out = cut(&f, Gso { kind: GsoKind::Tcp4, size: 4 }, 1);
    let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
    let expected = [
        "02020202020202020202020208004500002cfffe000040068e96c0000201c633640200010002fffffc17000000005090ffff0238000061626364",
        "02020202020202020202020208004500002bffff000040068e96c0000201c633640200010002fffffc1b000000005019fffffb0b0000656667",
    ];
    assert_eq!([hex(&out[0]), hex(&out[1])], expected);
}

#[test]
fn errors() {
    let tcp = |size| Gso { kind: GsoKind::Tcp4, size };
    let f = frame(GsoKind::Tcp4, false, 1, &[], &[1; 5000]);
    let new = |f: &[u8], gso| Segmenter::new(f, f.len(), gso).map(|s| s.count());
    assert_eq!(new(&f, tcp(1000)), Ok(5));
    assert_eq!(new(&f, tcp(0)), Err(GsoError::ZeroSize));
    assert_eq!(new(&f, tcp(2)), Err(GsoError::TooManySegments));
    assert_eq!(new(&f, tcp(3)), Ok(1667));
    assert_eq!(new(&f, Gso { kind: GsoKind::Tcp6, size: 9 }), Err(GsoError::BadHeaders));
    assert_eq!(new(&f, Gso { kind: GsoKind::Udp, size: 9 }), Err(GsoError::BadHeaders));
    assert_eq!(new(&f[..40], tcp(9)), Err(GsoError::BadHeaders));
    assert_eq!(new(&f[..57], tcp(9)), Err(GsoError::BadHeaders));
    assert_eq!(new(&f[..58], tcp(9)), Ok(1), "headers without payload");
    let mut fragment = f.clone();
    fragment[18 + 6] = 0x20;
    assert_eq!(new(&fragment, tcp(1000)), Err(GsoError::Fragment));
    // Total length 0: more than 65,535 bytes.
    let mut big = f.clone();
    big[20..22].fill(0);
    assert_eq!(Segmenter::new(&big, 70_000, tcp(65_535)).err(), Some(GsoError::SegmentTooLong));
    assert_eq!(Segmenter::new(&big, 70_000, tcp(65_495)).unwrap().count(), 2);
    assert_eq!(Segmenter::new(&big, 10, tcp(9)).err(), Some(GsoError::BadHeaders));
    // Padding after the packet is no payload.
    assert_eq!(Segmenter::new(&f, f.len() + 10, tcp(1000)).unwrap().payload_len(), 5000);
    let s = Segmenter::new(&f, f.len(), tcp(1000)).unwrap();
    let first = s.segments().next().unwrap();
    assert_eq!(s.write_headers(&first, Sum::new(), &mut [0; 57]), Err(BuildError::NoRoom { needed: 58 }));
}

#[test]
fn ip6_extension_headers_are_kept() {
    let mut f = frame(GsoKind::Tcp6, true, 0, &[], &[7; 100]);
    f[14 + 6] = 60;
    f.splice(54..54, [6, 0, 1, 4, 0, 0, 0, 0]);
    f[14 + 5] += 8;
    let gso = Gso { kind: GsoKind::Tcp6, size: 60 };
    let out = cut(&f, gso, 3);
    assert_eq!(out.len(), 2);
    for f in &out {
        let view = Ip6View::parse(&f[14..]).unwrap();
        assert_eq!(view.total_len(), f.len() - 14);
        let upper = view.upper_layer().unwrap();
        assert!(TcpView::parse(&view.packet()[upper.offset..]).unwrap().verify6(A6, B6));
    }
    f[14 + 6] = 44;
    f[55] = 0;
    assert_eq!(Segmenter::new(&f, f.len(), gso).err(), Some(GsoError::Fragment));
}

proptest! {
    #[test]
    fn segments_are_right(
        kind in prop_oneof![Just(GsoKind::Tcp4), Just(GsoKind::Tcp6), Just(GsoKind::Udp)],
        v6: bool, tags in 0usize..3, options in proptest::collection::vec(Just(1u8), 0..41),
        payload in proptest::collection::vec(any::<u8>(), 0..5000), size in 8u16..2000, piece in 0usize..100,
    ) {
        let v6 = match kind { GsoKind::Tcp4 => false, GsoKind::Tcp6 => true, GsoKind::Udp => v6 };
        let f = frame(kind, v6, tags, &options, &payload);
        let gso = Gso { kind, size };
        let out = cut(&f, gso, piece);
        prop_assert_eq!(out.len(), payload.len().div_ceil(size.into()).max(1));
        verify(&f, gso, &out, &payload);
    }

    #[test]
    fn hostile_frames(
        kind in prop_oneof![Just(GsoKind::Tcp4), Just(GsoKind::Tcp6), Just(GsoKind::Udp)],
        v6: bool, tags in 0usize..3, changes in proptest::collection::vec((12usize..90, any::<u8>()), 0..5),
        cut in 0usize..200, frame_len in 0usize..100_000, size: u16,
    ) {
        let mut f = frame(kind, v6, tags, &[1; 12], &[3; 60]);
        for (at, value) in changes {
            if at < f.len() {
                f[at] = value;
            }
        }
        f.truncate(cut);
        if let Ok(s) = Segmenter::new(&f, frame_len, Gso { kind, size }) {
            prop_assert!(s.header_len() <= f.len() && s.header_len() + s.payload_len() <= frame_len);
            let mut out = [0; 200];
            let mut at = 0;
            for seg in s.segments() {
                prop_assert_eq!(seg.payload.start, at);
                at = seg.payload.end;
                s.write_headers(&seg, Sum::new(), &mut out).unwrap();
            }
            prop_assert_eq!(at, s.payload_len());
        }
    }
}
