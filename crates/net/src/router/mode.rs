//! Layer 2 or layer 3: an interface takes part in one of them. What it has of one keeps it from the other, so that nothing
//! is configured that does nothing, and a document can say every state.

use super::{Feature, IfState, Lookup, Op, OpError, RoutePath, Router, Target};
use crate::neighbor::State;
use std::collections::HashSet;
use std::net::IpAddr;
use tables::groups::GroupId;

impl Router {
    /// Why an interface takes no part in layer 3, with what undoes it; nothing where it does.
    pub(super) fn layer2(&self, i: &IfState) -> Option<String> {
        let name = &i.name;
        if let Some(why) = self.without_own_frames(i.index) {
            return Some(why);
        }
        if let Some(m) = i.membership.filter(|m| !m.bvi) {
            let id = m.bridge;
            return Some(format!("is in bridge domain {id}: take it out first (set interface l3 {name})"));
        }
        if i.xconnect.is_some() {
            return Some(format!(
                "is cross-connected: make it an L3 interface first (set interface l3 {name})"
            ));
        }
        let from = self.interfaces.xconnected.get(&i.index)?;
        let from = self.interface_name(*from);
        Some(format!("is cross-connected: make {from} an L3 interface first (set interface l3 {from})"))
    }

    /// Refuses what only an interface of layer 3 may have.
    pub(crate) fn check_routed(&self, i: &IfState) -> Result<(), OpError> {
        self.layer2(i).map_or(Ok(()), |why| Err(OpError::new(format!("{} {why}", i.name))))
    }

    /// What an interface has of layer 3, which keeps it from a bridge domain and a cross-connect.
    pub(crate) fn layer3(&self, i: &IfState) -> Option<String> {
        let name = &i.name;
        // Addresses may be of the pair, and go with it.
        if let Some(has) = self.has_pair(i) {
            return Some(has);
        }
        if let Some(a) = i.configured().next() {
            return Some(format!(
                "has the address {a}: remove it first (set interface ip address del {name} {a})"
            ));
        }
        if i.unnumbered.is_some() {
            return Some(format!("is unnumbered: undo that first (set interface unnumbered del {name})"));
        }
        if let Some(user) = self.borrower(i.index) {
            let how = format!("set interface unnumbered del {user}");
            return Some(format!("lends its addresses to {user}: undo that first ({how})"));
        }
        for (v6, command) in [(false, "ip"), (true, "ip6")] {
            let id = self.table_of_interface(i, v6);
            if id != 0 {
                let how = format!("set interface {command} table {name} 0");
                return Some(format!("is in {}: move it back first ({how})", super::RouteTable { v6, id }));
            }
        }
        // What a bridge of Linux's has as a port is bridged, and its pair is that port.
        let stays = |f: &Feature| self.changes_companions() && matches!(f, Feature::Part(op) if op.is_pair());
        let features = self.feature_ops(i).into_iter().filter_map(|op| match op {
            Op::SetFeature { feature, .. } if feature.switches_on() && !stays(&feature) => Some(feature),
            _ => None,
        });
        if let Some((what, how)) = features.map(|f| words(&f, name)).next() {
            return Some(format!("{what}: undo that first ({how})"));
        }
        if let Some((what, how)) = self.stands_on_routes(i.index) {
            return Some(format!("{what}: undo that first ({how})"));
        }
        let mut neighbors = self.neighbors.table.iter_interface(i.index).filter(|n| n.state == State::Static);
        if let Some(a) = neighbors.next().map(|n| n.addr) {
            return Some(format!(
                "has the static neighbor {a}: undo that first (ip neighbor del {name} {a})"
            ));
        }
        let over = |p: &RoutePath| p.interface == Some(i.index) && p.lookup != Lookup::Frame;
        // Linux's routes over a pair go with it.
        let ports = self.told_to_parts(i.index).any(|op| op.is_pair());
        let stay = |id: &GroupId| ports || !self.nexthops.source(*id).is_some_and(|s| self.is_linuxs(s));
        let groups = self.nexthops.over(&[i.index]).into_iter().filter(stay);
        let routes = self.user_of(groups, over)?;
        Some(format!("{routes} it: change that first"))
    }

    /// The pair in Linux that an interface has, with what undoes it. What a bridge of Linux's has as a port is bridged, and its pair
    /// is that port.
    pub(crate) fn has_pair(&self, i: &IfState) -> Option<String> {
        let pair =
            self.told_to_parts(i.index).find(|op| op.is_pair()).filter(|_| !self.changes_companions())?;
        let (what, how) = pair.words(&i.name);
        Some(format!("{what}: undo that first ({how})"))
    }

    /// What the operator's routes, labels and tunnels of these groups have over a path, in words.
    fn user_of(
        &self,
        groups: impl IntoIterator<Item = GroupId>,
        is: impl Fn(&RoutePath) -> bool,
    ) -> Option<String> {
        let has =
            |id: &GroupId| matches!(self.nexthops.target(*id), Some(Target::Paths(p)) if p.iter().any(&is));
        groups.into_iter().filter(has).filter_map(|id| self.group(id)).find_map(|g| {
            if let Some(holder) = self.holder_of(g.id) {
                return Some(format!("is on the way of {holder}, which leads over"));
            }
            (g.routes != 0).then(|| {
                format!("is on the way of {}, which lead over", super::routes::plural_routes(g.routes))
            })
        })
    }

    /// Refuses an address of an interface that others know as somebody else's.
    pub(super) fn check_nobody_has(&self, i: &IfState, a: IpAddr) -> Result<(), OpError> {
        let name = &i.name;
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        let fixed = self.neighbors.table.get(i.index, a).filter(|n| n.state == State::Static);
        if fixed.is_some() {
            return fail(format!(
                "{a} is a static neighbor there: remove that first (ip neighbor del {name} {a})"
            ));
        }
        if let Some((what, how)) = self.parts.all.iter().find_map(|p| p.is_anothers(self, a)) {
            return fail(format!("{a} {what}: remove that first ({how})"));
        }
        let here = |p: &RoutePath| p.address == Some(a) && p.interface.is_none_or(|on| on == i.index);
        let named = self.nexthops.over(&[i.index]);
        let looked_up = self.fibs.get(a.is_ipv6(), i.table(a.is_ipv6()));
        let looked_up = looked_up.and_then(|v| v.watched.get(&a)).map(|w| w.groups.iter().copied());
        match self.user_of(named.into_iter().chain(looked_up.into_iter().flatten()), here) {
            Some(_) => fail(format!(
                "{a} is the next hop of routes, labels or tunnels: the router cannot be its own neighbor; change those \
                 first (show ip fib {a})"
            )),
            None => Ok(()),
        }
    }

    /// Refuses to take the last IPv6 address, of its own or lent, from an interface that a part needs to have one. `left`:
    /// whether it keeps one.
    pub(super) fn check_asks_on(&self, index: u32, left: bool) -> Result<(), OpError> {
        if left {
            return Ok(());
        }
        let users = self.interfaces.borrowers.range((index, 0)..=(index, u32::MAX)).map(|b| b.1);
        let mut without = std::iter::once(index).chain(users);
        let needed = without.find_map(|i| self.parts.all.iter().find_map(|p| p.needs_ip6(self, i)));
        needed.map_or(Ok(()), |why| Err(OpError::new(why)))
    }

    /// Refuses to take away the stations behind an interface, whose bridge domain they are in, while something is meant for them.
    pub(crate) fn check_stations_gone(&self, index: u32, name: &str) -> Result<(), OpError> {
        let fail = |what: String, how: String| {
            Err(OpError::new(format!("{name} {what}, in its bridge domain: undo that first ({how})")))
        };
        let mut neighbors = self.neighbors.table.iter_interface(index);
        if let Some(n) = neighbors.find(|n| n.state == State::Static) {
            let a = n.addr;
            return fail(format!("has the static neighbor {a}"), format!("ip neighbor del {name} {a}"));
        }
        if let Some((does, undo)) = self.told_to_parts(index).next().map(|op| op.words(name)) {
            return fail(does, undo);
        }
        let needed = self.parts.all.iter().find_map(|p| p.needs(self, &HashSet::from([index])));
        needed.map_or(Ok(()), |why| Err(OpError::new(why)))
    }

    /// Refuses an MTU that is too small for what the interface carries or says.
    pub(super) fn check_mtu_carries(&self, i: &IfState, mtu: u16) -> Result<(), OpError> {
        let fail = |why: String| Err(OpError::new(format!("{}: MTU {mtu} is {why}", i.name)));
        let lent = i.unnumbered.and_then(|l| self.interface(l)).is_some_and(IfState::has_ip6);
        if mtu < 1280 && (i.has_ip6() || lent) {
            return fail("too small for IPv6, which needs 1280 bytes".into());
        }
        self.check_mtu6(i.index, mtu).or_else(fail)
    }

    /// Refuses an MTU with which an interface could not carry the frames of another, or its own could not be carried.
    pub(super) fn check_mtu_carried(&self, i: &IfState, mtu: u16) -> Result<(), OpError> {
        let fail = |what: String| Err(OpError::new(format!("{}: MTU {mtu} is {what}", i.name)));
        if let Some(of) =
            self.carries(i.index).and_then(|(to, _)| self.interface(to)).filter(|of| of.mtu > mtu)
        {
            return fail(format!("less than {} has, whose frames it carries, {}", of.name, of.mtu));
        }
        let by = self.carried_by(i.index).into_iter().filter_map(|m| self.interface(m));
        match by.min_by_key(|m| m.mtu).filter(|m| m.mtu < mtu) {
            Some(m) => fail(format!("more than its member {} has, {}", m.name, m.mtu)),
            None => Ok(()),
        }
    }

    /// Refuses IPv6 addresses where an interface that uses them is too small.
    pub(super) fn check_borrowers_carry(&self, lender: u32) -> Result<(), OpError> {
        let users = self.interfaces.borrowers.range((lender, 0)..=(lender, u32::MAX));
        match users.filter_map(|b| self.interface(b.1)).find(|i| i.mtu < 1280) {
            Some(i) => Err(OpError::new(format!(
                "{}, which uses the addresses of {}, has MTU {}: IPv6 needs 1280 bytes",
                i.name,
                self.interface_name(lender),
                i.mtu
            ))),
            None => Ok(()),
        }
    }
}

/// A feature in words, and the command that switches it off.
fn words(feature: &Feature, name: &str) -> (String, String) {
    match feature {
        Feature::Setting(c) => (c.declared().does.into(), c.declared().undo.replace("{}", name)),
        Feature::Unnumbered(_) => ("is unnumbered".into(), format!("set interface unnumbered del {name}")),
        Feature::Part(op) => op.words(name),
    }
}
