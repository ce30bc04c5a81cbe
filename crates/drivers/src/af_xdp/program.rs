//! The program at the device's receive path: it sends frames to the router's socket of their queue, and leaves Linux what is
//! Linux's.

use super::filter::{self, Kept};
use crate::bpf::{self, Attach, ProgramKind};
use crate::host::MAX_QUEUES;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `BPF_F_XDP_HAS_FRAGS`: it takes frames that lie in several buffers (Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;
// linux/if_link.h
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;
/// `BPF_PSEUDO_MAP_FD`
const MAP: u8 = 1;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
/// Where `struct xdp_md` has the number of the receive queue.
const QUEUE_INDEX: i16 = 16;

/// Where the program works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the device's driver, before Linux has made anything of a frame.
    Native,
    /// In Linux's own receive path, for any device.
    Generic,
}

impl Mode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }
}

/// An instruction (`struct bpf_insn`).
pub(super) const fn instruction(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    code as u64 | ((src << 4 | dst) as u64) << 8 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
}

/// `return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS)`: where there is no socket for the queue, Linux gets the frame.
fn code(map: &OwnedFd) -> Vec<u64> {
    vec![
        // r2 = *(u32 *)(r1 + QUEUE_INDEX)
        instruction(0x61, 2, 1, QUEUE_INDEX, 0),
        // r1 = map
        instruction(0x18, 1, MAP, 0, map.as_raw_fd()),
        0,
        // r3 = XDP_PASS
        instruction(0xb7, 3, 0, 0, XDP_PASS),
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

fn load(code: &[u64], several: bool) -> io::Result<OwnedFd> {
    let kind = if several { HAS_FRAGS } else { 0 };
    bpf::load(ProgramKind::Xdp, Attach::Xdp, code, kind)
}

/// The program at work on a device; it ends with this, or with the process, however that ends.
#[derive(Debug)]
pub(super) struct Program {
    link: OwnedFd,
    /// The sockets by queue.
    pub sockets: OwnedFd,
    /// It takes frames that lie in several buffers.
    pub several: bool,
    code: Vec<u64>,
}

impl Program {
    /// Has a program work on the device of this index, in the calling thread's namespace, which leaves Linux what is kept. It sends nothing
    /// before there are sockets.
    pub fn attach(ifindex: u32, mode: Mode, kept: &[Kept]) -> io::Result<Program> {
        // There may be more than there are at first.
        let sockets = bpf::socket_map(MAX_QUEUES as u32)?;
        let code = filter::code(kept, code(&sockets));
        let flags = match mode {
            Mode::Native => DRV_MODE,
            Mode::Generic => SKB_MODE,
        };
        let with = |several: bool| bpf::attach(&load(&code, several)?, ifindex, Attach::Xdp, flags);
        // An older kernel, or a driver that takes frames of one buffer.
        let (link, several) = match with(true) {
            Ok(link) => (link, true),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(e),
            Err(_) => (with(false)?, false),
        };
        Ok(Program { link, sockets, several, code })
    }

    /// Has it work on all receive queues that the device has by now. A veth takes it for those only that it had when it was attached, and
    /// Linux takes one for another only where it was loaded anew.
    pub fn renew(&self) -> io::Result<()> {
        bpf::update(&self.link, &load(&self.code, self.several)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        bpf::detach(&self.link);
    }
}
