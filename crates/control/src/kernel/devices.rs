//! What is changed in Linux on devices of pairs, made on the interfaces.
//!
//! What the kernel tells of a device says only that it has changed: what it is, is asked when it is made, so that what was told of Quiver's own changes
//! and is late does no harm. What it tells of neighbors is made as it is told.

use super::{Followed, SharedRouter};
use linux::{Knows, Neighbor};
use net::linux_cp::{Known, Seen};
use packet::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Neighbors made in a turn of the control thread.
const TURN: usize = 256;

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
        let mut left: Vec<(u32, u32)> = self
            .taken
            .devices
            .0
            .iter()
            .filter(|(ifindex, _)| named(ifindex))
            .map(|(d, i)| (*d, *i))
            .collect();
        let mut again = changed.is_none();
        while !left.is_empty() {
            {
                let router = &mut *router.borrow_mut();
                let all = linux::reader::read_devices(&mut self.requests.borrow_mut())?;
                left.retain(|(ifindex, interface)| {
                    let Some(device) = all.get(ifindex) else { return false };
                    let addresses = device.addresses.iter().filter(|a| !a.duplicate).map(|a| a.net);
                    let seen = Seen {
                        ifindex: *ifindex,
                        up: device.link.up,
                        mtu: device.link.mtu,
                        mac: device.link.mac.map(MacAddr),
                        addresses: addresses.collect(),
                    };
                    net::linux_cp::take_device(router, *interface, &seen, again)
                });
            }
            again = false;
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
                Knows::Permanent(_) => said.insert((n.ifindex, n.address), *n),
                _ => said.remove(&(n.ifindex, n.address)),
            };
        }
        self.make_neighbors(router, neighbors).await;
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
        for n in neighbors.iter().filter(|n| matches!(n.knows, Knows::Permanent(_))) {
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
