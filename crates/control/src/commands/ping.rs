//! `ping`: sends echo requests from the router and answers line by line.

use super::App;
use command::{Access, Args, Command, CommandError, Emit, Output};
use net::ping::{self, PingReply, PingRequest};
use net::plane::kind;
use net::router::{RouteTable, Router};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often answers are looked for; their times are taken where they come in.
const LOOK: Duration = Duration::from_millis(2);
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// For those who may only look: requests of a ping, and the time between two.
const MOST_OF_LOOKERS: u32 = 1000;
const LEAST_OF_LOOKERS: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
/// Answers kept for the statistics' JSON.
const KEPT: usize = 10_000;

pub(super) fn command() -> Command<App> {
    Command::read(
        "ping <address:ip> [table <table:number table>] [source (<interface:interface>|<from:ip>)] [repeat <repeat:u32 1..1000000>] \
         [size <size:u16 0..8900 bytes>] [interval <interval:duration>] [timeout <timeout:duration>]",
        "Send echo requests",
        start,
    )
    .arg("address", "destination; a link-local one needs a source interface")
    .arg("table", "table in which the destination is looked up; without it that of the interface, or table 0")
    .arg("interface", "send on this interface, from its address")
    .arg("from", "send from this address, which is one of the router's")
    .arg("repeat", "requests; 5 by default")
    .arg("size", "payload; 56 by default")
    .arg("interval", "time between requests, at least 10ms; 1s by default")
    .arg("timeout", "how long to wait after the last request; 1s by default")
    .details(
        "Who may only look sends at most 1000 requests, and one every 100ms. `quiver ctl ping` ends with status 1 when no reply has \
         come.",
    )
    .example("ping 10.0.1.2")
    .example("ping 10.0.1.2 table 10")
    .example("ping fe80::1 source left repeat 3 interval 200ms")
}

struct Plan {
    request: PingRequest,
    repeat: u32,
    interval: Duration,
    timeout: Duration,
}

/// Whether an address is one of an interface's.
pub(super) fn has(i: &net::router::IfState, address: IpAddr) -> bool {
    i.configured().any(|n| n.addr() == address) || i.link_local.is_some_and(|l| IpAddr::V6(l) == address)
}

/// The request to the address that a command names, from the source that it names, with the next identifier.
pub(super) fn probe_to(app: &mut App, args: &Args) -> Result<PingRequest, CommandError> {
    let to: IpAddr = args.get("address")?;
    let router = app.router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
    let name: Option<String> = args.opt("interface")?;
    let interface = name.and_then(|n| router.interface_index(&n));
    let source: Option<IpAddr> = args.opt("from")?;
    if let Some(s) = source {
        if s.is_ipv4() != to.is_ipv4() {
            return Err(args.error("from", format!("{s} and {to} are of different families")));
        }
        if !router.interfaces().any(|i| has(i, s)) {
            return Err(args.error("from", format!("{s} is not an address of the router")));
        }
    }
    if to.is_unspecified() {
        return Err(args.error("address", format!("{to} is nobody's address")));
    }
    if interface.is_none() && matches!(to, IpAddr::V6(a) if a.is_unicast_link_local() || a.is_multicast()) {
        return Err(args.error("address", format!("{to} needs an interface, as in 'source left'")));
    }
    let table = RouteTable::of(to, args.opt("table")?.unwrap_or(0));
    if !router.has_table(table) {
        return Err(args.error("table", format!("there is no {table}")));
    }
    if interface.is_none() {
        refuse_dead_end(&router, table.id, to).map_err(|why| args.error("address", why))?;
    }
    let source = source.or_else(|| ping::source_for(&router, table.id, to, interface));
    app.next_ping = app.next_ping.wrapping_add(1);
    let id = app.next_ping;
    Ok(PingRequest { to, source, table: table.id, interface, id, seq: 0, size: 0, ttl: None, port: None })
}

fn start(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let mut request = probe_to(app, args)?;
    let interval = args.opt("interval")?.unwrap_or(Duration::from_secs(1));
    if !(LEAST_INTERVAL..=LONGEST).contains(&interval) {
        return Err(args.error("interval", "the interval is 10ms to 1h"));
    }
    let repeat = args.opt("repeat")?.unwrap_or(5);
    if args.caller().is_some_and(|c| c.access < Access::Operate) {
        if repeat > MOST_OF_LOOKERS {
            let why = format!("who may only look sends at most {MOST_OF_LOOKERS} requests");
            return Err(args.error("repeat", why));
        }
        if interval < LEAST_OF_LOOKERS {
            return Err(args.error("interval", "who may only look sends a request every 100ms at most"));
        }
    }
    let timeout = args.opt("timeout")?.unwrap_or(Duration::from_secs(1)).min(LONGEST);
    request.size = usize::from(args.opt::<u16>("size")?.unwrap_or(56));
    let plan = Plan { request, repeat, interval, timeout };
    let open = Open::new(app, plan.request.id);
    Ok(Output::stream(move |emit| run(open, plan, emit)))
}

/// The router does not answer its own packets with errors, so it tells beforehand.
fn refuse_dead_end(router: &Router, table: u32, to: IpAddr) -> Result<(), String> {
    let Some(group) = router.lookup_in(table, to) else { return Err(format!("there is no route to {to}")) };
    let live = |k: u8| matches!(k, kind::REWRITE | kind::LABEL | kind::LOCAL | kind::GLEAN | kind::LOOKUP);
    match group.paths.first() {
        Some(p) if !group.paths.iter().any(|p| live(p.entry.kind)) => {
            Err(format!("the route to {to} drops packets: {}", kind::name(p.entry.kind)))
        }
        _ => Ok(()),
    }
}

/// A ping whose answers the router keeps; forgotten when it ends, or the operator goes away.
pub(super) struct Open {
    router: Rc<RefCell<Router>>,
    id: u16,
}

impl Open {
    /// Begins to keep the answers to requests with this identifier.
    pub fn new(app: &App, id: u16) -> Self {
        ping::open(&mut app.router.borrow_mut(), id);
        Open { router: Rc::clone(&app.router), id }
    }

    /// Sends a request.
    pub fn send(&self, request: &PingRequest) -> Result<(), CommandError> {
        ping::send(&self.router.borrow(), request).map_err(CommandError::new)
    }

    /// Takes the answers that have come.
    pub fn replies(&self) -> Vec<PingReply> {
        ping::replies(&mut self.router.borrow_mut(), self.id)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Ok(mut router) = self.router.try_borrow_mut() {
            ping::close(&mut router, self.id);
        }
    }
}

#[derive(Default)]
struct Statistics {
    sent: u32,
    received: u32,
    errors: u32,
    total: Duration,
    least: Option<Duration>,
    most: Duration,
    replies: Vec<serde_json::Value>,
}

async fn run(open: Open, plan: Plan, emit: Emit) -> Result<Output, CommandError> {
    let mut stats = Statistics::default();
    // By sequence number, which is one byte pair: a later round takes an earlier one's place.
    let mut waiting: BTreeMap<u16, std::time::Instant> = BTreeMap::new();
    let mut next = Instant::now();
    loop {
        let now = Instant::now();
        if stats.sent < plan.repeat && now >= next {
            stats.sent += 1;
            let seq = stats.sent as u16;
            waiting.insert(seq, std::time::Instant::now());
            let request = PingRequest { seq, ..plan.request.clone() };
            open.send(&request)?;
            next += plan.interval;
        }
        for reply in open.replies() {
            let Some(sent) = waiting.remove(&reply.seq) else { continue };
            if !emit.line(&told(&mut stats, &reply, reply.at.saturating_duration_since(sent))) {
                return Ok(Output::none());
            }
        }
        let all = stats.sent == plan.repeat;
        let last = next.checked_sub(plan.interval).unwrap_or(next) + plan.timeout;
        if all && (waiting.is_empty() || now >= last) {
            break;
        }
        let due = if all { last } else { next };
        sleep_until(due.min(now + LOOK)).await;
    }
    Ok(summary(&plan, stats))
}

fn told(stats: &mut Statistics, r: &PingReply, time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if stats.replies.len() < KEPT {
        stats.replies.push(json!({
            "seq": r.seq, "from": r.from.to_string(), "bytes": r.bytes, "ttl": r.ttl, "time-ms": ms,
            "error": (!r.is_reply()).then(|| error_words(r)),
        }));
    }
    if !r.is_reply() {
        stats.errors += 1;
        return format!("from {}: icmp_seq={} {}", r.from, r.seq, error_words(r));
    }
    stats.received += 1;
    stats.total += time;
    stats.least = Some(stats.least.map_or(time, |l| l.min(time)));
    stats.most = stats.most.max(time);
    format!("{} bytes from {}: icmp_seq={} ttl={} time={ms:.4} ms", r.bytes, r.from, r.seq, r.ttl)
}

/// What an ICMP error about a request says (RFC 792, RFC 4443).
pub(super) fn error_words(r: &PingReply) -> String {
    let (kind, code) = r.kind;
    let words = match (r.from.is_ipv4(), kind, code) {
        (true, 3, 0) => "network unreachable",
        (true, 3, 1) => "host unreachable",
        (true, 3, 4) => "fragmentation needed",
        (true, 3, 9 | 10 | 13) | (false, 1, 1) => "administratively prohibited",
        (true, 3, _) => "destination unreachable",
        (true, 11, _) | (false, 3, _) => "time exceeded",
        (false, 1, 0) => "no route to destination",
        (false, 1, 3) => "address unreachable",
        (false, 1, _) => "destination unreachable",
        (false, 2, _) => "packet too big",
        (true, 12, _) | (false, 4, _) => "parameter problem",
        _ => "error",
    };
    format!("{words} (type {kind}, code {code})")
}

fn summary(plan: &Plan, stats: Statistics) -> Output {
    let lost = stats.sent.saturating_sub(stats.received);
    let loss = f64::from(lost) * 100.0 / f64::from(stats.sent.max(1));
    let mut text = format!("\nStatistics: {} sent, {} received, ", stats.sent, stats.received);
    if stats.errors != 0 {
        let _ = write!(text, "{} errors, ", stats.errors);
    }
    // A lost packet of many must not round to none.
    let digits = usize::from(loss.fract() != 0.0) * 2;
    let _ = writeln!(text, "{loss:.digits$}% packet loss");
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    let mut rtt = serde_json::Value::Null;
    if let Some(least) = stats.least {
        let mean = ms(stats.total) / f64::from(stats.received.max(1));
        let _ = writeln!(text, "rtt min/avg/max = {:.4}/{mean:.4}/{:.4} ms", ms(least), ms(stats.most));
        rtt = json!({ "min-ms": ms(least), "avg-ms": mean, "max-ms": ms(stats.most) });
    }
    let json = json!({
        "to": plan.request.to.to_string(),
        "source": plan.request.source.map(|s| s.to_string()),
        "sent": stats.sent,
        "received": stats.received,
        "errors": stats.errors,
        "loss-percent": loss,
        "rtt": rtt,
        "replies": stats.replies,
    });
    // As ping(8) has it: without any answer the status says so.
    if stats.received == 0 { Output::failed(text, json) } else { Output::new(text, json) }
}
