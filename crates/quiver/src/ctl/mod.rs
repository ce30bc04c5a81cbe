//! `quiver ctl`: commands for a running router, from the arguments, from a pipe, or from a shell.

mod complete;
mod link;
mod shell;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use link::{Failure, Link};

/// Send commands to the running router
///
/// With words: runs them as one command. Without: a shell on a terminal; else the lines of the standard input, up to
/// the first that fails.
#[derive(Debug, Args)]
pub struct Ctl {
    /// The router's control socket
    #[arg(short, long, env = "QUIVER_CTL", default_value = control::ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// The command; '?' in the place of a word lists what may stand there
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs `quiver ctl`: the status is 0 when every command succeeded.
pub fn run(arguments: &Ctl) -> ExitCode {
    let mut link = Link::new(&arguments.socket, arguments.json);
    let result = match arguments.words.as_slice() {
        [] if io::stdin().is_terminal() && io::stdout().is_terminal() => shell::run(link),
        [] => pipe(link, io::stdin().lock()),
        // One argument is a line as it stands; several are its words, as the operator's shell has split them.
        [line] => say(&mut link, line),
        words => say(&mut link, &words.iter().map(|word| requote(word)).collect::<Vec<_>>().join(" ")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(text) = failure.text() {
                // Where standard error is closed nobody wants to know.
                let _ = writeln!(io::stderr(), "{text}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A word of the command line as it must stand in the line sent; what asks for help or JSON keeps its meaning.
fn requote(word: &str) -> String {
    match word {
        "--json" => word.to_owned(),
        _ if word.ends_with('?') && !word.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'') => {
            word.to_owned()
        }
        _ => command::quote(word),
    }
}

/// Runs one line and prints what it answers as it comes.
fn say(link: &mut Link, line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    link.run(line, &mut |text| {
        out.write_all(text.as_bytes())?;
        out.flush()
    })
}

/// Runs the lines of a pipe or file up to the first that fails.
fn pipe(mut link: Link, mut input: impl BufRead) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Failure::Said(format!("cannot read: {error}")))?
            == 0
        {
            break;
        }
        let at = |failure: Failure| match failure {
            Failure::Said(text) => Failure::Said(format!("line {number}:\n{text}")),
            other => other,
        };
        let Ok(line) = std::str::from_utf8(&bytes) else {
            return Err(at(Failure::Said("not UTF-8".to_owned())));
        };
        let line = line.trim();
        match line {
            "" => {}
            "quit" | "exit" => break,
            line => say(&mut link, line).map_err(at)?,
        }
    }
    Ok(())
}
