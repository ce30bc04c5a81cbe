//! Links as the kernel tells them (linux/if_link.h).

use crate::wire::{Attributes, u32_at};

/// Bytes of `struct ifinfomsg`.
pub const IFINFOMSG: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;
/// The carrier itself: IFF_RUNNING follows it up to a second late.
const IFF_LOWER_UP: u32 = 1 << 16;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Linux's index of it.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// It has carrier.
    pub carrier: bool,
    /// Bytes behind the Ethernet header; 0 when the message does not tell.
    pub mtu: u32,
    /// Its address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
}

/// The link of a message. `None` for one that is not as it should be, and for what a bridge tells of its ports under a family of
/// its own: their coming and going is not the device's.
pub fn parse(body: &[u8]) -> Option<Link> {
    let head = body.get(..IFINFOMSG)?;
    if head[0] != 0 {
        return None;
    }
    let flags = u32_at(head, 8)?;
    let mut link = Link {
        ifindex: u32_at(head, 4)?,
        name: String::new(),
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        mtu: 0,
        mac: None,
    };
    for (kind, value) in Attributes(&body[IFINFOMSG..]) {
        match kind {
            IFLA_IFNAME => {
                let text = value.split(|b| *b == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(text).into_owned();
            }
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_ADDRESS => link.mac = value.try_into().ok(),
            _ => {}
        }
    }
    Some(link)
}
