//! Unicast reverse path forwarding (RFC 3704, RFC 8704): a packet passes when there is a way back to its source, over any
//! interface (loose) or over the one on which it came (strict).
//!
//! A way back is a path of the route for the source that sends packets to neighbours. Sources that are the router's own, that
//! no route holds, or that a route drops have none: a route to `drop` takes a source out of service everywhere. With several
//! paths any of them is good. The default route is a route. IPv6 link-local sources are on their link, whichever it is; what
//! comes from the unspecified address is no unicast packet, or was refused before.
//!
//! Packets sent can be checked as well, as in VPP: there must be a way back (loose), and it must not lead over the interface
//! over which they leave (strict). What the router says itself passes. Sources are looked up in the routing table of the
//! interface, or in one that the operator names.

mod commands;
mod ip4;
mod ip6;
mod out;
mod part;

pub use ip4::Ip4Urpf;
pub use ip6::Ip6Urpf;
pub use out::{Out4, Out6, UrpfOut};
pub(crate) use part::SourceChecks;
pub use part::{SourceCheck, rule};

use crate::adjacency::Adjacency;
use crate::arcs;
use crate::interface::{Column, Declared, Interface, Setting, Switch, Word};
use crate::plane::table::{Family, View};
use crate::plane::{Plane, kind};
use graph::arcs::Feature;
use graph::{Desc, Guard, LookupNode, flags, quick};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use tables::groups::{Entry, GroupId, GroupsReader, Paths};
use tables::slots::SlotsReader;

static IP4: Feature = Feature::new(&arcs::IP4_UNICAST, Ip4Urpf::NAME);
static IP6: Feature = Feature::new(&arcs::IP6_UNICAST, Ip6Urpf::NAME);
static IP4_OUT: Feature = Feature::new(&arcs::IP4_OUTPUT, UrpfOut::<Out4>::NAME);
static IP6_OUT: Feature = Feature::new(&arcs::IP6_OUTPUT, UrpfOut::<Out6>::NAME);

// An operator is told of them by `SourceCheck`, with the table's number.
static RX4: Setting<Rule> = Setting::new("", "").own_op();
static RX6: Setting<Rule> = Setting::new("", "").own_op();
static TX4: Setting<Rule> = Setting::new("", "").own_op();
static TX6: Setting<Rule> = Setting::new("", "").own_op();

/// Of packets received and sent, for IPv4 and IPv6.
static RULES: [[&Setting<Rule>; 2]; 2] = [[&RX4, &RX6], [&TX4, &TX6]];

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 4] = [&RX4.declared, &RX6.declared, &TX4.declared, &TX6.declared];

/// What they are switched on by.
pub static SWITCHES: [Switch; 4] = [
    Switch { feature: &IP4, on: |s| s.get(&RX4).mode != Mode::Off },
    Switch { feature: &IP6, on: |s| s.get(&RX6).mode != Mode::Off },
    Switch { feature: &IP4_OUT, on: |s| s.get(&TX4).mode != Mode::Off },
    Switch { feature: &IP6_OUT, on: |s| s.get(&TX6).mode != Mode::Off },
];

/// How many rules name a table: of IPv4, and of IPv6.
#[derive(Debug, Default)]
struct Named([AtomicU32; 2]);

/// Where the way back may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is checked.
    #[default]
    Off,
    /// Over any interface.
    Loose,
    /// Over the interface on which the packet came.
    Strict,
}

impl Mode {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Loose => "loose",
            Mode::Strict => "strict",
        }
    }
}

/// What is checked of the packets of one family in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What.
    pub mode: Mode,
    /// Place of the routing table in which sources are looked up; [`Rule::OWN`]: that of the interface.
    pub fib_index: u32,
}

impl Rule {
    /// The table of the interface itself.
    pub const OWN: u32 = u32::MAX;

    /// The FIB index of a table that the operator named.
    pub fn named(self) -> Option<u32> {
        (self.fib_index != Rule::OWN).then_some(self.fib_index)
    }
}

impl Default for Rule {
    fn default() -> Self {
        Rule { mode: Mode::Off, fib_index: Rule::OWN }
    }
}

impl Word for Rule {
    fn to_word(self) -> u64 {
        u64::from(self.fib_index.wrapping_add(1)) << 8 | self.mode as u64
    }

    fn from_word(word: u64) -> Self {
        let mode = match word as u8 {
            0 => Mode::Off,
            1 => Mode::Loose,
            _ => Mode::Strict,
        };
        Rule { mode, fib_index: ((word >> 8) as u32).wrapping_sub(1) }
    }
}

graph::edges! {
    /// Where `ip4-urpf` sends packets.
    pub enum Ip4UrpfNext { Features => "@ip4-unicast" }
}

graph::edges! {
    /// Where `ip6-urpf` sends packets.
    pub enum Ip6UrpfNext { Features => "@ip6-unicast" }
}

/// No group has this number.
const NONE: u32 = u32::MAX;

/// What both nodes judge sources by: a snapshot of one vector.
#[derive(Clone, Copy)]
pub struct Check<'v> {
    groups: GroupsReader<'v>,
    adjacencies: SlotsReader<'v, Adjacency>,
    interfaces: SlotsReader<'v, Interface>,
    rule: Column<Rule>,
    named: bool,
}

/// What the nodes of a family and direction keep for it.
pub(crate) struct Source {
    plane: Arc<Plane>,
    rule: Column<Rule>,
    named: Arc<Named>,
    v6: bool,
}

impl Source {
    fn new(plane: &Arc<Plane>, v6: bool, rule: &Setting<Rule>) -> Self {
        Source { plane: Arc::clone(plane), rule: plane.columns.of(rule), named: plane.shared(), v6 }
    }

    fn check<'v>(&'v self, guard: &'v Guard) -> Check<'v> {
        let plane = &*self.plane;
        Check {
            groups: plane.groups.reader(),
            adjacencies: plane.adjacencies.reader(guard),
            interfaces: plane.interfaces.reader(guard),
            rule: self.rule,
            named: self.named.0[usize::from(self.v6)].load(Relaxed) != 0,
        }
    }
}

impl Check<'_> {
    /// What is checked on an interface.
    fn rule(&self, interface: u32) -> Rule {
        self.interfaces.get(interface).map_or(Rule::default(), |i| i.settings.get(self.rule))
    }

    /// What is checked on interface `rx`.
    fn mode(&self, rx: u32) -> Mode {
        self.rule(rx).mode
    }

    /// Whether packets that came on `rx` may be from a source whose route points to `group`.
    fn accepts(&self, mode: Mode, rx: u32, group: GroupId) -> bool {
        mode == Mode::Off || self.leads_back(group, (mode == Mode::Strict).then_some(rx))
    }

    /// Whether a path of `group` leads to neighbours, over any interface or a certain one.
    fn leads_back(&self, group: GroupId, over: Option<u32>) -> bool {
        let back = |e: Entry| {
            (kind::is_neighbor(e.kind) || e.kind == kind::GLEAN)
                && over.is_none_or(|over| self.adjacencies.get(e.adj).is_some_and(|a| a.interface == over))
        };
        match self.groups.paths(group) {
            Paths::One(e) => back(e),
            Paths::Many(word) => self.groups.all(word).any(back),
        }
    }

    /// Looks up the sources of packets received, each in the table of its interface's rule.
    #[inline(always)]
    fn lookup<F: Family>(
        &self,
        tables: &mut View<'_, F>,
        descs: &[Desc],
        keys: &[F::Key],
        results: &mut [u32],
    ) {
        if self.named {
            let fib_index = |d: &Desc| self.rule(d.rx).named().unwrap_or_else(|| tables.fib_index(d));
            tables.lookup_at(descs, keys, results, fib_index);
        } else {
            tables.lookup(descs, keys, results);
        }
    }

    /// The short cut of both nodes: takes packets with good sources and the features `feat` yet to visit.
    #[inline(always)]
    fn quick<K: Copy>(
        self,
        feat: u32,
        descs: &mut [Desc],
        keys: &[K],
        results: &[u32],
        passes: impl Fn(&K) -> bool,
    ) -> usize {
        // Most packets are like the first: what differs among some is seen at once.
        let mut taken = 0;
        if let (Some(first), Some(&found)) = (descs.first(), results.first()) {
            let rx = first.rx;
            if self.accepts(self.mode(rx), rx, GroupId(found)) {
                for (d, results) in descs.as_chunks::<8>().0.iter().zip(results.as_chunks::<8>().0) {
                    let one = |d: &Desc, r: u32| {
                        u32::from(d.flags & flags::UNUSUAL) | (d.rx ^ rx) | (d.feat ^ feat) | (r ^ found)
                    };
                    if d.iter().zip(results).fold(0, |all, (d, r)| all | one(d, *r)) != 0 {
                        break;
                    }
                    taken += 8;
                }
            }
        }
        let (descs, keys, results) = (&mut descs[taken..], &keys[taken..], &results[taken..]);
        // What was found good last: most packets are like the one before.
        let (mut rx, mut mode, mut group) = (u32::MAX, Mode::Strict, NONE);
        taken
            + quick::run_lookup::<{ flags::UNUSUAL }, K>(descs, keys, results, move |d, key, found| {
                if d.rx != rx {
                    (rx, mode, group) = (d.rx, self.mode(d.rx), NONE);
                }
                if found != group {
                    if !self.accepts(mode, rx, GroupId(found)) {
                        return passes(key) && d.feat == feat;
                    }
                    group = found;
                }
                d.feat == feat
            })
    }
}
