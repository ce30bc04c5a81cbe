//! Places of which there are few: each client has some of them at most, and leaves others to others.

use command::{Access, Caller};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of places a client has one in so many.
const SHARE: usize = 2;

/// How many of so many places a client has at most.
pub const fn share(most: usize) -> usize {
    most / SHARE
}

/// Places of some kind, by client. Copies are the same places.
#[derive(Clone, Debug)]
pub struct Places {
    what: &'static str,
    held: Arc<Mutex<BTreeMap<Box<str>, usize>>>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub struct Place {
    client: Box<str>,
    places: Places,
}

/// Why there is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The client has as many as each may have.
    #[error("{0} has {1} {2}, and may not have more")]
    Client(Box<str>, usize, &'static str),
    /// All together have.
    #[error("there are {0} {1}, and no more are taken")]
    All(usize, &'static str),
}

impl Places {
    /// All are free; `what` takes them, in the plural.
    pub fn of(what: &'static str) -> Places {
        Places { what, held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Box<str>, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a client, where it has less than `each`, and all have less than `all`.
    ///
    /// # Errors
    /// Which of these it is.
    pub fn take(&self, client: &str, each: usize, all: usize) -> Result<Place, Full> {
        let mut held = self.held();
        if held.values().sum::<usize>() >= all {
            return Err(Full::All(all, self.what));
        }
        if held.get(client).is_some_and(|n| *n >= each) || each == 0 {
            return Err(Full::Client(client.into(), each, self.what));
        }
        *held.entry(client.into()).or_default() += 1;
        Ok(Place { client: client.into(), places: self.clone() })
    }

    /// How many each client has that has any.
    pub fn by_client(&self) -> Vec<(Box<str>, usize)> {
        self.held().iter().map(|(client, n)| (client.clone(), *n)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        if let Some(n) = held.get_mut(&self.client) {
            *n -= 1;
            if *n == 0 {
                held.remove(&self.client);
            }
        }
    }
}

/// Places of which each client has its [`share`] at most.
#[derive(Clone, Debug)]
pub struct Shares {
    places: Places,
    most: usize,
    reserved: usize,
}

impl Shares {
    /// So many, and `reserved` ones more for those who may do more than look.
    pub fn of(what: &'static str, most: usize, reserved: usize) -> Shares {
        Shares { places: Places::of(what), most, reserved }
    }

    /// Takes a place for somebody.
    ///
    /// # Errors
    /// There is none, or none for this client.
    pub fn take(&self, caller: &Caller) -> Result<Place, Full> {
        let more = if caller.access >= Access::Operate { self.reserved } else { 0 };
        let most = self.most + more;
        self.places.take(&caller.client().to_string(), share(most), most)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_client_has_its_places_and_gives_them_back() {
        let places = Places::of("connections");
        let take = |client| places.take(client, 2, 3);
        let (first, second) = (take("uid:1").unwrap(), take("uid:1").unwrap());
        let full = take("uid:1").unwrap_err();
        assert_eq!(full.to_string(), "uid:1 has 2 connections, and may not have more");
        let other = take("uid:2").unwrap();
        assert_eq!(take("uid:2").unwrap_err().to_string(), "there are 3 connections, and no more are taken");
        drop(first);
        let again = take("uid:2").unwrap();
        assert_eq!(places.by_client(), [("uid:1".into(), 1), ("uid:2".into(), 2)]);
        drop((second, other, again));
        assert!(places.by_client().is_empty());
        assert!(places.take("uid:1", 0, 3).is_err());
    }

    #[test]
    fn one_client_leaves_places_to_others_and_some_are_kept_for_who_may_do_more() {
        let shares = Shares::of("streams", 8, 2);
        let take = |user, access| {
            let (groups, process, ssh, remote) = (vec![], None, None, None);
            shares.take(&Caller { access, user, group: user, groups, process, ssh, remote })
        };
        let read = |user| take(user, Access::Read);
        let operate = |user| take(user, Access::Operate);
        let mut held: Vec<_> = (0..4).map(|_| read(1).unwrap()).collect();
        assert_eq!(read(1).unwrap_err(), Full::Client("uid:1".into(), 4, "streams"));
        held.extend((0..4).map(|_| read(2).unwrap()));
        assert_eq!(read(3).unwrap_err(), Full::All(8, "streams"));
        held.extend((0..2).map(|_| operate(3).unwrap()));
        assert_eq!(operate(4).unwrap_err(), Full::All(10, "streams"));
        held.truncate(1);
        assert!(read(1).is_ok() && operate(3).is_ok());
    }
}
