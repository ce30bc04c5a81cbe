//! `mpls tunnel`, `show mpls tunnel`.

use crate::cli::interfaces::{free, made};
use crate::cli::labels::{LABELS, about_labels, labels};
use crate::cli::{commit, interface};
use crate::fib::show::{adjacency_line, target_words};
use crate::mpls::{MAX_TUNNEL, MplsOp, TunnelConfig, TunnelInfo, tunnels};
use crate::plane::kind;
use crate::router::{Op, RoutePath, Router, Target};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    let paths = format!(
        "path:(via (<address:ip> [next-hop-table <next-table:u32>|<interface:interface>]|<interface:interface>) \
         [weight <weight:u8 1..255>] {LABELS})..."
    );
    let with_paths = |c: Command<Router>| {
        about_labels(c)
            .arg(
                "address",
                "next hop: a label switching router, or an address to which a labelled route leads",
            )
            .arg("interface", "interface to it; or a tunnel for IP packets, inside of which this one goes")
            .arg("next-table", "table in which the next hop is looked up, if not in table 0")
            .arg("weight", "share of the flows")
    };
    vec![
        with_paths(Command::write(
            &format!("mpls tunnel add [l2-only [control-word]] [instance <instance:u32 0..65535>] [{paths}]"),
            "Make an MPLS tunnel",
            add,
        ))
        .arg("l2-only", "for frames: an Ethernet pseudowire (RFC 4448)")
        .arg("control-word", "a control word stands in front of each frame, both ways; the other end must do the same")
        .arg("instance", "N of its name mpls-tunnelN; the first free one by default")
        .details(
            "The answer is the name. A tunnel for IP packets is named as the interface of routes (ip route add 10.0.0.0/8 via \
             mpls-tunnel0), which then lead where the tunnel leads, and only sends. A tunnel for frames is like a device: it may be \
             cross-connected, be in a bridge domain, have sub-interfaces and addresses; what comes back to it says a label \
             (mpls local-label add 1000 eos via l2-input-on mpls-tunnel0). It is down at first. Without paths it drops what it gets.",
        )
        .example("mpls tunnel add via 10.1.2.1 right out-labels 100")
        .example("mpls tunnel add l2-only control-word via 10.1.2.1 right out-labels 100 1000"),
        with_paths(Command::write(
            &format!("mpls tunnel set <tunnel:interface> [{paths}]"),
            "Set the paths of an MPLS tunnel, in place of those that it had",
            set,
        ))
        .arg("tunnel", "the tunnel")
        .details("No packet is lost on the way from the old paths to the new ones. Without any the tunnel drops what it gets.")
        .example("mpls tunnel set mpls-tunnel0 via 10.1.2.1 right out-labels 200"),
        Command::write("mpls tunnel del <tunnel:interface>", "Take an MPLS tunnel out", |r, a| {
            let name = tunnel(r, a)?;
            commit(r, vec![Op::Delete { name }])
        })
        .arg("tunnel", "the tunnel")
        .example("mpls tunnel del mpls-tunnel0"),
        Command::read("show mpls tunnel [<tunnel:interface>]", "MPLS tunnels with their paths", show)
            .arg("tunnel", "only this one")
            .example("show mpls tunnel"),
    ]
}

/// The name of a tunnel.
fn tunnel(router: &Router, args: &Args) -> Result<String, CommandError> {
    let i = interface(router, args, "tunnel")?;
    match crate::mpls::tunnel(router, i.index) {
        Some(_) => Ok(i.name.clone()),
        None => Err(args.error("tunnel", format!("{} is no MPLS tunnel", i.name))),
    }
}

fn paths(router: &Router, args: &Args) -> Result<Vec<RoutePath>, CommandError> {
    let path = |p: &Args| {
        let name: Option<String> = p.opt("interface")?;
        Ok(RoutePath {
            address: p.opt("address")?,
            interface: name.and_then(|n| router.interface_index(&n)),
            table: p.opt("next-table")?,
            weight: p.opt("weight")?.unwrap_or(1),
            labels: labels(p)?,
            ..RoutePath::default()
        })
    };
    args.groups("path").map(path).collect()
}

fn add(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let config = TunnelConfig {
        l2_only: args.has("l2-only"),
        control_word: args.has("control-word"),
        paths: paths(router, args)?,
    };
    let instance: Option<u32> = args.opt("instance")?;
    let instance = instance
        .or_else(|| free(router, "mpls-tunnel", 0..=MAX_TUNNEL))
        .ok_or("no number is free for a tunnel")?;
    let op = MplsOp::CreateTunnel { instance: Some(instance), config };
    made(router, format!("mpls-tunnel{instance}"), vec![Op::from(op)])
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let op = MplsOp::SetTunnelPaths { name: tunnel(router, args)?, paths: paths(router, args)? };
    commit(router, vec![Op::from(op)])
}

fn one(router: &Router, t: TunnelInfo<'_>) -> (String, Json) {
    let i = router.interface(t.interface);
    let name = router.interface_name(t.interface);
    let up = i.is_some_and(|i| i.up);
    let mode = if t.config.l2_only { "l2-only" } else { "ip" };
    let word = if t.config.control_word { ", control word" } else { "" };
    let paths = target_words(router, &Target::Paths(t.config.paths.clone()), false);
    let mut text = format!("{name}: {mode}{word}, {}, group {}\n", if up { "up" } else { "down" }, t.group);
    for p in t.config.paths.iter().map(|p| target_words(router, &Target::Paths(vec![*p]), false)) {
        let _ = writeln!(text, "  {p}");
    }
    let group = router.group(t.group);
    let live: Vec<u32> = group
        .iter()
        .flat_map(|g| &g.paths)
        .filter(|p| p.entry.kind == kind::LABEL)
        .map(|p| p.entry.adj)
        .collect();
    if live.is_empty() {
        text.push_str("  no path can be used now: packets are dropped (mpls-tunnel-no-path)\n");
    }
    for a in router.adjacency_list().iter().filter(|a| live.contains(&a.id)) {
        let _ = writeln!(text, "  forwarding: {}", adjacency_line(router, a));
    }
    let json = json!({
        "name": name,
        "l2-only": t.config.l2_only,
        "control-word": t.config.control_word,
        "up": up,
        "paths": paths,
        "group": t.group.0,
        "adjacencies": live,
    });
    (text, json)
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let only = match args.opt::<String>("tunnel")? {
        Some(_) => Some(tunnel(router, args)?),
        None => None,
    };
    let router = &*router;
    let wanted = |t: &TunnelInfo<'_>| only.as_ref().is_none_or(|n| *n == router.interface_name(t.interface));
    let (text, all): (Vec<String>, Vec<Json>) =
        tunnels(router).filter(wanted).map(|t| one(router, t)).unzip();
    let text = if all.is_empty() { "no MPLS tunnels (mpls tunnel add)\n".into() } else { text.concat() };
    Ok(Output::new(text, Json::Array(all)))
}
