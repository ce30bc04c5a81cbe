//! Which device an interface is to be, and how.

use crate::offload::Offload;
use packet::MacAddr;

/// Most queues of a direction.
pub const MOST_QUEUES: usize = 64;
/// Most bytes of a device's name with its arguments.
const LONGEST: usize = 512;

/// A device as DPDK names it: an address on the PCI bus, or a virtual device; and arguments for its driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// As DPDK shows it: `0000:01:00.0`, `net_null0`.
    device: String,
    args: String,
}

impl Name {
    /// Reads `[DOMAIN:]BUS:DEVICE.FUNCTION[,ARGUMENTS]` or `net_DRIVER...[,ARGUMENTS]`.
    ///
    /// # Errors
    /// Why it names none.
    pub fn parse(text: &str) -> Result<Name, String> {
        const SHAPE: &str = "an address as in 0000:01:00.0, or a virtual device as in net_null0, and arguments behind a comma";
        if text.len() > LONGEST {
            return Err(format!("a device of {} characters: at most {LONGEST}", text.len()));
        }
        let (device, args) = text.split_once(',').unwrap_or((text, ""));
        let device = if let Some(pci) = pci(device) {
            pci
        } else if is_virtual(device) {
            device.to_owned()
        } else {
            return Err(format!("{device:?} is no device of DPDK: {SHAPE}"));
        };
        if text.contains(',') {
            check_args(args)?;
        }
        Ok(Name { device, args: args.to_owned() })
    }

    /// The device alone.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether it is made by software, and by DPDK.
    pub fn is_virtual(&self) -> bool {
        self.device.starts_with("net_")
    }

    /// The value of an argument.
    pub fn arg(&self, name: &str) -> Option<&str> {
        let args = self.args.split(',').filter_map(|a| a.split_once('='));
        args.filter(|(n, _)| *n == name).map(|(_, v)| v).next_back()
    }

    /// Whether it connects to another process, and does so only as it is started.
    pub fn connects(&self) -> bool {
        let listens = matches!(self.arg("role"), Some("server" | "master"));
        self.device.starts_with("net_memif") && !listens
    }

    /// The Linux device that the driver takes frames from, and which has to be there.
    pub fn linux_device(&self) -> Option<&str> {
        let takes = ["net_af_packet", "net_af_xdp"].iter().any(|d| self.device.starts_with(d));
        self.arg("iface").filter(|_| takes)
    }
}

/// An address for an interface whose device has not told its own, or makes one up each time: the same on every start.
pub fn mac(device: &Name) -> MacAddr {
    crate::station::of(&["dpdk", &device.to_string()])
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.device)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, ",{}", self.args) }
    }
}

/// A PCI address in full.
fn pci(text: &str) -> Option<String> {
    let hex = |text: &str, most: usize| {
        let fits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (place, function) = text.split_once('.')?;
    let mut parts = place.rsplit(':');
    let (device, bus) = (hex(parts.next()?, 2)?, hex(parts.next()?, 2)?);
    let domain = parts.next().map_or(Some(0), |d| hex(d, 8))?;
    let function = hex(function, 1).filter(|f| *f < 8)?;
    (parts.next().is_none() && device < 32).then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

fn is_virtual(text: &str) -> bool {
    let name = text.strip_prefix("net_").unwrap_or_default();
    (1..60).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn check_args(args: &str) -> Result<(), String> {
    for arg in args.split(',') {
        let (name, value) = arg.split_once('=').unwrap_or((arg, "1"));
        let named = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) && !name.is_empty();
        let plain = value.bytes().all(|b| b.is_ascii_graphic()) && !value.is_empty();
        if !(named && plain) {
            return Err(format!("{arg:?} is no argument of a device: NAME=VALUE without blanks"));
        }
        if name == "zero-copy" && value != "no" {
            return Err("zero-copy: the buffers are Quiver's own, which net_memif cannot share as they are: leave it out".into());
        }
    }
    Ok(())
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device.
    pub device: Name,
    /// Receive queues, 1 to [`MOST_QUEUES`].
    pub rx_queues: usize,
    /// Transmit queues, at least; one a worker where the device has as many.
    pub tx_queues: usize,
    /// Slots of each ring; what the device has by itself is 1024 where absent.
    pub slots: Option<u32>,
    /// Who checks and completes checksums and cuts super-frames: the device as far as it can, or Quiver ([`Offload::Off`]).
    pub offload: Offload,
}

impl Config {
    /// One queue.
    pub fn new(device: Name) -> Config {
        Config { device, rx_queues: 1, tx_queues: 1, slots: None, offload: Offload::Auto }
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        for (what, n) in [("receive", self.rx_queues), ("transmit", self.tx_queues)] {
            if !(1..=MOST_QUEUES).contains(&n) {
                return Err(format!("{n} {what} queues: 1 to {MOST_QUEUES}"));
            }
        }
        match self.slots {
            Some(n) if !n.is_power_of_two() || !(64..=32_768).contains(&n) => {
                Err(format!("a ring of {n} slots: a power of two, 64 to 32768"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_dpdk_does() {
        for (text, device) in [
            ("0000:01:00.0", "0000:01:00.0"),
            ("01:00.0", "0000:01:00.0"),
            ("1:1f.7", "0000:01:1f.7"),
            ("ABCD:E1:0a.1,rxq_cqe_comp_en=0", "abcd:e1:0a.1"),
            ("net_null0", "net_null0"),
            ("net_memif0,role=client,id=3,socket=/run/a b.sock", ""),
            ("net_pcap0,rx_pcap=/tmp/in.pcap,tx_pcap=/tmp/out.pcap", "net_pcap0"),
            ("net_memif0,zero-copy=yes", ""),
            ("net_null0,", ""),
            ("net_null0,=4", ""),
            ("net_null0,copy=", ""),
            ("net_", ""),
            ("net_Null0", ""),
            ("eth0", ""),
            ("01:20.0", ""),
            ("01:00.8", ""),
            ("0:0:01:00.0", ""),
            ("01:00", ""),
            ("", ""),
            ("net_null0 ,copy=1", ""),
        ] {
            let name = Name::parse(text);
            assert_eq!(name.as_ref().map_or("", |n| n.device()), device, "{text}: {name:?}");
        }
        let shown = Name::parse("1:2.3,a=b,c").unwrap();
        assert_eq!((shown.to_string().as_str(), shown.is_virtual()), ("0000:01:02.3,a=b,c", false));
        assert!(Name::parse(&format!("net_null0,a={}", "b".repeat(LONGEST))).is_err());
    }

    #[test]
    fn arguments_are_found() {
        let n = Name::parse("net_af_packet0,iface=eth0,qpairs=2,iface=eth1").unwrap();
        assert_eq!((n.arg("iface"), n.arg("qpairs"), n.arg("q")), (Some("eth1"), Some("2"), None));
        assert_eq!(n.linux_device(), Some("eth1"));
        assert_eq!(Name::parse("net_tap0,iface=t0").unwrap().linux_device(), None);
        for (text, connects) in [
            ("net_memif0", true),
            ("net_memif1,role=client", true),
            ("net_memif0,role=server", false),
            ("net_null0", false),
        ] {
            assert_eq!(Name::parse(text).unwrap().connects(), connects, "{text}");
        }
    }

    #[test]
    fn counts_have_their_bounds() {
        let good = Config::new(Name::parse("net_null0").unwrap());
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Config { rx_queues: 0, ..good.clone() },
            Config { tx_queues: 65, ..good.clone() },
            Config { slots: Some(100), ..good.clone() },
            Config { slots: Some(32), ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
