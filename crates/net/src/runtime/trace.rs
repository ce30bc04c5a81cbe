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

/// A record as its node writes it.
struct Written<'a>(&'a Graph, &'a TraceRecord);

impl fmt::Display for Written<'_> {
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

/// What a node did with a packet, as it is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// The node.
    pub node: &'static str,
    /// The node to which the packet went; none when this one kept it, or deals out whole vectors.
    pub next: Option<&'static str>,
    /// Why it was dropped: the reason's name, and what it means.
    pub drop: Option<(&'static str, &'static str)>,
    /// What the node has to say of it, in lines; interfaces have their numbers, see [`named`].
    pub text: String,
}

/// Tells a record.
pub fn told(graph: &Graph, r: &TraceRecord) -> Told {
    // A node that works on whole vectors records the packet as it comes in, with itself as the next node.
    let next = r.next.filter(|n| *n != r.node).map(|n| node_name(graph, n));
    let reason = (r.reason != NO_REASON).then(|| graph.reasons.get(r.reason as usize)).flatten();
    Told {
        node: node_name(graph, r.node),
        next,
        drop: reason.map(|d| (d.name, d.description)),
        text: Written(graph, r).to_string(),
    }
}

/// What stands in front of the number of an interface.
const INTERFACE: &str = "interface ";

/// The numbers of interfaces in what a node says.
pub fn numbers(text: &str) -> impl Iterator<Item = u32> {
    let behind = text.split(INTERFACE).skip(1);
    behind.filter_map(|t| t.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

/// Hours, minutes, seconds and microseconds since the start.
fn clock(ns: u64) -> String {
    let us = ns / 1000;
    let s = us / 1_000_000;
    format!("{:02}:{:02}:{:02}:{:06}", s / 3600, s / 60 % 60, s % 60, us % 1_000_000)
}

/// The same with names of interfaces for their numbers, as far as they are known.
pub fn named(text: &str, name: impl Fn(u32) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(INTERFACE) {
        let (before, after) = rest.split_at(at + INTERFACE.len());
        out.push_str(before);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, tail) = after.split_at(digits);
        match number.parse().ok().and_then(&name) {
            Some(name) => out.push_str(&name),
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

fn step(router: &Router, g: &Graph, r: &TraceRecord, started: u64, out: &mut String) -> Json {
    let Told { node, next, drop, text } = told(g, r);
    let text = named(&text, |i| router.interface(i).map(|i| i.name.clone()));
    let since = r.time_ns.saturating_sub(started);
    let _ = writeln!(out, "{}: {node}", clock(since));
    out.push_str(&text);
    if !text.is_empty() && !text.ends_with('\n') {
        out.push('\n');
    }
    let _ = match (drop, next) {
        (Some((reason, meaning)), _) => writeln!(out, "  drop {reason}: {meaning}"),
        (None, Some(next)) => writeln!(out, "  next {next}"),
        (None, None) if r.next.is_none() => writeln!(out, "  kept by this node"),
        (None, None) => Ok(()),
    };
    json!({
        "time-us": since / 1000,
        "node": node,
        "next": next,
        "drop": drop.map(|(reason, meaning)| json!({ "reason": reason, "meaning": meaning })),
        "length": r.total_len,
        "text": text.trim_end(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_their_names() {
        let text = "IP4: interface 3 to interface 12, interface x";
        assert_eq!(numbers(text).collect::<Vec<_>>(), [3, 12]);
        let named = named(text, |i| (i == 12).then(|| "left.100".into()));
        assert_eq!(named, "IP4: interface 3 to interface left.100, interface x");
    }
}
