//! What the document and a command both take has one range: that of `docs/schema.json` and that of `docs/commands.md`, which other
//! tests compare with what the reader and the commands ask for, and that of the rows of `docs/configuration.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// A place of the document; the first words of a command; an argument of it that sets the same.
const SAME: &[(&str, &str, &str)] = &[
    ("bondethernets.*.members.*.weight", "set interface bond", "weight"),
    ("bondethernets.*.min-links", "create bond", "links"),
    ("bondethernets.*.min-links", "set bond", "links"),
    ("bridgedomains.*.settings.mac-age-minutes", "create bridge-domain", "mac-age"),
    ("bridgedomains.*.settings.mac-age-minutes", "set bridge-domain mac-age", "mac-age"),
    ("devices.*.handoff.workers[]", "set workers polling", "worker"),
    ("devices.*.pcap.rate", "create pcap-interface", "rate"),
    ("devices.*.rx-placement.*", "set interface rx-placement", "worker"),
    ("devices.*.rx-queues", "create host-interface", "queues"),
    ("devices.*.rx-queues", "create interface af_xdp", "queues"),
    ("devices.*.rx-queues", "create interface dpdk", "rx"),
    ("devices.*.rx-queues", "create tap", "queues"),
    ("devices.*.rx-queues", "set interface rx-queues", "queues"),
    ("devices.*.rx-ring.slots", "create interface af_xdp", "slots"),
    ("devices.*.tx-queues", "create interface dpdk", "tx"),
    ("gre_tunnels.*.dscp", "create gre tunnel", "dscp"),
    ("gre_tunnels.*.dscp", "set gre tunnel", "dscp"),
    ("gre_tunnels.*.key", "create gre tunnel", "key"),
    ("gre_tunnels.*.key", "set gre tunnel", "key"),
    ("gre_tunnels.*.ttl", "create gre tunnel", "ttl"),
    ("gre_tunnels.*.ttl", "set gre tunnel", "ttl"),
    ("interfaces.*.sub-interfaces.*.encapsulation.dot1ad", "create sub-interfaces", "vlan"),
    ("interfaces.*.sub-interfaces.*.encapsulation.dot1q", "create sub-interfaces", "vlan"),
    ("l2.bridgedomains.*.learn-limit", "set bridge-domain learn-limit", "limit"),
    ("l2.interfaces.*.learn-limit", "set interface l2 learn-limit", "limit"),
    ("l2.interfaces.*.split-horizon-group", "set interface l2 bridge", "shg"),
    ("l2.learn-limit", "set l2fib learn-limit", "limit"),
    ("l3.interfaces.*.router-advertisements.hop-limit", "ip6 nd", "hops"),
    ("l3.interfaces.*.router-advertisements.initial.count", "ip6 nd", "count"),
    ("l3.interfaces.*.router-advertisements.initial.interval", "ip6 nd", "interval"),
    ("l3.interfaces.*.router-advertisements.interval.max", "ip6 nd", "max"),
    ("l3.interfaces.*.router-advertisements.interval.min", "ip6 nd", "min"),
    ("l3.interfaces.*.router-advertisements.lifetime", "ip6 nd", "lifetime"),
    ("l3.interfaces.*.router-advertisements.prefixes.*.preferred", "ip6 nd", "preferred"),
    ("l3.interfaces.*.router-advertisements.prefixes.*.valid", "ip6 nd", "valid"),
    ("l3.interfaces.*.router-advertisements.reachable-ms", "ip6 nd", "reachable"),
    ("l3.interfaces.*.router-advertisements.retransmit-ms", "ip6 nd", "retrans"),
    ("l3.interfaces.*.router-advertisements.routes.*.lifetime", "ip6 nd", "lifetime"),
    ("l3.interfaces.*.tcp-mss-clamp.ip4", "set interface tcp-mss-clamp", "mss"),
    ("l3.reassembly.ip4.expire-walk-interval-ms", "set ip reassembly", "interval"),
    ("l3.reassembly.ip4.max-reassemblies", "set ip reassembly", "datagrams"),
    ("l3.reassembly.ip4.max-reassembly-length", "set ip reassembly", "fragments"),
    ("l3.reassembly.ip4.timeout-ms", "set ip reassembly", "timeout"),
    ("l3.reassembly.ip6.expire-walk-interval-ms", "set ip6 reassembly", "interval"),
    ("l3.reassembly.ip6.max-reassemblies", "set ip6 reassembly", "datagrams"),
    ("l3.reassembly.ip6.max-reassembly-length", "set ip6 reassembly", "fragments"),
    ("l3.reassembly.ip6.timeout-ms", "set ip6 reassembly", "timeout"),
    ("l3.route-preferences.*", "set route-preference", "preference"),
    ("linux-cp.fpm.hold", "lcp fpm on", "hold"),
    ("linux-cp.fpm.port", "lcp fpm on", "port"),
    ("linux-cp.nl-rx-buffer-size", "lcp nl-rx-buffer-size", "bytes"),
    ("memifs.*.buffer-size", "create interface memif", "bytes"),
    ("memifs.*.ring-size", "create interface memif", "slots"),
    ("memifs.*.rx-queues", "create interface memif", "rx"),
    ("memifs.*.tx-queues", "create interface memif", "tx"),
    ("mpls.local-labels[].label", "mpls local-label add", "label"),
    ("mpls.local-labels[].via.exp", "mpls local-label add", "exp"),
    ("mpls.local-labels[].via.out-labels[]", "mpls local-label add", "out-label"),
    ("mpls.local-labels[].via.ttl", "mpls local-label add", "ttl"),
    ("mpls.local-labels[].via.weight", "mpls local-label add", "weight"),
    ("mpls.tables[]", "mpls table add", "table"),
    ("mpls.tunnels.*.via.exp", "mpls tunnel add", "exp"),
    ("mpls.tunnels.*.via.exp", "mpls tunnel set", "exp"),
    ("mpls.tunnels.*.via.out-labels[]", "mpls tunnel add", "out-label"),
    ("mpls.tunnels.*.via.out-labels[]", "mpls tunnel set", "out-label"),
    ("mpls.tunnels.*.via.ttl", "mpls tunnel add", "ttl"),
    ("mpls.tunnels.*.via.ttl", "mpls tunnel set", "ttl"),
    ("mpls.tunnels.*.via.weight", "mpls tunnel add", "weight"),
    ("mpls.tunnels.*.via.weight", "mpls tunnel set", "weight"),
    ("punt.icmp.burst", "set punt policer", "burst"),
    ("punt.icmp.rate", "set punt policer", "rate"),
    ("quiver.workers", "set workers", "count"),
    ("quiver.workers.count", "set workers", "count"),
    ("routes[].metric", "ip route add", "metric"),
    ("routes[].metric", "ip route del", "metric"),
    ("routes[].metric", "ip route del", "of-metric"),
    ("routes[].metric", "ip route set", "metric"),
    ("routes[].preference", "ip route add", "preference"),
    ("routes[].preference", "ip route del", "of-preference"),
    ("routes[].preference", "ip route del", "preference"),
    ("routes[].preference", "ip route set", "preference"),
    ("routes[].via.exp", "ip route add", "exp"),
    ("routes[].via.exp", "ip route set", "exp"),
    ("routes[].via.mtu", "ip route add", "mtu"),
    ("routes[].via.mtu", "ip route set", "mtu"),
    ("routes[].via.out-labels[]", "ip route add", "out-label"),
    ("routes[].via.out-labels[]", "ip route set", "out-label"),
    ("routes[].via.ttl", "ip route add", "ttl"),
    ("routes[].via.ttl", "ip route set", "ttl"),
    ("routes[].via.weight", "ip route add", "weight"),
    ("routes[].via.weight", "ip route set", "weight"),
    ("taps.*.host.mtu", "create tap", "host-mtu"),
    ("taps.*.rx-ring-size", "create tap", "rx-ring"),
    ("vxlan_tunnels.*.dscp", "create vxlan tunnel", "dscp"),
    ("vxlan_tunnels.*.dscp", "set vxlan tunnel", "dscp"),
    ("vxlan_tunnels.*.local-port", "create vxlan tunnel", "src-port"),
    ("vxlan_tunnels.*.local-port", "set vxlan tunnel", "src-port"),
    ("vxlan_tunnels.*.remote-port", "create vxlan tunnel", "dst-port"),
    ("vxlan_tunnels.*.remote-port", "set vxlan tunnel", "dst-port"),
    ("vxlan_tunnels.*.ttl", "create vxlan tunnel", "ttl"),
    ("vxlan_tunnels.*.ttl", "set vxlan tunnel", "ttl"),
    ("vxlan_tunnels.*.vni", "create vxlan tunnel", "vni"),
    ("vxlan_tunnels.*.vni", "set vxlan tunnel", "vni"),
];

fn page(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

type Ranges = BTreeMap<String, BTreeSet<(u64, u64)>>;

/// Notes the ranges of numbers at each place of the schema.
fn places(root: &Json, node: &Json, place: &str, depth: usize, out: &mut Ranges) {
    if !node.is_object() || depth > 24 {
        return;
    }
    let mut go = |node: &Json, place: &str| places(root, node, place, depth + 1, out);
    if let Some(of) = node["$ref"].as_str() {
        return go(root.pointer(of.trim_start_matches('#')).unwrap(), place);
    }
    for (name, field) in node["properties"].as_object().into_iter().flatten() {
        let dot = if place.is_empty() { "" } else { "." };
        go(field, &format!("{place}{dot}{name}"));
    }
    go(&node["additionalProperties"], &format!("{place}.*"));
    go(&node["items"], &format!("{place}[]"));
    node["anyOf"].as_array().into_iter().flatten().for_each(|part| go(part, place));
    if node["type"] == "integer" {
        let range = (node["minimum"].as_u64().unwrap(), node["maximum"].as_u64().unwrap());
        out.entry(place.into()).or_default().insert(range);
    }
}

/// The numbers that arguments of commands take: by the first line of the command, the argument and its range.
fn arguments() -> Vec<(String, String, (u64, u64))> {
    let (text, mut out) = (page("commands.md"), vec![]);
    for section in text.split("\n## ").skip(1) {
        let syntax = section.split("```\n").nth(1).and_then(|s| s.lines().next()).unwrap_or_default();
        for line in section.lines().filter_map(|l| l.strip_prefix("- `<")) {
            let Some((name, rest)) = line.split_once(">`: a number ") else { continue };
            let Some((low, rest)) = rest.split_once("..") else { continue };
            let high: String = rest.chars().take_while(char::is_ascii_digit).collect();
            out.push((syntax.into(), name.into(), (low.parse().unwrap(), high.parse().unwrap())));
        }
    }
    out
}

fn schema() -> Ranges {
    let (schema, mut out) = (serde_json::from_str::<Json>(&page("schema.json")).unwrap(), Ranges::new());
    places(&schema, &schema, "", 0, &mut out);
    out
}

#[test]
fn documents_and_commands_take_the_same_numbers() {
    let (schema, arguments) = (schema(), arguments());
    let mut wrong = vec![];
    for (place, command, argument) in SAME {
        let Some(of_document) = schema.get(*place) else {
            wrong.push(format!("{place} is no number of the schema"));
            continue;
        };
        let begins = |syntax: &str| syntax.strip_prefix(command).is_some_and(|rest| rest.starts_with(' '));
        let of_command: BTreeSet<(u64, u64)> =
            arguments.iter().filter(|a| begins(&a.0) && a.1 == *argument).map(|a| a.2).collect();
        if !of_document.is_subset(&of_command) {
            wrong.push(format!("{place} takes {of_document:?}, `{command} ... <{argument}>` {of_command:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The first row of a field whose range begins with two numbers is right about them.
#[test]
fn the_manual_tells_the_ranges_of_numbers() {
    let (schema, text) = (schema(), page("configuration.md"));
    let mut wrong = vec![];
    let mut section = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ").or(line.strip_prefix("### ")) {
            section = heading.replace('`', "").replace("[N]", "[]");
            section = section
                .split('.')
                .map(|s| if s.chars().all(|c| c.is_ascii_uppercase()) { "*" } else { s })
                .collect::<Vec<_>>()
                .join(".");
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, field, _, range, _, _, _] = cells[..] else { continue };
        let field = field.trim_matches('`');
        let mut words = range.split([' ', ',', ';']);
        let (Some(Ok(low)), Some("to"), Some(Ok(high))) =
            (words.next().map(str::parse::<u64>), words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        // A mapping from names to what the section tells of, or the section itself.
        let at = [format!("{section}.{field}"), format!("{section}.*.{field}")];
        let known = at.iter().filter_map(|at| schema.get(at)).flatten().collect::<Vec<_>>();
        // Labels below 16 have a meaning of their own, and are refused with it.
        if at.contains(&"mpls.local-labels[].label".to_owned()) {
            continue;
        }
        if !known.is_empty() && !known.contains(&&(low, high)) {
            wrong.push(format!("{section}: {field}: {low} to {high}, and the reader takes {known:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
