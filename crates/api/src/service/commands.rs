//! Commands, as the control socket runs them.

use std::path::PathBuf;

use command::{Command, Registry};
use control::ctl::{Piece, Run};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::Router;
use crate::limits::{self, Answers, Deadline};
use crate::v1::commands_server::Commands;
use crate::v1::{
    CompleteRequest, CompleteResponse, Format, HelpRequest, HelpResponse, ListRequest, ListResponse, RunRequest,
    RunResponse, complete_response, list_response, run_request, run_response,
};
use crate::{status, who};

/// Commands in a message.
const AT_ONCE: usize = 32;

/// The commands of a registry, as the API lists them.
pub fn list<C: 'static>(registry: &Registry<C>) -> Vec<list_response::Command> {
    let one = |c: &Command<C>| list_response::Command {
        syntax: c.syntax().into(),
        help: c.help().into(),
        role: status::role(c.access()).into(),
        aliases: c.aliases().to_vec(),
        details: c.more().into(),
        examples: c.examples().to_vec(),
    };
    registry.commands().iter().map(one).collect()
}

/// The message of a piece, or how the command failed.
fn answer(piece: Piece) -> Result<RunResponse, Status> {
    let what = match piece {
        Piece::Text(text) => run_response::What::Text(text),
        Piece::Json(json) => run_response::What::Json(json),
        Piece::Done(failed) => run_response::What::Ended(run_response::Ended { failed }),
        Piece::Failed(failure) => return Err(status::failure(&failure)),
    };
    Ok(RunResponse { what: Some(what) })
}

/// The pieces of an answer as they come. One that breaks off was not taken for too long, or the router ends.
fn answers(mut pieces: mpsc::Receiver<Piece>) -> mpsc::Receiver<Result<RunResponse, Status>> {
    let (to, messages) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ended = false;
        loop {
            let piece = tokio::select! {
                piece = pieces.recv() => piece,
                // Nobody reads: the command ends with the queue.
                () = to.closed() => return,
            };
            let Some(piece) = piece else { break };
            ended |= matches!(piece, Piece::Done(_) | Piece::Failed(_));
            if to.send(answer(piece)).await.is_err() {
                return;
            }
        }
        if !ended {
            let why = "cut off: the answer was not taken for 10 s, or the router ends";
            let _ = to.send(Err(Status::aborted(why))).await;
        }
    });
    messages
}

#[tonic::async_trait]
impl Commands for Router {
    type RunStream = Answers<RunResponse>;

    async fn run(&self, request: Request<RunRequest>) -> Result<Response<Self::RunStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let request = request.into_inner();
        let json = request.format() == Format::Json;
        let what = match request.what {
            Some(run_request::What::Line(line)) => Run::Line(line),
            Some(run_request::What::Lines(lines)) => Run::Lines(lines),
            None => return Err(Status::invalid_argument("neither `line` nor `lines` is given")),
        };
        let directory = Some(PathBuf::from(request.directory)).filter(|d| d.is_absolute());
        let (to, pieces) = mpsc::channel(limits::PIECES);
        let task = async move |here: control::ctl::Here, _| here.run(caller, what, json, directory, to).await;
        self.0.door.send(task).await.map_err(status::closed)?;
        Ok(Response::new(limits::until(deadline, ReceiverStream::new(answers(pieces)))))
    }

    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<CompleteResponse>, Status> {
        who::caller(&request)?;
        let CompleteRequest { line, cursor } = request.into_inner();
        let ask = self.0.door.ask(async move |here, _| here.complete(&line, cursor as usize).await);
        let found = ask.await.map_err(status::closed)?;
        let candidate = |c: command::Candidate| complete_response::Candidate { text: c.text, help: c.help };
        Ok(Response::new(CompleteResponse {
            start: u32::try_from(found.start).unwrap_or(u32::MAX),
            candidates: found.candidates.into_iter().map(candidate).collect(),
            path: found.path,
        }))
    }

    async fn help(&self, request: Request<HelpRequest>) -> Result<Response<HelpResponse>, Status> {
        who::caller(&request)?;
        let line = request.into_inner().line;
        let text = self.0.door.ask(async move |here, _| here.help(&line).await).await.map_err(status::closed)?;
        Ok(Response::new(HelpResponse { text }))
    }

    type ListStream = Answers<ListResponse>;

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        who::caller(&request)?;
        let (shared, mut at) = (self.0.clone(), 0);
        let next = std::iter::from_fn(move || {
            let commands: Vec<_> = shared.commands.iter().skip(at).take(AT_ONCE).cloned().collect();
            at += commands.len();
            (!commands.is_empty()).then_some(ListResponse { commands })
        });
        Ok(Response::new(limits::until(Deadline::of(&request), tokio_stream::iter(next).map(Ok))))
    }
}
