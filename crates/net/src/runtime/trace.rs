//! `trace add` and `show trace`.

use crate::router::Router;
use command::{Args, CommandError, Output, Page};
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
    let cleared = router.traces_cleared();
    let (mut begun, mut worker, mut thread) = (false, 0, Thread::default());
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if router.traces_cleared() != cleared {
            return Err("the trace was cleared while it was shown".into());
        }
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        while let Some(graph) = router.graphs().get(worker) {
            if thread.next(router, (worker, graph), most, started, page) {
                return Ok(true);
            }
            (worker, thread) = (worker + 1, Thread::default());
        }
        if page.wants_json() {
            page.close("]");
        }
        Ok(false)
    }))
}

/// How far the trace of a worker is shown.
#[derive(Default)]
struct Thread {
    /// Places of the records of each packet, as far as they are looked through.
    packets: BTreeMap<u32, Vec<u32>>,
    /// How many records that is.
    seen: usize,
    /// All of them are: packets are shown.
    all_seen: bool,
    /// Places of the records that are to be shown of the packet that is shown.
    places: std::vec::IntoIter<u32>,
    /// There is one.
    open: bool,
    /// Packets that were shown.
    shown: usize,
}

impl Thread {
    /// Shows more; true when the page is full.
    fn next(
        &mut self,
        router: &Router,
        (w, graph): (usize, &Graph),
        most: usize,
        started: u64,
        page: &mut Page,
    ) -> bool {
        let text = !page.wants_json();
        // A worker's records stand in the order of time, those of a packet among those of others.
        while !self.all_seen {
            match router.trace_record(w, self.seen) {
                Some(r) => self.packets.entry(r.id).or_default().push(self.seen as u32),
                None => {
                    self.all_seen = true;
                    self.head(w, page);
                    break;
                }
            }
            self.seen += 1;
            if self.seen.is_multiple_of(64) && page.is_full() {
                return true;
            }
        }
        loop {
            // A packet that was flooded has thousands of records.
            for at in self.places.by_ref() {
                let Some(r) = router.trace_record(w, at as usize) else { continue };
                let mut words = String::new();
                let step = step(router, graph, &r, started, &mut words);
                match text {
                    true => _ = page.write_str(&words),
                    false => page.item(&step),
                }
                if page.is_full() {
                    return true;
                }
            }
            match text {
                _ if !std::mem::take(&mut self.open) => {}
                true => _ = page.write_str("\n"),
                false => page.close("]}"),
            }
            if self.shown >= most {
                break;
            }
            let Some((id, places)) = self.packets.pop_first() else { break };
            match text {
                true => _ = writeln!(page, "Packet {}\n", id + 1),
                false => {
                    page.open_item(&format!("{{\"thread\":{},\"packet\":{},\"steps\":[", w + 1, id + 1));
                }
            }
            (self.shown, self.open, self.places) = (self.shown + 1, true, places.into_iter());
        }
        if text && !self.packets.is_empty() {
            let _ = writeln!(
                page,
                "Limiting display to {most} packets: 'max N' shows more of the {} left\n",
                self.packets.len()
            );
        }
        false
    }

    fn head(&self, w: usize, page: &mut Page) {
        if !page.wants_json() {
            let _ = writeln!(
                page,
                "------------------- Start of thread {} quiver_wk_{w} -------------------",
                w + 1
            );
            if self.packets.is_empty() {
                let _ = writeln!(page, "No packets in trace buffer");
            }
        }
    }
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
