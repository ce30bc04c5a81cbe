//! Flow hash: one number a flow, to choose among paths, queues and workers.
//!
//! The 5-tuple is mixed by multiplications whose high and low halves are folded together. It is no defence against
//! somebody who knows the seed.

use crate::bytes::{array, be32};
use crate::eth::EtherType;
use crate::ip4::{self, Ip4Header};
use crate::ip6::{self, Ip6Header};
use crate::mpls::{Entry, Payload, StackView};
use crate::proto::IpProtocol;
use crate::vlan::VlanStack;

/// What of a packet chooses its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fields(u8);

impl Fields {
    /// Source address.
    pub const SRC: Fields = Fields(1);
    /// Destination address.
    pub const DST: Fields = Fields(2);
    /// Source port.
    pub const SPORT: Fields = Fields(4);
    /// Destination port.
    pub const DPORT: Fields = Fields(8);
    /// Protocol.
    pub const PROTO: Fields = Fields(16);
    /// Source and destination, addresses and ports, change places.
    pub const REVERSE: Fields = Fields(32);
    /// Both directions of a flow have one hash.
    pub const SYMMETRIC: Fields = Fields(64);
    /// The flow label of IPv6 (RFC 6438).
    pub const LABEL: Fields = Fields(128);
    /// Addresses, ports and protocol.
    pub const FIVE_TUPLE: Fields = Fields(31);
    /// Nothing: every packet has the same hash.
    pub const NONE: Fields = Fields(0);
    /// Each with its word.
    pub const ALL: [(&'static str, Fields); 8] = [
        ("src", Self::SRC),
        ("dst", Self::DST),
        ("sport", Self::SPORT),
        ("dport", Self::DPORT),
        ("proto", Self::PROTO),
        ("reverse", Self::REVERSE),
        ("symmetric", Self::SYMMETRIC),
        ("flowlabel", Self::LABEL),
    ];

    /// Whether all of `other` are among these.
    #[inline(always)]
    pub fn has(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub fn with(self, other: Fields) -> Fields {
        Fields(self.0 | other.0)
    }

    /// These, and addresses, ports and protocol where they name nothing of a packet.
    #[must_use]
    pub fn or_five_tuple(self) -> Fields {
        let order = Self::REVERSE.0 | Self::SYMMETRIC.0;
        if self.0 & !order == 0 { self.with(Self::FIVE_TUPLE) } else { self }
    }

    /// Both directions of a flow have one hash only where what is looked at changes places.
    ///
    /// # Errors
    /// What keeps these from being symmetric, if they are to be.
    pub fn check(self) -> Result<(), &'static str> {
        let half = |a: Fields, b: Fields| self.has(a) != self.has(b);
        if !self.has(Self::SYMMETRIC) {
            return Ok(());
        }
        if half(Self::SRC, Self::DST) {
            return Err("with `symmetric`, `src` and `dst` go together");
        }
        if half(Self::SPORT, Self::DPORT) {
            return Err("with `symmetric`, `sport` and `dport` go together");
        }
        if self.has(Self::LABEL) {
            return Err("each direction of a flow has a `flowlabel` of its own: not with `symmetric`");
        }
        Ok(())
    }

    /// Their words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(_, f)| self.has(*f)).map(|(word, _)| word)
    }

    /// Source, destination and ports as they are to be hashed.
    fn arrange(self, src: u128, dst: u128, ports: u32) -> (u128, u128, u32) {
        let keep = |field: Fields, value: u128| if self.has(field) { value } else { 0 };
        let mut from = (keep(Self::SRC, src), keep(Self::SPORT, u128::from(ports >> 16)));
        let mut to = (keep(Self::DST, dst), keep(Self::DPORT, u128::from(ports & 0xffff)));
        let swap = if self.has(Self::SYMMETRIC) { from > to } else { self.has(Self::REVERSE) };
        if swap {
            (from, to) = (to, from);
        }
        (from.0, to.0, (from.1 as u32) << 16 | to.1 as u32)
    }
}

/// How packets are told apart for the choice of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Routers with different seeds choose independently.
    pub seed: u32,
    /// What is looked at.
    pub fields: Fields,
}

impl Flow {
    /// Addresses, ports and protocol.
    pub const fn five_tuple(seed: u32) -> Flow {
        Flow { seed, fields: Fields::FIVE_TUPLE }
    }

    /// The same for the way to the other end of a tunnel: flows that a choice of tunnels has put together are shared out anew.
    pub const fn outside(seed: u32) -> Flow {
        Flow::five_tuple(seed ^ 0x9e37_79b1)
    }

    /// [`hash4`] of the chosen fields.
    #[inline(always)]
    pub fn hash4(self, src: u32, dst: u32, ports: u32, protocol: IpProtocol) -> u32 {
        self.hash_pair4(u64::from(src) << 32 | u64::from(dst), ports, protocol)
    }

    /// The same of source and destination in one word.
    #[inline(always)]
    fn hash_pair4(self, addrs: u64, ports: u32, protocol: IpProtocol) -> u32 {
        if self.fields == Fields::FIVE_TUPLE {
            return hash_pair4(addrs, ports, protocol, self.seed);
        }
        self.chosen4((addrs >> 32) as u32, addrs as u32, ports, protocol)
    }

    #[cold]
    #[inline(never)]
    fn chosen4(self, src: u32, dst: u32, ports: u32, protocol: IpProtocol) -> u32 {
        let (src, dst, ports) = self.fields.arrange(src.into(), dst.into(), ports);
        hash4(src as u32, dst as u32, ports, self.protocol(protocol), self.seed)
    }

    /// [`hash6`] of the chosen fields.
    #[inline(always)]
    pub fn hash6(self, src: u128, dst: u128, ports: u32, protocol: IpProtocol, label: u32) -> u32 {
        if self.fields == Fields::FIVE_TUPLE {
            return hash6(src, dst, ports, protocol, 0, self.seed);
        }
        self.chosen6(src, dst, ports, protocol, label)
    }

    #[cold]
    #[inline(never)]
    fn chosen6(self, src: u128, dst: u128, ports: u32, protocol: IpProtocol, label: u32) -> u32 {
        let (src, dst, ports) = self.fields.arrange(src, dst, ports);
        let label = if self.fields.has(Fields::LABEL) { label } else { 0 };
        hash6(src, dst, ports, self.protocol(protocol), label, self.seed)
    }

    fn protocol(self, protocol: IpProtocol) -> IpProtocol {
        if self.fields.has(Fields::PROTO) { protocol } else { IpProtocol(0) }
    }
}

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;
const K2: u64 = 0xa076_1d64_78bd_642f;

/// Protocols that have ports, one bit a number. A shift is cheaper than comparisons that depend on traffic.
const PORTS: [u64; 4] = {
    let mut bits = [0u64; 4];
    let mut n = 0;
    while n < 256 {
        if IpProtocol(n as u8).has_ports() {
            bits[n / 64] |= 1 << (n % 64);
        }
        n += 1;
    }
    bits
};

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn has_ports(protocol: IpProtocol) -> bool {
    PORTS[usize::from(protocol.0 >> 6)] >> (protocol.0 & 63) & 1 != 0
}

/// Hash of an IPv4 flow. `ports` holds the source port in its high half, the destination port in its low half, 0
/// where there are none.
#[inline(always)]
pub fn hash4(src: u32, dst: u32, ports: u32, protocol: IpProtocol, seed: u32) -> u32 {
    hash_pair4(u64::from(src) << 32 | u64::from(dst), ports, protocol, seed)
}

#[inline(always)]
fn hash_pair4(addrs: u64, ports: u32, protocol: IpProtocol, seed: u32) -> u32 {
    let rest = u64::from(ports) << 8 | u64::from(protocol.0);
    let h = fold(addrs ^ K0, rest ^ K1 ^ u64::from(seed) << 40);
    fold(h ^ addrs, K2) as u32
}

/// Hash of an IPv6 flow; `label` is the flow label to include (RFC 6438), 0 for none.
#[inline(always)]
pub fn hash6(src: u128, dst: u128, ports: u32, protocol: IpProtocol, label: u32, seed: u32) -> u32 {
    let (s, d) =
        (fold((src >> 64) as u64 ^ K0, src as u64 ^ K1), fold((dst >> 64) as u64 ^ K1, dst as u64 ^ K2));
    let rest = u64::from(ports) << 8 | u64::from(protocol.0);
    let h = fold(s ^ rest ^ K2, d.rotate_left(32) ^ u64::from(label) << 44 ^ u64::from(seed) ^ K0);
    fold(h ^ s ^ d, K2) as u32
}

/// Hash of a packet whose header was checked: `first` starts with the IPv4 header. Fragments, all of them, are hashed
/// without ports so that they take one path.
#[inline]
pub fn of_ip4(first: &[u8], flow: Flow) -> u32 {
    let Some(h) = first.first_chunk() else { return flow.seed };
    let h = Ip4Header(h);
    let mut ports = 0;
    if has_ports(h.protocol()) & !h.is_fragment() {
        ports = first.get(h.header_len()..).and_then(|l4| l4.first_chunk()).map_or(0, |p| be32::<4>(p, 0));
    }
    flow.hash4(h.src_u32(), h.dst_u32(), ports, h.protocol())
}

/// [`of_ip4`] of a whole packet without options from its first bytes; `None` where more has to be looked at.
#[inline(always)]
pub fn of_ip4_plain(h: &[u8; 24], flow: Flow) -> Option<u32> {
    let fixed = Ip4Header(h.first_chunk()?);
    let plain =
        h[0] == 0x45 && !fixed.is_fragment() && fixed.total_len() >= 24 && has_ports(fixed.protocol());
    // Both addresses are one word in the header already.
    let [a, b, c, d, e, f, g, i] = *h[12..].first_chunk()?;
    let addrs = u64::from_be_bytes([a, b, c, d, e, f, g, i]);
    plain.then(|| flow.hash_pair4(addrs, be32(h, 20), fixed.protocol()))
}

/// [`of_ip4`] of a packet without options of at least 24 bytes from its first ones; `None` for others.
#[inline(always)]
pub fn of_ip4_near(h: &[u8; 24], flow: Flow) -> Option<u32> {
    let fixed = Ip4Header(h.first_chunk()?);
    let ports = if has_ports(fixed.protocol()) & !fixed.is_fragment() { be32(h, 20) } else { 0 };
    (h[0] == 0x45).then(|| flow.hash4(fixed.src_u32(), fixed.dst_u32(), ports, fixed.protocol()))
}

/// [`of_ip6`] of a packet of at least 44 bytes from its first ones; `None` where extension headers may follow.
#[inline(always)]
pub fn of_ip6_near(h: &[u8; 44], flow: Flow) -> Option<u32> {
    let fixed = Ip6Header(h.first_chunk()?);
    let next = fixed.next_header();
    let ports = if has_ports(next) { be32(h, 40) } else { 0 };
    let plain = has_ports(next) || next == IpProtocol::ICMPV6;
    plain.then(|| flow.hash6(fixed.src_u128(), fixed.dst_u128(), ports, next, fixed.flow_label()))
}

/// [`of_ip6`] of a packet without extension headers from its first bytes; `None` where more has to be
/// looked at.
#[inline(always)]
pub fn of_ip6_plain(h: &[u8; 44], flow: Flow) -> Option<u32> {
    let fixed = Ip6Header(h.first_chunk()?);
    let plain = fixed.payload_len() >= 4 && has_ports(fixed.next_header());
    let (src, dst, ports) = (fixed.src_u128(), fixed.dst_u128(), be32(h, 40));
    plain.then(|| flow.hash6(src, dst, ports, fixed.next_header(), fixed.flow_label()))
}

/// Hash of a packet whose header was checked: `first` starts with the IPv6 header.
#[inline]
pub fn of_ip6(first: &[u8], flow: Flow) -> u32 {
    let Some(fixed) = first.first_chunk() else { return flow.seed };
    let h = Ip6Header(fixed);
    let (ports, protocol) = if has_ports(h.next_header()) {
        let l4: Option<&[u8; 44]> = first.first_chunk();
        (l4.map_or(0, |p| u32::from_be_bytes(array(p, 40))), h.next_header())
    } else {
        behind_extensions(first, h.next_header())
    };
    flow.hash6(h.src_u128(), h.dst_u128(), ports, protocol, h.flow_label())
}

/// Labels of a stack that are looked at.
const MOST_LABELS: usize = 16;

/// Hash of a labelled packet that begins with its stack: of its entropy label where it has one (RFC 6790), else of the IP
/// packet below, else of the labels that are not reserved.
#[inline]
pub fn of_mpls(first: &[u8], flow: Flow) -> u32 {
    let of_labels = |labels: &[u8]| {
        let labels = labels.as_chunks::<4>().0.iter().map(|e| Entry::from_bytes(*e).label());
        labels
            .filter(|l| !l.is_reserved())
            .fold(flow.seed, |h, l| hash4(h, l.value(), 0, IpProtocol(137), flow.seed))
    };
    let Ok(stack) = StackView::parse(first, MOST_LABELS) else {
        return of_labels(&first[..first.len().min(4 * MOST_LABELS)]);
    };
    if let Some(entropy) = stack.entropy() {
        return hash4(0, entropy.value(), 0, IpProtocol(137), flow.seed);
    }
    match Payload::guess(stack.payload()) {
        Payload::Ip4 => of_ip4(stack.payload(), flow),
        Payload::Ip6 => of_ip6(stack.payload(), flow),
        Payload::Other => of_labels(stack.as_bytes()),
    }
}

/// Hash of an Ethernet frame: that of the IP packet in it, else one of its addresses and type.
pub fn of_frame(frame: &[u8], flow: Flow) -> u32 {
    let Some(link) = VlanStack::parse(frame) else { return flow.seed };
    let payload = frame.get(usize::from(link.header_len)..).unwrap_or_default();
    match link.ethertype {
        EtherType::IPV4 if payload.len() >= ip4::HEADER_LEN => of_ip4(payload, flow),
        EtherType::IPV6 if payload.len() >= ip6::HEADER_LEN => of_ip6(payload, flow),
        other => {
            let mac = |at: usize| frame[at..at + 6].iter().fold(0, |n, b| n << 8 | u128::from(*b));
            hash6(mac(6), mac(0), other.0.into(), IpProtocol(0), 0, flow.seed)
        }
    }
}

/// Ports and protocol of a packet whose next header has no ports of its own.
#[inline]
fn behind_extensions(first: &[u8], next: IpProtocol) -> (u32, IpProtocol) {
    let Ok(upper) = ip6::ext::walk(first) else { return (0, next) };
    let whole = upper.fragment.is_none_or(|f| f.is_atomic());
    if !whole || !has_ports(upper.protocol) {
        return (0, upper.protocol);
    }
    let l4 = first.get(upper.offset..).and_then(|l4| l4.first_chunk());
    (l4.map_or(0, |p| be32::<4>(p, 0)), upper.protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chi-square of `hashes` over `buckets`, divided by its degrees of freedom: about 1 for a fair spread.
    fn unfairness(hashes: impl Iterator<Item = u32>, buckets: u32, pick: fn(u32, u32) -> u32) -> f64 {
        let mut counts = vec![0u32; buckets as usize];
        let mut total = 0;
        for hash in hashes {
            counts[pick(hash, buckets) as usize] += 1;
            total += 1;
        }
        let mean = f64::from(total) / f64::from(buckets);
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
        chi / f64::from(buckets - 1)
    }

    fn by_mask(hash: u32, buckets: u32) -> u32 {
        hash & (buckets - 1)
    }

    fn by_high_bits(hash: u32, buckets: u32) -> u32 {
        ((u64::from(hash) * u64::from(buckets)) >> 32) as u32
    }

    proptest! {
        #[test]
        fn plain_hashes_are_those_of_the_whole_packet(
            mut p in proptest::collection::vec(any::<u8>(), 64), plain: bool, protocol in 0..20u8, seed: u32, fields: u8,
        ) {
            let flow = Flow { seed, fields: Fields(fields) };
            if plain {
                (p[0], p[6], p[7], p[9]) = (0x45, 0x40, 0, protocol);
                (p[2], p[3]) = (0, 64);
            }
            let found = of_ip4_plain(p.first_chunk().unwrap(), flow);
            prop_assert!(found.is_none_or(|h| h == of_ip4(&p, flow)));
            prop_assert!(!plain || found.is_some() == has_ports(IpProtocol(protocol)));
            if plain {
                (p[0], p[4], p[5], p[6]) = (0x60, 0, 24, protocol);
            }
            let found = of_ip6_plain(p.first_chunk().unwrap(), flow);
            prop_assert!(found.is_none_or(|h| h == of_ip6(&p, flow)));
            prop_assert!(!plain || found.is_some() == has_ports(IpProtocol(protocol)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// What is hashed from the first bytes is hashed from the whole packet.
        #[test]
        fn near_is_as_from_the_whole(bytes: [u8; 44], behind in prop::collection::vec(any::<u8>(), 0..60), protocol in 0usize..8) {
            let flow = Flow::five_tuple(7);
            let mut whole = bytes.to_vec();
            whole.extend(behind);
            let protocol = [6, 17, 1, 58, 47, 0, 44, 60][protocol];
            (whole[0], whole[9]) = (0x45, protocol);
            if whole[3] & 1 == 0 {
                (whole[6], whole[7]) = (0x40, 0);
            }
            let near = of_ip4_near(whole.first_chunk().unwrap(), flow);
            prop_assert_eq!(near, Some(of_ip4(&whole, flow)));
            if let Some(plain) = of_ip4_plain(whole.first_chunk().unwrap(), flow) {
                prop_assert_eq!(Some(plain), near);
            }
            (whole[0], whole[6]) = (0x60, protocol);
            let near = of_ip6_near(whole.first_chunk().unwrap(), flow);
            prop_assert_eq!(near.is_some(), matches!(protocol, 6 | 17 | 58));
            prop_assert!(near.is_none_or(|hash| hash == of_ip6(&whole, flow)));
        }
    }

    #[test]
    fn spreads_incrementing_fields() {
        const N: u32 = 65536;
        let (a, b, p) = (0x0a00_0001u32, 0xc633_6401u32, 0x3039_0050u32);
        let (a6, b6) = (0x2001_0db8_u128 << 96 | 1, 0x2001_0db8_0001_u128 << 80 | 2);
        type Key = Box<dyn Fn(u32, u32) -> u32>;
        let cases: Vec<(&str, Key)> = vec![
            ("src", Box::new(move |i, s| hash4(a + i, b, p, IpProtocol::UDP, s))),
            ("dst", Box::new(move |i, s| hash4(a, b + i, p, IpProtocol::UDP, s))),
            ("dst /24", Box::new(move |i, s| hash4(a, b.wrapping_add(i << 8), p, IpProtocol::UDP, s))),
            ("src port", Box::new(move |i, s| hash4(a, b, p ^ i << 16, IpProtocol::TCP, s))),
            ("dst port", Box::new(move |i, s| hash4(a, b, p ^ i, IpProtocol::TCP, s))),
            ("both addresses", Box::new(move |i, s| hash4(a + i, b + i, p, IpProtocol::UDP, s))),
            ("pairs", Box::new(move |i, s| hash4(a + i % 256, b + i / 256, 0, IpProtocol::ICMP, s))),
            ("src6", Box::new(move |i, s| hash6(a6 + u128::from(i), b6, p, IpProtocol::UDP, 0, s))),
            ("dst6", Box::new(move |i, s| hash6(a6, b6 + u128::from(i), p, IpProtocol::UDP, 0, s))),
            (
                "dst6 /64",
                Box::new(move |i, s| hash6(a6, b6 + (u128::from(i) << 64), p, IpProtocol::UDP, 0, s)),
            ),
            ("port6", Box::new(move |i, s| hash6(a6, b6, p ^ i << 16, IpProtocol::UDP, 0, s))),
            ("label6", Box::new(move |i, s| hash6(a6, b6, p, IpProtocol::UDP, i, s))),
            (
                "both6",
                Box::new(move |i, s| hash6(a6 + u128::from(i), b6 + u128::from(i), 0, IpProtocol::UDP, 0, s)),
            ),
        ];
        for (name, key) in &cases {
            for seed in [0, 1, 0xdead_beef] {
                for buckets in [16, 64] {
                    for pick in [by_mask, by_high_bits] {
                        let value = unfairness((0..N).map(|i| key(i, seed)), buckets, pick);
                        // Twice the mean has a probability under 1e-4 for 15 degrees of freedom.
                        assert!(value < 3.0, "{name}, seed {seed}, {buckets} buckets: {value:.2}");
                    }
                }
            }
        }
    }

    #[test]
    fn avalanche() {
        // Each flipped input bit changes about half of the output bits.
        for bit in 0..104u32 {
            let mut changed = 0;
            for i in 0..1000u32 {
                let (s, d, p) = (i.wrapping_mul(0x9e37_79b9), i.wrapping_mul(0x85eb_ca6b), i << 16 | 80);
                let base = hash4(s, d, p, IpProtocol::UDP, 7);
                let flip = |field: u32| if bit / 32 == field { 1 << (bit % 32) } else { 0 };
                let proto = IpProtocol(17 ^ flip(3) as u8);
                changed += (base ^ hash4(s ^ flip(0), d ^ flip(1), p ^ flip(2), proto, 7)).count_ones();
            }
            let mean = f64::from(changed) / 1000.0;
            assert!((14.0..18.0).contains(&mean), "bit {bit}: {mean}");
        }
    }

    #[test]
    fn seeds_give_independent_choices() {
        let same = (0..4096u32)
            .filter(|&i| {
                let h = |seed| hash4(0x0a00_0001 + i, 0xc633_6401, 80, IpProtocol::TCP, seed) & 15;
                h(1) == h(2)
            })
            .count();
        assert!((150..370).contains(&same), "{same} of 4096, expected about 256");
    }

    fn ip4(protocol: u8, flags: u16, ports: u32) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 24, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        p[6..8].copy_from_slice(&flags.to_be_bytes());
        p.extend(ports.to_be_bytes());
        p
    }

    #[test]
    fn only_chosen_fields_count() {
        let flow = |fields| Flow { seed: 5, fields };
        let base = (10, 20, 30 << 16 | 40, IpProtocol::UDP);
        let h = |f: Fields, (s, d, p, q): (u32, u32, u32, IpProtocol)| flow(f).hash4(s, d, p, q);
        let others = [
            (Fields::SRC, (11, 20, 30 << 16 | 40, IpProtocol::UDP)),
            (Fields::DST, (10, 21, 30 << 16 | 40, IpProtocol::UDP)),
            (Fields::SPORT, (10, 20, 31 << 16 | 40, IpProtocol::UDP)),
            (Fields::DPORT, (10, 20, 30 << 16 | 41, IpProtocol::UDP)),
            (Fields::PROTO, (10, 20, 30 << 16 | 40, IpProtocol::TCP)),
        ];
        for (field, other) in others {
            for fields in (0..32).map(Fields) {
                assert_eq!(h(fields, base) != h(fields, other), fields.has(field), "{fields:?} {field:?}");
            }
        }
        let back = (20, 10, 40 << 16 | 30, IpProtocol::UDP);
        let same = Fields::FIVE_TUPLE.with(Fields::SYMMETRIC);
        assert_eq!(h(same, base), h(same, back));
        assert_eq!(h(Fields::FIVE_TUPLE.with(Fields::REVERSE), base), h(Fields::FIVE_TUPLE, back));
        assert_ne!(h(Fields::FIVE_TUPLE, base), h(Fields::FIVE_TUPLE, back));
        let to_itself = (10, 10, 30 << 16 | 40, IpProtocol::UDP);
        assert_eq!(h(same, to_itself), h(same, (10, 10, 40 << 16 | 30, IpProtocol::UDP)));
        let six = |s, d, p| flow(same).hash6(s, d, p, IpProtocol::TCP, 0);
        assert_eq!(six(1 << 100, 7, 30 << 16 | 40), six(7, 1 << 100, 40 << 16 | 30));
        assert_eq!(same.words().collect::<Vec<_>>(), ["src", "dst", "sport", "dport", "proto", "symmetric"]);
        assert_eq!(Fields::SYMMETRIC.or_five_tuple(), same);
        assert_eq!(Fields::SRC.with(Fields::SYMMETRIC).or_five_tuple(), Fields::SRC.with(Fields::SYMMETRIC));
    }

    /// What is refused is what would send the directions of a flow different ways, and nothing else.
    #[test]
    fn symmetric_fields_are_symmetric() {
        for fields in (0..=255).map(Fields) {
            let flow = Flow { seed: 5, fields };
            let six = |s, d, p, label| flow.hash6(s, d, p, IpProtocol::UDP, label);
            let same = six(1 << 100, 7, 30 << 16 | 40, 1) == six(7, 1 << 100, 40 << 16 | 30, 2);
            assert_eq!(
                fields.has(Fields::SYMMETRIC) && !same,
                fields.check().is_err(),
                "{fields:?} {:?}",
                fields.check()
            );
            if fields.check().is_ok() && fields.has(Fields::SYMMETRIC) {
                let four = |s, d, p| flow.hash4(s, d, p, IpProtocol::UDP);
                assert_eq!(four(10, 20, 30 << 16 | 40), four(20, 10, 40 << 16 | 30), "{fields:?}");
            }
        }
    }

    #[test]
    fn ports_count_only_in_whole_packets() {
        let h = |p: &[u8]| of_ip4(p, Flow::five_tuple(5));
        assert_ne!(h(&ip4(17, 0, 1)), h(&ip4(17, 0, 2)));
        assert_ne!(h(&ip4(17, 0x4000, 1)), h(&ip4(17, 0x4000, 2)));
        assert_eq!(h(&ip4(17, 0, 1)), h(&ip4(17, 0x4000, 1)), "don't fragment does not matter");
        assert_eq!(h(&ip4(17, 0x2000, 1)), h(&ip4(17, 0x0005, 2)), "all fragments together");
        assert_eq!(h(&ip4(1, 0, 1)), h(&ip4(1, 0, 2)), "ICMP has no ports");
        let mut options = ip4(6, 0, 0);
        options[0] = 0x46;
        options.extend([0, 80, 0, 90]);
        let mut other = options.clone();
        other[27] = 91;
        assert_ne!(h(&options), h(&other), "ports behind options");
    }

    #[test]
    fn ip6_extensions_label_and_fragments() {
        let packet = |next: u8, rest: &[u8]| {
            let mut p = vec![0; 40];
            (p[0], p[6], p[39]) = (0x60, next, 1);
            p.extend_from_slice(rest);
            p
        };
        let h = |p: &[u8]| of_ip6(p, Flow::five_tuple(5));
        let plain = packet(17, &[0, 1, 0, 2]);
        let hop_by_hop = packet(0, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2]);
        assert_eq!(h(&plain), h(&hop_by_hop));
        assert_ne!(h(&plain), h(&packet(17, &[0, 1, 0, 3])));
        let first = packet(44, &[17, 0, 0, 1, 0, 0, 0, 9, 0, 1, 0, 2]);
        let later = packet(44, &[17, 0, 0, 9, 0, 0, 0, 9, 7, 7, 7, 7]);
        assert_eq!(h(&first), h(&later));
        let atomic = packet(44, &[17, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 2]);
        assert_eq!(h(&plain), h(&atomic));
        let mut labelled = plain.clone();
        labelled[3] = 9;
        assert_eq!(h(&plain), h(&labelled));
        let flow = Flow { seed: 5, fields: Fields::FIVE_TUPLE.with(Fields::LABEL) };
        assert_ne!(of_ip6(&plain, flow), of_ip6(&labelled, flow));
    }

    #[test]
    fn frames_are_told_apart_by_what_they_carry() {
        let flow = Flow::five_tuple(5);
        let frame = |macs: u8, rest: &[u8]| [&[macs; 12][..], rest].concat();
        let packet = ip4(17, 0, 1);
        let plain = frame(2, &[&[8, 0][..], &packet].concat());
        let tagged = frame(4, &[&[0x81, 0, 0, 9, 8, 0][..], &packet].concat());
        assert_eq!(of_frame(&plain, flow), of_ip4(&packet, flow));
        assert_eq!(of_frame(&tagged, flow), of_ip4(&packet, flow));
        let arp = |macs: u8| of_frame(&frame(macs, &[8, 6, 1]), flow);
        assert_eq!(arp(2), of_frame(&frame(2, &[8, 6, 7]), flow));
        assert_ne!(arp(2), arp(4));
        assert_eq!(of_frame(&plain[..33], flow), of_frame(&plain[..14], flow), "too short for an IP header");
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100), seed: u32) {
            let flow = Flow { seed, fields: Fields(seed as u8) };
            of_ip4(&data, flow);
            of_ip6(&data, flow);
            of_frame(&data, flow);
        }

        #[test]
        fn table_of_protocols(n: u8) {
            prop_assert_eq!(has_ports(IpProtocol(n)), IpProtocol(n).has_ports());
        }
    }
}
