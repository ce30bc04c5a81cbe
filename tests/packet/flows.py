"""Numbered packets of flows from left to right, and whether each flow comes whole and in order."""

import os
import threading
from contextlib import contextmanager

from frames import Raw, into, udp4
from harness import wait_for

FLOWS = range(4000, 4032)


def heads(t, ports):
    """By source port, what stands in front of the number of a packet."""
    a, b = t.ports["left"], t.ports["right"]
    # A checksum of UDP over other bytes would be wrong; the router does not look.
    return {port: bytes(into(a) / udp4(a.host, b.host, size=0, sport=port) / Raw(bytes(4)))[:-4] for port in ports}


def numbered(t, ports, numbers):
    """Frames of flows in turns, with their numbers."""
    all_heads = heads(t, ports)
    return [head + number.to_bytes(4, "big") for number in numbers for head in all_heads.values()]


def flow_of(frame):
    """The source port of a packet that came out, and its number."""
    frame = bytes(frame)
    return int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[42:46], "big")


def sorted_out(frames):
    """The numbers that came of each flow."""
    got = {}
    for port, number in map(flow_of, frames):
        got.setdefault(port, []).append(number)
    return got


def pass_through(t, ports, numbers):
    """Sends packets of flows in turns, and answers the numbers that came of each."""
    frames = numbered(t, ports, numbers)
    t.left.send(*frames)
    return sorted_out(t.right.take(len(frames)))


class Traffic:
    """Packets of some flows, as many under way as rings hold well, while it is entered. Where `lossy`, some may be lost."""

    def __init__(self, t, window=512, lossy=False):
        self._heads, self._t, self._window, self._lossy = heads(t, FLOWS), t, window, lossy
        self._end, self._halted, self.trouble = threading.Event(), threading.Event(), []
        self.sent = self.got = self.lost = 0
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
            assert not self.trouble and self.got + self.lost == self.sent, (self.trouble, self.got, self.lost, self.sent)

    def more(self, count):
        """Waits until so many more have come."""
        at = self.got
        wait_for("packets come", lambda: self.got > at + count or self.trouble)
        assert not self.trouble, self.trouble

    @contextmanager
    def halted(self):
        """Nothing is under way meanwhile."""
        self._halted.set()
        wait_for("all have come", lambda: self._at_rest or self.trouble)
        yield
        self._halted.clear()

    _at_rest = False

    def _send(self):
        # On one processor: Linux hands packets to that which sends them, and who moves overtakes what waits on another.
        os.sched_setaffinity(threading.get_native_id(), {min(os.sched_getaffinity(0))})
        number = 0
        while not self._end.is_set() and not self.trouble:
            self._at_rest = self._halted.is_set() and self.got + self.lost >= self.sent
            if self._halted.is_set() or self.sent > self.got + self.lost + self._window:
                self._end.wait(0.001)
                continue
            number += 1
            self._t.left.send(*(head + number.to_bytes(4, "big") for head in self._heads.values()))
            self.sent += len(self._heads)

    def _take(self):
        last = dict.fromkeys(FLOWS, 0)
        while not self.trouble and (not self._end.is_set() or self.got + self.lost < self.sent or self._threads[0].is_alive()):
            under_way = self.sent - self.got - self.lost
            try:
                frames = self._t.right.take(1 if self._lossy else min(32, max(1, under_way)), timeout=0.5 if self._lossy else 10)
            except Exception as e:  # noqa: BLE001: whatever it is, the test tells
                if self._lossy:
                    # Nothing comes any more: it is lost.
                    self.lost += under_way
                    continue
                if self._end.is_set() and self.got == self.sent:
                    return
                self.trouble.append(f"{self.sent} sent, {self.got} came: {e}")
                return
            for port, number in map(flow_of, frames):
                if number <= last[port] or number != last[port] + 1 and not self._lossy:
                    self.trouble.append(f"flow {port}: {number} behind {last[port]}")
                last[port] = number
            self.got += len(frames)
