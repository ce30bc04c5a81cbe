//! Bridges and VXLAN devices that are made in Linux beside pairs, and the addresses that EVPN daemons say are behind these.

use super::devices::vrf_table;
use super::{Followed, SharedRouter};
use ipnet::IpNet;
use linux::link::Vxlan;
use linux::reader::Device;
use linux::{Fdb, LinkKind, fdb};
use net::linux_bridge::{self as bridges, Bridge, MacAt};
use packet::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Addresses taken in a turn of the control thread.
const TURN: usize = 512;
/// The pause while the table of addresses has no room yet.
const PAUSE: Duration = Duration::from_millis(1);

/// What cannot be of what Linux has, with the reason.
type Cannot = BTreeMap<String, String>;

fn is_far(net: &IpNet) -> bool {
    !matches!(net.addr(), IpAddr::V6(a) if a.is_unicast_link_local())
}

fn mtu(device: &Device) -> u16 {
    net::router::mtu_over(device.link.mtu)
}

/// A VXLAN device as the router can have it.
fn end(device: &Device, v: &Vxlan) -> Result<bridges::Device, &'static str> {
    let link = &device.link;
    if v.external {
        return Err("it is told its VNI by packet (external), which is not supported");
    }
    let local = v.local.ok_or("it has no address of its own: make it with `local ADDRESS`")?;
    Ok(bridges::Device {
        ifindex: link.ifindex,
        name: link.name.clone(),
        up: link.up,
        mtu: mtu(device),
        vni: v.vni,
        local,
        port: v.port,
        ttl: v.ttl,
        zero_checksum: v.zero_checksum,
        learning: v.learning && link.port == Some(true),
    })
}

/// The bridges that have pairs as ports, or VXLAN devices, and addresses or a VRF. `interfaces`: of pairs, by Linux's index.
fn bridges_of(all: &BTreeMap<u32, Device>, interfaces: &BTreeMap<u32, u32>) -> (Vec<Bridge>, Cannot) {
    let (mut found, mut cannot) = (vec![], Cannot::new());
    let mut members: BTreeMap<u32, Vec<&Device>> = BTreeMap::new();
    for device in all.values().filter(|d| d.link.port.is_some()) {
        members.entry(device.link.master).or_default().push(device);
    }
    for (ifindex, ports) in members {
        let Some(device) = all.get(&ifindex) else { continue };
        let LinkKind::Bridge { ageing, vlans } = device.link.kind else { continue };
        let learns = |d: &Device| d.link.port == Some(true);
        let pair = |d: &&Device| Some((*interfaces.get(&d.link.ifindex)?, learns(d)));
        let pairs: BTreeMap<u32, bool> = ports.iter().filter_map(pair).collect();
        let addresses: BTreeSet<IpNet> = device.addresses.iter().map(|a| a.net).filter(is_far).collect();
        let table = all.get(&device.link.master).and_then(vrf_table);
        let vxlan = |d: &&Device| matches!(d.link.kind, LinkKind::Vxlan(_));
        let is_gateway = !addresses.is_empty() || table.is_some();
        if pairs.is_empty() && !(is_gateway && ports.iter().any(vxlan)) {
            continue;
        }
        let name = device.link.name.clone();
        if vlans {
            let why = "it tells VLANs apart (vlan_filtering 1), which is not supported: make a bridge for each VLAN";
            cannot.insert(format!("bridge {name}"), why.to_owned());
            continue;
        }
        let mut devices = vec![];
        for d in ports {
            let LinkKind::Vxlan(v) = &d.link.kind else { continue };
            match end(d, v) {
                Ok(device) => devices.push(device),
                Err(why) => _ = cannot.insert(d.link.name.clone(), why.to_owned()),
            }
        }
        found.push(Bridge {
            ifindex,
            name,
            up: device.link.up,
            mtu: mtu(device),
            mac: MacAddr(device.link.mac.unwrap_or_default()),
            table,
            age: ageing.div_ceil(6000).clamp(1, 255) as u8,
            addresses,
            ports: pairs,
            devices,
        });
    }
    (found, cannot)
}

fn behind(fdb: &Fdb) -> Option<MacAt> {
    let fdb::Place::End(end) = fdb.place else { return None };
    let (device, mac, gone) = (fdb.ifindex, MacAddr(fdb.mac), fdb.gone);
    (!end.is_multicast()).then_some(MacAt { device, mac, end, gone })
}

/// Makes what is to be made in a namespace.
async fn make(router: &SharedRouter, netns: &Option<String>) {
    while bridges::work(&mut router.borrow_mut(), netns) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// A namespace is followed no more.
pub(super) async fn forget(router: &SharedRouter, netns: &Option<String>) {
    bridges::forget(&mut router.borrow_mut(), netns);
    make(router, netns).await;
}

impl Followed {
    /// Whether what has changed of these devices may concern bridges.
    pub(super) fn concerns_bridges(&self, changed: Option<&BTreeSet<u32>>) -> bool {
        let others = self.others.borrow();
        changed.is_none_or(|c| c.iter().any(|d| !others.contains(d)))
    }

    /// Has bridges made as they were read.
    pub(super) async fn take_bridges(&self, router: &SharedRouter, all: &BTreeMap<u32, Device>) {
        let interfaces = &self.taken.devices.0;
        let (found, cannot) = bridges_of(all, interfaces);
        let kind = |d: &Device| matches!(d.link.kind, LinkKind::Other | LinkKind::Loopback);
        let other = |d: &&Device| kind(d) && !interfaces.contains_key(&d.link.ifindex);
        *self.others.borrow_mut() = all.values().filter(other).map(|d| d.link.ifindex).collect();
        bridges::take_bridges(&mut router.borrow_mut(), &self.taken.netns, found, cannot);
        make(router, &self.taken.netns).await;
    }

    /// Makes what has changed of MAC addresses.
    pub(super) async fn take_fdb(&self, router: &SharedRouter, told: &[Fdb]) {
        for turn in told.chunks(TURN) {
            let macs: Vec<MacAt> = turn.iter().filter_map(behind).collect();
            bridges::take_macs(&mut router.borrow_mut(), &self.taken.netns, &macs);
            tokio::task::yield_now().await;
        }
        make(router, &self.taken.netns).await;
    }

    /// The same of all of them: others are gone.
    pub(super) async fn take_all_fdb(&self, router: &SharedRouter, told: &[Fdb]) {
        bridges::begin_macs(&mut router.borrow_mut(), &self.taken.netns);
        self.take_fdb(router, told).await;
        bridges::end_macs(&mut router.borrow_mut(), &self.taken.netns);
        make(router, &self.taken.netns).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::{Address, Link};

    fn device(ifindex: u32, name: &str, master: u32, kind: LinkKind) -> (u32, Device) {
        let link = Link {
            ifindex,
            name: name.into(),
            up: true,
            carrier: true,
            mtu: 1500,
            mac: Some([2, 0, 0, 0, 0, ifindex as u8]),
            master,
            port: (master != 0).then_some(true),
            upon: None,
            kind,
        };
        (ifindex, Device { link, addresses: vec![] })
    }

    fn vxlan() -> Vxlan {
        let local = Some("10.0.0.1".parse().unwrap());
        Vxlan { vni: 10, local, port: 4789, ..Vxlan::default() }
    }

    fn bridge(ageing: u32, vlans: bool) -> LinkKind {
        LinkKind::Bridge { ageing, vlans }
    }

    #[test]
    fn bridges_of_pairs_and_vxlan_devices() {
        let all = |vlans, v| {
            BTreeMap::from([
                device(2, "br10", 0, bridge(30_000, vlans)),
                device(3, "vxlan10", 2, LinkKind::Vxlan(v)),
                device(4, "e1", 2, LinkKind::Other),
                device(5, "docker0", 0, bridge(0, false)),
                device(6, "veth1", 5, LinkKind::Other),
                device(7, "e2", 0, LinkKind::Other),
            ])
        };
        let pairs = BTreeMap::from([(4, 40), (7, 70)]);
        let (found, cannot) = bridges_of(&all(false, vxlan()), &pairs);
        let [b] = &found[..] else { panic!("{found:?}") };
        assert_eq!((b.name.as_str(), b.age, &b.ports), ("br10", 5, &BTreeMap::from([(40, true)])));
        assert_eq!((b.devices.len(), b.devices[0].vni, b.devices[0].learning), (1, 10, false));
        assert!(cannot.is_empty() && b.table.is_none());
        // Within a VRF, and as a port of something else.
        let mut within = all(false, vxlan());
        within.extend([
            device(8, "red", 0, LinkKind::Vrf { table: 10 }),
            device(9, "bond0", 0, LinkKind::Other),
        ]);
        for (master, table) in [(8, Some(10)), (9, None), (99, None)] {
            within.get_mut(&2).unwrap().link.master = master;
            assert_eq!(bridges_of(&within, &pairs).0[0].table, table);
        }
        // Nobody's port, but a gateway between networks; with none of both it is somebody else's.
        let (found, _) = bridges_of(&all(false, vxlan()), &BTreeMap::new());
        assert!(found.is_empty());
        let mut with_address = all(false, vxlan());
        let net = "10.1.0.1/24".parse().unwrap();
        let address = Address { ifindex: 2, net, duplicate: false };
        with_address.get_mut(&2).unwrap().addresses.push(address);
        let (found, _) = bridges_of(&with_address, &BTreeMap::new());
        assert_eq!(found[0].addresses, BTreeSet::from([net]));
        // That between the routers of a VRF has no address.
        within.get_mut(&2).unwrap().link.master = 8;
        let found = bridges_of(&within, &BTreeMap::new()).0;
        assert_eq!((found.len(), found[0].table, found[0].devices.len()), (1, Some(10), 1));
        // What cannot be is told.
        let (found, cannot) = bridges_of(&all(true, vxlan()), &pairs);
        assert!(found.is_empty() && cannot["bridge br10"].contains("vlan_filtering"), "{cannot:?}");
        let without = Vxlan { local: None, ..vxlan() };
        let (found, cannot) = bridges_of(&all(false, without), &pairs);
        assert!(found[0].devices.is_empty() && cannot["vxlan10"].contains("local ADDRESS"), "{cannot:?}");
        let external = Vxlan { external: true, ..vxlan() };
        assert!(bridges_of(&all(false, external), &pairs).1["vxlan10"].contains("external"));
    }
}
