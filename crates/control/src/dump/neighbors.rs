//! The section `neighbors`: static entries. Learned ones are no configuration.

use super::{PAGE, Pages, Pieces, Source};
use crate::written::{Map, Node};
use net::neighbor::State;
use net::router::Order;
use std::net::IpAddr;

/// All of them, in the order of interfaces, and by address.
#[derive(Default)]
pub(super) struct Neighbors {
    /// The last interface that is written.
    done: Option<Order>,
    /// The address behind which the next one goes on.
    after: Option<IpAddr>,
}

impl Pages for Neighbors {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        // Learned ones, and interfaces without any, are passed over, but not endlessly within one page.
        let (mut seen, mut items) = (0, vec![]);
        for i in from.router.interfaces_after(self.done) {
            for n in from.router.neighbors_on(i.index, self.after) {
                if seen >= PAGE {
                    to.items(items);
                    return true;
                }
                seen += 1;
                self.after = Some(n.addr);
                let Some(mac) =
                    n.mac.filter(|_| n.state == State::Static && !i.elsewhere.neighbors.contains(&n.addr))
                else {
                    continue;
                };
                let mut item = Map::new();
                item.put("interface", i.name.as_str());
                item.put("address", Node::text(n.addr)).put("mac", Node::text(mac));
                items.push(Node::Flow(item));
            }
            seen += 1;
            (self.done, self.after) = (Some(i.order()), None);
            if seen >= PAGE {
                to.items(items);
                return true;
            }
        }
        to.items(items);
        false
    }
}
