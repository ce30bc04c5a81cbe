//! Who has joined what, and when the link is told of it.
//!
//! A change is told at once and again once within a second; a query is answered at a random time within the
//! delay that it allows. Reports to older queriers name one group each.

use super::wire::Query;
use crate::neighbor::{Millis, random};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How often a change is told (RFC 3810 section 9.1).
const ROBUSTNESS: u8 = 2;
/// Within this time a change is told again, milliseconds (RFC 3810 section 9.11).
const UNSOLICITED_INTERVAL: u64 = 1000;
/// How long a query of an older version counts when none follows, besides the delay of its answers: twice the default query
/// interval (RFC 3810 section 9.12).
const OLD_QUERIER: u64 = 250_000;

/// What a report says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It is listened to, for all sources: MODE_IS_EXCLUDE.
    Is,
    /// It is listened to from now on: CHANGE_TO_EXCLUDE_MODE.
    Joined,
    /// It is not listened to any more: CHANGE_TO_INCLUDE_MODE.
    Left,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A report in the newest version.
    Report {
        /// The interface.
        interface: u32,
        /// Groups of one family.
        records: Vec<(Record, IpAddr)>,
    },
    /// A report of one group in an older version: 1 or 2 of IGMP, 1 of MLD.
    Old {
        /// The interface.
        interface: u32,
        /// The version.
        version: u8,
        /// The group is left.
        left: bool,
        /// The group.
        group: IpAddr,
    },
}

impl Action {
    /// Where it is sent.
    pub fn interface(&self) -> u32 {
        match self {
            Action::Report { interface, .. } | Action::Old { interface, .. } => *interface,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    joined: bool,
    /// How often the change is yet to be told, and when next.
    again: Option<(u8, Millis)>,
    /// When a query for it is to be answered.
    answer: Option<Millis>,
}

/// A family on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    up: bool,
    /// When a general query is to be answered.
    answer: Option<Millis>,
    /// The oldest version that a querier spoke, and until when that counts.
    old: Option<(u8, Millis)>,
    /// When anything of it is due first, as in [`MulticastTable::due`].
    next: Option<Millis>,
}

/// The groups of all interfaces.
#[derive(Debug)]
pub struct MulticastTable {
    members: BTreeMap<(u32, IpAddr), Member>,
    links: BTreeMap<(u32, bool), Link>,
    random: u64,
    /// The links of which something is due, each once, by time: one that has nothing to do is not looked at.
    due: BTreeSet<(Millis, u32, bool)>,
}

type Out<'a> = &'a mut Vec<Action>;

/// Groups of which nothing is said (RFC 3376 section 5, RFC 3810 section 6): all systems, and what does not leave the node.
fn is_silent(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(a) => a == packet::ip6::addr::ALL_NODES || a.segments()[0] & 0xf <= 1,
    }
}

impl MulticastTable {
    /// No groups. `seed` spreads answers.
    pub fn new(seed: u64) -> Self {
        MulticastTable {
            members: BTreeMap::new(),
            links: BTreeMap::new(),
            random: seed,
            due: BTreeSet::new(),
        }
    }

    fn range(&self, interface: u32) -> impl Iterator<Item = (IpAddr, &Member)> {
        let first = (interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let last = (interface, IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)));
        self.members.range(first..=last).map(|(k, m)| (k.1, m))
    }

    /// The groups that an interface has joined, in order.
    pub fn groups(&self, interface: u32) -> impl Iterator<Item = IpAddr> {
        self.range(interface).filter(|(_, m)| m.joined).map(|(g, _)| g)
    }

    fn wake(&mut self, at: Millis, interface: u32, v6: bool) {
        let Some(link) = self.links.get_mut(&(interface, v6)) else { return };
        if link.next.is_some_and(|next| next <= at) {
            return;
        }
        if let Some(was) = link.next.replace(at) {
            self.due.remove(&(was, interface, v6));
        }
        self.due.insert((at, interface, v6));
    }

    fn forget_links(&mut self, interface: u32) {
        for v6 in [false, true] {
            if let Some(at) = self.links.remove(&(interface, v6)).and_then(|l| l.next) {
                self.due.remove(&(at, interface, v6));
            }
        }
    }

    fn is_up(&self, interface: u32, v6: bool) -> bool {
        self.links.get(&(interface, v6)).is_some_and(|l| l.up)
    }

    /// The version that queriers of a family speak on a link, where it is an older one.
    pub fn old_version(&self, now: Millis, interface: u32, v6: bool) -> Option<u8> {
        self.links.get(&(interface, v6))?.old.filter(|(_, until)| now < *until).map(|(v, _)| v)
    }

    /// The interface is to be in these groups, and in no others.
    pub fn set(&mut self, now: Millis, interface: u32, groups: &BTreeSet<IpAddr>, out: Out<'_>) {
        let joined: BTreeSet<IpAddr> = self.groups(interface).collect();
        let mut changed = vec![];
        for group in groups.difference(&joined) {
            let new = Member { joined: true, again: None, answer: None };
            self.members.insert((interface, *group), new);
            changed.push(*group);
        }
        for group in joined.difference(groups) {
            if let Some(m) = self.members.get_mut(&(interface, *group)) {
                (m.joined, m.answer) = (false, None);
                changed.push(*group);
            }
        }
        if changed.is_empty() {
            return;
        }
        self.change(now, interface, changed, out);
        // What need not be told again is forgotten.
        for group in joined.difference(groups) {
            if self.members.get(&(interface, *group)).is_some_and(|m| m.again.is_none()) {
                self.members.remove(&(interface, *group));
            }
        }
    }

    /// Tells of a change of groups, and sees to it that it is told again.
    fn change(&mut self, now: Millis, interface: u32, groups: Vec<IpAddr>, out: Out<'_>) {
        for v6 in [false, true] {
            let list: Vec<IpAddr> =
                groups.iter().copied().filter(|g| g.is_ipv6() == v6 && !is_silent(*g)).collect();
            if !self.is_up(interface, v6) || list.is_empty() {
                continue;
            }
            let at = now.after(1 + random(&mut self.random) % UNSOLICITED_INTERVAL);
            self.wake(at, interface, v6);
            for g in &list {
                if let Some(m) = self.members.get_mut(&(interface, *g)) {
                    m.again = Some((ROBUSTNESS - 1, at));
                }
            }
            self.tell_changes(now, interface, v6, &list, out);
        }
    }

    fn tell_changes(&self, now: Millis, interface: u32, v6: bool, groups: &[IpAddr], out: Out<'_>) {
        let joined = |g: &IpAddr| self.members.get(&(interface, *g)).is_some_and(|m| m.joined);
        match self.old_version(now, interface, v6) {
            None => {
                let record = |g: &IpAddr| (if joined(g) { Record::Joined } else { Record::Left }, *g);
                out.push(Action::Report { interface, records: groups.iter().map(record).collect() });
            }
            Some(version) => out.extend(
                groups
                    .iter()
                    // IGMPv1 knows no leaving.
                    .filter(|g| joined(g) || v6 || version > 1)
                    .map(|g| Action::Old { interface, version, left: !joined(g), group: *g }),
            ),
        }
    }

    fn answer(&self, now: Millis, interface: u32, v6: bool, groups: Vec<IpAddr>, out: Out<'_>) {
        let groups = groups.into_iter().filter(|g| g.is_ipv6() == v6 && !is_silent(*g));
        match self.old_version(now, interface, v6) {
            None => {
                let records: Vec<_> = groups.map(|g| (Record::Is, g)).collect();
                if !records.is_empty() {
                    out.push(Action::Report { interface, records });
                }
            }
            Some(version) => {
                out.extend(groups.map(|group| Action::Old { interface, version, left: false, group }));
            }
        }
    }

    /// The interface can send: what it has joined is told.
    pub fn link_up(&mut self, now: Millis, interface: u32, out: Out<'_>) {
        if self.is_up(interface, false) {
            return;
        }
        for v6 in [false, true] {
            self.links.insert((interface, v6), Link { up: true, ..Link::default() });
        }
        let groups: Vec<IpAddr> = self.groups(interface).collect();
        self.change(now, interface, groups, out);
    }

    /// The interface cannot send. Groups stay joined; those that were left are forgotten.
    pub fn link_down(&mut self, interface: u32) {
        self.forget_links(interface);
        let all: Vec<IpAddr> = self.range(interface).map(|(g, _)| g).collect();
        for g in all {
            if let Some(m) = self.members.get_mut(&(interface, g)) {
                (m.again, m.answer) = (None, None);
                if !m.joined {
                    self.members.remove(&(interface, g));
                }
            }
        }
    }

    /// The interface is gone.
    pub fn removed(&mut self, interface: u32) {
        self.forget_links(interface);
        let all: Vec<IpAddr> = self.range(interface).map(|(g, _)| g).collect();
        for g in all {
            self.members.remove(&(interface, g));
        }
    }

    /// A querier asks (RFC 3810 section 6.2). An answer that is due sooner stands for this one, too.
    pub fn queried(&mut self, now: Millis, interface: u32, query: &Query) {
        let v6 = query.v6;
        let spread = random(&mut self.random) % (query.delay + 1);
        let Some(link) = self.links.get_mut(&(interface, v6)).filter(|l| l.up) else { return };
        if let Some(version) = query.old {
            let counts = link.old.filter(|(_, until)| now < *until);
            let oldest = counts.map_or(version, |(v, _)| v.min(version));
            let until = now.after(OLD_QUERIER + query.delay);
            // A newer one among the older does not prolong what the oldest said.
            let until = if version > oldest { counts.map_or(until, |c| c.1) } else { until };
            link.old = Some((oldest, until));
        }
        let at = now.after(spread);
        if link.answer.is_some_and(|due| due <= at) {
            return;
        }
        self.wake(at, interface, v6);
        match query.group {
            None => {
                if let Some(link) = self.links.get_mut(&(interface, v6)) {
                    link.answer = Some(at);
                }
            }
            Some(group) => {
                if let Some(m) = self.members.get_mut(&(interface, group)).filter(|m| m.joined) {
                    m.answer = Some(m.answer.map_or(at, |due| due.min(at)));
                }
            }
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Millis, out: Out<'_>) {
        let later = self.due.split_off(&(now.after(1), 0, false));
        for (_, interface, v6) in std::mem::replace(&mut self.due, later) {
            if let Some(link) = self.links.get_mut(&(interface, v6)) {
                link.next = None;
            }
            let due = |at: Option<Millis>| at.is_some_and(|at| at <= now);
            let whole = match self.links.get_mut(&(interface, v6)) {
                Some(l) if due(l.answer) => {
                    l.answer = None;
                    true
                }
                _ => false,
            };
            let mut answers = BTreeSet::new();
            let mut changes = vec![];
            let next = now.after(1 + random(&mut self.random) % UNSOLICITED_INTERVAL);
            let groups: Vec<IpAddr> =
                self.range(interface).map(|(g, _)| g).filter(|g| g.is_ipv6() == v6).collect();
            for g in groups.iter().copied() {
                let Some(m) = self.members.get_mut(&(interface, g)) else { continue };
                if m.joined && (whole || due(m.answer)) {
                    m.answer = None;
                    answers.insert(g);
                }
                if let Some((times, at)) = m.again
                    && at <= now
                {
                    changes.push(g);
                    m.again = (times > 1).then_some((times - 1, next));
                }
            }
            if !changes.is_empty() {
                self.tell_changes(now, interface, v6, &changes, out);
            }
            self.answer(now, interface, v6, answers.into_iter().collect(), out);
            let mut next = self.links.get(&(interface, v6)).and_then(|l| l.answer);
            for g in groups {
                match self.members.get(&(interface, g)) {
                    Some(m) if !m.joined && m.again.is_none() => _ = self.members.remove(&(interface, g)),
                    Some(m) => next = [next, m.again.map(|a| a.1), m.answer].into_iter().flatten().min(),
                    None => {}
                }
            }
            if let Some(at) = next {
                self.wake(at, interface, v6);
            }
        }
    }

    /// When to call [`MulticastTable::tick`] next; then there may be nothing to do yet.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.due.first().map(|(at, ..)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OSPF: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 5));
    const OTHER: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5));

    fn table() -> MulticastTable {
        let mut t = MulticastTable::new(1);
        let mut out = vec![];
        t.link_up(Millis(0), 1, &mut out);
        assert!(out.is_empty());
        t
    }

    impl MulticastTable {
        fn join(&mut self, now: Millis, interface: u32, group: IpAddr, out: Out<'_>) {
            let all = self.groups(interface).chain([group]).collect();
            self.set(now, interface, &all, out);
        }

        fn leave(&mut self, now: Millis, interface: u32, group: IpAddr, out: Out<'_>) {
            let all = self.groups(interface).filter(|g| *g != group).collect();
            self.set(now, interface, &all, out);
        }
    }

    fn run(t: &mut MulticastTable, until: u64) -> Vec<(u64, Action)> {
        let mut all = vec![];
        while let Some(at) = t.next_deadline().filter(|at| at.0 <= until) {
            let mut out = vec![];
            t.tick(at, &mut out);
            all.extend(out.into_iter().map(|a| (at.0, a)));
        }
        all
    }

    fn query(v6: bool, group: Option<IpAddr>, delay: u64, old: Option<u8>) -> Query {
        Query { v6, group, delay, old }
    }

    /// Each link stands among those that are due once at most, however often it is asked, and leaves nothing there.
    #[test]
    fn a_link_is_due_once() {
        let (mut t, mut out) = (table(), vec![]);
        t.join(Millis(0), 1, OSPF, &mut out);
        for n in 0..500 {
            t.queried(Millis(n), 1, &query(false, Some(OSPF), 10_000 - n, None));
            t.queried(Millis(n), 1, &query(false, None, 10_000 - n, None));
        }
        assert_eq!(t.due.len(), 1);
        for i in 2..100 {
            t.link_up(Millis(500), i, &mut out);
            t.join(Millis(500), i, OSPF, &mut out);
        }
        assert_eq!(t.due.len(), 99);
        for i in 2..100 {
            if i % 2 == 0 { t.link_down(i) } else { t.removed(i) }
        }
        assert_eq!(t.due.len(), 1);
        let sent = run(&mut t, 100_000);
        assert!(!sent.is_empty() && sent.iter().all(|(at, _)| *at <= 11_000), "{sent:?}");
        assert_eq!((t.due.len(), t.next_deadline()), (0, None));
    }

    #[test]
    fn a_change_is_told_twice() {
        for (group, kind) in [(OSPF, Record::Joined), (OTHER, Record::Joined)] {
            let mut t = table();
            let mut out = vec![];
            t.join(Millis(0), 1, group, &mut out);
            let want = Action::Report { interface: 1, records: vec![(kind, group)] };
            assert_eq!(out, std::slice::from_ref(&want));
            let later = run(&mut t, 10_000);
            assert!(matches!(later.as_slice(), [(1..=1000, a)] if *a == want), "{later:?}");
            out.clear();
            t.leave(Millis(20_000), 1, group, &mut out);
            let want = Action::Report { interface: 1, records: vec![(Record::Left, group)] };
            assert_eq!((out, t.groups(1).count()), (vec![want.clone()], 0));
            assert!(matches!(run(&mut t, 30_000).as_slice(), [(_, a)] if *a == want));
            assert!(t.members.is_empty() && run(&mut t, u64::MAX).is_empty());
        }
    }

    #[test]
    fn all_systems_is_never_told() {
        let mut t = table();
        let mut out = vec![];
        t.join(Millis(0), 1, "224.0.0.1".parse().unwrap(), &mut out);
        t.join(Millis(0), 1, "ff02::1".parse().unwrap(), &mut out);
        t.queried(Millis(0), 1, &query(false, None, 100, None));
        t.queried(Millis(0), 1, &query(true, None, 100, None));
        assert!(out.is_empty() && run(&mut t, 1000).is_empty());
        assert_eq!(t.groups(1).count(), 2);
    }

    #[test]
    fn a_general_query_is_answered_with_everything_once() {
        let mut t = table();
        let mut out = vec![];
        for n in 1..=3 {
            t.join(Millis(0), 1, Ipv4Addr::new(239, 0, 0, n).into(), &mut out);
        }
        run(&mut t, 5000);
        t.queried(Millis(6000), 1, &query(false, None, 1000, None));
        t.queried(Millis(6000), 1, &query(false, Some("239.0.0.1".parse().unwrap()), 5000, None));
        let got = run(&mut t, 20_000);
        let Some((at, Action::Report { records, .. })) = got.first() else { panic!("{got:?}") };
        assert!((6000..=7000).contains(at));
        assert_eq!(records.len(), 3);
        assert!(records.iter().all(|r| r.0 == Record::Is));
    }

    #[test]
    fn a_query_for_a_group_is_answered_for_it_alone() {
        let mut t = table();
        let mut out = vec![];
        t.join(Millis(0), 1, OSPF, &mut out);
        t.join(Millis(0), 1, "239.0.0.9".parse().unwrap(), &mut out);
        run(&mut t, 5000);
        t.queried(Millis(6000), 1, &query(false, Some("239.9.9.9".parse().unwrap()), 100, None));
        assert!(run(&mut t, 7000).is_empty());
        t.queried(Millis(8000), 1, &query(false, Some(OSPF), 100, None));
        let want = Action::Report { interface: 1, records: vec![(Record::Is, OSPF)] };
        assert!(matches!(run(&mut t, 9000).as_slice(), [(8000..=8100, a)] if *a == want));
    }

    #[test]
    fn an_older_querier_gets_its_own_version_until_it_is_gone() {
        let mut t = table();
        let mut out = vec![];
        t.join(Millis(0), 1, OTHER, &mut out);
        run(&mut t, 5000);
        t.queried(Millis(6000), 1, &query(true, None, 100, Some(1)));
        let old = |left| Action::Old { interface: 1, version: 1, left, group: OTHER };
        assert!(matches!(run(&mut t, 7000).as_slice(), [(_, a)] if *a == old(false)));
        out.clear();
        t.leave(Millis(8000), 1, OTHER, &mut out);
        assert_eq!(out, [old(true)]);
        run(&mut t, 10_000);
        out.clear();
        t.join(Millis(6100 + OLD_QUERIER), 1, OTHER, &mut out);
        assert!(matches!(out.as_slice(), [Action::Report { .. }]), "{out:?}");
        // IGMPv1 knows no leaving.
        let mut t = table();
        t.join(Millis(0), 1, OSPF, &mut vec![]);
        t.queried(Millis(6000), 1, &query(false, None, 100, Some(1)));
        run(&mut t, 8000);
        out.clear();
        t.leave(Millis(9000), 1, OSPF, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn a_link_that_comes_up_is_told_everything() {
        let mut t = MulticastTable::new(1);
        let mut out = vec![];
        t.join(Millis(0), 1, OSPF, &mut out);
        t.join(Millis(0), 1, OTHER, &mut out);
        assert!(out.is_empty());
        t.link_up(Millis(9), 1, &mut out);
        assert_eq!(out.len(), 2);
        t.link_down(1);
        t.queried(Millis(10), 1, &query(false, None, 100, None));
        assert!(run(&mut t, u64::MAX).is_empty(), "nothing is said on a link that is down");
        t.removed(1);
        assert_eq!(t.groups(1).count(), 0);
    }
}
