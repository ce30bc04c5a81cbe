//! The server and its thread.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command::Registry;
use control::commands::{App, Desk};
use control::ctl::{BindError, Config, Door, Gate};
use control::yaml::ClientRate;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::{Request, Status};
use tower::layer::layer_fn;

use crate::documents::Documents;
use crate::limits;
use crate::rates::{Clients, Rates};
use crate::service::{Router, Shared, commands, routes};
use crate::tls::{self, Lines, Room};
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

/// Where the system has no more descriptors or memory, others may give some back.
const PAUSE: Duration = Duration::from_millis(100);

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

/// The API's sockets, bound and not yet served.
#[derive(Debug)]
pub struct Api {
    gate: Gate,
    doors: Vec<tls::Door>,
    rate: ClientRate,
}

/// The API while it is served. It ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    path: PathBuf,
    addresses: Vec<SocketAddr>,
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

    /// Where it is served over TCP.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Api {
    /// Makes the socket. Its file is removed when the API ends.
    ///
    /// # Errors
    /// When the socket cannot be made, or another router listens on it.
    pub fn bind(config: &Config) -> Result<Api, BindError> {
        Ok(Api { gate: Gate::bind(config)?, doors: vec![], rate: ClientRate::default() })
    }

    /// The same, over TCP as well, and with what each client may ask for.
    #[must_use]
    pub fn and(self, doors: Vec<tls::Door>, rate: ClientRate) -> Api {
        Api { doors, rate, ..self }
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
        log: Arc<tls::Write>,
    ) -> Result<Serving, StartError> {
        let Api { gate, doors, rate } = self;
        let services = services(version, registry, door, rate)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .build()?;
        let path = gate.path().to_owned();
        let addresses = doors.iter().map(tls::Door::address).collect();
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("quiver-api".into()).spawn(move || {
            runtime.block_on(async move {
                let Ok(connections) = connections(gate, doors, &Lines::new(log)) else { return };
                // Calls that are under way end with the router: there is nothing to wait for.
                tokio::select! {
                    () = services(connections) => {}
                    _ = ended => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Serving { path, addresses, end: Some(end), thread: Some(thread) })
    }
}

/// All services of a router to which a door leads: what is answered serves connections until no more can come.
///
/// # Errors
/// The schema does not load.
pub fn services(
    version: &str,
    registry: &Registry<App>,
    door: Door<Desk>,
    rate: ClientRate,
) -> Result<impl AsyncFnOnce(mpsc::Receiver<io::Result<Connection>>) + Send + use<>, StartError> {
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
    Ok(async move |connections| {
        let clients = Clients::new(rate);
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
            .layer(layer_fn(move |inner| Rates::new(inner, clients.clone())))
            .max_concurrent_streams(Some(limits::CALLS))
            .initial_stream_window_size(Some(limits::WINDOW))
            .initial_connection_window_size(Some(limits::WINDOWS))
            .http2_keepalive_interval(Some(SILENCE))
            .http2_keepalive_timeout(Some(SILENCE))
            .add_service(reflection)
            .add_service(health)
            .add_service(CommandsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(ConfigurationServer::new(router.clone()).max_decoding_message_size(limits::DOCUMENT))
            .add_service(CountersServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(SystemServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(EventsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(PacketsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(RoutesServer::new(router).max_decoding_message_size(routes::MESSAGE))
            .serve_with_incoming(ReceiverStream::new(connections));
        // It ends when there is nobody any more.
        let _ = served.await;
    })
}

/// Nobody without a role gets an answer, from whichever service.
fn known(request: Request<()>) -> Result<Request<()>, Status> {
    who::caller(&request)?;
    Ok(request)
}

/// The connections of the sockets, as they come.
fn connections(
    gate: Gate,
    doors: Vec<tls::Door>,
    lines: &Lines,
) -> io::Result<mpsc::Receiver<io::Result<Connection>>> {
    let listener = UnixListener::from_std(gate.listener()?)?;
    let (to, connections) = mpsc::channel(1);
    let (taken, room) = (Arc::new(AtomicUsize::new(0)), Room::default());
    for door in doors {
        let listener = TcpListener::from_std(door.listener()?)?;
        let (to, taken, room) = (to.clone(), Arc::clone(&taken), room.clone());
        tokio::spawn(strangers(listener, Arc::new(door), lines.clone(), room, taken, to));
    }
    tokio::spawn(async move {
        while !to.is_closed() {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let who = Who(gate.caller(&stream).map(Arc::new).map_err(Into::into));
                    // Where all places are taken, the connection is closed.
                    let Some(place) = Place::take(&taken, &who) else { continue };
                    if to.send(Ok(Connection::new(stream, who, place))).await.is_err() {
                        return;
                    }
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    Ok(connections)
}

/// Those who come over the network: each says who it is beside the others, and has a place after that.
async fn strangers(
    listener: TcpListener,
    door: Arc<tls::Door>,
    lines: Lines,
    room: Room,
    taken: Arc<AtomicUsize>,
    to: mpsc::Sender<io::Result<Connection>>,
) {
    while !to.is_closed() {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let address = from.ip().to_canonical();
        let Some(held) = room.take(address) else { continue };
        let (door, lines, taken, to) = (Arc::clone(&door), lines.clone(), Arc::clone(&taken), to.clone());
        tokio::spawn(async move {
            let admitted = door.admit(stream, address, &lines).await;
            drop(held);
            let Some((stream, who)) = admitted else { return };
            let Some(place) = Place::take(&taken, &who) else { return };
            let _ = to.send(Ok(Connection::new(stream, who, place))).await;
        });
    }
}
