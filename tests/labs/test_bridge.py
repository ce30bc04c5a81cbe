"""Linux hosts on one bridge domain: access ports and a trunk, routed through its BVI."""

import pytest
from harness import veth, wait_for
from tools import hops, iperf_server, tcp


def test_hosts_on_a_bridge_and_behind_it(lab):
    """A and B stand on access ports, C behind a tagged trunk to a switch, which is a Quiver too; D is routed.

        A --- one  [router, bd10: one, two, trunk.10, BVI loop10] right --- D
        B --- two                    trunk === trunk [switch] access --- C
    """
    inside, switch = lab.namespace("r"), lab.namespace("s")
    gateways = ["10.10.0.1", "2001:db8:10::1"]

    def station(ns, port, name, n):
        return lab.cable(ns, port, lab.host(name, [f"10.10.0.{n}/24", f"2001:db8:10::{n}/64"], gateways))

    a, b, c = station(inside, "one", "a", 11), station(inside, "two", "b", 12), station(switch, "access", "c", 13)
    d = lab.cable(inside, "right", lab.host("d", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    veth(inside, "trunk", switch, "trunk", mtu=1504)
    r = lab.router(inside, {
        "loopbacks": {"loop10": {"addresses": ["10.10.0.1/24", "2001:db8:10::1/64"]}},
        "interfaces": {"one": {}, "two": {}, "trunk": {"sub-interfaces": {10: {}}},
                       "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
        "bridgedomains": {"bd10": {"bvi": "loop10", "interfaces": ["one", "two", "trunk.10"]}}})
    # The switch tags on its own: its access port pushes what the trunk carries.
    lab.router(switch, {
        "interfaces": {"access": {}, "trunk": {}},
        "bridgedomains": {"bd1": {"interfaces": ["access", "trunk"]}},
        "l2": {"interfaces": {"access": {"tag-rewrite": "push dot1q 10"}}}})
    # Within the bridge domain.
    for x, y in ((a, 12), (a, 13), (b, 13), (c, 11)):
        x.ping(f"10.10.0.{y}", size=1472)
        x.ping(f"2001:db8:10::{y}", size=1452)
    # Through the BVI, and to it.
    for x in (a, b, c):
        x.ping("10.10.0.1")
        x.ping("2001:db8:10::1")
        x.ping("10.0.2.2")
        x.ping("2001:db8:2::2")
    d.ping("10.10.0.13")
    assert hops(d, "10.10.0.13") == ["10.0.2.1", "10.10.0.13"]
    with iperf_server(d):
        tcp(a, "10.0.2.2", seconds=1)
        tcp(c, "2001:db8:2::2", seconds=1)
    with iperf_server(c):
        tcp(a, "10.10.0.13", seconds=1)
        tcp(a, "10.10.0.13", "-R", seconds=1)
    table = {e["mac"]: e for e in r.json("show l2fib verbose")["entries"]}
    behind = {e["interface"] for e in table.values()}
    assert behind == {"one", "two", "trunk.10", "loop10"}, table


def test_a_station_moves(lab):
    """B takes A's place: what goes to A follows it to the other port, and the router counts a move."""
    inside = lab.namespace("r")
    mac = "02:00:00:00:00:aa"
    a = lab.cable(inside, "one", lab.host("a", ["10.10.0.11/24"]))
    b = lab.cable(inside, "two", lab.host("b", ["10.10.0.12/24"]))
    c = lab.cable(inside, "three", lab.host("c", ["10.10.0.13/24"]))
    r = lab.router(inside, {"interfaces": {"one": {}, "two": {}, "three": {}},
                            "bridgedomains": {"bd1": {"interfaces": ["one", "two", "three"]}}})
    a.ip(f"link set eth0 address {mac}")
    c.ping("10.10.0.11")
    a.ip("link set eth0 address 02:00:00:00:00:bb")
    a.ip("addr flush dev eth0")
    b.ip(f"link set eth0 address {mac}")
    b.ip("addr add 10.10.0.11/24 dev eth0")
    b.ping("10.10.0.13")
    c.ping("10.10.0.11")
    wait_for("the move is counted", lambda: r.json("show bridge-domain 1")[0]["moves"] >= 1)
