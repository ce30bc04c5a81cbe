//! `create vxlan tunnel`, `set vxlan tunnel`, `show vxlan tunnel`.

use super::{GroupInterface, MAX_INSTANCE, MAX_VNI, VxlanConfig, VxlanOp, VxlanTunnel, tunnel, tunnels};
use crate::cli::interfaces::{free, made};
use crate::cli::{commit, interface};
use crate::router::{Op, Router};
use command::{Args, Cell, Command, CommandError, Output, Table};
use std::net::IpAddr;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    let ends = format!(
        "create vxlan tunnel src <src:ip> (dst <dst:ip>|group <group:ip> <over:interface>) vni <vni:u32 1..{MAX_VNI}>"
    );
    vec![
        Command::write(
            &format!(
                "{ends} [instance <instance:u32 0..{MAX_INSTANCE}>] [encap-vrf-id <table:number table>] [decap-next l2] \
                 [src_port <src-port:u16 1..65535>] [dst_port <dst-port:u16 1..65535>] [zero-checksum] \
                 [ttl (copy|<ttl:u8 1..255>)] [dscp (copy-dscp|<dscp:u8 0..63>)]"
            ),
            "Make a VXLAN tunnel",
            create,
        )
        .arg("src", "this end: an address of the router")
        .arg("dst", "the other end, of the same family")
        .arg("group", "in place of the other end: a multicast group, to which packets go, and from whose members they come")
        .arg("over", "the interface over which the group is, and which joins it")
        .arg("vni", "network identifier")
        .arg("instance", "N of its name vxlan_tunnelN; the first free one by default")
        .arg("table", "the routing table of both ends, if not table 0")
        .arg("decap-next", "where frames go that come out; as from a device in any case")
        .arg("src-port", "UDP port of this end, to which the other one sends; 4789 by default")
        .arg("dst-port", "UDP port of the other end, to which this one sends; 4789 by default")
        .arg("zero-checksum", "no UDP checksum over IPv6 (RFC 6935); over IPv4 there is none")
        .arg("ttl", "TTL or hop limit outside, 64 by default; copy: that of the packet inside")
        .arg("copy", "that of the packet inside")
        .arg("dscp", "DSCP outside, 0 by default")
        .arg("copy-dscp", "that of the packet inside")
        .details(
            "The answer is the name. It is down at first, and like a device: it can be in a bridge domain, where stations behind \
             the other end are learnt, in a cross-connect, or have addresses and sub-interfaces. Several tunnels of one network \
             are members of one bridge domain, with a split-horizon group of their own (set interface l2 bridge). The way to \
             the other end is looked up in the routing table and follows it; packets of one flow take one of several ways. Its \
             MTU is 1500: where the way carries no larger packets, set it to 1450 (1430 over IPv6). To a multicast group go all \
             packets, also to one station: give other ends tunnels of their own, in the same bridge domain, to whom much is sent. \
             What they send, to the group or not, comes in on those, and what goes to all goes to the group alone. All of them have \
             one split-horizon group.",
        )
        .example("create vxlan tunnel src 10.1.2.1 dst 10.1.3.1 vni 100")
        .example("create vxlan tunnel src 10.1.2.1 dst 10.1.3.1 vni 200 instance 7 decap-next l2")
        .example("create vxlan tunnel src 10.1.2.1 group 239.1.1.1 left vni 300"),
        Command::write(
            &format!(
                "{ends} [encap-vrf-id <table:number table>] [src_port <src-port:u16 1..65535>] \
                 [dst_port <dst-port:u16 1..65535>] del"
            ),
            "Take a VXLAN tunnel out",
            delete,
        )
        .example("create vxlan tunnel src 10.1.2.1 dst 10.1.3.1 vni 100 del"),
        Command::write(
            &format!(
                "set vxlan tunnel <tunnel:interface> [src <src:ip>] [(dst <dst:ip>|group <group:ip>)] \
                 [vni <vni:u32 1..{MAX_VNI}>] [encap-vrf-id <table:number table>] [src_port <src-port:u16 1..65535>] \
                 [dst_port <dst-port:u16 1..65535>] [(zero-checksum|no-zero-checksum)] [ttl (copy|<ttl:u8 1..255>)] \
                 [dscp (copy-dscp|<dscp:u8 0..63>)]"
            ),
            "Change a VXLAN tunnel in place",
            change,
        )
        .arg("src", "this end: an address of the router")
        .arg("dst", "the other end, of the same family")
        .arg("group", "another multicast group, over the same interface, of a tunnel to one")
        .arg("vni", "network identifier")
        .arg("table", "the routing table of both ends")
        .arg("src-port", "UDP port of this end, to which the other one sends")
        .arg("dst-port", "UDP port of the other end, to which this one sends")
        .arg("zero-checksum", "no UDP checksum over IPv6 (RFC 6935); over IPv4 there is none")
        .arg("no-zero-checksum", "a UDP checksum over IPv6")
        .arg("ttl", "TTL or hop limit outside")
        .arg("copy", "that of the packet inside")
        .arg("dscp", "DSCP outside")
        .arg("copy-dscp", "that of the packet inside")
        .details(
            "The interface stays as it is, with its addresses, its MAC address, its bridge domain and the stations that were learnt \
             behind it. What is not named stays. A tunnel to a group becomes none to an end, nor the other way round.",
        )
        .example("set vxlan tunnel vxlan_tunnel0 ttl 32")
        .example("set vxlan tunnel vxlan_tunnel0 dst 10.1.4.1 vni 101"),
        Command::read("show vxlan tunnel [<tunnel:interface>]", "VXLAN tunnels", show)
            .arg("tunnel", "only this one")
            .example("show vxlan tunnel"),
    ]
}

/// What the words name that both commands have.
fn named(args: &Args) -> Result<VxlanConfig, CommandError> {
    let group: Option<IpAddr> = args.opt("group")?;
    if let Some(group) = group.filter(|g| !g.is_multicast()) {
        return Err(args.error("group", format!("{group} is no multicast group: name another end with dst")));
    }
    let remote = group.map_or_else(|| args.get("dst"), Ok)?;
    if group.is_none() && remote.is_multicast() {
        return Err(args.error("dst", format!("{remote} is a multicast group: group {remote} INTERFACE")));
    }
    let own = VxlanConfig::new(args.get("src")?, remote, args.get("vni")?);
    let table = args.opt("table")?.unwrap_or(own.table);
    let local_port = args.opt("src-port")?.unwrap_or(own.local_port);
    let remote_port = args.opt("dst-port")?.unwrap_or(own.remote_port);
    Ok(VxlanConfig { table, local_port, remote_port, ..own })
}

fn create(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let instance: Option<u32> = args.opt("instance")?;
    let instance = instance
        .or_else(|| free(router, "vxlan_tunnel", 0..=MAX_INSTANCE))
        .ok_or("no number is free for a tunnel")?;
    let config = VxlanConfig {
        zero_checksum: args.has("zero-checksum"),
        ttl: if args.has("copy") { None } else { Some(args.opt("ttl")?.unwrap_or(64)) },
        dscp: if args.has("copy-dscp") { None } else { Some(args.opt("dscp")?.unwrap_or(0)) },
        ..named(args)?
    };
    let name = format!("vxlan_tunnel{instance}");
    let over = match args.opt::<String>("over")? {
        Some(_) => Some(interface(router, args, "over")?.name.clone()),
        None => None,
    };
    let over = over.map(|over| GroupInterface(Some(over)).into());
    let over = over.map(|feature| Op::SetFeature { name: name.clone(), feature });
    made(router, name, [VxlanOp::Create { instance, config }.into()].into_iter().chain(over).collect())
}

fn change(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let i = interface(router, args, "tunnel")?;
    let (name, index) = (i.name.clone(), i.index);
    let Some(t) = tunnel(router, index) else {
        return Err(args.error("tunnel", format!("{name} is no VXLAN tunnel")));
    };
    let from = t.config.clone();
    let remote = args.opt("dst")?.or(args.opt("group")?).unwrap_or(from.remote);
    let config = VxlanConfig {
        local: args.opt("src")?.unwrap_or(from.local),
        remote,
        vni: args.opt("vni")?.unwrap_or(from.vni),
        table: args.opt("table")?.unwrap_or(from.table),
        local_port: args.opt("src-port")?.unwrap_or(from.local_port),
        remote_port: args.opt("dst-port")?.unwrap_or(from.remote_port),
        zero_checksum: args.has("zero-checksum") || from.zero_checksum && !args.has("no-zero-checksum"),
        ttl: if args.has("copy") { None } else { args.opt("ttl")?.or(from.ttl) },
        dscp: if args.has("copy-dscp") { None } else { args.opt("dscp")?.or(from.dscp) },
    };
    let instance = name.strip_prefix("vxlan_tunnel").and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
    commit(router, vec![VxlanOp::Change { instance, from, config }.into()])
}

/// What of the second is not as in the first, in the words of the commands.
pub(super) fn options(from: &VxlanConfig, c: &VxlanConfig) -> Vec<String> {
    let mut out = vec![];
    let mut say = |differs: bool, words: String| out.extend(differs.then_some(words));
    let number = |n: Option<u8>, copy: &str| n.map_or(copy.to_string(), |n| n.to_string());
    let to = if c.remote.is_multicast() { "group" } else { "dst" };
    let no = if c.zero_checksum { "" } else { "no-" };
    say(from.local != c.local, format!("src {}", c.local));
    say(from.remote != c.remote, format!("{to} {}", c.remote));
    say(from.vni != c.vni, format!("vni {}", c.vni));
    say(from.table != c.table, format!("encap-vrf-id {}", c.table));
    say(from.local_port != c.local_port, format!("src_port {}", c.local_port));
    say(from.remote_port != c.remote_port, format!("dst_port {}", c.remote_port));
    say(from.zero_checksum != c.zero_checksum, format!("{no}zero-checksum"));
    say(from.ttl != c.ttl, format!("ttl {}", number(c.ttl, "copy")));
    say(from.dscp != c.dscp, format!("dscp {}", number(c.dscp, "copy-dscp")));
    out
}

fn delete(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let wanted = named(args)?;
    let (remote, port) = (wanted.remote, args.opt("dst-port")?);
    let same = |c: &VxlanConfig| {
        c.identity() == wanted.identity()
            && c.remote == remote
            && port.is_none_or(|port: u16| port == c.remote_port)
    };
    let found = tunnels(router).find(|(_, t)| same(&t.config)).map(|(i, _)| i);
    let Some(name) = found.map(|i| router.interface_name(i)) else {
        let VxlanConfig { local, remote, vni, table, local_port, .. } = wanted;
        return Err(CommandError::new(format!(
            "there is no tunnel from {local} port {local_port} to {remote} with VNI {vni} and ends in table {table}"
        )));
    };
    commit(router, vec![Op::Delete { name }])
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let router = &*router;
    let only = match args.opt::<String>("tunnel")? {
        Some(_) => Some(interface(router, args, "tunnel")?),
        None => None,
    };
    if let Some(i) = only.filter(|i| tunnel(router, i.index).is_none()) {
        return Err(args.error("tunnel", format!("{} is no VXLAN tunnel", i.name)));
    }
    let wanted = |(index, _): &(u32, &VxlanTunnel)| only.is_none_or(|i| i.index == *index);
    let mut table = Table::new().left("Tunnel").left("Source").left("Destination").left("Over").right("VNI");
    table = table
        .right("Table")
        .right("Port")
        .right("Remote-port")
        .left("Checksum")
        .right("TTL")
        .right("DSCP")
        .right("Group");
    for (index, t) in tunnels(router).filter(wanted) {
        let c = &t.config;
        let number = |n: Option<u8>| n.map_or("copy".into(), Cell::from);
        table.row([
            router.interface_name(index).into(),
            c.local.to_string().into(),
            c.remote.to_string().into(),
            t.over().map_or("-".into(), |i| router.interface_name(i).into()),
            c.vni.into(),
            c.table.into(),
            c.local_port.into(),
            c.remote_port.into(),
            if c.local.is_ipv6() && !c.zero_checksum { "udp" } else { "none" }.into(),
            number(c.ttl),
            number(c.dscp),
            t.group().0.into(),
        ]);
    }
    Ok(if table.is_empty() {
        Output::new("no VXLAN tunnels (create vxlan tunnel)\n", table.to_json())
    } else {
        Output::table(table)
    })
}
