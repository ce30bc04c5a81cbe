"""How many receive queues a device has, changed while packets flow."""

import os

import pytest
from flows import Traffic
from harness import Bench, CtlError, run, wait_for

def queues(t, name="left"):
    return [p["queue"] for p in t.router.json(f"show interface rx-placement {name}")]


@pytest.mark.parametrize("workers, driver", [(1, "af-packet"), (2, "af-packet"), (2, "auto")])
def test_queues_come_and_go_and_no_packet_is_lost_or_overtaken(workers, driver):
    t = Bench({"quiver": {"workers": {"count": workers}}, "devices": {"left": {"driver": driver}}})
    try:
        assert "af-packet on Linux device left" in t.ctl("show hardware-interfaces left")
        fds = lambda: len(os.listdir(f"/proc/{t.router.process.pid}/fd"))
        t.ctl("set interface rx-queues left 2")
        t.ctl("set interface rx-queues left 1")
        before = fds()
        with Traffic(t) as traffic:
            for count in [2, 4, 1, 3, 2, 1, 4, 8, 1] * 4:
                t.ctl(f"set interface rx-queues left {count}")
                assert sorted(queues(t)) == list(range(count)) and not traffic.trouble
                traffic.more(200)
        assert traffic.got > 5000
        t.ctl("set interface rx-queues left 3")
        t.ctl(f"set interface rx-placement left queue 0 worker {workers - 1}")
        t.ctl("set interface rx-placement left queue 1 worker 0")
        assert ("driver: auto" in t.ctl("show configuration")) == (driver == "auto")
        [hardware] = t.router.json("show hardware-interfaces left")
        placed = {(p["queue"], p["worker"] + 1) for p in t.router.json("show interface rx-placement left")}
        assert {(q["queue"], q["thread"]) for q in hardware["rx-queues"]} == placed and len(placed) == 3
        for queue in range(2):
            t.ctl(f"set interface rx-placement left queue {queue} auto")
        t.ctl("set interface rx-queues left 1")
        wait_for("no descriptors are left", lambda: fds() <= before)
        t.router.check_quiet()
    finally:
        t.close()


@pytest.fixture(scope="module")
def t():
    t = Bench({"quiver": {"workers": {"count": 2}}})
    yield t
    t.close()


def test_flows_use_all_queues(t):
    t.ctl("set interface rx-queues left 4")
    with Traffic(t) as traffic:
        traffic.more(2000)
    load = t.router.json("show interface rx-placement left")
    assert {p["worker"] for p in load} == {0, 1}
    t.ctl("set interface rx-queues left 1")


def test_commands_and_the_document_say_the_same(t, tmp_path):
    one, many = tmp_path / "one.yaml", tmp_path / "many.yaml"
    one.write_text(t.ctl("show configuration"))
    assert "rx-queues" not in one.read_text()
    t.ctl("set interface rx-queues left 4")
    t.ctl("set interface rx-placement left queue 3 worker 1")
    many.write_text(t.ctl("show configuration"))
    assert "rx-queues: 4" in many.read_text()
    with pytest.raises(CtlError, match="left: its receive queue 3 is to be on worker 1: let the router choose first"):
        t.ctl("set interface rx-queues left 3")
    plan = t.ctl(f"configuration plan {one}")
    assert "set interface rx-queues left 1" in plan and "delete" not in plan and "create" not in plan, plan
    with Traffic(t) as traffic:
        for file, count in [(one, 1), (many, 4)] * 3:
            t.ctl(f"configuration apply {file} exact")
            assert t.ctl("show configuration") == file.read_text()
            assert sorted(queues(t)) == list(range(count)) and not traffic.trouble
    t.ctl(f"configuration apply {one} exact")


def test_what_cannot_be_leaves_all_as_it_was(t, tmp_path):
    t.ctl("set interface rx-queues left 2")
    was = t.ctl("show configuration")
    for count in (0, 65):
        with pytest.raises(CtlError, match="1..64"):
            t.ctl(f"set interface rx-queues left {count}")
    t.ctl("create loopback interface")
    with pytest.raises(CtlError, match="keeps the receive queues that it was made with"):
        t.ctl("set interface rx-queues loop0 2")
    t.ctl("delete interface loop0")
    pid = t.router.process.pid
    usual = os.popen(f"prlimit --pid {pid} --nofile --noheadings --output SOFT,HARD").read().split()
    more = tmp_path / "more.yaml"
    more.write_text(was.replace("rx-queues: 2", "rx-queues: 32"))
    with Traffic(t) as traffic:
        # Some are opened, and then there are no more descriptors.
        limit = max(int(n) for n in os.listdir(f"/proc/{pid}/fd")) + 6
        run(f"prlimit --pid {pid} --nofile={limit}:{usual[1]}")
        try:
            for line in ("set interface rx-queues left 32", f"configuration apply {more}"):
                with pytest.raises(CtlError, match="left: cannot have 32 receive queues"):
                    t.ctl(line)
                assert t.ctl("show configuration") == was and sorted(queues(t)) == [0, 1]
        finally:
            run(f"prlimit --pid {pid} --nofile={usual[0]}:{usual[1]}")
        traffic.more(1000)
        t.ctl("set interface rx-queues left 3")
        t.ctl("set interface rx-queues left 1")


def test_a_device_that_was_away_has_as_many_as_were_set(t):
    t.ctl("set interface rx-queues left 3")
    t.inside.ip("link set left name away")
    wait_for("it is gone", lambda: not queues(t))
    t.ctl("set interface rx-queues left 2")
    t.inside.ip("link set away name left")
    wait_for("it is back", lambda: sorted(queues(t)) == [0, 1])
    t.inside.ip("link set left up")
    wait_for("it has link", lambda: t.router.interface("left")["link"])
    with Traffic(t) as traffic:
        t.ctl("set interface rx-queues left 1")
        traffic.more(500)
