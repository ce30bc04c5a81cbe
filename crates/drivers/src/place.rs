//! Unix sockets by which other processes of the machine agree with this one on shared memory.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Connections that wait to be taken.
const BACKLOG: i32 = 32;
/// Most bytes of a path (`sun_path`), its end included.
const MOST: usize = 108;

/// Where a socket is: a file, or (`@name`, `abstract:name`) a name in Linux's abstract namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(String);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Place {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Place, String> {
        let name = text.strip_prefix("abstract:").map(|name| format!("@{name}"));
        let text = name.as_deref().unwrap_or(text);
        if !(text.starts_with('/') || text.starts_with('@') && text.len() > 1) {
            return Err(format!(
                "'{text}' is neither the full path of a file nor @NAME (a name in Linux's abstract namespace)"
            ));
        }
        if text.len() >= MOST || text.chars().any(char::is_control) {
            return Err(format!(
                "'{text}' cannot be a socket's: at most {} bytes, no control characters",
                MOST - 1
            ));
        }
        Ok(Place(text.to_owned()))
    }

    /// The file, where it is one.
    pub fn file(&self) -> Option<&str> {
        (!self.0.starts_with('@')).then_some(&self.0)
    }

    fn address(&self) -> io::Result<SocketAddrUnix> {
        Ok(match self.0.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(self.0.as_str())?,
        })
    }

    /// Connects, at once or not at all.
    pub fn connect(&self, kind: SocketType) -> io::Result<OwnedFd> {
        let fd = socket(kind)?;
        rustix::net::connect(&fd, &self.address()?)?;
        Ok(fd)
    }

    /// Listens there. A file that a process has left which ended is replaced.
    pub fn listen(&self, kind: SocketType) -> io::Result<Listening> {
        let fd = socket(kind)?;
        let address = self.address()?;
        let mut bound = rustix::net::bind(&fd, &address);
        if bound == Err(rustix::io::Errno::ADDRINUSE)
            && let Some(file) = self.file()
            && std::fs::symlink_metadata(file).is_ok_and(|m| m.file_type().is_socket())
            && rustix::net::connect(&socket(kind)?, &address) == Err(rustix::io::Errno::CONNREFUSED)
        {
            std::fs::remove_file(file)?;
            bound = rustix::net::bind(&fd, &address);
        }
        bound?;
        rustix::net::listen(&fd, BACKLOG)?;
        let identity = self.file().and_then(identity);
        Ok(Listening { fd, place: self.clone(), identity })
    }
}

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

fn identity(file: &str) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(file).ok().map(|m| (m.dev(), m.ino()))
}

/// A socket that connections come to. Its file goes with it.
pub struct Listening {
    fd: OwnedFd,
    place: Place,
    identity: Option<(u64, u64)>,
}

impl Listening {
    /// The next connection, if one waits.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        Ok(rustix::net::accept_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?)
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(file) = self.place.file()
            && self.identity.is_some()
            && identity(file) == self.identity
        {
            let _ = std::fs::remove_file(file);
        }
    }
}
