#!/usr/bin/env python3
"""The Internet: a speaker of BGP gives BIRD beside the router the real table, and the day's updates; BIRD gives it to Linux, and Quiver forwards.

    benchmarks/internet.py --tables FOLDER [--binary FILE] [--share PART] [--updates N] [--only alone,table,updates,kill,session]

FOLDER has internet-ipv4.txt.xz, internet-ipv6.txt.xz and updates-*.txt.xz. Prints a line of JSON a figure:

    alone     BIRD into a kernel without Quiver, for comparison: from the start of the session to the last route in the kernel
    table     the same with Quiver: to the last route in the kernel, to the last one forwarded by, and memory of the process
    updates   the day's updates at full speed while packets to 500 destinations flow: those lost, and the longest gap of one
    kill      `kill -9` of the supervised router: until connected, default and all destinations get packets again, and the sessions
    session   the session ends: until the table is gone

PART is the part of the table that is taken, 1 by default. As root; BIRD must be installed.
"""

import argparse
import contextlib
import ipaddress
import json
import lzma
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--tables", type=Path, required=True)
ap.add_argument("--binary", help="the router; target/release/quiver by default")
ap.add_argument("--share", type=float, default=1.0)
ap.add_argument("--updates", type=int, default=0, help="so many of each family at most; all without")
ALL = "alone,table,updates,kill,session"
ap.add_argument("--only", default=ALL)
ARGS = ap.parse_args()
if ARGS.binary:
    os.environ["QUIVER_BIN"] = ARGS.binary
sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]

from harness import BINARY, Netns, Router, run, veth, wait_for  # noqa: E402

HOPS4 = [f"10.0.2.{n}" for n in range(11, 19)]
HOPS6 = [f"2001:db8:2::{n}" for n in range(11, 19)]
DESTINATIONS, RATE = 500, 10_000

BIRD = """
log "{dir}/bird.log" all;
router id 10.0.2.1;
protocol device {{ scan time 10; }}
protocol kernel k4 {{ ipv4 {{ export all; import none; }}; scan time 600; }}
protocol kernel k6 {{ ipv6 {{ export all; import none; }}; scan time 600; }}
protocol bgp up {{
  local 10.0.2.1 as 65001; neighbor 10.0.2.2 as 65002; passive; hold time 90;
  ipv4 {{ import all; export none; }};
  ipv6 {{ import all; export none; }};
}}
"""


def say(what, **figures):
    print(json.dumps({"figure": what, **figures}), flush=True)


def lines(name, share=1.0):
    """Lines of a file of the folder; of some the first, for each by chance but the same each time."""
    rng = random.Random(7)
    with lzma.open(ARGS.tables / name, "rt") as f:
        return [line.strip() for line in f if line.strip() and (share >= 1 or rng.random() < share)]


def bits(prefix):
    """A prefix as BGP writes it."""
    address, length = prefix.split("/")
    length = int(length)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return bytes([length]) + socket.inet_pton(family, address)[:(length + 7) // 8]


def attribute(flags, kind, value):
    return struct.pack("!BBH", flags | 0x10, kind, len(value)) + value


def message(kind, body):
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def announcement(v6, hop, prefixes):
    """An UPDATE for these prefixes: they fit."""
    path = attribute(0x40, 1, b"\0") + attribute(0x40, 2, struct.pack("!BBII", 2, 2, 65002, 64999))
    nlri = b"".join(map(bits, prefixes))
    if not v6:
        path += attribute(0x40, 3, socket.inet_aton(hop))
        return message(2, struct.pack("!HH", 0, len(path)) + path + nlri)
    reach = struct.pack("!HBB", 2, 1, 16) + socket.inet_pton(socket.AF_INET6, hop) + b"\0" + nlri
    path += attribute(0x80, 14, reach)
    return message(2, struct.pack("!HH", 0, len(path)) + path)


def withdrawal(v6, prefixes):
    gone = b"".join(map(bits, prefixes))
    if not v6:
        return message(2, struct.pack("!H", len(gone)) + gone + b"\0\0")
    path = attribute(0x80, 15, struct.pack("!HB", 2, 1) + gone)
    return message(2, struct.pack("!HH", 0, len(path)) + path)


def table():
    """The table as messages, all prefixes, and what hop each has."""
    out, hops = [], {}
    for v6, name in ((False, "internet-ipv4.txt.xz"), (True, "internet-ipv6.txt.xz")):
        rng, by = random.Random(3), {}
        for prefix in lines(name, ARGS.share):
            hop = rng.choice(HOPS6 if v6 else HOPS4)
            by.setdefault(hop, []).append(prefix)
            hops[prefix] = hop
        for hop, prefixes in by.items():
            step = 200 if v6 else 700
            out += [announcement(v6, hop, prefixes[i:i + step]) for i in range(0, len(prefixes), step)]
    # As it comes from a neighbor whose routes are in no order of hops.
    random.Random(5).shuffle(out)
    return out, hops


def updates():
    """The day's updates as messages, one a change; the prefixes that they touch."""
    out, touched = [], set()
    for v6, name in ((False, "updates-ipv4.txt.xz"), (True, "updates-ipv6.txt.xz")):
        rng, hops = random.Random(9), HOPS6 if v6 else HOPS4
        for line in lines(name)[:ARGS.updates or None]:
            what, prefix = line.split()[:2]
            touched.add(prefix)
            out.append(withdrawal(v6, [prefix]) if what == "W" else announcement(v6, rng.choice(hops), [prefix]))
    return out, touched


class Speaker:
    """A BGP speaker that says what it is given and hears nothing."""

    def __init__(self, ns):
        with ns.entered():
            self.socket = socket.create_connection(("10.0.2.1", 179), 5, source_address=("10.0.2.2", 0))
        caps = b"\x02\x06\x01\x04\0\x01\0\x01" + b"\x02\x06\x01\x04\0\x02\0\x01" + b"\x02\x06\x41\x04" + struct.pack("!I", 65002)
        self.socket.sendall(message(1, struct.pack("!BHH4sB", 4, 65002, 90, socket.inet_aton("10.0.2.2"), len(caps)) + caps))
        self.lock, self.ended = threading.Lock(), False
        self.socket.sendall(message(4, b""))
        self.socket.settimeout(None)
        for work in (self._hear, self._live):
            threading.Thread(target=work, daemon=True).start()

    def _hear(self):
        with contextlib.suppress(OSError):
            while self.socket.recv(65536):
                pass
        self.ended = True

    def _live(self):
        while not self.ended:
            time.sleep(20)
            with contextlib.suppress(OSError), self.lock:
                self.socket.sendall(message(4, b""))

    def say(self, messages):
        for i in range(0, len(messages), 64):
            with self.lock:
                self.socket.sendall(b"".join(messages[i:i + 64]))

    def close(self):
        self.ended = True
        self.socket.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def bird(ns):
    folder = Path(tempfile.mkdtemp(prefix="internet-"))
    (folder / "bird.conf").write_text(BIRD.format(dir=folder))
    p = ns.start(["bird", "-f", "-c", folder / "bird.conf", "-s", folder / "ctl", "-P", folder / "pid"], stdout=subprocess.DEVNULL)
    try:
        wait_for("BIRD answers", lambda: (folder / "ctl").exists())
        yield lambda line: run(["birdc", "-s", str(folder / "ctl"), *line.split()], check=False).stdout
    finally:
        p.kill()
        p.wait()


def in_kernel(ns):
    """Routes of the main tables: IPv4, without walking them all in Python, and IPv6."""
    text = ns.run("cat /proc/net/fib_triestat").stdout
    four = [int(n) for n in re.findall(r"Prefixes:\s+(\d+)", text)]
    six = int(ns.run("cat /proc/net/rt6_stats").stdout.split()[1], 16)
    return max(four, default=0), six


def until_in_kernel(ns, wanted, began, timeout=300):
    """When as many routes are there as are wanted."""
    while time.monotonic() < began + timeout:
        now = time.monotonic()
        four, six = in_kernel(ns)
        if four >= wanted[0] and six >= wanted[1]:
            return now - began
        time.sleep(0.1)
    raise AssertionError(f"only {in_kernel(ns)} of {wanted} routes came")


def settled(ns, seconds=5):
    """Until the kernel's number of routes stays for some seconds."""
    was, since = None, time.monotonic()
    while time.monotonic() < since + seconds:
        now = in_kernel(ns)
        if now != was:
            was, since = now, time.monotonic()
        time.sleep(0.2)
    return since


def expected(hops):
    six = sum(":" in p for p in hops)
    return len(hops) - six, six


def alone(told, hops):
    ns, b = Netns("k", quiet=False), Netns("b", quiet=False)
    veth(ns, "e1", b, "eth0")
    for where, n, device in ((ns, 1, "e1"), (b, 2, "eth0")):
        where.ip(f"address add 10.0.2.{n}/24 dev {device}")
        where.ip(f"address add 2001:db8:2::{n}/64 dev {device} nodad")
    ns.run("sysctl -qw net.ipv6.route.max_size=2147483647", check=False)
    was = in_kernel(ns)
    try:
        with bird(ns):
            began, speaker = time.monotonic(), Speaker(b)
            threading.Thread(target=speaker.say, args=(told,), daemon=True).start()
            wanted = expected(hops)
            took = until_in_kernel(ns, (wanted[0] + was[0], wanted[1] + was[1]), began)
            say("alone", routes=sum(wanted), seconds=round(took, 2))
            speaker.close()
    finally:
        ns.delete()
        b.delete()


class Site:
    """The router, supervised, between the host `a` and the speaker's namespace `b`; BIRD among its pairs."""

    def __init__(self):
        self.ports, self.linux, self.a, self.b = (Netns(n, quiet=False) for n in "rcab")
        veth(self.ports, "left", self.a, "eth0", mac_b="02:00:00:00:01:02")
        veth(self.ports, "right", self.b, "eth0", mac_b="02:00:00:00:02:02")
        self.a.ip("address add 10.0.1.2/24 dev eth0")
        self.a.ip("address add 10.0.1.3/24 dev eth0")
        for address in ("10.0.2.2", *HOPS4):
            self.b.ip(f"address add {address}/24 dev eth0")
        for address in ("2001:db8:2::2", *HOPS6):
            self.b.ip(f"address add {address}/64 dev eth0 nodad")
        self.router = Router(self.ports, {
            "interfaces": {"left": {"lcp": "e0", "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                           "right": {"lcp": "e1", "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True},
            "quiver": {"dad": "off", "state": tempfile.mkdtemp(prefix="internet-state-")}}, options=("--supervise",))
        wait_for("Linux has the addresses", lambda: "2001:db8:2::1" in self.linux.ip("-6 addr show dev e1").stdout)
        self.linux.run("sysctl -qw net.ipv6.route.max_size=2147483647", check=False)
        self.linux.ip("route add default via 10.0.1.3 dev e0")
        self.mac = self.ports.run("cat /sys/class/net/left/address").stdout.strip()

    def child(self):
        pid = self.router.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return int((f.read().split() or [0])[0])

    def netlink(self):
        found = self.router.json("show netlink")
        return found[0] if found else {}

    def close(self):
        self.router.stop()
        for ns in (self.ports, self.linux, self.a, self.b):
            ns.delete()


class Probe:
    """Packets to many destinations, each in turn, and when they arrive behind the router."""

    def __init__(self, site, addresses):
        """The last of the addresses is that which the default route has."""
        self.addresses, self.last, self.gap, self.got = addresses, {}, {}, {}
        self.number = {socket.inet_aton(a): n for n, a in enumerate(addresses)}
        self.sent, self.since, self.first, self.stop = 0, 0.0, {}, threading.Event()
        with site.a.entered():
            self.out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.out.bind(("eth0", 0))
            back = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            back.bind(("eth0", 0x0800))
        with site.b.entered():
            there = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            there.bind(("eth0", 0x0800))
        for s in (there, back):
            s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
            s.settimeout(0.5)
        mac = bytes.fromhex(site.mac.replace(":", ""))
        self.frames = [self.frame(mac, a) for a in addresses]
        self.threads = [threading.Thread(target=self.send, daemon=True), threading.Thread(target=self.hear, args=(there, range(len(addresses) - 1)), daemon=True),
                        threading.Thread(target=self.hear, args=(back, range(len(addresses) - 1, len(addresses))), daemon=True)]

    @staticmethod
    def frame(mac, address):
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, 17, 0, socket.inet_aton("10.0.1.2"), socket.inet_aton(address))
        total = sum(struct.unpack("!10H", ip))
        total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        ip = ip[:10] + struct.pack("!H", total) + ip[12:]
        return mac + bytes.fromhex("020000000102") + b"\x08\0" + ip + struct.pack("!HHHH", 9, 9, 26, 0) + bytes(18)

    def send(self):
        began, n = time.monotonic(), len(self.frames)
        while not self.stop.is_set():
            due = int((time.monotonic() - began) * RATE)
            if due - self.sent > RATE:
                began += (due - self.sent) / RATE
                continue
            while self.sent < due:
                with contextlib.suppress(OSError):
                    self.out.send(self.frames[self.sent % n])
                self.sent += 1
            time.sleep(0.001)

    def hear(self, s, mine):
        """Counts those that belong there: all but the last go to `b`. Without its route a destination goes where the default leads."""
        number = self.number
        while not self.stop.is_set():
            try:
                data, where = s.recvfrom(64)
            except OSError:
                continue
            n = number.get(data[30:34])
            # What this host sends itself is seen, too; what was routed has a lower TTL.
            if n not in mine or where[2] == 4 or data[22] != 63:
                continue
            now = time.monotonic()
            gap = now - self.last.get(n, now)
            if gap > self.gap.get(n, 0):
                self.gap[n] = gap
            self.last[n] = now
            self.got[n] = self.got.get(n, 0) + 1
            if now > self.since and n not in self.first:
                self.first[n] = now

    def begin(self):
        """Forgets what was."""
        self.gap, self.got, self.first, self.since = {}, {}, {}, time.monotonic()
        self.last = {}
        return self.sent

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()


def memory(pid):
    with open(f"/proc/{pid}/status") as f:
        text = f.read()
    return {k: int(re.search(rf"Vm{k}:\s+(\d+)", text)[1]) >> 10 for k in ("RSS", "HWM")}


def processor(pid):
    """Seconds of the processor that each thread has had."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            name, fields = f.read().split("(", 1)[1].rsplit(")", 1)
        used = fields.split()
        found[name] = round(found.get(name, 0) + (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK"), 2)
    return found


def agree(site):
    """Whether both have the same routes; it takes seconds with a full table."""
    done = run([BINARY, "ctl", "-s", site.router.socket, "--json", "fib diff kernel"],
               check=False, timeout=120)
    return json.loads(done.stdout) == []


def main():
    only = ARGS.only.split(",")
    began = time.monotonic()
    told, hops = table()
    say("messages", table=len(told), prefixes=len(hops), seconds=round(time.monotonic() - began, 1))
    if "alone" in only:
        alone(told, hops)
    if only == ["alone"]:
        return
    site = Site()
    try:
        with bird(site.linux) as birdc:
            was = in_kernel(site.linux)
            wanted = expected(hops)
            rates, done = [], threading.Event()
            began, speaker = time.monotonic(), Speaker(site.b)
            threading.Thread(target=speaker.say, args=(told,), daemon=True).start()

            def forwarded():
                while not done.is_set():
                    n = site.netlink()
                    if n.get("routes", 0) >= sum(wanted) + 1 and n["waiting"] == 0:
                        rates.append(time.monotonic() - began)
                        return
                    time.sleep(0.1)
            watch = threading.Thread(target=forwarded, daemon=True)
            watch.start()
            took = until_in_kernel(site.linux, (wanted[0] + was[0], wanted[1] + was[1]), began)
            watch.join(timeout=120)
            done.set()
            n = site.netlink()
            say("table", processor=processor(site.child()), routes=sum(wanted), kernel=round(took, 2), forwarded=round(rates[0], 2) if rates else None, netlink=n, memory_mb=memory(site.child()),
                buffers=site.router.json("show memory").get("buffers"), agree=agree(site))
            rng = random.Random(1)
            four = [p for p in hops if ":" not in p]
            changed, touched = updates() if "updates" in only else ([], set())
            nets = [ipaddress.ip_network(p) for p in rng.sample([p for p in four if p not in touched], DESTINATIONS)]
            inside = [str(n[rng.randrange(n.num_addresses)]) for n in nets]
            probes = [*inside, "10.0.2.2", "192.0.2.77"]
            with Probe(site, probes) as probe:
                wait_for("all destinations get packets", lambda: len(probe.got) == len(probes) or None, timeout=20)
                if "updates" in only:
                    start = probe.begin()
                    began = time.monotonic()
                    speaker.say(changed)
                    given = time.monotonic() - began
                    ended = settled(site.linux)
                    wait_for("nothing waits", lambda: site.netlink()["waiting"] == 0, timeout=60)
                    time.sleep(1)
                    sent, got = probe.sent - start, sum(probe.got.values())
                    gaps = sorted(probe.gap.values())
                    say("updates", updates=len(changed), bird_took=round(given, 2), kernel=round(ended - began, 2), sent=sent, lost=sent - got,
                        usual_gap_ms=round(gaps[len(gaps) // 2] * 1000), longest_gap_ms=round(gaps[-1] * 1000), netlink=site.netlink(),
                        memory_mb=memory(site.child()), agree=agree(site))
                if "kill" in only:
                    sessions = re.search(r"^up .*$", birdc("show protocols"), re.M)[0]
                    child = site.child()
                    probe.since, probe.first = float("inf"), {}
                    began = time.monotonic()
                    os.kill(child, signal.SIGKILL)
                    # What was on its way is there by then.
                    probe.since = began + 0.03
                    limit = began + 60
                    while len(probe.first) < len(probes) and time.monotonic() < limit:
                        time.sleep(0.02)
                    near = [probe.first.get(len(inside) + n, limit) - began for n in (0, 1)]
                    all_of = [probe.first.get(n, limit) - began for n in range(len(inside))]
                    say("kill", connected=round(near[0], 2), default=round(near[1], 2), half=round(sorted(all_of)[len(all_of) // 2], 2),
                        all=round(max(all_of), 2), session_stays=re.search(r"^up .*$", birdc("show protocols"), re.M)[0] == sessions,
                        netlink=site.netlink(), memory_mb=memory(site.child()), agree=agree(site))
            if "session" in only:
                began = time.monotonic()
                speaker.close()
                while time.monotonic() < began + 120 and site.netlink().get("routes", 0) > 10:
                    time.sleep(0.1)
                say("session", gone=round(time.monotonic() - began, 2), left=site.netlink().get("routes"), agree=agree(site))
    finally:
        site.close()


if __name__ == "__main__":
    main()
