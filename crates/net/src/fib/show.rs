//! Lists: routes, their number by prefix length, adjacencies.

use crate::adjacency::{Adjacency, AdjacencyState};
use crate::cli::plural;
use crate::labels::{Imposition, Push};
use crate::plane::kind;
use crate::plane::table::FibIndex;
use crate::router::{AdjacencyInfo, Lookup, NextHopInfo, PrefixRoute, RoutePath, RouteTable, Router, Target};
use command::{Args, CommandError, Output, Page, Table};
use ipnet::IpNet;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write;
use tables::groups::GroupId;

/// Routes that are listed unless more are asked for.
pub(super) const MOST: usize = 1000;

/// What was asked for, in the words of `ip route`.
pub(crate) fn target_words(router: &Router, t: &Target, v6: bool) -> String {
    match t {
        Target::Paths(p) => p.iter().map(|p| path_words(router, p, v6)).collect::<Vec<_>>().join(", "),
        Target::Local(i) => format!("local: an address of {}", router.interface_name(*i)),
        Target::Glean(i) => format!("connected on {}", router.interface_name(*i)),
        Target::Neighbor(i, a) => format!("neighbor {a} on {}", router.interface_name(*i)),
        Target::Broadcast => "broadcast: drop".into(),
        Target::DirectedBroadcast(i) => format!("broadcast: to all on {}", router.interface_name(*i)),
        Target::Drop => "drop".into(),
        Target::Unreachable => "unreachable".into(),
        Target::Prohibit => "prohibit".into(),
    }
}

pub(super) fn path_words(router: &Router, p: &RoutePath, v6: bool) -> String {
    let mut out = String::from("via");
    if let Some(a) = p.address {
        let _ = write!(out, " {a}");
    }
    if p.lookup == Lookup::Frame {
        out.push_str(" l2-input-on");
    }
    if let Some(i) = p.interface {
        let _ = write!(out, " {}", router.interface_name(i));
    }
    match (p.table, p.address) {
        (Some(t), Some(_)) => _ = write!(out, " next-hop-table {t}"),
        (Some(t), None) => {
            let _ = write!(out, " {}-lookup-in-table {t}", p.lookup.word(v6));
            if let Lookup::IpEach(six) = p.lookup {
                let _ = write!(out, " ip6-lookup-in-table {six}");
            }
        }
        (None, None) if !matches!(p.lookup, Lookup::Own | Lookup::Frame) => {
            _ = write!(out, " {}-lookup in the packet's own table", p.lookup.word(v6));
        }
        (None, _) => {}
    }
    if p.weight != 1 {
        let _ = write!(out, " weight {}", p.weight);
    }
    if p.mtu != 0 {
        let _ = write!(out, " mtu {}", p.mtu);
    }
    if !p.labels.is_none() {
        let _ = write!(out, " {}", p.labels);
    }
    out
}

/// What a group holds now, as data.
pub(crate) fn group_json(router: &Router, g: &NextHopInfo) -> Json {
    let buckets = router.group_buckets(g.id);
    let path = |p: &tables::groups::Path| {
        let mut out = json!({
            "kind": kind::name(p.entry.kind),
            "weight": p.weight,
            "buckets": buckets.iter().filter(|b| **b == p.entry).count(),
        });
        match p.entry.kind {
            k if k == kind::GLEAN || kind::is_neighbor(k) => {
                out["adjacency"] = p.entry.adj.into();
                if let Some(a) = router.adjacency(p.entry.adj) {
                    out["interface"] = router.interface_name(a.interface).into();
                    out["state"] = state_word(a.state).into();
                    out["mtu"] = a.mtu.into();
                    if let Some(m) = &a.mpls {
                        out["labels"] = labels_json(m);
                    }
                    if !a.next_hop.is_unspecified() {
                        out["next-hop"] = a.next_hop.to_string().into();
                    }
                }
            }
            kind::LOCAL => out["interface"] = router.interface_name(p.entry.adj).into(),
            kind::LOOKUP => out["table"] = router.table_at(g.v6, FibIndex(p.entry.adj)).into(),
            _ => {}
        }
        out
    };
    json!({
        "id": g.id.0,
        "source": router.source_name(g.source),
        "preference": router.preference_of(&PrefixRoute { rank: g.rank, source: g.source, group: g.id }),
        "metric": g.rank.metric,
        "wanted": target_words(router, &g.target, g.v6),
        "routes": g.routes,
        "buckets": buckets.len(),
        "resilient": g.object.buckets != 0,
        "paths": g.paths.iter().map(path).collect::<Vec<_>>(),
    })
}

fn word(table: RouteTable) -> &'static str {
    if table.v6 { "ip6" } else { "ip4" }
}

/// `ip4`, or `ip4 table 10`.
fn title(table: RouteTable) -> String {
    match table.id {
        0 => word(table).into(),
        id => format!("{} table {id}", word(table)),
    }
}

/// `show ip fib`: the first `most` routes, each as it is when it is written.
pub(super) fn list(router: &Router, table: RouteTable, most: usize) -> Output {
    let total = router.route_count(table);
    let mut list =
        List { table, most, total, left: most, after: None, part: Part::Head, groups: vec![], width: 0 };
    Output::pages(move |router: &mut Router, page| list.next(router, page))
}

/// How far a list of routes is.
struct List {
    table: RouteTable,
    most: usize,
    /// Routes when it began.
    total: usize,
    left: usize,
    after: Option<IpNet>,
    part: Part,
    /// The groups of the routes so far, a bit each.
    groups: Vec<u64>,
    /// Of the column of sources.
    width: usize,
}

enum Part {
    Head,
    Routes,
    /// The groups in JSON, from this one on.
    Groups(u32),
}

impl List {
    fn next(&mut self, router: &Router, page: &mut Page) -> Result<bool, CommandError> {
        if !router.has_table(self.table) {
            return Err(format!("{} was removed while it was listed", self.table).into());
        }
        if matches!(self.part, Part::Head) {
            let sources = router.route_sources().into_iter().filter(|s| s.routes != 0);
            self.width = sources.map(|s| s.name.len()).max().unwrap_or(0).max(10);
            self.head(page);
            self.part = Part::Routes;
        }
        if matches!(self.part, Part::Routes) {
            if self.routes(router, page) {
                return Ok(true);
            }
            if !page.wants_json() {
                let left_out = self.total.saturating_sub(self.most);
                if left_out != 0 {
                    let _ = writeln!(page, "... and {left_out} more: 'all' lists them");
                }
                return Ok(false);
            }
            page.close("]");
            page.open_field("groups", "{");
            self.part = Part::Groups(0);
        }
        Ok(self.groups(router, page))
    }

    fn head(&self, page: &mut Page) {
        let RouteTable { id, .. } = self.table;
        if page.wants_json() {
            let (word, left_out) = (word(self.table), self.total.saturating_sub(self.most));
            page.open(&format!(
                "{{\"table\":\"{word}\",\"id\":{id},\"total\":{},\"left-out\":{left_out},\"routes\":[",
                self.total
            ));
        } else {
            let _ = writeln!(page, "{}: {}", title(self.table), plural(self.total, "route"));
            let width = self.width;
            let _ = writeln!(page, "{:<20} {:<width$} {:>8}  Paths", "Prefix", "Source", "Group");
        }
    }

    /// Writes the next routes; true when there are more.
    fn routes(&mut self, router: &Router, page: &mut Page) -> bool {
        // Many routes share few groups: their words are made once a page.
        let mut known: HashMap<GroupId, (&str, String)> = HashMap::new();
        let width = self.width;
        for r in router.routes_after(self.table, self.after) {
            if self.left == 0 {
                return false;
            }
            if page.is_full() {
                return true;
            }
            self.left -= 1;
            self.after = Some(r.prefix);
            let hidden: Vec<&str> = r.hidden.iter().map(|e| router.source_name(e.source)).collect();
            if page.wants_json() {
                self.note(r.group);
                let source = router.group(r.group).map(|g| router.source_name(g.source));
                page.item(&json!({
                    "prefix": r.prefix.to_string(), "source": source, "hidden": hidden, "group": r.group.0,
                    "withdrawn": r.withdrawn,
                }));
                continue;
            }
            let (source, words) = known.entry(r.group).or_insert_with(|| match router.group(r.group) {
                Some(g) => (router.source_name(g.source), target_words(router, &g.target, g.v6)),
                None => ("?", String::new()),
            });
            let _ = write!(page, "{:<20} {source:<width$} {:>8}  {words}", r.prefix.to_string(), r.group);
            if !hidden.is_empty() {
                let _ = write!(page, " (hides: {})", hidden.join(", "));
            }
            if r.withdrawn {
                let _ = page.write_str(" (withdrawn)");
            }
            let _ = page.write_char('\n');
        }
        false
    }

    fn note(&mut self, group: GroupId) {
        let word = group.at() / 64;
        if self.groups.len() <= word {
            self.groups.resize(word + 1, 0);
        }
        self.groups[word] |= 1 << (group.0 % 64);
    }

    /// Writes the next groups and the end; true when there are more.
    fn groups(&mut self, router: &Router, page: &mut Page) -> bool {
        let Part::Groups(from) = self.part else { return false };
        let noted = |id: &u32| self.groups.get(*id as usize / 64).is_some_and(|w| w >> (id % 64) & 1 != 0);
        for id in (from..self.groups.len() as u32 * 64).filter(noted) {
            if page.is_full() {
                self.part = Part::Groups(id);
                return true;
            }
            // One that is gone since has no routes any more.
            if let Some(g) = router.group(GroupId(id)) {
                page.field(&id.to_string(), &group_json(router, &g));
            }
        }
        page.close("}}");
        false
    }
}

/// `show ip fib summary`.
pub(super) fn summary(router: &Router, table: RouteTable) -> Output {
    let mut rows = Table::new().right("Prefix length").right("Count");
    for (length, count) in router.route_lengths(table) {
        rows.row([length.into(), count.into()]);
    }
    let (total, bytes) = (router.route_count(table), router.table_bytes(table));
    let text = format!(
        "{}: {}, {:.1} MiB of tables\n{}",
        title(table),
        plural(total, "route"),
        bytes as f64 / f64::from(1 << 20),
        rows.to_text()
    );
    let json = json!({ "table": word(table), "id": table.id, "total": total, "bytes": bytes, "lengths": rows.to_json() });
    Output::new(text, json)
}

pub(super) fn state_word(s: AdjacencyState) -> &'static str {
    match s {
        AdjacencyState::Incomplete => "incomplete",
        AdjacencyState::Complete => "complete",
        AdjacencyState::Glean => "glean",
    }
}

/// The bytes that an adjacency puts in front.
pub(super) fn rewrite(a: &Adjacency) -> String {
    let bytes = a.rewrite.get(..usize::from(a.len)).unwrap_or_default();
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// An adjacency in one line.
pub(crate) fn adjacency_line(router: &Router, i: &AdjacencyInfo) -> String {
    let a = &i.adjacency;
    let family = family_word(i, ["ipv4", "ipv6"]);
    let name = router.interface_name(a.interface);
    let place = match a.state {
        AdjacencyState::Glean => format!("glean: {name}"),
        _ => format!("via {} {name}", a.next_hop),
    };
    let bytes = if a.len == 0 { String::new() } else { format!(" {}", rewrite(a)) };
    let labels = a.mpls.as_ref().filter(|m| !m.stack.is_empty()).map_or(String::new(), |m| {
        let all: Vec<String> = m.stack.as_slice().iter().map(|p| p.to_string()).collect();
        format!(" labels [{}]", all.join(" "))
    });
    format!("[@{}] {family} {place}: {}, mtu:{}{bytes}{labels}", i.id, state_word(a.state), a.mtu)
}

fn family_word(i: &AdjacencyInfo, [v4, v6]: [&'static str; 2]) -> &'static str {
    match &i.adjacency.mpls {
        Some(_) => "mpls",
        None if i.v6 => v6,
        None => v4,
    }
}

fn labels_json(m: &Imposition) -> Json {
    let label = |p: &Push| {
        json!({
            "label": p.label(),
            "ttl": p.ttl(),
            "exp": p.exp(),
        })
    };
    m.stack.as_slice().iter().map(label).collect()
}

pub(super) fn adjacency_json(router: &Router, i: &AdjacencyInfo) -> Json {
    let a = &i.adjacency;
    json!({
        "id": i.id,
        "family": family_word(i, ["ip4", "ip6"]),
        "labels": a.mpls.as_ref().map(|m| labels_json(m)),
        "state": state_word(a.state),
        "interface": router.interface_name(a.interface),
        "next-hop": (!a.next_hop.is_unspecified()).then(|| a.next_hop.to_string()),
        "mtu": a.mtu,
        "rewrite": rewrite(a),
        "users": i.users,
        "packets": i.packets,
        "bytes": i.bytes,
    })
}

/// `show adjacency`, in the order of links and neighbours.
pub(super) fn adjacencies(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let only: Option<u32> = args.opt("id")?;
    let neighbors = args.has("nbr");
    let name: Option<String> = args.opt("interface")?;
    let interface = name.and_then(|n| router.interface_index(&n));
    if let Some(id) = only.filter(|id| router.adjacency(*id).is_none()) {
        return Err(args.error("id", format!("there is no adjacency {id}")));
    }
    let (mut begun, mut after) = (false, None);
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        for (key, a) in router.adjacencies_after(after) {
            if page.is_full() {
                return Ok(true);
            }
            after = Some(key);
            if only.is_some_and(|id| id != a.id)
                || interface.is_some_and(|i| i != a.adjacency.interface)
                || neighbors && a.adjacency.state == AdjacencyState::Glean
            {
                continue;
            }
            if page.wants_json() {
                page.item(&adjacency_json(router, &a));
            } else {
                let _ = writeln!(page, "{}", adjacency_line(router, &a));
                let _ = writeln!(page, "      users:{} packets:{} bytes:{}", a.users, a.packets, a.bytes);
            }
        }
        if page.wants_json() {
            page.close("]");
        }
        Ok(false)
    }))
}
