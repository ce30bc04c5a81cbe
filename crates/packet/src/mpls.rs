//! MPLS label stacks (RFC 3032, RFC 5462): entries, walking a stack, and the control word of pseudowires (RFC 4385).

use std::fmt;

/// Bytes of a label stack entry.
pub const ENTRY_LEN: usize = 4;
/// Bytes of a pseudowire control word.
pub const CONTROL_WORD_LEN: usize = 4;

/// A label: 20 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Label(u32);

impl Label {
    /// 0: pop, what follows is IPv4 (RFC 3032, 2.1; RFC 4182).
    pub const IP4_EXPLICIT_NULL: Self = Self(0);
    /// 1: for the router's own attention.
    pub const ROUTER_ALERT: Self = Self(1);
    /// 2: pop, what follows is IPv6.
    pub const IP6_EXPLICIT_NULL: Self = Self(2);
    /// 3: never in a packet; as an outgoing label it means to send without one.
    pub const IMPLICIT_NULL: Self = Self(3);
    /// 7: the next entry holds an entropy label (RFC 6790).
    pub const ENTROPY_INDICATOR: Self = Self(7);
    /// The first label that may be assigned; those below are reserved (RFC 3032, 2.1; RFC 7274).
    pub const FIRST_FREE: Self = Self(16);
    /// The largest label.
    pub const MAX: Self = Self(0xf_ffff);

    /// A label; `None` when `value` has more than 20 bits.
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Below [`Label::FIRST_FREE`]: its meaning is set by a standard.
    #[inline]
    pub const fn is_reserved(self) -> bool {
        self.0 < Self::FIRST_FREE.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A label stack entry: label, EXP (now "traffic class"), bottom-of-stack bit and TTL, in host order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Entry(pub u32);

impl Entry {
    /// The bottom-of-stack bit.
    pub const BOTTOM: u32 = 1 << 8;

    /// An entry; of `exp` the low three bits count.
    #[inline]
    pub const fn new(label: Label, exp: u8, bottom: bool, ttl: u8) -> Self {
        Self(label.0 << 12 | (exp as u32 & 7) << 9 | (bottom as u32) << 8 | ttl as u32)
    }

    /// From its place in a packet.
    #[inline]
    pub const fn from_bytes(bytes: [u8; ENTRY_LEN]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }

    /// As it stands in a packet.
    #[inline]
    pub const fn to_bytes(self) -> [u8; ENTRY_LEN] {
        self.0.to_be_bytes()
    }

    /// The label.
    #[inline]
    pub const fn label(self) -> Label {
        Label(self.0 >> 12)
    }

    /// EXP, 0 to 7 (RFC 5462: traffic class).
    #[inline]
    pub const fn exp(self) -> u8 {
        (self.0 >> 9) as u8 & 7
    }

    /// The last entry of its stack.
    #[inline]
    pub const fn is_bottom(self) -> bool {
        self.0 & Self::BOTTOM != 0
    }

    /// TTL in hops.
    #[inline]
    pub const fn ttl(self) -> u8 {
        self.0 as u8
    }

    /// With another label.
    #[inline]
    #[must_use]
    pub const fn with_label(self, label: Label) -> Self {
        Self(self.0 & 0xfff | label.0 << 12)
    }

    /// With another EXP, of which the low three bits count.
    #[inline]
    #[must_use]
    pub const fn with_exp(self, exp: u8) -> Self {
        Self(self.0 & !0xe00 | (exp as u32 & 7) << 9)
    }

    /// With another TTL.
    #[inline]
    #[must_use]
    pub const fn with_ttl(self, ttl: u8) -> Self {
        Self(self.0 & !0xff | ttl as u32)
    }
}

/// As operators write it: `label 100 exp 0 s 1 ttl 64`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (label, exp, s, ttl) = (self.label(), self.exp(), u8::from(self.is_bottom()), self.ttl());
        write!(f, "label {label} exp {exp} s {s} ttl {ttl}")
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a stack is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackError {
    /// The packet ends before the bottom of the stack.
    Truncated,
    /// More entries than the caller looks at, and no bottom among them.
    TooDeep,
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StackError::Truncated => "the packet ends within its label stack",
            StackError::TooDeep => "the label stack has too many entries",
        })
    }
}

impl std::error::Error for StackError {}

/// A whole label stack: at least one entry, the last of them the bottom.
#[derive(Clone, Copy, Debug)]
pub struct StackView<'a> {
    entries: &'a [[u8; ENTRY_LEN]],
    payload: &'a [u8],
}

impl<'a> StackView<'a> {
    /// Finds the bottom among the first `max` entries.
    #[inline]
    pub fn parse(bytes: &'a [u8], max: usize) -> Result<Self, StackError> {
        let (all, _) = bytes.as_chunks::<ENTRY_LEN>();
        let seen = &all[..all.len().min(max)];
        match seen.iter().position(|&e| Entry::from_bytes(e).is_bottom()) {
            Some(last) => {
                let (entries, payload) = (&all[..=last], &bytes[(last + 1) * ENTRY_LEN..]);
                Ok(Self { entries, payload })
            }
            None if all.len() < max => Err(StackError::Truncated),
            None => Err(StackError::TooDeep),
        }
    }

    /// The entry that is looked up first.
    #[inline]
    pub fn top(&self) -> Entry {
        self.entries.first().map_or(Entry(0), |&e| Entry::from_bytes(e))
    }

    /// The entries, from the top.
    #[inline]
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> + DoubleEndedIterator + 'a {
        self.entries.iter().map(|&e| Entry::from_bytes(e))
    }

    /// Number of entries, at least 1.
    #[inline]
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// The entries as they stand in the packet.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.entries.as_flattened()
    }

    /// What is behind the bottom of the stack.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The entropy label: behind the topmost [`Label::ENTROPY_INDICATOR`] (RFC 6790, 4.3).
    #[inline]
    pub fn entropy(&self) -> Option<Label> {
        let mut entries = self.entries();
        entries.find(|e| e.label() == Label::ENTROPY_INDICATOR)?;
        Some(entries.next()?.label())
    }
}

/// What a payload below a label stack is taken for: the stack does not say it, so the first four bits must
/// (RFC 4928). A pseudowire's payload is only to be told from IP when it has a control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Version 4.
    Ip4,
    /// Version 6.
    Ip6,
    /// Neither.
    Other,
}

impl Payload {
    /// From the first byte; nothing at all is [`Payload::Other`].
    #[inline]
    pub fn guess(payload: &[u8]) -> Self {
        match payload.first().map(|b| b >> 4) {
            Some(4) => Self::Ip4,
            Some(6) => Self::Ip6,
            _ => Self::Other,
        }
    }
}

/// The control word in front of a pseudowire's frame (RFC 4385, 3; for Ethernet RFC 4448, 4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlWord {
    /// Sequence number; 0 says that frames are not numbered.
    pub sequence: u16,
}

impl ControlWord {
    /// Its bytes: the first four bits are 0, so that no router takes the frame for IP.
    #[inline]
    pub const fn to_bytes(self) -> [u8; CONTROL_WORD_LEN] {
        let [high, low] = self.sequence.to_be_bytes();
        [0, 0, high, low]
    }

    /// From its bytes; `None` where the first four bits are not 0: 1 is an associated channel (RFC 5586), others are none.
    /// Flags and fragmentation bits, which Ethernet does not use, are ignored as RFC 4448 asks for it.
    #[inline]
    pub const fn from_bytes(bytes: [u8; CONTROL_WORD_LEN]) -> Option<Self> {
        if bytes[0] >> 4 != 0 {
            return None;
        }
        Some(Self { sequence: u16::from_be_bytes([bytes[2], bytes[3]]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(n: u32) -> Label {
        Label::new(n).unwrap()
    }

    // Scapy: MPLS(label=100, cos=5, s=0, ttl=64) / MPLS(label=1048575, cos=0, s=1, ttl=255) / b"\x45"
    const STACK: [u8; 9] = [0x00, 0x06, 0x4a, 0x40, 0xff, 0xff, 0xf1, 0xff, 0x45];

    #[test]
    fn reads_and_writes_entries_as_scapy_does() {
        let stack = StackView::parse(&STACK, 8).unwrap();
        assert_eq!(stack.top(), Entry::new(label(100), 5, false, 64));
        assert_eq!(stack.top().to_bytes(), STACK[..4]);
        assert_eq!(
            stack.entries().map(|e| e.to_string()).collect::<Vec<_>>(),
            ["label 100 exp 5 s 0 ttl 64", "label 1048575 exp 0 s 1 ttl 255"]
        );
        assert_eq!((stack.depth(), stack.as_bytes(), stack.payload()), (2, &STACK[..8], &STACK[8..]));
        assert_eq!(Payload::guess(stack.payload()), Payload::Ip4);
        for cut in 0..8 {
            assert_eq!(
                StackView::parse(&STACK[..cut], 8).unwrap_err(),
                StackError::Truncated,
                "cut at {cut}"
            );
        }
        assert_eq!(StackView::parse(&STACK, 1).unwrap_err(), StackError::TooDeep);
        assert_eq!(StackView::parse(&STACK, 2).unwrap().depth(), 2);
    }

    #[test]
    fn labels_have_20_bits() {
        assert_eq!(Label::new(1 << 20), None);
        assert_eq!(Label::new(0xf_ffff), Some(Label::MAX));
        assert!(label(15).is_reserved() && !label(16).is_reserved());
    }

    #[test]
    fn an_entropy_label_follows_its_indicator() {
        let stack = |labels: &[u32]| -> Vec<u8> {
            let last = labels.len() - 1;
            let entry = |(i, &l)| Entry::new(label(l), 0, i == last, 0).to_bytes();
            labels.iter().enumerate().flat_map(entry).collect()
        };
        let entropy =
            |labels: &[u32]| StackView::parse(&stack(labels), 8).unwrap().entropy().map(Label::value);
        assert_eq!(entropy(&[100, 7, 4711]), Some(4711));
        assert_eq!(entropy(&[100, 7, 4711, 7, 1]), Some(4711));
        assert_eq!(entropy(&[100, 200]), None);
        assert_eq!(entropy(&[100, 7]), None, "an indicator at the bottom announces nothing");
    }

    #[test]
    fn the_control_word() {
        assert_eq!(ControlWord { sequence: 0x1234 }.to_bytes(), [0, 0, 0x12, 0x34]);
        assert_eq!(ControlWord::from_bytes([0x0f, 0xff, 0x12, 0x34]), Some(ControlWord { sequence: 0x1234 }));
        assert_eq!(ControlWord::from_bytes([0x10, 0, 0, 0]), None);
        assert_eq!(Payload::guess(&ControlWord::default().to_bytes()), Payload::Other);
        assert_eq!(Payload::guess(&[0x60]), Payload::Ip6);
        assert_eq!(Payload::guess(&[]), Payload::Other);
    }

    proptest! {
        #[test]
        fn fields_do_not_touch_each_other(value in 0u32..1 << 20, exp in 0u8..8, bottom: bool, ttl: u8, other in 0u32..1 << 20) {
            let e = Entry::new(label(value), exp, bottom, ttl);
            prop_assert_eq!((e.label(), e.exp(), e.is_bottom(), e.ttl()), (label(value), exp, bottom, ttl));
            prop_assert_eq!(Entry::from_bytes(e.to_bytes()), e);
            prop_assert_eq!(e.with_label(label(other)), Entry::new(label(other), exp, bottom, ttl));
            prop_assert_eq!(e.with_exp(other as u8), Entry::new(label(value), other as u8 & 7, bottom, ttl));
            prop_assert_eq!(e.with_ttl(other as u8), Entry::new(label(value), exp, bottom, other as u8));
        }

        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..80), max in 0usize..24) {
            let naive = (0..data.len() / 4).find(|i| data[i * 4 + 2] & 1 == 1).filter(|&i| i < max);
            match StackView::parse(&data, max) {
                Ok(stack) => {
                    prop_assert_eq!(naive.map(|i| i + 1), Some(stack.depth()));
                    prop_assert_eq!([stack.as_bytes(), stack.payload()].concat(), data.clone());
                    stack.entropy();
                }
                Err(_) => prop_assert_eq!(naive, None),
            }
        }
    }
}
