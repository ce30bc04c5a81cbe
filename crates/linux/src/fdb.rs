//! Where MAC addresses are, as the kernel tells it (its forwarding databases, linux/neighbour.h), and telling the kernel.

use crate::neighbor::{NDA_DST, NDA_LLADDR, NDMSG, NTF_EXT_LEARNED, NUD_PERMANENT, NUD_REACHABLE};
use crate::route;
use crate::wire::{self, Attributes, Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, kind, u16_at, u32_at};
use std::net::IpAddr;

/// The family of a bridge's addresses, and of a VXLAN device's.
pub const AF_BRIDGE: u8 = 7;

const NDA_VLAN: u16 = 5;
const NDA_MASTER: u16 = 9;
const NTF_MASTER: u8 = 0x04;

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind a port of a bridge.
    Port {
        /// Somebody outside the kernel has learnt it, and forgets it.
        external: bool,
    },
    /// Behind another end of a VXLAN device.
    End(IpAddr),
}

/// What has become of an address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fdb {
    /// Linux's index of the device.
    pub ifindex: u32,
    /// The address; of all zeros: where frames go whose address is nowhere.
    pub mac: [u8; 6],
    /// Where it is, or was.
    pub place: Place,
    /// It is there no more.
    pub gone: bool,
}

/// The entry of a message; `None` for one of another family, for addresses of the host's own, those of a VLAN, and one that is not as it should be.
pub fn parse(m: &Message<'_>) -> Option<Fdb> {
    let head = m.body.get(..NDMSG)?;
    if head[0] != AF_BRIDGE {
        return None;
    }
    let (mut mac, mut end, mut vlan, mut master) = (None, None, 0, false);
    for (attribute, value) in Attributes(&m.body[NDMSG..]) {
        match attribute {
            NDA_LLADDR => mac = value.try_into().ok(),
            NDA_DST => end = Some(route::address(value)?),
            NDA_VLAN => vlan = u16_at(value, 0)?,
            NDA_MASTER => master = true,
            _ => {}
        }
    }
    let place = match end {
        Some(end) => Place::End(end),
        None if master && vlan == 0 && u16_at(head, 8)? & NUD_PERMANENT == 0 => {
            Place::Port { external: head[10] & NTF_EXT_LEARNED != 0 }
        }
        None => return None,
    };
    Some(Fdb { ifindex: u32_at(head, 4)?, mac: mac?, place, gone: m.kind == kind::RTM_DELNEIGH })
}

/// The request that tells the kernel of an address behind a port of a bridge (`bridge fdb replace MAC dev PORT master extern_learn`), or that it is there
/// no more.
pub(crate) fn request(seq: u32, ifindex: u32, mac: [u8; 6], there: bool) -> Vec<u8> {
    let (kind, flags) = match there {
        true => (kind::RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | wire::NLM_F_REPLACE),
        false => (kind::RTM_DELNEIGH, NLM_F_REQUEST | NLM_F_ACK),
    };
    let mut m = wire::request(kind, flags, seq, AF_BRIDGE, NDMSG);
    let head = &mut m[wire::HEADER..];
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    head[8..10].copy_from_slice(&NUD_REACHABLE.to_ne_bytes());
    head[10] = NTF_MASTER | NTF_EXT_LEARNED;
    m.extend(10u16.to_ne_bytes());
    m.extend(NDA_LLADDR.to_ne_bytes());
    m.extend(mac);
    m.extend([0; 2]);
    let len = m.len() as u32;
    m[..4].copy_from_slice(&len.to_ne_bytes());
    m
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Messages;
    use proptest::prelude::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const NTF_SELF: u8 = 0x02;

    /// A message of the kernel's about device 3.
    fn told(kind: u16, state: u16, flags: u8, more: &[(u16, &[u8])]) -> Vec<u8> {
        let mut m = wire::request(kind, 0, 0, AF_BRIDGE, NDMSG);
        m[wire::HEADER + 4] = 3;
        m[wire::HEADER + 8..wire::HEADER + 10].copy_from_slice(&state.to_ne_bytes());
        m[wire::HEADER + 10] = flags;
        for (attribute, value) in more {
            m.extend((value.len() as u16 + 4).to_ne_bytes());
            m.extend(attribute.to_ne_bytes());
            m.extend(*value);
            m.resize(m.len().next_multiple_of(4), 0);
        }
        let len = m.len() as u32;
        m[..4].copy_from_slice(&len.to_ne_bytes());
        m
    }

    fn read(m: &[u8]) -> Option<Fdb> {
        Messages(m).next().and_then(|m| parse(&m))
    }

    #[test]
    fn what_the_kernel_tells() {
        let end = Place::End("10.0.0.2".parse().unwrap());
        let far = (NDA_DST, &[10, 0, 0, 2][..]);
        let (mac, master) = ((NDA_LLADDR, &MAC[..]), (NDA_MASTER, &[5, 0, 0, 0][..]));
        let entry = |place, gone| Some(Fdb { ifindex: 3, mac: MAC, place, gone });
        let permanent = NUD_PERMANENT;
        assert_eq!(read(&told(kind::RTM_NEWNEIGH, permanent, NTF_SELF, &[mac, far])), entry(end, false));
        assert_eq!(read(&told(kind::RTM_DELNEIGH, permanent, NTF_SELF, &[mac, far])), entry(end, true));
        let port = |external| Place::Port { external };
        let seen = told(kind::RTM_NEWNEIGH, NUD_REACHABLE, NTF_EXT_LEARNED, &[mac, master]);
        assert_eq!(read(&seen), entry(port(true), false));
        let heard = told(kind::RTM_NEWNEIGH, NUD_REACHABLE, 0, &[mac, master]);
        assert_eq!(read(&heard), entry(port(false), false));
        // The port's own address, one of a VLAN, one of a group that a device receives.
        assert_eq!(read(&told(kind::RTM_NEWNEIGH, permanent, 0, &[mac, master])), None);
        let vlan = (NDA_VLAN, &[7, 0][..]);
        assert_eq!(read(&told(kind::RTM_NEWNEIGH, NUD_REACHABLE, 0, &[mac, master, vlan])), None);
        assert_eq!(read(&told(kind::RTM_NEWNEIGH, permanent, NTF_SELF, &[mac])), None);
    }

    #[test]
    fn what_the_kernel_is_told_reads_the_same() {
        for there in [true, false] {
            let mut m = request(7, 3, MAC, there);
            assert_eq!(m.len() % 4, 0);
            // The kernel names the bridge when it tells of it.
            m.extend([8, 0, 9, 0, 5, 0, 0, 0]);
            let len = m.len() as u32;
            m[..4].copy_from_slice(&len.to_ne_bytes());
            let place = Place::Port { external: true };
            assert_eq!(read(&m), Some(Fdb { ifindex: 3, mac: MAC, place, gone: !there }));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_taken(message in 28u16..30, body in prop::collection::vec(prop_oneof![4 => 0u8..17, 1 => any::<u8>()], 0..80)) {
            let entry = parse(&Message { kind: message, flags: 0, seq: 0, body: &body });
            prop_assert!(entry.is_none_or(|e| e.gone == (message == kind::RTM_DELNEIGH)));
        }
    }
}
