//! The connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::v1::system_client::SystemClient;
use crate::v1::{GetSystemRequest, GetSystemResponse};
use crate::{Error, Tls};

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// What may come of a stream before it is read, in bytes: with less, long answers wait for each turn of the router.
const WINDOW: u32 = 4 << 20;
/// The same of all streams together: some that are not read do not stop the others.
const WINDOWS: u32 = 16 * WINDOW;

/// How long over a network nothing may be heard, while a call waits, before the router is asked for a sign of life; and how long that may
/// take. The system tells of it only where somebody closes.
const SILENCE: Duration = Duration::from_secs(10);

/// What connections have in common. The address is not used: connectors know where to go.
fn endpoint() -> Endpoint {
    let endpoint = Endpoint::from_static("http://quiver.invalid").connect_timeout(PATIENCE);
    endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOWS)
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    channel: Channel,
    /// How long a call may take; forever when absent.
    timeout: Option<Duration>,
}

impl Router {
    /// The router that listens on a Unix socket.
    ///
    /// # Errors
    /// Nobody listens there, or the file may not be opened.
    pub async fn unix(path: impl AsRef<Path>) -> Result<Router, Error> {
        let path: PathBuf = path.as_ref().to_owned();
        let connector = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = endpoint().connect_with_connector(connector).await.map_err(Error::connect)?;
        Ok(Router { channel, timeout: None })
    }

    /// The router that listens on `host:port`, with TLS and certificates on both sides. Files are read for each connection, so that
    /// renewed certificates are used. A router of which nothing is heard for 20 s while a call waits is taken for gone. That the router does not take this client's certificate is told by the first call.
    ///
    /// # Errors
    /// Nobody listens there, a file cannot be read, or the router's certificate is not one of a router that is to be trusted.
    pub async fn tls(address: impl Into<String>, tls: Tls) -> Result<Router, Error> {
        let address = Arc::new(address.into());
        let tls = Arc::new(tls);
        let endpoint = endpoint().http2_keep_alive_interval(SILENCE).keep_alive_timeout(SILENCE);
        let connector = service_fn(move |_: Uri| {
            let (address, tls) = (Arc::clone(&address), Arc::clone(&tls));
            async move { tls.connect(&address).await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connector).await.map_err(Error::connect)?;
        Ok(Router { channel, timeout: None })
    }

    /// A router over a channel that was made otherwise.
    pub fn over(channel: Channel) -> Router {
        Router { channel, timeout: None }
    }

    /// The same router, whose calls may take so long: the router then gives up as well. Streams are ended by it, too.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Router {
        self.timeout = Some(timeout);
        self
    }

    /// When a call that begins now has to end.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// What the generated clients take.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A request with this router's deadline.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Which router this is, and what it lets the caller do.
    ///
    /// # Errors
    /// The router is gone, or nothing is allowed.
    pub async fn system(&self) -> Result<GetSystemResponse, Error> {
        let mut system = SystemClient::new(self.channel());
        Ok(system.get(self.request(GetSystemRequest {})).await?.into_inner())
    }
}
