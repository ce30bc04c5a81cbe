//! Steering as a part of the control side.

use super::buckets::Buckets;
use super::heavy::Samples;
use super::{Counts, FlowKey, Shared, Steered, WORKER_HANDOFF, WorkerHandoff};
use crate::neighbor::Millis;
use crate::router::{BoxedOp, IfState, InterfaceOp, Kind, OpError, Part, Router, Start};
use command::Command;
use graph::arcs::Feature;
use graph::{MAX_WORKERS, SpreadNode};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, mpsc};

/// How often what workers sampled and counted is taken, milliseconds.
const EVERY_MS: u64 = 1000;
/// Of so many looks the samples count.
const LOOKS: usize = 10;
/// Fewer samples than these tell nothing of a flow.
const LEAST_SAMPLES: u32 = 16;

/// The part.
pub(crate) struct Steering;

/// Among whom the packets of an interface are shared out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoffConfig {
    /// The workers, in order; none: all that there are.
    pub workers: Vec<usize>,
    /// Both directions of a flow go to one worker.
    pub symmetrical: bool,
}

impl HandoffConfig {
    /// Its workers in words, as a command takes them.
    pub fn words(&self) -> String {
        if self.workers.is_empty() {
            return "all".into();
        }
        let runs = self.workers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        });
        runs.collect::<Vec<_>>().join(",")
    }
}

/// The packets of an interface are shared out so from now on; none: its receive queues alone say which worker has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Handoff(pub Option<HandoffConfig>);

/// An interface of which packets are shared out.
struct Told {
    config: HandoffConfig,
    /// The workers that have buckets, or may have some.
    among: Vec<usize>,
    buckets: Buckets,
    counts: Arc<Counts>,
}

/// What was counted of an interface: packets by who shared them out and who got them.
type Sums = BTreeMap<(u32, usize, usize), u64>;

/// The state.
struct State {
    told: BTreeMap<u32, Told>,
    /// What was counted at the last looks, and when.
    looks: VecDeque<(Millis, Sums)>,
    /// What was sampled between them, by worker.
    samples: VecDeque<Vec<(usize, Samples)>>,
    due: Millis,
    /// From workers.
    tell: mpsc::Sender<(usize, Samples)>,
    told_samples: mpsc::Receiver<(usize, Samples)>,
}

/// Packets of an interface that a worker shared out to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Handed {
    /// The interface.
    pub interface: u32,
    /// The worker that polls the receive queue.
    pub from: usize,
    /// The worker that goes on with them; the same where they stay.
    pub to: usize,
    /// Packets since it was asked for.
    pub packets: u64,
    /// Packets a second, in the last second.
    pub rate: f64,
}

/// A flow that was met often among samples.
#[derive(Clone, Debug, PartialEq)]
pub struct HeavyFlow {
    /// The interface on which it comes.
    pub interface: u32,
    /// The flow.
    pub flow: FlowKey,
    /// The worker that polls its receive queue.
    pub from: usize,
    /// The worker that goes on with it.
    pub worker: usize,
    /// Packets a second.
    pub rate: f64,
}

/// How the packets of an interface are shared out, where they are.
pub fn config(router: &Router, index: u32) -> Option<&HandoffConfig> {
    Some(&router.state::<State>()?.told.get(&index)?.config)
}

fn sums(state: &State) -> Sums {
    let mut all = Sums::new();
    for (index, told) in &state.told {
        for from in 0..MAX_WORKERS {
            let row = told.counts.of(from).into_iter().flatten().map(graph::stats::Count::get);
            all.extend(row.enumerate().filter(|c| c.1 != 0).map(|(to, n)| ((*index, from, to), n)));
        }
    }
    all
}

/// What was handed to whom, by interface.
pub fn handed(router: &Router) -> Vec<Handed> {
    let Some(state) = router.state::<State>() else { return vec![] };
    let rates = rates(state);
    let one = |((interface, from, to), packets): ((u32, usize, usize), u64)| Handed {
        interface,
        from,
        to,
        packets,
        rate: rates.get(&(interface, from, to)).copied().unwrap_or(0.0),
    };
    sums(state).into_iter().map(one).collect()
}

/// Packets a second between the last two looks.
fn rates(state: &State) -> BTreeMap<(u32, usize, usize), f64> {
    let [.., (start, first), (end, last)] = state.looks.iter().collect::<Vec<_>>()[..] else {
        return BTreeMap::new();
    };
    let seconds = (end.0.saturating_sub(start.0) as f64 / 1000.0).max(1e-3);
    let rate = |(key, n): (&(u32, usize, usize), &u64)| {
        (*key, n.saturating_sub(first.get(key).copied().unwrap_or(0)) as f64 / seconds)
    };
    last.iter().map(rate).collect()
}

/// The flows that take the most packets of the last seconds, the heaviest of all first.
pub fn heavy(router: &Router) -> Vec<HeavyFlow> {
    let Some(state) = router.state::<State>() else { return vec![] };
    let mut all: HashMap<usize, u32> = HashMap::new();
    let mut flows: HashMap<(usize, u32, FlowKey), u32> = HashMap::new();
    for (from, samples) in state.samples.iter().flatten() {
        *all.entry(*from).or_default() += samples.all;
        for s in samples.flows.iter().flatten() {
            *flows.entry((*from, s.interface, s.key)).or_default() += s.count;
        }
    }
    let mut packets: HashMap<usize, f64> = HashMap::new();
    rates(state).into_iter().for_each(|((_, from, _), rate)| *packets.entry(from).or_default() += rate);
    let seed = router.hash_seed();
    let one = |((from, interface, flow), count): ((usize, u32, FlowKey), u32)| {
        let told = state.told.get(&interface)?;
        let (share, rate) = (f64::from(count) / f64::from(*all.get(&from)?), packets.get(&from)?);
        let worker = told.buckets.worker(flow.hash(told.shared(seed).flow));
        Some(HeavyFlow { interface, flow, from, worker: worker.into(), rate: share * rate })
    };
    let mut heavy: Vec<HeavyFlow> =
        flows.into_iter().filter(|f| f.1 >= LEAST_SAMPLES).filter_map(one).collect();
    heavy.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    heavy
}

impl Told {
    fn new() -> Told {
        let (config, counts) = (HandoffConfig::default(), Arc::new(Counts::new()));
        Told { config, among: vec![], buckets: Buckets::new(), counts }
    }

    /// As workers see it.
    fn shared(&self, seed: u32) -> Shared {
        Shared::new(self.buckets.clone(), seed, self.config.symmetrical, Arc::clone(&self.counts))
    }

    /// Those among whom it is to be shared out, where there are so many workers.
    fn sharers(&self, workers: usize) -> Vec<usize> {
        match self.config.workers.is_empty() {
            true => (0..workers).collect(),
            false => self.config.workers.clone(),
        }
    }

    /// Shares it out evenly among them, where these are not the same.
    fn share_out(&mut self, workers: usize) {
        let sharers = self.sharers(workers);
        if sharers != self.among {
            self.buckets = self.buckets.among(&sharers);
            self.among = sharers;
        }
    }
}

/// The workers among which an interface is shared out, and how many buckets each has.
pub fn shares(router: &Router, index: u32) -> Vec<(usize, usize)> {
    let told = router.state::<State>().and_then(|s| s.told.get(&index));
    told.map_or(vec![], |t| t.among.iter().map(|w| (*w, t.buckets.of(*w))).collect())
}

/// Gives so many buckets of one worker to another. A heavy flow moves from a worker that polls the interface alone: it would go to and
/// fro between others.
pub(crate) fn move_share(router: &mut Router, index: u32, from: usize, to: usize, buckets: usize) {
    let seed = router.hash_seed();
    let Some(told) = router.state::<State>().and_then(|s| s.told.get(&index)) else { return };
    let flow = told.shared(seed).flow;
    let stays = |h: &HeavyFlow| (h.interface, h.worker) == (index, from) && h.from != from;
    let stay: Vec<usize> =
        heavy(router).iter().filter(|h| stays(h)).map(|h| Buckets::number(h.flow.hash(flow))).collect();
    let new = told.buckets.moved(from, to, buckets, &stay);
    if new != told.buckets {
        change(router, &[index], |told| told.buckets = new.clone());
    }
}

/// Changes how some interfaces are shared out, while no packet of theirs is on its way.
fn change(router: &mut Router, interfaces: &[u32], to: impl Fn(&mut Told)) {
    let done = router.between_packets(interfaces, |router| {
        let Some(s) = router.state_mut::<State>() else { return };
        s.told.iter_mut().filter(|(index, _)| interfaces.contains(index)).for_each(|(_, told)| to(told));
        publish(router);
    });
    if let Err(e) = done {
        router.note(true, format!("packets that are shared out among workers: {}", e.message));
    }
}

/// Has workers see what is told.
fn publish(router: &mut Router) {
    let seed = router.hash_seed();
    let Some(s) = router.state::<State>() else { return };
    let all = s.told.iter().map(|(i, told)| (*i, Arc::new(told.shared(seed)))).collect();
    router.publish(Steered(all));
}

/// Why the packets of an interface cannot be shared out.
fn check(router: &Router, i: &IfState) -> Result<(), OpError> {
    let name = &i.name;
    let why = match i.kind {
        _ if i.companion => {
            Some("is half of a pair with Linux, of which the other half is to be named".into())
        }
        Kind::Device => None,
        Kind::Sub { parent, .. } => {
            Some(format!("has its frames from {}: name that", router.interface_name(parent)))
        }
        Kind::Local | Kind::Loopback => Some("has no receive queues".into()),
        Kind::MplsTunnel { .. } | Kind::Virtual(_) => Some(
            "has no device of its own: name the devices on which its packets come; of a memif and a vhost-user interface the other side \
             chooses how many queues there are"
                .into(),
        ),
    };
    why.map_or(Ok(()), |why: String| Err(OpError::new(format!("{name} {why}"))))
}

impl InterfaceOp for Handoff {
    fn subject(&self) -> String {
        "handoff".into()
    }

    fn off(&self) -> Self {
        Handoff(None)
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let Some(i) = router.interface(index) else { return Err(OpError::new("no such interface")) };
        let name = i.name.clone();
        if let Handoff(Some(config)) = &self {
            check(router, i)?;
            for w in &config.workers {
                router.check_worker(*w).map_err(|why| OpError::new(format!("{name}: {why}")))?;
            }
            if let Some(w) = config.workers.iter().enumerate().find(|(n, w)| config.workers[..*n].contains(w))
            {
                return Err(OpError::new(format!("{name}: worker {} is named twice", w.1)));
            }
        }
        let was = config(router, index).cloned();
        if was == self.0 {
            return Ok(Handoff(was));
        }
        router.between_packets(&[index], |router| {
            let (workers, now) = (router.config().workers, router.now());
            let Some(s) = router.state_mut::<State>() else { return };
            match self.0 {
                Some(config) => {
                    if s.told.is_empty() {
                        s.due = now;
                    }
                    let told = s.told.entry(index).or_insert_with(Told::new);
                    told.config = config;
                    told.share_out(workers);
                }
                None => _ = s.told.remove(&index),
            }
            publish(router);
            router.publish_interface(index);
        })?;
        Ok(Handoff(was))
    }

    fn switches_on(&self) -> bool {
        false
    }

    fn last_worker(&self) -> Option<usize> {
        // All that there are: the first stays.
        self.0.as_ref().map(|config| config.workers.iter().copied().max().unwrap_or(0))
    }

    fn commands(&self, name: &str, _: bool) -> Vec<String> {
        let Some(config) = &self.0 else { return vec![] };
        let both = if config.symmetrical { " symmetrical" } else { "" };
        vec![format!("set interface handoff {name} workers {}{both}", config.words())]
    }

    fn words(&self, name: &str) -> (String, String) {
        ("is shared out among workers".into(), format!("set interface handoff {name} disable"))
    }
}

impl Part for Steering {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        let (tell, told_samples) = mpsc::channel();
        Box::new(State {
            told: BTreeMap::new(),
            looks: VecDeque::new(),
            samples: VecDeque::new(),
            due: Millis(0),
            tell,
            told_samples,
        })
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        config(router, index).map(|c| BoxedOp::new(Handoff(Some(c.clone())))).into_iter().collect()
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        config(router, index).map(|_| &WORKER_HANDOFF).into_iter().collect()
    }

    fn needs_workers(&self, router: &Router, workers: usize) -> Option<String> {
        let s = router.state::<State>()?;
        let of = |(index, told): (&u32, &Told)| {
            Some((*index, *told.config.workers.iter().find(|w| **w >= workers)?))
        };
        let (index, worker) = s.told.iter().find_map(of)?;
        let name = router.interface_name(index);
        Some(format!(
            "packets of {name} are handed to worker {worker}: share them out among others first (set interface handoff {name} \
             workers LIST, or all)"
        ))
    }

    /// Those of which all workers have a share are shared out anew.
    fn workers_changed(&self, router: &mut Router) {
        let workers = router.config().workers;
        let Some(s) = router.state::<State>() else { return };
        let changed = s.told.iter().filter(|(_, told)| told.sharers(workers) != told.among);
        let changed: Vec<u32> = changed.map(|(index, _)| *index).collect();
        if !changed.is_empty() {
            change(router, &changed, |told| told.share_out(workers));
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let gone = router.state_mut::<State>().and_then(|s| s.told.remove(&index));
        if gone.is_some() {
            publish(router);
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let s = router.state::<State>()?;
        (!s.told.is_empty()).then_some(s.due)
    }

    /// Takes what workers have sampled since, and has them tell the next. Nobody waits for it.
    fn tick(&self, router: &mut Router, now: Millis) {
        let Some(s) = router.state_mut::<State>() else { return };
        if s.told.is_empty() {
            s.looks.clear();
            s.samples.clear();
        }
        if s.told.is_empty() || now < s.due {
            return;
        }
        s.due = now.after(EVERY_MS);
        s.samples.push_back(s.told_samples.try_iter().collect());
        let sums = sums(s);
        let before = s.looks.back().map(|l| &l.1);
        let is_new = |(key, n): &(&(u32, usize, usize), &u64)| before.and_then(|b| b.get(key)) != Some(*n);
        let mut from: Vec<usize> = sums.iter().filter(is_new).map(|(key, _)| key.1).collect();
        from.sort_unstable();
        from.dedup();
        s.looks.push_back((now, sums));
        while s.looks.len() > 2 {
            s.looks.pop_front();
        }
        while s.samples.len() > LOOKS {
            s.samples.pop_front();
        }
        let tell = s.tell.clone();
        for worker in from {
            let tell = tell.clone();
            router.workers().on(worker, move |w| {
                if let Some(node) = w.dispatcher.node_mut::<WorkerHandoff>(WorkerHandoff::NAME) {
                    let _ = tell.send((worker, node.take_samples()));
                }
            });
        }
    }
}
