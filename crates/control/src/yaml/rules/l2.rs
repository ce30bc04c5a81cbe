//! Cross-connects, and what an interface in L2 mode may not have.

use std::collections::HashMap;

use super::{Names, Port, or_own_mtu, say};
use crate::yaml::diag::{Place, Sink};
use crate::yaml::scalar::Reference;

pub(super) fn cross_connects(names: &Names<'_>, errors: &mut Sink) {
    let mut taken: HashMap<&str, (&str, Place)> = HashMap::new();
    for port in &names.list {
        let Some(target) = port.l2xc() else { continue };
        source(names, *port, target, errors);
        if let Some(other) = target_port(names, *port, target, errors) {
            self::target(names, *port, target, other, errors);
        }
        match taken.get(target.name.as_str()) {
            Some((first, place)) => {
                let message = format!("`{}` is the target of `{first}` on line {}", target.name, place.line);
                say(errors, target.place, format!("{}.l2xc", port.path()), "l2xc-unique", message)
                    .help("a target of its own");
            }
            None => {
                taken.insert(&target.name, (port.name(), target.place));
            }
        }
    }
}

/// What the interface with `l2xc` itself may not have.
fn source(names: &Names<'_>, port: Port<'_>, target: &Reference, errors: &mut Sink) {
    let mut refuse = |what| {
        let message = format!("an interface with l2xc has no {what}");
        say(errors, target.place, format!("{}.l2xc", port.path()), "l2xc-plain", message)
            .help(format!("remove the {what}, or the l2xc"));
    };
    if !port.addresses().is_empty() {
        refuse("addresses");
    }
    if port.lcp().is_some() {
        refuse("lcp");
    }
    if port.sub.is_none() && !port.interface.sub_interfaces.is_empty() {
        refuse("sub-interfaces");
    }
    if let Some((bridge, place)) = names.bridged.get(port.name()) {
        let message = format!("it is a member of the bridge `{}` (line {})", bridge.name, place.line);
        say(errors, target.place, format!("{}.l2xc", port.path()), "l2xc-plain", message)
            .help(format!("remove it from {}.interfaces, or the l2xc", bridge.path));
    }
}

fn target_port<'a>(
    names: &Names<'a>,
    port: Port<'_>,
    target: &Reference,
    errors: &mut Sink,
) -> Option<Port<'a>> {
    let path = format!("{}.l2xc", port.path());
    match names.get(&target.name) {
        Ok(other) => Some(other),
        Err(e) => {
            say(errors, target.place, path, e.rule, e.message).value(&target.name).help(e.help);
            None
        }
    }
}

fn target(names: &Names<'_>, port: Port<'_>, target: &Reference, other: Port<'_>, errors: &mut Sink) {
    let path = format!("{}.l2xc", port.path());
    let mut refuse = |message: String, help: String| {
        say(errors, target.place, path.clone(), "l2xc-target", message).value(&target.name).help(help);
    };
    let name = other.name();
    if name == port.name() {
        refuse(format!("`{name}` is the interface itself"), "name the other side".into());
        return;
    }
    if other.is_loopback() {
        refuse(format!("`{name}` is a loopback"), "name a device, a TAP or a sub-interface".into());
        return;
    }
    if names.mtu_differs(port, other.mtu()) && names.mtu_differs(other, port.mtu()) {
        refuse(
            format!("the MTU {} differs from the {} of `{name}`", port.mtu(), other.mtu()),
            format!("the same mtu on both sides{}", or_own_mtu(port.name())),
        );
    }
    if !other.addresses().is_empty() {
        refuse(format!("`{name}` has addresses"), format!("remove {}.addresses", other.path()));
    }
    if other.lcp().is_some() {
        refuse(format!("`{name}` has an LCP"), format!("remove {}.lcp", other.path()));
    }
    if let Some((bridge, place)) = names.bridged.get(name) {
        let message = format!("`{name}` is a member of the bridge `{}` (line {})", bridge.name, place.line);
        refuse(message, format!("remove it from {}.interfaces", bridge.path));
    }
}

/// An interface that borrows another's addresses.
pub(super) fn unnumbered(names: &Names<'_>, errors: &mut Sink) {
    for port in &names.list {
        let Some(from) = port.unnumbered() else { continue };
        let mut refuse = |rule, message: String, help: String| {
            say(errors, from.place, format!("{}.unnumbered", port.path()), rule, message)
                .value(&from.name)
                .help(help);
        };
        if !port.addresses().is_empty() {
            refuse("unnumbered", "it has addresses of its own".into(), "remove `addresses`".into());
        }
        if names.is_l2(*port) {
            refuse(
                "unnumbered",
                "it is in L2 mode".into(),
                "remove the cross-connect, or take it out of the bridge".into(),
            );
        }
        match names.get(&from.name) {
            Err(e) => refuse(e.rule, e.message, e.help),
            Ok(other) if other.name() == port.name() => {
                refuse("unnumbered", "it names itself".into(), "name another interface".into());
            }
            Ok(other) if names.is_l2(other) => {
                refuse(
                    "unnumbered",
                    format!("`{}` is in L2 mode", from.name),
                    "name an interface with addresses".into(),
                );
            }
            Ok(other) if other.unnumbered().is_some() => refuse(
                "unnumbered",
                format!("`{}` is itself unnumbered (line {})", from.name, other.place().line),
                "name an interface with addresses".into(),
            ),
            Ok(_) => {}
        }
    }
}
