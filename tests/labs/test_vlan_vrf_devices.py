"""VLAN and VRF devices that are made in Linux above the pairs of Quiver's interfaces, in a guest: this machine's kernel has none.

    host a - untagged, VLAN 100, and VLAN 200 in 802.1ad's VLAN 300 - [q1] (Quiver) [q2] - host b         cp: where Quiver's pairs are
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
  q2: {lcp: e2, addresses: [10.2.0.1/24, '2001:db8:2::1/64']}
tables: {10: {}}
linux-cp: {default-netns: cp}
quiver: {dad: off}
"""


class Inside:
    """The guest, and Quiver in it."""

    def __init__(self, lab, tmp):
        self.quiver = os.path.join(tmp, "quiver")
        command(["strip", "-o", self.quiver, BINARY])
        self.guest = Guest([], ["veth", "tun", "8021q", "vrf", "bridge"], memory_mib=512, programs=[self.quiver])
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


@pytest.fixture(scope="module")
def inside(module_lab, tmp_path_factory):
    """The guest, which boots once for all tests."""
    return Inside(module_lab, tmp_path_factory.mktemp("guest"))


def test_vlan_devices(inside):
    """They forward, speak to Linux and for it, outlive the router, and go with their devices."""
    s = inside
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


A4, A6, B4, B6 = "10.7.0.2", "2001:db8:7::2", "10.2.0.2", "2001:db8:2::2"
FAMILIES = ("ip", "ip6")


def of_linux(s, host):
    """The table that an interface has from its VRF in Linux."""
    pair = next(p for p in json.loads(s.ctl("--json show lcp"))["pairs"] if p["host-if"] == host)
    assert pair["refused-table"] is None, pair
    return pair["from-linux"]["table"]


def leads(s, address, table):
    return "on q" in s.ctl(f"fib why {address} table {table}")


def test_vrf_devices(inside):
    """An interface follows its pair into a VRF with all its addresses, stays there over a restart, and comes back; with lcp-sync the pair follows it."""
    s, cp = inside, "ip -n cp"
    s.ctl("lcp nl-sync on")
    s.run(f"ip -n a address add {A4}/24 dev eth0 && ip -n a -6 address add {A6}/64 dev eth0 nodad && ip -n a route replace 10.2.0.0/24 via 10.7.0.1")
    s.run("ip -n a -6 route add default via 2001:db8:7::1")
    s.run(f"ip -n b -6 address add {B6}/64 dev eth0 nodad && ip -n b -6 route add default via 2001:db8:2::1")
    s.run(f"{cp} link add red type vrf table 10 && {cp} link set red up && {cp} address add 10.7.0.1/24 dev e1")
    own6 = f"{cp} -6 address add 2001:db8:7::1/64 dev e1 nodad"
    s.run(own6)

    def reach():
        return s.pings("a", B4) and s.pings("a", B6)

    def are_in(table, linux=None, nets=(A4, A6, B4, B6)):
        """Both interfaces are in that table alone, with all their prefixes."""
        return ([of_linux(s, e) for e in ("e1", "e2")] == [linux, linux]
                and all(leads(s, a, t) == (t == table) for a in nets for t in (0, 10)))
    wait_for("hosts reach each other in table 0", lambda: are_in(0) and reach(), timeout=60, every=0.2)
    before = s.ctl("dump")
    # One alone is cut off; Linux has taken its own IPv6 address away.
    s.run(f"{cp} link set e1 master red")
    wait_for("q1 is in table 10", lambda: of_linux(s, "e1") == 10 and leads(s, A4, 10) and not leads(s, A6, 10), timeout=30, every=0.2)
    assert not leads(s, A4, 0) and not s.pings("a", B4)
    s.run(own6)
    s.run(f"{cp} link set e2 master red")
    wait_for("hosts reach each other in table 10", lambda: are_in(10, 10) and reach(), timeout=60, every=0.2)
    assert s.ctl("dump") == before, "what is Linux's stands in the dump"
    # Linux's routes of the VRF, and a host that Linux reaches in it.
    s.run(f"{cp} route add 198.51.100.0/24 via {A4} vrf red proto 42")
    wait_for("a route is followed", lambda: s.ctl("fib diff kernel") == "" and leads(s, "198.51.100.1", 10), timeout=30, every=0.2)
    assert s.run(f"ip netns exec cp ping -c 3 -W 2 -I red {A4}")
    s.run("kill -9 $(pidof quiver)")
    s.start()
    wait_for("all is as it was", lambda: are_in(10, 10) and reach() and leads(s, "198.51.100.1", 10), timeout=90, every=0.2)
    # Out of it, and away with nl-sync.
    s.run(f"{cp} link set e1 nomaster")
    s.run(own6)
    s.run(f"{cp} link del red")
    wait_for("hosts reach each other in table 0", lambda: are_in(0) and reach(), timeout=60, every=0.2)
    s.run(f"{cp} link add red type vrf table 10 && {cp} link set red up && {cp} link set e1 master red && {cp} link set e2 master red")
    wait_for("both are in table 10", lambda: are_in(10, 10, (A4, B4, B6)), timeout=30, every=0.2)
    s.ctl("lcp nl-sync off")
    wait_for("q2 is in table 0", lambda: leads(s, B4, 0) and not leads(s, B4, 10), timeout=30, every=0.2)
    s.ctl("lcp nl-sync on")
    wait_for("both are in table 10", lambda: are_in(10, 10, (A4, B4, B6)), timeout=30, every=0.2)
    s.run(f"{cp} link set e1 nomaster && {cp} link set e2 nomaster")
    wait_for("both are in table 0", lambda: are_in(0, nets=(A4, B4, B6)), timeout=30, every=0.2)

    # With lcp-sync Linux has the operator's addresses. Linux takes IPv6 addresses of what comes into a VRF, and gets them back; others it keeps, and
    # the interface keeps all.
    s.ctl("lcp lcp-sync on")
    has = lambda: "2001:db8:2::1" in s.run(f"{cp} address show dev e2") and "10.2.0.1" in s.run(f"{cp} address show dev e2")
    wait_for("Linux has q2's addresses", has, timeout=30, every=0.2)
    for master, table, linux in (("master red", 10, 10), ("nomaster", 0, None)):
        # A file of its own: `ip` outlives a SIGTERM here, and would write what it is told into that of the next.
        heard = f"/tmp/monitor{table}"
        s.run(f"{cp} monitor address > {heard} 2>&1 & echo $! > /tmp/monitor.pid")
        wait_for("it listens", lambda heard=heard: "127.9.9.9" in s.run(f"{cp} address add 127.9.9.9/32 dev lo; {cp} address del 127.9.9.9/32 dev lo; cat {heard}"),
                 timeout=30, every=0.2)
        changed = s.run("grep -c 'address .* removed' /tmp/quiver.log", check=False)
        s.run(f"{cp} link set e2 {master}")
        wait_for(f"q2 is in table {table}", lambda: of_linux(s, "e2") == linux and leads(s, B6, table) and leads(s, B4, table) and has(), timeout=30, every=0.2)
        wait_for("Linux answers", lambda: s.pings("b", "2001:db8:2::1"), timeout=30, every=0.2)
        s.run("kill -9 $(cat /tmp/monitor.pid)")
        told = re.findall(r"^(Deleted |)\d+: e2\s+inet6? (\S+)", s.run(f"cat {heard}"), re.M)
        assert {net for _, net in told if not net.startswith("fe80")} == {"2001:db8:2::1/64"}, told
        assert [told.count((what, "2001:db8:2::1/64")) for what in ("Deleted ", "")] == [1, 1], told
        assert s.run("grep -c 'address .* removed' /tmp/quiver.log", check=False) == changed
    # The other way: a pair is put into the VRF of its interface's table, out of it, and into one that is made later.
    in_red = lambda: "master red" in s.run(f"{cp} link show e1")
    s.run(f"{cp} address flush dev e1 scope global")
    linuxs = lambda: json.loads(s.ctl("--json show lcp phy q1"))["pairs"][0]["from-linux"]["addresses"]
    wait_for("q1 has no addresses but of its link", lambda: all(net.startswith("fe80") for net in linuxs()), timeout=30, every=0.2)

    def put(table):
        for family in FAMILIES:
            s.ctl(f"set interface {family} table q1 {table}")
    put(10)
    wait_for("e1 is in red", in_red, timeout=30, every=0.2)
    for net in ("10.7.0.1/24", "2001:db8:7::1/64"):
        s.ctl(f"set interface ip address q1 {net}")
    wait_for("Linux has the addresses in the VRF", lambda: s.run(f"{cp} route show vrf red").count("10.7.0.0/24") == 1 and s.pings("a", "10.7.0.1"), timeout=30, every=0.2)
    assert of_linux(s, "e1") is None, "it is the operator's"
    s.run(f"{cp} link del red")
    wait_for("e1 is in no VRF, q1 in table 10", lambda: not in_red() and leads(s, A4, 10) and leads(s, A6, 10), timeout=30, every=0.2)
    s.run(f"{cp} link add red type vrf table 10 && {cp} link set red up")
    wait_for("e1 is in red again", lambda: in_red() and leads(s, A6, 10), timeout=30, every=0.2)
    for net in ("10.7.0.1/24", "2001:db8:7::1/64"):
        s.ctl(f"set interface ip address del q1 {net}")
    put(0)
    wait_for("e1 is in no VRF", lambda: not in_red(), timeout=30, every=0.2)
    # A table that is not there.
    s.run(f"{cp} link add blue type vrf table 20 && {cp} link set e2 master blue")
    wait_for("it is told", lambda: "not table 20" in s.ctl("show lcp phy q2"), timeout=30, every=0.2)
    assert leads(s, B4, 0)
    for family in FAMILIES:
        s.ctl(f"{family} table add 20")
    wait_for("q2 is in table 20", lambda: of_linux(s, "e2") == 20 and leads(s, B4, 20) and leads(s, B6, 20), timeout=30, every=0.2)


def test_bridges_in_vrfs(inside):
    """The BVI of a bridge of Linux's is in the table of the VRF in which that is, as is a BVI of the router's whose pair is put into one."""
    s, cp = inside, "ip -n cp"
    s.ctl("lcp nl-sync on")
    for family in FAMILIES:
        s.ctl(f"{family} table add 30")
    s.run(f"{cp} link set e2 nomaster; {cp} link del v100; {cp} address flush dev e1 scope global; {cp} link set e1 nomaster up", check=False)
    s.run(f"{cp} link add green type vrf table 30 && {cp} link set green up && {cp} link add br7 type bridge && {cp} link set e1 master br7")
    # Linux takes it away when the bridge comes into a VRF or out of it.
    own6 = f"{cp} -6 address add 2001:db8:8::1/64 dev br7 nodad"
    s.run(f"{cp} link set br7 up && {cp} address add 10.8.0.1/24 dev br7 && {own6}")
    s.run("ip -n a address add 10.8.0.2/24 dev eth0 && ip -n a route replace 10.2.0.0/24 via 10.8.0.1")

    def is_in(table):
        why = {t: [s.ctl(f"fib why {a} table {t}") for a in ("10.8.0.2", "2001:db8:8::2")] for t in (0, 30)}
        return all(("on loop4095" in text) == (t == table) for t, texts in why.items() for text in texts)

    def shown():
        [bridge] = [b for b in json.loads(s.ctl("--json show lcp bridges"))["bridges"] if b["name"] == "br7"]
        return bridge["bvi"], bridge["table"]
    wait_for("it is in table 0", lambda: is_in(0) and shown() == ("loop4095", None) and s.pings("a", "10.8.0.1"), timeout=60, every=0.2)
    s.run(f"{cp} link set br7 master green && {own6}")
    wait_for("it is in table 30", lambda: is_in(30) and shown() == ("loop4095", 30) and s.pings("a", "10.8.0.1"), timeout=60, every=0.2)
    assert not s.pings("a", B4), "host b is no customer's"
    s.run(f"{cp} link set e2 master green")
    wait_for("host b is in it", lambda: of_linux(s, "e2") == 30 and s.pings("a", B4), timeout=60, every=0.2)
    # A daemon's route over the bridge, in the VRF's table.
    s.run("ip -n a address add 198.51.100.7/32 dev lo")
    s.run(f"{cp} route add 198.51.100.7/32 via 10.8.0.2 vrf green proto 42")
    wait_for("it is forwarded by", lambda: s.pings("b", "198.51.100.7") and s.ctl("fib diff kernel") == "", timeout=60, every=0.2)
    # In the VRF of a table that the router has not there is none.
    s.run(f"{cp} link add grey type vrf table 40 && {cp} link set grey up && {cp} link set br7 master grey")
    wait_for("it is told", lambda: "it is in the VRF of table 40" in s.ctl("show lcp bridges") and shown() == (None, 40), timeout=60, every=0.2)
    assert is_in(None)
    s.run(f"{cp} link set br7 nomaster && {own6}")
    wait_for("it is in table 0", lambda: is_in(0) and shown() == ("loop4095", None), timeout=60, every=0.2)
    s.run(f"{cp} link del br7")
    # One of the router's own.
    for line in ("create bridge-domain 5", "create loopback interface instance 5", "set interface l2 bridge loop5 5 bvi", "set interface state loop5 up",
                 "lcp create loop5 host-if bvi5 netns cp"):
        s.ctl(line)
    wait_for("it has its pair", lambda: "bvi5" in s.run(f"{cp} link show"), timeout=60, every=0.2)
    s.run(f"{cp} address add 10.9.0.1/24 dev bvi5 && {cp} link set bvi5 master green")
    wait_for("it is in table 30", lambda: of_linux(s, "bvi5") == 30 and "on loop5" in s.ctl("fib why 10.9.0.2 table 30") and "on loop5" not in s.ctl("fib why 10.9.0.2"),
             timeout=60, every=0.2)
    s.run(f"{cp} link set bvi5 nomaster")
    wait_for("it is in table 0", lambda: of_linux(s, "bvi5") is None and "on loop5" in s.ctl("fib why 10.9.0.2"), timeout=60, every=0.2)
