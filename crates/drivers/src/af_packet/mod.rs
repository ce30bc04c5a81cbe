//! AF_PACKET: any Ethernet device of Linux, without unbinding it from its driver.
//!
//! One socket with a shared ring per receive queue (several share the packets by their flows), one socket per transmit queue.
//! Every packet carries a virtio-net header, so that partial checksums and super-frames of Linux peers are known as such.
//! What it receives, Linux's own input does not see, unless Linux has a use for it: see [`Link::is_used`]. Where
//! it has, both work on the same packets: see [`Link::conflicts`].

mod queues;
mod ring;
mod rx;
mod turn;
mod tx;

use crate::counts::RxDrops;
use crate::error::{Error, check_device_name, system};
use crate::host::{
    Control, Device, Host, PATIENCE, Resize, bind_error, check_queues, check_slots, packet_socket,
};
#[cfg(doc)]
use crate::link::Link;
use crate::linux::*;
use crate::netns;
use crate::offload::Offload;
use crate::stage::Form;
use crate::sys;
use crate::tcx::Gate;
use crate::watch::LinkEvent;
use graph::{TxCaps, TxQueue};
use packet::MacAddr;
use queues::Queues;
use ring::Ring;
pub(crate) use rx::POLL_BYTES;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEFAULT_SLOTS: usize = 2048;
/// Memory of a ring whose slots were not asked for.
const DEFAULT_RING: usize = 16 << 20;
/// Bytes of headers that AF_PACKET puts in a slot in front of a frame, VLAN tags included.
const SLOT_HEADERS: usize = 128;
/// A block must hold a super-frame.
const BLOCK: usize = 256 << 10;
/// Milliseconds after which a block that is not full is handed over: the least there is.
const BLOCK_TIMEOUT: u32 = 1;
/// Bytes of frames larger than a slot that wait at most.
const RECEIVE_QUEUE: i32 = 8 << 20;
const SEND_BUFFER: i32 = 4 << 20;

/// The kind of receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingVersion {
    /// TPACKET_V2: each frame is handed over at once.
    #[default]
    V2,
    /// TPACKET_V3: blocks of frames, up to a millisecond late.
    V3,
}

/// A device to open.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in Linux.
    pub ifname: String,
    /// Quiver's index of the interface.
    pub interface: u32,
    /// The namespace it is in, where that is not Quiver's own.
    pub netns: Option<String>,
    /// Receive queues; packets are spread by flow.
    pub rx_queues: usize,
    /// Transmit queues, one a worker.
    pub tx_queues: usize,
    /// Kind of receive ring.
    pub ring: RingVersion,
    /// Slots of each receive ring (a power of two); by default 2048, or fewer where the MTU makes them large.
    pub slots: Option<usize>,
    /// Who completes checksums and cuts super-frames on transmit: Quiver, or the kernel and the device (`On`). Received
    /// ones are understood always.
    pub offload: Offload,
    /// How long to wait for a device that another router may be about to give back.
    pub patience: Duration,
}

impl Config {
    /// One queue each way, whole packets sent.
    pub fn new(ifname: &str, interface: u32) -> Config {
        Config {
            ifname: ifname.to_owned(),
            interface,
            netns: None,
            rx_queues: 1,
            tx_queues: 1,
            ring: RingVersion::default(),
            slots: None,
            offload: Offload::Auto,
            patience: PATIENCE,
        }
    }
}

/// The control side of an open device.
pub struct Handle {
    /// The device in Linux.
    pub host: Host,
    /// Kind of its receive rings, and slots of each.
    pub ring: (RingVersion, usize),
    /// Who completes checksums and cuts super-frames.
    pub offload: Offload,
    queues: Queues,
    gone: Arc<AtomicBool>,
    /// How packets are sent, and what the device does for them.
    form: Form,
    caps: TxCaps,
    /// Keeps what comes from Linux's own input.
    gate: Gate,
}

impl Handle {
    /// Whether Linux's own input sees what comes.
    pub fn is_shared(&self) -> bool {
        !self.gate.is_shut()
    }
}

impl Control for Handle {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn transmit_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        queue_to(&self.host, self.form, self.caps)
    }

    fn drops(&self) -> RxDrops {
        self.queues.drops()
    }

    fn queue_drops(&self) -> Vec<RxDrops> {
        self.queues.each_drops()
    }

    fn resize(&mut self) -> Option<&mut dyn Resize> {
        self.queues.can_be_resized().then_some(&mut self.queues)
    }

    fn describe(&self) -> String {
        let (version, slots) = self.ring;
        format!(
            "af-packet on Linux device {}, receive ring {version:?} of {slots} slots, {}{}",
            self.host.link.name(),
            if self.offload == Offload::On { "offloads passed on" } else { "whole packets sent" },
            if self.is_shared() { ", Linux sees what comes too" } else { "" }
        )
    }

    fn alive(&self) -> bool {
        !self.gone.load(Ordering::Relaxed) && self.host.alive()
    }

    fn look(&mut self, event: &LinkEvent) -> (Option<u32>, Option<MacAddr>) {
        self.gate.ask(!event.used);
        self.host.look()
    }
}

/// Bytes of a slot: a frame of the device's MTU fits; larger ones take the way over the socket's queue.
fn slot_size(mtu: u32) -> usize {
    (mtu as usize + SLOT_HEADERS).next_power_of_two().clamp(2048, 16384)
}

/// Opens a device. What was opened is closed again when a step fails; Linux's settings of the device stay
/// untouched, but for those that a killed router has left, which are put back.
pub fn open(config: &Config) -> Result<Device<Handle>, Error> {
    let name = &config.ifname;
    check_device_name(name)?;
    check_queues(name, "receive", config.rx_queues)?;
    check_queues(name, "transmit", config.tx_queues)?;
    check_slots(name, config.slots)?;
    let netns = config.netns.as_deref();
    let (host, state) = Host::open(name, netns, config.patience)?;
    let ifindex = state.ifindex as i32;
    let slot = slot_size(state.mtu);
    let slots = config.slots.unwrap_or((DEFAULT_RING / slot).min(DEFAULT_SLOTS));
    let gone = Arc::new(AtomicBool::new(false));
    let wanted = queues::Wanted {
        name: name.clone(),
        netns: config.netns.clone(),
        ifindex,
        interface: config.interface,
        ring: config.ring,
        slot,
        slots,
        gone: Arc::clone(&gone),
    };
    let (queues, rx) = Queues::open(wanted, config.rx_queues)?;

    let form = if config.offload == Offload::On { Form::AsIs } else { Form::Whole };
    // Older kernels do not know UDP super-frames in a virtio-net header.
    let uso = form == Form::Whole || sys::kernel_release() >= (6, 2);
    let caps = TxCaps { checksum: true, tso: true, uso };
    let gate = Gate::new(netns, state.ifindex);
    gate.set(!host.link.is_used(state.ifindex).unwrap_or(true));
    let (ring, offload) = ((config.ring, slots), config.offload);
    let mut handle = Handle { host, ring, offload, queues, gone, form, caps, gate };
    let tx = (0..config.tx_queues).map(|_| handle.transmit_queue()).collect::<Result<_, _>>()?;
    let conflicts = if handle.is_shared() { handle.host.link.conflicts() } else { vec![] };
    Ok(Device { rx, tx, mac: state.mac, mtu: state.mtu, handle, conflicts })
}

fn option(name: &str, what: &str) -> impl FnOnce(io::Error) -> Error {
    system(format!("set {what} of the packet socket on {name}"))
}

/// A bound socket with its ring. It rejects every packet until its filter is taken away.
fn receive_socket(
    name: &str,
    ifindex: i32,
    version: RingVersion,
    slot: usize,
    slots: usize,
) -> Result<(OwnedFd, Ring), Error> {
    let s = packet_socket(name)?;
    let set = |what: &str, opt: i32, value: i32| {
        sys::setsockopt(&s, SOL_PACKET, opt, &value).map_err(option(name, what))
    };
    let number = match version {
        RingVersion::V2 => TPACKET_V2,
        RingVersion::V3 => TPACKET_V3,
    };
    set("the ring version", PACKET_VERSION, number)?;
    set("the virtio-net header", PACKET_VNET_HDR, 1)?;
    set("ignoring of sent packets", PACKET_IGNORE_OUTGOING, 1)?;
    let _ = sys::setsockopt(&s, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_QUEUE);
    let memory = |bytes: usize| system(format!("make a receive ring of {} KiB for {name}", bytes >> 10));
    let ring = match version {
        RingVersion::V2 => {
            set("copying of large frames", PACKET_COPY_THRESH, 1)?;
            let block = (slot * slots).min(BLOCK);
            let request = libc::tpacket_req {
                tp_block_size: block as u32,
                tp_block_nr: (slot * slots / block) as u32,
                tp_frame_size: slot as u32,
                tp_frame_nr: slots as u32,
            };
            sys::setsockopt(&s, SOL_PACKET, PACKET_RX_RING, &request)
                .and_then(|()| Ring::v2(&s, slot, slots))
                .map_err(memory(slot * slots))?
        }
        RingVersion::V3 => {
            let blocks = (slot * slots / BLOCK).max(4);
            let request = libc::tpacket_req3 {
                tp_block_size: BLOCK as u32,
                tp_block_nr: blocks as u32,
                tp_frame_size: slot as u32,
                tp_frame_nr: (BLOCK / slot * blocks) as u32,
                tp_retire_blk_tov: BLOCK_TIMEOUT,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            };
            sys::setsockopt(&s, SOL_PACKET, PACKET_RX_RING, &request)
                .and_then(|()| Ring::v3(&s, BLOCK, blocks))
                .map_err(memory(BLOCK * blocks))?
        }
    };
    // Until all queues share the device's packets, each would receive every one.
    sys::reject_all(&s, true).map_err(option(name, "a filter"))?;
    sys::bind(&s, &sys::link_address(ifindex, ETH_P_ALL)).map_err(bind_error(name, None))?;
    Ok((s, ring))
}

/// A transmit queue of whole packets to a device that another driver receives from.
pub(crate) fn transmit_queue(host: &Host) -> Result<Box<dyn TxQueue>, Error> {
    queue_to(host, Form::Whole, TxCaps { checksum: true, tso: true, uso: true })
}

fn queue_to(host: &Host, form: Form, caps: TxCaps) -> Result<Box<dyn TxQueue>, Error> {
    let name = host.link.name();
    let socket = netns::within(host.link.netns(), || send_socket(name, host.ifindex as i32))?;
    Ok(Box::new(tx::PacketTx::new(name, socket, form, caps)))
}

fn send_socket(name: &str, ifindex: i32) -> Result<OwnedFd, Error> {
    let s = packet_socket(name)?;
    sys::setsockopt(&s, SOL_PACKET, PACKET_VNET_HDR, &1i32).map_err(option(name, "the virtio-net header"))?;
    let _ = sys::setsockopt(&s, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    // Protocol 0: it sends only.
    sys::bind(&s, &sys::link_address(ifindex, 0)).map_err(bind_error(name, None))?;
    Ok(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_a_frame_of_the_mtu() {
        assert_eq!(slot_size(68), 2048);
        assert_eq!(slot_size(1500), 2048);
        assert_eq!(slot_size(1920), 2048);
        assert_eq!(slot_size(1921), 4096);
        assert_eq!(slot_size(9000), 16384);
        assert_eq!(slot_size(65535), 16384);
    }
}
