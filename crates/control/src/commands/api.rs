//! `show api`, `show api clients`: where programs reach the router, and how many connections each has.

use super::App;
use command::{Args, Cell, Command, CommandError, Output, Table};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the API's thread tells of itself. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Reached(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By where it is: whether with TLS, and why nobody gets in.
    doors: BTreeMap<String, (bool, Option<String>)>,
    /// Connections of clients that have any.
    clients: BTreeMap<String, usize>,
}

/// Why a client has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It has as many connections as each may have.
    Client,
    /// All together have.
    All,
}

impl Reached {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is with a path or an address: why nobody gets in, where that is so.
    pub fn set(&self, at: impl ToString, tls: bool, wrong: Option<String>) {
        self.state().doors.insert(at.to_string(), (tls, wrong));
    }

    /// A client has one more connection, where it has less than `each`, and all have less than `all`.
    ///
    /// # Errors
    /// Which of these it is.
    pub fn enter(&self, client: &str, each: usize, all: usize) -> Result<(), Full> {
        let mut state = self.state();
        if state.clients.values().sum::<usize>() >= all {
            return Err(Full::All);
        }
        match state.clients.get_mut(client) {
            Some(n) if *n >= each => return Err(Full::Client),
            Some(n) => *n += 1,
            None if each == 0 => return Err(Full::Client),
            None => _ = state.clients.insert(client.to_owned(), 1),
        }
        Ok(())
    }

    /// A client has one less.
    pub fn leave(&self, client: &str) {
        let mut state = self.state();
        if let Some(n) = state.clients.get_mut(client) {
            *n -= 1;
            if *n == 0 {
                state.clients.remove(client);
            }
        }
    }
}

pub(super) fn commands() -> [Command<App>; 2] {
    [
        Command::read("show api", "Where programs reach the router", show)
            .details(
                "Each path and address of the API, and why nobody gets in there, where that is so: its files do not fit together, \
                 which is looked at again when somebody connects, or the address is taken.",
            )
            .example("show api"),
        Command::read("show api clients", "How many connections each client of the API has", clients)
            .details(
                "A client is a Unix user, as uid:0, or a name in certificates, as tls:fleet.example.net. Each may have \
                 `quiver.api.connections`.",
            )
            .example("show api clients"),
    ]
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().left("At").left("TLS").left("Problem");
    for (at, (tls, wrong)) in &app.reached.state().doors {
        table.row([Cell::from(at.as_str()), (*tls).into(), wrong.as_deref().into()]);
    }
    Ok(Output::table(table))
}

fn clients(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().left("Client").right("Connections");
    for (client, n) in &app.reached.state().clients {
        table.row([Cell::from(client.as_str()), (*n as u64).into()]);
    }
    Ok(Output::table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_places_and_gives_them_back() {
        let reached = Reached::default();
        assert_eq!(reached.enter("uid:1", 2, 3), Ok(()));
        assert_eq!(reached.enter("uid:1", 2, 3), Ok(()));
        assert_eq!(reached.enter("uid:1", 2, 3), Err(Full::Client));
        assert_eq!(reached.enter("uid:2", 2, 3), Ok(()));
        assert_eq!(reached.enter("uid:2", 2, 3), Err(Full::All));
        reached.leave("uid:1");
        assert_eq!(reached.enter("uid:2", 2, 3), Ok(()));
        for client in ["uid:1", "uid:2", "uid:2", "uid:2"] {
            reached.leave(client);
        }
        assert!(reached.state().clients.is_empty());
    }
}
