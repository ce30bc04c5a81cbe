//! Opens the drivers' devices in one shape.

use super::aside::Asks;
use super::tap_addresses::TapAddresses;
use super::tell::Todo;
use super::{check_namespace, is_tap_host};
use drivers::{Control, Files, LinkEvent, af_packet, af_xdp, pcap, tap};
use graph::io::Ready;
use graph::{Buffers, Packets, Pool, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth::MacAddr;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use drivers::Offload;
/// Layout of an AF_PACKET receive ring.
pub use drivers::af_packet::RingVersion as Ring;

/// Where the program of an AF_XDP device works.
pub use drivers::af_xdp::{Kept, MOST_KEPT, Mode as XdpMode};

/// Who brings the packets of a Linux device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostDriver {
    /// Packet sockets.
    #[default]
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
    /// AF_XDP where the device's own driver works with it and it suits the device, else AF_PACKET.
    Auto,
}

impl HostDriver {
    /// All, with their names.
    pub const ALL: [(&'static str, HostDriver); 3] =
        [("af-packet", HostDriver::AfPacket), ("af-xdp", HostDriver::AfXdp), ("auto", HostDriver::Auto)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, d)| *d == self).map_or("", |(name, _)| name)
    }
}

/// A device of Linux's.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Who brings its packets.
    pub driver: HostDriver,
    /// Where AF_XDP's program works; where it works best when absent.
    pub mode: Option<XdpMode>,
    /// Frames that AF_XDP leaves to Linux, [`MOST_KEPT`] rules at most.
    pub kept: Vec<Kept>,
    /// The device.
    pub host: String,
    /// Its network namespace; Quiver's own when absent.
    pub netns: Option<String>,
    /// Receive queues, 1 to 64.
    pub rx_queues: usize,
    /// Ring layout.
    pub ring: Ring,
    /// Slots of a ring.
    pub slots: Option<usize>,
    /// Who completes checksums and cuts super-frames that are sent.
    pub offload: Offload,
}

impl HostConfig {
    /// Whether what it says fits its driver.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn check(&self) -> Result<(), String> {
        let xdp = self.driver == HostDriver::AfXdp;
        let name = self.driver.name();
        let wrong = [
            (self.mode.is_some() && !xdp, "a mode is AF_XDP's alone"),
            (
                !self.kept.is_empty() && self.driver == HostDriver::AfPacket,
                "what is left to Linux needs AF_XDP, or auto",
            ),
            (self.offload != Offload::Auto && xdp, "AF_XDP leaves nothing to the device: no offload"),
            (self.ring != Ring::V2 && xdp, "the rings of AF_XDP have no version"),
        ];
        if let Some((_, why)) = wrong.iter().find(|(is, _)| *is) {
            return Err(format!("{why}; the driver is {name}"));
        }
        match self.kept.len() {
            0..=MOST_KEPT => Ok(()),
            n => Err(format!("{n} rules, where {MOST_KEPT} rules of what is left to Linux are the most")),
        }
    }

    /// One queue.
    pub fn new(host: &str) -> Self {
        let d = af_packet::Config::new(host, 0);
        HostConfig {
            driver: HostDriver::AfPacket,
            mode: None,
            kept: vec![],
            host: host.into(),
            netns: None,
            rx_queues: 1,
            ring: d.ring,
            slots: d.slots,
            offload: d.offload,
        }
    }
}

/// Buffers, of a pool of `buffers`, that the receive rings of a Linux device hold: those of AF_XDP do, for as long as it is there.
pub fn rings_hold(driver: HostDriver, queues: usize, slots: Option<usize>, buffers: usize) -> usize {
    match driver {
        HostDriver::AfXdp => queues * af_xdp::slots(slots, queues, buffers),
        // Where `auto` takes AF_XDP the driver looks at that device alone, and takes AF_PACKET instead.
        HostDriver::AfPacket | HostDriver::Auto => 0,
    }
}

/// Whether receive rings that hold `need` buffers together leave enough of a pool.
///
/// # Errors
/// They do not, in words.
pub fn check_held(need: usize, buffers: usize) -> Result<(), String> {
    let most = af_xdp::most_held(buffers);
    if need <= most {
        return Ok(());
    }
    Err(format!(
        "the receive rings of all AF_XDP devices would hold {need} of the router's {buffers} buffers, of which they may have {most}: \
         fewer queues or slots (`rx-ring`), or more buffers (`quiver.buffers.count`)"
    ))
}

/// Capture files in place of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct PcapConfig {
    /// File that received packets are read from.
    pub read: Option<String>,
    /// File that sent packets are written to.
    pub write: Option<String>,
    /// Packets a second; as fast as it goes when absent.
    pub pps: Option<u64>,
    /// Start again at the end of the file.
    pub repeat: bool,
}

/// A TAP and its host side.
#[derive(Clone, Debug, PartialEq)]
pub struct TapConfig {
    /// Name of the Linux side.
    pub host_name: String,
    /// Namespace of the Linux side.
    pub netns: Option<String>,
    /// Make the namespace when there is none.
    pub netns_create: bool,
    /// MAC of the Linux side.
    pub host_mac: Option<MacAddr>,
    /// MTU of the Linux side.
    pub host_mtu: Option<u32>,
    /// Addresses of the Linux side.
    pub addresses: TapAddresses,
    /// Linux bridge that it joins.
    pub bridge: Option<String>,
    /// Make the bridge when there is none.
    pub bridge_create: bool,
    /// It outlives Quiver.
    pub persist: bool,
    /// It outlives Quiver, and this is written on it: it is taken over again as it is.
    pub mark: Option<String>,
    /// Receive queues, 1 to 64.
    pub rx_queues: usize,
    /// Packets that wait from Linux to Quiver.
    pub rx_ring: Option<u32>,
    /// Who completes checksums and cuts super-frames.
    pub offload: Offload,
}

impl PcapConfig {
    /// Whether its parts fit together.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.read.is_none() && self.write.is_none() {
            return Err("neither `read` nor `write` is given".into());
        }
        if self.read.is_none() && (self.pps.is_some() || self.repeat) {
            return Err("a rate, or to begin again, is of a file that is read: there is no `read`".into());
        }
        if self.read.is_some() && self.read == self.write {
            return Err("packets are read from and written to one file: write to another one".into());
        }
        Ok(())
    }
}

impl TapConfig {
    /// Whether a document could say it of the TAP `name`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let number = name.strip_prefix("tap").and_then(|n| n.parse::<u32>().ok());
        if number.is_none_or(|n| n > 1024 || name != format!("tap{n}")) {
            return Err("TAPs are tap0 to tap1024".into());
        }
        if !is_tap_host(&self.host_name) {
            return Err(format!(
                "{:?} cannot name its Linux side: a lower-case letter, then lower-case letters, digits and '-', at \
                 most 15",
                self.host_name
            ));
        }
        self.netns.as_deref().map_or(Ok(()), check_namespace)?;
        self.addresses.check(self.bridge.is_some(), self.host_mtu)
    }

    /// One queue.
    pub fn new(host_name: &str) -> Self {
        TapConfig {
            host_name: host_name.into(),
            netns: None,
            netns_create: false,
            host_mac: None,
            host_mtu: None,
            addresses: TapAddresses::default(),
            bridge: None,
            bridge_create: false,
            persist: false,
            mark: None,
            rx_queues: 1,
            rx_ring: None,
            offload: Offload::Auto,
        }
    }
}

/// The control side of an open device. What a device has no use for it need not say.
pub trait DeviceControl: Send {
    /// Whom one waits for who tells it something, opens or closes it.
    fn asks(&self) -> Asks {
        Asks::Nobody
    }
    /// Whether nobody is asked for it to be as it is told.
    fn is_so(&self, _todo: &Todo) -> bool {
        false
    }
    /// Brings it up or down.
    fn set_up(&mut self, _up: bool) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Makes it take IP packets of `mtu` bytes.
    fn set_mtu(&mut self, _mtu: u16) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Has the device take IP packets of `bytes` bytes, tags included, and no more than it would without the router or these: what
    /// was raised for more is put back.
    fn fit(&mut self, _bytes: u32) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Makes room for frames whose tags make them longer than Linux allows an IP packet of `bytes` to be.
    fn fit_tagged(&mut self, _bytes: u32) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Sets its MAC address.
    fn set_mac(&mut self, _mac: MacAddr) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Takes frames for any station, or not.
    fn set_promiscuous(&mut self, _on: bool) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// Takes frames for a group, or not.
    fn set_group(&mut self, _group: MacAddr, _wanted: bool) -> Result<(), drivers::Error> {
        Ok(())
    }
    /// The interface has been set up or down for all to see: the device may begin to give packets, or must pause.
    /// Wires have no say in that.
    fn admitted(&mut self, _up: bool) {}
    /// Its creation is undone: what outlives the router otherwise goes, if it was made for it.
    fn unmake(&mut self) {}
    /// It goes for good: what outlives the router otherwise goes with it.
    fn delete(&mut self) {}
    /// What outlives the router otherwise ends with its queues: it is where nobody looks for it.
    fn unmake_moved(&mut self) {}
    /// A queue of a device that is to stay open while the router is started anew.
    fn queue(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// An earlier run has left it.
    fn was_there(&self) -> bool {
        false
    }
    /// One transmit queue more, for a worker; none where it sends nothing.
    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(None)
    }
    /// Whether it has link.
    fn link(&self) -> bool;
    /// Packets dropped before they reached the graph, by reason.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }
    /// Those of each receive queue, since the device is open; nothing where the driver counts them for all together.
    fn queue_drops(&self) -> Vec<Vec<(&'static str, u64)>> {
        vec![]
    }
    /// What the device itself counts, by its driver's names.
    fn statistics(&self) -> Vec<(String, u64)> {
        vec![]
    }
    /// Driver and device, in one line.
    fn describe(&self) -> String;
    /// What the operator should know of the device, a sentence each.
    fn warnings(&self) -> Vec<String> {
        vec![]
    }
    /// Linux's MTU and MAC address of the device, where they are not the interface's own.
    fn settings(&self) -> Option<(u32, MacAddr)> {
        None
    }
    /// Looks at them after an event of the device in Linux; whether it has link now, and the MTU and the MAC address that somebody else
    /// has changed. It waits for no lock of Linux's.
    fn look(&mut self, event: &LinkEvent) -> (bool, Option<u32>, Option<MacAddr>) {
        (event.running, None, None)
    }
    /// Whether the device is gone, and Linux has not told yet.
    fn dead(&self) -> bool {
        false
    }
    /// False where the device is gone, and may come back.
    fn present(&self) -> bool {
        true
    }
    /// Namespace and Linux index of the device, where Linux reports its changes.
    fn linux(&self) -> Option<(Option<String>, u32)> {
        None
    }
    /// Whether that is this one. Every event of every device asks it of all interfaces.
    fn is_linux(&self, netns: Option<&str>, number: u32) -> bool {
        self.linux().is_some_and(|(ns, n)| n == number && ns.as_deref() == netns)
    }
}

/// An open device.
pub struct Device {
    /// Its receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Its transmit queues, one a worker.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// What it does for packets sent.
    pub caps: TxCaps,
    /// Quiver's MAC address on it.
    pub mac: MacAddr,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it has link.
    pub link: bool,
    /// Its control side.
    pub control: Box<dyn DeviceControl>,
}

fn caps(tx: &[Box<dyn TxQueue>]) -> TxCaps {
    tx.first().map(|q| q.caps()).unwrap_or_default()
}

fn list(d: drivers::RxDrops) -> Vec<(&'static str, u64)> {
    vec![
        ("no-buffer", d.no_buffer),
        ("malformed-offload", d.malformed),
        ("truncated", d.truncated),
        ("rx-ring-full", d.ring_full),
    ]
}

/// A device of Linux's, by whatever driver.
struct Host<C> {
    handle: C,
    /// Why this driver was chosen, where the operator has left it to Quiver.
    why: Option<String>,
    conflicts: Vec<String>,
}

impl<C: Control + Send> DeviceControl for Host<C> {
    fn asks(&self) -> Asks {
        Asks::Linux
    }

    fn is_so(&self, todo: &Todo) -> bool {
        let host = self.handle.host();
        match todo {
            Todo::Up(up) => !up,
            Todo::Mtu(mtu) => host.known().0 >= u32::from(*mtu),
            Todo::Fit(bytes) => host.fits(*bytes),
            Todo::FitTagged(bytes, _) => host.known().0 >= *bytes,
            Todo::Mac(mac) => host.known().1 == *mac,
            Todo::Promiscuous(on) => host.promiscuous() == *on,
            Todo::Group(..) | Todo::Look(_) => false,
        }
    }

    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        // The device's own state is Linux's: a router that goes down must not cut the host's other uses of it.
        if up { self.handle.host().link.set_up(true) } else { Ok(()) }
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), drivers::Error> {
        self.handle.host_mut().raise_mtu(u32::from(mtu))
    }

    fn fit(&mut self, bytes: u32) -> Result<(), drivers::Error> {
        self.handle.host_mut().fit_mtu(bytes)
    }

    fn fit_tagged(&mut self, bytes: u32) -> Result<(), drivers::Error> {
        self.handle.host_mut().raise_mtu(bytes)
    }

    fn set_mac(&mut self, mac: MacAddr) -> Result<(), drivers::Error> {
        self.handle.host_mut().set_mac(mac)
    }

    fn dead(&self) -> bool {
        !self.handle.alive()
    }

    fn settings(&self) -> Option<(u32, MacAddr)> {
        Some(self.handle.host().known())
    }

    fn look(&mut self, event: &LinkEvent) -> (bool, Option<u32>, Option<MacAddr>) {
        let (mtu, mac) = self.handle.look(event);
        (self.handle.alive() && event.running, mtu, mac)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), drivers::Error> {
        self.handle.host_mut().set_promiscuous(on)
    }

    fn set_group(&mut self, group: MacAddr, wanted: bool) -> Result<(), drivers::Error> {
        self.handle.host_mut().set_group(group, wanted)
    }

    fn link(&self) -> bool {
        self.handle.alive() && self.handle.host().link.running().unwrap_or(false)
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        list(self.handle.drops())
    }

    fn queue_drops(&self) -> Vec<Vec<(&'static str, u64)>> {
        self.handle.queue_drops().into_iter().map(list).collect()
    }

    fn describe(&self) -> String {
        let why = self.why.as_ref().map_or(String::new(), |why| format!(" (auto: {why})"));
        self.handle.describe() + &why
    }

    fn warnings(&self) -> Vec<String> {
        self.conflicts.clone()
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        self.handle.transmit_queue().map(Some)
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        Some((self.handle.host().link.netns().map(str::to_string), self.handle.host().ifindex))
    }

    fn is_linux(&self, netns: Option<&str>, number: u32) -> bool {
        let host = self.handle.host();
        host.ifindex == number && host.link.netns() == netns
    }
}

/// What stands for an interface in Linux, with all that it takes to open it anew.
#[derive(Clone, Debug)]
pub enum InLinux {
    /// A device of somebody else's.
    Host(HostConfig),
    /// The host side of a TAP.
    Tap(TapConfig),
}

impl InLinux {
    /// Its name there.
    pub fn name(&self) -> &str {
        match self {
            InLinux::Host(c) => &c.host,
            InLinux::Tap(c) => &c.host_name,
        }
    }

    /// Its namespace; Quiver's own when absent.
    pub fn netns(&self) -> Option<&str> {
        match self {
            InLinux::Host(c) => c.netns.as_deref(),
            InLinux::Tap(c) => c.netns.as_deref(),
        }
    }

    /// The control side of a device that is gone: takes every setting, for when it is back.
    pub fn absent(&self) -> Box<dyn DeviceControl> {
        Box::new(Absent(self.clone()))
    }

    /// Opens a device that was gone, or makes a TAP that was deleted, at once or not at all.
    ///
    /// # Errors
    /// It is not there, its namespace is gone, or Linux refuses.
    pub fn reopen(&self, index: u32, workers: usize, pool: &Arc<Pool>) -> Result<Device, drivers::Error> {
        match self {
            InLinux::Host(c) => open_linux(c, index, workers, pool, Some(Duration::ZERO)),
            // A namespace that was taken away is for somebody else to bring back.
            InLinux::Tap(c) => make_tap(
                &TapConfig { netns_create: false, ..c.clone() },
                None,
                index,
                workers,
                Some(Duration::ZERO),
            ),
        }
    }

    /// Whether an error of [`InLinux::reopen`] only says that it is still gone.
    pub fn still_gone(&self, e: &drivers::Error) -> bool {
        match self {
            InLinux::Host(c) => drivers::Link::open(&c.host, c.netns.as_deref()).is_err(),
            InLinux::Tap(_) => matches!(e, drivers::Error::NoNamespace { .. }),
        }
    }
}

/// Stands for a Linux device that is gone.
struct Absent(InLinux);

impl DeviceControl for Absent {
    fn link(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        match &self.0 {
            InLinux::Host(c) => {
                let driver = c.driver.name();
                format!("{driver} on Linux device {}, which is gone: goes on when it is back", c.host)
            }
            InLinux::Tap(c) => {
                format!("tap with Linux device {}, which is gone: made anew when it can be", c.host_name)
            }
        }
    }

    fn present(&self) -> bool {
        false
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        // No device has this number.
        Some((self.0.netns().map(str::to_string), 0))
    }
}

/// Opens a Linux device.
pub fn open_host(c: &HostConfig, index: u32, workers: usize, pool: &Arc<Pool>) -> Result<Device, String> {
    open_linux(c, index, workers, pool, None).map_err(|e| e.to_string())
}

fn open_linux(
    c: &HostConfig,
    index: u32,
    workers: usize,
    pool: &Arc<Pool>,
    patience: Option<Duration>,
) -> Result<Device, drivers::Error> {
    match c.driver {
        HostDriver::AfPacket => open_af_packet(c, index, workers, patience, None),
        HostDriver::AfXdp => open_af_xdp(c, index, workers, pool, patience, None),
        HostDriver::Auto => {
            if let Some(why) = af_xdp::objection(&c.host, c.netns.as_deref())? {
                return open_af_packet(c, index, workers, patience, Some(why));
            }
            // In generic mode AF_XDP is no faster than AF_PACKET.
            let native = HostConfig { mode: Some(XdpMode::Native), ..c.clone() };
            let why = "the device's driver works with AF_XDP";
            match open_af_xdp(&native, index, workers, pool, patience, Some(why.into())) {
                Err(e) if e.is_of_driver() => {
                    open_af_packet(c, index, workers, patience, Some(format!("no AF_XDP: {e}")))
                }
                other => other,
            }
        }
    }
}

fn open_af_xdp(
    c: &HostConfig,
    index: u32,
    workers: usize,
    pool: &Arc<Pool>,
    patience: Option<Duration>,
    why: Option<String>,
) -> Result<Device, drivers::Error> {
    let usual = af_xdp::Config::new(&c.host, index, pool);
    let config = af_xdp::Config {
        patience: patience.unwrap_or(usual.patience),
        netns: c.netns.clone(),
        rx_queues: c.rx_queues,
        tx_queues: workers,
        slots: c.slots,
        mode: c.mode,
        kept: c.kept.clone(),
        ..usual
    };
    Ok(linux_device(af_xdp::open(&config)?, why))
}

fn linux_device<C: Control + Send + 'static>(d: drivers::host::Device<C>, why: Option<String>) -> Device {
    let control = Host { handle: d.handle, why, conflicts: d.conflicts };
    let link = control.link();
    Device { caps: caps(&d.tx), rx: d.rx, tx: d.tx, mac: d.mac, mtu: d.mtu, link, control: Box::new(control) }
}

fn open_af_packet(
    c: &HostConfig,
    index: u32,
    workers: usize,
    patience: Option<Duration>,
    why: Option<String>,
) -> Result<Device, drivers::Error> {
    let usual = af_packet::Config::new(&c.host, index);
    let config = af_packet::Config {
        patience: patience.unwrap_or(usual.patience),
        netns: c.netns.clone(),
        rx_queues: c.rx_queues,
        tx_queues: workers,
        ring: c.ring,
        slots: c.slots,
        offload: c.offload,
        ..usual
    };
    Ok(linux_device(af_packet::open(&config)?, why))
}

struct TapControl(tap::Handle);

impl DeviceControl for TapControl {
    fn asks(&self) -> Asks {
        Asks::Linux
    }

    fn is_so(&self, todo: &Todo) -> bool {
        // Its own side has no settings in Linux but these.
        !matches!(todo, Todo::Up(_) | Todo::Mtu(_) | Todo::Look(_))
    }

    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        self.0.set_carrier(up)
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), drivers::Error> {
        self.0.link.set_mtu(u32::from(mtu))
    }

    fn unmake(&mut self) {
        self.0.unmake();
    }

    fn delete(&mut self) {
        self.0.delete();
    }

    fn unmake_moved(&mut self) {
        let _ = self.0.set_persist(false);
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.queue())
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(Some(self.0.transmit_queue()))
    }

    fn was_there(&self) -> bool {
        self.0.was_there
    }

    fn link(&self) -> bool {
        self.0.alive() && self.0.link.state().is_ok_and(|s| s.up)
    }

    fn look(&mut self, _event: &LinkEvent) -> (bool, Option<u32>, Option<MacAddr>) {
        // Its link is that its host side is up.
        (self.link(), None, None)
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        list(self.0.drops())
    }

    fn queue_drops(&self) -> Vec<Vec<(&'static str, u64)>> {
        self.0.queue_drops().into_iter().map(list).collect()
    }

    fn describe(&self) -> String {
        let place = self.0.link.netns().map_or(String::new(), |n| format!(" in namespace {n}"));
        format!("tap with Linux device {}{place}", self.0.link.name())
    }

    fn dead(&self) -> bool {
        self.0.deleted()
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        Some((self.0.link.netns().map(str::to_string), self.0.ifindex))
    }

    fn is_linux(&self, netns: Option<&str>, number: u32) -> bool {
        self.0.ifindex == number && self.0.link.netns() == netns
    }
}

/// Makes a TAP.
pub fn open_tap(c: &TapConfig, index: u32, workers: usize) -> Result<Device, String> {
    make_tap(c, None, index, workers, None).map_err(|e| e.to_string())
}

/// Makes one that outlives the router, or takes it over; its queue may have been kept.
pub fn open_companion(
    c: &TapConfig,
    queue: Option<OwnedFd>,
    index: u32,
    workers: usize,
) -> Result<Device, String> {
    make_tap(c, queue.map(Arc::new), index, workers, None).map_err(|e| e.to_string())
}

fn make_tap(
    c: &TapConfig,
    queue: Option<Arc<OwnedFd>>,
    index: u32,
    workers: usize,
    patience: Option<Duration>,
) -> Result<Device, drivers::Error> {
    let usual = tap::Config::new(&c.host_name, index);
    let config = tap::Config {
        patience: patience.unwrap_or(usual.patience),
        netns: c.netns.clone(),
        netns_create: c.netns_create,
        host_mac: c.host_mac,
        host_mtu: c.host_mtu,
        addresses: c.addresses.nets().map(|n| (n.addr(), n.prefix_len())).collect(),
        gateways: c.addresses.gateways().collect(),
        bridge: c.bridge.clone(),
        bridge_create: c.bridge_create,
        persist: c.persist,
        mark: c.mark.clone(),
        queue,
        rx_queues: c.rx_queues,
        tx_queues: workers,
        rx_ring: c.rx_ring,
        offload: c.offload,
        carrier: false,
        ..usual
    };
    let d = tap::open(&config)?;
    let control = TapControl(d.handle);
    let link = control.link();
    Ok(Device {
        caps: caps(&d.tx),
        rx: d.rx,
        tx: d.tx,
        mac: d.mac,
        mtu: d.mtu,
        link,
        control: Box::new(control),
    })
}

/// A capture file whose packets wait until the interface is up: unlike a wire, it can.
struct Gated {
    file: pcap::PcapRx,
    open: Arc<AtomicBool>,
}

impl RxQueue for Gated {
    fn interface(&self) -> u32 {
        self.file.interface()
    }

    fn input_node(&self) -> &'static str {
        self.file.input_node()
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        if self.open.load(Ordering::Acquire) { self.file.poll(buffers, now_ns, out) } else { 0 }
    }

    fn ready(&self) -> Ready {
        if self.open.load(Ordering::Acquire) { self.file.ready() } else { Ready::Never }
    }
}

struct PcapControl {
    words: String,
    open: Arc<AtomicBool>,
    file: Option<Shared>,
}

impl DeviceControl for PcapControl {
    fn asks(&self) -> Asks {
        Asks::Disk
    }

    fn admitted(&mut self, up: bool) {
        self.open.store(up, Ordering::Release);
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.file.clone().map(|file| Box::new(file) as Box<dyn TxQueue>))
    }

    fn link(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.words.clone()
    }
}

/// A transmit queue that several workers share: only for capture files, whose writing is slow anyway.
#[derive(Clone)]
struct Shared(Arc<Mutex<pcap::PcapTx>>);

impl TxQueue for Shared {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(buffers, packets)
    }

    fn flush(&mut self, buffers: &mut Buffers) -> TxReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush(buffers)
    }
}

/// Capture files that are open, and loaded as far as they will be.
pub struct PcapFiles {
    config: PcapConfig,
    read: Option<pcap::PcapRx>,
    write: Option<pcap::PcapTx>,
}

/// Opens capture files, which may take long: they may be large, and their disk far away.
pub fn open_pcap_files(c: &PcapConfig, files: &Files) -> Result<PcapFiles, String> {
    let name = |file: &str, what: &str, e: std::io::Error| format!("cannot {what} {file}: {e}");
    let read =
        c.read.as_ref().map(|f| files.read(Path::new(f)).map_err(|e| name(f, "read", e))).transpose()?;
    let write =
        c.write.as_ref().map(|f| files.write(Path::new(f)).map_err(|e| name(f, "write", e))).transpose()?;
    if let (Some(from), Some(to), Some(file)) = (&read, &write, &c.write)
        && drivers::files::are_same(from, to).map_err(|e| name(file, "write", e))?
    {
        return Err(format!("{file} cannot be read and written at the same time: name two files"));
    }
    let load = |(file, opened): (&String, File)| {
        let rate = c.pps.map_or(pcap::PcapRate::Max, |pps| pcap::PcapRate::Pps(pps as f64));
        let passes = if c.repeat { 0 } else { 1 };
        let config = pcap::PcapConfig { rate, passes, ..pcap::PcapConfig::new(file, 0) };
        pcap::PcapRx::of(opened, &config).map_err(|e| format!("{file}: {e}"))
    };
    let read = c.read.as_ref().zip(read).map(load).transpose()?;
    let begin =
        |(file, opened): (&String, File)| pcap::PcapTx::of(opened).map_err(|e| name(file, "write", e));
    let write = c.write.as_ref().zip(write).map(begin).transpose()?;
    Ok(PcapFiles { config: c.clone(), read, write })
}

/// The device of capture files.
pub fn pcap_device(files: PcapFiles, index: u32, workers: usize) -> Device {
    let PcapFiles { config: c, read, write } = files;
    let mut rx: Vec<Box<dyn RxQueue>> = vec![];
    let mut words = String::from("pcap");
    let open = Arc::new(AtomicBool::new(false));
    if let (Some(file), Some(mut queue)) = (&c.read, read) {
        queue.set_interface(index);
        rx.push(Box::new(Gated { file: queue, open: Arc::clone(&open) }));
        words.push_str(&format!(" reading {file}"));
    }
    let mut tx: Vec<Box<dyn TxQueue>> = vec![];
    let shared = write.map(|queue| Shared(Arc::new(Mutex::new(queue))));
    if let (Some(file), Some(shared)) = (&c.write, &shared) {
        tx.extend((0..workers).map(|_| Box::new(shared.clone()) as Box<dyn TxQueue>));
        words.push_str(&format!(" writing {file}"));
    }
    let mac = MacAddr([0x02, 0xfe, 0x70, (index >> 16) as u8, (index >> 8) as u8, index as u8]);
    let control = Box::new(PcapControl { words, open, file: shared });
    Device { rx, caps: caps(&tx), tx, mac, mtu: 9000, link: true, control }
}
