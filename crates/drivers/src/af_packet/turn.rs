//! How sockets take a device's packets over from others: each packet comes to one or the other, whenever that happens.
//!
//! Linux shows a packet to those first that were made last, one after another on one processor. So a program at the new sockets decides, and
//! leaves for each processor what it decided; one at the sockets before takes what that left.

use crate::bpf::{self, Attach, ProgramKind};
use crate::linux::SO_ATTACH_BPF;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Programs that share packets between the sockets before and those behind a change.
pub(super) struct Turn {
    decision: OwnedFd,
    before: OwnedFd,
    behind: OwnedFd,
}

impl Turn {
    /// Programs by which all comes to the sockets before.
    pub fn load() -> io::Result<Turn> {
        let (decision, decided) = (bpf::number_map(false)?, bpf::number_map(true)?);
        let load = |code: Vec<u64>| bpf::load(ProgramKind::Socket, Attach::Socket, &code, 0);
        // Programs keep their maps.
        Ok(Turn { before: load(before(&decided))?, behind: load(behind(&decision, &decided))?, decision })
    }

    /// Has sockets go by it. Those behind come first: nobody else tells those before.
    pub fn attach<'a>(
        &self,
        mut behind: impl Iterator<Item = &'a OwnedFd>,
        mut before: impl Iterator<Item = &'a OwnedFd>,
    ) -> io::Result<()> {
        let attach = |socket: &OwnedFd, program: &OwnedFd| {
            sys::setsockopt(socket, libc::SOL_SOCKET, SO_ATTACH_BPF, &program.as_raw_fd())
        };
        behind.try_for_each(|s| attach(s, &self.behind))?;
        before.try_for_each(|s| attach(s, &self.before))
    }

    /// From now on packets come to the sockets behind. A processor may be at one that it has shown to those before.
    pub fn make(&self) -> io::Result<()> {
        bpf::write_number(&self.decision, u32::MAX)
    }
}

// Operation codes (linux/bpf.h, linux/bpf_common.h).
const LOAD_32: u8 = 0x61;
const STORE_32: u8 = 0x63;
const STORE_NUMBER_32: u8 = 0x62;
const LOAD_NUMBER_64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const XOR: u8 = 0xaf;
const JUMP_UNLIKE: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// `BPF_PSEUDO_MAP_FD`
const MAP: u8 = 1;
const LOOKUP: i32 = 1;
const STACK: u8 = 10;

const fn instruction(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    code as u64 | ((src << 4 | dst) as u64) << 8 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
}

/// `r0 = &map[0]`; all bytes of the packet are `otherwise` taken where there is none.
fn look(map: &OwnedFd, otherwise: i32) -> [u64; 9] {
    [
        instruction(STORE_NUMBER_32, STACK, 0, -4, 0),
        instruction(LOAD_NUMBER_64, 1, MAP, 0, map.as_raw_fd()),
        0,
        instruction(MOVE, 2, STACK, 0, 0),
        instruction(ADD_NUMBER, 2, 0, 0, -4),
        instruction(CALL, 0, 0, 0, LOOKUP),
        instruction(JUMP_UNLIKE, 0, 0, 2, 0),
        instruction(MOVE_NUMBER, 0, 0, 0, otherwise),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// `return decided = decision`: of how many bytes of a packet are taken, none or all.
fn behind(decision: &OwnedFd, decided: &OwnedFd) -> Vec<u64> {
    let mut code = look(decision, 0).to_vec();
    code.push(instruction(LOAD_32, 7, 0, 0, 0));
    code.extend(look(decided, 0));
    code.push(instruction(STORE_32, 0, 7, 0, 0));
    code.push(instruction(MOVE, 0, 7, 0, 0));
    code.push(instruction(EXIT, 0, 0, 0, 0));
    code
}

/// `return ~decided`.
fn before(decided: &OwnedFd) -> Vec<u64> {
    let mut code = look(decided, -1).to_vec();
    code.push(instruction(LOAD_32, 7, 0, 0, 0));
    code.push(instruction(MOVE_NUMBER, 0, 0, 0, -1));
    code.push(instruction(XOR, 0, 7, 0, 0));
    code.push(instruction(EXIT, 0, 0, 0, 0));
    code
}
