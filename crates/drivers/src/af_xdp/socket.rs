//! AF_XDP sockets, one for each receive queue of the device, over the router's own buffers.
#![allow(unsafe_code)]
// Upholds: a buffer that the kernel had comes out once for each time it was given to `Shared::hold`.

use super::ring::{Consumer, Kind, Producer};
use crate::error::{Error, system};
use crate::sys;
use graph::buffer::{ROOM, with_room_at};
use graph::{Buffer, Pool};
use libc::{SOL_XDP, xdp_desc};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Bytes that the kernel leaves free in front of a frame that it receives.
pub(super) const XDP_HEADROOM: usize = 256;
/// Bytes of a frame, Ethernet header included, that one buffer takes.
pub(super) const FRAME: usize = ROOM - XDP_HEADROOM;
/// Where an address says how far a packet lies behind the start of its buffer (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET: u32 = 48;
/// Bytes of frames that may be under way from one socket.
const SEND_BUFFER: i32 = 8 << 20;
/// Frames that one call sends, where the kernel lets it be set (`XDP_MAX_TX_SKB_BUDGET`, Linux 6.17).
const BUDGET: i32 = 256;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// What both sides of a socket have in common. The kernel may use the buffers that it holds until the last of them is gone.
pub(super) struct Shared {
    socket: Option<OwnedFd>,
    pool: Arc<Pool>,
    /// By buffer: whether this socket's rings have it.
    kernels: Box<[AtomicU8]>,
    /// Packets wait in the transmit ring that the kernel did not take.
    pub pending: AtomicBool,
    /// The device is gone.
    pub gone: AtomicBool,
    /// The reader leaves what came where it is.
    pub held: AtomicBool,
    /// Whoever sends by it is to send by another.
    pub leaving: AtomicBool,
}

impl Shared {
    /// The socket.
    pub fn fd(&self) -> RawFd {
        self.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Asks a socket for its counters.
    pub fn statistics(&self) -> Option<libc::xdp_statistics> {
        let mut st = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let socket = self.socket.as_ref()?;
        sys::getsockopt(socket, SOL_XDP, libc::XDP_STATISTICS, &mut st).ok().map(|()| st)
    }

    /// Has the kernel send what waits.
    pub fn kick(&self) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), sys::kick)
    }

    /// Has the kernel look at the fill ring.
    pub fn kick_receive(&self) {
        if let Some(s) = &self.socket {
            sys::kick_receive(s);
        }
    }

    /// The error that waits on the socket; 0 for none.
    pub fn error(&self) -> i32 {
        self.socket.as_ref().map_or(0, sys::take_error)
    }

    /// The pool that the buffers are of.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The kernel holds the buffer from now on; its number.
    #[inline]
    pub fn hold(&self, buf: Buffer) -> u32 {
        if let Some(h) = self.kernels.get(buf.number() as usize) {
            h.store(1, Ordering::Relaxed);
        }
        buf.number()
    }

    /// The buffer that an address of the kernel's names, and where the packet in it begins; `None` when the kernel does not
    /// hold it. It is the caller's then.
    #[inline]
    pub fn take(&self, address: u64) -> Option<(Buffer, usize)> {
        let buf = with_room_at((address & ((1 << OFFSET) - 1)) as usize)?;
        let held = self.kernels.get(buf as usize)?;
        if held.load(Ordering::Relaxed) == 0 {
            return None;
        }
        held.store(0, Ordering::Relaxed);
        // SAFETY: it was given to `hold`, and does not come out again before it is once more.
        Some((unsafe { Buffer::from_number(buf) }, (address >> OFFSET) as usize))
    }
}

/// The address of a byte of a buffer's room.
#[inline]
pub(super) fn address(buf: u32, off: u16) -> u64 {
    graph::buffer::room_at(buf) as u64 | u64::from(off) << OFFSET
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The kernel writes to its buffers until this has returned.
        self.socket = None;
        for (buf, held) in self.kernels.iter().enumerate() {
            if held.load(Ordering::Relaxed) != 0 {
                // SAFETY: it was given to `hold` and has not come out.
                self.pool.give_back(unsafe { Buffer::from_number(buf as u32) });
            }
        }
    }
}

/// A socket with its four rings.
pub(super) struct Queue {
    pub shared: Arc<Shared>,
    pub rx: Consumer<xdp_desc>,
    pub fill: Producer<u64>,
    pub tx: Producer<xdp_desc>,
    pub done: Consumer<u64>,
}

/// What all sockets of a device are to be.
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    pub ifindex: u32,
    pub pool: &'a Arc<Pool>,
    /// Entries of each ring.
    pub slots: u32,
    /// Frames may lie in several buffers.
    pub several: bool,
    /// Until when a queue may be another's: the kernel lets go of one a moment after its socket was closed.
    pub until: Instant,
}

/// Makes sockets of a device in the calling thread's namespace, one for each of these receive queues. They receive nothing before the
/// device's program sends them something. All have the memory of the first, which is there where others are.
pub(super) fn sockets(
    w: &Wanted<'_>,
    queues: Range<usize>,
    first: Option<&Shared>,
) -> Result<Vec<Queue>, Error> {
    let mut all: Vec<Queue> = Vec::new();
    for queue in queues {
        let first = first.or(all.first().map(|q| &*q.shared)).map(Shared::fd);
        all.push(socket(w, queue as u32, first)?);
    }
    Ok(all)
}

fn socket(w: &Wanted<'_>, queue: u32, first: Option<RawFd>) -> Result<Queue, Error> {
    let name = w.name;
    let s = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)
        .map_err(crate::error::privileged(format!("receiving packets on {name}"), "CAP_NET_RAW"))?;
    let (start, bytes) = w.pool.memory();
    if first.is_none() {
        let memory = libc::xdp_umem_reg {
            addr: start as u64,
            len: bytes as u64,
            // A buffer with what lies beside it is no power of two: any address may be one.
            chunk_size: ROOM as u32,
            headroom: 0,
            flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
            tx_metadata_len: 0,
        };
        sys::setsockopt(&s, SOL_XDP, libc::XDP_UMEM_REG, &memory).map_err(|cause| {
            let hint = match cause.raw_os_error() {
                Some(libc::ENOBUFS | libc::EPERM) => {
                    format!(": {} MiB must be locked, raise LimitMEMLOCK or ulimit -l", bytes >> 20)
                }
                _ => String::new(),
            };
            Error::System { what: format!("give the buffers to AF_XDP on {name}{hint}"), cause }
        })?;
    }
    let ring = |what: &str, option: i32| {
        let why = system(format!("make the {what} ring of {} entries for {name}", w.slots));
        sys::setsockopt(&s, SOL_XDP, option, &w.slots).map_err(why)
    };
    ring("fill", libc::XDP_UMEM_FILL_RING)?;
    ring("completion", libc::XDP_UMEM_COMPLETION_RING)?;
    ring("receive", libc::XDP_RX_RING)?;
    ring("transmit", libc::XDP_TX_RING)?;
    let _ = sys::setsockopt(&s, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    let _ = sys::setsockopt(&s, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &BUDGET);
    let mut at: libc::xdp_mmap_offsets = {
        let none = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
        libc::xdp_mmap_offsets { rx: none(), tx: none(), fr: none(), cr: none() }
    };
    sys::getsockopt(&s, SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut at)
        .map_err(system(format!("read where the rings of {name} are")))?;
    let map = || system(format!("map the rings of {name}"));
    let rx = Consumer::new(&s, Kind::Rx, &at.rx, w.slots).map_err(map())?;
    let tx = Producer::new(&s, Kind::Tx, &at.tx, w.slots).map_err(map())?;
    let fill = Producer::new(&s, Kind::Fill, &at.fr, w.slots).map_err(map())?;
    let done = Consumer::new(&s, Kind::Completion, &at.cr, w.slots).map_err(map())?;
    let flags = match first {
        // The others follow the first.
        Some(_) => libc::XDP_SHARED_UMEM,
        None => {
            let several = if w.several { libc::XDP_USE_SG } else { 0 };
            libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP | several
        }
    };
    let place = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: w.ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first.map_or(0, |fd| fd as u32),
    };
    let mut bound = sys::bind(&s, &place);
    while bound.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) && Instant::now() < w.until {
        std::thread::sleep(Duration::from_millis(1));
        bound = sys::bind(&s, &place);
    }
    bound.map_err(|cause| match cause.raw_os_error() {
        Some(libc::EBUSY) => Error::System {
            what: format!("take receive queue {queue} of {name}: another program has an AF_XDP socket there"),
            cause,
        },
        _ => Error::System { what: format!("bind an AF_XDP socket to queue {queue} of {name}"), cause },
    })?;
    let kernels = (0..w.pool.count()).map(|_| AtomicU8::new(0)).collect();
    let shared = Shared {
        socket: Some(s),
        pool: Arc::clone(w.pool),
        kernels,
        pending: AtomicBool::new(false),
        gone: AtomicBool::new(false),
        held: AtomicBool::new(false),
        leaving: AtomicBool::new(false),
    };
    Ok(Queue { shared: Arc::new(shared), rx, fill, tx, done })
}

impl Shared {
    /// Puts the socket where the program looks for it.
    pub fn enlist(&self, map: &OwnedFd, at: u32) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |s| crate::bpf::put_socket(map, at, s))
    }
}
