//! Changes of Linux's devices as they happen, from a netlink socket (rtnetlink, groups of links and addresses), and whether Linux has a
//! use of its own for what comes on them. A thread of its own reads: who asks for all devices waits while somebody changes any.

use crate::error::{Error, privileged, system};
use crate::link::is_routable;
use crate::linux::{RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, RTMGRP_LINK};
use crate::netlink::Netlink;
use crate::signal::Signal;
use crate::{netns, sys};
use linux::wire::Messages;
use linux::wire::kind::{RTM_DELADDR, RTM_DELLINK, RTM_GETADDR, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK};
use linux::{address, link};
use packet::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const RECV: usize = 32 << 10;
/// Bytes the kernel keeps for us: some thousand changes.
const RCVBUF: i32 = 2 << 20;
/// Events that wait for whoever is told.
const WAITING: usize = 1024;
/// Until the devices are asked for again where Linux has not told.
const AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What a device is after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Linux's index of the device.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// Up and with carrier.
    pub running: bool,
    /// Bytes behind the Ethernet header.
    pub mtu: u32,
    /// Its address, where it has one of six bytes.
    pub mac: Option<MacAddr>,
    /// Linux has a use of its own for what comes: see [`crate::Link::is_used`].
    pub used: bool,
    /// The device is gone.
    pub deleted: bool,
}

/// Watches the devices of one namespace.
#[derive(Debug)]
pub struct LinkWatch {
    told: Receiver<LinkEvent>,
    bell: Arc<Signal>,
    end: Arc<Signal>,
}

impl LinkWatch {
    /// Watches the namespace (Quiver's own for `None`) from now on: first all devices come as events, then what changes. The
    /// descriptor is readable when events wait.
    ///
    /// # Errors
    /// There is no such namespace, or the permission is missing.
    pub fn open(netns: Option<&str>) -> Result<LinkWatch, Error> {
        let (events, requests) = netns::within(netns, || {
            let kind = libc::SOCK_RAW;
            let s = sys::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)
                .map_err(system("open a netlink socket"))?;
            let big = sys::setsockopt(&s, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RCVBUF);
            if big.is_err() {
                let _ = sys::setsockopt(&s, libc::SOL_SOCKET, libc::SO_RCVBUF, &RCVBUF);
            }
            let groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
            sys::bind(&s, &sys::netlink_address(groups))
                .map_err(privileged("watching the links", "CAP_NET_ADMIN"))?;
            Ok((s, Netlink::here()?))
        })?;
        let signal = || Signal::create().map(Arc::new).map_err(system("open an eventfd"));
        let (bell, end, (tell, told)) = (signal()?, signal()?, sync_channel(WAITING));
        let watched = LinkWatch { told, bell: Arc::clone(&bell), end: Arc::clone(&end) };
        let reader = Reader { events, requests, devices: Devices::default(), tell, bell, end };
        let thread = std::thread::Builder::new().name("links".to_owned());
        thread.spawn(move || reader.run()).map_err(system("start a thread"))?;
        Ok(watched)
    }

    /// The next event; `None` when no more waits.
    pub fn next_event(&mut self) -> Option<LinkEvent> {
        self.told.try_recv().ok().or_else(|| {
            self.bell.drain();
            self.told.try_recv().ok()
        })
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        self.end.ring();
    }
}

impl AsRawFd for LinkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.bell.fd().as_raw_fd()
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }
}

/// Nobody is told any more.
struct Over;

/// The thread that reads.
struct Reader {
    events: OwnedFd,
    requests: Netlink,
    devices: Devices,
    tell: SyncSender<LinkEvent>,
    bell: Arc<Signal>,
    end: Arc<Signal>,
}

impl Reader {
    fn run(mut self) {
        let mut buf = vec![0; RECV];
        let mut lost = true;
        loop {
            if lost && let Ok(events) = self.devices.read(&self.requests) {
                lost = false;
                if self.tell(events).is_err() {
                    return;
                }
            }
            let mut ready = [
                PollFd::new(&self.events, PollFlags::IN),
                PollFd::from_borrowed_fd(self.end.fd(), PollFlags::IN),
            ];
            let polled = poll(&mut ready, lost.then_some(&AGAIN));
            if polled.is_ok() && !ready[1].revents().is_empty() {
                return;
            }
            match self.changes(&mut buf) {
                Ok(all) => lost |= !all,
                Err(Over) => return,
            }
        }
    }

    /// Reads what has changed; false when changes were lost.
    fn changes(&mut self, buf: &mut [u8]) -> Result<bool, Over> {
        loop {
            match sys::recv(&self.events, buf) {
                Ok(n) => {
                    for m in Messages(&buf[..n.min(buf.len())]) {
                        let events = self.devices.change(m.kind, m.body);
                        self.tell(events)?;
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(true),
            }
        }
    }

    fn tell(&self, events: Vec<LinkEvent>) -> Result<(), Over> {
        for event in events {
            self.tell.send(event).map_err(|_| Over)?;
            self.bell.ring();
        }
        Ok(())
    }
}

/// What is known of the devices of a namespace.
#[derive(Default)]
struct Devices {
    /// The last event of each, which was told.
    told: BTreeMap<u32, LinkEvent>,
    /// Those that are in a bridge, a bond or a VRF.
    ports: BTreeSet<u32>,
    /// Devices and those upon them, and what each of these is upon.
    upon: BTreeSet<(u32, u32)>,
    below: BTreeMap<u32, u32>,
    /// Devices and their addresses beside those that Linux makes by itself, with the lengths of the prefixes.
    addresses: BTreeSet<(u32, IpAddr, u8)>,
}

impl Devices {
    /// Asks for all, and answers what is to be told.
    fn read(&mut self, socket: &Netlink) -> io::Result<Vec<LinkEvent>> {
        let links = socket.dump(RTM_GETLINK, &[0; link::IFINFOMSG], |_| true)?;
        let addresses = socket.dump(RTM_GETADDR, &[0; address::IFADDRMSG], |_| true)?;
        let was = std::mem::take(self);
        addresses.iter().for_each(|body| _ = self.change(RTM_NEWADDR, body));
        links.iter().for_each(|body| _ = self.change(RTM_NEWLINK, body));
        let gone = was.told.into_values().filter(|e| !self.told.contains_key(&e.ifindex));
        let mut events: Vec<LinkEvent> = gone.map(LinkEvent::deleted).collect();
        let all: Vec<u32> = self.told.keys().copied().collect();
        events.extend(all.into_iter().filter_map(|ifindex| self.weigh(ifindex, true)));
        Ok(events)
    }

    /// What a message says, and what is to be told of it.
    fn change(&mut self, kind: u16, body: &[u8]) -> Vec<LinkEvent> {
        match kind {
            RTM_NEWLINK | RTM_DELLINK => {
                link::parse(body).map(|l| self.link(l, kind == RTM_DELLINK)).unwrap_or_default()
            }
            RTM_NEWADDR | RTM_DELADDR => {
                let Some(a) = address::parse(body).filter(|a| is_routable(&a.net.addr())) else {
                    return vec![];
                };
                let of = (a.ifindex, a.net.addr(), a.net.prefix_len());
                _ = if kind == RTM_NEWADDR { self.addresses.insert(of) } else { self.addresses.remove(&of) };
                self.weigh(a.ifindex, false).into_iter().collect()
            }
            _ => vec![],
        }
    }

    fn link(&mut self, l: link::Link, deleted: bool) -> Vec<LinkEvent> {
        let ifindex = l.ifindex;
        let event = LinkEvent {
            ifindex,
            name: l.name,
            up: l.up,
            running: l.up && l.carrier,
            mtu: l.mtu,
            mac: l.mac.map(MacAddr),
            used: false,
            deleted: false,
        };
        let was = self.below.remove(&ifindex);
        was.iter().for_each(|below| _ = self.upon.remove(&(*below, ifindex)));
        let now = l.upon.filter(|_| !deleted);
        now.iter().for_each(|below| _ = self.below.insert(ifindex, *below));
        self.upon.extend(now.map(|below| (below, ifindex)));
        self.ports.remove(&ifindex);
        let mut events = vec![];
        if deleted {
            self.told.remove(&ifindex);
            events.push(event.deleted());
        } else {
            if l.master != 0 {
                self.ports.insert(ifindex);
            }
            self.told.insert(ifindex, event);
            events.extend(self.weigh(ifindex, true));
        }
        events.extend(was.into_iter().chain(now).filter_map(|below| self.weigh(below, false)));
        events
    }

    /// Looks whether Linux has a use for what comes on a device; what is to be told of it, if anything or if `always`.
    fn weigh(&mut self, ifindex: u32, always: bool) -> Option<LinkEvent> {
        let first = (ifindex, IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let used = self.ports.contains(&ifindex)
            || self.upon.range((ifindex, 0)..).next().is_some_and(|(below, _)| *below == ifindex)
            || self.addresses.range(first..).next().is_some_and(|(of, ..)| *of == ifindex);
        let event = self.told.get_mut(&ifindex)?;
        let changed = std::mem::replace(&mut event.used, used) != used;
        (changed || always).then(|| event.clone())
    }
}

impl LinkEvent {
    fn deleted(self) -> LinkEvent {
        LinkEvent { up: false, running: false, used: false, deleted: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::wire::{self, attribute};
    use proptest::prelude::*;

    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;

    fn message(kind: u16, family: u8, flags: u32) -> Vec<u8> {
        let mut m = vec![0; 4];
        m.extend(kind.to_ne_bytes());
        m.resize(wire::HEADER, 0);
        m.extend([family, 0, 1, 0]);
        m.extend(7u32.to_ne_bytes());
        m.extend(flags.to_ne_bytes());
        m.extend([0; 4]);
        m.extend(attribute(IFLA_IFNAME, b"eth7\0"));
        m.extend(attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 7]));
        m.extend(attribute(IFLA_MTU, &1500u32.to_ne_bytes()));
        let len = m.len() as u32;
        m[..4].copy_from_slice(&len.to_ne_bytes());
        m
    }

    #[test]
    fn a_device_that_runs_and_one_that_goes() {
        let mut devices = Devices::default();
        let mut told = vec![];
        for m in
            [message(RTM_NEWLINK, 0, 0x1_0041), message(RTM_NEWLINK, 7, 0x1_0041), message(RTM_DELLINK, 0, 0)]
        {
            told.extend(Messages(&m).flat_map(|m| devices.change(m.kind, m.body)));
        }
        let up = LinkEvent {
            ifindex: 7,
            name: "eth7".into(),
            up: true,
            running: true,
            mtu: 1500,
            mac: Some(MacAddr([2, 0, 0, 0, 0, 7])),
            used: false,
            deleted: false,
        };
        assert_eq!(told, [up.clone(), up.deleted()]);
    }

    fn device(ifindex: u32, master: u32, upon: Option<u32>) -> link::Link {
        let mut l = Messages(&message(RTM_NEWLINK, 0, 1)).find_map(|m| link::parse(m.body)).unwrap();
        (l.ifindex, l.master, l.upon) = (ifindex, master, upon);
        l
    }

    /// `IFA_LOCAL` of a device.
    fn given(ifindex: u32, address: &[u8], len: u8) -> Vec<u8> {
        let mut body = vec![if address.len() == 4 { 2 } else { 10 }, len, 0, 0];
        body.extend(ifindex.to_ne_bytes());
        body.extend(attribute(2, address));
        body
    }

    #[test]
    fn what_linux_has_a_use_for() {
        let mut d = Devices::default();
        let used = |events: Vec<LinkEvent>| events.iter().map(|e| (e.ifindex, e.used)).collect::<Vec<_>>();
        assert_eq!(used(d.link(device(1, 0, None), false)), [(1, false)]);
        // Two devices upon it; the last that goes ends it. What has not changed is not told.
        assert_eq!(used(d.link(device(2, 0, Some(1)), false)), [(2, false), (1, true)]);
        assert_eq!(used(d.link(device(3, 0, Some(1)), false)), [(3, false)]);
        assert_eq!(used(d.link(device(1, 0, None), false)), [(1, true)]);
        assert_eq!(used(d.link(device(2, 0, Some(1)), true)), [(2, false)]);
        assert_eq!(used(d.link(device(3, 0, Some(1)), true)), [(3, false), (1, false)]);
        // A bridge.
        assert_eq!(used(d.link(device(1, 9, None), false)), [(1, true)]);
        assert_eq!(used(d.link(device(1, 0, None), false)), [(1, false)]);
        // Addresses: not those of Linux's own, and one of two lengths is two.
        let local = given(1, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 64);
        assert_eq!(used(d.change(RTM_NEWADDR, &local)), []);
        for (kind, address, now) in [
            (RTM_NEWADDR, given(1, &[10, 0, 0, 1], 24), Some(true)),
            (RTM_NEWADDR, given(1, &[10, 0, 0, 1], 32), None),
            (RTM_NEWADDR, given(2, &[10, 0, 0, 2], 24), None),
            (RTM_DELADDR, given(1, &[10, 0, 0, 1], 24), None),
            (RTM_DELADDR, given(1, &[10, 0, 0, 1], 32), Some(false)),
        ] {
            assert_eq!(used(d.change(kind, &address)), now.map(|u| (1, u)).into_iter().collect::<Vec<_>>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 16u16..22) {
            Devices::default().change(kind, &bytes);
        }
    }
}
