//! The control socket: commands over a Unix stream socket.
//!
//! # Protocol
//!
//! One JSON object a line in both directions. A request has an `id` of any kind, which its replies repeat, and one of
//!
//! | field | meaning |
//! |---|---|
//! | `"line": "show version"` | run a command; `"json": true` asks for JSON instead of text |
//! | `"lines": "set x 1\nset x 2"` | run the commands of these lines up to the first that fails |
//! | `"complete": {"line": "sh", "cursor": 2}` | what could stand at this byte of the line |
//! | `"help": "show "` | what may follow |
//!
//! `"cwd"` is the absolute directory from which the relative file of `exec` is looked for.
//!
//! A reply is any number of `{"id", "part": "text"}`, to be shown as they come, and then one of
//!
//! - `{"id", "ok": true, "text": "..."}`; with `"json": ...` instead where JSON was asked for;
//! - `{"id", "ok": true, "complete": {"start", "candidates": [{"text", "help"}], "path"}}`, where `start` is the byte
//!   at which the word to be replaced begins, and `path` says that file names could stand there;
//! The JSON of a long answer is written while it is made, so that it is as large as it has to be. Where the command fails
//! in the middle, lists and mappings are closed, and `"ok": false` with the error comes behind the `"json"` so far.
//!
//! - `{"id", "ok": false, "error": {"kind", "message", "text", "column", "length", "expected", ...}}`, where `kind` is
//!   `syntax`, `denied`, `failed` or `protocol`; `text` is the message with the line and a caret; `column` and `length`
//!   are in bytes. An error in a script also has `file`, `line` (from 1) and `applied`: how many commands before it ran;
//!   so has one in `lines`, without `file`.
//!
//! Requests of one connection are answered in order; connections do not wait for each other. A request is at most
//! [`MAX_REQUEST`] bytes long. A connection that does not read its replies is closed, and so is one without a request for
//! as long as the configuration says; it gets a reply with `"id": null` and the kind `idle` before.
//!
//! Long answers are made as they are read: a client costs a piece of its answer, not the whole. Between two pieces, of one
//! client or of several, the control thread does its other work. What is listed may change meanwhile: each route is shown
//! as it is when it is written.
//!
//! # Who may do what
//!
//! The socket has mode 0660. The kernel tells who is at the other end: root, the user the router runs as, and members
//! of the admin group may change things; members of the socket's group may look. Others are refused.

mod credentials;
mod protocol;
mod reply;
mod script;
mod server;
mod session;
mod socket;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use command::{Access, Caller, Command, CommandError, Completer, Completion, Output, Registry};

use crate::load::Load;
pub use protocol::MAX_REQUEST;
pub use server::{MAX_CLIENTS, Server};
pub use socket::{BindError, Config};

/// Where the socket is unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/ctl.sock";

/// What runs the commands that come over the socket. Called on the control thread, one call at a time.
pub trait Executor {
    /// Runs a line; `json` tells that only the JSON of the answer is wanted.
    ///
    /// # Errors
    /// A wrong word, a missing right, or what the command itself answers.
    fn execute(&self, caller: &Arc<Caller>, line: &str, json: bool) -> Result<Output, CommandError>;

    /// Checks the words of a line without running it; things that it names need not exist yet.
    ///
    /// # Errors
    /// A wrong word.
    fn check(&self, line: &str) -> Result<(), CommandError>;

    /// Runs as many of `lines`, from the first on, as can be run at once, and answers how many those were. It may stop
    /// at any line, and stops before one that would be refused: the caller runs that one by itself and gets the error.
    /// What it ran had nothing to say.
    fn run_at_once(&self, access: Access, lines: &[&str]) -> usize {
        let _ = (access, lines);
        0
    }

    /// What is kept of the load of the thread that runs the commands.
    fn load(&self) -> Rc<Load> {
        Rc::default()
    }

    /// What could stand at byte `cursor` of `line`.
    fn complete(&self, line: &str, cursor: usize) -> Completion;

    /// What may follow `line`.
    fn help(&self, line: &str) -> String;
}

/// Runs the commands of a registry on a context of the control thread.
pub struct RegistryExecutor<C> {
    registry: Rc<Registry<C>>,
    context: Rc<RefCell<C>>,
    plain: Option<Plain<C>>,
    load: Rc<Load>,
}

/// Commands that come by the thousand, in a form that needs no general parser.
pub struct Plain<C> {
    /// Whether a line is such a command. The general parser must take it for the same one.
    pub is: fn(&str) -> bool,
    /// As [`Executor::run_at_once`]. All of these commands change things.
    pub run: fn(&mut C, &[&str]) -> usize,
}

impl<C> RegistryExecutor<C> {
    /// Commands of `registry` on `context`. A command that streams must not keep the context borrowed.
    pub fn new(registry: Rc<Registry<C>>, context: Rc<RefCell<C>>) -> Self {
        Self { registry, context, plain: None, load: Rc::default() }
    }

    /// With a way to run many lines at once.
    #[must_use]
    pub fn with_plain(mut self, plain: Plain<C>) -> Self {
        self.plain = Some(plain);
        self
    }

    /// With what is kept of the thread's load.
    #[must_use]
    pub fn with_load(mut self, load: Rc<Load>) -> Self {
        self.load = load;
        self
    }
}

impl<C: Completer> Executor for RegistryExecutor<C> {
    fn execute(&self, caller: &Arc<Caller>, line: &str, json: bool) -> Result<Output, CommandError> {
        let mut context =
            self.context.try_borrow_mut().map_err(|_| CommandError::new("the router is busy"))?;
        self.registry.run_for(&mut context, caller, line, json)
    }

    fn check(&self, line: &str) -> Result<(), CommandError> {
        match &self.plain {
            Some(plain) if (plain.is)(line) => Ok(()),
            _ => self.registry.check(line).map(|_| ()),
        }
    }

    fn run_at_once(&self, access: Access, lines: &[&str]) -> usize {
        match (&self.plain, self.context.try_borrow_mut()) {
            (Some(plain), Ok(mut context)) if access == Access::Write => (plain.run)(&mut context, lines),
            _ => 0,
        }
    }

    fn load(&self) -> Rc<Load> {
        Rc::clone(&self.load)
    }

    fn complete(&self, line: &str, cursor: usize) -> Completion {
        match self.context.try_borrow() {
            Ok(context) => self.registry.complete(line, cursor, &*context),
            Err(_) => self.registry.complete(line, cursor, &()),
        }
    }

    fn help(&self, line: &str) -> String {
        match self.context.try_borrow() {
            Ok(context) => self.registry.help(line, &*context),
            Err(_) => self.registry.help(line, &()),
        }
    }
}

/// The command `exec`, for the list of a registry served here. The router opens the file with the
/// rights of who gives the command.
pub fn exec_command<C: 'static>() -> Command<C> {
    Command::write("exec <file:path>", "Run the commands of a file", |_, args| Ok(Output::script(args.get("file")?)))
        .arg("file", "file with one command a line; the router reads it with your rights")
        .details(
            "All lines are checked before the first one runs. The first command that fails ends the run; the answer \
             names its line and says how many commands before it were applied; those stay. A run of 'ip route' commands \
             is applied some thousand at a time, about a million a second; other commands, neighbors and timers have their \
             turn between.",
        )
        .example("exec /etc/quiver/extra.cli")
}
