"""4,000 bridge domains, 4,000 routing tables and 12,000 sub-interfaces in one document: a frame through each of them comes out right."""

import importlib.util
import os
import struct
from collections import Counter

import pytest
from frames import *
from harness import Bench, wait_for
from harness.router import REPO

_spec = importlib.util.spec_from_file_location("scale", os.path.join(REPO, "benchmarks", "scale.py"))
scale = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(scale)

BRIDGES, VRFS, SUBS = 4000, 4000, 12000
ROUTED = SUBS - 2 * BRIDGES
SIDES = ("left", "right")


def mac(n):
    """Of the host behind routed sub-interface `n`."""
    return f"02:0{1 + n % 2}:00:01:{n >> 8:02x}:{n & 255:02x}"


def side_and_number(n):
    """The port of routed sub-interface `n`, and the number of its tags."""
    return SIDES[n % 2], BRIDGES + n // 2


@pytest.fixture(scope="module")
def many():
    config = scale.document(BRIDGES, VRFS, SUBS, list(SIDES)).splitlines()
    # The hosts behind the routed ones are known.
    hosts = ["neighbors:"]
    for n in range(ROUTED):
        side, number = side_and_number(n)
        for address in scale.routed(n):
            host = address.split("/")[0][:-1] + "2" if ":" in address else "%d.%d.%d.%d" % tuple(host4(n))
            hosts.append(f'  - {{interface: {side}.{number + 1}, address: "{host}", mac: "{mac(n)}"}}')
    config.append('quiver: {sockets: {ctl: "@socket@"}, dad: "off"}')
    b = Bench("\n".join(config + hosts) + "\n")
    yield b
    b.close()


def host4(n):
    """The bytes of the IPv4 address of the host behind routed sub-interface `n`."""
    first = scale.routed(n)[0].split("/")[0]
    return (int.from_bytes(bytes(map(int, first.split("."))), "big") + 1).to_bytes(4, "big")


def tagged(frame, number):
    """A frame without tags (bytes) with those of sub-interface `number`."""
    outer, inner = scale.tags(number)
    return frame[:12] + struct.pack("!HHHH", 0x8100, outer, 0x8100, inner) + frame[12:]


def through(b, sent, wanted):
    """Sends frames by port, a few hundred at a time, and compares what comes out of each port with what is wanted."""
    got = {side: [] for side in SIDES}
    for side in SIDES:
        for at in range(0, len(sent[side]), 200):
            b.wires[side].send(*sent[side][at:at + 200])
            for to in SIDES:
                while (frame := b.wires[to].recv(timeout=0)) is not None:
                    got[to].append(frame)
    for side in SIDES:
        got[side] += b.wires[side].take(len(wanted[side]) - len(got[side])) if len(got[side]) < len(wanted[side]) else []
        missing, extra = Counter(wanted[side]) - Counter(got[side]), Counter(got[side]) - Counter(wanted[side])
        assert not missing and not extra, (side, len(missing), len(extra), [x.hex() for x in list(missing)[:3]],
                                           [x.hex() for x in list(extra)[:3]])


def test_a_frame_through_each_bridge_domain(many):
    """Stations with the same address in all of them: first unknown, then known, each on its side."""
    def both_ways():
        for a, b in (SIDES, SIDES[::-1]):
            frame = bytes(Ether(src=f"02:aa:00:00:00:0{1 + SIDES.index(a)}", dst=f"02:aa:00:00:00:0{1 + SIDES.index(b)}") / udp4("10.1.1.1", "10.1.1.2"))
            frames = [tagged(frame, n) for n in range(BRIDGES)]
            through(many, {a: frames, b: []}, {b: frames, a: []})
        rows = many.router.json("show bridge-domain")
        return len(rows) == BRIDGES and all(r["learned"] == 2 for r in rows)

    # While the table grows, a station may be learnt with its next frame only (docs/bridging.md).
    wait_for("all are learnt", both_ways, timeout=60)


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_a_packet_through_each_table(many, v6):
    """All to one address: each table has its own way there."""
    sent, wanted = {s: [] for s in SIDES}, {s: [] for s in SIDES}
    for n in range(VRFS):
        side, number = side_and_number(n)
        port = many.ports[side]
        if v6:
            packet = lambda hops: udp6("2001:db8:ffff:1::1", "2001:db8:ffff:2::1", hlim=hops, fl=n)
        else:
            packet = lambda hops: udp4("192.0.2.1", "198.51.100.1", ttl=hops, id=n)
        sent[side].append(tagged(bytes(Ether(dst=port.mac, src=mac(n)) / packet(64)), number))
        wanted[side].append(tagged(bytes(Ether(dst=mac(n), src=port.mac) / packet(63)), number))
    through(many, sent, wanted)
