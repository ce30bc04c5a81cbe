"""IPv4 fragmentation on output (RFC 791): right offsets, flags, options and checksums, and the whole comes together."""

import pytest
from frames import *  # noqa: F403
from frames import IP, UDP, Ether, Raw, fix4, into, out_of, udp4


def fragments_of(packet, mtu):
    """What must come out, built by hand: every fragment but the last carries the most multiples of eight bytes."""
    raw = bytes(packet)
    head = (raw[0] & 15) * 4
    header, data = raw[:head], raw[head:]
    first, more = int.from_bytes(header[6:8], "big") & 0x1FFF, header[6] & 0x20
    copied = copied_options(header[20:])
    out, at = [], 0
    while at < len(data) or not out:
        h = header if first + at == 0 or at == 0 else header[:20] + copied
        room = (mtu - len(h)) // 8 * 8
        piece = data[at:at + room] if len(data) - at > mtu - len(h) else data[at:]
        last = at + len(piece) == len(data)
        h = bytearray(h)
        h[0] = 0x40 | len(h) // 4
        h[2:4] = (len(h) + len(piece)).to_bytes(2, "big")
        h[6:8] = (((0x2000 if not last or more else 0)) | (first + at // 8)).to_bytes(2, "big")
        h[8] -= 1
        out.append(fix4(bytes(h) + piece))
        at += len(piece)
    return out


def copied_options(options):
    """Those with the copied flag, padded to four bytes."""
    out, at = b"", 0
    while at < len(options) and options[at] != 0:
        n = 1 if options[at] == 1 else options[at + 1]
        if options[at] & 0x80:
            out += options[at:at + n]
        at += n
    return out + bytes(-len(out) % 4)


def frame(port, packet):
    return bytes(out_of(port))[:12] + b"\x08\0" + packet


@pytest.fixture(scope="module")
def narrow():
    from harness import Bench

    t = Bench({"interfaces": {"left": {"mtu": 9000}, "right": {"mtu": 1280}}}, mtu=9000)
    yield t
    t.close()


@pytest.mark.parametrize("size", [1281, 1282, 1288, 1500, 2536, 2537, 4000, 8999, 9000])
def test_fragments(narrow, size):
    a, b = narrow.ports["left"], narrow.ports["right"]
    packet = udp4(a.host, b.host, size=size - 28, id=0x4242)
    want = fragments_of(packet, 1280)
    with narrow.counted("ip4-packets-fragmented"), narrow.counted("ip4-fragments-made", len(want)):
        narrow.left.send(into(a) / packet)
        narrow.right.expect(*[frame(b, w) for w in want])
    got = b"".join(w[20:] for w in want)
    assert got == bytes(packet)[20:]


@pytest.mark.parametrize("options", [b"\x94\x04\0\0", b"\x07\x07\x08\x01\x02\x03\x04\0",
                                     b"\x94\x04\0\0\x07\x07\x08\x01\x02\x03\x04\0"],
                         ids=["copied", "not copied", "both"])
def test_options(narrow, options):
    a, b = narrow.ports["left"], narrow.ports["right"]
    raw = bytes(udp4(a.host, b.host, size=3000, id=7))
    head = bytes([0x45 + len(options) // 4]) + raw[1:2] + (len(raw) + len(options)).to_bytes(2, "big") + raw[4:20]
    packet = fix4(head + options + raw[20:])
    narrow.left.send(bytes(into(a))[:12] + b"\x08\0" + packet)
    narrow.right.expect(*[frame(b, w) for w in fragments_of(packet, 1280)])


def test_fragments_of_fragments(narrow):
    a, b = narrow.ports["left"], narrow.ports["right"]
    for kw in ({"flags": "MF", "frag": 0}, {"flags": "MF", "frag": 100}, {"frag": 100}):
        packet = IP(src=a.host, dst=b.host, ttl=64, id=5, proto=17, **kw) / Raw(bytes(i % 256 for i in range(2000)))
        narrow.left.send(into(a) / packet)
        narrow.right.expect(*[frame(b, w) for w in fragments_of(packet, 1280)])


def test_a_fragment_that_would_end_beyond_the_longest_packet(narrow):
    a, b = narrow.ports["left"], narrow.ports["right"]
    with narrow.counted("ip4-frag-beyond-65535"):
        narrow.left.send(into(a) / IP(src=a.host, dst=b.host, frag=8100, proto=17) / Raw(bytes(2000)))


def test_scapy_agrees(narrow):
    from scapy.layers.inet import fragment

    a, b = narrow.ports["left"], narrow.ports["right"]
    packet = udp4(a.host, b.host, size=5000, id=9)
    narrow.left.send(into(a) / packet)
    out = fragment(udp4(a.host, b.host, size=5000, id=9, ttl=63), 1256)
    narrow.right.expect(*[out_of(b) / f for f in out])


def test_jumbo_packets_in_chains_pass_whole(bench):
    """9000 bytes do not fit one buffer; neither forwarding nor echo cuts them."""
    t = bench(mtu=9000)
    a, b = t.ports["left"], t.ports["right"]
    for size in (1500, 2000, 2048, 4096, 8972):
        packet = udp4(a.host, b.host, size=size)
        t.left.send(into(a) / packet)
        t.right.expect(out_of(b) / udp4(a.host, b.host, size=size, ttl=63))
    from frames import ICMP

    data = bytes(i % 253 for i in range(8972))
    t.left.send(into(a) / IP(src=a.host, dst=a.ip, id=1) / ICMP(type=8, id=1, seq=1) / data)
    t.left.expect(out_of(a) / IP(src=a.ip, dst=a.host, id=1, ttl=64) / ICMP(type=0, id=1, seq=1) / data)


def test_fragments_of_a_burst_come_back_to_the_pool(narrow):
    a, b = narrow.ports["left"], narrow.ports["right"]
    packets = [udp4(a.host, b.host, size=8000, id=i) for i in range(100)]
    want = [frame(b, w) for p in packets for w in fragments_of(p, 1280)]
    narrow.left.send(*[into(a) / p for p in packets])
    narrow.right.expect(*want)
