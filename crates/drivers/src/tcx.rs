//! Packets for the router end there: a program at a device's ingress (TCX, Linux 6.6) drops frames for the device's own address behind the taps, of
//! which AF_PACKET is one, so that Linux's own input does not work on them a second time.

use crate::bpf::{self, Attach, ProgramKind};
use crate::netns;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Drops what is for the device's own address: `r2 = skb->pkt_type; r0 = TCX_NEXT; if r2 != PACKET_HOST goto exit; r0 = TCX_DROP; exit`.
/// Frames for groups and for other stations go on: a macvlan device upon this one may be in any namespace, and Linux is soon done with
/// those that are nobody's.
const DROP: [u64; 5] = [
    0x0000_0000_0004_1261,
    0xffff_ffff_0000_00b7,
    0x0000_0000_0001_0255,
    0x0000_0002_0000_00b7,
    0x0000_0000_0000_0095,
];

/// The program at work on a device. It ends with this, or with the process, however that ends: the kernel keeps nothing.
#[derive(Debug)]
struct Shut {
    _link: OwnedFd,
}

impl Shut {
    /// Drops what comes for the device of this index, in the calling thread's namespace, behind the taps and behind programs
    /// that are there already.
    fn ingress(ifindex: u32) -> io::Result<Shut> {
        let program = bpf::load(ProgramKind::SchedCls, Attach::TcxIngress, &DROP, 0)?;
        Ok(Shut { _link: bpf::attach(&program, ifindex, Attach::TcxIngress, 0)? })
    }
}

/// A device that is shut or not. Linux has whoever changes that wait while somebody changes devices, which is why a thread does.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    netns: Option<String>,
    ifindex: u32,
    wanted: bool,
    shut: Option<Shut>,
    /// Linux could not do that, and is not asked again before it is to be open.
    unable: bool,
    /// A thread is at it.
    at_work: bool,
}

impl Gate {
    /// That of a device of a namespace, open.
    pub fn new(netns: Option<&str>, ifindex: u32) -> Gate {
        let netns = netns.map(str::to_owned);
        Gate(Arc::new(Mutex::new(State {
            netns,
            ifindex,
            wanted: false,
            shut: None,
            unable: false,
            at_work: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is shut.
    pub fn is_shut(&self) -> bool {
        self.state().shut.is_some()
    }

    /// Shuts or opens it now.
    pub fn set(&self, shut: bool) {
        self.state().want(shut);
        self.work();
    }

    /// Has it shut or opened soon.
    pub fn ask(&self, shut: bool) {
        let mut state = self.state();
        state.want(shut);
        if state.at_work || !state.is_due() {
            return;
        }
        let gate = self.clone();
        let thread = std::thread::Builder::new().name("gate".to_owned());
        state.at_work = thread.spawn(move || gate.work()).is_ok();
    }

    /// Does what is wanted, until it is so.
    fn work(&self) {
        loop {
            let mut state = self.state();
            if !state.is_due() {
                state.at_work = false;
                return;
            }
            let (netns, ifindex, was) = (state.netns.clone(), state.ifindex, state.shut.take());
            // The lock is for looks only: Linux may take long.
            drop(state);
            if was.is_some() {
                drop(was);
                continue;
            }
            let shut = netns::within(netns.as_deref(), || Ok(Shut::ingress(ifindex)));
            let mut state = self.state();
            match shut {
                Ok(Ok(shut)) => state.shut = Some(shut),
                // An older kernel, or rights that are missing.
                _ => state.unable = true,
            }
        }
    }
}

impl State {
    fn want(&mut self, shut: bool) {
        self.wanted = shut;
        self.unable &= shut;
    }

    fn is_due(&self) -> bool {
        self.wanted != self.shut.is_some() && !(self.wanted && self.unable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_refused_is_asked_for_again_once_it_was_open() {
        // No device has this number.
        let gate = Gate::new(None, i32::MAX as u32);
        gate.set(true);
        assert!(gate.state().unable && !gate.is_shut() && !gate.state().is_due());
        gate.ask(false);
        gate.state().want(true);
        assert!(gate.state().is_due());
    }
}
