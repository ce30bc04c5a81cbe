//! `configuration save`: keeping what runs for the next start.

use super::App;
use super::change::{COMMENT, alone, background, header, who, words};
use super::desired::{Desk, From};
use super::keeping;
use super::reading::{Written, until_unchanged};
use crate::engine::{self, Brought, Side};
use crate::events::Phase;
use crate::saved::Kind;
use command::{Args, Caller, Command, CommandError, Output};
use net::background::drop_aside;
use net::router::Router;
use serde_json::json;
use std::sync::Arc;

pub(super) fn command() -> Command<App> {
    Command::write("configuration save [comment <comment:string>]", "Keep what runs for the next start", save)
        .alias("save [comment <comment:string>]")
        .arg("comment", COMMENT)
        .details(
            "What commands have changed is gone after a restart unless it is saved. The history says whose they were. What is kept is the \
             document before, edited: what says the same stays as it is written, with comments and order; where it cannot be edited, \
             which the answer tells, it is what `show configuration` writes. `quiver save` does the same from the shell.",
        )
        .example("configuration save")
        .example("save comment \"peer moved\"")
}

fn save(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    app.changes.folder()?;
    let (caller, comment) = (args.caller().cloned(), args.opt::<String>("comment")?.unwrap_or_default());
    let comment = crate::saved::plain(&comment);
    alone(app, async move |desk| {
        let Saved { number, new, told } = saved(&desk, caller, comment).await?;
        let told = told.map(|t| format!("\n{t}")).unwrap_or_default();
        let text = kept_text(number, new) + &told;
        Ok(Output::new(text, json!({ "number": number, "saved": new })))
    })
}

fn kept_text(number: u64, new: bool) -> String {
    match new {
        true => format!("saved as number {number}"),
        false => format!("nothing differs from number {number}"),
    }
}

/// What was kept.
pub(super) struct Saved {
    /// Its number in the history.
    pub number: u64,
    /// Whether it differs from what was kept last.
    pub new: bool,
    /// What is to be told of its text.
    told: Option<&'static str>,
}

/// Keeps what runs, in the text of the document before where that can be edited.
pub(super) async fn saved(
    desk: &Desk,
    caller: Option<Caller>,
    comment: String,
) -> Result<Saved, CommandError> {
    if desk.changes.pending.borrow().is_some() {
        let why = "what was applied waits to be confirmed: `configuration confirm` keeps it";
        return Err(CommandError::new(why));
    }
    let (folder, author) = (desk.changes.folder()?, who(caller).await);
    let (who_saves, told_of) = (author.clone(), comment.clone());
    let begin = |router: &Router| Ok(Written::of(router));
    // Both readings are of one state.
    let both = until_unchanged(async |_| {
        let (read, version) = desk.read_whole(false, &desk.next_settings(), begin).await?;
        let running = desk.running().await?;
        Ok((desk.version()? == version).then_some((read.text, running)))
    });
    let (text, running) = both.await?;
    let (by, commands) = (words(&author), desk.changes.trail.unsaved());
    let kept = background(move || {
        let text = text.whole();
        let newest = folder.numbers()?.first().copied();
        // What cannot be read is no reason not to keep what runs.
        let last = newest
            .and_then(|n| Some((n, folder.header(n).ok()?, From::Kept(Arc::clone(&folder), n).load().ok()?)));
        let side = last.as_ref().map(|(_, _, wanted)| &wanted.side);
        let plan = engine::plan(side.unwrap_or(&Side::default()), &running)?;
        let brought = Brought::of(&running);
        if let Some((number, header, _)) = &last
            && plan.is_empty()
            && header.is_state()
        {
            return Ok((*number, false, None, brought));
        }
        let (text, told) = match last.as_ref().map(|(_, _, last)| last) {
            // There may be one of which nothing can be kept.
            None => (text, newest.map(|_| keeping::ANEW)),
            Some(last) => match keeping::edited(last, &text, &running) {
                None => (text, keeping::anew(last)),
                Some(edited) => edited,
            },
        };
        let mut header = header(Kind::Save, String::new(), author, comment, &plan);
        header.commands = commands;
        let prepared = folder.prepare(header, &text)?;
        folder.keep(&prepared).map(|n| (n, true, told, brought))
    });
    let (number, new, told, brought) =
        kept.await.map_err(|e| CommandError::new(format!("nothing was saved: {}", e.message)))?;
    desk.changes.trail.saved();
    drop_aside(desk.changes.brought.replace(Some(brought)));
    if new {
        desk.changes.log(false, format!("configuration: {by} {}", kept_text(number, new)));
        desk.changes.events.configured(Phase::Saved, &who_saves, Some(number), None, &told_of);
    }
    Ok(Saved { number, new, told })
}
