"""The number of workers and their CPUs, changed while packets flow."""

import os
import random
from pathlib import Path

import pytest
from flows import numbered, sorted_out
from frames import ARP, Ether, into, out_of, through4, udp4
from harness import Bench, CtlError, wait_for
from test_af_xdp import driver
from test_reassembly import echo4, echo6


def threads(t):
    return [row["name"] for row in t.router.json("show threads")]


@pytest.mark.parametrize("how", ["af-packet", "af-xdp"])
def test_workers_come_and_go_and_no_packet_is_lost_or_overtaken(how):
    extra = driver("left", "right") if how == "af-xdp" else {}
    t = Bench(extra)
    try:
        draw = random.Random(7)
        for at in range(0, 40 * 50, 50):
            t.left.send(*numbered(t, [4000], range(at, at + 50)))
            count = draw.randint(1, 4)
            t.ctl(f"set workers {count}")
            assert threads(t) == ["quiver_main", *(f"quiver_wk_{w}" for w in range(count))]
            assert sorted_out(t.right.take(50)) == {4000: list(range(at, at + 50))}
        left = lambda: len(os.listdir(f"/proc/{t.router.process.pid}/fd"))
        t.ctl("set workers 4")
        before = left()
        for count in (1, 4, 2, 4):
            t.ctl(f"set workers {count}")
        # A connection of the command line may be about to close.
        wait_for("no descriptors are left", lambda: left() <= before)
        t.router.check_quiet()
    finally:
        t.close()


@pytest.fixture(scope="module")
def t():
    t = Bench({"quiver": {"workers": {"count": 1}}})
    yield t
    t.close()


def workers(t):
    return t.router.json("show version")["workers"]


@pytest.mark.parametrize("echo", [echo4, echo6])
def test_datagrams_of_which_some_has_come_go_along(t, echo):
    """Each is put together by one worker, which may be another one from then on."""
    a = t.ports["left"]
    for n in range(12):
        t.ctl(f"set workers {1 + n % 2 * 3}")
        fragments, _ = echo(a, 4000, ident=n) if echo is echo6 else echo(a, 4000)
        for f in fragments if echo is echo4 else []:
            f.id = n
        frames = [into(a) / f for f in fragments]
        t.left.send(*frames[:-1])
        kind = "ip6" if echo is echo6 else "ip4"
        wait_for("they are held", lambda: sum(w["fragments"] for w in t.router.json(f"show {kind}-full-reassembly")["workers"]) == len(frames) - 1)
        t.ctl(f"set workers {4 - n % 2 * 3}")
        t.left.send(frames[-1])
        head = bytes(out_of(a))[:12]
        t.left.wait(lambda f: bytes(f)[:12] == head)
        t.left.drain()


def test_what_waits_for_a_neighbor_is_sent_by_a_worker_that_is_not_there_any_more(t):
    a, b = t.ports["left"], t.ports["right"]
    t.ctl("set workers 2")
    t.ctl("set interface rx-placement left worker 1")
    target = b.host.rsplit(".", 1)[0] + ".77"
    t.left.send(bytes(into(a) / udp4(a.host, target)))
    ask = t.right.wait(lambda f: f.haslayer(ARP) and f[ARP].pdst == target)
    t.ctl("set interface rx-placement left auto")
    t.ctl("set workers 1")
    mac = "02:00:00:00:00:77"
    t.right.send(bytes(Ether(dst=b.mac, src=mac) / ARP(op=2, hwsrc=mac, psrc=target, hwdst=b.mac, pdst=ask[ARP].psrc)))
    got = t.right.wait(lambda f: f.haslayer("UDP"))
    assert (got.dst, got["IP"].dst) == (mac, target)


def test_commands_and_the_document_say_the_same(t, tmp_path):
    t.ctl("set workers 1")
    assert "workers:" not in t.ctl("show configuration")
    cpu = min(os.sched_getaffinity(0))
    t.ctl(f"set workers 1 cpus {cpu}")
    assert f"cpus: [{cpu}]" in t.ctl("show configuration")
    assert [row["cpu"] for row in t.router.json("show threads")] == [None, cpu]
    node = next((int(n.name[4:]) for n in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")), None)
    assert [row["numa"] for row in t.router.json("show threads")] == [None, node]
    # A device that is in no machine is on no node.
    assert {row["numa"] for row in t.router.json("show hardware-interfaces") if "driver" in row} == {None}
    t.ctl("set workers 3")
    text = t.ctl("show configuration")
    assert "count: 3" in text and "cpus" not in text
    # A document changes it in place, with what is of one worker, in any direction.
    one, many = tmp_path / "one.yaml", tmp_path / "many.yaml"
    t.ctl("set interface rx-placement left worker 2")
    t.ctl("set workers polling power worker 2")
    many.write_text(t.ctl("show configuration"))
    with pytest.raises(CtlError, match="left has its receive queue 0 on worker 2: give it to another first"):
        t.ctl("set workers 2")
    t.ctl("set interface rx-placement left auto")
    with pytest.raises(CtlError, match="worker 2 waits in a way of its own: undo that first"):
        t.ctl("set workers 2")
    t.ctl("set workers polling default worker 2")
    t.ctl("set workers 1")
    t.ctl("set interface rx-placement left worker 0")
    one.write_text(t.ctl("show configuration"))
    for _ in range(3):
        for file, count, place in ((many, 3, 2), (one, 1, 0)):
            t.ctl(f"configuration apply {file} exact")
            assert workers(t) == count and t.ctl("show configuration") == file.read_text()
            assert {p["worker"] for p in t.router.json("show interface rx-placement") if p["placed"]} == {place}
            sent, want = through4(t.ports["left"], t.ports["right"])
            t.left.send(sent)
            t.right.expect(want)
    plan = t.ctl(f"configuration plan {many}")
    assert "set workers 3" in plan and plan.index("set workers 3") < plan.index("rx-placement")


@pytest.mark.parametrize("words, why", [
    ("0", "count"),
    ("65", "count"),
    ("2 cpus 0", "1 CPUs for 2 workers: name one for each, or none"),
    ("2 cpus 0,0", "CPU 0 is named twice: a worker has one of its own"),
    ("1 cpus 4000", "CPU 4000 does not exist, or this process may not run on it"),
    ("1 cpus 5-2", "'5-2' is neither a CPU, 0 to 4095, nor a range such as 2-5"),
    ("1 cpus x", "'x' is neither a CPU"),
])
def test_numbers_that_cannot_be(t, words, why):
    with pytest.raises(CtlError) as e:
        t.ctl(f"set workers {words}")
    assert why in str(e.value)


def test_a_queue_of_a_device_that_is_gone_is_placed_still():
    t = Bench({"quiver": {"workers": 2}}, ports=("left",))
    try:
        t.ctl("set interface rx-placement left worker 1")
        t.inside.ip("link del left")
        wait_for("it is gone", lambda: not t.router.json("show interface rx-placement left"))
        with pytest.raises(CtlError, match="left has its receive queue 0 on worker 1: give it to another first"):
            t.ctl("set workers 1")
        t.ctl("set interface rx-placement left auto")
        t.ctl("set workers 1")
    finally:
        t.close()


def test_workers_have_buffers():
    t = Bench({"quiver": {"buffers": {"count": 2048}}}, ports=("left",))
    try:
        t.ctl("set workers 2")
        with pytest.raises(CtlError, match="2048 buffers are too few for 3 workers: 3072 are needed"):
            t.ctl("set workers 3")
    finally:
        t.close()
