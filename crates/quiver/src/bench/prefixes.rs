//! Routing tables for the scenarios: read from a file, or made with the prefix lengths of the real ones.

use super::random::Random;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashSet;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

/// How many of 1,042,325 IPv4 prefixes of a full table (RIPE RIS, May 2026) have each length.
const LENGTHS4: &[(u8, usize)] = &[
    (8, 16),
    (9, 14),
    (10, 39),
    (11, 95),
    (12, 297),
    (13, 584),
    (14, 1201),
    (15, 2129),
    (16, 13635),
    (17, 8347),
    (18, 13387),
    (19, 25516),
    (20, 45627),
    (21, 52463),
    (22, 113_741),
    (23, 107_869),
    (24, 657_365),
];

/// The same of 246,175 IPv6 prefixes.
const LENGTHS6: &[(u8, usize)] = &[
    (16, 1),
    (19, 1),
    (20, 14),
    (21, 3),
    (22, 6),
    (23, 6),
    (24, 42),
    (25, 12),
    (26, 17),
    (27, 18),
    (28, 161),
    (29, 5435),
    (30, 827),
    (31, 341),
    (32, 26740),
    (33, 5407),
    (34, 5197),
    (35, 1837),
    (36, 9424),
    (37, 1208),
    (38, 2677),
    (39, 1829),
    (40, 23096),
    (41, 1697),
    (42, 2924),
    (43, 1453),
    (44, 24860),
    (45, 4511),
    (46, 5640),
    (47, 8925),
    (48, 111_866),
];

/// A prefix of either family; the address stands in the uppermost bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Its address, left-aligned.
    pub addr: u128,
    /// Its length.
    pub len: u8,
}

impl Prefix {
    fn mask(len: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
    }

    /// `net` in this shape.
    pub fn new(net: IpNet) -> Self {
        match net.trunc() {
            IpNet::V4(n) => Prefix { addr: u128::from(u32::from(n.addr())) << 96, len: n.prefix_len() },
            IpNet::V6(n) => Prefix { addr: n.addr().into(), len: n.prefix_len() },
        }
    }

    /// The prefix of length `len`, at most its own, that holds it.
    pub fn shortened(self, len: u8) -> Self {
        let len = len.min(self.len);
        Prefix { addr: self.addr & Self::mask(len), len }
    }

    /// True when it holds `addr`.
    pub fn holds(self, addr: u128) -> bool {
        (addr ^ self.addr) & Self::mask(self.len) == 0
    }

    /// As the router takes it.
    pub fn net(self, v6: bool) -> Option<IpNet> {
        if v6 {
            Ipv6Net::new(Ipv6Addr::from(self.addr), self.len).ok().map(IpNet::V6)
        } else {
            Ipv4Net::new(Ipv4Addr::from((self.addr >> 96) as u32), self.len).ok().map(IpNet::V4)
        }
    }

    fn random_inside(self, random: &mut Random, v6: bool) -> u128 {
        let width = if v6 { u128::MAX } else { Self::mask(32) };
        self.addr | random.wide() & !Self::mask(self.len) & width
    }
}

/// The prefixes of one family, in order.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    /// IPv6.
    pub v6: bool,
    /// Sorted by address and length, each once.
    pub list: Vec<Prefix>,
}

impl Prefixes {
    /// A table of these prefixes.
    pub fn of(v6: bool, mut list: Vec<Prefix>) -> Self {
        list.sort_unstable();
        list.dedup();
        Prefixes { v6, list }
    }

    /// One prefix.
    pub fn one(net: IpNet) -> Self {
        Self::of(net.addr().is_ipv6(), vec![Prefix::new(net)])
    }

    /// `n` prefixes at random addresses of the unicast space, their lengths spread like a full table's.
    pub fn mix(v6: bool, n: usize, random: &mut Random) -> Self {
        let lengths = if v6 { LENGTHS6 } else { LENGTHS4 };
        let all: usize = lengths.iter().map(|l| l.1).sum();
        let (mut seen, mut list) = (HashSet::with_capacity(n), Vec::with_capacity(n));
        let mut carry = 0.0;
        for (i, &(len, share)) in lengths.iter().enumerate() {
            carry += share as f64 * n as f64 / all as f64;
            let mut want = if i + 1 == lengths.len() { n - list.len() } else { carry as usize };
            // At most half of all there are, so that drawing them ends; the rest goes to the next length.
            let bits = u32::from(len) - if v6 { 3 } else { 0 };
            want = want.min(1usize.checked_shl(bits.saturating_sub(1)).unwrap_or(usize::MAX));
            carry -= want as f64;
            let mut tries = want.saturating_mul(20);
            while want > 0 && tries > 0 {
                tries -= 1;
                let raw = random.wide();
                let addr = if v6 { raw >> 3 | 1 << 125 } else { raw };
                let p = Prefix { addr: addr & Prefix::mask(len), len };
                if (v6 || unicast4(p)) && seen.insert(p) {
                    list.push(p);
                    want -= 1;
                }
            }
            carry += want as f64;
        }
        Self::of(v6, list)
    }

    /// These and `other`'s, of the same family.
    pub fn with(mut self, other: Prefixes) -> Self {
        self.list.extend(other.list);
        Self::of(other.v6, self.list)
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// `n` addresses, in random order, drawn over all prefixes. An address of a prefix is one that no longer prefix
    /// holds, where a few tries find one.
    pub fn uniform(&self, n: usize, random: &mut Random) -> Vec<u128> {
        let tree = Tree::new(&self.list);
        // Every prefix once before any comes again.
        let mut turns: Vec<u32> = (0..self.list.len() as u32).collect();
        let mut out = Vec::with_capacity(n);
        while out.len() < n && !turns.is_empty() {
            random.shuffle(&mut turns);
            out.extend(turns.iter().take(n - out.len()).map(|i| tree.inside(*i as usize, random, self.v6)));
        }
        random.shuffle(&mut out);
        out
    }

    /// `n` addresses, one for each prefix, drawn with the frequencies of Zipf's law (s = 1); which prefixes are the
    /// popular ones is random.
    pub fn zipf(&self, n: usize, random: &mut Random) -> Vec<u128> {
        let tree = Tree::new(&self.list);
        let mut places: Vec<u128> = (0..self.list.len()).map(|i| tree.inside(i, random, self.v6)).collect();
        random.shuffle(&mut places);
        let mut sum = 0.0;
        let cumulative: Vec<f64> = (1..=places.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let mut draw = || {
            let at = random.unit() * sum;
            let rank = cumulative.partition_point(|c| *c <= at).min(places.len() - 1);
            places[rank]
        };
        if places.is_empty() { vec![] } else { (0..n).map(|_| draw()).collect() }
    }
}

fn unicast4(p: Prefix) -> bool {
    let first = (p.addr >> 120) as u8;
    (1..224).contains(&first) && first != 10 && first != 127
}

/// Which prefix holds which, to find the longest one of an address.
struct Tree<'a> {
    list: &'a [Prefix],
    parent: Vec<u32>,
}

impl<'a> Tree<'a> {
    fn new(list: &'a [Prefix]) -> Self {
        let (mut open, mut parent): (Vec<u32>, Vec<u32>) = (vec![], Vec::with_capacity(list.len()));
        for (i, p) in list.iter().enumerate() {
            while open.last().is_some_and(|o| !list[*o as usize].holds(p.addr)) {
                open.pop();
            }
            parent.push(open.last().copied().unwrap_or(u32::MAX));
            open.push(i as u32);
        }
        Tree { list, parent }
    }

    fn owner(&self, addr: u128) -> Option<usize> {
        let mut at = self.list.partition_point(|p| p.addr <= addr).checked_sub(1)?;
        while !self.list[at].holds(addr) {
            at = self.parent[at] as usize;
            if at >= self.list.len() {
                return None;
            }
        }
        Some(at)
    }

    fn inside(&self, i: usize, random: &mut Random, v6: bool) -> u128 {
        let mut addr = self.list[i].addr;
        for _ in 0..4 {
            addr = self.list[i].random_inside(random, v6);
            if self.owner(addr) == Some(i) {
                break;
            }
        }
        addr
    }
}

/// The text of a file, which `xz` unpacks when it is packed.
pub fn text_of(file: &Path) -> Result<String, String> {
    let fail = |e: std::io::Error| format!("cannot read {}: {e}", file.display());
    let mut bytes = vec![];
    std::fs::File::open(file).and_then(|mut f| f.read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.starts_with(b"\xfd7zXZ\0") {
        let done = Command::new("xz").arg("-dc").arg(file).stdin(Stdio::null()).output();
        let done = done.map_err(|e| format!("cannot run xz to unpack {}: {e}", file.display()))?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_string();
            return Err(format!("cannot unpack {}: {why}", file.display()));
        }
        bytes = done.stdout;
    }
    String::from_utf8(bytes).map_err(|_| format!("{} is not a text", file.display()))
}

/// The prefixes of a file, one a line, both families: IPv4 and IPv6. Empty lines and what follows a `#` are skipped.
pub fn load(file: &Path) -> Result<(Prefixes, Prefixes), String> {
    let (mut four, mut six) = (vec![], vec![]);
    for (n, line) in text_of(file)?.lines().enumerate() {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        let net: IpNet =
            word.parse().map_err(|_| format!("{}:{}: {word:?} is not a prefix", file.display(), n + 1))?;
        let list = if net.addr().is_ipv6() { &mut six } else { &mut four };
        list.push(Prefix::new(net));
    }
    Ok((Prefixes::of(false, four), Prefixes::of(true, six)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_the_lengths_of_the_real_table() {
        for (v6, n, len, share) in
            [(false, 100_000, 24, 0.63), (true, 20_000, 48, 0.45), (false, 10, 24, 0.6)]
        {
            let t = Prefixes::mix(v6, n, &mut Random::new(1));
            assert_eq!(t.len(), n);
            let of = t.list.iter().filter(|p| p.len == len).count() as f64 / n as f64;
            assert!((of - share).abs() < 0.11, "{of} of /{len}");
            assert!(t.list.iter().all(|p| p.net(v6).is_some_and(|n| n == n.trunc())));
        }
    }

    #[test]
    fn destinations_belong_to_their_prefixes() {
        let table = Prefixes::mix(false, 2000, &mut Random::new(7));
        let longest = |a: u128| table.list.iter().filter(|p| p.holds(a)).max_by_key(|p| p.len).copied();
        let tree = Tree::new(&table.list);
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let a = random.wide() & Prefix::mask(32);
            assert_eq!(tree.owner(a).map(|i| table.list[i]), longest(a));
        }
        let all = table.uniform(4000, &mut random);
        assert_eq!(all.len(), 4000);
        let hit: HashSet<Prefix> = all.iter().filter_map(|a| longest(*a)).collect();
        assert!(hit.len() > 1950, "{} of 2000 prefixes are hit", hit.len());
    }

    #[test]
    fn zipf_draws_the_most_popular_most() {
        let table = Prefixes::mix(true, 1000, &mut Random::new(7));
        let all = table.zipf(100_000, &mut Random::new(5));
        let mut count = std::collections::HashMap::<u128, usize>::new();
        all.iter().for_each(|a| *count.entry(*a).or_default() += 1);
        let mut n: Vec<usize> = count.into_values().collect();
        n.sort_unstable_by(|a, b| b.cmp(a));
        // The harmonic number of 1000 is 7.49.
        assert!((n[0] as f64 / 100_000.0 - 1.0 / 7.49).abs() < 0.01, "{}", n[0]);
        assert!((n[1] as f64 / n[0] as f64 - 0.5).abs() < 0.05);
    }

    #[test]
    fn files_of_prefixes_are_read_and_checked() {
        let dir = std::env::temp_dir().join(format!("quiver-prefixes-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("t.txt");
        std::fs::write(&file, "# a table\n10.0.0.0/8\n2001:db8::/32\n\n10.1.0.0/16 # inside\n10.0.0.0/8\n")
            .unwrap();
        let (four, six) = load(&file).unwrap();
        assert_eq!((four.len(), six.len()), (2, 1));
        std::fs::write(&file, "10.0.0.0/8\n10.0.0.0/33\n").unwrap();
        assert!(load(&file).unwrap_err().ends_with("t.txt:2: \"10.0.0.0/33\" is not a prefix"));
        assert!(load(&dir.join("none")).unwrap_err().starts_with("cannot read"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
