//! The control side of a Linux device: its MTU, MAC, flags and state, wherever its namespace is.

use crate::error::{Error, Within, check_device_name, privileged, system};
use crate::netlink::{Netlink, Request};
use crate::sys::{self, IfReq};
use crate::{linux, netns};
use ::linux::link;
use ::linux::wire::kind::{RTM_GETLINK, RTM_SETLINK};
use ::linux::wire::{self, Attributes};
use packet::MacAddr;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

const ADMIN: &str = "CAP_NET_ADMIN";

/// What Linux says of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Linux's index of the device.
    pub ifindex: u32,
    /// Administratively up.
    pub up: bool,
    /// Bytes behind the Ethernet header.
    pub mtu: u32,
    /// Its address.
    pub mac: MacAddr,
}

/// A Linux device by name. It stays in its namespace, whatever the calling thread's is.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    name: String,
    within: Within,
}

impl Link {
    /// The device `name` of the namespace (Quiver's own for `None`). Fails when there is none.
    pub fn open(name: &str, netns: Option<&str>) -> Result<Link, Error> {
        check_device_name(name)?;
        let link = netns::within(netns, || Link::here(name, netns))?;
        link.ifindex()?;
        Ok(link)
    }

    /// As `open`, in the calling thread's namespace, and without looking for the device.
    pub(crate) fn here(name: &str, netns: Option<&str>) -> Result<Link, Error> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(system("open a socket"))?;
        Ok(Link { socket, name: name.to_owned(), within: Within(netns.map(str::to_owned)) })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its namespace, where it is not Quiver's own.
    pub fn netns(&self) -> Option<&str> {
        self.within.0.as_deref()
    }

    pub(crate) fn within(&self) -> Within {
        self.within.clone()
    }

    fn get(&self, request: u64) -> Result<IfReq, Error> {
        let mut r = IfReq::new(&self.name);
        sys::ioctl(&self.socket, request, &mut r).map_err(|e| self.explain(e, "be read"))?;
        Ok(r)
    }

    pub(crate) fn explain(&self, e: io::Error, what: &str) -> Error {
        match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => {
                Error::NoDevice { name: self.name.clone(), within: self.within() }
            }
            Some(libc::EPERM | libc::EACCES) => {
                privileged(format!("changing {}{}", self.name, self.within), ADMIN)(e)
            }
            Some(libc::EINVAL | libc::ERANGE | libc::EADDRNOTAVAIL | libc::EBUSY | libc::EOPNOTSUPP) => {
                Error::Value {
                    name: self.name.clone(),
                    within: self.within(),
                    what: what.to_owned(),
                    cause: e,
                }
            }
            _ => Error::System { what: format!("set {what} on {}{}", self.name, self.within), cause: e },
        }
    }

    /// A command of ethtool's about the device, which the answer takes the place of.
    pub(crate) fn ethtool<const N: usize>(&self, command: &mut [u32; N]) -> io::Result<()> {
        sys::ethtool(&self.socket, &self.name, command)
    }

    fn set(&self, request: u64, argument: &[u8], what: &str) -> Result<(), Error> {
        let mut r = IfReq::new(&self.name);
        r.set(argument);
        sys::ioctl(&self.socket, request, &mut r).map_err(|e| self.explain(e, what))
    }

    /// Linux's index of the device now.
    pub fn ifindex(&self) -> Result<u32, Error> {
        Ok(self.get(linux::SIOCGIFINDEX)?.int().unsigned_abs())
    }

    /// All at once. It waits for no lock of Linux's.
    pub fn state(&self) -> Result<LinkState, Error> {
        Ok(LinkState {
            ifindex: self.ifindex()?,
            up: self.has(libc::IFF_UP)?,
            mtu: self.get(linux::SIOCGIFMTU)?.int().unsigned_abs(),
            mac: self.mac()?,
        })
    }

    fn has(&self, flag: i32) -> Result<bool, Error> {
        Ok(self.get(linux::SIOCGIFFLAGS)?.flags() & flag as u16 != 0)
    }

    /// Whether it is up and has carrier. It waits while somebody else changes devices in Linux.
    pub fn running(&self) -> Result<bool, Error> {
        // IFF_RUNNING follows the carrier up to a second late.
        let carrier = sys::carrier(&self.socket, &self.name);
        Ok(self.has(libc::IFF_UP)? && carrier.or_else(|_| self.has(libc::IFF_RUNNING))?)
    }

    /// Its address; an error when it is no Ethernet device.
    pub fn mac(&self) -> Result<MacAddr, Error> {
        let r = self.get(linux::SIOCGIFHWADDR)?;
        if r.flags() != libc::ARPHRD_ETHER {
            return Err(Error::NotEthernet { name: self.name.clone(), within: self.within() });
        }
        Ok(MacAddr([r.0[18], r.0[19], r.0[20], r.0[21], r.0[22], r.0[23]]))
    }

    /// Sets its address.
    pub fn set_mac(&self, mac: MacAddr) -> Result<(), Error> {
        let mut arg = [0; 8];
        arg[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        arg[2..].copy_from_slice(&mac.0);
        self.set(linux::SIOCSIFHWADDR, &arg, &format!("MAC address {mac}"))
    }

    /// Sets its MTU, in bytes behind the Ethernet header.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        let value = i32::try_from(mtu).unwrap_or(i32::MAX);
        let set = self.set(linux::SIOCSIFMTU, &value.to_ne_bytes(), &format!("MTU {mtu}"));
        set.map_err(|e| match (e, self.most_mtu()) {
            (Error::Value { name, within, what, .. }, Some(most)) if mtu > most => {
                Error::Value { name, within, what, cause: io::Error::other(format!("{most} at most")) }
            }
            (e, _) => e,
        })
    }

    /// The largest MTU that Linux says the device may have; `None` where it says none.
    pub fn most_mtu(&self) -> Option<u32> {
        let ifindex = self.ifindex().ok()?;
        let answer = self.ask(ifindex).ok()?;
        let of = Attributes(answer.get(wire::HEADER + link::IFINFOMSG..)?);
        let (_, value) = of.into_iter().find(|(kind, _)| *kind == IFLA_MAX_MTU)?;
        value.first_chunk().map(|v| u32::from_ne_bytes(*v)).filter(|most| *most != 0)
    }

    /// What Linux says of the device of this index.
    fn ask(&self, ifindex: u32) -> Result<Vec<u8>, Error> {
        netns::within(self.netns(), || {
            let mut about = [0; link::IFINFOMSG];
            about[4..8].copy_from_slice(&ifindex.to_ne_bytes());
            let answer = Netlink::here()?.ask(Request::get(RTM_GETLINK, &about));
            answer.map_err(system(format!("ask for {}", self.name)))
        })
    }

    /// Sets the length of its transmit queue in packets.
    pub fn set_tx_queue(&self, packets: u32) -> Result<(), Error> {
        let value = i32::try_from(packets).unwrap_or(i32::MAX);
        self.set(linux::SIOCSIFTXQLEN, &value.to_ne_bytes(), &format!("a queue of {packets} packets"))
    }

    /// Brings it up or down.
    pub fn set_up(&self, up: bool) -> Result<(), Error> {
        self.set_flag(libc::IFF_UP as u16, up, if up { "to go up" } else { "to go down" })
    }

    /// Puts it into a VRF device, by Linux's number of that, and out of what it is in; 0: into none.
    ///
    /// # Errors
    /// There is no such device, or Linux refuses.
    pub fn set_master(&self, master: u32) -> Result<(), Error> {
        let mut body = vec![0; link::IFINFOMSG];
        body[4..8].copy_from_slice(&self.ifindex()?.to_ne_bytes());
        let request = Request::change(RTM_SETLINK, 0, &body).with(link::IFLA_MASTER, &master.to_ne_bytes());
        let changed = netns::within(self.netns(), || Ok(Netlink::here()?.change(request)))?;
        changed.map_err(|e| self.explain(e, "its VRF"))
    }

    /// Has Linux ask no station for its address on this device: there are none behind it, and its frames go to its own address.
    ///
    /// # Errors
    /// Linux refuses.
    pub fn set_without_stations(&self, on: bool) -> Result<(), Error> {
        self.set_flag(libc::IFF_NOARP as u16, on, "whether it asks for stations")
    }

    /// Whether Linux asks no station there.
    ///
    /// # Errors
    /// The device is gone.
    pub fn is_without_stations(&self) -> Result<bool, Error> {
        Ok(self.get(linux::SIOCGIFFLAGS)?.flags() & libc::IFF_NOARP as u16 != 0)
    }

    fn set_flag(&self, bit: u16, on: bool, what: &str) -> Result<(), Error> {
        let old = self.get(linux::SIOCGIFFLAGS)?.flags();
        let new = if on { old | bit } else { old & !bit };
        if new == old {
            return Ok(());
        }
        self.set(linux::SIOCSIFFLAGS, &new.to_ne_bytes(), what)
    }

    /// Adds it to a bridge, made first when `create` and there is none. True when the bridge was made.
    pub fn join_bridge(&self, bridge: &str, create: bool) -> Result<bool, Error> {
        check_device_name(bridge)?;
        let of = Link {
            socket: self.socket.try_clone().map_err(system("copy a descriptor"))?,
            name: bridge.to_owned(),
            within: self.within(),
        };
        let mut made = false;
        if of.ifindex().is_err() {
            if !create {
                return Err(Error::NoBridge { name: bridge.to_owned(), within: self.within() });
            }
            sys::ioctl_name(&self.socket, linux::SIOCBRADDBR, bridge)
                .map_err(privileged(format!("making bridge {bridge}{}", self.within), ADMIN))?;
            made = true;
        }
        let result = self.join(&of);
        if result.is_err() && made {
            let _ = of.set_up(false);
            let _ = sys::ioctl_name(&self.socket, linux::SIOCBRDELBR, bridge);
        }
        result.map(|()| made)
    }

    fn join(&self, bridge: &Link) -> Result<(), Error> {
        bridge.set_up(true)?;
        let port = self.ifindex()?.to_ne_bytes();
        let add = || bridge.set(linux::SIOCBRADDIF, &port, &format!("{} as a port", self.name));
        match add() {
            // A port already, of this bridge or of another one: only of this one can it be taken out and put back.
            Err(Error::Value { cause, .. })
                if cause.raw_os_error() == Some(libc::EBUSY)
                    && bridge.set(linux::SIOCBRDELIF, &port, "a port to leave").is_ok() =>
            {
                add()
            }
            other => other,
        }
    }

    /// The addresses that Linux itself has on the device: it answers for them beside Quiver.
    pub fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        netns::within(self.netns(), || {
            sys::addresses(&self.name).map_err(system(format!("read the addresses of {}", self.name)))
        })
    }

    /// Whether Linux has a use of its own for what comes on the device: addresses beside those that it makes by itself, a bridge or bond
    /// that has it as a port, or devices upon it.
    ///
    /// # Errors
    /// Linux cannot be asked.
    pub fn is_used(&self, ifindex: u32) -> Result<bool, Error> {
        if self.addresses()?.iter().any(is_routable) {
            return Ok(true);
        }
        netns::within(self.netns(), || {
            let error = || system(format!("read what is upon {}", self.name));
            let of = |body: &[u8]| {
                link::parse(body)
                    .is_some_and(|l| l.upon == Some(ifindex) || l.ifindex == ifindex && l.master != 0)
            };
            let found = Netlink::here()?.dump(RTM_GETLINK, &[0; link::IFINFOMSG], of).map_err(error())?;
            Ok(!found.is_empty())
        })
    }

    /// The kind of a device that Linux makes by itself (`veth`, `vlan`, ...); `None` for a port.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn kind(&self, ifindex: u32) -> Result<Option<String>, Error> {
        let answer = self.ask(ifindex)?;
        let body = answer.get(wire::HEADER..).unwrap_or_default();
        let kind = kind(Attributes(body.get(link::IFINFOMSG..).unwrap_or_default()));
        Ok((!kind.is_empty()).then(|| String::from_utf8_lossy(kind).into_owned()))
    }

    /// Linux's own addresses on the device, beside those that it makes by itself.
    fn routable(&self, but: impl Fn(IpAddr) -> bool) -> Option<String> {
        let all = self.addresses().unwrap_or_default();
        let all = all.iter().filter(|a| is_routable(a) && !but(**a));
        let all: Vec<String> = all.map(ToString::to_string).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A sentence for the log when Linux has addresses on this device, `but` for some, of whose frames it gets none.
    pub(crate) fn deaf(&self, but: impl Fn(IpAddr) -> bool) -> Option<String> {
        let all = self.routable(but)?;
        Some(format!(
            "Linux has {all} on {}{}, where it hears nothing any more: all that comes is the router's",
            self.name, self.within
        ))
    }

    /// The same when Linux has addresses of which it gets packets of some protocols, and nobody who asks for the station.
    pub(crate) fn unresolved(&self, but: impl Fn(IpAddr) -> bool) -> Option<String> {
        let all = self.routable(but)?;
        Some(format!(
            "Linux has {all} on {}{}, and gets some protocols of that but no ARP or neighbor solicitation: nobody answers those unless \
             the router has the address as well, or `left-to-linux` names it alone",
            self.name, self.within
        ))
    }

    /// Sentences for the log when Linux works on the packets of this device too and would answer or forward them
    /// beside Quiver.
    pub fn conflicts(&self) -> Vec<String> {
        let mut out = Vec::new();
        let (name, within) = (&self.name, &self.within);
        if let Some(routable) = self.routable(|_| false) {
            out.push(format!(
                "Linux has {routable} on {name}{within} and answers for it too: remove it with \"{} addr flush dev {name}\"",
                within.0.as_ref().map_or_else(|| "ip".to_owned(), |ns| format!("ip -n {ns}")),
            ));
        }
        let forwarding = netns::within(self.netns(), || {
            let on = |path: String| std::fs::read_to_string(path).is_ok_and(|s| s.trim() == "1");
            Ok([
                ("net.ipv4", on(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"))),
                ("net.ipv6", on(format!("/proc/sys/net/ipv6/conf/{name}/forwarding"))),
            ])
        });
        for (family, on) in forwarding.into_iter().flatten() {
            if on {
                out.push(format!(
                    "Linux forwards packets that come on {name}{within} too: turn it off with \"sysctl {family}.conf.{name}.forwarding=0\""
                ));
            }
        }
        out
    }
}

/// Whether an address is more than what Linux gives each device.
pub(crate) fn is_routable(a: &IpAddr) -> bool {
    match a {
        IpAddr::V4(_) => true,
        IpAddr::V6(a) => !a.is_unicast_link_local(),
    }
}

const IFLA_LINKINFO: u16 = 18;
const IFLA_MAX_MTU: u16 = 51;
const IFLA_INFO_KIND: u16 = 1;

/// The kind that a link's attributes give, if any.
fn kind<'m>(mut of: Attributes<'m>) -> &'m [u8] {
    let Some((_, info)) = of.find(|(attribute, _)| *attribute == IFLA_LINKINFO) else { return b"" };
    let of = Attributes(info).find(|(k, _)| *k == IFLA_INFO_KIND);
    of.map_or(&b""[..], |(_, v)| v.split(|b| *b == 0).next().unwrap_or_default())
}

/// Makes a network namespace as `ip netns add` does, its loopback device up. False when there is one already.
///
/// # Errors
/// The name is none for a file, or the system refuses it.
pub fn create_netns(name: &str) -> Result<bool, Error> {
    netns::create(name, || {
        if let Ok(lo) = Link::here("lo", Some(name)) {
            let _ = lo.set_up(true);
        }
    })
}
