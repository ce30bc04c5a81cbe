#!/usr/bin/env python3
"""How long a change of one line takes in a document of a million routes and ten thousand sub-interfaces.

    benchmarks/large_document.py [--binary FILE] [--routes N] [--subs N] [--rounds N] [--keep FOLDER]

Starts a router with the document and a state folder, and then, each round, changes one line (by turns the next hop of a
route in the middle and the description of a sub-interface), and runs `quiver plan` and `quiver apply`. Prints, as medians
of the rounds, with the worst: wall time, CPU time of the router, what its memory grew by at most meanwhile, and the
longest time for which the control thread was kept. Takes root: the router gets a network namespace of its own.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

HOPS = 16


def route(n, hop):
    """Number `n` of up to 4 million prefixes of 24 bits, none twice."""
    a, b = divmod(n, 65536)
    return f"  - {11 + a}.{b >> 8}.{b & 255}.0/24 via {hop}\n"


def document(routes, subs):
    """The text of the document but for its section `quiver`: in pieces, of which any may be changed."""
    out = ["interfaces:\n  port0:\n    addresses: [10.0.0.1/24]\n    sub-interfaces:\n"]
    for n in range(subs):
        outer, inner = 1 + n // 100, 1 + n % 100
        address = (100 << 24 | 64 << 16) + 4 * n + 1
        address = ".".join(str(address >> s & 255) for s in (24, 16, 8, 0))
        out.append(f"      {n + 1}: {{description: Customer {n}, encapsulation: {{dot1q: {outer}, inner-dot1q: {inner}, exact-match: true}}, "
                   f"addresses: [{address}/30]}}\n")
    out.append("routes:\n")
    out += [route(n, f"10.0.0.{2 + n % HOPS}") for n in range(routes)]
    return out


class Router:
    """A router in a namespace, with one port."""

    def __init__(self, binary, folder):
        self.binary, self.socket = binary, f"{folder}/ctl.sock"
        self.space = f"large-{os.getpid()}"
        for line in (f"netns add {self.space}", f"link add port0 netns {self.space} type veth peer name far netns {self.space}",
                     f"-n {self.space} link set port0 up", f"-n {self.space} link set far up"):
            subprocess.run(["ip", *line.split()], check=True)
        self.log = open(f"{folder}/log", "w")
        self.process = None

    def start(self, file):
        self.process = subprocess.Popen(["ip", "netns", "exec", self.space, self.binary, "run", "-c", file], stdout=self.log, stderr=self.log)
        while subprocess.run([self.binary, "ctl", "-s", self.socket, "show version"], capture_output=True).returncode:
            if self.process.poll() is not None:
                raise SystemExit(f"the router ended: see {self.log.name}")
            time.sleep(0.1)

    def cpu(self):
        """Seconds of CPU time of the process; a worker without packets sleeps."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name):
        """MiB, of a line of /proc/PID/status."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M)[1]) / 1024

    def run(self, words):
        """Runs a command of `quiver`: seconds, CPU seconds, MiB that it grew by, and what was answered."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")
        before, cpu, began = self.memory("VmRSS"), self.cpu(), time.monotonic()
        done = subprocess.run([self.binary, words[0], "-s", self.socket, *words[1:]], capture_output=True, text=True)
        took = time.monotonic() - began
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return took, self.cpu() - cpu, self.memory("VmHWM") - before, done.stdout

    def kept(self):
        """For how many ms of CPU time the control thread was kept at most, since this was last asked."""
        def ctl(*words):
            return subprocess.run([self.binary, "ctl", "-s", self.socket, *words], capture_output=True, text=True, check=True).stdout
        longest = json.loads(ctl("--json", "show control"))["longest-cpu-ms"]
        ctl("clear control")
        return longest

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
        subprocess.run(["ip", "netns", "del", self.space])


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
    binary = os.path.abspath(a.binary)
    pieces = document(a.routes, a.subs)
    head = f"quiver: {{workers: 1, state: {folder}/state, sockets: {{ctl: {folder}/ctl.sock}}}}\n"

    def write():
        with open(f"{folder}/new.yaml", "w") as f:
            f.write(head)
            f.writelines(pieces)
        return f"{folder}/new.yaml"

    router = Router(binary, folder)
    try:
        began = time.monotonic()
        router.start(write())
        print(f"{a.routes:,} routes, {a.subs:,} sub-interfaces, {os.path.getsize(f'{folder}/new.yaml') / 2**20:.1f} MiB; started in "
              f"{time.monotonic() - began:.1f} s, {router.memory('VmRSS'):.0f} MiB", flush=True)
        router.kept()
        found = {"plan": [], "apply": []}
        for n in range(a.rounds):
            if n % 2 == 0 and a.routes:
                middle = a.routes // 2 + n
                pieces[1 + a.subs + 1 + middle] = route(middle, f"10.0.0.{30 + n}")
            else:
                pieces[1 + a.subs // 2] = re.sub(r"description: \S+ \S+,", f"description: Changed {n},", pieces[1 + a.subs // 2])
            file = write()
            for word in found:
                *figures, told = router.run([word, file])
                if not re.search("^1 steps, " if word == "plan" else "^applied in 1 step", told, re.M):
                    raise SystemExit(f"{word}: not one step: {told}")
                found[word].append((*figures, router.kept()))
        print(f"{'':8}{'s':>7}{'worst':>8}{'CPU s':>8}{'MiB':>8}{'kept ms':>9}")
        for word, rows in found.items():
            wall, cpu, grew, kept = zip(*rows)
            print(f"{word:8}{statistics.median(wall):7.2f}{max(wall):8.2f}{statistics.median(cpu):8.2f}{max(grew):8.0f}{max(kept):9.2f}")
    finally:
        router.stop()
        if not a.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
