//! The section `mpls`, and which interfaces take labelled packets.

use super::routes::path_words;
use super::{PAGE, Pages, Pieces, Source};
use crate::written::{Map, Node};
use net::mpls::{LabelRoute, label_routes, label_tables};
use net::router::{IfState, Router, Source as RouteSource, Target};

/// `mpls` of an interface.
pub(super) fn enabled(_: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_unless("mpls", i.settings.get(&net::mpls::TAKEN), false);
}

/// The numbers of the tables.
pub(super) fn tables(from: Source<'_>, to: &mut Map) {
    let tables = label_tables(from.router).into_iter().filter(|t| t.id != 0);
    to.put_some("tables", Some(Node::Row(tables.map(|t| Node::Plain(t.id.to_string())).collect())));
}

/// The labels, by table and number.
#[derive(Default)]
pub(super) struct Labels {
    /// The table, and the label in it, that come next.
    table: u32,
    label: (u32, bool),
}

impl Pages for Labels {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let mut items = vec![];
        let tables = label_tables(from.router);
        let Some(table) = tables.iter().map(|t| t.id).find(|id| *id >= self.table) else { return false };
        if table > self.table {
            (self.table, self.label) = (table, (0, false));
        }
        let start = self.label;
        // A label has two entries, that of packets with more labels first.
        let routes = label_routes(from.router, table, start.0).filter(|r| (r.label, r.bottom) >= start);
        for (seen, r) in routes.enumerate() {
            if seen >= PAGE {
                to.items(items);
                return true;
            }
            self.label = if r.bottom { (r.label + 1, false) } else { (r.label, true) };
            if r.source == RouteSource::Static {
                items.extend(label(from.router, table, &r).map(Node::Text));
            }
        }
        to.items(items);
        let Some(next) = table.checked_add(1) else { return false };
        (self.table, self.label) = (next, (0, false));
        true
    }
}

/// An entry of `tunnels`.
pub(super) fn tunnel(from: Source<'_>, i: &IfState) -> Option<Node> {
    let t = net::mpls::tunnel(from.router, i.index)?;
    let mut fields = Map::new();
    fields.put_unless("l2-only", t.config.l2_only, false).put_unless(
        "control-word",
        t.config.control_word,
        false,
    );
    let paths = t.config.paths.iter().map(|p| Node::text(path_words(from.router, false, p)));
    fields.put_some("via", Some(Node::List(paths.collect())));
    Some(fields.into())
}

fn label(router: &Router, table: u32, r: &LabelRoute) -> Option<String> {
    let what = match &r.target {
        Target::Drop => "drop".into(),
        Target::Paths(paths) => {
            let all: Vec<String> = paths.iter().map(|p| path_words(router, false, p)).collect();
            format!("via {}", all.join(", "))
        }
        _ => return None,
    };
    let eos = if r.bottom { "eos" } else { "non-eos" };
    let place = if table == 0 { String::new() } else { format!(" table {table}") };
    Some(format!("{} {eos}{place} {what}", r.label))
}
