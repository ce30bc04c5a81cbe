//! Labels that a path puts on: as the operator writes them, and as they stand in a next-hop group.

use packet::mpls::{Entry, Label};
use std::fmt;
use std::sync::Arc;
use tables::labels::{Labels, LabelsWriter};
use tables::slots::{Slots, SlotsWriter};

/// The most labels of one path, and of all routes on its way together.
pub const MOST_LABELS: usize = 12;
/// TTL of labels whose mode is pipe, unless the operator chose another.
pub const PIPE_TTL: u8 = 64;

/// What EXP (RFC 5462: the traffic class) a label gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Exp {
    /// That of the label in whose place it stands; where it is pushed, with mode uniform that of what is below, else 0.
    #[default]
    Usual,
    /// That of what is below: of a label its EXP, of an IP packet the upper bits of its traffic class.
    Copy,
    /// This one, 0 to 7.
    Set(u8),
}

/// The labels that a path asks for, and how TTL and EXP are carried into and out of them (RFC 3443).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutLabels {
    len: u8,
    /// The TTL is copied between what is below and the label; else both count on their own (mode pipe).
    pub uniform: bool,
    /// TTL of pushed labels with mode pipe; `None`: [`PIPE_TTL`].
    pub ttl: Option<u8>,
    /// EXP of the labels.
    pub exp: Exp,
    list: [u32; MOST_LABELS],
}

/// Stands for the label that the entry of a label table holds itself.
const HELD_BY_ENTRY: u32 = 1 << 20;

impl OutLabels {
    /// No label.
    pub const NONE: OutLabels =
        OutLabels { len: 0, uniform: false, ttl: None, exp: Exp::Usual, list: [0; MOST_LABELS] };

    /// These labels, outermost first; `None` when there are too many, or one has more than 20 bits.
    pub fn new(labels: &[u32]) -> Option<OutLabels> {
        let mut out = OutLabels::NONE;
        labels.iter().all(|l| *l < HELD_BY_ENTRY && out.push(*l)).then_some(out)
    }

    /// The same with other modes.
    #[must_use]
    pub fn with_mode(self, uniform: bool, ttl: Option<u8>, exp: Exp) -> OutLabels {
        OutLabels { uniform, ttl, exp, ..self }
    }

    fn push(&mut self, label: u32) -> bool {
        let Some(slot) = self.list.get_mut(usize::from(self.len)) else { return false };
        *slot = label;
        self.len += 1;
        true
    }

    /// The labels, outermost first.
    pub fn as_slice(&self) -> &[u32] {
        &self.list[..usize::from(self.len).min(MOST_LABELS)]
    }

    /// Whether no label was asked for, nor a mode.
    pub fn is_none(&self) -> bool {
        *self == OutLabels::NONE
    }

    /// Whether no label was asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The labels that packets will have: implicit null is none.
    fn real(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.as_slice().iter().copied().filter(|l| *l != Label::IMPLICIT_NULL.value())
    }

    /// Whether packets leave without a label of this path.
    pub fn pops(&self) -> bool {
        self.real().next().is_none()
    }

    /// The least MTU of a path with them: that of the family, and room for the labels.
    pub fn least_mtu(&self, v6: bool) -> u16 {
        let least = if v6 { packet::ip6::MIN_MTU } else { packet::ip4::MIN_MTU };
        self.real().fold(least, |sum, _| sum.saturating_add(4))
    }

    /// The label that a label route puts in the place of the one that came.
    pub fn swapped(&self) -> Option<Push> {
        let label = self.real().next_back().filter(|l| *l != HELD_BY_ENTRY)?;
        Some(match self.exp {
            // The TTL is not used, but no word of a label that is put on is 0.
            Exp::Usual | Exp::Copy => Push::new(label, None, 1),
            Exp::Set(exp) => Push::new(label, Some(exp), 1),
        })
    }

    /// The same with the swapped label left to the entry of the label table.
    #[must_use]
    pub fn left_to_entry(&self) -> OutLabels {
        let mut out = OutLabels { len: 0, list: [0; MOST_LABELS], ..*self };
        self.real().all(|l| out.push(l));
        if let Some(last) = out.len.checked_sub(1) {
            out.list[usize::from(last)] = HELD_BY_ENTRY;
        }
        out
    }

    /// The same with the label that the entry holds.
    #[must_use]
    pub fn with_entry(&self, swap: Push) -> OutLabels {
        let mut out = *self;
        out.list.iter_mut().filter(|l| **l == HELD_BY_ENTRY).for_each(|l| *l = swap.label());
        out
    }

    /// The labels that an IP packet gets.
    pub fn pushed(&self) -> Stack {
        let mut out = Stack::EMPTY;
        self.real().for_each(|l| _ = out.add(self.one(l)));
        out
    }

    /// The labels that stand in for one that came: the innermost takes its place, unless the entry holds that.
    pub fn in_place(&self) -> Stack {
        let mut out = Stack::EMPTY;
        let n = self.real().count();
        for (at, label) in self.real().enumerate() {
            let push = match (at + 1 == n, label) {
                (_, HELD_BY_ENTRY) => continue,
                (true, _) => self.swapped().unwrap_or_default(),
                (false, _) => self.one(label),
            };
            out.add(push);
        }
        out
    }

    fn one(&self, label: u32) -> Push {
        let ttl = if self.uniform { 0 } else { self.ttl.unwrap_or(PIPE_TTL).max(1) };
        let exp = match self.exp {
            Exp::Usual if !self.uniform => Some(0),
            Exp::Usual | Exp::Copy => None,
            Exp::Set(exp) => Some(exp),
        };
        Push::new(label, exp, ttl)
    }

    /// What is wrong with the labels.
    pub fn check(&self) -> Result<(), String> {
        for (at, &label) in self.as_slice().iter().enumerate() {
            let last = at + 1 == self.as_slice().len();
            if label == Label::ROUTER_ALERT.value() && last {
                return Err("label 1 (router alert) cannot be the innermost (RFC 3032 section 2.1)".into());
            }
            if (4..16).contains(&label) {
                return Err(reserved(label));
            }
        }
        if matches!(self.exp, Exp::Set(8..)) {
            return Err("EXP is 0 to 7".into());
        }
        if self.ttl == Some(0) {
            return Err("a TTL is 1 to 255".into());
        }
        if self.ttl.is_some() && self.uniform {
            return Err("a TTL goes with mode pipe: uniform copies it".into());
        }
        Ok(())
    }
}

/// Why a label from 4 to 15 cannot be used.
pub fn reserved(label: u32) -> String {
    let meaning = match label {
        7 => "the entropy label indicator of RFC 6790",
        13 => "the generic associated channel of RFC 5586",
        14 => "OAM alert of RFC 3429",
        15 => "the extension label of RFC 7274",
        _ => "kept for standards to come",
    };
    format!("label {label} is reserved ({meaning}): labels of one's own are 16 to 1048575")
}

/// As operators write it: `out-labels 100 200 uniform exp 5`.
impl fmt::Display for OutLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sep = "";
        if !self.is_empty() {
            f.write_str("out-labels")?;
            self.as_slice().iter().try_for_each(|l| write!(f, " {l}"))?;
            sep = " ";
        }
        if self.uniform {
            write!(f, "{sep}uniform")?;
            sep = " ";
        }
        if let Some(ttl) = self.ttl {
            write!(f, "{sep}ttl {ttl}")?;
            sep = " ";
        }
        match self.exp {
            Exp::Usual => Ok(()),
            Exp::Copy => write!(f, "{sep}exp copy"),
            Exp::Set(exp) => write!(f, "{sep}exp {exp}"),
        }
    }
}

/// A label that is put on packets, with its TTL and EXP, in one word: label, a bit that says that EXP is copied, EXP, and
/// TTL (0: copied).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Push(pub u32);

impl Push {
    /// The bit that says that EXP is copied.
    pub const COPY: u32 = 1 << 11;

    /// A label; without EXP that is copied, and with TTL 0 that.
    pub const fn new(label: u32, exp: Option<u8>, ttl: u8) -> Push {
        let exp = match exp {
            None => Push::COPY,
            Some(exp) => (exp as u32 & 7) << 8,
        };
        Push(label << 12 | exp | ttl as u32)
    }

    /// The label.
    pub const fn label(self) -> u32 {
        self.0 >> 12
    }

    /// EXP; `None`: copied.
    pub const fn exp(self) -> Option<u8> {
        if self.0 & Push::COPY != 0 { None } else { Some((self.0 >> 8) as u8 & 7) }
    }

    /// TTL, hops; `None`: copied.
    pub const fn ttl(self) -> Option<u8> {
        if self.0 as u8 == 0 { None } else { Some(self.0 as u8) }
    }

    /// The entry above something with this TTL and EXP.
    #[inline]
    pub fn above(self, ttl: u8, exp: u8, bottom: bool) -> Entry {
        let (ttl, exp) = (self.ttl().unwrap_or(ttl), self.exp().unwrap_or(exp));
        Entry(self.label() << 12 | u32::from(exp & 7) << 9 | u32::from(bottom) << 8 | u32::from(ttl))
    }

    /// The entry in the place of one that came: a hop less to go.
    #[inline]
    pub fn in_place_of(self, came: Entry) -> Entry {
        let kept = Push(self.0 & !0xff);
        kept.above(came.ttl().saturating_sub(1), came.exp(), came.is_bottom())
    }
}

/// `100`, or `100 ttl 64 exp 0` where these are set.
impl fmt::Display for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.label())?;
        if let Some(ttl) = self.ttl() {
            write!(f, " ttl {ttl}")?;
        }
        self.exp().map_or(Ok(()), |exp| write!(f, " exp {exp}"))
    }
}

/// Labels as an adjacency puts them on, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stack {
    len: u8,
    list: [Push; MOST_LABELS],
}

impl Stack {
    /// None.
    pub const EMPTY: Stack = Stack { len: 0, list: [Push(0); MOST_LABELS] };
    /// Behind all others.
    pub const LAST: Stack = Stack { len: u8::MAX, list: [Push(u32::MAX); MOST_LABELS] };

    fn add(&mut self, p: Push) -> bool {
        let Some(slot) = self.list.get_mut(usize::from(self.len)) else { return false };
        *slot = p;
        self.len += 1;
        true
    }

    /// The labels, outermost first.
    #[inline]
    pub fn as_slice(&self) -> &[Push] {
        &self.list[..usize::from(self.len).min(MOST_LABELS)]
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// These outside of `inner`; `None` when they are too many.
    pub fn around(&self, inner: &Stack) -> Option<Stack> {
        let mut out = *self;
        inner.as_slice().iter().all(|p| out.add(*p)).then_some(out)
    }
}

/// What an adjacency to a label switching router puts on, as workers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imposition {
    /// The labels.
    pub stack: Stack,
    /// Whether a TTL is copied.
    pub uniform: bool,
}

impl Imposition {
    /// Puts `stack` on.
    pub fn new(stack: Stack) -> Imposition {
        Imposition { stack, uniform: stack.as_slice().iter().any(|p| p.ttl().is_none()) }
    }

    /// The entries that IP packets get, the same for each; `None` where a packet's TTL or EXP is copied.
    pub fn fixed(&self) -> Option<impl Iterator<Item = Entry> + '_> {
        let all = self.stack.as_slice();
        let fixed = all.iter().all(|p| p.ttl().is_some() && p.exp().is_some());
        fixed.then(|| all.iter().enumerate().map(|(n, p)| p.above(0, 0, n + 1 == all.len())))
    }

    /// Bytes of the labels.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.stack.len() * packet::mpls::ENTRY_LEN
    }
}

/// The label stack with which a packet begins, for the trace.
pub(crate) fn stack(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for entry in bytes.as_chunks::<4>().0.iter().take(8).map(|b| Entry::from_bytes(*b)) {
        writeln!(f, "  {entry}")?;
        if entry.is_bottom() {
            break;
        }
    }
    Ok(())
}

/// The most label tables, table 0 included.
pub const MAX_TABLES: usize = 4096;

/// The control side's ends of label tables.
pub struct LabelWriters {
    /// Of all tables.
    pub slots: SlotsWriter<Arc<Labels>>,
    /// Of table 0.
    pub main: LabelsWriter,
}

/// The label tables, with table 0 at FIB index 0, and what workers see.
///
/// # Errors
/// The system has not the address space.
pub fn table0() -> std::io::Result<(LabelWriters, Arc<Slots<Arc<Labels>>>)> {
    let (mut writer, slots) = Slots::new(MAX_TABLES)?;
    let (main, shared) = Labels::new()?;
    // The first slot is free.
    let _ = writer.insert(shared);
    Ok((LabelWriters { slots: writer, main }, slots))
}

/// The entry with which a packet begins.
#[inline]
pub fn top(data: &[u8]) -> Option<Entry> {
    data.first_chunk().map(|b| Entry::from_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(labels: &[u32]) -> OutLabels {
        OutLabels::new(labels).unwrap()
    }

    #[test]
    fn implicit_null_is_no_label() {
        assert!(out(&[3]).pops() && out(&[]).pops() && !out(&[0]).pops());
        assert_eq!(out(&[100, 3]).pushed(), out(&[100]).pushed());
        assert!(out(&[3]).pushed().is_empty());
        assert!(OutLabels::new(&[1 << 20]).is_none() && OutLabels::new(&[16; 13]).is_none());
    }

    #[test]
    fn a_swapped_label_can_be_left_to_the_entry() {
        for labels in [&[100][..], &[33, 100], &[33, 3, 100], &[100, 3]] {
            let all = out(labels);
            let swap = all.swapped().unwrap();
            assert_eq!((swap.label(), swap.exp()), (100, None));
            let left = all.left_to_entry();
            assert_eq!(left.swapped(), None);
            assert!(!left.pops());
            assert_eq!(left.with_entry(swap).in_place(), all.in_place());
            assert_eq!(left.in_place().len() + 1, all.in_place().len());
        }
        assert_eq!(out(&[33, 7_000]).left_to_entry(), out(&[33, 9_000]).left_to_entry());
    }

    #[test]
    fn modes() {
        let pipe = out(&[100]).pushed().as_slice()[0];
        assert_eq!((pipe.ttl(), pipe.exp()), (Some(PIPE_TTL), Some(0)));
        let uniform = OutLabels { uniform: true, ..out(&[100]) }.pushed().as_slice()[0];
        assert_eq!((uniform.ttl(), uniform.exp()), (None, None));
        assert_eq!(uniform.above(9, 5, true).to_string(), "label 100 exp 5 s 1 ttl 9");
        let set = OutLabels { exp: Exp::Set(6), ttl: Some(255), ..out(&[100]) };
        assert_eq!(set.pushed().as_slice()[0].above(9, 5, false).to_string(), "label 100 exp 6 s 0 ttl 255");
        let came = Entry(77 << 12 | 5 << 9 | 1 << 8 | 30);
        assert_eq!(set.swapped().unwrap().in_place_of(came).to_string(), "label 100 exp 6 s 1 ttl 29");
        assert_eq!(set.to_string(), "out-labels 100 ttl 255 exp 6");
        assert_eq!(OutLabels { uniform: true, ..OutLabels::NONE }.to_string(), "uniform");
    }

    #[test]
    fn what_is_refused() {
        for label in 4..16 {
            let why = out(&[label]).check().unwrap_err();
            assert!(why.starts_with(&format!("label {label} is reserved")), "{why}");
        }
        assert!(out(&[1]).check().is_err() && out(&[1, 16]).check().is_ok());
        for label in [0, 2, 3, 16, 1_048_575] {
            assert_eq!(out(&[label]).check(), Ok(()));
        }
        assert!(OutLabels { exp: Exp::Set(8), ..out(&[16]) }.check().is_err());
        assert!(OutLabels { ttl: Some(3), uniform: true, ..out(&[16]) }.check().is_err());
    }

    #[test]
    fn stacks_of_several_routes_are_joined() {
        let both = out(&[100]).pushed().around(&out(&[200, 300]).pushed()).unwrap();
        assert_eq!(both.as_slice().iter().map(|p| p.label()).collect::<Vec<_>>(), [100, 200, 300]);
        assert!(out(&[16; 12]).pushed().around(&out(&[16]).pushed()).is_none());
        assert!(Stack::EMPTY < both && both < Stack::LAST);
    }
}
