//! The options of a hop-by-hop or destination-options header as their reader treats them (RFC 8200 section 4.2).
//!
//! Nothing but padding is acted upon. An option that is not known is treated as the two highest bits of its type demand.

use crate::icmp::Ask;
use packet::icmp6::parameter;
use packet::ip6::ext::{Ip6Option, Options, UnknownAction};
use std::ops::Range;

/// Options, padding apart, that are taken in one header (RFC 8504 section 5.3).
const MAX_OPTIONS: usize = 8;

/// What is wrong with the options of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// More than [`MAX_OPTIONS`]: dropped.
    TooMany,
    /// An unknown option whose type says "discard".
    Discard,
    /// The octet at this offset is wrong: reported.
    Malformed(usize),
    /// An unknown option at this offset whose type says "discard and report".
    Unknown(usize),
}

impl Fault {
    /// What the sender is told; `None`: nothing.
    pub fn ask(self) -> Option<Ask> {
        match self {
            Fault::TooMany | Fault::Discard => None,
            Fault::Malformed(at) => Some(Ask::v6_parameter_problem(parameter::HEADER_FIELD, at as u16)),
            Fault::Unknown(at) => Some(Ask::v6_parameter_problem(parameter::OPTION, at as u16)),
        }
    }
}

/// Checks the options of the header at `place` of a packet, to a group (`multicast`) or not. `known` checks those that the
/// reader knows and answers whether it does.
pub(super) fn check(
    packet: &[u8],
    place: Range<usize>,
    multicast: bool,
    known: impl Fn(&Ip6Option<'_>) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    for (n, option) in Options::new(packet, place).enumerate() {
        let option = option.map_err(Fault::Malformed)?;
        if n == MAX_OPTIONS {
            return Err(Fault::TooMany);
        }
        if known(&option)? {
            continue;
        }
        match option.unknown_action() {
            UnknownAction::Skip => {}
            UnknownAction::DiscardIcmp => return Err(Fault::Unknown(option.offset)),
            UnknownAction::DiscardIcmpUnlessMulticast if !multicast => {
                return Err(Fault::Unknown(option.offset));
            }
            UnknownAction::Discard | UnknownAction::DiscardIcmpUnlessMulticast => return Err(Fault::Discard),
        }
    }
    Ok(())
}
