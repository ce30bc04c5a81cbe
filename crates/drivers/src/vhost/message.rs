//! The messages of the vhost-user protocol that a back-end of a network device takes and gives: a header of 12 bytes and a body,
//! numbers in host order (QEMU, docs/interop/vhost-user.rst).

/// Bytes of a header.
pub const HEADER: usize = 12;
/// Most bytes of a body that is taken.
pub const MOST_BODY: usize = 8 + REGION * MOST_REGIONS;
/// Most regions of memory.
pub const MOST_REGIONS: usize = 32;
/// Bytes of a region in its message.
const REGION: usize = 32;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// Of a message with a descriptor: none comes along, the ring is polled.
const NO_FD: u64 = 1 << 8;

/// Bits of virtio features (virtio 1.2, sections 5.1.3 and 6), and of vhost-user.
#[allow(missing_docs)]
pub mod feature {
    pub const CSUM: u64 = 1;
    pub const GUEST_CSUM: u64 = 1 << 1;
    pub const GUEST_TSO4: u64 = 1 << 7;
    pub const GUEST_TSO6: u64 = 1 << 8;
    pub const GUEST_ECN: u64 = 1 << 9;
    pub const HOST_TSO4: u64 = 1 << 11;
    pub const HOST_TSO6: u64 = 1 << 12;
    pub const HOST_ECN: u64 = 1 << 13;
    pub const MRG_RXBUF: u64 = 1 << 15;
    pub const MQ: u64 = 1 << 22;
    pub const ANY_LAYOUT: u64 = 1 << 27;
    pub const INDIRECT_DESC: u64 = 1 << 28;
    pub const EVENT_IDX: u64 = 1 << 29;
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Bits of protocol features.
pub(super) mod protocol {
    pub const MQ: u64 = 1;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const ALL: u64 = MQ | REPLY_ACK;
}

const NAMES: [(u64, &str); 15] = [
    (feature::CSUM, "csum"),
    (feature::GUEST_CSUM, "guest-csum"),
    (feature::GUEST_TSO4, "guest-tso4"),
    (feature::GUEST_TSO6, "guest-tso6"),
    (feature::GUEST_ECN, "guest-ecn"),
    (feature::HOST_TSO4, "host-tso4"),
    (feature::HOST_TSO6, "host-tso6"),
    (feature::HOST_ECN, "host-ecn"),
    (feature::MRG_RXBUF, "mrg-rxbuf"),
    (feature::MQ, "mq"),
    (feature::ANY_LAYOUT, "any-layout"),
    (feature::INDIRECT_DESC, "indirect-desc"),
    (feature::EVENT_IDX, "event-idx"),
    (feature::PROTOCOL_FEATURES, "protocol-features"),
    (feature::VERSION_1, "version-1"),
];

/// The names of features, without `VIRTIO_`, `NET_` and `F_`.
pub fn feature_names(features: u64) -> Vec<&'static str> {
    NAMES.iter().filter(|(bit, _)| features & bit != 0).map(|(_, name)| *name).collect()
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which message.
    pub request: u32,
    /// An answer is asked for where the message has none of its own.
    pub wants_reply: bool,
    /// Bytes of the body.
    pub size: usize,
}

impl Head {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(b: &[u8; HEADER]) -> Result<Head, String> {
        let (request, flags, size) = (word(b, 0), word(b, 4), word(b, 8) as usize);
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err("bytes came that begin no message of version 1".into());
        }
        if size > MOST_BODY {
            return Err(format!("a message of {size} bytes, at most {MOST_BODY} are taken"));
        }
        Ok(Head { request, wants_reply: flags & NEED_REPLY != 0, size })
    }
}

/// A region of the other side's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its address as descriptors of rings have it.
    pub guest: u64,
    /// Bytes.
    pub size: u64,
    /// Its address as messages have it.
    pub user: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Message {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<Region>),
    SetVringNum {
        index: u32,
        num: u32,
    },
    SetVringAddr {
        index: u32,
        log: bool,
        desc: u64,
        used: u64,
        avail: u64,
    },
    SetVringBase {
        index: u32,
        base: u32,
    },
    GetVringBase {
        index: u32,
    },
    /// Without a descriptor where `fd` is false.
    SetVringKick {
        index: u32,
        fd: bool,
    },
    SetVringCall {
        index: u32,
        fd: bool,
    },
    SetVringErr {
        index: u32,
        fd: bool,
    },
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable {
        index: u32,
        on: bool,
    },
}

impl Message {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(request: u32, b: &[u8]) -> Result<Message, String> {
        let least = match request {
            1 | 3 | 4 | 15 | 17 => 0,
            9 => 40,
            2 | 5 | 8 | 10 | 11 | 12 | 13 | 14 | 16 | 18 => 8,
            _ => return Err(format!("message {request} is not known here")),
        };
        if b.len() < least {
            return Err(format!("message {request} has {} bytes, not {least}", b.len()));
        }
        let state = || (word(b, 0), word(b, 4));
        let with_fd = || (long(b, 0) as u32 & 0xff, long(b, 0) & NO_FD == 0);
        Ok(match request {
            1 => Message::GetFeatures,
            2 => Message::SetFeatures(long(b, 0)),
            3 => Message::SetOwner,
            4 => Message::ResetOwner,
            5 => {
                let count = word(b, 0) as usize;
                if count > MOST_REGIONS || b.len() < 8 + count * REGION {
                    return Err(format!(
                        "{count} regions of memory in {} bytes, at most {MOST_REGIONS}",
                        b.len()
                    ));
                }
                let region = |n: usize| {
                    let at = 8 + n * REGION;
                    Region {
                        guest: long(b, at),
                        size: long(b, at + 8),
                        user: long(b, at + 16),
                        offset: long(b, at + 24),
                    }
                };
                Message::SetMemTable((0..count).map(region).collect())
            }
            8 => Message::SetVringNum { index: state().0, num: state().1 },
            9 => Message::SetVringAddr {
                index: word(b, 0),
                log: word(b, 4) & 1 != 0,
                desc: long(b, 8),
                used: long(b, 16),
                avail: long(b, 24),
            },
            10 => Message::SetVringBase { index: state().0, base: state().1 },
            11 => Message::GetVringBase { index: state().0 },
            12 => Message::SetVringKick { index: with_fd().0, fd: with_fd().1 },
            13 => Message::SetVringCall { index: with_fd().0, fd: with_fd().1 },
            14 => Message::SetVringErr { index: with_fd().0, fd: with_fd().1 },
            15 => Message::GetProtocolFeatures,
            16 => Message::SetProtocolFeatures(long(b, 0)),
            17 => Message::GetQueueNum,
            _ => Message::SetVringEnable { index: state().0, on: state().1 != 0 },
        })
    }
}

/// An answer of 8 bytes.
pub fn reply(request: u32, body: [u8; 8]) -> [u8; HEADER + 8] {
    let mut b = [0; HEADER + 8];
    b[..4].copy_from_slice(&request.to_ne_bytes());
    b[4..8].copy_from_slice(&(VERSION | REPLY).to_ne_bytes());
    b[8..12].copy_from_slice(&8u32.to_ne_bytes());
    b[HEADER..].copy_from_slice(&body);
    b
}

/// The 32 bits there; 0 where there are none.
fn word(b: &[u8], at: usize) -> u32 {
    b.get(at..).and_then(|b| b.first_chunk()).map_or(0, |w| u32::from_ne_bytes(*w))
}

/// The 64 bits there, as before.
fn long(b: &[u8], at: usize) -> u64 {
    b.get(at..).and_then(|b| b.first_chunk()).map_or(0, |w| u64::from_ne_bytes(*w))
}
