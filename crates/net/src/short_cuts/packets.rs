//! Packets made of numbers: mostly usual ones, with a fault or an oddity now and then.

use super::setup::PORTS;
use super::world::World;
use crate::testing::fix_ip4;
use graph::follow::Mark;
use graph::{Desc, VECTOR_SIZE, flags};

/// A small generator (splitmix64): a packet is what its seed says.
pub struct Rng(pub u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Tags as (TPID, TCI), outermost first.
const TAGS: [&[(u16, u16)]; 28] = [
    &[],
    &[(0x8100, 100)],
    &[(0x8100, 0xe064)],
    &[(0x88a8, 200)],
    &[(0x8100, 300), (0x8100, 30)],
    &[(0x8100, 400)],
    &[(0x8100, 400), (0x8100, 7)],
    &[(0x8100, 500), (0x8100, 7)],
    &[(0x8100, 600)],
    &[(0x8100, 800)],
    &[(0x88a8, 700)],
    &[(0x8100, 9)],
    &[(0x88a8, 100)],
    &[(0x8100, 200)],
    &[(0x8100, 0)],
    &[(0x88a8, 0)],
    &[(0x8100, 999)],
    &[(0x8100, 300)],
    &[(0x8100, 100), (0x8100, 100)],
    &[(0x8100, 100), (0x8100, 1), (0x8100, 2)],
    &[(0x8100, 300), (0x88a8, 30)],
    &[(0x8100, 950)],
    &[(0x8100, 960), (0x8100, 60)],
    &[(0x88a8, 970)],
    &[(0x8100, 950), (0x8100, 1)],
    &[(0x8100, 960), (0x8100, 60), (0x8100, 1)],
    &[(0x8100, 300), (0x8100, 31)],
    // No tag, but what a short cut may take for one.
    &[(0, 0)],
];

/// Label stacks as (label, TTL), the outermost first.
const STACKS: [&[(u32, u8)]; 49] = [
    &[],
    &[(100, 64)],
    &[(101, 64)],
    &[(102, 64)],
    &[(103, 64)],
    &[(0, 64)],
    &[(2, 64)],
    &[(104, 64)],
    &[(105, 64)],
    &[(106, 64), (100, 9)],
    &[(106, 64), (100, 1)],
    &[(106, 64), (106, 64), (106, 5), (106, 5), (106, 5), (106, 5), (106, 5), (106, 5), (106, 5), (100, 5)],
    &[(107, 64)],
    &[(108, 64)],
    &[(109, 64)],
    &[(110, 64)],
    &[(110, 64), (7, 0), (77, 0)],
    &[(111, 64)],
    &[(112, 64)],
    &[(113, 5)],
    &[(114, 64)],
    &[(117, 64)],
    &[(118, 5)],
    &[(117, 64), (7, 64), (77, 0)],
    &[(115, 64)],
    &[(100, 64), (500, 3)],
    &[(101, 64), (500, 3)],
    &[(102, 64), (500, 3)],
    &[(113, 5), (500, 200)],
    &[(100, 1)],
    &[(100, 0)],
    &[(101, 1)],
    &[(102, 1)],
    &[(1, 64)],
    &[(3, 64)],
    &[(9, 64)],
    &[(999, 64)],
    &[(0, 64), (0, 64), (2, 64), (100, 64)],
    &[(116, 64)],
    &[(0, 2)],
    &[(0, 1)],
    &[(0, 64), (7, 64), (77, 0)],
    &[(102, 64), (7, 64), (77, 0)],
    &[(106, 64), (7, 64), (77, 0), (100, 9)],
    &[(100, 64), (7, 64), (77, 0)],
    &[(7, 64), (77, 0)],
    &[(7, 64), (77, 0), (100, 9)],
    &[(7, 64)],
    &[(102, 64), (7, 64)],
];

const DST4: [[u8; 4]; 46] = [
    [10, 10, 1, 1],
    [10, 11, 0, 0],
    [10, 12, 0, 1],
    [10, 13, 0, 1],
    [10, 14, 0, 1],
    [10, 15, 0, 1],
    [10, 16, 0, 1],
    [10, 17, 0, 1],
    [10, 18, 0, 1],
    [10, 19, 0, 1],
    [10, 20, 0, 1],
    [10, 21, 0, 1],
    [10, 22, 0, 1],
    [10, 23, 0, 1],
    [10, 24, 0, 1],
    [223, 255, 255, 1],
    [192, 0, 2, 1],
    [192, 0, 2, 255],
    [192, 0, 2, 77],
    [198, 51, 100, 2],
    [10, 0, 0, 2],
    [99, 9, 9, 9],
    [224, 0, 0, 5],
    [239, 255, 255, 255],
    [255, 255, 255, 255],
    [0, 1, 2, 3],
    [1, 0, 0, 1],
    [126, 255, 255, 255],
    [127, 0, 0, 1],
    [128, 0, 0, 1],
    [240, 0, 0, 1],
    [10, 1, 0, 1],
    [10, 25, 0, 1],
    [10, 26, 0, 1],
    [10, 27, 0, 1],
    [10, 28, 0, 1],
    [10, 29, 0, 1],
    [10, 30, 0, 1],
    [10, 34, 0, 2],
    [10, 35, 0, 2],
    [198, 51, 100, 1],
    [10, 36, 0, 2],
    [10, 37, 0, 2],
    [10, 38, 0, 2],
    [239, 1, 1, 1],
    [10, 41, 0, 2],
];
const SRC4: [[u8; 4]; 16] = [
    [192, 0, 2, 2],
    [10, 99, 0, 1],
    [192, 0, 2, 1],
    [0, 0, 0, 0],
    [1, 0, 0, 0],
    [126, 0, 0, 1],
    [127, 1, 2, 3],
    [128, 0, 0, 1],
    [223, 255, 255, 254],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
    [240, 1, 1, 1],
    [198, 51, 100, 2],
    // Broadcast addresses of connected prefixes, of this interface and of another, and a host whose last octet one has as well.
    [192, 0, 2, 255],
    [10, 3, 0, 0],
    [10, 99, 0, 255],
];
const DST6: [&str; 38] = [
    "2001:db8:10::1",
    "2001:db8:11::1",
    "2001:db8:12::1",
    "2001:db8:13::1",
    "2001:db8:14::1",
    "2001:db8:15::1",
    "2001:db8:16::1",
    "2001:db8:17::1",
    "2001:db8:18::1",
    "2001:db8:21::1",
    "2001:db8:1::1",
    "2001:db8:1::2",
    "2001:db8:2::2",
    "2001:db8:1::77",
    "3fff::1",
    "fe80::2",
    "fe80::ff:fe00:1",
    "febf::1",
    "fec0::1",
    "fe7f::1",
    "ff02::1",
    "ff02::2",
    "ff01::1",
    "ff05::1",
    "ff0e::1",
    "::",
    "::1",
    "::5",
    "::ffff:10.10.1.1",
    "0:0:0:1::1",
    "2001:db8:25::1",
    "2001:db8:26::1",
    "2001:db8:27::1",
    "2001:db8:34::2",
    "2001:db8:35::2",
    "2001:db8:2::1",
    "2001:db8:37::2",
    "2001:db8:41::2",
];
const SRC6: [&str; 13] = [
    "2001:db8:1::2",
    "2001:db8:99::1",
    "2001:db8:1::1",
    "fe80::2",
    "fec0::1",
    "febf::1",
    "ff02::1",
    "::",
    "::1",
    "::9",
    "0:0:0:1::1",
    "fe7f::1",
    "2001:db8:2::2",
];

/// The EtherType of slow protocols.
const SLOW: u16 = 0x8809;

/// From here on `to` is the address of another port.
const OTHER_PORT: u8 = 20;

/// What an IPv4 header checksum is to be.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Right, and this number.
    Right(u16),
    /// This number, right or not.
    Says(u16),
}

/// Where a packet enters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Ethernet,
    /// In the middle of the graph, with a scratch word.
    Inner(&'static str, u32),
}

/// A packet.
#[derive(Clone, Debug)]
pub struct Spec {
    entry: Entry,
    port: usize,
    tags: usize,
    to: u8,
    from: u8,
    ethertype: u16,
    /// Its label stack; 0: none.
    labels: usize,
    v6: bool,
    dst: usize,
    host: u8,
    src: usize,
    ttl: u8,
    check: Option<Check>,
    options: u8,
    fragment: u16,
    first: u8,
    next: u8,
    wrong_len: i16,
    size: usize,
    padding: usize,
    cut: Option<usize>,
    flip: Option<(usize, u8)>,
    flags: u16,
    split: Option<usize>,
    gso: Option<(u16, u8)>,
    sport: u16,
    /// Datagrams are of a VXLAN tunnel.
    vxlan: bool,
}

impl Spec {
    /// What the usual packets of a vector look like.
    pub fn theme(seed: u64) -> Spec {
        let mut r = Rng(seed);
        let v6 = r.below(2) == 1;
        let port = r.pick(&[0, 0, 0, 0, 1, 2, 7, 7, 7, 8, 4, 10, 11, 11, 11, 12, 16, 17, 18]);
        let tags =
            if port == 7 { r.pick(&[0, 1, 1, 1, 3, 3, 4, 5, 6, 9, 21, 21, 22, 22, 23, 26]) } else { 0 };
        let labels = r.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 22, 23, 14, 35]);
        // Out of a tunnel.
        let tunnelled = r.below(8) == 0;
        Spec {
            labels,
            entry: Entry::Ethernet,
            port,
            tags,
            to: if port == 11 || tags >= 21 {
                r.pick(&[0, 0, 0, 6, 6, 7, 8, 2, 11, 12, 13])
            } else {
                r.pick(&[0, 0, 0, 6])
            },
            from: 0,
            ethertype: if v6 { 0x86dd } else { 0x0800 },
            v6,
            dst: r.pick(&if tunnelled {
                let (end, group) = if v6 { (35, 35) } else { (40, 44) };
                let mut all = [end; 22];
                all[21] = group;
                all
            } else {
                [
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    1,
                    1,
                    5,
                    8,
                    9,
                    13,
                    if v6 { 30 } else { 32 },
                    if v6 { 31 } else { 33 },
                    if v6 { 32 } else { 34 },
                    if v6 { 33 } else { 38 },
                    if v6 { 34 } else { 39 },
                    if v6 { 33 } else { 41 },
                    if v6 { 36 } else { 42 },
                    if v6 { 36 } else { 43 },
                    if v6 { 37 } else { 45 },
                    if v6 { 37 } else { 45 },
                ]
            }),
            host: 0,
            src: if tunnelled { 12 } else { 0 },
            ttl: 64,
            check: None,
            options: 0,
            fragment: 0,
            first: 0,
            next: if tunnelled && r.below(2) == 0 { 47 } else { 17 },
            vxlan: tunnelled,
            wrong_len: 0,
            size: r.pick(&[26, 26, 26, 60, 500]),
            padding: 0,
            cut: None,
            flip: None,
            flags: 0,
            // Of several buffers, the first one long enough for a short cut.
            split: r.pick(&[None, None, None, None, None, Some(82), Some(96), Some(200)]),
            gso: None,
            sport: 1000,
        }
    }

    /// A packet of the theme, often with something unusual.
    pub fn like(theme: &Spec, seed: u64) -> Spec {
        let mut r = Rng(seed);
        let mut s = theme.clone();
        s.host = r.below(4) as u8;
        s.sport = 1000 + r.below(3) as u16;
        // Of two sub-interfaces in random order, where there are two for the same kinds of tags.
        if let 4 | 26 = s.tags {
            s.tags = r.pick(&[4, 26]);
        }
        let changes = r.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3]);
        for _ in 0..changes {
            s.change(&mut r);
        }
        s
    }

    fn change(&mut self, r: &mut Rng) {
        match r.below(28) {
            0 => {
                // Often to the router's address on the port of the others.
                if r.below(2) == 0 {
                    self.to = OTHER_PORT + self.port as u8;
                }
                self.port = r.below(PORTS.len());
            }
            // Often one of those that a router takes with one tag.
            1 => {
                self.tags = if r.below(2) == 0 {
                    r.below(TAGS.len())
                } else {
                    r.pick(&[1, 2, 3, 4, 8, 9, 10, 21, 22, 23, 24])
                }
            }
            2 => self.to = r.below(14) as u8,
            3 => self.from = r.below(10) as u8,
            4 => {
                self.ethertype = r.pick(&[0x0800, 0x86dd, 0x0806, 0x1234, 46, SLOW, SLOW]);
                // LACP, a marker, or none of them.
                self.first = if self.ethertype == SLOW { r.pick(&[0, 1, 1, 2]) } else { self.first };
            }
            5 => {
                self.v6 = !self.v6;
                self.ethertype = if self.v6 { 0x86dd } else { 0x0800 };
            }
            6..=8 => self.dst = r.below(38),
            24 => self.labels = r.below(STACKS.len()),
            // To the router itself.
            26 if self.v6 => (self.dst, self.next) = (10, r.pick(&[58, 6, 17, 89])),
            26 => (self.dst, self.next) = (16, r.pick(&[1, 1, 2, 6, 17, 89])),
            9 => self.src = [r.below(12), 13 + r.below(3)][r.below(2)],
            10 => self.ttl = r.pick(&[0, 1, 2, 3, 255]),
            11 => {
                let n = r.pick(&[0xfeff, 0xfefe, 0xff00, 0xff01, 0xfffe, 0, 0x00ff, 0x0100, 0xfdff, 0x8000]);
                self.check = Some(Check::Right(n));
            }
            12 => {
                let n = r.pick(&[0xffff, 0, 0xfeff, 0xff00, 0x1234]);
                self.check = Some(Check::Says(n));
            }
            13 => self.options = r.pick(&[4, 8, 40]),
            14 => self.fragment = r.pick(&[0x4000, 0x2000, 0x0001, 0x8000]),
            15 => self.first = r.pick(&[0x46, 0x44, 0x55, 0x60, 0x65, 0x40, 0x4f]),
            16 => self.next = r.pick(&[0, 1, 6, 58, 59, 60]),
            17 => self.wrong_len = r.pick(&[-1, 1, -40, 100, -1000, i16::MAX]),
            18 => self.size = r.pick(&[0, 1, 7, 8, 548, 556, 557, 1240, 1260, 1261, 1472, 1480, 1481, 1600]),
            19 => self.padding = r.pick(&[1, 2, 18, 46]),
            20 => self.cut = Some(r.below(70)),
            21 => self.flip = Some((r.below(70), 1 << r.below(8))),
            22 => {
                self.flags |= r.pick(&[
                    flags::CSUM_PARTIAL,
                    flags::CSUM_PARTIAL,
                    flags::CSUM_VALID,
                    flags::TRACED,
                    flags::GSO | flags::CSUM_PARTIAL,
                    flags::L2_GROUP,
                    flags::LOCAL,
                ]);
                self.gso = (self.flags & flags::GSO != 0).then(|| (r.pick(&[8, 100, 536]), 5));
                if r.below(8) == 0 {
                    let node = r.pick(&[
                        "memif-ip-input",
                        "ip4-input",
                        "ip6-input",
                        "ip4-lookup",
                        "ip6-lookup",
                        "ip4-rewrite",
                        "ip6-rewrite",
                        "interface-output",
                        "span-output",
                        "linux-cp-xc",
                        "linux-cp-punt",
                        "l2-xconnect",
                        "l2-bridge",
                        "l2-flood",
                        "l2-arp-term",
                        "mpls-input",
                        "mpls-lookup",
                        "mpls-output",
                        "mpls-icmp-error",
                        "mpls-tunnel-tx",
                        "interface-rx-dpo-l2",
                        "mpls-label-imposition-pipe",
                        "ip4-mpls-label-imposition-pipe",
                        "ip6-mpls-label-imposition-uniform",
                        "ip4-mpls-label-disposition-pipe",
                        "bond-input",
                        "bond-tx",
                        "lacp-input",
                        "program-punt",
                    ]);
                    self.entry = Entry::Inner(node, r.below(40) as u32);
                }
            }
            // As much zero as a frame can have where tags and addresses stand.
            23 => (self.tags, self.to) = (TAGS.len() - 1, 5),
            _ => self.split = Some(1 + r.below(160)),
        }
    }

    /// Stands in the identification or the flow label, and with the source port: packets of different ports and of
    /// different label stacks are of different flows, as nothing keeps these in order where they come out of one
    /// interface.
    fn mark(&self) -> [u8; 2] {
        [self.labels as u8, self.port as u8 + 1]
    }

    fn packet4(&self) -> Vec<u8> {
        let header = 20 + usize::from(self.options);
        let mut p = vec![0u8; header + self.size];
        p[0] = 0x40 | (header / 4) as u8;
        let len = (p.len() as i64 + i64::from(self.wrong_len)) as u16;
        p[2..4].copy_from_slice(&len.to_be_bytes());
        p[4..6].copy_from_slice(&self.mark());
        p[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        p[8] = self.ttl;
        p[9] = self.next;
        p[12..16].copy_from_slice(&SRC4[self.src % SRC4.len()]);
        p[16..20].copy_from_slice(&DST4[self.dst % DST4.len()]);
        if self.dst < 2 {
            p[19] = self.host;
        }
        p[20..header].fill(1);
        if self.first != 0 {
            p[0] = self.first;
        }
        if usize::from(p[0] & 15) * 4 == header {
            if let Some(Check::Right(want)) = self.check {
                // The checksum is the complement of a sum of which the identification is a part.
                fix_ip4(&mut p);
                let have = u16::from_be_bytes([p[10], p[11]]);
                let sum = u32::from(have) + u32::from(!want);
                let id = (sum + (sum >> 16)) as u16;
                p[4..6].copy_from_slice(&id.to_be_bytes());
            }
            fix_ip4(&mut p);
        }
        if let Some(Check::Says(n)) = self.check {
            p[10..12].copy_from_slice(&n.to_be_bytes());
        }
        self.upper(&mut p[header..]);
        p
    }

    fn packet6(&self) -> Vec<u8> {
        let mut p = vec![0u8; 40 + self.size];
        p[0] = if self.first != 0 { self.first } else { 0x60 };
        p[2..4].copy_from_slice(&self.mark());
        let len = (self.size as i64 + i64::from(self.wrong_len)) as u16;
        p[4..6].copy_from_slice(&len.to_be_bytes());
        p[6] = self.next;
        p[7] = self.ttl;
        let bytes = |a: &str| a.parse::<std::net::Ipv6Addr>().unwrap().octets();
        p[8..24].copy_from_slice(&bytes(SRC6[self.src % SRC6.len()]));
        p[24..40].copy_from_slice(&bytes(DST6[self.dst % DST6.len()]));
        if self.dst < 2 {
            p[39] = self.host;
        }
        self.upper(&mut p[40..]);
        p
    }

    fn upper(&self, p: &mut [u8]) {
        let len = p.len() as u16;
        for (n, b) in p.iter_mut().enumerate() {
            *b = n as u8;
        }
        if let Some(udp) = p.first_chunk_mut::<8>() {
            let [labels, port] = self.mark().map(u16::from);
            udp[..2].copy_from_slice(&(self.sport + (labels << 6 | port << 2)).to_be_bytes());
            udp[2..4].copy_from_slice(&[0, 80]);
            udp[4..6].copy_from_slice(&len.to_be_bytes());
        }
        if self.next == 47 {
            self.gre(p);
        }
        if self.next == 17 && self.vxlan {
            self.vxlan(p);
        }
        if let Some(tcp) = p.first_chunk_mut::<24>().filter(|_| self.next == 6) {
            // A SYN, or no SYN, with a segment size.
            (tcp[12], tcp[13]) = (0x60, if self.sport.is_multiple_of(2) { 2 } else { 0x10 });
            tcp[20..].copy_from_slice(&[2, 4, 5, 0xb4]);
        }
    }

    /// The same in a frame, for the tunnel or for nobody there.
    fn vxlan(&self, p: &mut [u8]) {
        let Some((headers, frame)) = p.split_at_mut_checked(16) else { return };
        headers[2..4].copy_from_slice(&4789u16.to_be_bytes());
        let checksum = if self.sport.is_multiple_of(5) { [1, 2] } else { [0, 0] };
        headers[6..8].copy_from_slice(&checksum);
        headers[8..].copy_from_slice(&[
            8,
            0,
            0,
            0,
            0,
            0,
            if self.sport.is_multiple_of(7) { 6 } else { 5 },
            0,
        ]);
        let Some((ethernet, inner)) = frame.split_at_mut_checked(14) else { return };
        ethernet.copy_from_slice(&[2, 0, 0, 0, 1, 37, 2, 0, 0, 0, 2, 37, 8, 0]);
        self.inner(inner);
    }

    /// What tunnels carry: an IPv4 packet, of the flow of its mark.
    fn gre(&self, p: &mut [u8]) {
        let header: &[u8] = if self.v6 { &[0x20, 0, 8, 0, 0, 0, 0, 5] } else { &[0, 0, 8, 0] };
        let Some((gre, inner)) = p.split_at_mut_checked(header.len()) else { return };
        gre.copy_from_slice(header);
        self.inner(inner);
    }

    fn inner(&self, inner: &mut [u8]) {
        let len = inner.len() as u16;
        let Some(h) = inner.get_mut(..20) else { return };
        h.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 34, 0, 2, 10, 10, 1, self.host]);
        h[2..4].copy_from_slice(&len.to_be_bytes());
        h[4..6].copy_from_slice(&self.mark());
        fix_ip4(h);
    }

    fn frame(&self) -> (Vec<u8>, usize) {
        // Ports 16 and 17 are of one bond.
        let own = [2, 0, 0, 0, 0, if self.port == 17 { 16 } else { self.port as u8 } + 1];
        let mut f = match self.to {
            1 => vec![2, 0, 0, 0, 9, 9],
            2 => vec![0xff; 6],
            3 => vec![0x01, 0, 0x5e, 0, 0, 5],
            4 => vec![2, 0, 0, 0, 0, self.port as u8 ^ 0x80],
            5 => vec![0; 6],
            // Stations of the bridge domain, a filter, a group that passes no bridge, and who sends the usual frames.
            6 => vec![2, 0, 0, 0, 1, 0xbb],
            7 => vec![2, 0, 0, 0, 1, 0xcc],
            8 => vec![2, 0, 0, 0, 1, 0xdd],
            9 => vec![0x01, 0x80, 0xc2, 0, 0, 2],
            10 => vec![2, 0, 0, 0, 1, 0xaa],
            11 => vec![2, 0, 0, 0, 1, 0xce],
            12 => vec![2, 0, 0, 0, 1, 0xcf],
            // A station of `spoke`.
            13 => vec![2, 0, 0, 0, 1, 1],
            n if n >= OTHER_PORT => vec![2, 0, 0, 0, 0, n - OTHER_PORT + 1],
            _ => own.to_vec(),
        };
        f.extend(match self.from {
            1 => own,
            2 => [0x03, 0, 0, 0, 0, 1],
            3 => [2, 0, 0, 0, 0, 0x40],
            4 => [2, 0, 0, 0, 1, 0xbb],
            5 => [2, 0, 0, 0, 1, 0xdd],
            6 => [0; 6],
            7 => [2, 0, 0, 0, 0, 12],
            8 => [2, 0, 0, 0, 1, 0xcc],
            9 => [2, 0, 0, 0, 1, 0xce],
            _ => [2, 0, 0, 0, 1, 0xaa],
        });
        for (tpid, tci) in TAGS[self.tags] {
            f.extend(tpid.to_be_bytes());
            f.extend(tci.to_be_bytes());
        }
        let ethertype = if self.labels == 0 { self.ethertype } else { 0x8847 };
        f.extend(ethertype.to_be_bytes());
        let stack = STACKS[self.labels];
        for (n, (label, ttl)) in stack.iter().enumerate() {
            let bottom = u32::from(n + 1 == stack.len());
            let exp = u32::from(self.host) << 9;
            f.extend((label << 12 | exp | bottom << 8 | u32::from(*ttl)).to_be_bytes());
        }
        let l3 = f.len();
        if self.ethertype == 0x0806 {
            f.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 1, 0xaa, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0]);
            f.extend(DST4[self.dst % DST4.len()]);
        } else {
            f.extend(if self.v6 { self.packet6() } else { self.packet4() });
        }
        f.resize(f.len() + self.padding, 0);
        if let Some(n) = self.cut {
            f.truncate(n.max(1));
        }
        if let Some((at, bit)) = self.flip
            && let Some(b) = f.get_mut(at)
        {
            *b ^= bit;
        }
        (f, l3)
    }

    /// The node at which the packet enters.
    pub fn node(&self) -> &'static str {
        match self.entry {
            Entry::Ethernet => "ethernet-input",
            Entry::Inner(node, _) => node,
        }
    }

    /// True when the packet is traced.
    pub fn traced(&self) -> bool {
        self.flags & flags::TRACED != 0
    }

    /// Puts the packet into the graph.
    pub fn feed(&self, w: &mut World, number: u32) {
        let (bytes, l3) = self.frame();
        let flow = self.port + usize::from(self.host) + usize::from(self.sport);
        let node = (self.entry != Entry::Ethernet).then(|| w.dispatcher.id(self.node()).unwrap());
        let (port, interfaces) = (w.ports[self.port], w.interfaces);
        let b = &mut w.dispatcher_of(flow).env.buffers;
        let first = self.split.unwrap_or(2048).min(bytes.len());
        let mut d: Desc = b.alloc_bytes(&bytes[..first]).unwrap();
        for part in bytes[first..].chunks(self.split.unwrap_or(2048).max(64)) {
            assert!(b.append(&mut d, part));
        }
        d.rx = port;
        d.flags |= self.flags & flags::TRACED;
        if let Entry::Inner(name, aux) = self.entry {
            d.flags |= self.flags | flags::INJECTED;
            (d.aux, d.tx) = (aux, aux % (interfaces + 1));
            // Nodes of MPLS see the labels.
            let labels = if name.starts_with("mpls") || name.contains("disposition") {
                4 * STACKS[self.labels].len()
            } else {
                0
            };
            let skip = (l3 - labels).min(usize::from(d.len)) as u16;
            if !matches!(
                name,
                "interface-output"
                    | "span-output"
                    | "linux-cp-xc"
                    | "l2-xconnect"
                    | "l2-bridge"
                    | "l2-flood"
                    | "l2-arp-term"
                    | "bond-input"
                    | "bond-tx"
                    | "lacp-input"
            ) {
                d.off += skip;
                d.len -= skip;
            }
        } else {
            d.flags |= self.flags & (flags::CSUM_VALID | flags::LOCAL);
        }
        let m = b.meta_mut(&d.buf);
        m.trace_id = Mark::in_log(number);
        // As the drivers have it: the place of the checksum lies within the first buffer.
        let header = if self.v6 { 40 } else { 20 + usize::from(self.options) };
        let start = l3 + header;
        if self.flags & flags::CSUM_PARTIAL != 0 && start + 8 <= first {
            let whole = usize::from(d.l2) + start;
            (m.csum_start, m.csum_offset) = (whole as u16, 6);
            d.flags |= flags::CSUM_PARTIAL;
            match self.gso {
                Some((size, kind)) if self.next == 17 => {
                    (m.gso_size, m.gso_type) = (size, kind);
                    d.flags |= flags::GSO;
                }
                // Nobody has said how.
                _ => d.flags &= !flags::GSO,
            }
        } else {
            d.flags &= !(flags::CSUM_PARTIAL | flags::GSO);
        }
        let node = node.unwrap_or_else(|| w.received(&mut d));
        w.dispatcher_of(flow).env.enqueue(d, node);
    }
}

/// A vector: packets of one theme, each seed as often in a row as it says.
pub fn vector(theme: u64, packets: &[(u64, usize)]) -> Vec<Spec> {
    let theme = Spec::theme(theme);
    let runs = packets.iter().flat_map(|(seed, n)| std::iter::repeat_n(*seed, *n));
    runs.map(|seed| Spec::like(&theme, seed)).take(VECTOR_SIZE).collect()
}
