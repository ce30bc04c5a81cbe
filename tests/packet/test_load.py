"""`show load` against a stream of known rate, and against what Linux says of the worker's thread."""

import pytest
from harness import CtlError, Netns, Router, wait_for
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

RATE = 20_000


@pytest.fixture
def router():
    ns = Netns("p")
    r = Router(ns, {
        "loopbacks": {"loop0": {"addresses": ["10.0.1.1/24"]}},
        "packet-generator": [{"name": name, "interface": "loop0", "node": "ip4-input", "rate": rate,
                              "layers": [{"ipv4": {"src": "10.0.1.2", "dst": "10.0.2.1"}}]} for name, rate in (("s", RATE), ("t", 1000))],
    })
    yield r
    r.stop()
    ns.delete()


def load(router):
    return router.json("show load")


def seconds(router, worker, share):
    """Waits for load of a second to which the condition holds."""
    def fits():
        w = load(router)["workers"][worker]
        return w if w["busy"]["1s"] is not None and share(w) else None
    return wait_for("load", fits, timeout=15, every=0.1)


def test_busy_with_packets_alone(router):
    idle = seconds(router, 0, lambda w: w["packets-per-second"] == 0 and w["busy"]["1s"] < 0.005)
    assert idle["vector"] is None and idle["full"] is None
    router.ctl("packet-generator enable s")
    w = seconds(router, 0, lambda w: 0.8 * RATE < w["packets-per-second"] < 1.2 * RATE)
    assert w["vector"] >= 1 and 0 <= w["full"] <= 1
    assert w["busy"]["1s"] > 2 * idle["busy"]["1s"]
    # Time with packets is part of the time on a processor, or of the time in want of one.
    if w["processor"]["1s"] is not None:
        assert w["busy"]["1s"] <= w["processor"]["1s"] + w["waiting"] + 0.05
    router.ctl("packet-generator disable s")
    seconds(router, 0, lambda w: w["packets-per-second"] == 0)


def test_workers_wait_as_they_are_told(router):
    """In `latency` a thread has the processor all the time that packets come, or waits for it; else for a part of it."""
    router.ctl("packet-generator enable t")
    if seconds(router, 0, lambda w: w["packets-per-second"] > 500)["processor"]["1s"] is None:
        pytest.skip("Linux does not tell what threads have of processors")
    on = lambda w: w["processor"]["1s"] + w["waiting"]
    for mode, fits in (("latency", lambda w: on(w) > 0.8), ("power", lambda w: on(w) < 0.3), ("latency", lambda w: on(w) > 0.8),
                       ("balanced", lambda w: on(w) < 0.3)):
        router.ctl(f"set workers polling {mode}")
        assert [t["polling"] for t in router.json("show threads")] == [None, mode]
        seconds(router, 0, fits)
    with pytest.raises(CtlError, match="there is no worker 1, only worker 0"):
        router.ctl("set workers polling power worker 1")
    router.ctl("set workers polling power worker 0")
    assert "workers: {0: power}" in router.ctl("show configuration")
    router.ctl("set workers polling default worker 0")
    assert "poll" not in router.ctl("show configuration")


def test_queues_move_where_load_is_uneven(tmp_path):
    ns = Netns("p")
    wrpcap(str(tmp_path / "in.pcap"), [Ether(dst="02:00:00:00:00:01") / IP() / UDP()] * 256)
    device = lambda **more: {"driver": "pcap", "pcap": {"read": str(tmp_path / "in.pcap"), "loop": True, **more}}
    r = Router(ns, {
        "interfaces": {"a": {}, "b": {}, "c": {}},
        "devices": {"a": device(), "b": device(rate=1), "c": device()},
        "quiver": {"workers": 2},
    })
    try:
        where = lambda: {p["interface"]: p["worker"] for p in r.json("show interface rx-placement")}
        assert where() == {"a": 0, "b": 1, "c": 0}
        r.ctl("set workers balance on")
        assert "balance: true" in r.ctl("show configuration")
        wait_for("a queue has moved", lambda: where()["a"] != where()["c"], timeout=60, every=0.2)
        assert "moved from worker 0" in r.ctl("show log")
        assert r.json("show load")["balance"]
    finally:
        r.stop()
        ns.delete()
