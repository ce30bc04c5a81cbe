//! The section `routes`.
//!
//! A route is a mapping (`prefix` or `prefixes`, with `via` or `type`), or one line in the words of the command
//! language: `10.0.0.0/8 via 192.0.2.1 left weight 2, 192.0.2.5`. A line is one node of the tree where a mapping is
//! five, which is what large tables are made of.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;

use net::labels::{Exp, OutLabels};
use net::router::{HOP_OPTIONS, Lookup, MOST_PATHS, Rank, RouteTable};

use ipnet::{IpNet, Ipv4Net};

use super::decode::{Decoder, Fields};
use super::diag::Place;
use super::interface::numbered;
use super::model::{RoutePath, RouteTarget, Routes};
use super::rules::Names;
use super::scalar::short;
use super::tree::{Node, Value};

pub(super) const ROUTE: &[&str] = &["prefix", "prefixes", "table", "preference", "metric", "via", "type"];
pub(super) const PATH: &[&str] =
    &["address", "interface", "table", "weight", "mtu", "lookup", "out-labels", "mode", "ttl", "exp"];
/// Of labels and tunnels.
const LABEL_PATH: &[&str] =
    &["address", "interface", "table", "weight", "lookup", "out-labels", "mode", "ttl", "exp"];
const MODES: &[(&str, bool)] = &[("pipe", false), ("uniform", true)];
const LOOKUPS: &[(&str, Lookup)] =
    &[of(Lookup::Ip4), of(Lookup::Ip6), of(Lookup::Ip), of(Lookup::Mpls), of(Lookup::Frame)];
const fn of(lookup: Lookup) -> (&'static str, Lookup) {
    (lookup.word(false), lookup)
}
/// What the MTU of a route is at least, bytes.
const IP4_MTU: u16 = packet::ip4::MIN_MTU;

const TYPES: &[(&str, Discard)] =
    &[("drop", Discard::Drop), ("unreachable", Discard::Unreachable), ("prohibit", Discard::Prohibit)];
const FORM: &str = "`PREFIX [table N] [preference N] [metric N] via ADDRESS [INTERFACE] [weight N] [mtu N] [out-labels L ...], ...` or `PREFIX [table N] [preference N] [metric N] drop|unreachable|prohibit`";

#[derive(Debug, Clone, Copy)]
enum Discard {
    Drop,
    Unreachable,
    Prohibit,
}

impl Discard {
    fn target(self) -> RouteTarget {
        match self {
            Discard::Drop => RouteTarget::Drop,
            Discard::Unreachable => RouteTarget::Unreachable,
            Discard::Prohibit => RouteTarget::Prohibit,
        }
    }
}

/// A piece of a scalar with its place.
pub(super) type Word<'n> = (Place, &'n str);

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Routes> {
    let items = d.items(node, "routes");
    let count = |node: &Node<'_>| if let Value::Lines(l) = &node.value { l.len() } else { 1 };
    let n = items.iter().map(count).sum();
    let list = Vec::with_capacity(n);
    let routes = Routes { targets: vec![], tables: vec![], ranks: vec![], list };
    let mut table = Table { names, routes, items: Vec::with_capacity(n), known: HashMap::new() };
    let mut i = 0;
    for node in items {
        match &node.value {
            Value::Lines(lines) => {
                for (place, text) in lines.iter() {
                    table.plain_line(d, i, place, text);
                    i += 1;
                }
                continue;
            }
            Value::Scalar { text, plain } if !node.is_null() => {
                d.index(i, |d| table.line(d, i, node.place, text, *plain));
            }
            _ => d.index(i, |d| table.mapping(d, i, node)),
        }
        i += 1;
    }
    table.check_unique(d);
    Some(table.routes)
}

/// Reads paths of routes, or of labels.
pub(super) struct Paths<'t> {
    pub names: &'t Names<'t>,
    /// Of labels.
    pub mpls: bool,
    /// Of routes, whose paths have an MTU.
    pub routes: bool,
}

/// What stands behind a next hop.
#[derive(Clone, Copy)]
struct Options {
    weight: u8,
    mtu: u16,
    labels: OutLabels,
}

/// The table of a path and of which kind it is, and what stands behind.
type Behind = (Option<u32>, Lookup, Options);

struct Table<'t, 'n> {
    names: &'t Names<'t>,
    routes: Routes,
    /// For each route the number of its list item.
    items: Vec<u32>,
    /// Targets of the lines read so far by the words behind the prefix, IPv6 or not.
    known: HashMap<(bool, &'n str), u32>,
}

impl<'n> Table<'_, 'n> {
    /// A line out of many, which share their targets.
    fn plain_line(&mut self, d: &mut Decoder<'n>, item: usize, place: Place, text: &'n str) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let width = u32::try_from(word.len()).unwrap_or(1);
        let at = Place::new(place.line, place.column, width);
        let prefix = match ip4_prefix(word) {
            Some(prefix) => Some(prefix),
            None if word.contains(':') => ip6_prefix(word),
            None => None,
        };
        let known = prefix.and_then(|p| self.known.get(&(p.addr().is_ipv6(), rest)).copied());
        if let (Some(prefix), Some(target)) = (prefix, known) {
            return self.push(item, prefix, at, target);
        }
        let (errors, before) = (d.errors.len(), self.routes.len());
        d.index(item, |d| self.line(d, item, place, text, true));
        // What had an error is read again each time, to be reported each time.
        if let Some(&(prefix, target, _)) = self.routes.list.get(before).filter(|_| d.errors.len() == errors)
        {
            self.known.insert((prefix.addr().is_ipv6(), rest), target);
        }
    }

    fn push(&mut self, item: usize, prefix: IpNet, place: Place, target: u32) {
        self.routes.list.push((prefix, target, place));
        self.items.push(u32::try_from(item).unwrap_or(u32::MAX));
    }

    /// Reports prefixes that have a route already. A table in order has none, and is not sorted.
    fn check_unique(&self, d: &mut Decoder<'_>) {
        let list = &self.routes.list;
        let one_table = self.routes.tables.iter().all(|t| *t == 0);
        let one_rank = self.routes.ranks.iter().all(|r| *r == Rank::STATIC);
        if one_table && one_rank && list.is_sorted_by(|a, b| a.0 < b.0) {
            return;
        }
        let mut order: Vec<u32> = (0..u32::try_from(list.len()).unwrap_or(u32::MAX)).collect();
        let table = |target: u32| self.routes.tables.get(target as usize).copied().unwrap_or(0);
        let prefix = |i: &u32| list.get(*i as usize).map(|r| (table(r.1), r.0, self.routes.rank(r.1)));
        order.sort_unstable_by_key(|i| (prefix(i), *i));
        for same in order.chunk_by(|a, b| prefix(a) == prefix(b)).filter(|same| same.len() > 1) {
            let mut routes =
                same.iter().filter_map(|i| Some((list.get(*i as usize)?, *self.items.get(*i as usize)?)));
            let Some(((_, _, first), _)) = routes.next() else { continue };
            for ((prefix, _, place), item) in routes {
                d.index(item as usize, |d| {
                    let message = format!("{prefix} has a route already, on line {}", first.line);
                    d.error(*place, "route-unique", message).value(prefix).help(
                        "one route of a preference and metric a prefix: give it several paths in `via`",
                    );
                });
            }
        }
    }

    /// The one-line form.
    fn line(&mut self, d: &mut Decoder<'n>, item: usize, place: Place, text: &'n str, plain: bool) {
        let mut words = words(place, text, plain);
        let (Some(prefix), Some(mut verb)) = (words.next(), words.next()) else {
            d.error(place, "route", "this is not a route").value(text).help(FORM);
            return;
        };
        let (mut table, mut rank) = (0, Rank::STATIC);
        for option in ["table", "preference", "metric"] {
            if verb.1 != option {
                continue;
            }
            let (Some((at, number)), Some(next)) = (words.next(), words.next()) else {
                d.error(place, "route", "this is not a route").value(text).help(FORM);
                return;
            };
            let (least, most) = if option == "preference" { (1, 254) } else { (0, u32::MAX) };
            let Some(number) = d.int_text(at, number, least, u64::from(most)) else { return };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            match option {
                "table" => table = number,
                "metric" => rank.metric = number,
                _ => rank.preference = u8::try_from(number).unwrap_or(u8::MAX),
            }
            verb = next;
        }
        let target = if verb.1 == "via" {
            let mut rest = words.next();
            let mut paths = Vec::new();
            loop {
                let mut path = Vec::new();
                let mut more = false;
                while let Some((place, word)) = rest {
                    rest = words.next();
                    more = word.ends_with(',');
                    let word = word.strip_suffix(',').unwrap_or(word);
                    if !word.is_empty() {
                        path.push((place, word));
                    }
                    if more {
                        break;
                    }
                }
                paths.extend(self.paths().path_words(d, place, &path));
                if !more {
                    break;
                }
            }
            check_paths(d, place, paths).map(RouteTarget::Paths)
        } else if let Some((_, discard)) = TYPES.iter().find(|(name, _)| *name == verb.1) {
            if let Some((place, word)) = words.next() {
                d.error(place, "route", format!("{} is not expected here", short(word))).help(FORM);
            }
            Some(discard.target())
        } else {
            d.error(verb.0, "route", format!("{} is not expected here", short(verb.1))).help(FORM);
            None
        };
        let prefix = d.prefix(prefix.0, prefix.1).map(|p| (p, prefix.0));
        if let (Some(target), Some((net, at))) = (target, prefix) {
            let number = self.target(table, rank, target);
            self.add(d, item, net, at, number);
        }
    }

    fn target(&mut self, table: u32, rank: Rank, target: RouteTarget) -> u32 {
        self.routes.tables.push(table);
        self.routes.ranks.push(rank);
        self.routes.targets.push(target);
        u32::try_from(self.routes.targets.len() - 1).unwrap_or(u32::MAX)
    }

    fn mapping(&mut self, d: &mut Decoder<'n>, item: usize, node: &'n Node<'n>) {
        let Some(fields) = d.fields(node, ROUTE) else { return };
        let discard = d.field(&fields, "type", |d, node| d.choice(node, TYPES));
        let paths = d.field(&fields, "via", |d, node| self.paths().via(d, node));
        let target = match (fields.has("via"), fields.has("type")) {
            (true, true) => {
                d.error(fields.key_place("type"), "route", "a route has `via` or `type`, not both")
                    .help("remove one of the two");
                None
            }
            (false, false) => {
                d.error(fields.place, "required", "neither `via` nor `type` is given")
                    .help("via: ADDRESS, via: INTERFACE, via: [PATHS], or type: drop|unreachable|prohibit");
                None
            }
            (true, false) => paths.map(RouteTarget::Paths),
            (false, true) => discard.map(Discard::target),
        };
        let one = d.field(&fields, "prefix", |d, node| prefix(d, node));
        let mut prefixes: Vec<(IpNet, Place)> = one.into_iter().collect();
        let many = d.field(&fields, "prefixes", |d, node| {
            let items = d.items(node, "prefixes").iter().enumerate();
            Some(items.filter_map(|(i, node)| d.index(i, |d| prefix(d, node))).collect::<Vec<_>>())
        });
        prefixes.extend(many.into_iter().flatten());
        if !fields.has("prefix") && !fields.has("prefixes") {
            d.error(fields.place, "required", "`prefix` is missing")
                .help("prefix: PREFIX, or prefixes: [PREFIX, ...]");
        }
        let Some(target) = target else { return };
        let table = d.field(&fields, "table", |d, node| d.int(node, 0u32, u32::MAX)).unwrap_or(0);
        let preference = d.field(&fields, "preference", |d, node| d.int(node, 1u8, 254));
        let metric = d.field(&fields, "metric", |d, node| d.int(node, 0u32, u32::MAX));
        let rank = Rank {
            preference: preference.unwrap_or(Rank::STATIC.preference),
            metric: metric.unwrap_or(Rank::STATIC.metric),
        };
        let number = self.target(table, rank, target);
        for (net, place) in prefixes {
            self.add(d, item, net, place, number);
        }
    }

    /// Adds a route when its table and those of its paths are there, and its next hops fit it.
    fn add(&mut self, d: &mut Decoder<'_>, item: usize, prefix: IpNet, place: Place, target: u32) {
        self.push(item, prefix, place, target);
        let id = self.routes.tables.get(target as usize).copied().unwrap_or(0);
        let (names, v6) = (self.names, prefix.addr().is_ipv6());
        if !names.tables.check(d, place, RouteTable { v6, id }) {
            return;
        }
        let Some(RouteTarget::Paths(paths)) = self.routes.targets.get(target as usize) else { return };
        for path in paths {
            let tunnel = path.interface.as_deref().is_some_and(|i| numbered(i, "mpls-tunnel").is_some());
            if path.address.is_none() && !path.labels.is_none() && !tunnel {
                let message = "labels are put on for a neighbour";
                d.error(path.place, "route-labels", message).help("name its address");
                continue;
            }
            let least_mtu = path.labels.least_mtu(v6);
            if path.mtu != 0 && path.mtu < least_mtu {
                let family = if v6 { "IPv6" } else { "IPv4" };
                let message = format!("an {family} route with the MTU {}", path.mtu);
                d.error(path.place, "route-mtu", message).help(format!("{least_mtu} to {} bytes", u16::MAX));
                continue;
            }
            let looked_up = match path.address {
                Some(via) if v6 && via.is_ipv4() && path.labels.is_empty() => {
                    let message = format!("{via} cannot be the next hop of {prefix}");
                    d.error(path.place, "route-family", message).value(via).help("an IPv6 next hop");
                    continue;
                }
                Some(via) => RouteTable::of(via, path.table.unwrap_or(id)),
                None if path.table == Some(id) => {
                    let message = format!("table {id} leads into itself");
                    d.error(path.place, "route-table", message).help("another table");
                    continue;
                }
                None => RouteTable { v6, id: path.table.unwrap_or(0) },
            };
            if path.interface.is_some() || !names.tables.check(d, path.place, looked_up) {
                continue;
            }
            self.paths().leads_to_others(d, path, looked_up.id);
        }
    }

    fn paths(&self) -> Paths<'_> {
        Paths { names: self.names, mpls: false, routes: true }
    }
}

impl Paths<'_> {
    /// Whether a next hop that is looked up in a table may be a neighbour's there.
    pub(super) fn leads_to_others(&self, d: &mut Decoder<'_>, path: &RoutePath, table: u32) -> bool {
        let Some(via) = path.address else { return true };
        let message = if let Some(owner) = self.names.own.get(&(table, via)) {
            format!("{via} is the router's own address, on `{owner}`")
        } else if let Some(net) = self.names.nobody.get(&(table, via)) {
            nobody(via, net)
        } else {
            return true;
        };
        d.error(path.place, "next-hop", message).value(via).help("the neighbour's address");
        false
    }

    /// The same of what is no route, whose next hops without interface are looked up in table 0 or in one that they name.
    pub(super) fn finds_others(&self, d: &mut Decoder<'_>, path: &RoutePath) -> bool {
        let Some(via) = path.address.filter(|_| path.interface.is_none()) else { return true };
        let table = RouteTable::of(via, path.table.unwrap_or(0));
        self.names.tables.check(d, path.place, table) && self.leads_to_others(d, path, table.id)
    }

    /// `via`: one path, or a list of them.
    pub(super) fn via<'n>(&self, d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<RoutePath>> {
        let Value::List(items) = &node.value else {
            return self.path(d, node).map(|path| vec![path]);
        };
        if items.is_empty() {
            d.error(node.place, "required", "a route needs a path").help("via: ADDRESS, or type: drop");
        }
        let items = items.iter().enumerate();
        let paths = items.filter_map(|(i, node)| d.index(i, |d| self.path(d, node))).collect();
        check_paths(d, node.place, paths)
    }

    fn path<'n>(&self, d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<RoutePath> {
        if let Value::Scalar { text, plain } = &node.value {
            let words: Vec<_> = words(node.place, text, *plain).collect();
            return self.path_words(d, node.place, &words);
        }
        let fields = d.fields(node, if self.routes { PATH } else { LABEL_PATH })?;
        let text = |d: &mut Decoder<'n>, name| {
            d.field(&fields, name, |d, node| d.text(node, "a name or address").map(|t| (node.place, t)))
        };
        let address = text(d, "address");
        let interface = text(d, "interface");
        let weight = d.field(&fields, "weight", |d, node| d.int(node, 1u8, 255));
        let mtu = match self.routes {
            false => None,
            true => d.field(&fields, "mtu", |d, node| d.int(node, IP4_MTU, u16::MAX)),
        };
        let table = d.field(&fields, "table", |d, node| d.int(node, 0u32, u32::MAX));
        if !fields.has("address") && !fields.has("interface") && !fields.has("table") {
            d.error(fields.place, "required", "a path needs `address`, `interface` or `table`")
                .help("address: ADDRESS, interface: NAME, or both");
            return None;
        }
        if fields.has("table") && (table.is_none() || fields.has("interface")) {
            if table.is_some() {
                let message = "a path leads over an interface or into a table, not both";
                d.error(fields.key_place("table"), "route-table", message).help("remove one of the two");
            }
            return None;
        }
        let lookup = d.field(&fields, "lookup", |d, node| d.choice(node, LOOKUPS));
        let labels = self.label_fields(d, &fields)?;
        let wrong = |field, missing: bool| fields.has(field) && missing;
        if wrong("weight", weight.is_none())
            || wrong("mtu", mtu.is_none())
            || wrong("lookup", lookup.is_none())
        {
            return None;
        }
        let frame = lookup == Some(Lookup::Frame);
        if frame && (!self.mpls || fields.has("table") || fields.has("address")) {
            d.error(fields.place, "label-lookup", "a frame comes in on an interface")
                .help("interface: NAME and lookup: l2-input; only in `mpls`");
            return None;
        }
        if !frame && fields.has("lookup") != (self.mpls && fields.has("table")) {
            d.error(fields.place, "label-lookup", "a label leads into a table of a kind")
                .help("table: N and lookup: ip4, ip6, ip or mpls; only in `mpls`");
            return None;
        }
        let lookup = lookup.unwrap_or_default();
        self.checked(d, fields.place, address, interface, {
            let options = Options { weight: weight.unwrap_or(1), mtu: mtu.unwrap_or(0), labels };
            (table, lookup, options)
        })
    }

    /// The fields of labels.
    fn label_fields<'n>(&self, d: &mut Decoder<'n>, fields: &Fields<'n>) -> Option<OutLabels> {
        let before = d.errors.len();
        let list = d.field(fields, "out-labels", |d, node| {
            let items = d.items(node, "labels").iter().enumerate();
            let label = |d: &mut Decoder<'n>, node| d.int(node, 0u32, 1_048_575);
            Some(items.filter_map(|(i, node)| d.index(i, |d| label(d, node))).collect::<Vec<u32>>())
        });
        let uniform = d.field(fields, "mode", |d, node| d.choice(node, MODES)).unwrap_or(false);
        let ttl = d.field(fields, "ttl", |d, node| d.int(node, 1u8, 255));
        let exp = d.field(fields, "exp", |d, node| match d.is_word(node, "copy") {
            true => Some(Exp::Copy),
            false => d.int(node, 0u8, 7).map(Exp::Set),
        });
        if d.errors.len() != before {
            return None;
        }
        let place = fields.key_place("out-labels");
        labels(d, place, &list.unwrap_or_default(), uniform, ttl, exp.unwrap_or_default())
    }

    /// What stands behind the next hop of a line.
    fn options<'n>(&self, d: &mut Decoder<'n>, words: &[Word<'n>]) -> Option<Options> {
        let (mut weight, mut mtu, mut list, mut uniform) = (1, 0, vec![], false);
        let (mut ttl, mut exp) = (None, Exp::Usual);
        let at = words.first().map_or(Place::default(), |w| w.0);
        let number =
            |d: &mut Decoder<'n>, (at, text): Word<'n>, least, most| d.int_text(at, text, least, most);
        let mut words = words.iter().copied().peekable();
        while let Some((place, word)) = words.next() {
            let mut value = |d: &mut Decoder<'n>| {
                let next = words.next();
                if next.is_none() {
                    d.error(place, "route", format!("a value is missing behind {word}")).help(FORM);
                }
                next
            };
            match word {
                "weight" => {
                    weight = u8::try_from({
                        let v = value(d)?;
                        number(d, v, 1, 255)?
                    })
                    .ok()?
                }
                "mtu" => {
                    let v = value(d)?;
                    mtu = u16::try_from(number(d, v, IP4_MTU.into(), u16::MAX.into())?).ok()?;
                }
                "ttl" => {
                    ttl = Some(
                        u8::try_from({
                            let v = value(d)?;
                            number(d, v, 1, 255)?
                        })
                        .ok()?,
                    )
                }
                "exp" => {
                    exp = match value(d)? {
                        (_, "copy") => Exp::Copy,
                        v => Exp::Set(u8::try_from(number(d, v, 0, 7)?).ok()?),
                    };
                }
                "uniform" => uniform = true,
                "pipe" => uniform = false,
                "out-labels" => {
                    while let Some(v) = words.next_if(|w| w.1.starts_with(|c: char| c.is_ascii_digit())) {
                        list.push(u32::try_from(number(d, v, 0, 1_048_575)?).ok()?);
                    }
                    if list.is_empty() {
                        d.error(place, "route", "a label is missing behind out-labels").help(FORM);
                        return None;
                    }
                }
                other => {
                    d.error(place, "route", format!("{} is not expected here", short(other))).help(FORM);
                    return None;
                }
            }
        }
        labels(d, at, &list, uniform, ttl, exp).map(|labels| Options { weight, mtu, labels })
    }

    /// What a word such as `ip4-lookup-in-table` says.
    fn lookup_of(&self, word: &str) -> Option<Lookup> {
        let kind = word.strip_suffix("-lookup-in-table")?;
        let (_, lookup) = LOOKUPS.iter().find(|(word, l)| *word == kind && *l != Lookup::Frame)?;
        match lookup {
            lookup if self.mpls => Some(*lookup),
            Lookup::Ip4 | Lookup::Ip6 => Some(Lookup::Own),
            _ => None,
        }
    }

    /// `ADDRESS [INTERFACE] [weight N] [mtu N] [out-labels L ...]` or `INTERFACE [weight N] [mtu N]`.
    pub(super) fn path_words<'n>(
        &self,
        d: &mut Decoder<'n>,
        place: Place,
        words: &[Word<'n>],
    ) -> Option<RoutePath> {
        let end =
            words.iter().skip(1).position(|w| HOP_OPTIONS.contains(&w.1)).map_or(words.len(), |n| n + 1);
        let (words, options) = words.split_at(end);
        let options = self.options(d, options)?;
        // Into a table: of the next hop, or of the packets themselves.
        let number = |d: &mut Decoder<'n>, (at, text): Word<'n>| {
            u32::try_from(d.int_text(at, text, 0, u64::from(u32::MAX))?).ok()
        };
        if let [(at, word), n] = words
            && let Some(lookup) = self.lookup_of(word)
        {
            let table = number(d, *n)?;
            return self.checked(d, *at, None, None, (Some(table), lookup, options));
        }
        match words {
            [address, (_, "next-hop-table"), n] if looks_like_address(address.1) => {
                let table = number(d, *n)?;
                return self.checked(d, place, Some(*address), None, (Some(table), Lookup::Own, options));
            }
            [(at, "l2-input-on"), name] if self.mpls => {
                return self.checked(d, *at, None, Some(*name), (None, Lookup::Frame, options));
            }
            _ => {}
        }
        let (address, interface, rest) = match words {
            [first, rest @ ..] if !looks_like_address(first.1) => (None, Some(*first), rest),
            [first, second, rest @ ..] => (Some(*first), Some(*second), rest),
            [first] => (Some(*first), None, &words[1..]),
            [] => {
                d.error(place, "route", "a path is missing").help(FORM);
                return None;
            }
        };
        if let Some((place, word)) = rest.first() {
            d.error(*place, "route", format!("{} is not expected here", short(word))).help(FORM);
            return None;
        }
        let place = words.first().map_or(place, |w| w.0);
        self.checked(d, place, address, interface, (None, Lookup::Own, options))
    }

    fn checked(
        &self,
        d: &mut Decoder<'_>,
        place: Place,
        address: Option<Word<'_>>,
        interface: Option<Word<'_>>,
        (table, lookup, options): Behind,
    ) -> Option<RoutePath> {
        let Options { weight, mtu, labels } = options;
        if mtu != 0 && (!self.routes || address.is_none() && interface.is_none()) {
            let message =
                if self.routes { "a path into a table has no MTU" } else { "only a route has an MTU" };
            d.error(place, "route-mtu", message).help("the MTU of the route or interface there counts");
            return None;
        }
        let next_hop = match address {
            Some((at, text)) => Some(self.next_hop(d, at, text, interface.map(|i| i.1))?),
            None => None,
        };
        if let Some((at, name)) = interface {
            match self.names.get(name) {
                Err(e) => {
                    d.error(at, e.rule, e.message).value(name).help(e.help);
                    return None;
                }
                Ok(port) if lookup != Lookup::Frame && self.names.is_l2(port) => {
                    d.error(at, "l2-mode", format!("`{name}` is in a cross-connect"))
                        .value(name)
                        .help("an interface that routes");
                    return None;
                }
                Ok(_) => {}
            }
        }
        let interface = interface.map(|(_, name)| name.to_string());
        let place = address.map_or(place, |a| a.0);
        Some(RoutePath { address: next_hop, interface, table, weight, mtu, labels, lookup, place })
    }

    fn next_hop(
        &self,
        d: &mut Decoder<'_>,
        at: Place,
        text: &str,
        interface: Option<&str>,
    ) -> Option<IpAddr> {
        let address = d.address(at, text)?;
        let link_local = matches!(address, IpAddr::V6(a) if a.is_unicast_link_local());
        let broadcast = address == IpAddr::from([255, 255, 255, 255]);
        // Of a next hop without interface it is known with its table whether it is the router's own.
        let on = interface.filter(|_| !link_local).map(|i| (i, self.names.table(i, address.is_ipv6())));
        let own =
            on.and_then(|(i, table)| self.names.own.get(&(table, address)).filter(|owner| **owner == i));
        let here = |i: &str, net: &IpNet| {
            self.names.get(i).is_ok_and(|p| p.addresses().iter().any(|a| a.net.trunc() == *net))
        };
        let net =
            on.and_then(|(i, table)| self.names.nobody.get(&(table, address)).filter(|net| here(i, net)));
        let (message, help) = if let Some(owner) = own {
            (format!("{address} is the router's own address, on `{owner}`"), "the neighbour's address")
        } else if let Some(net) = net {
            (nobody(address, net), "the neighbour's address")
        } else if address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast {
            (format!("{address} cannot be a next hop"), "the unicast address of a neighbour")
        } else if link_local && interface.is_none() {
            (format!("{address} is link-local"), "name its interface as well")
        } else {
            return Some(address);
        };
        d.error(at, "next-hop", message).value(text).help(help);
        None
    }
}

/// Why an address of a prefix of the router's cannot be a next hop.
fn nobody(address: IpAddr, net: &IpNet) -> String {
    format!("{address} is the network or broadcast address of {net}")
}

/// Labels with their modes, when they can be put on.
fn labels(
    d: &mut Decoder<'_>,
    place: Place,
    list: &[u32],
    uniform: bool,
    ttl: Option<u8>,
    exp: Exp,
) -> Option<OutLabels> {
    let Some(labels) = OutLabels::new(list) else {
        d.error(place, "route-labels", format!("{} labels", list.len()))
            .help(format!("at most {}", net::labels::MOST_LABELS));
        return None;
    };
    let labels = labels.with_mode(uniform, ttl, exp);
    if let Err(why) = labels.check() {
        d.error(place, "route-labels", why)
            .help("labels are 16 to 1048575, 0 and 2 (explicit null), 3 (none)");
        return None;
    }
    Some(labels)
}

/// Not too many paths, none twice; `None` also when each of them was wrong.
pub(super) fn check_paths(
    d: &mut Decoder<'_>,
    place: Place,
    paths: Vec<RoutePath>,
) -> Option<Vec<RoutePath>> {
    if paths.len() > MOST_PATHS {
        d.error(place, "route-paths", format!("{} paths", paths.len())).help(format!("at most {MOST_PATHS}"));
        return None;
    }
    for (i, path) in paths.iter().enumerate() {
        let same = |p: &&RoutePath| {
            (p.address, &p.interface, p.table, p.lookup, p.labels)
                == (path.address, &path.interface, path.table, path.lookup, path.labels)
        };
        if let Some(first) = paths.iter().take(i).find(same) {
            let line = first.place.line;
            d.error(path.place, "path-unique", format!("the same path stands on line {line}"))
                .help("one path with a larger `weight`");
        }
    }
    (!paths.is_empty()).then_some(paths)
}

fn prefix<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<(IpNet, Place)> {
    let text = d.text(node, "a prefix")?;
    d.prefix(node.place, text).map(|net| (net, node.place))
}

/// An IPv4 prefix in its canonical spelling and without host bits; everything else is for the general parser.
fn ip4_prefix(text: &str) -> Option<IpNet> {
    fn number(bytes: &[u8], at: &mut usize, most: u32) -> Option<u32> {
        let first = *at;
        let mut n = 0;
        while let Some(digit) = bytes.get(*at).filter(|b| b.is_ascii_digit() && *at < first + 3) {
            n = n * 10 + u32::from(digit - b'0');
            *at += 1;
        }
        let zeros = *at > first + 1 && bytes.get(first) == Some(&b'0');
        (*at > first && !zeros && n <= most).then_some(n)
    }
    let (bytes, mut at, mut addr) = (text.as_bytes(), 0, 0);
    for end in [b'.', b'.', b'.', b'/'] {
        addr = addr << 8 | number(bytes, &mut at, 255)?;
        bytes.get(at).filter(|b| **b == end)?;
        at += 1;
    }
    let len = number(bytes, &mut at, 32)?;
    let net = Ipv4Net::new(addr.into(), u8::try_from(len).ok()?).ok()?;
    (at == bytes.len() && net == net.trunc()).then_some(net.into())
}

/// The same for IPv6.
fn ip6_prefix(text: &str) -> Option<IpNet> {
    let net: IpNet = text.parse().ok()?;
    // The longest spelling has 49 characters.
    let mut spelling = [0; 64];
    let mut rest = spelling.as_mut_slice();
    write!(rest, "{net}").ok()?;
    let left = rest.len();
    let same = spelling.get(..spelling.len() - left)? == text.as_bytes();
    (same && net == net.trunc()).then_some(net)
}

/// Addresses have a colon, or nothing but digits and dots (and a prefix length, which is wrong here).
fn looks_like_address(word: &str) -> bool {
    word.contains(':')
        || word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'/')
}

/// The words of a scalar. Places are exact for one on a single line without escapes.
pub(super) fn words(place: Place, text: &str, plain: bool) -> impl Iterator<Item = Word<'_>> {
    let quote = u32::from(!plain);
    text.split_ascii_whitespace().map(move |word| {
        let offset = word.as_ptr() as usize - text.as_ptr() as usize;
        let column = u32::try_from(offset).unwrap_or(0).saturating_add(quote);
        let width = u32::try_from(word.len()).unwrap_or(1);
        (Place::new(place.line, place.column.saturating_add(column), width), word)
    })
}
