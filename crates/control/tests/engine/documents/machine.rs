//! What the machine has a part in: TAPs, sockets of other processes, and pairs in Linux.

use super::Doc;
use std::fmt::Write as _;

impl Doc {
    /// Interfaces at whose other end is another process, and TAPs.
    pub(super) fn sockets(&mut self) {
        let mut memifs = String::new();
        // Both sides of a socket are never one router's.
        let role = self.d.of(&["master", "slave"]);
        for n in 0..2 {
            if self.d.one_in(2) {
                continue;
            }
            let rings = match role {
                "slave" => self.d.of(&["", ", rx-queues: 2, tx-queues: 2, ring-size: 64, buffer-size: 1024"]),
                _ => "",
            };
            let mode = self.d.of(&["ethernet", "ethernet", "ip"]);
            let secret = self.d.of(&["", ", secret: one", ", secret: two"]);
            let _ = writeln!(
                memifs,
                "  memif1/{n}: {{socket: \"@drawn\", role: {role}, mode: {mode}{rings}{secret}}}"
            );
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
                ", bridge: qtbr, bridge-create: true",
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
    pub(super) fn pairs(&mut self) {
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
