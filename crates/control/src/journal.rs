//! The last lines of the log, kept in memory for `show log`.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Lines kept.
const LINES: usize = 1000;
/// Bytes kept of a line.
const LONGEST: usize = 512;

/// The last lines of a log. Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<VecDeque<String>>>);

impl Journal {
    /// The last `most` lines, oldest first.
    pub fn last(&self, most: usize) -> Vec<String> {
        let Ok(lines) = self.0.lock() else { return Vec::new() };
        lines.iter().skip(lines.len().saturating_sub(most)).cloned().collect()
    }

    fn keep(&self, line: &str) {
        let Ok(mut lines) = self.0.lock() else { return };
        if lines.len() == LINES {
            lines.pop_front();
        }
        let mut end = line.len().min(LONGEST);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        lines.push_back(line.get(..end).unwrap_or_default().to_owned());
    }
}

/// Takes whole lines; the writer of the log hands each event on in one call.
impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        String::from_utf8_lossy(bytes).lines().for_each(|line| self.keep(line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_no_more() {
        let mut journal = Journal::default();
        for n in 0..LINES + 5 {
            journal.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        journal.write_all("é".repeat(LONGEST).as_bytes()).unwrap();
        assert_eq!(journal.last(LINES * 2).len(), LINES);
        assert_eq!(journal.last(LINES)[0], "line 6");
        let last = journal.last(2);
        assert_eq!((last[0].as_str(), last[1].len()), ("line 1004", LONGEST));
    }
}
