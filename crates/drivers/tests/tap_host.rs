//! Addresses and default routes of a TAP's Linux side, beside what the namespace has already.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use drivers::tap::{self, Config};

const FAMILIES: [(&str, &str, &str); 2] =
    [("-4", "10.1.0.2/24", "10.1.0.1"), ("-6", "2001:db8:1::2/64", "2001:db8:1::1")];

/// A namespace in which new devices have IPv6.
fn namespace() -> Ns {
    let ns = Ns::new();
    ns.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0");
    ns
}

fn config(ns: &Ns, address: &str, gateway: &str) -> Config {
    let (ip, length) = address.split_once('/').unwrap();
    Config {
        netns: ns.opt(),
        persist: true,
        addresses: vec![(ip.parse().unwrap(), length.parse().unwrap())],
        gateways: vec![gateway.parse().unwrap()],
        ..Config::new("tap0", 7)
    }
}

/// Another device with an address of each family.
fn other(ns: &Ns) {
    veth(ns, "other", ns, "peer");
    ns.ip("addr add 10.5.0.2/24 dev other");
    ns.ip("addr add 2001:db8:5::2/64 dev other nodad");
}

#[test]
fn no_other_default_route_is_taken_over() {
    if !root() {
        return;
    }
    for (family, address, gateway) in FAMILIES {
        let ns = namespace();
        other(&ns);
        let via = if family == "-4" { "10.5.0.1" } else { "2001:db8:5::1" };
        let beside = if family == "-4" { "10.5.0.9" } else { "2001:db8:5::9" };
        let several = format!("nexthop via {via} dev other nexthop via {beside} dev other");
        for route in [
            format!("via {via} dev other metric 100"),
            format!("via {via} dev other metric 4000000000"),
            format!("metric 100 {several}"),
            "unreachable".to_owned(),
        ] {
            let words = match route.as_str() {
                "unreachable" => "unreachable default metric 100".to_owned(),
                route => format!("default {route}"),
            };
            ns.ip(&format!("{family} route add {words}"));
            let before = ns.ip(&format!("{family} route show"));
            let e = tap::open(&config(&ns, address, gateway)).err().unwrap().to_string();
            assert!(e.starts_with(&format!("the gateway {gateway} is refused")), "{words}: {e}");
            wait_for("the device to vanish", || !ns.ip("link").contains("tap0"));
            assert_eq!(ns.ip(&format!("{family} route show")), before);
            ns.ip(&format!("{family} route del {words}"));
        }
        // Those of other tables and other families are not in the way.
        ns.ip(&format!("{family} route add default via {via} dev other table 77"));
        let (wrong, via) = if family == "-4" { ("-6", "2001:db8:5::1") } else { ("-4", "10.5.0.1") };
        ns.ip(&format!("{wrong} route add default via {via} dev other"));
        tap::open(&config(&ns, address, gateway)).unwrap().handle.set_persist(false).unwrap();
    }
}

#[test]
fn a_device_that_stayed_gets_what_is_configured_now() {
    if !root() {
        return;
    }
    for (family, address, gateway) in FAMILIES {
        let ns = namespace();
        drop(tap::open(&config(&ns, address, gateway)).unwrap());
        let (new, by) = if family == "-4" {
            (["10.1.0.3/24", "10.2.0.2/24"], ["10.1.0.9", "10.2.0.1"])
        } else {
            (["2001:db8:1::3/64", "2001:db8:2::2/64"], ["2001:db8:1::9", "fe80::1"])
        };
        // By hand: another metric and protocol.
        ns.ip(&format!("{family} route add default via {gateway} dev tap0 metric 50"));
        for (address, gateway) in [(address, gateway), (new[0], by[0]), (new[1], by[1])] {
            drop(tap::open(&config(&ns, address, gateway)).unwrap());
            let shown = ns.ip(&format!("{family} -o addr show dev tap0 scope global"));
            assert!(shown.lines().count() == 1 && shown.contains(address), "{address}: {shown}");
            let routes = ns.ip(&format!("{family} route show default"));
            assert!(
                routes.lines().count() == 1 && routes.starts_with(&format!("default via {gateway} dev tap0")),
                "{routes}"
            );
        }
    }
}

#[test]
fn a_device_that_stayed_is_as_it_was_when_a_later_step_fails() {
    if !root() {
        return;
    }
    let ns = namespace();
    other(&ns);
    let mut c = config(&ns, FAMILIES[0].1, FAMILIES[0].2);
    drop(tap::open(&c).unwrap());
    ns.ip("addr add 10.1.0.77/24 dev tap0");
    ns.ip("route add default via 10.1.0.5 dev tap0 metric 50");
    let shown = || {
        let addresses = ns.ip("-o addr show dev tap0 scope global");
        (addresses, ns.ip("-4 route show default"), ns.ip("-6 route show default"))
    };
    let before = shown();
    // The IPv4 half goes well; then the IPv6 gateway cannot be reached from any prefix.
    let (six, four) = (("2001:db8:1::2".parse().unwrap(), 64), ("10.2.0.2".parse().unwrap(), 24));
    c.addresses = vec![four, six];
    c.gateways = vec!["10.2.0.1".parse().unwrap(), "2001:db8:99::1".parse().unwrap()];
    let e = tap::open(&c).err().unwrap().to_string();
    assert!(e.contains("2001:db8:99::1"), "{e}");
    assert_eq!(shown(), before);
}

#[test]
fn a_persistent_device_whose_creation_is_undone_goes() {
    if !root() {
        return;
    }
    let ns = namespace();
    let c = config(&ns, FAMILIES[0].1, FAMILIES[0].2);
    let mut d = tap::open(&c).unwrap();
    d.handle.unmake();
    drop(d);
    wait_for("the device to vanish", || !ns.ip("link").contains("tap0"));
    // One that was there stays.
    drop(tap::open(&c).unwrap());
    let mut d = tap::open(&c).unwrap();
    d.handle.unmake();
    drop(d);
    assert!(ns.ip("-4 route show default").contains("via 10.1.0.1 dev tap0"));
}
