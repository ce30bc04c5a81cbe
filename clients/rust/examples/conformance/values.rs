//! Messages as values, with the names of the schema.

use quiver_client::v1::event::What;
use quiver_client::v1::{
    ApplyResponse, CheckResponse, DiffResponse, ErrorInfo, Event, GetSystemResponse, NextHop, NextHopSet,
    PlanResponse, RouteError, RouteWelcome, history_response, list_counters_response, list_response,
    read_counters_response, trace_response,
};
use quiver_client::{Error, Route};
use serde_json::{Value as Json, json};

/// Fields of a message that are plain.
macro_rules! fields {
    ($m:expr, $($field:ident),*) => { json!({ $(stringify!($field): $m.$field),* }) };
}

/// A value with more fields.
fn and(mut value: Json, more: Json) -> Json {
    if let (Some(map), Json::Object(more)) = (value.as_object_mut(), more) {
        map.extend(more);
    }
    value
}

fn list<T>(all: &[T], one: impl Fn(&T) -> Json) -> Json {
    all.iter().map(one).collect()
}

/// The word for a value of an enumeration, whose values begin with the same words.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

fn role(role: quiver_client::Role) -> String {
    word(role.as_str_name(), "ROLE_")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The place of a fault.
fn info(i: &ErrorInfo) -> Json {
    let plain =
        fields!(i, object, rule, value, message, expected, file, line, column, length, applied, note, change);
    and(plain, json!({"role_needed": role(i.role_needed())}))
}

/// An error, whose code has gRPC's name.
pub fn error(e: &Error) -> Json {
    let mut code = String::new();
    for c in format!("{:?}", e.code).chars() {
        if c.is_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.extend(c.to_uppercase());
    }
    json!({"code": code, "message": e.message, "errors": list(&e.infos, info)})
}

pub fn system(s: &GetSystemResponse) -> Json {
    let plain =
        fields!(s, version, instance, started, process, user, certificate, largest_message, calls_at_once);
    and(plain, json!({"role": role(s.role())}))
}

pub fn command(c: &list_response::Command) -> Json {
    and(fields!(c, syntax, help, aliases, details, examples), json!({"role": role(c.role())}))
}

pub fn check(c: &CheckResponse) -> Json {
    json!({"ok": c.ok, "findings": list(&c.findings, info)})
}

pub fn diff(d: &DiffResponse) -> Json {
    let one = |d: &quiver_client::v1::diff_response::Difference| json!({"change": word(d.change().as_str_name(), "CHANGE_"), "text": d.text});
    and(fields!(d, restart, stays), json!({"differences": list(&d.differences, one)}))
}

pub fn plan(p: &PlanResponse) -> Json {
    let one = |s: &quiver_client::v1::plan_response::Step| {
        and(fields!(s, text, commands, touches), json!({"change": word(s.change().as_str_name(), "CHANGE_")}))
    };
    and(fields!(p, warnings, restart, stays), json!({"steps": list(&p.steps, one)}))
}

pub fn apply(a: &ApplyResponse) -> Json {
    fields!(a, steps, number, confirm_seconds, restart, text)
}

pub fn entry(e: &history_response::Entry) -> Json {
    fields!(e, number, time, kind, user, name, from, source, comment, changes, diff)
}

pub fn counter(c: &list_counters_response::Counter) -> Json {
    fields!(c, name, unit, help, most, by)
}

pub fn counted(v: &read_counters_response::Value) -> Json {
    fields!(v, name, of, of_names, value)
}

pub fn event(e: &Event) -> Json {
    let kind = word(e.kind().as_str_name(), "EVENT_KIND_");
    let all = and(fields!(e, number, time_ns), json!({"kind": kind}));
    let change = |c: quiver_client::v1::EventChange| word(c.as_str_name(), "EVENT_CHANGE_");
    let (name, what) = match &e.what {
        Some(What::Link(l)) => (
            "link",
            and(
                fields!(l, interface, index, admin_up, carrier, mtu, changed),
                json!({"change": change(l.change()), "mac": hex(&l.mac)}),
            ),
        ),
        Some(What::Neighbor(n)) => {
            let own = json!({"change": change(n.change()), "static": n.r#static, "mac": hex(&n.mac)});
            ("neighbor", and(fields!(n, interface, index), own))
        }
        Some(What::SnapshotEnd(_)) => ("snapshot_end", json!({})),
        _ => ("other", json!({})),
    };
    and(all, json!({"what": name, name: what}))
}

pub fn traced(p: &trace_response::Packet) -> Json {
    let step = |s: &trace_response::Step| {
        and(
            fields!(s, node, next, drop_reason, drop_meaning, time_ns, length, text),
            json!({"data": hex(&s.data)}),
        )
    };
    and(fields!(p, number, worker, continued, incomplete), json!({"steps": list(&p.steps, step)}))
}

pub fn welcome(w: &RouteWelcome) -> Json {
    fields!(w, source, preference, routes, returned, most_routes)
}

pub fn route_error(e: &RouteError) -> Json {
    fields!(e, id, index, rule, value, message)
}

fn hop(h: &NextHop) -> Json {
    let address = match h.address.len() {
        4 => std::net::IpAddr::from(<[u8; 4]>::try_from(&*h.address).unwrap()).to_string(),
        16 => std::net::IpAddr::from(<[u8; 16]>::try_from(&*h.address).unwrap()).to_string(),
        _ => String::new(),
    };
    and(fields!(h, interface, table, weight, labels, mtu), json!({"address": address}))
}

pub fn route(table: u32, r: &Route) -> Json {
    let none = NextHopSet::default();
    let goal = r.kind.next_hops.as_ref().unwrap_or(&none);
    let action = word(goal.action().as_str_name(), "ROUTE_ACTION_");
    let own = json!({
        "table": table, "prefix": r.prefix.to_string(), "used": r.used, "action": action,
        "next_hops": list(&goal.next_hops, hop),
    });
    and(fields!(r.kind, source, preference, metric), own)
}
