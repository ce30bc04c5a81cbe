//! The API over TCP: TLS with certificates on both sides. Who comes is who the certificate names.

mod files;
mod lines;
mod names;
mod room;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use command::{Access, Caller, NOBODY, Remote};
use control::commands::Reached;
use control::yaml::{Diagnostic, Listen, Settings, Severity};
use drivers::Files as Opener;
use rustix::net::sockopt::{set_ip_freebind, set_ipv6_freebind, set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::who::{Refusal, Who};
use files::Files;
pub use files::Problem;
pub use lines::{Lines, Write};
pub use room::Room;

/// A client has so long to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Whoever is refused has so long to read why, and says so many bytes meanwhile: an answer is lost where what was sent is not read.
const FAREWELL: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 64 << 10;
/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 128;

/// What is wrong with the files of a document, as errors with their places, as far as whoever asks may open them: what he may not is
/// a note; and so is what is not there where it may be another machine's document.
pub fn examine(settings: &Settings, elsewhere: bool, opener: &Opener) -> Vec<Diagnostic> {
    let listen = settings.api.iter().flat_map(|api| api.listen.iter().enumerate());
    let problems = listen.filter_map(|(i, listen)| Some((i, files::load(listen, opener).err()?)));
    problems
        .map(|(i, p)| {
            let path = format!("quiver.api.listen[{i}].{}", p.field);
            let mut told = Diagnostic::new(p.place, path, p.rule, p.message);
            told.help(p.help);
            let others = opener.who.as_ref().is_some_and(|who| !who.is_privileged());
            if p.denied && others {
                told.severity = Severity::Note;
                told.help("it was not looked into, as you may not open it");
            } else if elsewhere && p.rule == "tls-file" {
                told.severity = Severity::Note;
                told.help(
                    "nobody gets in there without it; nothing is wrong where it runs on another machine",
                );
            }
            told
        })
        .collect()
}

/// An address that is listened on, and whom it takes.
pub struct Door {
    /// None: it was taken.
    listener: Option<TcpListener>,
    address: SocketAddr,
    /// Its number in the document.
    number: usize,
    roles: Vec<(String, Access)>,
    files: Arc<Mutex<Files>>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Door({})", self.address)
    }
}

/// Listens on an address. One that the machine does not have yet may come later, as that of an interface which the router makes.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    match rustix::net::bind(&socket, &address) {
        Err(rustix::io::Errno::ADDRNOTAVAIL) => {
            if address.is_ipv6() {
                set_ipv6_freebind(&socket, true)?;
            } else {
                set_ip_freebind(&socket, true)?;
            }
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl Door {
    /// Listens where the document says; the first of these addresses has number 0. Where the address is taken, or files do not fit,
    /// nobody gets in until that is mended: the router forwards meanwhile.
    pub fn open(number: usize, listen: &Listen) -> Door {
        Door {
            listener: bind(listen.address).ok(),
            address: listen.address,
            number,
            roles: listen.roles.clone(),
            files: Arc::new(Mutex::new(Files::open(listen.clone()))),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, which does not block; made now where the address was taken before.
    ///
    /// # Errors
    /// The address is taken still, or the process is out of descriptors.
    pub fn listener(&self) -> io::Result<TcpListener> {
        match &self.listener {
            Some(listener) => listener.try_clone(),
            None => bind(self.address),
        }
    }

    /// Why nobody gets in, where that is so.
    pub async fn wrong(&self) -> Option<String> {
        self.files.lock().await.wrong().map(|p| format!("{}: {} ({})", p.field, p.message, p.help))
    }

    /// Who somebody is whose certificate was verified: the first of its names that has a role.
    fn who(&self, certificate: &[u8], address: IpAddr) -> Result<Caller, String> {
        let names = names::of(certificate);
        let role = names.iter().find_map(|name| self.roles.iter().find(|(named, _)| name.is(named)));
        let Some((name, access)) = role else {
            let list = names.iter().take(3).map(|n| format!("`{}`", n.text)).collect::<Vec<_>>().join(", ");
            let names = if list.is_empty() { "a certificate without names".into() } else { list };
            return Err(format!("{names} has no role in quiver.api.listen[{}].roles", self.number));
        };
        Ok(Caller {
            access: *access,
            user: NOBODY,
            group: NOBODY,
            groups: vec![],
            process: None,
            ssh: None,
            remote: Some(Remote { name: name.clone(), address }),
        })
    }

    /// How connections are made now.
    async fn acceptor(&self, lines: &Lines, reached: &Reached) -> io::Result<TlsAcceptor> {
        // Whoever looks keeps the others waiting even where nobody waits for it any more: one thread at most is held up by files.
        let mut files = Arc::clone(&self.files).lock_owned().await;
        let read = move || (files.read_again(), files.config());
        let (told, config) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?;
        let stays = if config.is_some() { "those read before stay in use" } else { "nobody gets in" };
        match told {
            None => {}
            Some(Ok(())) => {
                lines.say(format!("API on {}: certificates were read again", self.address));
                reached.set(self.address, true, None);
            }
            Some(Err(p)) => {
                let wrong = format!("{}: {} ({})", p.field, p.message, p.help);
                lines.warn(format!("API on {}: {wrong}; {stays}", self.address));
                reached.set(self.address, true, Some(wrong));
            }
        }
        config.map(TlsAcceptor::from).ok_or_else(|| io::Error::other("its certificates do not fit"))
    }

    /// Finds out who comes, within some seconds. Nobody gets more than that without a certificate that counts.
    pub async fn admit(
        &self,
        stream: TcpStream,
        address: IpAddr,
        lines: &Lines,
        reached: &Reached,
    ) -> Option<(TlsStream<TcpStream>, Who)> {
        let shaken = async {
            let _ = stream.set_nodelay(true);
            let acceptor = match self.acceptor(lines, reached).await {
                Ok(acceptor) => acceptor,
                Err(e) => return Err((e, stream)),
            };
            acceptor.accept(stream).into_fallible().await
        };
        match timeout(HANDSHAKE, shaken).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let who = self.who(certificate?, address).map(Arc::new).map_err(|why| {
                    lines.warn(format!("API on {}: refused {address}: {why}", self.address));
                    Refusal::Role(why.into())
                });
                Some((stream, Who(who)))
            }
            // Somebody has looked whether anybody listens.
            Ok(Err((e, _))) if e.kind() == io::ErrorKind::UnexpectedEof => None,
            Ok(Err((e, stream))) => {
                lines.warn(format!("API on {}: refused {address}: {e}", self.address));
                part(stream, &[]).await;
                None
            }
            Err(_) => {
                let seconds = HANDSHAKE.as_secs();
                lines
                    .warn(format!("API on {}: refused {address}: no handshake in {seconds} s", self.address));
                None
            }
        }
    }
}

/// Lets somebody read why he is refused, and what more there is to say.
pub async fn part(mut stream: impl AsyncRead + AsyncWrite + Unpin, more: &[u8]) {
    let _ = timeout(FAREWELL, async {
        stream.write_all(more).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(LAST_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    })
    .await;
}
