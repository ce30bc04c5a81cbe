//! Bridging against a naive bridge: the same frames through the graph and through a map of addresses, while time passes.

use crate::l2::bridge::{BridgeOp, BridgeSettings, MacInfo, PortFeatures, StaticMac};
use crate::neighbor::Millis;
use crate::plane::STEP_SECONDS;
use crate::router::{Membership, Op};
use crate::short_cuts::world::World;
use packet::eth::MacAddr;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

type Mac = [u8; 6];

/// The members: device, tag and split-horizon group, as the world has them.
const MEMBERS: [(&str, &str, Option<u16>, u8); 4] = [
    ("hub", "hub", None, 0),
    ("spoke", "spoke", None, 1),
    ("rim", "rim", None, 1),
    ("trunk.950", "trunk", Some(950), 0),
];
const BVI: Mac = [2, 0, 0, 0, 0, 12];
const ALL: Mac = [0xff; 6];

fn station(n: usize) -> Mac {
    [2, 0, 0, 0, 7, n as u8]
}

const SOURCES: usize = 11;
fn source(n: usize) -> Mac {
    match n {
        0..=6 => station(n),
        7 => [2, 0, 0, 0, 1, 0xbb],
        8 => BVI,
        9 => [0; 6],
        _ => [3, 0, 0, 0, 0, 1],
    }
}

const DESTINATIONS: usize = 13;
fn destination(n: usize) -> Mac {
    match n {
        0..=6 => station(n),
        7 => [2, 0, 0, 0, 1, 0xbb],
        8 => BVI,
        9 => ALL,
        10 => [0x01, 0, 0x5e, 0, 0, 5],
        11 => [0x01, 0x80, 0xc2, 0, 0, 0x0f],
        _ => [2, 0, 0, 0, 8, 8],
    }
}

#[derive(Clone, Debug)]
enum Act {
    Frames(Vec<(usize, usize, usize)>),
    /// A static address behind a member, a filter, or none.
    Static(usize, Option<Option<usize>>),
    Flush(usize),
    Settings(u8, Option<u32>, u8),
    /// So many seconds pass.
    Later(u64),
    PortLimit(usize, Option<u32>),
    PortFeatures(usize, u8),
    Leave(usize),
    Join(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let frame = (0..MEMBERS.len(), 0..SOURCES, 0..DESTINATIONS);
    let member = 0..MEMBERS.len();
    prop_oneof![
        12 => prop::collection::vec(frame, 1..12).prop_map(Act::Frames),
        2 => (0usize..7, prop::option::of(prop::option::of(member.clone()))).prop_map(|(n, to)| Act::Static(n, to)),
        1 => member.clone().prop_map(Act::Flush),
        // Mostly with everything on.
        1 => (prop_oneof![Just(15u8), 0u8..16], prop::option::of(0u32..6), 0u8..4)
            .prop_map(|(f, l, age)| Act::Settings(f, l, age)),
        3 => (1u64..13).prop_map(|steps| Act::Later(steps * STEP)),
        1 => (member.clone(), prop::option::of(0u32..4)).prop_map(|(m, l)| Act::PortLimit(m, l)),
        // Mostly with everything on.
        1 => (member.clone(), prop_oneof![Just(15u8), 0u8..16]).prop_map(|(m, f)| Act::PortFeatures(m, f)),
        1 => member.clone().prop_map(Act::Leave),
        1 => member.prop_map(Act::Join),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Learned(usize),
    Static(usize),
    Filter,
    Bvi,
}

#[derive(Clone)]
struct Model {
    known: BTreeMap<Mac, Known>,
    members: [bool; 4],
    settings: BridgeSettings,
    limits: [Option<u32>; 4],
    features: [PortFeatures; 4],
    /// When a frame came last from each learned address, and now, seconds.
    seen: BTreeMap<Mac, u64>,
    now: u64,
}

/// How exactly ages are known, seconds, and when they begin anew.
const STEP: u64 = STEP_SECONDS;
const WRAP: u64 = tables::macs::STAMP_MASK as u64 + 1;

/// What comes out for one frame: member and bytes.
type Copies = Vec<(usize, Mac, Mac)>;

impl Model {
    fn learned(&self, on: Option<usize>) -> usize {
        let counts = |k: &&Known| matches!(k, Known::Learned(m) if on.is_none_or(|on| on == *m));
        self.known.values().filter(counts).count()
    }

    /// Addresses that were not seen for long are forgotten.
    fn age(&mut self) {
        let most = (u64::from(self.settings.mac_age) * 60).div_ceil(STEP);
        let (now, seen) = (self.now / STEP, &self.seen);
        let old = |mac: &Mac| (now - seen.get(mac).map_or(now, |s| s / STEP)) % WRAP >= most;
        self.known.retain(|mac, k| most == 0 || !matches!(k, Known::Learned(_)) || !old(mac));
    }

    /// False for a frame that is dropped.
    fn learn(&mut self, from: usize, src: Mac) -> bool {
        let fine = |k: Option<&Known>| k == Some(&Known::Learned(from)) || k == Some(&Known::Static(from));
        if !self.settings.learn || !self.features[from].learn {
            return true;
        }
        if fine(self.known.get(&src)) {
            self.seen.insert(src, self.now);
            return true;
        }
        let full = |n: usize, limit: Option<u32>| limit.is_some_and(|l| n >= l as usize);
        let port_full = full(self.learned(Some(from)), self.limits[from]);
        let bridge_full = full(self.learned(None), self.settings.mac_limit);
        match self.known.get(&src) {
            Some(Known::Learned(_)) if port_full => {}
            None if port_full || bridge_full => {}
            Some(Known::Learned(_)) | None => {
                self.known.insert(src, Known::Learned(from));
                self.seen.insert(src, self.now);
            }
            Some(_) => return false,
        }
        true
    }

    fn may_pass(&self, from: usize, to: usize) -> bool {
        let group = MEMBERS[from].3;
        self.members[to] && from != to && (group == 0 || group != MEMBERS[to].3)
    }

    fn flood(&self, from: usize, src: Mac, dst: Mac) -> Copies {
        (0..MEMBERS.len()).filter(|to| self.may_pass(from, *to)).map(|to| (to, src, dst)).collect()
    }

    fn frame(&mut self, from: usize, src: Mac, dst: Mac) -> Copies {
        if !self.members[from] || dst[..5] == [1, 0x80, 0xc2, 0, 0] || src[0] & 1 != 0 || src == [0; 6] {
            return vec![];
        }
        if !self.learn(from, src) {
            return vec![];
        }
        if dst[0] & 1 != 0 {
            return if self.settings.flood && self.features[from].flood {
                self.flood(from, src, dst)
            } else {
                vec![]
            };
        }
        match self.known.get(&dst).filter(|_| self.settings.forward && self.features[from].forward) {
            Some(Known::Filter | Known::Bvi) => vec![],
            Some(Known::Learned(to) | Known::Static(to)) => {
                if self.may_pass(from, *to) {
                    vec![(*to, src, dst)]
                } else {
                    vec![]
                }
            }
            None if self.settings.uu_flood && self.features[from].uu_flood => self.flood(from, src, dst),
            None => vec![],
        }
    }
}

struct Pair {
    world: World,
    model: Model,
}

fn bytes(dst: Mac, src: Mac, tag: Option<u16>, n: usize) -> Vec<u8> {
    let mut f = [dst, src].concat();
    if let Some(v) = tag {
        f.extend([0x81, 0]);
        f.extend(v.to_be_bytes());
    }
    // No protocol of the router's.
    f.extend([0x88, 0xb5, n as u8]);
    f.resize(60, 0xaa);
    f
}

impl Pair {
    fn new(short_cuts: bool) -> Pair {
        let mut world = World::new(short_cuts, false);
        let leave = |name: &str| Op::from(BridgeOp::Port { name: name.into(), member: None });
        world.router.commit(["trunk.960", "trunk.970"].map(leave).into()).unwrap();
        let index = |name: &str| world.router.interface_index(name).unwrap();
        let place = |m: &MacInfo| match m.interface {
            None => Known::Filter,
            Some(i) if i == index("loop0") => Known::Bvi,
            Some(i) => Known::Static(MEMBERS.iter().position(|m| index(m.0) == i).unwrap()),
        };
        let known = super::macs(&world.router).iter().map(|m| (m.mac.0, place(m))).collect();
        let settings = BridgeSettings::default();
        let (limits, seen, features) = ([None; 4], BTreeMap::new(), [PortFeatures::default(); 4]);
        Pair { world, model: Model { known, members: [true; 4], settings, limits, features, seen, now: 0 } }
    }

    fn commit(&mut self, op: BridgeOp) {
        self.world.router.commit(vec![Op::from(op)]).unwrap();
    }

    fn run(&mut self, a: Act) -> Result<(), TestCaseError> {
        let m = &mut self.model;
        match a {
            Act::Frames(frames) => {
                let w = &mut self.world;
                let mut want = HashMap::<_, usize>::new();
                let node = w.dispatcher.id("ethernet-input").unwrap();
                for (n, &(from, src, dst)) in frames.iter().enumerate() {
                    let (src, dst, (_, device, tag, _)) = (source(src), destination(dst), MEMBERS[from]);
                    let mut d = w.dispatcher.env.buffers.alloc_bytes(&bytes(dst, src, tag, n)).unwrap();
                    d.rx = w.router.interface_index(device).unwrap();
                    w.dispatcher.env.enqueue(d, node);
                    for (to, src, dst) in m.frame(from, src, dst) {
                        let (_, device, tag, _) = MEMBERS[to];
                        let port = w.router.interface_index(device).unwrap();
                        *want.entry((port, bytes(dst, src, tag, n)[..50].to_vec())).or_default() += 1;
                    }
                }
                let mut got = HashMap::<_, usize>::new();
                for s in w.run(0).sent {
                    *got.entry((s.port, s.bytes[..50].to_vec())).or_default() += 1;
                }
                prop_assert_eq!(got, want);
            }
            Act::Static(n, to) => {
                let mac = station(n);
                let place = match to {
                    None => None,
                    Some(None) => Some(StaticMac::Filter),
                    Some(Some(p)) if m.members[p] => Some(StaticMac::Port(MEMBERS[p].0.into())),
                    Some(Some(_)) => return Ok(()),
                };
                match to {
                    None if m.known.remove(&mac).is_none() => return Ok(()),
                    None => {}
                    Some(to) => drop(m.known.insert(mac, to.map_or(Known::Filter, Known::Static))),
                }
                self.commit(BridgeOp::Mac { id: 1, mac: MacAddr(mac), to: place });
            }
            Act::Flush(p) => {
                m.known.retain(|_, k| *k != Known::Learned(p));
                let index = self.world.router.interface_index(MEMBERS[p].0);
                super::flush_macs(&mut self.world.router, Some(1), index);
            }
            Act::Later(seconds) => {
                m.now += seconds;
                m.age();
                super::macs::age(&mut self.world.router, Millis(m.now * 1000));
            }
            Act::Settings(flags, mac_limit, mac_age) => {
                let on = |bit: u8| flags & bit != 0;
                let usual = BridgeSettings::default();
                m.settings = BridgeSettings {
                    learn: on(1),
                    forward: on(2),
                    flood: on(4),
                    uu_flood: on(8),
                    mac_limit,
                    mac_age,
                    ..usual
                };
                let settings = m.settings.clone();
                self.commit(BridgeOp::Set { id: 1, settings });
            }
            Act::PortLimit(p, limit) => {
                m.limits[p] = limit;
                self.commit(BridgeOp::PortLimit { name: MEMBERS[p].0.into(), limit });
            }
            Act::PortFeatures(p, flags) => {
                let on = |bit: u8| flags & bit != 0;
                let features = PortFeatures {
                    learn: on(1),
                    forward: on(2),
                    flood: on(4),
                    uu_flood: on(8),
                    ..PortFeatures::default()
                };
                m.features[p] = features;
                self.commit(BridgeOp::PortFeatures { name: MEMBERS[p].0.into(), features });
            }
            Act::Leave(p) => {
                m.members[p] = false;
                m.known.retain(|_, k| *k != Known::Learned(p) && *k != Known::Static(p));
                self.commit(BridgeOp::Port { name: MEMBERS[p].0.into(), member: None });
            }
            Act::Join(p) => {
                m.members[p] = true;
                let member = Some(Membership { bridge: 1, bvi: false, shg: MEMBERS[p].3 });
                self.commit(BridgeOp::Port { name: MEMBERS[p].0.into(), member });
            }
        }
        let index = |p: usize| self.world.router.interface_index(MEMBERS[p].0);
        let table: BTreeMap<Mac, (Option<u32>, bool)> =
            super::macs(&self.world.router).iter().map(|m| (m.mac.0, (m.interface, m.fixed))).collect();
        let want: BTreeMap<Mac, (Option<u32>, bool)> = self
            .model
            .known
            .iter()
            .map(|(mac, k)| match k {
                Known::Learned(p) => (*mac, (index(*p), false)),
                Known::Static(p) => (*mac, (index(*p), true)),
                Known::Filter => (*mac, (None, true)),
                Known::Bvi => (*mac, (self.world.router.interface_index("loop0"), true)),
            })
            .collect();
        prop_assert_eq!(table, want);
        Ok(())
    }
}

thread_local! {
    static PAIRS: RefCell<[Option<Pair>; 2]> = const { RefCell::new([None, None]) };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn is_a_naive_bridge(short_cuts in any::<bool>(), acts in prop::collection::vec(act(), 1..60)) {
        PAIRS.with_borrow_mut(|pairs| {
            // State goes on from case to case: a router takes longer to make than all of them to run.
            let slot = &mut pairs[usize::from(short_cuts)];
            let mut pair = slot.take().unwrap_or_else(|| Pair::new(short_cuts));
            acts.iter().try_for_each(|a| pair.run(a.clone()))?;
            *slot = Some(pair);
            Ok::<(), TestCaseError>(())
        })?;
    }
}
