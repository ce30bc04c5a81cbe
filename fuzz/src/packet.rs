//! Target `packet`: every parser of the crate `packet` on any bytes, and builders on what parsers said.

use ::packet::arp::{ArpMessage, ArpView};
use ::packet::eth::EthView;
use ::packet::frag::Fragmenter;
use ::packet::gso::{Segmenter, VnetHdr, complete_checksum};
use ::packet::icmp4::{self, IcmpView};
use ::packet::ip4::{self, Ip4Builder, Ip4View};
use ::packet::ip6::ext::Options as Ip6Options;
use ::packet::ip6::{self, Ip6Builder, Ip6View, addr};
use ::packet::nd::NdMessage;
use ::packet::proto::IpProtocol;
use ::packet::tcp::TcpView;
use ::packet::udp::UdpView;
use ::packet::vlan::{self, VlanStack};
use ::packet::{MacAddr, flow, icmp6};

/// All parsers. The first four bytes steer lengths and places.
pub fn run(data: &[u8]) {
    let Some((&[a, b, c, e], data)) = data.split_first_chunk() else { return };
    let number = u16::from_le_bytes([a, b]);
    link(data, number);
    ip4(data, number, c);
    ip6(data, c);
    upper(data);
    offload(data, number, c, e);
    let _ = std::str::from_utf8(data).map(str::parse::<MacAddr>);
    let mut chosen = flow::Flow::five_tuple(7);
    for (i, (_, field)) in flow::Fields::ALL.into_iter().enumerate() {
        if c >> i & 1 == 1 {
            chosen.fields = chosen.fields.with(field);
        }
    }
    let _ = (flow::of_ip4(data, chosen), flow::of_ip6(data, chosen));
}

fn link(data: &[u8], number: u16) {
    if let Ok(v) = EthView::parse(data) {
        let text = format!("{} {} {}", v.dst(), v.src(), v.ethertype());
        assert_eq!(MacAddr::from_u64(v.src().to_u64()), v.src(), "{text}");
        assert_eq!(v.src().to_string().parse(), Ok(v.src()));
        let _ = v.payload();
    }
    if let Some(stack) = VlanStack::parse(data) {
        assert!(usize::from(stack.header_len) <= data.len());
        let _ = (stack.outer_vid(), stack.inner_vid());
    }
    let mut copy = data.to_vec();
    let start = usize::from(number) % (data.len() + 2);
    if let Some(at) = vlan::push_at(&mut copy, start, ::packet::EtherType::VLAN, number) {
        // A frame that ends before its type cannot be told from one without a tag.
        let popped = vlan::pop_at(&mut copy, at);
        assert_eq!(popped, (data.len() - start >= 14).then_some(start));
        assert!(popped.is_none() || copy[start..] == data[start..], "push and pop leave the frame");
    }
    let _ = vlan::pop_at(&mut copy, start);
    if let Ok(v) = ArpView::parse(data) {
        let _ = (v.op(), v.is_gratuitous(), v.is_probe());
        let reply = ArpMessage::reply_to(&v, MacAddr([2, 0, 0, 0, 0, 9])).to_bytes();
        let reply = ArpView::parse(&reply).expect("an answer can be read");
        assert_eq!((reply.target_ip(), reply.sender_ip()), (v.sender_ip(), v.target_ip()));
    }
}

fn ip4(data: &[u8], number: u16, quirk: u8) {
    if let Ok(h) = ip4::check(data, data.len()) {
        let mut h = *h;
        let ttl = ip4::Ip4Header(&h).ttl();
        if ttl > 1 {
            ip4::decrement_ttl(&mut h);
            ip4::set_tos(&mut h, quirk);
            ip4::set_src(&mut h, "10.0.0.1".parse().unwrap());
            let again = [&h[..], &data[20..]].concat();
            let v = Ip4View::parse(&again).expect("incremental changes keep the checksum right");
            assert_eq!((v.ttl(), v.tos()), (ttl - 1, quirk));
        }
    }
    let _ = Ip4View::parse_chained(data, data.len() + usize::from(number));
    for v in [Ip4View::parse(data), Ip4View::parse_quoted(data)].into_iter().flatten() {
        assert!(v.header().len() + v.payload().len() <= data.len());
        let options = v.options().count();
        assert!(options <= 40);
        let _ = icmp4::may_send_error(&v, quirk & 1 == 1, quirk & 2 == 2);
        let _ = (v.fixed().dscp(), v.is_first(), v.fragment_offset());
        fragments(&v, data, usize::from(number));
    }
}

/// Fragments cover the payload, each once, and each has a right header.
fn fragments(v: &Ip4View<'_>, data: &[u8], mtu: usize) {
    let payload = data.len() - v.header().len();
    let Ok(f) = Fragmenter::new(v.header(), payload, mtu) else { return };
    let mut next = 0;
    for piece in f.fragments() {
        let mut header = [0; 60];
        let len = f.write_header(&piece, &mut header).expect("room");
        assert_eq!((piece.payload.start, piece.header_len), (next, len));
        next = piece.payload.end;
        assert!(f.count() == 1 || len + piece.payload.len() <= mtu);
        let bytes = [&header[..len], &data[v.header().len()..][piece.payload]].concat();
        let made = Ip4View::parse(&bytes).expect("a right fragment");
        assert_eq!(usize::from(made.total_len()), bytes.len());
    }
    assert_eq!(next, payload);
}

fn ip6(data: &[u8], quirk: u8) {
    let _ = ip6::check(data, data.len());
    for v in [Ip6View::parse(data), Ip6View::parse_quoted(data)].into_iter().flatten() {
        let _ = (v.traffic_class(), v.flow_label(), v.hop_limit(), v.payload());
        match v.upper_layer() {
            Ok(u) => {
                assert!(u.offset <= v.packet().len());
                if let Some(range) = u.hop_by_hop_range() {
                    for o in Ip6Options::new(v.packet(), range).flatten() {
                        let _ = (o.unknown_action(), o.may_change());
                    }
                }
            }
            Err(e) => assert!(e.pointer() <= data.len()),
        }
        if let Ok(m) = NdMessage::parse(&v) {
            let _ = format!("{m:?}");
        }
        let error = icmp6::ErrorMessage::PacketTooBig { mtu: 1280 };
        if error.may_be_sent(&v, quirk & 1 == 1) {
            let mut out = [0; 1500];
            let ip = Ip6Builder::new(v.dst(), v.src(), IpProtocol::ICMPV6);
            let len = error.emit(&mut out, ip, v.packet()).expect("room");
            assert!(len <= 1280);
            let made = Ip6View::parse(&out[..len]).expect("a right error");
            assert!(icmp6::verify(made.src(), made.dst(), made.payload()));
        }
        let _ = addr::solicited_node(v.dst());
    }
}

fn upper(data: &[u8]) {
    let (src, dst) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    if let Ok(v) = UdpView::parse(data) {
        let _ = (v.verify4(src, dst), v.payload());
    }
    if let Ok(v) = TcpView::parse(data) {
        assert!(v.header_len() + v.payload().len() <= data.len());
        let _ = (v.verify4(src, dst), v.mss());
        assert!(v.options().count() <= 40);
    }
    if let Ok(v) = IcmpView::parse_unverified(data) {
        let _ = (v.kind(), v.code(), v.rest(), v.echo_id(), v.body());
    }
    if let Ok(v) = IcmpView::parse4(data) {
        let mut header: [u8; 8] = *data.first_chunk().unwrap();
        if v.kind() == 8 {
            icmp4::echo_reply_in_place(&mut header);
            let again = [&header[..], v.body()].concat();
            assert_eq!(IcmpView::parse4(&again).expect("a right reply").kind(), 0);
        }
    }
    if let Ok(v) = Ip4View::parse(data) {
        let mut out = [0; 1500];
        let ip = Ip4Builder::new(v.dst(), v.src(), IpProtocol::ICMP);
        let len = icmp4::ErrorMessage::TimeExceeded(0).emit(&mut out, ip, data).expect("room");
        assert!(len <= 576, "RFC 1812 section 4.3.2.3");
        let made = Ip4View::parse(&out[..len]).expect("a right error");
        IcmpView::parse4(made.payload()).expect("with a right checksum");
    }
}

fn offload(data: &[u8], number: u16, quirk: u8, more: u8) {
    let Some((h, frame)) = data.split_first_chunk() else { return };
    let h = VnetHdr::parse(h);
    assert_eq!(VnetHdr::parse(&h.to_bytes()), h);
    let _ = h.shifted(i16::from(quirk as i8));
    let frame_len = frame.len() + usize::from(number);
    let Ok(o) = h.validate(frame.len()) else { return };
    if let Some(partial) = o.checksum {
        let mut copy = frame.to_vec();
        complete_checksum(&mut copy, [], partial).expect("a place within the frame");
    }
    let Some(gso) = o.gso else { return };
    let Ok(s) = Segmenter::new(frame, frame_len, gso) else { return };
    let (mut next, mut out) = (0, vec![0; 400]);
    assert!(s.header_len() <= frame.len());
    for piece in s.segments().take(300) {
        assert_eq!(piece.payload.start, next);
        next = piece.payload.end;
        if piece.index > 4 && !piece.last && piece.index != usize::from(more) {
            continue;
        }
        // What lies beyond the first piece counts as zeros.
        let mut payload = vec![0; piece.payload.len()];
        let from = frame.get(s.header_len() + piece.payload.start..).unwrap_or_default();
        let n = from.len().min(payload.len());
        payload[..n].copy_from_slice(&from[..n]);
        out.resize(s.header_len(), 0);
        let len = s.write_headers_of(&piece, [&payload[..]], &mut out).expect("room");
        assert_eq!(len, s.header_len());
        let segment = [&out[..len], &payload].concat();
        let l3 = usize::from(VlanStack::parse(&segment).expect("headers").header_len);
        match segment[l3] >> 4 {
            4 => {
                let v = Ip4View::parse(&segment[l3..]).expect("a right header");
                assert!(match v.protocol() {
                    IpProtocol::TCP => TcpView::parse(v.payload()).unwrap().verify4(v.src(), v.dst()),
                    _ => UdpView::parse(v.payload()).unwrap().verify4(v.src(), v.dst()),
                });
            }
            _ => {
                let v = Ip6View::parse(&segment[l3..]).expect("a right header");
                let u = v.upper_layer().expect("as before");
                let rest = &v.packet()[u.offset..];
                assert!(match u.protocol {
                    IpProtocol::TCP => TcpView::parse(rest).unwrap().verify6(v.src(), v.dst()),
                    _ => UdpView::parse(rest).unwrap().verify6(v.src(), v.dst()),
                });
            }
        }
    }
}
