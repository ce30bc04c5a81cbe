//! A stream of very many changes of routes at three followers: one that takes all at once, one that takes nothing for a while, and one that
//! goes and comes back. None misses a change that it is not told of, and what each knows at the end is what the router has.
//! `QUIVER_STREAM=1000000` makes a million changes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use ipnet::IpNet;
use quiver_client::v1::{
    NextHop, NextHopSet, RouteAction, RouteChanges, RouteFilter, RouteHello, RouteUpdate, route_event,
};
use quiver_client::{Events, Kinds, Program, Router, prefixes, push};
use started::{PATIENCE, Started};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Notify;

/// Changes, where nobody says: some times as many as the router keeps for who is slow.
const CHANGES: u32 = 600_000;
/// Prefixes.
const ROUTES: u32 = 50_000;

fn net(n: u32) -> IpNet {
    ipnet::Ipv4Net::new((0x1400_0000 + (n << 8)).into(), 24).unwrap().into()
}

/// Where packets to each prefix go: a word for each kind of route.
type Table = BTreeMap<IpNet, String>;

/// What a follower knows, and which changes it was told of.
struct Follower {
    events: Events,
    kinds: Kinds,
    table: Table,
    whole: bool,
    /// Number of the next change.
    next: Option<u64>,
    told: u64,
    lost: u64,
}

impl Follower {
    async fn of(router: &Router) -> Follower {
        let events = router.watch_routes(RouteFilter::default()).await.unwrap();
        let (kinds, table) = (Kinds::default(), Table::new());
        Follower { events, kinds, table, whole: false, next: None, told: 0, lost: 0 }
    }

    /// What is told of begins where the last that was told of ended.
    fn follows(&mut self, first: u64, next: u64) {
        assert!(self.next.is_none_or(|at| at == first), "{:?}, then {first}", self.next);
        assert!(first <= next);
        self.next = Some(next);
    }

    async fn one(&mut self) {
        let event = tokio::time::timeout(PATIENCE, self.events.message()).await.unwrap().unwrap().unwrap();
        match event.what.unwrap() {
            route_event::What::Snapshot(batch) => {
                self.take(RouteUpdate { first: 0, last: 0, batches: vec![batch] });
            }
            route_event::What::Mark(mark) => {
                self.follows(mark.next, mark.next);
                self.whole = true;
            }
            route_event::What::Changes(changes) => {
                self.follows(changes.first, changes.last + 1);
                self.told += changes.last + 1 - changes.first;
                self.take(changes);
            }
            route_event::What::Gap(gap) => {
                self.follows(gap.from, gap.to);
                self.lost += gap.to - gap.from;
                self.table.clear();
                self.whole = false;
            }
        }
    }

    fn take(&mut self, update: RouteUpdate) {
        for mut batch in update.batches {
            prefixes(batch.ipv6, &batch.gone).for_each(|p| _ = self.table.remove(&p));
            for route in self.kinds.read(&mut batch) {
                self.table
                    .insert(route.prefix, format!("{:?} {:?}", route.kind.source, route.kind.next_hops));
            }
        }
    }

    async fn until(&mut self, done: impl Fn(&Follower) -> bool) {
        while !done(self) {
            self.one().await;
        }
    }

    /// Reads up to the change of this number, without that.
    async fn to(&mut self, end: u64) {
        self.until(|f| f.whole && f.next == Some(end)).await;
    }
}

async fn send(program: &mut Program, of: Range<u32>, set: Option<u32>) {
    let mut changes =
        RouteChanges { delete: set.is_none(), sets: set.into_iter().collect(), ..RouteChanges::default() };
    of.for_each(|n| push(&mut changes.prefixes, net(n)));
    program.change(changes).await.unwrap();
}

/// Makes so many rounds of changes, and some more.
async fn change(router: &Router, rounds: u32) {
    let hello = RouteHello { name: "many".into(), ..RouteHello::default() };
    let mut program = router.program(hello).await.unwrap();
    let hop =
        NextHop { address: vec![10, 255, 0, 9], interface: "loop0".into(), weight: 1, ..NextHop::default() };
    let sets = vec![
        NextHopSet { number: 1, action: 0, next_hops: vec![hop] },
        NextHopSet { number: 2, action: RouteAction::Drop.into(), next_hops: vec![] },
    ];
    program.next_hops(sets).await.unwrap();
    for _ in 0..rounds {
        send(&mut program, 0..ROUTES, Some(1)).await;
        send(&mut program, 0..ROUTES, Some(2)).await;
    }
    send(&mut program, 0..ROUTES / 2, None).await;
    program.flush().await.unwrap();
    assert_eq!(program.errors(), (0, vec![]));
}

#[test]
fn three_followers_know_what_the_router_has_and_what_they_have_missed() {
    let count = std::env::var("QUIVER_STREAM").ok().map_or(CHANGES, |n| n.parse().unwrap());
    let started = Started::start("stream", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = started.connect().await;
        let mut quick = Follower::of(&router).await;
        let narrow = started.connect_narrow().await;
        let mut slow = Follower::of(&narrow).await;
        let mut leaving = Follower::of(&started.connect().await).await;
        let again = started.connect().await;
        for follower in [&mut quick, &mut slow, &mut leaving] {
            follower.until(|f| f.whole).await;
        }
        let rounds = count.div_ceil(2 * ROUTES);
        let made = u64::from(rounds) * u64::from(2 * ROUTES) + u64::from(ROUTES / 2);
        let end = quick.next.unwrap() + made;
        let quick = tokio::spawn(async move {
            quick.to(end).await;
            quick
        });
        let go = Arc::new(Notify::new());
        let may = Arc::clone(&go);
        let slow = tokio::spawn(async move {
            may.notified().await;
            slow.to(end).await;
            slow
        });
        let leaving = tokio::spawn(async move {
            leaving.until(|f| f.told + f.lost > made / 3).await;
            drop(leaving);
            let mut back = Follower::of(&again).await;
            back.to(end).await;
            back
        });
        change(&router, rounds).await;
        go.notify_one();
        let (quick, slow, back) = (quick.await.unwrap(), slow.await.unwrap(), leaving.await.unwrap());
        // Each change has a number, and is told of or told to be lost.
        assert_eq!(quick.told + quick.lost, made);
        assert_eq!(slow.told + slow.lost, made);
        assert!(slow.lost > 0, "{made} changes fit somewhere");
        println!("{made} changes: lost {} of one, {} of another", quick.lost, slow.lost);
        let mut is = Table::new();
        let mut listed = router.routes(RouteFilter::default()).await.unwrap();
        while let Some(route) = listed.next().await {
            let route = route.unwrap();
            is.insert(route.prefix, format!("{:?} {:?}", route.kind.source, route.kind.next_hops));
        }
        assert!(
            is.len() > (ROUTES / 2) as usize
                && !is.contains_key(&net(0))
                && is.contains_key(&net(ROUTES - 1))
        );
        for follower in [quick, slow, back] {
            assert!(follower.table == is, "{} routes, not {}", follower.table.len(), is.len());
        }
    });
}
