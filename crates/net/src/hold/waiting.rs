//! The packets that wait, by neighbour. Bounded, and allocated before the first packet.

use graph::Desc;
use std::collections::HashMap;
use std::net::IpAddr;

/// Packets held at once.
pub const MAX_PACKETS: usize = 4096;
/// Neighbours waited for at once.
pub const MAX_KEYS: usize = MAX_PACKETS;
/// A neighbour is asked for again when packets come after this time, nanoseconds.
const ASK_AGAIN_NS: u64 = 1_000_000_000;
const END: u32 = u32::MAX;

/// A neighbour: interface and address (an IPv4 address in the low 32 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The interface behind which it is.
    pub interface: u32,
    /// Its address.
    pub address: u128,
}

impl Key {
    /// The key of a neighbour.
    pub fn new(interface: u32, address: IpAddr) -> Key {
        let address = match address {
            IpAddr::V4(a) => u128::from(u32::from(a)),
            IpAddr::V6(a) => u128::from(a),
        };
        Key { interface, address }
    }
}

/// Why a packet was not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many packets wait for this neighbour as may.
    Neighbor,
    /// As many packets wait for neighbours on this interface as may.
    Interface,
    /// As many packets or neighbours wait as may.
    Total,
}

struct Pending {
    key: Key,
    first: u32,
    last: u32,
    count: u32,
    asked_ns: u64,
    since_ns: u64,
}

/// All held packets of one worker and one family.
pub struct Waiting {
    keys: Vec<Pending>,
    /// Where each key stands in `keys`. Room for twice as many: the map then never allocates again.
    index: HashMap<Key, usize>,
    /// Packets that wait on each interface that has any. Room for twice as many as there can be, likewise.
    interfaces: HashMap<u32, u32>,
    packets: Vec<(Desc, u32)>,
    free: u32,
}

/// How many packets may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For one neighbour.
    pub neighbor: u32,
    /// For all neighbours on one interface: a scan of one network leaves room for the others (RFC 6583 section 6.1).
    pub interface: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        let n = MAX_PACKETS as u32;
        let packets = (0..n).map(|i| (Desc::default(), if i + 1 < n { i + 1 } else { END })).collect();
        Waiting {
            keys: Vec::with_capacity(MAX_KEYS),
            index: HashMap::with_capacity(2 * MAX_KEYS),
            interfaces: HashMap::with_capacity(2 * MAX_KEYS),
            packets,
            free: 0,
        }
    }
}

impl Waiting {
    /// Takes a packet over, unless it is refused. `Ok(true)` asks the caller to have the neighbour resolved.
    pub fn hold(&mut self, key: Key, d: &mut Desc, now_ns: u64, most: Bounds) -> Result<bool, Refused> {
        let slot = self.free;
        let found = self.index.get(&key).copied();
        if let Some(k) = found
            && self.keys[k].count >= most.neighbor
        {
            return Err(Refused::Neighbor);
        }
        let Some(next_free) = self.packets.get(slot as usize).map(|p| p.1) else {
            return Err(Refused::Total);
        };
        let on_interface = self.interfaces.get(&key.interface).copied().unwrap_or(0);
        if on_interface >= most.interface {
            return Err(Refused::Interface);
        }
        let k = match found {
            Some(k) => k,
            None if self.keys.len() == MAX_KEYS => return Err(Refused::Total),
            None => {
                self.index.insert(key, self.keys.len());
                self.keys.push(Pending {
                    key,
                    first: END,
                    last: END,
                    count: 0,
                    asked_ns: 0,
                    since_ns: now_ns,
                });
                self.keys.len() - 1
            }
        };
        self.interfaces.insert(key.interface, on_interface + 1);
        self.free = next_free;
        self.packets[slot as usize] = (d.take(), END);
        let p = &mut self.keys[k];
        if p.first == END {
            p.first = slot;
        } else {
            self.packets[p.last as usize].1 = slot;
        }
        p.last = slot;
        p.count += 1;
        let ask = p.count == 1 || now_ns.saturating_sub(p.asked_ns) > ASK_AGAIN_NS;
        if ask {
            p.asked_ns = now_ns;
        }
        Ok(ask)
    }

    /// Takes out all packets that wait for `key`, in the order in which they came.
    pub fn take(&mut self, key: Key, mut each: impl FnMut(Desc)) {
        if let Some(&i) = self.index.get(&key) {
            self.take_at(i, &mut each);
        }
    }

    /// Takes out packets of neighbours that have been waited for since before `before_ns`, or of all neighbours on
    /// `interface`.
    pub fn take_old(&mut self, before_ns: u64, interface: Option<u32>, mut each: impl FnMut(Desc)) {
        let mut i = 0;
        while i < self.keys.len() {
            let k = &self.keys[i];
            if k.since_ns < before_ns || interface == Some(k.key.interface) {
                self.take_at(i, &mut each);
            } else {
                i += 1;
            }
        }
    }

    fn take_at(&mut self, i: usize, each: &mut impl FnMut(Desc)) {
        let p = self.keys.swap_remove(i);
        self.index.remove(&p.key);
        match self.interfaces.get_mut(&p.key.interface) {
            Some(n) if *n > p.count => *n -= p.count,
            _ => drop(self.interfaces.remove(&p.key.interface)),
        }
        if let Some(moved) = self.keys.get(i) {
            self.index.insert(moved.key, i);
        }
        let mut at = p.first;
        while at != END {
            let (d, link) = &mut self.packets[at as usize];
            each(d.take());
            let next = std::mem::replace(link, self.free);
            self.free = at;
            at = next;
        }
    }

    /// Packets held now.
    pub fn len(&self) -> usize {
        self.keys.iter().map(|k| k.count as usize).sum()
    }

    /// True when no packet is held.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// So many for a neighbour, and as many as there is room for on an interface.
    fn most(neighbor: u32) -> Bounds {
        Bounds { neighbor, interface: u32::MAX }
    }

    fn key(n: u32) -> Key {
        Key { interface: n % 3, address: u128::from(n) }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn behaves_as_a_list_of_queues(ops in prop::collection::vec((0u32..20, any::<bool>()), 1..400)) {
            let mut w = Waiting::default();
            let mut model: Vec<(Key, VecDeque<u32>)> = vec![];
            for (n, (k, take)) in ops.into_iter().enumerate() {
                let k = key(k);
                if take {
                    let mut got = vec![];
                    w.take(k, |d| got.push(d.aux));
                    let i = model.iter().position(|m| m.0 == k);
                    let want = i.map(|i| model.remove(i).1).unwrap_or_default();
                    prop_assert_eq!(got, Vec::from(want));
                } else {
                    let mut d = Desc { aux: n as u32, ..Desc::default() };
                    let r = w.hold(k, &mut d, 5, most(8));
                    if !model.iter().any(|m| m.0 == k) {
                        model.push((k, VecDeque::new()));
                    }
                    let q = &mut model.iter_mut().find(|m| m.0 == k).unwrap().1;
                    if q.len() == 8 {
                        prop_assert_eq!(r, Err(Refused::Neighbor));
                    } else {
                        prop_assert_eq!(r, Ok(q.is_empty()));
                        q.push_back(n as u32);
                    }
                }
                prop_assert_eq!(w.len(), model.iter().map(|m| m.1.len()).sum::<usize>());
            }
        }
    }

    #[test]
    fn is_bounded_and_forgets_the_old() {
        let mut w = Waiting::default();
        let room = w.index.capacity();
        for round in 0..4 {
            let mut held = 0;
            for n in 0..10_000 {
                held +=
                    usize::from(w.hold(key(n + round), &mut Desc::default(), u64::from(n), most(4)).is_ok());
            }
            assert_eq!(held, MAX_KEYS);
            w.take_old(u64::MAX, None, |_| held -= 1);
            assert_eq!((held, w.len(), w.index.len()), (0, 0, 0));
        }
        // A mark that a removed key left counts as taken, and may be there still.
        assert!(w.index.capacity() <= room, "nothing was allocated");
        for n in 0..1000 {
            assert!(w.hold(key(n), &mut Desc::default(), u64::from(n), most(4)).is_ok());
        }
        while w.hold(key(0), &mut Desc::default(), 0, most(u32::MAX)).is_ok() {}
        assert_eq!(w.len(), MAX_PACKETS);
        let mut n = 0;
        w.take_old(100, None, |_| n += 1);
        assert!(n >= 100);
        w.take_old(u64::MAX, None, |_| n += 1);
        assert_eq!(n, MAX_PACKETS);
        assert!(w.is_empty());
        assert_eq!(w.hold(key(1), &mut Desc::default(), 0, most(1)), Ok(true));
    }

    #[test]
    fn one_interface_leaves_room_for_the_others() {
        let mut w = Waiting::default();
        let most = Bounds { neighbor: 2, interface: 100 };
        let on = |interface, n: u32| Key { interface, address: n.into() };
        let scan = (0..50_000).filter(|n| w.hold(on(1, *n), &mut Desc::default(), 0, most).is_ok()).count();
        assert_eq!((scan, w.len()), (100, 100));
        assert_eq!(w.hold(on(1, 60_000), &mut Desc::default(), 0, most), Err(Refused::Interface));
        assert_eq!(w.hold(on(2, 7), &mut Desc::default(), 0, most), Ok(true));
        w.take(on(1, 5), |_| ());
        assert_eq!(w.hold(on(1, 60_000), &mut Desc::default(), 0, most), Ok(true));
        assert_eq!(w.hold(on(1, 60_001), &mut Desc::default(), 0, most), Err(Refused::Interface));
        w.take_old(u64::MAX, None, |_| ());
        assert!(w.interfaces.is_empty());
    }

    #[test]
    fn asks_again_after_a_second() {
        let mut w = Waiting::default();
        assert_eq!(w.hold(key(1), &mut Desc::default(), 0, most(9)), Ok(true));
        assert_eq!(w.hold(key(1), &mut Desc::default(), 10, most(9)), Ok(false));
        assert_eq!(w.hold(key(1), &mut Desc::default(), 2_000_000_000, most(9)), Ok(true));
    }
}
