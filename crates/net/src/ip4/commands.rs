//! Commands on what an interface does with addresses that name no host elsewhere.

use crate::cli::commit;
use crate::interface::SettingValue;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface ip directed-broadcast <interface:interface> (enable|disable)",
            "Send packets to the broadcast addresses of an interface's prefixes to all its hosts",
            |r, a| set(r, a, crate::interface::DIRECTED_BROADCAST.to(a.has("enable"))),
        )
        .arg("enable", "send them in Ethernet broadcasts")
        .arg("disable", "drop them (RFC 2644)")
        .details("Of packets that came from elsewhere. The router itself takes none of them.")
        .example("set interface ip directed-broadcast left enable"),
        Command::write(
            "set interface ip broadcast-sources <interface:interface> (forward|drop)",
            "Choose what becomes of packets from broadcast addresses that come on an interface",
            |r, a| set(r, a, super::BROADCAST_SOURCES_FORWARD.to(a.has("forward"))),
        )
        .arg("forward", "forward them by the routes, as Linux and VPP do")
        .arg("drop", "drop them, which is the default: no host has such an address (RFC 1812)")
        .details(
            "Of packets from the network or broadcast address of a prefix of an interface, in the routing table of the interface on \
             which they come. The router itself takes none of them.",
        )
        .example("set interface ip broadcast-sources left forward"),
        Command::write(
            "set interface ip link-local <interface:interface> (forward|drop)",
            "Choose what becomes of packets from and for 169.254.0.0/16 that come on an interface",
            |r, a| set(r, a, super::LINK_LOCAL_STAYS.to(a.has("drop"))),
        )
        .arg("forward", "forward them by the routes, as Linux does")
        .arg("drop", "drop them, unless they are for the router itself (RFC 3927)")
        .example("set interface ip link-local left drop"),
    ]
}

fn set(router: &mut Router, args: &Args, choice: SettingValue) -> Result<Output, CommandError> {
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature: choice.into() }])
}
