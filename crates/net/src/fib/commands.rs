//! `ip route`, `show ip fib`, `show ip6 fib`, `show adjacency`.

use super::{explain, show, table_commands};
use crate::commands::commit;
use crate::mpls;
use crate::router::{Op, RoutePath, RouteTable, Router, Source, Target};
use command::{Args, Command, CommandError, Output};
use ipnet::IpNet;

const PATHS: &str = "path:(via (drop|unreachable|prohibit|ip4-lookup-in-table <lookup4:u32>|ip6-lookup-in-table <lookup6:u32>|\
     <address:ip> [next-hop-table <next-table:u32>|<interface:interface>]|<interface:interface>) \
     [weight <weight:u8 1..255>] [out-labels <out-label:u32 0..1048575>...] [uniform|pipe] [ttl <ttl:u8 1..255>] \
     [exp (copy|<exp:u8 0..7>)])...";

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = vec![
        route(Command::write(
            &format!("ip route add <prefix:prefix> [table <table:u32>] {PATHS}"),
            "Add a static route, or paths to one",
            |r, a| change(r, a, false),
        ))
        .details(
            "A route of several paths spreads flows over them by their weights. A path over an interface that is down \
             is left out until it is up, and a path to a neighbor that does not answer for as long as another one \
             works; all routes with the same paths change at once. Adding a path that is there already changes its weight. \
             The next hop of a path without interface is looked up in the route's table, or in another one: packets go where \
             the route leads that holds it, now and after any change of it. The next hop of an IPv4 route may be an IPv6 \
             address (RFC 8950). With out-labels packets go to a label switching router, behind those of routes on the way; \
             then the next hop of an IPv6 route may be an IPv4 address (6PE, RFC 4798).",
        )
        .example("ip route add 10.9.0.0/16 table 10 via 10.1.2.1 right")
        .example("ip route add 10.7.0.0/16 via 10.1.2.1 right out-labels 100")
        .example("ip route add 10.8.0.0/16 table 10 via ip4-lookup-in-table 0")
        .example("ip route add 10.0.0.0/8 via 10.1.1.1 weight 2 via 10.1.2.1 left")
        .example("ip route add 2001:db8::/32 via fe80::1 left")
        .example("ip route add 192.0.2.0/24 via drop"),
        route(Command::write(
            &format!("ip route set <prefix:prefix> [table <table:u32>] {PATHS}"),
            "Set a static route, in place of what it was",
            |r, a| change(r, a, true),
        ))
        .example("ip route set 10.0.0.0/8 via 10.1.2.1"),
        route(Command::write(
            &format!("ip route del <prefix:prefix> [table <table:u32>] [{PATHS}]"),
            "Remove a static route, or paths of it",
            remove,
        ))
        .details("The route goes with its last path. Weights are not looked at.")
        .example("ip route del 10.0.0.0/8 via 10.1.1.1")
        .example("ip route del 10.0.0.0/8"),
        Command::read("show adjacency [<id:u32>]", "How neighbors and links are reached", show::adjacencies)
            .arg("id", "number of one adjacency")
            .details("Each with what is put in front of packets, its users, and what was sent over it.")
            .example("show adjacency"),
    ];
    for (word, table, prefix, example) in
        [("ip", RouteTable::V4, "prefix4", "10.0.0.0/8"), ("ip6", RouteTable::V6, "prefix6", "2001:db8::1")]
    {
        let family = table.family();
        all.extend(table_commands::all(word, table.v6));
        all.push(
            Command::read(
                &format!("show {word} fib [table <table:u32>] [all|max <routes:u32 1..10000000 routes>|<prefix:{prefix}>]"),
                &format!("{family} routes, or why packets to an address go where they go"),
                move |r, a| fib(r, a, table),
            )
            .arg("table", "number of the table; 0 without it")
            .arg("all", "every route, not only the first 1000")
            .arg("routes", "list so many")
            .arg("prefix", "explain this prefix, or address")
            .details(
                "With a prefix or address: every route that covers it, the one that is used, the next-hop group behind \
                 it with its paths and adjacencies, their neighbors and interfaces, and whether the workers' table \
                 says the same as the control side's.",
            )
            .example(&format!("show {word} fib"))
            .example(&format!("show {word} fib {example}")),
        );
        all.push(
            Command::read(
                &format!("show {word} fib [table <table:u32>] summary"),
                &format!("{family} routes by prefix length"),
                move |r, a| Ok(show::summary(r, chosen(r, a, table)?)),
            )
            .arg("table", "number of the table; 0 without it")
            .example(&format!("show {word} fib summary")),
        );
    }
    all
}

/// The table that a command names.
fn chosen(router: &Router, args: &Args, table: RouteTable) -> Result<RouteTable, CommandError> {
    let table = RouteTable { id: args.opt("table")?.unwrap_or(0), ..table };
    if router.has_table(table) { Ok(table) } else { Err(args.error("table", format!("there is no {table}"))) }
}

fn route(c: Command<Router>) -> Command<Router> {
    mpls::commands::about_labels(c)
        .arg("address", "next hop")
        .arg("interface", "interface to it; without an address destinations are neighbors on the interface")
        .arg("table", "number of the route's table; 0 without it")
        .arg("next-table", "table in which the next hop is looked up, if not in the route's own")
        .arg("lookup4", "IPv4 table in which packets are looked up again")
        .arg("lookup6", "IPv6 table in which packets are looked up again")
        .arg("weight", "share of the flows")
        .arg("drop", "drop packets")
        .arg("unreachable", "drop packets and answer \"host unreachable\"")
        .arg("prohibit", "drop packets and answer \"administratively prohibited\"")
}

fn fib(router: &mut Router, args: &Args, table: RouteTable) -> Result<Output, CommandError> {
    let table = chosen(router, args, table)?;
    match args.opt::<IpNet>("prefix")? {
        Some(prefix) => Ok(explain::explain(router, table, prefix)),
        None => {
            let most = if args.has("all") { usize::MAX } else { args.opt("routes")?.unwrap_or(show::MOST) };
            Ok(show::list(router, table, most))
        }
    }
}

/// The targets of a line: paths, or one word that says what becomes of the packets.
fn target(router: &Router, args: &Args, v6: bool) -> Result<Option<Target>, CommandError> {
    let (mut paths, mut special) = (vec![], None);
    let mut count = 0;
    for p in args.groups("path") {
        count += 1;
        special = match p.one_of(&["drop", "unreachable", "prohibit"]) {
            Some("drop") => Some(Target::Drop),
            Some("unreachable") => Some(Target::Unreachable),
            Some(_) => Some(Target::Prohibit),
            None => {
                let name: Option<String> = p.opt("interface")?;
                let interface = name.and_then(|n| router.interface_index(&n));
                let (lookup4, lookup6): (Option<u32>, Option<u32>) = (p.opt("lookup4")?, p.opt("lookup6")?);
                if lookup4.is_some() && v6 || lookup6.is_some() && !v6 {
                    return Err("packets are looked up again in a table of their own family".into());
                }
                paths.push(RoutePath {
                    address: p.opt("address")?,
                    interface,
                    table: lookup4.or(lookup6).or(p.opt("next-table")?),
                    weight: p.opt("weight")?.unwrap_or(1),
                    labels: mpls::commands::labels(p)?,
                    ..RoutePath::default()
                });
                special
            }
        };
    }
    match special {
        Some(_) if count > 1 => Err("drop, unreachable and prohibit stand alone".into()),
        Some(t) => Ok(Some(t)),
        None => Ok((!paths.is_empty()).then_some(Target::Paths(paths))),
    }
}

fn change(router: &mut Router, args: &Args, replace: bool) -> Result<Output, CommandError> {
    let prefix: IpNet = args.get("prefix")?;
    let table: u32 = args.opt("table")?.unwrap_or(0);
    let target = target(router, args, prefix.addr().is_ipv6())?.ok_or("a route needs a path")?;
    let known = router.route_in(table, prefix, Source::Static);
    let ops = match target {
        Target::Paths(paths) if !replace => {
            paths.into_iter().map(|path| Op::AddPath { table, prefix, path }).collect()
        }
        Target::Paths(_) => vec![Op::SetRoute { table, prefix, target }],
        _ if !replace && known.as_ref().is_some_and(|k| *k != target) => {
            let why = format!("route {prefix} is there already: remove it first, or use 'ip route set'");
            return Err(args.error("prefix", why));
        }
        target => vec![Op::SetRoute { table, prefix, target }],
    };
    commit(router, ops)
}

fn remove(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let prefix: IpNet = args.get("prefix")?;
    let table: u32 = args.opt("table")?.unwrap_or(0);
    let ops = match target(router, args, prefix.addr().is_ipv6())? {
        None => vec![Op::DelRoute { table, prefix }],
        Some(Target::Paths(paths)) => {
            paths.into_iter().map(|path| Op::DelPath { table, prefix, path }).collect()
        }
        Some(t) if router.route_in(table, prefix, Source::Static) == Some(t.clone()) => {
            vec![Op::DelRoute { table, prefix }]
        }
        Some(_) => return Err(args.error("prefix", format!("the static route {prefix} does something else"))),
    };
    commit(router, ops)
}
