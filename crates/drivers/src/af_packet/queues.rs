//! The receive queues of a device: one socket, or several that share its packets by a hash of Linux's (`PACKET_FANOUT`).
//!
//! Where their number changes others take their place, as a group of their own. No flow is overtaken: the new ones are not read before
//! the old ones are empty.

use super::ring::{Progress, Ring};
use super::rx::PacketRx;
use super::turn::Turn;
use super::{RingVersion, option, receive_socket};
use crate::counts::{Drops, RxDrops};
use crate::error::{Error, privileged, system};
use crate::host::{Resize, check_queues};
use crate::linux::*;
use crate::sys::{self, RxArrays, Statistics};
use crate::{grace, netns};
use graph::RxQueue;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For how long at most queues wait until others are empty: workers empty them in milliseconds, and one that hangs must not keep the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked.
const LOOK: Duration = Duration::from_micros(50);

/// What all sockets of a device have in common.
pub(super) struct Wanted {
    pub name: String,
    pub netns: Option<String>,
    pub ifindex: i32,
    /// Quiver's index of the interface.
    pub interface: u32,
    pub ring: RingVersion,
    pub slot: usize,
    pub slots: usize,
    pub gone: Arc<AtomicBool>,
}

struct Queue {
    socket: Arc<OwnedFd>,
    drops: Arc<Drops>,
    progress: Arc<Progress>,
}

/// The control side of a device's receive queues.
pub(super) struct Queues {
    wanted: Wanted,
    /// Those that get packets.
    all: Vec<Queue>,
    /// Those that are to, and do not yet; or did.
    others: Vec<Queue>,
    /// While one takes over from the other.
    turn: Option<Turn>,
    /// What those dropped that were closed.
    earlier: RxDrops,
}

impl Queues {
    /// Opens the first ones.
    pub fn open(wanted: Wanted, queues: usize) -> Result<(Queues, Vec<Box<dyn RxQueue>>), Error> {
        let made = wanted.sockets(queues)?;
        for (socket, _) in &made {
            sys::reject_all(socket, false).map_err(system(format!("receive on {}", wanted.name)))?;
        }
        let (all, rx) = wanted.queues(made, false);
        Ok((Queues { wanted, all, others: vec![], turn: None, earlier: RxDrops::default() }, rx))
    }

    /// Whether their number may be changed while packets flow. The blocks of the other ring do not tell how far they are filled.
    pub fn can_be_resized(&self) -> bool {
        self.wanted.ring == RingVersion::V2
    }

    /// Packets that were dropped, by queue.
    pub fn each_drops(&self) -> Vec<RxDrops> {
        self.all.iter().map(Queue::drops).collect()
    }

    /// Those of all, also of queues that were closed.
    pub fn drops(&self) -> RxDrops {
        self.all.iter().chain(&self.others).map(Queue::drops).chain([self.earlier]).sum()
    }
}

impl Queue {
    fn drops(&self) -> RxDrops {
        let mut st = Statistics::default();
        // Linux begins anew each time.
        if sys::getsockopt(&*self.socket, SOL_PACKET, PACKET_STATISTICS, &mut st).is_ok() {
            self.drops.add_ring_full(u64::from(st.drops));
        }
        self.drops.read()
    }
}

impl Wanted {
    /// Sockets that reject every packet.
    fn sockets(&self, count: usize) -> Result<Vec<(OwnedFd, Ring)>, Error> {
        let need = (count * self.slots * self.slot) >> 20;
        if let Some(have) = graph::buffer::available_mib().filter(|have| need > *have) {
            return Err(Error::Memory { name: self.name.clone(), need, have });
        }
        let made: Result<Vec<_>, Error> = netns::within(self.netns.as_deref(), || {
            (0..count)
                .map(|_| receive_socket(&self.name, self.ifindex, self.ring, self.slot, self.slots))
                .collect()
        });
        let made = made?;
        if made.len() > 1 {
            self.share(&made)?;
        }
        Ok(made)
    }

    fn queues(&self, made: Vec<(OwnedFd, Ring)>, held: bool) -> (Vec<Queue>, Vec<Box<dyn RxQueue>>) {
        let mut rx: Vec<Box<dyn RxQueue>> = vec![];
        let queue = |(socket, ring): (OwnedFd, Ring)| {
            let (socket, drops, progress) =
                (Arc::new(socket), Arc::<Drops>::default(), Arc::new(ring.progress()));
            progress.hold(held);
            rx.push(Box::new(PacketRx {
                ring,
                socket: Arc::clone(&socket),
                interface: self.interface,
                arrays: RxArrays::new(64),
                drops: Arc::clone(&drops),
                gone: Arc::clone(&self.gone),
                progress: Arc::clone(&progress),
            }));
            Queue { socket, drops, progress }
        };
        let all = made.into_iter().map(queue).collect();
        (all, rx)
    }

    /// Has sockets share the packets.
    fn share(&self, sockets: &[(OwnedFd, Ring)]) -> Result<(), Error> {
        let ignoring = PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        match group(sockets, ignoring) {
            // Before Linux 5.14.
            Err((0, cause)) if cause.raw_os_error() == Some(libc::EINVAL) => {
                group(sockets, PACKET_FANOUT_HASH)
            }
            other => other,
        }
        .map_err(|(_, cause)| {
            let hint = match cause.raw_os_error() {
                Some(libc::EINVAL) => " (older kernels want the device to be up)",
                _ => "",
            };
            Error::System { what: format!("share {} between receive queues{hint}", self.name), cause }
        })
    }
}

/// Makes a group of sockets; else how many had joined, and why no more.
fn group(sockets: &[(OwnedFd, Ring)], kind: u32) -> Result<(), (usize, io::Error)> {
    let mut group = (kind | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
    for (joined, (socket, _)) in sockets.iter().enumerate() {
        sys::setsockopt(socket, SOL_PACKET, PACKET_FANOUT, &group).map_err(|e| (joined, e))?;
        let mut id = 0u32;
        sys::getsockopt(socket, SOL_PACKET, PACKET_FANOUT, &mut id).map_err(|e| (joined + 1, e))?;
        group = kind << 16 | (id & 0xffff);
    }
    Ok(())
}

impl Resize for Queues {
    fn open(&mut self, queues: usize) -> Result<Vec<Box<dyn RxQueue>>, Error> {
        let name = &self.wanted.name;
        check_queues(name, "receive", queues)?;
        let may = format!("changing the number of receive queues of {name}");
        let turn = Turn::load().map_err(privileged(may, "CAP_BPF"))?;
        let made = self.wanted.sockets(queues)?;
        turn.attach(made.iter().map(|(s, _)| s), self.all.iter().map(|q| &*q.socket))
            .map_err(option(name, "a filter"))?;
        let rx;
        (self.others, rx) = self.wanted.queues(made, true);
        self.turn = Some(turn);
        Ok(rx)
    }

    fn turn(&mut self) -> Result<(), Error> {
        let Some(turn) = &self.turn else { return Ok(()) };
        turn.make().map_err(option(&self.wanted.name, "a filter"))?;
        std::mem::swap(&mut self.all, &mut self.others);
        grace::processors();
        let end = Instant::now() + PATIENCE;
        for q in &self.others {
            let mark = q.progress.mark();
            while !q.progress.is_past(mark)
                && !self.wanted.gone.load(Ordering::Relaxed)
                && Instant::now() < end
            {
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    fn settled(&mut self) {
        self.all.iter().for_each(|q| q.progress.hold(false));
    }

    fn close(&mut self) -> Result<(), Error> {
        self.turn = None;
        for q in self.others.drain(..) {
            self.earlier = [self.earlier, q.drops()].into_iter().sum();
        }
        for q in &self.all {
            // Without it all comes as well.
            let _ = sys::reject_all(&q.socket, false);
        }
        Ok(())
    }
}
