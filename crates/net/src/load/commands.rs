//! `show load`.

use super::{Elephant, FULL, LoadOp, MOST_CPU, QueueLoad, SetWorkers, WorkerLoad};
use super::{elephants, queues, settings, workers};
use crate::cli::commit;
use crate::router::{PartOp, Router};
use crate::steering::handed;
use command::{Args, Cell, Command, CommandError, Output, Table};
use graph::Polling;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show load", "What workers do with their time, and how receive queues are used", show)
            .details(
                "Busy is the share of time with packets, over 1, 10 and 60 seconds: polls of empty queues are no work, other programs on the \
                 worker's processor are. Processor is the share in which the thread ran, polls included, and Waiting that in which it had no \
                 processor, both of the last second, as everything else but totals. Vector is the mean number of packets of an input's vector, \
                 Full the share of vectors with as many as fit, 256. Wakes are the sleeps that packets or other threads ended. Drops are those of the \
                 queue before the graph since its device was opened, and where the driver does not know the queue, those of the interface since they were cleared. Of interfaces with `set interface handoff` it is told how many \
                 packets workers handed to whom, and which flows take a quarter of a worker or more: they are found among samples of one packet in a \
                 thousand, over 10 seconds.",
            )
            .example("show load"),
        Command::write(
            "set workers <count:u8 1..64> [cpus <cpus:string>]",
            "Change how many workers there are, or where they run, while packets flow",
            set_workers,
        )
        .arg("count", "how many")
        .arg("cpus", "one CPU for each, such as 2-5 or 2,4,6; without it Linux chooses")
        .details(
            "Receive queues that `set interface rx-placement` has not given to a worker are shared out among those that are there; \
             a worker with such a queue, or with a way to wait of its own, is not taken away. No packet is lost, and none overtakes \
             another of its flow. A worker needs 1024 buffers of `quiver.buffers`. Workers that are not wanted any more sleep until \
             they are.",
        )
        .example("set workers 2")
        .example("set workers 1 cpus 0"),
        Command::write(
            "set workers polling (latency|balanced|power|default) [worker <worker:u8 0..63>]",
            "Choose how workers wait for packets",
            set_polling,
        )
        .arg("latency", "do not sleep while packets came in the last second")
        .arg("balanced", "spin where the next packet is expected sooner than a sleep and a wake-up cost; else sleep")
        .arg("power", "do not spin, and let packets gather for 40 us where they come closely")
        .arg("default", "balanced; with a worker: as the others")
        .arg("worker", "number of the worker, from 0; without it all that nothing of their own was set for")
        .details("Takes effect at once.")
        .example("set workers polling latency")
        .example("set workers polling power worker 0"),
        Command::write(
            "set workers balance (on|off)",
            "Let the router move receive queues, and flows that are shared out, where workers are unevenly busy",
            |router: &mut Router, args: &Args| commit(router, vec![LoadOp::Balance(args.has("on")).into()]),
        )
        .arg("on", "move them: one queue in 10 seconds at most, told in the log, and flows each second")
        .arg("off", "leave them")
        .details(
            "A queue moves from the busiest worker to the least busy when they differ by 20 % of their time over 10 seconds and the move makes the \
             busier of both less busy by 5 %, at the load of these 10 seconds and at that of the last minute: a queue does not follow load that comes and \
             goes, and one that is nearly all that its worker does stays. Queues that `set interface rx-placement` has given to a worker, and those of interfaces with `set interface handoff`, stay. Of such interfaces flows move instead, from the busiest \
             of the workers among which they are shared out to the least busy, from a difference of 10 % on until it is 4 %. What found no room on its way to a worker counts as asked of it. Among workers that do not poll the interface heavy flows stay. No packet is lost or overtaken.",
        )
        .example("set workers balance on"),
    ]
}

fn set_polling(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let named = Polling::ALL.iter().find(|(name, _)| args.has(name)).map(|(_, p)| *p);
    let op = match args.opt::<u8>("worker")? {
        Some(worker) => LoadOp::Own { worker: worker.into(), polling: named },
        None => LoadOp::Polling(named.unwrap_or_default()),
    };
    commit(router, vec![op.into()])
}

fn set_workers(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let count = usize::from(args.get::<u8>("count")?);
    let cpus = match args.opt::<String>("cpus")? {
        Some(text) => cpu_list(&text).map_err(|why| args.error("cpus", why))?,
        None => vec![],
    };
    resize(router, SetWorkers { count, cpus })
}

/// Makes one worker ready at a time, so that others have their turns between.
fn resize(router: &mut Router, op: SetWorkers) -> Result<Output, CommandError> {
    match op.prepare(router) {
        Ok(true) => Ok(Output::work(|| async { Ok(Output::then(|router: &mut Router| resize(router, op))) })),
        Ok(false) => commit(router, vec![op.into()]),
        Err(e) => Err(CommandError::new(e.message)),
    }
}

/// CPUs as Linux lists them: numbers and ranges, separated by commas.
fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| word.parse::<u16>().ok().filter(|n| *n <= MOST_CPU).map(usize::from);
    let mut all = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => all.extend(first..=last),
            _ => return Err(format!("'{part}' is neither a CPU, 0 to {MOST_CPU}, nor a range such as 2-5")),
        }
    }
    Ok(all)
}

fn percent(share: Option<f64>) -> Cell {
    share.map_or_else(Cell::empty, |s| Cell::new(format!("{:.1} %", s * 100.0), s))
}

fn mean(packets: Option<f64>) -> Cell {
    packets.map_or_else(Cell::empty, |n| Cell::float(n, 1))
}

fn rate(n: f64) -> Cell {
    Cell::float(n, 0)
}

fn show(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let (workers, queues) = (workers(router), queues(router));
    let mut text = workers_text(&workers);
    let mut table = Table::new()
        .left("Queue")
        .right("Worker")
        .right("Packets/s")
        .right("Vector")
        .right("Full")
        .right("Packets")
        .right("Bytes")
        .left("Drops");
    let mut rows = vec![];
    let mut of_interfaces = BTreeMap::new();
    for QueueLoad { placement: p, packets, bytes, rate: now, vector, full, drops: own } in queues {
        let name = router.interface_name(p.interface);
        let lost = |mut drops: Vec<(&'static str, u64)>| {
            drops.retain(|d| d.1 != 0);
            drops
        };
        let of_interface = || lost(router.interface_counts(p.interface).device_drops);
        let all = &*of_interfaces.entry(p.interface).or_insert_with(of_interface);
        let own = own.map(lost);
        let (told, of_all) = own.as_ref().map_or((all, " (interface)"), |own| (own, ""));
        let words: Vec<String> = told.iter().map(|(reason, n)| format!("{reason} {n}{of_all}")).collect();
        table.row([
            format!("{name} {}", p.queue).into(),
            p.worker.into(),
            rate(now),
            mean(vector),
            percent(full),
            packets.into(),
            bytes.into(),
            words.join(", ").into(),
        ]);
        let list = |drops: &[(&str, u64)]| {
            drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n })).collect::<Json>()
        };
        let (own, all) = (own.as_deref().map(list), list(all));
        rows.push(json!({
            "interface": name, "queue": p.queue, "input": p.input, "worker": p.worker, "packets": packets, "bytes": bytes,
            "packets-per-second": now, "vector": vector, "full": full, "drops": own, "interface-drops": all,
        }));
    }
    append(&mut text, &table);
    let workers = workers.iter().map(worker_json).collect::<Json>();
    let (handoffs, heavy) = (handoffs(router, &mut text), heavy_flows(router, &mut text));
    Ok(Output::new(
        text,
        json!({
            "vector-size": FULL, "balance": settings(router).balance, "workers": workers, "queues": rows, "handoffs": handoffs,
            "elephants": heavy,
        }),
    ))
}

/// What workers hand to each other, where they do.
fn handoffs(router: &Router, text: &mut String) -> Json {
    let mut table =
        Table::new().left("Handoff").right("From").right("To").right("Packets/s").right("Packets");
    let mut rows = vec![];
    for h in handed(router) {
        let name = router.interface_name(h.interface);
        table.row([name.clone().into(), h.from.into(), h.to.into(), rate(h.rate), h.packets.into()]);
        rows.push(json!({
            "interface": name, "from": h.from, "to": h.to, "packets-per-second": h.rate, "packets": h.packets,
        }));
    }
    append(text, &table);
    rows.into()
}

/// The flows that sharing out does not help.
fn heavy_flows(router: &Router, text: &mut String) -> Json {
    let mut table =
        Table::new().left("Elephant").left("Interface").right("Worker").right("Of it").right("Packets/s");
    let mut rows = vec![];
    for Elephant { of, share } in elephants(router) {
        let (flow, name) = (of.flow.to_string(), router.interface_name(of.interface));
        table.row([
            flow.clone().into(),
            name.clone().into(),
            of.worker.into(),
            percent(Some(share)),
            rate(of.rate),
        ]);
        rows.push(json!({
            "flow": flow, "interface": name, "worker": of.worker, "share": share, "packets-per-second": of.rate,
        }));
    }
    append(text, &table);
    rows.into()
}

fn append(text: &mut String, table: &Table) {
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.to_text());
    }
}

fn workers_text(workers: &[WorkerLoad]) -> String {
    let mut table = Table::new()
        .right("Worker")
        .right("Busy 1 s")
        .right("10 s")
        .right("60 s")
        .right("Processor")
        .right("Waiting")
        .right("Packets/s")
        .right("Vector")
        .right("Full")
        .right("Sleeps/s")
        .right("Wakes/s");
    for w in workers {
        table.row([
            w.worker.into(),
            percent(w.busy[0]),
            percent(w.busy[1]),
            percent(w.busy[2]),
            percent(w.processor[0]),
            percent(w.waiting),
            rate(w.packets),
            mean(w.vector),
            percent(w.full),
            rate(w.sleeps),
            rate(w.wakes),
        ]);
    }
    table.to_text()
}

fn worker_json(w: &WorkerLoad) -> Json {
    let spans = |[second, ten, minute]: [Option<f64>; 3]| json!({ "1s": second, "10s": ten, "60s": minute });
    json!({
        "worker": w.worker, "thread": w.worker + 1, "busy": spans(w.busy), "processor": spans(w.processor), "waiting": w.waiting,
        "packets-per-second": w.packets, "vector": w.vector, "full": w.full, "sleeps-per-second": w.sleeps,
        "wakes-per-second": w.wakes,
    })
}
