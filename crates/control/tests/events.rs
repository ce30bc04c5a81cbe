//! Following what happens: in order, bounded, and with a gap that says exactly what is lost.
#![allow(clippy::unwrap_used, clippy::panic)]

use control::events::{
    Change, Configured, Counts, Event, Events, Following, Kind, Level, Line, Phase, Told, Wanted, What,
};
use control::saved::Author;
use graph::{PoolConfig, PoolMemory};
use net::router::{Op, Router, RouterConfig};
use packet::eth::MacAddr;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type Shared = Rc<RefCell<Router>>;

const PATIENCE: Duration = Duration::from_secs(60);

fn run(test: impl AsyncFnOnce(Shared, Events)) {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let router = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let router = Rc::new(RefCell::new(router));
    let up = vec![
        Op::CreateLoopback { instance: Some(0), mac: None },
        Op::SetState { name: "loop0".into(), up: true },
        Op::AddAddress { name: "loop0".into(), net: "10.0.0.1/8".parse().unwrap() },
    ];
    router.borrow_mut().commit(up).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, test(Rc::clone(&router), Events::default()));
    router.borrow_mut().shutdown();
}

fn neighbors(router: &Shared, of: std::ops::Range<u32>, last: u8) {
    let set = |n: u32| Op::SetNeighbor {
        name: "loop0".into(),
        address: std::net::Ipv4Addr::from(0x0a01_0000 + n).into(),
        mac: MacAddr([2, 0, 0, 0, 0, last]),
    };
    router.borrow_mut().commit(of.map(set).collect()).unwrap();
}

async fn next(following: &Following) -> Told {
    tokio::time::timeout(PATIENCE, following.next()).await.unwrap()
}

async fn event(following: &Following) -> Arc<Event> {
    match next(following).await {
        Told::Event(event) => event,
        Told::Gap(lost) => panic!("{lost:?}"),
    }
}

/// Reads to the end of a snapshot; how many pieces of it there are.
async fn whole(following: &Following, kind: Kind) -> usize {
    let mut count = 0;
    loop {
        match &event(following).await.what {
            What::SnapshotEnd(k) if *k == kind => return count,
            What::Link(l) if kind == Kind::Link && l.change == Change::There => count += 1,
            What::Neighbor(n) if kind == Kind::Neighbor && n.change == Change::There => count += 1,
            _ => {}
        }
    }
}

fn counts(of: &[(Kind, u64)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(kind, n)| counts[*kind as usize] = *n);
    counts
}

#[test]
fn what_does_not_fit_is_counted_and_told_anew() {
    run(async |router, events| {
        let wanted = Wanted::new([Kind::Link, Kind::Neighbor, Kind::Log]);
        let following = events.follow(&router, wanted).unwrap();
        assert_eq!((whole(&following, Kind::Link).await, whole(&following, Kind::Neighbor).await), (2, 0));
        // 4096 fit: of the others each kind is counted.
        neighbors(&router, 0..4000, 1);
        (0..100).for_each(|n| events.tell_line(Level::Info, &format!("part: line {n}")));
        neighbors(&router, 0..1000, 2);
        let mut view: BTreeMap<std::net::IpAddr, u8> = BTreeMap::new();
        let (mut lines, mut fit) = (0, 0);
        let lost = loop {
            match next(&following).await {
                Told::Gap(lost) => break lost,
                Told::Event(event) => {
                    fit += 1;
                    match &event.what {
                        What::Neighbor(n) => _ = view.insert(n.address, n.mac.0[5]),
                        What::Log(_) => lines += 1,
                        other => panic!("{other:?}"),
                    }
                }
            }
        };
        assert_eq!((fit, lines, view.len()), (4096, 96, 4000));
        assert_eq!(lost, counts(&[(Kind::Log, 4), (Kind::Neighbor, 1000)]));
        // Neighbours come anew, and links, of which none is lost, do not.
        view.clear();
        loop {
            match &event(&following).await.what {
                What::Neighbor(n) => _ = view.insert(n.address, n.mac.0[5]),
                What::SnapshotEnd(kind) => {
                    assert_eq!(*kind, Kind::Neighbor);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let is: BTreeMap<_, _> = router.borrow().neighbors().map(|n| (n.addr, n.mac.unwrap().0[5])).collect();
        assert_eq!((view.len(), &view), (4000, &is));
        assert_eq!(view.values().filter(|last| **last == 2).count(), 1000);
        // And what happens from here on.
        events.tell_line(Level::Warn, "after");
        let What::Log(line) = event(&following).await.what.clone() else { panic!() };
        assert_eq!(line, Line { level: Level::Warn, part: String::new(), text: "after".into() });
    });
}

#[test]
fn a_snapshot_that_is_lost_in_part_begins_anew() {
    run(async |router, events| {
        neighbors(&router, 0..6000, 1);
        let following = events.follow(&router, Wanted::new([Kind::Neighbor])).unwrap();
        let mut seen = 0;
        while seen < 10 {
            seen += usize::from(matches!(event(&following).await.what, What::Neighbor(_)));
        }
        // More than fits, in the middle of it.
        neighbors(&router, 0..6000, 2);
        let mut gaps = 0;
        let mut view: BTreeMap<std::net::IpAddr, u8> = BTreeMap::new();
        loop {
            match next(&following).await {
                Told::Gap(lost) => {
                    assert!(lost[Kind::Neighbor as usize] > 0);
                    view.clear();
                    gaps += 1;
                }
                Told::Event(event) => match &event.what {
                    What::Neighbor(n) => _ = view.insert(n.address, n.mac.0[5]),
                    What::SnapshotEnd(_) => break,
                    other => panic!("{other:?}"),
                },
            }
        }
        assert_eq!((gaps, view.len()), (1, 6000));
        assert!(view.values().all(|last| *last == 2));
    });
}

#[test]
fn nothing_is_made_for_who_does_not_want_it_and_nothing_kept_for_who_is_gone() {
    run(async |router, events| {
        let made = std::cell::Cell::new(0);
        let tell = |events: &Events| {
            let author = Author::default();
            events.tell(
                Kind::Configuration,
                |_| true,
                || {
                    made.set(made.get() + 1);
                    let text = String::new();
                    What::Configuration(Configured {
                        phase: Phase::Saved,
                        author,
                        number: None,
                        within: None,
                        text,
                    })
                },
            );
        };
        let of_log = events.follow(&router, Wanted::new([Kind::Log])).unwrap();
        tell(&events);
        assert_eq!(made.get(), 0);
        assert!(!router.borrow().is_listened_to());
        let mut two = vec![];
        for _ in 0..2 {
            two.push(events.follow(&router, Wanted::new([Kind::Configuration, Kind::Link])).unwrap());
        }
        tell(&events);
        assert_eq!(made.get(), 1, "once for both");
        assert!(router.borrow().is_listened_to());
        drop(two);
        let until = std::time::Instant::now() + PATIENCE;
        while router.borrow().is_listened_to() {
            assert!(std::time::Instant::now() < until);
            tokio::task::yield_now().await;
        }
        tell(&events);
        assert_eq!(made.get(), 1);
        assert!(events.wants(Kind::Log));
        drop(of_log);
        assert!(!events.wants(Kind::Log));
    });
}
