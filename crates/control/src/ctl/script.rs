//! `exec`: the commands of a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use command::CommandError;
use serde_json::Value as Json;

use super::protocol::{Failure, InScript};
use super::session::{Answer, Session, Stop};
use crate::memory;

/// Scripts may call scripts so deep.
const MAX_DEPTH: usize = 8;
/// The longest script, in bytes. A full Internet table takes about 70 MB.
const MAX_SCRIPT: u64 = 256 << 20;
/// Scripts of so many lines take little memory, whatever stands there; in longer ones it is looked at that often.
const SHORT: usize = 4096;
/// Lines checked before others get their turn.
const CHECKED_A_TURN: usize = 1 << 16;

/// Checks all lines of a file, then runs them until one fails.
pub(super) async fn run(
    session: &mut Session,
    path: &Path,
    cwd: Option<&Path>,
    depth: usize,
) -> Result<Answer, Stop> {
    let refused = |message: String| {
        let error = CommandError::new(message);
        Stop::Failed(Box::new(Failure { text: error.message.clone(), error, script: None }))
    };
    let path = resolve(path, cwd).map_err(refused)?;
    let name = path.display().to_string();
    if depth >= MAX_DEPTH {
        return Err(refused(format!("{name}: scripts call each other more than {MAX_DEPTH} deep")));
    }
    let text = read(&path).map_err(|error| refused(format!("cannot read {name}: {error}")))?;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        session.executor.check(line).map_err(|error| {
            let mut failure = Failure::new(error, line);
            failure.text = format!("{name}:{}:\n{}\nnothing was applied", index + 1, failure.text);
            failure.script = Some(InScript { file: Some(name.clone()), line: index + 1, applied: 0 });
            Stop::Failed(Box::new(failure))
        })?;
        if (index + 1).is_multiple_of(CHECKED_A_TURN) {
            tokio::task::yield_now().await;
        }
    }
    let result = run_lines(session, &lines, path.parent(), depth + 1).await;
    if lines.len() > CHECKED_A_TURN {
        drop(lines);
        drop(text);
        memory::give_back();
    }
    let answers = result.map_err(|at| {
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
    Ok(Answer { text: String::new(), json: Json::Array(answers) })
}

/// Runs the lines of a text until one fails.
pub(super) async fn run_text(session: &mut Session, text: &str, cwd: Option<&Path>) -> Result<Answer, Stop> {
    let lines: Vec<&str> = text.lines().collect();
    let answers = run_lines(session, &lines, cwd, 0).await.map_err(|at| {
        at.stop(|failure, line, applied| {
            failure.script.get_or_insert(InScript { file: None, line, applied });
        })
    })?;
    Ok(Answer { text: String::new(), json: Json::Array(answers) })
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

/// Runs lines until one fails, and answers their JSON.
async fn run_lines(
    session: &mut Session,
    lines: &[&str],
    cwd: Option<&Path>,
    depth: usize,
) -> Result<Vec<Json>, Ended> {
    let (mut applied, mut answers, mut next) = (0, Vec::new(), 0);
    let (mut asked, mut most) = (0, usize::MAX);
    while let Some(rest) = lines.get(next..).filter(|rest| !rest.is_empty()) {
        // Few lines take little.
        if lines.len() > SHORT && next >= asked {
            most = memory::for_lines().map_err(|e| {
                let error = CommandError::new(format!("no memory for further commands: {e}"));
                let failure = Failure { text: error.message.clone(), error, script: None };
                Ended(next + 1, applied, Stop::Failed(Box::new(failure)))
            })?;
            asked = next.saturating_add(most.min(SHORT));
        }
        let rest = rest.get(..most).unwrap_or(rest);
        let taken = session.executor.run_at_once(session.access, rest).min(rest.len());
        (next, applied) = (next + taken, applied + taken);
        if let Some(line) = lines.get(next).filter(|_| taken == 0) {
            next += 1;
            let ended = |stop| Ended(next, applied, stop);
            let answer = session.line(line, cwd, depth).await.map_err(ended)?;
            session.part(&answer.text).await.map_err(|error| ended(error.into()))?;
            if answer.json != Json::Null {
                answers.push(answer.json);
            }
            let words = line.trim_start();
            if !words.is_empty() && !words.starts_with('#') {
                applied += 1;
            }
        }
        // Other connections and the rest of the control side get their turn.
        tokio::task::yield_now().await;
    }
    Ok(answers)
}

fn resolve(path: &Path, cwd: Option<&Path>) -> Result<PathBuf, String> {
    match cwd {
        _ if path.is_absolute() => Ok(path.to_owned()),
        Some(cwd) if cwd.is_absolute() => Ok(cwd.join(path)),
        _ => Err(format!("{}: give the whole path from /", path.display())),
    }
}

/// Reads a regular file: a pipe or a terminal could hold the control side up for ever.
fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let metadata: fs::Metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // The text, and its lines beside it.
    graph::memory::check(
        usize::try_from(metadata.len().min(MAX_SCRIPT)).unwrap_or(usize::MAX).saturating_mul(2),
    )?;
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
