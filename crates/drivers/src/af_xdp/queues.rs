//! The queues of a device, a socket for each, and how they become more or fewer while packets flow.
//!
//! A socket is bound to one queue of the device, so those that stay are left as they are. New ones have a socket, and buffers to receive
//! into, before the program sends them anything; those that go are taken from the program and emptied before they are closed.

use super::ring::Position;
use super::settings::LINGERS;
use super::socket::{self, Shared};
use super::{Handle, most_held, rx, slots, tx};
use crate::counts::{Drops, RxDrops};
use crate::error::{Error, system};
use crate::grace;
use crate::host::{Resize, check_queues};
use crate::{bpf, netns};
use graph::{Pool, RxQueue, TxQueue};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For how long at most it is waited for a worker, which takes milliseconds: one that hangs must not keep the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked.
const LOOK: Duration = Duration::from_micros(50);

/// What all queues of a device have in common.
pub(super) struct Wanted {
    pub name: String,
    pub netns: Option<String>,
    pub ifindex: u32,
    /// Quiver's index of the interface.
    pub interface: u32,
    pub pool: Arc<Pool>,
    /// Entries of each ring, where they were asked for.
    pub slots: Option<usize>,
    /// Frames may lie in several buffers.
    pub several: bool,
    /// Linux makes the device by itself.
    pub software: bool,
    /// How long a queue may be another's.
    pub patience: Duration,
}

struct Queue {
    shared: Arc<Shared>,
    drops: Arc<Drops>,
    slots: usize,
    /// How far the kernel and the worker are with what came, and with what there is to receive into.
    came: Position,
    filled: Position,
}

/// Transmit queues that no worker has, by their numbers.
type Spare = Vec<(usize, Box<dyn TxQueue>)>;
/// Queues that were made, with those of them that workers poll and send by.
type Made = (Vec<Queue>, Vec<Box<dyn RxQueue>>, Spare);

/// The control side of a device's queues.
pub(super) struct Queues {
    wanted: Wanted,
    /// Those that get packets.
    all: Vec<Queue>,
    /// Those that are to, and do not yet; or did.
    others: Vec<Queue>,
    spare: Spare,
    /// Of those that are to get packets.
    coming: Spare,
    /// How many there are to be.
    count: usize,
    /// Whether there are spare ones, for those that stand in.
    has_spare: Arc<AtomicBool>,
    /// What those dropped that were closed.
    earlier: RxDrops,
}

impl Queue {
    fn drops(&self) -> RxDrops {
        let mut all = self.drops.read();
        if let Some(st) = self.shared.statistics() {
            all.no_buffer += st.rx_fill_ring_empty_descs;
            all.ring_full += st.rx_ring_full;
            // Those without a buffer count there too.
            all.truncated += st.rx_dropped.saturating_sub(st.rx_fill_ring_empty_descs);
        }
        all
    }

    /// Whether what came by now, as the answer says, has been taken out.
    fn is_emptied(&self) -> impl Fn() -> bool {
        let came = self.came.written();
        move || self.shared.gone.load(Ordering::Relaxed) || self.came.is_past(came)
    }
}

/// Waits until something is so, for as long as it may take.
fn wait(until: Instant, is_so: impl Fn() -> bool) {
    while !is_so() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

impl Wanted {
    /// Sockets of these queues with rings of so many slots.
    fn make(
        &mut self,
        queues: Range<usize>,
        slots: usize,
        first: Option<&Shared>,
        held: bool,
    ) -> Result<Made, Error> {
        let netns = self.netns.clone();
        netns::within(netns.as_deref(), || {
            let begin = |w: &Wanted| {
                let wanted = socket::Wanted {
                    name: &w.name,
                    ifindex: w.ifindex,
                    pool: &w.pool,
                    slots: slots as u32,
                    several: w.several,
                    until: Instant::now() + w.patience,
                };
                socket::sockets(&wanted, queues.clone(), first)
            };
            let made = match begin(self) {
                // An older kernel.
                Err(Error::System { cause, .. })
                    if self.several
                        && first.is_none()
                        && matches!(cause.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) =>
                {
                    self.several = false;
                    begin(self)?
                }
                made => made?,
            };
            let (mut all, mut rx, mut tx): (Vec<_>, Vec<Box<dyn RxQueue>>, Spare) = (vec![], vec![], vec![]);
            for (q, number) in made.into_iter().zip(queues) {
                let (shared, drops) = (q.shared, Arc::<Drops>::default());
                shared.held.store(held, Ordering::Release);
                let (came, filled) = (q.rx.position(), q.fill.position());
                all.push(Queue {
                    shared: Arc::clone(&shared),
                    drops: Arc::clone(&drops),
                    slots,
                    came,
                    filled,
                });
                rx.push(Box::new(rx::XdpRx {
                    shared: Arc::clone(&shared),
                    ring: q.rx,
                    fill: q.fill,
                    interface: self.interface,
                    drops,
                    filled: 0,
                    slots: slots as u32,
                    part: None,
                    lost: false,
                    software: self.software,
                    now_ns: 0,
                }));
                let out = tx::Out {
                    shared,
                    ring: q.tx,
                    done: q.done,
                    several: self.several,
                    down: false,
                    posted: 0,
                    control: crate::host::packet_socket(&self.name)?,
                    name: self.name.clone(),
                    scratch: tx::Out::scratch(),
                };
                tx.push((number, Box::new(tx::XdpTx::new(out))));
            }
            Ok((all, rx, tx))
        })
    }
}

impl Queues {
    /// Opens the first ones.
    pub fn open(
        mut wanted: Wanted,
        queues: usize,
        slots: usize,
        map: &OwnedFd,
    ) -> Result<(Queues, Vec<Box<dyn RxQueue>>), Error> {
        let (all, rx, spare) = wanted.make(0..queues, slots, None, false)?;
        let made = Queues {
            wanted,
            all,
            others: vec![],
            spare,
            coming: vec![],
            count: queues,
            has_spare: Arc::default(),
            earlier: RxDrops::default(),
        };
        made.enlist(map, &made.all, 0)?;
        Ok((made, rx))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether frames may lie in several buffers.
    pub fn several(&self) -> bool {
        self.wanted.several
    }

    /// Whether the device is gone.
    pub fn are_gone(&self) -> bool {
        self.all.iter().any(|q| q.shared.gone.load(Ordering::Relaxed))
    }

    /// The first transmit queue that nobody has, and that stays.
    pub fn spare(&mut self) -> Option<Box<dyn TxQueue>> {
        let least = (0..self.spare.len()).min_by_key(|n| self.spare[*n].0);
        let queue = least.filter(|n| self.spare[*n].0 < self.count).map(|n| self.spare.swap_remove(n).1);
        self.tell_spare();
        queue
    }

    /// Tells by and by whether there is one.
    pub fn has_spare(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_spare)
    }

    fn tell_spare(&self) {
        self.has_spare.store(self.spare.iter().any(|s| s.0 < self.count), Ordering::Relaxed);
    }

    /// Packets that were dropped, by queue.
    pub fn each_drops(&self) -> Vec<RxDrops> {
        self.all.iter().map(Queue::drops).collect()
    }

    /// Those of all, also of queues that were closed.
    pub fn drops(&self) -> RxDrops {
        self.all.iter().chain(&self.others).map(Queue::drops).chain([self.earlier]).sum()
    }

    /// Has the program send to queues, of which the first has that number.
    fn enlist(&self, map: &OwnedFd, queues: &[Queue], from: usize) -> Result<(), Error> {
        for (n, q) in queues.iter().enumerate() {
            let at = (from + n) as u32;
            q.shared.enlist(map, at).map_err(system(format!("receive on {}", self.wanted.name)))?;
        }
        Ok(())
    }

    /// Whether queues that go are not to be sent by.
    fn leave(&self, from: usize, leaving: bool) {
        self.all.iter().skip(from).for_each(|q| q.shared.leaving.store(leaving, Ordering::Relaxed));
    }
}

/// Has the program send nothing more to queues.
fn strike(map: &OwnedFd, queues: Range<usize>) {
    // One that is not there has been closed.
    queues.for_each(|at| _ = bpf::take_socket(map, at as u32));
}

impl Resize for Handle {
    fn staying(&self, queues: usize) -> usize {
        queues.min(self.queues.len())
    }

    fn open(&mut self, queues: usize) -> Result<Vec<Box<dyn RxQueue>>, Error> {
        let Handle { queues: q, tuned, .. } = self;
        let (name, have) = (&q.wanted.name, q.len());
        check_queues(name, "receive", queues)?;
        if queues <= have {
            // Workers send by others first.
            q.count = queues;
            q.leave(queues, true);
            q.tell_spare();
            return Ok(vec![]);
        }
        let buffers = q.wanted.pool.count();
        let slots = slots(q.wanted.slots, queues, buffers);
        let held: usize = q.all.iter().map(|q| q.slots).sum();
        let (need, most) = (held + slots * (queues - have), most_held(buffers));
        if need > most {
            return Err(Error::Buffers { name: name.clone(), need, buffers, most });
        }
        tuned.make_room(queues)?;
        let first = q.all.first().map(|q| Arc::clone(&q.shared));
        let rx;
        (q.others, rx, q.coming) = q.wanted.make(have..queues, slots, first.as_deref(), true)?;
        q.count = queues;
        Ok(rx)
    }

    fn turn(&mut self) -> Result<(), Error> {
        let Handle { queues: q, tuned, program, .. } = self;
        let (have, count, until) = (q.len(), q.count, Instant::now() + PATIENCE);
        if count < have {
            strike(&program.sockets, count..have);
            grace::processors();
            q.others = q.all.split_off(count);
            q.others.iter().for_each(|q| wait(until, q.is_emptied()));
            return Ok(());
        }
        q.others.iter().for_each(|q| wait(until, || q.filled.written() != 0));
        let shown = q.enlist(&program.sockets, &q.others, have);
        let shown = shown.and_then(|()| tuned.receive_by(count, Duration::ZERO)).and_then(|()| {
            let renew = || program.renew().map_err(system(format!("receive on {}", q.wanted.name)));
            if q.wanted.software { renew() } else { Ok(()) }
        });
        if let Err(e) = shown {
            strike(&program.sockets, have..count);
            return Err(e);
        }
        grace::processors();
        q.all.iter().for_each(|q| wait(until, q.is_emptied()));
        q.all.append(&mut q.others);
        q.spare.append(&mut q.coming);
        q.tell_spare();
        Ok(())
    }

    fn settled(&mut self) {
        self.queues.all.iter().for_each(|q| q.shared.held.store(false, Ordering::Release));
    }

    fn close(&mut self) -> Result<(), Error> {
        let Handle { queues: q, tuned, .. } = self;
        q.count = q.all.len();
        q.leave(0, false);
        for closed in q.others.drain(..) {
            q.earlier = [q.earlier, closed.drops()].into_iter().sum();
        }
        q.coming.clear();
        q.spare.retain(|s| s.0 < q.count);
        q.tell_spare();
        tuned.receive_by(q.count, LINGERS)
    }
}
