//! Documents: what they would change, changing it, and the way back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use command::{Access, CommandError};
use control::commands::{Applied, Differences, Held, Steps, Wish};
use control::ctl::{Piece, Run};
use control::engine::{Line, Session};
use control::saved::{Header, Record, SavedError};
use control::yaml::{self, Diagnostics};
use drivers::{Files, Identity};
use tonic::{Request, Response, Status};

use super::pieces::{Next, Read, made, said};
use super::{Router, edits};
use crate::limits::{Answers, Deadline};
use crate::v1::configuration_server::Configuration;
use crate::v1::{
    ApplyRequest, ApplyResponse, Change, CheckRequest, CheckResponse, ConfirmRequest, ConfirmResponse,
    DiffRequest, DiffResponse, DumpRequest, DumpResponse, EditRequest, EditResponse, GetRequest, GetResponse,
    HistoryRequest, HistoryResponse, PlanRequest, PlanResponse, RollbackRequest, SaveRequest, SaveResponse,
    diff_response, history_response, plan_response,
};
use crate::{status, tls, who};

/// Findings of a check that are told one by one.
const FINDINGS: usize = 100;
/// Steps in a message.
const STEPS: usize = 64;
/// Bytes of a document in a message, about.
const PIECE: usize = 64 << 10;
/// The longest time to confirm, in seconds: a day.
const LONGEST: u32 = 86_400;

fn change(sign: &str) -> Change {
    match sign {
        "+" => Change::Add,
        "-" => Change::Remove,
        "~" => Change::Replace,
        _ => Change::Unspecified,
    }
}

fn session(client: &str, server: &str) -> Result<Option<Session>, Status> {
    let address = |name: &str, text: &str| {
        let address = Some(text).filter(|t| !t.is_empty()).map(str::parse::<IpAddr>).transpose();
        address.map_err(|_| Status::invalid_argument(format!("{name}: {text} is no IP address")))
    };
    let (client, server) = (address("session_client", client)?, address("session_server", server)?);
    Ok(client.map(|client| Session { client, server }))
}

pub(super) fn wish(confirm: u32, comment: String, exact: bool, restart: bool) -> Result<Wish, Status> {
    if confirm > LONGEST {
        let why = format!("confirm_seconds: {confirm} is out of range: at most {LONGEST}");
        return Err(Status::invalid_argument(why));
    }
    let confirm = (confirm != 0).then(|| Duration::from_secs(confirm.into()));
    Ok(Wish { confirm, comment, exact, restart })
}

pub(super) fn applied(a: Applied) -> ApplyResponse {
    ApplyResponse {
        steps: a.steps as u64,
        number: a.number.unwrap_or(0),
        confirm_seconds: a.within.map_or(0, |s| u32::try_from(s).unwrap_or(u32::MAX)),
        restart: a.restart,
        text: a.text,
    }
}

/// What a dry run tells of steps that were found.
pub(super) fn tried(mut found: Steps) -> Result<ApplyResponse, Status> {
    let told = found.read().map_err(|e| status::error(&e))?;
    let (steps, restart) = (told.count as u64, std::mem::take(&mut told.restart));
    let text = format!("{steps} step{}, of which none was taken", if steps == 1 { "" } else { "s" });
    Ok(ApplyResponse { steps, restart, text, ..ApplyResponse::default() })
}

fn check(document: String, opener: &Files) -> CheckResponse {
    let found = match yaml::check_bytes("document", document.into_bytes()) {
        Ok(document) => {
            let files = tls::examine(&document.settings, true, opener);
            Diagnostics::new(&document.source, [document.notes, files].concat())
        }
        Err(found) => found,
    };
    let ok = !found.has_errors();
    let text = if found.errors.is_empty() { String::new() } else { short(&found) };
    CheckResponse { ok, findings: found.faults(FINDINGS).iter().map(status::fault).collect(), text }
}

/// The findings for a terminal, of which there may be very many.
fn short(found: &Diagnostics) -> String {
    let some: Vec<_> = found.errors.iter().take(FINDINGS).cloned().collect();
    let more = found.errors.len() - some.len();
    let text = Diagnostics { errors: some }.to_string();
    if more == 0 { text } else { format!("{text}and {more} more\n") }
}

fn difference(line: Line) -> diff_response::Difference {
    diff_response::Difference { change: change(line.sign).into(), text: line.text }
}

fn differences(mut found: Differences) -> impl FnMut() -> Result<Next<DiffResponse>, CommandError> {
    let mut ended = false;
    move || {
        if let Some(lines) = found.some()? {
            let differences = lines.into_iter().map(difference).collect();
            return Ok(Next::Message(DiffResponse { differences, ..DiffResponse::default() }));
        }
        if std::mem::replace(&mut ended, true) {
            return Ok(Next::End);
        }
        let (restart, stays) = (std::mem::take(&mut found.restart), std::mem::take(&mut found.others));
        Ok(Next::Message(DiffResponse { differences: vec![], restart, stays }))
    }
}

pub(super) fn steps(mut found: Steps) -> impl FnMut() -> Result<Next<PlanResponse>, CommandError> {
    let mut ended = false;
    move || {
        if ended {
            return Ok(Next::End);
        }
        let told = found.read()?;
        let step = |(_, l): (usize, Line)| plan_response::Step {
            change: change(l.sign).into(),
            text: l.text,
            commands: l.commands,
            touches: l.touches.unwrap_or_default(),
        };
        let steps: Vec<_> = told.lines.by_ref().take(STEPS).map(step).collect();
        if steps.len() == STEPS {
            return Ok(Next::Message(PlanResponse { steps, ..PlanResponse::default() }));
        }
        ended = true;
        let (warnings, restart) = (std::mem::take(&mut told.warnings), std::mem::take(&mut told.restart));
        Ok(Next::Message(PlanResponse { steps, warnings, restart, stays: told.stays as u64 }))
    }
}

fn entry(h: &Header) -> history_response::Entry {
    history_response::Entry {
        number: h.number,
        time: i64::try_from(h.time).unwrap_or(i64::MAX),
        kind: h.kind.name().into(),
        user: h.author.user,
        name: h.author.name.clone(),
        from: h.author.from.clone(),
        source: h.source.clone(),
        comment: h.comment.clone(),
        changes: h.diff.len() as u64 + h.more,
        diff: vec![],
    }
}

fn damaged(number: u64, e: &SavedError) -> history_response::Entry {
    let (kind, comment) = ("damaged".into(), e.to_string());
    history_response::Entry { number, kind, comment, ..Default::default() }
}

/// A piece of a text from a place on; `None` at its end.
pub(super) fn piece(text: &str, from: usize) -> Option<String> {
    let mut end = (from + PIECE).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    text.get(from..end).filter(|p| !p.is_empty()).map(str::to_owned)
}

fn kept(mut record: Held<Record>) -> impl FnMut() -> Result<Next<HistoryResponse>, CommandError> {
    let mut at = None;
    move || {
        let record = record.read()?;
        let Some(from) = at else {
            at = Some(0);
            let diff = record.header.diff.clone();
            let entry = history_response::Entry { diff, ..entry(&record.header) };
            return Ok(Next::Message(HistoryResponse { entries: vec![entry], document: String::new() }));
        };
        let document = piece(record.document(), from);
        at = Some(from + document.as_ref().map_or(0, String::len));
        Ok(document
            .map_or(Next::End, |document| Next::Message(HistoryResponse { entries: vec![], document })))
    }
}

/// The message of a piece of a dump: the command that shows it writes those.
fn dumped(piece: Piece) -> Read<DumpResponse> {
    match piece {
        Piece::Text(piece) | Piece::Json(piece) => (Some(Ok(DumpResponse { piece })), false),
        Piece::Done(_) => (None, true),
        Piece::Failed(failure) => (Some(Err(status::failure(&failure))), true),
    }
}

#[tonic::async_trait]
impl Configuration for Router {
    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let caller = who::caller(&request)?;
        let rights = Identity { user: caller.user, group: caller.group, groups: caller.groups.clone() };
        let (document, opener) = (request.into_inner().document, Files::of(Some(rights), false));
        let checked = tokio::task::spawn_blocking(move || check(document, &opener)).await;
        checked
            .map(Response::new)
            .map_err(|_| Status::internal("the check has failed: the router's log tells"))
    }

    type DiffStream = Answers<DiffResponse>;

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<Self::DiffStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let DiffRequest { document, exact } = request.into_inner();
        let document: Arc<str> = document.into();
        let found = self.desk(async move |desk| desk.diff(document, exact, &caller).await).await?;
        Ok(Response::new(made(deadline, differences(found))))
    }

    type PlanStream = Answers<PlanResponse>;

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<Self::PlanStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let PlanRequest { document, exact, session_client, session_server } = request.into_inner();
        let session = session(&session_client, &session_server)?;
        let document: Arc<str> = document.into();
        let found = self.desk(async move |desk| desk.plan(document, exact, session, &caller).await).await?;
        Ok(Response::new(made(deadline, steps(found))))
    }

    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<ApplyResponse>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let ApplyRequest { document, confirm_seconds, comment, exact, restart, dry_run } =
            request.into_inner();
        let wish = wish(confirm_seconds, comment, exact, restart)?;
        let document: Arc<str> = document.into();
        if dry_run {
            let found = self.desk(async move |desk| desk.plan(document, exact, None, &caller).await).await?;
            return tried(found).map(Response::new);
        }
        let done = self.desk(async move |desk| desk.apply(document, wish, &caller).await).await?;
        Ok(Response::new(applied(done)))
    }

    async fn confirm(&self, request: Request<ConfirmRequest>) -> Result<Response<ConfirmResponse>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let number = self.desk(async move |desk| desk.confirm(&caller).await).await?;
        Ok(Response::new(ConfirmResponse { number: number.unwrap_or(0) }))
    }

    async fn rollback(&self, request: Request<RollbackRequest>) -> Result<Response<ApplyResponse>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let RollbackRequest { number, confirm_seconds, comment, exact, restart } = request.into_inner();
        let wish = wish(confirm_seconds, comment, exact, restart)?;
        let done = self.desk(async move |desk| desk.roll_back(number, wish, &caller).await).await?;
        Ok(Response::new(applied(done)))
    }

    async fn save(&self, request: Request<SaveRequest>) -> Result<Response<SaveResponse>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let comment = request.into_inner().comment;
        let (number, saved) = self.desk(async move |desk| desk.save(&comment, &caller).await).await?;
        Ok(Response::new(SaveResponse { number, saved }))
    }

    type HistoryStream = Answers<HistoryResponse>;

    async fn history(
        &self,
        request: Request<HistoryRequest>,
    ) -> Result<Response<Self::HistoryStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let number = request.into_inner().number;
        if number != 0 {
            let record = self.desk(async move |desk| desk.kept(number, Some(&caller)).await).await?;
            return Ok(Response::new(made(deadline, kept(record))));
        }
        let folder = self.desk(async move |desk| desk.history()).await?;
        let mut numbers = None;
        Ok(Response::new(made(deadline, move || {
            let numbers = match &mut numbers {
                Some(numbers) => numbers,
                None => numbers.insert(folder.numbers().map_err(CommandError::new)?.into_iter()),
            };
            let one = |n| folder.header(n).map_or_else(|e| damaged(n, &e), |h| entry(&h));
            let entries: Vec<_> = numbers.by_ref().take(STEPS).map(one).collect();
            if entries.is_empty() {
                return Ok(Next::End);
            }
            Ok(Next::Message(HistoryResponse { entries, document: String::new() }))
        })))
    }

    async fn edit(&self, request: Request<EditRequest>) -> Result<Response<EditResponse>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        edits::edit(self, request.into_inner(), caller).await.map(Response::new)
    }

    type PlanEditStream = Answers<PlanResponse>;

    async fn plan_edit(
        &self,
        request: Request<EditRequest>,
    ) -> Result<Response<Self::PlanEditStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let found = edits::plan(self, request.into_inner(), caller).await?;
        Ok(Response::new(made(deadline, steps(found))))
    }

    type GetStream = Answers<GetResponse>;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let got = edits::get(self, request.into_inner(), caller).await?;
        Ok(Response::new(made(deadline, got)))
    }

    type DumpStream = Answers<DumpResponse>;

    async fn dump(&self, request: Request<DumpRequest>) -> Result<Response<Self::DumpStream>, Status> {
        let (caller, deadline) = (who::caller(&request)?, Deadline::of(&request));
        let json = request.into_inner().json;
        let pieces = self.say(caller, Run::Line("show configuration".into()), json, None).await?;
        Ok(Response::new(said(deadline, pieces, dumped)))
    }
}
