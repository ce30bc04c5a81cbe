//! What `ip4-input` asks of the addresses of every packet, in the fewest instructions: whether hosts may have them.
//!
//! Few packets come from the network or broadcast address of a connected prefix, and none should be looked up to know. So the last
//! octet of such addresses is marked, in a table that is asked about the destination anyway; what is marked is asked of a hash,
//! and what that knows too is looked up.

use packet::checksum::Multiples;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Whether an address is in 0/8 or 127/8, or is of many hosts or reserved.
pub const fn is_odd(addr: u32) -> bool {
    let first = addr >> 24;
    first == 0 || first == 127 || first >= 224
}

/// Marks of a first octet: last octets with the same lower bits have one together, so that the frequent ones beside 0 and 255, .1 and
/// .254, are not with them.
const MARKS: usize = 32;
/// Bytes from the marks of one first octet to those of the next: for the least work when a mark is looked for.
const ROW: usize = 256;

/// Octets by which addresses are told that need a closer look. Plain bytes: workers get another table when they change.
#[derive(Clone)]
pub struct Marks {
    /// By the first octet of the source: see [`is_odd`].
    source: [u8; 256],
    /// By the first octet of the destination, and by the lower bits of the last of the source, which stands beside it in a header.
    beside: [u8; 256 * ROW],
    nobodies: Option<Arc<Nobodies>>,
    /// For the checksum, which is asked for beside.
    pub multiples: Multiples,
}

impl Marks {
    /// Without connected prefixes.
    pub const PLAIN: Marks = Marks::plain();

    const fn plain() -> Self {
        let (mut source, mut beside) = ([0; 256], [0; 256 * ROW]);
        let mut first = 0;
        while first < 256 {
            source[first] = if is_odd((first as u32) << 24) { ODD } else { 0 };
            let mut last = 0;
            while last < MARKS {
                beside[first * ROW + last] = source[first];
                last += 1;
            }
            first += 1;
        }
        Marks { source, beside, nobodies: None, multiples: Multiples::OF_0XFFFF }
    }

    /// Whether two addresses may be those of single hosts, as far as these marks can tell; `both` has them as they stand in a header,
    /// the first octet of the source lowest.
    #[inline(always)]
    pub fn pass(&self, both: u64) -> bool {
        let beside = ((both >> 24) & MASK) as usize;
        let seen = self.source[usize::from(both as u8)] | self.beside[beside];
        // Mostly a host whose last octet resembles that of a broadcast address: told here, as a call would cost the others too.
        seen == 0 || seen == MARKED && !self.may_be_nobodys((both as u32).swap_bytes())
    }

    /// Whether an address may be the network or broadcast address of a connected prefix of any table: never false for one that is.
    #[inline(always)]
    pub fn may_be_nobodys(&self, addr: u32) -> bool {
        self.nobodies.as_ref().is_some_and(|n| n.may_have(addr))
    }
}

impl Default for Marks {
    fn default() -> Self {
        Marks::PLAIN
    }
}

/// Of a first octet: no single host has such an address.
const ODD: u8 = 1;
/// Of a last octet: it is like that of a network or broadcast address.
const MARKED: u8 = 2;

const MASK: u64 = 0xff00 | (MARKS as u64 - 1);

/// Bits of a hash of addresses.
const BITS: u32 = 14;

/// How many connected prefixes have an address for their network or as their broadcast, by a hash of it and by the mark of its last
/// octet. Changed in place: workers look at a hash only when the mark is set.
pub struct Nobodies {
    by_hash: [AtomicU32; 1 << BITS],
    by_mark: [AtomicU32; MARKS],
}

impl Default for Nobodies {
    fn default() -> Self {
        Nobodies {
            by_hash: [const { AtomicU32::new(0) }; 1 << BITS],
            by_mark: [const { AtomicU32::new(0) }; MARKS],
        }
    }
}

impl Nobodies {
    #[inline(always)]
    fn slot(&self, addr: u32) -> Option<&AtomicU32> {
        self.by_hash.get((addr.swap_bytes().wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize)
    }

    #[inline(always)]
    fn may_have(&self, addr: u32) -> bool {
        self.slot(addr).is_none_or(|n| n.load(Relaxed) != 0)
    }

    /// Control side: one more prefix, or one less, has this address. The marks to publish, where they change.
    pub fn count(self: &Arc<Self>, addr: u32, more: bool, marks: &Marks) -> Option<Marks> {
        let step = |n: &AtomicU32| {
            let was = n.load(Relaxed);
            let now = if more { was.saturating_add(1) } else { was.saturating_sub(1) };
            n.store(now, Relaxed);
            (was != 0, now != 0)
        };
        self.slot(addr).map(step);
        let mark = addr as usize % MARKS;
        let (was, is) = self.by_mark.get(mark).map(step)?;
        (was != is).then(|| {
            let mut marks = marks.clone();
            for row in marks.beside.chunks_mut(ROW) {
                row[mark] = row[mark] & ODD | if is { MARKED } else { 0 };
            }
            marks.nobodies = Some(Arc::clone(self));
            marks
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn both(src: u32, dst: u32) -> u64 {
        u64::from(src.swap_bytes()) | u64::from(dst.swap_bytes()) << 32
    }

    #[test]
    fn addresses_are_marked_while_a_prefix_has_them() {
        let (nobodies, mut marks) = (Arc::<Nobodies>::default(), Marks::PLAIN);
        let a = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
        let mut stopped_after = |addr: &str, more| {
            if let Some(new) = nobodies.count(a(addr), more, &marks) {
                marks = new;
            }
            for host in ["10.0.0.254", "10.0.0.1", "10.9.8.255", "192.0.2.248"] {
                assert!(marks.pass(both(a(host), a("192.0.2.9"))), "{host}");
            }
            ["10.0.0.255", "10.0.1.255", "10.0.0.0"].map(|src| !marks.pass(both(a(src), a("192.0.2.9"))))
        };
        assert_eq!(stopped_after("10.0.0.255", true), [true, false, false]);
        assert_eq!(stopped_after("10.0.0.255", true), [true, false, false]);
        assert_eq!(stopped_after("10.0.1.255", true), [true, true, false]);
        assert_eq!(stopped_after("10.0.0.0", true), [true, true, true]);
        assert_eq!(stopped_after("10.0.0.255", false), [true, true, true], "another prefix has it still");
        assert_eq!(stopped_after("10.0.0.255", false), [false, true, true]);
        assert_eq!(stopped_after("10.0.0.0", false), [false, true, false]);
        assert_eq!(stopped_after("10.0.1.255", false), [false; 3]);
        assert_eq!(stopped_after("10.0.1.255", false), [false; 3], "never below none");
    }

    #[test]
    fn martians_are_stopped_with_and_without_prefixes() {
        let nobodies = Arc::<Nobodies>::default();
        let some = nobodies.count(0x0a00_00ff, true, &Marks::PLAIN).unwrap();
        let none = nobodies.count(0x0a00_00ff, false, &some).unwrap();
        for addr in (0..=u32::MAX).step_by(0xff_fff1) {
            let odd = packet::ip4::addr::is_martian_source(addr);
            for marks in [&Marks::PLAIN, &some, &none] {
                assert_eq!(marks.pass(both(addr, 0x0a00_0001)), !odd, "{addr:#x}");
                assert_eq!(marks.pass(both(0x0a00_0001, addr)), !odd, "{addr:#x}");
            }
        }
    }
}
