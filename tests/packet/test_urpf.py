"""Unicast reverse path forwarding: which sources pass, and that the others are counted where operators look."""

import socket

import pytest
from frames import *
from harness import Bench, CtlError
from scapy.utils6 import in6_getnsma

# A third port, over which some sources are reached, and routes back over two of them.
ROUTES = [
    {"prefix": "172.16.0.0/16", "via": "10.0.1.2"},
    {"prefix": "172.17.0.0/16", "via": "10.0.3.2"},
    {"prefix": "172.18.0.0/16", "via": [{"address": "10.0.1.2"}, {"address": "10.0.3.2", "weight": 9}]},
    {"prefix": "172.19.0.0/16", "type": "drop"},
    {"prefix": "172.20.0.0/16", "via": [{"address": "10.0.2.2"}, {"address": "10.0.3.2"}]},
    {"prefix": "172.21.0.0/16", "type": "unreachable"},
    {"prefix": "2001:db8:a1::/48", "via": "2001:db8:1::2"},
    {"prefix": "2001:db8:a2::/48", "via": "2001:db8:3::2"},
    {"prefix": "2001:db8:a3::/48", "via": [{"address": "2001:db8:1::2"}, {"address": "2001:db8:3::2", "weight": 9}]},
    {"prefix": "2001:db8:a4::/48", "type": "drop"},
]


def in6_getnsma_text(address):
    """The solicited-node group of an address."""
    return socket.inet_ntop(socket.AF_INET6, in6_getnsma(socket.inet_pton(socket.AF_INET6, address)))


@pytest.fixture(scope="module", params=["strict", "loose"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def checked(mode):
    """A router that checks what comes on `left`, where broadcast sources are not stopped before."""
    left = {"urpf": mode, "ip4-broadcast-sources": "forward"}
    b = Bench({"routes": ROUTES, "l3": {"interfaces": {"left": left}}}, ports=("left", "right", "back"))
    yield b
    b.close()


# Sources, and whether they pass strictly and loosely on `left`.
SOURCES = [
    ("10.0.1.2", True, True, "a neighbour on the link"),
    ("10.0.1.99", True, True, "nobody knows it, but it would be on the link"),
    ("172.16.5.5", True, True, "the way back is this interface"),
    ("172.17.5.5", False, True, "the way back is another"),
    ("172.18.5.5", True, True, "one of two ways back is this interface"),
    ("172.20.5.5", False, True, "both ways back are others"),
    ("172.19.5.5", False, False, "its route drops"),
    ("172.21.5.5", False, False, "its route says unreachable"),
    ("198.51.100.7", False, False, "no route"),
    ("10.0.2.1", False, False, "the router's own address"),
    ("10.0.1.1", False, False, "the router's own address on this interface"),
    ("10.0.1.255", False, False, "the broadcast address of the link"),
    ("10.0.2.2", False, True, "a neighbour on another link"),
    ("2001:db8:1::2", True, True, "a neighbour on the link"),
    ("2001:db8:1::77", True, True, "nobody knows it, but it would be on the link"),
    ("2001:db8:a1::5", True, True, "the way back is this interface"),
    ("2001:db8:a2::5", False, True, "the way back is another"),
    ("2001:db8:a3::5", True, True, "one of two ways back is this interface"),
    ("2001:db8:a4::5", False, False, "its route drops"),
    ("2001:db8:ff::1", False, False, "no route"),
    ("2001:db8:2::1", False, False, "the router's own address"),
]


def frames(b, source):
    """A frame from `source` on `left` to the host on `right`, and what comes out."""
    left, right = b.ports["left"], b.ports["right"]
    if ":" in source:
        make = lambda hlim: udp6(source, right.host6, hlim=hlim)
    else:
        make = lambda ttl: udp4(source, right.host, ttl=ttl)
    return into(left) / make(64), out_of(right) / make(63)


@pytest.mark.parametrize("source, strict, loose, why", SOURCES, ids=[f"{s[0]}: {s[3]}" for s in SOURCES])
def test_a_source(checked, mode, source, strict, loose, why):
    good, want_good = frames(checked, "2001:db8:1::2" if ":" in source else "10.0.1.2")
    sent, want = frames(checked, source)
    if strict if mode == "strict" else loose:
        checked.left.send(sent)
        checked.right.expect(want)
    else:
        reason = f"ip{6 if ':' in source else 4}-urpf-{mode}"
        with checked.counted(reason):
            checked.left.send(sent)
        # Nothing came out: what is sent next comes next.
        checked.left.send(good)
        checked.right.expect(want_good)


def test_packets_to_the_router_are_checked(checked, mode):
    left = checked.ports["left"]
    with checked.counted(f"ip4-urpf-{mode}"):
        checked.left.send(into(left) / IP(src="198.51.100.7", dst=left.ip) / ICMP(id=1, seq=1))
    checked.left.send(into(left) / IP(src=left.host, dst=left.ip) / ICMP(id=1, seq=2))
    got = checked.left.recv()
    assert got is not None and Ether(got)[ICMP].seq == 2


def test_link_local_and_solicitations_pass(checked):
    """Neighbours must find the router: link-local sources have no route, and `::` is no unicast source."""
    left = checked.ports["left"]
    checked.left.send(into(left) / IPv6(src="fe80::77", dst=left.ip6) / ICMPv6EchoRequest(id=5, seq=1))
    checked.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == "fe80::77")
    solicit = IPv6(src="::", dst=in6_getnsma_text(left.ip6)) / ICMPv6ND_NS(tgt=left.ip6)
    with checked.counted("nd-handed-to-control"):
        checked.left.send(Ether(dst="33:33:ff:00:00:01", src=left.host_mac) / solicit)


def test_what_is_not_unicast_is_not_checked(checked):
    """A DHCP client has no address yet: its broadcasts meet their own reason."""
    left = checked.ports["left"]
    with checked.counted("ip4-martian-source"):
        checked.left.send(Ether(dst="ff:ff:ff:ff:ff:ff", src=left.host_mac) / udp4("0.0.0.0", "255.255.255.255", sport=68, dport=67))


def test_other_interfaces_do_not_check(checked):
    right, left = checked.ports["right"], checked.ports["left"]
    checked.right.send(into(right) / udp4("198.51.100.7", left.host))
    checked.left.expect(out_of(left) / udp4("198.51.100.7", left.host, ttl=63))


def test_vectors_of_good_and_bad(checked, mode):
    """Good and bad sources in one vector, at sizes around those of the loops: only the good ones come out."""
    sources = ["10.0.1.2", "198.51.100.7", "172.16.5.5", "172.18.5.5", "172.19.5.5", "2001:db8:1::2", "2001:db8:ff::1"]
    good = {"10.0.1.2", "172.16.5.5", "172.18.5.5", "2001:db8:1::2"}
    for count in (1, 3, 4, 5, 63):
        batch = [sources[i % len(sources)] for i in range(count)]
        both = [frames(checked, s) for s in batch]
        checked.left.send(*[sent for sent, _ in both])
        wanted = [bytes(want) for s, (_, want) in zip(batch, both) if s in good]
        assert sorted(checked.right.take(len(wanted))) == sorted(wanted)


def test_show(checked, mode):
    rows = checked.router.json("show urpf")
    assert [(r["interface"], r["family"], r["direction"], r["mode"]) for r in rows] == [
        ("left", "ip4", "rx", mode), ("left", "ip6", "rx", mode)]
    assert rows[0]["drops"] > 0 and rows[1]["drops"] > 0
    assert "strict" in checked.ctl("show urpf left") or mode == "loose"
    assert checked.router.json("show urpf right") == []


def test_set_and_unset_while_it_runs(pair):
    left, right = pair.ports["left"], pair.ports["right"]
    frame = into(left) / udp4("198.18.7.7", right.host)
    want = out_of(right) / udp4("198.18.7.7", right.host, ttl=63)
    pair.left.send(frame)
    pair.right.expect(want)
    for word, reason in (("strict", "ip4-urpf-strict"), ("loose", "ip4-urpf-loose")):
        pair.ctl(f"set urpf ip4 rx {word} left")
        with pair.counted(reason):
            pair.left.send(frame)
    pair.ctl("set urpf ip4 rx off left")
    pair.left.send(frame)
    pair.right.expect(want)
    assert pair.router.json("show urpf") == []
    with pytest.raises(CtlError, match="nowhere"):
        pair.ctl("set urpf ip4 rx strict nowhere")


def test_a_route_that_comes_and_goes(pair):
    """The check follows the table at once."""
    left, right = pair.ports["left"], pair.ports["right"]
    frame = into(left) / udp4("198.18.8.8", right.host)
    pair.ctl("set urpf ip4 rx strict left")
    with pair.counted("ip4-urpf-strict"):
        pair.left.send(frame)
    pair.ctl("ip route add 198.18.8.0/24 via 10.0.1.2")
    pair.left.send(frame)
    pair.right.expect(out_of(right) / udp4("198.18.8.8", right.host, ttl=63))
    pair.ctl("ip route del 198.18.8.0/24")
    with pair.counted("ip4-urpf-strict"):
        pair.left.send(frame)
    pair.ctl("set urpf ip4 off left")


# Sources of packets that are to leave over `right`, and whether they pass there strictly and loosely.
OUT = [
    ("10.0.1.2", True, True, "its way back is another interface"),
    ("172.17.5.5", True, True, "the same by a route"),
    ("10.0.2.99", False, True, "it would come back over the interface over which it leaves"),
    ("172.20.5.5", False, True, "one of two ways back is this interface"),
    ("198.51.100.7", False, False, "no route"),
    ("172.19.5.5", False, False, "its route drops"),
    ("2001:db8:a1::5", True, True, "its way back is another interface"),
    ("2001:db8:2::99", False, True, "it would come back over the interface over which it leaves"),
    ("2001:db8:ff::1", False, False, "no route"),
]


@pytest.fixture(scope="module")
def leaving(mode):
    """A router that checks what leaves over `right`."""
    rules = {"ip4": {"tx": mode}, "ip6": {"tx": mode}}
    b = Bench({"routes": ROUTES, "l3": {"interfaces": {"right": {"urpf": rules}}}}, ports=("left", "right", "back"))
    yield b
    b.close()


@pytest.mark.parametrize("source, strict, loose, why", OUT, ids=[f"{s[0]}: {s[3]}" for s in OUT])
def test_a_source_that_leaves(leaving, mode, source, strict, loose, why):
    good, want_good = frames(leaving, "2001:db8:1::2" if ":" in source else "10.0.1.2")
    sent, want = frames(leaving, source)
    if strict if mode == "strict" else loose:
        leaving.left.send(sent)
        leaving.right.expect(want)
    else:
        family = 6 if ":" in source else 4
        with leaving.counted(f"ip{family}-urpf-out-{mode if loose else 'loose'}"):
            leaving.left.send(sent)
        leaving.left.send(good)
        leaving.right.expect(want_good)
        rows = leaving.router.json("show urpf right")
        assert [(r["family"], r["direction"], r["mode"], r["table"]) for r in rows] == [("ip4", "tx", mode, 0), ("ip6", "tx", mode, 0)]
        assert rows[family == 6]["drops"] > 0


def test_what_the_router_says_itself_leaves(leaving):
    right = leaving.ports["right"]
    leaving.right.send(into(right) / IP(src=right.host, dst=right.ip) / ICMP(id=1, seq=1))
    leaving.right.wait(lambda p: ICMP in p and p[ICMP].type == 0 and p[IP].src == right.ip)
    leaving.right.send(into(right) / IPv6(src=right.host6, dst=right.ip6) / ICMPv6EchoRequest(id=1, seq=1))
    leaving.right.wait(lambda p: ICMPv6EchoReply in p and p[IPv6].src == right.ip6)


def test_sources_of_another_table(bench):
    """A table that holds nothing but the sources that may come; VLANs in front of those that leave."""
    b = bench({
        "interfaces": {"right": {"sub-interfaces": {20: {"addresses": ["10.20.0.1/24"]}}}},
        "tables": {7: {"name": "sources"}},
        "routes": [{"prefix": "198.18.0.0/16", "table": 7, "via": {"address": "10.0.1.2", "table": 0}},
                   {"prefix": "198.18.9.0/24", "table": 7, "via": {"address": "10.20.0.2", "table": 0}}],
        "neighbors": [{"interface": "right.20", "address": "10.20.0.2", "mac": "02:00:00:00:20:02"}],
        "l3": {"interfaces": {"left": {"urpf": {"ip4": {"rx": {"mode": "strict", "table": 7}}}}}}})
    left, right = b.ports["left"], b.ports["right"]

    def packet(source, dst=right.host):
        return into(left) / udp4(source, dst)

    b.left.send(packet("198.18.1.1"))
    b.right.expect(out_of(right) / udp4("198.18.1.1", right.host, ttl=63))
    for source in ("10.0.1.2", "198.18.9.1"):
        with b.counted("ip4-urpf-strict"):
            b.left.send(packet(source))
    assert [(r["direction"], r["table"], r["drops"]) for r in b.router.json("show urpf left")] == [("rx", 7, 2)]
    with pytest.raises(CtlError, match="left looks sources up in it"):
        b.ctl("ip table del 7")
    with pytest.raises(CtlError, match="there is no IPv4 table 8"):
        b.ctl("set urpf ip4 rx strict left table 8")
    with pytest.raises(CtlError, match="nothing is looked up"):
        b.ctl("set urpf ip4 rx off left table 7")
    b.ctl("set urpf ip4 rx off left")
    # Nothing says where 198.18/16 is but table 7.
    b.ctl("set urpf ip4 tx strict right.20 table 7")
    tagged = Ether(dst="02:00:00:00:20:02", src=right.mac) / Dot1Q(vlan=20)
    b.left.send(packet("198.18.1.1", "10.20.0.2"))
    b.right.expect(tagged / udp4("198.18.1.1", "10.20.0.2", ttl=63))
    with b.counted("ip4-urpf-out-strict"):
        b.left.send(packet("198.18.9.1", "10.20.0.2"))
    with b.counted("ip4-urpf-out-loose"):
        b.left.send(packet("10.0.1.2", "10.20.0.2"))
    b.ctl("set urpf ip4 off right.20")
    b.left.send(packet("10.0.1.2", "10.20.0.2"))
    b.right.expect(tagged / udp4("10.0.1.2", "10.20.0.2", ttl=63))
    b.ctl("ip route del 198.18.0.0/16 table 7")
    b.ctl("ip route del 198.18.9.0/24 table 7")
    b.ctl("ip table del 7")
    assert b.router.json("show urpf") == []
    # A sub-interface that goes with its check leaves nothing behind.
    b.ctl("ip table add 9")
    b.ctl("set urpf ip4 tx loose right.20 table 9")
    b.ctl("delete sub-interface right.20")
    b.ctl("ip table del 9")
