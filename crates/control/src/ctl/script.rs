//! `exec`: the commands of a file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use command::{Caller, CommandError, Comments};
use drivers::{Files, Identity};
use serde_json::Value as Json;

use super::Executor;
use super::protocol::{Failure, InScript};
use super::session::{Answer, Session, Stop};
use crate::memory;
use crate::trail::Outcome;

/// Scripts may call scripts so deep.
const MAX_DEPTH: usize = 8;
/// The longest script, in bytes. A full Internet table takes about 70 MB.
const MAX_SCRIPT: u64 = 256 << 20;
/// After a longer script memory is given back, in bytes.
const LARGE: usize = 4 << 20;
/// A script of fewer lines takes little memory, whatever stands there; in longer ones it is looked at that often.
const SHORT: usize = 4096;
/// A text that is shorter is looked through for comments in a turn, in bytes.
const MOST_OF_A_TURN: usize = 64 << 10;
/// How long lines are checked or run, about, before others have their turn.
const TURN: Duration = Duration::from_millis(2);
/// Bytes that are checked between two looks at the clock, about.
const LOOKS: usize = 4096;
/// Lines that are run at once at first, and in the limits between which that changes with the time they take.
const FIRST_BATCH: usize = 512;
const LEAST_AT_ONCE: usize = 64;
const MOST_AT_ONCE: usize = 1 << 16;

/// Checks all lines of a file, then runs them until one fails.
pub(super) async fn run(
    session: &mut Session,
    path: &Path,
    cwd: Option<&Path>,
    depth: usize,
) -> Result<Answer, Stop> {
    let refused = |message: String| Stop::Failed(Box::new(Failure::of(CommandError::new(message))));
    let path = resolve(path, cwd).map_err(refused)?;
    let name = path.display().to_string();
    if depth >= MAX_DEPTH {
        return Err(refused(format!("{name}: scripts call each other more than {MAX_DEPTH} deep")));
    }
    // A large file takes a while to read.
    let (from, caller) = (path.clone(), Arc::clone(&session.caller));
    let read = move || read(&from, &caller).map(without_comments);
    let text = net::background::run(read).await.flatten();
    let text = text.map_err(|error| refused(format!("cannot read {name}: {error}")))?;
    let text = text.map_err(|(number, mut failure)| {
        failure.text = format!("{name}:{number}:\n{}\nnothing was applied", failure.text);
        failure.script = Some(InScript { file: Some(name.clone()), line: number, applied: 0 });
        Stop::Failed(failure)
    })?;
    let (mut lines, mut number) = (text.lines(), 0);
    loop {
        let check = |executor: &dyn Executor| -> Result<bool, Box<Failure>> {
            let began = Instant::now();
            let mut bytes = 0;
            for line in lines.by_ref() {
                number += 1;
                bytes += line.len() + 16;
                executor.check(line).map_err(|error| Box::new(Failure::new(error, line)))?;
                if bytes >= LOOKS {
                    bytes = 0;
                    if began.elapsed() >= TURN {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        };
        match session.shared.turn("exec: checking lines", check).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(mut failure) => {
                failure.text = format!("{name}:{number}:\n{}\nnothing was applied", failure.text);
                failure.script = Some(InScript { file: Some(name), line: number, applied: 0 });
                return Err(Stop::Failed(failure));
            }
        }
    }
    let result = run_lines(session, &text, path.parent(), depth + 1).await;
    if text.len() > LARGE {
        let give_back = move || {
            drop(text);
            memory::give_back();
        };
        // Without a thread for it the text is gone, which is most of it.
        let _ = net::background::run(give_back).await;
    }
    let failed = result.map_err(|at| {
        at.stop(|failure, line, applied| {
            let before = match applied {
                0 => "nothing before it was applied".to_owned(),
                1 => "1 command before it was applied".to_owned(),
                many => format!("{many} commands before it were applied"),
            };
            failure.text = format!("{name}:{line}:\n{}\n{before}", failure.text);
            // The innermost script's place is the one to look at.
            failure.script.get_or_insert(InScript { file: Some(name.clone()), line, applied });
        })
    })?;
    Ok(Answer { failed, ..Answer::default() })
}

/// Runs the lines of a text until one fails.
pub(super) async fn run_text(session: &mut Session, text: &str, cwd: Option<&Path>) -> Result<Answer, Stop> {
    let text = text.to_owned();
    let text = match text.len() {
        0..MOST_OF_A_TURN => Ok(without_comments(text)),
        _ => net::background::run(move || without_comments(text)).await,
    };
    let text = text?.map_err(|(line, mut failure)| {
        failure.script = Some(InScript { file: None, line, applied: 0 });
        Stop::Failed(failure)
    })?;
    let failed = run_lines(session, &text, cwd, 0).await.map_err(|at| {
        at.stop(|failure, line, applied| {
            failure.script.get_or_insert(InScript { file: None, line, applied });
        })
    })?;
    Ok(Answer { failed, ..Answer::default() })
}

/// The text with empty lines in the place of those in `comment {...}`; the line of a faulty comment.
fn without_comments(text: String) -> Result<String, (usize, Box<Failure>)> {
    if !text.contains("comment") {
        return Ok(text);
    }
    let (mut comments, mut kept) = (Comments::default(), String::with_capacity(text.len()));
    let mut open = (0, "");
    for (index, line) in text.lines().enumerate() {
        let was_open = comments.is_open();
        let covered = comments.covers(line);
        let covered = covered.map_err(|error| (index + 1, Box::new(Failure::new(error, line))))?;
        if comments.is_open() && !was_open {
            open = (index + 1, line);
        }
        kept.push_str(if covered { "" } else { line });
        kept.push('\n');
    }
    if comments.is_open() {
        let error = CommandError::new("this comment is not closed: '}' is missing");
        return Err((open.0, Box::new(Failure::new(error.at(0..open.1.len()), open.1))));
    }
    Ok(kept)
}

/// The line that ended a run: its number from 1, how many commands were applied before it, and why.
struct Ended(usize, usize, Stop);

impl Ended {
    fn stop(self, tell: impl FnOnce(&mut Failure, usize, usize)) -> Stop {
        let Ended(line, applied, mut stop) = self;
        if let Stop::Failed(failure) = &mut stop {
            tell(failure, line, applied);
        }
        stop
    }
}

/// Runs lines until one fails; their JSON becomes a list in that of the reply. Whether any of them did not find what it was to
/// find.
async fn run_lines(
    session: &mut Session,
    text: &str,
    cwd: Option<&Path>,
    depth: usize,
) -> Result<bool, Ended> {
    let gone = |error: io::Error| Ended(0, 0, error.into());
    if session.json {
        session.write_json("[", true).await.map_err(gone)?;
    }
    let (mut applied, mut next, mut failed) = (0, 0, false);
    let (mut asked, mut most) = (SHORT, usize::MAX);
    let (mut lines, mut batch) = (text.lines(), FIRST_BATCH);
    let mut window: Vec<&str> = Vec::new();
    loop {
        if next >= asked {
            most = memory::for_lines().map_err(|e| {
                let error = CommandError::new(format!("no memory for further commands: {e}"));
                Ended(next + 1, applied, Stop::Failed(Box::new(Failure::of(error))))
            })?;
            asked = next + SHORT;
        }
        window.clear();
        window.extend(lines.by_ref().take(batch.min(most)));
        if window.is_empty() {
            break;
        }
        let mut rest = window.as_slice();
        while let Some(line) = rest.first() {
            let access = session.caller.access;
            let many = |executor: &dyn Executor| {
                let began = Instant::now();
                (executor.run_at_once(access, rest).min(rest.len()), began.elapsed())
            };
            let (taken, time) = session.shared.turn("exec: many lines at once", many).await;
            // As many at once as take a turn: routes by the million are applied some thousand at a time.
            if taken == window.len() && time < TURN / 2 {
                batch = (batch * 2).min(MOST_AT_ONCE);
            } else if time > TURN {
                batch = (batch / 2).max(LEAST_AT_ONCE);
            }
            (next, applied) = (next + taken, applied + taken);
            if taken != 0 {
                session.note(line, taken, Outcome::Done, false).await;
            }
            rest = rest.get(taken.max(1)..).unwrap_or_default();
            if taken == 0 {
                next += 1;
                let ended = |stop| Ended(next, applied, stop);
                let answer = session.line(line, cwd, depth).await.map_err(ended)?;
                failed |= answer.failed;
                session.part(&answer.text).await.map_err(|error| ended(error.into()))?;
                if answer.json != Json::Null {
                    let json = answer.json.to_string();
                    session.write_json(&json, true).await.map_err(|error| ended(error.into()))?;
                }
                let words = line.trim_start();
                if !words.is_empty() && !words.starts_with(['#', '!']) {
                    applied += 1;
                }
            }
        }
    }
    if session.json {
        session.write_json("]", false).await.map_err(gone)?;
    }
    Ok(failed)
}

fn resolve(path: &Path, cwd: Option<&Path>) -> Result<PathBuf, String> {
    match cwd {
        _ if path.is_absolute() => Ok(path.to_owned()),
        Some(cwd) if cwd.is_absolute() => Ok(cwd.join(path)),
        _ => Err(format!("{}: give the whole path from /", path.display())),
    }
}

/// Reads a regular file with the rights of the caller.
fn read(path: &Path, caller: &Caller) -> io::Result<String> {
    let who = Identity { user: caller.user, group: caller.group, groups: caller.groups.clone() };
    let file = Files::of(Some(who), false).read(path)?;
    let length = file.metadata()?.len().min(MAX_SCRIPT);
    graph::memory::check(usize::try_from(length).unwrap_or(usize::MAX))?;
    let mut bytes = Vec::new();
    file.take(MAX_SCRIPT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SCRIPT {
        return Err(io::Error::other(format!("it is longer than {MAX_SCRIPT} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = valid.filter(|byte| **byte == b'\n').count() + 1;
        io::Error::other(format!("line {line} is not UTF-8"))
    })
}
