//! `show route clients`, `clear route client`.

use super::App;
use crate::clients::ClientInfo;
use command::{Args, Cell, Command, CommandError, Output, Table};

pub(super) fn commands() -> [Command<App>; 2] {
    [
        Command::read("show route clients", "Programs that set routes over the API", show)
            .details(
                "For each its source, as 'show ip fib' and 'fib why' have it, and by which preference its routes are chosen where 'set \
                 route-preference' says nothing else. Grace is how long the routes stay when its last stream has ended, in seconds, and Left \
                 what is left of that. Stale routes were not sent again yet.",
            )
            .example("show route clients"),
        Command::write("clear route client <source:string>", "Take a program's routes away, and end its streams", clear)
            .for_operators()
            .arg("source", "as 'show route clients' lists it: api:NAME@USER")
            .details("The routes go in turns of some thousand. The program may begin anew.")
            .example("clear route client api:fleet@root"),
    ]
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let router = app.router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
    let mut table = Table::new()
        .left("Source")
        .right("Streams")
        .right("Preference")
        .right("Grace")
        .right("Left")
        .right("Routes")
        .right("Stale")
        .right("Batches")
        .right("Changes")
        .right("Refused")
        .left("Last error");
    for c in app.clients.list(&router) {
        let ClientInfo { source, streams, preference, grace, left, .. } = c;
        table.row([
            Cell::from(source.as_str()),
            (streams as u64).into(),
            preference.into(),
            grace.as_secs().into(),
            left.map(|l| l.as_secs()).into(),
            c.routes.into(),
            c.stale.into(),
            c.batches.into(),
            c.changes.into(),
            c.refused.into(),
            c.last_error.as_deref().into(),
        ]);
    }
    Ok(Output::table(table))
}

fn clear(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let source: String = args.get("source")?;
    match app.clients.clear(&source) {
        true => Ok(Output::none()),
        false => {
            Err(args.error("source", format!("there is no client {source}: 'show route clients' lists all")))
        }
    }
}
