//! What becomes of the VLAN tags of a frame where it enters and leaves layer 2.

use crate::interface::Tags;
use graph::Packet;
use packet::eth::EtherType;

/// The change of tags on an interface: on the way in `pop` of them go and `push` come; on the way out the reverse, with the
/// interface's `own` tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retag {
    /// Tags to take away on the way in, 0 to 2.
    pub pop: u8,
    /// Tags to put in front on the way in, outermost first; to take away on the way out.
    pub push: Tags,
    /// Tags to put in front on the way out: as many as `pop`.
    pub own: Tags,
    /// Priority and drop eligibility go over to the tags put in front: the outermost to the outermost.
    pub keep_priority: bool,
}

/// Why the tags of a frame could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetagError {
    /// The frame ends before the tags to take away do.
    TooShort,
    /// There are fewer tags than are to be taken away.
    NoTag,
    /// There is no room in front of the frame.
    NoRoom,
}

impl Retag {
    /// True when frames stay as they are.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.pop == 0 && self.push.count == 0
    }

    /// A frame comes in.
    #[inline]
    pub fn enter(&self, p: &mut Packet<'_>) -> Result<(), RetagError> {
        if self.is_none() { Ok(()) } else { change(p, self.pop, &self.push, self.keep_priority) }
    }

    /// A frame goes out.
    #[inline]
    pub fn leave(&self, p: &mut Packet<'_>) -> Result<(), RetagError> {
        if self.is_none() { Ok(()) } else { change(p, self.push.count, &self.own, self.keep_priority) }
    }
}

/// Puts tags in front of those of a frame.
pub fn push(p: &mut Packet<'_>, tags: &Tags) -> Result<(), RetagError> {
    change(p, 0, tags, false)
}

/// Takes `pop` tags away and puts others in front. The packet starts with its Ethernet header.
pub fn change(p: &mut Packet<'_>, pop: u8, push: &Tags, keep_priority: bool) -> Result<(), RetagError> {
    let (pop, tags) = (usize::from(pop.min(2)), push.as_slice());
    let Some(&macs) = p.head::<12>() else { return Err(RetagError::TooShort) };
    let gone = &p.data()[12..];
    if gone.len() < 4 * pop + 2 {
        return Err(RetagError::TooShort);
    }
    let mut first = [0; 2];
    for (tag, priority) in gone.chunks_exact(4).zip(&mut first).take(pop) {
        if !EtherType(u16::from_be_bytes([tag[0], tag[1]])).is_vlan() {
            return Err(RetagError::NoTag);
        }
        *priority = if keep_priority { tag[2] & 0xf0 } else { 0 };
    }
    if !p.advance(12 + 4 * pop) {
        return Err(RetagError::TooShort);
    }
    if !p.prepend(12 + tags.len()) {
        return Err(RetagError::NoRoom);
    }
    let data = p.data_mut();
    data[..12].copy_from_slice(&macs);
    data[12..12 + tags.len()].copy_from_slice(tags);
    for (tag, priority) in data[12..12 + tags.len()].chunks_exact_mut(4).zip(first) {
        tag[2] |= priority;
    }
    p.d.l2 = p.d.off;
    Ok(())
}
