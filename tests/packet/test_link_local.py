"""The operator's own link-local address, in place of the one made from the MAC address."""

import pytest
from frames import *
from frames import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr
from harness import Bench, CtlError, wait_for
from scapy.layers.inet6 import ICMPv6ND_RA

OWN, MADE = "fe80::1", "fe80::ff:fe00:101"


@pytest.fixture(scope="module")
def local():
    b = Bench({"interfaces": {"left": {"addresses": [f"{OWN}/64"]}},
               "l3": {"interfaces": {"left": {"router-advertisements": True}}}})
    yield b
    b.close()


def solicited(b, target):
    """The answer to a solicitation for `target`, or None: what is sent behind it is answered first."""
    left = b.ports["left"]
    b.left.drain()

    def ask(t):
        return (Ether(src=left.host_mac, dst=left.mac) / IPv6(src="fe80::9", dst=t, hlim=255)
                / ICMPv6ND_NS(tgt=t) / ICMPv6NDOptSrcLLAddr(lladdr=left.host_mac))

    b.left.send(ask(target), ask(left.ip6))
    got = b.left.wait(lambda p: ICMPv6ND_NA in p)
    return got if got[ICMPv6ND_NA].tgt == target else None


def speaks_from(b, address):
    return b.left.wait(lambda p: ICMPv6ND_RA in p and p[IPv6].src == address, timeout=8)


def test_it_is_used_and_can_be_changed(local):
    b = local
    assert f"L3 {OWN}/64 (link-local" in b.ctl("show interface address left")
    assert solicited(b, OWN)[IPv6].src == OWN and solicited(b, MADE) is None
    with pytest.raises(CtlError, match="has the link-local address fe80::1/64"):
        b.ctl("set interface ip address left fe80::2/64")
    wait_for("it advertises", lambda: b.router.json("show ip6 ra")[0]["sent"] >= 1)
    b.left.drain()
    # Hosts are told that the old one is no router any more, and of the new one.
    b.ctl(f"set interface ip address del left {OWN}/64")
    gone = speaks_from(b, OWN)
    assert gone[ICMPv6ND_RA].routerlifetime == 0
    assert speaks_from(b, MADE)[ICMPv6ND_RA].routerlifetime == 1800
    assert solicited(b, OWN) is None and solicited(b, MADE)[IPv6].src == MADE
    b.ctl("set interface ip address left fe80::abcd/64")
    assert solicited(b, MADE) is None and solicited(b, "fe80::abcd")[IPv6].src == "fe80::abcd"
    # It stays when the MAC address changes, and is enough for IPv6 on its own.
    b.ctl(f"set interface ip address del left {b.ports['left'].ip6}/64")
    assert "fe80::abcd" in b.ctl("show interface address left")
    b.ctl("set interface ip address del left fe80::abcd/64")
    assert "fe80" not in b.ctl("show interface address left")


def test_where_it_is_refused(local):
    b = local
    b.ctl("create bridge-domain 5")
    b.ctl("set interface ip address del right 10.0.2.1/24")
    b.ctl("set interface ip address del right 2001:db8:2::1/64")
    b.ctl("set interface l2 bridge right 5")
    with pytest.raises(CtlError, match="is in bridge domain 5"):
        b.ctl("set interface ip address right fe80::1/64")
    b.ctl("set interface l3 right")
    b.ctl("set interface ip address right fe80::1/64")
    with pytest.raises(CtlError, match="has the address fe80::1/64"):
        b.ctl("set interface l2 bridge right 5")


def test_pings_from_a_link_local_address_take_the_gateway(bench):
    """A link without other addresses: what is behind the neighbour is not on the link."""
    b = bench({"interfaces": {"left": {"addresses": ["fe80::1/64"]}}}, addresses=False)
    left, gateway, to = b.ports["left"], "02:00:00:00:01:77", "2001:db8:99::1"
    b.ctl(f"ip neighbor left fe80::2 {gateway}")
    b.ctl("ip route add 2001:db8:99::/48 via fe80::2 left")
    for line in (f"ping {to}", f"ping {to} source left", f"ping {to} source fe80::1", f"traceroute {to}",
                 f"traceroute {to} source left"):
        b.left.drain()
        more = "repeat 1 timeout 100ms" if line.startswith("ping") else "max 1 timeout 100ms"
        b.router.ctl_raw(f"{line} {more}")
        got = b.left.wait(lambda p: IPv6 in p and p[IPv6].dst == to or ICMPv6ND_NS in p and p[ICMPv6ND_NS].tgt == to)
        assert ICMPv6ND_NS not in got, f"{line}: {to} is asked for on the link"
        assert (got.src, got.dst, got[IPv6].src) == (left.mac, gateway, "fe80::1"), line
    # The neighbour itself is reached on its link.
    b.left.drain()
    b.router.ctl_raw("ping fe80::2 source left repeat 1 timeout 100ms")
    assert b.left.wait(lambda p: IPv6 in p and p[IPv6].dst == "fe80::2").dst == gateway
