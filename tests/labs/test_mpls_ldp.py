"""LDP of FRR on Quiver's pairs, with Linux as the other label switching routers: all of it in a guest, whose kernel has MPLS.

    host a - [l1] - (Quiver) - [l2] - [l3] - host b        l1, l2, l3: Linux, each with zebra, ospfd and ldpd; so has `cp`, where Quiver's pairs are
"""

import json
import os
import re
import shlex

import pytest
from frr import FRR
from harness import guest, wait_for
from harness import run as strip
from harness.guest import Guest
from harness.router import BINARY

DAEMONS = [f"{FRR}/{daemon}" for daemon in ("zebra", "ospfd", "ldpd")]


def lacks():
    """Why this cannot run here; None when it can."""
    missing = [daemon for daemon in DAEMONS if not os.path.exists(daemon)]
    return guest.lacks() or (f"no {missing[0]}: the package frr is not installed" if missing else None)


pytestmark = pytest.mark.skipif(lacks() is not None, reason=f"no Linux with MPLS: {lacks()}")

# (namespace, device, address, namespace, device, address); Quiver's ports are in the guest's own namespace.
LINKS = [("a", "eth0", "10.1.0.2/24", "l1", "lan", "10.1.0.1/24"), ("l1", "east", "10.11.0.1/24", None, "q1", None),
         (None, "q2", None, "l2", "west", "10.12.0.2/24"), ("l2", "east", "10.13.0.1/24", "l3", "west", "10.13.0.2/24"),
         ("l3", "lan", "10.2.0.1/24", "b", "eth0", "10.2.0.2/24")]
ROUTERS = {"l1": (1, ["east"]), "l2": (2, ["west", "east"]), "l3": (3, ["west"]), "cp": (9, ["e1", "e2"])}
QUIVER = """
interfaces:
  q1: {lcp: e1, addresses: [10.11.0.2/24], mpls: true}
  q2: {lcp: e2, addresses: [10.12.0.1/24], mpls: true}
loopbacks: {loop0: {lcp: lo0, addresses: [10.9.9.9/32]}}
linux-cp: {default-netns: cp, lcp-sync: true}
quiver: {dad: off}
"""
OSPF = """
router ospf
 ospf router-id 10.9.9.{n}
 network 10.0.0.0/8 area 0
 timers throttle spf 10 100 1000
"""
LDP = """
mpls ldp
 router-id 10.9.9.{n}
 address-family ipv4
  discovery transport-address 10.9.9.{n}
  discovery hello interval 1
{faces}
"""


class Inside:
    """The guest, and all that runs in it."""

    def __init__(self, lab, tmp):
        binary = os.path.join(tmp, "quiver")
        strip(["strip", "-o", binary, BINARY])
        self.quiver = binary
        self.guest = Guest([], ["mpls_router", "mpls_iptunnel", "mpls_gso", "veth", "tun"], memory_mib=1024,
                           programs=[*DAEMONS, binary])
        lab.routers.append(self.guest)
        run = self.guest.run
        run("mount -t devtmpfs dev /dev; mkdir -p /run /tmp /var/tmp /etc/frr; ln -s /run /var/run; ip link set lo up")
        run("echo root:x:0:0:root:/:/bin/sh > /etc/passwd; for g in root:x:0: frr:x:100:root frrvty:x:101:root; do echo $g >> /etc/group; done")
        for ns in ("a", "b", *ROUTERS):
            run(f"ip netns add {ns} && ip -n {ns} link set lo up")
        for n, (one, d1, a1, two, d2, a2) in enumerate(LINKS):
            run(f"ip link add x{n} type veth peer name y{n}")
            for ns, end, device, address in ((one, f"x{n}", d1, a1), (two, f"y{n}", d2, a2)):
                at = f"-n {ns} " if ns else ""
                run(f"ip link set {end} {f'netns {ns} ' if ns else ''}name {device} && ip {at}link set dev {device} up")
                if address:
                    run(f"ip {at}address add {address} dev {device}")
        run("ip -n a route add default via 10.1.0.1 && ip -n b route add default via 10.2.0.1")
        for ns in ROUTERS:
            run(f"ip netns exec {ns} sysctl -w net.ipv4.ip_forward=1 net.mpls.platform_labels=100000")
        for ns in ("l1", "l2", "l3"):
            n, faces = ROUTERS[ns]
            run(f"ip -n {ns} address add 10.9.9.{n}/32 dev lo")
            for face in faces:
                run(f"ip netns exec {ns} sysctl -w net.mpls.conf.{face}.input=1")
        self.write("/tmp/quiver.yaml", QUIVER)
        self.start()
        for ns in ROUTERS:
            self.daemons(ns)

    def start(self):
        self.guest.run(f"{self.quiver} run -c /tmp/quiver.yaml >> /tmp/quiver.log 2>&1 &")
        wait_for("Quiver answers", lambda: "q2" in self.ctl("show interface"), timeout=60, every=0.2)

    def write(self, path, text):
        # A line of shell is all that the guest takes.
        self.guest.run(f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} > {path}")

    def ctl(self, line):
        return self.guest.run(f"{self.quiver} ctl {line}", check=False, timeout=60)

    def daemons(self, ns):
        n, faces = ROUTERS[ns]
        each = "".join(f"interface {f}\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 8\n" for f in faces)
        configs = {"zebra": "", "ospfd": each + OSPF.format(n=n), "ldpd": LDP.format(n=n, faces="\n".join(f"  interface {f}" for f in faces))}
        self.guest.run(f"mkdir -p /run/{ns}")
        for daemon, lines in configs.items():
            self.write(f"/run/{ns}/{daemon}.conf", lines)
            self.guest.run(f"ip netns exec {ns} {FRR}/{daemon} -d -u root -g root -f /run/{ns}/{daemon}.conf -i /run/{ns}/{daemon}.pid -z /run/{ns}/zserv"
                           f" --vty_socket /run/{ns} -P 0 --log file:/run/{ns}/{daemon}.log" + (f" --ctl_socket /run/{ns}" if daemon == "ldpd" else ""),
                           timeout=60)

    def kernel(self):
        """The labels of Linux's routes of labels in `cp`."""
        return {int(n) for n in re.findall(r"^(\d+) ", self.guest.run("ip -n cp -f mpls route"), re.M)}

    def entries(self):
        """The entries of the label table that LDP's routes have made: label, and whether at the bottom."""
        shown = json.loads(self.ctl("--json show mpls fib all"))["labels"]
        return {(e["label"], e["eos"]) for e in shown if e["source"].startswith("kernel:")}

    def labelled(self):
        """Packets that were looked up by a label."""
        nodes = [n for worker in json.loads(self.ctl("--json show runtime")) for n in worker["nodes"]]
        return sum(n["vectors"] for n in nodes if n["name"] == "mpls-lookup")

    def pings(self, count):
        """How many pings of host a's host b answers."""
        text = self.guest.run(f"ip netns exec a ping -c {count} -i 0.1 -W 1 10.2.0.2", check=False, timeout=60)
        return int(re.search(r"(\d+) packets received", text)[1])

    def agrees(self):
        """Every label of Linux's is an entry at the bottom of a stack and one above it, and nothing differs."""
        labels = self.kernel()
        return labels and self.entries() == {(n, b) for n in labels for b in (False, True)} and self.ctl("fib diff kernel") == ""


def test_ldp(module_lab, tmp_path):
    """Labels are swapped on the way to host b and taken off on the way back; they go with the daemon, and outlive the router."""
    s = Inside(module_lab, tmp_path)
    wait_for("the hosts reach each other", lambda: s.pings(1), timeout=120, every=0.5)
    wait_for("LDP has told of both ends' networks, and all is as in Linux", lambda: len(s.kernel()) >= 4 and s.agrees(), timeout=120, every=0.5)

    def by_labels():
        before = s.labelled()
        return s.pings(20) == 20 and s.labelled() - before >= 40
    wait_for("pings go by labels, both ways", by_labels, timeout=60, every=0.5)
    shown = s.ctl("show mpls fib")
    assert "kernel:ldp@cp" in shown and "out-labels" in shown, shown
    # The router dies, and is there again.
    s.guest.run("kill -9 $(pidof quiver)")
    s.start()
    wait_for("all is as it was", lambda: s.agrees() and by_labels(), timeout=60, every=0.5)
    # LDP ends, and Quiver's labels with it. The other daemons go on naming labels to each other.
    s.guest.run("kill $(cat /run/cp/ldpd.pid)")
    wait_for("labels are gone", lambda: not s.kernel() and not s.entries() and s.ctl("fib diff kernel") == "", timeout=60, every=0.5)
