//! The section `span`: mirrors, by source in the order of interfaces, and by the name of the destination.

use super::{Map, Node, Pages, Pieces, Source, each};
use net::router::Order;
use net::span::{self, Directions};

/// All of them.
#[derive(Default)]
pub(super) struct Mirrors(Option<Order>);

impl Pages for Mirrors {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let mut items = vec![];
        let more = each(from, &mut self.0, |i| {
            let named = |(to, directions)| (from.router.interface_name(to), directions);
            let mut mirrors: Vec<(String, Directions)> =
                span::mirrors(from.router, i.index).map(named).collect();
            mirrors.sort_by(|a, b| a.0.cmp(&b.0));
            for (destination, directions) in mirrors {
                let mut item = Map::new();
                item.put("source", i.name.as_str()).put("destination", destination);
                item.put_unless("direction", directions.name(), Directions::ALL[0].0);
                items.push(Node::Flow(item));
            }
        });
        to.items(items);
        more
    }
}
