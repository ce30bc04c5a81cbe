"""One receive queue that feeds several workers, by the flows of its packets."""

import random

import pytest
from flows import pass_through
from harness import Bench, CtlError, Netns, Router, wait_for
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap


@pytest.fixture(scope="module")
def t():
    t = Bench({"quiver": {"workers": {"count": 2}}})
    yield t
    t.close()


def handed(t):
    """Packets by the worker that got them."""
    got = {}
    for i in t.router.json("show interface handoff"):
        for row in i["handed"]:
            got[row["to"]] = got.get(row["to"], 0) + row["packets"]
    return got


def test_both_workers_have_flows_and_each_keeps_its_order(t):
    t.ctl("set interface handoff left workers all")
    ports, draw = range(4000, 4020), random.Random(7)
    for at in range(0, 200, 5):
        assert pass_through(t, ports, range(at, at + 5)) == {port: list(range(at, at + 5)) for port in ports}
        t.ctl(draw.choice(["set interface handoff left workers all", "set interface handoff left workers 1",
                           "set interface handoff left workers 0-1 symmetrical", "set interface handoff left disable",
                           "set interface rx-placement left worker 1", "set interface rx-placement left worker 0", "set workers 3",
                           "set workers 2"]))
    t.ctl("set interface handoff left disable")
    t.ctl("set interface handoff left workers 0,1")
    pass_through(t, ports, range(5))
    assert set(handed(t)) == {0, 1} and sum(handed(t).values()) >= 100
    assert "handed-off" in t.ctl("show errors")
    assert "worker-handoff" in t.ctl("show features left")
    t.router.check_quiet()


def test_commands_and_the_document_say_the_same(t, tmp_path):
    t.ctl("set workers 3")
    t.ctl("set interface handoff left workers 2,0 symmetrical")
    text = t.ctl("show configuration")
    assert "handoff: {workers: [0, 2], symmetrical: true}" in text
    assert "left: workers 0,2, symmetrical" in t.ctl("show interface handoff left")
    with pytest.raises(CtlError, match="packets of left are handed to worker 2: share them out among others first"):
        t.ctl("set workers 2")
    many, one = tmp_path / "many.yaml", tmp_path / "one.yaml"
    many.write_text(text)
    t.ctl("set interface handoff left disable")
    assert "handoff" not in t.ctl("show configuration")
    t.ctl("set workers 1")
    t.ctl("set interface handoff left workers all")
    one.write_text(t.ctl("show configuration"))
    assert "handoff: {symmetrical: false}" in one.read_text()
    for file in (many, one, many, one):
        t.ctl(f"configuration apply {file} exact")
        assert t.ctl("show configuration") == file.read_text()
        assert pass_through(t, [5000], range(3)) == {5000: [0, 1, 2]}
    t.ctl("set interface handoff left disable")
    t.ctl("set workers 2")


@pytest.mark.parametrize("line, why", [
    ("left workers 2", "left: there is no worker 2, workers 0 to 1"),
    ("left workers 0,0", "left: worker 0 is named twice"),
    ("left workers 1-0", "'1-0' is neither a worker, 0 to 63, nor a range such as 0-3, nor all"),
    ("left workers some", "'some' is neither a worker"),
    ("local0 workers all", "local0 stands for the router itself"),
    ("nobody workers all", "nobody"),
])
def test_what_cannot_be(t, line, why):
    with pytest.raises(CtlError, match=why):
        t.ctl(f"set interface handoff {line}")


def test_an_elephant_is_named(tmp_path):
    """Nine of ten packets are of one flow, as fast as they are read."""
    ns = Netns("p")
    frame = lambda port: Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / IP(src="10.0.1.2", dst="10.0.2.1") / UDP(sport=port, dport=53)
    wrpcap(str(tmp_path / "in.pcap"), [frame(1000 if n % 10 else 2000 + n) for n in range(250)])
    r = Router(ns, {
        "interfaces": {"a": {}},
        "devices": {"a": {"driver": "pcap", "pcap": {"read": str(tmp_path / "in.pcap"), "loop": True}, "handoff": {}}},
        "quiver": {"workers": 2},
    })
    try:
        named = lambda: r.json("show load")["elephants"]
        flows = wait_for("it is named", named, timeout=60, every=0.2)
        assert [f["flow"] for f in flows] == ["10.0.1.2:1000 -> 10.0.2.1:53 UDP"]
        assert flows[0]["interface"] == "a" and 0.25 <= flows[0]["share"] <= 1
        assert "Elephant" in r.ctl("show load")
        text = r.ctl("show load")
        assert "Handoff" in text
    finally:
        r.stop()
        ns.delete()
