//! The receive queue that a stream is to its worker, and the control of it from other threads.

use super::compile::Compiled;
use super::def::Rate;
use super::emit::Emitter;
use super::pace::Pace;
use graph::Buffer;
use graph::buffer::{Buffers, DATA, HEADROOM};
use graph::desc::{Desc, Vector};
use graph::io::{Ready, RxQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Name of the input node under which streams are counted.
pub const INPUT_NODE: &str = "pg-input";

/// What the control side and the worker share about a stream.
///
/// After [`Control::enable`] a sleeping worker must be woken, by any mail.
#[derive(Debug)]
pub struct Control {
    enabled: AtomicBool,
    count: u64,
    left: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    no_buffer: AtomicU64,
}

impl Control {
    /// Starts the stream; one that has sent its count sends it again.
    pub fn enable(&self) {
        // The worker writes `left` only while it is not 0, so this does not race with it.
        if self.left.load(Ordering::Acquire) == 0 {
            self.left.store(self.count, Ordering::Release);
        }
        self.enabled.store(true, Ordering::Release);
    }

    /// Stops the stream; it goes on where it stopped when it is enabled again.
    pub fn disable(&self) {
        self.enabled.store(false, Ordering::Release);
    }

    /// The stream is enabled and has not yet sent its count.
    pub fn is_running(&self) -> bool {
        self.enabled.load(Ordering::Acquire) && (self.count == 0 || self.remaining() != 0)
    }

    /// Packets still to be sent, 0 for a stream without end.
    pub fn remaining(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Packets made so far.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Bytes of these.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Polls that ended early because no buffer was free.
    pub fn no_buffer(&self) -> u64 {
        self.no_buffer.load(Ordering::Relaxed)
    }
}

/// One stream as a receive queue.
pub struct GeneratorQueue {
    node: &'static str,
    interface: u32,
    emitter: Emitter,
    control: Arc<Control>,
    pace: Option<Pace>,
    running: bool,
    /// For packets that do not fit one buffer; empty when all fit.
    scratch: Vec<u8>,
    /// Bytes of a packet in `scratch` that found no buffers yet.
    waiting: usize,
}

/// Adds to a counter that only this thread writes.
fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl GeneratorQueue {
    /// The queue of a stream.
    pub fn new(stream: Compiled) -> Self {
        let pace = match stream.rate {
            Rate::Max => None,
            Rate::Pps(pps) => Some(Pace::new(pps)),
        };
        let control = Control {
            enabled: AtomicBool::new(stream.enabled),
            count: stream.count,
            left: AtomicU64::new(stream.count),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            no_buffer: AtomicU64::new(0),
        };
        let room = if stream.program.max > DATA { stream.program.room() } else { 0 };
        GeneratorQueue {
            node: stream.node,
            interface: stream.interface,
            emitter: Emitter::new(stream.program),
            control: Arc::new(control),
            pace,
            running: false,
            scratch: vec![0; room],
            waiting: 0,
        }
    }

    /// Its control, for another thread.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    fn desc(&self, buf: Buffer, len: usize) -> Desc {
        let at = HEADROOM as u16;
        let (rx, tx) = (self.interface, self.interface);
        Desc { buf, off: at, l2: at, len: len as u16, rx, tx, ..Desc::default() }
    }

    /// Packets of one length in which only short fields change.
    fn fill_simple(
        &mut self,
        buffers: &mut Buffers,
        out: &mut Vector,
        want: usize,
        len: usize,
    ) -> (usize, u64) {
        let same = self.desc(Buffer::default(), len);
        for n in 0..want {
            let Some(buf) = buffers.alloc() else { return (n, (n * len) as u64) };
            if let Some(room) = buffers.room_mut(&buf)[HEADROOM..].first_chunk_mut() {
                self.emitter.emit_simple(room);
            }
            if let Err(d) = out.push(Desc { buf, ..same }) {
                buffers.free(d);
                return (n, (n * len) as u64);
            }
        }
        (want, (want * len) as u64)
    }

    /// Packets that fit one buffer.
    #[inline]
    fn fill(&mut self, buffers: &mut Buffers, out: &mut Vector, want: usize) -> (usize, u64) {
        let mut bytes = 0;
        for n in 0..want {
            let Some(buf) = buffers.alloc() else { return (n, bytes) };
            let len = self.emitter.emit(&mut buffers.room_mut(&buf)[HEADROOM..]);
            bytes += len as u64;
            if let Err(d) = out.push(self.desc(buf, len)) {
                buffers.free(d);
                return (n, bytes);
            }
        }
        (want, bytes)
    }

    /// Packets of which some need several buffers.
    fn fill_chained(&mut self, buffers: &mut Buffers, out: &mut Vector, want: usize) -> (usize, u64) {
        let mut bytes = 0;
        for n in 0..want {
            if self.waiting == 0 {
                self.waiting = self.emitter.emit(&mut self.scratch);
            }
            let packet = self.scratch.get(..self.waiting).unwrap_or_default();
            let Some(made) = buffers.alloc_bytes(packet) else { return (n, bytes) };
            let d = Desc { flags: made.flags, ..self.desc(made.buf, usize::from(made.len)) };
            if let Err(d) = out.push(d) {
                buffers.free(d);
                return (n, bytes);
            }
            bytes += self.waiting as u64;
            self.waiting = 0;
        }
        (want, bytes)
    }
}

impl RxQueue for GeneratorQueue {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        INPUT_NODE
    }

    fn target(&self) -> &'static str {
        self.node
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        if !self.control.is_running() {
            self.running = false;
            return 0;
        }
        let mut want = out.room();
        if self.control.count != 0 {
            want = want.min(usize::try_from(self.control.remaining()).unwrap_or(want));
        }
        if let Some(pace) = &mut self.pace {
            if !self.running {
                pace.start(now_ns);
            }
            want = pace.allowed(now_ns, want);
        }
        self.running = true;
        if want == 0 {
            return 0;
        }
        let (n, bytes) = match self.emitter.simple() {
            Some(len) => self.fill_simple(buffers, out, want, len),
            None if self.scratch.is_empty() => self.fill(buffers, out, want),
            None => self.fill_chained(buffers, out, want),
        };
        if let Some(pace) = &mut self.pace {
            pace.sent(n);
        }
        if self.control.count != 0 {
            self.control.left.fetch_sub(n as u64, Ordering::AcqRel);
        }
        bump(&self.control.packets, n as u64);
        bump(&self.control.bytes, bytes);
        if n < want {
            bump(&self.control.no_buffer, 1);
        }
        n
    }

    fn ready(&self) -> Ready {
        match &self.pace {
            _ if !self.control.is_running() => Ready::Never,
            Some(pace) if self.running => Ready::At(pace.due_ns()),
            _ => Ready::Now,
        }
    }
}
