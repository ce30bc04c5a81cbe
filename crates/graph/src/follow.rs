//! Traces that somebody follows: workers append what nodes did with packets to a queue of bounded size, which one reader
//! empties. What finds no room is lost, and counted.

use crate::desc::Desc;
pub use crate::mark::Mark;
use crate::mark::NUMBERS;
use crate::record::{RECORDS_A_PACKET, TraceRecord};
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Traces that can be followed at once: each has a bit of a [`Mark`].
pub const MOST_FOLLOWED: usize = 8;
/// So many numbers back, a packet is no more one of a trace that is followed: it is of one that used the same bit before.
const OLD: u32 = 1 << 22;

/// A trace that is followed; all workers append, and one reader takes.
pub struct Follow {
    /// Only packets that came on this interface.
    interface: Option<u32>,
    /// Packets that are still to be traced.
    left: AtomicU64,
    steps: ArrayQueue<Followed>,
    lost: AtomicU64,
    missed: AtomicU64,
    ended: AtomicBool,
}

/// What a node of a worker did with a packet.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// The worker.
    pub worker: u16,
    /// With a number of the packet that is the worker's own for it.
    pub record: TraceRecord,
}

impl Follow {
    /// A trace of `count` packets, of those that came on one interface or of all, with room for so many steps.
    pub fn new(interface: Option<u32>, count: u64, steps: usize) -> Follow {
        Follow {
            interface,
            left: AtomicU64::new(count),
            steps: ArrayQueue::new(steps.max(1)),
            lost: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// The interface that it is about, if it is about one.
    pub fn interface(&self) -> Option<u32> {
        self.interface
    }

    /// Reader: the next step, in the order in which a worker made them.
    pub fn take(&self) -> Option<Followed> {
        self.steps.pop()
    }

    /// Packets that came and are not traced, as nobody took what was there.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Steps of traced packets that found no room.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Acquire)
    }

    /// Whether as many packets were traced as were asked for.
    pub fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Its interface is gone: no packet comes any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether that is so.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Packets for which there is room.
    fn room(&self) -> usize {
        (self.steps.capacity() - self.steps.len()) / RECORDS_A_PACKET
    }

    fn take_one(&self) -> bool {
        self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    }
}

/// A trace that is followed, as one worker sees it.
#[derive(Clone)]
struct Slot {
    follow: Arc<Follow>,
    worker: u16,
    /// The first number of a packet that may be of it: a packet that waits somewhere may have a bit of another trace, which is over.
    since: Arc<AtomicU32>,
}

impl Slot {
    fn is_since(&self, number: u32) -> bool {
        number.wrapping_sub(self.since.load(Ordering::Relaxed)) & NUMBERS <= NUMBERS / 2
    }

    /// Worker: a packet with this number begins; numbers that are far back are no more of this trace.
    fn go_on(&self, number: u32) {
        if number.wrapping_sub(self.since.load(Ordering::Relaxed)) & NUMBERS > 2 * OLD - 1 {
            self.since.store(number.wrapping_sub(OLD) & NUMBERS, Ordering::Relaxed);
        }
    }
}

/// The traces that are followed, as one worker sees them.
#[derive(Clone, Default)]
pub(crate) struct Slots([Option<Slot>; MOST_FOLLOWED]);

impl Slots {
    /// Control side: the same with another in a free place, whose packets have numbers from `since` on.
    pub fn with(&self, slot: usize, worker: u16, since: u32, follow: &Arc<Follow>) -> Slots {
        let mut slots = self.clone();
        if let Some(place) = slots.0.get_mut(slot) {
            let since = Arc::new(AtomicU32::new(since & NUMBERS));
            *place = Some(Slot { follow: Arc::clone(follow), worker, since });
        }
        slots
    }

    /// Control side: the same with a place free.
    pub fn without(&self, slot: usize) -> Slots {
        let mut slots = self.clone();
        if let Some(place) = slots.0.get_mut(slot) {
            *place = None;
        }
        slots
    }

    fn some(&self, bits: u8) -> impl Iterator<Item = (usize, &Slot)> {
        let all = self.0.iter().enumerate().filter(move |(n, _)| bits & 1 << n != 0);
        all.filter_map(|(n, s)| s.as_ref().map(|s| (n, s)))
    }

    /// Worker: how many packets may begin, by place.
    pub fn room(&self, bits: u8) -> [usize; MOST_FOLLOWED] {
        let mut room = [0; MOST_FOLLOWED];
        self.some(bits).for_each(|(n, s)| room[n] = s.follow.room());
        room
    }

    /// Worker: the mark of a packet that comes to where these places wait for packets. `next` is the number of the next packet that
    /// has none.
    pub fn begin(
        &self,
        bits: u8,
        room: &mut [usize; MOST_FOLLOWED],
        d: &Desc,
        was: Mark,
        next: &AtomicU32,
    ) -> Mark {
        let fresh = next.load(Ordering::Relaxed) & NUMBERS;
        let number = if was.slots() == 0 { fresh } else { was.number() };
        let mut taken = 0;
        for (n, slot) in self.some(bits & !was.slots()) {
            let follow = &slot.follow;
            if follow.interface.is_some_and(|i| i != d.rx) || follow.is_over() {
                continue;
            }
            // A packet of another trace that was on its way already has a number of before.
            if number != fresh && !slot.is_since(number) {
                continue;
            }
            let Some(left) = room[n].checked_sub(1) else {
                follow.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if follow.take_one() {
                room[n] = left;
                taken |= 1 << n;
                slot.go_on(number);
            }
        }
        if taken == 0 {
            return was;
        }
        if was.slots() == 0 {
            next.store(fresh.wrapping_add(1) & NUMBERS, Ordering::Relaxed);
            // Also those that take nothing now: what they began with is too long ago some time.
            self.some(u8::MAX).for_each(|(_, slot)| slot.go_on(fresh));
        }
        was.with(taken, number)
    }

    /// Worker: appends a step to the traces in which the packet is.
    pub fn append(&self, mark: Mark, record: &TraceRecord) {
        for (_, slot) in self.some(mark.slots()).filter(|(_, s)| s.is_since(mark.number())) {
            let step = Followed { worker: slot.worker, record: TraceRecord { id: mark.number(), ..*record } };
            if slot.follow.steps.push(step).is_err() {
                slot.follow.missed.fetch_add(1, Ordering::Release);
            }
        }
    }
}
