//! Workers come and go, and queues move between them, while packets flow: each comes once, and none overtakes another of its queue.
#![allow(clippy::unwrap_used)]

use super::SetWorkers;
use super::numbered::{Numbered, draws, until};
use crate::router::{Op, Router};
use std::sync::Arc;

const QUEUES: usize = 3;

/// A stream for each queue.
fn streams() -> Arc<Numbered> {
    Numbered::new(QUEUES, QUEUES, 500)
}

fn workers(count: usize) -> Op {
    SetWorkers { count, cpus: vec![] }.into()
}

#[test]
fn ten_thousand_changes_lose_and_reorder_nothing() {
    let all = streams();
    let mut r = all.router(1);
    let mut draw = draws();
    for _ in 0..5000 {
        let count = 1 + draw(4);
        r.commit(vec![workers(count)]).unwrap();
        r.move_queue(r.interface_index("in").unwrap(), draw(QUEUES), draw(count)).unwrap();
    }
    all.all_come(&r, 1000);
}

#[test]
fn queues_are_shared_out_among_those_that_are_there() {
    let all = streams();
    let mut r = all.router(1);
    let placed = |r: &Router| r.rx_placement().iter().map(|p| p.worker).collect::<Vec<_>>();
    let at = |r: &mut Router, count| {
        r.commit(vec![workers(count)]).unwrap();
        let mut of = vec![0; count];
        placed(r).into_iter().for_each(|w| of[w] += 1);
        of
    };
    assert_eq!(at(&mut r, 2), [2, 1]);
    assert_eq!(at(&mut r, 3), [1, 1, 1]);
    assert_eq!(at(&mut r, 4).iter().sum::<usize>(), 3);
    assert_eq!(at(&mut r, 1), [3]);
    let chosen = |worker| Op::SetPlacement { name: "in".into(), queue: 1, worker };
    r.commit(vec![workers(3), chosen(Some(2))]).unwrap();
    let refused = r.commit(vec![workers(2)]).unwrap_err().message;
    assert!(refused.starts_with("in has its receive queue 1 on worker 2"), "{refused}");
    // What fails behind it takes it back.
    r.commit(vec![workers(4), chosen(Some(9))]).unwrap_err();
    assert_eq!((r.config().workers, placed(&r)[1]), (3, 2));
    r.commit(vec![chosen(None), workers(1)]).unwrap();
    assert_eq!(placed(&r), [0, 0, 0]);
    for (count, cpus, why) in [
        (0, vec![], "0 workers: there must be 1 to 64"),
        (65, vec![], "65 workers: there must be 1 to 64"),
        (2, vec![0], "1 CPUs for 2 workers"),
        (2, vec![0, 0], "CPU 0 is named twice"),
        (1, vec![4000], "CPU 4000 does not exist"),
        (9, vec![], "8192 buffers are too few for 9 workers: 9216 are needed"),
    ] {
        let e = r.commit(vec![SetWorkers { count, cpus }.into()]).unwrap_err().message;
        assert!(e.starts_with(why), "{e}");
    }
    all.all_come(&r, 1000);
}

#[test]
fn a_move_that_fails_moves_nothing() {
    let all = streams();
    let mut r = all.router(1);
    let index = r.interface_index("in").unwrap();
    let placed = |r: &Router| r.rx_placement().iter().map(|p| p.worker).collect::<Vec<_>>();
    let fails = |r: &mut Router, queue: u64, count: usize| {
        all.refuse(1 << queue);
        let was = (r.config().workers, placed(r));
        let e = r.commit(vec![workers(count)]).unwrap_err().message;
        assert!(e.starts_with("cannot wait for packets"), "{e}");
        assert_eq!((r.config().workers, placed(r)), was);
    };
    // The first that moves, and one behind others that have moved.
    (1..3).for_each(|queue| fails(&mut r, queue, 3));
    r.commit(vec![workers(3)]).unwrap();
    (1..3).for_each(|queue| fails(&mut r, queue, 1));
    let was = placed(&r);
    all.refuse(2);
    r.move_queue(index, 1, (was[1] + 1) % 3).unwrap_err();
    let chosen = Op::SetPlacement { name: "in".into(), queue: 0, worker: Some((was[0] + 1) % 3) };
    all.refuse(1);
    r.commit(vec![chosen]).unwrap_err();
    assert_eq!(placed(&r), was);
    assert!(r.rx_placement().iter().all(|p| !p.chosen));
    all.all_come(&r, 1000);
}

#[test]
fn counters_of_workers_that_sleep_count() {
    let all = streams();
    let mut r = all.router(3);
    let index = r.interface_index("in").unwrap();
    let received = &r.plane().counters.received.rx;
    until("each worker receives", || received.each(index).all(|c| c.packets.get() != 0));
    r.commit(vec![workers(1)]).unwrap();
    all.all_come(&r, 1000);
    assert_eq!(r.interface_counts(index).rx_packets, all.sent());
    assert_eq!(r.runtime().len(), 1);
}
