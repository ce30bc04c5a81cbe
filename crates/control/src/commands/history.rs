//! `configuration history`, `show configuration diff`: what was kept, and what differs from it.

use super::App;
use super::change::background;
use super::desired::{Desk, Differences, From, planned};
use super::places::Held;
use crate::saved::{Commands, Header, Record, SavedError, date};
use crate::yaml::secrets::are_hidden_from;
use command::{Args, Command, CommandError, Output, Table};
use net::background::drop_aside;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::sync::Arc;

pub(super) fn commands() -> [Command<App>; 2] {
    [
        Command::read(
            "configuration history [<number:u64 1..18446744073709551615> [document]]",
            "Configurations that were kept, the last one first",
            history,
        )
        .arg("number", "of one of them: what it changed, or its document")
        .details(
            "A start takes the last one. While that says `start`, or `back` to a `start`, nothing was applied or saved yet, and the \
             start takes the file of `quiver run -c`. Some 50 are kept. Secrets in their documents are shown to the role `configure` alone. `quiver history [N]` does the same from the shell.",
        )
        .example("configuration history")
        .example("configuration history 3")
        .example("configuration history 3 document"),
        Command::read("show configuration diff", "What differs between what runs and what is kept", diff)
            .details(
                "A line for each object: + where it runs and is not kept, - where it is the other way round, ~ where both have it \
                 and it differs. `configuration save` keeps what runs, `configuration rollback N exact` with the last number goes \
                 back to what is kept.",
            )
            .example("show configuration diff"),
    ]
}

fn json_of(h: &Header) -> Json {
    json!({
        "number": h.number, "time": date(h.time), "kind": h.kind.name(), "user": h.author.user, "name": h.author.name,
        "from": h.author.from, "source": h.source, "comment": h.comment,
        "changes": h.diff.len() as u64 + h.more, "commands": h.commands,
    })
}

fn history(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let folder = app.changes.folder()?;
    let document = args.has("document");
    let Some(number) = args.opt::<u64>("number")? else {
        return Ok(Output::stream(async move |_| {
            let all = background(move || {
                let numbers = folder.numbers()?;
                Ok(numbers.into_iter().map(|n| (n, folder.header(n))).collect::<Vec<_>>())
            })
            .await?;
            Ok(list(&all))
        }));
    };
    let (desk, caller) = (Desk::of(app), args.caller().cloned());
    Ok(Output::stream(async move |_| {
        if document {
            return Ok(document_of(desk.kept(number, caller.as_ref()).await?));
        }
        let header = background(move || folder.header(number)).await?;
        Ok(one(&header))
    }))
}

/// Bytes of a document in a piece.
const PIECE: usize = 32 << 10;

/// A document, as it was kept. Its JSON is one string.
fn document_of(mut record: Held<Record>) -> Output {
    let mut at = 0;
    Output::pieces(move |page| {
        let text = record.read()?.document();
        let json = page.wants_json();
        if json && at == 0 {
            page.open("\"");
        }
        let mut end = (at + PIECE).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let piece = text.get(at..end).unwrap_or_default();
        if json {
            let quoted = Json::from(piece).to_string();
            let _ = page.write_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
        } else {
            let _ = page.write_str(piece);
        }
        at = end;
        let more = at < text.len();
        if json && !more {
            page.close("\"");
        }
        Ok(more)
    })
}

fn list(all: &[(u64, Result<Header, SavedError>)]) -> Output {
    let mut table =
        Table::new().right("Number").left("Time").left("Kind").left("User").left("From").left("Of");
    table = table.right("Changes").left("Comment");
    let mut json = vec![];
    for (number, header) in all {
        match header {
            Ok(h) => {
                let name =
                    if h.author.name.is_empty() { h.author.user.to_string() } else { h.author.name.clone() };
                table.row([
                    (*number).into(),
                    date(h.time).into(),
                    h.kind.name().into(),
                    name.into(),
                    h.author.from.as_str().into(),
                    h.source.as_str().into(),
                    (h.diff.len() as u64 + h.more).into(),
                    h.comment.as_str().into(),
                ]);
                json.push(json_of(h));
            }
            Err(e) => {
                let cells = ["", "damaged", "", "", "", ""].map(Into::into);
                let cells = [(*number).into()].into_iter().chain(cells).chain([e.to_string().into()]);
                table.row(cells);
                json.push(json!({ "number": number, "kind": "damaged", "comment": e.to_string() }));
            }
        }
    }
    Output::new(table.to_text(), Json::from(json))
}

fn one(h: &Header) -> Output {
    let mut text = format!("number {}, {}, {}", h.number, date(h.time), h.kind.name());
    if !h.source.is_empty() {
        let _ = write!(text, " of {}", h.source);
    }
    let _ = write!(text, "\nby user {} {}", h.author.user, h.author.name);
    if !h.author.from.is_empty() {
        let _ = write!(text, ", {}", h.author.from);
    }
    if !h.comment.is_empty() {
        let _ = write!(text, "\n{}", h.comment);
    }
    if !h.commands.is_empty() {
        let of = |c: &Commands| match c.name.as_str() {
            "" => format!("user {} ({})", c.user, c.count),
            name => format!("{name} ({})", c.count),
        };
        let all: Vec<String> = h.commands.iter().map(of).collect();
        let _ = write!(text, "\nwith commands of {}", all.join(", "));
    }
    h.diff.iter().for_each(|line| _ = write!(text, "\n{line}"));
    if h.more != 0 {
        let _ = write!(text, "\nand {} more", h.more);
    }
    let mut json = json_of(h);
    json["diff"] = h.diff.clone().into();
    json["more"] = h.more.into();
    Output::new(text, json)
}

fn diff(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (desk, folder, caller) = (Desk::of(app), app.changes.folder()?, args.caller().cloned());
    Ok(Output::stream(async move |_| {
        let place = desk.changes.places.take(caller.as_ref()).await?;
        let kept = Arc::clone(&folder);
        let last = background(move || Ok(kept.numbers()?.first().copied())).await?;
        let last = last.ok_or_else(|| CommandError::new("nothing is kept yet"))?;
        let from = From::Kept(folder, last);
        let mut wanted = net::background::run(move || from.load()).await.map_err(CommandError::new)?;
        if are_hidden_from(caller.as_ref()) {
            // It shows lines of the document.
            let why = "does not load: who has the role `configure` sees why";
            wanted = wanted.map_err(|_| CommandError::new(format!("number {last} of the history {why}")));
        }
        let wanted = wanted?;
        let running = desk.running().await?;
        let (plan, kept, running) = planned(wanted.side, running, None).await?;
        drop_aside((kept, running));
        Ok(Differences::new(place.hold(plan), vec![], vec![]).output())
    }))
}
