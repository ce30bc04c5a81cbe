//! Packet capture (`pcap trace`, and captures that programs follow): features on the receive and transmit arcs and a look from `error-drop`, which cost
//! nothing while no capture runs.

mod rx;
mod tx;

pub use rx::CaptureRx;
pub use tx::CaptureTx;

use crate::arcs;
use crate::plane::Plane;
use drivers::pcap::{Capture, Direction, Ring};
use graph::arcs::Feature;
use graph::epoch::Published;
use graph::{Buffers, Desc, Guard, Node};
use std::sync::Arc;

/// Where frames are taken that were received.
pub static PCAP_RX: Feature = Feature::new(&arcs::DEVICE_INPUT, CaptureRx::NAME);
/// Where frames are taken that are sent.
pub static PCAP_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, CaptureTx::NAME);

/// The captures that run, as they are published for workers.
#[derive(Clone, Default)]
pub struct Running {
    /// The one with a file, if there is one.
    pub file: Option<Arc<Capture>>,
    /// Those that somebody follows.
    pub followed: Vec<Arc<Ring>>,
}

impl Running {
    /// Whether frames of an interface are captured that are received, or sent.
    pub fn wants(&self, direction: Direction, interface: u32) -> bool {
        self.file.as_ref().is_some_and(|c| c.wants(direction, interface))
            || self.followed.iter().any(|r| r.config().wants(direction, interface))
    }

    fn append(
        &self,
        buffers: &Buffers,
        d: &Desc,
        start: u16,
        direction: Direction,
        interface: u32,
        now_ns: u64,
    ) {
        if let Some(c) = self.file.as_ref().filter(|c| c.wants(direction, interface)) {
            c.append(buffers, d, start, direction, interface, now_ns);
        }
        for ring in self.followed.iter().filter(|r| r.config().wants(direction, interface)) {
            ring.append(buffers, d, start, direction, interface, now_ns);
        }
    }
}

/// Where nodes find it.
pub struct Tap(Arc<Published<Running>>);

impl Tap {
    /// Of these workers.
    pub fn of(plane: &Plane) -> Tap {
        Tap(plane.publish())
    }

    /// The captures that run, if any does.
    #[inline]
    pub fn active<'g>(&'g self, guard: &'g Guard) -> Option<Active<'g>> {
        let running = self.0.load(guard);
        (running.file.is_some() || !running.followed.is_empty()).then_some(Active(running))
    }
}

/// Running captures as nodes see them.
#[derive(Clone, Copy)]
pub struct Active<'g>(&'g Running);

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
        self.0.append(b, d, d.l2.min(d.off), Direction::Drop, d.rx, now_ns);
    }
}
