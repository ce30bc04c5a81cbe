//! Who is at the other end of a connection, and its place among the connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use command::{Access, Caller};
use control::ctl::MAX_CLIENTS;
use control::places::{Place, Places};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;
use tonic::{Request, Status};

use crate::{limits, status};

/// Connections on top of [`MAX_CLIENTS`] that only who may change things gets, so that lookers cannot lock them out.
const RESERVED: usize = 8;
/// Connections of all who may do nothing, and are told so; so many more of all for whom there is no place.
const NOBODIES: usize = 4;
/// How long who has no place is told so: with the next connection there may be one.
const TOLD: Duration = Duration::from_secs(2);
/// The time for the first bytes of HTTP/2, and how many these are (RFC 9113, section 3.4). Who has said them is asked for signs of life.
const BEGIN: Duration = limits::SILENCE.saturating_add(limits::PATIENCE);
const PREFACE: usize = 24;
/// Characters with which somebody is sent away: less than the smallest frame that is taken.
const MOST_WORDS: usize = 1024;

/// Who is at the other end: somebody with a role and a place, or why nobody.
#[derive(Clone, Debug)]
pub struct Who(pub Result<Arc<Caller>, Refusal>);

/// Why somebody is refused each call.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// There is no role.
    Role(Arc<str>),
    /// There is no place among the connections.
    Place(Arc<str>),
}

impl Who {
    /// Whether there was a place among the connections.
    pub fn is_placed(&self) -> bool {
        !matches!(self.0, Err(Refusal::Place(_)))
    }
}

/// Who has sent a request.
///
/// # Errors
/// Nobody who may do anything.
pub fn caller<T>(request: &Request<T>) -> Result<Arc<Caller>, Status> {
    match request.extensions().get() {
        Some(Who(Ok(caller))) => Ok(Arc::clone(caller)),
        Some(Who(Err(Refusal::Place(why)))) => Err(status::too_much("connections", why, "", TOLD)),
        Some(Who(Err(Refusal::Role(why)))) => {
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
pub struct Connections {
    places: Places,
    each: usize,
}

impl Connections {
    /// So many for each client.
    pub fn new(places: Places, each: u16) -> Connections {
        Connections { places, each: each.into() }
    }

    /// The next free place for somebody, or one at which each call is told that there is none: of a GOAWAY gRPC's C core tells nobody.
    ///
    /// # Errors
    /// Why there is neither.
    pub fn take(&self, who: Who) -> Result<(Who, Place), String> {
        let (client, each, most) = match &who.0 {
            Ok(caller) if caller.access >= Access::Write => {
                (caller.client().to_string(), self.each, MAX_CLIENTS + RESERVED)
            }
            Ok(caller) => (caller.client().to_string(), self.each, MAX_CLIENTS),
            // They are told why, and have no more than that.
            Err(_) => ("nobody".into(), NOBODIES, MAX_CLIENTS),
        };
        let why = match self.places.take(&client, each, most) {
            Ok(place) => return Ok((who, place)),
            Err(full) => full.to_string(),
        };
        match self.places.take("refused", NOBODIES, MAX_CLIENTS + RESERVED + NOBODIES) {
            Ok(place) => Ok((Who(Err(Refusal::Place(why.into()))), place)),
            Err(_) => Err(why),
        }
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
    /// When it ends, for who has said nothing or has no place.
    end: Option<Pin<Box<Sleep>>>,
    /// Bytes that are still to come of those at the beginning.
    begin: usize,
    _place: Place,
}

impl Connection {
    /// Of somebody who has a place.
    pub fn new(way: impl Way + 'static, who: Who, place: Place) -> Self {
        let end = if who.is_placed() { BEGIN } else { TOLD };
        let end = Some(Box::pin(sleep(end)));
        Connection { way: Box::new(way), who, end, begin: PREFACE, _place: place }
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
        // The end of what comes ends the connection.
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Ok(()));
        }
        let before = to.filled().len();
        ready!(Pin::new(&mut self.way).poll_read(cx, to))?;
        if self.begin != 0 {
            self.begin = self.begin.saturating_sub(to.filled().len() - before);
            if self.begin == 0 && self.who.is_placed() {
                self.end = None;
            }
        }
        Poll::Ready(Ok(()))
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tonic::Code;

    /// A user who may do so much.
    pub fn somebody(user: u32, access: Access) -> Arc<Caller> {
        let (groups, process, ssh, remote) = (vec![], None, None, None);
        Arc::new(Caller { access, user, group: user, groups, process, ssh, remote })
    }

    fn code(who: &Who) -> Option<Code> {
        let mut request = Request::new(());
        request.extensions_mut().insert(who.clone());
        caller(&request).err().map(|refused| refused.code())
    }

    /// Whether a connection on which nothing more comes ends when its time is over.
    async fn is_ended_by_the_time(connection: &mut Connection) -> bool {
        let Some(end) = &mut connection.end else { return false };
        end.as_mut().reset(tokio::time::Instant::now());
        connection.read(&mut [0; 1]).await.unwrap() == 0
    }

    #[tokio::test]
    async fn who_has_no_place_is_told_so_for_a_while() {
        let places = Connections::new(Places::of("connections"), 2);
        let ann = || Who(Ok(somebody(7, Access::Read)));
        let held: Vec<_> = (0..2 + NOBODIES).map(|_| places.take(ann()).unwrap()).collect();
        let codes: Vec<_> = held.iter().map(|(who, _)| code(who)).collect();
        assert_eq!(codes[..2], [None, None]);
        assert_eq!(codes[2..], [Some(Code::ResourceExhausted); NOBODIES]);
        assert_eq!(places.take(ann()).unwrap_err(), "uid:7 has 2 connections, and may not have more");
        // Nobody else's place is gone.
        assert_eq!(code(&places.take(Who(Ok(somebody(8, Access::Read)))).unwrap().0), None);
        let (who, place) = held.into_iter().next_back().unwrap();
        let (mut here, there) = duplex(100);
        let mut connection = Connection::new(there, who, place);
        here.write_all(&[7; PREFACE]).await.unwrap();
        assert_eq!(connection.read(&mut [0; 100]).await.unwrap(), PREFACE);
        assert!(is_ended_by_the_time(&mut connection).await);
    }

    #[tokio::test]
    async fn who_says_nothing_is_not_waited_for() {
        let places = Connections::new(Places::of("connections"), 2);
        for (said, waits) in [(0, false), (PREFACE - 1, false), (PREFACE, true)] {
            let (who, place) = places.take(Who(Ok(somebody(7, Access::Read)))).unwrap();
            let (mut here, there) = duplex(100);
            let mut connection = Connection::new(there, who, place);
            here.write_all(&vec![7; said]).await.unwrap();
            connection.read_exact(&mut vec![0; said]).await.unwrap();
            assert_eq!(is_ended_by_the_time(&mut connection).await, !waits, "{said}");
        }
    }
}
