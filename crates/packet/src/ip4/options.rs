//! IPv4 options (RFC 791, 3.1).

use super::HEADER_LEN;

/// The type octet of an option: copied flag, class and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct OptionKind(pub u8);

#[allow(missing_docs)]
impl OptionKind {
    pub const END: Self = Self(0);
    pub const NOP: Self = Self(1);
    pub const RECORD_ROUTE: Self = Self(7);
    pub const TIMESTAMP: Self = Self(68);
    pub const SECURITY: Self = Self(130);
    pub const LOOSE_SOURCE_ROUTE: Self = Self(131);
    pub const STRICT_SOURCE_ROUTE: Self = Self(137);
    /// RFC 2113
    pub const ROUTER_ALERT: Self = Self(148);
}

impl OptionKind {
    /// Goes into every fragment, not only the first.
    #[inline]
    pub const fn is_copied(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip4Option<'a> {
    /// Type octet.
    pub kind: OptionKind,
    /// Offset of the type octet from the start of the header: the pointer of a parameter problem.
    pub offset: u8,
    /// The whole option, type and length octets included.
    pub bytes: &'a [u8],
}

impl<'a> Ip4Option<'a> {
    /// What follows the type and length octets.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.bytes.get(2..).unwrap_or_default()
    }
}

/// An option whose length is under 2 or beyond the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Offset of the wrong octet from the start of the header: the length octet, or the type octet when the header
    /// ends after it.
    pub pointer: u8,
}

/// Iterates over options up to end-of-list or the first error. No-operations are skipped.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// `header` is a whole header of 20 to 60 bytes.
    #[inline]
    pub fn new(header: &'a [u8]) -> Self {
        Self { header, at: HEADER_LEN }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ip4Option<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let rest = self.header.get(at..)?;
            match *rest {
                [] | [0, ..] => {
                    self.at = self.header.len();
                    return None;
                }
                [1, ..] => self.at += 1,
                [kind, ref tail @ ..] => {
                    let len = tail.first().map_or(0, |&len| usize::from(len));
                    let option = if len < 2 { None } else { rest.get(..len) };
                    let Some(bytes) = option else {
                        self.at = self.header.len();
                        return Some(Err(BadOption { pointer: (at + usize::from(!tail.is_empty())) as u8 }));
                    };
                    self.at += len;
                    return Some(Ok(Ip4Option { kind: OptionKind(kind), offset: at as u8, bytes }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(options: &[u8]) -> Vec<u8> {
        [&[0; 20], options].concat()
    }

    #[test]
    fn walks_in_order() {
        let h = header(&[1, 148, 4, 0, 0, 7, 3, 4, 0, 9, 9, 9]);
        let all: Vec<_> = Options::new(&h).map(|o| o.unwrap()).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].kind, all[0].offset, all[0].data()), (OptionKind::ROUTER_ALERT, 21, &[0, 0][..]));
        assert_eq!((all[1].kind, all[1].offset, all[1].data()), (OptionKind::RECORD_ROUTE, 25, &[4][..]));
        assert!(OptionKind::ROUTER_ALERT.is_copied() && !OptionKind::TIMESTAMP.is_copied());
    }

    #[test]
    fn bad_lengths_say_where() {
        let pointer = |options: &[u8]| {
            let h = header(options);
            let mut it = Options::new(&h);
            let bad = it.find_map(|o| o.err()).unwrap().pointer;
            assert!(it.next().is_none());
            bad
        };
        assert_eq!(pointer(&[7, 0, 0, 0]), 21);
        assert_eq!(pointer(&[7, 1, 0, 0]), 21);
        assert_eq!(pointer(&[7, 5, 0, 0]), 21);
        assert_eq!(pointer(&[1, 1, 1, 7]), 23);
        assert_eq!(pointer(&[7, 3, 4, 68, 255, 0, 0, 0]), 24);
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..12], 0..61)) {
            prop_assert!(Options::new(&data).count() <= 20);
        }
    }
}
