"""Unnumbered interfaces: whose addresses they answer with, whom they hear, and how packets find hosts behind them."""

import pytest
from frames import *
from harness import Bench, CtlError

BROADCAST = "ff:ff:ff:ff:ff:ff"
LOOP, LOOP6 = "192.0.2.1", "2001:db8:cafe::1"
HOST, HOST6 = "192.0.2.55", "2001:db8:cafe::55"


@pytest.fixture(scope="module")
def lent():
    """`left` and `right` use the addresses of loop0; hosts are behind them by /32 and /128 routes. `back` has its own."""
    b = Bench({
        "loopbacks": {"loop0": {"addresses": [f"{LOOP}/32", f"{LOOP6}/128"]}},
        "interfaces": {"left": {"unnumbered": "loop0"}, "right": {"unnumbered": "loop0"},
                       "back": {"addresses": ["10.0.3.1/24", "2001:db8:3::1/64"]}},
        "neighbors": [{"interface": "back", "address": a, "mac": "02:00:00:00:03:02"} for a in ("10.0.3.2", "2001:db8:3::2")],
        "routes": [{"prefix": f"{HOST}/32", "via": {"interface": "left"}}, {"prefix": f"{HOST6}/128", "via": {"interface": "left"}},
                   {"prefix": "192.0.2.77/32", "via": {"interface": "right"}},
                   {"prefix": "198.51.100.0/24", "via": {"address": HOST, "interface": "left"}}],
        "l3": {"interfaces": {name: {"arp-sender-check": True} for name in ("left", "right")}},
    }, ports=("left", "right", "back"), addresses=False)
    yield b
    b.close()


def asks(port, target, src):
    return Ether(dst=BROADCAST, src=port.host_mac) / ARP(op=1, hwsrc=port.host_mac, psrc=src, pdst=target)


def learn(b, address=HOST, name="left"):
    """The host behind `name` answers whatever the router asks it."""
    port, wire = b.ports[name], getattr(b, name)
    asked = wire.wait(lambda p: ARP in p and p[ARP].op == 1 and p[ARP].pdst == address and p[ARP].psrc != address)
    assert (asked[ARP].psrc, asked[ARP].hwsrc, asked.src) == (LOOP, port.mac, port.mac)
    wire.send(into(port) / ARP(op=2, hwsrc=port.host_mac, psrc=address, hwdst=port.mac, pdst=LOOP))


def test_arp_for_the_lent_address_is_answered(lent):
    """On each of the interfaces, with its own MAC address, for hosts whose route leads there."""
    left, right = lent.ports["left"], lent.ports["right"]
    lent.left.send(asks(left, LOOP, HOST))
    lent.left.wait(lambda p: bytes(p) == bytes(out_of(left) / ARP(op=2, hwsrc=left.mac, psrc=LOOP, hwdst=left.host_mac, pdst=HOST)))
    lent.right.send(asks(right, LOOP, "192.0.2.77"))
    lent.right.wait(lambda p: ARP in p and p[ARP].op == 2 and (p[ARP].hwsrc, p[ARP].psrc) == (right.mac, LOOP))


@pytest.mark.parametrize("name, src", [("left", "192.0.2.77"), ("right", HOST), ("left", "10.0.3.2"), ("left", "203.0.113.9")])
def test_hosts_of_other_links_are_not_heard(lent, name, src):
    with lent.counted("arp-sender-not-on-link"):
        getattr(lent, name).send(asks(lent.ports[name], LOOP, src))


def test_packets_to_a_host_behind(lent):
    """The host is asked for from the lent address; the first packet is not lost, and the next go straight."""
    left, back = lent.ports["left"], lent.ports["back"]
    lent.ctl(f"ip neighbor del left {HOST}") if any(n["ip"] == HOST for n in lent.router.json("show ip neighbors left")) else None
    lent.back.send(into(back) / udp4(back.host, HOST))
    learn(lent)
    lent.left.expect(out_of(left) / udp4(back.host, HOST, ttl=63))
    before = lent.router.errors().get("held-for-neighbor", 0)
    lent.back.send(*[into(back) / udp4(back.host, HOST, sport=n) for n in range(50)])
    assert len(lent.left.take(50)) == 50
    assert lent.router.errors().get("held-for-neighbor", 0) == before, "no packet was held"
    # A route over that host.
    lent.back.send(into(back) / udp4(back.host, "198.51.100.9"))
    lent.left.expect(out_of(left) / udp4(back.host, "198.51.100.9", ttl=63))


def test_packets_from_a_host_behind(lent):
    left, back = lent.ports["left"], lent.ports["back"]
    lent.left.send(into(left) / udp4(HOST, back.host))
    lent.back.expect(out_of(back) / udp4(HOST, back.host, ttl=63))


def test_ping_of_the_lent_address_and_errors_from_it(lent):
    left = lent.ports["left"]
    lent.left.send(into(left) / IP(src=HOST, dst=LOOP, id=1) / ICMP(id=1, seq=1))
    got = lent.left.wait(lambda p: ICMP in p or ARP in p)
    if ARP in got:
        lent.left.send(into(left) / ARP(op=2, hwsrc=left.host_mac, psrc=HOST, hwdst=left.mac, pdst=LOOP))
        got = lent.left.wait(lambda p: ICMP in p)
    assert (got[IP].src, got[IP].dst, got[ICMP].type) == (LOOP, HOST, 0)
    lent.left.send(into(left) / udp4(HOST, "203.0.113.1", ttl=1))
    got = lent.left.wait(lambda p: ICMP in p)
    assert (got[IP].src, got[ICMP].type) == (LOOP, 3)


def test_ipv6(lent):
    """The interface has a link-local address of its own, answers for the lent one, and asks from either."""
    left, back = lent.ports["left"], lent.ports["back"]
    own = f"fe80::ff:fe00:{left.n << 8 | 1:x}"
    group = Ether(dst="33:33:ff:00:00:01", src=left.host_mac)
    lent.left.send(group / IPv6(src="fe80::55", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=LOOP6)
                   / ICMPv6NDOptSrcLLAddr(lladdr=left.host_mac))
    got = lent.left.wait(lambda p: ICMPv6ND_NA in p and p[ICMPv6ND_NA].tgt == LOOP6 and p[ICMPv6ND_NA].S == 1)
    assert got[ICMPv6NDOptDstLLAddr].lladdr == left.mac
    lent.back.send(into(back) / udp6(back.host6, HOST6))
    asked = lent.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == HOST6)
    assert asked[IPv6].src in (LOOP6, own)
    lent.left.send(into(left) / IPv6(src=HOST6, dst=asked[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=HOST6, R=0, S=1, O=1)
                   / ICMPv6NDOptDstLLAddr(lladdr=left.host_mac))
    lent.left.wait(lambda p: bytes(p) == bytes(out_of(left) / udp6(back.host6, HOST6, hlim=63)))
    lent.left.send(into(left) / udp6(HOST6, back.host6))
    lent.back.expect(out_of(back) / udp6(HOST6, back.host6, hlim=63))
    assert "ff02::1:ff00:1" in lent.ctl("show ip groups left")


def test_show(lent):
    rows = {r["name"]: r for r in lent.router.json("show interface address")}
    assert rows["left"]["unnumbered"] == rows["right"]["unnumbered"] == "loop0" and rows["back"]["unnumbered"] is None
    assert "unnumbered, use loop0" in lent.ctl("show interface address left")


def test_commands():
    b = Bench({"loopbacks": {"loop0": {"addresses": ["192.0.2.1/32"]}, "loop1": {}}, "interfaces": {"left": {}, "right": {}}},
              addresses=False)
    left = b.ports["left"]
    try:
        with b.counted("ip4-not-enabled"):
            b.left.send(into(left) / udp4(HOST, LOOP))
        b.ctl("set interface unnumbered left use loop0")
        b.ctl(f"ip route add {HOST}/32 via left")
        b.left.send(asks(left, LOOP, HOST))
        b.left.wait(lambda p: ARP in p and p[ARP].op == 2 and p[ARP].psrc == LOOP)
        # The lender gets another address, and loses its first.
        b.ctl("set interface ip address loop0 192.0.2.9/32")
        b.left.send(asks(left, "192.0.2.9", HOST))
        b.left.wait(lambda p: ARP in p and p[ARP].op == 2 and p[ARP].psrc == "192.0.2.9")
        b.ctl("set interface ip address del loop0 192.0.2.1/32")
        with b.counted("arp-not-for-us"):
            b.left.send(asks(left, LOOP, HOST))
        for line, word in (
            ("set interface unnumbered left use left", "its own addresses"), ("set interface unnumbered right use left", "itself unnumbered"),
            ("set interface unnumbered loop0 use loop1", "has the address"), ("set interface unnumbered left use nowhere", "nowhere"),
            ("set interface ip address left 10.9.9.1/24", "undo that first"), ("set interface l2 xconnect left right", "unnumbered"),
            ("delete loopback interface loop0", "uses the addresses"),
        ):
            with pytest.raises(CtlError, match=word):
                b.ctl(line)
        b.ctl("set interface ip address right 10.0.2.1/24")
        with pytest.raises(CtlError, match="remove it before"):
            b.ctl("set interface unnumbered right use loop0")
        b.ctl("set interface unnumbered del left")
        with b.counted("ip4-not-enabled"):
            b.left.send(into(left) / udp4(HOST, LOOP))
    finally:
        b.close()
