//! `router-advertisements` of an interface.

use super::Source;
use crate::written::{Map, Node};
use net::ra::content::INFINITE;
use net::ra::{Prefix, RaConfig};
use net::router::IfState;
use packet::nd::Preference;

fn preference(p: Preference) -> &'static str {
    match p {
        Preference::Low => "low",
        Preference::Medium => "medium",
        Preference::High => "high",
    }
}

fn seconds(n: u32) -> Node {
    if n == INFINITE { Node::text("infinite") } else { Node::from(n) }
}

pub(super) fn write(from: Source<'_>, i: &IfState, to: &mut Map) {
    let Some(c) = net::ra::config(from.router, i.index) else { return };
    let mut out = Map::new();
    let default = RaConfig::default();
    if (c.min_interval, c.max_interval) != (default.min_interval, default.max_interval) {
        let mut interval = Map::new();
        interval.put("min", c.min_interval).put("max", c.max_interval);
        out.put("interval", Node::Flow(interval));
    }
    if (c.initial_count, c.initial_interval) != (default.initial_count, default.initial_interval) {
        let mut initial = Map::new();
        initial.put("count", u16::from(c.initial_count)).put("interval", u16::from(c.initial_interval));
        out.put("initial", Node::Flow(initial));
    }
    out.put_unless("lifetime", c.lifetime, default.lifetime)
        .put_unless("managed", c.managed, false)
        .put_unless("other", c.other, false)
        .put_unless("hop-limit", u16::from(c.hop_limit), u16::from(default.hop_limit))
        .put_unless("reachable-ms", c.reachable, 0)
        .put_unless("retransmit-ms", c.retrans, 0)
        .put_some("mtu", c.mtu)
        .put_unless("preference", preference(c.preference), preference(default.preference))
        .put_unless("link-layer", c.source_mac, true)
        .put_unless("unicast", c.unicast, false);
    let mut prefixes = Map::new();
    for (net, p) in &c.prefixes {
        let base = Prefix { autonomous: net.prefix_len() == 64, ..Prefix::DEFAULT };
        let mut fields = Map::new();
        fields
            .put("valid", seconds(p.valid))
            .put("preferred", seconds(p.preferred))
            .put_unless("on-link", p.on_link, base.on_link)
            .put_unless("autonomous", p.autonomous, base.autonomous)
            .put_unless("advertise", !p.suppressed, true);
        prefixes.put(net.to_string(), Node::Flow(fields));
    }
    out.put_some("prefixes", Some(prefixes));
    let mut routes = Map::new();
    for (net, r) in &c.routes {
        let mut fields = Map::new();
        fields.put("lifetime", seconds(r.lifetime)).put("preference", preference(r.preference));
        routes.put(net.to_string(), Node::Flow(fields));
    }
    out.put_some("routes", Some(routes));
    out.put_some("dns-servers", Some(Node::Row(c.dns_servers.iter().map(Node::text).collect())));
    out.put_some("search-domains", Some(Node::Row(c.search_domains.iter().map(Node::text).collect())));
    out.put_some("dns-lifetime", c.dns_lifetime.map(seconds));
    if out.is_empty() {
        to.put("router-advertisements", true);
    } else {
        to.put("router-advertisements", out);
    }
}
