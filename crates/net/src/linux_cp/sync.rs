//! What a pair's device in Linux has of the interface: always its MAC address and carrier, with `lcp-sync` its state, MTU, VRF and
//! addresses, and static neighbors.

use super::part::{self, State};
use super::vrfs::wanted_master;
use crate::neighbor::Millis;
use crate::router::{Asks, IfState, OpError, Router};
use drivers::tap::{self, change_address, change_neighbors};
use drivers::{Error, Link};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Neighbors that are changed at once: each is a request to Linux.
const TURN: usize = 64;

/// What the device was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Applied {
    /// Linux's number of the device.
    pub ifindex: u32,
    /// When it was made anew, if it was: in another namespace it may have the same number.
    pub since: Option<Millis>,
    pub mac: MacAddr,
    pub mtu: u16,
    pub up: bool,
    /// Linux looks for no stations.
    pub alone: bool,
    /// Linux's number of the VRF device in which it is, or of another device that has it; 0: none, or none is known.
    pub master: u32,
    pub addresses: BTreeSet<IpNet>,
    /// Permanent neighbors that Quiver has given it.
    pub neighbors: BTreeMap<IpAddr, MacAddr>,
}

impl Applied {
    /// Of one that an earlier run has left, and of its addresses those that are to be there and those that were given by that.
    fn found(link: &Link, wanted: impl Fn(&IpNet) -> bool) -> Result<Applied, Error> {
        let state = link.state()?;
        let nets = tap::given(link)?
            .into_iter()
            .filter_map(|g| Some((IpNet::new(g.address, g.length).ok()?, g.ours)));
        Ok(Applied {
            ifindex: state.ifindex,
            since: None,
            mac: state.mac,
            mtu: u16::try_from(state.mtu).unwrap_or(u16::MAX),
            up: state.up,
            alone: link.is_without_stations()?,
            master: 0,
            addresses: nets.filter(|(net, ours)| *ours || wanted(net)).map(|(net, _)| net).collect(),
            neighbors: tap::given_neighbors(link)?.into_iter().collect(),
        })
    }

    /// Leaves of neighbors that differ from what was those of one turn; whether there are others.
    fn keep_turn(&mut self, was: &Applied) -> bool {
        let stays_up = was.up && was.master == self.master;
        let had = if stays_up { was.neighbors.clone() } else { BTreeMap::new() };
        let addresses: BTreeSet<IpAddr> = had.keys().chain(self.neighbors.keys()).copied().collect();
        let differ = addresses.iter().filter(|a| had.get(a) != self.neighbors.get(a));
        let later: Vec<IpAddr> = differ.skip(TURN).copied().collect();
        for a in &later {
            match had.get(a) {
                Some(mac) => _ = self.neighbors.insert(*a, *mac),
                None => _ = self.neighbors.remove(a),
            }
        }
        !later.is_empty()
    }

    /// Of a device that was made with these.
    pub fn made(mac: MacAddr, mtu: u16) -> Applied {
        Applied {
            ifindex: 0,
            since: None,
            mac,
            mtu,
            up: true,
            alone: false,
            master: 0,
            addresses: BTreeSet::new(),
            neighbors: BTreeMap::new(),
        }
    }
}

/// What it is to have: of what Linux decides itself, what it has.
pub(super) fn wanted(router: &Router, i: &IfState, was: &Applied, whole: bool) -> Applied {
    let mut wanted = Applied { mac: part::mac(router, i), alone: i.is_without_stations(), ..was.clone() };
    if whole {
        let far = |n: &IpNet| !matches!(n.addr(), IpAddr::V6(a) if a.is_unicast_link_local());
        (wanted.mtu, wanted.up) = (i.mtu, i.up);
        wanted.master = wanted_master(router, i, was);
        wanted.addresses = i.operators_addresses().filter(far).collect();
    }
    wanted.neighbors = match whole && wanted.up && !wanted.alone {
        true => {
            let of = router.static_neighbors(i.index);
            of.filter(|(a, _)| !i.elsewhere.neighbors.contains(a)).collect()
        }
        false => BTreeMap::new(),
    };
    wanted
}

fn apply(link: &Link, was: &Applied, to: &Applied) -> Vec<Error> {
    let mut failed = vec![];
    let mut done = |result: Result<(), Error>| failed.extend(result.err());
    if was.mac != to.mac {
        done(link.set_mac(to.mac));
    }
    if was.alone != to.alone {
        done(link.set_without_stations(to.alone));
    }
    if was.mtu != to.mtu {
        done(link.set_mtu(to.mtu.into()));
    }
    if was.master != to.master {
        done(link.set_master(to.master));
    }
    if was.up != to.up {
        done(link.set_up(to.up));
    }
    // Linux takes the IPv6 addresses of a device that goes down, as it does when it comes into a VRF.
    let stays_up = was.up && was.master == to.master;
    let kept = |net: &IpNet| was.addresses.contains(net) && (stays_up || net.addr().is_ipv4());
    for net in was.addresses.difference(&to.addresses) {
        done(change_address(link, net.addr(), net.prefix_len(), false));
    }
    for net in to.addresses.iter().filter(|net| !kept(net)) {
        done(change_address(link, net.addr(), net.prefix_len(), true));
    }
    // Linux takes the neighbors of a device that goes down.
    let kept = |at: &(&IpAddr, &MacAddr)| stays_up && was.neighbors.get(at.0) == Some(at.1);
    let gone = was.neighbors.keys().filter(|a| stays_up && !to.neighbors.contains_key(a));
    let new = to.neighbors.iter().filter(|at| !kept(at)).map(|(a, mac)| (*a, Some(*mac)));
    let all: Vec<_> = gone.map(|a| (*a, None)).chain(new).collect();
    if !all.is_empty() {
        failed.extend(change_neighbors(link, &all));
    }
    failed
}

fn tell(router: &mut Router, index: u32, failed: Vec<Error>) {
    for e in failed {
        let text = format!("{}: its pair in Linux: {e}", router.interface_name(index));
        router.note(true, text);
    }
}

/// Brings the device of a pair to what it is to have: the interface may have changed, or the device.
pub(super) fn follow(router: &mut Router, index: u32) {
    let pair = router.state::<State>().and_then(|s| s.pairs.get(&index));
    // A VLAN device has nothing from here.
    let Some(pair) = pair.filter(|p| p.vlan.is_none()) else { return };
    let (Some(ifindex), Some(i)) = (router.companion_ifindex(pair.tap), router.interface(index)) else {
        return;
    };
    let (tap, linux, asked) = (pair.tap, pair.linux.clone(), Arc::clone(&pair.asked));
    let (mut was, mut failed) = (pair.applied.clone(), vec![]);
    if router.companion_was_there(tap) && was.ifindex == 0 {
        // Daemons are at work on it: it is brought to what is wanted once, when all is as configured.
        if router.is_starting() {
            return;
        }
        let has = |net: &IpNet| i.configured().any(|n| n == *net);
        match Link::open(&linux.host, linux.netns.as_deref()).and_then(|link| Applied::found(&link, has)) {
            Ok(found) => was = found,
            Err(e) => failed.push(e),
        }
    }
    let since = router.companion_returned(tap);
    if (was.ifindex, was.since) != (ifindex, since) && was.ifindex != 0 {
        // Somebody has deleted it, and it was made anew with its MAC address and MTU.
        was = Applied::made(was.mac, was.mtu);
    }
    (was.ifindex, was.since) = (ifindex, since);
    let mut to = wanted(router, i, &was, part::settings(router).sync);
    let more = to.keep_turn(&was);
    tell(router, index, failed);
    if to != was {
        let to = to.clone();
        let work = move || match Link::open(&linux.host, linux.netns.as_deref()) {
            Ok(link) => apply(&link, &was, &to),
            Err(e) => vec![e],
        };
        router.ask(Asks::Linux, work, move |router, failed| {
            drop(asked);
            tell(router, index, failed.map_err(|e| OpError::new(e.to_string()))?);
            Ok(())
        });
    }
    router.remake_companion_with(tap, |c| {
        (c.host_mac, c.host_mtu) = (Some(to.mac), Some(to.mtu.into()));
    });
    if let Some(pair) = router.state_mut::<State>().and_then(|s| s.pairs.get_mut(&index)) {
        pair.applied = to;
    }
    if more {
        part::look_again(router, index);
    }
}
