//! Whatever commands make, its dump loads: random sequences of command lines, of which any may be refused.
//!
//! After each sequence the running state is dumped, the dump is checked and started as a document, and that router's
//! dump must be the same, byte for byte. A refused line must have changed nothing. `lines.rs` has the lines; a new command
//! gets a line there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;
mod lines;

use command::{Access, Registry};
use control::dump::{Dump, Source};
use control::{apply, yaml};
use net::router::{Router, RouterConfig};
use proptest::prelude::*;
use std::path::PathBuf;

/// Where capture files go, and whether TAPs can be made.
struct Place {
    dir: PathBuf,
    taps: bool,
    pid: String,
}

impl Place {
    /// In a network namespace of the thread's own, where that is allowed.
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("sequences-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // An empty capture file, to be read.
        for file in ["a", "b", "c"] {
            let mut head = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            head.extend([0xff, 0xff, 0, 0, 1, 0, 0, 0]);
            std::fs::write(dir.join(format!("{file}.pcap")), head).unwrap();
        }
        let flags = rustix::thread::UnshareFlags::NEWNET;
        // SAFETY: a network namespace of its own shares nothing that another thread of the process would miss.
        #[allow(unsafe_code)]
        let taps = unsafe { rustix::thread::unshare_unsafe(flags) }.is_ok();
        Place { dir, taps, pid: format!("q{}", std::process::id() % 1_000_000) }
    }

    fn fill(&self, line: &str, choice: u64) -> String {
        let (dir, long, longer) = (self.dir.display().to_string(), "x".repeat(65), "y".repeat(256));
        lines::fill(line, choice, &[("dir", &dir), ("pid", &self.pid), ("long", &long), ("longer", &longer)])
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn config() -> RouterConfig {
    let pool = graph::PoolConfig { buffers: 2048, memory: graph::PoolMemory::Normal };
    RouterConfig { pool, ..apply::router_config(&yaml::Document::default()) }
}

fn dump(router: &Router) -> String {
    Dump::text(Source { router, settings: &yaml::Settings::default() })
}

fn names(router: &Router) -> Vec<String> {
    router.interfaces().filter(|i| !i.companion).map(|i| i.name.clone()).collect()
}

/// Runs the lines and saves, loads, saves. Answers which lines were refused, with the reason.
fn round_trip(lines: &[String]) -> Result<Vec<Option<String>>, TestCaseError> {
    let registry = Registry::new(net::commands::all()).unwrap();
    let mut router = Router::new(config()).unwrap();
    let mut refused = vec![];
    let mut before = dump(&router);
    for line in lines {
        // Some do their work behind the opening of a file, or in turns.
        let done = registry.run(&mut router, Access::Write, line).and_then(|o| o.whole(&mut router, false));
        let why = done.err().map(|e| e.render(line));
        let after = dump(&router);
        if let Some(why) = &why {
            prop_assert_eq!(&before, &after, "a refused line changed something: {}", why);
        }
        before = after;
        refused.push(why);
    }
    let (written, order) = (before, names(&router));
    let unwell: Vec<String> =
        router.take_log().into_iter().map(|l| l.text).filter(|l| l.contains("cannot undo")).collect();
    prop_assert!(unwell.is_empty(), "{:?}", unwell);
    // Its devices go before the other router opens them.
    router.shutdown();
    drop(router);
    let told = || -> String {
        let one = |(line, why): (&String, &Option<String>)| {
            format!("{} {line}\n", if why.is_some() { "-" } else { "+" })
        };
        lines.iter().zip(&refused).map(one).collect()
    };
    let document = match yaml::load("dump", &written) {
        Ok(d) => d,
        Err(e) => return Err(TestCaseError::fail(format!("{e}\n{}\n{written}", told()))),
    };
    let mut second = Router::new(config()).unwrap();
    if let Err(e) = apply::start(&document, &mut second) {
        return Err(TestCaseError::fail(format!("{e}\n{}\n{written}", told())));
    }
    let again = dump(&second);
    prop_assert!(written == again, "{}\n--- saved\n{}\n--- saved again\n{}", told(), written, again);
    prop_assert_eq!(order, names(&second), "{}", told());
    second.shutdown();
    Ok(refused)
}

/// Few, because a router starts twice for each; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(48)
}

#[test]
fn any_sequence_of_commands_is_saved_and_loaded() {
    let place = Place::new("any");
    let line = (0..lines::LINES.len(), any::<u64>());
    let sequences = (any::<bool>(), prop::collection::vec(line, 1..60));
    let config = ProptestConfig {
        cases: cases(),
        max_shrink_iters: std::env::var("SHRINK").map_or(400, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut taken = std::collections::BTreeSet::new();
    let taken_too = std::cell::RefCell::new(&mut taken);
    let run = proptest::test_runner::TestRunner::new(config).run(&sequences, |(start, sequence)| {
        let start = if start { lines::START } else { &[] };
        let mut all: Vec<String> = start.iter().map(|l| place.fill(l, 0)).collect();
        let begin = all.len();
        let makes_tap = |line: &str| ["create tap", "lcp create"].iter().any(|l| line.starts_with(l));
        let wanted = |l: &&(usize, u64)| place.taps || !makes_tap(lines::LINES[l.0]);
        let sequence: Vec<&(usize, u64)> = sequence.iter().filter(wanted).collect();
        all.extend(sequence.iter().map(|(line, choice)| place.fill(lines::LINES[*line], *choice)));
        let refused = round_trip(&all)?;
        let well = sequence.iter().zip(&refused[begin..]).filter(|(_, why)| why.is_none());
        taken_too.borrow_mut().extend(well.map(|((line, _), _)| *line));
        Ok(())
    });
    if let Err(e) = run {
        panic!("{e}");
    }
    if std::env::var_os("SEQUENCES").is_some() {
        for (n, line) in lines::LINES.iter().enumerate().filter(|(n, _)| !taken.contains(n)) {
            println!("never taken: {n} {line}");
        }
    }
}

#[test]
fn what_once_did_not_load() {
    let place = Place::new("cases");
    let mut run: Vec<(&str, Vec<String>)> = cases::CASES
        .iter()
        .filter(|(_, text)| place.taps || !text.contains("create tap"))
        .map(|(name, text)| (*name, text.lines().map(|l| place.fill(l.trim(), 0)).collect()))
        .collect();
    let many: Vec<String> = (2..67).map(|n| format!("via 10.0.0.{n}")).collect();
    let paths = [
        "set interface ip address p0 10.0.0.1/24".into(),
        format!("ip route add 20.0.0.0/8 {}", many.join(" ")),
    ];
    run.push(("65 paths", paths.into()));
    for (name, lines) in run {
        let (lines, says): (Vec<String>, Vec<Option<&str>>) = lines
            .iter()
            .map(|l| {
                l.split_once(" ! ").map_or((l.clone(), None), |(line, says)| (line.to_string(), Some(says)))
            })
            .unzip();
        let mut all: Vec<String> = lines::START.iter().map(|l| place.fill(l, 0)).collect();
        let begin = all.len();
        all.extend(lines.iter().cloned());
        let refused = round_trip(&all).unwrap_or_else(|e| panic!("{name}: {e}"));
        for ((line, says), why) in lines.iter().zip(says).zip(&refused[begin..]) {
            let as_said = match (says, why) {
                (None, why) => why.is_none(),
                (Some(says), why) => why.as_ref().is_some_and(|w| w.contains(says)),
            };
            assert!(as_said, "{name}: {line}: {why:?}");
        }
    }
}

/// Commands that change something and are no lines here, by their first words, and why.
const NO_LINE: &[(&str, &str)] = &[
    ("create host-interface", "takes a device of the machine"),
    ("delete host-interface", "takes a device of the machine"),
    ("create interface af_xdp", "takes a device of the machine"),
    ("delete interface af_xdp", "takes a device of the machine"),
    ("create interface dpdk", "takes a device of the machine"),
    ("delete interface dpdk", "takes a device of the machine"),
    ("lcp default netns", "its namespace is not there, so the line is refused"),
    ("l2fib flush-mac", "forgets what was learned, which nobody saves"),
    ("exec", "its lines are lines themselves"),
    ("clear", "counts anew"),
    ("trace", "is nothing that is saved"),
    ("pcap trace", "is nothing that is saved"),
];

/// A command that is new gets a line.
#[test]
fn each_command_that_changes_something_has_a_line() {
    let registry = Registry::new(net::commands::all()).unwrap();
    let place = Place { dir: "/tmp".into(), taps: false, pid: "q".into() };
    let mut taken = std::collections::BTreeSet::new();
    let all = lines::LINES.iter().flat_map(|line| (0..8).map(move |n| (line, n * 7919)));
    for (line, choice) in all {
        if let Ok(command::Parsed::Command(n, _)) = registry.check(&place.fill(line, choice)) {
            taken.insert(n);
        }
    }
    // The folder is nobody's to remove.
    std::mem::forget(place);
    let missing = registry.commands().iter().enumerate().filter(|(n, c)| {
        c.access() == Access::Write && !taken.contains(n) && !NO_LINE.iter().any(|(of, _)| c.begins_with(of))
    });
    let missing: Vec<&str> = missing.map(|(_, c)| c.syntax()).collect();
    assert!(missing.is_empty(), "no line of lines.rs is {missing:#?}");
}
