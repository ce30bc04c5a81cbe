//! The sections `interfaces` (with sub-interfaces) and `loopbacks`.

use std::collections::BTreeMap;

use net::router::{DEVICE_NAME, MTU, is_device_name, means_already};
use packet::MacAddr;

use super::acl::{self, AclUse};
use super::decode::{Decoder, Fields};
use super::device::{self, DeviceEntry};
use super::diag::{Diagnostic, Place};
use super::model::{Address, Encap, Interface, InterfaceKind, SubInterface, Tap};
use super::mpls_tunnel::MplsTunnel;
use super::scalar::{Reference, number, short};
use super::tree::Node;
use super::virtuals;

pub(super) const INTERFACE: &[&str] = &[
    "description",
    "mac",
    "lcp",
    "mtu",
    "addresses",
    "unnumbered",
    "l2xc",
    "state",
    "mpls",
    "device-type",
    "sflow",
    "acls",
    "sub-interfaces",
];

pub(super) const SUB_INTERFACE: &[&str] = &[
    "description",
    "lcp",
    "mtu",
    "addresses",
    "unnumbered",
    "l2xc",
    "state",
    "mpls",
    "acls",
    "encapsulation",
];

pub(super) const LOOPBACK: &[&str] = &["description", "mac", "lcp", "mtu", "addresses", "unnumbered", "mpls"];
/// What `interfaces` may add to a loopback that `loopbacks` declares.
const LOOPBACK_IN_INTERFACES: &[&str] = &["state"];
pub(super) const ENCAPSULATION: &[&str] =
    &["dot1q", "dot1ad", "inner-dot1q", "exact-match", "untagged", "default"];

/// MTU of an interface that the document gives none. 0 stands for one that was given wrong.
pub(super) const DEFAULT_MTU: u16 = 1500;

/// The other sections that say what stands behind an interface.
pub(super) struct Others<'a, 'n> {
    pub devices: &'a mut BTreeMap<&'n str, DeviceEntry>,
    pub taps: &'a mut BTreeMap<&'n str, Tap>,
    pub loopbacks: &'a mut [Option<Interface>],
    pub mpls_tunnels: &'a mut BTreeMap<&'n str, MplsTunnel>,
    pub virtuals: &'a mut virtuals::All<'n>,
}

/// The section `interfaces`.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    others: &mut Others<'_, 'n>,
) -> Option<Vec<Interface>> {
    let mut interfaces = Vec::new();
    for (name, place, node) in d.entries(node, "interface names") {
        interfaces.extend(d.key(name, |d| interface(d, name, place, node, others)));
    }
    Some(interfaces)
}

fn interface<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    node: &'n Node<'n>,
    others: &mut Others<'_, 'n>,
) -> Option<Interface> {
    if numbered(name, "loop").is_some() {
        return loopback_state(d, name, place, node, others);
    }
    check_name(d, name, place);
    let fields = d.fields(node, INTERFACE);
    let tap = numbered(name, "tap").is_some();
    let entry = others.devices.remove(name);
    let promiscuous = entry.as_ref().is_some_and(|e| e.promiscuous);
    let placement = entry.as_ref().map(|e| e.placement.clone()).unwrap_or_default();
    let handoff = entry.as_ref().and_then(|e| e.handoff.clone());
    let device = entry.as_ref().map(|e| (e.place, e.only_promiscuous));
    let kind = if tap {
        device::tap_kind(d, name, place, others.taps, entry)
    } else if numbered(name, "mpls-tunnel").is_some() {
        let tunnel = others.mpls_tunnels.remove(name).map(InterfaceKind::MplsTunnel);
        if tunnel.is_none() {
            d.error(place, "undeclared", format!("the tunnel `{name}` is not declared")).help(format!(
                "add `{name}` with its paths to the section `mpls`: {{tunnels: {{{name}: {{via: ...}}}}}}"
            ));
        }
        tunnel
    } else if let Some(section) = virtuals::section_of(name) {
        let declared = others.virtuals.remove(name).map(InterfaceKind::Virtual);
        if declared.is_none() {
            d.error(place, "undeclared", format!("the interface `{name}` is not declared"))
                .help(format!("add `{name}` to the section `{}`", section.name));
        }
        declared
    } else {
        Some(InterfaceKind::Device(device::take(name, place, entry)))
    };
    let kind = kind?;
    let without = kind.is_without_device();
    let frames = kind.is_tunnel_of_frames();
    if let (true, Some((place, only_promiscuous))) = (without, device)
        && !(frames && only_promiscuous)
    {
        let but = if frames { ", or all of it but `promiscuous`" } else { "" };
        d.error(place, "device-unused", format!("`{name}` has no device of its own"))
            .help(format!("remove devices.{name}{but}"));
    }
    let mut result = blank(d.path(), name, place, kind);
    result.promiscuous = promiscuous;
    result.placement = placement;
    result.handoff = handoff;
    let Some(fields) = fields else {
        result.mtu = 0;
        return Some(result);
    };
    common(d, &fields, &mut result);
    if let Some(section) = virtuals::section_of(name).filter(|s| s.says_mac && fields.has("mac")) {
        d.key("mac", |d| {
            d.error(
                fields.key_place("mac"),
                "section-mac",
                format!("the MAC address of `{name}` stands here"),
            )
            .help(format!("move it to {}.{name}.mac", section.name));
        });
    }
    virtuals::fill(&mut result, fields.has("mtu"));
    if let (InterfaceKind::Tap(tap), None) = (&result.kind, &result.description) {
        result.description.clone_from(&tap.description);
    }
    tap_mtu(d, &mut result);
    let physical = matches!(result.kind, InterfaceKind::Device(_));
    d.field(&fields, "device-type", |d, node| {
        d.choice(node, &[("dpdk", ())])?;
        if !physical {
            d.error(
                fields.key_place("device-type"),
                "not-physical",
                format!("`{name}` is no physical interface"),
            )
            .help("remove `device-type`, which says how a device is opened");
            return None;
        }
        // It says how VPP opens the device. Here `devices` says that, so a file that has it runs as it is.
        d.note(fields.key_place("device-type"), "no-effect", "`device-type` means nothing to Quiver")
            .help("`devices` says which driver opens the device; without an entry it is af-packet");
        Some(())
    });
    not_yet_true(d, &fields, "sflow");
    let subs = d.field(&fields, "sub-interfaces", |d, node| {
        let mut subs = Vec::new();
        for (id, place, node) in d.entries(node, "sub-interface numbers") {
            let sub = d.key(id, |d| sub_interface(d, id, place, node, &result));
            subs.extend(sub);
        }
        Some(subs)
    });
    result.sub_interfaces = subs.unwrap_or_default();
    Some(result)
}

/// Reports a bond or tunnel that `interfaces` does not have.
pub(super) fn only_declared(d: &mut Decoder<'_>, name: &str, place: Place, path: &str) {
    // One that is named wrong was reported.
    if virtuals::section_of(name).is_none() {
        return;
    }
    let message = format!("`{name}` does not stand in `interfaces`");
    let error = Diagnostic::new(place, path, "not-in-interfaces", message);
    d.errors
        .add(error)
        .help(format!("add `{name}: {{}}` there: its addresses and sub-interfaces go there too"));
}

/// An interface with every default.
pub(super) fn blank(path: String, name: &str, place: Place, kind: InterfaceKind) -> Interface {
    Interface {
        name: name.to_string(),
        place,
        path,
        kind,
        description: None,
        mac: None,
        promiscuous: false,
        placement: vec![],
        handoff: None,
        mtu: DEFAULT_MTU,
        mtu_place: place,
        addresses: Vec::new(),
        lcp: None,
        unnumbered: None,
        mpls: false,
        l2xc: None,
        acls: AclUse::default(),
        up: true,
        sub_interfaces: Vec::new(),
    }
}

/// A TAP's MTU equals its host side's, which follows it when it is not given.
fn tap_mtu(d: &mut Decoder<'_>, interface: &mut Interface) {
    let InterfaceKind::Tap(tap) = &mut interface.kind else { return };
    if tap.host_mtu == 0 {
        tap.host_mtu = interface.mtu;
    } else if interface.mtu != 0 && interface.mtu != tap.host_mtu {
        let (mtu, host) = (interface.mtu, tap.host_mtu);
        d.error(interface.mtu_place, "tap-mtu", format!("the TAP's MTU is {mtu}, its host side's {host}"))
            .value(mtu)
            .help(format!("mtu: {host} here, or {mtu} in taps.{}.host", interface.name));
    }
}

/// Fills in the fields that interfaces and loopbacks share; a field that is not in `fields` keeps its default.
fn common<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, to: &mut Interface) {
    let c = Common::decode(d, fields, DEFAULT_MTU, OWN_STATES);
    to.description = c.description;
    to.mac = c.mac;
    to.mtu = c.mtu;
    to.mtu_place = fields.get("mtu").map_or(to.place, |node| node.place);
    to.addresses = c.addresses;
    to.lcp = c.lcp;
    to.unnumbered = c.unnumbered;
    to.mpls = c.mpls;
    to.l2xc = c.l2xc;
    to.acls = c.acls;
    to.up = c.state == State::Up;
}

/// The fields that interfaces, sub-interfaces and loopbacks share.
struct Common {
    description: Option<String>,
    mac: Option<MacAddr>,
    mtu: u16,
    addresses: Vec<Address>,
    lcp: Option<Reference>,
    unnumbered: Option<Reference>,
    mpls: bool,
    l2xc: Option<Reference>,
    acls: AclUse,
    state: State,
}

/// What `state` says.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Up,
    Down,
    /// Of a sub-interface: up whenever its parent is.
    Follow,
}

impl Common {
    fn decode<'n>(
        d: &mut Decoder<'n>,
        fields: &Fields<'n>,
        default_mtu: u16,
        states: &[(&str, State)],
    ) -> Common {
        let acls = d.field(fields, "acls", acl::uses);
        if fields.has("acls") {
            d.key("acls", |d| d.unsupported(fields.key_place("acls"), "`acls`"));
        }
        let lcp = d.field(fields, "lcp", |d, node| d.lcp_name(node));
        let unnumbered = d.field(fields, "unnumbered", |d, node| d.reference(node));
        Common {
            description: d.field(fields, "description", |d, node| d.description(node)),
            mac: d.field(fields, "mac", |d, node| d.mac(node)),
            mtu: mtu(d, fields, default_mtu),
            addresses: d.field(fields, "addresses", addresses).unwrap_or_default(),
            lcp,
            unnumbered,
            mpls: d.field(fields, "mpls", |d, node| d.boolean(node)).unwrap_or(false),
            l2xc: d.field(fields, "l2xc", |d, node| d.reference(node)),
            acls: acls.unwrap_or_default(),
            state: d.field(fields, "state", |d, node| d.choice(node, states)).unwrap_or(State::Up),
        }
    }
}

/// The words of `state`. What has no parent to follow takes the first two.
const STATES: &[(&str, State)] = &[("up", State::Up), ("down", State::Down), ("follow", State::Follow)];
const OWN_STATES: &[(&str, State)] = STATES.split_at(2).0;

/// `mtu`, the default when absent, 0 when wrong, so that rules about it can keep quiet.
pub(super) fn mtu<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, default: u16) -> u16 {
    if !fields.has("mtu") {
        return default;
    }
    d.field(fields, "mtu", |d, node| d.int(node, *MTU.start(), *MTU.end())).unwrap_or(0)
}

fn addresses<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<Address>> {
    let items = d.items(node, "addresses with prefix lengths");
    if let Some(seventh) = items.get(6) {
        d.error(seventh.place, "addresses-count", format!("{} addresses on one interface", items.len()))
            .help("at most six");
    }
    let mut addresses = Vec::new();
    for (i, node) in items.iter().enumerate() {
        let net = d.index(i, |d| d.interface_address(node));
        addresses.extend(net.map(|net| Address { net, place: node.place }));
    }
    Some(addresses)
}

fn not_yet_true<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, name: &'static str) {
    if d.field(fields, name, |d, node| d.boolean(node)) == Some(true) {
        d.key(name, |d| d.unsupported(fields.key_place(name), &format!("`{name}: true`")));
    }
}

fn sub_interface<'n>(
    d: &mut Decoder<'n>,
    id_text: &'n str,
    place: Place,
    node: &'n Node<'n>,
    parent: &Interface,
) -> Option<SubInterface> {
    // Only decimal: 0x5 would be another name for 5.
    let decimal = if id_text.starts_with("0x") { "0x" } else { id_text };
    let id = d.int_text(place, decimal, 1, u32::MAX.into());
    if node.is_null() {
        d.error(place, "required", "nothing is said of the sub-interface")
            .help(format!("{id_text}: {{}} for all defaults"));
    }
    let fields = d.fields(node, SUB_INTERFACE)?;
    let c = Common::decode(d, &fields, parent.mtu, STATES);
    let id = u32::try_from(id?).ok()?;
    let encapsulation = match fields.get("encapsulation") {
        Some(node) => d.key("encapsulation", |d| encapsulation(d, node)),
        None => default_encapsulation(d, id, place),
    };
    // With a wrong one the sub-interface stays, so that its name is known, and the rules keep quiet about it.
    Some(SubInterface {
        id,
        name: format!("{}.{id}", parent.name),
        place,
        path: d.path(),
        description: c.description,
        encapsulation,
        mtu: c.mtu,
        mtu_place: fields.get("mtu").map_or(place, |node| node.place),
        addresses: c.addresses,
        promiscuous: false,
        lcp: c.lcp,
        unnumbered: c.unnumbered,
        mpls: c.mpls,
        l2xc: c.l2xc,
        acls: c.acls,
        up: c.state != State::Down,
        follows: c.state == State::Follow,
    })
}

fn default_encapsulation(d: &mut Decoder<'_>, id: u32, place: Place) -> Option<Encap> {
    match u16::try_from(id) {
        Ok(vlan @ 1..=4095) => {
            Some(Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true })
        }
        _ => {
            d.error(place, "encapsulation", format!("sub-interface {id} has no encapsulation"))
                .help("only 1 to 4095 stand for their own VLAN: add encapsulation: {dot1q: 1..4095}");
            None
        }
    }
}

fn encapsulation<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Encap> {
    let fields = d.fields(node, ENCAPSULATION)?;
    let vlan = |d: &mut Decoder<'n>, name| d.field(&fields, name, vlan);
    let (dot1q, dot1ad) = (vlan(d, "dot1q"), vlan(d, "dot1ad"));
    let inner = vlan(d, "inner-dot1q");
    let switch =
        |d: &mut Decoder<'n>, name| d.field(&fields, name, |d, node| d.boolean(node)).unwrap_or(false);
    let exact = switch(d, "exact-match");
    let (untagged, default) = (switch(d, "untagged"), switch(d, "default"));
    if untagged || default {
        let alone = if untagged { "untagged" } else { "default" };
        let other = ENCAPSULATION.iter().find(|name| **name != alone && fields.has(name));
        if let Some(other) = other {
            d.error(fields.key_place(other), "encapsulation", format!("both {alone} and {other} are given"))
                .help(format!("`{alone}: true` stands alone"));
            return None;
        }
        return Some(if untagged { Encap::Untagged } else { Encap::Default });
    }
    match (fields.has("dot1q"), fields.has("dot1ad")) {
        (true, true) => {
            d.error(fields.key_place("dot1ad"), "encapsulation", "both dot1q and dot1ad are given")
                .help("one outer tag: dot1q or dot1ad, and inner-dot1q for a second tag");
            return None;
        }
        (false, false) => {
            let (place, message) = if fields.has("inner-dot1q") {
                (fields.key_place("inner-dot1q"), "inner-dot1q without an outer tag")
            } else {
                (fields.place, "no tag is given")
            };
            d.error(place, "encapsulation", message).help("add dot1q or dot1ad, 1 to 4095");
            return None;
        }
        _ if fields.has("inner-dot1q") && inner.is_none() => return None,
        _ => {}
    }
    let outer = dot1q.or(dot1ad)?;
    let encap = Encap::Tags { dot1ad: dot1ad.is_some(), outer, inner, exact };
    if exact && !encap.is_by_number() {
        d.error(fields.key_place("exact-match"), "encapsulation", "exact-match needs tags by number")
            .help("1 to 4095 in place of `any`, or no exact-match");
        return None;
    }
    Some(encap)
}

/// A VLAN, or `any`: `Some(None)`.
fn vlan<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Option<u16>> {
    if d.is_word(node, "any") { Some(None) } else { d.int(node, 1u16, 4095).map(Some) }
}

/// The section `loopbacks`.
pub(super) fn loopbacks<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<Interface>> {
    let mut loopbacks = Vec::new();
    for (name, place, node) in d.entries(node, "loopback names") {
        d.key(name, |d| {
            if !object_name(d, name, place, "loop", 4095) {
                return;
            }
            let mut loopback = blank(d.path(), name, place, InterfaceKind::Loopback);
            match d.fields(node, LOOPBACK) {
                Some(fields) => common(d, &fields, &mut loopback),
                None => loopback.mtu = 0,
            }
            loopbacks.push(loopback);
        });
    }
    Some(loopbacks)
}

/// `interfaces.loopN` may give the state of a loopback that `loopbacks` declares, and its place among the interfaces.
fn loopback_state<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    node: &'n Node<'n>,
    others: &mut Others<'_, 'n>,
) -> Option<Interface> {
    let fields = d.fields(node, LOOPBACK_IN_INTERFACES);
    let state = fields.and_then(|fields| d.field(&fields, "state", |d, node| d.choice(node, OWN_STATES)));
    let mut declared = others.loopbacks.iter_mut();
    let found = declared.find(|l| l.as_ref().is_some_and(|l| l.name == name)).and_then(Option::take);
    let Some(mut loopback) = found else {
        d.error(place, "undeclared", format!("the loopback `{name}` is not declared"))
            .help(format!("add `{name}` to the section `loopbacks`"));
        return None;
    };
    loopback.up = state != Some(State::Down);
    Some(loopback)
}

/// Checks a name such as `loop0` with its number from 0 to `most`.
pub(super) fn object_name(d: &mut Decoder<'_>, name: &str, place: Place, stem: &str, most: u64) -> bool {
    object_number(d, name, place, stem, 0, most).is_some()
}

/// The number of a name such as `bd1`, from `least` to `most`.
pub(super) fn object_number(
    d: &mut Decoder<'_>,
    name: &str,
    place: Place,
    stem: &str,
    least: u64,
    most: u64,
) -> Option<u64> {
    let right = numbered(name, stem).filter(|n| (least..=most).contains(n));
    if right.is_none() {
        d.error(place, "object-name", format!("{} is not a name for this section", short(name)))
            .value(name)
            .help(format!("{stem}N with N from {least} to {most}"));
    }
    right
}

/// N of a name that is `stem` followed by a number.
pub(super) fn numbered(name: &str, stem: &str) -> Option<u64> {
    let digits = name.strip_prefix(stem)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| number(digits)).flatten()
}

fn check_name(d: &mut Decoder<'_>, name: &str, place: Place) {
    let fault = |d: &mut Decoder<'_>, why: &str, help: String| {
        let message = format!("{} cannot name an interface{why}", short(name));
        d.error(place, "interface-name", message).help(help);
    };
    if !is_device_name(name) {
        let help = match name.split_once('.') {
            Some((parent, id)) if number(id).is_some() && is_device_name(parent) => format!(
                "a sub-interface stands under its parent: interfaces.{parent}.sub-interfaces.{id}; \
                 for a Linux VLAN device choose another name and say which device in `devices`"
            ),
            _ => DEVICE_NAME.to_string(),
        };
        return fault(d, "", help);
    }
    if let Some(why) = means_already(name) {
        let help =
            format!("choose another name, and say which device it is: devices: {{NAME: {{host: {name}}}}}");
        fault(d, &format!(": {why}"), help);
    }
}
