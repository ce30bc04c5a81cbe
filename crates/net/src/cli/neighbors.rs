//! Commands on neighbours.

use crate::cli::commit;
use crate::neighbor::{NeighborInfo, State};
use crate::router::{Op, Router};
use command::{Args, Cell, Command, CommandError, Output, Page, Table, Widths};
use packet::eth::MacAddr;

/// Neighbours of a piece of the list, at most.
const ROWS: usize = 256;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let set = "Set a static neighbor";
    let del = "Forget a neighbor";
    vec![
        Command::read("show ip neighbors [<interface:interface>]", "Neighbors of both families", |r, a| show(r, a, None))
            .details(
                "Age is the time in seconds since the neighbor was last heard of. Flags: S static, D dynamic, R router. \
                 Packets are sent to all but incomplete and failed ones.",
            )
            .example("show ip neighbors")
            .example("show ip neighbors left"),
        Command::read("show ip6 neighbors [<interface:interface>]", "IPv6 neighbors", |r, a| show(r, a, Some(true)))
            .example("show ip6 neighbors"),
        Command::read("show ip4 neighbors [<interface:interface>]", "IPv4 neighbors", |r, a| show(r, a, Some(false)))
            .alias("show ip arp [<interface:interface>]")
            .alias("show arp [<interface:interface>]")
            .example("show ip4 neighbors")
            .example("show ip arp left"),
        Command::read("show neighbor-counters", "What happened to neighbors since the start", counters)
            .example("show neighbor-counters"),
        Command::write("ip neighbor [add] <interface:interface> <address:ip> <mac:mac> [static]", set, add)
            .arg("static", "never expires; every neighbor set by a command is static")
            .example("ip neighbor left 10.0.1.2 02:fe:00:00:00:02 static"),
        Command::write("ip neighbor del <interface:interface> <address:ip> [<mac:mac>]", del, remove)
            .arg("mac", "not looked at")
            .details("A dynamic neighbor comes back when it is needed.")
            .example("ip neighbor del left 10.0.1.2"),
        Command::write("set ip neighbor <interface:interface> <address:ip> <mac:mac> [static]", set, add)
            .alias("set ip arp <interface:interface> <address:ip4> <mac:mac> [static]")
            .alias("set ip6 neighbor <interface:interface> <address:ip6> <mac:mac> [static]")
            .arg("static", "never expires; every neighbor set by a command is static")
            .example("set ip neighbor left 10.0.1.2 02:fe:00:00:00:02"),
        Command::write("set ip neighbor del <interface:interface> <address:ip> [<mac:mac>]", del, remove)
            .alias("set ip arp del <interface:interface> <address:ip4> [<mac:mac>]")
            .alias("set ip6 neighbor del <interface:interface> <address:ip6> [<mac:mac>]")
            .arg("mac", "not looked at")
            .example("set ip neighbor del left 10.0.1.2"),
    ]
}

fn add(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    if crate::cli::interface(router, args, "interface")?.is_alone() {
        return Err(args.error("interface", "nobody is behind a loopback that is no BVI"));
    }
    let (name, address) = (args.get("interface")?, args.get("address")?);
    commit(router, vec![Op::SetNeighbor { name, address, mac: MacAddr(args.get("mac")?) }])
}

fn remove(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    commit(router, vec![Op::DelNeighbor { name: args.get("interface")?, address: args.get("address")? }])
}

fn flags(n: &NeighborInfo) -> String {
    let mut out = String::from(if n.state == State::Static { "S" } else { "D" });
    if n.router {
        out.push('R');
    }
    out
}

fn show(router: &mut Router, args: &Args, only6: Option<bool>) -> Result<Output, CommandError> {
    let only: Option<String> = args.opt("interface")?;
    let only = only.and_then(|n| router.interface_index(&n));
    let (mut begun, mut after, mut widths) = (false, None, Widths::default());
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        let now = router.now();
        let mut table = Table::new()
            .right("Age")
            .left("IP")
            .left("Flags")
            .left("Ethernet")
            .left("Interface")
            .left("State");
        let mut more = false;
        for n in router.neighbors_after(after) {
            if table.len() >= ROWS || page.is_full() {
                more = true;
                break;
            }
            after = Some((n.interface, n.addr));
            if only.is_some_and(|i| i != n.interface) || only6.is_some_and(|v6| v6 != n.addr.is_ipv6()) {
                continue;
            }
            table.row([
                Cell::float(now.since(n.fresh) as f64 / 1000.0, 3),
                n.addr.to_string().into(),
                flags(&n).into(),
                n.mac.map(|m| m.to_string()).into(),
                router.interface_name(n.interface).into(),
                n.state.name().into(),
            ]);
        }
        table.write_rows(page, &mut widths);
        if page.wants_json() && !more {
            page.close("]");
        }
        Ok(more)
    }))
}

fn counters(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let c = router.neighbor_counters();
    let mut table = Table::new().left("Counter").right("Count").left("Meaning");
    for (name, count, meaning) in [
        ("solicits", c.solicits, "requests to all stations"),
        ("probes", c.probes, "requests to a known neighbor"),
        ("failed", c.failed, "resolutions without an answer"),
        ("lost", c.lost, "neighbors that stopped to answer"),
        ("refused", c.refused, "neighbors turned away because there was no room"),
        ("evicted", c.evicted, "neighbors that made room for others"),
        ("moved", c.moved, "changes of a known MAC address"),
        ("static-claimed", c.static_claimed, "claims of a static neighbor's address"),
        ("ignored", c.ignored, "messages that changed nothing"),
    ] {
        table.row([name.into(), count.into(), meaning.into()]);
    }
    Ok(Output::table(table))
}
