//! The server and its thread.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command::Registry;
use control::commands::{App, Desk, Reached};
use control::ctl::{BindError, Config, Door, Gate};
use control::yaml::{CONNECTIONS, ClientRate};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::{Request, Status};

use crate::documents::Documents;
use crate::ending::{Ending, Ends};
use crate::layers::Layer;
use crate::limits::{self, Deadlines};
use crate::rates::{Clients, Rates};
use crate::service::{Router, Shared, Streams, commands, routes};
use crate::tls::{self, Lines, Room};
use crate::v1;
use crate::v1::commands_server::CommandsServer;
use crate::v1::configuration_server::ConfigurationServer;
use crate::v1::counters_server::CountersServer;
use crate::v1::events_server::EventsServer;
use crate::v1::packets_server::PacketsServer;
use crate::v1::routes_server::RoutesServer;
use crate::v1::system_server::SystemServer;
use crate::who::{self, Connection, Connections, Refusal, Who};

/// How often an address is tried again that was taken.
const AGAIN: Duration = Duration::from_secs(5);

/// Where the system has no more descriptors or memory, others may give some back.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the router's end waits for clients that take no answer.
const FAREWELL: Duration = Duration::from_secs(1);

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
    connections: u16,
    rate: ClientRate,
}

/// The API while it is served. It ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    path: PathBuf,
    ends: watch::Sender<bool>,
    end: Option<oneshot::Sender<()>>,
    /// Nothing comes of it: it is closed when the thread is at its end.
    served: oneshot::Receiver<()>,
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
    /// Tells all who have a call under way that the router ends, while the control thread still answers; for a second at most.
    pub async fn farewell(&mut self) {
        self.ends.send_replace(true);
        let _ = tokio::time::timeout(FAREWELL, &mut self.served).await;
    }

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
        let (gate, rate) = (Gate::bind(config)?, ClientRate::default());
        Ok(Api { gate, doors: vec![], connections: CONNECTIONS, rate })
    }

    /// The same, over TCP as well, and with how many connections each client may have, and what it may ask for.
    #[must_use]
    pub fn and(self, doors: Vec<tls::Door>, connections: u16, rate: ClientRate) -> Api {
        Api { doors, connections, rate, ..self }
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
        reached: Reached,
    ) -> Result<Serving, StartError> {
        let Api { gate, doors, connections: each, rate } = self;
        let (ends, ending) = Ending::new();
        let services = services(version, registry, door, rate, ending)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .build()?;
        let path = gate.path().to_owned();
        reached.set(path.display(), false, None);
        let places = Connections::new(reached.connections().clone(), each);
        let (end, ended) = oneshot::channel::<()>();
        let (done, served) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("quiver-api".into()).spawn(move || {
            runtime.block_on(async move {
                let Ok(connections) = connections(gate, doors, places, &reached, &Lines::new(log)) else {
                    return;
                };
                // It ends by itself where everybody has been told. What is under way then ends with the router.
                tokio::select! {
                    () = services(connections) => {}
                    _ = ended => {}
                }
            });
            drop(done);
            runtime.shutdown_background();
        })?;
        Ok(Serving { path, ends, end: Some(end), served, thread: Some(thread) })
    }
}

/// All services of a router to which a door leads: what is answered serves connections until no more can come, or until the router ends
/// and all have been told so.
///
/// # Errors
/// The schema does not load.
pub fn services(
    version: &str,
    registry: &Registry<App>,
    door: Door<Desk>,
    rate: ClientRate,
    ending: Ending,
) -> Result<impl AsyncFnOnce(mpsc::Receiver<io::Result<Connection>>) + Send + use<>, StartError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let router = Router(Arc::new(Shared {
        door,
        version: version.into(),
        instance: format!("{:x}-{:x}", now.as_nanos(), std::process::id()),
        started: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        drops: Default::default(),
        streams: Streams::default(),
        commands: commands::list(registry),
    }));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(v1::SCHEMA)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection = described().build_v1()?;
    // By its name of before, which tools still ask for.
    let before = described().build_v1alpha()?;
    Ok(async move |connections| {
        let (clients, ended) = (Clients::new(rate), ending.clone().told());
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<CommandsServer<Router>>().await;
        reporter.set_serving::<ConfigurationServer<Router>>().await;
        reporter.set_serving::<CountersServer<Router>>().await;
        reporter.set_serving::<SystemServer<Router>>().await;
        reporter.set_serving::<RoutesServer<Router>>().await;
        reporter.set_serving::<EventsServer<Router>>().await;
        reporter.set_serving::<PacketsServer<Router>>().await;
        let served = Server::builder()
            .layer(InterceptorLayer::new(known))
            .layer(Layer(Ends(ending)))
            .layer(Layer(Deadlines))
            .layer(Layer(Documents::new()))
            .layer(Layer(Rates(clients)))
            .max_concurrent_streams(Some(limits::CALLS))
            .initial_stream_window_size(Some(limits::WINDOW))
            .initial_connection_window_size(Some(limits::WINDOWS))
            .http2_keepalive_interval(Some(limits::SILENCE))
            .http2_keepalive_timeout(Some(limits::PATIENCE))
            .add_service(reflection)
            .add_service(before)
            .add_service(health)
            .add_service(CommandsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(ConfigurationServer::new(router.clone()).max_decoding_message_size(limits::DOCUMENT))
            .add_service(CountersServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(SystemServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(EventsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(PacketsServer::new(router.clone()).max_decoding_message_size(limits::MESSAGE))
            .add_service(RoutesServer::new(router).max_decoding_message_size(routes::MESSAGE))
            .serve_with_incoming_shutdown(ReceiverStream::new(connections), ended);
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
    places: Connections,
    reached: &Reached,
    lines: &Lines,
) -> io::Result<mpsc::Receiver<io::Result<Connection>>> {
    let listener = UnixListener::from_std(gate.listener()?)?;
    let (to, connections) = mpsc::channel(1);
    let room = Room::default();
    for door in doors {
        let (to, places, room) = (to.clone(), places.clone(), room.clone());
        tokio::spawn(strangers(Arc::new(door), lines.clone(), reached.clone(), room, places, to));
    }
    let lines = lines.clone();
    tokio::spawn(async move {
        while !to.is_closed() {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let caller = gate.caller(&stream).map(Arc::new);
                    let (who, place) = match places.take(Who(caller.map_err(|why| Refusal::Role(why.into()))))
                    {
                        Ok(taken) => taken,
                        Err(why) => {
                            // Not by `try_write`, for which a new stream is not yet ready.
                            if let Ok(mut stream) = stream.into_std() {
                                let _ = stream.write_all(&who::farewell(who::ENHANCE_YOUR_CALM, &why));
                            }
                            lines.warn(format!("API: refused a connection: {why}"));
                            continue;
                        }
                    };
                    if let Err(Refusal::Place(why)) = &who.0 {
                        lines.warn(format!("API: refused a connection: {why}"));
                    }
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
    door: Arc<tls::Door>,
    lines: Lines,
    reached: Reached,
    room: Room,
    places: Connections,
    to: mpsc::Sender<io::Result<Connection>>,
) {
    let at = door.address();
    let mut told = None;
    let listener = loop {
        match door.listener().and_then(TcpListener::from_std) {
            Ok(listener) => break listener,
            Err(e) => {
                let e = e.to_string();
                reached.set(at, true, Some(e.clone()));
                if told.as_ref() != Some(&e) {
                    lines.warn(format!("API on {at}: NOT there, and tried again until it is: {e}"));
                    told = Some(e);
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    let wrong = door.wrong().await;
    if wrong.is_none() {
        lines.say(format!("API on {at}, with TLS"));
    }
    reached.set(at, true, wrong);
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
        let (door, lines, reached) = (Arc::clone(&door), lines.clone(), reached.clone());
        let (places, to) = (places.clone(), to.clone());
        tokio::spawn(async move {
            let Some((stream, who)) = door.admit(stream, address, &lines, &reached).await else { return };
            let (who, place) = match places.take(who) {
                Ok(taken) => taken,
                Err(why) => {
                    lines.warn(format!("API on {at}: refused {address}: {why}"));
                    return tls::part(stream, &who::farewell(who::ENHANCE_YOUR_CALM, &why)).await;
                }
            };
            if let Err(Refusal::Place(why)) = &who.0 {
                lines.warn(format!("API on {at}: refused {address}: {why}"));
            }
            drop(held);
            let _ = to.send(Ok(Connection::new(stream, who, place))).await;
        });
    }
}
