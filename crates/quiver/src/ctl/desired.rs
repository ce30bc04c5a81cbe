//! `quiver diff`, `plan`, `apply`, `confirm`, `rollback`, `history`, `save`: what a document would change of the running router, how,
//! doing it, and the way back.

use super::{finish, link::Failure, link::Link, say};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where a command goes, and how the answer is wanted.
#[derive(Debug, Args)]
struct To {
    /// The router's control socket
    #[arg(short, long, env = "QUIVER_CTL", default_value = control::ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl To {
    fn send(&self, line: Result<String, Failure>) -> ExitCode {
        let sent = line.and_then(|line| say(&mut Link::new(&self.socket, self.json), &line));
        finish(sent, self.json)
    }
}

/// Where a document goes.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    to: To,
    /// The document
    file: PathBuf,
}

impl Common {
    fn send(&self, what: &str, more: &str) -> ExitCode {
        let path = std::path::absolute(&self.file)
            .map_err(|e| Failure::Said(format!("{}: {e}", self.file.display())))
            .and_then(|path| {
                let text = Path::to_str(&path).map(command::quote);
                text.ok_or_else(|| Failure::Said(format!("{}: the name is not UTF-8", self.file.display())))
            });
        self.to.send(path.map(|path| format!("configuration {what} {path}{more}")))
    }
}

/// What becomes of what commands made.
#[derive(Debug, Args)]
struct Others {
    /// Take away what commands made as well, where the document does not say it
    #[arg(long)]
    exact: bool,
}

impl Others {
    fn words(&self) -> &'static str {
        if self.exact { " exact" } else { "" }
    }
}

/// How a change is made.
#[derive(Debug, Args)]
struct How {
    #[command(flatten)]
    others: Others,
    /// Go back by itself after so many seconds, unless `quiver confirm` comes
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    confirm: Option<u32>,
    /// A note for the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Take it although the section `quiver` differs, which comes with the next start
    #[arg(long)]
    restart: bool,
}

impl How {
    fn words(&self) -> String {
        let confirm = self.confirm.map_or(String::new(), |s| format!(" confirm {s}"));
        let restart = if self.restart { " restart" } else { "" };
        confirm + &comment(self.comment.as_deref()) + restart + self.others.words()
    }
}

fn comment(text: Option<&str>) -> String {
    text.map_or(String::new(), |text| format!(" comment {}", command::quote(text)))
}

/// Tell what a document would change of the running router, an object a line; nothing is changed
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    others: Others,
}

/// Tell the steps from what runs to a document, and whose traffic each touches; nothing is changed
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    others: Others,
}

/// Bring the running router to a document, as a whole or not at all
#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    how: How,
}

/// Keep what was applied with --confirm
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    to: To,
}

/// Go back to an earlier configuration: the one before the last, or the one of this number of the history
#[derive(Debug, Args)]
pub struct Rollback {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    how: How,
    /// Its number
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
}

/// List the configurations that were kept, or tell what one of them changed
#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    to: To,
    /// Its number
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// Print its document
    #[arg(long, requires = "number")]
    document: bool,
}

/// Keep what runs for the next start
#[derive(Debug, Args)]
pub struct Save {
    #[command(flatten)]
    to: To,
    /// A note for the history
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl Diff {
    /// Runs `quiver diff`.
    pub fn run(&self) -> ExitCode {
        self.common.send("diff", self.others.words())
    }
}

impl Plan {
    /// Runs `quiver plan`.
    pub fn run(&self) -> ExitCode {
        self.common.send("plan", &format!("{}{}", self.others.words(), session()))
    }
}

/// The ends of the SSH connection that this process is used over, if there is one.
fn session() -> String {
    super::ssh::ends().map_or(String::new(), |(client, server)| format!(" session {client} {server}"))
}

impl Apply {
    /// Runs `quiver apply`.
    pub fn run(&self) -> ExitCode {
        self.common.send("apply", &self.how.words())
    }
}

impl Confirm {
    /// Runs `quiver confirm`.
    pub fn run(&self) -> ExitCode {
        self.to.send(Ok("configuration confirm".into()))
    }
}

fn numbered(number: Option<u64>) -> String {
    number.map_or(String::new(), |n| format!(" {n}"))
}

impl Rollback {
    /// Runs `quiver rollback`.
    pub fn run(&self) -> ExitCode {
        self.to.send(Ok(format!("configuration rollback{}{}", numbered(self.number), self.how.words())))
    }
}

impl History {
    /// Runs `quiver history`.
    pub fn run(&self) -> ExitCode {
        let document = if self.document { " document" } else { "" };
        self.to.send(Ok(format!("configuration history{}{document}", numbered(self.number))))
    }
}

impl Save {
    /// Runs `quiver save`.
    pub fn run(&self) -> ExitCode {
        self.to.send(Ok(format!("configuration save{}", comment(self.comment.as_deref()))))
    }
}
