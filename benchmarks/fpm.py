#!/usr/bin/env python3
"""FRR gives the real table past the kernel: how long after bgpd has it is it forwarded by, and how much of that is zebra's own.

    benchmarks/fpm.py --tables FOLDER [--binary FILE] [--share PART] [--only default,floor,fpm]

Arguments and the speaker of BGP are those of internet.py. Prints a line of JSON a figure; times are seconds from the start of the session:

    default   as `floor`, but with zebra's own limits, which make its main thread take twice as long
    floor     zebra into a socket that is read and thrown away: what FRR alone takes
    fpm       the same into Quiver: to the last route forwarded by
    again     in all cases what zebra takes to tell the whole table once more, when the connection is made anew: no BGP and no kernel in between

As root; FRR must be installed.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import internet
from internet import ARGS, Netns, Router, Speaker, expected, in_kernel, memory, processor, say, table, veth, wait_for

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "labs"))
from frr import Frr  # noqa: E402

FPM = "fpm address 127.0.0.1\n"
# zebra's main thread stops at 200 changes that its dataplane thread has not made, and starts anew when there are fewer.
LIMITS = "zebra dplane limit 10000\n"
BGPD = """router bgp 65001
 bgp router-id 10.0.2.1
 no bgp ebgp-requires-policy
 neighbor 10.0.2.2 remote-as 65002
 neighbor 10.0.2.2 passive
 address-family ipv6 unicast
  neighbor 10.0.2.2 activate
 exit-address-family
exit
"""
# Reads, throws away, and says when what came: at most every 20 ms.
SINK = """
import json, socket, time
s = socket.create_server(("127.0.0.1", 2620))
while True:
    c, _ = s.accept()
    buf, total, told = bytearray(1 << 20), 0, 0
    print(json.dumps([time.monotonic(), 0]), flush=True)
    while n := c.recv_into(buf):
        total += n
        print(json.dumps([time.monotonic(), total]), flush=True) if time.monotonic() > told + .02 else None
"""


class Sink:
    """The socket that throws away, in a process of its own."""

    def __init__(self, ns):
        self.process = ns.start([sys.executable, "-c", SINK])
        self.last, self.bytes, self.began = 0.0, 0, 0.0
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        for line in self.process.stdout:
            when, total = json.loads(line)
            self.began = when if total == 0 else self.began
            self.last, self.bytes = when, total

    def close(self):
        self.process.kill()
        self.process.wait()


class Beside:
    """FRR in a namespace with the device `e1`, the speaker's at its other end, and what has been told since."""

    def __init__(self, ns, b, zebra=FPM + LIMITS):
        self.ns, self.b = ns, b
        ns.run("sysctl -qw net.ipv6.route.max_size=2147483647", check=False)
        self.frr = Frr(ns).start(zebra, fpm=True, bgpd=BGPD)

    def received(self):
        """Prefixes of each family that bgpd has."""
        got = []
        for family in ("ipv4", "ipv6"):
            said = self.frr.json("bgpd", f"show bgp {family} unicast summary") or {}
            got.append(said.get("peers", {}).get("10.0.2.2", {}).get("pfxRcd", 0))
        return got

    def used(self):
        return {d: processor(self.pid(d)) for d in self.frr.running}

    def counters(self):
        """What zebra counts of the connection; `buffer-full-hits`: how often it had to wait for the other end."""
        return self.frr.json("zebra", "show fpm counters")

    def pid(self, daemon):
        return int(Path(self.frr.dir, f"{daemon}.pid").read_text())

    def give(self, told, wanted, done):
        """Gives it the table. Returns when bgpd has it, when the kernel has it, and when `done` answers so; all since the start."""
        was, at, over = in_kernel(self.ns), {}, threading.Event()
        began = time.monotonic()
        speaker = Speaker(self.b)
        threading.Thread(target=speaker.say, args=(told,), daemon=True).start()

        def watch(what, there, every):
            while what not in at and not over.is_set():
                now = time.monotonic()
                if there():
                    at[what] = round(now - began, 2)
                time.sleep(every)
        watches = [threading.Thread(target=watch, args=w) for w in (
            ("bgpd", lambda: self.received() == list(wanted), 0.2),
            ("kernel", lambda: all(now >= w + n for now, w, n in zip(in_kernel(self.ns), wanted, was, strict=True)), 0.1), ("told", done, 0.1))]
        for w in watches:
            w.start()
        for w in watches:
            w.join(timeout=max(0.1, began + 400 - time.monotonic()))
        over.set()
        return speaker, began, at

    def reconnect(self):
        """zebra tells all once more."""
        self.frr.configure("zebra", "no fpm address", "fpm address 127.0.0.1")

    def close(self):
        self.frr.close()


def quiet(value, seconds=4):
    """Whether this has stayed the same for so long; asked again and again."""
    state = [None, 0.0]

    def there():
        now = value()
        if now != state[0]:
            state[:] = now, time.monotonic()
        return bool(now) and time.monotonic() > state[1] + seconds
    return there


def floor(told, wanted, what="floor", zebra=FPM + LIMITS):
    ns, b = Netns("k", quiet=False), Netns("b", quiet=False)
    veth(ns, "e1", b, "eth0")
    for where, n, device in ((ns, 1, "e1"), (b, 2, "eth0")):
        where.ip(f"address add 10.0.2.{n}/24 dev {device}")
        where.ip(f"address add 2001:db8:2::{n}/64 dev {device} nodad")
    with contextlib.ExitStack() as stack:
        for end in (ns.delete, b.delete):
            stack.callback(end)
        sink = Sink(ns)
        stack.callback(sink.close)
        beside = Beside(ns, b, zebra)
        stack.callback(beside.close)
        speaker, began, at = beside.give(told, wanted, quiet(lambda: sink.bytes))
        stack.callback(speaker.close)
        at["told"] = round(sink.last - began, 2)
        say(what, routes=sum(wanted), **at, after_bgpd=round(at["told"] - at["bgpd"], 2), bytes=sink.bytes, processor=beside.used(), zebra=beside.counters())
        before, first = beside.used(), sink.began
        beside.reconnect()
        wait_for("zebra has told it again", quiet(lambda: sink.bytes if sink.began != first else 0), timeout=120)
        say("again", into="nothing", seconds=round(sink.last - sink.began, 2), bytes=sink.bytes, before=before, processor=beside.used())


def through(told, wanted):
    with contextlib.ExitStack() as stack:
        def make(name):
            ns = Netns(name, quiet=False)
            stack.callback(ns.delete)
            return ns
        ports, linux, b = map(make, "rcb")
        veth(ports, "right", b, "eth0")
        b.ip("address add 10.0.2.2/24 dev eth0")
        b.ip("address add 2001:db8:2::2/64 dev eth0 nodad")
        router = Router(ports, {
            "interfaces": {"right": {"lcp": "e1", "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
            "linux-cp": {"default-netns": linux.name, "lcp-sync": True, "netlink": False, "fpm": {"hold": 60}}, "quiver": {"dad": "off"}})
        stack.callback(router.stop)

        def fpm():
            return next(iter(router.json("show fpm")), {})
        wait_for("Linux has the addresses", lambda: "2001:db8:2::1" in linux.ip("-6 addr show dev e1").stdout)
        wait_for("somebody listens", lambda: ":2620 " in linux.run("ss -Htln").stdout and fpm().get("devices") == 1)
        beside = Beside(linux, b)
        stack.callback(beside.close)

        def there():
            now = fpm()
            return now.get("routes", 0) >= sum(wanted) and now["waiting"] == 0
        before = processor(router.process.pid)
        speaker, _, at = beside.give(told, wanted, there)
        stack.callback(speaker.close)
        say("fpm", routes=sum(wanted), **at, after_bgpd=round(at["told"] - at["bgpd"], 2), processor=beside.used(),
            router={"before": before, "after": processor(router.process.pid)}, fpm=fpm(), memory_mb=memory(router.process.pid), zebra=beside.counters())
        before = beside.used(), processor(router.process.pid), fpm()["messages"]["new-routes"]
        began = time.monotonic()
        beside.reconnect()
        # Routes are the router's all the time: what is new is that zebra has told them.
        while fpm()["messages"]["new-routes"] < before[2] + sum(wanted) or fpm()["waiting"] != 0:
            if time.monotonic() > began + 60:
                break
            time.sleep(0.1)
        say("again", into="quiver", seconds=round(time.monotonic() - began, 2), before=before, processor=beside.used(), router=processor(router.process.pid), fpm=fpm(),
            zebra=beside.counters())


def main():
    only = ARGS.only.split(",") if ARGS.only != internet.ALL else ["default", "floor", "fpm"]
    told, hops = table()
    wanted = expected(hops)
    if "default" in only:
        floor(told, wanted, "default", FPM)
    if "floor" in only:
        floor(told, wanted)
    if "fpm" in only:
        through(told, wanted)


if __name__ == "__main__":
    main()
