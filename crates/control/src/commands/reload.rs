//! SIGHUP: the file of the start is read again, and applied where it was changed.

use super::App;
use super::change::{Applying, Order, change};
use super::desired::{Desk, From};
use crate::saved::{Kind, digest};
use command::CommandError;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

/// The file of the start, which is read again and applied where it was changed.
pub struct Reload {
    desk: Desk,
    file: PathBuf,
    /// A digest of the file that was last applied, or that the start has read.
    seen: Cell<u64>,
}

impl Reload {
    /// A file, with the digest of what the start has read.
    pub fn new(app: &App, file: PathBuf, seen: u64) -> Rc<Reload> {
        Rc::new(Reload { desk: Desk::of(app), file, seen: Cell::new(seen) })
    }

    /// Reads it, and says in the log how that went. A log that is rotated sends SIGHUP as well: a file that is as it was is
    /// not applied, as that would turn back what was changed since.
    pub async fn run(&self) {
        let from = From::File(self.file.clone(), None);
        let name = from.name();
        match self.applied(from).await {
            Ok(text) => self.desk.changes.log(false, format!("SIGHUP: {name}: {text}")),
            Err(e) => {
                let lines: Vec<&str> = e.message.lines().collect();
                self.desk.changes.log(true, format!("SIGHUP: {name}: {}", lines.join("; ")));
            }
        }
    }

    async fn applied(&self, from: From) -> Result<String, CommandError> {
        let file = from.clone();
        let loaded = move || file.load().map(|wanted| digest(wanted.text.get()));
        let found = net::background::run(loaded).await.map_err(CommandError::new)??;
        if found == self.seen.get() {
            return Ok("is as it was, and not applied; `quiver apply` does".into());
        }
        let lock = Applying::begin(&self.desk.changes)?;
        let (confirm, comment) = (None, String::new());
        let (restart, exact) = (false, false);
        let order = Order { kind: Kind::Reload, from, confirm, restart, exact, comment, caller: None };
        let done = change(&self.desk, order).await;
        drop(lock);
        let text = done?.text;
        self.seen.set(found);
        Ok(text.trim_end().to_owned())
    }
}
