//! The whole graph against a naive model of label stacks: a list from which entries are taken and to which they are put. The
//! router is that of the comparison of graphs, with its labels.

use crate::short_cuts::world::World;
use packet::mpls::{Entry, Label};
use proptest::prelude::*;
use std::cell::RefCell;

/// An entry: label, EXP, TTL.
type Lse = (u32, u8, u8);

/// What leaves: port, VLAN, entries, the IP packet with its TTL.
type Leaves = (&'static str, Option<u16>, Vec<Lse>, Vec<u8>);

fn ip4(dst: [u8; 4], ttl: u8, id: u8) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 48, 0, id, 0, 0, ttl, 17, 0, 0, 10, 99, 0, 1];
    p.extend(dst);
    packet::ip4::fill_checksum(&mut p);
    p.extend([4, 0, 0, 80, 0, 28, 0, 0]);
    p.resize(48, id);
    p
}

fn with_ttl(ip: &[u8], ttl: u8) -> Vec<u8> {
    let mut p = ip.to_vec();
    p[8] = ttl;
    packet::ip4::fill_checksum(&mut p[..20]);
    p
}

/// What becomes of a packet; `None`: it is not forwarded.
fn model(mut stack: Vec<Lse>, ip: &[u8]) -> Option<Leaves> {
    let mut table = 0;
    for _ in 0..16 {
        let (label, exp, ttl) = *stack.first()?;
        let ip_ttl = ip[8];
        if ttl <= 1 {
            return None;
        }
        // Who takes a label off takes an entropy label below it as well (RFC 6790); others leave it.
        let ends = match (table, label) {
            (_, 0 | 2) => true,
            (0, 102..=105 | 114 | 117 | 118) => stack.len() == 3,
            (_, 106) => stack.len() > 3,
            _ => false,
        };
        if ends && stack.len() > 2 && stack[1].0 == 7 {
            stack.drain(1..3);
        }
        let bottom = stack.len() == 1;
        let swap = |to: u32, exp: u8, above: &[Lse]| {
            let rest = stack[1..].iter().copied();
            let all = above.iter().copied().chain([(to, exp, ttl - 1)]).chain(rest);
            all.collect::<Vec<_>>()
        };
        let popped = |uniform: bool| {
            let mut rest = stack[1..].to_vec();
            match rest.first_mut() {
                Some(below) if uniform => below.2 = below.2.min(ttl - 1),
                _ => {}
            }
            let left = if bottom && uniform { ip_ttl.min(ttl - 1) } else { ip_ttl };
            (rest, with_ttl(ip, left))
        };
        let pop = |port, uniform| {
            let (rest, ip) = popped(uniform);
            Some((port, None, rest, ip))
        };
        // The route to 10.10.0.0/16 leads to `right`.
        let looked_up = || (bottom && ip_ttl > 1).then(|| ("right", None, vec![], with_ttl(ip, ip_ttl - 1)));
        let looked_up_uniform = || {
            let left = ip_ttl.min(ttl);
            (bottom && left > 1).then(|| ("right", None, vec![], with_ttl(ip, left - 1)))
        };
        return match (table, label) {
            (_, 7) if stack.len() < 2 => None,
            (_, 7) => {
                stack.drain(..2);
                if stack.is_empty() {
                    return (ip_ttl > 1).then(|| ("right", None, vec![], with_ttl(ip, ip_ttl - 1)));
                }
                continue;
            }
            (_, 0 | 2) if !bottom => {
                stack.remove(0);
                continue;
            }
            (_, 0) => looked_up(),
            (7, 100) if bottom => Some(("right", None, swap(300, exp, &[]), ip.to_vec())),
            (0, 100) => Some(("right", None, swap(200, exp, &[]), ip.to_vec())),
            (0, 101) => pop("right", false),
            (0, 102 | 104 | 114 | 117) => looked_up(),
            (0, 118) => looked_up_uniform(),
            (_, 106) if !bottom => {
                (table, _) = (7, stack.remove(0));
                continue;
            }
            (0, 107) => Some(("small", None, swap(201, exp, &[]), ip.to_vec())),
            (0, 108) => pop("small", false),
            (0, 109) => Some(("right", None, swap(202, exp, &[(33, 0, 64)]), ip.to_vec())),
            (0, 112) => Some(("right", None, swap(206, exp, &[(34, exp, ttl - 1)]), ip.to_vec())),
            (0, 113) => pop("right", true),
            (0, 115) => Some(("right", None, swap(207, 5, &[]), ip.to_vec())),
            (0, 116) => Some(("trunk", Some(100), swap(208, exp, &[]), ip.to_vec())),
            _ => None,
        };
    }
    None
}

fn bytes(stack: &[Lse], ip: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    for (n, (label, exp, ttl)) in stack.iter().enumerate() {
        let entry = Entry::new(Label::new(*label).unwrap(), *exp, n + 1 == stack.len(), *ttl);
        out.extend(entry.to_bytes());
    }
    out.extend(ip);
    out
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new(true, false));
}

/// What a router with short cuts sends for labelled packets that come on `left`.
fn forward(packets: &[(Vec<Lse>, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
    WORLD.with_borrow_mut(|w| {
        let node = w.dispatcher.id("ethernet-input").unwrap();
        for (stack, ip) in packets {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0xaa, 0x88, 0x47];
            frame.extend(bytes(stack, ip));
            let mut d = w.dispatcher.env.buffers.alloc_bytes(&frame).unwrap();
            d.rx = w.ports[0];
            w.dispatcher.env.enqueue(d, node);
        }
        let sent = w.run(0).sent.into_iter().map(|s| (s.port, s.bytes[12..].to_vec()));
        // ICMP errors are another matter; some go on along the path, below its labels.
        let packet = |b: &[u8]| match b[..2] {
            [8, 0] => 2,
            [0x81, 0] => 6 + 4 * (1 + b[6..].chunks(4).position(|e| e[2] & 1 == 1).unwrap()),
            _ => 2 + 4 * (1 + b[2..].chunks(4).position(|e| e[2] & 1 == 1).unwrap()),
        };
        sent.filter(|(_, b)| b[packet(b) + 9] != 1).collect()
    })
}

fn expected(want: Vec<Leaves>) -> Vec<(u32, Vec<u8>)> {
    WORLD.with_borrow(|w| {
        let frame = |(port, vlan, stack, ip): Leaves| {
            let mut out = vec![];
            if let Some(v) = vlan {
                out.extend([0x81, 0, (v >> 8) as u8, v as u8]);
            }
            out.extend(if stack.is_empty() { [8, 0] } else { [0x88, 0x47] });
            out.extend(bytes(&stack, &ip));
            (w.router.interface_index(port).unwrap(), out)
        };
        want.into_iter().map(frame).collect()
    })
}

/// An IP packet where further labels should be: its first bytes are labels for which there is no route.
#[test]
fn labels_above_the_bottom_are_followed_by_labels() {
    let above = |label: u32| {
        let entry = Entry::new(Label::new(label).unwrap(), 0, false, 64).to_bytes();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0xaa, 0x88, 0x47];
        frame.extend([&entry[..], &ip4([10, 10, 1, 1], 64, 1)].concat());
        frame
    };
    WORLD.with_borrow_mut(|w| {
        let node = w.dispatcher.id("ethernet-input").unwrap();
        // Usual packets first, so that they go by the short cuts for those.
        for label in [0, 101, 102] {
            let mut first = above(label);
            first[16] |= 1;
            for frame in [first, above(label)] {
                let mut d = w.dispatcher.env.buffers.alloc_bytes(&frame).unwrap();
                d.rx = w.ports[0];
                w.dispatcher.env.enqueue(d, node);
            }
            let sent = w.run(0).sent;
            // What is below label 101 goes on with its label.
            let bare = sent.iter().filter(|s| s.bytes[12..14] == [8, 0]).count();
            assert_eq!((bare, sent.len()), (1, if label == 101 { 2 } else { 1 }), "label {label}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stacks_become_what_the_model_says(
        packets in prop::collection::vec(
            (
                prop::collection::vec(
                    (
                        prop::sample::select(vec![0u32, 2, 3, 7, 7, 7, 9, 100, 100, 101, 102, 104, 106, 106, 107, 108, 109, 112, 113, 114, 115, 116, 117, 118, 500]),
                        0u8..8,
                        prop_oneof![6 => 2u8..=255, 1 => 0u8..3],
                    ),
                    1..6,
                ),
                prop_oneof![5 => Just(64u8), 1 => 1u8..4],
            ),
            1..40,
        ),
    ) {
        let packets: Vec<(Vec<Lse>, Vec<u8>)> = packets
            .into_iter()
            .enumerate()
            .map(|(n, (stack, ttl))| (stack, ip4([10, 10, 1, 1], ttl, n as u8)))
            .collect();
        let mut got = forward(&packets);
        let mut want = expected(packets.iter().filter_map(|(stack, ip)| model(stack.clone(), ip)).collect());
        got.sort();
        want.sort();
        prop_assert_eq!(got, want);
    }
}
