//! Where the kernel's routes lead in the router.

use ipnet::IpNet;
use linux::{Action, Key, Route};
use net::labels::OutLabels;
use net::router::{Lookup, Rank, RoutePath, RouteTable, Router, Target};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// The kernel's table `main`.
pub(super) const MAIN: u32 = 254;

/// Linux's devices that are pairs, and the numbers of their interfaces; and the tables in which the operator has these, IPv4's and IPv6's: a VRF of Linux's
/// is no part of `main`. Routes go back as they came:
/// with other pairs or tables all is told anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Devices(pub BTreeMap<u32, u32>, BTreeMap<u32, [u32; 2]>);

/// Why the router does not forward by a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Not {
    /// It leads over a device that is no interface's.
    Foreign,
    /// The router cannot do that.
    Supported(&'static str),
}

/// A route as the router is to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub table: u32,
    pub rank: Rank,
    pub target: Target,
}

/// Whether a route leads to an address of the router's own on its link, as BIRD has them. Linux never comes to ask it: its table of its own
/// addresses is asked before. Here the address stands in the place of such a route, which is refused.
pub(super) fn leads_to_own(router: &Router, prefix: IpNet, target: &Target) -> bool {
    let (Target::Paths(paths), host) = (target, prefix.addr()) else { return false };
    let own = |p: &RoutePath| {
        let interface = p.interface.and_then(|i| router.interface(i));
        interface.is_some_and(|i| i.configured().any(|net| net.addr() == host))
    };
    prefix.prefix_len() == prefix.max_prefix_len() && paths.iter().any(|p| p.address == Some(host) && own(p))
}

/// What becomes of the packets of a label, and whether at the bottom of their stack or above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelGoal {
    pub target: Target,
    pub bottoms: &'static [bool],
}

impl Devices {
    /// A device is the pair of an interface.
    pub fn insert(&mut self, router: &Router, ifindex: u32, interface: u32) {
        self.0.insert(ifindex, interface);
        if let Some(i) = router.interface(interface) {
            self.1.insert(interface, [false, true].map(|v6| router.operators_table(i, v6)));
        }
    }

    /// Of a route of the kernel's, or of one who speaks of its devices.
    pub fn goal(&self, preference: u8, key: &Key, route: &Route) -> Result<Goal, Not> {
        if key.tos != 0 {
            return Err(Not::Supported("type of service"));
        }
        let target = match route.action {
            Action::Unicast => {
                // The host itself is the next hop of a route to one host on a link.
                let host = key.prefix.prefix_len() == key.prefix.max_prefix_len();
                let mut paths = self.paths(route, host.then(|| key.prefix.addr()))?;
                let v6 = key.prefix.addr().is_ipv6();
                paths.iter_mut().for_each(|p| p.mtu = mtu(route, &p.labels, v6));
                Target::Paths(paths)
            }
            Action::Blackhole => Target::Drop,
            Action::Unreachable => Target::Unreachable,
            Action::Prohibit => Target::Prohibit,
            Action::Other(_) => return Err(Not::Supported("kind of route")),
        };
        let v6 = key.prefix.addr().is_ipv6();
        let table = match key.table {
            MAIN => self.main(&target, v6),
            other => other,
        };
        let rank = Rank { preference, metric: key.metric };
        Ok(Goal { table, rank, target })
    }

    /// Paths without a gateway lead to `host`, if there is one.
    fn paths(&self, route: &Route, host: Option<IpAddr>) -> Result<Vec<RoutePath>, Not> {
        if route.paths.is_empty() {
            return Err(Not::Supported("nexthop object that is not known"));
        }
        let most = route.paths.iter().map(|p| p.weight).max().unwrap_or(1);
        let shrink = u32::from(most).div_ceil(u32::from(u8::MAX)).max(1);
        let mut paths: HashMap<RoutePath, u32> = HashMap::new();
        let mut order = vec![];
        for p in &route.paths {
            if p.other_encap.is_some() {
                return Err(Not::Supported("encapsulation"));
            }
            // The others go by devices that are not the router's.
            let Some(interface) = self.0.get(&p.ifindex).copied() else { continue };
            let labels = match p.labels.is_empty() {
                true => OutLabels::NONE,
                false => OutLabels::new(&p.labels).ok_or(Not::Supported("number of labels"))?,
            };
            let address = p.gateway.or(host);
            let path = RoutePath { address, interface: Some(interface), labels, ..RoutePath::default() };
            let weight = (u32::from(p.weight) / shrink).max(1);
            // The kernel takes one way twice.
            *paths.entry(path).or_insert_with(|| {
                order.push(path);
                0
            }) += weight;
        }
        if order.is_empty() {
            return Err(Not::Foreign);
        }
        let weight = |p: &RoutePath| u8::try_from(paths[p]).unwrap_or(u8::MAX);
        Ok(order
            .iter()
            .map(|p| RoutePath { weight: if order.len() == 1 { 1 } else { weight(p) }, ..*p })
            .collect())
    }

    /// Of the route of a label.
    pub fn label_goal(&self, router: &Router, route: &Route) -> Result<LabelGoal, Not> {
        if let [path] = &route.paths[..]
            && let Some(table) = path.table
        {
            if !path.labels.is_empty() {
                return Err(Not::Supported("labels put on for a table"));
            }
            // Below it Linux knows IP packets alone.
            return Ok(LabelGoal { target: self.lookup_in(router, table), bottoms: &[true] });
        }
        if route.paths.is_empty() || route.paths.iter().any(|p| p.gateway.is_none()) {
            return Err(Not::Supported("label without a next hop"));
        }
        Ok(LabelGoal { target: Target::Paths(self.paths(route, None)?), bottoms: &[false, true] })
    }

    /// Into a table of Linux's, of both families; of one where the router has no other.
    fn lookup_in(&self, router: &Router, table: u32) -> Target {
        let of = |v6| if table == MAIN { self.of_all(v6) } else { table };
        let [four, six] = [false, true].map(of);
        let (id, lookup) =
            match [(false, four), (true, six)].map(|(v6, id)| router.has_table(RouteTable { v6, id })) {
                [true, false] => (four, Lookup::Ip4),
                [false, true] => (six, Lookup::Ip6),
                _ if four == six => (four, Lookup::Ip),
                _ => (four, Lookup::IpEach(six)),
            };
        Target::Paths(vec![RoutePath { table: Some(id), lookup, ..RoutePath::default() }])
    }

    /// The kernel's main table is that of the interfaces: several namespaces may stand for several tables.
    fn main(&self, target: &Target, v6: bool) -> u32 {
        if let Target::Paths(paths) = target {
            return paths.first().and_then(|p| self.table_of(p.interface?, v6)).unwrap_or(0);
        }
        self.of_all(v6)
    }

    fn table_of(&self, interface: u32, v6: bool) -> Option<u32> {
        self.1.get(&interface).map(|t| t[usize::from(v6)])
    }

    /// The table in which all interfaces are, else table 0.
    fn of_all(&self, v6: bool) -> u32 {
        let mut all = self.0.values().filter_map(|i| self.table_of(*i, v6));
        let first = all.next().unwrap_or(0);
        if all.all(|t| t == first) { first } else { 0 }
    }
}

/// The MTU of a path of a route as the router has it: the kernel takes any number, and packets of as many bytes as every link carries all
/// the same, before they get labels.
fn mtu(route: &Route, labels: &OutLabels, v6: bool) -> u16 {
    match route.mtu {
        0 => 0,
        mtu => u16::try_from(mtu).unwrap_or(u16::MAX).max(labels.least_mtu(v6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Path;
    use net::router::{Elsewhere, Op, RouterConfig};

    #[test]
    fn the_mtu_of_a_path_has_room_for_its_labels() {
        let labels = OutLabels::new(&[100, 3, 101]).unwrap();
        let of = |mtu, labels: &OutLabels, v6| {
            let (action, paths) = (Action::Unicast, vec![]);
            let route =
                Route { protocol: 4, action, paths, nexthop: 0, buckets: 0, source: None, mtu, wanted: 0 };
            super::mtu(&route, labels, v6)
        };
        assert_eq!(
            [0, 1, 1400, 70_000].map(|mtu| of(mtu, &OutLabels::NONE, true)),
            [0, 1280, 1400, u16::MAX]
        );
        // Implicit null is none.
        assert_eq!([0, 1280, 1400].map(|mtu| of(mtu, &labels, true)), [0, 1288, 1400]);
        assert_eq!([0, 68, 100].map(|mtu| of(mtu, &labels, false)), [0, 76, 100]);
    }

    #[test]
    fn a_label_leads_into_the_tables_that_there_are() {
        let mut router = Router::new(RouterConfig::default()).unwrap();
        let goal = |router: &Router, paths: Vec<Path>| {
            let route = Route {
                protocol: 186,
                action: Action::Unicast,
                paths,
                nexthop: 0,
                buckets: 0,
                source: None,
                mtu: 0,
                wanted: 0,
            };
            Devices::default().label_goal(router, &route)
        };
        let over = |table| Path { ifindex: 7, weight: 1, table, ..Path::default() };
        let into = |router: &Router, table: u32| match goal(router, vec![over(Some(table))]) {
            Ok(LabelGoal { target: Target::Paths(paths), bottoms: [true] }) => {
                (paths[0].table, paths[0].lookup)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(into(&router, MAIN), (Some(0), Lookup::Ip));
        // Of none the router says that it is missing.
        assert_eq!(into(&router, 10), (Some(10), Lookup::Ip));
        for (v6, lookup) in [(true, Lookup::Ip6), (false, Lookup::Ip)] {
            let table = RouteTable { v6, id: 10 };
            router.commit(vec![Op::CreateTable { table, name: None }]).unwrap();
            assert_eq!(into(&router, 10), (Some(10), lookup));
        }
        // Of `main` each family has the table in which the interfaces are.
        let devices = {
            let first = Op::CreateLoopback { instance: Some(0), mac: None };
            let name = || String::from("loop0");
            router
                .commit(vec![first, Op::SetTable { name: name(), table: RouteTable { v6: true, id: 10 } }])
                .unwrap();
            let mut devices = Devices::default();
            devices.insert(&router, 7, router.interface_index("loop0").unwrap());
            devices
        };
        // Not the table of Linux's VRF: that is none of `main`.
        let into_vrf = vec![
            Op::MoveTable { name: "loop0".into(), table: RouteTable { v6: false, id: 10 } },
            Op::SetElsewhere {
                name: "loop0".into(),
                what: Elsewhere { tables: [Some(0), None], ..Elsewhere::default() },
            },
        ];
        router.commit(into_vrf).unwrap();
        let again = {
            let mut devices = Devices::default();
            devices.insert(&router, 7, router.interface_index("loop0").unwrap());
            devices
        };
        assert_eq!(again, devices);
        let Target::Paths(paths) = devices.lookup_in(&router, MAIN) else { panic!() };
        assert_eq!((paths[0].table, paths[0].lookup), (Some(0), Lookup::IpEach(10)));
        for not in [
            vec![over(None)],
            vec![over(Some(10)), over(Some(11))],
            vec![Path { labels: vec![100], ..over(Some(10)) }],
        ] {
            assert!(matches!(goal(&router, not), Err(Not::Supported(_))));
        }
    }
}
