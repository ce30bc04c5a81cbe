//! How the port of one interface stands, what it is to be, and what is done to bring it there.

use super::abi::{Lost, Made, Setup, can};
use super::burst;
use super::config::{self, Config};
use super::device::Port;
use super::hub::{Setting, State, Told};
use crate::host::{Host, PATIENCE as BORROWING};
use crate::link::Link;
use crate::offload::Offload;
use graph::buffer::DATA;
use packet::MacAddr;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How old what is known of a port may get.
const LOOK: Duration = Duration::from_millis(500);
/// How often a device is seen without link before it is started anew, where that may help.
const PATIENCE: u32 = 2;
/// Slots of a ring, unless the operator says otherwise.
const SLOTS: u16 = 1024;
/// Bytes of an Ethernet header with two tags.
const HEADER: u16 = 22;

/// What an interface is to be.
#[derive(Default)]
pub(super) struct Wanted {
    pub up: bool,
    mtu: u16,
    mac: Option<MacAddr>,
    pub promiscuous: bool,
    groups: BTreeSet<MacAddr>,
}

/// What a port has refused.
pub(super) enum Refused {
    /// Packets of `mtu` bytes; it goes on with those of `stays`.
    Mtu { mtu: u16, stays: u16, why: String },
    /// Something else, in words.
    Other(String),
}

/// How far a port is.
pub(super) enum Stage {
    /// There is none.
    Absent,
    /// It is there, and neither receives nor sends.
    Stopped(Port),
    /// Workers have its queues.
    Runs(Port, Arc<burst::Running>),
    /// It stops as soon as nobody has its queues.
    Stops(Port, Arc<burst::Running>),
}

/// The port of an interface.
pub(super) struct Stand {
    pub interface: u32,
    pub config: Config,
    pub told: Arc<Told>,
    pub wanted: Wanted,
    pub stage: Stage,
    /// When it is looked at next.
    pub look: Instant,
    /// The interface is gone; the device is gone; it is to be set up anew.
    pub removed: bool,
    pub gone: bool,
    pub again: bool,
    workers: usize,
    /// How often it was seen without link since it was started.
    without_link: u32,
    /// The Linux device that its driver takes frames from: what is set there is put back when this goes.
    host: Option<Host>,
    /// The largest IP packet that it last ran with, bytes.
    ran_with: Option<u16>,
    /// What the device had dropped when it began to count anew, and what it says.
    earlier: Lost,
    latest: Lost,
}

impl Stand {
    pub fn new(interface: u32, config: Config, workers: usize, told: Arc<Told>) -> Stand {
        Stand {
            interface,
            config,
            told,
            wanted: Wanted { mtu: 1500, ..Wanted::default() },
            stage: Stage::Absent,
            look: Instant::now(),
            removed: false,
            gone: false,
            again: false,
            workers,
            without_link: 0,
            host: None,
            ran_with: None,
            earlier: Lost::default(),
            latest: Lost::default(),
        }
    }

    /// Whether it goes on as soon as queues have come back.
    pub fn waits_for_queues(&self) -> bool {
        matches!(self.stage, Stage::Stops(..))
    }

    /// The number of the Linux device behind it, where it takes one.
    fn linux_now(&self) -> Option<Option<u32>> {
        let name = self.config.device.linux_device()?;
        Some(Link::open(name, None).and_then(|l| l.ifindex()).ok())
    }

    /// Borrows the Linux device that it takes frames from, where it takes one; DPDK's drivers give no reason that helps.
    pub fn borrow_device(&mut self) -> Result<(), String> {
        let Some(name) = self.config.device.linux_device() else { return Ok(()) };
        if self.linux_now() == Some(None) {
            return Err(format!("there is no Linux device {name}: it goes on when there is one"));
        }
        let (host, _) = Host::open(name, None, BORROWING).map_err(|e| e.to_string())?;
        self.host = Some(host);
        Ok(())
    }

    /// The port is let go, or was not found: the Linux device is as it was before.
    pub fn give_back(&mut self) {
        self.host = None;
    }

    /// Sees whether the Linux device behind it is gone, or another one: no driver tells.
    pub fn notice_device(&mut self) {
        if let Some(host) = &self.host
            && !matches!(self.stage, Stage::Absent)
        {
            self.gone |= self.linux_now().is_some_and(|now| now != Some(host.ifindex));
        }
    }

    /// The address that the interface has by itself: the device's, or where that is made up anew each time, one that stays.
    pub fn own_mac(&self, port: &Port) -> MacAddr {
        let made_up = self.config.device.is_virtual() && port.mac.0[0] & 2 != 0 || !port.mac.is_station();
        if made_up { config::mac(&self.config.device) } else { port.mac }
    }

    /// A port was found; it in words.
    pub fn found(&mut self, port: &Port) -> String {
        let linux = self.host.as_ref().and_then(|h| h.link.most_mtu()).unwrap_or(u32::MAX);
        let most_mtu = u16::try_from(linux).unwrap_or(u16::MAX).min(port.most_mtu);
        let node = port.numa.map_or(String::new(), |n| format!(", NUMA node {n}"));
        let words = format!("dpdk {}, driver {}{node}", self.config.device, port.driver);
        self.told.seen(|s| {
            (s.state, s.trouble, s.most_mtu) = (State::Down, None, most_mtu);
            s.words.clone_from(&words);
        });
        words
    }

    /// How a port is to be set up.
    fn setup(&self, port: &Port, interrupts: bool) -> Setup {
        let c = &self.config;
        let queues = |n: usize, most: u16| u16::try_from(n).unwrap_or(u16::MAX).min(most).max(1);
        let rx_queues = queues(c.rx_queues, port.queues.0);
        // What is sent to a queue of net_ring is received from the one of its number.
        let tx_queues = match c.device.device().starts_with("net_ring") {
            true => rx_queues,
            false => queues(c.tx_queues.max(self.workers), port.queues.1),
        };
        let slots = c.slots.map_or(SLOTS, |n| u16::try_from(n).unwrap_or(u16::MAX));
        Setup {
            rx_queues,
            tx_queues,
            rx_slots: slots,
            tx_slots: slots,
            mtu: self.wanted.mtu,
            offloads: u8::from(c.offload != Offload::Off),
            interrupts: u8::from(interrupts),
        }
    }

    /// Sets a port up and starts it, with interrupts where it has them.
    pub fn set_up(&self, port: &Port) -> Result<(Setup, Made), String> {
        let tried = |interrupts| {
            let setup = self.setup(port, interrupts);
            let made = port.configure(&setup)?;
            port.start()?;
            Ok((setup, made))
        };
        tried(true).or_else(|_: String| tried(false))
    }

    /// The largest IP packet that it ran with before, where it was told of another one since: goes back to that, and answers which one
    /// was refused.
    pub fn fall_back(&mut self) -> Option<u16> {
        let before = self.ran_with.filter(|mtu| *mtu != self.wanted.mtu)?;
        Some(std::mem::replace(&mut self.wanted.mtu, before))
    }

    /// The largest IP packet that it is to take, bytes.
    pub fn mtu(&self) -> u16 {
        self.wanted.mtu
    }

    /// What it is to have is what was refused a moment ago.
    pub fn insist(&mut self, mtu: u16) {
        self.wanted.mtu = mtu;
    }

    /// It runs.
    pub fn started(&mut self, port: &Port, setup: &Setup, made: &Made, interrupts: bool) {
        let abilities = [
            (can::RSS, "RSS"),
            (can::CHECK, "checks checksums"),
            (can::TCP | can::UDP, "completes checksums"),
            (can::TSO, "cuts TCP"),
            (can::USO, "cuts UDP"),
            (can::CHAIN, "packets of several buffers"),
        ];
        let mut words: Vec<&str> = abilities.iter().filter(|a| made.can & a.0 != 0).map(|a| a.1).collect();
        words.push(if interrupts { "interrupts" } else { "polled" });
        let words = format!(
            "dpdk {}, driver {}; {} receive queues of {} slots, {} transmit queues of {}; {}",
            self.config.device,
            port.driver,
            setup.rx_queues,
            made.rx_slots,
            setup.tx_queues,
            made.tx_slots,
            words.join(", ")
        );
        self.told.seen(|s| (s.state, s.words, s.trouble) = (State::Up, words, None));
        self.ran_with = Some(self.wanted.mtu);
    }

    /// Does to a port all that the interface is to be, but for what it is set up with; what it refuses.
    pub fn apply(&mut self, port: &Port) -> Vec<String> {
        let (mtu, most) = (self.wanted.mtu, port.most_mtu);
        let mut refused = vec![];
        if mtu > most {
            refused.push(format!(
                "the device takes packets of {most} bytes, not of {mtu}: longer ones are lost"
            ));
        }
        if let Some(Err(e)) = self.host.as_mut().map(|host| host.fit_mtu(mtu.into())) {
            refused.push(format!("{e}: longer packets are lost"));
        }
        if let Some(mac) = self.wanted.mac {
            refused.extend(self.give_mac(port, mac));
        }
        if self.wanted.promiscuous {
            refused.extend(self.harmless(port.set_promiscuous(true)));
        }
        if !self.wanted.groups.is_empty() {
            refused.extend(self.give_groups(port));
        }
        refused
    }

    /// Takes a setting in, and does it to the port; what that refuses. An MTU that is refused is none that it is to have.
    pub fn follow(&mut self, setting: Setting) -> Option<Refused> {
        let wanted = &mut self.wanted;
        let was = wanted.mtu;
        match setting {
            Setting::Up(up) => wanted.up = up,
            Setting::Mtu(mtu) => wanted.mtu = mtu,
            Setting::Mac(mac) => wanted.mac = Some(mac),
            Setting::Promiscuous(on) => wanted.promiscuous = on,
            Setting::Group(group, true) => _ = wanted.groups.insert(group),
            Setting::Group(group, false) => _ = wanted.groups.remove(&group),
        }
        // What is stopped is told when it starts.
        let stage = std::mem::replace(&mut self.stage, Stage::Absent);
        let refused = if let Stage::Runs(port, _) = &stage { self.tell(port, setting, was) } else { None };
        self.stage = stage;
        refused
    }

    /// Tells a port that runs; `was` is the MTU that it had.
    fn tell(&mut self, port: &Port, setting: Setting, was: u16) -> Option<Refused> {
        match setting {
            Setting::Up(_) => None,
            Setting::Mtu(mtu) if mtu == was => None,
            Setting::Mtu(mtu) => {
                // Longer frames than a buffer takes need another way to receive.
                let several = |mtu: u16| usize::from(mtu) + usize::from(HEADER) > DATA;
                let linux = self.host.as_mut().map(|host| host.fit_mtu(mtu.into()));
                let set = match linux {
                    Some(Err(e)) => Err((libc::EINVAL, e.to_string())),
                    _ if several(mtu) != several(was) => Err((libc::EBUSY, String::new())),
                    // DPDK's driver would do the same to the Linux device, and take no care of what it had.
                    Some(Ok(())) => Ok(()),
                    None => port.set_mtu(mtu),
                };
                match set {
                    Ok(()) => self.ran_with = Some(mtu),
                    Err((libc::EBUSY, _)) => self.again = true,
                    // A virtual device without such a setting takes all that comes.
                    Err((libc::ENOTSUP, _)) if self.config.device.is_virtual() => self.ran_with = Some(mtu),
                    Err((_, why)) => {
                        self.wanted.mtu = was;
                        if let Some(host) = &mut self.host {
                            let _ = host.fit_mtu(was.into());
                        }
                        return Some(Refused::Mtu { mtu, stays: was, why });
                    }
                }
                None
            }
            Setting::Mac(mac) => self.give_mac(port, mac).map(Refused::Other),
            Setting::Promiscuous(on) => self.harmless(port.set_promiscuous(on)).map(Refused::Other),
            Setting::Group(..) => self.give_groups(port).map(Refused::Other),
        }
    }

    /// What a virtual device refuses it has no use for: it takes all that comes.
    fn harmless(&self, done: Result<(), String>) -> Option<String> {
        done.err().filter(|_| !self.config.device.is_virtual())
    }

    fn give_mac(&mut self, port: &Port, mac: MacAddr) -> Option<String> {
        if mac == port.mac && self.host.as_ref().is_none_or(|h| h.known().1 == mac) {
            return None;
        }
        // Before DPDK does, so that it is known whose it was.
        if let Some(Err(e)) = self.host.as_mut().map(|host| host.set_mac(mac)) {
            return Some(e.to_string());
        }
        let refused = self.harmless(port.set_mac(mac))?;
        let all =
            if port.set_promiscuous(true).is_ok() { ": it takes frames for any station now" } else { "" };
        Some(refused + all)
    }

    fn give_groups(&self, port: &Port) -> Option<String> {
        let groups: Vec<MacAddr> = self.wanted.groups.iter().copied().collect();
        self.harmless(port.set_groups(&groups))
    }

    /// It is started, and looked at at once.
    pub fn begins(&mut self) {
        (self.look, self.without_link) = (Instant::now(), 0);
    }

    /// Looks at a port that runs, when it is time; whether it has link now, where that has changed.
    pub fn look_at(&mut self, port: &Port, now: Instant) -> Option<bool> {
        if self.look > now {
            return None;
        }
        self.look = now + LOOK;
        let (link, stats) = (port.link(), port.stats());
        self.account(port);
        self.told.seen(|s| (s.link, s.stats) = (link, stats));
        let up = link.up != 0;
        self.without_link = if up { 0 } else { self.without_link + 1 };
        // Only a start has it connect.
        self.again |= self.without_link > PATIENCE && self.config.device.connects();
        (self.told.link.swap(up, Ordering::Relaxed) != up).then_some(up)
    }

    /// Adds up what the device has dropped: some begin to count anew when they are stopped.
    pub fn account(&mut self, port: &Port) {
        let now = port.lost();
        let sum = |a: Lost, b: Lost| Lost {
            missed: a.missed + b.missed,
            errors: a.errors + b.errors,
            no_buffer: a.no_buffer + b.no_buffer,
            unused: 0,
        };
        let was = self.latest;
        if now.missed < was.missed || now.errors < was.errors || now.no_buffer < was.no_buffer {
            self.earlier = sum(self.earlier, was);
        }
        self.latest = now;
        let all = sum(self.earlier, now);
        self.told.seen(|s| s.lost = all);
    }
}
