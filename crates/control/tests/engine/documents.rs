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
}

const NETS: [&str; 6] =
    ["10.0.0.1/24", "10.0.1.1/24", "10.0.1.2/24", "10.0.2.1/30", "172.16.0.1/16", "172.16.9.1/24"];
const NETS6: [&str; 3] = ["2001:db8:1::1/64", "2001:db8:2::1/64", "2001:db8:2::2/64"];

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
        let _ = writeln!(
            self.devices,
            "  {name}: {{driver: pcap, pcap: {{write: {OUT}/{name}{file}.pcap}}, promiscuous: {promiscuous}}}"
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
        match mode {
            Mode::Routed => {
                let a = self.addresses();
                if !a.is_empty() {
                    let _ = writeln!(self.interfaces, "    {a}");
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
                let _ = writeln!(
                    self.l2,
                    "    {name}: {{learn-limit: {}, flood: {}}}",
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
            let tags = match self.d.below(4) {
                0 => format!("encapsulation: {{dot1q: {}, exact-match: true}}", 100 + s),
                1 => format!("encapsulation: {{dot1ad: {}, exact-match: true}}", 100 + self.d.below(3)),
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
                1 => String::new(),
                _ => {
                    self.routed.push(sub);
                    self.addresses()
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
        if self.d.one_in(3) {
            parts.push("mpls: true".into());
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
            if self.d.one_in(2) {
                let _ = writeln!(
                    out,
                    "    settings: {{learn: {}, mac-age-minutes: {}}}",
                    self.d.one_in(2),
                    self.d.below(3)
                );
            }
            for (n, m) in mine.iter().enumerate() {
                if self.d.one_in(2) {
                    let _ = writeln!(self.l2, "    {m}: {{split-horizon-group: {}}}", 1 + self.d.below(2));
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

    fn tables(&mut self) {
        let mut out = String::new();
        for id in [10, 20] {
            if self.d.one_in(3) {
                continue;
            }
            let name = self.d.of(&["", "name: red, ", "name: blue, "]);
            let hash = self.d.of(&["flow-hash: [src]", "flow-hash: [src, dst, symmetric]", ""]);
            let family = self.d.of(&["", "", "family: ip4, "]);
            let down = self.d.of(&["when-down: withdraw, ", "when-down: {ip4: withdraw}, ", "", ""]);
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
                parts.push(format!("table: {}", d.of(&["10", "20", "{ip4: 10}"])));
            }
            if d.one_in(4) {
                parts.push(format!(
                    "urpf: {{ip4: {}}}",
                    d.of(&["strict", "loose", "{rx: {mode: loose, table: 10}}"])
                ));
            }
            if d.one_in(4) {
                parts.push(format!("tcp-mss-clamp: {{ip4: {{rx: {}}}}}", d.of(&[1300, 1400])));
            }
            if d.one_in(4) {
                parts.push(format!("redirects: {{ip4: {}}}", d.one_in(2)));
            }
            if d.one_in(5) {
                parts.push(format!("mtu: {{ip4: {}}}", d.of(&[900, 1200])));
            }
            if d.one_in(5) {
                parts.push("proxy-arp: true".into());
            }
            if d.one_in(5) && name.starts_with('p') {
                parts
                    .push(format!("groups: [{}]", d.of(&["224.0.0.5", "224.0.0.6", "224.0.0.5, 224.0.0.9"])));
            }
            if d.one_in(5) && name.starts_with('p') {
                parts.push(format!("router-advertisements: {{mtu: {}}}", d.of(&[1280, 1400])));
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
            rest += &format!("  reassembly: {{ip4: {{max-reassemblies: {}}}}}\n", self.d.of(&[10, 20]));
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
                let more =
                    self.d.of(&["", ", ttl: copy", ", local-port: 8472", ", remote-port: 8472, dscp: 9"]);
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
            let to = match self.d.below(7) {
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
        self.rest += "routes:\n";
        routes.iter().for_each(|((p, rank), to)| self.rest += &format!("  - {p} {rank}{to}\n"));
        let mut mpls = String::new();
        if self.d.one_in(2) {
            mpls += "  tables: [7]\n";
        }
        mpls += "  local-labels:\n";
        for l in 0..self.d.below(4) {
            let table = self.d.of(&["", " table 7"]);
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
            let _ = write!(
                mpls,
                "  tunnels:\n    mpls-tunnel0: {{l2-only: {}, via: [{via} {i} out-labels 100]}}\n",
                self.d.one_in(2)
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
            let a = self.d.of(&["10.0.0.7", "10.0.1.7", "172.31.0.1"]);
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
        }
        let plain: Vec<String> = routed
            .iter()
            .chain(&self.bare)
            .filter(|i| i.starts_with('p') && !i.contains(':'))
            .cloned()
            .collect();
        if plain.len() > 1 && self.d.one_in(2) {
            let (a, b) = (&plain[0], &plain[plain.len() - 1]);
            let way = self.d.of(&["rx", "tx", "both"]);
            self.rest += &format!("span:\n  - {{source: {a}, destination: {b}, direction: {way}}}\n");
        }
        if let Some(i) = plain.first()
            && self.d.one_in(2)
        {
            let (rate, state) = (self.d.of(&[10, 20]), self.d.of(&["", ", state: enabled"]));
            self.rest += &format!(
                "packet-generator:\n  s0: {{interface: {i}, layers: [ethernet, {{ipv4: {{src: 10.0.0.2, dst: 10.0.0.3}}}}, {{udp: {{sport: 1, dport: 9}}}}], size: 100, rate: {rate}, count: 3{state}}}\n"
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

/// The document of some bytes and a seed.
pub fn drawn(bytes: &[u8], seed: u64) -> String {
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
    };
    let mut order: Vec<u64> = (0..4).collect();
    if doc.d.one_in(2) {
        order.swap(0, 2);
    }
    order.into_iter().for_each(|n| doc.device(n));
    let mut bvi = vec![];
    (0..3).for_each(|n| doc.loopback(n, &mut bvi));
    doc.bridges(bvi);
    doc.tables();
    doc.tunnels();
    doc.layer3();
    doc.above();
    doc.bond();
    doc.workers();
    let mut out = String::new();
    let l2 = if doc.l2.is_empty() { String::new() } else { format!("  interfaces:\n{}", doc.l2) };
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
