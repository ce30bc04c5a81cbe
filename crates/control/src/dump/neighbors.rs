//! The section `neighbors`: static entries. Learned ones are no configuration.

use super::{Map, Node, PAGE, Pages, Source};
use net::neighbor::State;
use std::net::IpAddr;

/// All of them, in the order of interfaces, and by address.
#[derive(Default)]
pub(super) struct Neighbors {
    /// Interfaces that are not written yet, the last first.
    left: Option<Vec<u32>>,
    /// The address behind which the first of them goes on.
    after: Option<IpAddr>,
}

impl Pages for Neighbors {
    fn page(&mut self, from: Source<'_>, items: &mut Vec<Node>) -> bool {
        let all = || {
            let mut all: Vec<u32> = from.router.interfaces().map(|i| i.index).collect();
            all.reverse();
            all
        };
        let left = self.left.get_or_insert_with(all);
        // Learned ones are passed over, but not endlessly within one page.
        let mut seen = 0;
        while let Some(interface) = left.last().copied() {
            for n in from.router.neighbors_on(interface, self.after) {
                if items.len() >= PAGE || seen >= 16 * PAGE {
                    return true;
                }
                seen += 1;
                self.after = Some(n.addr);
                let Some(mac) = n.mac.filter(|_| n.state == State::Static) else { continue };
                let mut item = Map::new();
                item.put("interface", from.router.interface_name(interface));
                item.put("address", Node::text(n.addr)).put("mac", Node::text(mac));
                items.push(Node::Flow(item));
            }
            left.pop();
            self.after = None;
        }
        false
    }
}
