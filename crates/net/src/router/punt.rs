//! Limits and counters of the classes of packets for the router itself.

use super::op::Undo;
use super::{Op, OpError, Router};
use crate::punt::{Class, ClassCounts, Limit};

/// Counters at the last `clear punt`: by worker, then by class.
#[derive(Default)]
pub(super) struct Cleared {
    counts: Vec<Vec<ClassCounts>>,
    lost: u64,
}

/// A class as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntRow {
    /// The class.
    pub class: Class,
    /// Its limit; `None`: not limited.
    pub limit: Option<Limit>,
    /// Each worker's counters since the last `clear punt`.
    pub workers: Vec<ClassCounts>,
}

impl PuntRow {
    /// The counters of all workers together.
    pub fn total(&self) -> ClassCounts {
        self.workers.iter().fold(ClassCounts::default(), |sum, w| ClassCounts {
            passed: sum.passed + w.passed,
            spared: sum.spared + w.spared,
            dropped: sum.dropped + w.dropped,
        })
    }
}

impl Router {
    pub(super) fn set_punt(&mut self, class: Class, limit: Option<Limit>) -> Result<Undo, OpError> {
        if let Some(l) = limit {
            let most = Limit::MOST;
            let name = class.name();
            if l.rate > most {
                return Err(OpError::new(format!(
                    "punt policer {name}: rate {} is out of range, 0 to {most} packets a second",
                    l.rate
                )));
            }
            if l.burst == 0 || l.burst > most {
                return Err(OpError::new(format!(
                    "punt policer {name}: burst {} is out of range, 1 to {most} packets",
                    l.burst
                )));
            }
        }
        let was = self.plane.police.limit(class);
        self.plane.police.set(class, limit);
        Ok(vec![Op::SetPunt { class, limit: was }])
    }

    /// All classes.
    pub fn punt_rows(&self) -> Vec<PuntRow> {
        let cleared = |w: usize, c: Class| {
            let counts = self.cleared.punt.counts.get(w).and_then(|w| w.get(c as usize));
            counts.copied().unwrap_or_default()
        };
        let worker = |class: Class, w: usize| {
            let (now, then) = (self.plane.police.counts(class, w), cleared(w, class));
            ClassCounts {
                passed: now.passed - then.passed,
                spared: now.spared - then.spared,
                dropped: now.dropped - then.dropped,
            }
        };
        let row = |&class: &Class| PuntRow {
            class,
            limit: self.plane.police.limit(class),
            workers: (0..self.workers.len()).map(|w| worker(class, w)).collect(),
        };
        Class::ALL.iter().map(row).collect()
    }

    /// Messages of workers that the control side was too busy to take, since the last `clear punt`.
    pub fn punt_lost(&self) -> u64 {
        self.plane.punt.lost() - self.cleared.punt.lost
    }

    /// `clear punt`.
    pub fn clear_punt(&mut self) {
        let of = |w| Class::ALL.iter().map(|c| self.plane.police.counts(*c, w)).collect();
        let counts = (0..self.workers.len()).map(of).collect();
        self.cleared.punt = Cleared { counts, lost: self.plane.punt.lost() };
    }
}
