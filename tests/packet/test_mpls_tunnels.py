"""MPLS tunnels as interfaces: IP packets that routes send over them, and frames (pseudowires) that come and go."""

import pytest
from frames import *
from harness import Bench, CtlError
from scapy.contrib.mpls import MPLS
from scapy.packet import bind_layers

bind_layers(Ether, MPLS, type=0x8847)

LSR, LSR6 = "10.0.1.2", "2001:db8:1::2"
# `core` leads to label switching routers; frames of `site` and `other` go over the tunnels. mpls-tunnel1 has a control word.
TUNNELS = {
    "interfaces": {
        "core": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"], "mpls": True},
        "site": {"l2xc": "mpls-tunnel0"},
        "mpls-tunnel0": {"l2xc": "site"},
        "other": {"l2xc": "mpls-tunnel1"},
        "mpls-tunnel1": {"l2xc": "other", "mtu": 1500},
    },
    "mpls": {
        "tunnels": {
            "mpls-tunnel0": {"l2-only": True, "via": [f"{LSR} core out-labels 100 1000"]},
            "mpls-tunnel1": {"l2-only": True, "control-word": True, "via": [f"{LSR} core out-labels 1001"]},
        },
        "local-labels": ["2000 eos via l2-input-on mpls-tunnel0", "2001 eos via l2-input-on mpls-tunnel1"],
    },
}
WORD = bytes(4)
A, B, ALL = "02:00:00:aa:00:01", "02:00:00:aa:00:02", "ff:ff:ff:ff:ff:ff"


@pytest.fixture(scope="module")
def pe():
    b = Bench(TUNNELS, ports=("core", "site", "other"), addresses=False)
    mac = b.ports["core"].host_mac
    b.router.script(f"ip neighbor core {LSR} {mac} static", f"ip neighbor core {LSR6} {mac} static")
    yield b
    b.close()


def stack(*labels, ttl=64):
    entries = [MPLS(label=label, s=int(n + 1 == len(labels)), ttl=ttl) for n, label in enumerate(labels)]
    return b"".join(bytes(e) for e in entries)


def onto(b, labels, rest):
    """A labelled packet that the router sends."""
    port = b.ports["core"]
    return bytes(Ether(dst=port.host_mac, src=port.mac, type=0x8847)) + stack(*labels) + bytes(rest)


def back(b, labels, rest, ttl=64):
    """A labelled packet that comes to the router."""
    port = b.ports["core"]
    return bytes(Ether(dst=port.mac, src=port.host_mac, type=0x8847)) + stack(*labels, ttl=ttl) + bytes(rest)


FRAMES = {
    "ip4": Ether(dst=B, src=A) / udp4("10.9.0.1", "10.9.0.2", size=1400),
    "ip6": Ether(dst=B, src=A) / udp6("2001:db8:9::1", "2001:db8:9::2"),
    "arp": Ether(dst=ALL, src=A) / ARP(hwsrc=A, psrc="10.9.0.1", pdst="10.9.0.2"),
    "tagged": Ether(dst=B, src=A) / Dot1Q(vlan=7) / udp4("10.9.0.1", "10.9.0.2"),
    "two tags": Ether(dst=B, src=A, type=0x88A8) / Dot1AD(vlan=7) / Dot1Q(vlan=8) / udp4("10.9.0.1", "10.9.0.2"),
    "own kind": Ether(dst="01:80:c2:00:00:00", src=A, type=0x1234) / Raw(bytes(50)),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_come_and_go(pe, frame):
    pe.site.send(frame)
    pe.core.expect(onto(pe, (100, 1000), frame))
    pe.other.send(frame)
    pe.core.expect(onto(pe, (1001,), WORD + bytes(frame)))
    pe.core.send(back(pe, (2000,), frame))
    pe.site.expect(frame)
    pe.core.send(back(pe, (2001,), WORD + bytes(frame)))
    pe.other.expect(frame)


def test_control_words(pe):
    """Numbers in the word are ignored; what is none is dropped: an associated channel, a frame without, the end."""
    frame = bytes(FRAMES["ip4"])
    pe.core.send(back(pe, (2001,), bytes([0x0F, 0xFF, 0x12, 0x34]) + frame))
    pe.other.expect(frame)
    for wrong in (b"\x10\0\0\0" + frame, b"\x45" + frame, b"\0\0\0"):
        with pe.counted("pseudowire-no-control-word"):
            pe.core.send(back(pe, (2001,), wrong))
    with pe.counted("frame-too-short"):
        pe.core.send(back(pe, (2001,), WORD + bytes(13)))


def test_a_label_above_the_bottom_is_no_pseudowire(pe):
    pe.core.send(back(pe, (2000, 7, 4711), FRAMES["ip4"]))
    pe.site.expect(FRAMES["ip4"])  # But for an entropy label (RFC 6790).
    with pe.counted("mpls-no-label"):
        pe.core.send(back(pe, (2000, 77), FRAMES["ip4"]))


def test_states_and_counters(pe):
    frame = FRAMES["ip4"]
    before = pe.router.interface("mpls-tunnel0")
    pe.site.send(frame)
    pe.core.expect(onto(pe, (100, 1000), frame))
    pe.core.send(back(pe, (2000,), frame))
    pe.site.expect(frame)
    after = pe.router.interface("mpls-tunnel0")
    for way in ("rx", "tx"):
        got = {k: after[way][k] - before[way][k] for k in ("packets", "bytes")}
        assert got == {"packets": 1, "bytes": len(bytes(frame))}, way
    pe.ctl("set interface state mpls-tunnel0 down")
    with pe.counted("output-interface-down"):
        pe.site.send(frame)
    with pe.counted("pseudowire-interface-down"):
        pe.core.send(back(pe, (2000,), frame))
    pe.ctl("set interface state mpls-tunnel0 up")
    pe.ctl("set interface state core down")
    with pe.counted("mpls-tunnel-no-path"):
        pe.site.send(frame)
    assert "no path can be used now" in pe.ctl("show mpls tunnel mpls-tunnel0")
    pe.ctl("set interface state core up")
    pe.ctl(f"ip neighbor core {LSR} {pe.ports['core'].host_mac} static")
    pe.site.send(frame)
    pe.core.wait(lambda p: bytes(p) == onto(pe, (100, 1000), frame))


def test_other_paths_without_loss(pe):
    frame = FRAMES["ip6"]
    pe.ctl(f"mpls tunnel set mpls-tunnel0 via {LSR} core out-labels 102 1000 ttl 9 exp 5")
    pe.site.send(frame)
    got = Ether(pe.core.recv())
    assert [(m.label, m.cos, m.ttl) for m in (got[MPLS], got[MPLS].payload)] == [(102, 5, 9), (1000, 5, 9)]
    assert "out-labels 102 1000 ttl 9 exp 5" in pe.ctl("show mpls tunnel")
    pe.ctl(f"mpls tunnel set mpls-tunnel0 via {LSR} core out-labels 100 1000")
    pe.site.send(frame)
    pe.core.expect(onto(pe, (100, 1000), frame))


def test_too_large_for_the_labels(pe):
    """1500 bytes hold two labels and a frame of 1492."""
    largest = Ether(dst=B, src=A) / udp4("10.9.0.1", "10.9.0.2", size=1492 - 42)
    pe.site.send(largest)
    pe.core.expect(onto(pe, (100, 1000), largest))
    with pe.counted("mpls-tunnel-frame-too-big"):
        pe.site.send(Ether(dst=B, src=A) / udp4("10.9.0.1", "10.9.0.2", size=1493 - 42))


def test_in_a_bridge_domain(bench):
    """A frame for everybody goes to the other port and over the tunnel; what comes back is learned there."""
    b = bench({"interfaces": {"core": {"addresses": ["10.0.1.1/24"], "mpls": True}, "site": {}, "other": {},
                              "mpls-tunnel4": {}},
               "bridgedomains": {"bd10": {"interfaces": ["site", "other", "mpls-tunnel4"]}},
               "mpls": {"tunnels": {"mpls-tunnel4": {"l2-only": True, "via": f"{LSR} core out-labels 1000"}},
                        "local-labels": ["2000 via l2-input-on mpls-tunnel4"]}},
              ports=("core", "site", "other"), addresses=False)
    b.ctl(f"ip neighbor core {LSR} {b.ports['core'].host_mac} static")
    ask = FRAMES["arp"]
    b.site.send(ask)
    b.core.expect(onto(b, (1000,), ask))
    b.other.expect(ask)
    answer = Ether(dst=A, src=B) / ARP(op=2, hwsrc=B, psrc="10.9.0.2", hwdst=A, pdst="10.9.0.1")
    b.core.send(back(b, (2000,), answer))
    b.site.expect(answer)
    packet = FRAMES["ip4"]
    b.site.send(packet)
    b.core.expect(onto(b, (1000,), packet))
    assert {e["mac"]: e["interface"] for e in b.router.json("show l2fib bd_id 10")["entries"]}[B] == "mpls-tunnel4"
    # Nothing of that went to the other port, which sees the next broadcast.
    b.core.send(back(b, (2000,), Ether(dst=ALL, src=B) / Raw(bytes(46))))
    b.other.expect(Ether(dst=ALL, src=B) / Raw(bytes(46)))


def test_routes_over_a_tunnel(bench):
    """IP packets of both families get the tunnel's labels, outside of those of the route."""
    b = bench({"interfaces": {"core": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                              "site": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}},
              ports=("core", "site"), addresses=False)
    b.ctl(f"ip neighbor core {LSR} {b.ports['core'].host_mac} static")
    b.ctl(f"ip neighbor site 10.0.2.2 {b.ports['site'].host_mac} static")
    assert b.ctl(f"mpls tunnel add via {LSR} core out-labels 100").strip() == "mpls-tunnel0"
    b.ctl("ip route add 198.51.100.0/24 via mpls-tunnel0")
    b.ctl("ip route add 203.0.113.0/24 via mpls-tunnel0 out-labels 55")
    b.ctl("ip route add 2001:db8:77::/48 via mpls-tunnel0 out-labels 2")
    host = into(b.ports["site"])

    def four(dst, ttl):
        return udp4("10.0.2.2", dst, ttl=ttl)

    def expect(labels):
        b.site.send(host / four("198.51.100.9", 9))
        b.core.expect(onto(b, labels, four("198.51.100.9", 8)))
        b.site.send(host / four("203.0.113.9", 9))
        b.core.expect(onto(b, (*labels, 55), four("203.0.113.9", 8)))
        b.site.send(host / udp6("2001:db8:2::2", "2001:db8:77::9", hlim=9))
        b.core.expect(onto(b, (*labels, 2), udp6("2001:db8:2::2", "2001:db8:77::9", hlim=8)))

    # It is down at first: routes over it lead nowhere.
    b.site.send(host / four("198.51.100.9", 9))
    assert Ether(b.site.recv())[ICMP].type == 3
    b.ctl("set interface state mpls-tunnel0 up")
    expect((100,))
    b.ctl(f"mpls tunnel set mpls-tunnel0 via {LSR} core out-labels 33 101")
    expect((33, 101))
    # A tunnel inside of another one.
    b.ctl("mpls tunnel add instance 7 via mpls-tunnel0 out-labels 500")
    b.ctl("set interface state mpls-tunnel7 up")
    b.ctl("ip route set 198.51.100.0/24 via mpls-tunnel7")
    b.site.send(host / four("198.51.100.9", 9))
    b.core.expect(onto(b, (33, 101, 500), four("198.51.100.9", 8)))
    text = b.ctl("show mpls tunnel")
    assert "mpls-tunnel7: ip, up" in text and "via mpls-tunnel0 out-labels 500" in text
    for line, why in (
        ("mpls tunnel del mpls-tunnel0", "mpls-tunnel7 goes over mpls-tunnel0"),
        ("mpls tunnel del mpls-tunnel7", "1 static routes go over"),
        ("delete interface core", "goes over core"),
        ("set interface ip address mpls-tunnel0 10.5.0.1/24", "l2-only"),
        ("set interface l2 xconnect mpls-tunnel0 core", "l2-only"),
        ("mpls tunnel add via 10.0.1.2 core", "needs labels"),
        ("mpls tunnel add via 10.0.1.2 core out-labels 3", "needs labels"),
        ("mpls tunnel add via 10.0.1.2 core out-labels 7", "label 7 is reserved"),
        ("mpls tunnel add via core out-labels 100", "name its address"),
        ("mpls tunnel add instance 7 via 10.0.1.2 core out-labels 100", "an interface mpls-tunnel7 already"),
        ("mpls tunnel set core via 10.0.1.2 core out-labels 100", "no MPLS tunnel"),
        ("mpls local-label add 600 eos via l2-input-on mpls-tunnel0", "l2-only"),
        ("mpls local-label add 600 non-eos via l2-input-on site", "use eos"),
    ):
        with pytest.raises(CtlError, match=why):
            b.ctl(line)
    b.ctl("ip route del 198.51.100.0/24")
    b.ctl("mpls tunnel del mpls-tunnel7")


def test_a_dump_holds_the_tunnels(pe):
    config = pe.router.json("show configuration")
    assert config["mpls"] == TUNNELS["mpls"]
    fields = config["interfaces"]["mpls-tunnel0"]
    assert fields.pop("mac").startswith("02:fe:88:") and fields == {"l2xc": "site"}
