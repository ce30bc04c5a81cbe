//! Packets for the router end there: a program at a device's ingress (TCX, Linux 6.6) drops frames for the device's own address behind the taps, of
//! which AF_PACKET is one, so that Linux's own input does not work on them a second time.

#![allow(unsafe_code)]

use crate::sys;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

// linux/bpf.h
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
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
const LICENSE: &CStr = c"Apache-2.0";

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: *const u64,
    license: *const std::ffi::c_char,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    pad: u32,
    expected_revision: u64,
}

/// The program at work on a device. It ends with this, or with the process, however that ends: the kernel keeps nothing.
#[derive(Debug)]
pub(crate) struct Shut {
    _link: OwnedFd,
}

impl Shut {
    /// Drops what comes for the device of this index, in the calling thread's namespace, behind the taps and behind programs
    /// that are there already.
    pub fn ingress(ifindex: u32) -> io::Result<Shut> {
        let load = ProgLoad {
            prog_type: BPF_PROG_TYPE_SCHED_CLS,
            insn_cnt: DROP.len() as u32,
            insns: DROP.as_ptr(),
            license: LICENSE.as_ptr(),
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: 0,
            prog_name: *b"quiver\0\0\0\0\0\0\0\0\0\0",
            prog_ifindex: 0,
            expected_attach_type: BPF_TCX_INGRESS,
        };
        // SAFETY: the pointers are to statics: a program of as many instructions as it says, and a terminated string.
        let program = unsafe { sys::bpf(BPF_PROG_LOAD, &load) }?;
        let create = LinkCreate {
            prog_fd: program.as_raw_fd().unsigned_abs(),
            target_ifindex: ifindex,
            attach_type: BPF_TCX_INGRESS,
            flags: 0,
            relative_fd: 0,
            pad: 0,
            expected_revision: 0,
        };
        // SAFETY: there is no pointer in it.
        Ok(Shut { _link: unsafe { sys::bpf(BPF_LINK_CREATE, &create) }? })
    }
}
