"""Router advertisements, byte by byte against Scapy; when they come; what solicits them and what does not."""

import time

import pytest
from frames import *
from harness import Bench, CtlError, wait_for
from scapy.layers.inet6 import (
    ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptDNSSL, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptRDNSS, ICMPv6NDOptRouteInfo,
)

FULL = {
    "interval": {"min": 3, "max": 4}, "initial": {"count": 0, "interval": 1}, "lifetime": 1200, "managed": True, "other": True,
    "hop-limit": 33, "reachable-ms": 30000, "retransmit-ms": 1500, "mtu": 1400, "preference": "high",
    "prefixes": {"2001:db8:1::/64": {"valid": 7200, "preferred": 3600}, "2001:db8:aa::/64": {"valid": "infinite", "preferred": "infinite",
                 "on-link": False}, "2001:db8:bb::/64": {"autonomous": False}},
    "routes": {"2001:db8:9::/48": {"lifetime": 900, "preference": "low"}, "::/0": {}},
    "dns-servers": ["2001:db8::53", "2001:db8::54"], "search-domains": ["example.net", "lab.example.org"], "dns-lifetime": 600,
}


def link_local(port):
    return f"fe80::ff:fe00:{port.n << 8 | 1:x}"


def head(port, dst="ff02::1", mac="33:33:00:00:00:01"):
    return Ether(dst=mac, src=port.mac) / IPv6(src=link_local(port), dst=dst, hlim=255)


def plain(port, lifetime=1800, **more):
    """What an interface of a bench advertises when nothing else is said."""
    return (head(port, **more) / ICMPv6ND_RA(chlim=64, M=0, O=0, prf=0, routerlifetime=lifetime, reachabletime=0, retranstimer=0)
            / ICMPv6NDOptSrcLLAddr(lladdr=port.mac) / ICMPv6NDOptMTU(mtu=1500)
            / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=1, validlifetime=2592000, preferredlifetime=604800, prefix=f"2001:db8:{port.n}::"))


def solicitation(port, src="fe80::77", mac=True, **ip):
    p = Ether(dst="33:33:00:00:00:02", src=port.host_mac) / IPv6(**{"src": src, "dst": "ff02::2", "hlim": 255, **ip}) / ICMPv6ND_RS()
    return p / ICMPv6NDOptSrcLLAddr(lladdr=port.host_mac) if mac else p


def is_advert(p):
    return ICMPv6ND_RA in p


def make(left=True, **more):
    return Bench({"l3": {"interfaces": {"left": {"router-advertisements": left}}}}, **more)


def test_all_options_byte_by_byte():
    b = make(FULL)
    left = b.ports["left"]
    try:
        want = (head(left) / ICMPv6ND_RA(chlim=33, M=1, O=1, prf=1, routerlifetime=1200, reachabletime=30000, retranstimer=1500)
                / ICMPv6NDOptSrcLLAddr(lladdr=left.mac) / ICMPv6NDOptMTU(mtu=1400)
                / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=1, validlifetime=7200, preferredlifetime=3600, prefix="2001:db8:1::")
                / ICMPv6NDOptPrefixInfo(prefixlen=64, L=0, A=1, validlifetime=0xffffffff, preferredlifetime=0xffffffff, prefix="2001:db8:aa::")
                / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=0, validlifetime=2592000, preferredlifetime=604800, prefix="2001:db8:bb::")
                / ICMPv6NDOptRouteInfo(len=1, plen=0, prf=0, rtlifetime=1800, prefix="::")
                / ICMPv6NDOptRouteInfo(len=2, plen=48, prf=3, rtlifetime=900, prefix="2001:db8:9::")
                / ICMPv6NDOptRDNSS(lifetime=600, dns=["2001:db8::53", "2001:db8::54"])
                / ICMPv6NDOptDNSSL(lifetime=600, searchlist=["example.net", "lab.example.org"]))
        got = b.left.wait(is_advert)
        # Scapy writes a prefix of 0 bits in 16 bytes.
        raw = bytes(want)
        at = raw.index(b"\x18\x01\x00\x00")
        if raw[at + 8:at + 24] == bytes(16):
            fixed = raw[:at + 8] + raw[at + 24:]
            payload = len(fixed) - 54
            fixed = fixed[:18] + payload.to_bytes(2, "big") + fixed[20:]
            again = Ether(fixed)
            del again[ICMPv6ND_RA].cksum
            raw = bytes(again)
        assert bytes(got).hex() == raw.hex(), f"\n got {got!r}\nwant {Ether(raw)!r}"
    finally:
        b.close()


def test_defaults_periods_and_the_end():
    """Every 3 to 4 seconds, with jitter; the last one when the router ends has no lifetime."""
    b = make({"interval": {"min": 3, "max": 4}, "initial": {"count": 0}})
    left = b.ports["left"]
    try:
        times = []
        for _ in range(4):
            got = b.left.wait(is_advert, timeout=8)
            times.append(time.monotonic())
            assert bytes(got).hex() == bytes(plain(left)).hex(), f"\n got {got!r}\nwant {plain(left)!r}"
        waits = [z - a for a, z in zip(times[1:], times[2:])]
        assert all(2.8 <= w <= 4.3 for w in waits), waits
        row = b.router.json("show ip6 ra")[0]
        assert (row["interface"], row["interval"], row["lifetime"]) == ("left", "3-4", 1800) and row["sent"] >= 4
        b.right.drain()
        b.router.kill(15)
        got = b.left.wait(is_advert, timeout=5)
        assert bytes(got).hex() == bytes(plain(left, lifetime=0)).hex()
        seen = []
        while (frame := b.right.recv(timeout=0.2, chatter=True)) is not None:
            seen.append(Ether(frame))
        assert not [p for p in seen if is_advert(p)], "right advertises nothing"
    finally:
        b.close()


def first(b):
    """The first advertisement is out; the bench threw it away with what else the start had to say."""
    wait_for("it advertises", lambda: b.router.json("show ip6 ra")[0]["sent"] >= 1)
    b.left.drain()
    return b


@pytest.fixture(scope="module")
def slow():
    """Its own advertisements come minutes apart: what comes was solicited."""
    b = first(make({"initial": {"count": 1}}))
    yield b
    b.close()


def test_solicited_together_and_three_seconds_apart(slow):
    """A flood of solicitations brings one advertisement to all nodes, and the next no sooner than three seconds later."""
    left = slow.ports["left"]
    time.sleep(3)
    slow.left.send(*[solicitation(left, f"fe80::{n:x}") for n in range(1, 200)])
    began = time.monotonic()
    got = slow.left.wait(is_advert)
    assert bytes(got).hex() == bytes(plain(left)).hex() and time.monotonic() - began < 1.5
    first = time.monotonic()
    for n in range(200, 400):
        slow.left.send(solicitation(left, f"fe80::{n:x}"))
    slow.left.wait(is_advert, timeout=6)
    assert 2.8 <= time.monotonic() - first <= 4, time.monotonic() - first
    row = slow.router.json("show ip6 ra")[0]
    assert row["solicited"] > 100 and row["sent"] <= 4, row


def test_a_host_without_address(slow):
    time.sleep(3.1)
    slow.left.send(solicitation(slow.ports["left"], "::", mac=False))
    slow.left.wait(is_advert, timeout=5)


@pytest.mark.parametrize("bad, reason", [
    (lambda p: solicitation(p, hlim=64), "nd-bad-hop-limit"),
    (lambda p: solicitation(p, src="::"), "nd-invalid"),
    (lambda p: Ether(bytes(solicitation(p))[:-7] + b"\0" + bytes(solicitation(p))[-6:]), "icmp6-bad-checksum"),
])
def test_invalid_solicitations(slow, bad, reason):
    """From beyond the link; from nobody with a MAC address in it (RFC 4861 section 6.1.1)."""
    before = slow.router.json("show ip6 ra")[0]["solicited"]
    with slow.counted(reason):
        slow.left.send(bad(slow.ports["left"]))
    assert slow.router.json("show ip6 ra")[0]["solicited"] == before


def test_where_none_are_sent_none_are_solicited(slow):
    with slow.counted("nd-router-message-ignored"):
        slow.right.send(solicitation(slow.ports["right"]))


def test_the_asker_becomes_a_neighbour(slow):
    """RFC 4861 section 6.2.6."""
    slow.left.send(solicitation(slow.ports["left"], "fe80::4711"))
    wait_for("it is known", lambda: any(n["ip"] == "fe80::4711" and n["state"] == "stale"
                                        for n in slow.router.json("show ip neighbors left")))


def test_commands():
    b = make(False)
    left = b.ports["left"]
    try:
        with pytest.raises(CtlError, match="no ra-suppress"):
            b.ctl("ip6 nd left ra-managed-config-flag")
        assert b.router.json("show ip6 ra") == []
        b.ctl("ip6 nd left no ra-suppress")
        assert bytes(b.left.wait(is_advert)).hex() == bytes(plain(left)).hex()
        b.router.script(
            "ip6 nd left ra-interval 1800 4", "ip6 nd left ra-lifetime 9000", "ip6 nd left ra-managed-config-flag",
            "ip6 nd left ra-other-config-flag", "ip6 nd left ra-hop-limit 9", "ip6 nd left ra-reachable-time 1000",
            "ip6 nd left ra-retrans-timer 2000", "ip6 nd left ra-mtu none", "ip6 nd left ra-preference low",
            "ip6 nd left ra-suppress-link-layer", "ip6 nd left ra-initial 1 16",
            "ip6 nd left prefix 2001:db8:1::/64 100 50 no-onlink", "ip6 nd left prefix 2001:db8:7::/64 infinite no-autoconfig",
            "ip6 nd left dns-server 2001:db8::53", "ip6 nd left dns-domain example.net",
            "ip6 nd left route 2001:db8:9::/48 lifetime 900 high")
        want = (head(left) / ICMPv6ND_RA(chlim=9, M=1, O=1, prf=3, routerlifetime=9000, reachabletime=1000, retranstimer=2000)
                / ICMPv6NDOptPrefixInfo(prefixlen=64, L=0, A=1, validlifetime=100, preferredlifetime=50, prefix="2001:db8:1::")
                / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=0, validlifetime=0xffffffff, preferredlifetime=0xffffffff, prefix="2001:db8:7::")
                / ICMPv6NDOptRouteInfo(len=2, plen=48, prf=1, rtlifetime=900, prefix="2001:db8:9::")
                / ICMPv6NDOptRDNSS(lifetime=5400, dns=["2001:db8::53"]) / ICMPv6NDOptDNSSL(lifetime=5400, searchlist=["example.net"]))
        b.left.wait(lambda p: is_advert(p) and bytes(p) == bytes(want), timeout=10)
        shown = next(i for i in b.router.json("show ip6 interface left"))
        assert shown["advertisements"]["lifetime"] == 9000 and shown["link-local"] == link_local(left)
        assert "prefix 2001:db8:7::/64: valid infinite s" in b.ctl("show ip6 interface left")
        for line, word in (
            ("ip6 nd left ra-interval 10 9", "three quarters"), ("ip6 nd left ra-lifetime 30", "from the longest interval"),
            ("ip6 nd left prefix 2001:db8:1::/64 50 100", "longer than valid"), ("ip6 nd left ra-mtu 1000", "1280"),
            ("ip6 nd left ra-mtu 9000", "more than the interface has"), ("ip6 nd left no dns-server ::7", "not advertised"),
            ("ip6 nd left dns-domain a..b", "not a domain name"), ("ip6 nd left prefix fe80::/64", "link-local"),
        ):
            with pytest.raises(CtlError, match=word):
                b.ctl(line)
        # Hosts are told three times that it is over.
        b.left.drain()
        b.ctl("ip6 nd left ra-suppress")
        for _ in range(3):
            got = b.left.wait(is_advert, timeout=5)
            assert got[ICMPv6ND_RA].routerlifetime == 0 and got[ICMPv6NDOptRDNSS].lifetime == 0
    finally:
        b.close()


def test_an_interface_that_is_set_down_says_so():
    b = first(make({"initial": {"count": 1}}))
    try:
        b.ctl("set interface state left down")
        got = b.left.wait(is_advert, timeout=3)
        assert got[ICMPv6ND_RA].routerlifetime == 0
        b.ctl("set interface state left up")
        got = b.left.wait(is_advert, timeout=5)
        assert got[ICMPv6ND_RA].routerlifetime == 1800
    finally:
        b.close()


def test_answers_to_the_asker_alone():
    b = first(make({"unicast": True, "initial": {"count": 1}}))
    left = b.ports["left"]
    try:
        b.left.send(solicitation(left, "fe80::77"))
        want = plain(left, dst="fe80::77", mac=left.host_mac)
        got = b.left.wait(is_advert, timeout=2)
        assert bytes(got).hex() == bytes(want).hex(), f"\n got {got!r}\nwant {want!r}"
        b.left.drain()
        b.left.send(*[solicitation(left, "fe80::77")] * 150)
        wait_for("all are heard", lambda: b.router.json("show ip6 ra")[0]["solicited"] == 151)
        assert b.router.json("show ip6 ra")[0]["unicast"] <= 61, "20 a second"
    finally:
        b.close()


def test_new_prefixes_are_told_soon():
    b = first(make({"initial": {"count": 1}}))
    try:
        b.ctl("set interface ip address left 2001:db8:55::1/64")
        got = b.left.wait(lambda p: is_advert(p) and b"\x20\x01\x0d\xb8\0\x55" in bytes(p), timeout=6)
        assert got is not None
    finally:
        b.close()


def info(prefix, valid, preferred, auto=1):
    return ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=auto, validlifetime=valid, preferredlifetime=preferred, prefix=prefix)


def prefixes(p):
    """The prefixes of an advertisement with their lifetimes."""
    found, p = {}, p.getlayer(ICMPv6NDOptPrefixInfo)
    while p is not None:
        found[p.prefix] = (p.validlifetime, p.preferredlifetime)
        p = p.payload.getlayer(ICMPv6NDOptPrefixInfo)
    return found


def test_what_is_no_longer_advertised_is_withdrawn():
    """Prefixes, routes and servers that go are told of with lifetimes of 0, three times; then not at all."""
    more = {"2001:db8:aa::/64": {"autonomous": False}, "2001:db8:bb::/64": {}}
    left = {"interval": {"min": 3, "max": 4}, "initial": {"count": 0}, "prefixes": more, "routes": {"2001:db8:9::/48": {}},
            "dns-servers": ["2001:db8::53"], "search-domains": ["example.net"]}
    b = make(left)
    try:
        at = b.ports["left"]
        full = prefixes(b.left.wait(is_advert, timeout=8))
        assert set(full) == {"2001:db8:1::", "2001:db8:aa::", "2001:db8:bb::"}
        b.ctl("set interface ip address left 2001:db8:cc::1/64")
        while set(prefixes(b.left.wait(is_advert, timeout=8))) != {*full, "2001:db8:cc::"}:
            pass
        b.ctl("set interface ip address del left 2001:db8:cc::1/64")
        for what in ("prefix 2001:db8:aa::/64", "route 2001:db8:9::/48", "dns-server 2001:db8::53", "dns-domain example.net"):
            b.ctl(f"ip6 nd left no {what}")
        plain_one = plain(at) / info("2001:db8:bb::", 2592000, 604800)
        gone = (plain_one / info("2001:db8:aa::", 0, 0, auto=0) / info("2001:db8:cc::", 0, 0)
                / ICMPv6NDOptRouteInfo(len=2, plen=48, prf=0, rtlifetime=0, prefix="2001:db8:9::")
                / ICMPv6NDOptRDNSS(lifetime=0, dns=["2001:db8::53"]) / ICMPv6NDOptDNSSL(lifetime=0, searchlist=["example.net"]))
        seen = [bytes(b.left.wait(is_advert, timeout=8)) for _ in range(5)]
        assert seen.count(bytes(gone)) == 3, [Ether(s) for s in seen]
        assert seen[-1] == bytes(plain_one)
        # With its last address goes the one from which the router speaks: hosts are told before.
        b.ctl("set interface ip address del left 2001:db8:1::1/64")
        last = b.left.wait(lambda p: is_advert(p) and p[ICMPv6ND_RA].routerlifetime == 0)
        assert prefixes(last) == {"2001:db8:bb::": (2592000, 604800), "2001:db8:1::": (0, 0)}
    finally:
        b.close()


def test_with_another_mac_address_the_link_local_address_changes():
    """Hosts are told that nobody routes at the old one (RFC 4861 6.2.8); one that the operator chose stays."""
    b = first(make({"initial": {"count": 1}}))
    try:
        old, mac = link_local(b.ports["left"]), "02:00:00:00:77:01"
        b.ctl(f"set interface mac address left {mac}")
        got = b.left.wait(is_advert, timeout=3)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime) == (old, 0)
        got = b.left.wait(is_advert, timeout=5)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime, got.src) == ("fe80::ff:fe00:7701", 1800, mac)
        b.ctl("set interface ip address left fe80::1/64")
        got = b.left.wait(is_advert, timeout=3)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime) == ("fe80::ff:fe00:7701", 0)
        got = b.left.wait(is_advert, timeout=5)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime) == ("fe80::1", 1800)
        b.ctl("set interface mac address left 02:00:00:00:77:02")
        got = b.left.wait(is_advert, timeout=5)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime) == ("fe80::1", 1800)
    finally:
        b.close()


def test_an_interface_that_lends_its_addresses_loses_the_last():
    """Those who use them have no link-local address any more either, and say so before."""
    b = first(Bench({
        "loopbacks": {"loop0": {"addresses": ["2001:db8:cafe::1/64"]}},
        "interfaces": {"left": {"unnumbered": "loop0"}, "right": {"addresses": ["2001:db8:2::1/64"]}},
        "l3": {"interfaces": {"left": {"router-advertisements": {"initial": {"count": 1}}}}},
    }, addresses=False))
    try:
        b.ctl("set interface ip address del loop0 2001:db8:cafe::1/64")
        got = b.left.wait(is_advert, timeout=3)
        assert (got[IPv6].src, got[ICMPv6ND_RA].routerlifetime) == (link_local(b.ports["left"]), 0)
    finally:
        b.close()
