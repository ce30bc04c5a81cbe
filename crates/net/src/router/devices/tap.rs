//! TAPs.

use super::config::TapConfig;
use super::{Device, DeviceControl, caps, list};
use crate::router::aside::Asks;
use crate::router::tell::Todo;
use drivers::{LinkEvent, tap};
use graph::TxQueue;
use packet::eth::MacAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

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

    fn warnings(&self) -> Vec<String> {
        let name = self.0.link.name();
        let anew = self.0.made_anew.then(|| {
            format!(
                "{name} had one queue and was made anew with several: what it had in Linux by hand is gone"
            )
        });
        anew.into_iter().collect()
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
    make(c, None, index, workers, None).map_err(|e| e.to_string())
}

/// Makes one that outlives the router, or takes it over; its queue may have been kept.
pub fn open_companion(
    c: &TapConfig,
    queue: Option<OwnedFd>,
    index: u32,
    workers: usize,
) -> Result<Device, String> {
    make(c, queue.map(Arc::new), index, workers, None).map_err(|e| e.to_string())
}

pub(super) fn make(
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
