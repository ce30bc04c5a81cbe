//! The word that was probably meant.

use std::collections::HashSet;

/// The one of `words` that `word` most likely stands for, if any is like it.
pub(crate) fn near<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let length = word.chars().count();
    if length < 3 {
        return None;
    }
    // No other word can be near enough, and most stand here many times.
    let mut seen = HashSet::new();
    let fits = |other: &&'w str| other.chars().count().abs_diff(length) <= 3 && seen.insert(*other);
    let best =
        words.filter(fits).map(|other| (distance(word, other), other)).min_by_key(|(away, _)| *away)?;
    // One wrong letter in three, and two letters that changed places count as one.
    (best.0 <= (length / 3).clamp(1, 3) || best.0 == 2 && swapped(word, best.1)).then_some(best.1)
}

/// Whether two words differ in two neighbouring letters that changed places.
fn swapped(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else { return false };
    a.len() == b.len()
        && a.get(at) == b.get(at + 1)
        && a.get(at + 1) == b.get(at)
        && a.get(at + 2..) == b.get(at + 2..)
}

/// Letters to be added, taken away or changed to make `b` of `a` (Levenshtein).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = (before + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            before = row[j + 1];
            row[j + 1] = here;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances() {
        for (a, b, n) in [
            ("", "", 0),
            ("left", "lefft", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), n, "{a} {b}");
        }
    }
}
