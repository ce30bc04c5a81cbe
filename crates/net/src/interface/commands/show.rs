//! `show interface`, `show interface address`, `show hardware-interfaces`, `show features`.

use crate::commands::chosen;
use crate::router::{Encap, IfState, InterfaceCounts, Kind, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
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
        Command::read("show interface address [<interface:interface>]...", "Addresses of interfaces", addresses)
            .example("show interface address")
            .example("show interface address left"),
        Command::read(
            "show hardware-interfaces [brief] [<interface:interface>]...",
            "Devices behind interfaces: link, driver, queues",
            hardware,
        )
        .arg("brief", "one line each")
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

fn drop_names(router: &Router, counts: &InterfaceCounts) -> Vec<(&'static str, &'static str, u64)> {
    let Some(g) = router.graphs().first() else { return vec![] };
    let named = counts.drops.iter().filter_map(|(r, n)| g.reasons.get(*r).map(|i| (i.node, i.name, *n)));
    named.collect()
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mut text = format!(
        "{:<24}{:>6}{:>7}  {:>20}  {:<32}{:>16}\n",
        "Name", "Idx", "State", "MTU (L3/IP4/IP6/MPLS)", "Counter", "Count"
    );
    let mut all = vec![];
    for i in chosen(router, args)? {
        let c = router.interface_counts(i.index);
        let reasons = drop_names(router, &c);
        let dropped: u64 = reasons.iter().map(|r| r.2).sum();
        let missed: u64 = c.device_drops.iter().map(|d| d.1).sum();
        let mut rows: Vec<(String, u64)> = vec![
            ("rx packets".into(), c.rx_packets),
            ("rx bytes".into(), c.rx_bytes),
            ("tx packets".into(), c.tx_packets),
            ("tx bytes".into(), c.tx_bytes),
            ("drops".into(), dropped),
        ];
        rows.extend(reasons.iter().map(|(_, name, n)| (format!("  {name}"), *n)));
        rows.push(("device drops".into(), missed));
        rows.extend(c.device_drops.iter().map(|(name, n)| (format!("  {name}"), *n)));
        rows.retain(|r| r.1 != 0);
        let head = format!(
            "{:<24}{:>6}{:>7}  {:>20}",
            i.name,
            i.index,
            state(router, i),
            format!("{}/0/0/0", if i.kind == Kind::Local { 0 } else { i.mtu })
        );
        let mut rows = rows.into_iter();
        match rows.next() {
            Some((name, n)) => _ = writeln!(text, "{head}  {name:<32}{n:>16}"),
            None => _ = writeln!(text, "{}", head.trim_end()),
        }
        for (name, n) in rows {
            let _ = writeln!(text, "{:<61}{name:<32}{n:>16}", "");
        }
        let reasons =
            reasons.iter().map(|(node, reason, n)| json!({ "node": node, "reason": reason, "packets": n }));
        let device = c.device_drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n }));
        let mut row = describe(router, i);
        row["rx"] = json!({ "packets": c.rx_packets, "bytes": c.rx_bytes });
        row["tx"] = json!({ "packets": c.tx_packets, "bytes": c.tx_bytes });
        row["drops"] = json!({ "packets": dropped, "reasons": reasons.collect::<Vec<_>>() });
        row["device-drops"] = json!({ "packets": missed, "reasons": device.collect::<Vec<_>>() });
        all.push(row);
    }
    Ok(Output::new(text, Json::Array(all)))
}

fn describe(router: &Router, i: &IfState) -> Json {
    json!({
        "name": i.name,
        "index": i.index,
        "state": state(router, i),
        "admin": if i.up { "up" } else { "down" },
        "link": router.interface(i.hw()).is_some_and(|h| h.link),
        "mtu": i.mtu,
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
    let (mut text, mut all) = (String::new(), vec![]);
    for i in chosen(router, args)? {
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
        all.push(json!({
            "name": i.name,
            "index": i.index,
            "state": up,
            "addresses": list,
            "link-local": i.link_local.map(|a| a.to_string()),
            "unnumbered": lender,
            "xconnect": i.xconnect.map(|p| router.interface_name(p)),
        }));
    }
    Ok(Output::new(text, Json::Array(all)))
}

fn address_word(router: &Router, index: u32, a: IpAddr) -> Option<String> {
    router.address_state(index, a).map(|s| s.to_string())
}

/// The queues of an interface: number, worker, input node.
fn queues(placement: &[Vec<(String, String)>], name: &str) -> Vec<(usize, String)> {
    let of = |(w, list): (usize, &Vec<(String, String)>)| {
        let mine = list.iter().filter(|(node, i)| i == name && node != "pg-input");
        mine.map(|(node, _)| (w, node.clone())).collect::<Vec<_>>()
    };
    placement.iter().enumerate().flat_map(of).collect()
}

fn hardware(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mut text = format!("{:<24}{:>6}{:>6}  {}\n", "Name", "Idx", "Link", "Hardware");
    let mut all = vec![];
    let placement = router.placement();
    let brief = args.has("brief");
    for i in chosen(router, args)? {
        if let Kind::Sub { encap, .. } = i.kind {
            // Named by the operator, or all are listed: a sub-interface has no hardware of its own.
            if args.opt::<String>("interface")?.is_some() {
                let parent = router.interface_name(i.hw());
                let _ = writeln!(
                    text,
                    "{:<24}{:>6}{:>6}  {} on {parent}",
                    i.name,
                    i.index,
                    "",
                    encap_words(encap)
                );
                all.push(json!({ "name": i.name, "index": i.index, "parent": parent, "encapsulation": encap_words(encap) }));
            }
            continue;
        }
        let driver = i.device().map_or_else(|| kind_word(i.kind).to_owned(), |d| d.describe());
        let link = if i.link { "up" } else { "down" };
        let rx = queues(&placement, &i.name);
        let drops = router.interface_counts(i.index).device_drops;
        let _ = writeln!(text, "{:<24}{:>6}{:>6}  {}", i.name, i.index, link, i.name);
        if !brief {
            let _ = writeln!(text, "  Driver: {driver}");
            if i.kind != Kind::Local {
                let _ = writeln!(text, "  Ethernet address {}", i.mac);
                let _ = writeln!(
                    text,
                    "  MTU {}, promiscuous {}",
                    i.mtu,
                    if i.promiscuous { "on" } else { "off" }
                );
            }
            if let Some(d) = &i.description {
                let _ = writeln!(text, "  Description: {d}");
            }
            if !rx.is_empty() {
                let _ = writeln!(text, "  RX queues:\n    {:<6} {:<16} node", "queue", "thread");
            }
            for (n, (w, node)) in rx.iter().enumerate() {
                let _ = writeln!(text, "    {n:<6} {:<16} {node}", crate::runtime::thread_label(*w));
            }
            if i.kind == Kind::Device {
                let _ = writeln!(text, "  TX queues: {}, one a worker", router.graphs().len());
            }
            for (reason, n) in drops.iter().filter(|d| d.1 != 0) {
                let _ = writeln!(text, "  Device drops: {reason} {n}");
            }
        }
        let rx =
            rx.iter().enumerate().map(|(n, (w, node))| json!({ "queue": n, "thread": w + 1, "node": node }));
        let mut row = describe(router, i);
        row["driver"] = driver.into();
        row["rx-queues"] = rx.collect();
        row["device-drops"] =
            drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n })).collect();
        all.push(row);
    }
    Ok(Output::new(text, Json::Array(all)))
}

fn features(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (mut text, mut all) = (String::new(), vec![]);
    if args.opt::<String>("interface")?.is_none() {
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
    for i in chosen(router, args)? {
        let _ = writeln!(text, "{}:", i.name);
        let mut arcs = vec![];
        for a in router.features(i.index) {
            let words = if a.enabled.is_empty() { "none".to_owned() } else { a.enabled.join(", ") };
            let _ = writeln!(text, "  {}: {words}", a.arc);
            arcs.push(json!({ "arc": a.arc, "enabled": a.enabled }));
        }
        all.push(json!({ "name": i.name, "arcs": arcs }));
    }
    Ok(Output::new(text, Json::Array(all)))
}
