"""How many receive queues a device has, changed while packets flow."""

import os
import threading

import pytest
from frames import Raw, into, udp4
from harness import Bench, CtlError, run, wait_for

FLOWS = range(4000, 4032)


class Traffic:
    """Numbered packets of some flows from left to right, as many under way as rings hold well, while it is entered."""

    def __init__(self, t):
        a, b = t.ports["left"], t.ports["right"]
        self._heads = {port: bytes(into(a) / udp4(a.host, b.host, size=0, sport=port) / Raw(bytes(4)))[:-4] for port in FLOWS}
        self._t, self._end, self.trouble = t, threading.Event(), []
        self.sent = self.got = 0
        self._threads = [threading.Thread(target=f, daemon=True) for f in (self._send, self._take)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self._end.set()
        for thread in self._threads:
            thread.join()
        if kind is None:
            assert not self.trouble and self.got == self.sent, (self.trouble, self.got, self.sent)

    def _send(self):
        # On one processor: Linux hands packets to that which sends them, and who moves overtakes what waits on another.
        os.sched_setaffinity(threading.get_native_id(), {min(os.sched_getaffinity(0))})
        number = 0
        while not self._end.is_set() and not self.trouble:
            if self.sent > self.got + 512:
                self._end.wait(0.001)
                continue
            number += 1
            # A checksum of UDP over other bytes would be wrong; the router does not look.
            self._t.left.send(*(head + number.to_bytes(4, "big") for head in self._heads.values()))
            self.sent += len(self._heads)

    def _take(self):
        last = dict.fromkeys(FLOWS, 0)
        while not self.trouble and (not self._end.is_set() or self.got < self.sent or self._threads[0].is_alive()):
            try:
                frames = self._t.right.take(min(32, max(1, self.sent - self.got)), timeout=10)
            except Exception as e:  # noqa: BLE001: whatever it is, the test tells
                if self._end.is_set() and self.got == self.sent:
                    return
                self.trouble.append(f"{self.sent} sent, {self.got} came: {e}")
                return
            for frame in map(bytes, frames):
                port, number = int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[42:46], "big")
                if number != last[port] + 1:
                    self.trouble.append(f"flow {port}: {number} behind {last[port]}")
                last[port] = number
            self.got += len(frames)


def queues(t, name="left"):
    return [p["queue"] for p in t.router.json(f"show interface rx-placement {name}")]


@pytest.mark.parametrize("workers", [1, 2])
def test_queues_come_and_go_and_no_packet_is_lost_or_overtaken(workers):
    t = Bench({"quiver": {"workers": {"count": workers}}})
    try:
        fds = lambda: len(os.listdir(f"/proc/{t.router.process.pid}/fd"))
        t.ctl("set interface rx-queues left 2")
        t.ctl("set interface rx-queues left 1")
        before = fds()
        with Traffic(t) as traffic:
            for count in [2, 4, 1, 3, 2, 1, 4, 8, 1] * 4:
                t.ctl(f"set interface rx-queues left {count}")
                assert sorted(queues(t)) == list(range(count)) and not traffic.trouble
                at = traffic.got
                wait_for("packets come", lambda: traffic.got > at + 200 or traffic.trouble)
        assert traffic.got > 5000
        t.ctl("set interface rx-queues left 3")
        t.ctl(f"set interface rx-placement left queue 0 worker {workers - 1}")
        t.ctl("set interface rx-placement left queue 1 worker 0")
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
        wait_for("packets come", lambda: traffic.got > 2000 or traffic.trouble)
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
        wait_for("packets come", lambda: traffic.got > 1000 or traffic.trouble)
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
        wait_for("packets come", lambda: traffic.got > 500 or traffic.trouble)
