//! Devices, workers that poll them, and bonds of them.

use super::{Doc, OUT};
use std::fmt::Write as _;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Absent,
    Routed,
    Bridged,
    Crossed,
    Bare,
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

impl Doc {
    pub(super) fn device(&mut self, n: u64) {
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
            let _ =
                writeln!(self.interfaces, "    description: {}", self.d.of(&["one", "\"two: x\"", "drei"]));
        }
        if self.d.one_in(9) {
            self.interfaces += "    device-type: dpdk\n";
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
                    self.unnumbered.push(name.clone());
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
                    let own = self.lender().map(|l| format!("unnumbered: {l}"));
                    self.unnumbered.extend(own.is_some().then(|| sub.clone()));
                    self.routed.push(sub);
                    let lcp = pair && !tags.contains("inner") && self.d.one_in(2);
                    let more = if lcp { format!("lcp: qe{n}.{s}") } else { String::new() };
                    let mpls = if self.d.one_in(5) { "mpls: true".into() } else { String::new() };
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

    /// How many workers there are, and how they wait.
    pub(super) fn workers(&mut self) {
        let count = self.d.of(&[1, 1, 1, 1, 2, 3]);
        let mut poll = vec![];
        if self.d.one_in(2) {
            let worker = self.d.below(count);
            poll.push(format!("workers: {{{worker}: {}}}", self.d.of(&["power", "balanced"])));
        }
        let balance = self.d.one_in(3);
        if self.d.one_in(3) {
            poll.push(format!("mode: {}", self.d.of(&["latency", "balanced", "power"])));
        }
        let _ = writeln!(
            self.rest,
            "quiver:\n  workers: {{count: {count}, balance: {balance}}}\n  poll: {{{}}}",
            poll.join(", ")
        );
    }

    /// Devices, some of which are members of a bond.
    pub(super) fn bond(&mut self) {
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
