"""Clamping of the TCP segment size: only SYNs, only downwards, checksums right; both families and both directions."""

import pytest
from frames import *
from harness import Bench, CtlError
from scapy.layers.inet import IPOption_NOP

RX, TX = (1300, 1280), (1200, 1180)


@pytest.fixture(scope="module")
def clamped():
    """`left` clamps what it receives, `right` what it sends, `back` nothing; `back.7` clamps both ways, with a tag."""
    interfaces = {
        "left": {"tcp-mss-clamp": {"ip4": {"rx": RX[0]}, "ip6": {"rx": RX[1]}}},
        "right": {"tcp-mss-clamp": {"ip4": {"tx": TX[0]}, "ip6": {"tx": TX[1]}}},
        "back.7": {"tcp-mss-clamp": 1000},
    }
    b = Bench({
        "l3": {"interfaces": interfaces},
        "interfaces": {"back": {"sub-interfaces": {7: {"addresses": ["10.7.0.1/24", "2001:db8:77::1/64"]}}}},
        "neighbors": [{"interface": "back.7", "address": a, "mac": "02:00:00:00:03:02"} for a in ("10.7.0.2", "2001:db8:77::2")],
    }, ports=("left", "right", "back"))
    yield b
    b.close()


def tcp(v6, src, dst, hops=64, flags="S", options=(("MSS", 1460),), payload=b"", **ip):
    """A TCP segment with right checksums."""
    head = IPv6(src=src, dst=dst, hlim=hops, **ip) if v6 else IP(src=src, dst=dst, ttl=hops, id=7, **ip)
    return head / TCP(sport=1000, dport=80, flags=flags, seq=5, options=list(options)) / Raw(payload)


def ends(b, v6, a, z):
    a, z = b.ports[a], b.ports[z]
    return (a.host6, z.host6) if v6 else (a.host, z.host)


def passes(b, a, z, v6, sent, want):
    """The options `sent` in a SYN from host a to host z come out as `want`."""
    src, dst = ends(b, v6, a, z)
    wire = getattr(b, a)
    wire.send(into(b.ports[a]) / tcp(v6, src, dst, options=sent))
    getattr(b, z).expect(out_of(b.ports[z]) / tcp(v6, src, dst, hops=63, options=want))


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
@pytest.mark.parametrize("flags", ["S", "SA"])
def test_a_syn_is_clamped_on_input(clamped, v6, flags):
    src, dst = ends(clamped, v6, "left", "back")
    with clamped.counted("tcp-mss-clamped"):
        clamped.left.send(into(clamped.ports["left"]) / tcp(v6, src, dst, flags=flags))
    clamped.back.expect(out_of(clamped.ports["back"]) / tcp(v6, src, dst, hops=63, flags=flags, options=[("MSS", RX[v6])]))


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_a_syn_is_clamped_on_output(clamped, v6):
    passes(clamped, "back", "right", v6, [("MSS", 1460)], [("MSS", TX[v6])])


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_both_clamp_the_lower_one_wins(clamped, v6):
    passes(clamped, "left", "right", v6, [("MSS", 1460)], [("MSS", TX[v6])])


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_the_other_direction_is_left_alone(clamped, v6):
    passes(clamped, "right", "left", v6, [("MSS", 1460)], [("MSS", 1460)])
    passes(clamped, "right", "back", v6, [("MSS", 9000)], [("MSS", 9000)])


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
@pytest.mark.parametrize("before", [[], [("NOP", None)], [("NOP", None)] * 3, [("SAckOK", b""), ("WScale", 7)],
                                    [("Timestamp", (1, 2))]], ids=str)
def test_wherever_the_option_stands(clamped, v6, before):
    """An odd place touches two words of the checksum."""
    after = [("SAckOK", b"")]
    for size in (65535, RX[v6] + 1):
        passes(clamped, "left", "back", v6, [*before, ("MSS", size), *after], [*before, ("MSS", RX[v6]), *after])
    for size in (RX[v6], 536, 0):
        passes(clamped, "left", "back", v6, [*before, ("MSS", size), *after], [*before, ("MSS", size), *after])


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_what_is_left_alone(clamped, v6):
    """No SYN, no option, another protocol, a fragment that is not the first, an option that is cut off."""
    src, dst = ends(clamped, v6, "left", "back")
    left, back = clamped.ports["left"], clamped.ports["back"]

    def same(packet, out):
        clamped.left.send(into(left) / packet)
        clamped.back.expect(out_of(back) / out)

    for flags in ("A", "PA", "F", "R"):
        same(tcp(v6, src, dst, flags=flags), tcp(v6, src, dst, 63, flags=flags))
    same(tcp(v6, src, dst, options=()), tcp(v6, src, dst, 63, options=()))
    broken = bytes(tcp(v6, src, dst, options=[("NOP", None)] * 4))
    # A segment size whose length says three bytes.
    odd = lambda hops: type(tcp(v6, src, dst, hops))(broken[:7] + bytes([hops]) + broken[8:-4] + b"\x02\x03\x05\xb4") if v6 else None
    if v6:
        same(odd(64), odd(63))
        f = lambda hops: IPv6(src=src, dst=dst, hlim=hops) / IPv6ExtHdrFragment(nh=6, offset=10, id=9) / Raw(broken[40:])
    else:
        f = lambda hops: IP(src=src, dst=dst, ttl=hops, id=9, frag=10, proto=6) / Raw(bytes(tcp(v6, src, dst))[20:])
    same(f(64), f(63))
    assert clamped.router.errors().get("icmp6-bad-checksum", 0) == 0


def test_behind_extension_headers_and_options(clamped):
    src, dst = ends(clamped, True, "left", "back")
    left, back = clamped.ports["left"], clamped.ports["back"]
    make = lambda hops, size: (IPv6(src=src, dst=dst, hlim=hops) / IPv6ExtHdrDestOpt()
                               / TCP(sport=1, dport=2, flags="S", options=[("MSS", size)]))
    clamped.left.send(into(left) / make(64, 1460))
    clamped.back.expect(out_of(back) / make(63, RX[1]))
    src, dst = ends(clamped, False, "left", "back")
    make = lambda ttl, size: (
        IP(src=src, dst=dst, ttl=ttl, id=3, options=[IPOption_NOP()] * 4) / TCP(sport=1, dport=2, flags="S", options=[("MSS", size)]))
    clamped.left.send(into(left) / make(64, 1460))
    clamped.back.expect(out_of(back) / make(63, RX[0]))


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_on_a_sub_interface(clamped, v6):
    """In and out through a tag, and not on its parent."""
    host, right = ("2001:db8:77::2" if v6 else "10.7.0.2"), clamped.ports["right"]
    far, back = right.host6 if v6 else right.host, clamped.ports["back"]
    tagged = lambda ether: Ether(dst=ether.dst, src=ether.src) / Dot1Q(vlan=7)
    clamped.right.send(into(right) / tcp(v6, far, host))
    clamped.back.expect(tagged(out_of(back)) / tcp(v6, far, host, 63, options=[("MSS", 1000)]))
    clamped.back.send(tagged(into(back)) / tcp(v6, host, far))
    clamped.right.expect(out_of(right) / tcp(v6, host, far, 63, options=[("MSS", 1000)]))


def test_a_vector_of_everything(clamped):
    """SYNs, other TCP and UDP of both families in one go: each comes out as alone."""
    left, back = clamped.ports["left"], clamped.ports["back"]
    sent, want = [], []
    for n in range(120):
        v6 = n % 2 == 1
        src, dst = ends(clamped, v6, "left", "back")
        if n % 3 == 0:
            sent.append(bytes(into(left) / tcp(v6, src, dst, payload=bytes([n]))))
            want.append(bytes(out_of(back) / tcp(v6, src, dst, 63, options=[("MSS", RX[v6])], payload=bytes([n]))))
        elif n % 3 == 1:
            sent.append(bytes(into(left) / tcp(v6, src, dst, flags="A", options=(), payload=bytes([n]))))
            want.append(bytes(out_of(back) / tcp(v6, src, dst, 63, flags="A", options=(), payload=bytes([n]))))
        else:
            make = udp6 if v6 else udp4
            hops = {"hlim": 63} if v6 else {"ttl": 63}
            sent.append(bytes(into(left) / make(src, dst, sport=n)))
            want.append(bytes(out_of(back) / make(src, dst, sport=n, **hops)))
    clamped.left.send(*sent)
    assert sorted(clamped.back.take(len(want))) == sorted(want)


def test_commands(pair):
    pair.ctl("set interface tcp-mss-clamp left ip4 enable ip4-mss 1400 ip6 rx ip6-mss 1380")
    assert pair.router.json("show interface tcp-mss-clamp") == [
        {"interface": "left", "family": "ip4", "rx-mss": 1400, "tx-mss": 1400},
        {"interface": "left", "family": "ip6", "rx-mss": 1380, "tx-mss": None}]
    assert "ip4-mss-clamp-in" in pair.ctl("show features left") and "ip4-mss-clamp-out" in pair.ctl("show features left")
    passes(pair, "right", "left", False, [("MSS", 1460)], [("MSS", 1400)])
    passes(pair, "right", "left", True, [("MSS", 1460)], [("MSS", 1460)])
    passes(pair, "left", "right", True, [("MSS", 1460)], [("MSS", 1380)])
    pair.ctl("set interface tcp-mss-clamp left ip4 disable ip6 disable")
    assert pair.router.json("show interface tcp-mss-clamp") == []
    passes(pair, "right", "left", False, [("MSS", 1460)], [("MSS", 1460)])
    passes(pair, "left", "right", False, [("MSS", 1460)], [("MSS", 1460)])
    for line in ("set interface tcp-mss-clamp left", "set interface tcp-mss-clamp left ip4 enable ip4-mss 20"):
        with pytest.raises(CtlError):
            pair.ctl(line)
