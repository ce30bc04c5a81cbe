//! The control socket: commands over a Unix stream socket.
//!
//! The protocol, and who may do what, stand in `docs/control-protocol.md`; a test runs its examples. A request is at most
//! [`MAX_REQUEST`] bytes long.

mod credentials;
mod door;
mod protocol;
mod replies;
mod reply;
mod script;
mod server;
mod session;
mod socket;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use command::{Access, Caller, Command, CommandError, Completer, Completion, Output, Parsed, Registry};

use crate::load::Load;
use crate::trail::Trail;
pub use credentials::author;
pub use door::{Closed, Door, Here, Inside, Orders, door};
pub use protocol::{Failure, InScript, MAX_REQUEST, Run};
pub use replies::Piece;
pub use server::{Gate, MAX_CLIENTS, Server};
pub use socket::{BindError, Config};

/// Where the socket is unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/ctl.sock";

/// What a command waits for before it is answered; an error is its answer.
pub type Waiting = Pin<Box<dyn Future<Output = Result<(), CommandError>>>>;

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

    /// A line as others may see it, see [`Registry::shown`].
    fn shown<'l>(&self, line: &'l str) -> Cow<'l, str> {
        line.into()
    }

    /// What those that were run since the last call wait for before they are answered.
    fn waits(&self) -> Option<Waiting> {
        None
    }

    /// What the line needs that was executed last, where it is a command.
    fn ran(&self) -> Option<Ran> {
        None
    }

    /// What is kept of who gives commands.
    fn trail(&self) -> Option<Rc<Trail>> {
        None
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
    waits: Option<Rc<dyn Fn() -> Option<Waiting>>>,
    trail: Option<Rc<Trail>>,
    ran: Cell<Option<Ran>>,
}

/// What the command needs that was run last.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// The role for it.
    pub access: Access,
    /// What it changes has a line of the log, and an entry of the history, of its own.
    pub logged: bool,
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
        Self {
            registry,
            context,
            plain: None,
            load: Rc::default(),
            waits: None,
            trail: None,
            ran: Cell::default(),
        }
    }

    /// With a way to run many lines at once.
    #[must_use]
    pub fn with_plain(mut self, plain: Plain<C>) -> Self {
        self.plain = Some(plain);
        self
    }

    /// With what commands wait for before they are answered.
    #[must_use]
    pub fn with_waits(mut self, waits: impl Fn() -> Option<Waiting> + 'static) -> Self {
        self.waits = Some(Rc::new(waits));
        self
    }

    /// With what is kept of who gives commands.
    #[must_use]
    pub fn with_trail(mut self, trail: Rc<Trail>) -> Self {
        self.trail = Some(trail);
        self
    }

    /// With what is kept of the thread's load.
    #[must_use]
    pub fn with_load(mut self, load: Rc<Load>) -> Self {
        self.load = load;
        self
    }
}

impl<C: Completer + 'static> Executor for RegistryExecutor<C> {
    fn execute(&self, caller: &Arc<Caller>, line: &str, json: bool) -> Result<Output, CommandError> {
        let mut context =
            self.context.try_borrow_mut().map_err(|_| CommandError::new("the router is busy"))?;
        self.ran.set(None);
        let parsed = self.registry.parse(line, &*context)?;
        if let Parsed::Command(index, _) = &parsed {
            let ran = |c: &Command<C>| Ran { access: c.access(), logged: c.begins_with("configuration") };
            self.ran.set(self.registry.commands().get(*index).map(ran));
        }
        self.registry.run_parsed(&mut context, caller.access, Some(caller), parsed, json)
    }

    fn check(&self, line: &str) -> Result<(), CommandError> {
        match &self.plain {
            Some(plain) if (plain.is)(line) => Ok(()),
            _ => self.registry.check(command::split_filters(line)?.0).map(|_| ()),
        }
    }

    fn run_at_once(&self, access: Access, lines: &[&str]) -> usize {
        match (&self.plain, self.context.try_borrow_mut()) {
            (Some(plain), Ok(mut context)) if access >= Access::Write => (plain.run)(&mut context, lines),
            _ => 0,
        }
    }

    fn shown<'l>(&self, line: &'l str) -> Cow<'l, str> {
        self.registry.shown(line)
    }

    fn waits(&self) -> Option<Waiting> {
        self.waits.as_ref().and_then(|waits| waits())
    }

    fn ran(&self) -> Option<Ran> {
        self.ran.get()
    }

    fn trail(&self) -> Option<Rc<Trail>> {
        self.trail.clone()
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
