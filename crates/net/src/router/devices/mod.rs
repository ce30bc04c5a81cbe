//! Opens the drivers' devices in one shape.

mod config;
mod linux;
mod pcap;
mod tap;

pub use config::{
    HostConfig, HostDriver, Kept, MOST_KEPT, Offload, PcapConfig, Ring, TapConfig, XdpMode, check_held,
    rings_hold,
};
pub use linux::{InLinux, open_host};
pub use pcap::{PcapFiles, open_pcap_files, pcap_device};
pub use tap::{open_companion, open_tap};

use super::aside::Asks;
use super::tell::Todo;
use drivers::{LinkEvent, Resize};
use graph::{RxQueue, TxCaps, TxQueue};
use packet::eth::MacAddr;
use std::os::fd::BorrowedFd;

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
    /// Its receive queues, where their number may be changed while packets flow.
    fn resize(&mut self) -> Option<&mut dyn Resize> {
        None
    }
    /// As [`Resize::open`]; the queues are kept for [`DeviceControl::opened`].
    fn open_queues(&mut self, _queues: usize) -> Result<(), drivers::Error> {
        Err(no_resize())
    }
    /// The queues that [`DeviceControl::open_queues`] has opened.
    fn opened(&mut self) -> Vec<Box<dyn RxQueue>> {
        vec![]
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
    /// The NUMA node to which it belongs, as far as is known.
    fn numa_node(&self) -> Option<u32> {
        None
    }
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

/// Why a device keeps the receive queues that it was opened with.
pub(super) fn no_resize() -> drivers::Error {
    let what = "take other receive queues of this driver".to_owned();
    drivers::Error::System { what, cause: std::io::ErrorKind::Unsupported.into() }
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
