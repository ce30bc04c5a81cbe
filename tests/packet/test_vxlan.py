"""VXLAN tunnels (RFC 7348): what goes in and comes out, over both families, as Scapy builds it."""

import pytest
from frames import *
from harness import BINARY, Bench, CtlError, run, wait_for
from scapy.layers.vxlan import VXLAN

# The router's ends, and the other ones, which are behind the host of `right`.
OWN, OWN6, FAR, FAR6 = "10.9.9.9", "2001:db8:9::9", "192.0.2.9", "2001:db8:f::9"
HOST_MAC = "02:00:00:00:33:02"
# Groups of many ends, and one of them that has no tunnel of its own.
GROUP, GROUP6, ANY, ANY6 = "239.1.2.3", "ff05::1:77", "192.0.2.50", "2001:db8:f::50"
A, Z, Y = "02:00:00:00:77:01", "02:00:00:00:77:02", "02:00:00:00:77:03"


@pytest.fixture(scope="module")
def bench():
    """A network of two far sites and a VLAN of `left`, routed tunnels, and one over IPv6."""
    b = Bench({
        "loopbacks": {"loop0": {"addresses": [f"{OWN}/32", f"{OWN6}/128"]}},
        "vxlan_tunnels": {
            "vxlan_tunnel0": {"local": OWN, "remote": FAR, "vni": 100},
            "vxlan_tunnel1": {"local": OWN, "remote": "192.0.2.10", "vni": 100},
            "vxlan_tunnel2": {"local": OWN, "remote": FAR, "vni": 0xffffff, "ttl": 9, "dscp": 46, "local-port": 8472, "remote-port": 8473},
            "vxlan_tunnel3": {"local": OWN6, "remote": FAR6, "vni": 3, "ttl": "copy", "dscp": "copy"},
            "vxlan_tunnel4": {"local": OWN6, "remote": FAR6, "vni": 4, "zero-checksum": True},
            "vxlan_tunnel16": {"local": OWN, "remote": GROUP, "group-interface": "right", "vni": 600},
            "vxlan_tunnel17": {"local": OWN6, "remote": GROUP6, "group-interface": "right", "vni": 700, "zero-checksum": True},
            # An end of both groups that has a tunnel of its own.
            "vxlan_tunnel18": {"local": OWN, "remote": FAR, "vni": 600},
        },
        "bridgedomains": {
            "bd7": {"interfaces": ["vxlan_tunnel0", "vxlan_tunnel1", "left.7"]},
            "bd8": {"interfaces": ["vxlan_tunnel16", "vxlan_tunnel18", "left.8"]},
            "bd9": {"interfaces": ["vxlan_tunnel17", "left.9"]},
        },
        "l2": {"interfaces": {"vxlan_tunnel16": {"split-horizon-group": 1}, "vxlan_tunnel18": {"split-horizon-group": 1}}},
        "interfaces": {
            "left": {"sub-interfaces": {7: {}, 8: {}, 9: {}}},
            "vxlan_tunnel16": {},
            "vxlan_tunnel17": {},
            "vxlan_tunnel18": {},
            "vxlan_tunnel0": {},
            "vxlan_tunnel1": {},
            "vxlan_tunnel2": {"mtu": 1450, "addresses": ["10.202.0.1/24", "2001:db8:202::1/64"], "sub-interfaces": {9: {"addresses": ["10.209.0.1/24"]}}},
            "vxlan_tunnel3": {"addresses": ["10.203.0.1/24", "2001:db8:203::1/64"]},
            "vxlan_tunnel4": {"addresses": ["10.204.0.1/24", "2001:db8:204::1/64"]},
        },
        "routes": [f"{FAR}/32 via 10.0.2.2", "192.0.2.10/32 via 10.0.2.2", f"{FAR6}/128 via 2001:db8:2::2"] + [
            f"172.16.{n}.0/24 via 10.20{n}.0.2" for n in (2, 3, 4)],
        "neighbors": [{"interface": f"vxlan_tunnel{n}", "address": f"10.20{n}.0.2", "mac": HOST_MAC} for n in (2, 3, 4)],
    })
    for member, group in (("vxlan_tunnel0", 1), ("vxlan_tunnel1", 1)):
        b.ctl(f"set interface l2 bridge {member} 7 {group}")
    b.settle("right")
    yield b
    b.close()


def mac_of(b, name):
    return b.router.interface(name)["mac"]


def leaves(b, frame, vni, v6=False, to=None, port=4789, checksum=False, **outer):
    """The next packet at `right` is this frame behind the headers of a tunnel; the source port, identification and flow label are any."""
    got = b.right.recv()
    assert got is not None, "nothing came"
    seen = Ether(got)
    if v6:
        head = IPv6(src=OWN6, dst=to or FAR6, nh=17, fl=seen[IPv6].fl, **{"hlim": 64, **outer})
    else:
        head = IP(src=OWN, dst=to or FAR, proto=17, id=seen[IP].id, **{"ttl": 64, **outer})
    udp = UDP(sport=seen[UDP].sport, dport=port, **({} if checksum else {"chksum": 0}))
    want = bytes(out_of(b.ports["right"]) / head / udp / VXLAN(vni=vni, flags="Instance") / frame)
    assert got.hex() == want.hex(), f"\n got {seen!r}\nwant {Ether(want)!r}"
    assert seen[UDP].sport >= 49152
    return seen


def comes(b, frame, vni, v6=False, port=4789, flags="Instance", checksum=False, **outer):
    """The packet with which the other end sends this frame."""
    head = IPv6(**{"src": FAR6, "dst": OWN6, **outer}) if v6 else IP(**{"src": FAR, "dst": OWN, **outer})
    udp = UDP(sport=51234, dport=port, **({} if checksum else {"chksum": 0}))
    return into(b.ports["right"]) / head / udp / VXLAN(vni=vni, flags=flags) / frame


def tagged(frame, vlan=7):
    """It on a VLAN of `left`."""
    return Ether(dst=frame.dst, src=frame.src) / Dot1Q(vlan=vlan) / frame.payload


def test_a_network_of_three_sites(bench):
    """Stations are learnt; what goes to all goes to each site, and from one site not to the next."""
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=A) / ARP(op=1, hwsrc=A, psrc="10.7.0.1", pdst="10.7.0.2")
    bench.left.send(tagged(ask))
    seen = [Ether(f) for f in bench.right.take(2)]
    assert sorted(p[IP].dst for p in seen) == ["192.0.2.10", FAR] and all(p[VXLAN].vni == 100 for p in seen)
    assert all(bytes(p[VXLAN].payload) == bytes(ask) for p in seen)
    answer = Ether(dst=A, src=Z) / ARP(op=2, hwsrc=Z, psrc="10.7.0.2", hwdst=A, pdst="10.7.0.1")
    bench.right.send(comes(bench, answer, 100))
    bench.left.expect(tagged(answer))
    data = Ether(dst=Z, src=A) / udp4("10.7.0.1", "10.7.0.2")
    bench.left.send(tagged(data))
    leaves(bench, data, 100)
    # The station moves to the other site.
    bench.right.send(comes(bench, answer, 100, src="192.0.2.10"))
    bench.left.expect(tagged(answer))
    bench.left.send(tagged(data))
    leaves(bench, data, 100, to="192.0.2.10")
    # For nobody who is known: to the VLAN alone.
    lost = Ether(dst=Y, src=Z) / udp4("10.7.0.2", "10.7.0.3")
    bench.right.send(comes(bench, lost, 100))
    bench.left.expect(tagged(lost))
    macs = {e["mac"]: e["interface"] for e in bench.router.json("show l2fib bd_id 7")["entries"]}
    assert macs.get(Z) == "vxlan_tunnel0" and macs.get(A) == "left.7", macs


def test_a_static_station(bench):
    bench.ctl(f"l2fib add {Y} 7 vxlan_tunnel1 static")
    data = Ether(dst=Y, src=A) / udp4("10.7.0.1", "10.7.0.3")
    bench.left.send(tagged(data))
    leaves(bench, data, 100, to="192.0.2.10")
    bench.ctl(f"l2fib del {Y} 7")


GROUPS = [(8, 600, False, GROUP, "01:00:5e:01:02:03", OWN, ANY, "vxlan_tunnel16"), (9, 700, True, GROUP6, "33:33:00:01:00:77", OWN6, ANY6, "vxlan_tunnel17")]


def to_group(b, frame, vni, v6, group, mac, src, port="right"):
    """The packet with which an end sends this frame to a group."""
    head = IPv6(src=src, dst=group) if v6 else IP(src=src, dst=group)
    return Ether(dst=mac, src=b.ports[port].host_mac) / head / UDP(sport=51234, dport=4789, chksum=0) / VXLAN(vni=vni, flags="Instance") / frame


@pytest.mark.parametrize("vlan, vni, v6, group, mac, own, src, name", GROUPS, ids=["ip4", "ip6"])
def test_a_multicast_group(bench, vlan, vni, v6, group, mac, own, src, name):
    """All that leaves goes to the group, and what its members send to it or to this end comes in."""
    def leaves_to_group(frame):
        bench.left.send(tagged(frame, vlan))
        seen = Ether(bench.right.recv())
        ip = seen[IPv6 if v6 else IP]
        assert (seen.dst, seen.src, ip.src, ip.dst) == (mac, bench.ports["right"].mac, own, group), seen
        assert seen[VXLAN].vni == vni and bytes(seen[VXLAN].payload) == bytes(frame) and seen[UDP].dport == 4789
        assert (ip.hlim if v6 else ip.ttl) == 64

    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=A) / ARP(op=1, hwsrc=A, psrc="10.7.0.1", pdst="10.7.0.2")
    leaves_to_group(ask)
    answer = Ether(dst=A, src=Z) / ARP(op=2, hwsrc=Z, psrc="10.7.0.2", hwdst=A, pdst="10.7.0.1")
    bench.right.send(to_group(bench, answer, vni, v6, group, mac, src))
    bench.left.expect(tagged(answer, vlan))
    bench.right.send(comes(bench, answer, vni, v6=v6, src=src, dst=own))
    bench.left.expect(tagged(answer, vlan))
    macs = {e["mac"]: e["interface"] for e in bench.router.json(f"show l2fib bd_id {vlan}")["entries"]}
    assert macs.get(Z) == name, macs
    leaves_to_group(Ether(dst=Z, src=A) / udp4("10.7.0.1", "10.7.0.2"))
    # To another group, with another network, from the router itself, or where the group was not joined: nothing.
    unknown = "ip6-multicast-not-handled" if v6 else "ip4-multicast-not-handled"
    other, other_mac = ("ff05::1:78", "33:33:00:01:00:78") if v6 else ("239.1.2.4", "01:00:5e:01:02:04")
    for reason, port, packet in (
        (unknown, "right", to_group(bench, answer, vni, v6, other, other_mac, src)),
        (unknown, "left", to_group(bench, answer, vni, v6, group, mac, src, port="left")),
        ("vxlan-no-tunnel", "right", to_group(bench, answer, vni + 1, v6, group, mac, src)),
        ("vxlan-no-tunnel", "right", to_group(bench, answer, vni, v6, group, mac, own)),
    ):
        with bench.counted(reason):
            getattr(bench, port).send(packet)


def test_a_member_of_a_group_with_a_tunnel_of_its_own(bench):
    """What it sends to the group or not comes in on that, and to its stations frames go there alone."""
    answer = Ether(dst=A, src=Y) / ARP(op=2, hwsrc=Y, psrc="10.7.0.3", hwdst=A, pdst="10.7.0.1")
    vlan, vni, v6, group, mac, own, src, _ = GROUPS[0]
    for packet in (to_group(bench, answer, vni, v6, group, mac, FAR), comes(bench, answer, vni)):
        bench.right.send(packet)
        bench.left.expect(tagged(answer, vlan))
        macs = {e["mac"]: e["interface"] for e in bench.router.json("show l2fib bd_id 8")["entries"]}
        assert macs.get(Y) == "vxlan_tunnel18", macs
    data = Ether(dst=Y, src=A) / udp4("10.7.0.1", "10.7.0.3")
    bench.left.send(tagged(data, vlan))
    leaves(bench, data, vni)
    # To all: once, to the group.
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=A) / ARP(op=1, hwsrc=A, psrc="10.7.0.1", pdst="10.7.0.3")
    bench.left.send(tagged(ask, vlan), tagged(data, vlan))
    assert sorted(Ether(f)[IP].dst for f in bench.right.take(2)) == sorted([group, FAR])


def test_the_interface_of_a_group(bench):
    """Is in it for as long as there is a tunnel, and stays for as long."""
    def groups(name):
        return {r["group"] for r in bench.router.json(f"show ip groups {name}")}

    assert {GROUP, GROUP6} <= groups("right"), groups("right")
    bench.ctl("create sub-interfaces right 5")
    assert bench.ctl(f"create vxlan tunnel src {OWN} group 239.9.9.9 right.5 vni 900").strip() == "vxlan_tunnel5"
    assert "239.9.9.9" in groups("right.5")
    for line, why in (
        ("delete sub-interface right.5", r"vxlan_tunnel5 sends to 239\.9\.9\.9 over right\.5: take it out first \(delete interface vxlan_tunnel5\)"),
        (f"create vxlan tunnel src {OWN} group 239.9.9.8 right vni 900", "vxlan_tunnel5 has the same"),
        (f"create vxlan tunnel src {OWN} group 239.9.9.9 loop0 vni 901", "no multicast group is over loop0"),
        (f"create vxlan tunnel src {OWN} group ff05::1 right vni 901", "two families"),
        (f"create vxlan tunnel src {OWN6} group ff01::1 right vni 901", "scope"),
        (f"create vxlan tunnel src {OWN} group 192.0.2.7 right vni 901", "no multicast group"),
        (f"create vxlan tunnel src {OWN} dst 239.9.9.9 vni 901", "group 239.9.9.9 INTERFACE"),
        (f"create vxlan tunnel src {OWN} group 239.9.9.9 nowhere vni 901", "nowhere"),
        (f"create vxlan tunnel src {OWN} group 239.9.9.8 right.5 vni 900 del", "no tunnel"),
    ):
        with pytest.raises(CtlError, match=why):
            bench.ctl(line)
    assert groups("right") >= {GROUP, GROUP6} and "239.9.9.8" not in groups("right")
    bench.ctl(f"create vxlan tunnel src {OWN} group 239.9.9.9 right.5 vni 900 del")
    assert "239.9.9.9" not in groups("right.5")
    bench.ctl("delete sub-interface right.5")
    # Over a BVI, behind which there are no stations when it is none any more.
    for line in ("create loopback interface instance 7", "create bridge-domain 30", "set interface l2 bridge loop7 30 bvi"):
        bench.ctl(line)
    name = bench.ctl(f"create vxlan tunnel src {OWN} group 239.9.9.7 loop7 vni 907").strip()
    for line in ("set interface l3 loop7", "delete loopback interface intfc loop7"):
        with pytest.raises(CtlError):
            bench.ctl(line)
    with pytest.raises(CtlError, match=f"{name} sends to 239.9.9.7 over loop7: take it out first"):
        bench.ctl("set interface l3 loop7")
    for line in (f"delete interface {name}", "set interface l3 loop7", "create bridge-domain 30 del", "delete loopback interface intfc loop7"):
        bench.ctl(line)


def test_flows_have_ports_of_their_own(bench):
    """A flow keeps its port, and others have others."""
    ports = {}
    for sport in list(range(1000, 1032)) * 2:
        data = Ether(dst="02:00:00:00:77:09", src=A) / udp4("10.7.0.1", "10.7.0.9", sport=sport)
        bench.ctl("l2fib add 02:00:00:00:77:09 7 vxlan_tunnel0 static") if not ports else None
        bench.left.send(tagged(data))
        seen = leaves(bench, data, 100)
        assert ports.setdefault(sport, seen[UDP].sport) == seen[UDP].sport
    assert len(set(ports.values())) > 24, ports
    bench.ctl("l2fib del 02:00:00:00:77:09 7")


@pytest.mark.parametrize("n, v6, outer", [
    (2, False, {"vni": 0xffffff, "ttl": 9, "tos": 46 << 2, "port": 8473}),
    (3, True, {"vni": 3, "hlim": 63, "tc": 0x20, "checksum": True}),
    (4, True, {"vni": 4}),
], ids=["ip4", "ip6", "ip6-zero-checksum"])
def test_routed(bench, n, v6, outer):
    """Routes over a tunnel, which has neighbours as a device has; both families inside, and back."""
    left, mac = bench.ports["left"], mac_of(bench, f"vxlan_tunnel{n}")
    for size in (20, 21, 1300):
        bench.left.send(into(left) / udp4(left.host, f"172.16.{n}.5", tos=0x20, size=size))
        frame = Ether(dst=HOST_MAC, src=mac) / udp4(left.host, f"172.16.{n}.5", ttl=63, tos=0x20, size=size)
        leaves(bench, frame, v6=v6, **outer)
    for checksum in (False, True):
        frame = Ether(dst=mac, src=HOST_MAC) / udp4(f"172.16.{n}.5", left.host)
        bench.right.send(comes(bench, frame, outer["vni"], v6=v6, port={2: 8472}.get(n, 4789), checksum=checksum))
        bench.left.expect(out_of(left) / udp4(f"172.16.{n}.5", left.host, ttl=63))
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=HOST_MAC) / ARP(op=1, hwsrc=HOST_MAC, psrc=f"10.20{n}.0.2", pdst=f"10.20{n}.0.1")
    bench.right.send(comes(bench, ask, outer["vni"], v6=v6, port={2: 8472}.get(n, 4789)))
    got = Ether(bytes(bench.right.wait(lambda p: VXLAN in p or UDP in p)[UDP].payload)[8:])
    assert (got[ARP].op, got[ARP].hwsrc, got[ARP].hwdst) == (2, mac, HOST_MAC)
    assert bench.router.interface(f"vxlan_tunnel{n}")["rx"]["packets"] >= 3


def test_a_sub_interface(bench):
    """Tagged frames inside."""
    left, mac = bench.ports["left"], mac_of(bench, "vxlan_tunnel2")
    bench.ctl(f"set ip neighbor vxlan_tunnel2.9 10.209.0.2 {HOST_MAC}")
    bench.left.send(into(left) / udp4(left.host, "10.209.0.2"))
    frame = Ether(dst=HOST_MAC, src=mac) / Dot1Q(vlan=9) / udp4(left.host, "10.209.0.2", ttl=63)
    leaves(bench, frame, 0xffffff, ttl=9, tos=46 << 2, port=8473)
    bench.right.send(comes(bench, Ether(dst=mac, src=HOST_MAC) / Dot1Q(vlan=9) / udp4("10.209.0.2", left.host), 0xffffff, port=8472))
    bench.left.expect(out_of(left) / udp4("10.209.0.2", left.host, ttl=63))


def test_congestion_outside_is_told_inside(bench):
    """RFC 6040 section 4.2."""
    left, mac = bench.ports["left"], mac_of(bench, "vxlan_tunnel4")
    for inner, outer, want in ((2, 3, 3), (2, 1, 1), (3, 1, 3), (0, 2, 0)):
        frame = Ether(dst=mac, src=HOST_MAC) / udp4("172.16.4.5", left.host, tos=inner)
        bench.right.send(comes(bench, frame, 4, v6=True, tc=outer))
        bench.left.expect(out_of(left) / udp4("172.16.4.5", left.host, tos=want, ttl=63))
    with bench.counted("vxlan-congestion-not-ect"):
        frame = Ether(dst=mac, src=HOST_MAC) / udp4("172.16.4.5", left.host)
        bench.right.send(comes(bench, frame, 4, v6=True, tc=3))


def test_what_is_dropped(bench):
    left, mac = bench.ports["left"], mac_of(bench, "vxlan_tunnel2")
    frame = Ether(dst=mac, src=HOST_MAC) / udp4("172.16.2.5", left.host)
    good = {"vni": 0xffffff, "port": 8472}
    for reason, packet in (
        ("vxlan-no-identifier", comes(bench, frame, **good, flags=0)),
        ("vxlan-no-tunnel", comes(bench, frame, 99, port=8472)),
        ("vxlan-no-tunnel", comes(bench, frame, 100, port=8472)),
        ("vxlan-no-tunnel", comes(bench, frame, **good, src="192.0.2.77")),
        ("vxlan-no-tunnel", comes(bench, frame, **good, dst=bench.ports["right"].ip)),
        ("vxlan-too-short", into(bench.ports["right"]) / IP(src=FAR, dst=OWN) / UDP(sport=5, dport=4789, chksum=0) / b"\x08\0\0\0\0\0\1"),
        ("ip4-local-bad-udp-checksum", into(bench.ports["right"]) / IP(src=FAR, dst=OWN) / UDP(sport=5, dport=4789, chksum=7) / VXLAN(vni=100, flags="Instance") / frame),
        ("ip4-local-bad-udp-length", into(bench.ports["right"]) / IP(src=FAR, dst=OWN) / UDP(sport=5, dport=4789, chksum=0, len=900) / VXLAN(vni=100, flags="Instance") / frame),
    ):
        with bench.counted(reason):
            bench.right.send(packet)
    bench.ctl("set interface state vxlan_tunnel2 down")
    with bench.counted("vxlan-tunnel-down"):
        bench.right.send(comes(bench, frame, **good))
    bench.ctl("set interface state vxlan_tunnel2 up")
    # What is behind the datagram is not of it.
    padded = comes(bench, Raw(bytes(frame) + bytes(9)), **good)
    padded[UDP].len = 8 + 8 + len(frame)
    bench.right.send(padded)
    bench.left.expect(out_of(left) / udp4("172.16.2.5", left.host, ttl=63))
    # Reserved bits are not looked at.
    odd = bytearray(bytes(comes(bench, frame, **good)))
    odd[42:46], odd[49] = b"\xff\1\2\3", 9
    bench.right.send(bytes(odd))
    bench.left.expect(out_of(left) / udp4("172.16.2.5", left.host, ttl=63))


def test_a_port_that_nobody_takes(bench):
    """Is closed again when the last tunnel to it is gone."""
    ask = into(bench.ports["right"]) / IP(src=FAR, dst=OWN) / UDP(sport=5, dport=9999) / b"\0 who is there?"
    def refused():
        bench.right.send(ask)
        got = bench.right.wait(lambda p: ICMP in p)
        assert (got[ICMP].type, got[ICMP].code) == (3, 3)
    refused()
    name = bench.ctl(f"create vxlan tunnel src {OWN} dst {FAR} vni 50 src_port 9999").strip()
    other = bench.ctl(f"create vxlan tunnel src {OWN} dst {FAR} vni 51 src_port 9999").strip()
    bench.ctl(f"delete interface {other}")
    with bench.counted("vxlan-no-identifier"):
        bench.right.send(ask)
    bench.ctl(f"delete interface {name}")
    refused()


def test_too_large_for_the_tunnel(bench):
    """1450 bytes fit; of more, the sender hears, or they go in pieces."""
    left = bench.ports["left"]
    bench.left.send(into(left) / udp4(left.host, "172.16.2.5", size=1450 - 28, flags="DF"))
    assert len(bytes(Ether(bench.right.recv())[IP])) == 1500
    bench.left.send(into(left) / udp4(left.host, "172.16.2.5", size=1451 - 28, flags="DF"))
    got = bench.left.wait(lambda p: ICMP in p)
    assert (got[ICMP].type, got[ICMP].code, got[ICMP].nexthopmtu) == (3, 4, 1450)
    # In pieces on the way: they are put together.
    from scapy.layers.inet import fragment
    frame = Ether(dst=mac_of(bench, "vxlan_tunnel2"), src=HOST_MAC) / udp4("172.16.2.5", left.host, size=1400)
    for piece in fragment(comes(bench, frame, 0xffffff, port=8472)[IP], fragsize=800):
        bench.right.send(into(bench.ports["right"]) / piece)
    bench.left.expect(out_of(left) / udp4("172.16.2.5", left.host, size=1400, ttl=63))
    # In the smallest ones, which end within the headers.
    for size in (8, 16, 24, 32, 48):
        frame = Ether(dst=mac_of(bench, "vxlan_tunnel2"), src=HOST_MAC) / udp4("172.16.2.5", left.host, size=300)
        for piece in fragment(comes(bench, frame, 0xffffff, port=8472)[IP], fragsize=size):
            bench.right.send(into(bench.ports["right"]) / piece)
        bench.left.expect(out_of(left) / udp4("172.16.2.5", left.host, size=300, ttl=63))


def test_a_way_through_itself(bench):
    left = bench.ports["left"]
    bench.ctl(f"ip route set {FAR}/32 via 10.202.0.2 vxlan_tunnel2")
    with bench.counted("midchain-recursive-routing"):
        bench.left.send(into(left) / udp4(left.host, "172.16.2.5"))
    bench.ctl(f"ip route set {FAR}/32 via 10.0.2.2")


def test_commands(bench):
    """In VPP's words; what cannot be is refused and says why."""
    assert bench.ctl(f"create vxlan tunnel src {OWN} dst 192.0.2.77 vni 7 instance 70 decap-next l2").strip() == "vxlan_tunnel70"
    assert bench.ctl(f"create vxlan tunnel src {OWN} dst 192.0.2.77 vni 8").strip() == "vxlan_tunnel5"
    rows = {r["tunnel"]: r for r in bench.router.json("show vxlan tunnel")}
    assert (rows["vxlan_tunnel70"]["destination"], rows["vxlan_tunnel5"]["vni"]) == ("192.0.2.77", 8), rows
    assert (rows["vxlan_tunnel2"]["port"], rows["vxlan_tunnel2"]["remote-port"]) == (8472, 8473) and rows["vxlan_tunnel3"]["checksum"] == "udp", rows
    for line, why in (
        (f"create vxlan tunnel src {OWN} dst 192.0.2.77 vni 7", "vxlan_tunnel70 has the same ends, VNI and port"),
        (f"create vxlan tunnel src {OWN} dst 2001:db8::1 vni 7", "two families"),
        (f"create vxlan tunnel src 239.0.0.1 dst {OWN} vni 7", "cannot be an end"),
        (f"create vxlan tunnel src {OWN} dst {OWN} vni 7", "both ends"),
        (f"create vxlan tunnel src {OWN} dst 192.0.2.78 vni 0", r"1\.\.16777215"),
        (f"create vxlan tunnel src {OWN} dst 192.0.2.78 vni 16777216", r"1\.\.16777215"),
        (f"create vxlan tunnel src {OWN} dst 192.0.2.78 vni 7 encap-vrf-id 9", "table 9"),
        (f"create vxlan tunnel src {OWN} dst 192.0.2.99 vni 7 del", "no tunnel"),
        ("show vxlan tunnel left", "no VXLAN tunnel"),
    ):
        with pytest.raises(CtlError, match=why):
            bench.ctl(line)
    bench.ctl(f"create vxlan tunnel src {OWN} dst 192.0.2.77 vni 7 del")
    bench.ctl("delete interface vxlan_tunnel5")
    assert "vxlan_tunnel70" not in bench.ctl("show vxlan tunnel")


def test_a_dump_loads(bench):
    """And gives the same tunnels, and the same dump."""
    def text():
        return run([BINARY, "dump", "-s", bench.router.socket]).stdout

    def rows():
        return [{k: v for k, v in r.items() if k != "group"} for r in bench.router.json("show vxlan tunnel")]

    dump, tunnels = text(), rows()
    assert "vxlan_tunnels:" in dump and "group-interface: right" in dump and "dscp: copy" in dump and "remote-port: 8473" in dump, dump
    assert bench.router.kill(15) == 0
    with open(bench.router.file, "w") as f:
        f.write(dump)
    bench.router.start()
    assert rows() == tunnels
    assert text() == dump
    left = bench.ports["left"]
    wait_for("the ports have link", lambda: bench.router.interface("right")["link"] and bench.router.interface("left")["link"])
    bench.left.send(into(left) / udp4(left.host, "172.16.2.5"))
    assert bench.right.wait(lambda p: UDP in p and p[UDP].dport == 8473)[IP].dst == FAR


def test_many_packets_and_no_leak(bench):
    """Buffers come back from all of this."""
    left = bench.ports["left"]
    frames = [into(left) / udp4(left.host, f"172.16.{n % 3 + 2}.{n % 250 + 1}", sport=n + 1) for n in range(400)]
    bench.left.send(*frames)
    bench.right.take(300, chatter=True)
    wait_for("all buffers are back", lambda: bench.router.in_use() == 0)
