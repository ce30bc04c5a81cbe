//! Commands on layer 2: cross-connects, and the way back to layer 3.

use crate::cli::{commit, listing};
use crate::l2::bridge::BridgeOp;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::json;
use std::fmt::Write;

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "set interface l2 xconnect <interface:interface> <peer:interface>",
            "Send all frames of an interface to another one",
            |r, a| commit(r, vec![Op::SetXconnect { name: a.get("interface")?, peer: Some(a.get("peer")?) }]),
        )
        .arg("peer", "where the frames go; for both directions cross-connect it to the first one, too")
        .details(
            "Tags stay as they are, unless 'set interface l2 tag-rewrite' says otherwise of either. Both need the same MTU \
             and may have no addresses.",
        )
        .example("set interface l2 xconnect left right"),
        Command::write(
            "set interface l3 <interface:interface>",
            "Take an interface out of its bridge domain or cross-connect",
            |r, a| {
                let i = crate::cli::interface(r, a, "interface")?;
                let name = i.name.clone();
                let op = match i.membership {
                    Some(_) => Op::from(BridgeOp::Port { name, member: None }),
                    None => Op::SetXconnect { name, peer: None },
                };
                commit(r, vec![op])
            },
        )
        .example("set interface l3 left"),
        Command::read("show mode [<interface:interface>]...", "Whether interfaces route, bridge or cross-connect", show_mode)
            .example("show mode")
            .example("show mode left"),
    ]
}

fn show_mode(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    listing::list(router, args, "", |router, i, text| {
        let peer = i.xconnect.map(|p| router.interface_name(p));
        if let Some(m) = i.membership {
            let bvi = if m.bvi { " bvi" } else { "" };
            let _ = writeln!(text, "l2 bridge {} bd_id {}{bvi} shg {}", i.name, m.bridge, m.shg);
            return Some(json!({
                "name": i.name, "mode": "l2-bridge", "bridge-domain": m.bridge, "bvi": m.bvi, "shg": m.shg,
            }));
        }
        let _ = match &peer {
            Some(peer) => writeln!(text, "l2 xconnect {} {peer}", i.name),
            None => writeln!(text, "l3 {}", i.name),
        };
        let mode = if peer.is_some() { "l2-xconnect" } else { "l3" };
        Some(json!({ "name": i.name, "mode": mode, "peer": peer }))
    })
}
