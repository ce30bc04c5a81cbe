//! Addresses and the default route of a TAP's Linux side.

use super::Config;
use crate::error::{Error, Within, privileged, system};
use crate::link::Link;
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Netlink, Request};
use crate::netns;
use linux::wire::Attributes;
use packet::eth::MacAddr;
use std::io;
use std::net::IpAddr;

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Who said where a neighbor is, as Linux keeps it from 5.2 on.
const NDA_PROTOCOL: u16 = 12;
const NUD_PERMANENT: u16 = 0x80;
/// `struct ndmsg`: family, padding, device, state, flags, type.
const NDMSG: usize = 12;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Who gave a device an address, as Linux keeps it from 5.18 on: 'Q'.
const IFA_PROTO: u16 = 11;
/// Who Quiver is in what Linux keeps of addresses and neighbors.
pub const QUIVER: u8 = b'Q';
const IFA_F_PERMANENT: u8 = 0x80;
const IFA_F_NODAD: u32 = 0x02;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, device.
const IFADDRMSG: usize = 8;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
/// `struct rtmsg`: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
const RTMSG: usize = 12;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;
const RTNH_F_ONLINK: u32 = 4;
/// Of a device: what can be reached from elsewhere. The same number for addresses and routes.
const UNIVERSE: u8 = 0;

/// Puts them on the device, in the calling thread's namespace. When a step fails, the device has what it had before.
pub(super) fn assign(link: &Link, config: &Config) -> Result<(), Error> {
    if config.addresses.is_empty() && config.gateways.is_empty() {
        return Ok(());
    }
    let socket = Netlink::here()?;
    let mut undo = Vec::new();
    let result = change(&socket, link.ifindex()?, config, &mut undo);
    if result.is_err() {
        for request in undo.into_iter().rev() {
            // What Linux has kept after all is refused, and so be it.
            let _ = socket.change(request);
        }
    }
    result
}

fn change(socket: &Netlink, index: u32, config: &Config, undo: &mut Vec<Request>) -> Result<(), Error> {
    let families = config.addresses.iter().map(|a| a.0).chain(config.gateways.iter().copied()).map(family);
    let families: Vec<u8> = families.collect();
    let mut routes = default_routes(socket, &families)?;
    // Linux refuses a second default route only of the same metric: one of a lower metric takes over unasked. So all are
    // looked at, before anything changes.
    for gateway in &config.gateways {
        if routes.iter().any(|r| r[0] == family(*gateway) && !over(r, index)) {
            let e = io::Error::from_raw_os_error(libc::EEXIST);
            return Err(refused(config, format!("the gateway {gateway}"), *gateway)(e));
        }
    }
    // A device that has outlived the router has its routes and addresses still, which need not be those of now.
    routes.retain(|r| over(r, index));
    for route in routes {
        // One that stays here may go with the last address below.
        undo.push(Request::change(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &again(&route)));
        if config.gateways.iter().any(|g| family(*g) == route[0]) {
            remove(socket, Request::change(RTM_DELROUTE, 0, &route), "the default route", config)?;
        }
    }
    let here = addresses(socket, index, &families)?;
    // The last first: with the first of a prefix Linux would take away the others.
    for (message, address) in here.iter().rev().filter(|(_, a)| !config.addresses.contains(a)) {
        undo.push(Request::change(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, message));
        let what = format!("the address {}/{}", address.0, address.1);
        remove(socket, Request::change(RTM_DELADDR, 0, message), &what, config)?;
    }
    for (address, length) in &config.addresses {
        let added = socket.change(of_address(RTM_NEWADDR, index, *address, *length));
        added.map_err(refused(config, format!("the address {address}/{length}"), *address))?;
        if !here.iter().any(|(_, a)| a == &(*address, *length)) {
            undo.push(of_address(RTM_DELADDR, index, *address, *length));
        }
    }
    for gateway in &config.gateways {
        let added = socket.change(of_route(RTM_NEWROUTE, index, *gateway));
        added.map_err(refused(config, format!("the gateway {gateway}"), *gateway))?;
        undo.push(of_route(RTM_DELROUTE, index, *gateway));
    }
    Ok(())
}

/// What Linux took away by itself meanwhile is gone too.
fn remove(socket: &Netlink, request: Request, what: &str, config: &Config) -> Result<(), Error> {
    match socket.change(request) {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EADDRNOTAVAIL)) => {
            Err(system(format!("take {what} from {}{}", config.host_name, Within(config.netns.clone())))(e))
        }
        _ => Ok(()),
    }
}

/// The default routes of these families in the main table, as Linux writes them.
fn default_routes(socket: &Netlink, families: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut body = [0; RTMSG];
    body[4] = RT_TABLE_MAIN;
    let all = socket.dump(RTM_GETROUTE, &body, |m| {
        m.len() >= RTMSG && families.contains(&m[0]) && m[1] == 0 && m[2] == 0 && m[4] == RT_TABLE_MAIN
    });
    all.map_err(system("read the default routes"))
}

/// Whether all of a route goes over the device.
fn over(route: &[u8], index: u32) -> bool {
    let number = |b: &[u8]| b.try_into().ok().map(u32::from_ne_bytes);
    let mut devices = Vec::new();
    for (kind, value) in Attributes(route.get(RTMSG..).unwrap_or_default()) {
        match kind {
            RTA_OIF => devices.push(number(value)),
            RTA_MULTIPATH => {
                // `struct rtnexthop`: its length, flags, hops, device, and then attributes.
                let mut rest = value;
                while let Some(&[a, b, _, _, d0, d1, d2, d3]) = rest.first_chunk::<8>() {
                    devices.push(Some(u32::from_ne_bytes([d0, d1, d2, d3])));
                    let len = usize::from(u16::from_ne_bytes([a, b])).max(8);
                    rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    // One that goes nowhere ("unreachable") is another's too.
    !devices.is_empty() && devices.iter().all(|d| *d == Some(index))
}

/// A route as Linux wrote it, to be put back: it refuses the flags that tell of the link's state.
fn again(route: &[u8]) -> Vec<u8> {
    let mut route = route.to_vec();
    let flags = route.get(8..12).and_then(|f| f.try_into().ok()).map_or(0, u32::from_ne_bytes);
    route[8..12].copy_from_slice(&(flags & RTNH_F_ONLINK).to_ne_bytes());
    route
}

type Address = (IpAddr, u8);

/// The device's addresses of these families, as Linux writes them. Those that it has for a time only come from
/// advertisements or DHCP, and those of the link are its own: they are none of ours.
fn addresses(socket: &Netlink, index: u32, families: &[u8]) -> Result<Vec<(Vec<u8>, Address)>, Error> {
    let ours = |m: &[u8]| {
        m.len() >= IFADDRMSG
            && families.contains(&m[0])
            && m[2] & IFA_F_PERMANENT != 0
            && m[3] == UNIVERSE
            && m[4..8] == index.to_ne_bytes()
    };
    let all = socket.dump(RTM_GETADDR, &[0; IFADDRMSG], ours).map_err(system("read the addresses"))?;
    let found = all.into_iter().filter_map(|m| {
        let value = |wanted| Attributes(&m[IFADDRMSG..]).find(|(kind, _)| *kind == wanted).map(|(_, v)| v);
        let bytes = value(IFA_LOCAL).or_else(|| value(IFA_ADDRESS))?;
        let ip = match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        };
        let length = m[1];
        Some((m, (ip, length)))
    });
    Ok(found.collect())
}

/// An address of a device that outlives the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub address: IpAddr,
    /// The length of its prefix.
    pub length: u8,
    /// [`change_address`] has given it, as far as Linux keeps that.
    pub ours: bool,
}

/// The addresses that a device has for good, but for those of the link.
///
/// # Errors
/// The device is gone, or Linux cannot be asked.
pub fn given(link: &Link) -> Result<Vec<Given>, Error> {
    let index = link.ifindex()?;
    let families = [libc::AF_INET as u8, libc::AF_INET6 as u8];
    let all = netns::within(link.netns(), || addresses(&Netlink::here()?, index, &families))?;
    let given = |(m, (address, length)): (Vec<u8>, Address)| {
        let mut all = Attributes(&m[IFADDRMSG..]);
        let ours = all.any(|(kind, value)| kind == IFA_PROTO && value == [QUIVER]);
        Given { address, length, ours }
    };
    Ok(all.into_iter().map(given).collect())
}

fn family(a: IpAddr) -> u8 {
    if a.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(a: IpAddr) -> Vec<u8> {
    match a {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// Adds an address, which a device may have already, or takes it away.
fn of_address(kind: u16, index: u32, address: IpAddr, length: u8) -> Request {
    let mut body = vec![family(address), length, 0, UNIVERSE];
    body.extend(index.to_ne_bytes());
    let bytes = octets(address);
    let flags = if kind == RTM_NEWADDR { NLM_F_CREATE | NLM_F_REPLACE } else { 0 };
    Request::change(kind, flags, &body).with(IFA_LOCAL, &bytes).with(IFA_ADDRESS, &bytes)
}

/// Gives a device an address with the length of its prefix, or takes it away; it may have it, or not have it, already. Quiver has looked
/// for others who have it.
///
/// # Errors
/// Linux refuses.
pub fn change_address(link: &Link, address: IpAddr, length: u8, add: bool) -> Result<(), Error> {
    let index = link.ifindex()?;
    let mut request = of_address(if add { RTM_NEWADDR } else { RTM_DELADDR }, index, address, length);
    if add {
        request = request.with(IFA_PROTO, &[QUIVER]);
    }
    if address.is_ipv6() {
        request = request.with(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
    }
    match netns::within(link.netns(), || Ok(Netlink::here()?.change(request)))? {
        Err(e) if !add && e.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(()),
        other => other.map_err(|e| link.explain(e, &format!("address {address}/{length}"))),
    }
}

fn of_neighbor(kind: u16, index: u32, address: IpAddr) -> Request {
    let mut body = vec![0; NDMSG];
    body[0] = family(address);
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    let flags = if kind == RTM_NEWNEIGH { NLM_F_CREATE | NLM_F_REPLACE } else { 0 };
    Request::change(kind, flags, &body).with(NDA_DST, &octets(address))
}

/// Gives a device permanent neighbors, in place of what Linux knows of them, or takes them away (no MAC address), one after the other; why those that were refused were.
pub fn change_neighbors(link: &Link, all: &[(IpAddr, Option<MacAddr>)]) -> Vec<Error> {
    let changed = link.ifindex().and_then(|index| {
        netns::within(link.netns(), || {
            let socket = Netlink::here()?;
            let change = |(address, mac): &(IpAddr, Option<MacAddr>)| {
                let request = match mac {
                    Some(mac) => of_neighbor(RTM_NEWNEIGH, index, *address)
                        .with(NDA_LLADDR, &mac.0)
                        .with(NDA_PROTOCOL, &[QUIVER]),
                    None => of_neighbor(RTM_DELNEIGH, index, *address),
                };
                match socket.change(request) {
                    Err(e) if mac.is_none() && e.raw_os_error() == Some(libc::ENOENT) => None,
                    Err(e) => Some(link.explain(e, &format!("neighbor {address}"))),
                    Ok(_) => None,
                }
            };
            Ok(all.iter().filter_map(change).collect())
        })
    });
    changed.unwrap_or_else(|e| vec![e])
}

/// The neighbors that [`change_neighbors`] has given a device, as far as Linux keeps that.
///
/// # Errors
/// The device is gone, or Linux cannot be asked.
pub fn given_neighbors(link: &Link) -> Result<Vec<(IpAddr, MacAddr)>, Error> {
    let index = link.ifindex()?;
    let all = netns::within(link.netns(), || {
        let mine = |m: &[u8]| m.get(4..8) == Some(&index.to_ne_bytes()[..]);
        let read = Netlink::here()?.dump(RTM_GETNEIGH, &[0; NDMSG], mine);
        read.map_err(system("read the neighbors"))
    })?;
    let ours = |m: Vec<u8>| {
        let (mut address, mut mac, mut ours) = (None, None, false);
        for (kind, value) in Attributes(m.get(NDMSG..)?) {
            match kind {
                NDA_DST => address = linux::route::address(value),
                NDA_LLADDR => mac = value.try_into().ok().map(MacAddr),
                NDA_PROTOCOL => ours = value == [QUIVER],
                _ => {}
            }
        }
        Some((address?, mac?)).filter(|_| ours)
    };
    Ok(all.into_iter().filter_map(ours).collect())
}

/// Adds the default route over the device, or takes it away.
fn of_route(kind: u16, index: u32, gateway: IpAddr) -> Request {
    let mut body = vec![family(gateway), 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, UNIVERSE, RTN_UNICAST];
    body.extend([0; 4]);
    let flags = if kind == RTM_NEWROUTE { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    Request::change(kind, flags, &body)
        .with(RTA_GATEWAY, &octets(gateway))
        .with(RTA_OIF, &index.to_ne_bytes())
}

fn refused(config: &Config, what: String, of: IpAddr) -> impl FnOnce(io::Error) -> Error {
    let (name, within) = (config.host_name.clone(), Within(config.netns.clone()));
    move |e| match e.raw_os_error() {
        Some(libc::EEXIST) => {
            Error::DefaultRoute { what, within, ip: if of.is_ipv4() { "-4" } else { "-6" } }
        }
        // What Linux says where IPv6 is switched off; without the capability it says EPERM.
        Some(libc::EACCES | libc::EOPNOTSUPP | libc::EAFNOSUPPORT) if of.is_ipv6() => {
            Error::NoIp6 { name, within, what }
        }
        Some(libc::EPERM) => privileged(format!("giving {name}{within} {what}"), super::ADMIN)(e),
        _ => Error::Value { name, within, what, cause: e },
    }
}
