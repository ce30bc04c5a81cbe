//! Devices without wires: the feed and the sinks as interfaces of the router.

use graph::{RxQueue, TxCaps, TxQueue};
use net::router::{Device, DeviceControl};
use packet::eth::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes of an IP packet on every interface.
pub const MTU: u32 = 9216;

/// The control side of a device that has no wires.
struct NoWires {
    link: Arc<AtomicBool>,
    number: u32,
}

/// A device of these queues, interface number `number`, whose link is what `link` says.
pub fn device(
    number: u32,
    mac: MacAddr,
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
    link: &Arc<AtomicBool>,
) -> Device {
    let control = Box::new(NoWires { link: Arc::clone(link), number });
    Device { rx, tx, caps: TxCaps::default(), mac, mtu: MTU, link: true, control }
}

/// A link that never goes.
pub fn always() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

impl DeviceControl for NoWires {
    fn link(&self) -> bool {
        self.link.load(Ordering::Acquire)
    }

    fn describe(&self) -> String {
        "benchmark".into()
    }

    fn linux(&self) -> Option<(Option<String>, u32)> {
        // No namespace has this name: only the benchmark's own events are about it.
        Some((Some(String::new()), self.number))
    }
}
