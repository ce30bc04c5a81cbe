"""Routing tables: overlapping addresses, routes between tables, recursive next hops, IPv4 over IPv6 neighbours."""

import time

import pytest
from frames import *
from harness import Bench, CtlError, wait_for

# red and blue have the same addresses in tables of their own; core is in table 0.
VRF = {
    "tables": {10: {"name": "red"}, 20: {"name": "blue"}},
    "l3": {"interfaces": {"red": {"table": 10}, "blue": {"table": 20}}},
    "interfaces": {
        "red": {"addresses": ["10.9.0.1/24", "2001:db8:9::1/64"]},
        "blue": {"addresses": ["10.9.0.1/24", "2001:db8:9::1/64"]},
        "core": {"addresses": ["192.0.2.1/24", "2001:db8:2::1/64"]},
    },
}
HOST, HOST6, FAR, FAR6 = "10.9.0.2", "2001:db8:9::2", "192.0.2.2", "2001:db8:2::2"


@pytest.fixture(scope="module")
def vrf():
    b = Bench(VRF, ports=("red", "blue", "core"), addresses=False)
    for name, host, host6 in (("red", HOST, HOST6), ("blue", HOST, HOST6), ("core", FAR, FAR6)):
        mac = b.ports[name].host_mac
        b.router.script(f"ip neighbor {name} {host} {mac} static", f"ip neighbor {name} {host6} {mac} static")
    yield b
    b.close()


@pytest.fixture
def routes(vrf):
    """Adds routes, and takes them out after the test."""
    added = []

    def add(*lines):
        for line in lines:
            vrf.ctl("ip route add " + line)
            added.append(" ".join(line.split(" via ")[0].split()))

    yield add
    for line in dict.fromkeys(added):
        vrf.ctl("ip route del " + line)


def echo(src, dst, **ip):
    return IP(src=src, dst=dst, id=7, **ip) / ICMP(id=3, seq=4) / b"abcd"


@pytest.mark.parametrize("name", ["red", "blue"])
def test_local_addresses_are_those_of_the_table(vrf, name):
    """Both routers' sides have one address; each answers on its own link."""
    port = vrf.ports[name]
    vrf.wires[name].send(into(port) / echo(HOST, "10.9.0.1", ttl=9))
    reply = IP(src="10.9.0.1", dst=HOST, id=7, ttl=64) / ICMP(type=0, id=3, seq=4) / b"abcd"
    vrf.wires[name].expect(out_of(port) / reply)
    ask6 = IPv6(src=HOST6, dst="2001:db8:9::1", hlim=9) / ICMPv6EchoRequest(id=3, seq=4, data=b"abcd")
    reply6 = IPv6(src="2001:db8:9::1", dst=HOST6, hlim=64) / ICMPv6EchoReply(id=3, seq=4, data=b"abcd")
    vrf.wires[name].send(into(port) / ask6)
    vrf.wires[name].expect(out_of(port) / reply6)
    # An address of table 0 is not local here.
    with vrf.counted("ip4-no-route"):
        vrf.wires[name].send(into(port) / udp4(HOST, "192.0.2.1"))
    vrf.wires[name].wait(lambda q: ICMP in q and q[ICMP].type == 3 and q[ICMP].code == 0)


@pytest.mark.parametrize("name", ["red", "blue"])
def test_errors_come_from_the_table_of_the_packet(vrf, name):
    port = vrf.ports[name]
    packet = udp4(HOST, "203.0.113.1", ttl=9)
    vrf.wires[name].send(into(port) / packet)
    got = Ether(vrf.wires[name].recv())
    assert (got.src, got.dst) == (port.mac, port.host_mac)
    assert (got[IP].src, got[IP].dst, got[ICMP].type, got[ICMP].code) == ("10.9.0.1", HOST, 3, 0)
    vrf.wires[name].send(into(port) / udp6(HOST6, "2001:db8:77::1"))
    got = Ether(vrf.wires[name].recv())
    assert (got[IPv6].src, got[IPv6].dst) == ("2001:db8:9::1", HOST6) and ICMPv6DestUnreach in got


def test_the_same_prefix_leads_elsewhere_in_each_table(vrf, routes):
    routes("172.16.0.0/16 table 10 via 192.0.2.2 core", "172.16.0.0/16 table 20 via 10.9.0.2 red",
           "2001:db8:a::/48 table 10 via 2001:db8:2::2 core", "2001:db8:a::/48 table 20 via 2001:db8:9::2 red")
    for name, out in (("red", "core"), ("blue", "red")):
        for make, dst, left in ((udp4, "172.16.5.5", {"ttl": 63}), (udp6, "2001:db8:a::5", {"hlim": 63})):
            src = HOST if make is udp4 else HOST6
            vrf.wires[name].send(into(vrf.ports[name]) / make(src, dst))
            vrf.wires[out].expect(out_of(vrf.ports[out]) / make(src, dst, **left))


def test_a_vector_with_packets_for_many_tables(vrf, routes):
    """Packets of three interfaces, each in the order in which it came."""
    routes("172.16.0.0/16 table 10 via 192.0.2.2 core", "172.16.0.0/16 table 20 via 192.0.2.2 core",
           "172.16.0.0/16 via drop")
    with vrf.counted("ip4-route-drop", by=64):
        for n in range(64):
            for name, src in (("red", HOST), ("blue", "10.9.0.77"), ("core", FAR)):
                vrf.wires[name].send(into(vrf.ports[name]) / udp4(src, "172.16.5.5", sport=n))
        for src in (HOST, "10.9.0.77"):
            pass
        seen = {HOST: [], "10.9.0.77": []}
        deadline = time.monotonic() + 5
        while sum(map(len, seen.values())) < 128 and time.monotonic() < deadline:
            frame = vrf.wires["core"].recv(timeout=0.2)
            if frame:
                got = Ether(frame)
                seen[got[IP].src].append(got[UDP].sport)
    assert seen == {HOST: list(range(64)), "10.9.0.77": list(range(64))}


def test_packets_are_looked_up_in_another_table(vrf, routes):
    """A leak to the table of the way out, and one back to the customer."""
    routes("0.0.0.0/0 table 10 via ip4-lookup-in-table 0", "10.9.0.0/24 via ip4-lookup-in-table 10",
           "::/0 table 10 via ip6-lookup-in-table 0", "2001:db8:9::/64 via ip6-lookup-in-table 10")
    red, core = vrf.ports["red"], vrf.ports["core"]
    vrf.wires["red"].send(into(red) / udp4(HOST, FAR))
    vrf.wires["core"].expect(out_of(core) / udp4(HOST, FAR, ttl=63))
    vrf.wires["core"].send(into(core) / udp4(FAR, HOST))
    vrf.wires["red"].expect(out_of(red) / udp4(FAR, HOST, ttl=63))
    vrf.wires["red"].send(into(red) / udp6(HOST6, FAR6))
    vrf.wires["core"].expect(out_of(core) / udp6(HOST6, FAR6, hlim=63))
    # Also to the router itself, by an address of the other table.
    vrf.wires["red"].send(into(red) / echo(HOST, "192.0.2.1"))
    vrf.wires["red"].expect(out_of(red) / (IP(src="192.0.2.1", dst=HOST, id=7) / ICMP(type=0, id=3, seq=4) / b"abcd"))
    assert "looked up in table 0: sent to 192.0.2.2 on core" in vrf.ctl("show ip fib table 10 192.0.2.2")


def test_a_loop_of_tables_ends(vrf, routes):
    routes("172.16.0.0/16 table 10 via ip4-lookup-in-table 20", "172.16.0.0/16 table 20 via ip4-lookup-in-table 10",
           "2001:db8:a::/48 table 10 via ip6-lookup-in-table 20", "2001:db8:a::/48 table 20 via ip6-lookup-in-table 10")
    red = vrf.ports["red"]
    with vrf.counted("ip4-lookup-loop", by=2):
        vrf.wires["red"].send(*[into(red) / udp4(HOST, "172.16.1.1")] * 2)
    with vrf.counted("ip6-lookup-loop"):
        vrf.wires["red"].send(into(red) / udp6(HOST6, "2001:db8:a::1"))
    assert "without end" in vrf.ctl("show ip fib table 10 172.16.1.1")
    with pytest.raises(CtlError, match="leads into itself"):
        vrf.ctl("ip route add 172.17.0.0/16 table 10 via ip4-lookup-in-table 10")


def test_next_hops_are_followed_through_routes(vrf, routes):
    """Three routes deep, and moved by the last of them; a longer prefix over a next hop takes it over."""
    routes("172.16.0.0/16 via 198.51.100.1", "198.51.100.0/24 via 203.0.113.9", "203.0.113.0/24 via 192.0.2.2")
    red, core = vrf.ports["red"], vrf.ports["core"]
    routes("0.0.0.0/0 table 10 via ip4-lookup-in-table 0")
    packet = udp4(HOST, "172.16.1.1")
    vrf.wires["red"].send(into(red) / packet)
    vrf.wires["core"].expect(out_of(core) / udp4(HOST, "172.16.1.1", ttl=63))
    routes("198.51.100.1/32 via 10.9.0.2 blue")
    vrf.wires["red"].send(into(red) / packet)
    vrf.wires["blue"].expect(out_of(vrf.ports["blue"]) / udp4(HOST, "172.16.1.1", ttl=63))
    vrf.ctl("ip route set 198.51.100.1/32 via drop")
    with vrf.counted("ip4-route-drop"):
        vrf.wires["red"].send(into(red) / packet)
    # Back to itself: no path is left.
    vrf.ctl("ip route set 198.51.100.1/32 via 172.16.9.9")
    with vrf.counted("ip4-route-unreachable"):
        vrf.wires["red"].send(into(red) / packet)
    vrf.wires["red"].wait(lambda q: ICMP in q and q[ICMP].type == 3 and q[ICMP].code == 1)
    assert "leads back to this group" in vrf.ctl("show ip fib 172.16.1.1")
    vrf.ctl("ip route set 198.51.100.1/32 via 192.0.2.2")
    vrf.wires["red"].send(into(red) / packet)
    vrf.wires["core"].expect(out_of(core) / udp4(HOST, "172.16.1.1", ttl=63))


def test_a_next_hop_in_another_table(vrf, routes):
    routes("172.16.0.0/16 table 10 via 10.9.0.2 next-hop-table 20")
    vrf.wires["red"].send(into(vrf.ports["red"]) / udp4(HOST, "172.16.1.1"))
    vrf.wires["blue"].expect(out_of(vrf.ports["blue"]) / udp4(HOST, "172.16.1.1", ttl=63))


def test_ipv4_over_ipv6_neighbours(vrf, routes):
    """RFC 8950: the frame is IPv4's, the MAC address is found by neighbour discovery; packets wait for it meanwhile."""
    red, core = vrf.ports["red"], vrf.ports["core"]
    routes("172.16.0.0/16 table 10 via 2001:db8:2::2 core", "172.17.0.0/16 table 10 via 2001:db8:2::99 core",
           "172.18.0.0/16 table 10 via 2001:db8:2::2 next-hop-table 0")
    for dst in ("172.16.1.1", "172.18.1.1"):
        vrf.wires["red"].send(into(red) / udp4(HOST, dst))
        vrf.wires["core"].expect(out_of(core) / udp4(HOST, dst, ttl=63))
    vrf.wires["red"].send(into(red) / udp4(HOST, "172.17.1.1"))
    asked = vrf.wires["core"].wait(lambda q: ICMPv6ND_NS in q and q[ICMPv6ND_NS].tgt == "2001:db8:2::99")
    answer = IPv6(src="2001:db8:2::99", dst=asked[IPv6].src) / ICMPv6ND_NA(
        tgt="2001:db8:2::99", R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:03:99")
    vrf.wires["core"].send(Ether(dst=core.mac, src="02:00:00:00:03:99") / answer)
    vrf.wires["core"].expect(Ether(dst="02:00:00:00:03:99", src=core.mac) / udp4(HOST, "172.17.1.1", ttl=63))


def test_pings_of_the_router_itself(vrf):
    """In the table that is named, or that of the source interface."""
    for words, name in (("table 20", "blue"), ("source red", "red")):
        done = {}
        import threading
        t = threading.Thread(target=lambda: done.update(out=vrf.ctl(f"ping {HOST} {words} repeat 1 timeout 3s")))
        t.start()
        asked = vrf.wires[name].wait(lambda q: ICMP in q and q[ICMP].type == 8)
        reply = IP(src=HOST, dst=asked[IP].src) / ICMP(type=0, id=asked[ICMP].id, seq=asked[ICMP].seq) / asked[ICMP].payload
        vrf.wires[name].send(into(vrf.ports[name]) / reply)
        t.join()
        assert asked[IP].src == "10.9.0.1" and "1 received" in done["out"], done


def test_symmetric_hash(vrf, routes):
    """Both directions of a flow take the same one of two neighbours."""
    red, blue = vrf.ports["red"], vrf.ports["blue"]
    vrf.ctl(f"ip neighbor red 10.9.0.3 {red.host_mac} static")
    paths = "via 192.0.2.2 core via 10.9.0.2 blue"
    for table in (10,):
        vrf.ctl(f"set ip flow-hash table {table} src dst sport dport proto symmetric")
        routes(f"172.16.0.0/12 table {table} {paths}")
    try:
        def way(packet):
            vrf.wires["red"].send(into(red) / packet)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                for name in ("core", "blue"):
                    if vrf.wires[name].recv(timeout=0.02):
                        return name
        ways = []
        for n in range(24):
            there = way(udp4("172.16.0.1", "172.17.0.1", sport=1000 + n, dport=53))
            back = way(udp4("172.17.0.1", "172.16.0.1", sport=53, dport=1000 + n))
            assert there is not None and there == back, f"flow {n}: {there} and {back}"
            ways.append(there)
        assert set(ways) == {"core", "blue"}
    finally:
        vrf.ctl("set ip flow-hash table 10")


def test_symmetric_hash_of_the_document(bench):
    """Many flows of both families at once, over three paths with weights."""
    ways = ("one", "two", "three")
    via = lambda net, host: [{"address": f"{net}{n}{host}", "weight": n} for n in (2, 3, 4)]  # noqa: E731
    t = bench({"tables": {0: {"flow-hash": ["symmetric"]}}, "routes": [
        {"prefix": "172.16.0.0/12", "via": via("10.0.", ".2")},
        {"prefix": "2001:db8:a000::/36", "via": via("2001:db8:", "::2")}]}, ports=("left", *ways))
    left, sent = t.ports["left"], []
    for n in range(40):
        for make, a, b in ((udp4, f"172.16.0.{n}", f"172.17.{n}.1"), (udp6, f"2001:db8:a000::{n:x}", f"2001:db8:a001:{n:x}::1")):
            sent += [into(left) / make(a, b, sport=1000 + n, dport=53), into(left) / make(b, a, sport=53, dport=1000 + n)]
    t.left.send(*sent)
    taken = {}

    def all_came():
        for name in ways:
            while frame := t.wires[name].recv(timeout=0.01):
                p = Ether(frame)
                ip = p[IP] if IP in p else p[IPv6]
                taken.setdefault((ip.version, max(p[UDP].sport, p[UDP].dport)), []).append(name)
        return sum(map(len, taken.values())) >= len(sent)

    wait_for("all frames came", all_came)
    assert {flow: names for flow, names in taken.items() if len(names) != 2 or len(set(names)) != 1} == {}
    assert {(version, names[0]) for (version, _), names in taken.items()} == {(v, w) for v in (4, 6) for w in ways}


def test_what_is_refused(vrf):
    for line, why in (
        ("ip table add 10", "there is an IPv4 table 10 already"),
        ("ip table del 0", "is there always"),
        ("ip table del 10", "red is in it"),
        ("set interface ip table core 10", "remove it before"),
        ("set interface ip table core 99", "there is no IPv4 table 99"),
        ("ip route add 172.16.0.0/16 table 99 via drop", "there is no IPv4 table 99"),
        ("ip route add 172.16.0.0/16 table 10 via ip6-lookup-in-table 0", "own family"),
        ("ip route add 172.16.0.0/16 table 10 via ip4-lookup-in-table 99", "there is no IPv4 table 99"),
        ("ip route add 172.16.0.0/16 table 10 via 10.9.0.1", "the router's own address"),
        ("ip route add 2001:db8:a::/48 via 192.0.2.2", "cannot be the next hop of an IPv6 route"),
        ("set ip flow-hash table 99 src", "there is no IPv4 table 99"),
        ("set ip flow-hash src symmetric", "`src` and `dst` go together"),
        ("set ip6 flow-hash table 10 src dst dport symmetric", "`sport` and `dport` go together"),
        ("set ip6 flow-hash src dst flowlabel symmetric", "not with `symmetric`"),
        ("show ip fib table 99", "there is no IPv4 table 99"),
    ):
        with pytest.raises(CtlError, match=why):
            vrf.ctl(line)
    vrf.router.script("ip table add 30 third", "ip route add 172.16.0.0/16 table 30 via drop",
                      "ip route add 172.20.0.0/16 via ip4-lookup-in-table 30")
    with pytest.raises(CtlError, match="lead into it"):
        vrf.ctl("ip table del 30")
    assert "172.16.0.0/16" in vrf.ctl("show ip fib table 30"), "nothing of it was done"
    vrf.router.script("ip route del 172.20.0.0/16", "ip table del 30")
    tables = vrf.router.json("show ip table")
    assert [(t["table"], t["name"], t["interfaces"]) for t in tables] == [(0, None, 1), (10, "red", 1), (20, "blue", 1)]
