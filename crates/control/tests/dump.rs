//! A router that is started from the dump of another has the same state, and the same dump.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use control::dump::{Dump, Source};
use control::{apply, yaml};
use net::mpls::{label_routes, label_tables};
use net::neighbor::State;
use net::router::{Router, RouterConfig};
use proptest::prelude::*;
use std::fmt::Write as _;

/// Where capture files go.
const OUT: &str = env!("CARGO_TARGET_TMPDIR");

fn start(text: &str) -> (Router, yaml::Settings) {
    let document =
        yaml::load("test.yaml", text).unwrap_or_else(|e| panic!("{e}\n{}", &text[..text.len().min(3000)]));
    let config = apply::router_config(&document);
    let pool = graph::PoolConfig { buffers: 2048, memory: graph::PoolMemory::Normal };
    let mut router =
        Router::new(RouterConfig { pool, workers: config.workers.min(2), cpus: vec![], ..config }).unwrap();
    apply::start(&document, &mut router).unwrap_or_else(|e| panic!("{e}\n{}", &text[..text.len().min(3000)]));
    (router, document.settings)
}

fn dump((router, settings): &(Router, yaml::Settings)) -> String {
    Dump::text(Source { router, settings })
}

/// All that the operator configured, read from the router itself.
fn state((router, settings): &(Router, yaml::Settings)) -> String {
    let nowhere = yaml::Place::default();
    let mut placeless = yaml::Settings { place: nowhere, cpus_place: nowhere, ..settings.clone() };
    for l in placeless.api.iter_mut().flat_map(|a| &mut a.listen) {
        [&mut l.certificate, &mut l.key, &mut l.client_ca]
            .into_iter()
            .for_each(|f| f.place = Default::default());
    }
    let mut out = format!("{placeless:?}\n");
    let mut interfaces: Vec<_> = router.interfaces().collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    for i in interfaces {
        let peer = i.xconnect.map(|p| router.interface_name(p));
        // A sub-interface of an interface that is down is down, whatever it was set to.
        let up = i.up && router.interface(i.hw()).is_some_and(|p| p.up);
        let _ = writeln!(
            out,
            "{} {:?} {:?} {:?} up {up} mtu {} mac {} promiscuous {} {:?} {peer:?} {:?} {:?}",
            i.name,
            &i.settings,
            i.tags(),
            i.description,
            i.mtu,
            i.mac,
            i.promiscuous,
            i.addresses,
            (i.link_local, i.own_link_local),
            (&i.placed, net::steering::config(router, i.index))
        );
    }
    let _ = writeln!(out, "{:?} {:?}", net::proxy::arp_ranges(router), net::proxy::nd_proxies(router));
    let _ = writeln!(out, "{:?} {:?}", net::local::tcp_resets(router), net::local::ip4_options(router));
    let _ = writeln!(out, "{:?}", router.source_preferences().collect::<Vec<_>>());
    let mut interfaces: Vec<_> = router.interfaces().collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    for i in interfaces {
        let (groups, adverts) = (net::multicast::joined(router, i.index), net::ra::config(router, i.index));
        let mirrors = net::span::mirrors(router, i.index);
        let mut mirrors: Vec<_> =
            mirrors.map(|(to, told)| (router.interface_name(to), told.directions.name(), told.l2)).collect();
        mirrors.sort();
        let _ = writeln!(out, "{} {:?} {groups:?} {adverts:?} {mirrors:?}", i.name, i.unnumbered);
    }
    for (bridge, to, told) in net::span::bridges(router) {
        let _ = writeln!(out, "{bridge} {} {told:?}", router.interface_name(to));
    }
    for (interface, tunnel) in net::gre::tunnels(router) {
        let _ = writeln!(out, "{} {:?}", router.interface_name(interface), tunnel.config);
    }
    for (interface, tunnel) in net::vxlan::tunnels(router) {
        let over = tunnel.over().map(|i| router.interface_name(i));
        let _ = writeln!(out, "{} {:?} {over:?}", router.interface_name(interface), tunnel.config);
    }
    for t in [false, true].into_iter().flat_map(|v6| router.route_tables(v6)) {
        let _ = writeln!(out, "{:?} {:?} {:?} {}", t.table, t.name, t.fields, t.interfaces);
        for r in router.routes(t.table) {
            let group = router.group(r.group).unwrap();
            let paths = |p: &net::router::RoutePath| {
                (p.address, p.interface.is_some(), p.table, p.weight, p.mtu, p.labels)
            };
            let target = match &group.target {
                net::router::Target::Paths(p) => format!("{:?}", p.iter().map(paths).collect::<Vec<_>>()),
                _ => String::new(),
            };
            let hidden = r.hidden.iter().map(|e| (e.source, e.rank)).collect::<Vec<_>>();
            let _ = writeln!(out, "{} {:?} {} {hidden:?} {target}", r.prefix, group.source, group.rank);
        }
    }
    for t in label_tables(router) {
        let _ = writeln!(out, "{t:?}");
        for r in label_routes(router, t.id, 0) {
            let interface = |p: &net::router::RoutePath| p.interface.map(|i| router.interface_name(i));
            let paths = |p: &net::router::RoutePath| net::router::RoutePath { interface: None, ..*p };
            let target = match &r.target {
                net::router::Target::Paths(p) => {
                    format!("{:?}", p.iter().map(|p| (interface(p), paths(p))).collect::<Vec<_>>())
                }
                other => format!("{other:?}"),
            };
            let _ = writeln!(out, "{} {} {:?} {target}", r.label, r.bottom, r.source);
        }
    }
    for n in router.neighbors().filter(|n| n.state == State::Static) {
        let _ = writeln!(out, "{} {} {:?}", router.interface_name(n.interface), n.addr, n.mac);
    }
    for b in net::l2::bridge::bridges(router) {
        let mut members: Vec<_> = b.members.iter().map(|(i, m)| (router.interface_name(*i), m)).collect();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let macs = net::l2::bridge::static_macs(router, b.id);
        let _ = writeln!(out, "{} {:?} {members:?} {:?} {macs:?}", b.id, b.settings, b.arp);
    }
    let mut tags: Vec<_> = router
        .interfaces()
        .map(|i| (&i.name, net::l2::bridge::port(router, i.index)))
        .map(|(n, p)| (n, &p.tag_change, p.mac_limit, p.features))
        .collect();
    tags.sort_by_key(|t| t.0);
    let _ = writeln!(out, "{tags:?}");
    let _ = writeln!(out, "{}", net::l2::bridge::mac_counts(router).limit);
    for row in net::copp::rows(router) {
        let _ = writeln!(out, "{:?} {:?}", row.class, row.limit);
    }
    for kind in net::reassembly::Kind::ALL {
        let _ = writeln!(out, "{kind:?} {:?}", net::reassembly::limits(router, kind));
    }
    for s in net::generator::streams(router) {
        let _ = writeln!(out, "{:?}", s.def);
    }
    out
}

/// Starts a router from a document, another from its dump, and compares.
fn round_trip(text: &str) -> String {
    let first = start(text);
    let written = dump(&first);
    let second = start(&written);
    assert_eq!(state(&first), state(&second), "{text}\n---\n{written}");
    assert_eq!(written, dump(&second), "{text}");
    let (router, settings) = &second;
    let json = serde_json::to_string(&Dump::json(Source { router, settings })).unwrap();
    let third = start(&json);
    assert_eq!(state(&first), state(&third), "{json}");
    written
}

#[test]
fn further_addresses_and_names_are_written() {
    let text = "\
interfaces:
  host-eth0.5:
    addresses: [10.0.1.1/24, 10.0.2.1/24, 10.0.3.1/24, 10.0.4.1/24, 10.0.5.1/24, 10.0.6.1/24]
    sub-interfaces:
      100: {addresses: [\"fe80::77/64\"]}
devices:
  host-eth0.5: {driver: pcap, pcap: {write: OUT/host.pcap}}
l3:
  interfaces:
    host-eth0.5: {addresses: [10.0.7.1/24, \"2001:db8::1/64\", \"fe80::1/64\"]}
    host-eth0.5.100: {addresses: [\"2001:db8:1::1/64\"]}
";
    let text = &text.replace("OUT", OUT);
    let mut first = start(text);
    let written = round_trip(text);
    assert!(written.contains("fe80::1/64") && written.contains("fe80::77/64"), "{written}");
    let index = |name: &str| first.0.interface_index(name).unwrap();
    let (top, sub) = (index("host-eth0.5"), index("host-eth0.5.100"));
    let count = |i: u32| first.0.interface(i).unwrap().configured().count();
    assert_eq!((count(top), count(sub)), (9, 2));
    assert_eq!(first.0.link_local(top), Some("fe80::1".parse().unwrap()));
    // One made by a command is written as well.
    let net = "10.0.8.1/24".parse().unwrap();
    first.0.commit(vec![net::router::Op::AddAddress { name: "host-eth0.5".into(), net }]).unwrap();
    let again = start(&dump(&first));
    assert_eq!(state(&first), state(&again));
}

#[test]
fn tables_are_written() {
    let text = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24, \"2001:db8::1/64\"]}
  loop1: {addresses: [10.0.0.1/24, \"2001:db8::1/64\"]}
  loop2: {addresses: [10.0.0.1/24]}
  loop3: {addresses: [\"2001:db8::1/64\"]}
tables:
  0: {flow-hash: [src, dst, proto, symmetric]}
  10: {name: customers}
  20: {family: ip4, flow-hash: [src]}
  30: {family: ip6, flow-hash: [src, dst, flowlabel]}
  40: {flow-hash: [src, dst, flowlabel]}
  50: {name: {ip4: old, ip6: new}, flow-hash: {ip4: [src, dst, symmetric], ip6: [dst, flowlabel]}}
  60: {name: {ip6: six}, flow-hash: {ip6: [src]}}
  70: {flow-hash: [symmetric]}
l3:
  interfaces:
    loop1: {table: 10}
    loop2: {table: 20}
    loop3: {table: {ip4: 40, ip6: 30}}
routes:
  - 10.1.0.0/16 table 10 via 10.0.0.9, 10.0.0.8 next-hop-table 20 weight 3
  - 10.2.0.0/16 table 10 via ip4-lookup-in-table 0
  - 10.3.0.0/16 via 2001:db8::9
  - 10.3.0.0/16 table 20 via 10.77.0.1
  - {prefix: \"2001:db8:7::/48\", table: 30, via: {table: 10}}
  - {prefixes: [10.5.0.0/16, 10.6.0.0/16], table: 40, type: drop}
";
    let written = round_trip(text);
    for line in [
        "0: {flow-hash: [src, dst, proto, symmetric]}",
        "10: {name: customers}",
        "20: {family: ip4, flow-hash: [src]}",
        "70: {flow-hash: [src, dst, sport, dport, proto, symmetric]}",
        "loop1:",
        "table: 10",
        "table: {ip4: 40, ip6: 30}",
        "- 10.1.0.0/16 table 10 via 10.0.0.9, 10.0.0.8 next-hop-table 20 weight 3",
        "- 10.2.0.0/16 table 10 via ip4-lookup-in-table 0",
        "- 2001:db8:7::/48 table 30 via ip6-lookup-in-table 10",
    ] {
        assert!(written.contains(line), "{line}\n{written}");
    }
}

#[test]
fn labels_are_written() {
    let text = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24], mpls: true}
  loop1: {addresses: [\"2001:db8::1/64\"]}
tables:
  10: {}
mpls:
  tables: [7, 9]
  local-labels:
    - 100 eos via 10.0.0.9 loop0 out-labels 200
    - 101 via 10.0.0.9 loop0 out-labels 33 200 uniform, 10.0.0.8 weight 3 out-labels 300
    - 102 eos via ip4-lookup-in-table 10
    - 103 eos via ip6-lookup-in-table 10 uniform
    - 106 via ip-lookup-in-table 10
    - {label: 107, via: {table: 0, lookup: ip, mode: uniform}}
    - {label: 104, via: {table: 7, lookup: mpls}}
    - {label: 104, table: 7, via: [{address: 10.0.0.9, out-labels: [3]}]}
    - {label: 105, table: 7, eos: false, via: [{address: 10.0.0.9, out-labels: [17, 18], mode: uniform, exp: 6}]}
    - 1048575 table 9 drop
routes:
  - 10.1.0.0/16 via 10.0.0.9 loop0 out-labels 100 ttl 255 exp 5
  - 2001:db8:7::/48 via 10.0.0.9 out-labels 100 2
  - {prefix: 10.2.0.0/16, table: 10, via: [{address: 10.0.0.9, table: 0, out-labels: [55], exp: copy}]}
";
    let written = round_trip(text);
    for line in [
        "mpls: true",
        "tables: [7, 9]",
        "- 100 eos via 10.0.0.9 loop0 out-labels 200",
        "- 101 non-eos via 10.0.0.9 loop0 out-labels 33 200 uniform, 10.0.0.8 weight 3 out-labels 300",
        "- 102 eos via ip4-lookup-in-table 10",
        "- 103 eos via ip6-lookup-in-table 10 uniform",
        "- 106 eos via ip-lookup-in-table 10",
        "- 107 eos via ip-lookup-in-table 0 uniform",
        "- 104 non-eos via mpls-lookup-in-table 7",
        "- 104 eos table 7 via 10.0.0.9 out-labels 3",
        "- 105 non-eos table 7 via 10.0.0.9 out-labels 17 18 uniform exp 6",
        "- 1048575 eos table 9 drop",
        "- 10.1.0.0/16 via 10.0.0.9 loop0 out-labels 100 ttl 255 exp 5",
        "- 2001:db8:7::/48 via 10.0.0.9 out-labels 100 2",
        "- 10.2.0.0/16 table 10 via 10.0.0.9 next-hop-table 0 out-labels 55 exp copy",
    ] {
        assert!(written.contains(line), "{line}\n{written}");
    }
}

#[test]
fn tunnels_are_written() {
    let text = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24]}
interfaces:
  mpls-tunnel0: {mtu: 1400, addresses: [10.5.0.1/24], sub-interfaces: {7: {mtu: 1400, l2xc: mpls-tunnel3}}}
  mpls-tunnel3: {mtu: 1400, l2xc: mpls-tunnel0.7, state: down}
routes:
  - 10.1.0.0/16 via mpls-tunnel2 out-labels 55
mpls:
  local-labels:
    - 2000 eos via l2-input-on mpls-tunnel3
  tunnels:
    mpls-tunnel0: {l2-only: true, control-word: true, via: [10.0.0.9 loop0 out-labels 100 200 ttl 9, 10.0.0.8 weight 3 out-labels 7000]}
    mpls-tunnel2: {via: mpls-tunnel4 out-labels 33}
    mpls-tunnel3: {l2-only: true, via: 10.0.0.9 next-hop-table 0 out-labels 101}
    mpls-tunnel4: {via: [10.0.0.9 loop0 out-labels 102]}
";
    let written = round_trip(text);
    for line in [
        "- 10.1.0.0/16 via mpls-tunnel2 out-labels 55",
        "- 2000 eos via l2-input-on mpls-tunnel3",
        "control-word: true",
        "- 10.0.0.9 loop0 out-labels 100 200 ttl 9",
        "- 10.0.0.8 weight 3 out-labels 7000",
        "- mpls-tunnel4 out-labels 33",
        "- 10.0.0.9 next-hop-table 0 out-labels 101",
    ] {
        assert!(written.contains(line), "{line}\n{written}");
    }
}

#[test]
fn gre_tunnels() {
    let text = "\
tables:
  7: {}
gre_tunnels:
  gre0: {local: 10.0.0.1, remote: 10.77.0.1, ttl: copy, dscp: 46}
  gre1: {local: 10.0.0.1, remote: 10.77.0.1, key: 0, sequence: true, checksum: true}
  gre2: {local: \"2001:db8::1\", remote: \"2001:db8:77::1\", teb: true, ttl: 1, dscp: copy}
  gre3: {local: 10.0.0.1, remote: 10.77.0.1, table: 7}
interfaces:
  gre0: {addresses: [10.5.0.1/30], mpls: true}
  gre1: {mtu: 1000, state: down}
  gre2: {sub-interfaces: {7: {addresses: [10.6.0.1/24]}}, mac: \"02:00:00:00:00:07\"}
routes:
  - 10.1.0.0/16 via gre0
";
    let written = round_trip(text);
    for line in [
        "ttl: copy",
        "dscp: 46",
        "key: 0",
        "sequence: true",
        "checksum: true",
        "teb: true",
        "ttl: 1",
        "dscp: copy",
        "table: 7",
        "mtu: 1000",
        "- 10.1.0.0/16 via gre0",
    ] {
        assert!(written.contains(line), "{line}\n{written}");
    }
    assert!(!written.contains("mtu: 14"), "what a tunnel has by itself is left out\n{written}");
}

#[test]
fn vxlan_tunnels() {
    let text = "\
tables:
  7: {}
vxlan_tunnels:
  vxlan_tunnel0: {description: to B, local: 10.0.0.1, remote: 10.77.0.1, vni: 100, ttl: copy, dscp: 46}
  vxlan_tunnel1: {local: 10.0.0.1, remote: 10.77.0.2, vni: 100, local-port: 8472, remote-port: 8473}
  vxlan_tunnel2: {local: \"2001:db8::1\", remote: \"2001:db8:77::1\", vni: 16777215, zero-checksum: true}
  vxlan_tunnel3: {local: 10.0.0.1, remote: 10.77.0.1, vni: 100, table: 7}
  vxlan_tunnel4: {local: 10.0.0.1, remote: 239.0.0.4, group-interface: vxlan_tunnel2.7, vni: 100}
interfaces:
  vxlan_tunnel0: {}
  vxlan_tunnel1: {mtu: 1450, state: down}
  vxlan_tunnel2: {sub-interfaces: {7: {addresses: [10.6.0.1/24]}}, mac: \"02:00:00:00:00:07\"}
  vxlan_tunnel3: {description: own, addresses: [10.7.0.1/24]}
  vxlan_tunnel4: {}
bridgedomains:
  bd10: {interfaces: [vxlan_tunnel0]}
";
    let written = round_trip(text);
    for line in [
        "description: to B",
        "vni: 16777215",
        "ttl: copy",
        "dscp: 46",
        "local-port: 8472",
        "remote-port: 8473",
        "zero-checksum: true",
        "table: 7",
        "mtu: 1450",
        "group-interface: vxlan_tunnel2.7",
    ] {
        assert!(written.contains(line), "{line}\n{written}");
    }
    assert!(!written.contains("ttl: 64") && !written.contains("port: 4789"), "{written}");
}

#[test]
fn a_dump_reads_as_it_was_written() {
    let text = "\
quiver:
  workers:
    count: 2
    balance: true
  poll:
    mode: power
    workers: {1: latency}
  log:
    level: error
devices:
  left:
    driver: pcap
    pcap:
      write: OUT/left.pcap
  left.10:
    promiscuous: true
  right:
    driver: pcap
    pcap:
      write: OUT/right.pcap
loopbacks:
  loop0:
    description: Router id
    mac: \"02:00:00:00:00:01\"
    addresses: [10.255.0.1/32, \"2001:db8:ffff::1/128\"]
  loop10:
    addresses: [10.10.0.1/24]
interfaces:
  left:
    description: \"key: value, # no comment\"
    mac: \"02:00:00:00:01:01\"
    mtu: 9000
    addresses: [10.0.1.1/24]
    sub-interfaces:
      10:
        mtu: 1500
        addresses: [\"2001:db8:1::1/64\"]
      20:
        state: down
        encapsulation: {dot1ad: 20, inner-dot1q: 7, exact-match: true}
      30:
        encapsulation: {dot1q: any, inner-dot1q: any}
      40:
        encapsulation: {untagged: true}
      50:
        encapsulation: {default: true}
      60:
        mtu: 1500
  right:
    description: Bridged
    mac: \"02:00:00:00:01:02\"
  loop0:
    state: down
bridgedomains:
  bd10:
    description: Customers
    bvi: loop10
    interfaces: [left.60, right]
    settings:
      learn: false
      unicast-flood: false
      unknown-unicast-flood: false
      unicast-forward: false
      arp-termination: true
      arp-unicast-forward: true
      mac-age-minutes: 5
l2:
  learn-limit: 1000
  interfaces:
    right:
      tag-rewrite: push dot1ad 7 8
      split-horizon-group: 3
      learn-limit: 10
      learn: false
      flood: false
  bridgedomains:
    bd10:
      learn-limit: 100
      macs:
        \"02:00:00:00:00:07\": right
        \"02:00:00:00:00:08\": filter
      arp:
        10.10.0.7: \"02:00:00:00:00:07\"
        \"2001:db8:10::7\": \"02:00:00:00:00:07\"
l3:
  reassembly:
    ip6: {max-reassemblies: 10, max-reassembly-length: 20, timeout-ms: 30, expire-walk-interval-ms: 40}
    ip4-virtual: {timeout-ms: 500}
  interfaces:
    left:
      urpf: {ip4: strict, ip6: loose}
      reassembly: {ip4: true, ip6: true}
      virtual-reassembly: {ip6: true}
punt:
  icmp: {rate: 100, burst: 7}
  bgp: off
neighbors:
  - {interface: left, address: 10.0.1.2, mac: \"02:00:00:00:00:02\"}
routes:
  - 0.0.0.0/0 via 10.0.1.2 weight 3, 10.0.1.3
  - 10.9.0.0/16 prohibit
  - ::/0 via 2001:db8:1::2
  - 2001:db8:9::/48 via fe80::1 left.10, 2001:db8:1::9
packet-generator:
  flood:
    interface: left
    layers:
      - ethernet: {dst: \"02:00:00:00:01:01\"}
      - ipv4: {src: 10.0.1.2, dst: 10.0.2.1-10.0.2.254 random, ttl: 7}
      - udp: {sport: 1024-65535, dport: 53, checksum: bad}
      - raw: 00 01 02
      - payload: zero
    size: {mix: [{size: 64, weight: 3}, {size: 512}]}
    rate: 1000
    count: 7
";
    let text = text.replace("OUT", OUT);
    let written = round_trip(&text);
    assert_eq!(written, text);
    assert_eq!(dump(&start("")), "");
}

#[test]
fn features_of_layer_3() {
    let text = "\
devices:
  left:
    driver: pcap
    pcap:
      write: OUT/left.pcap
  right:
    driver: pcap
    pcap:
      write: OUT/right.pcap
loopbacks:
  loop0:
    addresses: [10.255.0.1/32, \"2001:db8:ffff::1/128\"]
interfaces:
  left:
    mac: \"02:00:00:00:01:01\"
    addresses: [10.0.1.1/24, \"2001:db8:1::1/64\"]
  right:
    mac: \"02:00:00:00:01:02\"
    unnumbered: loop0
tables:
  7: {name: sources}
l3:
  interfaces:
    left:
      urpf: {ip4: {rx: {mode: strict, table: 7}, tx: loose}, ip6: {tx: {mode: strict, table: 7}}}
      tcp-mss-clamp: {ip4: {rx: 1400, tx: 1300}, ip6: {tx: 1280}}
      mtu: {ip4: 68, ip6: 1450, mpls: 1400}
      redirects: {ip6: true}
      proxy-arp: true
      arp-sender-check: true
      directed-broadcast: true
      ip4-link-local: drop
      ip4-broadcast-sources: forward
      groups: [224.0.0.5, \"ff02::5\"]
      router-advertisements:
        interval: {min: 4, max: 30}
        initial: {count: 1, interval: 3}
        lifetime: 0
        managed: true
        other: true
        hop-limit: 0
        reachable-ms: 1000
        retransmit-ms: 2000
        mtu: 1400
        preference: high
        link-layer: false
        unicast: true
        prefixes:
          \"2001:db8:1::/64\": {valid: infinite, preferred: 3600, on-link: false}
          \"2001:db8:7::/64\": {valid: 100, preferred: 50, autonomous: false, advertise: false}
        routes:
          \"2001:db8:9::/48\": {lifetime: 900, preference: low}
        dns-servers: [\"2001:db8::53\"]
        search-domains: [example.net]
        dns-lifetime: 600
    right:
      router-advertisements: true
  proxy-arp:
    - 10.0.1.7 - 10.0.1.7
    - 10.0.1.128 - 10.0.1.254
  nd-proxy:
    - {interface: left, address: \"2001:db8:5::50\"}
  tcp-resets: false
  ip4-options: pass
  route-preferences:
    connected: 3
    kernel: 30
    \"kernel:bird@blue\": 5
    static: 254
routes:
  - 10.255.0.2/32 via 10.255.0.2 right
";
    let text = text.replace("OUT", OUT);
    let written = round_trip(&text);
    assert_eq!(written, text);
}

#[test]
fn mirrors() {
    let text = "\
devices:
  left:
    driver: pcap
    pcap:
      write: OUT/left.pcap
  right:
    driver: pcap
    pcap:
      write: OUT/right.pcap
interfaces:
  left:
    mac: \"02:00:00:00:01:01\"
    sub-interfaces:
      7: {}
      8: {}
  right:
    mac: \"02:00:00:00:01:02\"
bridgedomains:
  bd10:
    interfaces: [left.8]
span:
  - {source: left, destination: right}
  - {source: left.7, destination: left.8, direction: tx}
  - {source: left.7, destination: right, direction: rx}
  - {source: right, destination: left.8, l2: true}
  - {bridgedomain: bd10, destination: left.8, direction: rx}
  - {bridgedomain: bd10, destination: right}
";
    let text = text.replace("OUT", OUT);
    assert_eq!(round_trip(&text), text);
}

/// Routes and neighbours that take more than a page.
#[test]
fn long_lists_come_page_by_page() {
    let mut text = format!("devices: {{left: {{driver: pcap, pcap: {{write: {OUT}/pages.pcap}}}}}}\n");
    text.push_str("interfaces: {left: {addresses: [10.0.0.1/16, \"2001:db8::1/64\"]}}\nneighbors:\n");
    for i in 0..5000u32 {
        let (a, b) = (i >> 8, i & 255);
        let _ = writeln!(
            text,
            "  - {{interface: left, address: 10.0.{}.{b}, mac: \"02:00:00:00:{a:02x}:{b:02x}\"}}",
            a + 1
        );
    }
    text.push_str("routes:\n");
    for i in 0..5000u32 {
        let _ = writeln!(text, "  - 20.{}.{}.0/24 via 10.0.1.{}", i >> 8, i & 255, i % 200);
        let _ = writeln!(text, "  - 2001:db8:1:{:x}::/64 via 2001:db8::{:x}", i + 1, 2 + i % 200);
    }
    let first = start(&text);
    let mut d = Dump::default();
    let mut most = 0;
    let mut whole = String::new();
    while let Some(piece) = d.next_text(Source { router: &first.0, settings: &first.1 }) {
        most = most.max(piece.len());
        whole.push_str(&piece);
    }
    assert!(most < 300_000, "{most}");
    assert_eq!(whole.matches("routes:").count(), 1);
    assert_eq!(whole.matches("neighbors:").count(), 1);
    assert_eq!(whole.matches(" via ").count(), 10_000);
    let second = start(&whole);
    assert_eq!(state(&first), state(&second));
}

/// Description, MTU, state, end of the MAC address; kind, smaller MTU and state of sub-interfaces.
type Port = (Option<String>, u16, bool, Option<u8>, Vec<(u8, u8, bool)>);

/// A document with these parts, all of which fit together.
#[derive(Debug, Clone)]
struct Parts {
    interfaces: Vec<Port>,
    loopbacks: Vec<(u16, Option<u8>, bool)>,
    connect: bool,
    routes: Vec<(u8, u8, u8)>,
    neighbors: Vec<(u8, u8)>,
    streams: Vec<(u8, u16, u8)>,
    settings: (u8, u32, bool),
}

fn parts() -> impl Strategy<Value = Parts> {
    let text = proptest::option::of("[a-zA-Z0-9 :,#{}\\[\\]&*!|>%@`é~-]{1,64}");
    let subs = prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 0..5);
    let interface = (text, 1300u16..9000, any::<bool>(), any::<Option<u8>>(), subs);
    (
        prop::collection::vec(interface, 1..5),
        prop::collection::vec((0u16..4096, any::<Option<u8>>(), any::<bool>()), 0..4),
        any::<bool>(),
        prop::collection::vec(any::<(u8, u8, u8)>(), 0..30),
        prop::collection::vec(any::<(u8, u8)>(), 0..6),
        prop::collection::vec(any::<(u8, u16, u8)>(), 0..3),
        (any::<u8>(), 16u32..100_000, any::<bool>()),
    )
        .prop_map(|(interfaces, loopbacks, connect, routes, neighbors, streams, settings)| Parts {
            interfaces,
            loopbacks,
            connect,
            routes,
            neighbors,
            streams,
            settings,
        })
}

fn document(p: &Parts) -> String {
    let mut devices = String::from("devices:\n");
    let mut out = String::from("interfaces:\n");
    let mut names = vec![];
    for (n, (description, mtu, up, mac, subs)) in p.interfaces.iter().enumerate() {
        let _ = writeln!(
            devices,
            "  if{n}: {{driver: pcap, pcap: {{write: {OUT}/if{n}.pcap{}}}, promiscuous: {}{}}}",
            if *up { format!(", read: {OUT}/empty.pcap") } else { String::new() },
            mtu % 2 == 0,
            if *up && mtu % 3 != 0 {
                format!(", rx-placement: {{0: {}}}", mtu % 3 - 1)
            } else {
                String::new()
            } + match mtu % 5 {
                0 => ", handoff: {}",
                1 => ", handoff: {workers: [0], symmetrical: true}",
                _ => "",
            }
        );
        let _ = writeln!(
            out,
            "  if{n}:\n    mtu: {mtu}\n    addresses: [10.{n}.0.1/16, \"2001:db8:{}::1/64\"]",
            n + 1
        );
        let _ = writeln!(out, "    state: {}", if *up { "up" } else { "down" });
        if let Some(text) = description {
            let _ = writeln!(out, "    description: {}", serde_json::to_string(text).unwrap());
        }
        if let Some(mac) = mac {
            let _ = writeln!(out, "    mac: \"02:00:00:00:{n:02x}:{mac:02x}\"");
        }
        names.push((format!("if{n}"), n));
        if !subs.is_empty() {
            out.push_str("    sub-interfaces:\n");
        }
        for (s, (kind, smaller, up_too)) in subs.iter().enumerate() {
            let id = s + 1;
            let tags = match kind % 7 {
                0 => String::new(),
                1 => format!("encapsulation: {{dot1q: {}}}", 100 + s),
                2 => format!("encapsulation: {{dot1ad: {}, exact-match: true}}", 100 + s),
                3 => format!("encapsulation: {{dot1q: {}, inner-dot1q: {kind}, exact-match: true}}", 200 + s)
                    .replace(": 0,", ": 9,"),
                4 => format!("encapsulation: {{dot1ad: {}, inner-dot1q: any}}", 300 + s),
                5 if s == 0 => "encapsulation: {untagged: true}".into(),
                6 if s == 0 => "encapsulation: {default: true}".into(),
                _ => String::new(),
            };
            let state = if *up && *up_too { "up" } else { "down" };
            let _ = writeln!(
                out,
                "      {id}: {{mtu: {}, state: {state}, {tags}}}",
                mtu - u16::from(*smaller).min(mtu - 1280)
            );
        }
    }
    if p.connect {
        out.push_str("  x0: {l2xc: x1, mtu: 1400}\n  x1: {l2xc: x0, mtu: 1400}\n");
        for x in ["x0", "x1"] {
            let _ = writeln!(devices, "  {x}: {{driver: pcap, pcap: {{write: {OUT}/{x}.pcap}}}}");
        }
    }
    let mut loops = std::collections::BTreeMap::new();
    for (n, mac, up) in &p.loopbacks {
        loops.insert(*n, (*mac, *up));
    }
    let mut more = String::from("loopbacks:\n");
    for (n, (mac, up)) in &loops {
        let mac = mac.map_or(String::new(), |m| format!(", mac: \"02:00:00:01:00:{m:02x}\""));
        let _ = writeln!(more, "  loop{n}: {{addresses: [172.16.{}.{}/32]{mac}}}", n >> 8, n & 255);
        if !up {
            let _ = writeln!(out, "  loop{n}: {{state: down}}");
        }
    }
    let mut routes = std::collections::BTreeMap::new();
    for (a, b, c) in &p.routes {
        let via = usize::from(*b) % names.len();
        let target = match c % 6 {
            0 => "drop".into(),
            1 => "unreachable".into(),
            2 => format!("via 10.{via}.0.{}", c / 2 + 2),
            3 => format!("via 10.{via}.0.{} if{via} weight {}, if{via}", c / 2 + 2, c / 3 + 1),
            4 => format!("via if{via}"),
            _ => "prohibit".into(),
        };
        routes.insert(format!("20.{a}.0.0/16"), target);
        if c % 6 == 2 {
            routes.insert(
                format!("2001:db8:f{a:02x}::/48"),
                format!("via fe80::{c:x} if{via} weight 2 mtu {}", 1280 + u32::from(*c)),
            );
        }
    }
    let mut tail = String::from("routes:\n");
    for (prefix, target) in &routes {
        let _ = writeln!(tail, "  - {prefix} {target}");
    }
    let mut neighbors = std::collections::BTreeSet::new();
    tail.push_str("neighbors:\n");
    for (i, last) in &p.neighbors {
        let via = usize::from(*i) % names.len();
        if neighbors.insert((via, last)) {
            // In a prefix of the interface, or only by what the operator says.
            let net = if last % 2 == 0 { format!("10.{via}.1") } else { format!("172.31.{via}") };
            let _ = writeln!(
                tail,
                "  - {{interface: if{via}, address: {net}.{last}, mac: \"02:01:00:00:00:{last:02x}\"}}"
            );
        }
    }
    tail.push_str("packet-generator:\n");
    for (n, (ttl, port, kind)) in p.streams.iter().enumerate() {
        let layers = match kind % 4 {
            0 => format!(
                "[{{ipv4: {{src: 10.0.0.2, dst: 10.0.0.3-10.0.0.9 random, ttl: {ttl}}}}}, {{udp: {{sport: {port}, dport: 9}}}}]"
            ),
            1 => format!("[ethernet, {{vlan: {{id: {}, pcp: 0-7}}}}, {{arp: {{op: 2}}}}]", port % 4096),
            2 => format!("[{{raw: \"{ttl:02x} {kind:02x} 03 04 05 06 07 08 09 0a 0b 0c 0d 0e\"}}]"),
            _ => format!(
                "[ethernet, {{ipv6: {{src: \"2001:db8::2\", dst: \"2001:db8::3\", flow-label: {port}}}}}, {{tcp: {{sport: 1, dport: {port}, flags: \"syn,ack\"}}}}, {{payload: random}}]"
            ),
        };
        let node = if kind % 4 == 0 { "ip4-input" } else { "ethernet-input" };
        let size = if kind % 12 == 1 { "imix".into() } else { format!("100-{}", 100 + u32::from(*port) / 2) };
        let _ = writeln!(
            tail,
            "  s{n}: {{interface: if0, node: {node}, layers: {layers}, size: {size}, rate: {}, count: 3, seed: {ttl}}}",
            1 + u32::from(*port)
        );
    }
    let mut l3 = String::from("l3:\n  interfaces:\n");
    for (n, (_, mtu, _, mac, _)) in p.interfaces.iter().enumerate() {
        let (ip4, ip6, on) = (68 + mtu / 2, 1280.max(mtu - 100), mac.is_some());
        let _ = writeln!(l3, "    if{n}:\n      redirects: {{ip4: {on}, ip6: {}}}", mtu % 2 == 0);
        if n == 0 {
            let link_local = if p.settings.0 & 4 != 0 { "drop" } else { "forward" };
            let _ = writeln!(
                l3,
                "      arp-sender-check: {}\n      directed-broadcast: {}\n      ip4-link-local: {link_local}\n      \
                 ip4-broadcast-sources: {}",
                p.settings.0 & 1 != 0,
                p.settings.0 & 2 != 0,
                if p.settings.0 & 1 != 0 { "drop" } else { "forward" },
            );
        }
        if on {
            let _ = writeln!(l3, "      mtu: {{ip4: {ip4}, ip6: {ip6}, mpls: {mtu}}}");
        }
    }
    let policy = ["record", "pass", "drop"][usize::from(p.settings.0) % 3];
    let _ = writeln!(l3, "  tcp-resets: {}\n  ip4-options: {policy}", p.settings.2);
    let source = ["static", "connected", "kernel", "\"kernel:bird@blue\""][usize::from(p.settings.0) % 4];
    let _ = writeln!(l3, "  route-preferences: {{{source}: {}}}", u16::from(p.settings.0) % 254 + 1);
    let (queue, entries, strict) = p.settings;
    let settings = format!(
        "quiver: {{workers: 2, neighbor: {{queue: {}, max-entries: {entries}}}, dad: {}, api: {{socket: /run/api.sock, group: g{}, listen: [{{address: \"[::]:50051\", certificate: /c, key: /k, client-ca: /ca, roles: {{a.example: read, \"spiffe://b/c\": admin}}}}], connections: 3, rate: {{calls: 99}}}}, log: {{level: warn}}, sockets: {{idle-timeout: {}, roles: {{read: {{users: [ann]}}, admin: {{users: [bob, eve], groups: [ops]}}}}}}}}\n",
        u16::from(queue) + 1,
        if strict { "strict" } else { "off" },
        u16::from(queue),
        u32::from(queue) * 30
    );
    let loopbacks = if loops.is_empty() { String::new() } else { more };
    format!("{settings}{devices}{out}{loopbacks}{l3}{tail}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_document_comes_back(parts in parts()) {
        // A capture file without packets.
        let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
        std::fs::write(format!("{OUT}/empty.pcap"), header).unwrap();
        round_trip(&document(&parts));
    }
}
