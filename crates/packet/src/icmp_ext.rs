//! Extensions of ICMP errors (RFC 4884): the label stack with which the packet came (RFC 4950).

use crate::checksum::Sum;
use crate::mpls::ENTRY_LEN;

/// Bytes of the quoted packet in front of extensions. RFC 4884, 4 asks for at least as many; readers from before the
/// length field find extensions behind exactly these (5.5).
pub const QUOTE_LEN: usize = 128;
/// The deepest label stack that is reported.
pub const MAX_LABELS: usize = 32;

const HEADER_LEN: usize = 4;
const OBJECT_LEN: usize = 4;
/// Bytes of the longest body of an error with extensions.
pub(crate) const MAX_BODY: usize = QUOTE_LEN + HEADER_LEN + OBJECT_LEN + MAX_LABELS * ENTRY_LEN;

/// Version 2 (RFC 4884, 7).
const VERSION: u8 = 2 << 4;
/// Class "MPLS label stack", type "incoming stack" (RFC 4950, 3).
const LABEL_STACK: [u8; 2] = [1, 1];

/// The body of an error with the label stack, behind the ICMP header: the quote, cut or padded with zeros, and the
/// object. `labels` holds whole entries; `None` when there are none, or too many.
pub(crate) fn body(original: &[u8], labels: &[u8]) -> Option<([u8; MAX_BODY], usize)> {
    if labels.is_empty() || labels.len() > MAX_LABELS * ENTRY_LEN {
        return None;
    }
    let mut out = [0; MAX_BODY];
    let quoted = original.len().min(QUOTE_LEN);
    out[..quoted].copy_from_slice(&original[..quoted]);
    let object = OBJECT_LEN + labels.len();
    let end = QUOTE_LEN + HEADER_LEN + object;
    let extension = &mut out[QUOTE_LEN..end];
    extension[0] = VERSION;
    extension[4..6].copy_from_slice(&(object as u16).to_be_bytes());
    extension[6..8].copy_from_slice(&LABEL_STACK);
    extension[8..].copy_from_slice(labels);
    let mut sum = Sum::new();
    sum.add_bytes(extension);
    extension[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    Some((out, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;

    #[test]
    fn quotes_are_padded_or_cut() {
        // Scapy: ICMPExtensionHeader() / ICMPExtensionMPLS(stack=[MPLS(label=16000, cos=3, s=0, ttl=1),
        //   MPLS(label=100, cos=0, s=1, ttl=255)]), its checksum
        //   made over the whole
        let labels = [0x03, 0xe8, 0x06, 0x01, 0x00, 0x06, 0x41, 0xff];
        let want = [&[0x20, 0x00, 0x93, 0x04, 0x00, 0x0c, 0x01, 0x01][..], &labels].concat();
        for len in [0, 1, 127, 128, 129, 2000] {
            let original = vec![0x5a; len];
            let (out, end) = body(&original, &labels).unwrap();
            let quoted = len.min(128);
            assert_eq!(out[..quoted], original[..quoted]);
            assert!(out[quoted..128].iter().all(|&b| b == 0));
            assert_eq!(out[128..end], want);
            assert!(checksum::is_valid(&out[128..end]));
        }
    }

    #[test]
    fn no_stack_and_one_too_deep_are_left_out() {
        assert!(body(&[1; 20], &[]).is_none());
        assert_eq!(body(&[1; 20], &[1; 128]).unwrap().1, MAX_BODY);
        assert!(body(&[1; 20], &[1; 132]).is_none());
    }
}
