"""GRE together with the Linux kernel's, which runs in a QEMU guest.

    host A - lan [router] e0 === eth0 (Linux)
    10.0.2.1         192.168.11.1   .2, and 10.0.3.1 on lo
"""

import pytest
from harness import guest
from harness.guest import Guest
from test_mpls import reaches, say

pytestmark = pytest.mark.skipif(guest.lacks() is not None, reason=f"no Linux in QEMU: {guest.lacks()}")

LINUX = """
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip address add 10.0.3.1/32 dev lo
ip -6 address add 2001:db8:3::1/128 dev lo
ip link set eth0 up
ip address add 192.168.11.2/24 dev eth0
ip -6 address add 2001:db8:11::2/64 dev eth0 nodad
"""
ENDS, ENDS6 = "local 192.168.11.2 remote 192.168.11.1", "local 2001:db8:11::2 remote 2001:db8:11::1"
OURS, OURS6 = "src 192.168.11.1 dst 192.168.11.2", "src 2001:db8:11::1 dst 2001:db8:11::2"


class Beside:
    """The topology."""

    def __init__(self, lab):
        self.one = lab.namespace("one")
        self.linux = Guest([(self.one, "e0")], ["ip_gre", "ip6_gre"])
        lab.routers.append(self.linux)
        for line in LINUX.strip().splitlines():
            self.linux.run(line)
        self.a = lab.cable(self.one, "lan", lab.host("a", ["10.0.2.1/24", "2001:db8:2::1/64"], ["10.0.2.254", "2001:db8:2::254"]))
        self.router = lab.router(self.one, {"interfaces": {
            "lan": {"addresses": ["10.0.2.254/24", "2001:db8:2::254/64"]},
            "e0": {"addresses": ["192.168.11.1/24", "2001:db8:11::1/64"]}}, "quiver": {"dad": "off"}})


@pytest.fixture(scope="module")
def beside(module_lab):
    stage = Beside(module_lab)
    say(f"guest: {stage.linux.run('uname -sr').strip()}")
    return stage


# What Linux and what the router are told besides the ends.
KINDS = [
    ("gre", ENDS, OURS),
    ("gre", f"{ENDS} key 77", f"{OURS} key 77"),
    ("gre", f"{ENDS} csum seq", f"{OURS} sequence checksum"),
    ("ip6gre", f"{ENDS6} encaplimit none", OURS6),
    # With the destination option that Linux sends when nobody says otherwise.
    ("ip6gre", f"{ENDS6} key 5", f"{OURS6} key 5"),
    ("gretap", f"{ENDS} key 9", f"{OURS} teb key 9"),
    ("ip6gretap", f"{ENDS6} key 9", f"{OURS6} teb key 9"),
]


@pytest.mark.parametrize("kind, theirs, ours", KINDS, ids=[f"{k[0]}-{n}" for n, k in enumerate(KINDS)])
def test_tunnels_with_linux(beside, kind, theirs, ours):
    """Both families through it and back, small packets and such as just fit."""
    linux, router = beside.linux, beside.router
    linux.run(f"ip link add t0 type {kind} {theirs}")
    name = router.ctl(f"create gre tunnel {ours}").strip()
    try:
        linux.run("ip link set t0 up")
        linux.run("ip address add 10.9.0.2/30 dev t0")
        linux.run("ip -6 address add 2001:db8:9::2/64 dev t0 nodad")
        linux.run("ip route replace 10.0.2.0/24 via 10.9.0.1 dev t0 src 10.0.3.1")
        linux.run("ip -6 route replace 2001:db8:2::/64 via 2001:db8:9::1 dev t0")
        for line in (f"set interface state {name} up", f"set interface ip address {name} 10.9.0.1/30",
                     f"set interface ip address {name} 2001:db8:9::1/64",
                     f"ip route set 10.0.3.1/32 via 10.9.0.2 {name}", f"ip route set 2001:db8:3::1/128 via 2001:db8:9::2 {name}"):
            router.ctl(line)
        reaches(beside.a, "10.0.3.1")
        reaches(beside.a, "2001:db8:3::1")
        reaches(beside.a, "10.9.0.2")
        mtu = next(r for r in router.json("show interface") if r["name"] == name)["mtu"]
        reaches(beside.a, "10.0.3.1", size=min(mtu, 1400) - 28, extra="-M do")
        reaches(beside.a, "10.0.3.1", size=3000, extra="-M dont")
        seen = router.interface(name)
        assert seen["rx"]["packets"] >= 3 and seen["tx"]["packets"] >= 3, seen
        say(f"{kind} {theirs}: both ways, MTU {mtu}")
    finally:
        router.ctl("ip route del 10.0.3.1/32")
        router.ctl("ip route del 2001:db8:3::1/128")
        router.ctl(f"delete interface {name}")
        linux.run("ip link del t0")
