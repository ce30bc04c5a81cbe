//! ARP for IPv4 over Ethernet (RFC 826).

use crate::bytes::{array, be16};
use crate::eth::MacAddr;
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of an Ethernet/IPv4 message.
pub const LEN: usize = 28;

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpError {
    /// Fewer than 28 bytes.
    TooShort,
    /// The hardware type is not Ethernet (1).
    BadHardware,
    /// The protocol is not IPv4.
    BadProtocol,
    /// The address lengths are not 6 and 4.
    BadLengths,
    /// Neither a request nor a reply.
    BadOperation,
}

impl fmt::Display for ArpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArpError::TooShort => "ARP message too short",
            ArpError::BadHardware => "ARP hardware type is not Ethernet",
            ArpError::BadProtocol => "ARP protocol is not IPv4",
            ArpError::BadLengths => "ARP address lengths are not 6 and 4",
            ArpError::BadOperation => "ARP operation is neither request nor reply",
        })
    }
}

impl std::error::Error for ArpError {}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOp {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// A checked message.
#[derive(Clone, Copy, Debug)]
pub struct ArpView<'a> {
    bytes: &'a [u8; LEN],
    op: ArpOp,
}

impl<'a> ArpView<'a> {
    /// Checks the fixed part; bytes after the message are padding.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, ArpError> {
        let Some(bytes) = payload.first_chunk::<LEN>() else { return Err(ArpError::TooShort) };
        if be16(bytes, 0) != 1 {
            return Err(ArpError::BadHardware);
        }
        if be16(bytes, 2) != 0x0800 {
            return Err(ArpError::BadProtocol);
        }
        if bytes[4] != 6 || bytes[5] != 4 {
            return Err(ArpError::BadLengths);
        }
        let op = match be16(bytes, 6) {
            1 => ArpOp::Request,
            2 => ArpOp::Reply,
            _ => return Err(ArpError::BadOperation),
        };
        Ok(Self { bytes, op })
    }

    /// Request or reply.
    #[inline]
    pub fn op(&self) -> ArpOp {
        self.op
    }

    /// Sender hardware address.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(array(self.bytes, 8))
    }

    /// Sender protocol address; 0.0.0.0 in a probe (RFC 5227).
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<LEN, 4>(self.bytes, 14))
    }

    /// Target hardware address; meaningless in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(array(self.bytes, 18))
    }

    /// Target protocol address.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<LEN, 4>(self.bytes, 24))
    }

    /// Sender and target address are the same: an announcement (RFC 5227, 1.1).
    #[inline]
    pub fn is_gratuitous(&self) -> bool {
        self.sender_ip() == self.target_ip()
    }

    /// A request from 0.0.0.0: somebody wants to know whether the address is free.
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.op == ArpOp::Request && self.sender_ip().is_unspecified()
    }
}

/// The fields of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpMessage {
    /// Request or reply.
    pub op: ArpOp,
    /// Sender hardware address.
    pub sender_mac: MacAddr,
    /// Sender protocol address.
    pub sender_ip: Ipv4Addr,
    /// Target hardware address.
    pub target_mac: MacAddr,
    /// Target protocol address.
    pub target_ip: Ipv4Addr,
}

impl ArpMessage {
    /// A request for `target`; `sender_ip` 0.0.0.0 makes it a probe.
    pub const fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self { op: ArpOp::Request, sender_mac, sender_ip, target_mac: MacAddr::ZERO, target_ip: target }
    }

    /// The announcement of `ip` at `mac` (RFC 5227, 2.3: a request for one's own address).
    pub const fn announcement(mac: MacAddr, ip: Ipv4Addr) -> Self {
        Self::request(mac, ip, ip)
    }

    /// The answer of `mac` to `request`.
    pub fn reply_to(request: &ArpView<'_>, mac: MacAddr) -> Self {
        Self {
            op: ArpOp::Reply,
            sender_mac: mac,
            sender_ip: request.target_ip(),
            target_mac: request.sender_mac(),
            target_ip: request.sender_ip(),
        }
    }

    /// The message as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        out[7] = match self.op {
            ArpOp::Request => 1,
            ArpOp::Reply => 2,
        };
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target_ip.octets());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Scapy: ARP(op=1, hwsrc="02:00:00:00:00:01", psrc="10.0.0.1", pdst="10.0.0.2")
    const REQUEST: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn request_and_reply() {
        let view = ArpView::parse(&REQUEST).unwrap();
        let (mac, a, b) =
            (MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(
            (view.op(), view.sender_mac(), view.sender_ip(), view.target_ip()),
            (ArpOp::Request, mac, a, b)
        );
        assert!(!view.is_gratuitous() && !view.is_probe());
        assert_eq!(ArpMessage::request(mac, a, b).to_bytes(), REQUEST);
        let own = MacAddr([2, 0, 0, 0, 0, 9]);
        let reply = ArpMessage::reply_to(&view, own).to_bytes();
        let view = ArpView::parse(&reply).unwrap();
        assert_eq!((view.op(), view.sender_mac(), view.target_mac()), (ArpOp::Reply, own, mac));
        assert_eq!((view.sender_ip(), view.target_ip()), (b, a));
        let announcement = ArpMessage::announcement(mac, a).to_bytes();
        assert!(ArpView::parse(&announcement).unwrap().is_gratuitous());
        let probe = ArpMessage::request(mac, Ipv4Addr::UNSPECIFIED, a).to_bytes();
        assert!(ArpView::parse(&probe).unwrap().is_probe());
    }

    #[test]
    fn each_check() {
        let broken = |at: usize, value: u8| {
            let mut bytes = REQUEST;
            bytes[at] = value;
            ArpView::parse(&bytes).unwrap_err()
        };
        assert_eq!(ArpView::parse(&REQUEST[..27]).unwrap_err(), ArpError::TooShort);
        assert_eq!(broken(1, 6), ArpError::BadHardware);
        assert_eq!(broken(2, 0x86), ArpError::BadProtocol);
        assert_eq!(broken(4, 8), ArpError::BadLengths);
        assert_eq!(broken(5, 16), ArpError::BadLengths);
        assert_eq!(broken(7, 3), ArpError::BadOperation);
        assert_eq!(broken(6, 1), ArpError::BadOperation);
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = ArpView::parse(&data);
        }
    }
}
