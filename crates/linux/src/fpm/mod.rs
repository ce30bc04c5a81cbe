//! FRR's `dplane_fpm_nl`: zebra tells its routes over TCP, as netlink messages in frames of their own (FRR, `fpm/fpm.h`).
//!
//! On each connection all is told anew: nexthop objects, then routes, without a mark where the changes begin.

mod listen;

pub use listen::{Config, Event, Fpm, Stats, listen};

/// Bytes of a frame's header: version, kind, length with the header.
const HEADER: usize = 4;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;

/// Why a stream is not FPM's. It has no end of its own from which one could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// Another version.
    #[error("a frame of FPM version {0}: this is version 1")]
    Version(u8),
    /// No netlink.
    #[error("a frame of kind {0}: netlink is 1 (`-M dplane_fpm_nl`; protobuf is not understood)")]
    Kind(u8),
    /// A length with which nothing fits into the frame.
    #[error("a frame of {0} bytes: the header alone has 4, and a netlink message 16 more")]
    Length(u16),
    /// What is in the frame is no netlink message.
    #[error("a frame of {0} bytes in which is no whole netlink message")]
    Message(u16),
}

/// Cuts a stream into frames. Holds one frame at most, 64 KiB, and what was read behind it.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// Takes what was read.
    pub fn push(&mut self, more: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(more);
    }

    /// The netlink messages of the next frame; none when it is not whole yet.
    ///
    /// # Errors
    /// It is none.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, Bad> {
        let Some(&[version, kind, a, b]) = self.bytes[self.at..].first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let len = u16::from_be_bytes([a, b]);
        if version != VERSION {
            return Err(Bad::Version(version));
        }
        if kind != NETLINK {
            return Err(Bad::Kind(kind));
        }
        if usize::from(len) < HEADER + crate::wire::HEADER {
            return Err(Bad::Length(len));
        }
        let Some(frame) = self.bytes.get(self.at..self.at + usize::from(len)) else { return Ok(None) };
        self.at += usize::from(len);
        let body = &frame[HEADER..];
        if crate::wire::Messages(body).next().is_none() {
            return Err(Bad::Message(len));
        }
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        let len = (HEADER + message.len()) as u16;
        [&[VERSION, NETLINK], &len.to_be_bytes()[..], message].concat()
    }

    fn message(n: usize) -> Vec<u8> {
        crate::wire::request(24, 0, n as u32, 2, n % 50 + 1)
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let found = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next_frame().map(|f| f.map(<[u8]>::len))
        };
        assert_eq!(found(&[2, 1, 0, 20]), Err(Bad::Version(2)));
        assert_eq!(found(&[1, 2, 0, 20]), Err(Bad::Kind(2)));
        assert_eq!(found(&[1, 1, 0, 19]), Err(Bad::Length(19)));
        assert_eq!(found(&[&[1, 1, 0, 20][..], &[0; 16]].concat()), Err(Bad::Message(20)));
        assert_eq!(found(&[1, 1, 0]), Ok(None));
        assert_eq!(found(&frame(&message(3))[..21]), Ok(None));
        assert_eq!(found(&frame(&message(3))), Ok(Some(20)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// However a stream is cut, the messages are the same.
        #[test]
        fn frames_do_not_depend_on_where_reading_stopped(cuts in prop::collection::vec(1usize..90, 1..60)) {
            let sent: Vec<Vec<u8>> = (0..20).map(message).collect();
            let stream: Vec<u8> = sent.iter().flat_map(|m| frame(m)).collect();
            let (mut frames, mut got, mut rest) = (Frames::default(), vec![], &stream[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                frames.push(now);
                while let Some(m) = frames.next_frame().unwrap() {
                    got.push(m.to_vec());
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..300)) {
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.next_frame() {}
        }
    }
}
