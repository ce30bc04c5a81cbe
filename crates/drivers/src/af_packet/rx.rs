//! Receiving: from the ring (or, for frames larger than a slot, from the socket's queue) into buffers.

use super::ring::{Frame, Progress, Ring};
use crate::counts::{Drops, RxDrop};
use crate::sys::{self, RxArrays};
use crate::vnet;
use graph::buffer::{DATA, HEADROOM, ROOM};
use graph::io::Ready;
use graph::{Buffer, Buffers, Chain, Desc, RxQueue, Vector};
use packet::gso::VnetHdr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Where the tag stands: behind the two addresses.
const TAG_AT: usize = 12;

/// Bytes after which a poll ends: a vector of super-frames stays in the cache, and takes no more than some 500 buffers.
pub(crate) const POLL_BYTES: usize = 1 << 20;

/// A receive queue on an AF_PACKET socket.
pub struct PacketRx {
    pub(super) ring: Ring,
    pub(super) socket: Arc<OwnedFd>,
    pub(super) interface: u32,
    pub(super) arrays: RxArrays,
    pub(super) drops: Arc<Drops>,
    /// The device is gone; shared with the handle.
    pub(super) gone: Arc<AtomicBool>,
    /// Shared with the handle as well.
    pub(super) progress: Arc<Progress>,
}

impl RxQueue for PacketRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "af-packet-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        if self.progress.is_held() {
            return 0;
        }
        let before = out.len();
        let PacketRx { ring, socket, interface, arrays, drops, progress, .. } = self;
        let mut bytes = 0;
        while out.room() > 0 && bytes < POLL_BYTES {
            let taken = ring.take(|frame| {
                bytes += frame.len;
                if frame.queued {
                    from_queue(&frame, socket, arrays, buffers)
                } else if frame.len > frame.data.len() {
                    Err(RxDrop::Truncated)
                } else {
                    from_slot(&frame, buffers)
                }
            });
            match taken {
                None => break,
                Some(Err(why)) => drops.count(why),
                Some(Ok(mut d)) => {
                    d.rx = *interface;
                    if let Err(d) = out.push(d) {
                        buffers.free(d);
                    }
                }
            }
        }
        progress.tell(ring);
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn ready(&self) -> Ready {
        // A pending error (the device went down or away) keeps the descriptor readable until it is read; asked here,
        // before each sleep, it costs the polls nothing.
        if sys::take_error(&*self.socket) != 0
            && sys::local_ll(&self.socket).is_ok_and(|a| a.sll_ifindex <= 0)
        {
            self.gone.store(true, Ordering::Relaxed);
        }
        if self.gone.load(Ordering::Relaxed) { Ready::Never } else { Ready::Fd }
    }
}

/// Copies a frame out of its slot.
#[inline]
fn from_slot(f: &Frame<'_>, buffers: &mut Buffers) -> Result<Desc, RxDrop> {
    let mut d = buffers.alloc_desc().ok_or(RxDrop::NoBuffer)?;
    let tag = if f.vlan.is_some() && f.data.len() >= TAG_AT { TAG } else { 0 };
    let (first, more) = f.data.split_at(f.data.len().min(DATA - tag));
    let room = &mut buffers.room_mut(&d.buf)[HEADROOM..];
    if tag == 0 {
        room[..first.len()].copy_from_slice(first);
    } else {
        room[..TAG_AT].copy_from_slice(&first[..TAG_AT]);
        room[TAG_AT + TAG..first.len() + TAG].copy_from_slice(&first[TAG_AT..]);
    }
    d.len = (first.len() + tag) as u16;
    if !more.is_empty() && !buffers.append(&mut d, more) {
        buffers.free(d);
        return Err(RxDrop::NoBuffer);
    }
    apply(f, f.header, tag, d, buffers)
}

/// Writes the tag into its gap and applies the header.
#[inline]
fn apply(
    f: &Frame<'_>,
    header: VnetHdr,
    tag: usize,
    mut d: Desc,
    buffers: &mut Buffers,
) -> Result<Desc, RxDrop> {
    if let Some((tpid, tci)) = f.vlan.filter(|_| tag != 0) {
        let at = &mut buffers.room_mut(&d.buf)[HEADROOM + TAG_AT..][..TAG];
        at[..2].copy_from_slice(&tpid.to_be_bytes());
        at[2..].copy_from_slice(&tci.to_be_bytes());
    }
    match vnet::to_packet(header, tag as u16, buffers, &mut d) {
        Ok(()) => Ok(d),
        Err(_) => {
            buffers.free(d);
            Err(RxDrop::Malformed)
        }
    }
}

/// Receives a frame that is larger than its slot from the socket's queue, straight into the buffers of a chain.
#[cold]
fn from_queue(
    f: &Frame<'_>,
    socket: &OwnedFd,
    arrays: &mut RxArrays,
    buffers: &mut Buffers,
) -> Result<Desc, RxDrop> {
    let tag = if f.vlan.is_some() { TAG } else { 0 };
    let need = 1 + f.len.saturating_sub(DATA - tag).div_ceil(ROOM);
    let mut bufs: [Buffer; sys::MAX_PARTS] = std::array::from_fn(|_| Buffer::default());
    let mut have = 0;
    if need <= bufs.len() {
        while have < need {
            let Some(buf) = buffers.alloc() else { break };
            bufs[have] = buf;
            have += 1;
        }
    }
    let bufs = &mut bufs[..have];
    // The queue is read whatever happens, so that it stays in step with the ring.
    let mut got = None;
    for _ in 0..4 {
        match arrays.read(socket, buffers, bufs, HEADROOM + tag) {
            Ok(x) => {
                got = Some(x);
                break;
            }
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => break,
            // A pending error of the socket is reported once, in front of the data.
            Err(_) => {}
        }
    }
    let mut taken = bufs.iter_mut().map(std::mem::take);
    if have < need {
        taken.for_each(|b| buffers.free_one(b));
        return Err(if need > sys::MAX_PARTS { RxDrop::Truncated } else { RxDrop::NoBuffer });
    }
    let Some((header, _)) = got.filter(|(_, n)| *n == f.len && f.len > TAG_AT) else {
        taken.for_each(|b| buffers.free_one(b));
        return Err(RxDrop::Truncated);
    };
    let first = f.len.min(DATA - tag);
    let d = Desc {
        buf: taken.next().unwrap_or_default(),
        off: HEADROOM as u16,
        l2: HEADROOM as u16,
        len: (first + tag) as u16,
        ..Desc::default()
    };
    if tag != 0 {
        let start = HEADROOM + tag;
        buffers.room_mut(&d.buf).copy_within(start..start + TAG_AT, HEADROOM);
    }
    let mut left = f.len - first;
    let mut chain = Chain::new(buffers, d);
    for buf in taken {
        let len = left.min(ROOM);
        chain.push(buffers, buf, 0, len as u16);
        left -= len;
    }
    apply(f, header, tag, chain.done(), buffers)
}
