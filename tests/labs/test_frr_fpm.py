"""FRR's zebra tells its routes past the kernel (`lcp fpm`, dplane_fpm_nl): nexthop objects, labels, restarts, and what is none of that."""

import json
import os
import socket
import struct

import pytest
from frr import Frr
from harness import wait_for
from tools import hears

ZEBRA = "fpm address 127.0.0.1\n"


class Site:
    """A router between two hosts; in the namespace of its pairs zebra, whose routes the kernel need not tell."""

    def __init__(self, lab, **fpm):
        self.ports = lab.namespace("r")
        self.linux = lab.namespace("cp")
        self.a = lab.cable(self.ports, "left", lab.host("a", ["10.0.1.2/24"], ["10.0.1.1"]))
        self.b = lab.cable(self.ports, "right", lab.host("b", ["10.0.2.2/24"], ["10.0.2.1"]))
        for n in (20, 21, 22):
            self.b.ip(f"address add {n}.0.0.1/32 dev lo")
        self.router = lab.router(self.ports, {
            "interfaces": {"left": {"lcp": "e0", "addresses": ["10.0.1.1/24"], "mpls": True},
                           "right": {"lcp": "e1", "addresses": ["10.0.2.1/24"], "mpls": True}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True, "netlink": False, "fpm": {"port": 2620, **fpm}},
            "quiver": {"dad": "off"}})
        self.linux.ip("link set lo up")
        wait_for("somebody listens", lambda: self.fpm() and ":2620 " in self.linux.run("ss -Htln").stdout)
        wait_for("the pairs are known", lambda: self.fpm()["devices"] == 2)

    def fpm(self):
        return next(iter(self.router.json("show fpm")), None)


@pytest.fixture
def frr():
    made = []

    def make(netns):
        made.append(Frr(netns))
        return made[-1]
    yield make
    for f in made:
        f.close()


def test_zebra(lab, frr):
    s = Site(lab, hold=2)
    # staticd itself stands still with many of one next hop.
    many = "".join(f"ip route 100.0.{n}.0/24 10.0.2.{2 + n % 3}\n" for n in range(30))
    zebra = frr(s.linux).start(ZEBRA, fpm=True, staticd="ip route 20.0.0.0/24 10.0.2.2\nip route 21.0.0.0/24 10.0.2.2\nip route 22.0.0.0/24 blackhole\n" + many)
    wait_for("20.0.0.1 answers", lambda: hears(s.a, "20.0.0.1"), timeout=30)
    why = s.router.ctl("fib why 20.0.0.1")
    assert "fpm:" in why and f"@{s.linux.name}" in why, why
    wait_for("all are there", lambda: s.fpm()["routes"] >= 33 and s.fpm()["synced"], timeout=30)
    told = s.fpm()
    assert told["failed"] == 0 and told["refused"] == 0 and told["peer"] and told["nexthop-objects"] > 0, told
    assert not hears(s.a, "22.0.0.1")
    # What changes, changes.
    zebra.configure("staticd", "no ip route 22.0.0.0/24 blackhole", "ip route 22.0.0.0/24 10.0.2.2", "no ip route 21.0.0.0/24 10.0.2.2")
    wait_for("22.0.0.1 answers", lambda: hears(s.a, "22.0.0.1"))
    wait_for("21.0.0.0/24 is gone", lambda: not hears(s.a, "21.0.0.1"))
    # zebra dies: its routes stay for a while. Without staticd's configuration of one of them, that one goes, and the other does not.
    zebra.stop()
    assert hears(s.a, "20.0.0.1")
    zebra.start(ZEBRA, fpm=True, staticd="ip route 20.0.0.0/24 10.0.2.2\n")
    wait_for("it is there again", lambda: s.fpm()["peer"], timeout=20)
    flood = s.a.start("ping -q -i 0.01 -w 8 20.0.0.1")
    wait_for("the others go", lambda: s.fpm()["routes"] == 1 and s.fpm()["synced"], timeout=20)
    out, _ = flood.communicate(timeout=20)
    assert " 0% packet loss" in out, out
    assert hears(s.a, "20.0.0.1") and not hears(s.a, "22.0.0.1")
    # It stays away, and its routes go.
    zebra.stop()
    wait_for("all are gone", lambda: s.fpm()["routes"] == 0 and not hears(s.a, "20.0.0.1"), timeout=20)
    # Nobody is listened to, and nothing stays.
    zebra.start(ZEBRA, fpm=True, staticd="ip route 20.0.0.0/24 10.0.2.2\n")
    wait_for("once more", lambda: hears(s.a, "20.0.0.1"), timeout=30)
    s.router.ctl("lcp fpm off")
    wait_for("nobody listens", lambda: s.fpm() is None)
    wait_for("it is gone", lambda: not hears(s.a, "20.0.0.1"))
    s.router.ctl("lcp fpm on hold 5")
    wait_for("zebra is heard again", lambda: hears(s.a, "20.0.0.1"), timeout=30)


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def frame(kind, body, flags=0x505):
    message = struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body
    return struct.pack(">BBH", 1, 1, 4 + len(message)) + message


def ip(text):
    return socket.inet_aton(text)


def u32(n):
    return struct.pack("=I", n)


def route(dst, length, *attributes, kind=24, protocol=186):
    head = struct.pack("=BBBBBBBBI", 2, length, 0, 0, 254, protocol, 0, 1, 0)
    return frame(kind, head + attribute(1, ip(dst)) + b"".join(attributes))


def test_a_speaker(lab):
    """Frames made by hand: labels, nexthop groups, and what is none of it."""
    s = Site(lab, hold=0)
    [e1] = [link["ifindex"] for link in json.loads(s.linux.ip("-j link show dev e1").stdout)]

    def connect():
        with s.linux.entered():
            return socket.create_connection(("127.0.0.1", 2620), timeout=10)

    def ended(bytes_):
        c = connect()
        c.sendall(bytes_)
        assert c.recv(1) == b"", "the connection stands"
    for n, (bad, why) in enumerate([
            (b"\x02\x01\x00\x20" + bytes(28), "version 2"), (b"\x01\x02\x00\x20" + bytes(28), "kind 2"),
            (b"\x01\x01\x00\x05\x00", "5 bytes"), (b"\x01\x01\xff\xff" + bytes(65531), "no whole netlink message"),
            (os.urandom(4000)[:1].replace(b"\x01", b"\x09") + os.urandom(4000), "version")]):
        ended(bad)
        wait_for("it is counted", lambda n=n: s.fpm()["refused"] == n + 1)
        assert why in s.router.log(), why
    # Truncated attributes, routes of nothing, an end in the middle of a frame: nothing comes of it.
    c = connect()
    c.sendall(frame(24, b"\x02") + frame(24, bytes(12)) + route("20.0.0.0", 99) + frame(104, b"") + route("20.0.0.0", 24)[:-3])
    wait_for("it has been read", lambda: s.fpm()["messages"]["new-routes"] >= 2)
    c.close()
    wait_for("the end is noticed", lambda: s.fpm()["peer"] is None)
    assert s.fpm()["routes"] == 0
    # A path with a label, and a group with two ways of different weights.
    c = connect()
    label = attribute(21, struct.pack("=H", 1)) + attribute(22 | 0x8000, attribute(1, struct.pack(">I", 777 << 12 | 0x100)))
    via = attribute(5, ip("10.0.2.2")) + attribute(4, u32(e1))
    c.sendall(route("20.0.0.0", 24, via, label))
    one = struct.pack("=BBBBI", 2, 0, 186, 0, 0)
    for n, way in ((7, "10.0.2.2"), (8, "10.0.2.3")):
        c.sendall(frame(104, one + attribute(1, u32(n)) + attribute(6, ip(way)) + attribute(5, u32(e1))))
    group = attribute(2, struct.pack("=IBBH", 7, 0, 0, 0) + struct.pack("=IBBH", 8, 2, 0, 0))
    c.sendall(frame(104, struct.pack("=BBBBI", 0, 0, 186, 0, 0) + attribute(1, u32(9)) + group))
    c.sendall(route("21.0.0.0", 24, attribute(30, u32(9))))
    # The kernel's loopback is nobody's pair.
    c.sendall(route("22.0.0.0", 24, attribute(4, u32(1))))
    wait_for("they are the router's", lambda: s.fpm()["routes"] == 3 and "777" in s.router.ctl("fib why 20.0.0.1"))
    shown = s.router.ctl("show ip fib 21.0.0.0/24")
    assert "10.0.2.2" in shown and "10.0.2.3" in shown, shown
    assert f"fpm:bgp@{s.linux.name}" in s.router.ctl("fib why 21.0.0.1") and s.fpm()["foreign"] == 1
    # A group changes, and the routes that name it with it; a change is a route that goes and one that comes.
    c.sendall(frame(104, struct.pack("=BBBBI", 0, 0, 186, 0, 0) + attribute(1, u32(9)) + attribute(2, struct.pack("=IBBH", 8, 0, 0, 0))))
    wait_for("one way is left", lambda: "10.0.2.2" not in s.router.ctl("show ip fib 21.0.0.0/24"))
    c.sendall(route("20.0.0.0", 24, kind=25) + route("20.0.0.0", 24, via))
    wait_for("the label is gone", lambda: "777" not in s.router.ctl("fib why 20.0.0.1"))
    assert hears(s.a, "20.0.0.1")
    # A pair that is made anew has its routes again.
    s.router.ctl("lcp delete right")
    wait_for("without it there are none", lambda: not hears(s.a, "20.0.0.1"))
    s.router.ctl(f"lcp create right host-if e1 netns {s.linux.name}")
    [e1] = [link["ifindex"] for link in json.loads(s.linux.ip("-j link show dev e1").stdout)]
    via = attribute(5, ip("10.0.2.2")) + attribute(4, u32(e1))
    c.sendall(route("20.0.0.0", 24, via))
    wait_for("it is there again", lambda: hears(s.a, "20.0.0.1"))
    c.close()
    wait_for("all goes with the connection, for nothing holds it", lambda: s.fpm()["routes"] == 0)
