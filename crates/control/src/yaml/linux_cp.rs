//! Pairs in Linux: the fields `lcp`, and the section `linux-cp`.

use net::linux_cp::{FPM_HOLD, FpmListen, LcpSetting, LinuxPair, Paired, RX_BUFFER};
use net::router::Op;
use std::collections::HashMap;

use super::InterfaceKind;
use super::decode::{Decoder, Fields};
use super::diag::Place;
use super::l3::Setting;
use super::rules::{Names, Port};
use super::tap::namespace;
use super::tree::Node;

/// Where devices in Linux are named first: by namespace and name.
type Seen = HashMap<(Option<String>, String), Place>;

pub(super) const LINUX_CP: &[&str] = &[
    "default-netns",
    "lcp-sync",
    "lcp-auto-subint",
    "netlink",
    "nl-sync",
    "fpm",
    "nl-rx-buffer-size",
    "interfaces",
];
pub(super) const FPM: &[&str] = &["address", "port", "netns", "hold"];
pub(super) const PAIR: &[&str] = &["host-if", "netns"];

/// All pairs, and what holds for them; `lcp` makes those in the default namespace.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, root: &Fields<'n>, names: &Names<'_>) -> Vec<Setting> {
    let mut out = vec![];
    let mut netns = None;
    d.field(root, "linux-cp", |d, node| section(d, node, names, &mut netns, &mut out));
    for port in &names.list {
        let Some(lcp) = port.lcp() else { continue };
        let linux = Paired { host: lcp.name.clone(), netns: netns.clone() };
        let feature = LinuxPair(Some(linux)).into();
        let op = Op::SetFeature { name: port.name().into(), feature };
        out.push(Setting { place: lcp.place, path: format!("{}.lcp", port.path()), op });
    }
    out
}

fn section<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
    netns: &mut Option<String>,
    out: &mut Vec<Setting>,
) -> Option<()> {
    let fields = d.fields(node, LINUX_CP)?;
    *netns = d.field(&fields, "default-netns", namespace);
    let mut set = |d: &Decoder<'n>, field: &'static str, op: Option<LcpSetting>| {
        let path = format!("{}.{field}", d.path());
        out.extend(op.map(|op| Setting { place: fields.key_place(field), path, op: op.into() }));
    };
    set(d, "default-netns", netns.clone().map(|n| LcpSetting::DefaultNetns(Some(n))));
    let sync = d.field(&fields, "lcp-sync", |d, node| d.boolean(node));
    set(d, "lcp-sync", sync.map(LcpSetting::Sync));
    let auto = d.field(&fields, "lcp-auto-subint", |d, node| d.boolean(node));
    set(d, "lcp-auto-subint", auto.map(LcpSetting::AutoSubint));
    let netlink = d.field(&fields, "netlink", |d, node| d.boolean(node));
    set(d, "netlink", netlink.map(LcpSetting::Netlink));
    let nl_sync = d.field(&fields, "nl-sync", |d, node| d.boolean(node));
    set(d, "nl-sync", nl_sync.map(LcpSetting::NlSync));
    let fpm = d.field(&fields, "fpm", fpm);
    set(d, "fpm", fpm.map(|fpm| LcpSetting::Fpm(Some(fpm))));
    let buffer =
        d.field(&fields, "nl-rx-buffer-size", |d, node| d.int(node, *RX_BUFFER.start(), *RX_BUFFER.end()));
    set(d, "nl-rx-buffer-size", buffer.map(LcpSetting::RxBuffer));
    let mut seen = Seen::new();
    for port in &names.list {
        seen.extend(port.lcp().map(|lcp| ((netns.clone(), lcp.name.clone()), lcp.place)));
    }
    d.field(&fields, "interfaces", |d, node| {
        for (name, place, node) in d.entries(node, "interface names") {
            out.extend(d.key(name, |d| interface(d, name, place, node, names, &mut seen)));
        }
        Some(())
    })
}

fn fpm<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<FpmListen> {
    let fields = d.fields(node, FPM)?;
    let default = FpmListen::default();
    let netns = d.field(&fields, "netns", namespace);
    let address = d.field(&fields, "address", |d, node| {
        let text = d.string(node, "an IP address", 64)?;
        d.address(node.place, &text)
    });
    let port = d.field(&fields, "port", |d, node| d.int(node, 1, u16::MAX));
    let hold = d.field(&fields, "hold", |d, node| d.int(node, *FPM_HOLD.start(), *FPM_HOLD.end()));
    let bad = (fields.has("netns") && netns.is_none())
        || (fields.has("address") && address.is_none())
        || (fields.has("port") && port.is_none())
        || (fields.has("hold") && hold.is_none());
    (!bad).then(|| FpmListen {
        address: address.unwrap_or(default.address),
        port: port.unwrap_or(default.port),
        netns,
        hold: hold.unwrap_or(default.hold),
    })
}

fn interface<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    node: &'n Node<'n>,
    names: &Names<'_>,
    seen: &mut Seen,
) -> Option<Setting> {
    let port = match names.get(name) {
        Ok(port) => port,
        Err(e) => {
            d.error(place, e.rule, e.message).value(name).help(e.help);
            return None;
        }
    };
    let fields = d.fields(node, PAIR)?;
    let host =
        d.required(&fields, "host-if", "the name of the device in Linux", |d, node| d.lcp_name(node))?;
    let netns = d.field(&fields, "netns", namespace);
    if fields.has("netns") && netns.is_none() {
        return None;
    }
    if let Some(lcp) = port.lcp() {
        let message = format!("`{name}` has the LCP `{}` already, on line {}", lcp.name, lcp.place.line);
        d.error(place, "lcp-twice", message).help("`lcp` for one in the default namespace, or an entry here");
        return None;
    }
    let device = (netns.clone(), host.name.clone());
    if let Some(first) = seen.get(&device) {
        let message = format!("the LCP name `{}` is taken on line {}", host.name, first.line);
        d.error(host.place, "lcp-unique", message).value(&host.name).help("a name of its own");
        return None;
    }
    seen.insert(device, host.place);
    fits(d, place, port, names)?;
    let linux = Paired { host: host.name, netns };
    let op = Op::SetFeature { name: name.into(), feature: LinuxPair(Some(linux)).into() };
    Some(Setting { place, path: d.path(), op })
}

/// Whether an interface can have a pair.
fn fits(d: &mut Decoder<'_>, place: Place, port: Port<'_>, names: &Names<'_>) -> Option<()> {
    let why = match (port.sub, &port.interface.kind) {
        _ if names.is_l2(port) => "is on layer 2",
        (Some(s), _) if !s.encapsulation.as_ref().is_none_or(|e| e.is_exact()) => {
            "takes frames of several VLANs"
        }
        (None, InterfaceKind::Tap(_)) => "is a TAP, which Linux has already",
        (None, InterfaceKind::MplsTunnel(_)) => "is an MPLS tunnel, over which packets only leave",
        _ => return Some(()),
    };
    let message = format!("`{}` {why}", port.name());
    d.error(place, "lcp-kind", message)
        .help("a routed device, loopback or tunnel, or a sub-interface that matches its tags exactly");
    None
}
