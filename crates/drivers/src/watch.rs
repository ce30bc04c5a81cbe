//! Changes of Linux's devices as they happen, from a netlink socket (rtnetlink, groups of links and addresses). Of a device whose addresses change
//! the link is asked for, so that it comes as an event too.

use crate::error::{Error, privileged, system};
use crate::linux::{RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, RTMGRP_LINK};
use crate::{netns, sys};
use linux::link;
use linux::wire::kind::{RTM_DELADDR, RTM_DELLINK, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK};
use linux::wire::{self, Message, Messages};
use packet::MacAddr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const RECV: usize = 32 << 10;
/// Bytes the kernel keeps for us: some thousand changes.
const RCVBUF: i32 = 2 << 20;

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
    /// The device is gone.
    pub deleted: bool,
}

/// Watches the devices of one namespace.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
    buf: Box<[u8]>,
    len: usize,
    at: usize,
}

impl LinkWatch {
    /// Watches the namespace (Quiver's own for `None`) from now on. The descriptor is non-blocking and readable when
    /// changes wait.
    pub fn open(netns: Option<&str>) -> Result<LinkWatch, Error> {
        let socket = netns::within(netns, || {
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
            Ok(s)
        })?;
        Ok(LinkWatch { socket, buf: vec![0; RECV].into_boxed_slice(), len: 0, at: 0 })
    }

    /// Asks for the present state of every device: it comes as events.
    pub fn request_all(&self) -> io::Result<()> {
        let m = wire::request(RTM_GETLINK, NLM_F_REQUEST_DUMP, 0, 0, link::IFINFOMSG);
        sys::send(&self.socket, &m).map(drop)
    }

    /// Asks for the present state of a device. Where there is no room for the question, nothing comes.
    fn request(&self, ifindex: u32) {
        let mut m = wire::request(RTM_GETLINK, NLM_F_REQUEST, 0, 0, link::IFINFOMSG);
        m[wire::HEADER + 4..wire::HEADER + 8].copy_from_slice(&ifindex.to_ne_bytes());
        let _ = sys::send(&self.socket, &m);
    }

    /// The next change; `None` when no more waits. When changes were lost, all devices are asked for again.
    pub fn next_event(&mut self) -> Option<LinkEvent> {
        // Bounded: a flood of messages that say nothing must not keep the caller here.
        for _ in 0..1024 {
            while self.at < self.len {
                let (told, next) = parse_one(&self.buf[self.at..self.len]);
                self.at += next;
                match told {
                    Some(Told::Link(event)) => return Some(event),
                    Some(Told::Address(ifindex)) => self.request(ifindex),
                    None => {}
                }
            }
            (self.at, self.len) = (0, 0);
            match sys::recv(&self.socket, &mut self.buf) {
                Ok(n) => self.len = n.min(self.buf.len()),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    let _ = self.request_all();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        None
    }
}

impl AsRawFd for LinkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a message tells.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Link(LinkEvent),
    /// Addresses of the device of this index.
    Address(u32),
}

/// One message of `b` and how many bytes it takes (at least one).
fn parse_one(b: &[u8]) -> (Option<Told>, usize) {
    let mut messages = Messages(b);
    let Some(m) = messages.next() else { return (None, b.len().max(1)) };
    let told = match m.kind {
        RTM_NEWADDR | RTM_DELADDR => wire::u32_at(m.body, 4).map(Told::Address),
        _ => parse_link(&m).map(Told::Link),
    };
    (told, b.len() - messages.0.len())
}

fn parse_link(m: &Message<'_>) -> Option<LinkEvent> {
    if !matches!(m.kind, RTM_NEWLINK | RTM_DELLINK) {
        return None;
    }
    let link = link::parse(m.body)?;
    Some(LinkEvent {
        ifindex: link.ifindex,
        name: link.name,
        up: link.up,
        running: link.up && link.carrier,
        mtu: link.mtu,
        mac: link.mac.map(MacAddr),
        deleted: m.kind == RTM_DELLINK,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;
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
        let mut b = message(RTM_NEWLINK, 0, 0x1_0041);
        b.extend(message(RTM_NEWLINK, 7, 0x1_0041));
        b.extend(message(RTM_DELLINK, 0, 0));
        let mut events = Vec::new();
        let mut at = 0;
        while at < b.len() {
            let (e, n) = parse_one(&b[at..]);
            events.extend(e);
            at += n;
        }
        let up = LinkEvent {
            ifindex: 7,
            name: "eth7".into(),
            up: true,
            running: true,
            mtu: 1500,
            mac: Some(MacAddr([2, 0, 0, 0, 0, 7])),
            deleted: false,
        };
        let gone = LinkEvent { up: false, running: false, deleted: true, ..up.clone() };
        assert_eq!(events, [up, gone].map(Told::Link));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0u32..200) {
            if bytes.len() >= 6 {
                bytes[..4].copy_from_slice(&len.to_ne_bytes());
                bytes[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
            }
            let mut at = 0;
            while at < bytes.len() {
                at += parse_one(&bytes[at..]).1;
            }
        }
    }
}
