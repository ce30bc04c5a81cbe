//! A capture file as a receive queue.

use super::format::{Block, PcapError, Seen};
use super::source::{Next, Progress, Source};
use crate::files::Files;
use crate::generator::pace::Pace;
use graph::buffer::Buffers;
use graph::desc::{Desc, Vector};
use graph::io::{Ready, RxQueue};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Speed of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PcapRate {
    /// As fast as it goes.
    Max,
    /// This many packets a second.
    Pps(f64),
    /// With the gaps that the file's times show. A pass that starts again does so after the last gap.
    Original,
}

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct PcapConfig {
    /// The file.
    pub path: PathBuf,
    /// Number of the interface on which packets count as received.
    pub interface: u32,
    /// Speed.
    pub rate: PcapRate,
    /// How often the file is read; 0 for no end.
    pub passes: u64,
    /// Bytes up to which a file is kept in memory as a whole; longer ones are read while they are sent. At most
    /// 1 GiB counts.
    pub memory: u64,
}

impl PcapConfig {
    /// Once, at full speed, in memory up to 64 MiB.
    pub fn new(path: impl Into<PathBuf>, interface: u32) -> Self {
        PcapConfig { path: path.into(), interface, rate: PcapRate::Max, passes: 1, memory: 64 << 20 }
    }
}

/// Counts of a queue, for other threads.
pub struct PcapStats {
    packets: AtomicU64,
    bytes: AtomicU64,
    no_buffer: AtomicU64,
    done: AtomicBool,
    progress: Progress,
}

impl PcapStats {
    /// Packets put into the graph.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Bytes of these.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Polls that ended early because no buffer was free; the packet comes later.
    pub fn no_buffer(&self) -> u64 {
        self.no_buffer.load(Ordering::Relaxed)
    }

    /// Everything was read.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// What the file held (of one pass, or of all so far when it is read while it is sent), and what ended the
    /// reading early.
    pub fn seen(&self) -> (Seen, Option<String>) {
        self.progress.seen()
    }
}

enum Timing {
    Max,
    Paced(Pace),
    Original {
        /// When the next packet is due.
        due: u64,
        /// Time of the packet before it in the file.
        last: Option<u64>,
        /// Gap between the last two packets.
        gap: u64,
    },
}

/// A capture file as a receive queue.
pub struct PcapRx {
    interface: u32,
    source: Source,
    block: Option<Block>,
    at: usize,
    timing: Timing,
    started: bool,
    waiting: bool,
    polled_ns: u64,
    stats: Arc<PcapStats>,
}

/// How long to wait for the reading thread.
const WAIT_NS: u64 = 100_000;
/// Least gap between two passes at the file's own times.
const LEAST_GAP_NS: u64 = 1000;

impl PcapRx {
    /// Opens the file, with the router's own rights.
    pub fn open(config: &PcapConfig) -> Result<PcapRx, PcapError> {
        let path = || config.path.display().to_string();
        let file = Files::default().read(&config.path);
        PcapRx::of(file.map_err(|err| PcapError::Open { path: path(), err })?, config)
    }

    /// Reads an open file.
    pub fn of(file: File, config: &PcapConfig) -> Result<PcapRx, PcapError> {
        let timing = match config.rate {
            PcapRate::Max => Timing::Max,
            PcapRate::Pps(pps) if (1e-3..=1e9).contains(&pps) => Timing::Paced(Pace::new(pps)),
            PcapRate::Pps(pps) => return Err(PcapError::Rate(pps)),
            PcapRate::Original => Timing::Original { due: 0, last: None, gap: 0 },
        };
        let (source, progress) = Source::open(file, config.passes, config.memory)?;
        let stats = PcapStats {
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            no_buffer: AtomicU64::new(0),
            done: AtomicBool::new(false),
            progress,
        };
        Ok(PcapRx {
            interface: config.interface,
            source,
            block: None,
            at: 0,
            timing,
            started: false,
            waiting: false,
            polled_ns: 0,
            stats: Arc::new(stats),
        })
    }

    /// The number of its interface, where it became known after the file was opened.
    pub fn set_interface(&mut self, interface: u32) {
        self.interface = interface;
    }

    /// Its counts, for another thread.
    pub fn stats(&self) -> Arc<PcapStats> {
        Arc::clone(&self.stats)
    }

    /// Makes sure that a frame is at hand; false when there is none now.
    fn have_frame(&mut self) -> bool {
        self.waiting = false;
        while self.block.as_ref().is_none_or(|b| self.at >= b.records.len()) {
            if let Some(used) = self.block.take() {
                self.source.give_back(used);
            }
            self.at = 0;
            match self.source.take() {
                Next::Block(b) => self.new_block(b),
                Next::Wait => {
                    self.waiting = true;
                    return false;
                }
                Next::End => {
                    self.stats.done.store(true, Ordering::Release);
                    return false;
                }
            }
        }
        true
    }

    fn new_block(&mut self, b: Block) {
        if let Timing::Original { due, last, gap } = &mut self.timing
            && let Some(first) = b.records.first()
        {
            // Packets after a pause of reading are due from their own times on, the first of all at once.
            let step = match *last {
                _ if b.restart => (*gap).max(LEAST_GAP_NS),
                Some(last) => first.time_ns.saturating_sub(last),
                None => 0,
            };
            *due = due.saturating_add(step);
            *last = Some(first.time_ns);
            if !b.restart {
                *gap = step;
            }
        }
        self.block = Some(b);
    }

    /// The current frame has left: the next one's time.
    fn advance(&mut self) {
        self.at += 1;
        if let (Timing::Original { due, last, gap }, Some(b)) = (&mut self.timing, &self.block)
            && let Some(r) = b.records.get(self.at)
        {
            *gap = r.time_ns.saturating_sub(last.unwrap_or(r.time_ns));
            *due = due.saturating_add(*gap);
            *last = Some(r.time_ns);
        }
    }
}

impl RxQueue for PcapRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "pcap-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        self.polled_ns = now_ns;
        if self.stats.is_done() {
            return 0;
        }
        if !self.started {
            self.started = true;
            match &mut self.timing {
                Timing::Max => {}
                Timing::Paced(pace) => pace.start(now_ns),
                Timing::Original { due, .. } => *due = now_ns,
            }
        }
        let room = match &mut self.timing {
            Timing::Paced(pace) => pace.allowed(now_ns, out.room()),
            _ => out.room(),
        };
        let (mut n, mut bytes) = (0, 0);
        while n < room && self.have_frame() {
            if matches!(self.timing, Timing::Original { due, .. } if due > now_ns) {
                break;
            }
            let Some(b) = &self.block else { break };
            let Some(record) = b.records.get(self.at) else { break };
            let Some(made) = buffers.alloc_bytes(b.frame(record)) else {
                self.stats.no_buffer.fetch_add(1, Ordering::Relaxed);
                break;
            };
            if let Err(made) = out.push(Desc { rx: self.interface, ..made }) {
                buffers.free(made);
                break;
            }
            bytes += u64::from(record.len);
            n += 1;
            self.advance();
        }
        // The end is known with the last packet, not one poll later.
        if n > 0 && !self.stats.is_done() {
            self.have_frame();
        }
        if let Timing::Paced(pace) = &mut self.timing {
            pace.sent(n);
        }
        self.stats.packets.fetch_add(n as u64, Ordering::Relaxed);
        self.stats.bytes.fetch_add(bytes, Ordering::Relaxed);
        n
    }

    fn ready(&self) -> Ready {
        if self.stats.is_done() {
            return Ready::Never;
        }
        if self.waiting {
            return Ready::At(self.polled_ns + WAIT_NS);
        }
        match &self.timing {
            _ if !self.started => Ready::Now,
            Timing::Max => Ready::Now,
            Timing::Paced(pace) => Ready::At(pace.due_ns()),
            Timing::Original { due, .. } => Ready::At(*due),
        }
    }
}

#[cfg(test)]
mod tests;
