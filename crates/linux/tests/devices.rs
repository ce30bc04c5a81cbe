//! Links, addresses and neighbors as they are read are what `ip` prints.
#![allow(clippy::unwrap_used, clippy::panic)]

mod ns;

use linux::reader::read_devices;
use linux::{Event, Knows, Neighbor, follow};
use ns::Ns;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

fn printed(ns: &Ns, words: &[&str]) -> Vec<Value> {
    let out = Command::new("ip").args(["-n", &ns.0, "-j", "-d"]).args(words).output().unwrap();
    match serde_json::from_slice(&out.stdout).unwrap() {
        Value::Array(all) => all,
        other => panic!("{other}"),
    }
}

/// By name: up, carrier, MTU, MAC address, addresses.
type Shown = BTreeMap<String, (bool, bool, u64, String, BTreeSet<String>)>;

fn printed_devices(ns: &Ns) -> Shown {
    let one = |d: &Value| {
        let flag = |f: &str| d["flags"].as_array().unwrap().iter().any(|x| x == f);
        let address = |a: &Value| {
            // Of one with a peer the prefix is the peer's.
            let len = if a["address"].is_null() { a["prefixlen"].as_u64().unwrap() } else { 32 };
            format!("{}/{len}", a["local"].as_str().unwrap())
        };
        let addresses = d["addr_info"].as_array().unwrap().iter().map(address).collect();
        let mac = d["address"].as_str().unwrap().to_owned();
        let about = (flag("UP"), flag("LOWER_UP"), d["mtu"].as_u64().unwrap(), mac, addresses);
        (d["ifname"].as_str().unwrap().to_owned(), about)
    };
    printed(ns, &["addr", "show"]).iter().map(one).collect()
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

fn read(ns: &Ns) -> Shown {
    let mut sockets = ns.sockets(1 << 20);
    let all = read_devices(&mut sockets).unwrap();
    let one = |d: linux::reader::Device| {
        let addresses = d.addresses.iter().map(|a| a.net.to_string()).collect();
        let l = d.link;
        (l.name, (l.up, l.carrier, l.mtu.into(), mac_text(l.mac.unwrap_or_default()), addresses))
    };
    all.into_values().map(one).collect()
}

#[test]
fn devices_are_as_ip_prints_them() {
    let ns = Ns::new();
    assert_eq!(read(&ns), printed_devices(&ns));
    for change in [
        "link set va mtu 1300",
        "link set vb down",
        "link set vb address 02:00:00:00:00:77",
        "addr add 10.7.0.1/24 dev va",
        "addr add 10.7.0.2/24 dev va label va:1",
        "addr add 10.8.0.1 peer 10.8.0.2/31 dev va",
        "addr add fe80::7/64 dev va nodad",
        "addr del 10.0.0.1/24 dev va",
        "link add name other type dummy",
        "link del other",
    ] {
        ns.batch(&format!("{change}\n"));
        assert_eq!(read(&ns), printed_devices(&ns), "{change}");
    }
}

/// Reads what is told until `done`.
fn until(events: &Receiver<Event>, mut done: impl FnMut(Event) -> bool) {
    while !done(events.recv_timeout(Duration::from_secs(10)).unwrap()) {}
}

#[test]
fn neighbors_and_changed_devices_are_told() {
    let ns = Ns::new();
    ns.batch("neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev va nud permanent\n");
    let (send, events) = sync_channel(64);
    let reader = follow(ns.sockets(1 << 20), move |e| send.send(e).is_ok()).unwrap();
    let mut known: BTreeMap<String, Knows> = BTreeMap::new();
    let mut take = |all: Vec<Neighbor>| {
        for n in all {
            match n.knows {
                Knows::Nothing => known.remove(&n.address.to_string()),
                knows => known.insert(n.address.to_string(), knows),
            };
        }
        known.clone()
    };
    until(&events, |e| match e {
        Event::AllNeighbors(all) => take(all)["10.0.0.9"] == Knows::Permanent([2, 0, 0, 0, 0, 9]),
        _ => false,
    });
    ns.batch(
        "neigh add 10.0.0.8 lladdr 02:00:00:00:00:08 dev va nud stale\n\
         neigh add fd00::8 lladdr 02:00:00:00:00:18 dev va nud permanent\n\
         neigh add proxy 10.0.0.7 dev va\n\
         neigh replace 10.0.0.9 lladdr 02:00:00:00:00:19 dev va nud reachable\n\
         neigh del fd00::8 dev va\n\
         neigh add 10.0.0.6 lladdr 02:00:00:00:00:06 dev va nud permanent\n",
    );
    let wanted = BTreeMap::from([
        ("10.0.0.8".to_owned(), Knows::Learnt([2, 0, 0, 0, 0, 8])),
        ("10.0.0.9".to_owned(), Knows::Learnt([2, 0, 0, 0, 0, 0x19])),
        ("10.0.0.6".to_owned(), Knows::Permanent([2, 0, 0, 0, 0, 6])),
    ]);
    until(&events, |e| match e {
        Event::Neighbors(n) => take(n) == wanted,
        _ => false,
    });
    let [va, vb] = ["va", "vb"].map(|name| {
        let all = read_devices(&mut ns.sockets(1 << 20)).unwrap();
        *all.iter().find(|(_, d)| d.link.name == name).unwrap().0
    });
    let mut changed = BTreeSet::new();
    ns.batch("addr add 10.9.0.1/24 dev va\nlink set vb mtu 1400\n");
    until(&events, |e| {
        if let Event::Devices(devices) = e {
            changed.extend(devices);
        }
        changed.is_superset(&BTreeSet::from([va, vb]))
    });
    drop(reader);
}

/// Who makes nothing of routes does not read them: a daemon may have a million, of which the router is told otherwise.
#[test]
fn without_routes_devices_and_neighbors_are_told() {
    let ns = Ns::new();
    let (send, events) = sync_channel(64);
    let reader = follow(ns.sockets_for(1 << 20, false), move |e| send.send(e).is_ok()).unwrap();
    let is_route = |e: &Event| matches!(e, Event::Changes(_) | Event::Labels(_));
    until(&events, |e| {
        assert!(!is_route(&e), "{e:?}");
        matches!(e, Event::Synced { routes: 0, .. })
    });
    ns.batch("route add 10.9.0.0/16 via 10.0.0.7\nlink set vb down\nneigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev va nud permanent\n");
    let mut devices = false;
    until(&events, |e| {
        assert!(!is_route(&e), "{e:?}");
        devices |= matches!(e, Event::Devices(_));
        matches!(e, Event::Neighbors(all) if all.iter().any(|n| n.address.to_string() == "10.0.0.9"))
    });
    assert!(devices);
    assert_eq!(reader.stats.new_routes.load(std::sync::atomic::Ordering::Relaxed), 0);
}
