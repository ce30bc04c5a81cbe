//! What the operator says of a device.

use crate::router::{TapAddresses, check_namespace, is_tap_host};
use drivers::{af_packet, af_xdp};
use packet::eth::MacAddr;

pub use drivers::Offload;
/// Layout of an AF_PACKET receive ring.
pub use drivers::af_packet::RingVersion as Ring;

/// Where the program of an AF_XDP device works.
pub use drivers::af_xdp::{Kept, MOST_KEPT, Mode as XdpMode};

/// Who brings the packets of a Linux device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostDriver {
    /// Packet sockets.
    #[default]
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
    /// AF_XDP where the device's own driver works with it and it suits the device, else AF_PACKET.
    Auto,
}

impl HostDriver {
    /// All, with their names.
    pub const ALL: [(&'static str, HostDriver); 3] =
        [("af-packet", HostDriver::AfPacket), ("af-xdp", HostDriver::AfXdp), ("auto", HostDriver::Auto)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, d)| *d == self).map_or("", |(name, _)| name)
    }
}

/// A device of Linux's.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Who brings its packets.
    pub driver: HostDriver,
    /// Where AF_XDP's program works; where it works best when absent.
    pub mode: Option<XdpMode>,
    /// Frames that AF_XDP leaves to Linux, [`MOST_KEPT`] rules at most.
    pub kept: Vec<Kept>,
    /// The device.
    pub host: String,
    /// Its network namespace; Quiver's own when absent.
    pub netns: Option<String>,
    /// Receive queues, 1 to 64.
    pub rx_queues: usize,
    /// Ring layout.
    pub ring: Ring,
    /// Slots of a ring.
    pub slots: Option<usize>,
    /// Who completes checksums and cuts super-frames that are sent.
    pub offload: Offload,
}

impl HostConfig {
    /// Whether what it says fits its driver.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn check(&self) -> Result<(), String> {
        let xdp = self.driver == HostDriver::AfXdp;
        let name = self.driver.name();
        let wrong = [
            (self.mode.is_some() && !xdp, "a mode is AF_XDP's alone"),
            (
                !self.kept.is_empty() && self.driver == HostDriver::AfPacket,
                "what is left to Linux needs AF_XDP, or auto",
            ),
            (self.offload != Offload::Auto && xdp, "AF_XDP leaves nothing to the device: no offload"),
            (self.ring != Ring::V2 && xdp, "the rings of AF_XDP have no version"),
        ];
        if let Some((_, why)) = wrong.iter().find(|(is, _)| *is) {
            return Err(format!("{why}; the driver is {name}"));
        }
        match self.kept.len() {
            0..=MOST_KEPT => Ok(()),
            n => Err(format!("{n} rules, where {MOST_KEPT} rules of what is left to Linux are the most")),
        }
    }

    /// Whether the number of its receive queues may be changed while packets flow.
    pub fn is_resized(&self) -> bool {
        // Blocks of the other ring of AF_PACKET do not tell how far they are filled.
        self.driver == HostDriver::AfXdp || self.ring == Ring::V2
    }

    /// Whether a change of that number leads from this to another.
    pub fn becomes(&self, other: &HostConfig) -> bool {
        self.is_resized() && HostConfig { rx_queues: other.rx_queues, ..self.clone() } == *other
    }

    /// One queue.
    pub fn new(host: &str) -> Self {
        let d = af_packet::Config::new(host, 0);
        HostConfig {
            driver: HostDriver::AfPacket,
            mode: None,
            kept: vec![],
            host: host.into(),
            netns: None,
            rx_queues: 1,
            ring: d.ring,
            slots: d.slots,
            offload: d.offload,
        }
    }
}

/// Buffers, of a pool of `buffers`, that the receive rings of a Linux device hold: those of AF_XDP do, for as long as it is there.
pub fn rings_hold(driver: HostDriver, queues: usize, slots: Option<usize>, buffers: usize) -> usize {
    match driver {
        HostDriver::AfXdp => queues * af_xdp::slots(slots, queues, buffers),
        // Where `auto` takes AF_XDP the driver looks at that device alone, and takes AF_PACKET instead.
        HostDriver::AfPacket | HostDriver::Auto => 0,
    }
}

/// Whether receive rings that hold `need` buffers together leave enough of a pool.
///
/// # Errors
/// They do not, in words.
pub fn check_held(need: usize, buffers: usize) -> Result<(), String> {
    let most = af_xdp::most_held(buffers);
    if need <= most {
        return Ok(());
    }
    Err(format!(
        "the receive rings of all AF_XDP devices would hold {need} of the router's {buffers} buffers, of which they may have {most}: \
         fewer queues or slots (`rx-ring`), or more buffers (`quiver.buffers.count`)"
    ))
}

/// Capture files in place of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct PcapConfig {
    /// File that received packets are read from.
    pub read: Option<String>,
    /// File that sent packets are written to.
    pub write: Option<String>,
    /// Packets a second; as fast as it goes when absent.
    pub pps: Option<u64>,
    /// Start again at the end of the file.
    pub repeat: bool,
}

/// A TAP and its host side.
#[derive(Clone, Debug, PartialEq)]
pub struct TapConfig {
    /// Name of the Linux side.
    pub host_name: String,
    /// Namespace of the Linux side.
    pub netns: Option<String>,
    /// Make the namespace when there is none.
    pub netns_create: bool,
    /// MAC of the Linux side.
    pub host_mac: Option<MacAddr>,
    /// MTU of the Linux side.
    pub host_mtu: Option<u32>,
    /// Addresses of the Linux side.
    pub addresses: TapAddresses,
    /// Linux bridge that it joins.
    pub bridge: Option<String>,
    /// Make the bridge when there is none.
    pub bridge_create: bool,
    /// It outlives Quiver.
    pub persist: bool,
    /// It outlives Quiver, and this is written on it: it is taken over again as it is.
    pub mark: Option<String>,
    /// Receive queues, 1 to 64.
    pub rx_queues: usize,
    /// Packets that wait from Linux to Quiver.
    pub rx_ring: Option<u32>,
    /// Who completes checksums and cuts super-frames.
    pub offload: Offload,
}

impl PcapConfig {
    /// Whether its parts fit together.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.read.is_none() && self.write.is_none() {
            return Err("neither `read` nor `write` is given".into());
        }
        if self.read.is_none() && (self.pps.is_some() || self.repeat) {
            return Err("a rate, or to begin again, is of a file that is read: there is no `read`".into());
        }
        if self.read.is_some() && self.read == self.write {
            return Err("packets are read from and written to one file: write to another one".into());
        }
        Ok(())
    }
}

impl TapConfig {
    /// Whether a document could say it of the TAP `name`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let number = name.strip_prefix("tap").and_then(|n| n.parse::<u32>().ok());
        if number.is_none_or(|n| n > 1024 || name != format!("tap{n}")) {
            return Err("TAPs are tap0 to tap1024".into());
        }
        if !is_tap_host(&self.host_name) {
            return Err(format!(
                "{:?} cannot name its Linux side: a lower-case letter, then lower-case letters, digits and '-', at \
                 most 15",
                self.host_name
            ));
        }
        self.netns.as_deref().map_or(Ok(()), check_namespace)?;
        self.addresses.check(self.bridge.is_some(), self.host_mtu)
    }

    /// One queue.
    pub fn new(host_name: &str) -> Self {
        TapConfig {
            host_name: host_name.into(),
            netns: None,
            netns_create: false,
            host_mac: None,
            host_mtu: None,
            addresses: TapAddresses::default(),
            bridge: None,
            bridge_create: false,
            persist: false,
            mark: None,
            rx_queues: 1,
            rx_ring: None,
            offload: Offload::Auto,
        }
    }
}
