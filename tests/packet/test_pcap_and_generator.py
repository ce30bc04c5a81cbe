"""Capture files as wires, captures of traffic, the packet generator, and the trace: each read back with Scapy."""




import pytest
from frames import *  # noqa: F403
from frames import IP, UDP, Dot1Q, Ether, ICMP, into, out_of, through4, through6, udp4, udp6
from harness import CtlError, Netns, Router, wait_for
from harness.wire import is_chatter
from scapy.utils import PcapReader, wrpcap


def read(path):
    """The frames of a capture file, as bytes."""
    with PcapReader(str(path)) as r:
        return [bytes(p) for p in r]


@pytest.fixture
def alone():
    """Starts routers without wires."""
    ns = Netns("p")
    started = []

    def start(config):
        started.append(Router(ns, config))
        return started[-1]

    yield start
    for r in started:
        r.stop()
    ns.delete()


PORTS = {"in0": ("10.0.1.1/24", "2001:db8:1::1/64"), "out0": ("10.0.2.1/24", "2001:db8:2::1/64")}
MAC_IN, MAC_OUT, HOST_IN, HOST_OUT = (f"02:00:00:00:0{i}:0{j}" for i in (1, 2) for j in (1, 2))
MAC_IN, HOST_IN, MAC_OUT, HOST_OUT = MAC_IN, MAC_OUT, HOST_IN, HOST_OUT


def replay(tmp_path, **options):
    return {
        "interfaces": {"in0": {"addresses": list(PORTS["in0"]), "mac": MAC_IN},
                       "out0": {"addresses": list(PORTS["out0"]), "mac": MAC_OUT}},
        "devices": {"in0": {"driver": "pcap", "pcap": {"read": str(tmp_path / "in.pcap"), "write": str(tmp_path / "back.pcap"), **options}},
                    "out0": {"driver": "pcap", "pcap": {"write": str(tmp_path / "out.pcap")}}},
        "neighbors": [{"interface": "in0", "address": a, "mac": HOST_IN} for a in ("10.0.1.2", "2001:db8:1::2")]
        + [{"interface": "out0", "address": a, "mac": HOST_OUT} for a in ("10.0.2.2", "2001:db8:2::2")],
        "quiver": {"dad": "off"}, "punt": {c: {"rate": 100000} for c in ("ttl-exceeded", "icmp-error")},
    }


def there(i):
    """Frame number i of a mix of good and bad ones, and what comes out."""
    ether, out = Ether(dst=MAC_IN, src=HOST_IN), Ether(dst=HOST_OUT, src=MAC_OUT)
    kind = i % 5
    if kind == 0:
        return ether / udp4("10.0.1.2", "10.0.2.2", id=i), out / udp4("10.0.1.2", "10.0.2.2", id=i, ttl=63)
    if kind == 1:
        return ether / udp6("2001:db8:1::2", "2001:db8:2::2", fl=i), out / udp6("2001:db8:1::2", "2001:db8:2::2", fl=i, hlim=63)
    if kind == 2:
        return ether / udp4("10.0.1.2", "10.0.2.2", id=i, chksum=7), None
    if kind == 3:
        return Ether(dst=MAC_IN, src=HOST_IN, type=0x88B5) / bytes([i % 256] * 40), None
    return bytes(ether)[:13], None


@pytest.mark.parametrize("size", [1, 3, 4, 5, 255, 256, 257, 1000])
def test_vectors_of_good_and_bad_frames(alone, tmp_path, size):
    """A capture file fills vectors to the brim: each frame of one meets its own fate, in order."""
    made = [there(i) for i in range(size)]
    wrpcap(str(tmp_path / "in.pcap"), [bytes(f) for f, _ in made], linktype=1)
    r = alone(replay(tmp_path))
    errors = r.errors
    want = {"ip4-bad-checksum": sum(i % 5 == 2 for i in range(size)), "unknown-ethertype": sum(i % 5 == 3 for i in range(size)),
            "frame-too-short": sum(i % 5 == 4 for i in range(size))}
    out = [bytes(w) for _, w in made if w is not None]

    def done():
        return r.interface("in0")["rx"]["packets"] == size and all(errors().get(k, 0) >= v for k, v in want.items())

    wait_for("the whole file has passed", done)
    assert {k: errors().get(k, 0) for k in want} == want
    r.check_quiet()
    r.kill(15)
    got = [f for f in read(tmp_path / "out.pcap") if not is_chatter(f)]
    for family in (b"\x08\x00", b"\x86\xdd"):
        assert [f for f in got if f[12:14] == family] == [f for f in out if f[12:14] == family]


def test_frames_that_no_wire_would_carry(alone, tmp_path):
    """Cut off headers and tags reach their checks from a file."""
    frames = [bytes(13), b"\x02", bytes.fromhex("020000000101 020000000102 88a8 00"), bytes.fromhex("020000000101 020000000102 8100 0005 81")]
    wrpcap(str(tmp_path / "in.pcap"), frames, linktype=1)
    r = alone(replay(tmp_path))
    wait_for("counted", lambda: r.errors().get("frame-too-short", 0) + r.errors().get("truncated-vlan-tag", 0) == 4)
    assert r.errors()["truncated-vlan-tag"] == 2
    r.check_quiet()


def test_rate_and_loop(alone, tmp_path):
    wrpcap(str(tmp_path / "in.pcap"), [bytes(there(0)[0])] * 10, linktype=1)
    r = alone(replay(tmp_path, rate=200, loop=True))
    began = r.interface("in0")["rx"]["packets"]
    wait_for("it goes on beyond the end of the file", lambda: r.interface("in0")["rx"]["packets"] > began + 20)
    runtime = r.json("show runtime")[0]
    assert 100 < runtime["packets-in"] / runtime["time"] < 400
    r.ctl("set interface state in0 down")


def test_a_missing_file_is_said(tmp_path):
    ns = Netns("p")
    try:
        r = Router(ns, replay(tmp_path), wait=False)
        assert r.process.wait(timeout=10) != 0
        assert "in.pcap" in r.log() and "panic" not in r.log()
        r.stop()
    finally:
        ns.delete()


def test_pcap_trace(pair, tmp_path):
    """What comes in, goes out and is dropped, each in its own capture."""
    a, b = pair.ports["left"], pair.ports["right"]
    sent, want = through4(a, b)
    bad = into(a) / udp4(a.host, b.host, chksum=1)
    for port in ("left", "right"):
        pair.settle(port)
    for words, frames in (("rx", [sent, bad]), ("tx", [want]), ("drop", [bad]), ("rx tx", [sent, bad, want])):
        file = tmp_path / (words.replace(" ", "-") + ".pcap")
        pair.ctl(f"pcap trace {words} max 100 file {file}")
        assert words.split()[0] in pair.ctl("pcap trace status")
        with pair.counted("ip4-bad-checksum"):
            pair.left.send(sent, bad)
            pair.right.expect(want)
        pair.ctl("pcap trace off")
        assert sorted(read(file)) == sorted(bytes(f) for f in frames), words
    file = tmp_path / "max.pcap"
    pair.ctl(f"pcap trace rx max 3 file {file}")
    pair.left.send(*[sent] * 10)
    pair.right.take(10)
    assert "3" in pair.ctl("pcap trace off") and len(read(file)) == 3
    file = tmp_path / "one.pcap"
    pair.ctl(f"pcap trace rx tx max 100 intfc right file {file}")
    pair.left.send(sent)
    pair.right.expect(want)
    pair.ctl("pcap trace off")
    assert read(file) == [bytes(want)]
    with pytest.raises(CtlError):
        pair.ctl("pcap trace off")


def test_trace_tells_the_path(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    sent, want = through4(a, b)
    pair.ctl("trace add af-packet-input 2")
    with pair.counted("ip4-bad-checksum"):
        pair.left.send(sent, into(a) / udp4(a.host, b.host, chksum=1), sent)
        pair.right.expect(want, want)
    text = pair.ctl("show trace")
    assert "Packet 1" in text and "Packet 2" in text and "Packet 3" not in text
    path = ["af-packet-input", "ethernet-input", "ip4-input", "ip4-lookup", "ip4-rewrite", "interface-output"]
    at = [text.index(node) for node in path]
    assert at == sorted(at)
    for word in ("10.0.1.2", "10.0.2.2", "ttl 64", "ttl 63", "1000 -> 2000", "ip4-bad-checksum", b.host_mac):
        assert word in text, f"{word} is not in\n{text}"
    packets = pair.router.json("show trace")
    assert [p["packet"] for p in packets] == [1, 2]
    assert [s["node"] for s in packets[0]["steps"]][:5] == path[:5]
    assert [s["drop"]["reason"] for s in packets[1]["steps"] if s["drop"]] == ["ip4-bad-checksum"]
    pair.ctl("clear trace")
    assert "No packets in trace buffer" in pair.ctl("show trace")


def test_generator_from_commands(bench):
    """Increments and lengths as asked, injected at ethernet-input and at ip4-input; the count is kept."""
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl('packet-generator new one interface left count 20 rate 10k size 100 state enabled data '
          f'"ethernet src {a.host_mac} dst {a.mac} / ipv4 src {a.host} dst 10.0.2.2 ttl 9 / udp sport 1000-1009 dport 53"')
    for i, frame in enumerate(t.right.take(20)):
        p = Ether(frame)
        assert (len(frame), p.src, p.dst, p[IP].src, p[IP].ttl, p[UDP].sport, p[UDP].dport) == (
            100, b.mac, b.host_mac, a.host, 8, 1000 + i % 10, 53)
        again = Ether(bytes(p))
        del again[IP].chksum, again[UDP].chksum
        rebuilt = Ether(bytes(again))
        assert rebuilt[IP].chksum == p[IP].chksum and p[UDP].chksum in (0, rebuilt[UDP].chksum)
    rows = {r["name"]: r for r in t.router.json("show packet-generator")}
    assert rows["one"]["packets"] == 20
    t.ctl('packet-generator new two interface left node ip6-input count 5 size 60-64 data '
          f'"ipv6 src {a.host6} dst {b.host6} hop-limit 3 / icmp-echo id 7 seq 1-5"')
    assert t.right.recv(timeout=0.1) is None, "a stream is disabled at first"
    t.ctl("packet-generator enable two")
    from frames import ICMPv6EchoRequest, IPv6

    for i, frame in enumerate(t.right.take(5)):
        p = Ether(frame)
        assert (len(frame) - 14, p[IPv6].hlim, p[ICMPv6EchoRequest].seq) == (60 + i, 2, 1 + i)
    t.ctl("packet-generator delete two")
    assert [r["name"] for r in t.router.json("show packet-generator")] == ["one"]
    for wrong, place in (("packet-generator new x interface nowhere data \"raw 00\"", "nowhere"),
                         ("packet-generator new x interface left rate fast data \"raw 00\"", "fast"),
                         ("packet-generator enable nothing", "nothing")):
        with pytest.raises(CtlError) as e:
            t.ctl(wrong)
        assert place in str(e.value)


def test_generator_from_yaml(bench):
    t = bench({"packet-generator": [{
        "name": "vlan", "interface": "left", "state": "enabled", "count": 6, "rate": 1000, "size": "80-82",
        "layers": [{"ethernet": {"src": "02:00:00:00:01:02", "dst": "02:00:00:00:01:01"}}, {"vlan": {"id": 0, "pcp": 5}},
                   {"ipv4": {"src": "10.0.1.2", "dst": "10.0.2.2-10.0.2.3", "dscp": 46}}, {"udp": {"sport": 7, "dport": 9}},
                   {"raw": "cafe"}]}]},
        start=False)
    t.config["neighbors"].append({"interface": "right", "address": "10.0.2.3", "mac": "02:00:00:00:02:03"})
    from harness import Router as R

    t.router = R(t.inside, t.config)
    got = [Ether(f) for f in t.right.take(6)]
    assert [(len(p), p[IP].dst, p.dst, p[IP].tos) for p in got] == [
        (80 - 4 + i % 3, f"10.0.2.{2 + i % 2}", f"02:00:00:00:02:0{2 + i % 2}", 0xB8) for i in range(6)]
    assert all(bytes(p[UDP].payload)[:2] == b"\xca\xfe" for p in got)


def test_generator_at_full_speed_gives_all_buffers_back(bench):
    t = bench()
    a = t.ports["left"]
    t.ctl('packet-generator new flood interface left node ip4-input size 64 count 500000 data '
          f'"ipv4 src {a.host} dst 192.0.2.1 / udp sport 1024-65535 random dport 9"')
    t.ctl("ip route add 192.0.2.0/24 via drop")
    with t.counted("ip4-route-drop", 500000):
        t.ctl("packet-generator enable flood")
    nodes = {n["name"]: n for n in t.router.json("show runtime")[0]["nodes"]}
    assert nodes["ip4-lookup"]["vectors-per-call"] > 100
    assert nodes["ip4-lookup"]["vectors"] >= 500000


