//! Commands on redirects.

use super::sent;
use crate::cli::{commit, listing};
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface ip redirects <interface:interface> [ip4|ip6] (enable|disable)",
            "Tell hosts of an interface of better next hops on their own link",
            set,
        )
        .arg("ip4", "IPv4 only")
        .arg("ip6", "IPv6 only")
        .arg("enable", "send redirects")
        .arg("disable", "send none, which is the default")
        .details(
            "A packet that leaves by the interface on which it came is forwarded, and its sender told of the next hop where both \
             are on that link. A pair of addresses is told once a second at most; the class redirect limits them all (set punt \
             policer).",
        )
        .example("set interface ip redirects left enable")
        .example("set interface ip redirects left ip6 disable"),
        Command::read(
            "show interface ip redirects [<interface:interface>]...",
            "Where redirects are sent",
            show,
        )
        .example("show interface ip redirects"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let name: String = args.get("interface")?;
    let on = args.has("enable");
    let families = [(false, "ip6"), (true, "ip4")].into_iter().filter(|(_, other)| !args.has(other));
    let op = |(v6, _)| Op::SetFeature { name: name.clone(), feature: sent(v6).to(on).into() };
    commit(router, families.map(op).collect())
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new().left("Interface").left("IPv4").left("IPv6");
    let word = |on: bool| if on { "on" } else { "off" };
    listing::table(router, args, columns, move |_, i, table| {
        let (over4, over6) = (i.settings.get(sent(false)), i.settings.get(sent(true)));
        if over4 || over6 {
            table.row([i.name.clone().into(), word(over4).into(), word(over6).into()]);
        }
    })
}
