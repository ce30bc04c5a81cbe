//! What an interface advertises.

use super::withdrawn::{Item, Items};
use ipnet::{IpNet, Ipv6Net};
use packet::eth::MacAddr;
use packet::nd::{AdvertHeader, Preference, RouterAdvert};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// A lifetime that does not end.
pub const INFINITE: u32 = u32::MAX;
/// The most prefixes, routes, servers and domains of an interface, each.
pub const MOST: usize = 16;

/// What is said of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Seconds for which it is on the link, and addresses in it are valid.
    pub valid: u32,
    /// Seconds for which addresses in it are preferred; at most `valid`.
    pub preferred: u32,
    /// Its addresses are on the link.
    pub on_link: bool,
    /// Hosts make addresses in it.
    pub autonomous: bool,
    /// It is not advertised at all, although the interface has an address in it.
    pub suppressed: bool,
}

impl Prefix {
    /// AdvPrefixList's defaults (RFC 4861 section 6.2.1): 30 and 7 days.
    pub const DEFAULT: Prefix =
        Prefix { valid: 2_592_000, preferred: 604_800, on_link: true, autonomous: true, suppressed: false };
}

/// A route that is advertised (RFC 4191).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Against the same route over other routers.
    pub preference: Preference,
    /// Seconds.
    pub lifetime: u32,
}

/// Settings of an interface; defaults are those of RFC 4861 section 6.2.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaConfig {
    /// Longest time between advertisements, seconds: 4 to 1800.
    pub max_interval: u16,
    /// Shortest time between them, seconds: from 3 to three quarters of the longest.
    pub min_interval: u16,
    /// Advertisements that come faster after a start.
    pub initial_count: u8,
    /// The longest time between those, seconds: 1 to 16.
    pub initial_interval: u8,
    /// The "managed address configuration" flag.
    pub managed: bool,
    /// The "other configuration" flag.
    pub other: bool,
    /// Hop limit for hosts; 0: says nothing.
    pub hop_limit: u8,
    /// Seconds for which this is a default router; 0: it is none.
    pub lifetime: u16,
    /// Against other default routers.
    pub preference: Preference,
    /// ReachableTime for hosts, milliseconds; 0: says nothing.
    pub reachable: u32,
    /// RetransTimer for hosts, milliseconds; 0: says nothing.
    pub retrans: u32,
    /// The link's MTU for hosts: that of the interface when absent; 0: says nothing.
    pub mtu: Option<u32>,
    /// The router's MAC address is told.
    pub source_mac: bool,
    /// A solicitation is answered to its sender alone.
    pub unicast: bool,
    /// Prefixes besides those of the interface, or with other settings than theirs.
    pub prefixes: BTreeMap<Ipv6Net, Prefix>,
    /// Routes.
    pub routes: BTreeMap<Ipv6Net, Route>,
    /// DNS servers.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Domains in which hosts look names up.
    pub search_domains: Vec<String>,
    /// Seconds for which both are good; three times the longest interval when absent (RFC 8106 section 5.1).
    pub dns_lifetime: Option<u32>,
}

impl Default for RaConfig {
    fn default() -> Self {
        RaConfig {
            max_interval: 600,
            min_interval: 198,
            initial_count: 3,
            initial_interval: 16,
            managed: false,
            other: false,
            hop_limit: 64,
            lifetime: 1800,
            preference: Preference::Medium,
            reachable: 0,
            retrans: 0,
            mtu: None,
            source_mac: true,
            unicast: false,
            prefixes: BTreeMap::new(),
            routes: BTreeMap::new(),
            dns_servers: vec![],
            search_domains: vec![],
            dns_lifetime: None,
        }
    }
}

/// True for a domain name that an option can carry.
pub fn is_domain(name: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    !name.is_empty() && name.len() <= 253 && name.trim_end_matches('.').split('.').all(label)
}

impl RaConfig {
    /// What is wrong with it: a rule, the value, and what would be right.
    ///
    /// # Errors
    /// The first breach of RFC 4861 section 6.2.1, or of the bounds of this implementation.
    pub fn check(&self) -> Result<(), String> {
        let (min, max) = (self.min_interval, self.max_interval);
        if !(4..=1800).contains(&max) {
            return Err(format!("a longest interval of {max} s: it is 4 to 1800 s"));
        }
        if min < 3 || u32::from(min) * 4 > u32::from(max) * 3 {
            return Err(format!(
                "a shortest interval of {min} s: it is 3 s to three quarters of the longest, {} s",
                max * 3 / 4
            ));
        }
        if self.lifetime != 0 && !(max..=9000).contains(&self.lifetime) {
            let lifetime = self.lifetime;
            return Err(format!(
                "a lifetime of {lifetime} s: it is 0, or from the longest interval, {max} s, to 9000 s"
            ));
        }
        if !(1..=16).contains(&self.initial_interval) {
            return Err(format!("an initial interval of {} s: it is 1 to 16 s", self.initial_interval));
        }
        if self.reachable > 3_600_000 {
            return Err(format!(
                "a reachable time of {} ms: it is at most an hour, 3600000 ms",
                self.reachable
            ));
        }
        if self.mtu.is_some_and(|m| m != 0 && m < 1280) {
            return Err("an MTU under 1280, which IPv6 needs".into());
        }
        for (prefix, p) in &self.prefixes {
            if prefix.addr().is_multicast() || prefix.addr().is_unicast_link_local() {
                return Err(format!(
                    "the prefix {prefix}: link-local and multicast prefixes are not advertised"
                ));
            }
            if p.preferred > p.valid {
                return Err(format!(
                    "{prefix}: preferred for {} s, longer than valid, {} s",
                    p.preferred, p.valid
                ));
            }
        }
        for (what, n) in [
            ("prefixes", self.prefixes.len()),
            ("routes", self.routes.len()),
            ("DNS servers", self.dns_servers.len()),
            ("search domains", self.search_domains.len()),
        ] {
            if n > MOST {
                return Err(format!("{n} {what}: at most {MOST}"));
            }
        }
        if let Some(bad) = self.search_domains.iter().find(|d| !is_domain(d)) {
            return Err(format!("{bad:?} is not a domain name"));
        }
        if let Some(bad) = self.dns_servers.iter().find(|a| a.is_multicast() || a.is_unspecified()) {
            return Err(format!("{bad} is not the address of a server"));
        }
        Ok(())
    }

    /// The prefixes to advertise on an interface with these addresses. Hosts make addresses in prefixes of 64 bits alone (RFC
    /// 4291 section 2.5.1).
    pub fn prefixes(&self, addresses: &[IpNet]) -> BTreeMap<Ipv6Net, Prefix> {
        let mut all = BTreeMap::new();
        for a in addresses {
            if let IpNet::V6(a) = a
                && a.prefix_len() < 127
            {
                let autonomous = a.prefix_len() == 64;
                all.insert(a.trunc(), Prefix { autonomous, ..Prefix::DEFAULT });
            }
        }
        all.extend(self.prefixes.iter().map(|(k, v)| (*k, *v)));
        all.retain(|_, p| !p.suppressed);
        all
    }

    /// What the advertisements of an interface with these addresses hold.
    pub fn items(&self, addresses: &[IpNet]) -> Items {
        let none = (false, false);
        let prefixes = self.prefixes(addresses).into_iter();
        let mut all: Items = prefixes.map(|(k, p)| (Item::Prefix(k), (p.on_link, p.autonomous))).collect();
        all.extend(self.routes.keys().map(|k| (Item::Route(*k), none)));
        all.extend(self.dns_servers.iter().map(|s| (Item::Server(*s), none)));
        all.extend(self.search_domains.iter().map(|d| (Item::Domain(d.clone()), none)));
        all
    }

    /// The advertisement of an interface, with what is `gone` since earlier ones. A `last` one tells hosts to use this router
    /// no more (RFC 4861 section 6.2.5). It comes in several packets where its options do not fit the MTU (section 6.2.3).
    pub fn adverts(
        &self,
        mac: MacAddr,
        mtu: u16,
        addresses: &[IpNet],
        last: bool,
        gone: &Items,
    ) -> Vec<RouterAdvert> {
        let mut empty = RouterAdvert::new(AdvertHeader {
            hop_limit: self.hop_limit,
            managed: self.managed,
            other: self.other,
            // Of no use where the lifetime is 0 (RFC 4191 section 2.2).
            preference: if last || self.lifetime == 0 { Preference::Medium } else { self.preference },
            lifetime: if last { 0 } else { self.lifetime },
            reachable: self.reachable,
            retrans: self.retrans,
        });
        if self.source_mac {
            empty = empty.source_mac(mac);
        }
        let mut all = Packets { all: vec![empty.clone()], empty, most: usize::from(mtu) };
        match self.mtu {
            Some(0) => {}
            Some(mtu) => all.add(|a| a.mtu(mtu)),
            None => all.add(|a| a.mtu(mtu.into())),
        }
        for (prefix, p) in self.prefixes(addresses) {
            let (flags, lifetimes) = ((p.on_link, p.autonomous), (p.valid, p.preferred));
            all.add(|a| a.prefix(prefix.addr(), prefix.prefix_len(), flags, lifetimes));
        }
        for (prefix, r) in &self.routes {
            let lifetime = if last { 0 } else { r.lifetime };
            all.add(|a| a.route(prefix.addr(), prefix.prefix_len(), r.preference, lifetime));
        }
        let lifetime = if last { 0 } else { self.dns_lifetime.unwrap_or(3 * u32::from(self.max_interval)) };
        all.dns(&self.dns_servers, &self.search_domains, lifetime);
        let (mut servers, mut domains) = (vec![], vec![]);
        for (item, flags) in gone {
            match item {
                Item::Prefix(p) => all.add(|a| a.prefix(p.addr(), p.prefix_len(), *flags, (0, 0))),
                Item::Route(p) => all.add(|a| a.route(p.addr(), p.prefix_len(), Preference::Medium, 0)),
                Item::Server(s) => servers.push(*s),
                Item::Domain(d) => domains.push(d.clone()),
            }
        }
        all.dns(&servers, &domains, 0);
        all.all
    }
}

/// Bytes of the names in one option, which can hold 2032.
const NAMES: usize = 900;

/// An advertisement that is cut into packets of at most `most` bytes.
struct Packets {
    all: Vec<RouterAdvert>,
    /// One without further options.
    empty: RouterAdvert,
    most: usize,
}

impl Packets {
    fn add(&mut self, option: impl Fn(RouterAdvert) -> RouterAdvert) {
        let Some(last) = self.all.last_mut() else { return };
        let more = option(last.clone());
        if more.packet_len() <= self.most || last.packet_len() == self.empty.packet_len() {
            *last = more;
        } else {
            self.all.push(option(self.empty.clone()));
        }
    }

    fn dns(&mut self, servers: &[Ipv6Addr], domains: &[String], lifetime: u32) {
        if !servers.is_empty() {
            self.add(|a| a.dns_servers(servers, lifetime));
        }
        let mut rest = domains;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |d: &&String| {
                bytes += d.len() + 2;
                bytes <= NAMES
            };
            let n = rest.iter().take_while(fits).count().max(1);
            self.add(|a| a.search_domains(&rest[..n], lifetime));
            rest = &rest[n..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_the_rfc() {
        let good = RaConfig::default();
        assert_eq!(good.check(), Ok(()));
        let bad: [fn(&mut RaConfig); 12] = [
            |c| c.max_interval = 3,
            |c| c.max_interval = 1801,
            |c| c.min_interval = 2,
            |c| c.min_interval = 451,
            |c| c.lifetime = 599,
            |c| c.lifetime = 9001,
            |c| c.initial_interval = 17,
            |c| c.reachable = 3_600_001,
            |c| c.mtu = Some(1279),
            |c| c.search_domains = vec!["a..b".into()],
            |c| c.dns_servers = vec!["::".parse().unwrap(); 17],
            |c| {
                let p = Prefix { preferred: 9, valid: 8, ..Prefix::DEFAULT };
                c.prefixes.insert("2001:db8::/64".parse().unwrap(), p);
            },
        ];
        for (n, change) in bad.iter().enumerate() {
            let mut c = good.clone();
            change(&mut c);
            assert!(c.check().is_err(), "{n}");
        }
        let mut c = good;
        (c.lifetime, c.min_interval, c.mtu) = (0, 450, Some(0));
        assert_eq!(c.check(), Ok(()));
    }

    #[test]
    fn the_interface_says_which_prefixes() {
        let own: Vec<IpNet> = ["10.0.0.1/24", "2001:db8:1::1/64", "2001:db8:2::1/48", "2001:db8:3::1/128"]
            .map(|a| a.parse().unwrap())
            .to_vec();
        let mut c = RaConfig::default();
        let list = |c: &RaConfig| -> Vec<(String, bool)> {
            c.prefixes(&own).iter().map(|(k, p)| (k.to_string(), p.autonomous)).collect()
        };
        assert_eq!(list(&c), [("2001:db8:1::/64".to_string(), true), ("2001:db8:2::/48".to_string(), false)]);
        c.prefixes.insert("2001:db8:1::/64".parse().unwrap(), Prefix { suppressed: true, ..Prefix::DEFAULT });
        c.prefixes
            .insert("2001:db8:9::/64".parse().unwrap(), Prefix { autonomous: false, ..Prefix::DEFAULT });
        assert_eq!(
            list(&c),
            [("2001:db8:2::/48".to_string(), false), ("2001:db8:9::/64".to_string(), false)]
        );
    }

    #[test]
    fn what_does_not_fit_comes_in_further_packets() {
        let own: Vec<IpNet> = (0..40u16).map(|n| format!("2001:db8:{n:x}::1/64").parse().unwrap()).collect();
        let name = |n: usize| {
            [format!("{n:02}{}", "x".repeat(60)), "y".repeat(63), "z".repeat(63), "w".repeat(57)].join(".")
        };
        let c = RaConfig {
            dns_servers: (1..17u128).map(Ipv6Addr::from_bits).collect(),
            search_domains: (0..16).map(name).collect(),
            ..RaConfig::default()
        };
        let gone: Items = (0..16u16)
            .map(|n| (Item::Prefix(format!("2001:db8:aa{n:02x}::/64").parse().unwrap()), (true, true)))
            .collect();
        let source = "fe80::1".parse().unwrap();
        let all: Vec<Vec<u8>> = c
            .adverts(MacAddr([2, 0, 0, 0, 0, 1]), 1280, &own, false, &gone)
            .iter()
            .map(|a| a.packet(source, source).unwrap())
            .collect();
        let mut kinds = std::collections::HashMap::<u8, usize>::new();
        let mut names = 0;
        for p in &all {
            assert!(p.len() <= 1280, "{} bytes", p.len());
            let mut rest = &p[56..];
            while !rest.is_empty() {
                let len = usize::from(rest[1]) * 8;
                *kinds.entry(rest[0]).or_default() += 1;
                names += if rest[0] == 31 {
                    rest[8..len].windows(3).filter(|w| w == b"xxx").count() / 58
                } else {
                    0
                };
                rest = &rest[len..];
            }
        }
        // The router's MAC address stands in each.
        assert_eq!((kinds[&1], kinds[&5], kinds[&3], kinds[&25], names), (all.len(), 1, 56, 1, 16));
    }
}
