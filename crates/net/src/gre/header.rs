//! Generic routing encapsulation: RFC 2784 with the key and sequence number of RFC 2890.

use packet::EtherType;

/// Bytes of a header with all that may be in it.
pub const MAX_LEN: usize = 16;

const CHECKSUM: u8 = 0x80;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;
/// Routing, strict source route and recursion of RFC 1701: packets with them are discarded (RFC 2784 section 2.3).
const OLD: u8 = 0x4c;

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreError {
    /// The packet ends within it.
    TooShort,
    /// Its version is not 0: PPTP has 1 (RFC 2637).
    Version,
    /// It has fields of RFC 1701.
    Old,
}

/// What a header says, or is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GreHeader {
    /// What follows.
    pub protocol: EtherType,
    /// Whether there is a checksum: of the header and all that follows.
    pub checksum: bool,
    /// The key.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

impl GreHeader {
    /// Reads a header at the start of `bytes`.
    ///
    /// # Errors
    /// It is cut off, or one that a receiver must discard.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<GreHeader, GreError> {
        let &[flags, version, a, b] = bytes.first_chunk().ok_or(GreError::TooShort)?;
        if version & 7 != 0 {
            return Err(GreError::Version);
        }
        if flags & OLD != 0 {
            return Err(GreError::Old);
        }
        let mut at = if flags & CHECKSUM != 0 { 8 } else { 4 };
        let mut word = |present: bool| {
            if !present {
                return Ok(None);
            }
            let word = bytes.get(at..at + 4).and_then(|w| w.first_chunk()).ok_or(GreError::TooShort)?;
            at += 4;
            Ok(Some(u32::from_be_bytes(*word)))
        };
        let (key, sequence) = (word(flags & KEY != 0)?, word(flags & SEQUENCE != 0)?);
        let h = GreHeader {
            protocol: EtherType(u16::from_be_bytes([a, b])),
            checksum: flags & CHECKSUM != 0,
            key,
            sequence,
        };
        if bytes.len() < h.len() { Err(GreError::TooShort) } else { Ok(h) }
    }

    /// Its length, bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        4 + 4
            * (usize::from(self.checksum)
                + usize::from(self.key.is_some())
                + usize::from(self.sequence.is_some()))
    }

    /// The header, its checksum 0, and how long it is.
    pub fn emit(&self) -> ([u8; MAX_LEN], usize) {
        let mut out = [0; MAX_LEN];
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        out[0] = bit(self.checksum, CHECKSUM)
            | bit(self.key.is_some(), KEY)
            | bit(self.sequence.is_some(), SEQUENCE);
        out[2..4].copy_from_slice(&self.protocol.0.to_be_bytes());
        let mut at = if self.checksum { 8 } else { 4 };
        for word in [self.key, self.sequence].into_iter().flatten() {
            out[at..at + 4].copy_from_slice(&word.to_be_bytes());
            at += 4;
        }
        (out, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Scapy: GRE(proto=0x800, chksum_present=1, key_present=1, seqnum_present=1, chksum=0, key=7, sequence_number=9)
    const FULL: [u8; 16] = [0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9];

    #[test]
    fn reads_and_builds() {
        let full = GreHeader { protocol: EtherType::IPV4, checksum: true, key: Some(7), sequence: Some(9) };
        assert_eq!(GreHeader::parse(&FULL), Ok(full));
        assert_eq!(full.emit(), (FULL, 16));
        let least = GreHeader { protocol: EtherType::IPV6, checksum: false, key: None, sequence: None };
        assert_eq!(least.emit().0[..4], [0, 0, 0x86, 0xdd]);
        // Reserved bits are not looked at (RFC 2784 section 2.3).
        assert_eq!(GreHeader::parse(&[3, 0xf8, 0x86, 0xdd]), Ok(least));
    }

    #[test]
    fn what_a_receiver_discards() {
        for bit in [0x40, 0x08, 0x04] {
            assert_eq!(GreHeader::parse(&[bit, 0, 8, 0, 0, 0, 0, 0]), Err(GreError::Old));
        }
        assert_eq!(GreHeader::parse(&[0x20, 1, 0x88, 0x0b, 0, 0, 0, 0]), Err(GreError::Version));
        for n in 0..16 {
            assert_eq!(GreHeader::parse(&FULL[..n]), Err(GreError::TooShort));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read(
            protocol: u16, checksum: bool, key: Option<u32>, sequence: Option<u32>, bytes: [u8; 20]
        ) {
            let h = GreHeader { protocol: EtherType(protocol), checksum, key, sequence };
            let (out, len) = h.emit();
            prop_assert_eq!(len, h.len());
            prop_assert_eq!(GreHeader::parse(&out[..len]), Ok(h));
            let _ = GreHeader::parse(&bytes);
        }
    }
}
