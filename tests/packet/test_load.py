"""`show load` against a stream of known rate, and against what Linux says of the worker's thread."""

import pytest
from harness import Netns, Router, wait_for

RATE = 20_000


@pytest.fixture
def router():
    ns = Netns("p")
    r = Router(ns, {
        "loopbacks": {"loop0": {"addresses": ["10.0.1.1/24"]}},
        "packet-generator": [{"name": "s", "interface": "loop0", "node": "ip4-input", "rate": RATE,
                              "layers": [{"ipv4": {"src": "10.0.1.2", "dst": "10.0.2.1"}}]}],
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
