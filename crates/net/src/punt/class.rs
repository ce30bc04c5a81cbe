//! The classes of packets for the router itself, one line each.

use packet::IpProtocol;
use packet::icmp6::kind;

/// How much of a class passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets a second, over all workers; 0: none.
    pub rate: u32,
    /// Packets that may pass at once.
    pub burst: u32,
}

impl Limit {
    /// The highest rate and burst, packets.
    pub const MOST: u32 = 100_000_000;

    /// This rate with a burst of a tenth of a second, at least ten packets.
    pub fn of_rate(rate: u32) -> Limit {
        Limit { rate, burst: (rate / 10).max(10) }
    }
}

macro_rules! classes {
    ($(#[doc = $doc:literal] $class:ident: $name:literal, $rate:literal a second, $burst:literal at once => $reason:literal;)*) => {
        /// A class of packets for the router itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class { $(#[doc = $doc] $class),* }

        impl Class {
            /// All classes, in the order of their numbers.
            pub const ALL: &'static [Class] = &[$(Class::$class),*];

            /// Its name in commands and in the YAML document.
            pub const fn name(self) -> &'static str {
                match self { $(Class::$class => $name),* }
            }

            /// Its packets, in words.
            pub fn about(self) -> &'static str {
                match self { $(Class::$class => $doc.trim_ascii()),* }
            }

            /// Its limit when the operator sets none.
            pub const fn default_limit(self) -> Limit {
                match self { $(Class::$class => Limit { rate: $rate, burst: $burst }),* }
            }
        }

        graph::reasons! {
            /// What `punt-policer` drops: more packets of a class than its limit allows.
            pub enum PolicedReason { $(#[doc = $doc] $class => $reason),* }
        }

        impl From<Class> for PolicedReason {
            fn from(c: Class) -> Self {
                match c { $(Class::$class => PolicedReason::$class),* }
            }
        }

        /// The names of all classes.
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

classes! {
    /// ARP requests for an address of the router's, and announcements
    ArpRequest: "arp-request", 2000 a second, 1000 at once => "policed-arp-request";
    /// ARP replies
    ArpReply: "arp-reply", 2000 a second, 1000 at once => "policed-arp-reply";
    /// Neighbor solicitations
    NdSolicitation: "nd-solicitation", 2000 a second, 1000 at once => "policed-nd-solicitation";
    /// Neighbor advertisements
    NdAdvertisement: "nd-advertisement", 2000 a second, 1000 at once => "policed-nd-advertisement";
    /// Router solicitations and advertisements, and redirects
    NdRouter: "nd-router", 500 a second, 200 at once => "policed-nd-router";
    /// ICMP to the router
    Icmp: "icmp", 5000 a second, 1000 at once => "policed-icmp";
    /// ICMPv6 to the router, but for neighbor and multicast listener discovery
    Icmp6: "icmp6", 5000 a second, 1000 at once => "policed-icmp6";
    /// BGP (TCP port 179)
    Bgp: "bgp", 20000 a second, 5000 at once => "policed-bgp";
    /// OSPF and OSPFv3 (protocol 89)
    Ospf: "ospf", 5000 a second, 2000 at once => "policed-ospf";
    /// LDP (TCP and UDP port 646)
    Ldp: "ldp", 5000 a second, 2000 at once => "policed-ldp";
    /// VRRP (protocol 112)
    Vrrp: "vrrp", 2000 a second, 500 at once => "policed-vrrp";
    /// IS-IS and what else comes in frames of IEEE 802.2
    Isis: "isis", 5000 a second, 2000 at once => "policed-isis";
    /// BFD (UDP ports 3784, 3785, 4784, 6784)
    Bfd: "bfd", 20000 a second, 4000 at once => "policed-bfd";
    /// LACP and other slow protocols (EtherType 0x8809)
    SlowProtocols: "slow-protocols", 1000 a second, 200 at once => "policed-slow-protocols";
    /// LLDP (EtherType 0x88cc)
    Lldp: "lldp", 500 a second, 200 at once => "policed-lldp";
    /// IGMP (protocol 2)
    Igmp: "igmp", 1000 a second, 500 at once => "policed-igmp";
    /// Multicast listener discovery
    Mld: "mld", 1000 a second, 500 at once => "policed-mld";
    /// IPv4 limited broadcasts
    Broadcast: "broadcast", 1000 a second, 500 at once => "policed-broadcast";
    /// Fragments of packets to the router
    Fragment: "fragment", 20000 a second, 4000 at once => "policed-fragment";
    /// Everything else to an address of the router's
    Local: "local", 5000 a second, 1000 at once => "policed-local";
    /// Everything else to Linux, where the interface has a pair
    Linux: "linux", 500000 a second, 50000 at once => "policed-linux";
    /// Everything else to programs, which have asked for it over the API
    Api: "api", 20000 a second, 2000 at once => "policed-api";
    /// Packets with IPv4 options or IPv6 hop-by-hop options, to the router or through it
    Options: "options", 10000 a second, 2000 at once => "policed-options";
    /// Labelled packets with router alert (label 1)
    RouterAlert: "mpls-router-alert", 1000 a second, 200 at once => "policed-mpls-router-alert";
    /// Packets whose TTL or hop limit ran out, to be answered with "time exceeded"
    TtlExceeded: "ttl-exceeded", 1000 a second, 200 at once => "policed-ttl-exceeded";
    /// TCP segments for ports on which nothing listens, to be answered with a reset
    TcpReset: "tcp-reset", 1000 a second, 200 at once => "policed-tcp-reset";
    /// Packets to be answered with a redirect
    Redirect: "redirect", 100 a second, 50 at once => "policed-redirect";
    /// Packets to be answered with another ICMP error
    IcmpError: "icmp-error", 1000 a second, 200 at once => "policed-icmp-error";
}

/// How many classes there are.
pub const COUNT: usize = Class::ALL.len();

const BGP: u16 = 179;
const LDP: u16 = 646;
const BFD: [u16; 4] = [3784, 3785, 4784, 6784];

impl Class {
    /// The class called `name`.
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// The class with this number, as it stands in a scratch word.
    pub fn of_number(n: u32) -> Class {
        Class::ALL.get(n as usize).copied().unwrap_or(Class::Local)
    }

    /// The class of a packet to the router with this protocol, whose header and what follows are `upper`.
    pub fn of_upper(protocol: IpProtocol, upper: &[u8]) -> Class {
        let port = |at: usize| upper.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        match protocol {
            IpProtocol::ICMP => Class::Icmp,
            IpProtocol::ICMPV6 => match upper.first() {
                Some(&kind::NEIGHBOR_SOLICITATION) => Class::NdSolicitation,
                Some(&kind::NEIGHBOR_ADVERTISEMENT) => Class::NdAdvertisement,
                Some(&(kind::ROUTER_SOLICITATION | kind::ROUTER_ADVERTISEMENT | kind::REDIRECT)) => {
                    Class::NdRouter
                }
                Some(&(kind::MLD_QUERY | kind::MLD_REPORT | kind::MLD_DONE | kind::MLDV2_REPORT)) => {
                    Class::Mld
                }
                _ => Class::Icmp6,
            },
            IpProtocol::TCP if port(0) == Some(BGP) || port(2) == Some(BGP) => Class::Bgp,
            IpProtocol::TCP | IpProtocol::UDP if port(0) == Some(LDP) || port(2) == Some(LDP) => Class::Ldp,
            IpProtocol::UDP if port(2).is_some_and(|p| BFD.contains(&p)) => Class::Bfd,
            IpProtocol::IGMP => Class::Igmp,
            IpProtocol::OSPF => Class::Ospf,
            IpProtocol::VRRP => Class::Vrrp,
            _ => Class::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_and_reasons() {
        for (n, c) in Class::ALL.iter().enumerate() {
            assert_eq!((Class::of_number(n as u32), Class::named(c.name())), (*c, Some(*c)));
            let (reason, about, _) = <PolicedReason as graph::Reason>::ALL[n];
            assert_eq!((reason, about.trim()), (&*format!("policed-{}", c.name()), c.about()));
            assert!(c.default_limit().burst > 0 && c.default_limit().rate > 0);
        }
        assert_eq!(Class::named("nothing"), None);
    }

    #[test]
    fn upper_layers_are_told_apart() {
        let class = |protocol, upper: &[u8]| Class::of_upper(IpProtocol(protocol), upper);
        assert_eq!(class(1, &[8]), Class::Icmp);
        for (kind, want) in [
            (135, Class::NdSolicitation),
            (136, Class::NdAdvertisement),
            (133, Class::NdRouter),
            (134, Class::NdRouter),
            (137, Class::NdRouter),
            (130, Class::Mld),
            (143, Class::Mld),
            (128, Class::Icmp6),
            (1, Class::Icmp6),
        ] {
            assert_eq!(class(58, &[kind, 0]), want, "type {kind}");
        }
        assert_eq!(class(6, &[0, 179, 9, 9]), Class::Bgp);
        assert_eq!(class(6, &[9, 9, 0, 179]), Class::Bgp);
        assert_eq!(class(6, &[9, 9, 0, 22]), Class::Local);
        assert_eq!(class(17, &[9, 9, 0x0e, 0xc8]), Class::Bfd);
        assert_eq!(class(17, &[0x0e, 0xc8, 9, 9]), Class::Local, "only the destination port");
        for protocol in [6, 17] {
            assert_eq!(class(protocol, &[2, 0x86, 9, 9]), Class::Ldp);
            assert_eq!(class(protocol, &[9, 9, 2, 0x86]), Class::Ldp);
        }
        assert_eq!(class(112, &[]), Class::Vrrp);
        assert_eq!(class(2, &[]), Class::Igmp);
        assert_eq!(class(89, &[]), Class::Ospf);
        for protocol in [6, 17, 58, 47] {
            assert_eq!(class(protocol, &[0]) == Class::Icmp6, protocol == 58, "cut off");
        }
    }
}
