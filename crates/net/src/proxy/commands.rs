//! Commands on proxy ARP and neighbour discovery proxies.

use super::{NdProxy, ProxyArp};
use crate::cli::commit;
use crate::router::{Op, Router};
use command::{Args, Command, CommandError, Output, Table};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            "ip proxy-arp (add|del) <first:ip4> [- <last:ip4>]",
            "Answer ARP requests for a range of addresses",
            range,
        )
        .arg("first", "the range's first address")
        .arg("-", "to")
        .arg("last", "its last address; without it the range is one address")
        .details(
            "Answered on interfaces with proxy-arp enabled, for addresses whose route leads over another interface than the \
             one on which the request came.",
        )
        .example("ip proxy-arp add 10.0.1.128 - 10.0.1.254")
        .example("ip proxy-arp del 10.0.1.128 - 10.0.1.254"),
        Command::write(
            "set interface proxy-arp <interface:interface> (enable|disable)",
            "Let an interface answer ARP requests for the proxied ranges",
            enable,
        )
        .arg("enable", "answer")
        .arg("disable", "answer for its own addresses alone")
        .example("set interface proxy-arp left enable"),
        Command::read("show ip proxy-arp", "Ranges for which ARP requests are answered, and where", show)
            .example("show ip proxy-arp"),
        Command::write(
            "ip6 nd proxy (add|del) <interface:interface> <address:ip6>",
            "Answer solicitations for an IPv6 address of another link",
            host,
        )
        .arg("interface", "where the host with this address is")
        .details(
            "The address becomes a route over the interface, and is answered for on all others: a prefix can so be spread \
             over several links.",
        )
        .example("ip6 nd proxy add right 2001:db8:1::50")
        .example("ip6 nd proxy del right 2001:db8:1::50"),
        Command::read("show ip6 nd proxy", "IPv6 addresses that are answered for, and where they are", show_nd)
            .example("show ip6 nd proxy"),
    ]
}

fn range(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let first: Ipv4Addr = args.get("first")?;
    let last = args.opt("last")?.unwrap_or(first);
    commit(router, vec![ProxyArp { first, last, on: args.has("add") }.into()])
}

fn enable(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let feature = super::ARP.to(args.has("enable")).into();
    commit(router, vec![Op::SetFeature { name: args.get("interface")?, feature }])
}

fn host(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let (name, address): (String, Ipv6Addr) = (args.get("interface")?, args.get("address")?);
    commit(router, vec![NdProxy { name, address, on: args.has("add") }.into()])
}

fn show(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let ranges = super::arp_ranges(router);
    let interfaces: Vec<String> =
        router.interfaces().filter(|i| i.settings.get(&super::ARP)).map(|i| i.name.clone()).collect();
    let mut text = String::from("Proxy arps enabled for:\n");
    for (first, last) in &ranges {
        let _ = writeln!(text, "  {first} - {last}");
    }
    let _ = writeln!(
        text,
        "Interfaces: {}",
        if interfaces.is_empty() { "none".into() } else { interfaces.join(", ") }
    );
    let rows: Vec<Json> =
        ranges.iter().map(|(a, b)| json!({ "first": a.to_string(), "last": b.to_string() })).collect();
    Ok(Output::new(text, json!({ "ranges": rows, "interfaces": interfaces })))
}

fn show_nd(router: &mut Router, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().left("Address").left("Interface");
    for (address, index) in super::nd_proxies(router) {
        table.row([address.to_string().into(), router.interface_name(index).into()]);
    }
    Ok(Output::table(table))
}
