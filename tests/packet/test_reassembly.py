"""Reassembly (RFC 791, RFC 815, RFC 8200 section 4.5): for the router itself, as a feature, and virtual; hostile fragments."""

import itertools
import random

import pytest
from frames import *  # noqa: F403
from frames import (
    ICMP, IP, TCP, UDP, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6,
    IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, Raw, expect_error4, fix4, icmp6_error, into, out_of, udp4,
    udp6,
)
from harness import CtlError, wait_for
from scapy.layers.inet import fragment
from scapy.layers.inet6 import fragment6

SOON = {"timeout-ms": 300, "expire-walk-interval-ms": 50}
KINDS = ("ip4", "ip6", "ip4-virtual", "ip6-virtual")


def payload(size):
    return bytes(i * 7 % 251 for i in range(size))


def echo4(a, size, fragsize=1480, to=None, **kw):
    """Fragments of an echo request to the router, and the reply."""
    packet = IP(src=a.host, dst=to or a.ip, id=77, **kw) / ICMP(type=8, id=7, seq=9) / payload(size)
    reply = IP(src=to or a.ip, dst=a.host, id=77, ttl=64, tos=kw.get("tos", 0)) / ICMP(type=0, id=7, seq=9) / payload(size)
    return fragment(packet, fragsize=fragsize), reply


def echo6(a, size, fragsize=1448, ident=0x1234, to=None):
    packet = IPv6(src=a.host6, dst=to or a.ip6) / ICMPv6EchoRequest(id=7, seq=9, data=payload(size))
    reply = IPv6(src=to or a.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=7, seq=9, data=payload(size))
    return cut6(packet, fragsize, ident), reply


def cut6(packet, size, ident=0x1234):
    """Fragments of an IPv6 packet without extension headers, of `size` bytes of payload each."""
    raw = bytes(packet)
    head, rest = raw[:40], raw[40:]
    out = []
    for at in range(0, len(rest), size):
        part = rest[at:at + size]
        frag = bytes([head[6], 0]) + (at | int(at + size < len(rest))).to_bytes(2, "big") + ident.to_bytes(4, "big")
        out.append(IPv6(head[:4] + (8 + len(part)).to_bytes(2, "big") + bytes([44]) + head[7:] + frag + part))
    return out


def joined4(frames):
    """The IPv4 packet that these frames are fragments of, without its identification and checksum."""
    parts = sorted((IP(f[14:]) for f in frames), key=lambda p: p.frag)
    at = 0
    for p in parts:
        assert p.frag * 8 == at and bytes(p) == fix4(bytes(p)), p.show(dump=True)
        at += len(p) - p.ihl * 4
    assert [bool(p.flags.MF) for p in parts] == [True] * (len(parts) - 1) + [False]
    whole = parts[0].copy()
    whole.flags, whole.len, whole.chksum = 0, None, None
    return bytes(IP(bytes(whole)[:20])) + b"".join(bytes(p)[p.ihl * 4:] for p in parts)


def joined6(frames):
    """The IPv6 packet that these frames are fragments of."""
    parts = sorted((f[14:] for f in frames), key=lambda p: int.from_bytes(p[42:44], "big"))
    assert len({p[44:48] for p in parts}) == 1, "one identification"
    at = 0
    for p in parts:
        assert int.from_bytes(p[42:44], "big") & ~7 == at and int.from_bytes(p[4:6], "big") == len(p) - 40
        at += len(p) - 48
    assert [p[43] & 1 for p in parts] == [1] * (len(parts) - 1) + [0]
    data = b"".join(p[48:] for p in parts)
    return parts[0][:4] + len(data).to_bytes(2, "big") + parts[0][40:41] + parts[0][7:40] + data


@pytest.fixture(scope="module")
def soon():
    """What does not come together is dropped soon, so that every test begins with nothing."""
    from harness import Bench

    t = Bench({"l3": {"reassembly": {k: SOON for k in KINDS}}})
    yield t
    t.close()


def empty(t):
    """Until nothing is held, and what was refused is forgotten."""
    def reassemblies():
        rows = [t.router.json(f"show {f}-{k}-reassembly")["workers"] for f in ("ip4", "ip6") for k in ("full", "sv")]
        return sum(w["reassemblies"] for workers in rows for w in workers)

    wait_for("nothing is held", lambda: t.router.in_use() == 0 and reassemblies() == 0)


@pytest.mark.parametrize("size", [1480, 3000, 65507])
def test_pings_above_the_mtu_are_answered(soon, size):
    a = soon.ports["left"]
    frags, reply = echo4(a, size, tos=0x28)
    with soon.counted("icmp4-echo-replies-sent"), soon.counted("reassembly-completed"):
        soon.left.send(*[into(a) / f for f in frags])
        frames = soon.left.take(len(frags))
    got = joined4(frames)
    want = bytearray(bytes(reply))
    want[2:4], want[10:12] = got[2:4], got[10:12]
    assert got == bytes(want)
    frags, reply = echo6(a, min(size, 65527))
    with soon.counted("icmp6-echo-replies-sent"), soon.counted("reassembly-completed"), soon.counted("ip6-packets-fragmented"):
        soon.left.send(*[into(a) / f for f in frags])
        frames = soon.left.take(len(frags))
    assert joined6(frames) == bytes(reply)
    assert all(len(f) <= 1514 for f in frames)
    empty(soon)


def test_any_order(soon):
    a = soon.ports["left"]
    for order in itertools.permutations(range(4)):
        frags, reply = echo4(a, 900, fragsize=256)
        assert len(frags) == 4
        soon.left.send(*[into(a) / frags[i] for i in order])
        soon.left.expect(out_of(a) / reply)
        frags, reply = echo6(a, 900, fragsize=256)
        soon.left.send(*[into(a) / frags[i] for i in order])
        soon.left.expect(out_of(a) / reply)
    empty(soon)


def test_many_datagrams_at_once(soon):
    """Fragments of 100 datagrams in one mix, of both families."""
    a = soon.ports["left"]
    mix = []
    for n in range(100):
        packet = IP(src=a.host, dst=a.ip, id=n) / ICMP(type=8, id=1, seq=n) / payload(600 + n)
        mix += [into(a) / f for f in fragment(packet, fragsize=304)]
        packet = IPv6(src=a.host6, dst=a.ip6) / ICMPv6EchoRequest(id=1, seq=n, data=payload(600 + n))
        mix += [into(a) / f for f in cut6(packet, 304, n)]
    random.Random(7).shuffle(mix)
    with soon.counted("icmp4-echo-replies-sent", 100), soon.counted("icmp6-echo-replies-sent", 100):
        soon.left.send(*mix)
        got = soon.left.take(200)
    assert {(f[12:14], int.from_bytes(f[40:42] if f[12] == 8 else f[60:62], "big")) for f in got} == {
        (kind, n) for kind in (b"\x08\0", b"\x86\xdd") for n in range(100)}
    empty(soon)


def test_the_reply_leaves_in_fragments_no_larger_than_the_requests(soon):
    """The asker may know of a smaller MTU on the way, which this router was never told."""
    a = soon.ports["left"]
    frags, reply = echo6(a, 4000, fragsize=1232)
    soon.left.send(*[into(a) / f for f in frags])
    frames = soon.left.take(len(frags))
    assert joined6(frames) == bytes(reply) and max(map(len, frames)) == 14 + 1280
    empty(soon)


def test_options_and_extension_headers(soon):
    a = soon.ports["left"]
    packet = IP(src=a.host, dst=a.ip, id=5, options=b"\x94\x04\0\0") / ICMP(type=8, id=7, seq=9) / payload(900)
    soon.left.send(*[into(a) / f for f in fragment(packet, fragsize=400)])
    soon.left.expect(out_of(a) / IP(src=a.ip, dst=a.host, id=5, ttl=64) / ICMP(type=0, id=7, seq=9) / payload(900))
    packet = IPv6(src=a.host6, dst=a.ip6) / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(id=9) / IPv6ExtHdrDestOpt() \
        / ICMPv6EchoRequest(id=7, seq=9, data=payload(900))
    frags = fragment6(packet, 400)
    assert len(frags) > 2
    soon.left.send(*[into(a) / f for f in reversed(frags)])
    soon.left.expect(out_of(a) / IPv6(src=a.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=7, seq=9, data=payload(900)))
    empty(soon)


def test_atomic_fragments(soon):
    """RFC 6946: by themselves, even while fragments of the same identification wait."""
    a = soon.ports["left"]
    frags, _ = echo6(a, 900, fragsize=400, ident=5)
    whole, reply = echo6(a, 10, fragsize=400, ident=5)
    soon.left.send(into(a) / frags[0], into(a) / whole[0])
    soon.left.expect(out_of(a) / reply)
    rest, reply = echo6(a, 900, fragsize=400, ident=5)
    soon.left.send(*[into(a) / f for f in rest[1:]])
    soon.left.expect(out_of(a) / reply)
    empty(soon)


def raw4(a, start, data, more, ident=1, proto=253, to=None):
    return into(a) / IP(src=a.host, dst=to or a.ip, id=ident, proto=proto, frag=start // 8, flags="MF" if more else 0) / Raw(data)


def raw6(a, start, data, more, ident=1, nh=253, to=None):
    return into(a) / IPv6(src=a.host6, dst=to or a.ip6) / IPv6ExtHdrFragment(nh=nh, offset=start // 8, m=int(more), id=ident) / Raw(data)


# What hostile fragments raise: frames, the counter, and how many.
HOSTILE = {
    "overlap": (lambda a, raw: [raw(a, 0, payload(64), True), raw(a, 32, payload(64), True)], "reassembly-overlap", 2),
    "overlap inside": (lambda a, raw: [raw(a, 0, payload(64), True), raw(a, 8, payload(16), True)], "reassembly-overlap", 2),
    "same place, other bytes": (
        lambda a, raw: [raw(a, 0, payload(64), True), raw(a, 0, b"x" * 64, True)], "reassembly-overlap", 2),
    "after an overlap": (
        lambda a, raw: [raw(a, 0, payload(64), True), raw(a, 32, payload(64), True), raw(a, 96, payload(8), False)],
        "reassembly-refused-before", 1),
    "duplicate": (lambda a, raw: [raw(a, 0, payload(64), True)] * 3, "reassembly-duplicate", 2),
    "two ends": (lambda a, raw: [raw(a, 64, payload(64), False), raw(a, 200, payload(8), False)], "reassembly-bad-end", 2),
    "beyond the end": (lambda a, raw: [raw(a, 64, payload(64), False), raw(a, 200, payload(8), True)], "reassembly-bad-end", 2),
    "empty": (lambda a, raw: [raw(a, 8, b"", True)], "reassembly-empty-fragment", 1),
    "endless": (lambda a, raw: [raw(a, n * 16, payload(8), True) for n in range(140)], "reassembly-too-many-fragments", 129),
}


@pytest.mark.parametrize("family", [raw4, raw6], ids=["ip4", "ip6"])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_fragments(soon, what, family):
    """Nobody is told, the counter rises, nothing stays, and the next ping is answered."""
    a = soon.ports["left"]
    frames, reason, by = HOSTILE[what]
    with soon.counted(reason, by):
        soon.left.send(*[f for f in frames(a, family)])
    soon.left.send(*[into(a) / f for f in echo4(a, 3000)[0]])
    assert soon.left.take(3)[0][23] == 1
    # A first fragment that was left alone is answered when its time is out.
    empty(soon)
    soon.left.drain()


def test_tiny_fragments_ip4(soon):
    """RFC 1858 and RFC 3128."""
    a = soon.ports["left"]
    tcp = bytes(TCP(sport=1, dport=2, flags="S")) + payload(12)
    with soon.counted("reassembly-tiny-fragment", 2):
        soon.left.send(raw4(a, 0, tcp[:8], True, proto=6), raw4(a, 8, tcp[8:], False, proto=6))
    with soon.counted("reassembly-bad-length"):
        soon.left.send(raw4(a, 0, payload(9), True))
    with soon.counted("reassembly-beyond-65535"):
        soon.left.send(raw4(a, 65528, payload(400), False))
    empty(soon)


def test_parameter_problems_ip6(soon):
    """RFC 8200 section 4.5 and RFC 7112."""
    a = soon.ports["left"]
    cut = IPv6ExtHdrDestOpt(nh=17, len=3)
    bomb = b"".join([b"\x3c\0\x01\x04\0\0\0\0"] * 20) + bytes(UDP())
    for frame, reason, code, pointer in [
        (raw6(a, 0, payload(9), True), "reassembly-bad-length", 0, 4),
        (raw6(a, 65528, payload(400), False), "reassembly-beyond-65535", 0, 42),
        (raw6(a, 0, bytes(cut)[:8], True, nh=60), "reassembly-incomplete-header-chain", 3, 0),
        (raw6(a, 0, bytes(TCP())[:16], True, nh=6), "reassembly-incomplete-header-chain", 3, 0),
        (raw6(a, 0, bomb, True, nh=60), "reassembly-incomplete-header-chain", 3, 0),
    ]:
        with soon.counted(reason):
            soon.left.send(frame)
            soon.left.expect(icmp6_error(a, ICMPv6ParamProblem(code=code, ptr=pointer), bytes(frame)[14:]))
    with soon.counted("reassembly-nd-fragment"):
        soon.left.send(raw6(a, 0, b"\x87" + bytes(23), True, nh=58))
    with soon.counted("ip6-local-bad-extension-header"):
        soon.left.send(into(a) / IPv6(src=a.host6, dst=a.ip6, nh=60) / Raw(bomb))
    empty(soon)


def test_time_exceeded(soon):
    """RFC 792 and RFC 8200: only where the first fragment came."""
    a = soon.ports["left"]
    first = raw4(a, 0, payload(64), True)
    with soon.counted("reassembly-time-exceeded"), soon.counted("icmp4-errors-sent"):
        soon.left.send(raw4(a, 64, payload(64), True, ident=9), raw4(a, 64, payload(64), True), first)
        expect_error4(soon.left, a, ICMP(type=11, code=1), bytes(first)[14:])
    first = raw6(a, 0, payload(64), True)
    with soon.counted("reassembly-time-exceeded"), soon.counted("icmp6-errors-sent"):
        soon.left.send(raw6(a, 64, payload(64), True, ident=9), first, raw6(a, 64, payload(64), True))
        soon.left.expect(icmp6_error(a, ICMPv6TimeExceeded(code=1), bytes(first)[14:]))
    empty(soon)


def test_memory_is_bounded(bench):
    """A flood of first fragments: the oldest go, forwarding and pings go on, and all buffers come back."""
    t = bench({"l3": {"reassembly": {k: SOON for k in KINDS}}, "punt": {"fragment": "off"}})
    a = t.ports["left"]
    t.ctl("set ip reassembly max-reassemblies 50")
    t.ctl("set ip6 reassembly max-reassemblies 50")
    with t.counted("reassembly-evicted", 2 * 250):
        for raw in (raw4, raw6):
            t.left.send(*[raw(a, 8, payload(64), True, ident=n) for n in range(300)])
    for kind in ("ip4", "ip6"):
        w = t.router.json(f"show {kind}-full-reassembly")["workers"][0]
        assert (w["evicted"], w["buffers"] <= w["buffers-allowed"]) == (250, True)
    frags, reply = echo4(a, 3000)
    t.left.send(*[into(a) / f for f in frags])
    assert len(joined4(t.left.take(3))) == len(reply)
    t.ctl("set ip reassembly max-reassemblies 0")
    with t.counted("reassembly-off"):
        t.left.send(raw4(a, 0, payload(64), True))


def test_fragments_meet_on_one_worker(bench):
    """They come over two interfaces, which two workers poll."""
    t = bench({"quiver": {"workers": 2}, "l3": {"reassembly": {k: SOON for k in KINDS}}})
    a, b = t.ports["left"], t.ports["right"]
    for n in range(40):
        packet = IP(src=a.host, dst=a.ip, id=n) / ICMP(type=8, id=1, seq=n) / payload(1000)
        packet6 = IPv6(src=a.host6, dst=a.ip6) / ICMPv6EchoRequest(id=1, seq=n, data=payload(1000))
        for frags, reply in (
            (fragment(packet, fragsize=304), IP(src=a.ip, dst=a.host, id=n, ttl=64) / ICMP(type=0, id=1, seq=n) / payload(1000)),
            (cut6(packet6, 304, n), IPv6(src=a.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=1, seq=n, data=payload(1000))),
        ):
            for i, f in enumerate(frags):
                (t.left.send(into(a) / f) if i % 2 else t.right.send(into(b) / f))
            t.left.expect(out_of(a) / reply)
    assert t.router.errors()["reassembly-handed-off"] > 40
    done = [w["completed"] for w in t.router.json("show ip4-full-reassembly")["workers"]]
    assert sum(done) == 40 and all(done), done


def test_full_reassembly_as_a_feature(bench):
    """What goes through is put together where the interface says so, and leaves in fragments no larger than those that came."""
    t = bench({"l3": {"interfaces": {"left": {"reassembly": True}}, "reassembly": {k: SOON for k in KINDS}}})
    a, b = t.ports["left"], t.ports["right"]
    packet = udp4(a.host, b.host, size=1000)
    with t.counted("reassembly-completed"):
        t.left.send(*[into(a) / f for f in reversed(fragment(packet, fragsize=400))])
        frames = t.right.take(3)
    assert joined4(frames)[20:] == bytes(udp4(a.host, b.host, size=1000, ttl=63))[20:]
    assert max(map(len, frames)) == 14 + 420
    packet = udp6(a.host6, b.host6, size=4000)
    with t.counted("reassembly-completed"), t.counted("ip6-packets-fragmented"):
        t.left.send(*[into(a) / f for f in reversed(cut6(packet, 1240))])
        frames = t.right.take(4)
    assert joined6(frames) == bytes(udp6(a.host6, b.host6, size=4000, hlim=63))
    assert max(map(len, frames)) == 14 + 1288
    with t.counted("reassembly-overlap", 2):
        t.left.send(raw4(a, 0, payload(64), True, to=b.host), raw4(a, 32, payload(64), True, to=b.host))
    t.ctl("set interface reassembly left ip6")
    packet = udp4(a.host, b.host, size=1000)
    t.left.send(*[into(a) / f for f in fragment(packet, fragsize=400)])
    assert len(joined4(t.right.take(3))) == 1028
    empty(t)


def test_virtual_reassembly(bench):
    """Fragments leave as they came, in the order in which they came; each knows the ports of its datagram."""
    t = bench({"l3": {"interfaces": {"left": {"virtual-reassembly": True}}, "reassembly": {k: SOON for k in KINDS}}})
    a, b = t.ports["left"], t.ports["right"]
    for node, frags, less in (
        ("ip4-sv-reassembly", fragment(udp4(a.host, b.host, size=1000, sport=7, dport=9), fragsize=256), lambda f: fix4(bytes(f)[:8] + b"\x3f" + bytes(f)[9:])),
        ("ip6-sv-reassembly", cut6(udp6(a.host6, b.host6, size=1000, sport=7, dport=9), 256), lambda f: bytes(f)[:7] + b"\x3f" + bytes(f)[8:]),
    ):
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
            t.ctl("clear trace")
            t.ctl(f"trace add {node} 10")
            t.left.send(*[into(a) / frags[i] for i in order])
            t.right.expect(*[bytes(out_of(b))[:12] + bytes(into(a) / frags[i])[12:14] + less(frags[i]) for i in order])
            assert t.ctl("show trace").count("ports 7 -> 9") >= order[::-1].index(0) + 1
            # Another datagram next.
            empty(t)
    # What never gets its first fragment is dropped.
    with t.counted("reassembly-timeout"):
        t.left.send(raw4(a, 64, payload(64), True, to=b.host))
    # A later fragment inside the first one's header ends its datagram (RFC 1858).
    udp = bytes(UDP(sport=7, dport=9, len=100)) + payload(56)
    with t.counted("reassembly-overlap"):
        t.left.send(raw4(a, 0, udp, True, ident=3, proto=17, to=b.host), raw4(a, 8, payload(8), True, ident=3, proto=17, to=b.host))
    # The router's own are put together behind it.
    frags, reply = echo4(a, 900, fragsize=400)
    t.left.send(*[into(a) / f for f in reversed(frags)])
    t.left.expect(out_of(a) / reply)
    empty(t)


def test_commands(bench):
    t = bench()
    a = t.ports["left"]
    t.ctl("set ip reassembly max-reassemblies 7 max-reassembly-length 9 timeout 250 expire-walk-interval 60")
    t.ctl("set ip6 reassembly virtual timeout 9")
    s = t.router.json("show ip4-full-reassembly")
    assert (s["max-reassemblies"], s["max-reassembly-length"], s["timeout-ms"], s["expire-walk-interval-ms"]) == (7, 9, 250, 60)
    assert t.router.json("show ip6-sv-reassembly")["timeout-ms"] == 9
    assert t.router.json("show ip4-sv-reassembly")["timeout-ms"] == 2000
    t.ctl("set ip reassembly timeout 5000")
    t.left.send(raw4(a, 64, payload(64), True, ident=0x1234))
    wait_for("it is held", lambda: "id 0x1234 protocol 253" in t.ctl("show ip4-full-reassembly details"))
    text = t.ctl("show ip4-full-reassembly details")
    assert f"{a.host} -> {a.ip}" in text and "64 bytes" in text and "Fragments held: 1" in text
    t.ctl("set ip reassembly timeout 1")
    wait_for("it went", lambda: "Datagrams whose time ran out: 1" in t.ctl("show ip4-full-reassembly"))
    with pytest.raises(CtlError, match="out of range"):
        t.ctl("set ip reassembly timeout 0")
