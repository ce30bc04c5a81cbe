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
use control::yaml::{Diagnostic, Listen, Settings, Severity};
use rustix::net::sockopt::{set_ip_freebind, set_ipv6_freebind, set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::who::Who;
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

/// What is wrong with the files of a document, as errors with their places; what is not there is a note where it may be another
/// machine's document.
pub fn examine(settings: &Settings, elsewhere: bool) -> Vec<Diagnostic> {
    let listen = settings.api.iter().flat_map(|api| api.listen.iter().enumerate());
    let problems = listen.filter_map(|(i, listen)| Some((i, files::load(listen).err()?)));
    problems
        .map(|(i, p)| {
            let path = format!("quiver.api.listen[{i}].{}", p.field);
            let mut told = Diagnostic::new(p.place, path, p.rule, p.message);
            told.help(p.help);
            if elsewhere && p.rule == "tls-file" {
                told.severity = Severity::Note;
                told.help(
                    "the router does not start without it; nothing is wrong where it runs on another machine",
                );
            }
            told
        })
        .collect()
}

/// An address that is listened on, and whom it takes.
pub struct Door {
    listener: TcpListener,
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
    /// Listens where the document says; the first of these addresses has number 0.
    ///
    /// # Errors
    /// The address is taken, or the files are wrong.
    pub fn open(number: usize, listen: &Listen) -> Result<Door, String> {
        let at =
            |e: &dyn std::fmt::Display| format!("API: quiver.api.listen[{number}]: {}: {e}", listen.address);
        let listener = bind(listen.address).map_err(|e| at(&e))?;
        let files = Files::open(listen.clone()).map_err(|p| at(&p.message))?;
        Ok(Door {
            listener,
            address: listen.address,
            number,
            roles: listen.roles.clone(),
            files: Arc::new(Mutex::new(files)),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, which does not block.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn listener(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
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
    async fn acceptor(&self, lines: &Lines) -> io::Result<TlsAcceptor> {
        // Whoever looks keeps the others waiting even where nobody waits for it any more: one thread at most is held up by files.
        let mut files = Arc::clone(&self.files).lock_owned().await;
        let (config, told) =
            tokio::task::spawn_blocking(move || files.now()).await.map_err(io::Error::other)?;
        match told {
            None => {}
            Some(Ok(())) => lines.say(format!("API on {}: certificates were read again", self.address)),
            Some(Err(p)) => lines.warn(format!(
                "API on {}: {}: {}; those read before stay in use ({})",
                self.address, p.field, p.message, p.help
            )),
        }
        Ok(TlsAcceptor::from(config))
    }

    /// Finds out who comes, within some seconds. Nobody gets more than that without a certificate that counts.
    pub async fn admit(
        &self,
        stream: TcpStream,
        address: IpAddr,
        lines: &Lines,
    ) -> Option<(TlsStream<TcpStream>, Who)> {
        let shaken = async {
            let _ = stream.set_nodelay(true);
            let acceptor = match self.acceptor(lines).await {
                Ok(acceptor) => acceptor,
                Err(e) => return Err((e, stream)),
            };
            acceptor.accept(stream).into_fallible().await
        };
        match timeout(HANDSHAKE, shaken).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let who = self.who(certificate?, address);
                if let Err(why) = &who {
                    lines.warn(format!("API on {}: refused {address}: {why}", self.address));
                }
                Some((stream, Who(who.map(Arc::new).map_err(Into::into))))
            }
            // Somebody has looked whether anybody listens.
            Ok(Err((e, _))) if e.kind() == io::ErrorKind::UnexpectedEof => None,
            Ok(Err((e, stream))) => {
                lines.warn(format!("API on {}: refused {address}: {e}", self.address));
                part(stream).await;
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

/// Lets somebody read why he is refused.
async fn part(mut stream: TcpStream) {
    let _ = timeout(FAREWELL, async {
        stream.shutdown().await?;
        let mut rest = stream.take(LAST_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    })
    .await;
}
