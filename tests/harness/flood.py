"""Many frames a second out of one end of a wire."""

import ctypes
import threading
import time

_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class _Message(ctypes.Structure):
    """`struct mmsghdr`."""

    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(_Iovec)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]


class Flood:
    """Sends `frames` over and over, `rate` a second, until the context ends; `rate_was` says how many it were."""

    BATCH = 64

    def __init__(self, wire, frames, rate):
        raw = [bytes(f) for f in frames]
        raw = (raw * (self.BATCH // len(raw) + 1))[:max(len(raw), self.BATCH)]
        self._kept = [ctypes.create_string_buffer(f, len(f)) for f in raw]
        self._iov = (_Iovec * len(raw))(*[_Iovec(ctypes.addressof(b), len(f)) for b, f in zip(self._kept, raw)])
        self._messages = (_Message * len(raw))()
        for m, iov in zip(self._messages, self._iov):
            m.iov, m.iovlen = ctypes.pointer(iov), 1
        self._wire, self._rate, self.sent = wire, rate, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self._stop.set()
        self._thread.join()

    @property
    def rate_was(self):
        """Frames a second until now."""
        return self.sent / (time.monotonic() - self._began)

    def _run(self):
        at, size = 0, ctypes.sizeof(_Message)
        fd, last = self._wire.fileno(), len(self._messages) - self.BATCH
        while not self._stop.is_set():
            due = int((time.monotonic() - self._began) * self._rate)
            if self.sent >= due:
                time.sleep(0.0005)
                continue
            # What a busy machine has missed is not made up for.
            if due - self.sent > self._rate / 10:
                self._began += (due - self.sent) / self._rate
                continue
            n = min(self.BATCH, due - self.sent)
            done = _libc.sendmmsg(fd, ctypes.byref(self._messages, at * size), n, 0)
            if done > 0:
                self.sent += done
            at = at + self.BATCH if at + self.BATCH <= last else 0
