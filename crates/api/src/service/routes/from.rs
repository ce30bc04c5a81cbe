//! What clients send, as the router takes it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use command::{Caller, Remote};
use control::clients::{Batch, Filter, Goal, Hello, Match, NextHop, Order};
use control::ctl;

use crate::v1::{
    self, NextHopSet, ProgramRequest, RouteAction, RouteFamily, RouteFilter, RouteHello, RouteMatch,
    RouteSync, program_request,
};

/// The longest name of a user that stands in a source as it is, in bytes.
const LONGEST_USER: usize = 28;

/// Whose a client's routes are: a Unix user's, or behind `tls:` those of a name in a certificate. Of a name that does not fit it is the
/// beginning and a hash of the whole, so that no two are one.
pub fn user(caller: &Caller) -> String {
    if let Some(Remote { name, .. }) = &caller.remote {
        if name.len() <= LONGEST_USER && name.bytes().all(|b| b.is_ascii_graphic()) {
            return format!("tls:{name}");
        }
        let mut hash = DefaultHasher::new();
        name.hash(&mut hash);
        let begins: String = name.chars().filter(char::is_ascii_graphic).take(11).collect();
        return format!("tls:{begins}~{:016x}", hash.finish());
    }
    let who = ctl::author(Some(caller));
    if who.name.is_empty() { who.user.to_string() } else { who.name }
}

/// What a client says of itself.
pub fn hello(hello: RouteHello) -> Result<Hello, String> {
    let wrong = |p| format!("preference {p}: it is 1 to 254");
    let preference = hello.preference.map(|p| u8::try_from(p).map_err(|_| wrong(p))).transpose()?;
    let grace = hello.grace_seconds.map(|s| Duration::from_secs(s.into()));
    Ok(Hello { name: hello.name, preference, grace })
}

/// Adds the orders of a message to others, and answers how many routes they have, about.
pub fn orders(message: ProgramRequest, all: &mut Vec<Order>) -> Result<usize, String> {
    match message.what {
        None => Err("a message says nothing".into()),
        Some(program_request::What::Hello(_)) => Err("a RouteHello is the first message alone".into()),
        Some(program_request::What::Sets(sets)) => {
            let count = sets.sets.len();
            for set in sets.sets {
                let number = set.number;
                all.push(Order::Define(
                    number,
                    goal(set).map_err(|e| format!("next-hop set {number}: {e}"))?,
                ));
            }
            Ok(count)
        }
        Some(program_request::What::Changes(c)) => {
            let routes = c.prefixes.len() / 5 + 1;
            all.push(Order::Change(Batch {
                id: c.id,
                table: c.table,
                v6: c.ipv6,
                delete: c.delete,
                metric: c.metric,
                prefixes: c.prefixes,
                sets: c.sets,
            }));
            Ok(routes)
        }
        Some(program_request::What::Sync(sync)) => {
            all.push(match RouteSync::try_from(sync) {
                Ok(RouteSync::Begin) => Order::Mark,
                Ok(RouteSync::End) => Order::Sweep,
                Ok(RouteSync::Unspecified) | Err(_) => {
                    return Err("a RouteSync is a beginning or an end".into());
                }
            });
            Ok(1)
        }
    }
}

/// An address of 4 or 16 bytes, or none.
fn address(bytes: &[u8]) -> Result<Option<IpAddr>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ok(Some(four.into()));
    }
    let sixteen = <[u8; 16]>::try_from(bytes);
    sixteen.map(|a| Some(a.into())).map_err(|_| format!("an address has 4 or 16 bytes, not {}", bytes.len()))
}

fn hop(h: v1::NextHop) -> Result<NextHop, String> {
    Ok(NextHop {
        address: address(&h.address)?,
        interface: Some(h.interface).filter(|i| !i.is_empty()),
        table: h.table,
        weight: h.weight.max(1),
        labels: h.labels,
        mtu: h.mtu,
    })
}

fn goal(set: NextHopSet) -> Result<Goal, String> {
    let action =
        RouteAction::try_from(set.action).map_err(|_| format!("there is no action {}", set.action))?;
    let goal = match action {
        RouteAction::Unspecified | RouteAction::Forward => {
            return set.next_hops.into_iter().map(hop).collect::<Result<_, _>>().map(Goal::Forward);
        }
        RouteAction::Drop => Goal::Drop,
        RouteAction::Unreachable => Goal::Unreachable,
        RouteAction::Prohibit => Goal::Prohibit,
        other => return Err(format!("{} is only read", other.as_str_name())),
    };
    if !set.next_hops.is_empty() {
        return Err(format!("{} has no next hops", action.as_str_name()));
    }
    Ok(goal)
}

/// Which routes.
pub fn filter(filter: Option<RouteFilter>) -> Result<Filter, String> {
    let Some(f) = filter else { return Ok(Filter::default()) };
    let prefix = match f.prefix.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| format!("{text} is no prefix such as 10.0.0.0/8"))?),
    };
    let v6 = match RouteFamily::try_from(f.family) {
        Ok(RouteFamily::Unspecified) => None,
        Ok(RouteFamily::Ipv4) => Some(false),
        Ok(RouteFamily::Ipv6) => Some(true),
        Err(_) => return Err(format!("there is no family {}", f.family)),
    };
    let by = match RouteMatch::try_from(f.r#match) {
        Ok(RouteMatch::Unspecified | RouteMatch::Longer) => Match::Longer,
        Ok(RouteMatch::Exact) => Match::Exact,
        Ok(RouteMatch::Longest) => Match::Longest,
        Err(_) => return Err(format!("there is no match {}", f.r#match)),
    };
    if prefix.is_none() && by != Match::Longer {
        return Err("a match needs a prefix".into());
    }
    Ok(Filter { table: f.table, v6, prefix, by, source: Some(f.source).filter(|s| !s.is_empty()) })
}
