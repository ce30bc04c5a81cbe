//! Target `api`: bytes of a client of the API: an HTTP/2 connection, or messages of one call.

use crate::bench;
use ::api::ending::Ending;
use ::api::server;
use ::api::who::{Connection, Connections, Who};
use ::command::{Access, Caller};
use control::commands::{App, Desk};
use control::ctl::{self, RegistryExecutor};
use control::places::Places;
use control::yaml::{ClientRate, Settings};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// The calls that messages go to, by number. Whoever may change something makes those of the second list: they neither name files nor
/// open devices.
const READ: &[&str] = &[
    "quiver.v1.Commands/Run",
    "quiver.v1.Commands/Complete",
    "quiver.v1.Commands/Help",
    "quiver.v1.Commands/List",
    "quiver.v1.Configuration/Check",
    "quiver.v1.Configuration/Diff",
    "quiver.v1.Configuration/Plan",
    "quiver.v1.Configuration/Apply",
    "quiver.v1.Configuration/Confirm",
    "quiver.v1.Configuration/Rollback",
    "quiver.v1.Configuration/Save",
    "quiver.v1.Configuration/History",
    "quiver.v1.Configuration/Dump",
    "quiver.v1.Counters/List",
    "quiver.v1.Counters/Read",
    "quiver.v1.Routes/Program",
    "quiver.v1.Routes/List",
    "quiver.v1.Routes/Watch",
    "quiver.v1.System/Get",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
];
const WRITE: &[&str] = &[
    "quiver.v1.Routes/Program",
    "quiver.v1.Configuration/Confirm",
    "quiver.v1.Configuration/Plan",
    "quiver.v1.Configuration/Check",
];

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames (RFC 9113).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// An answer that has not come after so long is that of a call which goes on for a while.
const QUIET: Duration = Duration::from_millis(10);
/// Inputs after which it is looked whether others are still served, and how long that may take.
const LOOK: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

struct Bench {
    runtime: tokio::runtime::Runtime,
    local: LocalSet,
    connections: mpsc::Sender<std::io::Result<Connection>>,
    places: Connections,
    _ends: watch::Sender<bool>,
    runs: u64,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::new());
}

impl Bench {
    fn new() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let local = LocalSet::new();
        let app = App::new(Rc::new(RefCell::new(bench::router())), Settings::default());
        let registry = control::commands::registry().expect("the commands fit together");
        let (door, orders) = ctl::door(64);
        let inside = orders.lend(Desk::of(&app));
        let rate = ClientRate { calls: u32::MAX, bytes: u64::MAX };
        let (ends, ending) = Ending::new();
        let services = server::services("fuzz", &registry, door, rate, ending).expect("the schema loads");
        let executor = RegistryExecutor::new(Rc::new(registry), Rc::new(RefCell::new(app)));
        let (connections, come) = mpsc::channel(1);
        {
            let _entered = runtime.enter();
            local.spawn_local(inside.alone(Rc::new(executor)));
            local.spawn_local(async move { services(come).await });
        }
        let places = Connections::new(Places::of("connections"), u16::MAX);
        Bench { runtime, local, connections, places, _ends: ends, runs: 0 }
    }

    /// A connection of somebody who may do so much.
    async fn connect(
        to: &mpsc::Sender<std::io::Result<Connection>>,
        places: &Connections,
        access: Access,
    ) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let user = command_user(access);
        let caller =
            Caller { access, user, group: user, groups: vec![], process: None, ssh: None, remote: None };
        let who = Who(Ok(Arc::new(caller)));
        // Earlier connections end when the server sees that.
        loop {
            if let Ok((who @ Who(Ok(_)), place)) = places.take(who.clone()) {
                assert!(to.send(Ok(Connection::new(theirs, who, place))).await.is_ok(), "it serves");
                return ours;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn command_user(access: Access) -> u32 {
    if access == Access::Read { ::command::NOBODY } else { 0 }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], to: &mut Vec<u8>) {
    let length = (payload.len() as u32).to_be_bytes();
    to.extend_from_slice(&length[1..]);
    to.extend_from_slice(&[kind, flags]);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(payload);
}

/// The beginning of a connection, with all the room for answers that there can be.
fn hello(to: &mut Vec<u8>) {
    to.extend_from_slice(PREFACE);
    frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff], to);
    frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000u32.to_be_bytes(), to);
}

/// A field of HPACK as it stands, without a table (RFC 7541, 6.2.2).
fn field(name: &str, value: &str, to: &mut Vec<u8>) {
    to.push(0);
    for text in [name, value] {
        assert!(text.len() < 127);
        to.push(text.len() as u8);
        to.extend_from_slice(text.as_bytes());
    }
}

/// A call with these messages, on stream 1.
fn call<'m>(method: &str, messages: impl Iterator<Item = &'m [u8]>, to: &mut Vec<u8>) {
    let mut headers = vec![];
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &format!("/{method}")),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        field(name, value, &mut headers);
    }
    frame(HEADERS, END_HEADERS, 1, &headers, to);
    for message in messages {
        let mut payload = vec![0];
        payload.extend_from_slice(&(message.len() as u32).to_be_bytes());
        payload.extend_from_slice(message);
        payload.chunks(16_384).for_each(|piece| frame(DATA, 0, 1, piece, to));
    }
    frame(DATA, END_STREAM, 1, &[], to);
}

/// Whether the answer of stream 1, or to a PING, has ended in what came; takes whole frames away.
fn ended(from: &mut Vec<u8>) -> bool {
    let mut at = 0;
    let mut found = false;
    while let Some(&[a, b, c, kind, flags, s3, s2, s1, s0]) = from.get(at..at + 9) {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if from.len() < at + 9 + length {
            break;
        }
        let stream = u32::from_be_bytes([s3, s2, s1, s0]);
        let last = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 || kind == RST_STREAM;
        found |= stream == 1 && last || kind == PING && flags & ACK != 0;
        at += 9 + length;
    }
    from.drain(..at);
    found
}

/// Sends bytes, and takes what is answered until that has ended or nothing more comes. True where the end was seen.
async fn exchange(with: DuplexStream, bytes: &[u8], patience: Duration) -> bool {
    let (mut reader, mut writer) = tokio::io::split(with);
    let mut came = vec![];
    let (mut sent, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let step = async {
            tokio::select! {
                done = writer.write(&bytes[sent..]), if sent < bytes.len() => (done.ok(), None),
                read = reader.read(&mut buffer) => (None, Some(read.unwrap_or(0))),
            }
        };
        match timeout(patience, step).await {
            Err(_) => return false,
            Ok((Some(n), _)) if n > 0 => sent += n,
            Ok((_, Some(n))) if n > 0 => {
                came.extend_from_slice(&buffer[..n]);
                if ended(&mut came) {
                    return true;
                }
            }
            // The router has closed it.
            Ok(_) => return true,
        }
    }
}

/// The first byte says what the others are: a connection from its first byte, or behind a beginning that is right; or the number of a call
/// and its messages, each behind a byte with its length or zero for all that is left.
pub fn run(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let (mut bytes, mut access) = (vec![], Access::Read);
    match how % 4 {
        0 => bytes.extend_from_slice(rest),
        1 => {
            hello(&mut bytes);
            bytes.extend_from_slice(rest);
        }
        kind => {
            let Some((number, messages)) = rest.split_first() else { return };
            let calls = if kind == 2 { READ } else { WRITE };
            if kind == 3 {
                access = Access::Write;
            }
            hello(&mut bytes);
            let mut left = messages;
            let each = std::iter::from_fn(|| {
                let (length, behind) = left.split_first()?;
                let length = if *length == 0 { behind.len() } else { usize::from(*length).min(behind.len()) };
                let (message, more) = behind.split_at(length);
                left = more;
                Some(message)
            });
            call(calls[usize::from(*number) % calls.len()], each, &mut bytes);
        }
    }
    if how % 4 < 2 {
        frame(PING, 0, 0, &[0; 8], &mut bytes);
    }
    BENCH.with_borrow_mut(|b| {
        b.runs += 1;
        let looks = b.runs % LOOK == 0;
        let (connections, places) = (b.connections.clone(), b.places.clone());
        b.runtime.block_on(b.local.run_until(async move {
            exchange(Bench::connect(&connections, &places, access).await, &bytes, QUIET).await;
            if looks {
                let mut bytes = vec![];
                hello(&mut bytes);
                call("quiver.v1.System/Get", [&[][..]].into_iter(), &mut bytes);
                let with = Bench::connect(&connections, &places, Access::Read).await;
                assert!(exchange(with, &bytes, PATIENCE).await, "others are served");
            }
        }));
    });
}
