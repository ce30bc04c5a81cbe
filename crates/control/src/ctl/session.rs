//! One connection: reads requests, runs them, writes replies.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use command::{Access, CommandError, Emit, Output, Stream};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::protocol::{Ask, Failure, MAX_REQUEST, Request, completion, refusal};
use super::{Executor, script};

/// A client that takes nothing for so long is closed.
const WRITE_TIMEOUT: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// Bytes written between two looks at the clock.
const WRITE_CHUNK: usize = 64 * 1024;
/// Text of one part of a reply at most, in bytes.
const PART: usize = 128 * 1024;
/// What a running command may have said and the client not yet read, in bytes.
const MAX_PENDING: usize = 8 << 20;

/// Why a request ends early.
pub(super) enum Stop {
    /// The client is gone.
    Gone(io::Error),
    /// The command failed.
    Failed(Box<Failure>),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Gone(error)
    }
}

/// The last words of a command.
#[derive(Default)]
pub(super) struct Answer {
    pub text: String,
    pub json: Json,
}

/// Serves a connection until the client closes it or takes no replies.
pub(super) async fn run(stream: UnixStream, access: Access, executor: Rc<dyn Executor>) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut session = Session { writer, executor, access, id: Json::Null, json: false };
    let mut request = Vec::new();
    loop {
        match read_request(&mut reader, &mut request).await? {
            Read::End => return Ok(()),
            Read::TooLong => {
                let message = format!("the request is longer than {MAX_REQUEST} bytes");
                return session.send(&refusal(&Json::Null, "protocol", &message)).await;
            }
            Read::Request if request.iter().all(u8::is_ascii_whitespace) => {}
            Read::Request => session.answer(&request).await?,
        }
    }
}

enum Read {
    Request,
    TooLong,
    End,
}

/// Reads up to the end of the line or of the stream.
async fn read_request(reader: &mut (impl AsyncBufRead + Unpin), request: &mut Vec<u8>) -> io::Result<Read> {
    request.clear();
    request.shrink_to(WRITE_CHUNK);
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(if request.is_empty() { Read::End } else { Read::Request });
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        if request.len() + piece.len() > MAX_REQUEST {
            return Ok(Read::TooLong);
        }
        request.extend_from_slice(piece);
        let used = end.map_or(available.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(Read::Request);
        }
    }
}

/// The writing half of a connection and the request that is being answered.
pub(super) struct Session {
    writer: OwnedWriteHalf,
    pub executor: Rc<dyn Executor>,
    pub access: Access,
    id: Json,
    pub json: bool,
}

impl Session {
    async fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (request, ask) = match Request::parse(bytes) {
            Ok(parsed) => parsed,
            Err((id, message)) => return self.send(&refusal(&id, "protocol", &message)).await,
        };
        self.id = request.id;
        match ask {
            Ask::Complete(line, cursor) => {
                let reply = completion(&self.id, &self.executor.complete(&line, cursor));
                self.send(&reply).await
            }
            Ask::Help(line) => {
                let reply = json!({ "id": self.id, "ok": true, "text": self.executor.help(&line) });
                self.send(&reply).await
            }
            Ask::Line(line) => {
                self.json = request.json || command::asks_json(&line);
                let result = self.line(&line, request.cwd.as_deref(), 0).await;
                self.reply(result).await
            }
            Ask::Lines(text) => {
                self.json = request.json;
                let result = script::run_text(self, &text, request.cwd.as_deref()).await;
                self.reply(result).await
            }
        }
    }

    async fn reply(&mut self, result: Result<Answer, Stop>) -> io::Result<()> {
        match result {
            Ok(answer) => self.finish(answer).await,
            Err(Stop::Gone(error)) => Err(error),
            Err(Stop::Failed(failure)) => {
                let reply = json!({ "id": self.id, "ok": false, "error": failure.to_json() });
                self.send(&reply).await
            }
        }
    }

    async fn finish(&mut self, answer: Answer) -> io::Result<()> {
        let reply = if self.json {
            json!({ "id": self.id, "ok": true, "json": answer.json })
        } else {
            let mut text = answer.text.as_str();
            while text.len() > PART {
                let mut cut = PART;
                while !text.is_char_boundary(cut) {
                    cut -= 1;
                }
                let (part, rest) = text.split_at(cut);
                self.part(part).await?;
                text = rest;
            }
            json!({ "id": self.id, "ok": true, "text": text })
        };
        self.send(&reply).await
    }

    /// Sends a piece of text before the end of the reply, unless JSON is wanted.
    pub async fn part(&mut self, text: &str) -> io::Result<()> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        let reply = json!({ "id": self.id, "part": text });
        self.send(&reply).await
    }

    async fn send(&mut self, reply: &Json) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        for chunk in line.chunks(WRITE_CHUNK) {
            timeout(WRITE_TIMEOUT, self.writer.write_all(chunk)).await??;
        }
        Ok(())
    }

    /// Runs a line; `depth` is how many scripts it stands in.
    pub async fn line(&mut self, line: &str, cwd: Option<&Path>, depth: usize) -> Result<Answer, Stop> {
        let failed = |error: CommandError| Stop::Failed(Box::new(Failure::new(error, line)));
        let run = || self.executor.execute(self.access, line, self.json);
        // A fault in one command must not take the router's control side down.
        let output = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(CommandError::new("internal error: the command panicked")))
            .map_err(failed)?;
        if let Some(path) = output.script_path() {
            return Box::pin(script::run(self, path, cwd, depth)).await;
        }
        let output = match output.into_stream() {
            Ok(stream) => self.stream(stream).await?.map_err(failed)?,
            Err(output) => output,
        };
        Ok(match self.json {
            true => Answer { json: output.to_json(), ..Answer::default() },
            false => Answer { text: output.to_text(), ..Answer::default() },
        })
    }

    /// Runs a command that goes on for a while and sends what it says as it says it.
    async fn stream(&mut self, stream: Stream) -> io::Result<Result<Output, CommandError>> {
        let (sender, mut parts) = mpsc::unbounded_channel::<String>();
        let pending = Rc::new(Cell::new(0usize));
        let emit = Emit::new({
            let pending = pending.clone();
            move |text| {
                pending.set(pending.get() + text.len());
                pending.get() <= MAX_PENDING && sender.send(text.to_owned()).is_ok()
            }
        });
        let mut running = stream(emit);
        let mut ended = None;
        loop {
            let part = poll_fn(|context| {
                if ended.is_none()
                    && let Poll::Ready(result) = running.as_mut().poll(context)
                {
                    ended = Some(result);
                }
                match parts.poll_recv(context) {
                    Poll::Ready(part) => Poll::Ready(part),
                    Poll::Pending if ended.is_some() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            match (part.await, ended.take()) {
                (Some(part), result) => {
                    ended = result;
                    pending.set(pending.get().saturating_sub(part.len()));
                    self.part(&part).await?;
                }
                (None, Some(result)) => return Ok(result),
                // The command has dropped its `Emit` and goes on in silence.
                (None, None) => return Ok(running.await),
            }
        }
    }
}
