//! A routing table of any size: while it is small it is a [`SmallTable`], later a table of millions.

use crate::config::LpmConfig;
use crate::error::{RouteError, TableFull};
use crate::head::{Head4, Head6};
use crate::lpm::{Engine, LpmWriter};
use crate::lpm4::{Blocks, Lpm4};
use crate::lpm6::{Lpm6, Nodes};
use crate::rib::Key;
use crate::small::SmallTable;
use crate::{MAX_VALUE, MISS};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A table of more prefixes becomes a large one, and stays it.
pub const MOST_SMALL: usize = 1024;

/// What workers read of a table.
pub enum Routes<K, S> {
    /// SmallTable prefixes.
    Small(SmallTable<K>),
    /// Many, changed in place.
    Many(Arc<S>),
}

/// An IPv4 table as workers see it.
pub type Routes4 = Routes<u32, Lpm4>;
/// An IPv6 table as workers see it.
pub type Routes6 = Routes<u128, Lpm6>;

impl Routes4 {
    /// The head of the table; it knows nothing of a large one.
    pub fn head(&self) -> Head4 {
        match self {
            Routes::Small(small) => small.head(),
            Routes::Many(_) => Head4::unknown(),
        }
    }

    /// The value of the longest prefix that holds `key` (host order), or [`MISS`].
    #[inline]
    pub fn lookup_one(&self, key: u32) -> u32 {
        match self {
            Routes::Small(small) => small.lookup_one(key),
            Routes::Many(many) => many.lookup_one(key),
        }
    }

    /// Looks up `keys` (host order) and writes their values to the same places of `out`.
    #[inline]
    pub fn lookup_batch(&self, keys: &[u32], out: &mut [u32]) {
        match self {
            Routes::Small(small) => keys.iter().zip(out).for_each(|(k, o)| *o = small.lookup_one(*k)),
            Routes::Many(many) => many.lookup_batch(keys, out),
        }
    }
}

impl Routes6 {
    /// The head of the table; it knows nothing of a large one.
    pub fn head(&self) -> Head6 {
        match self {
            Routes::Small(small) => small.head(),
            Routes::Many(_) => Head6::unknown(),
        }
    }

    /// The value of the longest prefix that holds `key`, as in a packet, or [`MISS`].
    #[inline]
    pub fn lookup_one(&self, key: &[u8; 16]) -> u32 {
        match self {
            Routes::Small(small) => small.lookup_one(u128::from_be_bytes(*key)),
            Routes::Many(many) => many.lookup_one(key),
        }
    }

    /// Looks up `keys` and writes their values to the same places of `out`.
    #[inline]
    pub fn lookup_batch(&self, keys: &[[u8; 16]], out: &mut [u32]) {
        match self {
            Routes::Small(_) => keys.iter().zip(out).for_each(|(k, o)| *o = self.lookup_one(k)),
            Routes::Many(many) => many.lookup_batch(keys, out),
        }
    }
}

/// Changes a table. One thread owns it.
pub struct FibWriter<E: Engine> {
    small: BTreeMap<(E::Key, u8), u32>,
    many: Option<LpmWriter<E>>,
    config: LpmConfig,
    limit: usize,
    /// Workers do not see all changes yet.
    stale: bool,
}

/// Changes an IPv4 table.
pub type Fib4Writer = FibWriter<Blocks>;
/// Changes an IPv6 table.
pub type Fib6Writer = FibWriter<Nodes>;

#[allow(private_bounds)]
impl<E: Engine> FibWriter<E> {
    /// An empty table, made for few prefixes.
    pub fn small(config: LpmConfig) -> Self {
        FibWriter { small: BTreeMap::new(), many: None, config, limit: usize::MAX, stale: true }
    }

    /// An empty table, made for many.
    pub fn many(config: LpmConfig) -> io::Result<Self> {
        Ok(FibWriter { many: Some(E::create(config)?), ..Self::small(config) })
    }

    /// What workers are to read from now on, if that is not what the last call answered: a change of few prefixes is
    /// seen only then.
    pub fn fresh(&mut self) -> Option<Routes<E::Key, E::Shared>> {
        self.stale.then(|| self.again())
    }

    /// What workers are to read from now on.
    pub fn again(&mut self) -> Routes<E::Key, E::Shared> {
        self.stale = false;
        match &self.many {
            Some(many) => Routes::Many(Arc::clone(many.shared())),
            None => Routes::Small(SmallTable::new(self.small.iter().map(|(&(k, l), &v)| (k, l, v)))),
        }
    }

    /// Whether changes are seen by workers at once, and what is taken out needs epochs.
    pub fn is_many(&self) -> bool {
        self.many.is_some()
    }

    /// Sets a route and answers the value it had. Bits of `addr` (host order) past `len` are ignored.
    pub fn insert(&mut self, addr: E::Key, len: u8, value: u32) -> Result<Option<u32>, RouteError> {
        if let Some(many) = &mut self.many {
            return many.insert(addr, len, value);
        }
        if len > E::Key::WIDTH {
            return Err(RouteError::Length(len));
        }
        if value == MISS || value > MAX_VALUE {
            return Err(RouteError::Value(value));
        }
        let key = (addr.first(len), len);
        if !self.small.contains_key(&key) {
            let used = self.bytes();
            if used + Self::EACH > self.limit {
                return Err(TableFull { table: E::NAME, used, limit: self.limit }.into());
            }
            if self.small.len() >= MOST_SMALL && self.grow()? {
                return self.insert(addr, len, value);
            }
        }
        let old = self.small.insert(key, value);
        self.stale |= old != Some(value);
        Ok(old)
    }

    /// Becomes a table for many prefixes; false where the system has not the address space, which only makes lookups
    /// slower.
    fn grow(&mut self) -> Result<bool, RouteError> {
        let Ok(mut many) = E::create(self.config) else { return Ok(false) };
        many.set_limit(Some(self.limit));
        for (&(key, len), &value) in &self.small {
            many.insert(key, len, value)?;
        }
        self.small.clear();
        self.many = Some(many);
        self.stale = true;
        Ok(true)
    }

    /// Takes out a route and answers its value.
    pub fn remove(&mut self, addr: E::Key, len: u8) -> Option<u32> {
        if let Some(many) = &mut self.many {
            return many.remove(addr, len);
        }
        let old = self.small.remove(&(addr.first(len.min(E::Key::WIDTH)), len));
        self.stale |= old.is_some();
        old
    }

    /// The value of exactly this prefix.
    pub fn get(&self, addr: E::Key, len: u8) -> Option<u32> {
        match &self.many {
            Some(many) => many.get(addr, len),
            None => self.small.get(&(addr.first(len.min(E::Key::WIDTH)), len)).copied(),
        }
    }

    /// All routes that hold the address as (prefix, length, value), the shortest first: the last is the one in use.
    pub fn covering(&self, addr: E::Key) -> Vec<(E::Key, u8, u32)> {
        match &self.many {
            Some(many) => many.covering(addr).collect(),
            None => {
                let of = |len| Some((addr.first(len), len, *self.small.get(&(addr.first(len), len))?));
                (0..=E::Key::WIDTH).filter_map(of).collect()
            }
        }
    }

    /// The longest prefix that holds the address.
    pub fn longest(&self, addr: E::Key) -> Option<(E::Key, u8, u32)> {
        match &self.many {
            Some(many) => many.covering(addr).last(),
            None => {
                // From the last prefix that starts at or before the address, those that could hold it are the ones
                // that share more and more of fewer bits.
                let mut most = E::Key::WIDTH;
                loop {
                    let (&(key, len), &value) = self.small.range(..=(addr.first(most), most)).next_back()?;
                    if addr.first(len) == key {
                        return Some((key, len, value));
                    }
                    // What holds the address is no longer than what it shares with this one.
                    most = addr.common(key);
                }
            }
        }
    }

    /// All routes as (prefix, length, value) that start at `from` or behind it, in order of address, then length.
    pub fn iter_from(&self, from: E::Key) -> Box<dyn Iterator<Item = (E::Key, u8, u32)> + '_> {
        match &self.many {
            Some(many) => Box::new(many.iter_from(from)),
            None => Box::new(self.small.range((from, 0)..).map(|(&(k, l), &v)| (k, l, v))),
        }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.many.as_ref().map_or(self.small.len(), LpmWriter::len)
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that one of few routes takes, about: here, and twice a boundary for workers.
    const EACH: usize = 2 * (size_of::<(E::Key, u8)>() + 4) + 2 * (size_of::<E::Key>() + 4);

    /// Bytes in use, control side included.
    pub fn bytes(&self) -> usize {
        match &self.many {
            Some(many) => many.bytes(),
            None => self.small.len() * Self::EACH,
        }
    }

    /// Changes the most bytes the table may take; what is in it stays.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
        if let Some(many) = &mut self.many {
            many.set_limit(limit);
        }
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        if let Some(many) = &mut self.many {
            many.retire_epoch(epoch);
        }
    }

    /// Makes what was taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        if let Some(many) = &mut self.many {
            many.reclaim(safe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a linear scan finds.
    fn longest(routes: &BTreeMap<(u32, u8), u32>, key: u32) -> Option<(u32, u8, u32)> {
        let all = routes.iter().filter(|((k, l), _)| key.first(*l) == *k);
        all.max_by_key(|((_, l), _)| *l).map(|(&(k, l), &v)| (k, l, v))
    }

    fn address() -> impl Strategy<Value = u32> {
        // SmallTable bits, at both ends, so that prefixes nest and touch the ends of the space.
        (0u32..16, 0u32..16, any::<bool>())
            .prop_map(|(high, low, ones)| high << 28 | if ones { 0x0fff_fff0 } else { 0 } | low)
    }

    fn lens() -> impl Strategy<Value = u8> {
        prop_oneof![0u8..6, 26u8..33]
    }

    proptest! {
        #[test]
        fn few_prefixes_are_those_of_a_linear_scan(
            changes in prop::collection::vec((address(), lens(), 0u32..6), 0..60),
            keys in prop::collection::vec(address(), 1..40),
        ) {
            let mut w = Fib4Writer::small(LpmConfig::default());
            let mut model = BTreeMap::new();
            for (addr, len, value) in changes {
                let key = (addr.first(len), len);
                if value == 0 {
                    prop_assert_eq!(w.remove(addr, len), model.remove(&key));
                } else {
                    prop_assert_eq!(w.insert(addr, len, value), Ok(model.insert(key, value)));
                }
            }
            let Some(routes) = w.fresh() else { panic!("nothing to see") };
            prop_assert!(w.fresh().is_none());
            let mut out = vec![0; keys.len()];
            routes.lookup_batch(&keys, &mut out);
            let Routes::Small(small) = routes else { panic!("not few") };
            for (key, got) in keys.iter().zip(&out) {
                let want = longest(&model, *key);
                prop_assert_eq!(*got, want.map_or(0, |w| w.2), "{:08x}", key);
                prop_assert_eq!(small.lookup_one(*key), want.map_or(0, |w| w.2), "{:08x}", key);
                prop_assert_eq!(w.longest(*key), want);
                prop_assert_eq!(w.covering(*key).last().copied(), want);
            }
            prop_assert!(small.starts.windows(2).all(|s| s[0] < s[1]) && small.values.windows(2).all(|v| v[0] != v[1]));
            let mut w6 = Fib6Writer::small(LpmConfig::default());
            for (&(key, len), &value) in &model {
                w6.insert(u128::from(key) << 96, len, value).unwrap();
            }
            let Some(routes) = w6.fresh() else { panic!("nothing to see") };
            for key in keys {
                let wide = (u128::from(key) << 96).to_be_bytes();
                let (want, mut out) = (longest(&model, key).map_or(0, |w| w.2), [7]);
                prop_assert_eq!(routes.lookup_one(&wide), want);
                routes.lookup_batch(&[wide], &mut out);
                prop_assert_eq!(out, [want]);
            }
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_table_that_grows_answers_the_same() {
        let mut w = Fib4Writer::small(LpmConfig::default());
        for n in 0..MOST_SMALL as u32 + 5 {
            w.insert(n << 12, 20, n + 1).unwrap();
        }
        w.insert(0, 0, 9999).unwrap();
        assert!(w.is_many());
        let Some(routes @ Routes::Many(_)) = w.fresh() else { panic!("still few") };
        for n in 0..MOST_SMALL as u32 + 5 {
            assert_eq!((routes.lookup_one(n << 12 | 77), w.get(n << 12, 20)), (n + 1, Some(n + 1)));
        }
        assert_eq!(routes.lookup_one(u32::MAX), 9999);
        w.remove(0, 0);
        assert!(w.fresh().is_none(), "changed in place");
        assert_eq!(routes.lookup_one(u32::MAX), 0);
    }

    #[test]
    fn the_limit_holds_for_few() {
        let mut w = Fib4Writer::small(LpmConfig::default());
        w.insert(1 << 24, 8, 1).unwrap();
        w.set_limit(Some(w.bytes()));
        assert!(matches!(w.insert(2 << 24, 8, 1), Err(RouteError::Full(_))));
        assert_eq!(w.insert(1 << 24, 8, 2), Ok(Some(1)), "what is there may change");
        assert_eq!((w.len(), w.insert(0, 33, 1)), (1, Err(RouteError::Length(33))));
    }
}
