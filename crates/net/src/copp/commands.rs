//! `show punt` and `set punt policer`.

use super::part::{self, SetLimit};
use crate::cli::commit;
use crate::punt::{Class, Limit};
use crate::router::Router;
use command::{Args, Cell, Command, CommandError, Output, Table};
use serde_json::json;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show punt [verbose]", "Packets for the router itself by class, and their limits", show)
            .arg("verbose", "and what each worker counted")
            .details(
                "Rate is in packets a second over all workers, burst in packets. What is beyond a limit is dropped by \
                 `punt-policer`; `show errors` counts it too. Spared are those of the passed that came when the limit was \
                 reached: from interfaces that had used little of it, and from neighbors that the router knows or has \
                 asked for. Lost are messages to the control side that found its \
                 queue full.",
            )
            .example("show punt"),
        Command::write(
            "set punt policer <class:string> (rate <rate:u32 0..100000000 packets/s> \
             [burst <burst:u32 1..100000000 packets>]|off|default)",
            "Limit a class of packets for the router itself",
            set,
        )
        .arg("class", "as `show punt` names it, or `all`")
        .arg("rate", "packets a second over all workers; 0: none pass")
        .arg("burst", "packets that may pass at once; a tenth of the rate by default, at least 10")
        .arg("off", "no limit")
        .arg("default", "the limit with which the router starts")
        .example("set punt policer icmp rate 1000 burst 200")
        .example("set punt policer bgp off")
        .example("set punt policer all default"),
        Command::write("clear punt", "Start the counters of `show punt` at 0", |r: &mut Router, _| {
            part::clear(r);
            Ok(Output::none())
        })
        .example("clear punt"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let name: String = args.get("class")?;
    let classes = match Class::named(&name) {
        Some(class) => vec![class],
        None if name == "all" => Class::ALL.to_vec(),
        None => {
            let known = crate::punt::class::NAMES.join(", ");
            return Err(args.error("class", format!("there is no class {name}: all, {known}")));
        }
    };
    let (rate, burst): (Option<u32>, Option<u32>) = (args.opt("rate")?, args.opt("burst")?);
    let limit = |class: Class| match rate {
        Some(rate) => {
            let plain = Limit::of_rate(rate);
            Some(Limit { burst: burst.unwrap_or(plain.burst), ..plain })
        }
        None if args.has("off") => None,
        None => Some(class.default_limit()),
    };
    commit(router, classes.into_iter().map(|class| SetLimit { class, limit: limit(class) }.into()).collect())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let verbose = args.has("verbose");
    let mut table = Table::new().left("Class").right("Rate").right("Burst");
    if verbose {
        table = table.left("Worker");
    }
    table = table.right("Passed").right("Spared").right("Dropped").left("Packets");
    for row in part::rows(router) {
        let limit = match row.limit {
            Some(l) => [l.rate.into(), l.burst.into()],
            None => [Cell::new("off", serde_json::Value::Null), Cell::new("", serde_json::Value::Null)],
        };
        let counted = match verbose {
            true => row.workers.iter().copied().enumerate().collect(),
            false => vec![(0, row.total())],
        };
        for (worker, c) in counted {
            let mut cells = vec![row.class.name().into()];
            cells.extend(limit.clone());
            if verbose {
                cells.push(worker.into());
            }
            cells.extend([c.passed.into(), c.spared.into(), c.dropped.into(), row.class.about().into()]);
            table.row(cells);
        }
    }
    let lost = part::lost(router);
    let text = format!("{}lost on the way to the control side: {lost}\n", table.to_text());
    Ok(Output::new(text, json!({ "classes": table.to_json(), "lost": lost })))
}
