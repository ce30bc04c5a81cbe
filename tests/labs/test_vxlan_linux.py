"""VXLAN together with the Linux kernel's.

    host A - lan [router] wan --- eth0 (host B: Linux) with vx0
    10.0.2.1              192.168.11.1  .2
"""

from contextlib import contextmanager

import pytest
from test_mpls import reaches
from tools import iperf_server, tcp

ENDS = {4: ("192.168.11.2", "192.168.11.1"), 6: ("2001:db8:11::2", "2001:db8:11::1")}
# What Linux and what the router are told besides the ends.
KINDS = [
    (4, "", ""),
    (4, "dstport 8472", "src_port 8472 dst_port 8472"),
    # Linux sends no checksum over IPv6 unless told, and takes none unless told.
    (6, "udp6zerocsumrx", ""),
    (6, "udp6zerocsumtx udp6zerocsumrx", "zero-checksum"),
]


class Beside:
    """The topology."""

    def __init__(self, lab):
        self.one = lab.namespace("one")
        self.b = lab.cable(self.one, "wan", lab.host("b", ["192.168.11.2/24", "2001:db8:11::2/64"]), mtu=1600)
        self.a = lab.cable(self.one, "lan", lab.host("a", ["10.0.2.1/24", "2001:db8:2::1/64"], ["10.0.2.254", "2001:db8:2::254"]))
        self.router = lab.router(self.one, {"interfaces": {
            "lan": {"addresses": ["10.0.2.254/24", "2001:db8:2::254/64"]},
            "wan": {"mtu": 1600, "addresses": ["192.168.11.1/24", "2001:db8:11::1/64"]}}, "quiver": {"dad": "off"}})


@pytest.fixture(scope="module")
def beside(module_lab):
    return Beside(module_lab)


@contextmanager
def tunnel(beside, family, theirs, ours, group=None):
    """Linux's device `vx0`, and the name of the router's interface; to each other, or to a multicast group."""
    (far, own), port = ENDS[family], "" if "dstport" in theirs else "dstport 4789"
    to = (f"group {group} dev eth0", f"group {group} wan") if group else (f"remote {own}", f"dst {far}")
    beside.b.ip(f"link add vx0 type vxlan id 77 local {far} {to[0]} {port} {theirs}")
    name = beside.router.ctl(f"create vxlan tunnel src {own} {to[1]} vni 77 {ours}").strip()
    try:
        beside.b.ip("link set vx0 up")
        beside.router.ctl(f"set interface state {name} up")
        yield name
    finally:
        beside.router.ctl(f"delete interface {name}")
        beside.b.ip("link del vx0")


@pytest.mark.parametrize("family, theirs, ours", KINDS, ids=[f"ip{k[0]}-{n}" for n, k in enumerate(KINDS)])
def test_routed(beside, family, theirs, ours):
    """Both families through it and back, small packets and such as just fit, with tags or without."""
    b, router = beside.b, beside.router
    with tunnel(beside, family, theirs, ours) as name:
        b.ip("address add 10.9.0.2/24 dev vx0")
        b.ip("-6 address add 2001:db8:9::2/64 dev vx0 nodad")
        b.ip("route replace 10.0.2.0/24 via 10.9.0.1 dev vx0")
        b.ip("-6 route replace 2001:db8:2::/64 via 2001:db8:9::1 dev vx0")
        mtu = 1500 if family == 4 else 1480
        b.ip(f"link set vx0 mtu {mtu}")
        for line in (f"set interface ip address {name} 10.9.0.1/24", f"set interface ip address {name} 2001:db8:9::1/64",
                     f"set interface mtu packet {mtu} {name}"):
            router.ctl(line)
        reaches(beside.a, "10.9.0.2")
        reaches(beside.a, "2001:db8:9::2")
        reaches(beside.a, "10.9.0.2", size=mtu - 28, extra="-M do")
        reaches(beside.a, "10.9.0.2", size=3000, extra="-M dont")
        with iperf_server(b):
            tcp(beside.a, "10.9.0.2", seconds=1)
            tcp(beside.a, "2001:db8:9::2", "-R", seconds=1)
        seen = router.interface(name)
        assert seen["rx"]["packets"] >= 3 and seen["tx"]["packets"] >= 3, seen


@pytest.mark.parametrize("family, theirs, group", [(4, "", None), (4, "", "239.77.0.1"), (6, "udp6zerocsumrx", "ff05::77")],
                         ids=["ends", "group-ip4", "group-ip6"])
def test_bridged(beside, family, theirs, group):
    """Host A and Linux behind the tunnel are in one network; each is learnt where it is. With a group, Linux learns the router's end."""
    b, router = beside.b, beside.router
    for line in ("set interface ip address del lan 10.0.2.254/24", "set interface ip address del lan 2001:db8:2::254/64",
                 "create bridge-domain 10", "set interface l2 bridge lan 10"):
        router.ctl(line)
    try:
        with tunnel(beside, family, theirs, "", group) as name:
            router.ctl(f"set interface l2 bridge {name} 10")
            b.ip("address add 10.0.2.9/24 dev vx0")
            b.ip("-6 address add 2001:db8:2::9/64 dev vx0 nodad")
            b.ip("link set vx0 mtu 1500")
            # The address was that of another device before.
            beside.a.ip("neighbor flush dev eth0")
            reaches(beside.a, "10.0.2.9")
            reaches(beside.a, "2001:db8:2::9")
            reaches(beside.a, "10.0.2.9", size=1472, extra="-M do")
            with iperf_server(b):
                tcp(beside.a, "10.0.2.9", seconds=1)
                tcp(beside.a, "10.0.2.9", "-R", seconds=1)
            behind = {e["interface"] for e in router.json("show l2fib bd_id 10")["entries"]}
            assert behind == {"lan", name}, behind
    finally:
        for line in ("set interface l3 lan", "create bridge-domain 10 del", "set interface ip address lan 10.0.2.254/24",
                     "set interface ip address lan 2001:db8:2::254/64"):
            router.ctl(line)
