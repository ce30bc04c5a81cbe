"""Documents applied to a running router: what does not differ carries packets, what fails changes nothing."""

import re
import threading

import yaml
from frames import *
from harness import BINARY, Bench, run, wait_for
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN


def quiver(b, *words, check=True):
    return run([BINARY, words[0], "-s", b.router.socket, *words[1:]], check=check)


def running(b):
    return quiver(b, "dump").stdout


class Stream:
    """Numbered datagrams from one port to another for as long as it is entered; `lost` says which did not come."""

    def __init__(self, source, sink, frames):
        self.source, self.sink, self.frames = source, sink, frames
        self.sent, self.end = 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.end.is_set() and self.sent < len(self.frames):
            self.source.send(self.frames[self.sent])
            self.sent += 1
            self.end.wait(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.end.set()
        self.thread.join()

    def lost(self, key):
        want = {key(f) for f in self.frames[: self.sent]}

        def all_came():
            while (frame := self.sink.recv(timeout=0.05, chatter=True)) is not None:
                want.discard(key(frame))
            return not want

        try:
            wait_for("all datagrams came", all_came, timeout=5)
        except AssertionError:
            pass
        return want


def number(frame):
    """What a datagram of the stream says; none for others."""
    found = re.search(rb"no (\d+);", bytes(frame))
    return int(found[1]) if found else None


def test_what_does_not_differ_carries_all_packets(tmp_path):
    b = Bench({"loopbacks": {"loop0": {"addresses": ["10.255.0.1/32"], "mtu": 9000}}}, ports=("left", "right", "third"))
    try:
        left, right, third = (b.ports[p] for p in ("left", "right", "third"))
        first = running(b).replace("routes:\n", "") + "routes:\n" + (
            f"  - 192.0.2.0/24 via {right.host}\n  - 198.51.100.0/24 via {third.host}\n")
        # Another loopback, another MTU, a route that moves to another neighbour, and an interface that loses its address.
        second = first.replace("mtu: 9000", "mtu: 1400").replace(third.host + "\n", right.host + "\n")
        second = second.replace("  loop0:\n", "  loop1: {addresses: [10.255.0.2/32]}\n  loop0:\n")
        second = re.sub(r"(  third:\n(?:    .*\n)*?)    addresses: .*\n", r"\1", second)
        second = re.sub(r"  - interface: third\n(    .*\n)+", "", second)
        second = re.sub(r"  - \{interface: third.*\n", "", second)
        files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
        for file, text in zip(files, (first, second)):
            file.write_text(text)
        quiver(b, "apply", str(files[0]))
        b.router.ctl("clear control")
        plain = into(left) / IP(src=left.host, dst="192.0.2.7", ttl=9) / UDP(sport=5, dport=6)
        moved = into(left) / IP(src=left.host, dst="198.51.100.7", ttl=9) / UDP(sport=5, dport=6)
        # Of the route that moves, those behind the move come out of the other port.
        frames = [bytes(plain / f"no {n};") for n in range(20_000)]
        with Stream(b.wires["left"], b.wires["right"], frames) as stream:
            applied = 0
            while applied < 10 or stream.sent < 500:
                applied += 1
                quiver(b, "apply", str(files[applied % 2]))
        assert not stream.lost(number)
        quiver(b, "apply", str(files[1]))
        b.wires["right"].drain()
        b.wires["left"].send(moved / "no 7;")
        b.wires["right"].wait(lambda p: number(p) == 7)
        longest = b.router.json("show control")["longest-cpu-ms"]
        assert longest < 10, longest
        b.router.check_quiet()
    finally:
        b.close()


def test_a_tunnel_changes_while_packets_go_through(tmp_path):
    """Each packet leaves with all of the old parameters or all of the new ones, none is lost, and nothing else notices."""
    gre = [{"local": "10.9.9.9", "remote": "192.0.2.9"},
           {"local": "10.9.9.8", "remote": "192.0.2.10", "key": 7, "checksum": True, "ttl": 9, "dscp": 46}]
    vxlan = [{"local": "10.9.9.9", "remote": "192.0.2.9", "vni": 5},
             {"local": "10.9.9.8", "remote": "192.0.2.10", "vni": 6, "ttl": 9, "dscp": 46, "remote-port": 8472}]
    b = Bench({
        "loopbacks": {"loop0": {"addresses": ["10.9.9.9/32", "10.9.9.8/32"]}},
        "gre_tunnels": {"gre0": gre[0]}, "vxlan_tunnels": {"vxlan_tunnel0": vxlan[0]},
        "interfaces": {"gre0": {"addresses": ["10.200.0.1/30"], "mtu": 1400}, "vxlan_tunnel0": {"addresses": ["10.201.0.1/24"]}},
        "neighbors": [{"interface": "vxlan_tunnel0", "address": "10.201.0.2", "mac": "02:00:00:00:33:02"}],
        "routes": ["192.0.2.0/24 via 10.0.2.2", "172.16.0.0/24 via gre0", "172.16.1.0/24 via 10.201.0.2"],
    })
    try:
        left, right = b.ports["left"], b.ports["right"]
        b.settle("right")
        first = running(b)
        files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
        files[0].write_text(first)
        document = yaml.safe_load(first)
        document["gre_tunnels"]["gre0"], document["vxlan_tunnels"]["vxlan_tunnel0"] = gre[1], vxlan[1]
        files[1].write_text(yaml.safe_dump(document, sort_keys=False))
        steps = quiver(b, "plan", str(files[1])).stdout
        assert "made anew" not in steps and "2 steps, 2 of them touch traffic" in steps, steps
        counted = b.router.json("show interface gre0 vxlan_tunnel0")

        def fits(frame, n):
            """Which of the two documents a frame is as."""
            p = Ether(bytes(frame))
            for which in (0, 1):
                of = (gre, vxlan)[n][which]
                want = {"src": of["local"], "dst": of["remote"], "ttl": of.get("ttl", 64), "tos": of.get("dscp", 0) << 2}
                if any(getattr(p[IP], field) != value for field, value in want.items()):
                    continue
                if n == 0:
                    g = p[GRE]
                    assert (g.key_present, g.chksum_present) == (which, which) and (not which or g.key == 7), p
                    assert not which or checksum(bytes(g)) == 0, p
                else:
                    assert (p[UDP].dport, p[VXLAN].vni) == ((4789, 5), (8472, 6))[which], p
                return which
            raise AssertionError(f"neither the one nor the other: {p!r}")

        to = ("172.16.0.7", "172.16.1.7", right.host)
        bodies = [into(left) / IP(src=left.host, dst=a, ttl=20) / UDP(sport=5, dport=6) for a in to]
        frames = [bytes(bodies[n % 3] / f"no {n};") for n in range(30_000)]
        seen = [[], [], []]

        def kind(frame):
            n = number(frame)
            if n is not None and frame is not frames[n] and bytes(frame) != frames[n]:
                seen[n % 3].append(fits(frame, n % 3) if n % 3 < 2 else 0)
            return n

        with Stream(b.wires["left"], b.wires["right"], frames) as stream:
            applied = 0
            while applied < 10 or stream.sent < 900:
                applied += 1
                quiver(b, "apply", str(files[applied % 2]))
        assert not stream.lost(kind)
        assert set(seen[0]) == set(seen[1]) == {0, 1}, "packets of both documents"
        quiver(b, "apply", str(files[0]))
        assert running(b) == first
        again = b.router.json("show interface gre0 vxlan_tunnel0")
        assert [i["index"] for i in again] == [i["index"] for i in counted]
        b.router.check_quiet()
    finally:
        b.close()


def test_a_refused_apply_changes_nothing(tmp_path):
    b = Bench()
    try:
        before = running(b)
        file = tmp_path / "new.yaml"
        # The rules let it through; that there is no such device shows when it is made.
        file.write_text(before.replace("interfaces:\n", "interfaces:\n  nowhere0: {}\n", 1).replace("  left:\n", "  left:\n    description: other\n", 1))
        done = quiver(b, "apply", str(file), check=False)
        assert done.returncode == 1 and "nothing was changed" in done.stderr and "nowhere0" in done.stderr, done.stderr
        assert running(b) == before
        # A document with an error, one that is not there, and a setting of the process.
        file.write_text("interfaces: {left: {mtu: 1}}\n")
        done = quiver(b, "apply", str(file), check=False)
        assert done.returncode == 1 and "error[range]" in done.stderr
        assert quiver(b, "diff", str(tmp_path / "none.yaml"), check=False).returncode == 1
        file.write_text(re.sub(r"^quiver:\n", "quiver:\n  routes: {memory-mb: 999}\n", before, flags=re.M))
        done = quiver(b, "apply", str(file), check=False)
        assert done.returncode == 1 and "restart" in done.stderr, done.stderr
        assert running(b) == before
        # Who may not read a file does not have it read by the router.
        secret = tmp_path / "secret.yaml"
        secret.write_text("s3cret: 1\n")
        secret.chmod(0o600)
        b.router.check_quiet()
    finally:
        b.close()


def test_what_commands_made_stays(tmp_path):
    """Documents come and go; a route, a loopback and an address that an operator typed carry packets meanwhile, until a document says `exact`."""
    b = Bench({"loopbacks": {"loop0": {"addresses": ["10.255.0.1/32"]}}}, ports=("left", "right", "third"))
    try:
        left, right = b.ports["left"], b.ports["right"]
        first = running(b)
        second = first.replace("10.255.0.1/32", "10.255.0.2/32")
        files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
        for file, text in zip(files, (first, second)):
            file.write_text(text)
        for line in (f"ip route add 192.0.2.0/24 via {right.host}", "create loopback interface instance 7", "set interface state loop7 up",
                     "set interface ip address loop7 10.7.0.1/24", 'set interface description third "by hand"', "mpls local-label add 100 eos via ip4-lookup-in-table 0"):
            b.ctl(line)
        mine = [f"route 192.0.2.0/24: via {right.host}", "interface loop7", "interface loop7: address 10.7.0.1/24", "interface third: description: \"by hand\"",
                "label 100 eos: via ip4-lookup-in-table 0"]
        told = quiver(b, "diff", str(files[1])).stdout.splitlines()
        assert {f"= command: {m}" for m in mine} <= set(told), told
        assert {line for line in told if line[0] != "="} == {"- interface loop0: address 10.255.0.1/32", "+ interface loop0: address 10.255.0.2/32"}, told
        assert "of commands stays:" in quiver(b, "plan", str(files[1])).stdout
        frames = [into(left) / udp4(left.host, "192.0.2.9", sport=4000) / f"no {n};".encode() for n in range(20000)]
        with Stream(b.left, b.right, frames) as stream:
            for n in (1, 0, 1):
                quiver(b, "apply", str(files[n]))
                assert "10.7.0.1" in b.ctl("show interface address loop7") and "by hand" in running(b)
            # A way back has them as well.
            quiver(b, "apply", str(files[0]), "--confirm", "600")
            quiver(b, "rollback")
            assert "by hand" in running(b) and "10.255.0.2/32" in running(b)
            quiver(b, "apply", str(files[1]))
            assert "by hand" in running(b)
        assert not stream.lost(number)
        # What the document wants for itself, it gets.
        files[0].write_text(first.replace("10.255.0.1/32", "10.7.0.9/24"))
        quiver(b, "apply", str(files[0]))
        assert "10.7.0.9/24" in running(b) and "10.7.0.1/24" not in running(b) and "loop7" in running(b)
        quiver(b, "apply", str(files[1]), "--exact")
        assert running(b) == second
        assert quiver(b, "diff", str(files[1])).stdout == ""
        b.router.check_quiet()
    finally:
        b.close()
