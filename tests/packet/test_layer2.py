"""Sub-interfaces of every kind, cross-connects with tags popped and pushed, MAC filter, MTU, state, counters."""

import re

import pytest
from frames import *  # noqa: F403
from frames import Dot1AD, Dot1Q, Ether, IP, ICMP, into, out_of, through4, through6, udp4
from harness import CtlError, wait_for


def q(*vids):
    """802.1Q tags."""
    out = None
    for v in vids:
        out = Dot1Q(vlan=v) if out is None else out / Dot1Q(vlan=v)
    return out


def tagged(tpid_outer, outer, inner=None):
    """Tag bytes in front of an EtherType."""
    raw = tpid_outer.to_bytes(2, "big") + outer.to_bytes(2, "big")
    if inner is not None:
        raw += b"\x81\x00" + inner.to_bytes(2, "big")
    return raw


def put_tags(frame, tags):
    raw = bytes(frame)
    return raw[:12] + tags + raw[12:]


KINDS = {
    "dot1q": ({"dot1q": 100, "exact-match": True}, tagged(0x8100, 100)),
    "dot1ad": ({"dot1ad": 100, "exact-match": True}, tagged(0x88A8, 100)),
    "QinQ": ({"dot1q": 100, "inner-dot1q": 7, "exact-match": True}, tagged(0x8100, 100, 7)),
    "QinAD": ({"dot1ad": 100, "inner-dot1q": 7, "exact-match": True}, tagged(0x88A8, 100, 7)),
}


@pytest.fixture(scope="module")
def trunk():
    """One port with a sub-interface of each kind, each with addresses 10.1.k.1/24 and 2001:db8:1k::1/64."""
    from harness import Bench

    subs, neighbors = {}, []
    for k, (kind, (encapsulation, _)) in enumerate(KINDS.items(), 1):
        subs[k] = {"encapsulation": encapsulation, "addresses": [f"10.1.{k}.1/24", f"2001:db8:1{k}::1/64"]}
        for address in (f"10.1.{k}.2", f"2001:db8:1{k}::2"):
            neighbors.append({"interface": f"left.{k}", "address": address, "mac": "02:00:00:00:01:02"})
    b = Bench({"interfaces": {"left": {"sub-interfaces": subs}}, "neighbors": neighbors})
    yield b
    b.close()


@pytest.mark.parametrize("kind", KINDS)
def test_tags_in_and_out(trunk, kind):
    """Routed from and to a sub-interface: its tags come off, and go on."""
    t, k = trunk, list(KINDS).index(kind) + 1
    tags = KINDS[kind][1]
    p, r = t.ports["left"], t.ports["right"]
    there4, there6 = f"10.1.{k}.2", f"2001:db8:1{k}::2"
    t.left.send(put_tags(into(p) / udp4(there4, r.host), tags))
    t.right.expect(out_of(r) / udp4(there4, r.host, ttl=63))
    t.right.send(into(r) / udp4(r.host, there4))
    t.left.expect(put_tags(out_of(p) / udp4(r.host, there4, ttl=63), tags))
    t.left.send(put_tags(into(p) / udp6(there6, r.host6), tags))  # noqa: F405
    t.right.expect(out_of(r) / udp6(there6, r.host6, hlim=63))  # noqa: F405
    # Its own address answers echo and ARP with the tags.
    t.left.send(put_tags(into(p) / IP(src=there4, dst=f"10.1.{k}.1", id=5) / ICMP(), tags))
    t.left.expect(put_tags(out_of(p) / IP(src=f"10.1.{k}.1", dst=there4, id=5, ttl=64) / ICMP(type=0), tags))
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=p.host_mac) / ARP(op=1, hwsrc=p.host_mac, psrc=there4, pdst=f"10.1.{k}.1")  # noqa: F405
    t.left.send(put_tags(ask, tags))
    t.left.expect(put_tags(Ether(dst=p.host_mac, src=p.mac) / ARP(op=2, hwsrc=p.mac, psrc=f"10.1.{k}.1",  # noqa: F405
                                                                   hwdst=p.host_mac, pdst=there4), tags))


@pytest.mark.parametrize("kind", KINDS)
def test_packets_of_full_size_with_tags(trunk, kind):
    """1500 bytes behind two tags do not fit a Linux device of MTU 1500; Quiver raises it."""
    t, k = trunk, list(KINDS).index(kind) + 1
    p, r = t.ports["left"], t.ports["right"]
    t.outside.ip("link set left mtu 1508")
    packet = udp4(r.host, f"10.1.{k}.2", size=1472)
    t.right.send(into(r) / packet)
    t.left.expect(put_tags(out_of(p) / udp4(r.host, f"10.1.{k}.2", size=1472, ttl=63), KINDS[kind][1]))
    t.left.send(put_tags(into(p) / udp4(f"10.1.{k}.2", r.host, size=1472), KINDS[kind][1]))
    t.right.expect(out_of(r) / udp4(f"10.1.{k}.2", r.host, size=1472, ttl=63))


def test_between_two_sub_interfaces(trunk):
    t, p = trunk, trunk.ports["left"]
    t.left.send(put_tags(into(p) / udp4("10.1.1.2", "10.1.4.2"), tagged(0x8100, 100)))
    t.left.expect(put_tags(out_of(p) / udp4("10.1.1.2", "10.1.4.2", ttl=63), tagged(0x88A8, 100, 7)))


@pytest.mark.parametrize("tags", [
    tagged(0x8100, 101), tagged(0x88A8, 101), tagged(0x8100, 100, 8), tagged(0x88A8, 100, 8), tagged(0x8100, 7, 100),
], ids=lambda t: t.hex())
def test_exact_match_takes_no_other_tags(trunk, tags):
    t, p, r = trunk, trunk.ports["left"], trunk.ports["right"]
    sent, want = through4(p, r)
    with t.counted("unknown-vlan"):
        t.left.send(put_tags(into(p) / udp4("10.1.1.2", r.host), tags), sent)
        t.right.expect(want)


def test_resolve_through_a_sub_interface(trunk):
    t, p, r = trunk, trunk.ports["left"], trunk.ports["right"]
    tags = tagged(0x88A8, 100, 7)
    t.right.send(into(r) / udp4(r.host, "10.1.4.77"))
    t.left.expect(put_tags(Ether(dst="ff:ff:ff:ff:ff:ff", src=p.mac) / ARP(  # noqa: F405
        op=1, hwsrc=p.mac, psrc="10.1.4.1", hwdst="00:00:00:00:00:00", pdst="10.1.4.77"), tags))
    mac = "02:00:00:00:77:77"
    t.left.send(put_tags(Ether(dst=p.mac, src=mac) / ARP(op=2, hwsrc=mac, psrc="10.1.4.77", hwdst=p.mac, pdst="10.1.4.1"), tags))  # noqa: F405
    t.left.expect(put_tags(Ether(dst=mac, src=p.mac) / udp4(r.host, "10.1.4.77", ttl=63), tags))
    t.ctl("ip neighbor del left.4 10.1.4.77")


def test_counters_of_sub_interfaces(trunk):
    t, p, r = trunk, trunk.ports["left"], trunk.ports["right"]
    t.settle("right")
    before = {n: t.router.interface(n) for n in ("left", "left.1", "right")}
    frame = put_tags(into(p) / udp4("10.1.1.2", r.host), tagged(0x8100, 100))
    t.left.send(*[frame] * 10)
    t.right.take(10)

    def delta():
        now = {n: t.router.interface(n) for n in before}
        return {n: (now[n]["rx"]["packets"] - before[n]["rx"]["packets"], now[n]["tx"]["packets"] - before[n]["tx"]["packets"],
                    now[n]["rx"]["bytes"] - before[n]["rx"]["bytes"]) for n in before}

    wait_for("the counters", lambda: delta()["right"][1] >= 10)
    assert delta() == {"left": (10, 0, 10 * len(frame)), "left.1": (10, 0, 10 * len(frame)), "right": (0, 10, 0)}


def test_packets_of_either_family_are_counted(trunk):
    """As in VPP: what comes to `ip4-input` and `ip6-input`, also what is wrong with it, in whatever company; and all of it
    among what was received."""
    t, p, r = trunk, trunk.ports["left"], trunk.ports["right"]
    t.settle("right")
    one, two = tagged(0x8100, 100), tagged(0x88A8, 100, 7)
    bad = into(p) / udp4("10.1.1.2", r.host, chksum=1)
    frames = [put_tags(bad, one), into(p) / udp4(p.host, r.host, chksum=1)]
    good = []
    for n in range(40):
        good += [put_tags(into(p) / udp4("10.1.1.2", r.host), one), into(p) / udp6(p.host6, r.host6),
                 put_tags(into(p) / udp4("10.1.4.2", r.host), two)]
    good += [into(p) / udp4(p.host, r.host)] * 50 + [put_tags(into(p) / udp4("10.1.1.2", r.host), one)] * 50
    names = ("left", "left.1", "left.4")
    before = {n: t.router.interface(n) for n in names}

    def delta():
        now = {n: t.router.interface(n) for n in names}
        return {n: tuple(now[n][k]["packets"] - before[n][k]["packets"] for k in ("rx", "ip4", "ip6")) for n in names}

    t.left.send(*frames, *good)
    t.right.take(len(good))
    wanted = {"left": (222, 51, 40), "left.1": (91, 91, 0), "left.4": (40, 40, 0)}
    wait_for("the counters", lambda: delta()["left.4"][0] == 40)
    assert delta() == wanted
    text = t.ctl("show interface left.1")
    assert re.search(r"^ *ip4 +\d+$", text, re.M), text


def test_default_and_untagged(bench):
    """By command: `untagged` takes frames without tags, `default` what nobody else takes."""
    t = bench(ports=("left", "one", "two", "three"), addresses=False)
    t.router.script("create sub-interfaces left 1 untagged", "create sub-interfaces left 2 default",
                    "create sub-interfaces left 3 dot1q 5",
                    "set interface l2 xconnect left.1 one", "set interface l2 xconnect left.2 two",
                    "set interface l2 xconnect left.3 three", "set interface l2 tag-rewrite left.3 pop 1",
                    *[f"set interface state left.{i} up" for i in (1, 2, 3)])
    frame = Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88", type=0x88B5) / b"any protocol at all"
    t.left.send(frame)
    t.one.expect(frame)
    for tags in (tagged(0x8100, 6), tagged(0x88A8, 5), tagged(0x8100, 6, 5)):
        t.left.send(put_tags(frame, tags))
        t.two.expect(put_tags(frame, tags))
    # Not exact: VLAN 5 and whatever is inside; one tag comes off.
    t.left.send(put_tags(frame, tagged(0x8100, 5)))
    t.three.expect(frame)
    t.left.send(put_tags(frame, tagged(0x8100, 5, 9)))
    t.three.expect(put_tags(frame, tagged(0x8100, 9)))


def test_cross_connect_whole_ports(bench):
    t = bench({"interfaces": {"left": {"l2xc": "right"}, "right": {"l2xc": "left"}}}, addresses=False)
    for frame in (
        Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:88:88", type=0x88B5) / bytes(46),
        Ether(dst="01:80:c2:00:00:00", src="02:00:00:00:88:88", type=38) / bytes(46),
        Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88") / udp4("10.0.0.1", "10.0.0.2", size=1472),
        put_tags(Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88", type=0x88B5) / bytes(46), tagged(0x8100, 77, 5)),
    ):
        t.left.send(frame)
        t.right.expect(frame)
        t.right.send(frame)
        t.left.expect(frame)
    assert "l2 xconnect left right" in t.ctl("show mode")
    t.ctl("set interface l3 left")
    assert "l3 left" in t.ctl("show mode")


TAGGINGS = {
    "plain to dot1q": ("untagged", b"", "dot1q 20", tagged(0x8100, 20)),
    "dot1q to dot1q": ("dot1q 10", tagged(0x8100, 10), "dot1q 20", tagged(0x8100, 20)),
    "dot1q to QinAD": ("dot1q 10", tagged(0x8100, 10), "dot1ad 500 inner-dot1q 20", tagged(0x88A8, 500, 20)),
    "QinQ to QinQ": ("dot1q 10 inner-dot1q 11", tagged(0x8100, 10, 11), "dot1q 20 inner-dot1q 21", tagged(0x8100, 20, 21)),
    "QinQ to dot1ad": ("dot1q 10 inner-dot1q 11", tagged(0x8100, 10, 11), "dot1ad 30", tagged(0x88A8, 30)),
}


@pytest.mark.parametrize("kind", TAGGINGS)
def test_cross_connect_pops_and_pushes(bench, kind):
    """Once it is told: before, tags are as much the hosts' as the rest of the frame."""
    t = bench(addresses=False)
    one, tags_one, two, tags_two = TAGGINGS[kind]
    t.router.script(f"create sub-interfaces left 1 {one}", f"create sub-interfaces right 2 {two}",
                    "set interface l2 xconnect left.1 right.2", "set interface l2 xconnect right.2 left.1",
                    "set interface state left.1 up", "set interface state right.2 up")
    frame = Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88", type=0x88B5) / bytes(range(46))
    t.left.send(put_tags(frame, tags_one))
    t.right.expect(put_tags(frame, tags_one))
    t.right.send(put_tags(frame, tags_two))
    t.left.expect(put_tags(frame, tags_two))
    t.router.script(*[f"set interface l2 tag-rewrite {name} pop {len(tags) // 4}"
                      for name, tags in (("left.1", tags_one), ("right.2", tags_two)) if tags])
    t.left.send(put_tags(frame, tags_one))
    t.right.expect(put_tags(frame, tags_two))
    t.right.send(put_tags(frame, tags_two))
    t.left.expect(put_tags(frame, tags_one))


def test_promiscuous_mode(bench):
    """The router takes frames for its own MAC only, whatever the device lets through; cross-connects take all."""
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    other = Ether(dst="02:00:00:00:77:77", src=a.host_mac) / udp4(a.host, b.host)
    with t.counted("mac-not-for-us"):
        t.left.send(other)
    t.ctl("set interface promiscuous on left")
    assert t.router.interface("left")["promiscuous"] is True
    assert "PROMISC" in t.inside.ip("-d link show left").stdout or "promiscuity 1" in t.inside.ip("-d link show left").stdout
    sent, want = through4(a, b)
    t.left.send(sent)
    t.right.expect(want)
    t.ctl("set interface promiscuous off left")
    wait_for("off", lambda: "promiscuity 1" not in t.inside.ip("-d link show left").stdout)


def test_mac_address(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl("set interface mac address right 02:00:00:00:77:77")
    sent, want = through4(a, b)
    want.src = "02:00:00:00:77:77"
    t.left.send(sent)
    t.right.expect(want)
    back, out = through4(b, a)
    back.dst = "02:00:00:00:77:77"
    t.right.send(back)
    t.left.expect(out)
    with pytest.raises(CtlError):
        t.ctl("set interface mac address right 01:00:00:00:77:77")


def test_mtu(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl("set interface mtu packet 1300 right")
    for sent, want in (through4(a, b, size=1300 - 28), through6(a, b, size=1300 - 48)):
        t.left.send(sent)
        t.right.expect(want)
    with t.counted("ip4-packets-fragmented"), t.counted("ip6-packet-too-big"):
        t.left.send(into(a) / udp4(a.host, b.host, size=1301 - 28), into(a) / udp6(a.host6, b.host6, size=1301 - 48))  # noqa: F405
        t.right.take(2)
    for bad in ("100", "9217"):
        with pytest.raises(CtlError):
            t.ctl(f"set interface mtu packet {bad} right")
    t.ctl("set interface mtu packet 9000 right")
    assert "mtu 9000" in t.inside.ip("link show right").stdout


def test_admin_state(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    sent, want = through4(a, b)
    t.ctl("set interface state left down")
    with t.counted("interface-down"):
        t.left.send(sent)
    t.ctl("set interface state left up")
    t.ctl("set interface state right down")
    t.left.send(into(a) / udp4(a.host, b.host))
    answer = t.left.recv(timeout=1)
    assert t.right.recv(timeout=0.05) is None
    assert answer is not None or t.router.errors().get("output-interface-down", 0) > 0
    t.ctl("set interface state right up")
    t.left.send(sent)
    t.right.expect(want)


def test_sub_interfaces_start_down(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.router.script("create sub-interfaces left 9 dot1q 9 exact-match", "set interface ip address left.9 10.9.0.1/24")
    frame = put_tags(into(a) / udp4("10.9.0.2", b.host), tagged(0x8100, 9))
    with t.counted("sub-interface-down"):
        t.left.send(frame)
    t.ctl("set interface state left.9 up")
    t.left.send(frame)
    t.right.expect(out_of(b) / udp4("10.9.0.2", b.host, ttl=63))


def test_frames_that_are_too_big_for_a_cross_connect(bench):
    t = bench({"interfaces": {"left": {"mtu": 1500, "l2xc": "right"}, "right": {"mtu": 1500, "l2xc": "left"}}},
              addresses=False, mtu=9000)
    good = Ether(dst="02:00:00:00:99:99", src="02:00:00:00:88:88", type=0x88B5) / bytes(1508)
    with t.counted("output-frame-too-big"):
        t.left.send(bytes(good) + b"!", good)
        t.right.expect(good)


def test_counters_and_clear(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.settle("right")
    t.ctl("clear interfaces")
    frames = [through4(a, b, size=s) for s in (0, 10, 100)]
    t.left.send(*[s for s, _ in frames], into(a) / udp4(a.host, b.host, chksum=1))
    t.right.expect(*[w for _, w in frames])
    wait_for("counted", lambda: t.router.interface("left")["drops"]["packets"] == 1)
    left, right = t.router.interface("left"), t.router.interface("right")
    size = sum(len(s) for s, _ in frames)
    assert left["rx"] == {"packets": 4, "bytes": size + len(frames[1][0]) + 10}
    assert right["tx"] == {"packets": 3, "bytes": size}
    assert left["drops"]["reasons"][0]["reason"] == "ip4-bad-checksum"
    text = t.ctl("show interface left")
    assert "rx packets" in text and "ip4-bad-checksum" in text
    t.ctl("clear interfaces")
    assert t.router.interface("left")["rx"] == {"packets": 0, "bytes": 0}
    t.ctl("clear errors")
    assert t.router.errors().get("ip4-bad-checksum", 0) == 0


def test_interfaces_come_and_go(bench):
    """Loopbacks, sub-interfaces and host interfaces, made and deleted by commands while traffic runs elsewhere."""
    t = bench(ports=("left", "right", "spare"))
    a, b = t.ports["left"], t.ports["right"]
    for round_ in range(3):
        t.router.script("create loopback interface instance 7", "set interface state loop7 up",
                        "set interface ip address loop7 10.255.0.7/32", "create sub-interfaces left 9 dot1q 9 exact-match",
                        "set interface state left.9 up", "set interface ip address left.9 10.9.0.1/24")
        t.left.send(into(a) / IP(src=a.host, dst="10.255.0.7", id=1) / ICMP())
        t.left.expect(out_of(a) / IP(src="10.255.0.7", dst=a.host, id=1, ttl=64) / ICMP(type=0))
        sent, want = through4(a, b)
        t.left.send(sent)
        t.right.expect(want)
        t.router.script("delete loopback interface loop7", "delete sub-interface left.9")
        t.left.send(sent)
        t.right.expect(want)
        t.left.drain()
    with pytest.raises(CtlError):
        t.ctl("delete interface loop7")
    assert t.router.interface("left")["name"] == "left"
