//! `create gre tunnel`, `show gre tunnel`.

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
            t.group().into(),
        ]);
    }
    Ok(if table.is_empty() {
        Output::new("no GRE tunnels (create gre tunnel)\n", table.to_json())
    } else {
        Output::table(table)
    })
}
