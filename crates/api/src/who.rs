//! Who is at the other end of a connection, and its place among the connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use command::{Access, Caller};
use control::ctl::MAX_CLIENTS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic::{Request, Status};

use crate::status;

/// Connections on top of [`MAX_CLIENTS`] that only who may change things gets, so that lookers cannot lock them out.
const RESERVED: usize = 8;

/// Who is at the other end: somebody with a role, or why nobody.
#[derive(Clone, Debug)]
pub struct Who(pub Result<Arc<Caller>, Arc<str>>);

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

/// A place among the connections, given back when dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Place {
    /// The next free place for somebody.
    pub fn take(taken: &Arc<AtomicUsize>, who: &Who) -> Option<Place> {
        let writes = matches!(&who.0, Ok(caller) if caller.access >= Access::Write);
        let most = if writes { MAX_CLIENTS + RESERVED } else { MAX_CLIENTS };
        let next = |n| (n < most).then_some(n + 1);
        taken.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(Place(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
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
