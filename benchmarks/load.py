#!/usr/bin/env python3
"""Processor time of a router against load, over veth pairs by AF_PACKET, for each way in which workers wait, and for another binary.

    benchmarks/load.py BINARY [--before OTHER] [--seconds N] [--json FILE]

BINARY runs with `poll: latency`, `balanced` and `power`; OTHER as it is. The sender is a router too, with a packet generator, on the
other half of the machine's processors. Modes take turns at each load. Needs root."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

LOADS = (0, 1, 5, 10, 25, 50, 75, 100)
HZ = os.sysconf("SC_CLK_TCK")


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def processor(pid):
    """Seconds that all threads of a process had a processor."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


class Quiver:
    def __init__(self, binary, netns, config, cpu):
        self.binary, self.dir = binary, tempfile.mkdtemp(prefix="load-")
        self.socket = os.path.join(self.dir, "ctl")
        config["quiver"]["sockets"] = {"ctl": self.socket}
        config["quiver"]["workers"] = {"cpus": [cpu]}
        path = os.path.join(self.dir, "router.yaml")
        with open(path, "w") as f:
            json.dump(config, f)
        self.process = subprocess.Popen(["ip", "netns", "exec", netns, binary, "run", "-c", path],
                                        stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.dir, "log"), "w"))
        end = time.time() + 20
        while True:
            try:
                self.ctl("show version")
                return
            except subprocess.CalledProcessError:
                if time.time() > end:
                    sys.exit(open(os.path.join(self.dir, "log")).read())
                time.sleep(0.05)

    def ctl(self, line):
        return run(self.binary, "ctl", "-s", self.socket, "--json", line)

    def sent(self, name):
        return next(i for i in json.loads(self.ctl("show interface")) if i["name"] == name)["tx"]["packets"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def mac(netns, dev):
    return run("ip", "netns", "exec", netns, "cat", f"/sys/class/net/{dev}/address").strip()


class World:
    """Sender, router, receiver and a host that pings through the router, each in a namespace."""

    def __init__(self):
        self.spaces = [f"load{os.getpid()}{x}" for x in "srkp"]
        s, r, k, p = self.spaces
        for ns in self.spaces:
            run("ip", "netns", "add", ns)
        for a, na, b, nb in (("s0", s, "r0", r), ("k0", k, "r1", r), ("p0", p, "r2", r)):
            run("ip", "link", "add", a, "netns", na, "type", "veth", "peer", b, "netns", nb)
            run("ip", "-n", na, "link", "set", a, "up")
            run("ip", "-n", nb, "link", "set", b, "up")
        run("ip", "-n", k, "addr", "add", "10.0.2.2/24", "dev", "k0")
        run("ip", "-n", k, "route", "add", "10.0.3.0/24", "via", "10.0.2.1")
        run("ip", "-n", p, "addr", "add", "10.0.3.2/24", "dev", "p0")
        run("ip", "-n", p, "route", "add", "10.0.2.0/24", "via", "10.0.3.1")

    def router(self, binary, mode):
        _, r, k, _ = self.spaces
        config = {
            "devices": {f"r{n}": {"driver": "af-packet"} for n in range(3)},
            "interfaces": {f"r{n}": {"addresses": [f"10.0.{n + 1}.1/24"]} for n in range(3)},
            # To an address that Linux there drops early.
            "neighbors": [{"interface": "r1", "address": "10.0.2.9", "mac": mac(k, "k0")}],
            "quiver": {**({"poll": mode} if mode else {})},
        }
        return Quiver(binary, r, config, max(os.sched_getaffinity(0)))

    def sender(self, binary, pps):
        s, r, *_ = self.spaces
        stream = {"name": "s", "interface": "s0", "node": "ip4-input", "state": "enabled", "rate": pps, "size": 46,
                  "layers": [{"ipv4": {"src": "10.0.1.3", "dst": "10.0.2.9"}}, {"udp": {"sport": 1, "dport": 2}}]}
        config = {"devices": {"s0": {"driver": "af-packet"}}, "interfaces": {"s0": {"addresses": ["10.0.1.2/24"]}},
                  "neighbors": [{"interface": "s0", "address": "10.0.1.1", "mac": mac(r, "r0")}],
                  "routes": ["10.0.2.0/24 via 10.0.1.1"], "packet-generator": [stream], "quiver": {}}
        return Quiver(binary, s, config, min(os.sched_getaffinity(0)))

    def ping(self, n):
        told = subprocess.run(["ip", "netns", "exec", self.spaces[3], "ping", "-n", "-i", "0.005", "-c", str(n), "-W", "1", "10.0.2.2"],
                              capture_output=True, text=True).stdout
        times = sorted(float(t) * 1000 for t in re.findall(r"time=([\d.]+)", told))
        if not times:
            return None, None
        return times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]

    def end(self):
        for ns in self.spaces:
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)


def measure(world, binary, mode, pps, seconds, sender):
    router = world.router(binary, mode)
    source = world.sender(sender, pps) if pps else None
    try:
        time.sleep(1.5)
        at, used, sent = time.time(), processor(router.process.pid), router.sent("r1")
        half = seconds / 2
        time.sleep(half)
        took = time.time() - at
        share, rate = (processor(router.process.pid) - used) / took, (router.sent("r1") - sent) / took
        return share, rate, *world.ping(int(half / 0.005))
    finally:
        if source:
            source.stop()
        router.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--before")
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--json")
    a = p.parse_args()
    modes = [("before", a.before, None)] if a.before else []
    modes += [(m, a.binary, m) for m in ("latency", "balanced", "power")]
    world, rows = World(), []
    try:
        top = max(measure(world, a.binary, "latency", 5_000_000, a.seconds, a.binary)[1] for _ in range(2))
        print(f"most that goes through: {top / 1e3:.0f} thousand packets a second")
        print(f"{'load':>5} {'mode':>9} {'kpps':>7} {'CPU':>7} {'us/packet':>10} {'ping p50 us':>12} {'p99':>7}", flush=True)
        for load in LOADS:
            for name, binary, mode in modes:
                some = [measure(world, binary, mode, int(top * load / 100), a.seconds, a.binary) for _ in range(a.rounds)]
                share, rate, mid, late = (statistics.median([x for x in c if x is not None] or [float("nan")]) for c in zip(*some))
                cost = share / rate * 1e6 if rate else float("nan")
                rows.append({"load": load, "mode": name, "pps": rate, "cpu": share, "ping_us": [mid, late]})
                print(f"{load:>4}% {name:>9} {rate / 1e3:7.1f} {share * 100:6.2f}% {cost:10.2f} {mid:12.0f} {late:7.0f}", flush=True)
    finally:
        world.end()
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"top": top, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
