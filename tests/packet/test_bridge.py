"""Bridge domains: learning, flooding, static addresses, split horizon, tags, BVI, ARP termination, limits."""

import contextlib
import random

import pytest
from frames import *  # noqa: F403
from frames import (
    ARP, Dot1AD, Dot1Q, Ether, ICMP, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IP, IPv6,
    in6_getnsma, in6_getnsmac, udp4,
)
from harness import Bench, CtlError, wait_for

ALL = "ff:ff:ff:ff:ff:ff"


def mac(n):
    return f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}"


FEATURES = ("learn", "forward", "flood", "uu-flood", "arp-term")
A, B, C = mac(0xA), mac(0xB), mac(0xC)


def frame(src, dst, *tags, n=0):
    """A frame with recognisable contents."""
    f = Ether(src=src, dst=dst)
    for t in tags:
        f = f / t
    return f / udp4("192.0.2.1", "192.0.2.2", sport=1000 + n)


@pytest.fixture(scope="module")
def three():
    """Three ports without addresses."""
    b = Bench({}, ports=("left", "right", "third"), addresses=False, neighbors=False)
    yield b
    b.close()


@contextlib.contextmanager
def bridged(b, *ports, bridge=10, options=""):
    """The ports in a bridge domain; afterwards they are what they were."""
    b.ctl(f"create bridge-domain {bridge} {options}".strip())
    names = []
    for p in ports:
        name, *more = p.split()
        names.append(name)
        b.ctl(" ".join([f"set interface l2 bridge {name} {bridge}", *more]))
    try:
        yield
    finally:
        for name in names:
            b.ctl(f"set interface l2 tag-rewrite {name} disable")
            for feature in FEATURES:
                b.ctl(f"set interface l2 {feature} {name}")
            b.ctl(f"set interface l2 learn-limit {name} disable")
            b.ctl(f"set interface l3 {name}")
        b.ctl(f"create bridge-domain {bridge} del")


def entries(b, bridge=10):
    return {e["mac"]: e for e in b.router.json(f"show l2fib bd_id {bridge}")["entries"]}


def test_flood_then_forward(three):
    t = three
    with bridged(t, "left", "right", "third"):
        f = frame(A, B)
        t.left.send(f)
        t.right.expect(f)
        t.third.expect(f)
        back = frame(B, A, n=1)
        t.right.send(back)
        t.left.expect(back)
        # Both are known now: the third port sees neither; the next thing that it sees is a broadcast.
        t.left.send(frame(A, B, n=2))
        t.right.expect(frame(A, B, n=2))
        for group in (ALL, "01:00:5e:00:00:05", "33:33:00:00:00:01"):
            t.right.send(frame(B, group))
            t.left.expect(frame(B, group))
            t.third.expect(frame(B, group))
        got = entries(t)
        assert {m: e["interface"] for m, e in got.items()} == {A: "left", B: "right"}


def test_two_bridge_domains_do_not_meet(three):
    t = three
    with bridged(t, "left", "right"), bridged(t, "third", bridge=11):
        t.left.send(frame(A, B))
        t.right.expect(frame(A, B))
        t.third.send(frame(A, ALL))
        t.left.send(frame(A, B, n=1))
        t.right.expect(frame(A, B, n=1))
        assert entries(t)[A]["interface"] == "left" and entries(t, 11)[A]["interface"] == "third"


@pytest.mark.parametrize("last", range(16))
def test_link_local_groups_do_not_pass(three, last):
    t = three
    with bridged(t, "left", "right"):
        with t.counted("l2-link-local-multicast"):
            t.left.send(frame(C, f"01:80:c2:00:00:{last:02x}"), frame(A, B))
            t.right.expect(frame(A, B))
        assert C not in entries(t)


def test_the_next_group_passes(three):
    t = three
    with bridged(t, "left", "right"):
        t.left.send(frame(A, "01:80:c2:00:00:10"))
        t.right.expect(frame(A, "01:80:c2:00:00:10"))


@pytest.mark.parametrize("bad", ["00:00:00:00:00:00", "01:00:00:00:00:01", ALL])
def test_bad_sources(three, bad):
    t = three
    with bridged(t, "left", "right"):
        with t.counted("l2-bad-source"):
            t.left.send(frame(bad, B), frame(A, B))
            t.right.expect(frame(A, B))
        assert set(entries(t)) == {A}


def test_move(three):
    t = three
    with bridged(t, "left", "right", "third"):
        t.left.send(frame(A, ALL))
        t.right.expect(frame(A, ALL))
        t.third.expect(frame(A, ALL))
        t.right.send(frame(A, ALL, n=1))
        t.left.expect(frame(A, ALL, n=1))
        t.third.expect(frame(A, ALL, n=1))
        t.third.send(frame(B, A))
        t.right.expect(frame(B, A))
        assert t.router.json("show bridge-domain 10 detail")[0]["moves"] == 1
        assert entries(t)[A]["interface"] == "right"


def test_same_interface(three):
    t = three
    with bridged(t, "left", "right"):
        t.left.send(frame(A, ALL), frame(B, ALL))
        t.right.expect(frame(A, ALL))
        t.right.expect(frame(B, ALL))
        with t.counted("l2-same-interface"):
            t.left.send(frame(A, B), frame(A, C))
            t.right.expect(frame(A, C))


def test_static_addresses(three):
    t = three
    with bridged(t, "left", "right", "third"):
        t.ctl(f"l2fib add {B} 10 right static")
        t.left.send(frame(A, B), frame(A, ALL))
        t.right.expect(frame(A, B))
        t.right.expect(frame(A, ALL))
        t.third.expect(frame(A, ALL))
        # It stays where it was put.
        with t.counted("l2-static-mac-moved"):
            t.third.send(frame(B, ALL))
            t.third.send(frame(C, ALL))
            t.left.expect(frame(C, ALL))
            t.right.expect(frame(C, ALL))
        t.ctl("l2fib flush-mac all")
        assert {m: e["static"] for m, e in entries(t).items()} == {B: True}
        t.right.send(frame(B, A, n=7))
        t.left.expect(frame(B, A, n=7))
        t.third.expect(frame(B, A, n=7))
        t.ctl(f"l2fib del {B} 10")
        assert entries(t) == {}
        t.ctl(f"l2fib add {B} 10 right")
        t.left.send(frame(A, B, n=3), frame(A, ALL, n=4))
        t.third.expect(frame(A, ALL, n=4))
        t.right.expect(frame(A, B, n=3))
        t.right.expect(frame(A, ALL, n=4))


def test_filter(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl(f"l2fib add {C} 10 filter")
        with t.counted("l2-filter", by=2):
            t.left.send(frame(A, C), frame(C, A), frame(A, B))
            t.right.expect(frame(A, B))


def test_split_horizon(three):
    t = three
    with bridged(t, "left 1", "right 1", "third"):
        t.left.send(frame(A, ALL))
        t.third.expect(frame(A, ALL))
        t.third.send(frame(C, ALL))
        t.left.expect(frame(C, ALL))
        t.right.expect(frame(C, ALL))
        with t.counted("l2-split-horizon"):
            t.right.send(frame(B, A), frame(B, C))
            t.third.expect(frame(B, C))
        t.third.send(frame(C, A, n=1))
        t.left.expect(frame(C, A, n=1))


def test_switches(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl("set bridge-domain uu-flood 10 disable")
        with t.counted("l2-unknown-unicast"):
            t.left.send(frame(A, B), frame(A, ALL))
            t.right.expect(frame(A, ALL))
        t.right.send(frame(B, A))
        t.left.expect(frame(B, A))
        t.ctl("set bridge-domain flood 10 disable")
        with t.counted("l2-flood-off"):
            t.left.send(frame(A, ALL), frame(A, B))
            t.right.expect(frame(A, B))
        t.ctl("set bridge-domain forward 10 disable")
        with t.counted("l2-unknown-unicast"):
            t.left.send(frame(A, B))
            wait_for("the drop", lambda: t.router.errors().get("l2-unknown-unicast", 0))
        t.ctl("set bridge-domain uu-flood 10")
        t.left.send(frame(A, B, n=2))
        t.right.expect(frame(A, B, n=2))
        t.ctl("set bridge-domain learn 10 disable")
        t.left.send(frame(C, B, n=3))
        t.right.expect(frame(C, B, n=3))
        assert C not in entries(t)


def test_alone(three):
    t = three
    with bridged(t, "left"):
        with t.counted("l2-flood-no-member"):
            t.left.send(frame(A, ALL))
            wait_for("the address", lambda: A in entries(t))


def test_what_an_interface_lets_its_bridge_domain_do(three):
    t = three
    with bridged(t, "left", "right", "third"):
        t.ctl("set interface l2 learn left disable")
        t.left.send(frame(A, ALL))
        t.right.send(frame(B, ALL, n=1))
        t.third.expect(frame(A, ALL), frame(B, ALL, n=1))
        t.right.expect(frame(A, ALL))
        t.left.expect(frame(B, ALL, n=1))
        assert set(entries(t)) == {B}
        assert t.router.json("show bridge-domain 10 detail")[0]["members"][0]["off"] == ["learn"]
        assert "off: learn" in t.ctl("show bridge-domain 10 detail")
        t.ctl("set interface l2 learn left")
        # To a known address as if it were unknown, and then not that either.
        t.ctl("set interface l2 forward left disable")
        t.left.send(frame(A, B, n=2))
        t.right.expect(frame(A, B, n=2))
        t.third.expect(frame(A, B, n=2))
        t.ctl("set interface l2 uu-flood left disable")
        with t.counted("l2-unknown-unicast"):
            t.left.send(frame(A, B, n=3))
        t.ctl("set interface l2 forward left")
        t.left.send(frame(A, B, n=4))
        t.right.expect(frame(A, B, n=4))
        # Other interfaces do all of it.
        t.right.send(frame(B, C, n=5))
        t.left.expect(frame(B, C, n=5))
        t.third.expect(frame(B, C, n=5))
        t.ctl("set interface l2 flood left disable")
        with t.counted("l2-flood-off"):
            t.left.send(frame(A, ALL, n=6))
        # What the bridge domain does not do no interface does.
        t.ctl("set interface l2 flood left")
        t.ctl("set bridge-domain flood 10 disable")
        with t.counted("l2-flood-off"):
            t.left.send(frame(A, ALL, n=7))


def test_arp_termination_of_one_interface(three):
    t = three
    with bridged(t, "left", "right", options="arp-term 1"):
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {C}")
        ask = lambda src, ip: Ether(src=src, dst=ALL) / ARP(op=1, hwsrc=src, psrc=ip, pdst="192.0.2.7")  # noqa: E731
        t.ctl("set interface l2 arp-term left disable")
        t.left.send(ask(A, "192.0.2.1"))
        t.right.expect(ask(A, "192.0.2.1"))
        t.right.send(ask(B, "192.0.2.2"))
        assert t.right.recv()[28:32] == bytes([192, 0, 2, 7])
        t.ctl("set interface l2 arp-term left")
        t.left.send(ask(A, "192.0.2.1"))
        assert t.left.recv()[28:32] == bytes([192, 0, 2, 7])


q = lambda v, prio=0: Dot1Q(vlan=v, prio=prio)  # noqa: E731
ad = lambda v, prio=0: Dot1AD(vlan=v, prio=prio)  # noqa: E731

# Change, tags of the frame that comes in on the sub-interface or port, tags with which it goes out of a plain port.
PLAIN = [
    ("push dot1q 100", [], [q(100)]),
    ("push dot1ad 100", [], [ad(100)]),
    ("push dot1q 100 200", [], [q(100), q(200)]),
    ("push dot1ad 100 200", [], [ad(100), q(200)]),
    ("push dot1q 100", [q(7, 3)], [q(100), q(7, 3)]),
    ("disable", [q(7, 3)], [q(7, 3)]),
]


@pytest.mark.parametrize("change,before,after", PLAIN, ids=lambda p: str(p)[:20])
def test_push(three, change, before, after):
    t = three
    with bridged(t, "left", "right"):
        t.ctl(f"set interface l2 tag-rewrite left {change}")
        t.left.send(frame(A, ALL, *before))
        t.right.expect(frame(A, ALL, *after))
        t.right.send(frame(B, A, *after))
        t.left.expect(frame(B, A, *before))
        t.right.send(frame(B, ALL, *after, n=5))
        t.left.expect(frame(B, ALL, *before, n=5))
        if change != "disable":
            # Without the tags that are to go, a frame cannot go out.
            with t.counted("l2-no-tag-to-pop"):
                t.right.send(frame(B, A))
                wait_for("the drop", lambda: t.router.errors().get("l2-no-tag-to-pop", 0))


SUBS = {
    1: ({"dot1q": 10, "exact-match": True}, lambda p: [q(10, p)]),
    2: ({"dot1ad": 20, "exact-match": True}, lambda p: [ad(20, p)]),
    3: ({"dot1q": 30, "inner-dot1q": 31, "exact-match": True}, lambda p: [q(30, p), q(31, p)]),
    4: ({"dot1ad": 40, "inner-dot1q": 41, "exact-match": True}, lambda p: [ad(40, p), q(41, p)]),
}

# Sub-interface, change, what is inside when the frame is on the bridge: priorities by place.
CHANGES = [
    (1, None, lambda p: [q(10, p)]),
    (2, None, lambda p: [ad(20, p)]),
    (3, None, lambda p: [q(30, p), q(31, p)]),
    (4, None, lambda p: [ad(40, p), q(41, p)]),
    (2, "pop 1", lambda p: []),
    (1, "pop 1", lambda p: []),
    (3, "pop 1", lambda p: [q(31, p)]),
    (3, "pop 2", lambda p: []),
    (4, "pop 2", lambda p: []),
    (4, "pop 1", lambda p: [q(41, p)]),
    (1, "disable", lambda p: [q(10, p)]),
    (4, "disable", lambda p: [ad(40, p), q(41, p)]),
    (1, "push dot1ad 100", lambda p: [ad(100), q(10, p)]),
    (1, "translate 1-1 dot1q 100", lambda p: [q(100, p)]),
    (1, "translate 1-1 dot1ad 100", lambda p: [ad(100, p)]),
    (2, "translate 1-1 dot1q 100", lambda p: [q(100, p)]),
    (1, "translate 1-2 dot1q 100 200", lambda p: [q(100, p), q(200)]),
    (1, "translate 1-2 dot1ad 100 200", lambda p: [ad(100, p), q(200)]),
    (3, "translate 2-1 dot1q 100", lambda p: [q(100, p)]),
    (4, "translate 2-1 dot1ad 100", lambda p: [ad(100, p)]),
    (3, "translate 2-2 dot1ad 100 200", lambda p: [ad(100, p), q(200, p)]),
    (4, "translate 2-2 dot1q 100 200", lambda p: [q(100, p), q(200, p)]),
    (3, "translate 1-1 dot1q 100", lambda p: [q(100, p), q(31, p)]),
]


@pytest.fixture(scope="module")
def subs():
    config = {"interfaces": {"left": {"sub-interfaces": {n: {"encapsulation": e} for n, (e, _) in SUBS.items()}}}}
    b = Bench(config, addresses=False, neighbors=False)
    yield b
    b.close()


@pytest.mark.parametrize("sub,change,inside", CHANGES, ids=lambda p: str(p)[:30])
def test_tags_of_sub_interfaces(subs, sub, change, inside):
    t, tags = subs, SUBS[sub][1]
    name = f"left.{sub}"
    with bridged(t, name, "right"):
        if change:
            t.ctl(f"set interface l2 tag-rewrite {name} {change}")
        change = change or "disable"
        t.left.send(frame(A, ALL, *tags(5)))
        t.right.expect(frame(A, ALL, *inside(5)))
        # Back again: tags that are put back have the priority of those in whose place they come, or none.
        back = frame(B, A, *inside(5), n=1)
        t.right.send(back)
        want = [w.copy() for w in tags(5)]
        if change.startswith("pop"):
            gone = int(change[-1])
            for w in want[:gone]:
                w.prio = 0
        elif change.startswith("translate 1-") or change.startswith("translate 2-1"):
            if change.startswith("translate 2-1"):
                want[1].prio = 0
        t.left.expect(frame(B, A, *want, n=1))


def test_what_cannot_be_popped(subs):
    for change in ("pop 2", "translate 2-1 dot1q 7"):
        with pytest.raises(CtlError, match="cannot be taken away"):
            subs.ctl(f"set interface l2 tag-rewrite left.1 {change}")
    with pytest.raises(CtlError, match="needs 2 VLANs"):
        subs.ctl("set interface l2 tag-rewrite left.1 translate 1-2 dot1q 7")


def test_between_sub_interfaces(subs):
    t = subs
    with bridged(t, "left.1", "left.4", "right"):
        t.left.send(frame(A, B, q(10)))
        for wire in (t.left, t.right):
            wire.expect(frame(A, B, q(10)))
        t.ctl("set interface l2 tag-rewrite left.1 pop 1")
        t.ctl("set interface l2 tag-rewrite left.4 pop 2")
        t.left.send(frame(A, B, q(10)))
        got = {bytes(t.left.recv())}
        assert got == {bytes(frame(A, B, ad(40), q(41)))}
        t.right.expect(frame(A, B))


# --- limits -----------------------------------------------------------------------------------------------------


def test_limit_of_a_bridge_domain(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl("set bridge-domain learn-limit 10 3")
        with t.counted("l2-mac-limit-bridge", by=2):
            for n in range(5):
                t.left.send(frame(mac(n + 1), ALL, n=n))
                t.right.expect(frame(mac(n + 1), ALL, n=n))
        assert len(entries(t)) == 3
        assert t.router.json("show bridge-domain 10 detail")[0]["not-learned"] == 2
        t.ctl("l2fib flush-mac bridge-domain 10")
        t.left.send(frame(mac(9), ALL))
        t.right.expect(frame(mac(9), ALL))
        assert set(entries(t)) == {mac(9)}


def test_limit_of_an_interface(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl("set interface l2 learn-limit left 2")
        with t.counted("l2-mac-limit-interface", by=3):
            for n in range(5):
                t.left.send(frame(mac(n + 1), ALL, n=n))
                t.right.expect(frame(mac(n + 1), ALL, n=n))
            t.right.send(frame(B, ALL))
            t.left.expect(frame(B, ALL))
        members = {m["interface"]: m for m in t.router.json("show bridge-domain 10 detail")[0]["members"]}
        assert (members["left"]["learned"], members["left"]["not-learned"]) == (2, 3)
        assert (members["right"]["learned"], members["right"]["not-learned"]) == (1, 0)


def test_flood_of_addresses(three):
    """A flood of source addresses fills no more than its limit, is counted, and known stations talk on."""
    t = three
    with bridged(t, "left", "right", "third"):
        t.ctl("set interface l2 learn-limit third 500")
        t.left.send(frame(A, ALL))
        t.right.expect(frame(A, ALL))
        t.third.expect(frame(A, ALL))
        t.right.send(frame(B, A))
        t.left.expect(frame(B, A))
        rng = random.Random(1)
        before = t.router.errors().get("l2-mac-limit-interface", 0)
        flood = [frame(f"06:{rng.randrange(256):02x}:{n >> 16:02x}:{n >> 8 & 255:02x}:{n & 255:02x}:01", A)
                 for n in range(2000)]
        for at in range(0, len(flood), 100):
            t.third.send(*flood[at:at + 100])
            for f in flood[at:at + 100]:
                t.left.expect(f)
        wait_for("the counter", lambda: t.router.errors().get("l2-mac-limit-interface", 0) - before == 1500)
        assert len(entries(t)) == 502
        t.left.send(frame(A, B, n=9))
        t.right.expect(frame(A, B, n=9))


# --- BVI --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bvi():
    """Two bridge domains with BVIs, and a routed port."""
    config = {
        "loopbacks": {
            "loop10": {"mac": "02:00:00:00:10:10", "addresses": ["10.10.0.1/24", "2001:db8:10::1/64"]},
            "loop20": {"mac": "02:00:00:00:20:20", "addresses": ["10.20.0.1/24"]},
        },
        "interfaces": {"third": {"addresses": ["10.30.0.1/24", "2001:db8:30::1/64"]},
                       "fourth": {"sub-interfaces": {5: {}}}},
        "bridgedomains": {
            "bd10": {"bvi": "loop10", "interfaces": ["left", "right"]},
            "bd20": {"bvi": "loop20", "interfaces": ["fourth.5"]},
        },
        "neighbors": [{"interface": "third", "address": "10.30.0.2", "mac": C},
                      {"interface": "third", "address": "2001:db8:30::2", "mac": C}],
    }
    b = Bench(config, ports=("left", "right", "third", "fourth"), addresses=False, neighbors=False)
    yield b
    b.close()


LOOP10, LOOP20 = "02:00:00:00:10:10", "02:00:00:00:20:20"


def drain(*wires):
    for w in wires:
        w.drain()


def resolve(t, wire, others, station, address, bvi_mac, bvi_address, *tags):
    """The station asks for the BVI by ARP and is answered; the router learns it."""
    ask = Ether(src=station, dst=ALL)
    for tag in tags:
        ask = ask / tag
    ask = ask / ARP(op=1, hwsrc=station, psrc=address, hwdst="00:00:00:00:00:00", pdst=bvi_address)
    wire.send(ask)
    for o in others:
        o.expect(Ether(src=station, dst=ALL) / ARP(op=1, hwsrc=station, psrc=address, hwdst="00:00:00:00:00:00",
                                                   pdst=bvi_address))
    want = Ether(src=bvi_mac, dst=station)
    for tag in tags:
        want = want / tag
    want = want / ARP(op=2, hwsrc=bvi_mac, psrc=bvi_address, hwdst=station, pdst=address)
    wire.expect(want)
    # The worker answers; the control side learns, a moment later.
    known = {"ip": address, "ethernet": station}
    wait_for("the router knows the station",
             lambda: any(known.items() <= r.items() for r in t.router.json("show ip neighbors")))


def test_routes_between_a_bridge_and_others(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    third = t.ports["third"]
    resolve(t, t.left, [t.right], A, "10.10.0.2", LOOP10, "10.10.0.1")
    # Up, and out of a routed port.
    up = Ether(src=A, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2")
    t.left.send(up)
    t.third.expect(Ether(src=third.mac, dst=C) / udp4("10.10.0.2", "10.30.0.2", ttl=63))
    # Down again, to the member behind which the station is and no other.
    t.third.send(Ether(src=C, dst=third.mac) / udp4("10.30.0.2", "10.10.0.2"))
    t.left.expect(Ether(src=LOOP10, dst=A) / udp4("10.30.0.2", "10.10.0.2", ttl=63))
    t.left.send(Ether(src=A, dst=LOOP10) / udp6("2001:db8:10::2", "2001:db8:30::2"))  # noqa: F405
    t.third.expect(Ether(src=third.mac, dst=C) / udp6("2001:db8:10::2", "2001:db8:30::2", hlim=63))  # noqa: F405
    # Its own address answers.
    t.left.send(Ether(src=A, dst=LOOP10) / IP(src="10.10.0.2", dst="10.10.0.1", id=3) / ICMP())
    t.left.expect(Ether(src=LOOP10, dst=A) / IP(src="10.10.0.1", dst="10.10.0.2", id=3, ttl=64) / ICMP(type=0))
    # The station moves: what goes down follows.
    t.right.send(Ether(src=A, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2", sport=77))
    t.third.expect(Ether(src=third.mac, dst=C) / udp4("10.10.0.2", "10.30.0.2", sport=77, ttl=63))
    t.third.send(Ether(src=C, dst=third.mac) / udp4("10.30.0.2", "10.10.0.2"))
    t.right.expect(Ether(src=LOOP10, dst=A) / udp4("10.30.0.2", "10.10.0.2", ttl=63))
    # Between stations of the bridge domain the router has no part.
    t.left.send(frame(B, A))
    t.right.expect(frame(B, A))


def test_routes_between_two_bridge_domains(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    resolve(t, t.left, [t.right], B, "10.10.0.3", LOOP10, "10.10.0.1")
    resolve(t, t.fourth, [], C, "10.20.0.2", LOOP20, "10.20.0.1", Dot1Q(vlan=5))
    t.left.send(Ether(src=B, dst=LOOP10) / udp4("10.10.0.3", "10.20.0.2"))
    t.fourth.expect(Ether(src=LOOP20, dst=C) / Dot1Q(vlan=5) / udp4("10.10.0.3", "10.20.0.2", ttl=63))
    t.fourth.send(Ether(src=C, dst=LOOP20) / Dot1Q(vlan=5) / udp4("10.20.0.2", "10.10.0.3"))
    t.left.expect(Ether(src=LOOP10, dst=B) / udp4("10.20.0.2", "10.10.0.3", ttl=63))


def test_the_router_asks_in_a_bridge_domain(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    third = t.ports["third"]
    t.third.send(Ether(src=C, dst=third.mac) / udp4("10.30.0.2", "10.10.0.77"))
    ask = Ether(src=LOOP10, dst=ALL) / ARP(op=1, hwsrc=LOOP10, psrc="10.10.0.1", hwdst="00:00:00:00:00:00",
                                          pdst="10.10.0.77")
    t.left.expect(ask)
    t.right.expect(ask)
    station = mac(0x77)
    t.right.send(Ether(src=station, dst=LOOP10) / ARP(op=2, hwsrc=station, psrc="10.10.0.77", hwdst=LOOP10, pdst="10.10.0.1"))
    t.right.expect(Ether(src=LOOP10, dst=station) / udp4("10.30.0.2", "10.10.0.77", ttl=63))


def test_counters_and_spoofing_of_a_bvi(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    before = t.router.interface("loop10")
    up = Ether(src=A, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2", sport=5)
    t.left.send(up)
    t.third.expect(Ether(src=t.ports["third"].mac, dst=C) / udp4("10.10.0.2", "10.30.0.2", sport=5, ttl=63))
    wait_for("the counter", lambda: t.router.interface("loop10")["rx"]["packets"] == before["rx"]["packets"] + 1)
    with t.counted("l2-static-mac-moved"):
        t.left.send(frame(LOOP10, ALL), frame(mac(5), ALL))
        t.right.expect(frame(mac(5), ALL))
    assert entries(t)[LOOP10]["bvi"]
    with pytest.raises(CtlError, match="is the address of its BVI"):
        t.ctl(f"l2fib del {LOOP10} 10")


# --- ARP and ND termination --------------------------------------------------------------------------------------


def arp_request(station, address, target):
    return Ether(src=station, dst=ALL) / ARP(op=1, hwsrc=station, psrc=address, hwdst="00:00:00:00:00:00", pdst=target)


def test_arp_termination(three):
    t = three
    with bridged(t, "left", "right", options="arp-term 1"):
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {B}")
        with t.counted("l2-arp-term-answered"):
            t.left.send(arp_request(A, "192.0.2.1", "192.0.2.7"))
            t.left.expect(Ether(src=B, dst=A) / ARP(op=2, hwsrc=B, psrc="192.0.2.7", hwdst=A, pdst="192.0.2.1"))
        # Not flooded; what has no entry is, and what a station says of itself.
        for f in (arp_request(A, "192.0.2.1", "192.0.2.8"), arp_request(A, "192.0.2.7", "192.0.2.7"),
                  arp_request(B, "0.0.0.0", "192.0.2.7")):
            t.left.send(f)
            t.right.expect(f, chatter=True)
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {B} del")
        t.left.send(arp_request(A, "192.0.2.1", "192.0.2.7"))
        t.right.expect(arp_request(A, "192.0.2.1", "192.0.2.7"))


def solicitation(station, address, target):
    return (Ether(src=station, dst=in6_getnsmac_of(target)) / IPv6(src=address, dst=nsma(target), hlim=255)
            / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=station))


def nsma(target):
    import socket
    return socket.inet_ntop(socket.AF_INET6, in6_getnsma(socket.inet_pton(socket.AF_INET6, target)))


def in6_getnsmac_of(target):
    import socket
    return in6_getnsmac(in6_getnsma(socket.inet_pton(socket.AF_INET6, target)))


def test_nd_termination(three):
    t = three
    with bridged(t, "left", "right", options="arp-term 1"):
        t.ctl(f"set bridge-domain arp entry 10 2001:db8::7 {B}")
        with t.counted("l2-arp-term-answered"):
            t.left.send(solicitation(A, "2001:db8::1", "2001:db8::7"))
            t.left.expect(Ether(src=B, dst=A) / IPv6(src="2001:db8::7", dst="2001:db8::1", hlim=255)
                          / ICMPv6ND_NA(tgt="2001:db8::7", R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=B))
        other = solicitation(A, "2001:db8::1", "2001:db8::8")
        t.left.send(other)
        t.right.expect(other)


def test_arp_unicast_forward(three):
    t = three
    with bridged(t, "left", "right", "third", options="arp-term 1 arp-ufwd 1"):
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {B}")
        t.ctl(f"l2fib add {B} 10 right static")
        with t.counted("l2-arp-term-unicast"):
            ask = arp_request(A, "192.0.2.1", "192.0.2.7")
            t.left.send(ask)
            ask.dst = B
            t.right.expect(ask)
        t.left.send(frame(A, ALL))
        t.third.expect(frame(A, ALL))


# --- commands ----------------------------------------------------------------------------------------------------


def test_what_is_refused(three):
    t = three
    with bridged(t, "left", "right"):
        for line, why in [
            ("create bridge-domain 10 del", "take them out first"),
            ("create bridge-domain 10", "already"),
            ("set interface l2 xconnect left third", "is in bridge domain 10"),
            ("set interface l2 bridge third 10 bvi", "only a loopback"),
            ("set interface ip address left 10.9.0.1/24", "is in bridge domain 10"),
            (f"l2fib add {A} 10 third static", "no member"),
            (f"l2fib del {A} 10", "there is no address"),
            ("l2fib add 01:00:00:00:00:01 10 left static", "single station"),
            ("show bridge-domain 11", "no bridge domain 11"),
        ]:
            with pytest.raises(CtlError, match=why):
                t.ctl(line)
    assert "no bridge domains" in t.ctl("show bridge-domain")


def test_shown(three):
    t = three
    with bridged(t, "left 3", "right"):
        t.ctl("set interface l2 tag-rewrite left push dot1ad 7 8")
        text = t.ctl("show bridge-domain 10 detail")
        assert "push dot1ad 7 8" in text and "left" in text
        assert "l2 bridge left bd_id 10 shg 3" in t.ctl("show mode left")
        assert "total/learned entries: 0/0" in t.ctl("show l2fib")
