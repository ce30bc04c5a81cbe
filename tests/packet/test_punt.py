"""Control-plane policing: a flood of each class meets its limit and no other; forwarding and the other classes go on."""

import pytest
from frames import *  # noqa: F403
from frames import (
    ARP, ICMP, IP, TCP, UDP, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr, IPv6, fix4, into, out_of, through4, through6, udp4, udp6,
)
from harness import CtlError, wait_for
from scapy.layers.inet6 import ICMPv6MLQuery, ICMPv6ND_RS

GROUP = "ff:ff:ff:ff:ff:ff"
RATE, BURST, FLOOD = 1, 20, 300


def mcast6(a, packet):
    return Ether(dst="33:33:00:00:00:01", src=a.host_mac) / packet


def with_options(a, b):
    raw = bytes(udp4(a.host, b.host))
    head = b"\x46" + raw[1:2] + (len(raw) + 4).to_bytes(2, "big") + raw[4:20]
    return bytes(into(a))[:12] + b"\x08\0" + fix4(head + b"\x94\x04\0\0" + raw[20:])


# What is sent of each class. Some packets of a class that nothing takes yet are dropped behind the policer.
FLOODS = {
    "arp-request": lambda a, b: Ether(dst=GROUP, src=a.host_mac) / ARP(
        op=1, hwsrc=a.host_mac, psrc=a.host, hwdst="00:00:00:00:00:00", pdst=a.ip),
    "arp-reply": lambda a, b: into(a) / ARP(op=2, hwsrc=a.host_mac, psrc=a.host, hwdst=a.mac, pdst=a.ip),
    "nd-solicitation": lambda a, b: into(a) / IPv6(src=a.host6, dst=a.ip6, hlim=255) / ICMPv6ND_NS(tgt=a.ip6)
    / ICMPv6NDOptSrcLLAddr(lladdr=a.host_mac),
    "nd-advertisement": lambda a, b: into(a) / IPv6(src=a.host6, dst=a.ip6, hlim=255)
    / ICMPv6ND_NA(tgt=a.host6, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=a.host_mac),
    "nd-router": lambda a, b: mcast6(a, IPv6(src=a.host6, dst="ff02::2", hlim=255) / ICMPv6ND_RS()),
    "icmp": lambda a, b: into(a) / IP(src=a.host, dst=a.ip) / ICMP(type=8) / b"flood",
    "icmp6": lambda a, b: into(a) / IPv6(src=a.host6, dst=a.ip6) / ICMPv6EchoRequest(data=b"flood"),
    "bgp": lambda a, b: into(a) / IP(src=a.host, dst=a.ip) / TCP(sport=1024, dport=179),
    "ospf": lambda a, b: into(a) / IP(src=a.host, dst=a.ip, proto=89) / bytes(24),
    "bfd": lambda a, b: into(a) / IPv6(src=a.host6, dst=a.ip6) / UDP(sport=49152, dport=3784) / bytes(24),
    "slow-protocols": lambda a, b: Ether(dst="01:80:c2:00:00:02", src=a.host_mac, type=0x8809) / bytes(110),
    "lldp": lambda a, b: Ether(dst="01:80:c2:00:00:0e", src=a.host_mac, type=0x88CC) / bytes(50),
    "igmp": lambda a, b: into(a) / IP(src=a.host, dst=a.ip, proto=2) / bytes(8),
    "mld": lambda a, b: mcast6(a, IPv6(src="fe80::9", dst="ff02::1", hlim=1) / ICMPv6MLQuery()),
    "fragment": lambda a, b: into(a) / udp4(a.host, a.ip, frag=100, flags="MF", size=16),
    "local": lambda a, b: into(a) / IP(src=a.host, dst=a.ip) / TCP(sport=1024, dport=22),
    "options": with_options,
    "mpls-router-alert": lambda a, b: Ether(dst=a.mac, src=a.host_mac, type=0x8847) / bytes.fromhex("00001140") / udp4(a.host, b.host),
    "ttl-exceeded": lambda a, b: into(a) / udp6(a.host6, b.host6, hlim=1),
    "icmp-error": lambda a, b: into(a) / udp4(a.host, "172.16.0.1"),
}


def rows(t, verbose=""):
    return {r["class"]: r for r in t.router.json(f"show punt {verbose}")["classes"]}


@pytest.fixture(scope="module")
def policed():
    from harness import Bench

    # Fragments that passed are soon forgotten.
    t = Bench({"punt": {c: {"rate": RATE, "burst": BURST} for c in FLOODS},
               "l3": {"reassembly": {"ip4": {"timeout-ms": 300, "expire-walk-interval-ms": 50}}}})
    t.ctl("set interface mpls left enable")
    yield t
    t.close()


def test_every_class_is_flooded(policed):
    """`broadcast` has no packets yet: the router listens to none."""
    assert set(rows(policed)) - {"broadcast"} == set(FLOODS)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_one_class_leaves_the_others_alone(policed, name):
    t = policed
    a, b = t.ports["left"], t.ports["right"]
    # Full buckets, whatever the tests before took.
    t.ctl(f"set punt policer all rate {RATE} burst {BURST}")
    t.ctl("clear punt")
    before = t.router.errors().get(f"policed-{name}", 0)
    flood = FLOODS[name](a, b)
    t.left.send(*[flood] * FLOOD)
    wait_for("all are counted", lambda: sum(rows(t)[name][k] for k in ("passed", "dropped")) == FLOOD)
    row = rows(t)[name]
    assert BURST <= row["passed"] <= BURST + 5 * RATE, row
    wait_for("dropped by name", lambda: t.router.errors().get(f"policed-{name}", 0) - before == row["dropped"])
    # While the flood goes on, packets are forwarded, and another class is answered.
    frames = [through4(a, b, id=i, sport=i + 1) for i in range(40)] + [through6(a, b, fl=i, sport=i + 1) for i in range(40)]
    t.right.drain()
    t.left.send(*[f for sent, _ in frames for f in (flood, sent)])
    got = []
    while len(got) < len(frames):
        frame = t.right.take(1)[0]
        # A packet with options is forwarded too, one a second.
        if frame[14] != 0x46:
            got.append(frame)
    assert sorted(got) == sorted(bytes(want) for _, want in frames)
    t.right.drain()
    if name != "icmp6":
        t.right.send(into(b) / IPv6(src=b.host6, dst=b.ip6) / ICMPv6EchoRequest(id=5, seq=6))
        t.right.expect(out_of(b) / IPv6(src=b.ip6, dst=b.host6, hlim=64) / ICMPv6EchoReply(id=5, seq=6))
    if name != "icmp":
        t.right.send(into(b) / IP(src=b.host, dst=b.ip, id=7) / ICMP(type=8, id=5, seq=6))
        t.right.expect(out_of(b) / IP(src=b.ip, dst=b.host, id=7, ttl=64) / ICMP(type=0, id=5, seq=6))
    t.left.drain()


def test_known_neighbours_stay_known_under_a_flood_of_requests(bench):
    """Replies to the router's own requests are a class of their own, so that a flood of requests cannot displace them."""
    t = bench({"punt": {"arp-request": {"rate": 10}, "nd-solicitation": {"rate": 10}}}, neighbors=False)
    a, b = t.ports["left"], t.ports["right"]
    flood = [FLOODS["arp-request"](a, b), FLOODS["nd-solicitation"](a, b)]
    t.left.send(*flood * 500)
    sent, want = through4(a, b)
    t.left.send(sent)
    asked = t.right.recv(chatter=True)
    while asked is not None and asked[12:14] != b"\x08\x06":
        asked = t.right.recv(chatter=True)
    t.right.send(into(b) / ARP(op=2, hwsrc=b.host_mac, psrc=b.host, hwdst=b.mac, pdst=b.ip))
    t.right.expect(want)
    assert rows(t)["arp-request"]["dropped"] > 400 and rows(t)["nd-solicitation"]["dropped"] > 400


def test_commands(bench):
    t = bench({"punt": {"bgp": "off", "icmp": {"rate": 500}}, "quiver": {"workers": 2}})
    assert (rows(t)["bgp"]["rate"], rows(t)["icmp"]["rate"], rows(t)["icmp"]["burst"]) == (None, 500, 50)
    t.ctl("set punt policer icmp rate 7 burst 3")
    t.ctl("set punt policer local off")
    assert (rows(t)["icmp"]["rate"], rows(t)["icmp"]["burst"], rows(t)["local"]["rate"]) == (7, 3, None)
    a = t.ports["left"]
    t.left.send(*[FLOODS["icmp"](a, a)] * 50)
    wait_for("all are counted", lambda: rows(t)["icmp"]["dropped"] + rows(t)["icmp"]["passed"] == 50)
    per_worker = [r for r in t.router.json("show punt verbose")["classes"] if r["class"] == "icmp"]
    assert [r["worker"] for r in per_worker] == [0, 1]
    assert sum(r["dropped"] for r in per_worker) == rows(t)["icmp"]["dropped"] >= 40
    t.ctl("clear punt")
    assert rows(t)["icmp"]["passed"] == 0
    t.ctl("set punt policer all default")
    assert rows(t)["bgp"]["rate"] == 20000
    with pytest.raises(CtlError, match="no class icpm"):
        t.ctl("set punt policer icpm rate 7")
    wait_for("it is logged", lambda: "punt policer icmp: 7 packets/s, burst 3" in t.router.log())
