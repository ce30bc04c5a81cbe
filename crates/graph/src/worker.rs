//! A worker: one thread that polls its inputs, runs its graph, and sleeps on its descriptors when nothing comes.

use crate::clock::{Clock, tsc};
use crate::counters::{PerWorker, Table};
use crate::desc::{VECTOR_SIZE, Vector, flags};
use crate::dispatch::Dispatcher;
use crate::edge::NodeId;
use crate::epoch::Reader;
use crate::handoff::Handoff;
use crate::idle::{Idle, Next, Polling};
use crate::io::{Ready, RxQueue};
use crate::pause::Pause;
use crate::prefetch::prefetch_to_write;
use crate::stats::QUEUES;
use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::thread::CpuSet;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
use std::sync::mpsc;
use std::time::Duration;

/// Work that the control side sends to a worker; it runs between two vectors.
pub type Mail = Box<dyn FnOnce(&mut Worker) + Send>;

const MAILBOX: usize = 4096;
const MAIL_A_LOOP: usize = 64;
/// How many packets ahead descriptors that another worker wrote are asked for.
const DESCS_AHEAD: usize = 16;
/// How long a spin waits between two polls at most, where the processor can wait for a time.
const MOMENT_NS: u64 = 300;
/// Of one in so many sleeps it is looked at what it takes of the processor.
const COST_OF: u64 = 64;

/// How a worker behaves.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// CPU to run on, if pinned.
    pub cpu: Option<usize>,
    /// The longest that it polls without finding a packet before it sleeps; longer only in [`Polling::Latency`].
    pub spin: Duration,
    /// How it waits for packets.
    pub polling: Polling,
}

struct Shared {
    mail: ArrayQueue<Mail>,
    wake: OwnedFd,
    asleep: AtomicBool,
    stop: AtomicBool,
    /// The thread's number in the system; 0: it has not begun.
    thread: AtomicI32,
}

impl Shared {
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// The control side's end of a worker.
pub struct WorkerHandle {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WorkerHandle {
    /// Sends work; waits (never long) while the mailbox is full.
    pub fn send(&self, mail: impl FnOnce(&mut Worker) + Send + 'static) {
        // Nobody would take it; dropping it tells `call`.
        if self.ended() {
            return;
        }
        let mut mail: Mail = Box::new(mail);
        while let Err(back) = self.shared.mail.push(mail) {
            mail = back;
            self.shared.wake();
            std::thread::yield_now();
            if self.ended() {
                return;
            }
        }
        self.shared.wake();
    }

    /// Sends work and waits for its answer; `None` when the worker has ended.
    pub fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Worker) -> R + Send + 'static) -> Option<R> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.send(move |w| {
            let _ = tx.send(f(w));
        });
        loop {
            match rx.recv_timeout(Duration::from_millis(100)) {
                Ok(answer) => return Some(answer),
                // It may have ended after the mail was sent.
                Err(mpsc::RecvTimeoutError::Timeout) if !self.ended() => {}
                Err(_) => return None,
            }
        }
    }

    /// The number of its thread, by which the system knows it, once it runs.
    pub fn thread(&self) -> Option<i32> {
        Some(self.shared.thread.load(Ordering::Relaxed)).filter(|n| *n != 0)
    }

    fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Ends the worker after its current loop.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One input with its place in the graph.
struct Input {
    queue: Box<dyn RxQueue>,
    id: u64,
    node: NodeId,
    target: NodeId,
    fd: Option<RawFd>,
    /// Flags that its packets get.
    mark: u16,
    /// Features enabled on the interface's receive side (`device-input` arc), and the arc's number.
    features: Arc<AtomicU32>,
}

/// What runs on a worker's thread.
pub struct Worker {
    /// Its graph.
    pub dispatcher: Dispatcher,
    reader: Reader,
    inputs: Vec<Input>,
    shared: Arc<Shared>,
    config: WorkerConfig,
    idle: Idle,
    pause: Pause,
    clock: Clock,
    epoll: OwnedFd,
    rx: Arc<Table>,
    handoff: Arc<Handoff>,
    arc: Option<usize>,
    vector: Box<Vector>,
}

impl Worker {
    /// Starts a worker's thread.
    ///
    /// `handoff` brings packets from other workers. `rx` counts received packets by interface; `rx_arc` names the arc that received packets take first where the
    /// interface has features on it.
    ///
    /// # Errors
    /// The system refuses a thread or a descriptor, or the process may not run on the CPU.
    pub fn spawn(
        dispatcher: Dispatcher,
        reader: Reader,
        config: WorkerConfig,
        handoff: &Arc<Handoff>,
        rx: &PerWorker,
        rx_arc: &str,
    ) -> io::Result<WorkerHandle> {
        may_run(config.cpu)?;
        let shared = Arc::new(Shared {
            mail: ArrayQueue::new(MAILBOX),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: AtomicI32::new(0),
        });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &shared.wake, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
        let index = dispatcher.env.worker;
        if let Some(fd) = handoff.fd(index) {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let arc = dispatcher.env.wiring.arcs.iter().position(|a| a.name == rx_arc);
        let clock = Clock::new();
        let idle = Idle::new(config.polling, config.spin, |t| clock.from_ns(t.as_nanos() as u64));
        let mut worker = Worker {
            dispatcher,
            reader,
            inputs: Vec::with_capacity(1024),
            shared: Arc::clone(&shared),
            config,
            idle,
            pause: Pause::detect(),
            clock,
            epoll,
            rx: rx.of(index),
            handoff: Arc::clone(handoff),
            arc,
            vector: Vector::boxed(),
        };
        let thread =
            std::thread::Builder::new().name(format!("quiver_wk_{index}")).spawn(move || worker.run())?;
        Ok(WorkerHandle { shared, thread: Some(thread) })
    }

    /// Adds a receive queue under `id`, by which it is counted too ([`QUEUES`]), and takes it; `features` are the bits of the receive arc
    /// enabled on its interface.
    ///
    /// # Errors
    /// Why it cannot be added: it is left where it is.
    pub fn add_input(
        &mut self,
        id: u64,
        from: &mut Option<Box<dyn RxQueue>>,
        features: Arc<AtomicU32>,
    ) -> Result<(), String> {
        let Some(queue) = from else { return Err("there is no queue".into()) };
        let find = |name: &str| self.dispatcher.id(name).ok_or(format!("there is no node {name}"));
        let node = find(queue.input_node())?;
        let target = find(queue.target())?;
        let usual = self.arc.is_some_and(|a| self.dispatcher.env.wiring.arcs[a].end == target);
        let mark = if usual { 0 } else { flags::INJECTED };
        let fd = queue.fd();
        if let Some(fd) = fd {
            watch(&self.epoll, fd, true).map_err(|e| format!("cannot wait for packets: {e}"))?;
        }
        let own = from.take().map(|queue| Input { queue, id, node, target, fd, mark, features });
        self.inputs.extend(own);
        Ok(())
    }

    /// Takes the receive queue `id` out again.
    pub fn remove_input(&mut self, id: u64) -> Option<Box<dyn RxQueue>> {
        let i = self.inputs.iter().position(|x| x.id == id)?;
        let input = self.inputs.remove(i);
        if let Some(fd) = input.fd {
            let _ = watch(&self.epoll, fd, false);
        }
        Some(input.queue)
    }

    /// The receive queue `id`, to be changed.
    pub fn input_mut(&mut self, id: u64) -> Option<&mut Box<dyn RxQueue>> {
        self.inputs.iter_mut().find(|x| x.id == id).map(|x| &mut x.queue)
    }

    /// Has it wait for packets in another way.
    pub fn set_polling(&mut self, polling: Polling) {
        self.idle.set(polling);
    }

    /// Has it run on a CPU, which [`may_run`] allows, or on any that the process may use.
    pub fn set_cpu(&mut self, cpu: Option<usize>) {
        if self.config.cpu != cpu {
            self.config.cpu = cpu;
            self.bind();
        }
    }

    fn bind(&self) {
        let one = |cpu| {
            let mut set = CpuSet::new();
            set.set(cpu);
            set
        };
        // The process's first thread is never bound to one.
        let all = || rustix::thread::sched_getaffinity(Some(rustix::process::getpid())).ok();
        if let Some(set) = self.config.cpu.map(one).or_else(all) {
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
    }

    /// Number of receive queues by input node.
    pub fn inputs(&self) -> Vec<(NodeId, u32)> {
        self.inputs.iter().map(|i| (i.node, i.queue.interface())).collect()
    }

    /// Puts a packet with these bytes into the graph at `node`; `edit` sets the rest of its descriptor. False when
    /// buffers or the node are missing.
    pub fn inject(&mut self, node: &str, bytes: &[u8], edit: impl FnOnce(&mut crate::Desc)) -> bool {
        let Some(id) = self.dispatcher.id(node) else { return false };
        let Some(mut d) = self.dispatcher.env.buffers.alloc_bytes(bytes) else { return false };
        d.flags |= flags::INJECTED;
        edit(&mut d);
        self.dispatcher.env.enqueue(d, id);
        true
    }

    /// Puts a frame into the graph as if a device had brought it in on an interface, of which frames visit these features of the receive arc
    /// and then go to `node`. False when buffers or the node are missing.
    pub fn receive(&mut self, node: &str, interface: u32, features: u32, bytes: &[u8]) -> bool {
        let Some(mut target) = self.dispatcher.id(node) else { return false };
        let env = &mut self.dispatcher.env;
        let Some(mut d) = env.buffers.alloc_bytes(bytes) else { return false };
        (d.rx, d.tx) = (interface, interface);
        if let Some(arc) = self.arc.filter(|_| features != 0) {
            d.feat = features;
            target = env.wiring.arcs[arc].next(&mut d.feat);
        }
        if let Some(c) = self.rx.get(interface) {
            c.packets.add(1);
            c.bytes.add(bytes.len() as u64);
        }
        env.enqueue(d, target);
        true
    }

    fn run(&mut self) {
        self.shared.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        if self.config.cpu.is_some() {
            self.bind();
        }
        // What wakes it at a time is to be on time: Linux adds 50 us to what ordinary threads ask for.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
        let moment = self.clock.from_ns(MOMENT_NS);
        self.reader.online();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = tsc();
            self.dispatcher.env.now_ns = self.clock.to_ns(now);
            let mut work = self.deliver_mail();
            work |= self.poll_inputs();
            work |= self.take_handoffs();
            work |= self.dispatcher.run_timers(self.reader.guard());
            work |= self.dispatcher.run(self.reader.guard()) != 0;
            self.reader.quiescent();
            if work {
                self.idle.worked(now);
                continue;
            }
            match self.idle.next(now) {
                Next::Spin => {
                    self.pause.moment(now.wrapping_add(moment), self.idle.polling() != Polling::Latency)
                }
                Next::Doze(time) => self.doze(time),
                Next::Sleep => self.sleep(),
            }
        }
        self.reader.offline();
    }

    fn deliver_mail(&mut self) -> bool {
        let mut any = false;
        for _ in 0..MAIL_A_LOOP {
            let Some(mail) = self.shared.mail.pop() else { break };
            any = true;
            if let Err(cause) = catch_unwind(AssertUnwindSafe(|| mail(self))) {
                drop(cause);
            }
        }
        any
    }

    /// Takes what other workers sent, until it is as many packets as a vector has: inputs have their turn again then. Frames are taken
    /// whole, so it is less than two vectors.
    fn take_handoffs(&mut self) -> bool {
        let env = &mut self.dispatcher.env;
        let (worker, mut taken) = (env.worker, 0);
        while taken < VECTOR_SIZE {
            let enqueue = |node, v: &mut Box<Vector>| {
                // They are in another worker's cache, and most are written.
                let descs = v.as_slice();
                for (i, d) in descs.iter().enumerate() {
                    if let Some(ahead) = descs.get(i + DESCS_AHEAD) {
                        prefetch_to_write(ahead);
                    }
                    env.buffers.prefetch_write(d);
                }
                if !env.frames.pass(node, v) {
                    env.enqueue_all(v.take(), node);
                }
            };
            match self.handoff.take(worker, enqueue) {
                0 => break,
                n => taken += n,
            }
        }
        taken != 0
    }

    fn poll_inputs(&mut self) -> bool {
        let mut any = false;
        let now_ns = self.dispatcher.env.now_ns;
        for i in 0..self.inputs.len() {
            let t0 = tsc();
            let input = &mut self.inputs[i];
            let buffers = &mut self.dispatcher.env.buffers;
            let v = &mut self.vector;
            let polled = catch_unwind(AssertUnwindSafe(|| input.queue.poll(buffers, now_ns, v)));
            let n = self.vector.len() as u64;
            if n == 0 && polled.is_ok() {
                continue;
            }
            any = true;
            let env = &mut self.dispatcher.env;
            let mut bytes = 0;
            for d in self.vector.as_mut_slice() {
                bytes += env.buffers.total_len(d) as u64;
                d.flags |= input.mark;
            }
            if let Some(c) = self.rx.get(input.queue.interface()) {
                c.packets.add(n);
                c.bytes.add(bytes);
            }
            env.tracing.start(input.node, &mut self.vector, &mut env.buffers, self.reader.guard());
            let mut target = input.target;
            let features = input.features.load(Ordering::Relaxed);
            if let Some(arc) = self.arc.filter(|_| features != 0) {
                let arc = &env.wiring.arcs[arc];
                for d in self.vector.as_mut_slice() {
                    d.feat = features;
                    target = arc.next(&mut d.feat);
                }
            }
            for d in self.vector.as_slice() {
                if d.has(flags::TRACED) {
                    let guard = self.reader.guard();
                    env.node = input.node;
                    env.trace(guard, &crate::Seen::of(d), d, Some(target), crate::trace::NO_REASON);
                }
            }
            let s = &env.stats.nodes[usize::from(input.node.0)];
            s.calls.add(1);
            s.packets.add(n);
            s.max_vector.set(s.max_vector.get().max(n));
            let full = u64::from(n == VECTOR_SIZE as u64);
            let turns = env.stats.turns();
            turns.packets_in.add(n);
            turns.vectors.add(1);
            turns.full.add(full);
            if let Some(q) = env.stats.queues.get(input.id as usize).filter(|_| input.id < QUEUES as u64) {
                q.packets.add(n);
                q.bytes.add(bytes);
                q.vectors.add(1);
                q.full.add(full);
            }
            self.dispatcher.feed(&mut self.vector, target);
            let took = tsc().wrapping_sub(t0);
            self.dispatcher.env.stats.nodes[usize::from(self.inputs[i].node.0)].clocks.add(took);
            self.dispatcher.run(self.reader.guard());
        }
        if any {
            self.dispatcher.env.stats.turns().loops.add(1);
        }
        any
    }

    /// When something is due that no descriptor tells of, nanoseconds from now.
    fn due(&self) -> Option<u64> {
        let now = self.clock.now_ns();
        let mut due = self.dispatcher.due_ns().map(|due| due.saturating_sub(now));
        for input in &self.inputs {
            let at = match input.queue.ready() {
                Ready::Now => 0,
                Ready::At(t) => t.saturating_sub(now),
                Ready::Fd | Ready::Never => continue,
            };
            due = Some(due.map_or(at, |t: u64| t.min(at)));
        }
        due
    }

    /// Waits for a descriptor, a timed input, or mail.
    fn sleep(&mut self) {
        let due = self.due();
        if due.is_some_and(|t| t <= self.clock.to_ns(self.idle.at_once())) {
            return;
        }
        for input in &self.inputs {
            let s = &self.dispatcher.env.stats.nodes[usize::from(input.node.0)];
            s.suspends.add(1);
        }
        let looks = self.dispatcher.env.stats.turns().sleeps.get().is_multiple_of(COST_OF);
        let before = looks.then(processor_ns);
        self.rest(due, true);
        if let Some(before) = before {
            self.idle.cost(self.clock.from_ns(processor_ns().saturating_sub(before)));
        }
    }

    /// Lets packets gather for a time; what is due, or mail, ends it.
    fn doze(&mut self, clocks: u64) {
        let time = self.clock.to_ns(clocks);
        let time = self.due().map_or(time, |due| due.min(time));
        if time != 0 {
            self.rest(Some(time), false);
        }
    }

    /// Sleeps for `limit` nanoseconds at most, until other threads want something or, with `devices`, packets come.
    fn rest(&mut self, limit: Option<u64>, devices: bool) {
        let t0 = tsc();
        self.dispatcher.env.stats.turns().sleeps.add(1);
        self.reader.offline();
        self.shared.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let worker = self.dispatcher.env.worker;
        let nothing = self.handoff.may_sleep(worker) && self.shared.mail.is_empty();
        if nothing && !self.shared.stop.load(Ordering::SeqCst) {
            let limit = limit.map(|ns| Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            });
            let (woken, mail) = if devices { self.until_packets(limit) } else { self.until_asked(limit) };
            self.dispatcher.env.stats.turns().wakes.add(u64::from(woken));
            if mail {
                let mut count = [0u8; 8];
                let _ = rustix::io::read(&self.shared.wake, &mut count);
            }
        }
        self.shared.asleep.store(false, Ordering::SeqCst);
        self.handoff.awake(worker);
        self.reader.online();
        self.dispatcher.env.stats.turns().asleep.add(tsc().wrapping_sub(t0));
    }

    /// Waits for devices and other threads; whether something has come, and whether mail is among it.
    fn until_packets(&self, limit: Option<Timespec>) -> (bool, bool) {
        let mut events = [core::mem::MaybeUninit::<epoll::Event>::uninit(); 8];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, limit.as_ref()) else {
            return (false, false);
        };
        (!events.is_empty(), events.iter().any(|e| e.data.u64() == u64::MAX))
    }

    /// Waits for other threads alone; whether something has come, which may be mail.
    fn until_asked(&self, limit: Option<Timespec>) -> (bool, bool) {
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let wake = of(self.shared.wake.as_fd());
        let come = match self.handoff.fd(self.dispatcher.env.worker) {
            Some(fd) => poll(&mut [wake, of(fd)], limit.as_ref()),
            None => poll(&mut [wake], limit.as_ref()),
        };
        let come = come.is_ok_and(|n| n != 0);
        (come, come)
    }
}

/// Nanoseconds that this thread has had a processor. By libc: rustix looks for the vDSO itself, which is not to be found under valgrind.
#[allow(unsafe_code)]
fn processor_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` lives and is written to; the clock is there in every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Whether a worker may run on a CPU, where it is to have one of its own. By a thread that may run wherever the process may.
///
/// # Errors
/// There is no such CPU, or the process may not run on it.
pub fn may_run(cpu: Option<usize>) -> io::Result<()> {
    match cpu {
        Some(cpu) if !(cpu < CpuSet::MAX_CPU && rustix::thread::sched_getaffinity(None)?.is_set(cpu)) => {
            let why = format!("CPU {cpu} does not exist, or this process may not run on it");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        _ => Ok(()),
    }
}

#[allow(unsafe_code)]
fn watch(epoll: &OwnedFd, fd: RawFd, on: bool) -> io::Result<()> {
    // SAFETY: the descriptor belongs to a queue that the worker owns for as long as it is watched.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    if on {
        epoll::add(epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    } else {
        epoll::delete(epoll, fd)?;
    }
    Ok(())
}
