"""VLAN devices that are made in Linux above the pairs of Quiver's interfaces, in a guest: this machine's kernel has none.

    host a - VLAN 100, and VLAN 200 in 802.1ad's VLAN 300 - [q1] (Quiver) [q2] - host b         cp: where Quiver's pairs are
"""

import json
import os
import re
import shlex

import pytest
from harness import guest, wait_for
from harness import run as command
from harness.guest import Guest
from harness.router import BINARY

pytestmark = pytest.mark.skipif(guest.lacks() is not None, reason=f"no Linux in QEMU: {guest.lacks()}")

QUIVER = """
interfaces:
  q1: {lcp: e1}
  q2: {lcp: e2, addresses: [10.2.0.1/24]}
linux-cp: {default-netns: cp}
quiver: {dad: off}
"""


class Inside:
    """The guest, and Quiver in it."""

    def __init__(self, lab, tmp):
        self.quiver = os.path.join(tmp, "quiver")
        command(["strip", "-o", self.quiver, BINARY])
        self.guest = Guest([], ["veth", "tun", "8021q"], memory_mib=512, programs=[self.quiver])
        lab.routers.append(self.guest)
        run = self.run = self.guest.run
        run("mount -t devtmpfs dev /dev; mkdir -p /run /tmp; ip link set lo up")
        for ns in ("a", "b", "cp"):
            run(f"ip netns add {ns} && ip -n {ns} link set lo up")
        for n, ns in ((1, "a"), (2, "b")):
            run(f"ip link add q{n} type veth peer name eth0 netns {ns} && ip link set q{n} up && ip -n {ns} link set eth0 up")
        run("ip -n b address add 10.2.0.2/24 dev eth0 && ip -n b route add default via 10.2.0.1")
        self.vlans("a", "eth0", ("10.1.0.2/24", "10.3.0.2/24"))
        run("ip -n a route add 10.2.0.0/24 via 10.1.0.1")
        text = QUIVER.replace(chr(10), chr(92) + "n")
        run(f"printf {shlex.quote(text)} > /tmp/quiver.yaml")
        self.start()

    def vlans(self, ns, device, addresses):
        """VLAN 100 above a device, and VLAN 200 in VLAN 300."""
        for line in (f"link add link {device} name v100 type vlan id 100", f"link add link {device} name s300 type vlan proto 802.1ad id 300",
                     "link add link s300 name c200 type vlan id 200", f"address add {addresses[0]} dev v100", f"address add {addresses[1]} dev c200",
                     "link set v100 up", "link set s300 up", "link set c200 up"):
            self.run(f"ip -n {ns} {line}")

    def start(self):
        self.run(f"{self.quiver} run -c /tmp/quiver.yaml >> /tmp/quiver.log 2>&1 &")
        wait_for("Quiver answers", lambda: "q2" in self.ctl("show interface"), timeout=60, every=0.2)

    def ctl(self, line):
        return self.run(f"{self.quiver} ctl {line}", check=False, timeout=60)

    def subs(self):
        """Sub-interfaces by the device that is theirs in Linux."""
        return {p["host-if"]: p["interface"] for p in json.loads(self.ctl("--json show lcp"))["pairs"] if "." in p["interface"]}

    def pings(self, ns, to):
        text = self.run(f"ip netns exec {ns} ping -c 3 -i 0.2 -W 2 {to}", check=False, timeout=60)
        return int(re.search(r"(\d+) packets received", text)[1]) == 3


def test_vlan_devices(module_lab, tmp_path):
    """They forward, speak to Linux and for it, outlive the router, and go with their devices."""
    s = Inside(module_lab, tmp_path)
    before = s.ctl("dump")
    s.vlans("cp", "e1", ("10.1.0.1/24", "10.3.0.1/24"))
    wait_for("there are sub-interfaces", lambda: set(s.subs()) == {"v100", "s300", "c200"}, timeout=60, every=0.2)

    def works():
        # Through the router; host a and Linux beside Quiver, from either side, with one tag and with two.
        return s.pings("a", "10.2.0.2") and s.pings("a", "10.1.0.1") and s.pings("cp", "10.1.0.2") and s.pings("cp", "10.3.0.2") and s.pings("a", "10.3.0.1")
    wait_for("hosts and Linux reach each other", works, timeout=90, every=0.2)
    assert s.ctl("dump") == before, "what is Linux's stands in the dump"
    # A route of a daemon over one of them.
    s.run("ip -n cp route add 198.51.100.0/24 via 10.3.0.2 proto 42")
    s.run("ip -n a address add 198.51.100.1/32 dev lo")
    wait_for("it is forwarded by", lambda: s.ctl("fib diff kernel") == "" and "10.3.0.2" in s.ctl("fib why 198.51.100.1"), timeout=30, every=0.2)
    s.run("ip -n a route add default via 10.3.0.1")
    assert s.pings("b", "198.51.100.1")
    # MTU and state.
    s.run("ip -n cp link set v100 mtu 1400")
    wait_for("its MTU is Linux's", lambda: "1400" in s.ctl(f"show interface {s.subs()['v100']}"), timeout=30, every=0.2)
    # The router dies, and is there again.
    s.run("kill -9 $(pidof quiver)")
    s.start()
    wait_for("all is as it was", lambda: set(s.subs()) == {"v100", "s300", "c200"} and works() and s.pings("b", "198.51.100.1"), timeout=90, every=0.2)
    # The lower one takes the upper one with it; VLAN 100 stays.
    s.run("ip -n cp link del s300")
    wait_for("they are gone", lambda: set(s.subs()) == {"v100"}, timeout=60, every=0.2)
    assert s.pings("a", "10.2.0.2")
    s.ctl("lcp nl-sync off")
    wait_for("nothing is Linux's any more", lambda: not s.subs(), timeout=60, every=0.2)
