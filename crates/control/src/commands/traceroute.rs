//! `traceroute`: probes with a rising TTL, and who answers them.

use super::App;
use super::ping::{Open, error_words, has, probe_to};
use command::{Args, Command, CommandError, Emit, Output};
use net::ping::{PingReply, PingRequest};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often answers are looked for; their times are taken where they come in.
const LOOK: Duration = Duration::from_millis(2);
/// How long answers of a TTL are waited for at least and at most.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// The port of the first UDP probe; each further one has the next.
const PORT: u16 = 33434;

pub(super) fn command() -> Command<App> {
    Command::read(
        "traceroute <address:ip> [table <table:number table>] [source (<interface:interface>|<from:ip>)] [udp|icmp] \
         [first-ttl <first:u8 1..255>] [max-ttl <max:u8 1..255>] [queries <queries:u8 1..10>] [size <size:u16 0..8900 bytes>] \
         [timeout <timeout:duration>]",
        "Show the routers on the way to an address",
        start,
    )
    .arg("address", "destination; a link-local one needs a source interface")
    .arg("table", "table in which the destination is looked up; without it that of the interface, or table 0")
    .arg("interface", "send on this interface, from its address")
    .arg("from", "send from this address, which is one of the router's")
    .arg("udp", "UDP datagrams to ports from 33434 on: the default, but for the router's own addresses")
    .arg("icmp", "echo requests")
    .arg("first", "TTL or hop limit of the first probes; 1 by default")
    .arg("max", "that of the last ones; 30 by default")
    .arg("queries", "probes of each TTL; 3 by default")
    .arg("size", "payload; 32 by default")
    .arg("timeout", "how long to wait for the answers to the probes of a TTL; 2s by default")
    .details(
        "A line for each TTL: who answered, and after how many milliseconds; * for no answer. What ends the way other than \
         its destination is told behind the time.",
    )
    .example("traceroute 192.0.2.7")
    .example("traceroute 2001:db8:9::1 icmp max-ttl 8 queries 1 timeout 500ms")
    .example("traceroute 192.0.2.7 table 10 source 10.1.1.1")
}

struct Plan {
    request: PingRequest,
    udp: bool,
    first: u8,
    max: u8,
    queries: u8,
    timeout: Duration,
}

fn start(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let mut request = probe_to(app, args)?;
    request.size = usize::from(args.opt::<u16>("size")?.unwrap_or(32));
    // The router sends no ICMP errors about its own packets: it is asked for itself by echo.
    let own = app.router.try_borrow().is_ok_and(|r| r.interfaces().any(|i| has(i, request.to)));
    let udp = !args.has("icmp") && !own;
    if udp {
        // It is the source port: one that no service has.
        request.id |= 0x8000;
    }
    let first = args.opt("first")?.unwrap_or(1);
    let max = args.opt("max")?.unwrap_or(30.max(first));
    if max < first {
        return Err(args.error("max", format!("the last TTL {max} is below the first, {first}")));
    }
    let plan = Plan {
        request,
        udp,
        first,
        max,
        queries: args.opt("queries")?.unwrap_or(3),
        timeout: args.opt("timeout")?.unwrap_or(Duration::from_secs(2)).clamp(SHORTEST, LONGEST),
    };
    let open = Open::new(app, plan.request.id);
    Ok(Output::stream(move |emit| run(open, plan, emit)))
}

/// What came of one probe.
struct Answer {
    from: IpAddr,
    time: Duration,
    /// Of what ends the way before its destination.
    error: Option<String>,
}

/// Whether an answer is of the destination, and what it says where it is not.
fn judge(plan: &Plan, r: &PingReply) -> (bool, Option<String>) {
    match (r.is_reply(), r.from.is_ipv4(), r.kind) {
        (true, ..) => (true, None),
        (_, true, (11, _)) | (_, false, (3, _)) => (false, None),
        // "Port unreachable" of the destination itself is what a UDP probe is for.
        (_, true, (3, 3)) | (_, false, (1, 4)) if plan.udp && r.from == plan.request.to => (true, None),
        _ => (true, Some(error_words(r))),
    }
}

async fn run(open: Open, plan: Plan, emit: Emit) -> Result<Output, CommandError> {
    let first = format!(
        "traceroute to {}, {} hops at most, {} probes of {} bytes",
        plan.request.to,
        plan.max,
        if plan.udp { "UDP" } else { "ICMP" },
        plan.request.size
    );
    if !emit.line(&first) {
        return Ok(Output::none());
    }
    let (mut hops, mut number, mut reached) = (Vec::new(), 0u16, false);
    for ttl in plan.first..=plan.max {
        let queries = usize::from(plan.queries);
        let mut waiting: BTreeMap<u16, (usize, std::time::Instant)> = BTreeMap::new();
        let mut answers: Vec<Option<Answer>> = (0..queries).map(|_| None).collect();
        let mut ended = false;
        for place in 0..queries {
            let (seq, port) = match plan.udp {
                true => (PORT.wrapping_add(number), Some(PORT.wrapping_add(number))),
                false => (number, None),
            };
            number = number.wrapping_add(1);
            waiting.insert(seq, (place, std::time::Instant::now()));
            let request = PingRequest { seq, port, ttl: Some(ttl), ..plan.request.clone() };
            open.send(&request)?;
        }
        let until = Instant::now() + plan.timeout;
        while !waiting.is_empty() && Instant::now() < until {
            for reply in open.replies() {
                let Some((place, sent)) = waiting.remove(&reply.seq) else { continue };
                let (end, error) = judge(&plan, &reply);
                ended |= end;
                reached |= end && error.is_none();
                let time = reply.at.saturating_duration_since(sent);
                if let Some(answer) = answers.get_mut(place) {
                    *answer = Some(Answer { from: reply.from, time, error });
                }
            }
            if !waiting.is_empty() {
                sleep_until(until.min(Instant::now() + LOOK)).await;
            }
        }
        if !emit.line(&told(ttl, &answers)) {
            return Ok(Output::none());
        }
        let probes = answers.iter().map(|answer| match answer {
            None => json!(null),
            Some(a) => json!({ "from": a.from.to_string(), "time-ms": ms(a.time), "error": a.error }),
        });
        hops.push(json!({ "ttl": ttl, "probes": probes.collect::<Vec<_>>() }));
        if ended {
            break;
        }
    }
    let json = json!({
        "to": plan.request.to.to_string(),
        "source": plan.request.source.map(|s| s.to_string()),
        "protocol": if plan.udp { "udp" } else { "icmp" },
        "reached": reached,
        "hops": hops,
    });
    Ok(Output::new("", json))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// One line: each address once, in front of the times of its answers.
fn told(ttl: u8, answers: &[Option<Answer>]) -> String {
    let mut line = format!("{ttl:>3} ");
    let mut last = None;
    for answer in answers {
        let Some(a) = answer else {
            line.push_str(" *");
            continue;
        };
        if last != Some(a.from) {
            let _ = write!(line, " {}", a.from);
            last = Some(a.from);
        }
        let _ = write!(line, "  {:.3} ms", ms(a.time));
        if let Some(error) = &a.error {
            let _ = write!(line, " {error}");
        }
    }
    line
}
