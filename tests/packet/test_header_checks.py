"""Each check of RFC 1812 section 5.2.2, RFC 8200 section 3 and of the link layer drops its packet under its own name,
and the next good packet passes."""

import pytest
from scapy.layers.inet6 import ICMPv6MLQuery, ICMPv6ND_RA, ICMPv6ND_Redirect, ICMPv6ND_RS, ICMPv6Unknown
from frames import *  # noqa: F403
from frames import IP, UDP, Ether, IPv6, fix4, into, through4, through6, udp4, udp6


def put(packet, at, value):
    raw = bytearray(bytes(packet))
    raw[at:at + len(value)] = value
    return bytes(raw)


def eth(port, kind, payload, dst=None, src=None):
    return Ether(dst=dst or port.mac, src=src or port.host_mac, type=kind) / payload


def good4(a, b):
    return udp4(a.host, b.host)


def good6(a, b):
    return udp6(a.host6, b.host6)


IP4 = {
    "nothing behind the Ethernet header": ("ip4-too-short", lambda a, b: b""),
    "19 bytes": ("ip4-too-short", lambda a, b: bytes(good4(a, b))[:19]),
    "version 5": ("ip4-bad-version", lambda a, b: fix4(put(good4(a, b), 0, b"\x55"))),
    "version 6": ("ip4-bad-version", lambda a, b: bytes(good6(a, b))),
    "header length 16": ("ip4-bad-header-length", lambda a, b: put(good4(a, b), 0, b"\x44")),
    "header length beyond the packet": ("ip4-bad-header-length", lambda a, b: put(good4(a, b), 0, b"\x4f")[:59]),
    "total length below the header": ("ip4-bad-total-length", lambda a, b: fix4(put(good4(a, b), 2, b"\0\x13"))),
    "total length beyond the packet": ("ip4-bad-total-length", lambda a, b: fix4(put(good4(a, b), 2, b"\0\x31"))),
    "checksum": ("ip4-bad-checksum", lambda a, b: put(good4(a, b), 10, b"\x12\x34")),
    "checksum 0": ("ip4-bad-checksum", lambda a, b: put(good4(a, b), 10, b"\0\0")),
    "from 0/8": ("ip4-martian-source", lambda a, b: udp4("0.1.2.3", b.host)),
    "from 127/8": ("ip4-martian-source", lambda a, b: udp4("127.0.0.1", b.host)),
    "from a group": ("ip4-martian-source", lambda a, b: udp4("224.0.0.5", b.host)),
    "from class E": ("ip4-martian-source", lambda a, b: udp4("240.0.0.1", b.host)),
    "from broadcast": ("ip4-martian-source", lambda a, b: udp4("255.255.255.255", b.host)),
    "to 0/8": ("ip4-martian-destination", lambda a, b: udp4(a.host, "0.0.0.0")),
    "to 127/8": ("ip4-martian-destination", lambda a, b: udp4(a.host, "127.0.0.1")),
    "to class E": ("ip4-martian-destination", lambda a, b: udp4(a.host, "240.0.0.1")),
    "to a group": ("ip4-multicast-not-handled", lambda a, b: udp4(a.host, "239.1.2.3")),
    "to broadcast": ("ip4-multicast-not-handled", lambda a, b: udp4(a.host, "255.255.255.255")),
    "to a directed broadcast": ("ip4-directed-broadcast", lambda a, b: udp4(a.host, "10.0.2.255")),
    "to a network address": ("ip4-directed-broadcast", lambda a, b: udp4(a.host, "10.0.2.0")),
    "a route that drops": ("ip4-route-drop", lambda a, b: udp4(a.host, "192.0.2.1")),
}

IP6 = {
    "nothing behind the Ethernet header": ("ip6-too-short", lambda a, b: b""),
    "39 bytes": ("ip6-too-short", lambda a, b: bytes(good6(a, b))[:39]),
    "version 4": ("ip6-bad-version", lambda a, b: put(good6(a, b), 0, b"\x40")),
    "payload length beyond the packet": ("ip6-bad-payload-length", lambda a, b: put(good6(a, b), 4, b"\0\x1d")),
    "from a group": ("ip6-source-multicast", lambda a, b: udp6("ff02::1", b.host6)),
    "from ::1": ("ip6-loopback-address", lambda a, b: udp6("::1", b.host6)),
    "to ::1": ("ip6-loopback-address", lambda a, b: udp6(a.host6, "::1")),
    "from ::": ("ip6-source-unspecified", lambda a, b: udp6("::", b.host6)),
    "to ::": ("ip6-destination-unspecified", lambda a, b: udp6(a.host6, "::")),
    "to scope 0": ("ip6-bad-multicast-scope", lambda a, b: udp6(a.host6, "ff00::1")),
    "to scope 1": ("ip6-bad-multicast-scope", lambda a, b: udp6(a.host6, "ff01::1")),
    "to scope 15": ("ip6-bad-multicast-scope", lambda a, b: udp6(a.host6, "ff0f::1")),
    "to a group": ("ip6-multicast-not-handled", lambda a, b: udp6(a.host6, "ff0e::1234")),
    "to another's link-local address": ("ip6-link-local-destination", lambda a, b: udp6(a.host6, "fe80::9")),
    "a route that drops": ("ip6-route-drop", lambda a, b: udp6(a.host6, "2001:db8:d::1")),
}


@pytest.mark.parametrize("what", IP4)
def test_ip4(pair, what):
    a, b = pair.ports["left"], pair.ports["right"]
    reason, packet = IP4[what]
    sent, want = through4(a, b)
    with pair.counted(reason):
        pair.left.send(eth(a, 0x0800, packet(a, b)), sent)
        pair.right.expect(want)


@pytest.mark.parametrize("what", IP6)
def test_ip6(pair, what):
    a, b = pair.ports["left"], pair.ports["right"]
    reason, packet = IP6[what]
    sent, want = through6(a, b)
    with pair.counted(reason):
        pair.left.send(eth(a, 0x86DD, packet(a, b)), sent)
        pair.right.expect(want)


@pytest.mark.parametrize("mac", ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05"])
def test_unicast_packets_in_frames_to_many(pair, mac):
    a, b = pair.ports["left"], pair.ports["right"]
    sent, want = through4(a, b)
    with pair.counted("ip4-unicast-in-l2-broadcast"), pair.counted("ip6-unicast-in-l2-multicast"):
        pair.left.send(eth(a, 0x0800, good4(a, b), dst=mac), eth(a, 0x86DD, good6(a, b), dst=mac), sent)
        pair.right.expect(want)


LINK = {
    "another station's": ("mac-not-for-us", lambda a, b: eth(a, 0x0800, good4(a, b), dst="02:00:00:00:09:09")),
    "from a group": ("bad-source-mac", lambda a, b: eth(a, 0x0800, good4(a, b), src="03:00:00:00:00:01")),
    "from the router's own": ("bad-source-mac", lambda a, b: eth(a, 0x0800, good4(a, b), src=a.mac)),
    "EtherType": ("unknown-ethertype", lambda a, b: eth(a, 0x88B5, b"hello")),
    "802.3 length": ("unknown-ethertype", lambda a, b: eth(a, 46, b"\xaa\xaa\x03" + bytes(43))),
    "LACP": ("slow-protocol-not-run", lambda a, b: eth(a, 0x8809, bytes(110), dst="01:80:c2:00:00:02")),
    "LLDP": ("lldp-not-run", lambda a, b: eth(a, 0x88CC, bytes(50), dst="01:80:c2:00:00:0e")),
    "VLAN": ("unknown-vlan", lambda a, b: eth(a, 0x8100, b"\x00\x05\x08\x00" + bytes(good4(a, b)))),
    "service VLAN": ("unknown-vlan", lambda a, b: eth(a, 0x88A8, b"\x00\x05\x08\x00" + bytes(good4(a, b)))),
}


@pytest.mark.parametrize("what", LINK)
def test_link_layer(pair, what):
    a, b = pair.ports["left"], pair.ports["right"]
    reason, frame = LINK[what]
    sent, want = through4(a, b)
    with pair.counted(reason):
        pair.left.send(frame(a, b), sent)
        pair.right.expect(want)


def test_priority_tag_belongs_to_the_interface(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    _, want = through4(a, b)
    pair.left.send(eth(a, 0x8100, b"\xa0\x00\x08\x00" + bytes(good4(a, b))))
    pair.right.expect(want)


def test_interfaces_without_addresses_take_no_packets(bench):
    t = bench({"interfaces": {"third": {}, "fourth": {"addresses": ["10.9.0.1/24"]}}},
              ports=("left", "right", "third", "fourth"), addresses=False, start=False)
    t.config["interfaces"]["left"]["addresses"] = ["10.0.1.1/24"]
    t.start()
    port = t.ports["third"]
    with t.counted("ip4-not-enabled"), t.counted("ip6-not-enabled"), t.counted("arp-ip4-not-enabled"):
        t.third.send(into(port) / udp4("10.0.3.2", "10.0.1.2"), into(port) / udp6("2001:db8::1", "2001:db8::2"),
                     into(port) / ARP(op=1, psrc="10.0.3.2", pdst="10.0.3.1", hwsrc=port.host_mac))  # noqa: F405


LOCAL4 = {
    "TCP reset": ("ip4-local-no-tcp-listener", lambda a: IP(src=a.host, dst=a.ip) / TCP(dport=22, flags="R")),  # noqa: F405
    "TCP checksum": ("ip4-local-bad-tcp-checksum", lambda a: IP(src=a.host, dst=a.ip) / TCP(dport=22, chksum=1)),  # noqa: F405
    "TCP header": ("ip4-local-bad-tcp-header", lambda a: IP(src=a.host, dst=a.ip) / TCP(dport=22, dataofs=15)),  # noqa: F405
    "UDP checksum": ("ip4-local-bad-udp-checksum", lambda a: IP(src=a.host, dst=a.ip) / UDP(chksum=1)),
    "UDP length": ("ip4-local-bad-udp-length", lambda a: IP(src=a.host, dst=a.ip) / UDP(len=9)),
    "ICMP checksum": ("icmp4-bad-checksum", lambda a: IP(src=a.host, dst=a.ip) / ICMP(chksum=1)),  # noqa: F405
    "ICMP too short": ("icmp4-too-short", lambda a: IP(src=a.host, dst=a.ip, proto=1) / b"\x08\0\0\0"),
    "redirect": ("icmp4-redirect-ignored", lambda a: IP(src=a.host, dst=a.ip) / ICMP(type=5)),  # noqa: F405
    "timestamp": ("icmp4-timestamp-not-supported", lambda a: IP(src=a.host, dst=a.ip) / ICMP(type=13)),  # noqa: F405
    "type": ("icmp4-unsupported-type", lambda a: IP(src=a.host, dst=a.ip) / ICMP(type=42)),  # noqa: F405
}


@pytest.mark.parametrize("what", LOCAL4)
def test_packets_to_the_router_that_it_does_not_take_ip4(pair, what):
    a = pair.ports["left"]
    reason, packet = LOCAL4[what]
    with pair.counted(reason):
        pair.left.send(into(a) / packet(a))


LOCAL6 = {
    "TCP reset": ("ip6-local-no-tcp-listener", lambda a: IPv6(src=a.host6, dst=a.ip6) / TCP(dport=22, flags="R")),  # noqa: F405
    "TCP checksum": ("ip6-local-bad-tcp-checksum", lambda a: IPv6(src=a.host6, dst=a.ip6) / TCP(dport=22, chksum=1)),  # noqa: F405
    "TCP header": ("ip6-local-bad-tcp-header", lambda a: IPv6(src=a.host6, dst=a.ip6) / TCP(dport=22, dataofs=15)),  # noqa: F405
    "UDP checksum": ("ip6-local-bad-udp-checksum", lambda a: IPv6(src=a.host6, dst=a.ip6) / UDP(chksum=1)),
    "UDP without checksum": ("ip6-local-bad-udp-checksum", lambda a: IPv6(src=a.host6, dst=a.ip6) / UDP(chksum=0)),
    "UDP length": ("ip6-local-bad-udp-length", lambda a: IPv6(src=a.host6, dst=a.ip6) / UDP(len=9)),
    "destination option": ("ip6-local-option-discard",
                           lambda a: IPv6(src=a.host6, dst=a.ip6, nh=60) / b"\x3b\0\x5e\x00\x01\x02\0\0"),
    "destination options": ("ip6-local-too-many-options",
                            lambda a: IPv6(src=a.host6, dst=a.ip6, nh=60) / (b"\x3b\x02" + b"\x1e\0" * 9 + b"\x01\x02\0\0")),
    "no next header": ("ip6-local-no-next-header", lambda a: IPv6(src=a.host6, dst=a.ip6, nh=59)),
    "cut off extension": ("ip6-local-bad-extension-header",
                          lambda a: IPv6(src=a.host6, dst=a.ip6, nh=60) / b"\x11\x05\x01\x04\0\0\0\0"),
    "ICMP checksum": ("icmp6-bad-checksum",
                      lambda a: IPv6(src=a.host6, dst=a.ip6) / ICMPv6EchoRequest(cksum=1)),  # noqa: F405
    "ICMP too short": ("icmp6-too-short", lambda a: IPv6(src=a.host6, dst=a.ip6, nh=58) / b"\x80\0\0"),
    "ICMP type": ("icmp6-unsupported-type", lambda a: IPv6(src=a.host6, dst=a.ip6) / ICMPv6Unknown(type=200) / b"1234"),
    "redirect": ("nd-redirect-ignored",
                 lambda a: IPv6(src="fe80::9", dst=a.ip6, hlim=255) / ICMPv6ND_Redirect(tgt="fe80::8", dst="2001:db8:9::9")),
    "hop-by-hop of 264 bytes": ("ip6-hop-by-hop-too-long",
                                lambda a: IPv6(src=a.host6, dst=a.ip6, nh=0) / (b"\x3b\x20" + b"\x01\x04\0\0\0\0" * 43 + b"\x01\x02\0\0")),
}


GROUP6 = {
    "router solicitation": ("nd-router-message-ignored", lambda a: IPv6(src="fe80::9", dst="ff02::2", hlim=255) / ICMPv6ND_RS()),
    "router advertisement": ("nd-router-message-ignored", lambda a: IPv6(src="fe80::9", dst="ff02::1", hlim=255) / ICMPv6ND_RA()),
    "listener query without router alert": ("icmp6-mld-invalid", lambda a: IPv6(src="fe80::9", dst="ff02::1", hlim=1) / ICMPv6MLQuery()),
    "echo from ::": ("icmp6-echo-bad-source", lambda a: IPv6(src="::", dst="ff02::1") / ICMPv6EchoRequest()),  # noqa: F405
}


@pytest.mark.parametrize("what", GROUP6)
def test_packets_to_all_that_the_router_does_not_take(pair, what):
    a = pair.ports["left"]
    reason, packet = GROUP6[what]
    with pair.counted(reason):
        pair.left.send(Ether(dst="33:33:00:00:00:01", src=a.host_mac) / packet(a))


@pytest.mark.parametrize("what", LOCAL6)
def test_packets_to_the_router_that_it_does_not_take_ip6(pair, what):
    a = pair.ports["left"]
    reason, packet = LOCAL6[what]
    with pair.counted(reason):
        pair.left.send(into(a) / packet(a))
