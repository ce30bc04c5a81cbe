//! Settings of an interface that are not the operator's but Linux's, whose side of a pair was changed. What the operator said is kept:
//! a dump writes it, and it comes back when Linux's goes. Whoever sets something last has it.

use super::{IfState, Op, OpError, Router};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

/// What of an interface is Linux's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The operator's state, where Linux's is in force.
    pub up: Option<bool>,
    /// The operator's MTU, where Linux's is in force.
    pub mtu: Option<u16>,
    /// The operator's MAC address, if any, where Linux's is in force.
    pub mac: Option<Option<MacAddr>>,
    /// Addresses that Linux alone has given it.
    pub addresses: BTreeSet<IpNet>,
    /// Static neighbors that Linux alone has given it.
    pub neighbors: BTreeSet<IpAddr>,
}

impl IfState {
    /// The state as the operator has it.
    pub fn operators_up(&self) -> bool {
        self.elsewhere.up.unwrap_or(self.up)
    }

    /// The MTU as the operator has it.
    pub fn operators_mtu(&self) -> u16 {
        self.elsewhere.mtu.unwrap_or(self.mtu)
    }

    /// The MAC address that the operator chose, if any.
    pub fn operators_mac(&self) -> Option<MacAddr> {
        self.elsewhere.mac.unwrap_or(self.mac_set.then_some(self.mac))
    }

    /// The addresses that the operator gave it.
    pub fn operators_addresses(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.configured().filter(|net| !self.elsewhere.addresses.contains(net))
    }
}

impl Router {
    /// Says what of an interface is not the operator's.
    pub(super) fn set_elsewhere(&mut self, name: String, what: Elsewhere) -> Result<Vec<Op>, OpError> {
        let index = self.named(&name)?.index;
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(vec![]) };
        let was = std::mem::replace(&mut i.elsewhere, what);
        Ok(vec![Op::SetElsewhere { name, what: was }])
    }

    /// The operator sets something of an interface, which is his from then on; what undoes that.
    pub(super) fn operator_sets(&mut self, index: u32, change: impl FnOnce(&mut Elsewhere)) -> Vec<Op> {
        let Some(i) = self.interfaces.get_mut(index) else { return vec![] };
        let was = i.elsewhere.clone();
        change(&mut i.elsewhere);
        let name = i.name.clone();
        (i.elsewhere != was).then_some(Op::SetElsewhere { name, what: was }).into_iter().collect()
    }

    /// A link-local address of Linux's goes for another one, for there is one; what undoes that.
    pub(super) fn give_way(&mut self, index: u32, to: IpNet) -> Result<Vec<Op>, OpError> {
        let far = !matches!(to.addr(), IpAddr::V6(a) if a.is_unicast_link_local());
        let Some(i) = self.interfaces.get(index).filter(|_| !far) else { return Ok(vec![]) };
        let own = i.own_link_local.map(IpNet::V6).filter(|own| i.elsewhere.addresses.contains(own));
        let Some((net, name)) = own.map(|own| (own, i.name.clone())) else { return Ok(vec![]) };
        let mut undo = self.operator_sets(index, |e| _ = e.addresses.remove(&net));
        undo.extend(self.apply(Op::DelAddress { name, net })?);
        Ok(undo)
    }

    /// Whether an address is Linux's, and so not the operator's to take away.
    pub(super) fn check_not_elsewhere(&self, name: &str, net: IpNet) -> Result<(), OpError> {
        if self.named(name)?.elsewhere.addresses.contains(&net) {
            return Err(OpError::new(format!(
                "{name}: {net} was given in Linux, where it can be taken away (`ip address del`), or `lcp nl-sync off`"
            )));
        }
        Ok(())
    }

    /// Takes one thing out of what an interface has elsewhere; what is to be done, so that it has what the operator said again.
    pub(crate) fn next_elsewhere(&mut self, index: u32) -> Option<Op> {
        let i = self.interfaces.get_mut(index)?;
        let (name, what) = (|| i.name.clone(), &mut i.elsewhere);
        let mut neighbor =
            || what.neighbors.pop_first().map(|address| Op::DelNeighbor { name: name(), address });
        neighbor()
            .or_else(|| what.addresses.pop_first().map(|net| Op::DelAddress { name: name(), net }))
            .or_else(|| what.mac.take().map(|mac| Op::SetMac { name: name(), mac }))
            .or_else(|| what.mtu.take().map(|mtu| Op::SetMtu { name: name(), mtu }))
            .or_else(|| what.up.take().map(|up| Op::SetState { name: name(), up }))
    }

    /// An interface has what the operator said again, `within` a transaction or by transactions of its own. What cannot be is told
    /// in the log. Ends when it is time to; whether all is done.
    pub(crate) fn drop_elsewhere(&mut self, index: u32, within: bool, end: Option<Instant>) -> bool {
        while let Some(op) = self.next_elsewhere(index) {
            // A neighbor may be gone with its address.
            let gone = matches!(op, Op::DelNeighbor { .. });
            let done = if within { self.apply(op).map(drop) } else { self.commit(vec![op]) };
            if let Err(e) = done
                && !gone
            {
                self.note(true, e.message);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
        }
        true
    }
}
