//! Checks a stream and turns it into what the emitter runs: template bytes, edits, lengths and checksums.

use super::def::{Layer, Mode, Payload, Rate, Size, StreamDef};
use super::emit::{CHECKS, CheckFix, Edit, LengthFix, Program, Sizes, WideEdit, span};
use super::template::{self, Template};

/// Longest packet.
pub const MAX_SIZE: u16 = u16::MAX;
/// Largest sum of weights of a mix.
const MAX_WEIGHT: u32 = 65536;
/// Fastest and slowest rate.
const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

/// Why a stream cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum CompileError {
    #[error("the stream has no name")]
    NoName,
    #[error("there is no node {0}")]
    Node(String),
    #[error("{0} layers: there must be between 1 and {max}", max = template::MAX_LAYERS)]
    Layers(usize),
    #[error("{}", order(.layer, .before))]
    Order { layer: &'static str, before: Option<&'static str> },
    #[error("{layer} {field}: the range ends before it starts")]
    Range { layer: &'static str, field: &'static str },
    #[error("{layer} {field}: {value} is more than {max}")]
    TooBig { layer: &'static str, field: &'static str, value: u128, max: u128 },
    #[error("packets of {size} bytes cannot hold layers of {layers}")]
    TooSmall { size: usize, layers: usize },
    #[error("the layers take {0} bytes, more than {MAX_SIZE}")]
    TooLong(usize),
    #[error("the sizes end before they start")]
    SizeOrder,
    #[error("a mix needs sizes, each of a weight from 1, of together at most {MAX_WEIGHT}")]
    Mix,
    #[error("{0} packets a second: the rate must be between {lo} and {hi}, or max", lo = RATES.start(), hi = RATES.end())]
    Rate(f64),
    #[error("more than {CHECKS} checksums")]
    Checks,
}

fn order(layer: &str, before: &Option<&str>) -> String {
    match before {
        Some(before) => format!("{layer} cannot stand behind {before}"),
        None => format!("{layer} cannot be the first layer"),
    }
}

/// A checked stream, ready to run.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Name.
    pub name: String,
    /// Graph node into which its packets are put.
    pub node: &'static str,
    /// Number of the interface on which they count as received.
    pub interface: u32,
    /// Packets a second.
    pub rate: Rate,
    /// Packets to send after each start; 0 for no end.
    pub count: u64,
    /// Send from the start on.
    pub enabled: bool,
    pub(crate) program: Program,
}

impl Compiled {
    /// Bytes of the longest packet.
    pub fn max_len(&self) -> usize {
        self.program.max
    }
}

impl StreamDef {
    /// Checks the stream and builds its template. `interface` is the number of its interface, `nodes` the names of
    /// all nodes of the graph.
    pub fn compile(&self, interface: u32, nodes: &[&'static str]) -> Result<Compiled, CompileError> {
        let node = nodes.iter().copied().find(|n| *n == self.node);
        let node = node.ok_or_else(|| CompileError::Node(self.node.clone()))?;
        let (template, sizes) = self.checked()?;
        let (min, max) = sizes.bounds();
        let program = assemble(template, sizes, min, max, self.seed);
        let (name, rate, count, enabled) = (self.name.clone(), self.rate, self.count, self.enabled);
        Ok(Compiled { name, node, interface, rate, count, enabled, program })
    }

    /// Checks all of the stream but what depends on the graph: its node and its interface.
    pub fn check(&self) -> Result<(), CompileError> {
        self.checked().map(drop)
    }

    fn checked(&self) -> Result<(Template, Sizes), CompileError> {
        if self.name.is_empty() {
            return Err(CompileError::NoName);
        }
        if let Rate::Pps(pps) = self.rate
            && !RATES.contains(&pps)
        {
            return Err(CompileError::Rate(pps));
        }
        let t = template::build(&self.layers)?;
        let layers = t.bytes.len();
        if layers > usize::from(MAX_SIZE) {
            return Err(CompileError::TooLong(layers));
        }
        let sizes = match &self.size {
            Some(size) => sizes(size)?,
            None => {
                // A packet that is all raw bytes is as long as they are.
                let least = if self.layers.iter().all(|l| matches!(l, Layer::Raw(_))) { 0 } else { 64 };
                Sizes::Fixed(layers.max(least))
            }
        };
        let (min, _) = sizes.bounds();
        if min < layers || min == 0 {
            return Err(CompileError::TooSmall { size: min, layers });
        }
        if t.checks.len() > CHECKS {
            return Err(CompileError::Checks);
        }
        Ok((t, sizes))
    }
}

fn sizes(size: &Size) -> Result<Sizes, CompileError> {
    Ok(match size {
        Size::Fixed(n) => Sizes::Fixed(usize::from(*n)),
        Size::Range { low, high, .. } if low > high => return Err(CompileError::SizeOrder),
        Size::Range { low, high, .. } if low == high => Sizes::Fixed(usize::from(*low)),
        Size::Range { low, high, mode: Mode::Increment } => {
            Sizes::Increment { next: *low, low: *low, high: *high }
        }
        Size::Range { low, high, mode: Mode::Random } => {
            Sizes::Random { low: u64::from(*low), span: u64::from(high - low) + 1 }
        }
        Size::Mix(mix) => {
            let total: u32 = mix.iter().map(|m| u32::from(m.1)).sum();
            if total == 0 || total > MAX_WEIGHT || mix.iter().any(|m| m.1 == 0) {
                return Err(CompileError::Mix);
            }
            Sizes::Cycle { sizes: spread(mix, total), at: 0 }
        }
    })
}

/// One run of the mix: the size that is furthest behind its share comes next.
fn spread(mix: &[(u16, u16)], total: u32) -> Box<[u16]> {
    let mut credit = vec![0i64; mix.len()];
    let mut run = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let mut best = 0;
        for (i, (_, weight)) in mix.iter().enumerate() {
            credit[i] += i64::from(*weight);
            if credit[i] > credit[best] {
                best = i;
            }
        }
        credit[best] -= i64::from(total);
        run.push(mix[best].0);
    }
    run.into()
}

/// Sum of the 16-bit words of `bytes` in memory order, the first byte at an even or odd place; folded.
fn words(bytes: &[u8], odd: bool) -> u64 {
    let mut sum = 0u64;
    for (i, b) in bytes.iter().enumerate() {
        let pair = if (i % 2 == 1) != odd { [0, *b] } else { [*b, 0] };
        sum += u64::from(u16::from_ne_bytes(pair));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Orders the edits, and lets each window keep what the template and the fields before it in the same window say.
fn join(edits: &mut [Edit], bytes: &[u8]) {
    edits.sort_by_key(|e| e.at);
    let mut before = None;
    for e in edits {
        let at = usize::from(e.at);
        let mut window = [0u8; 8];
        for (to, from) in window.iter_mut().zip(bytes.get(at..).unwrap_or_default()) {
            *to = *from;
        }
        e.keep = u64::from_ne_bytes(window);
        e.joined = if before == Some(at) { u64::MAX } else { 0 };
        before = Some(at);
    }
}

fn assemble(t: Template, sizes: Sizes, min: usize, max: usize, seed: u64) -> Program {
    let fixed = min == max;
    let fill_at = t.bytes.len();
    let fill = t.fill.unwrap_or(Payload::Increment);
    let random_fill = fill == Payload::Random && max > fill_at;
    let mut bytes = t.bytes;
    bytes.extend((0..max - fill_at).map(|i| if fill == Payload::Increment { i as u8 } else { 0 }));

    let mut base = [0u64; CHECKS];
    let mut lengths = Vec::new();
    for l in &t.lengths {
        if fixed {
            let value = ((max - l.from) as u16).to_be_bytes();
            if let Some(at) = l.at {
                bytes[at..at + 2].copy_from_slice(&value);
            }
            // What stands in a covered header is counted with the header's bytes below.
            if let Some((i, times)) = l.counted {
                let beyond = times - u64::from(l.at.is_some());
                base[i] += beyond * u64::from(u16::from_ne_bytes(value));
            }
        } else {
            let mut times = [0; CHECKS];
            if let Some((i, n)) = l.counted {
                times[i] = n;
            }
            lengths.push(LengthFix { at: l.at.map(|at| at as u16), from: l.from as u16, times });
        }
    }

    let (mut edits, mut wide) = (Vec::new(), Vec::new());
    for c in &t.changes {
        let mut masks = [0u64; CHECKS];
        for (mask, check) in masks.iter_mut().zip(&t.checks) {
            let covered = [&check.covers, &check.addresses].iter().any(|r| r.contains(&(c.bit / 8)));
            *mask = if covered { u64::MAX } else { 0 };
        }
        let random = c.mode == Mode::Random;
        let (start, end) = (c.bit / 8, (c.bit + c.bits).div_ceil(8));
        if c.bits == 128 && c.low >> 64 != c.high >> 64 {
            wide.push(WideEdit { at: start as u16, random, low: c.low, high: c.high, next: c.low, masks });
            continue;
        }
        // The window: eight bytes from the even place at or before the field, so that it can be added to a sum as it
        // is, and so that windows stored in ascending order overwrite no field.
        let at = if c.bits == 128 { start + 8 } else { start & !1 };
        debug_assert!(end <= at + 8);
        let shift = ((at + 8) * 8 - (c.bit + c.bits)) as u8;
        if c.bits == 128 {
            bytes[start..at].copy_from_slice(&((c.low >> 64) as u64).to_be_bytes());
        }
        let (low, high) = (c.low as u64, c.high as u64);
        let span = span(low, high);
        let next = low;
        edits.push(Edit { at: at as u16, shift, random, low, high, span, next, masks, keep: 0, joined: 0 });
    }
    join(&mut edits, &bytes);

    let mut checks = Vec::new();
    let mut tail_check = None;
    for (i, check) in t.checks.iter().enumerate() {
        base[i] += check.extra;
        base[i] += words(&bytes[check.covers.clone()], false);
        base[i] += words(&bytes[check.addresses.clone()], false);
        if check.to_end {
            // From behind the transport header on: always all but the fill, and the fill too where it never changes.
            let from = check.covers.end;
            let to = if fixed && !random_fill { max } else { fill_at };
            base[i] += words(&bytes[from..to], false);
            tail_check = Some(i);
        }
        checks.push(CheckFix { at: check.at as u16, nonzero: check.nonzero, bad: check.bad });
    }

    // Sums of the fill by its length, where the length changes.
    let odd = fill_at % 2 == 1;
    let mut prefix = Vec::new();
    if !fixed && !random_fill && tail_check.is_some() {
        let mut sum = 0u64;
        prefix.push(0u16);
        for at in fill_at..max {
            sum += words(&bytes[at..at + 1], at % 2 == 1);
            sum = (sum & 0xffff) + (sum >> 16);
            prefix.push(sum as u16);
        }
    }

    let mut blocks = vec![[0u8; 64]; max.div_ceil(64)];
    for (block, part) in blocks.iter_mut().zip(bytes.chunks(64)) {
        block[..part.len()].copy_from_slice(part);
    }
    let mut program = Program {
        blocks: blocks.into(),
        max,
        sizes,
        edits: edits.into(),
        wide: wide.into(),
        lengths: lengths.into(),
        checks: checks.into(),
        base,
        prefix: prefix.into(),
        fill_at,
        fill_odd: odd,
        random_fill,
        tail_check: tail_check.unwrap_or(CHECKS),
        seed,
    };
    program.settle();
    program
}
