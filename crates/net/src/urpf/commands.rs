//! Commands on unicast reverse path forwarding.

use super::{Mode, SourceCheck};
use crate::cli::{commit, listing};
use crate::plane::table::FibIndex;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set urpf (ip4|ip6) (off|(rx|tx) (off|strict|loose)) <interface:interface> [table <table:number table>]",
            "Check the source addresses of packets that come on an interface or leave over it",
            set,
        )
        .arg("ip4", "sources of IPv4 packets")
        .arg("ip6", "sources of IPv6 packets")
        .arg("off", "no check; without a direction in both")
        .arg("rx", "packets received")
        .arg("tx", "packets sent, but for those of the router itself")
        .arg("strict", "a path back to the source must lead over this interface; of packets sent, none may")
        .arg("loose", "a path back to the source must lead anywhere")
        .arg("table", "number of the routing table in which sources are looked up; that of the interface without it")
        .details(
            "Of several paths any one counts, and the default route is a route. Sources that are the router's own, and \
             those whose route drops packets, fail both checks; IPv6 link-local sources pass both.",
        )
        .example("set urpf ip4 rx strict left")
        .example("set urpf ip6 rx loose left")
        .example("set urpf ip4 tx strict left")
        .example("set urpf ip4 rx loose left table 10")
        .example("set urpf ip4 off left"),
        Command::read(
            "show urpf [<interface:interface>]...",
            "Where source addresses are checked, and the packets that were dropped for them",
            show,
        )
        .example("show urpf")
        .example("show urpf left"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mode = match args.one_of(&["strict", "loose"]) {
        Some("strict") => Mode::Strict,
        Some(_) => Mode::Loose,
        None => Mode::Off,
    };
    let table = args.opt("table")?;
    if table.is_some() && mode == Mode::Off {
        return Err(args.error("table", "without a check nothing is looked up: strict or loose"));
    }
    let name: String = args.get("interface")?;
    let one = |tx| Op::SetFeature {
        name: name.clone(),
        feature: SourceCheck { v6: args.has("ip6"), tx, mode, table }.into(),
    };
    let ops = match args.one_of(&["rx", "tx"]) {
        Some(direction) => vec![one(direction == "tx")],
        None => vec![one(false), one(true)],
    };
    commit(router, ops)
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Interface").left("Family").left("Direction").left("Mode");
    let columns = columns.right("Table").right("Drops");
    let all = [(false, false), (true, false), (false, true), (true, true)];
    listing::table(router, args, columns, move |router, i, table| {
        for (v6, tx) in all {
            let rule = super::rule(i, v6, tx);
            if rule.mode == Mode::Off {
                continue;
            }
            let (family, direction) = (if v6 { "ip6" } else { "ip4" }, if tx { "tx" } else { "rx" });
            let node = if tx { "urpf-out" } else { "urpf" };
            let reasons = ["strict", "loose"].map(|mode| format!("{family}-{node}-{mode}"));
            let drops: u64 = reasons.iter().map(|r| router.dropped(i.index, r)).sum();
            let own = || router.table_of_interface(i, v6);
            let id = rule.named().map_or_else(own, |fib_index| router.table_at(v6, FibIndex(fib_index)));
            let cells = [i.name.clone().into(), family.into(), direction.into(), rule.mode.name().into()];
            table.row(cells.into_iter().chain([u64::from(id).into(), drops.into()]));
        }
    })
}
