//! Which sub-interface a packet belongs to, by its VLAN tags.
//!
//! Of the rules of one parent interface that match, the most specific wins: a given outer tag over any, then a
//! given inner tag over any over none asked for, then exact over not, and `Default` last. A rule for one tag
//! (two tags) that is not exact also matches packets with more tags. What workers read never changes: a table is built whole,
//! or a copy of it is changed by one rule.

mod buckets;

use buckets::Buckets;
use std::collections::HashMap;
use thiserror::Error;

/// Kind of the outer tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tpid {
    /// 0x8100, IEEE 802.1Q.
    Dot1q,
    /// 0x88a8, IEEE 802.1ad.
    Dot1ad,
}

/// A VLAN identifier asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vid {
    /// Any there is.
    Any,
    /// This one, 0 to 4095.
    Id(u16),
}

/// What packets a sub-interface takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// Packets that nothing else takes, with or without tags.
    Default,
    /// Packets without a tag.
    Untagged,
    /// Packets with tags.
    Tagged {
        /// Kind of the outer tag.
        tpid: Tpid,
        /// Outer tag.
        outer: Vid,
        /// Inner tag, of kind 802.1Q; `None` asks for nothing.
        inner: Option<Vid>,
        /// Only packets with no more tags than asked for.
        exact: bool,
    },
}

/// The tags of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// How many; the inner one counts only if it is of kind 802.1Q.
    pub count: u8,
    /// Kind of the outer one, if any.
    pub tpid: Tpid,
    /// Identifier of the outer one; bits above the low 12 are ignored.
    pub outer: u16,
    /// Identifier of the inner one; bits above the low 12 are ignored.
    pub inner: u16,
}

impl Tags {
    /// Those of a packet without any.
    pub const NONE: Tags = Tags { count: 0, tpid: Tpid::Dot1q, outer: 0, inner: 0 };
}

/// Why rules make no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum VlanError {
    /// Identifiers have 12 bits.
    #[error("VLAN identifier {0} is over 4095")]
    Vid(u16),
    /// Two rules take the same packets.
    #[error("two sub-interfaces ask for {0:?}")]
    Twice(Match),
}

/// Value of a packet with exactly the tags asked for, and of one with more.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    exact: Option<u32>,
    loose: Option<u32>,
}

impl Pair {
    #[inline(always)]
    fn get(&self, exactly: bool) -> Option<u32> {
        if exactly && self.exact.is_some() { self.exact } else { self.loose }
    }

    fn place(&mut self, exact: bool) -> &mut Option<u32> {
        if exact { &mut self.exact } else { &mut self.loose }
    }

    fn set(&mut self, exact: bool, value: u32) -> bool {
        self.place(exact).replace(value).is_none()
    }

    fn is_empty(&self) -> bool {
        self.exact.is_none() && self.loose.is_none()
    }
}

/// The rules for one outer tag.
#[derive(Debug, Clone, Default)]
struct Row {
    one: Pair,
    any_inner: Pair,
    /// Whether there are rules for given inner tags.
    inner: bool,
}

/// Sub-interfaces of one parent interface, by tags.
#[derive(Debug, Clone)]
pub struct VlanTable {
    default: Option<u32>,
    untagged: Option<u32>,
    /// Row of an outer tag, by kind and identifier; row 0 of a kind is that of any tag. Empty without a rule of the kind.
    index: [Vec<u16>; 2],
    rows: [Vec<Row>; 2],
    /// The answers for given inner tags of a row.
    inner: Buckets<Pair>,
    /// The answers for one tag, by kind and identifier, where there are any.
    single: [Option<Box<[u32; 4096]>>; 2],
    /// The answers for two tags, where there are rules for given inner ones.
    double: Buckets<u32>,
}

/// No sub-interface takes the packet.
pub const NONE: u32 = u32::MAX;

impl VlanTable {
    /// A table of rules and the values of their packets.
    pub fn build(rules: &[(Match, u32)]) -> Result<VlanTable, VlanError> {
        let mut table = VlanTable {
            default: None,
            untagged: None,
            index: Default::default(),
            rows: Default::default(),
            inner: Buckets::with_room(0, Pair::default()),
            single: Default::default(),
            double: Buckets::with_room(0, NONE),
        };
        let mut inner: HashMap<u32, Pair> = HashMap::new();
        for &(rule, value) in rules {
            let new = match rule {
                Match::Default => table.default.replace(value).is_none(),
                Match::Untagged => table.untagged.replace(value).is_none(),
                Match::Tagged { tpid, outer, inner: second, exact } => {
                    let row_number = table.row_for(tpid, outer)?;
                    let row = &mut table.rows[tpid as usize][row_number as usize];
                    match second {
                        None => row.one.set(exact, value),
                        Some(Vid::Any) => row.any_inner.set(exact, value),
                        Some(Vid::Id(vid)) if vid > 4095 => return Err(VlanError::Vid(vid)),
                        Some(Vid::Id(vid)) => {
                            row.inner = true;
                            inner.entry(inner_key(tpid, row_number, vid)).or_default().set(exact, value)
                        }
                    }
                }
            };
            if !new {
                return Err(VlanError::Twice(rule));
            }
        }
        table.inner = Buckets::build(&inner, Pair::default());
        table.flatten(rules);
        Ok(table)
    }

    /// Works out the answers for the usual tags beforehand.
    fn flatten(&mut self, rules: &[(Match, u32)]) {
        for tpid in [Tpid::Dot1q, Tpid::Dot1ad] {
            let answer = |outer| self.lookup(Tags { count: 1, tpid, outer, inner: 0 }).unwrap_or(NONE);
            let known = !self.rows[tpid as usize].is_empty() || self.default.is_some();
            self.single[tpid as usize] =
                known.then(|| Box::new(std::array::from_fn(|outer| answer(outer as u16))));
        }
        let given = rules.iter().filter_map(|(rule, _)| match *rule {
            Match::Tagged { tpid, outer: Vid::Id(outer), inner: Some(Vid::Id(inner)), .. } => {
                let value = self.lookup(Tags { count: 2, tpid, outer, inner })?;
                Some((double_key(tpid, outer, inner), value))
            }
            _ => None,
        });
        self.double = Buckets::build(&given.collect(), NONE);
    }

    /// Puts in a rule, or takes out the one that is there, without going through all others. False for rules other than of
    /// given tags, and where the table has to grow: then it is to be built anew.
    pub fn change(&mut self, rule: Match, value: Option<u32>) -> bool {
        let Match::Tagged { tpid, outer: Vid::Id(outer), inner, exact } = rule else { return false };
        if self.rows[tpid as usize].is_empty() || inner == Some(Vid::Any) {
            return false;
        }
        let Ok(number) = self.row_for(tpid, Vid::Id(outer)) else { return false };
        let row = &mut self.rows[tpid as usize][usize::from(number)];
        let Some(Vid::Id(inner)) = inner else {
            *row.one.place(exact) = value;
            let found = self.lookup(Tags { count: 1, tpid, outer, inner: 0 });
            if let Some(single) = &mut self.single[tpid as usize] {
                single[usize::from(outer)] = found.unwrap_or(NONE);
            }
            return true;
        };
        let key = inner_key(tpid, number, inner);
        if inner > 4095 || !self.inner.has_room() || !self.double.has_room() {
            return false;
        }
        row.inner = true;
        let mut pair = self.inner.get(key);
        *pair.place(exact) = value;
        self.inner.put(key, (!pair.is_empty()).then_some(pair));
        let found = self.lookup(Tags { count: 2, tpid, outer, inner });
        self.double.put(double_key(tpid, outer, inner), found.filter(|_| !pair.is_empty()));
        true
    }

    /// [`VlanTable::lookup`] for exactly one tag of a kind, by its identifier; [`NONE`] where nothing takes it. `None`
    /// where nothing takes any.
    pub fn single(&self, tpid: Tpid) -> Option<&[u32; 4096]> {
        self.single[tpid as usize].as_deref()
    }

    /// The value for exactly two tags, if the rule that takes them names both and no other one is looked for; [`NONE`]
    /// where only [`VlanTable::lookup`] knows.
    #[inline(always)]
    pub fn double(&self, key: u32) -> u32 {
        self.double.get(key)
    }

    /// Brings the answer of [`VlanTable::double`] near.
    #[inline(always)]
    pub fn prefetch_double(&self, key: u32) {
        self.double.prefetch(key);
    }

    fn row_for(&mut self, tpid: Tpid, outer: Vid) -> Result<u16, VlanError> {
        let (index, rows) = (&mut self.index[tpid as usize], &mut self.rows[tpid as usize]);
        if rows.is_empty() {
            *index = vec![0; 4096];
            rows.push(Row::default());
        }
        let Vid::Id(vid) = outer else { return Ok(0) };
        let row = index.get_mut(vid as usize).ok_or(VlanError::Vid(vid))?;
        if *row == 0 {
            *row = rows.len() as u16;
            rows.push(Row::default());
        }
        Ok(*row)
    }

    /// The value of the most specific rule that takes a packet with these tags.
    #[inline]
    pub fn lookup(&self, tags: Tags) -> Option<u32> {
        if tags.count == 0 {
            return self.untagged.or(self.default);
        }
        let rows = &self.rows[tags.tpid as usize];
        if rows.is_empty() {
            return self.default;
        }
        let row = self.index[tags.tpid as usize][(tags.outer & 0xfff) as usize];
        let own = (row != 0).then(|| self.in_row(rows, row, tags)).flatten();
        own.or_else(|| self.in_row(rows, 0, tags)).or(self.default)
    }

    #[inline]
    fn in_row(&self, rows: &[Row], number: u16, tags: Tags) -> Option<u32> {
        let row = &rows[number as usize];
        let mut found = None;
        if tags.count >= 2 {
            if row.inner {
                let key = inner_key(tags.tpid, number, tags.inner & 0xfff);
                found = self.inner.get(key).get(tags.count == 2);
            }
            found = found.or_else(|| row.any_inner.get(tags.count == 2));
        }
        found.or_else(|| row.one.get(tags.count == 1))
    }
}

/// The key of both tags, in 25 bits. Bits of identifiers above the low 12 are ignored.
#[inline(always)]
pub fn double_key(tpid: Tpid, outer: u16, inner: u16) -> u32 {
    (tpid as u32) << 24 | u32::from(outer & 0xfff) << 12 | u32::from(inner & 0xfff)
}

/// The key of an inner tag in a row.
fn inner_key(tpid: Tpid, row: u16, inner: u16) -> u32 {
    (tpid as u32) << 30 | u32::from(row) << 12 | u32::from(inner)
}

// No unsafe code here, and many cases.
#[cfg(test)]
#[cfg(not(miri))]
mod tests;
