//! One queue feeds several workers while those who share its packets change, and the queue moves: each packet comes once, and none
//! overtakes another of its flow.
#![allow(clippy::unwrap_used)]

use super::numbered::{Numbered, draws, until};
use super::{SetWorkers, follow};
use crate::router::{Op, Router};
use crate::steering::{self, BUCKETS, Handoff, HandoffConfig, handed, heavy, shares};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Flows of one queue, with fewer frames on the way than may wait for a worker: no queue between workers is full.
fn flows() -> Arc<Numbered> {
    Numbered::new(32, 1, 200)
}

fn count(count: usize) -> Op {
    SetWorkers { count, cpus: vec![] }.into()
}

fn handoff(workers: &[usize], symmetrical: bool) -> Op {
    let feature = Handoff(Some(HandoffConfig { workers: workers.into(), symmetrical })).into();
    Op::SetFeature { name: "in".into(), feature }
}

fn off() -> Op {
    Op::SetFeature { name: "in".into(), feature: Handoff(None).into() }
}

#[test]
fn ten_thousand_changes_lose_and_reorder_nothing() {
    let all = flows();
    let mut r = all.router(4);
    let index = r.interface_index("in").unwrap();
    let mut draw = draws();
    let mut workers = 4;
    let mut among = std::collections::BTreeSet::new();
    for _ in 0..2_500 {
        let list: Vec<usize> = (0..workers).filter(|_| draw(2) == 0).collect();
        r.commit(vec![handoff(&list, draw(2) == 0)]).unwrap();
        r.move_queue(index, 0, draw(workers)).unwrap();
        if draw(4) == 0 {
            r.commit(vec![off()]).unwrap();
        } else {
            r.commit(vec![handoff(&[], false)]).unwrap();
        }
        workers = 1 + draw(4);
        r.commit(vec![count(workers)]).unwrap();
        among.extend(handed(&r).iter().filter(|h| h.packets != 0).map(|h| (h.from, h.to)));
    }
    assert!(among.len() > 12, "{among:?}");
    all.all_come(&r, 100);
}

#[test]
fn a_thousand_moves_of_shares_lose_and_reorder_nothing() {
    let all = flows();
    let mut r = all.router(3);
    let index = r.interface_index("in").unwrap();
    r.commit(vec![handoff(&[], false)]).unwrap();
    let mut draw = draws();
    for n in 0..2_000 {
        let (from, to) = (draw(3), draw(3));
        let before = shares(&r, index);
        steering::move_share(&mut r, index, from, to, draw(400));
        let after = shares(&r, index);
        assert_eq!(after.iter().map(|s| s.1).sum::<usize>(), BUCKETS);
        assert!(after[from].1 <= before[from].1 && after[to].1 >= before[to].1);
        if n % 50 == 0 {
            r.move_queue(index, 0, draw(3)).unwrap();
        }
    }
    all.all_come(&r, 100);
}

#[test]
fn the_worker_that_polls_gets_less() {
    let all = flows();
    let mut r = all.router(2);
    let index = r.interface_index("in").unwrap();
    r.commit(vec![handoff(&[], false)]).unwrap();
    let polls = r.rx_placement()[0].worker;
    assert_eq!(shares(&r, index)[polls].1, BUCKETS / 2);
    let end = Instant::now() + Duration::from_secs(60);
    while shares(&r, index)[polls].1 > BUCKETS * 2 / 5 {
        follow(&mut r, Instant::now());
        assert!(Instant::now() < end, "{:?}", shares(&r, index));
        std::thread::sleep(Duration::from_millis(20));
    }
    // What is set again stays, and other workers have even shares.
    r.commit(vec![handoff(&[], true)]).unwrap();
    assert!(shares(&r, index)[polls].1 < BUCKETS / 2);
    r.commit(vec![count(4)]).unwrap();
    assert_eq!(shares(&r, index), [0, 1, 2, 3].map(|w| (w, BUCKETS / 4)));
    all.all_come(&r, 100);
}

#[test]
fn flows_are_shared_out_and_counted() {
    let all = flows();
    let mut r = all.router(2);
    r.commit(vec![handoff(&[], false)]).unwrap();
    let index = r.interface_index("in").unwrap();
    let from = r.rx_placement()[0].worker;
    let of =
        |r: &Router, to| handed(r).iter().find(|h| (h.from, h.to) == (from, to)).map_or(0, |h| h.packets);
    until("both have some", || of(&r, 0) > 1000 && of(&r, 1) > 1000);
    // A worker that comes has its share, and one that goes none any more.
    r.commit(vec![count(3)]).unwrap();
    let now = r.rx_placement()[0].worker;
    until("the third has some", || handed(&r).iter().any(|h| (h.from, h.to) == (now, 2) && h.packets > 1000));
    r.commit(vec![handoff(&[2], true)]).unwrap();
    let e = r.commit(vec![count(2)]).unwrap_err().message;
    assert_eq!(
        e,
        "packets of in are handed to worker 2: share them out among others first (set interface handoff in workers LIST, or all)"
    );
    for (list, why) in
        [(&[3][..], "in: there is no worker 3, workers 0 to 2"), (&[1, 1], "in: worker 1 is named twice")]
    {
        assert_eq!(r.commit(vec![handoff(list, false)]).unwrap_err().message, why);
    }
    // What fails behind it takes it back.
    r.commit(vec![handoff(&[0, 1], false), handoff(&[9], false)]).unwrap_err();
    assert_eq!(steering::config(&r, index).unwrap().workers, [2]);
    r.commit(vec![off(), count(1)]).unwrap();
    assert_eq!((steering::config(&r, index), handed(&r)), (None, vec![]));
    all.all_come(&r, 100);
    assert_eq!(r.interface_counts(index).rx_packets, all.sent(), "each is counted once");
}

#[test]
fn an_elephant_is_named() {
    let all = flows();
    let mut r = all.router(2);
    all.mice(4);
    r.commit(vec![handoff(&[], false)]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let found = loop {
        r.tick();
        if let [first, ..] = &heavy(&r)[..]
            && first.rate > 0.0
        {
            break first.clone();
        }
        assert!(Instant::now() < end, "{:?}", handed(&r));
        std::thread::yield_now();
    };
    assert_eq!(found.flow.to_string(), "10.0.1.2:1792 -> 10.0.2.2:9 UDP");
    let rates = |to: Option<usize>| -> f64 {
        handed(&r).iter().filter(|h| to.is_none_or(|to| h.to == to)).map(|h| h.rate).sum()
    };
    assert!(
        found.rate > rates(None) / 2.0 && found.rate <= rates(Some(found.worker)) * 1.2,
        "{found:?} {:?}",
        handed(&r)
    );
    all.all_come(&r, 1);
}
