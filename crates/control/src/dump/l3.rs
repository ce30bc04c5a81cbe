//! The section `l3`.

use super::{L3, Source};
use crate::written::{Map, Node};
use net::interface::MtuOf;
use net::ip4::{self, OptionPolicy};
use net::mss::{self, Clamp};
use net::plane::table::FibIndex;
use net::reassembly::{self, Kind};
use net::router::{IfState, SourcePreference};
use net::urpf::{self, Mode};
use net::{arp, local, multicast, proxy, redirect};

/// An entry of `interfaces`.
pub(super) fn interface(from: Source<'_>, i: &IfState) -> Option<Node> {
    let mut fields = Map::new();
    L3.iter().for_each(|write| write(from, i, &mut fields));
    (!fields.is_empty()).then_some(fields.into())
}

/// What is not of an interface.
pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let ranges = proxy::arp_ranges(from.router).into_iter();
    let range = |(first, last)| Node::Text(format!("{first} - {last}"));
    to.put_some("proxy-arp", Some(Node::List(ranges.map(range).collect())));
    let host = |(address, index): (std::net::Ipv6Addr, u32)| {
        let mut host = Map::new();
        host.put("interface", from.router.interface_name(index)).put("address", Node::text(address));
        Node::Flow(host)
    };
    to.put_some("nd-proxy", Some(Node::List(proxy::nd_proxies(from.router).into_iter().map(host).collect())));
    to.put_unless("tcp-resets", local::tcp_resets(from.router).0, true);
    let policy = local::ip4_options(from.router);
    to.put_some("ip4-options", (policy != OptionPolicy::default()).then(|| policy.name()));
    let mut preferences = Map::new();
    for SourcePreference { source, preference } in from.router.source_preferences() {
        preferences.put_some(source, preference);
    }
    to.put_some("route-preferences", Some(Node::from(preferences)));
}

pub(super) fn unnumbered(from: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_some("unnumbered", i.unnumbered.map(|l| from.router.interface_name(l)));
}

pub(super) fn clamp(_: Source<'_>, i: &IfState, to: &mut Map) {
    let sizes = |c: Clamp| {
        let mut sizes = Map::new();
        sizes.put_unless("rx", c.rx, 0).put_unless("tx", c.tx, 0);
        Node::Flow(sizes)
    };
    let mut families = Map::new();
    for (v6, family) in [(false, "ip4"), (true, "ip6")] {
        families.put_some(family, Some(sizes(i.settings.get(mss::size(v6)))));
    }
    to.put_some("tcp-mss-clamp", Some(Node::Flow(families)));
}

/// MTUs that protocols have of their own.
pub(super) fn mtu(_: Source<'_>, i: &IfState, to: &mut Map) {
    let mut protocols = Map::new();
    for (name, of) in MtuOf::ALL {
        protocols.put_unless(name, i.settings.get(of.setting()), 0);
    }
    to.put_some("mtu", Some(Node::Flow(protocols)));
}

pub(super) fn redirects(_: Source<'_>, i: &IfState, to: &mut Map) {
    let on = |on: bool| on.then_some(true);
    let mut families = Map::new();
    for (v6, family) in [(false, "ip4"), (true, "ip6")] {
        families.put_some(family, on(i.settings.get(redirect::sent(v6))));
    }
    to.put_some("redirects", Some(Node::Flow(families)));
}

pub(super) fn proxy_arp(_: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_unless("proxy-arp", i.settings.get(&proxy::ARP), false);
}

pub(super) fn switches(_: Source<'_>, i: &IfState, to: &mut Map) {
    let s = &i.settings;
    to.put_unless("arp-sender-check", s.get(&arp::SENDER_CHECK), false)
        .put_unless("directed-broadcast", s.get(&net::interface::DIRECTED_BROADCAST), false)
        .put_some("ip4-link-local", s.get(&ip4::LINK_LOCAL_STAYS).then_some("drop"))
        .put_some("ip4-broadcast-sources", s.get(&ip4::BROADCAST_SOURCES_FORWARD).then_some("forward"));
}

pub(super) fn groups(from: Source<'_>, i: &IfState, to: &mut Map) {
    let wanted = multicast::wanted(from.router, i.index);
    to.put_some("groups", Some(Node::Row(wanted.map(Node::text).collect())));
}

/// Limits that are not the default ones.
pub(super) fn reassembly_limits(from: Source<'_>, to: &mut Map) {
    let mut kinds = Map::new();
    for kind in Kind::ALL {
        let (now, default) = (reassembly::limits(from.router, kind), kind.defaults());
        let ms = |t: std::time::Duration| t.as_millis() as u64;
        let mut limits = Map::new();
        limits
            .put_unless("max-reassemblies", now.max_reassemblies, default.max_reassemblies)
            .put_unless("max-reassembly-length", now.max_length, default.max_length)
            .put_unless("timeout-ms", ms(now.timeout), ms(default.timeout))
            .put_unless("expire-walk-interval-ms", ms(now.walk), ms(default.walk));
        kinds.put_some(kind.name(), Some(Node::Flow(limits)));
    }
    to.put_some("reassembly", Some(kinds));
}

/// What becomes of fragments.
pub(super) fn reassembly(_: Source<'_>, i: &IfState, to: &mut Map) {
    for (name, shallow) in [("reassembly", false), ("virtual-reassembly", true)] {
        let mut families = Map::new();
        for (v6, family) in [(false, "ip4"), (true, "ip6")] {
            let on = i.settings.get(Kind { v6, shallow }.setting());
            families.put_some(family, on.then_some(true));
        }
        to.put_some(name, Some(Node::Flow(families)));
    }
}

pub(super) fn urpf(from: Source<'_>, i: &IfState, to: &mut Map) {
    let rule = |v6, tx| {
        let rule = urpf::rule(i, v6, tx);
        let table = rule.named().map(|fib_index| from.router.table_at(v6, FibIndex(fib_index)));
        (rule.mode != Mode::Off).then(|| match table {
            None => Node::from(rule.mode.name()),
            Some(id) => {
                let mut fields = Map::new();
                fields.put("mode", rule.mode.name()).put("table", id);
                Node::Flow(fields)
            }
        })
    };
    let mut families = Map::new();
    for (v6, family) in [(false, "ip4"), (true, "ip6")] {
        let named = urpf::rule(i, v6, false).named().is_some();
        match (rule(v6, false), rule(v6, true)) {
            (rx, None) if !named => _ = families.put_some(family, rx),
            (rx, tx) => {
                let mut directions = Map::new();
                directions.put_some("rx", rx).put_some("tx", tx);
                families.put(family, Node::Flow(directions));
            }
        }
    }
    to.put_some("urpf", Some(Node::Flow(families)));
}
