//! Bonds: what their members must be.

use std::collections::HashMap;

use super::{Names, Port, say};
use crate::yaml::bond::Bond;
use crate::yaml::diag::{Place, Sink};
use crate::yaml::model::{Interface, InterfaceKind};
use crate::yaml::scalar::Reference;

pub(super) fn check(interfaces: &[Interface], names: &Names<'_>, errors: &mut Sink) {
    let mut taken: HashMap<&str, (&str, Place)> = HashMap::new();
    for interface in interfaces {
        let InterfaceKind::Bond(bond) = &interface.kind else { continue };
        for (i, member) in bond.members.iter().enumerate() {
            let path = format!("{}.interfaces[{i}]", bond.path);
            if let Some((first, place)) = taken.get(member.name.as_str()) {
                let message = format!("`{}` is a member of `{first}` on line {}", member.name, place.line);
                say(errors, member.place, path, "bond-unique", message)
                    .value(&member.name)
                    .help("an interface is in at most one bond, once");
                continue;
            }
            taken.insert(&member.name, (&bond.name, member.place));
            match names.get(&member.name) {
                Ok(port) => self::member((bond, interface), member, port, &path, errors),
                Err(e) => {
                    say(errors, member.place, path, e.rule, e.message).value(&member.name).help(e.help);
                }
            }
        }
    }
}

fn member(
    (bond, interface): (&Bond, &Interface),
    member: &Reference,
    port: Port<'_>,
    path: &str,
    errors: &mut Sink,
) {
    let name = port.name();
    let mut refuse = |message: String, help: String| {
        say(errors, member.place, path.to_string(), "bond-member", message).value(name).help(help);
    };
    if port.sub.is_some() || !matches!(port.interface.kind, InterfaceKind::Device(_)) {
        refuse(format!("`{name}` is no physical interface"), "name a device".into());
        return;
    }
    let own = format!("; the bond's own stand in {}", interface.path);
    for (has, what, field) in [
        (!port.interface.sub_interfaces.is_empty(), "sub-interfaces", "sub-interfaces"),
        (port.lcp().is_some(), "an LCP", "lcp"),
        (!port.addresses().is_empty(), "addresses", "addresses"),
    ] {
        if has {
            refuse(format!("`{name}` has {what}"), format!("remove {}.{field}{own}", port.path()));
        }
    }
    if port.interface.mac.is_some() {
        let help = format!("remove {}.mac; the bond may have one", port.path());
        refuse(format!("`{name}` has a MAC address of its own"), help);
    }
    if port.mtu() != interface.mtu && port.mtu() != 0 && interface.mtu != 0 {
        refuse(
            format!(
                "the MTU {} of `{name}` differs from the {} of `{}`",
                port.mtu(),
                interface.mtu,
                bond.name
            ),
            format!(
                "mtu: {} in {}, or mtu: {} in {}",
                interface.mtu,
                port.path(),
                port.mtu(),
                interface.path
            ),
        );
    }
}
