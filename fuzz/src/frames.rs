//! Target `frames`: whole packets through the real graph, run inline on the fuzzer's thread.
//!
//! The bytes are packets one behind the other, each behind a head of six bytes (see [`Head`]) and, where the head says
//! so, a virtio-net header. All of them enter the graph at once, so that vectors are mixed. Held against the outcome:
//!
//! - no node panics (libFuzzer's hook ends the process even where the dispatcher would contain it), and none leaves
//!   packets behind;
//! - the graph without the short cuts of its nodes does the same with them: it sends, holds, hands over and counts alike;
//! - every buffer comes back to the pool but those of packets held for neighbours, and those too after their release;
//! - what leaves has no offload left to do, fits the MTU, and its IP header is right.

use crate::bench::{self, PORTS};
use crate::punts::Control;
use ::packet::gso::VnetHdr;
use ::packet::icmp4::{self, IcmpView};
use ::packet::ip4::{self, Ip4View};
use ::packet::ip6::Ip6View;
use ::packet::proto::IpProtocol;
use ::packet::vlan::VlanStack;
use ::packet::{EtherType, checksum, icmp6};
use graph::builder::Kind;
use graph::io::{TxCaps, TxQueue, TxReport};
use graph::{Buffers, Desc, Dispatcher, Domain, Graph, Guard, NodeId, Pool, Reclaimer, VECTOR_SIZE, flags};
use net::hold::{Ip4Hold, Ip6Hold, MplsHold, Waiting};
use net::icmp::Ask;
use net::output::InterfaceTx;
use net::router::Router;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Bits of [`Head::how`].
mod how {
    /// A virtio-net header of ten bytes follows the head.
    pub const VNET: u8 = 1;
    /// The packet lies in several buffers of `split` bytes.
    pub const SPLIT: u8 = 2;
    /// It is traced.
    pub const TRACED: u8 = 4;
    /// The device says that the transport checksum is right.
    pub const VALID: u8 = 8;
    /// Its IPv4 and ICMP checksums are made right first.
    pub const FIX: u8 = 16;
    /// It came to a group address.
    pub const GROUP: u8 = 32;
}

/// What stands before a packet.
struct Head {
    /// 0 to 9: `ethernet-input`; 10 to 12 `ip4-input`, 13 to 15 `ip6-input`; else the node of this number.
    entry: u8,
    /// Number of its interface.
    rx: u8,
    how: u8,
    split: u8,
    /// Its bytes, at most.
    len: u16,
}

/// A packet never comes in longer than this.
const LONGEST: usize = 20_000;
const MOST: usize = 64;

/// A transmit queue that looks at what it is to send.
struct Wire {
    mtu: usize,
    bridged: BTreeSet<u32>,
    /// False while packets were put into the middle of the graph, past the checks before it.
    strict: Arc<AtomicBool>,
    /// Frames with labels are among the input: who takes the last label off for the next router does not look at what is
    /// below it.
    labelled: Arc<AtomicBool>,
    port: u32,
    sent: Arc<Mutex<Vec<Sent>>>,
}

/// Port, receive interface, flags and bytes of a frame that was sent.
type Sent = (u32, u32, u16, Vec<u8>);
/// The node that holds a packet, and its bytes.
type Held = (&'static str, Vec<u8>);

/// What became of an input, in an order of its own: packets that enter the graph at different places overtake each other.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    sent: Vec<Sent>,
    held: Vec<Held>,
    messages: Vec<String>,
    reasons: Vec<(&'static str, u64)>,
}

impl TxQueue for Wire {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: graph::Packets<'_>) -> TxReport {
        let mut report = TxReport::default();
        for d in packets {
            let bytes: Vec<u8> = buffers.parts(&d).flatten().copied().collect();
            assert_eq!(bytes.len(), buffers.total_len(&d), "the chain is as long as it says");
            if self.strict.load(Ordering::Relaxed) {
                assert!(
                    !d.has(flags::CSUM_PARTIAL | flags::GSO),
                    "nothing is left to a device that can do nothing"
                );
                let unseen = self.labelled.load(Ordering::Relaxed) && !d.has(flags::LOCAL);
                // A copy is of a frame as it came, whatever that was.
                if !unseen && !self.bridged.contains(&d.rx) && !d.has(net::interface::MIRRORED) {
                    self.check(&bytes, d.has(flags::LOCAL));
                }
            }
            // A node that short cuts leave out does not see all that comes by, so it may find others to trace.
            let told = d.flags & !flags::TRACED;
            self.sent.lock().expect("one thread").push((self.port, d.rx, told, bytes.clone()));
            report.packets += 1;
            report.bytes += bytes.len() as u64;
            buffers.free(d);
        }
        report
    }
}

impl Wire {
    /// A routed packet, or one of the router's own (`local`).
    fn check(&self, frame: &[u8], local: bool) {
        let stack = VlanStack::parse(frame).expect("a whole Ethernet header");
        let l3 = usize::from(stack.header_len);
        let packet = &frame[l3..];
        assert!(packet.len() <= self.mtu, "{} bytes for an MTU of {}", packet.len(), self.mtu);
        match stack.ethertype {
            EtherType::IPV4 => {
                let v = Ip4View::parse(packet).expect("a right IPv4 header");
                assert_eq!(usize::from(v.total_len()), packet.len(), "no padding is forwarded");
                if local
                    && v.protocol() == IpProtocol::ICMP
                    && v.payload().first().is_some_and(|k| icmp4::is_error(*k))
                {
                    assert!(packet.len() <= 576, "RFC 1812 section 4.3.2.3");
                    IcmpView::parse4(v.payload()).expect("a right ICMP error");
                }
            }
            EtherType::IPV6 => {
                let v = Ip6View::parse(packet).expect("a right IPv6 header");
                assert_eq!(v.total_len(), packet.len(), "no padding is forwarded");
                if local
                    && v.next_header() == IpProtocol::ICMPV6
                    && v.payload().first().is_some_and(|k| icmp6::is_error(*k))
                {
                    assert!(packet.len() <= 1280, "RFC 4443 section 2.4 (c)");
                    assert!(icmp6::verify(v.src(), v.dst(), v.payload()), "a right ICMPv6 error");
                }
            }
            _ => {}
        }
    }
}

struct Bench {
    _router: Router,
    pool: Arc<Pool>,
    graph: Graph,
    dispatcher: Dispatcher,
    reclaimer: Reclaimer,
    punt: net::punt::Punt,
    guard: Guard,
    interfaces: u32,
    ports: Vec<u32>,
    inner: Vec<NodeId>,
    strict: Arc<AtomicBool>,
    labelled: Arc<AtomicBool>,
    left: usize,
    sent: Arc<Mutex<Vec<Sent>>>,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::new(true));
    static PLAIN: RefCell<Bench> = RefCell::new(Bench::new(false));
}

impl Bench {
    fn new(short_cuts: bool) -> Self {
        let mut router = bench::router();
        let pool = Arc::clone(router.pool());
        // The router's own worker still sends what the new interfaces have to say.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while pool.in_use() != 0 {
            assert!(std::time::Instant::now() < deadline, "the router's worker is stuck");
            std::thread::yield_now();
        }
        router.shutdown();
        let plane = Arc::clone(router.plane());
        let empty = net::nodes::empty();
        let empty = if short_cuts { empty } else { empty.without_short_cuts() };
        let (mut dispatcher, graph) = net::nodes::build_from(empty, &plane, &pool, 0).expect("a graph");
        let strict = Arc::new(AtomicBool::new(true));
        let labelled = Arc::new(AtomicBool::new(false));
        let bridged =
            router.interfaces().filter(|i| i.xconnect.is_some() || i.membership.is_some_and(|m| !m.bvi));
        let bridged: BTreeSet<u32> = bridged.map(|i| i.index).collect();
        let mut ports = vec![];
        let sent = Arc::new(Mutex::new(vec![]));
        for name in PORTS {
            let index = router.interface_index(name).expect("a port");
            let mtu = router.interface(index).expect("a port").mtu.into();
            let (bridged, strict, labelled) = (bridged.clone(), Arc::clone(&strict), Arc::clone(&labelled));
            let wire = Wire { mtu, bridged, strict, labelled, port: index, sent: Arc::clone(&sent) };
            let tx: &mut InterfaceTx = dispatcher.node_mut("interface-tx").expect("the node");
            tx.set(index, Some(Box::new(wire)));
            ports.push(index);
        }
        let inner = graph.nodes.iter().enumerate().filter(|(_, n)| n.kind == Kind::Internal);
        let inner = inner.map(|(i, _)| NodeId(i as u16)).collect();
        let left = graph.reasons.iter().position(|r| r.name == "left-in-vector").expect("the reason");
        Bench {
            pool,
            graph,
            dispatcher,
            reclaimer: Reclaimer::new(Arc::new(Domain::new())),
            punt: plane.punt.clone(),
            // SAFETY: nothing is reclaimed: the router below is kept and never touched again.
            guard: unsafe { Guard::unprotected() },
            interfaces: router.interfaces().map(|i| i.index + 1).max().unwrap_or(0),
            ports,
            inner,
            strict,
            labelled,
            left,
            sent,
            _router: router,
        }
    }

    fn entry(&self, head: &Head) -> NodeId {
        let name = match head.entry {
            0..=4 => "ethernet-input",
            // Where frames of a mirrored interface come in; those of others pass.
            5..=9 => "span-input",
            10..=12 => "ip4-input",
            13..=15 => "ip6-input",
            n => return self.inner[usize::from(n) % self.inner.len()],
        };
        self.dispatcher.id(name).expect("the node")
    }

    /// Makes the packet and puts it into the graph. A refused virtio-net header drops it, as the drivers do.
    fn feed(&mut self, head: &Head, vnet: Option<VnetHdr>, bytes: &mut [u8]) {
        let node = self.entry(head);
        let ethernet = head.entry < 10;
        if head.how & how::FIX != 0 {
            fix(bytes, ethernet || head.entry > 15);
        }
        let b = &mut self.dispatcher.env.buffers;
        let piece = if head.how & how::SPLIT != 0 { usize::from(head.split).max(1) } else { usize::MAX };
        let (first, rest) = bytes.split_at(piece.min(2048).min(bytes.len()));
        let Some(mut d) = b.alloc_bytes(first) else { return };
        for part in rest.chunks(piece.clamp(64, 2048)) {
            if !b.append(&mut d, part) {
                b.free(d);
                return;
            }
        }
        // Some node in the middle may look: what the buffer's last packet left would differ from run to run.
        let m = b.meta_mut(&d.buf);
        (m.csum_start, m.csum_offset, m.gso_size, m.gso_type) = (0, 0, 0, 0);
        if !ethernet {
            d.flags |= flags::INJECTED;
        }
        let number = u32::from(head.rx);
        d.rx =
            if ethernet { self.ports[number as usize % self.ports.len()] } else { number % self.interfaces };
        for (bit, flag) in [(how::VALID, flags::CSUM_VALID), (how::GROUP, flags::L2_GROUP)] {
            if head.how & bit != 0 && !(ethernet && flag == flags::L2_GROUP) {
                d.flags |= flag;
            }
        }
        if let Some(h) = vnet.filter(|_| ethernet)
            && drivers::vnet::to_packet(h, 0, b, &mut d).is_err()
        {
            b.free(d);
            return;
        }
        self.dispatcher.env.enqueue(d, node);
    }

    fn run(&mut self) {
        while self.dispatcher.run(&self.guard) != 0 {}
        // Fragments whose datagram is not complete by now.
        net::reassembly::clear(&mut self.dispatcher);
        while self.dispatcher.run(&self.guard) != 0 {}
    }

    fn held(&mut self, hold: &str) -> Vec<Desc> {
        let d = &mut self.dispatcher;
        let waiting: Option<&mut Waiting> = match hold {
            "ip4-hold" => d.node_mut::<Ip4Hold>(hold).map(Ip4Hold::waiting),
            "ip6-hold" => d.node_mut::<Ip6Hold>(hold).map(Ip6Hold::waiting),
            _ => d.node_mut::<MplsHold>(hold).map(MplsHold::waiting),
        };
        let (waiting, mut out) = (waiting.expect("the node"), vec![]);
        let count = waiting.len();
        waiting.take_old(u64::MAX, None, |d| out.push(d));
        assert!(out.len() == count && waiting.is_empty());
        out
    }

    /// Releases what is held: back to the graph as the control side does, or freed. Returns it.
    fn release(&mut self, answer: bool) -> Vec<Held> {
        let mut all = vec![];
        for (hold, node, ask) in [
            ("ip4-hold", "ip4-icmp-error", Ask::V4_HOST_UNREACHABLE.word()),
            ("ip6-hold", "ip6-icmp-error", Ask::V6_ADDRESS_UNREACHABLE.word()),
            ("mpls-hold", "mpls-icmp-error", net::icmp::MplsAsk::UNREACHABLE.word()),
        ] {
            let node = self.dispatcher.id(node).expect("the node");
            for mut d in self.held(hold) {
                all.push((hold, self.dispatcher.env.buffers.parts(&d).flatten().copied().collect()));
                if answer {
                    d.aux = ask;
                    self.dispatcher.env.enqueue(d, node);
                } else {
                    self.dispatcher.env.buffers.free(d);
                }
            }
        }
        all
    }

    fn trace(&mut self) {
        for name in ["ethernet-input", "ip4-input", "ip6-input"] {
            let node = self.graph.node(name).expect("the node");
            self.graph.tracing.add(node, 8, &self.guard, &mut self.reclaimer);
        }
    }

    fn show_trace(&mut self) {
        struct Told<'a>(&'a Graph, &'a graph::TraceRecord);
        impl fmt::Display for Told<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (self.0.nodes[usize::from(self.1.node.0)].format_trace)(self.1, f)
            }
        }
        for r in self.graph.tracing.records(&self.guard) {
            let _ = Told(&self.graph, &r).to_string();
        }
        self.graph.tracing.clear(&mut self.reclaimer);
        self.reclaimer.domain().advance();
        self.reclaimer.collect();
    }

    fn input(&mut self, data: &[u8]) -> Outcome {
        let packets = split(data);
        self.strict.store(enters_at_the_edge(data), Ordering::Relaxed);
        let labelled = packets.iter().any(|(_, _, bytes)| bytes.windows(2).any(|w| w == [0x88, 0x47]));
        self.labelled.store(labelled, Ordering::Relaxed);
        // Later than any limit on errors or requests remembers.
        self.dispatcher.env.now_ns += 100_000_000_000;
        let traced = packets.iter().any(|(head, ..)| head.how & how::TRACED != 0);
        if traced {
            self.trace();
        }
        for (head, vnet, mut bytes) in packets {
            self.feed(&head, vnet, &mut bytes);
        }
        self.run();
        let answer = data.len().is_multiple_of(2);
        let mut held = self.release(answer);
        if !held.is_empty() {
            self.run();
            held.extend(self.release(false));
        }
        assert_eq!(self.pool.in_use(), 0, "every buffer came back");
        assert_eq!(self.graph.stats.reasons[self.left].get(), 0, "a node left packets behind");
        assert_eq!(self.dispatcher.env.frames.lost(), 0, "a vector was lost");
        assert!(self.graph.stats.nodes.iter().all(|n| n.panics.get() == 0), "a node panicked");
        if traced {
            self.show_trace();
        }
        let (mut control, mut messages) = (None, vec![]);
        while let Some(m) = self.punt.pop() {
            messages.push(format!("{m:?}"));
            control.get_or_insert_with(|| Control::new(self.interfaces)).take(m);
        }
        let mut sent = std::mem::take(&mut *self.sent.lock().expect("one thread"));
        sent.sort();
        held.sort();
        messages.sort();
        let reasons = self.graph.reasons.iter().zip(self.graph.stats.reasons.iter());
        let reasons = reasons.map(|(r, c)| (r.name, c.get())).filter(|r| r.1 != 0).collect();
        Outcome { sent, held, messages, reasons }
    }
}

type Fed = (Head, Option<VnetHdr>, Vec<u8>);

fn split(data: &[u8]) -> Vec<Fed> {
    let (mut rest, mut packets) = (data, vec![]);
    while let Some(([entry, rx, how, split, l0, l1], tail)) = rest.split_first_chunk()
        && packets.len() < MOST.min(VECTOR_SIZE)
    {
        let head =
            Head { entry: *entry, rx: *rx, how: *how, split: *split, len: u16::from_le_bytes([*l0, *l1]) };
        rest = tail;
        let mut vnet = None;
        if head.how & how::VNET != 0
            && let Some((h, tail)) = rest.split_first_chunk()
        {
            vnet = Some(VnetHdr::parse(h));
            rest = tail;
        }
        let (bytes, tail) = rest.split_at(usize::from(head.len).min(rest.len()).min(LONGEST));
        rest = tail;
        packets.push((head, vnet, bytes.to_vec()));
    }
    packets
}

/// Makes the checksums of IPv4, ICMP and ICMPv6 right, where their headers stand whole.
fn fix(bytes: &mut [u8], ethernet: bool) {
    let l3 = match VlanStack::parse(bytes) {
        Some(stack) if ethernet => usize::from(stack.header_len),
        None if ethernet => return,
        _ => 0,
    };
    let Some(p) = bytes.get_mut(l3..) else { return };
    match p.first().map_or(0, |b| b >> 4) {
        4 => {
            let len = usize::from(p[0] & 15) * 4;
            if len < 20 || p.len() < len {
                return;
            }
            ip4::fill_checksum(&mut p[..len]);
            let end = usize::from(u16::from_be_bytes([p[2], p[3]])).min(p.len());
            if p[9] == 1
                && let Some(icmp) = p.get_mut(len..end)
                && icmp.len() >= 4
            {
                icmp[2..4].fill(0);
                let sum = checksum::checksum(icmp);
                icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            }
        }
        6 => {
            let Ok(view) = Ip6View::parse_quoted(p) else { return };
            let (src, dst) = (view.src(), view.dst());
            let Ok(upper) = view.upper_layer() else { return };
            let end = view.total_len().min(p.len());
            if upper.protocol == IpProtocol::ICMPV6
                && let Some(icmp) = p.get_mut(upper.offset..end)
                && icmp.len() >= 4
            {
                icmp[2..4].fill(0);
                let mut sum = checksum::pseudo6(src, dst, IpProtocol::ICMPV6, icmp.len() as u32);
                sum.add_bytes(icmp);
                icmp[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
                debug_assert!(icmp6::verify(src, dst, icmp));
            }
        }
        _ => {}
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let outcome = BENCH.with_borrow_mut(|b| b.input(data));
    let plain = PLAIN.with_borrow_mut(|b| b.input(data));
    assert_eq!(outcome, plain, "a short cut is something else than its step");
}

/// True when all packets enter where packets come from, none in the middle of the graph.
pub fn enters_at_the_edge(data: &[u8]) -> bool {
    split(data).iter().all(|(head, ..)| head.entry < 16)
}

/// Nodes that no packet has come to on this thread.
pub fn unvisited() -> Vec<&'static str> {
    BENCH.with_borrow(|b| {
        let nodes = b.graph.nodes.iter().zip(b.graph.stats.nodes.iter());
        nodes.filter(|(n, s)| n.kind == Kind::Internal && s.packets.get() == 0).map(|(n, _)| n.name).collect()
    })
}
