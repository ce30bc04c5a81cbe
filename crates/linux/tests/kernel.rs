//! The mirror beside the kernel: what it says after changes of every kind is what `ip` prints.
#![allow(clippy::unwrap_used, clippy::panic)]

mod ns;

use linux::reader::read_all;
use linux::{Action, Event, Key, Mirror, Reader, Route, Sockets, follow};
use ns::{Ns, sh};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

impl Ns {
    /// What `ip` prints: the first route of each table, prefix, metric and TOS, as text.
    fn printed(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for family in ["-4", "-6"] {
            let out = Command::new("ip")
                .args(["-n", &self.0, "-j", "-N", "-d", family, "route", "show", "table", "all"])
                .output()
                .unwrap();
            let Value::Array(routes) = serde_json::from_slice(&out.stdout).unwrap() else { panic!() };
            for r in routes {
                let text = |k: &str| match &r[k] {
                    Value::String(s) => s.clone(),
                    Value::Number(n) => n.to_string(),
                    _ => String::new(),
                };
                let table = if text("table").is_empty() { "254".to_owned() } else { text("table") };
                if table == "255" || !matches!(&*text("type"), "1" | "6" | "7" | "8") {
                    continue;
                }
                let dst = match &*text("dst") {
                    "default" if family == "-4" => "0.0.0.0/0".to_owned(),
                    "default" => "::/0".to_owned(),
                    d if d.contains('/') => d.to_owned(),
                    d if family == "-4" => format!("{d}/32"),
                    d => format!("{d}/128"),
                };
                let tos = if text("tos").is_empty() { "0".to_owned() } else { text("tos") };
                let metric = if text("metric").is_empty() { "0".to_owned() } else { text("metric") };
                let path = |p: &Value| {
                    let via = p["via"]["host"].as_str().or(p["gateway"].as_str()).unwrap_or("-");
                    format!("{via} {} {}", p["dev"].as_str().unwrap(), p["weight"].as_u64().unwrap_or(1))
                };
                let mut paths: Vec<String> = match &r["nexthops"] {
                    Value::Array(list) => list.iter().map(path).collect(),
                    _ if r["dev"].is_null() && text("type") == "1" => {
                        self.object(r["nhid"].as_u64().unwrap()).iter().map(path).collect()
                    }
                    _ if text("type") == "1" => vec![path(&r)],
                    _ => vec![],
                };
                paths.sort();
                if text("protocol") == "2"
                    && !(text("type") == "1"
                        && paths.iter().all(|p| p.starts_with("- "))
                        && is_of_peer(&dst, &text("prefsrc")))
                {
                    continue;
                }
                let mtu = r["metrics"][0]["mtu"].as_u64().unwrap_or(0);
                let what = format!(
                    "proto {} type {} mtu {mtu} src {} via {paths:?}",
                    text("protocol"),
                    text("type"),
                    if text("prefsrc").is_empty() { "-".to_owned() } else { text("prefsrc") },
                );
                // The first alone is used.
                all.entry(format!("{table} {dst} {metric} {tos}")).or_insert(what);
            }
        }
        all
    }

    /// The ways of a nexthop object, as `ip nexthop` prints them.
    fn object(&self, id: u64) -> Vec<Value> {
        let id = id.to_string();
        let out =
            Command::new("ip").args(["-n", &self.0, "-j", "nexthop", "get", "id", &id]).output().unwrap();
        let object: Value = serde_json::from_slice(&out.stdout).unwrap();
        let Value::Array(group) = &object[0]["group"] else { return vec![object[0].clone()] };
        let member = |m: &Value| {
            let mut paths = self.object(m["id"].as_u64().unwrap());
            paths[0]["weight"] = m["weight"].as_u64().unwrap_or(1).into();
            paths.remove(0)
        };
        group.iter().map(member).collect()
    }

    fn names(&self) -> BTreeMap<u32, String> {
        let out = Command::new("ip").args(["-n", &self.0, "-j", "link"]).output().unwrap();
        let Value::Array(links) = serde_json::from_slice(&out.stdout).unwrap() else { panic!() };
        let one =
            |l: &Value| (l["ifindex"].as_u64().unwrap() as u32, l["ifname"].as_str().unwrap().to_owned());
        links.iter().map(one).collect()
    }
}

/// Whether a route of the kernel's own could be that to the peer of an address, as far as its prefix and source tell.
fn is_of_peer(prefix: &str, source: &str) -> bool {
    let prefix: ipnet::IpNet = prefix.parse().unwrap();
    match prefix {
        ipnet::IpNet::V4(_) => source.parse().is_ok_and(|s: std::net::IpAddr| !prefix.contains(&s)),
        ipnet::IpNet::V6(p) => p.prefix_len() == 128 && !p.addr().is_unicast_link_local(),
    }
}

/// In the words of [`Ns::printed`].
fn worded(key: &Key, r: &Route, names: &BTreeMap<u32, String>) -> (String, String) {
    let path = |p: &linux::Path| {
        let via = p.gateway.map_or("-".to_owned(), |g| g.to_string());
        format!("{via} {} {}", names.get(&p.ifindex).map_or("?", |n| n), p.weight)
    };
    let mut paths: Vec<String> = r.paths.iter().map(path).collect();
    paths.sort();
    let action = match r.action {
        Action::Unicast => 1,
        Action::Blackhole => 6,
        Action::Unreachable => 7,
        Action::Prohibit => 8,
        Action::Other(n) => n,
    };
    if action != 1 {
        paths.clear();
    }
    let source = r.source.map_or("-".to_owned(), |s| s.to_string());
    (
        format!("{} {} {} {}", key.table, key.prefix, key.metric, key.tos),
        format!("proto {} type {action} mtu {} src {source} via {paths:?}", r.protocol, r.mtu),
    )
}

/// What is told, put together again.
struct Told {
    _reader: Reader,
    events: Receiver<Event>,
    routes: BTreeMap<Key, Arc<Route>>,
    synced: usize,
    overflows: usize,
}

impl Told {
    fn follow(sockets: Sockets, room: usize) -> Told {
        let (send, events) = sync_channel(room);
        let reader = follow(sockets, move |e| send.send(e).is_ok()).unwrap();
        Told { _reader: reader, events, routes: BTreeMap::new(), synced: 0, overflows: 0 }
    }

    fn take(&mut self, wait: Duration) -> bool {
        match self.events.recv_timeout(wait) {
            Ok(Event::Changes(changes)) => {
                for c in changes {
                    let was = match c.is {
                        Some(r) => self.routes.insert(c.key, r),
                        None => self.routes.remove(&c.key),
                    };
                    assert_eq!(was, c.was, "{:?} was something else", c.key);
                }
            }
            Ok(Event::Synced { why, .. }) => {
                self.synced += 1;
                self.overflows += usize::from(why == Some(linux::Doubt::Overflow));
            }
            Ok(
                Event::Devices(_)
                | Event::Neighbors(_)
                | Event::AllNeighbors(_)
                | Event::Fdb(_)
                | Event::AllFdb(_)
                | Event::Labels(_),
            ) => {}
            Ok(Event::Failed(e)) => panic!("{e}"),
            Err(_) => return false,
        }
        true
    }

    /// Takes what is told until it is what `ip` prints.
    fn agree(&mut self, ns: &Ns, least: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            while self.take(Duration::from_millis(50)) {}
            let (names, printed) = (ns.names(), ns.printed());
            let told: BTreeMap<_, _> = self.routes.iter().map(|(k, r)| worded(k, r, &names)).collect();
            if told == printed {
                assert!(
                    self.routes.len() >= least,
                    "only {} routes: the lines are refused",
                    self.routes.len()
                );
                return;
            }
            let differs = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| -> Vec<String> {
                a.iter()
                    .filter(|(k, v)| b.get(*k) != Some(v))
                    .map(|(k, v)| format!("{k}: {v}"))
                    .take(5)
                    .collect()
            };
            assert!(
                Instant::now() < end,
                "told, and not printed: {:#?}\nprinted, and not told: {:#?}",
                differs(&told, &printed),
                differs(&printed, &told)
            );
        }
    }
}

/// A small generator of numbers (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

fn change(r: &mut Rng) -> String {
    let v6 = r.below(2) == 0;
    let verb = r.of(&["add", "add", "replace", "replace", "append", "del", "del", "prepend"]);
    let prefix = match (v6, r.below(8)) {
        (false, 0) => "default".to_owned(),
        (false, n) => format!("20.{n}.{}.0/24", r.below(4)),
        (true, 0) => "default".to_owned(),
        (true, n) => format!("fd20:{n}:{}::/48", r.below(4)),
    };
    let hop = |r: &mut Rng| match (v6, r.below(2)) {
        (false, n) => format!("via 10.0.{n}.{} dev {}", 2 + r.below(5), ["va", "vb"][n as usize]),
        (true, 0) => format!("via fd00::{} dev va", 2 + r.below(5)),
        (true, _) => format!("via fd00:1::{} dev vb", 2 + r.below(5)),
    };
    let what = match r.below(10) {
        0 => format!("dev {}", r.of(&["va", "vb"])),
        1..=5 => hop(r),
        6 | 7 => {
            (0..2 + r.below(3)).map(|_| format!("nexthop {} weight {} ", hop(r), 1 + r.below(3))).collect()
        }
        8 if !v6 => "via inet6 fd00::9 dev va".to_owned(),
        _ => format!("nhid {}", 1 + r.below(6)),
    };
    let kind = if r.below(12) == 0 { r.of(&["blackhole", "unreachable", "prohibit", "throw"]) } else { "" };
    let what = if kind.is_empty() { what } else { String::new() };
    let table = if r.below(5) == 0 { format!("table {}", 100 + r.below(2)) } else { String::new() };
    let metric = if r.below(3) == 0 { format!("metric {}", 1 + r.below(3)) } else { String::new() };
    let mtu = if r.below(8) == 0 && verb != "del" { "mtu 1400" } else { "" };
    let source = if r.below(8) == 0 && verb != "del" && kind.is_empty() {
        if v6 { "src fd00::1" } else { "src 10.0.0.1" }
    } else {
        ""
    };
    let proto = if verb == "del" {
        ""
    } else {
        r.of(&["proto bird", "proto zebra", "proto static", "proto kernel", ""])
    };
    let prefix = if prefix == "default" && v6 { "::/0".to_owned() } else { prefix };
    format!("route {verb} {kind} {prefix} {table} {metric} {mtu} {source} {proto} {what}\n")
}

fn other_change(r: &mut Rng) -> String {
    match r.below(12) {
        0 => "link set va down\nlink set va up\n".to_owned(),
        1 => "link set vb down\n".to_owned(),
        2 => "link set vb up\naddr add fd00:1::1/64 dev vb nodad\n".to_owned(),
        3 => "addr del 10.0.0.1/24 dev va\n".to_owned(),
        4 => "addr add 10.0.0.1/24 dev va\n".to_owned(),
        5 => format!("nexthop del id {}\n", 1 + r.below(6)),
        6 => format!("nexthop replace id {} via 10.0.0.{} dev va\n", 1 + r.below(2), 2 + r.below(5)),
        7 => format!("nexthop replace id {} via fd00::{} dev va\n", 3 + r.below(2), 2 + r.below(5)),
        8 => "nexthop replace id 5 group 1/2\n".to_owned(),
        9 => "nexthop replace id 6 group 3/4,2\n".to_owned(),
        10 => "nexthop replace id 1 via 10.0.1.7 dev vb\n".to_owned(),
        _ => "nexthop replace id 2 blackhole\n".to_owned(),
    }
}

const OBJECTS: &str = "nexthop add id 1 via 10.0.0.5 dev va\nnexthop add id 2 via 10.0.1.5 dev vb\n\
    nexthop add id 3 via fd00::5 dev va\nnexthop add id 4 via fd00:1::5 dev vb\n\
    nexthop add id 5 group 1/2\nnexthop add id 6 group 3/4\n";

fn random(seed: u64, compat: bool) {
    let ns = Ns::new();
    if !compat {
        sh(&format!("ip netns exec {} sysctl -qw net.ipv4.nexthop_compat_mode=0", ns.0));
    }
    ns.batch(OBJECTS);
    let mut r = Rng(seed);
    ns.batch(&(0..100).map(|_| change(&mut r)).collect::<String>());
    let mut told = Told::follow(ns.sockets(1 << 20), 64);
    told.agree(&ns, 20);
    for _ in 0..12 {
        let lines: String =
            (0..60).map(|_| if r.below(12) == 0 { other_change(&mut r) } else { change(&mut r) }).collect();
        ns.batch(&lines);
        told.agree(&ns, 5);
        // A reading of all finds the same.
        let mirror: Mirror = read_all(&mut ns.sockets(1 << 20)).unwrap();
        let read: BTreeMap<Key, Arc<Route>> = mirror.iter().map(|(k, r)| (k, Arc::clone(r))).collect();
        assert!(read == told.routes, "seed {seed}");
    }
}

#[test]
fn random_changes_are_told() {
    for seed in [11, 12, 13] {
        random(seed, true);
    }
}

#[test]
fn random_changes_are_told_where_routes_name_nexthop_objects_alone() {
    for seed in [21, 22, 23] {
        random(seed, false);
    }
}

#[test]
fn lost_messages_are_made_up_for() {
    let ns = Ns::new();
    // Room for two events, and nobody takes them: the reader stands, and the kernel's buffer overflows.
    let mut told = Told::follow(ns.sockets(4096), 2);
    told.agree(&ns, 0);
    let mut r = Rng(7);
    for _ in 0..5 {
        let many: String = (0..20_000)
            .map(|_| {
                let verb = r.of(&["replace", "replace", "del"]);
                format!(
                    "route {verb} 30.{}.{}.0/24 via 10.0.0.{} dev va\n",
                    r.below(16),
                    r.below(256),
                    2 + r.below(8)
                )
            })
            .collect();
        ns.batch(&many);
        told.agree(&ns, 1000);
    }
    assert!(told.overflows > 0);
}

#[test]
fn it_ends_when_it_is_dropped_and_nobody_takes_what_it_tells() {
    let ns = Ns::new();
    ns.batch(
        &(0..50_000)
            .map(|n| format!("route add 30.{}.{}.0/24 via 10.0.0.2 dev va\n", n / 256, n % 256))
            .collect::<String>(),
    );
    let (send, events) = sync_channel(0);
    let (ended, end) = sync_channel::<()>(0);
    let reader = follow(ns.sockets(1 << 20), move |e| {
        let _keep = &ended;
        send.send(e).is_ok()
    })
    .unwrap();
    assert!(matches!(events.recv_timeout(Duration::from_secs(10)), Ok(Event::Changes(_))));
    drop((reader, events));
    // The closure is gone, and its end of the channel with it.
    assert_eq!(
        end.recv_timeout(Duration::from_secs(10)),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
}
