//! Bonds as workers see them.

use super::slots::SLOTS;
use super::{Balance, Mode};
use crate::interface::IfIndex;
use std::sync::Arc;

/// A bond.
#[derive(Debug)]
pub(super) struct Bond {
    pub mode: Mode,
    pub balance: Balance,
    /// Members over which frames leave; the first one is that of active-backup.
    pub tx: Box<[IfIndex]>,
    /// Which of them has the flows of a slot.
    pub slots: Box<[u8; SLOTS]>,
}

/// What a member is to its bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The bond.
    pub bond: IfIndex,
    /// Its frames are taken.
    pub takes: bool,
    /// LACP is the router's.
    pub lacp: bool,
}

/// All bonds and members, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Bonds {
    pub bonds: Box<[(IfIndex, Arc<Bond>)]>,
    pub members: Box<[(IfIndex, Member)]>,
}

/// The one of this number.
#[inline]
fn find<T>(all: &[(IfIndex, T)], index: IfIndex) -> Option<&T> {
    let at = all.binary_search_by_key(&index, |o| o.0).ok()?;
    all.get(at).map(|o| &o.1)
}

impl Bonds {
    #[inline]
    pub fn bond(&self, index: IfIndex) -> Option<&Bond> {
        find(&self.bonds, index).map(|b| &**b)
    }

    #[inline]
    pub fn member(&self, index: IfIndex) -> Option<Member> {
        find(&self.members, index).copied()
    }
}
