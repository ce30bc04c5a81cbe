//! A capture file as a transmit queue.

use super::write::{FILE_HEADER, SNAP, file_header, record_header, wall_offset_ns};
use graph::buffer::Buffers;
use graph::clock::Clock;
use graph::desc::Packets;
use graph::io::{TxCaps, TxQueue, TxReport};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes collected before they are written.
const BUFFER: usize = 1 << 20;

/// Where the bytes of the file go; a file, or a test's.
pub trait Sink: Write + Send {
    /// Takes back what stands behind `len`.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Sink for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(drop)
    }
}

/// Writes the packets it is given. They count as sent once the file has them.
pub struct PcapTx<S: Sink = File> {
    file: S,
    clock: Clock,
    offset_ns: u64,
    /// Whole records that the file does not have yet.
    buf: Vec<u8>,
    queued: TxReport,
    /// Bytes of the file that are whole records.
    good: u64,
    /// The file ends in part of a record that could not be taken back.
    torn: bool,
}

impl PcapTx<File> {
    /// Writes to a file that was opened for it, from whose beginning on; what was in it goes.
    pub fn of(file: File) -> io::Result<Self> {
        file.set_len(0)?;
        PcapTx::new(file)
    }
}

impl<S: Sink> PcapTx<S> {
    /// Writes the head of a new file.
    pub fn new(mut file: S) -> io::Result<Self> {
        file.write_all(&file_header(SNAP as u32))?;
        let clock = Clock::new();
        Ok(PcapTx {
            file,
            offset_ns: wall_offset_ns(&clock),
            clock,
            buf: Vec::with_capacity(BUFFER + SNAP),
            queued: TxReport::default(),
            good: FILE_HEADER as u64,
            torn: false,
        })
    }

    fn write_out(&mut self) -> TxReport {
        let queued = std::mem::take(&mut self.queued);
        if self.buf.is_empty() {
            return queued;
        }
        if self.torn && self.file.cut(self.good).is_ok() {
            self.torn = false;
        }
        let written =
            if self.torn { Err(io::ErrorKind::Other.into()) } else { self.file.write_all(&self.buf) };
        let len = self.buf.len() as u64;
        self.buf.clear();
        match written {
            Ok(()) => {
                self.good += len;
                queued
            }
            Err(_) => {
                // A reader shall find whole records only.
                self.torn = self.file.cut(self.good).is_err();
                TxReport { errors: queued.errors + queued.packets, packets: 0, bytes: 0, ..queued }
            }
        }
    }
}

impl<S: Sink> TxQueue for PcapTx<S> {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let now = self.clock.now_ns().wrapping_add(self.offset_ns);
        let mut report = TxReport::default();
        for d in packets {
            let wire = buffers.total_len(&d);
            let kept = wire.min(SNAP);
            if self.buf.len() + kept > BUFFER {
                report.add(self.write_out());
            }
            let start = self.buf.len();
            self.buf.extend_from_slice(&record_header(now, kept as u32, wire as u32));
            let end = self.buf.len() + kept;
            for part in buffers.parts(&d) {
                let room = end - self.buf.len();
                self.buf.extend_from_slice(part.get(..room).unwrap_or(part));
            }
            if self.buf.len() == end {
                self.queued.packets += 1;
                self.queued.bytes += wire as u64;
            } else {
                // A chain shorter than it says.
                self.buf.truncate(start);
                self.queued.errors += 1;
            }
            buffers.free(d);
        }
        report
    }

    fn flush(&mut self, _: &mut Buffers) -> TxReport {
        self.write_out()
    }
}

impl<S: Sink> Drop for PcapTx<S> {
    fn drop(&mut self) {
        // A queue that goes between `send` and `flush` has nobody left to report to.
        self.write_out();
    }
}

#[cfg(test)]
mod tests;
