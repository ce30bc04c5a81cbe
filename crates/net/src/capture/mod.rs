//! Packet capture (`pcap trace`): features on the receive and transmit arcs and a look from `error-drop`, which cost
//! nothing while no capture runs.

mod rx;
mod tx;

pub use rx::CaptureRx;
pub use tx::CaptureTx;

use crate::arcs;
use drivers::pcap::{Capture, Direction};
use graph::arcs::Feature;
use graph::epoch::Published;
use graph::{Buffers, Desc, Guard, Node, Reclaimer};
use std::sync::Arc;

/// Where frames are taken that were received.
pub static PCAP_RX: Feature = Feature::new(&arcs::DEVICE_INPUT, CaptureRx::NAME);
/// Where frames are taken that are sent.
pub static PCAP_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, CaptureTx::NAME);

/// The place where workers find the capture that runs, if one does.
#[derive(Clone)]
pub struct Tap(Arc<Published<Option<Arc<Capture>>>>);

impl Default for Tap {
    fn default() -> Self {
        Self::new()
    }
}

impl Tap {
    /// No capture.
    pub fn new() -> Tap {
        Tap(Arc::new(Published::new(None)))
    }

    /// The capture that runs.
    #[inline]
    pub fn active<'g>(&'g self, guard: &'g Guard) -> Option<Active<'g>> {
        self.0.load(guard).as_deref().map(Active)
    }

    /// The capture that runs, on the control side.
    pub fn capture(&self, guard: &Guard) -> Option<Arc<Capture>> {
        self.0.load(guard).clone()
    }

    /// Starts a capture, or ends it.
    pub fn set(&self, capture: Option<Arc<Capture>>, reclaimer: &mut Reclaimer) {
        self.0.publish(capture, reclaimer);
    }

    /// What the capture that runs asks for.
    pub fn wants(&self, guard: &Guard) -> Option<Wants> {
        self.0.load(guard).clone().map(Wants)
    }
}

/// Which interfaces a capture is about.
pub struct Wants(Arc<Capture>);

impl Wants {
    /// Whether frames received on this interface are captured.
    pub fn rx(&self, interface: u32) -> bool {
        self.0.wants(Direction::Rx, interface)
    }

    /// Whether frames sent on this interface are captured.
    pub fn tx(&self, interface: u32) -> bool {
        self.0.wants(Direction::Tx, interface)
    }
}

/// A running capture as nodes see it.
#[derive(Clone, Copy)]
pub struct Active<'g>(&'g Capture);

impl Active<'_> {
    /// A received frame.
    pub fn rx(&self, b: &Buffers, d: &Desc, now_ns: u64) {
        self.0.append(b, d, d.off, Direction::Rx, d.rx, now_ns);
    }

    /// A frame that is handed to a device.
    pub fn tx(&self, b: &Buffers, d: &Desc, now_ns: u64) {
        self.0.append(b, d, d.off, Direction::Tx, d.tx, now_ns);
    }

    /// A dropped packet, from its link-layer header on.
    pub fn drop(&self, b: &Buffers, d: &Desc, now_ns: u64) {
        if self.0.wants(Direction::Drop, d.rx) {
            self.0.append(b, d, d.l2.min(d.off), Direction::Drop, d.rx, now_ns);
        }
    }
}
