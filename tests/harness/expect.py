"""Waiting for conditions, and showing frames."""

import time

PATIENCE = 5.0


def wait_for(what, condition, timeout=PATIENCE, every=0.005):
    """Waits until `condition()` is true and returns what it gave; fails with `what` at the deadline."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}")
        time.sleep(every)


def sorted_hex(frames):
    """Frames in an order that does not depend on when they came."""
    return sorted(bytes(f).hex() for f in frames)


def show(frame):
    """A frame in one readable line and its bytes."""
    from scapy.layers.l2 import Ether

    raw = bytes(frame)
    return f"{Ether(raw).summary()}\n    {raw.hex()}"
