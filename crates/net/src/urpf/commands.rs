//! Commands on unicast reverse path forwarding.

use super::Mode;
use crate::commands::{chosen, commit};
use crate::router::{Feature, Op, Router};
use command::{Args, Command, CommandError, Output, Table};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set urpf (ip4|ip6) (off|rx (strict|loose)) <interface:interface>",
            "Check the source addresses of packets that come on an interface",
            set,
        )
        .arg("ip4", "sources of IPv4 packets")
        .arg("ip6", "sources of IPv6 packets")
        .arg("off", "no check")
        .arg("rx", "packets received")
        .arg("strict", "a path back to the source must lead over this interface")
        .arg("loose", "a path back to the source must lead anywhere")
        .details(
            "Of several paths any one is good, and the default route is a route. Sources that are the router's own, and \
             those whose route drops packets, fail both checks; IPv6 link-local sources pass both.",
        )
        .example("set urpf ip4 rx strict left")
        .example("set urpf ip6 rx loose left")
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
    let feature = Feature::Urpf { v6: args.has("ip6"), mode };
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let mut table =
        Table::new().left("Interface").left("Family").left("Direction").left("Mode").right("Drops");
    for i in chosen(router, args)? {
        for (family, mode) in [("ip4", i.features.urpf4), ("ip6", i.features.urpf6)] {
            if mode == Mode::Off {
                continue;
            }
            let reasons = [format!("{family}-urpf-strict"), format!("{family}-urpf-loose")];
            let drops: u64 = reasons.iter().map(|r| router.dropped(i.index, r)).sum();
            table.row([i.name.clone().into(), family.into(), "rx".into(), mode.name().into(), drops.into()]);
        }
    }
    Ok(Output::table(table))
}
