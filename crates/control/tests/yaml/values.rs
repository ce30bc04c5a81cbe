//! What the fields become.

use std::net::Ipv4Addr;
use std::time::Duration;

use control::yaml::*;
use drivers::generator::{
    self, Arp, Checksum, Echo, Ethernet, Field, Ipv4, Ipv6, Layer, Mode, Payload, Size, Tcp, Udp, Vlan,
};
use graph::Polling;
use net::router::TapAddresses;
use packet::MacAddr;

fn document() -> Document {
    load("ok-everything.yaml", include_str!("cases/ok-everything.yaml")).unwrap()
}

#[test]
fn punt() {
    use net::punt::{Class, Limit};
    let of =
        |text: &str| load("x", text).unwrap().punt.iter().map(|l| (l.class, l.limit)).collect::<Vec<_>>();
    assert_eq!(
        document().punt.iter().map(|l| (l.class, l.limit)).collect::<Vec<_>>(),
        [
            (Class::Icmp, Some(Limit { rate: 500, burst: 50 })),
            (Class::Bgp, None),
            (Class::IcmpError, Some(Limit { rate: 20, burst: 7 })),
        ]
    );
    assert_eq!(of("punt: {lldp: {rate: 0}}"), [(Class::Lldp, Some(Limit { rate: 0, burst: 10 }))]);
    assert_eq!(of("punt:"), []);
}

#[test]
fn settings() {
    let s = document().settings;
    assert_eq!((s.workers, s.cpus), (2, vec![1, 2]));
    assert_eq!(s.spin, Duration::from_micros(100));
    assert_eq!((s.load.of(0), s.load.of(1), s.load.balance), (Polling::Power, Polling::Latency, true));
    assert_eq!(s.buffers, Buffers { count: 32768, huge_pages: HugePages::Never });
    assert_eq!(s.sockets.ctl, "/run/quiver/ctl.sock");
    assert_eq!(s.sockets.group.as_deref(), Some("netdev"));
    assert_eq!(s.sockets.admin_group.as_deref(), Some("adm"));
    assert_eq!(s.sockets.idle_timeout, Some(Duration::from_secs(600)));
    let role = |access, users: &[&str], groups: &[&str]| {
        let names = |all: &[&str]| all.iter().map(|n| n.to_string()).collect();
        command::Role { access, users: names(users), groups: names(groups) }
    };
    use command::Access;
    let roles = [role(Access::Operate, &["ann", "bob"], &[]), role(Access::Write, &[], &["netops"])];
    assert_eq!(s.sockets.roles, roles);
    let api = s.api.expect("it is there");
    assert_eq!((api.socket.as_str(), api.group.as_deref()), ("/run/quiver/api.sock", Some("clients")));
    assert_eq!((api.connections, api.rate.calls, api.rate.bytes), (8, 1000, 1 << 20));
    let listen = &api.listen[0];
    assert_eq!(listen.address, "192.0.2.1:50051".parse().unwrap());
    let files = [&listen.certificate, &listen.key, &listen.client_ca].map(|f| f.path.as_str());
    assert_eq!(files, ["/etc/quiver/r.crt", "/etc/quiver/r.key", "/etc/quiver/ca.crt"]);
    let named = |name: &str, access| (name.to_string(), access);
    assert_eq!(
        listen.roles,
        [named("fleet", Access::Write), named("spiffe://example.net/noc", Access::Admin)]
    );
    assert_eq!(s.log, Log { level: LogLevel::Debug, file: Some("/var/log/quiver.log".into()), json: true });
    assert_eq!(
        s.neighbor,
        NeighborSettings {
            reachable_time: Duration::from_secs(60),
            retransmit: Duration::from_millis(500),
            max_entries: 1000,
            max_per_interface: Some(500),
            max_unresolved: 100,
            solicit_rate: 200,
            interface_queue: 300,
            queue: 32,
        }
    );
    assert_eq!(s.dad, Dad::Strict);
    assert_eq!(s.route_memory, Some(1 << 30));
    assert_eq!(s.state.as_deref(), Some("/var/lib/quiver/state"));
    let workers = |text: &str| load("x", text).unwrap().settings.workers;
    assert_eq!(workers("quiver: {workers: 3}"), 3);
    assert_eq!(workers("quiver: {workers: {cpus: [4, 5, 6, 7]}}"), 4);
    assert_eq!(load("x", "").unwrap().settings, Settings::default());
    let buffers = |text: &str| load("x", text).unwrap().settings.buffers.count;
    assert_eq!(buffers("quiver: {workers: 16}"), 16384);
    assert_eq!(buffers("quiver: {workers: 64}"), 65536);
    assert_eq!(buffers("quiver: {workers: 2, buffers: {count: 2048}}"), 2048);
}

#[test]
fn interfaces() {
    let document = document();
    let names: Vec<_> = document.interfaces.iter().map(|i| (i.name.as_str(), i.mtu, i.up)).collect();
    assert_eq!(
        names,
        [
            ("ge0", 9000, true),
            ("ge1", 1500, false),
            ("pc0", 1500, true),
            ("pc1", 1500, true),
            ("tap0", 1400, false),
            // Named there, and the others behind.
            ("loop1", 1500, false),
            ("tap1", 1500, true),
            ("loop0", 2000, true),
        ]
    );
    let ge0 = document.interface("ge0").unwrap();
    assert_eq!(ge0.path, "interfaces.ge0");
    assert_eq!((ge0.place.line, ge0.place.column), (21, 3));
    assert_eq!(ge0.mtu_place.line, 24);
    assert_eq!(ge0.description.as_deref(), Some("To the Internet"));
    assert_eq!(ge0.mac, Some(MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56])));
    let nets: Vec<String> = ge0.addresses.iter().map(|a| a.net.to_string()).collect();
    assert_eq!(nets, ["192.0.2.1/24", "192.0.2.2/24", "2001:db8::1/64", "fe80::1/64"]);

    let subs: Vec<_> =
        ge0.sub_interfaces.iter().map(|s| (s.name.as_str(), s.id, s.mtu, s.up, s.encapsulation)).collect();
    let tags = |dot1ad, outer, inner: Option<u16>, exact| {
        Some(Encap::Tags { dot1ad, outer: Some(outer), inner: inner.map(Some), exact })
    };
    assert_eq!(
        subs,
        [
            ("ge0.100", 100, 1500, true, tags(false, 100, None, true)),
            ("ge0.101", 101, 1500, true, tags(true, 100, None, false)),
            ("ge0.70000", 70000, 9000, true, tags(false, 200, Some(300), true)),
            ("ge0.70001", 70001, 9000, false, tags(true, 200, Some(300), false)),
        ]
    );
    assert_eq!(ge0.sub_interfaces[1].l2xc.as_ref().unwrap().name, "ge1");
    assert_eq!(ge0.sub_interfaces[1].path, "interfaces.ge0.sub-interfaces.101");
    assert_eq!(document.interface("loop0").unwrap().path, "loopbacks.loop0");
    assert_eq!(document.interface("loop0").unwrap().kind, InterfaceKind::Loopback);
}

#[test]
fn devices_and_taps() {
    let document = document();
    let device = |name: &str| match &document.interface(name).unwrap().kind {
        InterfaceKind::Device(device) => device.clone(),
        other => panic!("{other:?}"),
    };
    let ge0 = device("ge0");
    assert_eq!((ge0.rx_queues, ge0.tx_queues, ge0.place.line), (4, 2, 14));
    assert_eq!(
        ge0.driver,
        Driver::Linux {
            by: HostDriver::AfPacket,
            mode: None,
            kept: vec![],
            host: "eth0".into(),
            namespace: Some("wan".into()),
            rx_slots: Some(8192),
            ring: RingVersion::TpacketV2,
            offload: Offload::Off,
        }
    );
    assert_eq!(
        device("ge1").driver,
        Driver::Linux {
            by: HostDriver::Auto,
            mode: None,
            kept: ["192.0.2.9", "2001:db8::9", "tcp/22", "ospf@192.0.2.1"]
                .map(|k| k.parse().unwrap())
                .to_vec(),
            host: "ge1".into(),
            namespace: None,
            rx_slots: None,
            ring: RingVersion::TpacketV2,
            offload: Offload::Auto,
        }
    );
    assert_eq!(
        device("pc0").driver,
        Driver::Pcap {
            read: Some("in.pcap".into()),
            write: Some("out.pcap".into()),
            rate: Rate::Pps(1000),
            repeat: true,
        }
    );
    let tap = |name: &str| match &document.interface(name).unwrap().kind {
        InterfaceKind::Tap(tap) => tap.clone(),
        other => panic!("{other:?}"),
    };
    let expected = Tap {
        place: Place::default(),
        description: Some("Management".into()),
        host_name: "mgmt0".into(),
        host_mac: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        host_mtu: 1400,
        addresses: TapAddresses::default(),
        bridge: Some("br0".into()),
        bridge_create: true,
        namespace: Some("mgmt".into()),
        namespace_create: true,
        rx_ring_size: 512,
        tx_ring_size: 1024,
        persistent: true,
        routed: false,
        rx_queues: 2,
        tx_queues: 2,
        offload: Offload::On,
    };
    assert_eq!(tap("tap0"), expected);
    let plain = tap("tap1");
    assert_eq!((plain.host_mtu, plain.rx_ring_size, plain.persistent), (1500, 256, false));
    let addresses = TapAddresses {
        ip4: Some("10.9.0.2/24".parse().unwrap()),
        ip6: Some("2001:db8:9::2/64".parse().unwrap()),
        gw4: Some(Ipv4Addr::new(10, 9, 0, 1)),
        gw6: Some("fe80::1".parse().unwrap()),
    };
    assert_eq!(plain.addresses, addresses);
}

#[test]
fn routes_and_neighbors() {
    let document = document();
    let path = |address: &str, interface: &str, weight| RoutePath {
        address: (!address.is_empty()).then(|| address.parse().unwrap()),
        interface: (!interface.is_empty()).then(|| interface.to_string()),
        table: None,
        weight,
        mtu: 0,
        labels: net::labels::OutLabels::NONE,
        lookup: net::router::Lookup::Own,
        place: Place::default(),
    };
    let paths = |list: &[RoutePath]| RouteTarget::Paths(list.to_vec());
    let expected = [
        ("0.0.0.0/0", paths(&[path("192.0.2.254", "", 1)])),
        ("10.3.0.0/16", paths(&[path("", "ge0", 1)])),
        (
            "10.4.0.0/16",
            paths(&[
                path("192.0.2.253", "", 1),
                path("192.0.2.252", "ge0", 3),
                path("10.1.0.2", "ge0.100", 2),
            ]),
        ),
        ("10.5.0.0/16", paths(&[path("", "ge0.100", 1)])),
        ("10.6.0.0/16", RouteTarget::Unreachable),
        ("10.7.0.0/16", RouteTarget::Unreachable),
        ("2001:db8:1::/48", paths(&[path("fe80::2", "ge0", 1)])),
        ("2001:db8:2::/48", RouteTarget::Prohibit),
        ("10.8.0.0/16", paths(&[path("192.0.2.254", "", 1)])),
        ("10.9.0.0/16", paths(&[path("192.0.2.254", "ge0", 2), path("192.0.2.253", "", 1)])),
        ("10.19.0.0/16", paths(&[RoutePath { mtu: 1400, ..path("192.0.2.254", "ge0", 1) }])),
        ("10.10.0.0/16", RouteTarget::Drop),
        ("2001:db8:3::/48", paths(&[path("2001:db8::2", "", 1), path("fe80::2", "ge0", 1)])),
    ];
    let expected: Vec<Route> = expected
        .into_iter()
        .map(|(prefix, target)| Route {
            table: 0,
            prefix: prefix.parse().unwrap(),
            rank: net::router::Rank::STATIC,
            target,
            place: Place::default(),
        })
        .collect();
    assert_eq!(document.routes.iter().collect::<Vec<_>>(), expected);

    let neighbors: Vec<String> =
        document.neighbors.iter().map(|n| format!("{} {} {}", n.interface, n.address, n.mac)).collect();
    assert_eq!(neighbors, ["ge0 192.0.2.254 02:00:00:00:00:fe", "ge0.100 fe80::2 02:00:00:00:00:ff"]);
}

#[test]
fn streams() {
    let document = document();
    let [udp, tcp6, echo, whole, arp] = document.streams.as_slice() else { panic!("{:?}", document.streams) };
    assert!(udp.node_place.line > udp.place.line && tcp6.node_place.line == tcp6.place.line);
    assert_eq!(echo.node_place, echo.place);
    let [udp, tcp6, echo, whole, arp] = [udp, tcp6, echo, whole, arp].map(|s| &s.def);
    assert_eq!(
        (udp.name.as_str(), udp.node.as_str(), udp.interface.as_str()),
        ("udp", "ethernet-input", "ge0")
    );
    assert_eq!(udp.size, Some(Size::Range { low: 64, high: 1500, mode: Mode::Random }));
    assert_eq!((udp.rate, udp.count, udp.seed, udp.enabled), (generator::Rate::Pps(1000.0), 10, 7, true));
    fn up<T>(low: T, high: T) -> Field<T> {
        Field::Range { low, high, mode: Mode::Increment }
    }
    fn any<T>(low: T, high: T) -> Field<T> {
        Field::Range { low, high, mode: Mode::Random }
    }
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let ip = |last| Ipv4Addr::new(10, 0, 0, last);
    assert_eq!(
        udp.layers,
        [
            Layer::Ethernet(Ethernet {
                src: any(mac(1), mac(0xff)),
                dst: mac(2).into(),
                ethertype: Some(0x8100)
            }),
            Layer::Vlan(Vlan { id: up(100, 200), pcp: up(3, 4), tpid: 0x8100, ethertype: Some(0x0800) }),
            Layer::Ipv4(Ipv4 {
                src: ip(1).into(),
                dst: up(ip(1), ip(254)),
                ttl: up(2, 9),
                dscp: 46.into(),
                ecn: 1.into(),
                id: any(0, 65535),
                df: true,
                mf: true,
                fragment: 0x1fff.into(),
                proto: Some(17),
                checksum: Checksum::Bad,
            }),
            Layer::Udp(Udp { sport: any(1024, 65535), dport: 53.into(), checksum: Checksum::Value(0) }),
            Layer::Raw(vec![0, 1, 2]),
            Layer::Payload(Payload::Zero),
        ]
    );
    assert_eq!(tcp6.node, "ip6-input");
    assert_eq!(tcp6.size, Some(Size::Range { low: 80, high: 90, mode: Mode::Increment }));
    assert_eq!(
        tcp6.layers,
        [
            Layer::Ipv6(Ipv6 {
                src: "2001:db8::5".parse::<std::net::Ipv6Addr>().unwrap().into(),
                dst: "2001:db8::6".parse::<std::net::Ipv6Addr>().unwrap().into(),
                hop_limit: 3.into(),
                traffic_class: 1.into(),
                flow_label: up(0, 0xfffff),
                next_header: Some(6),
            }),
            Layer::Tcp(Tcp {
                sport: 1.into(),
                dport: 2.into(),
                seq: 7.into(),
                ack: 8.into(),
                flags: 0x12.into(),
                window: 9.into(),
                checksum: Checksum::Value(0x1234),
            }),
            Layer::Payload(Payload::Random),
        ]
    );
    assert_eq!((tcp6.rate, tcp6.count, tcp6.seed, tcp6.enabled), (generator::Rate::Max, 0, 1, false));
    assert_eq!(echo.size, Some(Size::imix()));
    let reply = Echo { reply: true, id: 1.into(), seq: up(1, 10), checksum: Checksum::Correct };
    assert_eq!(echo.layers[2..], [Layer::Echo(reply), Layer::Payload(Payload::Increment)]);
    assert_eq!(whole.size, Some(Size::Mix(vec![(64, 3), (128, 1)])));
    assert_eq!(
        (arp.size.clone(), &arp.layers[1]),
        (
            None,
            &Layer::Arp(Arp {
                op: 2.into(),
                sender_mac: mac(5).into(),
                sender_ip: ip(5).into(),
                target_mac: mac(6).into(),
                target_ip: up(ip(1), ip(9)),
            })
        )
    );
}

/// A stream of the document is the stream of the command with the same words.
#[test]
fn streams_and_commands_agree() {
    let document = load(
        "x.yaml",
        "
interfaces: {left: {}}
packet-generator:
  - {name: s, interface: left, node: ip4-input, size: 128, rate: 2000, count: 9, seed: 3, state: enabled,
     layers: [ipv4: {src: 10.0.0.1, dst: 10.0.1.0-10.0.1.9 random, ttl: 9, dscp: 8, df: true},
       tcp: {sport: 1, dport: 2, flags: 'fin,psh', window: 77}, payload: zero]}
",
    );
    let words = "s interface left node ip4-input size 128 rate 2k count 9 seed 3 state enabled data \
        \"ipv4 src 10.0.0.1 dst 10.0.1.0-10.0.1.9 random ttl 9 dscp 8 df \
        / tcp sport 1 dport 2 flags fin,psh window 77 / payload zero\"";
    assert_eq!(document.unwrap().streams[0].def, generator::parse_words(words).unwrap());
}

/// A later stage shows the place of what it refuses.
#[test]
fn refuse_later() {
    let document = load("router.yaml", "interfaces:\n  ge0: {mtu: 9000}\n").unwrap();
    let ge0 = document.interface("ge0").unwrap();
    let mut error = Diagnostic::new(ge0.place, ge0.path.as_str(), "device", "there is no device `ge0`");
    error.help("see `ip link`");
    assert_eq!(
        document.refuse(vec![error]).to_string(),
        "\
error[device]: interfaces.ge0: there is no device `ge0`
 --> router.yaml:2:3
  |
2 |   ge0: {mtu: 9000}
  |   ^^^
  = help: see `ip link`

router.yaml: 1 error
"
    );
}
