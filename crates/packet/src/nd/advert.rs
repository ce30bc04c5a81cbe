//! Router advertisements to send (RFC 4861 section 4.2), with the options of RFC 4191 and RFC 8106.

use super::HOP_LIMIT;
use crate::BuildError;
use crate::eth::MacAddr;
use crate::icmp6::{self, kind};
use crate::ip6::{self, Ip6Builder};
use crate::proto::IpProtocol;
use std::net::Ipv6Addr;

/// Option types.
mod option {
    pub const SOURCE_LINK_LAYER: u8 = 1;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
    pub const ROUTE: u8 = 24;
    pub const RDNSS: u8 = 25;
    pub const DNSSL: u8 = 31;
}

/// How much a router is preferred to others (RFC 4191 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Less than others.
    Low,
    /// As others.
    #[default]
    Medium,
    /// More than others.
    High,
}

impl Preference {
    /// Its two bits where they stand in a byte of flags.
    const fn bits(self) -> u8 {
        match self {
            Preference::Low => 0b11 << 3,
            Preference::Medium => 0,
            Preference::High => 0b01 << 3,
        }
    }
}

/// What stands in an advertisement besides its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvertHeader {
    /// Hop limit for the hosts; 0 says nothing.
    pub hop_limit: u8,
    /// Addresses are had by DHCPv6.
    pub managed: bool,
    /// Other settings are had by DHCPv6.
    pub other: bool,
    /// Against other routers.
    pub preference: Preference,
    /// For so many seconds this is a default router; 0: it is none.
    pub lifetime: u16,
    /// ReachableTime, milliseconds; 0 says nothing.
    pub reachable: u32,
    /// RetransTimer, milliseconds; 0 says nothing.
    pub retrans: u32,
}

/// An advertisement as it is put together.
#[derive(Clone, Debug)]
pub struct RouterAdvert {
    body: Vec<u8>,
    header: AdvertHeader,
}

impl RouterAdvert {
    /// Without options.
    pub fn new(header: AdvertHeader) -> Self {
        let mut body = Vec::with_capacity(256);
        body.extend(header.reachable.to_be_bytes());
        body.extend(header.retrans.to_be_bytes());
        RouterAdvert { body, header }
    }

    /// The router's MAC address.
    #[must_use]
    pub fn source_mac(mut self, mac: MacAddr) -> Self {
        self.body.extend([option::SOURCE_LINK_LAYER, 1]);
        self.body.extend(mac.0);
        self
    }

    /// The largest packet of the link, bytes.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Self {
        self.body.extend([option::MTU, 1, 0, 0]);
        self.body.extend(mtu.to_be_bytes());
        self
    }

    /// A prefix: whether it is on the link, whether hosts make addresses in it, and its lifetimes in seconds.
    #[must_use]
    pub fn prefix(
        mut self,
        prefix: Ipv6Addr,
        len: u8,
        (on_link, autonomous): (bool, bool),
        (valid, preferred): (u32, u32),
    ) -> Self {
        let flags = u8::from(on_link) << 7 | u8::from(autonomous) << 6;
        self.body.extend([option::PREFIX, 4, len, flags]);
        self.body.extend(valid.to_be_bytes());
        self.body.extend(preferred.to_be_bytes());
        self.body.extend([0; 4]);
        self.body.extend(prefix.octets());
        self
    }

    /// A route over this router (RFC 4191 section 2.3), for so many seconds.
    #[must_use]
    pub fn route(mut self, prefix: Ipv6Addr, len: u8, preference: Preference, lifetime: u32) -> Self {
        let words = usize::from(len).div_ceil(64);
        self.body.extend([option::ROUTE, 1 + words as u8, len, preference.bits()]);
        self.body.extend(lifetime.to_be_bytes());
        self.body.extend(&prefix.octets()[..8 * words.min(2)]);
        self
    }

    /// DNS servers for so many seconds (RFC 8106 section 5.1). At most 127.
    #[must_use]
    pub fn dns_servers(mut self, servers: &[Ipv6Addr], lifetime: u32) -> Self {
        let servers = &servers[..servers.len().min(127)];
        self.body.extend([option::RDNSS, 1 + 2 * servers.len() as u8, 0, 0]);
        self.body.extend(lifetime.to_be_bytes());
        servers.iter().for_each(|s| self.body.extend(s.octets()));
        self
    }

    /// Domains to search in for so many seconds (RFC 8106 section 5.2), which must be names of labels of 1 to 63 bytes.
    #[must_use]
    pub fn search_domains<S: AsRef<str>>(mut self, domains: &[S], lifetime: u32) -> Self {
        let mut names = vec![];
        for d in domains {
            for label in d.as_ref().trim_end_matches('.').split('.') {
                let label = &label.as_bytes()[..label.len().min(63)];
                names.push(label.len() as u8);
                names.extend(label);
            }
            names.push(0);
        }
        names.resize(names.len().next_multiple_of(8), 0);
        self.body.extend([option::DNSSL, (1 + names.len() / 8).min(255) as u8, 0, 0]);
        self.body.extend(lifetime.to_be_bytes());
        self.body.extend(names);
        self
    }

    /// Bytes of the whole IPv6 packet.
    pub fn packet_len(&self) -> usize {
        ip6::HEADER_LEN + icmp6::HEADER_LEN + self.body.len()
    }

    /// The IPv6 packet from the router's link-local address.
    ///
    /// # Errors
    /// When there are more options than fit an IPv6 packet.
    pub fn packet(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Result<Vec<u8>, BuildError> {
        let mut out = vec![0; self.packet_len()];
        let mut ip = Ip6Builder::new(src, dst, IpProtocol::ICMPV6);
        ip.hop_limit = HOP_LIMIT;
        let at = ip.emit(&mut out, icmp6::HEADER_LEN + self.body.len())?;
        let h = &self.header;
        let flags = u8::from(h.managed) << 7 | u8::from(h.other) << 6 | h.preference.bits();
        let [high, low] = h.lifetime.to_be_bytes();
        let rest = u32::from_be_bytes([h.hop_limit, flags, high, low]);
        icmp6::emit(&mut out[at..], (src, dst), [kind::ROUTER_ADVERTISEMENT, 0], rest, &self.body)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANT: &str = "6000000000803afffe800000000000000000000000000001ff02000000000000
        000000000000000186006b4b4088070800007530000003e80101020000000001
        0501000000000578030440c000001c2000000e100000000020010db800010000
        0000000000000000190300000000025820010db8000000000000000000000053
        1f03000000000258076578616d706c65036e6574000000001802301800000384
        20010db800090000";

    #[test]
    fn as_scapy_builds_it() {
        // Scapy: IPv6(src="fe80::1", dst="ff02::1", hlim=255) /
        //   ICMPv6ND_RA(chlim=64, M=1, O=0, prf=1, routerlifetime=1800, reachabletime=30000, retranstimer=1000) /
        //   ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01") / ICMPv6NDOptMTU(mtu=1400) /
        //   ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=1, validlifetime=7200, preferredlifetime=3600, prefix="2001:db8:1::") /
        //   ICMPv6NDOptRDNSS(lifetime=600, dns=["2001:db8::53"]) / ICMPv6NDOptDNSSL(lifetime=600, searchlist=["example.net"]) /
        //   ICMPv6NDOptRouteInfo(plen=48, prf=3, rtlifetime=900, prefix="2001:db8:9::", len=2)
        let header = AdvertHeader {
            hop_limit: 64,
            managed: true,
            preference: Preference::High,
            lifetime: 1800,
            reachable: 30_000,
            retrans: 1000,
            ..AdvertHeader::default()
        };
        let got = RouterAdvert::new(header)
            .source_mac(MacAddr([2, 0, 0, 0, 0, 1]))
            .mtu(1400)
            .prefix("2001:db8:1::".parse().unwrap(), 64, (true, true), (7200, 3600))
            .dns_servers(&["2001:db8::53".parse().unwrap()], 600)
            .search_domains(&["example.net"], 600)
            .route("2001:db8:9::".parse().unwrap(), 48, Preference::Low, 900)
            .packet("fe80::1".parse().unwrap(), "ff02::1".parse().unwrap())
            .unwrap();
        let text: String = got.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(text, WANT.split_whitespace().collect::<String>());
    }
}
