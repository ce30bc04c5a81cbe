//! What a label route must meet before it is applied.

use super::part::known_label_table;
use crate::labels::reserved;
use crate::router::{Kind, Lookup, RoutePath, RouteTable, Router, Target};
use packet::mpls::Label;
use tables::labels::ENTRIES;

/// A label route in words: `label 100 eos`.
pub(super) fn name(key: u32) -> String {
    format!("label {} {}", key >> 1, if key & 1 == 1 { "eos" } else { "non-eos" })
}

/// Whether a label may be given a route.
pub(super) fn label(key: u32) -> Result<(), String> {
    if key >= ENTRIES {
        return Err("a label is 16 to 1048575".into());
    }
    match key >> 1 {
        0 | 2 => Err(format!("label {} is explicit null: each MPLS table has it already", key >> 1)),
        1 => Err("label 1 is router alert: its packets go to the router itself".into()),
        3 => Err("label 3 is implicit null: it is never in a packet (RFC 3032 section 2.1)".into()),
        l @ 4..16 => Err(reserved(l)),
        _ => Ok(()),
    }
}

pub(super) fn check_labels(router: &Router, key: u32, target: &Target) -> Result<(), String> {
    let paths = match target {
        Target::Paths(paths) => paths,
        Target::Drop => return Ok(()),
        _ => return Err("a label leads over paths, or its packets are dropped".into()),
    };
    if paths.is_empty() || paths.len() > tables::groups::MAX_BUCKETS {
        return Err(format!("{} paths, there must be 1 to 256", paths.len()));
    }
    paths.iter().try_for_each(|p| check_label_path(router, key & 1 == 1, p))
}

fn check_label_path(router: &Router, bottom: bool, p: &RoutePath) -> Result<(), String> {
    if p.weight == 0 {
        return Err("a weight is 1 to 255".into());
    }
    p.labels.check()?;
    if p.lookup == Lookup::Frame {
        return check_frame_path(router, bottom, p);
    }
    if p.address.is_some() || p.interface.is_some() {
        if p.lookup != Lookup::Own {
            return Err("a path leads to a neighbor or into a table, not both".into());
        }
        return check_next_hop(router, p);
    }
    if !p.labels.is_empty() {
        return Err("labels are put on for a neighbor: name its address".into());
    }
    let Some(id) = p.table else { return Err("a path needs an address or a table".into()) };
    let families: &[bool] = match p.lookup {
        Lookup::Own | Lookup::Frame => return Err("a path into a table says of which kind it is".into()),
        Lookup::Ip4 => &[false],
        Lookup::Ip6 => &[true],
        Lookup::Ip => &[false, true],
        Lookup::IpEach(six) => {
            router.fib_index_of(RouteTable { v6: true, id: six }).map_err(|e| e.message)?;
            &[false]
        }
        Lookup::Mpls if bottom => {
            return Err(format!(
                "behind the bottom of a stack is no label to be looked up in MPLS table {id}: use non-eos"
            ));
        }
        Lookup::Mpls => {
            return known_label_table(router, id).map(|_| ()).map_err(|e| e.message);
        }
    };
    if !bottom {
        return Err("only at the bottom of a stack an IP packet follows: use eos".into());
    }
    let known =
        |v6: &bool| router.fib_index_of(RouteTable { v6: *v6, id }).map(|_| ()).map_err(|e| e.message);
    families.iter().try_for_each(known)
}

/// A path on which a frame comes in on an interface.
fn check_frame_path(router: &Router, bottom: bool, p: &RoutePath) -> Result<(), String> {
    if p.address.is_some() || p.table.is_some() || !p.labels.is_none() {
        return Err("l2-input-on takes an interface and nothing else".into());
    }
    if !bottom {
        return Err("only at the bottom of a stack a frame follows: use eos".into());
    }
    let named = p.interface.filter(|i| router.interface(*i).is_some_and(|i| i.kind != Kind::Local));
    let Some(i) = named else { return Err("there is no such interface".into()) };
    if let Some(why) = router.takes_no_frames(i) {
        return Err(why);
    }
    match router.interface(i).map(|i| i.kind) {
        Some(Kind::Loopback) => {
            Err(format!("{} is a loopback: no frames come in on it", router.interface_name(i)))
        }
        _ => Ok(()),
    }
}

fn check_next_hop(router: &Router, p: &RoutePath) -> Result<(), String> {
    if let Some(i) = p.interface {
        if router.interface(i).is_none_or(|i| i.kind == Kind::Local) {
            return Err("there is no such interface".into());
        }
        if p.table.is_some() {
            return Err("a path leads over an interface or into a table, not both".into());
        }
    }
    let Some(a) = p.address else {
        return Err("the next hop of a label needs an address: its packets do not name one".into());
    };
    router.check_neighbor(0, a, p)
}

/// Whether a label can be that of an entry: for commands and documents.
pub fn check_label(value: u32) -> Result<(), String> {
    if value > Label::MAX.value() {
        return Err("a label is 16 to 1048575".into());
    }
    label(tables::labels::key(value, true))
}
