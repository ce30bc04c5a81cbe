//! Sending: sendmmsg with a virtio-net header in front of each packet, one socket a worker.

use crate::linux::{PACKET_QDISC_BYPASS, SOL_PACKET};
use crate::sys::{self, Sent, TxArrays};
use graph::{Buffers, Desc, TxCaps, TxQueue, TxReport, flags};
use std::os::fd::OwnedFd;

/// A transmit queue on an AF_PACKET socket.
pub struct PacketTx {
    socket: OwnedFd,
    arrays: TxArrays,
    caps: TxCaps,
    /// Packets go to the driver without passing the queueing discipline.
    bypass: bool,
}

impl PacketTx {
    /// A queue on a bound socket that wants a virtio-net header.
    pub(super) fn new(socket: OwnedFd, caps: TxCaps) -> PacketTx {
        let mut tx = PacketTx { socket, arrays: TxArrays::new(), caps, bypass: false };
        tx.set_bypass(true);
        tx
    }

    fn set_bypass(&mut self, on: bool) {
        if sys::setsockopt(&self.socket, SOL_PACKET, PACKET_QDISC_BYPASS, &i32::from(on)).is_ok() {
            self.bypass = on;
        }
    }

    /// The kernel segments super-frames for a device that cannot only when they pass the queueing discipline; without
    /// it they are refused as if the device were full. Tries the other way once; true when that worked (and stays).
    #[cold]
    fn retry_without_bypass(&mut self, buffers: &Buffers, d: &Desc) -> bool {
        self.set_bypass(false);
        if !self.bypass && self.arrays.send(&self.socket, buffers, std::slice::from_ref(d)) == Sent::Some(1) {
            return true;
        }
        self.set_bypass(true);
        false
    }
}

impl TxQueue for PacketTx {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn send(&mut self, buffers: &mut Buffers, packets: &[Desc]) -> TxReport {
        let mut report = TxReport::default();
        let mut rest = packets;
        while let Some(first) = rest.first() {
            let mut done = 1;
            let mut taken = 0;
            match self.arrays.send(&self.socket, buffers, rest) {
                Sent::Some(n) => (taken, done) = (n, n.max(1)),
                Sent::Unfit => report.errors += 1,
                Sent::Refused(libc::EINTR) => done = 0,
                Sent::Refused(libc::EAGAIN) => {
                    report.full += rest.len() as u64;
                    done = rest.len();
                }
                Sent::Refused(libc::ENOBUFS)
                    if self.bypass && first.has(flags::GSO) && self.retry_without_bypass(buffers, first) =>
                {
                    taken = 1;
                }
                Sent::Refused(libc::ENOBUFS) => report.full += 1,
                // Nothing of this vector can go out.
                Sent::Refused(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                    report.errors += rest.len() as u64;
                    done = rest.len();
                }
                Sent::Refused(_) => report.errors += 1,
            }
            for d in &rest[..taken] {
                report.bytes += buffers.total_len(d) as u64;
            }
            report.packets += taken as u64;
            rest = &rest[done..];
        }
        for d in packets {
            buffers.free(d);
        }
        report
    }
}
