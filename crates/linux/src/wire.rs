//! Netlink messages and attributes as they stand in a buffer (RFC 3549, linux/netlink.h): checked views, nothing copied.

/// Bytes of a message's header.
pub const HEADER: usize = 16;

/// Of a request: that it is one.
pub const NLM_F_REQUEST: u16 = 0x1;
/// The kernel is to say what became of it.
pub const NLM_F_ACK: u16 = 0x4;
/// Of a new object: that it may be new.
pub const NLM_F_CREATE: u16 = 0x400;
/// A part of a dump.
pub const NLM_F_MULTI: u16 = 0x2;
/// The dump was taken while what it tells of changed.
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// Of a new object: in place of the one that was there.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Of a new route: behind those of its prefix and metric.
pub const NLM_F_APPEND: u16 = 0x800;

/// An answer to a request: an error number, 0 for none.
pub const NLMSG_ERROR: u16 = 2;
/// The end of a dump.
pub const NLMSG_DONE: u16 = 3;

/// What netlink calls its messages (linux/rtnetlink.h), of links, addresses, routes, neighbors and nexthop objects: one came or
/// has changed, one went, all are asked for.
#[allow(missing_docs)]
pub mod kind {
    pub const RTM_NEWLINK: u16 = 16;
    pub const RTM_DELLINK: u16 = 17;
    pub const RTM_GETLINK: u16 = 18;
    pub const RTM_SETLINK: u16 = 19;
    pub const RTM_NEWADDR: u16 = 20;
    pub const RTM_DELADDR: u16 = 21;
    pub const RTM_GETADDR: u16 = 22;
    pub const RTM_NEWROUTE: u16 = 24;
    pub const RTM_DELROUTE: u16 = 25;
    pub const RTM_GETROUTE: u16 = 26;
    pub const RTM_NEWNEIGH: u16 = 28;
    pub const RTM_DELNEIGH: u16 = 29;
    pub const RTM_GETNEIGH: u16 = 30;
    pub const RTM_NEWNEXTHOP: u16 = 104;
    pub const RTM_DELNEXTHOP: u16 = 105;
    pub const RTM_GETNEXTHOP: u16 = 106;
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What it says (`RTM_...`, `NLMSG_...`).
    pub kind: u16,
    /// `NLM_F_...`.
    pub flags: u16,
    /// Number of the request that it answers; 0 when it answers none.
    pub seq: u32,
    /// What stands behind the header.
    pub body: &'a [u8],
}

/// The messages of a datagram. What does not look like one ends them.
#[derive(Clone, Debug)]
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = u32_at(self.0, 0)? as usize;
        let whole = self.0.get(..len).filter(|m| m.len() >= HEADER)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16_at(whole, 4)?,
            flags: u16_at(whole, 6)?,
            seq: u32_at(whole, 8)?,
            body: &whole[HEADER..],
        })
    }
}

/// Attributes: kind, without the flags of nesting and byte order, and value. What does not look like one ends them.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (len, kind) = (usize::from(u16_at(self.0, 0)?), u16_at(self.0, 2)?);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & 0x3fff, value))
    }
}

/// A number in the machine's byte order.
pub fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

/// A number in the machine's byte order.
pub fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// A request: flags, number, family, and bytes of the kind's fixed header, of which the family is the first.
pub fn request(kind: u16, flags: u16, seq: u32, family: u8, body: usize) -> Vec<u8> {
    let len = HEADER + body;
    let mut m = vec![0; len];
    m[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    m[4..6].copy_from_slice(&kind.to_ne_bytes());
    m[6..8].copy_from_slice(&flags.to_ne_bytes());
    m[8..12].copy_from_slice(&seq.to_ne_bytes());
    m[HEADER] = family;
    m
}

/// An attribute: its length, kind and value, filled up to a multiple of four bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut a = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    a.extend(kind.to_ne_bytes());
    a.extend(value);
    a.resize(a.len().next_multiple_of(4), 0);
    a
}
