//! `router-advertisements` of an interface.

use ipnet::{IpNet, Ipv6Net};
use net::ra::content::INFINITE;
use net::ra::{Advertise, Prefix, RaConfig, Route};
use net::router::MTU;
use packet::nd::Preference;

use super::super::decode::{Decoder, Fields};
use super::super::scalar::short;
use super::super::tree::{Node, Value};
use super::Scope;
use super::proxy::address6;

const FIELDS: &[&str] = &[
    "interval",
    "initial",
    "lifetime",
    "managed",
    "other",
    "hop-limit",
    "reachable-ms",
    "retransmit-ms",
    "mtu",
    "preference",
    "link-layer",
    "unicast",
    "prefixes",
    "routes",
    "dns-servers",
    "search-domains",
    "dns-lifetime",
];
const INTERVAL: &[&str] = &["min", "max"];
const INITIAL: &[&str] = &["count", "interval"];
const PREFIX: &[&str] = &["valid", "preferred", "on-link", "autonomous", "advertise"];
const ROUTE: &[&str] = &["lifetime", "preference"];
const PREFERENCES: &[(&str, Preference)] =
    &[("low", Preference::Low), ("medium", Preference::Medium), ("high", Preference::High)];

/// The field; `true` stands for all defaults, `false` for no advertisements. `alone`: no station can be there.
pub(super) fn decode<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>, alone: bool) {
    let place = fields.key_place("router-advertisements");
    let config = s.d.field(fields, "router-advertisements", |d, node| {
        if let Value::Scalar { .. } = &node.value {
            return Some(d.boolean(node)?.then(RaConfig::default));
        }
        let fields = d.fields(node, FIELDS)?;
        Some(Some(config(d, &fields)))
    });
    let Some(Some(config)) = config else { return };
    let mut refuse = |message: String, help: &str| {
        s.d.key("router-advertisements", |d| {
            d.error(place, "router-advertisements", message).help(help);
        });
    };
    if alone {
        return refuse("no host is behind a loopback or a tunnel".into(), "remove `router-advertisements`");
    }
    if let Err(why) = config.check() {
        return refuse(why, "RFC 4861 section 6.2.1 has the bounds");
    }
    if let Some(mtu) = config.mtu.filter(|m| s.mtu != 0 && *m > u32::from(s.mtu)) {
        return refuse(
            format!("an MTU of {mtu}, more than the interface has, {}", s.mtu),
            "that of the interface, or less",
        );
    }
    s.set(place, "router-advertisements", Advertise(Some(Box::new(config))));
}

fn config<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>) -> RaConfig {
    let mut c = RaConfig::default();
    d.field(fields, "interval", |d, node| {
        if let Value::Scalar { .. } = &node.value {
            c.max_interval = d.int(node, 4u16, 1800)?;
            c.min_interval = (c.max_interval / 3).max(3);
            return Some(());
        }
        let fields = d.fields(node, INTERVAL)?;
        c.max_interval = d.field(&fields, "max", |d, node| d.int(node, 4u16, 1800)).unwrap_or(c.max_interval);
        let min = d.field(&fields, "min", |d, node| d.int(node, 3u16, 1350));
        c.min_interval = min.unwrap_or((c.max_interval / 3).max(3));
        Some(())
    });
    d.field(fields, "initial", |d, node| {
        let fields = d.fields(node, INITIAL)?;
        c.initial_count =
            d.field(&fields, "count", |d, node| d.int(node, 0u8, 255)).unwrap_or(c.initial_count);
        let interval = d.field(&fields, "interval", |d, node| d.int(node, 1u8, 16));
        c.initial_interval = interval.unwrap_or(c.initial_interval);
        Some(())
    });
    let mut flag = |name, to: &mut bool| {
        *to = d.field(fields, name, |d, node| d.boolean(node)).unwrap_or(*to);
    };
    flag("managed", &mut c.managed);
    flag("other", &mut c.other);
    flag("link-layer", &mut c.source_mac);
    flag("unicast", &mut c.unicast);
    c.lifetime = d.field(fields, "lifetime", |d, node| d.int(node, 0u16, 9000)).unwrap_or(c.lifetime);
    c.hop_limit = d.field(fields, "hop-limit", |d, node| d.int(node, 0u8, 255)).unwrap_or(c.hop_limit);
    c.reachable = d.field(fields, "reachable-ms", |d, node| d.int(node, 0u32, 3_600_000)).unwrap_or(0);
    c.retrans = d.field(fields, "retransmit-ms", |d, node| d.int(node, 0u32, u32::MAX)).unwrap_or(0);
    c.mtu = d.field(fields, "mtu", |d, node| d.int(node, 0u32, u32::from(*MTU.end())));
    let preference = d.field(fields, "preference", |d, node| d.choice(node, PREFERENCES));
    c.preference = preference.unwrap_or(c.preference);
    d.field(fields, "prefixes", |d, node| {
        for (name, place, node) in d.entries(node, "IPv6 prefixes") {
            d.key(name, |d| {
                let net = net6(d, place, name)?;
                let p = prefix(d, node, net)?;
                c.prefixes.insert(net, p);
                Some(())
            });
        }
        Some(())
    });
    d.field(fields, "routes", |d, node| {
        for (name, place, node) in d.entries(node, "IPv6 prefixes") {
            d.key(name, |d| {
                let net = net6(d, place, name)?;
                let fields = d.fields(node, ROUTE)?;
                let preference = d.field(&fields, "preference", |d, node| d.choice(node, PREFERENCES));
                let lifetime = d.field(&fields, "lifetime", seconds).unwrap_or(1800);
                c.routes.insert(net, Route { preference: preference.unwrap_or_default(), lifetime });
                Some(())
            });
        }
        Some(())
    });
    d.field(fields, "dns-servers", |d, node| {
        for (i, node) in d.items(node, "IPv6 addresses").iter().enumerate() {
            let server = d.index(i, |d| {
                let text = d.text(node, "an IPv6 address")?;
                address6(d, node, text)
            });
            c.dns_servers.extend(server);
        }
        Some(())
    });
    d.field(fields, "search-domains", |d, node| {
        for (i, node) in d.items(node, "domain names").iter().enumerate() {
            c.search_domains.extend(d.index(i, |d| d.string(node, "a domain name", 253)));
        }
        Some(())
    });
    c.dns_lifetime = d.field(fields, "dns-lifetime", seconds);
    c
}

fn net6(d: &mut Decoder<'_>, place: super::Place, text: &str) -> Option<Ipv6Net> {
    match text.parse::<IpNet>() {
        Ok(IpNet::V6(net)) if net == net.trunc() => Some(net),
        _ => {
            d.error(place, "prefix", format!("{} is not an IPv6 prefix", short(text)))
                .help("such as 2001:db8:1::/64, without host bits");
            None
        }
    }
}

/// Seconds, or the word `infinite`.
fn seconds<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<u32> {
    if d.is_word(node, "infinite") { Some(INFINITE) } else { d.int(node, 0u32, u32::MAX) }
}

fn prefix<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, net: Ipv6Net) -> Option<Prefix> {
    let fields = d.fields(node, PREFIX)?;
    let mut p = Prefix { autonomous: net.prefix_len() == 64, ..Prefix::DEFAULT };
    p.valid = d.field(&fields, "valid", seconds).unwrap_or(p.valid);
    p.preferred = d.field(&fields, "preferred", seconds).unwrap_or(p.preferred.min(p.valid));
    p.on_link = d.field(&fields, "on-link", |d, node| d.boolean(node)).unwrap_or(p.on_link);
    p.autonomous = d.field(&fields, "autonomous", |d, node| d.boolean(node)).unwrap_or(p.autonomous);
    p.suppressed = !d.field(&fields, "advertise", |d, node| d.boolean(node)).unwrap_or(true);
    Some(p)
}
