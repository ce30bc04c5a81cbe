//! Ethernet II: addresses, ethertypes, header view and builder.

use crate::bytes::{array, be16};
use std::fmt;
use std::str::FromStr;

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = 14;

/// A 48-bit IEEE 802 address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00
    pub const ZERO: Self = Self([0; 6]);

    /// The group bit is set; true of broadcast too.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The group bit is clear; true of the zero address too.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0
    }

    /// All ones.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// All zeros, which no station may use.
    #[inline]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Fit to be the address of an interface or neighbour: unicast and not zero.
    #[inline]
    pub fn is_station(self) -> bool {
        self.is_unicast() && !self.is_zero()
    }

    /// The six bytes in the low bits of a number, the first byte highest: a key for hash tables.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let b = self.0;
        u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// Inverse of [`MacAddr::to_u64`]; the high 16 bits are ignored.
    #[inline]
    pub const fn from_u64(n: u64) -> Self {
        let b = n.to_be_bytes();
        Self([b[2], b[3], b[4], b[5], b[6], b[7]])
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"00:00:00:00:00:00";
        for (place, byte) in text.chunks_mut(3).zip(self.0) {
            place[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            place[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacParseError;

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a MAC address: six two-digit hexadecimal numbers, such as 02:00:5e:10:00:01")
    }
}

impl std::error::Error for MacParseError {}

impl FromStr for MacAddr {
    type Err = MacParseError;

    /// Takes `aa:bb:cc:dd:ee:ff` and `aa-bb-cc-dd-ee-ff`, in either case.
    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut groups = text.split(separator);
        let mut out = [0; 6];
        for byte in &mut out {
            let group = groups.next().ok_or(MacParseError)?;
            // from_str_radix alone would take "+1".
            if group.len() != 2 || !group.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(MacParseError);
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| MacParseError)?;
        }
        if groups.next().is_some() { Err(MacParseError) } else { Ok(Self(out)) }
    }
}

/// The type of an Ethernet payload. Below [`EtherType::MIN`] the field is an IEEE 802.3 length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct EtherType(pub u16);

#[allow(missing_docs)]
impl EtherType {
    /// The least value that is a type and not a length.
    pub const MIN: Self = Self(0x0600);
    pub const IPV4: Self = Self(0x0800);
    pub const ARP: Self = Self(0x0806);
    /// IEEE 802.1Q customer tag.
    pub const VLAN: Self = Self(0x8100);
    /// A whole frame, in GRE.
    pub const TRANSPARENT_ETHERNET: Self = Self(0x6558);
    pub const IPV6: Self = Self(0x86dd);
    /// Slow protocols: LACP.
    pub const SLOW: Self = Self(0x8809);
    pub const MPLS: Self = Self(0x8847);
    pub const MPLS_MULTICAST: Self = Self(0x8848);
    pub const PPPOE_DISCOVERY: Self = Self(0x8863);
    pub const PPPOE_SESSION: Self = Self(0x8864);
    /// IEEE 802.1ad service tag.
    pub const QINQ: Self = Self(0x88a8);
    pub const LLDP: Self = Self(0x88cc);
    /// The service tag of old equipment.
    pub const QINQ_OLD: Self = Self(0x9100);
}

impl EtherType {
    /// Whether a VLAN tag follows: 802.1Q, 802.1ad or the old 0x9100.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }

    /// Short name, where the type is one that Quiver knows.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::IPV4 => "IPv4",
            Self::ARP => "ARP",
            Self::VLAN => "802.1q",
            Self::TRANSPARENT_ETHERNET => "transparent-ethernet",
            Self::IPV6 => "IPv6",
            Self::SLOW => "slow-protocols",
            Self::MPLS => "MPLS",
            Self::MPLS_MULTICAST => "MPLS-multicast",
            Self::PPPOE_DISCOVERY => "PPPoE-discovery",
            Self::PPPOE_SESSION => "PPPoE-session",
            Self::QINQ => "802.1ad",
            Self::LLDP => "LLDP",
            Self::QINQ_OLD => "0x9100",
            _ => return None,
        })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

/// Fewer than 14 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("frame shorter than an Ethernet header")
    }
}

impl std::error::Error for TooShort {}

/// A frame with an Ethernet header; tags are left to [`crate::vlan`].
#[derive(Clone, Copy, Debug)]
pub struct EthView<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> EthView<'a> {
    /// Checks the length only.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, TooShort> {
        match frame.split_first_chunk() {
            Some((header, payload)) => Ok(Self { header, payload }),
            None => Err(TooShort),
        }
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(array(self.header, 0))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(array(self.header, 6))
    }

    /// The type field as it stands, a tag's TPID included.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(be16(self.header, 12))
    }

    /// Everything after the first 14 bytes.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The fields of an untagged header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthHeader {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Type of what follows.
    pub ethertype: EtherType,
}

impl EthHeader {
    /// The header as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..6].copy_from_slice(&self.dst.0);
        out[6..12].copy_from_slice(&self.src.0);
        out[12..].copy_from_slice(&self.ethertype.0.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mac_text() {
        let mac: MacAddr = "02:00:5E:10:00:ff".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0, 0x5e, 0x10, 0, 0xff]));
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!("02-00-5e-10-00-ff".parse(), Ok(mac));
        assert_eq!(format!("{mac:>20}"), "   02:00:5e:10:00:ff");
        for bad in [
            "",
            "02:00:5e:10:00",
            "02:00:5e:10:00:ff:01",
            "2:0:5e:10:0:ff",
            "02:00:5e:10:00:+f",
            "0g:00:00:00:00:00",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(MacParseError), "{bad}");
        }
    }

    #[test]
    fn mac_kinds() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(MacAddr::ZERO.is_unicast() && MacAddr::ZERO.is_zero() && !MacAddr::ZERO.is_station());
        assert!(MacAddr([1, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_station());
    }

    #[test]
    fn header_round_trip() {
        // Scapy: Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02", type=0x86dd)/"x"
        let frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, b'x'];
        let view = EthView::parse(&frame).unwrap();
        assert_eq!(view.dst().to_string(), "02:00:00:00:00:01");
        assert_eq!(view.src().to_string(), "02:00:00:00:00:02");
        assert_eq!(view.ethertype(), EtherType::IPV6);
        assert_eq!(view.payload(), b"x");
        let header = EthHeader { dst: view.dst(), src: view.src(), ethertype: view.ethertype() };
        assert_eq!(header.to_bytes(), frame[..14]);
        assert!(EthView::parse(&frame[..13]).is_err());
    }

    proptest! {
        #[test]
        fn mac_round_trips(bytes: [u8; 6]) {
            let mac = MacAddr(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            prop_assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        }
    }
}
