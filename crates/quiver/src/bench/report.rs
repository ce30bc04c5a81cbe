//! What a scenario found, as JSON and as text.

use super::measure::{Meter, NodeCount, Run, median};
use super::mood::Shares;
use super::rig::Rig;
use graph::buffer::Pages;
use serde::Serialize;

/// The machine and how the binary uses it.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Resident memory of the process, MB (10^6 bytes), the benchmark's own lists of addresses included.
    pub rss_mb: f64,
    /// TSC clocks a second.
    pub tsc_hz: u64,
    /// The processor's name.
    pub cpu: String,
    /// Its instructions that the tables use: `v2`, `v3` or `v4`.
    pub level: &'static str,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeLine {
    /// Its name.
    pub name: &'static str,
    /// Clocks for each of its packets.
    pub clocks: f64,
    /// The same in the short windows about the median.
    pub clocks_2ms: f64,
    /// Packets a call.
    pub vectors_per_call: f64,
    /// Its packets for each packet that came in.
    pub share: f64,
}

/// A forwarding scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Forwarding {
    /// Its name.
    pub scenario: String,
    /// Routes loaded.
    pub routes: usize,
    /// Workers.
    pub workers: usize,
    /// Bytes of a frame; the mean where sizes are mixed.
    pub size: usize,
    /// Million packets a second, all workers, median.
    pub mpps: f64,
    /// How many times as much as one worker alone, measured in turns; only of several workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_one: Option<f64>,
    /// Clocks a packet of all nodes but generator and sink, median window.
    pub clocks_per_packet: f64,
    /// The same in the best window.
    pub clocks_per_packet_best: f64,
    /// With generator and sink, median window.
    pub clocks_per_packet_total: f64,
    /// Median of short windows (2 ms), most of which no other guest of the host interrupts.
    pub clocks_per_packet_2ms: f64,
    /// A window at which only one of a hundred short ones is better.
    pub clocks_per_packet_2ms_p1: f64,
    /// The nodes, in the order of the graph, in the median window.
    pub nodes: Vec<NodeLine>,
    /// Share of the time in which the workers ran, as Linux sees it: less than 1 where other processes wanted their CPUs.
    pub cpu_share: f64,
    /// Share of the time that the host took away from the workers' CPUs, as far as it tells.
    pub stolen: f64,
    /// Packets dropped by the graph in the whole run.
    pub dropped: u64,
    /// Packets that neither left nor were dropped; 0 when everything is right.
    pub lost: i64,
    /// Buffers that nobody has any more; 0 when everything is right.
    pub leaked: i64,
    /// Bytes of the tables with the control side's trees, MB.
    pub tables_mb: f64,
    /// Pages of the packet buffers.
    pub buffers: &'static str,
    /// Seconds that loading the routes took.
    pub load_s: f64,
    /// The machine.
    #[serde(flatten)]
    pub place: Place,
}

/// `x` with so many digits behind the point.
pub fn round(x: f64, digits: i32) -> f64 {
    let f = 10f64.powi(digits);
    (x * f).round() / f
}

/// The name under which `QUIVER_CPU` knows a level.
pub fn level_name(level: tables::CpuLevel) -> &'static str {
    match level {
        tables::CpuLevel::V2 => "v2",
        tables::CpuLevel::V3 => "v3",
        tables::CpuLevel::V4 => "v4",
    }
}

/// What a scenario prints.
pub struct Answer {
    /// One JSON object.
    pub json: String,
    /// The same for people.
    pub text: String,
    /// The part of the text that is repeated at the end.
    pub line: String,
}

impl Answer {
    /// An answer whose text says it all once.
    pub fn line(found: &impl Serialize, text: String) -> Result<Answer, String> {
        let json = serde_json::to_string(found).map_err(|e| e.to_string())?;
        Ok(Answer { json, text, line: String::new() })
    }
}

/// Resident memory of this process, MB.
pub fn rss_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0);
    round(kib * 1024.0 / 1e6, 1)
}

impl Place {
    /// Here and now.
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = text.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or(": unknown");
        let asked = std::env::var("QUIVER_CPU").ok().and_then(|n| tables::CpuLevel::from_name(&n));
        let level = asked.map_or_else(tables::CpuLevel::detect, tables::CpuLevel::supported);
        Place {
            rss_mb: rss_mb(),
            tsc_hz: graph::clock::tsc_hz(),
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_string(),
            level: level_name(level),
        }
    }
}

impl Forwarding {
    /// The figures of a run.
    pub fn new(scenario: &str, rig: &Rig, meter: &Meter, run: &Run, shares: Shares) -> Self {
        let clocks = |w: &_| meter.clocks(w);
        let (typical, short) = (run.typical(clocks), run.short_middle());
        let nodes = typical.map_or_else(Vec::new, |w| {
            let came = meter.packets(w).max(1) as f64;
            let each = |n: &NodeCount| round(n.clocks as f64 / n.packets.max(1) as f64, 2);
            let line = |(i, n): (usize, &NodeCount)| NodeLine {
                name: meter.names[i],
                clocks: each(n),
                clocks_2ms: short.as_ref().and_then(|w| w.nodes.get(i)).map_or(0.0, each),
                vectors_per_call: round(n.packets as f64 / n.calls.max(1) as f64, 1),
                share: round(n.packets as f64 / came, 4),
            };
            w.nodes.iter().enumerate().filter(|(_, n)| n.packets != 0).map(line).collect()
        });
        let router = &rig.router;
        let tables = [net::router::RouteTable::V4, net::router::RouteTable::V6];
        let bytes: usize = tables.into_iter().map(|t| router.table_bytes(t)).sum();
        Forwarding {
            scenario: scenario.into(),
            routes: rig.routes,
            workers: router.config().workers,
            size: rig.size,
            mpps: round(median(run.windows.iter().map(|w| meter.mpps(w)).collect()), 3),
            times_one: None,
            clocks_per_packet: round(run.median(clocks), 2),
            clocks_per_packet_best: round(run.best(clocks), 2),
            clocks_per_packet_total: round(run.median(|w| meter.total_clocks(w)), 2),
            clocks_per_packet_2ms: round(run.short_at(0.5), 2),
            clocks_per_packet_2ms_p1: round(run.short_at(0.01), 2),
            nodes,
            cpu_share: round(shares.ran, 3),
            stolen: round(shares.stolen, 3),
            dropped: 0,
            lost: 0,
            leaked: 0,
            tables_mb: round(bytes as f64 / 1e6, 1),
            buffers: match router.pool().pages() {
                Pages::Huge => "huge pages",
                Pages::Transparent => "transparent huge pages",
                Pages::Normal => "normal pages",
            },
            load_s: round(rig.load, 3),
            place: Place::now(),
        }
    }

    /// The line of this scenario.
    pub fn line(&self) -> String {
        let times = self.times_one.map(|t| format!(" ({t:.2} of one)")).unwrap_or_default();
        format!(
            "{:<20} {:>8} route{}, {} worker{}, {} bytes: {:.2} Mpps{times}, {:.1} clocks a packet (best {:.1}, 2 ms windows \
             {:.1}, with generator and sink {:.1}), {:.0} % of the CPU",
            self.scenario,
            self.routes,
            if self.routes == 1 { "" } else { "s" },
            self.workers,
            if self.workers == 1 { "" } else { "s" },
            self.size,
            self.mpps,
            self.clocks_per_packet,
            self.clocks_per_packet_best,
            self.clocks_per_packet_2ms,
            self.clocks_per_packet_total,
            self.cpu_share * 100.0,
        )
    }

    /// The figures, with a table of nodes.
    pub fn answer(&self) -> Result<Answer, String> {
        Ok(Answer { text: self.text(), line: self.line(), ..Answer::line(self, String::new())? })
    }

    /// The table of nodes and the line.
    fn text(&self) -> String {
        let mut out = format!(
            "{:<20} {:>14} {:>13} {:>13} {:>8}\n",
            self.scenario, "clocks/packet", "2 ms windows", "vectors/call", "share"
        );
        for n in &self.nodes {
            out += &format!(
                "  {:<18} {:>14.2} {:>13.2} {:>13.1} {:>8.3}\n",
                n.name, n.clocks, n.clocks_2ms, n.vectors_per_call, n.share
            );
        }
        out + &self.line() + "\n"
    }
}
