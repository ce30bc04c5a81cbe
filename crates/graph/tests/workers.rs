//! What several workers promise each other: packets handed over to any node, and what nodes do at certain times.

#![allow(clippy::unwrap_used, clippy::panic, unused_qualifications)]
use graph::io::Ready;
use graph::worker::{Worker, WorkerConfig, WorkerHandle};
use graph::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const RX: graph::registry::Group =
    graph::registry::Group { name: "rx", by: &["interface"], ..graph::registry::Group::NEW };

/// A packet's bytes: its flow, and its number in that.
type Word = [u8; 5];

fn word(flow: u8, number: u32) -> Word {
    let [a, b, c, d] = number.to_be_bytes();
    [flow, a, b, c, d]
}

/// Sends each packet to the worker of its flow: half of the flows to its own like there, the others at once to the node behind it.
struct Spread(usize);
edges! { enum SpreadNext { Take => "take" } }
impl Node for Spread {
    const NAME: &'static str = "spread";
    type Next = SpreadNext;
    type Drop = graph::node::Never;
    type View<'v> = usize;
    fn view<'v>(&'v mut self, _: &'v Guard) -> usize {
        self.0
    }
    fn step(workers: &mut usize, p: &mut Packet<'_>) -> graph::node::Step<SpreadNext, graph::node::Never> {
        let flow = usize::from(p.data()[0]);
        let to = flow % *workers;
        if to == p.env.worker {
            return Ok(SpreadNext::Take);
        }
        let node = match flow % 4 < 2 {
            true => p.env.node(),
            false => p.env.edge(SpreadNext::Take, p.d),
        };
        let d = p.take();
        p.env.hand_off(to, node, d);
        Err(Exit::Consumed)
    }
}

struct Take(mpsc::Sender<(usize, Word)>);
impl BatchNode for Take {
    const NAME: &'static str = "take";
    type Next = graph::node::Never;
    type Drop = graph::node::Never;
    fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
        for d in v.take() {
            let mut bytes = Word::default();
            env.buffers.copy_out(&d, 0, &mut bytes);
            env.buffers.free(d);
            let _ = self.0.send((env.worker, bytes));
        }
    }
}

struct Bin;
impl BatchNode for Bin {
    const NAME: &'static str = "bin";
    type Next = graph::node::Never;
    type Drop = graph::node::Never;
    fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
        env.buffers.free_all(v.take());
    }
}

/// What a timed node has to do: `left` ticks from `at_ns` on, each of which sends a packet to worker 1.
#[derive(Default)]
struct Plan {
    at_ns: AtomicU64,
    left: AtomicU32,
    ticks: AtomicU32,
    /// The first of them panics.
    panics: AtomicU32,
}

struct Timed(Arc<Plan>);
edges! { enum TimedNext { Take => "take" } }
impl Node for Timed {
    const NAME: &'static str = "timed";
    const TIMED: bool = true;
    type Next = TimedNext;
    type Drop = graph::node::Never;
    type View<'v> = ();
    fn view<'v>(&'v mut self, _: &'v Guard) {}
    fn step(_: &mut (), _: &mut Packet<'_>) -> graph::node::Step<TimedNext, graph::node::Never> {
        Ok(TimedNext::Take)
    }
    fn due_ns(&self) -> Option<u64> {
        (self.0.left.load(Ordering::Acquire) != 0).then(|| self.0.at_ns.load(Ordering::Acquire))
    }
    fn tick(&mut self, env: &mut Env, _: &Guard) -> bool {
        assert!(env.now_ns >= self.0.at_ns.load(Ordering::Acquire), "not early");
        let left = self.0.left.fetch_sub(1, Ordering::AcqRel);
        self.0.ticks.fetch_add(1, Ordering::AcqRel);
        if self.0.panics.swap(0, Ordering::AcqRel) != 0 {
            panic!("at the wrong time");
        }
        let mut d = env.buffers.alloc_bytes(&word(255, left)).unwrap();
        let node = env.edge(TimedNext::Take, &mut d);
        if env.worker == 1 {
            env.enqueue(d, node)
        } else {
            env.hand_off(1, node, d)
        }
        left > 1
    }
}

/// Packets that wait for a worker.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<VecDeque<Word>>>);
impl RxQueue for Queue {
    fn interface(&self) -> u32 {
        0
    }
    fn input_node(&self) -> &'static str {
        "test-input"
    }
    fn target(&self) -> &'static str {
        "spread"
    }
    fn poll(&mut self, b: &mut Buffers, _: u64, out: &mut Vector) -> usize {
        let mut waiting = self.0.lock().unwrap();
        let n = waiting.len().min(out.room());
        for word in waiting.drain(..n) {
            assert!(out.push(b.alloc_bytes(&word).unwrap()).is_ok());
        }
        n
    }
    fn fd(&self) -> Option<i32> {
        None
    }
    fn ready(&self) -> Ready {
        if self.0.lock().unwrap().is_empty() { Ready::Never } else { Ready::Now }
    }
}

struct Rig {
    pool: Arc<Pool>,
    graphs: Vec<Graph>,
    workers: Vec<WorkerHandle>,
    queues: Vec<Queue>,
    plan: Arc<Plan>,
    took: mpsc::Receiver<(usize, Word)>,
}

fn rig(n: usize) -> Rig {
    let pool = Pool::new(PoolConfig { buffers: 1 << 15, memory: PoolMemory::Normal }).unwrap();
    let handoff = Arc::new(Handoff::new(n).unwrap());
    let rx = graph::counters::PerWorker::new(&graph::Registry::new().unwrap(), &RX, n).unwrap();
    let (dom, (sender, took)) = (Arc::new(Domain::new()), mpsc::channel());
    let (plan, mut r) = (Arc::new(Plan::default()), (vec![], vec![], vec![]));
    for worker in 0..n {
        let builder = Builder::new("bin")
            .input("test-input", &["spread"], |_, _| Ok(()))
            .node(Spread(n))
            .node(Timed(if worker == 0 { Arc::clone(&plan) } else { Arc::default() }))
            .batch(Take(sender.clone()))
            .batch(Bin);
        let (mut dispatcher, graph) = builder.build(&pool, worker).unwrap();
        dispatcher.env.handoff = Some(Arc::clone(&handoff));
        let config = WorkerConfig { cpu: None, spin: Duration::from_micros(20), polling: Default::default() };
        let w = Worker::spawn(dispatcher, dom.reader(worker), config, &handoff, &rx, "none").unwrap();
        let queue = Queue::default();
        let mut input: Option<Box<dyn RxQueue>> = Some(Box::new(queue.clone()));
        assert_eq!(w.call(move |w| w.add_input(1, &mut input, Arc::new(AtomicU32::new(0)))), Some(Ok(())));
        r.0.push(graph);
        r.1.push(w);
        r.2.push(queue);
    }
    Rig { pool, graphs: r.0, workers: r.1, queues: r.2, plan, took }
}

fn until(what: &str, mut f: impl FnMut() -> bool) {
    let t0 = Instant::now();
    while !f() {
        assert!(t0.elapsed() < Duration::from_secs(20), "waited 20 s for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Rig {
    fn lost(&self) -> u64 {
        let of = |g: &Graph| {
            let n = g.reasons.iter().position(|r| r.name == "handoff-queue-full").unwrap();
            g.stats.reasons[n].get()
        };
        self.graphs.iter().map(of).sum()
    }

    /// Has a worker wait, with all that comes to it, until the answer is dropped.
    fn stop(&self, worker: usize) -> mpsc::Sender<()> {
        let (go, wait) = mpsc::channel();
        let (there, is_there) = mpsc::channel();
        self.workers[worker].send(Box::new(move |_: &mut Worker| {
            let _ = there.send(());
            let _: Result<(), _> = wait.recv();
        }));
        is_there.recv().unwrap();
        go
    }

    /// Has the workers look at their queues.
    fn kick(&self, stopped: Option<usize>) {
        for (_, w) in self.workers.iter().enumerate().filter(|(n, _)| Some(*n) != stopped) {
            w.call(|_| ()).unwrap();
        }
    }
}

thread_local! {
    static THREE: Rig = rig(3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    /// Each flow comes in on one worker. Whether the others keep up or not, none of its packets changes places with another, and each of
    /// them arrives or is counted.
    #[test]
    fn flows_keep_their_order_and_no_packet_is_lost_unseen(
        bursts in prop::collection::vec((0u8..40, 0usize..3, 1u32..2500), 1..12),
        stopped in prop_oneof![Just(None), (0usize..3).prop_map(Some)],
    ) {
        THREE.with(|r| {
            let before = r.lost();
            let held = stopped.map(|w| r.stop(w));
            let (mut sent, mut next) = (0u64, BTreeMap::<u8, u32>::new());
            for (first, step, n) in bursts {
                for k in 0..n {
                    let flow = first + (k % 5) as u8 * step as u8;
                    let number = next.entry(flow).or_default();
                    r.queues[usize::from(flow) / 3 % 3].0.lock().unwrap().push_back(word(flow, *number));
                    *number += 1;
                    sent += 1;
                }
                r.kick(stopped);
            }
            until("the workers that run", || {
                r.kick(stopped);
                let empty = |(n, q): (usize, &Queue)| Some(n) == stopped || q.0.lock().unwrap().is_empty();
                r.queues.iter().enumerate().all(empty)
            });
            drop(held);
            let (mut got, mut seen) = (0u64, BTreeMap::<u8, u32>::new());
            until("all packets", || {
                r.kick(None);
                for (worker, [flow, number @ ..]) in r.took.try_iter() {
                    assert_eq!(worker, usize::from(flow) % 3, "flow {flow}");
                    let number = u32::from_be_bytes(number);
                    let before = seen.insert(flow, number);
                    assert!(before.is_none_or(|b| b < number), "flow {flow}: {number} behind {before:?}");
                    got += 1;
                }
                got + r.lost() - before >= sent
            });
            assert_eq!(got + r.lost() - before, sent);
            until("buffers", || r.pool.in_use() == 0);
        });
    }
}

#[test]
fn a_worker_that_stands_still_costs_what_is_beyond_its_queue() {
    let r = rig(2);
    let held = r.stop(1);
    let mut queue = r.queues[0].0.lock().unwrap();
    // Flow 1 goes to the other worker's `spread`, flow 3 to its `take`.
    queue.extend((0..6000).map(|n| word(if n % 2 == 0 { 1 } else { 3 }, n)));
    drop(queue);
    until("the sender", || {
        r.kick(Some(1));
        r.queues[0].0.lock().unwrap().is_empty()
    });
    r.kick(Some(1));
    let lost = r.lost();
    // The last vector that is taken is taken as a whole.
    assert!((6000 - 2048 - 255..6000).contains(&lost), "{lost}");
    assert_eq!(r.pool.in_use() as u64, 6000 - lost, "what was dropped came back");
    drop(held);
    let got = (0..6000 - lost).map(|_| r.took.recv_timeout(Duration::from_secs(20)).unwrap());
    assert!(got.map(|g| g.0).all(|w| w == 1));
    until("buffers", || r.pool.in_use() == 0);
    assert_eq!(r.lost(), lost);
}

#[test]
fn what_nodes_do_at_certain_times_wakes_a_worker() {
    let r = rig(2);
    let (reports, panicked) = mpsc::channel();
    r.workers[0].call(move |w| w.dispatcher.report_panics(reports)).unwrap();
    let sleeps = || r.graphs[0].stats.turns().sleeps.get();
    until("sleep", || sleeps() > 0);
    assert_eq!(r.plan.ticks.load(Ordering::Acquire), 0);
    // Five pieces of work, later and later until the worker has time to go to sleep before.
    let mut wait = 30_000_000;
    loop {
        let (slept, now) = (sleeps(), r.workers[0].call(|w| w.dispatcher.env.now_ns).unwrap());
        r.plan.at_ns.store(now + wait, Ordering::Release);
        r.plan.left.store(5, Ordering::Release);
        r.kick(None);
        for left in [5, 4, 3, 2, 1] {
            assert_eq!(r.took.recv_timeout(Duration::from_secs(20)).unwrap(), (1, word(255, left)));
        }
        assert_eq!(r.plan.ticks.swap(0, Ordering::AcqRel), 5);
        if sleeps() > slept {
            break;
        }
        wait *= 2;
    }
    // One that panics is told of, and the others come.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    r.plan.panics.store(1, Ordering::Release);
    r.plan.left.store(2, Ordering::Release);
    r.kick(None);
    let report = panicked.recv_timeout(Duration::from_secs(20)).unwrap();
    std::panic::set_hook(hook);
    assert_eq!((report.node, report.packets), ("timed", 0));
    assert_eq!(r.took.recv_timeout(Duration::from_secs(20)).unwrap(), (1, word(255, 1)));
    until("buffers", || r.pool.in_use() == 0);
}
