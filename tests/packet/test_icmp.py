"""ICMP and ICMPv6 of the router: echo replies and every error, byte by byte (RFC 792, RFC 1812, RFC 4443)."""

import pytest
from harness import wait_for
from frames import *  # noqa: F403
from frames import (
    ICMP, IP, UDP, Ether, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6PacketTooBig, ICMPv6ParamProblem,
    ICMPv6TimeExceeded, IPv6, IPv6ExtHdrHopByHop, expect_error4, fix4, icmp6_error, into, out_of, through4, through6,
    udp4, udp6,
)


@pytest.mark.parametrize("size", [0, 1, 56, 1472])
def test_echo_reply_ip4(pair, size):
    a = pair.ports["left"]
    data = bytes(i % 256 for i in range(size))
    pair.left.send(into(a) / IP(src=a.host, dst=a.ip, id=99, ttl=1, tos=0x28) / ICMP(type=8, id=7, seq=9) / data)
    pair.left.expect(out_of(a) / IP(src=a.ip, dst=a.host, id=99, ttl=64, tos=0x28) / ICMP(type=0, id=7, seq=9) / data)


@pytest.mark.parametrize("size", [0, 1, 56, 1452])
def test_echo_reply_ip6(pair, size):
    a = pair.ports["left"]
    data = bytes(i % 256 for i in range(size))
    pair.left.send(into(a) / IPv6(src=a.host6, dst=a.ip6, hlim=1) / ICMPv6EchoRequest(id=7, seq=9, data=data))
    pair.left.expect(out_of(a) / IPv6(src=a.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=7, seq=9, data=data))


def test_echo_to_all_nodes_is_answered_from_an_own_address(pair):
    a = pair.ports["left"]
    with pair.counted("icmp6-echo-replies-sent"):
        pair.left.send(Ether(dst="33:33:00:00:00:01", src=a.host_mac) / IPv6(src=a.host6, dst="ff02::1") / ICMPv6EchoRequest(id=1, seq=2))
        pair.left.expect(out_of(a) / IPv6(src=a.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=1, seq=2))


def test_the_far_address_answers_too(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    pair.left.send(into(a) / IP(src=a.host, dst=b.ip, id=1) / ICMP(type=8, id=7, seq=9))
    pair.left.expect(out_of(a) / IP(src=b.ip, dst=a.host, id=1, ttl=64) / ICMP(type=0, id=7, seq=9))
    pair.left.send(into(a) / IPv6(src=a.host6, dst=b.ip6) / ICMPv6EchoRequest(id=7, seq=9))
    pair.left.expect(out_of(a) / IPv6(src=b.ip6, dst=a.host6, hlim=64) / ICMPv6EchoReply(id=7, seq=9))


@pytest.mark.parametrize("ttl", [0, 1])
def test_time_exceeded(pair, ttl):
    a, b = pair.ports["left"], pair.ports["right"]
    packet = udp4(a.host, b.host, ttl=ttl, size=600)
    with pair.counted("ip4-ttl-expired"):
        pair.left.send(into(a) / packet)
        expect_error4(pair.left, a, ICMP(type=11, code=0), packet)
    packet = udp6(a.host6, b.host6, hlim=ttl, size=1400)
    with pair.counted("ip6-hop-limit-expired"):
        pair.left.send(into(a) / packet)
        pair.left.expect(icmp6_error(a, ICMPv6TimeExceeded(code=0), packet))


UNREACHABLE4 = {
    "network": (0, "ip4-no-route", lambda a: udp4(a.host, "172.16.0.1")),
    "host": (1, "ip4-route-unreachable", lambda a: udp4(a.host, "198.51.100.1")),
    "protocol": (2, "ip4-local-unknown-protocol", lambda a: IP(src=a.host, dst=a.ip, proto=47, id=3) / b"12345678"),
    "port": (3, "ip4-local-no-udp-port", lambda a: udp4(a.host, a.ip)),
    "prohibited": (13, "ip4-route-prohibit", lambda a: udp4(a.host, "203.0.113.1")),
}


@pytest.mark.parametrize("what", UNREACHABLE4)
def test_unreachable_ip4(pair, what):
    a = pair.ports["left"]
    code, reason, packet = UNREACHABLE4[what]
    with pair.counted(reason), pair.counted("icmp4-errors-sent"):
        pair.left.send(into(a) / packet(a))
        expect_error4(pair.left, a, ICMP(type=3, code=code), packet(a))


UNREACHABLE6 = {
    "no route": (0, "ip6-no-route", lambda a: udp6(a.host6, "2001:db8:99::1")),
    "prohibited": (1, "ip6-route-prohibit", lambda a: udp6(a.host6, "2001:db8:f::1")),
    "unreachable route": (0, "ip6-route-unreachable", lambda a: udp6(a.host6, "2001:db8:e::1")),
    "port": (4, "ip6-local-no-udp-port", lambda a: udp6(a.host6, a.ip6)),
}


@pytest.mark.parametrize("what", UNREACHABLE6)
def test_unreachable_ip6(pair, what):
    a = pair.ports["left"]
    code, reason, packet = UNREACHABLE6[what]
    with pair.counted(reason), pair.counted("icmp6-errors-sent"):
        pair.left.send(into(a) / packet(a))
        pair.left.expect(icmp6_error(a, ICMPv6DestUnreach(code=code), packet(a)))


def test_source_of_errors_about_the_routers_other_address(pair):
    """IPv6 answers from the address that was asked (RFC 4443 section 2.2), IPv4 from the interface of arrival."""
    a, b = pair.ports["left"], pair.ports["right"]
    packet = udp6(a.host6, b.ip6)
    pair.left.send(into(a) / packet)
    pair.left.expect(icmp6_error(a, ICMPv6DestUnreach(code=4), packet, source=b.ip6))
    packet = udp4(a.host, b.ip)
    pair.left.send(into(a) / packet)
    expect_error4(pair.left, a, ICMP(type=3, code=3), packet)


def test_parameter_problem_ip4(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    raw = bytes(udp4(a.host, b.host))
    for options, icmp, reason in [
        (b"\x07\0\0\0", ICMP(type=12, code=0, ptr=21), "ip4-options-malformed"),
        (b"\x01\x01\x01\x07", ICMP(type=12, code=0, ptr=23), "ip4-options-malformed"),
        (b"\x83\x07\x04\x0a\0\x02\x02\0", ICMP(type=3, code=5), "ip4-source-route-refused"),
        (b"\x89\x07\x04\x0a\0\x02\x02\0", ICMP(type=3, code=5), "ip4-source-route-refused"),
    ]:
        head = bytes([0x45 + len(options) // 4]) + raw[1:2] + (len(raw) + len(options)).to_bytes(2, "big") + raw[4:20]
        packet = fix4(head + options + raw[20:])
        with pair.counted(reason):
            pair.left.send(bytes(into(a))[:12] + b"\x08\0" + packet)
            expect_error4(pair.left, a, icmp, packet)


def test_parameter_problem_ip6(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    udp = bytes(UDP(sport=1, dport=2, chksum=0x1234, len=8))

    def hop_by_hop(options, dst):
        return IPv6(src=a.host6, dst=dst, nh=0, plen=16) / (b"\x11\0" + options + udp)

    for packet, icmp, reason in [
        (IPv6(src=a.host6, dst=a.ip6, nh=200) / b"12345678", ICMPv6ParamProblem(code=1, ptr=6),
         "ip6-local-unknown-next-header"),
        (IPv6(src=a.host6, dst=a.ip6, nh=43) / (b"\x11\0\x07\x01\0\0\0\0" + udp), ICMPv6ParamProblem(code=0, ptr=42),
         "ip6-local-unknown-routing-header"),
        (hop_by_hop(b"\x1e\x09\0\0\0\0", b.host6), ICMPv6ParamProblem(code=0, ptr=43), "ip6-hop-by-hop-malformed"),
        (IPv6(src=a.host6, dst=a.ip6, nh=60, plen=16) / (b"\x11\0\x9e\x00\x01\x02\0\0" + udp),
         ICMPv6ParamProblem(code=2, ptr=42), "ip6-local-option-unknown"),
        (IPv6(src=a.host6, dst=a.ip6, nh=60, plen=24) / (b"\0\0\x01\x04\0\0\0\0\x11\0\x01\x04\0\0\0\0" + udp),
         ICMPv6ParamProblem(code=1, ptr=40), "ip6-local-hop-by-hop-not-first"),
        (hop_by_hop(b"\x9e\x00\x01\x02\0\0", b.host6), ICMPv6ParamProblem(code=2, ptr=42),
         "ip6-hop-by-hop-option-unknown"),
    ]:
        with pair.counted(reason):
            pair.left.send(into(a) / packet)
            pair.left.expect(icmp6_error(a, icmp, packet))
    sent, want = through6(a, b)
    with pair.counted("ip6-hop-by-hop-option-discard"):
        pair.left.send(into(a) / hop_by_hop(b"\x5e\x00\x01\x02\0\0", b.host6), sent)
        pair.right.expect(want)


def test_no_errors_about_errors_fragments_groups_and_broadcasts(pair):
    """RFC 1812 section 4.3.2.7 and RFC 4443 section 2.4(e)."""
    a, b = pair.ports["left"], pair.ports["right"]
    nowhere = "172.16.0.1"
    quiet4 = [
        into(a) / IP(src=a.host, dst=nowhere) / ICMP(type=3, code=1) / udp4(a.host, b.host),
        into(a) / IP(src=a.host, dst=nowhere) / ICMP(type=11) / udp4(a.host, b.host),
        into(a) / udp4(a.host, nowhere, frag=10),
        into(a) / udp4("10.0.1.255", nowhere),
    ]
    # Broadcast sources come so far only where they are let in.
    pair.ctl("set interface ip broadcast-sources left forward")
    with pair.counted("icmp4-error-not-allowed", len(quiet4)):
        pair.left.send(*quiet4)
    pair.ctl("set interface ip broadcast-sources left drop")
    quiet6 = [
        into(a) / IPv6(src=a.host6, dst="2001:db8:99::1") / ICMPv6DestUnreach() / udp6(a.host6, b.host6),
        into(a) / IPv6(src=a.host6, dst="2001:db8:99::1") / ICMPv6TimeExceeded() / udp6(a.host6, b.host6),
    ]
    with pair.counted("icmp6-error-not-allowed", len(quiet6)):
        pair.left.send(*quiet6)
    # An error about an echo request is allowed.
    ping = IP(src=a.host, dst=nowhere, id=1) / ICMP(type=8)
    pair.left.send(into(a) / ping)
    expect_error4(pair.left, a, ICMP(type=3, code=0), ping)


def test_too_big(bench):
    """Larger than the next link's MTU: the right MTU is told, and one byte less passes."""
    t = bench({"interfaces": {"right": {"mtu": 1280}}})
    a, b = t.ports["left"], t.ports["right"]
    packet = udp4(a.host, b.host, size=1280 - 28 + 1, flags="DF")
    with t.counted("ip4-fragmentation-needed"):
        t.left.send(into(a) / packet)
        expect_error4(t.left, a, ICMP(type=3, code=4, nexthopmtu=1280), packet)
    packet = udp6(a.host6, b.host6, size=1280 - 48 + 1)
    with t.counted("ip6-packet-too-big"):
        t.left.send(into(a) / packet)
        t.left.expect(icmp6_error(a, ICMPv6PacketTooBig(mtu=1280), packet))
    for sent, want in (through4(a, b, size=1280 - 28, flags="DF"), through6(a, b, size=1280 - 48)):
        t.left.send(sent)
        t.right.expect(want)


def test_too_big_for_a_route(bench):
    """Larger than a route's MTU, on a link that takes more: its MTU is told, others pass by it, and what may be cut is."""
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl(f"ip route add 20.0.0.0/24 via {b.host} right mtu 1400")
    t.ctl(f"ip route add 20.0.1.0/24 via {b.host} right")
    t.ctl(f"ip6 route add 2001:db8:20::/64 via {b.host6} right mtu 1300")
    t.ctl(f"ip6 route add 2001:db8:21::/64 via {b.host6}")
    packet = udp4(a.host, "20.0.0.1", size=1400 - 28 + 1, flags="DF")
    with t.counted("ip4-fragmentation-needed"):
        t.left.send(into(a) / packet)
        expect_error4(t.left, a, ICMP(type=3, code=4, nexthopmtu=1400), packet)
    packet = udp6(a.host6, "2001:db8:20::1", size=1300 - 48 + 1)
    with t.counted("ip6-packet-too-big"):
        t.left.send(into(a) / packet)
        t.left.expect(icmp6_error(a, ICMPv6PacketTooBig(mtu=1300), packet))
    for to, size in (("20.0.0.1", 1400), ("20.0.1.1", 1500)):
        t.left.send(into(a) / udp4(a.host, to, size=size - 28, flags="DF"))
        t.right.expect(out_of(b) / udp4(a.host, to, size=size - 28, flags="DF", ttl=63))
    for to, size in (("2001:db8:20::1", 1300), ("2001:db8:21::1", 1500)):
        t.left.send(into(a) / udp6(a.host6, to, size=size - 48))
        t.right.expect(out_of(b) / udp6(a.host6, to, size=size - 48, hlim=63))
    whole = udp4(a.host, "20.0.0.1", size=1500 - 28, id=7)
    with t.counted("ip4-packets-fragmented"):
        t.left.send(into(a) / whole)
        pieces = t.right.take(2)
    assert [len(f) - 14 for f in pieces] == [20 + 1376, 20 + 104]
    assert b"".join(f[34:] for f in pieces) == bytes(whole)[20:]
    assert "via 10.0.2.2 right mtu 1400" in t.ctl("show ip fib 20.0.0.1")
    assert {p["mtu"] for p in t.router.json("show ip fib 20.0.0.1")["group"]["paths"]} == {1400}
    assert "- 20.0.0.0/24 via 10.0.2.2 right mtu 1400\n" in t.ctl("show configuration")


def test_rate_limit(bench):
    """No more errors than a burst and the rate allow, in both families; the rest is counted."""
    t = bench()
    a = t.ports["left"]
    limited = "policed-icmp-error"
    for packet, sent in (
        (udp4(a.host, "172.16.0.1"), "icmp4-errors-sent"),
        (udp6(a.host6, "2001:db8:99::1"), "icmp6-errors-sent"),
    ):
        t.ctl("set punt policer icmp-error rate 10")
        t.ctl("clear errors")
        t.left.send(*[into(a) / packet] * 200)
        wait_for("all are counted", lambda: sum(t.router.errors().get(r, 0) for r in (limited, sent)) == 200)
        answers = t.router.errors()[sent]
        assert 10 <= answers <= 12, answers
        marker = IP(src=a.host, dst=a.ip, id=2) / ICMP(type=8, id=1, seq=1)
        t.left.send(into(a) / marker)
        frames = t.left.take(answers + 1)
        assert [f[14] == 0x45 and f[34] == 0 for f in frames] == [False] * answers + [True]


def test_errors_can_be_switched_off(bench):
    t = bench({"punt": {"icmp-error": {"rate": 0}}})
    a = t.ports["left"]
    with t.counted("policed-icmp-error"):
        t.left.send(into(a) / udp4(a.host, "172.16.0.1"), into(a) / IP(src=a.host, dst=a.ip, id=2) / ICMP())
        t.left.expect(out_of(a) / IP(src=a.ip, dst=a.host, id=2, ttl=64) / ICMP(type=0))


def test_source_address_of_several(bench):
    """The address of the prefix that holds the receiver; RFC 6724 for IPv6."""
    t = bench({"interfaces": {"left": {"addresses": ["192.0.2.1/24", "10.0.1.7/24", "2001:db8:77::1/64"]}},
               "neighbors": [{"interface": "left", "address": x, "mac": "02:00:00:00:01:02"}
                             for x in ("192.0.2.9", "2001:db8:77::9")]})
    a = t.ports["left"]
    packet = udp4("192.0.2.9", "172.16.0.1")
    t.left.send(into(a) / packet)
    got = t.left.take(1)[0]
    want = out_of(a) / IP(src="192.0.2.1", dst="192.0.2.9", tos=0xC0, ttl=64, id=int.from_bytes(got[18:20], "big")) \
        / ICMP(type=3, code=0) / bytes(packet)
    assert got == bytes(want)
    packet = udp6("2001:db8:77::9", "2001:db8:99::1")
    t.left.send(into(a) / packet)
    t.left.expect(icmp6_error(a, ICMPv6DestUnreach(code=0), packet, source="2001:db8:77::1", to="2001:db8:77::9"))
