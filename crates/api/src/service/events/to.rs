//! Events as messages.

use std::time::{SystemTime, UNIX_EPOCH};

use control::clients;
use control::events::{self, Change, Counts, Kind, Level, LinkEvent, NeighborEvent, Phase, What};
use net::router::{LinkState, Lost};

use super::{message, routes};
use crate::v1::{
    self, ConfigurationPhase, Event, EventChange, EventGap, EventKind, LogLevel, event, event_gap,
};

/// The kind that a number of the schema stands for.
pub fn kind_of(kind: EventKind) -> Option<Kind> {
    Kind::ALL.into_iter().find(|k| self::kind(*k) == kind)
}

fn kind(kind: Kind) -> EventKind {
    match kind {
        Kind::Link => EventKind::Link,
        Kind::Neighbor => EventKind::Neighbor,
        Kind::Configuration => EventKind::Configuration,
        Kind::Log => EventKind::Log,
        Kind::Drops => EventKind::Drops,
        Kind::Routes => EventKind::Route,
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn at(time: SystemTime, kind: EventKind, what: event::What) -> Event {
    Event { time_ns: nanoseconds(time), ..message(kind, what) }
}

fn change(change: Change) -> i32 {
    let change = match change {
        Change::There => EventChange::There,
        Change::Came => EventChange::Came,
        Change::Changed => EventChange::Changed,
        Change::Gone => EventChange::Gone,
    };
    change.into()
}

fn changed(now: &LinkState, was: &LinkState) -> Vec<String> {
    let fields = [
        ("interface", now.name != was.name),
        ("admin_up", now.up != was.up),
        ("carrier", now.link != was.link),
        ("mtu", now.mtu != was.mtu),
        ("mac", now.mac != was.mac),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}

fn link(e: &LinkEvent) -> v1::LinkEvent {
    v1::LinkEvent {
        change: change(e.change),
        interface: e.link.name.clone(),
        index: e.link.index,
        admin_up: e.link.up,
        carrier: e.link.link,
        mtu: e.link.mtu.into(),
        mac: e.link.mac.0.to_vec(),
        changed: e.was.as_ref().map(|was| changed(&e.link, was)).unwrap_or_default(),
    }
}

fn neighbor(e: &NeighborEvent) -> v1::NeighborEvent {
    let address = match e.address {
        std::net::IpAddr::V4(a) => a.octets().to_vec(),
        std::net::IpAddr::V6(a) => a.octets().to_vec(),
    };
    v1::NeighborEvent {
        change: change(e.change),
        interface: e.interface.clone(),
        index: e.index,
        address,
        mac: e.mac.0.to_vec(),
        r#static: e.fixed,
        mac_before: e.was.map(|mac| mac.0.to_vec()).unwrap_or_default(),
    }
}

fn configuration(e: &events::Configured) -> v1::ConfigurationEvent {
    let phase = match e.phase {
        Phase::Began => ConfigurationPhase::Began,
        Phase::Applied => ConfigurationPhase::Applied,
        Phase::RolledBack => ConfigurationPhase::RolledBack,
        Phase::Confirmed => ConfigurationPhase::Confirmed,
        Phase::WentBack => ConfigurationPhase::WentBack,
        Phase::Stuck => ConfigurationPhase::Stuck,
        Phase::Saved => ConfigurationPhase::Saved,
    };
    v1::ConfigurationEvent {
        phase: phase.into(),
        user: e.author.user,
        name: e.author.name.clone(),
        from: e.author.from.clone(),
        number: e.number.unwrap_or(0),
        confirm_seconds: e.within.unwrap_or(0),
        text: e.text.clone(),
    }
}

fn line(e: &events::Line) -> v1::LogEvent {
    let level = match e.level {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug => LogLevel::Debug,
        Level::Trace => LogLevel::Trace,
    };
    v1::LogEvent { level: level.into(), part: e.part.clone(), text: e.text.clone() }
}

fn drops(e: &events::Dropping) -> v1::DropsEvent {
    let (interface, index) = e.interface.clone().unwrap_or_default();
    v1::DropsEvent {
        node: e.node.clone(),
        reason: e.reason.clone(),
        interface,
        index,
        packets_per_second: e.rate,
    }
}

/// An event as a message, yet without its number.
pub fn event(e: &events::Event) -> Event {
    let what = match &e.what {
        What::Link(e) => event::What::Link(link(e)),
        What::Neighbor(e) => event::What::Neighbor(neighbor(e)),
        What::Configuration(e) => event::What::Configuration(configuration(e)),
        What::Log(e) => event::What::Log(line(e)),
        What::Drops(e) => event::What::Drops(drops(e)),
        What::SnapshotEnd(_) => event::What::SnapshotEnd(v1::SnapshotEnd {}),
    };
    at(e.time, kind(e.what.kind()), what)
}

/// A gap as a message, and how many events it stands for.
pub fn gap(lost: &Counts) -> (Event, u64) {
    let counted = Kind::ALL.into_iter().zip(lost).filter(|(_, n)| **n != 0);
    let lost: Vec<event_gap::Lost> =
        counted.map(|(k, n)| event_gap::Lost { kind: kind(k).into(), count: *n }).collect();
    let all = lost.iter().map(|l| l.count).sum();
    (at(SystemTime::now(), EventKind::Unspecified, event::What::Gap(EventGap { lost })), all)
}

/// Changes of routes that are lost, which no message counts as several.
pub fn gap_of_routes(lost: Lost) -> (Event, u64) {
    let mut counts = Counts::default();
    if let Some(n) = counts.get_mut(Kind::Routes as usize) {
        *n = lost.to - lost.from;
    }
    gap(&counts)
}

/// Changes of routes as a message.
pub fn routes(e: clients::Event) -> Option<Event> {
    let update = routes::update(e)?;
    Some(at(SystemTime::now(), EventKind::Route, event::What::Routes(update)))
}
