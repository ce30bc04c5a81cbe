//! `show interface`, `show interface address`, `show hardware-interfaces`, `show features`.

use crate::cli::listing;
use crate::interface::MtuOf;
use crate::rates::{self, Rate};
use crate::router::{Encap, IfState, InterfaceCounts, Kind, Placement, Router};
use command::{Args, Cell, Command, CommandError, Output, Table};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show interface [<interface:interface>]...", "Counters of interfaces", show)
            .details(
                "One line for each counter that is not 0. Drops are those of packets that came in on the interface, in \
                 all and by reason; `show errors` says what the reasons mean. Of the MTU for L3/IP4/IP6/MPLS only the \
                 first is ever set; 0 means the same.",
            )
            .example("show interface")
            .example("show interface left right"),
        Command::read("show interface brief [<interface:interface>]...", "Interfaces, a line each", brief)
            .details("Packets and bits a second are those of the last second, bits from the Ethernet header on.")
            .example("show interface brief")
            .example("show interface brief left"),
        Command::read("show interface address [<interface:interface>]...", "Addresses of interfaces", addresses)
            .example("show interface address")
            .example("show interface address left"),
        Command::read(
            "show hardware-interfaces [brief|verbose|detail] [<interface:interface>]...",
            "Devices behind interfaces: link, driver, queues",
            hardware,
        )
        .arg("brief", "one line each")
        .arg("verbose", "all there is, as without the word")
        .arg("detail", "as verbose")
        .example("show hardware-interfaces")
        .example("show hardware-interfaces brief left"),
        Command::read("show features [<interface:interface>]...", "Feature arcs, and what is enabled on interfaces", features)
            .details("Without interfaces: all arcs with their features in order, and the node at which each ends.")
            .example("show features")
            .example("show features left"),
    ]
}

fn state(router: &Router, i: &IfState) -> &'static str {
    let parent = router.interface(i.hw()).is_none_or(|p| p.up);
    if i.up && parent { "up" } else { "down" }
}

/// The same, and why one that is up carries nothing.
fn state_words(router: &Router, i: &IfState) -> &'static str {
    match (state(router, i), router.interface(i.hw())) {
        ("up", Some(hw)) if !hw.has_device() => "up/no-dev",
        ("up", Some(hw)) if !hw.link => "up/no-link",
        (state, _) => state,
    }
}

fn drop_names(router: &Router, counts: &InterfaceCounts) -> Vec<(&'static str, &'static str, u64)> {
    let Some(g) = router.graphs().first() else { return vec![] };
    let named = counts.drops.iter().filter_map(|(r, n)| g.reasons.get(*r).map(|i| (i.node, i.name, *n)));
    named.collect()
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let head = format!(
        "{:<16}{:>4}{:>11} {:<16} {:<15}{:>16}\n",
        "Name", "Idx", "State", "L3/IP4/IP6/MPLS", "Counter", "Count"
    );
    listing::list(router, args, head, |router, i, text| {
        let c = router.interface_counts(i.index);
        let reasons = drop_names(router, &c);
        let dropped: u64 = reasons.iter().map(|r| r.2).sum();
        let missed: u64 = c.device_drops.iter().map(|d| d.1).sum();
        let (now, minute) = rates::of(router, i.index);
        let mut rows: Vec<(String, u64)> = vec![
            ("rx packets".into(), c.rx_packets),
            ("rx bytes".into(), c.rx_bytes),
            ("ip4".into(), c.ip4),
            ("ip6".into(), c.ip6),
            ("tx packets".into(), c.tx_packets),
            ("tx bytes".into(), c.tx_bytes),
            ("drops".into(), dropped),
        ];
        rows.extend(reasons.iter().map(|(_, name, n)| (format!("  {name}"), *n)));
        rows.push(("device drops".into(), missed));
        rows.extend(c.device_drops.iter().map(|(name, n)| (format!("  {name}"), *n)));
        let mut rows: Vec<(String, String)> =
            rows.into_iter().filter(|r| r.1 != 0).map(|(name, n)| (name, n.to_string())).collect();
        for (name, r) in [("1 s", now), ("1 min", minute)] {
            for (way, packets, bits) in [("rx", r.rx_packets, r.rx_bits), ("tx", r.tx_packets, r.tx_bits)] {
                let told = format!("{} pps {} b/s", short(packets), short(bits));
                rows.extend((packets > 0.0).then(|| (format!("{way} {name}"), told)));
            }
        }
        let head = format!("{:>4}{:>11} {:<16}", i.index, state_words(router, i), mtus(i));
        // A long name has a line of its own.
        let name = match i.name.chars().count() > 16 {
            true => format!("{}\n{:16}", i.name, ""),
            false => format!("{:<16}", i.name),
        };
        let mut rows = rows.into_iter();
        match rows.next() {
            Some(row) => _ = writeln!(text, "{name}{head} {}", aligned(&row)),
            None => _ = writeln!(text, "{}", format!("{name}{head}").trim_end()),
        }
        for row in rows {
            // A long one begins further to the left.
            let _ = writeln!(text, "{:>80}", aligned(&row));
        }
        let reasons =
            reasons.iter().map(|(node, reason, n)| json!({ "node": node, "reason": reason, "packets": n }));
        let device = c.device_drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n }));
        let mut row = describe(router, i);
        row["rx"] = json!({ "packets": c.rx_packets, "bytes": c.rx_bytes });
        row["ip4"] = json!({ "packets": c.ip4 });
        row["ip6"] = json!({ "packets": c.ip6 });
        row["tx"] = json!({ "packets": c.tx_packets, "bytes": c.tx_bytes });
        row["rates"] = json!({ "second": rate_json(&now), "minute": rate_json(&minute) });
        row["drops"] = json!({ "packets": dropped, "reasons": reasons.collect::<Vec<_>>() });
        row["device-drops"] = json!({ "packets": missed, "reasons": device.collect::<Vec<_>>() });
        Some(row)
    })
}

/// A counter and its value, as wide as the two columns or wider.
fn aligned((counter, value): &(String, String)) -> String {
    let width = 31usize.saturating_sub(counter.chars().count()).max(value.len() + 1);
    format!("{counter}{value:>width$}")
}

/// Three digits that tell, with k, M or G.
fn short(rate: f64) -> String {
    let (value, unit) = match rate {
        r if r >= 999.5e6 => (r / 1e9, "G"),
        r if r >= 999.5e3 => (r / 1e6, "M"),
        r if r >= 999.5 => (r / 1e3, "k"),
        r => (r, ""),
    };
    let digits = match value {
        v if unit.is_empty() && v.fract() == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

fn rate_json(r: &Rate) -> Json {
    json!({
        "rx": { "packets": r.rx_packets, "bits": r.rx_bits },
        "tx": { "packets": r.tx_packets, "bits": r.tx_bits },
    })
}

fn brief(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Name").left("State").right("MTU").right("RX pps").right("RX b/s");
    let columns = columns.right("TX pps").right("TX b/s").right("Drops");
    listing::table(router, args, columns, |router, i, table| {
        let (now, _) = rates::of(router, i.index);
        let rate = |r: f64| Cell::new(short(r), r);
        let drops: u64 = router.interface_counts(i.index).drops.values().sum();
        table.row([
            i.name.clone().into(),
            Cell::new(state_words(router, i), state(router, i)),
            i.mtu.into(),
            rate(now.rx_packets),
            rate(now.rx_bits),
            rate(now.tx_packets),
            rate(now.tx_bits),
            drops.into(),
        ]);
    })
}

/// The MTU of the interface, and those that IPv4, IPv6 and MPLS have of their own.
fn mtus(i: &IfState) -> String {
    let mtu = if i.kind == Kind::Local { 0 } else { i.mtu };
    let [ip4, ip6, mpls] = MtuOf::ALL.map(|(_, of)| i.settings.get(of.setting()));
    format!("{mtu}/{ip4}/{ip6}/{mpls}")
}

fn describe(router: &Router, i: &IfState) -> Json {
    json!({
        "name": i.name,
        "index": i.index,
        "state": state(router, i),
        "admin": if i.up { "up" } else { "down" },
        "device": if router.interface(i.hw()).is_none_or(IfState::has_device) { "present" } else { "gone" },
        "link": router.interface(i.hw()).is_some_and(|h| h.link),
        "mtu": i.mtu,
        "ip4-mtu": i.mtu_of(MtuOf::Ip4),
        "ip6-mtu": i.mtu_of(MtuOf::Ip6),
        "mpls-mtu": i.mtu_of(MtuOf::Mpls),
        "mac": router.mac_of(i.index).to_string(),
        "kind": kind_word(i.kind),
        "parent": matches!(i.kind, Kind::Sub { .. }).then(|| router.interface_name(i.hw())),
        "description": i.description,
        "promiscuous": i.promiscuous,
        "xconnect": i.xconnect.map(|p| router.interface_name(p)),
    })
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "local",
        Kind::Device => "device",
        Kind::Loopback => "loopback",
        Kind::MplsTunnel { .. } => "mpls-tunnel",
        Kind::Virtual(kind) => kind.word,
        Kind::Sub { .. } => "sub-interface",
    }
}

/// The tags of a sub-interface in the words of `create sub-interfaces`.
fn encap_words(encap: Encap) -> String {
    let vid = |v: Option<u16>| v.map_or("any".to_owned(), |v| v.to_string());
    match encap {
        Encap::Untagged => "untagged".into(),
        Encap::Default => "default".into(),
        Encap::Tags { dot1ad, outer, inner, exact } => {
            let mut out = format!("{} {}", if dot1ad { "dot1ad" } else { "dot1q" }, vid(outer));
            if let Some(inner) = inner {
                let _ = write!(out, " inner-dot1q {}", vid(inner));
            }
            if exact {
                out.push_str(" exact-match");
            }
            out
        }
    }
}

fn addresses(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    listing::list(router, args, "", |router, i, text| {
        let up = state(router, i);
        let _ = writeln!(text, "{} ({}):", i.name, if up == "up" { "up" } else { "dn" });
        let mut list = vec![];
        for net in &i.addresses {
            let s = address_word(router, i.index, net.addr());
            let note = s
                .as_ref()
                .filter(|s| *s != "usable" && *s != "down")
                .map_or(String::new(), |s| format!(" ({s})"));
            let _ = writeln!(text, "  L3 {net}{note}");
            list.push(json!({ "address": net.to_string(), "state": s }));
        }
        if let Some(a) = i.link_local {
            let s = address_word(router, i.index, a.into());
            let note = s
                .as_ref()
                .filter(|s| *s != "usable" && *s != "down")
                .map_or(String::new(), |s| format!(", {s}"));
            let len = i.own_link_local.map_or(64, |own| own.prefix_len());
            let _ = writeln!(text, "  L3 {a}/{len} (link-local{note})");
        }
        let lender = i.unnumbered.map(|l| router.interface_name(l));
        if let Some(lender) = &lender {
            let _ = writeln!(text, "  unnumbered, use {lender}");
        }
        if let Some(peer) = i.xconnect {
            let _ = writeln!(text, "  L2 xconnect {}", router.interface_name(peer));
        }
        Some(json!({
            "name": i.name,
            "index": i.index,
            "state": up,
            "addresses": list,
            "link-local": i.link_local.map(|a| a.to_string()),
            "unnumbered": lender,
            "xconnect": i.xconnect.map(|p| router.interface_name(p)),
        }))
    })
}

fn address_word(router: &Router, index: u32, a: IpAddr) -> Option<String> {
    router.address_state(index, a).map(|s| s.to_string())
}

fn hardware(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let head = format!("{:<24}{:>6}{:>6}  {}\n", "Name", "Idx", "Link", "Hardware");
    let mut queues: HashMap<u32, Vec<Placement>> = HashMap::new();
    router.rx_placement().into_iter().for_each(|p| queues.entry(p.interface).or_default().push(p));
    let (brief, named) = (args.has("brief"), args.opt::<String>("interface")?.is_some());
    listing::list(router, args, head, move |router, i, text| {
        if let Kind::Sub { encap, .. } = i.kind {
            // Named by the operator, or all are listed: a sub-interface has no hardware of its own.
            if named {
                let parent = router.interface_name(i.hw());
                let _ = writeln!(
                    text,
                    "{:<24}{:>6}{:>6}  {} on {parent}",
                    i.name,
                    i.index,
                    "",
                    encap_words(encap)
                );
                return Some(
                    json!({ "name": i.name, "index": i.index, "parent": parent, "encapsulation": encap_words(encap) }),
                );
            }
            return None;
        }
        let driver = i.device().map_or_else(|| kind_word(i.kind).to_owned(), |d| d.describe());
        let settings = i.device().and_then(|d| d.settings());
        let numa = i.device().and_then(|d| d.numa_node());
        let mut warnings = i.device().map(|d| d.warnings()).unwrap_or_default();
        if let Some((mtu, _)) = settings.filter(|(mtu, _)| *mtu < u32::from(i.mtu)) {
            warnings.push(format!(
                "the Linux device's MTU {mtu} is less than the interface's {}: larger packets are lost",
                i.mtu
            ));
        }
        if let Some((_, mac)) = settings.filter(|(_, mac)| *mac != i.mac) {
            warnings.push(format!("the Linux device's MAC address {mac} is not the interface's {}", i.mac));
        }
        let link = if i.link { "up" } else { "down" };
        let rx = queues.get(&i.index).map_or(&[][..], Vec::as_slice);
        let drops = router.interface_counts(i.index).device_drops;
        let statistics = i.device().map(|d| d.statistics()).unwrap_or_default();
        let _ = writeln!(text, "{:<24}{:>6}{:>6}  {}", i.name, i.index, link, i.name);
        if !brief {
            let _ = writeln!(text, "  Driver: {driver}");
            for w in &warnings {
                let _ = writeln!(text, "  Warning: {w}");
            }
            if i.kind != Kind::Local {
                let _ = writeln!(text, "  Ethernet address {}", i.mac);
                let _ = writeln!(
                    text,
                    "  MTU {}, promiscuous {}",
                    i.mtu,
                    if i.promiscuous { "on" } else { "off" }
                );
            }
            if let Some(node) = numa {
                let _ = writeln!(text, "  NUMA node {node}");
            }
            if let Some((mtu, mac)) = settings {
                let _ = writeln!(text, "  Linux device: MTU {mtu}, Ethernet address {mac}");
            }
            if let Some(d) = &i.description {
                let _ = writeln!(text, "  Description: {d}");
            }
            if !rx.is_empty() {
                let _ = writeln!(text, "  RX queues:\n    {:<6} {:<16} node", "queue", "thread");
            }
            for Placement { queue, worker, node, .. } in rx {
                let _ = writeln!(text, "    {queue:<6} {:<16} {node}", crate::cli::thread_label(*worker));
            }
            if i.kind == Kind::Device {
                let _ = writeln!(text, "  TX queues: {}, one a worker", router.config().workers);
            }
            for (reason, n) in drops.iter().filter(|d| d.1 != 0) {
                let _ = writeln!(text, "  Device drops: {reason} {n}");
            }
            if !statistics.is_empty() {
                let _ = writeln!(text, "  Device statistics:");
            }
            for (what, n) in &statistics {
                let _ = writeln!(text, "    {what:<40} {n}");
            }
        }
        let rx = rx.iter().map(|p| json!({ "queue": p.queue, "thread": p.worker + 1, "node": p.node }));
        let mut row = describe(router, i);
        row["driver"] = driver.into();
        row["numa"] = numa.into();
        row["warnings"] = warnings.into();
        row["linux"] =
            settings.map_or(Json::Null, |(mtu, mac)| json!({ "mtu": mtu, "mac": mac.to_string() }));
        row["rx-queues"] = rx.collect();
        row["device-drops"] =
            drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n })).collect();
        row["device-statistics"] =
            statistics.into_iter().map(|(what, n)| json!({ "name": what, "value": n })).collect();
        Some(row)
    })
}

fn features(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    if args.opt::<String>("interface")?.is_none() {
        let (mut text, mut all) = (String::new(), vec![]);
        let arcs = router.graphs().first().map_or(vec![], |g| g.wiring.arcs.iter().collect());
        for a in arcs {
            let end = router
                .graphs()
                .first()
                .and_then(|g| g.nodes.get(usize::from(a.end.0)))
                .map_or("", |n| n.name);
            let _ = writeln!(text, "{}:", a.name);
            for f in &a.features {
                let _ = writeln!(text, "  {f}");
            }
            let _ = writeln!(text, "  {end} (end of the arc)");
            all.push(json!({ "arc": a.name, "features": a.features, "end": end }));
        }
        return Ok(Output::new(text, Json::Array(all)));
    }
    listing::list(router, args, "", |router, i, text| {
        let _ = writeln!(text, "{}:", i.name);
        let mut arcs = vec![];
        for a in router.features(i.index) {
            let words = if a.enabled.is_empty() { "none".to_owned() } else { a.enabled.join(", ") };
            let _ = writeln!(text, "  {}: {words}", a.arc);
            arcs.push(json!({ "arc": a.arc, "enabled": a.enabled }));
        }
        Some(json!({ "name": i.name, "arcs": arcs }))
    })
}
