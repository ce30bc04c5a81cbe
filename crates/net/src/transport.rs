//! UDP and TCP to the router: datagrams are checked before a feature takes them or their sender is told that nobody listens, and a segment
//! to a port on which nothing listens is answered with a reset (RFC 9293 section 3.10.7.1).

use graph::{Packet, flags};
use packet::checksum::Sum;
use packet::tcp::{self, TcpBuilder, TcpView, flag};
use packet::udp;

/// What is wrong with a datagram or segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its lengths do not fit each other, or the packet.
    Length,
    /// Its checksum is wrong, or missing over IPv6.
    Checksum,
}

/// Whether `sum` with the `len` bytes of the packet from `at` on is the sum of what holds its own checksum. The checksum of a
/// packet that a Linux peer left partial, or verified, is right.
fn is_valid(p: &Packet<'_>, at: usize, len: usize, sum: Sum) -> bool {
    if p.has(flags::CSUM_PARTIAL | flags::CSUM_VALID | flags::GSO) {
        return true;
    }
    sum_of(p, at, len, sum).is_some_and(Sum::is_valid)
}

/// `sum` with the `len` bytes of the packet from `at` on, which lies in its first buffer; `None` where it has not as many.
pub(crate) fn sum_of(p: &Packet<'_>, at: usize, len: usize, sum: Sum) -> Option<Sum> {
    let (mut sum, mut skip, mut left) = (sum, at, len);
    for part in p.env.buffers.parts(p.d) {
        let part = part.get(skip.min(part.len())..).unwrap_or_default();
        skip = 0;
        let part = &part[..part.len().min(left)];
        sum.append(Sum::of(part));
        left -= part.len();
    }
    (left == 0).then_some(sum)
}

/// Whether segments for ports on which nothing listens are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpResets(pub bool);

impl TcpResets {
    /// The word for it.
    pub fn name(self) -> &'static str {
        if self.0 { "on" } else { "off" }
    }
}

impl Default for TcpResets {
    fn default() -> Self {
        TcpResets(true)
    }
}

/// Checks the UDP datagram at `at` of a packet (RFC 768, RFC 1122 section 4.1.3.4, RFC 8200 section 8.1). `pseudo` is the sum
/// of the pseudo header of so many bytes; `bare` says whether it may go without a checksum.
pub(crate) fn check_udp(
    p: &Packet<'_>,
    at: usize,
    bare: bool,
    pseudo: impl FnOnce(u16) -> Sum,
) -> Result<(), Fault> {
    let mut h = [0; udp::HEADER_LEN];
    if p.env.buffers.copy_out(p.d, at, &mut h) < h.len() {
        return Err(Fault::Length);
    }
    let len = u16::from_be_bytes([h[4], h[5]]);
    if p.has(flags::GSO) {
        return Ok(());
    }
    if usize::from(len) < h.len() || usize::from(len) > p.total_len() - at {
        return Err(Fault::Length);
    }
    match h[6..] {
        [0, 0] if bare => Ok(()),
        [0, 0] => Err(Fault::Checksum),
        _ if is_valid(p, at, len.into(), pseudo(len)) => Ok(()),
        _ => Err(Fault::Checksum),
    }
}

/// The segment that resets the sender of the one at `at` of a packet, which is checked first; `None` for a reset, which is not
/// answered. `pseudo` is the sum of the pseudo header of so many bytes.
pub(crate) fn reset(
    p: &Packet<'_>,
    at: usize,
    pseudo: impl FnOnce(u32) -> Sum,
) -> Result<Option<TcpBuilder<'static>>, Fault> {
    let len = p.total_len().saturating_sub(at);
    let mut h = [0; tcp::MAX_HEADER_LEN];
    let have = p.env.buffers.copy_out(p.d, at, &mut h);
    let t = TcpView::parse(&h[..have]).map_err(|_| Fault::Length)?;
    if !is_valid(p, at, len, pseudo(len as u32)) {
        return Err(Fault::Checksum);
    }
    if t.flags() & flag::RST != 0 {
        return Ok(None);
    }
    let answer = TcpBuilder { window: 0, ..TcpBuilder::new(t.dst_port(), t.src_port()) };
    if t.flags() & flag::ACK != 0 {
        return Ok(Some(TcpBuilder { seq: t.ack(), flags: flag::RST, ..answer }));
    }
    let one = |bit: u8| u32::from(t.flags() & bit != 0);
    let covered = (len - t.header_len()) as u32 + one(flag::SYN) + one(flag::FIN);
    let ack = t.seq().wrapping_add(covered);
    Ok(Some(TcpBuilder { ack, flags: flag::RST | flag::ACK, ..answer }))
}
