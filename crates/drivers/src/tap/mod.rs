//! TAP: an Ethernet device that Quiver makes in Linux, for hosts, containers and virtual machines behind it.

mod host;
pub mod kept;
mod queue;

use crate::counts::{Drops, RxDrops};
use crate::error::{Error, Within, check_device_name, privileged, system};
use crate::link::Link;
use crate::linux::*;
use crate::netns;
use crate::offload::Offload;
use crate::stage::Form;
use crate::sys::{self, IfReq};
use graph::{RxQueue, TxCaps, TxQueue};
use kept::Found;
use packet::MacAddr;
use packet::gso::VnetHdr;
use queue::{Shared, TapRx, TapTx};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use host::{Given, QUIVER, change_address, change_neighbors, given, given_neighbors};

/// Most queues of a device.
pub const MAX_QUEUES: usize = 64;
const ADMIN: &str = "CAP_NET_ADMIN";
const OTHER_KIND: &str = "by a device of another kind";
const OTHER_PROCESS: &str = "another process uses this TAP";
const ONE_QUEUE: &str = "by a TAP that was made with one queue, which Linux gives no more: have one receive queue, or delete it \
                         (\"ip link del\") to have it made anew";
/// How long a name may stay taken by a Quiver that was killed a moment ago.
const PATIENCE: Duration = Duration::from_millis(700);

/// A device to make.
#[derive(Clone, Debug)]
pub struct Config {
    /// Quiver's index of the interface.
    pub interface: u32,
    /// Name of the device in Linux.
    pub host_name: String,
    /// Namespace in which it is made; Quiver's own when not given.
    pub netns: Option<String>,
    /// Make the namespace when there is none.
    pub netns_create: bool,
    /// Address of the host side; chosen by Linux when not given.
    pub host_mac: Option<MacAddr>,
    /// MTU of the host side.
    pub host_mtu: Option<u32>,
    /// Addresses of the host side, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Gateways of default routes over the host side.
    pub gateways: Vec<IpAddr>,
    /// Bridge to which the host side is added.
    pub bridge: Option<String>,
    /// Make the bridge when there is none.
    pub bridge_create: bool,
    /// The device outlives Quiver.
    pub persist: bool,
    /// It outlives Quiver, and this is written on it (its alias in Linux): one of that name is taken over where it says so, with all
    /// that it has, and refused where it does not.
    pub mark: Option<String>,
    /// The queue of such a device that was kept open meanwhile. One of another device is closed.
    pub queue: Option<Arc<OwnedFd>>,
    /// Receive queues: Linux spreads its packets over them by flow.
    pub rx_queues: usize,
    /// Transmit queues, one a worker.
    pub tx_queues: usize,
    /// Packets that wait from Linux to Quiver at most, per queue.
    pub rx_ring: Option<u32>,
    /// Who completes checksums and cuts super-frames. But for `Off`, Linux hands over both as they are, and takes TCP
    /// super-frames whole: with complete checksums, or (`On`) with partial ones.
    pub offload: Offload,
    /// Whether the host side sees a carrier from the start.
    pub carrier: bool,
    /// How long to wait for a name that is taken by a Quiver that was killed a moment ago.
    pub patience: Duration,
}

impl Config {
    /// One queue each way, carrier on.
    pub fn new(host_name: &str, interface: u32) -> Config {
        Config {
            interface,
            host_name: host_name.to_owned(),
            netns: None,
            netns_create: false,
            host_mac: None,
            host_mtu: None,
            addresses: Vec::new(),
            gateways: Vec::new(),
            bridge: None,
            bridge_create: false,
            persist: false,
            mark: None,
            queue: None,
            rx_queues: 1,
            tx_queues: 1,
            rx_ring: None,
            offload: Offload::Auto,
            carrier: true,
            patience: PATIENCE,
        }
    }
}

/// A device that was made.
pub struct Device {
    /// Its receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Its transmit queues.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// An address for Quiver's side: the same on every start.
    pub mac: MacAddr,
    /// Its MTU.
    pub mtu: u32,
    /// Its control side. The device vanishes when this and all queues are dropped, unless it persists.
    pub handle: Handle,
}

/// The control side of a TAP.
pub struct Handle {
    /// The host side in Linux.
    pub link: Link,
    /// The namespace was made for it.
    pub made_netns: bool,
    /// The bridge was made for it.
    pub made_bridge: bool,
    /// A router before this one has left the device.
    pub was_there: bool,
    /// There was one with another number of queues, in whose place this is.
    pub made_anew: bool,
    /// A router before this one has made it to last, which it is not to do any more.
    ends: bool,
    /// Linux's index of the device when it was made.
    pub ifindex: u32,
    queues: Vec<Arc<OwnedFd>>,
    shared: Arc<Shared>,
    /// Of each receive queue.
    drops: Vec<Arc<Drops>>,
    /// How packets are sent, and what the kernel does for them.
    form: Form,
    caps: TxCaps,
    /// Transmit queues so far.
    sending: usize,
}

impl Handle {
    /// One transmit queue more.
    pub fn transmit_queue(&mut self) -> Box<dyn TxQueue> {
        let queue = Arc::clone(&self.queues[self.sending % self.queues.len()]);
        self.sending += 1;
        Box::new(TapTx::new(queue, self.form, self.caps, Arc::clone(&self.shared)))
    }

    /// False once the device was deleted.
    pub fn alive(&self) -> bool {
        !self.shared.gone.load(Ordering::Relaxed) && self.link.ifindex().is_ok()
    }

    /// Whether the device was deleted, and not moved to another namespace or renamed, which its queues outlive.
    pub fn deleted(&self) -> bool {
        // Every ioctl of a queue would wait for whoever changes devices in Linux just then.
        self.shared.gone.load(Ordering::Relaxed) || sys::is_broken(&*self.queues[0])
    }

    /// Gives the host side a carrier or takes it away: Quiver's admin state as Linux sees it.
    pub fn set_carrier(&self, on: bool) -> Result<(), Error> {
        let mut value = u32::from(on);
        sys::ioctl(&*self.queues[0], TUNSETCARRIER, &mut value)
            .map_err(system(format!("set the carrier of {}", self.link.name())))
    }

    /// Lets the device outlive Quiver, or not.
    pub fn set_persist(&self, on: bool) -> Result<(), Error> {
        sys::ioctl_value(&*self.queues[0], TUNSETPERSIST, u64::from(on))
            .map_err(system(format!("make {} persistent", self.link.name())))
    }

    /// Has a persistent device end with its queues where it was made here: its creation is undone. One that was there stays.
    pub fn unmake(&mut self) {
        self.ends = false;
        if !self.was_there {
            // Nobody is left who could do something about it.
            let _ = self.set_persist(false);
        }
    }

    /// The first queue, for who keeps the device open while the router is started anew.
    pub fn queue(&self) -> BorrowedFd<'_> {
        self.queues[0].as_fd()
    }

    /// Takes the device away, whoever has it open.
    pub fn delete(&self) {
        if kept::delete(self.link.name(), self.link.netns()).is_err() {
            // It was renamed or moved: it ends with its queues.
            let _ = self.set_persist(false);
        }
    }

    /// Packets dropped before they reached the graph.
    pub fn drops(&self) -> RxDrops {
        self.queue_drops().into_iter().sum()
    }

    /// Those of each receive queue.
    pub fn queue_drops(&self) -> Vec<RxDrops> {
        self.drops.iter().map(|d| d.read()).collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.ends {
            // Nobody is left who could do something about it.
            let _ = self.set_persist(false);
        }
    }
}

/// Checks that a TAP of that name could be made: the name, the namespace, and the permission.
pub fn probe(config: &Config) -> Result<(), Error> {
    check(config)?;
    let netns = config.netns.as_deref();
    match netns::within(netns, || free(config)) {
        Err(Error::NoNamespace { .. }) if config.netns_create => {}
        other => other?,
    }
    sys::open("/dev/net/tun", libc::O_RDWR).map_err(tun_error(&config.host_name)).map(drop)
}

fn check(config: &Config) -> Result<(), Error> {
    let name = &config.host_name;
    check_device_name(name)?;
    if name.contains('%') {
        return Err(Error::Name { name: name.clone(), why: "\"%\" is a pattern to Linux" });
    }
    for (which, count) in [("receive", config.rx_queues), ("transmit", config.tx_queues)] {
        if !(1..=MAX_QUEUES).contains(&count) {
            return Err(Error::Queues { name: name.clone(), which, count, max: MAX_QUEUES });
        }
    }
    Ok(())
}

fn within(config: &Config) -> Within {
    Within(config.netns.clone())
}

/// An error when the name belongs to a device that is no TAP.
fn free(config: &Config) -> Result<(), Error> {
    match kept::find(config)? {
        Some(found) if found.is_other() => Err(taken(config, OTHER_KIND)),
        Some(found) => queues_of(config, &found).map(drop),
        None => Ok(()),
    }
}

/// What is done about the queues of a device that is there.
enum Queues {
    /// They are as they are wanted: several or one.
    Of(bool),
    /// It has one, and several are wanted.
    Anew,
}

/// Linux has a device made for one queue or for several, and several may be one.
fn queues_of(config: &Config, found: &Found) -> Result<Queues, Error> {
    let many = config.rx_queues > 1;
    match found.has_one_queue() {
        Some(true) if many && found.is_ours() => Ok(Queues::Anew),
        Some(true) if many => Err(taken(config, ONE_QUEUE)),
        one => Ok(Queues::Of(one.map_or(many, |one| !one))),
    }
}

fn taken(config: &Config, why: &'static str) -> Error {
    Error::Taken { name: config.host_name.clone(), within: within(config), why }
}

fn tun_error(name: &str) -> impl FnOnce(io::Error) -> Error {
    let name = name.to_owned();
    move |e| match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::System {
            what: format!("make {name}: /dev/net/tun is missing (\"modprobe tun\" brings it)"),
            cause: e,
        },
        _ => privileged(format!("making the TAP {name}"), ADMIN)(e),
    }
}

/// Opens the driver and attaches a queue to the device, which is made when there is none.
fn attach(config: &Config, many: bool) -> io::Result<OwnedFd> {
    let fd = sys::open("/dev/net/tun", libc::O_RDWR | libc::O_NONBLOCK)?;
    let mut request = IfReq::new(&config.host_name);
    let many = if many { IFF_MULTI_QUEUE } else { 0 };
    request.set(&(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | many).to_ne_bytes());
    sys::ioctl(&fd, TUNSETIFF, &mut request)?;
    Ok(fd)
}

fn open_queue(config: &Config, many: bool) -> Result<OwnedFd, Error> {
    let end = Instant::now() + config.patience;
    loop {
        let e = match attach(config, many) {
            Ok(fd) => return Ok(fd),
            Err(e) => e,
        };
        match e.raw_os_error() {
            // The kernel takes a killed process's device away a little after the process.
            Some(libc::EBUSY) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            Some(libc::EBUSY) => return Err(taken(config, OTHER_PROCESS)),
            Some(libc::EINVAL) => {
                return Err(taken(config, "by a device of another kind or with another number of queues"));
            }
            _ => return Err(tun_error(&config.host_name)(e)),
        }
    }
}

/// What there is of this name, once nobody has a queue of it: a device for several queues would let anybody in beside who has it.
fn find_free(config: &Config) -> Result<Option<Found>, Error> {
    let end = Instant::now() + config.patience;
    loop {
        match kept::find(config)? {
            Some(found) if found.is_other() => return Err(taken(config, OTHER_KIND)),
            // Of a killed process it goes in a moment.
            Some(found)
                if Instant::now() < end && (found.is_held() || queues_of(config, &found).is_err()) =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            Some(found) if found.is_held() => return Err(taken(config, OTHER_PROCESS)),
            found => return Ok(found),
        }
    }
}

/// Turns on what the kernel knows of; true when that includes UDP super-frames.
fn offloads(fd: &OwnedFd, on: bool) -> io::Result<bool> {
    if !on {
        return sys::ioctl_value(fd, TUNSETOFFLOAD, 0).map(|()| false);
    }
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if sys::ioctl_value(fd, TUNSETOFFLOAD, tcp | TUN_F_USO4 | TUN_F_USO6).is_ok() {
        return Ok(true);
    }
    sys::ioctl_value(fd, TUNSETOFFLOAD, tcp).map(|()| false)
}

/// Makes the device. When a step fails, what was made before is taken away again.
pub fn open(config: &Config) -> Result<Device, Error> {
    check(config)?;
    let netns = config.netns.as_deref();
    let made_netns = match netns {
        Some(name) if config.netns_create => crate::link::create_netns(name)?,
        _ => false,
    };
    let made = netns::within(netns, || make(config));
    if let (Err(_), Some(name), true) = (&made, netns, made_netns) {
        let _ = netns::remove(name);
    }
    let Made { queues, link, uso, made_bridge, was_there, made_anew, ends } = made?;
    let null = sys::open("/dev/null", libc::O_RDWR).map_err(system("open /dev/null"))?;
    let shared = Arc::new(Shared { gone: AtomicBool::new(false), null });
    let form = match config.offload {
        Offload::Auto => Form::Checksummed,
        Offload::On => Form::AsIs,
        Offload::Off => Form::Whole,
    };
    let caps = TxCaps { checksum: true, tso: true, uso: uso || form != Form::AsIs };
    let state = link.state()?;
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    let drops: Vec<Arc<Drops>> = queues.iter().map(|_| Arc::default()).collect();
    for (q, drops) in queues.iter().zip(&drops) {
        rx.push(Box::new(TapRx::new(
            Arc::clone(q),
            config.interface,
            Arc::clone(&shared),
            Arc::clone(drops),
        )));
    }
    let mac = stable_mac(config);
    let ifindex = state.ifindex;
    let sending = 0;
    let mut handle = Handle {
        link,
        made_netns,
        made_bridge,
        was_there,
        made_anew,
        ends,
        ifindex,
        queues,
        shared,
        drops,
        form,
        caps,
        sending,
    };
    let tx = (0..config.tx_queues).map(|_| handle.transmit_queue()).collect();
    // The last of all, since what fails before must leave no device behind.
    if config.persist || config.mark.is_some() {
        handle.set_persist(true)?;
    }
    Ok(Device { rx, tx, mac, mtu: state.mtu, handle })
}

struct Made {
    queues: Vec<Arc<OwnedFd>>,
    link: Link,
    uso: bool,
    made_bridge: bool,
    was_there: bool,
    made_anew: bool,
    ends: bool,
}

/// The part that runs in the namespace.
fn make(config: &Config) -> Result<Made, Error> {
    let name = &config.host_name;
    let what = |what: &str| system(format!("set {what} of the TAP {name}"));
    let mut queues = Vec::new();
    let mut uso = false;
    // One whose queue was kept open is held by who has kept it.
    let found = match &config.queue {
        Some(_) => kept::find(config)?,
        None => find_free(config)?,
    };
    if let (Some(mark), Some(found)) = (&config.mark, &found) {
        found.must_bear(mark, config)?;
    }
    let queues_there = found.as_ref().map(|found| queues_of(config, found)).transpose()?;
    let (many, made_anew) = match queues_there {
        Some(Queues::Of(many)) => (many, false),
        Some(Queues::Anew) => {
            // With its last queue it goes.
            let last = open_queue(config, false)?;
            sys::ioctl_value(&last, TUNSETPERSIST, 0).map_err(what("that it does not last"))?;
            (true, true)
        }
        None => (config.rx_queues > 1, false),
    };
    for _ in 0..config.rx_queues {
        let kept = config.queue.as_ref().filter(|q| found.is_some() && kept::is_of(q, name));
        let fd = match kept {
            Some(queue) => queue.try_clone().map_err(system("copy a descriptor"))?,
            None => open_queue(config, many)?,
        };
        let mut len = VnetHdr::LEN as u32;
        sys::ioctl(&fd, TUNSETVNETHDRSZ, &mut len).map_err(what("the header size"))?;
        uso = offloads(&fd, config.offload != Offload::Off).map_err(what("the offloads"))?;
        queues.push(Arc::new(fd));
    }
    // Asked of the device itself: one of that name that was there a moment ago may have ended with its process.
    let mut now = IfReq::new(name);
    sys::ioctl(&*queues[0], TUNGETIFF, &mut now).map_err(what("the flags"))?;
    let was_there = now.flags() & IFF_PERSIST != 0;
    let link = Link::here(name, config.netns.as_deref())?;
    let ends = was_there && !config.persist && found.as_ref().is_some_and(Found::is_ours);
    let made = Made { queues, link, uso, made_bridge: false, was_there, made_anew, ends };
    if config.mark.is_some() && found.is_some() && was_there {
        // Daemons work on it: nothing of it is touched.
        return Ok(made);
    }
    let Made { queues, link, .. } = &made;
    let ours = (config.persist && !was_there).then_some(kept::MADE);
    if let Some(mark) = config.mark.as_deref().or(ours) {
        kept::write(link, mark)?;
    }
    if let Some(mac) = config.host_mac
        && link.mac()? != mac
    {
        link.set_mac(mac)?;
    }
    if let Some(mtu) = config.host_mtu {
        link.set_mtu(mtu)?;
    }
    if let Some(ring) = config.rx_ring {
        link.set_tx_queue(ring)?;
    }
    let mut carrier = u32::from(config.carrier);
    sys::ioctl(&*queues[0], TUNSETCARRIER, &mut carrier).map_err(what("the carrier"))?;
    link.set_up(true)?;
    let made_bridge = match &config.bridge {
        Some(bridge) => link.join_bridge(bridge, config.bridge_create)?,
        None => false,
    };
    host::assign(link, config)?;
    Ok(Made { made_bridge, ..made })
}

/// The same on every start, for the namespace and the device's name.
fn stable_mac(config: &Config) -> MacAddr {
    crate::station::of(&[config.netns.as_deref().unwrap_or(""), &config.host_name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_own_address_and_keeps_it() {
        let mac = |name: &str, ns: Option<&str>| {
            stable_mac(&Config { netns: ns.map(str::to_owned), ..Config::new(name, 1) })
        };
        assert_eq!(mac("tap0", None), mac("tap0", None));
        assert_ne!(mac("tap0", None), mac("tap1", None));
        assert_ne!(mac("tap0", None), mac("tap0", Some("blue")));
        assert!(mac("tap0", None).is_unicast());
    }

    #[test]
    fn queues_and_names_are_checked() {
        let e = probe(&Config { rx_queues: 0, ..Config::new("tap0", 1) }).err().unwrap();
        assert!(e.to_string().starts_with("0 receive queues for tap0"), "{e}");
        let e = probe(&Config::new("a-name-of-16-byt", 1)).err().unwrap();
        assert!(e.to_string().contains("more than 15 bytes"), "{e}");
        assert!(probe(&Config::new("tap%d", 1)).is_err());
    }
}
