//! Places for those of whom it is not known yet who they are: some for all, fewer for each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Of all, and of an address. In IPv6 a site has /64, and so does this.
const ALL: usize = 128;
const EACH: usize = 16;

/// The places.
#[derive(Clone, Default)]
pub struct Room(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A place, given back when dropped.
pub struct Held {
    room: Room,
    site: IpAddr,
}

fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

impl Room {
    /// A place for somebody, where there is one.
    pub fn take(&self, address: IpAddr) -> Option<Held> {
        let site = site(address);
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= ALL || taken.get(&site).is_some_and(|n| *n >= EACH) {
            return None;
        }
        *taken.entry(site).or_default() += 1;
        Some(Held { room: self.clone(), site })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = taken.get_mut(&self.site) {
            *n -= 1;
            if *n == 0 {
                taken.remove(&self.site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_out_and_come_back() {
        let room = Room::default();
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut held: Vec<Held> = (0..EACH).map(|_| room.take(of("192.0.2.1")).unwrap()).collect();
        assert!(room.take(of("192.0.2.1")).is_none());
        held.extend((0..EACH).map(|i| room.take(of(&format!("2001:db8::{i}"))).unwrap()));
        assert!(room.take(of("2001:db8::ffff")).is_none());
        assert!(room.take(of("2001:db8:0:1::")).is_some());
        held.pop();
        held.push(room.take(of("2001:db8::ffff")).unwrap());
        let mut next = 0u32;
        while let Some(more) = room.take(IpAddr::V4((0x0a00_0000 + next).into())) {
            held.push(more);
            next += 1;
        }
        assert_eq!(held.len(), ALL);
        drop(held);
        assert!(room.0.lock().unwrap().is_empty());
    }
}
