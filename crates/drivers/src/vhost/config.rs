//! What an interface is to be.

use super::message::feature as f;
use crate::place::Place;
use packet::MacAddr;

/// Most pairs of queues of a connection.
pub const MOST_PAIRS: usize = 16;

/// Which side of the socket an interface is; it is the back-end either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It listens.
    Server,
    /// It connects, and tries again as long as nobody listens.
    #[default]
    Client,
}

/// An interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The socket, which is this interface's alone.
    pub socket: Place,
    /// Which side of it this is.
    pub role: Role,
    /// Virtio features (bits) that may be offered.
    pub mask: u64,
    /// A packet may lie in several buffers of the other side's (`VIRTIO_NET_F_MRG_RXBUF`).
    pub mergeable: bool,
    /// Descriptors may stand in tables of their own (`VIRTIO_F_INDIRECT_DESC`).
    pub indirect: bool,
    /// Partial checksums and TCP super-frames pass as they are.
    pub gso: bool,
}

impl Config {
    /// A client with what is usual.
    pub fn new(socket: Place) -> Config {
        Config { socket, role: Role::Client, mask: u64::MAX, mergeable: true, indirect: true, gso: false }
    }

    /// An address for this side: the same on every start.
    pub fn mac(&self) -> MacAddr {
        crate::station::of(&["vhost-user", &self.socket.to_string()])
    }

    /// The features that are offered.
    pub(super) fn features(&self) -> u64 {
        let mut all = f::VERSION_1 | f::EVENT_IDX | f::ANY_LAYOUT | f::MQ;
        if self.mergeable {
            all |= f::MRG_RXBUF;
        }
        if self.indirect {
            all |= f::INDIRECT_DESC;
        }
        if self.gso {
            all |= f::CSUM | f::HOST_TSO4 | f::HOST_TSO6 | f::HOST_ECN;
            all |= f::GUEST_CSUM | f::GUEST_TSO4 | f::GUEST_TSO6 | f::GUEST_ECN;
        }
        all & self.mask | f::PROTOCOL_FEATURES
    }
}
