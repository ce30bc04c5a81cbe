//! What interfaces may say about each other, once every name is known.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::acl::{Acl, AclUse};
use super::decode::nearest;
use super::diag::{Diagnostic, Place, Sink};
use super::interface::numbered;
use super::model::{Address, BridgeDomain, Driver, Interface, InterfaceKind, SubInterface};
use super::scalar::{Reference, short};
use super::table::Tables;
use super::virtuals;

mod acl;
mod address;
mod bond;
mod bridge;
mod l2;
mod sub_interface;

/// An interface or sub-interface that a name stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port<'a> {
    pub interface: &'a Interface,
    pub sub: Option<&'a SubInterface>,
}

impl<'a> Port<'a> {
    pub fn name(self) -> &'a str {
        self.sub.map_or(&self.interface.name, |s| &s.name)
    }

    pub fn path(self) -> &'a str {
        self.sub.map_or(&self.interface.path, |s| &s.path)
    }

    pub fn place(self) -> Place {
        self.sub.map_or(self.interface.place, |s| s.place)
    }

    /// MTU; 0 when it was given wrong.
    pub fn mtu(self) -> u16 {
        self.sub.map_or(self.interface.mtu, |s| s.mtu)
    }

    pub fn addresses(self) -> &'a [Address] {
        self.sub.map_or(&self.interface.addresses, |s| &s.addresses)
    }

    pub fn lcp(self) -> Option<&'a Reference> {
        self.sub.map_or(&self.interface.lcp, |s| &s.lcp).as_ref()
    }

    pub fn l2xc(self) -> Option<&'a Reference> {
        self.sub.map_or(&self.interface.l2xc, |s| &s.l2xc).as_ref()
    }

    pub fn unnumbered(self) -> Option<&'a Reference> {
        self.sub.map_or(&self.interface.unnumbered, |s| &s.unnumbered).as_ref()
    }

    pub fn acls(self) -> &'a AclUse {
        self.sub.map_or(&self.interface.acls, |s| &s.acls)
    }

    /// False for tunnels of packets.
    pub fn carries_frames(self) -> bool {
        let mpls = matches!(&self.interface.kind, InterfaceKind::MplsTunnel(t) if !t.l2_only);
        self.sub.is_some() || !self.is_point_to_point() && !mpls
    }

    pub fn is_point_to_point(self) -> bool {
        self.sub.is_none() && self.interface.kind.is_point_to_point()
    }

    pub fn is_loopback(self) -> bool {
        self.interface.kind == InterfaceKind::Loopback
    }
}

/// Every interface and sub-interface by name.
#[derive(Debug)]
pub(super) struct Names<'a> {
    ports: HashMap<&'a str, Port<'a>>,
    /// All of them in the order of the document.
    pub list: Vec<Port<'a>>,
    /// Targets of cross-connects, with the place of the first use.
    pub l2_targets: HashMap<&'a str, Place>,
    /// Members of bridges, each with its bridge and the place of the first use.
    pub bridged: HashMap<&'a str, (&'a BridgeDomain, Place)>,
    /// Interfaces whose MTU may differ from that of their bridge, or of the other side of their cross-connect.
    own_mtu: HashSet<&'a str>,
    /// Loopbacks through which bridges are routed.
    bvis: HashSet<&'a str>,
    /// Own addresses by table, each with the name of its interface.
    pub own: HashMap<(u32, IpAddr), &'a str>,
    /// Network and broadcast addresses of prefixes by table, each with its prefix.
    pub nobody: HashMap<(u32, IpAddr), IpNet>,
    /// The routing tables.
    pub tables: &'a Tables,
    /// Numbers of the tables, IPv4 and IPv6, of interfaces that are not in table 0.
    bound: BTreeMap<&'a str, [u32; 2]>,
    /// Suggestions that may still be looked for: a hostile document could ask for millions.
    suggestions: Cell<usize>,
}

/// Why a name stands for no interface.
#[derive(Debug)]
pub(super) struct Unknown {
    pub rule: &'static str,
    pub message: String,
    pub help: String,
}

impl<'a> Names<'a> {
    pub fn new(
        interfaces: &'a [Interface],
        bridges: &'a [BridgeDomain],
        tables: &'a Tables,
        bound: BTreeMap<&'a str, [u32; 2]>,
        own_mtu: HashSet<&'a str>,
    ) -> Names<'a> {
        let mut list = Vec::new();
        for interface in interfaces {
            list.push(Port { interface, sub: None });
            list.extend(interface.sub_interfaces.iter().map(|sub| Port { interface, sub: Some(sub) }));
        }
        let mut l2_targets = HashMap::new();
        for target in list.iter().filter_map(|p| p.l2xc()) {
            l2_targets.entry(target.name.as_str()).or_insert(target.place);
        }
        let mut bridged = HashMap::new();
        for bridge in bridges {
            for member in &bridge.members {
                bridged.entry(member.name.as_str()).or_insert((bridge, member.place));
            }
        }
        let bvis = bridges.iter().filter_map(|b| b.bvi.as_ref()).map(|b| b.name.as_str()).collect();
        let table = |p: &Port<'_>, a: IpAddr| bound.get(p.name()).map_or(0, |b| b[usize::from(a.is_ipv6())]);
        let (mut own, mut nobody) = (HashMap::new(), HashMap::new());
        for (p, net) in list.iter().flat_map(|p| p.addresses().iter().map(move |a| (p, a.net))) {
            let table = table(p, net.addr());
            if let Some(a) = net::router::anycast(net) {
                own.entry((table, a)).or_insert(p.name());
            }
            own.insert((table, net.addr()), p.name());
            let ends = [net.network(), net.broadcast()].into_iter();
            nobody.extend(ends.filter(|a| net::router::nobody(net, *a)).map(|a| ((table, a), net.trunc())));
        }
        let suggestions = Cell::new(1_000_000);
        let ports = list.iter().map(|p| (p.name(), *p)).collect();
        Names { suggestions, own, nobody, tables, bound, ports, list, l2_targets, bridged, bvis, own_mtu }
    }

    /// The number of the table of an interface for a family.
    pub fn table(&self, name: &str, v6: bool) -> u32 {
        self.bound.get(name).map_or(0, |b| b[usize::from(v6)])
    }

    /// The interface or sub-interface of this name.
    pub fn get(&self, name: &str) -> Result<Port<'a>, Unknown> {
        if let Some(port) = self.ports.get(name) {
            return Ok(*port);
        }
        let unknown = |rule, message: String, help: String| Err(Unknown { rule, message, help });
        for (stem, section) in [("loop", "loopbacks"), ("tap", "taps"), ("mpls-tunnel", "mpls.tunnels")] {
            if numbered(name, stem).is_some() {
                let message = format!("the interface {} is not declared", short(name));
                return unknown("undeclared", message, format!("add it to the section `{section}`"));
            }
        }
        if let Some(section) = virtuals::section_of(name) {
            let message = format!("the interface {} is not declared", short(name));
            return unknown("undeclared", message, format!("add it to the section `{}`", section.name));
        }
        let message = format!("there is no interface {}", short(name));
        let parent = name.rsplit_once('.').and_then(|(parent, id)| Some((self.ports.get(parent)?, id)));
        let left = self.suggestions.get();
        self.suggestions.set(left.saturating_sub(self.list.len()));
        let near = nearest(name, self.list.iter().take(left).map(|p| p.name()));
        let help = match (parent, near) {
            (Some((parent, id)), _) => format!("add {}.sub-interfaces.{id}", parent.path()),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "name one of `interfaces`, `loopbacks` or `taps`".into(),
        };
        unknown("unknown-interface", message, help)
    }

    /// True where no station can be: on a loopback that is not the BVI of a bridge, or behind a tunnel for packets.
    pub fn is_alone(&self, port: Port<'_>) -> bool {
        port.is_loopback() && !self.bvis.contains(port.name()) || port.is_point_to_point()
    }

    /// Whether an MTU must be that of the bridge or the cross-connect, and is not. One that was given wrong is told.
    fn mtu_differs(&self, port: Port<'_>, from: u16) -> bool {
        port.mtu() != from && port.mtu() != 0 && from != 0 && !self.own_mtu.contains(port.name())
    }

    /// True for a port in a cross-connect, on either side, or in a bridge.
    pub fn is_l2(&self, port: Port<'_>) -> bool {
        port.l2xc().is_some()
            || self.l2_targets.contains_key(port.name())
            || self.bridged.contains_key(port.name())
    }
}

/// How to say that an MTU may differ.
fn or_own_mtu(name: &str) -> String {
    format!(", or l2.interfaces.{name}.own-mtu: true, where they are to differ")
}

/// Adds an error.
fn say<'s>(
    errors: &'s mut Sink,
    place: Place,
    path: String,
    rule: &'static str,
    message: String,
) -> &'s mut Diagnostic {
    errors.add(Diagnostic::new(place, path, rule, message))
}

/// Checks all rules between interfaces.
pub(super) fn check(
    interfaces: &[Interface],
    bridges: &[BridgeDomain],
    acls: &[Acl],
    names: &Names<'_>,
    errors: &mut Sink,
) {
    address::overlap(names, errors);
    lcp_unique(names, errors);
    hosts_unique(interfaces, errors);
    for interface in interfaces {
        tap(interface, errors);
        sub_interface::check(interface, errors);
    }
    for port in names.list.iter().filter(|p| p.is_point_to_point()) {
        if names.is_l2(*port) || !port.interface.sub_interfaces.is_empty() {
            let message = format!("`{}` carries packets and no frames", port.name());
            say(errors, port.place(), port.path().to_string(), "no-frames", message)
                .help("no bridge domain, cross-connect or sub-interfaces, or a tunnel for frames");
        }
    }
    l2::cross_connects(names, errors);
    l2::unnumbered(names, errors);
    bridge::check(bridges, names, errors);
    bond::check(interfaces, names, errors);
    acl::check(acls, names, errors);
}

fn lcp_unique(names: &Names<'_>, errors: &mut Sink) {
    let mut seen: HashMap<&str, Place> = HashMap::new();
    for port in &names.list {
        let Some(lcp) = port.lcp() else { continue };
        if let Some(first) = seen.get(lcp.name.as_str()) {
            let message = format!("the LCP name `{}` is taken on line {}", lcp.name, first.line);
            say(errors, lcp.place, format!("{}.lcp", port.path()), "lcp-unique", message)
                .value(&lcp.name)
                .help("a name of its own");
        } else {
            seen.insert(&lcp.name, lcp.place);
        }
    }
}

/// Two interfaces cannot stand on one Linux device, or on one of DPDK's.
fn hosts_unique(interfaces: &[Interface], errors: &mut Sink) {
    let mut seen: BTreeMap<(Option<&str>, &str), &Interface> = BTreeMap::new();
    let mut seen_by_dpdk: BTreeMap<&str, &Interface> = BTreeMap::new();
    let mut refuse = |i: &Interface, place, field, what: &str, device: &str, first: &Interface| {
        let message = format!("{what} `{device}` stands behind `{}` already", first.name);
        say(errors, place, format!("devices.{}.{field}", i.name), "device-unique", message)
            .value(device)
            .help("one interface a device: choose another device, or use sub-interfaces");
    };
    for interface in interfaces {
        let InterfaceKind::Device(device) = &interface.kind else { continue };
        let (key, field) = match &device.driver {
            Driver::Linux { host, namespace, .. } => ((namespace.as_deref(), host.as_str()), "host"),
            Driver::Dpdk(config) => {
                let name = config.device.device();
                if let Some(first) = seen_by_dpdk.insert(name, interface) {
                    refuse(interface, device.place, "device", "the device", name, first);
                    continue;
                }
                let Some(host) = config.device.linux_device() else { continue };
                ((None, host), "device")
            }
            Driver::Pcap { .. } => continue,
        };
        match seen.get(&key) {
            Some(first) if key.1 != "?" => {
                refuse(interface, device.place, field, "the Linux device", key.1, first)
            }
            _ => _ = seen.insert(key, interface),
        }
    }
}

fn tap(interface: &Interface, errors: &mut Sink) {
    let InterfaceKind::Tap(tap) = &interface.kind else { return };
    if let Err(why) = tap.addresses.check(tap.bridge.is_some(), Some(u32::from(tap.host_mtu))) {
        say(errors, tap.place, format!("taps.{}.host", interface.name), "tap-host-address", why);
    }
    let mut refuse = |place, field: &str, what| {
        let message = format!("a TAP carries no {what}");
        let or = match field {
            "lcp" => String::new(),
            _ => format!(", or add devices.{}.routed: true, which the format does not have", interface.name),
        };
        say(errors, place, format!("{}.{field}", interface.path), "tap-plain", message)
            .help(format!("configure the Linux side of the TAP instead{or}"));
    };
    if let Some(lcp) = &interface.lcp {
        refuse(lcp.place, "lcp", "LCP");
    }
    if tap.routed {
        return;
    }
    if let Some(address) = interface.addresses.first() {
        refuse(address.place, "addresses", "address");
    }
    if let Some(sub) = interface.sub_interfaces.first() {
        refuse(sub.place, "sub-interfaces", "sub-interfaces");
    }
}
