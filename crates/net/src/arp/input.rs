//! `arp-input`: checks ARP packets, answers requests for the router's addresses, and hands the rest on to be learnt.

use crate::adjacency::Adjacency;
use crate::interface::{Column, Interface, ifflags, untag};
use crate::neighbor::Proxies;
use crate::plane::table::{V4, View};
use crate::plane::{IfCache, Plane, kind};
use crate::proxy;
use crate::punt::{self, Class, PuntKind};
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, Published, TraceRecord, flags};
use packet::arp::{ArpMessage, ArpOp, ArpView};
use packet::eth::MacAddr;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tables::groups::{Entry, Paths};

graph::edges! {
    /// Where `arp-input` sends packets.
    pub enum ArpNext {
        Output => "interface-output",
        Policed => "punt-policer",
        Linux => "linux-cp-punt",
    }
}

graph::reasons! {
    /// What `arp-input` counts.
    pub enum ArpReason {
        /// Not a well-formed ARP packet for IPv4 over Ethernet.
        Malformed => "arp-malformed",
        /// The sender's addresses cannot be a station's.
        BadSender => "arp-bad-sender",
        /// The interface has no IPv4 address.
        NotEnabled => "arp-ip4-not-enabled",
        /// The sender is not on the link, and what it says is of no use or not wanted from there.
        NotOnLink => "arp-sender-not-on-link",
        /// A request for an address that is not the router's.
        NotForUs => "arp-not-for-us" (info),
        /// A request for an address of a proxied range that is on the asker's link, has no route, or is for detection.
        ProxyRefused => "arp-proxy-refused" (info),
        /// A request for an address of a proxied range was answered.
        Proxied => "arp-proxied" (info),
        /// A request was answered.
        Replied => "arp-replies-sent" (info),
        /// Handed to the neighbour table.
        Learnt => "arp-handed-to-control" (info),
        /// The control side was too far behind to take it.
        Lost => "arp-control-busy" (info),
        /// Linux got no copy: only buffers that other packets need are left.
        NoCopy => "arp-no-copy-for-linux" (info),
    }
}

/// The node.
pub struct ArpInput {
    plane: Arc<Plane>,
    proxies: Arc<Published<Proxies>>,
    told: Told,
}

/// Where interfaces have what they were told.
#[derive(Clone, Copy)]
struct Told {
    sender_check: Column<bool>,
    proxy: Column<bool>,
}

impl ArpInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        let column = |setting| plane.columns.of(setting);
        let told = Told { sender_check: column(&super::SENDER_CHECK), proxy: column(&proxy::ARP) };
        ArpInput { plane: Arc::clone(plane), proxies: plane.publish(), told }
    }
}

/// Snapshot of one vector.
pub struct ArpInputView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    ifs: IfCache<'v>,
    /// Addresses of others that are answered for.
    proxies: &'v Proxies,
    told: Told,
}

/// What the routing table knows of a sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// The address is the broadcast of a connected prefix.
    Nobody,
    /// It is the router's own.
    Ours,
    /// It is a host on the link.
    Here,
    /// It is beyond a next hop, or unknown.
    Elsewhere,
}

/// Whether an address can be a host's (RFC 1812 section 5.3.7).
fn is_host(address: u32) -> bool {
    !matches!(address >> 24, 0 | 127 | 224..)
}

impl ArpInputView<'_> {
    /// Whether packets to `address` would leave over one of the router's interfaces that is (`on`) or is not `rx`.
    fn leads(&self, address: u32, on: bool, rx: u32) -> bool {
        let groups = self.plane.groups.reader();
        let over = |e: Entry| {
            let interface = self.plane.adjacencies.get(e.adj, self.guard).map(|a| a.interface);
            (kind::is_neighbor(e.kind) || e.kind == kind::GLEAN) && interface.is_some_and(|i| (i == rx) == on)
        };
        match groups.paths(View::<V4>::new(self.plane, self.guard).lookup_one(rx, &address)) {
            Paths::One(e) => over(e) || !on && e.kind == kind::LOCAL,
            Paths::Many(word) => groups.all(word).any(over),
        }
    }

    /// Where packets to `sender` would go: nowhere near a host, to that very host on `rx`, or elsewhere.
    fn whereabouts(&self, sender: u32, rx: u32) -> Whereabouts {
        let groups = self.plane.groups.reader();
        let here = |e: Entry| {
            let host = |a: &Adjacency| e.kind == kind::GLEAN || a.next_hop == IpAddr::V4(sender.into());
            (kind::is_neighbor(e.kind) || e.kind == kind::GLEAN)
                && self.plane.adjacencies.get(e.adj, self.guard).is_some_and(|a| a.interface == rx && host(a))
        };
        match groups.paths(View::<V4>::new(self.plane, self.guard).lookup_one(rx, &sender)) {
            Paths::One(e) if e.kind == kind::BROADCAST => Whereabouts::Nobody,
            Paths::One(e) if e.kind == kind::LOCAL => Whereabouts::Ours,
            Paths::One(e) if here(e) => Whereabouts::Here,
            Paths::Many(word) if groups.all(word).any(here) => Whereabouts::Here,
            _ => Whereabouts::Elsewhere,
        }
    }

    /// Whether the router answers for an address that is not its own.
    fn proxies(&self, i: &Interface, arp: &ArpView<'_>, rx: u32) -> Option<bool> {
        let target = u32::from(arp.target_ip());
        if !i.settings.get(self.told.proxy) || !self.proxies.holds4(target) {
            return None;
        }
        let detection = arp.is_probe() || arp.is_gratuitous();
        Some(!detection && self.leads(target, false, rx) && !self.leads(target, true, rx))
    }
}

impl Node for ArpInput {
    const NAME: &'static str = "arp-input";
    type Next = ArpNext;
    type Drop = ArpReason;
    type View<'v> = ArpInputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> ArpInputView<'v> {
        let ifs = IfCache::new(&self.plane, guard);
        ArpInputView { plane: &self.plane, guard, ifs, proxies: self.proxies.load(guard), told: self.told }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::arp_step(r, f)
    }

    fn step(view: &mut ArpInputView<'_>, p: &mut Packet<'_>) -> Step<ArpNext, ArpReason> {
        let Ok(arp) = ArpView::parse(p.data()) else { return Err(ArpReason::Malformed.into()) };
        let Some(i) = view.ifs.get(p.d.rx) else { return Err(ArpReason::NotEnabled.into()) };
        if i.addrs4.is_empty() {
            return Err(ArpReason::NotEnabled.into());
        }
        let sender = u32::from(arp.sender_ip());
        let probe = arp.is_probe();
        let at = if probe { Whereabouts::Here } else { view.whereabouts(sender, p.d.rx) };
        if !arp.sender_mac().is_station() || !probe && !is_host(sender) || at == Whereabouts::Nobody {
            return Err(ArpReason::BadSender.into());
        }
        let on_link = |(a, len): &(u32, u8)| {
            (a ^ sender) & u32::MAX.checked_shl(32 - u32::from(*len)).unwrap_or(0) == 0
        };
        // Behind an unnumbered interface are hosts whose route leads there.
        let behind = |view: &ArpInputView<'_>| i.is(ifflags::UNNUMBERED) && view.leads(sender, true, p.d.rx);
        let ours = |ip: u32| i.addrs4.iter().any(|a| a.0 == ip);
        let target = u32::from(arp.target_ip());
        let for_us = ours(target);
        let (request, own_sender) = (arp.op() == ArpOp::Request, ours(sender));
        // Linux asks with any of its addresses, and a next hop may be named that no prefix holds. Of those the control side
        // learns whom the router has asked for or has a route to.
        let checked = i.settings.get(view.told.sender_check);
        let wanted = || for_us && at != Whereabouts::Ours && !(request && checked);
        if at != Whereabouts::Here && !i.addrs4.iter().any(on_link) && !behind(view) && !wanted() {
            return Err(ArpReason::NotOnLink.into());
        }
        let proxied = if request && !for_us && !own_sender { view.proxies(i, &arp, p.d.rx) } else { None };
        let reply = ArpMessage::reply_to(&arp, MacAddr(i.mac)).to_bytes();
        let news = for_us || arp.op() == ArpOp::Reply || arp.is_gratuitous() || own_sender;
        let class = if request { Class::ArpRequest } else { Class::ArpReply };
        let station = Some(arp.sender_ip().into());
        if (news || proxied == Some(true)) && !view.plane.admits_from(p, class, station) {
            return Ok(ArpNext::Policed);
        }
        if news {
            let l3 = p.d.off - p.d.l2;
            let frame = &p.env.buffers.room(&p.d.buf)[usize::from(p.d.l2)..];
            let end = usize::from(l3) + usize::from(p.d.len);
            let sent = view.plane.punt.packet(
                PuntKind::Arp,
                p.d.rx,
                l3,
                std::iter::once(&frame[..end.min(frame.len())]),
            );
            p.count(if sent { ArpReason::Learnt } else { ArpReason::Lost });
            if i.is(ifflags::LINUX) && !punt::linux::copy(p, punt::linux::FRAME, 0, ArpNext::Linux) {
                p.count(ArpReason::NoCopy);
            }
        }
        if proxied == Some(true) {
            p.count(ArpReason::Proxied);
        } else if !request || own_sender || !for_us {
            if request && !for_us {
                p.count(if proxied.is_some() { ArpReason::ProxyRefused } else { ArpReason::NotForUs });
            }
            p.free();
            return Err(Exit::Consumed);
        }
        p.data_mut()[..reply.len()].copy_from_slice(&reply);
        // The request's own Ethernet header and tags serve for the answer, but for a tag that only tells a priority.
        if !untag(p, i) || !p.seek(p.d.l2) {
            return Err(ArpReason::Malformed.into());
        }
        let data = p.data_mut();
        data.copy_within(6..12, 0);
        data[6..12].copy_from_slice(&i.mac);
        p.d.tx = p.d.rx;
        p.d.flags = (p.d.flags & !flags::L2_GROUP) | flags::LOCAL;
        if for_us {
            p.count(ArpReason::Replied);
        }
        Ok(ArpNext::Output)
    }
}
