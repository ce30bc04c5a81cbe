//! A small graph with invented nodes: what the runtime promises, whatever the protocol.

#![allow(clippy::unwrap_used, clippy::panic, unused_qualifications)]
use graph::arcs::{Feature, FeatureArc};
use graph::io::Ready;
use graph::worker::{Worker, WorkerConfig};
use graph::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const RX: graph::registry::Group =
    graph::registry::Group { name: "rx", by: &["interface"], ..graph::registry::Group::NEW };

edges! { enum SortNext { Even => "even", Odd => "odd", Features => "@line" } }
reasons! { enum SortDrop {
    /// The first byte is 0xff.
    Bad => "bad",
    /// The first byte is 0xfd.
    Seen => "seen" (info),
} }

struct Sort;
impl Node for Sort {
    const NAME: &'static str = "sort";
    type Next = SortNext;
    type Drop = SortDrop;
    type View<'v> = ();
    fn view<'v>(&'v mut self, _: &'v Guard) {}
    fn step(_: &mut (), p: &mut Packet<'_>) -> graph::node::Step<SortNext, SortDrop> {
        match p.data().first() {
            Some(0xff) | None => Err(SortDrop::Bad.into()),
            Some(0xfe) => panic!("poisoned packet"),
            Some(0xfd) => {
                p.count(SortDrop::Seen);
                p.free();
                Err(Exit::Consumed)
            }
            Some(0xfc) => {
                p.d.feat = 0b11;
                Ok(SortNext::Features)
            }
            Some(b) if b % 2 == 0 => Ok(SortNext::Even),
            Some(_) => Ok(SortNext::Odd),
        }
    }
}

edges! { enum FeatNext { Go => "@line" } }
macro_rules! feature {
    ($t:ident, $name:literal, $byte:literal) => {
        struct $t;
        impl Node for $t {
            const NAME: &'static str = $name;
            type Next = FeatNext;
            type Drop = graph::node::Never;
            type View<'v> = ();
            fn view<'v>(&'v mut self, _: &'v Guard) {}
            fn step(_: &mut (), p: &mut Packet<'_>) -> graph::node::Step<FeatNext, graph::node::Never> {
                p.d.aux = p.d.aux * 10 + $byte;
                Ok(FeatNext::Go)
            }
        }
    };
}
feature!(First, "first", 1);
feature!(Second, "second", 2);

struct Collect(&'static str, Arc<AtomicU64>, mpsc::Sender<(u32, Vec<u8>)>);
macro_rules! sink {
    ($t:ident, $name:literal) => {
        struct $t(Collect);
        impl BatchNode for $t {
            const NAME: &'static str = $name;
            type Next = graph::node::Never;
            type Drop = graph::node::Never;
            fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
                for d in v.take() {
                    self.0.1.fetch_add(1, Ordering::Relaxed);
                    let bytes = env.buffers.parts(&d).flatten().copied().collect();
                    let _ = self.0.2.send((d.aux, bytes));
                    env.buffers.free(d);
                }
                let _ = self.0.0;
            }
        }
    };
}
sink!(Even, "even");
sink!(Odd, "odd");
sink!(Bin, "bin");

struct Rig {
    pool: Arc<Pool>,
    dispatcher: Dispatcher,
    graph: Graph,
    seen: [mpsc::Receiver<(u32, Vec<u8>)>; 3],
}

static LINE: FeatureArc = FeatureArc { name: "line", end: "even" };
static FIRST: Feature = Feature::new(&LINE, First::NAME);
static SECOND: Feature = Feature::new(&LINE, Second::NAME).after(&[&FIRST]);

fn rig(buffers: usize) -> Rig {
    let pool = Pool::new(PoolConfig { buffers, memory: PoolMemory::Normal }).unwrap();
    let chans: [_; 3] = std::array::from_fn(|_| mpsc::channel());
    let [(e, er), (o, or), (b, br)] = chans;
    let n = || Arc::new(AtomicU64::new(0));
    let builder = Builder::new("bin")
        .input("test-input", &["sort"], |_, _| Ok(()))
        .node(Sort)
        .node(First)
        .node(Second)
        .batch(Even(Collect("even", n(), e)))
        .batch(Odd(Collect("odd", n(), o)))
        .batch(Bin(Collect("bin", n(), b)))
        .arc(&LINE)
        .features([&SECOND, &FIRST]);
    let (dispatcher, graph) = builder.build(&pool, 0).unwrap();
    Rig { pool, dispatcher, graph, seen: [er, or, br] }
}

impl Rig {
    fn feed(&mut self, first_bytes: impl IntoIterator<Item = u8>) {
        let sort = self.dispatcher.id("sort").unwrap();
        for b in first_bytes {
            let d = self.dispatcher.env.buffers.alloc_bytes(&[b, 1, 2, 3]).unwrap();
            self.dispatcher.env.enqueue(d, sort);
        }
    }
    fn run(&mut self) {
        let dom = Arc::new(Domain::new());
        let r = dom.reader(0);
        self.dispatcher.run(r.guard());
    }
    fn reason(&self, name: &str) -> u64 {
        let i = self.graph.reasons.iter().position(|r| r.name == name).unwrap();
        self.graph.stats.reasons[i].get()
    }
}

#[test]
fn packets_go_where_the_step_says_at_every_vector_size() {
    for n in [1usize, 3, 4, 5, 255, 256, 257, 1000] {
        let mut r = rig(2048);
        let bytes: Vec<u8> = (0..n).map(|i| [2, 4, 7, 0xff, 0xfd, 9][i % 6]).collect();
        r.feed(bytes.iter().copied());
        r.run();
        let count = |b: &[u8]| bytes.iter().filter(|x| b.contains(x)).count();
        assert_eq!(r.seen[0].try_iter().count(), count(&[2, 4]), "{n}");
        assert_eq!(r.seen[1].try_iter().count(), count(&[7, 9]), "{n}");
        assert_eq!(r.seen[2].try_iter().count(), count(&[0xff]), "{n}");
        assert_eq!(r.reason("bad") as usize, count(&[0xff]));
        assert_eq!(r.reason("seen") as usize, count(&[0xfd]));
        assert_eq!(r.pool.in_use(), 0, "{n}: every buffer is back");
        let s = &r.graph.stats.nodes[usize::from(r.graph.node("sort").unwrap().0)];
        assert_eq!(s.packets.get() as usize, n);
        assert_eq!(s.calls.get() as usize, n.div_ceil(256));
        assert!(s.clocks.get() > 0);
    }
}

#[test]
fn features_run_in_their_declared_order() {
    let mut r = rig(256);
    r.feed([0xfc]);
    r.run();
    assert_eq!(r.seen[0].try_recv().unwrap().0, 12, "first, then second, then the arc's end");
}

#[test]
fn a_panic_drops_its_vector_and_the_worker_goes_on() {
    let mut r = rig(1024);
    let (tx, rx) = mpsc::channel();
    r.dispatcher.report_panics(tx);
    // 0xfd was consumed before the panic: its buffer must not be freed again.
    r.feed([2, 0xfd, 0xfe, 4]);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    r.run();
    std::panic::set_hook(hook);
    let report = rx.try_recv().unwrap();
    assert_eq!((report.node, report.packets), ("sort", 3));
    assert!(report.message.contains("poisoned"));
    assert_eq!(r.reason("node-panic"), 3);
    assert_eq!(r.pool.in_use(), 0);
    r.feed([2, 3]);
    r.run();
    assert_eq!(r.seen[0].try_iter().count(), 1);
}

#[test]
fn a_trace_tells_every_hop() {
    let mut r = rig(256);
    let dom = Arc::new(Domain::new());
    let reader = dom.reader(0);
    let mut rec = Reclaimer::new(Arc::clone(&dom));
    r.graph.tracing.add(r.graph.node("sort").unwrap(), 2, reader.guard(), &mut rec);
    r.feed([0xfc, 0xff, 2]);
    r.run();
    let hops: Vec<(u32, &str)> = r
        .graph
        .tracing
        .records(reader.guard())
        .iter()
        .map(|x| (x.id, r.graph.nodes[usize::from(x.node.0)].name))
        .collect();
    let of = |id| hops.iter().filter(|h| h.0 == id).map(|h| h.1).collect::<Vec<_>>();
    assert_eq!(of(0), ["sort", "first", "second", "even"]);
    assert_eq!(of(1), ["sort", "bin"]);
    assert!(of(2).is_empty(), "only as many as were asked for");
}

#[test]
fn a_graph_with_a_hole_is_refused() {
    let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
    let e = Builder::new("sort").node(Sort).build(&pool, 0).err().unwrap();
    assert!(matches!(e, BuildError::Missing { target: "even", .. }), "{e}");
}

struct Feeder {
    left: usize,
    fd: Option<rustix::fd::OwnedFd>,
}
impl RxQueue for Feeder {
    fn interface(&self) -> u32 {
        3
    }
    fn input_node(&self) -> &'static str {
        "test-input"
    }
    fn target(&self) -> &'static str {
        "sort"
    }
    fn poll(&mut self, b: &mut Buffers, _: u64, out: &mut Vector) -> usize {
        if let Some(fd) = &self.fd {
            let mut c = [0u8; 8];
            if rustix::io::read(fd, &mut c).is_ok() {
                self.left += 1;
            }
        }
        let n = self.left.min(out.room());
        for _ in 0..n {
            let Some(d) = b.alloc_bytes(&[2, 0]) else { break };
            assert!(out.push(d).is_ok());
        }
        self.left -= n;
        n
    }
    fn fd(&self) -> Option<i32> {
        self.fd.as_ref().map(std::os::fd::AsRawFd::as_raw_fd)
    }
    fn ready(&self) -> Ready {
        if self.fd.is_some() { Ready::Fd } else { Ready::Never }
    }
}

fn until(what: &str, mut f: impl FnMut() -> bool) {
    let t0 = Instant::now();
    while !f() {
        assert!(t0.elapsed() < Duration::from_secs(10), "waited 10 s for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_worker_forwards_sleeps_and_wakes() {
    let r = rig(4096);
    let (graph, pool, seen) = (r.graph.clone(), Arc::clone(&r.pool), r.seen);
    let dom = Arc::new(Domain::new());
    let rx = graph::counters::PerWorker::new(&graph::Registry::new().unwrap(), &RX, 1).unwrap();
    let config = WorkerConfig { cpu: None, spin: Duration::from_micros(20), polling: Default::default() };
    let mut w = Worker::spawn(
        r.dispatcher,
        dom.reader(0),
        config,
        &Arc::new(graph::Handoff::new(1).unwrap()),
        &rx,
        "none",
    )
    .unwrap();
    let efd = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let kick = efd.try_clone().unwrap();
    let added = w.call(move |w| {
        let feeder = Feeder { left: 1000, fd: Some(efd) };
        w.add_input(1, &mut Some(Box::new(feeder)), Arc::new(AtomicU32::new(0)))
    });
    assert_eq!(added, Some(Ok(())));
    let mut got = 0;
    until("1000 packets", || {
        got += seen[0].try_iter().count();
        got == 1000
    });
    until("sleep", || graph.stats.turns().sleeps.get() > 0);
    let calls = graph.stats.nodes[0].calls.get();
    rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
    assert!(seen[0].recv_timeout(Duration::from_secs(10)).is_ok(), "a readable descriptor wakes it");
    assert_eq!(graph.stats.nodes[0].calls.get(), calls + 1);
    assert_eq!(rx.sum(3), (1001, 2002));
    assert!(w.call(|w| w.inject("sort", &[3, 3], |_| {})).unwrap(), "mail wakes it");
    assert!(seen[1].recv_timeout(Duration::from_secs(10)).is_ok());
    until("buffers", || pool.in_use() == 0);
    assert!(w.call(|w| w.remove_input(1).is_some()).unwrap());
    w.stop();
    assert_eq!(pool.in_use(), 0);
    assert_eq!(w.call(|_| 1), None, "nobody is waited for who is not there");
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    for cpu in [1023, 4000] {
        let r = rig(64);
        let dom = Arc::new(Domain::new());
        let rx = graph::counters::PerWorker::new(&graph::Registry::new().unwrap(), &RX, 1).unwrap();
        let config = WorkerConfig { cpu: Some(cpu), spin: Duration::ZERO, polling: Default::default() };
        let refused = Worker::spawn(
            r.dispatcher,
            dom.reader(0),
            config,
            &Arc::new(graph::Handoff::new(1).unwrap()),
            &rx,
            "none",
        )
        .err()
        .unwrap();
        assert!(refused.to_string().contains(&format!("CPU {cpu} ")), "{refused}");
    }
}
