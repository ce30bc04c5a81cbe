//! The section `tables`: routing tables (VRFs), and which of them interfaces are in.

use std::collections::BTreeMap;

use net::router::{Op, RouteTable};
use packet::flow::Fields;

use super::decode::Decoder;
use super::diag::Place;
use super::l3::Setting;
use super::tree::{Node, Value};

pub(super) const TABLE: &[&str] = &["name", "family", "flow-hash", "when-down"];
pub(super) const FAMILIES: &[&str] = &["ip4", "ip6"];
/// The largest number of a table.
const MOST: u64 = u32::MAX as u64;

/// The routing tables of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables {
    /// Their numbers, each with its families: IPv4, IPv6. Table 0 is not among them.
    known: BTreeMap<u32, [bool; 2]>,
    /// The operations that make them, and their settings.
    pub settings: Vec<Setting>,
}

impl Tables {
    /// Whether there is such a table.
    pub fn has(&self, table: RouteTable) -> bool {
        table.id == 0 || self.known.get(&table.id).is_some_and(|f| f[usize::from(table.v6)])
    }

    /// Reports a table that is not declared.
    pub(super) fn check(&self, d: &mut Decoder<'_>, place: Place, table: RouteTable) -> bool {
        let has = self.has(table);
        if !has {
            let id = table.id;
            d.error(place, "unknown-table", format!("there is no {table}"))
                .value(id)
                .help(format!("declare it: tables: {{{id}: {{}}}}"));
        }
        has
    }
}

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Tables> {
    let mut out = Tables::default();
    for (key, place, node) in d.entries(node, "numbers of tables") {
        d.key(key, |d| {
            let Some(id) = d.int_text(place, key, 0, MOST).and_then(|id| u32::try_from(id).ok()) else {
                return;
            };
            table(d, id, place, node, &mut out);
        });
    }
    Some(out)
}

fn table<'n>(d: &mut Decoder<'n>, id: u32, place: Place, node: &'n Node<'n>, out: &mut Tables) {
    if node.is_null() {
        return both(d, id, place, None, &Families::default(), out);
    }
    let Some(fields) = d.fields(node, TABLE) else { return };
    let names = d.field(&fields, "name", |d, node| {
        per_family(d, node, |d, node| {
            let text = d.text(node, "a name")?;
            let good = !text.is_empty() && text.len() <= 63 && text.chars().all(|c| c.is_ascii_graphic());
            if !good {
                d.error(node.place, "table-name", "not a name for a table")
                    .value(text)
                    .help("1 to 63 letters without spaces");
            }
            good.then(|| text.to_string())
        })
    });
    let families = [("ip4", Some(false)), ("ip6", Some(true)), ("both", None)];
    let only = d.field(&fields, "family", |d, node| d.choice(node, &families)).flatten();
    let mut apart = false;
    let hashes = d.field(&fields, "flow-hash", |d, node| {
        apart = matches!(&node.value, Value::Map(_));
        per_family(d, node, flow_hash)
    });
    let withdraw = d.field(&fields, "when-down", |d, node| {
        per_family(d, node, |d, node| d.choice(node, &[("withdraw", true), ("unreachable", false)]))
    });
    let four = hashes.and_then(|[four, _]| four).filter(|_| apart || only == Some(false));
    if four.is_some_and(|f| f.has(Fields::LABEL)) {
        d.key("flow-hash", |d| {
            d.error(fields.key_place("flow-hash"), "flow-hash", "IPv4 has no flow label")
                .value("flowlabel")
                .help("`flowlabel` for IPv6 alone: {ip4: [...], ip6: [..., flowlabel]}");
        });
    }
    if id == 0 && (names.is_some() || fields.has("family")) {
        d.error(place, "table-0", "table 0 is there always, without a name and for both families")
            .help("only `flow-hash` and `when-down`");
        return;
    }
    let of = Families {
        names: names.unwrap_or_default(),
        hashes: hashes.unwrap_or_default(),
        withdraw: withdraw.unwrap_or_default(),
    };
    both(d, id, place, only, &of, out);
}

fn flow_hash<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Fields> {
    let items = d.items(node, "fields of packets").iter().enumerate();
    let field = |(i, node)| d.index(i, |d| d.choice(node, &Fields::ALL));
    let fields = items.filter_map(field).fold(Fields::NONE, Fields::with);
    if let Err(why) = fields.check() {
        d.error(node.place, "flow-hash", why).help("both directions of a flow take the same path then");
        return None;
    }
    Some(fields)
}

/// What the IPv4 and the IPv6 table of a number are told.
#[derive(Default)]
struct Families {
    names: [Option<String>; 2],
    hashes: [Option<Fields>; 2],
    /// Whether prefixes without a way are withdrawn.
    withdraw: [Option<bool>; 2],
}

/// One value for both families, or a mapping of `ip4` and `ip6`.
fn per_family<'n, T: Clone>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    mut one: impl FnMut(&mut Decoder<'n>, &'n Node<'n>) -> Option<T>,
) -> Option<[Option<T>; 2]> {
    #[cfg(test)]
    d.fact(super::schema::Fact::Families);
    if let Value::Map(_) = &node.value {
        let fields = d.fields(node, FAMILIES)?;
        return Some([d.field(&fields, "ip4", &mut one), d.field(&fields, "ip6", &mut one)]);
    }
    let both = one(d, node);
    Some([both.clone(), both])
}

fn both(d: &mut Decoder<'_>, id: u32, place: Place, only: Option<bool>, of: &Families, out: &mut Tables) {
    let path = d.path();
    let mut add = |op| out.settings.push(Setting { place, path: path.clone(), op });
    for v6 in [false, true].into_iter().filter(|v6| only.is_none_or(|o| o == *v6)) {
        let table = RouteTable { v6, id };
        if id != 0 {
            add(Op::CreateTable { table, name: of.names[usize::from(v6)].clone() });
        }
        let fields = of.hashes[usize::from(v6)].unwrap_or(Fields::NONE);
        // The flow label is one of IPv6 alone.
        let fits = |f: &Fields| fields.has(*f) && (v6 || *f != Fields::LABEL);
        let fields = Fields::ALL.into_iter().map(|(_, f)| f).filter(fits).fold(Fields::NONE, Fields::with);
        let fields = fields.or_five_tuple();
        if fields != Fields::FIVE_TUPLE {
            add(Op::SetFlowHash { table, fields });
        }
        if of.withdraw[usize::from(v6)] == Some(true) {
            add(Op::SetWhenDown { table, withdraw: true });
        }
    }
    if id != 0 {
        out.known.insert(id, [only != Some(true), only != Some(false)]);
    }
}

/// The tables of an interface: one number for both families, or a mapping of `ip4` and `ip6`.
pub(super) fn binding<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    tables: &Tables,
) -> Option<Vec<(Place, RouteTable)>> {
    let number = |d: &mut Decoder<'n>, node: &'n Node<'n>| d.int(node, 0u32, u32::MAX);
    let mut out = vec![];
    if let Value::Scalar { .. } = &node.value {
        let id = number(d, node)?;
        // A table of one family alone binds that family alone.
        let all = [false, true].map(|v6| RouteTable { v6, id });
        if all.iter().any(|t| tables.has(*t)) {
            out.extend(all.into_iter().filter(|t| tables.has(*t)).map(|t| (node.place, t)));
        } else {
            tables.check(d, node.place, RouteTable { v6: false, id });
        }
        return Some(out);
    }
    let fields = d.fields(node, FAMILIES)?;
    for (v6, name) in [(false, "ip4"), (true, "ip6")] {
        let id = d.field(&fields, name, number);
        let place = fields.get(name).map_or(fields.place, |n| n.place);
        out.extend(
            id.map(|id| (place, RouteTable { v6, id })).filter(|(place, t)| tables.check(d, *place, *t)),
        );
    }
    Some(out)
}

fn text<'n>(node: &'n Node<'n>) -> Option<&'n str> {
    if let Value::Scalar { text, .. } = &node.value { Some(text) } else { None }
}

/// The value of a field, before the section is read.
pub(super) fn get<'n>(node: &'n Node<'n>, key: &str) -> Option<&'n Node<'n>> {
    let Value::Map(pairs) = &node.value else { return None };
    pairs.iter().find(|(k, _)| text(k) == Some(key)).map(|(_, v)| v)
}

/// The entries of `interfaces` of the section `l2` or `l3` by name, before the section is read.
pub(super) fn entries_of<'n>(
    root: &'n Node<'n>,
    section: &str,
) -> impl Iterator<Item = (&'n str, &'n Node<'n>)> {
    let all = match get(root, section).and_then(|n| get(n, "interfaces")).map(|n| &n.value) {
        Some(Value::Map(all)) => all.as_slice(),
        _ => &[],
    };
    all.iter().filter_map(|(name, node)| Some((text(name)?, node)))
}

/// The tables that interfaces are in, by name and family, read ahead of the section `l3`: rules on addresses ask for
/// them. What is wrong there is reported later.
pub(super) fn bindings<'n>(root: &'n Node<'n>, tables: &Tables) -> BTreeMap<&'n str, [u32; 2]> {
    let mut out = BTreeMap::new();
    for (name, node) in entries_of(root, "l3") {
        let Some(node) = get(node, "table") else { continue };
        let mut silent = Decoder::default();
        let mut of = [0; 2];
        for (_, t) in binding(&mut silent, node, tables).unwrap_or_default() {
            of[usize::from(t.v6)] = t.id;
        }
        out.insert(name, of);
    }
    out
}
