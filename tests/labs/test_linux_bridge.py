"""Bridges and VXLAN devices made in Linux beside pairs: bridge domains, tunnels and addresses of the router, without a daemon.

    host A -- lan [router: e0, e1, br10, vxlan10 in Linux] wan -- host B: Linux with vx10 in a bridge's place
    10.10.0.1                                   192.168.11.1  .2      10.10.0.2 on vx10
"""

import json

import pytest
from harness import wait_for
from tools import hears

FLOOD = "00:00:00:00:00:00"


class Site:
    """The topology. Linux has all: addresses, bridge, VXLAN device."""

    def __init__(self, lab, **lcp):
        self.ports, self.linux = lab.namespace("r"), lab.namespace("cp")
        self.b = lab.cable(self.ports, "wan", lab.host("b", ["192.168.11.2/24"]), mtu=1600)
        self.a = lab.cable(self.ports, "lan", lab.host("a", ["10.10.0.1/24"]))
        self.router = lab.router(self.ports, {
            "interfaces": {"lan": {"lcp": "e1"}, "wan": {"lcp": "e0", "mtu": 1600}},
            "linux-cp": {"default-netns": self.linux.name, **lcp}, "quiver": {"dad": "off"}})
        for line in ("link set lo up", "link set e0 up", "link set e1 up", "address add 192.168.11.1/24 dev e0"):
            self.linux.ip(line)
        self.b.ip("link add vx10 type vxlan id 10 local 192.168.11.2 dstport 4789 nolearning")
        self.b.ip("address add 10.10.0.2/24 dev vx10")
        self.b.ip("link set vx10 mtu 1500 up")
        self.mac = json.loads(self.b.ip("-j link show dev vx10").stdout)[0]["address"]
        self.mac_a = json.loads(self.a.ip("-j link show dev eth0").stdout)[0]["address"]
        self.fdb(self.b, "append", FLOOD, "vx10 dst 192.168.11.1")

    def fdb(self, where, what, mac, rest):
        where.run(f"bridge fdb {what} {mac} dev {rest}")

    def bridge(self):
        """`br10` with its VXLAN device and the pair of `lan`."""
        for line in ("link add br10 type bridge", "link add vxlan10 type vxlan id 10 local 192.168.11.1 dstport 4789 nolearning",
                     "link set vxlan10 master br10", "link set e1 master br10", "link set vxlan10 up", "link set br10 up"):
            self.linux.ip(line)

    def shown(self):
        return self.router.json("show lcp bridges")

    def ends(self):
        bridges = self.shown()["bridges"]
        return {e["end"]: e for b in bridges for d in b["vxlan"] for e in d["ends"]}

    def macs(self):
        """Where the bridge domain has which address."""
        return {e["mac"]: e["interface"] for e in self.router.json("show l2fib verbose")["entries"]}


def test_linux_makes_it(lab):
    s = Site(lab)
    s.bridge()
    wait_for("the bridge is there", lambda: [b["ports"] for b in s.shown()["bridges"]] == [["lan"]])
    # Nobody has said where frames to all go.
    assert s.ends() == {} and not hears(s.a, "10.10.0.2")
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst 192.168.11.2")
    wait_for("there is another end", lambda: s.ends().get("192.168.11.2", {}).get("flood"))
    s.fdb(s.linux, "replace", s.mac, "vxlan10 dst 192.168.11.2 self extern_learn")
    tunnel = s.ends()["192.168.11.2"]["tunnel"]
    wait_for("the address is there", lambda: s.macs().get(s.mac) == tunnel)
    wait_for("B answers", lambda: hears(s.a, "10.10.0.2"))
    assert s.macs()[s.mac_a] == "lan"
    # None of it is the operator's.
    saved = s.router.ctl("show configuration")
    assert "bridgedomains" not in saved and "vxlan" not in saved and "br10" not in saved, saved
    [bridge] = s.shown()["bridges"]
    for line in (f"set interface state {tunnel} down", "set interface l3 lan", f"set bridge-domain learn {bridge['bridge-domain']} disable",
                 f"create bridge-domain {bridge['bridge-domain']} del"):
        refused = s.router.ctl_raw(line).stderr
        assert "Linux" in refused or "belongs to another" in refused, (line, refused)
    # Frames of A's reach B once, and Linux's bridge has had none of them.

    def in_linux():
        return json.loads(s.linux.ip("-s -j link show dev vxlan10").stdout)[0]["stats64"]["rx"]["packets"]
    before = in_linux()
    out = s.a.run("ping -c 5 -i 0.2 10.10.0.2").stdout
    assert " 5 received" in out and "duplicates" not in out, out
    assert in_linux() == before
    # Another end that has addresses only gets no frames to all.
    s.fdb(s.linux, "replace", "02:00:00:00:00:77", "vxlan10 dst 192.168.11.7 self extern_learn")
    wait_for("it has a tunnel", lambda: s.ends().get("192.168.11.7", {}).get("tunnel") and not s.ends()["192.168.11.7"]["flood"])
    s.fdb(s.linux, "del", "02:00:00:00:00:77", "vxlan10 dst 192.168.11.7")
    wait_for("and goes with it", lambda: "192.168.11.7" not in s.ends() and "02:00:00:00:00:77" not in s.macs())
    # An address moves to another end and back; one that is said to be elsewhere is believed where it is heard.
    s.fdb(s.linux, "replace", s.mac, "vxlan10 dst 192.168.11.8 self extern_learn")
    wait_for("it has moved", lambda: s.macs().get(s.mac) == s.ends().get("192.168.11.8", {}).get("tunnel", ""))
    s.fdb(s.linux, "replace", s.mac, "vxlan10 dst 192.168.11.2 self extern_learn")
    wait_for("it is back", lambda: s.macs().get(s.mac) == tunnel and "192.168.11.8" not in s.ends())
    s.fdb(s.linux, "replace", s.mac_a, "vxlan10 dst 192.168.11.2 self extern_learn")
    wait_for("A is said to be behind the tunnel", lambda: s.macs().get(s.mac_a) == tunnel)
    s.a.run("ping -c 1 -W 1 10.10.0.2", check=False)
    wait_for("A is heard", lambda: s.macs().get(s.mac_a) == "lan")
    # What A's port has heard is told to Linux, once it is there, and again when somebody takes it out.
    def told(device="e1"):
        return {e["mac"] for e in json.loads(s.linux.run(f"bridge -j fdb show dev {device}").stdout) if "extern_learn" in e["flags"]}
    wait_for("Linux knows of A", lambda: s.mac_a in told())
    s.fdb(s.linux, "del", s.mac_a, "e1 master")
    wait_for("and again", lambda: s.mac_a in told())
    s.router.ctl("l2fib flush-mac all")
    wait_for("it is forgotten", lambda: s.mac_a not in told())
    wait_for("B answers still", lambda: hears(s.a, "10.10.0.2"))
    wait_for("Linux knows of A again", lambda: s.mac_a in told())
    # Messages are lost, and all is read anew.
    s.router.ctl("lcp nl-rx-buffer-size 4096")

    def burst():
        """Adds many addresses and takes some out; whether messages of that were lost."""
        add, gone = ("".join(f"fdb {what} 02:00:00:01:00:{n:02x} dev vxlan10 dst 192.168.11.2\n" for n in range(0, 256, step))
                     for what, step in (("replace", 1), ("del", 3)))
        s.linux.run(["bridge", "-batch", "-"], input=add * 4 + gone)
        return any(n["overflows"] for n in s.router.json("show netlink"))
    wait_for("messages are lost", burst, timeout=30)

    def kernel():
        return {e["mac"] for e in json.loads(s.linux.run("bridge -j fdb show dev vxlan10").stdout) if e.get("dst") and e["mac"] != FLOOD}
    assert len(kernel() - {s.mac, s.mac_a}) == 170
    wait_for("both agree", lambda: {m for m, i in s.macs().items() if i == tunnel} == kernel() - {s.mac_a}, timeout=20)
    # The port leaves, the bridge goes, and nothing of it stays; then it comes again.
    s.linux.ip("link set e1 nomaster")
    wait_for("the port is gone", lambda: [b["ports"] for b in s.shown()["bridges"]] in ([], [[]]))
    s.linux.ip("link del br10")
    s.linux.ip("link del vxlan10")
    wait_for("all is gone", lambda: s.shown()["bridges"] == [] and s.router.json("show bridge-domain") == [])
    assert "vxlan_tunnel" not in s.router.ctl("show interface")
    s.bridge()
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst 192.168.11.2")
    wait_for("B answers again", lambda: hears(s.a, "10.10.0.2"))
    # The switch.
    s.router.ctl("lcp nl-sync off")
    wait_for("nothing of Linux's is left", lambda: s.shown()["bridges"] == [] and s.router.json("show bridge-domain") == [])
    s.router.ctl("lcp nl-sync on")
    wait_for("B answers once more", lambda: hears(s.a, "10.10.0.2"))
    assert s.shown()["refused"] == []


def test_routed(lab):
    """Bridges with addresses: the router is their gateway, between two networks, of which one has no port here."""
    s = Site(lab)
    s.bridge()
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst 192.168.11.2")
    for line in ("link add br20 type bridge", "link add vxlan20 type vxlan id 20 local 192.168.11.1 dstport 4789 nolearning",
                 "link set vxlan20 master br20", "link set vxlan20 up", "link set br20 up",
                 "address add 10.10.0.254/24 dev br10", "address add 10.20.0.254/24 dev br20"):
        s.linux.ip(line)
    s.fdb(s.linux, "append", FLOOD, "vxlan20 dst 192.168.11.2")
    s.b.ip("link add vx20 type vxlan id 20 local 192.168.11.2 dstport 4789 nolearning")
    # Linux would route between both itself: only one of them is in this namespace.
    far = lab.namespace("far")
    s.b.ip(f"link set vx20 netns {far.name}")
    for line in ("address add 10.20.0.2/24 dev vx20", "link set vx20 mtu 1500 up", "route add default via 10.20.0.254"):
        far.ip(line)
    far.run(f"bridge fdb append {FLOOD} dev vx20 dst 192.168.11.1")
    s.a.ip("route add default via 10.10.0.254")
    wait_for("both have a BVI", lambda: [b["bvi"] is not None for b in s.shown()["bridges"]] == [True, True])
    wait_for("the gateway answers", lambda: hears(s.a, "10.10.0.254"))
    wait_for("the other network answers", lambda: hears(s.a, "10.20.0.2"))
    # A daemon says where a neighbor is, and takes it back.
    [bvi] = [b["bvi"] for b in s.shown()["bridges"] if b["name"] == "br20"]
    s.linux.ip("neighbor replace 10.20.0.9 lladdr 02:00:00:00:00:99 dev br20 nud noarp extern_learn")

    def neighbor():
        found = [n for n in s.router.json("show ip neighbors") if n["ip"] == "10.20.0.9"]
        return found and (found[0]["interface"], found[0]["ethernet"])
    wait_for("it is a neighbor", lambda: neighbor() == (bvi, "02:00:00:00:00:99"))
    s.linux.ip("neighbor del 10.20.0.9 dev br20")
    wait_for("it is none", lambda: not neighbor())
    assert "10.20.0.254" not in s.router.ctl("show configuration")
    s.linux.ip("address del 10.20.0.254/24 dev br20")
    wait_for("the way is gone", lambda: not hears(s.a, "10.20.0.2"))
    s.linux.ip("link del br10")
    wait_for("and the gateway", lambda: not hears(s.a, "10.10.0.254"))
    assert s.shown()["refused"] == []


def test_restart(lab):
    """The router dies and comes again: Linux has kept bridge, VXLAN device and addresses, and what was learnt is not taken out."""
    s = Site(lab)
    s.bridge()
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst 192.168.11.2")
    s.fdb(s.linux, "replace", s.mac, "vxlan10 dst 192.168.11.2 self extern_learn")
    wait_for("B answers", lambda: hears(s.a, "10.10.0.2"))

    def told():
        return {e["mac"] for e in json.loads(s.linux.run("bridge -j fdb show dev e1").stdout) if "extern_learn" in e["flags"]}
    wait_for("Linux knows of A", lambda: s.mac_a in told())
    watch = s.linux.start("bridge monitor fdb")
    s.router.kill()
    s.router.start()
    wait_for("B answers again", lambda: hears(s.a, "10.10.0.2"), timeout=20)
    wait_for("the address is there", lambda: s.macs().get(s.mac) == s.ends()["192.168.11.2"]["tunnel"])
    # One that is new is told: by then one that is gone would have been.
    s.a.ip("link add link eth0 name other type macvlan")
    s.a.ip("link set other up")
    other = json.loads(s.a.ip("-j link show dev other").stdout)[0]["address"]
    s.a.run("ping -c 1 -W 1 -I other 224.0.0.1", check=False)
    wait_for("another is told", lambda: other in told())
    assert s.mac_a in told()
    watch.terminate()
    out, _ = watch.communicate(timeout=10)
    assert not [line for line in out.splitlines() if line.startswith("Deleted") and s.mac_a in line], out


def test_ip6_ends(lab):
    """Ends with IPv6 addresses, as Linux sends without a checksum."""
    s = Site(lab)
    s.linux.run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=0 net.ipv6.conf.e0.accept_dad=0")
    s.linux.ip("-6 address add 2001:db8:11::1/64 dev e0 nodad")
    s.b.ip("-6 address add 2001:db8:11::2/64 dev eth0 nodad")
    s.b.ip("link del vx10")
    s.b.ip("link add vx10 type vxlan id 10 local 2001:db8:11::2 dstport 4789 nolearning udp6zerocsumtx udp6zerocsumrx")
    s.b.ip("address add 10.10.0.2/24 dev vx10")
    s.b.ip("link set vx10 mtu 1450 up")
    s.fdb(s.b, "append", FLOOD, "vx10 dst 2001:db8:11::1")
    for line in ("link add br10 type bridge", "link add vxlan10 type vxlan id 10 local 2001:db8:11::1 dstport 4789 nolearning udp6zerocsumtx udp6zerocsumrx",
                 "link set vxlan10 master br10", "link set e1 master br10", "link set vxlan10 up", "link set br10 up"):
        s.linux.ip(line)
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst 2001:db8:11::2")
    wait_for("B answers", lambda: hears(s.a, "10.10.0.2"), timeout=20)
    # A group is no end, and one of the other family cannot be.
    s.fdb(s.linux, "append", FLOOD, "vxlan10 dst ff05::77 via e0")
    wait_for("there is one end", lambda: set(s.ends()) == {"2001:db8:11::2"})
    assert s.shown()["refused"] == []
