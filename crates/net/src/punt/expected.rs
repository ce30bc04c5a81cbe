//! Stations from which the router expects to hear: those that it has asked for, and those that it knows.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stations that are known at once; when they are more, some are forgotten. A power of two.
const SLOTS: usize = 32_768;
const TIME: u32 = 24;
const TIMES: u64 = (1 << TIME) - 1;
/// The time of a known one.
const ALWAYS: u64 = TIMES;
/// Who was asked is expected for so long, in units of 2^30 ns.
const SOON: u64 = 4;

/// A hashed set with one writer. A word is 40 bits of hash, and until when the station is expected.
pub struct Expected {
    slots: Box<[AtomicU64]>,
    /// Nobody outside knows who shares a slot.
    secret: RandomState,
}

impl Default for Expected {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Expected { slots, secret: RandomState::new() }
    }
}

fn time(now_ns: u64) -> u64 {
    // One less, so that no time is `ALWAYS`.
    (now_ns >> 30) % TIMES
}

fn is_over(word: u64, now_ns: u64) -> bool {
    let until = word & TIMES;
    until != ALWAYS && (until + TIMES - time(now_ns)) % TIMES > SOON
}

impl Expected {
    /// The two places of a station, and its hash.
    fn places(&self, interface: u32, address: IpAddr) -> ([Option<&AtomicU64>; 2], u64) {
        let hash = self.secret.hash_one((interface, address));
        let at = hash as usize % SLOTS;
        // Zero is an empty slot.
        ([self.slots.get(at), self.slots.get(at ^ 1)], (hash >> TIME).max(1))
    }

    /// Worker: whether something is expected of a station.
    pub fn holds(&self, interface: u32, address: IpAddr, now_ns: u64) -> bool {
        let (places, tag) = self.places(interface, address);
        places.into_iter().flatten().any(|slot| {
            let word = slot.load(Ordering::Relaxed);
            word >> TIME == tag && !is_over(word, now_ns)
        })
    }

    /// Control side: the router has asked for a station.
    pub fn asked(&self, interface: u32, address: IpAddr, now_ns: u64) {
        self.put(interface, address, (time(now_ns) + SOON) % TIMES, now_ns);
    }

    /// Control side: the router knows a station.
    pub fn known(&self, interface: u32, address: IpAddr, now_ns: u64) {
        self.put(interface, address, ALWAYS, now_ns);
    }

    /// Control side: nothing is expected of it any more.
    pub fn forget(&self, interface: u32, address: IpAddr) {
        let (places, tag) = self.places(interface, address);
        let own = places.into_iter().flatten().filter(|slot| slot.load(Ordering::Relaxed) >> TIME == tag);
        own.for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    fn put(&self, interface: u32, address: IpAddr, until: u64, now_ns: u64) {
        let (places, tag) = self.places(interface, address);
        let fits = |w: u64| w >> TIME == tag;
        let slots = || places.into_iter().flatten().map(|s| (s, s.load(Ordering::Relaxed)));
        let free = || slots().find(|(_, w)| w >> TIME == 0 || is_over(*w, now_ns));
        let Some((slot, was)) = slots().find(|(_, w)| fits(*w)).or_else(free).or_else(|| slots().next())
        else {
            return;
        };
        // Probes of a known one do not make it less known.
        if !(fits(was) && was & TIMES == ALWAYS) {
            slot.store(tag << TIME | until, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const SECOND: u64 = 1_000_000_000;

    fn host(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n))
    }

    #[test]
    fn who_was_asked_is_expected_for_a_while_and_who_is_known_always() {
        let e = Expected::default();
        // Where the count of seconds begins anew, too.
        for start in [0, 5 * SECOND, (TIMES << 30) - 2 * SECOND] {
            e.asked(1, host(1), start);
            assert!(e.holds(1, host(1), start) && e.holds(1, host(1), start + 3 * SECOND));
            assert!(!e.holds(1, host(1), start + 9 * SECOND), "{start}");
            assert!(!e.holds(2, host(1), start) && !e.holds(1, host(2), start), "others");
            e.known(1, host(7), start);
            e.asked(1, host(7), start);
            assert!(e.holds(1, host(7), start + 1_000_000 * SECOND));
            e.forget(1, host(7));
            assert!(!e.holds(1, host(7), start));
        }
    }

    #[test]
    fn too_many_displace_one_another_and_no_more() {
        let e = Expected::default();
        let many = 4 * SLOTS as u32;
        (0..many).for_each(|n| e.asked(1, host(n), SECOND));
        let held = (0..many).filter(|n| e.holds(1, host(*n), SECOND)).count();
        assert!((SLOTS / 2..=SLOTS).contains(&held), "{held}");
        // Their places are free later.
        (0..1000).for_each(|n| e.asked(2, host(n), 60 * SECOND));
        assert!((0..1000).filter(|n| e.holds(2, host(*n), 60 * SECOND)).count() > 950);
    }
}
