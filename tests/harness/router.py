"""The router under test: the real binary in a namespace of its own, with a wire to each of its ports."""

import copy
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from .expect import wait_for
from .host import veth
from .netns import Netns, run
from .wire import Wire

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _binary():
    named = os.environ.get("QUIVER_BIN")
    if named:
        return named
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPO, "target"))
    return os.path.join(target, "release", "quiver")


BINARY = _binary()


class CtlError(Exception):
    """A command that was refused: what the operator reads."""


def to_yaml(value):
    """Plain values as YAML in flow style: strings quoted, numbers bare."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_yaml(k)}: {to_yaml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_yaml(v) for v in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return str(value)
    return json.dumps(value)


def document(config):
    """A configuration (text, or a mapping with one section a line) as text."""
    if isinstance(config, str):
        return config
    return "".join(f"{k}: {to_yaml(v)}\n" for k, v in config.items())


class Router:
    """A running `quiver run`. In a configuration that is text, `@socket@` stands for its control socket."""

    running = []

    def __init__(self, netns, config, wait=True, prefix=(), options=()):
        self.netns = netns
        self.dir = tempfile.mkdtemp(prefix="quiver-test-")
        os.chmod(self.dir, 0o755)
        self.file = os.path.join(self.dir, "router.yaml")
        self.socket = os.path.join(self.dir, "ctl.sock")
        self.log_path = os.path.join(self.dir, "log")
        if isinstance(config, str):
            config = config.replace("@socket@", self.socket)
        else:
            config = copy.deepcopy(config)
            config.setdefault("quiver", {}).setdefault("sockets", {})["ctl"] = self.socket
        self.text = document(config)
        with open(self.file, "w") as f:
            f.write(self.text)
        self.prefix, self.options = list(prefix), list(options)
        self.start(wait)

    def start(self, wait=True):
        """Starts the process; with `wait`, until it answers commands."""
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.netns.name, *self.prefix, BINARY, "run", "-c", self.file, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self):
        """Until it answers commands."""

        def ready():
            assert self.process.poll() is None, f"the router ended ({self.process.returncode}):\n{self.log()}"
            return self.ctl_raw("show version").returncode == 0

        wait_for("the router answers", ready, timeout=20)
        Router.running.append(self)

    def ctl_raw(self, line, json_too=False, user=None):
        """Runs one command line through `quiver ctl`; `user` are words such as setpriv's in front."""
        words = [*(user or ()), BINARY, "ctl", "-s", self.socket]
        if json_too:
            words.append("--json")
        return run([*words, line], check=False)

    def ctl(self, line):
        """The text that a command answers."""
        done = self.ctl_raw(line)
        if done.returncode != 0:
            raise CtlError(done.stderr + done.stdout)
        return done.stdout

    def json(self, line):
        """What a command answers as JSON."""
        done = self.ctl_raw(line, json_too=True)
        if done.returncode != 0:
            raise CtlError(done.stderr + done.stdout)
        return json.loads(done.stdout)

    def script(self, *lines):
        """Lines through the standard input of one `quiver ctl`."""
        done = subprocess.run([BINARY, "ctl", "-s", self.socket], input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise CtlError(done.stderr + done.stdout)
        return done.stdout

    def errors(self):
        """Counts of `show errors` by reason, over all threads and nodes."""
        counts = {}
        for row in self.json("show errors"):
            counts[row["reason"]] = counts.get(row["reason"], 0) + int(row["count"])
        return counts

    def interface(self, name):
        """The row of `show interface` of one interface."""
        rows = self.json("show interface")
        return next(r for r in rows if r["name"] == name)

    def in_use(self):
        """Buffers that are not in the pool."""
        return sum(int(pool["used"]) for pool in self.json("show buffers")["pools"])

    def log(self):
        """What it has logged."""
        with open(self.log_path) as f:
            return f.read()

    def check_quiet(self):
        """All buffers are back, and nothing has panicked."""
        if self.process.poll() is not None:
            raise AssertionError(f"the router ended ({self.process.returncode}):\n{self.log()}")
        wait_for("every buffer is back in the pool", lambda: self.in_use() == 0)
        assert "panic" not in self.log(), self.log()

    def cpu_seconds(self):
        """Processor time of all its threads so far."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self, how=signal.SIGKILL):
        """Ends it with a signal and returns its status."""
        if self in Router.running:
            Router.running.remove(self)
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=20)

    def stop(self):
        """Ends it as an operator does."""
        try:
            return self.kill(signal.SIGTERM)
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)


def merged(base, more):
    """`base` with the mappings of `more` laid over it; lists are put behind one another."""
    out = copy.deepcopy(base)
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        elif isinstance(value, list) and isinstance(out.get(key), list):
            out[key] = out[key] + value
        else:
            out[key] = value
    return out


class Port:
    """One port of a bench: the router's side and the host's side of port number `n`, counted from 1."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        self.mac, self.host_mac = f"02:00:00:00:{n:02x}:01", f"02:00:00:00:{n:02x}:02"
        self.ip, self.host = f"10.0.{n}.1", f"10.0.{n}.2"
        self.ip6, self.host6 = f"2001:db8:{n}::1", f"2001:db8:{n}::2"


class Bench:
    """A router with ports `left`, `right`, ... and a wire to each.

    Port number n has the addresses 10.0.n.1/24 and 2001:db8:n::1/64; at its far end sits host .2 and ::2, whose MAC the
    router knows (unless `neighbors` is false). `extra` is laid over that configuration. Wires are attributes by name.
    """

    open = []

    def __init__(self, extra=None, ports=("left", "right"), addresses=True, neighbors=True, mtu=None, start=True, queues=None):
        Bench.open.append(self)
        self.inside, self.outside = Netns("r"), Netns("w")
        self.ports = {name: Port(name, n) for n, name in enumerate(ports, 1)}
        self.router = None
        self.wires = {}
        config = {
            "interfaces": {}, "neighbors": [], "routes": [],
            "quiver": {"dad": "off", "neighbor": {"retransmit-ms": 100}},
            "punt": {c: {"rate": 100000} for c in ("ttl-exceeded", "icmp-error")},
        }
        for p in self.ports.values():
            veth(self.inside, p.name, self.outside, p.name, mtu=mtu or 1500, mac_a=p.mac, mac_b=p.host_mac, queues=queues)
            self.wires[p.name] = Wire(self.outside, p.name, p.host_mac)
            fields = {"mtu": mtu} if mtu else {}
            if addresses:
                fields["addresses"] = [f"{p.ip}/24", f"{p.ip6}/64"]
            config["interfaces"][p.name] = fields
            if addresses and neighbors:
                for address in (p.host, p.host6):
                    config["neighbors"].append({"interface": p.name, "address": address, "mac": p.host_mac})
        driver = os.environ.get("QUIVER_TEST_DRIVER")
        if driver:
            config["devices"] = {name: {"driver": driver} for name in self.ports}
        self.config = extra if isinstance(extra, str) else merged(config, extra or {})
        if start:
            self.start()

    def __getattr__(self, name):
        wires = self.__dict__.get("wires", {})
        if name in wires:
            return wires[name]
        raise AttributeError(name)

    def start(self):
        """Starts the router and waits until its ports carry packets."""
        self.router = Router(self.inside, self.config)

        def up():
            rows = {r["name"]: r for r in self.router.json("show interface")}
            return all(rows.get(p, {}).get("link") for p in self.ports)

        wait_for("all ports have link", up)
        for wire in self.wires.values():
            wire.drain()

    def ctl(self, line):
        """The text of a command."""
        return self.router.ctl(line)

    def settle(self, port):
        """Waits until the router has announced its addresses and groups on a port: for tests that count all it sends there."""
        wait_for(f"nothing comes out of {port}", lambda: getattr(self, port).recv(timeout=1.2, chatter=True) is None, timeout=20)

    def counted(self, reason, by=1):
        """A context that ends when `show errors` counts `by` more of `reason`, and fails when it is another number."""
        return _Counted(self.router, reason, by)

    def close(self):
        """Ends everything."""
        failure = None
        Bench.open.remove(self)
        if self.router is not None:
            try:
                self.router.stop()
            except subprocess.TimeoutExpired as e:
                self.router.kill()
                failure = e
        for wire in self.wires.values():
            wire.close()
        self.inside.delete()
        self.outside.delete()
        if failure:
            raise AssertionError("the router did not end on SIGTERM") from failure


class _Counted:
    def __init__(self, router, reason, by):
        self.router, self.reason, self.by = router, reason, by

    def __enter__(self):
        self.before = self.router.errors()
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            return
        want = self.before.get(self.reason, 0) + self.by
        deadline = time.monotonic() + 5
        while True:
            now = self.router.errors()
            if now.get(self.reason, 0) >= want or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        changed = {k: v - self.before.get(k, 0) for k, v in now.items() if v != self.before.get(k, 0)}
        assert now.get(self.reason, 0) == want, f"{self.reason}: wanted {self.by} more; what changed: {changed}"
