//! An index to objects that never change: readers follow one pointer, the writer swaps it.
//!
//! Upholds: a pointer in a slot is that of an object in the slab, which is dropped once, after `reclaim` was
//! told that no guard from before its removal is left, or when the last owner of the table goes.
#![allow(unsafe_code)]

use crate::error::TableFull;
use crate::mem::Array;
use crate::retire::Retired;
use crate::slab::Slab;
use std::collections::HashSet;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};

/// The most slots a table can have.
pub const MAX_SLOTS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 22 };

/// Shows that its thread is between two quiescent states.
///
/// # Safety
/// While a shared borrow of the guard is alive, no writer's `reclaim` frees what was taken out of a
/// table after the guard's thread last said that it holds nothing.
pub unsafe trait Guard {}

// SAFETY: a worker lends its guard out only between two quiescent states.
unsafe impl Guard for graph::Guard {}

/// What readers see: slots by number.
pub struct Slots<T> {
    /// Null where a slot is empty.
    slots: Array<AtomicPtr<T>>,
    /// Slots that were ever given out.
    used: AtomicU32,
    /// What a writer that went away had retired; it lives as long as the table.
    left: Mutex<Left<T>>,
}

/// What a writer leaves behind: objects that readers may still hold, and the memory of all.
type Left<T> = (Vec<Object<T>>, Option<Slab<T>>);

/// An object taken out of a slot.
struct Object<T>(NonNull<T>);

// SAFETY: it owns a `T`.
unsafe impl<T: Send> Send for Object<T> {}

/// Changes the slots. One thread owns it.
pub struct SlotsWriter<T> {
    shared: Arc<Slots<T>>,
    /// Slots that were ever given out.
    used: u32,
    limit: u32,
    slab: Slab<T>,
    free: Vec<u32>,
    retired: Retired<(Option<u32>, Object<T>)>,
    /// Slots that are empty for the writer and not yet for readers.
    leaving: Retired<u32>,
    is_leaving: HashSet<u32>,
    count: usize,
}

impl<T: Send + Sync> Slots<T> {
    /// No slots, and at most `limit` of them later (at most [`MAX_SLOTS`]).
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn new(limit: usize) -> io::Result<(SlotsWriter<T>, Arc<Slots<T>>)> {
        let limit = limit.clamp(1, MAX_SLOTS);
        let shared = Arc::new(Slots {
            slots: Array::reserve(limit)?,
            used: AtomicU32::new(0),
            left: Mutex::new((Vec::new(), None)),
        });
        let writer = SlotsWriter {
            shared: shared.clone(),
            used: 0,
            limit: limit as u32,
            slab: Slab::new(),
            free: Vec::new(),
            retired: Retired::new(),
            leaving: Retired::new(),
            is_leaving: HashSet::new(),
            count: 0,
        };
        Ok((writer, shared))
    }

    /// The object in a slot, for as long as the guard holds.
    #[inline(always)]
    pub fn get<'g, G: Guard>(&'g self, index: u32, guard: &'g G) -> Option<&'g T> {
        self.reader(guard).get(index)
    }

    /// The slots for as long as the guard holds, for many lookups.
    #[inline(always)]
    pub fn reader<'g, G: Guard>(&'g self, _guard: &'g G) -> SlotsReader<'g, T> {
        SlotsReader { slots: &self.slots }
    }
}

/// The slots while a guard holds.
pub struct SlotsReader<'g, T> {
    slots: &'g [AtomicPtr<T>],
}

impl<T> Clone for SlotsReader<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotsReader<'_, T> {}

impl<'g, T> SlotsReader<'g, T> {
    /// Brings the object in a slot near.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        let object = self.slots.get(index as usize).map_or(null_mut(), |s| s.load(Acquire));
        graph::prefetch(object);
    }

    /// Where the object in a slot is, to bring parts of it near; null where there is none.
    #[inline(always)]
    pub fn at(&self, index: u32) -> *const T {
        self.slots.get(index as usize).map_or(null_mut(), |s| s.load(Acquire))
    }

    /// The object in a slot.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&'g T> {
        let object = self.slots.get(index as usize)?.load(Acquire);
        // SAFETY: null, or an object that `reclaim` leaves alone while the guard is borrowed.
        unsafe { object.as_ref() }
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        // Slots are given out from the first, so that the first that was never used ends them.
        for slot in &self.slots[..self.used.load(Acquire) as usize] {
            if let Some(object) = NonNull::new(slot.swap(null_mut(), Acquire)) {
                // SAFETY: what stands in a slot is owned by it, and this was the last owner of the slots.
                unsafe { object.drop_in_place() };
            }
        }
        for object in self.left.get_mut().unwrap_or_else(PoisonError::into_inner).0.drain(..) {
            // SAFETY: taken out of a slot, which nobody reads any more.
            unsafe { object.0.drop_in_place() };
        }
    }
}

impl<T: Send + Sync> SlotsWriter<T> {
    /// What workers read.
    pub fn shared(&self) -> &Arc<Slots<T>> {
        &self.shared
    }

    /// Puts an object into a free slot and answers the slot's number: the lowest ones are given out first,
    /// and a number is given out again only after its last object was reclaimed.
    pub fn insert(&mut self, object: T) -> Result<u32, TableFull> {
        let index = match self.free.pop() {
            Some(i) => i,
            None if self.used < self.limit => {
                self.used += 1;
                self.shared.used.store(self.used, Release);
                self.used - 1
            }
            None => {
                let size = size_of::<T>();
                let (used, limit) = (self.used as usize * size, self.limit as usize * size);
                return Err(TableFull { table: "slots", used, limit });
            }
        };
        let object = self.slab.put(object);
        self.swap(index, object.as_ptr());
        self.count += 1;
        Ok(index)
    }

    /// Puts another object into a slot in use. Answers whether the slot is in use.
    pub fn replace(&mut self, index: u32, object: T) -> bool {
        if self.get(index).is_none() {
            return false;
        }
        let object = self.slab.put(object);
        if let Some(old) = self.swap(index, object.as_ptr()) {
            self.retired.push((None, old));
        }
        true
    }

    /// Empties a slot. Answers whether it was in use.
    pub fn remove(&mut self, index: u32) -> bool {
        if self.get(index).is_none() {
            return false;
        }
        if let Some(old) = self.swap(index, null_mut()) {
            self.retired.push((Some(index), old));
            self.count -= 1;
        }
        true
    }

    /// Empties a slot for the writer, and for readers once none is left that may have its number from before: whoever
    /// has read a reference to the slot finds the object. Answers whether it was in use.
    pub fn remove_late(&mut self, index: u32) -> bool {
        if self.get(index).is_none() {
            return false;
        }
        self.is_leaving.insert(index);
        self.leaving.push(index);
        self.count -= 1;
        true
    }

    /// The object in a slot.
    pub fn get(&self, index: u32) -> Option<&T> {
        if self.is_leaving.contains(&index) {
            return None;
        }
        let object = self.shared.slots.get(index as usize)?.load(Acquire);
        // SAFETY: only `self` changes slots and frees objects, by a mutable borrow.
        unsafe { object.as_ref() }
    }

    /// All slots in use.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        (0..self.used).filter_map(|i| Some((i, self.get(i)?)))
    }

    /// How many slots are in use.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Stamps with `epoch` what is taken out from now on, and frees what was taken out before epoch `safe`.
    ///
    /// # Safety
    /// `epoch` is the current one. No guard that is alive was made, and none is still used, from before all of what was
    /// stamped with an epoch below `safe` was taken out: every worker has passed `safe`.
    pub unsafe fn reclaim(&mut self, epoch: u64, safe: u64) {
        self.retired.set_epoch(epoch);
        self.leaving.set_epoch(epoch);
        while let Some((index, object)) = self.retired.pop(safe) {
            // SAFETY: it came from this slab, and by the caller's condition nobody reads it any more.
            unsafe {
                object.0.drop_in_place();
                self.slab.take_back(object.0);
            }
            self.free.extend(index);
        }
        while let Some(index) = self.leaving.pop(safe) {
            self.is_leaving.remove(&index);
            if let Some(old) = self.swap(index, null_mut()) {
                self.retired.push((Some(index), old));
            }
        }
    }

    /// Objects that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.retired.len() + self.leaving.len()
    }

    fn swap(&self, index: u32, object: *mut T) -> Option<Object<T>> {
        let old = self.shared.slots.get(index as usize)?.swap(object, AcqRel);
        NonNull::new(old).map(Object)
    }
}

impl<T> Drop for SlotsWriter<T> {
    fn drop(&mut self) {
        // Readers may still hold these: leave them to the last owner of the table.
        let mut left = self.shared.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.0.extend(self.retired.drain().map(|(_, object)| object));
        left.1 = Some(std::mem::replace(&mut self.slab, Slab::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Clock, Stop};
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    struct Here;
    // SAFETY: these tests reclaim only what all readers have passed.
    unsafe impl Guard for Here {}

    #[test]
    fn slots_are_given_out_again_after_their_epoch() {
        let (mut w, t) = Slots::<String>::new(3).unwrap();
        let (a, b) = (w.insert("a".into()).unwrap(), w.insert("b".into()).unwrap());
        assert_eq!((a, b, w.len()), (0, 1, 2));
        assert_eq!(t.get(a, &Here).map(String::as_str), Some("a"));
        assert!(t.get(2, &Here).is_none() && t.get(u32::MAX, &Here).is_none());
        // SAFETY: no reader.
        unsafe { w.reclaim(4, 0) };
        assert!(w.replace(b, "c".into()) && w.remove(a) && !w.remove(a) && !w.replace(a, "x".into()));
        assert_eq!(w.insert("d".into()), Ok(2));
        assert_eq!(w.insert("e".into()).map_err(|e| e.table), Err("slots"));
        // SAFETY: no reader.
        unsafe { w.reclaim(4, 4) };
        assert_eq!(w.retired(), 2);
        // SAFETY: no reader.
        unsafe { w.reclaim(5, 5) };
        assert_eq!((w.retired(), w.insert("e".into())), (0, Ok(0)));
        let all: Vec<_> = w.iter().map(|(i, s)| (i, s.as_str())).collect();
        assert_eq!(all, [(0, "e"), (1, "c"), (2, "d")]);
    }

    #[test]
    fn who_has_the_number_of_a_slot_from_before_finds_its_object() {
        let (mut w, t) = Slots::<String>::new(2).unwrap();
        let a = w.insert("a".into()).unwrap();
        // SAFETY: no reader holds a reference over any of these calls.
        let pass = |w: &mut SlotsWriter<String>, epoch, safe| unsafe { w.reclaim(epoch, safe) };
        pass(&mut w, 4, 4);
        assert!(w.remove_late(a) && !w.remove_late(a) && !w.remove(a) && !w.replace(a, "x".into()));
        assert!(w.get(a).is_none() && w.iter().next().is_none() && w.is_empty());
        assert_eq!(w.insert("b".into()), Ok(1), "the slot is not given out");
        pass(&mut w, 5, 4);
        assert_eq!(t.get(a, &Here).map(String::as_str), Some("a"), "a reader of epoch 4 may come yet");
        pass(&mut w, 6, 5);
        assert!(t.get(a, &Here).is_none());
        assert_eq!(
            (w.retired(), w.insert("c".into()).is_err()),
            (1, true),
            "a reader of epoch 6 may hold the object"
        );
        pass(&mut w, 7, 6);
        assert_eq!(w.retired(), 1);
        pass(&mut w, 7, 7);
        assert_eq!((w.retired(), w.insert("c".into())), (0, Ok(a)));
        assert_eq!(t.get(a, &Here).map(String::as_str), Some("c"));
    }

    #[test]
    fn every_object_is_freed_once() {
        static LIVE: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                LIVE.fetch_sub(1, SeqCst);
            }
        }
        let make = || {
            LIVE.fetch_add(1, SeqCst);
            Counted
        };
        let (mut w, t) = Slots::new(MAX_SLOTS).unwrap();
        const MANY: usize = 1000;
        for _ in 0..MANY + 100 {
            w.insert(make()).unwrap();
        }
        for i in 0..50 {
            w.remove(i);
            w.replace(50 + i, make());
        }
        // SAFETY: no reader.
        unsafe { w.reclaim(1, 1) };
        assert_eq!(LIVE.load(SeqCst), MANY + 50);
        w.remove(MANY as u32 + 50);
        w.remove_late(MANY as u32 + 51);
        drop(w);
        assert_eq!(LIVE.load(SeqCst), MANY + 50, "what readers may hold stays");
        drop(t);
        assert_eq!(LIVE.load(SeqCst), 0);
    }

    #[test]
    fn readers_see_whole_objects() {
        let clock = Clock::new(2);
        let (mut w, t) = Slots::<[u32; 16]>::new(10).unwrap();
        let mut at = 0;
        clock.step(|n| at = w.insert([n; 16]).unwrap());
        std::thread::scope(|s| {
            for me in 0..2 {
                let (clock, t) = (&clock, &t);
                s.spawn(move || clock.read(me, |out| out.extend(t.get(at, &Here).unwrap())));
            }
            let _stop = Stop(&clock);
            clock.wait_for_readers();
            for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                // SAFETY: nothing is freed.
                unsafe { w.reclaim(clock.epoch(), 0) };
                clock.step(|n| assert!(w.replace(at, [n; 16])));
                let safe = clock.advance();
                // SAFETY: all readers have passed it.
                unsafe { w.reclaim(safe, safe) };
            }
        });
    }
}
