//! A piece of a long answer.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// Bytes of a piece, about.
const BYTES: usize = 32 << 10;
/// How long the making of a piece may take, about: others wait meanwhile.
const TIME: Duration = Duration::from_millis(1);

/// Where a command writes the next piece of a long answer, as text or as JSON. It writes until the page is full, and goes on
/// when it is called again. A piece of JSON may end behind any value.
///
/// ```
/// use command::Page;
/// let mut page = Page::new(true);
/// page.open("{\"list\":[");
/// page.item(&1.into());
/// page.item(&2.into());
/// page.open_item("{\"three\":[");
/// page.close("]}");
/// page.close("]");
/// page.field("more", &true.into());
/// page.close("}");
/// assert_eq!(page.take(), "{\"list\":[1,2,{\"three\":[]}],\"more\":true}");
/// ```
#[derive(Debug)]
pub struct Page {
    json: bool,
    out: String,
    /// The next item or field is the first one of its list or mapping.
    first: bool,
    began: Instant,
    /// [`Page::is_full`] was asked since.
    asked: Cell<bool>,
}

impl Page {
    /// An empty page of JSON or of text.
    pub fn new(json: bool) -> Self {
        Self { json, out: String::new(), first: true, began: Instant::now(), asked: Cell::new(false) }
    }

    /// Whether JSON is wanted; else text.
    pub fn wants_json(&self) -> bool {
        self.json
    }

    /// Whether others are to have their turn: go on in the next call. The first answer of a piece is that there is room: also
    /// where the finding of an item takes all the time of a piece, each piece gets on by one.
    pub fn is_full(&self) -> bool {
        self.asked.replace(true) && (self.out.len() >= BYTES || self.began.elapsed() >= TIME)
    }

    /// Writes JSON that ends in an open list or mapping.
    pub fn open(&mut self, json: &str) {
        self.out.push_str(json);
        self.first = true;
    }

    /// Writes JSON that ends a list or mapping.
    pub fn close(&mut self, json: &str) {
        self.out.push_str(json);
        self.first = false;
    }

    /// Writes an item of a list.
    pub fn item(&mut self, item: &Json) {
        self.comma();
        let _ = fmt::Write::write_fmt(self, format_args!("{item}"));
    }

    /// Writes an item of a list which ends in an open list or mapping.
    pub fn open_item(&mut self, json: &str) {
        self.comma();
        self.open(json);
    }

    /// Writes a field of a mapping.
    pub fn field(&mut self, name: &str, value: &Json) {
        self.comma();
        let _ = fmt::Write::write_fmt(self, format_args!("{}:{value}", Json::from(name)));
    }

    /// Writes the name of a field, and an open list or mapping as its value.
    pub fn open_field(&mut self, name: &str, json: &str) {
        self.comma();
        let _ = fmt::Write::write_fmt(self, format_args!("{}:{json}", Json::from(name)));
        self.first = true;
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
    }

    /// Takes what was written; the time of the next piece begins.
    pub fn take(&mut self) -> String {
        self.start();
        std::mem::take(&mut self.out)
    }

    /// The time of a piece begins.
    pub fn start(&mut self) {
        self.began = Instant::now();
        self.asked.set(false);
    }
}

impl fmt::Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_piece_gets_on_by_one() {
        let mut page = Page::new(false);
        for _ in 0..2 {
            page.began = Instant::now().checked_sub(2 * TIME).expect("a clock that has run for a while");
            assert!(!page.is_full(), "nothing was done yet");
            assert!(page.is_full(), "its time is over");
            page.take();
        }
    }
}
