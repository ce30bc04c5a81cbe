//! `show load`.

use super::{FULL, QueueLoad, WorkerLoad, queues, workers};
use crate::router::Router;
use command::{Args, Cell, Command, CommandError, Output, Table};
use serde_json::{Value as Json, json};

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show load", "What workers do with their time, and how receive queues are used", show)
            .details(
                "Busy is the share of time with packets, over 1, 10 and 60 seconds: polls of empty queues are no work, other programs on the \
                 worker's processor are. Processor is the share in which the thread ran, polls included, and Waiting that in which it had no \
                 processor, both of the last second, as everything else but totals. Vector is the mean number of packets of an input's vector, \
                 Full the share of vectors with as many as fit, 256. Wakes are the sleeps that packets or other threads ended. Drops are those of the \
                 interface's device before the graph, over all its queues.",
            )
            .example("show load"),
    ]
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
    for QueueLoad { placement: p, packets, bytes, rate: now, vector, full } in queues {
        let name = router.interface_name(p.interface);
        let mut drops = router.interface_counts(p.interface).device_drops;
        drops.retain(|d| d.1 != 0);
        let words: Vec<String> = drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
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
        let drops =
            drops.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n })).collect::<Json>();
        rows.push(json!({
            "interface": name, "queue": p.queue, "input": p.input, "worker": p.worker, "packets": packets, "bytes": bytes,
            "packets-per-second": now, "vector": vector, "full": full, "interface-drops": drops,
        }));
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.to_text());
    }
    let workers = workers.iter().map(worker_json).collect::<Json>();
    Ok(Output::new(text, json!({ "vector-size": FULL, "workers": workers, "queues": rows })))
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
