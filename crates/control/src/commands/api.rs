//! `show api`, `show api clients`: where programs reach the router, and how many connections each has.

use super::App;
use crate::places::Places;
use command::{Args, Cell, Command, CommandError, Output, Table};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By where it is: whether with TLS, and why nobody gets in.
type Doors = BTreeMap<String, (bool, Option<String>)>;

/// What the API's thread tells of itself. Copies are the same.
#[derive(Clone, Debug)]
pub struct Reached {
    doors: Arc<Mutex<Doors>>,
    connections: Places,
}

impl Default for Reached {
    fn default() -> Self {
        Reached { doors: Arc::default(), connections: Places::of("connections") }
    }
}

impl Reached {
    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is with a path or an address: why nobody gets in, where that is so.
    pub fn set(&self, at: impl ToString, tls: bool, wrong: Option<String>) {
        self.doors().insert(at.to_string(), (tls, wrong));
    }

    /// Connections of clients.
    pub fn connections(&self) -> &Places {
        &self.connections
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
    for (at, (tls, wrong)) in &*app.reached.doors() {
        table.row([Cell::from(at.as_str()), (*tls).into(), wrong.as_deref().into()]);
    }
    Ok(Output::table(table))
}

fn clients(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let mut table = Table::new().left("Client").right("Connections");
    for (client, n) in app.reached.connections().by_client() {
        table.row([Cell::from(&*client), (n as u64).into()]);
    }
    Ok(Output::table(table))
}
