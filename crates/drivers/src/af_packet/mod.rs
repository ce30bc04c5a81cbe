//! AF_PACKET: any Ethernet device of Linux, without unbinding it from its driver.
//!
//! One socket with a shared ring per receive queue (several share the load by flow hash), one socket per transmit queue.
//! Every packet carries a virtio-net header, so that partial checksums and super-frames of Linux peers are known as such.
//! What it receives, Linux's own input does not see, unless Linux has a use for it: see [`Link::is_used`]. Where
//! it has, both work on the same packets: see [`Link::conflicts`].

mod claim;
mod origin;
mod ring;
mod rx;
mod tx;

use crate::counts::{Drops, RxDrops};
use crate::error::{Error, Within, check_device_name, privileged, system};
use crate::link::{Link, LinkState};
use crate::linux::*;
use crate::netns;
use crate::offload::Offload;
use crate::stage::Form;
use crate::sys::{self, RxArrays, Statistics};
use crate::tcx::Shut;
use graph::{RxQueue, TxCaps, TxQueue};
use origin::{Notes, Origin};
use packet::MacAddr;
use ring::Ring;
pub(crate) use rx::POLL_BYTES;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most queues of a kind that one device can have.
pub const MAX_QUEUES: usize = 64;
/// Most groups that a device is told one by one.
pub const MOST_GROUPS: usize = 256;
/// Fewest and most slots of a ring.
pub const SLOTS: std::ops::RangeInclusive<usize> = 64..=65536;
const DEFAULT_SLOTS: usize = 2048;
/// Memory of a ring whose slots were not asked for.
const DEFAULT_RING: usize = 16 << 20;
/// How long opening waits for a device that was given back a moment ago.
const PATIENCE: Duration = Duration::from_millis(100);
const RAW: &str = "CAP_NET_RAW";
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

/// An open device.
pub struct Device {
    /// Its receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Its transmit queues.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU.
    pub mtu: u32,
    /// Its control side. Dropping it leaves the queues working.
    pub handle: Handle,
    /// Sentences for the log: where Linux works on the same packets.
    pub conflicts: Vec<String>,
}

/// The control side of an open device.
pub struct Handle {
    /// The device in Linux.
    pub link: Link,
    /// Linux's index of the device when it was opened.
    pub ifindex: u32,
    /// Kind of its receive rings, and slots of each.
    pub ring: (RingVersion, usize),
    /// Who completes checksums and cuts super-frames.
    pub offload: Offload,
    sockets: Vec<Arc<OwnedFd>>,
    control: OwnedFd,
    /// Other routers see by it that the device is taken.
    mark: Option<UnixListener>,
    /// What Linux's settings were, and are when the router lets go of the device.
    origin: Origin,
    notes: Option<Notes>,
    /// The settings as the router or the last look found them.
    known: Origin,
    /// Those that are the router's.
    our_mtu: bool,
    our_mac: bool,
    promiscuous: bool,
    /// Groups asked for, those of them that are joined one by one, and whether all are received.
    groups: BTreeSet<MacAddr>,
    joined: BTreeSet<MacAddr>,
    all_groups: bool,
    drops: Arc<Drops>,
    gone: Arc<AtomicBool>,
    /// Keeps what comes from Linux's own input.
    shut: Option<Shut>,
    /// Linux cannot do that.
    unable: bool,
}

impl Handle {
    /// Whether Linux's own input sees what comes.
    pub fn is_shared(&self) -> bool {
        self.shut.is_none()
    }

    /// Looks whether Linux has a use for what comes, and has it see that or not.
    fn share(&mut self) {
        let used = self.link.is_used(self.ifindex).unwrap_or(true);
        if used {
            (self.shut, self.unable) = (None, false);
        } else if self.shut.is_none() && !self.unable {
            let ifindex = self.ifindex;
            let shut = netns::within(self.link.netns(), || Ok(Shut::ingress(ifindex)));
            match shut {
                Ok(Ok(shut)) => self.shut = Some(shut),
                // An older kernel, or rights that are missing.
                _ => self.unable = true,
            }
        }
    }

    /// False once the device was deleted (a new one of the same name is another device: open it again).
    pub fn alive(&self) -> bool {
        !self.gone.load(Ordering::Relaxed) && sys::local_ll(&self.control).is_ok_and(|a| a.sll_ifindex > 0)
    }

    /// Lets go of the mark that keeps other routers off: the device is gone.
    pub fn release(&mut self) {
        self.mark = None;
    }

    /// Linux's settings of the device, as far as known: MTU and MAC address.
    pub fn known(&self) -> (u32, MacAddr) {
        (self.known.mtu, self.known.mac)
    }

    /// Makes the device take packets of `bytes` bytes, where it takes less.
    pub fn raise_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        if self.known.mtu < bytes { self.change_mtu(bytes) } else { Ok(()) }
    }

    /// As [`Handle::raise_mtu`]; a device that was raised for more is put back as far as it can be.
    pub fn fit_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        let bytes = bytes.max(self.origin.mtu);
        if self.known.mtu < bytes || self.our_mtu && self.known.mtu > bytes {
            self.change_mtu(bytes)?;
        }
        Ok(())
    }

    fn change_mtu(&mut self, bytes: u32) -> Result<(), Error> {
        self.note();
        let set = self.link.set_mtu(bytes);
        if set.is_ok() {
            self.known.mtu = bytes;
            self.our_mtu = bytes != self.origin.mtu;
        }
        self.forget();
        set
    }

    /// Sets the device's MAC address.
    pub fn set_mac(&mut self, mac: MacAddr) -> Result<(), Error> {
        if self.known.mac == mac {
            return Ok(());
        }
        self.note();
        let set = self.link.set_mac(mac);
        if set.is_ok() {
            self.known.mac = mac;
            self.our_mac = mac != self.origin.mac;
        }
        self.forget();
        set
    }

    /// Writes down what the settings were, before the first that is changed.
    fn note(&mut self) {
        if !self.our_mtu && !self.our_mac && self.notes.is_none() {
            self.notes = Notes::open(self.link.netns(), self.ifindex).ok();
            if let Some(notes) = &self.notes {
                notes.write(self.origin);
            }
        }
    }

    /// Takes the note away once all is as it was.
    fn forget(&mut self) {
        if !self.our_mtu
            && !self.our_mac
            && let Some(notes) = self.notes.take()
        {
            notes.erase(self.origin);
        }
    }

    /// Looks at Linux's settings; the MTU and the MAC address that somebody else has changed. They are not put back.
    pub fn look(&mut self) -> (Option<u32>, Option<MacAddr>) {
        let Ok(LinkState { ifindex, mtu, mac, .. }) = self.link.state() else { return (None, None) };
        if ifindex == self.ifindex {
            self.share();
        }
        if ifindex != self.ifindex || (mtu, mac) == self.known() {
            return (None, None);
        }
        if let Some(notes) = &self.notes {
            notes.erase(self.origin);
        }
        let changed = ((mtu != self.known.mtu).then_some(mtu), (mac != self.known.mac).then_some(mac));
        if changed.0.is_some() {
            (self.origin.mtu, self.known.mtu, self.our_mtu) = (mtu, mtu, false);
        }
        if changed.1.is_some() {
            (self.origin.mac, self.known.mac, self.our_mac) = (mac, mac, false);
        }
        match &self.notes {
            Some(notes) if self.our_mtu || self.our_mac => notes.write(self.origin),
            _ => self.notes = None,
        }
        changed
    }

    /// Lets the device receive packets for all addresses, or ends that. Linux ends it by itself when Quiver dies.
    pub fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        if on == self.promiscuous {
            return Ok(());
        }
        self.membership(on, PACKET_MR_PROMISC, &[], "promiscuous mode")?;
        self.promiscuous = on;
        Ok(())
    }

    /// Lets the device receive packets for a group, or ends that: ports drop those for groups that nobody has asked for. Beyond
    /// [`MOST_GROUPS`] it receives those for all.
    pub fn set_group(&mut self, group: MacAddr, wanted: bool) -> Result<(), Error> {
        if !wanted {
            self.groups.remove(&group);
            if self.joined.remove(&group) {
                self.membership(false, PACKET_MR_MULTICAST, &group.0, "reception of a group")?;
            }
        } else {
            self.groups.insert(group);
        }
        let all = self.groups.len() > MOST_GROUPS;
        if !all {
            let missing = if self.all_groups { self.groups.clone() } else { BTreeSet::from([group]) };
            for g in missing.into_iter().filter(|g| self.groups.contains(g)) {
                if self.joined.insert(g) {
                    self.membership(true, PACKET_MR_MULTICAST, &g.0, "reception of a group")?;
                }
            }
        }
        if all != self.all_groups {
            self.membership(all, PACKET_MR_ALLMULTI, &[], "reception of all groups")?;
            self.all_groups = all;
        }
        Ok(())
    }

    fn membership(&self, on: bool, kind: u16, address: &[u8], what: &str) -> Result<(), Error> {
        let option = if on { PACKET_ADD_MEMBERSHIP } else { PACKET_DROP_MEMBERSHIP };
        let mut request = libc::packet_mreq {
            mr_ifindex: self.ifindex as i32,
            mr_type: kind,
            mr_alen: address.len() as u16,
            mr_address: [0; 8],
        };
        for (to, byte) in request.mr_address.iter_mut().zip(address) {
            *to = *byte;
        }
        sys::setsockopt(&self.control, SOL_PACKET, option, &request).map_err(|cause| Error::Value {
            name: self.link.name().to_owned(),
            within: self.link.within(),
            what: what.to_owned(),
            cause,
        })
    }

    /// True when promiscuous mode was asked for here.
    pub fn promiscuous(&self) -> bool {
        self.promiscuous
    }

    /// Packets dropped before they reached the graph, since the device was opened.
    pub fn drops(&self) -> RxDrops {
        for s in &self.sockets {
            let mut st = Statistics::default();
            if sys::getsockopt(&**s, SOL_PACKET, PACKET_STATISTICS, &mut st).is_ok() {
                self.drops.add_ring_full(u64::from(st.drops));
            }
        }
        self.drops.read()
    }
}

impl Drop for Handle {
    /// Puts back what was changed; what somebody else has changed since stays.
    fn drop(&mut self) {
        if !self.our_mtu && !self.our_mac {
            return;
        }
        self.look();
        let Origin { mtu, mac } = self.origin;
        if self.link.ifindex().is_ok_and(|i| i == self.ifindex) {
            let _ = self.fit_mtu(mtu);
            let _ = self.set_mac(mac);
        }
    }
}

/// Puts back what a router has changed that was killed.
fn put_back(link: &Link, netns: Option<&str>) -> Result<(), Error> {
    let state = link.state()?;
    let Ok(notes) = Notes::open(netns, state.ifindex) else { return Ok(()) };
    if let Some(origin) = notes.read() {
        if state.mtu != origin.mtu {
            link.set_mtu(origin.mtu)?;
        }
        if state.mac != origin.mac {
            link.set_mac(origin.mac)?;
        }
        notes.erase(origin);
    }
    Ok(())
}

/// Checks that the device could be opened: its name, its namespace, its kind, the permission, and that no other router
/// has it. While one does, waits until `until`.
pub fn probe(ifname: &str, netns: Option<&str>, until: Instant) -> Result<(), Error> {
    let link = Link::open(ifname, netns)?;
    link.mac()?;
    let ifindex = link.ifindex()?;
    netns::within(netns, || {
        packet_socket(ifname)?;
        claim::claim(ifname, netns, ifindex, until).map(drop)
    })
}

fn packet_socket(ifname: &str) -> Result<OwnedFd, Error> {
    // Protocol 0: it receives nothing before it is bound to its one device.
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        .map_err(privileged(format!("receiving packets on {ifname}"), RAW))
}

fn check_queues(name: &str, which: &'static str, count: usize) -> Result<(), Error> {
    if (1..=MAX_QUEUES).contains(&count) {
        return Ok(());
    }
    Err(Error::Queues { name: name.to_owned(), which, count, max: MAX_QUEUES })
}

/// Bytes of a slot: a frame of the device's MTU fits; larger ones take the way over the socket's queue.
fn slot_size(mtu: u32) -> usize {
    (mtu as usize + SLOT_HEADERS).next_power_of_two().clamp(2048, 16384)
}

/// Opens a device. What was opened is closed again when a step fails; Linux's settings of the device stay
/// untouched, but for those that a killed router has left, which are put back.
pub fn open(config: &Config) -> Result<Device, Error> {
    let name = &config.ifname;
    check_device_name(name)?;
    check_queues(name, "receive", config.rx_queues)?;
    check_queues(name, "transmit", config.tx_queues)?;
    if let Some(slots) = config.slots.filter(|n| !n.is_power_of_two() || !SLOTS.contains(n)) {
        let (min, max) = (*SLOTS.start(), *SLOTS.end());
        return Err(Error::Slots { name: name.clone(), slots, min, max });
    }
    let netns = config.netns.as_deref();
    let link = Link::open(name, netns)?;
    let index = link.ifindex()?;
    // Before anything is read of it: its settings may be those of a router that was killed.
    let mark = netns::within(netns, || claim::claim(name, netns, index, Instant::now() + config.patience))?;
    put_back(&link, netns)?;
    let state = link.state()?;
    let ifindex = state.ifindex as i32;
    let slot = slot_size(state.mtu);
    let slots = config.slots.unwrap_or((DEFAULT_RING / slot).min(DEFAULT_SLOTS));
    let need = (config.rx_queues * slots * slot) >> 20;
    if let Some(have) = graph::buffer::available_mib().filter(|have| need > *have) {
        return Err(Error::Memory { name: name.clone(), need, have });
    }
    let (drops, gone) = (Arc::new(Drops::default()), Arc::new(AtomicBool::new(false)));

    let (rx, tx, control) = netns::within(netns, || {
        let mut rx = Vec::new();
        for _ in 0..config.rx_queues {
            rx.push(receive_socket(name, ifindex, config.ring, slot, slots)?);
        }
        if rx.len() > 1 {
            share(name, &rx)?;
        }
        for (socket, _) in &rx {
            sys::reject_all(socket, false).map_err(system(format!("receive on {name}")))?;
        }
        let mut tx = Vec::new();
        for _ in 0..config.tx_queues {
            tx.push(send_socket(name, ifindex)?);
        }
        let control = packet_socket(name)?;
        sys::bind(&control, &sys::link_address(ifindex, 0)).map_err(bind_error(name, netns))?;
        Ok((rx, tx, control))
    })?;

    let form = if config.offload == Offload::On { Form::AsIs } else { Form::Whole };
    // Older kernels do not know UDP super-frames in a virtio-net header.
    let uso = form == Form::Whole || sys::kernel_release() >= (6, 2);
    let caps = TxCaps { checksum: true, tso: true, uso };
    let mut sockets = Vec::new();
    let mut queues: Vec<Box<dyn RxQueue>> = Vec::new();
    for (socket, ring) in rx {
        let socket = Arc::new(socket);
        sockets.push(Arc::clone(&socket));
        queues.push(Box::new(rx::PacketRx {
            ring,
            socket,
            interface: config.interface,
            arrays: RxArrays::new(64),
            drops: Arc::clone(&drops),
            gone: Arc::clone(&gone),
        }));
    }
    let ifindex = state.ifindex;
    let mut handle = Handle {
        link,
        ifindex,
        ring: (config.ring, slots),
        offload: config.offload,
        sockets,
        control,
        mark,
        origin: Origin { mtu: state.mtu, mac: state.mac },
        notes: None,
        known: Origin { mtu: state.mtu, mac: state.mac },
        our_mtu: false,
        our_mac: false,
        promiscuous: false,
        groups: BTreeSet::new(),
        joined: BTreeSet::new(),
        all_groups: false,
        drops,
        gone,
        shut: None,
        unable: false,
    };
    handle.share();
    let conflicts = if handle.is_shared() { handle.link.conflicts() } else { vec![] };
    Ok(Device {
        rx: queues,
        tx: tx
            .into_iter()
            .map(|s| Box::new(tx::PacketTx::new(name, s, form, caps)) as Box<dyn TxQueue>)
            .collect(),
        mac: state.mac,
        mtu: state.mtu,
        handle,
        conflicts,
    })
}

fn option(name: &str, what: &str) -> impl FnOnce(io::Error) -> Error {
    system(format!("set {what} of the packet socket on {name}"))
}

fn bind_error(name: &str, netns: Option<&str>) -> impl FnOnce(io::Error) -> Error {
    let (name, within) = (name.to_owned(), Within(netns.map(str::to_owned)));
    move |cause| match cause.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => Error::NoDevice { name, within },
        _ => Error::System { what: format!("bind a packet socket to {name}{within}"), cause },
    }
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

/// Makes the sockets share the device's packets by flow hash.
fn share(name: &str, sockets: &[(OwnedFd, Ring)]) -> Result<(), Error> {
    let mut group = (PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
    for (s, _) in sockets {
        sys::setsockopt(s, SOL_PACKET, PACKET_FANOUT, &group).map_err(|cause| {
            let hint = match cause.raw_os_error() {
                Some(libc::EINVAL) => " (older kernels want the device to be up)",
                _ => "",
            };
            Error::System { what: format!("share {name} between receive queues{hint}"), cause }
        })?;
        let mut id = 0u32;
        sys::getsockopt(s, SOL_PACKET, PACKET_FANOUT, &mut id).map_err(option(name, "the fanout group"))?;
        group = PACKET_FANOUT_HASH << 16 | (id & 0xffff);
    }
    Ok(())
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
