//! Makes the packets of a compiled stream, one after the other.
//!
//! A changing field is zero in the template. Its value is stored over the copied template with the eight bytes around
//! it, in ascending order and without reading the packet back: a load that spans two fresh stores would stall. A
//! checksum is the sum of what never changes, computed once, plus what each changing field adds. Sums are kept in
//! memory order, as in [`packet::checksum`].

use graph::buffer::DATA;

/// Most checksums of a packet.
pub const CHECKS: usize = 4;

/// A field of up to 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    /// Start of its window: eight bytes from an even place.
    pub at: u16,
    /// Bits of the window behind the field.
    pub shift: u8,
    pub random: bool,
    pub low: u64,
    pub high: u64,
    /// Number of values; 0 for 2^64.
    pub span: u64,
    pub next: u64,
    /// What the template holds in the window, in memory order.
    pub keep: u64,
    /// All ones when the edit before it has the same window.
    pub joined: u64,
    /// All ones for each checksum in which it counts.
    pub masks: [u64; CHECKS],
}

/// An IPv6 address that changes in both halves.
#[derive(Clone, Debug)]
pub(crate) struct WideEdit {
    pub at: u16,
    pub random: bool,
    pub low: u128,
    pub high: u128,
    pub next: u128,
    pub masks: [u64; CHECKS],
}

/// A length that changes with the size.
#[derive(Clone, Debug)]
pub(crate) struct LengthFix {
    pub at: Option<u16>,
    pub from: u16,
    /// How often it counts in each checksum.
    pub times: [u64; CHECKS],
}

/// A checksum.
#[derive(Clone, Debug)]
pub(crate) struct CheckFix {
    pub at: u16,
    pub nonzero: bool,
    pub bad: bool,
}

/// The size of the next packet.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    Fixed(usize),
    Increment { next: u16, low: u16, high: u16 },
    Random { low: u64, span: u64 },
    Cycle { sizes: Box<[u16]>, at: usize },
}

impl Sizes {
    /// Smallest and largest.
    pub fn bounds(&self) -> (usize, usize) {
        match self {
            Sizes::Fixed(n) => (*n, *n),
            Sizes::Increment { low, high, .. } => (usize::from(*low), usize::from(*high)),
            Sizes::Random { low, span } => (*low as usize, (low + span - 1) as usize),
            Sizes::Cycle { sizes, .. } => {
                let bound = |n: Option<&u16>| n.map_or(0, |n| usize::from(*n));
                (bound(sizes.iter().min()), bound(sizes.iter().max()))
            }
        }
    }

    #[inline]
    fn next(&mut self, rng: &mut Rng) -> usize {
        match self {
            Sizes::Fixed(n) => *n,
            Sizes::Increment { next, low, high } => {
                let n = *next;
                *next = if n >= *high { *low } else { n + 1 };
                usize::from(n)
            }
            Sizes::Random { low, span } => (*low + rng.below(*span)) as usize,
            Sizes::Cycle { sizes, at } => {
                let n = sizes.get(*at).copied().unwrap_or_default();
                *at = if *at + 1 >= sizes.len() { 0 } else { *at + 1 };
                usize::from(n)
            }
        }
    }
}

/// xorshift64* (Vigna 2016): cheap, and the same numbers for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds give unlike streams, and none gives the fixed point 0.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut rng = Rng(if mixed == 0 { 1 } else { mixed });
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `span`, or any when it is 0.
    #[inline]
    pub fn below(&mut self, span: u64) -> u64 {
        let n = self.next();
        if span == 0 { n } else { ((u128::from(n) * u128::from(span)) >> 64) as u64 }
    }
}

/// Number of values from `low` to `high`; 0 for 2^64.
pub(crate) fn span(low: u64, high: u64) -> u64 {
    (high - low).wrapping_add(1)
}

impl Edit {
    #[inline]
    fn next(&mut self, rng: &mut Rng) -> u64 {
        if self.random {
            return self.low.wrapping_add(rng.below(self.span));
        }
        let n = self.next;
        self.next = if n == self.high { self.low } else { n.wrapping_add(1) };
        n
    }
}

impl WideEdit {
    fn next(&mut self, rng: &mut Rng) -> u128 {
        if self.random {
            let n = u128::from(rng.next()) << 64 | u128::from(rng.next());
            let span = (self.high - self.low).wrapping_add(1);
            return self.low.wrapping_add(if span == 0 { n } else { n % span });
        }
        let n = self.next;
        self.next = if n == self.high { self.low } else { n.wrapping_add(1) };
        n
    }
}

/// A compiled stream.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The template with its fill for the longest packet.
    pub blocks: Box<[[u8; 64]]>,
    pub max: usize,
    pub sizes: Sizes,
    pub edits: Box<[Edit]>,
    pub wide: Box<[WideEdit]>,
    pub lengths: Box<[LengthFix]>,
    pub checks: Box<[CheckFix]>,
    /// Of each checksum the sum of what never changes.
    pub base: [u64; CHECKS],
    /// Sum of the first n bytes of fill; empty when the fill or the size never changes.
    pub prefix: Box<[u16]>,
    pub fill_at: usize,
    /// The fill starts at an odd place.
    pub fill_odd: bool,
    pub random_fill: bool,
    /// The checksum that covers the fill, or [`CHECKS`].
    pub tail_check: usize,
    pub seed: u64,
}

impl Program {
    /// Bytes that [`Emitter::emit`] may write.
    pub fn room(&self) -> usize {
        (self.blocks.len() * 64).max(DATA)
    }

    /// Writes checksums that never change into the template.
    pub fn settle(&mut self) {
        let edited = !self.edits.is_empty() || !self.wide.is_empty();
        if edited || self.random_fill || !matches!(self.sizes, Sizes::Fixed(_)) {
            return;
        }
        for (c, base) in self.checks.iter().zip(self.base) {
            let at = usize::from(c.at);
            for (i, b) in finish(c, base).to_ne_bytes().into_iter().enumerate() {
                self.blocks[(at + i) / 64][(at + i) % 64] = b;
            }
        }
        self.checks = Box::default();
        self.tail_check = CHECKS;
    }
}

/// The checksum field of a sum, in memory order.
#[inline]
fn finish(c: &CheckFix, sum: u64) -> u16 {
    let mut check = !fold(sum);
    if c.nonzero && check == 0 {
        check = 0xffff;
    }
    if c.bad {
        // Neither the right value nor, in UDP, "none".
        check = if check == 0x0101 { 0x0202 } else { check ^ 0x0101 };
    }
    check
}

/// Ones-complement fold to 16 bits: adding a number to itself with its halves swapped leaves the sum of the halves,
/// end-around carry included, in the upper half.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[inline]
fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// Headers end before this (16 layers of at most 40 bytes), so that a window starts below it.
const HEAD: usize = DATA / 2 - 1;

/// Runs a program.
#[derive(Clone, Debug)]
pub(crate) struct Emitter {
    pub program: Program,
    rng: Rng,
}

impl Emitter {
    pub fn new(program: Program) -> Self {
        let rng = Rng::new(program.seed);
        Emitter { program, rng }
    }

    /// The length of all packets, when [`Emitter::emit_simple`] can make them.
    pub fn simple(&self) -> Option<usize> {
        let p = &self.program;
        match p.sizes {
            Sizes::Fixed(len) if !p.random_fill && p.wide.is_empty() && len <= DATA => Some(len),
            _ => None,
        }
    }

    /// [`Emitter::emit`] where only fields of up to 64 bits change.
    #[inline(always)]
    pub fn emit_simple(&mut self, out: &mut [u8; DATA]) {
        let Emitter { program: p, rng } = self;
        let room = out.as_chunks_mut::<64>().0;
        match (&mut *room, &*p.blocks) {
            // The commonest case without a loop.
            ([to, ..], [from]) => *to = *from,
            (room, blocks) => room.iter_mut().zip(blocks).for_each(|(to, from)| *to = *from),
        }
        if p.checks.is_empty() && p.edits.is_empty() {
            return;
        }
        let mut sums = p.base;
        edit(out, &mut p.edits, rng, &mut sums);
        for (c, sum) in p.checks.iter().zip(sums) {
            put2(out, c.at, finish(c, sum));
        }
    }

    /// Makes the next packet at the start of `out`, which has [`Program::room`] bytes; returns its length. Bytes
    /// behind it may be written too.
    #[inline]
    pub fn emit(&mut self, out: &mut [u8]) -> usize {
        let Emitter { program: p, rng } = self;
        let len = p.sizes.next(rng);
        for (to, from) in out.as_chunks_mut::<64>().0.iter_mut().zip(&p.blocks[..len.div_ceil(64)]) {
            *to = *from;
        }
        let mut sums = p.base;
        let Some(head) = out.first_chunk_mut::<DATA>() else { return 0 };
        edit(head, &mut p.edits, rng, &mut sums);
        for e in &mut p.wide {
            let n = e.next(rng);
            let (high, low) = (((n >> 64) as u64).to_be(), (n as u64).to_be());
            put8(head, e.at, high);
            put8(head, e.at + 8, low);
            let add = halves(high) + halves(low);
            for (sum, mask) in sums.iter_mut().zip(&e.masks) {
                *sum += add & mask;
            }
        }
        for l in &p.lengths {
            let value = ((len - usize::from(l.from)) as u16).to_be();
            if let Some(at) = l.at {
                put2(head, at, value);
            }
            for (sum, times) in sums.iter_mut().zip(&l.times) {
                *sum += u64::from(value) * times;
            }
        }
        if p.random_fill {
            let fill = out.get_mut(p.fill_at..len).unwrap_or_default();
            let sum = random_fill(fill, rng);
            if let Some(s) = sums.get_mut(p.tail_check) {
                *s += u64::from(if p.fill_odd { sum.swap_bytes() } else { sum });
            }
        } else if let Some(s) = sums.get_mut(p.tail_check) {
            *s += p.prefix.get(len - p.fill_at).map_or(0, |sum| u64::from(*sum));
        }
        let Some(head) = out.first_chunk_mut::<DATA>() else { return 0 };
        for (c, sum) in p.checks.iter().zip(sums) {
            put2(head, c.at, finish(c, sum));
        }
        len
    }
}

/// Stores the next value of each field, and adds it to the sums in which it counts.
#[inline(always)]
fn edit(head: &mut [u8; DATA], edits: &mut [Edit], rng: &mut Rng, sums: &mut [u64; CHECKS]) {
    let mut window = 0;
    for e in edits {
        let word = (e.next(rng) << e.shift).to_be();
        window = word | e.keep | (window & e.joined);
        put8(head, e.at, window);
        let add = halves(word);
        for (sum, mask) in sums.iter_mut().zip(&e.masks) {
            *sum += add & mask;
        }
    }
}

#[inline]
fn put8(head: &mut [u8; DATA], at: u16, word: u64) {
    let at = usize::from(at) & HEAD;
    head[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

#[inline]
fn put2(head: &mut [u8; DATA], at: u16, value: u16) {
    let at = usize::from(at) & HEAD;
    head[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// Fills with random bytes and returns their folded sum in memory order.
fn random_fill(out: &mut [u8], rng: &mut Rng) -> u16 {
    let mut sum = 0u64;
    let (words, tail) = out.as_chunks_mut::<8>();
    for word in words {
        let n = rng.next();
        *word = n.to_ne_bytes();
        sum += halves(n);
    }
    let mut last = [0u8; 8];
    for (i, (b, from)) in tail.iter_mut().zip(rng.next().to_ne_bytes()).enumerate() {
        *b = from;
        last[i] = from;
    }
    fold(sum + halves(u64::from_ne_bytes(last)))
}
