//! `io`: IPv4 between two devices to another process on another core, DPDK's testpmd, which makes packets and takes them.

use super::api::{start, words};
use crate::bench::measure::median;
use crate::bench::report::{Answer, Place, round};
use crate::bench::started::Started;
use crate::bench::{Bench, Context, Emit};
use quiver_client::Router;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long testpmd may take until both devices have link and packets come.
const PATIENCE: Duration = Duration::from_secs(60);
/// What testpmd says of its own, in the router's folder.
const LOG: &str = "testpmd.log";
/// Windows of a measurement.
const WINDOWS: usize = 10;
/// What testpmd's flow generator (`app/test-pmd/flowgen.c`) sends to, and in which prefix.
const MAC: &str = "00:01:02:03:04:01";
const PREFIX: &str = "10.253.0.0/16";

/// A kind of device.
struct Kind {
    name: &'static str,
    interfaces: [&'static str; 2],
    /// The section of a document that declares both, `FOLDER` in place of the router's folder.
    section: &'static str,
    /// testpmd's side of them.
    devices: [&'static str; 2],
}

const MEMIF: Kind = Kind {
    name: "memif",
    interfaces: ["memif1/0", "memif1/1"],
    section: "memifs: {memif1/0: {socket: FOLDER/memif}, memif1/1: {socket: FOLDER/memif}}",
    devices: [
        "net_memif0,role=client,id=0,socket=FOLDER/memif,socket-abstract=no,rsize=10",
        "net_memif1,role=client,id=1,socket=FOLDER/memif,socket-abstract=no,rsize=10",
    ],
};

const VHOST: Kind = Kind {
    name: "vhost-user",
    interfaces: ["VirtualEthernet0/0/0", "VirtualEthernet0/0/1"],
    section: "vhost-users: {VirtualEthernet0/0/0: {socket: FOLDER/v0, role: server}, VirtualEthernet0/0/1: {socket: FOLDER/v1, role: server}}",
    devices: [
        "net_virtio_user0,path=FOLDER/v0,queue_size=1024",
        "net_virtio_user1,path=FOLDER/v1,queue_size=1024",
    ],
};

#[derive(Serialize)]
struct Found {
    scenario: String,
    device: &'static str,
    size: usize,
    /// Million packets a second that the router has sent and testpmd's rings have taken, median of the windows, and the best.
    mpps: f64,
    mpps_best: f64,
    /// Million packets a second that came.
    mpps_received: f64,
    /// Share of those that came which found no room on their way out, percent.
    full_percent: f64,
    /// Share of the time that the router's worker was busy with packets, and the TSC clocks of it for a packet that came. With less than
    /// all of its time testpmd is the limit.
    busy: f64,
    clocks_per_packet: f64,
    windows: usize,
    #[serde(flatten)]
    place: Place,
}

/// testpmd, which ends with this.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Starts it on these CPUs: one thread makes packets on one device and takes those that come on the other, in both directions.
    fn begin(kind: &Kind, folder: &Path, cpus: &[usize]) -> Result<Peer, String> {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let cores = format!("0@({0}),1@({0})", list.join(","));
        let prefix = format!("--file-prefix=quiver-bench-{}", std::process::id());
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "--lcores", &cores, &prefix]);
        for device in kind.devices {
            command.arg(format!("--vdev={}", device.replace("FOLDER", &folder.to_string_lossy())));
        }
        command.args(["--", "--forward-mode=flowgen", "--port-topology=paired", "--burst=128", "--rxd=1024"]);
        // Without a period of statistics it ends at the end of its input.
        command.args([
            "--txd=1024",
            "--auto-start",
            "--no-flush-rx",
            "--total-num-mbufs=16384",
            "--stats-period=3600",
        ]);
        let log =
            std::fs::File::create(folder.join(LOG)).map_err(|e| format!("{}: {e}", folder.display()))?;
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        quiet.spawn().map(Peer).map_err(|e| format!("cannot start dpdk-testpmd (Debian's dpdk-dev): {e}"))
    }
}

async fn json(router: &Router, command: &str) -> Result<Value, String> {
    let text = router.command_json(command).await.map_err(words)?.to_string();
    serde_json::from_str(&text).map_err(|e| format!("{command}: {e}"))
}

/// Packets of both interfaces: received, sent, and for which there was no room.
async fn counts(router: &Router, kind: &Kind) -> Result<[f64; 3], String> {
    let rows = json(router, "show interface").await?;
    let mut sum = [0.0; 3];
    for row in rows.as_array().into_iter().flatten() {
        if kind.interfaces.iter().any(|name| row["name"] == *name) {
            let drops = row["drops"]["reasons"].as_array().into_iter().flatten();
            let full = drops.filter(|r| r["reason"] == "tx-queue-full").filter_map(|r| r["packets"].as_f64());
            let passed = |way: &str| row[way]["packets"].as_f64().unwrap_or(0.0);
            let found = [passed("rx"), passed("tx"), full.sum()];
            sum.iter_mut().zip(found).for_each(|(sum, n)| *sum += n);
        }
    }
    Ok(sum)
}

async fn measure(started: &Started, kind: &Kind, peer: &mut Peer, seconds: f64) -> Result<Found, String> {
    let router = started.client(PATIENCE).await?;
    let until = Instant::now() + PATIENCE;
    loop {
        let [_, sent, _] = counts(&router, kind).await?;
        if sent > 1e6 {
            break;
        }
        if let Ok(Some(status)) = peer.0.try_wait() {
            return Err(format!("dpdk-testpmd has ended: {status}"));
        }
        if Instant::now() > until {
            let state = router.command("show interface").await.map_err(words)?;
            return Err(format!("no packets pass between {} and dpdk-testpmd\n{state}", kind.name));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut received, mut sent, mut full, mut busy) = (vec![], vec![], vec![], vec![]);
    for _ in 0..WINDOWS {
        let (began, before) = (Instant::now(), counts(&router, kind).await?);
        tokio::time::sleep(Duration::from_secs_f64(seconds / WINDOWS as f64)).await;
        let after = counts(&router, kind).await?;
        let time = began.elapsed().as_secs_f64();
        received.push((after[0] - before[0]) / time);
        sent.push((after[1] - before[1]) / time);
        full.push((after[2] - before[2]) / (after[0] - before[0]).max(1.0));
        // Of the last second, whatever the window is.
        let load = json(&router, "show load").await?;
        busy.extend(load["workers"][0]["busy"]["1s"].as_f64());
    }
    let (busy, rate) = (median(busy), median(received.clone()));
    let best = sent.iter().copied().fold(0.0, f64::max);
    let place = Place::now();
    Ok(Found {
        scenario: format!("io-{}", kind.name),
        device: kind.name,
        size: 64,
        mpps: round(median(sent) / 1e6, 2),
        mpps_best: round(best / 1e6, 2),
        mpps_received: round(rate / 1e6, 2),
        full_percent: round(median(full) * 100.0, 2),
        busy: round(busy, 3),
        clocks_per_packet: round(busy * place.tsc_hz as f64 / rate.max(1.0), 1),
        windows: WINDOWS,
        place,
    })
}

fn one(kind: &Kind, c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let [cpu] = c.machine.cpus.as_slice() else {
        return Err("this is of one worker: leave --workers out".into());
    };
    let allowed = sched_getaffinity(None).map_err(|e| format!("cannot ask for CPUs: {e}"))?;
    let others: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|n| allowed.is_set(*n) && n != cpu).collect();
    if others.is_empty() {
        return Err("the router and its peer need a CPU each, and there is one".into());
    }
    let ([a, b], section) = (kind.interfaces, kind.section);
    let document = format!(
        "  workers: {{cpus: [{cpu}]}}\n  poll: {{mode: latency}}\n{section}\ninterfaces:\n  \
         {a}: {{addresses: [10.1.0.1/24], mac: \"{MAC}\"}}\n  {b}: {{addresses: [10.2.0.1/24], mac: \"{MAC}\"}}\n\
         tables: {{1: {{}}}}\nl3: {{interfaces: {{{b}: {{table: 1}}}}}}\nneighbors:\n  \
         - {{address: 10.1.0.2, interface: {a}, mac: \"02:00:00:00:00:01\"}}\n  \
         - {{address: 10.2.0.2, interface: {b}, mac: \"02:00:00:00:00:02\"}}\nroutes:\n  \
         - {PREFIX} via 10.2.0.2 {b}\n  - {PREFIX} table 1 via 10.1.0.2 {a}\n"
    );
    let found = start(&document).and_then(|started| {
        let found = Peer::begin(kind, &started.folder, &others).and_then(|mut peer| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|e| e.to_string())?.block_on(measure(&started, kind, &mut peer, args.seconds))
        });
        let log = std::fs::read_to_string(started.file(LOG)).unwrap_or_default();
        found.map_err(|e| format!("{e}\n{log}"))
    })?;
    let text = format!(
        "{}, ip4 with testpmd's flow generator, 64 bytes: {:.2} Mpps (best {:.2}), {:.2} Mpps came, {:.2} % found no room; \
         the worker was busy {:.0} % of the time, {:.0} clocks a packet",
        found.scenario,
        found.mpps,
        found.mpps_best,
        found.mpps_received,
        found.full_percent,
        found.busy * 100.0,
        found.clocks_per_packet
    );
    emit(Answer::line(&found, text)?)
}

/// Runs the scenario with every kind of device.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    memif(c, args, emit)?;
    vhost(c, args, emit)
}

/// With memif.
pub fn memif(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    one(&MEMIF, c, args, emit)
}

/// With vhost-user, whose driver is DPDK's virtio-user.
pub fn vhost(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    one(&VHOST, c, args, emit)
}
