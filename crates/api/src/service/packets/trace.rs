//! Traces that are followed: workers append what nodes did to a queue, of which a task of the API's thread makes packets. The control
//! thread begins and ends it, and has nothing to do with packets.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::commands::Desk;
use control::places::Place;
use graph::edge::NodeId;
use graph::follow::{Follow, Followed};
use graph::{Graph, TraceRecord};
use net::router::Untraceable;
use net::runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{AT_ONCE, MESSAGES, Names, held, interface, wrong};
use crate::limits::{self, Answers, Deadline};
use crate::service::Router;
use crate::status;
use crate::v1::{TraceRequest, TraceResponse, trace_response};

/// Steps that are kept for a client which has not taken them, some 4 MiB; and of packets that are put together, at most twice as many.
const STEPS: usize = 16_384;
/// Steps of a packet that are told at once: one that is flooded may have thousands.
const TOGETHER: usize = 256;
/// A packet with which no node had anything to do for so long is told: longer than others keep a worker from its CPU.
const QUIET: Duration = Duration::from_millis(200);
/// A queue in which nothing was is looked at again then: workers need not tell.
const PAUSE: Duration = Duration::from_millis(4);
/// Packets whose numbers are remembered when they are told, as they may go on: all that can be told at once.
const REMEMBERED: usize = 2 * STEPS;
/// Nodes of a stream.
const NODES: usize = 32;

/// Begins a trace; its messages.
pub(super) async fn begin(
    router: &Router,
    place: Place,
    request: TraceRequest,
    deadline: Deadline,
) -> Result<Answers<TraceResponse>, Status> {
    let TraceRequest { nodes, count, interface: name } = request;
    if !(1..=NODES).contains(&nodes.len()) {
        let (n, field) = (nodes.len(), "nodes");
        let why = format!("{n} nodes at which tracing begins: there must be 1 to {NODES}");
        return Err(wrong(Code::InvalidArgument, field, "range", &n.to_string(), &why, &["af-packet-input"]));
    }
    let count = if count == 0 { u64::MAX } else { count };
    let (hold, released) = held();
    let begun = router.0.door.ask(async move |_, desk: Desk| {
        let of = interface(&desk, &name)?;
        // So much memory is not made in no time.
        let made = net::background::run(move || Follow::new(of, count, STEPS)).await;
        let follow = Arc::new(made.map_err(|e| Status::internal(e.to_string()))?);
        // The interface may have gone meanwhile, and its number be another's.
        if interface(&desk, &name)? != of {
            return Err(Status::aborted("the interface is gone"));
        }
        let mut router = desk.router.borrow_mut();
        router.trace_follow(&nodes, &follow).map_err(|e| match e {
            Untraceable::Node(name) => {
                let why = format!("there is no node {name}; 'show graph' has their names");
                wrong(Code::FailedPrecondition, "nodes", "unknown", &name, &why, &[])
            }
            // Who has a place among so many finds one here.
            Untraceable::Full => Status::internal("there is no room for a trace"),
        })?;
        let graph = router.graphs().first().cloned();
        drop(router);
        let kept = Arc::clone(&follow);
        tokio::task::spawn_local(async move {
            let _ = released.await;
            desk.router.borrow_mut().trace_unfollow(&kept);
            drop(place);
        });
        let graph = graph.ok_or_else(|| Status::internal("there is no worker"))?;
        let nodes: Vec<NodeId> = nodes.iter().filter_map(|n| graph.node(n)).collect();
        Ok::<_, Status>((follow, graph, nodes))
    });
    let (follow, graph, nodes) = begun.await.map_err(status::closed)??;
    let (to, messages) = mpsc::channel(MESSAGES);
    let router = router.clone();
    tokio::spawn(async move {
        let _held = hold;
        let mut reader =
            Reader { follow, graph, names: Names::default(), packets: Packets::of(nodes), lost: 0 };
        if let Err(e) = reader.tell(&router, &to).await {
            let _ = to.send(Err(e)).await;
        }
    });
    Ok(limits::until(deadline, ReceiverStream::new(messages)))
}

/// A packet, or what has become of it since it was told.
#[derive(Debug)]
struct Open {
    worker: u16,
    number: u64,
    continued: bool,
    incomplete: bool,
    steps: Vec<TraceRecord>,
    /// When the last step was read, and in which round.
    last: Instant,
    round: u64,
}

/// Puts the steps of packets together: those of one stand among those of others.
#[derive(Default)]
struct Packets {
    /// Where tracing begins.
    nodes: Vec<NodeId>,
    /// By worker and its number for it.
    open: BTreeMap<(u16, u32), Open>,
    /// Steps of these.
    steps: usize,
    /// Packets so far.
    count: u64,
    /// Numbers of those that were told, the last ones.
    told: BTreeMap<(u16, u32), u64>,
    order: VecDeque<(u16, u32)>,
    round: u64,
    /// Steps that found no room so far.
    missing: u64,
}

impl Packets {
    fn of(nodes: Vec<NodeId>) -> Packets {
        Packets { nodes, ..Packets::default() }
    }

    fn add(&mut self, step: &Followed, now: Instant) {
        let (key, round) = ((step.worker, step.record.id), self.round);
        let open = self.open.entry(key).or_insert_with(|| {
            let told = self.told.get(&key);
            let number = told.copied().unwrap_or(self.count + 1);
            self.count = self.count.max(number);
            // Those before the first that is there found no room.
            let incomplete = told.is_none() && !self.nodes.contains(&step.record.node);
            let continued = told.is_some();
            Open {
                worker: key.0,
                number,
                continued,
                incomplete,
                steps: Vec::with_capacity(1),
                last: now,
                round,
            }
        });
        open.steps.push(step.record);
        (open.last, open.round) = (now, round);
        self.steps += 1;
    }

    /// Reads what workers have appended; true when there was something.
    fn read(&mut self, follow: &Follow, now: Instant) -> bool {
        self.round += 1;
        let missing = follow.missed();
        let before = self.steps;
        while self.steps < 2 * STEPS && self.steps - before < STEPS {
            let Some(step) = follow.take() else { break };
            self.add(&step, now);
        }
        if std::mem::replace(&mut self.missing, missing) != missing {
            // What is missing was to come behind what is read now.
            self.open.values_mut().for_each(|p| p.incomplete = true);
        }
        self.steps != before
    }

    /// Those that are to be told, in the order in which they began. `all`: there comes nothing more.
    fn due(&mut self, now: Instant, all: bool) -> Vec<Open> {
        let (crowded, round) = (self.steps >= STEPS, self.round);
        let due = |p: &Open| {
            let quiet = now.saturating_duration_since(p.last) >= QUIET;
            all || quiet || p.steps.len() >= TOGETHER || crowded && p.round != round
        };
        let mut keys: Vec<_> = self.open.iter().filter(|(_, p)| due(p)).map(|(k, _)| *k).collect();
        if keys.is_empty() && self.steps >= 2 * STEPS {
            keys = self.open.keys().copied().collect();
        }
        let mut packets = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(packet) = self.open.remove(&key) else { continue };
            self.steps -= packet.steps.len();
            if self.told.insert(key, packet.number).is_none() {
                self.order.push_back(key);
            }
            packets.push(packet);
        }
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|key| self.told.remove(&key));
        }
        packets.sort_by_key(|p| p.number);
        packets
    }
}

/// What a client has of a trace.
struct Reader {
    follow: Arc<Follow>,
    graph: Graph,
    names: Names,
    packets: Packets,
    /// Lost packets that were told.
    lost: u64,
}

impl Reader {
    async fn tell(
        &mut self,
        router: &Router,
        to: &mpsc::Sender<Result<TraceResponse, Status>>,
    ) -> Result<(), Status> {
        if to.send(Ok(TraceResponse::default())).await.is_err() {
            return Ok(());
        }
        let mut over: Option<Instant> = None;
        loop {
            // Before the steps: none comes behind the end.
            let ended = self.follow.is_ended();
            let now = Instant::now();
            if self.follow.is_over() {
                over.get_or_insert(now);
            }
            let some = self.packets.read(&self.follow, now);
            let due = self.packets.due(now, ended && !some);
            let lost = self.follow.lost();
            let mut gap = lost - std::mem::replace(&mut self.lost, lost);
            let mut due = due.into_iter().peekable();
            while due.peek().is_some() || gap != 0 {
                let (mut packets, mut steps) = (vec![], 0);
                while let Some(packet) = due.next_if(|_| packets.len() < AT_ONCE && steps < TOGETHER) {
                    steps += packet.steps.len();
                    packets.push(packet);
                }
                // Those were lost behind all that is told here.
                let lost = if due.peek().is_none() { std::mem::take(&mut gap) } else { 0 };
                let message = self.message(router, packets, lost).await?;
                if to.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
            if some {
                // Others of this thread have their turn.
                tokio::task::yield_now().await;
                continue;
            }
            if ended {
                return Err(Status::aborted("the interface is gone"));
            }
            if self.packets.open.is_empty() && over.is_some_and(|since| since.elapsed() >= QUIET) {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = to.closed() => return Ok(()),
            }
        }
    }

    async fn message(
        &mut self,
        router: &Router,
        packets: Vec<Open>,
        lost: u64,
    ) -> Result<TraceResponse, Status> {
        let told = packets.iter().flat_map(|p| &p.steps).map(|r| runtime::told(&self.graph, r));
        let mut told: Vec<runtime::Told> = told.collect();
        self.names.learn(router, told.iter().flat_map(|t| runtime::numbers(&t.text))).await?;
        for t in &mut told {
            let text = runtime::named(&t.text, |i| Some(self.names.of(i)).filter(|name| !name.is_empty()));
            t.text = text.trim_end().to_owned();
        }
        let wall = net::pcap::wall_offset_ns();
        let mut told = told.into_iter();
        let packets = packets.into_iter().map(|p| trace_response::Packet {
            number: p.number,
            worker: p.worker.into(),
            steps: p.steps.iter().zip(told.by_ref()).map(|(r, told)| step(r, told, wall)).collect(),
            continued: p.continued,
            incomplete: p.incomplete,
        });
        Ok(TraceResponse { packets: packets.collect(), lost })
    }
}

fn step(r: &TraceRecord, told: runtime::Told, wall: u64) -> trace_response::Step {
    let (reason, meaning) = told.drop.unwrap_or_default();
    trace_response::Step {
        node: told.node.into(),
        next: told.next.unwrap_or_default().into(),
        drop_reason: reason.into(),
        drop_meaning: meaning.into(),
        time_ns: i64::try_from(r.time_ns.wrapping_add(wall)).unwrap_or(i64::MAX),
        length: r.total_len,
        text: told.text,
        data: r.bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::desc::{Desc, Seen};
    use graph::trace::{NO_REASON, TRACE_BYTES};

    const START: NodeId = NodeId(1);

    fn step(worker: u16, id: u32, node: NodeId) -> Followed {
        let seen = Seen::of(&Desc::default());
        let (next, reason, time_ns, total_len, data_len) = (None, NO_REASON, 0, 0, 0);
        let data = [0; TRACE_BYTES];
        let (before, after) = (seen, seen);
        let record =
            TraceRecord { id, node, next, reason, time_ns, before, after, total_len, data_len, data };
        Followed { worker, record }
    }

    fn add(packets: &mut Packets, worker: u16, id: u32, nodes: &[u16], now: Instant) {
        nodes.iter().for_each(|n| packets.add(&step(worker, id, NodeId(*n)), now));
    }

    fn seen(packets: &[Open]) -> Vec<(u64, u16, usize, bool, bool)> {
        packets.iter().map(|p| (p.number, p.worker, p.steps.len(), p.continued, p.incomplete)).collect()
    }

    #[test]
    fn steps_are_put_together_by_packet_and_worker() {
        let (mut packets, now) = (Packets::of(vec![START]), Instant::now());
        add(&mut packets, 0, 7, &[1], now);
        add(&mut packets, 1, 7, &[1, 2], now);
        add(&mut packets, 0, 7, &[2, 3], now);
        add(&mut packets, 0, 8, &[1], now + QUIET / 2);
        assert!(packets.due(now + QUIET / 2, false).is_empty());
        let due = packets.due(now + QUIET, false);
        assert_eq!(seen(&due), [(1, 0, 3, false, false), (2, 1, 2, false, false)]);
        // One goes on after it had waited; of another the beginning is not there.
        add(&mut packets, 1, 7, &[9], now + QUIET);
        add(&mut packets, 0, 9, &[9], now + QUIET);
        let due = packets.due(now + QUIET, true);
        assert_eq!(seen(&due), [(2, 1, 1, true, false), (3, 0, 1, false, false), (4, 0, 1, false, true)]);
        assert_eq!(packets.steps, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut packets, now) = (Packets::of(vec![START]), Instant::now());
        add(&mut packets, 0, 0, &[1; TOGETHER], now);
        let due = packets.due(now, false);
        assert_eq!(seen(&due), [(1, 0, TOGETHER, false, false)], "one with many steps does not wait");
        packets.round += 1;
        for id in 1..=STEPS as u32 {
            add(&mut packets, 0, id, &[1], now);
        }
        assert!(packets.due(now, false).is_empty(), "all came in this round");
        packets.round += 1;
        assert_eq!(packets.due(now, false).len(), STEPS);
        for id in STEPS as u32..3 * STEPS as u32 {
            add(&mut packets, 0, id, &[1], now);
        }
        assert_eq!(packets.due(now, false).len(), 2 * STEPS, "no more is put together than that");
        assert_eq!((packets.order.len(), packets.told.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn what_finds_no_room_leaves_packets_that_say_so() {
        let (mut packets, now) = (Packets::of(vec![START]), Instant::now());
        let follow = Follow::new(None, 1, 8);
        assert!(!packets.read(&follow, now));
        add(&mut packets, 0, 0, &[1], now);
        packets.missing = 5;
        assert!(!packets.read(&follow, now));
        assert_eq!(seen(&packets.due(now, true)), [(1, 0, 1, false, true)]);
    }
}
