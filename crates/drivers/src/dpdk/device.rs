//! The library's calls on a port, each of which may wait: only the hub's thread makes them.
#![allow(unsafe_code)]
// Upholds: texts end, and places for answers live through the call; a port that is stopped or closed has no queues any more.

use super::abi::{Info, LinkState, Lost, Made, Setup, Stat, text};
use super::config::Name;
use super::env::{refused, said};
use super::library::Library;
use super::pool::SharedPool;
use packet::MacAddr;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Most of a port's extended statistics.
const STATS: usize = 1024;

/// A port that DPDK has found.
pub struct Port {
    library: &'static Library,
    pool: Arc<SharedPool>,
    /// Its number.
    pub number: u16,
    /// Its driver.
    pub driver: String,
    /// The address that it came with.
    pub mac: MacAddr,
    /// Most queues: receive, transmit.
    pub queues: (u16, u16),
    /// The largest IP packet, bytes.
    pub most_mtu: u16,
    /// The NUMA node, where the device is on one.
    pub numa: Option<u32>,
}

impl Port {
    /// Finds a device and takes it.
    ///
    /// # Errors
    /// It is not there, or has no driver, in words.
    pub fn probe(pool: &Arc<SharedPool>, name: &Name) -> Result<Port, String> {
        let library = pool.library();
        let fail = |e| refused(&format!("DPDK does not take {}", name.device()), e);
        let whole = CString::new(name.to_string()).map_err(|_| fail(-libc::EINVAL))?;
        let device = CString::new(name.device()).map_err(|_| fail(-libc::EINVAL))?;
        let mut info = MaybeUninit::<Info>::zeroed();
        // What was said before says nothing of this.
        said();
        // SAFETY: both texts end, and there is room for the answer.
        let number = unsafe { (library.api.probe)(whole.as_ptr(), device.as_ptr(), info.as_mut_ptr()) };
        let number = u16::try_from(number).map_err(|_| fail(number))?;
        // SAFETY: numbers and bytes, of which zeros are valid ones too.
        let info = unsafe { info.assume_init() };
        Ok(Port {
            library,
            pool: Arc::clone(pool),
            number,
            driver: text(&info.driver),
            mac: MacAddr(info.mac),
            queues: (info.max_rx, info.max_tx),
            most_mtu: info.max_mtu,
            numa: u32::try_from(info.numa).ok(),
        })
    }

    fn answer(what: &str, answer: i32) -> Result<(), String> {
        if answer < 0 { Err(refused(what, answer)) } else { Ok(()) }
    }

    /// Sets it up.
    pub fn configure(&self, setup: &Setup) -> Result<Made, String> {
        let mut made = Made::default();
        said();
        // SAFETY: the port is stopped; there is room for the answer.
        let answer =
            unsafe { (self.library.api.configure)(self.number, setup, self.pool.theirs(), &mut made) };
        let what = || format!("cannot set it up with {} and {} queues", setup.rx_queues, setup.tx_queues);
        if answer < 0 { Err(refused(&what(), answer)) } else { Ok(made) }
    }

    /// Has it receive and send.
    pub fn start(&self) -> Result<(), String> {
        said();
        // SAFETY: the port is set up.
        Self::answer("cannot start it", unsafe { (self.library.api.start)(self.number) })
    }

    /// Stops it; nobody has its queues.
    pub fn stop(&self) -> Result<(), String> {
        // SAFETY: as the caller has seen.
        Self::answer("cannot stop it", unsafe { (self.library.api.stop)(self.number) })
    }

    /// Lets it go.
    pub fn close(self) -> Result<(), String> {
        // SAFETY: it is stopped, and nobody has its queues.
        Self::answer("cannot let it go", unsafe { (self.library.api.close)(self.number) })
    }

    /// Sets the largest IP packet; the errno of a refusal with its words, `EBUSY` where it must be stopped for that.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), (i32, String)> {
        said();
        // SAFETY: the port is there.
        let answer = unsafe { (self.library.api.set_mtu)(self.number, mtu) };
        Self::answer(&format!("it does not take MTU {mtu}"), answer).map_err(|e| (-answer, e))
    }

    /// Sets its address.
    pub fn set_mac(&self, mac: MacAddr) -> Result<(), String> {
        // SAFETY: six bytes.
        let answer = unsafe { (self.library.api.set_mac)(self.number, mac.0.as_ptr()) };
        Self::answer(&format!("it does not take the MAC address {mac}"), answer)
    }

    /// Has it take frames for any station, or not.
    pub fn set_promiscuous(&self, on: bool) -> Result<(), String> {
        // SAFETY: the port is there.
        let answer = unsafe { (self.library.api.set_promiscuous)(self.number, i32::from(on)) };
        Self::answer("it cannot change promiscuous mode", answer)
    }

    /// Has it take frames for these groups.
    pub fn set_groups(&self, groups: &[MacAddr]) -> Result<(), String> {
        let bytes: Vec<u8> = groups.iter().flat_map(|g| g.0).collect();
        // SAFETY: six bytes each.
        let answer =
            unsafe { (self.library.api.set_groups)(self.number, bytes.as_ptr(), groups.len() as u32) };
        Self::answer("it cannot be told of multicast groups", answer)
    }

    /// Its link.
    pub fn link(&self) -> LinkState {
        let mut link = LinkState::default();
        // SAFETY: there is room for the answer.
        unsafe { (self.library.api.link)(self.number, &mut link) };
        link
    }

    /// What it has dropped.
    pub fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        // SAFETY: there is room for the answer.
        unsafe { (self.library.api.lost)(self.number, &mut lost) };
        lost
    }

    /// Its extended statistics, those that are not 0.
    pub fn stats(&self) -> Vec<(String, u64)> {
        let mut all: Vec<Stat> = Vec::with_capacity(STATS);
        // SAFETY: there is room for so many.
        let n = unsafe { (self.library.api.stats)(self.number, all.as_mut_ptr(), STATS as u32) };
        // SAFETY: so many were written.
        unsafe { all.set_len(usize::try_from(n).unwrap_or(0).min(STATS)) };
        all.iter().filter(|s| s.value != 0).map(|s| (text(&s.name), s.value)).collect()
    }

    /// The pool that its packets lie in.
    pub fn pool(&self) -> &Arc<SharedPool> {
        &self.pool
    }
}
