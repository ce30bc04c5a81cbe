"""Two customers with the same addresses, on two routers in a row: their traffic never meets."""

from harness import veth
from tools import hops, iperf_server, tcp


def test_two_customers_with_the_same_addresses(lab):
    """Red goes over a VLAN with IPv4 addresses, blue over one that has IPv6 addresses only (RFC 8950).

        red  A 10.0.1.2 --- red  [one] trunk.10 === trunk.10 [two] red  --- B 10.0.2.2, also 10.0.99.1
        blue A 10.0.1.2 --- blue [one] trunk.20 === trunk.20 [two] blue --- B 10.0.2.2, also 10.0.99.2
    """
    one, two = lab.namespace("r1"), lab.namespace("r2")
    ends = {}
    for n, color in enumerate(("red", "blue"), 1):
        a = lab.cable(one, color, lab.host(f"a{n}", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
        b = lab.cable(two, color, lab.host(f"b{n}", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
        b.ip(f"address add 10.0.99.{n}/32 dev lo")
        ends[color] = (a, b)
    veth(one, "trunk", two, "trunk", mac_a="02:00:00:00:12:01", mac_b="02:00:00:00:12:02")

    def config(site, other, routes):
        own = [f"10.0.{site}.1/24", f"2001:db8:{site}::1/64"]
        return {
            "tables": {10: {"name": "red"}, 20: {"name": "blue"}},
            "interfaces": {
                "red": {"addresses": own}, "blue": {"addresses": own},
                "trunk": {"sub-interfaces": {
                    10: {"addresses": [f"192.0.2.{site}/30", f"2001:db8:12::{site}/64"]},
                    20: {"addresses": [f"2001:db8:12::{site}/64"]},
                }},
            },
            "l3": {"interfaces": {"red": {"table": 10}, "blue": {"table": 20}, "trunk.10": {"table": 10},
                                  "trunk.20": {"table": 20}}},
            "routes": [
                f"10.0.{other}.0/24 table 10 via 192.0.2.{other}", f"10.0.{other}.0/24 table 20 via 2001:db8:12::{other}",
                f"2001:db8:{other}::/64 table 10 via 2001:db8:12::{other}",
                f"2001:db8:{other}::/64 table 20 via 2001:db8:12::{other}",
            ] + routes,
        }

    # Recursive: 10.0.99.0/24 is wherever 10.0.2.2 is.
    r1 = lab.router(one, config(1, 2, ["10.0.99.0/24 table 10 via 10.0.2.2", "10.0.99.0/24 table 20 via 10.0.2.2"]))
    lab.router(two, config(2, 1, ["10.0.99.1/32 table 10 via 10.0.2.2", "10.0.99.2/32 table 20 via 10.0.2.2"]))
    for n, color in enumerate(("red", "blue"), 1):
        a, b = ends[color]
        a.ping("10.0.2.2")
        a.ping("2001:db8:2::2")
        a.ping(f"10.0.99.{n}")
        done = a.run(f"ping -n -c 1 -W 2 10.0.99.{3 - n}", check=False)
        assert done.returncode != 0 and "0 received" in done.stdout, f"{color} reaches the other customer: {done.stdout}"
        assert hops(a, "10.0.2.2")[0] == "10.0.1.1" and hops(a, "10.0.2.2")[-1] == "10.0.2.2"
        with iperf_server(b):
            for to in ("10.0.2.2", "2001:db8:2::2"):
                tcp(a, to, seconds=1)
    assert hops(ends["red"][0], "10.0.2.2") == ["10.0.1.1", "192.0.2.2", "10.0.2.2"]
    assert "2001:db8:12::2" in r1.ctl("show ip fib table 20 10.0.2.2")
    assert "1 received" in r1.ctl("ping 10.0.2.2 table 20 repeat 1")
