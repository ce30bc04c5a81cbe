//! Multicast groups as a part of the control side: interfaces join them by themselves, for their addresses, and as the operator
//! asks.

use super::{Action, MOST_GROUPS, MulticastTable, Query, wire};
use crate::neighbor::Millis;
use crate::punt::PuntKind;
use crate::router::{self, BoxedOp, Handed, IfState, InterfaceOp, Kind, OpError, Part, Router, Start};
use command::Command;
use packet::ip6::addr::{ALL_NODES, ALL_ROUTERS, solicited_node};
use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ALL_HOSTS4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_ROUTERS4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

/// The part.
pub(crate) struct Multicast;

/// Its state.
struct Groups {
    table: MulticastTable,
    /// Groups that the operator wants interfaces to join.
    wanted: BTreeSet<(u32, IpAddr)>,
    /// What is to be said as soon as workers see the interfaces concerned.
    reports: Vec<Action>,
}

/// A multicast group that the operator wants an interface to join, or no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The group.
    pub group: IpAddr,
    /// Joined or not.
    pub joined: bool,
}

/// The groups that an interface has joined, in order.
pub fn joined(router: &Router, index: u32) -> Vec<IpAddr> {
    router.state::<Groups>().map_or_else(Vec::new, |s| s.table.groups(index).collect())
}

/// The groups that the operator wants an interface to join, in order.
pub fn wanted(router: &Router, index: u32) -> impl Iterator<Item = IpAddr> + '_ {
    let all = router.state::<Groups>().into_iter();
    all.flat_map(move |s| s.wanted.range((index, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..))
        .take_while(move |k| k.0 == index)
        .map(|k| k.1)
}

/// The version of IGMP or MLD that queriers on an interface's link speak, where it is an older one.
pub(super) fn querier_version(router: &Router, index: u32, v6: bool) -> Option<u8> {
    router.state::<Groups>()?.table.old_version(router.now(), index, v6)
}

impl InterfaceOp for Join {
    fn subject(&self) -> String {
        format!("group {}", self.group)
    }

    fn off(&self) -> Self {
        Join { joined: false, ..*self }
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let Join { group, joined } = self;
        let interface = router.interface(index);
        let name = interface.map_or("", |i| &i.name);
        let fail = |why: &str| Err(OpError::new(format!("{name}: {group}: {why}")));
        let scope = |a: Ipv6Addr| a.segments()[0] & 0xf;
        match group {
            a if !a.is_multicast() => return fail("not a multicast group"),
            IpAddr::V6(a) if scope(a) <= 1 || scope(a) == 0xf => {
                return fail("the scope of the group is reserved, or does not reach beyond the interface");
            }
            _ => {}
        }
        if interface.is_some_and(IfState::is_without_stations) {
            return fail("nobody sends to groups on a loopback, or is told of them through a tunnel");
        }
        if joined && wanted(router, index).count() >= MOST_GROUPS {
            return fail("the interface is in as many groups as may be, 256");
        }
        if wanted(router, index).any(|g| g == group) == joined {
            return fail(if joined { "was joined already" } else { "was not joined" });
        }
        let wanted = router.state_mut::<Groups>().map(|s| &mut s.wanted);
        wanted.map(|w| if joined { w.insert((index, group)) } else { w.remove(&(index, group)) });
        Ok(Join { group, joined: !joined })
    }

    fn switches_on(&self) -> bool {
        self.joined
    }

    fn words(&self, name: &str) -> (String, String) {
        let group = self.group;
        (format!("has joined {group}"), format!("set interface ip group leave {name} {group}"))
    }

    fn commands(&self, name: &str, _: bool) -> Vec<String> {
        let what = if self.joined { "join" } else { "leave" };
        vec![format!("set interface ip group {what} {name} {}", self.group)]
    }
}

impl Part for Multicast {
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Groups { table: MulticastTable::new(start.seed), wanted: BTreeSet::new(), reports: vec![] })
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        wanted(router, index).map(|group| BoxedOp::new(Join { group, joined: true })).collect()
    }

    /// Joins and leaves groups as addresses, proxies and the operator ask for.
    fn publishing(&self, router: &mut Router, index: u32) {
        let (due, now) = (due(router, index), router.now());
        let Some(s) = router.state_mut::<Groups>() else { return };
        let was: BTreeSet<IpAddr> = s.table.groups(index).collect();
        s.table.set(now, index, &due, &mut s.reports);
        if due == was {
            return;
        }
        due.difference(&was).for_each(|g| receive(router, index, *g, true));
        was.difference(&due).for_each(|g| receive(router, index, *g, false));
        router.set_groups(index, &due);
    }

    fn published(&self, router: &mut Router) {
        if let Some(s) = router.state_mut::<Groups>()
            && !s.reports.is_empty()
        {
            let reports = std::mem::take(&mut s.reports);
            say(router, reports);
        }
    }

    fn usable(&self, router: &mut Router, index: u32, usable: bool) {
        let now = router.now();
        machine(router, |table, out| {
            if usable {
                table.link_up(now, index, out);
            } else {
                table.link_down(index);
            }
        });
    }

    /// It leaves all groups.
    fn removed(&self, router: &mut Router, index: u32) {
        for g in joined(router, index) {
            receive(router, index, g, false);
        }
        let wanted: Vec<IpAddr> = wanted(router, index).collect();
        if let Some(s) = router.state_mut::<Groups>() {
            s.table.removed(index);
            for g in wanted {
                s.wanted.remove(&(index, g));
            }
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        router.state::<Groups>()?.table.next_deadline()
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        machine(router, |table, out| table.tick(now, out));
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Group
    }

    /// A query for groups; `packet` begins with its IP header.
    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let Handed { interface, bytes: packet, .. } = packet;
        let Some(query) = Query::parse(packet) else { return };
        machine(router, |table, _| table.queried(now, interface, &query));
    }
}

/// Asks the machine, and says what it has to say.
fn machine(router: &mut Router, ask: impl FnOnce(&mut MulticastTable, &mut Vec<Action>)) {
    let mut out = vec![];
    if let Some(s) = router.state_mut::<Groups>() {
        ask(&mut s.table, &mut out);
    }
    say(router, out);
}

/// The groups in which an interface has to be.
fn due(router: &Router, index: u32) -> BTreeSet<IpAddr> {
    let Some(i) = router.interface(index) else { return BTreeSet::new() };
    let mut due: BTreeSet<IpAddr> = wanted(router, index).collect();
    due.extend(router.groups_of_parts(index));
    if i.is_without_stations() || i.kind == Kind::Local || i.xconnect.is_some() {
        return due;
    }
    let prefixes = router.prefixes_of(i);
    if prefixes.iter().any(|a| a.addr().is_ipv4()) {
        due.extend([IpAddr::V4(ALL_HOSTS4), IpAddr::V4(ALL_ROUTERS4)]);
    }
    if let Some(own) = i.link_local {
        due.extend([IpAddr::V6(ALL_NODES), IpAddr::V6(ALL_ROUTERS), solicited_node(own).into()]);
        for a in &prefixes {
            for a in [Some(a.addr()), router::anycast(*a)] {
                if let Some(IpAddr::V6(a)) = a {
                    due.insert(solicited_node(a).into());
                }
            }
        }
    }
    due
}

/// The device below an interface takes frames for a group, or no more.
fn receive(router: &mut Router, index: u32, group: IpAddr, joined: bool) {
    router.receive_frames_to(index, packet::multicast_mac(group), joined);
}

fn say(router: &mut Router, actions: Vec<Action>) {
    for action in actions {
        let interface = action.interface();
        let Some((source4, source6)) = router.report_sources(interface) else { continue };
        for frame in wire::frames(&action, source4, source6) {
            router.send_frame(interface, &frame);
        }
    }
}
