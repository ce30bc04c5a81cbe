"""A BVI has stations behind it, as every interface with a wire: static neighbours, groups and router advertisements."""

import pytest
from frames import *  # noqa: F403
from frames import (
    ICMP, IP, Ether, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrHopByHop,
    in6_getnsma, in6_getnsmac, udp4, udp6,
)
from harness import Bench, CtlError
from scapy.layers.inet6 import ICMPv6MLQuery, ICMPv6MLReport2, ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptPrefixInfo, RouterAlert

STATION, OTHER, BVI = "02:00:00:00:07:01", "02:00:00:00:07:02", "02:00:00:00:10:10"
LOCAL = "fe80::1"

CONFIG = {
    "interfaces": {"third": {"addresses": ["10.30.0.1/24", "2001:db8:30::1/64"]}},
    "loopbacks": {
        "loop10": {"mac": BVI, "addresses": ["10.10.0.1/24", "2001:db8:10::1/64", f"{LOCAL}/64"]},
        "loop11": {"addresses": ["10.11.0.1/24"]},
    },
    "bridgedomains": {"bd10": {"bvi": "loop10", "interfaces": ["left", "right"]}},
    "neighbors": [{"interface": "loop10", "address": "10.10.0.9", "mac": STATION},
                  {"interface": "loop10", "address": "2001:db8:10::9", "mac": STATION}],
    "l3": {"interfaces": {"loop10": {
        "groups": ["224.0.0.5", "ff02::5"],
        "router-advertisements": {"prefixes": {"2001:db8:aa::/64": {"valid": 3000, "preferred": 2000}}}}}},
}


@pytest.fixture(scope="module")
def bvi():
    b = Bench(CONFIG, ports=("left", "right", "third"), addresses=False, neighbors=False)
    b.settle("left")
    b.right.drain()
    yield b
    b.close()


def test_static_neighbors(bvi):
    third = bvi.ports["third"]
    for sent, down in ((udp4("10.30.0.2", "10.10.0.9"), udp4("10.30.0.2", "10.10.0.9", ttl=63)),
                       (udp6("2001:db8:30::2", "2001:db8:10::9"), udp6("2001:db8:30::2", "2001:db8:10::9", hlim=63))):
        bvi.third.send(Ether(src=third.host_mac, dst=third.mac) / sent)
        # Nobody was heard of, so the frame goes to all members.
        for wire in (bvi.left, bvi.right):
            wire.expect(Ether(src=BVI, dst=STATION) / down)


def test_advertisements(bvi):
    """Who solicits hears the prefixes, and so does everybody else in the bridge domain."""
    bvi.left.send(Ether(src=OTHER, dst="33:33:00:00:00:02") / IPv6(src="fe80::77", dst="ff02::2", hlim=255) / ICMPv6ND_RS()
                  / ICMPv6NDOptSrcLLAddr(lladdr=OTHER))
    for wire in (bvi.left, bvi.right):
        told = wire.wait(lambda p: ICMPv6ND_RA in p)
        assert (told.src, told[IPv6].src, told[ICMPv6ND_RA].routerlifetime) == (BVI, LOCAL, 1800)
        prefixes, option = set(), told[ICMPv6ND_RA].payload
        while option:
            if isinstance(option, ICMPv6NDOptPrefixInfo):
                prefixes.add(option.prefix)
            option = option.payload
        assert prefixes == {"2001:db8:10::", "2001:db8:aa::"}


def test_groups(bvi):
    """It says which groups it is in, those of its addresses among them, and takes what comes for them."""
    rows = {(r["interface"], r["group"]) for r in bvi.router.json("show ip groups")}
    solicited = in6_getnsma(bytes.fromhex("20010db8001000000000000000000001"))
    assert solicited == bytes.fromhex("ff0200000000000000000001ff000001")
    assert {("loop10", g) for g in ("224.0.0.5", "ff02::5", "224.0.0.2", "ff02::1:ff00:1")} <= rows, rows
    assert not {g for i, g in rows if i == "loop11"}
    query = IPv6(src="fe80::99", dst="ff02::1", hlim=1) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6MLQuery(mrd=1)
    bvi.left.send(Ether(src=OTHER, dst="33:33:00:00:00:01") / query)
    bvi.right.wait(lambda p: ICMPv6MLReport2 in p or p.haslayer("ICMPv6MLReport"))
    taken = Ether(src=OTHER, dst="01:00:5e:00:00:05") / IP(src="10.10.0.77", dst="224.0.0.5", ttl=1, proto=89) / bytes(24)
    other = Ether(src=OTHER, dst="01:00:5e:00:00:06") / IP(src="10.10.0.77", dst="224.0.0.6", ttl=1, proto=89) / bytes(24)
    with bvi.counted("ip4-multicast-not-handled"):
        bvi.left.send(taken, other)


def test_it_is_what_a_dump_says():
    text = Bench(CONFIG, ports=("left", "right", "third"), addresses=False, neighbors=False)
    try:
        dump = text.ctl("show configuration")
        text.router.kill(15)
        with open(text.router.file, "w") as f:
            f.write(dump)
        text.router.start()
        assert text.ctl("show configuration") == dump
    finally:
        text.close()


def test_nobody_is_behind_another_loopback(bvi):
    for line in ("ip neighbor loop11 10.11.0.9 02:00:00:00:00:09 static", "ip6 nd loop11 no ra-suppress",
                 "set interface ip group join loop11 224.0.0.5"):
        with pytest.raises(CtlError, match="loopback"):
            bvi.ctl(line)


def test_it_stays_while_it_is_needed(bvi):
    for undo, again in (
        ("ip neighbor del loop10 10.10.0.9", f"ip neighbor loop10 10.10.0.9 {STATION} static"),
        ("ip neighbor del loop10 2001:db8:10::9", f"ip neighbor loop10 2001:db8:10::9 {STATION} static"),
        ("set interface ip group leave loop10 224.0.0.5", "set interface ip group join loop10 224.0.0.5"),
        ("set interface ip group leave loop10 ff02::5", "set interface ip group join loop10 ff02::5"),
        ("ip6 nd loop10 ra-suppress", None),
    ):
        with pytest.raises(CtlError, match="loop10 .* first"):
            bvi.ctl("set interface l3 loop10")
        assert bvi.router.json("show bridge-domain 10")[0]["bvi"] == "loop10"
        bvi.ctl(undo)
    bvi.ctl("set interface l3 loop10")
    assert not {r["group"] for r in bvi.router.json("show ip groups") if r["interface"] == "loop10"}
    bvi.ctl("set interface l2 bridge loop10 10 bvi")
    assert {r["group"] for r in bvi.router.json("show ip groups") if r["interface"] == "loop10"}
    # It is not deleted while it is one, and does not lose what was set for it.
    bvi.ctl(f"ip neighbor loop10 10.10.0.9 {STATION} static")
    bvi.ctl("ip6 nd loop10 no ra-suppress")
    with pytest.raises(CtlError, match="loop10 is the BVI of bridge domain 10: take it out first"):
        bvi.ctl("delete loopback interface intfc loop10")
    assert "10.10.0.9" in bvi.ctl("show ip neighbors")
    bvi.ctl("ip neighbor del loop10 10.10.0.9")
    bvi.ctl("ip6 nd loop10 ra-suppress")
    bvi.ctl("set interface l3 loop10")
    bvi.ctl("delete loopback interface intfc loop10")
