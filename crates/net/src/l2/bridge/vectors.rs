//! Vectors in which one frame is unlike those before it: the short cuts do with it what the steps do.

use crate::l2::bridge::{BridgeOp, BridgeSettings, StaticMac};
use crate::router::{Encap, Membership, Op};
use crate::short_cuts::world::World;
use graph::flags;
use packet::eth::MacAddr;

type Mac = [u8; 6];

const STATION: Mac = [2, 0, 0, 0, 7, 0x51];
/// Behind `spoke`, `trunk.950` and `trunk.960`, as the world has it.
const SPOKE: Mac = [2, 0, 0, 0, 1, 1];
const ONE_TAG: Mac = [2, 0, 0, 0, 1, 0xcc];
const TWO_TAGS: Mac = [2, 0, 0, 0, 1, 0xce];
/// Behind `trunk.960` at first.
const LEAVES: Mac = [2, 0, 0, 0, 7, 0x60];
const FILTER: Mac = [2, 0, 0, 0, 1, 0xdd];
const BVI: Mac = [2, 0, 0, 0, 0, 12];

/// A frame that comes to `l2-bridge`.
#[derive(Clone)]
struct Fed {
    rx: &'static str,
    bytes: Vec<u8>,
    /// It is cut to so many bytes; the rest stays in its buffer.
    len: usize,
    /// Its UDP checksum is yet to be made.
    partial: bool,
    /// Its last bytes are in a buffer of their own.
    split: bool,
}

fn frame(rx: &'static str, dst: Mac, behind: &[u8]) -> Fed {
    let bytes = [&dst[..], &STATION, behind].concat();
    Fed { rx, len: bytes.len(), bytes, partial: false, split: false }
}

fn udp4(size: u16) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, 17, 0, 0, 10, 40, 0, 7, 10, 10, 0, 9];
    p[2..4].copy_from_slice(&size.to_be_bytes());
    packet::ip4::fill_checksum(&mut p);
    p.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    p.resize(46, 7);
    p
}

fn udp6(size: u16) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    p[4..6].copy_from_slice(&size.to_be_bytes());
    for last in [[0x40, 7], [0x10, 9]] {
        p.extend([0x20, 1, 0x0d, 0xb8, 0, last[0], 0, 0, 0, 0, 0, 0, 0, 0, 0, last[1]]);
    }
    p.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    p.resize(66, 7);
    p
}

fn with_type(ethertype: u16, packet: Vec<u8>) -> Vec<u8> {
    [&ethertype.to_be_bytes()[..], &packet].concat()
}

struct Pair([World; 2]);

impl Pair {
    fn commit(&mut self, op: Op) {
        self.0.iter_mut().for_each(|w| w.router.commit(vec![op.clone()]).unwrap());
    }

    /// The vector does the same in both worlds, and so many of its frames come out when their source is known.
    fn run(&mut self, what: &str, vector: &[Fed], out: usize) {
        for known in [false, true] {
            let one = |w: &mut World| {
                let node = w.dispatcher.id("l2-bridge").unwrap();
                for f in vector {
                    let buffers = &mut w.dispatcher.env.buffers;
                    let (first, rest) = f.bytes.split_at(if f.split { 50 } else { f.bytes.len() });
                    let mut d = buffers.alloc_bytes(first).unwrap();
                    if f.split {
                        assert!(buffers.append(&mut d, rest));
                    } else {
                        d.len = f.len as u16;
                    }
                    d.rx = w.router.interface_index(f.rx).unwrap();
                    d.l2 = d.off;
                    if f.partial {
                        d.flags |= flags::CSUM_PARTIAL;
                        let m = buffers.meta_mut(&d.buf);
                        (m.csum_start, m.csum_offset) = (d.off + 34, 6);
                    }
                    w.dispatcher.env.enqueue(d, node);
                }
                let mut sent = w.run(0).sent;
                sent.sort_by(|a, b| (a.port, &a.bytes).cmp(&(b.port, &b.bytes)));
                (sent, w.counts())
            };
            let [quick, plain] = self.0.each_mut().map(one);
            assert_eq!(quick.0, plain.0, "{what}");
            let differ: Vec<_> = quick.1.iter().zip(&plain.1).filter(|(a, b)| a != b).collect();
            assert!(differ.is_empty(), "{what}: {differ:?}");
            assert!(!known || quick.0.len() == out, "{what}: {} came out", quick.0.len());
        }
    }

    /// Six frames of one kind with another before the last two, of which `odd` come out.
    fn amid(&mut self, what: &str, usual: &Fed, other: &Fed, odd: usize) {
        let mut vector = vec![usual.clone(); 6];
        vector.insert(4, other.clone());
        self.run(what, &vector, 6 + odd);
    }
}

#[test]
fn one_frame_is_unlike_the_others() {
    let mut p = Pair([true, false].map(|short_cuts| World::new(short_cuts, false)));
    let other_type = |n: usize| with_type(0x88b5, vec![9; n]);

    let usual = frame("hub", SPOKE, &other_type(46));
    p.amid("the longest frame", &usual, &frame("hub", SPOKE, &other_type(1508)), 1);
    p.amid("one byte too many", &usual, &frame("hub", SPOKE, &other_type(1509)), 0);
    p.amid("no whole Ethernet header", &usual, &Fed { len: 10, ..usual.clone() }, 0);
    p.amid("to a member with tags", &usual, &frame("hub", ONE_TAG, &other_type(46)), 1);
    p.amid("to the BVI", &usual, &frame("hub", BVI, &other_type(46)), 0);
    p.amid("on another member", &usual, &frame("rim", SPOKE, &other_type(46)), 0);
    let ip = frame("hub", SPOKE, &with_type(0x0800, udp4(46)));
    p.amid("a checksum to be made", &ip, &Fed { partial: true, ..ip.clone() }, 1);

    let up4 = frame("hub", BVI, &with_type(0x0800, udp4(46)));
    p.amid("another type in front of a packet", &up4, &frame("hub", BVI, &with_type(0x88b5, udp4(46))), 0);
    p.amid("a packet longer than its frame", &up4, &frame("hub", BVI, &with_type(0x0800, udp4(47))), 0);
    let up6 = frame("hub", BVI, &with_type(0x86dd, udp6(26)));
    p.amid("the same in IPv6", &up6, &frame("hub", BVI, &with_type(0x88b5, udp6(26))), 0);
    p.amid("longer in IPv6", &up6, &frame("hub", BVI, &with_type(0x86dd, udp6(27))), 0);
    for up in [false, true] {
        p.commit(Op::SetState { name: "loop0".into(), up });
        p.run("to a BVI that is down, and up again", &[up4.clone(), up4.clone()], if up { 2 } else { 0 });
        p.run("the same in IPv6", &[up6.clone(), up6.clone()], if up { 2 } else { 0 });
    }

    for net in ["10.40.0.1/24", "2001:db8:40::1/64"] {
        p.commit(Op::DelAddress { name: "loop0".into(), net: net.parse().unwrap() });
    }
    p.run("to a BVI without IPv4", &vec![up4.clone(); 3], 0);
    p.run("to a BVI without IPv6", &vec![up6.clone(); 3], 0);

    let tagged = |dst, tags: &[u8], n| frame("trunk.950", dst, &[tags, &other_type(n)].concat());
    let (one, two) = ([0x81, 0, 3, 0xb6], [0x81, 0, 3, 0xc0, 0x81, 0, 0, 60]);
    let usual = tagged(TWO_TAGS, &one, 46);
    p.amid("no tag", &usual, &tagged(TWO_TAGS, &[], 46), 0);
    p.amid("the longest with tags", &usual, &tagged(TWO_TAGS, &one, 1500), 1);
    p.amid("one byte too many with tags", &usual, &tagged(TWO_TAGS, &one, 1501), 0);
    p.amid("shorter than its tags", &usual, &Fed { len: 15, ..usual.clone() }, 0);
    p.amid("a checksum to be made", &usual, &Fed { partial: true, ..tagged(TWO_TAGS, &one, 46) }, 1);
    p.amid("to a filter", &usual, &tagged(FILTER, &one, 46), 0);
    p.amid("to the BVI", &usual, &tagged(BVI, &one, 46), 0);
    for up in [false, true] {
        p.commit(Op::SetState { name: "trunk.960".into(), up });
        p.run("to a member that is down, and up again", &vec![usual.clone(); 4], if up { 4 } else { 0 });
    }
    for link in [false, true] {
        p.0.iter_mut()
            .for_each(|w| w.router.set_link_state(w.router.interface_index("trunk").unwrap(), true, link));
        p.run("to a member without a link", &vec![usual.clone(); 4], if link { 4 } else { 0 });
    }
    let partial = Fed { partial: true, ..usual.clone() };
    p.run("all checksums to be made", &vec![partial; 6], 6);
    let usual = frame("trunk.960", ONE_TAG, &[&two[..], &other_type(46)].concat());
    let lacks = frame("trunk.960", ONE_TAG, &[&two[..4], &other_type(46)].concat());
    p.amid("one of two tags", &usual, &lacks, 0);

    // A bridge domain that forwards nothing beside one that does.
    let settings = BridgeSettings { forward: false, uu_flood: false, ..BridgeSettings::default() };
    p.commit(Op::from(BridgeOp::Create { id: 2, settings }));
    for vlan in [981, 982] {
        let name = format!("trunk.{vlan}");
        let encap = Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true };
        p.commit(Op::CreateSub { parent: "trunk".into(), id: vlan.into(), encap });
        p.commit(Op::SetState { name: name.clone(), up: true });
        let member = Some(Membership { bridge: 2, bvi: false, shg: 0 });
        p.commit(Op::from(BridgeOp::Port { name, member }));
    }
    let to = Some(StaticMac::Port("trunk.982".into()));
    p.commit(Op::from(BridgeOp::Mac { id: 2, mac: MacAddr(TWO_TAGS), to }));
    let usual = tagged(TWO_TAGS, &one, 46);
    let other = frame("trunk.981", TWO_TAGS, &[&[0x81, 0, 3, 0xd5], &other_type(46)[..]].concat());
    p.amid("where nothing is forwarded", &usual, &other, 0);

    // An answer is written into the first buffer.
    let settings = BridgeSettings { arp_term: true, ..BridgeSettings::default() };
    p.commit(Op::from(BridgeOp::Set { id: 1, settings }));
    let address = "10.40.0.9".parse().unwrap();
    p.commit(Op::from(BridgeOp::Arp { id: 1, address, mac: Some(MacAddr(ONE_TAG)) }));
    let mut ask = with_type(0x0806, vec![0, 1, 8, 0, 6, 4, 0, 1]);
    ask.extend([&STATION[..], &[10, 40, 0, 7], &[0; 6], &[10, 40, 0, 9], &[0; 18]].concat());
    let ask = frame("hub", [0xff; 6], &ask);
    p.run("a question", std::slice::from_ref(&ask), 1);
    p.run("a question in two buffers", &[Fed { split: true, ..ask }], 4);

    // What a bridge domain does not do.
    for settings in [
        BridgeSettings { learn: false, ..BridgeSettings::default() },
        BridgeSettings { forward: false, uu_flood: false, ..BridgeSettings::default() },
    ] {
        let out = if settings.forward { 6 } else { 0 };
        let learns = settings.learn;
        p.commit(Op::from(BridgeOp::Set { id: 1, settings }));
        if !learns {
            let other = frame("trunk.960", TWO_TAGS, &[&two[..], &other_type(46)].concat());
            p.amid("from where the others go", &tagged(TWO_TAGS, &one, 46), &other, 0);
        }
        for usual in [&frame("hub", SPOKE, &other_type(46)), &tagged(TWO_TAGS, &one, 46)] {
            for source in [[0; 6], [3, 0, 0, 0, 0, 1]] {
                let mut bad = usual.clone();
                bad.bytes[6..12].copy_from_slice(&source);
                let mut vector = vec![usual.clone(); 6];
                vector.insert(4, bad);
                p.run("a source that none has", &vector, out);
            }
        }
    }

    // An address whose interface has left for another bridge domain, where it is not forgotten yet.
    p.commit(Op::from(BridgeOp::Set { id: 1, settings: BridgeSettings::default() }));
    let mut first = frame("trunk.960", SPOKE, &[&two[..], &other_type(46)].concat());
    first.bytes[6..12].copy_from_slice(&LEAVES);
    p.run("it is learned", &[first], 1);
    p.run("it is found", &vec![tagged(LEAVES, &one, 46); 4], 4);
    let member = Some(Membership { bridge: 2, bvi: false, shg: 0 });
    p.commit(Op::from(BridgeOp::Port { name: "trunk.960".into(), member }));
    p.run("it is flooded to three members", &vec![tagged(LEAVES, &one, 46); 4], 12);
}
