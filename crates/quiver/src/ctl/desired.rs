//! `quiver diff`, `quiver plan`, `quiver apply`: what a document would change of the running router, how, and doing it.

use super::{finish, link::Failure, link::Link, say};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where a document goes, and how the answer is wanted.
#[derive(Debug, Args)]
struct Common {
    /// The router's control socket
    #[arg(short, long, env = "QUIVER_CTL", default_value = control::ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// The document
    file: PathBuf,
}

impl Common {
    fn send(&self, what: &str) -> ExitCode {
        let result = std::path::absolute(&self.file)
            .map_err(|e| Failure::Said(format!("{}: {e}", self.file.display())))
            .and_then(|path| {
                let path = Path::to_str(&path).ok_or_else(|| {
                    Failure::Said(format!("{}: the name is not UTF-8", self.file.display()))
                })?;
                let line = format!("configuration {what} {}", command::quote(path));
                say(&mut Link::new(&self.socket, self.json), &line)
            });
        finish(result, self.json)
    }
}

/// Tell what a document would change of the running router, an object a line; nothing is changed
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    common: Common,
}

/// Tell the steps from what runs to a document, and whose traffic each touches; nothing is changed
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    common: Common,
}

/// Bring the running router to a document, as a whole or not at all
#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    common: Common,
}

impl Diff {
    /// Runs `quiver diff`.
    pub fn run(&self) -> ExitCode {
        self.common.send("diff")
    }
}

impl Plan {
    /// Runs `quiver plan`.
    pub fn run(&self) -> ExitCode {
        self.common.send("plan")
    }
}

impl Apply {
    /// Runs `quiver apply`.
    pub fn run(&self) -> ExitCode {
        self.common.send("apply")
    }
}
