//! Source checks: a word for packets received, or a mapping of directions, each a word or a mapping with a table.

use net::router::RouteTable;
use net::urpf::{Mode, SourceCheck};

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::super::table::Tables;
use super::super::tree::{Node, Value};
use super::{DIRECTIONS, Scope, families};

const RULE: &[&str] = &["mode", "table"];
const MODES: &[(&str, Mode)] = &[("strict", Mode::Strict), ("loose", Mode::Loose), ("off", Mode::Off)];

/// What is checked of one direction.
#[derive(Clone, Copy)]
struct Rule {
    place: Place,
    mode: Mode,
    table: Option<(Place, u32)>,
}

fn rule<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Rule> {
    if let Value::Scalar { .. } = &node.value {
        return Some(Rule { place: node.place, mode: d.choice(node, MODES)?, table: None });
    }
    let fields = d.fields(node, RULE)?;
    let mode =
        d.required(&fields, "mode", "what is checked: strict or loose", |d, node| d.choice(node, MODES))?;
    let table = d.field(&fields, "table", |d, node| Some((node.place, d.int(node, 0, u32::MAX)?)));
    if let Some((place, id)) = table.filter(|_| mode == Mode::Off) {
        d.error(place, "urpf-table", "without a check nothing is looked up in a table")
            .value(id)
            .help("mode: strict or loose");
        return None;
    }
    Some(Rule { place: node.place, mode, table })
}

fn directions<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<[Option<Rule>; 2]> {
    if let Value::Scalar { .. } = &node.value {
        return Some([Some(rule(d, node)?), None]);
    }
    let fields = d.fields(node, DIRECTIONS)?;
    Some([d.field(&fields, "rx", rule), d.field(&fields, "tx", rule)])
}

/// The field `urpf` of an interface.
pub(super) fn decode<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>, tables: &Tables) {
    let all = s.d.field(fields, "urpf", |d, node| families(d, node, directions));
    for (v6, _, rules) in all.unwrap_or_default() {
        for (tx, rule) in [(false, rules[0]), (true, rules[1])] {
            let Some(Rule { place, mode, table }) = rule else { continue };
            if table.is_some_and(|(at, id)| !tables.check(s.d, at, RouteTable { v6, id })) {
                continue;
            }
            s.set(place, "urpf", SourceCheck { v6, tx, mode, table: table.map(|t| t.1) });
        }
    }
}
