//! Commands, as the control socket runs them.

use std::path::PathBuf;
use std::sync::Arc;

use command::{Caller, Command, Registry};
use control::ctl::{Piece, Run};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status};

use super::Router;
use super::pieces::{Read, said};
use crate::limits::{self, Answers, Deadline};
use crate::v1::commands_server::Commands;
use crate::v1::{
    CompleteRequest, CompleteResponse, Format, HelpRequest, HelpResponse, ListRequest, ListResponse,
    RunRequest, RunResponse, complete_response, list_response, run_request, run_response,
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

/// The message of a piece, where a failure is one as well.
fn whole(piece: Piece) -> Read<RunResponse> {
    match piece {
        Piece::Failed(failure) => {
            let what = Some(run_response::What::Failure(failure.to_json().to_string()));
            (Some(Ok(RunResponse { what })), true)
        }
        piece => answer(piece),
    }
}

/// The message of a piece.
fn answer(piece: Piece) -> Read<RunResponse> {
    let (what, ends) = match piece {
        Piece::Text(text) => (run_response::What::Text(text), false),
        Piece::Json(json) => (run_response::What::Json(json), false),
        Piece::Done(failed) => (run_response::What::Ended(run_response::Ended { failed }), true),
        Piece::Failed(failure) => return (Some(Err(status::failure(&failure))), true),
    };
    (Some(Ok(RunResponse { what: Some(what) })), ends)
}

#[tonic::async_trait]
impl Commands for Router {
    type RunStream = Answers<RunResponse>;

    async fn run(&self, request: Request<RunRequest>) -> Result<Response<Self::RunStream>, Status> {
        let (mut caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let request = request.into_inner();
        if !request.ssh.is_empty() {
            let wrong =
                |_| Status::invalid_argument(format!("{:?} is no address of an SSH client", request.ssh));
            let ssh = Some(request.ssh.parse().map_err(wrong)?);
            caller = Arc::new(Caller { ssh, ..Caller::clone(&caller) });
        }
        let read = if request.failures { whole } else { answer };
        let json = request.format() == Format::Json;
        let what = match request.what {
            Some(run_request::What::Line(line)) => Run::Line(line),
            Some(run_request::What::Lines(lines)) => Run::Lines(lines),
            None => return Err(Status::invalid_argument("neither `line` nor `lines` is given")),
        };
        let directory = Some(PathBuf::from(request.directory)).filter(|d| d.is_absolute());
        let pieces = self.say(caller, what, json, directory).await?;
        Ok(Response::new(said(deadline, pieces, read)))
    }

    async fn complete(
        &self,
        request: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
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
        let text =
            self.0.door.ask(async move |here, _| here.help(&line).await).await.map_err(status::closed)?;
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
