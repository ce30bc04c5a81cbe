//! Refusals: a status with a sentence, and with [`ErrorInfo`]s in its details (google.rpc.Status, in `grpc-status-details-bin`).

use std::time::Duration;

use command::{Access, CommandError, ErrorKind, Fault};
use control::ctl::{Closed, Failure};
use control::places::Full;
use prost::Message;
use tonic::{Code, Status};

use crate::v1::{ErrorInfo, Role};

/// Clients take so much in trailers, about, in bytes: the rest of the details is left out.
const DETAILS: usize = 4 << 10;
/// The longest message, in bytes.
const MESSAGE: usize = 1 << 10;
/// The longest text of a detail, in bytes, and how many words that are expected.
const WORDS: usize = 300;
const EXPECTED: usize = 20;

/// google.rpc.Status.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The role that allows so much.
pub fn role(access: Access) -> Role {
    match access {
        Access::Read => Role::Read,
        Access::Operate => Role::Operate,
        Access::Write => Role::Configure,
        Access::Admin => Role::Admin,
    }
}

/// The beginning of a text, whole characters.
fn clip(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A refusal with its details, as many as a client takes.
pub fn refusal(code: Code, message: &str, infos: Vec<ErrorInfo>) -> Status {
    refused(code, message, infos, vec![])
}

/// The same with what others have defined.
fn refused(code: Code, message: &str, infos: Vec<ErrorInfo>, more: Vec<prost_types::Any>) -> Status {
    let message = clip(message.trim_end(), MESSAGE);
    let mut status = Details { code: code.into(), message: message.into(), details: more };
    let mut room = DETAILS;
    for mut info in infos {
        for text in [&mut info.object, &mut info.value, &mut info.message, &mut info.file] {
            text.truncate(clip(text, WORDS).len());
        }
        info.expected.truncate(EXPECTED);
        info.expected.iter_mut().for_each(|e| e.truncate(clip(e, WORDS).len()));
        let value = info.encode_to_vec();
        let Some(left) = room.checked_sub(value.len()) else { break };
        room = left;
        status
            .details
            .push(prost_types::Any { type_url: "type.googleapis.com/quiver.v1.ErrorInfo".into(), value });
    }
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// What somebody may not do.
pub fn denied(message: &str, needs: Access) -> Status {
    let info = ErrorInfo {
        rule: ErrorKind::Denied.name().into(),
        message: message.into(),
        role_needed: role(needs).into(),
        ..ErrorInfo::default()
    };
    refusal(Code::PermissionDenied, message, vec![info])
}

/// google.rpc.RetryInfo.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<prost_types::Duration>,
}

/// Somebody asks for more than the limit `quiver.api.RULE`, and may come again.
pub fn too_much(rule: &str, message: &str, value: &str, again: Duration) -> Status {
    later(rule, &format!("quiver.api.{rule}"), message, value, again)
}

/// There is no place for one more stream.
pub fn full(full: &Full) -> Status {
    // Nobody knows when there will be: what has just ended gives its place back a moment later.
    later("places", "", &full.to_string(), "", Duration::from_secs(1))
}

fn later(rule: &str, object: &str, message: &str, value: &str, again: Duration) -> Status {
    // Whole milliseconds, and not earlier.
    let again = Duration::from_millis(again.as_millis() as u64 + 1);
    let message = format!("{message}; come again in {} ms", again.as_millis());
    let info = ErrorInfo {
        rule: rule.into(),
        object: object.into(),
        value: value.into(),
        message: message.clone(),
        ..ErrorInfo::default()
    };
    let delay = prost_types::Duration {
        seconds: i64::try_from(again.as_secs()).unwrap_or(i64::MAX),
        nanos: again.subsec_nanos().cast_signed(),
    };
    let value = RetryInfo { delay: Some(delay) }.encode_to_vec();
    let retry = prost_types::Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".into(), value };
    refused(Code::ResourceExhausted, &message, vec![info], vec![retry])
}

/// The router ends, as its control thread has done.
pub fn closed(_: Closed) -> Status {
    ended("the router ends, or what was asked for has failed in it: its log tells")
}

/// The router ends, and says so itself: a connection that breaks has no details.
pub fn ended(message: &str) -> Status {
    let info = ErrorInfo { rule: "ends".into(), message: message.into(), ..ErrorInfo::default() };
    refusal(Code::Unavailable, message, vec![info])
}

/// One fault of a document.
pub fn fault(f: &Fault) -> ErrorInfo {
    ErrorInfo {
        object: f.object.clone(),
        rule: f.rule.clone(),
        value: f.value.clone().unwrap_or_default(),
        message: f.message.clone(),
        expected: Some(f.help.clone()).filter(|h| !h.is_empty()).into_iter().collect(),
        file: f.file.clone(),
        line: f.line,
        column: f.column,
        length: f.length,
        note: f.note,
        change: f.change,
        ..ErrorInfo::default()
    }
}

/// What a command answers when it does not do what was asked.
pub fn error(e: &CommandError) -> Status {
    told(e, info(e))
}

/// The same, of a line.
pub fn failure(f: &Failure) -> Status {
    let mut info = info(&f.error);
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (info.column, info.length) = f.place.map_or((0, 0), |(column, length)| (number(column), number(length)));
    if let Some(at) = &f.script {
        info.file = at.file.clone().unwrap_or_default();
        info.line = number(at.line);
        info.applied = at.applied as u64;
    }
    told(&f.error, info)
}

fn info(e: &CommandError) -> ErrorInfo {
    ErrorInfo {
        rule: e.kind.name().into(),
        message: e.message.clone(),
        expected: e.expected.clone(),
        role_needed: e.needs.map_or(Role::Unspecified, role).into(),
        ..ErrorInfo::default()
    }
}

fn told(e: &CommandError, info: ErrorInfo) -> Status {
    let code = match e.kind {
        ErrorKind::Syntax => Code::InvalidArgument,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::Failed => Code::FailedPrecondition,
        ErrorKind::Conflict => Code::Aborted,
    };
    let faults: Vec<ErrorInfo> = e.faults.iter().map(fault).collect();
    refusal(code, &e.message, if faults.is_empty() { vec![info] } else { faults })
}
