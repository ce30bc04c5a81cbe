//! Flows that take so much of a worker that sharing packets out by flow does not help.

use super::{WorkerLoad, worked_on, workers};
use crate::router::Router;
use crate::steering::{Handed, HeavyFlow, handed, heavy};

/// The share of a worker's time from which on a flow is one.
const SHARE: f64 = 0.25;
/// The most that are told.
const MOST: usize = 16;

/// A flow of which packets are shared out, and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Elephant {
    /// The flow, and the worker that goes on with it.
    pub of: HeavyFlow,
    /// The share of this worker's time that it takes, 0 to 1: that of its packets among all that the worker worked on.
    pub share: f64,
}

/// The flows that take more than a quarter of a worker, the heaviest first.
pub fn elephants(router: &Router) -> Vec<Elephant> {
    let heavy = heavy(router);
    if heavy.is_empty() {
        return vec![];
    }
    choose(heavy, &workers(router), &handed(router))
}

fn choose(heavy: Vec<HeavyFlow>, workers: &[WorkerLoad], handed: &[Handed]) -> Vec<Elephant> {
    let packets = worked_on(workers.iter().map(|w| w.packets).collect(), handed);
    let share = |f: &HeavyFlow| {
        let (w, all) = (workers.get(f.worker)?, *packets.get(f.worker)?);
        (all > 0.0).then(|| w.busy[0].map(|busy| busy * (f.rate / all).min(1.0))).flatten()
    };
    let all = heavy.into_iter().filter_map(|of| Some(Elephant { share: share(&of)?, of }));
    let mut all: Vec<Elephant> = all.filter(|e| e.share >= SHARE).collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all.truncate(MOST);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::FlowKey;

    #[test]
    fn a_flow_is_measured_by_the_worker_that_goes_on_with_it() {
        let worker = |worker, busy, packets| WorkerLoad {
            worker,
            busy: [Some(busy), None, None],
            packets,
            ..WorkerLoad::default()
        };
        // Worker 0 polls all, keeps 400,000 of 1,000,000 packets a second and hands the others to worker 1.
        let workers = [worker(0, 0.9, 1_000_000.0), worker(1, 0.8, 0.0)];
        let to = |to, rate| Handed { interface: 1, from: 0, to, packets: 0, rate };
        let handed = [to(0, 400_000.0), to(1, 600_000.0)];
        let flow = |worker, rate| HeavyFlow { interface: 1, flow: FlowKey::of(&[]), from: 0, worker, rate };
        let all = choose(vec![flow(1, 450_000.0), flow(0, 390_000.0), flow(1, 100_000.0)], &workers, &handed);
        let told: Vec<_> = all.iter().map(|e| (e.of.worker, (e.share * 1000.0).round())).collect();
        assert_eq!(told, [(0, 878.0), (1, 600.0)], "the third takes 13 %");
        // Nothing is known of a worker in its first second, and one that is gone has nothing.
        let new = [workers[0].clone(), WorkerLoad { busy: [None; 3], ..workers[1].clone() }];
        assert_eq!(choose(vec![flow(1, 450_000.0), flow(9, 1e6)], &new, &handed), []);
    }
}
