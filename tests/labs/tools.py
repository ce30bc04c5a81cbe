"""iperf3, tcpdump and traceroute, with what they say as numbers."""

import contextlib
import json
import os
import re
import signal
import tempfile

from harness import run, wait_for


def hears(host, address):
    """Whether one ping is answered."""
    return "1 received" in host.run(f"ping -n -c 1 -W 1 {address}", check=False).stdout


def seconds(clock):
    """Seconds since midnight of a clock as BIRD prints it, who works it out anew each time: a millisecond more or less comes of that."""
    return sum(float(n) * unit for n, unit in zip(clock.split(":"), (3600, 60, 1)))


@contextlib.contextmanager
def iperf_server(host, port=5201):
    """An iperf3 server on `host`, ready for one client after another."""
    p = host.start(["iperf3", "-s", "-p", str(port), "--forceflush"])
    wait_for("iperf3 listens", lambda: f":{port} " in host.run("ss -Htln").stdout)
    try:
        yield
    finally:
        p.send_signal(signal.SIGTERM)
        p.wait(timeout=10)


def iperf(host, to, *words, seconds=2, port=5201):
    """Runs a client; returns the end of its JSON report."""
    length = [] if "-n" in words else ["-t", str(seconds)]
    done = host.run(["iperf3", "-c", to, "-p", str(port), *length, "-J", *words], timeout=seconds + 30, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert "error" not in report, report["error"]
    return report["end"]


def tried(check, times=3):
    """What `check` returns, once it passes: a measurement of a second or two, in which others may take the machine away for
    a part of it. What Quiver itself does wrong, it does each time."""
    for left in reversed(range(times)):
        try:
            return check()
        except AssertionError:
            if not left:
                raise


def tcp(host, to, *words, mtu=1500, at_least=5e6, **more):
    """TCP moves at least so many bytes, and sends fewer than one segment in a hundred again."""
    def check():
        end = iperf(host, to, *words, **more)
        sent, received = end["sum_sent"], end["sum_received"]
        segments = sent["bytes"] / (mtu - 60)
        assert received["bytes"] > max(at_least, 0.9 * sent["bytes"]), end
        assert sent["retransmits"] < 20 + segments / 100, f"{sent['retransmits']} retransmissions of {segments:.0f} segments"
    tried(check)


def udp(host, to, *words, **more):
    """Of UDP at a fixed rate less than a hundredth is lost."""
    def check():
        end = iperf(host, to, "-u", *words, **more)["sum"]
        assert end["lost_percent"] < 1, end
    tried(check)


@contextlib.contextmanager
def capture(host, device, what, snap=0):
    """tcpdump on `host` meanwhile; yields the file's name."""
    fd, path = tempfile.mkstemp(suffix=".pcap")
    os.close(fd)
    p = host.start(["tcpdump", "-i", device, "-w", path, "-U", "-s", str(snap), "-B", "65536", "--immediate-mode", *what.split()])
    wait_for("tcpdump listens", lambda: "listening on" in (p.stdout.readline() or "x"), timeout=10)
    try:
        yield path
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(timeout=20)


def bad_checksums(path):
    """Lines of tcpdump about packets with wrong checksums, the number of packets, and the longest frame."""
    text = run(["tcpdump", "-nn", "-e", "-vv", "-r", path], check=False, timeout=120).stdout
    bad = re.findall(r"^.*(?:bad cksum|bad udp cksum|\(incorrect).*$", text, re.M)
    lengths = [int(n) for n in re.findall(r"^\d\d:.*?ethertype [^,]*, length (\d+):", text, re.M)]
    return bad, len(lengths), max(lengths, default=0)


def hops(host, to, *words):
    """The addresses that traceroute shows, hop by hop; None where nobody answered."""
    text = host.run(["traceroute", "-n", "-q", "1", "-w", "2", "-m", "6", *words, to]).stdout
    return [line.split()[1] if line.split()[1] != "*" else None for line in text.splitlines()[1:]]
