//! What the devices behind interfaces are told, opened and closed, aside where that takes Linux's lock.
//!
//! A device that is told something is away until Linux has answered: somebody stands for it meanwhile, who says what was known of it, and
//! what it is told then waits for it in order.

use super::aside::Asks;
use super::companion::Memory;
use super::devices::{Device, DeviceControl, no_resize};
use super::interfaces::NewInterface;
use super::op::Undo;
use super::placement::Input;
use super::queues::Resizing;
use super::{IfState, Kind, Op, OpError, Router, mtu_over};
use crate::background::Slot;
use drivers::LinkEvent;
use drivers::tap::kept::Left;
use graph::{RxQueue, TxQueue};
use packet::eth::MacAddr;
use std::io;
use std::os::fd::OwnedFd;

/// What a device is told.
#[derive(Clone, Debug)]
pub enum Todo {
    /// To be up or down.
    Up(bool),
    /// To take IP packets of so many bytes.
    Mtu(u16),
    /// As [`DeviceControl::fit`].
    Fit(u32),
    /// As [`DeviceControl::fit_tagged`], for the sub-interface of this name.
    FitTagged(u32, String),
    /// Its MAC address.
    Mac(MacAddr),
    /// To take frames for any station.
    Promiscuous(bool),
    /// To take frames for a group.
    Group(MacAddr, bool),
    /// To look at what Linux has of it.
    Look(LinkEvent),
    /// As [`drivers::Resize::open`].
    OpenQueues(usize),
    /// As [`drivers::Resize::turn`].
    TurnQueues(usize),
    /// As [`drivers::Resize::close`]; 0: what was begun is given up.
    CloseQueues(usize),
}

/// Whether a device has link, and the MTU and MAC address that somebody else has changed.
type Seen = (bool, Option<u32>, Option<MacAddr>);

/// What came of it.
type Did = (Todo, Result<(), drivers::Error>, Option<Seen>);

impl Todo {
    pub(super) fn run(self, d: &mut dyn DeviceControl) -> Did {
        let mut seen = None;
        let result = match &self {
            Todo::Up(up) => {
                let result = d.set_up(*up);
                seen = Some((d.link(), None, None));
                result
            }
            Todo::Mtu(mtu) => d.set_mtu(*mtu),
            Todo::Fit(bytes) => d.fit(*bytes),
            Todo::FitTagged(bytes, _) => d.fit_tagged(*bytes),
            Todo::Mac(mac) => d.set_mac(*mac),
            Todo::Promiscuous(on) => d.set_promiscuous(*on),
            Todo::Group(group, on) => d.set_group(*group, *on),
            Todo::Look(event) => {
                seen = Some(d.look(event));
                Ok(())
            }
            Todo::OpenQueues(queues) => d.open_queues(*queues),
            Todo::TurnQueues(_) => d.resize().ok_or_else(no_resize).and_then(|q| q.turn()),
            Todo::CloseQueues(_) => d.resize().map_or(Ok(()), |q| q.close()),
        };
        (self, result, seen)
    }

    /// Whether it is a step of [`Router::follow_queues`].
    fn is_of_queues(&self) -> bool {
        matches!(self, Todo::OpenQueues(_) | Todo::TurnQueues(_) | Todo::CloseQueues(_))
    }

    /// Why it could not be, of the interface `name`, and whether that refuses what it was for.
    pub(super) fn refusal(&self, name: &str, e: &drivers::Error) -> (String, bool) {
        match self {
            Todo::Up(up) => (format!("{name}: cannot set it {}: {e}", if *up { "up" } else { "down" }), true),
            Todo::Mtu(mtu) => (format!("{name}: cannot set the MTU to {mtu}: {e}"), true),
            Todo::Mac(_) => (format!("{name}: cannot set the MAC address: {e}"), true),
            Todo::Promiscuous(_) => (format!("{name}: cannot change promiscuous mode: {e}"), true),
            Todo::Fit(bytes) => (format!("{name}: the Linux device does not take MTU {bytes}: {e}"), false),
            Todo::FitTagged(bytes, of) => {
                let what = format!("the Linux device needs MTU {bytes}");
                (format!("{of}: packets of full size do not pass, {what}: {e}"), false)
            }
            Todo::Group(mac, _) => (format!("frames for {mac} may not be received: {e}"), false),
            Todo::OpenQueues(n) | Todo::TurnQueues(n) | Todo::CloseQueues(n) => {
                (format!("{name}: cannot have {n} receive queues: {e}"), true)
            }
            Todo::Look(_) => (format!("{name}: {e}"), false),
        }
    }
}

/// What a device does last.
#[derive(Clone, Copy)]
pub(super) enum Last {
    /// Its creation is undone.
    Unmake,
    /// It goes for good.
    Delete,
    /// Somebody has taken it over.
    Stay,
    /// It ends with its queues: somebody has moved it to where nobody looks for it.
    Moved,
}

/// What somebody has done with the Linux side of a part's TAP.
pub(super) enum Astray {
    /// Linux's number of it, and the name that it has now.
    Renamed(u32, String),
    /// Moved to another namespace.
    Moved,
}

/// The device of an interface as far as it is not here.
#[derive(Default)]
pub(super) struct Remote {
    /// The errand that it is on, and where it is put then.
    away: Option<(u64, Slot<Box<dyn DeviceControl>>)>,
    /// What it is told next, and on account of which transaction.
    todo: Vec<(Todo, Option<u64>)>,
    /// It is being opened: the errand, and the transaction that makes the interface.
    pub opening: Option<(u64, Option<u64>)>,
    /// Its MTU was set while it was opened.
    pub mtu_set: bool,
    /// What it does before it is closed.
    pub last: Option<Last>,
    /// What the part whose companion it is knows of it then.
    pub memory: Option<Memory>,
    /// What is to be mended of its Linux side.
    pub astray: Option<Astray>,
    /// It is being given its name back.
    pub renaming: bool,
    /// Its receive queues are becoming more or fewer.
    pub resizing: Option<Resizing>,
}

impl Remote {
    /// Whether it is on an errand.
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }
}

/// Stands for a device that is away.
struct Away {
    link: bool,
    was_there: bool,
    drops: Vec<(&'static str, u64)>,
    queue_drops: Vec<Vec<(&'static str, u64)>>,
    words: String,
    warnings: Vec<String>,
    settings: Option<(u32, MacAddr)>,
    place: Option<(Option<String>, u32)>,
    numa: Option<u32>,
}

impl DeviceControl for Away {
    fn asks(&self) -> Asks {
        Asks::Linux
    }

    fn link(&self) -> bool {
        self.link
    }

    fn was_there(&self) -> bool {
        self.was_there
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.drops.clone()
    }

    fn queue_drops(&self) -> Vec<Vec<(&'static str, u64)>> {
        self.queue_drops.clone()
    }

    fn describe(&self) -> String {
        self.words.clone()
    }

    fn numa_node(&self) -> Option<u32> {
        self.numa
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn settings(&self) -> Option<(u32, MacAddr)> {
        self.settings
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        self.place.clone()
    }

    fn is_linux(&self, netns: Option<&str>, number: u32) -> bool {
        self.place.as_ref().is_some_and(|(ns, n)| *n == number && ns.as_deref() == netns)
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        let what = "give a worker a queue of a device that is being changed: try again".to_owned();
        Err(drivers::Error::System { what, cause: io::ErrorKind::ResourceBusy.into() })
    }
}

/// Stands for a device that is being opened.
struct BeingOpened(Option<Option<String>>);

impl DeviceControl for BeingOpened {
    fn link(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "being opened".into()
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        // No device has this number.
        self.0.clone().map(|netns| (netns, 0))
    }
}

/// What is closed, on a thread that may wait for it.
pub(super) struct Closing {
    control: Option<Box<dyn DeviceControl>>,
    away: Option<Slot<Box<dyn DeviceControl>>>,
    last: Option<Last>,
    /// The errand on which it is being opened.
    opening: Option<u64>,
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
}

impl Closing {
    /// Whether its device goes for good.
    pub fn deletes(&self) -> bool {
        matches!(self.last, Some(Last::Delete))
    }

    /// Its device stays where it outlives who has it open.
    pub fn staying(self) -> Closing {
        Closing { last: Some(Last::Stay), ..self }
    }

    /// Whether it is being opened on this errand.
    pub fn is_opened_by(&self, errand: u64) -> bool {
        self.opening == Some(errand)
    }

    /// A queue of its device, where that is here.
    pub fn queue(&self) -> Option<OwnedFd> {
        self.control.as_ref()?.queue()?.try_clone_to_owned().ok()
    }

    fn close(self) {
        let Closing { control, away, last, rx, tx, .. } = self;
        let mut control = control.or_else(|| away?.take());
        match (&mut control, last) {
            (Some(d), Some(Last::Unmake)) => d.unmake(),
            (Some(d), Some(Last::Delete)) => d.delete(),
            (Some(d), Some(Last::Moved)) => d.unmake_moved(),
            _ => {}
        }
        drop((rx, tx, control));
    }
}

impl Router {
    /// Tells the device of an interface something. Where that takes Linux's lock, a refusal comes later.
    pub(super) fn tell_device(&mut self, index: u32, todo: Todo) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        let Some(d) = &mut i.device else { return Ok(()) };
        if self.aside.is_on() && d.asks() == Asks::Linux {
            if i.remote.away.is_some() || !d.is_so(&todo) {
                let commit = self.aside.hold();
                i.remote.todo.push((todo, commit));
                self.send_away(index);
            }
            return Ok(());
        }
        let (todo, result, _) = todo.run(&mut **d);
        let Err(e) = result else { return Ok(()) };
        let (text, refuses) = todo.refusal(&i.name, &e);
        if refuses {
            return Err(OpError::new(text));
        }
        self.note(true, text);
        Ok(())
    }

    /// Has a device take a step that nobody waits for by itself.
    pub(super) fn send_todo(&mut self, index: u32, todo: Todo) {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.remote.todo.push((todo, None));
        }
        self.send_away(index);
    }

    /// Looks at a device after an event; none where it is away, and looks when it has done what it was told before.
    pub(super) fn look_at_device(&mut self, index: u32, event: &LinkEvent) -> Option<Seen> {
        let i = self.interfaces.get_mut(index)?;
        if i.remote.away.is_none() {
            return i.device.as_mut().map(|d| d.look(event));
        }
        // The last one says all.
        i.remote.todo.retain(|(todo, _)| !matches!(todo, Todo::Look(_)));
        i.remote.todo.push((Todo::Look(event.clone()), None));
        None
    }

    /// Has a device do what it was told, where it is here.
    fn send_away(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        if i.remote.away.is_some() || i.remote.todo.is_empty() {
            return;
        }
        let Some(device) = i.device.take() else { return };
        // Queues that others wait for are not to wait for what it is told besides.
        let turns = |(todo, _): &(Todo, _)| matches!(todo, Todo::TurnQueues(_));
        let all = i.remote.todo.len();
        let first = i.remote.todo.iter().position(turns).map_or(all, |n| n + 1);
        let todo: Vec<_> = i.remote.todo.drain(..first).collect();
        i.device = Some(Box::new(Away {
            link: i.link,
            was_there: device.was_there(),
            drops: device.drops(),
            queue_drops: device.queue_drops(),
            words: device.describe(),
            warnings: device.warnings(),
            settings: device.settings(),
            place: device.linux(),
            numa: device.numa_node(),
        }));
        let (errand, slot) = (self.aside.number(), Slot::new(device));
        i.remote.away = Some((errand, slot.clone()));
        let commits: Vec<Option<u64>> = todo.iter().map(|(_, commit)| *commit).collect();
        let work = move || -> Vec<Did> {
            let Some(mut device) = slot.take() else { return vec![] };
            let did = todo.into_iter().map(|(todo, _)| todo.run(&mut *device)).collect();
            slot.put(device);
            did
        };
        self.ask(Asks::Linux, work, move |router, did| {
            router.came_back(index, errand, commits, did);
            Ok(())
        });
    }

    /// A device has done what it was told.
    fn came_back(&mut self, index: u32, errand: u64, commits: Vec<Option<u64>>, did: io::Result<Vec<Did>>) {
        let here = self.interfaces.get_mut(index);
        let Some(i) = here.filter(|i| i.remote.away.as_ref().is_some_and(|a| a.0 == errand)) else {
            // The interface is gone, and closes its device.
            commits.into_iter().for_each(|commit| self.answered(commit, Ok(())));
            return;
        };
        let name = i.name.clone();
        let back = i.remote.away.take().and_then(|(_, slot)| slot.take());
        let lost = back.is_none();
        i.device = back.or(i.device.take());
        match did {
            Ok(did) => {
                for ((todo, result, seen), commit) in did.into_iter().zip(commits) {
                    if todo.is_of_queues() {
                        let result = result.map_err(|e| OpError::new(todo.refusal(&name, &e).0));
                        self.queues_answered(index, &todo, result);
                        continue;
                    }
                    let outcome = match result {
                        Ok(()) => Ok(()),
                        Err(e) => match todo.refusal(&name, &e) {
                            (text, true) => Err(OpError::new(text)),
                            (text, false) => {
                                self.note(true, text);
                                Ok(())
                            }
                        },
                    };
                    match (seen, &todo) {
                        (Some(seen), Todo::Look(event)) => self.followed(index, event, seen),
                        (Some((link, ..)), _) if outcome.is_ok() => self.follow_link(index, link),
                        _ => {}
                    }
                    self.answered(commit, outcome);
                }
            }
            Err(e) => {
                for commit in commits {
                    self.answered(commit, Err(OpError::new(format!("{name}: {e}"))));
                }
            }
        }
        if lost {
            self.lose(index, "was lost to a fault in the router");
        }
        self.send_away(index);
    }

    /// A device that was set up may have link now.
    fn follow_link(&mut self, index: u32, link: bool) {
        let Some(i) = self.interface(index).filter(|i| i.link != link) else { return };
        let up = i.up;
        self.set_link_state(index, up, link);
        self.reclaim();
    }

    /// Makes an interface over a device that is opened aside.
    pub(super) fn open_device(
        &mut self,
        name: String,
        origin: Op,
        asks: Asks,
        open: impl FnOnce(u32, usize) -> Result<Device, String> + Send + 'static,
    ) -> Result<Undo, OpError> {
        self.open_for(name, origin, asks, |_, e| Err(e), open)
    }

    /// The same; `refused` says what it means that it cannot be.
    pub(super) fn open_for(
        &mut self,
        name: String,
        origin: Op,
        asks: Asks,
        refused: impl FnOnce(&mut Router, OpError) -> Result<(), OpError> + Send + 'static,
        open: impl FnOnce(u32, usize) -> Result<Device, String> + Send + 'static,
    ) -> Result<Undo, OpError> {
        if !self.aside.is_on() {
            return self.create_device(name, origin, open);
        }
        let netns = match &origin {
            Op::CreateHost { config, .. } => Some(config.netns.clone()),
            Op::CreateTap { config, .. } => Some(config.netns.clone()),
            _ => None,
        };
        let index = self.reserve_index()?;
        // What stands here until the device says what it has.
        let mac = MacAddr([0x02, 0xfe, 0x6f, (index >> 16) as u8, (index >> 8) as u8, index as u8]);
        let (kind, mtu) = (Kind::Device, 1500);
        let new = NewInterface { name: name.clone(), kind, origin, mac, own_mac: None, mtu, link: false };
        self.insert_interface(index, new);
        let (errand, commit, workers) = (self.aside.number(), self.aside.commit(), self.config.workers);
        if let Some(i) = self.interfaces.get_mut(index) {
            i.set_device(Box::new(BeingOpened(netns)));
            i.remote.opening = Some((errand, commit));
        }
        self.ask(
            asks,
            move || open(index, workers),
            move |router, opened| {
                let opened = opened.unwrap_or_else(|e| Err(e.to_string()));
                let outcome = router.opened(index, errand, opened).or_else(|e| {
                    let outcome = refused(router, e);
                    if outcome.is_ok() || !router.aside.is_undone() {
                        router.not_opened(index);
                    }
                    outcome
                });
                router.publish_subs();
                router.reclaim();
                outcome
            },
        );
        Ok(vec![Op::Delete { name }])
    }

    /// Takes back that an interface is being opened, where it is by this errand.
    pub(super) fn is_opened_by(&mut self, index: u32, errand: u64) -> bool {
        let i = self.interfaces.get_mut(index);
        i.is_some_and(|i| i.remote.opening.take_if(|(e, _)| *e == errand).is_some())
    }

    /// A device was opened whose interface is gone: it does what that was to do last.
    pub(super) fn opened_in_vain(&mut self, errand: u64, device: Option<Device>) {
        let last = self.interfaces.unopened.remove(&errand).unwrap_or(Last::Unmake);
        if let Some(closing) = self.going_while_opened(errand) {
            // Its transaction may bring it back.
            closing.opening = None;
            if let Some(Device { rx, tx, control, .. }) = device {
                (closing.control, closing.rx, closing.tx) = (Some(control), rx, tx);
            }
        } else if let Some(Device { rx, tx, control, .. }) = device {
            let last = Some(last);
            self.close(Closing { control: Some(control), away: None, last, opening: None, rx, tx });
        }
    }

    fn opened(&mut self, index: u32, errand: u64, opened: Result<Device, String>) -> Result<(), OpError> {
        if !self.is_opened_by(index, errand) {
            self.opened_in_vain(errand, opened.ok());
            return Ok(());
        }
        let Some(name) = self.interface(index).map(|i| i.name.clone()) else { return Ok(()) };
        let device = opened.map_err(|e| OpError::new(format!("{name}: {e}")))?;
        let (note, warnings) = (device.control.describe(), device.control.warnings());
        self.begin_with(index, device)?;
        self.note(false, format!("interface {name}: {note}"));
        warnings.into_iter().for_each(|w| self.note(true, format!("interface {name}: {w}")));
        Ok(())
    }

    /// Takes in the device of an interface that was made without it.
    fn begin_with(&mut self, index: u32, device: Device) -> Result<(), OpError> {
        let (own, mtu, link) = (device.mac, mtu_over(device.mtu), device.link);
        self.attach(index, device)?;
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        i.own_mac = own;
        if !i.remote.mtu_set && !i.companion {
            i.mtu = mtu;
        }
        let mtu_set = std::mem::take(&mut i.remote.mtu_set);
        let trouble = self.bring_device(index, own, mtu_set);
        trouble.into_iter().for_each(|e| self.note(true, e));
        if let Some(up) = self.interface(index).map(|i| i.up) {
            self.set_link_state(index, up, link);
        }
        Ok(())
    }

    /// Brings a device to what its interface has; what could not be.
    pub(super) fn bring_device(&mut self, index: u32, own: MacAddr, with_mtu: bool) -> Vec<String> {
        self.keep_companion(index);
        let Some(i) = self.interface(index) else { return vec![] };
        let (mac, mtu, up) = (if i.mac_set { i.mac } else { own }, i.mtu, i.up);
        // The other side of a companion has an MTU of its own, which is among its settings.
        let with_mtu = with_mtu && !i.companion;
        let groups = self.interfaces.device_groups.keys().filter(|k| k.0 == index).map(|k| k.1);
        let groups: Vec<MacAddr> = groups.collect();
        let mut trouble = vec![];
        trouble.extend(self.set_mac(index, mac).err());
        if with_mtu {
            trouble.extend(self.set_mtu(index, mtu).err());
        }
        self.fit_device(index);
        trouble.extend(self.follow_promiscuity(index).err());
        for group in groups {
            trouble.extend(self.tell_device(index, Todo::Group(group, true)).err());
        }
        // At a start daemons' devices keep their carrier until all is as configured.
        let taken_over = !self.is_starting() && self.companion_was_there(index);
        if up || taken_over {
            trouble.extend(self.tell_device(index, Todo::Up(up)).err());
        }
        if let Some(d) = self.interfaces.get_mut(index).and_then(IfState::device_mut) {
            d.admitted(up);
        }
        trouble.into_iter().map(|e| e.message).collect()
    }

    /// A device could not be opened, and no transaction takes the interface away again: it stays without a device until there is one,
    /// but for what cannot come back.
    fn not_opened(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        if i.companion {
            self.tell_parts(|part, router| part.companion_refused(router, index));
            return;
        }
        match i.in_linux() {
            Some(config) => {
                self.detach(index);
                if let Some(i) = self.interfaces.get_mut(index) {
                    i.set_device(config.absent());
                }
            }
            None => {
                self.orphan_groups(&[index]);
                self.remove_interface(index);
            }
        }
    }

    /// Why an interface cannot be changed that is being opened, but for whoever makes it.
    pub(super) fn check_opened(&self, i: &IfState) -> Result<(), OpError> {
        match i.remote.opening {
            Some((_, Some(commit))) if !i.companion && !self.aside.is_of(commit) => {
                let busy = "is being opened: try again when that has ended";
                Err(OpError::new(format!("{} {busy}", i.name)))
            }
            _ => Ok(()),
        }
    }

    /// Takes a device's queues from the workers, and closes it.
    pub(super) fn detach(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let mut inputs = std::mem::take(&mut i.inputs);
        let (control, mut remote) = (i.device.take(), std::mem::take(&mut i.remote));
        inputs.extend(remote.resizing.iter_mut().flat_map(|r| std::mem::take(&mut r.others)));
        let linux = match &i.origin {
            Op::CreateTap { config, .. } if i.companion => {
                Some(Left { name: config.host_name.clone(), netns: config.netns.clone() })
            }
            _ => None,
        };
        let rx = inputs.into_iter().filter_map(|Input { id, .. }| self.workers.remove_input(id)).collect();
        let tx = self.workers.take_transmit_queues(index);
        let (away, last) = (remote.away.map(|(_, slot)| slot), remote.last);
        let opening = remote.opening.map(|(errand, _)| errand);
        let control = control.filter(|_| away.is_none());
        let closing = Closing { control, away, last, opening, rx, tx };
        if let Some(closing) = self.let_go_later(linux, closing, remote.memory) {
            self.close(closing);
        }
        let resizing = remote.resizing.map(|r| r.waits).unwrap_or_default();
        if !remote.todo.is_empty() || !resizing.is_empty() {
            let answer = move |router: &mut Router, _| {
                let todo = remote.todo.into_iter().map(|(_, commit)| commit);
                todo.chain(resizing).for_each(|commit| router.answered(commit, Ok(())));
                Ok(())
            };
            self.ask(Asks::Linux, || (), answer);
        }
    }

    pub(super) fn close(&mut self, closing: Closing) {
        if let (Some(errand), Some(last)) = (closing.opening, closing.last) {
            self.interfaces.unopened.insert(errand, last);
        }
        let asks = match (&closing.control, &closing.away) {
            (_, Some(_)) => Asks::Linux,
            (Some(d), None) => d.asks(),
            (None, None) => Asks::Nobody,
        };
        self.ask(asks, move || closing.close(), |_, done| done.map_err(|e| OpError::new(e.to_string())));
    }
}
