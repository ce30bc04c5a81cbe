//! When prefixes changed last: kept beside the table, of the last ones that did and not of a full table.

use super::{RouteTable, Router};
use crate::neighbor::Millis;
use ipnet::IpNet;
use std::collections::VecDeque;

/// The most changes of a table that are kept.
const MOST: usize = 16_384;

/// When prefixes of a table changed.
#[derive(Default)]
pub(super) struct Stamps {
    /// The last changes, in order.
    last: VecDeque<(IpNet, Millis)>,
    /// Prefixes that are not among them changed no later.
    others: Millis,
}

/// When what a prefix leads to changed last, by the router's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The time.
    pub at: Millis,
    /// False: then, or earlier.
    pub exact: bool,
}

impl Stamps {
    /// These prefixes changed now; `None` for very many.
    pub fn note(&mut self, changed: Option<&[IpNet]>, now: Millis) {
        let Some(list) = changed.filter(|list| list.len() <= MOST) else {
            self.last.clear();
            self.others = now;
            return;
        };
        let room = MOST - list.len();
        if self.last.len() > room {
            let gone = self.last.drain(..self.last.len() - room).next_back();
            self.others = gone.map_or(self.others, |(_, at)| at);
        }
        self.last.extend(list.iter().map(|p| (*p, now)));
    }
}

impl Router {
    /// When the group changed that a prefix of a table leads to. Known exactly of the last thousands that changed in small
    /// numbers.
    pub fn route_changed(&self, table: RouteTable, prefix: IpNet) -> Changed {
        let Some(vrf) = self.fibs.of(table) else { return Changed { at: Millis(0), exact: false } };
        match vrf.stamps.last.iter().rev().find(|(p, _)| *p == prefix) {
            Some((_, at)) => Changed { at: *at, exact: true },
            None => Changed { at: vrf.stamps.others, exact: false },
        }
    }
}
