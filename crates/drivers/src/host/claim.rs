//! One router a device: a name in Linux's abstract socket namespace, which belongs to the network namespace, ends with the
//! process however that ends, and leaves nothing behind. It tells the device by Linux's index, which another may have later:
//! the router lets go of it when the device goes ([`super::Host::release`]).

use crate::error::{Error, Within};
use crate::sys;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Marks the device as taken as long as it lives. To be called in the device's network namespace; while somebody holds the
/// device, waits until `until`: that process may be about to end.
pub(super) fn claim(
    name: &str,
    netns: Option<&str>,
    ifindex: u32,
    until: Instant,
) -> Result<Option<UnixListener>, Error> {
    let address = SocketAddr::from_abstract_name(format!("quiver/af-packet/{ifindex}"));
    let Ok(address) = address else { return Ok(None) };
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(mark) => return Ok(Some(mark)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            // Without the mark a router runs as well.
            Err(_) => return Ok(None),
        }
        let holder = UnixStream::connect_addr(&address).ok().and_then(|s| sys::peer(&s));
        match holder {
            // Anybody may take an abstract name; only routers' names count.
            Some(p) if p.uid != 0 && p.uid != sys::user() => return Ok(None),
            _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Some(p) if p.pid == std::process::id() as i32 => {
                return Err(Error::Ours { name: name.to_owned(), within: Within(netns.map(str::to_owned)) });
            }
            _ => {
                let pid = holder.map(|p| p.pid).filter(|pid| *pid > 0);
                let within = Within(netns.map(str::to_owned));
                return Err(Error::InUse { name: name.to_owned(), within, pid });
            }
        }
    }
}
