//! A bench for one node: packets go in, and what arrives at the ends of its edges comes out.
//!
//! Interface 1 has 192.0.2.1/24, fe80::1, 2001:db8:1::1/64 and, under duplicate detection, 2001:db8:1::99; interface 2
//! has 198.51.100.1/24, fe80::2 and 2001:db8:2::1/64; interface 3 has no address. Their MAC addresses are
//! 02:00:00:00:00:01 to 03. The routing tables hold the routers' addresses and the broadcasts of the IPv4 prefixes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::adjacency::{Adjacency, AdjacencyState, MAX_REWRITE};
use crate::interface::{Interface, ifflags};
use crate::plane::table::Tables;
use crate::plane::{Counters, Plane, PlaneConfig, kind};
use crate::punt::{Message, Police, Punt, Punted, Request};
use graph::buffer::HEADROOM;
use graph::epoch::Reader;
use graph::follow::Mark;
use graph::node::Never;
use graph::{
    BatchNode, Buffer, Builder, Desc, Dispatcher, Domain, Edge, Env, Graph, Guard, Node, NodeId, Pool,
    PoolConfig, PoolMemory, Published, Reclaimer, Seen, Vector, flags,
};
use packet::ip4::addr;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};
use tables::groups::{Groups, GroupsWriter, Path};
use tables::lpm4::Lpm4;
use tables::lpm6::Lpm6;
use tables::slots::{Slots, SlotsWriter};

/// Bytes of hexadecimal text; white space is left out.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
}

/// Makes the IPv4 header checksum right, options included.
pub fn fix_ip4(p: &mut [u8]) {
    let len = usize::from(p[0] & 15) * 4;
    packet::ip4::fill_checksum(&mut p[..len]);
}

/// Makes the ICMPv6 checksum right for a packet whose ICMPv6 header is at `at`.
pub fn fix_icmp6(p: &mut [u8], at: usize) {
    let h = packet::ip6::Ip6Header(p.first_chunk().unwrap());
    let mut sum = packet::checksum::pseudo6(h.src(), h.dst(), packet::IpProtocol(58), (p.len() - at) as u32);
    p[at + 2..at + 4].fill(0);
    sum.add_bytes(&p[at..]);
    p[at + 2..at + 4].copy_from_slice(&sum.checksum().to_be_bytes());
}

/// A packet to be fed.
pub struct Input {
    /// The link-layer header in front of `bytes`.
    pub l2: Vec<u8>,
    /// The packet.
    pub bytes: Vec<u8>,
    /// Bytes of `bytes` in the first buffer, and in each of the next.
    pub split: Option<usize>,
    /// Descriptor words: `rx`, `tx`, `aux`, `hash` and `flags` are taken over.
    pub d: Desc,
    /// Place of a partial checksum in `bytes`: start and offset.
    pub partial: Option<(usize, usize)>,
    /// Segment size and virtio-net type of a super-frame.
    pub gso: Option<(u16, u8)>,
    /// Size of the largest fragment of a packet that was put together.
    pub largest: Option<u32>,
    /// Bytes of room in front of the packet, which is in one buffer and has no link-layer header then.
    pub front: Option<u16>,
}

impl Clone for Input {
    fn clone(&self) -> Self {
        let (l2, bytes) = (self.l2.clone(), self.bytes.clone());
        Input { l2, bytes, d: self.d.words(), ..*self }
    }
}

impl Input {
    /// A packet received on interface 1 behind an untagged Ethernet header.
    pub fn new(bytes: &[u8]) -> Self {
        let l2 = hex("020000000001 0200000000aa 0800");
        let d = Desc { rx: 1, ..Desc::default() };
        Input {
            l2,
            bytes: bytes.to_vec(),
            split: None,
            d,
            partial: None,
            gso: None,
            largest: None,
            front: None,
        }
    }

    /// With this scratch word.
    pub fn aux(mut self, aux: u32) -> Self {
        self.d.aux = aux;
        self
    }

    /// Received on `rx`.
    pub fn rx(mut self, rx: u32) -> Self {
        self.d.rx = rx;
        self
    }

    /// With these flags.
    pub fn flags(mut self, flags: u16) -> Self {
        self.d.flags |= flags;
        self
    }

    /// In several buffers of `n` bytes each.
    pub fn split(mut self, n: usize) -> Self {
        self.split = Some(n);
        self
    }
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The node at which it arrived.
    pub node: &'static str,
    /// Its descriptor.
    pub d: Seen,
    /// Its bytes from the current header.
    pub bytes: Vec<u8>,
    /// Its number in the trace; of use where it is traced.
    pub trace_id: Mark,
    /// Why it was dropped.
    pub reason: &'static str,
}

/// Number of every packet in the trace.
pub const TRACE_ID: Mark = Mark::in_log(4711);

const NAMES: [&str; 40] = [
    "error-drop",
    "ip4-lookup",
    "ip6-lookup",
    "ip4-icmp-error",
    "ip6-icmp-error",
    "interface-output",
    "ip4-rewrite",
    "ip6-local",
    "icmp4-input",
    "icmp6-input",
    "ip4-options",
    "ip6-hop-by-hop",
    "l2-xconnect",
    "ip6-rewrite",
    "punt-policer",
    "ip4-full-reassembly",
    "ip6-full-reassembly",
    "ip4-local",
    "igmp-input",
    "mpls-lookup",
    "ip4-mpls-label-imposition-pipe",
    "ip4-mpls-label-imposition-uniform",
    "ip6-mpls-label-imposition-pipe",
    "ip6-mpls-label-imposition-uniform",
    "mpls-output",
    "ethernet-input",
    "mpls-icmp-error",
    "mpls-hold",
    "mpls-frag",
    "ip4-frag",
    "ip6-frag",
    "interface-tx",
    "gso-segment",
    "l2-bridge",
    "linux-cp-punt",
    "ip4-input",
    "ip6-input",
    "ip4-local-end-of-arc",
    "ip6-local-end-of-arc",
    "program-punt",
];

type Log = Arc<Mutex<Vec<Arrival>>>;

struct Sink<const I: usize>(Log);

impl<const I: usize> BatchNode for Sink<I> {
    const NAME: &'static str = NAMES[I];
    type Next = Never;
    type Drop = Never;

    fn process(&mut self, env: &mut Env, _guard: &Guard, v: &mut Vector) {
        for d in v.take() {
            let bytes = env.buffers.parts(&d).flatten().copied().collect();
            let trace_id = env.buffers.meta(&d.buf).trace_id;
            self.0.lock().unwrap().push(Arrival {
                node: NAMES[I],
                d: Seen::of(&d),
                bytes,
                trace_id,
                reason: "",
            });
            env.buffers.free(d);
        }
    }
}

fn sink(b: Builder, name: &str, log: &Log) -> Builder {
    let log = Arc::clone(log);
    match NAMES.iter().position(|n| *n == name) {
        Some(0) => b.batch(Sink::<0>(log)),
        Some(1) => b.batch(Sink::<1>(log)),
        Some(2) => b.batch(Sink::<2>(log)),
        Some(3) => b.batch(Sink::<3>(log)),
        Some(4) => b.batch(Sink::<4>(log)),
        Some(5) => b.batch(Sink::<5>(log)),
        Some(6) => b.batch(Sink::<6>(log)),
        Some(7) => b.batch(Sink::<7>(log)),
        Some(8) => b.batch(Sink::<8>(log)),
        Some(9) => b.batch(Sink::<9>(log)),
        Some(10) => b.batch(Sink::<10>(log)),
        Some(11) => b.batch(Sink::<11>(log)),
        Some(12) => b.batch(Sink::<12>(log)),
        Some(13) => b.batch(Sink::<13>(log)),
        Some(14) => b.batch(Sink::<14>(log)),
        Some(15) => b.batch(Sink::<15>(log)),
        Some(16) => b.batch(Sink::<16>(log)),
        Some(17) => b.batch(Sink::<17>(log)),
        Some(18) => b.batch(Sink::<18>(log)),
        Some(19) => b.batch(Sink::<19>(log)),
        Some(20) => b.batch(Sink::<20>(log)),
        Some(21) => b.batch(Sink::<21>(log)),
        Some(22) => b.batch(Sink::<22>(log)),
        Some(23) => b.batch(Sink::<23>(log)),
        Some(24) => b.batch(Sink::<24>(log)),
        Some(25) => b.batch(Sink::<25>(log)),
        Some(26) => b.batch(Sink::<26>(log)),
        Some(27) => b.batch(Sink::<27>(log)),
        Some(28) => b.batch(Sink::<28>(log)),
        Some(29) => b.batch(Sink::<29>(log)),
        Some(30) => b.batch(Sink::<30>(log)),
        Some(31) => b.batch(Sink::<31>(log)),
        Some(32) => b.batch(Sink::<32>(log)),
        Some(33) => b.batch(Sink::<33>(log)),
        Some(34) => b.batch(Sink::<34>(log)),
        Some(35) => b.batch(Sink::<35>(log)),
        Some(36) => b.batch(Sink::<36>(log)),
        Some(37) => b.batch(Sink::<37>(log)),
        Some(38) => b.batch(Sink::<38>(log)),
        Some(39) => b.batch(Sink::<39>(log)),
        _ => unreachable!("no sink called {name}"),
    }
}

fn interface(n: u8, addrs4: &[(u32, u8)], addrs6: &[&str], tentative: &[&str]) -> Interface {
    let number = |a: &&str| a.parse::<Ipv6Addr>().unwrap().to_bits();
    Interface {
        flags: ifflags::UP | ifflags::LINK | ifflags::IP4 | ifflags::IP6,
        mtu: 1500,
        mac: [2, 0, 0, 0, 0, n],
        hw: n.into(),
        addrs4: addrs4.into(),
        addrs6: addrs6.iter().map(|a| (number(a), 64)).collect(),
        groups4: Box::new([0xe000_0001, 0xe000_0002]),
        groups6: {
            let solicited = |a: u128| 0xff02_0000_0000_0000_0000_0001_ff00_0000 | a & 0xff_ffff;
            let own = addrs6.iter().chain(tentative).map(|a| solicited(number(a)));
            let mut all: Vec<u128> = own.chain([0xff02 << 112 | 1, 0xff02 << 112 | 2]).collect();
            all.sort_unstable();
            all.dedup();
            all.into()
        },
        tentative6: tentative.iter().map(number).collect(),
        ..Interface::default()
    }
}

/// The bench.
pub struct Rig {
    /// What the node reads.
    pub plane: Arc<Plane>,
    /// Interfaces, to be changed.
    pub interfaces: SlotsWriter<Interface>,
    /// Adjacencies, to be changed.
    pub adjacencies: SlotsWriter<Adjacency>,
    /// Next-hop groups, to be changed.
    pub groups: GroupsWriter,
    pool: Arc<Pool>,
    dispatcher: Dispatcher,
    graph: Graph,
    reader: Reader,
    reclaimer: Reclaimer,
    log: Log,
    node: NodeId,
}

impl Rig {
    /// A graph of the node, sinks and nothing else.
    pub fn new<N: Node>(make: impl FnOnce(&Arc<Plane>) -> N) -> Rig {
        Self::with_buffers(make, 4096)
    }

    /// The same with this many buffers.
    pub fn with_buffers<N: Node>(make: impl FnOnce(&Arc<Plane>) -> N, buffers: usize) -> Rig {
        let (mut interfaces, shared_interfaces) = Slots::new(16).unwrap();
        let (adjacencies, shared_adjacencies) = Slots::new(16).unwrap();
        let ours4 = [0xc000_0201u32, 0xc633_6401];
        interfaces.insert(interface(0, &[], &[], &[])).unwrap();
        interfaces
            .insert(interface(1, &[(ours4[0], 24)], &["fe80::1", "2001:db8:1::1"], &["2001:db8:1::99"]))
            .unwrap();
        interfaces.insert(interface(2, &[(ours4[1], 24)], &["fe80::2", "2001:db8:2::1"], &[])).unwrap();
        interfaces.insert(interface(3, &[], &[], &[])).unwrap();
        let (mut groups_writer, groups) = Groups::new(64).unwrap();
        let (mut fib4, shared_fib4) = Lpm4::new(Default::default()).unwrap();
        let (mut fib6, shared_fib6) = Lpm6::new(Default::default()).unwrap();
        // Of interfaces 1 and 2.
        let locals = [1, 2].map(|i| groups_writer.acquire(&[Path::new(kind::LOCAL, i)]).unwrap());
        let broadcast = groups_writer.acquire(&[Path::new(kind::BROADCAST, u32::MAX)]).unwrap();
        for (a, local) in ours4.into_iter().zip(locals) {
            assert!(addr::is_unicast(a));
            fib4.insert(a, 32, local.0).unwrap();
            fib4.insert(a & !0xff, 32, broadcast.0).unwrap();
            fib4.insert(a | 0xff, 32, broadcast.0).unwrap();
        }
        for (a, local) in ["2001:db8:1::1", "2001:db8:2::1"].into_iter().zip(locals) {
            fib6.insert(a.parse::<Ipv6Addr>().unwrap().to_bits(), 128, local.0).unwrap();
        }
        let (main4, main6) = crate::plane::table::main(&shared_fib4, &shared_fib6);
        let flow = packet::flow::Flow::five_tuple(PlaneConfig::default().hash_seed);
        let level = shared_fib4.level();
        let (_, tables4) = Tables::new(main4, flow, level).unwrap();
        let (_, tables6) = Tables::new(main6, flow, level).unwrap();
        let registry = graph::Registry::new().unwrap();
        let plane = Arc::new(Plane {
            interfaces: shared_interfaces,
            summaries: crate::interface::IfSummaries::new(),
            columns: crate::interface::Columns::new(crate::nodes::SETTINGS),
            adjacencies: shared_adjacencies,
            fib4: shared_fib4,
            fib6: shared_fib6,
            tables4,
            tables6,
            groups,
            l2: crate::plane::L2Plane::new(&registry, 1, packet::CpuLevel::detect()).unwrap().1,
            labels: crate::labels::table0().unwrap().1,
            config: Published::new(PlaneConfig::default()),
            counters: Counters::new(&registry, 1).unwrap(),
            wall: Default::default(),
            punt: Punt::new().unwrap(),
            police: Police::new(&registry, 1).unwrap(),
            registry,
            fragment_hash: std::hash::RandomState::new(),
            handoff: Arc::new(graph::Handoff::new(1).unwrap()),
            published: Default::default(),
        });
        let log = Log::default();
        let pool = Pool::new(PoolConfig { buffers, memory: PoolMemory::Normal }).unwrap();
        let mut b = Builder::new(NAMES[0]).node(make(&plane));
        let mut ends = vec![NAMES[0]];
        for target in N::Next::TARGETS {
            let arc = crate::arcs::ALL.into_iter().find(|a| target.strip_prefix('@') == Some(a.name));
            let end = arc.map_or(*target, |a| a.end);
            b = arc.into_iter().fold(b, Builder::arc);
            ends.push(end);
            // Who takes it there is none of the ends.
            let punted = crate::linux_cp::LINUX_CP_PUNT.iter().filter(|f| arc == Some(f.arc));
            for f in punted {
                b = b.features([f]);
                ends.push(f.node);
            }
        }
        ends.sort_unstable();
        ends.dedup();
        for end in ends {
            b = sink(b, end, &log);
        }
        let (dispatcher, graph) = b.build(&pool, 0).unwrap();
        let node = graph.node(N::NAME).unwrap();
        let domain = Arc::new(Domain::new());
        let reader = domain.reader(0);
        let reclaimer = Reclaimer::new(domain);
        Rig {
            plane,
            interfaces,
            adjacencies,
            groups: groups_writer,
            pool,
            dispatcher,
            graph,
            reader,
            reclaimer,
            log,
            node,
        }
    }

    /// Changes the settings.
    pub fn configure(&mut self, change: impl FnOnce(&mut PlaneConfig)) {
        let mut config = self.plane.config.load(self.reader.guard()).clone();
        change(&mut config);
        self.plane.config.publish(config, &mut self.reclaimer);
    }

    /// Changes what is published by this type.
    pub fn change<T: Default + Clone + Send + Sync + 'static>(&mut self, change: impl FnOnce(&mut T)) {
        let published = self.plane.publish::<T>();
        let mut value = published.load(self.reader.guard()).clone();
        change(&mut value);
        published.publish(value, &mut self.reclaimer);
    }

    /// Tells the node a neighbour's adjacency.
    pub fn know(&mut self, interface: u32, address: std::net::IpAddr, adjacency: u32) {
        let guard = self.reader.guard();
        let known = self.plane.shared::<crate::hold::Known>();
        known.set(interface, address, Some(adjacency), guard, &mut self.reclaimer);
    }

    /// Buffers beside those of the node, to ask its short cut itself.
    pub fn buffers(&self) -> graph::Buffers {
        self.pool.buffers()
    }

    /// Reads as a worker does.
    pub fn read<T>(&self, look: impl FnOnce(&Guard) -> T) -> T {
        look(self.reader.guard())
    }

    /// Sets the worker's clock.
    pub fn at_ns(&mut self, now_ns: u64) {
        self.dispatcher.env.now_ns = now_ns;
    }

    /// Adds a complete adjacency on interface 2.
    pub fn adjacency(&mut self, mtu: u16) -> u32 {
        self.adjacency_with(mtu, AdjacencyState::Complete)
    }

    /// Adds an adjacency on interface 2.
    pub fn adjacency_with(&mut self, mtu: u16, state: AdjacencyState) -> u32 {
        let a = Adjacency {
            interface: 2,
            mtu,
            state,
            len: 14,
            rewrite: [0; MAX_REWRITE],
            next_hop: "198.51.100.2".parse().unwrap(),
            straight: crate::adjacency::Straight::No,
            features: 0,
            pushes: 0,
            mpls: None,
        };
        self.adjacencies.insert(a).unwrap()
    }

    /// Feeds packets as one vector; what arrived, in order of arrival at each node. No buffer may be lost.
    pub fn run(&mut self, inputs: &[Input]) -> Vec<Arrival> {
        self.run_holding(inputs, 0)
    }

    /// As `run`, for a node that keeps `held` of the packets.
    pub fn run_holding(&mut self, inputs: &[Input], held: usize) -> Vec<Arrival> {
        let before = self.pool.in_use();
        let all = self.feed(inputs);
        assert_eq!(self.pool.in_use(), before + held, "every buffer came back");
        all
    }

    /// As `run`, for a node that keeps some of the packets.
    pub fn feed(&mut self, inputs: &[Input]) -> Vec<Arrival> {
        let mut v = Vector::boxed();
        for i in inputs {
            let b = &mut self.dispatcher.env.buffers;
            let first = i.split.unwrap_or(usize::MAX).min(i.bytes.len()).min(2048 - i.l2.len());
            let mut d = b.alloc_bytes(&[&i.l2, &i.bytes[..first]].concat()).unwrap();
            for part in i.bytes[first..].chunks(i.split.unwrap_or(2048)) {
                assert!(b.append(&mut d, part));
            }
            d.off += i.l2.len() as u16;
            d.len -= i.l2.len() as u16;
            assert_eq!(usize::from(d.l2), HEADROOM);
            d.flags |= i.d.flags;
            (d.rx, d.tx, d.aux, d.hash) = (i.d.rx, i.d.tx, i.d.aux, i.d.hash);
            if let Some(front) = i.front {
                (d.off, d.l2) = (front, front);
                b.room_mut(&d.buf)[usize::from(front)..][..i.bytes.len()].copy_from_slice(&i.bytes);
            }
            let m = b.meta_mut(&d.buf);
            m.trace_id = TRACE_ID;
            if let Some((start, offset)) = i.partial {
                (m.csum_start, m.csum_offset) = (d.off + start as u16, offset as u16);
                d.flags |= flags::CSUM_PARTIAL;
            }
            if let Some(largest) = i.largest {
                m.user[0] = largest;
            }
            if let Some((size, kind)) = i.gso {
                (m.gso_size, m.gso_type) = (size, kind);
                d.flags |= flags::GSO;
            }
            assert!(v.push(d).is_ok());
        }
        self.dispatcher.feed(&mut v, self.node);
        self.dispatcher.run(self.reader.guard());
        self.arrived()
    }

    /// Has the node of type `N` do something between two vectors, and answers what arrived.
    pub fn visit<N: Node>(&mut self, work: impl FnOnce(&mut N, &mut Env)) -> Vec<Arrival> {
        self.dispatcher.visit(N::NAME, work).unwrap();
        self.dispatcher.run(self.reader.guard());
        self.arrived()
    }

    /// Has nodes do what is due by now, and answers what arrived.
    pub fn tick(&mut self) -> Vec<Arrival> {
        self.dispatcher.run_timers(self.reader.guard());
        self.dispatcher.run(self.reader.guard());
        self.arrived()
    }

    /// Buffers of packets that are somewhere.
    pub fn in_use(&self) -> usize {
        self.pool.in_use()
    }

    fn arrived(&mut self) -> Vec<Arrival> {
        let mut all = std::mem::take(&mut *self.log.lock().unwrap());
        for a in &mut all {
            if a.node == NAMES[0] {
                a.reason = self.graph.reasons[a.d.aux as usize].name;
                assert_ne!(a.reason, "node-panic");
            }
        }
        all
    }

    /// Feeds one packet of which exactly one comes out.
    pub fn one(&mut self, input: Input) -> Arrival {
        let mut all = self.run(&[input]);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Feeds packets of which exactly one comes out.
    pub fn one_of(&mut self, inputs: &[Input]) -> Arrival {
        let mut all = self.feed(inputs);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Feeds one packet that is dropped; the reason, which was counted.
    pub fn drops(&mut self, input: Input) -> &'static str {
        let before: Vec<u64> = self.counts().iter().map(|c| c.1).collect();
        let a = self.one(input);
        assert_eq!(a.node, NAMES[0], "{a:?}");
        let now = self.counts();
        let i = now.iter().position(|c| c.0 == a.reason).unwrap();
        assert_eq!(now[i].1, before[i] + 1);
        a.reason
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.graph.stats.reasons.iter().map(|c| c.get());
        self.graph.reasons.iter().map(|r| r.name).zip(counts).collect()
    }

    /// How often `reason` was counted.
    pub fn count(&self, reason: &str) -> u64 {
        self.counts().iter().find(|c| c.0 == reason).unwrap_or_else(|| panic!("no reason {reason}")).1
    }

    /// Takes all buffers but `left`; give them back with [`Rig::release`].
    pub fn hoard(&mut self, left: usize) -> Vec<Buffer> {
        let b = &mut self.dispatcher.env.buffers;
        let mut taken: Vec<Buffer> = std::iter::from_fn(|| b.alloc()).collect();
        for buf in taken.drain(..left) {
            b.free_one(buf);
        }
        taken
    }

    /// Gives hoarded buffers back.
    pub fn release(&mut self, taken: Vec<Buffer>) {
        for buf in taken {
            self.dispatcher.env.buffers.free_one(buf);
        }
    }

    /// Neighbours that were asked for.
    pub fn resolves(&self) -> Vec<(u32, std::net::IpAddr)> {
        let next = || match self.plane.punt.pop()? {
            Message::Request(Request::Resolve { interface, address }) => Some((interface, address)),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    /// What was handed to the control side: kind, interface, offset of layer 3, bytes.
    pub fn punted(&self) -> Vec<(crate::punt::PuntKind, u32, u16, Vec<u8>)> {
        std::iter::from_fn(|| self.plane.punt.pop())
            .map(|m| match m {
                Message::Packet(Punted { kind, interface, l3, bytes }) => (kind, interface, l3, bytes),
                m => unreachable!("{m:?}"),
            })
            .collect()
    }

    /// Fills the queue to the control side.
    pub fn fill_punt(&self) {
        while self.plane.punt.packet(crate::punt::PuntKind::Arp, 1, 0, std::iter::empty()) {}
    }
}
