//! `fib why`: which route decides on an address, against which others, and since when.

use super::explain::{self, NO_ROUTE};
use super::show;
use crate::cli::plural;
use crate::router::{RouteTable, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::IpAddr;

pub(super) fn command() -> Command<Router> {
    Command::read(
        "fib why <address:ip> [table <table:number table>]",
        "Why packets to an address go where they go",
        why,
    )
    .arg("address", "where packets are to go")
    .arg("table", "number of the table; 0 without it")
    .details(
        "All routes of the prefix that decides on the address: whose they are, their preference and metric as in [1/0], the \
         better one first, and with `>` the one in use; what its next-hop group holds now, and how long ago prefix and group \
         changed. Of the last thousands of prefixes that changed in small numbers the time is kept; of others it is known \
         that they did not change since. Longer prefixes that are withdrawn, as 'set ip table ... when-down withdraw' has it, are named \
         with their routes.",
    )
    .example("fib why 10.1.2.3")
    .example("fib why 2001:db8::1 table 10")
}

fn why(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let addr: IpAddr = args.opt("address")?.ok_or("an address is needed")?;
    let table = RouteTable::of(addr, args.opt("table")?.unwrap_or(0));
    if !router.has_table(table) {
        return Err(args.error("table", format!("there is no {table}")));
    }
    let router = &*router;
    let decides = router.covering_in(table.id, addr).pop();
    let mut text = match table.id {
        0 => format!("{addr}: "),
        id => format!("{addr} in table {id}: "),
    };
    let mut json = json!({
        "address": addr.to_string(), "table": table.id, "prefix": Json::Null, "routes": [], "changed": { "ms": null, "exact": false, "group-ms": null },
        "group": Json::Null, "adjacencies": [],
    });
    let group = decides.as_ref().and_then(|r| router.group(r.group));
    let (Some(r), Some(g)) = (decides, &group) else {
        let _ = writeln!(text, "{NO_ROUTE}");
        json["withdrawn"] = explain::withdrawn_part(router, &mut text, table, addr);
        json["result"] = NO_ROUTE.into();
        return Ok(Output::new(text, json));
    };
    let (now, changed) = (router.now(), router.route_changed(table, r.prefix));
    let count = 1 + r.hidden.len();
    let is = if count == 1 { "is" } else { "are" };
    let _ = writeln!(text, "{} decides, of which there {is} {}", r.prefix, plural(count, "route"));
    for e in router.routes_of_prefix(&r) {
        let mark = if e.group == r.group { ">" } else { " " };
        let _ = writeln!(text, "  {mark} {}", explain::route_words(router, &e));
    }
    json["withdrawn"] = explain::withdrawn_part(router, &mut text, table, addr);
    let ago = now.since(changed.at);
    let (than, seconds) = (if changed.exact { "" } else { "at least " }, ago / 1000);
    let since = now.since(g.changed);
    let _ = writeln!(text, "  prefix: changed {than}{seconds} s ago; group {}: {} s ago", g.id, since / 1000);
    let adjacencies = router.adjacency_list();
    json["prefix"] = r.prefix.to_string().into();
    json["routes"] = explain::routes_json(router, &r);
    json["changed"] = json!({ "ms": ago, "exact": changed.exact, "group-ms": since });
    json["group"] = show::group_json(router, g);
    json["adjacencies"] = explain::group_part(router, &mut text, g, &adjacencies, Some(addr));
    let result = explain::result_words(router, group.as_ref(), Some(addr));
    let _ = writeln!(text, "  result: {result}");
    json["result"] = result.into();
    Ok(Output::new(text, json))
}
