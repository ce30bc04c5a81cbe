"""EVPN with VXLAN: FRR's BGP on two Quivers and a Linux VTEP, hosts in one network, and between two.

    a1 -- lan10 [one: 192.168.0.1] wan --+
                 br10 and br20 with      |
                 their gateways          +-- wire -- [linux: 192.168.0.3: br10, vxlan10] -- a3
    a2 -- lan10 [two: 192.168.0.2] wan --+
    b2 -- lan20
    VNI 10: 10.10.0.0/24, a1 to a3; VNI 20: 10.20.0.0/24, b2
"""

import json

import pytest
from frr import Frr
from harness import veth, wait_for
from tools import hears

BGP = """router bgp 65000
 bgp router-id {own}
 no bgp default ipv4-unicast
{neighbors}
 address-family l2vpn evpn
{active}
  advertise-all-vni
  advertise-svi-ip
 exit-address-family
"""
ENDS = {1: "192.168.0.1", 2: "192.168.0.2", 3: "192.168.0.3"}


def speak(netns, number):
    """zebra and bgpd of one end, in a namespace."""
    others = [address for n, address in ENDS.items() if n != number]
    return Frr(netns).start(bgpd=BGP.format(
        own=ENDS[number],
        neighbors="\n".join(f" neighbor {o} remote-as 65000\n neighbor {o} timers 3 9\n neighbor {o} timers connect 1" for o in others),
        active="\n".join(f"  neighbor {o} activate" for o in others)))


def network(netns, number, vni, *ports, gateway=None):
    """A bridge for a VNI, with its VXLAN device and ports, as an operator makes it."""
    for line in (f"link add br{vni} type bridge",
                 f"link add vxlan{vni} type vxlan id {vni} local {ENDS[number]} dstport 4789 nolearning",
                 f"link set vxlan{vni} master br{vni} up", *(f"link set {p} master br{vni} up" for p in ports), f"link set br{vni} up"):
        netns.ip(line)
    if gateway:
        netns.ip(f"address add {gateway} dev br{vni}")


def mac(host):
    return json.loads(host.ip("-j link show dev eth0").stdout)[0]["address"]


@pytest.fixture
def evpn(lab):
    """The topology."""
    class Evpn:
        pass
    e = Evpn()
    wire = lab.namespace("wire")
    wire.ip("link add br0 type bridge mcast_snooping 0")
    wire.ip("link set br0 up")
    e.linux, e.cp, e.routers = lab.namespace("linux"), {}, {}
    gateway = ["10.10.0.254"]
    e.a1, e.a2, e.a3 = (lab.host(f"a{n}", [f"10.10.0.{n}/24"], gateway) for n in (1, 2, 3))
    e.b2 = lab.host("b2", ["10.20.0.2/24"], ["10.20.0.254"])
    e.moved = lab.host("moved", [])
    for n, hosts in ((1, {"lan10": e.a1}), (2, {"lan10": e.a2, "lan20": e.b2, "spare": e.moved})):
        ports, cp = lab.namespace(f"r{n}"), lab.namespace(f"cp{n}")
        veth(ports, "wan", wire, f"w{n}", mtu=1600)
        for device, host in hosts.items():
            lab.cable(ports, device, host)
        e.cp[n] = cp
        e.routers[n] = lab.router(ports, {
            "interfaces": {"wan": {"lcp": "e0", "mtu": 1600}, **{device: {"lcp": f"e-{device}"} for device in hosts}},
            "linux-cp": {"default-netns": cp.name}, "quiver": {"dad": "off"}})
        cp.ip("link set lo up")
        cp.ip(f"address add {ENDS[n]}/24 dev e0")
        cp.ip("link set e0 up")
    veth(e.linux, "eth0", wire, "w3", mtu=1600)
    lab.cable(e.linux, "h3", e.a3)
    e.linux.ip("link set lo up")
    e.linux.ip(f"address add {ENDS[3]}/24 dev eth0")
    e.linux.ip("link set eth0 up")
    for n in ENDS:
        wire.ip(f"link set w{n} master br0 up")
    network(e.cp[1], 1, 10, "e-lan10", gateway="10.10.0.254/24")
    network(e.cp[1], 1, 20, gateway="10.20.0.254/24")
    network(e.cp[2], 2, 10, "e-lan10", "e-spare")
    network(e.cp[2], 2, 20, "e-lan20")
    network(e.linux, 3, 10, "h3")
    e.frr = {n: speak(netns, n) for n, netns in ((1, e.cp[1]), (2, e.cp[2]), (3, e.linux))}
    yield e
    for f in e.frr.values():
        f.close()


def known(frr, vni):
    """What zebra knows of addresses: local or remote, and the end."""
    told = frr.json("zebra", f"show evpn mac vni {vni}") or {}
    return {m: (of["type"], of.get("remoteVtep")) for m, of in told.get("macs", {}).items()}


def test_evpn(evpn):
    e = evpn
    for host, others in ((e.a1, ("10.10.0.2", "10.10.0.3")), (e.a3, ("10.10.0.2",))):
        for other in others:
            wait_for(f"{other} answers", lambda h=host, o=other: hears(h, o), timeout=60)
    # Each end announces its own, and knows where the others' are.
    where = {mac(e.a1): 1, mac(e.a2): 2, mac(e.a3): 3}
    for n, frr in e.frr.items():
        want = {m: ("local", None) if at == n else ("remote", ENDS[at]) for m, at in where.items()}
        wait_for(f"end {n} knows them", lambda f=frr, w=want: w.items() <= known(f, 10).items(), timeout=30)
    # The router has what its daemon says.
    for n, router in e.routers.items():
        def ends(r=router):
            shown = r.json("show lcp bridges")
            assert shown["refused"] == []
            [ten] = [b for b in shown["bridges"] if b["name"] == "br10"]
            return {x["end"]: x["tunnel"] for d in ten["vxlan"] for x in d["ends"] if x["flood"]}
        wait_for("all ends are there", lambda n=n, ends=ends: set(ends()) == set(ENDS.values()) - {ENDS[n]})
        at = {x["mac"]: x["interface"] for x in router.json("show l2fib verbose")["entries"]}
        for m, end in where.items():
            assert end == n or at[m] == ends()[ENDS[end]], (n, m, at)
    # Frames of the full size, and each once.
    for host, other in ((e.a1, "10.10.0.3"), (e.a3, "10.10.0.2"), (e.a2, "10.10.0.1")):
        out = host.run(f"ping -c 5 -i 0.05 -s 1472 -M do {other}").stdout
        assert " 5 received" in out and "duplicates" not in out, out
    # Between two networks: by the gateway at the first router.
    wait_for("b2 answers a1", lambda: hears(e.a1, "10.20.0.2"), timeout=30)
    wait_for("and a3", lambda: hears(e.a3, "10.20.0.2"), timeout=30)
    wait_for("and the other way", lambda: hears(e.b2, "10.10.0.2"), timeout=30)
    # a1 moves behind the second router: what it says of itself is heard, announced with a higher number, and believed by all.
    moved, own = e.moved, mac(e.a1)
    e.a1.ip("link set eth0 down")
    for line in ("link set eth0 down", f"link set eth0 address {own}", "link set eth0 up", "address add 10.10.0.1/24 dev eth0"):
        moved.ip(line)
    wait_for("it is heard where it is", lambda: hears(moved, "10.10.0.3"), timeout=30)
    wait_for("the first router knows", lambda: known(e.frr[1], 10).get(own) == ("remote", ENDS[2]), timeout=30)
    wait_for("and the Linux end", lambda: known(e.frr[3], 10).get(own) == ("remote", ENDS[2]), timeout=30)
    assert known(e.frr[2], 10)[own][0] == "local"
    assert hears(e.a3, "10.10.0.1")
    # A daemon dies: what it announced goes at the others, and comes again with it.
    e.frr[3].stop()
    wait_for("its addresses are gone", lambda: mac(e.a3) not in known(e.frr[1], 10), timeout=40)
    wait_for("and here", lambda: all(x["end"] != ENDS[3] for b in e.routers[1].json("show lcp bridges")["bridges"] for d in b["vxlan"] for x in d["ends"]))
    e.frr[3] = speak(e.linux, 3)
    wait_for("it is there again", lambda: hears(e.a2, "10.10.0.3"), timeout=60)
    # A router is killed beside its daemon, and starts anew: nothing that stays is withdrawn.
    for r in e.routers.values():
        assert "panic" not in r.log()


ROUTED = """router bgp 65000
 bgp router-id {own}
 no bgp default ipv4-unicast
 neighbor {other} remote-as 65000
 neighbor {other} timers 3 9
 neighbor {other} timers connect 1
 address-family ipv4 unicast
  network 10.6{n}.0.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:6{n}::/64
 exit-address-family
 address-family l2vpn evpn
  neighbor {other} activate
  advertise-all-vni
  advertise ipv4 unicast
  advertise ipv6 unicast
 exit-address-family
"""


def test_networks_of_one_end_alone(lab):
    """Symmetric IRB (RFC 9135, RFC 9136): what is behind one end alone is reached over a VNI between the routers, by type 5 and the other router's MAC address.

        a -- lan [one: Quiver, 192.168.0.1] wan -- [three: Linux, 192.168.0.3] h3 -- b         VNI 61 is a's network, 63 b's, 100 between the routers
    """
    ports, cp, linux = lab.namespace("r"), lab.namespace("cp"), lab.namespace("linux")
    net = lambda n, last: (f"10.6{n}.0.{last}/24", f"2001:db8:6{n}::{last}/64")
    bare = lambda addresses: [a.split("/")[0] for a in addresses]
    a, b = (lab.host(name, net(n, 2), bare(net(n, 1))) for name, n in (("a", 1), ("b", 3)))
    veth(ports, "wan", linux, "eth0", mtu=1600)
    lab.cable(ports, "lan", a)
    lab.cable(linux, "h3", b)
    router = lab.router(ports, {"interfaces": {"wan": {"lcp": "e0", "mtu": 1600}, "lan": {"lcp": "e1"}},
                                "linux-cp": {"default-netns": cp.name}, "quiver": {"dad": "off"}})
    for netns, number, port, wan in ((cp, 1, "e1", "e0"), (linux, 3, "h3", "eth0")):
        netns.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0")
        netns.ip("link set lo up")
        netns.ip(f"address add {ENDS[number]}/24 dev {wan}")
        netns.ip(f"link set {wan} up")
        network(netns, number, 60 + number, port)
        network(netns, number, 100)
        for address in net(number, 1):
            netns.ip(f"address add {address} dev br{60 + number} {'nodad' if ':' in address else ''}")
    # By these its BVI takes packets.
    for address in ("192.0.2.1/24", "2001:db8:ff::1/64"):
        cp.ip(f"address add {address} dev br100 {'nodad' if ':' in address else ''}")
    frr = {}
    try:
        for netns, number, other in ((cp, 1, 3), (linux, 3, 1)):
            frr[number] = Frr(netns).start(zebra="vni 100\n", bgpd=ROUTED.format(n=number, own=ENDS[number], other=ENDS[other]))
        for host, to in ((a, net(3, 2)), (b, net(1, 2))):
            for address in bare(to):
                wait_for(f"{address} answers", lambda h=host, o=address: hears(h, o), timeout=60)
        # By the other router, whose MAC address its neighbor is.
        for address in bare(net(3, 2)):
            why = router.ctl(f"fib why {address}")
            assert f"kernel:bgp@{cp.name}" in why and ENDS[3] in why and "loop" in why, why
        assert router.json("fib diff kernel") == []
        shown = router.json("show lcp bridges")
        [between] = [x for x in shown["bridges"] if x["name"] == "br100"]
        assert shown["refused"] == [] and [x["end"] for d in between["vxlan"] for x in d["ends"]] == [ENDS[3]], shown
        # Each router takes one from the TTL, and frames are of the full size.
        out = a.run(f"ping -c 3 -i 0.05 -s 1472 -M do {bare(net(3, 2))[0]}").stdout
        assert " 3 received" in out and "ttl=62" in out, out
        # The host itself is announced as well (type 2), and stays when its network goes.
        leads = lambda address: "kernel:bgp" in router.ctl(f"fib why {address}")
        wait_for("there is a route to the host", lambda: "10.63.0.2/32 decides" in router.ctl("fib why 10.63.0.2"), timeout=30)
        assert leads("10.63.0.9")
        frr[3].configure("bgpd", "router bgp 65000", "address-family ipv4 unicast", "no network 10.63.0.0/24")
        wait_for("the network is withdrawn", lambda: not leads("10.63.0.9"), timeout=30)
        assert hears(a, "10.63.0.2")
        # The daemon dies, and all that it announced goes; it comes again.
        frr[3].stop()
        wait_for("nothing leads there", lambda: not any(map(leads, bare(net(3, 2)))), timeout=30)
        assert [d["ends"] for x in router.json("show lcp bridges")["bridges"] if x["name"] == "br100" for d in x["vxlan"]] == [[]]
        assert not hears(a, "10.63.0.2")
        frr[3].start(zebra="vni 100\n", bgpd=ROUTED.format(n=3, own=ENDS[3], other=ENDS[1]))
        wait_for("they reach each other again", lambda: hears(a, "10.63.0.2") and hears(a, "2001:db8:63::2"), timeout=60)
        assert router.json("fib diff kernel") == []
    finally:
        for f in frr.values():
            f.close()
    assert "panic" not in router.log()
