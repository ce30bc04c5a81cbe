//! Interfaces as workers see them.

mod bridge_port;
mod features;
mod midchain;
mod pseudowire;
pub mod retag;
mod settings;
mod summary;

pub use bridge_port::{BdIndex, BridgePort, bflags};
pub use features::{Bits, DIRECTED_BROADCAST, L2_XCONNECT, MtuOf, SETTINGS, Switch};
pub use midchain::{Fixup, MIDCHAIN_TX, Midchain, Varies};
pub use pseudowire::{Pseudowire, TUNNEL_TX};
pub use retag::{Retag, RetagError};
pub use settings::{Column, Columns, Declared, Setting, SettingValue, Settings, Word, Words};
pub use summary::{IfSummaries, IfSummary};

use graph::{Desc, TxCaps, flags};
use packet::eth::{EtherType, MacAddr};
use std::sync::Arc;
use tables::vlan::VlanTable;

/// The number of an interface or sub-interface; 0 is `local0`, which never carries packets.
pub type IfIndex = u32;

/// The most interfaces and sub-interfaces.
pub const MAX_INTERFACES: usize = 65_536;

/// Set in [`Desc::flags`] of the copy of a frame that is mirrored for as long as it is in the router, in a tunnel and out of it: it
/// is not mirrored again.
pub const MIRRORED: u16 = flags::USER << 4;
/// Two bits of [`Desc::flags`] that count in how many tunnels a packet was put here. Routes may lead from one into another and back,
/// or out of one into the next, and a frame has nothing else that ends its way.
pub const NESTED: u16 = flags::USER << 5;
/// As many as may be.
pub const MOST_NESTED: u16 = 3 * NESTED;

/// What was inside of another packet comes in on interface `index`, where it is to visit these features. What was known of the
/// packet around it does not hold for it.
#[inline]
pub fn comes_in(d: &mut Desc, index: IfIndex, features: u32) {
    (d.rx, d.l2, d.feat) = (index, d.off, features);
    d.flags &= flags::TRACED | flags::CHAINED | MIRRORED | MOST_NESTED;
}

/// Bits of [`Interface::flags`].
pub mod ifflags {
    /// Administratively up.
    pub const UP: u16 = 1 << 0;
    /// The link carries packets.
    pub const LINK: u16 = 1 << 1;
    /// A cross-connect or a bridge domain takes all its packets.
    pub const L2: u16 = 1 << 2;
    /// Has an IPv4 address.
    pub const IP4: u16 = 1 << 3;
    /// Has an IPv6 address.
    pub const IP6: u16 = 1 << 4;
    /// Takes packets for any destination MAC.
    pub const PROMISC: u16 = 1 << 5;
    /// Its addresses are those of another interface.
    pub const UNNUMBERED: u16 = 1 << 6;
    /// Sends router advertisements: router solicitations are for the control side.
    pub const ADVERTISES: u16 = 1 << 7;
    /// The interface through which a bridge domain is routed.
    pub const BVI: u16 = 1 << 8;
    /// Linux has what is for the router itself: there is a pair.
    pub const LINUX: u16 = 1 << 10;
}

/// The tags that a sub-interface puts in front, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// 0 to 2.
    pub count: u8,
    /// TPID and TCI of each, as on the wire.
    pub bytes: [u8; 8],
}

impl Tags {
    /// The bytes of all tags.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count.min(2)) * 4]
    }

    /// Bytes of the tags that count towards the MTU of a Linux device: Linux lets a frame be longer by one 802.1Q tag,
    /// the outermost one.
    pub fn beyond_mtu(&self) -> u32 {
        let all = self.as_slice();
        let free = if all.starts_with(&[0x81, 0x00]) { 4 } else { 0 };
        all.len() as u32 - free
    }
}

/// Writes an Ethernet header with `tags` to the start of `out` and answers its length (14, 18 or 22).
pub fn l2_header(out: &mut [u8; 22], dst: MacAddr, src: MacAddr, tags: &Tags, ethertype: EtherType) -> usize {
    out[..6].copy_from_slice(&dst.0);
    out[6..12].copy_from_slice(&src.0);
    let t = tags.as_slice();
    out[12..12 + t.len()].copy_from_slice(t);
    out[12 + t.len()..14 + t.len()].copy_from_slice(&ethertype.0.to_be_bytes());
    14 + t.len()
}

/// Takes a priority tag, which `i`, on which a frame came, does not put on itself, off the frame's Ethernet header, which ends
/// where the packet begins. False, and nothing done, where there is no such header.
pub fn untag(p: &mut graph::Packet<'_>, i: &Interface) -> bool {
    let (l2, l3) = (usize::from(p.d.l2), usize::from(p.d.off));
    let Some(header) = p.env.buffers.room_mut(&p.d.buf).get_mut(l2..l3).filter(|h| h.len() >= 14) else {
        return false;
    };
    let tag = header.len() >= 18 + i.tags.as_slice().len() && header[14] & 0x0f == 0 && header[15] == 0;
    if tag {
        header.copy_within(..12, 4);
        p.d.l2 += 4;
    }
    true
}

/// An interface or sub-interface, never changed in place. What is asked of it for frames on layer 2 and on output stands in
/// its first cache line: there may be thousands of them.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Interface {
    /// See [`ifflags`].
    pub flags: u16,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// The interface whose queues carry its packets; its own number unless it is a sub-interface.
    pub hw: IfIndex,
    /// Enabled features on the `interface-output` arc.
    pub output: u32,
    /// Enabled features on the `l2-output` arc.
    pub l2_output: u32,
    /// What it is to its bridge domain.
    pub bridge: Option<BridgePort>,
    /// What becomes of the tags of frames on layer 2.
    pub retag: Retag,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Enabled features on the `ip4-unicast` arc.
    pub ip4_unicast: u32,
    /// Enabled features on the `ip6-unicast` arc.
    pub ip6_unicast: u32,
    /// Enabled features on the `l2-input` arc; a cross-connect is among them where there are others.
    pub l2_input: u32,
    /// Enabled features on the `mpls-input` arc.
    pub mpls_input: u32,
    /// Enabled features on the `ip4-local` arc.
    pub ip4_local: u32,
    /// Enabled features on the `ip6-local` arc.
    pub ip6_local: u32,
    /// Enabled features on the `ip4-punt` arc; 0: packets to the router are nobody else's.
    pub ip4_punt: u32,
    /// Enabled features on the `ip6-punt` arc.
    pub ip6_punt: u32,
    /// Enabled features on the `device-input` arc, for frames that reach it in other packets.
    pub input: u32,
    /// Place of its IPv4 table.
    pub table4: u32,
    /// Place of its IPv6 table.
    pub table6: u32,
    /// Its sub-interfaces by tag; `None` when it has none.
    pub subs: Option<Arc<VlanTable>>,
    /// Where a cross-connect sends its packets.
    pub xconnect: Option<IfIndex>,
    /// What the device does for packets sent.
    pub caps: TxCaps,
    /// What it was told, as features declare it.
    pub settings: Words,
    /// Tags to put in front on output.
    pub tags: Tags,
    /// The pseudowire that its frames take.
    pub tunnel: Option<Pseudowire>,
    /// What it puts around its packets, where it is no device.
    pub midchain: Option<Arc<Midchain>>,
    /// Its IPv4 addresses (host order) with prefix lengths.
    pub addrs4: Box<[(u32, u8)]>,
    /// Its usable IPv6 addresses with prefix lengths, link-local first.
    pub addrs6: Box<[(u128, u8)]>,
    /// IPv4 groups that it has joined, in order (host order).
    pub groups4: Box<[u32]>,
    /// IPv6 groups that it has joined, in order.
    pub groups6: Box<[u128]>,
    /// IPv6 addresses under duplicate address detection: not usable, but defended.
    pub tentative6: Box<[u128]>,
}

const _: () = assert!(core::mem::offset_of!(Interface, ip4_unicast) <= 64);

/// One that is down and does nothing.
impl Default for Interface {
    fn default() -> Self {
        Interface {
            flags: 0,
            mtu: 1500,
            hw: 0,
            output: 0,
            l2_output: 0,
            bridge: None,
            retag: Retag::default(),
            mac: [0; 6],
            ip4_unicast: 0,
            ip6_unicast: 0,
            l2_input: 0,
            mpls_input: 0,
            ip4_local: 0,
            ip6_local: 0,
            ip4_punt: 0,
            ip6_punt: 0,
            input: 0,
            table4: 0,
            table6: 0,
            subs: None,
            xconnect: None,
            caps: TxCaps::default(),
            settings: Words::default(),
            tags: Tags::default(),
            tunnel: None,
            midchain: None,
            addrs4: Box::default(),
            addrs6: Box::default(),
            groups4: Box::default(),
            groups6: Box::default(),
            tentative6: Box::default(),
        }
    }
}

impl Interface {
    /// True when all of `bits` are set.
    #[inline]
    pub fn is(&self, bits: u16) -> bool {
        self.flags & bits == bits
    }

    /// True when frames to it, whose number is `index`, go to its device as they are, unless it has features to visit.
    #[inline]
    pub fn is_ready(&self, index: IfIndex) -> bool {
        let up = ifflags::UP | ifflags::LINK;
        self.hw == index && self.flags & (up | ifflags::BVI) == up
    }

    /// True when its frames, which are on layer 2, go to its cross-connect at once.
    #[inline]
    pub fn is_xconnect(&self) -> bool {
        self.bridge.is_none() && self.l2_input == 0
    }

    /// True when it takes IPv4 packets.
    #[inline]
    pub fn takes_ip4(&self) -> bool {
        self.is(ifflags::IP4)
    }

    /// True when it takes IPv6 packets.
    #[inline]
    pub fn takes_ip6(&self) -> bool {
        self.is(ifflags::IP6)
    }

    /// The IPv4 address to use as source towards `dst` on this interface: one of the prefix that holds it, else the
    /// first.
    pub fn source4(&self, dst: u32) -> Option<u32> {
        let on_link = self.addrs4.iter().find(|(a, l)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*l)).unwrap_or(0);
            (a ^ dst) & mask == 0
        });
        on_link.or(self.addrs4.first()).map(|a| a.0)
    }

    /// The IPv6 address to use as source towards `dst` on this interface: link-local for link-local destinations, else
    /// the address with the longest common prefix (RFC 6724 rules 2 and 8).
    pub fn source6(&self, dst: u128) -> Option<u128> {
        let link_local = |a: u128| a >> 118 == 0xfe80 >> 6 || a >> 112 & 0xff0f == 0xff02;
        let want = link_local(dst);
        let best = self.addrs6.iter().filter(|(a, _)| (*a >> 118 == 0xfe80 >> 6) == want);
        let best = best.max_by_key(|(a, _)| (a ^ dst).leading_zeros());
        best.or(self.addrs6.first()).map(|a| a.0)
    }

    /// Whether an address is one of its own that it may use.
    pub fn has6(&self, a: u128) -> bool {
        self.addrs6.iter().any(|(own, _)| *own == a)
    }

    /// Whether an address is the subnet-router anycast address of one of its prefixes (RFC 4291 section 2.6.1): a prefix of
    /// two routers has none (RFC 6164), nor has a link-local one.
    pub fn is_anycast6(&self, a: u128) -> bool {
        let of = |(own, len): &(u128, u8)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(*len)).unwrap_or(0);
            *len < 127 && own & mask == a && own >> 118 != 0xfe80 >> 6
        };
        a != 0 && self.addrs6.iter().any(of) && self.addrs6.iter().all(|(own, _)| *own != a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_gives_room_for_one_dot1q_tag() {
        let tags = |tpids: &[u16]| {
            let mut t = Tags { count: tpids.len() as u8, bytes: [0; 8] };
            for (n, tpid) in tpids.iter().enumerate() {
                t.bytes[n * 4..n * 4 + 2].copy_from_slice(&tpid.to_be_bytes());
            }
            t.beyond_mtu()
        };
        assert_eq!(tags(&[]), 0);
        assert_eq!(tags(&[0x8100]), 0);
        assert_eq!(tags(&[0x88a8]), 4);
        assert_eq!(tags(&[0x8100, 0x8100]), 4);
        assert_eq!(tags(&[0x88a8, 0x8100]), 8);
    }
}
