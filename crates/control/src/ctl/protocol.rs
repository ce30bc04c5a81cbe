//! Requests and replies, see the module above.

use std::net::IpAddr;
use std::path::PathBuf;

use command::{CommandError, Completion};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// The longest request, in bytes.
pub const MAX_REQUEST: usize = 1 << 20;

/// A request as it stands on the wire.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    #[serde(default)]
    pub id: Json,
    line: Option<String>,
    lines: Option<String>,
    complete: Option<CompleteAt>,
    help: Option<String>,
    #[serde(default)]
    pub json: bool,
    pub cwd: Option<PathBuf>,
    /// Where its user sits, as the client says.
    pub ssh: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteAt {
    line: String,
    cursor: usize,
}

/// What is to be run.
#[derive(Debug)]
pub enum Run {
    /// A command.
    Line(String),
    /// Commands, one a line.
    Lines(String),
}

/// What a request asks for.
#[derive(Debug)]
pub(super) enum Ask {
    Run(Run),
    Complete(String, usize),
    Help(String),
}

impl Request {
    /// Reads a request; on an error also its id, as far as it can be told.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Ask), (Json, String)> {
        let mut request: Self = serde_json::from_slice(bytes).map_err(|error| {
            let id = serde_json::from_slice::<Json>(bytes)
                .ok()
                .and_then(|mut json| json.get_mut("id").map(Json::take));
            (id.unwrap_or_default(), format!("not a request: {error}"))
        })?;
        let asks = [
            request.line.take().map(|line| Ask::Run(Run::Line(line))),
            request.lines.take().map(|lines| Ask::Run(Run::Lines(lines))),
            request.complete.take().map(|at| Ask::Complete(at.line, at.cursor)),
            request.help.take().map(Ask::Help),
        ];
        let mut asks = asks.into_iter().flatten();
        match (asks.next(), asks.next()) {
            (Some(ask), None) => Ok((request, ask)),
            _ => Err((request.id, "a request has one of line, lines, complete and help".to_owned())),
        }
    }
}

/// Why a request failed, with the place in a script if there is one.
#[derive(Debug)]
pub struct Failure {
    /// The error by itself.
    pub error: CommandError,
    /// The error as the operator reads it.
    pub text: String,
    /// Where in its line: the column in characters from 1, and how many characters.
    pub place: Option<(usize, usize)>,
    /// Where it stands, when it is not the only line.
    pub script: Option<InScript>,
}

/// The place of a command among others.
#[derive(Debug)]
pub struct InScript {
    /// The script's file; `None` for lines out of the request.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: usize,
    /// Commands applied before it.
    pub applied: usize,
}

impl Failure {
    pub(super) fn new(error: CommandError, line: &str) -> Self {
        let characters = |part: Option<&str>| part.map_or(0, |p| p.chars().count());
        let place = error
            .span
            .as_ref()
            .map(|span| (characters(line.get(..span.start)) + 1, characters(line.get(span.clone()))));
        Self { text: error.render(line), error, place, script: None }
    }

    /// Of something that is no line.
    pub(super) fn of(error: CommandError) -> Self {
        Self { text: error.message.clone(), error, place: None, script: None }
    }

    /// As the control socket tells it (docs/control-protocol.md).
    pub fn to_json(&self) -> Json {
        let mut json = json!({
            "kind": self.error.kind.name(),
            "message": self.error.message,
            "text": self.text,
        });
        if let Some(span) = &self.error.span {
            json["column"] = span.start.into();
            json["length"] = span.len().into();
            json["expected"] = self.error.expected.clone().into();
        }
        if let Some(at) = &self.script {
            if let Some(file) = &at.file {
                json["file"] = file.as_str().into();
            }
            json["line"] = at.line.into();
            json["applied"] = at.applied.into();
        }
        json
    }
}

/// The refusal of something that is no valid request.
pub(super) fn refusal(id: &Json, kind: &str, message: &str) -> Json {
    json!({ "id": id, "ok": false, "error": { "kind": kind, "message": message, "text": message } })
}

/// The answer to a completion request.
pub(super) fn completion(id: &Json, completion: &Completion) -> Json {
    let candidate = |c: &command::Candidate| json!({ "text": c.text, "help": c.help });
    let candidates: Vec<Json> = completion.candidates.iter().map(candidate).collect();
    json!({
        "id": id,
        "ok": true,
        "complete": { "start": completion.start, "candidates": candidates, "path": completion.path },
    })
}
