//! `show ip fib PREFIX`: why a packet goes where it goes.

use super::show;
use crate::adjacency::AdjacencyState;
use crate::cli::plural;
use crate::plane::kind;
use crate::plane::table::FibIndex;
use crate::router::{
    AdjacencyInfo, NextHopInfo, NextHopStep, PrefixRoute, RouteInfo, RouteTable, Router, Target,
};
use command::Output;
use ipnet::IpNet;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::IpAddr;
use tables::groups::GroupId;

pub(super) const NO_ROUTE: &str =
    "no route: packets are dropped and answered with ICMP \"network unreachable\"";

/// Everything that decides on packets to a prefix.
pub(super) fn explain(router: &Router, table: RouteTable, prefix: IpNet) -> Output {
    let addr = prefix.addr();
    let host = prefix.prefix_len() == prefix.max_prefix_len();
    let all = router.covering_in(table.id, addr);
    let (covering, longer): (Vec<_>, Vec<_>) =
        all.iter().partition(|r| r.prefix.prefix_len() <= prefix.prefix_len());
    let used = covering.last().copied();
    let group = used.and_then(|r| router.group(r.group));
    let mut text = if host { addr.to_string() } else { prefix.to_string() };
    if table.id != 0 {
        let _ = write!(text, " in table {}", table.id);
    }
    text.push('\n');
    table_part(router, &mut text, prefix, &covering, &longer);
    let withdrawn = withdrawn_part(router, &mut text, table, addr);
    let adjacencies = router.adjacency_list();
    let mut json = json!({
        "prefix": prefix.to_string(),
        "table": table.id,
        "covering": covering.iter().map(|r| route_json(router, r)).collect::<Vec<_>>(),
        "used": used.map(|r| r.prefix.to_string()),
        "longer": longer.iter().map(|r| route_json(router, r)).collect::<Vec<_>>(),
        "withdrawn": withdrawn,
        "group": Json::Null,
    });
    match &group {
        Some(g) => {
            json["group"] = show::group_json(router, g);
            json["adjacencies"] = group_part(router, &mut text, g, &adjacencies, host.then_some(addr));
        }
        None => _ = writeln!(text, "  {NO_ROUTE}"),
    }
    let result = result_words(router, group.as_ref(), host.then_some(addr));
    let (control, worker) = (all.last().map(|r| r.group), router.lookup_in(table.id, addr).map(|g| g.id));
    let same = control == worker;
    let say = |g: Option<GroupId>| g.map_or("no route".to_owned(), |g| format!("group {g}"));
    let verdict = if same { "the same as the control side's" } else { "NOT the same as the control side's" };
    let _ = write!(text, "  workers' table: {addr} has {}, {verdict}", say(worker));
    if !same {
        let _ = write!(text, " ({})", say(control));
    }
    let _ = writeln!(text, "\n  result: {result}");
    json["workers"] = json!({ "address": addr.to_string(), "group": worker.map(|g| g.0), "control-group": control.map(|g| g.0), "agree": same });
    json["result"] = result.into();
    Output::new(text, json)
}

fn route_json(router: &Router, r: &RouteInfo) -> Json {
    json!({
        "prefix": r.prefix.to_string(),
        "source": router.group(r.group).map(|g| router.source_name(g.source)),
        "hidden": r.hidden.iter().map(|e| router.source_name(e.source)).collect::<Vec<_>>(),
        "routes": routes_json(router, r),
        "group": r.group.0,
    })
}

/// All routes of a prefix, the one in use first.
pub(super) fn routes_json(router: &Router, r: &RouteInfo) -> Json {
    let of = |e: PrefixRoute| {
        let wanted = router.group(e.group).map(|g| show::target_words(router, &g.target, g.v6));
        json!({
            "source": router.source_name(e.source),
            "preference": router.preference_of(&e),
            "metric": e.rank.metric,
            "group": e.group.0,
            "wanted": wanted,
            "used": e.group == r.group && !r.withdrawn,
        })
    };
    router.routes_of_prefix(r).map(of).collect()
}

/// A route of a prefix: whose it is, how good, and what it wants.
pub(super) fn route_words(router: &Router, e: &PrefixRoute) -> String {
    let wants = router.group(e.group).map_or(String::new(), |g| show::target_words(router, &g.target, g.v6));
    format!("{} {}, group {}: {wants}", router.source_name(e.source), router.rank_used(e), e.group)
}

fn table_part(
    router: &Router,
    text: &mut String,
    prefix: IpNet,
    covering: &[&RouteInfo],
    longer: &[&RouteInfo],
) {
    if !covering.is_empty() {
        text.push_str("  covered by, the longest prefix is used:\n");
    }
    let line = |r: &RouteInfo| {
        let words: Vec<String> = router.routes_of_prefix(r).map(|e| route_words(router, &e)).collect();
        format!("{} {}", r.prefix, words.join("\n      hides "))
    };
    for (n, r) in covering.iter().enumerate() {
        let mark = if n + 1 == covering.len() { ">" } else { " " };
        let _ = writeln!(text, "  {mark} {}", line(r));
    }
    if prefix.prefix_len() < prefix.max_prefix_len() && covering.last().is_some_and(|r| r.prefix != prefix) {
        let _ = writeln!(text, "  {prefix} itself is not in the table");
    }
    if !longer.is_empty() {
        let _ = writeln!(text, "  longer prefixes at its first address, which take their packets from it:");
    }
    for r in longer {
        let _ = writeln!(text, "    {}", line(r));
    }
}

/// The prefixes that hold an address and are withdrawn.
pub(super) fn withdrawn_part(router: &Router, text: &mut String, table: RouteTable, addr: IpAddr) -> Json {
    let all = router.withdrawn_covering(table.id, addr);
    for r in &all {
        let _ = writeln!(text, "  {} is withdrawn, as none of its routes leads anywhere:", r.prefix);
        for e in router.routes_of_prefix(r) {
            let _ = writeln!(text, "      {}", route_words(router, &e));
        }
    }
    all.iter().map(|r| route_json(router, r)).collect()
}

/// The group, its paths and their adjacencies; answers the adjacencies.
pub(super) fn group_part(
    router: &Router,
    text: &mut String,
    g: &NextHopInfo,
    adjacencies: &[AdjacencyInfo],
    host: Option<IpAddr>,
) -> Json {
    let buckets = router.group_buckets(g.id);
    let _ = writeln!(
        text,
        "  group {}: {}, used by {}, {}{}",
        g.id,
        router.source_name(g.source),
        plural(g.routes as usize, "route"),
        plural(buckets.len(), "bucket"),
        if g.object.buckets == 0 { "" } else { ", resilient" }
    );
    asked_part(router, text, g);
    let mut seen = vec![];
    for (n, p) in g.paths.iter().enumerate() {
        let share = buckets.iter().filter(|b| **b == p.entry).count();
        let _ = write!(text, "    [{n}] {}", kind::name(p.entry.kind));
        if g.paths.len() > 1 {
            let _ = write!(text, ", weight {}, {}", p.weight, plural(share, "bucket"));
        }
        match p.entry.kind {
            k if k == kind::GLEAN || kind::is_neighbor(k) => {
                match adjacencies.iter().find(|a| a.id == p.entry.adj) {
                    Some(a) => {
                        text.push('\n');
                        adjacency_part(router, text, a, host);
                        seen.push(show::adjacency_json(router, a));
                    }
                    None => _ = writeln!(text, ", adjacency {} is gone", p.entry.adj),
                }
            }
            kind::LOCAL => _ = writeln!(text, " on {}", router.interface_name(p.entry.adj)),
            kind::LOOKUP => _ = writeln!(text, " in table {}", router.table_at(g.v6, FibIndex(p.entry.adj))),
            _ => text.push('\n'),
        }
    }
    seen.into()
}

/// The paths that were asked for, and where each leads now.
fn asked_part(router: &Router, text: &mut String, g: &NextHopInfo) {
    let Target::Paths(paths) = &g.target else { return };
    for p in paths {
        let steps = router.next_hop_steps(g.id, p);
        let down = |i: Option<u32>| {
            i.filter(|i| !router.is_usable(*i)).map(|i| format!(": left out, {}", interface_words(router, i)))
        };
        let fault = match steps.last() {
            None => down(p.interface),
            Some(NextHopStep { via: None, addr, .. }) => Some(format!(": left out, no route holds {addr}")),
            Some(NextHopStep { looped: true, addr, .. }) => {
                Some(format!(": left out, the way to {addr} leads back to this group"))
            }
            Some(step) => down(step.interface),
        };
        let fault = fault.unwrap_or_default();
        let _ = writeln!(text, "    wanted: {}{fault}", show::path_words(router, p, g.v6));
        if steps.len() < 2 {
            continue;
        }
        for NextHopStep { table, addr, via, .. } in &steps {
            let table = if table.id == 0 { String::new() } else { format!(" in table {}", table.id) };
            let Some(r) = via else { continue };
            let found = router.group(r.group);
            let wants = found.map_or(String::new(), |f| show::target_words(router, &f.target, f.v6));
            let _ = writeln!(text, "      {addr}{table}: {}, group {}: {wants}", r.prefix, r.group);
        }
    }
}

fn interface_words(router: &Router, index: u32) -> String {
    let Some(i) = router.interface(index) else { return "the interface is gone".into() };
    let up = |up: bool| if up { "up" } else { "down" };
    let Some(parent) = router.interface(i.hw()) else { return "the interface is gone".into() };
    let mut out = format!("{} is {}", i.name, up(i.up));
    if parent.index != i.index {
        let _ = write!(out, ", {} is {}", parent.name, up(parent.up));
    }
    let _ = write!(out, ", link {}", up(parent.link));
    out
}

fn adjacency_part(router: &Router, text: &mut String, i: &AdjacencyInfo, host: Option<IpAddr>) {
    let a = &i.adjacency;
    let _ = writeln!(text, "        {}", show::adjacency_line(router, i));
    if a.state == AdjacencyState::Complete {
        let mac = |at: usize| a.rewrite.get(at..at + 6).map_or(String::new(), mac_words);
        let _ = writeln!(text, "        rewrite: {} -> {}, {} bytes", mac(6), mac(0), a.len);
    }
    let wanted = if a.state == AdjacencyState::Glean { host } else { Some(a.next_hop) };
    if let Some(addr) = wanted {
        let known = router.neighbors().find(|n| n.interface == a.interface && n.addr == addr);
        let words = match known {
            Some(n) => {
                let age = router.now().since(n.fresh) / 1000;
                let mac = n.mac.map_or(String::new(), |m| format!(" {m}"));
                format!("{}{mac}, {age} s old", n.state)
            }
            None => "not known: the first packet is held and asks for it".into(),
        };
        let _ = writeln!(text, "        neighbor {addr}: {words}");
    }
    let _ = writeln!(text, "        interface: {}", interface_words(router, a.interface));
    let _ = writeln!(text, "        sent: {}, {} bytes", plural(i.packets as usize, "packet"), i.bytes);
}

fn mac_words(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// What becomes of packets, in one sentence.
pub(super) fn result_words(router: &Router, group: Option<&NextHopInfo>, host: Option<IpAddr>) -> String {
    let Some(g) = group else { return NO_ROUTE.into() };
    if g.paths.len() > 1 {
        return format!("one of {} by the flow's hash", plural(g.paths.len(), "path"));
    }
    let Some(p) = g.paths.first() else { return NO_ROUTE.into() };
    let name = |i: u32| router.interface_name(i);
    match p.entry.kind {
        k if k == kind::GLEAN || kind::is_neighbor(k) => {
            let Some(a) = router.adjacency(p.entry.adj) else { return "the adjacency is gone".into() };
            let to = match (a.state, host) {
                (AdjacencyState::Glean, Some(addr)) => format!("{addr} itself is resolved, then sent"),
                (AdjacencyState::Glean, None) => "each destination is resolved, then sent".into(),
                _ => format!("sent to {}", a.next_hop),
            };
            let wait = if a.state == AdjacencyState::Incomplete { ", held until it is resolved" } else { "" };
            let down = if router.is_usable(a.interface) { "" } else { ", dropped there as it is down" };
            format!("{to} on {}{wait}{down}", name(a.interface))
        }
        kind::LOCAL => format!("taken by the router, as an address of {}", name(p.entry.adj)),
        kind::LOOKUP => match host {
            Some(addr) => lookup_words(router, router.table_at(g.v6, FibIndex(p.entry.adj)), addr),
            None => format!("looked up in table {}", router.table_at(g.v6, FibIndex(p.entry.adj))),
        },
        kind::DROP => "dropped".into(),
        kind::UNREACHABLE if matches!(g.target, Target::Paths(_)) => {
            "no path can be used: dropped and answered with ICMP \"host unreachable\"".into()
        }
        kind::UNREACHABLE => "dropped and answered with ICMP \"host unreachable\"".into(),
        kind::PROHIBIT => "dropped and answered with ICMP \"administratively prohibited\"".into(),
        kind::BROADCAST if let Some(a) = router.adjacency(p.entry.adj) => {
            format!("sent to all hosts on {}, as the broadcast of its prefix", name(a.interface))
        }
        kind::BROADCAST => "dropped, as the broadcast of a connected prefix (RFC 2644)".into(),
        _ => NO_ROUTE.into(),
    }
}

/// What becomes of a packet that is looked up in further tables.
fn lookup_words(router: &Router, table: u32, addr: IpAddr) -> String {
    let (mut table, mut text) = (table, String::new());
    for _ in 0..crate::plane::table::MAX_LOOKUPS {
        let _ = write!(text, "looked up in table {table}: ");
        let group = router.lookup_in(table, addr);
        let only = group.as_ref().and_then(|g| (g.paths.len() == 1).then(|| g.paths.first())?);
        match only.filter(|p| p.entry.kind == kind::LOOKUP) {
            Some(p) => table = router.table_at(addr.is_ipv6(), FibIndex(p.entry.adj)),
            None => return text + &result_words(router, group.as_ref(), Some(addr)),
        }
    }
    "dropped, as routes lead from table to table without end".into()
}
