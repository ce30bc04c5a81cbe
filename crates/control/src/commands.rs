//! The commands of the control socket: the router's own, and those that only the control side knows.

mod api;
mod change;
mod clients;
mod configuration;
mod control;
mod desired;
mod documents;
mod edits;
mod history;
mod keeping;
mod netlink;
mod ping;
mod places;
mod process;
mod reading;
mod reload;
mod saving;
mod traceroute;

pub use api::Reached;
pub use change::{Applied, Changes, Examine};
pub use desired::{Desk, Differences, Steps, Told};
pub use documents::Wish;
pub use edits::{Edits, Got};
pub use places::Held;
pub use reload::Reload;

use crate::clients::Clients;
use crate::ctl::{Plain, Waiting};
use crate::journal::Journal;
use crate::kernel::Kernel;
use crate::load::Load;
use crate::yaml::Settings;
use command::{Access, Command, CommandError, Completer, Registry, SyntaxError};
use net::router::Router;
use std::cell::RefCell;
use std::rc::Rc;

/// What commands work on.
pub struct App {
    router: Rc<RefCell<Router>>,
    settings: Rc<Settings>,
    load: Rc<Load>,
    /// The last lines of the log.
    journal: Journal,
    /// Identifier of the next ping.
    next_ping: u16,
    /// Documents that are applied, and where they are kept.
    changes: Rc<Changes>,
    /// The kernel's routes.
    kernel: Rc<Kernel>,
    /// Programs that set routes.
    clients: Rc<Clients>,
    /// Where the API is, and who is there.
    reached: Reached,
}

impl App {
    /// Commands on `router`, which runs in a process with these settings.
    pub fn new(router: Rc<RefCell<Router>>, settings: Settings) -> Self {
        // Two routers that ping through one another should not begin with the same identifier.
        App {
            router,
            settings: Rc::new(settings),
            load: Rc::default(),
            journal: Journal::default(),
            next_ping: std::process::id() as u16,
            changes: Rc::default(),
            kernel: Rc::default(),
            clients: Rc::default(),
            reached: Reached::default(),
        }
    }

    /// With the load of the thread that runs them.
    #[must_use]
    pub fn with_load(mut self, load: &Rc<Load>) -> Self {
        self.load = Rc::clone(load);
        self
    }

    /// With the lines that `show log` tells.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal) -> Self {
        self.journal = journal;
        self
    }

    /// With a place where configurations are kept, and a log of changes.
    #[must_use]
    pub fn with_changes(mut self, changes: Changes) -> Self {
        self.changes = Rc::new(changes);
        self
    }

    /// With the kernel's routes, as they are followed.
    #[must_use]
    pub fn with_kernel(mut self, kernel: &Rc<Kernel>) -> Self {
        self.kernel = Rc::clone(kernel);
        self
    }

    /// With the programs that set routes.
    #[must_use]
    pub fn with_clients(mut self, clients: &Rc<Clients>) -> Self {
        self.clients = Rc::clone(clients);
        self
    }

    /// With what the API tells of itself.
    #[must_use]
    pub fn with_reached(mut self, reached: &Reached) -> Self {
        self.reached = reached.clone();
        self
    }

    /// The router.
    pub fn router(&self) -> &Rc<RefCell<Router>> {
        &self.router
    }
}

impl Completer for App {
    fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
        self.router.try_borrow().map_or(vec![], |r| r.values(kind, prefix))
    }

    fn known(&self, kind: &str, name: &str) -> Option<bool> {
        self.router.try_borrow().ok().and_then(|r| r.known(kind, name))
    }

    fn instead(&self, kind: &str, name: &str) -> Option<String> {
        self.router.try_borrow().ok().and_then(|r| r.instead(kind, name))
    }

    fn number(&self, kind: &str, name: &str) -> Option<u64> {
        self.router.try_borrow().ok().and_then(|r| r.number(kind, name))
    }
}

/// What commands on this router wait for: what Linux says to what they ask it.
pub fn waits(router: &Rc<RefCell<Router>>) -> impl Fn() -> Option<Waiting> + 'static {
    let router = Rc::clone(router);
    move || {
        let waits = router.try_borrow_mut().ok()?.collected()?;
        Some(Box::pin(async move { waits.done().await.map_err(|e| CommandError::new(e.message)) }))
    }
}

/// Commands that come by the thousand: those of routes and labels.
pub fn plain() -> Plain<App> {
    Plain {
        is: |line| net::fib::lines::is_plain(line) || net::mpls::lines::is_plain(line),
        run: |app, lines| {
            let Ok(mut router) = app.router.try_borrow_mut() else { return 0 };
            if app.changes.applying.get() {
                return 0;
            }
            match net::fib::lines::run(&mut router, lines) {
                0 => net::mpls::lines::run(&mut router, lines),
                n => n,
            }
        },
    }
}

/// `comment {...}` is taken out before commands are read: what is left of it has no braces.
fn comment() -> Command<App> {
    let run = |_: &mut App, _: &command::Args| {
        Err(CommandError::new("a comment stands in braces, which may be closed lines later: comment {text}"))
    };
    Command::read("comment <text:rest>", "Notes in a script, which do nothing", run)
        .arg("text", "in braces: {text}")
        .details("The braces may be closed lines later. `#` begins a comment too, and so does `!` where a line begins.")
}

/// Commands that change nothing that is configured.
const OPERATE: [&str; 3] = ["clear", "trace", "pcap trace"];

fn on_router(mut command: Command<Router>) -> Command<App> {
    if command.access() == Access::Write && OPERATE.iter().any(|words| command.begins_with(words)) {
        command = command.for_operators();
    }
    let writes = command.access() == Access::Write;
    command.lend(move |app: &mut App, run, args| {
        if writes && app.changes.applying.get() {
            return Err(change::applying());
        }
        let busy = |_| CommandError::new("the router is busy");
        let mut router_now = app.router.try_borrow_mut().map_err(busy)?;
        router_now.collect();
        let output = run(&mut router_now, args)?;
        drop(router_now);
        let (router, changes) = (Rc::clone(&app.router), Rc::clone(&app.changes));
        Ok(output.bind(move |page| {
            // It began before the apply did.
            if writes && changes.applying.get() {
                return Err(change::applying());
            }
            let mut router = router.try_borrow_mut().map_err(busy)?;
            router.collect();
            page(&mut *router);
            Ok(())
        }))
    })
}

/// All commands.
///
/// # Errors
/// A syntax string is wrong (a bug; a test makes the registry).
pub fn registry() -> Result<Registry<App>, SyntaxError> {
    let mut commands: Vec<Command<App>> = net::commands::all().into_iter().map(on_router).collect();
    commands.push(crate::ctl::exec_command());
    commands.extend(configuration::commands());
    commands.extend(desired::commands());
    commands.extend(change::commands());
    commands.push(saving::command());
    commands.extend(edits::commands());
    commands.extend(history::commands());
    commands.extend(control::all());
    commands.push(ping::command());
    commands.push(traceroute::command());
    commands.extend(process::commands());
    commands.extend(netlink::commands());
    commands.extend(clients::commands());
    commands.extend(api::commands());
    commands.push(comment());
    let registry = Registry::new(commands)?.elsewhere(net::vpp::MISSING);
    let registry =
        net::vpp::MISSING.iter().fold(registry, |r, words| r.foreign(words, &net::vpp::hint(words)));
    Ok(net::commands::TOPICS.iter().fold(registry, |r, (words, help)| r.topic(words, help)))
}
