//! Routing tables, and what interfaces do with packets.

use super::Doc;
use super::draw::Draw;
use std::fmt::Write as _;

/// Settings of routed interfaces that are one word, with values of each.
const SWITCHES: &[(&str, &[&str])] = &[
    ("reassembly", &["true", "{ip4: true}", "{ip6: true}"]),
    ("virtual-reassembly", &["{ip4: true}", "{ip6: true}"]),
    ("arp-sender-check", &["true", "false"]),
    ("directed-broadcast", &["true", "false"]),
    ("ip4-link-local", &["drop", "forward"]),
    ("ip4-broadcast-sources", &["drop", "forward"]),
];

/// Fields of router advertisements.
const ADVERTISED: &[&str] = &[
    "mtu: 1280",
    "interval: {min: 4, max: 30}",
    "initial: {count: 1, interval: 3}",
    "lifetime: 0",
    "managed: true",
    "other: true",
    "hop-limit: 0",
    "reachable-ms: 1000",
    "retransmit-ms: 2000",
    "preference: high",
    "link-layer: false",
    "unicast: true",
    "prefixes: {\"2001:db8:7::/64\": {valid: 100, preferred: 50, autonomous: false}}",
    "prefixes: {\"2001:db8:7::/64\": {valid: infinite, on-link: false, advertise: false}}",
    "routes: {\"2001:db8:9::/48\": {lifetime: 900, preference: low}}",
    "dns-servers: [\"2001:db8::53\"]",
    "search-domains: [example.net]",
    "dns-lifetime: 600",
];

fn advertisements(d: &mut Draw) -> String {
    let mut parts = std::collections::BTreeMap::new();
    for _ in 0..d.below(4) {
        let one = d.of(ADVERTISED);
        parts.insert(one.split_once(':').map_or(one, |(name, _)| name), one);
    }
    match parts.is_empty() {
        true => "true".into(),
        false => format!("{{{}}}", parts.into_values().collect::<Vec<_>>().join(", ")),
    }
}

impl Doc {
    pub(super) fn tables(&mut self) {
        let mut out = String::new();
        for id in [10, 20] {
            if self.d.one_in(3) {
                continue;
            }
            let family = self.d.of(&["", "", "family: ip4, "]);
            let both = family.is_empty();
            let mut of = |all: &[&'static str]| {
                let one = self.d.of(all);
                if one.contains('{') && !both { "" } else { one }
            };
            let name = of(&["", "name: red, ", "name: blue, ", "name: {ip4: old, ip6: new}, "]);
            let hash = of(&[
                "flow-hash: [src]",
                "flow-hash: [src, dst, symmetric]",
                "",
                "flow-hash: {ip4: [src], ip6: [dst, flowlabel]}",
            ]);
            let down = of(&["when-down: withdraw, ", "when-down: {ip4: withdraw, ip6: withdraw}, ", "", ""]);
            let _ = writeln!(out, "  {id}: {{{name}{family}{down}{hash}}}");
            self.tables.push((id, false));
            self.tables.extend(both.then_some((id, true)));
        }
        if !out.is_empty() {
            self.rest += &format!("tables:\n{out}");
        }
    }

    pub(super) fn layer3(&mut self) {
        let mut out = String::new();
        for name in self.routed.clone() {
            let mut parts = vec![];
            if self.d.one_in(4) {
                let table = self.of_tables(&[
                    ("10", &[(10, false), (10, true)]),
                    ("20", &[(20, false), (20, true)]),
                    ("{ip4: 10}", &[(10, false)]),
                    ("{ip4: 10, ip6: 20}", &[(10, false), (20, true)]),
                    ("{ip6: 20}", &[(20, true)]),
                ]);
                parts.extend(table.map(|t| format!("table: {t}")));
            }
            if self.d.one_in(4) {
                let (family, six) = self.d.of(&[("ip4", false), ("ip6", true)]);
                let how = self.of_tables(&[
                    ("strict", &[]),
                    ("loose", &[]),
                    ("{rx: {mode: loose, table: 10}}", &[(10, six)]),
                    ("{rx: strict, tx: {mode: loose, table: 10}}", &[(10, six)]),
                    ("{tx: strict}", &[]),
                ]);
                parts.extend(how.map(|how| format!("urpf: {{{family}: {how}}}")));
            }
            let d = &mut self.d;
            if d.one_in(4) {
                let (family, way) = (d.of(&["ip4", "ip6"]), d.of(&["rx", "tx"]));
                parts.push(format!("tcp-mss-clamp: {{{family}: {{{way}: {}}}}}", d.of(&[1300, 1400])));
            }
            if d.one_in(4) {
                parts.push(format!("redirects: {{{}: {}}}", d.of(&["ip4", "ip6"]), d.one_in(2)));
            }
            if d.one_in(5) {
                parts.push(format!(
                    "mtu: {{{}}}",
                    d.of(&["ip4: 900", "ip4: 1200", "ip6: 1280", "mpls: 1300"])
                ));
            }
            if d.one_in(5) {
                parts.push("proxy-arp: true".into());
            }
            if d.one_in(5) && name.starts_with('p') {
                parts
                    .push(format!("groups: [{}]", d.of(&["224.0.0.5", "224.0.0.6", "224.0.0.5, 224.0.0.9"])));
            }
            if d.one_in(5) && name.starts_with('p') {
                parts.push(format!("router-advertisements: {}", advertisements(d)));
            }
            for (word, values) in SWITCHES {
                if d.one_in(9) {
                    parts.push(format!("{word}: {}", d.of(values)));
                }
            }
            if d.one_in(9) && !self.unnumbered.contains(&name) {
                parts.push(format!("addresses: [{}]", d.of(&["10.55.0.1/24", "\"2001:db8:55::1/64\""])));
            }
            if !parts.is_empty() {
                let _ = writeln!(out, "    {name}: {{{}}}", parts.join(", "));
            }
        }
        let mut rest = String::new();
        if self.d.one_in(3) {
            rest += &format!("  tcp-resets: {}\n", self.d.one_in(2));
        }
        if self.d.one_in(3) {
            let sources = self.d.of(&["static", "connected", "kernel", "kernel:bird", "\"fpm:zebra@blue\""]);
            rest += &format!("  route-preferences: {{{sources}: {}}}\n", self.d.of(&[1, 5, 20, 254]));
        }
        if self.d.one_in(3) {
            rest += &format!("  ip4-options: {}\n", self.d.of(&["pass", "drop", "record"]));
        }
        if self.d.one_in(3) {
            let kind = self.d.of(&["ip4", "ip6", "ip4-virtual", "ip6-virtual"]);
            let what = self.d.of(&[
                "max-reassemblies: 10",
                "max-reassemblies: 20",
                "max-reassembly-length: 7",
                "timeout-ms: 500",
                "expire-walk-interval-ms: 70",
            ]);
            rest += &format!("  reassembly: {{{kind}: {{{what}}}}}\n");
        }
        if self.d.one_in(3) {
            rest += &format!("  proxy-arp: [10.7.0.1 - 10.7.0.{}]\n", self.d.of(&[7, 9]));
        }
        if self.d.one_in(3)
            && let Some(i) = self.routed.first()
        {
            rest += &format!(
                "  nd-proxy: [{{interface: {i}, address: \"2001:db8:5::{}\"}}]\n",
                self.d.of(&[5, 6])
            );
        }
        self.l3 = if out.is_empty() { rest } else { format!("  interfaces:\n{out}{rest}") };
    }
}
