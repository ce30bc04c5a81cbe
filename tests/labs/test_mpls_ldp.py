"""LDP of FRR on Quiver's pairs, with Linux as the other label switching routers, and the VPNs of two customers over it; and EVPN between VRFs, which
shares the guest: its kernel has MPLS and VRF devices.

    host a - [l1] - (Quiver) - [l2] - [l3] - host b        l1, l2, l3: Linux, each with zebra, ospfd and ldpd; so has `cp`, where Quiver's pairs are
              red1 -+  |                +- red2            bgpd is in `cp` and on l3: the provider's edges. The customers have the same addresses
              blue1 ---+                +- blue2

    host e1 - [p1] (another Quiver; pairs in ec) [u1] - [eth0] ev (Linux) - host e2        VNI 10 is e1's network, VNI 20 e2's, VNI 100 between the VRFs
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

DAEMONS = [f"{FRR}/{daemon}" for daemon in ("zebra", "ospfd", "ldpd", "bgpd")]


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
# Customers: their routing tables, at both ends. That of the second's port says its VRF in Linux alone. The second is by name the only one that has the addresses that end in 99.
CUSTOMERS = {"red": 10, "blue": 20}
SITES = {1: ("10.31.0.{}/24", "2001:db8:31::{}/64"), 2: ("10.32.0.{}/24", "2001:db8:32::{}/64")}
QUIVER = """
interfaces:
  q3: {lcp: e3, addresses: [10.31.0.1/24, '2001:db8:31::1/64']}
  q4: {lcp: e4, addresses: [10.31.0.1/24, '2001:db8:31::1/64']}
  q1: {lcp: e1, addresses: [10.11.0.2/24], mpls: true}
  q2: {lcp: e2, addresses: [10.12.0.1/24, '2001:db8:12::1/64'], mpls: true}
loopbacks: {loop0: {lcp: lo0, addresses: [10.9.9.9/32, '2001:db8:9::9/128']}}
tables: {10: {name: red}, 20: {name: blue}}
l3: {interfaces: {q3: {table: 10}}}
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
# Between the edges for IPv6: no daemon here has labels for that, and Linux takes no IPv6 route over an IPv4 neighbor.
CORE6 = """
ip -n l2 address add 2001:db8:12::2/64 dev west nodad && ip -n l2 address add 2001:db8:13::1/64 dev east nodad
ip -n l3 address add 2001:db8:13::2/64 dev west nodad && ip -n l3 address add 2001:db8:9::3/128 dev lo
ip -n l2 -f mpls route add 90003 via inet6 2001:db8:13::2 dev east
ip -n l2 -f mpls route add 90009 via inet6 2001:db8:12::1 dev west
ip -n cp -6 route add 2001:db8:9::3/128 encap mpls 90003 via inet6 2001:db8:12::2 dev e2
ip -n l3 -6 route add 2001:db8:9::9/128 encap mpls 90009 via inet6 2001:db8:13::1 dev west
"""
BGP = """
router bgp 65000
 bgp router-id 10.9.9.{n}
 no bgp default ipv4-unicast
 neighbor 10.9.9.{other} remote-as 65000
 neighbor 10.9.9.{other} update-source 10.9.9.{n}
 neighbor 10.9.9.{other} timers 3 9
 neighbor 10.9.9.{other} timers connect 1
 neighbor 2001:db8:9::{other} remote-as 65000
 neighbor 2001:db8:9::{other} update-source 2001:db8:9::{n}
 neighbor 2001:db8:9::{other} timers 3 9
 neighbor 2001:db8:9::{other} timers connect 1
 address-family ipv4 vpn
  neighbor 10.9.9.{other} activate
 exit-address-family
 address-family ipv6 vpn
  neighbor 2001:db8:9::{other} activate
 exit-address-family
exit
"""
VPN = """
router bgp 65000 vrf {customer}
 bgp router-id 10.9.9.{n}
{families}
exit
"""
FAMILY = """ address-family {family} unicast
  redistribute connected
  label vpn export auto
  rd vpn export 65000:{table}{n}
  rt vpn both 65000:{table}
  export vpn
  import vpn
 exit-address-family"""


class Inside:
    """The guest, and all that runs in it."""

    def __init__(self, lab, tmp):
        binary = os.path.join(tmp, "quiver")
        strip(["strip", "-o", binary, BINARY])
        self.quiver = binary
        self.guest = Guest([], ["mpls_router", "mpls_iptunnel", "mpls_gso", "veth", "tun", "vrf", "bridge", "vxlan"], memory_mib=1024,
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
        for n, (customer, table) in enumerate(CUSTOMERS.items(), 3):
            self.customer(customer, table, f"q{n}")
        run("ip -n a route add default via 10.1.0.1 && ip -n b route add default via 10.2.0.1")
        for ns in ROUTERS:
            run(f"ip netns exec {ns} sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.mpls.platform_labels=100000")
        for ns in ("l1", "l2", "l3"):
            n, faces = ROUTERS[ns]
            run(f"ip -n {ns} address add 10.9.9.{n}/32 dev lo")
            for face in faces:
                run(f"ip netns exec {ns} sysctl -w net.mpls.conf.{face}.input=1")
        self.write("/tmp/quiver.yaml", QUIVER)
        self.start()
        for n, (customer, table) in enumerate(CUSTOMERS.items(), 3):
            self.vrf("cp", customer, table, f"e{n}")
        for ns in ROUTERS:
            self.daemons(ns)

    def vrf(self, ns, customer, table, port):
        self.guest.run(f"ip -n {ns} link add {customer} type vrf table {table} && ip -n {ns} link set {customer} up && ip -n {ns} link set {port} master {customer}")

    def customer(self, name, table, port):
        """The two sites of a customer: one behind Quiver's port, the other behind a VRF device of l3."""
        run = self.guest.run
        for site, (ns, device) in ((1, (None, port)), (2, ("l3", f"{name}-ce"))):
            host = f"{name}{site}"
            run(f"ip netns add {host} && ip -n {host} link set lo up && ip link add eth0 netns {host} type veth peer name {device}{f' netns {ns}' if ns else ''}")
            run(f"ip -n {host} link set eth0 up && ip {f'-n {ns} ' if ns else ''}link set {device} up")
            if ns:
                self.vrf(ns, name, table, device)
            for address in SITES[site]:
                for last in (2, 99) if (name, site) == ("blue", 2) else (2,):
                    run(f"ip -n {host} address add {address.format(last)} dev eth0 {'nodad' if ':' in address else ''}")
                if ns:
                    run(f"ip -n {ns} address add {address.format(1)} dev {device} {'nodad' if ':' in address else ''}")
                run(f"ip -n {host} route add default via {address.format(1).split('/')[0]}")

    def start(self):
        self.guest.run(f"{self.quiver} run -c /tmp/quiver.yaml >> /tmp/quiver.log 2>&1 &")
        wait_for("Quiver answers", lambda: "q2" in self.ctl("show interface"), timeout=60, every=0.2)

    def write(self, path, text):
        # A line of shell is all that the guest takes.
        self.guest.run(f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} > {path}")

    def ctl(self, line):
        return self.guest.run(f"{self.quiver} ctl {line}", check=False, timeout=60)

    def daemon(self, ns, daemon, lines):
        self.write(f"/run/{ns}/{daemon}.conf", lines)
        self.guest.run(f"ip netns exec {ns} {FRR}/{daemon} -d -u root -g root -f /run/{ns}/{daemon}.conf -i /run/{ns}/{daemon}.pid -z /run/{ns}/zserv"
                       f" --vty_socket /run/{ns} -P 0 --log file:/run/{ns}/{daemon}.log" + (f" --ctl_socket /run/{ns}" if daemon == "ldpd" else ""),
                       timeout=60)

    def ldp(self, ns):
        n, faces = ROUTERS[ns]
        self.daemon(ns, "ldpd", LDP.format(n=n, faces="\n".join(f"  interface {f}" for f in faces)))

    def bgp(self, ns, other):
        n = ROUTERS[ns][0]
        lines = BGP.format(n=n, other=ROUTERS[other][0])
        for customer, table in CUSTOMERS.items():
            families = "\n".join(FAMILY.format(family=family, table=table, n=n) for family in ("ipv4", "ipv6"))
            lines += VPN.format(customer=customer, n=n, families=families)
        self.daemon(ns, "bgpd", lines)

    def daemons(self, ns):
        n, faces = ROUTERS[ns]
        each = "".join(f"interface {f}\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 8\n" for f in faces)
        self.guest.run(f"mkdir -p /run/{ns}")
        self.daemon(ns, "zebra", "")
        self.daemon(ns, "ospfd", each + OSPF.format(n=n))
        self.ldp(ns)

    def kernel(self):
        """The entries that Linux's routes of labels in `cp` come to: a VRF device takes packets without further labels alone."""
        text = self.guest.run("ip -n cp -f mpls route")
        routes = re.findall(r"^(\d+) (dev (?:red|blue))?", text, re.M)
        return {(int(label), eos) for label, vrf in routes for eos in ((True,) if vrf else (False, True))}

    def entries(self):
        """The entries of the label table that LDP's routes have made: label, and whether at the bottom."""
        shown = json.loads(self.ctl("--json show mpls fib all"))["labels"]
        return {(e["label"], e["eos"]) for e in shown if e["source"].startswith("kernel:")}

    def labelled(self):
        """Packets that were looked up by a label."""
        nodes = [n for worker in json.loads(self.ctl("--json show runtime")) for n in worker["nodes"]]
        return sum(n["vectors"] for n in nodes if n["name"] == "mpls-lookup")

    def pings(self, count, host="a", address="10.2.0.2"):
        """How many pings of a host are answered."""
        text = self.guest.run(f"ip netns exec {host} ping -c {count} -i 0.1 -W 1 {address}", check=False, timeout=60)
        return int(re.search(r"(\d+) packets received", text)[1])

    def agrees(self):
        """Every label of Linux's is an entry, and nothing differs."""
        labels = self.kernel()
        return labels and self.entries() == labels and self.ctl("fib diff kernel") == ""


@pytest.fixture(scope="module")
def inside(module_lab, tmp_path_factory):
    """The guest, which boots once for all tests."""
    return Inside(module_lab, tmp_path_factory.mktemp("guest"))


def test_ldp(inside):
    """Labels are swapped on the way to host b and taken off on the way back; they go with the daemon, and outlive the router."""
    s = inside
    wait_for("the hosts reach each other", lambda: s.pings(1), timeout=120, every=0.5)
    wait_for("LDP has told of both ends' networks, and all is as in Linux", lambda: len(s.kernel()) >= 8 and s.agrees(), timeout=120, every=0.5)

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


def echoes(s, host):
    """Echo requests that a host has got, of both families."""
    text = s.guest.run(f"ip netns exec {host} cat /proc/net/snmp /proc/net/snmp6")
    names, values = re.findall(r"^Icmp: (.*)$", text, re.M)
    four = dict(zip(names.split(), values.split()))["InEchos"]
    return int(four), int(re.search(r"^Icmp6InEchos\s+(\d+)", text, re.M)[1])


def test_l3vpn(inside):
    """RFC 4364: two customers with the same addresses, of both families, between Quiver and a Linux edge over the labels of LDP."""
    s = inside
    if "yes" not in s.guest.run("kill -0 $(cat /run/cp/ldpd.pid) && echo yes", check=False):
        s.ldp("cp")
    for line in CORE6.strip().splitlines():
        s.guest.run(line)
    s.bgp("cp", "l3")
    s.bgp("l3", "cp")
    far = ("10.32.0.2", "2001:db8:32::2")

    def reach(customer, last="2"):
        return all(s.pings(3, f"{customer}1", a[:-1] + last) == 3 for a in far)
    for customer in CUSTOMERS:
        wait_for(f"{customer}'s sites reach each other", lambda c=customer: reach(c), timeout=180, every=0.5)
    wait_for("all is as in Linux", s.agrees, timeout=60, every=0.5)
    # Linux's routes into VRF devices are entries into their tables, and the customers' routes have the labels of LDP and BGP.
    shown = [e for e in json.loads(s.ctl("--json show mpls fib all"))["labels"] if e["source"] == "kernel:bgp@cp"]
    assert {e["paths"] for e in shown} == {f"via ip-lookup-in-table {t}" for t in CUSTOMERS.values()} and all(e["eos"] for e in shown), shown
    for table in CUSTOMERS.values():
        for address in far:
            why = s.ctl(f"fib why {address} table {table}")
            assert re.search(r"out-labels \d+ \d+", why) and "kernel:bgp@cp" in why, why
    # Each customer's packets come to that customer's host.
    for customer, other in (("red", "blue"), ("blue", "red")):
        before, labelled = {c: echoes(s, f"{c}2") for c in CUSTOMERS}, s.labelled()
        assert reach(customer)
        assert echoes(s, f"{customer}2") == tuple(n + 3 for n in before[customer])
        assert echoes(s, f"{other}2") == before[other]
        # What comes back has a label.
        assert s.labelled() > labelled
    assert reach("blue", "99")
    assert not any(s.pings(2, "red1", a[:-1] + "99") for a in far)
    # A site loses its link: the other edge withdraws its network, and the router does not send there any more.
    in_table = lambda address: "kernel:bgp@cp" in s.ctl(f"fib why {address} table 10")
    s.guest.run("ip -n red2 link set eth0 down")
    wait_for("red's network is withdrawn", lambda: not any(map(in_table, far)) and s.agrees(), timeout=60, every=0.5)
    assert reach("blue") and not s.pings(1, "red1")
    s.guest.run("ip -n red2 link set eth0 up && ip -n red2 address replace 2001:db8:32::2/64 dev eth0 nodad && ip -n red2 route replace default via 10.32.0.1"
                " && ip -n red2 route replace default via 2001:db8:32::1")
    wait_for("red is whole again", lambda: reach("red") and s.agrees(), timeout=60, every=0.5)
    # The same at the router's own site: Linux there sees that the pair has no carrier.
    s.guest.run("ip -n red1 link set eth0 down")
    wait_for("the other edge knows", lambda: "10.31.0.0/24" not in s.guest.run("ip -n l3 route show vrf red"), timeout=60, every=0.5)
    assert "10.31.0.0/24" in s.guest.run("ip -n l3 route show vrf blue") and reach("blue")
    # A customer leaves: his label goes with the VRF device, the other's stays.
    s.guest.run("ip -n cp link del red")
    wait_for("red's label is gone", lambda: s.agrees() and {e["paths"] for e in json.loads(s.ctl("--json show mpls fib all"))["labels"]
                                                            if e["source"] == "kernel:bgp@cp"} == {"via ip-lookup-in-table 20"}, timeout=60, every=0.5)
    assert reach("blue")
    # The router dies, and is there again: the VRF device has stayed. After that FRR 8.4 at the other edge may want IPv4 next hops for IPv6,
    # which Linux refuses, so IPv4 alone is looked at.
    s.guest.run("kill -9 $(pidof quiver)")
    s.start()
    wait_for("all is as it was", lambda: s.agrees() and s.pings(3, "blue1", far[0]) == 3, timeout=90, every=0.5)


IRB_QUIVER = """
interfaces:
  u1: {lcp: eu, mtu: 1600, addresses: [192.168.0.1/24]}
  p1: {lcp: ep}
tables: {10: {}}
linux-cp: {default-netns: ec, lcp-sync: true}
quiver: {dad: off, sockets: {ctl: /run/irb.sock}}
"""
IRB_BGP = """
router bgp 65000
 bgp router-id 192.168.0.{n}
 no bgp default ipv4-unicast
 neighbor 192.168.0.{other} remote-as 65000
 neighbor 192.168.0.{other} timers 3 9
 neighbor 192.168.0.{other} timers connect 1
 address-family l2vpn evpn
  neighbor 192.168.0.{other} activate
  advertise-all-vni
 exit-address-family
exit
router bgp 65000 vrf tenant
 bgp router-id 192.168.0.{n}
 address-family ipv4 unicast
  redistribute connected
 exit-address-family
 address-family ipv6 unicast
  redistribute connected
 exit-address-family
 address-family l2vpn evpn
  advertise ipv4 unicast
  advertise ipv6 unicast
 exit-address-family
exit
"""
IRB_NETS = {1: ("10.61.0.{}/24", "2001:db8:61::{}/64"), 2: ("10.62.0.{}/24", "2001:db8:62::{}/64")}


def vtep(s, ns, n, port):
    """A VRF with a network of its own behind a port, and the VNI by which it reaches that of the other end."""
    run = s.guest.run
    run(f"ip -n {ns} link add tenant type vrf table 10 && ip -n {ns} link set tenant up")
    for vni in (10 * n, 100):
        run(f"ip -n {ns} link add br{vni} type bridge && ip -n {ns} link add vx{vni} type vxlan id {vni} local 192.168.0.{n} dstport 4789 nolearning"
            f" && ip -n {ns} link set vx{vni} master br{vni} && ip -n {ns} link set br{vni} master tenant && ip -n {ns} link set br{vni} up"
            f" && ip -n {ns} link set vx{vni} up")
    run(f"ip -n {ns} link set {port} master br{10 * n} up")
    for net in IRB_NETS[n]:
        run(f"ip -n {ns} address add {net.format(1)} dev br{10 * n} {'nodad' if ':' in net else ''}")
    run(f"mkdir -p /run/{ns}")
    s.daemon(ns, "zebra", "vrf tenant\n vni 100\nexit-vrf\n")
    s.daemon(ns, "bgpd", IRB_BGP.format(n=n, other=3 - n))


def test_evpn_between_vrfs(inside):
    """Symmetric IRB (RFC 9135, RFC 9136): two networks, each at one end alone, reach each other over the VNI of their VRF, which has no address."""
    s = inside
    run = s.guest.run
    for ns in ("e1", "e2", "ec", "ev"):
        run(f"ip netns add {ns} && ip -n {ns} link set lo up && ip netns exec {ns} sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    run("ip link add u1 mtu 1600 type veth peer name eth0 mtu 1600 netns ev && ip link add p1 type veth peer name eth0 netns e1")
    run("ip -n ev link add p2 type veth peer name eth0 netns e2 && ip -n ev address add 192.168.0.2/24 dev eth0")
    run("ip link set u1 up && ip link set p1 up && ip -n ev link set eth0 up")
    for n in IRB_NETS:
        run(f"ip -n e{n} link set eth0 up")
        for net in IRB_NETS[n]:
            run(f"ip -n e{n} address add {net.format(2)} dev eth0 {'nodad' if ':' in net else ''}"
                f" && ip -n e{n} route add default via {net.format(1).split('/')[0]}")
    s.write("/tmp/irb.yaml", IRB_QUIVER)

    def start():
        run(f"{s.quiver} run -c /tmp/irb.yaml >> /tmp/irb.log 2>&1 & echo $! > /tmp/irb.pid")
        wait_for("Quiver answers", lambda: "p1" in irb("show interface"), timeout=60, every=0.2)

    def irb(line):
        return run(f"{s.quiver} ctl -s /run/irb.sock {line}", check=False, timeout=60)
    start()
    wait_for("the pair has its address", lambda: "192.168.0.1" in run("ip -n ec address show dev eu"), timeout=30, every=0.2)
    vtep(s, "ec", 1, "ep")
    vtep(s, "ev", 2, "p2")

    def reach(count=3):
        return all(s.pings(count, f"e{n}", net.format(2).split("/")[0]) == count for n, other in ((1, 2), (2, 1)) for net in IRB_NETS[other])

    def leads():
        """Both networks of the other end, by its router."""
        texts = [irb(f"fib why {a} table 10") for a in ("10.62.0.2", "2001:db8:62::2")]
        return all("kernel:bgp@ec" in t and "192.168.0.2" in t for t in texts)
    wait_for("hosts reach each other", lambda: reach(1), timeout=120, every=0.5)
    assert leads() and reach()
    assert irb("fib diff kernel") == ""
    shown = json.loads(irb("--json show lcp bridges"))
    assert shown["refused"] == [], shown
    [between] = [b for b in shown["bridges"] if b["name"] == "br100"]
    assert between["table"] == 10 and between["bvi"] and [x["end"] for d in between["vxlan"] for x in d["ends"]] == ["192.168.0.2"], between
    # The hosts are two routers apart, and the network of neither is that of the other: each decrements the TTL once.
    assert "ttl=62" in run("ip netns exec e1 ping -c 1 10.62.0.2")
    # The largest packets that the hosts send.
    assert " 0% packet loss" in run("ip netns exec e1 ping -c 3 -i 0.2 -s 1472 10.62.0.2")
    # A network goes at the other end, and comes again.
    run("ip -n ev link set br20 down")
    wait_for("it is withdrawn", lambda: not leads(), timeout=60, every=0.5)
    # Linux has taken the address of IPv6 away.
    run(f"ip -n ev link set br20 up && ip -n ev address add {IRB_NETS[2][1].format(1)} dev br20 nodad")
    wait_for("they reach each other again", lambda: leads() and reach(1), timeout=60, every=0.5)
    # The router dies, and is there again.
    run("kill -9 $(cat /tmp/irb.pid)")
    start()
    wait_for("all is as it was", lambda: leads() and reach(1), timeout=60, every=0.5)
    assert irb("fib diff kernel") == ""
