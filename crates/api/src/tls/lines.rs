//! What is told in the log of those who come over the network: not more than some lines a minute, whatever they do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a span of time.
const LINES: u32 = 20;
const SPAN: Duration = Duration::from_secs(60);

/// Writes a line; the first tells whether it is a warning.
pub type Write = dyn Fn(bool, &str) + Send + Sync;

/// The way into the log.
#[derive(Clone)]
pub struct Lines {
    write: Arc<Write>,
    told: Arc<Mutex<Told>>,
}

struct Told {
    since: Instant,
    lines: u32,
    lost: u64,
}

impl Lines {
    /// Lines that go this way.
    pub fn new(write: Arc<Write>) -> Lines {
        Lines { write, told: Arc::new(Mutex::new(Told { since: Instant::now(), lines: 0, lost: 0 })) }
    }

    /// What goes as it should.
    pub fn say(&self, line: String) {
        self.tell(false, &line, Instant::now());
    }

    /// What an operator may want to mend.
    pub fn warn(&self, line: String) {
        self.tell(true, &line, Instant::now());
    }

    fn tell(&self, warns: bool, line: &str, now: Instant) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(told.since) >= SPAN {
            let lost = std::mem::take(&mut told.lost);
            (told.since, told.lines) = (now, 0);
            if lost != 0 {
                (self.write)(true, &format!("API: {lost} more lines of refused connections were left out"));
            }
        }
        if told.lines == LINES {
            told.lost += 1;
            return;
        }
        told.lines += 1;
        // A name in a certificate may hold what a terminal takes for orders.
        (self.write)(warns, &line.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted() {
        let written = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&written);
        let lines = Lines::new(Arc::new(move |_, line| to.lock().unwrap().push(line.to_string())));
        let now = Instant::now();
        for _ in 0..LINES + 5 {
            lines.tell(true, "a\u{1b}b", now);
        }
        assert_eq!(*written.lock().unwrap(), vec!["a?b".to_string(); LINES as usize]);
        lines.tell(false, "c", now + SPAN);
        let written = written.lock().unwrap();
        assert_eq!(
            written[LINES as usize..],
            ["API: 5 more lines of refused connections were left out", "c"]
        );
    }
}
