//! Where a queue's frames come from: a file that is in memory, or a thread that reads ahead of the worker.

use super::format::{Block, PcapError, Reader, Seen};
use crossbeam_queue::ArrayQueue;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

/// Bytes and frames that the thread reads at a time.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_RECORDS: usize = 16_384;
/// Most bytes of a file in memory: a block's places have 32 bits.
const MAX_MEMORY: u64 = 1 << 30;
/// Blocks that are under way.
const BLOCKS: usize = 4;

/// What comes next from a source.
pub enum Next {
    /// Frames.
    Block(Block),
    /// Nothing yet.
    Wait,
    /// Nothing ever.
    End,
}

/// The frames of a file, a given number of times over.
pub enum Source {
    /// All frames in memory.
    Loaded {
        /// The file, while it is not with the queue.
        block: Option<Block>,
        /// Passes still to come, or `None` for no end.
        left: Option<u64>,
        /// It was given out before.
        again: bool,
    },
    /// Read by a thread.
    Streamed(Streamed),
}

/// A source that a thread fills.
pub struct Streamed {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    full: ArrayQueue<Block>,
    empty: ArrayQueue<Block>,
    stop: AtomicBool,
    done: AtomicBool,
    /// Touched by the thread and by those who look, never by the worker.
    seen: Mutex<(Seen, Option<String>)>,
}

/// What was seen of a file so far, and what ended its reading early.
pub struct Progress(Option<Arc<Shared>>, Seen);

impl Progress {
    /// Counts, and the error.
    pub fn seen(&self) -> (Seen, Option<String>) {
        match &self.0 {
            Some(s) => s.seen.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            None => (self.1, None),
        }
    }
}

impl Source {
    /// The frames of a file, `passes` times over (0: without end). One of up to `memory` bytes is read now, so that
    /// all its errors are known; a longer one while it is sent.
    pub fn open(mut file: File, passes: u64, memory: u64) -> Result<(Source, Progress), PcapError> {
        let size = file.metadata().map_err(PcapError::Read)?.len();
        let mut reader = Reader::new(&mut file)?;
        let mut block = Block::default();
        if size <= memory.min(MAX_MEMORY) {
            reader.read(&mut block, usize::MAX, usize::MAX)?;
            let seen = reader.seen;
            let left = if block.records.is_empty() { Some(0) } else { (passes != 0).then_some(passes) };
            return Ok((Source::Loaded { block: Some(block), left, again: false }, Progress(None, seen)));
        }
        // The first block is parsed here, so that a file that is none is refused at once.
        let more = reader.read(&mut block, BLOCK_BYTES, BLOCK_RECORDS)?;
        drop((reader, more));
        file.seek(SeekFrom::Start(0)).map_err(PcapError::Read)?;
        let shared = Arc::new(Shared {
            full: ArrayQueue::new(BLOCKS),
            empty: ArrayQueue::new(BLOCKS),
            stop: AtomicBool::new(false),
            done: AtomicBool::new(false),
            seen: Mutex::new((Seen::default(), None)),
        });
        for _ in 0..BLOCKS {
            let _ = shared.empty.push(Block::default());
        }
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("pcap-reader".to_string())
            .spawn(move || read_ahead(file, passes, &theirs))
            .map_err(PcapError::Read)?;
        let thread = thread.thread().clone();
        let progress = Progress(Some(Arc::clone(&shared)), Seen::default());
        Ok((Source::Streamed(Streamed { shared, thread }), progress))
    }

    /// The next frames. A block that was used up comes back through [`Source::give_back`] first.
    pub fn take(&mut self) -> Next {
        match self {
            Source::Loaded { block, left, again } => {
                if *left == Some(0) {
                    return Next::End;
                }
                let Some(mut b) = block.take() else { return Next::End };
                b.restart = *again;
                *again = true;
                if let Some(left) = left {
                    *left -= 1;
                }
                Next::Block(b)
            }
            Source::Streamed(s) => {
                // Asked before the queue is looked at: after `done` nothing is pushed.
                let done = s.shared.done.load(Ordering::Acquire);
                match s.shared.full.pop() {
                    Some(b) => Next::Block(b),
                    None if done => Next::End,
                    None => Next::Wait,
                }
            }
        }
    }

    /// Gives a used block back.
    pub fn give_back(&mut self, b: Block) {
        match self {
            Source::Loaded { block, .. } => *block = Some(b),
            Source::Streamed(s) => {
                let _ = s.shared.empty.push(b);
                s.thread.unpark();
            }
        }
    }
}

#[cfg(test)]
impl Streamed {
    /// Tells when thread and queue are gone.
    pub fn watch(&self) -> WeakShared {
        WeakShared(Arc::downgrade(&self.shared))
    }
}

/// See [`Streamed::watch`].
#[cfg(test)]
pub struct WeakShared(std::sync::Weak<Shared>);

#[cfg(test)]
impl WeakShared {
    /// Owners that are left.
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The thread: fills blocks as they come back empty.
fn read_ahead(mut file: File, passes: u64, shared: &Shared) {
    let mut pass = 0;
    let mut total = Seen::default();
    while passes == 0 || pass < passes {
        match one_pass(file, pass, shared, &mut total) {
            // A pass without frames would spin.
            Ok(Some((back, frames))) if frames > 0 => file = back,
            Ok(_) => break,
            Err(e) => {
                shared.seen.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(e.to_string());
                break;
            }
        }
        pass += 1;
    }
    shared.done.store(true, Ordering::Release);
}

/// Reads the file once; `None` when it was told to stop.
fn one_pass(
    file: File,
    pass: u64,
    shared: &Shared,
    total: &mut Seen,
) -> Result<Option<(File, u64)>, PcapError> {
    let mut reader = Reader::new(file)?;
    let mut first = true;
    loop {
        let mut block = loop {
            if shared.stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            match shared.empty.pop() {
                Some(block) => break block,
                None => std::thread::park(),
            }
        };
        block.clear();
        block.restart = first && pass > 0;
        let before = reader.seen;
        let more = reader.read(&mut block, BLOCK_BYTES, BLOCK_RECORDS);
        total.frames += reader.seen.frames - before.frames;
        total.truncated += reader.seen.truncated - before.truncated;
        total.skipped += reader.seen.skipped - before.skipped;
        total.cut |= reader.seen.cut;
        shared.seen.lock().unwrap_or_else(PoisonError::into_inner).0 = *total;
        match block.records.is_empty() {
            true => drop(shared.empty.push(block)),
            false => {
                first = false;
                drop(shared.full.push(block));
            }
        }
        if !more? {
            let frames = reader.seen.frames;
            let mut file = reader.into_inner();
            file.seek(SeekFrom::Start(0)).map_err(PcapError::Read)?;
            return Ok(Some((file, frames)));
        }
    }
}
