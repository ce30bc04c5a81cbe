"""Hosts that no prefix of the interface holds: attached routes, next hops on the link, and whoever asks from elsewhere."""

import pytest
from frames import *
from harness import Bench, CtlError, wait_for
from test_neighbors import BROADCAST, group_mac, group_of

ROUTES = [
    {"prefix": "55.0.0.0/24", "via": {"interface": "left"}},
    {"prefix": "10.70.0.2/32", "via": {"interface": "left"}},
    {"prefix": "20.0.0.0/8", "via": {"address": "172.31.0.1", "interface": "left"}},
    {"prefix": "2001:db8:55::/64", "via": {"interface": "left"}},
    {"prefix": "2001:db8:70::2/128", "via": {"interface": "left"}},
    {"prefix": "2001:db8:2000::/36", "via": {"address": "2001:db8:31::1", "interface": "left"}},
]


@pytest.fixture(scope="module")
def wide():
    b = Bench({"routes": ROUTES}, ports=("left", "right", "back"))
    yield b
    b.close()


def known(b, address):
    """The state of a neighbour; None where there is none."""
    rows = [n for n in b.router.json("show ip neighbors") if n["ip"] == address]
    return rows[0]["state"] if rows else None


def udp(src, dst, hops=64):
    return udp6(src.host6, dst, hlim=hops) if ":" in dst else udp4(src.host, dst, ttl=hops)


def asked(b, address):
    """Waits until the router asks for an address on `left`, and answers as the host there."""
    port = b.ports["left"]
    if ":" in address:
        q = b.left.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == address)
        assert (q.dst, q[IPv6].dst) == (group_mac(address), group_of(address))
        answer = IPv6(src=address, dst=q[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=address, R=0, S=1, O=1) \
            / ICMPv6NDOptDstLLAddr(lladdr=port.host_mac)
    else:
        q = b.left.wait(lambda p: ARP in p and p[ARP].op == 1 and p[ARP].pdst == address and p[ARP].psrc != address)
        assert (q[ARP].psrc, q[ARP].hwsrc) == (port.ip, port.mac)
        answer = ARP(op=2, hwsrc=port.host_mac, psrc=address, hwdst=port.mac, pdst=port.ip)
    b.left.send(into(port) / answer)


def forget(b, address):
    if known(b, address):
        b.ctl(f"ip neighbor del left {address}")


@pytest.mark.parametrize("dst, host", [
    ("55.0.0.9", "55.0.0.9"), ("10.70.0.2", "10.70.0.2"), ("20.1.2.3", "172.31.0.1"),
    ("2001:db8:55::9", "2001:db8:55::9"), ("2001:db8:70::2", "2001:db8:70::2"), ("2001:db8:2001::5", "2001:db8:31::1"),
])
def test_the_host_is_asked_for_and_its_answer_heard(wide, dst, host):
    """The first packet is not lost, and the next ones go straight."""
    left, back = wide.ports["left"], wide.ports["back"]
    forget(wide, host)
    wide.back.send(into(back) / udp(back, dst))
    asked(wide, host)
    wide.left.wait(lambda p: bytes(p) == bytes(out_of(left) / udp(back, dst, 63)))
    assert known(wide, host) == "reachable"
    before = wide.router.errors().get("held-for-neighbor", 0)
    wide.back.send(*[into(back) / udp(back, dst)] * 20)
    assert len(wide.left.take(20)) == 20
    assert wide.router.errors().get("held-for-neighbor", 0) == before, "no packet was held"


def forwarded(b, dst, ways):
    """Sends flows from `back` to a host that one or two links have, answers whoever asks for it, and then counts what comes
    straight through and what is held."""
    back = b.ports["back"]
    make = udp6 if ":" in dst else udp4
    flows = [into(back) / make(back.host6 if ":" in dst else back.host, dst, sport=4000 + n) for n in range(32)]
    wires = {"left": b.left, "right": b.right}
    b.back.send(*flows)
    for name in ways:
        port, wire = b.ports[name], wires[name]
        if ":" in dst:
            q = wire.wait(lambda p: ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == dst)
            wire.send(into(port) / IPv6(src=dst, dst=q[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=dst, R=0, S=1, O=1)
                      / ICMPv6NDOptDstLLAddr(lladdr=port.host_mac))
        else:
            q = wire.wait(lambda p: ARP in p and p[ARP].op == 1 and p[ARP].pdst == dst)
            wire.send(into(port) / ARP(op=2, hwsrc=port.host_mac, psrc=dst, hwdst=port.mac, pdst=port.ip))
    for name in ways:
        wait_for(f"{dst} on {name} is known", lambda name=name: [
            n for n in b.router.json("show ip neighbors")
            if (n["ip"], n["interface"], n["state"]) == (dst, name, "reachable")])
        wires[name].drain()
    held = b.router.errors().get("held-for-neighbor", 0)
    b.back.send(*flows)
    upper = IPv6 if ":" in dst else IP
    got = {name: 0 for name in ways}
    for name in ways:
        while sum(got.values()) < len(flows):
            frame = wires[name].recv(timeout=0.5)
            if frame is None:
                break
            packet = Ether(frame)
            if upper in packet and packet[upper].dst == dst and UDP in packet:
                assert packet.dst == b.ports[name].host_mac
                got[name] += 1
    assert sum(got.values()) == len(flows) and all(got.values()), got
    assert b.router.errors().get("held-for-neighbor", 0) == held, "no packet was held"


@pytest.mark.parametrize("net, dst", [("56.0.0.0/24", "56.0.0.9"), ("2001:db8:56::/64", "2001:db8:56::9")])
def test_an_attached_route_of_another_table(bench, net, dst):
    """The interface is in table 0, its hosts are reached from table 7 as well."""
    t = bench({"tables": {7: {}}, "l3": {"interfaces": {"back": {"table": 7}}},
               "routes": [{"prefix": net, "via": {"interface": "left"}, "table": 7}]}, ports=("left", "right", "back"))
    forwarded(t, dst, ["left"])
    # A neighbour that goes is asked for again.
    t.ctl(f"ip neighbor del left {dst}")
    forwarded(t, dst, ["left"])


@pytest.mark.parametrize("net, dst", [("57.0.0.0/24", "57.0.0.9"), ("2001:db8:57::/64", "2001:db8:57::9")])
def test_an_attached_route_of_several_paths(bench, net, dst):
    t = bench({"routes": [{"prefix": net, "via": [{"interface": "left"}, {"interface": "right"}]}]},
              ports=("left", "right", "back"))
    forwarded(t, dst, ["left", "right"])


@pytest.mark.parametrize("dst", ["10.0.1.2", "2001:db8:1::2"])
def test_a_connected_prefix_in_another_table(bench, dst):
    """A route of another table leads to hosts that have host routes in their own."""
    net = "2001:db8:1::/64" if ":" in dst else "10.0.1.0/24"
    t = bench({"tables": {7: {}}, "l3": {"interfaces": {"back": {"table": 7}}},
               "routes": [{"prefix": net, "via": {"interface": "left"}, "table": 7}]},
              ports=("left", "right", "back"), neighbors=False)
    forwarded(t, dst, ["left"])


@pytest.mark.parametrize("host, net, route", [
    ("55.0.0.20", "55.0.0.16/28", "ip route"), ("2001:db8:55::20", "2001:db8:55::/123", "ip route"),
])
def test_a_known_host_follows_the_routes(wide, host, net, route):
    """A more specific route takes its packets, and gives them back."""
    right, back = wide.ports["right"], wide.ports["back"]
    via = right.host6 if ":" in host else right.host
    if ":" in net:
        net = "2001:db8:55::/122"
    wide.ctl(f"ip neighbor left {host} {wide.ports['left'].host_mac}")
    packet = into(back) / udp(back, host)
    wide.back.send(packet)
    wide.left.expect(out_of(wide.ports["left"]) / udp(back, host, 63))
    wide.back.send(packet)
    wide.left.expect(out_of(wide.ports["left"]) / udp(back, host, 63))
    assert f"{host}/" in wide.ctl("show ip6 fib" if ":" in host else "show ip fib"), "a host route"
    wide.ctl(f"{route} add {net} via {via}")
    wide.back.send(packet)
    wide.right.expect(out_of(right) / udp(back, host, 63))
    wide.ctl(f"{route} del {net} via {via}")
    wide.back.send(packet)
    wide.left.expect(out_of(wide.ports["left"]) / udp(back, host, 63))
    wide.ctl(f"ip neighbor del left {host}")


def test_without_the_attached_route_a_known_host_is_not_reached(wide):
    left, back = wide.ports["left"], wide.ports["back"]
    wide.ctl(f"ip neighbor left 55.1.0.7 {left.host_mac}")
    wide.ctl("ip route add 55.1.0.0/24 via left")
    for _ in range(2):
        wide.back.send(into(back) / udp(back, "55.1.0.7"))
        wide.left.expect(out_of(left) / udp(back, "55.1.0.7", 63))
    wide.ctl("ip route del 55.1.0.0/24 via left")
    with wide.counted("ip4-no-route"):
        wide.back.send(into(back) / udp(back, "55.1.0.7"))
    wide.ctl("ip neighbor del left 55.1.0.7")


def host_route(b, host):
    """Whether the route that decides on a host is its own."""
    v6 = ":" in host
    return f"{host}/{128 if v6 else 32}" in b.ctl(f"show {'ip6' if v6 else 'ip'} fib {host}")


def straight(b, host, name="left"):
    """Packets for a known host go to it, and none by way of the hold node; its host route is there soon."""
    back, port, wire = b.ports["back"], b.ports[name], getattr(b, name)
    b.back.send(into(back) / udp(back, host))
    wire.wait(lambda p: bytes(p) == bytes(out_of(port) / udp(back, host, 63)))
    wait_for(f"{host} has a route", lambda: host_route(b, host))
    b.ctl("trace add af-packet-input 20")
    b.back.send(*[into(back) / udp(back, host)] * 5)
    for _ in range(5):
        wire.wait(lambda p: bytes(p) == bytes(out_of(port) / udp(back, host, 63)))
    trace = b.ctl("show trace max 20")
    b.ctl("clear trace")
    assert "-lookup" in trace and "-hold" not in trace, trace


BOTH = pytest.mark.parametrize("net, more, host", [
    ("58.0.0.0/24", "58.0.0.0/28", "58.0.0.9"), ("2001:db8:58::/64", "2001:db8:58::/124", "2001:db8:58::9"),
])


@BOTH
def test_a_known_host_has_its_route_again_with_the_attached_route(bench, net, more, host):
    b = bench({"routes": [{"prefix": net, "via": {"interface": "left"}}]}, ports=("left", "right", "back"))
    right = b.ports["right"]
    b.ctl(f"ip neighbor left {host} {b.ports['left'].host_mac}")
    straight(b, host)
    for _ in range(2):
        b.ctl(f"ip route del {net} via left")
        assert not host_route(b, host)
        b.ctl(f"ip route add {net} via left")
        straight(b, host)
    # A more specific route comes and goes.
    via = right.host6 if ":" in host else right.host
    b.ctl(f"ip route add {more} via {via}")
    assert not host_route(b, host)
    b.ctl(f"ip route del {more} via {via}")
    straight(b, host)
    # A second path does as well.
    b.ctl(f"ip route add {net} via right")
    assert not host_route(b, host)
    b.ctl(f"ip route del {net} via right")
    straight(b, host)


@BOTH
def test_a_known_host_has_its_route_with_the_first_one_that_covers_it(bench, net, more, host):
    """The neighbour is there before any route, and before the address."""
    b = bench(ports=("left", "right", "back"), neighbors=False)
    b.ctl(f"ip neighbor left {host} {b.ports['left'].host_mac}")
    assert not host_route(b, host)
    b.ctl(f"ip route add {net} via left")
    straight(b, host)
    other = "2001:db8:59::9" if ":" in host else "59.0.0.9"
    b.ctl(f"ip neighbor left {other} {b.ports['left'].host_mac}")
    b.ctl(f"set interface ip address left {'2001:db8:59::1/64' if ':' in host else '59.0.0.1/24'}")
    straight(b, other)


@BOTH
def test_many_known_hosts_have_their_routes_again(bench, net, more, host):
    """All of them, although not in one turn."""
    b = bench({"routes": [{"prefix": net, "via": {"interface": "left"}}]}, ports=("left", "right", "back"))
    first = net.split("/")[0]
    v6 = ":" in first
    hosts = [f"{first}{n:x}" if v6 else f"{first[:-1]}{n}" for n in range(1, 250)]
    mac = b.ports["left"].host_mac
    b.router.script(*[f"ip neighbor left {h} {mac}" for h in hosts])

    def routed():
        return b.ctl(f"show {'ip6' if v6 else 'ip'} fib").count(f"{first[:-1] if not v6 else first}")

    # The attached route is one of them.
    wait_for("all have routes", lambda: routed() > len(hosts))
    b.ctl(f"ip route del {net} via left")
    assert routed() == 0
    b.ctl(f"ip route add {net} via left")
    wait_for("all have routes again", lambda: routed() > len(hosts))


@BOTH
def test_flows_are_spread_again_when_the_second_link_is_back(bench, net, more, host):
    """A host that was learnt while one link was down has no route of its own for longer than that."""
    b = bench({"routes": [{"prefix": net, "via": [{"interface": "left"}, {"interface": "right"}]}]},
              ports=("left", "right", "back"))
    b.ctl("set interface state right down")
    b.ctl(f"ip neighbor left {host} {b.ports['left'].host_mac}")
    straight(b, host)
    b.ctl("set interface state right up")
    wait_for("its route is gone", lambda: not host_route(b, host))
    b.ctl("set interface state right down")
    straight(b, host)


def arp(port, src, dst=None, op=1):
    dst = port.ip if dst is None else dst
    return Ether(dst=BROADCAST if op == 1 else port.mac, src=port.host_mac) / ARP(
        op=op, hwsrc=port.host_mac, psrc=src, hwdst=port.mac if op == 2 else "00:00:00:00:00:00", pdst=dst)


def answered(b, src):
    port = b.ports["left"]
    b.left.send(arp(port, src))
    b.left.wait(lambda p: bytes(p) == bytes(out_of(port) / ARP(
        op=2, hwsrc=port.mac, psrc=port.ip, hwdst=port.host_mac, pdst=src)))


def test_a_host_that_asks_from_another_link_is_answered_but_not_learnt(wide):
    left = wide.ports["left"]
    for src in ("203.0.113.9", "10.0.3.77"):
        with wide.counted("arp-replies-sent"):
            answered(wide, src)
    # Nor by answers to nobody's question, or announcements.
    with wide.counted("arp-handed-to-control"):
        wide.left.send(arp(left, "203.0.113.10", op=2))
    with wide.counted("arp-sender-not-on-link", 2):
        wide.left.send(arp(left, "203.0.113.11", "203.0.113.11"), arp(left, "203.0.113.12", "203.0.113.12", op=2))
    # What is on the link by a route is learnt, after all that went before.
    answered(wide, "55.0.0.77")
    wait_for("the host of the attached route is learnt", lambda: known(wide, "55.0.0.77") == "stale")
    assert not [n["ip"] for n in wide.router.json("show ip neighbors") if n["ip"].startswith("203.") or n["ip"] == "10.0.3.77"]
    # The router's own address, and the broadcast of a link, ask nothing.
    with wide.counted("arp-sender-not-on-link"):
        wide.left.send(arp(left, wide.ports["back"].ip))
    for src in ("10.0.1.255", "10.0.3.255", "127.0.0.1", "0.1.2.3", "255.255.255.255"):
        with wide.counted("arp-bad-sender"):
            wide.left.send(arp(left, src))


def test_senders_are_checked_where_the_operator_wants_it(wide):
    left = wide.ports["left"]
    wide.ctl("set interface arp sender-check left enable")
    with wide.counted("arp-sender-not-on-link", 2):
        wide.left.send(arp(left, "203.0.113.9"), arp(left, "20.1.2.3"))
    with wide.counted("arp-replies-sent", 3):
        for src in (left.host, "55.0.0.78", "10.70.0.2"):
            answered(wide, src)
    # What the router asks for it still hears.
    forget(wide, "172.31.0.1")
    wide.back.send(into(wide.ports["back"]) / udp(wide.ports["back"], "20.9.9.9"))
    asked(wide, "172.31.0.1")
    wide.left.wait(lambda p: bytes(p) == bytes(out_of(left) / udp(wide.ports["back"], "20.9.9.9", 63)))
    assert "arp-sender-check: true" in wide.ctl("show configuration")
    wide.ctl("set interface arp sender-check left disable")
    answered(wide, "203.0.113.9")


def test_static_neighbours_need_no_prefix(wide):
    mac = "02:00:00:00:77:77"
    for address in ("172.31.0.2", "55.0.0.99", "2001:db8:31::2", "2001:db8:55::99"):
        wide.ctl(f"set ip neighbor left {address} {mac}")
        assert known(wide, address) == "static"
        wide.ctl(f"set ip neighbor del left {address}")
    with pytest.raises(CtlError, match="own address"):
        wide.ctl(f"set ip neighbor left {wide.ports['left'].ip} {mac}")


def test_ipv6_without_labels_does_not_go_to_an_ipv4_neighbour(wide):
    for modes in ("", " ttl 2", " uniform", " exp 3"):
        with pytest.raises(CtlError, match="cannot be the next hop"):
            wide.ctl(f"ip route add 2001:db8:aa::/48 via 10.0.2.2 right{modes}")
    wide.ctl("ip route add 2001:db8:aa::/48 via 10.0.2.2 right ttl 2 out-labels 100")
    wide.ctl("ip route del 2001:db8:aa::/48")
