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
                self::member(interface, *place, port, path, names, errors);
            }
        }
    }
}

fn member(
    interface: &Interface,
    place: Place,
    port: Port<'_>,
    path: &str,
    names: &Names<'_>,
    errors: &mut Sink,
) {
    let name = port.name();
    let mut refuse = |message: String, help: String| {
        say(errors, place, path.to_string(), "bond-member", message).value(name).help(help);
    };
    if port.sub.is_some() || !matches!(port.interface.kind, InterfaceKind::Device(_)) {
        let help = "name a Linux device, a device of DPDK or capture files: not a TAP, a memif or vhost-user interface";
        refuse(format!("`{name}` is no physical interface"), help.into());
        return;
    }
    let own = format!("; the bond's own stand in {}", interface.path);
    for (has, what, field) in [
        (!port.interface.sub_interfaces.is_empty(), "sub-interfaces", "sub-interfaces"),
        (port.lcp().is_some(), "an LCP", "lcp"),
        (!port.addresses().is_empty(), "addresses", "addresses"),
        (port.unnumbered().is_some(), "the addresses of another interface", "unnumbered"),
        (port.l2xc().is_some(), "a cross-connect", "l2xc"),
    ] {
        if has {
            refuse(format!("`{name}` has {what}"), format!("remove {}.{field}{own}", port.path()));
        }
    }
    if let Some((bridge, place)) = names.bridged.get(name) {
        refuse(
            format!("`{name}` is in the bridge domain `{}`, on line {}", bridge.name, place.line),
            format!("put `{}` into it in its place", interface.name),
        );
    } else if let Some(place) = names.l2_targets.get(name)
        && port.l2xc().is_none()
    {
        refuse(
            format!("a cross-connect leads to `{name}`, on line {}", place.line),
            format!("let it lead to `{}`", interface.name),
        );
    }
    for (family, table) in [("IPv4", names.table(name, false)), ("IPv6", names.table(name, true))] {
        if table != 0 {
            refuse(
                format!("`{name}` is in {family} table {table}"),
                format!("bind `{}` to it", interface.name),
            );
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
