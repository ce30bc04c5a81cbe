//! `crowd`: what workers and other clients notice of clients of the API that read all the time, never read, send garbage, or break off.

use super::api::{START, Times, batches, begin, control, send, start, table, words};
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::started::Started;
use crate::bench::{Bench, Context, Emit};
use ipnet::IpNet;
use quiver_client::v1::RouteFilter;
use quiver_client::{Router as Routes, prefixes};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

/// Clients that read everything every second.
const READERS: usize = 10;
/// How often quiet and crowd take turns.
const TURNS: usize = 3;
/// How long it is quiet, and how long there is a crowd: longer than the router waits for a client that does not read.
const QUIET: Duration = Duration::from_secs(4);
const CROWD: Duration = Duration::from_secs(14);
/// Time between two calls of the client that waits for each answer.
const PAUSE: Duration = Duration::from_millis(5);

/// What else the router does: a stream of packets that its worker makes, looks up, and drops.
const LOAD: &str = "  workers: {cpus: [CPU]}
routes: [198.18.0.0/15 drop]
packet-generator:
  - name: load
    interface: loop0
    node: ip4-input
    layers: [ipv4: {src: 10.255.0.2, dst: 198.18.0.0-198.19.255.255}, udp: {sport: 1024, dport: 9}]
    state: enabled
";

#[derive(Serialize)]
struct Found {
    scenario: &'static str,
    routes: usize,
    readers: usize,
    /// Routes that the readers read in a second of the crowd.
    read_per_second: f64,
    /// Packets that the worker makes and drops, and its share while there is a crowd: the median over the turns.
    mpps: f64,
    mpps_undisturbed: f64,
    throughput_ratio: f64,
    /// From a command (`show version`) to its answer, in a client beside.
    wait_ms: Times,
    wait_ms_undisturbed: Times,
    /// Resident memory of the router, MiB: before, at most, and at the end.
    memory_mib: [u64; 3],
    /// How long the control thread was busy at most, as `show control` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<serde_json::Value>,
    #[serde(flatten)]
    place: Place,
}

/// A number of MiB of a process (proc_pid_status(5)).
fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Keeps all threads of a process but its workers off the workers' CPUs, where there are others.
fn step_aside(process: u32, workers: &[usize]) {
    let mut others = CpuSet::new();
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (0..count.max(workers.iter().max().map_or(0, |most| most + 1))).for_each(|cpu| others.set(cpu));
    workers.iter().for_each(|cpu| others.unset(*cpu));
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    for thread in threads.flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let number = thread.file_name().to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw);
        if others.count() != 0 && !name.starts_with("quiver_wk") {
            let _ = number.map(|thread| sched_setaffinity(Some(thread), &others));
        }
    }
}

/// Reads everything, every second.
async fn reads(api: PathBuf, read: Arc<AtomicU64>) -> Result<(), String> {
    let router = Routes::unix(api).await.map_err(words)?;
    loop {
        let began = Instant::now();
        let mut pages = router.route_batches(RouteFilter::default()).await.map_err(words)?;
        while let Some(page) = pages.message().await.map_err(|e| e.message().to_owned())? {
            read.fetch_add(prefixes(page.ipv6, &page.prefixes).count() as u64, Ordering::Relaxed);
        }
        router.counters(&[]).await.map_err(words)?;
        router.command("show interface").await.map_err(words)?;
        router.dump().await.map_err(words)?;
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(began.elapsed())).await;
    }
}

/// Asks for everything, and reads nothing.
async fn never_reads(api: PathBuf) -> Result<(), String> {
    let router = Routes::unix(api).await.map_err(words)?;
    let _pages = router.route_batches(RouteFilter::default()).await.map_err(words)?;
    let _watch = router.watch_routes(RouteFilter::default()).await.map_err(words)?;
    let _answer = router.stream("show ip fib").await.map_err(words)?;
    std::future::pending().await
}

/// Sends garbage, with and without a beginning that is right (RFC 9113, 3.4).
async fn sends_garbage(api: PathBuf) -> Result<(), String> {
    let mut random = Random::new(1);
    for time in 0_u32.. {
        let mut stream = tokio::net::UnixStream::connect(&api).await.map_err(|e| e.to_string())?;
        if time % 2 == 0 && stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.is_err() {
            continue;
        }
        let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
        // Until the router has enough of it.
        while stream.write_all(&bytes).await.is_ok() {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Breaks off in the middle of a batch, again and again.
async fn breaks_off(api: PathBuf, some: Arc<[IpNet]>) -> Result<(), String> {
    loop {
        let router = Routes::unix(&api).await.map_err(words)?;
        let mut program = begin(&router, "breaks-off", false).await?;
        for changes in batches(false, &some, 0, false) {
            program.change(changes).await.map_err(words)?;
        }
        drop((program, router));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One command after the other, each waited for, by a thread of its own, until told to stop; how long each took, and whether there was
/// a crowd.
fn waits(api: &Path, crowd: &AtomicBool, over: &AtomicBool) -> Result<Vec<(bool, Duration)>, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let router = Routes::unix(api).await.map_err(words)?;
        let mut all = vec![];
        while !over.load(Ordering::Relaxed) {
            let (began, many) = (Instant::now(), crowd.load(Ordering::Relaxed));
            router.command("show version").await.map_err(words)?;
            all.push((many, began.elapsed()));
            tokio::time::sleep(PAUSE).await;
        }
        Ok(all)
    })
}

/// Packets that the worker has made.
async fn packets(router: &Routes) -> Result<f64, String> {
    let answer = router.command_json("show packet-generator").await.map_err(words)?;
    let streams: serde_json::Value = serde_json::from_str(&answer.to_string()).map_err(|e| e.to_string())?;
    let made = streams.get(0).and_then(|s| s.get("packets")).and_then(serde_json::Value::as_f64);
    made.ok_or_else(|| format!("the stream is missing in {streams}"))
}

/// Packets a second until some time is over.
async fn rate(router: &Routes, time: Duration) -> Result<f64, String> {
    let (began, before) = (Instant::now(), packets(router).await?);
    tokio::time::sleep(time).await;
    let after = packets(router).await?;
    Ok((after - before) / began.elapsed().as_secs_f64())
}

async fn measure(
    started: &Started,
    all: &[IpNet],
    workers: &[usize],
    crowd: &AtomicBool,
) -> Result<Found, String> {
    let router = started.client(START).await?;
    let process = started.router.as_ref().map_or(0, Child::id);
    let api = started.file("api");
    step_aside(process, workers);
    let mut program = begin(&router, "table", false).await?;
    send(&mut program, batches(false, all, 0, false), all.len()).await?;
    let some: Arc<[IpNet]> = all.get(..65_536).unwrap_or(all).into();
    let (before, mut most) = (memory(process), 0);
    let read = Arc::new(AtomicU64::new(0));
    let (mut quiet, mut busy) = (vec![], vec![]);
    for _ in 0..TURNS {
        quiet.push(rate(&router, QUIET).await?);
        crowd.store(true, Ordering::Relaxed);
        let mut clients = JoinSet::new();
        (0..READERS).for_each(|_| _ = clients.spawn_local(reads(api.clone(), Arc::clone(&read))));
        clients.spawn_local(never_reads(api.clone()));
        clients.spawn_local(sends_garbage(api.clone()));
        clients.spawn_local(breaks_off(api.clone(), Arc::clone(&some)));
        let measured = rate(&router, CROWD);
        tokio::pin!(measured);
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let measured = loop {
            tokio::select! {
                done = &mut measured => break done?,
                ended = clients.join_next() => return Err(format!("a client of the crowd ended: {ended:?}")),
                _ = tick.tick() => most = most.max(memory(process)),
            }
        };
        busy.push(measured);
        clients.shutdown().await;
        crowd.store(false, Ordering::Relaxed);
    }
    let median = |list: &[f64]| {
        let mut sorted = list.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    };
    let ratios: Vec<f64> = busy.iter().zip(&quiet).map(|(busy, quiet)| busy / quiet).collect();
    Ok(Found {
        scenario: "crowd",
        routes: all.len(),
        readers: READERS,
        read_per_second: round(read.load(Ordering::Relaxed) as f64 / (CROWD * TURNS as u32).as_secs_f64(), 0),
        mpps: round(median(&busy) / 1e6, 2),
        mpps_undisturbed: round(median(&quiet) / 1e6, 2),
        throughput_ratio: round(median(&ratios), 3),
        wait_ms: Times::of(vec![]),
        wait_ms_undisturbed: Times::of(vec![]),
        memory_mib: [before, most, memory(process)],
        control: control(started),
        place: Place::now(),
    })
}

/// Runs the scenario.
pub fn run(c: &Context, _: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let all = table(c, false);
    let cpus: Vec<String> = c.machine.cpus.iter().map(usize::to_string).collect();
    let started = start(&LOAD.replace("CPU", &cpus.join(", ")))?;
    let _aside = c.machine.step_aside();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, started.client(START))?;
    let (crowd, over, api) = (AtomicBool::new(false), AtomicBool::new(false), started.file("api"));
    let (found, waited) = std::thread::scope(|threads| {
        let beside = threads.spawn(|| waits(&api, &crowd, &over));
        let found = local.block_on(&runtime, measure(&started, &all, &c.machine.cpus, &crowd));
        over.store(true, Ordering::Relaxed);
        (found, beside.join().unwrap_or_else(|_| Err("the client beside has ended".into())))
    });
    let (mut found, waited) = (found?, waited?);
    let of = |many: bool| Times::of(waited.iter().filter(|w| w.0 == many).map(|w| w.1).collect());
    (found.wait_ms, found.wait_ms_undisturbed) = (of(true), of(false));
    let text = format!(
        "crowd, {} routes: {} readers read {:.2} M routes a second; {:.2} Mpps, undisturbed {:.2}, ratio {:.3}\n  a command beside: {}\n  \
         undisturbed: {}\n  memory: {} MiB before, {} at most, {} at the end",
        found.routes,
        found.readers,
        found.read_per_second / 1e6,
        found.mpps,
        found.mpps_undisturbed,
        found.throughput_ratio,
        found.wait_ms.text(),
        found.wait_ms_undisturbed.text(),
        found.memory_mib[0],
        found.memory_mib[1],
        found.memory_mib[2]
    );
    emit(Answer::line(&found, text)?)
}
