//! What a service manager is told: the protocol of sd_notify(3), datagrams to the socket that `NOTIFY_SOCKET` names.
//!
//! `WATCHDOG=1` goes out from the control thread, and only while every worker gets on: a worker that hangs, as much as a control
//! thread that does, ends it, and the manager starts the router anew.

use net::router::Router;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr};
use std::cell::RefCell;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::rc::Rc;
use std::time::Duration;

/// The way to the service manager, if there is one.
#[derive(Debug)]
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How long it waits for a sign of life.
    watchdog: Option<Duration>,
}

impl Manager {
    /// As the environment says. What it names wrongly is as good as none.
    pub fn from_environment() -> Manager {
        let text = |name: &str| std::env::var(name).ok();
        let socket = text("NOTIFY_SOCKET").and_then(|path| {
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that does not read must not hold the control thread up.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address(&path)?))
        });
        let watchdog =
            period(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref(), std::process::id());
        Manager { socket, watchdog }
    }

    /// Gives it a descriptor to keep, under a name.
    pub fn store(&self, name: &str, fd: BorrowedFd<'_>) {
        let Some((socket, to)) = &self.socket else { return };
        let text = format!("FDSTORE=1\nFDNAME={name}\n");
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let to = match (to.as_pathname(), to.as_abstract_name()) {
            (Some(path), _) => SocketAddrUnix::new(path),
            (_, Some(name)) => SocketAddrUnix::new_abstract_name(name),
            _ => return,
        };
        if let Ok(to) = to {
            let text = [IoSlice::new(text.as_bytes())];
            let _ = sendmsg_addr(socket, &to, &text, &mut control, SendFlags::NOSIGNAL);
        }
    }

    /// Tells it something.
    pub fn tell(&self, text: &str) {
        if let Some((socket, to)) = &self.socket {
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }

    /// The router runs, and answers commands.
    pub fn ready(&self, workers: usize) {
        let s = if workers == 1 { "" } else { "s" };
        self.tell(&format!("READY=1\nSTATUS=forwarding with {workers} worker{s}\n"));
    }

    /// The router ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// Gives signs of life, and never ends.
    pub async fn watch(&self, router: &RefCell<Router>) {
        let (Some(period), Some(_)) = (self.watchdog, &self.socket) else {
            return std::future::pending().await;
        };
        // A worker has a third of the time for its loop, and two signs may be late.
        let mut turn = tokio::time::interval(period / 3);
        let mut mark = router.borrow().mark();
        loop {
            turn.tick().await;
            let router = router.borrow();
            if router.passed(mark) {
                self.tell("WATCHDOG=1\n");
                mark = router.mark();
            }
        }
    }
}

/// A path, or behind `@` a name of the abstract namespace.
fn address(path: &str) -> Option<SocketAddr> {
    match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None if path.starts_with('/') => SocketAddr::from_pathname(path).ok(),
        None => None,
    }
}

/// The time between two signs of life that the manager asks this process for.
fn period(usec: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let mine = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec: u64 = usec?.parse().ok().filter(|n| *n >= 1000 && mine)?;
    Some(Duration::from_micros(usec))
}

/// The manager, shared by those on the control thread who tell it something.
pub type Shared = Rc<Manager>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_asks_for() {
        assert_eq!(period(Some("30000000"), None, 7), Some(Duration::from_secs(30)));
        assert_eq!(period(Some("30000000"), Some("7"), 7), Some(Duration::from_secs(30)));
        assert_eq!(period(Some("30000000"), Some("8"), 7), None);
        assert_eq!(period(Some("0"), None, 7), None);
        assert_eq!(period(Some("soon"), None, 7), None);
        assert_eq!(period(None, None, 7), None);
        assert!(address("/run/x").is_some() && address("@x").is_some());
        assert!(address("x").is_none() && address("").is_none());
    }
}
