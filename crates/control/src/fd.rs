//! Watching a descriptor from the runtime of a thread.
#![allow(unsafe_code)]
// Upholds: the watched object owns its descriptor and keeps the same one until it is dropped with the watch.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Objects that own one descriptor for all their life.
pub trait Owned: AsRawFd {}

impl Owned for OwnedFd {}
impl Owned for drivers::LinkWatch {}

/// Watches a descriptor.
///
/// # Errors
/// The system refuses it.
pub fn watch<T: Owned>(object: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: `Owned` objects do not close or exchange their descriptor before they are dropped, and `AsyncFd`
    // unregisters before it drops its object.
    unsafe { AsyncFd::register(object) }.map_err(Into::into)
}
