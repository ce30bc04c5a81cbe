//! One connection: reads requests, runs them, writes replies.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use command::{
    Access, Caller, CommandError, Emit, ErrorKind, Filters, Output, Page, Pieces, Stream, split_filters,
};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, timeout};

use super::protocol::{Ask, Failure, MAX_REQUEST, Request, Run, completion, refusal};
use super::replies::{Replies, Wire};
use super::{Executor, Ran, author, script};
use crate::load::Load;
use crate::places::Shares;
use crate::saved::Author;
use crate::trail::{Outcome, Who};

/// Memory that is kept for the next request, in bytes.
const KEPT: usize = 64 * 1024;
/// What a running command may have said and the client not yet read, in bytes.
const MAX_PENDING: usize = 256 << 10;
/// How often is looked whether the client of a command that says nothing is still there.
const LOOK: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(1) };
/// Commands that go on for a while, at once, of all who may only look.
const MAX_STREAMS: usize = 16;

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

/// The last words of a command: text, or JSON that is not null where that was not written already.
#[derive(Default)]
pub(super) struct Answer {
    pub text: String,
    pub json: Json,
    /// The command ran, and did not find what it was to find.
    pub failed: bool,
}

/// What all connections share.
pub(super) struct Shared {
    executor: Rc<dyn Executor>,
    load: Rc<Load>,
    idle_timeout: Option<Duration>,
    /// Whose turn it is to keep the thread busy. Those who wait get theirs in order.
    turn: Semaphore,
    /// Who of those with long answers is next: one of them waits for a turn, and however many there are, who asks for little waits
    /// for no more than that one.
    pub long: Rc<Semaphore>,
    /// Streams of those who may only look.
    streams: Shares,
}

impl Shared {
    pub fn new(executor: Rc<dyn Executor>, idle_timeout: Option<Duration>) -> Self {
        let load = executor.load();
        let (turn, long) = (Semaphore::new(1), Rc::new(Semaphore::new(1)));
        let streams = Shares::of("commands that go on for a while", MAX_STREAMS, 0);
        Self { executor, load, idle_timeout, turn, long, streams }
    }

    /// Runs some work, not more than milliseconds, when it is this connection's turn. Before it is another's, everything
    /// else on the thread has its own.
    pub async fn turn<R>(&self, what: &str, work: impl FnOnce(&dyn Executor) -> R) -> R {
        let turn = self.turn.acquire().await;
        self.load.note(what);
        let done = work(&*self.executor);
        tokio::task::yield_now().await;
        drop(turn);
        done
    }

    /// The same with a piece of a long answer that is not its first.
    pub async fn long_turn<R>(&self, what: &str, work: impl FnOnce(&dyn Executor) -> R) -> R {
        let _long = self.long.acquire().await;
        self.turn(what, work).await
    }
}

impl Shared {
    /// The same with a command, or a piece of one, until what it waits for has come; `long` where it is one of a long answer, and not its
    /// first.
    async fn run<R>(
        &self,
        what: &str,
        long: bool,
        work: impl FnOnce(&dyn Executor) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let work = |e: &dyn Executor| (work(e), e.waits());
        let (done, waits) = match long {
            true => self.long_turn(what, work).await,
            false => self.turn(what, work).await,
        };
        let waited = match waits {
            Some(waits) => waits.await,
            None => Ok(()),
        };
        let done = done?;
        waited.map(|()| done)
    }
}

/// Serves a connection until the client closes it or takes no replies.
pub(super) async fn run(stream: UnixStream, caller: Arc<Caller>, shared: Rc<Shared>) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let idle = shared.idle_timeout;
    let mut session = Session::new(shared, caller, Replies::Socket(Wire::new(writer)));
    let mut request = Vec::new();
    loop {
        let read = read_request(&mut reader, &mut request);
        let read = match idle {
            None => read.await?,
            Some(idle) => match timeout(idle, read).await {
                Ok(read) => read?,
                Err(_) => {
                    let message = format!("closed: no request for {} s", idle.as_secs());
                    return session.refuse(&Json::Null, "idle", &message).await;
                }
            },
        };
        match read {
            Read::End => return Ok(()),
            Read::TooLong => {
                let message = format!("the request is longer than {MAX_REQUEST} bytes");
                return session.refuse(&Json::Null, "protocol", &message).await;
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
    request.shrink_to(KEPT);
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

/// Who asks, and the request that is being answered.
pub(super) struct Session {
    pub shared: Rc<Shared>,
    pub caller: Arc<Caller>,
    pub json: bool,
    replies: Replies,
    /// Who that is, in words, once it has changed something.
    who: Option<Rc<Who>>,
    /// What of the text of the command that runs is to be sent: those of a script before those of its commands.
    filters: Vec<Filters>,
}

impl Session {
    pub fn new(shared: Rc<Shared>, caller: Arc<Caller>, replies: Replies) -> Self {
        Self { shared, caller, json: false, replies, who: None, filters: Vec::new() }
    }

    /// Answers a request of the socket.
    async fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (request, ask) = match Request::parse(bytes) {
            Ok(parsed) => parsed,
            Err((id, message)) => return self.refuse(&id, "protocol", &message).await,
        };
        if request.ssh != self.caller.ssh {
            self.caller = Arc::new(Caller { ssh: request.ssh, ..Caller::clone(&self.caller) });
            self.who = None;
        }
        let id = request.id;
        self.replies.begin(&id);
        match ask {
            Ask::Complete(line, cursor) => {
                let found = self.shared.turn("completion", |e| e.complete(&line, cursor)).await;
                self.replies.send(&completion(&id, &found)).await
            }
            Ask::Help(line) => {
                let text = self.shared.turn("help", |e| e.help(&line)).await;
                self.replies.send(&json!({ "id": id, "ok": true, "text": text })).await
            }
            Ask::Run(what) => self.run(&what, request.json, request.cwd.as_deref()).await,
        }
    }

    async fn refuse(&mut self, id: &Json, kind: &str, message: &str) -> io::Result<()> {
        self.replies.send(&refusal(id, kind, message)).await
    }

    /// Runs what is asked for, and sends what it says and how it ended.
    pub async fn run(&mut self, what: &Run, json: bool, cwd: Option<&Path>) -> io::Result<()> {
        let result = match what {
            Run::Line(line) => {
                self.json = json || command::asks_json(line);
                self.line(line, cwd, 0).await
            }
            Run::Lines(text) => {
                self.json = json;
                script::run_text(self, text, cwd).await
            }
        };
        match result {
            Ok(answer) => self.replies.finish(answer, self.json).await,
            Err(Stop::Failed(failure)) => self.replies.fail(failure).await,
            Err(Stop::Gone(error)) => Err(error),
        }
    }

    /// Sends a piece of text before the end of the reply, unless JSON is wanted.
    pub async fn part(&mut self, text: &str) -> io::Result<()> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        let mut passed = text.to_owned();
        for filters in self.filters.iter_mut().rev() {
            passed = filters.pass(&passed);
        }
        if passed.is_empty() {
            return Ok(());
        }
        self.replies.part(passed).await
    }

    /// Writes a value into the JSON of the reply, or a piece of one that `begins` here or has begun.
    pub async fn write_json(&mut self, json: &str, begins: bool) -> io::Result<()> {
        self.replies.json(json, begins).await
    }

    /// Runs a line; `depth` is how many scripts it stands in.
    pub async fn line(&mut self, line: &str, cwd: Option<&Path>, depth: usize) -> Result<Answer, Stop> {
        let failed = |error: CommandError| Stop::Failed(Box::new(Failure::new(error, line)));
        let (command, filters) = split_filters(line).map_err(failed)?;
        if filters.is_empty() {
            return self.command(command, cwd, depth).await;
        }
        if self.json || command::asks_json(command) {
            return Err(failed(CommandError::new(
                "filters work on lines of text: leave them out, or --json",
            )));
        }
        self.filters.push(filters);
        let result = self.command(command, cwd, depth).await;
        let mut filters = self.filters.pop().unwrap_or_default();
        let mut answer = result?;
        answer.text = filters.pass(&answer.text) + &filters.end();
        Ok(answer)
    }

    /// Runs a command, without filters of its own, and keeps who gave it where it is to change something.
    async fn command(&mut self, line: &str, cwd: Option<&Path>, depth: usize) -> Result<Answer, Stop> {
        let mut ran = None;
        let result = self.carry_out(line, cwd, depth, &mut ran).await;
        if let Some(ran) = ran.filter(|r: &Ran| r.access >= Access::Write) {
            let outcome = match &result {
                Ok(_) => Some(Outcome::Done),
                Err(Stop::Gone(_)) => Some(Outcome::Left),
                Err(Stop::Failed(f)) => {
                    (f.error.kind == ErrorKind::Denied).then(|| Outcome::Refused(f.error.message.clone()))
                }
            };
            if let Some(outcome) = outcome {
                self.note(line, 1, outcome, ran.logged).await;
            }
        }
        result
    }

    /// Keeps who gave commands, of which this is the first.
    pub async fn note(&mut self, line: &str, count: usize, outcome: Outcome, logged: bool) {
        let Some(trail) = self.shared.executor.trail() else { return };
        let who = match &self.who {
            Some(who) => Rc::clone(who),
            None => {
                let caller = Arc::clone(&self.caller);
                // Names of users may come over a network.
                let author = net::background::run(move || author(Some(&caller))).await;
                let mut author =
                    author.unwrap_or_else(|_| Author { user: self.caller.user, ..Author::default() });
                if matches!(self.replies, Replies::Pieces(_)) && self.caller.remote.is_none() {
                    author.from = format!("API, {}", author.from);
                }
                Rc::clone(self.who.insert(Rc::new(Who { author, role: self.caller.access.role() })))
            }
        };
        trail.note(&who, &self.shared.executor.shown(line), count, outcome, logged);
    }

    async fn carry_out(
        &mut self,
        line: &str,
        cwd: Option<&Path>,
        depth: usize,
        ran: &mut Option<Ran>,
    ) -> Result<Answer, Stop> {
        let failed = |error: CommandError| Stop::Failed(Box::new(Failure::new(error, line)));
        let shared = Rc::clone(&self.shared);
        let shown = shared.executor.shown(line);
        let run = |executor: &dyn Executor| {
            let output = caught(|| executor.execute(&self.caller, line, self.json));
            *ran = executor.ran();
            output
        };
        let mut output = shared.run(&shown, false, run).await.map_err(failed)?;
        if let Some(path) = output.script_path() {
            return Box::pin(script::run(self, path, cwd, depth)).await;
        }
        // What takes long, and what is done with the context behind it, in turns.
        let output = loop {
            output = match output.into_stream() {
                Ok(stream) => {
                    let looks = self.caller.access < Access::Operate;
                    let place = looks.then(|| shared.streams.take(&self.caller)).transpose();
                    let place = place.map_err(|full| failed(CommandError::new(full.to_string())))?;
                    let done = self.stream(stream).await?;
                    drop(place);
                    done.map_err(failed)?
                }
                Err(output) => match output.into_next() {
                    Ok(next) => shared.run(&shown, false, |_| caught(next)).await.map_err(failed)?,
                    Err(output) => break output,
                },
            };
        };
        let output = match output.into_pieces() {
            Ok(pieces) => {
                self.pieces(&shown, pieces).await?.map_err(failed)?;
                return Ok(Answer::default());
            }
            Err(output) => output,
        };
        let failed = output.is_failed();
        Ok(match self.json {
            true => Answer { json: output.to_json(), failed, ..Answer::default() },
            false => Answer { text: output.to_text(), failed, ..Answer::default() },
        })
    }

    /// Sends a long answer while it is made: no more than a piece is in memory, and the next one is made when the client has
    /// taken the last.
    async fn pieces(&mut self, line: &str, mut next: Pieces) -> io::Result<Result<(), CommandError>> {
        let shared = Rc::clone(&self.shared);
        let mut page = Page::new(self.json);
        let (mut begins, mut long) = (true, false);
        loop {
            let make = |_: &dyn Executor| {
                page.start();
                caught(|| next(&mut page))
            };
            let more = match shared.run(line, std::mem::replace(&mut long, true), make).await {
                Ok(more) => more,
                Err(error) => return Ok(Err(error)),
            };
            let piece = page.take();
            // Work in turns may have nothing to say.
            if piece.is_empty() {
            } else if self.json {
                self.write_json(&piece, std::mem::take(&mut begins)).await?;
            } else {
                self.part(&piece).await?;
            }
            if !more {
                return Ok(Ok(()));
            }
        }
    }

    /// Runs a command that goes on for a while and sends what it says as it says it. It ends when the client goes away, also
    /// while there is nothing to say, unless it changes something.
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
        let finishes = stream.finishes;
        let mut running = stream.start(emit);
        let mut ended = None;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        loop {
            let part = poll_fn(|context| {
                if ended.is_none()
                    && let Poll::Ready(result) = running.as_mut().poll(context)
                {
                    ended = Some(result);
                }
                match parts.poll_recv(context) {
                    Poll::Ready(Some(part)) => Poll::Ready(Some(part)),
                    // The command may have dropped its `Emit` and go on in silence.
                    _ if ended.is_some() => Poll::Ready(None),
                    _ if look.poll_tick(context).is_ready() => Poll::Ready(Some(String::new())),
                    _ => Poll::Pending,
                }
            });
            match (part.await, ended.take()) {
                (Some(part), result) => {
                    if part.is_empty() && !finishes && self.replies.is_gone() {
                        return Err(gone());
                    }
                    ended = result;
                    pending.set(pending.get().saturating_sub(part.len()));
                    self.part(&part).await?;
                }
                (None, result) => return Ok(result.unwrap_or_else(|| Err("the command did not end".into()))),
            }
        }
    }
}

/// A fault in one command must not take the router's control side down.
fn caught<R>(run: impl FnOnce() -> Result<R, CommandError>) -> Result<R, CommandError> {
    let failed = |_| Err(CommandError::new("internal error: the command panicked"));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(failed)
}
