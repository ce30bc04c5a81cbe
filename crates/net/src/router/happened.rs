//! What happens to interfaces and neighbours, for one who listens: each change with what was before and what is now. Each
//! interface keeps what was last told of it, or would have been, so that to begin to listen takes no longer with many of them.

use super::{IfState, Router};
use crate::neighbor::Known;
use packet::eth::MacAddr;
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

/// Who listens.
pub(super) struct Listening(Listener);

/// What is told of an interface and may change; names and numbers stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    up: bool,
    link: bool,
    mtu: u16,
    mac: MacAddr,
}

impl Told {
    fn of(self, i: &IfState) -> LinkState {
        let Told { up, link, mtu, mac } = self;
        LinkState { index: i.index, name: i.name.clone(), up, link, mtu, mac }
    }
}

impl Router {
    /// Tells this one from now on; who listened before does not any more.
    pub fn listen(&mut self, listener: Listener) {
        self.neighbors.table.tell(true);
        self.listening = Some(Box::new(Listening(listener)));
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
        self.to_tell(i).of(i)
    }

    fn to_tell(&self, i: &IfState) -> Told {
        let hw = self.interfaces.get(i.hw());
        let (link, mac) = hw.map_or((false, i.mac), |hw| (hw.link, hw.mac));
        Told { up: i.up, link, mtu: i.mtu, mac }
    }

    /// An interface may be another than it was.
    pub(super) fn tell_link(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else { return };
        let now = self.to_tell(i);
        if i.told == Some(now) {
            return;
        }
        if let Some(Listening(listener)) = self.listening.as_deref() {
            let was = i.told.map(|told| told.of(i));
            listener(Happened::Link { was: was.as_ref(), now: Some(&now.of(i)) });
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.told = Some(now);
        }
    }

    /// An interface is gone.
    pub(super) fn tell_link_gone(&self, i: &IfState) {
        if let (Some(Listening(listener)), Some(told)) = (self.listening.as_deref(), i.told) {
            listener(Happened::Link { was: Some(&told.of(i)), now: None });
        }
    }

    /// Tells what has become of neighbours since.
    #[inline]
    pub(super) fn tell_neighbors(&mut self) {
        let Some(Listening(listener)) = self.listening.as_deref() else { return };
        for ((index, address), was, now) in self.neighbors.table.told() {
            let interface = self.interfaces.get(index).map_or("", |i| i.name.as_str());
            listener(Happened::Neighbor { interface, index, address, was, now });
        }
    }
}
