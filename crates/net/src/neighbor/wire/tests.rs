//! Frames against bytes that Scapy 2 made, with
//! `O="02:00:00:00:00:01"`, `H="02:00:00:00:00:99"`, `a="2001:db8::1"`, `t="2001:db8::1:2345"`.

use super::super::Millis;
use super::super::address::{AddressState, ConflictKind};
use super::super::table::{Action, Heard, NeighborTable};
use super::*;
use packet::MacAddr;
use packet::arp::ArpError;
use packet::eth::EtherType;
use packet::nd::NdError;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr};

/// `Ether(src=O,dst="ff:ff:ff:ff:ff:ff")/ARP(op=1,hwsrc=O,psrc="10.0.0.1",pdst="10.0.0.2")`
const ARP_BCAST: &str =
    "ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002";
/// `Ether(src=O,dst=H)/ARP(op=1,hwsrc=O,psrc="10.0.0.1",pdst="10.0.0.2")`
const ARP_UNI: &str = "020000000099020000000001080600010800060400010200000000010a0000010000000000000a000002";
/// `Ether(src=O,dst="ff:ff:ff:ff:ff:ff")/ARP(op=1,hwsrc=O,psrc="10.0.0.1",pdst="10.0.0.1")`
const GARP: &str = "ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000001";
/// `Ether(src=O,dst="33:33:ff:01:23:45")/IPv6(src=a,dst="ff02::1:ff01:2345",hlim=255)/ICMPv6ND_NS(tgt=t)/ICMPv6NDOptSrcLLAddr(lladdr=O)`
const NS_MCAST: &str = concat!(
    "3333ff01234502000000000186dd6000000000203aff20010db8000000000000000000000001ff020000000000000000",
    "0001ff0123458700d59e0000000020010db80000000000000000000123450101020000000001",
);
/// `Ether(src=O,dst=H)/IPv6(src=a,dst=t,hlim=255)/ICMPv6ND_NS(tgt=t)/ICMPv6NDOptSrcLLAddr(lladdr=O)`
const NS_UNI: &str = concat!(
    "02000000009902000000000186dd6000000000203aff20010db800000000000000000000000120010db8000000000000",
    "0000000123458700a5ea0000000020010db80000000000000000000123450101020000000001",
);
/// `Ether(src=O,dst="33:33:ff:00:00:01")/IPv6(src="::",dst="ff02::1:ff00:1",hlim=255)/ICMPv6ND_NS(tgt=a)`
const NS_DAD: &str = concat!(
    "3333ff00000102000000000186dd6000000000183aff00000000000000000000000000000000ff020000000000000000",
    "0001ff00000187004ced0000000020010db8000000000000000000000001",
);
/// `Ether(src=O,dst="33:33:00:00:00:01")/IPv6(src=a,dst="ff02::1",hlim=255)/ICMPv6ND_NA(tgt=a,R=1,S=0,O=1)/ICMPv6NDOptDstLLAddr(lladdr=O)`
const NA_UNSOL: &str = concat!(
    "33330000000102000000000186dd6000000000203aff20010db8000000000000000000000001ff020000000000000000",
    "0000000000018800792aa000000020010db80000000000000000000000010201020000000001",
);
/// `Ether(src=O,dst="33:33:ff:01:23:45")/Dot1Q(vlan=100)/IPv6(src=a,dst="ff02::1:ff01:2345",hlim=255)/ICMPv6ND_NS(tgt=t)/ICMPv6NDOptSrcLLAddr(lladdr=O)`
const NS_VLAN: &str = concat!(
    "3333ff0123450200000000018100006486dd6000000000203aff20010db8000000000000000000000001ff0200000000",
    "000000000001ff0123458700d59e0000000020010db80000000000000000000123450101020000000001",
);
/// `Ether(src=H,dst="ff:ff:ff:ff:ff:ff")/ARP(op=1,hwsrc=H,psrc="10.0.0.2",pdst="10.0.0.1")`
const R_ARP_REQ: &str =
    "ffffffffffff020000000099080600010800060400010200000000990a0000020000000000000a000001";
/// `Ether(src=O,dst=H)/ARP(op=2,hwsrc=O,psrc="10.0.0.1",hwdst=H,pdst="10.0.0.2")`
const A_ARP_REP: &str =
    "020000000099020000000001080600010800060400020200000000010a0000010200000000990a000002";
/// `Ether(src=H,dst=O)/ARP(op=2,hwsrc=H,psrc="10.0.0.2",hwdst=O,pdst="10.0.0.1")/Padding(b"\0"*18)`
const R_ARP_REP: &str = concat!(
    "020000000001020000000099080600010800060400020200000000990a0000020200000000010a000001000000000000",
    "000000000000000000000000",
);
/// `Ether(src=H,dst="33:33:ff:00:00:01")/IPv6(src=t,dst="ff02::1:ff00:1",hlim=255)/ICMPv6ND_NS(tgt=a)/ICMPv6NDOptSrcLLAddr(lladdr=H)`
const R_NS: &str = concat!(
    "3333ff00000102000000009986dd6000000000203aff20010db8000000000000000000012345ff020000000000000000",
    "0001ff0000018700f84b0000000020010db80000000000000000000000010101020000000099",
);
/// `Ether(src=O,dst=H)/IPv6(src=a,dst=t,hlim=255)/ICMPv6ND_NA(tgt=a,R=1,S=1,O=1)/ICMPv6NDOptDstLLAddr(lladdr=O)`
const A_NA: &str = concat!(
    "02000000009902000000000186dd6000000000203aff20010db800000000000000000000000120010db8000000000000",
    "0000000123458800e72ee000000020010db80000000000000000000000010201020000000001",
);
/// `Ether(src=O,dst=H)/IPv6(src=a,dst=t,hlim=255)/ICMPv6ND_NA(tgt=a,R=1,S=1,O=0)/ICMPv6NDOptDstLLAddr(lladdr=O)`
const A_NA_OPT: &str = concat!(
    "02000000009902000000000186dd6000000000203aff20010db800000000000000000000000120010db8000000000000",
    "0000000123458800072fc000000020010db80000000000000000000000010201020000000001",
);
/// `Ether(src=H,dst="33:33:ff:00:00:01")/IPv6(src="::",dst="ff02::1:ff00:1",hlim=255)/ICMPv6ND_NS(tgt=a)`
const R_NS_DAD: &str = concat!(
    "3333ff00000102000000009986dd6000000000183aff00000000000000000000000000000000ff020000000000000000",
    "0001ff00000187004ced0000000020010db8000000000000000000000001",
);
/// `Ether(src=H,dst=O)/IPv6(src=t,dst=a,hlim=255)/ICMPv6ND_NA(tgt=t,R=0,S=1,O=1)/ICMPv6NDOptDstLLAddr(lladdr=H)`
const R_NA: &str = concat!(
    "02000000000102000000009986dd6000000000203aff20010db800000000000000000001234520010db8000000000000",
    "000000000001880043526000000020010db80000000000000000000123450201020000000099",
);
/// `Ether(src=H,dst=O)/IPv6(src=t,dst=a,hlim=255)/ICMPv6ND_NA(tgt=t,R=1,S=1,O=0)`
const R_NA_NOOPT: &str = concat!(
    "02000000000102000000009986dd6000000000183aff20010db800000000000000000001234520010db8000000000000",
    "0000000000018800e7f3c000000020010db8000000000000000000012345",
);
/// `Ether(src=H,dst="33:33:00:00:00:01")/IPv6(src=a,dst="ff02::1",hlim=255)/ICMPv6ND_NA(tgt=a,R=0,S=0,O=1)/ICMPv6NDOptDstLLAddr(lladdr=H)`
const R_NA_OURS: &str = concat!(
    "33330000000102000000009986dd6000000000203aff20010db8000000000000000000000001ff020000000000000000",
    "0000000000018800f8922000000020010db80000000000000000000000010201020000000099",
);
/// `Ether(src=H,dst="33:33:ff:00:00:01")/IPv6(src=t,dst="ff02::1:ff00:1",hlim=255)/ICMPv6ND_NS(tgt=a)/ICMPv6NDOptSrcLLAddr(lladdr="00:00:00:00:00:00")`
const R_NS_ZEROMAC: &str = concat!(
    "3333ff00000102000000009986dd6000000000203aff20010db8000000000000000000012345ff020000000000000000",
    "0001ff0000018700fae40000000020010db80000000000000000000000010101000000000000",
);

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ip6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// 10.0.0.1/24 and 2001:db8::1/64 on one interface.
struct Ours(AddressState);

impl Local for Ours {
    fn mac(&self) -> MacAddr {
        OWN
    }

    fn address(&self, addr: IpAddr) -> Option<AddressState> {
        (addr == ip("10.0.0.1") || addr == ip("2001:db8::1")).then_some(self.0)
    }

    fn on_link(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => a.octets()[..3] == [10, 0, 0],
            IpAddr::V6(a) => a.segments()[..4] == [0x2001, 0xdb8, 0, 0],
        }
    }
}

fn usable(frame: &[u8]) -> Result<Reading, Discard> {
    read(frame, &Ours(AddressState::Usable))
}

fn heard(addr: &str, mac: Option<MacAddr>, what: Heard) -> Option<Neighbor> {
    Some(Neighbor { addr: ip(addr), mac, what })
}

fn answered(reading: &Reading) -> Option<Vec<u8>> {
    reading.reply.as_ref().map(|m| m.frame(OWN, &[]))
}

/// Changes bytes of a frame, and repairs the ICMPv6 checksum of an IPv6 packet without extension headers.
fn changed(frame: &str, changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut frame = hex(frame);
    for (at, bytes) in changes {
        frame[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    if frame[12..14] == [0x86, 0xdd] {
        frame[56..58].fill(0);
        let mut sum = packet::checksum::Sum::of(&frame[22..]);
        sum.add_u32(frame.len() as u32 - 54);
        sum.add_u32(58);
        let sum = sum.checksum();
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

#[test]
fn solicitations() {
    let frame =
        |source, target, unicast| solicit(OWN, ip(source), ip(target), unicast).unwrap().frame(OWN, &[]);
    assert_eq!(frame("10.0.0.1", "10.0.0.2", None), hex(ARP_BCAST));
    assert_eq!(frame("10.0.0.1", "10.0.0.2", Some(HOST)), hex(ARP_UNI));
    assert_eq!(frame("2001:db8::1", "2001:db8::1:2345", None), hex(NS_MCAST));
    assert_eq!(frame("2001:db8::1", "2001:db8::1:2345", Some(HOST)), hex(NS_UNI));
    assert_eq!(solicit(OWN, ip("10.0.0.1"), ip("2001:db8::1:2345"), None), None);
    let tagged = solicit(OWN, ip("2001:db8::1"), ip("2001:db8::1:2345"), None).unwrap();
    assert_eq!(tagged.frame(OWN, &[(EtherType::VLAN, 100)]), hex(NS_VLAN));
}

#[test]
fn announcements() {
    assert_eq!(gratuitous_arp(OWN, "10.0.0.1".parse().unwrap()).frame(OWN, &[]), hex(GARP));
    assert_eq!(dad_ns(ip6("2001:db8::1")).frame(OWN, &[]), hex(NS_DAD));
    assert_eq!(unsolicited_na(OWN, ip6("2001:db8::1")).frame(OWN, &[]), hex(NA_UNSOL));
}

#[test]
fn arp_requests() {
    let reading = usable(&hex(R_ARP_REQ)).unwrap();
    let request = |for_us| Heard::ArpRequest { for_us };
    assert_eq!(reading.neighbor, heard("10.0.0.2", Some(HOST), request(true)));
    assert_eq!(answered(&reading), Some(hex(A_ARP_REP)));
    assert!(!reading.mac_mismatch && reading.conflict.is_none());
    // For somebody else, and gratuitous.
    for target in [3, 2] {
        let reading = usable(&changed(R_ARP_REQ, &[(41, &[target])])).unwrap();
        assert_eq!(reading.neighbor, heard("10.0.0.2", Some(HOST), request(false)));
        assert_eq!(reading.reply, None);
    }
    // From another subnet: answered, not learned.
    let reading = usable(&changed(R_ARP_REQ, &[(28, &[10, 0, 9, 2])])).unwrap();
    assert!(reading.neighbor.is_none() && reading.reply.is_some());
    // A probe is answered, and tells nothing of the sender.
    let reading = usable(&changed(R_ARP_REQ, &[(28, &[0, 0, 0, 0])])).unwrap();
    assert!(reading.neighbor.is_none() && reading.reply.is_some() && reading.conflict.is_none());
    // Another MAC address than the frame's.
    assert!(usable(&changed(R_ARP_REQ, &[(27, &[0x98])])).unwrap().mac_mismatch);
    // An address that is not in use is not answered for.
    let reading = read(&hex(R_ARP_REQ), &Ours(AddressState::Down)).unwrap();
    assert!(reading.reply.is_none());
}

#[test]
fn arp_replies() {
    let reply = |solicited| heard("10.0.0.2", Some(HOST), Heard::ArpReply { solicited });
    assert_eq!(usable(&hex(R_ARP_REP)).unwrap().neighbor, reply(true));
    // Broadcast, gratuitous, or to another address: not an answer to us.
    for change in [(0, &[0xff; 6][..]), (38, &[10, 0, 0, 2]), (38, &[10, 0, 0, 7])] {
        assert_eq!(usable(&changed(R_ARP_REP, &[change])).unwrap().neighbor, reply(false));
    }
}

#[test]
fn arp_claims_of_our_address() {
    let claim = Some(Conflict { addr: ip("10.0.0.1"), by: HOST, kind: ConflictKind::Arp });
    for frame in [R_ARP_REQ, R_ARP_REP] {
        let reading = usable(&changed(frame, &[(28, &[10, 0, 0, 1])])).unwrap();
        assert_eq!((reading.conflict, reading.neighbor, reading.reply), (claim, None, None));
    }
    assert_eq!(usable(&hex(GARP)), Err(Discard::OwnMac));
}

#[test]
fn arp_that_is_discarded() {
    let discard = |frame: &str, at: usize, bytes: &[u8]| usable(&changed(frame, &[(at, bytes)])).unwrap_err();
    for frame in [R_ARP_REQ, R_ARP_REP] {
        for mac in [[0xff; 6], [0; 6], [1, 0, 0x5e, 0, 0, 1]] {
            assert_eq!(discard(frame, 22, &mac), Discard::BadMac);
            assert_eq!(discard(frame, 6, &mac), Discard::BadSource);
        }
        for sender in [[224, 0, 0, 1], [255; 4], [127, 0, 0, 1]] {
            assert_eq!(discard(frame, 28, &sender), Discard::BadSender);
        }
        assert_eq!(discard(frame, 21, &[9]), Discard::Arp(ArpError::BadOperation));
        assert_eq!(discard(frame, 12, &[8, 0]), Discard::NotNeighbor);
    }
    assert_eq!(discard(R_ARP_REP, 28, &[0; 4]), Discard::BadSender);
    assert_eq!(usable(&hex(R_ARP_REQ)[..41]), Err(Discard::Arp(ArpError::TooShort)));
    assert_eq!(usable(&hex(R_ARP_REQ)[..13]), Err(Discard::NotNeighbor));
}

#[test]
fn neighbor_solicitations() {
    let reading = usable(&hex(R_NS)).unwrap();
    assert_eq!(reading.neighbor, heard("2001:db8::1:2345", Some(HOST), Heard::NsWithSource));
    assert_eq!(answered(&reading), Some(hex(A_NA)));
    let optimistic = read(&hex(R_NS), &Ours(AddressState::Optimistic)).unwrap();
    assert_eq!(answered(&optimistic), Some(hex(A_NA_OPT)));
    for state in [AddressState::Tentative, AddressState::Duplicate, AddressState::Down] {
        assert_eq!(read(&hex(R_NS), &Ours(state)), Ok(Reading::default()), "{state}");
    }
    // For somebody else.
    assert_eq!(usable(&changed(R_NS, &[(77, &[2])])), Ok(Reading::default()));
    // Without the option: answered to the source of the frame, not learned.
    let reading = usable(&changed(R_NS, &[(78, &[14])])).unwrap();
    assert_eq!((answered(&reading), reading.neighbor), (Some(hex(A_NA)), None));
    // Off-link source: not learned; link-local: always on the link.
    assert_eq!(usable(&changed(R_NS, &[(25, &[0xb9])])).unwrap().neighbor, None);
    let reading = usable(&changed(R_NS, &[(22, &[0xfe, 0x80, 0, 0])])).unwrap();
    assert_eq!(reading.neighbor, heard("fe80::1:2345", Some(HOST), Heard::NsWithSource));
}

#[test]
fn duplicate_detection_of_others() {
    let claim = Some(Conflict { addr: ip("2001:db8::1"), by: HOST, kind: ConflictKind::DadSolicit });
    for state in [AddressState::Tentative, AddressState::Optimistic] {
        let reading = read(&hex(R_NS_DAD), &Ours(state)).unwrap();
        assert_eq!((reading.conflict, reading.neighbor, reading.reply), (claim, None, None));
        assert_eq!(read(&hex(NS_DAD), &Ours(state)), Err(Discard::OwnMac));
    }
    let reading = usable(&hex(R_NS_DAD)).unwrap();
    assert_eq!((answered(&reading), reading.conflict), (Some(hex(NA_UNSOL)), None));
}

#[test]
fn neighbor_advertisements() {
    let na = |solicited, override_, router| Heard::Na { solicited, override_, router };
    let neighbor = |frame: &[u8]| usable(frame).unwrap().neighbor;
    assert_eq!(neighbor(&hex(R_NA)), heard("2001:db8::1:2345", Some(HOST), na(true, true, false)));
    assert_eq!(neighbor(&hex(R_NA_NOOPT)), heard("2001:db8::1:2345", None, na(true, false, true)));
    assert!(usable(&changed(R_NA, &[(85, &[0x98])])).unwrap().mac_mismatch);
    for state in [AddressState::Tentative, AddressState::Usable] {
        let reading = read(&hex(R_NA_OURS), &Ours(state)).unwrap();
        let claim = Conflict { addr: ip("2001:db8::1"), by: HOST, kind: ConflictKind::Advert };
        assert_eq!((reading.conflict, reading.neighbor), (Some(claim), None));
    }
    assert_eq!(usable(&hex(NA_UNSOL)), Err(Discard::OwnMac));
    // Off-link target.
    assert_eq!(neighbor(&changed(R_NA, &[(64, &[0xff])])), None);
}

#[test]
fn nd_that_is_discarded() {
    let nd = |frame: Vec<u8>| match usable(&frame) {
        Err(Discard::Nd(e)) => e,
        other => panic!("{other:?}"),
    };
    for frame in [R_NS, R_NA] {
        assert_eq!(nd(changed(frame, &[(21, &[254])])), NdError::BadHopLimit);
        assert_eq!(nd(changed(frame, &[(55, &[1])])), NdError::BadCode);
        assert_eq!(nd(changed(frame, &[(62, &[0xff, 2])])), NdError::BadTarget);
        assert_eq!(nd(changed(frame, &[(79, &[0])])), NdError::BadOption);
        let mut bad = hex(frame);
        bad[56] ^= 1;
        assert_eq!(nd(bad), NdError::BadChecksum);
        assert!(matches!(usable(&hex(frame)[..80]), Err(Discard::Ip6(_))));
        assert_eq!(usable(&changed(frame, &[(6, &[1])])), Err(Discard::BadSource));
        assert_eq!(usable(&changed(frame, &[(80, &[1])])), Err(Discard::BadMac));
    }
    assert_eq!(nd(changed(R_NA, &[(38, &[0xff, 2])])), NdError::BadDestination);
    assert_eq!(nd(changed(R_NS_DAD, &[(38, &[0x20, 1])])), NdError::BadDestination);
    assert_eq!(nd(changed(R_NS, &[(22, &[0; 16])])), NdError::UnexpectedOption);
    assert_eq!(usable(&hex(R_NS_ZEROMAC)), Err(Discard::BadMac));
    let own = ip6("2001:db8::1").octets();
    assert_eq!(usable(&changed(R_NS, &[(22, &own)])), Err(Discard::OwnAddress));
    assert_eq!(usable(&changed(R_NS, &[(22, &[0xff, 2])])), Err(Discard::BadSender));
    // An echo request is for others to read.
    assert_eq!(usable(&changed(R_NS, &[(54, &[128])])), Err(Discard::NotNeighbor));
}

#[test]
fn tags_are_passed_over() {
    let mut frame = hex(R_ARP_REQ);
    frame.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]);
    assert_eq!(usable(&frame).unwrap(), usable(&hex(R_ARP_REQ)).unwrap());
}

/// From frame to action and back: what one router asks another one answers.
#[test]
fn two_routers_meet() {
    struct Peer;
    impl Local for Peer {
        fn mac(&self) -> MacAddr {
            HOST
        }
        fn address(&self, addr: IpAddr) -> Option<AddressState> {
            let ours = addr == ip("10.0.0.2") || addr == ip("2001:db8::1:2345");
            ours.then_some(AddressState::Usable)
        }
        fn on_link(&self, addr: IpAddr) -> bool {
            Ours(AddressState::Usable).on_link(addr)
        }
    }
    for (own, peer) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::1:2345")] {
        let mut table = NeighborTable::new(Default::default(), 1);
        let mut out = Vec::new();
        table.interface_up(1, &mut out);
        table.resolve_wanted(Millis(0), 1, ip(peer), &mut out);
        let [Action::Solicit { target, unicast, .. }] = out[..] else { panic!("{out:?}") };
        let question = solicit(OWN, ip(own), target, unicast).unwrap().frame(OWN, &[]);
        let answer = read(&question, &Peer).unwrap().reply.unwrap().frame(HOST, &[]);
        let news = usable(&answer).unwrap().neighbor.unwrap();
        out.clear();
        table.heard(Millis(1), 1, news.addr, news.mac, news.what, &mut out);
        assert_eq!(out, [Action::Publish { interface: 1, addr: ip(peer), mac: HOST }]);
        assert_eq!(table.get(1, ip(peer)).unwrap().state, super::super::State::Reachable);
    }
}

proptest! {
    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..120), which in 0usize..8, at in 0usize..90) {
        let _ = usable(&data);
        let frames = [R_ARP_REQ, R_ARP_REP, R_NS, R_NS_DAD, R_NA, R_NA_NOOPT, R_NA_OURS, NS_VLAN];
        let mut frame = hex(frames[which]);
        for (to, from) in frame.iter_mut().skip(at).zip(data.iter().take(4)) {
            *to = *from;
        }
        let _ = usable(&frame);
        frame.truncate(at);
        let _ = usable(&frame);
    }
}
