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
