//! The section `tables`, and the tables of interfaces.

use super::{PAGE, Pages, Pieces, Source};
use crate::written::{Map, Node};
use net::router::{IfState, RouteTable};
use packet::flow::Fields;

/// The section, a field for each number.
pub(super) struct Tables {
    next: Option<u32>,
}

impl Default for Tables {
    fn default() -> Self {
        Self { next: Some(0) }
    }
}

impl Pages for Tables {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let mut fields = Map::new();
        for _ in 0..PAGE {
            let Some(id) = self.next else { break };
            table(from, id, &mut fields);
            let after = [false, true].map(|v6| from.router.table_after(RouteTable { v6, id }));
            self.next = after.into_iter().flatten().map(|t| t.id).min();
        }
        to.fields(vec![], fields);
        self.next.is_some()
    }
}

/// The tables of a number, of one family or both.
fn table(from: Source<'_>, id: u32, to: &mut Map) {
    let families = [false, true].map(|v6| from.router.table_info(RouteTable { v6, id }));
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
    let row = |f: Fields| (f != Fields::FIVE_TUPLE).then(|| Node::Row(f.words().map(Node::from).collect()));
    if hash4 == hash || hash4.with(Fields::LABEL) == hash {
        fields.put_some("flow-hash", row(hash));
    } else {
        let mut each = Map::new();
        each.put_some("ip4", row(hash4)).put_some("ip6", row(hash));
        fields.put("flow-hash", Node::Flow(each));
    }
    let withdraw = families.each_ref().map(|t| t.as_ref().is_some_and(|t| t.withdraws));
    let there = families.each_ref().map(Option::is_some);
    if withdraw == there {
        fields.put("when-down", "withdraw");
    } else if withdraw != [false; 2] {
        let mut each = Map::new();
        let word = |on: bool| on.then(|| Node::Text("withdraw".into()));
        each.put_some("ip4", word(withdraw[0])).put_some("ip6", word(withdraw[1]));
        fields.put("when-down", Node::Flow(each));
    }
    if id != 0 || !fields.is_empty() {
        to.put(id.to_string(), Node::Flow(fields));
    }
}

/// The tables that an interface is in.
pub(super) fn binding(from: Source<'_>, i: &IfState, to: &mut Map) {
    let [v4, v6] = [false, true].map(|v6| from.router.operators_table(i, v6));
    let one = |id: u32, v6: bool| id != 0 && !from.router.has_table(RouteTable { v6, id });
    if v4 == v6 || v4 != 0 && v6 == 0 && one(v4, true) || v6 != 0 && v4 == 0 && one(v6, false) {
        to.put_unless("table", v4.max(v6), 0);
    } else {
        let mut families = Map::new();
        families.put_unless("ip4", v4, 0).put_unless("ip6", v6, 0);
        to.put("table", Node::Flow(families));
    }
}
