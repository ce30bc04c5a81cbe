//! Counters of workers and nodes, buffers, threads, the graph.

use crate::cli::thread_label;
use crate::router::{Router, WorkerInfo};
use command::{Args, Cell, CommandError, Output, Table};
use graph::Severity;
use graph::buffer::{DATA, Pages, STRIDE};
use serde_json::{Value as Json, json};
use std::fmt::Write;

pub(super) fn version(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let version = env!("CARGO_PKG_VERSION");
    let up = router.uptime().as_secs();
    let level = format!("{:?}", router.plane().fib4.level()).to_lowercase();
    let json = json!({
        "name": "quiver",
        "version": version,
        "cpu-level": level,
        "uptime": up,
        "workers": router.config().workers,
        "process": std::process::id(),
        "buffers": router.pool().count(),
        "buffer-pages": pages(router.pool().pages()),
    });
    let mut text = format!("quiver v{version}\n");
    if args.has("verbose") {
        // Of all tables of a family.
        let routes = |v6: bool| {
            let (tables, n, bytes) = router.table_totals(v6);
            let among = if tables == 1 { String::new() } else { format!(" in {tables} tables") };
            format!("{n} routes{among}, {:.1} MiB", bytes as f64 / f64::from(1 << 20))
        };
        let rows = [
            ("CPU level", format!("x86-64-{level}")),
            ("Uptime", duration(up)),
            ("Process", std::process::id().to_string()),
            ("Workers", router.config().workers.to_string()),
            ("Buffers", format!("{} on {} pages", router.pool().count(), pages(router.pool().pages()))),
            ("IPv4", routes(false)),
            ("IPv6", routes(true)),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "{:<12} {value}", format!("{name}:"));
        }
    }
    Ok(Output::new(text, json))
}

fn duration(s: u64) -> String {
    let (days, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    let days = if days == 0 { String::new() } else { format!("{days}d ") };
    format!("{days}{h:02}:{m:02}:{s:02}")
}

fn pages(p: Pages) -> &'static str {
    match p {
        Pages::Huge => "2 MiB",
        Pages::Transparent => "transparent huge",
        Pages::Normal => "4 KiB",
    }
}

fn rate(n: u64, seconds: f64) -> f64 {
    n as f64 / seconds
}

fn per(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// As C's `%.4e`, which operators know: `1.2345e3`.
fn exp(x: f64) -> String {
    format!("{x:.4e}")
}

pub(super) fn runtime(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (all, max) = (args.has("verbose"), args.has("max"));
    let (mut text, mut json) = (String::new(), vec![]);
    // A worker that sleeps accounts for it when it wakes: any mail wakes it.
    drop(router.placement());
    for (n, w) in router.runtime().iter().enumerate() {
        if n != 0 {
            text.push_str("---------------\n");
        }
        worker_text(&mut text, w, all, max);
        json.push(worker_json(w, all));
    }
    Ok(Output::new(text, Json::Array(json)))
}

fn worker_text(text: &mut String, w: &WorkerInfo, all: bool, max: bool) {
    let cpu = w.cpu.map_or(String::new(), |c| format!(" (lcore {c})"));
    let _ = writeln!(text, "Thread {} quiver_wk_{}{cpu}", w.index + 1, w.index);
    let _ = writeln!(
        text,
        "Time {:.1}, loops/sec {:.2}, sleeps/sec {:.2}, asleep {:.1} %",
        w.seconds,
        rate(w.loops, w.seconds),
        rate(w.sleeps, w.seconds),
        (w.asleep * 100.0).min(100.0)
    );
    let _ = writeln!(
        text,
        "  vector rates in {}, out {}, drop {}",
        exp(rate(w.packets_in, w.seconds)),
        exp(rate(w.packets_out, w.seconds)),
        exp(rate(w.packets_dropped, w.seconds))
    );
    let mut table = Table::new()
        .left("Name")
        .left("State")
        .right("Calls")
        .right("Vectors")
        .right("Suspends")
        .right("Clocks")
        .right("Vectors/Call");
    if max {
        table = table.right("Max vector").right("Panics");
    }
    for r in &w.nodes {
        let c = &r.counts;
        if !all && c.calls == 0 && c.suspends == 0 {
            continue;
        }
        table.row([
            r.name.into(),
            r.state.into(),
            c.calls.into(),
            c.packets.into(),
            c.suspends.into(),
            exp(per(c.clocks, c.packets)).into(),
            Cell::float(per(c.packets, c.calls), 2),
            c.max_vector.into(),
            c.panics.into(),
        ]);
    }
    text.push_str(&table.to_text());
}

fn worker_json(w: &WorkerInfo, all: bool) -> Json {
    let busy = w.nodes.iter().filter(|r| all || r.counts.calls != 0 || r.counts.suspends != 0);
    let node = |r: &crate::router::NodeRow| {
        let c = &r.counts;
        json!({
            "name": r.name,
            "state": r.state,
            "calls": c.calls,
            "vectors": c.packets,
            "suspends": c.suspends,
            "clocks": c.clocks,
            "clocks-per-packet": per(c.clocks, c.packets),
            "vectors-per-call": per(c.packets, c.calls),
            "max-vector": c.max_vector,
            "panics": c.panics,
        })
    };
    json!({
        "thread": w.index + 1,
        "name": format!("quiver_wk_{}", w.index),
        "cpu": w.cpu,
        "time": w.seconds,
        "packets-in": w.packets_in,
        "packets-out": w.packets_out,
        "packets-dropped": w.packets_dropped,
        "loops": w.loops,
        "sleeps": w.sleeps,
        "asleep": w.asleep,
        "nodes": busy.map(node).collect::<Vec<_>>(),
    })
}

fn severity(s: Severity) -> &'static str {
    match s {
        Severity::Error => "error",
        Severity::Info => "info",
    }
}

pub(super) fn errors(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().right("Count").left("Node").left("Reason").left("Severity");
    if args.has("verbose") || args.wants_json() {
        table = table.left("Meaning");
    }
    for e in router.errors() {
        table.row([
            e.count.into(),
            e.node.into(),
            e.reason.into(),
            severity(e.severity).into(),
            e.description.into(),
        ]);
    }
    Ok(Output::table(table))
}

pub(super) fn buffers(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let pool = router.pool();
    let cached: usize = pool.cached().iter().sum();
    let mut table = Table::new()
        .left("Pool Name")
        .right("Size")
        .right("Data Size")
        .right("Total")
        .right("Avail")
        .right("Cached")
        .right("Devices")
        .right("Used")
        .left("Pages");
    table.row([
        "default".into(),
        STRIDE.into(),
        DATA.into(),
        pool.count().into(),
        pool.global_free().into(),
        cached.into(),
        pool.lent().into(),
        pool.in_use().into(),
        pages(pool.pages()).into(),
    ]);
    let held: usize = router.held().iter().map(|(four, six)| four + six).sum();
    let mut text = table.to_text();
    if held != 0 {
        let _ = writeln!(text, "{} for a neighbor to be resolved", waiting(held));
    }
    Ok(Output::new(text, json!({ "pools": table.to_json(), "held-for-neighbors": held })))
}

fn waiting(n: usize) -> String {
    if n == 1 { "1 packet waits".into() } else { format!("{n} packets wait") }
}

pub(super) fn threads(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new()
        .right("ID")
        .left("Name")
        .left("Type")
        .right("CPU")
        .right("NUMA")
        .right("Asleep")
        .left("Inputs")
        .left("Polling");
    let settings = crate::load::settings(router);
    table.row([0u32.into(), "quiver_main".into(), "control".into()]);
    let placement = router.placement();
    for w in router.runtime() {
        let none = vec![];
        let inputs = placement.get(w.index).unwrap_or(&none);
        let words: Vec<String> = inputs.iter().map(|(node, i)| format!("{node} {i}")).collect();
        table.row([
            (w.index + 1).into(),
            format!("quiver_wk_{}", w.index).into(),
            "worker".into(),
            w.cpu.into(),
            router.numa_of_worker(w.index).into(),
            Cell::new(format!("{:.1} %", (w.asleep * 100.0).min(100.0)), w.asleep),
            Cell::new(words.join(", "), words),
            settings.of(w.index).name().into(),
        ]);
    }
    Ok(Output::table(table))
}

pub(super) fn node(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let Some(g) = router.graphs().first() else { return Ok(Output::none()) };
    let kind = |k: graph::builder::Kind| if k == graph::builder::Kind::Input { "input" } else { "internal" };
    let Some(name) = args.opt::<String>("node")? else {
        let mut table = Table::new().right("Index").left("Name").left("Type");
        for (n, i) in g.nodes.iter().enumerate() {
            table.row([n.into(), i.name.into(), kind(i.kind).into()]);
        }
        return Ok(Output::table(table));
    };
    let Some(id) = g.node(&name) else { return Err(args.error("node", format!("there is no node {name}"))) };
    let info = &g.nodes[usize::from(id.0)];
    let from = g.nodes.iter().filter(|n| n.targets.contains(&info.name)).map(|n| n.name).collect::<Vec<_>>();
    let of = |a: &&graph::arcs::ArcNodes| a.end == id || a.features.contains(&info.name);
    let arcs: Vec<&str> = g.wiring.arcs.iter().filter(of).map(|a| a.name).collect();
    let mut text = format!("node {name}, {}, index {}\n", kind(info.kind), id.0);
    for (what, list) in
        [("next", info.targets.join(", ")), ("from", from.join(", ")), ("in arcs", arcs.join(", "))]
    {
        let _ = writeln!(text, "  {what}: {}", if list.is_empty() { "none" } else { &list });
    }
    let mut workers = vec![];
    for w in router.runtime() {
        let Some(r) = w.nodes.get(usize::from(id.0)) else { continue };
        let c = r.counts;
        let _ = writeln!(
            text,
            "  {}: {}, calls {}, vectors {}, clocks {}, suspends {}, panics {}",
            thread_label(w.index),
            r.state,
            c.calls,
            c.packets,
            exp(per(c.clocks, c.packets)),
            c.suspends,
            c.panics
        );
        workers.push(json!({
            "thread": w.index + 1, "state": r.state, "calls": c.calls, "vectors": c.packets, "clocks": c.clocks,
            "suspends": c.suspends, "panics": c.panics,
        }));
    }
    let mut reasons = vec![];
    for r in g.reasons.iter().filter(|r| r.node == info.name) {
        let _ = writeln!(text, "  {} {}: {}", severity(r.severity), r.name, r.description);
        reasons.push(json!({ "reason": r.name, "severity": severity(r.severity), "meaning": r.description }));
    }
    let json = json!({
        "name": name, "index": id.0, "type": kind(info.kind), "next": info.targets, "from": from, "arcs": arcs,
        "workers": workers, "reasons": reasons,
    });
    Ok(Output::new(text, json))
}

pub(super) fn graph(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let Some(g) = router.graphs().first() else { return Ok(Output::none()) };
    if args.has("dot") || args.has("graphviz") {
        return Ok(Output::new(g.dot(), json!({ "dot": g.dot() })));
    }
    let mut table = Table::new().left("Name").left("Next");
    for n in g.nodes.iter() {
        table.row([n.name.into(), Cell::new(n.targets.join(", "), n.targets.clone())]);
    }
    Ok(Output::table(table))
}
