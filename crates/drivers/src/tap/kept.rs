//! TAPs that outlive the router and are found again: what is written on them, and who keeps their queues open meanwhile.

use super::{Config, taken, within};
use crate::error::{Error, system};
use crate::link::Link;
use crate::linux::{TUNGETDEVNETNS, TUNGETIFF};
use crate::netlink::{Netlink, Request};
use crate::netns;
use crate::sys::{self, IfReq};
use linux::wire::kind::{RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK, RTM_SETLINK};
use linux::wire::{Attributes, HEADER};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

const IFLA_IFNAME: u16 = 3;
const IFLA_IFALIAS: u16 = 20;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_MULTI_QUEUE: u16 = 7;
const IFLA_TUN_NUM_QUEUES: u16 = 8;
/// What is written on a persistent device that is made, so that it is known for one of Quiver's later.
pub(super) const MADE: &str = "made by quiver";
/// `struct ifinfomsg`.
const IFINFO: usize = 16;

/// Keeps queues of devices open while the router ends and is started anew: without an open queue a device has no carrier, which makes
/// Linux forget nexthop objects, and daemons their neighbors.
pub trait Keeper {
    /// The queue of a device that was kept, once.
    fn take(&mut self, name: &str) -> Option<OwnedFd>;
    /// Keeps the queue of a device, instead of another one of that name.
    fn keep(&mut self, name: &str, queue: BorrowedFd<'_>);
    /// The device is gone.
    fn forget(&mut self, name: &str);
    /// Forgets those that nobody has taken.
    fn finish(&mut self);
}

/// A device that an earlier run has left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Its name.
    pub name: String,
    /// Its namespace; the caller's own when absent.
    pub netns: Option<String>,
}

/// `struct ifinfomsg` of a device, or of none.
fn device(index: u32) -> [u8; IFINFO] {
    let mut m = [0; IFINFO];
    m[4..8].copy_from_slice(&index.to_ne_bytes());
    m
}

/// The text of an attribute of a link's message.
fn text(link: &[u8], wanted: u16) -> Option<String> {
    let value = Attributes(link.get(IFINFO..)?).find(|(kind, _)| *kind == wanted)?.1;
    let value = value.split(|b| *b == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A device that has the name.
pub(super) struct Found {
    /// What is written on it.
    alias: String,
    /// Its kind in Linux.
    kind: Vec<u8>,
    /// Whether it was made for several queues, and whether one is open; older kernels do not tell.
    queues: Option<(bool, bool)>,
}

impl Found {
    /// Something else than a TAP or TUN device.
    pub fn is_other(&self) -> bool {
        self.kind != b"tun"
    }

    /// This router, or one before it, has made it to last.
    pub fn is_ours(&self) -> bool {
        self.alias == MADE
    }

    /// It was made for one queue; not known of it: `None`.
    pub fn has_one_queue(&self) -> Option<bool> {
        self.queues.map(|(many, _)| !many)
    }

    /// Somebody has a queue of it open.
    pub fn is_held(&self) -> bool {
        self.queues.is_some_and(|(_, held)| held)
    }

    /// An error when it does not bear a mark.
    pub fn must_bear(&self, mark: &str, config: &Config) -> Result<(), Error> {
        let why = "by a device that this router has not made: delete that, or choose another name";
        if self.alias == mark { Ok(()) } else { Err(taken(config, why)) }
    }
}

/// The device of this name, in the calling thread's namespace, where there is one.
pub(super) fn find(config: &Config) -> Result<Option<Found>, Error> {
    let Ok(index) = Link::here(&config.host_name, config.netns.as_deref())?.ifindex() else {
        return Ok(None);
    };
    let answer = Netlink::here()?.ask(Request::get(RTM_GETLINK, &device(index)));
    let answer = answer.map_err(system(format!("read what {}{} is", config.host_name, within(config))))?;
    let Some((header, link)) = answer.split_at_checked(HEADER) else { return Ok(None) };
    if header[4..6] != RTM_NEWLINK.to_ne_bytes() {
        // It has gone since.
        return Ok(None);
    }
    let of = |all: &'_ [u8], wanted: u16| {
        let found = Attributes(all).find(|(kind, _)| *kind == wanted);
        found.map(|(_, value)| value.to_vec()).unwrap_or_default()
    };
    let info = of(link.get(IFINFO..).unwrap_or_default(), IFLA_LINKINFO);
    let kind = of(&info, IFLA_INFO_KIND);
    let data = of(&info, IFLA_INFO_DATA);
    let many = of(&data, IFLA_TUN_MULTI_QUEUE).first().map(|m| *m != 0);
    // Of a device for one queue it is not told: there Linux refuses a second one.
    let open = of(&data, IFLA_TUN_NUM_QUEUES).iter().any(|b| *b != 0);
    Ok(Some(Found {
        alias: text(link, IFLA_IFALIAS).unwrap_or_default(),
        kind: kind.split(|b| *b == 0).next().unwrap_or_default().to_vec(),
        queues: many.map(|many| (many, open)),
    }))
}

/// Writes the mark on a device.
pub(super) fn write(link: &Link, mark: &str) -> Result<(), Error> {
    let request =
        Request::change(RTM_SETLINK, 0, &device(link.ifindex()?)).with(IFLA_IFALIAS, mark.as_bytes());
    Netlink::here()?.change(request).map_err(|e| link.explain(e, &format!("the alias {mark:?}")))
}

/// Whether this is a queue of the device of that name in the calling thread's namespace.
pub(super) fn is_of(queue: &OwnedFd, name: &str) -> bool {
    let mut now = IfReq::new("");
    let named = sys::ioctl(queue, TUNGETIFF, &mut now).is_ok()
        && now.0.starts_with(IfReq::new(name).0[..16].as_ref());
    let id = |m: io::Result<std::fs::Metadata>| m.ok().map(|m| (m.dev(), m.ino()));
    let place = || id(std::fs::File::from(sys::ioctl_fd(queue, TUNGETDEVNETNS).ok()?).metadata());
    named && place().is_some_and(|p| Some(p) == id(std::fs::metadata("/proc/thread-self/ns/net")))
}

/// Deletes a device.
pub(super) fn delete(name: &str, netns: Option<&str>) -> Result<(), Error> {
    netns::within(netns, || {
        let link = Link::here(name, netns)?;
        let request = Request::change(RTM_DELLINK, 0, &device(link.ifindex()?));
        Netlink::here()?.change(request).map_err(|e| link.explain(e, "to be deleted"))
    })
}

/// Gives a device, by Linux's number in a namespace (the caller's own when absent), another name. Before Linux 6.2 it must be down for that.
///
/// # Errors
/// There is none of this number, the name is taken, or Linux refuses.
pub fn rename(index: u32, netns: Option<&str>, name: &str) -> Result<(), Error> {
    let bytes = [name.as_bytes(), &[0]].concat();
    netns::within(netns, || {
        let request = Request::change(RTM_SETLINK, 0, &device(index)).with(IFLA_IFNAME, &bytes);
        Netlink::here()?.change(request).map_err(system(format!("rename a device to {name}")))
    })
}

/// A descriptor that this process was started with; closed where another program is started from now on.
///
/// # Errors
/// There is none of this number.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    sys::inherited(fd)
}

/// All devices with a mark, in the caller's namespace and in those that have a name and can be entered.
#[must_use]
pub fn left(mark: &str) -> Vec<Left> {
    let of = |netns: Option<&str>| {
        let links = netns::within(netns, || {
            let marked = |m: &[u8]| text(m, IFLA_IFALIAS).is_some_and(|a| a == mark);
            Netlink::here()?.dump(RTM_GETLINK, &device(0), marked).map_err(system("list the devices"))
        });
        let named = |m: &Vec<u8>| Some(Left { name: text(m, IFLA_IFNAME)?, netns: netns.map(str::to_owned) });
        links.unwrap_or_default().iter().filter_map(named).collect::<Vec<_>>()
    };
    let own = std::fs::metadata("/proc/self/ns/net").ok().map(|m| (m.dev(), m.ino()));
    let mut all = of(None);
    for name in netns::names() {
        if netns::identity(&name) != own {
            all.extend(of(Some(&name)));
        }
    }
    all
}

impl Left {
    /// Takes it away.
    ///
    /// # Errors
    /// It is gone, or Linux refuses.
    pub fn delete(&self) -> Result<(), Error> {
        delete(&self.name, self.netns.as_deref())
    }
}
