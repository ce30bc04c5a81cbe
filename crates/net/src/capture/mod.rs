//! Packet capture (`pcap trace`): features on the receive and transmit arcs and a look from `error-drop`, which cost
//! nothing while no capture runs.

mod rx;
mod tx;

pub use rx::CaptureRx;
pub use tx::CaptureTx;

use crate::arcs;
use crate::plane::Plane;
use drivers::pcap::{Capture, Direction};
use graph::arcs::Feature;
use graph::epoch::Published;
use graph::{Buffers, Desc, Guard, Node};
use std::sync::Arc;

/// Where frames are taken that were received.
pub static PCAP_RX: Feature = Feature::new(&arcs::DEVICE_INPUT, CaptureRx::NAME);
/// Where frames are taken that are sent.
pub static PCAP_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, CaptureTx::NAME);

/// The capture that runs, if one does, as it is published for workers.
#[derive(Clone, Default)]
pub struct Running(pub Option<Arc<Capture>>);

impl Running {
    /// Whether frames of an interface are captured that are received, or sent.
    pub fn wants(&self, direction: Direction, interface: u32) -> bool {
        self.0.as_ref().is_some_and(|c| c.wants(direction, interface))
    }
}

/// Where nodes find it.
pub struct Tap(Arc<Published<Running>>);

impl Tap {
    /// Of these workers.
    pub fn of(plane: &Plane) -> Tap {
        Tap(plane.publish())
    }

    /// The capture that runs.
    #[inline]
    pub fn active<'g>(&'g self, guard: &'g Guard) -> Option<Active<'g>> {
        self.0.load(guard).0.as_deref().map(Active)
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
