"""A namespace in which pairs stand goes, with and without processes that hold it, and one of its name comes: pairs are there again by themselves."""

import itertools
import json
import os
import socket
import time

import pytest
from harness import run, veth, wait_for
from tools import hears


class Site:
    """A router between two hosts with its pairs in a namespace, in which a route leads to more of host b."""

    def __init__(self, lab, options=()):
        self.numbers = itertools.count()
        self.ports = lab.namespace("r")
        self.linux = lab.namespace("cp")
        self.out = lab.namespace("o")
        self.a = lab.cable(self.ports, "left", lab.host("a", ["10.0.1.2/24"], ["10.0.1.1"]))
        self.b = lab.cable(self.ports, "right", lab.host("b", ["10.0.2.2/24"], ["10.0.2.1"]))
        self.b.ip("address add 20.0.0.1/32 dev lo")
        self.router = lab.router(self.ports, {
            "interfaces": {"left": {"lcp": "e0", "addresses": ["10.0.1.1/24"]}, "right": {"lcp": "e1", "addresses": ["10.0.2.1/24"]}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True, "fpm": {"port": 2620, "hold": 1}},
            "quiver": {"dad": "off"}}, options=options)
        self.furnish()

    def furnish(self):
        """What an operator does in a namespace: a route, and a device by which its end is seen from without."""
        self.linux.ip("link set lo up")
        wait_for("Linux has the addresses", self.has_pairs, timeout=20)
        self.linux.ip("route add 20.0.0.0/24 via 10.0.2.2")
        wait_for("the route counts", lambda: hears(self.a, "20.0.0.1"), timeout=20)
        wait_for("zebra is listened to", lambda: ":2620 " in self.linux.run("ss -Htln").stdout, timeout=20)
        self.witness = f"witness{next(self.numbers)}"
        veth(self.linux, self.witness, self.out, self.witness)

    def has_pairs(self):
        return "10.0.2.1" in self.linux.ip("-4 addr show dev e1", check=False).stdout

    def process(self):
        """The router itself, which may have a supervisor."""
        pid = self.router.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return int((f.read().split() or [pid])[0])

    def cpu_seconds(self):
        with open(f"/proc/{self.process()}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def holds(self):
        """What the router has of the system: descriptors and threads."""
        pid = self.process()
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))

    def pairs(self):
        return {p["host-if"]: p for p in self.router.json("show lcp")["pairs"]}

    def namespace_lives(self, witness=None):
        """The other end of a cable goes with the namespace, when nobody has it open any more."""
        return self.out.ip(f"link show dev {witness or self.witness}", check=False).returncode == 0

    def goes(self):
        """The namespace's name goes, and with it all that was by it."""
        self.linux.delete()
        wait_for("the pairs are without devices", lambda: [p["ifindex"] for p in self.pairs().values()] == [None, None])
        wait_for("the route is gone", lambda: not hears(self.a, "20.0.0.1"))
        assert hears(self.a, "10.0.2.2"), "packets between interfaces are none of Linux's"

    def comes(self):
        run(f"ip netns add {self.linux.name}")
        self.linux.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
        self.furnish()


@pytest.mark.parametrize("options", [(), ("--supervise",)], ids=["alone", "supervised"])
def test_a_namespace_goes_and_comes_back(lab, options):
    s = Site(lab, options)
    before = s.holds()
    for _ in range(3):
        s.goes()
        wait_for("nobody has the namespace open", lambda: not s.namespace_lives())
        why = f"there is no network namespace {s.linux.name}"
        wait_for("it is told why", lambda why=why: all(why in pair["missing"] for pair in s.pairs().values()))
        assert s.router.ctl("show lcp").count(f"missing: {why}") == 2
        assert f"there is no network namespace {s.linux.name}" in s.router.ctl("show fpm")
        used = s.cpu_seconds()
        time.sleep(2)
        assert s.cpu_seconds() - used < 0.4, "somebody looks for it all the time"
        s.comes()
        assert all(pair["ifindex"] and pair["missing"] is None for pair in s.pairs().values()), s.pairs()
    wait_for("nothing is left of earlier ones", lambda: s.holds() == before, timeout=20)


def test_a_namespace_that_processes_hold(lab):
    """Its name goes while a daemon is in it: the pairs are no longer there, and are in the next one of that name, though the old one lives on."""
    s = Site(lab)
    daemon = s.linux.start(["sleep", "600"])
    with s.linux.entered():
        inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    devices = lambda: {link["ifname"] for link in json.loads(run(["nsenter", f"--net=/proc/{daemon.pid}/ns/net", "ip", "-j", "link"]).stdout)}
    try:
        with inside:
            first = s.witness
            s.goes()
            # The socket of somebody who is not in it holds it as well.
            wait_for("the pairs end there", lambda: not {"e0", "e1"} & devices())
            assert s.namespace_lives(first)
            s.comes()
            assert s.namespace_lives(first) and "no network" not in s.router.ctl("show lcp")
        assert s.namespace_lives(first)
        daemon.kill()
        daemon.wait()
        wait_for("it ends with the last who holds it", lambda: not s.namespace_lives(first))
        assert hears(s.a, "20.0.0.1") and s.has_pairs()
    finally:
        daemon.kill()
        daemon.wait()
