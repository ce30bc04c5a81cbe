//! The last lines of the log, kept in memory for `show log`, and in the state folder for the run behind one that dies.

use crate::last_words::{self, Tail};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

/// Lines kept.
const LINES: usize = 1000;
/// Bytes kept of a line.
const LONGEST: usize = 512;

/// The last lines of a log. Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Kept>>, Arc<OnceLock<String>>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    tail: Option<Tail>,
}

impl Journal {
    /// The last `most` lines, oldest first.
    pub fn last(&self, most: usize) -> Vec<String> {
        let Ok(kept) = self.0.lock() else { return Vec::new() };
        kept.lines.iter().skip(kept.lines.len().saturating_sub(most)).cloned().collect()
    }

    /// Writes the lines into a state folder as well. The last lines of the run before, where that died.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write_to(&self, folder: &Path) -> io::Result<Option<String>> {
        let (tail, died) = Tail::begin(folder)?;
        if let Some(words) = last_words::of(folder) {
            let _ = self.1.set(words);
        }
        if let Ok(mut kept) = self.0.lock() {
            kept.tail = Some(tail);
        }
        Ok(died)
    }

    /// The run ends in order.
    pub fn end(&self) {
        if let Some(mut tail) = self.0.lock().ok().and_then(|mut kept| kept.tail.take()) {
            tail.end_lines();
        }
    }

    /// The last lines of the run that died last, as far as there is a state folder.
    pub fn last_words(&self) -> Option<&str> {
        self.1.get().map(String::as_str)
    }

    fn keep(&self, line: &str) {
        let Ok(mut kept) = self.0.lock() else { return };
        let lines = &mut kept.lines;
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
        if let Some(tail) = self.0.lock().ok().as_mut().and_then(|kept| kept.tail.as_mut()) {
            tail.add(bytes);
        }
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
