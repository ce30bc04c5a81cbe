//! The section `neighbors`: static entries. Learned ones are no configuration.

use super::{Map, Node, PAGE, Pages, Source};
use net::neighbor::State;
use std::net::IpAddr;

/// All of them, by interface and address.
#[derive(Default)]
pub(super) struct Neighbors {
    after: Option<(u32, IpAddr)>,
}

impl Pages for Neighbors {
    fn page(&mut self, from: Source<'_>, items: &mut Vec<Node>) -> bool {
        // Learned ones are passed over, but not endlessly within one page.
        for (seen, n) in from.router.neighbors_after(self.after).enumerate() {
            if items.len() >= PAGE || seen >= 16 * PAGE {
                return true;
            }
            self.after = Some((n.interface, n.addr));
            let Some(mac) = n.mac.filter(|_| n.state == State::Static) else { continue };
            let mut item = Map::new();
            item.put("interface", from.router.interface_name(n.interface));
            item.put("address", Node::text(n.addr)).put("mac", Node::text(mac));
            items.push(Node::Flow(item));
        }
        false
    }
}
