use super::*;
use crate::bytes::put16;
use crate::eth::MacAddr;
use proptest::prelude::*;

// Scapy: IPv6(src="fe80::1", dst="ff02::1:ff00:2",
//   hlim=255)/ICMPv6ND_NS(tgt="2001:db8::2")/ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")
const SOLICIT: [u8; 72] = [
    0x60, 0, 0, 0, 0, 0x20, 0x3a, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 2, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 2, 0x87, 0, 0x4b, 0x5f, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 2, 0, 0, 0, 0, 1,
];

// Scapy: IPv6(src="2001:db8::2", dst="fe80::1", hlim=255)/ICMPv6ND_NA(tgt="2001:db8::2", R=1, S=1,
//   O=1)/ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:02")
const ADVERT: [u8; 72] = [
    0x60, 0, 0, 0, 0, 0x20, 0x3a, 0xff, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xfe, 0x80,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x88, 0, 0x39, 0xa9, 0xe0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 2, 0, 0, 0, 0, 2,
];

// Scapy: IPv6(src="::", dst="ff02::1:ff00:2", hlim=255)/ICMPv6ND_NS(tgt="2001:db8::2")
const DAD: [u8; 64] = [
    0x60, 0, 0, 0, 0, 0x18, 0x3a, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 2, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 1, 0xff, 0, 0, 2, 0x87, 0, 0x4c, 0xeb, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 2,
];

// Scapy: IPv6(src="fe80::1", dst="ff02::1", hlim=255)/ICMPv6ND_RA(chlim=64, M=1, O=0, routerlifetime=1800,
//   reachabletime=1000, retranstimer=2000)/ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")/ICMPv6NDOptM
//   TU(mtu=1500)/ICMPv6NDOptPrefixInfo(prefix="2001:db8::", prefixlen=64, validlifetime=7200,
//   preferredlifetime=3600, L=1, A=1)
const ROUTER_ADVERT: [u8; 104] = [
    0x60, 0, 0, 0, 0, 0x40, 0x3a, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 2, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x86, 0, 0x7f, 0x2a, 0x40, 0x88, 7, 8, 0, 0, 3, 0xe8, 0, 0, 7, 0xd0,
    1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 0xdc, 3, 4, 0x40, 0xc0, 0, 0, 0x1c, 0x20, 0, 0, 0x0e, 0x10,
    0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

// Scapy: IPv6(src="fe80::1", dst="ff02::2",
//   hlim=255)/ICMPv6ND_RS()/ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")
const ROUTER_SOLICIT: [u8; 56] = [
    0x60, 0, 0, 0, 0, 0x10, 0x3a, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 2, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x85, 0, 0x7a, 0x2c, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1,
];

// Scapy: IPv6(src="fe80::1", dst="2001:db8::9", hlim=255)/ICMPv6ND_Redirect(tgt="fe80::2",
//   dst="2001:db8:1::5")/ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:02")
const REDIRECT: [u8; 88] = [
    0x60, 0, 0, 0, 0, 0x30, 0x3a, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 1, 0x0d,
    0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x89, 0, 0x1a, 0x0c, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 2, 0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, 1, 2, 0, 0, 0, 0, 2,
];

const MAC1: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC2: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn parse(packet: &[u8]) -> Result<NdMessage<'_>, NdError> {
    NdMessage::parse(&Ip6View::parse(packet).unwrap())
}

/// Applies `change` and makes the checksum right again, so that only the change is wrong.
fn changed(packet: &[u8], change: impl Fn(&mut Vec<u8>)) -> NdError {
    let mut p = packet.to_vec();
    change(&mut p);
    repair(&mut p);
    parse(&p).unwrap_err()
}

fn repair(p: &mut [u8]) {
    let len = p.len() - 40;
    put16(p.first_chunk_mut::<40>().unwrap(), 4, len as u16);
    let view = Ip6View::parse(p).unwrap();
    let mut sum = crate::checksum::pseudo6(view.src(), view.dst(), IpProtocol::ICMPV6, len as u32);
    p[42..44].fill(0);
    sum.add_bytes(&p[40..]);
    p[42..44].copy_from_slice(&sum.checksum().to_be_bytes());
}

#[test]
fn neighbor_solicitation() {
    let NdMessage::NeighborSolicitation(ns) = parse(&SOLICIT).unwrap() else { panic!("wrong kind") };
    assert_eq!((ns.target, ns.options.source_mac()), (ip("2001:db8::2"), Some(MAC1)));
    assert_eq!(ns.options.target_mac(), None);
    let mut out = [0; 72];
    assert_eq!(Solicitation::resolve(ip("fe80::1"), MAC1, ip("2001:db8::2")).emit(&mut out), Ok(72));
    assert_eq!(out, SOLICIT);
    assert_eq!(Solicitation::duplicate_detection(ip("2001:db8::2")).emit(&mut out), Ok(64));
    assert_eq!(out[..64], DAD);
    assert!(matches!(parse(&DAD), Ok(NdMessage::NeighborSolicitation(_))));
    assert_eq!(Solicitation::probe(ip("fe80::1"), MAC1, ip("2001:db8::2")).emit(&mut out), Ok(72));
    assert_eq!(Ip6View::parse(&out).unwrap().dst(), ip("2001:db8::2"));
    assert!(parse(&out).is_ok());
    assert!(Solicitation::probe(ip("fe80::1"), MAC1, ip("::2")).emit(&mut out[..71]).is_err());
}

#[test]
fn neighbor_advertisement() {
    let NdMessage::NeighborAdvertisement(na) = parse(&ADVERT).unwrap() else { panic!("wrong kind") };
    assert!(na.router && na.solicited && na.override_);
    assert_eq!((na.target, na.options.target_mac()), (ip("2001:db8::2"), Some(MAC2)));
    let mut out = [0; 72];
    assert_eq!(Advertisement::answer(ip("2001:db8::2"), MAC2, ip("fe80::1")).emit(&mut out), Ok(72));
    assert_eq!(out, ADVERT);
    Advertisement::unsolicited(ip("2001:db8::2"), MAC2).emit(&mut out).unwrap();
    let NdMessage::NeighborAdvertisement(na) = parse(&out).unwrap() else { panic!("wrong kind") };
    assert!(!na.solicited && na.override_);
    assert_eq!(Ip6View::parse(&out).unwrap().dst(), addr::ALL_NODES);
}

#[test]
fn router_messages() {
    let NdMessage::RouterAdvertisement(ra) = parse(&ROUTER_ADVERT).unwrap() else { panic!("wrong kind") };
    assert_eq!((ra.hop_limit, ra.managed, ra.other, ra.lifetime), (64, true, false, 1800));
    assert_eq!((ra.reachable_time, ra.retrans_timer), (1000, 2000));
    let options: Vec<_> = ra.options.into_iter().collect();
    assert_eq!((options.len(), options[0].mac(), options[1].mtu()), (3, Some(MAC1), Some(1500)));
    let prefix = options[2].prefix().unwrap();
    assert_eq!(
        (prefix.prefix, prefix.len, prefix.on_link, prefix.autonomous),
        (ip("2001:db8::"), 64, true, true)
    );
    assert_eq!((prefix.valid_lifetime, prefix.preferred_lifetime), (7200, 3600));

    let NdMessage::RouterSolicitation(rs) = parse(&ROUTER_SOLICIT).unwrap() else { panic!("wrong kind") };
    assert_eq!(rs.options.source_mac(), Some(MAC1));
    let mut out = [0; 56];
    assert_eq!(RouterSolicitation { src: ip("fe80::1"), source_mac: Some(MAC1) }.emit(&mut out), Ok(56));
    assert_eq!(out, ROUTER_SOLICIT);

    let NdMessage::Redirect(redirect) = parse(&REDIRECT).unwrap() else { panic!("wrong kind") };
    assert_eq!((redirect.target, redirect.destination), (ip("fe80::2"), ip("2001:db8:1::5")));
    assert_eq!(redirect.options.target_mac(), Some(MAC2));
}

#[test]
fn checks_of_all_messages() {
    let group = ip("ff02::1:ff00:2").octets();
    for packet in [&SOLICIT[..], &ADVERT, &ROUTER_ADVERT, &ROUTER_SOLICIT, &REDIRECT] {
        assert_eq!(changed(packet, |p| p[7] = 254), NdError::BadHopLimit);
        assert_eq!(changed(packet, |p| p[41] = 1), NdError::BadCode);
        let options = packet.len() - 8;
        if packet != ROUTER_ADVERT {
            assert_eq!(changed(packet, |p| p[options + 1] = 0), NdError::BadOption);
            assert_eq!(changed(packet, |p| p[options + 1] = 2), NdError::BadOption);
            assert_eq!(changed(packet, |p| p.truncate(options - 1)), NdError::TooShort);
            assert_eq!(changed(packet, |p| p.truncate(options + 1)), NdError::BadOption);
        }
        assert_eq!(changed(packet, |p| p[40] = 128), NdError::NotNd);
        let mut p = packet.to_vec();
        p[42] ^= 1;
        assert_eq!(parse(&p).unwrap_err(), NdError::BadChecksum);
        p = packet.to_vec();
        p[6] = 44;
        p.splice(40..40, [58, 0, 0, 0, 0, 0, 0, 1]);
        put16(p.first_chunk_mut::<40>().unwrap(), 4, packet.len() as u16 - 32);
        assert_eq!(parse(&p).unwrap_err(), NdError::Fragmented);
    }
    assert_eq!(changed(&SOLICIT, |p| p[48..64].copy_from_slice(&group)), NdError::BadTarget);
    assert_eq!(changed(&ADVERT, |p| p[48..64].copy_from_slice(&group)), NdError::BadTarget);
    assert_eq!(changed(&SOLICIT, |p| p[8..24].fill(0)), NdError::UnexpectedOption);
    assert_eq!(changed(&ROUTER_SOLICIT, |p| p[8..24].fill(0)), NdError::UnexpectedOption);
    assert_eq!(changed(&DAD, |p| p[24..40].copy_from_slice(&[0x22; 16])), NdError::BadDestination);
    assert_eq!(changed(&ADVERT, |p| p[24..40].copy_from_slice(&group)), NdError::BadDestination);
    let global = ip("2001:db8::7").octets();
    assert_eq!(changed(&ROUTER_ADVERT, |p| p[8..24].copy_from_slice(&global)), NdError::BadSource);
    assert_eq!(changed(&REDIRECT, |p| p[8..24].copy_from_slice(&global)), NdError::BadSource);
    assert_eq!(changed(&REDIRECT, |p| p[48..64].copy_from_slice(&global)), NdError::BadTarget);
    assert_eq!(changed(&REDIRECT, |p| p[64..80].copy_from_slice(&group)), NdError::BadDestination);
}

proptest! {
    #[test]
    fn mutated_messages(
        which in 0usize..6, changes in proptest::collection::vec((7usize..120, any::<u8>()), 0..4), cut in 44usize..140,
    ) {
        let packets: [&[u8]; 6] = [&SOLICIT, &ADVERT, &DAD, &ROUTER_ADVERT, &ROUTER_SOLICIT, &REDIRECT];
        let mut p = packets[which].to_vec();
        for (at, value) in changes {
            if at < p.len() {
                p[at] = value;
            }
        }
        p.truncate(cut);
        repair(&mut p);
        match parse(&p) {
            Ok(NdMessage::NeighborSolicitation(m)) => prop_assert!(!m.target.is_multicast()),
            Ok(NdMessage::NeighborAdvertisement(m)) => prop_assert!(!m.target.is_multicast()),
            Ok(NdMessage::RouterAdvertisement(m)) => {
                for o in m.options {
                    let _ = (o.mac(), o.mtu(), o.prefix());
                }
            }
            _ => {}
        }
    }

    #[test]
    fn any_options(data in proptest::collection::vec(0u8..6, 0..80)) {
        if let Some(options) = Options::checked(&data) {
            let len: usize = options.into_iter().map(|o| o.data.len() + 2).sum();
            prop_assert_eq!(len, data.len());
        }
    }
}
