//! Features of interfaces: what the operator switches on and off, checked and published.

use super::interfaces::Interfaces;
use super::workers::Workers;
use super::{BoxedOp, IfState, InterfaceOp, MTU, Op, OpError, Router};
use crate::interface::{Bits, MtuOf, SettingValue};
use crate::neighbor::State;
use crate::protocols::{LocalProtocol, Takers};
use ipnet::IpNet;
use std::collections::HashSet;
use std::net::IpAddr;

/// One feature of an interface with all its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// A setting that a feature declares.
    Setting(SettingValue),
    /// The interface whose addresses it uses as its own.
    Unnumbered(Option<String>),
    /// What one part of the router understands.
    Part(BoxedOp),
}

impl<T: InterfaceOp> From<T> for Feature {
    fn from(op: T) -> Self {
        Feature::Part(BoxedOp::new(op))
    }
}

impl From<SettingValue> for Feature {
    fn from(choice: SettingValue) -> Self {
        Feature::Setting(choice)
    }
}

impl Feature {
    /// Whether it names another interface.
    pub(super) fn names_others(&self) -> bool {
        match self {
            Feature::Unnumbered(_) => true,
            Feature::Part(op) => op.names_others(),
            Feature::Setting(_) => false,
        }
    }

    /// Whether it gives an interface something that only layer 3 has.
    pub(super) fn switches_on(&self) -> bool {
        match self {
            Feature::Setting(choice) => !choice.is_default() && !choice.declared().any_layer,
            Feature::Unnumbered(lender) => lender.is_some(),
            Feature::Part(op) => op.switches_on(),
        }
    }
}

impl Workers {
    /// The bit of a feature on its arc.
    pub fn feature_bit(&self, feature: &graph::arcs::Feature) -> u32 {
        self.graphs.first().and_then(|g| g.arc(feature.arc.name)).map_or(0, |arc| arc.bit(feature.node))
    }
}

impl Interfaces {
    /// The interface whose addresses an interface has: itself, unless it is unnumbered.
    pub fn lender(&self, index: u32) -> u32 {
        self.get(index).and_then(|i| i.unnumbered).unwrap_or(index)
    }

    /// Whether an address is the subnet-router anycast address of a prefix of an interface.
    pub fn is_anycast(&self, index: u32, address: IpAddr) -> bool {
        let Some(i) = self.get(index) else { return false };
        i.addresses.iter().any(|n| super::addresses::anycast(*n) == Some(address))
    }
}

impl Router {
    /// A feature takes packets to the router of a protocol over a family from now on, or no more.
    pub(crate) fn take_protocol(&self, protocol: &LocalProtocol, v6: bool, on: bool) {
        let bit = self.workers.feature_bit(if v6 { protocol.ip6 } else { protocol.ip4 });
        self.plane.shared::<Takers>().set(v6, protocol.number, if on { bit } else { 0 });
    }

    /// The same for a UDP port, of who takes datagrams.
    pub(crate) fn take_port(&self, protocol: &LocalProtocol, v6: bool, port: u16, on: bool) {
        let bit = self.workers.feature_bit(if v6 { protocol.ip6 } else { protocol.ip4 });
        self.plane.shared::<Takers>().set_port(v6, port, if on { bit } else { 0 });
    }

    /// The features that packets of an interface are to visit as its settings say.
    pub(super) fn feature_bits(&self, i: &IfState) -> Bits {
        Bits::of(&i.settings, self.interfaces.switches.iter().copied(), |feature| {
            self.workers.feature_bit(feature)
        })
    }

    /// Sets a feature and answers what undoes it.
    pub(super) fn set_feature(&mut self, name: String, feature: Feature) -> Result<Vec<Op>, OpError> {
        let i = self.named(&name)?;
        let (index, bits) = (i.index, self.feature_bits(i));
        if feature.switches_on() {
            self.check_routed(i)?;
        }
        let was = match feature {
            Feature::Unnumbered(lender) => Feature::Unnumbered(self.set_unnumbered(index, &name, lender)?),
            Feature::Part(op) => Feature::Part(op.take(self, index)?),
            Feature::Setting(choice) => self.set_setting(index, &name, choice)?.into(),
        };
        self.publish_interface(index);
        let followed = matches!(was, Feature::Setting(c) if c.declared().in_adjacencies);
        if followed || self.interfaces.get(index).is_some_and(|i| self.feature_bits(i) != bits) {
            self.refresh_adjacencies(index);
        }
        Ok(vec![Op::SetFeature { name, feature: was }])
    }

    /// Refuses an MTU of a protocol that cannot be; 0 is that of the interface.
    fn check_mtu_of(&self, index: u32, name: &str, choice: SettingValue) -> Result<(), OpError> {
        let told =
            MtuOf::ALL.into_iter().find_map(|(word, of)| Some((word, of, choice.value(of.setting())?)));
        let Some((word, of, mtu)) = told.filter(|(_, _, mtu)| *mtu != 0) else { return Ok(()) };
        if !(of.least()..=*MTU.end()).contains(&mtu) {
            let (least, most) = (of.least(), MTU.end());
            return Err(OpError::new(format!(
                "{name}: {word} MTU {mtu} is out of range, {least} to {most} bytes, or 0 for that of the interface"
            )));
        }
        if of != MtuOf::Ip6 {
            return Ok(());
        }
        self.check_mtu6(index, mtu).map_err(|why| OpError::new(format!("{name}: ip6 MTU {mtu} is {why}")))
    }

    /// Sets what a feature declares, which workers see when the interface is published next, and answers what it was: none where no
    /// list names it.
    pub(crate) fn choose(&mut self, index: u32, choice: SettingValue) -> Option<SettingValue> {
        self.interfaces.get_mut(index)?.settings.replace(choice)
    }

    /// Sets what a feature declares and answers what it was.
    fn set_setting(&mut self, index: u32, name: &str, choice: SettingValue) -> Result<SettingValue, OpError> {
        self.check_mtu_of(index, name, choice)?;
        let was = self.choose(index, choice);
        let does = choice.declared().does;
        let was = was.ok_or_else(|| OpError::new(format!("{name}: no list names what \"{does}\"")))?;
        if choice.declared().in_broadcast_routes {
            self.refresh_broadcast_routes(index)?;
        }
        Ok(was)
    }

    /// The features of an interface as operations, in the order in which they can be set.
    pub(super) fn feature_ops(&self, i: &IfState) -> Vec<Op> {
        let own = |c: &SettingValue| c.declared().own_op;
        let chosen = i.settings.chosen().filter(|c| !own(c));
        let mut all: Vec<Feature> = chosen.map(Feature::Setting).collect();
        if let Some(lender) = i.unnumbered {
            all.push(Feature::Unnumbered(Some(self.interface_name(lender))));
        }
        all.extend(self.told_to_parts(i.index).map(Feature::Part));
        all.into_iter().map(|feature| Op::SetFeature { name: i.name.clone(), feature }).collect()
    }

    fn set_unnumbered(
        &mut self,
        index: u32,
        name: &str,
        lender: Option<String>,
    ) -> Result<Option<String>, OpError> {
        let to = match &lender {
            Some(lender) => Some(self.check_lender(index, name, lender)?),
            None => None,
        };
        let far = |a: &IpAddr| !matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
        let fixed =
            self.neighbors.table.iter_interface(index).filter(|n| n.state == State::Static && far(&n.addr));
        if let (None, Some(n)) = (to, fixed.map(|n| n.addr).next()) {
            return Err(OpError::new(format!(
                "{name}: {n} is a static neighbor, and in no prefix of its own: remove it first (ip neighbor del {name} {n})"
            )));
        }
        let left = to.and_then(|l| self.interface(l)).is_some_and(IfState::has_ip6);
        self.check_asks_on(index, left || self.interface(index).is_some_and(IfState::has_ip6))?;
        let was = self.interfaces.get_mut(index).and_then(|i| std::mem::replace(&mut i.unnumbered, to));
        if let Some(lender) = was {
            self.interfaces.borrowers.remove(&(lender, index));
        }
        self.interfaces.borrowers.extend(to.map(|lender| (lender, index)));
        self.follow_lender(index)?;
        Ok(was.map(|i| self.interface_name(i)))
    }

    fn check_lender(&self, index: u32, name: &str, lender: &str) -> Result<u32, OpError> {
        let (i, l) = (self.named(name)?, self.named(lender)?);
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        if l.index == index {
            return fail("cannot use its own addresses as another's".into());
        }
        if let Some(has) = i.configured().next() {
            return fail(format!("has the address {has}: remove it before it uses those of {lender}"));
        }
        if [false, true].iter().any(|v6| i.table(*v6) != l.table(*v6)) {
            return fail(format!("is in another routing table than {lender}: put both into the same"));
        }
        if let Some(further) = l.unnumbered {
            let further = self.interface_name(further);
            return fail(format!("{lender} is itself unnumbered: use {further}, whose addresses it has"));
        }
        if let Some(user) = self.borrower(index) {
            return fail(format!("{user} uses its addresses: it cannot be unnumbered itself"));
        }
        self.check_routed(l)?;
        if i.mtu < 1280 && l.has_ip6() {
            return fail(format!(
                "MTU {} is too small for the IPv6 addresses of {lender}, which need 1280 bytes",
                i.mtu
            ));
        }
        Ok(l.index)
    }

    /// Those who use the addresses of an interface follow a change of them.
    pub(super) fn follow_lent(&mut self, lender: u32) -> Result<(), OpError> {
        let users: Vec<u32> =
            self.interfaces.borrowers.range((lender, 0)..=(lender, u32::MAX)).map(|b| b.1).collect();
        for user in users {
            self.follow_lender(user)?;
        }
        Ok(())
    }

    /// An unnumbered interface has a link-local address while its lender has any IPv6 address.
    fn follow_lender(&mut self, index: u32) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get(index) else { return Ok(()) };
        let want =
            i.has_ip6() || i.unnumbered.and_then(|l| self.interfaces.get(l)).is_some_and(IfState::has_ip6);
        if want != i.link_local.is_some() {
            if !want {
                self.tell_parts(|part, router| part.link_local_goes(router, index, None));
            }
            self.set_link_local(index, want)?;
        }
        self.publish_interface(index);
        self.refresh_groups(&[index]);
        Ok(())
    }

    /// The name of an interface that uses the addresses of this one.
    pub(super) fn borrower(&self, lender: u32) -> Option<String> {
        self.interfaces
            .borrowers
            .range((lender, 0)..=(lender, u32::MAX))
            .next()
            .map(|b| self.interface_name(b.1))
    }

    /// The prefixes of an interface as workers see them: addresses that are lent stand for themselves alone.
    pub(crate) fn prefixes_of(&self, i: &IfState) -> Vec<IpNet> {
        match i.unnumbered.and_then(|l| self.interfaces.get(l)) {
            None => i.addresses.clone(),
            Some(l) => l.addresses.iter().map(|a| IpNet::from(a.addr())).collect(),
        }
    }

    /// Whether an address is the subnet-router anycast address of a prefix of an interface.
    pub(crate) fn is_anycast(&self, index: u32, address: IpAddr) -> bool {
        self.interfaces.is_anycast(index, address)
    }

    /// Whether a host with this address may be on the link of an interface: in one of its prefixes, by a route that says so,
    /// or as the router itself has asked for it there. Nobody else gets an entry among the neighbours.
    pub(crate) fn on_link(&self, index: u32, address: IpAddr) -> bool {
        let Some(i) = self.interfaces.get(index) else { return false };
        i.addresses.iter().any(|n| n.contains(&address))
            || self.parts.all.iter().any(|p| p.is_on_link(self, index, address))
            || self.neighbors.table.get(index, address).is_some()
            || self.adjacencies.keys(index, address).into_iter().any(|k| self.adjacencies.find(k).is_some())
            || self.is_attached(index, address)
            || i.unnumbered.is_some() && self.leads_over(index, address)
    }

    /// Whether workers send packets to an address over this interface.
    fn leads_over(&self, index: u32, address: IpAddr) -> bool {
        let over = |e: &tables::groups::Path| {
            (crate::plane::kind::is_neighbor(e.entry.kind) || e.entry.kind == crate::plane::kind::GLEAN)
                && self.adjacency(e.entry.adj).is_some_and(|a| a.interface == index)
        };
        let v6 = address.is_ipv6();
        let table = self.fibs.get(v6, self.table_of(index, v6)).map_or(0, |v| v.table.id);
        self.lookup_in(table, address).is_some_and(|g| g.paths.iter().any(over))
    }

    /// Refuses to move an interface into another table while features stand on its routes.
    pub(super) fn check_features_stay(&self, index: u32, name: &str, v6: bool) -> Result<(), OpError> {
        let i = self.named(name)?;
        let fail = |why: String| Err(OpError::new(format!("{name}: {why} before it moves to another table")));
        if i.unnumbered.is_some() {
            return fail("uses the addresses of another interface: undo that".into());
        }
        if let Some(user) = self.borrower(index) {
            return fail(format!("{user} uses its addresses: undo that"));
        }
        if let Some((what, _)) = self.parts.all.iter().find_map(|p| p.stands_on(self, index, v6)) {
            return fail(format!("{what}: undo that"));
        }
        Ok(())
    }

    /// Refuses to take interfaces out that others depend on.
    pub(super) fn check_features_unused(&self, name: &str, gone: &HashSet<u32>) -> Result<(), OpError> {
        let mut users = gone.iter().flat_map(|g| self.interfaces.borrowers.range((*g, 0)..=(*g, u32::MAX)));
        if let Some((_, user)) = users.find(|(_, user)| !gone.contains(user)) {
            let user = self.interface_name(*user);
            return Err(OpError::new(format!(
                "{user} uses the addresses of {name}: give it others first (set interface unnumbered del {user})"
            )));
        }
        for index in gone {
            if let Some((what, how)) = self.stands_on_routes(*index) {
                let name = self.interface_name(*index);
                return Err(OpError::new(format!("{name} {what}: undo that first ({how})")));
            }
        }
        let needed = self.parts.all.iter().find_map(|p| p.needs(self, gone));
        needed.map_or(Ok(()), |why| Err(OpError::new(why)))
    }
}
