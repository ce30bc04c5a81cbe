//! Who is at the other end of a connection, and its place among the connections.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use command::{Access, Caller};
use control::commands::{Full, Reached};
use control::ctl::MAX_CLIENTS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic::{Request, Status};

use crate::status;

/// Connections on top of [`MAX_CLIENTS`] that only who may change things gets, so that lookers cannot lock them out.
const RESERVED: usize = 8;
/// Connections of all who may do nothing, and are told so.
const NOBODIES: usize = 4;
/// Characters with which somebody is sent away: less than the smallest frame that is taken.
const MOST_WORDS: usize = 1024;

/// Who is at the other end: somebody with a role, or why nobody.
#[derive(Clone, Debug)]
pub struct Who(pub Result<Arc<Caller>, Arc<str>>);

/// Who a client is: a Unix user, or a name in certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A user of the machine.
    User(u32),
    /// A name in certificates.
    Name(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::User(user) => write!(f, "uid:{user}"),
            Key::Name(name) => write!(f, "tls:{name}"),
        }
    }
}

impl Key {
    /// Of somebody.
    pub fn of(caller: &Caller) -> Key {
        match &caller.remote {
            Some(remote) => Key::Name(remote.name.clone()),
            None => Key::User(caller.user),
        }
    }
}

/// Who has sent a request.
///
/// # Errors
/// Nobody who may do anything.
pub fn caller<T>(request: &Request<T>) -> Result<Arc<Caller>, Status> {
    match request.extensions().get() {
        Some(Who(Ok(caller))) => Ok(Arc::clone(caller)),
        Some(Who(Err(why))) => {
            Err(status::denied(&format!("{why}: the role `read` is missing"), Access::Read))
        }
        None => Err(status::denied("it is not known who you are", Access::Read)),
    }
}

/// Who has sent a request, where that is somebody who may do so much.
///
/// # Errors
/// Somebody who may do less.
pub fn caller_with<T>(request: &Request<T>, needs: Access) -> Result<Arc<Caller>, Status> {
    let caller = caller(request)?;
    needs.within(caller.access).map_err(|e| status::error(&e))?;
    Ok(caller)
}

/// The places of connections: so many for all, and for each client.
#[derive(Clone, Debug)]
pub struct Places {
    reached: Reached,
    each: usize,
}

/// A place among the connections, given back when dropped.
#[derive(Debug)]
pub struct Place(Reached, String);

impl Places {
    /// All are free.
    pub fn new(reached: Reached, each: u16) -> Places {
        Places { reached, each: each.into() }
    }

    /// The next free place for somebody.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(&self, who: &Who) -> Result<Place, String> {
        let (client, each, most) = match &who.0 {
            Ok(caller) if caller.access >= Access::Write => {
                (Key::of(caller).to_string(), self.each, MAX_CLIENTS + RESERVED)
            }
            Ok(caller) => (Key::of(caller).to_string(), self.each, MAX_CLIENTS),
            // They are told why, and have no more than that.
            Err(_) => ("nobody".into(), NOBODIES, MAX_CLIENTS),
        };
        match self.reached.enter(&client, each, most) {
            Ok(()) => Ok(Place(self.reached.clone(), client)),
            Err(Full::Client) => Err(format!("{client} has {each} connections, and may not have more")),
            Err(Full::All) => Err(format!("there are {most} connections, and no more are taken")),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave(&self.1);
    }
}

/// Types of frames, and errors, of HTTP/2 (RFC 9113, sections 6 and 7).
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Somebody has as much as he may: `RESOURCE_EXHAUSTED` in gRPC.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// What is said to somebody who is sent away: in HTTP/2, so that a client tells its user why.
pub fn farewell(error: u32, why: &str) -> Vec<u8> {
    let frame = |kind: u8, payload: &[u8]| {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
        // Length, type, no flags, stream 0.
        [&length[..], &[kind, 0, 0, 0, 0, 0], payload].concat()
    };
    let why: String = why.chars().take(MOST_WORDS).collect();
    let why = why.as_bytes();
    let gone = [&[0; 4], &error.to_be_bytes()[..], why].concat();
    [frame(SETTINGS, &[]), frame(GOAWAY, &gone)].concat()
}

/// What bytes come and go over.
pub trait Way: AsyncRead + AsyncWrite + Send + Unpin {}

impl<W: AsyncRead + AsyncWrite + Send + Unpin> Way for W {}

/// A connection of somebody.
pub struct Connection {
    way: Box<dyn Way>,
    who: Who,
    _place: Place,
}

impl Connection {
    /// Of somebody who has a place.
    pub fn new(way: impl Way + 'static, who: Who, place: Place) -> Self {
        Connection { way: Box::new(way), who, _place: place }
    }
}

impl Connected for Connection {
    type ConnectInfo = Who;

    fn connect_info(&self) -> Who {
        self.who.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.way).poll_read(cx, to)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.way).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.way).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.way.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.way).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.way).poll_shutdown(cx)
    }
}
