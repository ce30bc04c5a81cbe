//! `create gre tunnel`, `set gre tunnel`, `show gre tunnel`.

use super::{GreConfig, GreOp, GreTunnel, MAX_INSTANCE, tunnel, tunnels};
use crate::cli::interfaces::{free, made};
use crate::cli::{commit, interface};
use crate::router::{Op, Router};
use command::{Args, Cell, Command, CommandError, Output, Table};

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            &format!(
                "create gre tunnel src <src:ip> dst <dst:ip> [instance <instance:u32 0..{MAX_INSTANCE}>] \
                 [(outer-table-id|outer-fib-id) <table:number table>] [teb] [key <key:u32>] [sequence] [checksum] \
                 [ttl (copy|<ttl:u8 1..255>)] [dscp (copy-dscp|<dscp:u8 0..63>)]"
            ),
            "Make a GRE tunnel",
            create,
        )
        .arg("src", "this end: an address of the router")
        .arg("dst", "the other end, of the same family")
        .arg("instance", "N of its name greN; the first free one by default")
        .arg("table", "the routing table of both ends, if not table 0")
        .arg("teb", "for frames (transparent Ethernet bridging), and not for packets")
        .arg("key", "number in all its packets, in both directions")
        .arg("sequence", "number the packets, and drop those that come late; the other end must do the same")
        .arg("checksum", "send checksums; those that come are always checked")
        .arg("ttl", "TTL or hop limit outside, 64 by default; copy: that of the packet inside")
        .arg("copy", "that of the packet inside")
        .arg("dscp", "DSCP outside, 0 by default")
        .arg("copy-dscp", "that of the packet inside")
        .details(
            "The answer is the name. It is down at first. A tunnel for packets carries IPv4, IPv6 and labelled ones to the one \
             other end: its addresses need no neighbors, and routes may name it without a next hop. One for frames is like a \
             device. The way to the other end is looked up in the routing table and follows it; packets of one flow take one of \
             several ways. Its MTU is what 1500 bytes leave.",
        )
        .example("create gre tunnel src 10.1.2.1 dst 10.1.3.1")
        .example("create gre tunnel src 10.1.2.1 dst 10.1.3.1 instance 7 teb key 100"),
        Command::write("create gre tunnel src <src:ip> dst <dst:ip> [key <key:u32>] del", "Take a GRE tunnel out", delete)
            .example("create gre tunnel src 10.1.2.1 dst 10.1.3.1 del"),
        Command::write(
            "set gre tunnel <tunnel:interface> [src <src:ip>] [dst <dst:ip>] \
             [(outer-table-id|outer-fib-id) <table:number table>] [(key <key:u32>|no-key)] [(sequence|no-sequence)] \
             [(checksum|no-checksum)] [ttl (copy|<ttl:u8 1..255>)] [dscp (copy-dscp|<dscp:u8 0..63>)]",
            "Change a GRE tunnel in place",
            change,
        )
        .arg("src", "this end: an address of the router")
        .arg("dst", "the other end, of the same family")
        .arg("table", "the routing table of both ends")
        .arg("key", "number in all its packets, in both directions")
        .arg("no-key", "packets have none")
        .arg("sequence", "number the packets, and drop those that come late; the other end must do the same")
        .arg("no-sequence", "packets are not numbered")
        .arg("checksum", "send checksums; those that come are always checked")
        .arg("no-checksum", "send none")
        .arg("ttl", "TTL or hop limit outside")
        .arg("copy", "that of the packet inside")
        .arg("dscp", "DSCP outside")
        .arg("copy-dscp", "that of the packet inside")
        .details(
            "The interface stays as it is, with its addresses, its MAC address and the routes over it. What is not named stays. An \
             MTU that is what 1500 bytes leave stays that; any other is left alone.",
        )
        .example("set gre tunnel gre0 ttl 32 dscp copy-dscp")
        .example("set gre tunnel gre0 dst 10.1.4.1 key 7"),
        Command::read("show gre tunnel [<tunnel:interface>]", "GRE tunnels", show)
            .arg("tunnel", "only this one")
            .example("show gre tunnel"),
    ]
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let instance: Option<u32> = args.opt("instance")?;
    let instance =
        instance.or_else(|| free(router, "gre", 0..=MAX_INSTANCE)).ok_or("no number is free for a tunnel")?;
    let config = GreConfig {
        teb: args.has("teb"),
        table: args.opt("table")?.unwrap_or(0),
        key: args.opt("key")?,
        sequence: args.has("sequence"),
        checksum: args.has("checksum"),
        ttl: if args.has("copy") { None } else { Some(args.opt("ttl")?.unwrap_or(64)) },
        dscp: if args.has("copy-dscp") { None } else { Some(args.opt("dscp")?.unwrap_or(0)) },
        ..GreConfig::new(args.get("src")?, args.get("dst")?)
    };
    made(router, format!("gre{instance}"), vec![GreOp::Create { instance, config }.into()])
}

/// What the operator says of both ways, and else what it was.
fn switch(args: &Args, on: &str, off: &str, was: bool) -> bool {
    args.has(on) || was && !args.has(off)
}

fn change(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let i = interface(router, args, "tunnel")?;
    let (name, index, mtu) = (i.name.clone(), i.index, i.mtu);
    let Some(t) = tunnel(router, index) else {
        return Err(args.error("tunnel", format!("{name} is no GRE tunnel")));
    };
    let from = t.config.clone();
    let config = GreConfig {
        teb: from.teb,
        local: args.opt("src")?.unwrap_or(from.local),
        remote: args.opt("dst")?.unwrap_or(from.remote),
        table: args.opt("table")?.unwrap_or(from.table),
        key: if args.has("no-key") { None } else { args.opt("key")?.or(from.key) },
        sequence: switch(args, "sequence", "no-sequence", from.sequence),
        checksum: switch(args, "checksum", "no-checksum", from.checksum),
        ttl: if args.has("copy") { None } else { args.opt("ttl")?.or(from.ttl) },
        dscp: if args.has("copy-dscp") { None } else { args.opt("dscp")?.or(from.dscp) },
    };
    let instance = name.strip_prefix("gre").and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
    let fits = (mtu == from.mtu() && mtu != config.mtu()).then(|| Op::SetMtu { name, mtu: config.mtu() });
    let change = GreOp::Change { instance, from, config };
    commit(router, [change.into()].into_iter().chain(fits).collect())
}

/// What of the second is not as in the first, in the words of the commands.
pub(super) fn options(from: &GreConfig, c: &GreConfig) -> Vec<String> {
    let mut out = vec![];
    let mut say = |differs: bool, words: String| out.extend(differs.then_some(words));
    let number = |n: Option<u8>, copy: &str| n.map_or(copy.to_string(), |n| n.to_string());
    let no = |on: bool| if on { "" } else { "no-" };
    say(from.local != c.local, format!("src {}", c.local));
    say(from.remote != c.remote, format!("dst {}", c.remote));
    say(from.table != c.table, format!("outer-table-id {}", c.table));
    say(from.teb != c.teb, "teb".into());
    say(from.key != c.key, c.key.map_or("no-key".into(), |key| format!("key {key}")));
    say(from.sequence != c.sequence, format!("{}sequence", no(c.sequence)));
    say(from.checksum != c.checksum, format!("{}checksum", no(c.checksum)));
    say(from.ttl != c.ttl, format!("ttl {}", number(c.ttl, "copy")));
    say(from.dscp != c.dscp, format!("dscp {}", number(c.dscp, "copy-dscp")));
    out
}

fn delete(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (local, remote) = (args.get("src")?, args.get("dst")?);
    let key: Option<u32> = args.opt("key")?;
    let is = |c: &GreConfig| (c.local, c.remote, c.key) == (local, remote, key);
    let mut all = tunnels(router).filter(|(_, t)| is(&t.config)).map(|(i, _)| router.interface_name(i));
    let (found, more) = (all.next(), all.next());
    drop(all);
    match (found, more) {
        (Some(name), None) => commit(router, vec![Op::Delete { name }]),
        (Some(one), Some(two)) => Err(CommandError::new(format!(
            "{one} and {two} have these ends in different tables: name one (delete interface {one})"
        ))),
        (None, _) => Err(CommandError::new(match key {
            Some(key) => format!("no tunnel from {local} to {remote} has the key {key}"),
            None => format!("there is no tunnel from {local} to {remote} without a key"),
        })),
    }
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let only = match args.opt::<String>("tunnel")? {
        Some(_) => Some(interface(router, args, "tunnel")?),
        None => None,
    };
    if let Some(i) = only.filter(|i| tunnel(router, i.index).is_none()) {
        return Err(args.error("tunnel", format!("{} is no GRE tunnel", i.name)));
    }
    let wanted = |(index, _): &(u32, &GreTunnel)| only.is_none_or(|i| i.index == *index);
    let mut table = Table::new().left("Tunnel").left("Carries").left("Source").left("Destination");
    table = table.right("Table").right("Key").left("Options").right("TTL").right("DSCP").right("Group");
    for (index, t) in tunnels(router).filter(wanted) {
        let c = &t.config;
        let options = [(c.sequence, "sequence"), (c.checksum, "checksum")];
        let options: Vec<&str> = options.into_iter().filter(|o| o.0).map(|o| o.1).collect();
        let number = |n: Option<u8>| n.map_or("copy".into(), Cell::from);
        table.row([
            router.interface_name(index).into(),
            if c.teb { "frames" } else { "packets" }.into(),
            c.local.to_string().into(),
            c.remote.to_string().into(),
            c.table.into(),
            c.key.into(),
            Cell::new(options.join(","), options),
            number(c.ttl),
            number(c.dscp),
            t.group().0.into(),
        ]);
    }
    Ok(if table.is_empty() {
        Output::new("no GRE tunnels (create gre tunnel)\n", table.to_json())
    } else {
        Output::table(table)
    })
}
