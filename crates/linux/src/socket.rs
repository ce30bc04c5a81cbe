//! The netlink sockets: one for what changes, one for asking for all.

use crate::address::IFADDRMSG;
use crate::fdb::{self, AF_BRIDGE};
use crate::link::IFINFOMSG;
use crate::neighbor::NDMSG;
use crate::nexthop::NHMSG;
use crate::route::{AF_INET, AF_INET6, AF_MPLS, RTMSG};
use crate::wire::kind::{RTM_GETADDR, RTM_GETLINK, RTM_GETNEIGH, RTM_GETNEXTHOP, RTM_GETROUTE};
use crate::wire::{self, u32_at};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one reading: the kernel fills that much when it tells of all.
pub const RECV: usize = 64 << 10;
/// Bytes that the kernel keeps for us by default.
pub const BUFFER: usize = 32 << 20;

const NLM_F_REQUEST_DUMP: u16 = 0x301;
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_NEIGH: u32 = 3;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;
const RTNLGRP_MPLS_ROUTE: u32 = 27;
const RTNLGRP_NEXTHOP: u32 = 32;

fn groups(routes: bool) -> u32 {
    let devices = [RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR];
    let of_routes = [RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_MPLS_ROUTE, RTNLGRP_NEXTHOP];
    let all = devices.iter().chain(of_routes.iter().filter(|_| routes));
    all.fold(0, |groups, g| groups | 1 << (g - 1))
}

fn socket(groups: u32, buffer: usize) -> io::Result<OwnedFd> {
    // Protocol 0: NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let s = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&s, buffer).is_err() {
        // Without CAP_NET_ADMIN the kernel gives what is allowed.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&s, buffer);
    }
    rustix::net::bind(&s, &SocketAddrNetlink::new(0, groups))?;
    Ok(s)
}

/// The sockets, in the namespace of the thread that opened them.
#[derive(Debug)]
pub struct Sockets {
    events: OwnedFd,
    requests: OwnedFd,
    seq: u32,
    routes: bool,
}

/// What a reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes of messages.
    Bytes(usize),
    /// Nothing waits.
    Empty,
    /// The kernel threw messages away, as we did not read them in time.
    Overflow,
}

/// All of a kind: the message that asks for it, the family, bytes of the kind's fixed header.
pub type Request = (u16, u8, usize);

/// What is asked for of routes, in this order: routes name nexthop objects, and those of labels VRF devices. A kernel without MPLS, asked for routes of labels, would
/// tell those of all other families once more.
pub fn routes() -> impl Iterator<Item = Request> {
    let mpls = std::path::Path::new("/proc/sys/net/mpls").exists();
    [
        (RTM_GETLINK, 0, IFINFOMSG),
        (RTM_GETNEXTHOP, 0, NHMSG),
        (RTM_GETROUTE, AF_INET, RTMSG),
        (RTM_GETROUTE, AF_INET6, RTMSG),
    ]
    .into_iter()
    .chain(mpls.then_some((RTM_GETROUTE, AF_MPLS, RTMSG)))
}
/// What is asked for of devices.
pub const DEVICES: [Request; 2] = [(RTM_GETLINK, 0, IFINFOMSG), (RTM_GETADDR, 0, IFADDRMSG)];
/// All addresses of bridges and VXLAN devices.
pub const FDB: Request = (RTM_GETNEIGH, AF_BRIDGE, NDMSG);
/// All neighbors.
pub const NEIGHBORS: Request = (RTM_GETNEIGH, 0, NDMSG);

impl Sockets {
    /// Opens them. `buffer`: bytes that the kernel keeps of changes that we have not read; `routes`: those of routes are told, too.
    ///
    /// # Errors
    /// No netlink, or no descriptor left.
    pub fn open(buffer: usize, routes: bool) -> io::Result<Sockets> {
        let (events, requests) = (socket(groups(routes), buffer)?, socket(0, BUFFER)?);
        Ok(Sockets { events, requests, seq: 0, routes })
    }

    /// Whether it is told of routes.
    pub fn has_routes(&self) -> bool {
        self.routes
    }

    /// Opens them for asking only: nothing is told of what changes.
    ///
    /// # Errors
    /// No netlink, or no descriptor left.
    pub fn for_requests() -> io::Result<Sockets> {
        Ok(Sockets { events: socket(0, 0)?, requests: socket(0, BUFFER)?, seq: 0, routes: false })
    }

    /// The descriptors that become readable: changes, answers.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.events.as_fd(), self.requests.as_fd()]
    }

    /// Asks for all objects of a kind, and answers the number of the request.
    pub fn request_all(&mut self, (kind, family, body): Request) -> io::Result<u32> {
        self.seq = self.seq.wrapping_add(1).max(1);
        let m = wire::request(kind, NLM_F_REQUEST_DUMP, self.seq, family, body);
        rustix::net::sendto(&self.requests, &m, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(self.seq)
    }

    /// Asks for one link, whichever: the kernel answers when whoever changes something now is done with it (its lock RTNL), which
    /// may tell of a change before it makes it.
    pub fn request_turn(&mut self) -> io::Result<u32> {
        self.seq = self.seq.wrapping_add(1).max(1);
        let mut m = wire::request(RTM_GETLINK, wire::NLM_F_REQUEST, self.seq, 0, IFINFOMSG);
        m[wire::HEADER + 4] = 1;
        rustix::net::sendto(&self.requests, &m, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(self.seq)
    }

    /// Tells the kernel that an address is behind a port of a bridge, or is no more; the number of the request, whose answer says whether it was taken.
    pub(crate) fn tell_fdb(&mut self, ifindex: u32, mac: [u8; 6], there: bool) -> io::Result<u32> {
        self.seq = self.seq.wrapping_add(1).max(1);
        let m = fdb::request(self.seq, ifindex, mac, there);
        rustix::net::sendto(&self.requests, &m, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(self.seq)
    }

    /// Reads what changed.
    pub fn changes(&self, buf: &mut [u8]) -> io::Result<Read> {
        read(&self.events, buf)
    }

    /// Reads answers to requests.
    pub fn answers(&self, buf: &mut [u8]) -> io::Result<Read> {
        read(&self.requests, buf)
    }
}

fn read(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<Read> {
    for _ in 0..64 {
        match rustix::net::recvfrom(fd, &mut *buf, RecvFlags::empty()) {
            // Only the kernel is believed: any process may send to our address.
            Ok((n, _, Some(from)))
                if SocketAddrNetlink::try_from(from.clone()).is_ok_and(|a| a.pid() == 0) =>
            {
                return Ok(Read::Bytes(n));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Read::Empty),
            Err(Errno::NOBUFS) => return Ok(Read::Overflow),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Read::Empty)
}

/// The error number of an `NLMSG_ERROR`; 0 for none.
pub fn error_of(body: &[u8]) -> i32 {
    u32_at(body, 0).map_or(0, |n| -(n as i32))
}
