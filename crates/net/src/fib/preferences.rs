//! `set route-preference`, `show route-preference`.

use crate::cli::commit;
use crate::router::{CONNECTED, Rank, Router, STATIC, SourcePreference};
use command::{Args, Cell, Command, CommandError, Output, Table};

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set route-preference <source:string> (<preference:u8 1..254>|default)",
            "By which preference routes of a source are chosen, where a prefix has several routes",
            set,
        )
        .arg(
            "source",
            "connected, static, or the name of a source as 'show ip fib' has it: kernel:bird; kernel stands for all \
             kernel:... and kernel:bird for kernel:bird@NAMESPACE",
        )
        .arg("preference", "the least of a prefix is used; of equal ones the least metric")
        .arg("default", "what the routes have by themselves")
        .details(
            "Of names that fit a source the longest counts. It holds for connected prefixes, for static routes that do not \
             say a preference (or 1, which is the same), and for routes of other sources; the router's own addresses come \
             before all routes, and host routes of neighbors behind all. Routes of a prefix change over in turns, some \
             hundred at a time, and no packet is lost by it.",
        )
        .example("set route-preference kernel:bird 30")
        .example("set route-preference static default"),
        Command::read("show route-preference", "Preferences of the sources of routes", |r, _| Ok(show(r)))
            .details("Sources that have registered, and what is set for others.")
            .example("show route-preference"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let new = SourcePreference { source: args.get("source")?, preference: args.opt("preference")? };
    commit(router, vec![new.into()])
}

fn show(router: &Router) -> Output {
    let set: Vec<SourcePreference> = router.source_preferences().collect();
    let of = |name: &str| set.iter().find(|s| s.source == name).and_then(|s| s.preference);
    let mut table = Table::new().left("Source").right("Preference").right("Set").right("Routes");
    let mut row = |name: &str, own: Option<u8>, set: Option<u8>, routes: Option<u64>| {
        table.row([Cell::from(name), own.into(), set.into(), routes.into()]);
    };
    row(CONNECTED, Some(Rank::CONNECTED.preference), of(CONNECTED), None);
    row(STATIC, Some(Rank::STATIC.preference), of(STATIC), None);
    let sources = router.route_sources();
    for s in &sources {
        row(&s.name, Some(s.preference), s.said, Some(s.routes));
    }
    let known = |name: &str| matches!(name, CONNECTED | STATIC) || sources.iter().any(|s| s.name == name);
    for s in set.iter().filter(|s| !known(&s.source)) {
        row(&s.source, None, s.preference, None);
    }
    Output::table(table)
}
