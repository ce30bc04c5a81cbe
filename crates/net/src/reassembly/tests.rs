//! Both kinds of reassembly, both families, against a model that knows nothing but bytes.

use super::*;
use crate::icmp::Ask;
use crate::testing::{Arrival, Input, Rig, fix_ip4};
use graph::Node;
use proptest::prelude::*;
use std::collections::HashMap;

type Full4 = FullReassembly<V4>;
type Full6 = FullReassembly<V6>;
type Virtual4 = VirtualReassembly<V4>;
type Virtual6 = VirtualReassembly<V6>;

/// A protocol of which nothing is known.
const PROTOCOL: u8 = 253;

/// A fragment of datagram `id`; its payload stands from `from` on.
#[derive(Clone, Debug)]
struct Frag {
    id: u16,
    from: usize,
    more: bool,
    payload: Vec<u8>,
}

fn frag(id: u16, from: usize, more: bool, payload: &[u8]) -> Frag {
    Frag { id, from, more, payload: payload.to_vec() }
}

impl Frag {
    fn field(&self) -> [u8; 2] {
        (self.from as u16 | u16::from(self.more)).to_be_bytes()
    }

    fn ip4(&self, protocol: u8) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 9, protocol, 0, 0, 203, 0, 113, 7, 192, 0, 2, 1];
        p[2..4].copy_from_slice(&(20 + self.payload.len() as u16).to_be_bytes());
        p[4..6].copy_from_slice(&self.id.to_be_bytes());
        let word = (self.from / 8) as u16 | u16::from(self.more) << 13;
        p[6..8].copy_from_slice(&word.to_be_bytes());
        fix_ip4(&mut p);
        p.extend_from_slice(&self.payload);
        p
    }

    fn ip6(&self, protocol: u8) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0, 0, 0, 44, 9];
        p[4..6].copy_from_slice(&(8u16.wrapping_add(self.payload.len() as u16)).to_be_bytes());
        p.extend([0x20; 16]);
        p.extend("2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        p.extend([protocol, 0]);
        p.extend(self.field());
        p.extend([0, 0]);
        p.extend(self.id.to_be_bytes());
        p.extend_from_slice(&self.payload);
        p
    }

    fn packet(&self, v6: bool) -> Vec<u8> {
        if v6 { self.ip6(PROTOCOL) } else { self.ip4(PROTOCOL) }
    }
}

/// The datagram with this payload.
fn whole(v6: bool, id: u16, payload: &[u8]) -> Vec<u8> {
    let f = frag(id, 0, false, payload);
    if !v6 {
        return f.ip4(PROTOCOL);
    }
    let mut p = f.ip6(PROTOCOL);
    p.drain(40..48);
    p[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    p[6] = PROTOCOL;
    p
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn rig<N: Node>(make: impl FnOnce(&Arc<Plane>, usize) -> N, change: impl Fn(&mut Settings)) -> Rig {
    let mut r = Rig::new(|plane| make(plane, 4096));
    r.change(|c: &mut Config| Kind::ALL.into_iter().for_each(|k| change(c.of_mut(k))));
    r.at_ns(1_000_000_000);
    r
}

use std::sync::Arc;

/// The rules, over bytes: which fragments are of one datagram is said by a map, what they cover by a list of bytes.
#[derive(Default)]
struct Model {
    datagrams: HashMap<u16, (Vec<Frag>, bool)>,
    max_length: usize,
}

enum Verdict {
    Held,
    Whole(Vec<u8>),
    /// The reason, and how many packets are dropped for it.
    Drop(&'static str, usize),
}

impl Model {
    fn take(&mut self, f: &Frag) -> Verdict {
        let (list, refused) = self.datagrams.entry(f.id).or_default();
        if *refused {
            return Verdict::Drop("reassembly-refused-before", 1);
        }
        let place = |f: &Frag| f.from..f.from + f.payload.len();
        if list.iter().any(|o| (place(o), o.more, &o.payload) == (place(f), f.more, &f.payload)) {
            return Verdict::Drop("reassembly-duplicate", 1);
        }
        let mut refuse = |why, list: &mut Vec<Frag>| {
            *refused = true;
            Verdict::Drop(why, std::mem::take(list).len() + 1)
        };
        if list.iter().any(|o| place(o).any(|b| place(f).contains(&b))) {
            return refuse("reassembly-overlap", list);
        }
        let mut all = list.clone();
        all.push(f.clone());
        let ends: Vec<usize> = all.iter().filter(|o| !o.more).map(|o| place(o).end).collect();
        if let Some(end) = ends.first()
            && (ends.len() > 1 || all.iter().any(|o| place(o).end > *end || o.more && place(o).end == *end))
        {
            return refuse("reassembly-bad-end", list);
        }
        if list.len() >= self.max_length {
            return refuse("reassembly-too-many-fragments", list);
        }
        *list = all;
        if let Some(end) = ends.first() {
            let byte = |b| list.iter().find_map(|o| o.payload.get(usize::checked_sub(b, o.from)?).copied());
            let found: Option<Vec<u8>> = (0..*end).map(byte).collect();
            if let Some(found) = found {
                self.datagrams.remove(&f.id);
                return Verdict::Whole(found);
            }
        }
        Verdict::Held
    }

    fn held(&self) -> usize {
        self.datagrams.values().map(|d| d.0.len()).sum()
    }
}

/// Fragments of a few datagrams: mostly cuts of one payload, in any order, some twice, some changed.
fn fragments() -> impl Strategy<Value = Vec<Frag>> {
    let odd = (0u16..3, 0usize..30, 1usize..5, any::<bool>(), any::<bool>());
    let cuts = (0u16..3, 1usize..120, prop::collection::vec(1usize..12, 0..8));
    (prop::collection::vec(cuts, 1..4), prop::collection::vec(odd, 0..4), any::<u64>()).prop_map(
        |(datagrams, odd, seed)| {
            let mut all = vec![];
            for (id, len, cuts) in datagrams {
                let payload = bytes(len + usize::from(id));
                let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
                while at < payload.len() {
                    let n = cuts.next().unwrap_or(1) * 8;
                    let end = (at + n).min(payload.len());
                    all.push(frag(id, at, end < payload.len(), &payload[at..end]));
                    at = end;
                }
            }
            for (id, from, units, more, garbled) in odd {
                let payload = bytes(200);
                let mut f = frag(id, from * 8, more, &payload[from * 8 % 150..][..units * 8]);
                if garbled {
                    f.payload[0] ^= 1;
                } else if let Some(o) = all.get(from % all.len().max(1)) {
                    f = o.clone();
                }
                all.push(f);
            }
            // Nothing before and nothing behind: no fragment.
            all.retain(|f| f.from != 0 || f.more);
            // Shuffled by the seed.
            let mut x = seed | 1;
            for i in (1..all.len()).rev() {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                all.swap(i, (x >> 33) as usize % (i + 1));
            }
            all
        },
    )
}

fn compare<F: Family>(v6: bool, list: &[Frag], split: usize, at_once: bool) -> Result<(), TestCaseError> {
    let mut r = rig(FullReassembly::<F>::new, |s| s.max_length = 7);
    let mut model = Model { max_length: 7, ..Model::default() };
    let lookup = if v6 { "ip6-lookup" } else { "ip4-lookup" };
    let mut want: Vec<(&str, Vec<u8>)> = vec![];
    let mut dropped: Vec<&str> = vec![];
    let mut got: Vec<Arrival> = vec![];
    let inputs: Vec<Input> = list.iter().map(|f| Input::new(&f.packet(v6)).split(split)).collect();
    for (n, f) in list.iter().enumerate() {
        match model.take(f) {
            Verdict::Held => {}
            Verdict::Whole(payload) => want.push((lookup, whole(v6, f.id, &payload))),
            Verdict::Drop(why, packets) => dropped.extend(std::iter::repeat_n(why, packets)),
        }
        if !at_once {
            got.extend(r.feed(&inputs[n..=n]));
        }
    }
    if at_once {
        got = r.feed(&inputs);
    }
    let mut reasons: Vec<&str> = got.iter().filter(|a| a.node == "error-drop").map(|a| a.reason).collect();
    reasons.sort_unstable();
    dropped.sort_unstable();
    prop_assert_eq!(reasons, dropped);
    let passed: Vec<(&str, Vec<u8>)> =
        got.iter().filter(|a| a.node != "error-drop").map(|a| (a.node, a.bytes.clone())).collect();
    prop_assert_eq!(passed, want);
    let mut held = 0;
    r.visit::<FullReassembly<F>>(|node, _| held = node.summary(0, false).fragments);
    prop_assert_eq!(held, model.held());
    r.visit::<FullReassembly<F>>(FullReassembly::clear);
    prop_assert_eq!(r.in_use(), 0, "every buffer came back");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn ip4_as_the_model(list in fragments(), split in prop_oneof![Just(2000usize), 60usize..90], at_once: bool) {
        compare::<V4>(false, &list, split, at_once)?;
    }

    #[test]
    fn ip6_as_the_model(list in fragments(), split in prop_oneof![Just(2000usize), 60usize..90], at_once: bool) {
        compare::<V6>(true, &list, split, at_once)?;
    }

    /// Every fragment of a datagram leaves, in the order in which they came, with the ports of the first one.
    #[test]
    fn virtual_reassembly_tells_all(len in 30usize..400, cuts in prop::collection::vec(1usize..6, 1..8), seed: u64) {
        for v6 in [false, true] {
            let mut payload = bytes(len);
            payload[..4].copy_from_slice(&[3, 232, 7, 208]);
            let (mut list, mut at) = (vec![], 0);
            for n in cuts.iter().cycle() {
                let end = (at + n * 8).min(len);
                list.push(frag(9, at, end < len, &payload[at..end]));
                at = end;
                if at == len { break; }
            }
            prop_assume!(list.len() > 1);
            let turn = seed as usize % list.len();
            list.rotate_left(turn);
            if seed & 1 << 40 != 0 {
                list.reverse();
            }
            let inputs: Vec<Input> = list.iter().map(|f| Input::new(&if v6 { f.ip6(17) } else { f.ip4(17) })).collect();
            let mut r = match v6 {
                false => rig(Virtual4::new, |_| {}),
                true => rig(Virtual6::new, |_| {}),
            };
            let got = r.run(&inputs);
            prop_assert_eq!(got.iter().map(|a| &a.bytes).collect::<Vec<_>>(), inputs.iter().map(|i| &i.bytes).collect::<Vec<_>>());
            prop_assert!(got.iter().all(|a| a.d.has(KNOWN_L4) && a.d.hash == 1000 << 16 | 2000));
        }
    }
}

fn reason(r: &mut Rig, p: &[u8]) -> String {
    let all = r.feed(&[Input::new(p)]);
    all.last().map_or(String::new(), |a| a.reason.to_string())
}

#[test]
fn fragments_that_are_not_well_formed() {
    let mut r = rig(Full4::new, |_| {});
    let p = |from, more, len: usize| frag(1, from, more, &bytes(len)).ip4(PROTOCOL);
    assert_eq!(reason(&mut r, &p(0, true, 0)), "reassembly-empty-fragment");
    assert_eq!(reason(&mut r, &p(0, true, 7)), "reassembly-bad-length");
    assert_eq!(reason(&mut r, &p(65_528, false, 8)), "reassembly-beyond-65535");
    assert_eq!(reason(&mut r, &p(65_504, false, 12)), "reassembly-beyond-65535");
    assert_eq!(reason(&mut r, &p(0, true, 16)[..19]), "reassembly-bad-header");
    assert_eq!(reason(&mut r, &p(0, true, 16)[..30]), "reassembly-bad-header");
    let mut long = p(0, true, 16);
    long[0] = 0x4f;
    assert_eq!(reason(&mut r, &long), "reassembly-bad-header");
    let tcp = |from, more, len: usize| frag(1, from, more, &bytes(len)).ip4(6);
    assert_eq!(reason(&mut r, &tcp(0, true, 8)), "reassembly-tiny-fragment", "RFC 1858 section 3.2.1");
    assert_eq!(reason(&mut r, &tcp(8, true, 16)), "reassembly-tiny-fragment", "RFC 3128");
    let mut partial = Input::new(&p(0, true, 16));
    partial.partial = Some((20, 6));
    assert_eq!(r.drops(partial), "reassembly-bad-offload");
    assert_eq!(r.one(Input::new(&p(0, false, 16))).node, "ip4-lookup", "no fragment");
}

#[test]
fn ipv6_senders_are_told_what_was_wrong() {
    let mut r = rig(Full6::new, |_| {});
    let p = |from, more, payload: &[u8], next| frag(1, from, more, payload).ip6(next);
    let mut told = |p: &[u8], why: &str, code, pointer| {
        let before = r.count(why);
        let a = r.one(Input::new(p));
        assert_eq!(
            (a.node, Ask::from_word(a.d.aux)),
            ("ip6-icmp-error", Ask::v6_parameter_problem(code, pointer))
        );
        assert_eq!(r.count(why), before + 1);
    };
    told(&p(0, true, &bytes(9), PROTOCOL), "reassembly-bad-length", 0, 4);
    told(&p(65_528, false, &bytes(9), PROTOCOL), "reassembly-beyond-65535", 0, 42);
    // A destination options header that goes on in the next fragment; a cut TCP header.
    told(&p(0, true, &[17, 2, 1, 4, 0, 0, 0, 0], 60), "reassembly-incomplete-header-chain", 3, 0);
    told(&p(0, true, &bytes(16), 6), "reassembly-incomplete-header-chain", 3, 0);
    let mut chain: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
    chain.extend(bytes(8));
    told(&p(0, true, &chain, 60), "reassembly-incomplete-header-chain", 3, 0);
    assert_eq!(reason(&mut r, &p(8, true, &[], PROTOCOL)), "reassembly-empty-fragment");
    assert_eq!(
        reason(&mut r, &p(0, true, &[135, 0, 0, 0, 0, 0, 0, 0], 58)),
        "reassembly-nd-fragment",
        "RFC 6980"
    );
    assert_eq!(
        reason(&mut r, &p(8, true, &bytes(8), PROTOCOL)[..46]),
        "",
        "its headers are not for this node to judge"
    );
    let mut cut = p(8, true, &bytes(8), PROTOCOL);
    cut[5] = 99;
    assert_eq!(reason(&mut r, &cut), "reassembly-bad-header");
    assert_eq!(reason(&mut r, &[0x60; 39]), "reassembly-bad-header");
    assert_eq!(r.one(Input::new(&p(0, false, &bytes(8), PROTOCOL))).node, "ip6-lookup", "atomic, RFC 6946");
}

#[test]
fn headers_of_the_first_fragment_are_those_of_the_datagram() {
    // Options, which the later fragments do not have; addresses of a group go to the router.
    let mut r = rig(Full4::new, |_| {});
    let mut first = frag(5, 0, true, &bytes(16)).ip4(PROTOCOL);
    first.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    (first[0], first[3]) = (0x47, 44);
    fix_ip4(&mut first);
    let last = frag(5, 16, false, &bytes(5)).ip4(PROTOCOL);
    r.feed(&[Input::new(&last)]);
    let a = &r.feed(&[Input::new(&first).flags(flags::CSUM_VALID)])[0];
    let mut want = [&first[..28], &bytes(16), &bytes(5)].concat();
    want[2..8].copy_from_slice(&[0, 49, 0, 5, 0, 0]);
    fix_ip4(&mut want);
    assert_eq!((a.node, &a.bytes), ("ip4-lookup", &want));
    assert_eq!((a.d.aux, a.d.has(flags::CSUM_VALID), a.d.has(REASSEMBLED)), (0xc000_0201, false, true));
    let group = |from, more| {
        let mut p = frag(6, from, more, &bytes(8)).ip4(PROTOCOL);
        p[16..20].copy_from_slice(&[224, 0, 0, 5]);
        fix_ip4(&mut p);
        Input::new(&p)
    };
    assert_eq!(r.one_of(&[group(0, true), group(8, false)]).node, "ip4-local");
    // Extension headers in front of and behind the fragment header.
    let mut r = rig(Full6::new, |_| {});
    let with = |from: u8, more: u8, payload: &[u8]| {
        let mut p = frag(0, 0, false, &[]).ip6(0);
        p.truncate(40);
        p[6] = 0;
        p[5] = 16 + payload.len() as u8;
        p.extend([44, 0, 5, 2, 0, 0, 1, 0, 60, 0, 0, from | more, 0, 0, 0, 9]);
        p.extend_from_slice(payload);
        Input::new(&p)
    };
    let first = [&[PROTOCOL, 0, 1, 4, 0, 0, 0, 0][..], &bytes(8)].concat();
    let a = r.one_of(&[with(16, 0, &bytes(3)), with(0, 1, &first)]);
    assert_eq!(a.node, "ip6-lookup");
    assert_eq!(a.bytes[..8], [0x60, 0, 0, 0, 0, 8 + 19, 0, 9]);
    assert_eq!(a.bytes[40..48], [60, 0, 5, 2, 0, 0, 1, 0]);
    assert_eq!(a.bytes[48..], [&first[..], &bytes(3)].concat());
}

#[test]
fn signs_of_congestion_are_kept_or_doubted() {
    for v6 in [false, true] {
        let mut r = if v6 { rig(Full6::new, |_| {}) } else { rig(Full4::new, |_| {}) };
        let mut run = |id, first: u8, second: u8| {
            let make = |from, more, ecn: u8| {
                let mut p = frag(id, from, more, &bytes(8)).packet(v6);
                if v6 {
                    p[1] = ecn << 4;
                } else {
                    p[1] = ecn;
                    fix_ip4(&mut p);
                }
                Input::new(&p)
            };
            let a = r.feed(&[make(0, true, first), make(8, false, second)]).remove(0);
            (a.reason, if v6 { a.bytes[1] >> 4 } else { a.bytes[1] } & 3)
        };
        assert_eq!(run(1, 2, 3), ("", 3));
        assert_eq!(run(2, 3, 1), ("", 3));
        assert_eq!(run(3, 2, 1), ("", 2));
        assert_eq!(run(4, 0, 0), ("", 0));
        assert_eq!(run(5, 0, 3).0, "reassembly-bad-ecn");
    }
}

#[test]
fn what_does_not_come_together_in_time_is_dropped() {
    for v6 in [false, true] {
        let (error, ask) = match v6 {
            false => ("ip4-icmp-error", Ask::V4_REASSEMBLY_TIME_EXCEEDED),
            true => ("ip6-icmp-error", Ask::V6_REASSEMBLY_TIME_EXCEEDED),
        };
        let short = |s: &mut Settings| s.timeout = Duration::from_millis(100);
        let mut r = if v6 { rig(Full6::new, short) } else { rig(Full4::new, short) };
        let f = |id, from| Input::new(&frag(id, from, true, &bytes(8)).packet(v6));
        assert!(r.feed(&[f(1, 0), f(1, 8), f(2, 8)]).is_empty());
        r.at_ns(1_099_999_999);
        assert!(r.feed(&[f(3, 8)]).is_empty());
        r.at_ns(1_100_000_000);
        // The next fragment ends what is too old; the sender of a first fragment is told.
        let out = r.feed(&[f(3, 16)]);
        let nodes: Vec<_> = out.iter().map(|a| (a.node, a.reason)).collect();
        let late = ("error-drop", "reassembly-timeout");
        assert_eq!(nodes.iter().filter(|n| **n == late).count(), 2);
        let told = out.iter().find(|a| a.node == error).unwrap();
        assert_eq!((Ask::from_word(told.d.aux), &told.bytes), (ask, &frag(1, 0, true, &bytes(8)).packet(v6)));
        assert_eq!(r.count("reassembly-time-exceeded"), 1);
        // Without packets a timer does, in intervals of a second from when it first looked.
        r.at_ns(1_199_999_998);
        assert!(r.tick().is_empty());
        r.at_ns(2_199_999_997);
        assert!(r.tick().is_empty());
        assert_eq!(r.in_use(), 2);
        r.at_ns(2_202_000_000);
        assert_eq!((r.tick().len(), r.in_use()), (2, 0));
        // Other limits have it look soon; the control side can have it look at once.
        let limits = Settings { timeout: Duration::from_millis(100), ..Kind::ALL[0].defaults() };
        assert!(r.feed(&[f(4, 8), f(5, 8)]).is_empty());
        r.at_ns(2_302_000_000);
        assert!(r.tick().is_empty());
        match v6 {
            false => r.visit::<Full4>(|node, _| node.walk_soon()),
            true => r.visit::<Full6>(|node, _| node.walk_soon()),
        };
        r.at_ns(2_304_000_000);
        assert_eq!((r.tick().len(), r.in_use()), (2, 0));
        assert!(r.feed(&[f(6, 8)]).is_empty());
        r.at_ns(2_404_000_000);
        let out = match v6 {
            false => r.visit::<Full4>(|node, env| node.walk(env, &limits)),
            true => r.visit::<Full6>(|node, env| node.walk(env, &limits)),
        };
        assert_eq!((out.len(), r.in_use()), (1, 0));
    }
}

#[test]
fn a_datagram_that_was_refused_stays_so_until_its_time_is_out() {
    let mut r = rig(Full4::new, |s| s.timeout = Duration::from_millis(100));
    let f = |from, more, len| Input::new(&frag(1, from, more, &bytes(len)).ip4(PROTOCOL));
    let out = r.feed(&[f(0, true, 16), f(8, true, 16), f(24, false, 8)]);
    let why: Vec<_> = out.iter().map(|a| a.reason).collect();
    assert_eq!(why, ["reassembly-overlap", "reassembly-overlap", "reassembly-refused-before"]);
    r.at_ns(1_100_000_000);
    assert_eq!(
        r.one_of(&[f(0, true, 16), f(16, false, 8)]).node,
        "ip4-lookup",
        "another datagram of this number"
    );
}

#[test]
fn memory_is_bounded() {
    // Datagrams: the oldest go.
    let mut r = rig(Full4::new, |s| s.max_reassemblies = 100);
    for id in 0..1000 {
        r.feed(&[Input::new(&frag(id, 0, true, &bytes(8)).ip4(PROTOCOL))]);
    }
    assert_eq!((r.in_use(), r.count("reassembly-evicted")), (100, 900));
    assert_eq!(r.one_of(&[Input::new(&frag(999, 8, false, &bytes(8)).ip4(PROTOCOL))]).node, "ip4-lookup");
    // Buffers: of a pool of 4096 a sixteenth.
    let mut r = rig(Full6::new, |s| s.max_length = 2048);
    for id in 0..1000 {
        r.feed(&[Input::new(&frag(id % 10, 8 + usize::from(id) * 8, true, &bytes(8)).ip6(PROTOCOL))]);
        assert!(r.in_use() <= 256);
    }
    assert!(r.in_use() > 200 && r.count("reassembly-evicted") > 700, "{}", r.in_use());
    // A fragment of many buffers.
    let big = Input::new(&frag(77, 0, true, &bytes(40_000)).ip6(PROTOCOL)).split(200);
    r.feed(&[big]);
    assert!(r.in_use() <= 256, "{}", r.in_use());
    // Endless fragments of one datagram.
    let mut r = rig(Full4::new, |s| s.max_length = 10);
    for n in 0..100 {
        r.feed(&[Input::new(&frag(1, n * 16, true, &bytes(8)).ip4(PROTOCOL))]);
    }
    assert_eq!(
        (r.in_use(), r.count("reassembly-too-many-fragments"), r.count("reassembly-refused-before")),
        (0, 11, 89)
    );
    let mut r = rig(Full4::new, |s| s.max_reassemblies = 0);
    assert_eq!(reason(&mut r, &frag(1, 0, true, &bytes(8)).ip4(PROTOCOL)), "reassembly-off");
}

#[test]
fn the_longest_datagram() {
    for v6 in [false, true] {
        let mut r = if v6 { rig(Full6::new, |_| {}) } else { rig(Full4::new, |_| {}) };
        let payload = bytes(if v6 { 65_535 } else { 65_515 });
        let parts: Vec<Input> = payload
            .chunks(1448)
            .enumerate()
            .map(|(n, part)| {
                Input::new(&frag(1, n * 1448, n * 1448 + part.len() < payload.len(), part).packet(v6))
            })
            .collect();
        let a = r.one_of(&parts);
        assert_eq!(a.bytes, whole(v6, 1, &payload));
        assert_eq!(r.in_use(), 0);
    }
}

#[test]
fn virtual_reassembly_holds_and_refuses() {
    let udp = |from: usize, more, len: usize| {
        let mut payload = bytes(len);
        payload[..4].copy_from_slice(&[0, 7, 0, 9]);
        frag(3, from, more, &payload).ip4(17)
    };
    let mut r = rig(Virtual4::new, |s| (s.max_length, s.timeout) = (3, Duration::from_millis(100)));
    // Held until the first one comes.
    assert!(r.feed(&[Input::new(&udp(16, true, 8)), Input::new(&udp(24, false, 8))]).is_empty());
    assert_eq!(r.in_use(), 2);
    let out = r.feed(&[Input::new(&udp(0, true, 16))]);
    assert_eq!(
        out.iter().map(|a| &a.bytes).collect::<Vec<_>>(),
        [&udp(16, true, 8), &udp(24, false, 8), &udp(0, true, 16)]
    );
    assert!(out.iter().all(|a| a.d.hash == 7 << 16 | 9 && a.node == "ip4-lookup"));
    assert_eq!((r.in_use(), r.count("reassembly-completed")), (0, 1));
    // The first one again passes; one that says other ports, or lies within it, ends the datagram.
    assert_eq!(r.one(Input::new(&udp(0, true, 16))).d.hash, 7 << 16 | 9);
    assert_eq!(reason(&mut r, &udp(8, true, 8)), "reassembly-overlap");
    assert_eq!(reason(&mut r, &udp(16, true, 8)), "reassembly-refused-before");
    // Too many, or too late.
    let late = |n: usize| Input::new(&frag(4, n * 8, true, &bytes(8)).ip4(17));
    r.feed(&[late(1), late(2), late(3)]);
    assert_eq!(r.in_use(), 3);
    let out = r.feed(&[late(4)]);
    assert!(out.len() == 4 && out.iter().all(|a| a.reason == "reassembly-too-many-fragments"));
    r.feed(&[Input::new(&frag(5, 8, true, &bytes(8)).ip4(17))]);
    r.at_ns(1_100_000_000);
    let out = r.tick();
    assert_eq!((out.len(), out[0].reason, r.in_use()), (1, "reassembly-timeout", 0));
    // A piece at a time, so that packets have their turn.
    let mut many = rig(Virtual4::new, |s| s.timeout = Duration::from_millis(100));
    for id in 10..210 {
        many.feed(&[Input::new(&frag(id, 8, true, &bytes(8)).ip4(17))]);
    }
    many.at_ns(1_100_000_000);
    let pieces: Vec<usize> = (0..5).map(|_| many.tick().len()).collect();
    assert_eq!(pieces, [64, 64, 64, 8, 0]);
    // Contradicting ends.
    assert_eq!(r.run(&[Input::new(&udp(0, true, 16)), Input::new(&udp(16, false, 8))]).len(), 2);
    assert_eq!(reason(&mut r, &udp(24, false, 8)), "reassembly-bad-end");
    // What is no fragment passes untouched.
    let mut whole = udp(0, false, 16);
    whole[6] = 0;
    fix_ip4(&mut whole);
    let a = r.one(Input::new(&whole).aux(5));
    assert_eq!((a.bytes, a.d.has(KNOWN_L4), a.d.aux), (whole, false, 5));
    // Nobody is told of a bad IPv6 fragment of another's.
    let mut r = rig(Virtual6::new, |_| {});
    assert_eq!(r.drops(Input::new(&frag(1, 0, true, &bytes(9)).ip6(17))), "reassembly-bad-length");
}

#[test]
fn ports_of_all_kinds() {
    let l4 = |protocol, upper: &[u8]| L4::read(IpProtocol(protocol), upper);
    let tcp = [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0];
    assert_eq!(l4(6, &tcp), Some(L4 { src: 1, dst: 2, protocol: 6, kind: 0x12 }));
    assert_eq!(l4(6, &tcp[..13]), None);
    assert_eq!(l4(17, &tcp), Some(L4 { src: 1, dst: 2, protocol: 17, kind: 0 }));
    assert_eq!(l4(1, &[8, 0, 0, 0, 0, 7]), Some(L4 { src: 7, dst: 7, protocol: 1, kind: 8 }));
    assert_eq!(l4(58, &[129, 0, 0, 0, 0, 7]), Some(L4 { src: 7, dst: 7, protocol: 58, kind: 129 }));
    assert_eq!(l4(1, &[11, 0, 0, 0, 0, 7]), Some(L4 { src: 0, dst: 0, protocol: 1, kind: 11 }));
    assert_eq!(l4(47, &[]), Some(L4 { protocol: 47, ..L4::default() }));
    assert_eq!(l4(17, &[0]), None);
}
