//! The way from other threads to the control thread: a bounded queue of what is to be done there.

use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use command::{Caller, Completion};
use tokio::sync::{Semaphore, mpsc};

use super::Executor;
use super::protocol::Run;
use super::replies::{Piece, Pieces, Replies};
use super::session::{Session, Shared};

/// What is done on the control thread, in turns with everything else.
pub type Doing = Pin<Box<dyn Future<Output = ()>>>;
/// Makes it, on the control thread: it gets the place there, and what was lent to the door.
type Task<C> = Box<dyn FnOnce(Here, C) -> Doing + Send>;

/// The outer side of the door, for any thread.
pub struct Door<C>(mpsc::Sender<Task<C>>);

impl<C> Clone for Door<C> {
    fn clone(&self) -> Self {
        Door(self.0.clone())
    }
}

/// The control thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// The inner side of the door, for the control thread.
pub struct Orders<C>(mpsc::Receiver<Task<C>>);

/// A door at which `most` may wait to be let in.
pub fn door<C>(most: usize) -> (Door<C>, Orders<C>) {
    let (outer, inner) = mpsc::channel(most);
    (Door(outer), Orders(inner))
}

impl<C: 'static> Door<C> {
    /// Has something done on the control thread, beside what else is done there. It must leave the thread after some milliseconds at
    /// most, and is not ended when nobody waits for it any more.
    ///
    /// # Errors
    /// The control thread has ended.
    pub async fn send<F: Future<Output = ()> + 'static>(
        &self,
        task: impl FnOnce(Here, C) -> F + Send + 'static,
    ) -> Result<(), Closed> {
        let task: Task<C> = Box::new(move |here, context| Box::pin(task(here, context)));
        self.0.send(task).await.map_err(|_| Closed)
    }

    /// As [`Door::send`], and waits for what it answers.
    ///
    /// # Errors
    /// The control thread has ended, or what was asked for has panicked.
    pub async fn ask<R: Send + 'static, F: Future<Output = R> + 'static>(
        &self,
        task: impl FnOnce(Here, C) -> F + Send + 'static,
    ) -> Result<R, Closed> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.send(async move |here, context| _ = answer.send(task(here, context).await)).await?;
        answered.await.map_err(|_| Closed)
    }
}

/// The inner side with what is lent through it, for [`Server::serve_beside`](super::Server::serve_beside).
pub struct Inside(pub(super) Box<dyn FnOnce(Rc<Shared>) -> Doing>);

impl Inside {
    /// Serves who comes through the door without a control socket beside it, on a `LocalSet`, until nobody can come any more.
    pub async fn alone(self, executor: Rc<dyn Executor>) {
        (self.0)(Rc::new(Shared::new(executor, None))).await;
    }
}

impl<C: Clone + 'static> Orders<C> {
    /// What is done gets this.
    pub fn lend(self, context: C) -> Inside {
        Inside(Box::new(move |shared| Box::pin(self.serve(shared, context))))
    }

    /// Does what is asked for, until nobody can ask any more.
    async fn serve(mut self, shared: Rc<Shared>, context: C) {
        while let Some(task) = self.0.recv().await {
            tokio::task::spawn_local(task(Here(Rc::clone(&shared)), context.clone()));
        }
    }
}

/// A place on the control thread.
pub struct Here(Rc<Shared>);

impl Here {
    /// Runs commands for somebody, and hands on what they say. Where nobody takes that for long, or at all any more, they end as they do
    /// for who leaves the control socket.
    pub async fn run(
        &self,
        caller: Arc<Caller>,
        what: Run,
        json: bool,
        directory: Option<PathBuf>,
        to: mpsc::Sender<Piece>,
    ) {
        let mut session = Session::new(Rc::clone(&self.0), caller, Replies::Pieces(Pieces::new(to)));
        // Who is gone need not be told.
        let _ = session.run(&what, json, directory.as_deref()).await;
    }

    /// Does some work, for not more than milliseconds, when it is its turn.
    pub async fn turn<R>(&self, what: &str, work: impl FnOnce() -> R) -> R {
        self.0.turn(what, |_| work()).await
    }

    /// The same with a piece of much that is asked for, but for the first: many of those keep nobody else waiting.
    pub async fn long_turn<R>(&self, what: &str, work: impl FnOnce() -> R) -> R {
        self.0.long_turn(what, |_| work()).await
    }

    /// What each of those holds while it works.
    pub fn long(&self) -> Rc<Semaphore> {
        Rc::clone(&self.0.long)
    }

    /// What could stand at byte `cursor` of a line.
    pub async fn complete(&self, line: &str, cursor: usize) -> Completion {
        self.0.turn("completion", |e| e.complete(line, cursor)).await
    }

    /// What may follow a line.
    pub async fn help(&self, line: &str) -> String {
        self.0.turn("help", |e| e.help(line)).await
    }
}
