//! Devices of Linux's: with packet sockets, with AF_XDP, and what stands for one that is gone.

use super::config::{HostConfig, HostDriver, TapConfig, XdpMode};
use super::{Device, DeviceControl, caps, list, no_resize, tap};
use crate::router::aside::Asks;
use crate::router::tell::Todo;
use drivers::{Control, LinkEvent, Resize, af_packet, af_xdp};
use graph::{Pool, RxQueue, TxQueue};
use packet::eth::MacAddr;
use std::sync::Arc;
use std::time::Duration;

/// A device of Linux's, by whatever driver.
struct Host<C> {
    handle: C,
    /// Why this driver was chosen, where the operator has left it to Quiver.
    why: Option<String>,
    conflicts: Vec<String>,
    numa: Option<u32>,
    /// Receive queues on their way to workers.
    opened: Vec<Box<dyn RxQueue>>,
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
            Todo::OpenQueues(_) | Todo::TurnQueues(_) | Todo::CloseQueues(_) => false,
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

    fn numa_node(&self) -> Option<u32> {
        self.numa
    }

    fn warnings(&self) -> Vec<String> {
        self.conflicts.clone()
    }

    fn resize(&mut self) -> Option<&mut dyn Resize> {
        self.handle.resize()
    }

    fn open_queues(&mut self, queues: usize) -> Result<(), drivers::Error> {
        let opened = self.handle.resize().ok_or_else(no_resize)?.open(queues)?;
        self.opened.extend(opened);
        Ok(())
    }

    fn opened(&mut self) -> Vec<Box<dyn RxQueue>> {
        std::mem::take(&mut self.opened)
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
            InLinux::Tap(c) => tap::make(
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
    let link = &d.handle.host().link;
    let numa = drivers::numa::of_device(link.name()).filter(|_| link.netns().is_none());
    let control = Host { handle: d.handle, why, conflicts: d.conflicts, numa, opened: vec![] };
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
