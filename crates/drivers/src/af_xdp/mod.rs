//! AF_XDP: any Ethernet device of Linux, whose driver puts frames into the router's own buffers and takes them from there.
//!
//! One socket per receive queue of the device, over the pool of the router. A program in the driver's receive path (or, in generic
//! mode, in Linux's) sends it the frames; Linux sees nothing of them. Workers beyond the number of queues send by AF_PACKET.

mod filter;
mod program;
mod queues;
mod ring;
mod rx;
mod settings;
mod socket;
mod tx;

use crate::counts::RxDrops;
use crate::error::{Error, Within, check_device_name};
use crate::host::{Control, Device, Host, PATIENCE, Resize, SLOTS, check_queues, check_slots};
use crate::netns;
use crate::{Link, af_packet};
pub use filter::{Kept, MOST_KEPT};
use graph::{Pool, TxQueue};
pub use program::Mode;
use program::Program;
use queues::{Queues, Wanted};
use settings::Tuned;
use socket::FRAME;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_SLOTS: usize = 2048;
/// Part of the pool that a queue takes at most, where its slots were not asked for.
const SHARE: usize = 16;

/// Slots of each ring of a device with that many receive queues, over a pool of that many buffers: those asked for, or the default.
pub fn slots(asked: Option<usize>, queues: usize, buffers: usize) -> usize {
    asked.unwrap_or_else(|| {
        let share = (buffers / SHARE).min(most_held(buffers) / queues.max(1)).max(*SLOTS.start());
        DEFAULT_SLOTS.min(1 << share.ilog2())
    })
}

/// Most buffers of a pool that the receive rings of all devices may hold together: a quarter stays for packets under way.
pub fn most_held(buffers: usize) -> usize {
    buffers - buffers / 4
}

/// A device to open.
#[derive(Clone)]
pub struct Config {
    /// Its name in Linux.
    pub ifname: String,
    /// Quiver's index of the interface.
    pub interface: u32,
    /// The namespace it is in, where that is not Quiver's own.
    pub netns: Option<String>,
    /// Receive queues: the device gets as many.
    pub rx_queues: usize,
    /// Transmit queues, one a worker.
    pub tx_queues: usize,
    /// Entries of each ring (a power of two); by default 2048, or fewer where that were more than a sixteenth of the buffers.
    pub slots: Option<usize>,
    /// Where the program works; where it works best by default.
    pub mode: Option<Mode>,
    /// What comes that stays Linux's, [`MOST_KEPT`] rules at most.
    pub kept: Vec<Kept>,
    /// How long to wait for a device that another router may be about to give back.
    pub patience: Duration,
    /// The router's buffers.
    pub pool: Arc<Pool>,
}

impl Config {
    /// One queue each way.
    pub fn new(ifname: &str, interface: u32, pool: &Arc<Pool>) -> Config {
        Config {
            ifname: ifname.to_owned(),
            interface,
            netns: None,
            rx_queues: 1,
            tx_queues: 1,
            slots: None,
            mode: None,
            kept: vec![],
            patience: PATIENCE,
            pool: Arc::clone(pool),
        }
    }
}

/// The control side of an open device.
pub struct Handle {
    /// Where the program works.
    pub mode: Mode,
    /// Entries of each ring.
    pub slots: usize,
    /// What comes that stays Linux's.
    pub kept: Vec<Kept>,
    program: Program,
    queues: Queues,
    /// Behind all that has a socket: a queue that has one cannot be taken from the device.
    tuned: Tuned,
    /// The device in Linux. The last to go: who waits for the device may take it then.
    pub host: Host,
}

impl Control for Handle {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// One of its own while there are some, then one of AF_PACKET.
    fn transmit_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        if let Some(queue) = self.queues.spare() {
            return Ok(queue);
        }
        let (queue, spare) = (af_packet::transmit_queue(&self.host)?, self.queues.has_spare());
        Ok(Box::new(tx::StandIn { queue, spare }))
    }

    fn drops(&self) -> RxDrops {
        self.queues.drops()
    }

    fn queue_drops(&self) -> Vec<RxDrops> {
        self.queues.each_drops()
    }

    fn resize(&mut self) -> Option<&mut dyn Resize> {
        Some(self)
    }

    fn describe(&self) -> String {
        format!(
            "af-xdp ({}, copy) on Linux device {}, {} queue{}, rings of {} slots{}{}",
            self.mode.name(),
            self.host.link.name(),
            self.queues.len(),
            if self.queues.len() == 1 { "" } else { "s" },
            self.slots,
            self.tuned,
            match self.kept.len() {
                0 => String::new(),
                1 => ", Linux keeps what 1 rule says".into(),
                n => format!(", Linux keeps what {n} rules say"),
            },
        )
    }

    fn alive(&self) -> bool {
        !self.queues.are_gone() && self.host.alive()
    }
}

/// Opens a device. What was opened is closed again when a step fails, and what was changed is put back.
///
/// # Errors
/// There is no such device, another router or program has it, it has another number of queues, or a permission is missing.
pub fn open(config: &Config) -> Result<Device<Handle>, Error> {
    let name = &config.ifname;
    check_device_name(name)?;
    check_queues(name, "receive", config.rx_queues)?;
    check_queues(name, "transmit", config.tx_queues)?;
    check_slots(name, config.slots)?;
    let buffers = config.pool.count();
    let slots = slots(config.slots, config.rx_queues, buffers);
    let (need, most) = (slots * config.rx_queues, most_held(buffers));
    if need > most {
        return Err(Error::Buffers { name: name.clone(), need, buffers, most });
    }
    let netns = config.netns.as_deref();
    let (host, state) = Host::open(name, netns, config.patience)?;
    settings::put_back(&host.link, state.ifindex);
    let software = host.link.kind(state.ifindex)?.is_some();
    let (program, mode) = netns::within(netns, || attach(config, state.ifindex))?;
    let tuned = Tuned::set(Link::open(name, netns)?, state.ifindex, config.rx_queues, mode)?;
    if software && tuned.has_set_queues() {
        program.renew().map_err(crate::error::system(format!("receive on {name}")))?;
    }
    let wanted = Wanted {
        name: name.clone(),
        netns: config.netns.clone(),
        ifindex: state.ifindex,
        interface: config.interface,
        pool: Arc::clone(&config.pool),
        slots: config.slots,
        several: program.several,
        software,
        patience: config.patience,
    };
    let (queues, rx) = Queues::open(wanted, config.rx_queues, slots, &program.sockets)?;
    let several = queues.several();
    // Of addresses that it knows to be Linux's the operator need not be told.
    let whole = |a| config.kept.iter().any(|k| k.to == Some(a) && k.protocol.is_none());
    let partly = |a| config.kept.iter().any(|k| k.protocol.is_some() && k.to.is_none_or(|to| to == a));
    let mut notes = Vec::from_iter(host.link.deaf(|a| whole(a) || partly(a)));
    notes.extend(host.link.unresolved(|a| whole(a) || !partly(a)));
    if !several && state.mtu as usize + 18 > FRAME {
        notes.push(format!(
            "{name} brings frames of at most {FRAME} bytes: the kernel or its driver takes no larger ones"
        ));
    }
    let mut device = Device {
        rx,
        tx: Vec::new(),
        mac: state.mac,
        mtu: state.mtu,
        handle: Handle { mode, slots, kept: config.kept.clone(), program, queues, tuned, host },
        conflicts: notes,
    };
    for _ in 0..config.tx_queues {
        device.tx.push(device.handle.transmit_queue()?);
    }
    Ok(device)
}

/// The program in the best mode that works, or in the one asked for.
fn attach(config: &Config, ifindex: u32) -> Result<(Program, Mode), Error> {
    let name = &config.ifname;
    let explain = |mode: Mode| {
        let within = Within(config.netns.clone());
        move |cause: io::Error| match cause.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Error::System {
                what: format!(
                    "put a program on {name}{within}: it has an XDP program, \"ip link set dev {name} xdp off\" takes it away"
                ),
                cause,
            },
            Some(libc::EPERM | libc::EACCES) => Error::Permission {
                what: format!("AF_XDP on {name}{within}"),
                capability: "CAP_BPF and CAP_NET_ADMIN",
            },
            _ => Error::System {
                what: format!("put a program on {name}{within} in {} mode", mode.name()),
                cause,
            },
        }
    };
    let with = |mode| Program::attach(ifindex, mode, &config.kept).map(|p| (p, mode)).map_err(explain(mode));
    match config.mode {
        Some(mode) => with(mode),
        None => match with(Mode::Native) {
            Err(Error::System { cause, .. })
                if !matches!(cause.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) =>
            {
                with(Mode::Generic)
            }
            other => other,
        },
    }
}

/// Puts back what a killed router has changed of a device that nobody has now; whether all of it was.
pub(crate) fn put_back(link: &Link, ifindex: u32) -> bool {
    settings::put_back(link, ifindex)
}

/// How many receive queues a device has.
///
/// # Errors
/// There is no such device.
pub fn receive_queues(name: &str, netns: Option<&str>) -> Result<usize, Error> {
    Ok(settings::receive_queues(&Link::open(name, netns)?).min(crate::host::MAX_QUEUES))
}

/// Why a device is better taken over by AF_PACKET, in words; `None` where AF_XDP suits it.
///
/// # Errors
/// There is no such device.
pub fn objection(name: &str, netns: Option<&str>) -> Result<Option<String>, Error> {
    let link = Link::open(name, netns)?;
    let kind = link.kind(link.ifindex()?)?;
    Ok(kind.map(|kind| format!("{kind} devices bring super-frames and tags that AF_XDP does not")))
}
