//! Commands on ARP.

use super::SENDER_CHECK;
use crate::cli::commit;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface arp sender-check <interface:interface> (enable|disable)",
            "Answer ARP requests only of hosts that are on the link",
            set,
        )
        .arg("enable", "the sender must be in a prefix of the interface, or a route must lead to it there")
        .arg("disable", "whoever asks for an address of the interface gets an answer, as from Linux")
        .details(
            "Hosts may ask with an address that they have on another link; Linux does by default. They are answered, but \
             not learnt: only those are whom the router asked for itself, or who are on the link by a prefix or a route.",
        )
        .example("set interface arp sender-check left enable"),
    ]
}

fn set(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let feature = SENDER_CHECK.to(args.has("enable")).into();
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}
