//! Routes over the API, with the binary: programmed, read back, followed; clients that die, return, send garbage, or do not read.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use ipnet::IpNet;
use quiver_client::v1::{
    NextHop, NextHopSet, RouteAction, RouteChanges, RouteEvent, RouteFilter, RouteHello, RouteMatch,
    route_event,
};
use quiver_client::{Error, Events, Kinds, Program, Route, Router as Routes, prefixes, push};
use started::{PATIENCE, Started};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn run(name: &str, test: impl AsyncFnOnce(&mut Started, Routes)) {
    started::run(Started::start(name, ""), test);
}

fn net(n: u32) -> IpNet {
    ipnet::Ipv4Net::new((0x1400_0000 + (n << 8)).into(), 24).unwrap().into()
}

fn changes(of: std::ops::Range<u32>, delete: bool) -> RouteChanges {
    let mut changes = RouteChanges { delete, sets: vec![1], ..RouteChanges::default() };
    of.for_each(|n| push(&mut changes.prefixes, net(n)));
    changes
}

fn hello(grace: u32) -> RouteHello {
    RouteHello { name: "fleet".into(), preference: Some(30), grace_seconds: Some(grace) }
}

async fn begin(routes: &Routes, grace: u32) -> Program {
    let mut program = routes.program(hello(grace)).await.unwrap();
    let hop = |address: [u8; 4]| NextHop {
        address: address.to_vec(),
        interface: "loop0".into(),
        weight: 1,
        ..NextHop::default()
    };
    let sets = vec![
        NextHopSet { number: 1, action: 0, next_hops: vec![hop([10, 255, 0, 9])] },
        NextHopSet { number: 2, action: RouteAction::Drop.into(), next_hops: vec![] },
    ];
    program.next_hops(sets).await.unwrap();
    program
}

async fn all(routes: &Routes, filter: RouteFilter) -> Result<Vec<Route>, Error> {
    let mut listed = routes.routes(filter).await?;
    let mut all = vec![];
    while let Some(route) = listed.next().await {
        all.push(route?);
    }
    Ok(all)
}

async fn read(routes: &Routes, source: &str) -> Vec<Route> {
    let filter = RouteFilter { source: source.into(), ..RouteFilter::default() };
    all(routes, filter).await.unwrap()
}

/// Reads until so many routes are there.
async fn until(routes: &Routes, source: &str, count: usize) {
    let end = Instant::now() + PATIENCE;
    loop {
        let has = read(routes, source).await.len();
        if has == count {
            return;
        }
        assert!(Instant::now() < end, "{has} routes, not {count}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn routes_come_go_and_stand_beside_others() {
    run("beside", async |router, routes| {
        let mut program = begin(&routes, 600).await;
        let source = program.welcome.source.clone();
        assert!(source.starts_with("api:fleet@"), "{source}");
        program.change(changes(0..1000, false)).await.unwrap();
        program.change(changes(900..1000, true)).await.unwrap();
        program.flush().await.unwrap();
        assert_eq!(program.errors(), (0, vec![]));
        let found = read(&routes, &source).await;
        assert_eq!(found.iter().map(|r| r.prefix).collect::<Vec<_>>(), (0..900).map(net).collect::<Vec<_>>());
        assert!(found.iter().all(|r| r.used && r.kind.preference == 30 && r.kind.source == source));
        assert_eq!(found[0].kind.next_hops.as_ref().unwrap().next_hops[0].address, [10, 255, 0, 9]);
        assert!(router.ctl(&["fib why 20.0.3.7"]).contains(&source));
        // The operator's comes before it, and then no more.
        router.ctl(&["ip route add 20.0.3.0/24 via drop"]);
        let exact = RouteFilter {
            prefix: "20.0.3.0/24".into(),
            r#match: RouteMatch::Exact.into(),
            ..RouteFilter::default()
        };
        let both = all(&routes, exact.clone()).await.unwrap();
        let who: Vec<(&str, bool)> = both.iter().map(|r| (r.kind.source.as_str(), r.used)).collect();
        assert_eq!(who, [("static", true), (source.as_str(), false)]);
        router.ctl(&["ip route del 20.0.3.0/24"]);
        assert_eq!(all(&routes, exact).await.unwrap().len(), 1);
        // An operator takes all away: the stream ends with that.
        router.ctl(&[&format!("clear route client {source}")]);
        until(&routes, &source, 0).await;
        let refused = async {
            program.change(changes(0..1, false)).await?;
            program.flush().await
        };
        assert!(refused.await.unwrap_err().message.contains("an operator"));
    });
}

#[test]
fn a_client_that_dies_has_its_grace_and_sweeps_when_it_returns() {
    run("grace", async |router, routes| {
        let source = {
            // A connection of its own, which is cut while much is under way.
            let dying = router.connect().await;
            let mut program = begin(&dying, 600).await;
            program.change(changes(0..5000, false)).await.unwrap();
            program.flush().await.unwrap();
            for n in 0..20 {
                program.change(changes(n * 1000..n * 1000 + 50_000, false)).await.unwrap();
            }
            program.welcome.source.clone()
        };
        // What it had sent may still be made.
        let end = Instant::now() + PATIENCE;
        while !router.ctl(&["show route clients --json"]).replace(' ', "").contains("\"streams\":0") {
            assert!(Instant::now() < end, "{}", router.ctl(&["show route clients"]));
            // The connection is closed by this thread, too.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // What it had stays.
        let had = (0..5000).map(net);
        let found: BTreeSet<IpNet> = read(&routes, &source).await.iter().map(|r| r.prefix).collect();
        assert!(had.clone().all(|p| found.contains(&p)));
        let mut program = begin(&routes, 0).await;
        assert!(program.welcome.returned && program.welcome.routes >= 5000, "{:?}", program.welcome);
        program.begin_sync().await.unwrap();
        program.change(changes(0..10, false)).await.unwrap();
        assert!(program.end_sync().await.unwrap() >= 4990);
        let left: Vec<IpNet> = read(&routes, &source).await.iter().map(|r| r.prefix).collect();
        assert_eq!(left, (0..10).map(net).collect::<Vec<_>>());
        // Without grace all goes with the stream.
        drop(program);
        until(&routes, &source, 0).await;
    });
}

/// What a follower knows.
async fn follow(events: &mut Events, kinds: &mut Kinds, view: &mut BTreeSet<IpNet>) -> RouteEvent {
    let event = tokio::time::timeout(PATIENCE, events.message()).await.unwrap().unwrap().unwrap();
    let batches = match event.what.clone().unwrap() {
        route_event::What::Snapshot(b) => vec![b],
        route_event::What::Changes(c) => c.batches,
        route_event::What::Mark(_) => vec![],
        route_event::What::Gap(_) => {
            view.clear();
            vec![]
        }
    };
    for mut batch in batches {
        prefixes(batch.ipv6, &batch.gone).for_each(|p| _ = view.remove(&p));
        view.extend(kinds.read(&mut batch).map(|r| r.prefix));
    }
    event
}

#[test]
fn followers_are_told_all_or_of_their_gap() {
    run("watch", async |_, routes| {
        let mut program = begin(&routes, 0).await;
        let filter = RouteFilter { source: program.welcome.source.clone(), ..RouteFilter::default() };
        program.change(changes(0..3000, false)).await.unwrap();
        program.flush().await.unwrap();
        let (mut events, mut slow) =
            (routes.watch_routes(filter.clone()).await.unwrap(), routes.watch_routes(filter).await.unwrap());
        let (mut kinds, mut view) = (Kinds::default(), BTreeSet::new());
        let mut next = loop {
            if let Some(route_event::What::Mark(m)) = follow(&mut events, &mut kinds, &mut view).await.what {
                break m.next;
            }
        };
        assert_eq!(view.len(), 3000);
        // In order, and none is missing.
        program.change(changes(1000..4000, false)).await.unwrap();
        program.change(changes(0..500, true)).await.unwrap();
        program.flush().await.unwrap();
        while view != (500..4000).map(net).collect() {
            match follow(&mut events, &mut kinds, &mut view).await.what {
                Some(route_event::What::Changes(c)) => {
                    assert_eq!(c.first, next);
                    next = c.last + 1;
                }
                other => panic!("{other:?}"),
            }
        }
        drop(events);
        // One does not read: the router goes on, and tells of what is lost when it reads again.
        for _ in 0..16 {
            program.change(changes(4000..64_000, false)).await.unwrap();
            program.change(changes(4000..64_000, true)).await.unwrap();
        }
        program.flush().await.unwrap();
        let (mut kinds, mut view, mut gap) = (Kinds::default(), BTreeSet::new(), false);
        // What was on its way comes first, perhaps with a gap and a mark of its own.
        let want: BTreeSet<IpNet> = (500..4000).map(net).collect();
        let mut marked = false;
        while !(gap && marked && view == want) {
            match follow(&mut slow, &mut kinds, &mut view).await.what.unwrap() {
                route_event::What::Gap(g) => {
                    assert!(g.from < g.to);
                    (gap, marked) = (true, false);
                }
                route_event::What::Mark(_) => marked = true,
                _ => {}
            }
        }
    });
}

#[test]
fn garbage_is_refused_by_its_place() {
    run("garbage", async |_, routes| {
        let mut program = begin(&routes, 0).await;
        let mut rules = vec![];
        for (bytes, sets) in [
            (vec![24, 20, 0, 0], vec![1]),
            (vec![24, 20, 0, 0, 1], vec![1]),
            (vec![255, 20, 0, 0, 0], vec![1]),
            (vec![24, 20, 0, 0, 0], vec![70_000]),
            (vec![24, 20, 0, 0, 0], vec![1, 1, 1]),
            (vec![0; 5 * 70_000], vec![1]),
        ] {
            let wrong = RouteChanges { prefixes: bytes, sets, ..RouteChanges::default() };
            let id = program.change(wrong).await.unwrap();
            program.flush().await.unwrap();
            let (refused, errors) = program.errors();
            assert!(refused > 0 || errors[0].index.is_none());
            assert_eq!(errors[0].id, id);
            rules.push(errors[0].rule.clone());
        }
        let want = ["prefix-bytes", "host-bits", "prefix-length", "set-unknown", "set-count", "route-count"];
        assert_eq!(rules, want);
        // More than a message may have ends the stream, and nobody else's.
        let huge = RouteChanges { prefixes: vec![0; 8 << 20], sets: vec![1], ..RouteChanges::default() };
        let ended: Result<(), Error> = async {
            program.change(huge).await?;
            program.flush().await
        }
        .await;
        assert!(ended.is_err());
        let none = RouteHello { name: "not a name".into(), ..RouteHello::default() };
        assert!(routes.program(none).await.unwrap_err().message.contains("cannot be called"));
        let filter = RouteFilter { prefix: "10.0.0.1/8".into(), ..RouteFilter::default() };
        assert!(routes.route_batches(filter).await.unwrap_err().message.contains("10.0.0.0/8"));
        let mut again = begin(&routes, 0).await;
        again.change(changes(0..2, false)).await.unwrap();
        again.flush().await.unwrap();
        assert_eq!(again.errors().0, 0);
    });
}
