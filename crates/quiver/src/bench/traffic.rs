//! The packets of the scenarios.

use super::feed::{Patch, Template};
use super::random::Random;
use packet::arp::ArpMessage;
use packet::compose::{L3, L4, frame, ip_frame};
use packet::eth::{EtherType, MacAddr};
use packet::ip4::Ip4Builder;
use packet::ip6::Ip6Builder;
use packet::proto::IpProtocol;
use packet::udp::UdpBuilder;
use std::net::{Ipv4Addr, Ipv6Addr};

/// MAC address of the interface on which packets come.
pub const ROUTER: MacAddr = MacAddr([0x02, 0xfe, 0, 0, 0, 0]);
/// MAC address of the host that sends them.
pub const HOST: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 1]);
/// Its address.
pub const HOST4: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 2);
/// Its address.
pub const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xff, 0, 0, 0, 0, 0, 2);
/// The router's address on that interface.
pub const ROUTER4: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The router's address on that interface.
pub const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xff, 0, 0, 0, 0, 0, 1);
/// The smallest frame that holds every scenario's headers, and the largest that buffers are measured with, bytes.
pub const SIZES: std::ops::RangeInclusive<usize> = 64..=9000;

/// So many tags, which are to be patched.
fn tags(count: usize) -> Vec<(EtherType, u16)> {
    vec![(EtherType::VLAN, 0); count]
}

fn udp() -> L4<'static> {
    L4::Udp(UdpBuilder { src_port: 1024, dst_port: 9 })
}

/// A UDP packet over IPv4 in a frame of `size` bytes with so many tags, whose destination is to be patched.
pub fn ip4(size: usize, tagged: usize) -> Result<Template, String> {
    let l3 = 14 + 4 * tagged;
    let ip = Ip4Builder::new(HOST4, Ipv4Addr::UNSPECIFIED, IpProtocol::UDP);
    let payload = vec![0; size.saturating_sub(l3 + 28)];
    let mut bytes =
        ip_frame(ROUTER, HOST, &tags(tagged), L3::Ip4(ip), udp(), &payload).map_err(|e| e.to_string())?;
    // No checksum (RFC 768), so that none has to follow the destination.
    bytes[l3 + 26..l3 + 28].fill(0);
    Ok(Template { bytes, patch: Patch::Ip4(l3), tags: 4 * tagged })
}

/// The same over IPv6.
pub fn ip6(size: usize, tagged: usize) -> Result<Template, String> {
    let l3 = 14 + 4 * tagged;
    let ip = Ip6Builder::new(HOST6, Ipv6Addr::UNSPECIFIED, IpProtocol::UDP);
    let payload = vec![0; size.saturating_sub(l3 + 48)];
    let bytes =
        ip_frame(ROUTER, HOST, &tags(tagged), L3::Ip6(ip), udp(), &payload).map_err(|e| e.to_string())?;
    Ok(Template { bytes, patch: Patch::Ip6(l3), tags: 4 * tagged })
}

/// [`ip4`] behind this label.
pub fn labelled(size: usize, label: u32) -> Result<Template, String> {
    let Template { mut bytes, .. } = ip4(size.saturating_sub(4), 0)?;
    bytes[12..14].copy_from_slice(&EtherType::MPLS.0.to_be_bytes());
    bytes.splice(14..14, (label << 12 | 1 << 8 | 64).to_be_bytes());
    Ok(Template { bytes, patch: Patch::Ip4(18), tags: 0 })
}

/// [`ip4`] in a GRE tunnel from the host to the router.
pub fn gre(size: usize) -> Result<Template, String> {
    let Template { bytes: inner, .. } = ip4(size.saturating_sub(24).max(14 + 28), 0)?;
    let mut payload = vec![0, 0, 8, 0];
    payload.extend_from_slice(inner.get(14..).unwrap_or_default());
    let ip = Ip4Builder::new(HOST4, ROUTER4, IpProtocol::GRE);
    let mut packet = vec![0; 20];
    ip.emit(&mut packet, payload.len()).map_err(|e| e.to_string())?;
    packet.extend(payload);
    let bytes = frame(ROUTER, HOST, &[], EtherType::IPV4, &packet);
    Ok(Template { bytes, patch: Patch::Ip4(14 + 24), tags: 0 })
}

/// The station of a bridge domain.
pub const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// [`ip4`] to the station.
pub fn to_station(size: usize) -> Result<Template, String> {
    let mut t = ip4(size, 0)?;
    t.bytes[..6].copy_from_slice(&STATION.0);
    Ok(t)
}

/// The same in a VXLAN tunnel from the host to the router.
pub fn vxlan(size: usize, vni: u32) -> Result<Template, String> {
    let Template { bytes: inner, .. } = to_station(size.saturating_sub(50).max(14 + 28))?;
    let len = (16 + inner.len()) as u16;
    let ports = [50_000, 4789, len, 0].map(u16::to_be_bytes).concat();
    let payload = [&ports[..], &[8, 0, 0, 0], &(vni << 8).to_be_bytes(), &inner].concat();
    let mut packet = vec![0; 20];
    let ip = Ip4Builder::new(HOST4, ROUTER4, IpProtocol::UDP);
    ip.emit(&mut packet, payload.len()).map_err(|e| e.to_string())?;
    packet.extend(payload);
    let bytes = frame(ROUTER, HOST, &[], EtherType::IPV4, &packet);
    Ok(Template { bytes, patch: Patch::Ip4(14 + 36 + 14), tags: 0 })
}

/// A frame for a cross-connect or a bridge domain.
pub fn ethernet(size: usize, tagged: usize) -> Template {
    let payload = vec![0; size.saturating_sub(14 + 4 * tagged)];
    let bytes = frame(STATION, HOST, &tags(tagged), EtherType(0x88b5), &payload);
    Template { bytes, patch: Patch::None, tags: 4 * tagged }
}

fn broken(mut t: Template, edit: impl FnOnce(&mut Vec<u8>)) -> Template {
    edit(&mut t.bytes);
    t
}

/// Kinds of packets and how many of a hundred are of each: IPv4, IPv6, ARP requests and what must be dropped.
pub fn mixed(size: usize) -> Result<Vec<(Template, usize)>, String> {
    let request = ArpMessage::request(HOST, HOST4, ROUTER4).to_bytes();
    let mut arp = frame(MacAddr([0xff; 6]), HOST, &[], EtherType(0x0806), &request);
    arp.resize(arp.len().max(60), 0);
    Ok(vec![
        (ip4(size, 0)?, 45),
        (ip6(size, 0)?, 40),
        (Template { bytes: arp, patch: Patch::None, tags: 0 }, 5),
        // A wrong IPv4 checksum, a wrong version, a TTL that ends here, an unknown EtherType, and an IPv6 packet
        // that says it is longer than it is.
        (broken(ip4(size, 0)?, |b| b[24] ^= 0x55), 2),
        (broken(ip4(size, 0)?, |b| b[14] = 0x65), 2),
        (
            broken(ip4(size, 0)?, |b| {
                b[22] = 1;
                packet::ip4::fill_checksum(&mut b[14..34]);
            }),
            2,
        ),
        (broken(ethernet(size, 0), |b| b[..6].copy_from_slice(&ROUTER.0)), 2),
        (broken(ip6(size, 0)?, |b| b[18..20].copy_from_slice(&9000u16.to_be_bytes())), 2),
    ])
}

/// The sizes of "simple IMIX" and how many of twelve packets have each.
pub const IMIX: [(usize, usize); 3] = [(64, 7), (594, 4), (1518, 1)];

/// A random order of kinds of packets, in which each comes as often as it should.
pub fn order(shares: &[usize], random: &mut Random) -> Vec<u16> {
    let once: Vec<u16> =
        shares.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i as u16, *n)).collect();
    let times = (4096 / once.len().max(1)).max(1);
    let mut all = once.repeat(times);
    random.shuffle(&mut all);
    all
}
