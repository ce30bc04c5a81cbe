//! Many changes of routes for one transaction.

use super::prefixes::Prefix;
use net::router::{Op, Target};

/// Changes of one family.
pub struct Changes<'a> {
    v6: bool,
    targets: &'a [Target],
    ops: Vec<Op>,
}

impl<'a> Changes<'a> {
    /// No changes yet, of routes to some of `targets`.
    pub fn new(v6: bool, targets: &'a [Target]) -> Self {
        Changes { v6, targets, ops: vec![] }
    }

    /// The route of `prefix` goes to target `k`, counted round.
    pub fn set(&mut self, prefix: Prefix, k: usize) {
        let target = self.targets.get(k % self.targets.len().max(1));
        if let (Some(prefix), Some(target)) = (prefix.net(self.v6), target) {
            self.ops.push(Op::SetRoute { prefix, target: target.clone() });
        }
    }

    /// The route of `prefix` goes.
    pub fn del(&mut self, prefix: Prefix) {
        self.ops.extend(prefix.net(self.v6).map(|prefix| Op::DelRoute { prefix }));
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// As operations of a transaction.
    pub fn ops(self) -> Vec<Op> {
        self.ops
    }
}
