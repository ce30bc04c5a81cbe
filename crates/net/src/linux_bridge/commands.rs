//! `show lcp bridges`.

use super::part::{ShownEnd, refused, shown};
use crate::router::Router;
use command::{Args, Command, CommandError, Output};
use serde_json::json;
use std::fmt::Write;

/// The commands.
pub(crate) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show lcp bridges", "Bridges and VXLAN devices of Linux's, and what they are here", show)
            .details(
                "Each bridge beside pairs is a bridge domain: its ports are the interfaces whose pairs are in it, and its VXLAN devices have a \
                 tunnel to each other end that Linux knows (`bridge fdb`). \"flood\": frames to all stations go there. What could not be made \
                 stands below.",
            )
            .example("show lcp bridges"),
    ]
}

fn show(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let (mut text, mut bridges) = (String::new(), vec![]);
    let name = |i: u32| router.interface_name(i);
    for s in shown(router) {
        let b = &s.bridge;
        let of = s.netns.as_ref().map_or_else(String::new, |n| format!(" of namespace {n}"));
        let id = s.id.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let bvi = s.bvi.map_or_else(|| "none".to_owned(), name);
        let ports: Vec<String> = b.ports.keys().map(|i| name(*i)).collect();
        let _ = writeln!(
            text,
            "{}{of}: bridge domain {id}, BVI {bvi}{}, ports {}",
            b.name,
            b.table.map_or_else(String::new, |id| format!(" in table {id}")),
            if ports.is_empty() { "none".to_owned() } else { ports.join(", ") }
        );
        let mut devices = vec![];
        for (d, ends) in b.devices.iter().zip(&s.ends) {
            let _ = writeln!(text, "  {}: VNI {} from {} port {}", d.name, d.vni, d.local, d.port);
            let mut all = vec![];
            for ShownEnd { end, tunnel, flood, macs } in ends {
                let tunnel = tunnel.map(name);
                let _ = writeln!(
                    text,
                    "    {end}: {}{}, {macs} addresses",
                    tunnel.as_deref().unwrap_or("no tunnel"),
                    if *flood { ", flood" } else { "" }
                );
                all.push(
                    json!({ "end": end.to_string(), "tunnel": tunnel, "flood": flood, "addresses": macs }),
                );
            }
            devices.push(json!({
                "name": d.name, "vni": d.vni, "local": d.local.to_string(), "port": d.port, "ends": all,
            }));
        }
        bridges.push(json!({
            "name": b.name, "netns": s.netns, "bridge-domain": s.id, "bvi": s.bvi.map(name), "table": b.table, "ports": ports, "vxlan": devices,
        }));
    }
    let mut failed = vec![];
    for (netns, what, why) in refused(router) {
        let of = netns.as_ref().map_or_else(String::new, |n| format!(" of namespace {n}"));
        let _ = writeln!(text, "not made: {what}{of}: {why}");
        failed.push(json!({ "what": what, "netns": netns, "reason": why }));
    }
    if text.is_empty() {
        text = "no bridge of Linux's has pairs or VXLAN devices as ports\n".to_owned();
    }
    Ok(Output::new(text, json!({ "bridges": bridges, "refused": failed })))
}
