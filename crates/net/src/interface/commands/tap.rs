//! `show tap`.

use crate::commands::find;
use crate::commands::listing;
use crate::router::{IfState, Offload, Op, Router};
use command::{Args, Command, CommandError, Output};
use serde_json::{Value as Json, json};
use std::fmt::Write;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read(
            "show tap [<interface:interface>]...",
            "TAPs and their Linux sides, as they were made",
            show,
        )
        .example("show tap")
        .example("show tap tap0"),
    ]
}

fn show(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    for name in args.all::<String>("interface")? {
        let i = find(router, args, &name)?;
        if !matches!(i.origin, Op::CreateTap { .. }) {
            return Err(args.error("interface", format!("{name} is not a TAP")));
        }
    }
    listing::list(router, args, "", |_, i, text| one(i, text))
}

/// What is said of an interface that is a TAP.
fn one(i: &IfState, text: &mut String) -> Option<Json> {
    let Op::CreateTap { config: c, .. } = &i.origin else { return None };
    let offload = match c.offload {
        Offload::Auto => "auto",
        Offload::On => "on",
        Offload::Off => "off",
    };
    let within = c.netns.as_ref().map_or(String::new(), |n| format!(" in namespace {n}"));
    let _ = writeln!(text, "{} (index {}): Linux device {}{within}", i.name, i.index, c.host_name);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name}: {value}");
        }
    };
    line("MAC address", c.host_mac.map(|m| m.to_string()));
    line("MTU", Some(i.mtu.to_string()));
    c.addresses.nets().for_each(|n| line("address", Some(n.to_string())));
    c.addresses.gateways().for_each(|g| line("default gateway", Some(g.to_string())));
    line("bridge", c.bridge.clone());
    line("receive queues", Some(c.rx_queues.to_string()));
    line("receive ring", c.rx_ring.map(|n| n.to_string()));
    line("offload", Some(offload.to_owned()));
    line("persistent", c.persist.then(|| "yes".to_owned()));
    let a = &c.addresses;
    Some(json!({
        "name": i.name,
        "index": i.index,
        "host-if-name": c.host_name,
        "host-ns": c.netns,
        "host-mac-addr": c.host_mac.map(|m| m.to_string()),
        "host-mtu-size": i.mtu,
        "host-ip4-addr": a.ip4.map(|n| n.to_string()),
        "host-ip4-gw": a.gw4.map(|g| g.to_string()),
        "host-ip6-addr": a.ip6.map(|n| n.to_string()),
        "host-ip6-gw": a.gw6.map(|g| g.to_string()),
        "host-bridge": c.bridge,
        "num-rx-queues": c.rx_queues,
        "rx-ring-size": c.rx_ring,
        "offload": offload,
        "persist": c.persist,
    }))
}
