//! Neighbors as the kernel tells them (linux/neighbour.h).

use crate::route::{self, AF_INET, AF_INET6};
use crate::wire::{Attributes, Message, kind, u16_at, u32_at};
use std::net::IpAddr;

/// Bytes of `struct ndmsg`.
pub const NDMSG: usize = 12;

pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
const NDA_PROTOCOL: u16 = 12;
const NTF_PROXY: u8 = 8;
pub(crate) const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NUD_DELAY: u16 = 0x08;
const NUD_PROBE: u16 = 0x10;
const NUD_NOARP: u16 = 0x40;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
pub(crate) const NTF_EXT_LEARNED: u8 = 0x10;

/// What the kernel knows of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// Nothing, or nothing any more.
    Nothing,
    /// Its MAC address, which it has heard.
    Learnt([u8; 6]),
    /// Its MAC address, which somebody has said (`nud permanent`; an EVPN daemon says `nud noarp extern_learn`).
    Permanent([u8; 6]),
}

/// A neighbor of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Linux's index of the device.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
    /// What is known of it.
    pub knows: Knows,
    /// Who said so (`ip neighbor ... protocol`); 0: nobody in particular.
    pub protocol: u8,
}

/// The neighbor of a message; `None` for one of another family, one for whom the host answers, or one that is not as it should be.
pub fn parse(m: &Message<'_>) -> Option<Neighbor> {
    let head = m.body.get(..NDMSG)?;
    if !matches!(head[0], AF_INET | AF_INET6) || head[10] & NTF_PROXY != 0 {
        return None;
    }
    let state = u16_at(head, 8)?;
    let (mut address, mut mac, mut protocol) = (None, None, 0);
    for (kind, value) in Attributes(&m.body[NDMSG..]) {
        match kind {
            NDA_DST => address = Some(route::address(value)?),
            NDA_LLADDR => mac = value.try_into().ok(),
            NDA_PROTOCOL => protocol = *value.first()?,
            _ => {}
        }
    }
    let knows = match mac {
        Some(mac) if m.kind == kind::RTM_NEWNEIGH => match state {
            NUD_PERMANENT => Knows::Permanent(mac),
            NUD_NOARP if head[10] & NTF_EXT_LEARNED != 0 => Knows::Permanent(mac),
            NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE => Knows::Learnt(mac),
            _ => Knows::Nothing,
        },
        _ => Knows::Nothing,
    };
    Some(Neighbor { ifindex: u32_at(head, 4)?, address: address?, knows, protocol })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_taken(message in 28u16..30, body in prop::collection::vec(prop_oneof![4 => 0u8..17, 1 => any::<u8>()], 0..80)) {
            let known = parse(&Message { kind: message, flags: 0, seq: 0, body: &body });
            prop_assert!(known.is_none_or(|n| message == kind::RTM_NEWNEIGH || n.knows == Knows::Nothing));
        }
    }
}
