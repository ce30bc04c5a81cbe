//! `show configuration`: the running state as a document.

use super::App;
use crate::dump::{Dump, Source};
use command::{Args, Command, CommandError, Output, Page};
use std::fmt::Write;
use std::rc::Rc;

pub(super) fn command() -> Command<App> {
    Command::read("show configuration", "The running state as a YAML document", show)
        .details(
            "The document loads to the same state. 'quiver dump' prints it from the shell. With --json it is the same \
             document as JSON. Traffic counters, learned neighbors, captures and traces \
             are no configuration.",
        )
        .example("show configuration")
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let (router, settings) = (Rc::clone(&app.router), Rc::clone(&app.settings));
    let mut dump = Dump::default();
    let mut began = None;
    Ok(Output::pieces(move |page| {
        let router = router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
        if *began.get_or_insert(router.changes()) != router.changes() {
            return Err("the configuration was changed while it was written: ask again".into());
        }
        let from = Source { router: &router, settings: &settings };
        loop {
            if page.is_full() {
                return Ok(true);
            }
            let more =
                if page.wants_json() { dump.next_json(from, page) } else { text(&mut dump, from, page) };
            if !more {
                return Ok(false);
            }
        }
    }))
}

fn text(dump: &mut Dump, from: Source<'_>, page: &mut Page) -> bool {
    let Some(text) = dump.next_text(from) else { return false };
    let _ = page.write_str(&text);
    true
}
