//! What is changed in Linux on devices of pairs, made on the interfaces.
//!
//! What the kernel tells of a device says only that it has changed: what it is, is asked on a thread of its own, as the kernel answers when whoever
//! changes something is done. What Quiver itself has changed meanwhile makes the answer late, and it is asked once more. What it tells of neighbors is made as it is told.

use super::{Followed, SharedRouter, Taken};
use linux::reader::Device;
use linux::{Knows, LinkKind, Neighbor};
use net::linux_cp::{Given, Known, Made, Seen};
use packet::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Neighbors made in a turn of the control thread.
const TURN: usize = 256;
/// How long devices are made before others have their turn.
const PIECE: Duration = Duration::from_millis(2);

/// Whether it bears the mark of what Quiver has said.
fn marked(n: &Neighbor) -> bool {
    matches!(n.knows, Knows::Permanent(_)) && n.protocol == drivers::tap::QUIVER
}

/// The table of a VRF device.
pub(super) fn vrf_table(device: &Device) -> Option<u32> {
    match device.link.kind {
        LinkKind::Vrf { table } => Some(table),
        _ => None,
    }
}

/// A device, if there is one of this index.
fn seen(all: &BTreeMap<u32, Device>, ifindex: u32) -> Option<Seen> {
    let Device { link, addresses } = all.get(&ifindex)?;
    // Those of a port of a bridge are of no use: the bridge has them.
    let of_use = addresses.iter().filter(|a| !a.duplicate && link.port.is_none());
    Some(Seen {
        ifindex,
        up: link.up,
        mtu: link.mtu,
        mac: link.mac.map(MacAddr),
        master: link.master,
        table: all.get(&link.master).and_then(vrf_table),
        addresses: of_use.map(|a| a.net).collect(),
    })
}

/// A device that is looked at.
struct Look {
    ifindex: u32,
    interface: u32,
    /// Also for what was refused before.
    again: bool,
}

/// Makes what devices are, as they were read; those at which to look once more.
async fn make(
    router: &SharedRouter,
    taken: &Taken,
    all: &BTreeMap<u32, Device>,
    looks: impl Iterator<Item = (Look, Option<Given>)>,
) -> Vec<Look> {
    let (mut left, mut began) = (vec![], Instant::now());
    for (look, given) in looks {
        if began.elapsed() >= PIECE {
            tokio::task::yield_now().await;
            began = Instant::now();
        }
        let (Some(seen), Some(given)) = (seen(all, look.ifindex), given) else { continue };
        let router = &mut router.borrow_mut();
        let own = taken.give_way(router, look.interface, &seen.addresses);
        let made = net::linux_cp::take_device(router, look.interface, &seen, &given, look.again);
        taken.come_back(router, look.interface, own);
        match made {
            Made::All => {}
            Made::Some => left.push(Look { again: false, ..look }),
            Made::Late => left.push(look),
        }
    }
    left
}

impl Followed {
    /// Has what these devices are made on their interfaces; all of them where none is named, also what was refused before.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub(super) async fn take_devices(
        &self,
        router: &SharedRouter,
        changed: Option<&BTreeSet<u32>>,
    ) -> std::io::Result<()> {
        let named = |ifindex: &u32| changed.is_none_or(|c| c.contains(ifindex));
        let all = self.taken.devices.0.iter().filter(|(ifindex, _)| named(ifindex));
        let mut left: Vec<Look> =
            all.map(|(d, i)| Look { ifindex: *d, interface: *i, again: changed.is_none() }).collect();
        let mut bridges = self.concerns_bridges(changed);
        while !left.is_empty() || bridges {
            let given = {
                let router = router.borrow();
                let of = |l: &Look| net::linux_cp::given(&router, l.interface);
                left.iter().map(of).collect::<Vec<_>>()
            };
            // The kernel answers when whoever changes something is done.
            let requests = Arc::clone(&self.requests);
            let read = move || {
                let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                linux::reader::read_devices(&mut requests)
            };
            let all = net::background::run(read).await??;
            let vrfs = all.iter().filter_map(|(ifindex, d)| Some((*ifindex, vrf_table(d)?))).collect();
            net::linux_cp::take_vrfs(&mut router.borrow_mut(), &self.taken.netns, vrfs);
            left = make(router, &self.taken, &all, left.into_iter().zip(given)).await;
            // Ports of bridges have no addresses any more.
            if left.is_empty() && bridges {
                super::vlans::take(router, &self.taken.netns, &all).await;
                self.take_bridges(router, &all).await;
                bridges = false;
            }
            tokio::task::yield_now().await;
        }
        // Static neighbors go with the addresses of their network, and Linux does not tell them again.
        let said: Vec<Neighbor> =
            self.said.borrow().values().filter(|n| named(&n.ifindex)).copied().collect();
        self.make_neighbors(router, &said).await;
        Ok(())
    }

    /// Makes what the kernel knows of neighbors.
    pub(super) async fn take_neighbors(&self, router: &SharedRouter, neighbors: &[Neighbor]) {
        for n in neighbors.iter().filter(|n| self.taken.devices.0.contains_key(&n.ifindex)) {
            let mut said = self.said.borrow_mut();
            match n.knows {
                Knows::Permanent(_) if !marked(n) => said.insert((n.ifindex, n.address), *n),
                _ => said.remove(&(n.ifindex, n.address)),
            };
        }
        // What Quiver has said itself is no news. Who replaces it in Linux leaves its mark there.
        let news = |n: &&Neighbor| !marked(n) || self.is_replaced(&router.borrow(), n);
        let news: Vec<Neighbor> = neighbors.iter().filter(news).copied().collect();
        self.make_neighbors(router, &news).await;
    }

    /// Whether Quiver has given the device another MAC address for it.
    fn is_replaced(&self, router: &net::router::Router, n: &Neighbor) -> bool {
        let (Knows::Permanent(mac), Some(interface)) = (n.knows, self.taken.devices.0.get(&n.ifindex)) else {
            return false;
        };
        let given = net::linux_cp::given_neighbor(router, *interface, n.address);
        given.is_some_and(|given| given != MacAddr(mac))
    }

    async fn make_neighbors(&self, router: &SharedRouter, neighbors: &[Neighbor]) {
        for turn in neighbors.chunks(TURN) {
            for n in turn {
                let Some(interface) = self.taken.devices.0.get(&n.ifindex) else { continue };
                let known = match n.knows {
                    Knows::Nothing => Known::Nothing,
                    Knows::Learnt(mac) => Known::Learnt(MacAddr(mac)),
                    Knows::Permanent(mac) => Known::Said(MacAddr(mac)),
                };
                net::linux_cp::take_neighbor(&mut router.borrow_mut(), *interface, n.address, known);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The same of all neighbors: the others of Linux's go.
    pub(super) async fn take_all_neighbors(&self, router: &SharedRouter, neighbors: &[Neighbor]) {
        let mut said: BTreeMap<u32, BTreeSet<IpAddr>> = BTreeMap::new();
        for n in neighbors.iter().filter(|n| matches!(n.knows, Knows::Permanent(_)) && !marked(n)) {
            said.entry(n.ifindex).or_default().insert(n.address);
        }
        for (ifindex, interface) in &self.taken.devices.0 {
            let keep = said.remove(ifindex).unwrap_or_default();
            net::linux_cp::keep_neighbors(&mut router.borrow_mut(), *interface, &keep);
        }
        self.said.borrow_mut().clear();
        self.take_neighbors(router, neighbors).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::wire::attribute;

    /// What RTM_NEWLINK says of a device that is up, with IFLA_MASTER and IFLA_LINKINFO: as a VRF device its table, else of whom it is a port.
    fn device(ifindex: u32, master: u32, info: &[u8]) -> (u32, Device) {
        let mut body = [&[0; 4][..], &ifindex.to_ne_bytes(), &1u32.to_ne_bytes(), &[0; 4]].concat();
        body.extend(attribute(10, &master.to_ne_bytes()));
        body.extend(attribute(18, info));
        (ifindex, Device { link: linux::link::parse(&body).unwrap(), addresses: vec![] })
    }

    #[test]
    fn a_device_is_in_the_table_of_its_vrf() {
        let vrf = [attribute(1, b"vrf\0"), attribute(2, &attribute(1, &10u32.to_ne_bytes()))].concat();
        let bridge = [attribute(1, b"bridge\0"), attribute(2, &[])].concat();
        let port = |of: &[u8]| [attribute(1, b"tun\0"), attribute(4, of)].concat();
        let all = BTreeMap::from([
            device(2, 0, &vrf),
            device(3, 0, &bridge),
            device(4, 2, &port(b"vrf\0")),
            device(5, 3, &port(b"bridge\0")),
            device(6, 0, &port(b"")),
            // Its VRF went while all was read.
            device(7, 9, &port(b"vrf\0")),
        ]);
        let of = |ifindex| seen(&all, ifindex).map(|s| (s.master, s.table));
        assert_eq!([4, 5, 6, 7].map(of), [(2, Some(10)), (3, None), (0, None), (9, None)].map(Some));
        assert_eq!((of(8), vrf_table(&all[&2]), vrf_table(&all[&3])), (None, Some(10), None));
    }
}
