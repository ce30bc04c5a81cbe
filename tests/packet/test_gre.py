"""GRE tunnels (RFC 2784, RFC 2890): what goes in and comes out, over both families, as Scapy builds it."""

import pytest
from frames import *
from harness import BINARY, Bench, CtlError, run, wait_for
from scapy.contrib.mpls import MPLS
from scapy.layers.l2 import GRE

# The router's ends, and the other ones, which are behind the host of `right`.
OWN, OWN6, FAR, FAR6 = "10.9.9.9", "2001:db8:9::9", "192.0.2.9", "2001:db8:f::9"
HOST_MAC = "02:00:00:00:33:02"


@pytest.fixture(scope="module")
def bench():
    """Routes into each tunnel: 172.16.N.0/24 and 2001:db8:10N::/48 go into greN."""
    over4 = {"local": OWN, "remote": FAR}
    b = Bench({
        "loopbacks": {"loop0": {"addresses": [f"{OWN}/32", f"{OWN6}/128"]}},
        "gre_tunnels": {
            "gre0": over4,
            "gre1": {**over4, "key": 77, "sequence": True, "checksum": True, "ttl": "copy", "dscp": "copy"},
            "gre2": {"local": OWN6, "remote": FAR6, "key": 5},
            "gre3": {**over4, "key": 3, "teb": True, "ttl": 9, "dscp": 46},
            "gre4": {**over4, "key": 4, "teb": True},
        },
        "bridgedomains": {"bd7": {"interfaces": ["gre4", "left.7"], "mtu": 1400}},
        "interfaces": {
            "left": {"sub-interfaces": {7: {"mtu": 1400}}},
            "gre0": {"addresses": ["10.200.0.1/30", "2001:db8:200::1/64"], "mpls": True},
            "gre1": {"addresses": ["10.201.0.1/30", "2001:db8:201::1/64"]},
            "gre2": {"addresses": ["10.202.0.1/30", "2001:db8:202::1/64"]},
            "gre3": {"addresses": ["10.203.0.1/30", "2001:db8:203::1/64"]},
            "gre4": {"mtu": 1400},
        },
        "routes": [
            f"{FAR}/32 via 10.0.2.2", f"{FAR6}/128 via 2001:db8:2::2",
            "172.16.0.0/24 via gre0", "2001:db8:100::/48 via gre0",
            "172.16.1.0/24 via 10.201.0.2", "2001:db8:101::/48 via 2001:db8:201::2",
            "172.16.2.0/24 via 10.202.0.2 gre2", "2001:db8:102::/48 via gre2",
            "172.16.3.0/24 via 10.203.0.2",
            "172.16.8.0/24 via 10.200.0.2 gre0 out-labels 1000",
        ],
        "mpls": {"local-labels": ["500 eos via ip4-lookup-in-table 0"]},
        "neighbors": [{"interface": "gre3", "address": "10.203.0.2", "mac": HOST_MAC}],
    })
    b.settle("right")
    yield b
    b.close()


def gre(inner, proto, key=None, sequence=None, checksummed=False):
    """A GRE packet behind its IP header."""
    fields = {"proto": proto}
    if key is not None:
        fields |= {"key_present": 1, "key": key}
    if sequence is not None:
        fields |= {"seqnum_present": 1, "sequence_number": sequence}
    if checksummed:
        fields |= {"chksum_present": 1}
    return GRE(**fields) / inner


def leaves(b, what, v6=False, **outer):
    """The next frame at `right` is this behind an outer header; the identification and the flow label are any."""
    got = b.right.recv()
    assert got is not None, "nothing came"
    seen = Ether(got)
    if v6:
        head = IPv6(src=OWN6, dst=FAR6, nh=47, fl=seen[IPv6].fl, **{"hlim": 63 + 1, **outer})
    else:
        head = IP(src=OWN, dst=FAR, proto=47, id=seen[IP].id, **{"ttl": 64, **outer})
    want = bytes(out_of(b.ports["right"]) / head / what)
    assert got.hex() == want.hex(), f"\n got {seen!r}\nwant {Ether(want)!r}"
    return seen


def comes(b, what, v6=False, **outer):
    """The frame with which the other end sends this."""
    head = IPv6(**{"src": FAR6, "dst": OWN6, "nh": 47, **outer}) if v6 else IP(**{"src": FAR, "dst": OWN, "proto": 47, **outer})
    return into(b.ports["right"]) / head / what


def host(b, v6):
    return b.ports["left"].host6 if v6 else b.ports["left"].host


def udp(v6, src, dst, hops=64, tos=0, **more):
    return udp6(src, dst, hlim=hops, tc=tos, **more) if v6 else udp4(src, dst, ttl=hops, tos=tos, **more)


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_packets_go_in(bench, v6):
    """TTL inside counted down once; outside 64 and DSCP 0, with the ECN field of the packet (RFC 6040)."""
    to = "2001:db8:100::5" if v6 else "172.16.0.5"
    for tos, outside in ((0, 0), (0xb8, 0), (0xba, 2)):
        bench.left.send(into(bench.ports["left"]) / udp(v6, host(bench, v6), to, tos=tos))
        leaves(bench, gre(udp(v6, host(bench, v6), to, hops=63, tos=tos), 0x86dd if v6 else 0x800), tos=outside)


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_over_ip6(bench, v6):
    to = "2001:db8:102::5" if v6 else "172.16.2.5"
    bench.left.send(into(bench.ports["left"]) / udp(v6, host(bench, v6), to, tos=1))
    seen = leaves(bench, gre(udp(v6, host(bench, v6), to, hops=63, tos=1), 0x86dd if v6 else 0x800, key=5), v6=True, tc=1)
    other = udp(v6, host(bench, v6), to, sport=1001)
    bench.left.send(into(bench.ports["left"]) / other)
    again = Ether(bench.right.recv())
    assert seen[IPv6].fl != again[IPv6].fl, "the flow label tells the flows inside apart (RFC 6438)"


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_key_number_and_checksum(bench, v6):
    """Each packet has the next number, and TTL and DSCP are those inside."""
    to = "2001:db8:101::5" if v6 else "172.16.1.5"
    first = None
    for size in (20, 21, 1200):
        bench.left.send(into(bench.ports["left"]) / udp(v6, host(bench, v6), to, hops=9, tos=0xb8, size=size))
        got = Ether(bench.right.recv())
        n = got[GRE].sequence_number
        first = n if first is None else first
        inner = udp(v6, host(bench, v6), to, hops=8, tos=0xb8, size=size)
        want = out_of(bench.ports["right"]) / IP(src=OWN, dst=FAR, proto=47, id=got[IP].id, ttl=8, tos=0xb8)
        want = want / gre(inner, 0x86dd if v6 else 0x800, key=77, sequence=n, checksummed=True)
        assert bytes(got).hex() == bytes(want).hex()
    assert n == first + 2


@pytest.mark.parametrize("v6", [False, True], ids=["ip4", "ip6"])
def test_packets_come_out(bench, v6):
    """Over all tunnels for packets, to the host on `left`, one hop on."""
    src = "2001:db8:100::5" if v6 else "172.16.0.5"
    inner = udp(v6, src, host(bench, v6))
    out = out_of(bench.ports["left"]) / udp(v6, src, host(bench, v6), hops=63)
    proto = 0x86dd if v6 else 0x800
    bench.right.send(comes(bench, gre(inner, proto)))
    bench.left.expect(out)
    bench.right.send(comes(bench, gre(inner, proto, checksummed=True)))
    bench.left.expect(out)
    bench.right.send(comes(bench, gre(inner, proto, key=5), v6=True))
    bench.left.expect(out)
    # The tunnel encapsulation limit of RFC 2473, which Linux sends.
    limit = bytes([47, 0, 4, 1, 4, 1, 0, 0])
    bench.right.send(comes(bench, limit + bytes(gre(inner, proto, key=5)), v6=True, nh=60))
    bench.left.expect(out)
    assert bench.router.interface("gre2")["rx"]["packets"] >= 2


def test_congestion_outside_is_told_inside(bench):
    """RFC 6040 section 4.2."""
    left, src = bench.ports["left"], "172.16.0.5"
    for inner, outer, want in ((2, 3, 3), (1, 3, 3), (2, 1, 1), (1, 2, 1), (3, 1, 3), (0, 2, 0), (2, 0, 2)):
        bench.right.send(comes(bench, gre(udp4(src, left.host, tos=inner), 0x800), tos=outer))
        bench.left.expect(out_of(left) / udp4(src, left.host, tos=want, ttl=63))
    with bench.counted("gre-congestion-not-ect", 2):
        bench.right.send(comes(bench, gre(udp4(src, left.host), 0x800), tos=3))
        bench.right.send(comes(bench, gre(Ether(dst="02:00:00:00:00:99") / udp4(src, left.host), 0x6558, key=3), tos=3))
    bench.right.send(comes(bench, gre(udp6("2001:db8:100::5", left.host6, tc=2), 0x86dd), tos=3))
    bench.left.expect(out_of(left) / udp6("2001:db8:100::5", left.host6, tc=3, hlim=63))


def test_late_packets(bench):
    """RFC 2890 section 2.2; the numbers begin anew behind the last one."""
    left, src = bench.ports["left"], "172.16.1.5"

    def send(n, sport):
        bench.right.send(comes(bench, gre(udp4(src, left.host, sport=sport), 0x800, key=77, sequence=n)))

    for n, sport in ((0xfffffff0, 1), (0xffffffff, 2), (0, 3), (7, 4)):
        send(n, sport)
        bench.left.expect(out_of(left) / udp4(src, left.host, sport=sport, ttl=63))
    with bench.counted("gre-out-of-order", 4):
        for n in (7, 6, 0xffffffff):
            send(n, 5)
        bench.right.send(comes(bench, gre(udp4(src, left.host), 0x800, key=77)))
    send(8, 6)
    bench.left.expect(out_of(left) / udp4(src, left.host, sport=6, ttl=63))


def test_what_is_dropped(bench):
    left = bench.ports["left"]
    inner = udp4("172.16.0.5", left.host)
    good = bytes(gre(inner, 0x800))
    for reason, what in (
        ("gre-unsupported-header", bytes([0, 1]) + good[2:]),
        ("gre-unsupported-header", bytes([0x40, 0]) + good[2:]),
        ("gre-too-short", good[:3]),
        ("gre-too-short", bytes([0xb0]) + good[1:15]),
        ("gre-bad-checksum", bytes([0x80]) + good[1:4] + bytes([0, 1, 0, 0]) + good[4:]),
        ("gre-unknown-protocol", gre(inner, 0x88be)),
        ("gre-unknown-protocol", gre(Ether() / inner, 0x6558)),
        ("gre-unknown-protocol", gre(inner, 0x800, key=3)),
    ):
        with bench.counted(reason):
            bench.right.send(comes(bench, what))
    bench.ctl("set interface state gre0 down")
    with bench.counted("gre-tunnel-down"):
        bench.right.send(comes(bench, gre(inner, 0x800)))
    bench.ctl("set interface state gre0 up")
    bench.right.send(comes(bench, gre(inner, 0x800)))
    bench.left.expect(out_of(left) / udp4("172.16.0.5", left.host, ttl=63))


def test_what_no_tunnel_wants(bench):
    """Another key or end: the sender is told that nobody speaks the protocol there."""
    port = bench.ports["right"]
    for what, src in ((gre(udp4("1.1.1.1", "2.2.2.2"), 0x800, key=9), FAR), (gre(udp4("1.1.1.1", "2.2.2.2"), 0x800), port.host)):
        with bench.counted("gre-no-tunnel"):
            bench.right.send(comes(bench, what, src=src))
        got = bench.right.wait(lambda p: ICMP in p)
        assert (got[ICMP].type, got[ICMP].code, got[IP].src, got[IP].dst) == (3, 2, port.ip, src)
    with bench.counted("gre-no-tunnel"):
        bench.right.send(comes(bench, gre(udp4("1.1.1.1", "2.2.2.2"), 0x800), v6=True))
    got = bench.right.wait(lambda p: ICMPv6ParamProblem in p)
    assert (got[ICMPv6ParamProblem].code, got[ICMPv6ParamProblem].ptr) == (1, 6)


def test_the_routers_own_addresses(bench):
    """Behind a tunnel they answer, without any neighbour discovery."""
    for v6, dst in ((False, "10.200.0.1"), (True, "2001:db8:200::1")):
        src = "2001:db8:200::2" if v6 else "10.200.0.2"
        ask = IPv6(src=src, dst=dst) / ICMPv6EchoRequest(id=7, data=b"hello") if v6 else IP(src=src, dst=dst) / ICMP(id=7) / b"hello"
        bench.right.send(comes(bench, gre(ask, 0x86dd if v6 else 0x800)))
        got = Ether(bench.right.recv())
        inner = got[GRE].payload
        assert (inner.src, inner.dst) == (dst, src), got
        assert bytes(got[GRE].payload.payload)[0] == (129 if v6 else 0)
    assert "gre0" not in bench.ctl("show ip neighbors") + bench.ctl("show ip6 neighbors")


def test_too_large_for_the_tunnel(bench):
    """1476 bytes fit; of more, the sender hears, or they go in pieces."""
    left = bench.ports["left"]
    fits = udp4(left.host, "172.16.0.5", size=1476 - 28, flags="DF")
    bench.left.send(into(left) / fits)
    leaves(bench, gre(udp4(left.host, "172.16.0.5", size=1476 - 28, flags="DF", ttl=63), 0x800))
    large = udp4(left.host, "172.16.0.5", size=1477 - 28, flags="DF")
    bench.left.send(into(left) / large)
    got = bench.left.wait(lambda p: ICMP in p)
    assert (got[ICMP].type, got[ICMP].code, got[ICMP].nexthopmtu) == (3, 4, 1476)
    bench.left.send(into(left) / udp4(left.host, "172.16.0.5", size=1477 - 28))
    pieces = [Ether(f)[GRE].payload for f in bench.right.take(2)]
    assert sorted(p.frag for p in pieces) == [0, 1456 // 8]
    # Where the tunnel is said to be larger than the way, the outer packets go in pieces.
    bench.ctl("set interface mtu packet 1500 gre0")
    bench.left.send(into(left) / udp4(left.host, "172.16.0.5", size=1472, flags="DF"))
    pieces = [Ether(f)[IP] for f in bench.right.take(2)]
    assert [(p.proto, p.src) for p in pieces] == [(47, OWN)] * 2 and {p.frag for p in pieces} == {0, 1480 // 8}
    assert pieces[0].id == pieces[1].id
    # And come as such.
    inner = udp4("172.16.0.5", left.host, size=1400)
    from scapy.layers.inet import fragment
    for piece in fragment(comes(bench, gre(inner, 0x800))[IP], fragsize=800):
        bench.right.send(into(bench.ports["right"]) / piece)
    bench.left.expect(out_of(left) / udp4("172.16.0.5", left.host, size=1400, ttl=63))
    bench.ctl("set interface mtu packet 1476 gre0")


def test_labelled_packets(bench):
    left = bench.ports["left"]
    bench.left.send(into(left) / udp4(left.host, "172.16.8.5"))
    leaves(bench, gre(MPLS(label=1000, s=1, ttl=64) / udp4(left.host, "172.16.8.5", ttl=63), 0x8847))
    bench.right.send(comes(bench, gre(MPLS(label=500, s=1, ttl=9) / udp4("172.16.8.5", left.host), 0x8847)))
    bench.left.expect(out_of(left) / udp4("172.16.8.5", left.host, ttl=63))


def test_frames(bench):
    """A tunnel for frames has neighbours as a device has."""
    left, mac = bench.ports["left"], next(r for r in bench.router.json("show interface") if r["name"] == "gre3")["mac"]
    bench.left.send(into(left) / udp4(left.host, "172.16.3.5"))
    frame = Ether(dst=HOST_MAC, src=mac) / udp4(left.host, "172.16.3.5", ttl=63)
    leaves(bench, gre(frame, 0x6558, key=3), ttl=9, tos=46 << 2)
    frame = Ether(dst=mac, src=HOST_MAC) / udp4("172.16.3.5", left.host)
    bench.right.send(comes(bench, gre(frame, 0x6558, key=3)))
    bench.left.expect(out_of(left) / udp4("172.16.3.5", left.host, ttl=63))
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=HOST_MAC) / ARP(op=1, hwsrc=HOST_MAC, psrc="10.203.0.2", pdst="10.203.0.1")
    bench.right.send(comes(bench, gre(ask, 0x6558, key=3)))
    got = bench.right.wait(lambda p: ARP in p)
    assert (got[ARP].op, got[ARP].hwsrc, got[ARP].hwdst) == (2, mac, HOST_MAC)


def test_a_bridge(bench):
    """Frames of a VLAN and of a tunnel in one bridge domain; each learns whose address is where."""
    left = bench.ports["left"]
    a, z = "02:00:00:00:77:01", "02:00:00:00:77:02"
    out = Ether(dst=z, src=a) / udp4("10.7.0.1", "10.7.0.2")
    bench.left.send(Ether(dst=z, src=a) / Dot1Q(vlan=7) / udp4("10.7.0.1", "10.7.0.2"))
    leaves(bench, gre(out, 0x6558, key=4))
    bench.right.send(comes(bench, gre(Ether(dst=a, src=z) / udp4("10.7.0.2", "10.7.0.1"), 0x6558, key=4)))
    bench.left.expect(Ether(dst=a, src=z) / Dot1Q(vlan=7) / udp4("10.7.0.2", "10.7.0.1"))
    macs = {e["mac"]: e["interface"] for e in bench.router.json("show l2fib bd_id 7")["entries"]}
    assert macs.get(z) == "gre4" and macs.get(a) == "left.7", macs


def test_the_way_follows_the_routes(bench):
    """Another route to the other end is another way at once, and none is none."""
    left, right = bench.ports["left"], bench.ports["right"]
    send = lambda: bench.left.send(into(left) / udp4(left.host, "172.16.0.5"))
    bench.ctl(f"ip route add {FAR}/32 via 10.0.2.77")
    bench.ctl("set ip neighbor right 10.0.2.77 02:00:00:00:02:77")
    bench.ctl(f"ip route del {FAR}/32 via 10.0.2.2")
    send()
    got = bench.right.wait(lambda p: GRE in p)
    assert got.dst == "02:00:00:00:02:77"
    # Through the tunnel itself it leads nowhere.
    bench.ctl(f"ip route del {FAR}/32")
    bench.ctl(f"ip route add {FAR}/32 via gre0")
    with bench.counted("midchain-recursive-routing"):
        send()
    bench.ctl(f"ip route del {FAR}/32")
    with bench.counted("ip4-no-route"):
        send()
    bench.ctl(f"ip route add {FAR}/32 via 10.0.2.2")
    bench.ctl("set ip neighbor del right 10.0.2.77")
    send()
    assert bench.right.wait(lambda p: GRE in p).dst == right.host_mac


def test_tunnels_through_each_other(bench):
    """A packet in three tunnels goes no further, whole or in pieces; tunnels in a tunnel are fine."""
    left = bench.ports["left"]
    for line in (f"create gre tunnel src {OWN} dst 192.0.2.81 instance 81", f"create gre tunnel src {OWN} dst 192.0.2.82 instance 82",
                 "set interface state gre81 up", "set interface state gre82 up", "set interface ip address gre81 10.81.0.1/30",
                 "ip route add 192.0.2.82/32 via gre81", "ip route add 192.0.2.81/32 via gre0"):
        bench.ctl(line)
    bench.ctl("set interface ip address gre82 10.82.0.1/30")
    bench.left.send(into(left) / udp4(left.host, "10.82.0.2"))
    got = bench.right.wait(lambda p: UDP in p)
    assert [p.dst for p in (got[IP], got[IP].payload.payload, got[IP].payload.payload.payload.payload)] == [FAR, "192.0.2.81", "192.0.2.82"]
    bench.ctl("ip route set 192.0.2.81/32 via gre82")
    before = bench.router.errors().get("midchain-recursive-routing", 0)
    bench.left.send(*[into(left) / udp4(left.host, "10.82.0.2", size=size) for size in (20, 1472, 1472)])
    # Each of the large ones in two pieces, then their pieces, and theirs.
    wait_for("all of it is dropped", lambda: bench.router.in_use() == 0 and bench.router.errors().get("midchain-recursive-routing", 0) > before)
    assert bench.router.errors()["midchain-recursive-routing"] - before <= 20
    for line in ("ip route del 192.0.2.81/32", "ip route del 192.0.2.82/32", "delete interface gre81", "delete interface gre82"):
        bench.ctl(line)


def test_what_comes_out_and_goes_in_again(bench):
    """Two tunnels from the router to itself in one bridge domain, and a mirror from one to the other: nothing goes round for ever."""
    left = bench.ports["left"]
    for line in ("set interface ip address loop0 10.9.9.10/32", f"create gre tunnel src {OWN} dst 10.9.9.10 teb instance 90",
                 f"create gre tunnel src 10.9.9.10 dst {OWN} teb instance 91", "set interface mtu packet 1400 gre90",
                 "set interface mtu packet 1400 gre91", "set interface l2 bridge gre90 7", "set interface l2 bridge gre91 7",
                 "set interface state gre90 up", "set interface state gre91 up"):
        bench.ctl(line)
    before = bench.router.errors().get("midchain-recursive-routing", 0)
    bench.left.send(Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:77:09") / Dot1Q(vlan=7) / udp4("10.7.0.1", "10.7.0.255"))
    wait_for("it ends", lambda: bench.router.errors().get("midchain-recursive-routing", 0) > before and bench.router.in_use() == 0)
    for line in ("set interface l3 gre90", "set interface l3 gre91", "set interface span gre91 destination gre90 rx",
                 "set interface ip address gre90 10.90.0.1/24", "set ip neighbor gre90 10.90.0.2 02:00:00:00:90:02"):
        bench.ctl(line)
    bench.left.send(into(left) / udp4(left.host, "10.90.0.2"))
    wait_for("it has come back", lambda: bench.router.interface("gre91")["rx"]["packets"] > 0 and bench.router.in_use() == 0)
    bench.ctl("set interface span gre91 disable")
    for line in ("delete interface gre90", "delete interface gre91", "set interface ip address del loop0 10.9.9.10/32"):
        bench.ctl(line)
    bench.right.drain()
    bench.left.drain()


def test_a_mirror_through_a_tunnel(bench):
    """What comes on `left` goes as a copy through a tunnel for frames, also where the way there is mirrored itself; and what comes
    out of a tunnel can be mirrored."""
    left, right = bench.ports["left"], bench.ports["right"]
    bench.ctl("set interface span left destination gre3 rx")
    bench.ctl("set interface span right destination gre3 tx")
    sent = into(left) / udp4(left.host, right.host)
    bench.left.send(sent)
    out = out_of(right) / udp4(left.host, right.host, ttl=63)
    frames = [Ether(f) for f in bench.right.take(3)]
    inside = [bytes(f[GRE].payload) for f in frames if GRE in f]
    assert sorted(inside) == sorted([bytes(sent), bytes(out)]) and sum(bytes(f) == bytes(out) for f in frames) == 1
    bench.ctl("set interface span left disable")
    bench.ctl("set interface span right disable")
    bench.ctl("set interface span gre3 destination left rx")
    frame = Ether(dst="ff:ff:ff:ff:ff:ff", src=HOST_MAC) / ARP(op=2, hwsrc=HOST_MAC, psrc="10.203.0.2", pdst="10.203.0.2")
    bench.right.send(comes(bench, gre(frame, 0x6558, key=3)))
    assert bytes(bench.left.wait(lambda p: p.src == HOST_MAC)) == bytes(frame)
    bench.ctl("set interface span gre3 disable")
    bench.right.drain()


def test_flows_take_all_ways(bench):
    """Two tunnels, and two ways to the end of each: the choice of the one says nothing of the other."""
    left = bench.ports["left"]
    other = "02:00:00:00:33:03"
    bench.ctl(f"set ip neighbor right 10.0.2.3 {other}")
    names = [bench.ctl(f"create gre tunnel src {OWN} dst 192.0.2.{n}").strip() for n in (20, 21)]
    for name in names:
        bench.ctl(f"set interface state {name} up")
    bench.ctl("ip route add 192.0.2.20/31 via 10.0.2.2 via 10.0.2.3")
    bench.ctl(f"ip route add 172.20.0.0/16 via {names[0]} via {names[1]}")
    frames = [into(left) / udp4(left.host, f"172.20.0.{n + 1}", sport=1000 + n) for n in range(200)]
    bench.left.send(*frames)
    seen = [Ether(f) for f in bench.right.take(200)]
    counts = {}
    for p in seen:
        counts[p.dst, p[IP].dst] = counts.get((p.dst, p[IP].dst), 0) + 1
    # 50 of each, and 6 is their standard deviation.
    assert len(counts) == 4 and min(counts.values()) >= 20, counts
    bench.ctl(f"ip route del 172.20.0.0/16")
    bench.ctl("ip route del 192.0.2.20/31")
    for name in names:
        bench.ctl(f"delete interface {name}")
    bench.ctl("ip neighbor del right 10.0.2.3")


def test_commands(bench):
    """In VPP's words; what cannot be is refused and says why."""
    assert bench.ctl("create gre tunnel src 10.9.9.9 dst 192.0.2.77 instance 70").strip() == "gre70"
    assert bench.ctl("create gre tunnel src 10.9.9.9 dst 192.0.2.77 key 1").strip() == "gre5"
    rows = {r["tunnel"]: r for r in bench.router.json("show gre tunnel")}
    assert rows["gre70"]["destination"] == "192.0.2.77" and rows["gre5"]["key"] == 1, rows
    for line, why in (
        ("create gre tunnel src 10.9.9.9 dst 192.0.2.77", "gre70 has the same ends and key"),
        ("create gre tunnel src 10.9.9.9 dst 2001:db8::1", "two families"),
        ("create gre tunnel src 10.9.9.9 dst 224.0.0.1", "cannot be an end"),
        ("create gre tunnel src 10.9.9.9 dst 10.9.9.9", "both ends"),
        ("create gre tunnel src 10.9.9.9 dst 192.0.2.78 outer-table-id 9", "table 9"),
        ("create gre tunnel src 10.9.9.9 dst 192.0.2.78 instance 70", "gre70"),
        ("create gre tunnel src 10.9.9.9 dst 192.0.2.99 del", "no tunnel"),
        ("create sub-interfaces gre0 7", "no frames"),
        ("set interface l2 bridge gre0 7", "no frames"),
        ("set ip neighbor gre0 10.200.0.2 02:00:00:00:00:01", "needs no neighbors"),
        ("show gre tunnel left", "no GRE tunnel"),
    ):
        with pytest.raises(CtlError, match=why):
            bench.ctl(line)
    bench.ctl("create gre tunnel src 10.9.9.9 dst 192.0.2.77 del")
    bench.ctl("delete interface gre5")
    assert "gre70" not in bench.ctl("show gre tunnel")


def test_another_table(bench):
    """Both ends in table 5, and the packets inside in table 0; the table cannot go before the tunnel."""
    left = bench.ports["left"]
    for line in ("ip table add 5", "create sub-interfaces right 5", "set interface ip table right.5 5",
                 "set interface ip address right.5 10.55.0.1/24", "set interface state right.5 up",
                 "set ip neighbor right.5 10.55.0.2 02:00:00:00:55:02",
                 "create gre tunnel src 10.55.0.1 dst 10.55.0.2 outer-table-id 5 instance 55",
                 "set interface state gre55 up", "set interface ip address gre55 10.56.0.1/30",
                 "ip route add 172.16.55.0/24 via gre55"):
        bench.ctl(line)
    bench.left.send(into(left) / udp4(left.host, "172.16.55.5"))
    got = bench.right.wait(lambda p: GRE in p)
    assert (got.dst, got[Dot1Q].vlan, got[IP].dst) == ("02:00:00:00:55:02", 5, "10.55.0.2")
    back = gre(udp4("172.16.55.5", left.host), 0x800)
    mac = bench.ports["right"].mac
    bench.right.send(Ether(dst=mac, src="02:00:00:00:55:02") / Dot1Q(vlan=5) / IP(src="10.55.0.2", dst="10.55.0.1", proto=47) / back)
    bench.left.expect(out_of(left) / udp4("172.16.55.5", left.host, ttl=63))
    # In table 0 nobody has these ends.
    with bench.counted("ip4-no-route", 2):
        bench.right.send(into(bench.ports["right"]) / IP(src="10.55.0.2", dst="10.55.0.1", proto=47) / back)
    bench.ctl("delete sub-interface right.5")
    with pytest.raises(CtlError, match="gre55"):
        bench.ctl("ip table del 5")
    bench.ctl("ip route del 172.16.55.0/24")
    bench.ctl("delete interface gre55")
    bench.ctl("ip table del 5")


def test_a_dump_loads(bench):
    """And gives the same tunnels, and the same dump."""
    def text():
        return run([BINARY, "dump", "-s", bench.router.socket]).stdout

    dump, tunnels = text(), [{k: v for k, v in r.items() if k != "group"} for r in bench.router.json("show gre tunnel")]
    assert "gre_tunnels:" in dump and "dscp: copy" in dump, dump
    assert bench.router.kill(15) == 0
    with open(bench.router.file, "w") as f:
        f.write(dump)
    bench.router.start()
    assert [{k: v for k, v in r.items() if k != "group"} for r in bench.router.json("show gre tunnel")] == tunnels
    assert text() == dump
    left = bench.ports["left"]
    wait_for("the ports have link", lambda: bench.router.interface("right")["link"] and bench.router.interface("left")["link"])
    bench.left.send(into(left) / udp4(left.host, "172.16.0.5"))
    assert bench.right.wait(lambda p: GRE in p)[IP].dst == FAR


def test_many_packets_and_no_leak(bench):
    """Buffers come back from all of this."""
    left = bench.ports["left"]
    frames = [into(left) / udp4(left.host, f"172.16.{n % 4}.{n % 250 + 1}", sport=n + 1) for n in range(400)]
    bench.left.send(*frames)
    bench.right.take(300, chatter=True)
    wait_for("all buffers are back", lambda: bench.router.in_use() == 0)
