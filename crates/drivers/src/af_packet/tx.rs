//! Sending: sendmmsg with a virtio-net header in front of each packet, one socket a worker.

use crate::linux::{PACKET_QDISC_BYPASS, SOL_PACKET};
use crate::stage::{Form, Stage};
use crate::sys::{self, Sent, TxArrays};
use graph::{Buffers, Packets, TxCaps, TxQueue, TxReport};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long an answer to whether the device has carrier is good: asking takes a lock of Linux's.
const CARRIER: Duration = Duration::from_millis(10);

/// A transmit queue on an AF_PACKET socket.
pub struct PacketTx {
    stage: Stage,
    out: Out,
    caps: TxCaps,
}

struct Out {
    socket: OwnedFd,
    arrays: TxArrays,
    /// Packets go to the driver without passing the queueing discipline.
    bypass: bool,
    /// The device.
    name: String,
    /// Whether it had no carrier, and when that was asked: when packets were refused.
    no_carrier: Option<(bool, Instant)>,
}

impl PacketTx {
    /// A queue on a bound socket that wants a virtio-net header.
    pub(super) fn new(name: &str, socket: OwnedFd, form: Form, caps: TxCaps) -> PacketTx {
        let name = name.to_owned();
        let mut out = Out { socket, arrays: TxArrays::new(), bypass: false, name, no_carrier: None };
        out.set_bypass(true);
        PacketTx { stage: Stage::new(form), out, caps }
    }
}

impl Out {
    fn set_bypass(&mut self, on: bool) {
        if sys::setsockopt(&self.socket, SOL_PACKET, PACKET_QDISC_BYPASS, &i32::from(on)).is_ok() {
            self.bypass = on;
        }
    }

    /// The kernel segments super-frames for a device that cannot only when they pass the queueing discipline; without
    /// it they are refused as if the device were full. Tries the other way once; the number of packets sent when that
    /// worked (and stays), or 0.
    #[cold]
    fn retry_without_bypass(&mut self, stage: &Stage, buffers: &Buffers, from: usize) -> usize {
        self.set_bypass(false);
        if !self.bypass
            && let Sent::Some(n) = self.arrays.send(&self.socket, buffers, stage, from)
        {
            return n;
        }
        self.set_bypass(true);
        0
    }

    /// Whether a device that is "full" has lost its carrier: Linux's answer is the same.
    #[cold]
    fn has_no_carrier(&mut self) -> bool {
        if let Some((answer, _)) = self.no_carrier.filter(|(_, at)| at.elapsed() < CARRIER) {
            return answer;
        }
        let answer = sys::running(&self.socket, &self.name).is_ok_and(|running| !running);
        self.no_carrier = Some((answer, Instant::now()));
        answer
    }

    /// Hands over what is staged.
    fn push(&mut self, stage: &mut Stage, buffers: &Buffers, report: &mut TxReport) {
        let (mut at, end) = (0, stage.len());
        while at < end {
            let rest = (end - at) as u64;
            let mut sent = 0;
            match self.arrays.send(&self.socket, buffers, stage, at) {
                Sent::Some(n) => sent = n,
                Sent::Refused(libc::EINTR) => continue,
                Sent::Refused(libc::EAGAIN) => {
                    report.full += rest;
                    break;
                }
                Sent::Refused(libc::ENOBUFS) => {
                    if self.bypass && stage.is_super_frame(at) {
                        sent = self.retry_without_bypass(stage, buffers, at);
                    }
                    if sent == 0 && self.has_no_carrier() {
                        report.no_link += rest;
                        break;
                    }
                    report.full += u64::from(sent == 0);
                }
                // Nothing of this vector can go out.
                Sent::Refused(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                    report.no_link += rest;
                    break;
                }
                Sent::Refused(_) => report.errors += 1,
            }
            for n in at..at + sent {
                report.bytes += stage.bytes(n) as u64;
            }
            report.packets += sent as u64;
            at += sent.max(1);
        }
        stage.clear();
    }
}

impl TxQueue for PacketTx {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut report = TxReport::default();
        let PacketTx { stage, out, .. } = self;
        for d in packets.iter() {
            if !stage.put(buffers, d, |stage, buffers| out.push(stage, buffers, &mut report)) {
                report.errors += 1;
            }
        }
        out.push(stage, buffers, &mut report);
        buffers.free_all(packets);
        report
    }
}
