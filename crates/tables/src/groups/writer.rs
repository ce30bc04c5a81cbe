//! The control side of next-hop groups.

use super::{Entry, GroupError, GroupId, Groups, MANY, MAX_BUCKETS, Path};
use crate::error::TableFull;
use crate::retire::Retired;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

struct Group {
    paths: Vec<Path>,
    users: u32,
    least: usize,
}

/// A group or an array of buckets that was taken out.
#[derive(Clone, Copy)]
enum Gone {
    Group(GroupId),
    Buckets { first: u32, log2: u8 },
}

/// Changes the groups. One thread owns it.
pub struct GroupsWriter {
    shared: Arc<Groups>,
    groups: Vec<Option<Group>>,
    by_paths: HashMap<Vec<Path>, GroupId>,
    free: Vec<GroupId>,
    retired: Retired<Gone>,
    /// Buckets that were ever given out, and the free arrays by log2 of their size.
    pub(super) used: u32,
    free_buckets: [Vec<u32>; 9],
    stores: u64,
}

impl GroupsWriter {
    pub(super) fn new(shared: Arc<Groups>) -> Self {
        GroupsWriter {
            shared,
            groups: vec![None],
            by_paths: HashMap::new(),
            free: Vec::new(),
            retired: Retired::new(),
            used: 0,
            free_buckets: Default::default(),
            stores: 0,
        }
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<Groups> {
        &self.shared
    }

    /// A group with these paths in any order: one that exists (and has one user more), or a new one.
    pub fn acquire(&mut self, paths: &[Path]) -> Result<GroupId, GroupError> {
        let paths = normal(paths)?;
        if let Some(&id) = self.by_paths.get(&paths)
            && let Some(Some(group)) = self.groups.get_mut(id.at())
        {
            group.users += 1;
            return Ok(id);
        }
        let id = self.make(paths.clone(), 0, 1)?;
        self.by_paths.insert(paths, id);
        Ok(id)
    }

    /// A group of its own, which `acquire` never answers for others: its owner may change it with
    /// [`GroupsWriter::set`] without moving somebody else's routes.
    pub fn create(&mut self, paths: &[Path]) -> Result<GroupId, GroupError> {
        self.create_after(paths, GroupId::NONE, 1)
    }

    /// The same with at least so many buckets, up to 256, where it has several paths. Flows have the paths that they have in the
    /// group `before`, as far as [`GroupsWriter::set`] would leave them there.
    pub fn create_after(
        &mut self,
        paths: &[Path],
        before: GroupId,
        least: usize,
    ) -> Result<GroupId, GroupError> {
        let before = self.paths(before).map_or(0, |_| self.shared.words[before.at()].load(Relaxed));
        self.make(normal(paths)?, before, least.clamp(1, MAX_BUCKETS).next_power_of_two())
    }

    fn make(&mut self, paths: Vec<Path>, before: u64, least: usize) -> Result<GroupId, GroupError> {
        let fresh = self.free.is_empty();
        if fresh && self.groups.len() == self.shared.words.len() {
            return Err(self.full().into());
        }
        let word = self.build(&paths, before, least)?;
        let id = self.free.pop().unwrap_or(GroupId(self.groups.len() as u32));
        if fresh {
            self.groups.push(None);
        }
        self.shared.words[id.at()].store(word, Release);
        self.stores += 1;
        self.groups[id.at()] = Some(Group { paths, users: 1, least });
        Ok(id)
    }

    /// One more user of a group. Answers whether there is such a group.
    pub fn retain(&mut self, id: GroupId) -> bool {
        match self.groups.get_mut(id.at()) {
            Some(Some(group)) => group.users += 1,
            _ => return false,
        }
        true
    }

    /// One user less. The last one takes the group out; its number is given out again after its epoch, and until then
    /// it resolves as before. Answers whether there is such a group.
    pub fn release(&mut self, id: GroupId) -> bool {
        let Some(Some(group)) = self.groups.get_mut(id.at()) else { return false };
        group.users -= 1;
        if group.users == 0 {
            let paths = std::mem::take(&mut group.paths);
            self.forget(&paths, id);
            self.groups[id.at()] = None;
            self.retired.push(Gone::Group(id));
        }
        true
    }

    /// Gives a group other paths: all routes that point to it follow at once. Flows stay on their path where that is left
    /// in the group: those of a lost path are shared out, and a new one takes its share from all. Two groups may end up with the
    /// same paths; `acquire` then answers one of them.
    pub fn set(&mut self, id: GroupId, paths: &[Path]) -> Result<(), GroupError> {
        let paths = normal(paths)?;
        let least = match self.groups.get(id.at()) {
            Some(Some(group)) if group.paths == paths => return Ok(()),
            Some(Some(group)) => group.least,
            _ => return Err(GroupError::Unknown(id)),
        };
        let before = self.shared.words[id.at()].load(Relaxed);
        let word = self.build(&paths, before, least)?;
        let old = self.shared.words[id.at()].swap(word, Release);
        self.stores += 1;
        self.retire_buckets(old);
        if let Some(Some(group)) = self.groups.get_mut(id.at()) {
            let before = std::mem::replace(&mut group.paths, paths.clone());
            self.forget(&before, id);
        }
        self.by_paths.entry(paths).or_insert(id);
        Ok(())
    }

    /// The paths of a group, in order and without duplicates.
    pub fn paths(&self, id: GroupId) -> Option<&[Path]> {
        Some(&self.groups.get(id.at())?.as_ref()?.paths)
    }

    /// How many users a group has.
    pub fn users(&self, id: GroupId) -> u32 {
        self.groups.get(id.at()).and_then(Option::as_ref).map_or(0, |g| g.users)
    }

    /// What each bucket of a group holds; one for a single path.
    pub fn buckets(&self, id: GroupId) -> Vec<Entry> {
        if self.paths(id).is_none() {
            return Vec::new();
        }
        self.entries(self.shared.words[id.at()].load(Relaxed))
    }

    /// All groups with their paths, by number.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &[Path])> + '_ {
        (0..self.groups.len() as u32).map(GroupId).filter_map(|id| Some((id, self.paths(id)?)))
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// How many words of groups were published so far: what it takes to move routes.
    pub fn stores(&self) -> u64 {
        self.stores
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        self.retired.set_epoch(epoch);
    }

    /// Makes what was taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        while let Some(gone) = self.retired.pop(safe) {
            match gone {
                Gone::Group(id) => {
                    let old = self.shared.words[id.at()].swap(0, Release);
                    self.free.push(id);
                    // A reader may have just read the word of a group that no route points to any
                    // more; all have passed since it was taken out, so none has.
                    if let Some(Gone::Buckets { first, log2 }) = gone_buckets(old) {
                        self.free_buckets[log2 as usize].push(first);
                    }
                }
                Gone::Buckets { first, log2 } => self.free_buckets[log2 as usize].push(first),
            }
        }
    }

    /// Groups and arrays of buckets that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    fn full(&self) -> TableFull {
        let used = self.groups.len() * 8 + self.used as usize * 8;
        TableFull { table: "next-hop groups", used, limit: used }
    }

    fn forget(&mut self, paths: &[Path], id: GroupId) {
        if self.by_paths.get(paths) == Some(&id) {
            self.by_paths.remove(paths);
        }
    }

    fn retire_buckets(&mut self, word: u64) {
        if let Some(gone) = gone_buckets(word) {
            self.retired.push(gone);
        }
    }

    /// The word for a list of paths; its buckets are filled before anyone can see it. Flows of a path that the group of the
    /// word `before` has too stay on it, as far as the shares allow.
    fn build(&mut self, paths: &[Path], before: u64, least: usize) -> Result<u64, TableFull> {
        if let [only] = paths {
            return Ok(only.entry.pack());
        }
        let old = self.entries(before);
        let buckets = spread(paths, &old, least as u64);
        let log2 = buckets.len().trailing_zeros() as usize;
        let first = match self.free_buckets[log2].pop() {
            Some(first) => first,
            None if self.used as usize + (1 << log2) <= self.shared.buckets.len() => {
                self.used += 1 << log2;
                self.used - (1 << log2)
            }
            None => return Err(self.full()),
        };
        for (word, entry) in self.shared.buckets[first as usize..].iter().zip(buckets) {
            word.store(entry.pack(), Relaxed);
        }
        Ok(MANY | (log2 as u64) << 32 | u64::from(first))
    }

    /// What each bucket of a word holds; one for a single path.
    fn entries(&self, word: u64) -> Vec<Entry> {
        if word & MANY == 0 {
            return vec![Entry::unpack(word)];
        }
        (0..1u32 << ((word >> 32) & 31)).map(|h| Entry::unpack(self.shared.bucket(word, h))).collect()
    }
}

fn gone_buckets(word: u64) -> Option<Gone> {
    (word & MANY != 0).then_some(Gone::Buckets { first: word as u32, log2: ((word >> 32) & 31) as u8 })
}

/// Paths in order, those to the same place joined.
fn normal(paths: &[Path]) -> Result<Vec<Path>, GroupError> {
    if let Some(&Path { entry, weight }) = paths.iter().find(|p| p.weight == 0 || p.entry.kind > 127) {
        return Err(GroupError::Path { weight, kind: entry.kind });
    }
    let mut list = paths.to_vec();
    list.sort_unstable();
    list.dedup_by(|b, a| {
        let same = a.entry == b.entry;
        if same {
            a.weight = a.weight.saturating_add(b.weight);
        }
        same
    });
    match list.len() {
        1 => list[0].weight = 1,
        2..=MAX_BUCKETS => {
            let divisor = list.iter().fold(0, |d, p| gcd(d, p.weight));
            list.iter_mut().for_each(|p| p.weight /= divisor);
        }
        n => return Err(GroupError::Paths(n)),
    }
    Ok(list)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many buckets a group of its own gets: a power of two. Weights that add up to one are met exactly. Otherwise there
/// are at least 16 buckets a path as far as 256 reach.
fn bucket_count(paths: &[Path]) -> u64 {
    let total: u64 = paths.iter().map(|p| u64::from(p.weight)).sum();
    let lightest = paths.iter().map(|p| u64::from(p.weight)).min().unwrap_or(1);
    let max = MAX_BUCKETS as u64;
    if total.is_power_of_two() && total <= max {
        total
    } else {
        (16 * paths.len() as u64).max(4 * total.div_ceil(lightest)).min(max).next_power_of_two()
    }
}

/// What each bucket holds: paths by their weights. The share of a path is off by less than one bucket, except that a path too
/// light for a bucket gets one at the cost of others. A bucket keeps what it had in `old` if its path is still there and
/// has not more than its share; so when a path goes, only its own buckets change. There are `least` buckets or more.
fn spread(paths: &[Path], old: &[Entry], least: u64) -> Vec<Entry> {
    let total: u64 = paths.iter().map(|p| u64::from(p.weight)).sum();
    let kept = old.iter().any(|e| paths.iter().any(|p| p.entry == *e));
    // A group never shrinks while paths are left: the buckets of those would have to be joined.
    let count = bucket_count(paths).max(least).max(if kept { old.len() as u64 } else { 1 });
    // What a path has, times the sum of weights, less what it should have.
    let over =
        |i: usize, n: u64| i128::from(n * total) - i128::from(u64::from(paths[i].weight)) * i128::from(count);
    let index = |e: Entry| paths.binary_search_by_key(&e, |p| p.entry).ok();
    let mut buckets: Vec<Option<usize>> = match kept {
        true => (0..count as usize).map(|b| index(old[b % old.len()])).collect(),
        false => vec![None; count as usize],
    };
    let mut has = vec![0u64; paths.len()];
    buckets.iter().flatten().for_each(|&i| has[i] += 1);
    let poorest = |has: &[u64]| (0..has.len()).min_by_key(|&i| (has[i] > 0, over(i, has[i]), i)).unwrap_or(0);
    let mut fill = 0;
    while let Some(at) = buckets[fill..].iter().position(Option::is_none).map(|n| fill + n) {
        let i = poorest(&has);
        buckets[at] = Some(i);
        has[i] += 1;
        fill = at + 1;
    }
    // Whoever is a whole bucket away from its share gives or takes. That is nobody where a path just went.
    let one = i128::from(total);
    loop {
        let poor = poorest(&has);
        let may_give = (0..has.len()).filter(|&i| has[i] > 1);
        let Some(rich) = may_give.max_by_key(|&i| (over(i, has[i]), std::cmp::Reverse(i))) else { break };
        let (least, most) = (over(poor, has[poor]), over(rich, has[rich]));
        // Each move brings the two nearer, or gives a path its first bucket: it ends.
        let fair = has[poor] > 0 && (most - least <= one || least > -one && most < one);
        if rich == poor || fair {
            break;
        }
        let Some(at) = buckets.iter().rposition(|b| *b == Some(rich)) else { break };
        buckets[at] = Some(poor);
        has[rich] -= 1;
        has[poor] += 1;
    }
    buckets.into_iter().map(|b| b.map_or(Entry::default(), |i| paths[i].entry)).collect()
}
