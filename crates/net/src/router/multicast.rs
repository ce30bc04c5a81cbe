//! Groups that interfaces have joined: by themselves, for their addresses, and by the operator's wish.

use super::{Feature, IfState, Kind, Op, OpError, Router};
use crate::multicast::{Action, MOST_GROUPS, Query, wire};
use crate::neighbor::Millis;
use packet::ip6::addr::{ALL_NODES, ALL_ROUTERS, solicited_node};
use packet::{ip4, ip6};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

const ALL_HOSTS4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_ROUTERS4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

impl Router {
    /// The groups that the operator wants an interface to join.
    pub(super) fn wanted_groups(&self, index: u32) -> impl Iterator<Item = IpAddr> + '_ {
        self.wanted_groups
            .range((index, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..)
            .take_while(move |k| k.0 == index)
            .map(|k| k.1)
    }

    /// The groups that an interface has joined.
    pub fn groups_of(&self, index: u32) -> Vec<IpAddr> {
        self.multicast.groups(index).collect()
    }

    /// Whether the operator wants an interface to join a group.
    pub fn is_group_wanted(&self, index: u32, group: IpAddr) -> bool {
        self.wanted_groups.contains(&(index, group))
    }

    pub(super) fn set_group(
        &mut self,
        index: u32,
        name: String,
        group: IpAddr,
        joined: bool,
    ) -> Result<Vec<Op>, OpError> {
        let fail = |why: &str| Err(OpError::new(format!("{name}: {group}: {why}")));
        let scope = |a: std::net::Ipv6Addr| a.segments()[0] & 0xf;
        match group {
            a if !a.is_multicast() => return fail("not a multicast group"),
            IpAddr::V6(a) if scope(a) <= 1 || scope(a) == 0xf => {
                return fail("the scope of the group is reserved, or does not reach beyond the interface");
            }
            _ => {}
        }
        if self.interfaces.get(index).is_some_and(IfState::is_alone) {
            return fail("nobody sends to groups on a loopback");
        }
        if joined && self.wanted_groups(index).count() >= MOST_GROUPS {
            return fail("the interface is in as many groups as may be, 256");
        }
        let changed = if joined {
            self.wanted_groups.insert((index, group))
        } else {
            self.wanted_groups.remove(&(index, group))
        };
        if !changed {
            return fail(if joined { "was joined already" } else { "was not joined" });
        }
        self.publish_interface(index);
        Ok(vec![Op::SetFeature { name, feature: Feature::Group { group, joined: !joined } }])
    }

    /// The groups in which an interface has to be.
    fn due_groups(&self, index: u32) -> BTreeSet<IpAddr> {
        let Some(i) = self.interfaces.get(index) else { return BTreeSet::new() };
        let mut due: BTreeSet<IpAddr> = self.wanted_groups(index).collect();
        if i.is_alone() || i.kind == Kind::Local || i.xconnect.is_some() {
            return due;
        }
        let prefixes = self.prefixes_of(i);
        if prefixes.iter().any(|a| a.addr().is_ipv4()) {
            due.extend([IpAddr::V4(ALL_HOSTS4), IpAddr::V4(ALL_ROUTERS4)]);
        }
        if let Some(own) = i.link_local {
            due.extend([IpAddr::V6(ALL_NODES), IpAddr::V6(ALL_ROUTERS), solicited_node(own).into()]);
            for a in &prefixes {
                for a in [Some(a.addr()), super::addresses::anycast(*a)] {
                    if let Some(IpAddr::V6(a)) = a {
                        due.insert(solicited_node(a).into());
                    }
                }
            }
            let here = |behind: u32| behind != index && self.table_of(behind, true) == i.table(true);
            let others = self.nd_proxies.iter().filter(|(_, behind)| here(**behind));
            due.extend(others.map(|(a, _)| IpAddr::V6(solicited_node(*a))));
        }
        due
    }

    /// Joins and leaves groups as addresses, proxies and the operator ask for; what is to be told of it.
    pub(super) fn sync_groups(&mut self, index: u32) -> Vec<Action> {
        let due = self.due_groups(index);
        let (now, mut out) = (self.now(), vec![]);
        let was: BTreeSet<IpAddr> = self.multicast.groups(index).collect();
        self.multicast.set(now, index, &due, &mut out);
        due.difference(&was).for_each(|g| self.receive_group(index, *g, true));
        was.difference(&due).for_each(|g| self.receive_group(index, *g, false));
        out
    }

    /// An interface goes, and leaves all groups.
    pub(super) fn forget_groups(&mut self, index: u32) {
        for g in self.groups_of(index) {
            self.receive_group(index, g, false);
        }
        self.multicast.removed(index);
        let wanted: Vec<IpAddr> = self.wanted_groups(index).collect();
        for g in wanted {
            self.wanted_groups.remove(&(index, g));
        }
    }

    /// The device below an interface takes frames for the groups of all interfaces on it.
    fn receive_group(&mut self, index: u32, group: IpAddr, joined: bool) {
        let Some(hw) = self.interfaces.get(index).map(IfState::hw) else { return };
        let mac = match group {
            IpAddr::V4(a) => ip4::addr::multicast_mac(a.into()),
            IpAddr::V6(a) => ip6::addr::multicast_mac(a),
        };
        let users = self.device_groups.entry((hw, mac)).or_insert(0);
        let was = *users;
        *users = if joined { was + 1 } else { was.saturating_sub(1) };
        let now = *users;
        if now == 0 {
            self.device_groups.remove(&(hw, mac));
        }
        if (was == 0) == (now == 0) {
            return;
        }
        let device = self.interfaces.get_mut(hw).and_then(IfState::device_mut);
        if let Some(Err(e)) = device.map(|d| d.set_group(mac, joined)) {
            self.note(true, format!("frames for {mac} may not be received: {e}"));
        }
    }

    pub(super) fn sync_all_groups(&mut self) {
        let all: Vec<u32> = self.interfaces.iter().map(|i| i.index).collect();
        for index in all {
            self.publish_interface(index);
        }
    }

    /// The groups of an interface as workers read them.
    pub(super) fn published_groups(&self, index: u32) -> (Box<[u32]>, Box<[u128]>) {
        let (mut v4, mut v6) = (vec![], vec![]);
        for g in self.multicast.groups(index) {
            match g {
                IpAddr::V4(a) => v4.push(u32::from(a)),
                IpAddr::V6(a) => v6.push(u128::from(a)),
            }
        }
        (v4.into(), v6.into())
    }

    pub(super) fn carry_out_multicast(&mut self, actions: Vec<Action>) {
        for action in actions {
            let interface = action.interface();
            let Some(i) = self.plane.interfaces.get(interface, &self.guard) else { continue };
            let source4 = i.addrs4.first().map(|a| Ipv4Addr::from(a.0));
            let source6 =
                i.addrs6.iter().map(|a| std::net::Ipv6Addr::from(a.0)).find(|a| a.is_unicast_link_local());
            for frame in wire::frames(&action, source4, source6) {
                self.send_frame(interface, &frame);
            }
        }
    }

    /// A query for groups came; `packet` begins with its IP header.
    pub(super) fn heard_query(&mut self, now: Millis, interface: u32, packet: &[u8]) {
        let Some(query) = Query::parse(packet) else { return };
        self.multicast.queried(now, interface, &query);
    }
}

impl Router {
    /// The version of IGMP or MLD that queriers on an interface's link speak, where it is an older one.
    pub fn querier_version(&self, index: u32, v6: bool) -> Option<u8> {
        self.multicast.old_version(self.now(), index, v6)
    }
}
