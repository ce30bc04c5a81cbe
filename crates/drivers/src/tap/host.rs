//! Addresses and the default route of a TAP's Linux side.

use super::Config;
use crate::error::{Error, Within, privileged};
use crate::link::Link;
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Netlink, Request};
use std::io;
use std::net::IpAddr;

const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;

/// Puts them on the device, in the calling thread's namespace.
pub(super) fn assign(link: &Link, config: &Config) -> Result<(), Error> {
    if config.addresses.is_empty() && config.gateways.is_empty() {
        return Ok(());
    }
    let socket = Netlink::here()?;
    let index = link.ifindex()?;
    for (address, length) in &config.addresses {
        let added = socket.change(new_address(index, *address, *length));
        added.map_err(refused(config, format!("the address {address}/{length}"), *address))?;
    }
    for gateway in &config.gateways {
        let add = || socket.change(route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, index, *gateway));
        let added = match add() {
            // A device that has outlived the router has its route still: only that can be taken away and put back. Another
            // device's is not touched.
            Err(e)
                if e.raw_os_error() == Some(libc::EEXIST)
                    && socket.change(route(RTM_DELROUTE, 0, index, *gateway)).is_ok() =>
            {
                add()
            }
            other => other,
        };
        added.map_err(refused(config, format!("the gateway {gateway}"), *gateway))?;
    }
    Ok(())
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

/// `struct ifaddrmsg` and the address. A device that has it already keeps it.
fn new_address(index: u32, address: IpAddr, length: u8) -> Request {
    let mut body = vec![family(address), length, 0, 0];
    body.extend(index.to_ne_bytes());
    let bytes = octets(address);
    Request::change(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body)
        .with(IFA_LOCAL, &bytes)
        .with(IFA_ADDRESS, &bytes)
}

/// `struct rtmsg` of the default route, its gateway and its device.
fn route(kind: u16, flags: u16, index: u32, gateway: IpAddr) -> Request {
    let mut body = vec![family(gateway), 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, RTN_UNICAST];
    body.extend([0; 4]);
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
