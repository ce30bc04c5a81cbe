"""Four routers in a chain, a host on each end; each router its own process, configured by command lines.

    host A - lan [r1] e0 === e1 [r2] e0 === e1 [r3] e0 === e1 [r4] lan - host B
    10.0.2.1         .11   .10      .9    .8      .7    .6               10.0.1.1     (links: 192.168.11.x/31)

Packets from A to B carry label 100, packets from B to A label 103.
"""

import contextlib
import re
import select
import signal
import socket
import tempfile

import pytest
from harness import veth, wait_for
from tools import capture, hops

LINKS = {"r1": {"e0": 11}, "r2": {"e1": 10, "e0": 9}, "r3": {"e1": 8, "e0": 7}, "r4": {"e1": 6}}

BASE = {
    "r1": """
        set interface ip address lan 10.0.2.254/24
        set interface ip address lan 2001:db8:2::254/64
        ip route add 10.0.1.1/32 via 192.168.11.10 e0 out-labels 100
        mpls local-label add 103 eos via ip4-lookup-in-table 0
        mpls local-label add 103 non-eos via mpls-lookup-in-table 0
    """,
    "r2": """
        mpls local-label add 100 eos via 192.168.11.8 e0 out-labels 100
        mpls local-label add 103 eos via 192.168.11.11 e1 out-labels 103
        mpls local-label add 100 non-eos via 192.168.11.8 e0 out-labels 100
        mpls local-label add 103 non-eos via 192.168.11.11 e1 out-labels 103
    """,
    "r3": """
        mpls local-label add 100 eos via 192.168.11.6 e0 out-labels 100
        mpls local-label add 103 eos via 192.168.11.9 e1 out-labels 103
        mpls local-label add 100 non-eos via 192.168.11.6 e0 out-labels 100
        mpls local-label add 103 non-eos via 192.168.11.9 e1 out-labels 103
    """,
    "r4": """
        set interface ip address lan 10.0.1.254/24
        set interface ip address lan 2001:db8:1::254/64
        ip route add 10.0.2.1/32 via 192.168.11.7 e1 out-labels 103
        mpls local-label add 100 eos via ip4-lookup-in-table 0
        mpls local-label add 100 non-eos via mpls-lookup-in-table 0
    """,
}


def reaches(host, to, **kw):
    """Waits until five pings in a row are answered: then the way is there, and every neighbour on it is known."""
    wait_for(f"{to} answers", lambda: len(set(host.ping(to, check=False, **kw))) == 1, timeout=20)


def say(text):
    """A line of the story, for who runs scripts/labs/mpls."""
    print(f"\n    {text}", end="", flush=True)


class Chain:
    """The topology."""

    def __init__(self, lab):
        self.lab = lab
        self.ns = {name: lab.namespace(name) for name in LINKS}
        veth(self.ns["r1"], "e0", self.ns["r2"], "e1")
        veth(self.ns["r2"], "e0", self.ns["r3"], "e1")
        veth(self.ns["r3"], "e0", self.ns["r4"], "e1")
        # A second cable for the test of parallel links.
        veth(self.ns["r2"], "e2", self.ns["r3"], "e3")
        self.a = lab.cable(self.ns["r1"], "lan", lab.host("a", ["10.0.2.1/24", "2001:db8:2::1/64"],
                                                       ["10.0.2.254", "2001:db8:2::254"]))
        self.b = lab.cable(self.ns["r4"], "lan", lab.host("b", ["10.0.1.1/24", "2001:db8:1::1/64"],
                                                       ["10.0.1.254", "2001:db8:1::254"]))
        devices = {"r1": ["lan", "e0"], "r2": ["e0", "e1", "e2"], "r3": ["e0", "e1", "e3"], "r4": ["lan", "e1"]}
        self.routers = {name: lab.router(self.ns[name], {"interfaces": {d: {} for d in devices[name]},
                                                         "quiver": {"dad": "off"}}) for name in LINKS}
        for name, links in LINKS.items():
            for device, last in links.items():
                self.ctl(name, f"""
                    set interface ip address {device} 192.168.11.{last}/31
                    set interface ip address {device} 2001:db8:11::{last:x}/127
                    set interface mpls {device} enable
                """)
        for name, lines in BASE.items():
            self.ctl(name, lines)

    def ctl(self, router, lines):
        """Types command lines at a router."""
        for line in filter(None, map(str.strip, lines.splitlines())):
            self.routers[router].ctl(line)

    def there(self, what):
        """The label stacks of packets from A to B, link by link."""
        return [labels(self.ns[name], "e1", what) for name in ("r2", "r3", "r4")]

    def back(self, what):
        """The label stacks of packets from B to A, link by link."""
        return [labels(self.ns[name], "e0", what) for name in ("r3", "r2", "r1")]


def labels(netns, device, what):
    """What tcpdump says of the next packet that comes in on a device and whose line has `what`: label, traffic class,
    bottom of stack and TTL of each entry."""
    p = netns.start(["tcpdump", "-l", "-nn", "-i", device, "-Q", "in", "-s", "256", "--immediate-mode"])
    try:
        ready, _, _ = select.select([p.stdout], [], [], 10)
        for line in iter(p.stdout.readline, "") if ready else ():
            if what in line:
                entries = re.findall(r"label (\d+), tc (\d)(, \[S\])?, ttl (\d+)", line)
                return [(int(label), int(tc), bool(s), int(ttl)) for label, tc, s, ttl in entries]
        raise AssertionError(f"{netns.name} {device}: no packet like {what}")
    finally:
        p.kill()
        p.wait()


@contextlib.contextmanager
def pinging(host, to, every=0.001):
    """A ping every millisecond meanwhile; at the end each one from the first answer to the last must have been answered."""
    with tempfile.TemporaryFile("w+") as out:
        p = host.start(["ping", "-n", "-i", str(every), to], stdout=out)

        def answered():
            out.seek(0)
            return [int(n) for n in re.findall(r"bytes from \S+ icmp_seq=(\d+)", out.read())]

        try:
            wait_for(f"the first answers from {to}", lambda: len(answered()) > 10)
            yield lambda: len(answered())
        finally:
            p.send_signal(signal.SIGINT)
            p.wait(timeout=10)
        got = answered()
    # The sequence number has 16 bits.
    total, high, last = set(), 0, 0
    for n in got:
        if n < last - 32768:
            high += 65536
        last = n
        total.add(high + n)
    missing = sorted(set(range(min(total), max(total) + 1)) - total)
    say(f"{len(total)} pings answered, {len(missing)} lost")
    assert not missing, f"{len(missing)} of {max(total)} pings to {to} were lost, first {missing[:10]}"


@pytest.fixture(scope="module")
def chain(module_lab):
    return Chain(module_lab)


def lsp(*labels):
    """One label a link with the TTL that a hop leaves, as bottom of the stack; None is a packet without a label."""
    return [[] if label is None else [(label, 0, True, 64 - hop)] for hop, label in enumerate(labels)]


def replace(chain, router, label, via, old, new):
    """Another outgoing label, make before break: the new path first."""
    chain.ctl(router, f"""
        mpls local-label add {label} via {via} out-labels {new}
        mpls local-label del {label} via {via} out-labels {old}
    """)


def numbers(stacks):
    """The labels alone, link by link."""
    return [[label for label, *_ in stack] for stack in stacks]


def test_variants_while_pings_run(chain):
    """Plain LSP, explicit null, implicit null (penultimate hop popping), and back again; no ping is lost."""
    reaches(chain.a, "10.0.1.1")
    with pinging(chain.a, "10.0.1.1") as answered:
        variants = (
            ("plain LSP", None, lsp(100, 100, 100), lsp(103, 103, 103)),
            ("explicit null", (100, 0), lsp(100, 100, 0), lsp(103, 103, 0)),
            ("implicit null", (0, 3), lsp(100, 100, None), lsp(103, 103, None)),
            ("plain LSP again", (3, 100), lsp(100, 100, 100), lsp(103, 103, 103)),
        )
        for name, change, there, back in variants:
            if change:
                old, new = change
                replace(chain, "r3", "100 eos", "192.168.11.6 e0", old, new)
                replace(chain, "r2", "103 eos", "192.168.11.11 e1", *(103 if x == 100 else x for x in change))
            before = answered()
            seen = chain.there("echo request")
            say(f"{name}: " + ", ".join(str(s[0]) if s else "bare IP" for s in seen))
            assert seen == there, name
            assert chain.back("echo reply") == back, name
            wait_for("a hundred more pings are answered", lambda: answered() > before + 100)


def test_ipv6_over_the_same_paths(chain):
    """As RFC 4798 has it: label 2, "IPv6 explicit null", below the label of the path."""
    ends = (("r1", "2001:db8:1::/64", "2001:db8:11::a e0", 100), ("r4", "2001:db8:2::/64", "2001:db8:11::7 e1", 103))
    for router, prefix, via, label in ends:
        chain.ctl(router, f"ip route add {prefix} via {via} out-labels {label} 2")
    reaches(chain.a, "2001:db8:1::1")
    with pinging(chain.a, "2001:db8:1::1"):
        assert numbers(chain.there("echo request")) == [[100, 2]] * 3
        assert numbers(chain.back("echo reply")) == [[103, 2]] * 3
        # Penultimate hop popping leaves the inner label.
        replace(chain, "r3", "100 non-eos", "192.168.11.6 e0", 100, 3)
        assert numbers(chain.there("echo request")) == [[100, 2], [100, 2], [2]]
        replace(chain, "r3", "100 non-eos", "192.168.11.6 e0", 3, 100)
        assert numbers(chain.there("echo request")) == [[100, 2]] * 3


def test_two_customers_with_the_same_addresses(chain):
    """L3VPN: the inner label names the customer's table. The route of a customer is recursive: its next hop is r4's
    address, to which a labelled route leads."""
    lab, customers = chain.lab, {}
    for n, color in enumerate(("red", "blue"), 1):
        a = lab.host(f"a{n}", ["10.9.2.1/24"], ["10.9.2.254"])
        b = lab.host(f"b{n}", ["10.9.1.1/24"], ["10.9.1.254"])
        customers[color] = (a, b)
        for router, far, site, host in (("r1", "r4", 2, a), ("r4", "r1", 1, b)):
            veth(chain.ns[router], color, host, "eth0")
            host.configure("eth0")
            chain.ctl(router, f"""
                create host-interface name {color}
                set interface state host-{color} up
                ip table add {10 * n}
                set interface ip table host-{color} {10 * n}
                set interface ip address host-{color} 10.9.{site}.254/24
                mpls local-label add {1000 + n} eos via ip4-lookup-in-table {10 * n}
                ip route add 10.9.{3 - site}.0/24 table {10 * n} via 10.255.0.{far[1]} next-hop-table 0 out-labels {1000 + n}
            """)
    chain.ctl("r1", "ip route add 10.255.0.4/32 via 192.168.11.10 e0 out-labels 100")
    chain.ctl("r4", "ip route add 10.255.0.1/32 via 192.168.11.7 e1 out-labels 103")
    customers["red"][1].ip("address add 10.9.1.77/24 dev eth0")
    for n, (a, _) in enumerate(customers.values(), 1):
        reaches(a, "10.9.1.1")
        with pinging(a, "10.9.1.1"):
            assert numbers(chain.there("echo request")) == [[100, 1000 + n]] * 3
            assert numbers(chain.back("echo reply")) == [[103, 1000 + n]] * 3
    # What only red has, blue does not reach.
    reaches(customers["red"][0], "10.9.1.77")
    done = customers["blue"][0].run("ping -n -c 1 -W 2 10.9.1.77", check=False)
    assert "1 received" not in done.stdout, done.stdout


def test_two_parallel_links(chain):
    """Equal-cost paths between r2 and r3: flows spread by what is below the labels, and each stays on its link."""
    chain.ctl("r2", "set interface ip address e2 192.168.12.9/31")
    chain.ctl("r3", "set interface ip address e3 192.168.12.8/31")
    chain.ctl("r3", "set interface mpls e3 enable")
    chain.ctl("r2", "mpls local-label add 100 eos via 192.168.12.8 e2 out-labels 100")

    def sent():
        return [chain.routers["r2"].interface(d)["tx"]["packets"] for d in ("e0", "e2")]

    reaches(chain.a, "10.0.1.1")
    assert "1 received" in chain.routers["r2"].ctl("ping 192.168.12.8 repeat 1")
    flows, each, before = 64, 10, sent()
    with chain.b.entered():
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("10.0.1.1", 7000))
    sink.settimeout(5)
    with chain.a.entered():
        sources = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(flows)]
    got = {}
    for n in range(each):
        for s in sources:
            s.sendto(str(n).encode(), ("10.0.1.1", 7000))
        for _ in sources:
            data, (_, port) = sink.recvfrom(100)
            got.setdefault(port, []).append(int(data))
    assert len(got) == flows and all(numbers == list(range(each)) for numbers in got.values()), "all, and in order"
    spread = [now - then for now, then in zip(sent(), before)]
    say(f"{flows} flows over two links: {spread} packets")
    assert min(spread) > flows * each / 5, spread
    # One link goes: its flows move, and packets of no flow are lost from then on.
    with pinging(chain.a, "10.0.1.1"):
        chain.ctl("r2", "mpls local-label del 100 eos via 192.168.12.8 e2 out-labels 100")
    for s in (sink, *sources):
        s.close()


@pytest.mark.parametrize("word", ["", " control-word"], ids=["plain", "control word"])
def test_ethernet_between_the_hosts(chain, word):
    """EoMPLS: two further hosts are stations of one link, whose frames go through all four routers with two labels."""
    lab, hosts = chain.lab, {}
    n = "1" if word else "0"
    for router, via, outer, site in (("r1", "192.168.11.10 e0", 100, 1), ("r4", "192.168.11.7 e1", 103, 2)):
        host = lab.host(f"w{n}{site}", [f"10.8.{n}.{site}/24", f"2001:db8:8{n}::{site}/64"])
        veth(chain.ns[router], f"wire{n}", host, "eth0", mtu=1400)
        hosts[router] = host.configure("eth0")
        chain.ctl(router, f"""
            create host-interface name wire{n}
            set interface mtu 1400 host-wire{n}
            set interface state host-wire{n} up
            mpls tunnel add l2-only{word} instance {n} via {via} out-labels {outer} 200{n}
            set interface mtu 1400 mpls-tunnel{n}
            set interface state mpls-tunnel{n} up
            mpls local-label add 200{n} eos via l2-input-on mpls-tunnel{n}
            set interface l2 xconnect host-wire{n} mpls-tunnel{n}
            set interface l2 xconnect mpls-tunnel{n} host-wire{n}
        """)
    a = hosts["r1"]
    reaches(a, f"10.8.{n}.2")
    reaches(a, f"2001:db8:8{n}::2")
    reaches(a, f"10.8.{n}.2", size=1400 - 28)
    assert hops(a, f"10.8.{n}.2") == [f"10.8.{n}.2"], "the routers are not seen"
    with pinging(a, f"10.8.{n}.2"):
        seen = chain.there(f"label 200{n}")
        say(f"EoMPLS{word}: {seen[0]}")
        assert numbers(seen) == [[100, int(f"200{n}")]] * 3
        assert [stack[0][3] for stack in seen] == [64, 63, 62]
        assert numbers(chain.back(f"label 200{n}")) == [[103, int(f"200{n}")]] * 3


def test_traceroute_tells_the_labels(chain):
    """With mode uniform the hops of the path are seen, and what labels the packets had there (RFC 4950)."""
    chain.ctl("r1", "ip route set 10.0.1.1/32 via 192.168.11.10 e0 out-labels 100 uniform")
    for router in ("r2", "r3"):
        chain.ctl(router, "ip route add 10.0.2.0/24 via " + {"r2": "192.168.11.11 e1", "r3": "192.168.11.9 e1"}[router])
    text = chain.a.run("traceroute -n -q 1 -w 2 -e 10.0.1.1").stdout
    say(text.replace("\n", "\n    "))
    assert [line.split()[1] for line in text.splitlines()[1:4]] == ["10.0.2.254", "192.168.11.10", "192.168.11.8"]
    assert len(re.findall(r"<MPLS:L=100,E=0,S=1,T=1>", text)) >= 2, text
    chain.ctl("r1", "ip route set 10.0.1.1/32 via 192.168.11.10 e0 out-labels 100")
