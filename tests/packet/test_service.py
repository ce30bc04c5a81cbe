"""What a service manager hears of the router: sd_notify(3), and the watchdog."""

import ctypes
import os
import socket

import pytest
from harness import Netns, Router, wait_for

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


class Stopped:
    """A thread that is stopped while the others of its process run."""

    def __init__(self, tid):
        self.tid = tid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.ptrace(PTRACE_SEIZE)
        self.ptrace(PTRACE_INTERRUPT)
        os.waitpid(tid, 0x40000000)  # __WALL

    def ptrace(self, what):
        done = self.libc.ptrace(ctypes.c_long(what), ctypes.c_long(self.tid), None, None)
        assert done == 0, os.strerror(ctypes.get_errno())

    def go(self):
        self.ptrace(PTRACE_DETACH)


def test_the_watchdog_hears_of_a_worker_that_hangs(tmp_path):
    """Signs of life come from the control thread while every worker gets on, and none when one does not."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(20)
    ns = Netns("router")
    # It has packets to forward, and looks for more for a second: a worker that sleeps does not hang.
    router = Router(ns, {"loopbacks": {"loop0": {}}, "quiver": {"poll": {"spin-us": 1_000_000}}},
                    prefix=("env", f"NOTIFY_SOCKET={tmp_path}/notify", "WATCHDOG_USEC=600000"))
    try:
        router.ctl('packet-generator new s interface loop0 rate 100 data "ipv4 src 10.0.0.2 dst 10.0.0.3 / udp dport 9" '
                   "node ip4-input")
        router.ctl("packet-generator enable s")
        wait_for("the worker has packets", lambda: router.json("show runtime")[0]["packets-in"] > 3)
        assert manager.recv(4096).startswith(b"READY=1\n")
        for _ in range(3):
            assert manager.recv(4096) == b"WATCHDOG=1\n"
        tasks = f"/proc/{router.process.pid}/task"
        worker = next(int(t) for t in os.listdir(tasks) if open(f"{tasks}/{t}/comm").read().startswith("quiver_wk"))
        thread = Stopped(worker)
        # What was on its way, and one sign for the loop that it had ended.
        manager.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(10):
                manager.recv(4096)
        assert "quiver" in router.ctl("show version").lower()
        thread.go()
        manager.settimeout(20)
        assert manager.recv(4096) == b"WATCHDOG=1\n"
    finally:
        router.stop()
        manager.close()
        ns.delete()
