//! Changes of Linux's devices as they happen, from a netlink socket (rtnetlink, group RTMGRP_LINK).

use crate::error::{Error, privileged, system};
use crate::linux::RTMGRP_LINK;
use crate::{netns, sys};
use packet::MacAddr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

const NLMSG_HDR: usize = 16;
const IFINFO: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
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
            sys::bind(&s, &sys::netlink_address(RTMGRP_LINK))
                .map_err(privileged("watching the links", "CAP_NET_ADMIN"))?;
            Ok(s)
        })?;
        Ok(LinkWatch { socket, buf: vec![0; RECV].into_boxed_slice(), len: 0, at: 0 })
    }

    /// Asks for the present state of every device: it comes as events.
    pub fn request_all(&self) -> io::Result<()> {
        let mut m = [0u8; NLMSG_HDR + IFINFO];
        m[..4].copy_from_slice(&((NLMSG_HDR + IFINFO) as u32).to_ne_bytes());
        m[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
        m[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
        sys::send(&self.socket, &m).map(drop)
    }

    /// The next change; `None` when no more waits. When changes were lost, all devices are asked for again.
    pub fn next_event(&mut self) -> Option<LinkEvent> {
        // Bounded: a flood of messages that say nothing must not keep the caller here.
        for _ in 0..1024 {
            while self.at < self.len {
                let (event, next) = parse_one(&self.buf[self.at..self.len]);
                self.at += next;
                if event.is_some() {
                    return event;
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

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// One message of `b` and how many bytes it takes (at least one).
fn parse_one(b: &[u8]) -> (Option<LinkEvent>, usize) {
    let len = u32_at(b, 0).map_or(0, |n| n as usize);
    if len < NLMSG_HDR || len > b.len() {
        return (None, b.len().max(1));
    }
    (parse_link(&b[..len]), len.next_multiple_of(4))
}

fn parse_link(m: &[u8]) -> Option<LinkEvent> {
    let kind = u16_at(m, 4)?;
    let info = m.get(NLMSG_HDR..)?;
    // A bridge reports its ports under a family of its own: their coming and going is not the device's.
    if !matches!(kind, RTM_NEWLINK | RTM_DELLINK) || *info.first()? != libc::AF_UNSPEC as u8 {
        return None;
    }
    let flags = u32_at(info, 8)?;
    let mut event = LinkEvent {
        ifindex: u32_at(info, 4)?,
        name: String::new(),
        up: flags & libc::IFF_UP as u32 != 0,
        // The carrier itself: IFF_RUNNING follows it up to a second late.
        running: flags & libc::IFF_UP as u32 != 0 && flags & libc::IFF_LOWER_UP as u32 != 0,
        mtu: 0,
        mac: None,
        deleted: kind == RTM_DELLINK,
    };
    let mut rest = info.get(IFINFO..)?;
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let len = usize::from(len);
        let Some(value) = rest.get(4..len) else { break };
        match kind {
            IFLA_IFNAME => {
                let text = value.split(|b| *b == 0).next().unwrap_or_default();
                event.name = String::from_utf8_lossy(text).into_owned();
            }
            IFLA_MTU => event.mtu = u32_at(value, 0)?,
            IFLA_ADDRESS => event.mac = value.try_into().ok().map(MacAddr),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut a = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        a.extend(kind.to_ne_bytes());
        a.extend(value);
        a.resize(a.len().next_multiple_of(4), 0);
        a
    }

    fn message(kind: u16, family: u8, flags: u32) -> Vec<u8> {
        let mut m = vec![0; 4];
        m.extend(kind.to_ne_bytes());
        m.resize(NLMSG_HDR, 0);
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
        assert_eq!(events, [up, gone]);
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
