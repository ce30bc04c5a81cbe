#!/usr/bin/env python3
"""What a flood on one port does to the hosts of others: are they resolved, and are their pings answered?

    benchmarks/floods.py [--binary FILE] [--hosts N] [--rates PPS,...] [--kinds KIND,...]

A router with three ports on veth devices. On `left` comes a flood of one kind: requests or replies of ARP or neighbour discovery from
ever other senders, or echo requests. Meanwhile hosts of `right` ask for the router's address, each once; the router asks for hosts of
`right` and of `left` itself, who answer at once; and one host of `right` pings the router a hundred times a second. Prints how many
of each succeeded. As root.
"""

import argparse
import os
import socket
import sys
import time
from pathlib import Path

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--binary", help="the router; target/release/quiver by default")
ap.add_argument("--hosts", type=int, default=13)
ap.add_argument("--rates", default="0,5000,50000,200000")
ap.add_argument("--kinds", help="such as 'arp request,echo'; all by default")
ARGS = ap.parse_args()
if ARGS.binary:
    os.environ["QUIVER_BIN"] = ARGS.binary
TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "packet")]

from frames import (  # noqa: E402
    ARP, ICMP, IP, Ether, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6, into, udp4, udp6,
)
from harness import Bench, Flood  # noqa: E402

GROUP = "ff:ff:ff:ff:ff:ff"
# Frames that differ: of each kind so many.
MANY = 1024


def host4(port, n):
    return f"10.{port.n}.{n >> 8}.{n & 255}"


def host6(port, n):
    return f"2001:db8:{port.n}::{n:x}"


def mac(n):
    return f"02:00:01:00:{n >> 8:02x}:{n & 255:02x}"


def router4(port):
    return f"10.{port.n}.0.1"


def router6(port):
    return f"2001:db8:{port.n}::1"


def arp_request(port, n):
    return Ether(dst=GROUP, src=mac(n)) / ARP(op=1, hwsrc=mac(n), psrc=host4(port, n), pdst=router4(port))


def arp_reply(port, n):
    return Ether(dst=port.mac, src=mac(n)) / ARP(op=2, hwsrc=mac(n), psrc=host4(port, n), hwdst=port.mac, pdst=router4(port))


def ns(port, n):
    return (Ether(dst=port.mac, src=mac(n)) / IPv6(src=host6(port, n), dst=router6(port), hlim=255)
            / ICMPv6ND_NS(tgt=router6(port)) / ICMPv6NDOptSrcLLAddr(lladdr=mac(n)))


def na(port, n):
    return (Ether(dst=port.mac, src=mac(n)) / IPv6(src=host6(port, n), dst=router6(port), hlim=255)
            / ICMPv6ND_NA(tgt=host6(port, n), R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac(n)))


def echo4(port, n):
    return Ether(dst=port.mac, src=mac(n)) / IP(src=host4(port, n), dst=router4(port)) / ICMP(type=8, id=n) / b"flood"


def echo6(port, n):
    return Ether(dst=port.mac, src=mac(n)) / IPv6(src=host6(port, n), dst=router6(port)) / ICMPv6EchoRequest(id=n, data=b"flood")


FLOODS = {"arp request": arp_request, "arp reply": arp_reply, "nd request": ns, "nd reply": na, "echo": echo4, "echo6": echo6}


def gather(wire, seconds, seen):
    """Hands what comes within so many seconds to `seen`, until that says that it is enough."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        frame = wire.recv(timeout=max(0, end - time.monotonic()), chatter=True)
        if frame is not None and seen(frame):
            return


def asking(b, v6, first):
    """How many hosts of `right` get an answer when they ask once for the router's address."""
    port, ok = b.ports["right"], 0
    ask = ns if v6 else arp_request
    for n in range(first, first + ARGS.hosts):
        b.right.drain()
        b.right.send(ask(port, n))
        want = bytes.fromhex(mac(n).replace(":", ""))
        got = []
        gather(b.right, 0.3, lambda f: got.append(f) or f[:6] == want if f[:6] == want else False)
        ok += bool(got)
        time.sleep(0.02)
    return ok


def asked(b, v6, to, first):
    """How many hosts of a port get a packet for which the router had to ask for them, within its three requests."""
    port, source, wire, ok = b.ports[to], b.ports["source"], getattr(b, to), 0
    for n in range(first, first + ARGS.hosts):
        wire.drain()
        if v6:
            b.source.send(into(source) / udp6(source.host6, host6(port, n)))
            answer = bytes(na(port, n))
            target = socket.inet_pton(socket.AF_INET6, host6(port, n))
            is_ask = lambda f, t=target: f[12:14] == b"\x86\xdd" and f[20] == 58 and f[54] == 135 and f[62:78] == t
        else:
            b.source.send(into(source) / udp4(source.host, host4(port, n)))
            answer = bytes(arp_reply(port, n))
            target = socket.inet_aton(host4(port, n))
            is_ask = lambda f, t=target: f[12:14] == b"\x08\x06" and f[20:22] == b"\0\1" and f[38:42] == t
        want = bytes.fromhex(mac(n).replace(":", ""))
        got = []

        def seen(f):
            if is_ask(f):
                wire.send(answer)
            elif f[:6] == want and f[-20:] == bytes(i * 7 % 251 for i in range(20)):
                got.append(f)
            return bool(got)

        gather(wire, 0.5, seen)
        ok += bool(got)
    return ok


def pings(b, v6, count=100):
    """How many of so many pings of a known host of `right` are answered."""
    port, ok = b.ports["right"], [0]
    b.right.drain()
    for n in range(count):
        if v6:
            b.right.send(into(port) / IPv6(src=port.host6, dst=router6(port)) / ICMPv6EchoRequest(id=9, seq=n))
        else:
            b.right.send(into(port) / IP(src=host4(port, 2), dst=router4(port)) / ICMP(type=8, id=9, seq=n))

        def seen(f):
            answer = f[12:14] == b"\x08\x00" and f[23] == 1 and f[34] == 0 or f[12:14] == b"\x86\xdd" and f[20] == 58 and f[54] == 129
            ok[0] += answer
            return False

        gather(b.right, 0.01, seen)
    gather(b.right, 0.2, seen)
    return ok[0]


def main():
    ports = ("left", "right", "source")
    config = {"interfaces": {}, "quiver": {"dad": "off"}, "neighbors": []}
    for n, name in enumerate(ports, 1):
        config["interfaces"][name] = {"addresses": [f"10.{n}.0.1/16", f"2001:db8:{n}::1/64"]}
        config["neighbors"] += [{"interface": name, "address": a, "mac": f"02:00:00:00:{n:02x}:02"}
                                for a in (f"10.{n}.0.2", f"2001:db8:{n}::2")]
    print(f"{'flood':>12} {'a second':>9} | {'asking':>7} {'asked':>7} {'asked, same port':>17} {'pings of 100':>13}")
    for kind in ARGS.kinds.split(",") if ARGS.kinds else FLOODS:
        make = FLOODS[kind]
        v6 = kind in ("nd request", "nd reply", "echo6")
        for rate in map(int, ARGS.rates.split(",")):
            b = Bench(config, ports=ports, addresses=False)
            for p in b.ports.values():
                p.host, p.host6 = host4(p, 2), host6(p, 2)
            try:
                frames = [make(b.ports["left"], 2048 + n) for n in range(MANY)]
                with Flood(b.left, frames, rate or 1) as flood:
                    time.sleep(1.5)
                    got = [asking(b, v6, 256), asked(b, v6, "right", 512), asked(b, v6, "left", 768), pings(b, v6)]
                    was = flood.rate_was
                of = f"/{ARGS.hosts}"
                print(f"{kind:>12} {was if rate else 0:>9.0f} | {got[0]:>4}{of} {got[1]:>4}{of} {got[2]:>14}{of} {got[3]:>13}", flush=True)
            finally:
                b.close()


main()
