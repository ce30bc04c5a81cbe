//! Where packets of routes go, by number: a client says it once for many routes.

use super::RouteError;
use net::labels::OutLabels;
use net::router::{MOST_PATHS, RoutePath, Router, Target};
use std::net::IpAddr;

/// Numbers of sets are below this one.
pub const MOST_SETS: u32 = 65_536;
/// Next hops of all sets of a stream.
pub const MOST_HOPS: usize = 65_536;

/// What becomes of packets of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// They go over next hops.
    Forward(Vec<NextHop>),
    /// They are thrown away.
    Drop,
    /// They are thrown away, and their sender is told "host unreachable".
    Unreachable,
    /// They are thrown away, and their sender is told "administratively prohibited".
    Prohibit,
    /// They are for the router itself. This and what follows no client sets.
    Local,
    /// Their destinations are neighbours on a connected prefix.
    Connected,
    /// They go to this neighbour.
    Neighbor(NextHop),
    /// To the broadcast address of a connected prefix.
    Broadcast,
}

/// One next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// Address of the neighbour. Without an interface it is looked up, and packets go where that leads.
    pub address: Option<IpAddr>,
    /// Name of the interface. Without an address destinations are neighbours on it.
    pub interface: Option<String>,
    /// The table in which the address is looked up, or without an address the packets' destinations.
    pub table: Option<u32>,
    /// Share of the flows, 1 to 255.
    pub weight: u32,
    /// Labels that packets get, the outermost first.
    pub labels: Vec<u32>,
    /// The largest packet that may go this way, where that is less than the interface says; 0: nothing is said.
    pub mtu: u32,
}

/// The sets of a stream.
#[derive(Default)]
pub(super) struct Sets {
    list: Vec<Option<Goal>>,
    hops: usize,
}

fn hops_of(goal: Option<&Goal>) -> usize {
    match goal {
        Some(Goal::Forward(hops)) => hops.len(),
        _ => 0,
    }
}

fn error(rule: &'static str, value: impl ToString, message: String) -> RouteError {
    RouteError { batch: 0, index: None, rule, value: value.to_string(), message }
}

impl Sets {
    /// Says what a number stands for from now on. Routes that were set by it before stay as they are.
    pub fn define(&mut self, number: u32, goal: Goal) -> Result<(), RouteError> {
        if number >= MOST_SETS {
            let why = format!("next-hop set {number}: numbers are 0 to {}", MOST_SETS - 1);
            return Err(error(RouteError::SET_NUMBER, number, why));
        }
        check(number, &goal)?;
        let at = number as usize;
        let hops = self.hops - hops_of(self.get(number)) + hops_of(Some(&goal));
        if hops > MOST_HOPS {
            let why =
                format!("next-hop set {number}: all sets of a stream have {MOST_HOPS} next hops at most");
            return Err(error(RouteError::SET_SIZE, hops, why));
        }
        if self.list.len() <= at {
            self.list.resize(at + 1, None);
        }
        self.list[at] = Some(goal);
        self.hops = hops;
        Ok(())
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&Goal> {
        self.list.get(number as usize)?.as_ref()
    }
}

/// What can be seen to be wrong without the router.
fn check(number: u32, goal: &Goal) -> Result<(), RouteError> {
    let wrong = |value: String, why: String| {
        Err(error(RouteError::NEXT_HOP, value, format!("next-hop set {number}: {why}")))
    };
    let Goal::Forward(hops) = goal else {
        return match goal {
            Goal::Drop | Goal::Unreachable | Goal::Prohibit => Ok(()),
            _ => wrong(String::new(), "such routes are the router's own".into()),
        };
    };
    if hops.is_empty() || hops.len() > MOST_PATHS {
        let why = format!("next-hop set {number}: {} next hops, there must be 1 to {MOST_PATHS}", hops.len());
        return Err(error(RouteError::SET_SIZE, hops.len(), why));
    }
    for h in hops {
        if !(1..=255).contains(&h.weight) {
            return wrong(h.weight.to_string(), format!("weight {}: it is 1 to 255", h.weight));
        }
        // The least depends on the family and the labels: the router knows these of each route.
        if h.mtu > u16::MAX.into() {
            return wrong(h.mtu.to_string(), format!("mtu {}: it is {} bytes at most", h.mtu, u16::MAX));
        }
        if h.address.is_none() && h.interface.is_none() && h.table.is_none() {
            return wrong(String::new(), "a next hop needs an address, an interface or a table".into());
        }
        if h.interface.as_ref().is_some_and(|name| name.len() > 63) {
            return wrong(String::new(), "the name of an interface has 63 letters at most".into());
        }
        let labels = OutLabels::new(&h.labels);
        if let Err(why) = labels.map_or_else(
            || Err("12 labels of 20 bits at most".to_owned()),
            |labels| if labels.is_empty() { Ok(()) } else { labels.check() },
        ) {
            return wrong(format!("{:?}", h.labels), why);
        }
    }
    Ok(())
}

impl Goal {
    /// As the router has it now.
    pub(super) fn target(&self, router: &Router) -> Result<Target, (String, String)> {
        let hops = match self {
            Goal::Forward(hops) => hops,
            Goal::Unreachable => return Ok(Target::Unreachable),
            Goal::Prohibit => return Ok(Target::Prohibit),
            _ => return Ok(Target::Drop),
        };
        let path = |h: &NextHop| {
            let interface = match &h.interface {
                Some(name) => Some(router.interface_index(name).ok_or_else(|| {
                    (name.clone(), format!("there is no interface {name}: 'show interface' lists all"))
                })?),
                None => None,
            };
            Ok(RoutePath {
                address: h.address,
                interface,
                table: h.table,
                weight: u8::try_from(h.weight).unwrap_or(1),
                labels: OutLabels::new(&h.labels).unwrap_or(OutLabels::NONE),
                mtu: u16::try_from(h.mtu).unwrap_or(u16::MAX),
                ..RoutePath::default()
            })
        };
        hops.iter().map(path).collect::<Result<_, _>>().map(Target::Paths)
    }

    /// What a next-hop group is for.
    pub(super) fn of(router: &Router, target: &Target) -> Goal {
        let hop = |p: &RoutePath| NextHop {
            address: p.address,
            interface: p.interface.map(|i| router.interface_name(i)),
            table: p.table,
            weight: p.weight.into(),
            labels: p.labels.as_slice().to_vec(),
            mtu: p.mtu.into(),
        };
        match target {
            Target::Paths(paths) => Goal::Forward(paths.iter().map(hop).collect()),
            Target::Drop => Goal::Drop,
            Target::Unreachable => Goal::Unreachable,
            Target::Prohibit => Goal::Prohibit,
            Target::Local(_) => Goal::Local,
            Target::Glean(_) => Goal::Connected,
            Target::Neighbor(interface, address) => Goal::Neighbor(NextHop {
                address: Some(*address),
                interface: Some(router.interface_name(*interface)),
                weight: 1,
                ..NextHop::default()
            }),
            Target::Broadcast | Target::DirectedBroadcast(_) => Goal::Broadcast,
        }
    }
}
