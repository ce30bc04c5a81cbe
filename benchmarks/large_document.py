#!/usr/bin/env python3
"""What the commands of documents take in a document of a million routes and ten thousand sub-interfaces, with comments.

    benchmarks/large_document.py [--binary FILE] [--routes N] [--subs N] [--rounds N] [--keep FOLDER]

Starts a router with the document and a state folder, and then, each round, changes one line (by turns the next hop of a
route in the middle and the description of a sub-interface), and has that planned, applied, taken back and saved by each command
that knows documents. Prints of each, as medians of the rounds: wall time, with the worst; CPU time of the router; the most memory that
the client took, and what the router's grew by at most; the longest CPU time for which the control thread was kept;
and the longest that a short command beside waited for its answer. Pings go through the router all the time: it says how many were lost.
Ends with an error where `save` loses a comment or the order. Takes root: the router and two hosts get network namespaces.
"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

HOPS = 16


def route(n, hop):
    """Number `n` of up to 4 million prefixes of 24 bits, none twice."""
    a, b = divmod(n, 65536)
    return f"  - {11 + a}.{b >> 8}.{b & 255}.0/24 via {hop}\n"


def document(routes, subs):
    """The text of the document but for its section `quiver`: in pieces, of which any may be changed."""
    out = ["# Two ports, and customers behind the first one.\ninterfaces:\n  port1: {addresses: [10.0.1.1/24]}  # hosts\n"
           "  port0:\n    addresses: [10.0.0.1/24]\n    sub-interfaces:\n"]
    for n in range(subs):
        outer, inner = 1 + n // 100, 1 + n % 100
        address = (100 << 24 | 64 << 16) + 4 * n + 1
        address = ".".join(str(address >> s & 255) for s in (24, 16, 8, 0))
        above = f"      # Since contract {n}.\n" if n % 10 == 0 else ""
        out.append(f"{above}      {n + 1}: {{description: Customer {n}, encapsulation: {{dot1q: {outer}, inner-dot1q: {inner}, exact-match: true}}, "
                   f"addresses: [{address}/30]}}  # ticket {n}\n")
    out.append("routes:\n")
    out += [(f"  # Site {n // 1000}.\n" if n % 1000 == 0 else "") + route(n, f"10.0.0.{2 + n % HOPS}") for n in range(routes)]
    return out


def run(line, **more):
    return subprocess.run(line.split(), check=True, **more)


class Router:
    """A router in a namespace, with two ports and a host at each."""

    def __init__(self, binary, folder):
        self.binary, self.socket = binary, f"{folder}/ctl.sock"
        self.space, *self.hosts = self.spaces = [f"large{os.getpid()}{x}" for x in "rab"]
        for space in self.spaces:
            run(f"ip netns add {space}")
        for n, host in enumerate(self.hosts):
            run(f"ip link add port{n} netns {self.space} type veth peer name far netns {host}")
            run(f"ip -n {self.space} link set port{n} up")
            run(f"ip -n {host} link set far up")
            run(f"ip -n {host} address add 10.0.{n}.2/24 dev far")
            run(f"ip -n {host} route add default via 10.0.{n}.1")
        self.log = open(f"{folder}/log", "w")
        self.process = self.pings = None

    def start(self, file):
        self.process = subprocess.Popen(["ip", "netns", "exec", self.space, self.binary, "run", "-c", file], stdout=self.log, stderr=self.log)
        while subprocess.run([self.binary, "ctl", "-s", self.socket, "show version"], capture_output=True).returncode:
            if self.process.poll() is not None:
                raise SystemExit(f"the router ended: see {self.log.name}")
            time.sleep(0.1)

    def ping(self):
        self.pings = subprocess.Popen(["ip", "netns", "exec", self.hosts[0], "ping", "-q", "-i", "0.01", "10.0.1.2"],
                                      stdout=subprocess.PIPE, text=True)

    def lost(self):
        """Pings that were sent, and not answered."""
        self.pings.send_signal(2)
        told = self.pings.communicate()[0]
        sent, back = re.search(r"(\d+) packets transmitted, (\d+) received", told).groups()
        return int(sent), int(sent) - int(back)

    def cpu(self):
        """Seconds of CPU time of the process; a worker without packets sleeps."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name):
        """MiB, of a line of /proc/PID/status."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M)[1]) / 1024

    def ctl(self, *words):
        return subprocess.run([self.binary, "ctl", "-s", self.socket, *words], capture_output=True, text=True, check=True).stdout

    def run(self, words, answer):
        """Runs a command of `quiver`, whose answer is to match: what was measured meanwhile."""
        words = [words[0], "-s", self.socket, *words[1:]] if words[0] != "check" else words
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")
        self.ctl("clear control")
        with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as errors, Beside(self.socket) as beside:
            before, cpu, began = self.memory("VmRSS"), self.cpu(), time.monotonic()
            client = subprocess.Popen([self.binary, *words], stdout=told, stderr=errors)
            _, status, used = os.wait4(client.pid, 0)
            took = time.monotonic() - began
            client.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0), errors.seek(0)
            told = told.read()
            if client.returncode or not re.search(answer, told, re.M):
                raise SystemExit(f"{' '.join(words)}: {told[:500]}{errors.read()}")
        # The longest time for which the control thread was kept, without what others took of its processor.
        kept = json.loads(self.ctl("--json", "show control"))["longest-cpu-ms"]
        return {"s": took, "CPU s": self.cpu() - cpu, "client MiB": used.ru_maxrss / 1024, "grew MiB": self.memory("VmHWM") - before,
                "kept ms": kept, "beside ms": beside.longest * 1000, "told": told}

    def stop(self):
        for process in (self.pings, self.process):
            if process and process.poll() is None:
                process.terminate()
                process.wait()
        for space in self.spaces:
            run(f"ip netns del {space}")


class Beside:
    """A client that asks for little, again and again, and the longest that it waited."""

    def __init__(self, path):
        self.path, self.longest, self.ends = path, 0, False
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path)
            lines = s.makefile()
            while not self.ends:
                began = time.monotonic()
                s.sendall(b'{"id": 1, "line": "show version"}\n')
                lines.readline()
                self.longest = max(self.longest, time.monotonic() - began)
                time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()


def only(what, a, b, lines):
    """Two texts differ in nothing but so many lines."""
    a, b = a.splitlines(), b.splitlines()
    differ = sum(x != y for x, y in zip(a, b)) + abs(len(a) - len(b))
    if differ != lines:
        raise SystemExit(f"{what}: {differ} lines differ, not {lines}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default="target/release/quiver")
    p.add_argument("--routes", type=int, default=1_000_000)
    p.add_argument("--subs", type=int, default=10_000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--keep", metavar="FOLDER", help="where documents, log and state are left")
    a = p.parse_args()
    folder = a.keep or tempfile.mkdtemp(prefix="large-")
    os.makedirs(folder, exist_ok=True)
    shutil.rmtree(f"{folder}/state", ignore_errors=True)
    binary = os.path.abspath(a.binary)
    pieces = document(a.routes, a.subs)
    head = f"quiver: {{workers: 1, state: {folder}/state, sockets: {{ctl: {folder}/ctl.sock}}}}\n"
    file = f"{folder}/new.yaml"

    def write():
        with open(file, "w") as f:
            f.write(head)
            f.writelines(pieces)

    router = Router(binary, folder)
    try:
        began = time.monotonic()
        write()
        router.start(file)
        print(f"{a.routes:,} routes, {a.subs:,} sub-interfaces, {os.path.getsize(file) / 2**20:.1f} MiB; started in "
              f"{time.monotonic() - began:.1f} s, {router.cpu():.1f} s of CPU time, {router.memory('VmRSS'):.0f} MiB, at most "
              f"{router.memory('VmHWM'):.0f} MiB", flush=True)
        router.ping()
        found = {}

        def measure(name, words, answer):
            one = router.run(words, answer)
            found.setdefault(name, []).append(one)
            return one["told"]

        for n in range(a.rounds):
            if n % 2 == 0 and a.routes:
                middle = a.routes // 2 + n
                pieces[1 + a.subs + 1 + middle] = route(middle, f"10.0.0.{30 + n}")
            else:
                pieces[1 + a.subs // 2] = re.sub(r"description: \S+ \S+,", f"description: Changed {n},", pieces[1 + a.subs // 2])
            write()
            measure("check", ["check", file], "")
            measure("diff", ["diff", file], "^~ ")
            measure("plan", ["plan", file], "^1 steps, ")
            measure("apply", ["apply", file], "^applied in 1 step")
            measure("rollback", ["rollback"], "^applied in 1 step")
            router.run(["apply", file], "^applied in 1 step")
            router.ctl(f"set interface description port0.{1 + n} saved-{n}")
            measure("save", ["save"], "^saved")
            kept = json.loads(router.ctl("--json", "configuration history"))[0]["number"]
            measure("history", ["history"], r"^ +\d+ ")
            measure("history N", ["history", str(kept)], "saved")
            saved = measure("history N --document", ["history", str(kept), "--document"], "^routes:")
            only("save", saved, open(file).read(), 1)
            measure("dump", ["dump"], "^routes:")
            measure("configuration get", ["ctl", "configuration get interfaces.port1"], "10.0.1.1")
            measure("configuration set", ["ctl", "configuration set interfaces.port1.mtu 1400"], "^applied in 1 step")
            measure("... of a route", ["ctl", f"configuration set 'routes[prefix={route(7, '').split()[1]}]' 'via 10.0.0.9{n}'"], "^applied in 1 step")
            # What was saved and set goes again.
            router.run(["apply", file], "^applied in ")
        sent, lost = router.lost()
        columns = ("s", "worst s", "CPU s", "client MiB", "grew MiB", "kept ms", "beside ms")
        print(f"{'':21}" + "".join(f"{c:>12}" for c in columns))
        for name, rows in found.items():
            of = {c: [r[c] for r in rows] for c in rows[0] if c != "told"}
            figures = [statistics.median(of["s"]), max(of["s"]), statistics.median(of["CPU s"])]
            print(f"{name:21}" + "".join(f"{f:12.2f}" for f in figures)
                  + "".join(f"{max(of[c]):12.{d}f}" for c, d in zip(columns[3:], (0, 0, 2, 1))))
        print(f"pings: {sent:,} sent, {lost} lost")
    finally:
        router.stop()
        if not a.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
