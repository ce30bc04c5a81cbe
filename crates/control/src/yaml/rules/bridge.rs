//! Bridge domains: what their members and BVIs must be.

use std::collections::HashMap;

use super::{Names, Port, or_own_mtu, say};
use crate::yaml::diag::{Place, Sink};
use crate::yaml::model::BridgeDomain;
use crate::yaml::scalar::Reference;

pub(super) fn check(bridges: &[BridgeDomain], names: &Names<'_>, errors: &mut Sink) {
    let mut bvis: HashMap<&str, (&str, Place)> = HashMap::new();
    let mut members: HashMap<&str, (&str, Place)> = HashMap::new();
    for bridge in bridges {
        if let Some(bvi) = &bridge.bvi {
            self::bvi(bridge, bvi, names, errors);
            match bvis.get(bvi.name.as_str()) {
                Some((first, place)) => {
                    let message = format!("`{}` is the BVI of `{first}` on line {}", bvi.name, place.line);
                    say(errors, bvi.place, format!("{}.bvi", bridge.path), "bvi-unique", message)
                        .value(&bvi.name)
                        .help("a loopback of its own");
                }
                None => drop(bvis.insert(&bvi.name, (&bridge.name, bvi.place))),
            }
        }
        for (i, member) in bridge.members.iter().enumerate() {
            let path = format!("{}.interfaces[{i}]", bridge.path);
            if let Some((first, place)) = members.get(member.name.as_str()) {
                let message = format!("`{}` is a member of `{first}` on line {}", member.name, place.line);
                say(errors, member.place, path, "bridge-unique", message)
                    .value(&member.name)
                    .help("an interface is in at most one bridge, once");
                continue;
            }
            members.insert(&member.name, (&bridge.name, member.place));
            match names.get(&member.name) {
                Ok(port) => self::member((bridge, member), names, port, &path, errors),
                Err(e) => {
                    say(errors, member.place, path, e.rule, e.message).value(&member.name).help(e.help);
                }
            }
        }
    }
}

fn member(
    (bridge, member): (&BridgeDomain, &Reference),
    names: &Names<'_>,
    port: Port<'_>,
    path: &str,
    errors: &mut Sink,
) {
    let name = port.name();
    let mut refuse = |message: String, help: String| {
        say(errors, member.place, path.to_string(), "bridge-member", message).value(name).help(help);
    };
    if !port.addresses().is_empty() {
        let help = format!("remove {}.addresses; the bridge's own stand on its BVI", port.path());
        refuse(format!("`{name}` has addresses"), help);
    }
    if port.lcp().is_some() {
        let help = format!("remove {}.lcp; the BVI may have one", port.path());
        refuse(format!("`{name}` has an LCP"), help);
    }
    if names.mtu_differs(port, bridge.mtu) {
        refuse(
            format!("the MTU {} of `{name}` differs from the bridge's {}", port.mtu(), bridge.mtu),
            format!(
                "mtu: {} in {}, or mtu: {} in {}{}",
                bridge.mtu,
                port.path(),
                port.mtu(),
                bridge.path,
                or_own_mtu(name)
            ),
        );
    }
}

fn bvi(bridge: &BridgeDomain, bvi: &Reference, names: &Names<'_>, errors: &mut Sink) {
    let path = format!("{}.bvi", bridge.path);
    let port = match names.get(&bvi.name) {
        Ok(port) => port,
        Err(e) => {
            say(errors, bvi.place, path, e.rule, e.message).value(&bvi.name).help(e.help);
            return;
        }
    };
    let name = port.name();
    let mut refuse = |message: String, help: String| {
        say(errors, bvi.place, path.clone(), "bridge-bvi", message).value(name).help(help);
    };
    if !port.is_loopback() {
        refuse(format!("`{name}` is not a loopback"), "name one of `loopbacks`".into());
        return;
    }
    if let Some((of, place)) = names.bridged.get(name) {
        refuse(
            format!("`{name}` is a member of `{}` on line {}", of.name, place.line),
            format!("remove it from {}.interfaces", of.path),
        );
    }
    if names.mtu_differs(port, bridge.mtu) {
        refuse(
            format!("the MTU {} of `{name}` differs from the bridge's {}", port.mtu(), bridge.mtu),
            format!(
                "mtu: {} in {}, or mtu: {} in {}{}",
                bridge.mtu,
                port.path(),
                port.mtu(),
                bridge.path,
                or_own_mtu(name)
            ),
        );
    }
}
