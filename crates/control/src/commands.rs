//! The commands of the control socket: the router's own, and those that only the control side knows.

mod configuration;
mod control;
mod ping;

use crate::ctl::Plain;
use crate::load::Load;
use crate::yaml::Settings;
use command::{Command, CommandError, Completer, Registry, SyntaxError};
use net::router::Router;
use std::cell::RefCell;
use std::rc::Rc;

/// What commands work on.
pub struct App {
    router: Rc<RefCell<Router>>,
    settings: Rc<Settings>,
    load: Rc<Load>,
    /// Identifier of the next ping.
    next_ping: u16,
}

impl App {
    /// Commands on `router`, which runs in a process with these settings.
    pub fn new(router: Rc<RefCell<Router>>, settings: Settings) -> Self {
        // Two routers that ping through one another should not begin with the same identifier.
        App { router, settings: Rc::new(settings), load: Rc::default(), next_ping: std::process::id() as u16 }
    }

    /// With the load of the thread that runs them.
    #[must_use]
    pub fn with_load(mut self, load: &Rc<Load>) -> Self {
        self.load = Rc::clone(load);
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
}

/// Commands that come by the thousand: those of routes and labels.
pub fn plain() -> Plain<App> {
    Plain {
        is: |line| net::fib::lines::is_plain(line) || net::mpls::lines::is_plain(line),
        run: |app, lines| {
            let Ok(mut router) = app.router.try_borrow_mut() else { return 0 };
            match net::fib::lines::run(&mut router, lines) {
                0 => net::mpls::lines::run(&mut router, lines),
                n => n,
            }
        },
    }
}

fn on_router(command: Command<Router>) -> Command<App> {
    command.lend(|app: &mut App, run, args| {
        let busy = |_| CommandError::new("the router is busy");
        let output = run(&mut *app.router.try_borrow_mut().map_err(busy)?, args)?;
        let router = Rc::clone(&app.router);
        Ok(output.bind(move |page| {
            page(&mut *router.try_borrow_mut().map_err(busy)?);
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
    commands.push(configuration::command());
    commands.extend(control::all());
    commands.push(ping::command());
    let registry = Registry::new(commands)?.elsewhere(net::vpp::MISSING);
    Ok(net::commands::TOPICS.iter().fold(registry, |r, (words, help)| r.topic(words, help)))
}
