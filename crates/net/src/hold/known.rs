//! Neighbours whose link-layer address is known, for packets that no route of theirs leads: those on a link because of a route
//! in a table that is not the interface's, or of one of several paths. A host route in the interface's table would not be
//! theirs, so the node that would hold them looks here.

use graph::{Guard, Published, Reclaimer};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// A change copies one of so many parts.
const PARTS: usize = 1024;

type Part = Vec<((u32, IpAddr), u32)>;

/// Adjacencies by interface and address.
pub struct Known {
    parts: Box<[Published<Part>]>,
    /// Others choose addresses, but not which of them share a part.
    seeds: [u64; 2],
}

impl Default for Known {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Published::new(Part::new())).collect();
        let random = RandomState::new();
        Known { parts, seeds: [0, 1].map(|n: u64| random.hash_one(n)) }
    }
}

impl Known {
    /// By the product of what was mixed with secrets, folded: packets that wait for nobody pay for it, too.
    #[inline]
    fn part(&self, (interface, address): (u32, IpAddr)) -> &Published<Part> {
        let bits = match address {
            IpAddr::V4(a) => u128::from(a.to_bits()),
            IpAddr::V6(a) => a.to_bits(),
        };
        let low = bits as u64 ^ self.seeds[0];
        let high = (bits >> 64) as u64 ^ self.seeds[1] ^ u64::from(interface);
        let product = u128::from(low) * u128::from(high);
        &self.parts[(product ^ product >> 64) as usize % PARTS]
    }

    /// The adjacency of a neighbour.
    pub fn find(&self, interface: u32, address: IpAddr, guard: &Guard) -> Option<u32> {
        let of = (interface, address);
        let part = self.part(of).load(guard);
        let at = part.binary_search_by_key(&of, |e| e.0).ok()?;
        part.get(at).map(|e| e.1)
    }

    /// Tells workers a neighbour's adjacency, or that it has none any more.
    pub fn set(
        &self,
        interface: u32,
        address: IpAddr,
        adjacency: Option<u32>,
        guard: &Guard,
        old: &mut Reclaimer,
    ) {
        let of = (interface, address);
        let place = self.part(of);
        let mut part = place.load(guard).clone();
        match (part.binary_search_by_key(&of, |e| e.0), adjacency) {
            (Ok(at), Some(new)) => part[at].1 = new,
            (Ok(at), None) => drop(part.remove(at)),
            (Err(at), Some(new)) => part.insert(at, (of, new)),
            (Err(_), None) => return,
        }
        place.publish(part, old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Domain;
    use std::sync::Arc;

    #[test]
    #[allow(unsafe_code)]
    fn neighbours_come_and_go() {
        let mut old = Reclaimer::new(Arc::new(Domain::new()));
        // SAFETY: nothing is reclaimed here.
        let (guard, known) = (unsafe { Guard::unprotected() }, Known::default());
        let addr = |n: u32| IpAddr::from([10, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        for n in 0..5000 {
            known.set(n % 3, addr(n), Some(n), &guard, &mut old);
        }
        known.set(1, addr(7), Some(70), &guard, &mut old);
        for n in 0..5000 {
            let want = if n == 7 { 70 } else { n };
            assert_eq!(known.find(n % 3, addr(n), &guard), Some(want));
            assert_eq!(known.find(3, addr(n), &guard), None, "another interface");
        }
        for n in (0..5000).step_by(2) {
            known.set(n % 3, addr(n), None, &guard, &mut old);
        }
        known.set(9, addr(9), None, &guard, &mut old);
        assert!((8..5000).all(|n| known.find(n % 3, addr(n), &guard) == (n % 2 == 1).then_some(n)));
    }
}
