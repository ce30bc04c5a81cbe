//! Loopbacks and bridge domains.

use super::Doc;
use std::fmt::Write as _;

impl Doc {
    pub(super) fn loopback(&mut self, n: u64, bvi: &mut Vec<String>) {
        if self.d.one_in(3) {
            return;
        }
        let name = format!("loop{n}");
        let mut parts = vec![];
        match self.d.below(4) {
            0 if self.routed.first().is_some_and(|lender| !self.unnumbered.contains(lender)) => {
                parts.push(format!("unnumbered: {}", self.routed[0]));
                self.unnumbered.push(name.clone());
            }
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

    pub(super) fn bridges(&mut self, mut bvi: Vec<String>) {
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
    pub(super) fn port_features(&mut self) -> String {
        let mut out = String::new();
        for word in ["learn", "forward", "uu-flood", "arp-term", "own-mtu"] {
            if self.d.one_in(5) {
                let _ = write!(out, ", {word}: {}", self.d.one_in(2));
            }
        }
        out
    }

    /// What is said of the stations of a bridge domain.
    pub(super) fn stations(&mut self, id: u64, member: Option<&String>) {
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
}
