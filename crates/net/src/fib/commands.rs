//! `ip route`, `show ip fib`, `show ip6 fib`, `show adjacency`.

use super::table_commands::AT_ONCE;
use super::{explain, preferences, show, table_commands, why};
use crate::cli::{commit, labels};
use crate::router::{Op, Rank, RouteBatch, RoutePath, RouteTable, Router, Source, Target, TargetId};
use command::{Args, Command, CommandError, Output, Page};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

const PATHS: &str = "path:((via (drop|unreachable|prohibit|ip4-lookup-in-table <lookup4:number table4>|\
     ip6-lookup-in-table <lookup6:number table6>|<address:ip> [next-hop-table <next-table:number table>|[dev] <interface:interface>]|\
     [dev] <interface:interface>)|dev <interface:interface>) \
     [weight <weight:u8 1..255>] [mtu <mtu:u16 68..65535 bytes>] [preference <preference:u8 1..254>] [metric <metric:u32>] [out-labels <out-label:u32 0..1048575>...] [uniform|pipe] [ttl <ttl:u8 1..255>] \
     [exp (copy|<exp:u8 0..7>)])...";
/// What may stand before the prefix, behind it, or behind the paths.
const WHERE: &str = "[table <table:number table>] [count <count:u32 1..1000000 routes>]";

/// The syntax of `ip route VERB`, or of `ip6 route VERB`.
fn route_syntax(word: &str, verb: &str) -> String {
    let prefix = if word == "ip" { "(<prefix:prefix>|default)" } else { "<prefix:prefix6>" };
    match verb {
        "del" => {
            let rank = "[preference <of-preference:u8 1..254>] [metric <of-metric:u32>]";
            format!("{word} route {verb} {WHERE} {prefix} {WHERE} {rank} [{PATHS}] {WHERE}")
        }
        _ => format!("{word} route {verb} {WHERE} {prefix} {WHERE} {PATHS} {WHERE}"),
    }
}

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = vec![
        route(Command::write(
            &route_syntax("ip", "add"),
            "Add a static route, or paths to one",
            |r, a| change(r, a, false),
        ))
        .details(
            "A route of several paths spreads flows over them by their weights. A path over an interface that is down \
             is left out until it is up, and a path to a neighbor that does not answer for as long as another one \
             works; all routes with the same paths change at once. Adding a path that is there already changes its weight and its MTU. \
             The next hop of a path without interface is looked up in the route's table, or in another one: packets go where \
             the route leads that holds it, now and after any change of it. The next hop of an IPv4 route may be an IPv6 \
             address (RFC 8950). With out-labels packets go to a label switching router, behind those of routes on the way; \
             then the next hop of an IPv6 route may be an IPv4 address (6PE, RFC 4798). Paths of different preference or metric \
             are routes of their own, of which the best is used: the one of the least preference, then of the least metric.",
        )
        .alias(&route_syntax("ip6", "add"))
        .example("ip route add default via 10.1.1.1")
        .example("ip route add table 10 10.9.0.0/16 via 10.1.2.1 dev right")
        .example("ip route add 10.128.0.0/24 count 1000 via 10.1.2.1")
        .example("ip route add 10.9.0.0/16 table 10 via 10.1.2.1 right")
        .example("ip route add 10.7.0.0/16 via 10.1.2.1 right out-labels 100")
        .example("ip route add 10.8.0.0/16 table 10 via ip4-lookup-in-table 0")
        .example("ip route add 10.0.0.0/8 via 10.1.1.1 weight 2 via 10.1.2.1 left")
        .example("ip route add 2001:db8::/32 via fe80::1 left")
        .example("ip route add 10.5.0.0/16 via 10.1.2.1 mtu 1400")
        .example("ip route add 10.6.0.0/16 via 10.1.1.1 via 10.1.2.1 preference 5")
        .example("ip route add 192.0.2.0/24 via drop"),
        route(Command::write(
            &route_syntax("ip", "set"),
            "Set a static route, in place of what it was",
            |r, a| change(r, a, true),
        ))
        .alias(&route_syntax("ip6", "set"))
        .example("ip route set 10.0.0.0/8 via 10.1.2.1"),
        route(Command::write(
            &route_syntax("ip", "del"),
            "Remove a static route, or paths of it",
            remove,
        ))
        .details(
            "The route goes with its last path. Weights are not looked at. Without paths all static routes of the prefix \
             go, or those of the preference and the metric that are said.",
        )
        .arg("of-preference", "routes of this preference; of paths that do not say theirs")
        .arg("of-metric", "routes of this metric; of paths that do not say theirs")
        .alias(&route_syntax("ip6", "del"))
        .example("ip route del 10.0.0.0/8 via 10.1.1.1")
        .example("ip route del 10.0.0.0/8"),
        Command::read("show adjacency [<id:u32>|nbr [<interface:interface>]]", "How neighbors and links are reached", show::adjacencies)
            .arg("id", "number of one adjacency")
            .arg("nbr", "only those of neighbors")
            .arg("interface", "and of these only those on the interface")
            .details("Each with what is put in front of packets, its users, and what was sent over it.")
            .example("show adjacency")
            .example("show adj nbr"),
        why::command(),
    ];
    all.extend(preferences::all());
    for (word, table, prefix, example) in
        [("ip", RouteTable::V4, "prefix4", "10.0.0.0/8"), ("ip6", RouteTable::V6, "prefix6", "2001:db8::1")]
    {
        let family = table.family();
        let number = if table.v6 { "table6" } else { "table4" };
        all.extend(table_commands::all(word, table.v6));
        all.push(
            Command::read(
                &format!("show {word} fib [table <table:number {number}>] [all|max <routes:u32 1..10000000 routes>|<prefix:{prefix}>]"),
                &format!("{family} routes, or why packets to an address go where they go"),
                move |r, a| fib(r, a, table),
            )
            .arg("table", "number of the table; 0 without it")
            .alias(&format!(
                "show {word} route [table <table:number {number}>] [all|max <routes:u32 1..10000000 routes>|<prefix:{prefix}>]"
            ))
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
                &format!("show {word} fib [table <table:number {number}>] summary"),
                &format!("{family} routes by prefix length"),
                move |r, a| Ok(show::summary(r, chosen(r, a, table)?)),
            )
            .arg("table", "number of the table; 0 without it")
            .alias(&format!("show {word} route [table <table:number {number}>] summary"))
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
    labels::about_labels(c)
        .arg("address", "next hop")
        .arg("default", "0.0.0.0/0, or ::/0 where a next hop or table is one of IPv6")
        .arg(
            "count",
            "so many routes with the same paths, their prefixes counting up from this one; many are changed some hundred at a time",
        )
        .arg("dev", "may stand before an interface, or in the place of `via`")
        .arg("interface", "interface to it; without an address destinations are neighbors on the interface")
        .arg("table", "number of the route's table; 0 without it")
        .arg("next-table", "table in which the next hop is looked up, if not in the route's own")
        .arg("lookup4", "IPv4 table in which packets are looked up again")
        .arg("lookup6", "IPv6 table in which packets are looked up again")
        .arg("weight", "share of the flows")
        .arg(
            "mtu",
            "largest IP packet on the path, with its labels; larger ones are fragmented, or their senders told. Of IPv6 1280 at least, and 4 more for each label; \
             without it as large as the interface takes",
        )
        .arg("preference", "how good the path's route is, 1 without it: of several routes of a prefix the least is used")
        .arg("metric", "tells routes of one preference apart, 0 without it: the least is used")
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

/// The routes of a line by preference and metric, each with its target: paths, or one word that says what becomes of the
/// packets. `rank` is that of paths that do not say.
fn targets(router: &Router, args: &Args, v6: bool, rank: Rank) -> Result<Vec<(Rank, Target)>, CommandError> {
    let mut routes: Vec<(Rank, Target)> = vec![];
    let mut discards = false;
    for p in args.groups("path") {
        let rank = Rank {
            preference: p.opt("preference")?.unwrap_or(rank.preference),
            metric: p.opt("metric")?.unwrap_or(rank.metric),
        };
        let at = routes.iter().position(|(r, _)| *r == rank);
        if let Some(discard) = p.one_of(&["drop", "unreachable", "prohibit"]).and_then(Target::discard) {
            discards = true;
            if at.is_some() {
                return Err(ALONE.into());
            }
            routes.push((rank, discard));
            continue;
        }
        let name: Option<String> = p.opt("interface")?;
        let interface = name.and_then(|n| router.interface_index(&n));
        let (lookup4, lookup6): (Option<u32>, Option<u32>) = (p.opt("lookup4")?, p.opt("lookup6")?);
        if lookup4.is_some() && v6 || lookup6.is_some() && !v6 {
            return Err("packets are looked up again in a table of their own family".into());
        }
        let path = RoutePath {
            address: p.opt("address")?,
            interface,
            table: lookup4.or(lookup6).or(p.opt("next-table")?),
            weight: p.opt("weight")?.unwrap_or(1),
            mtu: p.opt("mtu")?.unwrap_or(0),
            labels: labels::labels(p)?,
            ..RoutePath::default()
        };
        match at.and_then(|at| routes.get_mut(at)) {
            Some((_, Target::Paths(paths))) => paths.push(path),
            Some(_) => return Err(ALONE.into()),
            None => routes.push((rank, Target::Paths(vec![path]))),
        }
    }
    // A word and paths of another preference are two routes, which one command does not make.
    if discards && routes.len() > 1 { Err(ALONE.into()) } else { Ok(routes) }
}

const ALONE: &str = "drop, unreachable and prohibit stand alone";

/// What the routes of a line are: their table, their first prefix, and how many they are.
struct Wanted {
    table: u32,
    prefix: IpNet,
    count: u32,
}

fn wanted(args: &Args) -> Result<Wanted, CommandError> {
    let once = |what: &str| -> Result<Option<u32>, CommandError> {
        match args.all::<u32>(what)?.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(args.error(what, format!("'{what}' is given twice"))),
        }
    };
    let prefix = match args.opt("prefix")? {
        Some(prefix) => prefix,
        None => {
            let v6 = |path: &Args| -> Result<bool, CommandError> {
                let address: Option<IpAddr> = path.opt("address")?;
                Ok(address.is_some_and(|a| a.is_ipv6()) || path.opt::<u32>("lookup6")?.is_some())
            };
            let paths: Vec<bool> = args.groups("path").map(v6).collect::<Result<_, _>>()?;
            if paths.contains(&true) { Ipv6Net::default().into() } else { Ipv4Net::default().into() }
        }
    };
    Ok(Wanted { table: once("table")?.unwrap_or(0), prefix, count: once("count")?.unwrap_or(1) })
}

/// The prefix that comes `n` prefixes of the same length behind one.
fn nth(prefix: IpNet, n: u32) -> Option<IpNet> {
    match prefix {
        IpNet::V4(first) => {
            let step = 1u64 << (32 - first.prefix_len());
            let address = u64::from(u32::from(first.addr())).checked_add(step.checked_mul(n.into())?)?;
            Some(Ipv4Net::new(u32::try_from(address).ok()?.into(), first.prefix_len()).ok()?.into())
        }
        IpNet::V6(first) => {
            // A shift by 128, of the route to everything, has no second prefix.
            let shift = 128 - u32::from(first.prefix_len());
            let step = if n == 0 { 0 } else { 1u128.checked_shl(shift)?.checked_mul(n.into())? };
            let address = u128::from(first.addr()).checked_add(step)?;
            Some(Ipv6Net::new(address.into(), first.prefix_len()).ok()?.into())
        }
    }
}

/// Changes of a prefix, as they are put into a batch.
type Put = dyn Fn(&Router, &mut RouteBatch, IpNet);

/// The same change of each of the routes, some at a time.
fn batch(router: &mut Router, args: &Args, wanted: &Wanted, put: Box<Put>) -> Result<Output, CommandError> {
    let Wanted { table, prefix, count } = *wanted;
    // The last one tells whether there are so many.
    nth(prefix, count.saturating_sub(1))
        .ok_or_else(|| args.error("count", format!("there are no {count} prefixes from {prefix} on")))?;
    let some = move |router: &mut Router, from: u32| {
        let mut batch = RouteBatch::in_table(table);
        let end = count.min(from + AT_ONCE as u32);
        (from..end).filter_map(|n| nth(prefix, n)).for_each(|prefix| put(router, &mut batch, prefix));
        commit(router, vec![Op::Routes(batch)]).map(|_| end)
    };
    let mut done = some(router, 0)?;
    if done == count {
        return Ok(Output::none());
    }
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        while done < count {
            if page.is_full() {
                return Ok(true);
            }
            let before = format!("the {done} routes before are changed");
            done = some(router, done).map_err(|e| CommandError::new(format!("{}; {before}", e.message)))?;
        }
        Ok(false)
    }))
}

/// What a batch does with a prefix and a target.
type Verb = fn(&mut RouteBatch, IpNet, TargetId);

/// The same of each route of a prefix.
fn each(routes: Vec<(Rank, Target)>, verb: Verb) -> Box<Put> {
    Box::new(move |_, batch, prefix| {
        for (rank, target) in &routes {
            let target = batch.ranked(*rank, target.clone());
            verb(batch, prefix, target);
        }
    })
}

fn change(router: &mut Router, args: &Args, replace: bool) -> Result<Output, CommandError> {
    let wanted = wanted(args)?;
    let Wanted { table, prefix, count } = wanted;
    let mut routes = targets(router, args, prefix.addr().is_ipv6(), Rank::STATIC)?;
    let plain = matches!(routes[..], [(Rank::STATIC, _)]);
    if count > 1 || !plain && !routes.is_empty() {
        let verb = if replace { RouteBatch::set } else { RouteBatch::add };
        if !replace {
            routes.iter_mut().for_each(|(_, target)| once(target));
        }
        return batch(router, args, &wanted, each(routes, verb));
    }
    let (_, target) = routes.pop().ok_or("a route needs a path")?;
    let known = router.route_of_rank(table, prefix, Source::Static, Rank::STATIC);
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

/// Paths as if they were added one after the other: the last of those that are the same counts.
fn once(target: &mut Target) {
    if let Target::Paths(paths) = target {
        let all = std::mem::take(paths);
        for path in all {
            paths.retain(|p| !p.is_same(&path));
            paths.push(path);
        }
    }
}

fn remove(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let wanted = wanted(args)?;
    let Wanted { table, prefix, count } = wanted;
    let (preference, metric): (Option<u8>, Option<u32>) =
        (args.opt("of-preference")?, args.opt("of-metric")?);
    let usual = Rank::STATIC;
    let rank =
        Rank { preference: preference.unwrap_or(usual.preference), metric: metric.unwrap_or(usual.metric) };
    let mut routes = targets(router, args, prefix.addr().is_ipv6(), rank)?;
    if routes.is_empty() {
        // All static routes of the prefix of which nothing else is said.
        let is = move |r: &Rank| {
            preference.is_none_or(|p| p == r.preference) && metric.is_none_or(|m| m == r.metric)
        };
        let put = move |router: &Router, batch: &mut RouteBatch, prefix: IpNet| {
            let mut ranks = router.static_ranks(table, prefix);
            ranks.retain(is);
            // Where there is none the router says so.
            let ranks = if ranks.is_empty() { vec![rank] } else { ranks };
            ranks.into_iter().for_each(|rank| batch.del_ranked(prefix, rank));
        };
        let known = router.static_ranks(table, prefix);
        if count > 1 || known.iter().any(|r| *r != usual) || preference.is_some() || metric.is_some() {
            return batch(router, args, &wanted, Box::new(put));
        }
        return commit(router, vec![Op::DelRoute { table, prefix }]);
    }
    if count > 1 || !matches!(routes[..], [(Rank::STATIC, _)]) {
        return batch(router, args, &wanted, each(routes, RouteBatch::del_paths));
    }
    let Some((_, target)) = routes.pop() else { return Ok(Output::none()) };
    let ops = match target {
        Target::Paths(paths) => paths.into_iter().map(|path| Op::DelPath { table, prefix, path }).collect(),
        t if router.route_of_rank(table, prefix, Source::Static, usual) == Some(t.clone()) => {
            vec![Op::DelRoute { table, prefix }]
        }
        _ => return Err(args.error("prefix", format!("the static route {prefix} does something else"))),
    };
    commit(router, ops)
}
