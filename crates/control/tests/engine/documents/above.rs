//! Tunnels, routes, labels, and what else stands above interfaces.

use super::Doc;
use super::draw::Draw;
use std::fmt::Write as _;

/// Classes of packets for the router itself, but for `icmp`.
const PUNTED: &[&str] = &[
    "arp-request",
    "arp-reply",
    "nd-solicitation",
    "nd-advertisement",
    "nd-router",
    "icmp6",
    "bgp",
    "ospf",
    "ldp",
    "vrrp",
    "isis",
    "bfd",
    "slow-protocols",
    "lldp",
    "igmp",
    "mld",
    "broadcast",
    "fragment",
    "local",
    "linux",
    "api",
    "options",
    "mpls-router-alert",
    "ttl-exceeded",
    "tcp-reset",
    "redirect",
    "icmp-error",
];

/// Of streams of packets: what they are made of, and how large they are.
const STREAMS: &[&str] = &[
    "layers: [ethernet, {ipv4: {src: 10.0.0.2, dst: 10.0.0.3}}, {udp: {sport: {range: 1-9, mode: random}, dport: 9}}], size: 100",
    "layers: [ethernet: {src: \"02:00:00:00:00:01\", dst: \"02:00:00:00:00:02\", type: 0x0800}, payload: zero], size: {range: 64-80, mode: random}",
    "layers: [ethernet, vlan: {id: 100-200, pcp: 3-4, tpid: 0x88a8, type: 0x0806}, arp: {op: 2, sender-mac: \"02:00:00:00:00:05\", \
     sender-ip: 10.0.0.5, target-mac: \"02:00:00:00:00:06\", target-ip: 10.0.0.1}], size: {mix: [{size: 64, weight: 3}, {size: 128}]}",
    "node: ip4-input, layers: [ipv4: {src: 10.0.0.2, dst: 10.0.0.3-10.0.0.9, ttl: 7, dscp: 46, ecn: 1, id: 7, df: true, mf: true, \
     fragment: 3, proto: 17, checksum: bad}, udp: {sport: 1-9 random, dport: 7, checksum: none}], size: 100-200 increment",
    "node: ip6-input, layers: [ipv6: {src: \"2001:db8::2\", dst: \"2001:db8::3\", hop-limit: 9, next-header: 6, traffic-class: 1, \
     flow-label: 5}, tcp: {sport: 1, dport: 2, flags: \"syn,ack\", seq: 7, ack: 8, window: 9, checksum: 0x1234}], size: imix",
    "layers: [ethernet, ipv4: {src: 10.0.0.2, dst: 10.0.0.3}, icmp-echo: {reply: true, id: 5, seq: 1-10, checksum: bad}, payload: random], size: 90, seed: 9",
    "layers: [raw: \"ff ff ff ff ff ff 02 00 00 00 00 01 08 06 00\"], size: 60",
];

/// Paths as mappings.
const PATHS: &[&str] = &[
    "address: 10.0.0.9, weight: 2, mtu: 1400",
    "address: 10.0.0.8, out-labels: [33, 34], mode: uniform, exp: copy",
    "address: 10.0.0.8, out-labels: [33], ttl: 9, exp: 5, weight: 2",
];

impl Doc {
    pub(super) fn tunnels(&mut self) {
        let mut gre = String::new();
        let table = |d: &mut Draw, has: bool| if has && d.one_in(3) { ", table: 10" } else { "" };
        let has = self.tables.contains(&(10, true));
        let group = self.routed.first().cloned();
        for n in 0..2 {
            if self.d.one_in(2) {
                // Two with the same ends differ in their keys.
                let (a, b) = (format!("10.77.0.{}", 1 + n), format!("\"2001:db8:77::{}\"", 1 + n));
                let ends = [("10.0.0.1", &*a), ("10.0.0.1", "10.77.0.9"), ("\"2001:db8::1\"", &*b)];
                let (local, remote) = self.d.of(&ends);
                let more = self.d.of(&["", ", ttl: 9", ", dscp: copy", ", teb: true"]);
                let key = self.d.of(&["", ", key: 7", ", sequence: true", ", key: 8, checksum: true"]);
                let table = table(&mut self.d, has);
                let _ = writeln!(gre, "  gre{n}: {{local: {local}, remote: {remote}{more}{key}{table}}}");
                if self.d.one_in(2) {
                    let _ = writeln!(
                        self.interfaces,
                        "  gre{n}: {{mtu: {}, state: {}}}",
                        self.d.of(&[1300, 1400]),
                        self.d.of(&["up", "down"])
                    );
                }
            }
        }
        if !gre.is_empty() {
            self.rest += &format!("gre_tunnels:\n{gre}");
        }
        let mut vxlan = String::new();
        for n in 0..2 {
            if self.d.one_in(2) {
                let vni = self.d.of(&[100, 200 + n, 300 + n]);
                let ends = self.d.of(&[
                    "local: 10.0.0.1, remote: 10.77.0.3",
                    "local: 10.0.0.1, remote: 10.77.0.4",
                    "local: \"2001:db8::1\", remote: \"2001:db8:77::3\", zero-checksum: true",
                    "local: 10.0.0.1, remote: 239.0.0.1, group-interface: ",
                    "local: 10.0.0.1, remote: 239.0.0.2, group-interface: ",
                ]);
                let ends = match (&group, ends.ends_with("group-interface: ")) {
                    (Some(group), true) => format!("{ends}{group}"),
                    (None, true) => "local: 10.0.0.1, remote: 10.77.0.5".into(),
                    (_, false) => ends.into(),
                };
                let more = self.d.of(&[
                    "",
                    ", ttl: copy",
                    ", local-port: 8472",
                    ", remote-port: 8472, dscp: 9",
                    ", description: to B",
                ]);
                let table = table(&mut self.d, has);
                let _ = writeln!(vxlan, "  vxlan_tunnel{n}: {{{ends}, vni: {vni}{more}{table}}}");
                let _ = writeln!(self.interfaces, "  vxlan_tunnel{n}: {{}}");
            }
        }
        if !vxlan.is_empty() {
            self.rest += &format!("vxlan_tunnels:\n{vxlan}");
        }
    }

    pub(super) fn above(&mut self) {
        let mut routes = std::collections::BTreeMap::new();
        let routed = self.routed.clone();
        let interface = |d: &mut Draw| routed.get(d.below(routed.len().max(1) as u64) as usize).cloned();
        for _ in 0..self.d.below(12) {
            let prefix = format!("20.{}.0.0/16", self.d.below(8));
            let to = match self.d.below(9) {
                7 => self
                    .d
                    .of(&[
                        "via 10.0.0.9 out-labels 100",
                        "via 10.0.0.9 out-labels 100 200 ttl 9",
                        "via 10.0.0.8 out-labels 33 exp 5 weight 2, 10.0.0.9",
                    ])
                    .into(),
                8 => self
                    .of_tables(&[
                        ("via ip4-lookup-in-table 10", &[(10, false)]),
                        ("via 10.0.0.9 next-hop-table 10", &[(10, false)]),
                        ("via 10.0.0.9 mtu 1400", &[]),
                        ("via 10.0.0.9 next-hop-table 0", &[]),
                    ])
                    .unwrap_or("drop")
                    .into(),
                0 => "drop".into(),
                1 => "prohibit".into(),
                2 => format!("via 10.0.0.{}", 7 + self.d.below(3)),
                3 => format!("via 10.0.1.{}, 10.0.0.9 weight 3", 2 + self.d.below(3)),
                4 | 5 => match interface(&mut self.d) {
                    Some(i) => format!("via 10.0.0.{} {i}", 8 + self.d.below(2)),
                    None => "unreachable".into(),
                },
                _ => format!("via 10.0.0.{}", 8 + self.d.below(2)),
            };
            // A table that leads into itself is wrong.
            let own = self.tables.contains(&(10, false)) && !to.contains("table 10") && self.d.one_in(5);
            let table = if own { "table 10 " } else { "" };
            // Some prefixes have several routes, and some change their rank.
            let rank = self.d.of(&["", "", "", "preference 5 ", "metric 7 ", "preference 200 metric 9 "]);
            routes.insert((prefix, format!("{table}{rank}")), to);
        }
        if self.d.one_in(2)
            && let Some(i) = interface(&mut self.d)
        {
            routes.insert(("20.99.0.1/32".into(), String::new()), format!("via {i}"));
        }
        for n in 0..self.d.below(3) {
            let to = self.d.of(&[
                "via 2001:db8:1::9",
                "drop",
                "via 2001:db8:1::7 mtu 1400",
                "via 2001:db8:2::9 weight 2, 2001:db8:1::8",
            ]);
            routes.insert((format!("2001:db8:f{n}::/48"), String::new()), to.into());
        }
        self.rest += "routes:\n";
        routes.iter().for_each(|((p, rank), to)| self.rest += &format!("  - {p} {rank}{to}\n"));
        // The same as mappings.
        for n in 8..11 {
            let path = self.d.of(PATHS);
            let on = interface(&mut self.d).map_or(String::new(), |i| format!(", interface: {i}"));
            let route = match self.d.below(6) {
                0 => format!("prefix: 20.{n}.0.0/16, via: {{{path}}}"),
                1 => format!("prefix: 20.{n}.0.0/16, preference: 5, metric: 7, via: [{{{path}}}, 10.0.0.7]"),
                2 => format!("prefix: 20.{n}.0.0/16, via: {{address: 10.0.0.9{on}}}"),
                3 => format!("prefixes: [20.{n}.0.0/16, 20.1{n}.0.0/16], type: unreachable"),
                4 if self.tables.contains(&(10, false)) => {
                    format!("prefix: 20.{n}.0.0/16, table: 10, via: {{address: 10.0.0.9, table: 0}}")
                }
                _ => continue,
            };
            let _ = writeln!(self.rest, "  - {{{route}}}");
        }
        let mut mpls = String::new();
        let labelled = self.d.one_in(2);
        if labelled {
            mpls += self.d.of(&["  tables: [7]\n", "  tables: [7, 9]\n"]);
        }
        mpls += "  local-labels:\n";
        for l in 0..self.d.below(4) {
            let table = if labelled { self.d.of(&["", " table 7"]) } else { "" };
            if self.d.one_in(2) {
                let to = self.of_tables(&[
                    ("eos via ip4-lookup-in-table 10", &[(10, false)]),
                    ("eos via ip6-lookup-in-table 10 uniform", &[(10, true)]),
                    ("via ip-lookup-in-table 0", &[]),
                    ("eos drop", &[]),
                    ("eos via 10.0.0.7 out-labels 3", &[]),
                    ("non-eos via 10.0.0.7 out-labels 17 18 uniform exp 6", &[]),
                ]);
                let to = if labelled && self.d.one_in(4) {
                    Some("non-eos via mpls-lookup-in-table 7")
                } else {
                    to
                };
                let _ = writeln!(mpls, "    - {} {}", 100 + l, to.unwrap_or("drop"));
                continue;
            }
            let _ = writeln!(
                mpls,
                "    - {} eos{table} via 10.0.0.{} out-labels {}",
                100 + l,
                7 + self.d.below(2),
                self.d.of(&["200", "33 200"])
            );
        }
        for label in 110..112 {
            let path = self.d.of(PATHS).replace(", mtu: 1400", "");
            let table = if labelled { self.d.of(&["", ", table: 7"]) } else { "" };
            let on = interface(&mut self.d).map_or(String::new(), |i| format!(", interface: {i}"));
            let to = match self.d.below(6) {
                0 => format!("eos: true{table}, via: {{{path}}}"),
                1 => "eos: true, via: {table: 0, lookup: ip}".into(),
                2 => "type: drop".into(),
                3 => format!("eos: true, via: [{{address: 10.0.0.7, out-labels: [200]{on}}}]"),
                _ => continue,
            };
            let _ = writeln!(mpls, "    - {{label: {label}, {to}}}");
        }
        if self.d.one_in(2)
            && let Some(i) = interface(&mut self.d)
        {
            let via = self.d.of(&["10.0.0.9", "10.0.0.8"]);
            let l2 = self.d.of(&["l2-only: true", "l2-only: false", "l2-only: true, control-word: true"]);
            let more = self.d.of(&["", " ttl 9", " weight 2", " uniform"]);
            let with = self.d.of(&["weight: 3", "ttl: 9", "mode: uniform, exp: copy", "exp: 5"]);
            let path = match self.d.one_in(2) {
                true => format!("{via} {i} out-labels 100{more}"),
                false => format!("{{address: {via}, interface: {i}, out-labels: [100], {with}}}"),
            };
            let _ = write!(mpls, "  tunnels:\n    mpls-tunnel0: {{{l2}, via: [{path}]}}\n");
            let _ = writeln!(self.interfaces, "  mpls-tunnel0: {{mtu: 1400, mac: \"02:00:00:00:07:01\"}}");
        }
        self.rest += &format!("mpls:\n{mpls}");
        let mut neighbors = std::collections::BTreeSet::new();
        self.rest += "neighbors:\n";
        for _ in 0..self.d.below(4) {
            let Some(i) = routed.iter().filter(|i| i.starts_with('p')).nth(self.d.below(3) as usize) else {
                continue;
            };
            let a = self.d.of(&["10.0.0.7", "10.0.1.7", "172.31.0.1", "\"2001:db8:1::7\""]);
            if neighbors.insert((i.clone(), a)) {
                let _ = writeln!(
                    self.rest,
                    "  - {{interface: {i}, address: {a}, mac: \"02:01:00:00:00:{:02x}\"}}",
                    self.d.below(2)
                );
            }
        }
        if self.d.one_in(2) {
            self.rest += &format!("punt:\n  icmp: {{rate: {}, burst: 7}}\n", self.d.of(&[100, 200]));
            let others: std::collections::BTreeSet<&str> = (0..3).map(|_| self.d.of(PUNTED)).collect();
            for other in others {
                let limit = self.d.of(&["off", "{rate: 90}", "{rate: 90, burst: 8}"]);
                self.rest += &format!("  {other}: {limit}\n");
            }
        }
        let plain: Vec<String> = routed
            .iter()
            .chain(&self.bare)
            .filter(|i| i.starts_with('p') && !i.contains(':'))
            .cloned()
            .collect();
        let device = |i: &String| i.split('.').next().map(str::to_owned);
        if let (Some(a), Some(b)) = (plain.first(), plain.last())
            && device(a) != device(b)
            && self.d.one_in(2)
        {
            let way = self.d.of(&["rx", "tx", "both", "both, l2: true"]);
            self.rest += &format!("span:\n  - {{source: {a}, destination: {b}, direction: {way}}}\n");
            if self.d.one_in(2) && self.rest.lines().any(|l| l == "  bd10:") {
                let _ = writeln!(self.rest, "  - {{bridgedomain: bd10, destination: {b}}}");
            }
        }
        if let Some(i) = plain.first()
            && self.d.one_in(2)
        {
            let (rate, state) = (self.d.of(&[10, 20]), self.d.of(&["", ", state: enabled"]));
            let what = self.d.of(STREAMS);
            let name = self.d.of(&["s0: {", "- {name: s0, "]);
            self.rest += &format!(
                "packet-generator:\n  {name}interface: {i}, {what}, rate: {rate}, count: 3{state}}}\n"
            );
        }
    }
}
