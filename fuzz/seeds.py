#!/usr/bin/python3
"""Writes the generated part of the kept corpora, with Scapy: fuzz/seeds.py [TARGET...]

Inputs that the fuzzers found stand beside them under their hashes and are left alone.
"""
import pathlib
import random
import re
import struct
import sys

from scapy.all import (ARP, Dot1AD, Dot1Q, Ether, GRE, HBHOptUnknown, ICMP, ICMPv6DestUnreach, ICMPv6EchoRequest, ICMPv6MLReport2,
                       ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptDstLLAddr,
                       ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptSrcLLAddr, IP, IPOption_LSRR,
                       IPOption_Router_Alert, IPOption_RR, IPOption_Timestamp, IPv6, IPv6ExtHdrDestOpt,
                       IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Padding, Raw, RouterAlert, TCP, UDP, fragment)
from scapy.layers.vxlan import VXLAN

HERE = pathlib.Path(__file__).resolve().parent
PORT = {"left": 0, "right": 1, "small": 2, "patch": 3}
VNET, SPLIT, TRACED, VALID, FIX, GROUP = 1, 2, 4, 8, 16, 32
ETHERNET, IP4, IP6, INNER = 0, 10, 13, 16


def mac(port):
    return f"02:00:00:00:00:{PORT[port] + 1:02x}"


def fed(packet, entry=ETHERNET, rx=0, how=0, split=0, vnet=b""):
    """One packet of the target `frames`, as fuzz/src/frames.rs reads it."""
    data = bytes(packet)
    if vnet:
        how |= VNET
    return struct.pack("<BBBBH", entry, rx, how, split, len(data)) + vnet + data


def vnet(flags=0, gso=0, hdr=0, size=0, start=0, offset=0):
    return struct.pack("<BBHHHH", flags, gso, hdr, size, start, offset)


def on(port, payload, src="02:00:00:00:00:aa", dst=None, tags=None):
    frame = Ether(src=src, dst=dst or mac(port))
    for tag in tags or []:
        frame = frame / tag
    return frame / payload


def ip_payloads():
    """Named IP packets that a host behind `left` might send."""
    four = dict(src="192.0.2.7")
    for last in [10, 11, 12, 13, 14, 15, 16, 17, 99]:
        yield f"ip4-to-{last}", IP(dst=f"10.{last}.1.2", **four) / UDP(sport=1024, dport=53) / Raw(b"x" * 30)
    yield "ip4-tcp", IP(dst="10.10.0.9", **four) / TCP(sport=9, dport=80, flags="SA", options=[("MSS", 1460), ("WScale", 7), ("Timestamp", (1, 2)), ("SAckOK", b"")])
    yield "ip4-echo", IP(dst="192.0.2.1", **four) / ICMP(id=7, seq=1) / Raw(b"abcdefgh")
    yield "ip4-echo-loop", IP(dst="10.255.0.1", **four) / ICMP(id=7, seq=2) / Raw(b"odd")
    yield "ip4-echo-other", IP(dst="198.51.100.1", **four) / ICMP(id=7, seq=2)
    yield "ip4-echo-broadcast", IP(dst="192.0.2.255", **four) / ICMP(id=7, seq=2)
    yield "ip4-ttl-1", IP(dst="10.10.0.9", ttl=1, **four) / UDP() / Raw(b"y" * 100)
    yield "ip4-ttl-0", IP(dst="10.10.0.9", ttl=0, **four) / UDP()
    yield "ip4-local-udp", IP(dst="192.0.2.1", **four) / UDP(dport=9) / Raw(b"nobody")
    yield "ip4-local-tcp", IP(dst="192.0.2.1", **four) / TCP(dport=22)
    yield "ip4-local-gre", IP(dst="192.0.2.1", **four) / GRE() / IP()
    yield "ip4-big", IP(dst="10.15.0.9", **four) / UDP() / Raw(bytes(1300))
    yield "ip4-big-df", IP(dst="10.15.0.9", flags="DF", **four) / UDP() / Raw(bytes(1300))
    yield "ip4-big-options", IP(dst="10.15.0.9", options=[IPOption_RR(routers=["0.0.0.0"] * 3), IPOption_Router_Alert()], **four) / UDP() / Raw(bytes(900))
    for size in [576, 577]:
        yield f"ip4-{size}", IP(dst="10.15.0.9", **four) / UDP() / Raw(bytes(size - 28))
    yield "ip4-padded", IP(dst="10.10.0.9", **four) / UDP(len=8) / Padding(bytes(18))
    yield "ip4-middle-fragment", IP(dst="10.15.0.9", flags="MF", frag=100, **four) / Raw(bytes(700))
    yield "ip4-last-fragment", IP(dst="192.0.2.1", frag=100, **four) / Raw(bytes(40))
    yield "ip4-record-route", IP(dst="10.10.0.9", options=[IPOption_RR(routers=["0.0.0.0"] * 4)], **four) / UDP()
    yield "ip4-timestamp", IP(dst="10.10.0.9", options=[IPOption_Timestamp(flg=1, length=12, pointer=5)], **four) / UDP()
    yield "ip4-source-route", IP(dst="192.0.2.1", options=[IPOption_LSRR(routers=["10.10.0.1", "10.10.0.2"])], **four) / UDP()
    yield "ip4-alert", IP(dst="10.10.0.9", options=[IPOption_Router_Alert()], **four) / UDP()
    yield "ip4-bad-option", IP(dst="10.10.0.9", options=[Raw(b"\x07\x02\x00\x00")], **four) / UDP()
    yield "ip4-unreachable-in", IP(dst="192.0.2.1", **four) / ICMP(type=3, code=4, nexthopmtu=1280) / IP(src="192.0.2.1", dst="10.10.0.9") / UDP()
    yield "ip4-bad-checksum", IP(dst="10.10.0.9", chksum=1, **four) / UDP()
    yield "ip4-too-long", IP(dst="10.10.0.9", len=2000, **four) / UDP()
    yield "ip4-martian", IP(src="127.0.0.1", dst="10.10.0.9") / UDP()
    yield "ip4-multicast", IP(dst="224.0.0.5", **four) / UDP()
    yield "ip4-limited", IP(dst="255.255.255.255", src="0.0.0.0") / UDP(sport=68, dport=67)
    six = dict(src="2001:db8:1::7")
    for n in [10, 11, 12, 13, 14, 15, 16, 17, 99]:
        yield f"ip6-to-{n}", IPv6(dst=f"2001:db8:{n}::2", **six) / UDP(sport=1024, dport=53) / Raw(b"x" * 30)
    yield "ip6-tcp", IPv6(dst="2001:db8:10::9", fl=77, tc=46, **six) / TCP(flags="S")
    yield "ip6-echo", IPv6(dst="2001:db8:1::1", **six) / ICMPv6EchoRequest(id=7, data=b"abcdefgh")
    yield "ip6-echo-loop", IPv6(dst="2001:db8:ffff::1", **six) / ICMPv6EchoRequest(id=7, data=b"odd")
    yield "ip6-echo-all", IPv6(dst="ff02::1", src="fe80::7") / ICMPv6EchoRequest()
    yield "ip6-hop-limit-1", IPv6(dst="2001:db8:10::9", hlim=1, **six) / UDP() / Raw(bytes(200))
    yield "ip6-local-udp", IPv6(dst="2001:db8:1::1", **six) / UDP(dport=9) / Raw(b"nobody")
    yield "ip6-too-big", IPv6(dst="2001:db8:15::9", **six) / UDP() / Raw(bytes(1400))
    for size in [1280, 1281]:
        yield f"ip6-{size}", IPv6(dst="2001:db8:15::9", **six) / UDP() / Raw(bytes(size - 48))
    yield "ip6-padded", IPv6(dst="2001:db8:10::9", **six) / UDP(len=8) / Padding(bytes(18))
    yield "ip6-fragment", IPv6(dst="2001:db8:10::9", **six) / IPv6ExtHdrFragment(offset=10, m=1, id=7) / Raw(bytes(80))
    yield "ip6-hop-by-hop", IPv6(dst="2001:db8:10::9", **six) / IPv6ExtHdrHopByHop(options=[RouterAlert(), PadN(optdata=b"\0\0")]) / UDP()
    yield "ip6-hop-by-hop-bad", IPv6(dst="2001:db8:10::9", **six) / IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0xC7, optdata=b"\0\0")]) / UDP()
    yield "ip6-dest-options", IPv6(dst="2001:db8:1::1", **six) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)]) / ICMPv6EchoRequest()
    yield "ip6-routing", IPv6(dst="2001:db8:1::1", **six) / IPv6ExtHdrRouting(addresses=["2001:db8:10::1"]) / UDP()
    yield "ip6-unknown-next", IPv6(dst="2001:db8:1::1", nh=200, **six) / Raw(bytes(20))
    yield "ip6-no-next", IPv6(dst="2001:db8:1::1", nh=59, **six)
    yield "ip6-unreachable-in", IPv6(dst="2001:db8:1::1", **six) / ICMPv6DestUnreach() / IPv6(src="2001:db8:1::1", dst="2001:db8:10::9") / UDP()
    yield "ip6-link-local-out", IPv6(src="fe80::7", dst="2001:db8:10::9") / UDP()
    yield "ip6-too-long", IPv6(dst="2001:db8:10::9", plen=2000, **six) / UDP()
    lla = ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:aa")
    nd = dict(hlim=255)
    yield "nd-ns", IPv6(dst="ff02::1:ff00:1", **nd, **six) / ICMPv6ND_NS(tgt="2001:db8:1::1") / lla
    yield "nd-ns-unicast", IPv6(dst="2001:db8:1::1", **nd, **six) / ICMPv6ND_NS(tgt="2001:db8:1::1") / lla
    yield "nd-ns-other", IPv6(dst="ff02::1:ff00:9", **nd, **six) / ICMPv6ND_NS(tgt="2001:db8:1::9") / lla
    yield "nd-dad", IPv6(dst="ff02::1:ff00:1", src="::", **nd) / ICMPv6ND_NS(tgt="2001:db8:1::1")
    yield "nd-na", IPv6(dst="2001:db8:1::1", **nd, **six) / ICMPv6ND_NA(tgt="2001:db8:1::7", S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:aa")
    yield "nd-na-all", IPv6(dst="ff02::1", **nd, **six) / ICMPv6ND_NA(tgt="2001:db8:1::1", S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:bb")
    yield "nd-rs", IPv6(dst="ff02::2", src="fe80::7", **nd) / ICMPv6ND_RS() / lla
    yield "nd-ra", IPv6(dst="ff02::1", src="fe80::7", **nd) / ICMPv6ND_RA() / lla / ICMPv6NDOptMTU() / ICMPv6NDOptPrefixInfo(prefix="2001:db8:1::")
    yield "mld", IPv6(dst="ff02::16", src="fe80::7", hlim=1) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6MLReport2()


def arps():
    base = dict(hwsrc="02:00:00:00:00:aa", psrc="192.0.2.7", pdst="192.0.2.1")
    yield "arp-request", ARP(op=1, **base)
    yield "arp-reply", ARP(op=2, hwdst="02:00:00:00:00:01", **base)
    yield "arp-other", ARP(op=1, **{**base, "pdst": "192.0.2.9"})
    yield "arp-gratuitous", ARP(op=1, **{**base, "pdst": "192.0.2.7"})
    yield "arp-conflict", ARP(op=2, **{**base, "psrc": "192.0.2.1"})
    yield "arp-probe", ARP(op=1, **{**base, "psrc": "0.0.0.0"})
    yield "arp-short", Raw(bytes(ARP(op=1, **base))[:20])


def cut4(packet, size):
    """Fragments of an IPv4 packet, of `size` bytes of payload each."""
    return fragment(packet, fragsize=size)


def cut6(packet, size, ident=0x99):
    """The same of an IPv6 packet without extension headers."""
    raw = bytes(packet)
    out = []
    for at in range(0, len(raw) - 40, size):
        part, more = raw[40 + at:40 + at + size], at + size < len(raw) - 40
        out.append(IPv6(src=packet.src, dst=packet.dst) / IPv6ExtHdrFragment(nh=raw[6], offset=at // 8, m=int(more), id=ident) / Raw(part))
    return out


def labelled(*labels, ttl=9):
    """A label stack; a label may be (label, TTL)."""
    entries = [label if isinstance(label, tuple) else (label, ttl) for label in labels]
    return b"".join(struct.pack(">I", label << 12 | (n + 1 == len(entries)) << 8 | hops) for n, (label, hops) in enumerate(entries))


def mpls():
    """Named labelled packets that a router behind `left` might send."""
    four = IP(src="192.0.2.7", dst="10.10.0.9") / UDP(sport=1024, dport=53) / Raw(b"x" * 30)
    six = IPv6(src="2001:db8:1::7", dst="2001:db8:10::9") / UDP(sport=1024, dport=53) / Raw(b"x" * 30)
    far4, far6 = IP(src="99.0.0.7", dst="10.10.0.9") / UDP(), IPv6(src="2001:db8:99::7", dst="2001:db8:10::9") / UDP()
    frame = on("right", four)
    for label in (0, 100, 101, 102, 104, 107, 108, 109, 110, 111, 112, 113, 114):
        yield f"{label}", labelled(label), four
        yield f"{label}-entropy", labelled(label, 7, (4711, 0)), four
    for label in (2, 100, 101, 103, 105, 108, 112, 113):
        yield f"{label}-ip6", labelled(label), six
    yield "next", labelled(106, 106, 100), four
    yield "loop", labelled(*[106] * 30), four
    yield "null-above", labelled(0, 2, 102), four
    yield "entropy-alone", labelled(7, (4711, 0)), four
    yield "entropy-alone-ip6", labelled(7, (4711, 0)), six
    yield "frame", labelled(1000), frame
    yield "frame-word", labelled(1001), b"\0\0\0\0" + bytes(frame)
    yield "alert", labelled(1), four
    yield "options", labelled(102), IP(src="192.0.2.7", dst="10.10.0.9", options=[IPOption_RR(routers=["0.0.0.0"])]) / UDP()
    yield "hop-by-hop", labelled(103), IPv6(src="2001:db8:1::7", dst="2001:db8:10::9") / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / UDP()
    for name, packet in (("near", four), ("near6", six), ("far", far4), ("far6", far6)):
        yield f"expired-{name}", labelled((100, 1), (500, 1)), packet
    for name, packet in (("may", IP(src="192.0.2.7", dst="10.10.0.9")), ("df", IP(src="192.0.2.7", dst="10.10.0.9", flags="DF")),
                         ("df-far", IP(src="99.0.0.7", dst="10.10.0.9", flags="DF")), ("ip6", IPv6(src="2001:db8:99::7", dst="2001:db8:10::9"))):
        yield f"large-{name}", labelled(107, 500), packet / UDP() / Raw(bytes(800))
        yield f"large-bare-{name}", labelled(108), packet / UDP() / Raw(bytes(800))
    yield "endless", b"\0\6\x40\1" * 300, b""


def bridged():
    """Named frames on the bridge domain, in which station 1 is on left, 2 on right and 3 on patch."""
    bvi, every, tag = "02:00:00:00:10:01", "ff:ff:ff:ff:ff:ff", [Dot1Q(vlan=500)]

    def frame(payload, dst, src=1, tags=tag):
        return on("left", payload, src=f"02:00:00:00:05:{src:02x}", dst=f"02:00:00:00:05:{dst:02x}" if isinstance(dst, int) else dst, tags=tags)

    for name, dst in [("station", 2), ("station-3", 3), ("itself", 1), ("filter", 4), ("unknown", 9), ("all", every), ("stp", "01:80:c2:00:00:00")]:
        yield name, frame(IP(src="10.50.0.7", dst="10.50.0.8") / UDP(), dst)
    yield "from-patch", frame(IP(src="10.50.0.7", dst="10.50.0.8") / UDP(), 1, src=3, tags=[Dot1AD(vlan=500, prio=5)])
    yield "all-patch", frame(IP(src="10.50.0.7", dst="10.50.0.8") / UDP(), every, src=3, tags=[Dot1AD(vlan=500)])
    yield "bad-source", on("left", IP() / UDP(), src="03:00:00:00:00:01", dst=every, tags=tag)
    yield "up-ip4", frame(IP(src="10.50.0.7", dst="10.10.0.9") / UDP() / Raw(b"x" * 30), bvi)
    yield "up-ip6", frame(IPv6(src="2001:db8:50::7", dst="2001:db8:10::9") / UDP(), bvi)
    yield "up-echo", frame(IP(src="10.50.0.7", dst="10.50.0.1") / ICMP(id=7, seq=1), bvi)
    yield "up-tagged", frame(IP(src="10.50.0.7", dst="10.50.0.1") / ICMP(), bvi, tags=tag + [Dot1Q(vlan=6)])
    yield "up-other", frame(Raw(bytes(46)), bvi)
    for last in (1, 2, 9):
        yield f"arp-{last}", frame(ARP(op=1, hwsrc="02:00:00:00:05:01", psrc="10.50.0.7", pdst=f"10.50.0.{last}"), every)
        lla = ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:05:01")
        ask = IPv6(src="2001:db8:50::7", dst=f"ff02::1:ff00:{last}", hlim=255) / ICMPv6ND_NS(tgt=f"2001:db8:50::{last}") / lla
        yield f"nd-{last}", frame(ask, f"33:33:ff:00:00:0{last}")
    yield "arp-gratuitous", frame(ARP(op=1, hwsrc="02:00:00:00:05:02", psrc="10.50.0.2", pdst="10.50.0.2"), every)
    yield "down", on("left", IP(src="192.0.2.7", dst="10.50.0.9") / UDP())


def frames():
    names = {}
    for name, stack, packet in mpls():
        frame = Ether(src="02:00:00:00:00:aa", dst=mac("left"), type=0x8847) / Raw(stack + bytes(packet))
        names["mpls-" + name] = fed(frame, how=TRACED if len(name) % 3 == 0 else 0)
    for n in (20, 21, 22):
        names[f"mpls-push-{n}"] = fed(on("left", IP(src="192.0.2.7", dst=f"10.{n}.0.9") / UDP() / Raw(bytes(n * 26))))
    for n in (20, 21):
        names[f"mpls-push6-{n}"] = fed(on("left", IPv6(src="2001:db8:1::7", dst=f"2001:db8:{n}::9") / UDP()), how=TRACED)
    for name, packet in list(ip_payloads()) + list(arps()):
        names[name] = fed(on("left", packet), how=TRACED if len(name) % 3 == 0 else 0)
    samples = dict(list(ip_payloads()))
    for name in ["ip4-to-10", "ip4-echo", "ip4-big", "ip4-ttl-1", "ip4-source-route"]:
        names["in-" + name] = fed(samples[name], entry=IP4, rx=1)
        names["split-" + name] = fed(on("left", samples[name]), how=SPLIT, split=90)
        names["tagged-" + name] = fed(on("left", samples[name], tags=[Dot1Q(vlan=100)]))
        names["qinq-" + name] = fed(on("left", samples[name], tags=[Dot1AD(vlan=200), Dot1Q(vlan=300)]))
    for name in ["ip6-to-10", "ip6-echo", "ip6-too-big", "ip6-hop-limit-1", "nd-ns", "ip6-hop-by-hop"]:
        names["in-" + name] = fed(samples[name], entry=IP6, rx=1)
        names["split-" + name] = fed(on("left", samples[name]), how=SPLIT, split=110)
        names["tagged-" + name] = fed(on("left", samples[name], tags=[Dot1Q(vlan=100)]))
    echo = samples["ip4-echo"]
    for name, rx, tags in [("untagged", 3, []), ("dot1ad", 3, [Dot1AD(vlan=7)]), ("default", 3, [Dot1Q(vlan=55)]),
                           ("from-right", 1, [Dot1Q(vlan=8), Dot1Q(vlan=9)]), ("from-left", 0, [Dot1Q(vlan=300)]),
                           ("any-inner", 0, [Dot1Q(vlan=400), Dot1Q(vlan=5)]), ("deep", 0, [Dot1Q(vlan=300)] * 4)]:
        names["patch-" + name] = fed(on("patch", echo, tags=tags), rx=rx)
    for name, big, start in [("tcp4", IP(src="192.0.2.7", dst="10.10.0.9") / TCP(sport=1, dport=2, flags="A"), 34),
                             ("tcp6", IPv6(src="2001:db8:1::7", dst="2001:db8:10::9") / TCP(flags="PA"), 54),
                             ("udp4", IP(src="192.0.2.7", dst="10.15.0.9") / UDP(), 34),
                             ("udp6", IPv6(src="2001:db8:1::7", dst="2001:db8:10::9") / UDP(), 54)]:
        udp = name.startswith("udp")
        offset, kind, size = (6, 5, 500) if udp else (16, 1 if name == "tcp4" else 4, 1000)
        frame = on("left", big / Raw(bytes(range(256)) * 12))
        names["partial-" + name] = fed(on("left", big / Raw(b"z" * 99)), vnet=vnet(1, 0, 0, 0, start, offset))
        names["gso-" + name] = fed(frame, vnet=vnet(1, kind, start + 20, size, start, offset))
        names["gso-split-" + name] = fed(frame, how=SPLIT, split=200, vnet=vnet(1, kind, start + 20, size, start, offset))
    names["gso-local"] = fed(on("left", IP(src="192.0.2.7", dst="192.0.2.1") / TCP() / Raw(bytes(3000))), vnet=vnet(1, 1, 54, 1000, 34, 16))
    names["partial-xconnect"] = fed(on("patch", IP(dst="10.0.0.1") / UDP() / Raw(b"1234"), tags=[Dot1AD(vlan=7)]), rx=3, vnet=vnet(1, 0, 0, 0, 38, 6))
    mixed = [samples[n] for n in ["ip4-to-10", "ip6-to-10", "ip4-echo", "ip6-echo", "ip4-to-16", "ip6-to-16", "ip4-ttl-1"]]
    names["mixed"] = b"".join(fed(on("left", p)) for p in mixed) + fed(on("left", list(arps())[0][1]))
    names["held"] = b"".join(fed(on("left", samples["ip4-to-16"])) for _ in range(20))
    names["held-even"] = names["held"] + fed(on("left", samples["ip6-to-16"]), how=TRACED) + b"\0"
    for name, to in [("4", "10.34.0.9"), ("over-6", "10.35.0.9"), ("frames", "10.36.0.2")]:
        for size in (20, 1440):
            names[f"gre-in-{name}-{size}"] = fed(on("left", IP(src="192.0.2.7", dst=to) / UDP() / Raw(bytes(size))), how=TRACED)
    names["gre-in-6"] = fed(on("left", IPv6(src="2001:db8:1::7", dst="2001:db8:34::9") / UDP() / Raw(b"six")))
    inner = IP(src="10.34.0.9", dst="10.10.0.9") / UDP() / Raw(b"inner")
    ends4 = IP(src="198.51.100.2", dst="198.51.100.1", proto=47, tos=1)
    ends6 = IPv6(src="2001:db8:2::2", dst="2001:db8:2::1", nh=47)
    for name, packet in [
        ("4", ends4 / GRE(proto=0x800) / inner),
        ("6", ends4 / GRE(proto=0x86dd) / IPv6(src="2001:db8:34::9", dst="2001:db8:10::9") / UDP()),
        ("labelled", ends4 / GRE(proto=0x8847) / Raw(labelled(100) + bytes(inner))),
        ("nested", ends4 / GRE(proto=0x800) / IP(src="10.34.0.9", dst="10.34.0.8") / UDP()),
        ("all-fields", ends4 / GRE(proto=0x800, chksum_present=1, key_present=1, seqnum_present=1) / inner),
        ("over-6", ends6 / GRE(proto=0x800, key_present=1, key=5) / inner),
        ("options-6", IPv6(src="2001:db8:2::2", dst="2001:db8:2::1") / IPv6ExtHdrDestOpt(nh=47) / GRE(proto=0x800, key_present=1, key=5) / inner),
        ("frame", IP(src="203.0.113.2", dst="203.0.113.1", proto=47) / GRE(proto=0x6558) / on("left", inner, dst="02:fe:00:00:00:01")),
        ("no-tunnel", ends4 / GRE(proto=0x800, key_present=1, key=6) / inner),
    ]:
        names["gre-out-" + name] = fed(on("left", packet), how=TRACED if len(name) % 2 else 0)
    for name, to in [("4", "10.37.0.2"), ("6", "2001:db8:37::2")]:
        packet = (IPv6 if name == "6" else IP)(dst=to) / UDP(sport=7) / Raw(bytes(64))
        names["vxlan-in-" + name] = fed(on("left", packet), how=TRACED)
    frame = Ether(dst="02:00:00:00:01:25", src="02:00:00:00:02:25") / inner
    over4 = IP(src="198.51.100.2", dst="198.51.100.1", tos=1) / UDP(sport=50000, dport=4789, chksum=0)
    for name, packet in [
        ("4", over4 / VXLAN(vni=5, flags="Instance") / frame),
        ("summed", IP(src="198.51.100.2", dst="198.51.100.1") / UDP(sport=50000, dport=4789) / VXLAN(vni=5, flags="Instance") / frame),
        ("other", over4 / VXLAN(vni=6, flags="Instance") / frame),
        ("no-vni", over4 / VXLAN(vni=5, flags=0) / frame),
        ("6", IPv6(src="2001:db8:2::2", dst="2001:db8:2::1") / UDP(dport=4789, chksum=0) / VXLAN(vni=5, flags="Instance") / frame),
    ]:
        names["vxlan-out-" + name] = fed(on("left", packet), how=TRACED if len(name) % 2 else 0)
    names["lldp"] = fed(Ether(src="02:00:00:00:00:aa", dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(bytes(50)))
    # Datagrams in fragments: to the router, through it to be put together (left.100), and to be told their ports (left.200).
    to4, to6 = dict(src="192.0.2.7", dst="192.0.2.1"), dict(src="2001:db8:1::7", dst="2001:db8:1::1")
    on4, on6 = dict(src="10.1.0.7", dst="10.10.0.9"), dict(src="2001:db8:100::7", dst="2001:db8:10::9")
    vlan, qinq = [Dot1Q(vlan=100)], [Dot1AD(vlan=200), Dot1Q(vlan=300)]
    for name, four, six, tags in [("local", to4, to6, []), ("through", on4, on6, vlan), ("virtual", on4, on6, qinq)]:
        parts4 = cut4(IP(id=9, **four) / ICMP(id=1) / Raw(bytes(range(200))), 64)
        parts6 = cut6(IPv6(**six) / ICMPv6EchoRequest(id=1, data=bytes(range(200))), 64)
        large = cut6(IPv6(**six) / ICMPv6EchoRequest(id=2, data=bytes(3000)), 1232)
        for kind, parts in [("ip4", parts4), ("ip6", parts6), ("ip6-large", large)]:
            together = [fed(on("left", p, tags=tags)) for p in parts]
            names[f"fragments-{name}-{kind}"] = b"".join(together)
            names[f"fragments-{name}-{kind}-backwards"] = b"".join(reversed(together))
            names[f"fragments-{name}-{kind}-twice"] = b"".join(together[:2] * 2 + together[1:])
            names[f"fragments-{name}-{kind}-split"] = b"".join(fed(on("left", p, tags=tags), how=SPLIT, split=70) for p in parts)
        overlap = cut4(IP(id=9, **four) / UDP() / Raw(bytes(100)), 64) + cut4(IP(id=9, **four) / UDP() / Raw(bytes(200)), 48)
        names[f"fragments-{name}-overlap"] = b"".join(fed(on("left", p, tags=tags)) for p in overlap)
    bomb = Raw(b"\x3c\0\x01\x04\0\0\0\0" * 20)
    names["fragments-headers"] = fed(on("left", IPv6(**to6) / IPv6ExtHdrFragment(nh=60, m=1, id=3) / bomb))
    names["fragments-odd"] = b"".join(fed(on("left", p)) for p in [
        IP(id=4, flags="MF", **to4) / UDP() / Raw(b"x"), IP(id=4, frag=8189, **to4) / Raw(bytes(60)),
        IPv6(**to6) / IPv6ExtHdrFragment(nh=17, m=1, id=4) / UDP() / Raw(b"x"),
        IPv6(**to6) / IPv6ExtHdrFragment(nh=17, offset=8191, id=4) / Raw(bytes(60)),
        IPv6(**to6) / IPv6ExtHdrFragment(nh=58, id=4) / ICMPv6EchoRequest()])
    for name, frame in bridged():
        names["bridge-" + name] = fed(frame, how=TRACED if len(name) % 3 == 0 else 0, rx=PORT["patch"] if name.endswith("-patch") else 0)
    # Features that no other frame meets, on the ports that have them.
    syn = TCP(flags="S", options=[("MSS", 1460)])
    from_right = dict(src="198.51.100.7", dst="192.0.2.2")
    query = IP(src="192.0.2.7", dst="224.0.0.1", ttl=1, proto=2, options=[IPOption_Router_Alert()])
    for name, frame in [
            ("mss-in-ip4", on("right", IP(**from_right) / syn)),
            ("mss-out-ip6", on("left", IPv6(src="2001:db8:1::7", dst="2001:db8:200::2") / syn)),
            ("urpf-out-ip4", on("left", IP(src="192.0.2.7", dst="203.0.113.2") / UDP())),
            ("urpf-out-ip4-bad", on("left", IP(src="99.0.0.7", dst="203.0.113.2") / UDP())),
            ("urpf-out-ip6", on("left", IPv6(src="2001:db8:1::7", dst="2001:db8:3::2") / UDP())),
            ("urpf-out-ip6-bad", on("left", IPv6(src="2001:db8:3::7", dst="2001:db8:3::2") / UDP())),
            ("igmp-query", Ether(src="02:00:00:00:00:aa", dst="01:00:5e:00:00:01") / query / Raw(bytes.fromhex("110aeef50000000000000000")))]:
        names["edge-" + name] = fed(frame, rx=PORT["right"] if name == "mss-in-ip4" else 0)
    for n in range(0, 30):
        packet = samples["ip6-to-10"] if n % 2 else samples["ip4-to-10"]
        names[f"node-{n}"] = fed(packet, entry=INNER + n, rx=n % 3)
    return names


def packet():
    names = {}
    for name, p in list(ip_payloads()) + list(arps()):
        if name.startswith("ip6-to") and not name.endswith("10"):
            continue
        names[name] = b"\x40\x02\x00\x00" + bytes(p)
    for name, p in [("eth", on("left", UDP())), ("vlan", on("left", IP() / UDP(), tags=[Dot1AD(vlan=1), Dot1Q(vlan=2)])),
                    ("udp", UDP(dport=5) / Raw(b"abc")), ("tcp", TCP(options=[("MSS", 9000), ("NOP", None)])),
                    ("icmp", ICMP() / Raw(b"abc"))]:
        names[name] = b"\x04\x00\x00\x00" + bytes(p)
    for name, p, kind in [("tcp4", IP() / TCP(), 1), ("tcp6", IPv6() / TCP(), 4), ("udp4", IP() / UDP(), 5)]:
        start = 54 if "6" in name else 34
        data = bytes(Ether() / p / Raw(bytes(500)))
        names["gso-" + name] = b"\x00\x02\x00\x05" + vnet(1, kind, 0, 100, start, 16 if kind != 5 else 6) + data
    return names


def yaml():
    root = HERE.parent
    texts = {p.stem: p.read_text() for p in (root / "examples").glob("*.yaml")}
    for p in (root / "crates/control/tests/yaml/cases").glob("*.yaml"):
        texts[p.stem] = "".join(l for l in p.read_text().splitlines(True) if not l.startswith("# expect"))
    docs = re.findall(r"```yaml\n(.*?)```", (root / "docs/configuration.md").read_text(), re.S)
    texts.update({f"docs-{i}": text for i, text in enumerate(docs)})
    texts["anchors"] = "a: &x [1, 2]\nb: *x\n? [c]\n: d\n--- \n"
    texts["block"] = "routes:\n  - |\n    10.0.0.0/8 via\n    10.1.1.1\n  - >-\n    folded\n"
    return {name: text.encode() for name, text in texts.items()}


def command():
    lines = """show version|show interface|show interface addr|show hardware-interfaces|show runtime|show errors --json
show trace|show trace max 5|show buffers|show ip fib|show ip fib 10.10.0.0/16|show ip6 fib 2001:db8:10::/48 --json
show ip fib 10.11.1.1|show ip neighbors|show adjacency|show mode|show threads|show features|show packet-generator
clear runtime|clear errors|clear interfaces|clear trace|trace add ethernet-input 10|pcap trace rx tx drop max 10 file x.pcap
pcap trace off|set interface state left up|set interface mtu 1500 left|set interface mtu packet 1400 left
set interface ip address left 10.9.0.1/24|set interface ip address del left 10.9.0.1/24|set interface mac address left 02:00:00:00:00:09
set interface promiscuous on left|set interface l2 xconnect left right|set interface l3 left
create sub-interfaces left 5 dot1q 5 inner-dot1q any exact-match|create sub-interfaces left 6 default|create loopback interface instance 4
create tap id 3 host-if-name x host-mac-addr 02:00:00:00:00:07|create host-interface name eth0|delete loopback interface intfc loop0
ip route add 10.0.0.0/8 via 192.0.2.2 left weight 3|ip route del 10.0.0.0/8|ip route add ::/0 via fe80::1 left|ip route add 10.9.9.0/24 drop
ip neighbor left 192.0.2.9 02:00:00:00:00:09 static|ip neighbor del left 192.0.2.9|packet-generator enable s1|packet-generator delete s1
packet-generator new name s1 interface left rate 1k count 5 size 64-1500 random seed 7 data "ethernet / ipv4 src 10.0.0.1-10.0.0.9 random dst 10.1.1.1 df / udp sport 1-9 checksum bad / payload zero"
packet-generator new s2 interface left node ip6-input size imix data "ipv6 flow-label 1-9 / tcp flags syn,ack window 5 / raw 00:11 22"
packet-generator new s3 interface left size 64:7,594:4 data "ethernet src 02::1 / vlan id 1-9 tpid 0x88a8 / arp op 2 / payload random"
ping 10.10.0.1|ping 2001:db8:1::2 repeat 3|exec x|sh int|show ?|set int ?|# comment|show "interface|show interface left right|help|
show\tip  fib   10.0.0.0/8  # why|shwo interface|set interface stat left up|trace add nosuch 4|show ip fib 10.0.0.0/33|create""".replace("\n", "|").split("|")
    return {f"line-{i:02}": bytes([len(line) % 256]) + line.encode() for i, line in enumerate(lines)}


def state():
    texts = {"empty": b"", "mark": b"# quiver state 1", "sum": b"# quiver state 1 0123456789abcdef 3 {}\nabc"}
    head = '{"number":%d,"time":5,"kind":"%s","author":{"user":0,"name":"root","from":"pts/1"},"comment":"c","source":"s"}'

    def file(n, kind, document):
        json, body = (head % (n, kind)).encode(), document.encode()
        fnv = 0xCBF29CE484222325
        for byte in json + b"\n" + body:
            fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
        return b"# quiver state 1 %016x %d %s\n%s" % (fnv, len(body), json, body)

    for n, kind in enumerate(("start", "apply", "rollback", "save", "reload", "other")):
        for name, document in (("one", "loopbacks: {loop0: {}}\n"), ("none", ""), ("wrong", "loopbacks: 7\n")):
            texts[f"{kind}-{name}"] = file(n, kind, document)
    whole = file(7, "apply", "# mine\nloopbacks:\n  loop0: {mtu: 1400}\n")
    texts.update({f"cut-{n}": whole[:n] for n in (1, 17, 40, 60, len(whole) - 1)})
    texts["comment"] = b"why \"so\" \x1b\x00loopbacks: {}\n"
    return texts


def documents():
    root = HERE.parent
    docs = re.findall(r"```yaml\n(.*?)```", (root / "docs/configuration.md").read_text() + (root / "docs/engine.md").read_text(), re.S)
    pairs = {f"docs-{i}": a.encode() + b"\0" + b.encode() for i, (a, b) in enumerate(zip(docs, docs[1:]))}
    # What documents are drawn from: no zero among them.
    draw = random.Random(1)
    pairs.update({f"drawn-{n}": bytes(draw.randrange(1, 256) for _ in range(20 * n)) for n in range(1, 13)})
    return pairs


def api():
    def varint(n):
        out = bytearray()
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes((*out, n))

    def message(*fields):
        """Fields by number: a number, or bytes."""
        out = b""
        for number, value in fields:
            if isinstance(value, int):
                out += varint(number << 3) + varint(value)
            else:
                value = value.encode() if isinstance(value, str) else value
                out += varint(number << 3 | 2) + varint(len(value)) + value
        return out

    source = (HERE / "src/api.rs").read_text()
    calls = {kind: re.findall(r'"([^"]+)"', re.search(rf"const {kind}: .*?\];", source, re.S).group(0)) for kind in ("READ", "WRITE")}

    def call(method, *messages, kind="READ"):
        number = calls[kind].index(method)
        parts = b"".join(bytes((len(m),)) + m if m and len(m) < 256 else b"\0" + m for m in messages)
        return bytes((2 if kind == "READ" else 3, number)) + parts

    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload

    document = "loopbacks: {loop0: {addresses: [192.0.2.1/32]}}\n"
    seeds = {f"empty-{m.split('/')[1]}-{i}": call(m, b"") for i, m in enumerate(calls["READ"])}
    for line in ("show interface", "show ip fib", "show configuration", "show errors | include x", "ping 10.0.0.1", "set interface state left up", "x ?"):
        seeds["run-" + re.sub("[^a-z]+", "-", line)] = call("quiver.v1.Commands/Run", message((1, line)))
    seeds["run-json"] = call("quiver.v1.Commands/Run", message((1, "show interface"), (3, 2)))
    seeds["run-lines"] = call("quiver.v1.Commands/Run", message((2, "show version\n# c\nshow nothing"), (4, "/tmp")))
    seeds["complete"] = call("quiver.v1.Commands/Complete", message((1, "show inter"), (2, 10)))
    for what in ("Check", "Diff", "Plan", "Apply"):
        seeds[f"document-{what}"] = call(f"quiver.v1.Configuration/{what}", message((1, document)))
    seeds["counters"] = call("quiver.v1.Counters/Read", message((1, "interface.*"), (2, 100)))
    hello = message((1, message((1, "fleet"), (2, 30), (3, 60))))
    hop = message((1, bytes((192, 0, 2, 9))), (2, "left"), (4, 1))
    sets = message((2, message((1, message((1, 1), (3, hop))))))
    prefixes = bytes((24, 10, 1, 2, 0)) + bytes((32, 10, 1, 3, 4))
    changes = message((3, message((1, 1), (2, 0), (6, prefixes), (7, bytes((1,))))))
    sync = (message((4, 1)), message((4, 2)))
    for kind in ("READ", "WRITE"):
        seeds[f"program-{kind.lower()}"] = call("quiver.v1.Routes/Program", hello, sets, changes, *sync, kind=kind)
    seeds["routes"] = call("quiver.v1.Routes/List", message((1, message((1, bytes((8, 10, 0, 0, 0))), (2, 2)))))
    seeds["reflection"] = call("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", message((7, "*")), message((4, "quiver.v1.System")))
    seeds["health"] = call("grpc.health.v1.Health/Check", message((1, "quiver.v1.Routes")))
    path = b"\0\x05:path\x14/quiver.v1.System/Get"
    headers = b"\x83\x86" + path + b"\0\x0ccontent-type\x10application/grpc\0\x02te\x08trailers"
    whole = frame(1, 4, 1, headers) + frame(0, 1, 1, b"\0\0\0\0\0")
    seeds["frames"] = b"\x01" + whole
    seeds["frames-continued"] = b"\x01" + frame(1, 0, 1, headers[:9]) + frame(9, 4, 1, headers[9:]) + frame(0, 1, 1, b"\0\0\0\0\0")
    seeds["frames-reset"] = b"\x01" + frame(1, 4, 1, headers) + frame(3, 0, 1, b"\0\0\0\x08") + frame(7, 0, 0, bytes(8))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    seeds["raw"] = b"\0" + preface + frame(4, 0, 0, b"") + whole
    seeds["raw-http1"] = b"\0GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    seeds["raw-tls"] = b"\0\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    return seeds


TARGETS = {"api": api, "state": state, "documents": documents, "frames": frames, "packet": packet, "yaml": yaml, "command": command}

for target in sys.argv[1:] or TARGETS:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    seeds = TARGETS[target]()
    for name, data in seeds.items():
        (folder / name).write_bytes(data)
    print(f"{target}: {len(seeds)} seeds")
