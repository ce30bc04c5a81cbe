//! Packets for the router end there: a program at a device's ingress (TCX, Linux 6.6) drops frames for the device's own address behind the taps, of
//! which AF_PACKET is one, so that Linux's own input does not work on them a second time.

use crate::bpf::{self, Attach, ProgramKind};
use std::io;
use std::os::fd::OwnedFd;

/// Drops what is for the device's own address: `r2 = skb->pkt_type; r0 = TCX_NEXT; if r2 != PACKET_HOST goto exit; r0 = TCX_DROP; exit`.
/// Frames for groups and for other stations go on: a macvlan device upon this one may be in any namespace, and Linux is soon done with
/// those that are nobody's.
const DROP: [u64; 5] = [
    0x0000_0000_0004_1261,
    0xffff_ffff_0000_00b7,
    0x0000_0000_0001_0255,
    0x0000_0002_0000_00b7,
    0x0000_0000_0000_0095,
];

/// The program at work on a device. It ends with this, or with the process, however that ends: the kernel keeps nothing.
#[derive(Debug)]
pub(crate) struct Shut {
    _link: OwnedFd,
}

impl Shut {
    /// Drops what comes for the device of this index, in the calling thread's namespace, behind the taps and behind programs
    /// that are there already.
    pub fn ingress(ifindex: u32) -> io::Result<Shut> {
        let program = bpf::load(ProgramKind::SchedCls, Attach::TcxIngress, &DROP, 0)?;
        Ok(Shut { _link: bpf::attach(&program, ifindex, Attach::TcxIngress, 0)? })
    }
}
