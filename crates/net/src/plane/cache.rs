//! What nodes remember over a vector.

use super::Plane;
use crate::interface::{IfIndex, Interface};
use graph::Guard;
use tables::slots::SlotsReader;

/// One interface remembered over a vector: most packets of a vector share theirs.
pub struct IfCache<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    index: IfIndex,
    found: Option<&'v Interface>,
}

impl<'v> IfCache<'v> {
    /// Empty.
    #[inline]
    pub fn new(plane: &'v Plane, guard: &'v Guard) -> Self {
        IfCache { plane, guard, index: u32::MAX, found: None }
    }

    /// All interfaces.
    #[inline]
    pub fn all(&self) -> SlotsReader<'v, Interface> {
        self.plane.interfaces.reader(self.guard)
    }

    /// The interface `index`, looked up without remembering it.
    #[inline]
    pub fn peek(&self, index: IfIndex) -> Option<&'v Interface> {
        self.all().get(index)
    }

    /// The interface `index`.
    #[inline]
    pub fn get(&mut self, index: IfIndex) -> Option<&'v Interface> {
        if index != self.index {
            self.index = index;
            self.found = self.plane.interfaces.get(index, self.guard);
        }
        self.found
    }
}
