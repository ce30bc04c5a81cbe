//! What Linux's settings of a device were before the router changed them, kept with the device itself: an alternative name
//! (`quiver.IFINDEX.MTU.MAC`) outlives a router that is killed, moves and ends with the device, and is never another's.

use crate::error::Error;
use crate::netlink::{NESTED, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, Netlink, Request};
use crate::netns;
use linux::wire::kind::RTM_GETLINK;
use linux::wire::{Attributes, attribute};
use packet::MacAddr;

const RTM_NEWLINKPROP: u16 = 108;
const RTM_DELLINKPROP: u16 = 109;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;
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
    pub fn name(self, ifindex: u32) -> String {
        let mac: String = self.mac.0.iter().map(|b| format!("{b:02x}")).collect();
        format!("quiver.{ifindex}.{}.{mac}", self.mtu)
    }

    pub fn parse(name: &str, ifindex: u32) -> Option<Origin> {
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

/// The alternative names of a device among its attributes, each with a zero behind it.
pub(crate) fn alternative_names(link: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lists = Attributes(link).filter(|(kind, _)| *kind == IFLA_PROP_LIST);
    let all = lists.flat_map(|(_, list)| Attributes(list));
    all.filter(|(kind, _)| *kind == IFLA_ALT_IFNAME).map(|(_, name)| name)
}

/// Where notes of a device are written and read.
pub(crate) struct Notes {
    socket: Netlink,
    ifindex: u32,
}

impl Notes {
    /// For a device of a namespace.
    pub fn open(netns: Option<&str>, ifindex: u32) -> Result<Notes, Error> {
        Ok(Notes { socket: netns::within(netns, Netlink::here)?, ifindex })
    }

    /// `struct ifinfomsg` of the device.
    fn device(&self) -> [u8; 16] {
        let mut info = [0; 16];
        info[4..8].copy_from_slice(&self.ifindex.to_ne_bytes());
        info
    }

    fn change(&self, kind: u16, flags: u16, note: &str) {
        let name = attribute(IFLA_ALT_IFNAME, &[note.as_bytes(), &[0]].concat());
        let request = Request::change(kind, flags, &self.device()).with(IFLA_PROP_LIST | NESTED, &name);
        // Older kernels cannot; the router runs without as well.
        let _ = self.socket.change(request);
    }

    /// What was noted of the device, by this router or one that is dead: the first note that `parse` understands.
    pub fn find<R>(&self, parse: impl Fn(&str) -> Option<R>) -> Option<(String, R)> {
        let answer = self.socket.ask(Request::get(RTM_GETLINK, &self.device())).ok()?;
        alternative_names(answer.get(HEADERS..)?).find_map(|name| {
            let name = std::str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
            Some((name.to_owned(), parse(name)?))
        })
    }

    /// Notes it.
    pub fn write(&self, note: &str) {
        self.change(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND, note);
    }

    /// Takes the note away.
    pub fn erase(&self, note: &str) {
        self.change(RTM_DELLINKPROP, 0, note);
    }
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
