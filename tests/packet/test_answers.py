"""What the router does as a host and as a neighbour, beyond ICMP errors: resets, options, path MTUs, MTUs by protocol, redirects."""

import time

import pytest
from scapy.layers.inet6 import ICMPv6ND_Redirect
from harness import wait_for
from frames import (
    ARP, ICMP, IP, TCP, Dot1Q, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr,
    ICMPv6PacketTooBig, IPv6, Raw, expect_error4, fix4, icmp6_error, into, out_of, through6, udp4, udp6,
)

RST4 = {
    "SYN": ({"flags": "S", "seq": 100}, b"", {"flags": "RA", "seq": 0, "ack": 101}),
    "data without ACK": ({"flags": "F", "seq": 100}, b"abc", {"flags": "RA", "seq": 0, "ack": 104}),
    "ACK": ({"flags": "PA", "seq": 100, "ack": 7777}, b"abc", {"flags": "R", "seq": 7777, "ack": 0}),
}


@pytest.mark.parametrize("what", RST4)
def test_tcp_reset(pair, what):
    """RFC 9293 section 3.10.7.1, as Scapy builds it."""
    a, b = pair.ports["left"], pair.ports["right"]
    sent, data, got = RST4[what]
    with pair.counted("ip4-local-tcp-resets-sent"):
        pair.left.send(into(a) / IP(src=a.host, dst=b.ip) / TCP(sport=4000, dport=22, **sent) / data)
        pair.left.expect(out_of(a) / IP(src=b.ip, dst=a.host, ttl=64, id=0, flags="DF")
                         / TCP(sport=22, dport=4000, window=0, **got))
    with pair.counted("ip6-local-tcp-resets-sent"):
        pair.left.send(into(a) / IPv6(src=a.host6, dst=b.ip6) / TCP(sport=4000, dport=22, **sent) / data)
        pair.left.expect(out_of(a) / IPv6(src=b.ip6, dst=a.host6, hlim=64) / TCP(sport=22, dport=4000, window=0, **got))


def test_tcp_resets_can_be_switched_off(pair):
    a = pair.ports["left"]
    syn = into(a) / IP(src=a.host, dst=a.ip) / TCP(sport=4000, dport=22, flags="S")
    pair.ctl("set ip tcp-resets disable")
    assert "tcp-resets: false" in pair.ctl("show configuration")
    with pair.counted("ip4-local-no-tcp-listener"):
        pair.left.send(syn)
    pair.ctl("set ip tcp-resets enable")
    assert "tcp-resets" not in pair.ctl("show configuration")
    with pair.counted("ip4-local-tcp-resets-sent"):
        pair.left.send(syn)
        assert pair.left.recv() is not None


def test_no_tcp_reset_from_an_anycast_address(pair):
    """It would come from another address, of no use to who asked: subnet-router anycast."""
    a = pair.ports["left"]
    segment = TCP(sport=4000, dport=22, flags="S")
    with pair.counted("ip6-local-no-tcp-listener"):
        pair.left.send(into(a) / IPv6(src=a.host6, dst="2001:db8:1::") / segment)
    # The next one is answered, and is the first that comes.
    pair.left.send(into(a) / IPv6(src=a.host6, dst=a.ip6) / segment)
    pair.left.expect(out_of(a) / IPv6(src=a.ip6, dst=a.host6, hlim=64)
                     / TCP(sport=22, dport=4000, window=0, flags="RA", seq=0, ack=1))


@pytest.mark.parametrize("what", ["reset", "echo"])
def test_answers_from_a_link_local_address_stay_on_their_link(bench, what):
    """Who sends to the router's link-local address is on the link, whatever the routes say of its own address."""
    t = bench({"routes": ["2001:db8:77::/48 via 2001:db8:2::2"]})
    a = t.ports["left"]
    own = next(r for r in t.router.json("show interface address left") if r["name"] == "left")["link-local"]
    host = "2001:db8:77::9"
    if what == "reset":
        sent = TCP(sport=4000, dport=22, flags="S")
        answer = IPv6(src=own, dst=host, hlim=64) / TCP(sport=22, dport=4000, window=0, flags="RA", seq=0, ack=1)
    else:
        sent = ICMPv6EchoRequest(id=1, seq=2, data=b"abc")
        answer = IPv6(src=own, dst=host, hlim=64) / ICMPv6EchoReply(id=1, seq=2, data=b"abc")
    t.left.send(into(a) / IPv6(src=host, dst=own) / sent)
    q = t.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == host)
    t.left.send(into(a) / IPv6(src=host, dst=q[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=host, R=0, S=1, O=1)
                / ICMPv6NDOptDstLLAddr(lladdr=a.host_mac))
    t.left.expect(out_of(a) / answer)
    # Now that the host is known nothing is held.
    held = t.router.errors().get("held-for-neighbor", 0)
    t.left.send(into(a) / IPv6(src=host, dst=own) / sent)
    t.left.expect(out_of(a) / answer)
    assert t.router.errors().get("held-for-neighbor", 0) == held
    # To another address of the router it is a host beyond the other port.
    t.left.send(into(a) / IPv6(src=host, dst=a.ip6) / sent)
    t.right.wait(lambda p: IPv6 in p and (p[IPv6].src, p[IPv6].dst) == (a.ip6, host))


def with_options(frame, options):
    raw = bytes(frame)
    head = bytes([0x45 + len(options) // 4]) + raw[1:2] + (len(raw) + len(options)).to_bytes(2, "big") + raw[4:20]
    return fix4(head + options + raw[20:])


def test_record_route_and_timestamp(pair):
    """RFC 1812 sections 5.3.13.5 and 5.3.13.6: the address is that of the interface by which the packet leaves."""
    a, b = pair.ports["left"], pair.ports["right"]
    own = bytes(map(int, b.ip.split(".")))

    def through(options):
        pair.left.send(bytes(into(a))[:12] + b"\x08\0" + with_options(udp4(a.host, b.host), options))
        got = pair.right.recv()
        assert got is not None
        assert fix4(got[14:]) == got[14:], "the checksum is right"
        return got[34:34 + len(options)]

    assert through(b"\x07\x07\x04\0\0\0\0\0") == b"\x07\x07\x08" + own + b"\0"
    assert through(b"\x07\x07\x08\x01\x02\x03\x04\0") == b"\x07\x07\x08\x01\x02\x03\x04\0", "full"
    now = time.time() % 86400 * 1000
    stamp = through(b"\x44\x0c\x05\x01" + bytes(8))
    assert stamp[:8] == b"\x44\x0c\x0d\x01" + own
    assert abs(int.from_bytes(stamp[8:], "big") - now) < 5000
    assert through(b"\x44\x04\x05\0") == b"\x44\x04\x05\x10", "one found no room"
    # An echo to the router: what it wrote goes back.
    echo = IP(src=a.host, dst=a.ip, id=7) / ICMP(type=8, id=1, seq=2) / b"12345678"
    pair.left.send(bytes(into(a))[:12] + b"\x08\0" + with_options(echo, b"\x07\x07\x04\0\0\0\0\0"))
    got = pair.left.recv()
    assert got is not None and got[34:42] == b"\x07\x07\x08" + bytes(map(int, a.ip.split("."))) + b"\0"
    pair.ctl("set ip options pass")
    assert through(b"\x07\x07\x04\0\0\0\0\0") == b"\x07\x07\x04\0\0\0\0\0"
    pair.ctl("set ip options drop")
    with pair.counted("ip4-options-dropped"):
        pair.left.send(bytes(into(a))[:12] + b"\x08\0"
                       + with_options(udp4(a.host, b.host), b"\x07\x07\x04\0\0\0\0\0"))
    assert "ip4-options: drop" in pair.ctl("show configuration")
    pair.ctl("set ip options record")


def test_answers_to_priority_tagged_requests_have_no_tag(pair):
    a = pair.ports["left"]
    pair.left.send(Ether(dst="ff:ff:ff:ff:ff:ff", src=a.host_mac) / Dot1Q(vlan=0, prio=5)
                   / ARP(op=1, psrc=a.host, pdst=a.ip, hwsrc=a.host_mac))
    got = pair.left.recv()
    assert got is not None and got[:14] == bytes(out_of(a) / ARP())[:14], got.hex()
    ns = ICMPv6ND_NS(tgt=a.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=a.host_mac)
    pair.left.send(Ether(dst=a.mac, src=a.host_mac) / Dot1Q(vlan=0, prio=5) / IPv6(src=a.host6, dst=a.ip6, hlim=255) / ns)
    pair.left.expect(out_of(a) / IPv6(src=a.ip6, dst=a.host6, hlim=255) / ICMPv6ND_NA(tgt=a.ip6, R=1, S=1, O=1)
                     / ICMPv6NDOptDstLLAddr(lladdr=a.mac))


def test_echo_replies_follow_the_path_mtu(bench):
    t = bench()
    a = t.ports["left"]
    ask4 = IP(src=a.host, dst=a.ip, id=7) / ICMP(type=8, id=1, seq=2) / bytes(1200)
    ask6 = IPv6(src=a.host6, dst=a.ip6) / ICMPv6EchoRequest(id=1, seq=2, data=bytes(1400))
    t.left.send(into(a) / ask4)
    reply4 = t.left.recv()[14:]
    t.left.send(into(a) / ask6)
    reply6 = t.left.recv()[14:]
    assert (len(reply4), len(reply6)) == (1228, 1448)

    def needed(mtu, quote):
        return into(a) / IP(src="10.0.1.9", dst=a.ip) / ICMP(type=3, code=4, nexthopmtu=mtu) / Raw(quote[:548])

    def too_big(mtu, quote):
        return into(a) / IPv6(src="2001:db8:1::9", dst=a.ip6) / ICMPv6PacketTooBig(mtu=mtu) / Raw(quote[:1232])

    # Not the router's, not as large, less than a link must have.
    foreign = bytes(IP(src="10.0.1.77", dst=a.host, len=1228) / ICMP(type=0) / bytes(1200))
    t.left.send(needed(1000, foreign), needed(1228, reply4), needed(67, reply4), too_big(1279, reply6), too_big(1448, reply6),
                into(a) / ask4)
    assert len(t.left.recv()) == 14 + 1228
    assert t.router.json("show ip pmtu") == []
    t.left.send(needed(600, reply4), too_big(1300, reply6))
    wait_for("both are learnt", lambda: len(t.router.json("show ip pmtu")) == 2)
    assert [r["mtu"] for r in t.router.json("show ip pmtu")] == [600, 1300]
    t.left.send(into(a) / ask4)
    frames = t.left.take(3)
    assert max(map(len, frames)) <= 14 + 600 and sum(len(f) - 34 for f in frames) == 1208
    t.left.send(into(a) / ask6)
    frames = t.left.take(2)
    assert max(map(len, frames)) <= 14 + 1300
    # What goes through is not the router's to cut.
    b = t.ports["right"]
    t.right.send(into(b) / udp4(b.host, a.host, size=1000))
    t.left.expect(out_of(a) / udp4(b.host, a.host, size=1000, ttl=63))


def test_path_mtus_go_with_their_table(bench):
    """Its place is another table's some day, which has heard of nothing."""
    t = bench()
    a = t.ports["left"]
    for line in (f"set interface ip address del left {a.ip}/24", "ip table add 7", "set interface ip table left 7",
                 f"set interface ip address left {a.ip}/24", f"ip neighbor add left {a.host} {a.host_mac}"):
        t.ctl(line)
    t.left.send(into(a) / IP(src=a.host, dst=a.ip, id=7) / ICMP(type=8, id=1, seq=2) / bytes(1200))
    reply = t.left.wait(lambda p: ICMP in p and p[ICMP].type == 0)
    t.left.send(into(a) / IP(src="10.0.1.9", dst=a.ip) / ICMP(type=3, code=4, nexthopmtu=600) / Raw(bytes(reply[IP])[:548]))
    wait_for("it is learnt", lambda: [r["table"] for r in t.router.json("show ip pmtu")] == [7])
    for line in (f"ip neighbor del left {a.host}", f"set interface ip address del left {a.ip}/24", "set interface ip table left 0",
                 "ip table del 7"):
        t.ctl(line)
    assert t.router.json("show ip pmtu") == []


def test_mtu_by_protocol(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl("set interface mtu ip4 68 right")
    t.ctl("set interface mtu ip6 1280 right")
    assert "1500/68/1280/0" in t.ctl("show interface right")
    assert "mtu: {ip4: 68, ip6: 1280}" in t.ctl("show configuration")
    for line in ("set interface mtu ip4 67 right", "set interface mtu ip6 1279 right", "set interface mtu ip4 9217 right"):
        assert t.router.ctl_raw(line).returncode != 0
    packet = udp4(a.host, b.host, size=80, flags="DF")
    t.left.send(into(a) / packet)
    expect_error4(t.left, a, ICMP(type=3, code=4, nexthopmtu=68), packet)
    t.left.send(into(a) / udp4(a.host, b.host, size=80))
    assert [len(f) for f in t.right.take(2)] == [14 + 68, 14 + 60]
    packet = udp6(a.host6, b.host6, size=1300)
    t.left.send(into(a) / packet)
    t.left.expect(icmp6_error(a, ICMPv6PacketTooBig(mtu=1280), packet))
    t.ctl("set interface mtu ip4 0 right")
    t.ctl("set interface mtu ip6 0 right")
    sent, want = through6(a, b, size=1300)
    t.left.send(sent)
    t.right.expect(want)


def test_redirects(bench):
    """A host that sends here what goes back out to its link is told the better next hop; the packet goes on."""
    t = bench({"routes": ["20.0.0.0/8 via 10.0.1.9", "2001:db8:20::/48 via fe80::9 left", "2001:db8:30::/48 via 2001:db8:1::9"]})
    a = t.ports["left"]
    for address in ("10.0.1.9", "fe80::9", "2001:db8:1::9"):
        t.ctl(f"ip neighbor left {address} 02:00:00:00:00:99 static")
    onward = Ether(dst="02:00:00:00:00:99", src=a.mac)
    row = next(r for r in t.router.json("show interface address left") if r["name"] == "left")
    link_local = row["link-local"]

    def send(dst, src=None):
        six = ":" in dst
        make, src = (udp6, src or a.host6) if six else (udp4, src or a.host)
        hops = "hlim" if six else "ttl"
        t.left.send(into(a) / make(src, dst))
        return bytes(onward / make(src, dst, **{hops: 63})), bytes(make(src, dst))

    def frames(n):
        return sorted(t.left.take(n), key=len)

    went, _ = send("20.0.0.1")
    assert frames(1) == [went], "off by default"
    t.ctl("set interface ip redirects left enable")
    assert "redirects: {ip4: true, ip6: true}" in t.ctl("show configuration")
    went, came = send("20.0.0.1")
    with_redirect = frames(2)
    assert with_redirect[0] == went
    got = Ether(with_redirect[1])
    want = out_of(a) / IP(src=a.ip, dst=a.host, tos=0xC0, ttl=64, id=got[IP].id) / ICMP(type=5, code=1, gw="10.0.1.9") / Raw(came)
    assert with_redirect[1] == bytes(want)
    # The same pair not so soon again; a host beyond another router is not told.
    went, _ = send("20.0.0.1")
    assert frames(1) == [went]
    went, _ = send("20.0.0.1", src="10.77.0.1")
    assert frames(1) == [went]
    went, came = send("2001:db8:20::1")
    both = frames(2)
    assert both[0] == went
    quote = came[:len(came) & ~7]
    want = (out_of(a) / IPv6(src=link_local, dst=a.host6, hlim=255)
            / ICMPv6ND_Redirect(tgt="fe80::9", dst="2001:db8:20::1") / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:99")
            / Raw(bytes([4, len(quote) // 8 + 1]) + bytes(6) + quote))
    assert both[1] == bytes(want), f"{Ether(both[1])!r}"
    # Hosts know routers by their link-local addresses; only the destination itself may be told by another.
    went, _ = send("2001:db8:30::1")
    assert frames(1) == [went]
    went, _ = send("2001:db8:1::9")
    assert frames(2)[0] == went
    t.ctl("set punt policer redirect rate 0")
    with t.counted("redirects-policed"):
        went, _ = send("20.0.0.2")
        assert frames(1) == [went]
