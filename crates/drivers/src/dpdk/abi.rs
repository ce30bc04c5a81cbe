//! What Quiver and `quiver-dpdk.so` agree on: `crates/drivers/dpdk/quiver_dpdk.h` in Rust. Who changes one changes both, and counts
//! [`VERSION`] up.

use std::ffi::{c_char, c_int, c_void};

/// Of this interface.
pub const VERSION: u32 = 2;
/// Packets of one call.
pub const BURST: usize = 64;
/// Pieces of one packet.
pub const CHAIN: usize = 64;
/// Buffers that a lane collects.
pub const LANE: usize = 256;
const NAME: usize = 64;

/// Bits of [`Piece::flags`].
pub mod bits {
    /// The packet goes on in the next piece.
    pub const MORE: u16 = 1;
    /// Received: its transport checksum is right.
    pub const CHECKED: u16 = 2;
    /// Received: its transport checksum is not in the packet, which is right.
    pub const PARTIAL: u16 = 4;
    /// To be sent: complete TCP's checksum.
    pub const TCP: u16 = 8;
    /// To be sent: complete UDP's checksum.
    pub const UDP: u16 = 16;
    /// It is over IPv4.
    pub const IP4: u16 = 32;
    /// To be sent: cut it into segments.
    pub const SEGMENT: u16 = 64;
}

/// Bits of [`Made::can`].
pub mod can {
    /// Take packets of several buffers.
    pub const CHAIN: u32 = 1;
    /// Complete TCP's checksums.
    pub const TCP: u32 = 2;
    /// Complete UDP's checksums.
    pub const UDP: u32 = 4;
    /// Cut TCP super-frames.
    pub const TSO: u32 = 8;
    /// Cut UDP super-frames.
    pub const USO: u32 = 16;
    /// Share packets out over its receive queues.
    pub const RSS: u32 = 32;
    /// Check what it receives.
    pub const CHECK: u32 = 64;
}

/// Something happened to a port: its link has changed, or it is gone.
pub const EVENT_GONE: u32 = 2;

/// Bytes of one buffer of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// The buffer's number.
    pub buf: u32,
    /// Where they start in its room.
    pub off: u16,
    /// How many there are.
    pub len: u16,
    /// See [`bits`].
    pub flags: u16,
    /// Payload bytes of a segment.
    pub segment: u16,
    /// Bytes of the headers of layers 2 to 4.
    pub l2: u8,
    /// See `l2`.
    pub l3: u8,
    /// See `l2`.
    pub l4: u8,
    /// Zero.
    pub unused: u8,
}

/// Takes buffers of a pool, all or none; how many.
pub type Take = unsafe extern "C" fn(*mut c_void, *mut u32, u32) -> u32;
/// Gives buffers of a pool back.
pub type Give = unsafe extern "C" fn(*mut c_void, *const u32, u32);

/// The library's side of a pool.
#[repr(C)]
pub struct CPool {
    opaque: [u8; 0],
}

/// One thread's way to a pool during one call.
#[repr(C)]
pub struct Lane {
    pub pool: *mut CPool,
    pub owner: *mut c_void,
    pub taken: u32,
    pub given: u32,
    pub count: u32,
    pub list: [u32; LANE],
}

/// A pool's memory, and how to have its buffers.
#[repr(C)]
pub struct Memory {
    pub base: *mut c_void,
    pub bytes: u64,
    pub page: u64,
    pub count: u32,
    pub stride: u32,
    pub room_at: u32,
    pub room: u32,
    pub headroom: u32,
    pub unused: u32,
    pub owner: *mut c_void,
    pub take: Take,
    pub give: Give,
    pub lane_take: Take,
    pub lane_give: Give,
}

/// What the library calls.
#[repr(C)]
pub struct Host {
    pub log: unsafe extern "C" fn(u32, *const c_char, u32),
    pub event: unsafe extern "C" fn(u16, u32),
}

/// A port, as it is found.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Info {
    pub driver: [c_char; NAME],
    pub device: [c_char; NAME],
    pub mac: [u8; 6],
    pub max_rx: u16,
    pub max_tx: u16,
    pub min_mtu: u16,
    pub max_mtu: u16,
    pub numa: i32,
}

/// What a port is to be.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Setup {
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub rx_slots: u16,
    pub tx_slots: u16,
    pub mtu: u16,
    pub offloads: u8,
    pub interrupts: u8,
}

/// What it is of that.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Made {
    pub rx_slots: u16,
    pub tx_slots: u16,
    pub can: u32,
}

/// The link of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LinkState {
    /// Megabits a second; 0 where it is not known.
    pub mbps: u32,
    /// 1 where there is link.
    pub up: u8,
    /// 1 where both sides send at once.
    pub full_duplex: u8,
    /// Zeros.
    pub unused: [u8; 2],
}

/// One of the extended statistics.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stat {
    pub name: [c_char; NAME],
    pub value: u64,
}

/// Packets that the device has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lost {
    /// Its rings were full.
    pub missed: u64,
    /// They were damaged.
    pub errors: u64,
    /// No buffer was free.
    pub no_buffer: u64,
    /// Zero.
    pub unused: u64,
}

/// The library. Calls answer 0 or more, or a negated errno.
#[repr(C)]
pub struct Api {
    pub version: u32,
    pub sizes: [u32; 8],
    pub dpdk: *const c_char,
    pub init: unsafe extern "C" fn(*const Host, c_int, *mut *mut c_char) -> c_int,
    pub pool_new: unsafe extern "C" fn(*const Memory, *mut *mut CPool) -> c_int,
    pub pool_free: unsafe extern "C" fn(*mut CPool),
    pub probe: unsafe extern "C" fn(*const c_char, *const c_char, *mut Info) -> c_int,
    pub configure: unsafe extern "C" fn(u16, *const Setup, *mut CPool, *mut Made) -> c_int,
    pub start: unsafe extern "C" fn(u16) -> c_int,
    pub stop: unsafe extern "C" fn(u16) -> c_int,
    pub close: unsafe extern "C" fn(u16) -> c_int,
    pub set_mtu: unsafe extern "C" fn(u16, u16) -> c_int,
    pub set_mac: unsafe extern "C" fn(u16, *const u8) -> c_int,
    pub set_promiscuous: unsafe extern "C" fn(u16, c_int) -> c_int,
    pub set_groups: unsafe extern "C" fn(u16, *const u8, u32) -> c_int,
    pub link: unsafe extern "C" fn(u16, *mut LinkState) -> c_int,
    pub stats: unsafe extern "C" fn(u16, *mut Stat, u32) -> c_int,
    pub lost: unsafe extern "C" fn(u16, *mut Lost) -> c_int,
    pub rx_fd: unsafe extern "C" fn(u16, u16) -> c_int,
    pub rx_arm: unsafe extern "C" fn(u16, u16, c_int, c_int) -> c_int,
    pub rx_waiting: unsafe extern "C" fn(u16, u16) -> c_int,
    pub rx: unsafe extern "C" fn(u16, u16, *mut Lane, *mut Piece, u32, *mut u32) -> u32,
    pub tx: unsafe extern "C" fn(u16, u16, *mut Lane, *const Piece, u32, *mut u32) -> u32,
}

/// The sizes of all that is handed over, as [`Api::sizes`] says them.
pub const SIZES: [u32; 8] = [
    size_of::<Api>() as u32,
    size_of::<Piece>() as u32,
    size_of::<Lane>() as u32,
    size_of::<Memory>() as u32,
    size_of::<Info>() as u32,
    size_of::<Setup>() as u32,
    size_of::<Stat>() as u32,
    size_of::<Lost>() as u32,
];

/// A name that C has filled in.
pub fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
