//! `show netlink`, `show fpm`, `fib diff kernel`.

use super::App;
use crate::kernel::{Counts, Difference, Failed, Of};
use command::{Args, Command, CommandError, Output};
use net::router::{RouteTable, Router, Target};
use serde_json::json;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Failed routes that `show netlink` tells of.
const FAILED: usize = 10;
/// What is told where no namespace is followed.
const NOTHING: &str =
    "nothing is followed: no interface has a pair in Linux, or `lcp netlink` and `lcp nl-sync` are off";
/// Lines of differences made at a time.
const LINES: usize = 256;

pub(super) fn commands() -> [Command<App>; 3] {
    [
        Command::read("show netlink", "What is read of Linux's routes and devices, and what became of it", show)
            .details(
                "For each network namespace in which an interface has its pair (`lcp create`). Routes over other devices are not the \
                 router's. Lag is the time between the reading of a change and the moment at which workers use it.",
            )
            .example("show netlink"),
        Command::read("show fpm", "What FRR's zebra has told of its routes, and what became of it", show_fpm)
            .details("See `lcp fpm on`. Routes over other devices than those of pairs are not the router's, as with `show netlink`.")
            .example("show fpm"),
        Command::read("fib diff kernel", "Compares the router's routes with the kernel's, route by route", diff)
            .details(
                "All routes of the kernel are read once more. A line for each that the router should have and has not (`-`), has and \
                 should not have (`+`), or has otherwise (`~`); nothing when both agree. Where nothing is followed, it says so. Routes that change meanwhile may be among them.",
            )
            .example("fib diff kernel"),
    ]
}

/// What became of routes in the router, for `show netlink` and `show fpm`.
struct Became<'c> {
    counts: &'c Counts,
    unsupported: Vec<(&'static str, i64)>,
    /// Some of those that were refused.
    failed: Vec<(Failed, String)>,
    failures: u64,
}

impl Became<'_> {
    fn of(counts: &Counts) -> Became<'_> {
        let (unsupported, failed) = (counts.unsupported.borrow(), counts.failed.borrow());
        let mut some: Vec<_> = failed.iter().collect();
        some.sort();
        Became {
            counts,
            unsupported: unsupported.iter().map(|(w, n)| (*w, *n)).filter(|(_, n)| *n > 0).collect(),
            failed: some.into_iter().take(FAILED).map(|(f, why)| (*f, why.clone())).collect(),
            failures: failed.len() as u64 + counts.more_failed.get(),
        }
    }

    fn lines(&self, mut line: impl FnMut(&str, String)) {
        let (c, ms) = (self.counts, |d: Duration| d.as_micros() as f64 / 1000.0);
        line("over other devices", c.foreign.get().to_string());
        for (what, n) in &self.unsupported {
            line("not supported", format!("{n}: {what}"));
        }
        line("changes made", c.made.get().to_string());
        line("batches waiting", c.waiting.load(Relaxed).to_string());
        line("lag", format!("{:.1} ms, at most {:.1} ms", ms(c.lag.get()), ms(c.most_lag.get())));
        line("failed", self.failures.to_string());
        for (failed, why) in &self.failed {
            match failed {
                Failed::Route(k) => {
                    line("", format!("{} metric {} table {}: {why}", k.prefix, k.metric, k.table));
                }
                Failed::Label(label) => line("", format!("label {label}: {why}")),
            }
        }
    }

    /// Adds it to an object.
    fn json(&self, to: &mut serde_json::Value) {
        let c = self.counts;
        let failure = |(failed, why): &(Failed, String)| match failed {
            Failed::Route(k) => json!({
                "prefix": k.prefix.to_string(), "metric": k.metric, "table": k.table, "reason": why,
            }),
            Failed::Label(label) => json!({ "label": label, "reason": why }),
        };
        let us = |d: Duration| d.as_micros() as u64;
        to["synced"] = c.synced.get().into();
        to["foreign"] = c.foreign.get().into();
        to["unsupported"] = self.unsupported.iter().map(|(w, n)| json!({ "what": w, "routes": n })).collect();
        to["changes"] = c.made.get().into();
        to["waiting"] = c.waiting.load(Relaxed).into();
        to["lag-us"] = us(c.lag.get()).into();
        to["most-lag-us"] = us(c.most_lag.get()).into();
        to["failed"] = self.failures.into();
        to["failures"] = self.failed.iter().map(failure).collect();
    }
}

fn routes_words(routes: u64, contents: u64, objects: u64, labels: u64) -> String {
    format!("{routes} in {contents} groups, {objects} nexthop objects, {labels} labels")
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let followed = app.kernel.followed();
    if followed.is_empty() {
        return Ok(Output::new(format!("{NOTHING}\n"), json!([])));
    }
    let (mut text, mut list) = (String::new(), vec![]);
    for f in followed {
        let (s, c) = (&f.reader.stats, &f.taken.counts);
        let get = |n: &std::sync::atomic::AtomicU64| n.load(Relaxed);
        let became = Became::of(c);
        let _ = writeln!(text, "namespace {}", f.taken.netns.as_deref().unwrap_or("of the router"));
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<22}{value}");
        };
        line("devices", f.taken.devices().to_string());
        line(
            "messages",
            format!(
                "{} new and {} deleted routes, {} nexthops, {} links, {} addresses, {} neighbors",
                get(&s.new_routes),
                get(&s.deleted_routes),
                get(&s.nexthops),
                get(&s.links),
                get(&s.addresses),
                get(&s.neighbors)
            ),
        );
        line("overflows", get(&s.overflows).to_string());
        line(
            "readings of all",
            format!(
                "{}, the last in {:.1} ms; {} routes repaired",
                get(&s.syncs),
                get(&s.sync_us) as f64 / 1000.0,
                get(&s.repaired)
            ),
        );
        line(
            "kernel's routes",
            routes_words(get(&s.routes), get(&s.contents), get(&s.objects), get(&s.labels)),
        );
        became.lines(line);
        let mut one = json!({
            "netns": f.taken.netns, "devices": f.taken.devices(),
            "messages": {
                "new-routes": get(&s.new_routes), "deleted-routes": get(&s.deleted_routes), "nexthops": get(&s.nexthops),
                "links": get(&s.links), "addresses": get(&s.addresses), "neighbors": get(&s.neighbors), "others": get(&s.others),
            },
            "overflows": get(&s.overflows), "syncs": get(&s.syncs), "sync-us": get(&s.sync_us), "repaired": get(&s.repaired),
            "routes": get(&s.routes), "contents": get(&s.contents), "nexthop-objects": get(&s.objects), "labels": get(&s.labels),
        });
        became.json(&mut one);
        list.push(one);
    }
    Ok(Output::new(text, json!(list)))
}

fn show_fpm(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let heard = app.kernel.fpm();
    if let (None, Some(d)) = (&heard, app.kernel.deaf()) {
        let of = d.netns.as_deref().unwrap_or("of the router");
        let text = format!(
            "{:<24}not on {} in namespace {of}: {}; it is tried each second\n",
            "listens", d.address, d.why
        );
        let json = json!({ "address": d.address.to_string(), "netns": d.netns, "trouble": d.why });
        return Ok(Output::new(text, json!([json])));
    }
    let Some(heard) = heard else {
        return Ok(Output::new("nobody is listened to: `lcp fpm` is off\n", json!([])));
    };
    let (s, taken, peer) = (&heard.fpm.stats, heard.taken.borrow(), heard.peer.borrow());
    let get = |n: &std::sync::atomic::AtomicU64| n.load(Relaxed);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<24}{value}");
    };
    line(
        "listens",
        format!("{} in namespace {}", heard.address, taken.netns.as_deref().unwrap_or("of the router")),
    );
    line("connected", peer.map_or_else(|| "nobody".to_owned(), |p| p.to_string()));
    line(
        "connections",
        format!("{}, {} ended for what came over them", get(&s.connections), get(&s.refused)),
    );
    line("devices", taken.devices().to_string());
    line(
        "messages",
        format!(
            "{} new and {} deleted routes, {} nexthops, {} others",
            get(&s.new_routes),
            get(&s.deleted_routes),
            get(&s.nexthops),
            get(&s.others)
        ),
    );
    line("zebra's routes", routes_words(get(&s.routes), get(&s.contents), get(&s.objects), get(&s.labels)));
    let became = Became::of(&taken.counts);
    became.lines(line);
    let mut json = json!({
        "address": heard.address.to_string(), "netns": taken.netns, "trouble": null, "peer": peer.map(|p| p.to_string()),
        "connections": get(&s.connections), "refused": get(&s.refused), "devices": taken.devices(),
        "messages": {
            "new-routes": get(&s.new_routes), "deleted-routes": get(&s.deleted_routes), "nexthops": get(&s.nexthops),
            "others": get(&s.others),
        },
        "routes": get(&s.routes), "contents": get(&s.contents), "nexthop-objects": get(&s.objects), "labels": get(&s.labels),
    });
    became.json(&mut json);
    Ok(Output::new(text, json!([json])))
}

fn words(router: &Router, d: &Difference, target: &Target) -> String {
    let table = match d.of {
        Of::Route { table, prefix, .. } => RouteTable { v6: prefix.addr().is_ipv6(), id: table },
        Of::Label(..) => RouteTable::V4,
    };
    crate::dump::target_words(router, table, target).unwrap_or_else(|| "what no document can say".to_owned())
}

fn diff(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (router, kernel) = (Rc::clone(&app.router), Rc::clone(&app.kernel));
    if kernel.followed().is_empty() {
        return Ok(Output::new(format!("nothing is compared: {NOTHING}\n"), json!([])));
    }
    let (changes, caller) = (Rc::clone(&app.changes), args.caller().cloned());
    Ok(Output::stream(async move |_| {
        let place = changes.places.take(caller.as_ref()).await?;
        let mut differences = vec![];
        for f in kernel.followed() {
            differences.extend(f.differences(&router).await.map_err(CommandError::new)?);
        }
        let mut rest = place.hold(differences.into_iter());
        let mut begun = false;
        Ok(Output::pieces(move |page| {
            let router = router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
            if !std::mem::replace(&mut begun, true) && page.wants_json() {
                page.open("[");
            }
            let rest = rest.read()?;
            for d in rest.by_ref().take(LINES) {
                tell(&router, &d, page);
            }
            let more = rest.len() > 0;
            if !more && page.wants_json() {
                page.close("]");
            }
            Ok(more)
        }))
    }))
}

fn tell(router: &Router, d: &Difference, page: &mut command::Page) {
    let (kernel, has) = (d.kernel.as_deref(), d.router.as_deref());
    if page.wants_json() {
        let one = |t: Option<&Target>| t.map(|t| words(router, d, t));
        let (kernel, has) = (one(kernel), one(has));
        page.item(&match d.of {
            Of::Route { table, prefix, metric } => json!({
                "table": table, "prefix": prefix.to_string(), "metric": metric, "kernel": kernel, "router": has,
            }),
            Of::Label(label, bottom) => {
                json!({ "label": label, "eos": bottom, "kernel": kernel, "router": has })
            }
        });
        return;
    }
    let sign = match (kernel, has) {
        (Some(_), None) => '-',
        (None, _) => '+',
        _ => '~',
    };
    let name = match d.of {
        Of::Route { table: 0, prefix, metric } => format!("{prefix} metric {metric}"),
        Of::Route { table, prefix, metric } => format!("{prefix} table {table} metric {metric}"),
        Of::Label(label, bottom) => format!("label {label} {}", if bottom { "eos" } else { "non-eos" }),
    };
    let what = match (kernel, has) {
        (Some(k), Some(h)) => format!("{} -> {}", words(router, d, k), words(router, d, h)),
        (k, h) => k.or(h).map_or_else(String::new, |t| words(router, d, t)),
    };
    let _ = writeln!(page, "{sign} {name}: {what}");
}
