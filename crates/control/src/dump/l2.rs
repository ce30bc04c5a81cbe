//! The sections `bridgedomains` and `l2`.

use super::{PAGE, Pages, Pieces, Source, each};
use crate::written::{Map, Node};
use net::l2::bridge::{self as bridging, BridgeSettings, BridgeState, Port, TagChange, port};
use net::plane::MAC_LIMIT;
use net::router::{IfState, Order, Router};
use packet::eth::MacAddr;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;

/// The first of its members in the order of all interfaces.
fn first<'r>(router: &'r Router, b: &BridgeState) -> Option<&'r IfState> {
    b.members.keys().filter_map(|i| router.interface(*i)).min_by_key(|i| i.order())
}

/// A bridge domain of the format has an MTU, here its first member's; those that have another one say so.
fn mtu(router: &Router, b: &BridgeState) -> Option<u16> {
    first(router, b).map(|i| i.mtu)
}

/// The bridge domains from a number on that are not Linux's.
fn own_from(router: &Router, id: u32) -> impl Iterator<Item = &BridgeState> {
    bridging::bridges_from(router, id).filter(|b| b.companion.is_none())
}

/// Whether an interface is a port of a bridge of Linux's.
fn is_linuxs(router: &Router, i: &IfState) -> bool {
    let bridge = i.membership.and_then(|m| bridging::bridge(router, m.bridge));
    bridge.is_some_and(|b| b.companion.is_some())
}

/// `bridgedomains`, one a page: it may have thousands of members.
#[derive(Default)]
pub(super) struct Bridges(u32);

impl Pages for Bridges {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let Some(b) = own_from(from.router, self.0).next() else { return false };
        let mut fields = Map::new();
        fields.put(format!("bd{}", b.id), bridge(from, b));
        to.fields(vec![], fields);
        self.0 = b.id + 1;
        true
    }
}

fn bridge(from: Source<'_>, b: &BridgeState) -> Map {
    let (s, usual) = (&b.settings, BridgeSettings::default());
    let mut to = Map::new();
    to.put_some("description", s.tag.as_deref());
    to.put_some("mtu", mtu(from.router, b).filter(|mtu| *mtu != 1500));
    to.put_some("bvi", b.bvi().map(|i| from.router.interface_name(i)));
    // In the order of all interfaces.
    let mut ports: Vec<&IfState> = b.members.keys().filter_map(|i| from.router.interface(*i)).collect();
    ports.retain(|i| !i.membership.is_some_and(|m| m.bvi));
    ports.sort_by_key(|i| i.order());
    to.put_some("interfaces", Some(Node::Row(ports.iter().map(|i| Node::text(&i.name)).collect())));
    let mut settings = Map::new();
    settings
        .put_unless("learn", s.learn, usual.learn)
        .put_unless("unicast-flood", s.flood, usual.flood)
        .put_unless("unknown-unicast-flood", s.uu_flood, usual.uu_flood)
        .put_unless("unicast-forward", s.forward, usual.forward)
        .put_unless("arp-termination", s.arp_term, usual.arp_term)
        .put_unless("arp-unicast-forward", s.arp_ufwd, usual.arp_ufwd)
        .put_unless("mac-age-minutes", u16::from(s.mac_age), u16::from(usual.mac_age));
    to.put_some("settings", Some(settings));
    to
}

/// `None` for what a document does by itself: it takes away the tags of sub-interfaces that are bridged or cross-connected.
fn tag_rewrite(i: &IfState, told: &Port, target: bool) -> Option<Node> {
    let on_l2 = i.membership.is_some_and(|m| !m.bvi) || i.xconnect.is_some() || target;
    let popped = Some(i.tags().count).filter(|n| on_l2 && *n != 0).map(TagChange::Pop);
    let change = || told.tag_change.as_ref().unwrap_or(&TagChange::Disabled);
    (told.tag_change != popped).then(|| Node::text(change()))
}

/// `l2` itself.
pub(super) fn limit(from: Source<'_>, to: &mut Map) {
    to.put_unless("learn-limit", u64::from(bridging::mac_counts(from.router).limit), u64::from(MAC_LIMIT));
}

/// `l2.interfaces`.
#[derive(Default)]
pub(super) struct Ports {
    after: Option<Order>,
    /// The MTU of each bridge domain that was met.
    mtus: HashMap<u32, Option<u16>>,
}

impl Pages for Ports {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let (mut interfaces, mtus) = (Map::new(), &mut self.mtus);
        let more = each(from, &mut self.after, |i| {
            if is_linuxs(from.router, i) {
                return;
            }
            let peer = i.xconnect.and_then(|p| from.router.interface(p)).map(|p| p.mtu);
            let other = peer.or_else(|| {
                let id = i.membership?.bridge;
                *mtus.entry(id).or_insert_with(|| mtu(from.router, bridging::bridge(from.router, id)?))
            });
            let target = from.router.is_xconnect_target(i.index);
            let told = port(from.router, i.index);
            let mut fields = Map::new();
            fields
                .put_some("tag-rewrite", tag_rewrite(i, told, target))
                .put_some(
                    "split-horizon-group",
                    i.membership.filter(|m| m.shg != 0).map(|m| u16::from(m.shg)),
                )
                .put_some("learn-limit", told.mac_limit.map(u64::from))
                .put_some("own-mtu", other.filter(|mtu| *mtu != i.mtu).map(|_| true));
            for feature in told.features.off() {
                fields.put(feature, false);
            }
            interfaces.put_some(i.name.clone(), Some(fields));
        });
        to.fields(vec![], interfaces);
        more
    }
}

/// `l2.bridgedomains`.
#[derive(Default)]
pub(super) struct Domains {
    /// The place in the table of addresses up to which static ones were looked for; none when all of it was.
    looked: Option<usize>,
    begun: bool,
    /// Those of bridge domains that are not written: by bridge domain, with the interface, or none for a filter.
    fixed: BTreeSet<(u32, [u8; 6], Option<u32>)>,
    /// The bridge domain that is to be written, whether that has begun, and the address behind which its ARP entries go on.
    bridge: u32,
    headed: Option<u32>,
    arp: Option<IpAddr>,
}

impl Domains {
    /// Looks for static addresses; true when there is more to look at.
    fn look(&mut self, router: &Router) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            self.looked = (bridging::mac_counts(router).fixed != 0).then_some(0);
        }
        let mut left = 16;
        while let Some(at) = self.looked.filter(|_| left != 0) {
            let (some, next) = bridging::macs_from(router, at);
            let fixed = some.iter().filter(|m| m.fixed && !m.bvi);
            self.fixed.extend(fixed.map(|m| (m.bridge, m.mac.0, m.interface)));
            (self.looked, left) = (next, left - 1);
        }
        self.looked.is_some()
    }
}

impl Pages for Domains {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        if self.look(from.router) {
            return true;
        }
        let Some(b) = own_from(from.router, self.bridge).next() else { return false };
        let place = |name: &'static str| vec![format!("bd{}", b.id).into(), name.into()];
        if self.headed != Some(b.id) {
            (self.headed, self.arp) = (Some(b.id), None);
            let mut fields = Map::new();
            fields.put_some("learn-limit", b.settings.mac_limit.map(u64::from));
            to.fields(vec![format!("bd{}", b.id).into()], fields);
        }
        let next = |fixed: &BTreeSet<_>| fixed.range((b.id, [0; 6], None)..).next().copied();
        let mut macs = Map::new();
        for _ in 0..PAGE {
            let Some(first) = next(&self.fixed).filter(|first| first.0 == b.id) else { break };
            self.fixed.remove(&first);
            let to = first.2.map_or_else(|| "filter".to_owned(), |port| from.router.interface_name(port));
            macs.put(MacAddr(first.1).to_string(), to);
        }
        to.fields(place("macs"), macs);
        if next(&self.fixed).is_some_and(|first| first.0 == b.id) {
            return true;
        }
        let behind = self.arp.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut arp, mut left) = (Map::new(), b.arp.range((behind, Bound::Unbounded)));
        for (a, mac) in left.by_ref().take(PAGE) {
            arp.put(a.to_string(), Node::text(mac));
            self.arp = Some(*a);
        }
        to.fields(place("arp"), arp);
        if left.next().is_none() {
            self.bridge = b.id + 1;
        }
        true
    }
}
