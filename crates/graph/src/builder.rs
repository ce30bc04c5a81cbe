//! Builds a worker's graph from plain lists of nodes and arcs, and refuses what does not fit together.

use crate::arcs::{self, ArcNodes, Feature, FeatureArc, MAX_FEATURES};
use crate::buffer::Pool;
use crate::dispatch::{Dispatcher, Timers, own_reasons};
use crate::driver::{BatchDriver, DynNode, FormatTrace, LookupDriver, StepDriver};
use crate::edge::{Edge, NodeId, Reason, Severity};
use crate::env::{ARC, Env, Wiring};
use crate::frames::Frames;
use crate::handle::NONE;
use crate::node::{BatchNode, LookupNode, Node, SpreadNode};
use crate::quick::{QuickDriver, QuickLookup, QuickLookupDriver, QuickNode};
use crate::registry::Registry;
use crate::spread::SpreadDriver;
use crate::stats::WorkerStats;
use crate::trace::Tracing;
use std::sync::Arc;

/// Why a graph cannot be built. These are mistakes of its author; a test builds the graph.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BuildError {
    /// Two nodes of one name.
    #[error("two nodes are called {0}")]
    Twice(&'static str),
    /// An edge, arc or drop node names a node that is not there.
    #[error("{by} names {target}, which is not in the graph")]
    Missing {
        /// Who names it.
        by: String,
        /// What is missing.
        target: &'static str,
    },
    /// Declared before / after contradict each other.
    #[error("the features of arc {arc} cannot be ordered: {features}")]
    Cycle {
        /// The arc.
        arc: &'static str,
        /// Features of the cycle.
        features: String,
    },
    /// Too many features in one arc.
    #[error("arc {0} has more than 32 features")]
    TooMany(&'static str),
    /// The counters of its nodes cannot be had.
    #[error("the counters of worker {worker}: {why}")]
    Counters {
        /// The worker.
        worker: usize,
        /// The system's or the registry's answer.
        why: String,
    },
}

/// What kind of work a node does, for `show runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Polls devices.
    Input,
    /// Works on vectors.
    Internal,
}

/// What is known of a node without a worker.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Names of its edges as declared (`@arc` for arcs).
    pub targets: Vec<&'static str>,
    /// Formats its trace records.
    pub format_trace: FormatTrace,
}

/// A counter's meaning.
#[derive(Clone, Copy, Debug)]
pub struct ReasonInfo {
    /// The node that counts it (`dispatcher` for its own).
    pub node: &'static str,
    /// Short name.
    pub name: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Error or event.
    pub severity: Severity,
}

type Make = Box<dyn FnOnce(Box<[u16]>) -> Box<dyn DynNode>>;

struct Entry {
    info: NodeInfo,
    reasons: &'static [(&'static str, &'static str, Severity)],
    make: Make,
    flushes: bool,
    timed: bool,
}

/// A graph in the making.
#[derive(Default)]
pub struct Builder {
    entries: Vec<Entry>,
    arcs: Vec<&'static FeatureArc>,
    features: Vec<&'static Feature>,
    drop: &'static str,
    plain: bool,
    unsorted: bool,
    registry: Option<Arc<Registry>>,
}

/// What the control side keeps of one worker's graph: names, counters, trace.
#[derive(Clone)]
pub struct Graph {
    /// The nodes, by number.
    pub nodes: Arc<Vec<NodeInfo>>,
    /// The reasons, by number.
    pub reasons: Arc<Vec<ReasonInfo>>,
    /// Arcs and edges, resolved.
    pub wiring: Arc<Wiring>,
    /// The worker's counters.
    pub stats: Arc<WorkerStats>,
    /// The worker's trace.
    pub tracing: Arc<Tracing>,
}

impl Graph {
    /// The number of the node called `name`.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u16))
    }

    /// The arc called `name`.
    pub fn arc(&self, name: &str) -> Option<&ArcNodes> {
        self.wiring.arcs.iter().find(|a| a.name == name)
    }

    /// The graph in Graphviz's language: nodes, edges and (dashed) features of arcs.
    pub fn dot(&self) -> String {
        let mut out =
            String::from("digraph quiver {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n");
        for n in self.nodes.iter() {
            let shape = if n.kind == Kind::Input { " [style=filled, fillcolor=lightblue]" } else { "" };
            out.push_str(&format!("  \"{}\"{shape};\n", n.name));
            for t in &n.targets {
                match t.strip_prefix('@').and_then(|a| self.arc(a)) {
                    Some(arc) => {
                        for f in arc.features.iter().filter(|f| **f != n.name) {
                            out.push_str(&format!("  \"{}\" -> \"{f}\" [style=dashed];\n", n.name));
                        }
                        let end = self.nodes[usize::from(arc.end.0)].name;
                        out.push_str(&format!("  \"{}\" -> \"{end}\";\n", n.name));
                    }
                    None => out.push_str(&format!("  \"{}\" -> \"{t}\";\n", n.name)),
                }
            }
        }
        out.push_str("}\n");
        out
    }
}

/// An input's place in the graph: it is polled by the worker, so nothing is ever enqueued to it.
struct InputPlace;

impl DynNode for InputPlace {
    fn process(&mut self, _env: &mut Env, _guard: &crate::Guard, _v: &mut Box<crate::Vector>) {}
    fn salvage(&mut self, _v: &mut crate::Vector) {}
    fn flush(&mut self, _env: &mut Env) {}
    fn node(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

impl Builder {
    /// An empty graph whose dropped packets go to the node called `drop`.
    pub fn new(drop: &'static str) -> Self {
        Builder { drop, ..Builder::default() }
    }

    fn add(
        &mut self,
        name: &'static str,
        kind: Kind,
        targets: &'static [&'static str],
        reasons: &'static [(&'static str, &'static str, Severity)],
        format_trace: FormatTrace,
        make: Make,
    ) -> &mut Entry {
        let info = NodeInfo { name, kind, targets: targets.to_vec(), format_trace };
        self.entries.push(Entry { info, reasons, make, flushes: false, timed: false });
        let last = self.entries.len() - 1;
        &mut self.entries[last]
    }

    /// Adds the place of a kind of input, e.g. `af-packet-input`; its packets go to `targets`, and `format_trace`
    /// writes what a trace says of them.
    pub fn input(
        mut self,
        name: &'static str,
        targets: &'static [&'static str],
        format_trace: FormatTrace,
    ) -> Self {
        self.add(name, Kind::Input, targets, &[], format_trace, Box::new(|_| Box::new(InputPlace)));
        self
    }

    /// Adds a node that decides packet by packet. The order of the calls is the order in which nodes run.
    pub fn node<N: Node>(mut self, node: N) -> Self {
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |e| Box::new(StepDriver::new(node, e))),
        )
        .timed = N::TIMED;
        self
    }

    /// Leaves out the short cuts of nodes that are added from now on, not their order of packets: for tests, which compare
    /// both graphs.
    pub fn without_short_cuts(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Leaves nodes that are added from now on without short cuts, and packets in the order in which they came: for tests of that
    /// order.
    pub fn unsorted(mut self) -> Self {
        (self.plain, self.unsorted) = (true, true);
        self
    }

    /// Adds a node with a short cut.
    pub fn quick<N: QuickNode>(mut self, node: N) -> Self {
        if self.unsorted {
            return self.node(node);
        }
        let short = !self.plain;
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |e| Box::new(QuickDriver::new(node, short, e))),
        )
        .timed = N::TIMED;
        self
    }

    /// Adds a lookup node with a short cut.
    pub fn quick_lookup<N: QuickLookup>(mut self, node: N) -> Self {
        if self.plain {
            return self.lookup(node);
        }
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |e| Box::new(QuickLookupDriver::new(node, e))),
        );
        self
    }

    /// Adds a lookup node.
    pub fn lookup<N: LookupNode>(mut self, node: N) -> Self {
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |e| Box::new(LookupDriver::new(node, e))),
        );
        self
    }

    /// Adds a node that shares packets out among workers.
    pub fn spread<N: SpreadNode>(mut self, node: N) -> Self {
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |e| Box::new(SpreadDriver::new(node, e))),
        );
        self
    }

    /// Adds a node that works on whole vectors.
    pub fn batch<N: BatchNode>(mut self, node: N) -> Self {
        self.add(
            N::NAME,
            Kind::Internal,
            N::Next::TARGETS,
            N::Drop::ALL,
            N::format_trace,
            Box::new(move |_| Box::new(BatchDriver { node })),
        )
        .flushes = true;
        self
    }

    /// Has the counters of its nodes and reasons stand in this registry, and not in one of their own.
    pub fn counters(mut self, registry: &Arc<Registry>) -> Self {
        self.registry = Some(Arc::clone(registry));
        self
    }

    /// Adds a feature arc.
    pub fn arc(mut self, arc: &'static FeatureArc) -> Self {
        self.arcs.push(arc);
        self
    }

    /// Adds features to arcs. Where their declarations leave it open, those of an arc come in the order of the calls.
    pub fn features(mut self, features: impl IntoIterator<Item = &'static Feature>) -> Self {
        self.features.extend(features);
        self
    }

    /// Resolves names, orders arcs, and makes worker `worker`'s dispatcher.
    pub fn build(self, pool: &Arc<Pool>, worker: usize) -> Result<(Dispatcher, Graph), BuildError> {
        let names: Vec<&'static str> = self.entries.iter().map(|e| e.info.name).collect();
        for (i, n) in names.iter().enumerate() {
            if names[..i].contains(n) {
                return Err(BuildError::Twice(n));
            }
        }
        let find = |by: &str, target: &'static str| {
            names
                .iter()
                .position(|n| *n == target)
                .map(|i| NodeId(i as u16))
                .ok_or(BuildError::Missing { by: by.to_string(), target })
        };
        let mut arcs_out = Vec::new();
        if let Some(f) = self.features.iter().find(|f| !self.arcs.contains(&f.arc)) {
            return Err(BuildError::Missing { by: f.node.to_string(), target: f.arc.name });
        }
        for def in &self.arcs {
            let features: Vec<&Feature> = self.features.iter().copied().filter(|f| f.arc == *def).collect();
            let features = arcs::order(&features)
                .map_err(|f| BuildError::Cycle { arc: def.name, features: f.join(", ") })?;
            if features.len() > MAX_FEATURES {
                return Err(BuildError::TooMany(def.name));
            }
            let end = find(def.name, def.end)?;
            let mut nodes = [end; MAX_FEATURES];
            for (slot, f) in nodes.iter_mut().zip(&features) {
                *slot = find(def.name, f)?;
            }
            arcs_out.push(ArcNodes { name: def.name, nodes, features, end });
        }
        let mut edges = Vec::new();
        let mut reasons = Vec::new();
        let mut reason_base = Vec::new();
        for e in &self.entries {
            let mut row = Vec::new();
            for t in &e.info.targets {
                row.push(match t.strip_prefix('@') {
                    Some(arc) => {
                        let i = arcs_out.iter().position(|a| a.name == arc);
                        let missing = BuildError::Missing { by: e.info.name.to_string(), target: t };
                        ARC + i.ok_or(missing)? as u16
                    }
                    None => find(e.info.name, t)?.0,
                });
            }
            edges.push(row.into_boxed_slice());
            reason_base.push(reasons.len() as u32);
            reasons.extend(e.reasons.iter().map(|&(name, description, severity)| ReasonInfo {
                node: e.info.name,
                name,
                description: description.trim(),
                severity,
            }));
        }
        let own_base = reasons.len() as u32;
        reasons.extend(own_reasons().iter().map(|&(name, description, severity)| ReasonInfo {
            node: "dispatcher",
            name,
            description: description.trim(),
            severity,
        }));
        let drop = find("the graph", self.drop)?;
        let infos: Vec<NodeInfo> = self.entries.iter().map(|e| e.info.clone()).collect();
        let flushers = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| e.flushes)
            .map(|(i, _)| NodeId(i as u16))
            .collect();
        let timed =
            self.entries.iter().enumerate().filter(|(_, e)| e.timed).map(|(i, _)| NodeId(i as u16)).collect();
        let nodes = self.entries.into_iter().zip(&edges).map(|(e, row)| (e.make)(row.clone())).collect();
        let wiring = Arc::new(Wiring { arcs: arcs_out, names: names.clone(), edges, reason_base, drop });
        let registry = self.registry.map_or_else(Registry::new, Ok);
        let stats = registry
            .and_then(|r| counters(&r, worker, &names, &reasons))
            .map_err(|e| BuildError::Counters { worker, why: e.to_string() })?;
        let stats = Arc::new(stats);
        let tracing = Arc::new(Tracing::new(names.len()));
        let env = Env {
            buffers: pool.buffers(),
            frames: Frames::new(names.len(), pool.count()),
            stats: Arc::clone(&stats),
            tracing: Arc::clone(&tracing),
            wiring: Arc::clone(&wiring),
            now_ns: 0,
            worker,
            handoff: None,
            outbox: Vec::with_capacity(2 * crate::VECTOR_SIZE),
            own_base,
            node: NodeId(0),
            reason_base: 0,
        };
        debug_assert_ne!(NONE, 0, "buffer 0 is a valid buffer");
        let dispatcher = Dispatcher {
            nodes,
            flushers,
            reason_base: own_base,
            panics: None,
            together: Vec::with_capacity(2 * crate::VECTOR_SIZE),
            timers: Timers::new(timed),
            env,
        };
        let graph = Graph { nodes: Arc::new(infos), reasons: Arc::new(reasons), wiring, stats, tracing };
        Ok((dispatcher, graph))
    }
}

fn counters(
    registry: &Registry,
    worker: usize,
    nodes: &[&'static str],
    reasons: &[ReasonInfo],
) -> std::io::Result<WorkerStats> {
    registry.name("node", nodes.iter().map(|n| (n.to_string(), String::new())));
    let named = reasons.iter().map(|r| (format!("{}/{}", r.node, r.name), r.description.to_string()));
    registry.name("reason", named);
    WorkerStats::new(registry, worker, nodes.len(), reasons.len())
}
