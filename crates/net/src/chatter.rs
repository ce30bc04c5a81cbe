//! Lines of the log that somebody outside can cause as often as they like: the first of a minute are written, then how many there were.

use std::collections::BTreeMap;

/// Lines of a minute that are written.
const MOST: u32 = 10;
/// The minute, milliseconds.
const MINUTE: u64 = 60_000;

/// What was said on account of one of those who can cause it.
#[derive(Debug, Default)]
struct Said {
    /// When the minute began, milliseconds.
    since: u64,
    written: u32,
    left_out: u64,
    last: String,
}

/// Lines by who causes them, for whom `K` stands.
#[derive(Debug)]
pub(crate) struct Chatter<K>(BTreeMap<K, Said>);

impl<K: Ord + Copy> Chatter<K> {
    /// Nobody has said anything.
    pub fn new() -> Chatter<K> {
        Chatter(BTreeMap::new())
    }

    /// Whether a line is to be written.
    pub fn hears(&mut self, who: K, line: &str, now: u64) -> bool {
        let said = self.0.entry(who).or_insert_with(|| Said { since: now, ..Said::default() });
        if said.left_out == 0 && now.saturating_sub(said.since) >= MINUTE {
            (said.since, said.written) = (now, 0);
        }
        if said.written < MOST {
            said.written += 1;
            return true;
        }
        said.left_out += 1;
        said.last.clear();
        said.last.push_str(line);
        false
    }

    /// When there is something to be summed up, milliseconds.
    pub fn due(&self) -> Option<u64> {
        self.0.values().filter(|s| s.left_out != 0).map(|s| s.since + MINUTE).min()
    }

    /// How many lines were left out whose minute is over, with the last of them.
    pub fn sums(&mut self, now: u64) -> Vec<(K, String)> {
        let mut sums = vec![];
        for (who, said) in &mut self.0 {
            if said.left_out == 0 || now.saturating_sub(said.since) < MINUTE {
                continue;
            }
            let (n, seconds, last) = (said.left_out, now.saturating_sub(said.since) / 1000, &said.last);
            let lines = if n == 1 { "line" } else { "lines" };
            sums.push((*who, format!("{n} more {lines} in the last {seconds} s, the last of them: {last}")));
            // Who goes on is summed up from now on, until a minute was quiet.
            (said.since, said.left_out) = (now, 0);
        }
        sums
    }

    /// Somebody is gone.
    pub fn forget(&mut self, who: K) {
        self.0.remove(&who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_minute_are_written_and_others_summed_up() {
        let mut c = Chatter::new();
        let written = (0..1000).filter(|n| c.hears(1, &format!("line {n}"), 5 + n)).count();
        assert_eq!((written, c.due()), (MOST as usize, Some(60_005)));
        assert!(c.hears(2, "of another", 10));
        assert!(c.sums(60_004).is_empty());
        let sums = c.sums(60_005);
        assert_eq!(sums, [(1, "990 more lines in the last 60 s, the last of them: line 999".to_owned())]);
        // Who goes on is only counted; who was quiet for a minute is heard again.
        assert!(!c.hears(1, "again", 60_100));
        assert_eq!(c.due(), Some(120_005));
        assert_eq!(c.sums(121_005)[0].1, "1 more line in the last 61 s, the last of them: again");
        assert_eq!((c.due(), c.sums(300_000).len()), (None, 0));
        assert!(c.hears(1, "at last", 300_000));
        c.forget(1);
        assert!((0..10).all(|_| c.hears(1, "new", 300_001)) && !c.hears(1, "too much", 300_001));
    }
}
