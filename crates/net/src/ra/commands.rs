//! Commands on router advertisements.

use super::content::{INFINITE, Prefix, RaConfig, Route};
use super::part::{self, Advertise};
use crate::cli::{commit, listing};
use crate::router::{IfState, Op, Router};
use command::{Args, Command, CommandError, Output, Table};
use ipnet::{IpNet, Ipv6Net};
use packet::nd::Preference;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::net::Ipv6Addr;

const FLAGS: [&str; 5] = [
    "ra-suppress",
    "ra-managed-config-flag",
    "ra-other-config-flag",
    "ra-suppress-link-layer",
    "ra-send-unicast",
];

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::write(
            &format!("ip6 nd <interface:interface> [no] ({})", FLAGS.join("|")),
            "Send router advertisements on an interface, or set what stands in them",
            flag,
        )
        .arg("no", "the contrary")
        .arg("ra-suppress", "send none; with 'no' send them")
        .arg("ra-managed-config-flag", "hosts have their addresses from DHCPv6")
        .arg("ra-other-config-flag", "hosts have other settings from DHCPv6")
        .arg("ra-suppress-link-layer", "do not tell the MAC address")
        .arg("ra-send-unicast", "answer a solicitation to its sender alone")
        .details(
            "The prefixes of the interface are advertised, those of 64 bits for hosts to make addresses in. When an interface \
             ceases to advertise, its hosts are told.",
        )
        .example("ip6 nd left no ra-suppress")
        .example("ip6 nd left ra-managed-config-flag")
        .example("ip6 nd left ra-suppress"),
        Command::write(
            "ip6 nd <interface:interface> (ra-interval <max:u16 4..1800 seconds> [<min:u16 3..1350 seconds>]|\
             ra-lifetime <lifetime:u16 0..9000 seconds>|ra-initial <count:u8> <interval:u8 1..16 seconds>|\
             ra-hop-limit <hops:u8>|ra-reachable-time <reachable:u32 0..3600000 ms>|ra-retrans-timer <retrans:u32 ms>|\
             ra-mtu (<mtu:u32 bytes>|interface|none)|ra-preference (low|medium|high))",
            "Set a value of the router advertisements of an interface",
            value,
        )
        .arg("ra-interval", "time between them, drawn anew each time")
        .arg("min", "a third of the longest when absent")
        .arg("ra-lifetime", "how long hosts may use this router; 0: not as their default router")
        .arg("ra-initial", "how many come faster after a start, and the longest time between those")
        .arg("ra-hop-limit", "hop limit of hosts; 0: says nothing")
        .arg("ra-reachable-time", "how long hosts take a neighbor for reachable; 0: says nothing")
        .arg("ra-retrans-timer", "time between solicitations of hosts; 0: says nothing")
        .arg("ra-mtu", "MTU of the link")
        .arg("interface", "the interface's own MTU")
        .arg("none", "says nothing of the MTU")
        .arg("ra-preference", "against other routers (RFC 4191)")
        .example("ip6 nd left ra-interval 30 10")
        .example("ip6 nd left ra-lifetime 0")
        .example("ip6 nd left ra-preference high"),
        Command::write(
            "ip6 nd <interface:interface> [no] prefix <prefix:prefix6> \
             [default|infinite|<valid:u32 seconds> <preferred:u32 seconds>] [no-autoconfig] [no-onlink] [no-advertise]",
            "Set how a prefix is advertised",
            prefix,
        )
        .arg("default", "valid for 30 days, preferred for 7")
        .arg("infinite", "both without end")
        .arg("valid", "how long it is on the link, and addresses in it are valid")
        .arg("preferred", "how long addresses in it are preferred")
        .arg("no-autoconfig", "hosts make no addresses in it")
        .arg("no-onlink", "hosts send to its addresses over the router")
        .arg("no-advertise", "it is not advertised, although the interface has it")
        .example("ip6 nd left prefix 2001:db8:1::/64 7200 3600")
        .example("ip6 nd left no prefix 2001:db8:1::/64"),
        Command::write(
            "ip6 nd <interface:interface> [no] (dns-server <server:ip6>|dns-domain <domain:string>|\
             route <prefix:prefix6> [lifetime <lifetime:u32 seconds>] [low|medium|high])",
            "Advertise a DNS server, a search domain (RFC 8106) or a route (RFC 4191)",
            extra,
        )
        .arg("dns-server", "a DNS server for hosts")
        .arg("dns-domain", "a domain in which hosts look names up")
        .arg("route", "a route over this router")
        .arg("lifetime", "half an hour when absent")
        .example("ip6 nd left dns-server 2001:db8::53")
        .example("ip6 nd left dns-domain example.net")
        .example("ip6 nd left route 2001:db8:9::/48 lifetime 900 high"),
        Command::read(
            "show ip6 ra [<interface:interface>]...",
            "Which interfaces send router advertisements, and how many they have sent",
            show_ra,
        )
        .example("show ip6 ra"),
        Command::read(
            "show ip6 interface [<interface:interface>]...",
            "IPv6 of interfaces: addresses, groups, router advertisements",
            show_interface,
        )
        .example("show ip6 interface left"),
    ]
}

fn change(
    router: &mut Router,
    args: &Args,
    change: impl FnOnce(&mut RaConfig) -> Result<(), CommandError>,
) -> Result<Output, CommandError> {
    let name: String = args.get("interface")?;
    let i = crate::cli::interface(router, args, "interface")?;
    let Some(mut config) = part::config(router, i.index).cloned() else {
        let why = format!(
            "{name} sends no router advertisements: let it first, with 'ip6 nd {name} no ra-suppress'"
        );
        return Err(args.error("interface", why));
    };
    change(&mut config)?;
    commit(router, vec![Op::SetFeature { name, feature: Advertise(Some(Box::new(config))).into() }])
}

fn flag(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let on = !args.has("no");
    let name: String = args.get("interface")?;
    match args.one_of(&FLAGS) {
        Some("ra-suppress") => {
            let i = crate::cli::interface(router, args, "interface")?;
            let known = part::config(router, i.index).cloned().unwrap_or_default();
            let config = (!on).then(|| Box::new(known));
            commit(router, vec![Op::SetFeature { name, feature: Advertise(config).into() }])
        }
        word => change(router, args, |c| {
            match word {
                Some("ra-managed-config-flag") => c.managed = on,
                Some("ra-other-config-flag") => c.other = on,
                Some("ra-suppress-link-layer") => c.source_mac = !on,
                _ => c.unicast = on,
            }
            Ok(())
        }),
    }
}

fn preference(args: &Args) -> Option<Preference> {
    Some(match args.one_of(&["low", "medium", "high"])? {
        "low" => Preference::Low,
        "high" => Preference::High,
        _ => Preference::Medium,
    })
}

fn value(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    change(router, args, |c| {
        if let Some(max) = args.opt("max")? {
            c.max_interval = max;
            c.min_interval = args.opt("min")?.unwrap_or((max / 3).max(3));
        }
        c.lifetime = args.opt("lifetime")?.unwrap_or(c.lifetime);
        c.initial_count = args.opt("count")?.unwrap_or(c.initial_count);
        c.initial_interval = args.opt("interval")?.unwrap_or(c.initial_interval);
        c.hop_limit = args.opt("hops")?.unwrap_or(c.hop_limit);
        c.reachable = args.opt("reachable")?.unwrap_or(c.reachable);
        c.retrans = args.opt("retrans")?.unwrap_or(c.retrans);
        if args.has("ra-mtu") {
            c.mtu = if args.has("none") { Some(0) } else { args.opt("mtu")? };
        }
        c.preference = preference(args).unwrap_or(c.preference);
        Ok(())
    })
}

fn net6(args: &Args) -> Result<Ipv6Net, CommandError> {
    match args.get("prefix")? {
        IpNet::V6(p) => Ok(p),
        IpNet::V4(p) => Err(args.error("prefix", format!("{p} is no IPv6 prefix"))),
    }
}

fn prefix(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let net = net6(args)?;
    change(router, args, |c| {
        if args.has("no") {
            return match c.prefixes.remove(&net) {
                Some(_) => Ok(()),
                None => Err(args.error("prefix", format!("nothing was set for {net}"))),
            };
        }
        let autonomous = net.prefix_len() == 64 && !args.has("no-autoconfig");
        let mut p = Prefix {
            autonomous,
            on_link: !args.has("no-onlink"),
            suppressed: args.has("no-advertise"),
            ..Prefix::DEFAULT
        };
        if args.has("infinite") {
            (p.valid, p.preferred) = (INFINITE, INFINITE);
        }
        p.valid = args.opt("valid")?.unwrap_or(p.valid);
        p.preferred = args.opt("preferred")?.unwrap_or(p.preferred);
        c.prefixes.insert(net, p);
        Ok(())
    })
}

fn extra(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let on = !args.has("no");
    /// Adds to a list, or takes out of it.
    fn put<T: PartialEq + std::fmt::Display>(
        list: &mut Vec<T>,
        item: T,
        on: bool,
    ) -> Result<(), CommandError> {
        let known = list.contains(&item);
        if known == on {
            return Err(
                format!("{item} is {}", if on { "advertised already" } else { "not advertised" }).into()
            );
        }
        if on {
            list.push(item);
        } else {
            list.retain(|i| *i != item);
        }
        Ok(())
    }
    change(router, args, |c| {
        if let Some(server) = args.opt::<Ipv6Addr>("server")? {
            return put(&mut c.dns_servers, server, on);
        }
        if let Some(domain) = args.opt::<String>("domain")? {
            return put(&mut c.search_domains, domain, on);
        }
        let net = net6(args)?;
        let route = Route {
            preference: preference(args).unwrap_or_default(),
            lifetime: args.opt("lifetime")?.unwrap_or(1800),
        };
        if on {
            c.routes.insert(net, route);
        } else if c.routes.remove(&net).is_none() {
            return Err(args.error("prefix", format!("the route {net} is not advertised")));
        }
        Ok(())
    })
}

fn seconds(n: u32) -> String {
    if n == INFINITE { "infinite".into() } else { n.to_string() }
}

fn preference_word(p: Preference) -> &'static str {
    match p {
        Preference::Low => "low",
        Preference::Medium => "medium",
        Preference::High => "high",
    }
}

fn show_ra(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let columns = Table::new()
        .left("Interface")
        .left("Interval")
        .right("Lifetime")
        .left("Preference")
        .right("Sent")
        .right("Unicast")
        .right("Solicited")
        .right("Next in");
    listing::table(router, args, columns, |router, i, table| {
        let Some(c) = part::config(router, i.index) else { return };
        let counts = part::counts(router, i.index);
        let next = part::next(router, i.index).map(|at| at.since(router.now()) / 1000);
        table.row([
            i.name.clone().into(),
            format!("{}-{}", c.min_interval, c.max_interval).into(),
            c.lifetime.into(),
            preference_word(c.preference).into(),
            counts.multicast.into(),
            counts.unicast.into(),
            counts.solicits.into(),
            next.into(),
        ]);
    })
}

fn advert_words(router: &Router, i: &IfState, c: &RaConfig, text: &mut String) -> Json {
    let flags = match (c.managed, c.other) {
        (true, true) => "managed, other",
        (true, false) => "managed",
        (false, true) => "other",
        (false, false) => "none",
    };
    let mtu = Some(c.mtu.unwrap_or(i.mtu.into())).filter(|mtu| *mtu != 0);
    let told = mtu.map_or_else(|| "not told".to_string(), |mtu| mtu.to_string());
    let _ = writeln!(
        text,
        "  Router advertisements every {} to {} s, lifetime {} s, preference {}, flags {flags}\n    hop limit {}, reachable \
         time {} ms, retransmit time {} ms, MTU {told}",
        c.min_interval,
        c.max_interval,
        c.lifetime,
        preference_word(c.preference),
        c.hop_limit,
        c.reachable,
        c.retrans,
    );
    let prefixes = part::prefixes(router, i.index);
    for (net, p) in &prefixes {
        let _ = writeln!(
            text,
            "    prefix {net}: valid {} s, preferred {} s{}{}",
            seconds(p.valid),
            seconds(p.preferred),
            if p.on_link { ", on-link" } else { "" },
            if p.autonomous { ", autoconfig" } else { "" },
        );
    }
    for (net, r) in &c.routes {
        let _ = writeln!(
            text,
            "    route {net}: lifetime {} s, preference {}",
            seconds(r.lifetime),
            preference_word(r.preference)
        );
    }
    for s in &c.dns_servers {
        let _ = writeln!(text, "    DNS server {s}");
    }
    for d in &c.search_domains {
        let _ = writeln!(text, "    search domain {d}");
    }
    let prefix = |(net, p): (&Ipv6Net, &Prefix)| {
        json!({ "prefix": net.to_string(), "valid": p.valid, "preferred": p.preferred, "on-link": p.on_link,
                "autoconfig": p.autonomous })
    };
    let route = |(net, r): (&Ipv6Net, &Route)| json!({ "prefix": net.to_string(), "lifetime": r.lifetime, "preference": preference_word(r.preference) });
    json!({
        "min-interval": c.min_interval, "max-interval": c.max_interval, "lifetime": c.lifetime,
        "preference": preference_word(c.preference), "managed": c.managed, "other": c.other,
        "hop-limit": c.hop_limit, "reachable-time": c.reachable, "retrans-timer": c.retrans, "mtu": mtu,
        "unicast": c.unicast, "link-layer": c.source_mac,
        "prefixes": prefixes.iter().map(prefix).collect::<Vec<_>>(),
        "routes": c.routes.iter().map(route).collect::<Vec<_>>(),
        "dns-servers": c.dns_servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "search-domains": c.search_domains,
    })
}

fn show_interface(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    listing::list(router, args, "", |router, i, text| {
        let link_local = i.link_local?;
        let _ = writeln!(text, "{} is admin {}", i.name, if i.up { "up" } else { "down" });
        let state =
            |a: Ipv6Addr| router.address_state(i.index, a.into()).map_or_else(String::new, |s| s.to_string());
        let _ = writeln!(text, "  Link-local address {link_local}, {}", state(link_local));
        let lender = i.unnumbered.map(|l| router.interface_name(l));
        if let Some(lender) = &lender {
            let _ = writeln!(text, "  Unnumbered, uses the addresses of {lender}");
        }
        let mut addresses = vec![];
        for a in &i.addresses {
            if let IpNet::V6(a) = a {
                let _ = writeln!(text, "  Address {a}, {}", state(a.addr()));
                addresses.push(json!({ "address": a.to_string(), "state": state(a.addr()) }));
            }
        }
        let groups: Vec<String> = crate::multicast::joined(router, i.index)
            .iter()
            .filter(|g| g.is_ipv6())
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(text, "  Joined groups {}", groups.join(" "));
        let advert = match part::config(router, i.index) {
            Some(c) => advert_words(router, i, c, text),
            None => {
                let _ = writeln!(text, "  No router advertisements");
                Json::Null
            }
        };
        Some(json!({
            "name": i.name, "up": i.up, "link-local": link_local.to_string(), "unnumbered": lender,
            "addresses": addresses, "groups": groups, "advertisements": advert,
        }))
    })
}
