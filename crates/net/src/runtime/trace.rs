//! `trace add` and `show trace`.

use crate::router::Router;
use command::{Args, CommandError, Output};
use graph::trace::NO_REASON;
use graph::{Graph, TraceRecord};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

const MOST: u32 = 50;

pub(super) fn add(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let node: String = args.get("node")?;
    router.trace_add(&node, args.get("packets")?).map_err(|e| args.error("node", e))?;
    Ok(Output::none())
}

/// A record as its node tells it.
struct Told<'a>(&'a Graph, &'a TraceRecord);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.nodes.get(usize::from(self.1.node.0)) {
            Some(n) => (n.format_trace)(self.1, f),
            None => Ok(()),
        }
    }
}

fn node_name(g: &Graph, id: graph::NodeId) -> &'static str {
    g.nodes.get(usize::from(id.0)).map_or("?", |n| n.name)
}

/// Hours, minutes, seconds and microseconds since the start.
fn clock(ns: u64) -> String {
    let us = ns / 1000;
    let s = us / 1_000_000;
    format!("{:02}:{:02}:{:02}:{:06}", s / 3600, s / 60 % 60, s % 60, us % 1_000_000)
}

/// Numbers of interfaces as nodes write them, `interface 3`, become names.
fn named(router: &Router, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("interface ") {
        let (before, after) = rest.split_at(at + "interface ".len());
        out.push_str(before);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, tail) = after.split_at(digits);
        match number.parse().ok().and_then(|n| router.interface(n)) {
            Some(i) => out.push_str(&i.name),
            None => out.push_str(number),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

pub(super) fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let most = args.opt("packets")?.unwrap_or(MOST) as usize;
    let started = graph::clock::Clock::new().now_ns().saturating_sub(router.uptime().as_nanos() as u64);
    let (mut text, mut all) = (String::new(), vec![]);
    for (w, g) in router.graphs().iter().enumerate() {
        let _ =
            writeln!(text, "------------------- Start of thread {} quiver_wk_{w} -------------------", w + 1);
        let records = router.trace_records(w);
        let mut packets: BTreeMap<u32, Vec<&TraceRecord>> = BTreeMap::new();
        for r in &records {
            packets.entry(r.id).or_default().push(r);
        }
        if packets.is_empty() {
            text.push_str("No packets in trace buffer\n");
        }
        let left_out = packets.len().saturating_sub(most);
        for (id, records) in packets.into_iter().take(most) {
            let _ = writeln!(text, "Packet {}\n", id + 1);
            let steps: Vec<Json> = records.iter().map(|r| step(router, g, r, started, &mut text)).collect();
            text.push('\n');
            all.push(json!({ "thread": w + 1, "packet": id + 1, "steps": steps }));
        }
        if left_out != 0 {
            let _ = writeln!(
                text,
                "Limiting display to {most} packets: 'max N' shows more of the {left_out} left\n"
            );
        }
    }
    Ok(Output::new(text, Json::Array(all)))
}

fn step(router: &Router, g: &Graph, r: &TraceRecord, started: u64, text: &mut String) -> Json {
    let node = node_name(g, r.node);
    let told = named(router, &Told(g, r).to_string());
    let since = r.time_ns.saturating_sub(started);
    let _ = writeln!(text, "{}: {node}", clock(since));
    text.push_str(&told);
    if !told.is_empty() && !told.ends_with('\n') {
        text.push('\n');
    }
    // A node that works on whole vectors records the packet as it comes in, with itself as the next node.
    let next = r.next.filter(|n| *n != r.node).map(|n| node_name(g, n));
    let reason = (r.reason != NO_REASON).then(|| g.reasons.get(r.reason as usize)).flatten();
    let _ = match (reason, next) {
        (Some(d), _) => writeln!(text, "  drop {}: {}", d.name, d.description),
        (None, Some(next)) => writeln!(text, "  next {next}"),
        (None, None) if r.next.is_none() => writeln!(text, "  kept by this node"),
        (None, None) => Ok(()),
    };
    json!({
        "time-us": since / 1000,
        "node": node,
        "next": next,
        "drop": reason.map(|d| json!({ "reason": d.name, "meaning": d.description })),
        "length": r.total_len,
        "text": told.trim_end(),
    })
}
