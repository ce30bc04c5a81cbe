//! Events over the API, with the binary: what happens is told in order, what is lost is told of, and what is told makes a view that is
//! the router's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use quiver_client::v1::{
    ConfigurationPhase, DropsEvent, Event, EventChange, EventKind, LogLevel, RouteFilter, WatchEventsRequest,
    event,
};
use quiver_client::{Apply, EventView, Happenings, Router};
use started::{PATIENCE, Started};

/// Stations may be behind the loopback.
const BRIDGED: &str = "bridgedomains: {bd1: {bvi: loop0}}\n";

fn run(name: &str, more: &str, test: impl AsyncFnOnce(&mut Started, Router)) {
    started::run(Started::start(name, more), test);
}

fn of(kinds: &[EventKind]) -> WatchEventsRequest {
    let kinds = kinds.iter().map(|k| i32::from(*k)).collect();
    WatchEventsRequest { kinds, ..WatchEventsRequest::default() }
}

/// Events with what was told of links and neighbours, whose numbers are checked.
struct Told {
    events: Happenings,
    view: EventView,
    next: u64,
    gaps: u64,
}

impl Told {
    async fn of(router: &Router, wanted: WatchEventsRequest) -> Told {
        Told { events: router.events(wanted).await.unwrap(), view: EventView::default(), next: 1, gaps: 0 }
    }

    async fn next(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.message()).await.unwrap().unwrap().unwrap();
        assert_eq!(event.number, self.next);
        self.next += 1;
        if let Some(event::What::Gap(gap)) = &event.what {
            self.next += gap.lost.iter().map(|l| l.count).sum::<u64>();
            self.gaps += 1;
        }
        self.view.apply(&event);
        event
    }

    /// The next event of which something can be made.
    async fn find<T>(&mut self, read: impl Fn(event::What) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.next().await.what.and_then(&read) {
                return found;
            }
        }
    }

    async fn whole(&mut self, kind: EventKind) {
        while !self.view.is_whole(kind) {
            self.next().await;
        }
    }
}

#[test]
fn links_are_told_as_they_are_and_as_they_change() {
    run("links", "", async |router, client| {
        let mut told = Told::of(&client, of(&[EventKind::Link])).await;
        told.whole(EventKind::Link).await;
        let names: Vec<&str> = told.view.links.values().map(|l| l.interface.as_str()).collect();
        assert_eq!(names, ["local0", "loop0"]);
        assert!(told.view.links.values().all(|l| l.change() == EventChange::There));
        router.ctl(&["create loopback interface instance 7"]);
        router.ctl(&["set interface state loop7 up"]);
        router.ctl(&["set interface mtu 1400 loop7"]);
        router.ctl(&["set interface mac address loop7 02:00:00:00:00:77"]);
        // Nothing that is told is changed by these.
        router.ctl(&["set interface ip address loop7 10.9.0.1/24"]);
        router.ctl(&["delete loopback interface loop7"]);
        let mut seen = vec![];
        while seen.last() != Some(&(EventChange::Gone, String::new())) {
            let Some(event::What::Link(link)) = told.next().await.what else { continue };
            assert_eq!(link.interface, "loop7");
            seen.push((link.change(), link.changed.join(" ")));
        }
        let changed = |what: &str| (EventChange::Changed, what.to_owned());
        assert_eq!(seen[0], (EventChange::Came, String::new()));
        assert!(seen[1].1.contains("admin_up"), "{seen:?}");
        let at =
            |what: &str| seen.iter().position(|s| *s == changed(what)).unwrap_or_else(|| panic!("{seen:?}"));
        assert!(at("mtu") < at("mac"));
        assert_eq!(told.view.links.len(), 2);
        // Of others nothing is told.
        let wanted = WatchEventsRequest { interfaces: vec!["loop1*".into()], ..of(&[EventKind::Link]) };
        let mut told = Told::of(&client, wanted).await;
        router.ctl(&["set interface mtu 1300 loop0"]);
        router.ctl(&["create loopback interface instance 12"]);
        told.whole(EventKind::Link).await;
        while told.view.links.is_empty() {
            told.next().await;
        }
        assert!(told.view.links.values().all(|l| l.interface == "loop12"));
    });
}

#[test]
fn neighbors_are_told_as_they_are_and_as_they_change() {
    run("neighbors", BRIDGED, async |router, client| {
        router.ctl(&["set ip neighbor loop0 10.255.0.9 02:00:00:00:00:09"]);
        let mut told = Told::of(&client, of(&[EventKind::Neighbor])).await;
        told.whole(EventKind::Neighbor).await;
        assert_eq!(told.view.neighbors.len(), 1);
        router.ctl(&["set ip neighbor loop0 10.255.0.8 02:00:00:00:00:08"]);
        router.ctl(&["set ip neighbor loop0 10.255.0.8 02:00:00:00:00:18"]);
        router.ctl(&["ip neighbor del loop0 10.255.0.8"]);
        let mut seen = vec![];
        for _ in 0..3 {
            let Some(event::What::Neighbor(n)) = told.next().await.what else { panic!() };
            assert!(n.r#static && n.interface == "loop0" && n.address == [10, 255, 0, 8], "{n:?}");
            seen.push((n.change(), n.mac[5], n.mac_before.last().copied()));
        }
        let want = [
            (EventChange::Came, 0x08, None),
            (EventChange::Changed, 0x18, Some(0x08)),
            (EventChange::Gone, 0x18, None),
        ];
        assert_eq!(seen, want);
    });
}

#[test]
fn changes_of_the_configuration_and_lines_of_the_log_are_told_with_their_author() {
    run("configuration", "", async |router, client| {
        let mut told = Told::of(&client, of(&[EventKind::Configuration, EventKind::Log])).await;
        let wanted = WatchEventsRequest { log_level: LogLevel::Warn.into(), ..of(&[EventKind::Log]) };
        let mut warned = Told::of(&client, wanted).await;
        let document = client.dump().await.unwrap();
        let changed = |mtu: u32| document.replace("loop0:", &format!("loop0:\n    mtu: {mtu}"));
        let apply = |mtu, confirm_seconds| {
            let (client, document) = (client.clone(), changed(mtu));
            let how = Apply { confirm_seconds, comment: format!("mtu {mtu}"), ..Apply::default() };
            async move { client.apply(&document, how).await.unwrap().number }
        };
        let mut numbers = vec![apply(1400, 0).await];
        apply(1401, 600).await;
        numbers.push(client.confirm().await.unwrap().unwrap());
        apply(1402, 600).await;
        client.roll_back(None, Apply::default()).await.unwrap();
        router.ctl(&["set interface mtu 1403 loop0"]);
        numbers.push(client.save("mine").await.unwrap().number);
        client.roll_back(Some(numbers[0]), Apply::default()).await.unwrap();
        use ConfigurationPhase::{Applied, Began, Confirmed, RolledBack, Saved, WentBack};
        let (mut phases, mut lines) = (vec![], vec![]);
        while phases.last().is_none_or(|(phase, _)| *phase != RolledBack) || lines.len() < phases.len() {
            match told.next().await.what.unwrap() {
                event::What::Configuration(c) => {
                    assert_eq!(c.user, rustix::process::geteuid().as_raw());
                    assert!(!c.from.is_empty(), "{c:?}");
                    assert_eq!(c.confirm_seconds, if c.phase() == Began { 600 } else { 0 });
                    phases.push((c.phase(), c.number));
                }
                event::What::Log(l) if l.part == "configuration" => lines.push(l.text),
                event::What::Log(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let order = [Applied, Began, Confirmed, Began, WentBack, Saved, RolledBack];
        assert_eq!(phases.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), order);
        assert_eq!([phases[0].1, phases[2].1, phases[5].1], numbers[..]);
        assert_eq!((phases[1].1, phases[3].1), (0, 0));
        assert!(lines[0].contains("mtu 1400"), "{lines:?}");
        // Who asks for warnings gets the one line that is one.
        let line = warned.find(|w| if let event::What::Log(l) = w { Some(l) } else { None }).await;
        assert_eq!(line.level(), LogLevel::Warn);
        assert!(line.text.contains("went back"), "{line:?}");
    });
}

#[test]
fn drops_above_a_rate_are_told_by_node_reason_and_interface() {
    let generator = "packet-generator:\n  - {name: s1, interface: loop0, rate: 2000, state: enabled, layers: [{ethernet: {type: 0x9999}}, {payload: zero}]}\n";
    run("drops", generator, async |_, client| {
        let drops = |w| if let event::What::Drops(d) = w { Some(d) } else { None };
        let mut told =
            Told::of(&client, WatchEventsRequest { drops_per_second: 100, ..of(&[EventKind::Drops]) }).await;
        let (mut all, mut one): (Option<DropsEvent>, Option<DropsEvent>) = (None, None);
        while all.is_none() || one.is_none() {
            let found = told.find(drops).await;
            assert!(found.packets_per_second >= 100.0 && !found.reason.is_empty() && !found.node.is_empty());
            if found.interface.is_empty() { all = Some(found) } else { one = Some(found) }
        }
        let (all, one) = (all.unwrap(), one.unwrap());
        assert_eq!((one.interface, one.node, one.reason), ("loop0".into(), all.node, all.reason));
        // Of less than is asked for nothing is told.
        let wanted =
            WatchEventsRequest { drops_per_second: 1_000_000, ..of(&[EventKind::Drops, EventKind::Log]) };
        let mut quiet = Told::of(&client, wanted).await;
        for _ in 0..3 {
            told.find(drops).await;
        }
        client.save("").await.unwrap();
        assert!(
            !quiet.find(|w| if let event::What::Log(l) = w { Some(l) } else { None }).await.text.is_empty()
        );
    });
}

#[test]
fn changes_of_routes_are_told_without_those_that_there_are() {
    run("routes", "", async |router, client| {
        router.ctl(&["ip route add 20.0.1.0/24 via drop"]);
        let routes = RouteFilter { prefix: "20.0.0.0/8".into(), ..RouteFilter::default() };
        let wanted = WatchEventsRequest { routes: Some(routes.clone()), ..of(&[EventKind::Route]) };
        let mut told = Told::of(&client, wanted).await;
        router.ctl(&["ip route add 21.0.1.0/24 via drop"]);
        router.ctl(&["ip route add 20.0.2.0/24 via drop"]);
        router.ctl(&["ip route del 20.0.1.0/24"]);
        let (mut came, mut gone) = (vec![], vec![]);
        while gone.is_empty() {
            let Some(event::What::Routes(update)) = told.next().await.what else { panic!() };
            for batch in update.batches {
                came.extend(quiver_client::prefixes(false, &batch.prefixes).map(|p| p.to_string()));
                gone.extend(quiver_client::prefixes(false, &batch.gone).map(|p| p.to_string()));
            }
        }
        assert_eq!((came, gone), (vec!["20.0.2.0/24".to_owned()], vec!["20.0.1.0/24".to_owned()]));
        // A filter of what is not asked for is a mistake.
        let wrong = WatchEventsRequest { routes: Some(routes), ..of(&[EventKind::Log]) };
        assert!(client.events(wrong).await.unwrap_err().message.contains("routes"));
        let wrong = WatchEventsRequest { kinds: vec![77], ..WatchEventsRequest::default() };
        assert!(client.events(wrong).await.unwrap_err().message.contains("77"));
    });
}

#[test]
fn who_is_slow_is_told_how_much_is_lost_and_has_the_whole_again() {
    run("slow", BRIDGED, async |router, client| {
        let wanted = of(&[EventKind::Link, EventKind::Neighbor]);
        let mut slow = Told::of(&router.connect_narrow().await, wanted.clone()).await;
        let mut quick = Told::of(&client, wanted).await;
        let lines = |last: u8| {
            let set = (0..1000u32).map(|n| {
                format!(
                    "set ip neighbor loop0 10.255.{}.{} 02:00:00:00:00:{last:02x}\n",
                    1 + n / 250,
                    1 + n % 250
                )
            });
            set.collect::<String>()
        };
        // It takes nothing until more has happened than is kept for it anywhere on the way.
        for round in 0..40 {
            client.script(&lines(round)).await.unwrap();
        }
        client.script("create loopback interface instance 9\n").await.unwrap();
        let end = |told: &Told| {
            let last = told.view.neighbors.values().all(|n| n.mac[5] == 39);
            last && told.view.neighbors.len() == 1000 && told.view.links.len() == 3
        };
        while slow.gaps == 0 || !slow.view.is_whole(EventKind::Neighbor) || !end(&slow) {
            slow.next().await;
        }
        while !end(&quick) {
            quick.next().await;
        }
        // Both know the same; how it came to be told may differ.
        let known = |told: &Told| -> Vec<_> {
            told.view.neighbors.iter().map(|(key, n)| (*key, n.mac.clone(), n.r#static)).collect()
        };
        assert_eq!(known(&slow), known(&quick));
    });
}
