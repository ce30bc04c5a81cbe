//! Bonds: what their members must be.

use std::collections::HashMap;

use super::{Names, Port, say};
use crate::yaml::diag::{Place, Sink};
use crate::yaml::l3::Setting;
use crate::yaml::model::{Interface, InterfaceKind};

pub(super) fn check(interfaces: &[Interface], names: &Names<'_>, errors: &mut Sink) {
    let mut taken: HashMap<&str, (&str, Place)> = HashMap::new();
    for interface in interfaces {
        let InterfaceKind::Virtual(bond) = &interface.kind else { continue };
        if net::bond::is_name(&interface.name).is_none() {
            continue;
        }
        for (member, Setting { place, path, .. }) in &bond.others {
            if let Some((first, place_before)) = taken.get(member.as_str()) {
                let message = format!("`{member}` is a member of `{first}` on line {}", place_before.line);
                say(errors, *place, path.clone(), "bond-unique", message)
                    .value(member)
                    .help("an interface is in at most one bond, once");
                continue;
            }
            taken.insert(member, (&interface.name, *place));
            // One that is not there is reported where all of them are looked up.
            if let Ok(port) = names.get(member) {
                self::member(interface, *place, port, path, errors);
            }
        }
    }
}

fn member(interface: &Interface, place: Place, port: Port<'_>, path: &str, errors: &mut Sink) {
    let name = port.name();
    let mut refuse = |message: String, help: String| {
        say(errors, place, path.to_string(), "bond-member", message).value(name).help(help);
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
                interface.name
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
