//! The section `punt`: limits that are not the default ones.

use super::Source;
use crate::written::{Map, Node};
use net::punt::Limit;

pub(super) fn write(from: Source<'_>, to: &mut Map) {
    for row in net::copp::rows(from.router) {
        if row.limit == Some(row.class.default_limit()) {
            continue;
        }
        let node = match row.limit {
            None => Node::Plain("off".into()),
            Some(Limit { rate, burst }) => {
                let mut limit = Map::new();
                limit.put("rate", rate).put("burst", burst);
                Node::Flow(limit)
            }
        };
        to.put(row.class.name(), node);
    }
}
