//! `show configuration`: the running state as a document.

use super::App;
use crate::dump::{Dump, Source};
use crate::yaml::Settings;
use command::{Args, Command, CommandError, Emit, Output};
use net::router::Router;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) fn command() -> Command<App> {
    Command::read("show configuration", "The running state as a YAML document", show)
        .details(
            "The document loads to the same state. 'quiver dump' prints it from the shell. With --json it is the same \
             document as JSON, made as a whole before it is sent. Traffic counters, learned neighbors, captures and traces \
             are no configuration.",
        )
        .example("show configuration")
}

fn show(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (router, settings) = (Rc::clone(&app.router), Rc::clone(&app.settings));
    if args.wants_json() {
        let router = router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
        return Ok(Output::new("", Dump::json(Source { router: &router, settings: &settings })));
    }
    Ok(Output::stream(move |emit| run(router, settings, emit)))
}

/// Between two pieces of the document the control thread does its other work.
async fn run(
    router: Rc<RefCell<Router>>,
    settings: Rc<Settings>,
    emit: Emit,
) -> Result<Output, CommandError> {
    let busy = |_| CommandError::new("the router is busy");
    let changes = router.try_borrow().map_err(busy)?.changes();
    let mut dump = Dump::default();
    loop {
        let text = {
            let router = router.try_borrow().map_err(busy)?;
            if router.changes() != changes {
                return Err("the configuration was changed while it was written: ask again".into());
            }
            dump.next_text(Source { router: &router, settings: &settings })
        };
        match text {
            Some(text) if emit.line(text.trim_end_matches('\n')) => tokio::task::yield_now().await,
            _ => return Ok(Output::none()),
        }
    }
}
