//! Limits: scans and spoofed neighbours must not grow memory, crowd out neighbours in use, or flood the link.

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn host(n: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(n)))
}

fn table(config: NeighborConfig, interfaces: u32) -> NeighborTable {
    let mut table = NeighborTable::new(config, 1);
    for interface in 0..interfaces {
        table.interface_up(interface, &mut Vec::new());
    }
    table
}

fn learn(t: &mut NeighborTable, now: Millis, interface: u32, n: u32) {
    t.heard(now, interface, host(n), Some(MAC), Heard::NsWithSource, &mut Vec::new());
}

fn confirm(t: &mut NeighborTable, now: Millis, interface: u32, n: u32) {
    learn(t, now, interface, n);
    let na = Heard::Na { solicited: true, override_: true, router: false };
    t.heard(now, interface, host(n), Some(MAC), na, &mut Vec::new());
    assert_eq!(t.get(interface, host(n)).unwrap().state, State::Reachable);
}

#[test]
fn a_scan_is_bounded_and_a_real_neighbor_still_resolves() {
    let config =
        NeighborConfig { max_incomplete: 200, solicit_rate: 100, solicit_burst: 10, ..Default::default() };
    let mut t = table(config, 1);
    let mut solicits = 0;
    let mut resolved = false;
    let real = host(1);
    // 100 s of 5000 new addresses a second; from the middle on somebody asks, ten times a second, for a host that answers in 1 ms.
    for ms in 0..100_000u64 {
        let now = Millis(ms);
        let mut out = Vec::new();
        t.tick(now, &mut out);
        for n in 0..5 {
            if ms > 50_000 && !resolved && ms % 101 == 0 && n == ms as u32 % 5 {
                t.resolve_wanted(now, 0, real, &mut out);
            }
            t.resolve_wanted(now, 0, host(1000 + ms as u32 * 5 + n), &mut out);
        }
        for action in &out {
            if let Action::Solicit { target, .. } = action {
                solicits += 1;
                if *target == real {
                    let na = Heard::Na { solicited: true, override_: true, router: false };
                    t.heard(now.after(1), 0, real, Some(MAC), na, &mut Vec::new());
                    resolved = t.get(0, real).is_some_and(|n| n.state == State::Reachable);
                }
            }
        }
        assert!(out.len() < 60, "{ms}: {}", out.len());
        // 200 under way, and the failures of the last few seconds at 100/3 a second and less.
        assert!(t.len() < 600, "{ms}: {}", t.len());
        assert!(solicits <= 11 + ms / 10, "{ms}: {solicits}");
    }
    assert!(resolved);
    assert!(t.counters().refused > 100_000);
}

#[test]
fn newcomers_displace_by_class() {
    let config = NeighborConfig { max_per_interface: 4, reachable_spread: 0, ..Default::default() };
    let mut t = table(config, 1);
    let mut out = Vec::new();
    confirm(&mut t, Millis(0), 0, 1);
    t.add_static(Millis(0), 0, host(2), MAC, &mut out).unwrap();
    learn(&mut t, Millis(0), 0, 3);
    t.resolve_wanted(Millis(0), 0, host(4), &mut out);
    // Full: the resolution is too young to be displaced, the stale one, too.
    out.clear();
    t.resolve_wanted(Millis(999), 0, host(5), &mut out);
    assert!(matches!(out[..], [Action::Log(NeighborLog::Full { .. }), Action::Failed { .. }]), "{out:?}");
    out.clear();
    t.resolve_wanted(Millis(1000), 0, host(5), &mut out);
    assert_eq!(out[0], Action::Failed { interface: 0, addr: host(4) });
    assert!(matches!(out[1], Action::Solicit { .. }));
    // A neighbour that speaks displaces the resolution, then the oldest stale one.
    learn(&mut t, Millis(1001), 0, 6);
    assert!(t.get(0, host(5)).is_none());
    learn(&mut t, Millis(1002), 0, 7);
    assert!(t.get(0, host(3)).is_none() && t.get(0, host(6)).is_some());
    // Resolutions displace stale ones only after a minute, and never what is in use.
    t.resolve_wanted(Millis(61_000), 0, host(8), &mut out);
    assert!(t.get(0, host(8)).is_none());
    t.resolve_wanted(Millis(61_001), 0, host(8), &mut out);
    assert!(t.get(0, host(8)).is_some() && t.get(0, host(6)).is_none());
    for n in 10..20 {
        t.add_static(Millis(61_001), 0, host(n), MAC, &mut out).unwrap_or_default();
    }
    assert!(t.iter().all(|n| n.state == State::Static) && t.len() == 4);
    assert_eq!(t.add_static(Millis(61_001), 0, host(30), MAC, &mut out), Err(AddStaticError::Full));
    learn(&mut t, Millis(61_001), 0, 31);
    assert!(t.get(0, host(31)).is_none());
}

#[test]
fn the_largest_interface_pays() {
    let config = NeighborConfig { max_entries: 100, ..Default::default() };
    let mut t = table(config, 3);
    (0..10).for_each(|n| learn(&mut t, Millis(0), 0, n + 1));
    (0..10).for_each(|n| confirm(&mut t, Millis(0), 1, n + 1));
    (0..1000).for_each(|n| learn(&mut t, Millis(1), 2, n + 1));
    assert_eq!(t.len(), 100);
    assert_eq!([0, 1, 2].map(|i| t.iter_interface(i).count()), [10, 10, 80]);
    (0..30).for_each(|n| learn(&mut t, Millis(2), 0, n + 100));
    assert_eq!([0, 1, 2].map(|i| t.iter_interface(i).count()), [40, 10, 50]);
}

#[test]
fn a_hundred_thousand_neighbors() {
    let mut t = table(NeighborConfig::default(), 1);
    for n in 1..=100_000 {
        confirm(&mut t, Millis(0), 0, n);
    }
    assert_eq!(t.len(), 100_000);
    let mut out = Vec::new();
    // All grow old between 15 and 45 seconds, are used, and are probed at no more than the rate.
    let (mut stale, mut probes) = (0, 0);
    for ms in (0..80_000).step_by(100) {
        t.tick(Millis(ms), &mut out);
        let keys: Vec<Key> = t.stale().collect();
        stale += keys.len();
        for (interface, addr) in keys {
            t.used(Millis(ms), interface, addr, &mut out);
        }
        let sent: Vec<IpAddr> = out
            .drain(..)
            .filter_map(|a| match a {
                Action::Solicit { target, .. } => Some(target),
                _ => None,
            })
            .collect();
        assert!(sent.len() <= 2_000, "{ms}: {}", sent.len());
        probes += sent.len();
        for addr in sent {
            let na = Heard::Na { solicited: true, override_: false, router: false };
            t.heard(Millis(ms), 0, addr, None, na, &mut out);
        }
    }
    assert_eq!(t.len(), 100_000);
    assert!(stale >= 100_000 && probes >= 100_000, "{stale} {probes}");
    assert_eq!(t.counters().lost, 0);
}
