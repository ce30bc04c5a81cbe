//! The commands of the control socket: the router's own, and those that only the control side knows.

use command::{Command, Completer, Registry, SyntaxError};
use net::router::Router;
use std::cell::RefCell;
use std::rc::Rc;

/// What commands work on.
pub struct App {
    router: Rc<RefCell<Router>>,
}

impl App {
    /// Commands on `router`.
    pub fn new(router: Rc<RefCell<Router>>) -> Self {
        App { router }
    }

    /// The router.
    pub fn router(&self) -> &Rc<RefCell<Router>> {
        &self.router
    }
}

impl Completer for App {}

/// All commands.
///
/// # Errors
/// A syntax string is wrong (a bug; a test makes the registry).
pub fn registry() -> Result<Registry<App>, SyntaxError> {
    let commands: Vec<Command<App>> = vec![crate::ctl::exec_command()];
    Registry::new(commands)
}
