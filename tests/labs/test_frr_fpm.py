"""FRR's zebra tells its routes past the kernel (`lcp fpm`, dplane_fpm_nl): nexthop objects, labels, restarts, and what is none of that."""

import json
import os
import socket
import struct
import time

import pytest
from frr import Frr
from harness import wait_for
from scapy.all import IP, UDP, Ether
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
        wait_for("it is counted, and told", lambda n=n, why=why: s.fpm()["refused"] == n + 1 and why in s.router.log())
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


def test_routes_stay_until_they_are_told_again(lab):
    """zebra comes back at once and its daemons later: what it told before stays for `hold` seconds, however long it says nothing."""
    s = Site(lab, hold=8)
    [e1] = [link["ifindex"] for link in json.loads(s.linux.ip("-j link show dev e1").stdout)]
    via = attribute(5, ip("10.0.2.2")) + attribute(4, u32(e1))

    def connect(*nets):
        with s.linux.entered():
            c = socket.create_connection(("127.0.0.1", 2620), timeout=10)
        c.sendall(b"".join(route(net, 24, via) for net in nets))
        return c
    c = connect("20.0.0.0", "21.0.0.0", "22.0.0.0")
    wait_for("all is told", lambda: s.fpm()["routes"] == 3 and s.fpm()["synced"], timeout=20)
    began = time.monotonic()
    c.close()
    c = connect("20.0.0.0")
    wait_for("it is there again", lambda: s.fpm()["connections"] == 2 and s.fpm()["peer"])
    # Longer than the silence by which all is taken for told.
    time.sleep(4.5)
    c.sendall(route("21.0.0.0", 24, via))
    assert s.fpm()["routes"] == 3 and hears(s.a, "21.0.0.1") and hears(s.a, "22.0.0.1")
    wait_for("what is not told again goes", lambda: s.fpm()["routes"] == 2 and not hears(s.a, "22.0.0.1"), timeout=20)
    assert time.monotonic() - began >= 8 and hears(s.a, "20.0.0.1") and hears(s.a, "21.0.0.1")
    c.close()


def entry(label, bottom=True):
    return struct.pack(">I", label << 12 | bottom << 8)


def lsp(label, ifindex, way, *out, kind=24, protocol=193):
    """A route of a label to a next hop, with other labels in its place; or to a device alone."""
    head = struct.pack("=BBBBBBBBI", 28, 20, 0, 0, 254, protocol, 0, 1, 0)
    new = attribute(19, b"".join(entry(o, n == len(out) - 1) for n, o in enumerate(out))) if out else b""
    via = (attribute(18, struct.pack("=H", 2) + ip(way)) if way else b"") + attribute(4, u32(ifindex))
    return frame(kind, head + attribute(1, entry(label)) + new + via)


def test_labels(lab):
    """Routes of labels: swapped and taken off, replaced, refused where the operator has one, and gone with the connection."""
    s = Site(lab, hold=0)
    [e1] = [link["ifindex"] for link in json.loads(s.linux.ip("-j link show dev e1").stdout)]
    mac = json.loads(s.a.ip("-j link show dev eth0").stdout)[0]["address"]
    gateway = s.router.json("show hardware-interfaces left")[0]["mac"]
    s.router.ctl("mpls local-label add 900 eos via 10.0.2.2 right")
    with s.linux.entered():
        c = socket.create_connection(("127.0.0.1", 2620), timeout=10)
    c.sendall(lsp(100, e1, "10.0.2.2") + lsp(101, e1, "10.0.2.2", 501, 502) + lsp(102, 1, "10.0.2.2") + lsp(900, e1, "10.0.2.2", 7777))
    wait_for("they are the router's", lambda: s.fpm()["labels"] == 4 and "501" in s.router.ctl("show mpls fib"))
    shown = s.router.ctl("show mpls fib")
    # At the bottom of its stack 900 is the operator's.
    assert shown.count("fpm:ldp@") == 5 and shown.count("7777") == 1, shown
    assert s.fpm()["foreign"] == 1 and [f["label"] for f in s.fpm()["failures"]] == [900], s.fpm()

    def through(label):
        """What host B gets of a packet with this label."""
        with s.b.entered():
            got = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        got.bind(("eth0", 0))
        with s.a.entered():
            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("eth0", 0))
        inside = IP(src="10.0.1.2", dst="10.0.2.2", ttl=9) / UDP(dport=4000 + label % 1000) / (b"q" * 30)
        seen = []

        def came():
            out.send(bytes(Ether(src=mac, dst=gateway, type=0x8847)) + entry(label)[:3] + b"\x40" + bytes(inside))
            for _ in range(50):
                try:
                    f = got.recv(2000, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
                if b"q" * 30 in f:
                    seen.append(f)
                    return True
            return False
        with got, out:
            wait_for(f"a packet with label {label} comes", came)
        return seen[0]
    plain = through(100)
    assert plain[12:14] == b"\x08\x00", plain
    swapped = through(101)
    assert swapped[12:14] == b"\x88\x47" and [int.from_bytes(swapped[n:n + 3], "big") >> 4 for n in (14, 18)] == [501, 502], swapped
    # Without its label a packet to `lo` is looked up in the main table, as one to a VRF device is in that of the device. zebra does not tell what
    # a device is; of one that nobody knows nothing comes.
    c.sendall(lsp(200, 1, None) + lsp(201, 99999, None))
    wait_for("Linux is asked", lambda: "via ip-lookup-in-table 0" in s.router.ctl("show mpls fib 200"))
    assert through(200)[12:14] == b"\x08\x00" and "no label 201" in s.router.ctl("show mpls fib 201")
    assert s.fpm()["unsupported"] == [{"what": "label without a next hop", "routes": 1}], s.fpm()
    c.sendall(lsp(200, 1, None, kind=25))
    wait_for("it is gone", lambda: "no label 200" in s.router.ctl("show mpls fib 200"))
    # It is changed, comes from another protocol, and goes.
    c.sendall(lsp(101, e1, "10.0.2.2", 600, protocol=186))
    wait_for("it is another's", lambda: s.router.ctl("show mpls fib").count("fpm:bgp@") == 2)
    assert int.from_bytes(through(101)[14:17], "big") >> 4 == 600
    c.sendall(lsp(100, e1, "10.0.2.2", kind=25))
    wait_for("one is gone", lambda: s.router.ctl("show mpls fib").count("fpm:ldp@") == 1)
    # The operator takes one, and has it.
    s.router.ctl("mpls local-label set 101 eos via 10.0.2.2 right out-labels 800")
    assert int.from_bytes(through(101)[14:17], "big") >> 4 == 800
    assert "7777" not in s.router.ctl("show configuration") and "800" in s.router.ctl("show configuration")
    c.close()
    wait_for("what zebra told is gone, and the operator's is not",
             lambda: "fpm:" not in s.router.ctl("show mpls fib") and s.router.ctl("show mpls fib").count("static") == 2)


def test_ipv6_over_labels_to_ipv4_routers(lab):
    """VPNs of IPv6 over a core of IPv4 (6VPE, RFC 4659), in the forms in which zebra may tell them; Linux takes none of them."""
    s = Site(lab, hold=0)
    s.router.ctl("set interface ip address left 2001:db8:1::1/64")
    s.a.ip("-6 address add 2001:db8:1::2/64 dev eth0 nodad")
    s.a.ip("-6 route add default via 2001:db8:1::1")
    [e1] = [link["ifindex"] for link in json.loads(s.linux.ip("-j link show dev e1").stdout)]

    def route6(dst, *attributes):
        head = struct.pack("=BBBBBBBBI", 10, 48, 0, 0, 254, 186, 0, 1, 0)
        return frame(24, head + attribute(1, socket.inet_pton(socket.AF_INET6, dst)) + b"".join(attributes))

    def labels(kind, headers, *all_):
        return attribute(kind, struct.pack("=H", 1)) + attribute(headers | 0x8000, attribute(1, b"".join(entry(n, n == all_[-1]) for n in all_)))
    # By an object, as zebra does it by default; by itself; and by itself without labels, which nobody could send on.
    by_object = frame(104, struct.pack("=BBBBI", 2, 0, 186, 0, 0) + attribute(1, u32(7)) + attribute(6, ip("10.0.2.2")) + attribute(5, u32(e1)) + labels(7, 8, 17, 80))
    via = attribute(18, struct.pack("=H", 2) + ip("10.0.2.2")) + attribute(4, u32(e1))
    with s.linux.entered():
        c = socket.create_connection(("127.0.0.1", 2620), timeout=10)
    c.sendall(by_object + route6("2001:db8:20::", attribute(30, u32(7))) + route6("2001:db8:21::", via, labels(21, 22, 81)) + route6("2001:db8:22::", via))
    wait_for("they are the router's", lambda: "out-labels 17 80" in s.router.ctl("fib why 2001:db8:20::1") and "out-labels 81" in s.router.ctl("fib why 2001:db8:21::1"))
    assert [f["prefix"] for f in s.fpm()["failures"]] == ["2001:db8:22::/48"], s.fpm()
    with s.b.entered():
        got = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8847))
    got.bind(("eth0", 0))
    got.settimeout(1)

    def stack(to):
        """The labels with which a packet comes to host b, and the version of what is below."""
        s.a.run(f"ping -n -c 1 -W 0.1 {to}", check=False)
        try:
            f = got.recv(2000)
        except TimeoutError:
            return None
        found, at = [], 14
        while not found or not f[at - 2] & 1:
            found.append(int.from_bytes(f[at:at + 3], "big") >> 4)
            at += 4
        return found, f[at] >> 4
    wait_for("a packet has both labels", lambda: stack("2001:db8:20::1") == ([17, 80], 6))
    wait_for("and one", lambda: stack("2001:db8:21::1") == ([81], 6))
    got.close()
    c.close()
