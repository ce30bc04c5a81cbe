//! The section `quiver`: the process as a whole.

use std::time::Duration;

use super::api::{self, socket};
use super::decode::Decoder;
use super::diag::Place;
use super::model::{Buffers, Dad, HugePages, Log, LogLevel, NeighborSettings, Settings, Sockets};
use super::scalar::short;
use super::tree::{Node, Value};
use command::{Access, Role};
use graph::{MAX_WORKERS, Polling};
use net::load::{LoadSettings, MOST_CPU};
use net::router::BUFFERS_A_WORKER;

pub(super) const QUIVER: &[&str] =
    &["workers", "poll", "buffers", "sockets", "api", "log", "neighbor", "routes", "dad", "state"];
pub(super) const WORKERS: &[&str] = &["count", "cpus", "balance"];
pub(super) const POLL: &[&str] = &["mode", "workers", "spin-us"];
pub(super) const BUFFERS: &[&str] = &["count", "huge-pages"];
pub(super) const SOCKETS: &[&str] = &["ctl", "group", "admin-group", "idle-timeout", "roles"];
pub(super) const ROLES: &[&str] = &["read", "operate", "configure", "admin"];
pub(super) const ROLE: &[&str] = &["users", "groups"];
pub(super) const LOG: &[&str] = &["level", "file", "format"];
pub(super) const NEIGHBOR: &[&str] = &[
    "reachable-time",
    "retransmit-ms",
    "max-entries",
    "max-per-interface",
    "max-unresolved",
    "solicit-rate",
    "queue",
    "interface-queue",
];
pub(super) const ROUTES: &[&str] = &["memory-mb"];

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Settings> {
    let fields = d.fields(node, QUIVER)?;
    let mut s = Settings { place: fields.place, ..Settings::default() };
    let balance = &mut s.load.balance;
    if let Some((count, cpus, place)) = d.field(&fields, "workers", |d, node| workers(d, node, balance)) {
        (s.workers, s.cpus, s.cpus_place) = (count, cpus, place);
    }
    let (count, load) = (s.workers, &mut s.load);
    if let Some(spin) = d.field(&fields, "poll", |d, node| poll(d, node, count, load)) {
        s.spin = spin;
    }
    let workers = u32::from(s.workers);
    s.buffers.count = s.buffers.count.max(workers * BUFFERS_A_WORKER);
    d.field(&fields, "buffers", |d, node| buffers(d, node, workers, &mut s.buffers));
    d.field(&fields, "sockets", |d, node| sockets(d, node, &mut s.sockets));
    s.api = d.field(&fields, "api", api::decode);
    d.field(&fields, "log", |d, node| log(d, node, &mut s.log));
    d.field(&fields, "neighbor", |d, node| neighbor(d, node, &mut s.neighbor));
    let dad = d.field(&fields, "dad", |d, node| {
        d.choice(node, &[("optimistic", Dad::Optimistic), ("strict", Dad::Strict), ("off", Dad::Off)])
    });
    s.dad = dad.unwrap_or(s.dad);
    s.state = d.field(&fields, "state", |d, node| {
        let path = d.string(node, "the path of a folder", 4000)?;
        if !path.starts_with('/') || path.chars().any(char::is_control) {
            d.error(node.place, "state-path", format!("{} cannot be the state folder", short(&path)))
                .value(&path)
                .help("an absolute path, such as /var/lib/quiver/state");
            return None;
        }
        Some(path)
    });
    d.field(&fields, "routes", |d, node| {
        let fields = d.fields(node, ROUTES)?;
        let mb = d.field(&fields, "memory-mb", |d, node| d.int(node, 1u32, 1 << 20))?;
        s.route_memory = Some(u64::from(mb) << 20);
        Some(())
    });
    Some(s)
}

const MOST: u16 = MAX_WORKERS as u16;

/// A count, or a mapping with the CPUs to use.
fn workers<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    balance: &mut bool,
) -> Option<(u16, Vec<u16>, Place)> {
    if let Value::Scalar { .. } = &node.value {
        return Some((d.int(node, 1u16, MOST)?, Vec::new(), node.place));
    }
    let fields = d.fields(node, WORKERS)?;
    let count = d.field(&fields, "count", |d, node| d.int(node, 1u16, MOST));
    let cpus = d.field(&fields, "cpus", cpus);
    *balance = d.field(&fields, "balance", |d, node| d.boolean(node)).unwrap_or(false);
    if let (Some(count), Some(cpus)) = (count, &cpus)
        && cpus.len() != usize::from(count)
    {
        d.error(fields.key_place("cpus"), "cpu-count", format!("{} CPUs for {count} workers", cpus.len()))
            .help("as many CPUs as workers, or leave `count` out");
    }
    let cpus = cpus.unwrap_or_default();
    let named = u16::try_from(cpus.len()).unwrap_or(u16::MAX).max(1);
    let place = if fields.has("cpus") { fields.key_place("cpus") } else { node.place };
    Some((count.unwrap_or(named), cpus, place))
}

/// The list `cpus`; `None` when something in it is wrong.
fn cpus<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<u16>> {
    let items = d.items(node, "CPU numbers");
    if items.is_empty() || items.len() > MAX_WORKERS {
        d.error(node.place, "range", format!("{} CPUs", items.len()))
            .help(format!("1 to {MOST}, one a worker"));
        return None;
    }
    let mut cpus = Vec::new();
    for (i, node) in items.iter().enumerate() {
        let cpu = d.index(i, |d| {
            let cpu = d.int(node, 0u16, MOST_CPU)?;
            if cpus.contains(&cpu) {
                d.error(node.place, "cpu-unique", format!("CPU {cpu} is named twice"))
                    .value(cpu)
                    .help("one worker a CPU");
                return None;
            }
            Some(cpu)
        });
        cpus.extend(cpu);
    }
    (cpus.len() == items.len()).then_some(cpus)
}

/// How workers wait, in a word, or a mapping.
fn poll<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    workers: u16,
    load: &mut LoadSettings,
) -> Option<Duration> {
    if let Value::Scalar { .. } = &node.value {
        load.polling = mode(d, node)?;
        return None;
    }
    let fields = d.fields(node, POLL)?;
    load.polling = d.field(&fields, "mode", mode).unwrap_or_default();
    d.field(&fields, "workers", |d, node| {
        for (number, place, node) in d.entries(node, "numbers of workers") {
            d.key(number, |d| {
                let worker = number.parse::<u16>().ok().filter(|n| *n < workers && *number == n.to_string());
                let Some(worker) = worker else {
                    d.error(place, "no-worker", format!("there is no worker {}", short(number)))
                        .value(number)
                        .help(format!("0 to {}, or more with quiver.workers", workers - 1));
                    return;
                };
                load.own.extend(mode(d, node).map(|mode| (usize::from(worker), mode)));
            });
        }
        Some(())
    });
    let spin = d.field(&fields, "spin-us", |d, node| d.int(node, 0u64, 1_000_000))?;
    Some(Duration::from_micros(spin))
}

fn mode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Polling> {
    // The word of earlier versions for the one way that there was.
    let earlier = [("adaptive", Polling::Balanced)];
    let words: Vec<_> = Polling::ALL.into_iter().chain(earlier).collect();
    d.choice(node, &words)
}

fn buffers<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, workers: u32, to: &mut Buffers) -> Option<()> {
    let fields = d.fields(node, BUFFERS)?;
    let count = d.field(&fields, "count", |d, node| {
        let count = d.int(node, BUFFERS_A_WORKER, 16_777_216)?;
        let least = workers * BUFFERS_A_WORKER;
        if count < least {
            d.error(
                node.place,
                "buffers-workers",
                format!("{count} buffers are too few for {workers} workers"),
            )
            .value(count)
            .help(format!("at least {least}, {BUFFERS_A_WORKER} for each worker, or fewer workers"));
            return None;
        }
        Some(count)
    });
    let pages = d.field(&fields, "huge-pages", |d, node| {
        d.choice(
            node,
            &[("auto", HugePages::Auto), ("never", HugePages::Never), ("require", HugePages::Require)],
        )
    });
    to.count = count.unwrap_or(to.count);
    to.huge_pages = pages.unwrap_or(to.huge_pages);
    Some(())
}

fn sockets<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, to: &mut Sockets) -> Option<()> {
    let fields = d.fields(node, SOCKETS)?;
    let ctl = d.field(&fields, "ctl", |d, node| socket(d, node, "/run/quiver/ctl.sock"));
    to.group = d.field(&fields, "group", |d, node| d.string(node, "the name of a group", 32));
    to.admin_group = d.field(&fields, "admin-group", |d, node| d.string(node, "the name of a group", 32));
    let idle = d.field(&fields, "idle-timeout", |d, node| d.int(node, 0u64, 604_800));
    if let Some(seconds) = idle {
        to.idle_timeout = (seconds != 0).then(|| Duration::from_secs(seconds));
    }
    if let Some(ctl) = ctl {
        to.ctl = ctl;
    }
    d.field(&fields, "roles", |d, node| {
        let fields = d.fields(node, ROLES)?;
        for access in Access::ALL {
            to.roles.extend(d.field(&fields, access.role(), |d, node| role(d, node, access)));
        }
        Some(())
    });
    Some(())
}

/// Who has a role.
fn role<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, access: Access) -> Option<Role> {
    let fields = d.fields(node, ROLE)?;
    let mut names = |field, what: &'static str| {
        let all = d.field(&fields, field, |d, node| {
            let items = d.items(node, what);
            let names = items.iter().enumerate();
            Some(names.filter_map(|(i, node)| d.index(i, |d| d.string(node, what, 32))).collect::<Vec<_>>())
        });
        all.unwrap_or_default()
    };
    let (users, groups) = (names("users", "the names of users"), names("groups", "the names of groups"));
    (!users.is_empty() || !groups.is_empty()).then_some(Role { access, users, groups })
}

fn log<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, to: &mut Log) -> Option<()> {
    const LEVELS: &[(&str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    let fields = d.fields(node, LOG)?;
    let level = d.field(&fields, "level", |d, node| d.choice(node, LEVELS));
    to.file = d.field(&fields, "file", |d, node| d.string(node, "the path of a file", 4096));
    let json = d.field(&fields, "format", |d, node| d.choice(node, &[("text", false), ("json", true)]));
    to.level = level.unwrap_or(to.level);
    to.json = json.unwrap_or(to.json);
    Some(())
}

fn neighbor<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, to: &mut NeighborSettings) -> Option<()> {
    let fields = d.fields(node, NEIGHBOR)?;
    let reachable = d.field(&fields, "reachable-time", |d, node| d.int(node, 1u64, 3600));
    let retransmit = d.field(&fields, "retransmit-ms", |d, node| d.int(node, 10u64, 60_000));
    let entries = d.field(&fields, "max-entries", |d, node| d.int(node, 16u32, 16_777_216));
    to.max_per_interface = d.field(&fields, "max-per-interface", |d, node| d.int(node, 1u32, 16_777_216));
    let unresolved = d.field(&fields, "max-unresolved", |d, node| d.int(node, 1u32, 65_536));
    let rate = d.field(&fields, "solicit-rate", |d, node| d.int(node, 1u32, 1_000_000));
    let queue = d.field(&fields, "queue", |d, node| d.int(node, 1u16, 256));
    let interface_queue = d.field(&fields, "interface-queue", |d, node| d.int(node, 1u16, 4096));
    to.max_unresolved = unresolved.unwrap_or(to.max_unresolved);
    to.solicit_rate = rate.unwrap_or(to.solicit_rate);
    to.interface_queue = interface_queue.unwrap_or(to.interface_queue);
    to.reachable_time = reachable.map_or(to.reachable_time, Duration::from_secs);
    to.retransmit = retransmit.map_or(to.retransmit, Duration::from_millis);
    to.max_entries = entries.unwrap_or(to.max_entries);
    to.queue = queue.unwrap_or(to.queue);
    Some(())
}
