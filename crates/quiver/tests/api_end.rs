//! The end of the router, as who has a call under way sees it: in order, with the reason and in time; and all at once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use quiver_client::v1::{
    CaptureRequest, EventKind, ProgramRequest, PuntRequest, ReadCountersRequest, RouteFilter, RouteHello,
    TraceRequest, WatchEventsRequest, WatchRoutesRequest, counters_client::CountersClient, event,
    events_client::EventsClient, packets_client::PacketsClient, program_request, punt_request,
    routes_client::RoutesClient,
};
use quiver_client::{Error, EventView, Router};
use started::{PATIENCE, Started};
use std::time::{Duration, Instant};
use tokio_stream::StreamExt;
use tonic::{Code, Streaming};

/// Why a stream ends.
async fn end<T>(mut stream: Streaming<T>) -> Option<Error> {
    loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.unwrap() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status.into()),
        }
    }
}

/// One stream of each kind, and why it ends.
async fn streams(router: &Router) -> tokio::task::JoinSet<(&'static str, Option<Error>)> {
    let channel = || router.channel();
    let mut all = tokio::task::JoinSet::new();
    let events =
        EventsClient::new(channel()).watch(WatchEventsRequest::default()).await.unwrap().into_inner();
    all.spawn(async { ("events", end(events).await) });
    let routes = RoutesClient::new(channel()).watch(WatchRoutesRequest::default()).await;
    let routes = routes.unwrap().into_inner();
    all.spawn(async { ("routes", end(routes).await) });
    let request = ReadCountersRequest { interval_ms: 100, ..ReadCountersRequest::default() };
    let counters = CountersClient::new(channel()).read(request).await.unwrap().into_inner();
    all.spawn(async { ("counters", end(counters).await) });
    let capture =
        PacketsClient::new(channel()).capture(CaptureRequest::default()).await.unwrap().into_inner();
    all.spawn(async { ("capture", end(capture).await) });
    let request = TraceRequest { nodes: vec!["ip4-input".into()], ..TraceRequest::default() };
    let trace = PacketsClient::new(channel()).trace(request).await.unwrap().into_inner();
    all.spawn(async { ("trace", end(trace).await) });
    let filter =
        punt_request::Filter { what: Some(punt_request::filter::What::UdpPort(7)), ..Default::default() };
    let punt = PacketsClient::new(channel()).punt(PuntRequest { filters: vec![filter] }).await.unwrap();
    all.spawn(async { ("punt", end(punt.into_inner()).await) });
    let mut ping = router.stream("ping 10.255.0.9 repeat 100000").await.unwrap();
    all.spawn(async move {
        loop {
            match ping.next().await {
                Some(Ok(_)) => {}
                other => break ("ping", other.and_then(Result::err)),
            }
        }
    });
    let hello = RouteHello { name: "p".into(), ..RouteHello::default() };
    let hello = ProgramRequest { what: Some(program_request::What::Hello(hello)) };
    // It says no more, and is not at its end.
    let requests = tokio_stream::once(hello).chain(tokio_stream::pending());
    let program = RoutesClient::new(channel()).program(requests).await.unwrap().into_inner();
    all.spawn(async { ("program", end(program).await) });
    all
}

#[test]
fn who_has_a_call_under_way_is_told_that_the_router_ends() {
    started::run(Started::start("ends", ""), async |lab, router| {
        for ten in [20, 21, 22] {
            let route = |n| format!("ip route add {ten}.{}.{}.0/24 via drop\n", n >> 8, n & 255);
            router.script(&(0..25_000).map(route).collect::<String>()).await.unwrap();
        }
        let mut streams = streams(&router).await;
        // One that takes nothing of much holds nobody up.
        let narrow = lab.connect_narrow().await;
        let unread = narrow.watch_routes(RouteFilter::default()).await.unwrap();
        let began = Instant::now();
        let mut process = lab.router.take().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || process.wait().unwrap());
        while let Some(told) = streams.join_next().await {
            let (what, error) = told.unwrap();
            let error = error.unwrap_or_else(|| panic!("{what}: it seems whole"));
            assert_eq!((error.code, &*error.message), (Code::Unavailable, "the router ends"), "{what}");
            assert_eq!(error.infos[0].rule, "ends", "{what}");
        }
        assert!(ended.await.unwrap().success());
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        drop(unread);
        assert!(!lab.file("api").exists());
    });
}

#[test]
fn who_follows_events_comes_back_by_itself() {
    started::run(Started::start("returns", ""), async |lab, router| {
        let wanted = WatchEventsRequest { kinds: vec![EventKind::Link.into()], ..Default::default() };
        let mut events = router.events(wanted).await.unwrap();
        let mut view = EventView::default();
        // Until all is told behind so many gaps of a connection.
        let mut follow = async |view: &mut EventView, gaps: usize| {
            let mut seen = 0;
            while seen < gaps || !view.is_whole(EventKind::Link) {
                let event = tokio::time::timeout(PATIENCE, events.message()).await.unwrap().unwrap().unwrap();
                seen +=
                    usize::from(matches!(&event.what, Some(event::What::Gap(gap)) if gap.lost.is_empty()));
                view.apply(&event);
            }
            view.links.values().map(|l| l.interface.clone()).collect::<Vec<_>>()
        };
        assert_eq!(follow(&mut view, 0).await, ["local0", "loop0"]);
        lab.ctl(&["create loopback interface instance 7"]);
        let options = [lab.file("api"), lab.file("state")];
        let options = ["--api".as_ref(), options[0].as_os_str(), "--state".as_ref(), options[1].as_os_str()];
        for in_order in [false, true] {
            if in_order {
                assert!(lab.end().success());
            } else {
                lab.kill();
            }
            // What was not saved is gone, and so it is from the view.
            lab.run(&lab.document(), &options).unwrap();
            assert_eq!(follow(&mut view, 1).await, ["local0", "loop0"]);
        }
    });
}

#[test]
fn who_has_a_call_under_way_sees_that_the_router_was_killed() {
    started::run(Started::start("killed", ""), async |lab, router| {
        let mut streams = streams(&router).await;
        lab.kill();
        while let Some(told) = streams.join_next().await {
            let (what, error) = told.unwrap();
            let error = error.unwrap_or_else(|| panic!("{what}: it seems whole"));
            // Nobody has said anything.
            assert_eq!((error.code, error.infos.len()), (Code::Unavailable, 0), "{what}: {error}");
        }
        let error = router.command("show version").await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error}");
        println!("{error}");
    });
}
