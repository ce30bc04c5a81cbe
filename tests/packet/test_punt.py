"""Control-plane policing: a flood of each class meets its limit and no other; forwarding and the other classes go on."""

import time

import pytest
from frames import *  # noqa: F403
from frames import (
    ARP, ICMP, IP, TCP, UDP, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr, IPv6, fix4, into, out_of, through4, through6, udp4, udp6,
)
from harness import CtlError, Flood, wait_for
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
    "ldp": lambda a, b: into(a) / udp4(a.host, a.ip, sport=646, dport=646),
    "vrrp": lambda a, b: into(a) / IP(src=a.host, dst=a.ip, proto=112) / bytes(24),
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
    """`broadcast`, `isis` and `linux` have packets only where an interface has a pair (test_linux_cp.py), `api` where a program has asked for some. Resets and redirects answer
    packets of other classes."""
    assert set(rows(policed)) - {"api", "broadcast", "isis", "linux", "tcp-reset", "redirect"} == set(FLOODS)


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


# Seconds between two packets of one that has a fair share: a quarter of the limits in `shared`.
PACE = 0.04


def host(n):
    return f"02:00:03:00:00:{n:02x}"


@pytest.fixture(scope="module")
def shared():
    """Limits of a hundred a second, so that a flood is one whatever the machine is busy with."""
    from harness import Bench

    classes = ("arp-request", "arp-reply", "nd-solicitation", "nd-advertisement", "icmp", "icmp6")
    t = Bench({"punt": {c: {"rate": 100, "burst": 50} for c in classes}}, ports=("left", "right", "source"))
    yield t
    t.close()


def ask4(p, n):
    return Ether(dst=GROUP, src=host(n)) / ARP(op=1, hwsrc=host(n), psrc=f"10.0.{p.n}.{n}", pdst=p.ip)


def ask6(p, n):
    source = f"2001:db8:{p.n}::{n:x}"
    return Ether(dst=p.mac, src=host(n)) / IPv6(src=source, dst=p.ip6, hlim=255) / ICMPv6ND_NS(tgt=p.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=host(n))


def answer4(p, n):
    return Ether(dst=p.mac, src=host(n)) / ARP(op=2, hwsrc=host(n), psrc=f"10.0.{p.n}.{n}", hwdst=p.mac, pdst=p.ip)


def answer6(p, n):
    address = f"2001:db8:{p.n}::{n:x}"
    return (Ether(dst=p.mac, src=host(n)) / IPv6(src=address, dst=p.ip6, hlim=255) / ICMPv6ND_NA(tgt=address, R=0, S=1, O=1)
            / ICMPv6NDOptDstLLAddr(lladdr=host(n)))


@pytest.mark.parametrize("v6", [False, True], ids=["arp", "nd"])
def test_a_flood_of_requests_leaves_hosts_of_other_ports_their_answers(shared, v6):
    t, name, ask = shared, "nd-solicitation" if v6 else "arp-request", ask6 if v6 else ask4
    left, right = t.ports["left"], t.ports["right"]
    with Flood(t.left, [ask(left, n) for n in range(100, 200)], 1000):
        wait_for("the limit", lambda: rows(t)[name]["dropped"] > 500)
        for n in range(100, 120):
            t.right.send(ask(right, n))
            frame = t.right.wait(lambda f, n=n: f.dst == host(n) and (ICMPv6ND_NA in f if v6 else ARP in f), timeout=2)
            assert frame.src == right.mac
            time.sleep(PACE)
    row = rows(t)[name]
    assert row["spared"] >= 15 and row["passed"] > row["spared"], row
    t.left.drain()


@pytest.mark.parametrize("v6", [False, True], ids=["icmp", "icmp6"])
def test_a_flood_of_pings_leaves_those_of_other_ports_their_answers(shared, v6):
    t, name = shared, "icmp6" if v6 else "icmp"
    left, right = t.ports["left"], t.ports["right"]
    with Flood(t.left, [FLOODS[name](left, right)], 1000):
        wait_for("the limit", lambda: rows(t)[name]["dropped"] > 500)
        for n in range(30):
            time.sleep(PACE)
            if v6:
                t.right.send(into(right) / IPv6(src=right.host6, dst=right.ip6) / ICMPv6EchoRequest(id=5, seq=n))
                t.right.expect(out_of(right) / IPv6(src=right.ip6, dst=right.host6, hlim=64) / ICMPv6EchoReply(id=5, seq=n), timeout=2)
            else:
                t.right.send(into(right) / IP(src=right.host, dst=right.ip, id=7) / ICMP(type=8, id=5, seq=n))
                t.right.expect(out_of(right) / IP(src=right.ip, dst=right.host, id=7, ttl=64) / ICMP(type=0, id=5, seq=n), timeout=2)
    t.left.drain()


@pytest.mark.parametrize("v6", [False, True], ids=["arp", "nd"])
@pytest.mark.parametrize("port", ["left", "right"])
def test_a_flood_of_answers_leaves_room_for_those_that_the_router_asked_for(shared, v6, port):
    """On the same port as well."""
    t, name, answer = shared, "nd-advertisement" if v6 else "arp-reply", answer6 if v6 else answer4
    source, p, wire = t.ports["source"], t.ports[port], getattr(t, port)
    with Flood(t.left, [answer(t.ports["left"], n) for n in range(200, 250)], 1000):
        wait_for("the limit", lambda: rows(t)[name]["dropped"] > 500)
        for n in range(20, 30):
            wire.drain()
            if v6:
                to = f"2001:db8:{p.n}::{n:x}"
                t.source.send(into(source) / udp6(source.host6, to))
                wire.wait(lambda f, to=to: ICMPv6ND_NS in f and f[ICMPv6ND_NS].tgt == to)
            else:
                to = f"10.0.{p.n}.{n}"
                t.source.send(into(source) / udp4(source.host, to))
                wire.wait(lambda f, to=to: ARP in f and f[ARP].pdst == to)
            # Once: the router repeats its question, an answer that is lost would only come late.
            wire.send(answer(p, n))
            wire.wait(lambda f, n=n: f.dst == host(n) and UDP in f, timeout=3)
            # The room is a quarter of the burst: ten at once, on a machine that is quick, are more.
            time.sleep(PACE)
    t.left.drain()


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
