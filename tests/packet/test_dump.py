"""A router that starts from the dump of another forwards the same; checks that have notes."""

import json
import time

from frames import *
from harness import BINARY, Bench, run, wait_for
from harness.router import REPO


def dump(b, *more):
    return run([BINARY, "dump", "-s", b.router.socket, *more]).stdout


def restart(b, text):
    """Ends the router and starts it anew from a document."""
    assert b.router.kill(15) == 0
    with open(b.router.file, "w") as f:
        f.write(text)
    b.router.start()

    def up():
        rows = {r["name"]: r for r in b.router.json("show interface")}
        return all(rows.get(p, {}).get("link") for p in b.ports)

    wait_for("all ports have link", up)
    for wire in b.wires.values():
        wire.drain()


def probes(b):
    """What goes in and what must come out: plain, by a route, from tag to tag, and to the router itself."""
    left, right = b.ports["left"], b.ports["right"]
    vlan = Dot1Q(vlan=100)
    far = IP(src=left.host, dst="192.0.2.7", ttl=9, id=1) / UDP(sport=5, dport=6) / b"x"
    there = IP(src=left.host, dst="192.0.2.7", ttl=8, id=1) / UDP(sport=5, dport=6) / b"x"
    echo = IP(src="10.100.0.2", dst="10.100.0.1", ttl=9, id=7) / ICMP(id=3, seq=4) / b"abcd"
    answer = IP(src="10.100.0.1", dst="10.100.0.2", ttl=64, id=7) / ICMP(type=0, id=3, seq=4) / b"abcd"
    cross = Ether(src=left.host_mac, dst="02:0a:0b:0c:0d:0e") / Dot1Q(vlan=300) / (b"\x12\x34" + b"y" * 50)
    over = Ether(src=left.host_mac, dst="02:0a:0b:0c:0d:0e") / Dot1Q(vlan=301) / (b"\x12\x34" + b"y" * 50)
    cross[Dot1Q].type = over[Dot1Q].type = 0x9999
    tagged = Ether(src=left.host_mac, dst=left.mac) / vlan / echo
    back = Ether(src=left.mac, dst=left.host_mac) / vlan / answer
    return [
        ("left", into(left) / far, "right", out_of(right) / there),
        ("left", *through4(left, right)[:1], "right", through4(left, right)[1]),
        ("left", *through6(left, right)[:1], "right", through6(left, right)[1]),
        ("left", tagged, "left", back),
        ("left", cross, "right", over),
    ]


def forwards(b):
    for source, sent, sink, want in probes(b):
        b.wires[source].send(sent)
        b.wires[sink].expect(want)


def test_a_router_from_its_dump_forwards_the_same():
    b = Bench({
        "interfaces": {
            "left": {"sub-interfaces": {
                100: {"addresses": ["10.100.0.1/24"]},
                300: {"encapsulation": {"dot1q": 300}, "l2xc": "right.301"},
            }},
            "right": {"description": "to: the #others", "sub-interfaces": {
                301: {"encapsulation": {"dot1q": 301}, "l2xc": "left.300"},
            }},
        },
        "loopbacks": {"loop0": {"addresses": ["10.255.0.1/32"]}},
    })
    try:
        left, right = b.ports["left"], b.ports["right"]
        # Half of the state comes by commands: a dump writes what is, not what the document said.
        b.router.script(
            f"ip route add 192.0.2.0/24 via {right.host} right",
            "ip route add 192.0.2.128/25 via drop",
            "set interface description left \"to the hosts\"",
            "set interface promiscuous on right",
            f"ip neighbor left.100 10.100.0.2 {left.host_mac} static",
            "create sub-interfaces right 400 dot1ad any inner-dot1q any",
        )
        forwards(b)
        first = dump(b)
        assert b.ctl("show configuration") == first
        restart(b, first)
        forwards(b)
        assert dump(b) == first
        # JSON is YAML, too.
        as_json = dump(b, "--json")
        assert json.loads(as_json)["interfaces"]["left"]["description"] == "to the hosts"
        restart(b, as_json)
        forwards(b)
        b.router.check_quiet()
    finally:
        b.close()


def test_a_large_table_is_dumped_while_others_work():
    """A hundred thousand routes: the dump comes in pieces, and another client is answered meanwhile."""
    b = Bench()
    try:
        via = b.ports["right"].host
        lines = [f"  - 20.{i >> 8 & 255}.{i & 255}.{(i >> 16) * 64}/26 via {via}\n" for i in range(100_000)]
        text = dump(b)
        restart(b, text.replace("routes:\n", "") + "routes:\n" + "".join(lines))
        start = time.monotonic()
        out = dump(b)
        took = time.monotonic() - start
        assert out.count(" via ") == 100_000 and took < 20
        assert all(line in out for line in lines[::997])
    finally:
        b.close()


def test_notes_are_no_errors(tmp_path):
    """What is not supported yet: a note of the check with its place, and what a router does not start with."""
    example = f"{REPO}/examples/vppcfg.yaml"
    done = run([BINARY, "check", example])
    assert "note[not-supported-yet]: prefixlists: the section `prefixlists` is not supported yet" in done.stdout
    assert f"--> {example}:" in done.stdout and " notes" in done.stdout and "error" not in done.stdout
    notes = json.loads(run([BINARY, "check", "--json", example]).stdout)
    assert notes and {n["severity"] for n in notes} == {"note"} and all(n["line"] > 0 for n in notes)
    refused = run([BINARY, "run", "-c", example], check=False)
    assert refused.returncode == 1 and "error[not-supported-yet]" in refused.stderr
    both = tmp_path / "both.yaml"
    both.write_text("interfaces:\n  left: {acls: {}, mtu: 1}\n")
    done = run([BINARY, "check", "--json", str(both)], check=False)
    assert done.returncode == 1
    assert [(e["severity"], e["column"]) for e in json.loads(done.stdout)] == [("note", 10), ("error", 25)]
