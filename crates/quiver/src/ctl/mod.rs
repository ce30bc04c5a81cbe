//! `quiver ctl`: commands for a running router, from the arguments, from a pipe, or from a shell.

mod complete;
mod desired;
mod link;
mod pager;
mod remote;
mod shell;
mod ssh;

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

pub use desired::{Apply, Confirm, Diff, History, Plan, Rollback, Save};
use link::{Failure, Link};
use remote::Over;

/// Send commands to the running router
///
/// With words: runs them as one command. Without: a shell on a terminal; else the lines of the standard input, up to
/// the first that fails.
#[derive(Debug, Args)]
pub struct Ctl {
    /// The router's control socket
    #[arg(short, long, env = "QUIVER_CTL", default_value = control::ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    over: Over,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// In the shell: show long answers at once, not a screenful at a time
    #[arg(long)]
    no_pager: bool,
    /// The command; '?' in the place of a word lists what may stand there
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Print the state of the running router as a YAML document that loads to the same state
#[derive(Debug, Args)]
pub struct Dump {
    /// The router's control socket
    #[arg(short, long, env = "QUIVER_CTL", default_value = control::ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    over: Over,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `quiver dump`.
pub fn dump(arguments: &Dump) -> ExitCode {
    let link = Link::new(&arguments.socket, arguments.json).over(&arguments.over);
    finish(link.and_then(|mut link| say(&mut link, "show configuration")), arguments.json)
}

/// Runs `quiver ctl`: the status is 0 when every command succeeded.
pub fn run(arguments: &Ctl) -> ExitCode {
    // `--json` among the words of the command means the same as before them.
    let json = arguments.json || arguments.words.last().is_some_and(|words| command::asks_json(words));
    let mut link = match Link::new(&arguments.socket, json).over(&arguments.over) {
        Ok(link) => link,
        Err(failure) => return finish(Err(failure), json),
    };
    let result = match arguments.words.as_slice() {
        [] if io::stdin().is_terminal() && io::stdout().is_terminal() => {
            shell::run(link, !arguments.no_pager)
        }
        [] => pipe(link, io::stdin().lock()),
        // One argument is a line as it stands; several are its words, as the operator's shell has split them.
        [line] => say(&mut link, line),
        words => say(&mut link, &words.iter().map(|word| requote(word)).collect::<Vec<_>>().join(" ")),
    };
    finish(result, json)
}

/// The status of the process, after the words about a failure: on standard error, or as JSON where answers stand.
fn finish(result: Result<(), Failure>, json: bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(text) = failure.told(json) {
                // Where the output is closed nobody wants to know.
                let _ =
                    if json { writeln!(io::stdout(), "{text}") } else { writeln!(io::stderr(), "{text}") };
            }
            ExitCode::FAILURE
        }
    }
}

/// A word of the command line as it must stand in the line sent; what asks for help or JSON keeps its meaning.
fn requote(word: &str) -> String {
    match word {
        "--json" | "|" => word.to_owned(),
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

/// The most bytes of lines that are sent as one request.
const AT_ONCE: usize = 512 << 10;

/// Runs the lines of a pipe or file up to the first that fails.
fn pipe(mut link: Link, input: impl Read) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 20, input);
    // Routes come by the thousand: those that have arrived already are sent together. They have nothing to say, so
    // that nobody waits for the answer to one before the next is sent.
    let mut together = String::new();
    let (mut bytes, mut first, mut number) = (Vec::new(), 1, 0);
    let (mut comments, mut opened) = (command::Comments::default(), 0);
    loop {
        bytes.clear();
        let got = input.read_until(b'\n', &mut bytes);
        let end = got.map_err(|error| Failure::Said(format!("cannot read: {error}")))? == 0;
        number += 1;
        // A comment may have many lines, and the router gets one at a time. It tells what is wrong with a single line.
        let was_open = comments.is_open();
        let covered = std::str::from_utf8(&bytes).map_or(Ok(was_open), |line| {
            comments.covers(line).map_err(|error| at(Failure::Said(error.render(line)), number))
        })?;
        if comments.is_open() && !was_open {
            opened = number;
        }
        if end && comments.is_open() {
            send(&mut link, &mut together, first)?;
            return Err(at(Failure::Said("this comment is not closed: '}' is missing".to_owned()), opened));
        }
        if covered && !end {
            continue;
        }
        let line = std::str::from_utf8(&bytes).map(str::trim);
        // What JSON would have to escape is rare, and could make the request too long.
        let simple = |l: &str| l.len() < 4096 && l.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\');
        let many = !link.json() && line.is_ok_and(|l| l.starts_with("ip route ") && simple(l));
        if !many || end {
            send(&mut link, &mut together, first)?;
        }
        match line {
            _ if end => return Ok(()),
            // Where changes answer too, what is no command must not.
            Ok(line) if line.is_empty() || link.json() && line.starts_with(['#', '!']) => {}
            Ok("quit" | "exit") => return Ok(()),
            Ok(line) if many => {
                if together.is_empty() {
                    first = number;
                }
                together += line;
                together.push('\n');
                if together.len() > AT_ONCE || !input.buffer().contains(&b'\n') {
                    send(&mut link, &mut together, first)?;
                }
            }
            Ok(line) => say(&mut link, line).map_err(|e| at(e, number))?,
            Err(_) => return Err(at(Failure::Said("not UTF-8".to_owned()), number)),
        }
    }
}

/// Runs the lines in `together`, of which the first has the number `first`.
fn send(link: &mut Link, together: &mut String, first: usize) -> Result<(), Failure> {
    if together.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let result = link.run_lines(together, &mut |text| out.write_all(text.as_bytes()));
    together.clear();
    result.map_err(|failure| at(failure, first))?;
    out.flush().map_err(|_| Failure::Closed)
}

/// A failure with the number of its line; `number` is that of the first line sent.
fn at(failure: Failure, number: usize) -> Failure {
    match failure {
        Failure::Said(text) => Failure::Said(format!("line {number}:\n{text}")),
        Failure::Refused(mut error) => {
            // The place in a file that a line named is nearer to the fault.
            let within = error["line"].as_u64().filter(|_| error["file"].is_null());
            let number = number + within.map_or(0, |line| (line as usize).saturating_sub(1));
            let text = error["text"].as_str().unwrap_or_default();
            error["text"] = format!("line {number}:\n{text}").into();
            if error["file"].is_null() {
                error["line"] = number.into();
            }
            Failure::Refused(error)
        }
        other => other,
    }
}
