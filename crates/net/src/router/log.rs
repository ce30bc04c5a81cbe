//! What is said to the operator's log.

use std::collections::VecDeque;

/// The most lines that wait: whoever never takes the log does not grow it.
const MOST: usize = 10_000;

/// A message for the operator's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// True for a warning, false for information.
    pub warn: bool,
    /// One line.
    pub text: String,
}

/// Lines that wait to be taken.
#[derive(Default)]
pub(super) struct Log {
    lines: VecDeque<LogLine>,
    /// Lines for which there was no room since.
    lost: u64,
}

impl Log {
    /// A line, where there is room.
    pub fn note(&mut self, warn: bool, text: String) {
        if self.lines.len() < MOST {
            self.push(warn, text);
        } else {
            self.lost += 1;
        }
    }

    /// A line, whether there is room or not.
    pub fn push(&mut self, warn: bool, text: String) {
        self.lines.push_back(LogLine { warn, text });
    }

    /// The first lines, so many at most.
    pub fn take(&mut self, most: usize) -> Vec<LogLine> {
        if self.lost != 0 {
            let text = format!("{} lines are left out here: too many came at once", self.lost);
            self.push(true, text);
            self.lost = 0;
        }
        self.lines.drain(..most.min(self.lines.len())).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}
