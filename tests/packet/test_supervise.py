"""`quiver run --supervise`: a router that dies is started anew, its pairs in Linux keep their carrier, and what it said last is kept."""

import os
import signal
import time

import pytest
from harness import BINARY, Netns, Router, run, wait_for


class Supervised:
    """A supervised router with the pair of a loopback, and a state folder."""

    def __init__(self, tmp_path, **more):
        self.ns, self.state = Netns("sup"), tmp_path / "state"
        self.config = {"loopbacks": {"loop0": {"lcp": "lo0", "addresses": ["10.0.0.1/24"]}}, "linux-cp": {"lcp-sync": True},
                       "quiver": {"state": str(self.state), "buffers": {"count": 1024}}, **more}
        self.router = Router(self.ns, self.config, options=("--supervise",))

    def child(self):
        """The router's process: none while it is started anew."""
        path = f"/proc/{self.router.process.pid}/task/{self.router.process.pid}/children"
        with open(path) as f:
            return int((f.read().split() or [0])[0])


    def again(self, pid):
        """Waits until another process answers; how long until it was there."""
        began = time.monotonic()
        wait_for("another process", lambda: self.child() not in (0, pid), every=0.002)
        took = time.monotonic() - began
        wait_for("it answers", lambda: self.router.ctl_raw("show version").returncode == 0)
        return took


@pytest.fixture
def one(tmp_path):
    s = Supervised(tmp_path)
    yield s
    s.router.stop()
    s.ns.delete()


def test_one_that_is_killed_is_started_anew(one):
    wait_for("the pair has a carrier", lambda: "LOWER_UP" in one.ns.ip("-o link show lo0").stdout)
    carrier, number = one.ns.ip("-o link show lo0").stdout, one.router.json("show lcp")["pairs"][0]["ifindex"]
    pid = one.child()
    assert one.router.ctl("show last-words") == "none\n"
    os.kill(pid, signal.SIGKILL)
    took = one.again(pid)
    assert took < 0.1, took
    assert one.router.json("show lcp")["pairs"][0]["ifindex"] == number
    assert one.ns.ip("-o link show lo0").stdout == carrier
    words = one.router.ctl("show last-words")
    assert f"the router (process {pid}) was ended by signal 9 (SIGKILL)" in words and "runs with 1 worker" in words, words
    assert "the run before this one died" in one.router.log()
    # In order: nobody has died, and the carrier stays again.
    pid = one.child()
    os.kill(one.router.process.pid, signal.SIGUSR1)
    one.again(pid)
    assert one.router.json("show lcp")["pairs"][0]["ifindex"] == number
    assert one.ns.ip("-o link show lo0").stdout == carrier
    assert one.router.ctl("show last-words") == words
    # What is deleted is gone, though somebody has its queue open.
    one.router.ctl("lcp delete loop0")
    assert "lo0" not in one.ns.ip("-o link").stdout
    one.router.ctl("lcp create loop0 host-if lo0")
    # It is not for others to take away.
    clean = [BINARY, "clean", "-s", one.router.socket]
    assert "a router listens" in run(clean, check=False).stderr
    assert one.router.kill(signal.SIGTERM) == 0
    assert "NO-CARRIER" in one.ns.ip("-o link show lo0").stdout
    # Its namespace has a name: it is found from everywhere.
    assert run(clean).stdout == f"lo0 in namespace {one.ns.name}\n"
    assert "lo0" not in one.ns.ip("-o link").stdout


def test_it_waits_before_it_starts_what_dies_at_once(one):
    first, started = one.child(), time.monotonic()
    seen = {first}
    while time.monotonic() < started + 2.5:
        pid = one.child()
        if pid:
            seen.add(pid)
            os.kill(pid, signal.SIGSEGV)
        time.sleep(0.005)
    # At once, and then after 0.1, 0.2, 0.4, 0.8 seconds.
    assert 4 <= len(seen) <= 6, seen
    wait_for("it answers", lambda: one.router.ctl_raw("show version").returncode == 0)
    assert "(SIGSEGV)" in one.router.log()


def test_what_does_not_start_is_not_started_anew(tmp_path):
    ns = Netns("sup")
    try:
        r = Router(ns, "interfaces: {nothing: {addresses: [10.0.0.1/24]}}\n", wait=False, options=("--supervise",))
        assert r.process.wait(timeout=20) == 1
        assert r.log().count("there is no device nothing") == 1
    finally:
        ns.delete()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_it(tmp_path, how):
    s = Supervised(tmp_path)
    try:
        child = s.child()
        s.router.process.send_signal(signal.SIGHUP)
        wait_for("it reads its configuration again", lambda: "SIGHUP" in s.router.log())
        assert s.child() == child
        assert s.router.kill(how) == 0
        assert how.name in s.router.log() and not os.path.exists(s.state / "run.log")
    finally:
        s.router.stop()
        s.ns.delete()
