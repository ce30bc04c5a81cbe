//! A device of Linux's that the router has borrowed, whatever driver brings its packets: that no other router has it, its
//! settings with what they were before, and what it receives.

mod claim;
mod origin;

use crate::error::{Error, Within, privileged};
use crate::link::{Link, LinkState};
use crate::linux::*;
use crate::watch::LinkEvent;
use crate::{netns, sys};
use graph::{RxQueue, TxQueue};
use origin::Origin;
pub(crate) use origin::{Notes, alternative_names};
use packet::MacAddr;
use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Most queues of a kind that one device can have.
pub const MAX_QUEUES: usize = 64;
/// Fewest and most slots of a ring.
pub const SLOTS: RangeInclusive<usize> = 64..=65536;
/// Most groups that a device is told one by one.
pub const MOST_GROUPS: usize = 256;
/// How long opening waits for a device that was given back a moment ago.
pub const PATIENCE: Duration = Duration::from_millis(100);
const RAW: &str = "CAP_NET_RAW";

/// The control side of a borrowed device.
pub struct Host {
    /// The device in Linux.
    pub link: Link,
    /// Linux's index of the device when it was opened.
    pub ifindex: u32,
    /// Bound to the device, and receives nothing: memberships end with it.
    control: OwnedFd,
    /// Other routers see by it that the device is taken.
    mark: Option<UnixListener>,
    /// What Linux's settings were, and are when the router lets go of the device.
    origin: Origin,
    notes: Option<Notes>,
    /// The settings as the router or the last look found them.
    known: Origin,
    /// Those that are the router's.
    our_mtu: bool,
    our_mac: bool,
    promiscuous: bool,
    /// Groups asked for, those of them that are joined one by one, and whether all are received.
    groups: BTreeSet<MacAddr>,
    joined: BTreeSet<MacAddr>,
    all_groups: bool,
}

/// An open device.
pub struct Device<C> {
    /// Its receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Its transmit queues.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU.
    pub mtu: u32,
    /// Its control side. Dropping it leaves the queues working.
    pub handle: C,
    /// Sentences for the log: what the operator should know of the device.
    pub conflicts: Vec<String>,
}

/// What a driver keeps of a borrowed device beside its queues.
pub trait Control {
    /// The device.
    fn host(&self) -> &Host;
    /// The device, to be changed.
    fn host_mut(&mut self) -> &mut Host;
    /// One transmit queue more.
    ///
    /// # Errors
    /// The device is gone, or the system refuses a descriptor.
    fn transmit_queue(&mut self) -> Result<Box<dyn TxQueue>, Error>;
    /// Packets dropped before they reached the graph, since the device was opened.
    fn drops(&self) -> crate::RxDrops {
        self.queue_drops().into_iter().sum()
    }
    /// Those of each receive queue.
    fn queue_drops(&self) -> Vec<crate::RxDrops>;
    /// Its receive queues, where their number may be changed while packets flow.
    fn resize(&mut self) -> Option<&mut dyn Resize> {
        None
    }
    /// Driver and device, in one line.
    fn describe(&self) -> String;
    /// False once the device was deleted (a new one of the same name is another device: open it again).
    fn alive(&self) -> bool {
        self.host().alive()
    }
    /// Looks at Linux's settings after an event of the device; the MTU and the MAC address that somebody else has changed. They are not
    /// put back.
    fn look(&mut self, _event: &LinkEvent) -> (Option<u32>, Option<MacAddr>) {
        self.host_mut().look()
    }
}

/// Receive queues whose number is changed while packets flow: none is lost, and none overtakes another of its flow.
///
/// Other queues take the place of those that there are, but for those that stay: [`Resize::open`], workers get the new ones,
/// [`Resize::turn`], [`Resize::settled`], workers give back those that go, which are dropped, [`Resize::close`]. Each call may wait for the
/// kernel or for workers.
pub trait Resize {
    /// How many of the queues stay where there are to be so many: the first ones.
    fn staying(&self, _queues: usize) -> usize {
        0
    }
    /// Opens those that are missing, which get no packets yet.
    ///
    /// # Errors
    /// The system refuses.
    fn open(&mut self, queues: usize) -> Result<Vec<Box<dyn RxQueue>>, Error>;
    /// Has packets come to the queues that were opened, which wait until [`Resize::settled`]. Those that go have been emptied when this
    /// returns: what they held is still with their workers.
    ///
    /// # Errors
    /// The system refuses: packets come as before.
    fn turn(&mut self) -> Result<(), Error>;
    /// What came out of the queues that were emptied has been sent on.
    fn settled(&mut self);
    /// Forgets the queues that get no packets: those before, or those that were opened.
    ///
    /// # Errors
    /// The device does not do without those before: they are to be opened again.
    fn close(&mut self) -> Result<(), Error>;
}

impl Host {
    /// Borrows a device: its name, its namespace, and how long to wait for it while another router has it. What a router has changed
    /// that was killed is put back.
    ///
    /// # Errors
    /// There is no such device, another router has it, or the permission is missing.
    pub fn open(name: &str, netns: Option<&str>, patience: Duration) -> Result<(Host, LinkState), Error> {
        let link = Link::open(name, netns)?;
        let index = link.ifindex()?;
        // Before anything is read of it: its settings may be those of a router that was killed.
        let mark = netns::within(netns, || claim::claim(name, netns, index, Instant::now() + patience))?;
        put_back(&link, netns)?;
        let state = link.state()?;
        let control = netns::within(netns, || {
            let control = packet_socket(name)?;
            sys::bind(&control, &sys::link_address(state.ifindex as i32, 0))
                .map_err(bind_error(name, netns))?;
            Ok(control)
        })?;
        let origin = Origin { mtu: state.mtu, mac: state.mac };
        let host = Host {
            link,
            ifindex: state.ifindex,
            control,
            mark,
            origin,
            notes: None,
            known: origin,
            our_mtu: false,
            our_mac: false,
            promiscuous: false,
            groups: BTreeSet::new(),
            joined: BTreeSet::new(),
            all_groups: false,
        };
        Ok((host, state))
    }

    /// False once the device was deleted.
    pub fn alive(&self) -> bool {
        sys::local_ll(&self.control).is_ok_and(|a| a.sll_ifindex > 0)
    }

    /// Lets go of the mark that keeps other routers off: the device is gone.
    pub fn release(&mut self) {
        self.mark = None;
    }

    /// Linux's settings of the device, as far as known: MTU and MAC address.
    pub fn known(&self) -> (u32, MacAddr) {
        (self.known.mtu, self.known.mac)
    }

    /// Makes the device take packets of `bytes` bytes, where it takes less.
    pub fn raise_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        if self.known.mtu < bytes { self.change_mtu(bytes) } else { Ok(()) }
    }

    /// As [`Host::raise_mtu`]; a device that was raised for more is put back as far as it can be.
    pub fn fit_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        if self.fits(bytes) { Ok(()) } else { self.change_mtu(bytes.max(self.origin.mtu)) }
    }

    /// Whether [`Host::fit_mtu`] has nothing to do.
    pub fn fits(&self, bytes: u32) -> bool {
        let bytes = bytes.max(self.origin.mtu);
        self.known.mtu == bytes || self.known.mtu > bytes && !self.our_mtu
    }

    fn change_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        self.note();
        let set = self.link.set_mtu(bytes);
        if set.is_ok() {
            self.known.mtu = bytes;
            self.our_mtu = bytes != self.origin.mtu;
        }
        self.forget();
        set
    }

    /// Sets the device's MAC address.
    pub fn set_mac(&mut self, mac: MacAddr) -> Result<(), Error> {
        if self.known.mac == mac {
            return Ok(());
        }
        self.note();
        let set = self.link.set_mac(mac);
        if set.is_ok() {
            self.known.mac = mac;
            self.our_mac = mac != self.origin.mac;
        }
        self.forget();
        set
    }

    /// Writes down what the settings were, before the first that is changed.
    fn note(&mut self) {
        if !self.our_mtu && !self.our_mac && self.notes.is_none() {
            self.notes = Notes::open(self.link.netns(), self.ifindex).ok();
            if let Some(notes) = &self.notes {
                notes.write(&self.origin.name(self.ifindex));
            }
        }
    }

    /// Takes the note away once all is as it was.
    fn forget(&mut self) {
        if !self.our_mtu
            && !self.our_mac
            && let Some(notes) = self.notes.take()
        {
            notes.erase(&self.origin.name(self.ifindex));
        }
    }

    /// Looks at Linux's settings; the MTU and the MAC address that somebody else has changed. They are not put back.
    pub fn look(&mut self) -> (Option<u32>, Option<MacAddr>) {
        let Ok(LinkState { ifindex, mtu, mac, .. }) = self.link.state() else { return (None, None) };
        if ifindex != self.ifindex || (mtu, mac) == self.known() {
            return (None, None);
        }
        if let Some(notes) = &self.notes {
            notes.erase(&self.origin.name(self.ifindex));
        }
        let changed = ((mtu != self.known.mtu).then_some(mtu), (mac != self.known.mac).then_some(mac));
        if changed.0.is_some() {
            (self.origin.mtu, self.known.mtu, self.our_mtu) = (mtu, mtu, false);
        }
        if changed.1.is_some() {
            (self.origin.mac, self.known.mac, self.our_mac) = (mac, mac, false);
        }
        match &self.notes {
            Some(notes) if self.our_mtu || self.our_mac => notes.write(&self.origin.name(self.ifindex)),
            _ => self.notes = None,
        }
        changed
    }

    /// Lets the device receive packets for all addresses, or ends that. Linux ends it by itself when Quiver dies.
    pub fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        if on == self.promiscuous {
            return Ok(());
        }
        self.membership(on, PACKET_MR_PROMISC, &[], "promiscuous mode")?;
        self.promiscuous = on;
        Ok(())
    }

    /// Lets the device receive packets for a group, or ends that: ports drop those for groups that nobody has asked for. Beyond
    /// [`MOST_GROUPS`] it receives those for all.
    pub fn set_group(&mut self, group: MacAddr, wanted: bool) -> Result<(), Error> {
        if !wanted {
            self.groups.remove(&group);
            if self.joined.remove(&group) {
                self.membership(false, PACKET_MR_MULTICAST, &group.0, "reception of a group")?;
            }
        } else {
            self.groups.insert(group);
        }
        let all = self.groups.len() > MOST_GROUPS;
        if !all {
            let missing = if self.all_groups { self.groups.clone() } else { BTreeSet::from([group]) };
            for g in missing.into_iter().filter(|g| self.groups.contains(g)) {
                if self.joined.insert(g) {
                    self.membership(true, PACKET_MR_MULTICAST, &g.0, "reception of a group")?;
                }
            }
        }
        if all != self.all_groups {
            self.membership(all, PACKET_MR_ALLMULTI, &[], "reception of all groups")?;
            self.all_groups = all;
        }
        Ok(())
    }

    fn membership(&self, on: bool, kind: u16, address: &[u8], what: &str) -> Result<(), Error> {
        let option = if on { PACKET_ADD_MEMBERSHIP } else { PACKET_DROP_MEMBERSHIP };
        let mut request = libc::packet_mreq {
            mr_ifindex: self.ifindex as i32,
            mr_type: kind,
            mr_alen: address.len() as u16,
            mr_address: [0; 8],
        };
        for (to, byte) in request.mr_address.iter_mut().zip(address) {
            *to = *byte;
        }
        sys::setsockopt(&self.control, SOL_PACKET, option, &request).map_err(|cause| Error::Value {
            name: self.link.name().to_owned(),
            within: self.link.within(),
            what: what.to_owned(),
            cause,
        })
    }

    /// True when promiscuous mode was asked for here.
    pub fn promiscuous(&self) -> bool {
        self.promiscuous
    }
}

impl Drop for Host {
    /// Puts back what was changed; what somebody else has changed since stays.
    fn drop(&mut self) {
        if !self.our_mtu && !self.our_mac {
            return;
        }
        self.look();
        let Origin { mtu, mac } = self.origin;
        if self.link.ifindex().is_ok_and(|i| i == self.ifindex) {
            let _ = self.fit_mtu(mtu);
            let _ = self.set_mac(mac);
        }
    }
}

/// Puts back what a router has changed that was killed; whether there was something.
pub(crate) fn put_back(link: &Link, netns: Option<&str>) -> Result<bool, Error> {
    let state = link.state()?;
    let Ok(notes) = Notes::open(netns, state.ifindex) else { return Ok(false) };
    if let Some((note, origin)) = notes.find(|n| Origin::parse(n, state.ifindex)) {
        if state.mtu != origin.mtu {
            link.set_mtu(origin.mtu)?;
        }
        if state.mac != origin.mac {
            link.set_mac(origin.mac)?;
        }
        notes.erase(&note);
        return Ok(true);
    }
    Ok(false)
}

/// Marks a device as taken where nobody has it, and as long as the mark lives. To be called in the device's namespace.
pub(crate) fn mark(name: &str, netns: Option<&str>, ifindex: u32) -> Option<UnixListener> {
    claim::claim(name, netns, ifindex, Instant::now()).ok().flatten()
}

/// Checks that the device could be opened: its name, its namespace, its kind, the permission, and that no other router
/// has it. While one does, waits until `until`.
pub fn probe(ifname: &str, netns: Option<&str>, until: Instant) -> Result<(), Error> {
    let link = Link::open(ifname, netns)?;
    link.mac()?;
    let ifindex = link.ifindex()?;
    netns::within(netns, || {
        packet_socket(ifname)?;
        claim::claim(ifname, netns, ifindex, until).map(drop)
    })
}

pub(crate) fn packet_socket(ifname: &str) -> Result<OwnedFd, Error> {
    // Protocol 0: it receives nothing before it is bound to its one device.
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        .map_err(privileged(format!("receiving packets on {ifname}"), RAW))
}

/// Checks the number of slots of a ring, where one was asked for.
pub(crate) fn check_slots(name: &str, slots: Option<usize>) -> Result<(), Error> {
    match slots {
        Some(slots) if !slots.is_power_of_two() || !SLOTS.contains(&slots) => {
            Err(Error::Slots { name: name.to_owned(), slots, min: *SLOTS.start(), max: *SLOTS.end() })
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_queues(name: &str, which: &'static str, count: usize) -> Result<(), Error> {
    if (1..=MAX_QUEUES).contains(&count) {
        return Ok(());
    }
    Err(Error::Queues { name: name.to_owned(), which, count, max: MAX_QUEUES })
}

pub(crate) fn bind_error(name: &str, netns: Option<&str>) -> impl FnOnce(io::Error) -> Error {
    let (name, within) = (name.to_owned(), Within(netns.map(str::to_owned)));
    move |cause| match cause.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => Error::NoDevice { name, within },
        _ => Error::System { what: format!("bind a packet socket to {name}{within}"), cause },
    }
}
