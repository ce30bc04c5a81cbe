//! What the router says, as messages.

use std::net::IpAddr;

use control::clients::{self, Answer, Event, Goal, Kind, MOST_ROUTES, Page};

use crate::v1::{
    self, NextHopSet, ProgramReply, RouteAction, RouteBatch, RouteDone, RouteEvent, RouteGap, RouteKind,
    RouteMark, RouteSwept, RouteUpdate, RouteWelcome, program_reply, route_event,
};

/// An answer to a client.
pub fn reply(answer: Answer) -> ProgramReply {
    let what = match answer {
        Answer::Welcome(w) => program_reply::What::Welcome(RouteWelcome {
            source: w.source,
            preference: w.preference.into(),
            routes: w.routes,
            returned: w.returned,
            most_routes: MOST_ROUTES as u32,
        }),
        Answer::Done(done) => program_reply::What::Done(RouteDone {
            id: done.done,
            refused: done.refused,
            errors: done.errors.into_iter().map(error).collect(),
        }),
        Answer::Swept(gone) => program_reply::What::Swept(RouteSwept { gone }),
    };
    ProgramReply { what: Some(what) }
}

fn error(e: clients::RouteError) -> v1::RouteError {
    v1::RouteError { id: e.batch, index: e.index, rule: e.rule.into(), value: e.value, message: e.message }
}

fn set(goal: Goal) -> NextHopSet {
    let action = match &goal {
        Goal::Forward(_) => RouteAction::Forward,
        Goal::Drop => RouteAction::Drop,
        Goal::Unreachable => RouteAction::Unreachable,
        Goal::Prohibit => RouteAction::Prohibit,
        Goal::Local => RouteAction::Local,
        Goal::Connected => RouteAction::Connected,
        Goal::Neighbor(..) => RouteAction::Neighbor,
        Goal::Broadcast => RouteAction::Broadcast,
    };
    let hops = match goal {
        Goal::Forward(hops) => hops,
        Goal::Neighbor(hop) => vec![hop],
        _ => vec![],
    };
    let hop = |h: clients::NextHop| v1::NextHop {
        address: match h.address {
            None => vec![],
            Some(IpAddr::V4(a)) => a.octets().to_vec(),
            Some(IpAddr::V6(a)) => a.octets().to_vec(),
        },
        interface: h.interface.unwrap_or_default(),
        table: h.table,
        weight: h.weight,
        labels: h.labels,
        mtu: h.mtu,
    };
    NextHopSet { number: 0, action: action.into(), next_hops: hops.into_iter().map(hop).collect() }
}

fn kind(k: Kind) -> RouteKind {
    RouteKind {
        number: k.number,
        source: k.source,
        preference: k.preference.into(),
        metric: k.metric,
        next_hops: Some(set(k.goal)),
    }
}

/// A page of routes.
pub fn batch(page: Page) -> RouteBatch {
    RouteBatch {
        table: page.table,
        ipv6: page.v6,
        forget_kinds: page.forget,
        kinds: page.kinds.into_iter().map(kind).collect(),
        prefixes: page.prefixes,
        of_kind: page.of,
        unused: page.unused,
        gone: page.gone,
    }
}

fn changes(first: u64, last: u64, pages: Vec<Page>) -> RouteUpdate {
    RouteUpdate { first, last, batches: pages.into_iter().map(batch).collect() }
}

/// What has changed, where an event tells that.
pub fn update(event: Event) -> Option<RouteUpdate> {
    match event {
        Event::Changes { first, last, pages } => Some(changes(first, last, pages)),
        _ => None,
    }
}

/// What a follower is told.
pub fn event(event: Event) -> RouteEvent {
    let what = match event {
        Event::Snapshot(page) => route_event::What::Snapshot(batch(page)),
        Event::Mark(next) => route_event::What::Mark(RouteMark { next }),
        Event::Changes { first, last, pages } => route_event::What::Changes(changes(first, last, pages)),
        Event::Gap(lost) => route_event::What::Gap(RouteGap { from: lost.from, to: lost.to }),
    };
    RouteEvent { what: Some(what) }
}
