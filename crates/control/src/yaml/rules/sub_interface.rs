//! Rules between a sub-interface, its parent and its siblings.

use std::collections::HashMap;

use super::say;
use crate::yaml::diag::Sink;
use crate::yaml::model::{Encapsulation, Interface, SubInterface, TagKind};

pub(super) fn check(parent: &Interface, errors: &mut Sink) {
    let mut seen: HashMap<(TagKind, u16, Option<u16>), &SubInterface> = HashMap::new();
    let outer_with_lcp: HashMap<(TagKind, u16), &SubInterface> = parent
        .sub_interfaces
        .iter()
        .filter(|s| s.encapsulation.inner.is_none() && s.lcp.is_some())
        .map(|s| ((s.encapsulation.outer_kind, s.encapsulation.outer), s))
        .collect();
    for sub in &parent.sub_interfaces {
        if sub.mtu > parent.mtu && parent.mtu != 0 {
            let message = format!("the MTU {} is above the parent's {}", sub.mtu, parent.mtu);
            say(errors, sub.mtu_place, format!("{}.mtu", sub.path), "sub-interface-mtu", message)
                .value(sub.mtu)
                .help(format!("at most {}, or a larger mtu in {}", parent.mtu, parent.path));
        }
        if sub.up && !parent.up {
            let message = format!("up under `{}`, which is down", parent.name);
            say(errors, sub.place, format!("{}.state", sub.path), "sub-interface-state", message)
                .help("state: down here, or state: up in the parent");
        }
        let encapsulation = &sub.encapsulation;
        if encapsulation.outer == 0 {
            continue;
        }
        let tags = (encapsulation.outer_kind, encapsulation.outer, encapsulation.inner);
        if let Some(first) = seen.get(&tags) {
            let message = format!(
                "{} is taken by `{}` on line {}",
                tags_text(encapsulation),
                first.name,
                first.place.line
            );
            say(errors, sub.place, format!("{}.encapsulation", sub.path), "encapsulation-unique", message)
                .help("tags of its own under this parent");
        } else {
            seen.insert(tags, sub);
        }
        exact_match(sub, errors);
        let sibling = outer_with_lcp.get(&(encapsulation.outer_kind, encapsulation.outer));
        lcp(parent, sub, sibling.copied(), errors);
    }
}

fn tags_text(e: &Encapsulation) -> String {
    let kind = match e.outer_kind {
        TagKind::Dot1q => "dot1q",
        TagKind::Dot1ad => "dot1ad",
    };
    match e.inner {
        Some(inner) => format!("{kind} {} inner-dot1q {inner}", e.outer),
        None => format!("{kind} {}", e.outer),
    }
}

/// What answers ARP must know the frame's tags exactly.
fn exact_match(sub: &SubInterface, errors: &mut Sink) {
    let what = match (sub.addresses.is_empty(), &sub.lcp) {
        (false, _) => "an address",
        (true, Some(_)) => "an LCP",
        (true, None) => return,
    };
    if !sub.encapsulation.exact_match {
        let message = format!("a sub-interface with {what} must match its tags exactly");
        say(errors, sub.place, format!("{}.encapsulation", sub.path), "exact-match", message)
            .help("add `exact-match: true` to its encapsulation");
    }
}

/// A mirrored sub-interface is a Linux VLAN device, which needs the device below it.
fn lcp(parent: &Interface, sub: &SubInterface, sibling: Option<&SubInterface>, errors: &mut Sink) {
    let Some(lcp) = &sub.lcp else { return };
    let path = format!("{}.lcp", sub.path);
    if parent.lcp.is_none() {
        let message = format!("the parent `{}` has no LCP", parent.name);
        say(errors, lcp.place, path, "lcp-parent", message).help(format!("add `lcp` to {}", parent.path));
        return;
    }
    if sub.encapsulation.inner.is_none() {
        return;
    }
    match sibling {
        None => {
            let message = "no sibling with the outer tag alone has an LCP".to_string();
            say(errors, lcp.place, path, "lcp-qinq", message)
                .help("add a sub-interface with the outer tag alone, and an `lcp`");
        }
        Some(sibling) if sub.mtu > sibling.mtu && sibling.mtu != 0 => {
            let message = format!("the MTU {} is above the {} of `{}`", sub.mtu, sibling.mtu, sibling.name);
            say(errors, sub.mtu_place, format!("{}.mtu", sub.path), "lcp-qinq", message)
                .help(format!("at most {}", sibling.mtu));
        }
        Some(_) => {}
    }
}
