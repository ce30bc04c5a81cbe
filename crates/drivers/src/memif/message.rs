//! Messages of the control connection, protocol version 2: 128 bytes each, in the byte order of the machine.

use std::fmt;

/// Bytes of every message.
pub const LEN: usize = 128;
/// The one version there is: 2.0.
pub const VERSION: u16 = 2 << 8;
/// Bytes of a name.
pub const NAME: usize = 32;
/// Bytes of a secret.
pub const SECRET: usize = 24;
/// Bytes of the reason of a disconnect.
const REASON: usize = 96;
/// A ring from the slave to the master.
const S2M: u16 = 1;

/// What an interface carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ethernet frames.
    #[default]
    Ethernet,
    /// IP packets.
    Ip,
}

impl Mode {
    fn number(self) -> u8 {
        match self {
            Mode::Ethernet => 0,
            Mode::Ip => 1,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was taken.
    Ack,
    /// The master's first: what it takes.
    Hello {
        /// Who it is.
        name: String,
        /// Versions that it speaks, from and to.
        versions: (u16, u16),
        /// The largest number of a region.
        regions: u16,
        /// The largest number of a ring from the master to the slave.
        m2s: u16,
        /// The largest number of a ring from the slave to the master.
        s2m: u16,
        /// Binary logarithm of the largest number of slots of a ring.
        log2_slots: u8,
    },
    /// The slave's first: which interface it wants.
    Init {
        /// The version that it has chosen.
        version: u16,
        /// Number of the interface.
        id: u32,
        /// What that carries; `None` for a mode that nobody here knows.
        mode: Option<Mode>,
        /// The secret, filled up with zeros.
        secret: [u8; SECRET],
        /// Who it is.
        name: String,
    },
    /// A region of memory, whose descriptor comes along.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its bytes.
        size: u64,
    },
    /// A ring, whose interrupt's descriptor comes along.
    AddRing {
        /// From the slave to the master.
        s2m: bool,
        /// Its number among those of its direction.
        index: u16,
        /// The region in which it lies.
        region: u16,
        /// Bytes from the start of that.
        offset: u32,
        /// Binary logarithm of its number of slots.
        log2_slots: u8,
        /// Bytes of private data in front of each packet.
        private: u16,
    },
    /// The slave has told all.
    Connect {
        /// The name of its interface.
        name: String,
    },
    /// The master has taken all.
    Connected {
        /// The name of its interface.
        name: String,
    },
    /// It is over.
    Disconnect {
        /// A number that nobody has given a meaning.
        code: u32,
        /// Why.
        reason: String,
    },
}

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It has not 128 bytes.
    Length(usize),
    /// It is of no kind that there is.
    Kind(u16),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Length(n) => write!(f, "a message of {n} bytes came, all have {LEN}"),
            Bad::Kind(n) => write!(f, "a message of kind {n} came, which does not exist"),
        }
    }
}

/// Reads one field after another.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        // The longest message ends before the 128 bytes do.
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *head
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// A text up to its first zero. It goes into logs and answers: what cannot be shown does not come along.
    fn text<const N: usize>(&mut self) -> String {
        let bytes: [u8; N] = self.take();
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// Writes one field after another.
struct Writer([u8; LEN], usize);

impl Writer {
    fn new(kind: u16) -> Self {
        let mut w = Writer([0; LEN], 0);
        w.put(&kind.to_ne_bytes());
        w
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }

    /// A text that a zero ends.
    fn text(&mut self, text: &str, room: usize) {
        let mut end = text.len().min(room - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0[self.1..self.1 + end].copy_from_slice(&text.as_bytes()[..end]);
        self.1 += room;
    }
}

impl Message {
    /// Reads one.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn parse(bytes: &[u8]) -> Result<Message, Bad> {
        if bytes.len() != LEN {
            return Err(Bad::Length(bytes.len()));
        }
        let mut r = Reader(bytes);
        Ok(match r.u16() {
            1 => Message::Ack,
            2 => Message::Hello {
                name: r.text::<NAME>(),
                versions: (r.u16(), r.u16()),
                regions: r.u16(),
                m2s: r.u16(),
                s2m: r.u16(),
                log2_slots: r.u8(),
            },
            3 => Message::Init {
                version: r.u16(),
                id: r.u32(),
                mode: match r.u8() {
                    0 => Some(Mode::Ethernet),
                    1 => Some(Mode::Ip),
                    _ => None,
                },
                secret: r.take(),
                name: r.text::<NAME>(),
            },
            4 => Message::AddRegion { index: r.u16(), size: r.u64() },
            5 => Message::AddRing {
                s2m: r.u16() & S2M != 0,
                index: r.u16(),
                region: r.u16(),
                offset: r.u32(),
                log2_slots: r.u8(),
                private: r.u16(),
            },
            6 => Message::Connect { name: r.text::<NAME>() },
            7 => Message::Connected { name: r.text::<NAME>() },
            8 => Message::Disconnect { code: r.u32(), reason: r.text::<REASON>() },
            kind => return Err(Bad::Kind(kind)),
        })
    }

    /// Its bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let w = match self {
            Message::Ack => Writer::new(1),
            Message::Hello { name, versions, regions, m2s, s2m, log2_slots } => {
                let mut w = Writer::new(2);
                w.text(name, NAME);
                for n in [versions.0, versions.1, *regions, *m2s, *s2m] {
                    w.put(&n.to_ne_bytes());
                }
                w.put(&[*log2_slots]);
                w
            }
            Message::Init { version, id, mode, secret, name } => {
                let mut w = Writer::new(3);
                w.put(&version.to_ne_bytes());
                w.put(&id.to_ne_bytes());
                w.put(&[mode.map_or(u8::MAX, Mode::number)]);
                w.put(secret);
                w.text(name, NAME);
                w
            }
            Message::AddRegion { index, size } => {
                let mut w = Writer::new(4);
                w.put(&index.to_ne_bytes());
                w.put(&size.to_ne_bytes());
                w
            }
            Message::AddRing { s2m, index, region, offset, log2_slots, private } => {
                let mut w = Writer::new(5);
                for n in [if *s2m { S2M } else { 0 }, *index, *region] {
                    w.put(&n.to_ne_bytes());
                }
                w.put(&offset.to_ne_bytes());
                w.put(&[*log2_slots]);
                w.put(&private.to_ne_bytes());
                w
            }
            Message::Connect { name } => {
                let mut w = Writer::new(6);
                w.text(name, NAME);
                w
            }
            Message::Connected { name } => {
                let mut w = Writer::new(7);
                w.text(name, NAME);
                w
            }
            Message::Disconnect { code, reason } => {
                let mut w = Writer::new(8);
                w.put(&code.to_ne_bytes());
                w.text(reason, REASON);
                w
            }
        };
        w.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = String> {
        "[a-z0-9/]{0,31}"
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::Ack),
            (name(), any::<[u16; 5]>(), any::<u8>()).prop_map(
                |(name, [a, b, regions, m2s, s2m], log2_slots)| {
                    Message::Hello { name, versions: (a, b), regions, m2s, s2m, log2_slots }
                }
            ),
            (any::<u16>(), any::<u32>(), any::<bool>(), any::<[u8; SECRET]>(), name()).prop_map(
                |(version, id, ip, secret, name)| {
                    let mode = Some(if ip { Mode::Ip } else { Mode::Ethernet });
                    Message::Init { version, id, mode, secret, name }
                }
            ),
            any::<(u16, u64)>().prop_map(|(index, size)| Message::AddRegion { index, size }),
            any::<(bool, u16, u16, u32, u8, u16)>().prop_map(
                |(s2m, index, region, offset, log2_slots, private)| {
                    Message::AddRing { s2m, index, region, offset, log2_slots, private }
                }
            ),
            name().prop_map(|name| Message::Connect { name }),
            name().prop_map(|name| Message::Connected { name }),
            (any::<u32>(), name()).prop_map(|(code, reason)| Message::Disconnect { code, reason }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read(m in message()) {
            prop_assert_eq!(Message::parse(&m.emit()), Ok(m));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u16..10) {
            let mut bytes = bytes;
            if let Some(b) = bytes.get_mut(..2) {
                b.copy_from_slice(&kind.to_ne_bytes());
            }
            match Message::parse(&bytes) {
                Ok(_) => prop_assert!(bytes.len() == LEN && (1..=8).contains(&kind)),
                Err(Bad::Length(n)) => prop_assert!(n == bytes.len() && n != LEN),
                Err(Bad::Kind(n)) => prop_assert!(!(1..=8).contains(&n)),
            }
        }
    }

    #[test]
    fn the_fields_lie_where_other_programs_have_them() {
        let ring =
            Message::AddRing { s2m: true, index: 2, region: 1, offset: 0x1234, log2_slots: 10, private: 7 };
        assert_eq!(ring.emit()[..17], [5, 0, 1, 0, 2, 0, 1, 0, 0x34, 0x12, 0, 0, 10, 7, 0, 0, 0]);
        let mut secret = [0; SECRET];
        secret[0] = b's';
        let init = Message::Init { version: VERSION, id: 3, mode: Some(Mode::Ip), secret, name: "q".into() };
        assert_eq!(init.emit()[..11], [3, 0, 0, 2, 3, 0, 0, 0, 1, b's', 0]);
        assert_eq!(init.emit()[33], b'q');
        let hello = Message::Hello {
            name: "m".into(),
            versions: (VERSION, VERSION),
            regions: 255,
            m2s: 3,
            s2m: 4,
            log2_slots: 14,
        };
        assert_eq!(hello.emit()[34..45], [0, 2, 0, 2, 255, 0, 3, 0, 4, 0, 14]);
    }

    #[test]
    fn texts_from_elsewhere_do_not_reach_the_terminal_as_they_are() {
        let m = Message::Disconnect { code: 0, reason: "a\u{1b}[2Jb\n".into() };
        let Ok(Message::Disconnect { reason, .. }) = Message::parse(&m.emit()) else { panic!() };
        assert_eq!(reason, "a?[2Jb?");
    }
}
