"""Which addresses are the router's, and which nobody's: detection, anycast, broadcasts of its prefixes, 169.254/16."""

import time

import pytest
from frames import *
from harness import Bench, CtlError, wait_for
from test_neighbors import group_mac, group_of


@pytest.fixture(scope="module")
def strict():
    """A router that uses an IPv6 address only when nobody else has it."""
    b = Bench({"quiver": {"dad": "strict"}})
    wait_for("detection is through", lambda: "tentative" not in b.ctl("show interface address"))
    yield b
    b.close()


def echo6(src, dst, **more):
    return IPv6(src=src, dst=dst, **more) / ICMPv6EchoRequest(id=1, seq=2, data=b"own")


def test_a_tentative_address_is_not_ours(strict):
    left = strict.ports["left"]
    address = "2001:db8:7::1"
    strict.ctl(f"set interface ip address left {address}/64")
    with strict.counted("ip6-route-drop"):
        strict.left.send(into(left) / echo6(left.host6, address))
    wait_for("detection is through", lambda: "tentative" not in strict.ctl("show interface address left"))
    strict.left.send(into(left) / echo6(left.host6, address))
    got = strict.left.wait(lambda p: ICMPv6EchoReply in p)
    assert (got[IPv6].src, got[IPv6].dst) == (address, left.host6)
    strict.ctl(f"set interface ip address del left {address}/64")


def test_a_duplicate_is_its_owners(strict):
    left, right = strict.ports["left"], strict.ports["right"]
    address, owner = "2001:db8:8::1", "02:00:00:00:88:88"
    strict.ctl(f"set interface ip address left {address}/64")
    strict.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == address and p[IPv6].src == "::")
    advert = ICMPv6ND_NA(tgt=address, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=owner)
    strict.left.send(Ether(dst="33:33:00:00:00:01", src=owner) / IPv6(src=address, dst="ff02::1", hlim=255) / advert)
    wait_for("the address is a duplicate", lambda: "duplicate" in strict.ctl("show interface address left"))
    # What comes for it goes to who has it.
    packet = into(right) / echo6(right.host6, address)
    strict.right.send(packet)
    asked = strict.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == address and p[IPv6].src != "::")
    strict.left.send(Ether(dst=left.mac, src=owner) / IPv6(src=address, dst=asked[IPv6].src, hlim=255)
                     / ICMPv6ND_NA(tgt=address, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=owner))
    want = Ether(dst=owner, src=left.mac) / echo6(right.host6, address, hlim=63)
    strict.left.wait(lambda p: bytes(p) == bytes(want))
    strict.right.send(packet)
    strict.left.wait(lambda p: bytes(p) == bytes(want))
    strict.ctl(f"set interface ip address del left {address}/64")


@pytest.mark.parametrize("name, asked, source", [
    ("left", "2001:db8:1::", "2001:db8:1::1"), ("left", "2001:db8:2::", "2001:db8:2::1"),
])
def test_the_anycast_address_answers_from_a_unicast_one(pair, name, asked, source):
    left = pair.ports["left"]
    pair.left.send(into(left) / echo6(left.host6, asked))
    pair.left.expect(out_of(left) / IPv6(src=source, dst=left.host6, hlim=64) / ICMPv6EchoReply(id=1, seq=2, data=b"own"))
    pair.left.send(into(left) / udp6(left.host6, asked))
    got = pair.left.wait(lambda p: ICMPv6DestUnreach in p)
    assert (got[IPv6].src, got[ICMPv6DestUnreach].code) == (left.ip6, 4)


def test_a_solicitation_of_the_anycast_address(pair):
    """RFC 4861, 7.2.7: the answer overrides nothing, and comes after a random time of up to a second."""
    left = pair.ports["left"]
    target = "2001:db8:1::"
    assert group_of(target) in pair.ctl("show ip groups left")
    solicit = (Ether(dst=group_mac(target), src=left.host_mac) / IPv6(src=left.host6, dst=group_of(target), hlim=255)
               / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=left.host_mac))
    times = []
    for _ in range(6):
        start = time.monotonic()
        pair.left.send(solicit)
        pair.left.expect(out_of(left) / IPv6(src=left.ip6, dst=left.host6, hlim=255)
                         / ICMPv6ND_NA(tgt=target, R=1, S=1, O=0) / ICMPv6NDOptDstLLAddr(lladdr=left.mac))
        times.append(time.monotonic() - start)
    # Six answers within 50 ms each: once in 64 million runs.
    assert max(times) > 0.05, times
    # Without the address there is nothing to say, and no answer of before waits any more.
    pair.ctl("set interface ip address left 2001:db8:9::1/64")
    nine = (Ether(dst=group_mac("2001:db8:9::"), src=left.host_mac) / IPv6(src=left.host6, dst=group_of("2001:db8:9::"), hlim=255)
            / ICMPv6ND_NS(tgt="2001:db8:9::") / ICMPv6NDOptSrcLLAddr(lladdr=left.host_mac))
    pair.left.send(nine)
    pair.left.wait(lambda p: ICMPv6ND_NA in p and p[ICMPv6ND_NA].tgt == "2001:db8:9::")
    pair.ctl("set interface ip address del left 2001:db8:9::1/64")
    # Another link's is not answered here.
    other = "2001:db8:2::"
    with pair.counted("nd-not-for-us"):
        pair.left.send(Ether(dst=left.mac, src=left.host_mac) / IPv6(src=left.host6, dst=left.ip6, hlim=255)
                       / ICMPv6ND_NS(tgt=other) / ICMPv6NDOptSrcLLAddr(lladdr=left.host_mac))


def test_which_prefixes_have_an_anycast_address(pair):
    for length, has in ((64, True), (126, True), (127, False), (128, False)):
        pair.ctl(f"set interface ip address left 2001:db8:9::1/{length}")
        assert ("2001:db8:9::/128" in pair.ctl("show ip6 fib")) == has, length
        pair.ctl(f"set interface ip address del left 2001:db8:9::1/{length}")
        assert "2001:db8:9::/128" not in pair.ctl("show ip6 fib")
    for line in ("ip route add 2001:db8:aa::/48 via 2001:db8:1::", "ip route add 2001:db8:aa::/48 via 2001:db8:1:: left",
                 "ip neighbor left 2001:db8:1:: 02:00:00:00:00:99", "ip6 nd proxy add left 2001:db8:2::"):
        with pytest.raises(CtlError, match="own address"):
            pair.ctl(line)


def test_sources_that_are_broadcasts(pair):
    left, right = pair.ports["left"], pair.ports["right"]
    for source in ("10.0.1.255", "10.0.2.255", "10.0.1.0"):
        for upper in (ICMP(id=1, seq=1), UDP(sport=1, dport=9) / b"x"):
            with pair.counted("ip4-source-no-host"):
                pair.left.send(into(left) / IP(src=source, dst=left.ip) / upper)
        # To others as well, and without an answer.
        with pair.counted("ip4-source-no-host", 2):
            pair.left.send(into(left) / udp4(source, right.host, ttl=1), into(left) / udp4(source, right.host))


def test_sources_that_are_broadcasts_are_forwarded_where_told(pair):
    left, right = pair.ports["left"], pair.ports["right"]
    bad = [into(left) / udp4(source, right.host) for source in ("10.0.1.255", "10.0.2.255", "10.0.1.0", "10.0.2.0")]
    good = [(into(left) / udp4(source, right.host), out_of(right) / udp4(source, right.host, ttl=63))
            for source in (left.host, "10.77.1.255", "10.0.3.0", "10.77.1.31")]
    # Good ones between bad ones, in one vector.
    with pair.counted("ip4-source-no-host", 4):
        pair.left.send(bad[0], good[0][0], bad[1], good[1][0], bad[2], good[2][0], bad[3], good[3][0])
        pair.right.expect(*(out for _, out in good))
    pair.ctl("set interface ip broadcast-sources left forward")
    assert "ip4-broadcast-sources: forward" in pair.ctl("show configuration")
    pair.left.send(bad[0])
    pair.right.expect(out_of(right) / udp4("10.0.1.255", right.host, ttl=63))
    # The router itself takes none all the same.
    with pair.counted("ip4-local-broadcast-source"):
        pair.left.send(into(left) / IP(src="10.0.1.255", dst=left.ip) / ICMP(id=1, seq=1))
    pair.ctl("set interface ip broadcast-sources left drop")
    assert "ip4-broadcast-sources" not in pair.ctl("show configuration")
    with pair.counted("ip4-source-no-host"):
        pair.left.send(bad[1])


def test_broadcast_sources_follow_the_addresses(pair):
    left, right = pair.ports["left"], pair.ports["right"]
    packets = [into(left) / udp4("10.9.2.15", right.host), into(left) / udp4("10.9.2.16", right.host)]
    forwarded = [out_of(right) / udp4(f"10.9.2.{n}", right.host, ttl=63) for n in (15, 16)]
    pair.left.send(*packets)
    pair.right.expect(*forwarded)
    # Two interfaces cannot have one prefix; two addresses of an interface can.
    pair.ctl("set interface ip address right 10.9.2.1/28")
    pair.ctl("set interface ip address right 10.9.2.2/28")
    for line in ("set interface ip address del right 10.9.2.1/28", "set interface ip directed-broadcast right enable",
                 "set interface ip directed-broadcast right disable"):
        with pair.counted("ip4-source-no-host"):
            pair.left.send(*packets)
            pair.right.expect(forwarded[1])
        pair.ctl(line)
    # In another routing table nobody knows of it.
    for line in ("ip table add 9", "create loopback interface instance 9", "set interface ip table loop9 9",
                 "set interface ip address loop9 10.9.3.1/24"):
        pair.ctl(line)
    pair.left.send(into(left) / udp4("10.9.3.255", right.host))
    pair.right.expect(out_of(right) / udp4("10.9.3.255", right.host, ttl=63))
    for line in ("delete loopback interface intfc loop9", "ip table del 9", "set interface ip address del right 10.9.2.2/28"):
        pair.ctl(line)
    pair.left.send(*packets)
    pair.right.expect(*forwarded)


@pytest.mark.parametrize("path", ["10.0.2.255", "10.0.2.255 right", "10.0.2.0", "10.0.2.0 right"])
def test_a_broadcast_is_no_next_hop(pair, path):
    with pytest.raises(CtlError, match="network or broadcast address of 10.0.2.0/24"):
        pair.ctl(f"ip route add 198.18.0.0/24 via {path}")


def test_directed_broadcasts(pair):
    left, right = pair.ports["left"], pair.ports["right"]
    packet = into(left) / udp4(left.host, "10.0.2.255")
    with pair.counted("ip4-directed-broadcast"):
        pair.left.send(packet)
    pair.ctl("set interface ip directed-broadcast right enable")
    out = Ether(dst="ff:ff:ff:ff:ff:ff", src=right.mac) / udp4(left.host, "10.0.2.255", ttl=63)
    for _ in range(2):
        pair.left.send(packet)
        pair.right.expect(out)
    # An address that comes later, the network address, and what may not be answered.
    pair.ctl("set interface ip address right 10.9.2.1/28")
    pair.left.send(into(left) / udp4(left.host, "10.9.2.15"))
    pair.right.expect(Ether(dst="ff:ff:ff:ff:ff:ff", src=right.mac) / udp4(left.host, "10.9.2.15", ttl=63))
    pair.ctl("set interface ip address del right 10.9.2.1/28")
    with pair.counted("ip4-directed-broadcast", 2):
        pair.left.send(into(left) / udp4(left.host, "10.0.2.0"), into(left) / udp4(left.host, "10.0.1.255"))
    with pair.counted("icmp4-error-not-allowed"):
        pair.left.send(into(left) / udp4(left.host, "10.0.2.255", ttl=1))
    with pair.counted("ip4-source-no-host"):
        pair.left.send(into(left) / IP(src="10.0.2.255", dst=left.ip) / ICMP(id=1, seq=1))
    assert "directed-broadcast: true" in pair.ctl("show configuration")
    pair.ctl("set interface ip directed-broadcast right disable")
    with pair.counted("ip4-directed-broadcast"):
        pair.left.send(packet)


def test_ipv4_link_local(pair):
    """Forwarded as Linux does it, unless the operator says otherwise; the router itself may have such an address."""
    left, right = pair.ports["left"], pair.ports["right"]
    packets = [into(left) / udp4("169.254.1.1", right.host), into(left) / udp4(left.host, "169.254.2.2")]
    pair.ctl("ip route add 169.254.2.0/24 via 10.0.2.2")
    pair.left.send(*packets)
    pair.right.expect(out_of(right) / udp4("169.254.1.1", right.host, ttl=63), out_of(right) / udp4(left.host, "169.254.2.2", ttl=63))
    pair.ctl("set interface ip link-local left drop")
    with pair.counted("ip4-link-local-not-forwarded", 2):
        pair.left.send(*packets)
    pair.ctl("set interface ip address left 169.254.9.1/24")
    pair.ctl(f"ip neighbor left 169.254.9.2 {left.host_mac}")
    pair.left.send(into(left) / IP(src="169.254.9.2", dst="169.254.9.1", id=1) / ICMP(id=5, seq=1) / b"x")
    got = pair.left.wait(lambda p: ICMP in p and p[ICMP].type == 0 and p[ICMP].id == 5)
    assert got[IP].dst == "169.254.9.2"
    assert "ip4-link-local: drop" in pair.ctl("show configuration")
    pair.left.send(into(left) / udp4(left.host, right.host))
    pair.right.expect(out_of(right) / udp4(left.host, right.host, ttl=63))
    pair.ctl("set interface ip link-local left forward")
    pair.ctl("set interface ip address del left 169.254.9.1/24")
    pair.ctl("ip route del 169.254.2.0/24")
