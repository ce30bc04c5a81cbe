//! What Linux's settings of a device were before the router changed them, kept with the device itself: an alternative name
//! (`quiver.IFINDEX.MTU.MAC`) outlives a router that is killed, moves and ends with the device, and is never another's.

use crate::error::{Error, system};
use crate::{netns, sys};
use packet::MacAddr;
use std::os::fd::OwnedFd;

const RTM_GETLINK: u16 = 18;
const RTM_NEWLINKPROP: u16 = 108;
const RTM_DELLINKPROP: u16 = 109;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE_NEW: u16 = 0x200 | 0x400 | 0x800;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;
const NESTED: u16 = 0x8000;
const HEADERS: usize = 32;

/// The settings of a device that are not the router's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Bytes behind the Ethernet header.
    pub mtu: u32,
    /// Its address.
    pub mac: MacAddr,
}

impl Origin {
    fn name(self, ifindex: u32) -> String {
        let mac: String = self.mac.0.iter().map(|b| format!("{b:02x}")).collect();
        format!("quiver.{ifindex}.{}.{mac}", self.mtu)
    }

    fn parse(name: &str, ifindex: u32) -> Option<Origin> {
        let rest = name.strip_prefix("quiver.")?.strip_prefix(&ifindex.to_string())?.strip_prefix('.')?;
        let (mtu, mac) = rest.split_once('.')?;
        let digits = |n: usize| u8::from_str_radix(mac.get(2 * n..2 * n + 2)?, 16).ok();
        let mut bytes = [0; 6];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = digits(n)?;
        }
        (mac.len() == 12).then_some(Origin { mtu: mtu.parse().ok()?, mac: MacAddr(bytes) })
    }
}

/// Where a device's note is written and read.
pub(super) struct Notes {
    socket: OwnedFd,
    ifindex: u32,
}

impl Notes {
    /// For a device of a namespace.
    pub fn open(netns: Option<&str>, ifindex: u32) -> Result<Notes, Error> {
        let socket = netns::within(netns, || {
            sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
                .map_err(system("open a netlink socket"))
        })?;
        Ok(Notes { socket, ifindex })
    }

    fn message(&self, kind: u16, flags: u16, name: Option<&str>) -> Vec<u8> {
        let mut m = vec![0; HEADERS];
        m[4..6].copy_from_slice(&kind.to_ne_bytes());
        m[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        m[20..24].copy_from_slice(&self.ifindex.to_ne_bytes());
        if let Some(name) = name {
            let mut alt = ((5 + name.len()) as u16).to_ne_bytes().to_vec();
            alt.extend(IFLA_ALT_IFNAME.to_ne_bytes());
            alt.extend(name.bytes().chain([0]));
            alt.resize(alt.len().next_multiple_of(4), 0);
            m.extend(((4 + alt.len()) as u16).to_ne_bytes());
            m.extend((IFLA_PROP_LIST | NESTED).to_ne_bytes());
            m.extend(alt);
        }
        let len = m.len() as u32;
        m[..4].copy_from_slice(&len.to_ne_bytes());
        m
    }

    /// Sends a request and answers the first message that comes back: Linux has answered when sending returns.
    fn ask(&self, message: &[u8]) -> Option<Vec<u8>> {
        sys::send(&self.socket, message).ok()?;
        let mut answer = vec![0; 64 << 10];
        let n = sys::recv(&self.socket, &mut answer).ok()?;
        answer.truncate(n);
        Some(answer)
    }

    /// What was noted of the device, by this router or one that is dead.
    pub fn read(&self) -> Option<Origin> {
        let answer = self.ask(&self.message(RTM_GETLINK, 0, None))?;
        let list = attributes(answer.get(HEADERS..)?).find(|(kind, _)| *kind & !NESTED == IFLA_PROP_LIST)?.1;
        attributes(list).filter(|(kind, _)| *kind == IFLA_ALT_IFNAME).find_map(|(_, name)| {
            let name = std::str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
            Origin::parse(name, self.ifindex)
        })
    }

    /// Notes it. Older kernels cannot; the router runs without as well.
    pub fn write(&self, origin: Origin) {
        let name = origin.name(self.ifindex);
        let _ = self.ask(&self.message(RTM_NEWLINKPROP, NLM_F_ACK | NLM_F_CREATE_NEW, Some(&name)));
    }

    /// Takes the note away.
    pub fn erase(&self, origin: Origin) {
        let name = origin.name(self.ifindex);
        let _ = self.ask(&self.message(RTM_DELLINKPROP, NLM_F_ACK, Some(&name)));
    }
}

/// Attributes of a netlink message: kind and value.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(word(0)?), word(2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let origin = Origin { mtu: 1500, mac: MacAddr([2, 0, 0xfe, 0, 1, 0xff]) };
        let name = origin.name(12);
        assert_eq!(name, "quiver.12.1500.0200fe0001ff");
        assert_eq!(Origin::parse(&name, 12), Some(origin));
        for other in
            ["quiver.1.1500.0200fe0001ff", "quiver.12.1500.0200fe0001f", "quiver.12.x.0200fe0001ff", "eth0"]
        {
            assert_eq!(Origin::parse(other, 12), None);
        }
    }
}
