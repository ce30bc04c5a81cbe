//! vhost-user interfaces as a part of the control side.

use super::{Role, commands};
use crate::neighbor::Millis;
use crate::router::{
    Device, DeviceControl, FloodClass, Kind, NewVirtual, Op, OpError, Part, PartOp, Router, Start,
    VirtualKind,
};
use command::{Command, quote};
use drivers::vhost::{self, Config, Drops, Event, Hub, Link, Peer, Place, Senders};
use graph::TxQueue;
use rustix::fd::{AsFd, BorrowedFd};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The largest IP packet, unless the operator says otherwise, bytes.
pub const MTU: u16 = 1500;
/// When it is looked again after something went wrong that no descriptor tells of, milliseconds.
const LOOK: u64 = 500;

static KIND: VirtualKind = VirtualKind { word: "vhost-user", frames: true, flood: FloodClass::Link };

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum VhostOp {
    /// Makes the interface `VirtualEthernet0/0/NUMBER`.
    Create {
        /// Its number.
        number: u32,
        /// All else.
        config: Config,
    },
}

/// Of an interface.
struct Port {
    config: Config,
    /// What the operator has set, as the driver is yet to hear.
    up: Arc<AtomicBool>,
}

struct State {
    hub: Option<Hub>,
    ports: BTreeMap<u32, Port>,
    /// When the hub is asked again that could not go on, milliseconds.
    stuck: Option<u64>,
}

/// The name of an interface.
pub fn name(number: u32) -> String {
    format!("VirtualEthernet0/0/{number}")
}

/// What the operator wants of an interface.
pub fn config(router: &Router, interface: u32) -> Option<&Config> {
    router.state::<State>()?.ports.get(&interface).map(|p| &p.config)
}

/// All interfaces, with how they stand.
pub(super) fn interfaces(
    router: &Router,
) -> impl Iterator<Item = (u32, &Config, vhost::State, Option<Peer>)> {
    let s = router.state::<State>().into_iter();
    s.flat_map(|s| {
        s.ports.iter().filter_map(|(i, p)| {
            let (state, peer) = s.hub.as_ref()?.state(*i)?;
            Some((*i, &p.config, state, peer))
        })
    })
}

/// The control side of an interface, whether or not the other side is there.
struct Control {
    /// Where packets are sent, while it is.
    connected: Option<Senders>,
    up: Arc<AtomicBool>,
    drops: Arc<Drops>,
    words: String,
}

impl DeviceControl for Control {
    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        self.up.store(up, Relaxed);
        Ok(())
    }

    fn link(&self) -> bool {
        self.connected.is_some()
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.connected.as_mut().and_then(Senders::transmit_queue))
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        vhost::drops(&self.drops)
    }

    fn describe(&self) -> String {
        self.words.clone()
    }
}

fn control(s: &State, interface: u32, connected: Option<Senders>) -> Option<Box<dyn DeviceControl>> {
    let (port, drops) = (s.ports.get(&interface)?, s.hub.as_ref()?.drops(interface)?);
    let words = format!("vhost-user {}, socket {}", role(&port.config), port.config.socket);
    Some(Box::new(Control { connected, up: Arc::clone(&port.up), drops, words }))
}

/// The role in words.
pub(super) fn role(c: &Config) -> &'static str {
    match c.role {
        Role::Server => "server",
        Role::Client => "client",
    }
}

impl PartOp for VhostOp {
    fn subject(&self) -> String {
        let VhostOp::Create { number, .. } = self;
        name(*number)
    }

    fn off(&self) -> Option<Op> {
        None
    }

    fn turned(&self, _: &Self) -> Option<Op> {
        None
    }

    fn command(&self) -> Option<String> {
        let VhostOp::Create { number, config: c } = self;
        let mut make = format!("create vhost-user socket {}", quote(&c.socket.to_string()));
        if c.role == Role::Server {
            make += " server";
        }
        if c.mask != u64::MAX {
            make += &format!(" feature-mask {:#x}", c.mask);
        }
        make += &format!(" renumber {number}");
        for (word, is) in
            [("disable_mrg_rxbuf", !c.mergeable), ("disable_indirect_desc", !c.indirect), ("gso", c.gso)]
        {
            if is {
                make += &format!(" {word}");
            }
        }
        Some(make)
    }

    fn exclusive(&self) -> Option<String> {
        let VhostOp::Create { config, .. } = self;
        Some(config.socket.to_string())
    }

    fn for_root(&self) -> Option<String> {
        let VhostOp::Create { config, .. } = self;
        Some(for_root(&config.socket))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let VhostOp::Create { number, config } = self;
        let name = name(number);
        let fail = |why: String| OpError::new(format!("{name}: {why}"));
        router.free_name(&name)?;
        let origin = VhostOp::Create { number, config: config.clone() }.into();
        let new = NewVirtual {
            name: name.clone(),
            kind: Kind::Virtual(&KIND),
            origin,
            mac: config.mac(),
            mtu: MTU,
        };
        let mut made = Ok(());
        router.create_virtual(new, |router, interface| {
            let Some(s) = router.state_mut::<State>() else { return };
            let Some(hub) = &mut s.hub else { return };
            made = hub.add(interface, &name, config.clone());
            s.ports.insert(interface, Port { config, up: Arc::new(AtomicBool::new(false)) });
        })?;
        let Some(index) = router.interface_index(&name) else { return Ok(vec![]) };
        if let Err(why) = made {
            router.remove_virtual(index);
            return Err(fail(why));
        }
        if let Some(c) = router.state::<State>().and_then(|s| control(s, index, None)) {
            router.unplug(index, c);
        }
        Ok(vec![Op::Delete { name }])
    }

    fn log_line(&self) -> Option<String> {
        let VhostOp::Create { number, config } = self;
        Some(format!(
            "interface {}: vhost-user {} on the socket {}",
            name(*number),
            role(config),
            config.socket
        ))
    }
}

/// Why a socket is refused to who does not have all rights.
pub(super) fn for_root(place: &Place) -> String {
    format!("socket {place}: the router makes and opens it with its own rights, so only root may name it")
}

/// The part.
pub(crate) struct Vhost;

/// Does what there is to do; whether more waits.
fn work(router: &mut Router) -> bool {
    let now = router.now().0;
    let hub = router.state_mut::<State>().and_then(|s| s.hub.as_mut());
    let Some((events, more)) = hub.map(|hub| hub.work(now)) else { return false };
    let changed = events.iter().any(|e| !matches!(e, Event::Say { .. }));
    for event in events {
        match event {
            Event::Up { interface, link, words } => connected(router, interface, link, &words),
            Event::Down { interface, why } => {
                disconnected(router, interface);
                if let Some(why) = why {
                    let name = router.interface_name(interface);
                    router.note(true, format!("{name}: no packets pass any more: {why}"));
                }
            }
            Event::Say { interface, text } => {
                let name = router.interface_name(interface);
                router.note(true, format!("{name}: {text}"));
            }
        }
    }
    if changed {
        router.reclaim();
    }
    more
}

fn disconnected(router: &mut Router, interface: u32) {
    if let Some(c) = router.state::<State>().and_then(|s| control(s, interface, None)) {
        router.unplug(interface, c);
    }
}

fn connected(router: &mut Router, interface: u32, link: Link, words: &str) {
    let Some(i) = router.interface(interface) else { return };
    let (name, mac, mtu) = (i.name.clone(), i.mac, i.mtu.into());
    let mut senders = link.tx;
    let caps = senders.caps();
    let tx = (0..router.config().workers).filter_map(|_| senders.transmit_queue()).collect();
    let Some(control) = router.state::<State>().and_then(|s| control(s, interface, Some(senders))) else {
        return;
    };
    let device = Device { rx: link.rx, tx, caps, mac, mtu, link: true, control };
    match router.plug(interface, device) {
        Ok(()) => router.note(false, format!("{name}: {words}")),
        Err(e) => {
            router.note(true, format!("{name}: {e}"));
            if let Some(hub) = router.state_mut::<State>().and_then(|s| s.hub.as_mut()) {
                hub.close(interface, "the router cannot take its queues");
            }
            disconnected(router, interface);
        }
    }
}

impl Part for Vhost {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State { hub: None, ports: BTreeMap::new(), stuck: None })
    }

    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        let hub = Hub::new().map_err(|e| OpError::new(format!("no descriptors for vhost-user: {e}")))?;
        if let Some(s) = router.state_mut::<State>() {
            s.hub = Some(hub);
        }
        Ok(())
    }

    fn settled(&self, router: &mut Router) {
        let Some(s) = router.state_mut::<State>() else { return };
        let Some(hub) = &mut s.hub else { return };
        let changed = s.ports.iter().fold(false, |any, (i, p)| hub.set_up(*i, p.up.load(Relaxed)) | any);
        if changed {
            work(router);
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        if let Some(s) = router.state_mut::<State>()
            && s.ports.remove(&index).is_some()
            && let Some(hub) = &mut s.hub
        {
            hub.remove(index);
        }
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn descriptor<'r>(&self, router: &'r Router) -> Option<BorrowedFd<'r>> {
        Some(router.state::<State>()?.hub.as_ref()?.as_fd())
    }

    fn readable(&self, router: &mut Router) -> bool {
        let more = work(router);
        let now = router.now().0;
        if let Some(s) = router.state_mut::<State>() {
            s.stuck = Some(now + LOOK).filter(|_| !s.ports.is_empty());
        }
        more
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let s = router.state::<State>()?;
        let hub = s.hub.as_ref().and_then(Hub::deadline);
        hub.into_iter().chain(s.stuck).min().map(Millis)
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        let due = |t: u64| t <= now.0;
        let Some(s) = router.state_mut::<State>() else { return };
        let stuck = s.stuck.is_some_and(due);
        if stuck {
            s.stuck = None;
        }
        if stuck || s.hub.as_ref().and_then(Hub::deadline).is_some_and(due) {
            work(router);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_an_interface_is_a_command() {
        let usual = Config::new(Place::parse("/run/vm 1.sock").unwrap());
        let command = |config| VhostOp::Create { number: 7, config }.command().unwrap();
        assert_eq!(command(usual), "create vhost-user socket \"/run/vm 1.sock\" renumber 7");
        let other = Config {
            role: Role::Server,
            mask: 0x1f,
            mergeable: false,
            indirect: false,
            gso: true,
            ..Config::new(Place::parse("@vm").unwrap())
        };
        assert_eq!(
            command(other),
            "create vhost-user socket @vm server feature-mask 0x1f renumber 7 disable_mrg_rxbuf disable_indirect_desc gso"
        );
    }
}
