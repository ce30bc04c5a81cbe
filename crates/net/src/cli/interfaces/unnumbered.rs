//! `set interface unnumbered`.

use crate::cli::commit;
use crate::router::{Feature, Op, Router};
use command::{Args, Command, CommandError, Output};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface unnumbered (<interface:interface> use <lender:interface>|del <interface:interface>)",
            "Let an interface use the addresses of another, or no more",
            set,
        )
        .arg("use", "the interface whose addresses it has as its own")
        .arg("lender", "often a loopback")
        .arg("del", "it has no addresses any more")
        .details(
            "The interface takes part in IP: it answers for these addresses, and asks for neighbors from them. Hosts behind it \
             are reached by routes over it, such as 'ip route add 10.0.0.5/32 via left', and only those are heard.",
        )
        .example("set interface unnumbered left use loop0")
        .example("set interface unnumbered del left"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let feature = Feature::Unnumbered(args.opt("lender")?);
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}
