//! A queue of a port: bursts of packets over it, and where their buffers are meanwhile.
#![allow(unsafe_code)]
// Upholds: a port runs as long as its queues are there; each queue is used by one thread at a time, with buffers that nobody else uses
// during a call.

use super::abi::{BURST, CHAIN, Lane, Piece};
use super::pool::{SharedPool, from};
use graph::Buffers;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A port that has been started: it is stopped when nobody but its thread holds this.
pub struct Running {
    /// Its number.
    pub port: u16,
    /// Where its buffers come from.
    pub pool: Arc<SharedPool>,
}

/// One queue of it.
pub struct Queue {
    running: Arc<Running>,
    number: u16,
    lane: Box<Lane>,
}

// SAFETY: the lane's pointers are the shared pool's, and the worker's buffers only during a call.
unsafe impl Send for Queue {}

/// Most pieces of a burst that is received.
pub const RECEIVED: usize = BURST * CHAIN;

impl Queue {
    /// A queue of a port that runs.
    pub fn new(running: &Arc<Running>, number: u16) -> Queue {
        Queue { running: Arc::clone(running), number, lane: running.pool.lane() }
    }

    /// Receives up to `most` packets; how many pieces they have, and how many packets made no sense. All of them are the caller's.
    #[inline]
    pub fn receive(
        &mut self,
        buffers: &mut Buffers,
        pieces: &mut [Piece; RECEIVED],
        most: usize,
    ) -> (usize, u32) {
        let mut lost = 0;
        let api = self.running.pool.library().api;
        self.lane.owner = std::ptr::from_mut(buffers).cast();
        // SAFETY: the port runs; the lane, the pieces with their room, and the buffers behind the lane are there during the call.
        let n = unsafe {
            (api.rx)(
                self.running.port,
                self.number,
                &mut *self.lane,
                pieces.as_mut_ptr(),
                most as u32,
                &mut lost,
            )
        };
        self.settle(buffers, 0, n);
        (n as usize, lost)
    }

    /// Sends packets; how many of them were taken, and whether the next one is at fault. The others stay the caller's.
    #[inline]
    pub fn send(
        &mut self,
        buffers: &mut Buffers,
        pieces: &[Piece],
        took: impl Fn(usize) -> usize,
    ) -> (usize, bool) {
        let mut bad = 0;
        let api = self.running.pool.library().api;
        self.lane.owner = std::ptr::from_mut(buffers).cast();
        // SAFETY: as above.
        let n = unsafe {
            (api.tx)(
                self.running.port,
                self.number,
                &mut *self.lane,
                pieces.as_ptr(),
                pieces.len() as u32,
                &mut bad,
            )
        } as usize;
        self.settle(buffers, took(n) as u32, 0);
        (n, bad != 0)
    }

    /// Takes back what the device has let go of, and counts what it has: `sent` buffers more, `received` fewer.
    #[inline]
    fn settle(&mut self, buffers: &mut Buffers, sent: u32, received: u32) {
        let lane = &mut *self.lane;
        if lane.count != 0 {
            let list = &lane.list[..(lane.count as usize).min(lane.list.len())];
            buffers.free_each(list.iter().map(|b| from(*b)));
            lane.count = 0;
        }
        let (more, less) = (lane.taken.wrapping_add(sent), lane.given.wrapping_add(received));
        (lane.taken, lane.given) = (0, 0);
        if more != less {
            self.running.pool.pool().lend_more(more as isize - less as isize);
        }
    }

    /// A descriptor that tells of packets, where the device has one.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        let api = self.running.pool.library().api;
        // SAFETY: the port runs.
        let fd = unsafe { (api.rx_fd)(self.running.port, self.number) };
        // SAFETY: a descriptor that was just made for this.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Has the device tell of packets, or no more; false where it does all the time.
    pub fn arm(&self, fd: &OwnedFd, on: bool) -> bool {
        let (api, fd): (_, RawFd) = (self.running.pool.library().api, fd.as_raw_fd());
        // SAFETY: the port runs, and the descriptor is this queue's.
        let answer = unsafe { (api.rx_arm)(self.running.port, self.number, fd, i32::from(on)) };
        answer != -libc::ENOTSUP
    }

    /// Whether packets wait; nothing where the device cannot tell.
    pub fn waiting(&self) -> Option<bool> {
        let api = self.running.pool.library().api;
        // SAFETY: the port runs.
        let n = unsafe { (api.rx_waiting)(self.running.port, self.number) };
        (n >= 0).then_some(n > 0)
    }
}
