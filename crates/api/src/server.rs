//! The server and its thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command::Registry;
use control::commands::{App, Desk};
use control::ctl::{BindError, Config, Door, Gate};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::{Request, Status};
use tower::layer::layer_fn;

use crate::documents::Documents;
use crate::limits;
use crate::service::{Router, Shared, commands, routes};
use crate::v1;
use crate::v1::commands_server::CommandsServer;
use crate::v1::configuration_server::ConfigurationServer;
use crate::v1::counters_server::CountersServer;
use crate::v1::events_server::EventsServer;
use crate::v1::packets_server::PacketsServer;
use crate::v1::routes_server::RoutesServer;
use crate::v1::system_server::SystemServer;
use crate::who::{self, Connection, Place, Who};

/// A connection of which nothing is heard for so long is asked whether it is there, and is closed when it says nothing again.
const SILENCE: Duration = Duration::from_secs(30);

/// Threads that read documents and histories at once.
const BLOCKING: usize = 8;

/// Why there is no API.
#[derive(Debug, Error)]
pub enum StartError {
    /// The socket cannot be made.
    #[error("API: {0}")]
    Bind(#[from] BindError),
    /// The system refuses a thread, or a descriptor.
    #[error("API: {0}")]
    Io(#[from] io::Error),
    /// The schema does not load: a bug.
    #[error("API: {0}")]
    Schema(#[from] tonic_reflection::server::Error),
}

/// The API's socket, bound and not yet served.
#[derive(Debug)]
pub struct Api(Gate);

/// The API while it is served. It ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    path: PathBuf,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end = None;
        // It waits for nobody, and takes the socket's file away.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Serving {
    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Api {
    /// Makes the socket. Its file is removed when the API ends.
    ///
    /// # Errors
    /// When the socket cannot be made, or another router listens on it.
    pub fn bind(config: &Config) -> Result<Api, BindError> {
        Ok(Api(Gate::bind(config)?))
    }

    /// Serves clients on a thread of its own, which asks the control thread through the door.
    ///
    /// # Errors
    /// The system refuses what that takes.
    pub fn serve(
        self,
        version: &str,
        registry: &Registry<App>,
        door: Door<Desk>,
    ) -> Result<Serving, StartError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let router = Router(Arc::new(Shared {
            door,
            version: version.into(),
            instance: format!("{:x}-{:x}", now.as_nanos(), std::process::id()),
            started: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            drops: Default::default(),
            commands: commands::list(registry),
        }));
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(v1::SCHEMA)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .build()?;
        let path = self.0.path().to_owned();
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("quiver-api".into()).spawn(move || {
            runtime.block_on(async move {
                let Ok(connections) = connections(self.0) else { return };
                let (reporter, health) = tonic_health::server::health_reporter();
                reporter.set_serving::<CommandsServer<Router>>().await;
                reporter.set_serving::<ConfigurationServer<Router>>().await;
                reporter.set_serving::<CountersServer<Router>>().await;
                reporter.set_serving::<SystemServer<Router>>().await;
                reporter.set_serving::<RoutesServer<Router>>().await;
                reporter.set_serving::<EventsServer<Router>>().await;
                reporter.set_serving::<PacketsServer<Router>>().await;
                let served = Server::builder()
                    .layer(layer_fn(Documents::new))
                    .layer(InterceptorLayer::new(known))
                    .max_concurrent_streams(Some(limits::CALLS))
                    .initial_stream_window_size(Some(limits::WINDOW))
                    .initial_connection_window_size(Some(limits::WINDOWS))
                    .http2_keepalive_interval(Some(SILENCE))
                    .http2_keepalive_timeout(Some(SILENCE))
                    .add_service(reflection)
                    .add_service(health)
                    .add_service(
                        CommandsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE),
                    )
                    .add_service(
                        ConfigurationServer::new(router.clone()).max_decoding_message_size(limits::DOCUMENT),
                    )
                    .add_service(
                        CountersServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE),
                    )
                    .add_service(SystemServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
                    .add_service(EventsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
                    .add_service(
                        PacketsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE),
                    )
                    .add_service(RoutesServer::new(router).max_decoding_message_size(routes::MESSAGE))
                    .serve_with_incoming(ReceiverStream::new(connections));
                // Calls that are under way end with the router: there is nothing to wait for.
                tokio::select! {
                    _ = served => {}
                    _ = ended => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Serving { path, end: Some(end), thread: Some(thread) })
    }
}

/// Nobody without a role gets an answer, from whichever service.
fn known(request: Request<()>) -> Result<Request<()>, Status> {
    who::caller(&request)?;
    Ok(request)
}

/// The connections of a socket, as they come.
fn connections(gate: Gate) -> io::Result<mpsc::Receiver<io::Result<Connection>>> {
    let listener = UnixListener::from_std(gate.listener()?)?;
    let (to, connections) = mpsc::channel(1);
    let taken = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while !to.is_closed() {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let who = Who(gate.caller(&stream).map(Arc::new));
                    // Where all places are taken, the connection is closed.
                    let Some(place) = Place::take(&taken, &who) else { continue };
                    if to.send(Ok(Connection::new(stream, who, place))).await.is_err() {
                        return;
                    }
                }
                // Out of descriptors or memory: others may give some back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(connections)
}
