//! The pager of the shell: long answers stop at each screenful.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};

/// What comes later than this after the text before it was seen by the operator as it came.
const BURST: Duration = Duration::from_millis(500);
const PROMPT: &str = "--more-- (Space: a page, Enter: a line, a: all, q: no more)";

/// What the operator wants to see next.
enum Want {
    Page,
    Line,
    All,
    Nothing,
}

/// Shows the answer of one command.
pub struct Pager {
    /// Lines that may still be shown before the operator is asked; `None`: all.
    left: Option<usize>,
    last: Instant,
}

impl Pager {
    /// A pager for an answer; `on` is false where the operator wants none.
    pub fn new(on: bool) -> Self {
        let on = on && io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { left: page().filter(|_| on), last: Instant::now() }
    }

    /// Shows a piece of the answer, and answers whether the operator wants more.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, text: &str) -> io::Result<bool> {
        if self.left.is_some() && self.last.elapsed() > BURST {
            self.left = page();
        }
        let mut out = io::stdout().lock();
        for line in text.split_inclusive('\n') {
            if self.left == Some(0) {
                write!(out, "{PROMPT}")?;
                out.flush()?;
                let want = ask();
                write!(out, "\r\x1b[K")?;
                self.left = match want? {
                    Want::Page => page(),
                    Want::Line => Some(1),
                    Want::All => None,
                    Want::Nothing => {
                        out.flush()?;
                        return Ok(false);
                    }
                };
            }
            out.write_all(line.as_bytes())?;
            let rows = rows(line);
            self.left = self.left.map(|left| left.saturating_sub(rows));
        }
        self.last = Instant::now();
        out.flush()?;
        Ok(true)
    }
}

/// The lines of a screenful; `None` when the terminal does not say how high it is.
fn page() -> Option<usize> {
    size().ok().and_then(|(_, rows)| usize::from(rows).checked_sub(1)).filter(|rows| *rows > 0)
}

/// The lines of the screen that a line takes.
fn rows(line: &str) -> usize {
    let columns = size().map_or(80, |(columns, _)| usize::from(columns)).max(1);
    line.trim_end().chars().count().div_ceil(columns).max(1)
}

/// Waits for a key.
fn ask() -> io::Result<Want> {
    enable_raw_mode()?;
    let want = loop {
        match read() {
            Ok(Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. })) => match code {
                KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                    break Ok(Want::Nothing);
                }
                KeyCode::Char(' ' | 'f') | KeyCode::PageDown => break Ok(Want::Page),
                KeyCode::Enter | KeyCode::Down | KeyCode::Char('j') => break Ok(Want::Line),
                KeyCode::Char('a' | 'G') | KeyCode::End => break Ok(Want::All),
                KeyCode::Char('q') | KeyCode::Esc => break Ok(Want::Nothing),
                _ => {}
            },
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    disable_raw_mode()?;
    want
}
