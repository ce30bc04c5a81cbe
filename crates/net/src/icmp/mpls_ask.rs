//! What `mpls-icmp-error` is asked for.

use super::Ask;

/// What is wrong with a labelled packet, carried in [`graph::Desc::aux`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsAsk(u32);

impl MplsAsk {
    /// The TTL of its label ran out.
    pub const TTL_EXPIRED: MplsAsk = MplsAsk(1 << 16);
    /// The next router does not answer.
    pub const UNREACHABLE: MplsAsk = MplsAsk(2 << 16);

    /// It is larger than this MTU.
    pub const fn too_big(mtu: u16) -> MplsAsk {
        MplsAsk(3 << 16 | mtu as u32)
    }

    /// As a descriptor's scratch word.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// From a descriptor's scratch word.
    pub const fn from_word(word: u32) -> MplsAsk {
        MplsAsk(word)
    }

    /// The error for an IP packet below `labels` bytes of labels.
    pub(crate) fn icmp(self, v6: bool, labels: usize) -> Ask {
        match (self.0 >> 16, v6) {
            (2, false) => Ask::V4_HOST_UNREACHABLE,
            (2, true) => Ask::V6_NO_ROUTE,
            (3, false) => {
                let mtu = (self.0 as u16).saturating_sub(labels as u16);
                Ask::v4_fragmentation_needed(mtu.max(packet::ip4::MIN_MTU))
            }
            (3, true) => {
                let mtu = (self.0 as u16).saturating_sub(labels as u16);
                Ask::v6_too_big(mtu.max(packet::ip6::MIN_MTU))
            }
            (_, false) => Ask::V4_TTL_EXCEEDED,
            (_, true) => Ask::V6_HOP_LIMIT_EXCEEDED,
        }
    }
}
