"""Proxy ARP and neighbour discovery proxies: for which addresses the router answers, on which interfaces, and for which not."""

import pytest
from frames import *
from harness import Bench, CtlError

BROADCAST = "ff:ff:ff:ff:ff:ff"


@pytest.fixture(scope="module")
def proxy():
    """`left` answers for a range that is partly behind `right`; `back` does not answer for it."""
    b = Bench({
        "l3": {"interfaces": {"left": {"proxy-arp": True}}, "proxy-arp": ["10.0.1.128 - 10.0.1.191", "172.16.0.7"],
               "nd-proxy": [{"interface": "right", "address": "2001:db8:1::50"}]},
        "routes": [{"prefix": "10.0.1.128/26", "via": "10.0.2.2"}, {"prefix": "10.0.1.160/32", "via": "10.0.1.2"},
                   {"prefix": "10.0.1.161/32", "type": "drop"}, {"prefix": "172.16.0.0/16", "via": "10.0.2.2"}],
    }, ports=("left", "right", "back"))
    yield b
    b.close()


def asks(port, target, src=None, **arp):
    fields = {"op": 1, "hwsrc": port.host_mac, "psrc": src or port.host, "pdst": target, **arp}
    return Ether(dst=BROADCAST, src=port.host_mac) / ARP(**fields)


def answer(port, target):
    return out_of(port) / ARP(op=2, hwsrc=port.mac, psrc=target, hwdst=port.host_mac, pdst=port.host)


def quiet(bench, name):
    """What comes next on the wire is the answer to an echo: nothing was sent before."""
    port, wire = bench.ports[name], getattr(bench, name)
    wire.send(into(port) / IP(src=port.host, dst=port.ip, id=1) / ICMP(seq=77))
    got = wire.recv()
    assert got is not None and ICMP in Ether(got) and Ether(got)[ICMP].seq == 77, Ether(got)


@pytest.mark.parametrize("target", ["10.0.1.128", "10.0.1.150", "10.0.1.191", "172.16.0.7"])
def test_answers_for_a_range(proxy, target):
    left = proxy.ports["left"]
    with proxy.counted("arp-proxied"):
        proxy.left.send(asks(left, target))
        proxy.left.expect(answer(left, target))


@pytest.mark.parametrize("target, reason", [
    ("10.0.1.127", "arp-not-for-us"), ("10.0.1.192", "arp-not-for-us"), ("172.16.0.8", "arp-not-for-us"),
    ("10.0.1.160", "arp-proxy-refused"), ("10.0.1.161", "arp-proxy-refused")])
def test_does_not_answer(proxy, target, reason):
    """Beyond the range, for who is on the asker's own link, and for what has no way."""
    with proxy.counted(reason):
        proxy.left.send(asks(proxy.ports["left"], target))
    quiet(proxy, "left")


def test_own_addresses_are_answered_as_ever(proxy):
    left = proxy.ports["left"]
    with proxy.counted("arp-replies-sent"):
        proxy.left.send(asks(left, left.ip))
        proxy.left.expect(answer(left, left.ip))


def test_detection_is_not_answered(proxy):
    """RFC 5227: whoever probes for, or announces, an address of the range may have it."""
    left = proxy.ports["left"]
    with proxy.counted("arp-proxy-refused"):
        proxy.left.send(asks(left, "10.0.1.150", src="0.0.0.0"))
    quiet(proxy, "left")
    proxy.left.send(asks(left, "10.0.1.150", src="10.0.1.150"))
    quiet(proxy, "left")


def test_only_where_it_is_enabled(proxy):
    back = proxy.ports["back"]
    with proxy.counted("arp-not-for-us"):
        proxy.back.send(asks(back, "10.0.1.150"))
    quiet(proxy, "back")


def test_strangers_are_not_answered(proxy):
    with proxy.counted("arp-sender-not-on-link"):
        proxy.left.send(asks(proxy.ports["left"], "10.0.1.150", src="198.51.100.7"))
    quiet(proxy, "left")


def test_packets_for_a_proxied_address_are_forwarded(proxy):
    left, right = proxy.ports["left"], proxy.ports["right"]
    proxy.left.send(into(left) / udp4(left.host, "10.0.1.150"))
    proxy.right.expect(out_of(right) / udp4(left.host, "10.0.1.150", ttl=63))


def test_arp_commands(pair):
    pair.ctl("ip route add 10.0.1.200/32 via 10.0.2.2")
    pair.ctl("ip proxy-arp add 10.0.1.200 - 10.0.1.210")
    pair.ctl("set interface proxy-arp left enable")
    shown = pair.router.json("show ip proxy-arp")
    assert shown == {"ranges": [{"first": "10.0.1.200", "last": "10.0.1.210"}], "interfaces": ["left"]}
    left = pair.ports["left"]
    pair.left.send(asks(left, "10.0.1.200"))
    pair.left.expect(answer(left, "10.0.1.200"))
    for line, word in (("ip proxy-arp add 10.0.1.200 - 10.0.1.210", "set already"), ("ip proxy-arp del 10.0.1.1", "no such range"),
                       ("ip proxy-arp add 10.0.1.9 - 10.0.1.1", "behind the last"), ("ip proxy-arp add 224.0.0.1", "not addresses of hosts")):
        with pytest.raises(CtlError, match=word):
            pair.ctl(line)
    pair.ctl("set interface proxy-arp left disable")
    with pair.counted("arp-not-for-us"):
        pair.left.send(asks(left, "10.0.1.200"))
    pair.ctl("ip proxy-arp del 10.0.1.200 - 10.0.1.210")
    pair.ctl("ip route del 10.0.1.200/32")
    assert pair.router.json("show ip proxy-arp") == {"ranges": [], "interfaces": []}


PROXIED = "2001:db8:1::50"


def solicits(port, target, src=None):
    """Who has `target`, the last four digits of which are its whole interface identifier?"""
    src, low = src or port.host6, int(target.rsplit(":", 1)[1], 16)
    head = Ether(dst=f"33:33:ff:00:{low >> 8:02x}:{low & 255:02x}", src=port.host_mac)
    packet = head / IPv6(src=src, dst=f"ff02::1:ff00:{low:x}", hlim=255) / ICMPv6ND_NS(tgt=target)
    return packet if src == "::" else packet / ICMPv6NDOptSrcLLAddr(lladdr=port.host_mac)


def test_a_proxied_neighbour_is_answered_for(proxy):
    """Solicited, not overriding: the host itself is heeded rather than the proxy (RFC 4861 section 7.2.8)."""
    left = proxy.ports["left"]
    with proxy.counted("nd-proxied"):
        proxy.left.send(solicits(left, PROXIED))
        proxy.left.expect(out_of(left) / IPv6(src=left.ip6, dst=left.host6, hlim=255)
                          / ICMPv6ND_NA(tgt=PROXIED, R=0, S=1, O=0) / ICMPv6NDOptDstLLAddr(lladdr=left.mac))


def test_detection_of_a_proxied_address_finds_it_taken(proxy):
    left = proxy.ports["left"]
    proxy.left.send(solicits(left, PROXIED, src="::"))
    got = proxy.left.wait(lambda p: ICMPv6ND_NA in p and p[ICMPv6ND_NA].tgt == PROXIED)
    assert (got[IPv6].dst, got[ICMPv6ND_NA].S, got[ICMPv6ND_NA].O, got.dst) == ("ff02::1", 0, 0, "33:33:00:00:00:01")


def test_not_on_its_own_link_and_not_for_others(proxy):
    right, left = proxy.ports["right"], proxy.ports["left"]
    # On its own link the group is not even joined.
    with proxy.counted("ip6-multicast-not-handled"):
        proxy.right.send(solicits(right, PROXIED))
    with proxy.counted("ip6-multicast-not-handled"):
        proxy.left.send(solicits(left, "2001:db8:1::51"))


def test_the_host_is_asked_for_on_its_link(proxy):
    """A packet to the proxied address, whose prefix is that of `left`, goes to the host behind `right`."""
    left, right = proxy.ports["left"], proxy.ports["right"]
    proxy.left.send(into(left) / udp6(left.host6, PROXIED))
    asked = proxy.right.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == PROXIED)
    proxy.right.send(into(right) / IPv6(src=PROXIED, dst=asked[IPv6].src, hlim=255)
                     / ICMPv6ND_NA(tgt=PROXIED, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=right.host_mac))
    proxy.right.expect(out_of(right) / udp6(left.host6, PROXIED, hlim=63))


def test_nd_commands(pair):
    left = pair.ports["left"]
    pair.ctl("ip6 nd proxy add right 2001:db8:1::99")
    assert pair.router.json("show ip6 nd proxy") == [{"address": "2001:db8:1::99", "interface": "right"}]
    assert "ff02::1:ff00:99" in pair.ctl("show ip groups left") and "ff02::1:ff00:99" not in pair.ctl("show ip groups right")
    pair.left.send(solicits(left, "2001:db8:1::99"))
    pair.left.wait(lambda p: ICMPv6ND_NA in p and p[ICMPv6ND_NA].tgt == "2001:db8:1::99" and p[ICMPv6ND_NA].S == 1)
    for line, word in (("ip6 nd proxy add left 2001:db8:1::99", "already"), ("ip6 nd proxy add right ff02::1", "not the address"),
                       ("ip6 nd proxy add right 2001:db8:1::1", "own address"), ("ip6 nd proxy del left 2001:db8:1::99", "none")):
        with pytest.raises(CtlError, match=word):
            pair.ctl(line)
    pair.ctl("ip6 nd proxy del right 2001:db8:1::99")
    assert pair.router.json("show ip6 nd proxy") == []
    with pair.counted("ip6-multicast-not-handled"):
        pair.left.send(solicits(left, "2001:db8:1::99"))
