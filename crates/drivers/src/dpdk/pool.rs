//! The router's buffers as DPDK has them: each with an mbuf of the library's, whose data it is.
#![allow(unsafe_code)]
// Upholds: a number that the library gives back is a buffer that it took before, and only then: each is one owner's. The router's pool
// lives as long as the library's.

use super::abi::{CPool, LANE, Lane, Memory};
use super::library::Library;
use graph::buffer::{HEADROOM, Pages, ROOM, STRIDE, room_at};
use graph::{Buffer, Buffers, Pool};
use std::ffi::c_void;
use std::sync::Arc;

/// A pool that both sides know.
pub struct SharedPool {
    library: &'static Library,
    pool: Arc<Pool>,
    theirs: *mut CPool,
}

// SAFETY: the library's side is made and taken apart by one thread, and else only read; the callbacks work from any thread.
unsafe impl Send for SharedPool {}
// SAFETY: as above.
unsafe impl Sync for SharedPool {}

impl SharedPool {
    /// Tells the library of the pool's memory.
    ///
    /// # Errors
    /// It has no memory for the mbufs, in words.
    pub fn new(library: &'static Library, pool: &Arc<Pool>) -> Result<SharedPool, String> {
        let (base, bytes) = pool.memory();
        let memory = Memory {
            base: base as *mut c_void,
            bytes: bytes as u64,
            page: if pool.pages() == Pages::Huge { 2 << 20 } else { 4096 },
            count: pool.count() as u32,
            stride: STRIDE as u32,
            room_at: room_at(0) as u32,
            room: ROOM as u32,
            headroom: HEADROOM as u32,
            unused: 0,
            owner: Arc::as_ptr(pool).cast_mut().cast(),
            take,
            give,
            lane_take,
            lane_give,
        };
        let mut theirs = std::ptr::null_mut();
        // SAFETY: the memory is the pool's, which this holds; there is room for the answer.
        let answer = unsafe { (library.api.pool_new)(&memory, &mut theirs) };
        if answer < 0 {
            return Err(super::env::refused("DPDK cannot take the buffers", answer));
        }
        Ok(SharedPool { library, pool: Arc::clone(pool), theirs })
    }

    /// The library's side.
    pub fn theirs(&self) -> *mut CPool {
        self.theirs
    }

    /// The library.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// The router's pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A lane for one queue.
    pub fn lane(&self) -> Box<Lane> {
        let owner = std::ptr::null_mut();
        Box::new(Lane { pool: self.theirs, owner, taken: 0, given: 0, count: 0, list: [0; LANE] })
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        // SAFETY: ports and queues hold this, so that none is left; all buffers are the router's again.
        unsafe { (self.library.api.pool_free)(self.theirs) };
    }
}

/// # Safety
/// `owner` is a pool, and `list` has room for `n`.
unsafe extern "C" fn take(owner: *mut c_void, list: *mut u32, n: u32) -> u32 {
    // SAFETY: the pool is there as long as the library's.
    let pool = unsafe { &*owner.cast_const().cast::<Pool>() };
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts_mut(list, n as usize) };
    for at in 0..list.len() {
        let Some(buf) = pool.lend_one() else {
            list[..at].iter().for_each(|b| pool.give_back(from(*b)));
            return 0;
        };
        list[at] = buf.number();
    }
    n
}

/// # Safety
/// `owner` is a pool, and `list` has `n` of its buffers, which the library had.
unsafe extern "C" fn give(owner: *mut c_void, list: *const u32, n: u32) {
    // SAFETY: the pool is there as long as the library's.
    let pool = unsafe { &*owner.cast_const().cast::<Pool>() };
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts(list, n as usize) };
    list.iter().for_each(|b| pool.give_back(from(*b)));
}

/// # Safety
/// `owner` is the worker's buffers, which nobody else uses during the call, and `list` has room for `n`.
unsafe extern "C" fn lane_take(owner: *mut c_void, list: *mut u32, n: u32) -> u32 {
    // SAFETY: as the caller promises: the queue has lent them to the library for this call.
    let buffers = unsafe { &mut *owner.cast::<Buffers>() };
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts_mut(list, n as usize) };
    if buffers.take(list) { n } else { 0 }
}

/// # Safety
/// As [`lane_take`]; the list has `n` buffers, which the library had.
unsafe extern "C" fn lane_give(owner: *mut c_void, list: *const u32, n: u32) {
    // SAFETY: as above.
    let buffers = unsafe { &mut *owner.cast::<Buffers>() };
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts(list, n as usize) };
    buffers.free_each(list.iter().map(|b| from(*b)));
}

/// A buffer that the library had, and has let go of.
#[inline]
pub fn from(number: u32) -> Buffer {
    // SAFETY: the library names only buffers that it had, each once.
    unsafe { Buffer::from_number(number) }
}
