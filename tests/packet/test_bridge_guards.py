"""Guards of bridging that no plain traffic meets: each was broken on purpose, and a test here turned red."""

import pytest
from frames import *  # noqa: F403
from frames import ARP, Dot1Q, Ether, ICMPv6ND_NA, ICMPv6ND_NS, IPv6, Raw, udp4, udp6
from harness import Bench, CtlError, wait_for
from test_bridge import A, ALL, B, C, LOOP10, LOOP20, arp_request, bridged, bvi, drain, entries, frame, mac, nsma, solicitation, three

__all__ = ["bvi", "three"]


def passes(t, n):
    """Whatever was sent before has been worked on once this has come through."""
    t.left.send(frame(A, ALL, n=n))
    t.right.expect(frame(A, ALL, n=n))


def test_entries_count_only_with_termination(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {B}")
        t.left.send(arp_request(A, "192.0.2.1", "192.0.2.7"))
        t.right.expect(arp_request(A, "192.0.2.1", "192.0.2.7"))
        t.ctl("set bridge-domain arp term 10")
        # A reply, and a frame that is cut off, are nobody's question.
        for f in (Ether(src=A, dst=ALL) / ARP(op=2, hwsrc=A, psrc="192.0.2.1", hwdst=B, pdst="192.0.2.7"),
                  Ether(src=A, dst=ALL, type=0x0806) / Raw(bytes(20))):
            t.left.send(f)
            t.right.expect(f, chatter=True)


def test_only_solicited_node_groups_are_answered(three):
    t = three
    with bridged(t, "left", "right", options="arp-term 1"):
        t.ctl(f"set bridge-domain arp entry 10 2001:db8::7 {B}")
        to_all = solicitation(A, "2001:db8::1", "2001:db8::7")
        to_all.dst, to_all[IPv6].dst = "33:33:00:00:00:01", "ff02::1"
        with t.counted("l2-arp-term-answered", by=0):
            t.left.send(to_all)
            t.right.expect(to_all)


@pytest.mark.parametrize("size,answer", [(42, 42), (60, 60), (100, 60)])
def test_answers_are_padded_as_requests_are(three, size, answer):
    t = three
    with bridged(t, "left", "right", options="arp-term 1"):
        t.ctl(f"set bridge-domain arp entry 10 192.0.2.7 {B}")
        ask = arp_request(A, "192.0.2.1", "192.0.2.7")
        t.left.send(ask / Raw(bytes(size - 42)))
        reply = Ether(src=B, dst=A) / ARP(op=2, hwsrc=B, psrc="192.0.2.7", hwdst=A, pdst="192.0.2.1")
        t.left.expect(reply / Raw(bytes(answer - 42)))


@pytest.mark.parametrize("bad", ["00:00:00:00:00:00", "01:00:00:00:00:01"])
def test_bad_sources_where_nothing_is_learned(three, bad):
    t = three
    with bridged(t, "left", "right"):
        t.ctl(f"l2fib add {B} 10 right static")
        t.ctl("set bridge-domain learn 10 disable")
        with t.counted("l2-bad-source", by=3):
            t.left.send(frame(A, B), *[frame(bad, B)] * 3, frame(A, B, n=1))
            t.right.expect(frame(A, B), frame(A, B, n=1))


def test_members_that_are_down_get_no_copy(three):
    t = three
    with bridged(t, "left", "right", "third"):
        t.ctl("set interface state third down")
        with t.counted("l2-flood-copies", by=0):
            passes(t, 1)
        t.ctl("set interface state third up")
        wait_for("it has link", lambda: t.router.interface("third")["link"])
        with t.counted("l2-flood-copies"):
            passes(t, 2)
            t.third.expect(frame(A, ALL, n=2))
        # Nor without a link.
        t.outside.ip("link set third down")
        try:
            wait_for("it has no link", lambda: not t.router.interface("third")["link"])
            with t.counted("l2-flood-copies", by=0):
                passes(t, 3)
        finally:
            t.outside.ip("link set third up")
            wait_for("it has link", lambda: t.router.interface("third")["link"])


def test_tags_that_a_copy_cannot_have(three):
    t = three
    with bridged(t, "left", "right", "third"):
        t.ctl("set interface l2 tag-rewrite third push dot1q 100")
        with t.counted("l2-flood-bad-tags"):
            passes(t, 1)
        with t.counted("l2-frame-too-short"):
            t.left.send(frame(B, ALL, Dot1Q(vlan=100)))
            t.right.expect(frame(B, ALL, Dot1Q(vlan=100)))
            t.third.expect(frame(B, ALL))
            t.third.send(frame(C, A))
            t.left.expect(frame(C, A, Dot1Q(vlan=100)))
            t.left.send(bytes(Ether(src=A, dst=C, type=0x88B5)))


def test_a_bridge_domain_of_the_same_number_begins_anew(three):
    t = three
    with bridged(t, "left", "right"):
        t.ctl(f"l2fib add {C} 10 filter")
        t.ctl("set bridge-domain learn-limit 10 1")
        passes(t, 1)
        t.right.send(frame(B, A))
        t.left.expect(frame(B, A))
        assert t.router.json("show bridge-domain 10")[0]["not-learned"] == 1
    with bridged(t, "left", "right"):
        assert entries(t) == {} and t.router.json("show bridge-domain 10")[0]["not-learned"] == 0
        t.left.send(frame(A, C))
        t.right.expect(frame(A, C))


# --- BVI --------------------------------------------------------------------------------------------------------


def test_a_bvi_that_is_down(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    up = Ether(src=A, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2")
    t.ctl("set interface state loop10 down")
    try:
        before = t.router.interface("loop10")["rx"]["packets"]
        with t.counted("bvi-down", by=2):
            t.left.send(up, Ether(src=A, dst=LOOP10) / ARP(op=1, hwsrc=A, psrc="10.10.0.2", pdst="10.10.0.1"))
        # A flood leaves it out.
        passes(t, 1)
        assert t.router.interface("loop10")["rx"]["packets"] == before + 2
    finally:
        t.ctl("set interface state loop10 up")
    t.left.send(up)
    t.third.wait(lambda p: bytes(p) == bytes(Ether(src=t.ports["third"].mac, dst=C) / udp4("10.10.0.2", "10.30.0.2", ttl=63)))


def test_split_horizon_of_a_bvi(bvi):
    t = bvi
    t.ctl("set interface l2 bridge loop10 10 bvi 3")
    t.ctl("set interface l2 bridge left 10 3")
    try:
        drain(t.left, t.right, t.third, t.fourth)
        with t.counted("l2-split-horizon"):
            t.left.send(Ether(src=A, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2"))
        before = t.router.interface("loop10")["rx"]["packets"]
        passes(t, 1)
        assert t.router.interface("loop10")["rx"]["packets"] == before
    finally:
        t.ctl("set interface l2 bridge loop10 10 bvi")
        t.ctl("set interface l2 bridge left 10")


def test_what_a_bvi_does_not_take(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    # Nothing unknown goes up.
    with t.counted("bvi-mac-not-for-us", by=0):
        before = t.router.interface("loop10")["rx"]["packets"]
        t.left.send(frame(A, mac(0xEEE)))
        t.right.expect(frame(A, mac(0xEEE)))
        t.left.send(frame(A, ALL))
        t.right.expect(frame(A, ALL))
        wait_for("the broadcast went up", lambda: t.router.interface("loop10")["rx"]["packets"] == before + 1)
    with t.counted("bvi-tagged-frame"):
        t.left.send(Ether(src=A, dst=LOOP10) / Dot1Q(vlan=9) / udp4("10.10.0.2", "10.30.0.2"))
    with t.counted("bvi-unknown-ethertype"):
        t.left.send(Ether(src=A, dst=LOOP10, type=0x88B5) / bytes(46))
    with t.counted("ip6-not-enabled"):
        t.fourth.send(Ether(src=C, dst=LOOP20) / Dot1Q(vlan=5) / udp6("2001:db8:20::2", "2001:db8:30::2"))
    # A packet for one host in a frame for all (RFC 1812 section 5.3.4).
    with t.counted("ip4-unicast-in-l2-broadcast"):
        t.left.send(Ether(src=A, dst=ALL) / udp4("10.10.0.2", "10.30.0.2"))
    t.ctl("set bridge-domain learn 10 disable")
    try:
        with t.counted("bvi-bad-source-mac"):
            t.left.send(Ether(src=LOOP10, dst=LOOP10) / udp4("10.10.0.2", "10.30.0.2"))
    finally:
        t.ctl("set bridge-domain learn 10")


def test_the_router_is_answered_by_termination_too(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    station = mac(0x88)
    t.ctl("set bridge-domain arp term 10")
    t.ctl(f"set bridge-domain arp entry 10 10.10.0.88 {station}")
    t.ctl(f"set bridge-domain arp entry 10 2001:db8:10::1 {LOOP10}")
    try:
        with t.counted("l2-arp-term-answered"):
            t.third.send(Ether(src=C, dst=t.ports["third"].mac) / udp4("10.30.0.2", "10.10.0.88"))
            want = Ether(src=LOOP10, dst=station) / udp4("10.30.0.2", "10.10.0.88", ttl=63)
            t.left.expect(want)
            t.right.expect(want)
        # Of the router's own address it is known that a router has it.
        t.left.send(solicitation(A, "2001:db8:10::77", "2001:db8:10::1"))
        got = t.left.wait(lambda p: ICMPv6ND_NA in p)
        assert (got[ICMPv6ND_NA].tgt, got[ICMPv6ND_NA].R) == ("2001:db8:10::1", 1)
        # Flooding is off: what has no entry is dropped.
        t.ctl("set bridge-domain flood 10 disable")
        with t.counted("l2-arp-term-flood-off"):
            t.left.send(arp_request(A, "10.10.0.2", "10.10.0.99"))
        # Asked of another one's group, a cut-off solicitation is a frame like others.
        with t.counted("l2-arp-term-flood-off"):
            t.left.send(Ether(src=A, dst="33:33:ff:00:00:01") / IPv6(src="2001:db8:10::77", dst=nsma("2001:db8:10::1"), hlim=254)
                        / ICMPv6ND_NS(tgt="2001:db8:10::1"))
    finally:
        t.ctl("set bridge-domain flood 10")
        t.ctl(f"set bridge-domain arp entry 10 10.10.0.88 {station} del")
        t.ctl(f"set bridge-domain arp entry 10 2001:db8:10::1 {LOOP10} del")
        t.ctl("set bridge-domain arp term 10 disable")


def test_termination_through_tags_and_refused_requests(bvi):
    t = bvi
    drain(t.left, t.right, t.third, t.fourth)
    t.ctl("set bridge-domain arp term 20")
    t.ctl(f"set bridge-domain arp entry 20 10.20.0.9 {B}")
    ask = Ether(src=C, dst=ALL) / Dot1Q(vlan=5) / ARP(op=1, hwsrc=C, psrc="10.20.0.2", hwdst="00:00:00:00:00:00", pdst="10.20.0.9")
    try:
        t.fourth.send(ask)
        t.fourth.expect(Ether(src=B, dst=C) / Dot1Q(vlan=5) / ARP(op=2, hwsrc=B, psrc="10.20.0.9", hwdst=C, pdst="10.20.0.2"))
        # The station is where the question comes from: it has heard it.
        t.ctl("set bridge-domain arp-ufwd 20")
        t.ctl(f"l2fib add {B} 20 fourth.5 static")
        with t.counted("l2-arp-term-refused"):
            t.fourth.send(ask)
    finally:
        t.ctl("set bridge-domain arp-ufwd 20 disable")
        t.ctl(f"l2fib del {B} 20")
        t.ctl(f"set bridge-domain arp entry 20 10.20.0.9 {B} del")
        t.ctl("set bridge-domain arp term 20 disable")


# --- floods are bounded -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffers,reason", [(32768, "l2-flood-too-many-copies"), (1024, "l2-flood-no-buffers")])
def test_copies_are_bounded(buffers, reason):
    """Frames to forty members in vectors of 256 ask for ten thousand copies each; the router stays alive, and counts."""
    subs = {n: {} for n in range(100, 140)}
    b = Bench({"interfaces": {"left": {"sub-interfaces": subs}}, "quiver": {"buffers": {"count": buffers}},
               "bridgedomains": {"bd10": {"interfaces": ["right", *(f"left.{n}" for n in subs)]}}}, addresses=False, neighbors=False)
    try:
        b.ctl(f'packet-generator new flood interface right count 2000 size 64 state enabled data "ethernet src {A} dst {ALL} / ipv4 src 192.0.2.1 dst 192.0.2.2 / udp sport 1 dport 2"')
        wait_for("it is counted", lambda: b.router.errors().get(reason, 0) > 100)
        wait_for("the stream is out", lambda: b.router.json("show packet-generator")[0]["packets"] == 2000)
        wait_for("all that was sent is out", lambda: b.router.in_use() == 0)
        b.left.drain()
        b.right.send(frame(B, A))
        b.left.drain()
        assert entries(b)[A]["interface"] == "right"
    finally:
        b.close()


# --- commands ------------------------------------------------------------------------------------------------------


def test_what_else_is_refused(bvi):
    t = bvi
    t.ctl("create loopback interface instance 77")
    try:
        for line, why in [
            (f"set bridge-domain arp entry 10 0.0.0.0 {B}", "not the address of a station"),
            (f"set bridge-domain arp entry 10 ff02::1 {B}", "not the address of a station"),
            ("set bridge-domain arp entry 10 10.10.0.9 01:00:00:00:00:01", "single station"),
            (f"set bridge-domain arp entry 10 10.10.0.9 {B} del", "there is no entry"),
            ("set interface l2 bridge loop77 10 bvi", "has the BVI loop10 already"),
            ("set interface l2 bridge loop77 10", "is a loopback"),
            ("set interface l2 bridge third 10", "has the address"),
            ("set interface l2 tag-rewrite left pop 1", "1 tag cannot be taken away"),
            ("set interface l2 tag-rewrite loop10 push dot1q 5", "loopback have no tags"),
        ]:
            with pytest.raises(CtlError, match=why):
                t.ctl(line)
        t.ctl("create sub-interfaces fourth 6")
        t.ctl("create sub-interfaces fourth 7")
        t.ctl("set interface l2 xconnect fourth.6 fourth.7")
        for name in ("fourth.6", "fourth.7"):
            with pytest.raises(CtlError, match="is cross-connected"):
                t.ctl(f"set interface l2 bridge {name} 10")
        t.ctl("set interface l3 fourth.6")
        t.ctl("delete sub-interface fourth.6")
        t.ctl("delete sub-interface fourth.7")
    finally:
        t.ctl("delete loopback interface intfc loop77")
