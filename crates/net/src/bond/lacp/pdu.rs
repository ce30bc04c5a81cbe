//! LACPDUs and markers (IEEE 802.1AX-2014 sections 6.4.2 and 6.5.3).

use packet::eth::MacAddr;

/// Where slow protocols are sent (IEEE 802.3 annex 57A).
pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);
/// Bytes of a PDU behind the Ethernet header.
pub const LEN: usize = 110;

/// Bits of [`Info::state`].
pub mod state {
    /// It speaks of its own accord.
    pub const ACTIVITY: u8 = 1 << 0;
    /// It wants to hear every second, and believes it for three.
    pub const TIMEOUT: u8 = 1 << 1;
    /// Its link may be put together with others.
    pub const AGGREGATION: u8 = 1 << 2;
    /// Its link is where it belongs.
    pub const SYNCHRONIZATION: u8 = 1 << 3;
    /// It takes frames.
    pub const COLLECTING: u8 = 1 << 4;
    /// It sends frames.
    pub const DISTRIBUTING: u8 = 1 << 5;
    /// It has not heard of its partner.
    pub const DEFAULTED: u8 = 1 << 6;
    /// It has not heard of it lately.
    pub const EXPIRED: u8 = 1 << 7;
    /// All, with their words, in the order of VPP's `show lacp`.
    pub const ALL: [(&str, u8); 8] = [
        ("expired", EXPIRED),
        ("defaulted", DEFAULTED),
        ("distributing", DISTRIBUTING),
        ("collecting", COLLECTING),
        ("synchronization", SYNCHRONIZATION),
        ("aggregation", AGGREGATION),
        ("timeout", TIMEOUT),
        ("activity", ACTIVITY),
    ];
}

/// What one end says of its link, or the other of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Priority of the system; less is more.
    pub system_priority: u16,
    /// Its MAC address.
    pub system: MacAddr,
    /// Links of one key may be put together.
    pub key: u16,
    /// Priority of the link; less is more.
    pub port_priority: u16,
    /// Number of the link.
    pub port: u16,
    /// See [`state`].
    pub state: u8,
}

impl Info {
    /// Whether these bits are set.
    pub fn is(&self, bits: u8) -> bool {
        self.state & bits == bits
    }

    /// Sets bits, or clears them.
    pub fn set(&mut self, bits: u8, on: bool) {
        self.state = if on { self.state | bits } else { self.state & !bits };
    }

    /// Whether both are of the same link, and it is put together with others for both or for none.
    pub fn is_same_link(&self, other: &Info) -> bool {
        let link = |i: &Info| Info { state: i.state & state::AGGREGATION, ..*i };
        link(self) == link(other)
    }

    fn parse(tlv: &[u8; 20]) -> Info {
        let word = |at: usize| u16::from_be_bytes([tlv[at], tlv[at + 1]]);
        let [_, _, _, _, a, b, c, d, e, f, ..] = *tlv;
        Info {
            system_priority: word(2),
            system: MacAddr([a, b, c, d, e, f]),
            key: word(10),
            port_priority: word(12),
            port: word(14),
            state: tlv[16],
        }
    }

    fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend([kind, 20]);
        out.extend(self.system_priority.to_be_bytes());
        out.extend(self.system.0);
        for word in [self.key, self.port_priority, self.port] {
            out.extend(word.to_be_bytes());
        }
        out.extend([self.state, 0, 0, 0]);
    }
}

/// An LACPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pdu {
    /// What its sender says of itself.
    pub actor: Info,
    /// What it knows of the receiver.
    pub partner: Info,
}

/// A marker, to be answered with the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// Number of the link, system and number of the request, as they are sent back.
    pub words: [u8; 12],
}

/// A frame of a slow protocol that the router knows, from the subtype on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// LACP.
    Lacp(Pdu),
    /// Asks that all frames before it be taken in.
    Marker(Marker),
}

const ACTOR: u8 = 1;
const PARTNER: u8 = 2;
const COLLECTOR: u8 = 3;
const MARKER: u8 = 1;
const MARKER_RESPONSE: u8 = 2;

impl Frame {
    /// Reads what stands behind the Ethernet header; `None` where it is cut off, or not what the standard says. Versions beyond 1 begin
    /// with the fields of version 1.
    pub fn parse(bytes: &[u8]) -> Option<Frame> {
        let tlv = |at: usize, kind: u8| -> Option<&[u8; 20]> {
            bytes.get(at..)?.first_chunk().filter(|t: &&[u8; 20]| t[..2] == [kind, 20])
        };
        let (subtype, version) = (*bytes.first()?, *bytes.get(1)?);
        match subtype {
            _ if version == 0 => None,
            1 => {
                let (actor, partner) = (tlv(2, ACTOR)?, tlv(22, PARTNER)?);
                Some(Frame::Lacp(Pdu { actor: Info::parse(actor), partner: Info::parse(partner) }))
            }
            2 => {
                let tlv: &[u8; 16] = bytes.get(2..)?.first_chunk()?;
                let words = *tlv.get(2..)?.first_chunk()?;
                (tlv[..2] == [MARKER, 16]).then_some(Frame::Marker(Marker { words }))
            }
            _ => None,
        }
    }
}

impl Pdu {
    /// What stands behind the Ethernet header.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.extend([1, 1]);
        self.actor.emit(ACTOR, &mut out);
        self.partner.emit(PARTNER, &mut out);
        // The time that the receiver may take to hand a frame on counts from 0.
        out.extend([COLLECTOR, 16]);
        out.resize(LEN, 0);
        out
    }
}

impl Marker {
    /// The answer: what stands behind the Ethernet header.
    pub fn response(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.extend([2, 1, MARKER_RESPONSE, 16]);
        out.extend(self.words);
        out.resize(LEN, 0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// As Linux's bonding driver sends it (captured).
    const LINUX: &str = "01 01 01 14 ffff 52540012be01 0009 00ff 0001 4f 000000
        02 14 ffff 000000000000 0001 00ff 0001 01 000000 03 10 0000 000000000000000000000000 00 00";

    #[test]
    fn what_linux_sends_is_read() {
        let mut bytes = hex(LINUX);
        bytes.resize(LEN, 0);
        let Some(Frame::Lacp(pdu)) = Frame::parse(&bytes) else { panic!("an LACPDU") };
        let actor = Info {
            system_priority: 0xffff,
            system: MacAddr([0x52, 0x54, 0, 0x12, 0xbe, 1]),
            key: 9,
            port_priority: 255,
            port: 1,
            state: 0x4f,
        };
        assert_eq!(pdu.actor, actor);
        assert_eq!(pdu.partner.state, state::ACTIVITY);
        assert_eq!(pdu.emit(), bytes);
    }

    #[test]
    fn markers_are_answered_with_their_own_words() {
        let mut bytes = hex("02 01 01 10 0001 020000000007 00000539 0000");
        bytes.resize(LEN, 0);
        let Some(Frame::Marker(m)) = Frame::parse(&bytes) else { panic!("a marker") };
        bytes[2] = 2;
        assert_eq!(m.response(), bytes);
        assert_eq!(Frame::parse(&bytes), None, "an answer is not answered");
    }

    #[test]
    fn others_are_refused() {
        let mut good = hex(LINUX);
        good.resize(LEN, 0);
        for (at, byte) in [(0, 3), (1, 0), (2, 9), (3, 19), (22, 1), (23, 0)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Frame::parse(&bad), None, "byte {at}");
        }
        for len in 0..42 {
            assert_eq!(Frame::parse(&good[..len]), None, "{len}");
        }
        assert!(Frame::parse(&good[..42]).is_some());
        // A later version is one of the first for who knows no other (section 6.4.2.3).
        good[1] = 2;
        assert!(Frame::parse(&good).is_some());
    }
}
