"""Forwarding: the hop count, the checksum and the link-layer addresses change, and nothing else."""

import random

import pytest
from frames import *  # noqa: F403
from frames import out_of
from harness import sorted_hex


@pytest.mark.parametrize("there, back", [("left", "right"), ("right", "left")])
@pytest.mark.parametrize("through", [through4, through6], ids=["ip4", "ip6"])  # noqa: F405
def test_forwards_both_ways(pair, through, there, back):
    a, b = pair.ports[there], pair.ports[back]
    for size in (0, 1, 18, 100, 1400, 1452):
        sent, want = through(a, b, size=size)
        pair.wires[there].send(sent)
        pair.wires[back].expect(want)


def test_ttl_and_hop_limit_count_down_to_one(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    for ttl in (2, 3, 255):
        for through, name in ((through4, "ttl"), (through6, "hlim")):  # noqa: F405
            sent, want = through(a, b, **{name: ttl})
            pair.left.send(sent)
            pair.right.expect(want)


def test_fields_that_routers_do_not_touch(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    for kw in ({"tos": 0xFF, "id": 0, "flags": "DF"}, {"id": 0xFFFF}, {"flags": "MF"}, {"frag": 5}):
        sent, want = through4(a, b, **kw)  # noqa: F405
        pair.left.send(sent)
        pair.right.expect(want)
    sent, want = through6(a, b, tc=0xB8, fl=0xABCDE)  # noqa: F405
    pair.left.send(sent)
    pair.right.expect(want)


def test_every_checksum_wraps_right(pair):
    """The incremental update of the header checksum is right for all carries."""
    a, b = pair.ports["left"], pair.ports["right"]
    frames = [through4(a, b, id=i, size=2) for i in range(0xF000, 0x10000, 13)]  # noqa: F405
    for i in range(0, len(frames), 64):
        pair.left.send(*[s for s, _ in frames[i:i + 64]])
        pair.right.expect(*[w for _, w in frames[i:i + 64]])


def test_ethernet_padding_is_cut_off(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    for through in (through4, through6):  # noqa: F405
        sent, want = through(a, b, size=0)
        pair.left.send(bytes(sent) + b"\xaa" * 30)
        pair.right.expect(want)


def test_unknown_transport_protocols_pass(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    for proto in (0, 47, 50, 132, 255):
        pair.left.send(into(a) / IP(src=a.host, dst=b.host, proto=proto, ttl=9, id=7) / b"whatever")  # noqa: F405
        pair.right.expect(out_of(b) / IP(src=a.host, dst=b.host, proto=proto, ttl=8, id=7) / b"whatever")  # noqa: F405
        pair.left.send(into(a) / IPv6(src=a.host6, dst=b.host6, nh=proto or 1, hlim=9) / b"whatever")  # noqa: F405
        pair.right.expect(out_of(b) / IPv6(src=a.host6, dst=b.host6, nh=proto or 1, hlim=8) / b"whatever")  # noqa: F405


def test_options_and_extension_headers_pass_unchanged(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    for options in (b"\x07\x07\x08\0\0\0\0\0", b"\x94\x04\0\0", b"\x01\x01\x01\0"):
        def packet(ttl, o=options):
            raw = bytes(udp4(a.host, b.host, ttl=ttl))  # noqa: F405
            head = bytes([0x45 + len(o) // 4]) + raw[1:2] + (len(raw) + len(o)).to_bytes(2, "big") + raw[4:20]
            return fix4(head + o + raw[20:])  # noqa: F405

        pair.left.send(bytes(into(a)) [:12] + b"\x08\0" + packet(64))  # noqa: F405
        pair.right.expect(bytes(out_of(b))[:12] + b"\x08\0" + packet(63))
    for extension in (IPv6ExtHdrHopByHop(options=[]), IPv6ExtHdrDestOpt(options=[]), IPv6ExtHdrFragment(id=9, m=1)):  # noqa: F405
        def packet6(hlim, e=extension):
            return IPv6(src=a.host6, dst=b.host6, hlim=hlim) / e / UDP(sport=1, dport=2) / b"12345678"  # noqa: F405

        pair.left.send(into(a) / packet6(64))  # noqa: F405
        pair.right.expect(out_of(b) / packet6(63))


@pytest.mark.parametrize("size", [1, 3, 4, 5, 255, 256])
def test_good_and_bad_packets_in_one_burst(pair, size):
    """Each packet of a burst meets its own fate, whatever stands beside it."""
    a, b = pair.ports["left"], pair.ports["right"]
    rng = random.Random(size)
    frames, forwarded, answered, drops = [], [], [], {}
    for i in range(size):
        kind = rng.randrange(8)
        if kind < 3:
            sent, want = through4(a, b, id=i, size=rng.randrange(100))  # noqa: F405
            forwarded.append(want)
        elif kind < 5:
            sent, want = through6(a, b, fl=i, size=rng.randrange(100))  # noqa: F405
            forwarded.append(want)
        elif kind == 5:
            sent = into(a) / udp4(a.host, b.host, id=i, chksum=0xDEAD)  # noqa: F405
            drops["ip4-bad-checksum"] = drops.get("ip4-bad-checksum", 0) + 1
        elif kind == 6:
            sent = into(a) / udp6("ff02::1", b.host6, fl=i)  # noqa: F405
            drops["ip6-source-multicast"] = drops.get("ip6-source-multicast", 0) + 1
        else:
            echo = ICMP(type=8, id=5, seq=i) / b"in between"  # noqa: F405
            sent = into(a) / IP(src=a.host, dst=a.ip, id=i) / echo  # noqa: F405
            answered.append(out_of(a) / IP(src=a.ip, dst=a.host, id=i, ttl=64)  # noqa: F405
                            / ICMP(type=0, id=5, seq=i) / b"in between")  # noqa: F405
        frames.append(sent)
    before = pair.router.errors()
    pair.left.send(*frames)
    assert sorted_hex(pair.right.take(len(forwarded))) == sorted_hex(forwarded)
    assert sorted_hex(pair.left.take(len(answered))) == sorted_hex(answered)
    for reason, count in drops.items():
        with pair.counted(reason, 0):
            pass
    after = pair.router.errors()
    assert {r: after.get(r, 0) - before.get(r, 0) for r in drops} == drops


def test_order_within_a_flow(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    frames = [through4(a, b, id=i) for i in range(1000)]  # noqa: F405
    pair.left.send(*[s for s, _ in frames])
    pair.right.expect(*[w for _, w in frames])
