//! Offloads done in software, late: what was one packet all the way through the graph becomes whole packets where it
//! leaves. Payload is named where it lies, never copied here.

use graph::buffer::DATA;
use graph::{Buffers, Desc};
use packet::checksum::Sum;
use packet::gso::{Gso, GsoKind, VnetHdr};

/// Who completes checksums and cuts super-frames that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// What keeps captures on the other side right: AF_PACKET sends whole packets, a TAP complete checksums.
    #[default]
    Auto,
    /// The Linux side: it gets partial checksums and super-frames as they are.
    On,
    /// Quiver: whole packets leave (and on a TAP, come in).
    Off,
}

/// Most bytes of headers of a super-frame: Ethernet, tags, IP with options or extension headers, TCP with options.
pub const MAX_HEADERS: usize = 256;

/// Where the partial checksum of a packet stands, from the packet's current header on, and what it is when completed;
/// `None` when its place is not within the first buffer.
pub fn checksum(buffers: &Buffers, d: &Desc) -> Option<(usize, u16)> {
    let m = buffers.meta(&d.buf);
    let start = usize::from(m.csum_start.checked_sub(d.off)?);
    let at = start + usize::from(m.csum_offset);
    let mut parts = buffers.parts(d);
    let first = parts.next()?;
    if at + 2 > first.len() {
        return None;
    }
    let mut sum = Sum::of(first.get(start..)?);
    for part in parts {
        sum.add_bytes(part);
    }
    // 0xffff for 0 is needed by UDP and does no harm to the others.
    Some((at, sum.checksum_nonzero()))
}

/// Completes the partial checksum of a packet in place; false when its place is not within the first buffer. The
/// descriptor's flag is the caller's to clear.
pub fn complete(buffers: &mut Buffers, d: &Desc) -> bool {
    let Some((at, sum)) = checksum(buffers, d) else { return false };
    buffers.data_mut(d)[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The packet in one buffer, where it fits and there is one. It is the caller's still.
pub fn in_one(buffers: &mut Buffers, d: &Desc, scratch: &mut [u8]) -> Option<Desc> {
    let n = buffers.copy_out(d, 0, scratch);
    let fits = n == buffers.total_len(d) && n <= DATA;
    if fits { buffers.alloc_bytes(scratch.get(..n)?) } else { None }
}

/// How a super-frame ([`graph::flags::GSO`]) is cut; `None` when its meta makes no sense.
pub fn gso(buffers: &Buffers, d: &Desc) -> Option<Gso> {
    let m = buffers.meta(&d.buf);
    let kind = match m.gso_type & !VnetHdr::GSO_ECN {
        VnetHdr::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHdr::GSO_TCPV6 => GsoKind::Tcp6,
        VnetHdr::GSO_UDP_L4 => GsoKind::Udp,
        _ => return None,
    };
    (m.gso_size != 0).then_some(Gso { kind, size: m.gso_size })
}
