//! How workers wait for packets, and whether the router moves receive queues between them.

use super::State;
use crate::router::{Op, OpError, PartOp, Router};
use graph::Polling;
use std::collections::BTreeMap;

/// The highest number of a CPU that a worker can be given.
pub const MOST_CPU: u16 = 4095;

/// What the operator chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSettings {
    /// How workers wait that have nothing of their own.
    pub polling: Polling,
    /// How some wait, by number.
    pub own: BTreeMap<usize, Polling>,
    /// Receive queues whose worker the operator has not chosen are moved where load is uneven.
    pub balance: bool,
}

impl LoadSettings {
    /// How a worker waits.
    pub fn of(&self, worker: usize) -> Polling {
        self.own.get(&worker).copied().unwrap_or(self.polling)
    }
}

/// What was chosen.
pub fn settings(router: &Router) -> LoadSettings {
    router.state::<State>().map(|s| s.settings.clone()).unwrap_or_default()
}

/// A change of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadOp {
    /// How all workers wait that have nothing of their own.
    Polling(Polling),
    /// How one waits; `None`: as the others.
    Own {
        /// Its number.
        worker: usize,
        /// How.
        polling: Option<Polling>,
    },
    /// Queues are moved where load is uneven.
    Balance(bool),
    /// How many there are.
    Workers {
        /// So many.
        count: usize,
        /// A CPU for each; empty: they run where Linux has them run.
        cpus: Vec<usize>,
    },
}

impl LoadOp {
    /// Does a part of what takes long before it can be applied; whether there is more.
    ///
    /// # Errors
    /// It cannot be applied. What was made ready stays for another time.
    pub fn prepare(&self, router: &mut Router) -> Result<bool, OpError> {
        match self {
            LoadOp::Workers { count, cpus } => {
                router.check_workers(*count, cpus)?;
                router.ready_workers(*count)
            }
            _ => Ok(false),
        }
    }
}

/// Has all workers wait as the operator chose.
pub(super) fn set_polling(router: &Router) {
    let settings = settings(router);
    for worker in 0..router.config().workers {
        let polling = settings.of(worker);
        router.workers().on(worker, move |w| w.set_polling(polling));
    }
}

impl PartOp for LoadOp {
    fn subject(&self) -> String {
        match self {
            LoadOp::Polling(_) => "polling of workers".into(),
            LoadOp::Own { worker, .. } => format!("polling of worker {worker}"),
            LoadOp::Balance(_) => "balance of workers".into(),
            LoadOp::Workers { .. } => "number of workers".into(),
        }
    }

    fn off(&self) -> Option<Op> {
        Some(match self {
            LoadOp::Polling(_) => LoadOp::Polling(Polling::default()).into(),
            LoadOp::Own { worker, .. } => LoadOp::Own { worker: *worker, polling: None }.into(),
            LoadOp::Balance(_) => LoadOp::Balance(false).into(),
            LoadOp::Workers { .. } => LoadOp::Workers { count: 1, cpus: vec![] }.into(),
        })
    }

    fn words(&self) -> String {
        match self {
            LoadOp::Polling(p) => p.name().into(),
            LoadOp::Own { polling, .. } => polling.map_or("default", Polling::name).into(),
            LoadOp::Balance(on) => if *on { "on" } else { "off" }.into(),
            LoadOp::Workers { count, cpus } if cpus.is_empty() => count.to_string(),
            LoadOp::Workers { count, cpus } => {
                let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                format!("{count} cpus {}", cpus.join(","))
            }
        }
    }

    fn command(&self) -> Option<String> {
        Some(match self {
            LoadOp::Polling(_) => format!("set workers polling {}", self.words()),
            LoadOp::Own { worker, .. } => format!("set workers polling {} worker {worker}", self.words()),
            LoadOp::Balance(_) => format!("set workers balance {}", self.words()),
            LoadOp::Workers { .. } => format!("set workers {}", self.words()),
        })
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let workers = router.config().workers;
        if let LoadOp::Own { worker, .. } = self
            && worker >= workers
        {
            let there =
                if workers == 1 { "only worker 0".into() } else { format!("workers 0 to {}", workers - 1) };
            return Err(OpError::new(format!("there is no worker {worker}, {there}")));
        }
        if let LoadOp::Workers { count, cpus } = self {
            if let Some((worker, _)) = settings(router).own.range(count..).next() {
                return Err(OpError::new(format!(
                    "worker {worker} waits in a way of its own: undo that first (set workers polling default worker {worker})"
                )));
            }
            let was = LoadOp::Workers { count: workers, cpus: router.config().cpus.clone() };
            router.set_workers(count, cpus)?;
            return Ok(vec![was.into()]);
        }
        let Some(s) = router.state_mut::<State>().map(|s| &mut s.settings) else { return Ok(vec![]) };
        let undo = match self {
            LoadOp::Polling(to) => LoadOp::Polling(std::mem::replace(&mut s.polling, to)),
            LoadOp::Own { worker, polling } => {
                let was = match polling {
                    Some(p) => s.own.insert(worker, p),
                    None => s.own.remove(&worker),
                };
                LoadOp::Own { worker, polling: was }
            }
            LoadOp::Balance(on) => LoadOp::Balance(std::mem::replace(&mut s.balance, on)),
            LoadOp::Workers { .. } => return Ok(vec![]),
        };
        set_polling(router);
        Ok(vec![undo.into()])
    }
}
