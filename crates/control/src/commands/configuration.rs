//! `show configuration`: the running state as a document.

use super::{App, Desk};
use crate::dump::{Dump, Source};
use crate::yaml::secrets::are_hidden_from;
use command::{Args, Command, CommandError, Output, Page};
use std::fmt::Write;
use std::rc::Rc;

pub(super) fn commands() -> [Command<App>; 2] {
    [document(), restart()]
}

fn restart() -> Command<App> {
    Command::read("show configuration restart", "What the next start changes of the section `quiver`", differences)
        .details(
            "A line for each field that differs: - as the process has it, + as the next start has it. `show configuration`, `configuration \
             get` and `save` have what the next start has.",
        )
        .example("show configuration restart")
}

fn differences(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let desk = Desk::of(app);
    let lines = desk.settings_differ(&desk.settings, &desk.next_settings());
    let text = if lines.is_empty() { "nothing differs".to_owned() } else { lines.join("\n") };
    Ok(Output::new(text, serde_json::json!(lines)))
}

fn document() -> Command<App> {
    Command::read("show configuration", "The running state as a YAML document", show)
        .details(
            "The document loads to the same state. 'quiver dump' prints it from the shell. With --json it is the same \
             document as JSON. Traffic counters, learned neighbors, captures and traces \
             are no configuration. Secrets are shown to the role `configure` alone: others see (hidden), with which a document does not \
             load. The section `quiver` is that of the next start: 'show configuration restart' tells where the process has another.",
        )
        .example("show configuration")
}

fn show(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (router, settings) = (Rc::clone(&app.router), Desk::of(app).next_settings());
    let mut dump = Dump::default().hiding(are_hidden_from(args.caller()));
    let mut began = None;
    Ok(Output::pieces(move |page| {
        let router = router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
        if *began.get_or_insert(router.said()) != router.said() {
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
