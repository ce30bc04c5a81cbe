"""Linux's lock of devices (RTNL), held for as long as a test wants.

A thread asks for a device's link (ETHTOOL_GLINK), whose answer the kernel writes under the lock. It is to go to a page that is not there,
and userfaultfd says who fills it, and when: until then the thread sleeps in the kernel with the lock.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import struct
import threading

import pytest

PAGE = mmap.PAGESIZE
USERFAULTFD = {"x86_64": 323, "aarch64": 282}
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE = 0xC018AA3F, 0xC020AA00, 0xC020AA04
SIOCETHTOOL, ETHTOOL_GLINK = 0x8946, 0x0A

libc = ctypes.CDLL(None, use_errno=True)


class Rtnl:
    """A context in which nobody else changes a device of Linux's, for so many seconds at most."""

    def __init__(self, seconds):
        self.timer, self.held = threading.Timer(seconds, self._fill), True

    def __enter__(self):
        number = USERFAULTFD[os.uname().machine]
        self.faults = libc.syscall(number, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.faults < 0 and ctypes.get_errno() == errno.ENOSYS:
            pytest.skip("this kernel has no userfaultfd")
        assert self.faults >= 0, os.strerror(ctypes.get_errno())
        fcntl.ioctl(self.faults, UFFDIO_API, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
        self.memory = mmap.mmap(-1, 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.missing = start + PAGE
        # The command is the last word of the first page, the answer the first of the second.
        self.memory[PAGE - 4:PAGE] = struct.pack("I", ETHTOOL_GLINK)
        fcntl.ioctl(self.faults, UFFDIO_REGISTER, bytearray(struct.pack("QQQQ", self.missing, PAGE, 1, 0)))
        ask = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + struct.pack("Q", self.missing - 4), 40)
        self.thread = threading.Thread(target=self._hold, args=(ask,))
        self.thread.start()
        assert select.select([self.faults], [], [], 30)[0], "the kernel does not ask for the page"
        self.timer.start()
        return self

    def _hold(self, ask):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            libc.ioctl(s.fileno(), SIOCETHTOOL, ask)

    def _fill(self):
        # Before the kernel gives the lock up: what is answered behind that is not taken for answered under it.
        self.held = False
        fcntl.ioctl(self.faults, UFFDIO_ZEROPAGE, bytearray(struct.pack("QQQQ", self.missing, PAGE, 0, 0)))

    def is_held(self):
        """Whether it still has the lock for sure."""
        return self.held

    def __exit__(self, *_):
        self.timer.join()
        self.thread.join()
        os.close(self.faults)
