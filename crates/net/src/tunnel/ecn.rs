//! Congestion that a packet met in a tunnel (RFC 6040).

use graph::Packet;
use packet::eth::EtherType;
use packet::ip4;
use packet::ip6::{self, Ip6Header};
use packet::vlan::VlanStack;

const CONGESTION: u8 = 3;

/// Hands on what the outer ECN field said, which was not 0 (RFC 6040 section 4.2). False where the packet inside cannot be told and
/// must be dropped.
pub(crate) fn hand_on(outer: u8, what: EtherType, p: &mut Packet<'_>) -> bool {
    // ECT(1) counts for more than ECT(0).
    let marked = |inner: u8| match (inner, outer) {
        (0, CONGESTION) => None,
        (0, _) => Some(0),
        (CONGESTION, _) | (_, CONGESTION) => Some(CONGESTION),
        (1, _) | (_, 1) => Some(1),
        _ => Some(inner),
    };
    let link = VlanStack::parse(p.data()).filter(|_| what == EtherType::TRANSPARENT_ETHERNET);
    let (what, at) = link.map_or((what, 0), |l| (l.ethertype, usize::from(l.header_len)));
    let header = p.data_mut().get_mut(at..).unwrap_or_default();
    if let (EtherType::IPV4, Some(h)) = (what, header.first_chunk_mut::<{ ip4::HEADER_LEN }>()) {
        let tos = h[1];
        let Some(ecn) = marked(tos & 3) else { return false };
        if ecn != tos & 3 {
            ip4::set_tos(h, tos & !3 | ecn);
        }
    } else if let (EtherType::IPV6, Some(h)) = (what, header.first_chunk_mut::<{ ip6::HEADER_LEN }>()) {
        let class = Ip6Header(h).traffic_class();
        let Some(ecn) = marked(class & 3) else { return false };
        if ecn != class & 3 {
            ip6::set_traffic_class(h, class & !3 | ecn);
        }
    }
    true
}
