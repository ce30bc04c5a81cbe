//! Clients' routes against a naive model: random changes, wrong ones among them, streams that end, marks and sweeps. What the
//! table has, what is read back and what a follower has been told must be what the model says.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use control::clients::{
    self, Batch, Clients, Event, Filter, Goal, Hello, Kind, Lister, Match, NextHop, Outcome, Page, Program,
    Watch,
};
use graph::{PoolConfig, PoolMemory};
use ipnet::IpNet;
use net::router::{Op, RouteBatch, RouteTable, Router, RouterConfig, Target};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;

type SharedRouter = Rc<RefCell<Router>>;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn router() -> SharedRouter {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    r.commit(vec![
        Op::CreateLoopback { instance: Some(0), mac: None },
        Op::SetState { name: "loop0".into(), up: true },
        Op::AddAddress { name: "loop0".into(), net: net("10.0.0.1/24") },
        Op::CreateTable { table: RouteTable { v6: false, id: 7 }, name: None },
    ])
    .unwrap();
    Rc::new(RefCell::new(r))
}

fn on_control_thread<T>(what: impl AsyncFnOnce(SharedRouter, Rc<Clients>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (router, clients) = (router(), Rc::new(Clients::default()));
    let local = LocalSet::new();
    let (r, c) = (Rc::clone(&router), Rc::clone(&clients));
    let done = runtime.block_on(local.run_until(async move {
        let (kept, keeper) = (Rc::clone(&r), Rc::clone(&c));
        tokio::task::spawn_local(async move { keeper.keep(&kept, &|_| {}).await });
        what(r, c).await
    }));
    router.borrow_mut().shutdown();
    done
}

fn hop(address: &str) -> NextHop {
    NextHop {
        address: Some(address.parse().unwrap()),
        interface: Some("loop0".into()),
        weight: 1,
        ..NextHop::default()
    }
}

fn goals() -> Vec<Goal> {
    vec![
        Goal::Forward(vec![hop("10.0.0.9")]),
        Goal::Forward(vec![hop("10.0.0.9"), NextHop { weight: 3, ..hop("10.0.0.8") }]),
        Goal::Drop,
        Goal::Forward(vec![NextHop { labels: vec![100, 200], ..hop("10.0.0.7") }]),
        // No such interface: refused each time.
        Goal::Forward(vec![NextHop { interface: Some("loop9".into()), ..hop("10.0.0.7") }]),
        // Refused by the router, as it is its own address.
        Goal::Forward(vec![hop("10.0.0.1")]),
    ]
}
const NAMELESS: usize = 4;
const OWN: usize = 5;
/// Of this set nothing is said.
const UNSAID: usize = 6;

fn prefixes() -> Vec<IpNet> {
    [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.2/32",
        "10.9.0.0/16",
        "2001:db8::/32",
        "2001:db8::1/128",
    ]
    .map(net)
    .to_vec()
}

const CLIENTS: [(&str, u8); 2] = [("fleet", 30), ("injector", 40)];

#[derive(Clone, Debug)]
enum Step {
    Send { client: usize, table: bool, v6: bool, delete: bool, metric: u32, lines: Vec<(usize, usize, bool)> },
    Static { prefix: usize, on: bool },
    Leave { client: usize, grace: bool },
    Mark { client: usize },
    Sweep { client: usize },
    Clear { client: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let lines = prop::collection::vec((0..7usize, 0..7usize, prop::bool::weighted(0.1)), 1..12);
    prop_oneof![
        6 => (0..2usize, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.3), 0..2u32, lines)
            .prop_map(|(client, table, v6, delete, metric, lines)| Step::Send { client, table, v6, delete, metric, lines }),
        1 => (0..5usize, any::<bool>()).prop_map(|(prefix, on)| Step::Static { prefix, on }),
        1 => (0..2usize, any::<bool>()).prop_map(|(client, grace)| Step::Leave { client, grace }),
        1 => (0..2usize).prop_map(|client| Step::Mark { client }),
        1 => (0..2usize).prop_map(|client| Step::Sweep { client }),
        1 => (0..2usize).prop_map(|client| Step::Clear { client }),
    ]
}

/// Table, prefix, source, metric.
type Key = (u32, IpNet, String, u32);

#[derive(Default)]
struct Model {
    routes: BTreeMap<Key, (u8, Goal)>,
    stale: BTreeSet<Key>,
    marked: [bool; 2],
    open: [Option<Program>; 2],
    next: u64,
}

fn source(client: usize) -> String {
    format!("api:{}@tester", CLIENTS[client].0)
}

async fn open(router: &SharedRouter, clients: &Rc<Clients>, client: usize, grace: u64) -> Program {
    let (name, preference) = CLIENTS[client];
    let grace = Some(Duration::from_secs(grace));
    let hello = Hello { name: name.into(), preference: Some(preference), grace };
    let (mut program, _) = Program::begin(router, clients, &hello, "tester").await.unwrap();
    for (number, goal) in goals().into_iter().enumerate() {
        program.define(number as u32, goal).unwrap();
    }
    program
}

/// Waits until what is asked for is so.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not come about");
}

async fn wait_gone(router: &SharedRouter, clients: &Rc<Clients>, name: &str) {
    until(|| !clients.list(&router.borrow()).iter().any(|c| c.source == name)).await;
}

impl Model {
    fn forget(&mut self, client: usize) {
        let name = source(client);
        self.routes.retain(|k, _| k.2 != name);
        self.stale.retain(|k| k.2 != name);
        self.marked[client] = false;
        self.open[client] = None;
    }

    async fn program(&mut self, router: &SharedRouter, clients: &Rc<Clients>, client: usize) -> &mut Program {
        if self.open[client].is_none() {
            self.open[client] = Some(open(router, clients, client, 3600).await);
        }
        self.open[client].as_mut().unwrap()
    }

    async fn step(&mut self, router: &SharedRouter, clients: &Rc<Clients>, step: Step) {
        match step {
            Step::Send { client, table, v6, delete, metric, lines } => {
                let all: Vec<IpNet> = prefixes().into_iter().filter(|p| p.addr().is_ipv6() == v6).collect();
                // IPv6 has no table 7.
                let table = if table { 7 } else { 0 };
                let (mut batch, mut wrong) =
                    (Batch { table, v6, delete, metric, ..Batch::default() }, BTreeSet::new());
                let (mut now, mut stale) = (self.routes.clone(), self.stale.clone());
                for (at, (prefix, set, bent)) in lines.into_iter().enumerate() {
                    let prefix = all[prefix % all.len()];
                    clients::push(&mut batch.prefixes, prefix);
                    batch.sets.push(set as u32);
                    // 129 and more bits are none of any family.
                    if bent {
                        let width = clients::width(v6);
                        batch.prefixes[at * width] = 200;
                    }
                    // IPv4 next hops of IPv6 routes need labels.
                    let bad_set = !delete && (matches!(set, NAMELESS | OWN | UNSAID) || v6 && set < 2);
                    if bent || bad_set {
                        wrong.insert(at as u32);
                        continue;
                    }
                    let key = (table, prefix, source(client), metric);
                    stale.remove(&key);
                    if delete {
                        now.remove(&key);
                    } else {
                        now.insert(key, (CLIENTS[client].1, goals()[set].clone()));
                    }
                }
                self.next += 1;
                let id = self.next;
                batch.id = id;
                let program = self.program(router, clients, client).await;
                let out = program.program(&[batch]).await.unwrap();
                assert_eq!(out.done, id);
                if table == 7 && v6 {
                    assert_eq!(
                        (out.errors.len(), out.errors[0].rule, out.errors[0].index),
                        (1, "table", None)
                    );
                    return;
                }
                let refused: BTreeSet<u32> = out.errors.iter().map(|e| e.index.unwrap()).collect();
                assert_eq!(refused, wrong, "{:?}", out.errors);
                assert_eq!(out.refused, wrong.len() as u64);
                (self.routes, self.stale) = (now, stale);
            }
            Step::Static { prefix, on } => {
                let prefix = prefixes()[prefix];
                let key = (0, prefix, "static".to_owned(), 0);
                let mut batch = RouteBatch::new();
                if on {
                    let target = batch.target(Target::Drop);
                    batch.set(prefix, target);
                    self.routes.insert(key, (1, Goal::Drop));
                } else if self.routes.remove(&key).is_some() {
                    batch.del(prefix);
                }
                router.borrow_mut().commit(vec![Op::Routes(batch)]).unwrap();
            }
            Step::Leave { client, grace } => {
                let Some(program) = self.open[client].take() else { return };
                self.marked[client] = false;
                drop(program);
                if !grace {
                    // It returns once more, and leaves for good.
                    drop(open(router, clients, client, 0).await);
                    wait_gone(router, clients, &source(client)).await;
                    self.forget(client);
                }
            }
            Step::Mark { client } => {
                self.program(router, clients, client).await.mark().unwrap();
                let name = source(client);
                self.marked[client] = true;
                self.stale = std::mem::take(&mut self.stale)
                    .into_iter()
                    .chain(self.routes.keys().filter(|k| k.2 == name).cloned())
                    .collect();
            }
            Step::Sweep { client } => {
                let marked = self.marked[client];
                let name = source(client);
                let swept = self.program(router, clients, client).await.sweep().await;
                assert_eq!(swept.is_ok(), marked);
                if !marked {
                    return;
                }
                let gone: BTreeSet<Key> = self.stale.iter().filter(|k| k.2 == name).cloned().collect();
                assert_eq!(swept, Ok(gone.len() as u64));
                self.routes.retain(|k, _| !gone.contains(k));
                self.stale.retain(|k| k.2 != name);
                self.marked[client] = false;
            }
            Step::Clear { client } => {
                let name = source(client);
                let known = clients.list(&router.borrow()).iter().any(|c| c.source == name);
                assert_eq!(clients.clear(&name), known);
                if let Some(mut program) = self.open[client].take() {
                    let batch = Batch {
                        id: u64::MAX,
                        sets: vec![2],
                        prefixes: vec![8, 10, 0, 0, 0],
                        ..Batch::default()
                    };
                    let refused = program.program(&[batch]).await;
                    assert!(refused.unwrap_err().message.contains("an operator"));
                }
                wait_gone(router, clients, &name).await;
                self.forget(client);
            }
        }
    }

    /// What the routes of prefixes are to be, the one in use first; without those of the router itself.
    fn view(&self, table: u32) -> View {
        let mut view: BTreeMap<IpNet, Vec<(u8, u32, String, Goal)>> = BTreeMap::new();
        for ((t, prefix, source, metric), (preference, goal)) in &self.routes {
            if *t == table {
                view.entry(*prefix).or_default().push((*preference, *metric, source.clone(), goal.clone()));
            }
        }
        view.values_mut().for_each(|list| list.sort_by_key(|r| (r.0, r.1)));
        view
    }
}

type View = BTreeMap<IpNet, Vec<(u8, u32, String, Goal)>>;

/// What a reader makes of pages.
#[derive(Default)]
struct Reader {
    kinds: BTreeMap<u32, Kind>,
    view: View,
}

fn unpack(v6: bool, bytes: &[u8]) -> Vec<IpNet> {
    let one = |b: &[u8]| match v6 {
        true => IpNet::new(<[u8; 16]>::try_from(&b[1..]).unwrap().into(), b[0]).unwrap(),
        false => IpNet::new(<[u8; 4]>::try_from(&b[1..]).unwrap().into(), b[0]).unwrap(),
    };
    bytes.chunks(clients::width(v6)).map(one).collect()
}

impl Reader {
    fn take(&mut self, page: Page) {
        if page.forget {
            self.kinds.clear();
        }
        self.kinds.extend(page.kinds.into_iter().map(|k| (k.number, k)));
        let prefixes = unpack(page.v6, &page.prefixes);
        for p in prefixes.iter().chain(&unpack(page.v6, &page.gone)) {
            self.view.remove(p);
        }
        assert_eq!(prefixes.len(), page.of.len());
        let mut last = None;
        for (at, (p, kind)) in prefixes.into_iter().zip(page.of).enumerate() {
            // Told twice on one page, as it changed twice: both tell the same.
            if last != Some(p) && self.view.remove(&p).is_some() {
                last = None;
            }
            let k = &self.kinds[&kind];
            let route = (k.preference, k.metric, k.source.clone(), k.goal.clone());
            let list = self.view.entry(p).or_default();
            if list.contains(&route) {
                continue;
            }
            assert_eq!(list.is_empty(), !page.unused.contains(&(at as u32)), "{p}");
            list.push(route);
            last = Some(p);
        }
    }

    /// Without the router's own.
    fn of_programs(mut self) -> View {
        let own = ["interface", "neighbor"];
        self.view.values_mut().for_each(|list| list.retain(|r| !own.contains(&r.2.as_str())));
        self.view.retain(|_, list| !list.is_empty());
        self.view
    }
}

/// The next page, while others have their turn.
async fn next_page(lister: &mut Lister, router: &SharedRouter) -> Option<Page> {
    let page = lister.next(&router.borrow());
    tokio::task::yield_now().await;
    page
}

async fn read(router: &SharedRouter, filter: Filter) -> Reader {
    let (mut reader, mut lister) = (Reader::default(), Lister::new(filter));
    while let Some(page) = next_page(&mut lister, router).await {
        reader.take(page);
    }
    assert!(lister.is_at_end(), "nothing comes behind the last page");
    reader
}

/// All that a follower is told until nothing is left.
async fn catch_up(watch: &mut Watch, reader: &mut Reader) {
    loop {
        let next = tokio::time::timeout(Duration::from_millis(20), watch.next()).await;
        match next {
            Ok(Event::Snapshot(page)) => reader.take(page),
            Ok(Event::Changes { pages, first, last }) => {
                assert!(first <= last);
                pages.into_iter().for_each(|p| reader.take(p));
            }
            Ok(Event::Mark(_)) => {}
            Ok(Event::Gap(_)) => panic!("a gap"),
            Err(_) => return,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn routes_are_what_a_model_says(steps in prop::collection::vec(step(), 1..40)) {
        on_control_thread(async |router, clients| {
            let mut model = Model::default();
            let filter = |table| Filter { table, ..Filter::default() };
            let mut watch = Watch::new(&router, filter(0)).unwrap();
            let mut told = Reader::default();
            for (at, step) in steps.into_iter().enumerate() {
                model.step(&router, &clients, step).await;
                if at % 8 == 0 {
                    catch_up(&mut watch, &mut told).await;
                }
            }
            for table in [0, 7] {
                assert_eq!(read(&router, filter(table)).await.of_programs(), model.view(table));
            }
            catch_up(&mut watch, &mut told).await;
            assert_eq!(told.of_programs(), model.view(0));
            // Of one source, within a prefix, and exactly.
            let name = source(0);
            let mut want = model.view(0);
            want.values_mut().for_each(|l| l.retain(|r| r.2 == name));
            want.retain(|_, l| !l.is_empty());
            let of = |prefix, by| Filter { prefix, by, source: Some(name.clone()), ..Filter::default() };
            let all: BTreeSet<IpNet> = read_prefixes(&router, of(None, Match::Longer)).await;
            prop_assert_eq!(&all, &want.keys().copied().collect());
            let ten = net("10.0.0.0/8");
            let inside = read_prefixes(&router, of(Some(ten), Match::Longer)).await;
            prop_assert_eq!(inside, all.iter().copied().filter(|p| ten.contains(p)).collect());
            let exact = read_prefixes(&router, of(Some(ten), Match::Exact)).await;
            prop_assert_eq!(exact, all.iter().copied().filter(|p| *p == ten).collect());
            let host = net("10.0.0.2/32");
            let longest = read_prefixes(&router, of(Some(host), Match::Longest)).await;
            let best = all.iter().copied().filter(|p| p.contains(&host)).max_by_key(|p| p.prefix_len());
            prop_assert_eq!(longest, best.into_iter().collect());
            Ok(())
        })?;
    }
}

async fn read_prefixes(router: &SharedRouter, filter: Filter) -> BTreeSet<IpNet> {
    let mut lister = Lister::new(filter);
    let mut all = BTreeSet::new();
    while let Some(page) = next_page(&mut lister, router).await {
        all.extend(unpack(page.v6, &page.prefixes));
    }
    all
}

fn many(n: u32) -> Vec<u8> {
    let mut bytes = vec![];
    for i in 0..n {
        clients::push(&mut bytes, ipnet::Ipv4Net::new((0x1400_0000 + (i << 8)).into(), 24).unwrap().into());
    }
    bytes
}

async fn send(program: &mut Program, id: u64, n: u32) -> Outcome {
    let batch = Batch { id, prefixes: many(n), sets: vec![0], ..Batch::default() };
    program.program(&[batch]).await.unwrap()
}

/// The longest stretch between two turns of somebody else while something is done.
async fn longest_wait<T>(work: impl Future<Output = T>) -> (T, Duration, u32) {
    let (mut longest, mut turns, mut last) = (Duration::ZERO, 0, std::time::Instant::now());
    let mut work = std::pin::pin!(work);
    let done = std::future::poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        longest = longest.max(last.elapsed());
        last = std::time::Instant::now();
        turns += 1;
        polled
    })
    .await;
    (done, longest, turns)
}

#[test]
fn large_batches_and_sweeps_give_others_their_turn() {
    on_control_thread(async |router, clients| {
        let mut program = open(&router, &clients, 0, 3600).await;
        let (out, _, turns) = longest_wait(send(&mut program, 1, 60_000)).await;
        assert_eq!((out.done, out.refused), (1, 0));
        assert!(turns >= 60_000 / 8192, "{turns}");
        assert_eq!(router.borrow().route_sources()[0].routes, 60_000);
        program.mark().unwrap();
        let (swept, _, turns) = longest_wait(program.sweep()).await;
        assert_eq!(swept, Ok(60_000));
        assert!(turns >= 60_000 / 8192, "{turns}");
        assert_eq!(router.borrow().route_sources()[0].routes, 0);
    });
}

#[test]
fn a_slow_follower_learns_of_its_gap_and_all_that_there_is() {
    on_control_thread(async |router, clients| {
        let mut program = open(&router, &clients, 0, 3600).await;
        let mut watch = Watch::new(&router, Filter::default()).unwrap();
        let mut told = Reader::default();
        catch_up(&mut watch, &mut told).await;
        // More than is kept.
        for (id, delete) in (1..).zip([false, true].into_iter().cycle().take(11)) {
            let batch = Batch { id, delete, prefixes: many(30_000), sets: vec![0], ..Batch::default() };
            assert_eq!(program.program(&[batch]).await.unwrap().refused, 0);
        }
        let Event::Gap(lost) = watch.next().await else { panic!("no gap") };
        assert_eq!(lost.to - lost.from, 330_000);
        told.view.clear();
        catch_up(&mut watch, &mut told).await;
        assert_eq!(told.of_programs().len(), 30_000);
        // From here on nothing is missing again.
        let batch = Batch { id: 100, delete: true, prefixes: many(10), ..Batch::default() };
        program.program(&[batch]).await.unwrap();
        let Event::Changes { pages, first, last } = watch.next().await else { panic!("no change") };
        assert_eq!((first, last - first + 1), (lost.to, 10));
        assert_eq!(pages[0].gone, many(10));
    });
}

#[test]
fn what_a_filter_has_left_out_is_not_lost() {
    on_control_thread(async |router, clients| {
        let mut program = open(&router, &clients, 0, 3600).await;
        let prefix = Some("192.0.2.0/24".parse().unwrap());
        let mut watch = Watch::new(&router, Filter { prefix, ..Filter::default() }).unwrap();
        let mut told = Reader::default();
        catch_up(&mut watch, &mut told).await;
        let batch = Batch { id: 1, prefixes: many(30_000), sets: vec![0], ..Batch::default() };
        program.program(&[batch]).await.unwrap();
        let seen = router.borrow().next_route_change();
        // They are looked at, and nothing is told.
        for _ in 0..100 {
            tokio::select! {
                biased;
                event = watch.next() => panic!("{event:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        for (id, delete) in (2..).zip([true, false].into_iter().cycle().take(11)) {
            let batch = Batch { id, delete, prefixes: many(30_000), sets: vec![0], ..Batch::default() };
            assert_eq!(program.program(&[batch]).await.unwrap().refused, 0);
        }
        let Event::Gap(lost) = watch.next().await else { panic!("no gap") };
        assert_eq!((lost.from, lost.to), (seen, seen + 330_000));
    });
}

#[test]
fn garbage_is_refused_and_told() {
    on_control_thread(async |router, clients| {
        let mut program = open(&router, &clients, 0, 3600).await;
        let mut id = 0;
        let mut rule = async |batch: Batch| {
            id += 1;
            let out = program.program(&[Batch { id, ..batch }]).await.unwrap();
            let e = out.errors.first().unwrap();
            assert_eq!((e.batch, out.done), (id, id));
            (e.rule, e.index, e.message.clone())
        };
        let four = |bytes: &[u8]| Batch { prefixes: bytes.to_vec(), sets: vec![0], ..Batch::default() };
        let (what, at, why) = rule(four(&[24, 10, 0, 0])).await;
        assert_eq!((what, at), ("prefix-bytes", None));
        assert!(why.contains("each takes 5"), "{why}");
        let (what, at, why) = rule(four(&[24, 10, 0, 0, 0, 24, 10, 0, 0, 1])).await;
        assert_eq!((what, at), ("host-bits", Some(1)));
        assert!(why.contains("the prefix is 10.0.0.0/24"), "{why}");
        let (what, at, _) = rule(four(&[33, 10, 0, 0, 0])).await;
        assert_eq!((what, at), ("prefix-length", Some(0)));
        let six = Batch { v6: true, ..four(&[129, 0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) };
        assert_eq!(rule(six).await.0, "prefix-length");
        assert_eq!(
            rule(Batch { prefixes: many(65_537), sets: vec![0], ..Batch::default() }).await.0,
            "route-count"
        );
        assert_eq!(rule(Batch { sets: vec![0, 0, 0], ..four(&many(2)) }).await.0, "set-count");
        assert_eq!(rule(Batch { sets: vec![u32::MAX], ..four(&many(1)) }).await.0, "set-unknown");
        assert_eq!(rule(Batch { table: 9, ..four(&many(1)) }).await.0, "table");
        assert_eq!(rule(Batch { sets: vec![NAMELESS as u32], ..four(&many(1)) }).await.0, "next-hop");
        let own = rule(Batch { sets: vec![OWN as u32], ..four(&many(1)) }).await;
        assert_eq!((own.0, own.1), ("refused", Some(0)));
        // Of the first wrong one only.
        assert_eq!(
            read_prefixes(&router, Filter { source: Some(source(0)), ..Filter::default() }).await.len(),
            1
        );
        let rules = |number, goal| {
            let mut sets = goals();
            sets.push(goal);
            let goal: Goal = sets.pop().unwrap();
            (number, goal)
        };
        for (want, (number, goal)) in [
            ("set-number", rules(65_536, Goal::Drop)),
            ("set-size", rules(1, Goal::Forward(vec![]))),
            ("set-size", rules(1, Goal::Forward(vec![hop("10.0.0.9"); 70_000]))),
            ("next-hop", rules(1, Goal::Forward(vec![NextHop { weight: 0, ..hop("10.0.0.9") }]))),
            ("next-hop", rules(1, Goal::Forward(vec![NextHop { weight: 1, ..NextHop::default() }]))),
            ("next-hop", rules(1, Goal::Forward(vec![NextHop { labels: vec![1 << 20], ..hop("10.0.0.9") }]))),
            ("next-hop", rules(1, Goal::Local)),
        ] {
            assert_eq!(program.define(number, goal).unwrap_err().rule, want);
        }
        // What the number stood for stays.
        let batch = Batch { id: 1000, prefixes: many(1), sets: vec![1], ..Batch::default() };
        assert_eq!(program.program(std::slice::from_ref(&batch)).await.unwrap().refused, 0);
        assert!(
            program.program(std::slice::from_ref(&batch)).await.unwrap_err().message.contains("numbers rise")
        );
        for name in ["", "a b", "a:b", "a@b", &"x".repeat(25)] {
            let hello = Hello { name: name.into(), preference: None, grace: None };
            assert!(Program::begin(&router, &clients, &hello, "tester").await.is_err(), "{name}");
        }
        let none = Hello { name: "x".into(), preference: Some(255), grace: None };
        assert!(Program::begin(&router, &clients, &none, "tester").await.is_err());
    });
}

#[test]
fn streams_share_a_client_and_one_alone_sends_all_again() {
    on_control_thread(async |router, clients| {
        let mut one = open(&router, &clients, 0, 3600).await;
        let mut two = open(&router, &clients, 0, 3600).await;
        send(&mut one, 1, 4).await;
        one.mark().unwrap();
        assert!(two.mark().unwrap_err().message.contains("another stream"));
        assert!(two.sweep().await.is_err());
        // It goes in the middle: nothing is swept, and another may begin.
        drop(one);
        two.mark().unwrap();
        send(&mut two, 1, 3).await;
        assert_eq!(two.sweep().await, Ok(1));
        let other = Hello { name: CLIENTS[0].0.into(), preference: Some(99), grace: None };
        assert!(Program::begin(&router, &clients, &other, "tester").await.is_err(), "a stream is open");
        drop(two);
        // With another preference all is sent again.
        let (mut three, welcome) = Program::begin(&router, &clients, &other, "tester").await.unwrap();
        assert_eq!((welcome.routes, welcome.returned, welcome.preference), (3, true, 99));
        three.define(0, goals()[0].clone()).unwrap();
        let batch = Batch { id: 1, prefixes: many(2), sets: vec![0], ..Batch::default() };
        assert!(
            three
                .program(std::slice::from_ref(&batch))
                .await
                .unwrap_err()
                .message
                .contains("another preference")
        );
        three.mark().unwrap();
        three.program(&[Batch { id: 2, ..batch }]).await.unwrap();
        assert_eq!(three.sweep().await, Ok(3));
        // Another user's client of the same name is another.
        let (four, welcome) = Program::begin(&router, &clients, &other, "somebody").await.unwrap();
        assert_eq!((welcome.routes, welcome.returned), (0, false));
        drop((three, four));
        assert_eq!(clients.list(&router.borrow()).len(), 2);
    });
}
