//! Routes by their keys, which are kept as short as their family allows: there are a million.

use crate::contents::ContentId;
use crate::route::Key;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

/// In a stored number: seen by the last reading of all, or since, where the bit is as the mirror's.
pub const SEEN: u32 = 1 << 31;

/// A key without its table, as short as its family allows.
trait Short: Copy + Eq + Hash {
    fn whole(self, table: u32) -> Option<Key>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key4 {
    prefix: u32,
    metric: u32,
    len: u8,
    tos: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key6 {
    prefix: [u8; 16],
    metric: u32,
    len: u8,
    tos: u8,
}

impl Short for Key4 {
    fn whole(self, table: u32) -> Option<Key> {
        let prefix = Ipv4Net::new(Ipv4Addr::from(self.prefix), self.len).ok()?.into();
        Some(Key { table, prefix, metric: self.metric, tos: self.tos })
    }
}

impl Short for Key6 {
    fn whole(self, table: u32) -> Option<Key> {
        let prefix = Ipv6Net::new(Ipv6Addr::from(self.prefix), self.len).ok()?.into();
        Some(Key { table, prefix, metric: self.metric, tos: self.tos })
    }
}

/// The routes of a family, by table.
#[derive(Debug)]
struct Family<K>(HashMap<u32, HashMap<K, ContentId>>);

impl<K> Default for Family<K> {
    fn default() -> Self {
        Family(HashMap::new())
    }
}

impl<K: Short> Family<K> {
    fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }

    fn get(&self, table: u32, key: K) -> Option<ContentId> {
        self.0.get(&table)?.get(&key).copied()
    }

    fn insert(&mut self, table: u32, key: K, id: ContentId) -> Option<ContentId> {
        self.0.entry(table).or_default().insert(key, id)
    }

    fn remove(&mut self, table: u32, key: K) {
        self.0.get_mut(&table).and_then(|map| map.remove(&key));
    }

    fn iter(&self) -> impl Iterator<Item = (Key, ContentId)> {
        self.0.iter().flat_map(|(t, map)| map.iter().filter_map(|(k, id)| Some((k.whole(*t)?, *id))))
    }

    fn mark(&mut self, seen: u32) {
        self.0.values_mut().flat_map(HashMap::values_mut).for_each(|id| *id = *id & !SEEN | seen);
    }

    /// Takes out what the last reading has not seen.
    fn sweep(&mut self, seen: u32, mut gone: impl FnMut(Option<Key>, ContentId)) {
        for (table, map) in &mut self.0 {
            map.retain(|key, id| {
                let stays = *id & SEEN == seen;
                if !stays {
                    gone(key.whole(*table), *id & !SEEN);
                }
                stays
            });
        }
        self.0.retain(|_, map| !map.is_empty());
    }
}

/// All routes: of each key the number of the content.
#[derive(Debug, Default)]
pub struct Routes {
    v4: Family<Key4>,
    v6: Family<Key6>,
}

impl Routes {
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    pub fn get(&self, key: &Key) -> Option<ContentId> {
        match split(key) {
            Ok(k) => self.v4.get(key.table, k),
            Err(k) => self.v6.get(key.table, k),
        }
    }

    /// Sets one, and answers what it was.
    pub fn insert(&mut self, key: &Key, id: ContentId) -> Option<ContentId> {
        match split(key) {
            Ok(k) => self.v4.insert(key.table, k, id),
            Err(k) => self.v6.insert(key.table, k, id),
        }
    }

    pub fn remove(&mut self, key: &Key) {
        match split(key) {
            Ok(k) => self.v4.remove(key.table, k),
            Err(k) => self.v6.remove(key.table, k),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, ContentId)> {
        self.v4.iter().chain(self.v6.iter())
    }

    /// All are as the last reading has seen them.
    pub fn mark(&mut self, seen: u32) {
        self.v4.mark(seen);
        self.v6.mark(seen);
    }

    /// Takes out what the last reading has not seen, and tells of it.
    pub fn sweep(&mut self, seen: u32, mut gone: impl FnMut(Option<Key>, ContentId)) {
        self.v4.sweep(seen, &mut gone);
        self.v6.sweep(seen, gone);
    }
}

fn split(key: &Key) -> Result<Key4, Key6> {
    let (metric, len, tos) = (key.metric, key.prefix.prefix_len(), key.tos);
    match key.prefix {
        IpNet::V4(p) => Ok(Key4 { prefix: p.addr().into(), metric, len, tos }),
        IpNet::V6(p) => Err(Key6 { prefix: p.addr().octets(), metric, len, tos }),
    }
}
