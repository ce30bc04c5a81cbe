//! The kernel's routes as its messages tell of them: what changed with each message, and with each reading of all.
//!
//! Pure: messages go in, changes come out. Where the kernel takes routes out without a word (IPv4 routes of a device that goes down, of
//! an address or nexthop object that goes), or does not tell which of several it uses (IPv6 routes of one prefix and metric), the mirror
//! says that all has to be read anew.

use crate::address::{self, Address};
use crate::contents::{ContentId, Contents};
use crate::labels::LabelRoutes;
use crate::link;
use crate::nexthop::{self, Nexthops};
use crate::route::{self, Action, Change, Key, LabelChange, RTPROT_KERNEL, RTPROT_RA, Route, RouteMessage};
use crate::routes::{Routes, SEEN};
use crate::wire::{Message, NLM_F_APPEND, NLM_F_REPLACE, kind};
use ipnet::IpNet;
use std::collections::HashMap;
use std::sync::Arc;

/// The kernel's table of its own addresses.
const RT_TABLE_LOCAL: u32 = 255;

/// Why all routes have to be read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The kernel may have taken routes out without a word.
    Silent,
    /// Messages were lost.
    Overflow,
}

/// The mirror.
#[derive(Debug, Default)]
pub struct Mirror {
    routes: Routes,
    /// Routes of a key behind the first, which alone is used.
    behind: HashMap<Key, Vec<ContentId>>,
    contents: Contents,
    nexthops: Nexthops,
    labels: LabelRoutes,
    /// The tables of devices by which packets are looked up that have lost their label.
    tables: HashMap<u32, u32>,
    /// A label leads over a device of which nothing is known.
    asks: bool,
    seen: u32,
    doubt: Option<Doubt>,
}

/// Whether a message is one of a label's route.
fn is_labels(m: &Message<'_>) -> bool {
    m.body.first() == Some(&route::AF_MPLS)
}

impl Mirror {
    /// A mirror of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many different contents the routes have.
    pub fn contents(&self) -> usize {
        self.contents.len()
    }

    /// How many nexthop objects there are.
    pub fn nexthops(&self) -> usize {
        self.nexthops.count()
    }

    /// How many labels have a route.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// The routes of labels.
    pub fn label_routes(&self) -> impl Iterator<Item = (u32, &Arc<Route>)> {
        self.labels.iter()
    }

    /// What has changed of the routes of labels since this was asked last.
    pub fn take_label_changes(&mut self) -> Vec<LabelChange> {
        self.labels.take_changes()
    }

    /// Takes a message of a label's route, if it is one.
    fn take_label(&mut self, m: &Message<'_>) {
        if let Some((label, mut route)) = route::parse_label(m.body) {
            match m.kind {
                kind::RTM_DELROUTE => self.labels.remove(label),
                _ => {
                    for p in route.paths.iter_mut().filter(|p| p.gateway.is_none()) {
                        p.table = self.tables.get(&p.ifindex).copied();
                        self.asks |= p.table.is_none();
                    }
                    self.labels.set(label, route);
                }
            }
        }
    }

    /// Takes what a device is.
    fn take_link(&mut self, ifindex: u32, table: Option<u32>) {
        let was = match table {
            Some(table) => self.tables.insert(ifindex, table),
            None => self.tables.remove(&ifindex),
        };
        if was != table {
            self.labels.follow(ifindex, table);
        }
    }

    /// Whether labels lead over devices of which nothing was known, since this was asked last: of one who does not tell of devices.
    pub fn asks_for_devices(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// Devices have to be asked for: those that there were may have changed, or could not be read.
    pub fn ask_for_devices(&mut self) {
        self.asks = true;
    }

    /// Takes what devices are: their tables, by Linux's index.
    pub fn take_devices(&mut self, tables: &HashMap<u32, u32>) {
        let gone: Vec<u32> = self.tables.keys().filter(|d| !tables.contains_key(d)).copied().collect();
        gone.into_iter().for_each(|ifindex| self.take_link(ifindex, None));
        tables.iter().for_each(|(ifindex, table)| self.take_link(*ifindex, Some(*table)));
    }

    /// Notes that all routes have to be read anew.
    pub fn doubt(&mut self, why: Doubt) {
        self.doubt = self.doubt.max(Some(why));
    }

    /// Why all routes have to be read anew, if they have to.
    pub fn take_doubt(&mut self) -> Option<Doubt> {
        self.doubt.take()
    }

    /// Takes a message of what changed. What that changes is appended to `out`.
    pub fn take(&mut self, m: &Message<'_>, out: &mut Vec<Change>) {
        match m.kind {
            kind::RTM_NEWROUTE | kind::RTM_DELROUTE if is_labels(m) => self.take_label(m),
            kind::RTM_NEWROUTE => match self.ours(m.body) {
                Some(r) => self.set(r, m.flags, out),
                None => self.displaced(m),
            },
            kind::RTM_DELROUTE => {
                if let Some(r) = self.ours(m.body) {
                    self.del(&r, out);
                }
            }
            kind::RTM_NEWNEXTHOP => {
                if let Some((id, nexthop)) = nexthop::parse(m.body)
                    && self.nexthops.set(id, nexthop)
                {
                    self.follow(id, out);
                }
            }
            kind::RTM_DELNEXTHOP => {
                if let Some((id, _)) = nexthop::parse(m.body) {
                    if self.contents.iter().any(|(_, r)| r.nexthop != 0 && self.nexthops.uses(r.nexthop, id))
                    {
                        self.doubt(Doubt::Silent);
                    }
                    self.nexthops.remove(id);
                }
            }
            kind::RTM_NEWLINK | kind::RTM_DELLINK => {
                let Some(link) = link::parse(m.body) else { return };
                self.take_link(link.ifindex, link.table().filter(|_| m.kind == kind::RTM_NEWLINK));
                // Without carrier a device loses the nexthop objects over it, and their routes.
                let down = m.kind == kind::RTM_DELLINK || !link.up || !link.carrier;
                let over = |r: &Route| r.paths.iter().any(|p| p.ifindex == link.ifindex);
                if down && self.contents.iter().any(|(_, r)| over(r)) {
                    self.doubt(Doubt::Silent);
                }
            }
            kind::RTM_DELADDR => {
                let Some(Address { ifindex, net, .. }) = address::parse(m.body) else { return };
                let address = net.addr();
                // Of IPv4, the routes with this source; with its last address a device loses all.
                let uses =
                    |r: &Route| r.source == Some(address) || r.paths.iter().any(|p| p.ifindex == ifindex);
                if self.contents.iter().any(|(_, r)| uses(r)) {
                    self.doubt(Doubt::Silent);
                }
            }
            _ => {}
        }
    }

    /// Takes a message of one who keeps routes himself, and tells of each what it is now: none stands behind another, and one that goes is named
    /// by its prefix alone.
    pub fn take_plain(&mut self, m: &Message<'_>, out: &mut Vec<Change>) {
        match m.kind {
            kind::RTM_NEWROUTE | kind::RTM_DELROUTE if is_labels(m) => self.take_label(m),
            kind::RTM_NEWROUTE => {
                if let Some(r) = self.ours(m.body) {
                    self.put(&r.key, &r.route, out);
                    // He may tell of a change as of one that goes and one that comes.
                    if let [.., gone, new] = &mut out[..]
                        && (gone.key, gone.is.is_none(), new.was.is_none()) == (new.key, true, true)
                    {
                        gone.is = new.is.take();
                        let same = gone.is == gone.was;
                        out.truncate(out.len() - 1 - usize::from(same));
                    }
                }
            }
            kind::RTM_DELROUTE => {
                if let Some(r) = route::parse(m.body)
                    && let Some(id) = self.routes.get(&r.key)
                {
                    self.remove(r.key, id, out);
                }
            }
            kind::RTM_NEWNEXTHOP => {
                if let Some((id, nexthop)) = nexthop::parse(m.body) {
                    self.nexthops.set(id, nexthop);
                    self.follow(id, out);
                }
            }
            kind::RTM_DELNEXTHOP => {
                if let Some((id, _)) = nexthop::parse(m.body) {
                    self.nexthops.remove(id);
                }
            }
            _ => {}
        }
    }

    /// All will be told anew by such a one, whether he came to an end the last time or not: what is not told until [`Mirror::end`] is gone.
    pub fn begin_anew(&mut self) {
        let (seen, tables) = (self.seen, std::mem::take(&mut self.tables));
        self.routes.mark(seen);
        self.begin();
        // These are Linux's.
        (self.tables, self.asks) = (tables, true);
    }

    /// All will be told anew: what is not told until [`Mirror::end`] is gone.
    pub fn begin(&mut self) {
        self.seen ^= SEEN;
        self.nexthops.clear();
        self.labels.begin();
        self.tables.clear();
        for (_, list) in self.behind.drain() {
            list.into_iter().for_each(|id| self.contents.release(id));
        }
    }

    /// Takes a message of a reading of all.
    pub fn told(&mut self, m: &Message<'_>, out: &mut Vec<Change>) {
        match m.kind {
            kind::RTM_NEWLINK => {
                self.tables.extend(link::parse(m.body).and_then(|l| Some((l.ifindex, l.table()?))));
            }
            kind::RTM_NEWNEXTHOP => {
                if let Some((id, nexthop)) = nexthop::parse(m.body) {
                    self.nexthops.set(id, nexthop);
                }
            }
            kind::RTM_NEWROUTE if is_labels(m) => self.take_label(m),
            kind::RTM_NEWROUTE => {
                let Some(r) = self.ours(m.body) else { return };
                // Told before in this reading: the kernel uses the first, of what routers advertise the one that is wanted most.
                if let Some(first) = self.routes.get(&r.key).filter(|id| id & SEEN == self.seen) {
                    let first = Arc::clone(self.contents.get(first & !SEEN));
                    let next = if r.route.wanted > first.wanted {
                        self.put(&r.key, &r.route, out);
                        &*first
                    } else {
                        &r.route
                    };
                    let id = self.contents.take(next);
                    self.behind.entry(r.key).or_default().push(id);
                } else {
                    self.put(&r.key, &r.route, out);
                }
            }
            _ => {}
        }
    }

    /// Ends a reading of all.
    pub fn end(&mut self, out: &mut Vec<Change>) {
        let (seen, contents) = (self.seen, &mut self.contents);
        let gone = |key: Option<Key>, id: ContentId| {
            let was = Some(Arc::clone(contents.get(id)));
            contents.release(id);
            out.extend(key.map(|key| Change { key, was, is: None }));
        };
        self.routes.sweep(seen, gone);
        self.labels.end();
    }

    /// All routes: of each key the one that the kernel uses.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Arc<Route>)> {
        self.routes.iter().map(|(key, id)| (key, self.contents.get(id & !SEEN)))
    }

    /// The route of a message, if it is one that others may forward by: not of the kernel's own making, but for those to peers.
    fn ours(&self, body: &[u8]) -> Option<RouteMessage> {
        let mut r = route::parse(body)?;
        if r.key.table == RT_TABLE_LOCAL || r.route.protocol == RTPROT_KERNEL && !r.is_to_peer() {
            return None;
        }
        // With nexthop_compat_mode off, the number is all that a route says.
        if r.route.nexthop != 0
            && r.route.paths.is_empty()
            && let Some((action, paths)) = self.nexthops.resolve(r.route.nexthop)
        {
            (r.route.action, r.route.paths) = (action, paths);
        }
        r.route.buckets = self.nexthops.buckets(r.route.nexthop);
        (!matches!(r.route.action, Action::Other(_))).then_some(r)
    }

    /// A route by which nobody else may forward may have taken the place of one of these.
    fn displaced(&mut self, m: &Message<'_>) {
        let known = |r: RouteMessage| self.routes.get(&r.key).is_some();
        if m.flags & NLM_F_APPEND == 0 && route::parse(m.body).is_some_and(known) {
            self.doubt(Doubt::Silent);
        }
    }

    /// The route that stands first has this content.
    fn put(&mut self, key: &Key, route: &Route, out: &mut Vec<Change>) {
        let id = self.contents.take(route) | self.seen;
        let old = self.routes.insert(key, id);
        if old.is_none_or(|old| old & !SEEN != id & !SEEN) {
            let was = old.map(|old| Arc::clone(self.contents.get(old & !SEEN)));
            out.push(Change { key: *key, was, is: Some(Arc::clone(self.contents.get(id & !SEEN))) });
        }
        if let Some(old) = old {
            self.contents.release(old & !SEEN);
        }
    }

    fn set(&mut self, r: RouteMessage, flags: u16, out: &mut Vec<Change>) {
        let first = self.routes.get(&r.key).map(|id| Arc::clone(self.contents.get(id & !SEEN)));
        let Some(first) = first.filter(|f| **f != r.route) else {
            return self.put(&r.key, &r.route, out);
        };
        if matches!(r.key.prefix, IpNet::V6(_)) {
            // Routes by next hops are told with all of them; others of one metric stand beside each other, in an order
            // that messages do not tell, and ways of one route may differ in what they are beside that. Those of routers'
            // advertisements are never one route.
            let alone = |r: &Route| {
                r.nexthop != 0
                    || r.protocol != RTPROT_RA
                        && r.paths.iter().all(|p| p.gateway.is_some())
                        && !r.paths.is_empty()
            };
            let beside = |r: &Route| (r.protocol, r.mtu, r.source, r.nexthop);
            let alike = beside(&first) == beside(&r.route);
            let told = (alike || flags & NLM_F_REPLACE != 0) && !self.behind.contains_key(&r.key);
            if !told || !alone(&r.route) || !alone(&first) {
                self.doubt(Doubt::Silent);
            }
            return self.put(&r.key, &r.route, out);
        }
        if flags & NLM_F_REPLACE != 0 {
            // A nexthop object that changes replaces routes that stand behind others, too.
            if r.route.nexthop != 0 && self.behind.contains_key(&r.key) {
                return self.doubt(Doubt::Silent);
            }
            return self.put(&r.key, &r.route, out);
        }
        if flags & NLM_F_APPEND != 0 {
            let id = self.contents.take(&r.route);
            self.behind.entry(r.key).or_default().push(id);
        } else {
            let id = self.contents.take(&first);
            self.behind.entry(r.key).or_default().insert(0, id);
            self.put(&r.key, &r.route, out);
        }
    }

    fn del(&mut self, r: &RouteMessage, out: &mut Vec<Change>) {
        let Some(id) = self.routes.get(&r.key) else { return };
        let first = Arc::clone(self.contents.get(id & !SEEN));
        if matches!(r.key.prefix, IpNet::V6(_)) && self.behind.contains_key(&r.key) {
            self.doubt(Doubt::Silent);
        }
        // One of those behind the first: nothing is to be seen of it.
        if let Some(list) = self.behind.get_mut(&r.key)
            && *first != r.route
            && let Some(at) = list.iter().position(|id| **self.contents.get(*id) == r.route)
        {
            self.contents.release(list.remove(at));
            if list.is_empty() {
                self.behind.remove(&r.key);
            }
            return;
        }
        // IPv6 tells of single next hops that go, where the others stay: by whom they were made is not told.
        let v6 = matches!(r.key.prefix, IpNet::V6(_));
        if v6 && first.paths.len() > r.route.paths.len() && r.route.paths.len() == 1 && first.nexthop == 0 {
            let gone = &r.route.paths[0];
            let same = |p: &&_| {
                let p: &route::Path = p;
                (p.gateway, p.ifindex) == (gone.gateway, gone.ifindex)
            };
            let mut paths: Vec<_> = first.paths.iter().filter(|p| !same(p)).cloned().collect();
            if let [one] = &mut paths[..] {
                one.weight = 1;
            }
            if paths.len() < first.paths.len() && !paths.is_empty() {
                self.doubt(Doubt::Silent);
                return self.put(&r.key, &Route { paths, ..(*first).clone() }, out);
            }
        }
        // Told late: all has been read meanwhile.
        if *first != r.route {
            return self.doubt(Doubt::Silent);
        }
        let next = self.behind.get_mut(&r.key).map(|list| list.remove(0));
        if self.behind.get(&r.key).is_some_and(Vec::is_empty) {
            self.behind.remove(&r.key);
        }
        if let Some(next) = next {
            let route = Arc::clone(self.contents.get(next));
            self.put(&r.key, &route, out);
            self.contents.release(next);
            return;
        }
        self.remove(r.key, id, out);
    }

    fn remove(&mut self, key: Key, id: ContentId, out: &mut Vec<Change>) {
        self.routes.remove(&key);
        let was = Some(Arc::clone(self.contents.get(id & !SEEN)));
        self.contents.release(id & !SEEN);
        out.push(Change { key, was, is: None });
    }

    /// A nexthop object has changed: so have the routes that name it.
    fn follow(&mut self, id: u32, out: &mut Vec<Change>) {
        let users: Vec<ContentId> = self
            .contents
            .iter()
            .filter(|(_, r)| r.nexthop != 0 && self.nexthops.uses(r.nexthop, id))
            .map(|(n, _)| n)
            .collect();
        for user in users {
            let route = self.contents.get(user);
            let Some((action, paths)) = self.nexthops.resolve(route.nexthop) else { continue };
            let buckets = self.nexthops.buckets(route.nexthop);
            let new = Route { action, paths, buckets, ..(**route).clone() };
            if new == **route {
                continue;
            }
            let was = self.contents.replace(user, new);
            let is = Arc::clone(self.contents.get(user));
            let all = self.routes.iter().filter(|(_, id)| *id & !SEEN == user);
            out.extend(all.map(|(key, _)| Change {
                key,
                was: Some(Arc::clone(&was)),
                is: Some(Arc::clone(&is)),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Messages, attribute};
    use proptest::prelude::*;
    use std::net::IpAddr;

    const KINDS: [u16; 9] = [
        kind::RTM_NEWLINK,
        kind::RTM_DELLINK,
        kind::RTM_NEWADDR,
        kind::RTM_DELADDR,
        kind::RTM_NEWROUTE,
        kind::RTM_NEWROUTE,
        kind::RTM_DELROUTE,
        kind::RTM_NEWNEXTHOP,
        kind::RTM_DELNEXTHOP,
    ];

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut m = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        m.extend([&kind.to_ne_bytes()[..], &[0; 10], body].concat());
        m
    }

    /// A device without a kind is Linux's `lo` where `flags` say so.
    fn device(ifindex: u32, flags: u32, vrf: Option<u32>) -> Vec<u8> {
        let mut body = [&[0; 4][..], &ifindex.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
        if let Some(table) = vrf {
            let data = attribute(2, &attribute(1, &table.to_ne_bytes()));
            body.extend(attribute(18, &[attribute(1, b"vrf\0"), data].concat()));
        }
        body
    }

    /// `ip -f mpls route add LABEL dev IFINDEX`.
    fn label(label: u32, ifindex: u32) -> Vec<u8> {
        let mut body = vec![route::AF_MPLS, 20, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
        body.extend(attribute(1, &(label << 12 | 0x100).to_be_bytes()));
        body.extend(attribute(4, &ifindex.to_ne_bytes()));
        body
    }

    /// The labels that changed, with the tables to which they lead.
    fn told_of(mirror: &mut Mirror) -> Vec<(u32, Option<u32>)> {
        let changes = mirror.take_label_changes();
        changes.iter().map(|c| (c.key, c.is.as_ref().and_then(|r| r.paths[0].table))).collect()
    }

    fn take(mirror: &mut Mirror, kind: u16, body: &[u8]) -> Vec<(u32, Option<u32>)> {
        let m = message(kind, body);
        Messages(&m).for_each(|m| mirror.take(&m, &mut vec![]));
        told_of(mirror)
    }

    #[test]
    fn labels_lead_into_the_tables_of_vrf_devices() {
        use kind::{RTM_DELLINK, RTM_NEWLINK, RTM_NEWROUTE};
        let mut m = Mirror::new();
        assert_eq!(take(&mut m, RTM_NEWLINK, &device(7, 0, Some(10))), []);
        assert_eq!(take(&mut m, RTM_NEWROUTE, &label(80, 7)), [(80, Some(10))]);
        // The label is told of first, or the device becomes another's.
        assert_eq!(take(&mut m, RTM_NEWROUTE, &label(81, 8)), [(81, None)]);
        assert_eq!(take(&mut m, RTM_NEWLINK, &device(8, 0, None)), []);
        assert_eq!(take(&mut m, RTM_NEWLINK, &device(8, 0, Some(20))), [(81, Some(20))]);
        assert_eq!(take(&mut m, RTM_NEWLINK, &device(8, 1, Some(20))), []);
        assert_eq!(take(&mut m, RTM_DELLINK, &device(8, 0, Some(20))), [(81, None)]);
        assert_eq!(take(&mut m, RTM_NEWLINK, &device(1, 8, None)), []);
        assert_eq!(take(&mut m, RTM_NEWROUTE, &label(82, 1)), [(82, Some(254))]);
        // All is read anew: devices before labels.
        m.begin();
        for (kind, body) in [
            (RTM_NEWLINK, device(7, 0, Some(11))),
            (RTM_NEWROUTE, label(80, 7)),
            (RTM_NEWROUTE, label(82, 1)),
        ] {
            Messages(&message(kind, &body)).for_each(|one| m.told(&one, &mut vec![]));
        }
        m.end(&mut vec![]);
        assert_eq!(told_of(&mut m), [(80, Some(11)), (82, None), (81, None)]);
        assert!(m.label_routes().all(|(label, _)| label != 81));
    }

    /// One who keeps routes himself does not tell what devices are: it is asked.
    #[test]
    fn devices_of_labels_are_asked_for() {
        let mut m = Mirror::new();
        let plain = |m: &mut Mirror, body: &[u8]| {
            let bytes = message(kind::RTM_NEWROUTE, body);
            Messages(&bytes).for_each(|one| m.take_plain(&one, &mut vec![]));
        };
        plain(&mut m, &label(80, 7));
        assert!(m.asks_for_devices() && !m.asks_for_devices());
        m.take_devices(&[(7, 10), (1, 254)].into());
        assert_eq!(told_of(&mut m), [(80, None), (80, Some(10))]);
        plain(&mut m, &label(81, 7));
        assert!(!m.asks_for_devices());
        m.take_devices(&[(1, 254)].into());
        assert_eq!(told_of(&mut m), [(81, Some(10)), (80, None), (81, None)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever comes: nothing panics, and what is told of a route fits what was told of it before.
        #[test]
        fn any_bytes_are_taken(messages in prop::collection::vec(
            (prop::sample::select(KINDS.to_vec()), any::<u16>(), any::<bool>(),
             prop::collection::vec(prop_oneof![4 => 0u8..12, 1 => any::<u8>()], 0..80)), 0..40)) {
            let mut mirror = Mirror::new();
            let mut known: HashMap<Key, Arc<Route>> = HashMap::new();
            for (kind, flags, family, body) in messages {
                let mut body = body;
                if let Some(first) = body.first_mut() {
                    *first = if family { route::AF_INET } else { route::AF_INET6 };
                }
                let mut m = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
                m.extend(kind.to_ne_bytes());
                m.extend(flags.to_ne_bytes());
                m.extend([0; 8]);
                m.extend(&body);
                let mut out = Vec::new();
                for m in Messages(&m) {
                    mirror.take(&m, &mut out);
                }
                for c in out {
                    let was = match c.is {
                        Some(r) => known.insert(c.key, r),
                        None => known.remove(&c.key),
                    };
                    prop_assert_eq!(was, c.was);
                }
            }
            let mut all = Vec::new();
            mirror.begin();
            mirror.end(&mut all);
            prop_assert_eq!(all.len(), known.len());
            prop_assert!(mirror.is_empty() && mirror.contents() == 0);
        }
    }

    /// A message of the IPv6 default route by way of a router that is advertised.
    fn advertised(router: u8, wanted: u8) -> Vec<u8> {
        let gateway = std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, router.into());
        let body = [
            vec![route::AF_INET6, 0, 0, 0, 254, RTPROT_RA, 0, 1, 0, 0, 0, 0],
            attribute(5, &gateway.octets()),
            attribute(4, &3u32.to_ne_bytes()),
            attribute(6, &1024u32.to_ne_bytes()),
            attribute(20, &[wanted]),
        ]
        .concat();
        message(kind::RTM_NEWROUTE, &body)
    }

    fn told(mirror: &mut Mirror, messages: &[Vec<u8>]) -> Vec<IpAddr> {
        let mut out = vec![];
        mirror.begin();
        for m in messages {
            Messages(m).for_each(|m| mirror.told(&m, &mut out));
        }
        mirror.end(&mut out);
        mirror.iter().filter_map(|(_, r)| r.paths[0].gateway).collect()
    }

    /// The second router is no more of the first one's route than the other way round, and the one that is wanted most is used.
    #[test]
    fn routers_that_are_advertised_stand_beside_each_other() {
        let [low, medium, high] = [advertised(1, 3), advertised(2, 0), advertised(3, 1)];
        let (mut mirror, mut out) = (Mirror::new(), vec![]);
        Messages(&low).for_each(|m| mirror.take(&m, &mut out));
        assert_eq!(mirror.take_doubt(), None);
        Messages(&high).for_each(|m| mirror.take(&m, &mut out));
        assert_eq!(mirror.take_doubt(), Some(Doubt::Silent));
        let by = |n: u8| IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, u16::from(n)]);
        assert_eq!(told(&mut mirror, &[low.clone(), high.clone(), medium.clone()]), [by(3)]);
        assert_eq!(told(&mut mirror, &[low, medium]), [by(2)]);
        assert_eq!(told(&mut mirror, &[high]), [by(3)]);
    }
}
