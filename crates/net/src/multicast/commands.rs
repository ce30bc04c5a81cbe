//! Commands on multicast groups.

use super::{Join, part};
use crate::cli::{commit, listing};
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface ip group (join|leave) <interface:interface> <group:ip>",
            "Have an interface join a multicast group, or leave it",
            set,
        )
        .arg("join", "take packets to the group, and tell queriers of it")
        .arg("leave", "drop packets to the group")
        .details(
            "All hosts, all routers and the solicited-node groups of its addresses are joined by an interface itself. What \
             comes for other groups is dropped.",
        )
        .example("set interface ip group join left 224.0.0.5")
        .example("set interface ip group leave left ff02::5"),
        Command::read(
            "show ip groups [<interface:interface>]...",
            "Multicast groups that interfaces have joined, of both families",
            show,
        )
        .details(
            "Reason is 'set' for groups that the operator asked for, and 'own' for those that come with addresses and proxies. \
             Querier is the version of IGMP or MLD in which the link is told of them.",
        )
        .example("show ip groups")
        .example("show ip groups left"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let feature = Join { group: args.get("group")?, joined: args.has("join") }.into();
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Interface").left("Group").left("Reason").left("Querier");
    listing::table(router, args, columns, |router, i, table| {
        let set: BTreeSet<IpAddr> = part::wanted(router, i.index).collect();
        for g in part::joined(router, i.index) {
            let reason = if set.contains(&g) { "set" } else { "own" };
            let (name, newest) = if g.is_ipv6() { ("MLD", 2) } else { ("IGMP", 3) };
            let version = part::querier_version(router, i.index, g.is_ipv6()).unwrap_or(newest);
            table.row([
                i.name.clone().into(),
                g.to_string().into(),
                reason.into(),
                format!("{name}v{version}").into(),
            ]);
        }
    })
}
