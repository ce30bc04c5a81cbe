//! Packets against Scapy's bytes and against etherparse; rates, sizes, counts and buffers of whole queues.

use super::*;
use graph::buffer::{Buffers, Pool, PoolConfig, PoolMemory};
use graph::desc::Vector;
use graph::io::{Ready, RxQueue};
use graph::{Desc, flags};
use packet::IpProtocol;
use packet::checksum::{Sum, pseudo4, pseudo6};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const NODES: &[&str] = &["ethernet-input", "ip4-input", "ip6-input"];

fn pool(n: usize) -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: n, memory: PoolMemory::Normal }).unwrap()
}

fn stream(words: &str) -> StreamDef {
    let mut s = parse_words(words).unwrap();
    s.enabled = true;
    s
}

fn queue(s: &StreamDef) -> GeneratorQueue {
    GeneratorQueue::new(s.compile(7, NODES).unwrap())
}

/// Takes what one poll gives and returns its bytes; the buffers go back.
fn poll(q: &mut GeneratorQueue, b: &mut Buffers, now: u64) -> Vec<Vec<u8>> {
    let mut v = Vector::boxed();
    assert_eq!(q.poll(b, now, &mut v), v.len());
    take(b, &mut v)
}

fn take(b: &mut Buffers, v: &mut Vector) -> Vec<Vec<u8>> {
    let each = |d: Desc| {
        assert_eq!((d.rx, d.off, d.l2), (7, 128, 128));
        let bytes = b.parts(&d).flatten().copied().collect::<Vec<u8>>();
        b.free(d);
        bytes
    };
    v.take().map(each).collect()
}

fn packets(s: &StreamDef, n: usize) -> Vec<Vec<u8>> {
    let p = pool(2048);
    let (mut b, mut q, mut out) = (p.buffers(), queue(s), Vec::new());
    while out.len() < n {
        let got = poll(&mut q, &mut b, 0);
        assert!(!got.is_empty());
        out.extend(got);
    }
    assert_eq!(p.in_use(), 0);
    out.truncate(n);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Printed by Scapy 2.5 for the same headers with payloads 00 01 02 ...
const SCAPY: &[(&str, &str)] = &[
    (
        "a interface x data \"ethernet / ipv4 src 10.0.0.1 dst 10.0.2.2 / udp sport 1000 dport 2000\"",
        "02000000000202000000000108004500003200000000401164b90a0000010a00020203e807d0001e6f7e000102030405060708090a0b0c0d0e0f101112131415",
    ),
    (
        "a interface x size 92 data \"ethernet / vlan id 100 pcp 5 tpid 0x88a8 / vlan id 200 / ipv6 src 2001:db8::1 \
         dst 2001:db8:1::5 hop-limit 9 traffic-class 0x2e flow-label 0x12345 / tcp sport 5 dport 6 seq 0x01020304 ack 7 \
         flags syn,ack window 100\"",
        "02000000000202000000000188a8a064810000c886dd62e12345001e060920010db800000000000000000000000120010db8000100000000000000000005000500060102030400000007501200643bbb000000010203040506070809",
    ),
    (
        "a interface x node ip4-input data \"ipv4 src 192.0.2.1 dst 192.0.2.9 ttl 1 id 77 dscp 46 ecn 1 df / \
         icmp-echo id 3 seq 4\"",
        "45b90040004d40000101f4acc0000201c00002090800c4b300030004000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223",
    ),
    (
        "a interface x data \"ethernet / ipv6 src fe80::1 dst ff02::1 hop-limit 255 / icmp-echo reply id 9 seq 2 / raw 00 01:02 03\"",
        "02000000000202000000000186dd60000000000c3afffe800000000000000000000000000001ff02000000000000000000000000000181007f240009000200010203",
    ),
    (
        "a interface x data \"ethernet / arp sender-ip 10.0.0.1 target-ip 10.0.0.2\"",
        "020000000002020000000001080600010800060400010200000000010a0000010000000000000a00000200000000000000000000000000000000000000000000",
    ),
    (
        "a interface x node ip4-input data \"ipv4 src 10.0.0.1 dst 10.0.0.2 / ipv6 / udp sport 1 dport 2 checksum none / raw deadbeef\"",
        "45000048000000004029668b0a0000010a00000260000000000c114020010db800000000000000000000000120010db800000000000000000000000200010002000c0000deadbeef",
    ),
];

#[test]
fn packets_equal_those_of_scapy() {
    for (words, want) in SCAPY {
        assert_eq!(hex(&packets(&stream(words), 1)[0]), *want, "{words}");
    }
}

#[test]
fn changing_packets_equal_those_of_scapy() {
    // The seventh source, port and size of their ranges: 10.0.0.7, 2006 and 65.
    let s = stream(
        "a interface x size 59-70 data \"ethernet / ipv4 src 10.0.0.1-10.0.0.255 dst 10.0.2.2 / \
         udp sport 1000 dport 2000-3000\"",
    );
    assert_eq!(
        hex(&packets(&s, 7)[6]),
        "02000000000202000000000108004500003300000000401164b20a0000070a00020203e807d6001f5970000102030405060708090a0b0c0d0e0f10111213141516"
    );
}

/// Checks lengths and checksums from the IP header at `p` on; returns the payload behind the transport header.
fn verify_ip(p: &[u8]) {
    let (proto, body, pseudo): (u8, &[u8], _) = if p[0] >> 4 == 4 {
        let ip = packet::ip4::Ip4View::parse(p).unwrap();
        assert_eq!(usize::from(ip.fixed().total_len()), p.len());
        let (proto, body) = (ip.fixed().protocol(), ip.payload());
        (proto.0, body, pseudo4(ip.fixed().src(), ip.fixed().dst(), proto, body.len() as u16))
    } else {
        let h = packet::ip6::check(p, p.len()).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([h[4], h[5]])), p.len() - 40);
        let addr = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&h[at..at + 16]).unwrap());
        (h[6], &p[40..], pseudo6(addr(8), addr(24), IpProtocol(h[6]), p.len() as u32 - 40))
    };
    let whole = |first: Sum| {
        let mut sum = first;
        sum.append(Sum::of(body));
        sum.is_valid()
    };
    match proto {
        4 | 41 => verify_ip(body),
        17 => {
            assert_eq!(usize::from(u16::from_be_bytes([body[4], body[5]])), body.len());
            assert_ne!(body[6..8], [0, 0], "no checksum");
            assert!(whole(pseudo));
        }
        6 | 58 => assert!(whole(pseudo)),
        1 => assert!(whole(Sum::new())),
        _ => {}
    }
}

fn field<T: def::Value + Ord + std::fmt::Debug + 'static>(
    value: BoxedStrategy<T>,
) -> BoxedStrategy<Field<T>> {
    let mode = prop_oneof![Just(Mode::Increment), Just(Mode::Random)];
    (value.clone(), value, mode, any::<bool>())
        .prop_map(|(a, b, mode, fixed)| match fixed {
            true => Field::Fixed(a),
            false => Field::Range { low: a.min(b), high: a.max(b), mode },
        })
        .boxed()
}

fn ipv4() -> BoxedStrategy<Layer> {
    let addr = || field(any::<u32>().prop_map(Ipv4Addr::from_bits).boxed());
    (addr(), addr(), field(any::<u8>().boxed()), field((0u8..64).boxed()), field((0u8..4).boxed()))
        .prop_flat_map(|(src, dst, ttl, dscp, ecn)| {
            field(any::<u16>().boxed())
                .prop_map(move |id| Layer::Ipv4(Ipv4 { src, dst, ttl, dscp, ecn, id, ..Ipv4::default() }))
        })
        .boxed()
}

fn ipv6() -> BoxedStrategy<Layer> {
    // Half of the addresses differ in their low half only.
    let addr = || {
        let near = any::<u64>().prop_map(|low| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)));
        let far = any::<u128>().prop_map(Ipv6Addr::from_bits);
        prop_oneof![field(near.boxed()), field(far.boxed())]
    };
    let rest = (field(any::<u8>().boxed()), field(any::<u8>().boxed()), field((0u32..1 << 20).boxed()));
    (addr(), addr(), rest)
        .prop_map(|(src, dst, (hop_limit, traffic_class, flow_label))| {
            Layer::Ipv6(Ipv6 { src, dst, hop_limit, traffic_class, flow_label, next_header: None })
        })
        .boxed()
}

fn transport() -> BoxedStrategy<Layer> {
    let port = || field(any::<u16>().boxed());
    prop_oneof![
        (port(), port()).prop_map(|(sport, dport)| Layer::Udp(Udp { sport, dport, ..Udp::default() })),
        (port(), port(), field(any::<u32>().boxed()), field(any::<u8>().boxed())).prop_map(
            |(sport, dport, seq, flags)| Layer::Tcp(Tcp { sport, dport, seq, flags, ..Tcp::default() })
        ),
        (port(), port(), any::<bool>()).prop_map(|(id, seq, reply)| Layer::Echo(Echo {
            id,
            seq,
            reply,
            ..Echo::default()
        })),
    ]
    .boxed()
}

fn template() -> BoxedStrategy<Vec<Layer>> {
    let mac = || field(any::<u64>().prop_map(packet::MacAddr::from_u64).boxed());
    let ethernet =
        (mac(), mac()).prop_map(|(src, dst)| Layer::Ethernet(Ethernet { src, dst, ethertype: None }));
    let vlan = (field((0u16..4096).boxed()), field((0u8..8).boxed()))
        .prop_map(|(id, pcp)| Layer::Vlan(Vlan { id, pcp, ..Vlan::default() }));
    let ip = || prop_oneof![ipv4(), ipv6()];
    let tail = prop_oneof![
        Just(vec![]),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| vec![Layer::Raw(bytes)]),
    ];
    let fill = prop_oneof![
        Just(vec![]),
        Just(vec![Layer::Payload(Payload::Random)]),
        Just(vec![Layer::Payload(Payload::Zero)])
    ];
    let vlans = proptest::collection::vec(vlan, 0..3);
    (ethernet, vlans, proptest::collection::vec(ip(), 1..3), transport(), tail, fill)
        .prop_map(|(ethernet, vlans, ips, transport, tail, fill)| {
            let one = |l| vec![l];
            [one(ethernet), vlans, ips, one(transport), tail, fill].concat()
        })
        .boxed()
}

fn size(least: u16) -> BoxedStrategy<Option<Size>> {
    let mode = prop_oneof![Just(Mode::Increment), Just(Mode::Random)];
    prop_oneof![
        Just(None),
        (least..5000).prop_map(|n| Some(Size::Fixed(n))),
        (least..3000, 0u16..400, mode).prop_map(|(low, more, mode)| Some(Size::Range {
            low,
            high: low + more,
            mode
        })),
        proptest::collection::vec((least..3000, 1u16..9), 1..4).prop_map(|mix| Some(Size::Mix(mix))),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_right(layers in template(), size in size(250), seed: u64) {
        let s = StreamDef { layers: layers.clone(), size, seed, enabled: true, ..StreamDef::new("a", "x") };
        let link = 14 + 4 * layers.iter().filter(|l| matches!(l, Layer::Vlan(_))).count();
        for p in packets(&s, 30) {
            let parsed = etherparse::SlicedPacket::from_ethernet(&p).unwrap();
            let mut vlans = parsed.vlan_ids().into_iter();
            for l in &layers {
                if let Layer::Vlan(Vlan { id, .. }) = l {
                    let (low, high) = match *id {
                        Field::Fixed(v) => (v, v),
                        Field::Range { low, high, .. } => (low, high),
                    };
                    let got = vlans.next().unwrap().value();
                    prop_assert!((low..=high).contains(&got));
                }
            }
            verify_ip(&p[link..]);
        }
    }

    #[test]
    fn any_words_are_read_or_refused(text in "\\PC{0,80}") {
        let _ = parse_words(&text);
        if let Err(e) = parse_layers(&text) {
            prop_assert!(e.at <= text.len() && text.is_char_boundary(e.at));
        }
    }

    #[test]
    fn any_order_of_known_words_is_read_or_refused(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "ethernet", "vlan", "arp", "ipv4", "ipv6", "udp", "tcp", "icmp-echo", "raw", "payload", "/", "/", "src", "dst",
            "1", "10.0.0.1-10.0.0.9", "random", "increment", "::1-::2", "id", "02::1", "df", "flags", "syn", "checksum", "bad",
        ]), 0..12)
    ) {
        let text = words.join(" ");
        match parse_layers(&text) {
            Err(e) => prop_assert!(e.at <= text.len()),
            Ok(layers) => {
                let s = StreamDef { layers, ..StreamDef::new("a", "x") };
                let _ = s.compile(0, NODES);
            }
        }
    }
}

#[test]
fn fields_walk_through_their_ranges() {
    let s = stream(
        "a interface x data \"ethernet src 02::1-02::3 / vlan id 4094-4095 / ipv4 src 10.0.0.1-10.0.0.4 \
         dst 10.1.0.0-10.1.0.9 random / udp sport 65534-65535 increment\"",
    );
    let got = packets(&s, 1000);
    let mut seen = BTreeMap::<u8, usize>::new();
    for (i, p) in got.iter().enumerate() {
        assert_eq!(usize::from(p[11]), 1 + i % 3);
        assert_eq!(u16::from_be_bytes([p[14], p[15]]), 4094 + (i % 2) as u16);
        assert_eq!(u16::from_be_bytes([p[38], p[39]]), 65534 + (i % 2) as u16);
        assert_eq!(p[34..37], [10, 1, 0]);
        *seen.entry(p[37]).or_default() += 1;
        verify_ip(&p[18..]);
    }
    // The mode at the layer's end is that of both ranges.
    assert!(got.windows(2).any(|w| w[1][33] != w[0][33] % 4 + 1), "the source is random too");
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(seen.values().all(|n| (60..140).contains(n)), "{seen:?}");
    assert_eq!(got, packets(&s, 1000), "the same seed makes the same packets");
    assert_ne!(got, packets(&StreamDef { seed: 2, ..s }, 1000));
}

#[test]
fn sizes_come_in_their_shares() {
    let count = |words: &str, n: usize| {
        let mut seen = BTreeMap::<usize, usize>::new();
        let packets = packets(&stream(&format!("a interface x {words} data \"ethernet / ipv4 / udp\"")), n);
        for p in packets {
            *seen.entry(p.len()).or_default() += 1;
            verify_ip(&p[14..]);
        }
        seen
    };
    assert_eq!(count("size imix", 1200), BTreeMap::from([(60, 700), (590, 400), (1514, 100)]));
    assert_eq!(count("size imix", 12), BTreeMap::from([(60, 7), (590, 4), (1514, 1)]));
    assert_eq!(count("size 64:1,9000:3", 40), BTreeMap::from([(64, 10), (9000, 30)]));
    assert_eq!(count("size 60-69", 100).values().copied().collect::<Vec<_>>(), [10; 10]);
    let random = count("size 60-69 random", 2000);
    assert_eq!(random.len(), 10);
    assert!(random.values().all(|n| (140..260).contains(n)), "{random:?}");
    assert_eq!(count("", 3), BTreeMap::from([(64, 3)]));
}

#[test]
fn a_bad_checksum_is_bad_and_the_rest_is_right() {
    let s = stream("a interface x data \"ethernet / ipv4 checksum bad / udp sport 1-9\"");
    for p in packets(&s, 9) {
        assert_eq!(packet::ip4::Ip4View::parse(&p[14..]).err(), Some(packet::ip4::Ip4Error::BadChecksum));
    }
    let s = stream("a interface x data \"ethernet / ipv4 / udp checksum bad sport 0-65535\"");
    for p in packets(&s, 65536) {
        let ip = packet::ip4::Ip4View::parse(&p[14..]).unwrap();
        let (src, dst) = (ip.fixed().src(), ip.fixed().dst());
        let mut sum = pseudo4(src, dst, IpProtocol::UDP, ip.payload().len() as u16);
        sum.append(Sum::of(ip.payload()));
        assert!(!sum.is_valid() && ip.payload()[6..8] != [0, 0]);
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let s = stream("a interface x data \"ethernet / ipv4 / udp sport 0-65535 / payload zero\"");
    let all = packets(&s, 65536);
    assert_eq!(all.iter().filter(|p| p[40..42] == [0, 0]).count(), 0);
    assert_ne!(all.iter().filter(|p| p[40..42] == [0xff, 0xff]).count(), 0);
}

#[test]
fn raw_bytes_are_the_packet() {
    assert_eq!(packets(&stream("a interface x data \"raw 01 0203:04\""), 1)[0], [1, 2, 3, 4]);
    let s = stream("a interface x size 6 data \"raw 01020304 / payload zero\"");
    assert_eq!(packets(&s, 1)[0], [1, 2, 3, 4, 0, 0]);
}

#[test]
fn the_rate_is_kept_within_one_per_cent() {
    let p = pool(2048);
    let mut b = p.buffers();
    for pps in [10.0, 1000.0, 123_456.7, 3e6] {
        let mut s = stream("a interface x data \"ethernet / ipv4 / udp\"");
        s.rate = Rate::Pps(pps);
        let mut q = queue(&s);
        let (mut now, mut sent, end) = (5_000_000_000u64, 0, 1e9 * 20_000.0 / pps);
        let start = now;
        while ((now - start) as f64) < end {
            sent += poll(&mut q, &mut b, now).len();
            now = match q.ready() {
                Ready::At(t) => t.max(now + 1777),
                other => panic!("{other:?}"),
            };
        }
        assert!((sent as f64 - 20_000.0).abs() < 200.0, "{sent} at {pps}");
    }
    assert_eq!(p.in_use(), 0);
}

#[test]
fn a_count_ends_the_stream_and_enabling_starts_it_again() {
    let p = pool(2048);
    let mut b = p.buffers();
    let mut q = queue(&stream("a interface x count 300 data \"ethernet / ipv4 / udp\""));
    let c = q.control();
    assert_eq!(q.ready(), Ready::Now);
    assert_eq!(poll(&mut q, &mut b, 0).len(), 256);
    c.disable();
    assert_eq!((poll(&mut q, &mut b, 0).len(), q.ready()), (0, Ready::Never));
    c.enable();
    assert_eq!((poll(&mut q, &mut b, 0).len(), c.is_running(), c.remaining()), (44, false, 0));
    assert_eq!((poll(&mut q, &mut b, 0).len(), q.ready()), (0, Ready::Never));
    c.enable();
    assert_eq!((c.remaining(), q.ready()), (300, Ready::Now));
    assert_eq!(poll(&mut q, &mut b, 0).len(), 256);
    assert_eq!((c.packets(), c.bytes()), (556, 556 * 64));
}

#[test]
fn a_wait_while_disabled_causes_no_burst() {
    let p = pool(2048);
    let mut b = p.buffers();
    let mut q = queue(&stream("a interface x rate 1000 data \"ethernet / ipv4 / udp\""));
    let c = q.control();
    assert_eq!(poll(&mut q, &mut b, 0).len(), 1);
    c.disable();
    assert_eq!(poll(&mut q, &mut b, 1_000_000).len(), 0);
    c.enable();
    assert_eq!(poll(&mut q, &mut b, 90_000_000_000).len(), 1);
    assert_eq!(q.ready(), Ready::At(90_001_000_000));
}

#[test]
fn without_buffers_nothing_is_lost_and_nothing_leaks() {
    for words in ["size 64", "size 9000"] {
        let p = pool(64);
        let mut b = p.buffers();
        let s = stream(&format!("a interface x {words} data \"ethernet / ipv4 / udp sport 1-60000\""));
        let mut q = queue(&s);
        let (mut port, mut v) = (0u16, Vector::boxed());
        for _ in 0..3 {
            let n = q.poll(&mut b, 0, &mut v);
            assert!(n > 0 && n == v.len() && p.in_use() > 50);
            // The pool is empty now.
            assert_eq!(q.poll(&mut b, 0, &mut v), 0);
            assert_eq!(v.as_slice().iter().all(|d| d.has(flags::CHAINED)), words == "size 9000");
            for p in take(&mut b, &mut v) {
                port += 1;
                assert_eq!(u16::from_be_bytes([p[34], p[35]]), port);
            }
            assert_eq!(p.in_use(), 0);
        }
        assert_eq!(q.control().no_buffer(), 6);
    }
}

#[test]
fn a_full_vector_gets_nothing() {
    let p = pool(1024);
    let mut b = p.buffers();
    let mut q = queue(&stream("a interface x data \"ethernet / ipv4 / udp\""));
    let mut v = Vector::boxed();
    for _ in 0..250 {
        assert!(v.push(b.alloc_desc().unwrap()).is_ok());
    }
    assert_eq!(q.poll(&mut b, 0, &mut v), 6);
    assert_eq!(q.poll(&mut b, 0, &mut v), 0);
    b.free_all(v.take());
    assert_eq!(p.in_use(), 0);
}

#[test]
fn wrong_streams_are_refused() {
    let compile = |words: &str| stream(words).compile(0, NODES).err().map(|e| e.to_string());
    for (words, want) in [
        ("a interface x node no data \"ipv4\"", "there is no node no"),
        ("a interface x data \"udp\"", "udp cannot be the first layer"),
        ("a interface x data \"ethernet / udp\"", "udp cannot stand behind ethernet"),
        ("a interface x data \"payload zero / ipv4\"", "ipv4 cannot stand behind payload"),
        ("a interface x data \"ethernet / vlan id 4096\"", "vlan id: 4096 is more than 4095"),
        ("a interface x data \"ipv4 dscp 0-64\"", "ipv4 dscp: 64 is more than 63"),
        (
            "a interface x size 41 data \"ethernet / ipv4 / udp\"",
            "packets of 41 bytes cannot hold layers of 42",
        ),
        ("a interface x size 90-80 data \"ipv4\"", "the sizes end before they start"),
        (
            "a interface x size 90:0 data \"ipv4\"",
            "a mix needs sizes, each of a weight from 1, of together at most 65536",
        ),
        (
            "a interface x rate 0.0001 data \"ipv4\"",
            "0.0001 packets a second: the rate must be between 0.001 and 1000000000, or max",
        ),
    ] {
        assert_eq!(compile(words).as_deref(), Some(want), "{words}");
    }
    let many = ["ipv4"; 17].join(" / ");
    assert!(compile(&format!("a interface x data \"{many}\"")).unwrap().starts_with("17 layers"));
    let many = ["ipv4"; 5].join(" / ");
    assert_eq!(compile(&format!("a interface x data \"{many}\"")).as_deref(), Some("more than 4 checksums"));
}

#[test]
fn wrong_words_are_answered_with_their_place() {
    for (words, at, part) in [
        ("", 0, "a name for the stream"),
        ("a", 1, "`interface IF`"),
        ("a interface", 11, "an interface"),
        ("a interface x", 13, "data"),
        ("packet-generator old", 17, "`new`"),
        ("a interface x rate fast", 19, "rate"),
        ("a interface x count -1", 20, "number of packets"),
        ("a interface x size 64-", 19, "size"),
        ("a interface x size 64 random", 19, "mode"),
        ("a interface x bogus", 14, "`bogus`"),
        ("a interface x data \"ipv4 src 10.0.0", 19, "quotes"),
        ("a interface x data \"ipv4 src 10.0.0 dst 1.1.1.1\"", 29, "an IPv4 address"),
        ("a interface x data \"ipv4 src 10.0.0.2-10.0.0.1\"", 29, "ends before"),
        ("a interface x data \"ipv4 src\"", 28, "a value for ipv4 src"),
        ("a interface x data \"ipv4 src / udp\"", 29, "a value for ipv4 src"),
        ("a interface x data \"ipv4 dst 10.0.0.1 random\"", 38, "behind no range"),
        ("a interface x data \"ethernet / ipv5\"", 31, "no layer `ipv5`"),
        ("a interface x data \"udp port 5\"", 24, "sport, dport, checksum"),
        ("a interface x data \"raw 123\"", 24, "hexadecimal"),
        ("a interface x data \"ethernet src 02::1::2\"", 33, "MAC"),
    ] {
        let e = parse_words(words).unwrap_err();
        assert!(e.at == at && e.message.contains(part), "{words}: {e:?}");
    }
}

#[test]
fn the_whole_command_is_read() {
    let s = parse_words(
        "packet-generator new name s1 interface left node ethernet-input rate 1.5k count 100 size 64-1500 random \
         seed 9 state enabled data \"ethernet src 02::1 dst 02::2 / ipv4 src 10.0.0.1-10.0.0.255 dst 10.0.2.2 random \
         / udp sport 1000 dport 2000-3000\"",
    )
    .unwrap();
    let mac = |last| Field::Fixed(packet::MacAddr([2, 0, 0, 0, 0, last]));
    let v4 = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    let want = StreamDef {
        name: "s1".into(),
        node: "ethernet-input".into(),
        interface: "left".into(),
        rate: Rate::Pps(1500.0),
        count: 100,
        size: Some(Size::Range { low: 64, high: 1500, mode: Mode::Random }),
        enabled: true,
        seed: 9,
        layers: vec![
            Layer::Ethernet(Ethernet { src: mac(1), dst: mac(2), ethertype: None }),
            Layer::Ipv4(Ipv4 {
                src: Field::Range { low: v4("10.0.0.1"), high: v4("10.0.0.255"), mode: Mode::Random },
                dst: v4("10.0.2.2").into(),
                ..Ipv4::default()
            }),
            Layer::Udp(Udp {
                sport: 1000.into(),
                dport: Field::Range { low: 2000, high: 3000, mode: Mode::Increment },
                ..Udp::default()
            }),
        ],
    };
    assert_eq!(s, want);
    assert_eq!(queue(&s).target(), "ethernet-input");
}
