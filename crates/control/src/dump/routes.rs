//! The section `routes`: static routes, one a line in the form that is read fastest.

use super::{PAGE, Pages, Pieces, Source};
use crate::written::{Node, write_text_item};
use ipnet::IpNet;
use net::router::{GroupId, Lookup, Rank, RoutePath, RouteTable, Router, Target};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Routes of a page of text.
const LINES: usize = 10 * PAGE;

/// All of them, by family and prefix.
pub(super) struct Routes {
    table: RouteTable,
    after: Option<IpNet>,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { table: RouteTable::V4, after: None }
    }
}

impl Routes {
    /// Calls `take` with the next `most` routes, about, and what stands behind the prefix of each; false at the end.
    fn walk(&mut self, from: Source<'_>, most: usize, mut take: impl FnMut(IpNet, &str)) -> bool {
        // Many routes share few groups: their words are made once a page.
        let mut words: HashMap<GroupId, Option<String>> = HashMap::new();
        let place = if self.table.id == 0 { String::new() } else { format!("table {} ", self.table.id) };
        let mut taken = 0;
        // Routes of other sources are passed over, but not endlessly within one page.
        for (seen, r) in from.router.routes_after(self.table, self.after).enumerate() {
            if taken >= most || seen >= 4 * most {
                return true;
            }
            self.after = Some(r.prefix);
            for group in from.router.static_routes_at(&r) {
                let words = words.entry(group).or_insert_with(|| {
                    let group = from.router.group(group)?;
                    let target = target_words(from.router, self.table, &group.target)?;
                    Some(format!("{place}{}{target}", rank_words(group.rank)))
                });
                if let Some(words) = words {
                    take(r.prefix, words);
                    taken += 1;
                }
            }
        }
        // The next table: of IPv4 in the order of their numbers, then of IPv6.
        let RouteTable { v6, id } = self.table;
        let next = from.router.table_after(self.table).or((!v6).then_some(RouteTable::V6));
        debug_assert!(next.is_none_or(|n| n.v6 != v6 || n.id > id));
        *self = Routes { table: next.unwrap_or(self.table), after: None };
        next.is_some()
    }
}

impl Pages for Routes {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let mut items = vec![];
        let line = |prefix, words: &str| items.push(Node::Text(format!("{prefix} {words}")));
        let more = self.walk(from, PAGE, line);
        to.items(items);
        more
    }

    fn lines(&mut self, from: Source<'_>, depth: usize, out: &mut String) -> Option<bool> {
        Some(self.walk(from, LINES, |prefix, words| {
            write_text_item(out, depth, |out| _ = write!(out, "{prefix} {words}"));
        }))
    }
}

/// Preference and metric of a static route, where they are not the usual ones.
fn rank_words(rank: Rank) -> String {
    let mut out = String::new();
    if rank.preference != Rank::STATIC.preference {
        let _ = write!(out, "preference {} ", rank.preference);
    }
    if rank.metric != Rank::STATIC.metric {
        let _ = write!(out, "metric {} ", rank.metric);
    }
    out
}

/// What stands behind the prefix; `None` for a target that no static route has.
pub(crate) fn target_words(router: &Router, table: RouteTable, target: &Target) -> Option<String> {
    Some(match target {
        Target::Drop => "drop".into(),
        Target::Unreachable => "unreachable".into(),
        Target::Prohibit => "prohibit".into(),
        Target::Paths(paths) => {
            let paths: Vec<String> = paths.iter().map(|p| path_words(router, table.v6, p)).collect();
            format!("via {}", paths.join(", "))
        }
        _ => return None,
    })
}

/// A path of a route, IPv6 or not, or of a label.
pub(super) fn path_words(router: &Router, v6: bool, p: &RoutePath) -> String {
    let mut out = String::new();
    if let Some(a) = p.address {
        let _ = write!(out, "{a}");
    }
    if p.lookup == Lookup::Frame {
        out.push_str("l2-input-on");
    }
    if let Some(i) = p.interface {
        let _ = write!(out, "{}{}", if out.is_empty() { "" } else { " " }, router.interface_name(i));
    }
    match (p.table, p.address) {
        (Some(t), Some(_)) => _ = write!(out, " next-hop-table {t}"),
        (Some(t), None) => _ = write!(out, "{}-lookup-in-table {t}", p.lookup.word(v6)),
        (None, _) => {}
    }
    if p.weight != 1 {
        let _ = write!(out, " weight {}", p.weight);
    }
    if p.mtu != 0 {
        let _ = write!(out, " mtu {}", p.mtu);
    }
    if !p.labels.is_none() {
        let _ = write!(out, " {}", p.labels);
    }
    out
}
