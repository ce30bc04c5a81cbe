//! The section `mpls`, and which interfaces take labelled packets.

use super::routes::path_words;
use super::{Map, Node, Source};
use net::router::{IfState, LabelRoute, Router, Source as RouteSource, Target};

/// `mpls` of an interface.
pub(super) fn enabled(_: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_unless("mpls", i.features.mpls, false);
}

/// The section.
pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let tables = from.router.label_tables();
    let own: Vec<Node> = tables.iter().filter(|t| t.id != 0).map(|t| Node::Plain(t.id.to_string())).collect();
    to.put_some("tables", Some(Node::Row(own)));
    let mut labels = vec![];
    for t in &tables {
        let routes = from.router.label_routes(t.id, 0).filter(|r| r.source == RouteSource::Static);
        labels.extend(routes.filter_map(|r| label(from.router, t.id, &r)).map(Node::Text));
    }
    to.put_some("local-labels", Some(Node::List(labels)));
    let mut tunnels = Map::new();
    for t in from.router.tunnels() {
        let mut fields = Map::new();
        fields.put_unless("l2-only", t.config.l2_only, false).put_unless(
            "control-word",
            t.config.control_word,
            false,
        );
        let paths = t.config.paths.iter().map(|p| Node::text(path_words(from.router, false, p)));
        fields.put("via", Node::List(paths.collect()));
        tunnels.put(from.router.interface_name(t.interface), fields);
    }
    to.put_some("tunnels", Some(tunnels));
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
