//! Plans in the operator's words, and as commands.

use super::bulk::{Goal, Hop, Item, LabelKey, RouteKey};
use super::known::{Known, known};
use super::objects::{Id, Value};
use super::steps::{Plan, Step};
use command::quote;
use model::{Phase, Reason};
use net::copp::SetLimit;
use net::l2::bridge::{BridgeOp, StaticMac};
use net::mpls::MplsOp;
use net::proxy::{NdProxy, ProxyArp};
use net::router::{
    Encap, Feature, HostConfig, HostDriver, Lookup, Offload, Op, PcapConfig, Rank, Ring, RouteTable,
    TapConfig, XdpMode,
};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write;

/// A line for the operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// `+` where something comes, `-` where it goes, `~` where it changes.
    pub sign: &'static str,
    /// What, and how.
    pub text: String,
    /// Commands that do it, where commands can.
    pub commands: Vec<String>,
    /// Whose traffic is touched, and why that cannot be avoided.
    pub touches: Option<String>,
}

/// Routes and labels of a run that are named one by one in a plan.
const SOME: usize = 3;

impl Line {
    /// As JSON.
    pub fn to_json(&self) -> Json {
        let verb = match self.sign {
            "+" => "add",
            "-" => "remove",
            _ => "change",
        };
        json!({ "verb": verb, "what": self.text, "commands": self.commands, "touches": self.touches })
    }
}

/// What differs, an object a line; `start` and how many are asked for, as there may be a million. The answer is where to go on.
pub fn differences(plan: &Plan, start: (usize, usize), most: usize) -> (Vec<Line>, Option<(usize, usize)>) {
    let (mut at, mut item) = start;
    let mut out = vec![];
    while let Some(step) = plan.steps.get(at) {
        if out.len() >= most {
            return (out, Some((at, item)));
        }
        let more = match &step.id {
            _ if step.is_taken_along() => false,
            Id::Routes(n) => {
                let run = plan.runs.routes.get(*n).and_then(|r| r.items.get(item));
                out.extend(run.map(|i| route(plan, i)));
                run.is_some()
            }
            Id::Labels(n) => {
                let run = plan.runs.labels.get(*n).and_then(|r| r.items.get(item));
                out.extend(run.map(|i| label(plan, i)));
                run.is_some()
            }
            // Anew for what it is: once.
            _ if step.anew.is_some() && step.phase == Phase::Remove => false,
            _ if step.is_visible() => {
                out.push(difference(step));
                false
            }
            _ => false,
        };
        (at, item) = if more { (at, item + 1) } else { (at + 1, 0) };
    }
    (out, None)
}

/// What commands made and a plan leaves, an object a line, of so many at most; how many more there are.
pub fn stays(plan: &Plan, most: usize) -> (Vec<String>, usize) {
    let step = |(id, value): &(Id, Value)| Step {
        id: id.clone(),
        phase: Phase::Remove,
        anew: None,
        old: Some(value.clone()),
        new: None,
        goes_along: false,
    };
    let objects: Vec<Step> = plan.stays.iter().map(step).filter(Step::is_visible).collect();
    let runs = &plan.runs;
    let routes = runs.routes_stay.iter().map(|(key, goal)| route(plan, &Item::gone(*key, *goal)).text);
    let labels = runs.labels_stay.iter().map(|(key, goal)| label(plan, &Item::gone(*key, *goal)).text);
    let some: Vec<String> =
        objects.iter().map(|s| difference(s).text).chain(routes).chain(labels).take(most).collect();
    let more = objects.len() + runs.routes_stay.len() + runs.labels_stay.len() - some.len();
    (some, more)
}

fn difference(step: &Step) -> Line {
    let (old, new) = (step.old.as_ref(), step.new.as_ref());
    let subject = subject(&step.id);
    let value = |v: Option<&Value>| v.map(|v| value(&step.id, v)).filter(|t| !t.is_empty());
    let (sign, text) = match (old, new) {
        (Some(_), Some(_)) => {
            let (a, b) = (value(old).unwrap_or_default(), value(new).unwrap_or_default());
            ("~", if a == b { subject } else { format!("{subject}: {a} -> {b}") })
        }
        (None, _) => ("+", value(new).map_or(subject.clone(), |v| format!("{subject}: {v}"))),
        (_, None) => ("-", value(old).map_or(subject.clone(), |v| format!("{subject}: {v}"))),
    };
    Line { sign, text, ..Line::default() }
}

fn route(plan: &Plan, item: &Item<RouteKey>) -> Line {
    let (table, prefix, rank) = item.key;
    let of = if table == 0 { String::new() } else { format!(" table {table}") };
    let goals = plan.runs.goals_of(item);
    let v6 = prefix.addr().is_ipv6();
    let (old, new) =
        (goals.0.map(|g| ranked_goal(g, v6, item.before)), goals.1.map(|g| ranked_goal(g, v6, rank)));
    between(&format!("route {prefix}{of}"), (old, new))
}

/// A goal of a route, as commands say it.
fn ranked_goal(g: &Goal, v6: bool, rank: Rank) -> String {
    goal(g, v6, &rank_words(rank))
}

/// Preference and metric behind a path, where they are not the usual ones.
fn rank_words(rank: Rank) -> String {
    let mut out = String::new();
    if rank.preference != Rank::STATIC.preference {
        let _ = write!(out, " preference {}", rank.preference);
    }
    if rank.metric != Rank::STATIC.metric {
        let _ = write!(out, " metric {}", rank.metric);
    }
    out
}

fn label(plan: &Plan, item: &Item<LabelKey>) -> Line {
    let (table, label, bottom) = item.key;
    let of = if table == 0 { String::new() } else { format!(" table {table}") };
    let eos = if bottom { "eos" } else { "non-eos" };
    let (old, new) = plan.runs.goals_of(item);
    let words = |g: &Goal| goal(g, false, "");
    between(&format!("label {label} {eos}{of}"), (old.map(words), new.map(words)))
}

fn between(what: &str, goals: (Option<String>, Option<String>)) -> Line {
    let (sign, text) = match goals {
        (Some(a), Some(b)) => ("~", format!("{what}: {a} -> {b}")),
        (None, Some(b)) => ("+", format!("{what}: {b}")),
        (Some(a), None) => ("-", format!("{what}: {a}")),
        (None, None) => ("~", what.to_owned()),
    };
    Line { sign, text, ..Line::default() }
}

fn hop(h: &Hop, v6: bool, out: &mut String) {
    if let Some(a) = h.address {
        let _ = write!(out, " {a}");
    }
    if h.lookup == Lookup::Frame {
        out.push_str(" l2-input-on");
    }
    match (h.table, h.address) {
        (Some(t), Some(_)) => _ = write!(out, " next-hop-table {t}"),
        (Some(t), None) => _ = write!(out, " {}-lookup-in-table {t}", h.lookup.word(v6)),
        (None, _) => {}
    }
    if let Some(i) = &h.interface {
        let _ = write!(out, " {i}");
    }
    if h.weight != 1 {
        let _ = write!(out, " weight {}", h.weight);
    }
    if h.mtu != 0 {
        let _ = write!(out, " mtu {}", h.mtu);
    }
    if !h.labels.is_none() {
        let _ = write!(out, " {}", h.labels);
    }
}

/// As commands say it, behind a prefix.
fn goal(g: &Goal, v6: bool, behind: &str) -> String {
    match g {
        Goal::Drop => format!("via drop{behind}"),
        Goal::Unreachable => format!("via unreachable{behind}"),
        Goal::Prohibit => format!("via prohibit{behind}"),
        Goal::Paths(hops) => {
            let mut out = String::new();
            for h in hops {
                out.push_str(if out.is_empty() { "via" } else { " via" });
                hop(h, v6, &mut out);
                out.push_str(behind);
            }
            out
        }
    }
}

fn family(v6: bool) -> &'static str {
    if v6 { "ip6" } else { "ip" }
}

fn table(t: &RouteTable) -> String {
    t.to_string()
}

/// What an object is called.
fn subject(id: &Id) -> String {
    let own = |name: &str, what: &str| format!("interface {name}: {what}");
    match id {
        Id::Punt(class) => format!("punt policer {class}"),
        Id::LearnLimit => "limit of learned addresses".into(),
        Id::Global(what) => what.clone(),
        Id::Table(t) => table(t),
        Id::FlowHash(t) => format!("{t}: flow hash"),
        Id::WhenDown(t) => format!("{t}: when-down"),
        Id::Interface(n) => format!("interface {n}"),
        Id::Layer(n) => own(n, "layer"),
        Id::Mac(n) => own(n, "MAC address"),
        Id::Placement(n, queue) => own(n, &format!("receive queue {queue}")),
        Id::Mtu(n) => own(n, "MTU"),
        Id::Description(n) => own(n, "description"),
        Id::Promiscuous(n) => own(n, "promiscuous mode"),
        Id::Binding(n, v6) => own(n, if *v6 { "IPv6 table" } else { "IPv4 table" }),
        Id::Address(n, net) => own(n, &format!("address {net}")),
        Id::AddressOrder(n) => own(n, "order of its addresses"),
        Id::State(n) => own(n, "state"),
        Id::Setting(n, _) => own(n, "setting"),
        Id::Told(n, what) => {
            // The type stands before it, which tells parts apart.
            own(n, what.split_once(' ').map_or(what, |(_, what)| what))
        }
        Id::Unnumbered(n) => own(n, "unnumbered"),
        Id::Xconnect(n) => own(n, "cross-connect"),
        Id::Member(n) => own(n, "bridge domain"),
        Id::Tags(n) => own(n, "tag rewrite"),
        Id::PortFeatures(n) => own(n, "what its bridge domain does"),
        Id::PortLimit(n) => own(n, "limit of learned addresses"),
        Id::Bridge(id) => format!("bridge domain {id}"),
        Id::StaticMac(id, mac) => format!("bridge domain {id}: address {mac}"),
        Id::Arp(id, address) => format!("bridge domain {id}: ARP entry {address}"),
        Id::InterfaceOrder => "order of interfaces".into(),
        Id::ProxyArp(first, last) => format!("proxy ARP {first} - {last}"),
        Id::NdProxy(address) => format!("neighbor proxy {address}"),
        Id::LabelTable(id) => format!("MPLS table {id}"),
        Id::TunnelPaths(n) => own(n, "paths"),
        Id::Neighbor(n, address) => own(n, &format!("static neighbor {address}")),
        Id::Routes(_) => "routes".into(),
        Id::Labels(_) => "labels".into(),
    }
}

/// What it is.
fn value(id: &Id, v: &Value) -> String {
    let op = match v {
        Value::Op(op) => op,
        Value::Paths(g) => return goal(g, false, ""),
        Value::Layer2(_) | Value::Run(_) => return String::new(),
    };
    match (id, op) {
        (_, Op::SetMac { mac: Some(mac), .. }) => mac.to_string(),
        (_, Op::SetPlacement { worker: Some(w), .. }) => format!("worker {w}"),
        (_, Op::SetMtu { mtu, .. }) => mtu.to_string(),
        (_, Op::SetDescription { text: Some(text), .. }) => format!("{text:?}"),
        (_, Op::SetTable { table, .. }) => table.id.to_string(),
        (_, Op::SetState { up, .. }) => if *up { "up" } else { "down" }.into(),
        (_, Op::SetXconnect { peer: Some(peer), .. }) => format!("to {peer}"),
        (_, Op::SetFeature { feature, .. }) => match feature {
            Feature::Setting(c) => c.declared().does.to_owned() + &setting(c),
            Feature::Unnumbered(Some(lender)) => format!("uses the addresses of {lender}"),
            Feature::Part(p) => p.words("").0,
            Feature::Unnumbered(None) => String::new(),
        },
        (_, Op::CreateHost { config, .. }) => {
            let queues = match config.rx_queues {
                1 => String::new(),
                n => format!(", {n} receive queues"),
            };
            format!("Linux device {}{queues}", config.host)
        }
        (_, Op::CreatePcap { .. }) => "capture files".into(),
        (_, Op::CreateTap { config, .. }) => format!("TAP {}", config.host_name),
        (_, Op::CreateSub { encap, .. }) => encapsulation(*encap),
        (_, Op::CreateTable { name: Some(name), .. }) => name.clone(),
        (_, Op::SetWhenDown { withdraw, .. }) => {
            if *withdraw {
                "withdraw".into()
            } else {
                "unreachable".into()
            }
        }
        (_, Op::SetFlowHash { fields, .. }) => fields.words().collect::<Vec<_>>().join(" "),
        (_, Op::SetNeighbor { mac, .. }) => mac.to_string(),
        (_, Op::OrderInterfaces(names)) => names.join(" "),
        (_, Op::OrderAddresses { addresses, .. }) => {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        (_, Op::Part(_)) => part_value(op),
        _ => String::new(),
    }
}

fn part_value(op: &Op) -> String {
    match known(op) {
        Known::Punt(SetLimit { limit, .. }) => {
            limit.map_or("off".into(), |l| format!("{} packets/s, burst {}", l.rate, l.burst))
        }
        Known::NdProxy(p) => format!("behind {}", p.name),
        Known::Preference(p) => p.preference.map_or(String::new(), |p| p.to_string()),
        Known::Bridge(op) => match op {
            BridgeOp::Port { member: Some(m), .. } => {
                let bvi = if m.bvi { " as its BVI" } else { "" };
                let shg = if m.shg == 0 { String::new() } else { format!(", split-horizon group {}", m.shg) };
                format!("{}{bvi}{shg}", m.bridge)
            }
            BridgeOp::Tags { change, .. } => change.as_ref().map_or("disable".into(), ToString::to_string),
            BridgeOp::PortFeatures { features, .. } => {
                format!("without {}", features.off().collect::<Vec<_>>().join(", "))
            }
            BridgeOp::PortLimit { limit: Some(n), .. } | BridgeOp::TableLimit { limit: n } => n.to_string(),
            BridgeOp::Mac { to: Some(to), .. } => match to {
                StaticMac::Port(name) => format!("on {name}"),
                StaticMac::Filter => "filter".into(),
            },
            BridgeOp::Arp { mac: Some(mac), .. } => mac.to_string(),
            _ => String::new(),
        },
        _ => match op {
            Op::Part(part) => part.words(),
            _ => String::new(),
        },
    }
}

/// Settings that differ in more than being there.
fn setting(c: &net::interface::SettingValue) -> String {
    c.number().filter(|n| *n > 1).map_or(String::new(), |n| format!(" ({n})"))
}

fn encapsulation(encap: Encap) -> String {
    let vlan = |v: Option<u16>| v.map_or("any".into(), |v| v.to_string());
    match encap {
        Encap::Tags { dot1ad, outer, inner, exact } => {
            let mut out = format!("{} {}", if dot1ad { "dot1ad" } else { "dot1q" }, vlan(outer));
            if let Some(inner) = inner {
                let _ = write!(out, " inner-dot1q {}", vlan(inner));
            }
            out + if exact { " exact-match" } else { "" }
        }
        Encap::Untagged => "untagged".into(),
        Encap::Default => "default".into(),
    }
}

/// The commands that do what an operation does, where there are such; one `changes` what is there.
fn commands(op: &Op, changes: bool, secrets: bool) -> Vec<String> {
    match op {
        Op::Part(p) => match part_command(op) {
            Some(command) => vec![command],
            None => p.commands(secrets),
        },
        Op::SetFeature { name, feature: Feature::Part(p) } if p.off() != *p => p.commands(name, changes),
        _ => command(op).into_iter().collect(),
    }
}

/// What makes a TAP.
fn tap(name: &str, c: &TapConfig) -> Option<String> {
    let mut out = format!("create tap id {}", name.strip_prefix("tap")?);
    let a = &c.addresses;
    let text = |t: &Option<String>| t.as_deref().map(quote);
    let words = [
        ("host-if-name", (c.host_name != name).then(|| quote(&c.host_name))),
        ("host-ns", text(&c.netns)),
        ("host-mac-addr", c.host_mac.map(|m| m.to_string())),
        ("host-mtu-size", c.host_mtu.map(|m| m.to_string())),
        ("host-ip4-addr", a.ip4.map(|a| a.to_string())),
        ("host-ip4-gw", a.gw4.map(|a| a.to_string())),
        ("host-ip6-addr", a.ip6.map(|a| a.to_string())),
        ("host-ip6-gw", a.gw6.map(|a| a.to_string())),
        ("host-bridge", text(&c.bridge)),
        ("rx-ring-size", c.rx_ring.filter(|n| *n != 256).map(|n| n.to_string())),
        ("num-rx-queues", (c.rx_queues != 1).then(|| c.rx_queues.to_string())),
        ("offload", offload(c.offload).map(str::to_owned)),
    ];
    words.into_iter().filter_map(|(w, v)| Some((w, v?))).for_each(|(w, v)| _ = write!(out, " {w} {v}"));
    let switches =
        [("host-ns-create", c.netns_create), ("host-bridge-create", c.bridge_create), ("persist", c.persist)];
    switches.iter().filter(|s| s.1).for_each(|s| _ = write!(out, " {}", s.0));
    Some(out)
}

fn offload(o: Offload) -> Option<&'static str> {
    match o {
        Offload::Auto => None,
        Offload::On => Some("on"),
        Offload::Off => Some("off"),
    }
}

/// What takes a Linux device over.
fn host(name: &str, c: &HostConfig) -> String {
    let mut out = match c.driver {
        HostDriver::AfXdp => {
            format!("create interface af_xdp host-if {} name {}", quote(&c.host), quote(name))
        }
        HostDriver::AfPacket | HostDriver::Auto => {
            format!("create host-interface name {} if-name {}", quote(&c.host), quote(name))
        }
    };
    if let Some(netns) = &c.netns {
        let _ = write!(out, " netns {}", quote(netns));
    }
    if c.rx_queues != 1 {
        let _ = write!(out, " num-rx-queues {}", c.rx_queues);
    }
    if let Some(slots) = c.slots {
        let _ = write!(out, " rx-queue-size {slots}");
    }
    if c.driver == HostDriver::AfXdp {
        if let Some(mode) = c.mode {
            out += if mode == XdpMode::Native { " native" } else { " generic" };
        }
    } else {
        if c.driver == HostDriver::Auto {
            out += " driver auto";
        }
        out += if c.ring == Ring::V2 { " ring v2" } else { " ring v3" };
        offload(c.offload).into_iter().for_each(|o| _ = write!(out, " offload {o}"));
    }
    let mut word = " left-to-linux ";
    for kept in &c.kept {
        let _ = write!(out, "{word}{kept}");
        word = " ";
    }
    out
}

/// What makes an interface of capture files. The one that is written is written anew, as by a document.
fn pcap(name: &str, c: &PcapConfig) -> String {
    let mut out = format!("create pcap-interface name {}", quote(name));
    if let Some(read) = &c.read {
        let _ = write!(out, " read {}", quote(read));
    }
    if let Some(write) = &c.write {
        let _ = write!(out, " write {} overwrite", quote(write));
    }
    if let Some(pps) = c.pps {
        let _ = write!(out, " rate {pps}");
    }
    out + if c.repeat { " repeat" } else { "" }
}

fn command(op: &Op) -> Option<String> {
    let on = |yes: &bool| if *yes { "on" } else { "off" };
    Some(match op {
        Op::CreateLoopback { instance: Some(n), .. } => format!("create loopback interface instance {n}"),
        Op::CreateSub { parent, id, encap } => {
            format!("create sub-interfaces {parent} {id} {}", encapsulation(*encap))
        }
        Op::Delete { name } => format!("delete interface {name}"),
        Op::SetState { name, up } => {
            format!("set interface state {name} {}", if *up { "up" } else { "down" })
        }
        Op::SetMtu { name, mtu } => format!("set interface mtu {mtu} {name}"),
        Op::SetMac { name, mac: Some(mac) } => format!("set interface mac address {name} {mac}"),
        Op::SetPromiscuous { name, on: yes } => format!("set interface promiscuous {} {name}", on(yes)),
        Op::SetPlacement { name, queue, worker } => {
            let to = worker.map_or("auto".into(), |w| format!("worker {w}"));
            format!("set interface rx-placement {name} queue {queue} {to}")
        }
        Op::SetRxQueues { name, queues } => format!("set interface rx-queues {name} {queues}"),
        Op::SetDescription { name, text } => match text {
            Some(text) => format!("set interface description {name} {}", quote(text)),
            None => format!("set interface description {name}"),
        },
        Op::AddAddress { name, net } => format!("set interface ip address {name} {net}"),
        Op::DelAddress { name, net } => format!("set interface ip address del {name} {net}"),
        Op::SetXconnect { name, peer: Some(peer) } => format!("set interface l2 xconnect {name} {peer}"),
        Op::SetXconnect { name, peer: None } => format!("set interface l3 {name}"),
        Op::SetTable { name, table } => {
            format!("set interface {} table {name} {}", family(table.v6), table.id)
        }
        Op::CreateTable { table, name } => {
            let name = name.as_deref().map_or(String::new(), |n| format!(" {}", quote(n)));
            format!("{} table add {}{name}", family(table.v6), table.id)
        }
        Op::SetWhenDown { table, withdraw } => {
            let what = if *withdraw { "withdraw" } else { "unreachable" };
            format!("set {} table {} when-down {what}", family(table.v6), table.id)
        }
        Op::DeleteTable { table } => format!("{} table del {}", family(table.v6), table.id),
        Op::SetNeighbor { name, address, mac } => format!("ip neighbor {name} {address} {mac}"),
        Op::DelNeighbor { name, address } => format!("ip neighbor del {name} {address}"),
        Op::SetFeature { name, feature } => match feature {
            Feature::Unnumbered(Some(l)) => format!("set interface unnumbered {name} use {l}"),
            Feature::Unnumbered(None) => format!("set interface unnumbered del {name}"),
            Feature::Setting(c) => {
                let undo = c.declared().undo.replace("{}", name);
                match c.is_default() {
                    true => undo,
                    false if c.number() == Some(1) => {
                        undo.strip_suffix(" disable").map(|on| format!("{on} enable"))?
                    }
                    false => return None,
                }
            }
            Feature::Part(p) => p.words(name).1,
        },
        Op::CreateTap { name, config } => return tap(name, config),
        Op::CreateHost { name, config } => host(name, config),
        Op::CreatePcap { name, config } => pcap(name, config),
        _ => return None,
    })
}

fn part_command(op: &Op) -> Option<String> {
    let set = |on: bool| if on { "add" } else { "del" };
    Some(match known(op) {
        Known::ProxyArp(ProxyArp { first, last, on }) => {
            format!("ip proxy-arp {} {first} - {last}", set(*on))
        }
        Known::NdProxy(NdProxy { name, address, on }) => {
            format!("ip6 nd proxy {} {name} {address}", set(*on))
        }
        Known::Punt(SetLimit { class, limit }) => match limit {
            Some(l) => format!("set punt policer {} rate {} burst {}", class.name(), l.rate, l.burst),
            None => format!("set punt policer {} off", class.name()),
        },
        Known::Preference(p) => {
            let what = p.preference.map_or("default".into(), |p| p.to_string());
            format!("set route-preference {} {what}", p.source)
        }
        Known::Mpls(MplsOp::CreateTable { table }) => format!("mpls table add {table}"),
        Known::Mpls(MplsOp::DeleteTable { table }) => format!("mpls table del {table}"),
        Known::Bridge(op) => match op {
            BridgeOp::Create { id, .. } => format!("create bridge-domain {id}"),
            BridgeOp::Delete { id } => format!("delete bridge-domain {id}"),
            BridgeOp::Port { name, member: Some(m) } => {
                let bvi = if m.bvi { " bvi" } else { "" };
                let shg = if m.shg == 0 { String::new() } else { format!(" {}", m.shg) };
                format!("set interface l2 bridge {name} {}{bvi}{shg}", m.bridge)
            }
            BridgeOp::Port { name, member: None } => format!("set interface l3 {name}"),
            BridgeOp::Tags { name, change } => {
                let change = change.as_ref().map_or("disable".into(), ToString::to_string);
                format!("set interface l2 tag-rewrite {name} {change}")
            }
            BridgeOp::PortLimit { name, limit } => {
                let limit = limit.map_or("disable".into(), |n| n.to_string());
                format!("set interface l2 learn-limit {name} {limit}")
            }
            BridgeOp::TableLimit { limit } => format!("set l2fib learn-limit {limit}"),
            BridgeOp::Mac { id, mac, to } => match to {
                Some(StaticMac::Port(name)) => format!("l2fib add {mac} {id} {name} static"),
                Some(StaticMac::Filter) => format!("l2fib add {mac} {id} filter"),
                None => format!("l2fib del {mac} {id}"),
            },
            BridgeOp::Arp { id, address, mac: Some(mac) } => {
                format!("set bridge-domain arp entry {id} {address} {mac}")
            }
            _ => return None,
        },
        Known::Mpls(MplsOp::CreateTunnel { instance: Some(n), config }) => {
            let kind = match (config.l2_only, config.control_word) {
                (true, true) => " l2-only control-word",
                (true, false) => " l2-only",
                _ => "",
            };
            format!("mpls tunnel add{kind} instance {n}")
        }
        _ => return None,
    })
}

fn route_commands(plan: &Plan, phase: Phase, item: &Item<RouteKey>) -> Vec<String> {
    let (table, prefix, rank) = item.key;
    let of = if table == 0 { String::new() } else { format!(" table {table}") };
    let del = || format!("ip route del {prefix}{of}{}", rank_words(item.before));
    match plan.runs.goals_of(item).1.filter(|_| phase != Phase::Remove) {
        Some(g) => {
            let set = format!("ip route set {prefix}{of} {}", ranked_goal(g, prefix.addr().is_ipv6(), rank));
            let moves = phase == Phase::Change && rank != item.before;
            std::iter::once(set).chain(moves.then(del)).collect()
        }
        None => vec![del()],
    }
}

fn label_command(plan: &Plan, phase: Phase, item: &Item<LabelKey>) -> String {
    let (table, label, bottom) = item.key;
    let of = if table == 0 { String::new() } else { format!(" table {table}") };
    let eos = if bottom { "eos" } else { "non-eos" };
    match plan.runs.goals_of(item).1.filter(|_| phase != Phase::Remove) {
        Some(g) => format!("mpls local-label set {label} {eos}{of} {}", goal(g, false, "")),
        None => format!("mpls local-label del {label} {eos}{of}"),
    }
}

/// How many there are, and some of them.
fn some(n: usize, what: &str, mut names: Vec<String>) -> String {
    if n > names.len() {
        names.push("...".into());
    }
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s} ({})", names.join(", "))
}

impl Step {
    /// Of both sides that of table 0, which is what an interface has by itself.
    pub(super) fn is_main(&self) -> bool {
        let main = |v: &Option<Value>| match v {
            Some(Value::Op(Op::SetTable { table, .. })) => table.id == 0,
            _ => true,
        };
        main(&self.old) && main(&self.new)
    }

    /// Whether what both sides have stands in another order.
    pub(super) fn reorders(&self) -> bool {
        let list = |v: &Option<Value>| match v {
            Some(Value::Op(Op::OrderInterfaces(names))) => names.clone(),
            Some(Value::Op(Op::OrderAddresses { addresses, .. })) => {
                addresses.iter().map(ToString::to_string).collect()
            }
            _ => vec![],
        };
        let (mut old, mut new) = (list(&self.old), list(&self.new));
        old.retain(|o| new.contains(o));
        new.retain(|n| old.contains(n));
        old != new
    }

    /// In words, with commands.
    pub fn line(&self, plan: &Plan, going: &HashMap<&str, bool>) -> Line {
        self.line_for(plan, going, true)
    }

    /// The same; with secrets or without, where commands tell them.
    fn line_for(&self, plan: &Plan, going: &HashMap<&str, bool>, secrets: bool) -> Line {
        let mut line = difference(self);
        line.sign = match self.phase {
            Phase::Remove => "-",
            Phase::Make => "+",
            Phase::Change => "~",
        };
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        if self.phase != Phase::Change {
            let of = if self.phase == Phase::Make { new } else { old };
            let value = of.map(|v| value(&self.id, v)).filter(|t| !t.is_empty());
            let subject = subject(&self.id);
            line.text = value.map_or(subject.clone(), |v| format!("{subject}: {v}"));
        }
        match &self.id {
            Id::Routes(n) => {
                if let Some(run) = plan.runs.routes.get(*n) {
                    let names = run.items.iter().take(SOME).map(|i| i.key.1.to_string()).collect();
                    line.text = some(run.items.len(), "route", names);
                    line.commands = run
                        .items
                        .iter()
                        .take(SOME)
                        .flat_map(|i| route_commands(plan, self.phase, i))
                        .collect();
                }
            }
            Id::Labels(n) => {
                if let Some(run) = plan.runs.labels.get(*n) {
                    let names = run.items.iter().take(SOME).map(|i| i.key.1.to_string()).collect();
                    line.text = some(run.items.len(), "label", names);
                    line.commands =
                        run.items.iter().take(SOME).map(|i| label_command(plan, self.phase, i)).collect();
                }
            }
            Id::TunnelPaths(name) => {
                let to = new.filter(|_| self.phase != Phase::Remove).map(|v| value(&self.id, v));
                line.commands =
                    vec![format!("mpls tunnel set {name} {}", to.unwrap_or_default()).trim_end().into()];
            }
            _ => {
                let changes = self.phase == Phase::Change;
                let all = self.plain_ops();
                line.commands = all.iter().flat_map(|op| commands(op, changes, secrets)).collect();
            }
        }
        line.touches = self.touches(plan, going);
        if let Some(why) = &self.anew {
            let why = match why {
                Reason::Value(why) => (*why).to_owned(),
                Reason::Needs(id) => {
                    format!("it stands on what comes, goes or is made anew: {}", subject(id))
                }
                Reason::Circle => "no order of changes in place leads there".into(),
            };
            let _ = write!(line.text, " (made anew: {why})");
        }
        line
    }

    fn plain_ops(&self) -> Vec<Op> {
        let old = self.old.as_ref().filter(|_| self.phase != Phase::Make);
        let new = self.new.as_ref().filter(|_| self.phase != Phase::Remove);
        super::steps::plain(&self.id, old, new)
    }

    /// Whose traffic it touches, and why.
    fn touches(&self, plan: &Plan, going: &HashMap<&str, bool>) -> Option<String> {
        let name = self.id.interface().unwrap_or_default();
        let again = going.get(name).copied();
        let until = |again: bool| if again { ", until it is made again" } else { ", which goes" };
        match (&self.id, self.phase) {
            // What it has goes with it; that is told once.
            (Id::Interface(_), Phase::Remove) => {
                Some(format!("all traffic over {name}{}", until(again.unwrap_or(false))))
            }
            _ if again.is_some() => None,
            (Id::State(_), Phase::Change) => match &self.new {
                Some(Value::Op(Op::SetState { up: false, .. })) => {
                    Some(format!("all traffic over {name}: it is set down"))
                }
                _ => None,
            },
            (Id::Layer(_), _) => None,
            (Id::Interface(_), Phase::Change) => {
                self.plain_ops().iter().find_map(|op| if let Op::Part(p) = op { p.touches() } else { None })
            }
            (Id::Address(_, net), Phase::Remove) => Some(match self.anew {
                Some(_) => format!("packets to {} and hosts in {}, for a moment", net.addr(), net.trunc()),
                None => format!(
                    "packets to {}, and to hosts in {} that nothing else leads to",
                    net.addr(),
                    net.trunc()
                ),
            }),
            (Id::Member(_) | Id::Xconnect(_), Phase::Remove) => {
                Some(format!("frames of {name}, which leave their bridge domain or cross-connect"))
            }
            (Id::Member(_) | Id::Xconnect(_), Phase::Change) => {
                Some(format!("frames of {name}, which go elsewhere from now on"))
            }
            (Id::Tags(_), Phase::Change | Phase::Remove) => {
                Some(format!("frames of {name}, whose tags are others from now on"))
            }
            (Id::Mac(_), _) if self.old.is_some() => {
                Some(format!("packets to {name}, until its neighbors know the new MAC address"))
            }
            (Id::Mtu(_), Phase::Change) => {
                let mtu = |v: &Option<Value>| match v {
                    Some(Value::Op(Op::SetMtu { mtu, .. })) => *mtu,
                    _ => 0,
                };
                let (old, new) = (mtu(&self.old), mtu(&self.new));
                (new < old)
                    .then(|| format!("packets over {name} of more than {new} bytes: they no longer fit"))
            }
            (Id::Routes(_) | Id::Labels(_), Phase::Remove) => Some(match self.anew {
                Some(_) => "packets of these routes, until they are made again".into(),
                None => "packets of these routes: others lead them, or none".into(),
            }),
            (Id::Routes(n), Phase::Change) => {
                let run = plan.runs.routes.get(*n)?;
                let lost = run.items.iter().filter(|i| {
                    let (old, new) = plan.runs.goals_of(i);
                    matches!(old, Some(Goal::Paths(_))) && !matches!(new, Some(Goal::Paths(_)))
                });
                let lost = lost.count();
                let s = if lost == 1 { "" } else { "s" };
                (lost != 0).then(|| format!("packets of {lost} route{s} that drop them from now on"))
            }
            (Id::Binding(_, v6), Phase::Make | Phase::Change) if self.old.is_some() && self.new.is_some() => {
                let family = if *v6 { "IPv6" } else { "IPv4" };
                Some(format!(
                    "{family} packets that come in over {name}: another table leads them from now on"
                ))
            }
            (Id::TunnelPaths(_), Phase::Remove) => Some(format!("packets through {name}")),
            (Id::Neighbor(_, a), Phase::Remove) => {
                Some(format!("packets to {a}, until it is found by asking"))
            }
            (Id::Table(t), Phase::Remove) => Some(format!("packets that {t} forwarded")),
            _ => None,
        }
    }
}

impl Plan {
    /// The lines of the steps that do something, in order.
    pub fn lines(&self) -> Vec<Line> {
        self.lines_for(true)
    }

    /// The same; with the secrets that commands tell, or without.
    pub fn lines_for(&self, secrets: bool) -> Vec<Line> {
        let going = self.interfaces_gone();
        self.visible().map(|(_, s)| s.line_for(self, &going, secrets)).collect()
    }
}
