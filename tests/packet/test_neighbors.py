"""ARP and neighbour discovery: asked on demand, answered, probed, aged, announced; no packet is lost on the way."""

import pytest
from frames import *  # noqa: F403
from frames import (
    ARP, ICMP, IP, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr, ICMPv6DestUnreach, IPv6, expect_error4, icmp6_error, in6_getnsma, in6_getnsmac, into, out_of,
    Raw, through4, through6, udp4, udp6,
)
from harness import CtlError, wait_for
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

BROADCAST = "ff:ff:ff:ff:ff:ff"


@pytest.fixture
def fresh(bench):
    """A router that knows no neighbours."""
    return bench(neighbors=False)


def group_of(address):
    return inet_ntop(AF_INET6, in6_getnsma(inet_pton(AF_INET6, address)))


def group_mac(address):
    return in6_getnsmac(in6_getnsma(inet_pton(AF_INET6, address)))


def arp_request(port, target=None):
    """The router asks on `port`."""
    return Ether(dst=BROADCAST, src=port.mac) / ARP(
        op=1, hwsrc=port.mac, psrc=port.ip, hwdst="00:00:00:00:00:00", pdst=target or port.host)


def arp_reply(port, mac=None):
    return Ether(dst=port.mac, src=mac or port.host_mac) / ARP(
        op=2, hwsrc=mac or port.host_mac, psrc=port.host, hwdst=port.mac, pdst=port.ip)


def solicitation(port, target=None, source=None):
    """The router asks on `port`."""
    target = target or port.host6
    return Ether(dst=group_mac(target), src=port.mac) / IPv6(src=source or port.ip6, dst=group_of(target), hlim=255) \
        / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=port.mac)


def advertisement(port, mac=None, target=None, to=None, **flags):
    flags = {"R": 0, "S": 1, "O": 1, **flags}
    return Ether(dst=port.mac, src=mac or port.host_mac) / IPv6(src=target or port.host6, dst=to or port.ip6, hlim=255) \
        / ICMPv6ND_NA(tgt=target or port.host6, **flags) / ICMPv6NDOptDstLLAddr(lladdr=mac or port.host_mac)


def state(t, address):
    """The state of a neighbour as `show ip neighbors` has it; None without one."""
    rows = [r for r in t.router.json("show ip neighbors") if r["ip"] == address]
    return rows[0]["state"] if rows else None


def test_arp_request_is_answered(fresh):
    p = fresh.ports["left"]
    fresh.left.send(Ether(dst=BROADCAST, src=p.host_mac) / ARP(op=1, hwsrc=p.host_mac, psrc=p.host, pdst=p.ip))
    fresh.left.expect(Ether(dst=p.host_mac, src=p.mac) / ARP(
        op=2, hwsrc=p.mac, psrc=p.ip, hwdst=p.host_mac, pdst=p.host))
    # The one who asked is known now.
    wait_for("the asker is learnt", lambda: state(fresh, p.host) == "stale")
    # A probe (from 0.0.0.0) for an address of ours is answered, too; a request for somebody else's is not.
    with fresh.counted("arp-not-for-us"):
        fresh.left.send(Ether(dst=BROADCAST, src=p.host_mac) / ARP(op=1, hwsrc=p.host_mac, psrc=p.host, pdst="10.0.1.77"),
                        Ether(dst=BROADCAST, src=p.host_mac) / ARP(op=1, hwsrc=p.host_mac, psrc="0.0.0.0", pdst=p.ip))
        fresh.left.expect(Ether(dst=p.host_mac, src=p.mac) / ARP(
            op=2, hwsrc=p.mac, psrc=p.ip, hwdst=p.host_mac, pdst="0.0.0.0"))


def test_long_messages_are_read_whole(fresh):
    """Options of Secure Neighbor Discovery (RFC 3971) are long, and what the router needs may stand behind them."""
    p = fresh.ports["left"]
    unknown = b"".join(bytes([kind, 60]) + bytes(478) for kind in (11, 12))
    fresh.left.send(Ether(dst=p.mac, src=p.host_mac) / IPv6(src=p.host6, dst=p.ip6, hlim=255)
                    / ICMPv6ND_NS(tgt=p.ip6) / Raw(unknown + bytes(ICMPv6NDOptSrcLLAddr(lladdr=p.host_mac))))
    wait_for("the asker is learnt", lambda: state(fresh, p.host6) in ("stale", "delay", "reachable"))


def test_arp_that_is_refused(fresh):
    p = fresh.ports["left"]
    good = ARP(op=1, hwsrc=p.host_mac, psrc=p.host, pdst=p.ip)
    for reason, arp in [
        ("arp-malformed", bytes(good)[:27]),
        ("arp-malformed", bytes(ARP(op=1, hwtype=6, hwsrc=p.host_mac, psrc=p.host, pdst=p.ip))),
        ("arp-sender-not-on-link", bytes(ARP(op=1, hwsrc=p.host_mac, psrc="10.9.9.9", pdst="10.0.1.77"))),
        ("arp-bad-sender", bytes(ARP(op=1, hwsrc=BROADCAST, psrc=p.host, pdst=p.ip))),
        ("arp-bad-sender", bytes(ARP(op=1, hwsrc=p.host_mac, psrc="224.0.0.1", pdst=p.ip))),
    ]:
        with fresh.counted(reason):
            fresh.left.send(Ether(dst=BROADCAST, src=p.host_mac, type=0x0806) / arp)
    fresh.left.send(Ether(dst=BROADCAST, src=p.host_mac) / good)
    fresh.left.expect(Ether(dst=p.host_mac, src=p.mac) / ARP(
        op=2, hwsrc=p.mac, psrc=p.ip, hwdst=p.host_mac, pdst=p.host))


def test_solicitation_is_answered(fresh):
    p = fresh.ports["left"]
    ask = Ether(dst=group_mac(p.ip6), src=p.host_mac) / IPv6(src=p.host6, dst=group_of(p.ip6), hlim=255) \
        / ICMPv6ND_NS(tgt=p.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=p.host_mac)
    answer = Ether(dst=p.host_mac, src=p.mac) / IPv6(src=p.ip6, dst=p.host6, hlim=255) \
        / ICMPv6ND_NA(tgt=p.ip6, R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=p.mac)
    fresh.left.send(ask)
    fresh.left.expect(answer)
    wait_for("the asker is learnt", lambda: state(fresh, p.host6) == "stale")
    # Duplicate address detection of a host that wants our address is answered to all nodes.
    fresh.left.send(Ether(dst=group_mac(p.ip6), src=p.host_mac) / IPv6(src="::", dst=group_of(p.ip6), hlim=255)
                    / ICMPv6ND_NS(tgt=p.ip6))
    got = fresh.left.wait(lambda q: ICMPv6ND_NA in q and q[ICMPv6ND_NA].tgt == p.ip6)
    assert (got.dst, got[IPv6].dst, got[ICMPv6ND_NA].S) == ("33:33:00:00:00:01", "ff02::1", 0)
    for reason, bad in [
        ("nd-bad-hop-limit", ask.copy()), ("nd-invalid", ask.copy()), ("nd-not-for-us", ask.copy()),
    ]:
        if reason == "nd-bad-hop-limit":
            bad[IPv6].hlim = 254
        elif reason == "nd-invalid":
            bad[ICMPv6ND_NS].code = 1
        else:
            # An address with the same last 24 bits: the same group.
            bad[ICMPv6ND_NS].tgt = "2001:db8:77::1"
        with fresh.counted(reason):
            fresh.left.send(bad)


@pytest.mark.parametrize("count", [1, 16])
def test_first_packets_wait_for_arp(fresh, count):
    """The packets that made the router ask are sent, in order, once the answer is there."""
    a, b = fresh.ports["left"], fresh.ports["right"]
    frames = [through4(a, b, id=i) for i in range(count)]
    fresh.left.send(*[s for s, _ in frames])
    fresh.right.expect(arp_request(b))
    fresh.right.send(arp_reply(b))
    fresh.right.expect(*[w for _, w in frames])
    assert state(fresh, b.host) == "reachable"
    sent, want = through4(a, b)
    fresh.left.send(sent)
    fresh.right.expect(want)


@pytest.mark.parametrize("count", [1, 16])
def test_first_packets_wait_for_nd(fresh, count):
    a, b = fresh.ports["left"], fresh.ports["right"]
    frames = [through6(a, b, fl=i) for i in range(count)]
    fresh.left.send(*[s for s, _ in frames])
    fresh.right.expect(solicitation(b))
    fresh.right.send(advertisement(b))
    fresh.right.expect(*[w for _, w in frames])
    assert state(fresh, b.host6) == "reachable"


def test_the_queue_of_a_neighbour_is_bounded(bench):
    t = bench({"quiver": {"neighbor": {"queue": 256, "retransmit-ms": 1000}}}, neighbors=False)
    a, b = t.ports["left"], t.ports["right"]
    frames = [through4(a, b, id=i) for i in range(300)]
    with t.counted("hold-neighbor-queue-full", 44), t.counted("held-for-neighbor", 256):
        t.left.send(*[s for s, _ in frames])
    t.right.expect(arp_request(b))
    t.right.send(arp_reply(b))
    t.right.expect(*[w for _, w in frames[:256]])


def test_all_queues_together_are_bounded(bench):
    """4096 packets wait at most; they all are sent when the neighbours answer."""
    t = bench({"quiver": {"neighbor": {"queue": 256, "interface-queue": 4096, "retransmit-ms": 5000}}}, neighbors=False)
    a, b = t.ports["left"], t.ports["right"]
    hosts = [f"10.0.2.{i}" for i in range(100, 117)]
    for h in hosts[:-1]:
        with t.counted("held-for-neighbor", 256):
            t.left.send(*[bytes(into(a) / udp4(a.host, h))] * 256)
    with t.counted("hold-full", 256):
        t.left.send(*[bytes(into(a) / udp4(a.host, hosts[-1]))] * 256)
    t.right.drain()
    t.right.send(*[Ether(dst=b.mac, src=b.host_mac) / ARP(op=2, hwsrc=b.host_mac, psrc=h, hwdst=b.mac, pdst=b.ip)
                   for h in hosts])
    got = [f for f in t.right.take(4096) if f[12:14] == b"\x08\x00"]
    assert len(got) == 4096
    t.right.drain()


def test_many_neighbours_at_once(fresh):
    """A burst to 100 unknown hosts: each is asked for, and each gets its packet."""
    a, b = fresh.ports["left"], fresh.ports["right"]
    hosts = [f"10.0.2.{i}" for i in range(100, 200)]
    mac = {h: f"02:00:00:00:aa:{int(h.split('.')[3]):02x}" for h in hosts}
    # All is made before the router begins to wait for answers.
    burst = [bytes(into(a) / udp4(a.host, h)) for h in hosts]
    answers = [bytes(Ether(dst=b.mac, src=mac[h]) / ARP(op=2, hwsrc=mac[h], psrc=h, hwdst=b.mac, pdst=b.ip)) for h in hosts]
    want = sorted(bytes(Ether(dst=mac[h], src=b.mac) / udp4(a.host, h, ttl=63)).hex() for h in hosts)
    fresh.left.send(*burst)
    asked = {inet_ntop(AF_INET, f[38:42]) for f in map(bytes, fresh.right.take(100)) if f[12:14] == b"\x08\x06"}
    assert asked == set(hosts)
    fresh.right.send(*answers)
    got = sorted(bytes(f).hex() for f in fresh.right.take(100))
    assert got == want


def test_nobody_answers(fresh):
    """Three requests, then the senders are told; the next packet is refused at once."""
    a, b = fresh.ports["left"], fresh.ports["right"]
    packet4, packet6 = udp4(a.host, b.host), udp6(a.host6, b.host6)
    fresh.router.script(f"ip neighbor left {a.host} {a.host_mac}", f"ip neighbor left {a.host6} {a.host_mac}")
    fresh.left.send(into(a) / packet4)
    fresh.right.expect(*[arp_request(b)] * 3)
    expect_error4(fresh.left, a, ICMP(type=3, code=1), packet4)
    fresh.left.send(into(a) / packet6)
    fresh.right.expect(*[solicitation(b)] * 3)
    fresh.left.expect(icmp6_error(a, ICMPv6DestUnreach(code=3), packet6))
    assert (state(fresh, b.host), state(fresh, b.host6)) == ("failed", "failed")
    fresh.left.send(into(a) / packet4)
    expect_error4(fresh.left, a, ICMP(type=3, code=1), packet4)


def test_probes_ageing_and_loss(bench):
    """A neighbour that is used beyond its reachable time is probed by unicast; one that does not answer is gone."""
    t = bench({"quiver": {"neighbor": {"reachable-time": 1, "retransmit-ms": 200}}}, neighbors=False)
    a, b = t.ports["left"], t.ports["right"]
    for p in (a, b):
        t.wires[p.name].send(Ether(dst=BROADCAST, src=p.host_mac) / ARP(op=1, hwsrc=p.host_mac, psrc=p.host, pdst=p.ip))
        t.wires[p.name].take(1)
        t.wires[p.name].send(Ether(dst=group_mac(p.ip6), src=p.host_mac) / IPv6(src=p.host6, dst=group_of(p.ip6), hlim=255)
                             / ICMPv6ND_NS(tgt=p.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=p.host_mac))
        t.wires[p.name].take(1)
    wait_for("both are known", lambda: (state(t, b.host), state(t, b.host6)) == ("stale", "stale"))

    def used():
        for through in (through4, through6):
            sent, want = through(a, b)
            t.left.send(sent)
            t.right.expect(want)
        return (state(t, b.host), state(t, b.host6)) == ("delay", "delay")

    wait_for("the use is seen", used, every=0.1)
    # After the delay of RFC 4861 section 10, five seconds, it probes; the packets in between were not held up.
    arp = t.right.wait(lambda q: ARP in q, timeout=8)
    assert bytes(arp)[:42] == bytes(Ether(dst=b.host_mac, src=b.mac) / ARP(
        op=1, hwsrc=b.mac, psrc=b.ip, hwdst="00:00:00:00:00:00", pdst=b.host))
    t.right.send(arp_reply(b))
    # Nobody answers over IPv6: three probes, then it is forgotten.
    for _ in range(3):
        probe = t.right.wait(lambda q: ICMPv6ND_NS in q, timeout=8)
        assert (probe.dst, probe[IPv6].dst, probe[ICMPv6ND_NS].tgt) == (b.host_mac, b.host6, b.host6)
    wait_for("ARP is confirmed", lambda: state(t, b.host) in ("reachable", "stale"))
    wait_for("the silent one is forgotten", lambda: state(t, b.host6) is None)
    # The next packet asks again.
    sent, want = through6(a, b)
    t.left.send(sent)
    asked = t.right.wait(lambda q: ICMPv6ND_NS in q)
    assert bytes(asked) == bytes(solicitation(b))
    t.right.send(advertisement(b))
    t.right.expect(want)


def test_gratuitous_arp_moves_a_known_neighbour(fresh):
    """And creates none that was not known (RFC 826)."""
    a, b = fresh.ports["left"], fresh.ports["right"]
    sent, want = through4(a, b)
    fresh.left.send(sent)
    fresh.right.expect(arp_request(b))
    fresh.right.send(arp_reply(b))
    fresh.right.expect(want)
    other = "02:00:00:00:02:99"
    fresh.right.send(Ether(dst=BROADCAST, src=other) / ARP(op=1, hwsrc=other, psrc=b.host, hwdst=BROADCAST, pdst=b.host),
                     Ether(dst=BROADCAST, src=other) / ARP(op=1, hwsrc=other, psrc="10.0.2.50", pdst="10.0.2.50"))

    def mac():
        return {r["ip"]: r["ethernet"] for r in fresh.router.json("show ip neighbors")}

    wait_for("the neighbour has moved", lambda: mac().get(b.host) == other)
    assert "10.0.2.50" not in mac()
    fresh.left.send(sent)
    fresh.right.expect(Ether(dst=other, src=b.mac) / want[IP])
    assert "moved" in fresh.router.log()


def test_unsolicited_advertisement_moves_a_known_neighbour(fresh):
    a, b = fresh.ports["left"], fresh.ports["right"]
    sent, want = through6(a, b)
    fresh.left.send(sent)
    fresh.right.expect(solicitation(b))
    fresh.right.send(advertisement(b))
    fresh.right.expect(want)
    other = "02:00:00:00:02:99"
    fresh.right.send(Ether(dst="33:33:00:00:00:01", src=other) / IPv6(src=b.host6, dst="ff02::1", hlim=255)
                     / ICMPv6ND_NA(tgt=b.host6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=other))
    wait_for("it has moved", lambda: other in fresh.ctl("show ip6 neighbors"))
    fresh.left.send(sent)
    fresh.right.expect(Ether(dst=other, src=b.mac) / want[IPv6])


def test_static_neighbours_stay(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    other = "02:00:00:00:02:98"
    pair.right.send(Ether(dst=BROADCAST, src=other) / ARP(op=1, hwsrc=other, psrc=b.host, pdst=b.host))
    wait_for("the claim is logged", lambda: "is claimed by" in pair.router.log())
    sent, want = through4(a, b)
    pair.left.send(sent)
    pair.right.expect(want)
    assert state(pair, b.host) == "static"


def test_static_neighbours_by_command(fresh):
    a, b = fresh.ports["left"], fresh.ports["right"]
    fresh.ctl(f"ip neighbor right {b.host} {b.host_mac} static")
    fresh.ctl(f"ip neighbor right {b.host6} {b.host_mac}")
    for through in (through4, through6):
        sent, want = through(a, b)
        fresh.left.send(sent)
        fresh.right.expect(want)
    fresh.ctl(f"ip neighbor del right {b.host}")
    sent, want = through4(a, b)
    fresh.left.send(sent)
    fresh.right.expect(arp_request(b))
    fresh.right.send(arp_reply(b))
    fresh.right.expect(want)
    with pytest.raises(CtlError):
        fresh.ctl("ip neighbor right 10.0.2.9 01:00:00:00:00:01")


def test_forgetting_a_neighbour_loses_no_waiting_packet(fresh):
    a, b = fresh.ports["left"], fresh.ports["right"]
    sent, want = through4(a, b)
    fresh.left.send(sent)
    fresh.right.expect(arp_request(b))
    fresh.ctl(f"ip neighbor del right {b.host}")
    fresh.right.send(arp_reply(b))
    fresh.right.expect(want)


def test_link_local_neighbours(fresh):
    """Echo from a link-local address: the router asks for it on that link and answers from its own."""
    p = fresh.ports["left"]
    ours, theirs = "fe80::ff:fe00:101", "fe80::9"
    fresh.left.send(into(p) / IPv6(src=theirs, dst=ours) / ICMPv6EchoRequest(id=1, seq=2))
    fresh.left.expect(solicitation(p, theirs, source=ours))
    fresh.left.send(advertisement(p, target=theirs, to=ours))
    fresh.left.expect(out_of(p) / IPv6(src=ours, dst=theirs, hlim=64) / ICMPv6EchoReply(id=1, seq=2))
    # It may not be a source beyond its link.
    r = fresh.ports["right"]
    fresh.ctl(f"ip neighbor right {r.host6} {r.host_mac}")
    packet = udp6(theirs, r.host6)
    with fresh.counted("ip6-beyond-scope"):
        fresh.left.send(into(p) / packet)
    fresh.left.expect(icmp6_error(p, ICMPv6DestUnreach(code=2), packet, source=ours, to=theirs))


def test_addresses_are_announced(bench):
    """A new address is told to the link: gratuitous ARP (RFC 5227) and unsolicited advertisements (RFC 4861, 7.2.6)."""
    t = bench(neighbors=False)
    p = t.ports["left"]
    t.ctl("set interface ip address left 192.0.2.1/24")
    arp = t.left.wait(lambda q: ARP in q and q[ARP].psrc == "192.0.2.1")
    assert bytes(arp) == bytes(Ether(dst=BROADCAST, src=p.mac) / ARP(
        op=1, hwsrc=p.mac, psrc="192.0.2.1", hwdst="00:00:00:00:00:00", pdst="192.0.2.1"))
    t.ctl("set interface ip address left 2001:db8:99::1/64")
    na = t.left.wait(lambda q: ICMPv6ND_NA in q and q[ICMPv6ND_NA].tgt == "2001:db8:99::1")
    assert bytes(na) == bytes(
        Ether(dst="33:33:00:00:00:01", src=p.mac) / IPv6(src="2001:db8:99::1", dst="ff02::1", hlim=255)
        / ICMPv6ND_NA(tgt="2001:db8:99::1", R=1, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=p.mac))


@pytest.mark.parametrize("mode", ["optimistic", "strict"])
def test_duplicate_address_detection(bench, mode):
    """It asks from `::`; when another station has the address, the router stops using it and says so."""
    t = bench({"quiver": {"dad": mode}}, neighbors=False)
    p = t.ports["left"]
    address, theirs = "2001:db8:77::1", "02:00:00:00:01:77"
    t.ctl(f"set interface ip address left {address}/64")
    ns = t.left.wait(lambda q: ICMPv6ND_NS in q and q[ICMPv6ND_NS].tgt == address)
    assert bytes(ns) == bytes(Ether(dst=group_mac(address), src=p.mac) / IPv6(src="::", dst=group_of(address), hlim=255)
                              / ICMPv6ND_NS(tgt=address))
    t.left.send(Ether(dst="33:33:00:00:00:01", src=theirs) / IPv6(src=address, dst="ff02::1", hlim=255)
                / ICMPv6ND_NA(tgt=address, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=theirs))
    wait_for("the duplicate is logged", lambda: f"{address} is a duplicate" in t.router.log())
    assert "duplicate" in t.ctl("show interface addr left")
    ask = Ether(dst=group_mac(address), src=p.host_mac) / IPv6(src="2001:db8:77::9", dst=group_of(address), hlim=255) \
        / ICMPv6ND_NS(tgt=address) / ICMPv6NDOptSrcLLAddr(lladdr=p.host_mac)
    t.left.drain()
    t.left.send(ask, into(p) / ARP(op=1, hwsrc=p.host_mac, psrc=p.host, pdst=p.ip))
    got = t.left.take(1)[0]
    assert Ether(got).type == 0x0806, "an address that is another's was defended"


def test_strict_detection_ends_well(bench):
    """Nobody answers: the address is used after a second, not before."""
    t = bench({"quiver": {"dad": "strict"}}, neighbors=False)
    p = t.ports["left"]
    ask = Ether(dst=group_mac(p.ip6), src=p.host_mac) / IPv6(src=p.host6, dst=group_of(p.ip6), hlim=255) \
        / ICMPv6ND_NS(tgt=p.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=p.host_mac)

    def answered():
        t.left.send(ask)
        frame = t.left.recv(timeout=0.05)
        return frame is not None and ICMPv6ND_NA in Ether(frame)

    wait_for("the address is in use", answered, timeout=8)
