"""Frames between the ports of a bench, as Scapy builds them."""

from scapy.layers.inet import ICMP, IP, TCP, UDP, icmptypes
from scapy.layers.inet6 import (
    ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, in6_getnsma, in6_getnsmac,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import checksum

__all__ = [
    "ARP", "Dot1AD", "Dot1Q", "Ether", "ICMP", "ICMPv6DestUnreach", "ICMPv6EchoReply", "ICMPv6EchoRequest",
    "ICMPv6ND_NA", "ICMPv6ND_NS", "ICMPv6NDOptDstLLAddr", "ICMPv6NDOptSrcLLAddr", "ICMPv6PacketTooBig",
    "ICMPv6ParamProblem", "ICMPv6TimeExceeded", "IP", "IPv6", "IPv6ExtHdrDestOpt", "IPv6ExtHdrFragment",
    "IPv6ExtHdrHopByHop", "Raw", "TCP", "UDP", "checksum", "fix4", "icmp4_error", "icmp6_error", "icmptypes", "into",
    "out_of", "through4", "through6", "udp4", "udp6", "expect_error4",
]


def into(port):
    """The Ethernet header of a frame from the host at `port` to the router."""
    return Ether(dst=port.mac, src=port.host_mac)


def out_of(port):
    """The Ethernet header of a frame from the router to the host at `port`."""
    return Ether(dst=port.host_mac, src=port.mac)


def udp4(src, dst, size=20, sport=1000, dport=2000, **ip):
    """An IPv4 packet with UDP and `size` bytes of recognisable payload."""
    payload = bytes(i * 7 % 251 for i in range(size))
    return IP(**{"src": src, "dst": dst, "ttl": 64, "id": 0x1234, **ip}) / UDP(sport=sport, dport=dport) / payload


def udp6(src, dst, size=20, sport=1000, dport=2000, **ip):
    """The same over IPv6."""
    payload = bytes(i * 7 % 251 for i in range(size))
    return IPv6(**{"src": src, "dst": dst, "hlim": 64, **ip}) / UDP(sport=sport, dport=dport) / payload


def through4(a, b, **kw):
    """A frame from host a to host b, and the frame that must come out."""
    ttl = kw.pop("ttl", 64)
    return into(a) / udp4(a.host, b.host, ttl=ttl, **kw), out_of(b) / udp4(a.host, b.host, ttl=ttl - 1, **kw)


def through6(a, b, **kw):
    """The same over IPv6."""
    hlim = kw.pop("hlim", 64)
    return into(a) / udp6(a.host6, b.host6, hlim=hlim, **kw), out_of(b) / udp6(a.host6, b.host6, hlim=hlim - 1, **kw)


def fix4(packet):
    """The bytes of an IPv4 packet with a right header checksum."""
    raw = bytearray(bytes(packet))
    length = (raw[0] & 15) * 4
    raw[10:12] = b"\0\0"
    raw[10:12] = checksum(bytes(raw[:length])).to_bytes(2, "big")
    return bytes(raw)


def icmp4_error(port, icmp, offending, source=None, ident=0):
    """The ICMP error that the router sends to the host at `port` about `offending` (bytes from the IP header on):
    as much of it as fits 576 bytes (RFC 1812 section 4.3.2.3)."""
    quote = bytes(offending)[: 576 - 28]
    ip = IP(src=source or port.ip, dst=port.host, tos=0xC0, ttl=64, id=ident)
    return out_of(port) / ip / icmp / Raw(quote)


def expect_error4(wire, port, icmp, offending, source=None):
    """The next frame on `wire` is that error; its identification may be any."""
    got = wire.recv()
    assert got is not None, "no ICMP error came"
    want = icmp4_error(port, icmp, offending, source, ident=int.from_bytes(got[18:20], "big"))
    assert got.hex() == bytes(want).hex(), f"\n got {Ether(got)!r}\nwant {Ether(bytes(want))!r}"


def icmp6_error(port, icmp, offending, source=None, to=None):
    """The ICMPv6 error about `offending`: as much of it as fits 1280 bytes (RFC 4443 section 2.4(c))."""
    quote = bytes(offending)[: 1280 - 48]
    return out_of(port) / IPv6(src=source or port.ip6, dst=to or port.host6, hlim=64) / icmp / Raw(quote)
