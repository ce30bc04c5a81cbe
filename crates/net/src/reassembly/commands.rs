//! Commands on the reassembly of fragments.

use super::part::{Status, status};
use super::{Datagram, Kind, SetLimits, Settings};
use crate::cli::commit;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::time::Duration;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = vec![
        feature("set interface reassembly", "Put fragments together that come on an interface and are not for the router", false)
            .details(
                "What is for the router itself is put together always. A datagram that goes on leaves in fragments no larger \
                 than those that came.",
            )
            .example("set interface reassembly left on")
            .example("set interface reassembly left ip4"),
        feature("set interface virtual-reassembly", "Tell fragments that come on an interface the ports of their datagram", true)
            .details("For features that look at ports. Fragments go on as they came; those before the first one wait for it.")
            .example("set interface virtual-reassembly left on")
            .example("set interface virtual-reassembly left off"),
        limits("set ip reassembly", "Limits of the reassembly of IPv4 fragments", false)
            .example("set ip reassembly max-reassemblies 2048 timeout 5000")
            .example("set ip reassembly virtual max-reassembly-length 64"),
        limits("set ip6 reassembly", "Limits of the reassembly of IPv6 fragments", true)
            .example("set ip6 reassembly timeout 60000 expire-walk-interval 500"),
    ];
    for kind in Kind::ALL {
        let words = format!("show {}", kind.node());
        let what = match kind.shallow {
            false => "Datagrams of which fragments are missing",
            true => "Datagrams whose fragments were told their ports",
        };
        let family = if kind.v6 { "IPv6" } else { "IPv4" };
        let command = Command::read(
            &format!("{words} [details]"),
            &format!("{what}, {family}"),
            move |r: &mut Router, a| Ok(show(kind, &status(r, kind, a.has("details")))),
        );
        all.push(command.arg("details", "and the datagrams one by one, oldest first").example(&words));
    }
    all
}

fn feature(words: &str, help: &str, shallow: bool) -> Command<Router> {
    let run = move |router: &mut Router, args: &Args| {
        let name: String = args.get("interface")?;
        let on = |v6: bool| args.has("on") || args.has(if v6 { "ip6" } else { "ip4" });
        let op = |v6| Op::SetFeature {
            name: name.clone(),
            feature: Kind { v6, shallow }.setting().to(on(v6)).into(),
        };
        commit(router, [false, true].map(op).to_vec())
    };
    Command::write(&format!("{words} <interface:interface> (on|off|ip4|ip6)"), help, run)
        .arg("on", "of both families")
        .arg("off", "of none")
        .arg("ip4", "only IPv4")
        .arg("ip6", "only IPv6")
}

fn limits(words: &str, help: &str, v6: bool) -> Command<Router> {
    let run = move |router: &mut Router, args: &Args| {
        let kind = Kind { v6, shallow: args.has("virtual") };
        let was = super::limits(router, kind);
        let time = |name: &str, was: Duration| {
            let ms: Option<u32> = args.opt(name)?;
            Ok::<_, CommandError>(ms.map_or(was, |ms| Duration::from_millis(ms.into())))
        };
        let settings = Settings {
            max_reassemblies: args.opt("datagrams")?.unwrap_or(was.max_reassemblies),
            max_length: args.opt("fragments")?.unwrap_or(was.max_length),
            timeout: time("timeout", was.timeout)?,
            walk: time("interval", was.walk)?,
        };
        commit(router, vec![SetLimits { kind, settings }.into()])
    };
    let syntax = format!(
        "{words} [virtual] [max-reassemblies <datagrams:u32 0..16384 datagrams>] \
         [max-reassembly-length <fragments:u32 1..2048 fragments>] [timeout <timeout:u32 1..600000 ms>] \
         [expire-walk-interval <interval:u32 1..600000 ms>]"
    );
    Command::write(&syntax, help, run)
        .arg("virtual", "of virtual reassembly instead of the full one")
        .arg("datagrams", "datagrams that each worker waits for at once; 0: every fragment is dropped")
        .arg("fragments", "fragments of one datagram")
        .arg("timeout", "how long the fragments of a datagram are waited for")
        .arg("interval", "how often what is too old is looked for")
        .details(
            "What is not named stays. When there is no room the oldest datagram goes. The fragments that one kind of \
             reassembly holds take a sixteenth of all buffers at most.",
        )
}

fn datagram(d: &Datagram) -> Json {
    json!({ "key": d.key, "age-ms": d.age_ms, "fragments": d.fragments, "bytes": d.bytes, "refused": d.refused })
}

fn show(kind: Kind, status: &Status) -> Output {
    let s = &status.settings;
    let family = if kind.v6 { "IP6" } else { "IP4" };
    let what = if kind.shallow { "shallow virtual reassembly" } else { "full reassembly" };
    let sum = |of: fn(&super::Summary) -> u64| status.workers.iter().map(of).sum::<u64>();
    let mut t = String::new();
    let line = "---------------------------------\n";
    let _ = write!(t, "{line}{family} {what} status\n{line}");
    let mut workers = vec![];
    for (n, w) in status.workers.iter().enumerate() {
        for d in &w.details {
            let refused = if d.refused { ", refused" } else { "" };
            let _ = writeln!(
                t,
                "worker {n}: {}, age {} ms, {} fragments held, {} bytes{refused}",
                d.key, d.age_ms, d.fragments, d.bytes
            );
        }
        workers.push(json!({
            "worker": n, "reassemblies": w.datagrams, "fragments": w.fragments, "buffers": w.buffers,
            "buffers-allowed": w.allowance, "completed": w.completed, "evicted": w.evicted, "timeouts": w.timeouts,
            "refused": w.refused, "details": w.details.iter().map(datagram).collect::<Vec<_>>(),
        }));
    }
    let allowance = status.workers.first().map_or(0, |w| w.allowance);
    let (timeout, walk) = (s.timeout.as_millis() as u64, s.walk.as_millis() as u64);
    for (name, value) in [
        ("Number of concurrent reassemblies", sum(|w| w.datagrams as u64)),
        ("Fragments held", sum(|w| w.fragments as u64)),
        ("Buffers held", sum(|w| w.buffers as u64)),
        ("Datagrams completed", sum(|w| w.completed)),
        ("Datagrams evicted to make room", sum(|w| w.evicted)),
        ("Datagrams whose time ran out", sum(|w| w.timeouts)),
        ("Datagrams refused", sum(|w| w.refused)),
        ("Maximum configured concurrent reassemblies per worker", s.max_reassemblies.into()),
        ("Maximum configured amount of fragments per reassembly", s.max_length.into()),
        ("Maximum buffers held per worker", allowance as u64),
    ] {
        let _ = writeln!(t, "{name}: {value}");
    }
    let _ = writeln!(t, "Maximum configured reassembly timeout: {timeout}ms");
    let _ = writeln!(t, "Maximum configured reassembly expire walk interval: {walk}ms");
    Output::new(
        t,
        json!({
            "max-reassemblies": s.max_reassemblies, "max-reassembly-length": s.max_length, "timeout-ms": timeout,
            "expire-walk-interval-ms": walk, "workers": workers,
        }),
    )
}
