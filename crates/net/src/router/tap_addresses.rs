//! Addresses of the Linux side of a TAP, and the rules for them.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the Linux side of a TAP has of layer 3.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TapAddresses {
    /// Its IPv4 address.
    pub ip4: Option<Ipv4Net>,
    /// Its IPv6 address.
    pub ip6: Option<Ipv6Net>,
    /// Gateway of the default route over it.
    pub gw4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub gw6: Option<Ipv6Addr>,
}

impl TapAddresses {
    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == TapAddresses::default()
    }

    /// The addresses.
    pub fn nets(&self) -> impl Iterator<Item = IpNet> + use<> {
        self.ip4.map(IpNet::V4).into_iter().chain(self.ip6.map(IpNet::V6))
    }

    /// The gateways.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.gw4.map(IpAddr::V4).into_iter().chain(self.gw6.map(IpAddr::V6))
    }

    /// Whether they can stand on the Linux side with that MTU, a port of a bridge or not.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, bridged: bool, mtu: Option<u32>) -> Result<(), String> {
        if bridged && !self.is_empty() {
            return Err(
                "its Linux side is a port of a bridge, which has no address of its own: give it to the \
                        bridge, or leave the bridge out"
                    .into(),
            );
        }
        self.nets().try_for_each(own)?;
        for gateway in self.gateways() {
            let net = self.nets().find(|n| n.addr().is_ipv4() == gateway.is_ipv4());
            via(gateway, net)?;
        }
        match mtu {
            Some(mtu) if mtu < 1280 && self.ip6.is_some() => {
                Err(format!("MTU {mtu} of its Linux side is too small for IPv6, which needs 1280 bytes"))
            }
            _ => Ok(()),
        }
    }
}

fn own(net: IpNet) -> Result<(), String> {
    let a = net.addr();
    if !is_host(a) {
        return Err(format!("{a} cannot be the address of its Linux side"));
    }
    if nobodys(net, a) {
        return Err(format!("{a} is the network or broadcast address of {}", net.trunc()));
    }
    Ok(())
}

fn via(gateway: IpAddr, net: Option<IpNet>) -> Result<(), String> {
    let Some(net) = net else {
        let family = if gateway.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(format!("the gateway {gateway} needs an {family} address of its Linux side"));
    };
    let link_local = matches!(gateway, IpAddr::V6(a) if a.is_unicast_link_local());
    if !is_host(gateway) || !(link_local || net.contains(&gateway)) || nobodys(net, gateway) {
        return Err(format!(
            "the gateway {gateway} is no host of {}, the prefix of its Linux side",
            net.trunc()
        ));
    }
    if gateway == net.addr() {
        return Err(format!(
            "the gateway {gateway} is the address of its Linux side itself: name the router's"
        ));
    }
    Ok(())
}

/// Whether a single host can have it.
fn is_host(a: IpAddr) -> bool {
    let reserved = matches!(a, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
    !(reserved || a.is_unspecified() || a.is_multicast() || a.is_loopback())
}

/// Whether it is the prefix's network or broadcast address.
fn nobodys(net: IpNet, a: IpAddr) -> bool {
    net.addr().is_ipv4() && net.prefix_len() < 31 && (a == net.network() || a == net.broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> TapAddresses {
        let mut a = TapAddresses::default();
        for word in words {
            match (word.contains('/'), word.contains(':')) {
                (true, false) => a.ip4 = word.parse().ok(),
                (true, true) => a.ip6 = word.parse().ok(),
                (false, false) => a.gw4 = word.parse().ok(),
                (false, true) => a.gw6 = word.parse().ok(),
            }
        }
        assert_eq!(a.nets().count() + a.gateways().count(), words.len(), "{words:?}");
        a
    }

    #[test]
    fn what_fits_and_what_does_not() {
        let says = |words: &[&str]| of(words).check(false, Some(1500)).err().unwrap_or_default();
        for good in [
            &[][..],
            &["10.0.0.2/24"],
            &["10.0.0.2/24", "10.0.0.1"],
            &["10.0.0.0/31", "10.0.0.1"],
            &["2001:db8::2/64", "2001:db8::1"],
            &["2001:db8::2/64", "fe80::1"],
            &["10.0.0.2/24", "2001:db8::2/64", "10.0.0.1", "2001:db8::1"],
        ] {
            assert_eq!(says(good), "", "{good:?}");
        }
        for (bad, why) in [
            (&["127.0.0.1/8"][..], "127.0.0.1 cannot be the address"),
            (&["224.0.0.1/8"], "224.0.0.1 cannot be"),
            (&["ff02::1/64"], "ff02::1 cannot be"),
            (&["10.0.0.0/24"], "10.0.0.0 is the network or broadcast address of 10.0.0.0/24"),
            (&["10.0.0.255/24"], "10.0.0.255 is the network or broadcast"),
            (&["10.0.0.1"], "the gateway 10.0.0.1 needs an IPv4 address"),
            (&["2001:db8::2/64", "10.0.0.1"], "the gateway 10.0.0.1 needs an IPv4 address"),
            (&["10.0.0.2/24", "2001:db8::1"], "the gateway 2001:db8::1 needs an IPv6 address"),
            (&["10.0.0.2/24", "10.0.1.1"], "the gateway 10.0.1.1 is no host of 10.0.0.0/24"),
            (&["10.0.0.2/24", "10.0.0.255"], "the gateway 10.0.0.255 is no host"),
            (&["10.0.0.2/24", "10.0.0.2"], "the gateway 10.0.0.2 is the address of its Linux side itself"),
        ] {
            assert!(says(bad).contains(why), "{bad:?}: {}", says(bad));
        }
        assert!(of(&["10.0.0.2/24"]).check(true, None).unwrap_err().contains("port of a bridge"));
        assert_eq!(of(&[]).check(true, Some(500)), Ok(()));
        let small = of(&["2001:db8::2/64"]).check(false, Some(1279)).unwrap_err();
        assert!(small.contains("MTU 1279"), "{small}");
        assert_eq!(of(&["10.0.0.2/24"]).check(false, Some(500)), Ok(()));
    }
}
