"""What Linux hosts make of the router's layer 3 features: they configure themselves from its advertisements, find hosts that it
answers for, live behind an unnumbered interface, and get segments of the clamped size."""

import re

from harness import wait_for
from tools import capture, iperf, iperf_server, tcp


def autoconfigured(lab, name, device, inside):
    """A host that has nothing but its link, and takes what routers say."""
    host = lab.host(name, [])
    for key in ("default", "all"):
        host.run(f"sysctl -qw net.ipv6.conf.{key}.accept_ra=2 net.ipv6.conf.{key}.autoconf=1 net.ipv6.conf.{key}.disable_ipv6=0")
    host.run("sysctl -qw net.ipv6.conf.default.accept_ra_rt_info_max_plen=64 net.ipv6.conf.default.router_solicitations=3")
    lab.cable(inside, device, host)
    return host


def addresses(host):
    text = host.ip("-6 address show dev eth0 scope global").stdout
    return re.findall(r"inet6 ([0-9a-f:]+)/64 .*dynamic", text)


def test_hosts_configure_themselves(lab):
    """Two hosts on two links make addresses from the advertised prefixes, take the router as their default, and reach each
    other; MTU, hop limit, timers and a route with its preference arrive; when the router ends they drop it."""
    inside = lab.namespace("r")
    a = autoconfigured(lab, "a", "left", inside)
    b = autoconfigured(lab, "b", "right", inside)
    r = lab.router(inside, {
        "interfaces": {"left": {"addresses": ["2001:db8:1::1/64"]}, "right": {"addresses": ["2001:db8:2::1/64"]}},
        "l3": {"interfaces": {
            "left": {"router-advertisements": {
                "interval": {"min": 3, "max": 4}, "mtu": 1400, "hop-limit": 33, "reachable-ms": 20000, "retransmit-ms": 1500,
                "preference": "high", "routes": {"2001:db8:9::/48": {"lifetime": 900, "preference": "low"}},
                "prefixes": {"2001:db8:aa::/64": {"valid": 3000, "preferred": 2000}}}},
            "right": {"router-advertisements": True}}}})
    wait_for("a has addresses", lambda: len(addresses(a)) == 2, timeout=30)
    wait_for("b has an address", lambda: len(addresses(b)) == 1, timeout=30)
    own = {x.rsplit("::", 1)[0] if "::" in x else ":".join(x.split(":")[:4]) for x in addresses(a)}
    assert {x.rstrip(":") for x in own} == {"2001:db8:1:0", "2001:db8:aa:0"} or all(
        x.startswith(("2001:db8:1:", "2001:db8:aa:")) for x in addresses(a)), addresses(a)
    routes = a.ip("-6 route show").stdout
    assert re.search(r"default via fe80::\S+ dev eth0 proto ra .*mtu 1400 .*pref high", routes), routes
    assert re.search(r"2001:db8:9::/48 via fe80::\S+ .*pref low", routes) or "RTR_PREF" not in routes, routes
    assert a.run("sysctl -n net.ipv6.conf.eth0.hop_limit").stdout.strip() == "33"
    assert "1500" in a.run("sysctl -n net.ipv6.neigh.eth0.retrans_time_ms").stdout
    to = next(x for x in addresses(b))
    wait_for("detection is over", lambda: "tentative" not in a.ip("-6 address show").stdout + b.ip("-6 address show").stdout, timeout=20)
    a.ping(to, count=10)
    a.ping("2001:db8:2::1", count=3)
    r.stop()
    lab.routers.remove(r)
    wait_for("the default route is gone", lambda: "default" not in a.ip("-6 route show").stdout, timeout=10)


def test_hosts_on_a_bridge_configure_themselves(lab):
    """Two hosts on one bridge domain take what its BVI says, and reach each other and a host beyond the router."""
    inside = lab.namespace("r")
    a = autoconfigured(lab, "a", "left", inside)
    b = autoconfigured(lab, "b", "right", inside)
    far = lab.cable(inside, "far", lab.host("far", ["2001:db8:9::2/64"], ["2001:db8:9::1"]))
    lab.router(inside, {
        "interfaces": {"left": {}, "right": {}, "far": {"addresses": ["2001:db8:9::1/64"]}},
        "loopbacks": {"loop0": {"addresses": ["2001:db8:1::1/64"]}},
        "bridgedomains": {"bd1": {"bvi": "loop0", "interfaces": ["left", "right"]}},
        "l3": {"interfaces": {"loop0": {"router-advertisements": True}}}})
    for host in (a, b):
        wait_for("it has an address", lambda: addresses(host), timeout=30)
        wait_for("detection is over", lambda: "tentative" not in host.ip("-6 address show").stdout, timeout=20)
        assert "default via fe80::" in host.ip("-6 route show").stdout
    a.ping(addresses(b)[0], count=3)
    a.ping("2001:db8:9::2", count=3)
    far.ping(addresses(b)[0], count=3)


def test_a_late_host_solicits(lab):
    """Advertisements come minutes apart; a host whose link comes up has its address within seconds all the same."""
    inside = lab.namespace("r")
    a = autoconfigured(lab, "a", "left", inside)
    r = lab.router(inside, {"interfaces": {"left": {"addresses": ["2001:db8:1::1/64"]}},
                            "l3": {"interfaces": {"left": {"router-advertisements": {"initial": {"count": 0}}}}}})
    wait_for("it has an address", lambda: addresses(a), timeout=30)
    a.ip("link set eth0 down")
    assert not addresses(a)
    before = r.json("show ip6 ra")[0]["solicited"]
    a.ip("link set eth0 up")
    wait_for("it has one again", lambda: addresses(a), timeout=20)
    # The router, which sees the link come up, may have been faster.
    sent = r.json("show ip6 ra")[0]
    assert sent["solicited"] > before or sent["sent"] > 1, sent
    a.ping("2001:db8:1::1", count=3)


def test_a_prefix_on_two_links(lab):
    """Proxy ARP and neighbour proxies: host a believes that host b is on its own link; it is behind another."""
    inside = lab.namespace("r")
    a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"]))
    b = lab.cable(inside, "right", lab.host("b", ["10.0.1.130/24", "2001:db8:1::82/64"]))
    lab.router(inside, {
        "interfaces": {"left": {"addresses": ["10.0.1.1/25", "2001:db8:1::1/64"]},
                       "right": {"addresses": ["10.0.1.129/25", "2001:db8:ffff::1/64"]}},
        "l3": {"interfaces": {"left": {"proxy-arp": True}, "right": {"proxy-arp": True}},
               "proxy-arp": ["10.0.1.2 - 10.0.1.126", "10.0.1.130 - 10.0.1.254"],
               "nd-proxy": [{"interface": "right", "address": "2001:db8:1::82"}]}})
    # The far host knows that its answers need the router.
    b.ip("-6 route add 2001:db8:1::2/128 via fe80::1 dev eth0", check=False)
    router = re.search(r"link/ether (\S+)", inside.ip("link show right").stdout).group(1)
    parts = router.split(":")
    local = f"fe80::{int(parts[0], 16) ^ 2:02x}{parts[1]}:{parts[2]}ff:fe{parts[3]}:{parts[4]}{parts[5]}"
    b.ip(f"-6 route replace 2001:db8:1::2/128 via {local} dev eth0")
    a.ping("10.0.1.130", count=5)
    a.ping("2001:db8:1::82", count=5)
    assert re.search(r"2001:db8:1::82 .*lladdr", a.ip("-6 neigh show").stdout)


def test_hosts_behind_unnumbered_interfaces(lab):
    """Each host has a /32 and the router's loopback address as its gateway; they reach each other and the router."""
    inside = lab.namespace("r")
    hosts = []
    for name, device, ip, ip6 in (("a", "left", "192.0.2.11", "2001:db8:cafe::11"), ("b", "right", "192.0.2.12", "2001:db8:cafe::12")):
        h = lab.cable(inside, device, lab.host(name, [f"{ip}/32", f"{ip6}/128"]))
        h.ip("route add 192.0.2.1/32 dev eth0")
        h.ip("route add default via 192.0.2.1 dev eth0")
        h.ip("-6 route add 2001:db8:cafe::1/128 dev eth0")
        h.ip("-6 route add default via 2001:db8:cafe::1 dev eth0")
        hosts.append(h)
    lab.router(inside, {
        "loopbacks": {"loop0": {"addresses": ["192.0.2.1/32", "2001:db8:cafe::1/128"]}},
        "interfaces": {"left": {"unnumbered": "loop0"}, "right": {"unnumbered": "loop0"}},
        "routes": [{"prefix": p, "via": {"interface": i}} for p, i in (
            ("192.0.2.11/32", "left"), ("192.0.2.12/32", "right"), ("2001:db8:cafe::11/128", "left"), ("2001:db8:cafe::12/128", "right"))]})
    a, b = hosts
    for to in ("192.0.2.1", "192.0.2.12", "2001:db8:cafe::1", "2001:db8:cafe::12"):
        a.ping(to, count=5)
    b.ping("192.0.2.11", count=5)
    with iperf_server(b):
        tcp(a, "192.0.2.12", seconds=1)


def test_segments_are_as_large_as_the_clamp_says(two_hosts):
    """Hosts with an MTU of 1500 that do not know of a narrower way: their TCP segments are of the clamped size, both ways."""
    a, b, r = two_hosts.a, two_hosts.b, two_hosts.r
    r.ctl("set interface tcp-mss-clamp right ip4 enable ip4-mss 1000 ip6 enable ip6-mss 980")
    for to, size in (("10.0.2.2", 1000), ("2001:db8:2::2", 980)):
        with iperf_server(b), capture(b, "eth0", "tcp and port 5201 and src host " + ("10.0.1.2" if size == 1000 else "2001:db8:1::2")) as file:
            assert iperf(a, to, "-n", "2M")["sum_sent"]["bytes"] >= 2e6
        text = b.run(["tcpdump", "-nn", "-r", file, "-v"], check=False).stdout
        lengths = [int(n) for n in re.findall(r"length (\d+)$", text, re.M)]
        assert lengths and max(lengths) <= size, max(lengths)
        assert f"mss {size}" in text
    assert r.errors().get("tcp-mss-clamped", 0) >= 4


def test_linux_joins_are_like_ours(two_hosts):
    """The kernel's own tools read our reports: tcpdump finds them valid."""
    a, r = two_hosts.a, two_hosts.r
    with capture(a, "eth0", "igmp or ip6 proto 0") as file:
        r.ctl("set interface ip group join left 239.9.9.9")
        r.ctl("set interface ip group join left ff05::99")
        wait_for("they are joined", lambda: "ff05::99" in r.ctl("show ip groups left"))
        a.ping("10.0.1.1", count=3)
    text = a.run(["tcpdump", "-nn", "-vv", "-r", file], check=False).stdout
    assert re.search(r"igmp v3 report, 1 group record\(s\) \[gaddr 239.9.9.9 to_ex", text), text
    assert re.search(r"multicast listener report v2, 1 group record\(s\) \[gaddr ff05::99 to_ex", text), text
    assert "bad" not in text.lower(), text
