//! A short cut is never something else than `step`: routers that are built alike, one with the short cuts of its nodes and one
//! without, are given the same vectors. What they send, hold, tell the control side, trace and count must be the same. A third
//! one leaves packets in the order in which they came: what it sends and holds of each flow must be the same, for sorting keeps
//! the order of a flow.

mod packets;
pub(crate) mod passing;
mod setup;
pub(crate) mod world;

use crate::gre::header::GreHeader;
use crate::nodes;
use crate::router::Router;
use packet::EtherType;
use packets::{Spec, vector};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use world::{Held, Outcome, Sent, World};

struct Worlds {
    quick: World,
    plain: World,
    unsorted: World,
    with_features: bool,
    workers: usize,
    /// Which changes are in force, of [`setup::changes`].
    changed: Vec<bool>,
}

impl Worlds {
    fn new(with_features: bool, workers: usize) -> Worlds {
        let of = |empty: fn() -> graph::Builder| World::of(empty, with_features, workers);
        Worlds {
            changed: vec![false; setup::changes().len()],
            quick: of(nodes::empty),
            plain: of(|| nodes::empty().without_short_cuts()),
            unsorted: of(|| nodes::empty().unsorted()),
            with_features,
            workers,
        }
    }

    /// What changed or was counted does not matter any more.
    fn begin_anew(&mut self) {
        *self = Worlds::new(self.with_features, self.workers);
    }
}

thread_local! {
    static USUAL: RefCell<Worlds> = RefCell::new(Worlds::new(false, 1));
    static FEATURED: RefCell<Worlds> = RefCell::new(Worlds::new(true, 1));
    static TWO_WORKERS: RefCell<Worlds> = RefCell::new(Worlds::new(true, 2));
}

/// What tells flows apart, of a packet at `l3`: nothing that differs from packet to packet.
fn flow(ethertype: u16, l3: &[u8]) -> Option<Vec<u8>> {
    // The flow of what is in a tunnel.
    let datagram = match ethertype {
        0x0800 if l3.get(9) == Some(&17) => l3.get(20..),
        0x86dd if l3.get(6) == Some(&17) => l3.get(40..),
        _ => None,
    };
    if let Some(frame) = datagram.filter(|d| d.get(2..4) == Some(&[0x12, 0xb5])).and_then(|d| d.get(16..)) {
        let link = packet::vlan::VlanStack::parse(frame);
        let inner = link.and_then(|l| flow(l.ethertype.0, frame.get(usize::from(l.header_len)..)?));
        return Some([&inner.unwrap_or_else(|| frame.to_vec())[..], &l3[12..20]].concat());
    }
    let upper = match ethertype {
        0x0800 if l3.get(9) == Some(&47) => l3.get(20..),
        0x86dd if l3.get(6) == Some(&47) => l3.get(40..),
        _ => None,
    };
    if let Some((h, inside)) = upper.and_then(|gre| {
        let h = GreHeader::parse(gre).ok()?;
        Some((h, gre.get(h.len()..)?))
    }) {
        let inner = match packet::vlan::VlanStack::parse(inside) {
            Some(link) if h.protocol == EtherType::TRANSPARENT_ETHERNET => {
                flow(link.ethertype.0, inside.get(usize::from(link.header_len)..)?)
            }
            _ => flow(h.protocol.0, inside),
        };
        return Some([&inner.unwrap_or_else(|| inside.to_vec())[..], &l3[12..20]].concat());
    }
    match ethertype {
        // With the identification and the flow label, which tell ports apart.
        0x0800 if l3.len() >= 24 => Some([&l3[4..6], &l3[9..10], &l3[12..24]].concat()),
        0x86dd if l3.len() >= 44 => Some([&l3[1..4], &l3[6..7], &l3[8..44]].concat()),
        _ => None,
    }
}

/// Frames of a cross-connect keep their order whatever is in them.
fn flow_of_sent(router: &Router, s: &Sent) -> (u32, u32, Vec<u8>) {
    if router.interface(s.rx).is_some_and(|i| i.xconnect.is_some()) {
        return (s.rx, s.port, vec![]);
    }
    let part = packet::vlan::VlanStack::parse(&s.bytes)
        .and_then(|stack| flow(stack.ethertype.0, &s.bytes[usize::from(stack.header_len)..]));
    (s.rx, s.port, part.unwrap_or_else(|| s.bytes.clone()))
}

fn flow_of_held((kind, adjacency, l3): &Held) -> (u8, u32, Vec<u8>) {
    let ethertype = [0x0800, 0x86dd, 0x8847][usize::from(*kind)];
    (*kind, *adjacency, flow(ethertype, l3).unwrap_or_else(|| l3.clone()))
}

/// The IP packet in a labelled or other packet.
fn ip_of(ethertype: u16, l3: &mut [u8]) -> &mut [u8] {
    let labels = match packet::mpls::StackView::parse(l3, 64) {
        Ok(stack) if ethertype == 0x8847 => stack.as_bytes().len(),
        _ => 0,
    };
    &mut l3[labels..]
}

/// The router numbers its ICMP errors in the order in which they are made, and that of several flows is left open: the same
/// without numbers.
fn unnumbered(ethertype: u16, l3: &mut [u8]) {
    unnumbered_ip(ip_of(ethertype, l3));
}

fn unnumbered_ip(ip: &mut [u8]) {
    if ip.len() >= 20 && ip[..2] == [0x45, 0xc0] && ip[9] == 1 {
        ip[4..6].fill(0);
        ip[10..12].fill(0);
    }
}

fn unnumbered_all(outcome: &mut Outcome) {
    for s in &mut outcome.sent {
        if let Some(stack) = packet::vlan::VlanStack::parse(&s.bytes) {
            unnumbered(stack.ethertype.0, &mut s.bytes[usize::from(stack.header_len)..]);
        }
    }
    // Records begin with whatever their node saw first.
    for (_, bytes) in &mut outcome.traces {
        (0..bytes.len()).for_each(|at| unnumbered_ip(&mut bytes[at..]));
    }
    for (kind, _, l3) in &mut outcome.held {
        unnumbered([0x0800, 0x86dd, 0x8847][usize::from(*kind)], l3);
    }
}

/// By flow, each in its order: short cuts may change the order between flows.
fn by_flow<K: Ord, T>(all: Vec<T>, flow: impl Fn(&T) -> K) -> BTreeMap<K, Vec<T>> {
    let mut flows: BTreeMap<_, Vec<T>> = BTreeMap::new();
    for one in all {
        flows.entry(flow(&one)).or_default().push(one);
    }
    flows
}

fn same<T: PartialEq + Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: with short cuts {got:?}\n    without {want:?}")) }
}

type Flows = (BTreeMap<(u32, u32, Vec<u8>), Vec<Sent>>, BTreeMap<(u8, u32, Vec<u8>), Vec<Held>>);

/// Packets that leave and that wait, by flow.
fn flows(router: &Router, sent: Vec<Sent>, held: Vec<Held>) -> Flows {
    (by_flow(sent, |s| flow_of_sent(router, s)), by_flow(held, flow_of_held))
}

/// The same flows, each in its order.
fn same_flows(got: &Flows, want: &Flows) -> Result<(), String> {
    for (flow, want) in &want.0 {
        same("sent", &got.0.get(flow), &Some(want))?;
    }
    same("number of flows", &got.0.len(), &want.0.len())?;
    same("held", &got.1, &want.1)
}

impl Worlds {
    /// Compares what comes before a change, and what comes behind it.
    fn compare_around(&mut self, specs: &[Spec], change: usize) -> Result<(), String> {
        let (before, behind) = specs.split_at(specs.len() / 2);
        self.compare(before)?;
        self.change(change % self.changed.len());
        self.compare(behind).map_err(|e| format!("with changes {:?}: {e}", self.changed))
    }

    /// Makes a change, or takes it back.
    fn change(&mut self, n: usize) {
        let [there, back] = &setup::changes()[n];
        let ops = if self.changed[n] { back } else { there };
        for world in [&mut self.quick, &mut self.plain, &mut self.unsorted] {
            world.change(ops.clone());
        }
        self.changed[n] = !self.changed[n];
    }

    /// Runs a vector for each node at which packets enter through both; `Err` says what differs.
    fn compare(&mut self, specs: &[Spec]) -> Result<(), String> {
        let mut entries: BTreeMap<&str, Vec<&Spec>> = BTreeMap::new();
        for s in specs {
            entries.entry(s.node()).or_default().push(s);
        }
        entries.values().try_for_each(|specs| self.compare_vector(specs))
    }

    fn compare_vector(&mut self, specs: &[&Spec]) -> Result<(), String> {
        let traced = specs.iter().filter(|s| s.traced()).count();
        let run = |w: &mut World| {
            for (n, s) in specs.iter().enumerate() {
                s.feed(w, n as u32);
            }
            let mut outcome = w.run(traced);
            unnumbered_all(&mut outcome);
            // Frames that leave over several interfaces are sorted by what these have, beginning with the first one, and which that
            // is a short cut may change. Each record says from which node to which.
            outcome.traces.sort();
            outcome.messages.sort();
            outcome
        };
        let found = run(&mut self.quick);
        let want = run(&mut self.plain);
        let as_it_came = run(&mut self.unsorted);
        if [&found, &want, &as_it_came].iter().any(|o| o.short_of_buffers) {
            self.begin_anew();
            return Ok(());
        }
        let Outcome { sent, held, messages, traces, .. } = found;
        let (counts, want_counts) = (self.quick.counts(), self.plain.counts());
        let differ: Vec<_> = counts.iter().zip(&want_counts).filter(|(a, b)| a != b).collect();
        let counted = differ.is_empty().then_some(()).ok_or(format!("counts: {differ:?}"));
        if counted.is_err() {
            // The next vector begins anew.
            self.begin_anew();
        }
        counted?;
        let of = |sent, held| flows(&self.plain.router, sent, held);
        let (got, want_flows) = (of(sent, held), of(want.sent, want.held));
        same_flows(&got, &want_flows)?;
        same("messages", &messages, &want.messages)?;
        same("traces", &traces, &want.traces)?;
        same_flows(&got, &of(as_it_came.sent, as_it_came.held)).map_err(|e| format!("in another order: {e}"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_comes_out_is_the_same(
        theme in any::<u64>(),
        change in any::<usize>(),
        packets in prop::collection::vec((any::<u64>(), prop_oneof![3 => Just(1usize), 1 => 1usize..80]), 1..24),
    ) {
        let specs = vector(theme, &packets);
        let verdict = USUAL.with_borrow_mut(|b| b.compare_around(&specs, change));
        prop_assert!(verdict.is_ok(), "{}\n{specs:#?}", verdict.unwrap_err());
    }

    #[test]
    fn what_comes_out_of_interfaces_with_features_is_the_same(
        theme in any::<u64>(),
        change in any::<usize>(),
        packets in prop::collection::vec((any::<u64>(), prop_oneof![3 => Just(1usize), 1 => 1usize..80]), 1..24),
    ) {
        let specs = vector(theme, &packets);
        let verdict = FEATURED.with_borrow_mut(|b| b.compare_around(&specs, change));
        prop_assert!(verdict.is_ok(), "{}\n{specs:#?}", verdict.unwrap_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]
    /// Flows are shared out to two workers, who take turns and hand fragments to each other.
    #[test]
    fn what_comes_out_of_two_workers_is_the_same(
        theme in any::<u64>(),
        change in any::<usize>(),
        packets in prop::collection::vec((any::<u64>(), prop_oneof![3 => Just(1usize), 1 => 1usize..80]), 1..24),
    ) {
        let specs = vector(theme, &packets);
        let verdict = TWO_WORKERS.with_borrow_mut(|b| b.compare_around(&specs, change));
        prop_assert!(verdict.is_ok(), "{}\n{specs:#?}", verdict.unwrap_err());
    }
}

/// Whoever adds a node to the list, or a feature to an arc, lets packets of the worlds come there, or the comparison says nothing of it.
#[test]
fn no_node_stays_out() {
    // Where packets of devices begin, which no packet comes to.
    const OUT: &[&str] = &[
        "af-packet-input",
        "af-xdp-input",
        "tap-input",
        "memif-input",
        "vhost-user-input",
        "dpdk-input",
        "pcap-input",
        "pg-input",
    ];
    let mut visited = std::collections::BTreeSet::new();
    let mut all = vec![];
    for with_features in [false, true] {
        let mut w = World::new(false, with_features);
        for theme in 0..10_000u64 {
            let packets: Vec<(u64, usize)> = (0..20).map(|n| (theme * 7919 + n * 104_729, 1)).collect();
            for (n, s) in vector(theme.wrapping_mul(0x9e37_79b9_7f4a_7c15), &packets).iter().enumerate() {
                s.feed(&mut w, n as u32);
            }
            w.run(0);
        }
        visited.extend(w.visited());
        all = w.graph.nodes.iter().map(|n| n.name).collect();
    }
    all.retain(|n| !visited.contains(n) && !OUT.contains(n));
    assert!(all.is_empty(), "no packet of the worlds comes to {all:?}");
}
