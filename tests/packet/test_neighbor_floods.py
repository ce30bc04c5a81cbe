"""Floods of neighbour discovery in both families (RFC 6583): the table and its queues stay bounded, neighbours in use stay, and
packets to them are forwarded all the while."""

import ipaddress
import threading
import time

import pytest
from frames import *
from harness import Bench, wait_for

BOUNDS = {"max-entries": 200, "max-per-interface": 150, "max-unresolved": 50, "solicit-rate": 100, "queue": 4, "interface-queue": 300,
          "retransmit-ms": 100}
NEIGHBORS = [{"interface": "right", "address": a, "mac": "02:00:00:00:02:02"} for a in ("10.2.0.2", "2001:db8:2::2")]


@pytest.fixture(scope="module")
def flooded():
    """Networks with room for 65534 and 2^64 hosts behind `right`; `back` has another."""
    b = Bench({"interfaces": {"right": {"addresses": ["10.2.0.1/16", "2001:db8:2::1/64"]}, "left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                              "back": {"addresses": ["10.3.0.1/16", "2001:db8:3::1/64"]}},
               "quiver": {"neighbor": BOUNDS},
               "neighbors": NEIGHBORS}, ports=("left", "right", "back"), addresses=False)
    yield b
    b.close()


def scan(b, v6, first, count):
    """Packets to hosts of the network behind `right` that are not there."""
    left = b.ports["left"]
    if v6:
        base = int(ipaddress.ip_address("2001:db8:2::1:0:0"))
        frames = [bytes(into(left) / udp6("2001:db8:1::2", str(ipaddress.ip_address(base + first + n)))) for n in range(count)]
    else:
        base = int(ipaddress.ip_address("10.2.1.0"))
        frames = [bytes(into(left) / udp4("10.0.1.2", str(ipaddress.ip_address(base + first + n)))) for n in range(count)]
    return frames


def known(b, v6, n):
    left, right = b.ports["left"], b.ports["right"]
    if v6:
        return into(left) / udp6("2001:db8:1::2", "2001:db8:2::2", sport=n), out_of(right) / udp6("2001:db8:1::2", "2001:db8:2::2", sport=n, hlim=63)
    return into(left) / udp4("10.0.1.2", "10.2.0.2", sport=n), out_of(right) / udp4("10.0.1.2", "10.2.0.2", sport=n, ttl=63)


@pytest.mark.parametrize("v6", [False, True], ids=["arp", "nd"])
def test_a_scan_is_bounded_and_known_neighbours_are_reached(flooded, v6):
    """20,000 addresses that nobody has, with packets to a known neighbour among them: every one of those comes out, requests leave
    at the rate that was set, and neither table nor queue grows beyond its bound."""
    b = flooded
    frames = scan(b, v6, 0, 20000)
    wanted, asked, began = [], 0, time.monotonic()
    most = 0
    taken = lambda: b.router.interface("left")["rx"]["packets"]
    before = taken()
    for n in range(100):
        sent, want = known(b, v6, 1000 + n)
        b.left.send(*frames[n * 200:(n + 1) * 200], sent)
        wanted.append(bytes(want))
        if n % 5 == 0:
            # A router that has no time to run leaves them to Linux, which has room for some.
            wait_for("the router takes the bursts", lambda: taken() >= before + 201 * (n + 1))
        if n % 10 == 0:
            most = max(most, len(b.router.json("show ip neighbors right")))
    got, deadline = [], time.monotonic() + 20
    while len(got) < len(wanted) and time.monotonic() < deadline:
        frame = b.right.recv(timeout=1, chatter=True)
        if frame is None:
            continue
        if frame in wanted:
            got.append(frame)
        p = Ether(frame)
        asked += ARP in p or ICMPv6ND_NS in p
    took = time.monotonic() - began
    assert got == wanted, f"{len(wanted) - len(got)} packets to a known neighbour lost"
    most = max(most, len(b.router.json("show ip neighbors right")))
    assert most <= 150, most
    assert asked <= 100 + 100 * took + 10, f"{asked} requests in {took:.1f} s"
    errors = b.router.errors()
    # Either the interface's queue is full, or the control side has refused the neighbour by then: which, time decides.
    assert errors.get("hold-interface-queue-full", 0) + errors.get("hold-neighbor-queue-full", 0) > 1000, errors
    counters = {r["counter"]: r["count"] for r in b.router.json("show neighbor-counters")}
    assert counters["refused"] > 0, counters
    assert b.router.in_use() <= 2 * 300 + 256
    wait_for("the queues are empty again", lambda: b.router.in_use() == 0, timeout=30)


@pytest.mark.parametrize("v6", [False, True], ids=["arp", "nd"])
def test_other_interfaces_and_new_neighbours_work_during_a_scan(flooded, v6):
    """While the network behind `right` is scanned, a host behind `back` that nobody knew is found at once, and one behind `right`
    after a while."""
    b = flooded
    left, back, right = (b.ports[n] for n in ("left", "back", "right"))
    stop = threading.Event()
    frames = scan(b, v6, 30000, 20000)

    def keep_on():
        n = 0
        while not stop.is_set():
            b.left.send(*frames[n:n + 100])
            n = (n + 100) % 20000
            time.sleep(0.01)

    thread = threading.Thread(target=keep_on)
    thread.start()
    try:
        for wire, port, network, patience in ((b.back, back, 3, 5), (b.right, right, 2, 30)):
            host = f"2001:db8:{network}::77" if v6 else f"10.{network}.0.77"
            make = (lambda h: udp6("2001:db8:1::2", host, hlim=h)) if v6 else (lambda h: udp4("10.0.1.2", host, ttl=h))
            deadline, found = time.monotonic() + patience, False
            while not found and time.monotonic() < deadline:
                b.left.send(into(left) / make(64))
                frame = wire.recv(timeout=0.05, chatter=True)
                while frame is not None and not found:
                    p = Ether(frame)
                    if not v6 and ARP in p and p[ARP].pdst == host:
                        wire.send(into(port) / ARP(op=2, hwsrc=port.host_mac, psrc=host, hwdst=port.mac, pdst=p[ARP].psrc))
                    if v6 and ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == host:
                        wire.send(into(port) / IPv6(src=host, dst=p[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=host, S=1, O=1, R=0)
                                  / ICMPv6NDOptDstLLAddr(lladdr=port.host_mac))
                    found = frame == bytes(out_of(port) / make(63))
                    frame = wire.recv(timeout=0.02, chatter=True)
            assert found, f"{host} was not found within {patience} s; {b.ctl('show neighbor-counters')}{b.ctl('show errors')}"
    finally:
        stop.set()
        thread.join()
    wait_for("the queues are empty again", lambda: b.router.in_use() == 0, timeout=30)


@pytest.mark.parametrize("v6", [False, True], ids=["arp", "nd"])
def test_neighbours_that_introduce_themselves_are_bounded(flooded, v6):
    """A flood of requests from ever new senders: the table stays at its bound, static neighbours stay, and the rest is policed."""
    b = flooded
    right = b.ports["right"]
    frames = []
    for n in range(5000):
        mac = f"02:77:00:00:{n >> 8:02x}:{n & 255:02x}"
        if v6:
            src = str(ipaddress.ip_address(int(ipaddress.ip_address("2001:db8:2::9:0:0")) + n))
            frames.append(Ether(dst="33:33:ff:00:00:01", src=mac) / IPv6(src=src, dst="ff02::1:ff00:1", hlim=255)
                          / ICMPv6ND_NS(tgt="2001:db8:2::1") / ICMPv6NDOptSrcLLAddr(lladdr=mac))
        else:
            src = str(ipaddress.ip_address(int(ipaddress.ip_address("10.2.100.0")) + n))
            frames.append(Ether(dst="ff:ff:ff:ff:ff:ff", src=mac) / ARP(op=1, hwsrc=mac, psrc=src, pdst="10.2.0.1"))
    raw = [bytes(f) for f in frames]
    for n in range(0, 5000, 500):
        b.right.send(*raw[n:n + 500])
        rows = b.router.json("show ip neighbors right")
        assert len(rows) <= 150
        assert {r["ip"] for r in rows if r["flags"].startswith("S")} == {"10.2.0.2", "2001:db8:2::2"}
        sent, want = known(b, v6, 3000 + n)
        b.left.send(sent)
        b.right.wait(lambda p: bytes(p) == bytes(want))
    counters = {r["counter"]: r["count"] for r in b.router.json("show neighbor-counters")}
    assert counters["evicted"] > 0, counters
    b.right.drain()
