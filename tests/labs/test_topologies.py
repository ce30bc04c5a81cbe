"""Other places for the router: jumbo links, a narrow link in the path, VLAN trunks, TAPs, two routers in a row."""

import socket

import pytest
from harness import run, veth, wait_for
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from tools import bad_checksums, capture, hops, iperf, iperf_server, tcp


def test_jumbo_frames(lab):
    """MTU 9000 on both sides: pings and TCP with packets of 9000 bytes, which lie in several buffers."""
    inside = lab.namespace("r")
    a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]), mtu=9000)
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]), mtu=9000)
    r = lab.router(inside, {"interfaces": {
        "left": {"mtu": 9000, "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
        "right": {"mtu": 9000, "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}})
    a.ping("10.0.2.2", size=8972, extra="-M do")
    a.ping("2001:db8:2::2", size=8952, extra="-M do")
    a.ping("10.0.1.1", size=8972, extra="-M do")
    with iperf_server(b):
        for to in ("10.0.2.2", "2001:db8:2::2"):
            tcp(a, to, mtu=9000, at_least=25e6)
    assert not [e for e in r.errors() if "too-big" in e or "fragment" in e], r.errors()


def test_path_mtu_discovery(lab):
    """The far link takes 1400 bytes: Linux learns it from the router's ICMP, and TCP goes on; packets that may be
    fragmented are."""
    inside = lab.namespace("r")
    a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    lab.router(inside, {"interfaces": {
        "left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
        "right": {"mtu": 1400, "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}})
    done = a.run("ping -n -c 2 -i 0.1 -W 2 -M do -s 1472 10.0.2.2", check=False)
    assert "mtu = 1400" in done.stdout or "mtu=1400" in done.stdout, done.stdout
    assert "mtu 1400" in a.ip("route get 10.0.2.2").stdout
    done = a.run("ping -n -c 2 -i 0.1 -W 2 -M do -s 1452 2001:db8:2::2", check=False)
    assert "mtu" in done.stdout.lower() and "1400" in done.stdout, done.stdout
    assert "mtu 1400" in a.ip("-6 route get 2001:db8:2::2").stdout
    a.ip("route flush cache")
    a.ping("10.0.2.2", size=3000, extra="-M dont")
    with iperf_server(b):
        for to in ("10.0.2.2", "2001:db8:2::2"):
            tcp(a, to, mtu=1400)


@pytest.mark.parametrize("encapsulation", [
    {"dot1q": 100, "exact-match": True}, {"dot1ad": 200, "inner-dot1q": 7, "exact-match": True},
], ids=["dot1q", "QinAD"])
def test_vlan_trunk(lab, encapsulation):
    """Host A stands on an access port of a switch, which is a Quiver too; a trunk leads to the router. The super-frames
    of the hosts get tags pushed and popped on their way and are cut right.

        A --- access [switch] trunk === trunk [router] right --- B
    """
    switch, inside = lab.namespace("s"), lab.namespace("r")
    a = lab.cable(switch, "access", lab.host("a", ["10.5.0.2/24", "2001:db8:5::2/64"], ["10.5.0.1", "2001:db8:5::1"]))
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    # Room for two tags.
    veth(switch, "trunk", inside, "trunk", mtu=1508)
    lab.router(switch, {"interfaces": {
        "access": {"l2xc": "trunk.5"},
        "trunk": {"sub-interfaces": {5: {"encapsulation": encapsulation, "l2xc": "access"}}}}})
    lab.router(inside, {"interfaces": {
        "trunk": {"sub-interfaces": {5: {"encapsulation": encapsulation, "addresses": ["10.5.0.1/24", "2001:db8:5::1/64"]}}},
        "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}})
    a.ping("10.0.2.2", size=1472)
    b.ping("10.5.0.2")
    a.ping("2001:db8:2::2", size=1452)
    with iperf_server(b):
        for words in ([], ["-R"]):
            for to in ("10.0.2.2", "2001:db8:2::2"):
                tcp(a, to, *words, seconds=1)


def linux_has_vlans(ns):
    """Whether this kernel has VLAN devices."""
    made = ns.ip("link add link lo name probe type vlan id 1", check=False).returncode == 0
    if made:
        ns.ip("link del probe")
    return made


def test_vlan_devices_of_linux(lab):
    """A trunk to a Linux host, whose VLAN device carries the tag beside the frame."""
    inside = lab.namespace("r")
    if not linux_has_vlans(inside):
        pytest.skip("this kernel has no VLAN devices (module 8021q)")
    a = lab.cable(inside, "left", lab.host("a", []))
    a.ip("link add link eth0 name eth0.100 type vlan id 100")
    a.ip("link set eth0.100 up")
    a.ip("address add 10.5.0.2/24 dev eth0.100")
    a.ip("route add default via 10.5.0.1")
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24"], ["10.0.2.1"]))
    lab.router(inside, {"interfaces": {"left": {"sub-interfaces": {100: {"addresses": ["10.5.0.1/24"]}}},
                                       "right": {"addresses": ["10.0.2.1/24"]}}})
    a.ping("10.0.2.2")
    with iperf_server(b):
        for words in ([], ["-R"]):
            tcp(a, "10.0.2.2", *words, seconds=1)


def test_tap_in_a_namespace(lab):
    """A host that has no wire: its device is the Linux side of a TAP, made in its namespace with name, MAC and MTU, and
    cross-connected to a port where another host is."""
    inside = lab.namespace("r")
    a = lab.host("a", ["10.8.0.1/24"])
    b = lab.cable(inside, "port", lab.host("b", ["10.8.0.2/24"]))
    lab.router(inside, {
        "interfaces": {"port": {"l2xc": "tap0"}, "tap0": {"l2xc": "port"}},
        "taps": {"tap0": {"host": {"name": "eth0", "mac": "02:00:00:00:10:00", "namespace": a.name}, "rx-ring-size": 512}}})
    link = wait_for("the TAP is there", lambda: a.ip("-br link show eth0").stdout)
    assert "02:00:00:00:10:00" in link
    a.ip("link set eth0 up")
    a.configure()
    wait_for("carrier", lambda: "LOWER_UP" in a.ip("link show eth0").stdout)
    a.ping("10.8.0.2")
    b.ping("10.8.0.1", size=1472)
    with iperf_server(b):
        for words in ([], ["-R"]):
            tcp(a, "10.8.0.2", *words)


@pytest.mark.parametrize("way", ["document", "command"])
def test_tap_with_addresses_of_its_own(lab, way):
    """The Linux side has its addresses and default routes from the router: no `ip` by hand, and a host beyond answers."""
    inside, a = lab.namespace("r"), lab.host("a", [])
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    document = {"interfaces": {"right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}}
    if way == "document":
        document["interfaces"]["tap0"] = {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]}
        document["devices"] = {"tap0": {"routed": True}}
        document["taps"] = {"tap0": {"host": {
            "name": "eth0", "namespace": a.name, "ip4-address": "10.0.1.2/24", "ip4-gateway": "10.0.1.1",
            "ip6-address": "2001:db8:1::2/64", "ip6-gateway": "2001:db8:1::1"}}}
    r = lab.router(inside, document)
    if way == "command":
        r.script(f"create tap id 0 host-if-name eth0 host-ns {a.name} host-ip4-addr 10.0.1.2/24 host-ip4-gw 10.0.1.1"
                 " host-ip6-addr 2001:db8:1::2/64 host-ip6-gw 2001:db8:1::1",
                 "set interface ip address tap0 10.0.1.1/24", "set interface ip address tap0 2001:db8:1::1/64",
                 "set interface state tap0 up")
    for to in ("10.0.1.1", "2001:db8:1::1", "10.0.2.2", "2001:db8:2::2"):
        wait_for(f"{to} answers", lambda: a.run(f"ping -c 1 -W 1 {to}", check=False).returncode == 0)
    b.ping("10.0.1.2")
    b.ping("2001:db8:1::2")
    row = r.json("show tap tap0")[0]
    assert (row["host-ip4-addr"], row["host-ip6-gw"]) == ("10.0.1.2/24", "2001:db8:1::1")
    assert "default gateway: 10.0.1.1" in r.ctl("show tap")
    if way == "command":
        assert "ip4-gateway: 10.0.1.1" in r.ctl("show configuration")
        failed = r.ctl_raw(f"create tap id 1 host-ns {a.name} host-ip4-addr 10.0.3.2/24 host-ip4-gw 10.0.3.1")
        assert failed.returncode != 0 and "another default route" in failed.stderr + failed.stdout
        assert "tap1" not in a.ip("-br link").stdout and "10.0.1.1" in a.ip("route show default").stdout
        # Nor is one of another metric, as DHCP gives.
        for family, gateway, words in (("-4", "10.0.1.1", "host-ip4-addr 10.0.3.2/24 host-ip4-gw 10.0.3.1"),
                                       ("-6", "2001:db8:1::1", "host-ip6-addr 2001:db8:3::2/64 host-ip6-gw 2001:db8:3::1")):
            a.ip(f"{family} route del default")
            a.ip(f"{family} route add default via {gateway} dev eth0 metric 100")
            failed = r.ctl_raw(f"create tap id 1 host-ns {a.name} {words}")
            assert failed.returncode != 0 and "another default route" in failed.stderr + failed.stdout
            assert a.ip(f"{family} route show default").stdout.count("default") == 1
        # The namespace of the router itself has IPv6 switched off.
        for words, why in (("host-ip6-addr 2001:db8:3::2/64", "disable_ipv6"), ("host-ip4-gw 10.0.3.1", "needs an IPv4 address"), ("host-ip6-addr 2001:db8:3::2/64 host-mtu-size 1000", "1280"),
                           ("host-ip4-addr 10.0.3.2/24 host-bridge b0", "port of a bridge")):
            failed = r.ctl_raw(f"create tap id 1 {words}")
            assert failed.returncode != 0 and why in failed.stderr + failed.stdout
        failed = r.ctl_raw("set interface mtu packet 1000 tap0")
        assert failed.returncode != 0 and "1280" in failed.stderr + failed.stdout


def test_a_redirect_quotes_a_whole_checksum(lab):
    """Linux hands partial checksums to a TAP. Who is told of a better next hop gets the packet back as it would be on a wire."""
    inside, a = lab.namespace("r"), lab.host("a", [])
    r = lab.router(inside, {
        "interfaces": {"tap0": {"addresses": ["10.0.1.1/24"]}}, "devices": {"tap0": {"routed": True, "offload": True}},
        "taps": {"tap0": {"host": {"name": "eth0", "namespace": a.name, "ip4-address": "10.0.1.2/24", "ip4-gateway": "10.0.1.1"}}},
        "l3": {"interfaces": {"tap0": {"redirects": {"ip4": True}}}}, "routes": ["20.0.0.0/8 via 10.0.1.9"]})
    r.ctl("ip neighbor tap0 10.0.1.9 02:00:00:00:00:99 static")
    wait_for("carrier", lambda: "LOWER_UP" in a.ip("link show eth0").stdout)
    with a.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        raw.bind(("eth0", 0))
        raw.settimeout(5)
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagram.sendto(b"partial checksum", ("20.0.0.1", 4000))
    while True:
        packet = Ether(raw.recv(2048))
        if ICMP in packet and packet[ICMP].type == 5:
            break
    quote = IP(bytes(packet[ICMP].payload))
    assert (quote.dst, bytes(quote[UDP].payload)) == ("20.0.0.1", b"partial checksum")
    told = quote[UDP].chksum
    del quote[UDP].chksum
    assert told == IP(bytes(quote))[UDP].chksum


def test_a_persistent_tap_gets_its_addresses_again(lab):
    inside = lab.namespace("r")
    inside.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=0")
    r = lab.router(inside, {"taps": {"tap0": {"host": {"name": "stays", "ip4-address": "10.7.0.2/24", "ip4-gateway": "10.7.0.1",
                                                       "ip6-address": "2001:db8:7::2/64", "ip6-gateway": "2001:db8:7::1"}}},
                            "devices": {"tap0": {"persistent": True}}})
    for _ in range(2):
        shown = inside.ip("addr show stays").stdout
        assert shown.count("10.7.0.2/24") == 1 and shown.count("2001:db8:7::2/64") == 1
        assert inside.ip("route show default").stdout.count("via 10.7.0.1") == 1
        assert inside.ip("-6 route show default").stdout.count("via 2001:db8:7::1") == 1
        r.kill(9)
        r.start()


def test_a_persistent_tap_of_a_failed_transaction_goes(lab):
    inside = lab.namespace("r")
    r = lab.router(inside, {})
    # A group address: the TAP is made, and its MAC address is refused.
    failed = r.ctl_raw("create tap id 5 host-if-name stays persist hw-addr 01:00:5e:00:00:01 host-ip4-addr 10.7.0.2/24 host-ip4-gw 10.7.0.1")
    assert failed.returncode != 0 and "single station" in failed.stderr + failed.stdout
    wait_for("the device to go", lambda: "stays" not in inside.ip("-br link").stdout)
    assert "10.7.0.1" not in inside.ip("route show default").stdout


@pytest.mark.parametrize("offload", ["auto", "on", "off"])
def test_tap_with_and_without_offloads(lab, offload):
    """Two hosts behind TAPs. By default Linux gives and gets super-frames, and a capture on its side shows whole checksums;
    UDP super-frames come as datagrams."""
    a, b = lab.host("a", ["10.0.1.2/24"], ["10.0.1.1"]), lab.host("b", ["10.0.2.2/24"], ["10.0.2.1"])
    r = lab.router(lab.namespace("r"), {
        "taps": {f"tap{n}": {"host": {"name": "eth0", "namespace": host.name}} for n, host in enumerate((a, b))},
        "devices": {f"tap{n}": {"offload": offload} for n in (0, 1)}})
    for n, host in enumerate((a, b)):
        host.configure("eth0")
        r.ctl(f"set interface ip address tap{n} 10.0.{n + 1}.1/24")
        r.ctl(f"set interface state tap{n} up")
    a.ping("10.0.2.2")
    with iperf_server(b), capture(b, "eth0", "tcp and port 5201 and src host 10.0.1.2") as file:
        assert iperf(a, "10.0.2.2", "-n", "20M")["sum_sent"]["bytes"] >= 20e6
    bad, packets, longest = bad_checksums(file)
    assert packets > 100
    assert (longest > 1514) == (offload != "off"), longest
    assert bool(bad) == (offload == "on"), bad[:5]


def test_persistent_taps_stay_and_others_go(lab):
    inside = lab.namespace("r")
    r = lab.router(inside, {"taps": {"tap0": {"host": {"name": "stays"}}, "tap1": {"host": {"name": "goes"}}},
                            "devices": {"tap0": {"persistent": True}}})
    assert {"stays", "goes"} <= set(run(f"ip -n {inside.name} -br link").stdout.split())
    r.kill(15)
    after = run(f"ip -n {inside.name} -br link").stdout.split()
    assert "stays" in after and "goes" not in after
    r.start()
    r.kill(9)
    r.start()
    assert "goes" in run(f"ip -n {inside.name} -br link").stdout.split()


def test_two_routers_in_a_row(lab):
    """A and B with two Quivers between them, static routes, and next hops of both kinds."""
    one, two = lab.namespace("r1"), lab.namespace("r2")
    a = lab.cable(one, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
    b = lab.cable(two, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    veth(one, "middle", two, "middle", mac_a="02:00:00:00:12:01", mac_b="02:00:00:00:12:02")
    lab.router(one, {
        "interfaces": {"left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                       "middle": {"addresses": ["192.0.2.1/30", "2001:db8:12::1/64"]}},
        "routes": ["10.0.2.0/24 via 192.0.2.2", "2001:db8:2::/48 via fe80::ff:fe00:1202 middle"]})
    lab.router(two, {
        "interfaces": {"right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]},
                       "middle": {"addresses": ["192.0.2.2/30", "2001:db8:12::2/64"]}},
        "routes": ["0.0.0.0/0 via 192.0.2.1 middle", "::/0 via fe80::ff:fe00:1201 middle"]})
    a.ping("10.0.2.2")
    a.ping("2001:db8:2::2")
    assert hops(a, "10.0.2.2") == ["10.0.1.1", "192.0.2.2", "10.0.2.2"]
    assert hops(a, "2001:db8:2::2", "-6") == ["2001:db8:1::1", "2001:db8:12::2", "2001:db8:2::2"]
    with iperf_server(b):
        for to in ("10.0.2.2", "2001:db8:2::2"):
            tcp(a, to, seconds=1)


def test_linux_router_on_the_other_side(lab):
    """ECMP over two Linux routers to one host: flows use both, and each is answered."""
    inside = lab.namespace("r")
    a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24"], ["10.0.1.1"]))
    b = lab.host("b", [])
    routers = []
    for i, port in ((3, "north"), (4, "south")):
        l = lab.cable(inside, port, lab.host(f"l{i}", [f"10.0.{i}.2/24"], [f"10.0.{i}.1"]))
        l.run("sysctl -qw net.ipv4.ip_forward=1")
        veth(l, "out", b, f"in{i}")
        l.ip(f"address add 10.1.{i}.1/24 dev out")
        b.ip(f"address add 10.1.{i}.2/24 dev in{i}")
        l.ip(f"route add 10.99.0.0/16 via 10.1.{i}.2")
        routers.append(l)
    for i in range(1, 9):
        b.ip(f"address add 10.99.0.{i}/32 dev lo")
    b.ip("route add default nexthop via 10.1.3.1 nexthop via 10.1.4.1")
    lab.router(inside, {
        "interfaces": {"left": {"addresses": ["10.0.1.1/24"]}, "north": {"addresses": ["10.0.3.1/24"]},
                       "south": {"addresses": ["10.0.4.1/24"]}},
        "routes": ["10.99.0.0/16 via 10.0.3.2, 10.0.4.2"]})
    for i in range(1, 9):
        a.ping(f"10.99.0.{i}", count=3)
    used = [int(l.run("cat /sys/class/net/eth0/statistics/rx_packets").stdout) for l in routers]
    assert all(n >= 3 for n in used), used
