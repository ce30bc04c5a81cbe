//! The thread on which DPDK may wait: it brings each port to the state that its interface is to have, and looks at those that run.

use super::burst;
use super::device::Port;
use super::env::{self, Happened};
use super::hub::{Event, Events, Running, Setting, State, Work};
use super::library::Library;
use super::pool::SharedPool;
use super::queue::{DpdkRx, Senders};
use super::stand::{Refused, Stage, Stand};
use graph::{Pool, RxQueue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// After how long a device is looked for again, and one that runs is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The same while queues are to come back.
const SOON: Duration = Duration::from_millis(2);

/// The thread's state.
pub(super) struct Thread {
    library: &'static Library,
    pool: Arc<Pool>,
    shared: Option<Arc<SharedPool>>,
    events: Arc<Events>,
    own: Sender<Work>,
    ports: BTreeMap<u32, Stand>,
    ends: bool,
}

impl Thread {
    pub fn new(library: &'static Library, pool: Arc<Pool>, events: Arc<Events>, own: Sender<Work>) -> Thread {
        Thread { library, pool, shared: None, events, own, ports: BTreeMap::new(), ends: false }
    }

    /// Runs until the router ends and all ports are let go.
    pub fn run(&mut self, work: &Receiver<Work>) {
        // DPDK's threads inherit this: signals are for the router's own.
        crate::sys::block_signals();
        let mut next = Instant::now();
        while !(self.ends && self.ports.is_empty()) {
            let wait = if self.ports.is_empty() {
                None
            } else {
                Some(next.saturating_duration_since(Instant::now()))
            };
            let first = match wait {
                None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(time) => work.recv_timeout(time),
            };
            match first {
                Ok(first) => std::iter::once(first).chain(work.try_iter()).for_each(|w| self.take(w)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            let ids: Vec<u32> = self.ports.keys().copied().collect();
            ids.into_iter().for_each(|id| self.step(id, now));
            let soon = self.ports.values().any(Stand::waits_for_queues);
            next = now + if soon { SOON } else { LOOK };
        }
    }

    fn take(&mut self, work: Work) {
        match work {
            Work::Add { id, interface, config, workers, told } => {
                _ = self.ports.insert(id, Stand::new(interface, config, workers, told));
            }
            Work::Remove(id) => {
                if let Some(port) = self.ports.get_mut(&id) {
                    port.removed = true;
                }
            }
            Work::Set(id, setting) => self.set(id, setting),
            Work::Happened(id, what) => {
                if let Some(port) = self.ports.get_mut(&id) {
                    port.gone |= what == Happened::Gone;
                    port.look = Instant::now();
                }
            }
            Work::End => {
                self.ends = true;
                self.ports.values_mut().for_each(|p| p.removed = true);
            }
        }
    }

    fn set(&mut self, id: u32, setting: Setting) {
        let Some(stand) = self.ports.get_mut(&id) else { return };
        match stand.follow(setting) {
            Some(Refused::Mtu { mtu, stays, why }) => self.refused_mtu(id, mtu, stays, &why),
            Some(Refused::Other(text)) => self.events.push(id, Event::Say { text }),
            None => {}
        }
    }

    fn refused_mtu(&self, id: u32, mtu: u16, stays: u16, why: &str) {
        let why = format!("MTU {mtu} is refused, and stays {stays}: {why}");
        self.events.push(id, Event::Mtu { mtu, stays, why });
    }

    /// Brings a port nearer to what it is to be.
    fn step(&mut self, id: u32, now: Instant) {
        let Some(mut stand) = self.ports.remove(&id) else { return };
        if self.turn(id, &mut stand, now) {
            self.ports.insert(id, stand);
        }
    }

    /// The same; false when it is let go for good.
    fn turn(&mut self, id: u32, stand: &mut Stand, now: Instant) -> bool {
        stand.notice_device();
        let ends = stand.removed || stand.gone;
        match std::mem::replace(&mut stand.stage, Stage::Absent) {
            Stage::Absent if stand.removed => return false,
            Stage::Absent => {
                if stand.look <= now {
                    self.find(id, stand, now);
                }
            }
            Stage::Stopped(port) if ends => {
                env::listen(port.number, None);
                if stand.wanted.promiscuous {
                    // Of a Linux device behind it this would stay.
                    let _ = port.set_promiscuous(false);
                }
                let said = port.close().err();
                stand.give_back();
                self.lost(id, stand, said);
                return !stand.removed && self.keep_looking(stand, now);
            }
            Stage::Stopped(port) if stand.wanted.up && stand.look <= now => {
                match self.start(id, stand, &port) {
                    Ok((running, ours)) => {
                        stand.stage = Stage::Runs(port, ours);
                        self.events.push(id, Event::Up { running });
                    }
                    Err(why) => {
                        stand.stage = Stage::Stopped(port);
                        stand.look = now + LOOK;
                        self.trouble(id, stand, why);
                    }
                }
            }
            Stage::Stopped(port) => stand.stage = Stage::Stopped(port),
            Stage::Runs(port, ours) => {
                if ends || !stand.wanted.up || stand.again {
                    let why = match (stand.removed, stand.gone) {
                        (false, true) => Some("the device is gone: it goes on when that is back".to_owned()),
                        _ => None,
                    };
                    stand.told.link.store(false, Ordering::Relaxed);
                    if !stand.removed {
                        self.events.push(id, Event::Down { why });
                    }
                    stand.stage = Stage::Stops(port, ours);
                } else {
                    if let Some(up) = stand.look_at(&port, now) {
                        self.events.push(id, Event::Link { up });
                    }
                    stand.stage = Stage::Runs(port, ours);
                }
            }
            // Workers have its queues until they have dropped them.
            Stage::Stops(port, ours) if Arc::strong_count(&ours) > 1 => {
                stand.stage = Stage::Stops(port, ours)
            }
            Stage::Stops(port, ours) => {
                drop(ours);
                stand.again = false;
                stand.account(&port);
                if let Err(why) = port.stop() {
                    self.trouble(id, stand, why);
                }
                stand.told.seen(|s| s.state = State::Down);
                stand.stage = Stage::Stopped(port);
                stand.look = now;
                return self.turn(id, stand, now);
            }
        }
        true
    }

    fn keep_looking(&self, stand: &mut Stand, now: Instant) -> bool {
        (stand.gone, stand.look) = (false, now + LOOK);
        true
    }

    fn lost(&self, id: u32, stand: &Stand, said: Option<String>) {
        stand.told.seen(|s| s.state = State::Absent);
        if let Some(text) = said.filter(|_| !stand.removed && !stand.gone) {
            self.events.push(id, Event::Say { text });
        }
    }

    /// Says what is wrong with an interface, once.
    fn trouble(&self, id: u32, stand: &mut Stand, why: String) {
        let told = stand.told.seen(|s| s.trouble.replace(why.clone()));
        if told.as_ref() != Some(&why) {
            self.events.push(id, Event::Say { text: why });
        }
    }

    /// DPDK's environment, and the buffers as it knows them.
    fn shared(&mut self) -> Result<Arc<SharedPool>, String> {
        if let Some(shared) = &self.shared {
            return Ok(Arc::clone(shared));
        }
        env::begin(self.library, self.pool.pages())?;
        let shared = Arc::new(SharedPool::new(self.library, &self.pool)?);
        self.shared = Some(Arc::clone(&shared));
        Ok(shared)
    }

    fn find(&mut self, id: u32, stand: &mut Stand, now: Instant) {
        let device = stand.config.device.device();
        if self.ports.values().any(|p| p.removed && p.config.device.device() == device) {
            // Another interface is about to let go of it.
            return;
        }
        stand.look = now + LOOK;
        let found = self.shared().and_then(|shared| {
            stand.borrow_device()?;
            Port::probe(&shared, &stand.config.device).inspect_err(|_| stand.give_back())
        });
        match found {
            Ok(port) => {
                let own = self.own.clone();
                let tell = move |what| _ = own.send(Work::Happened(id, what));
                env::listen(port.number, Some(Box::new(tell)));
                let mac = stand.own_mac(&port);
                let words = stand.found(&port);
                self.events.push(id, Event::Found { mac, words });
                stand.stage = Stage::Stopped(port);
                stand.look = now;
            }
            Err(why) => {
                stand.told.seen(|s| s.state = State::Absent);
                self.trouble(id, stand, why);
            }
        }
    }

    /// Sets a port up as it is to be, and starts it.
    fn start(
        &self,
        id: u32,
        stand: &mut Stand,
        port: &Port,
    ) -> Result<(Running, Arc<burst::Running>), String> {
        let (setup, made) = match stand.set_up(port) {
            Ok(done) => done,
            // The device that ran before goes on as it did, without what it was told last.
            Err(why) => {
                let Some(mtu) = stand.fall_back() else { return Err(why) };
                let Ok(done) = stand.set_up(port) else {
                    stand.insist(mtu);
                    return Err(why);
                };
                self.refused_mtu(id, mtu, stand.mtu(), &why);
                done
            }
        };
        let ours = Arc::new(burst::Running { port: port.number, pool: Arc::clone(port.pool()) });
        let refused = stand.apply(port);
        refused.into_iter().for_each(|text| self.events.push(id, Event::Say { text }));
        let told = &stand.told;
        let rx: Vec<DpdkRx> = (0..setup.rx_queues)
            .map(|q| DpdkRx::new(&ours, q, stand.interface, setup.interrupts != 0, &told.drops))
            .collect();
        let interrupts = rx.iter().all(DpdkRx::has_interrupt);
        let tx = Senders::new(&ours, setup.tx_queues, made.can, &told.link);
        stand.started(port, &setup, &made, interrupts);
        stand.begins();
        let link = stand.look_at(port, stand.look).unwrap_or(false);
        let rx = rx.into_iter().map(|q| Box::new(q) as Box<dyn RxQueue>).collect();
        Ok((Running { rx, tx, link }, ours))
    }
}
