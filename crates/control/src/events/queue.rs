//! What waits for a follower.

use super::what::{Counts, Event, Kind, Wanted, What};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Events that wait for a follower; more are lost.
pub(super) const MOST: usize = 4096;
/// Where so many wait, no further piece of what there is is made.
const ENOUGH: usize = MOST / 2;

/// Some kinds, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(pub u8);

impl FromIterator<Kind> for Kinds {
    fn from_iter<T: IntoIterator<Item = Kind>>(kinds: T) -> Self {
        Kinds(kinds.into_iter().fold(0, |all, k| all | Kinds::of(k).0))
    }
}

impl Kinds {
    fn of(kind: Kind) -> Kinds {
        Kinds(1 << kind as u8)
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 & Kinds::of(kind).0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of them that have a state.
    pub fn states(self) -> Kinds {
        Kind::ALL.into_iter().filter(|k| k.is_state() && self.has(*k)).collect()
    }

    pub fn add(&mut self, others: Kinds) {
        self.0 |= others.0;
    }

    /// The first of them, which is taken out.
    pub fn take_first(&mut self) -> Option<Kind> {
        let first = Kind::ALL.into_iter().find(|k| self.has(*k))?;
        self.0 &= !Kinds::of(first).0;
        Some(first)
    }
}

/// What a follower is told next.
#[derive(Clone, Debug)]
pub enum Told {
    /// This.
    Event(Arc<Event>),
    /// So many events of each kind are lost here. Kinds that have a state are told anew from here to their next mark, where some
    /// of them was lost.
    Gap(Counts),
}

/// What waits for a follower, in order. Any thread may put something in; one takes it out.
pub struct Queue {
    pub(super) wanted: Wanted,
    state: Mutex<State>,
    /// There is something to be told.
    told: Notify,
    /// There may be room for a piece of what there is, or it is to be told anew.
    room: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<Arc<Event>>,
    /// Behind these events others were lost: all since.
    lost: Option<Counts>,
    /// Kinds that are to be told as a whole.
    anew: Kinds,
    closed: bool,
}

/// Whether a piece of what there is may be made.
pub(super) enum Room {
    /// Nobody follows any more.
    Closed,
    /// Not now.
    None,
    /// Yes; these kinds are to be told from their beginning.
    Some(Kinds),
}

impl Queue {
    pub(super) fn new(wanted: Wanted) -> Queue {
        let state = State { anew: wanted.kinds.states(), ..State::default() };
        Queue { wanted, state: Mutex::new(state), told: Notify::new(), room: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what is made behind the others, or counts it where there is no room.
    pub(super) fn put(&self, kind: Kind, make: impl FnOnce() -> Option<Arc<Event>>) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        if state.lost.is_some() || state.events.len() >= MOST {
            let lost = state.lost.get_or_insert_default();
            if let Some(n) = lost.get_mut(kind as usize) {
                *n += 1;
            }
            return;
        }
        state.events.extend(make());
        drop(state);
        self.told.notify_one();
    }

    /// Puts something in that is for this follower alone.
    pub fn tell(&self, what: What) {
        self.put(what.kind(), || Some(Arc::new(Event::now(what))));
    }

    /// What is told next; waits for it.
    pub async fn next(&self) -> Told {
        loop {
            if let Some(told) = self.take() {
                return told;
            }
            self.told.notified().await;
        }
    }

    fn take(&self) -> Option<Told> {
        let mut state = self.state();
        let (told, room) = match state.events.pop_front() {
            Some(event) => (Told::Event(event), state.events.len() == ENOUGH),
            None => {
                let lost = state.lost.take()?;
                let of = |k: &Kind| lost.get(*k as usize).is_some_and(|n| *n != 0);
                let kinds: Kinds = Kind::ALL.into_iter().filter(of).collect();
                state.anew.add(kinds.states());
                (Told::Gap(lost), true)
            }
        };
        drop(state);
        if room {
            self.room.notify_one();
        }
        Some(told)
    }

    pub(super) fn room(&self) -> Room {
        let mut state = self.state();
        match () {
            () if state.closed => Room::Closed,
            () if state.lost.is_some() || state.events.len() > ENOUGH => Room::None,
            () => Room::Some(std::mem::take(&mut state.anew)),
        }
    }

    pub(super) async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.room.notify_one();
    }
}
