"""Three routers in a triangle, a host behind each, and the routing daemons of Linux on their pairs.

    host 1 - [1] ==== [2] - host 2      [1] and [2] have two links: to2 and alt2, to1 and alt1
               \\     /
                [3] - host 3
"""

import contextlib
import json
import re
import signal
import socket
import subprocess
import time

import pytest
from frr import Frr
from harness import Flood, run, veth, wait_for
from scapy.all import ARP, ICMP, IP, UDP, Ether, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from tools import hears, iperf_server

# (router, port, router, port), with the third octet of their network
LINKS = [(1, "to2", 2, "to1", 12), (1, "alt2", 2, "alt1", 112), (1, "to3", 3, "to1", 13), (2, "to3", 3, "to2", 23)]


class Corner:
    """Router `n`, its pairs (which have its ports' names), and the host behind it."""

    def __init__(self, lab, n, ports, linux, links):
        self.n, self.ports, self.linux, self.links = n, ports, linux, links
        self.host = lab.cable(ports, "lan", lab.host(f"h{n}", [f"10.0.{n}.2/24", f"2001:db8:{n}::2/64"], [f"10.0.{n}.1", f"2001:db8:{n}::1"]))
        faces = {"lan": {"lcp": "lan", "addresses": [f"10.0.{n}.1/24", f"2001:db8:{n}::1/64"]}}
        for port, net in links.items():
            faces[port] = {"lcp": port, "addresses": [f"192.168.{net}.{n}/24", f"2001:db8:{net}::{n}/64"]}
        self.router = lab.router(ports, {
            "interfaces": faces, "loopbacks": {"loop0": {"lcp": "loop0", "addresses": [f"10.9.9.{n}/32"]}},
            "linux-cp": {"default-netns": linux.name, "lcp-sync": True}, "quiver": {"dad": "off"}})

    def sent(self, port):
        """Packets that have left by a port."""
        return next(i["tx"]["packets"] for i in self.router.json("show interface") if i["name"] == port)


class Triangle:
    """The topology."""

    def __init__(self, lab):
        ports, linux = ({n: lab.namespace(f"{kind}{n}") for n in (1, 2, 3)} for kind in "rl")
        for n in linux.values():
            # As a host has it, but for addresses that take a second to be sure of.
            n.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0"
                  " net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.fib_multipath_hash_policy=1")
        of = {n: {} for n in (1, 2, 3)}
        for one, a, two, b, net in LINKS:
            veth(ports[one], a, ports[two], b)
            of[one][a], of[two][b] = net, net
        self.corners = [Corner(lab, n, ports[n], linux[n], of[n]) for n in (1, 2, 3)]

    def reached(self, n, timeout=60):
        """Waits until host `n` reaches the others."""
        host = self.corners[n - 1].host
        for m in {1, 2, 3} - {n}:
            for to in (f"10.0.{m}.2", f"2001:db8:{m}::2"):
                wait_for(f"host {n} reaches {to}", lambda t=to: hears(host, t), timeout=timeout)

    def cut(self, what):
        """The link from router 3 to router 1 is `down` or `up`."""
        self.corners[2].ports.ip(f"link set to1 {what}")

    def cut_and_joined(self, name):
        """The link between 1 and 3 is cut: the packets of their hosts go by 2, and how many are lost is printed. It comes back, and so do they."""
        one = self.corners[0]
        straight = lambda: "via 192.168.13.3" in one.linux.ip("route show 10.0.3.0/24").stdout
        wait_for("the straight way is the best", straight, timeout=60)
        before = one.sent("to3")
        flood = one.host.start("ping -q -i 0.01 -c 1200 -W 1 10.0.3.2")
        try:
            wait_for("packets flow", lambda: one.sent("to3") > before + 50)
            self.cut("down")
            wait_for("the way leads by 2", lambda: "via 192.168.12.2" in one.router.ctl("fib why 10.0.3.2") or "via 192.168.112.2" in one.router.ctl("fib why 10.0.3.2"), timeout=30)
            wait_for("host 3 answers", lambda: hears(one.host, "10.0.3.2"), timeout=10)
            self.cut("up")
            wait_for("the straight way is back", straight, timeout=60)
        finally:
            self.cut("up")
            out, _ = flood.communicate(timeout=30)
        sent, got = (int(n) for n in re.search(r"(\d+) packets transmitted, (\d+) received", out).groups())
        print(f"\n{name}: {sent - got} of {sent} pings at 100 a second were lost while a link was cut and came back")
        assert sent - got < 300, out


@pytest.fixture(scope="module")
def triangle(module_lab):
    return Triangle(module_lab)


BIRD = """
router id 10.9.9.{n};
log stderr all;
protocol device {{ scan time 1; }}
protocol direct {{ ipv4; ipv6; interface "loop0"; }}
protocol kernel k4 {{ ipv4 {{ export all; }}; merge paths on; }}
protocol kernel k6 {{ ipv6 {{ export all; }}; merge paths on; }}
protocol bfd {{ interface "*" {{ interval 300 ms; multiplier 3; }}; }}
protocol ospf v2 o4 {{
  ipv4 {{ export where source = RTS_DEVICE; }};
  ecmp on;
  area 0 {{ interface "to*", "alt*" {{ type ptp; hello 1; dead count 4; bfd on; }}; interface "lan", "loop0" {{ stub; }}; }};
}}
protocol ospf v3 o6 {{
  ipv6;
  ecmp on;
  area 0 {{ interface "to*", "alt*" {{ type ptp; hello 1; dead count 4; bfd on; }}; interface "lan" {{ stub; }}; }};
}}
"""


def test_bird(triangle, tmp_path):
    """OSPFv2, OSPFv3 and BFD of BIRD: hosts reach each other, a link that is cut reroutes."""
    running = []
    try:
        for c in triangle.corners:
            conf, socket = tmp_path / f"{c.n}.conf", tmp_path / f"{c.n}.ctl"
            conf.write_text(BIRD.format(n=c.n))
            running.append(c.linux.start(["bird", "-f", "-c", conf, "-s", socket, "-P", tmp_path / f"{c.n}.pid"], stdout=subprocess.DEVNULL))
            wait_for("BIRD answers", socket.exists)
        ask = lambda n, line: run(["birdc", "-s", tmp_path / f"{n}.ctl", *line.split()], check=False).stdout
        for n in (1, 2, 3):
            links = len(triangle.corners[n - 1].links)
            for protocol in ("o4", "o6"):
                wait_for(f"{protocol} of {n} is up", lambda p=protocol: ask(n, f"show ospf neighbors {p}").count("Full/") == links, timeout=60)
            wait_for(f"BFD of {n} is up", lambda: ask(n, "show bfd sessions").count(" Up ") >= links, timeout=60)
            triangle.reached(n)
        # What a router says of its links it says anew after 5 s at the soonest (MinLSInterval, RFC 2328 appendix B): a cut before
        # that would measure this time.
        ages = lambda: [int(age) for age in re.findall(r"^ 0001 .* (\d+) +[0-9a-f]{4}$", ask(1, "show ospf lsadb o4"), re.M)]
        wait_for("what they say of their links is 6 s old", lambda: len(ages()) == 3 and min(ages()) > 6, timeout=30)
        triangle.cut_and_joined("BIRD, OSPF and BFD")
    finally:
        for p in running:
            p.send_signal(signal.SIGTERM)
            p.wait(timeout=20)


@pytest.fixture
def frr(triangle):
    """FRR beside each router, which a test starts."""
    made = [Frr(c.linux) for c in triangle.corners]
    yield made
    for f in made:
        f.close()


def faces(corner, lines):
    """The same lines for each link."""
    return "".join(f"interface {port}\n{lines}exit\n" for port in corner.links)


def both_ways(triangle, one, frr):
    """Host 1's flows to host 2 take both links."""
    wait_for("there are two ways", lambda: {"192.168.12.2", "192.168.112.2"} <= set(re.findall(r"192\.168\.1?12\.2", one.router.ctl("show ip fib 10.0.2.0/24"))), timeout=30)
    two = triangle.corners[1].host
    before = {port: one.sent(port) for port in ("to2", "alt2")}
    with iperf_server(two):
        one.host.run("iperf3 -c 10.0.2.2 -u -b 4M -l 200 -P 16 -t 1", timeout=30)
    after = {port: one.sent(port) - before[port] for port in before}
    assert min(after.values()) > 200, after


@contextlib.contextmanager
def raw(host):
    """A socket that sends frames on the host's device."""
    with host.entered():
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with s:
        s.bind(("eth0", 0))
        yield s


def floods(corner):
    """Frames to the router's Linux, of kinds that ask it for something."""
    host, router = (json.loads(ns.ip(f"-j link show {device}").stdout)[0]["address"] for ns, device in ((corner.host, "eth0"), (corner.linux, "lan")))
    to = Ether(src=host, dst=router)
    everybody = Ether(src=host, dst="ff:ff:ff:ff:ff:ff")
    me, me6, n = f"10.0.{corner.n}.2", f"2001:db8:{corner.n}::2", corner.n
    return {
        "pings": [to / IP(src=me, dst=f"10.0.{n}.1") / ICMP(seq=i) for i in range(64)],
        "ARP requests": [everybody / ARP(hwsrc=host, psrc=me, pdst=f"10.0.{n}.{1 + i % 2 * i}") for i in range(64)],
        "neighbor solicitations": [Ether(src=host, dst="33:33:ff:00:00:01") / IPv6(src=me6, dst="ff02::1:ff00:1", hlim=255)
                                   / ICMPv6ND_NS(tgt=f"2001:db8:{n}::1") / ICMPv6NDOptSrcLLAddr(lladdr=host)],
        "packets at their end": [to / IP(src=me, dst=f"10.0.2.{i}", ttl=1) / UDP(dport=i) for i in range(64)],
        "hosts that are not there": [to / IP(src=me, dst=f"10.0.{n}.{i}") / UDP(dport=i) for i in range(100, 164)],
    }


def test_frr_ospf(triangle, frr):
    """FRR's OSPFv2, OSPFv3 and BFD (3 x 50 ms): both of two equal ways carry packets, a cut reroutes, and BFD has no false alarm under load."""
    for c, f in zip(triangle.corners, frr):
        bfd = "bfd\nprofile fast\n transmit-interval 50\n receive-interval 50\n detect-multiplier 3\nexit\nexit\n"
        four = " ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n ip ospf bfd\n ip ospf bfd profile fast\n"
        six = " ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\n"
        f.start(bfdd=bfd,
                ospfd=faces(c, four) + "interface lan\n ip ospf area 0\n ip ospf passive\nexit\ninterface loop0\n ip ospf area 0\nexit\n"
                      f"router ospf\n ospf router-id 10.9.9.{c.n}\n timers throttle spf 10 100 1000\nexit\n",
                ospf6d=faces(c, six) + "interface lan\n ipv6 ospf6 area 0\n ipv6 ospf6 passive\nexit\n"
                       f"router ospf6\n ospf6 router-id 10.9.9.{c.n}\n timers throttle spf 10 100 1000\nexit\n")
    for n in (1, 2, 3):
        triangle.reached(n)
    one, two = triangle.corners[:2]
    both_ways(triangle, one, frr)
    peers = lambda f: f.json("bfdd", "show bfd peers") or []
    for c, f in zip(triangle.corners, frr):
        wait_for(f"BFD of {c.n} is up", lambda: [p["status"] for p in peers(f)].count("up") == len(c.links), timeout=30)
    # As much as the hosts can send, small packets.
    count = lambda: [c["session-down"] for f in frr for c in f.json("bfdd", "show bfd peers counters")]
    before = count()
    with iperf_server(two.host):
        one.host.run("iperf3 -c 10.0.2.2 -u -b 0 -l 64 -t 5", timeout=60)
    assert count() == before
    for what, frames in floods(one).items():
        with raw(one.host) as wire, Flood(wire, frames, 2_000_000) as flood:
            began = time.monotonic()
            wait_for("enough has been sent", lambda: flood.sent > 300_000 and time.monotonic() - began > 3, timeout=60)
            print(f"\n{what}: {flood.sent / (time.monotonic() - began):,.0f} a second", end="")
        assert count() == before, what
    triangle.cut_and_joined("FRR, OSPF and BFD")


def test_frr_isis(triangle, frr):
    """FRR's IS-IS, whose frames are LLC."""
    for c, f in zip(triangle.corners, frr):
        each = " ip router isis A\n ipv6 router isis A\n isis network point-to-point\n isis circuit-type level-2-only\n isis hello-interval 1 level-2\n"
        f.start(isisd=faces(c, each) + "interface lan\n ip router isis A\n ipv6 router isis A\n isis passive\nexit\n"
                f"router isis A\n net 49.0001.0000.0000.000{c.n}.00\n is-type level-2-only\n metric-style wide\n spf-interval 1\n lsp-gen-interval 1\nexit\n")
    for n in (1, 2, 3):
        triangle.reached(n)
    both_ways(triangle, triangle.corners[0], frr)
    triangle.cut_and_joined("FRR, IS-IS")


def test_frr_bgp(triangle, frr):
    """FRR's BGP over link-local addresses that router advertisements tell (RFC 8950), and between addresses of both families."""
    for c, f in zip(triangle.corners, frr):
        named = "".join(f" neighbor {port} interface remote-as external\n" for port in c.links if port.startswith("to"))
        other = 3 - c.n
        by_address = "" if c.n == 3 else (f" neighbor 192.168.112.{other} remote-as external\n neighbor 2001:db8:112::{other} remote-as external\n"
                                          f" neighbor 192.168.112.{other} timers connect 1\n neighbor 2001:db8:112::{other} timers connect 1\n")
        six = "".join(f"  neighbor {port} activate\n" for port in c.links if port.startswith("to"))
        six += "" if c.n == 3 else f"  neighbor 2001:db8:112::{other} activate\n  no neighbor 192.168.112.{other} activate\n"
        four = "" if c.n == 3 else f"  no neighbor 2001:db8:112::{other} activate\n"
        f.start(bgpd=f"router bgp {64500 + c.n}\n bgp router-id 10.9.9.{c.n}\n no bgp ebgp-requires-policy\n bgp bestpath as-path multipath-relax\n"
                     f" timers bgp 1 3\n{named}{by_address}"
                     f" address-family ipv4 unicast\n  network 10.0.{c.n}.0/24\n{four} exit-address-family\n"
                     f" address-family ipv6 unicast\n  network 2001:db8:{c.n}::/64\n{six} exit-address-family\nexit\n")
    for c, f in zip(triangle.corners, frr):
        up = lambda: [p["state"] for family in (f.json("bgpd", "show bgp summary") or {}).values() for p in family["peers"].values()]
        wait_for(f"the sessions of {c.n} are up", lambda: len(set(up())) == 1 and "Established" in up(), timeout=60)
    for n in (1, 2, 3):
        triangle.reached(n)
    one = triangle.corners[0]
    assert re.search(r"via (inet6 )?fe80::", one.router.ctl("show ip fib 10.0.3.0/24")), one.router.ctl("show ip fib 10.0.3.0/24")
    wait_for("both kinds of sessions serve", lambda: "192.168.112.2" in one.router.ctl("show ip fib 10.0.2.0/24"), timeout=30)
    for c in triangle.corners:
        wait_for("both sides agree", lambda: c.router.json("fib diff kernel") == [])
