//! Calls by the names that the cases have for them.

use super::values;
use ipnet::IpNet;
use quiver_client::v1::configuration_client::ConfigurationClient;
use quiver_client::v1::{
    EventKind, HistoryRequest, InjectRequest, NextHop, NextHopSet, RouteAction, RouteFilter, RouteHello,
    TraceRequest, WatchEventsRequest, event,
};
use quiver_client::{Apply, Error, EventView, Follower, Keeper, Passed, Route, Router, Transaction};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;

pub struct Runner {
    router: Router,
    documents: Json,
    /// What steps of a case have kept.
    pub kept: Map<String, Json>,
    keepers: HashMap<String, Keeper>,
    followers: HashMap<String, Follower>,
    hearings: HashMap<String, Hearing>,
}

/// Takes in events beside the cases.
struct Hearing {
    view: Arc<Mutex<Result<EventView, Error>>>,
    task: AbortHandle,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Links and neighbors without how they came to be so.
fn known(mut view: EventView) -> EventView {
    for link in view.links.values_mut() {
        (link.change, link.changed) = (0, vec![]);
    }
    for neighbor in view.neighbors.values_mut() {
        (neighbor.change, neighbor.mac_before) = (0, vec![]);
    }
    view
}

/// The events that a step asks for.
fn wanted(a: &Arguments<'_>) -> WatchEventsRequest {
    let kind = |k: &String| EventKind::from_str_name(&format!("EVENT_KIND_{}", k.to_uppercase()));
    WatchEventsRequest {
        kinds: a.texts("kinds").iter().filter_map(kind).map(i32::from).collect(),
        interfaces: a.texts("interfaces"),
        ..WatchEventsRequest::default()
    }
}

/// The arguments of a call.
struct Arguments<'a>(&'a Json);

impl Arguments<'_> {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0[name].as_array().into_iter().flatten();
        list.filter_map(|t| Some(t.as_str()?.to_owned())).collect()
    }

    fn number(&self, name: &str) -> u32 {
        self.0[name].as_u64().unwrap_or(0).try_into().unwrap()
    }

    fn is(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or(false)
    }

    fn apply(&self) -> Apply {
        Apply {
            confirm_seconds: self.number("confirm_seconds"),
            comment: self.text("comment").into(),
            exact: self.is("exact"),
            restart: self.is("restart"),
            dry_run: self.is("dry_run"),
        }
    }

    fn filter(&self) -> RouteFilter {
        let enumeration = |name: &str, words: &[&str]| {
            let word = self.text(name);
            words.iter().position(|w| *w == word).map_or(0, |n| n as i32 + 1)
        };
        RouteFilter {
            table: self.number("table"),
            family: enumeration("family", &["ipv4", "ipv6"]),
            prefix: self.text("prefix").into(),
            r#match: enumeration("match", &["longer", "exact", "longest"]),
            source: self.text("source").into(),
        }
    }

    /// A list of prefixes, or the first of some that follow one another.
    fn prefixes(&self) -> Vec<IpNet> {
        let of = &self.0["prefixes"];
        let Some(count) = of["count"].as_u64() else {
            return self.texts("prefixes").iter().map(|p| p.parse().unwrap()).collect();
        };
        let first: IpNet = of["first"].as_str().unwrap().parse().unwrap();
        let len = first.prefix_len();
        let address = |n: u64| match first.addr() {
            IpAddr::V4(a) => IpAddr::V4((u32::from(a) + ((n as u32) << (32 - len))).into()),
            IpAddr::V6(a) => IpAddr::V6((u128::from(a) + (u128::from(n) << (128 - len))).into()),
        };
        (0..count).map(|n| IpNet::new(address(n), len).unwrap()).collect()
    }

    fn next_hops(&self) -> NextHopSet {
        let hop = |h: &Json| {
            let h = Arguments(h);
            let address = match h.text("address").parse() {
                Ok(IpAddr::V4(a)) => a.octets().to_vec(),
                Ok(IpAddr::V6(a)) => a.octets().to_vec(),
                Err(_) => vec![],
            };
            let interface = h.text("interface").into();
            NextHop {
                address,
                interface,
                weight: h.number("weight"),
                mtu: h.number("mtu"),
                ..NextHop::default()
            }
        };
        let action = if self.text("action") == "drop" { RouteAction::Drop } else { RouteAction::Forward };
        let next_hops = self.0["next_hops"].as_array().into_iter().flatten().map(hop).collect();
        NextHopSet { number: 0, action: action.into(), next_hops }
    }

    fn injection(&self) -> InjectRequest {
        let bytes = |p: &String| {
            let digits = |n: usize| u8::from_str_radix(&p[n..n + 2], 16).unwrap();
            (0..p.len()).step_by(2).map(digits).collect()
        };
        InjectRequest {
            node: self.text("node").into(),
            rx_interface: self.text("rx_interface").into(),
            tx_interface: self.text("tx_interface").into(),
            packets: self.texts("packets").iter().map(bytes).collect(),
            count: self.number("count"),
        }
    }

    fn transaction(&self, router: &Router) -> Transaction {
        let mut t = router.transaction().comment(self.text("comment")).version(self.text("version"));
        if self.number("confirm_seconds") != 0 {
            t = t.confirm_within(self.number("confirm_seconds"));
        }
        for edit in self.0["edits"].as_array().into_iter().flatten() {
            let e = Arguments(edit);
            t = if edit["set"].is_string() {
                t.set(e.text("set"), &edit["to"])
            } else if edit["merge"].is_string() {
                t.merge(e.text("merge"), &edit["with"])
            } else if edit["delete"].is_string() {
                t.delete(e.text("delete"))
            } else if edit["to"].is_string() {
                t.route(e.text("route").parse().unwrap(), e.number("table"), e.text("to"))
            } else {
                t.delete_route(e.text("route").parse().unwrap(), e.number("table"))
            };
        }
        t
    }
}

impl Runner {
    pub async fn new(socket: &str, documents: Json) -> Runner {
        let router = Router::unix(socket).await.unwrap();
        let (keepers, followers, hearings) = (HashMap::new(), HashMap::new(), HashMap::new());
        Runner { router, documents, kept: Map::new(), keepers, followers, hearings }
    }

    /// Ends what a case has left open.
    pub fn close(&mut self) {
        self.keepers.clear();
        self.followers.clear();
        self.hearings.clear();
    }

    fn document(&self, name: &str) -> String {
        let given = &self.documents[name];
        let mut text = given["of"].as_str().map(|of| self.document(of)).unwrap_or_default();
        for (old, new) in given["swap"].as_object().into_iter().flatten() {
            text = text.replacen(old.as_str(), new.as_str().unwrap(), 1);
        }
        for line in ["lines", "add"].iter().flat_map(|l| given[*l].as_array().into_iter().flatten()) {
            text += line.as_str().unwrap();
            text.push('\n');
        }
        text
    }

    /// Does what a step says.
    pub async fn call(&mut self, step: &Json) -> Result<Json, Error> {
        let a = Arguments(step);
        let mut router = self.router.clone();
        if let Some(seconds) = step["deadline"].as_f64() {
            router = router.within(Duration::from_secs_f64(seconds));
        }
        let on = a.text("on");
        Ok(match a.text("call") {
            "system" => values::system(&router.system().await?),
            "command" => {
                let said = router.command(a.text("line")).await?;
                json!({"text": said.text, "failed": said.failed})
            }
            "commands" => {
                let said = router.script(&a.texts("lines").join("\n")).await?;
                json!({"text": said.text, "failed": said.failed})
            }
            "json" => {
                let said = router.command_json(a.text("line")).await?.text;
                if said.trim().is_empty() { Json::Null } else { serde_json::from_str(&said).unwrap() }
            }
            "complete" => {
                let line = a.text("line");
                let c = router.complete(line, line.len() as u32).await?;
                let one = |c: &quiver_client::v1::complete_response::Candidate| json!({"text": c.text, "help": c.help});
                let candidates: Json = c.candidates.iter().map(one).collect();
                json!({"start": c.start, "candidates": candidates, "path": c.path})
            }
            "help" => router.help(a.text("line")).await?.into(),
            "list_commands" => router.list_commands().await?.iter().map(values::command).collect(),
            "check" => values::check(&router.check(&self.document(a.text("document"))).await?),
            "diff" => values::diff(&router.diff(&self.document(a.text("document")), a.is("exact")).await?),
            "plan" => values::plan(&router.plan(&self.document(a.text("document")), a.is("exact")).await?),
            "apply" => values::apply(&router.apply(&self.document(a.text("document")), a.apply()).await?),
            "rollback" => values::apply(&router.roll_back(step["number"].as_u64(), a.apply()).await?),
            "confirm" => json!({"number": router.confirm().await?.unwrap_or(0)}),
            "save" => {
                let saved = router.save(a.text("comment")).await?;
                json!({"number": saved.number, "saved": saved.saved})
            }
            "history" => router.history().await?.iter().map(values::entry).collect(),
            "saved" => {
                let number = step["number"].as_u64().unwrap();
                let mut client = ConfigurationClient::new(router.channel());
                let mut pieces = client.history(HistoryRequest { number }).await?.into_inner();
                let (mut entry, mut document) = (Json::Null, String::new());
                while let Some(piece) = pieces.message().await? {
                    document += &piece.document;
                    entry = piece.entries.first().map_or(entry, values::entry);
                }
                entry["document"] = document.into();
                entry
            }
            "dump" => router.dump().await?.into(),
            "get" => {
                let got = router.get(a.text("place")).await?;
                let value: Json = serde_json::from_str(&got.json).unwrap();
                json!({"value": value, "version": got.version})
            }
            "transaction" if a.is("plan") => values::plan(&a.transaction(&router).plan().await?),
            "transaction" => {
                let d = a.transaction(&router).apply().await?;
                json!({
                    "steps": d.steps, "number": d.number, "confirm_seconds": d.confirm_seconds,
                    "restart": d.restart, "text": d.text, "version": d.version,
                })
            }
            "list_counters" => {
                let names = a.texts("names");
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                router.list_counters(&names).await?.iter().map(values::counter).collect()
            }
            name @ ("counters" | "watch_counters") => {
                let names = a.texts("names");
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let reading = |r: &quiver_client::Reading| {
                    let values: Json = r.values.iter().map(values::counted).collect();
                    json!({"time_ns": r.time_ns, "values": values})
                };
                if name == "counters" {
                    reading(&router.counters(&names).await?)
                } else {
                    let every = Duration::from_millis(a.number("interval_ms").into());
                    let mut readings = Box::pin(router.watch_counters(&names, every).await?);
                    let mut some = vec![];
                    while some.len() < a.number("count") as usize {
                        some.push(reading(&readings.next().await.unwrap()?));
                    }
                    some.into()
                }
            }
            "events" if step["as"].is_string() => {
                let mut happenings = self.router.events(wanted(&a)).await?;
                let view = Arc::new(Mutex::new(Ok(EventView::default())));
                let heard = Arc::clone(&view);
                let task = tokio::spawn(async move {
                    loop {
                        let event = happenings.message().await;
                        let mut view = heard.lock().unwrap();
                        match (event, &mut *view) {
                            (Ok(Some(event)), Ok(view)) => view.apply(&event),
                            (Err(e), view) => {
                                *view = Err(e);
                                return;
                            }
                            _ => return,
                        }
                    }
                });
                self.hearings.insert(a.text("as").into(), Hearing { view, task: task.abort_handle() });
                Json::Null
            }
            "events" => self.events(&a).await?,
            "agrees" => self.agrees(&a).await?,
            "inject" => self.inject(&a).await?,
            "trace" => {
                let (nodes, interface) = (a.texts("nodes"), a.text("interface").into());
                let what = TraceRequest { nodes, interface, count: a.number("count").into() };
                let mut trace = router.trace(what).await?;
                self.inject(&a).await?;
                let mut packets = vec![];
                while let Some(packet) = trace.next().await {
                    if let Passed::Packet(packet) = packet? {
                        packets.push(values::traced(&packet));
                    }
                }
                packets.into()
            }
            "program" => {
                let preference = step["preference"].as_u64().map(|p| p as u32);
                let grace_seconds = step["grace_seconds"].as_u64().map(|p| p as u32);
                let name = a.text("name").into();
                let keeper = router.keeper(RouteHello { name, preference, grace_seconds }).await?;
                let welcome = values::welcome(keeper.welcome());
                self.keepers.insert(a.text("as").into(), keeper);
                welcome
            }
            "set" => {
                let (table, metric) = (a.number("table"), a.number("metric"));
                self.keepers[on].set(table, metric, &a.prefixes(), a.next_hops()).await?;
                Json::Null
            }
            "delete" => {
                self.keepers[on].delete(a.number("table"), a.number("metric"), &a.prefixes()).await?;
                Json::Null
            }
            "flush" => {
                let flushed = self.keepers[on].flush().await?;
                let errors: Json = flushed.errors.iter().map(values::route_error).collect();
                json!({"refused": flushed.refused, "errors": errors})
            }
            "sync" if a.text("do") == "begin" => {
                self.keepers[on].begin().await?;
                Json::Null
            }
            "sync" => json!({"gone": self.keepers[on].end().await?}),
            name @ ("routes" | "count_routes") => {
                let mut routes = router.routes(a.filter()).await?;
                let mut all = vec![];
                while let Some(route) = routes.next().await {
                    all.push(route?);
                }
                match name {
                    "routes" => all.iter().map(|r| values::route(a.number("table"), r)).collect(),
                    _ => all.len().into(),
                }
            }
            "watch" => {
                let follower = router.follow(a.filter()).await?;
                self.followers.insert(a.text("as").into(), follower);
                Json::Null
            }
            "view" => self.followers[on].view(|v| {
                let routes = v.routes().iter().flat_map(|((table, _), of)| of.iter().map(|r| (*table, r)));
                let routes: Json = routes.map(|(table, r)| values::route(table, r)).collect();
                json!({"complete": v.is_complete(), "routes": routes})
            }),
            "close" => {
                self.keepers.remove(on);
                self.followers.remove(on);
                self.hearings.remove(on);
                Json::Null
            }
            "router" => {
                println!("router {}", a.text("do"));
                std::io::stdout().flush().unwrap();
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).unwrap();
                Json::Null
            }
            other => panic!("there is no call {other}"),
        })
    }

    /// What a follower knows, beside what there is.
    async fn agrees(&self, a: &Arguments<'_>) -> Result<Json, Error> {
        let on = a.text("on");
        let whole = |v: &EventView| v.is_whole(EventKind::Link) && v.is_whole(EventKind::Neighbor);
        if let Some(hearing) = self.hearings.get(on) {
            let mut fresh = EventView::default();
            let kinds = [EventKind::Link, EventKind::Neighbor].map(i32::from).to_vec();
            let wanted = WatchEventsRequest { kinds, ..WatchEventsRequest::default() };
            let mut happenings = self.router.events(wanted).await?;
            while !whole(&fresh) {
                let Some(event) = happenings.message().await? else { break };
                fresh.apply(&event);
            }
            let heard = hearing.view.lock().unwrap().clone()?;
            let count = fresh.links.len() + fresh.neighbors.len();
            let (complete, same) = (whole(&heard), known(heard) == known(fresh));
            return Ok(json!({"complete": complete, "same": same, "count": count}));
        }
        // Whether a route is used changes without a change of it.
        let lasting =
            |table: u32, r: &Route| values::route(table, &Route { used: false, ..r.clone() }).to_string();
        let mut there = vec![];
        let mut listed = self.router.routes(a.filter()).await?;
        while let Some(route) = listed.next().await {
            there.push(lasting(a.number("table"), &route?));
        }
        let (complete, mut knows) = self.followers[on].view(|v| {
            let routes = v.routes().iter().flat_map(|((table, _), of)| of.iter().map(|r| lasting(*table, r)));
            (v.is_complete(), routes.collect::<Vec<_>>())
        });
        there.sort_unstable();
        knows.sort_unstable();
        Ok(json!({"complete": complete, "same": knows == there, "count": there.len()}))
    }

    async fn inject(&self, a: &Arguments<'_>) -> Result<Json, Error> {
        let taken = self.router.injector().await?.inject(a.injection()).await?;
        let taken = taken.map_err(|place| {
            let message = format!("{}: {}", place.object, place.message);
            Error { code: tonic::Code::FailedPrecondition, message, infos: vec![place], retry_after: None }
        })?;
        Ok(json!({"taken": taken}))
    }

    async fn events(&self, a: &Arguments<'_>) -> Result<Json, Error> {
        let wanted = wanted(a);
        let kinds = wanted.kinds.len();
        let mut happenings = self.router.events(wanted).await?;
        let (mut all, mut ended) = (vec![], 0);
        while ended < kinds {
            let Some(event) = happenings.message().await? else { break };
            ended += usize::from(matches!(event.what, Some(event::What::SnapshotEnd(_))));
            all.push(values::event(&event));
        }
        Ok(all.into())
    }
}
