//! Many changes of routes for one transaction.

use super::prefixes::Prefix;
use net::router::{Op, RouteBatch, Target, TargetId};

/// Changes of one family.
pub struct Changes {
    v6: bool,
    targets: Vec<TargetId>,
    batch: RouteBatch,
}

impl Changes {
    /// No changes yet, of routes of table 0 to some of `targets`.
    pub fn new(v6: bool, targets: &[Target]) -> Self {
        Self::in_table(0, v6, targets)
    }

    /// The same for another table.
    pub fn in_table(table: u32, v6: bool, targets: &[Target]) -> Self {
        let mut batch = RouteBatch::in_table(table);
        let targets = targets.iter().map(|t| batch.target(t.clone())).collect();
        Changes { v6, targets, batch }
    }

    /// The route of `prefix` goes to target `k`, counted round.
    pub fn set(&mut self, prefix: Prefix, k: usize) {
        let target = self.targets.get(k % self.targets.len().max(1));
        if let (Some(prefix), Some(target)) = (prefix.net(self.v6), target) {
            self.batch.set(prefix, *target);
        }
    }

    /// The route of `prefix` goes.
    pub fn del(&mut self, prefix: Prefix) {
        if let Some(prefix) = prefix.net(self.v6) {
            self.batch.del(prefix);
        }
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// As operations of a transaction.
    pub fn ops(self) -> Vec<Op> {
        vec![Op::Routes(self.batch)]
    }
}
