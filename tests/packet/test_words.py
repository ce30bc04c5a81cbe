"""What operators and programs say to the router: VPP's words, filters, the control protocol, traceroute, rates."""

import json
import os
import re
import socket
import threading
import time

import pytest
from frames import *  # noqa: F403
from frames import ICMP, IP, UDP, Ether, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6, into, through4
from harness import CtlError, wait_for
from harness.router import REPO


def same(got, want):
    """Whether an answer is the one of the document, in which "..." stands for anything."""
    if want == "...":
        return True
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    return got == want


def test_the_examples_of_the_control_protocol(pair):
    with open(os.path.join(REPO, "docs", "control-protocol.md")) as f:
        text = f.read()
    lines = [line for block in re.findall(r"```json\n(.*?)```", text, re.S) for line in block.splitlines()]
    assert len(lines) > 25
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(pair.router.socket)
        answers = s.makefile()
        for line in lines:
            way, message = line[0], json.loads(line[1:])
            if way == ">":
                s.sendall(json.dumps(message).encode() + b"\n")
            else:
                got = json.loads(answers.readline())
                assert same(got, message), f"{got}\nis not\n{message}"


ALIASES = [
    ("show ip arp", "show ip4 neighbors"), ("show ip route", "show ip fib"), ("show ip route 10.0.2.2", "show ip fib 10.0.2.2"),
    ("show ip route summary", "show ip fib summary"), ("show ip6 route", "show ip6 fib"), ("show adj nbr", None),
    ("show node counters", "show errors"), ("show vlib graph", "show graph"), ("show ip fib default", "show ip fib 0.0.0.0/0"),
]


@pytest.mark.parametrize("line, same_as", ALIASES)
def test_words_of_vpp(pair, line, same_as):
    def plain(text):
        return re.sub(r"^ *[0-9.]+  ", "", text, flags=re.M)  # Ages of neighbors run on.
    assert pair.ctl(line).strip()
    if same_as:
        assert plain(pair.ctl(line)) == plain(pair.ctl(same_as))


def test_routes_as_people_type_them(pair):
    t = pair
    t.ctl("ip table add 77 red")
    try:
        before = t.router.json("show ip fib all"), t.router.json("show ip6 fib all")
        for add, show, what in [
            ("default via 10.0.2.2", "show ip fib", "0.0.0.0/0"),
            ("default via 2001:db8:2::2 right", "show ip6 fib", "::/0"),
            ("10.80.0.0/16 via 10.0.2.2 dev right", "show ip fib", "10.80.0.0/16"),
            ("10.80.0.0/16 dev right", "show ip fib", "10.80.0.0/16"),
            ("table 77 10.80.0.0/16 via drop", "show ip fib table red", "10.80.0.0/16"),
            ("10.80.0.0/16 table red via drop", "show ip fib table 77", "10.80.0.0/16"),
            ("10.80.0.0/16 via drop table red", "show ip fib table red", "10.80.0.0/16"),
        ]:
            t.ctl(f"ip route add {add}")
            assert re.search(rf"^{re.escape(what)}\s", t.ctl(show), re.M), (add, t.ctl(show))
            where = re.search(r"table \w+", add)
            t.ctl(f"ip route del {where[0] if where else ''} {what}")
        # Counting up, across the byte.
        t.ctl("ip route add 10.80.254.0/24 count 4 via 10.0.2.2 right")
        text = t.ctl("show ip fib")
        for net in ("10.80.254.0/24", "10.80.255.0/24", "10.81.0.0/24", "10.81.1.0/24"):
            assert net in text
        assert "10.81.2.0/24" not in text
        t.ctl("ip route del 10.80.254.0/24 count 4")
        t.ctl("ip6 route add count 3 2001:db8:a0::/48 via 2001:db8:2::2 right")
        assert "2001:db8:a2::/48" in t.ctl("show ip6 fib")
        t.ctl("ip6 route del 2001:db8:a0::/48 count 3 via 2001:db8:2::2 right")
        assert before == (t.router.json("show ip fib all"), t.router.json("show ip6 fib all"))
        for wrong, why in [
            ("ip route add 255.255.254.0/24 count 3 via drop", "there are no 3 prefixes from 255.255.254.0/24 on"),
            ("ip route add table 77 10.80.0.0/16 table 77 via drop", "'table' is given twice"),
            ("ip route add 10.80.0.0/16 table blue via drop", "'blue' is not a number, nor a name: red"),
            ("show ip fib table blue", "'blue' is not a number, nor a name: red"),
            ("ip route del 10.80.0.0/24 count 2", "10.80.0.0/24"),
        ]:
            with pytest.raises(CtlError) as e:
                t.ctl(wrong)
            assert why in str(e.value)
    finally:
        t.ctl("ip table del red")


def test_unknown_words_are_answered_with_what_is_meant(pair):
    for line, says in [
        ("show acl-plugin acl", "VPP has 'show acl-plugin acl', Quiver has nothing like it"),
        ("show frame-queue", "VPP has 'show frame-queue', Quiver has not: 'show punt'"),
        ("set bridge-domain default-learn-limit 5", "'set l2fib learn-limit' all"),
        ("trace add avf-input 10", "no node 'avf-input': VPP reads devices with it, Quiver reads Linux devices with 'af-packet-input'"),
        ("create vxlan-gpe tunnel local 10.0.0.1", "VPP has 'create vxlan-gpe tunnel', Quiver has nothing like it"),
        ("show interface features left", "'show features INTERFACE' tells them"),
        ("clear l2fib", "'l2fib flush-mac all' forgets what was learned"),
        ("set interface rx-mode left polling", "'set workers polling' chooses it"),
        ("set ip neighbor-config ip4 limit 100", "the field 'neighbor' of the document"),
        ("show interfaec", "did you mean 'interface'?"),
        ("show neighbors", "did you mean 'show ip neighbors'"),
        ("set interface state lefft up", "no interface 'lefft'; did you mean 'left'?"),
    ]:
        with pytest.raises(CtlError) as e:
            pair.ctl(line)
        assert says in str(e.value), str(e.value)


def test_bridge_domains_loopbacks_and_ranges(bench):
    t = bench()
    t.ctl("create bridge-domain 77")
    t.ctl("delete bridge-domain 77")
    assert "77" not in t.ctl("show bridge-domain")
    assert t.ctl("loopback create instance 7").strip() == "loop7"
    t.ctl("loopback delete loop7")
    names = [f"left.{n}" for n in range(110, 121)]
    assert t.ctl("create sub left 110-120").split() == names
    assert [row["name"] for row in t.router.json("show interface") if row["name"].startswith("left.")] == names
    with pytest.raises(CtlError, match="neither a number"):
        t.ctl("create sub left 120-110")
    with pytest.raises(CtlError):
        t.ctl("create sub left 119-125")
    assert "left.125" not in t.ctl("show interface"), "all or none"
    t.ctl("create sub left 1000 dot1q 90 exact-match")
    with pytest.raises(CtlError, match="left.1000"):
        t.ctl("create sub left 10-100")
    assert [row["name"] for row in t.router.json("show interface") if row["name"].startswith("left.")] == [*names, "left.1000"]
    t.ctl("set ip arp left 10.0.1.77 02:00:00:00:00:77")
    assert "10.0.1.77" in t.ctl("show ip arp left")
    t.ctl("set ip arp del left 10.0.1.77")
    assert "10.0.1.77" not in t.ctl("show ip arp left")


def test_filters(pair):
    text = pair.ctl("show interface")
    assert pair.ctl("show interface | include left") == "".join(r + "\n" for r in text.splitlines() if "left" in r)
    assert int(pair.ctl("show node | count")) == len(pair.ctl("show node").splitlines())
    assert pair.ctl("show version verbose | begin Workers").startswith("Workers:")
    assert pair.router.script("! notes", "comment { of", "two lines }", "show node | exclude i | count")


def test_log_and_memory(pair):
    pair.ctl("ip route add 10.99.0.0/16 via drop")
    pair.ctl("ip route del 10.99.0.0/16")
    assert "runs with" in pair.ctl("show log 1000")
    last = pair.router.json("show log 2")
    assert len(last) == 2 and last[-1] == pair.router.log().splitlines()[-1]
    memory = pair.router.json("show memory")
    assert memory["resident"] > 1 << 20 and memory["peak"] >= memory["resident"] and memory["ip4-tables"]["routes"] > 0


def test_show_interface_has_rates_and_fits(bench):
    t = bench()
    a, b = t.ports["left"], t.ports["right"]
    t.ctl("create sub-interfaces left 1234567890 dot1q 7 exact-match")
    t.ctl("set interface state left.1234567890 up")
    stop = threading.Event()
    sent, _ = through4(a, b, size=986)

    def flow():
        while not stop.is_set():
            t.left.send(sent)
            time.sleep(0.005)
    thread = threading.Thread(target=flow)
    thread.start()
    try:
        def rates():
            return t.router.interface("left")["rates"]
        wait_for("a rate", lambda: rates()["second"]["rx"]["packets"] > 0 and rates()["minute"]["rx"]["packets"] > 0, timeout=20)
        row = t.router.interface("left")
        for rate in row["rates"].values():
            # 1028 bytes a packet, and not more packets than were sent.
            assert rate["rx"]["bits"] == pytest.approx(rate["rx"]["packets"] * len(sent) * 8, rel=0.01)
            assert rate["rx"]["packets"] <= 250
        text, brief = t.ctl("show interface"), t.ctl("show interface brief")
        assert re.search(r"rx 1 s +\d+(\.\d+)? pps [0-9.]+[kM]? b/s$", text, re.M), text
        assert max(map(len, (text + brief).splitlines())) <= 80, text + brief
        assert re.search(r"^left +up +\d+ +[0-9.]+ ", brief, re.M), brief
    finally:
        stop.set()
        thread.join()
    wait_for("silence", lambda: t.router.interface("left")["rates"]["second"]["rx"]["packets"] == 0, timeout=20)


def trace(t, line, answer):
    """Runs a traceroute, answering each probe by `answer(TTL, packet)`; a probe that it has no answer for gets none."""
    done = {}
    thread = threading.Thread(target=lambda: done.update(out=t.ctl(line), json=None))
    thread.start()
    probes = []
    while thread.is_alive():
        frame = t.right.recv(timeout=0.05)
        frame = frame and Ether(frame)
        packet = frame and (frame.getlayer(IP) or frame.getlayer(IPv6))
        if packet is None or not (UDP in packet or ICMP in packet or ICMPv6EchoRequest in packet):
            continue
        probes.append(packet)
        reply = answer(packet.ttl if IP in packet else packet.hlim, packet)
        if reply is not None:
            t.right.send(into(t.ports["right"]) / reply)
    thread.join()
    return done["out"], probes


@pytest.mark.parametrize("to", ["10.0.2.1", "2001:db8:2::1"])
def test_traceroute_to_the_router_itself(pair, to):
    lines = pair.ctl(f"traceroute {to} queries 2 timeout 1s").splitlines()
    assert len(lines) == 2 and lines[1].split()[:2] == ["1", to], lines


def test_traceroute_ip4(bench):
    t = bench({"routes": [{"prefix": "192.0.2.0/24", "via": "10.0.2.2"}]})
    b = t.ports["right"]

    def udp(ttl, p):
        error = ICMP(type=11) if ttl < 3 else ICMP(type=3, code=3)
        return None if ttl == 2 else IP(src=f"198.51.100.{ttl}" if ttl < 3 else p.dst, dst=p.src) / error / bytes(p)[:28]
    out, probes = trace(t, "traceroute 192.0.2.9 timeout 400ms", udp)
    rows = out.splitlines()
    assert re.fullmatch(r"  1  198\.51\.100\.1(  [0-9.]+ ms){3}", rows[1]), out
    assert rows[2] == "  2  * * *" and re.fullmatch(r"  3  192\.0\.2\.9(  [0-9.]+ ms){3}", rows[3]) and len(rows) == 4, out
    assert [p.ttl for p in probes] == [1] * 3 + [2] * 3 + [3] * 3
    assert [p[UDP].dport for p in probes] == list(range(33434, 33443))
    assert {p.src for p in probes} == {b.ip}
    for p in probes:
        again = p.copy()
        del again[IP].chksum, again[UDP].chksum
        assert bytes(again) == bytes(p), "checksums as Scapy makes them"

    def icmp(ttl, p):
        if ttl == 1:
            return IP(src="198.51.100.1", dst=p.src) / ICMP(type=11) / bytes(p)[:28]
        return IP(src="198.51.100.2", dst=p.src) / ICMP(type=3, code=13) / bytes(p)[:28]
    out, probes = trace(t, "traceroute 192.0.2.9 icmp queries 1 source 10.0.1.1 timeout 2s", icmp)
    assert out.splitlines()[-1].endswith("administratively prohibited (type 3, code 13)"), out
    assert [(p.ttl, p.src) for p in probes] == [(1, "10.0.1.1"), (2, "10.0.1.1")]
    with pytest.raises(CtlError, match="there is no route to 203.0.113.1"):
        t.ctl("traceroute 203.0.113.1")


def test_traceroute_ip6(bench):
    t = bench({"routes": [{"prefix": "2001:db8:9::/48", "via": "2001:db8:2::2"}]})

    def udp(hops, p):
        error = ICMPv6TimeExceeded() if hops < 2 else ICMPv6DestUnreach(code=4)
        return IPv6(src="2001:db8:aaaa::1" if hops < 2 else p.dst, dst=p.src) / error / bytes(p)

    def icmp(hops, p):
        echo = p[ICMPv6EchoRequest]
        return IPv6(src=p.dst, dst=p.src) / ICMPv6EchoReply(id=echo.id, seq=echo.seq, data=echo.data) if hops > 1 else udp(hops, p)
    for words, answer in [("", udp), ("icmp", icmp)]:
        out, probes = trace(t, f"traceroute 2001:db8:9::9 {words} queries 2 timeout 2s", answer)
        rows = out.splitlines()
        assert re.fullmatch(r"  1  2001:db8:aaaa::1(  [0-9.]+ ms){2}", rows[1]), out
        assert re.fullmatch(r"  2  2001:db8:9::9(  [0-9.]+ ms){2}", rows[2]) and len(rows) == 3, out
        for p in probes:
            again = p.copy()
            if UDP in again:
                del again[UDP].chksum
            else:
                del again[ICMPv6EchoRequest].cksum
            assert bytes(again) == bytes(p), "checksums as Scapy makes them"
