//! `show mpls fib`, `show mpls interface`.

use crate::cli::{listing, plural};
use crate::fib::show::{adjacency_line, group_json, target_words};
use crate::mpls::TAKEN;
use crate::mpls::{LabelRoute, label_route, label_routes, label_table_at, label_tables};
use crate::plane::kind;
use crate::plane::table::FibIndex;
use crate::router::{NextHopInfo, Router};
use command::{Args, CommandError, Output, Page};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// Labels that are listed unless more are asked for.
const MOST: usize = 1000;

fn bottom_word(bottom: bool) -> &'static str {
    if bottom { "eos" } else { "non-eos" }
}

/// `100:eos`, as operators of label switching routers name it.
fn name(r: &LabelRoute) -> String {
    let special = match r.label {
        0 => " (IPv4 explicit null)",
        2 => " (IPv6 explicit null)",
        _ => "",
    };
    format!("{}:{}{special}", r.label, bottom_word(r.bottom))
}

fn route_json(router: &Router, r: &LabelRoute, whole: bool) -> Json {
    let mut out = json!({
        "label": r.label,
        "eos": r.bottom,
        "source": router.source_name(r.source),
        "group": r.group.0,
        "paths": target_words(router, &r.target, false),
        "out-label": (r.swap != 0).then(|| crate::labels::Push(r.swap).label()),
    });
    if whole && let Some(g) = router.group(r.group) {
        out["next-hop-group"] = group_json(router, &g);
        // The group alone does not know the label that the entry holds.
        out["next-hop-group"]["wanted"] = out["paths"].clone();
    }
    out
}

/// `show mpls fib`.
pub(super) fn fib(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let table: u32 = args.opt("table")?.unwrap_or(0);
    let Some(info) = label_tables(router).into_iter().find(|t| t.id == table) else {
        return Err(args.error("table", format!("there is no MPLS table {table}")));
    };
    if let Some(label) = args.opt::<u32>("label")? {
        return one(router, table, label);
    }
    let most =
        if args.has("all") { usize::MAX } else { args.opt::<u32>("routes")?.map_or(MOST, |n| n as usize) };
    let title = format!("MPLS table {table}: {}", plural(info.entries, "entry").replace("entrys", "entries"));
    let total = info.entries;
    let (mut begun, mut left, mut from) = (false, most, (0, false));
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        let left_out = total.saturating_sub(most);
        if !std::mem::replace(&mut begun, true) {
            if page.wants_json() {
                page.open(&format!(
                    "{{\"table\":{table},\"total\":{total},\"left-out\":{left_out},\"labels\":["
                ));
            } else {
                let _ = write!(page, "{title}\n{:<32} {:<10} {:>8}  Paths\n", "Label", "Source", "Group");
            }
        }
        // A label has two entries, that of packets with more labels first; `from` is the one that comes next.
        let start = from;
        for r in label_routes(router, table, from.0).filter(|r| (r.label, r.bottom) >= start) {
            if left == 0 {
                break;
            }
            if page.is_full() {
                return Ok(true);
            }
            left -= 1;
            from = if r.bottom { (r.label + 1, false) } else { (r.label, true) };
            if page.wants_json() {
                page.item(&route_json(router, &r, false));
            } else {
                let words = target_words(router, &r.target, false);
                let _ = writeln!(
                    page,
                    "{:<32} {:<10} {:>8}  {words}",
                    name(&r),
                    router.source_name(r.source),
                    r.group
                );
            }
        }
        if page.wants_json() {
            page.close("]}");
        } else if left_out != 0 {
            let _ = writeln!(page, "... and {left_out} more: 'show mpls fib all'");
        }
        Ok(false)
    }))
}

fn one(router: &Router, table: u32, label: u32) -> Result<Output, CommandError> {
    let found: Vec<LabelRoute> =
        [true, false].into_iter().filter_map(|b| label_route(router, table, label, b)).collect();
    let mut text = String::new();
    if found.is_empty() {
        let _ = writeln!(
            text,
            "MPLS table {table} has no label {label}: its packets are dropped (mpls-no-label)"
        );
    }
    for r in &found {
        let _ = writeln!(
            text,
            "{}  {}: {}",
            name(r),
            router.source_name(r.source),
            target_words(router, &r.target, false)
        );
        if let Some(g) = router.group(r.group) {
            group_part(router, &mut text, r, &g);
        }
    }
    let labels: Vec<Json> = found.iter().map(|r| route_json(router, r, true)).collect();
    Ok(Output::new(text, json!({ "table": table, "labels": labels })))
}

fn group_part(router: &Router, text: &mut String, r: &LabelRoute, g: &NextHopInfo) {
    let _ = writeln!(
        text,
        "  group {}: used by {}, {}",
        g.id,
        plural(g.routes as usize, "label"),
        plural(g.buckets, "bucket")
    );
    let adjacencies = router.adjacency_list();
    for (n, p) in g.paths.iter().enumerate() {
        let _ = write!(text, "    [{n}] {}", kind::name(p.entry.kind));
        if g.paths.len() > 1 {
            let _ = write!(text, ", weight {}", p.weight);
        }
        match p.entry.kind {
            k if kind::is_neighbor(k) => {
                if r.swap != 0 {
                    let _ = write!(text, ", swap to {}", crate::labels::Push(r.swap).label());
                }
                text.push('\n');
                match adjacencies.iter().find(|a| a.id == p.entry.adj) {
                    Some(a) => _ = writeln!(text, "        {}", adjacency_line(router, a)),
                    None => _ = writeln!(text, "        adjacency {} is gone", p.entry.adj),
                }
            }
            _ => _ = writeln!(text, "{}", into_words(router, p.entry.kind, p.entry.adj)),
        }
    }
}

/// ` in table 10`, for paths into a table.
fn into_words(router: &Router, kind: u8, to: u32) -> String {
    let table = match kind {
        kind::DISPOSE4 | kind::DISPOSE4_UNIFORM => {
            (to != u32::MAX).then(|| router.table_at(false, FibIndex(to)))
        }
        kind::DISPOSE6 | kind::DISPOSE6_UNIFORM => {
            (to != u32::MAX).then(|| router.table_at(true, FibIndex(to)))
        }
        kind::DISPOSE_IP | kind::DISPOSE_IP_UNIFORM => Some(router.table_at(false, FibIndex(to & 0xffff))),
        kind::NEXT_LABEL | kind::NEXT_LABEL_UNIFORM => label_table_at(router, FibIndex(to)),
        kind::FRAME => return format!(" on {}", router.interface_name(to)),
        _ => return String::new(),
    };
    match table {
        Some(id) => format!(" in table {id}"),
        None => " in the table of the interface".into(),
    }
}

/// `show mpls interface`.
pub(super) fn interfaces(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    if !router.interfaces().any(|i| i.settings.get(&TAKEN)) {
        let none = "no interface takes labelled packets (set interface mpls IF enable)\n";
        return Ok(Output::new(none, json!([])));
    }
    listing::list(router, args, "", |_, i, text| {
        let _ = writeln!(text, "{}: enabled, MPLS table 0, mtu {}", i.name, i.mtu);
        i.settings.get(&TAKEN).then(|| json!({ "name": i.name, "table": 0, "mtu": i.mtu }))
    })
}
