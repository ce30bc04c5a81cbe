//! Commands on steering.

use super::{BUCKETS, Handed, Handoff, HandoffConfig, config, handed, shares};
use crate::cli::{commit, listing};
use crate::router::{IfState, Op, Router};
use command::{Args, Command, CommandError, Output};
use graph::MAX_WORKERS;
use serde_json::json;
use std::fmt::Write;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface handoff <interface:interface> (workers <workers:string> [symmetrical|asymmetrical]|disable)",
            "Share the packets of an interface out among workers by their flow",
            set,
        )
        .arg("workers", "the workers: `all`, or numbers from 0 such as 0,2-3")
        .arg("symmetrical", "both directions of a flow go to one worker")
        .arg("asymmetrical", "each direction by itself; also when nothing is said")
        .arg("disable", "no more: the worker of a receive queue goes on with its packets")
        .details(
            "For devices with fewer receive queues than there are workers. All packets of a flow, that is of the same innermost addresses, \
             protocol and ports, go on at one worker, in their order: VLAN tags, MPLS labels, GRE, IP in IP and VXLAN are looked through. \
             Fragments go by their addresses, other packets by their labels or MAC addresses. `all` follows `set workers`. Each has as many flows as \
             any other, or less where it is busier, with `set workers balance on`. No packet is lost or overtaken when workers or shares change. A worker that is too far behind takes no more: these packets are dropped, and counted at the \
             interface as handoff-queue-full.",
        )
        .example("set interface handoff left workers all")
        .example("set interface handoff left workers 0 symmetrical")
        .example("set interface handoff left disable"),
        Command::read(
            "show interface handoff [<interface:interface>]...",
            "Which interfaces share their packets out among workers: each one's share of flows, and what it got",
            show,
        )
        .example("show interface handoff"),
    ]
}

/// Numbers of workers: numbers and ranges, separated by commas; none for `all`.
fn workers(text: &str) -> Result<Vec<usize>, String> {
    if text == "all" {
        return Ok(vec![]);
    }
    let number = |word: &str| word.parse::<usize>().ok().filter(|n| *n < MAX_WORKERS);
    let mut all = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => all.extend(first..=last),
            _ => {
                let most = MAX_WORKERS - 1;
                return Err(format!(
                    "'{part}' is neither a worker, 0 to {most}, nor a range such as 0-3, nor all"
                ));
            }
        }
    }
    all.sort_unstable();
    Ok(all)
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let wanted = if args.has("disable") {
        None
    } else {
        let text: String = args.get("workers")?;
        let workers = workers(&text).map_err(|why| args.error("workers", why))?;
        Some(HandoffConfig { workers, symmetrical: args.has("symmetrical") })
    };
    let feature = Handoff(wanted).into();
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let all = handed(router);
    listing::list(router, args, "", move |router, i: &IfState, text| {
        let config = config(router, i.index)?;
        let own: Vec<&Handed> = all.iter().filter(|h| h.interface == i.index).collect();
        let symmetrical = if config.symmetrical { ", symmetrical" } else { "" };
        let _ = writeln!(text, "{}: workers {}{symmetrical}", i.name, config.words());
        let shares = shares(router, i.index);
        let share = |buckets: usize| buckets as f64 / BUCKETS as f64;
        for (worker, buckets) in &shares {
            let _ = writeln!(text, "  worker {worker}: {:.1} % of flows", 100.0 * share(*buckets));
        }
        for h in &own {
            let _ = writeln!(text, "  worker {} to {}: {} packets", h.from, h.to, h.packets);
        }
        let rows = own.iter().map(
            |h| json!({ "from": h.from, "to": h.to, "packets": h.packets, "packets-per-second": h.rate }),
        );
        let shares = shares.iter().map(
            |(worker, buckets)| json!({ "worker": worker, "buckets": buckets, "share": share(*buckets) }),
        );
        Some(json!({
            "interface": i.name, "workers": config.workers, "all": config.workers.is_empty(), "symmetrical": config.symmetrical,
            "shares": shares.collect::<Vec<_>>(), "handed": rows.collect::<Vec<_>>(),
        }))
    })
}
