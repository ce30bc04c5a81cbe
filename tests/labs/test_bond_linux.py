"""Bonds together with the Linux kernel's bonding driver, which runs in a QEMU guest.

    Linux beside the router - be0 | BondEthernet0 [q] m0, m1 ==== eth0, eth1 (Linux) bond0 - 10.60.0.2, VLAN 100: 10.61.0.2
"""

import re
import signal
import socket

import pytest
from harness import guest, wait_for
from harness.guest import Guest
from test_mpls import say

pytestmark = pytest.mark.skipif(guest.lacks() is not None, reason=f"no Linux in QEMU: {guest.lacks()}")

BOND = "BondEthernet0"


class Stage:
    """The topology, with bonds of these modes at both ends."""

    def __init__(self, lab):
        self.ns, self.beside = lab.namespace("q"), lab.namespace("cp")
        self.beside.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0")
        self.linux = Guest([(self.ns, "m0"), (self.ns, "m1")], ["bonding", "8021q"], memory_mib=256)
        lab.routers.append(self.linux)
        self.router = lab.router(self.ns, {
            "bondethernets": {BOND: {"mode": "lacp", "interfaces": ["m0", "m1"]}},
            "interfaces": {"m0": {}, "m1": {}, BOND: {"lcp": "be0", "addresses": ["10.60.0.1/24", "2001:db8:60::1/64"],
                                                      "sub-interfaces": {100: {"addresses": ["10.61.0.1/24"]}}}},
            "linux-cp": {"default-netns": self.beside.name, "lcp-sync": True}, "quiver": {"dad": "off"}})

    def bond(self, options):
        """Linux's end."""
        self.linux.run("ip link del bond0 2> /dev/null; ip link set eth0 down; ip link set eth1 down; true")
        for line in (f"link add bond0 type bond {options}", "link set eth0 master bond0", "link set eth1 master bond0", "link set bond0 up",
                     "address add 10.60.0.2/24 dev bond0", "-6 address add 2001:db8:60::2/64 dev bond0 nodad",
                     "link add link bond0 name v100 type vlan id 100", "address add 10.61.0.2/24 dev v100", "link set v100 up"):
            self.linux.run(f"ip {line}")

    def proc(self):
        return self.linux.run("cat /proc/net/bonding/bond0")

    def states(self):
        return {m["interface"]: m["state"] for m in self.router.json("show bond")[0]["members"]}

    def active(self, *names):
        wait_for(f"{names} are active", lambda: {n for n, s in self.states().items() if s == "active"} == set(names), timeout=60, every=0.2)

    def pings(self):
        """Linux reaches the router over the bond and a VLAN above it, and Linux beside the router reaches it."""
        for to in ("10.60.0.1", "2001:db8:60::1", "10.61.0.1"):
            text = self.linux.run(f"ping -c 3 -i 0.2 -W 5 {to}", timeout=60)
            assert re.search(r"3 packets received", text), text
        self.beside.run("ping -q -c 3 -i 0.2 -W 5 10.60.0.2", timeout=60)

    def sent(self):
        """Packets that each member has sent."""
        return [next(i["tx"]["packets"] for i in self.router.json("show interface") if i["name"] == m) for m in ("m0", "m1")]

    def spread(self):
        """Flows to Linux take both members."""
        before = self.sent()
        with self.beside.entered():
            out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with out:
            for port in range(20000, 20400):
                out.sendto(b"x", ("10.60.0.2", port))
        wait_for("both carry flows", lambda: min(now - was for now, was in zip(self.sent(), before)) > 100)


@pytest.fixture(scope="module")
def stage(module_lab):
    s = Stage(module_lab)
    say(f"guest: {s.linux.run('uname -sr').strip()}")
    return s


def test_lacp(stage):
    """Both ends take both links, lose one and take it back; a router that begins anew, and one that ends, are understood."""
    stage.bond("mode 802.3ad lacp_rate fast miimon 100 xmit_hash_policy layer3+4")
    stage.active("m0", "m1")
    mac = stage.router.interface(BOND)["mac"]
    wait_for("Linux agrees", lambda: "Number of ports: 2" in stage.proc() and stage.proc().count("port state: 63") == 4, timeout=30, every=0.2)
    assert f"Partner Mac Address: {mac}" in stage.proc(), stage.proc()
    rows = stage.router.json("show lacp")
    assert {r["partner"]["system"] for r in rows} == {stage.linux.run("cat /sys/class/net/bond0/address").strip()}
    assert {r["mux"] for r in rows} == {"DISTRIBUTING"} and len({r["partner"]["port"] for r in rows}) == 2
    stage.pings()
    stage.spread()
    # Linux lets go of one: it falls silent there.
    stage.linux.run("ip link set eth1 down")
    stage.active("m0")
    stage.pings()
    stage.linux.run("ip link set eth1 up")
    stage.active("m0", "m1")
    stage.pings()
    # The router does.
    stage.router.ctl("set interface state m0 down")
    wait_for("Linux uses the other one", lambda: "Number of ports: 1" in stage.proc(), timeout=30, every=0.2)
    stage.pings()
    stage.router.ctl("set interface state m0 up")
    stage.active("m0", "m1")
    # It dies, and it ends.
    for how in (signal.SIGKILL, signal.SIGTERM):
        stage.router.kill(how)
        stage.router.start()
        stage.active("m0", "m1")
        stage.pings()
    stage.router.check_quiet()


def test_slow_and_passive(stage):
    """LACP every 30 seconds, of which the router does not speak first; the hash is of layer 2 there."""
    for member in ("m0", "m1"):
        stage.router.ctl(f"bond add {BOND} {member} passive long-timeout")
    stage.bond("mode 802.3ad lacp_rate slow miimon 100 xmit_hash_policy layer2")
    stage.active("m0", "m1")
    stage.pings()
    assert all("timeout" not in r["actor"]["state"] + r["partner"]["state"] for r in stage.router.json("show lacp"))


def test_xor(stage):
    stage.router.ctl(f"set bond {BOND} mode xor")
    stage.bond("mode balance-xor miimon 100 xmit_hash_policy layer3+4")
    stage.active("m0", "m1")
    stage.pings()
    stage.spread()
