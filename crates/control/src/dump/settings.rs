//! The section `quiver`.

use super::{QUIVER, Source};
use crate::written::{Map, Node};
use crate::yaml::{CONNECTIONS, ClientRate, Dad, HugePages, Listen, LogLevel, Settings};
use net::router::BUFFERS_A_WORKER;

pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let (s, normal) = (from.settings, Settings::default());
    let mut workers = Map::new();
    let runs = from.router.config();
    workers.put_unless("count", runs.workers as u64, u64::from(normal.workers));
    workers.put_some("cpus", Some(Node::Row(runs.cpus.iter().map(|c| Node::from(*c as u64)).collect())));
    let load = net::load::settings(from.router);
    workers.put_unless("balance", load.balance, false);
    to.put_some("workers", Some(workers));
    let mut poll = Map::new();
    poll.put_unless("mode", load.polling.name(), graph::Polling::default().name());
    let mut own = Map::new();
    for (worker, polling) in &load.own {
        own.put(worker.to_string(), polling.name());
    }
    poll.put_some("workers", Some(Node::Flow(own)));
    poll.put_unless("spin-us", s.spin.as_micros() as u64, normal.spin.as_micros() as u64);
    to.put_some("poll", Some(poll));
    to.put_some("buffers", Some(buffers(s, &normal, runs.workers)));
    let mut sockets = Map::new();
    sockets.put_unless("ctl", s.sockets.ctl.as_str(), normal.sockets.ctl.as_str());
    sockets.put_some("group", s.sockets.group.as_deref());
    sockets.put_some("admin-group", s.sockets.admin_group.as_deref());
    let idle = |s: &Settings| s.sockets.idle_timeout.map_or(0, |t| t.as_secs());
    sockets.put_unless("idle-timeout", idle(s), idle(&normal));
    let mut roles = Map::new();
    for role in &s.sockets.roles {
        let mut who = Map::new();
        for (field, names) in [("users", &role.users), ("groups", &role.groups)] {
            let names = names.iter().map(|n| Node::from(n.as_str())).collect::<Vec<_>>();
            who.put_some(field, (!names.is_empty()).then_some(Node::Row(names)));
        }
        roles.put(role.access.role(), who);
    }
    sockets.put_some("roles", Some(roles));
    to.put_some("sockets", Some(sockets));
    if let Some(api) = &s.api {
        let mut map = Map::new();
        map.put("socket", api.socket.as_str());
        map.put_some("group", api.group.as_deref());
        let listen: Vec<Node> = api.listen.iter().map(|l| Node::Map(listens(l))).collect();
        map.put_some("listen", Some(Node::List(listen)));
        map.put_unless("connections", u64::from(api.connections), u64::from(CONNECTIONS));
        let (mut rate, usual) = (Map::new(), ClientRate::default());
        rate.put_unless("calls", u64::from(api.rate.calls), u64::from(usual.calls));
        rate.put_unless("bytes", api.rate.bytes, usual.bytes);
        map.put_some("rate", Some(Node::Flow(rate)));
        to.put("api", map);
    }
    to.put_some("log", Some(log(s, &normal)));
    let (n, normal) = (&s.neighbor, &normal.neighbor);
    let mut neighbor = Map::new();
    neighbor.put_unless("reachable-time", n.reachable_time.as_secs(), normal.reachable_time.as_secs());
    neighbor.put_unless("retransmit-ms", millis(n.retransmit), millis(normal.retransmit));
    neighbor.put_unless("max-entries", n.max_entries, normal.max_entries);
    neighbor.put_some("max-per-interface", n.max_per_interface);
    neighbor.put_unless("max-unresolved", n.max_unresolved, normal.max_unresolved);
    neighbor.put_unless("solicit-rate", n.solicit_rate, normal.solicit_rate);
    neighbor.put_unless("queue", n.queue, normal.queue);
    neighbor.put_unless("interface-queue", n.interface_queue, normal.interface_queue);
    to.put_some("neighbor", Some(neighbor));
    let mut routes = Map::new();
    routes.put_some("memory-mb", s.route_memory.map(|bytes| bytes >> 20));
    to.put_some("routes", Some(routes));
    to.put_some(
        "dad",
        match s.dad {
            Dad::Optimistic => None,
            Dad::Strict => Some("strict"),
            Dad::Off => Some("off"),
        },
    );
    to.put_some("state", s.state.as_deref());
    QUIVER.iter().for_each(|write| write(from, to));
}

fn millis(d: std::time::Duration) -> u64 {
    d.as_millis() as u64
}

fn buffers(s: &Settings, normal: &Settings, workers: usize) -> Map {
    let mut to = Map::new();
    // More workers have more buffers by themselves.
    let many = normal.buffers.count.max(workers as u32 * BUFFERS_A_WORKER);
    to.put_unless("count", s.buffers.count, many);
    to.put_some(
        "huge-pages",
        match s.buffers.huge_pages {
            HugePages::Auto => None,
            HugePages::Never => Some("never"),
            HugePages::Require => Some("require"),
        },
    );
    to
}

/// Where keys are is told, and never what is in them.
fn listens(l: &Listen) -> Map {
    let mut map = Map::new();
    map.put("address", Node::text(l.address));
    map.put("certificate", l.certificate.path.as_str());
    map.put("key", l.key.path.as_str());
    map.put("client-ca", l.client_ca.path.as_str());
    let mut roles = Map::new();
    for (name, access) in &l.roles {
        roles.put(name.clone(), access.role());
    }
    map.put("roles", roles);
    map
}

fn log(s: &Settings, normal: &Settings) -> Map {
    let mut to = Map::new();
    let level = match s.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    to.put_some("level", (s.log.level != normal.log.level).then_some(level));
    to.put_some("file", s.log.file.as_deref());
    to.put_some("format", s.log.json.then_some("json"));
    to
}
