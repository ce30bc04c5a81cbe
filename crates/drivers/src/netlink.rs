//! Requests to Linux about its devices, over rtnetlink.

use crate::error::{Error, system};
use crate::sys;
use linux::wire::{HEADER, Messages, NLMSG_DONE, NLMSG_ERROR, attribute};
pub(crate) use linux::wire::{NLM_F_APPEND, NLM_F_REPLACE};
use std::io;
use std::os::fd::OwnedFd;

pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
/// An attribute that holds attributes.
pub(crate) const NESTED: u16 = 0x8000;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;

/// A request: the header, what its kind begins with, and attributes.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A question.
    pub fn get(kind: u16, body: &[u8]) -> Request {
        Request::new(kind, 0, body)
    }

    /// A change, which Linux acknowledges.
    pub fn change(kind: u16, flags: u16, body: &[u8]) -> Request {
        Request::new(kind, flags | NLM_F_ACK, body)
    }

    fn new(kind: u16, flags: u16, body: &[u8]) -> Request {
        let mut m = vec![0; HEADER];
        m[4..6].copy_from_slice(&kind.to_ne_bytes());
        m[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        m.extend(body);
        Request(m)
    }

    pub fn with(mut self, kind: u16, value: &[u8]) -> Request {
        self.0.extend(attribute(kind, value));
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// A socket for requests, in the namespace in which it was opened.
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// In the calling thread's namespace.
    pub fn here() -> Result<Netlink, Error> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
        Ok(Netlink(socket.map_err(system("open a netlink socket"))?))
    }

    /// Sends a request and answers the first message that comes back: Linux has answered when sending returns.
    pub fn ask(&self, request: Request) -> io::Result<Vec<u8>> {
        sys::send(&self.0, &request.finish())?;
        let mut answer = vec![0; 64 << 10];
        let n = sys::recv(&self.0, &mut answer)?;
        answer.truncate(n);
        Ok(answer)
    }

    /// Asks for all that there is of a kind, and answers those messages that `wanted` takes, without their headers.
    pub fn dump(
        &self,
        kind: u16,
        body: &[u8],
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Vec<Vec<u8>>> {
        sys::send(&self.0, &Request::new(kind, NLM_F_DUMP, body).finish())?;
        let mut found = Vec::new();
        // Linux makes no part longer than half of this.
        let mut part = vec![0; 64 << 10];
        loop {
            let n = sys::recv(&self.0, &mut part)?;
            for m in Messages(part.get(..n).unwrap_or_default()) {
                match m.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        let code = m.body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
                        return if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(found) };
                    }
                    _ if wanted(m.body) => found.push(m.body.to_vec()),
                    _ => {}
                }
            }
        }
    }

    /// Asks for a change; the error is the kernel's.
    pub fn change(&self, request: Request) -> io::Result<()> {
        let answer = self.ask(request)?;
        match Messages(&answer).next().filter(|m| m.kind == NLMSG_ERROR).and_then(|m| m.body.first_chunk()) {
            Some(code) if *code == [0; 4] => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(*code))),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
