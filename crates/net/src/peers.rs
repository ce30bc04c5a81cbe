//! What features share whose interfaces lead to another process of the machine (memif, vhost-user): the part that watches whether it is
//! there, gives its queues to workers and takes them back while the interface keeps all else, and what their commands have in common.

use crate::chatter::Chatter;
use crate::cli::interface;
use crate::neighbor::Millis;
use crate::router::{Device, DeviceControl, NewVirtual, Op, OpError, Part, Router, Start};
use command::{Args, Command, CommandError};
use drivers::Drops;
use drivers::peers::{Event, Hub, Link, Senders};
use drivers::place::Place;
use graph::TxQueue;
use rustix::fd::{AsFd, BorrowedFd};
use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The largest IP packet, unless the operator says otherwise, bytes.
pub const MTU: u16 = 1500;
/// When it is looked again after something went wrong that no descriptor tells of, milliseconds.
const LOOK: u64 = 500;

/// What a driver of such interfaces is.
pub(crate) trait PeerKind: Send + Sync + Sized + 'static {
    /// Its control side.
    type Hub: Hub<Config = Self::Config>;
    /// What the operator wants of an interface.
    type Config: Clone + Send;
    /// What else is known of an interface.
    type Mark: Copy + Send;
    /// What else the part keeps.
    type Own: Default + Send;
    /// What operators call it.
    const TITLE: &'static str;
    /// What the log says where packets pass no more, before the reason.
    const ENDED: &'static str;

    /// An interface in words.
    fn words(config: &Self::Config) -> String;
    /// The largest IP packet that an interface can take, bytes, and what makes that more; `None` where nothing limits it.
    fn most_mtu(config: &Self::Config) -> Option<(u16, &'static str)> {
        let _ = config;
        None
    }
    /// Its commands.
    fn commands() -> Vec<Command<Router>>;
}

/// An interface of the kind.
pub(crate) struct Port<K: PeerKind> {
    pub config: K::Config,
    pub mark: K::Mark,
    /// What the operator has set, as the driver is yet to hear.
    up: Arc<AtomicBool>,
}

/// All interfaces of the kind: the state of its part.
pub(crate) struct Peers<K: PeerKind> {
    hub: Option<K::Hub>,
    pub ports: BTreeMap<u32, Port<K>>,
    pub own: K::Own,
    /// When the hub is asked again that could not go on, milliseconds.
    stuck: Option<u64>,
    /// What other sides have written of the log, by interface; that of all sockets together.
    chatter: Chatter<Option<u32>>,
}

impl<K: PeerKind> Peers<K> {
    /// What knows how they stand.
    pub fn hub(router: &Router) -> Option<&K::Hub> {
        router.state::<Peers<K>>()?.hub.as_ref()
    }

    /// All interfaces, with the hub that knows how they stand.
    pub fn standing(router: &Router) -> impl Iterator<Item = (u32, &Port<K>, &K::Hub)> {
        let s = router.state::<Peers<K>>().into_iter();
        s.flat_map(|s| s.ports.iter().filter_map(|(i, p)| Some((*i, p, s.hub.as_ref()?))))
    }

    /// An interface, if it is of the kind.
    pub fn port(router: &Router, interface: u32) -> Option<&Port<K>> {
        router.state::<Peers<K>>()?.ports.get(&interface)
    }

    fn control(&self, interface: u32, connected: Option<Box<dyn Senders>>) -> Option<Box<dyn DeviceControl>> {
        let (port, drops) = (self.ports.get(&interface)?, self.hub.as_ref()?.drops(interface)?);
        let (words, most_mtu) = (K::words(&port.config), K::most_mtu(&port.config));
        Some(Box::new(Control { connected, up: Arc::clone(&port.up), drops, words, most_mtu }))
    }

    fn deadline(&self) -> Option<u64> {
        self.hub.as_ref().and_then(Hub::deadline)
    }
}

/// The control side of an interface, whether or not the other side is there.
struct Control {
    /// Where packets are sent, while it is.
    connected: Option<Box<dyn Senders>>,
    up: Arc<AtomicBool>,
    drops: Arc<Drops>,
    words: String,
    most_mtu: Option<(u16, &'static str)>,
}

impl DeviceControl for Control {
    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        self.up.store(up, Relaxed);
        Ok(())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), drivers::Error> {
        match self.most_mtu.filter(|(most, _)| mtu > *most) {
            None => Ok(()),
            Some((most, more)) => Err(drivers::Error::Value {
                name: "its ring".into(),
                within: drivers::error::Within(None),
                what: format!("MTU {mtu}"),
                cause: std::io::Error::other(format!("{most} at most, {more}")),
            }),
        }
    }

    fn link(&self) -> bool {
        self.connected.is_some()
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.connected.as_mut().and_then(|senders| senders.transmit_queue()))
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        drivers::peers::drops(&self.drops)
    }

    fn describe(&self) -> String {
        self.words.clone()
    }
}

/// Makes an interface that waits for its other side.
pub(crate) fn create<K: PeerKind>(
    router: &mut Router,
    new: NewVirtual,
    config: K::Config,
    mark: K::Mark,
) -> Result<Vec<Op>, OpError> {
    let name = new.name.clone();
    let mut made = Ok(());
    router.create_virtual(new, |router, interface| {
        let Some(s) = router.state_mut::<Peers<K>>() else { return };
        let Some(hub) = &mut s.hub else { return };
        made = hub.add(interface, &name, config.clone());
        s.ports.insert(interface, Port { config, mark, up: Arc::new(AtomicBool::new(false)) });
    })?;
    let Some(index) = router.interface_index(&name) else { return Ok(vec![]) };
    if let Err(why) = made {
        router.remove_virtual(index);
        return Err(OpError::new(format!("{name}: {why}")));
    }
    disconnected::<K>(router, index);
    Ok(vec![Op::Delete { name }])
}

fn disconnected<K: PeerKind>(router: &mut Router, interface: u32) {
    if let Some(c) = router.state::<Peers<K>>().and_then(|s| s.control(interface, None)) {
        router.unplug(interface, c);
    }
}

fn connected<K: PeerKind>(router: &mut Router, interface: u32, link: Link, words: &str) {
    let Some(i) = router.interface(interface) else { return };
    let (mac, mtu) = (i.mac, i.mtu.into());
    let mut senders = link.tx;
    let caps = senders.caps();
    let tx = (0..router.config().workers).filter_map(|_| senders.transmit_queue()).collect();
    let Some(control) = router.state::<Peers<K>>().and_then(|s| s.control(interface, Some(senders))) else {
        return;
    };
    let device = Device { rx: link.rx, tx, caps, mac, mtu, link: true, control };
    match router.plug(interface, device) {
        Ok(()) => say::<K>(router, Some(interface), false, words),
        Err(e) => {
            say::<K>(router, Some(interface), true, &e.to_string());
            let now = router.now().0;
            if let Some(hub) = router.state_mut::<Peers<K>>().and_then(|s| s.hub.as_mut()) {
                hub.close(interface, "the router cannot take its queues", now);
            }
            disconnected::<K>(router, interface);
        }
    }
}

/// Writes a line of the log that the other side of an interface, or of a socket, has caused; only so many.
fn say<K: PeerKind>(router: &mut Router, interface: Option<u32>, warns: bool, text: &str) {
    let now = router.now().0;
    if router.state_mut::<Peers<K>>().is_none_or(|s| s.chatter.hears(interface, text, now)) {
        note(router, interface, warns, text);
    }
}

fn note(router: &mut Router, interface: Option<u32>, warns: bool, text: &str) {
    let name = interface.map_or(String::new(), |i| format!("{}: ", router.interface_name(i)));
    router.note(warns, format!("{name}{text}"));
}

/// Does what there is to do; whether more waits.
fn work<K: PeerKind>(router: &mut Router) -> bool {
    let now = router.now().0;
    let hub = router.state_mut::<Peers<K>>().and_then(|s| s.hub.as_mut());
    let Some((events, more)) = hub.map(|hub| hub.work(now)) else { return false };
    let changed = events.iter().any(|e| !matches!(e, Event::Say { .. }));
    for event in events {
        match event {
            Event::Up { interface, link, words } => connected::<K>(router, interface, link, &words),
            Event::Down { interface, why } => {
                disconnected::<K>(router, interface);
                if let Some(why) = why {
                    say::<K>(router, Some(interface), true, &format!("{}: {why}", K::ENDED));
                }
            }
            Event::Say { interface, text } => say::<K>(router, interface, true, &text),
        }
    }
    if changed {
        router.reclaim();
    }
    more
}

/// The part of a kind.
pub(crate) struct PeerPart<K>(PhantomData<fn() -> K>);

impl<K> PeerPart<K> {
    pub(crate) const fn new() -> Self {
        PeerPart(PhantomData)
    }
}

impl<K: PeerKind> Part for PeerPart<K> {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Peers::<K> {
            hub: None,
            ports: BTreeMap::new(),
            own: K::Own::default(),
            stuck: None,
            chatter: Chatter::new(),
        })
    }

    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        let hub = K::Hub::new().map_err(|e| OpError::new(format!("no descriptors for {}: {e}", K::TITLE)))?;
        if let Some(s) = router.state_mut::<Peers<K>>() {
            s.hub = Some(hub);
        }
        Ok(())
    }

    fn settled(&self, router: &mut Router) {
        let now = router.now().0;
        let Some(s) = router.state_mut::<Peers<K>>() else { return };
        let Some(hub) = &mut s.hub else { return };
        let set = |any, (i, p): (&u32, &Port<K>)| hub.set_up(*i, p.up.load(Relaxed), now) | any;
        let changed = s.ports.iter().fold(false, set);
        if changed {
            work::<K>(router);
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let now = router.now().0;
        if let Some(s) = router.state_mut::<Peers<K>>()
            && s.ports.remove(&index).is_some()
        {
            s.chatter.forget(Some(index));
            if let Some(hub) = &mut s.hub {
                hub.remove(index, now);
            }
        }
    }

    fn commands(&self) -> Vec<Command<Router>> {
        K::commands()
    }

    fn descriptor<'r>(&self, router: &'r Router) -> Option<BorrowedFd<'r>> {
        Some(router.state::<Peers<K>>()?.hub.as_ref()?.as_fd())
    }

    fn readable(&self, router: &mut Router) -> bool {
        let more = work::<K>(router);
        let now = router.now().0;
        if let Some(s) = router.state_mut::<Peers<K>>() {
            s.stuck = Some(now + LOOK).filter(|_| !s.ports.is_empty());
        }
        more
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let s = router.state::<Peers<K>>()?;
        s.deadline().into_iter().chain(s.stuck).chain(s.chatter.due()).min().map(Millis)
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        let due = |t: u64| t <= now.0;
        let Some(s) = router.state_mut::<Peers<K>>() else { return };
        let sums = s.chatter.sums(now.0);
        let stuck = s.stuck.is_some_and(due);
        if stuck {
            s.stuck = None;
        }
        let works = stuck || s.deadline().is_some_and(due);
        sums.into_iter().for_each(|(interface, text)| note(router, interface, true, &text));
        if works {
            work::<K>(router);
        }
    }
}

/// Why a socket is refused to who does not have all rights.
pub(crate) fn for_root(place: &Place) -> String {
    format!("socket {place}: the router makes and opens it with its own rights, so only root may name it")
}

/// The interface of the kind that a command is about, if about one alone.
pub(crate) fn only<K: PeerKind>(router: &Router, args: &Args) -> Result<Option<u32>, CommandError> {
    if args.opt::<String>("interface")?.is_none() {
        return Ok(None);
    }
    let i = interface(router, args, "interface")?;
    match Peers::<K>::port(router, i.index) {
        Some(_) => Ok(Some(i.index)),
        None => Err(args.error("interface", format!("{} is no {} interface", i.name, K::TITLE))),
    }
}
