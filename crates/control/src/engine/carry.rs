//! Carrying a plan out piece by piece, so that others have their turn between two, and back from a step that fails.

use super::objects::Value;
use super::steps::{Plan, Step};
use model::Phase;
use net::router::{Op, OpError, Router, Waits};
use std::time::{Duration, Instant};

/// Changes of routes and labels of a piece.
const MOST: usize = 1000;

/// Why a plan was not carried out. What runs is what ran before.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The step, by its position.
    pub step: usize,
    /// The position of a route or label in the new side.
    pub number: Option<u32>,
    /// What the router says.
    pub message: String,
    /// What could not be undone; the state before is not all back then.
    pub left: Vec<String>,
}

/// How far it is.
#[derive(Debug)]
pub enum Progress {
    /// More is to be done.
    More,
    /// More is to be done once Linux has answered what [`Carry::waits`] asks.
    Waits,
    /// All is done.
    Done,
    /// A step failed, and those before it are undone.
    Failed(Failed),
}

/// A plan that is carried out.
pub struct Carry {
    plan: Plan,
    /// The piece that comes next; going back, the one behind that which is undone next.
    at: (usize, usize),
    /// The steps were carried out up to here before one failed.
    failed: Option<Failed>,
    /// Fails before this step, for tests.
    fails_at: Option<usize>,
    /// What the piece at `at`, which is made, waits for.
    waits: Option<Waits>,
    /// The router knows that it is under way.
    begun: bool,
}

impl Carry {
    /// Begins at the first step.
    pub fn new(plan: Plan) -> Self {
        Carry { plan, at: (0, 0), failed: None, fails_at: None, waits: None, begun: false }
    }

    /// Fails before the step of this position as if the router had refused it.
    #[must_use]
    pub fn failing_at(mut self, step: usize) -> Self {
        self.fails_at = Some(step);
        self
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan, when it was carried out.
    pub fn into_plan(self) -> Plan {
        self.plan
    }

    /// Steps that are done.
    pub fn done(&self) -> usize {
        self.at.0
    }

    /// Has it go back over all that was done.
    pub fn give_up(&mut self, message: &str) {
        let failed = || Failed { step: self.at.0, number: None, message: message.into(), left: vec![] };
        self.failed.get_or_insert_with(failed);
    }

    /// Waits for what Linux says to the last piece; what it refuses is undone, and fails the plan.
    pub async fn waits(&mut self) {
        let Some(waits) = self.waits.take() else { return };
        let done = waits.done().await;
        match (done, &mut self.failed) {
            (Ok(()), None) => self.pass(),
            (Ok(()), Some(_)) => {}
            (Err(e), Some(failed)) => failed.left.push(e.message),
            (Err(e), None) => {
                self.failed =
                    Some(Failed { step: self.at.0, number: None, message: e.message, left: vec![] });
            }
        }
    }

    /// The piece is done, and the next one comes.
    fn pass(&mut self) {
        let (at, piece) = self.at;
        let Some(step) = self.plan.steps.get(at) else { return };
        let last = piece + 1 == self.plan.pieces(step, MOST);
        self.at = if last { (at + 1, 0) } else { (at, piece + 1) };
    }

    /// Goes on for about so long.
    pub fn go_on(&mut self, router: &mut Router, time: Duration) -> Progress {
        let began = Instant::now();
        if !self.begun && self.at == (0, 0) && self.failed.is_none() {
            self.begun = true;
            router.begin_plan();
        }
        loop {
            if self.waits.is_some() {
                return Progress::Waits;
            }
            router.collect();
            let more = if self.failed.is_some() { self.back(router) } else { self.forth(router) };
            self.waits = self.waits.take().or_else(|| router.collected());
            if self.waits.is_some() {
                return Progress::Waits;
            }
            if !more && std::mem::take(&mut self.begun) {
                router.collect();
                router.end_plan();
                self.waits = router.collected();
                continue;
            }
            if !more {
                return match self.failed.take() {
                    Some(failed) => Progress::Failed(failed),
                    None => Progress::Done,
                };
            }
            if began.elapsed() >= time {
                return Progress::More;
            }
        }
    }

    fn forth(&mut self, router: &mut Router) -> bool {
        let (at, piece) = self.at;
        let Some(step) = self.plan.steps.get(at) else { return false };
        let result = match self.fails_at {
            Some(n) if n == at && piece == 0 => Err((None, OpError::new("a test has it fail here"))),
            _ => match prepare(router, step) {
                Ok(true) => return true,
                Ok(false) => one(router, &self.plan, step, piece, false),
                Err(e) => Err((None, e)),
            },
        };
        match result {
            Ok(()) => {
                self.waits = router.collected();
                if self.waits.is_none() {
                    self.pass();
                }
            }
            Err((number, e)) => {
                self.failed = Some(Failed { step: at, number, message: e.message, left: vec![] });
            }
        }
        true
    }

    fn back(&mut self, router: &mut Router) -> bool {
        self.at = match self.at {
            (0, 0) => return false,
            (at, 0) => {
                let pieces = self.plan.steps.get(at - 1).map_or(1, |s| self.plan.pieces(s, MOST));
                (at - 1, pieces - 1)
            }
            (at, piece) => (at, piece - 1),
        };
        let (at, piece) = self.at;
        if let Some(step) = self.plan.steps.get(at)
            && let Err((_, e)) = one(router, &self.plan, step, piece, true)
            && let Some(failed) = &mut self.failed
        {
            failed.left.push(e.message);
        }
        true
    }
}

/// Does a part of what a step needs that takes long; whether there is more.
fn prepare(router: &mut Router, step: &Step) -> Result<bool, OpError> {
    match &step.new {
        Some(Value::Op(Op::Part(op))) => op.prepare(router),
        _ => Ok(false),
    }
}

fn one(
    router: &mut Router,
    plan: &Plan,
    step: &Step,
    piece: usize,
    back: bool,
) -> Result<(), (Option<u32>, OpError)> {
    let range = piece * MOST..((piece + 1) * MOST).min(plan.runs.len(&step.id)).max(1);
    let (ops, numbers): (Vec<Op>, Vec<Vec<u32>>) = plan.ops(router, step, range, back).into_iter().unzip();
    if ops.is_empty() {
        return Ok(());
    }
    router.commit(ops).map_err(|e| {
        let number = numbers.get(e.index).and_then(|n| n.get(e.route)).copied();
        (number, e)
    })
}

/// All of a plan as one transaction.
pub(crate) fn at_once(router: &mut Router, plan: &Plan) -> Result<(), Failed> {
    // Next hops name interfaces by number: what makes those comes before what names them.
    let names =
        |s: &Step| matches!(s.id, super::Id::Routes(_) | super::Id::Labels(_) | super::Id::TunnelPaths(_));
    let split = plan.steps.iter().position(names).unwrap_or(plan.steps.len());
    let mut done: Vec<usize> = vec![];
    for part in [0..split, split..plan.steps.len()] {
        let (mut ops, mut of) = (vec![], vec![]);
        for (at, step) in plan.steps.iter().enumerate().take(part.end).skip(part.start) {
            for (op, numbers) in plan.ops(router, step, 0..plan.runs.len(&step.id), false) {
                ops.push(op);
                of.push((at, numbers));
            }
        }
        if let Err(e) = router.commit(ops) {
            let (step, numbers) = of.get(e.index).map_or((0, None), |(at, n)| (*at, Some(n)));
            let number = numbers.and_then(|n| n.get(e.route)).copied();
            let mut left = vec![];
            for at in done.into_iter().rev() {
                let Some(step) = plan.steps.get(at) else { continue };
                let undone = one(router, plan, step, 0, true);
                left.extend(undone.err().map(|(_, e)| e.message));
            }
            return Err(Failed { step, number, message: e.message, left });
        }
        done.extend(part);
    }
    Ok(())
}

impl Plan {
    /// Steps that do something, with their positions.
    pub fn visible(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.steps.iter().enumerate().filter(|(_, s)| s.is_visible())
    }
}

impl Step {
    /// Whether an operator is told of it.
    pub(super) fn is_visible(&self) -> bool {
        use super::Id;
        match &self.id {
            Id::Layer(_) => false,
            // What is made with its interface, and only stands for what it has by itself.
            Id::Binding(..) => !self.is_main(),
            Id::InterfaceOrder | Id::AddressOrder(_) => self.phase == Phase::Make && self.reorders(),
            _ => !self.goes_along,
        }
    }
}
