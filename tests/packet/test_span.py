"""Mirrors (span): what a port receives and sends goes out of another one as well, as it is on the wire, and no copy is mirrored."""

import contextlib

import pytest
from frames import *  # noqa: F403
from frames import Dot1Q, Ether, into, out_of, through4, through6, udp4
from harness import Bench, CtlError, wait_for
from scapy.contrib.mpls import MPLS

SUB = {100: {"addresses": ["10.1.0.1/24"]}}


@pytest.fixture(scope="module")
def four():
    """Ports `left` and `right` route; `probe` and `spare` have no address."""
    extra = {"interfaces": {"left": {"sub-interfaces": SUB}, "probe": {"sub-interfaces": {9: {}}}},
             "neighbors": [{"interface": "left.100", "address": "10.1.0.2", "mac": "02:00:00:00:01:02"}]}
    b = Bench(extra, ports=("left", "right", "probe", "spare"))
    for name in ("probe", "spare"):
        for address in (b.ports[name].host, b.ports[name].host6):
            b.ctl(f"ip neighbor del {name} {address}")
        b.ctl(f"set interface ip address del {name} all")
    yield b
    b.close()


@contextlib.contextmanager
def span(b, *mirrors):
    """Mirrors such as `left destination probe rx`; afterwards there are none."""
    for m in mirrors:
        b.ctl(f"set interface span {m}")
    try:
        yield
    finally:
        for source in {r["source"] for r in b.router.json("show interface span")}:
            b.ctl(f"set interface span {source} disable")


def counted(t, reason, by, act):
    """As the bench's `counted`. What the router has to say itself meanwhile, to neighbours and groups, is mirrored as well: what
    comes to more is tried again."""
    for left in (2, 1, 0):
        try:
            with t.counted(reason, by):
                act()
            return
        except AssertionError:
            if not left:
                raise
            for wire in t.wires.values():
                wire.drain()


def tagged(vlan, frame):
    raw = bytes(frame)
    return raw[:12] + b"\x81\x00" + vlan.to_bytes(2, "big") + raw[12:]


def both_ways(t, port):
    """Packets of either family to and fro between `left` and `right`; what of each is seen at `port` has a copy."""
    left, right = t.ports["left"], t.ports["right"]
    for make in (through4, through6):
        sent, want = make(left, right)
        back, answer = make(right, left)
        t.right.send(back)
        t.left.expect(answer)
        t.left.send(sent)
        t.right.expect(want)
        t.probe.expect(sent if port == "left" else want)


def test_received(four):
    """Copies of what comes in, whatever becomes of it; not of what goes out."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "left destination probe rx"):
        both_ways(t, "left")
        # For another station, of a type that nobody knows, and of a VLAN that nobody has.
        for odd in (Ether(dst=left.mac, src=left.host_mac, type=0x88B5) / bytes(46), tagged(7, through4(left, right)[0])):
            t.left.send(odd)
            t.probe.expect(odd)


def test_sent(four):
    """Copies of what goes out, with its new header and hop limit; of the router's own packets too."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "right destination probe tx"):
        both_ways(t, "right")
        t.right.send(into(right) / IP(src=right.host, dst=right.ip, id=7) / ICMP(seq=3))  # noqa: F405
        reply = out_of(right) / IP(src=right.ip, dst=right.host, id=7, ttl=64) / ICMP(type=0, seq=3)  # noqa: F405
        t.right.expect(reply)
        t.probe.expect(reply)


def test_both_directions_and_several_destinations(four):
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "left destination probe", "left destination spare rx"):
        assert t.router.json("show interface span") == [
            {"source": "left", "destination": "probe", "direction": "both", "frames": "all"},
            {"source": "left", "destination": "spare", "direction": "rx", "frames": "all"},
        ]
        for n in (1, 64, 300):
            sent, want = zip(*(through4(left, right, sport=i + 1) for i in range(n)))
            back, answer = zip(*(through4(right, left, sport=i + 1) for i in range(n)))
            t.left.send(*sent)
            t.right.expect(*want)
            t.probe.expect(*sent)
            t.spare.expect(*sent)
            t.right.send(*back)
            t.left.expect(*answer)
            t.probe.expect(*answer)
        t.ctl("set interface span left destination probe disable")
        assert [r["destination"] for r in t.router.json("show interface span")] == ["spare"]
        sent, want = through4(left, right)
        t.left.send(sent)
        t.right.expect(want)
        t.spare.expect(sent)
    # Without any, the next copy is one of another mirror.
    t.left.send(through4(left, right)[0])
    t.right.expect(through4(left, right)[1])
    with span(t, "right destination probe rx", "right destination spare rx"):
        back, answer = through4(right, left)
        t.right.send(back)
        t.left.expect(answer)
        t.probe.expect(back)
        t.spare.expect(back)


def test_a_sub_interface(four):
    """Only its own frames, with their tags."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "left.100 destination probe both"):
        sent, want = through4(left, right)
        t.left.send(sent)
        t.right.expect(want)
        sent = tagged(100, into(left) / udp4("10.1.0.2", right.host))
        t.left.send(sent)
        t.right.expect(out_of(right) / udp4("10.1.0.2", right.host, ttl=63))
        t.probe.expect(sent)
        back, answer = through4(right, left)
        t.right.send(back)
        t.left.expect(answer)
        t.right.send(into(right) / udp4(right.host, "10.1.0.2"))
        answer = tagged(100, out_of(left) / udp4(right.host, "10.1.0.2", ttl=63))
        t.left.expect(answer)
        t.probe.expect(answer)


def test_a_sub_interface_as_destination(four):
    """The copy gets its tags; frames of sub-interfaces are among those of the device."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "left destination probe.9 rx"):
        for sent in (through4(left, right)[0], tagged(100, into(left) / udp4("10.1.0.2", right.host, size=1400))):
            t.left.send(sent)
            t.probe.expect(tagged(9, sent))
            assert t.right.recv() is not None


@contextlib.contextmanager
def bridged(t):
    """`spare` and the tagged frames of `right.50` in bridge domain 10, where frames have no tag; two stations behind them."""
    a, b = "02:00:00:aa:00:01", "02:00:00:aa:00:02"
    there = Ether(src=a, dst=b) / udp4("192.0.2.1", "192.0.2.2")
    back = Ether(src=b, dst=a) / udp4("192.0.2.2", "192.0.2.1")
    lines = ("create sub-interfaces right 50", "set interface state right.50 up", "set interface l2 bridge spare 10",
             "set interface l2 bridge right.50 10", "set interface l2 tag-rewrite right.50 pop 1")
    for line in lines:
        t.ctl(line)
    t.spare.send(there)
    t.right.expect(tagged(50, there))
    t.right.send(tagged(50, back))
    t.spare.expect(back)
    try:
        yield there, back
    finally:
        t.ctl("delete interface right.50")
        t.ctl("set interface l3 spare")
        t.ctl("create bridge-domain 10 del")


def passes(t, frame, back, *copies):
    """Both frames cross the bridge domain, and these are seen at `probe`."""
    t.spare.send(frame)
    t.right.expect(tagged(50, frame))
    t.right.send(tagged(50, back))
    t.spare.expect(back)
    t.probe.expect(*copies)


def test_bridged_frames(four):
    t = four
    with bridged(t) as (frame, back):
        with span(t, "spare destination probe both"):
            for _ in range(2):
                passes(t, frame, back, frame, back)
        with span(t, "right.50 destination probe both"):
            passes(t, frame, back, tagged(50, frame), tagged(50, back))


def test_a_bridge_domain(four):
    """Frames of all members, as each has them on the wire; of those that come and go as well."""
    t = four
    with bridged(t) as (frame, back):
        for direction, copies in (("rx", [frame, tagged(50, back)]), ("tx", [tagged(50, frame), back]),
                                  ("", [frame, tagged(50, frame), tagged(50, back), back])):
            t.ctl(f"set bridge-domain span 10 destination probe {direction}")
            assert t.router.json("show bridge-domain span") == [{"bd-id": 10, "destination": "probe", "direction": direction or "both"}]
            passes(t, frame, back, *copies)
        # A frame of a member that is mirrored there itself is copied once.
        t.ctl("set interface span right.50 destination probe both")
        passes(t, frame, back, frame, tagged(50, frame), tagged(50, back), back)
        t.ctl("set interface span right.50 disable")
        # Nor is a sub-interface of a member, which is not in the bridge domain.
        t.ctl("create sub-interfaces spare 60")
        t.ctl("set interface state spare.60 up")
        t.spare.send(tagged(60, frame))
        passes(t, frame, back, frame, tagged(50, frame), tagged(50, back), back)
        t.ctl("delete interface spare.60")
        # Who leaves is not mirrored any more, and who comes is.
        t.ctl("set interface l3 spare")
        t.right.send(tagged(50, back))
        t.probe.expect(tagged(50, back))
        t.ctl("set interface l2 bridge spare 10")
        t.spare.send(frame)
        t.probe.expect(frame, tagged(50, frame))
        t.right.drain()
        for line, why in (("create bridge-domain 10 del", "members"), ("set bridge-domain span 11 destination probe", "no bridge domain 11"),
                          ("set bridge-domain span 10 destination local0", "local0"),
                          ("set bridge-domain span 10 destination left disable", "bridge domain 10 is not mirrored to left"),
                          ("set bridge-domain span 10", "name the destination")):
            with pytest.raises(CtlError, match=why):
                t.ctl(line)
        # A member as destination: frames of the others.
        t.ctl("set bridge-domain span 10 disable")
        t.ctl("set bridge-domain span 10 destination spare rx")
        t.right.send(tagged(50, back))
        assert sorted(t.spare.take(2)) == sorted([tagged(50, back), bytes(back)])
        t.spare.send(frame)
        t.right.expect(tagged(50, frame))
        assert t.spare.recv(timeout=0.3) is None
        t.ctl("set bridge-domain span 10 disable")
        t.ctl("set bridge-domain span 10 destination probe.9 rx")
        with pytest.raises(CtlError, match="set bridge-domain span 10 destination probe.9 disable"):
            t.ctl("delete interface probe.9")
        # Out with all of them.
        t.ctl("set bridge-domain span 10 disable")
        assert t.router.json("show bridge-domain span") == []
        passes(t, frame, back)
        with pytest.raises(CtlError, match="bridge domain 10 is not mirrored"):
            t.ctl("set bridge-domain span 10 disable")
    t.ctl("create bridge-domain 10")
    t.ctl("set bridge-domain span 10 destination probe")
    with pytest.raises(CtlError, match="set bridge-domain span 10 destination probe disable"):
        t.ctl("create bridge-domain 10 del")
    t.ctl("set bridge-domain span 10 disable")
    t.ctl("create bridge-domain 10 del")


def test_layer_2_only(four):
    """`l2`: nothing of an interface that routes, and all of one that is bridged."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    with span(t, "left l2 destination probe", "spare l2 destination probe rx"):
        assert [r["frames"] for r in t.router.json("show interface span")] == ["l2", "l2"]
        t.left.send(through4(left, right)[0])
        t.right.expect(through4(left, right)[1])
        with bridged(t) as (frame, back):
            t.probe.expect(frame)
            passes(t, frame, back, frame)
        t.spare.send(frame)
        t.ctl("set interface span spare destination probe rx")
        t.spare.send(back)
        t.probe.expect(back)


def test_a_destination_that_is_down(four):
    """No copies, which is counted; the frames themselves pass."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    sent, want = through4(left, right)
    with span(t, "left destination probe rx"):
        t.ctl("set interface state probe down")
        try:
            counted(t, "span-destination-down", 3, lambda: (t.left.send(sent, sent, sent), t.right.expect(want, want, want)))
        finally:
            t.ctl("set interface state probe up")
        wait_for("probe has link", lambda: t.router.interface("probe")["link"])
        counted(t, "span-copies", 2, lambda: (t.left.send(sent, sent), t.right.expect(want, want), t.probe.expect(sent, sent)))


def test_copies_are_not_mirrored(four):
    """Mirrors in a circle: each frame is copied once for each of them that it meets itself."""
    t, left, right = four, four.ports["left"], four.ports["right"]
    circle = ("left destination probe both", "probe destination spare both", "spare destination left both",
              "right destination left both")
    with span(t, *circle):
        sent, want = through4(left, right)
        counted(t, "span-copies", 2, lambda: (t.left.send(sent), t.right.expect(want), t.probe.expect(sent), t.left.expect(want)))
        # What the probe receives itself is copied to `spare`, and there it ends.
        own = Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88", type=0x88B5) / bytes(46)
        counted(t, "span-copies", 1, lambda: (t.probe.send(own), t.spare.expect(own)))


@pytest.fixture(scope="module")
def pseudowire():
    b = Bench({
        "interfaces": {"core": {"addresses": ["10.0.1.1/24"], "mpls": True}, "site": {"l2xc": "mpls-tunnel0"},
                       "mpls-tunnel0": {"l2xc": "site"}, "probe": {}},
        "mpls": {"tunnels": {"mpls-tunnel0": {"l2-only": True, "via": ["10.0.1.2 core out-labels 100"]}},
                 "local-labels": ["2000 eos via l2-input-on mpls-tunnel0"]},
        "span": [{"source": "mpls-tunnel0", "destination": "probe"}],
    }, ports=("core", "site", "probe"), addresses=False)
    b.ctl(f"ip neighbor core 10.0.1.2 {b.ports['core'].host_mac} static")
    yield b
    b.close()


def test_a_pseudowire(pseudowire):
    """Its frames, before they get their labels and behind them."""
    t, core = pseudowire, pseudowire.ports["core"]
    frame = Ether(dst="02:00:00:aa:00:01", src="02:00:00:aa:00:02") / udp4("192.0.2.1", "192.0.2.2", size=900)
    label = lambda n: bytes(MPLS(label=n, s=1, ttl=64))  # noqa: E731
    t.site.send(frame)
    got = t.core.recv()
    assert got[12:14] == b"\x88\x47" and got[18:] == bytes(frame)
    t.probe.expect(frame)
    t.core.send(bytes(Ether(dst=core.mac, src=core.host_mac, type=0x8847)) + label(2000) + bytes(frame))
    t.site.expect(frame)
    t.probe.expect(frame)


@pytest.mark.parametrize("line, why", [
    ("left destination left", "cannot be mirrored to itself"),
    ("left destination left.100 rx", "one is a sub-interface of the other"),
    ("left disable", "left is not mirrored"),
    ("left destination spare disable", "left is not mirrored to spare"),
    ("left", "name the destination"),
    ("left destination nowhere", "nowhere"),
    ("nowhere destination left", "nowhere"),
])
def test_what_cannot_be(four, line, why):
    with pytest.raises(CtlError, match=why):
        four.ctl(f"set interface span {line}")


def test_a_destination_is_not_deleted(four):
    t = four
    t.ctl("create loopback interface instance 5")
    with span(t, "left destination probe.9 both"):
        with pytest.raises(CtlError, match="set interface span left destination probe.9 disable"):
            t.ctl("delete interface probe.9")
        with pytest.raises(CtlError, match="loop5 is a loopback"):
            t.ctl("set interface span left destination loop5")
    t.ctl("delete interface loop5")
