//! What happens to interfaces and neighbours, for one who listens: each change with what was before and what is now. While
//! nobody listens, nothing is compared or kept.

use super::{IfState, Router};
use crate::neighbor::Known;
use packet::eth::MacAddr;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An interface as it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// The device's link; of a sub-interface that of its parent.
    pub link: bool,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Its MAC address; of a sub-interface that of its parent.
    pub mac: MacAddr,
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// An interface came, has another state, or went.
    Link {
        /// What was told before; none: it came.
        was: Option<&'a LinkState>,
        /// None: it went.
        now: Option<&'a LinkState>,
    },
    /// The MAC address of a neighbour became known, or another, or is not known any more.
    Neighbor {
        /// Name of the interface.
        interface: &'a str,
        /// Its number.
        index: u32,
        /// The neighbour.
        address: IpAddr,
        /// None: it was not known.
        was: Option<Known>,
        /// None: it is not known any more.
        now: Option<Known>,
    },
}

/// Gets what happens, in order, while the router is at work: it must not ask the router for anything, nor wait.
pub type Listener = Box<dyn Fn(Happened<'_>) + Send>;

/// Who listens, and what it was told of interfaces.
pub(super) struct Listening {
    listener: Listener,
    links: BTreeMap<u32, LinkState>,
}

impl Router {
    /// Tells this one from now on; who listened before does not any more.
    pub fn listen(&mut self, listener: Listener) {
        let links = self.interfaces.iter().map(|i| (i.index, self.link_state(i))).collect();
        self.neighbors.table.tell(true);
        self.listening = Some(Box::new(Listening { listener, links }));
    }

    /// Whether somebody listens.
    pub fn is_listened_to(&self) -> bool {
        self.listening.is_some()
    }

    /// Nobody listens any more.
    pub fn unlisten(&mut self) {
        self.neighbors.table.tell(false);
        self.listening = None;
    }

    /// An interface as it is told of.
    pub fn link_state(&self, i: &IfState) -> LinkState {
        let hw = self.interfaces.get(i.hw());
        LinkState {
            index: i.index,
            name: i.name.clone(),
            up: i.up,
            link: hw.is_some_and(|hw| hw.link),
            mtu: i.mtu,
            mac: hw.map_or(i.mac, |hw| hw.mac),
        }
    }

    /// An interface may be another than it was, or gone.
    #[inline]
    pub(super) fn tell_link(&mut self, index: u32) {
        if self.listening.is_some() {
            self.tell_link_now(index);
        }
    }

    fn tell_link_now(&mut self, index: u32) {
        let now = self.interfaces.get(index).map(|i| self.link_state(i));
        let Some(listening) = &mut self.listening else { return };
        let was = match &now {
            Some(now) => listening.links.insert(index, now.clone()),
            None => listening.links.remove(&index),
        };
        if was != now {
            (listening.listener)(Happened::Link { was: was.as_ref(), now: now.as_ref() });
        }
    }

    /// Tells what has become of neighbours since.
    #[inline]
    pub(super) fn tell_neighbors(&mut self) {
        let Some(listening) = &self.listening else { return };
        for ((index, address), was, now) in self.neighbors.table.told() {
            let interface = self.interfaces.get(index).map_or("", |i| i.name.as_str());
            (listening.listener)(Happened::Neighbor { interface, index, address, was, now });
        }
    }
}
