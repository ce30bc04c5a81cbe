//! Commands on what an interface does with addresses that name no host elsewhere.

use crate::cli::commit;
use crate::router::{Feature, Op, Router};
use command::{Args, Command, CommandError, Output};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface arp sender-check <interface:interface> (enable|disable)",
            "Answer ARP requests only of hosts that are on the link",
            |r, a| set(r, a, Feature::ArpSenderCheck(a.has("enable"))),
        )
        .arg("enable", "the sender must be in a prefix of the interface, or a route must lead to it there")
        .arg("disable", "whoever asks for an address of the interface gets an answer, as from Linux")
        .details(
            "Hosts may ask with an address that they have on another link; Linux does by default. They are answered, but \
             not learnt: only those are whom the router asked for itself, or who are on the link by a prefix or a route.",
        )
        .example("set interface arp sender-check left enable"),
        Command::write(
            "set interface ip directed-broadcast <interface:interface> (enable|disable)",
            "Send packets to the broadcast addresses of an interface's prefixes to all its hosts",
            |r, a| set(r, a, Feature::DirectedBroadcast(a.has("enable"))),
        )
        .arg("enable", "send them in Ethernet broadcasts")
        .arg("disable", "drop them (RFC 2644)")
        .details("Of packets that came from elsewhere. The router itself takes none of them.")
        .example("set interface ip directed-broadcast left enable"),
        Command::write(
            "set interface ip link-local <interface:interface> (forward|drop)",
            "Choose what becomes of packets from and for 169.254.0.0/16 that come on an interface",
            |r, a| set(r, a, Feature::LinkLocal4Stays(a.has("drop"))),
        )
        .arg("forward", "forward them by the routes, as Linux does")
        .arg("drop", "drop them, unless they are for the router itself (RFC 3927)")
        .example("set interface ip link-local left drop"),
    ]
}

fn set(router: &mut Router, args: &Args, feature: Feature) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}
