//! A client's stream as it comes from another thread: orders in, answers out, both bounded.

use super::{Batch, Clients, Goal, Hello, Outcome, Program, Refusal, SharedRouter, Welcome};
use std::rc::Rc;
use tokio::sync::mpsc::{Receiver, Sender};

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The number of a set stands for this from now on.
    Define(u32, Goal),
    /// Changes of routes.
    Change(Batch),
    /// All routes are sent again from now on.
    Mark,
    /// All were sent again.
    Sweep,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Who it is here.
    Welcome(Welcome),
    /// What became of changes and sets.
    Done(Outcome),
    /// How many routes were not sent again.
    Swept(u64),
}

/// The answer ends the stream.
type Answers = Sender<Result<Answer, Refusal>>;
/// Nobody takes answers any more.
struct Gone;

/// Serves a client until it has no more orders, is refused, or takes no answers any more.
pub async fn serve(
    router: SharedRouter,
    clients: Rc<Clients>,
    (hello, user): (Hello, String),
    mut orders: Receiver<Vec<Order>>,
    answers: Answers,
) {
    let begun = tokio::select! {
        begun = Program::begin(&router, &clients, &hello, &user) => begun,
        () = answers.closed() => return,
    };
    let mut program = match begun {
        Ok((program, welcome)) => {
            if answers.send(Ok(Answer::Welcome(welcome))).await.is_err() {
                return;
            }
            program
        }
        Err(refusal) => {
            let _ = answers.send(Err(refusal)).await;
            return;
        }
    };
    while let Some(some) = orders.recv().await {
        if obey(&mut program, some, &answers).await.is_err() {
            return;
        }
    }
}

async fn obey(program: &mut Program, orders: Vec<Order>, answers: &Answers) -> Result<(), Gone> {
    let mut changes: Vec<Batch> = vec![];
    for order in orders {
        let order = match order {
            Order::Change(batch) => {
                changes.push(batch);
                continue;
            }
            other => other,
        };
        make(program, &mut changes, answers).await?;
        match order {
            Order::Change(_) => {}
            Order::Define(number, goal) => {
                if let Err(e) = program.define(number, goal) {
                    let wrong = Outcome { done: program.done(), refused: 0, errors: vec![e] };
                    answer(answers, Ok(Answer::Done(wrong))).await?;
                }
            }
            Order::Mark => {
                if let Err(refusal) = program.mark() {
                    answer(answers, Err(refusal)).await?;
                }
            }
            Order::Sweep => answer(answers, program.sweep().await.map(Answer::Swept)).await?,
        }
    }
    make(program, &mut changes, answers).await
}

/// Makes the changes that have come one behind the other, with one answer.
async fn make(program: &mut Program, changes: &mut Vec<Batch>, answers: &Answers) -> Result<(), Gone> {
    if changes.is_empty() {
        return Ok(());
    }
    let done = program.program(changes).await;
    changes.clear();
    answer(answers, done.map(Answer::Done)).await
}

/// A refusal is the last answer.
async fn answer(answers: &Answers, what: Result<Answer, Refusal>) -> Result<(), Gone> {
    let ends = what.is_err();
    answers.send(what).await.map_err(|_| Gone)?;
    if ends { Err(Gone) } else { Ok(()) }
}
