//! Queues of devices that stay open while the router is started anew: it gives them to its manager (`FDSTORE` of sd_notify(3)), which
//! is systemd or `quiver run --supervise`, and gets them back at the next start.

use super::notify::Shared;
use drivers::tap::kept::{Keeper, inherited};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// How a supervisor says which descriptors it has kept: `NAME=NUMBER`, separated by commas.
pub const VARIABLE: &str = "QUIVER_KEPT";
/// systemd's descriptors begin here.
const FIRST: RawFd = 3;

/// The descriptors that this process was started with, by name. To be asked once, before anything is opened.
pub fn at_start() -> BTreeMap<String, OwnedFd> {
    let text = |name: &str| std::env::var(name).ok();
    let mut all = from_supervisor(text(VARIABLE).as_deref().unwrap_or_default());
    if text("LISTEN_PID").and_then(|pid| pid.parse().ok()) == Some(std::process::id()) {
        let count = text("LISTEN_FDS").and_then(|n| n.parse().ok()).unwrap_or(0);
        all.extend(from_systemd(count, text("LISTEN_FDNAMES").as_deref().unwrap_or_default()));
    }
    // One that is no descriptor is nobody's.
    all.into_iter().filter_map(|(name, fd)| Some((name, inherited(fd).ok()?))).collect()
}

fn from_supervisor(text: &str) -> Vec<(String, RawFd)> {
    let one = |word: &str| {
        let (name, fd) = word.split_once('=')?;
        Some((name.to_owned(), fd.parse().ok().filter(|fd| *fd >= FIRST)?))
    };
    text.split(',').filter_map(one).collect()
}

fn from_systemd(count: usize, names: &str) -> Vec<(String, RawFd)> {
    names.split(':').take(count).zip(FIRST..).map(|(name, fd)| (name.to_owned(), fd)).collect()
}

/// What a supervisor says of the descriptors that it has.
pub fn words(kept: &BTreeMap<String, OwnedFd>) -> String {
    let words: Vec<String> = kept.iter().map(|(name, fd)| format!("{name}={}", fd.as_raw_fd())).collect();
    words.join(",")
}

/// What was kept, and the way to who keeps more.
pub struct Store {
    manager: Shared,
    queues: BTreeMap<String, OwnedFd>,
}

impl Store {
    /// Of the descriptors of the start.
    pub fn new(manager: Shared, queues: BTreeMap<String, OwnedFd>) -> Store {
        Store { manager, queues }
    }
}

impl Keeper for Store {
    fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.queues.remove(name)
    }

    fn keep(&mut self, name: &str, queue: BorrowedFd<'_>) {
        self.forget(name);
        self.manager.store(name, queue);
    }

    fn forget(&mut self, name: &str) {
        self.manager.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"));
    }

    fn finish(&mut self) {
        for name in std::mem::take(&mut self.queues).into_keys() {
            self.forget(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_is_given() {
        let pair = |name: &str, fd| (name.to_owned(), fd);
        assert_eq!(from_systemd(2, "e0:e1.5"), [pair("e0", 3), pair("e1.5", 4)]);
        assert_eq!(from_systemd(1, "e0:e1"), [pair("e0", 3)]);
        assert_eq!(from_supervisor("e0=7,e1=12"), [pair("e0", 7), pair("e1", 12)]);
        assert_eq!(from_supervisor("e0@lcp=7,e0=8"), [pair("e0@lcp", 7), pair("e0", 8)]);
        assert_eq!(from_supervisor("e0=2,e1,e2=x,"), []);
        assert_eq!(from_supervisor(""), []);
    }
}
