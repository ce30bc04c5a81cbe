//! `show interface rx-placement` and `set interface rx-placement`: which worker polls which receive queue.

use crate::cli::{commit, find};
use crate::router::{Op, Placement, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::fmt::Write;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read(
            "show interface rx-placement [<interface:interface>]...",
            "Which worker polls which receive queue",
            show,
        )
        .details(
            "Queues are spread so that all workers have about the same number; `placed` are those whose worker the \
             operator chose.",
        )
        .example("show interface rx-placement")
        .example("show interface rx-placement left"),
        Command::write(
            "set interface rx-placement <interface:interface> [queue <queue:u8 0..63>] (worker <worker:u8 0..63>|main|auto)",
            "Choose the worker that polls a receive queue",
            set,
        )
        .arg("queue", "number of the receive queue; 0 by default")
        .arg("worker", "number of the worker, from 0")
        .arg("main", "refused: the main thread takes no packets")
        .arg("auto", "let the router choose again")
        .details("Takes effect at once, and no packet is lost: what comes meanwhile waits in the queue.")
        .example("set interface rx-placement left worker 0")
        .example("set interface rx-placement left queue 0 auto"),
        Command::write(
            "set interface rx-queues <interface:interface> <queues:u8 1..64>",
            "Change how many receive queues a Linux device has",
            set_queues,
        )
        .details(
            "While packets flow: none is lost, and none overtakes another of its flow. A queue stays with the worker of its number; those that \
             are more go to the workers that have the fewest. A device with AF_XDP gets as many of its own, and may lose packets by that. \
             Devices of other drivers, and those with a ring of version 3, keep the number that they were made with.",
        )
        .example("set interface rx-queues left 4"),
    ]
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let named: Vec<String> = args.all("interface")?;
    let numbers: Result<HashSet<u32>, _> =
        named.iter().map(|n| find(router, args, n).map(|i| i.index)).collect();
    let (wanted, mut all) = (numbers?, router.rx_placement());
    all.retain(|p| named.is_empty() || wanted.contains(&p.interface));
    all.sort_by(|a, b| (a.worker, a.node).cmp(&(b.worker, b.node)));
    let mut text = String::new();
    for worker in all.chunk_by(|a, b| a.worker == b.worker) {
        let Some(first) = worker.first() else { continue };
        let _ = writeln!(text, "Thread {} (quiver_wk_{}):", first.worker + 1, first.worker);
        for node in worker.chunk_by(|a, b| a.node == b.node) {
            let _ = writeln!(text, "  node {}:", node.first().map_or("", |p| p.node));
            for p in node {
                let placed = if p.chosen { ", placed" } else { "" };
                let name = router.interface_name(p.interface);
                let _ = writeln!(text, "    {name} queue {} ({}{placed})", p.queue, p.polling.name());
            }
        }
    }
    let row = |p: &Placement| {
        json!({
            "interface": router.interface_name(p.interface), "queue": p.queue, "thread": p.worker + 1,
            "worker": p.worker, "node": p.node, "mode": p.polling.name(), "placed": p.chosen,
        })
    };
    Ok(Output::new(text, all.iter().map(row).collect::<Json>()))
}

fn set_queues(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let queues = usize::from(args.get::<u8>("queues")?);
    commit(router, vec![Op::SetRxQueues { name: args.get("interface")?, queues }])
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    if args.has("main") {
        let last = router.config().workers - 1;
        return Err(
            args.error("main", format!("the main thread takes no packets: say worker N, 0 to {last}"))
        );
    }
    let queue = usize::from(args.opt::<u8>("queue")?.unwrap_or(0));
    let worker = args.opt::<u8>("worker")?.map(usize::from);
    commit(router, vec![Op::SetPlacement { name: args.get("interface")?, queue, worker }])
}
