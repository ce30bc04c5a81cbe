//! The section `span`: mirrors, by source in the order of interfaces, then those of bridge domains, and by the name of the destination.

use super::{Pages, Pieces, Source, each};
use crate::written::{Map, Node};
use net::router::Order;
use net::span::{self, Directions, Told};

/// All of them.
#[derive(Default)]
pub(super) struct Mirrors(Option<Order>);

/// One of a source to destinations.
fn put(items: &mut Vec<Node>, field: &'static str, source: &str, mut to: Vec<(String, Told)>) {
    to.sort_by(|a, b| a.0.cmp(&b.0));
    for (destination, Told { directions, l2 }) in to {
        let mut item = Map::new();
        item.put(field, source).put("destination", destination);
        item.put_unless("direction", directions.name(), Directions::ALL[0].0);
        item.put_unless("l2", l2, false);
        items.push(Node::Flow(item));
    }
}

impl Pages for Mirrors {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let name = |index| from.router.interface_name(index);
        let mut items = vec![];
        let more = each(from, &mut self.0, |i| {
            let all = span::mirrors(from.router, i.index).map(|(to, told)| (name(to), told));
            put(&mut items, "source", &i.name, all.collect());
        });
        if !more {
            let all: Vec<_> = span::bridges(from.router).collect();
            for of_one in all.chunk_by(|a, b| a.0 == b.0) {
                let to = of_one.iter().map(|(_, to, told)| (name(*to), *told)).collect();
                put(&mut items, "bridgedomain", &format!("bd{}", of_one[0].0), to);
            }
        }
        to.items(items);
        more
    }
}
