#!/usr/bin/env python3
"""Packets a second of routers on veth devices, by turns: one way, a sender on CPU 1, the router on CPU 0.

    benchmarks/over_devices.py [--rounds N] [--seconds S] BINARY[:DRIVER] [BINARY[:DRIVER]...]

A second Quiver, of the first binary, sends IPv4 packets of 64 bytes as fast as it can. What counts is what comes out at the other end.
DRIVER is that of the router's devices, af-packet by default. With the word `linux` in the place of a binary Linux forwards, in the
softirq of the sender's CPU. As root.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from many_on_wire import Quiver, general, run

MAC = "02:00:00:00:aa:01"
ROUTER = """
interfaces: {left: {addresses: [10.0.1.1/24]}, right: {addresses: [10.0.2.1/24]}}
neighbors: [{interface: right, address: 10.0.2.2, mac: "02:00:00:00:bb:02"}]
"""
STREAM = (f'packet-generator new name s interface a rate 2000000 size 60 state enabled data "ethernet src 02:00:00:00:bb:01 dst {MAC} / '
          'ipv4 src 10.0.1.2 dst 10.0.2.2 / udp sport 1024-2047 random dport 9"')


def ns(name, *words):
    return run("ip", "netns", "exec", name, *words)


def came(name):
    return int(ns(name, "cat", "/sys/class/net/sink/statistics/rx_packets") or 0)


class Linux:
    """Linux in the router's place."""

    def __init__(self):
        for device, address in (("left", "10.0.1.1/24"), ("right", "10.0.2.1/24")):
            run("ip", "address", "add", address, "dev", device)
        run("ip", "neigh", "replace", "10.0.2.2", "lladdr", "02:00:00:00:bb:02", "dev", "right", "nud", "permanent")
        self.forward("1")

    def forward(self, on):
        for device in ("all", "left", "right"):
            Path(f"/proc/sys/net/ipv4/conf/{device}/forwarding").write_text(on)

    def stop(self):
        self.forward("0")
        for device in ("left", "right"):
            run("ip", "address", "flush", "dev", device)


def measure(a, binary, folder):
    binary, _, driver = binary.partition(":")
    devices = f"devices: {{left: {{driver: {driver}}}, right: {{driver: {driver}}}}}\n" if driver else ""
    router = Linux() if binary == "linux" else Quiver(binary, folder, "router", ROUTER + devices + general(folder, "router", 0))
    sender = Quiver(a.sender, folder, "sender", general(folder, "sender", 1) + "interfaces: {g0: {}, a: {l2xc: g0}}\n"
                    f"devices: {{a: {{driver: pcap, pcap: {{write: {folder}/a.pcap}}}}}}\n")
    try:
        sender.lines([STREAM])
        time.sleep(1)
        before, began = came("sinkns"), time.monotonic()
        time.sleep(a.seconds)
        return (came("sinkns") - before) / (time.monotonic() - began)
    finally:
        sender.stop()
        router.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("binary", nargs="+")
    a = p.parse_args()
    a.sender = next(b for b in a.binary if b != "linux").partition(":")[0]
    run("ip", "netns", "add", "sinkns")
    run("ip", "link", "add", "g0", "type", "veth", "peer", "name", "left")
    run("ip", "link", "add", "right", "type", "veth", "peer", "name", "sink", "netns", "sinkns")
    run("ip", "link", "set", "left", "address", MAC)
    ns("sinkns", "ip", "link", "set", "sink", "up")
    for d in ("g0", "left", "right"):
        Path(f"/proc/sys/net/ipv6/conf/{d}/disable_ipv6").write_text("1")
        run("ip", "link", "set", d, "up")
    try:
        found = {b: [] for b in a.binary}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(a.rounds):
                for binary in a.binary:
                    found[binary].append(measure(a, binary, folder))
                    print(f"{binary}: {found[binary][-1] / 1e6:.3f} Mpps", flush=True)
        first = statistics.median(found[a.binary[0]])
        for binary, all_ in found.items():
            print(f"median of {binary}: {statistics.median(all_) / 1e6:.3f} Mpps ({statistics.median(all_) / first:.2f})")
    finally:
        subprocess.run(["ip", "link", "delete", "g0"], check=False)
        subprocess.run(["ip", "link", "delete", "right"], check=False)
        subprocess.run(["ip", "netns", "delete", "sinkns"], check=False)


if __name__ == "__main__":
    main()
