//! Answers that come in pieces, no faster than the client takes them.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use command::{Caller, CommandError};
use control::ctl::{Here, Piece, Run};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::Stream;
use tonic::Status;

use super::Router;
use crate::limits::{self, Answers, Deadline};
use crate::status;

/// An answer that is not taken for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// A piece on the way to the client.
enum Way<T> {
    Message(T),
    End,
}

/// What becomes of a piece: a message or a failure, and whether that is the end.
pub type Read<T> = (Option<Result<T, Status>>, bool);

/// The messages of an answer, of which the last one is told: where the pieces break off, the client gets to know.
struct Whole<P, T> {
    pieces: mpsc::Receiver<P>,
    read: fn(P) -> Read<T>,
    ended: bool,
}

impl<P, T> Stream for Whole<P, T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            let Poll::Ready(piece) = self.pieces.poll_recv(cx) else { return Poll::Pending };
            let (message, ends) = piece.map_or_else(|| (Some(Err(cut_off())), true), self.read);
            self.ended = ends;
            if message.is_some() {
                return Poll::Ready(message);
            }
        }
        Poll::Ready(None)
    }
}

fn cut_off() -> Status {
    Status::aborted(format!("cut off: it was not taken for {} s, or the router ends", PATIENCE.as_secs()))
}

/// The messages of what commands say.
pub fn said<T: 'static>(
    deadline: Deadline,
    pieces: mpsc::Receiver<Piece>,
    read: fn(Piece) -> Read<T>,
) -> Answers<T> {
    limits::until(deadline, Whole { pieces, read, ended: false })
}

/// What comes next in an answer that is made.
pub enum Next<T> {
    /// This, now.
    Message(T),
    /// Nothing before this time.
    At(Instant),
    /// Nothing.
    End,
}

/// Answers made one after another, aside from who serves the others.
pub fn made<T: Send + 'static>(
    deadline: Deadline,
    mut next: impl FnMut() -> Result<Next<T>, CommandError> + Send + 'static,
) -> Answers<T> {
    let (to, pieces) = mpsc::channel(limits::PIECES);
    tokio::spawn(async move {
        loop {
            let work = tokio::task::spawn_blocking(move || (next(), next)).await;
            // It has panicked.
            let Ok((piece, back)) = work else { return };
            next = back;
            let way = match piece {
                Ok(Next::Message(message)) => Way::Message(Ok(message)),
                Ok(Next::End) => Way::End,
                Ok(Next::At(time)) => tokio::select! {
                    () = sleep_until(time) => continue,
                    () = to.closed() => return,
                },
                Err(e) => Way::Message(Err(status::error(&e))),
            };
            let ends = !matches!(way, Way::Message(Ok(_)));
            if !matches!(timeout(PATIENCE, to.send(way)).await, Ok(Ok(()))) || ends {
                return;
            }
        }
    });
    let read = |way: Way<Result<T, Status>>| match way {
        Way::Message(message) => {
            let ends = message.is_err();
            (Some(message), ends)
        }
        Way::End => (None, true),
    };
    limits::until(deadline, Whole { pieces, read, ended: false })
}

impl Router {
    /// Runs commands; the pieces of what they say.
    pub(super) async fn say(
        &self,
        caller: Arc<Caller>,
        what: Run,
        json: bool,
        directory: Option<PathBuf>,
    ) -> Result<mpsc::Receiver<Piece>, Status> {
        let (to, pieces) = mpsc::channel(limits::PIECES);
        let task = async move |here: Here, _| here.run(caller, what, json, directory, to).await;
        self.0.door.send(task).await.map_err(status::closed)?;
        Ok(pieces)
    }
}
