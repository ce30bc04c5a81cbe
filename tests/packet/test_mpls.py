"""Labels put on, swapped and taken off, as Scapy builds the packets; and stacks that are made to do harm."""

import pytest
from frames import *
from harness import Bench, CtlError, wait_for
from scapy.contrib.mpls import MPLS
from scapy.packet import bind_layers

bind_layers(Ether, MPLS, type=0x8847)

# left and right are label switching routers; red is a customer in a table of its own.
LSR = {
    "tables": {10: {"name": "red"}},
    "l3": {"interfaces": {"red": {"table": 10}}},
    "interfaces": {
        "left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
        "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]},
        "red": {"addresses": ["10.9.0.1/24", "2001:db8:9::1/64"]},
    },
}
HOSTS = {"left": "10.0.1.2", "right": "10.0.2.2", "red": "10.9.0.2"}


@pytest.fixture(scope="module")
def lsr():
    b = Bench(LSR, ports=("left", "right", "red"), addresses=False)
    for n, name in enumerate(("left", "right", "red")):
        mac = b.ports[name].host_mac
        prefix = {"left": "2001:db8:1::2", "right": "2001:db8:2::2", "red": "2001:db8:9::2"}[name]
        b.router.script(
            f"ip neighbor {name} {HOSTS[name]} {mac} static", f"ip neighbor {name} {prefix} {mac} static"
        )
    b.ctl("set interface mpls left enable")
    yield b
    b.close()


@pytest.fixture
def run(lsr):
    """Runs commands, and undoes them after the test."""
    undo = []

    def do(*lines):
        for line in lines:
            lsr.ctl(line)
            words = line.split(" via ")[0]
            undo.append(words.replace(" add ", " del ", 1).replace(" set ", " del ", 1))

    yield do
    for line in reversed(list(dict.fromkeys(undo))):
        lsr.ctl(line)


def stack(*labels, ttl=64, cos=0):
    """Entries from the top; a label may be (label, ttl) or (label, ttl, exp)."""
    out = None
    for n, label in enumerate(labels):
        value, hops, exp = (*label, cos)[:3] if isinstance(label, tuple) else (label, ttl, cos)
        entry = MPLS(label=value, s=int(n + 1 == len(labels)), ttl=hops, cos=exp)
        out = entry if out is None else out / entry
    return out


def labelled(port, entries, payload):
    return Ether(dst=port.mac, src=port.host_mac, type=0x8847) / entries / payload


def sent(port, entries, payload):
    return Ether(dst=port.host_mac, src=port.mac, type=0x8847) / entries / payload


FAR4, FAR6 = "198.51.100.9", "2001:db8:77::9"


def ip4(ttl=64, **kw):
    return udp4("203.0.113.5", FAR4, ttl=ttl, **kw)


def ip6(hlim=64, **kw):
    return udp6("2001:db8:66::5", FAR6, hlim=hlim, **kw)


@pytest.mark.parametrize("words, want", [
    ("out-labels 100", [(100, 64, 0)]),
    ("out-labels 100 200", [(100, 64, 0), (200, 64, 0)]),
    ("out-labels 100 200 300", [(100, 64, 0), (200, 64, 0), (300, 64, 0)]),
    ("out-labels 1048575 ttl 255 exp 5", [(1048575, 255, 5)]),
    ("out-labels 100 uniform", [(100, 8, 6)]),
    ("out-labels 100 200 uniform exp 1", [(100, 8, 1), (200, 8, 1)]),
    ("out-labels 100 exp copy", [(100, 64, 6)]),
    ("out-labels 0", [(0, 64, 0)]),
])
def test_routes_push_labels(lsr, run, words, want):
    right, left = lsr.ports["right"], lsr.ports["left"]
    run(f"ip route add 198.51.100.0/24 via 10.0.2.2 right {words}",
        f"ip route add 2001:db8:77::/48 via 2001:db8:2::2 right {words}")
    lsr.left.send(into(left) / ip4(ttl=9, tos=0xC0))
    lsr.right.expect(sent(right, stack(*want), ip4(ttl=8, tos=0xC0)))
    lsr.left.send(into(left) / ip6(hlim=9, tc=0xC0))
    lsr.right.expect(sent(right, stack(*want), ip6(hlim=8, tc=0xC0)))


def test_echo_replies_below_labels_follow_the_path_mtu(lsr, run):
    """What the router answers through a labelled route is cut to what a router on the way has said, as without labels."""
    left, right = lsr.ports["left"], lsr.ports["right"]
    far4, far6 = "198.51.100.77", "2001:db8:77::77"
    run("ip route add 198.51.100.0/24 via 10.0.2.2 right out-labels 100",
        "ip route add 2001:db8:77::/48 via 2001:db8:2::2 right out-labels 100")
    ask4 = IP(src=far4, dst=left.ip, id=7) / ICMP(type=8, id=1, seq=2) / bytes(1200)
    ask6 = IPv6(src=far6, dst=left.ip6) / ICMPv6EchoRequest(id=1, seq=2, data=bytes(1400))
    lsr.left.send(into(left) / ask4)
    reply4 = lsr.right.recv()[18:]
    lsr.left.send(into(left) / ask6)
    reply6 = lsr.right.recv()[18:]
    assert (len(reply4), len(reply6)) == (1228, 1448)
    lsr.left.send(into(left) / IP(src="10.0.1.9", dst=left.ip) / ICMP(type=3, code=4, nexthopmtu=600) / Raw(reply4[:548]),
                  into(left) / IPv6(src="2001:db8:1::9", dst=left.ip6) / ICMPv6PacketTooBig(mtu=1300) / Raw(reply6[:1232]))
    wait_for("both are learnt", lambda: len(lsr.router.json("show ip pmtu")) == 2)
    lsr.left.send(into(left) / ask4)
    frames = lsr.right.take(3)
    assert max(map(len, frames)) <= 18 + 600 and sum(len(f) - 38 for f in frames) == 1208
    assert all(f[12:14] == b"\x88\x47" for f in frames)
    lsr.left.send(into(left) / ask6)
    frames = lsr.right.take(2)
    assert max(map(len, frames)) <= 18 + 1300 and all(f[12:14] == b"\x88\x47" for f in frames)


def test_ipv6_over_an_ipv4_next_hop(lsr, run):
    """6PE: the route of an IPv6 prefix may lead to an IPv4 neighbour when it has labels."""
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("ip route add 2001:db8:77::/48 via 10.0.2.2 right out-labels 100 2")
    lsr.left.send(into(left) / ip6(hlim=9))
    lsr.right.expect(sent(right, stack(100, 2), ip6(hlim=8)))
    for labels in ("", " out-labels 3"):
        with pytest.raises(CtlError, match="without labels"):
            lsr.ctl(f"ip route add 2001:db8:78::/48 via 10.0.2.2 right{labels}")


@pytest.mark.parametrize("words, came, want", [
    ("out-labels 200", [(100, 64, 3)], [(200, 63, 3)]),
    ("out-labels 200 exp 6", [(100, 64, 3)], [(200, 63, 6)]),
    ("out-labels 33 200", [(100, 64, 3)], [(33, 64, 0), (200, 63, 3)]),
    ("out-labels 33 200 uniform", [(100, 64, 3)], [(33, 63, 3), (200, 63, 3)]),
    ("out-labels 0", [(100, 64, 3)], [(0, 63, 3)]),
])
@pytest.mark.parametrize("below", [[], [(500, 12, 1)]])
def test_labels_are_swapped(lsr, run, words, came, want, below):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run(f"mpls local-label add 100 via 10.0.2.2 right {words}")
    for packet in (ip4(ttl=5), ip6(hlim=5)):
        lsr.left.send(labelled(left, stack(*came, *below), packet))
        lsr.right.expect(sent(right, stack(*want, *below), packet))


def test_penultimate_hop_popping(lsr, run):
    """Without label the packet goes on as it is, with mode uniform it gets the TTL of the label."""
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 3")
    for packet in (ip4(ttl=5), ip6(hlim=5)):
        lsr.left.send(labelled(left, stack((100, 64)), packet))
        lsr.right.expect(out_of(right) / packet)
    lsr.left.send(labelled(left, stack((100, 64), (500, 12, 1)), ip4()))
    lsr.right.expect(sent(right, stack((500, 12, 1)), ip4()))
    lsr.ctl("mpls local-label set 100 via 10.0.2.2 right out-labels 3 uniform")
    lsr.left.send(labelled(left, stack((100, 5)), ip4(ttl=60)))
    lsr.right.expect(out_of(right) / ip4(ttl=4))
    lsr.left.send(labelled(left, stack((100, 50)), ip4(ttl=3)))
    lsr.right.expect(out_of(right) / ip4(ttl=3))
    lsr.left.send(labelled(left, stack((100, 9)), ip6(hlim=60)))
    lsr.right.expect(out_of(right) / ip6(hlim=8))
    lsr.left.send(labelled(left, stack((100, 9), (500, 12, 1)), ip4()))
    lsr.right.expect(sent(right, stack((500, 8, 1)), ip4()))


def test_the_egress_looks_the_packet_up(lsr, run):
    left, right, red = (lsr.ports[n] for n in ("left", "right", "red"))
    run("ip route add 198.51.100.0/24 via 10.0.2.2 right",
        "ip route add 2001:db8:77::/48 via 2001:db8:2::2 right",
        "ip table add 30", "ip6 table add 30",
        "ip route add 198.51.100.0/24 table 10 via 10.9.0.2 red",
        "mpls local-label add 103 eos via ip4-lookup-in-table 0",
        "mpls local-label add 106 eos via ip6-lookup-in-table 0",
        "mpls local-label add 110 eos via ip4-lookup-in-table 10",
        "mpls local-label add 104 eos via ip4-lookup-in-table 0 uniform")
    lsr.left.send(labelled(left, stack((103, 7)), ip4(ttl=60)))
    lsr.right.expect(out_of(right) / ip4(ttl=59))
    lsr.left.send(labelled(left, stack((104, 7)), ip4(ttl=60)))
    lsr.right.expect(out_of(right) / ip4(ttl=6))
    lsr.left.send(labelled(left, stack((106, 7)), ip6(hlim=60)))
    lsr.right.expect(out_of(right) / ip6(hlim=59))
    # L3VPN: the table of the label, not that of the interface.
    lsr.left.send(labelled(left, stack((110, 7)), ip4(ttl=60)))
    lsr.red.expect(out_of(red) / ip4(ttl=59))
    with lsr.counted("mpls-disposition-not-ip"):
        lsr.left.send(labelled(left, stack((103, 7)), ip6()))
    with lsr.counted("mpls-disposition-bad-header"):
        lsr.left.send(labelled(left, stack((103, 7)), ip4(chksum=1)))
    with lsr.counted("mpls-disposition-bad-address"):
        lsr.left.send(labelled(left, stack((103, 7)), udp4("127.0.0.1", FAR4)))


def test_one_label_leads_both_families_into_a_table(lsr, run):
    """L3VPN with one label for a customer, as FRR and Linux give it out: the packet says which of the two tables it is."""
    left, red = lsr.ports["left"], lsr.ports["red"]
    # Tables with other FIB indexes than those of the other family.
    run("ip6 table add 30", "ip table add 40")
    with pytest.raises(CtlError, match="there is no IPv6 table 40"):
        lsr.ctl("mpls local-label add 110 eos via ip-lookup-in-table 40")
    run("ip6 table add 40",
        "ip route add 198.51.100.0/24 table 40 via 10.9.0.2 red",
        "ip route add 2001:db8:77::/48 table 40 via 2001:db8:9::2 red",
        "mpls local-label add 110 via ip-lookup-in-table 40",
        "mpls local-label add 111 eos via ip-lookup-in-table 40 uniform")
    lsr.left.send(labelled(left, stack((110, 7)), ip4(ttl=60)))
    lsr.red.expect(out_of(red) / ip4(ttl=59))
    lsr.left.send(labelled(left, stack((110, 7)), ip6(hlim=60)))
    lsr.red.expect(out_of(red) / ip6(hlim=59))
    # Below another label that ends here, and with an entropy label.
    run("mpls local-label add 103 non-eos via mpls-lookup-in-table 0")
    lsr.left.send(labelled(left, stack((103, 9), (110, 7)), ip6(hlim=60)))
    lsr.red.expect(out_of(red) / ip6(hlim=59))
    lsr.left.send(labelled(left, stack((110, 7), (7, 5), (4711, 0)), ip4(ttl=60)))
    lsr.red.expect(out_of(red) / ip4(ttl=59))
    for ip, wants in ((ip4(ttl=60), ip4(ttl=6)), (ip6(hlim=60), ip6(hlim=6)), (ip4(ttl=5), ip4(ttl=4)), (ip6(hlim=5), ip6(hlim=4))):
        lsr.left.send(labelled(left, stack((111, 7)), ip))
        lsr.red.expect(out_of(red) / wants)
    # A vector of both, of which each keeps its order, and what is neither.
    for n in range(8):
        lsr.left.send(labelled(left, stack((110, 7)), (ip4, ip6)[n % 2](**{("ttl", "hlim")[n % 2]: 40 + n})))
    got = [lsr.red.recv() for _ in range(8)]
    four, six = ([f for f in got if f[12:14] == kind] for kind in (b"\x08\x00", b"\x86\xdd"))
    assert four == [bytes(out_of(red) / ip4(ttl=39 + n)) for n in range(0, 8, 2)]
    assert six == [bytes(out_of(red) / ip6(hlim=39 + n)) for n in range(1, 8, 2)]
    for label in (110, 111):
        for nibble in set(range(16)) - {4, 6}:
            with lsr.counted("mpls-payload-not-ip"):
                lsr.left.send(labelled(left, stack((label, 7)), Raw(bytes([nibble << 4]) + bytes(47))))
        with lsr.counted("mpls-truncated"):
            lsr.left.send(labelled(left, stack((label, 7)), Raw(b"")))
        for cut in (1, 19):
            with lsr.counted("mpls-disposition-bad-header"):
                lsr.left.send(labelled(left, stack((label, 7)), Raw(bytes(ip4())[:cut])))
        for cut in (1, 39):
            with lsr.counted("mpls-disposition-bad-header"):
                lsr.left.send(labelled(left, stack((label, 7)), Raw(bytes(ip6())[:cut])))
        with lsr.counted("mpls-disposition-bad-header"):
            lsr.left.send(labelled(left, stack((label, 7)), ip4(chksum=1)))
        with lsr.counted("mpls-disposition-bad-address"):
            lsr.left.send(labelled(left, stack((label, 7)), udp6("::1", FAR6)))
    # Above other labels it is nothing, and errors of the customer's packets go back where his table leads.
    with lsr.counted("mpls-no-label"):
        lsr.left.send(labelled(left, stack((110, 7), (100, 7)), ip4()))
    run("ip route add 203.0.113.0/24 table 40 via 10.9.0.2 red", "ip route add 2001:db8:66::/48 table 40 via 2001:db8:9::2 red")
    lsr.left.send(labelled(left, stack((110, 7)), ip4(ttl=1)))
    got = Ether(lsr.red.recv())
    assert (got.dst, got[IP].dst, got[ICMP].type) == (red.host_mac, "203.0.113.5", 11)
    lsr.left.send(labelled(left, stack((110, 7)), ip6(hlim=1)))
    got = Ether(lsr.red.recv())
    assert (got.dst, got[IPv6].dst, got[IPv6].payload.type) == (red.host_mac, "2001:db8:66::5", 3)
    # What is shown, and what keeps its tables.
    [shown] = lsr.router.json("show mpls fib 110")["labels"]
    assert (shown["eos"], shown["paths"]) == (True, "via ip-lookup-in-table 40")
    assert [p["kind"] for p in shown["next-hop-group"]["paths"]] == ["pop-ip-lookup"]
    assert "pop-ip-lookup in table 40" in lsr.ctl("show mpls fib 110")
    with pytest.raises(CtlError, match="cannot be removed"):
        lsr.ctl("ip6 table del 40")


def test_explicit_null(lsr, run):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("ip route add 198.51.100.0/24 via 10.0.2.2 right",
        "ip route add 2001:db8:77::/48 via 2001:db8:2::2 right",
        "mpls local-label add 100 via 10.0.2.2 right out-labels 200")
    lsr.left.send(labelled(left, stack((0, 7)), ip4(ttl=60)))
    lsr.right.expect(out_of(right) / ip4(ttl=59))
    lsr.left.send(labelled(left, stack((2, 7)), ip6(hlim=60)))
    lsr.right.expect(out_of(right) / ip6(hlim=59))
    # Above other labels it is taken off as well (RFC 4182).
    lsr.left.send(labelled(left, stack((0, 7), (2, 9), (100, 33)), ip4(ttl=60)))
    lsr.right.expect(sent(right, stack((200, 32)), ip4(ttl=60)))


def test_an_entropy_label_goes_with_its_tunnel(lsr, run):
    """RFC 6790: the end of a tunnel takes indicator and entropy label off, a router on the way leaves them."""
    left, right, red = (lsr.ports[n] for n in ("left", "right", "red"))
    run("ip route add 198.51.100.0/24 via 10.0.2.2 right",
        "ip route add 2001:db8:77::/48 via 2001:db8:2::2 right",
        "ip route add 198.51.100.0/24 table 10 via 10.9.0.2 red",
        "mpls local-label add 100 via 10.0.2.2 right out-labels 200",
        "mpls local-label add 101 via 10.0.2.2 right out-labels 3",
        "mpls local-label add 103 eos via ip4-lookup-in-table 0",
        "mpls local-label add 103 non-eos via mpls-lookup-in-table 0",
        "mpls local-label add 104 eos via ip4-lookup-in-table 0 uniform",
        "mpls local-label add 106 eos via ip6-lookup-in-table 0",
        "mpls local-label add 110 eos via ip4-lookup-in-table 10")
    mark = [(7, 5), (4711, 0)]
    for tunnel in ([(103, 9)], [(0, 9)], [], [(0, 9), (103, 9)]):
        lsr.left.send(labelled(left, stack(*tunnel, *mark), ip4(ttl=60)))
        lsr.right.expect(out_of(right) / ip4(ttl=59))
    for tunnel in ([(106, 9)], [(2, 9)], []):
        lsr.left.send(labelled(left, stack(*tunnel, *mark), ip6(hlim=60)))
        lsr.right.expect(out_of(right) / ip6(hlim=59))
    # Its own TTL is of no account, that of the tunnel's label is.
    lsr.left.send(labelled(left, stack((104, 7), (7, 99), (4711, 0)), ip4(ttl=60)))
    lsr.right.expect(out_of(right) / ip4(ttl=6))
    # The tunnel's label is at the bottom without them, or other labels are below: a VPN's, or those of another tunnel.
    lsr.left.send(labelled(left, stack((110, 7), *mark), ip4(ttl=60)))
    lsr.red.expect(out_of(red) / ip4(ttl=59))
    lsr.left.send(labelled(left, stack((103, 9), *mark, (110, 7)), ip4(ttl=60)))
    lsr.red.expect(out_of(red) / ip4(ttl=59))
    lsr.left.send(labelled(left, stack(*mark, (103, 9), *mark, (100, 7, 3)), ip4(ttl=60)))
    lsr.right.expect(sent(right, stack((200, 6, 3)), ip4(ttl=60)))
    # With a route of its own for labels above others the packet is on the way.
    run("mpls local-label add 120 eos via ip4-lookup-in-table 0",
        "mpls local-label add 120 non-eos via 10.0.2.2 right out-labels 200")
    lsr.left.send(labelled(left, stack((120, 9), *mark), ip4()))
    lsr.right.expect(sent(right, stack((200, 8), *mark), ip4()))
    # On the way, and at the hop before the last.
    lsr.left.send(labelled(left, stack((100, 9), *mark), ip4()))
    lsr.right.expect(sent(right, stack((200, 8), *mark), ip4()))
    lsr.left.send(labelled(left, stack((101, 9), *mark), ip4()))
    lsr.right.expect(sent(right, stack(*mark), ip4()))
    for reason, entries in (("mpls-entropy-label-missing", stack((7, 9))),
                            ("mpls-entropy-label-missing", stack((103, 9), (7, 9))),
                            ("mpls-no-label", stack((110, 9), (7, 9))),
                            ("mpls-payload-not-ip", stack(*mark) / Raw(b"\0"))):
        with lsr.counted(reason):
            lsr.left.send(labelled(left, entries, ip4() if reason != "mpls-payload-not-ip" else Raw(b"")))
    for cut in (stack(*mark, (103, 9)), stack((103, 9), *mark, (103, 9))):
        # The label below the entropy label is cut off, then the entropy label itself.
        for n in (2, 4 + 2):
            with lsr.counted("mpls-truncated"):
                lsr.left.send(bytes(labelled(left, cut, Raw(b"")))[:-n])
    with lsr.counted("mpls-ttl-expired"), lsr.counted("icmp4-errors-sent"):
        lsr.left.send(labelled(left, stack((7, 1), (4711, 0), (100, 9)), ip4()))
    got = Ether(lsr.right.recv())
    assert (got[MPLS].label, got[MPLS].ttl, got[ICMP].type) == (200, 254, 11)


def test_errors_of_a_vpn_come_from_its_table(lsr, run):
    left, red = lsr.ports["left"], lsr.ports["red"]
    run("mpls local-label add 110 eos via ip4-lookup-in-table 10",
        "ip route add 203.0.113.0/24 table 10 via 10.9.0.2 red")
    lsr.left.send(labelled(left, stack((110, 7)), udp4("203.0.113.5", "10.9.0.2", ttl=1)))
    got = Ether(lsr.red.recv())
    assert (got.dst, got[IP].dst, got[ICMP].type) == (red.host_mac, "203.0.113.5", 11)


def test_next_label_tables(lsr, run):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("mpls table add 7",
        "mpls local-label add 100 non-eos via mpls-lookup-in-table 7",
        "mpls local-label add 500 table 7 via 10.0.2.2 right out-labels 600",
        "mpls local-label add 501 non-eos table 7 via mpls-lookup-in-table 7")
    lsr.left.send(labelled(left, stack((100, 9), (500, 12, 2)), ip4()))
    lsr.right.expect(sent(right, stack((600, 11, 2)), ip4()))
    with lsr.counted("mpls-no-label"):
        lsr.left.send(labelled(left, stack((100, 9), (102, 12)), ip4()))
    with lsr.counted("mpls-lookup-loop"):
        lsr.left.send(labelled(left, stack((100, 9), *[(501, 9)] * 30, (500, 9)), ip4()))


def test_recursive_through_a_labelled_route(lsr, run):
    """L3VPN: the inner label is the route's, the outer one that of the route to the next hop."""
    right, red = lsr.ports["right"], lsr.ports["red"]
    run("ip route add 192.0.2.77/32 via 10.0.2.2 right out-labels 1000",
        "ip route add 198.51.100.0/24 table 10 via 192.0.2.77 next-hop-table 0 out-labels 55")
    lsr.red.send(into(red) / ip4(ttl=9))
    lsr.right.expect(sent(right, stack(1000, 55), ip4(ttl=8)))
    lsr.ctl("ip route set 192.0.2.77/32 via 10.0.2.2 right out-labels 2000 3000")
    lsr.red.send(into(red) / ip4(ttl=9))
    lsr.right.expect(sent(right, stack(2000, 3000, 55), ip4(ttl=8)))
    lsr.ctl("ip route set 192.0.2.77/32 via 10.0.2.2 right out-labels 3")
    lsr.red.send(into(red) / ip4(ttl=9))
    lsr.right.expect(sent(right, stack(55), ip4(ttl=8)))


def test_what_is_too_large_for_its_labels(lsr, run):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("ip route add 198.51.100.0/24 via 10.0.2.2 right out-labels 100 200",
        "ip route add 2001:db8:77::/48 via 2001:db8:2::2 right out-labels 100 200",
        "mpls local-label add 100 via 10.0.2.2 right out-labels 200 300",
        "ip route add 203.0.113.0/24 via 10.0.1.2 left")
    lsr.left.send(into(left) / ip4(size=1492 - 28, ttl=9))
    lsr.right.expect(sent(right, stack(100, 200), ip4(size=1492 - 28, ttl=8)))
    lsr.left.send(into(left) / ip4(size=1500 - 28, flags="DF"))
    got = Ether(lsr.left.recv())
    assert (got[ICMP].type, got[ICMP].code, got[ICMP].nexthopmtu) == (3, 4, 1492)
    lsr.left.send(into(left) / ip4(size=1500 - 28, ttl=9))
    parts = [Ether(lsr.right.recv()) for _ in range(2)]
    assert all([p.type == 0x8847 and p[MPLS].label == 100 and len(p) <= 1514 for p in parts])
    inner = [IP(bytes(p)[22:]) for p in parts]
    assert [(i.ttl, i.frag, int(i.flags)) for i in inner] == [(8, 0, 1), (8, 184, 0)]
    lsr.left.send(into(left) / udp6("2001:db8:1::2", FAR6, size=1500 - 48))
    got = Ether(lsr.left.recv())
    assert got[ICMPv6PacketTooBig].mtu == 1492
    # In transit, with the labels that it has.
    lsr.left.send(labelled(left, stack((100, 9)), ip4(size=1496 - 28, flags="DF")))
    got = Ether(lsr.left.recv())
    assert (got[ICMP].type, got[ICMP].code, got[ICMP].nexthopmtu) == (3, 4, 1492)


def test_a_ttl_that_runs_out_is_told(lsr, run):
    left = lsr.ports["left"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200",
        "ip route add 203.0.113.0/24 via 10.0.1.2 left",
        "ip route add 2001:db8:66::/48 via 2001:db8:1::2 left")
    for ttl in (0, 1):
        with lsr.counted("mpls-ttl-expired"), lsr.counted("icmp4-errors-sent"):
            lsr.left.send(labelled(left, stack((100, ttl), (500, 7)), ip4(ttl=33)))
        got = Ether(lsr.left.recv())
        assert (got[IP].src, got[IP].dst, got[ICMP].type) == ("10.0.1.1", "203.0.113.5", 11)
    lsr.left.send(labelled(left, stack((100, 1)), ip6(hlim=33)))
    assert ICMPv6TimeExceeded in Ether(lsr.left.recv())
    lsr.left.send(into(left) / udp4("203.0.113.5", "10.0.2.2", ttl=3))
    lsr.right.recv()
    with lsr.counted("mpls-ttl-expired"), lsr.counted("mpls-error-not-ip"):
        lsr.left.send(labelled(left, stack((100, 1)), Raw(b"\0" * 40)))


def test_errors_go_on_along_the_path(lsr, run):
    """RFC 3032 section 2.3.2: the router knows no way to the sender; who is at the end of the path does."""
    left, right, red = (lsr.ports[n] for n in ("left", "right", "red"))
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200",
        "mpls local-label add 101 via 10.0.2.2 right out-labels 200 300",
        "mpls local-label add 110 eos via ip4-lookup-in-table 10",
        "ip route add 203.0.113.0/24 table 10 via 10.9.0.2 red",
        "ip route add 2001:db8:66::/48 via drop")

    def stacked(got, n):
        entries = [MPLS(got[14 + 4 * i:18 + 4 * i]) for i in range(n)]
        rest = got[14 + 4 * n:]
        return [(e.label, e.ttl, e.s) for e in entries], (IP if rest[0] >> 4 == 4 else IPv6)(rest)

    with lsr.counted("mpls-ttl-expired"), lsr.counted("icmp4-errors-sent"):
        lsr.left.send(labelled(left, stack((100, 1), (500, 1)), ip4(ttl=33)))
    entries, error = stacked(lsr.right.recv(), 2)
    assert entries == [(200, 254, 0), (500, 255, 1)]
    assert (error.src, error.dst, error.ttl, error[ICMP].type) == ("10.0.1.1", "203.0.113.5", 64, 11)
    assert bytes(stack((100, 1), (500, 1))) in bytes(error), "the stack as it came (RFC 4950)"
    lsr.left.send(labelled(left, stack((100, 1)), ip6(hlim=33)))
    entries, error = stacked(lsr.right.recv(), 1)
    assert entries == [(200, 254, 1)] and error.dst == "2001:db8:66::5" and ICMPv6TimeExceeded in error
    # Too large: its labels are those that it would have left with.
    lsr.left.send(labelled(left, stack((101, 9)), ip4(size=1496 - 28, flags="DF")))
    entries, error = stacked(lsr.right.recv(), 2)
    assert entries == [(200, 255, 0), (300, 255, 1)]
    assert (error[ICMP].type, error[ICMP].code, error[ICMP].nexthopmtu) == (3, 4, 1492)
    lsr.left.send(labelled(left, stack((101, 9)), ip6(size=1496 - 48)))
    entries, error = stacked(lsr.right.recv(), 2)
    assert [e[0] for e in entries] == [200, 300] and error[ICMPv6PacketTooBig].mtu == 1492
    # The path ends here, in a customer's table.
    lsr.left.send(labelled(left, stack((110, 1)), ip4(ttl=33)))
    got = Ether(lsr.red.recv())
    assert (got.dst, got[IP].dst, got[ICMP].type) == (red.host_mac, "203.0.113.5", 11)
    # An error about an error is not sent.
    with lsr.counted("icmp4-error-not-allowed"):
        lsr.left.send(labelled(left, stack((100, 1)), IP(src="203.0.113.5", dst=FAR4) / ICMP(type=11) / ip4()))
    # More labels than have room: to where the table says.
    with lsr.counted("ip4-no-route"):
        lsr.left.send(labelled(left, stack((100, 1), *[(500, 9)] * 10), ip4()))


def test_fragments_below_labels(lsr, run):
    """RFC 3032 section 3.4: an IPv4 packet that may be fragmented is, and each fragment gets the labels."""
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200 300",
        "ip route add 203.0.113.0/24 via 10.0.1.2 left")
    packet = ip4(size=1492 - 28)
    with lsr.counted("ip4-fragments-made", 2), lsr.counted("mpls-labelled-packet-too-big"):
        lsr.left.send(labelled(left, stack((100, 9, 2), (500, 3)), packet))
    whole, first = bytes(packet)[20:], 1488 - 20 & ~7
    for part, offset, more in ((whole[:first], 0, "MF"), (whole[first:], first // 8, 0)):
        lsr.right.expect(sent(right, stack((200, 64), (300, 8, 2), (500, 3)), IP(
            src=packet.src, dst=packet.dst, id=packet.id, ttl=packet.ttl, proto=17, flags=more, frag=offset) / Raw(part)))
    # What only looks like IPv4, as the frame of a pseudowire may, stays whole.
    with lsr.counted("mpls-labelled-packet-too-big"), lsr.counted("icmp4-error-not-allowed"):
        lsr.left.send(labelled(left, stack((100, 9)), Raw(b"\x4f" + bytes(1495))))


@pytest.mark.parametrize("reason, packet", [
    ("mpls-no-label", stack(100) / ip4()),
    ("mpls-no-label", Raw(bytes(stack(100, 200))[:4] * 340 + b"abcd")),
    ("mpls-implicit-null-received", stack(3) / ip4()),
    *[("mpls-reserved-label", stack(n, 100) / ip4()) for n in range(4, 16) if n != 7],
    ("mpls-reserved-label", stack(4) / ip4()),
    ("mpls-router-alert", stack(1, 100) / ip4()),
    ("mpls-truncated", MPLS(label=0, s=0, ttl=9)),
    ("mpls-too-short", Raw(b"\0\0\1")),
])
def test_hostile_stacks_are_counted(lsr, reason, packet):
    left = lsr.ports["left"]
    frame = bytes(Ether(dst=left.mac, src=left.host_mac, type=0x8847)) + bytes(packet)
    with lsr.counted(reason):
        lsr.left.send(frame)


def test_stacks_without_a_bottom(lsr, run):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200")
    head = bytes(Ether(dst=left.mac, src=left.host_mac, type=0x8847))
    endless = b"".join(bytes(MPLS(label=100, s=0, ttl=9)) for _ in range(360))
    lsr.left.send(head + endless)
    got = lsr.right.recv()
    assert got[14:22] == bytes(MPLS(label=200, s=0, ttl=8)) + endless[4:8]
    expired = b"".join(bytes(MPLS(label=100, s=0, ttl=1)) for _ in range(360))
    with lsr.counted("mpls-ttl-expired"), lsr.counted("mpls-stack-too-deep"):
        lsr.left.send(head + expired)
    with lsr.counted("mpls-ttl-expired"), lsr.counted("mpls-stack-truncated"):
        lsr.left.send(head + expired[:48])


def test_what_routes_of_labels_refuse(lsr, run):
    left = lsr.ports["left"]
    run("mpls local-label add 100 via drop", "mpls local-label add 101 via 10.0.2.2 right")
    for reason, packet in (("mpls-label-drop", stack(100) / ip4()),
                           ("mpls-payload-not-ip", stack(101) / Raw(bytes(40))),
                           ("mpls-truncated", stack(101))):
        with lsr.counted(reason):
            lsr.left.send(labelled(left, packet, Raw(b"")))


def test_interfaces_are_enabled_one_by_one(lsr, run):
    right = lsr.ports["right"]
    run("mpls local-label add 100 via 10.0.1.2 left out-labels 200")
    with lsr.counted("mpls-not-enabled"):
        lsr.right.send(labelled(right, stack(100), ip4()))
    assert [i["name"] for i in lsr.router.json("show mpls interface")] == ["left"]
    lsr.ctl("set interface mpls right enable")
    lsr.right.send(labelled(right, stack(100), ip4()))
    lsr.left.expect(sent(lsr.ports["left"], stack((200, 63)), ip4()))
    lsr.ctl("set interface mpls right disable")
    with lsr.counted("mpls-not-enabled"):
        lsr.right.send(labelled(right, stack(100), ip4()))


@pytest.mark.parametrize("line, why", [
    ("mpls local-label add 7 eos via 10.0.2.2 right", "label 7 is reserved"),
    ("mpls local-label add 3 eos via 10.0.2.2 right", "implicit null"),
    ("mpls local-label add 100 eos via 10.0.2.2 right out-labels 12", "label 12 is reserved"),
    ("mpls local-label add 100 non-eos via ip4-lookup-in-table 0", "use eos"),
    ("mpls local-label add 100 eos via mpls-lookup-in-table 0", "use non-eos"),
    ("mpls local-label add 100 eos via ip4-lookup-in-table 99", "there is no IPv4 table 99"),
    ("mpls local-label add 100 non-eos via ip-lookup-in-table 0", "use eos"),
    ("mpls local-label add 100 eos via ip-lookup-in-table 99", "there is no IPv4 table 99"),
    ("ip route add 198.51.100.0/24 via ip-lookup-in-table 10", "ip-lookup-in-table"),
    ("mpls local-label add 100 eos table 9 via 10.0.2.2 right", "there is no MPLS table 9"),
    ("mpls local-label del 100", "no such route"),
    ("ip route add 198.51.100.0/24 via right out-labels 100", "name its address"),
    ("ip route add 198.51.100.0/24 via 10.0.2.2 right out-labels 5", "label 5 is reserved"),
])
def test_what_is_refused(lsr, line, why):
    with pytest.raises(CtlError, match=why):
        lsr.ctl(line)


def test_flows_are_spread_by_what_is_below(lsr, run):
    """By the IP packet below the labels, or by the entropy label (RFC 6790)."""
    left = lsr.ports["left"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200 via 10.9.0.2 red out-labels 300")

    def path(entries, packet):
        lsr.left.send(labelled(left, entries, packet))

        def came(name):
            # The router has other things to say to its neighbours meanwhile.
            frame = lsr.wires[name].recv(timeout=0.01)
            return frame is not None and frame[12:14] == b"\x88\x47"

        return wait_for("the packet leaves", lambda: next((n for n in ("right", "red") if came(n)), None))

    flows = [udp4("203.0.113.5", FAR4, sport=1000 + n) for n in range(24)]
    ways = [path(stack(100), f) for f in flows]
    assert set(ways) == {"right", "red"}
    assert [path(stack(100, 700), f) for f in flows] == ways, "the labels above do not matter"
    entropy = [path(stack(100, 7, 5000 + n), flows[0]) for n in range(24)]
    assert set(entropy) == {"right", "red"}
    assert [path(stack(100, 7, 5000 + n), flows[n]) for n in range(24)] == entropy


def test_packets_wait_for_their_neighbour(lsr, run):
    left, right = lsr.ports["left"], lsr.ports["right"]
    run("mpls local-label add 100 via 10.0.2.77 right out-labels 200")
    lsr.left.send(labelled(left, stack((100, 9)), ip4()))
    ask = Ether(lsr.right.recv())
    assert ARP in ask and ask[ARP].pdst == "10.0.2.77"
    lsr.right.send(Ether(dst=right.mac, src="02:00:00:00:77:77") / ARP(
        op=2, hwsrc="02:00:00:00:77:77", psrc="10.0.2.77", hwdst=right.mac, pdst="10.0.2.1"))
    lsr.right.expect(Ether(dst="02:00:00:00:77:77", src=right.mac, type=0x8847) / stack((200, 8)) / ip4())
    lsr.ctl("ip neighbor del right 10.0.2.77")


def test_the_trace_shows_labels(lsr, run):
    left = lsr.ports["left"]
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 200")
    lsr.ctl("trace add af-packet-input 1")
    lsr.left.send(labelled(left, stack((100, 9, 5)), ip4()))
    lsr.right.recv()
    text = lsr.ctl("show trace")
    lsr.ctl("clear trace")
    lsr.ctl("trace add af-packet-input 1")
    lsr.left.send(labelled(left, stack((100, 1, 5)), ip4()))
    lsr.right.recv()
    error = lsr.ctl("show trace").split(": ip4-icmp-error\n")[1]
    lsr.ctl("clear trace")
    assert error.split("\n")[0].strip() == "label 100 exp 5 s 1 ttl 255", error
    for words in ("mpls-lookup", "label 100 exp 5 s 1 ttl 9", "label 200 exp 5 s 1 ttl 8", "mpls-output"):
        assert words in text, text


def test_show_mpls_fib(lsr, run):
    run("mpls local-label add 100 via 10.0.2.2 right out-labels 33 200")
    labels = {(x["label"], x["eos"]): x for x in lsr.router.json("show mpls fib")["labels"]}
    assert labels[100, True]["paths"] == "via 10.0.2.2 right out-labels 33 200"
    assert {k for k in labels if k[0] < 16} == {(0, True), (0, False), (2, True), (2, False)}
    [eos, _] = lsr.router.json("show mpls fib 100")["labels"]
    assert eos["next-hop-group"]["wanted"] == eos["paths"] == labels[100, True]["paths"]
    text = lsr.ctl("show mpls fib 100")
    assert "100:eos" in text and "swap to 200" in text and "labels [33 ttl 64 exp 0]" in text
