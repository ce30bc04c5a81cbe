//! `quiver bench`: how fast the router forwards on this machine.
//!
//! The packet generator ([`feed`]) feeds the router's own graph ([`rig`]), packets end in a [`sink`] that frees them,
//! and [`measure`] reads the counters that every worker keeps always. Nothing in between is special to the benchmark.

mod feed;
mod histogram;
mod machine;
mod many;
mod measure;
mod mood;
mod prefixes;
mod random;
mod report;
mod rig;
mod routes;
mod scenarios;
mod sink;
mod special;
mod started;
mod traffic;
mod turns;

use clap::Args;
use machine::Machine;
use measure::{ENOUGH, Meter};
use mood::{Mood, Shares};
use report::{Answer, Forwarding, round};
use rig::{Plan, Rig};
use scenarios::{ALL, Input, Scenario, What};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use turns::Turns;

/// Measure how fast this machine forwards
///
/// Without a scenario: all that forward packets. With --help: what they are.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Bench {
    /// What to measure
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Print one JSON object a scenario
    #[arg(long)]
    json: bool,
    /// Workers, each on a CPU of its own
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// Time to measure each scenario, seconds, after the warm-up
    #[arg(long, default_value_t = 5.0, value_name = "S", value_parser = seconds)]
    seconds: f64,
    /// Bytes of a frame without FCS, 64 to 9000
    #[arg(long, default_value_t = 64, value_name = "BYTES", value_parser = size)]
    size: usize,
    /// Prefixes, one a line, packed by xz or not; give it twice for a file of each family
    #[arg(long, value_name = "FILE")]
    table: Vec<PathBuf>,
    /// Updates of the table, "A PREFIX" or "W PREFIX" a line, packed by xz or not
    #[arg(long, value_name = "FILE")]
    updates: Vec<PathBuf>,
}

/// What scenarios work with.
pub struct Context {
    machine: Machine,
    input: Input,
}

/// Prints an answer.
type Emit<'a> = &'a mut dyn FnMut(Answer) -> Result<(), String>;

impl Context {
    /// IPv4 with a large table: that of the command line, or else a made one.
    fn large_plan(&self) -> Result<Plan, String> {
        match self.input.table(false) {
            Ok(table) => scenarios::plain(&self.input, table, scenarios::HOPS),
            Err(_) => scenarios::mix(&self.input, false, 1_000_000),
        }
    }
}

fn after_help() -> String {
    let line = |s: &Scenario| format!("  {:<18} {}\n", s.name, s.about);
    format!("Scenarios:\n{}", ALL.iter().map(line).collect::<String>())
}

fn seconds(text: &str) -> Result<f64, String> {
    let s: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.01..=86_400.0).contains(&s) { Ok(s) } else { Err("0.01 to 86400 seconds".into()) }
}

fn size(text: &str) -> Result<usize, String> {
    let n: usize = text.parse().map_err(|_| "not a number".to_string())?;
    let (least, most) = (traffic::SIZES.start(), traffic::SIZES.end());
    if traffic::SIZES.contains(&n) { Ok(n) } else { Err(format!("{least} to {most} bytes")) }
}

/// Runs `quiver bench`.
pub fn run(args: &Bench) -> ExitCode {
    match bench(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "quiver bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The scenarios that were asked for.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let find = |name: &String| {
        ALL.iter().find(|s| s.name == name).ok_or_else(|| {
            let all: Vec<&str> = ALL.iter().map(|s| s.name).collect();
            format!("there is no scenario {name}; there are {}", all.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn bench(args: &Bench) -> Result<(), String> {
    let list = chosen(&args.scenarios)?;
    let machine = Machine::new(usize::from(args.workers))?;
    let input = Input { size: args.size, files: args.table.clone(), loaded: std::cell::OnceCell::new() };
    let context = Context { machine, input };
    let named = !args.scenarios.is_empty();
    let mut lines = vec![];
    let mut emit = |a: Answer| {
        let text = if args.json { &a.json } else { &a.text };
        lines.extend(Some(a.line).filter(|l| !l.is_empty()));
        say(&format!("{text}\n"))
    };
    for s in list {
        let at = |e: String| format!("{}: {e}", s.name);
        match s.what {
            What::Special(_) if !named => {}
            What::Special(run) => run(&context, args, &mut emit).map_err(at)?,
            What::Forward(make) => match make(&context.input) {
                Ok(plan) => emit(forward(s.name, &context.machine, &plan, args).map_err(at)?.answer()?)?,
                Err(e) if named => return Err(at(e)),
                Err(e) => {
                    let _ = writeln!(std::io::stderr(), "{}: left out: {e}", s.name);
                }
            },
        }
    }
    if !args.json && lines.len() > 1 {
        say(&(lines.join("\n") + "\n"))?;
    }
    Ok(())
}

fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| format!("cannot print: {e}"))
}

/// Measures one forwarding scenario.
fn forward(name: &str, machine: &Machine, plan: &Plan, args: &Bench) -> Result<Forwarding, String> {
    let mut rig = Rig::new(machine, plan, false)?;
    let _aside = machine.step_aside();
    let meter = Meter::new(&rig);
    rig.start();
    rig.warm_up((args.seconds / 4.0).min(1.0));
    let feed = Arc::clone(&rig.feed);
    let mut turns = Turns::new(&meter, &feed, machine.workers);
    let (mut before, mut shares) = (Mood::now(&machine.cpus), vec![]);
    let router = &mut rig.router;
    let run = meter.measure(args.seconds, ENOUGH, || {
        shares.push(Mood::now(&machine.cpus).since(&before));
        router.handle_punts();
        router.tick();
        turns.take(measure::window(args.seconds));
        before = Mood::now(&machine.cpus);
    });
    let mut report = Forwarding::new(name, &rig, &meter, &run, Shares::mean(&shares));
    report.times_one = turns.times_one().map(|t| round(t, 3));
    settle(&mut rig, &meter, &mut report);
    Ok(report)
}

/// Stops the packets and counts what became of them and of their buffers.
fn settle(rig: &mut Rig, meter: &Meter, report: &mut Forwarding) {
    rig.stop();
    let (made, dropped) = meter.totals();
    report.dropped = dropped;
    report.lost = made as i64 - rig.sent() as i64 - dropped as i64;
    report.leaked = rig.router.pool().in_use() as i64 - rig.held() as i64;
}
