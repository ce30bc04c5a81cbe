"""Pairs in Linux (lcp): what comes for the router goes to the TAP with its headers, and what Linux sends there leaves untouched."""

import contextlib

import pytest
from frames import *  # noqa: F403
from frames import ARP, ICMP, IP, TCP, UDP, Ether, into, out_of, through4
from harness import Bench, CtlError, Netns, Wire, run, wait_for
from harness.router import BINARY
from scapy.all import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrFragment,
    Raw,
    fragment,
)
from scapy.layers.l2 import LLC, Dot3

SUB = {100: {"addresses": ["10.1.0.1/24"]}, 200: {"encapsulation": {"dot1ad": 5, "inner-dot1q": 6, "exact-match": True}}}
ALL = {"loopbacks": {"loop0": {"addresses": ["10.9.9.9/32", "2001:db8:9::9/128"]}},
       "interfaces": {"left": {"sub-interfaces": SUB}}}


class Paired:
    """A bench, and a namespace for pairs with a raw socket on each."""

    def __init__(self, extra=ALL, addresses=True):
        self.netns = Netns("lcp")
        self.bench = Bench(extra, addresses=addresses)
        self.linux = {}

    def make(self, interface, host):
        """A pair, its device up, and a raw socket on it."""
        self.bench.ctl(f"lcp create {interface} host-if {host} netns {self.netns.name}")
        self.attach(host)

    def attach(self, host):
        wait_for(f"{host} has a carrier", lambda: "LOWER_UP" in self.netns.ip(f"-o link show {host}").stdout)
        self.linux[host] = Wire(self.netns, host, None)

    def pairs(self):
        return {p["interface"]: p for p in self.bench.router.json("show lcp")["pairs"]}

    def close(self):
        for wire in self.linux.values():
            wire.close()
        self.bench.close()
        self.netns.delete()


@pytest.fixture(scope="module")
def all_pairs():
    t = Paired()
    for interface, host in (("left", "e0"), ("left.100", "e0-100"), ("loop0", "lo0")):
        t.make(interface, host)
    yield t
    t.close()


def tagged(frame, *vlans):
    raw = bytes(frame)
    return raw[:12] + b"".join(tpid.to_bytes(2, "big") + v.to_bytes(2, "big") for tpid, v in vlans) + raw[12:]


def to_router(p, ip=None, ip6=None):
    """Frames that are for the router: what Linux alone has of them, whole."""
    four, six = IP(src=p.host, dst=ip or p.ip), IPv6(src=p.host6, dst=ip6 or p.ip6)
    near = IP(src=p.host, dst="224.0.0.5", ttl=1)
    frames = [
        into(p) / four / ICMP(id=7, seq=9) / b"ping",
        into(p) / IP(src=p.host, dst=p.ip, tos=0x28, id=77, ttl=3, flags="DF") / TCP(sport=4000, dport=179, flags="S", seq=1),
        into(p) / four / TCP(sport=4000, dport=22, flags="S"),
        into(p) / four / UDP(sport=5000, dport=646) / b"ldp",
        into(p) / four / UDP(sport=5000, dport=3784) / b"bfd",
        into(p) / four / UDP(sport=5000, dport=53) / b"who",
        into(p) / IP(src=p.host, dst=p.ip, proto=89) / b"ospf to one",
        into(p) / six / ICMPv6EchoRequest(id=1, seq=2) / b"ping6",
        into(p) / six / TCP(sport=4000, dport=179, flags="S"),
        into(p) / six / UDP(sport=5000, dport=53) / b"who",
        Ether(dst="01:00:5e:00:00:05", src=p.host_mac) / near.copy() / Raw(b"hello"),
        Ether(dst="01:00:5e:00:00:12", src=p.host_mac) / IP(src=p.host, dst="224.0.0.18", ttl=255, proto=112) / b"vrrp",
        Ether(dst="33:33:00:00:00:05", src=p.host_mac) / IPv6(src="fe80::2", dst="ff02::5", hlim=1, nh=89) / b"ospf3",
        Ether(dst="ff:ff:ff:ff:ff:ff", src=p.host_mac) / IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67) / b"dhcp",
        Ether(dst="01:80:c2:00:00:0e", src=p.host_mac, type=0x88CC) / bytes(46),
        Ether(dst="01:80:c2:00:00:02", src=p.host_mac, type=0x8809) / bytes(46),
        Dot3(dst="01:80:c2:00:00:14", src=p.host_mac) / LLC(dsap=0xFE, ssap=0xFE, ctrl=3) / Raw(b"\x83" + bytes(60)),
    ]
    # Fragments as they are.
    frames += [into(p) / f for f in fragment(four / UDP(sport=5000, dport=53) / bytes(3000), 1400)]
    frames.append(into(p) / IPv6(src=p.host6, dst=p.ip6) / IPv6ExtHdrFragment(nh=17, m=1, id=3) / bytes(64))
    return [bytes(f) for f in frames]


def test_punted_whole(all_pairs):
    """Linux has all that is for the router, with the headers with which it came, and the router says nothing to it."""
    t, p = all_pairs.bench, all_pairs.bench.ports["left"]
    e0 = all_pairs.linux["e0"]
    frames = to_router(p)
    for frame in frames:
        with t.counted("linux-cp-packets-punted"):
            t.left.send(frame)
            e0.expect(frame, chatter=True)
    assert t.left.recv(timeout=0.2) is None, "the router answered"
    # In one vector, with packets that go through: frames of one kind keep their order.
    sent, want = through4(p, t.ports["right"])
    t.left.send(*[f for frame in frames for f in (frame, sent)])
    assert sorted(e0.take(len(frames), chatter=True)) == sorted(frames)
    t.right.expect(*[want] * len(frames))
    # To an address of another interface it is the pair of the interface on which it comes.
    own = bytes(into(p) / IP(src=p.host, dst="10.9.9.9") / ICMP())
    t.left.send(own)
    e0.expect(own, chatter=True)


def test_padding_and_other_frames_do_not_come(all_pairs):
    t, p, e0 = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0"]
    ping = into(p) / IP(src=p.host, dst=p.ip) / ICMP()
    for reason, frame in (
        ("unknown-ethertype", Ether(dst=p.mac, src=p.host_mac, type=0x88B5) / bytes(46)),
        ("mac-not-for-us", Ether(dst="02:00:00:00:09:09", src=p.host_mac) / IP(src=p.host, dst=p.ip) / ICMP()),
        ("ip4-multicast-not-handled", Ether(dst="01:00:5e:01:01:01", src=p.host_mac) / IP(src=p.host, dst="239.1.1.1") / b"x"),
        ("ip4-ttl-expired", into(p) / IP(src=p.host, dst=t.ports["right"].host, ttl=1) / ICMP()),
    ):
        with t.counted(reason):
            t.left.send(frame)
    t.left.drain()
    t.left.send(ping)
    e0.expect(ping, chatter=True)


def test_without_a_pair_the_router_answers_itself(all_pairs):
    t, p = all_pairs.bench, all_pairs.bench.ports["right"]
    t.right.send(into(p) / IP(src=p.host, dst=p.ip, id=5) / ICMP(id=7, seq=9))
    t.right.expect(out_of(p) / IP(src=p.ip, dst=p.host, id=5, ttl=64) / ICMP(type=0, id=7, seq=9))


def test_arp_and_neighbor_discovery_go_to_both(all_pairs):
    t, p, e0 = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0"]
    ask = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:01:77")
                / ARP(op=1, hwsrc="02:00:00:00:01:77", psrc="10.0.1.77", pdst=p.ip) / bytes(18))
    t.left.send(ask)
    e0.expect(ask, chatter=True)
    t.left.wait(lambda f: ARP in f and f[ARP].op == 2 and f[ARP].pdst == "10.0.1.77")
    wait_for("the router knows it", lambda: "10.0.1.77" in t.ctl("show ip neighbors"))
    e0.drain()
    reply = bytes(Ether(dst=p.mac, src="02:00:00:00:01:78")
                  / ARP(op=2, hwsrc="02:00:00:00:01:78", psrc="10.0.1.78", hwdst=p.mac, pdst=p.ip) / bytes(18))
    t.left.send(reply)
    e0.expect(reply, chatter=True)
    solicit = bytes(Ether(dst=p.mac, src="02:00:00:00:01:79") / IPv6(src="2001:db8:1::79", dst=p.ip6, hlim=255)
                    / ICMPv6ND_NS(tgt=p.ip6) / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:01:79"))
    e0.drain()
    t.left.send(solicit)
    e0.expect(solicit, chatter=True)
    t.left.wait(lambda f: ICMPv6ND_NA in f and f[IPv6].dst == "2001:db8:1::79")
    wait_for("the router knows it", lambda: "2001:db8:1::79" in t.ctl("show ip neighbors"))
    tell = bytes(Ether(dst=p.mac, src="02:00:00:00:01:79") / IPv6(src="2001:db8:1::79", dst=p.ip6, hlim=255)
                 / ICMPv6ND_NA(tgt="2001:db8:1::79", S=1, R=0) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:01:79"))
    e0.drain()
    t.left.send(tell)
    e0.expect(tell, chatter=True)
    # An answer to what the router itself sent: Linux sees it, too.
    echo = bytes(into(p) / IP(src=p.host, dst=p.ip) / ICMP(type=0, id=1, seq=1))
    with t.counted("icmp4-handed-to-control"):
        t.left.send(echo)
        e0.expect(echo, chatter=True)


def test_injected(all_pairs):
    """What Linux sends leaves as it is, whatever it is."""
    t, p, e0 = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0"]
    t.left.drain()
    for frame in (
        out_of(p) / IP(src=p.ip, dst=p.host, ttl=1, tos=0xC0) / b"ospf",
        Ether(dst="01:00:5e:00:00:05", src=p.mac) / IP(src=p.ip, dst="224.0.0.5", ttl=1, proto=89) / b"hello",
        Ether(dst="ff:ff:ff:ff:ff:ff", src=p.mac) / ARP(hwsrc=p.mac, psrc=p.ip, pdst=p.host) / bytes(18),
        Dot3(dst="01:80:c2:00:00:14", src=p.mac) / LLC(dsap=0xFE, ssap=0xFE, ctrl=3) / Raw(bytes(60)),
        Ether(dst="01:80:c2:00:00:0e", src=p.mac, type=0x88CC) / bytes(46),
        Ether(dst=p.host_mac, src=p.mac, type=0x8847) / bytes.fromhex("000641ff") / IP(src=p.ip, dst=p.host) / b"labelled",
        tagged(out_of(p) / IP(src=p.ip, dst=p.host) / b"tagged", (0x8100, 100)),
        out_of(p) / IP(src=p.ip, dst=p.host) / bytes(1480),
    ):
        with t.counted("linux-cp-packets-injected"):
            e0.send(frame)
            t.left.expect(frame)


def test_tagged(all_pairs):
    """The TAP of a sub-interface is without its tags, which come and go on the wire."""
    t, p, sub = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0-100"]
    ping = bytes(into(p) / IP(src="10.1.0.2", dst="10.1.0.1") / ICMP(id=3) / b"in a VLAN")
    arp = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src=p.host_mac)
                / ARP(op=1, hwsrc=p.host_mac, psrc="10.1.0.2", pdst="10.1.0.1") / bytes(18))
    hello = bytes(Ether(dst="01:00:5e:00:00:05", src=p.host_mac) / IP(src="10.1.0.2", dst="224.0.0.5", ttl=1, proto=89) / b"hello")
    for frame in (ping, arp, hello):
        sub.drain()
        t.left.send(tagged(frame, (0x8100, 100)))
        sub.expect(frame, chatter=True)
    t.left.drain()
    back = out_of(p) / IP(src="10.1.0.1", dst="10.1.0.2") / ICMP(type=0, id=3)
    sub.send(back)
    t.left.expect(tagged(back, (0x8100, 100)))


def test_two_tags(all_pairs):
    all_pairs.make("left.200", "e0-5-6")
    t, p, sub = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0-5-6"]
    t.ctl("set interface ip address left.200 10.2.0.1/24")
    try:
        tags = (0x88A8, 5), (0x8100, 6)
        ping = bytes(into(p) / IP(src="10.2.0.2", dst="10.2.0.1") / ICMP(id=3) / b"in two")
        t.left.send(tagged(ping, *tags))
        sub.wait(lambda f: bytes(f) == ping)
        t.left.drain()
        back = out_of(p) / IP(src="10.2.0.1", dst="10.2.0.2") / ICMP(type=0, id=3)
        sub.send(back)
        t.left.expect(tagged(back, *tags))
    finally:
        t.ctl("set interface ip address del left.200 all")
        sub.close()
        t.ctl("lcp delete left.200")


def test_loopback(all_pairs):
    """What Linux sends on the TAP of a loopback is routed as if it had come in there."""
    t, right, lo = all_pairs.bench, all_pairs.bench.ports["right"], all_pairs.linux["lo0"]
    t.right.drain()
    mac = t.router.interface("loop0")["mac"]
    one = IP(src="10.9.9.9", dst=right.host, ttl=64) / UDP(sport=1, dport=2) / b"from a loopback"
    lo.send(Ether(dst=mac, src=mac) / one)
    one.ttl = 63
    t.right.expect(out_of(right) / one)
    six = IPv6(src="2001:db8:9::9", dst=right.host6, hlim=64) / UDP(sport=1, dport=2) / b"from a loopback"
    lo.send(Ether(dst=mac, src=mac) / six)
    six.hlim = 63
    t.right.expect(out_of(right) / six)
    with t.counted("linux-cp-xc-no-link"):
        lo.send(Ether(dst="ff:ff:ff:ff:ff:ff", src=mac) / ARP(psrc="10.9.9.9", pdst="10.9.9.1"))
    with t.counted("linux-cp-xc-malformed"):
        lo.send(bytes.fromhex("020000000001" "020000000002" "8100" "0000"))


def test_a_ping_flood_leaves_room_for_routing(all_pairs):
    t, p, e0 = all_pairs.bench, all_pairs.bench.ports["left"], all_pairs.linux["e0"]
    ping = bytes(into(p) / IP(src=p.host, dst=p.ip) / ICMP())
    bgp = bytes(into(p) / IP(src=p.host, dst=p.ip) / TCP(sport=4000, dport=179, flags="A"))
    ospf = bytes(Ether(dst="01:00:5e:00:00:05", src=p.host_mac) / IP(src=p.host, dst="224.0.0.5", ttl=1, proto=89) / b"hello")
    ssh = bytes(into(p) / IP(src=p.host, dst=p.ip) / TCP(sport=4000, dport=22, flags="A"))
    t.ctl("set punt policer icmp rate 1 burst 1")
    try:
        e0.drain()
        before = t.router.errors().get("policed-icmp", 0)
        for _ in range(10):
            t.left.send(*[ping] * 100, bgp, ospf, ssh)
        got = [e0.recv(chatter=True) for _ in range(30)]
        kinds = {kind: sum(f == frame for f in got) for kind, frame in (("bgp", bgp), ("ospf", ospf), ("ssh", ssh))}
        assert all(n >= 8 for n in kinds.values()), kinds
        wait_for("the flood is dropped", lambda: t.router.errors().get("policed-icmp", 0) - before > 900)
    finally:
        t.ctl("set punt policer icmp default")
    with t.counted("policed-linux", 3):
        t.ctl("set punt policer linux rate 0")
        t.left.send(*[ssh] * 3)
    t.ctl("set punt policer linux default")


def test_state_follows(all_pairs):
    """MAC address and carrier always; MTU, state and addresses where the operator wants that."""
    t, n = all_pairs.bench, all_pairs.netns
    link = lambda: n.ip("-o link show e0").stdout  # noqa: E731
    assert all_pairs.bench.ports["left"].mac in link() and "mtu 1500" in link()
    t.ctl("set interface state left down")
    wait_for("no carrier", lambda: "NO-CARRIER" in link())
    t.ctl("set interface state left up")
    wait_for("a carrier", lambda: "LOWER_UP" in link())
    t.ctl("set interface mac address left 02:00:00:00:01:99")
    wait_for("the new address", lambda: "02:00:00:00:01:99" in link())
    t.ctl("set interface mac address left 02:00:00:00:01:01")
    wait_for("the old address", lambda: "02:00:00:00:01:01" in link())
    n.run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=0")
    assert "10.0.1.1" not in n.ip("addr show e0").stdout
    t.ctl("lcp lcp-sync on")
    addresses = n.ip("addr show e0").stdout
    assert "10.0.1.1/24" in addresses and "2001:db8:1::1/64" in addresses, addresses
    t.ctl("set interface ip address left 10.7.7.7/24")
    assert "10.7.7.7/24" in n.ip("addr show e0").stdout
    t.ctl("set interface ip address del left 10.7.7.7/24")
    assert "10.7.7.7/24" not in n.ip("addr show e0").stdout
    t.ctl("set interface mtu packet 1400 left.200")
    t.ctl("set interface mtu packet 1400 left.100")
    t.ctl("set interface mtu packet 1450 left")
    assert "mtu 1450" in link() and "mtu 1400" in n.ip("-o link show e0-100").stdout
    t.ctl("set interface state left down")
    assert "state DOWN" in link() and "UP" not in link().split(">")[0].split("<")[1].split(",")
    t.ctl("set interface state left up")
    wait_for("up again", lambda: "LOWER_UP" in link())
    assert "2001:db8:1::1/64" in n.ip("addr show e0").stdout, "Linux forgets them when a device goes down"
    t.ctl("set interface mtu packet 1500 left")
    t.ctl("lcp lcp-sync off")
    t.ctl("set interface mtu packet 1500 left.100")
    assert "mtu 1400" in n.ip("-o link show e0-100").stdout
    all_pairs.linux["e0"].drain()


def test_deleted_by_somebody(all_pairs):
    """A TAP that is deleted in Linux is made anew."""
    t, n, p = all_pairs.bench, all_pairs.netns, all_pairs.bench.ports["left"]
    was = all_pairs.pairs()["left"]["ifindex"]
    all_pairs.linux["e0"].close()
    n.ip("link del e0")
    wait_for("there is another one", lambda: all_pairs.pairs()["left"]["ifindex"] not in (None, was), timeout=10)
    all_pairs.attach("e0")
    ping = bytes(into(p) / IP(src=p.host, dst=p.ip) / ICMP())
    t.left.send(ping)
    all_pairs.linux["e0"].wait(lambda f: bytes(f) == ping)
    assert p.mac in n.ip("-o link show e0").stdout


def test_renamed_or_moved_by_somebody(all_pairs):
    """A TAP that is renamed in Linux gets its name back, and one that is moved to another namespace is made anew where it was."""
    t, n, p = all_pairs.bench, all_pairs.netns, all_pairs.bench.ports["left"]
    was = all_pairs.pairs()["left"]
    n.ip("link set e0 down")
    n.ip("link set e0 name other")
    wait_for("it has its name back", lambda: "other" not in (links := n.ip("-br link").stdout) and "e0 " in links)
    n.ip("link set e0 up")
    wait_for("the log tells", lambda: "e0 was renamed to other: it has its name back" in t.ctl("show log"))
    assert all_pairs.pairs()["left"] == was
    all_pairs.linux["e0"].close()
    away = Netns("away")
    try:
        n.ip(f"link set e0 netns {away.name}")
        wait_for("there is another one", lambda: all_pairs.pairs()["left"]["ifindex"] not in (None, was["ifindex"]) and "e0 " in n.ip("-br link").stdout, timeout=10)
        wait_for("the old one is gone", lambda: "e0" not in away.ip("-br link").stdout)
        assert "was moved to another namespace" in t.ctl("show log")
    finally:
        away.delete()
    all_pairs.attach("e0")
    ping = bytes(into(p) / IP(src=p.host, dst=p.ip) / ICMP())
    t.left.send(ping)
    all_pairs.linux["e0"].wait(lambda f: bytes(f) == ping)


def test_show(all_pairs):
    n = all_pairs.netns.name
    shown = all_pairs.bench.router.json("show lcp")
    assert (shown["default-netns"], shown["lcp-sync"], shown["lcp-auto-subint"]) == (None, False, False)
    pairs = all_pairs.pairs()
    assert {k: (v["host-if"], v["netns"]) for k, v in pairs.items()} == {
        "left": ("e0", n), "left.100": ("e0-100", n), "loop0": ("lo0", n)}
    index = int(all_pairs.netns.ip("-o link show e0").stdout.split(":")[0])
    assert pairs["left"]["ifindex"] == index
    assert "e0-100" in all_pairs.bench.ctl("show lcp") and "e0-100" not in all_pairs.bench.ctl("show lcp phy left")


def test_companions_are_nobody_elses(all_pairs):
    t = all_pairs.bench
    tap = all_pairs.pairs()["left"]["tap"]
    for line in (f"set interface state {tap} down", f"delete tap {tap}", f"set interface ip address {tap} 10.8.0.1/24",
                 f"lcp create {tap} host-if no", f"create sub-interfaces {tap} 5"):
        with pytest.raises(CtlError, match="belongs to another interface"):
            t.ctl(line)
    assert tap not in t.ctl("show configuration")


def test_refusals(all_pairs):
    t = all_pairs.bench
    for line, why in (
        ("lcp create left host-if e9", "has the pair e0 already"),
        (f"lcp create right host-if e0 netns {all_pairs.netns.name}", "e0 is the pair of left already"),
        ("lcp create right host-if E9", "cannot name a pair"),
        ("lcp create right host-if e1 netns nowhere", "nowhere"),
        ("lcp create right host-if right", "taken"),
        ("lcp delete right", "has no pair"),
    ):
        with pytest.raises(CtlError, match=why):
            t.ctl(line)


@contextlib.contextmanager
def fresh(extra):
    t = Paired(extra)
    try:
        yield t
    finally:
        t.close()


def test_document_and_dump(tmp_path):
    """Pairs of a document, in the default namespace and others, are there again from the dump."""
    netns = Netns("lcp")
    try:
        extra = {
            "interfaces": {"left": {"lcp": "e0", "sub-interfaces": {100: {"lcp": "e0.100"}}}},
            "loopbacks": {"loop1": {"lcp": "lo1", "addresses": ["10.9.9.1/32"]}},
            "linux-cp": {"default-netns": netns.name, "lcp-sync": True, "interfaces": {"right": {"host-if": "own1"}}},
        }
        b = Bench(extra)
        try:
            dump = b.ctl("show configuration")
            for words in ("lcp: e0", "lcp: e0.100", "lcp: lo1", f"default-netns: {netns.name}", "lcp-sync: true", "host-if: own1"):
                assert words in dump, dump
            assert "tap4" not in dump
            for device in ("e0", "e0.100", "lo1"):
                assert netns.ip(f"-o link show {device}").stdout
            assert "10.0.1.1/24" in netns.ip("addr show e0").stdout
            assert b.inside.ip("-o link show own1").stdout
            # What runs does not differ from its own document.
            mine = tmp_path / "mine.yaml"
            mine.write_text(dump)
            index = {p["interface"]: p["ifindex"] for p in b.router.json("show lcp")["pairs"]}
            done = run([BINARY, "apply", "-s", b.router.socket, str(mine)], check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            assert index == {p["interface"]: p["ifindex"] for p in b.router.json("show lcp")["pairs"]}
            # Two that change their names with each other.
            mine.write_text(dump.replace("lcp: e0.100", "lcp: lo1x").replace("lcp: lo1\n", "lcp: e0.100\n").replace("lo1x", "lo1"))
            done = run([BINARY, "apply", "-s", b.router.socket, str(mine)], check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            now = {p["interface"]: p["host-if"] for p in b.router.json("show lcp")["pairs"]}
            assert (now["left.100"], now["loop1"]) == ("lo1", "e0.100"), now
            assert netns.ip("-o link show lo1").stdout and netns.ip("-o link show e0.100").stdout
            b.ctl("lcp delete right")
            b.ctl("delete loopback interface intfc loop1")
            assert "e0.100" not in netns.ip("-o link").stdout and "own1" not in b.inside.ip("-o link").stdout
        finally:
            b.close()
        # They outlive the router.
        assert {"e0", "lo1"} <= {line.split()[0] for line in netns.ip("-br link").stdout.splitlines()}
    finally:
        netns.delete()


def test_layer_2():
    """A member of a bridge domain has no pair."""
    with fresh({}) as t:
        b = t.bench
        b.ctl("set interface ip address del right all")
        t.make("right", "e1")
        with pytest.raises(CtlError, match="lcp delete right"):
            b.ctl("set interface l2 bridge right 5")
        b.ctl("lcp delete right")
        b.ctl("create bridge-domain 5")
        b.ctl("set interface l2 bridge right 5")
        with pytest.raises(CtlError, match="layer 2|bridge domain"):
            b.ctl("lcp create right host-if e1")


def test_auto_subint():
    with fresh({}) as t:
        t.bench.ctl(f"lcp default netns {t.netns.name}")
        t.bench.ctl("lcp lcp-auto-subint on")
        t.bench.ctl("lcp create left host-if e0")
        t.bench.ctl("create sub-interfaces left 100")
        t.bench.ctl("create sub-interfaces right 100")
        assert {k: v["host-if"] for k, v in t.pairs().items()} == {"left": "e0", "left.100": "e0.100"}
        assert t.netns.ip("-o link show e0.100").stdout
        t.bench.ctl("lcp delete left.100")
        t.bench.ctl("set interface state left.100 up")
        assert set(t.pairs()) == {"left"}
        t.bench.ctl("create sub-interfaces left 200")
        t.bench.ctl("delete sub-interface left.200")
        assert "e0.200" not in t.netns.ip("-o link").stdout


def test_bvi():
    """Linux is a station of the bridge domain, and has what is for the router."""
    extra = {"loopbacks": {"loop0": {"mac": "02:00:00:00:10:10", "addresses": ["10.5.0.1/24"]}},
             "bridgedomains": {"bd1": {"bvi": "loop0", "interfaces": ["left", "right"]}}}
    t = Paired(extra, addresses=False)
    try:
        t.make("loop0", "bvi0")
        b, bvi = t.bench, t.linux["bvi0"]
        station = "02:00:00:00:07:01"
        ping = bytes(Ether(dst="02:00:00:00:10:10", src=station) / IP(src="10.5.0.2", dst="10.5.0.1") / ICMP(id=4))
        b.left.send(ping)
        bvi.wait(lambda f: bytes(f) == ping)
        ask = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src=station) / ARP(hwsrc=station, psrc="10.5.0.2", pdst="10.5.0.1") / bytes(18))
        b.left.send(ask)
        bvi.wait(lambda f: bytes(f) == ask)
        b.left.drain()
        b.right.drain()
        back = Ether(dst=station, src="02:00:00:00:10:10") / IP(src="10.5.0.1", dst="10.5.0.2") / ICMP(type=0, id=4)
        bvi.send(back)
        b.left.wait(lambda f: bytes(f) == bytes(back))
        hello = Ether(dst="01:00:5e:00:00:05", src="02:00:00:00:10:10") / IP(src="10.5.0.1", dst="224.0.0.5", ttl=1, proto=89) / b"hello"
        bvi.send(hello)
        for wire in (b.left, b.right):
            wire.wait(lambda f: bytes(f) == bytes(hello))
    finally:
        t.close()


def test_tunnel():
    """Packets of a tunnel have a header on the TAP, and none in the tunnel."""
    with fresh({}) as t:
        b, p = t.bench, t.bench.ports["left"]
        b.ctl(f"create gre tunnel src {p.ip} dst {p.host} instance 3")
        b.ctl("set interface ip address gre3 10.6.0.1/30")
        b.ctl("set interface state gre3 up")
        t.make("gre3", "g0")
        g0, mac = t.linux["g0"], None
        assert "NOARP" in t.netns.ip("-o link show g0").stdout
        inner = IP(src="10.6.0.2", dst="10.6.0.1") / ICMP(id=4)
        b.left.send(into(p) / IP(src=p.host, dst=p.ip, proto=47) / bytes.fromhex("00000800") / inner)
        got = Ether(g0.recv(chatter=True))
        mac = t.netns.ip("-o link show g0").stdout.split("link/ether ")[1].split()[0]
        assert got.dst == mac and bytes(got[IP]) == bytes(inner)
        b.left.drain()
        back = IP(src="10.6.0.1", dst="10.6.0.2") / ICMP(type=0, id=4)
        g0.send(Ether(dst=mac, src=mac) / back)
        out = b.left.wait(lambda f: IP in f and f[IP].proto == 47)
        assert bytes(out[IP].payload) == bytes.fromhex("00000800") + bytes(back)
