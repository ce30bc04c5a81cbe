//! Limits and counters of the classes as a part of the control side.

use crate::punt::{Class, ClassCounts, Limit};
use crate::router::{Op, OpError, Part, PartOp, Router, Start};
use command::Command;
use std::any::Any;

/// The part.
pub(crate) struct Copp;

/// Counters at the last `clear punt`: by worker, then by class.
#[derive(Default)]
struct Cleared {
    counts: Vec<Vec<ClassCounts>>,
    lost: u64,
}

/// Limits a class of packets for the router itself.
#[derive(Clone, Debug, PartialEq)]
pub struct SetLimit {
    /// The class.
    pub class: Class,
    /// Its limit; `None`: not limited.
    pub limit: Option<Limit>,
}

/// A class as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRow {
    /// The class.
    pub class: Class,
    /// Its limit; `None`: not limited.
    pub limit: Option<Limit>,
    /// Each worker's counters since the last `clear punt`.
    pub workers: Vec<ClassCounts>,
}

impl ClassRow {
    /// The counters of all workers together.
    pub fn total(&self) -> ClassCounts {
        self.workers.iter().fold(ClassCounts::default(), |sum, w| ClassCounts {
            passed: sum.passed + w.passed,
            spared: sum.spared + w.spared,
            dropped: sum.dropped + w.dropped,
        })
    }
}

impl PartOp for SetLimit {
    fn subject(&self) -> String {
        format!("punt policer {}", self.class.name())
    }

    fn off(&self) -> Option<Op> {
        Some(SetLimit { class: self.class, limit: Some(self.class.default_limit()) }.into())
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let SetLimit { class, limit } = self;
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
        let police = &router.plane().police;
        let was = police.limit(class);
        police.set(class, limit);
        Ok(vec![SetLimit { class, limit: was }.into()])
    }

    fn log_line(&self) -> Option<String> {
        let name = self.class.name();
        Some(match self.limit {
            Some(l) => format!("punt policer {name}: {} packets/s, burst {}", l.rate, l.burst),
            None => format!("punt policer {name}: off"),
        })
    }
}

/// All classes.
pub fn rows(router: &Router) -> Vec<ClassRow> {
    let (police, cleared) = (&router.plane().police, router.state::<Cleared>());
    let then = |w: usize, c: Class| {
        let counts = cleared.and_then(|cleared| cleared.counts.get(w)?.get(c as usize));
        counts.copied().unwrap_or_default()
    };
    let worker = |class: Class, w: usize| {
        let (now, then) = (police.counts(class, w), then(w, class));
        ClassCounts {
            passed: now.passed - then.passed,
            spared: now.spared - then.spared,
            dropped: now.dropped - then.dropped,
        }
    };
    let row = |&class: &Class| ClassRow {
        class,
        limit: police.limit(class),
        workers: (0..router.graphs().len()).map(|w| worker(class, w)).collect(),
    };
    Class::ALL.iter().map(row).collect()
}

/// Messages of workers that the control side was too busy to take, since the last `clear punt`.
pub(super) fn lost(router: &Router) -> u64 {
    router.plane().punt.lost() - router.state::<Cleared>().map_or(0, |c| c.lost)
}

/// `clear punt`.
pub(super) fn clear(router: &mut Router) {
    let police = &router.plane().police;
    let of = |w| Class::ALL.iter().map(|c| police.counts(*c, w)).collect();
    let counts = (0..router.graphs().len()).map(of).collect();
    let lost = router.plane().punt.lost();
    if let Some(cleared) = router.state_mut::<Cleared>() {
        *cleared = Cleared { counts, lost };
    }
}

impl Part for Copp {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Cleared::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }
}
