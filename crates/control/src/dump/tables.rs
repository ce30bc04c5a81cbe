//! The section `tables`, and the tables of interfaces.

use super::{Map, Node, Source};
use net::router::{IfState, TableInfo};
use packet::flow::Fields;
use std::collections::BTreeMap;

pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let mut all: BTreeMap<u32, [Option<TableInfo>; 2]> = BTreeMap::new();
    for v6 in [false, true] {
        for t in from.router.route_tables(v6) {
            let id = t.table.id;
            all.entry(id).or_default()[usize::from(v6)] = Some(t);
        }
    }
    for (id, families) in all {
        let mut fields = Map::new();
        let some = || families.iter().flatten();
        let names = families.each_ref().map(|t| t.as_ref().and_then(|t| t.name.clone()));
        if some().all(|t| Some(&t.name) == some().next().map(|t| &t.name)) {
            fields.put_some("name", names.into_iter().flatten().next().map(Node::Text));
        } else {
            let mut each = Map::new();
            let [v4, v6] = names.map(|n| n.map(Node::Text));
            each.put_some("ip4", v4).put_some("ip6", v6);
            fields.put("name", Node::Flow(each));
        }
        match &families {
            [Some(_), None] => _ = fields.put("family", "ip4"),
            [None, Some(_)] => _ = fields.put("family", "ip6"),
            _ => {}
        }
        // The flow label is one of IPv6 alone.
        let hash = families.iter().flatten().last().map_or(Fields::FIVE_TUPLE, |t| t.fields);
        let hash4 = families[0].as_ref().map_or(hash, |t| t.fields);
        let row =
            |f: Fields| (f != Fields::FIVE_TUPLE).then(|| Node::Row(f.words().map(Node::from).collect()));
        if hash4 == hash || hash4.with(Fields::LABEL) == hash {
            fields.put_some("flow-hash", row(hash));
        } else {
            let mut each = Map::new();
            each.put_some("ip4", row(hash4)).put_some("ip6", row(hash));
            fields.put("flow-hash", Node::Flow(each));
        }
        if id != 0 || !fields.is_empty() {
            to.put(id.to_string(), Node::Flow(fields));
        }
    }
}

/// The tables that an interface is in.
pub(super) fn binding(from: Source<'_>, i: &IfState, to: &mut Map) {
    let [v4, v6] = [false, true].map(|v6| from.router.table_of_interface(i, v6));
    let one = |id: u32, v6: bool| id != 0 && !from.router.has_table(net::router::RouteTable { v6, id });
    if v4 == v6 || v4 != 0 && v6 == 0 && one(v4, true) || v6 != 0 && v4 == 0 && one(v6, false) {
        to.put_unless("table", v4.max(v6), 0);
    } else {
        let mut families = Map::new();
        families.put_unless("ip4", v4, 0).put_unless("ip6", v6, 0);
        to.put("table", Node::Flow(families));
    }
}
