//! `show bond`, `show lacp`.

use super::lacp::{Info, Port, state};
use super::part::{Bond, bonds, in_order};
use super::{Mode, bond, member};
use crate::cli::interface;
use crate::neighbor::Millis;
use crate::router::Router;
use command::{Args, Command, CommandError, Output, Table};
use serde_json::{Value, json};
use std::fmt::Write;

/// The commands.
pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show bond [details]", "Bonds and their members", show_bonds)
            .arg("details", "with the members of each, and what they are to it")
            .example("show bond"),
        Command::read(
            "show lacp [<interface:interface>] [details]",
            "What LACP says and hears over each member",
            show_lacp,
        )
        .arg("interface", "only this member, or the members of this bond")
        .arg("details", "with both ends in full, and what was counted")
        .example("show lacp"),
    ]
}

/// What a member is to its bond, in a word.
fn part_of(router: &Router, b: &Bond, m: u32) -> &'static str {
    let (takes, sends) = (member(router, m).is_some_and(|m| m.takes), b.sends(m));
    match (sends, takes) {
        (true, _) => "active",
        (false, true) => "collecting",
        (false, false) if b.active.contains(&m) => "backup",
        _ => "inactive",
    }
}

fn show_bonds(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let (mut text, mut all) = (String::new(), vec![]);
    let mut table = Table::new().left("Interface").right("Index").left("Mode").left("Load balance");
    table = table.right("Active").right("Members").right("Min links");
    for (index, b) in bonds(router) {
        let name = router.interface_name(index);
        let balance = b.config.mode.balances().then(|| b.config.balance.name());
        let active = b.members.iter().filter(|m| b.sends(**m)).count();
        table.row([
            name.clone().into(),
            index.into(),
            b.config.mode.name().into(),
            balance.map(str::to_owned).into(),
            (active as u64).into(),
            (b.members.len() as u64).into(),
            u64::from(b.config.min_links).into(),
        ]);
        let _ = writeln!(text, "{name}\n  mode: {}", b.config.mode.name());
        if let Some(balance) = balance {
            let _ = writeln!(text, "  load balance: {balance}");
        }
        let _ = writeln!(
            text,
            "  links that it needs: {}\n  members: {}, active: {active}",
            b.config.min_links,
            b.members.len()
        );
        let members: Vec<Value> = in_order(router, b)
            .iter()
            .map(|m| {
                let (name, part) = (router.interface_name(*m), part_of(router, b, *m));
                let c = member(router, *m).map(|m| m.config).unwrap_or_default();
                let mut words = String::new();
                for (word, on) in [("passive", c.passive), ("long-timeout", c.long_timeout)] {
                    words += &if on && b.config.mode == Mode::Lacp { format!(", {word}") } else { String::new() };
                }
                if c.weight != 0 {
                    let _ = write!(words, ", weight {}", c.weight);
                }
                let _ = writeln!(text, "    {name}: {part}{words}");
                json!({ "interface": name, "state": part, "passive": c.passive, "long-timeout": c.long_timeout, "weight": c.weight })
            })
            .collect();
        all.push(json!({
            "interface": name, "index": index, "mode": b.config.mode.name(), "load-balance": balance,
            "min-links": b.config.min_links, "active": active, "members": members,
        }));
    }
    if all.is_empty() {
        return Ok(Output::new("no bonds (create bond)\n", json!([])));
    }
    Ok(Output::new(if args.has("details") { text } else { table.to_text() }, Value::Array(all)))
}

/// A bond and a member of it with LACP.
type Speaker<'r> = (u32, u32, &'r Port);

fn show_lacp(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let only = match args.opt::<String>("interface")? {
        Some(_) => Some(interface(router, args, "interface")?),
        None => None,
    };
    if let Some(i) = only.filter(|i| member(router, i.index).is_none() && bond(router, i.index).is_none()) {
        return Err(args.error("interface", format!("{} is neither a bond nor a member of one", i.name)));
    }
    let lacp = bonds(router).filter(|(_, b)| b.config.mode == Mode::Lacp);
    let all =
        lacp.flat_map(|(index, b)| b.members.iter().filter_map(move |m| Some((index, *m, b.lag.port(*m)?))));
    let of = |s: &Speaker<'_>| only.is_none_or(|i| i.index == s.0 || i.index == s.1);
    let all: Vec<Speaker<'_>> = all.filter(of).collect();
    if all.is_empty() {
        return Ok(Output::new("no members with LACP (create bond mode lacp)\n", json!([])));
    }
    let mut table =
        Table::new().left("Interface").left("Bond").left("Actor").left("Partner").left("Partner system");
    table = table.left("Receive").left("Mux").right("Heard s");
    let (mut text, mut rows) = (String::new(), vec![]);
    let now = router.now();
    for (index, m, p) in all {
        let (name, of) = (router.interface_name(m), router.interface_name(index));
        let known = !p.actor.is(state::DEFAULTED);
        let ago = |t: Option<Millis>| t.map(|t| now.since(t) as f64 / 1e3);
        table.row([
            name.clone().into(),
            of.clone().into(),
            flags(&p.actor).into(),
            flags(&p.partner).into(),
            known.then(|| p.partner.system.to_string()).into(),
            p.rx.name().into(),
            p.mux.name().into(),
            ago(p.heard).map(|s| format!("{s:.1}")).into(),
        ]);
        let c = &p.counts;
        let _ = writeln!(text, "{name}, member of {of}\n  receive {}, mux {}", p.rx.name(), p.mux.name());
        for (end, i) in [("actor", &p.actor), ("partner", &p.partner)] {
            let _ = writeln!(
                text,
                "  {end}: system {:04x},{}, key {:04x}, port {:04x},{:04x}, state {}",
                i.system_priority,
                i.system,
                i.key,
                i.port_priority,
                i.port,
                words(i)
            );
        }
        let _ = writeln!(
            text,
            "  received {}, ignored {}, bad {}, sent {}, markers {}, joined {}",
            c.received, c.ignored, c.bad, c.sent, c.markers, c.joined
        );
        rows.push(json!({
            "interface": name, "bond": of, "actor": end(&p.actor), "partner": if known { end(&p.partner) } else { Value::Null },
            "receive": p.rx.name(), "mux": p.mux.name(), "heard-s": ago(p.heard), "spoke-s": ago(p.spoke()),
            "received": c.received, "ignored": c.ignored, "bad": c.bad, "sent": c.sent, "markers": c.markers, "joined": c.joined,
        }));
    }
    let legend = "Actor, Partner: E expired, D defaulted, d distributing, c collecting, s synchronization, a aggregation, t short timeout, A active\n";
    Ok(Output::new(if args.has("details") { text } else { table.to_text() + legend }, Value::Array(rows)))
}

/// A letter for each bit of a state, in the order of VPP.
fn flags(i: &Info) -> String {
    const LETTERS: [char; 8] = ['E', 'D', 'd', 'c', 's', 'a', 't', 'A'];
    state::ALL.iter().zip(LETTERS).map(|((_, bit), letter)| if i.is(*bit) { letter } else { '-' }).collect()
}

fn words(i: &Info) -> String {
    let all: Vec<&str> = state::ALL.iter().filter(|(_, bit)| i.is(*bit)).map(|(word, _)| *word).collect();
    if all.is_empty() { "none".into() } else { all.join(" ") }
}

fn end(i: &Info) -> Value {
    let states: Vec<&str> = state::ALL.iter().filter(|(_, bit)| i.is(*bit)).map(|(word, _)| *word).collect();
    json!({
        "system-priority": i.system_priority, "system": i.system.to_string(), "key": i.key, "port-priority": i.port_priority,
        "port": i.port, "state": states,
    })
}
