//! How workers wait for packets, and whether the router moves receive queues between them.

use super::State;
use crate::router::{Op, OpError, PartOp, Router};
use graph::Polling;
use std::collections::BTreeMap;

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
}

/// Has all workers wait as the operator chose.
pub(super) fn set_polling(router: &mut Router) {
    for worker in 0..router.config().workers {
        let polling = settings(router).of(worker);
        router.set_polling(worker, polling);
    }
}

impl PartOp for LoadOp {
    fn subject(&self) -> String {
        match self {
            LoadOp::Polling(_) => "polling of workers".into(),
            LoadOp::Own { worker, .. } => format!("polling of worker {worker}"),
            LoadOp::Balance(_) => "balance of workers".into(),
        }
    }

    fn off(&self) -> Option<Op> {
        Some(match self {
            LoadOp::Polling(_) => LoadOp::Polling(Polling::default()).into(),
            LoadOp::Own { worker, .. } => LoadOp::Own { worker: *worker, polling: None }.into(),
            LoadOp::Balance(_) => LoadOp::Balance(false).into(),
        })
    }

    fn words(&self) -> String {
        match self {
            LoadOp::Polling(p) => p.name().into(),
            LoadOp::Own { polling, .. } => polling.map_or("default", Polling::name).into(),
            LoadOp::Balance(on) => if *on { "on" } else { "off" }.into(),
        }
    }

    fn command(&self) -> Option<String> {
        Some(match self {
            LoadOp::Polling(_) => format!("set workers polling {}", self.words()),
            LoadOp::Own { worker, .. } => format!("set workers polling {} worker {worker}", self.words()),
            LoadOp::Balance(_) => format!("set workers balance {}", self.words()),
        })
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        if let LoadOp::Own { worker, .. } = self {
            router.check_worker(worker).map_err(OpError::new)?;
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
        };
        set_polling(router);
        Ok(vec![undo.into()])
    }
}
