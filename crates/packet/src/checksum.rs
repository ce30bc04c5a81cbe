//! The Internet checksum (RFC 1071): sums over slices, pseudo headers, incremental updates (RFC 1624).
//!
//! Sums run over words in memory order, eight bytes at a time; bytes are swapped once at the end (RFC 1071, 2(B)).

use crate::proto::IpProtocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ones-complement sum of a byte string given in pieces of any length, odd ones included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Sum of 16-bit words in memory order, carries not yet folded.
    acc: u64,
    /// The bytes so far are odd in number: the next byte is the second of its word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Self {
        Self { acc: 0, odd: false }
    }

    /// The sum of one slice.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        Self { acc: raw(bytes), odd: bytes.len() % 2 == 1 }
    }

    /// Starts from a folded sum in host order, such as a pseudo-header sum found in a checksum field.
    #[inline]
    pub const fn from_folded(sum: u16) -> Self {
        Self { acc: sum.to_be() as u64, odd: false }
    }

    /// Appends `bytes`.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.append(Self::of(bytes));
    }

    /// Appends everything that `tail` has summed.
    #[inline]
    pub fn append(&mut self, tail: Sum) {
        let word = fold64(tail.acc);
        self.acc += u64::from(if self.odd { word.swap_bytes() } else { word });
        self.odd ^= tail.odd;
    }

    /// Adds a 16-bit field that stands at an even place, whatever was appended before.
    #[inline]
    pub fn add_u16(&mut self, value: u16) {
        self.acc += u64::from(value.to_be());
    }

    /// Adds a 32-bit field that stands at an even place.
    #[inline]
    pub fn add_u32(&mut self, value: u32) {
        self.acc += u64::from(value.to_be());
    }

    /// The sum folded to 16 bits, host order, not complemented. 0xffff over data that carries its checksum means
    /// that it is right.
    #[inline]
    pub fn fold(self) -> u16 {
        u16::from_be(fold64(self.acc))
    }

    /// The checksum to store: the complement of [`Sum::fold`].
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum to store in UDP, where 0 means "none" and is sent as 0xffff (RFC 768). Harmless elsewhere: both
    /// are zero in ones-complement.
    #[inline]
    pub fn checksum_nonzero(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            sum => sum,
        }
    }

    /// Whether data summed with its checksum field included is intact.
    #[inline]
    pub fn is_valid(self) -> bool {
        fold64(self.acc) == 0xffff
    }
}

#[inline(always)]
const fn fold64(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Sum of the words of `bytes` in memory order, padded with a zero byte. Four-byte words are added in 64 bits, so
/// that no carry is lost below 16 GiB, and eight independent lanes let the compiler use vectors.
#[inline]
fn raw(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut lanes = [0u64; 8];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut sum: u64 = lanes.iter().sum();
    let (words, tail) = rest.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    sum + u64::from(u32::from_ne_bytes(last))
}

/// Whether an IPv4 header without options carries its checksum: the sum of its words is a multiple of 0xffff, in any
/// byte order (RFC 1071 section 2). Like any sum of words, it takes 20 zero bytes.
#[inline(always)]
pub fn is_valid20(h: &[u8; 20]) -> bool {
    is_valid20_by(h, &Multiples::OF_0XFFFF)
}

/// What tells multiples of 0xffff in 64 bits: in memory, where a loop finds it with an instruction less each than in its code.
#[derive(Clone, Copy, Debug)]
pub struct Multiples {
    /// Multiplied by this, modulo 2^64, a multiple becomes how often it has 0xffff ...
    inverse: u64,
    /// ... which is at most this; all others become more.
    most: u64,
}

impl Multiples {
    /// For 0xffff.
    pub const OF_0XFFFF: Multiples = {
        // Each step of Newton's method doubles the bits that are right.
        let (mut inverse, mut step) = (0xffff_u64, 0);
        while step < 5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(inverse.wrapping_mul(0xffff)));
            step += 1;
        }
        Multiples { inverse, most: u64::MAX / 0xffff }
    };
}

/// [`is_valid20`] where the caller has [`Multiples::OF_0XFFFF`] at hand.
#[inline(always)]
pub fn is_valid20_by(h: &[u8; 20], multiples: &Multiples) -> bool {
    // The last eight bytes together: they are both addresses of an IPv4 header, and asked for that way.
    let (Some(first), Some(second), Some(third)) = (h.first_chunk(), h.last_chunk(), h[8..].first_chunk())
    else {
        return false;
    };
    // What is carried out comes in again, which changes nothing modulo 0xffff.
    let (sum, carry) = u64::from_ne_bytes(*first).overflowing_add(u64::from_ne_bytes(*second));
    let (sum, carry) = sum.carrying_add(u32::from_ne_bytes(*third).into(), carry);
    sum.wrapping_add(carry.into()).wrapping_mul(multiples.inverse) <= multiples.most
}

/// The checksum of one slice (its checksum field zeroed by the caller).
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// Whether a slice that carries its checksum is intact.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    Sum::of(bytes).is_valid()
}

/// Pseudo-header sum of UDP or TCP over IPv4 (RFC 768); `len` is the length of header and payload in bytes.
#[inline]
pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, proto: IpProtocol, len: u16) -> Sum {
    let mut sum = Sum::new();
    sum.add_u32(src.to_bits());
    sum.add_u32(dst.to_bits());
    sum.add_u16(u16::from(proto.0));
    sum.add_u16(len);
    sum
}

/// Pseudo-header sum over IPv6 (RFC 8200, 8.1); `proto` and `len` are those of the upper layer, after any
/// extension headers.
#[inline]
pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, proto: IpProtocol, len: u32) -> Sum {
    let mut sum = Sum::new();
    sum.acc += raw(&src.octets()) + raw(&dst.octets());
    sum.add_u32(u32::from(proto.0));
    sum.add_u32(len);
    sum
}

/// New checksum after a 16-bit field changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update16(check: u16, old: u16, new: u16) -> u16 {
    let sum = !check as u32 + !old as u32 + new as u32;
    !fold64(sum as u64)
}

/// New checksum after a 32-bit field at an even place changed.
#[inline]
pub const fn update32(check: u16, old: u32, new: u32) -> u16 {
    let sum = !check as u64 + !old as u64 + new as u64;
    !fold64(sum)
}

/// New checksum after a 16-byte field (an IPv6 address) at an even place changed.
#[inline]
pub fn update128(check: u16, old: &[u8; 16], new: &[u8; 16]) -> u16 {
    let old = u16::from_be(fold64(raw(old)));
    let new = u16::from_be(fold64(raw(new)));
    update16(check, old, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 word by word, in network order.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn rfc1071_example() {
        // RFC 1071, section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&data).fold(), 0xddf2);
        assert_eq!(checksum(&data), 0x220d);
    }

    #[test]
    fn rfc1624_corner() {
        // RFC 1624, section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 must give 0x0000, not 0xffff.
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn long_runs_of_ones_keep_their_carries() {
        let data = vec![0xff; 1 << 20];
        assert_eq!(Sum::of(&data).fold(), 0xffff);
        assert_eq!(Sum::of(&data[1..]).fold(), naive(&data[1..]));
    }

    #[test]
    fn headers_of_extreme_words_equal_naive() {
        // Each word all zeros, all ones or at a carry, with the checksum that makes it right and those beside it.
        for n in 0..3u32.pow(9) {
            let word = |at: u32| [[0, 0], [0xff, 0xff], [0x80, 0x01]][(n / 3u32.pow(at) % 3) as usize];
            let mut h = [0; 20];
            h.as_chunks_mut::<2>().0.iter_mut().enumerate().for_each(|(i, w)| *w = word(i as u32 % 9));
            for off in [0xffff, 0, 1] {
                h[10..12].copy_from_slice(&[0, 0]);
                let right = !naive(&h);
                h[10..12].copy_from_slice(&right.wrapping_add(off).to_be_bytes());
                let want = naive(&h) == 0xffff || h == [0; 20];
                assert_eq!(is_valid20(&h), want, "{h:?}");
            }
        }
    }

    #[test]
    fn zero_is_sent_as_ones_only_where_asked() {
        let sum = Sum::of(&[0xff, 0xff]);
        assert_eq!(sum.checksum(), 0);
        assert_eq!(sum.checksum_nonzero(), 0xffff);
    }

    proptest! {
        #[test]
        fn one_slice_equals_naive(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(Sum::of(&data).fold(), naive(&data));
        }

        #[test]
        fn pieces_equal_the_whole(
            data in proptest::collection::vec(any::<u8>(), 0..400),
            cuts in proptest::collection::vec(0usize..400, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(data.len())).collect();
            cuts.push(0);
            cuts.push(data.len());
            cuts.sort_unstable();
            let mut sum = Sum::new();
            for pair in cuts.windows(2) {
                sum.add_bytes(&data[pair[0]..pair[1]]);
            }
            prop_assert_eq!(sum.fold(), naive(&data));
        }

        #[test]
        fn updates_keep_a_valid_sum(
            mut data in proptest::array::uniform32(any::<u8>()),
            new in proptest::array::uniform16(any::<u8>()),
        ) {
            // The first word is never zero, as in any IP header, so the sum has one representation only.
            data[0] = 0x45;
            data[10..12].fill(0);
            let check = checksum(&data);
            let old: [u8; 16] = data[16..32].try_into().unwrap();
            let mut changed = data;
            changed[16..32].copy_from_slice(&new);
            prop_assert_eq!(update128(check, &old, &new), checksum(&changed));

            let mut changed = data;
            changed[16..20].copy_from_slice(&new[..4]);
            let (o, n) = (u32::from_be_bytes(old[..4].try_into().unwrap()),
                          u32::from_be_bytes(new[..4].try_into().unwrap()));
            prop_assert_eq!(update32(check, o, n), checksum(&changed));

            let mut changed = data;
            changed[16..18].copy_from_slice(&new[..2]);
            prop_assert_eq!(
                update16(check, (o >> 16) as u16, (n >> 16) as u16),
                checksum(&changed)
            );
        }

        #[test]
        fn pseudo_headers_equal_their_bytes(
            src: u128, dst: u128, proto: u8, len: u16,
        ) {
            let (s, d) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            let mut bytes = [s.octets(), d.octets()].concat();
            bytes.extend(u32::from(len).to_be_bytes());
            bytes.extend([0, 0, 0, proto]);
            prop_assert_eq!(pseudo6(s, d, IpProtocol(proto), len.into()).fold(), naive(&bytes));
            let (s, d) = (Ipv4Addr::from(src as u32), Ipv4Addr::from(dst as u32));
            let mut bytes = [s.octets(), d.octets()].concat();
            bytes.extend([0, proto]);
            bytes.extend(len.to_be_bytes());
            prop_assert_eq!(pseudo4(s, d, IpProtocol(proto), len).fold(), naive(&bytes));
        }
    }
}
