"""How many receive queues an AF_XDP device has, changed while packets flow: the device's own number of channels follows."""

import os
import re

import pytest
from flows import Traffic
from harness import Bench, CtlError, wait_for
from test_af_xdp import driver, settings


def bench(workers=2, **fields):
    return Bench({"quiver": {"workers": {"count": workers}}, **driver("left", "right", **fields)}, queues=4)


def channels(ns, name="left"):
    """Receive and transmit queues of a device."""
    now = ns.run(f"ethtool -l {name}").stdout.split("Current")[1]
    return tuple(int(re.search(rf"{which}:\s*(\d+)", now)[1]) for which in ("RX", "TX"))


def spread(t, count):
    """The far end sends by so many queues: Quiver's device receives by as many."""
    t.outside.run(f"ethtool -L left tx {count}")


def queues(t, name="left"):
    return sorted(p["queue"] for p in t.router.json(f"show interface rx-placement {name}"))


def lent(t):
    """Buffers that the kernel has."""
    return int(t.router.json("show buffers")["pools"][0]["devices"])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_queues_come_and_go_and_no_packet_is_lost_or_overtaken(workers):
    t = bench(workers)
    try:
        fds = lambda: len(os.listdir(f"/proc/{t.router.process.pid}/fd"))
        t.ctl("set interface rx-queues left 4")
        t.ctl("set interface rx-queues left 1")
        before, buffers = fds(), lent(t)
        with Traffic(t, window=128) as traffic:
            for count in [2, 4, 1, 3, 2, 1, 4, 1] * 3:
                with traffic.halted():
                    spread(t, 1)
                t.ctl(f"set interface rx-queues left {count}")
                assert queues(t) == list(range(count)) and not traffic.trouble
                assert channels(t.inside)[0] == count
                traffic.more(200)
                with traffic.halted():
                    # The flows move by this, and would overtake themselves on the far end's own account.
                    spread(t, count)
                traffic.more(200)
            with traffic.halted():
                spread(t, 1)
            t.ctl("set interface rx-queues left 1")
        assert traffic.got > 5000
        wait_for("no descriptors are left", lambda: fds() <= before)
        # Those that were sent last come back with the next.
        wait_for("no buffers are left", lambda: lent(t) < buffers + 1000)
        assert channels(t.inside) == (1, 1)
        t.router.check_quiet()
        notes = settings(t, "left")[2]
        assert len([n for n in notes if n.startswith("quiver-xdp.")]) == 1
        t.ctl("set interface rx-queues left 3")
        t.router.stop()
        assert channels(t.inside) == (1, 1) and settings(t, "left") == ("0", "0", [])
    finally:
        t.close()


@pytest.fixture(scope="module")
def t():
    t = bench()
    yield t
    t.close()


def test_flows_use_all_queues_and_workers_send_by_theirs(t):
    t.ctl("set interface rx-queues left 4")
    spread(t, 4)
    with Traffic(t) as traffic:
        traffic.more(2000)
    polls = {p["worker"] for p in t.router.json("show interface rx-placement left")}
    assert polls == {0, 1}
    assert "4 queues" in t.ctl("show hardware-interfaces left")
    spread(t, 1)
    # The other side too, by which workers send: those that stand in for a queue get one, and give it back.
    # Nothing is on its way meanwhile: Linux sends what waits in a socket when anybody polls that, here the worker that receives by it, and a
    # veth hands packets over on the processor on which they were sent.
    with Traffic(t) as traffic:
        for count in (2, 1, 4, 1):
            with traffic.halted():
                t.ctl(f"set interface rx-queues right {count}")
            traffic.more(300)
    t.ctl("set interface rx-queues left 1")


def test_a_device_that_refuses_has_its_queues_again(t):
    """A veth must not receive by fewer than the other end sends by."""
    t.ctl("set interface rx-queues left 3")
    spread(t, 3)
    was = t.ctl("show configuration")
    with Traffic(t, lossy=True) as traffic:
        traffic.more(300)
        with pytest.raises(CtlError, match="left: cannot have 2 receive queues: .*2 receive queues where it has 3"):
            t.ctl("set interface rx-queues left 2")
        assert t.ctl("show configuration") == was and queues(t) == [0, 1, 2] and channels(t.inside)[0] == 3
        traffic.more(300)
    with Traffic(t) as traffic:
        # All of them work.
        traffic.more(1000)
    with pytest.raises(CtlError, match="left: cannot have 5 receive queues"):
        t.ctl("set interface rx-queues left 5")
    assert t.ctl("show configuration") == was and queues(t) == [0, 1, 2]
    with Traffic(t) as traffic:
        traffic.more(500)
    spread(t, 1)
    t.ctl("set interface rx-queues left 1")


def test_commands_and_the_document_say_the_same(t, tmp_path):
    one, many = tmp_path / "one.yaml", tmp_path / "many.yaml"
    one.write_text(t.ctl("show configuration"))
    t.ctl("set interface rx-queues left 4")
    many.write_text(t.ctl("show configuration"))
    assert "rx-queues: 4" in many.read_text()
    plan = t.ctl(f"configuration plan {one}")
    assert "set interface rx-queues left 1" in plan and "delete" not in plan and "create" not in plan, plan
    with Traffic(t) as traffic:
        for file, count in [(one, 1), (many, 4)] * 2:
            t.ctl(f"configuration apply {file} exact")
            assert t.ctl("show configuration") == file.read_text()
            assert queues(t) == list(range(count)) and not traffic.trouble
    t.ctl(f"configuration apply {one} exact")


def test_rings_that_would_take_all_buffers_are_refused():
    t = bench(**{"rx-ring": {"slots": 4096}})
    try:
        with pytest.raises(CtlError, match="would hold 16384 of the router's 16384 buffers, of which they may have 12288"):
            t.ctl("set interface rx-queues left 3")
        assert queues(t) == [0]
        with Traffic(t) as traffic:
            traffic.more(300)
    finally:
        t.close()


def test_without_descriptors_all_stays_as_it_was(t):
    pid = t.router.process.pid
    usual = os.popen(f"prlimit --pid {pid} --nofile --noheadings --output SOFT,HARD").read().split()
    was = t.ctl("show configuration")
    with Traffic(t) as traffic:
        there = {int(n) for n in os.listdir(f"/proc/{pid}/fd")}
        # Some are opened, and then there are no more.
        limit = [n for n in range(2000) if n not in there][5]
        t.inside.run(f"prlimit --pid {pid} --nofile={limit}:{usual[1]}")
        try:
            with pytest.raises(CtlError, match="left: cannot have 4 receive queues"):
                t.ctl("set interface rx-queues left 4")
        finally:
            t.inside.run(f"prlimit --pid {pid} --nofile={usual[0]}:{usual[1]}")
        assert t.ctl("show configuration") == was and queues(t) == [0]
        traffic.more(300)
    assert channels(t.inside) == (1, 1)
