//! `api`: routes over the API, from a client in this process to a router in another.

use crate::bench::prefixes::Prefixes;
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::started::Started;
use crate::bench::{Bench, Context, Emit};
use ipnet::IpNet;
use quiver_client::v1::{NextHop, NextHopSet, RouteChanges, RouteFamily, RouteFilter, RouteHello};
use quiver_client::{Error, Program, Router as Routes, prefixes, push};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Routes of a batch.
const BATCH: usize = 16_384;
/// Next hops.
const HOPS: u32 = 256;
/// Routes that are changed one in a message, without waiting.
const SINGLE: usize = 200_000;
/// How long the router may take to start.
pub(super) const START: Duration = Duration::from_secs(30);

/// Routes of one family, a second.
#[derive(Serialize)]
struct Family {
    routes: usize,
    /// From the first message to the answer that workers use all.
    set_per_second: f64,
    /// All read back and compared with what was sent.
    read_per_second: f64,
    replace_per_second: f64,
    delete_per_second: f64,
}

#[derive(Serialize)]
struct Found {
    scenario: &'static str,
    ipv4: Family,
    ipv6: Family,
    /// Messages with one route each, sent without waiting for the answers.
    single_per_second: f64,
    /// From sending one change to its answer while nothing else is done, and while another stream sets all IPv4 routes.
    alone_ms: Times,
    beside_bulk_ms: Times,
    /// How long the control thread was busy at most, as `show control` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<serde_json::Value>,
    #[serde(flatten)]
    place: Place,
}

/// Milliseconds.
#[derive(Serialize)]
pub(super) struct Times {
    changes: usize,
    median: f64,
    p99: f64,
    max: f64,
}

impl Times {
    pub(super) fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let ms = |d: Option<&Duration>| round(d.map_or(0.0, Duration::as_secs_f64) * 1e3, 3);
        let at = |share: f64| ms(all.get((all.len() as f64 * share) as usize).or(all.last()));
        Times { changes: all.len(), median: at(0.5), p99: at(0.99), max: ms(all.last()) }
    }

    pub(super) fn text(&self) -> String {
        format!("median {} ms, p99 {} ms, most {} ms of {}", self.median, self.p99, self.max, self.changes)
    }
}

/// Starts a router with a loopback interface, and more lines of a document, `FOLDER` in place of its folder.
pub(super) fn start(more: &str) -> Result<Started, String> {
    let folder = std::env::temp_dir().join(format!("quiver-bench-{}", std::process::id()));
    let mut started = Started::new(folder, std::env::current_exe().map_err(|e| e.to_string())?)?;
    let more = more.replace("FOLDER", &started.folder.to_string_lossy());
    let document = format!(
        "quiver:\n  sockets: {{ctl: {}}}\n{more}loopbacks:\n  loop0: {{addresses: [10.255.0.1/16, \"2001:db8:ffff::1/64\"]}}\n",
        started.file("ctl").display()
    );
    let api = started.file("api");
    started.run(&document, &["--api".as_ref(), api.as_os_str()])?;
    Ok(started)
}

/// How long the control thread of a router was busy at most, and more, as `show control` has it.
pub(super) fn control(started: &Started) -> Option<serde_json::Value> {
    let mut ctl = started.command("ctl");
    ctl.arg("-s").arg(started.file("ctl")).arg("--json").arg("show control");
    serde_json::from_slice(&ctl.output().ok()?.stdout).ok()
}

fn hello(name: &str) -> RouteHello {
    RouteHello { name: name.into(), preference: None, grace_seconds: Some(0) }
}

pub(super) async fn begin(routes: &Routes, name: &str, v6: bool) -> Result<Program, String> {
    let mut program = routes.program(hello(name)).await.map_err(words)?;
    let hop = |n: u32| {
        let address = match v6 {
            true => (0x2001_0db8_ffff_0000_0000_0000_0000_1000_u128 + u128::from(n)).to_be_bytes().to_vec(),
            false => (0x0aff_0100 + n).to_be_bytes().to_vec(),
        };
        let hop = NextHop { address, interface: "loop0".into(), weight: 1, ..NextHop::default() };
        NextHopSet { number: n, action: 0, next_hops: vec![hop] }
    };
    program.next_hops((0..HOPS).map(hop).collect()).await.map_err(words)?;
    Ok(program)
}

pub(super) fn words(e: Error) -> String {
    e.message
}

/// Batches of all prefixes, to next hops that `first` turns on by.
pub(super) fn batches(v6: bool, all: &[IpNet], first: u32, delete: bool) -> Vec<RouteChanges> {
    let one = |(at, some): (usize, &[IpNet])| {
        let mut changes = RouteChanges { ipv6: v6, delete, ..RouteChanges::default() };
        some.iter().for_each(|p| push(&mut changes.prefixes, *p));
        if !delete {
            let number = |n: usize| (at * BATCH + n) as u32;
            changes.sets = (0..some.len()).map(|n| (number(n).wrapping_mul(7) + first) % HOPS).collect();
        }
        changes
    };
    all.chunks(BATCH).enumerate().map(one).collect()
}

/// Sends batches, waits until workers use them, and answers routes a second.
pub(super) async fn send(
    program: &mut Program,
    batches: Vec<RouteChanges>,
    routes: usize,
) -> Result<f64, String> {
    let began = Instant::now();
    for b in batches {
        program.change(b).await.map_err(words)?;
    }
    program.flush().await.map_err(words)?;
    let took = began.elapsed();
    match program.errors() {
        (0, _) => Ok(round(routes as f64 / took.as_secs_f64(), 0)),
        (n, errors) => Err(format!("{n} routes were refused: {:?}", errors.first())),
    }
}

async fn family(routes: &Routes, v6: bool, all: &[IpNet]) -> Result<Family, String> {
    let mut program = begin(routes, "bench", v6).await?;
    let n = all.len();
    let set_per_second = send(&mut program, batches(v6, all, 0, false), n).await?;
    let family = if v6 { RouteFamily::Ipv6 } else { RouteFamily::Ipv4 };
    let source = program.welcome.source.clone();
    let filter = RouteFilter { family: family.into(), source, ..RouteFilter::default() };
    let (began, mut read) = (Instant::now(), Vec::with_capacity(n));
    let mut pages = routes.route_batches(filter).await.map_err(words)?;
    while let Some(page) = pages.message().await.map_err(|e| e.message().to_owned())? {
        read.extend(prefixes(v6, &page.prefixes));
    }
    let read_per_second = round(read.len() as f64 / began.elapsed().as_secs_f64(), 0);
    if read != all {
        return Err(format!("{} routes were read back of {n}, or others", read.len()));
    }
    let replace_per_second = send(&mut program, batches(v6, all, 1, false), n).await?;
    let delete_per_second = send(&mut program, batches(v6, all, 0, true), n).await?;
    Ok(Family { routes: n, set_per_second, read_per_second, replace_per_second, delete_per_second })
}

/// One change after the other, each waited for, until told to stop; how long each took.
async fn one_by_one(
    program: &mut Program,
    all: &[IpNet],
    stop: impl Fn(usize) -> bool,
) -> Result<Vec<Duration>, String> {
    let mut times = vec![];
    for (at, p) in all.iter().cycle().enumerate() {
        if stop(at) {
            break;
        }
        let mut changes = RouteChanges { sets: vec![at as u32 % HOPS], ..RouteChanges::default() };
        push(&mut changes.prefixes, *p);
        let began = Instant::now();
        let id = program.change(changes).await.map_err(words)?;
        program.wait_for(id).await.map_err(words)?;
        times.push(began.elapsed());
    }
    Ok(times)
}

async fn measure(started: &Started, four: &[IpNet], six: &[IpNet]) -> Result<Found, String> {
    let routes = started.client(START).await?;
    let ipv4 = family(&routes, false, four).await?;
    let ipv6 = family(&routes, true, six).await?;
    let some = four.get(..SINGLE.min(four.len())).unwrap_or(four);
    let mut single = begin(&routes, "single", false).await?;
    let messages = some.iter().enumerate().map(|(at, p)| {
        let mut changes = RouteChanges { sets: vec![at as u32 % HOPS], ..RouteChanges::default() };
        push(&mut changes.prefixes, *p);
        changes
    });
    let single_per_second = send(&mut single, messages.collect(), some.len()).await?;
    let alone = one_by_one(&mut single, some, |at| at == 2000).await?;
    let mut bulk = begin(&routes, "bulk", false).await?;
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (ended, load) = (std::sync::Arc::clone(&over), four.to_vec());
    let loading = tokio::spawn(async move {
        let mut done = Ok(0.0);
        for first in 0..3 {
            if done.is_ok() {
                done = send(&mut bulk, batches(false, &load, first, false), load.len()).await;
            }
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        done
    });
    let beside = one_by_one(&mut single, some, |_| over.load(std::sync::atomic::Ordering::Relaxed)).await?;
    loading.await.map_err(|e| e.to_string())??;
    Ok(Found {
        scenario: "api",
        ipv4,
        ipv6,
        single_per_second,
        alone_ms: Times::of(alone),
        beside_bulk_ms: Times::of(beside),
        control: control(started),
        place: Place::now(),
    })
}

pub(super) fn table(c: &Context, v6: bool) -> Vec<IpNet> {
    let of = |all: &Prefixes| all.list.iter().filter_map(|p| p.net(v6)).collect();
    match c.input.table(v6) {
        Ok(all) => of(&all),
        Err(_) => of(&Prefixes::mix(v6, if v6 { 250_000 } else { 1_000_000 }, &mut Random::new(20_261_128))),
    }
}

/// Runs the scenario.
pub fn run(c: &Context, _: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let (four, six) = (table(c, false), table(c, true));
    let started = start("")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let found = runtime.block_on(measure(&started, &four, &six))?;
    let million = |n: f64| format!("{:.2} M", n / 1e6);
    let family = |name: &str, f: &Family| {
        format!(
            "{name}: {} routes; a second: set {}, read back {}, replaced {}, deleted {}",
            f.routes,
            million(f.set_per_second),
            million(f.read_per_second),
            million(f.replace_per_second),
            million(f.delete_per_second)
        )
    };
    let text = format!(
        "api\n  {}\n  {}\n  one route in a message: {:.0} a second\n  one change and its answer: {}\n  beside a bulk load: {}",
        family("IPv4", &found.ipv4),
        family("IPv6", &found.ipv6),
        found.single_per_second,
        found.alone_ms.text(),
        found.beside_bulk_ms.text()
    );
    emit(Answer::line(&found, text)?)
}
