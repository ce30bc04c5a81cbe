"""Routes: paths, weights, refusals, changes under traffic; sub-interfaces of next hops."""

import threading
import time
from collections import Counter

import pytest
from frames import *  # noqa: F403
from frames import ICMP, IP, Ether, expect_error4, into, out_of, through4, udp4, udp6
from harness import CtlError, Netns, wait_for


@pytest.fixture
def three(bench):
    """One port in, two ways out."""
    return bench(ports=("left", "north", "south"))


def to(t, port, frame4, ttl=63):
    return Ether(dst=t.ports[port].host_mac, src=t.ports[port].mac) / frame4


def test_kinds_of_paths(three):
    """By address, by interface, by both; each is what `show ip fib` says."""
    t = three
    a = t.ports["left"]
    for line, dst, wire in [
        ("ip route add 172.16.1.0/24 via 10.0.2.2", "172.16.1.9", "north"),
        ("ip route add 172.16.2.0/24 via 10.0.3.2 south", "172.16.2.9", "south"),
    ]:
        t.ctl(line)
        t.left.send(into(a) / udp4(a.host, dst))
        t.wires[wire].expect(to(t, wire, udp4(a.host, dst, ttl=63)))
    # An interface alone: the destination is a neighbour there.
    t.ctl("ip route add 172.16.3.0/24 via north")
    t.left.send(into(a) / udp4(a.host, "172.16.3.9"))
    asked = t.north.wait(lambda q: q.type == 0x0806 and q[ARP].pdst == "172.16.3.9")  # noqa: F405
    assert asked[ARP].psrc == "10.0.2.1"  # noqa: F405
    for line, dst, wire in [
        ("ip route add 2001:db8:a1::/48 via 2001:db8:2::2", "2001:db8:a1::9", "north"),
        ("ip route add 2001:db8:a2::/48 via 2001:db8:3::2 south", "2001:db8:a2::9", "south"),
    ]:
        t.ctl(line)
        t.left.send(into(a) / udp6(a.host6, dst))
        t.wires[wire].expect(to(t, wire, udp6(a.host6, dst, hlim=63)))


def test_longest_prefix_wins(three):
    t = three
    a = t.ports["left"]
    t.router.script(
        "ip route add 0.0.0.0/0 via 10.0.2.2", "ip route add 172.16.0.0/12 via 10.0.3.2",
        "ip route add 172.16.5.0/24 via 10.0.2.2", "ip route add 172.16.5.128/25 via 10.0.3.2",
        "ip route add 172.16.5.129/32 via 10.0.2.2")
    for dst, wire in [("8.8.8.8", "north"), ("172.17.1.1", "south"), ("172.16.5.127", "north"), ("172.16.5.128", "south"),
                      ("172.16.5.129", "north"), ("172.16.5.130", "south"), ("172.32.0.1", "north")]:
        t.left.send(into(a) / udp4(a.host, dst))
        t.wires[wire].expect(to(t, wire, udp4(a.host, dst, ttl=63)))
    t.ctl("ip route del 172.16.5.129/32")
    t.left.send(into(a) / udp4(a.host, "172.16.5.129"))
    t.south.expect(to(t, "south", udp4(a.host, "172.16.5.129", ttl=63)))


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_flows_are_shared_by_weight(three, weights):
    """Each flow stays on one path; the paths' shares are their weights."""
    t = three
    a = t.ports["left"]
    w1, w2 = weights
    t.router.script(f"ip route add 172.16.0.0/16 via 10.0.2.2 weight {w1}", f"ip route add 172.16.0.0/16 via 10.0.3.2 weight {w2}",
                    f"ip route add 2001:db8:a::/48 via 2001:db8:2::2 weight {w1}",
                    f"ip route add 2001:db8:a::/48 via 2001:db8:3::2 weight {w2}")
    flows = 1024
    for make in (lambda i: udp4(a.host, f"172.16.{i % 7}.{i % 250 + 1}", sport=1024 + i, dport=53),
                 lambda i: udp6(a.host6, f"2001:db8:a::{i % 250 + 1:x}", sport=1024 + i, dport=53)):
        shares = []
        for _ in range(2):
            got = {"north": [], "south": []}
            for start in range(0, flows, 256):
                t.left.send(*[into(a) / make(i) for i in range(start, start + 256)])
                deadline = time.monotonic() + 5
                need = len(got["north"]) + len(got["south"]) + 256
                while len(got["north"]) + len(got["south"]) < need and time.monotonic() < deadline:
                    for wire in got:
                        frame = t.wires[wire].recv(timeout=0.001)
                        if frame:
                            got[wire].append(Ether(frame).sport)
            assert len(got["north"]) + len(got["south"]) == flows
            shares.append({wire: sorted(ports) for wire, ports in got.items()})
        assert shares[0] == shares[1], "a flow has changed its path"
        share = len(shares[0]["north"]) / flows
        assert abs(share - w1 / (w1 + w2)) < 0.06, f"{share:.3f} of the flows on the first path"


def test_fragments_of_a_datagram_stay_together(three):
    t = three
    a = t.ports["left"]
    t.router.script("ip route add 172.16.0.0/16 via 10.0.2.2", "ip route add 172.16.0.0/16 via 10.0.3.2")
    for i in range(16):
        first = IP(src=a.host, dst="172.16.0.1", id=i, flags="MF", ttl=9) / UDP(sport=i, dport=i) / bytes(8)  # noqa: F405
        rest = IP(src=a.host, dst="172.16.0.1", id=i, frag=2, proto=17, ttl=9) / bytes(8)
        t.left.send(into(a) / first, into(a) / rest)
    got = Counter()
    for _ in range(32):
        for wire in ("north", "south"):
            frame = t.wires[wire].recv(timeout=0.02)
            if frame:
                got[(wire, Ether(frame)[IP].id)] += 1
        if sum(got.values()) == 32:
            break
    assert sum(got.values()) == 32 and set(got.values()) == {2}, got


def test_routes_that_refuse(three):
    t = three
    a = t.ports["left"]
    t.router.script("ip route add 172.16.1.0/24 via unreachable", "ip route add 172.16.2.0/24 via prohibit",
                    "ip route add 172.16.3.0/24 via drop")
    for dst, code in (("172.16.1.1", 1), ("172.16.2.1", 13)):
        packet = udp4(a.host, dst)
        t.left.send(into(a) / packet)
        expect_error4(t.left, a, ICMP(type=3, code=code), packet)
    with t.counted("ip4-route-drop"):
        t.left.send(into(a) / udp4(a.host, "172.16.3.1"))


def test_connected_and_local_routes_come_and_go_with_addresses(three):
    t = three
    a = t.ports["left"]
    t.ctl("set interface ip address north 192.0.2.1/24")
    t.left.send(into(a) / IP(src=a.host, dst="192.0.2.1", id=1) / ICMP())
    t.left.expect(out_of(a) / IP(src="192.0.2.1", dst=a.host, id=1, ttl=64) / ICMP(type=0))
    t.left.send(into(a) / udp4(a.host, "192.0.2.9"))
    t.north.wait(lambda q: q.type == 0x0806 and q[ARP].pdst == "192.0.2.9")  # noqa: F405
    t.ctl("set interface ip address del north 192.0.2.1/24")
    packet = udp4(a.host, "192.0.2.9")
    t.left.drain()
    t.left.send(into(a) / packet)
    t.left.wait(lambda q: ICMP in q and q[ICMP].type == 3 and q[ICMP].code == 0)
    with pytest.raises(CtlError):
        t.ctl("set interface ip address north 10.0.1.9/24")


def test_show_ip_fib_explains(three):
    t = three
    t.router.script("ip route add 172.16.0.0/16 via 10.0.2.2 weight 3", "ip route add 172.16.0.0/16 via 10.0.3.2")
    text = t.ctl("show ip fib 172.16.4.4")
    for word in ("172.16.0.0/16", "10.0.2.2", "10.0.3.2", "north", "south", t.ports["north"].host_mac.replace(":", "")[:4]):
        assert word in text.replace(":", "") or word in text, f"{word} is not in\n{text}"
    assert "10.0.1.1/32" in t.ctl("show ip fib") and "2001:db8:1::1/128" in t.ctl("show ip6 fib")
    t.router.json("show ip fib 172.16.4.4")


def test_route_changes_lose_no_packet(three):
    """While a route is changed to and fro, every packet arrives by one of its paths."""
    t = three
    a = t.ports["left"]
    t.ctl("ip route add 172.16.0.0/16 via 10.0.2.2")
    changes, stop = 0, threading.Event()
    failures = []

    def change():
        nonlocal changes
        while not stop.is_set():
            try:
                t.router.script(
                    "ip route add 172.16.0.0/16 via 10.0.3.2", "ip route del 172.16.0.0/16 via 10.0.2.2",
                    "ip route add 172.16.7.0/24 via 10.0.3.2", "ip route add 172.16.0.0/16 via 10.0.2.2",
                    "ip route del 172.16.0.0/16 via 10.0.3.2", "ip route del 172.16.7.0/24")
                changes += 6
            except CtlError as e:
                failures.append(e)
                return

    thread = threading.Thread(target=change)
    thread.start()
    total, got = 4000, 0
    try:
        for start in range(0, total, 50):
            t.left.send(*[into(a) / udp4(a.host, "172.16.7.7", id=i) for i in range(start, start + 50)])
            deadline = time.monotonic() + 5
            while got < start + 50 and time.monotonic() < deadline:
                for wire in (t.north, t.south):
                    while (frame := wire.recv(timeout=0)) is not None:
                        assert frame[30:34] == bytes([172, 16, 7, 7])
                        got += 1
            assert got == start + 50, f"{start + 50 - got} packets lost after {changes} changes"
    finally:
        stop.set()
        thread.join()
    assert not failures, failures[0]
    assert changes >= 30, changes


def test_ten_thousand_routes_by_script(three, tmp_path):
    """`exec FILE` and `quiver ctl < file` load routes; the counts and a look-up show them."""
    t = three
    a = t.ports["left"]
    lines = [f"ip route add 172.{16 + i // 65536}.{i // 256 % 256}.{i % 256}/32 via 10.0.{2 + i % 2}.2" for i in range(10000)]
    file = tmp_path / "routes"
    file.write_text("\n".join(lines[:5000]) + "\n")
    tmp_path.chmod(0o755)
    began = time.monotonic()
    t.ctl(f"exec {file}")
    t.router.script(*lines[5000:])
    assert time.monotonic() - began < 20
    for i in (0, 1, 4999, 5000, 9999):
        dst = f"172.16.{i // 256 % 256}.{i % 256}"
        wire = ("north", "south")[i % 2]
        t.left.send(into(a) / udp4(a.host, dst))
        t.wires[wire].expect(to(t, wire, udp4(a.host, dst, ttl=63)))


def test_a_failed_line_of_a_script_stops_it_there(three):
    t = three
    with pytest.raises(CtlError) as e:
        t.router.script("ip route add 172.16.0.0/16 via 10.0.2.2", "ip route add 172.17.0.0/16 via 10.99.0.1 nowhere",
                        "ip route add 172.18.0.0/16 via 10.0.2.2")
    assert "line 2" in str(e.value) and "nowhere" in str(e.value)
    fib = t.ctl("show ip fib")
    assert "172.16.0.0/16" in fib and "172.17.0.0/16" not in fib and "172.18.0.0/16" not in fib


def test_link_down_and_up(three):
    """Routes over a link that is down say unreachable; they work again when it is back."""
    t = three
    a = t.ports["left"]
    t.ctl("ip route add 172.16.0.0/16 via 10.0.2.2")
    t.outside.ip("link set north down")
    wait_for("the link is seen down", lambda: not t.router.interface("north")["link"])
    packet = udp4(a.host, "172.16.0.1")
    t.left.send(into(a) / packet)
    got = t.left.recv(timeout=1)
    errors = t.router.errors()
    assert got is not None or errors.get("output-link-down", 0) >= 1, errors
    t.outside.ip("link set north up")
    wait_for("the link is seen up", lambda: t.router.interface("north")["link"])
    t.north.drain()
    t.left.send(into(a) / packet)
    t.north.expect(to(t, "north", udp4(a.host, "172.16.0.1", ttl=63)))


def test_a_backup_takes_over_and_gives_way(three):
    """The route of the next preference leads packets while the better one's link is down; of all down, none does."""
    t = three
    a = t.ports["left"]
    t.router.script("ip route add 172.16.0.0/16 via 10.0.2.2 via 10.0.3.2 preference 5",
                    "ip route add 2001:db8:a::/48 via 2001:db8:2::2", "ip route add 2001:db8:a::/48 via 2001:db8:3::2 metric 7",
                    "ip route add 172.16.0.0/12 via 10.0.3.2")
    packets = [(udp4(a.host, "172.16.0.1"), udp4(a.host, "172.16.0.1", ttl=63)),
               (udp6(a.host6, "2001:db8:a::9"), udp6(a.host6, "2001:db8:a::9", hlim=63))]

    def goes_to(port):
        for sent, came in packets:
            t.left.send(into(a) / sent)
            t.wires[port].expect(to(t, port, came))

    def link(port, state):
        t.outside.ip(f"link set {port} {state}")
        wait_for(f"{port} is seen {state}", lambda: t.router.interface(port)["link"] == (state == "up"))

    goes_to("north")
    why = t.router.json("fib why 172.16.0.1")
    assert [(r["preference"], r["metric"], r["used"]) for r in why["routes"]] == [(1, 0, True), (5, 0, False)]
    link("north", "down")
    goes_to("south")
    why = t.router.json("fib why 172.16.0.1")
    assert [(r["preference"], r["used"]) for r in why["routes"]] == [(5, True), (1, False)]
    assert why["changed"]["exact"] and "preference" in t.ctl("show configuration")
    link("north", "up")
    t.north.drain()
    goes_to("north")
    link("north", "down")
    link("south", "down")
    t.left.drain()
    t.left.send(into(a) / packets[0][0])
    expect_error4(t.left, a, ICMP(type=3, code=1), packets[0][0])
    link("south", "up")
    t.south.drain()
    goes_to("south")
    link("north", "up")
    # Without its better route the backup stays; without it the shorter prefix serves.
    t.ctl("ip route del 172.16.0.0/16 via 10.0.2.2")
    t.left.send(into(a) / packets[0][0])
    t.south.expect(to(t, "south", packets[0][1]))
    with pytest.raises(CtlError) as e:
        t.ctl("ip route del 172.16.0.0/16 preference 6")
    assert "no static route 172.16.0.0/16" in str(e.value)
    t.ctl("ip route del 172.16.0.0/16")
    assert t.router.json("fib why 172.16.0.1")["prefix"] == "172.16.0.0/12"


def test_the_preference_of_a_source_is_set(bench):
    """A route of the operator's and one of Linux's: what is set for their sources chooses, at once and without a loss."""
    netns = Netns("lcp")
    try:
        lcp = {"default-netns": netns.name, "lcp-sync": True}
        t = bench({"linux-cp": lcp, "interfaces": {"south": {"lcp": "e2"}}}, ports=("left", "north", "south"))
        a = t.ports["left"]
        wait_for("Linux has the address", lambda: "10.0.3.1" in netns.ip("addr show dev e2").stdout)
        netns.ip("route add 172.16.0.0/16 via 10.0.3.2 dev e2 proto bird")
        t.ctl("ip route add 172.16.0.0/16 via 10.0.2.2 north")
        routes = lambda: t.router.json("fib why 172.16.0.1")["routes"]
        wait_for("both are there", lambda: len(routes()) == 2)
        bird = f"kernel:bird@{netns.name}"
        sent = 0

        def goes_to(port):
            nonlocal sent
            for _ in range(8):
                sent += 1
                t.left.send(into(a) / udp4(a.host, "172.16.0.1", sport=sent))
                t.wires[port].expect(to(t, port, udp4(a.host, "172.16.0.1", sport=sent, ttl=63)))

        goes_to("north")
        goes = {"north": 0, "south": 0}
        for line, port, first in [
            ("set route-preference static 50", "south", (bird, 10)), ("set route-preference kernel 60", "north", ("static", 50)),
            ("set route-preference kernel:bird 40", "south", (bird, 40)), (f"set route-preference {bird} 51", "north", ("static", 50)),
            ("set route-preference static default", "north", ("static", 1)), (f"set route-preference {bird} 1", "north", ("static", 1)),
            ("set route-preference static 2", "south", (bird, 1)),
        ]:
            t.ctl(line)
            goes_to(port)
            goes[port] += 1
            why = routes()
            assert (why[0]["source"], why[0]["preference"]) == first and why[0]["used"], (line, why)
            assert f"> {first[0]} [{first[1]}/0]" in t.ctl("fib why 172.16.0.1") and f"{first[0]} [{first[1]}/0]" in t.ctl("show ip fib 172.16.0.0/16")
        assert goes["north"] and goes["south"]
        shown = {r["source"]: (r["preference"], r["set"]) for r in t.router.json("show route-preference")}
        assert shown == {"connected": (0, None), "static": (1, 2), bird: (10, 1), "kernel": (None, 60), "kernel:bird": (None, 40)}
        assert f'"{bird}": 1' in t.ctl("show configuration")
        # While it is changed again and again nothing is lost.
        stop = threading.Event()

        def turn():
            while not stop.is_set():
                for n in (1, 50):
                    t.ctl(f"set route-preference static {n}")
        t.ctl(f"set route-preference {bird} 20")
        turning = threading.Thread(target=turn)
        turning.start()
        got = set()
        try:
            for start in range(10_000, 30_000, 50):
                t.left.send(*[into(a) / udp4(a.host, "172.16.0.1", sport=n) for n in range(start, start + 50)])

                def all_came(need=start + 50 - 10_000):
                    for wire in (t.north, t.south):
                        while frame := wire.recv(timeout=0.001):
                            p = Ether(frame)
                            if IP in p and p[IP].dst == "172.16.0.1" and p.sport >= 10_000:
                                got.add(p.sport)
                    return len(got) == need
                wait_for("all came", all_came)
        finally:
            stop.set()
            turning.join()
        for line, why in [("set route-preference interface 5", "are called connected"), ("set route-preference static 0", "is 1..254")]:
            with pytest.raises(CtlError, match=why):
                t.ctl(line)
    finally:
        netns.delete()


def test_what_leads_nowhere_is_withdrawn(three):
    """With 'when-down withdraw' shorter prefixes serve for routes and connected prefixes of a dead link; without, nobody."""
    t = three
    a = t.ports["left"]
    t.router.script("ip route add 172.16.0.0/16 via 10.0.2.2 north", "ip route add 0.0.0.0/0 via 10.0.3.2",
                    "ip route add 2001:db8:a::/48 via 2001:db8:2::2 north", "ip route add ::/0 via 2001:db8:3::2")
    packets = [(udp4(a.host, dst), udp4(a.host, dst, ttl=63)) for dst in ["172.16.0.1", "10.0.2.77"]]
    packets += [(udp6(a.host6, dst), udp6(a.host6, dst, hlim=63)) for dst in ["2001:db8:a::9", "2001:db8:2::77"]]

    def link(state):
        t.outside.ip(f"link set north {state}")
        wait_for(f"north is seen {state}", lambda: t.router.interface("north")["link"] == (state == "up"))

    def all_go_south():
        for sent, came in packets:
            t.left.send(into(a) / sent)
            t.south.expect(to(t, "south", came))

    link("down")
    t.left.send(into(a) / packets[0][0])
    expect_error4(t.left, a, ICMP(type=3, code=1), packets[0][0])
    t.router.script("set ip table 0 when-down withdraw", "set ip6 table 0 when-down withdraw")
    assert "when-down: withdraw" in t.ctl("show configuration")
    all_go_south()
    why = t.router.json("fib why 172.16.0.1")
    assert why["prefix"] == "0.0.0.0/0" and [w["prefix"] for w in why["withdrawn"]] == ["172.16.0.0/16"]
    assert "172.16.0.0/16 is withdrawn, as none of its routes leads anywhere" in t.ctl("fib why 172.16.0.1")
    shown = [line for line in t.ctl("show ip fib").splitlines() if line.endswith("(withdrawn)")]
    assert [line.split()[0] for line in shown] == ["10.0.2.0/24", "172.16.0.0/16"], shown
    assert "172.16.0.0/16 via 10.0.2.2 north" in t.ctl("show configuration")
    # The router still answers at its own address there.
    t.left.drain()
    t.left.send(into(a) / IP(src=a.host, dst="10.0.2.1") / ICMP())
    t.left.wait(lambda p: ICMP in p and p[ICMP].type == 0 and p[IP].src == "10.0.2.1")
    link("up")
    t.north.drain()
    t.left.send(into(a) / packets[0][0])
    t.north.expect(to(t, "north", packets[0][1]))
    assert t.router.json("fib why 172.16.0.1")["withdrawn"] == []
    # A link that goes while the table is told so.
    link("down")
    t.south.drain()
    all_go_south()
    t.router.script("set ip table 0 when-down unreachable", "set ip6 table 0 when-down unreachable")
    t.left.drain()
    t.left.send(into(a) / packets[0][0])
    expect_error4(t.left, a, ICMP(type=3, code=1), packets[0][0])
    assert "when-down" not in t.ctl("show configuration")
    link("up")
