//! Rules between a sub-interface, its parent and its siblings.

use std::collections::HashMap;

use super::say;
use crate::yaml::diag::Sink;
use crate::yaml::model::{Encap, Interface, SubInterface};

pub(super) fn check(parent: &Interface, errors: &mut Sink) {
    let mut seen: HashMap<Tags, &SubInterface> = HashMap::new();
    let outer_with_lcp: HashMap<Tags, &SubInterface> = parent
        .sub_interfaces
        .iter()
        .filter(|s| s.lcp.is_some())
        .filter_map(|s| Some((tags(s.encapsulation?), s)))
        .filter(|(tags, _)| tags.inner.is_none())
        .collect();
    for sub in &parent.sub_interfaces {
        if sub.mtu > parent.mtu && parent.mtu != 0 {
            let message = format!("the MTU {} is above the parent's {}", sub.mtu, parent.mtu);
            say(errors, sub.mtu_place, format!("{}.mtu", sub.path), "sub-interface-mtu", message)
                .value(sub.mtu)
                .help(format!("at most {}, or a larger mtu in {}", parent.mtu, parent.path));
        }
        if sub.up && !sub.follows && !parent.up {
            let message = format!("up under `{}`, which is down", parent.name);
            say(errors, sub.place, format!("{}.state", sub.path), "sub-interface-state", message).help(
                "state: down here, state: up in the parent, or state: follow, up as soon as the parent is",
            );
        }
        let Some(encapsulation) = sub.encapsulation else { continue };
        let tags = tags(encapsulation);
        if let Some(first) = seen.get(&tags) {
            let message = format!(
                "{} is taken by `{}` on line {}",
                tags_text(encapsulation, tags),
                first.name,
                first.place.line
            );
            say(errors, sub.place, format!("{}.encapsulation", sub.path), "encapsulation-unique", message)
                .help("tags of its own under this parent");
        } else {
            seen.insert(tags, sub);
        }
        exact_match(sub, encapsulation, errors);
        let sibling = outer_with_lcp.get(&Tags { inner: None, ..tags });
        lcp(parent, sub, tags.inner.map(|_| sibling.copied()), errors);
    }
}

/// What may stand once under a parent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tags {
    kind: &'static str,
    outer: Option<u16>,
    inner: Option<Option<u16>>,
}

fn tags(encap: Encap) -> Tags {
    match encap {
        Encap::Tags { dot1ad, outer, inner, .. } => {
            Tags { kind: if dot1ad { "dot1ad" } else { "dot1q" }, outer, inner }
        }
        Encap::Untagged => Tags { kind: "untagged", outer: None, inner: None },
        Encap::Default => Tags { kind: "default", outer: None, inner: None },
    }
}

fn tags_text(encap: Encap, tags: Tags) -> String {
    let number = |v: Option<u16>| v.map_or("any".to_string(), |v| v.to_string());
    match (encap, tags.inner) {
        (Encap::Untagged | Encap::Default, _) => tags.kind.to_string(),
        (_, Some(inner)) => format!("{} {} inner-dot1q {}", tags.kind, number(tags.outer), number(inner)),
        (_, None) => format!("{} {}", tags.kind, number(tags.outer)),
    }
}

/// What answers ARP must know the frame's tags exactly.
fn exact_match(sub: &SubInterface, encap: Encap, errors: &mut Sink) {
    let what = match (sub.addresses.is_empty(), &sub.lcp) {
        (false, _) => "an address",
        (true, Some(_)) => "an LCP",
        (true, None) => return,
    };
    if !matches!(encap, Encap::Tags { exact: true, .. } | Encap::Untagged) {
        let message = format!("a sub-interface with {what} must match its tags exactly");
        say(errors, sub.place, format!("{}.encapsulation", sub.path), "exact-match", message)
            .help("add `exact-match: true` to its encapsulation");
    }
}

/// A mirrored sub-interface is a Linux VLAN device, which needs the device below it. One with two tags has a place for
/// its sibling with the outer one alone.
fn lcp(parent: &Interface, sub: &SubInterface, sibling: Option<Option<&SubInterface>>, errors: &mut Sink) {
    let Some(lcp) = &sub.lcp else { return };
    let path = format!("{}.lcp", sub.path);
    if parent.lcp.is_none() {
        let message = format!("the parent `{}` has no LCP", parent.name);
        say(errors, lcp.place, path, "lcp-parent", message).help(format!("add `lcp` to {}", parent.path));
        return;
    }
    let Some(sibling) = sibling else { return };
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
