//! Accepts connections.

use std::cell::Cell;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use command::{Access, Caller};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::LocalSet;

use super::session::{self, Shared};
use super::socket::{self, Policy, Socket};
use super::{BindError, Config, Executor, Inside, credentials, protocol};

/// The most connections at once.
pub const MAX_CLIENTS: usize = 64;
/// Connections on top of these that only who may change things gets, so that lookers cannot lock them out.
const RESERVED: usize = 8;

/// A socket that knows who may do what, served by others.
#[derive(Debug)]
pub struct Gate(Socket);

impl Gate {
    /// Makes the socket. Its file is removed when the gate is dropped.
    ///
    /// # Errors
    /// When the socket cannot be made, or another router listens on it.
    pub fn bind(config: &Config) -> Result<Self, BindError> {
        Ok(Self(socket::bind(config)?))
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The listening socket, which does not block.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn listener(&self) -> std::io::Result<std::os::unix::net::UnixListener> {
        self.0.listener.try_clone()
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// Why nobody who may do anything.
    pub fn caller(&self, stream: &UnixStream) -> Result<Caller, &'static str> {
        caller(stream, &self.0.policy)
    }
}

/// The control socket, bound and not yet served.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
}

impl Server {
    /// Makes the socket. Its file is removed when the server, or the future of [`Server::serve`], is dropped.
    ///
    /// # Errors
    /// When the socket cannot be made, or another router listens on it.
    pub fn bind(config: &Config) -> Result<Self, BindError> {
        Ok(Self { socket: socket::bind(config)? })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// Answers requests, forever, on the current thread. Dropping the future closes all connections and ends the
    /// commands that still run.
    ///
    /// # Errors
    /// When the socket cannot be handed to the runtime, which must have its I/O and time drivers enabled.
    pub async fn serve(self, executor: Rc<dyn Executor>) -> std::io::Result<()> {
        self.serve_beside(executor, None).await
    }

    /// As [`Server::serve`]; what comes through a door has its turn beside the connections.
    ///
    /// # Errors
    /// As [`Server::serve`].
    pub async fn serve_beside(self, executor: Rc<dyn Executor>, door: Option<Inside>) -> std::io::Result<()> {
        let listener = UnixListener::from_std(self.socket.listener.try_clone()?)?;
        let clients = Rc::new(Cell::new(0));
        let shared = Rc::new(Shared::new(executor, self.socket.idle_timeout));
        let local = LocalSet::new();
        if let Some(Inside(tasks)) = door {
            local.spawn_local(tasks(Rc::clone(&shared)));
        }
        local
            .run_until(async {
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => admit(stream, &self.socket.policy, &clients, &shared),
                        // Out of descriptors or memory: others may give some back.
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
            })
            .await
    }
}

/// A place among the connections, given back when dropped.
struct Place(Rc<Cell<usize>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Who is at the other end of a connection, or why nobody who may do anything.
fn caller(stream: &UnixStream, policy: &Policy) -> Result<Caller, &'static str> {
    let peer = stream.peer_cred().map_err(|_| "the system does not say who you are")?;
    let groups = credentials::peer_groups(stream.as_fd()).unwrap_or_default();
    let of_socket: Vec<u32> = groups.iter().copied().chain([peer.gid()]).collect();
    let access = policy.access(peer.uid(), &of_socket).ok_or(match policy.has_roles() {
        true => "you are neither root nor in the group of the control socket, and have no role",
        false => "you are neither root nor in the group of the control socket",
    })?;
    let process = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    Ok(Caller { access, user: peer.uid(), group: peer.gid(), groups, process, ssh: None, remote: None })
}

fn admit(stream: UnixStream, policy: &Policy, clients: &Rc<Cell<usize>>, shared: &Rc<Shared>) {
    let caller = match caller(&stream, policy) {
        Ok(caller) => caller,
        Err(why) => return refuse(stream, "denied", why),
    };
    let limit = if caller.access >= Access::Write { MAX_CLIENTS + RESERVED } else { MAX_CLIENTS };
    if clients.get() >= limit {
        return refuse(stream, "failed", "too many connections to the control socket");
    }
    clients.set(clients.get() + 1);
    let place = Place(clients.clone());
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        // An error means that the client is gone, which is its own affair.
        let _ = session::run(stream, Arc::new(caller), shared).await;
        drop(place);
    });
}

/// One line and good-bye; it fits into the buffer of a fresh socket.
fn refuse(stream: UnixStream, kind: &str, message: &str) {
    if let Ok(mut stream) = stream.into_std() {
        let reply = protocol::refusal(&serde_json::Value::Null, kind, message);
        let _ = stream.write_all(format!("{reply}\n").as_bytes());
    }
}
