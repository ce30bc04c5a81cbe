#!/usr/bin/env python3
"""What thousands of bridge domains, routing tables and sub-interfaces cost on real devices, beside one of each.

    benchmarks/many_on_wire.py [--rounds N] [--seconds S] [--rate PPS] [--binary FILE]

A router with the document of scale.py (4000 bridge domains, 4000 routing tables, 12,000 sub-interfaces) and one with a single
bridge domain and two routing tables take turns on the same two veth devices. A second Quiver sends on both: frames that are
bridged and IPv4 packets that are routed by the table of their sub-interface, each of a random one. Prints, for both, the packets
that came out a second, and the clocks that all nodes of the router took a packet, device and all. As root.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scale

LEFT, RIGHT = "02:00:00:00:aa:01", "02:00:00:00:aa:02"
STATIONS = ("02:00:00:00:bb:01", "02:00:00:00:bb:02")


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Quiver:
    def __init__(self, binary, folder, name, document):
        self.binary, self.socket = binary, f"{folder}/{name}.sock"
        config = Path(folder, f"{name}.yaml")
        config.write_text(document)
        self.log = open(f"{folder}/{name}.log", "w")
        self.process = subprocess.Popen([binary, "run", "-c", str(config)], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} does not start: " + Path(self.log.name).read_text()[-2000:])
            time.sleep(0.05)

    def answers(self):
        return subprocess.run([self.binary, "ctl", "-s", self.socket, "show", "version"], capture_output=True).returncode == 0

    def ctl(self, *words):
        return run(self.binary, "ctl", "-s", self.socket, *words)

    def lines(self, lines):
        text = "".join(line + "\n" for line in lines)
        done = subprocess.run([self.binary, "ctl", "-s", self.socket], input=text, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.log.close()


def general(folder, name, cpu):
    return f"quiver: {{workers: {{cpus: [{cpu}]}}, sockets: {{ctl: {folder}/{name}.sock}}}}\n"


def router(folder, bridges, vrfs):
    """Routed packets go back to where they came from: each table has its default route to the neighbour there."""
    out = [scale.document(bridges, vrfs, 2 * bridges + vrfs, ["left", "right"]), general(folder, "router", 1), "neighbors:\n"]
    for n in range(vrfs):
        side, number = ("left", "right")[n % 2], bridges + n // 2 + 1
        out.append(f'  - {{interface: {side}.{number}, address: {scale.neighbor(n)[0]}, mac: "{STATIONS[n % 2]}"}}\n')
    return "".join(out)


def ids(numbers):
    """Ranges of outer and inner tags that are those of some numbers, in random order."""
    outer, inner = zip(*map(scale.tags, (numbers[0], numbers[-1])))
    rows = outer[0] != outer[1]
    spell = lambda a, b: f"{a}-{b} random" if a != b else f"{a}"
    return spell(*outer), spell(1, 100) if rows else spell(*inner)


def sender(folder):
    out = [general(folder, "sender", 0), "interfaces: {g0: {}, g1: {}, a: {l2xc: g0}, b: {l2xc: g1}}\n"]
    ports = ", ".join(f"{p}: {{driver: pcap, pcap: {{write: {folder}/{p}.pcap}}}}" for p in "ab")
    out.append(f"devices: {{{ports}}}\n")
    return "".join(out)


def streams(bridges, vrfs, rate):
    for side, (source, mac) in enumerate((("a", LEFT), ("b", RIGHT))):
        here, there = STATIONS[side], STATIONS[1 - side]
        for kind, numbers in (("bridged", range(bridges)), ("routed", range(bridges, bridges + vrfs // 2))):
            outer, inner = ids(numbers)
            to = there if kind == "bridged" else mac
            yield (
                f"packet-generator new name {kind}-{source} interface {source} rate {rate / 4:.0f} size 60 state enabled data "
                f'"ethernet src {here} dst {to} / vlan id {outer} / vlan id {inner} / '
                f'ipv4 src 198.51.100.1 dst 203.0.113.1-203.0.113.254 random / udp"'
            )


def sent():
    return sum(int(Path(f"/sys/class/net/{d}/statistics/tx_packets").read_text()) for d in ("left", "right"))


def clocks(r):
    """TSC clocks of all nodes a packet that came in."""
    workers = json.loads(r.ctl("show", "runtime", "--json"))
    spent = sum(n["clocks"] for w in workers for n in w["nodes"])
    return spent / sum(w["packets-in"] for w in workers)


def measure(a, folder, bridges, vrfs):
    for device, mac in (("left", LEFT), ("right", RIGHT)):
        run("ip", "link", "set", device, "address", mac, "up")
    r = Quiver(a.binary, folder, "router", router(folder, bridges, vrfs))
    s = Quiver(a.binary, folder, "sender", sender(folder))
    try:
        s.lines(streams(bridges, vrfs, a.rate))
        # Until every domain has learnt its stations.
        time.sleep(3)
        r.ctl("clear", "runtime")
        before, began = sent(), time.monotonic()
        time.sleep(a.seconds)
        pps = (sent() - before) / (time.monotonic() - began)
        return pps, clocks(r)
    finally:
        s.stop()
        r.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rate", type=int, default=400_000)
    p.add_argument("--binary", default="target/release/quiver")
    a = p.parse_args()
    for one, other in (("g0", "left"), ("g1", "right")):
        run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        for d in (one, other):
            Path(f"/proc/sys/net/ipv6/conf/{d}/disable_ipv6").write_text("1")
            run("ip", "link", "set", d, "up")
    try:
        with tempfile.TemporaryDirectory() as folder:
            rounds = {(1, 2): [], (4000, 4000): []}
            for _ in range(a.rounds):
                for (bridges, vrfs), found in rounds.items():
                    found.append(measure(a, folder, bridges, vrfs))
                    print(f"{bridges} bridge domains, {vrfs} tables: {found[-1][0]:.0f} packets a second, {found[-1][1]:.0f} clocks")
            one, many = ([statistics.median(x) for x in zip(*found)] for found in rounds.values())
            print(f"medians: {one[0]:.0f} and {many[0]:.0f} packets a second ({many[0] / one[0]:.2f}), ", end="")
            print(f"{one[1]:.0f} and {many[1]:.0f} clocks a packet ({many[1] / one[1]:.2f})")
    finally:
        for d in ("g0", "g1"):
            run("ip", "link", "delete", d)


if __name__ == "__main__":
    main()
