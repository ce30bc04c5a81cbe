"""Network namespaces, named after this process so that test runs beside each other do not meet."""

import contextlib
import ctypes
import itertools
import os
import subprocess

PREFIX = "qt"
_libc = ctypes.CDLL(None, use_errno=True)
_next = itertools.count()
CLONE_NEWNET = 0x40000000


def run(command, check=True, timeout=60, **kwargs):
    """Runs a command (a string is split at spaces) and returns the finished process with its text."""
    words = command.split() if isinstance(command, str) else list(command)
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def remove_stale():
    """Removes what a killed run has left: namespaces named after processes that live no more."""
    for line in run("ip netns list").stdout.splitlines():
        name = line.split()[0]
        pid, dash, _ = name.removeprefix(PREFIX).partition("-")
        if name.startswith(PREFIX) and dash and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            run(f"ip netns del {name}", check=False)


class Netns:
    """A namespace of its own without IPv6 chatter of Linux: no link-local addresses, no duplicate address detection."""

    def __init__(self, name, quiet=True):
        self.name = f"{PREFIX}{os.getpid()}-{next(_next)}{name}"
        run(f"ip netns add {self.name}")
        if quiet:
            self.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
        else:
            self.run(
                "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0"
                " net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.all.accept_ra=0"
                " net.ipv6.conf.default.accept_ra=0"
            )
        self.ip("link set lo up")

    def run(self, command, **kwargs):
        """Runs a command in here."""
        words = command.split() if isinstance(command, str) else list(command)
        return run(["ip", "netns", "exec", self.name, *words], **kwargs)

    def start(self, command, **kwargs):
        """Starts a command in here and returns the process."""
        words = command.split() if isinstance(command, str) else list(command)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.STDOUT)
        return subprocess.Popen(["ip", "netns", "exec", self.name, *words], text=True, **kwargs)

    def ip(self, line, **kwargs):
        """`ip LINE` in here."""
        return run(f"ip -n {self.name} {line}", **kwargs)

    @contextlib.contextmanager
    def entered(self):
        """This thread is in here meanwhile: sockets that it opens stay."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as there:
            _setns(there.fileno())
            try:
                yield
            finally:
                _setns(home.fileno())

    def delete(self):
        """Removes it with all its devices."""
        run(f"ip netns del {self.name}", check=False)


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
