//! Requests to Linux about its devices, over rtnetlink.

use crate::error::{Error, system};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// An attribute that holds attributes.
pub(crate) const NESTED: u16 = 0x8000;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;

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
            let mut rest = part.get(..n).unwrap_or_default();
            while let Some((kind, body, behind)) = message(rest) {
                match kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        let code = body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
                        return if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(found) };
                    }
                    _ if wanted(body) => found.push(body.to_vec()),
                    _ => {}
                }
                rest = behind;
            }
        }
    }

    /// Asks for a change; the error is the kernel's.
    pub fn change(&self, request: Request) -> io::Result<()> {
        let answer = self.ask(request)?;
        let code = answer.get(HEADER..HEADER + 4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
        match (answer.get(4..6).map(|k| k == NLMSG_ERROR.to_ne_bytes()), code) {
            (Some(true), Some(0)) => Ok(()),
            (Some(true), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// An attribute with its length, filled up to a multiple of four bytes.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut a = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    a.extend(kind.to_ne_bytes());
    a.extend(value);
    a.resize(a.len().next_multiple_of(4), 0);
    a
}

/// The first of several messages: its kind, what it holds, and the rest.
fn message(all: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = usize::try_from(u32::from_ne_bytes(*all.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(all.get(4..6)?.try_into().ok()?);
    Some((kind, all.get(HEADER..len)?, all.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// Attributes of a message: kind and value.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(word(0)?), word(2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}
