//! How many workers there are, as an operator says it.

use super::{set_polling, settings};
use crate::router::{Op, OpError, PartOp, Router};

/// The highest number of a CPU that a worker can be given.
pub const MOST_CPU: u16 = 4095;

/// Has so many workers share the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetWorkers {
    /// So many.
    pub count: usize,
    /// A CPU for each; empty: they run where Linux has them run.
    pub cpus: Vec<usize>,
}

impl PartOp for SetWorkers {
    fn subject(&self) -> String {
        "number of workers".into()
    }

    fn off(&self) -> Option<Op> {
        Some(SetWorkers { count: 1, cpus: vec![] }.into())
    }

    fn words(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        if cpus.is_empty() {
            self.count.to_string()
        } else {
            format!("{} cpus {}", self.count, cpus.join(","))
        }
    }

    fn command(&self) -> Option<String> {
        Some(format!("set workers {}", self.words()))
    }

    fn prepare(&self, router: &mut Router) -> Result<bool, OpError> {
        router.check_workers(self.count, &self.cpus)?;
        router.ready_workers(self.count)
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        if let Some((worker, _)) = settings(router).own.range(self.count..).next() {
            return Err(OpError::new(format!(
                "worker {worker} waits in a way of its own: undo that first (set workers polling default worker {worker})"
            )));
        }
        let was = SetWorkers { count: router.config().workers, cpus: router.config().cpus.clone() };
        router.set_workers(self.count, self.cpus)?;
        set_polling(router);
        Ok(vec![was.into()])
    }
}
