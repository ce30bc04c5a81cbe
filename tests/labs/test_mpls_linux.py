"""MPLS together with the Linux kernel's, which runs in a QEMU guest: Linux between two routers, and Linux at an edge.

    host A - lan [one] e0 === eth0 (Linux) eth1 === e0 [two] lan - host B
    10.0.2.1         192.168.11.1   .2    192.168.12.2   .1        10.0.1.1
                                    10.0.3.1 on lo
"""

import pytest
from harness import guest
from harness.guest import Guest
from test_mpls import labels, numbers, pinging, reaches, say

pytestmark = pytest.mark.skipif(guest.lacks() is not None, reason=f"no Linux in QEMU: {guest.lacks()}")

LINUX = """
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.mpls.platform_labels=2000
sysctl -qw net.mpls.conf.lo.input=1
ip address add 10.0.3.1/32 dev lo
ip -6 address add 2001:db8:3::1/128 dev lo
"""
PORT = """
ip link set eth{n} up
ip address add 192.168.1{link}.2/24 dev eth{n}
ip -6 address add 2001:db8:1{link}::2/64 dev eth{n} nodad
sysctl -qw net.mpls.conf.eth{n}.input=1
"""


class Beside:
    """The topology."""

    def __init__(self, lab):
        self.lab = lab
        self.one, self.two = lab.namespace("one"), lab.namespace("two")
        self.linux = Guest([(self.one, "e0"), (self.two, "e0")], ["mpls_router", "mpls_iptunnel", "mpls_gso"])
        lab.routers.append(self.linux)
        for line in (LINUX + PORT.format(n=0, link=1) + PORT.format(n=1, link=2)).strip().splitlines():
            self.linux.run(line)
        ends = ((self.one, "a", 2), (self.two, "b", 1))
        self.a, self.b = (lab.cable(ns, "lan", lab.host(name, [f"10.0.{site}.1/24", f"2001:db8:{site}::1/64"],
                                                     [f"10.0.{site}.254", f"2001:db8:{site}::254"]))
                          for ns, name, site in ends)
        self.routers = {}
        for link, (ns, _, site) in enumerate(ends, 1):
            self.routers[ns] = lab.router(ns, {"interfaces": {
                "lan": {"addresses": [f"10.0.{site}.254/24", f"2001:db8:{site}::254/64"]},
                "e0": {"addresses": [f"192.168.1{link}.1/24", f"2001:db8:1{link}::1/64"]}}, "quiver": {"dad": "off"}})
            self.ctl(ns, "set interface mpls e0 enable")

    def ctl(self, ns, lines):
        """Types command lines at a router."""
        for line in filter(None, map(str.strip, lines.splitlines())):
            self.routers[ns].ctl(line)


@pytest.fixture(scope="module")
def beside(module_lab):
    stage = Beside(module_lab)
    say(f"guest: {stage.linux.run('uname -sr').strip()}")
    return stage


def test_linux_as_provider_router(beside):
    """Linux swaps: 100 to 200 on the way there, 103 to 203 on the way back. Then it pops, then it sends explicit null."""
    beside.ctl(beside.one, """
        ip route add 10.0.1.0/24 via 192.168.11.2 e0 out-labels 100
        mpls local-label add 203 eos via ip4-lookup-in-table 0
    """)
    beside.ctl(beside.two, """
        ip route add 10.0.2.0/24 via 192.168.12.2 e0 out-labels 103
        mpls local-label add 200 eos via ip4-lookup-in-table 0
    """)
    linux = beside.linux
    linux.run("ip -f mpls route add 103 as 203 via inet 192.168.11.1 dev eth0")
    for name, action, want in (("swap", "as 200", [200]), ("penultimate hop popping", "", []), ("explicit null", "as 0", [0]),
                               ("two labels", "as 777/200", [777, 200])):
        if len(want) == 2:
            beside.ctl(beside.two, "mpls local-label add 777 non-eos via mpls-lookup-in-table 0")
        linux.run(f"ip -f mpls route replace 100 {action} via inet 192.168.12.1 dev eth1")
        reaches(beside.a, "10.0.1.1")
        with pinging(beside.a, "10.0.1.1", every=0.01):
            seen = labels(beside.two, "e0", "echo request")
            assert [e[0] for e in seen] == want, name
            say(f"Linux as P, {name}: {seen or 'bare IP'}")
            assert numbers([labels(beside.one, "e0", "echo reply")]) == [[203]]


def test_ipv6_through_linux(beside):
    """Linux swaps the outer label of a stack whose bottom is "IPv6 explicit null"."""
    beside.ctl(beside.one, """
        ip route add 2001:db8:1::/64 via 2001:db8:11::2 e0 out-labels 300 2
        mpls local-label add 303 non-eos via mpls-lookup-in-table 0
    """)
    beside.ctl(beside.two, """
        ip route add 2001:db8:2::/64 via 2001:db8:12::2 e0 out-labels 301 2
        mpls local-label add 302 non-eos via mpls-lookup-in-table 0
    """)
    beside.linux.run("ip -f mpls route add 300 as 302 via inet6 2001:db8:12::1 dev eth1")
    beside.linux.run("ip -f mpls route add 301 as 303 via inet6 2001:db8:11::1 dev eth0")
    reaches(beside.a, "2001:db8:1::1")
    with pinging(beside.a, "2001:db8:1::1", every=0.01):
        assert numbers([labels(beside.two, "e0", "echo request")]) == [[302, 2]]
        assert numbers([labels(beside.one, "e0", "echo reply")]) == [[303, 2]]


def test_linux_as_edge(beside):
    """Linux pops and looks up, and pushes on the way back: with a label of its own, explicit null, and two labels."""
    linux = beside.linux
    linux.run("ip -f mpls route add 400 dev lo")
    linux.run("ip -f mpls route add 401 dev lo")
    beside.ctl(beside.one, """
        mpls local-label add 403 eos via ip4-lookup-in-table 0
        mpls local-label add 404 non-eos via mpls-lookup-in-table 0
    """)
    for there, back in (("400", "403"), ("0", "0"), ("400 401", "404/403")):
        beside.ctl(beside.one, f"ip route set 10.0.3.1/32 via 192.168.11.2 e0 out-labels {there}")
        linux.run(f"ip route replace 10.0.2.0/24 encap mpls {back} via 192.168.11.1 dev eth0 src 10.0.3.1")
        reaches(beside.a, "10.0.3.1")
        with pinging(beside.a, "10.0.3.1", every=0.01):
            seen = numbers([labels(beside.one, "e0", "echo reply")])
            assert seen == [[int(x) for x in back.split("/")]]
            say(f"Linux as PE: to it {there}, from it {back}")


def test_large_packets(beside):
    """A label takes four bytes of the link's 1500: longer packets are cut, or their sender told what fits."""
    beside.linux.run("ip -f mpls route replace 100 as 200 via inet 192.168.12.1 dev eth1")
    reaches(beside.a, "10.0.1.1", size=1496 - 28, extra="-M do")
    reaches(beside.a, "10.0.1.1", size=1472, extra="-M dont")
    done = beside.a.run("ping -n -c 3 -W 2 -M do -s 1472 10.0.1.1", check=False)
    assert "mtu = 1496" in done.stdout + done.stderr or "mtu=1496" in done.stdout + done.stderr, done.stdout + done.stderr
