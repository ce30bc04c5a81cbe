//! Reads the workers' own counters while they forward, window by window.

use super::feed;
use super::rig::Rig;
use graph::clock::{tsc, tsc_hz};
use graph::stats::WorkerStats;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Length of a window, seconds, as long as there are ten of them.
const WINDOW: f64 = 0.5;
/// Windows of a measurement, at least.
const WINDOWS: f64 = 10.0;
/// Length of a short window, of which most see no interruption by the host, seconds.
const SHORT: f64 = 0.002;
/// Between two short windows: reading the counters disturbs workers that have all CPUs for themselves, seconds.
const BETWEEN: f64 = 0.008;
/// Packets of a window that has anything to say about the most that can be forwarded.
pub const ENOUGH: u64 = 32 * graph::VECTOR_SIZE as u64;
/// The longest wait for them, seconds.
const PATIENCE: f64 = 10.0;
/// The node in which packets end.
const SINK: &str = "interface-tx";

/// Length of the windows of a measurement of so many seconds.
pub fn window(seconds: f64) -> f64 {
    WINDOW.min(seconds / WINDOWS)
}

/// Counters of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Calls.
    pub calls: u64,
    /// Packets.
    pub packets: u64,
    /// TSC clocks.
    pub clocks: u64,
}

/// Counters of all workers together.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: u64,
    nodes: Vec<NodeCount>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its length, seconds.
    pub seconds: f64,
    /// By node.
    pub nodes: Vec<NodeCount>,
}

/// Reads the counters of a router's workers; it may run on another thread than the router.
#[derive(Clone)]
pub struct Meter {
    stats: Vec<Arc<WorkerStats>>,
    /// Names of the nodes, by number.
    pub names: Vec<&'static str>,
    feed: usize,
    sink: usize,
    drop: usize,
}

impl Meter {
    /// For the workers of `rig`.
    pub fn new(rig: &Rig) -> Self {
        let graphs = rig.router.graphs();
        let names: Vec<&'static str> =
            graphs.first().map(|g| g.nodes.iter().map(|n| n.name).collect()).unwrap_or_default();
        let of = |name: &str| names.iter().position(|n| *n == name).unwrap_or(usize::MAX);
        Meter {
            stats: graphs.iter().map(|g| Arc::clone(&g.stats)).collect(),
            feed: of(feed::NODE),
            sink: of(SINK),
            drop: of("error-drop"),
            names,
        }
    }

    fn read(&self) -> Snapshot {
        let mut nodes = vec![NodeCount::default(); self.names.len()];
        for w in &self.stats {
            for (sum, n) in nodes.iter_mut().zip(w.nodes.iter()) {
                sum.calls += n.calls.get();
                sum.packets += n.packets.get();
                sum.clocks += n.clocks.get();
            }
        }
        Snapshot { at: tsc(), nodes }
    }

    /// The counters now, for [`Meter::since`].
    pub fn mark(&self) -> Snapshot {
        self.read()
    }

    /// What happened since `first`.
    pub fn since(&self, first: &Snapshot) -> Window {
        Self::between(first, &self.read())
    }

    fn between(a: &Snapshot, b: &Snapshot) -> Window {
        let node = |(x, y): (&NodeCount, &NodeCount)| NodeCount {
            calls: y.calls - x.calls,
            packets: y.packets - x.packets,
            clocks: y.clocks - x.clocks,
        };
        let seconds = b.at.wrapping_sub(a.at) as f64 / tsc_hz().max(1) as f64;
        Window { seconds, nodes: a.nodes.iter().zip(&b.nodes).map(node).collect() }
    }

    /// Packets since the start that were made and dropped.
    pub fn totals(&self) -> (u64, u64) {
        let now = self.read();
        let of = |i: usize| now.nodes.get(i).map_or(0, |n| n.packets);
        (of(self.feed), of(self.drop))
    }

    /// Packets that came in during a window.
    pub fn packets(&self, w: &Window) -> u64 {
        w.nodes.get(self.feed).map_or(0, |n| n.packets)
    }

    /// Clocks a packet of all nodes but generator and sink; none without packets.
    pub fn clocks(&self, w: &Window) -> Option<f64> {
        let all: u64 =
            w.nodes.iter().enumerate().filter(|(i, _)| !self.is_edge(*i)).map(|(_, n)| n.clocks).sum();
        self.a_packet(w, all)
    }

    /// Clocks a packet of all nodes.
    pub fn total_clocks(&self, w: &Window) -> Option<f64> {
        self.a_packet(w, w.nodes.iter().map(|n| n.clocks).sum())
    }

    fn a_packet(&self, w: &Window, clocks: u64) -> Option<f64> {
        let packets = self.packets(w);
        (packets != 0).then(|| clocks as f64 / packets as f64)
    }

    /// True for the generator and the sink.
    pub fn is_edge(&self, node: usize) -> bool {
        node == self.feed || node == self.sink
    }

    /// Million packets a second.
    pub fn mpps(&self, w: &Window) -> f64 {
        self.packets(w) as f64 / w.seconds / 1e6
    }

    /// Measures for `seconds`, and calls `between` after every window. A window in which fewer than `least` packets came,
    /// because the workers did not run, goes on for some seconds at most.
    pub fn measure(&self, seconds: f64, least: u64, mut between: impl FnMut()) -> Run {
        let length = window(seconds);
        let sleep = |s: f64| std::thread::sleep(Duration::from_secs_f64(s.min(length)));
        let count = (seconds / length).round().max(1.0) as usize;
        let mut run = Run { windows: vec![], short: vec![] };
        let mut first = self.read();
        for _ in 0..count {
            let (began, mut last) = (Instant::now(), first.clone());
            loop {
                let passed = began.elapsed().as_secs_f64();
                let few = self.packets(&Self::between(&first, &last)) < least && passed < PATIENCE;
                if passed >= length && !few {
                    break;
                }
                sleep(SHORT);
                let now = self.read();
                let window = Self::between(&last, &now);
                run.short.extend(self.clocks(&window).map(|c| (c, window)));
                sleep(BETWEEN);
                last = self.read();
            }
            run.windows.push(Self::between(&first, &last));
            between();
            first = self.read();
        }
        run.short.sort_by(|a, b| a.0.total_cmp(&b.0));
        run
    }
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its windows, in order.
    pub windows: Vec<Window>,
    /// Short windows of 2 ms with their clocks a packet, by these.
    pub short: Vec<(f64, Window)>,
}

/// The middle one of a list, 0 of none.
pub fn median(mut list: Vec<f64>) -> f64 {
    list.sort_by(f64::total_cmp);
    let n = list.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => list[n / 2],
        _ => (list[n / 2 - 1] + list[n / 2]) / 2.0,
    }
}

impl Run {
    /// The median of `f` over the windows in which packets came.
    pub fn median(&self, f: impl Fn(&Window) -> Option<f64>) -> f64 {
        median(self.windows.iter().filter_map(f).collect())
    }

    /// The short window that `share` (0 to 1) of all are better than, 0 of none.
    pub fn short_at(&self, share: f64) -> f64 {
        self.short.get((self.short.len() as f64 * share) as usize).map_or(0.0, |s| s.0)
    }

    /// The short windows about the median as one.
    pub fn short_middle(&self) -> Option<Window> {
        let n = self.short.len();
        let mut middle = self.short.get(n * 2 / 5..(n * 3 / 5 + 1).min(n))?.iter().map(|s| &s.1);
        let mut sum = middle.next()?.clone();
        for w in middle {
            sum.seconds += w.seconds;
            for (a, b) in sum.nodes.iter_mut().zip(&w.nodes) {
                a.calls += b.calls;
                a.packets += b.packets;
                a.clocks += b.clocks;
            }
        }
        Some(sum)
    }

    /// The smallest value of `f`.
    pub fn best(&self, f: impl Fn(&Window) -> Option<f64>) -> f64 {
        self.windows.iter().filter_map(f).min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The window whose `f` is nearest to the median.
    pub fn typical(&self, f: impl Fn(&Window) -> Option<f64>) -> Option<&Window> {
        let middle = self.median(&f);
        let far = |w: &&Window| f(w).map_or(f64::MAX, |x| (x - middle).abs());
        self.windows.iter().min_by(|a, b| far(a).total_cmp(&far(b)))
    }
}
