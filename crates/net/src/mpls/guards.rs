//! The guards of the nodes of label switching, each met by a packet of its own; what comes right before a guard passes.

use crate::icmp::MplsAsk;
use crate::interface::Pseudowire;
use crate::labels::{Imposition, OutLabels};
use crate::mpls::*;
use crate::plane::Plane;
use crate::testing::{Arrival, Input, Rig, fix_ip4, hex};
use graph::{Node, flags};
use packet::eth::EtherType;
use packet::mpls::{Entry, Label};
use std::sync::Arc;
use tables::groups::Path;

/// An IPv4 packet of `len` bytes.
fn ip4(ttl: u8, len: usize, df: bool) -> Vec<u8> {
    let mut p = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 7, u8::from(df) << 6, 0, ttl, 17, 0, 0];
    p.extend([203, 0, 113, 7, 198, 51, 100, 77]);
    fix_ip4(&mut p);
    p.extend((0..len - 20).map(|n| (n % 251) as u8));
    p
}

/// An IPv6 packet of `len` bytes.
fn ip6(src: &str, hops: u8, len: usize) -> Vec<u8> {
    let address = |a: &str| a.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let payload = (len - 40) as u16;
    let mut p = [&[0x60, 0, 0, 0][..], &payload.to_be_bytes(), &[17, hops]].concat();
    p.extend([address(src), address("2001:db8:77::9")].concat());
    p.resize(len, 0);
    p
}

fn stack(labels: &[u32], ttl: u8) -> Vec<u8> {
    let entry = |(n, l): (usize, &u32)| Entry::new(Label::new(*l).unwrap(), 0, n + 1 == labels.len(), ttl);
    labels.iter().enumerate().flat_map(|e| entry(e).to_bytes()).collect()
}

/// A rig with an adjacency that puts labels on.
fn rig<N: Node>(make: impl FnOnce(&Arc<Plane>) -> N, mtu: u16, labels: &[u32]) -> (Rig, u32) {
    let mut r = Rig::new(make);
    let adj = r.adjacency(mtu);
    let mut a = r.adjacencies.get(adj).unwrap().clone();
    let pushed = OutLabels::new(labels).unwrap().pushed();
    a.mpls = Some(Box::new(Imposition::new(pushed)));
    r.adjacencies.replace(adj, a);
    (r, adj)
}

fn hash(mut i: Input, hash: impl Into<u32>) -> Input {
    i.d.hash = hash.into();
    i
}

#[test]
fn labels_on_ipv4() {
    let (mut r, adj) = rig(LabelImposition::<PushIp4Pipe>::new, 1500, &[100]);
    let input = |p: &[u8]| Input::new(p).aux(adj);
    assert_eq!(r.drops(Input::new(&ip4(9, 60, false)).aux(99)), "mpls-imposition-adjacency-gone");
    assert_eq!(r.drops(input(&ip4(9, 20, false)[..19])), "mpls-imposition-too-short");
    let mut broken = input(&ip4(9, 60, false));
    broken.partial = Some((1900, 6));
    assert_eq!(r.drops(broken), "mpls-imposition-bad-offload");
    for front in 0..4 {
        let i = Input { front: Some(front), ..input(&ip4(9, 60, false)) };
        assert_eq!(r.drops(i), "mpls-imposition-no-headroom");
    }
    let a = r.one(Input { front: Some(4), ..input(&ip4(9, 60, false)) });
    assert_eq!(
        (a.node, a.d.off, a.bytes),
        ("mpls-output", 0, [stack(&[100], 64), ip4(8, 60, false)].concat())
    );

    let node = |r: &mut Rig, p: &[u8], flags| r.one(Input::new(p).aux(adj).flags(flags)).node;
    assert_eq!(node(&mut r, &ip4(2, 1496, true), 0), "mpls-output");
    for ttl in [0, 1] {
        assert_eq!(node(&mut r, &ip4(ttl, 60, false), 0), "ip4-icmp-error");
        assert_eq!(node(&mut r, &ip4(ttl, 60, false), flags::LOCAL), "mpls-output");
    }
    assert_eq!(r.count("mpls-imposition-ttl-expired"), 2);
    assert_eq!(node(&mut r, &ip4(2, 1497, true), 0), "ip4-icmp-error");
    assert_eq!(node(&mut r, &ip4(2, 1497, false), 0), "ip4-frag");
    assert_eq!(r.count("mpls-imposition-too-big"), 1);
}

#[test]
fn labels_on_ipv6() {
    let (mut r, adj) = rig(LabelImposition::<PushIp6Pipe>::new, 1500, &[100, 200]);
    let mut node = |p: &[u8], flags| {
        let a = r.one(Input::new(p).aux(adj).flags(flags));
        if a.reason.is_empty() { a.node } else { a.reason }
    };
    let far = "2001:db8:66::5";
    assert_eq!(node(&ip6(far, 2, 1492), 0), "mpls-output");
    assert_eq!(node(&ip6(far, 1, 60), 0), "ip6-icmp-error");
    assert_eq!(node(&ip6(far, 1, 60), flags::LOCAL), "mpls-output");
    assert_eq!(node(&ip6(far, 9, 1493), 0), "ip6-icmp-error");
    assert_eq!(node(&ip6(far, 9, 1493), flags::LOCAL), "ip6-frag");
    assert_eq!(
        node(&ip6("fe80::5", 9, 60), 0),
        "ip6-icmp-error",
        "on another link than the packet came from"
    );
    assert_eq!(node(&ip6(far, 9, 60)[..39], 0), "mpls-imposition-too-short");
    for why in ["ttl-expired", "too-big", "beyond-scope"] {
        assert_eq!(r.count(&format!("mpls-imposition-{why}")), 1, "{why}");
    }
}

#[test]
fn labels_in_the_place_of_one() {
    let (mut r, adj) = rig(LabelImposition::<SwapPipe>::new, 1500, &[]);
    let swap = OutLabels::new(&[200]).unwrap().swapped().unwrap();
    let packet = [stack(&[100], 9), ip4(5, 60, false)].concat();
    let a = r.one(hash(Input::new(&packet).aux(adj), swap.0));
    assert_eq!((a.node, &a.bytes[..4]), ("mpls-output", &stack(&[200], 8)[..]));
    assert_eq!(r.drops(hash(Input::new(&packet[..3]).aux(adj), swap.0)), "mpls-imposition-too-short");
    assert_eq!(r.drops(Input::new(&packet).aux(adj)), "mpls-imposition-adjacency-gone", "nothing to swap to");
}

#[test]
fn labels_taken_off() {
    use super::disposition::TO_NEIGHBOR;
    let (mut r, adj) = rig(LabelDisposition::<Ip4Pipe>::new, 1500, &[]);
    let under = |p: Vec<u8>| [stack(&[100], 9), p].concat();
    let near = |p: &[u8]| hash(Input::new(p).aux(adj), TO_NEIGHBOR);
    let into = |p: &[u8]| Input::new(p).aux(u32::MAX);
    assert_eq!(
        r.drops(hash(Input::new(&under(ip4(5, 60, false))).aux(99), TO_NEIGHBOR)),
        "mpls-disposition-adjacency-gone"
    );
    for p in [&stack(&[100], 9)[..3], &stack(&[100], 9), &under(ip6("2001:db8::5", 9, 60))] {
        assert_eq!(r.drops(into(p)), "mpls-disposition-not-ip");
        assert_eq!(r.drops(near(p)), "mpls-disposition-not-ip");
    }
    assert_eq!(r.drops(near(&under(hex("4500")))), "mpls-disposition-bad-header");
    assert_eq!(r.drops(into(&under(hex("4500")))), "mpls-disposition-bad-header");
    let a = r.one(into(&under([ip4(5, 60, false), vec![0; 9]].concat())));
    assert_eq!((a.node, a.bytes), ("ip4-lookup", ip4(5, 60, false)), "padding goes");
    for (len, df, node) in
        [(1500, true, "mpls-output"), (1501, false, "ip4-frag"), (1501, true, "ip4-icmp-error")]
    {
        assert_eq!(r.one(near(&under(ip4(5, len, df)))).node, node);
    }
    assert_eq!(r.count("mpls-disposition-too-big"), 1);
    let (mut r, adj) = rig(LabelDisposition::<Ip6Uniform>::new, 1500, &[]);
    let near = |p: &[u8]| hash(Input::new(p).aux(adj), TO_NEIGHBOR);
    for (len, node) in [(1500, "mpls-output"), (1501, "ip6-icmp-error")] {
        let a = r.one(near(&under(ip6("2001:db8:66::5", 64, len))));
        assert_eq!((a.node, a.bytes[7]), (node, 8));
    }
    assert_eq!(
        r.drops(near(&under(ip6("2001:db8:66::5", 64, 60)[..39].to_vec()))),
        "mpls-disposition-bad-header"
    );
}

#[test]
fn the_way_out() {
    let (mut r, adj) = rig(|plane| MplsOutput::new(plane, 0), 1500, &[]);
    let packet = |len: usize| [stack(&[100], 9), ip4(5, len - 4, true)].concat();
    let out = |p: &[u8], kind: EtherType| hash(Input::new(p).aux(adj), kind.0);
    assert_eq!(r.drops(hash(Input::new(&packet(60)).aux(99), EtherType::MPLS.0)), "mpls-adjacency-gone");
    for front in [0, 13] {
        let i = Input { front: Some(front), ..out(&packet(60), EtherType::MPLS) };
        assert_eq!(r.drops(i), "mpls-output-no-headroom");
    }
    let a = r.one(Input { front: Some(14), ..out(&packet(60), EtherType::MPLS) });
    assert_eq!((a.node, &a.bytes[12..18]), ("interface-output", &hex("8847 00064109")[..]));
    assert_eq!(r.one(out(&packet(1500), EtherType::MPLS)).node, "interface-output");
    assert_eq!(r.one(out(&packet(1501), EtherType::MPLS)).node, "mpls-frag");
    assert_eq!(r.count("mpls-labelled-packet-too-big"), 1);
    assert_eq!(r.drops(out(&ip4(5, 1501, true), EtherType::IPV4)), "mpls-output-too-big");
    let waits = r.adjacency_with(1500, crate::adjacency::AdjacencyState::Incomplete);
    assert_eq!(r.one(hash(Input::new(&packet(60)).aux(waits), EtherType::MPLS.0)).node, "mpls-hold");
}

#[test]
fn frames_into_a_tunnel() {
    let (mut r, adj) = rig(|plane| MplsTunnelTx::new(plane, 0), 1500, &[100, 1000]);
    let group = r.groups.acquire(&[Path::new(crate::plane::kind::LABEL, adj)]).unwrap();
    let mut i = r.interfaces.get(2).unwrap().clone();
    i.tunnel = Some(Pseudowire { group, control_word: true });
    r.interfaces.replace(2, i);
    let frame = |len: usize, front| {
        let mut i = Input { front: Some(front), ..Input::new(&vec![0x5a; len]) };
        i.d.tx = 2;
        i
    };
    assert_eq!(r.drops(frame(60, 11)), "mpls-tunnel-no-headroom");
    let a = r.one(frame(60, 12));
    assert_eq!(
        (a.node, &a.bytes[..12]),
        ("mpls-output", &[stack(&[100, 1000], 64), vec![0; 4]].concat()[..])
    );
    assert_eq!(r.one(frame(1488, 64)).node, "mpls-output");
    assert_eq!(r.drops(frame(1489, 64)), "mpls-tunnel-frame-too-big");
}

#[test]
fn stacks_without_end() {
    let mut r = Rig::new(MplsIcmpError::new);
    let open = |n: usize| stack(&vec![100; n + 1], 1)[..4 * n].to_vec();
    let ask = |p: &[u8]| hash(Input::new(p).aux(MplsAsk::TTL_EXPIRED.word()), EtherType::MPLS.0);
    for n in [64, 65, 1000] {
        assert_eq!(r.drops(ask(&open(n))), "mpls-stack-too-deep", "{n}");
    }
    for n in [1, 12, 63] {
        assert_eq!(r.drops(ask(&open(n))), "mpls-stack-truncated", "{n}");
    }
    let whole = [stack(&[100; 64], 1), ip4(5, 60, false)].concat();
    assert_eq!(r.one(ask(&whole)).bytes, ip4(5, 60, false));
    assert_eq!(r.drops(ask(&[stack(&[100; 64], 1), vec![0; 40]].concat())), "mpls-error-not-ip");
    assert_eq!(r.drops(ask(&stack(&[100], 1))), "mpls-error-not-ip");
}

/// An error goes along the path when no route leads to the sender, but not where its next router is silent.
#[test]
fn errors_along_the_path() {
    use crate::icmp::along::ALONG;
    let mut r = Rig::new(MplsIcmpError::new);
    let mut asks = |labels: usize, ask: MplsAsk| {
        let p = [stack(&vec![100; labels], 1), ip4(5, 60, false)].concat();
        let a = r.one(hash(Input::new(&p).aux(ask.word()), EtherType::MPLS.0));
        assert_eq!((a.node, a.bytes), ("ip4-icmp-error", ip4(5, 60, false)));
        a.d.has(ALONG).then_some(a.d.hash)
    };
    for (labels, ask, want) in [
        (1, MplsAsk::TTL_EXPIRED, Some(4)),
        (10, MplsAsk::TTL_EXPIRED, Some(40)),
        (11, MplsAsk::TTL_EXPIRED, None),
        (2, MplsAsk::too_big(600), Some(8)),
        (1, MplsAsk::UNREACHABLE, None),
    ] {
        assert_eq!(asks(labels, ask), want, "{labels} labels, {ask:?}");
    }
}

/// The packet below the labels of fragments.
fn joined(all: &[Arrival], labels: &[u8], ttl: u8) -> Vec<u8> {
    let mut payload = vec![];
    for a in all {
        assert_eq!((a.node, &a.bytes[..labels.len()]), ("mpls-output", labels));
        let ip = &a.bytes[labels.len()..];
        let h = packet::ip4::Ip4Header(packet::ip4::check(ip, ip.len()).unwrap());
        assert_eq!(
            (h.fragment_offset(), h.ttl(), usize::from(h.total_len())),
            (payload.len(), ttl, ip.len())
        );
        payload.extend(&ip[20..]);
    }
    payload
}

#[test]
fn fragments_below_labels() {
    let (mut r, adj) = rig(MplsFrag::new, 600, &[]);
    let labels = stack(&[100, 200], 9);
    let packet = ip4(5, 1400, false);
    let whole = [&labels[..], &packet].concat();
    for split in [100, 2000] {
        let all = r.run(&[Input::new(&[&whole[..], &[0; 7]].concat()).split(split).aux(adj)]);
        assert_eq!(joined(&all, &labels, 5), packet[20..]);
        assert!(all.len() == 3 && all.iter().all(|a| a.bytes.len() <= 600 && a.d.aux == adj));
    }
    assert_eq!([r.count("ip4-packets-fragmented"), r.count("ip4-fragments-made")], [2, 6]);
    assert_eq!(r.drops(Input::new(&whole).aux(99)), "ip4-frag-adjacency-gone");
    // About others an error is sent.
    let mut wrong = whole.clone();
    wrong[18] ^= 1;
    let deep = [stack(&[100; 11], 9), ip4(5, 1400, false)].concat();
    for (p, why) in [
        ([&labels[..], &ip4(5, 1400, true)].concat(), "don't fragment"),
        ([&labels[..], &ip6("2001:db8:66::5", 9, 1400)].concat(), "IPv6"),
        (wrong, "checksum"),
        (whole[..1000].to_vec(), "cut off"),
        (labels.repeat(200)[4..].iter().map(|b| b & 0xfe).collect(), "no bottom"),
        (deep, "more labels than have room"),
    ] {
        let a = r.one(Input::new(&p).aux(adj));
        assert_eq!(
            (a.node, a.d.aux, a.d.tx),
            ("mpls-icmp-error", MplsAsk::too_big(600).word(), adj),
            "{why}"
        );
    }
    let deep = [stack(&[100; 10], 9), ip4(5, 1400, false)].concat();
    assert_eq!(joined(&r.run(&[Input::new(&deep).aux(adj)]), &deep[..40], 5), packet[20..]);
    let (mut r, adj) = rig(MplsFrag::new, 35, &[]);
    assert_eq!(r.drops(Input::new(&whole).aux(adj)), "ip4-frag-mtu-too-small");
}
