"""Groups: what is not joined is dropped with its reason, and what is joined is told on the link as a host must."""

import socket

import pytest
from frames import *
from harness import Bench, CtlError, Router, wait_for
from scapy.contrib.igmp import IGMP
from scapy.contrib.igmpv3 import IGMPv3, IGMPv3gr, IGMPv3mq, IGMPv3mr
from scapy.layers.inet import IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6MLDMultAddrRec, ICMPv6MLQuery, ICMPv6MLQuery2, ICMPv6MLReport, ICMPv6MLReport2, ICMPv6MLDone, RouterAlert,
)

GROUPS = ["224.0.0.5", "224.0.0.18", "ff02::5", "ff02::9"]


@pytest.fixture(scope="module")
def joined():
    b = Bench({"l3": {"interfaces": {"left": {"groups": GROUPS}}}})
    yield b
    b.close()


def mac_of(group):
    if ":" in group:
        tail = group.split(":")[-1].rjust(4, "0")
        return f"33:33:00:00:{tail[:2]}:{tail[2:]}"
    a = [int(x) for x in group.split(".")]
    return f"01:00:5e:{a[1] & 127:02x}:{a[2]:02x}:{a[3]:02x}"


def to_group(port, group, proto=89):
    ether = Ether(dst=mac_of(group), src=port.host_mac)
    if ":" in group:
        return ether / IPv6(src=port.host6, dst=group, hlim=1, nh=proto) / Raw(bytes(24))
    return ether / IP(src=port.host, dst=group, ttl=1, proto=proto) / Raw(bytes(24))


@pytest.mark.parametrize("group", ["224.0.0.6", "224.0.0.9", "239.1.2.3", "ff02::6", "ff02::d", "ff05::1", "ff0e::1"])
def test_what_is_not_joined_is_dropped(joined, group):
    with joined.counted("ip6-multicast-not-handled" if ":" in group else "ip4-multicast-not-handled"):
        joined.left.send(to_group(joined.ports["left"], group))


@pytest.mark.parametrize("group", GROUPS + ["224.0.0.1", "224.0.0.2", "ff02::1", "ff02::2"])
def test_what_is_joined_is_taken(joined, group):
    """OSPF has no listener yet: it is counted as a protocol that nobody speaks, and not answered."""
    before = joined.router.errors()
    with joined.counted("ip6-local-unknown-next-header" if ":" in group else "ip4-local-unknown-protocol"):
        joined.left.send(to_group(joined.ports["left"], group))
    wait_for("it is not answered", lambda: joined.router.errors().get(
        "icmp6-error-not-allowed" if ":" in group else "icmp4-error-not-allowed", 0) > before.get(
        "icmp6-error-not-allowed" if ":" in group else "icmp4-error-not-allowed", 0))


@pytest.mark.parametrize("group", ["224.0.0.5", "ff02::5"])
def test_each_interface_joins_for_itself(joined, group):
    with joined.counted("ip6-multicast-not-handled" if ":" in group else "ip4-multicast-not-handled"):
        joined.right.send(to_group(joined.ports["right"], group))


def test_ping_of_a_group(joined):
    """RFC 1812 section 4.3.3.6 lets a router be silent over IPv4; RFC 4443 has it answer."""
    left = joined.ports["left"]
    with joined.counted("icmp4-echo-to-group"):
        joined.left.send(Ether(dst=mac_of("224.0.0.1"), src=left.host_mac) / IP(src=left.host, dst="224.0.0.1") / ICMP())
    joined.left.send(Ether(dst=mac_of("ff02::2"), src=left.host_mac)
                     / IPv6(src=left.host6, dst="ff02::2") / ICMPv6EchoRequest(id=1, seq=9))
    joined.left.expect(out_of(left) / IPv6(src=left.ip6, dst=left.host6, hlim=64) / ICMPv6EchoReply(id=1, seq=9))


def report4(port, records, source=None):
    """The IGMPv3 report as RFC 3376 section 4.2 wants it."""
    group_records = [IGMPv3gr(rtype=kind, maddr=group, numsrc=0) for kind, group in records]
    ip = IP(src=source or port.ip, dst="224.0.0.22", ttl=1, tos=0xC0, id=0, flags="DF", options=[IPOption_Router_Alert()])
    return Ether(dst="01:00:5e:00:00:16", src=port.mac) / ip / IGMPv3(type=0x22, mrcode=0) / IGMPv3mr(numgrp=len(records), records=group_records)


def is_report4(packet, records):
    if IP not in packet or packet[IP].dst != "224.0.0.22":
        return False
    raw = bytes(packet[IP])
    body = raw[24:int.from_bytes(raw[2:4], "big")]
    got = [(body[8 + 8 * n], ".".join(str(x) for x in body[12 + 8 * n:16 + 8 * n])) for n in range(int.from_bytes(body[6:8], "big"))]
    assert raw[0] == 0x46 and raw[8] == 1 and raw[1] == 0xC0 and raw[20:24] == b"\x94\x04\0\0" and checksum(body) == 0 and checksum(raw[:24]) == 0
    return sorted(got) == sorted(records)


def records6(packet):
    """Records of an MLDv2 report, each (type, group); None for another packet. Scapy checks nothing, so this does."""
    if ICMPv6MLReport2 not in packet:
        return None
    ip = packet[IPv6]
    assert (ip.dst, ip.hlim, ip.nh, packet.dst) == ("ff02::16", 1, 0, "33:33:00:00:00:16")
    assert ip.src.startswith("fe80::") or ip.src == "::"
    assert any(isinstance(o, RouterAlert) for o in packet[IPv6ExtHdrHopByHop].options)
    sent = packet[ICMPv6MLReport2].cksum
    again = IPv6(bytes(ip))
    del again[ICMPv6MLReport2].cksum
    assert IPv6(bytes(again))[ICMPv6MLReport2].cksum == sent
    body = bytes(ip)[48:]
    count = int.from_bytes(body[6:8], "big")
    assert len(body) == 8 + 20 * count and not any(body[9 + 20 * n] for n in range(count)), "no auxiliary data, no sources"
    return [(body[8 + 20 * n], socket.inet_ntop(socket.AF_INET6, body[12 + 20 * n:28 + 20 * n])) for n in range(count)]


def test_a_join_and_a_leave_are_told_twice():
    """State-change reports, robustness 2 (RFC 3376 section 5.1, RFC 3810 section 6.1)."""
    b = Bench()
    try:
        wait_for("what the start had to say is said", lambda: b.left.recv(timeout=2.5, chatter=True) is None, timeout=30)
        b.ctl("set interface ip group join left 239.1.1.1")
        for _ in range(2):
            b.left.wait(lambda p: is_report4(p, [(4, "239.1.1.1")]))
        b.ctl("set interface ip group join left ff05::77")
        for _ in range(2):
            b.left.wait(lambda p: records6(p) == [(4, "ff05::77")])
        with b.counted("ip4-local-unknown-protocol"):
            b.left.send(to_group(b.ports["left"], "239.1.1.1"))
        b.ctl("set interface ip group leave left 239.1.1.1")
        for _ in range(2):
            b.left.wait(lambda p: is_report4(p, [(3, "239.1.1.1")]))
        b.ctl("set interface ip group leave left ff05::77")
        for _ in range(2):
            b.left.wait(lambda p: records6(p) == [(3, "ff05::77")])
        with b.counted("ip4-multicast-not-handled"):
            b.left.send(to_group(b.ports["left"], "239.1.1.1"))
    finally:
        b.close()


def test_at_the_start_everything_is_told():
    """A switch that listens in learns the router's solicited-node groups, or neighbours would not find it."""
    b = Bench(start=False)
    try:
        b.router = Router(b.inside, b.config)
        # Of its address, and of the subnet-router anycast address.
        solicited = {"ff02::1:ff00:1", "ff02::1:ff00:0"}
        wanted = {(4, g) for g in {"ff02::2"} | solicited}
        seen = set()
        b.left.wait(lambda p: seen.update(records6(p) or []) or wanted <= seen)
        assert not any(g == "ff02::1" for _, g in seen), "all nodes is never told"
        link_local = next(g for _, g in seen if g.startswith("ff02::1:ff") and g not in solicited)
        assert link_local == "ff02::1:ff00:101"
        b.left.wait(lambda p: is_report4(p, [(4, "224.0.0.2")]))
    finally:
        b.close()


def query4(port, group="0.0.0.0", code=10, version=3, ttl=1, alert=True):
    ip = {"src": port.host, "dst": "224.0.0.1" if group == "0.0.0.0" else group, "ttl": ttl}
    if alert and version > 1:
        ip["options"] = [IPOption_Router_Alert()]
    if version == 3:
        body = IGMPv3(type=0x11, mrcode=code) / IGMPv3mq(gaddr=group)
    else:
        body = IGMP(type=0x11, mrcode=0 if version == 1 else code, gaddr=group)
    return Ether(dst=mac_of(ip["dst"]), src=port.host_mac) / IP(**ip) / body


def query6(port, group="::", delay=500, version=2, src="fe80::9", hlim=1, alert=True):
    dst = "ff02::1" if group == "::" else group
    head = Ether(dst=mac_of(dst), src=port.host_mac) / IPv6(src=src, dst=dst, hlim=hlim)
    if alert:
        head = head / IPv6ExtHdrHopByHop(options=[RouterAlert()])
    if version == 2:
        return head / ICMPv6MLQuery2(mladdr=group, mrd=delay)
    return head / ICMPv6MLQuery(mladdr=group, mrd=delay)


def test_general_queries_are_answered(joined):
    left = joined.ports["left"]
    joined.left.drain()
    joined.left.send(query4(left, code=2))
    joined.left.wait(lambda p: is_report4(p, [(2, "224.0.0.2"), (2, "224.0.0.5"), (2, "224.0.0.18")]))
    joined.left.send(query6(left, delay=200))
    got = joined.left.wait(lambda p: records6(p) is not None and all(t == 2 for t, _ in records6(p)))
    assert {g for _, g in records6(got)} == {"ff02::2", "ff02::5", "ff02::9", "ff02::1:ff00:0", "ff02::1:ff00:1", "ff02::1:ff00:101"}


def test_queries_for_a_group(joined):
    left = joined.ports["left"]
    joined.left.drain()
    joined.left.send(query4(left, "224.0.0.5", code=1))
    joined.left.wait(lambda p: is_report4(p, [(2, "224.0.0.5")]))
    joined.left.send(query6(left, "ff02::5", delay=100))
    joined.left.wait(lambda p: records6(p) == [(2, "ff02::5")])


@pytest.mark.parametrize("make, reason", [
    (lambda p: query6(p, hlim=2), "icmp6-mld-invalid"),
    (lambda p: query6(p, src="2001:db8:1::2"), "icmp6-mld-invalid"),
    (lambda p: query6(p, alert=False), "icmp6-mld-invalid"),
    (lambda p: Ether(bytes(query4(p))[:40] + b"\x77" + bytes(query4(p))[41:]), "igmp-malformed"),
    (lambda p: Ether(dst=mac_of("224.0.0.2"), src=p.host_mac) / IP(src=p.host, dst="224.0.0.2", ttl=1) / IGMP(type=0x17, gaddr="239.1.1.1"),
     "igmp-not-a-query"),
    (lambda p: Ether(dst=mac_of("ff02::2"), src=p.host_mac) / IPv6(src="fe80::9", dst="ff02::2", hlim=1)
     / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6MLDone(mladdr="ff05::1"), "icmp6-mld-ignored"),
])
def test_bad_queries_and_reports_of_others(joined, make, reason):
    with joined.counted(reason):
        joined.left.send(make(joined.ports["left"]))


def test_queries_that_only_the_control_side_can_tell_from_good_ones(joined):
    """A TTL above 1, a query of version 3 without router alert: nothing is said."""
    left = joined.ports["left"]
    joined.left.drain()
    for bad in (query4(left, code=1, ttl=2), query4(left, code=1, alert=False)):
        with joined.counted("igmp-handed-to-control"):
            joined.left.send(bad)
    frame = joined.left.recv(timeout=1, chatter=True)
    while frame is not None:
        assert not (IP in Ether(frame) and Ether(frame)[IP].proto == 2), Ether(frame)
        frame = joined.left.recv(timeout=0.5, chatter=True)


def test_older_queriers():
    """IGMPv2, IGMPv1 and MLDv1: each group is told by itself, in the querier's version."""
    b = Bench({"l3": {"interfaces": {n: {"groups": ["239.1.1.1", "ff05::7"]} for n in ("left", "right")}}})
    left, right = b.ports["left"], b.ports["right"]
    try:
        def old(version, kind, to, group, proto=2):
            def matches(p):
                if IP not in p or p[IP].proto != 2 or p[IP].dst != to:
                    return False
                raw = bytes(p[IP])
                body = raw[(raw[0] & 15) * 4:]
                return body[0] == kind and body[4:8] == bytes(int(x) for x in group.split(".")) and checksum(body[:8]) == 0
            return matches

        b.left.send(query4(left, code=2, version=2))
        b.left.wait(old(2, 0x16, "239.1.1.1", "239.1.1.1"))
        wait_for("it is shown", lambda: any(r["querier"] == "IGMPv2" for r in b.router.json("show ip groups left")))
        b.ctl("set interface ip group leave left 239.1.1.1")
        b.left.wait(old(2, 0x17, "224.0.0.2", "239.1.1.1"))
        b.right.send(query4(right, version=1))
        b.ctl("set interface ip group join right 239.1.1.2")
        b.right.wait(lambda p: old(1, 0x12, "239.1.1.2", "239.1.1.2")(p) or old(1, 0x22, "224.0.0.22", "0.0.0.1")(p))
        b.left.send(query6(left, delay=100, version=1))
        got = b.left.wait(lambda p: ICMPv6MLReport in p and p[ICMPv6MLReport].mladdr == "ff05::7")
        assert (got[IPv6].dst, got[IPv6].hlim) == ("ff05::7", 1)
        b.ctl("set interface ip group leave left ff05::7")
        got = b.left.wait(lambda p: ICMPv6MLDone in p)
        assert (got[IPv6].dst, got[ICMPv6MLDone].mladdr) == ("ff02::2", "ff05::7")
    finally:
        b.close()


def test_commands(pair):
    for group, word in (("10.0.0.1", "not a multicast group"), ("ff01::5", "scope"), ("ff0f::5", "scope")):
        with pytest.raises(CtlError, match=word):
            pair.ctl(f"set interface ip group join left {group}")
    pair.ctl("set interface ip group join left 224.0.0.9")
    rows = {r["group"]: r["reason"] for r in pair.router.json("show ip groups left")}
    assert rows["224.0.0.9"] == "set" and rows["224.0.0.1"] == rows["ff02::1"] == rows["ff02::1:ff00:1"] == "own"
    with pytest.raises(CtlError, match="joined already"):
        pair.ctl("set interface ip group join left 224.0.0.9")
    pair.ctl("set interface ip group leave left 224.0.0.9")
    with pytest.raises(CtlError, match="not joined"):
        pair.ctl("set interface ip group leave left 224.0.0.9")
    assert "224.0.0.9" not in pair.ctl("show ip groups left")


def received(b, device):
    """The groups of which frames reach a port: Linux tells the hardware of them."""
    lines = b.inside.ip(f"maddr show dev {device}").stdout.splitlines()
    return {line.split()[1] for line in lines if line.strip().startswith("link")}


def test_ports_receive_frames_of_their_groups():
    """A port drops frames for groups that nobody has asked for; sub-interfaces ask on the port below them."""
    b = Bench({"interfaces": {"left": {"sub-interfaces": {10: {"addresses": ["10.10.0.1/24"]}, 20: {}}}}}, ports=("left",))
    own, base = {"01:00:5e:00:00:01", "01:00:5e:00:00:02", "33:33:00:00:00:01", "33:33:00:00:00:02"}, "33:33:ff:00:00:01"
    try:
        got = received(b, "left")
        assert own | {base} <= got, got
        for name in ("left", "left.10"):
            b.ctl(f"set interface ip group join {name} 239.129.2.3")
        assert "01:00:5e:01:02:03" in received(b, "left")
        b.ctl("set interface ip group leave left 239.129.2.3")
        assert "01:00:5e:01:02:03" in received(b, "left"), "left.10 is in it still"
        b.ctl("delete sub-interface left.10")
        assert "01:00:5e:01:02:03" not in received(b, "left")
        b.ctl("set interface ip address left 2001:db8:1::77:8888/64")
        assert "33:33:ff:77:88:88" in received(b, "left")
        b.ctl("set interface ip address del left 2001:db8:1::77:8888/64")
        assert "33:33:ff:77:88:88" not in received(b, "left")
        # Of very many the port is not told one by one: it receives all.
        names = ["left", "left.20"]
        lines = [f"set interface ip group join {names[n % 2]} 239.1.{n >> 8}.{n & 255}" for n in range(400)]
        b.router.script(*lines)
        assert "allmulti 1" in b.inside.ip("-d link show dev left").stdout
        b.router.script(*[line.replace("join", "leave") for line in lines[:350]])
        assert "allmulti 0" in b.inside.ip("-d link show dev left").stdout
        want = {f"01:00:5e:01:{n >> 8:02x}:{n & 255:02x}" for n in range(350, 400)}
        assert want <= received(b, "left")
    finally:
        b.close()
