//! Random documents over few names, so that two of them have much in common. A fuzz target draws them too.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Where capture files go.
const OUT: &str = match option_env!("CARGO_TARGET_TMPDIR") {
    Some(folder) => folder,
    None => "/tmp",
};

/// Numbers out of bytes, and when those are used up, numbers that follow from a seed.
struct Draw {
    seed: u64,
    bytes: VecDeque<u8>,
}

impl Draw {
    fn next(&mut self) -> u64 {
        if let Some(byte) = self.bytes.pop_front() {
            return byte.into();
        }
        let s = &mut self.seed;
        *s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*s >> 33) ^ *s >> 13 & 0xffff
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Absent,
    Routed,
    Bridged,
    Crossed,
    Bare,
}

struct Doc {
    d: Draw,
    devices: String,
    interfaces: String,
    loopbacks: String,
    l2: String,
    l3: String,
    rest: String,
    routed: Vec<String>,
    bridged: Vec<(String, u64)>,
    bare: Vec<String>,
    /// Interfaces that come behind those of the devices.
    others: String,
    /// What is said of stations of bridge domains.
    stations: String,
    /// What the machine has a part in may be drawn: pairs in Linux, TAPs, sockets, files that are read.
    machine: bool,
}

const NETS: [&str; 6] =
    ["10.0.0.1/24", "10.0.1.1/24", "10.0.1.2/24", "10.0.2.1/30", "172.16.0.1/16", "172.16.9.1/24"];
const NETS6: [&str; 3] = ["2001:db8:1::1/64", "2001:db8:2::1/64", "2001:db8:2::2/64"];

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

/// A capture file without packets.
fn empty_capture() -> &'static str {
    static FILE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    FILE.get_or_init(|| {
        let (file, own) =
            (format!("{OUT}/empty-drawn.pcap"), format!("{OUT}/empty-{}.pcap", std::process::id()));
        let head = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
        // Where it cannot be written, the router says so.
        let _ = std::fs::write(&own, head).and_then(|()| std::fs::rename(&own, &file));
        file
    })
}

/// Of streams of packets: what they are made of, and how large they are.
const STREAMS: &[&str] = &[
    "layers: [ethernet, {ipv4: {src: 10.0.0.2, dst: 10.0.0.3}}, {udp: {sport: 1, dport: 9}}], size: 100",
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

impl Doc {
    fn addresses(&mut self) -> String {
        let mut out: Vec<&str> = vec![];
        for _ in 0..self.d.below(4) {
            let net = if self.d.one_in(3) { self.d.of(&NETS6) } else { self.d.of(&NETS) };
            if !out.contains(&net) {
                out.push(net);
            }
        }
        if out.is_empty() {
            String::new()
        } else {
            format!("addresses: [{}]", out.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", "))
        }
    }

    /// A device whose addresses another one may use as its own.
    fn lender(&mut self) -> Option<String> {
        let all: Vec<&String> = self.routed.iter().filter(|i| !i.contains('.')).collect();
        let last = all.last().map(|i| (*i).clone())?;
        // One that is unnumbered lends nothing.
        let own = self
            .interfaces
            .split(&format!("  {last}:\n"))
            .nth(1)
            .is_some_and(|of| of.contains("    unnumbered"));
        (self.d.one_in(7) && !own).then_some(last)
    }

    fn device(&mut self, n: u64) {
        let name = format!("p{n}");
        let mode = self.d.of(&[
            Mode::Absent,
            Mode::Routed,
            Mode::Routed,
            Mode::Routed,
            Mode::Bridged,
            Mode::Crossed,
            Mode::Bare,
        ]);
        if mode == Mode::Absent {
            return;
        }
        let file = self.d.of(&["a", "a", "b"]);
        let promiscuous = self.d.one_in(3);
        let (mut read, mut queue) = ("".into(), "");
        if self.machine && self.d.one_in(3) {
            let rate = self.d.of(&["", ", rate: 1000", ", rate: 2000", ", rate: 7, loop: true"]);
            read = format!(", read: {}{rate}", empty_capture());
            queue = self.d.of(&[
                "",
                ", rx-placement: {0: 0}",
                ", handoff: {}",
                ", handoff: {symmetrical: true}",
                ", handoff: {workers: [0]}, rx-placement: {0: 0}",
            ]);
        }
        let _ = writeln!(
            self.devices,
            "  {name}: {{driver: pcap, pcap: {{write: {OUT}/{name}{file}.pcap{read}}}, promiscuous: {promiscuous}{queue}}}"
        );
        let mac = self.d.of(&[1, 1, 2]);
        let mtu = self.d.of(&[1500u32, 1500, 1400, 9000]);
        let _ = writeln!(
            self.interfaces,
            "  {name}:\n    mac: \"02:00:00:00:{mac:02x}:{n:02x}\"\n    mtu: {mtu}"
        );
        if self.d.one_in(3) {
            let _ = writeln!(self.interfaces, "    description: {}", self.d.of(&["one", "two: x", "drei"]));
        }
        let up = !self.d.one_in(4);
        if !up {
            self.interfaces += "    state: down\n";
        }
        let mut pair = false;
        match mode {
            Mode::Routed => {
                let mut a = self.addresses();
                if let Some(lender) = self.lender() {
                    a = format!("unnumbered: {lender}");
                }
                if !a.is_empty() {
                    let _ = writeln!(self.interfaces, "    {a}");
                }
                if self.machine && self.d.one_in(4) {
                    let _ = writeln!(self.interfaces, "    lcp: qe{n}{}", self.d.of(&["", "", "x"]));
                    pair = true;
                }
                if self.d.one_in(6) {
                    self.interfaces += "    mpls: true\n";
                }
                self.routed.push(name.clone());
            }
            Mode::Bridged => self.bridged.push((name.clone(), u64::from(mtu))),
            Mode::Bare => self.bare.push(name.clone()),
            Mode::Crossed | Mode::Absent => {}
        }
        if mode == Mode::Crossed {
            // The next one but those that are there may be its other end: a sub-interface is always.
            let _ = writeln!(self.interfaces, "    l2xc: x{n}");
            let _ = writeln!(self.devices, "  x{n}: {{driver: pcap, pcap: {{write: {OUT}/x{n}.pcap}}}}");
            let _ = writeln!(
                self.interfaces,
                "  x{n}: {{mtu: {mtu}, mac: \"02:00:00:00:09:{n:02x}\", l2xc: {name}}}"
            );
            return;
        }
        if mode == Mode::Bridged {
            if self.d.one_in(2) {
                let more = self.port_features();
                let _ = writeln!(
                    self.l2,
                    "    {name}: {{learn-limit: {}, flood: {}{more}}}",
                    5 + self.d.below(2),
                    self.d.one_in(2)
                );
            }
            return;
        }
        let subs: Vec<u64> = (1..4).filter(|_| self.d.one_in(2)).collect();
        if subs.is_empty() {
            return;
        }
        self.interfaces += "    sub-interfaces:\n";
        for s in subs {
            let tags = match self.d.below(6) {
                0 => format!("encapsulation: {{dot1q: {}, exact-match: true}}", 100 + s),
                1 => format!("encapsulation: {{dot1ad: {}, exact-match: true}}", 100 + self.d.below(3)),
                2 => format!(
                    "encapsulation: {{dot1q: {}, inner-dot1q: {s}, exact-match: true}}",
                    200 + self.d.below(2)
                ),
                _ => String::new(),
            };
            let state = if up && !self.d.one_in(3) { "up" } else { "down" };
            let smaller = mtu - self.d.of(&[0, 0, 100]);
            let sub = format!("{name}.{s}");
            let how = match self.d.below(4) {
                0 => {
                    self.bridged.push((sub, smaller.into()));
                    String::new()
                }
                // Frames that nobody routes: of any tag, or of none.
                1 if tags.is_empty() && self.d.one_in(2) => {
                    let any =
                        ["untagged: true", "default: true", "dot1q: 300, inner-dot1q: any"][s as usize - 1];
                    format!("encapsulation: {{{any}}}, description: of {s}")
                }
                // Frames that come in on it leave by a device of its own.
                1 if self.d.one_in(3) => {
                    let (x, own) = (format!("y{n}{s}"), 16 * n + s);
                    let _ =
                        writeln!(self.devices, "  {x}: {{driver: pcap, pcap: {{write: {OUT}/{x}.pcap}}}}");
                    let _ = writeln!(
                        self.others,
                        "  {x}: {{mtu: {smaller}, mac: \"02:00:00:00:08:{own:02x}\", l2xc: {sub}}}"
                    );
                    format!("l2xc: {x}")
                }
                1 => String::new(),
                _ => {
                    self.routed.push(sub);
                    let lcp = pair && !tags.contains("inner") && self.d.one_in(2);
                    let more = if lcp { format!("lcp: qe{n}.{s}") } else { String::new() };
                    let mpls = if self.d.one_in(5) { "mpls: true".into() } else { String::new() };
                    let own = self.lender().map(|l| format!("unnumbered: {l}"));
                    let all = [own.unwrap_or_else(|| self.addresses()), more, mpls];
                    all.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ")
                }
            };
            let parts: Vec<String> = [format!("mtu: {smaller}"), format!("state: {state}"), tags, how]
                .into_iter()
                .filter(|p| !p.is_empty())
                .collect();
            let _ = writeln!(self.interfaces, "      {s}: {{{}}}", parts.join(", "));
        }
    }

    fn loopback(&mut self, n: u64, bvi: &mut Vec<String>) {
        if self.d.one_in(3) {
            return;
        }
        let name = format!("loop{n}");
        let mut parts = vec![];
        match self.d.below(4) {
            0 if !self.routed.is_empty() => parts.push(format!(
                "unnumbered: {}",
                self.d.of(&[0]).to_string().replace('0', &self.routed[0].clone())
            )),
            1 => bvi.push(name.clone()),
            _ => parts.push(self.addresses()),
        }
        if self.d.one_in(3) {
            parts.push(format!("mac: \"02:00:00:01:00:{:02x}\"", self.d.below(2)));
        }
        if self.d.one_in(6) && !bvi.contains(&name) {
            parts.push(format!("mtu: {}", self.d.of(&[1400, 9000])));
        }
        if self.d.one_in(3) {
            parts.push("mpls: true".into());
        }
        if self.d.one_in(5) {
            parts.push(format!("description: {}", self.d.of(&["id", "\"a: b\""])));
        }
        if self.machine && self.d.one_in(5) && !bvi.contains(&name) {
            parts.push(format!("lcp: ql{n}"));
        }
        parts.retain(|p| !p.is_empty());
        let _ = writeln!(self.loopbacks, "  {name}: {{{}}}", parts.join(", "));
        if self.d.one_in(4) {
            let _ = writeln!(self.interfaces, "  {name}: {{state: down}}");
        }
        self.routed.push(name);
    }

    fn bridges(&mut self, mut bvi: Vec<String>) {
        let mut out = String::new();
        let mut all = std::mem::take(&mut self.bridged);
        for id in [10, 20] {
            let (mine, others) = all.into_iter().partition::<Vec<_>, _>(|m| m.1 == 1500 || id == 20);
            all = others;
            let mine: Vec<(String, u64)> = mine.into_iter().filter(|_| !self.d.one_in(4)).collect();
            let mtu = mine.first().map_or(1500, |m| m.1);
            let mine: Vec<String> = mine.into_iter().filter(|m| m.1 == mtu).map(|m| m.0).collect();
            if mine.is_empty() && self.d.one_in(2) {
                continue;
            }
            let _ = writeln!(out, "  bd{id}:\n    mtu: {mtu}\n    interfaces: [{}]", mine.join(", "));
            if mtu == 1500
                && let Some(b) = bvi.pop()
            {
                let _ = writeln!(out, "    bvi: {b}");
            }
            if self.d.one_in(4) {
                let _ = writeln!(out, "    description: {}", self.d.of(&["customers", "more"]));
            }
            if self.d.one_in(2) {
                let word = self.d.of(&[
                    "unicast-flood",
                    "unknown-unicast-flood",
                    "unicast-forward",
                    "arp-termination",
                    "arp-unicast-forward",
                ]);
                let _ = writeln!(
                    out,
                    "    settings: {{learn: {}, mac-age-minutes: {}, {word}: {}}}",
                    self.d.one_in(2),
                    self.d.below(3),
                    self.d.one_in(2)
                );
            }
            self.stations(id, mine.first());
            for (n, m) in mine.iter().enumerate() {
                if self.d.one_in(2) {
                    if self.l2.lines().any(|l| l.starts_with(&format!("    {m}:"))) {
                        continue;
                    }
                    let rewrite =
                        self.d.of(&["", "", ", tag-rewrite: disable", ", tag-rewrite: push dot1q 7"]);
                    let group = 1 + self.d.below(2);
                    let more = self.port_features();
                    let _ = writeln!(self.l2, "    {m}: {{split-horizon-group: {group}{rewrite}{more}}}");
                }
                if n == 0 && self.d.one_in(2) {
                    let _ = writeln!(self.rest, "# of bd{id}");
                    self.bare.push(format!("bd{id}:{m}"));
                }
            }
        }
        if !out.is_empty() {
            self.rest += &format!("bridgedomains:\n{out}");
        }
    }

    /// What a port lets its bridge domain do.
    fn port_features(&mut self) -> String {
        let mut out = String::new();
        for word in ["learn", "forward", "uu-flood", "arp-term", "own-mtu"] {
            if self.d.one_in(5) {
                let _ = write!(out, ", {word}: {}", self.d.one_in(2));
            }
        }
        out
    }

    /// What is said of the stations of a bridge domain.
    fn stations(&mut self, id: u64, member: Option<&String>) {
        let mut parts = vec![];
        if self.d.one_in(4) {
            parts.push(format!("learn-limit: {}", 100 + self.d.below(2)));
        }
        if self.d.one_in(3) {
            let to = member.map_or("filter", |m| if self.d.one_in(3) { "filter" } else { m });
            let more = self.d.of(&["", ", \"02:00:00:00:0d:02\": filter"]);
            parts.push(format!("macs: {{\"02:00:00:00:0d:01\": {to}{more}}}"));
        }
        if self.d.one_in(3) {
            let of = self.d.of(&["10.0.0.77", "10.0.0.78", "\"2001:db8:1::77\""]);
            parts.push(format!("arp: {{{of}: \"02:00:00:00:0d:{:02x}\"}}", self.d.below(2)));
        }
        if !parts.is_empty() {
            let _ = writeln!(self.stations, "    bd{id}: {{{}}}", parts.join(", "));
        }
    }

    fn tables(&mut self) {
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
        }
        if !out.is_empty() {
            self.rest += &format!("tables:\n{out}");
        }
    }

    fn layer3(&mut self) {
        let mut out = String::new();
        for name in self.routed.clone() {
            let mut parts = vec![];
            let d = &mut self.d;
            if d.one_in(4) {
                parts.push(format!(
                    "table: {}",
                    d.of(&["10", "20", "{ip4: 10}", "{ip4: 10, ip6: 20}", "{ip6: 20}"])
                ));
            }
            if d.one_in(4) {
                let family = d.of(&["ip4", "ip6"]);
                let how = d.of(&[
                    "strict",
                    "loose",
                    "{rx: {mode: loose, table: 10}}",
                    "{rx: strict, tx: {mode: loose, table: 10}}",
                    "{tx: strict}",
                ]);
                parts.push(format!("urpf: {{{family}: {how}}}"));
            }
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
            if d.one_in(9) {
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

    fn tunnels(&mut self) {
        let mut gre = String::new();
        let table = |d: &mut Draw, has: bool| if has && d.one_in(3) { ", table: 10" } else { "" };
        let has = self.rest.lines().any(|l| l.starts_with("  10:") && !l.contains("family"));
        let group = self.routed.first().cloned();
        for n in 0..2 {
            if self.d.one_in(2) {
                let (local, remote) = self.d.of(&[
                    ("10.0.0.1", "10.77.0.1"),
                    ("10.0.0.1", "10.77.0.2"),
                    ("\"2001:db8::1\"", "\"2001:db8:77::1\""),
                ]);
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

    fn above(&mut self) {
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
                    .d
                    .of(&[
                        "via ip4-lookup-in-table 0",
                        "via ip4-lookup-in-table 10",
                        "via 10.0.0.9 next-hop-table 0",
                    ])
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
            let table = if self.d.below(7) == 0 { "table 10 " } else { "" };
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
                "via 10.0.0.9",
                "via 2001:db8:2::9 weight 2, 2001:db8:1::8",
            ]);
            routes.insert((format!("2001:db8:f{n}::/48"), String::new()), to.into());
        }
        self.rest += "routes:\n";
        routes.iter().for_each(|((p, rank), to)| self.rest += &format!("  - {p} {rank}{to}\n"));
        let mut mpls = String::new();
        if self.d.one_in(2) {
            mpls += self.d.of(&["  tables: [7]\n", "  tables: [7, 9]\n"]);
        }
        mpls += "  local-labels:\n";
        for l in 0..self.d.below(4) {
            let table = self.d.of(&["", " table 7"]);
            if self.d.one_in(3) {
                let to = self.d.of(&[
                    "eos via ip4-lookup-in-table 10",
                    "eos via ip6-lookup-in-table 10 uniform",
                    "via ip-lookup-in-table 0",
                    "non-eos via mpls-lookup-in-table 7",
                    "eos drop",
                    "eos via 10.0.0.7 out-labels 3",
                    "non-eos via 10.0.0.7 out-labels 17 18 uniform exp 6",
                ]);
                let _ = writeln!(mpls, "    - {} {to}", 100 + l);
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
        if self.d.one_in(2)
            && let Some(i) = interface(&mut self.d)
        {
            let via = self.d.of(&["10.0.0.9", "10.0.0.8"]);
            let l2 = self.d.of(&["l2-only: true", "l2-only: false", "l2-only: true, control-word: true"]);
            let more = self.d.of(&["", " ttl 9", " weight 2", " uniform"]);
            let _ = write!(
                mpls,
                "  tunnels:\n    mpls-tunnel0: {{{l2}, via: [{via} {i} out-labels 100{more}]}}\n"
            );
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
            let other = self.d.of(PUNTED);
            let limit = self.d.of(&["off", "{rate: 90}", "{rate: 90, burst: 8}"]);
            self.rest += &format!(
                "punt:\n  icmp: {{rate: {}, burst: 7}}\n  {other}: {limit}\n",
                self.d.of(&[100, 200])
            );
        }
        let plain: Vec<String> = routed
            .iter()
            .chain(&self.bare)
            .filter(|i| i.starts_with('p') && !i.contains(':'))
            .cloned()
            .collect();
        if plain.len() > 1 && self.d.one_in(2) {
            let (a, b) = (&plain[0], &plain[plain.len() - 1]);
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

impl Doc {
    /// How many workers there are, and how they wait.
    fn workers(&mut self) {
        let count = self.d.of(&[1, 1, 1, 1, 2, 3]);
        let mut poll = vec![];
        if self.d.one_in(2) {
            let worker = self.d.below(count);
            poll.push(format!("workers: {{{worker}: {}}}", self.d.of(&["power", "balanced"])));
        }
        let balance = self.d.one_in(3);
        let _ = writeln!(
            self.rest,
            "quiver:\n  workers: {{count: {count}, balance: {balance}}}\n  poll: {{{}}}",
            poll.join(", ")
        );
    }

    /// Devices, some of which are members of a bond.
    fn bond(&mut self) {
        if self.d.one_in(2) {
            return;
        }
        let mtu = self.d.of(&[1500, 1500, 9000]);
        let mode = self.d.of(&["lacp", "xor", "xor", "active-backup", "round-robin", "broadcast"]);
        let (mut members, mut told) = (vec![], String::new());
        for n in 0..3 {
            let name = format!("m{n}");
            if self.d.one_in(5) {
                continue;
            }
            let _ = writeln!(self.devices, "  {name}: {{driver: pcap, pcap: {{write: {OUT}/{name}.pcap}}}}");
            if self.d.one_in(3) {
                let (mac, net) = (format!("\"02:00:00:00:0b:{n:02x}\""), format!("192.168.{n}.1/24"));
                let _ = writeln!(self.interfaces, "  {name}: {{mac: {mac}, addresses: [{net}]}}");
                continue;
            }
            let _ = writeln!(self.interfaces, "  {name}: {{mtu: {mtu}}}");
            let wish = self.d.of(&["passive: true", "long-timeout: true, weight: 7", ""]);
            if !wish.is_empty() {
                let _ = write!(told, "{name}: {{{wish}}}, ");
            }
            members.push(name);
        }
        let members = members.join(", ");
        let mut parts = vec![format!("mode: {mode}"), format!("interfaces: [{members}]")];
        parts.push(format!("mac: \"02:00:00:00:0c:{:02x}\"", self.d.below(2)));
        if matches!(mode, "lacp" | "xor") && self.d.one_in(2) {
            parts.push(format!("load-balance: {}", self.d.of(&["l2", "l23"])));
        }
        if self.d.one_in(4) {
            parts.push("description: both ways".into());
        }
        if self.d.one_in(3) {
            parts.push("min-links: 2".into());
        }
        if !told.is_empty() {
            parts.push(format!("members: {{{}}}", told.trim_end_matches(", ")));
        }
        let own = self.d.of(&[
            "",
            ", addresses: [192.168.9.1/24]",
            ", sub-interfaces: {5: {addresses: [192.168.8.1/24]}}",
        ]);
        let _ = writeln!(self.interfaces, "  BondEthernet0: {{mtu: {mtu}{own}}}");
        self.rest += &format!("bondethernets:\n  BondEthernet0: {{{}}}\n", parts.join(", "));
    }
}

impl Doc {
    /// Interfaces at whose other end is another process, and TAPs.
    fn sockets(&mut self) {
        let mut memifs = String::new();
        for n in 0..2 {
            if self.d.one_in(2) {
                continue;
            }
            let role = self.d.of(&[
                "master",
                "slave",
                "slave, rx-queues: 2, tx-queues: 2, ring-size: 64, buffer-size: 1024",
            ]);
            let mode = self.d.of(&["ethernet", "ethernet", "ip"]);
            let secret = self.d.of(&["", ", secret: one", ", secret: two"]);
            let _ =
                writeln!(memifs, "  memif1/{n}: {{socket: \"@drawn\", role: {role}, mode: {mode}{secret}}}");
            let own = self.d.of(&["", "addresses: [10.41.N.1/24]", "mtu: 1400", "state: down"]);
            if !own.is_empty() {
                let _ = writeln!(self.interfaces, "  memif1/{n}: {{{}}}", own.replace('N', &n.to_string()));
            }
        }
        if !memifs.is_empty() {
            self.rest += &format!("memifs:\n{memifs}");
        }
        let mut vhosts = String::new();
        for n in 0..2 {
            if self.d.one_in(2) {
                continue;
            }
            let role = self.d.of(&["client", "server"]);
            let more = self.d.of(&[
                "",
                ", gso: true",
                ", mergeable-buffers: false",
                ", indirect-descriptors: false",
                ", feature-mask: 1073774592",
            ]);
            let _ =
                writeln!(vhosts, "  VirtualEthernet0/0/{n}: {{socket: \"@drawn-{n}\", role: {role}{more}}}");
            let own = self.d.of(&["", "addresses: [10.42.N.1/24]", "mtu: 1400"]);
            if !own.is_empty() {
                let _ = writeln!(
                    self.interfaces,
                    "  VirtualEthernet0/0/{n}: {{{}}}",
                    own.replace('N', &n.to_string())
                );
            }
        }
        if !vhosts.is_empty() {
            self.rest += &format!("vhost-users:\n{vhosts}");
        }
        let mut taps = String::new();
        for n in 0..2 {
            if self.d.one_in(2) {
                continue;
            }
            let mtu = self.d.of(&[1500, 1400]);
            let host = self.d.of(&[
                "",
                "",
                ", ip4-address: 10.43.N.2/24",
                ", ip4-address: 10.43.N.2/24, ip6-address: \"2001:db8:43:N::2/64\"",
                ", ip4-address: 10.43.N.2/24, ip4-gateway: 10.43.N.1",
                ", ip6-address: \"2001:db8:43:N::2/64\", ip6-gateway: \"fe80::1\"",
            ]);
            let ring =
                self.d.of(&["", ", rx-ring-size: 512, tx-ring-size: 512", ", description: Management"]);
            let host = host.replace('N', &(n + 1).to_string());
            let _ = writeln!(
                taps,
                "  tap{n}: {{host: {{name: qt{n}, mac: \"02:00:00:00:0e:{n:02x}\", mtu: {mtu}{host}}}{ring}}}"
            );
            let device = self.d.of(&[
                "",
                "offload: off",
                "routed: true",
                "rx-queues: 2, tx-queues: 2",
                "promiscuous: true",
                "persistent: true",
            ]);
            if !device.is_empty() {
                let _ = writeln!(self.devices, "  tap{n}: {{driver: tap, {device}}}");
            }
            let own = if device == "routed: true" {
                format!(", addresses: [10.44.{n}.1/24]")
            } else {
                String::new()
            };
            let _ =
                writeln!(self.interfaces, "  tap{n}: {{mtu: {mtu}, mac: \"02:00:00:00:0f:{n:02x}\"{own}}}");
        }
        if !taps.is_empty() {
            self.rest += &format!("taps:\n{taps}");
        }
    }

    /// What holds for pairs in Linux.
    fn pairs(&mut self) {
        let mut out = String::new();
        for (word, values) in [
            ("lcp-sync", &["true", "false"][..]),
            ("lcp-auto-subint", &["true", "false"]),
            ("netlink", &["true", "false"]),
            ("nl-sync", &["true", "false"]),
            ("nl-rx-buffer-size", &["65536", "4096"]),
            ("fpm", &["{port: 2621}", "{address: 127.0.0.2, hold: 10}"]),
        ] {
            if self.d.one_in(3) {
                let _ = writeln!(out, "  {word}: {}", self.d.of(values));
            }
        }
        if self.d.one_in(4)
            && let Some(i) = self.routed.iter().find(|i| i.starts_with('p') && !i.contains('.'))
            && !self.interfaces.contains("lcp: ")
        {
            let _ = writeln!(out, "  interfaces: {{{i}: {{host-if: qz0}}}}");
        }
        if !out.is_empty() {
            self.rest += &format!("linux-cp:\n{out}");
        }
    }
}

/// The document of some bytes and a seed.
pub fn drawn(bytes: &[u8], seed: u64) -> String {
    written(bytes, seed, false)
}

/// A document of a seed that has a part in Linux, for a network namespace of its own.
#[allow(dead_code, reason = "a fuzz target has none")]
pub fn drawn_with_machine(seed: u64) -> String {
    written(&[], seed, true)
}

fn written(bytes: &[u8], seed: u64, machine: bool) -> String {
    let mut doc = Doc {
        d: Draw { seed, bytes: bytes.iter().copied().collect() },
        devices: String::new(),
        interfaces: String::new(),
        loopbacks: String::new(),
        l2: String::new(),
        l3: String::new(),
        rest: String::new(),
        routed: vec![],
        bridged: vec![],
        bare: vec![],
        stations: String::new(),
        others: String::new(),
        machine,
    };
    let mut order: Vec<u64> = (0..4).collect();
    if doc.d.one_in(2) {
        order.swap(0, 2);
    }
    order.into_iter().for_each(|n| doc.device(n));
    let others = std::mem::take(&mut doc.others);
    doc.interfaces += &others;
    let mut bvi = vec![];
    (0..3).for_each(|n| doc.loopback(n, &mut bvi));
    doc.bridges(bvi);
    doc.tables();
    doc.tunnels();
    doc.layer3();
    doc.above();
    doc.bond();
    if machine {
        doc.sockets();
        doc.pairs();
    }
    doc.workers();
    let mut out = String::new();
    let mut l2 = if doc.l2.is_empty() { String::new() } else { format!("  interfaces:\n{}", doc.l2) };
    if !doc.stations.is_empty() {
        l2 += &format!("  bridgedomains:\n{}", doc.stations);
    }
    if doc.d.one_in(5) {
        l2 += &format!("  learn-limit: {}\n", doc.d.of(&[1000, 2000]));
    }
    for (name, body) in [
        ("devices", &doc.devices),
        ("interfaces", &doc.interfaces),
        ("loopbacks", &doc.loopbacks),
        ("l2", &l2),
        ("l3", &doc.l3),
    ] {
        if !body.is_empty() {
            let _ = write!(out, "{name}:\n{body}");
        }
    }
    out + &doc.rest
}
