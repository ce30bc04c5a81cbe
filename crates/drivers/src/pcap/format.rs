//! Reads records from the bytes of a pcap or pcapng file, front to back.

use std::io::{ErrorKind, Read};

/// Longest record that is read; a longer length means that the file is not what it seems.
pub const MAX_RECORD: usize = 262_144;
/// Longest frame that is put into the graph: 64 KiB of IP with Ethernet and tags.
pub const MAX_FRAME: usize = 65_535 + 32;
/// Link type of Ethernet.
const ETHERNET: u32 = 1;
/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;
/// Most interfaces of a pcapng section.
const MAX_INTERFACES: usize = 4096;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PcapError {
    #[error("cannot read {path}: {err}")]
    Open { path: String, err: std::io::Error },
    #[error("neither a pcap nor a pcapng file")]
    NotPcap,
    #[error("reading: {0}")]
    Read(std::io::Error),
    #[error("the file holds frames of link type {0}, only Ethernet (1) can be read")]
    LinkType(u32),
    #[error("byte {at}: a record of {len} bytes, more than {max}: the file is damaged", max = MAX_RECORD)]
    RecordLength { at: u64, len: u32 },
    #[error("byte {at}: {what}: the file is damaged")]
    Damaged { at: u64, what: &'static str },
    #[error("{0} packets a second: the rate must be between 0.001 and 1000000000")]
    Rate(f64),
}

/// One frame of a [`Block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it starts in the block's bytes.
    pub at: u32,
    /// Bytes the file holds of it.
    pub len: u32,
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: u64,
}

/// Some frames of a file.
#[derive(Debug, Default)]
pub struct Block {
    /// Bytes of all frames.
    pub bytes: Vec<u8>,
    /// Where each is.
    pub records: Vec<Record>,
    /// The file starts again with this block.
    pub restart: bool,
}

impl Block {
    /// Forgets its frames, not its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.restart = false;
    }

    /// The bytes of a frame.
    pub fn frame(&self, r: &Record) -> &[u8] {
        self.bytes.get(r.at as usize..).and_then(|b| b.get(..r.len as usize)).unwrap_or_default()
    }
}

/// What was seen while reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames given out.
    pub frames: u64,
    /// Of these, frames of which the file holds only the front.
    pub truncated: u64,
    /// Records without bytes, or with more than a frame can have.
    pub skipped: u64,
    /// The file ends inside a record.
    pub cut: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Classic { big: bool, nanos: bool },
    Ng { big: bool },
}

/// Ticks of a pcapng interface: 10^-n or 2^-n seconds.
#[derive(Clone, Copy)]
struct Interface {
    binary: bool,
    exponent: u32,
    offset_s: i64,
    snap: u32,
}

/// A file being read.
pub struct Reader<R> {
    input: R,
    buf: Vec<u8>,
    /// First byte of `buf` not yet parsed.
    pos: usize,
    /// File offset of `buf[0]`.
    base: u64,
    eof: bool,
    kind: Kind,
    interfaces: Vec<Interface>,
    last_ns: u64,
    /// Counts.
    pub seen: Seen,
}

fn u16_at(b: &[u8], at: usize, big: bool) -> u16 {
    let raw = b.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if big { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

fn u32_at(b: &[u8], at: usize, big: bool) -> u32 {
    let raw = b.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
}

impl<R: Read> Reader<R> {
    /// Reads the file's head.
    pub fn new(input: R) -> Result<Self, PcapError> {
        let mut r = Reader {
            input,
            buf: Vec::new(),
            pos: 0,
            base: 0,
            eof: false,
            kind: Kind::Ng { big: false },
            interfaces: Vec::new(),
            last_ns: 0,
            seen: Seen::default(),
        };
        if !r.fill(4)? {
            return Err(PcapError::NotPcap);
        }
        let magic = u32_at(r.rest(), 0, false);
        let classic = match magic {
            0xa1b2_c3d4 => Some((false, false)),
            0xa1b2_3c4d => Some((false, true)),
            0xd4c3_b2a1 => Some((true, false)),
            0x4d3c_b2a1 => Some((true, true)),
            0x0a0d_0d0a => None,
            _ => return Err(PcapError::NotPcap),
        };
        let Some((big, nanos)) = classic else { return Ok(r) };
        if !r.fill(24)? {
            return Err(PcapError::NotPcap);
        }
        // The upper bits tell of an FCS, which is not there in practice.
        let link = u32_at(r.rest(), 20, big) & 0x0fff_ffff;
        if link != ETHERNET {
            return Err(PcapError::LinkType(link));
        }
        r.kind = Kind::Classic { big, nanos };
        r.pos += 24;
        Ok(r)
    }

    /// The file underneath, to be rewound.
    pub fn into_inner(self) -> R {
        self.input
    }

    fn rest(&self) -> &[u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    fn at(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// Makes `n` bytes available in `rest`; false when the file ends before.
    fn fill(&mut self, n: usize) -> Result<bool, PcapError> {
        while self.rest().len() < n && !self.eof {
            self.base += self.pos as u64;
            self.buf.drain(..self.pos);
            self.pos = 0;
            let have = self.buf.len();
            self.buf.resize(have + CHUNK.max(n - have), 0);
            let got = loop {
                match self.input.read(self.buf.get_mut(have..).unwrap_or_default()) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let got = got.inspect_err(|_| self.buf.truncate(have)).map_err(PcapError::Read)?;
            self.buf.truncate(have + got);
            self.eof = got == 0;
        }
        Ok(self.rest().len() >= n)
    }

    /// Steps over `n` bytes, which need not be kept at once.
    fn skip(&mut self, mut n: usize) -> Result<(), PcapError> {
        while n > 0 {
            if !self.fill(1)? {
                self.seen.cut = true;
                return Ok(());
            }
            let step = n.min(self.rest().len());
            self.pos += step;
            n -= step;
        }
        Ok(())
    }

    /// Appends frames to `block` until it holds `bytes` bytes or `records` frames; false at the end of the file.
    pub fn read(&mut self, block: &mut Block, bytes: usize, records: usize) -> Result<bool, PcapError> {
        while block.bytes.len() < bytes && block.records.len() < records {
            let more = match self.kind {
                Kind::Classic { big, nanos } => self.classic(block, big, nanos)?,
                Kind::Ng { big } => self.ng(block, big)?,
            };
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the frame of `len` bytes at `rest()[at..]`, of which the wire saw `wire`.
    fn keep(&mut self, block: &mut Block, at: usize, len: usize, wire: u32, time_ns: u64) {
        // Of `self.buf` alone, so that the counts can change meanwhile.
        let Some(frame) = self.buf.get(self.pos + at..self.pos + at + len) else { return };
        self.last_ns = time_ns;
        if frame.is_empty() || len > MAX_FRAME {
            self.seen.skipped += 1;
            return;
        }
        let record = Record { at: block.bytes.len() as u32, len: len as u32, time_ns };
        block.bytes.extend_from_slice(frame);
        block.records.push(record);
        self.seen.frames += 1;
        if wire as usize > len {
            self.seen.truncated += 1;
        }
    }

    fn end(&mut self) -> bool {
        self.seen.cut |= !self.rest().is_empty();
        self.pos = self.buf.len();
        false
    }

    fn classic(&mut self, block: &mut Block, big: bool, nanos: bool) -> Result<bool, PcapError> {
        if !self.fill(16)? {
            return Ok(self.end());
        }
        let h = self.rest();
        let (seconds, fraction) = (u32_at(h, 0, big), u32_at(h, 4, big));
        let (len, wire) = (u32_at(h, 8, big), u32_at(h, 12, big));
        if len as usize > MAX_RECORD {
            return Err(PcapError::RecordLength { at: self.at(), len });
        }
        let len = len as usize;
        if !self.fill(16 + len)? {
            return Ok(self.end());
        }
        let fraction_ns = u64::from(fraction) * if nanos { 1 } else { 1000 };
        self.keep(block, 16, len, wire, u64::from(seconds) * 1_000_000_000 + fraction_ns);
        self.pos += 16 + len;
        Ok(true)
    }

    /// One block of a pcapng file.
    fn ng(&mut self, block: &mut Block, mut big: bool) -> Result<bool, PcapError> {
        if !self.fill(12)? {
            return Ok(self.end());
        }
        let damaged = |at, what| Err(PcapError::Damaged { at, what });
        // A section's head reads alike in both byte orders, and says which one follows.
        if u32_at(self.rest(), 0, false) == 0x0a0d_0d0a {
            big = match u32_at(self.rest(), 8, false) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                _ => return damaged(self.at(), "no byte-order mark"),
            };
            self.kind = Kind::Ng { big };
            self.interfaces.clear();
        }
        let (kind, total) = (u32_at(self.rest(), 0, big), u32_at(self.rest(), 4, big));
        let len = total as usize;
        if len < 12 || !len.is_multiple_of(4) {
            return damaged(self.at(), "a block length that cannot be");
        }
        if !matches!(kind, 1 | 2 | 3 | 6) {
            self.skip(len)?;
            return Ok(true);
        }
        // Room for options beside the frame.
        if len > 2 * MAX_RECORD {
            return Err(PcapError::RecordLength { at: self.at(), len: total });
        }
        if !self.fill(len)? {
            return Ok(self.end());
        }
        // Without the leading type and length and the trailing length.
        let body = self.rest().get(8..len - 4).unwrap_or_default();
        match kind {
            1 => {
                let interface = interface(body, big, self.at())?;
                if self.interfaces.len() >= MAX_INTERFACES {
                    return damaged(self.at(), "too many interfaces");
                }
                self.interfaces.push(interface);
            }
            3 => {
                let wire = u32_at(body, 0, big);
                let Some(i) = self.interfaces.first() else {
                    return damaged(self.at(), "a packet before its interface");
                };
                let snap = if i.snap == 0 { wire } else { wire.min(i.snap) };
                let frame = (snap as usize).min(body.len().saturating_sub(4));
                self.keep(block, 12, frame, wire, self.last_ns);
            }
            _ => {
                if body.len() < 20 {
                    return damaged(self.at(), "a packet block without a head");
                }
                // The obsolete block numbers its interface with 16 bits; all else stands alike.
                let id = if kind == 6 { u32_at(body, 0, big) } else { u32::from(u16_at(body, 0, big)) };
                let Some(i) = self.interfaces.get(id as usize) else {
                    return damaged(self.at(), "a packet of an interface that is not described");
                };
                let ticks = u64::from(u32_at(body, 4, big)) << 32 | u64::from(u32_at(body, 8, big));
                let (frame, wire) = (u32_at(body, 12, big) as usize, u32_at(body, 16, big));
                if frame > body.len() - 20 {
                    return damaged(self.at(), "a packet longer than its block");
                }
                let time_ns = i.nanoseconds(ticks);
                self.keep(block, 28, frame, wire, time_ns);
            }
        }
        self.pos += len;
        Ok(true)
    }
}

/// An interface description; its block stands at `at`.
fn interface(body: &[u8], big: bool, at: u64) -> Result<Interface, PcapError> {
    if body.len() < 8 {
        return Err(PcapError::Damaged { at, what: "an interface block without a head" });
    }
    let link = u32::from(u16_at(body, 0, big));
    if link != ETHERNET {
        return Err(PcapError::LinkType(link));
    }
    let mut i = Interface { binary: false, exponent: 6, offset_s: 0, snap: u32_at(body, 4, big) };
    let mut options = body.get(8..).unwrap_or_default();
    while options.len() >= 4 {
        let (code, len) = (u16_at(options, 0, big), usize::from(u16_at(options, 2, big)));
        let value = options.get(4..4 + len).unwrap_or_default();
        match (code, value) {
            (0, _) => break,
            (9, [resolution, ..]) => {
                i.binary = resolution & 0x80 != 0;
                i.exponent = u32::from(resolution & 0x7f);
            }
            (14, value) if value.len() == 8 => {
                let (first, second) = (u32_at(value, 0, big), u32_at(value, 4, big));
                let (high, low) = if big { (first, second) } else { (second, first) };
                i.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
            }
            _ => {}
        }
        options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(i)
}

impl Interface {
    fn nanoseconds(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000;
        let ns = match self.binary {
            true => ns >> self.exponent,
            false => 10u128.checked_pow(self.exponent).map_or(0, |unit| ns / unit),
        };
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(offset);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
