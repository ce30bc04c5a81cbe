"""While somebody else holds Linux's lock of devices, what is asked about a device waits, and nothing else does."""

import json
import select
import signal
import socket
import time

import pytest
import yaml
from frames import through4
from harness import Bench, CtlError, wait_for
from harness.host import veth
from harness.router import document
from harness.rtnl import Rtnl

# For how long the lock is held, in seconds, and the longest that anything else may wait for it.
HELD, LIMIT = 1.0, 0.25


class Client:
    """A connection to the control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.got = b""

    def send(self, line):
        self.socket.sendall(json.dumps({"id": 1, "line": line}).encode() + b"\n")

    def is_answered(self):
        return bool(self.got) or bool(select.select([self.socket], [], [], 0)[0])

    def answer(self):
        """The reply: its text, or an error."""
        text = ""
        while True:
            while b"\n" not in self.got:
                more = self.socket.recv(65536)
                assert more, "the router closed the connection"
                self.got += more
            line, self.got = self.got.split(b"\n", 1)
            reply = json.loads(line)
            text += reply.get("part", "") + reply.get("text", "")
            if "ok" in reply:
                if not reply["ok"]:
                    raise CtlError(reply["error"]["message"])
                return text

    def ask(self, line):
        self.send(line)
        return self.answer()

    def close(self):
        self.socket.close()


def slowest(router, clients, lock):
    """The longest time for `show version` while the lock is held, and which clients had an answer in that time."""
    other, most, answered = Client(router.socket), 0, []
    while True:
        now = [c.is_answered() for c in clients]
        if not lock.is_held():
            break
        answered, began = now, time.monotonic()
        other.ask("show version")
        most = max(most, time.monotonic() - began)
    other.close()
    return most, answered


def held_up(router, *lines):
    """Runs commands, each by a client of its own, while the lock is held; what they answer."""
    clients = [Client(router.socket) for _ in lines]
    router.ctl("clear control")
    with Rtnl(HELD) as lock:
        for client, line in zip(clients, lines):
            client.send(line)
        most, answered = slowest(router, clients, lock)
    answers = []
    for client in clients:
        try:
            answers.append(client.answer())
        except CtlError as e:
            answers.append(e)
        client.close()
    load = router.json("show control")
    print(f"{lines[0]}: others waited {most * 1000:.0f} ms, longest stretch {load['longest-ms']:.0f} ms in {load['longest-in']}")
    assert not answered[0], f"{lines[0]} asks Linux nothing"
    assert most < LIMIT, f"{lines[0]}: another client waited {most * 1000:.0f} ms"
    assert load["longest-ms"] < LIMIT * 1000, f"{lines[0]}: {load}"
    return answers


def done(router, line):
    [answer] = held_up(router, line)
    if isinstance(answer, CtlError):
        raise answer
    return answer


def names(router):
    return [r["name"] for r in router.json("show interface")]


@pytest.fixture(scope="module")
def bench():
    t = Bench()
    for spare in ("spare", "more"):
        veth(t.inside, spare, t.outside, spare, mtu=9000)
        t.inside.ip(f"link set {spare} mtu 1500")
    yield t
    t.close()


def forwards(t):
    sent, want = through4(t.ports["left"], t.ports["right"])
    t.left.send(sent)
    t.right.expect(want)


@pytest.mark.parametrize("make, made, delete", [
    ("create host-interface name spare", "host-spare", "delete host-interface name spare"),
    ("create interface af_xdp host-if spare name x generic", "x", "delete interface af_xdp x"),
    ("create tap id 3 host-if-name held", "tap3", "delete tap tap3"),
])
def test_devices_come_and_go(bench, make, made, delete):
    assert done(bench.router, make).strip() == made
    bench.ctl(f"set interface state {made} up")
    wait_for("it has link", lambda: bench.router.interface(made)["link"])
    forwards(bench)
    done(bench.router, delete)
    assert made not in names(bench.router)


def test_pairs_come_and_go(bench):
    done(bench.router, "lcp create left host-if held")
    assert "held" in bench.inside.ip("-br link").stdout
    # In place of a pair of another name.
    done(bench.router, "lcp create right host-if first")
    done(bench.router, "lcp delete right")
    assert "first" not in bench.inside.ip("-br link").stdout
    bench.ctl("lcp lcp-sync on")
    done(bench.router, "set interface ip address left 192.0.2.1/24")
    assert "192.0.2.1/24" in bench.inside.ip("address show dev held").stdout
    bench.ctl("set interface ip address del left 192.0.2.1/24")
    bench.ctl("lcp lcp-sync off")
    done(bench.router, "lcp delete left")
    assert "held" not in bench.inside.ip("-br link").stdout


def test_settings(bench):
    bench.ctl("create host-interface name spare")
    bench.inside.ip("link set spare down")
    try:
        done(bench.router, "set interface mtu packet 2000 host-spare")
        assert "mtu 2000" in bench.inside.ip("link show dev spare").stdout
        done(bench.router, "set interface mac address host-spare 02:00:00:00:07:01")
        assert "02:00:00:00:07:01" in bench.inside.ip("link show dev spare").stdout
        done(bench.router, "set interface state host-spare up")
        wait_for("it has link", lambda: bench.router.interface("host-spare")["link"])
        done(bench.router, "set interface promiscuous on host-spare")
        assert "promiscuity 1" in bench.inside.ip("-d link show dev spare").stdout
        done(bench.router, "set interface ip address host-spare 2001:db8:77::1/64")
    finally:
        bench.ctl("delete host-interface name spare")


def test_a_document(bench, tmp_path):
    """Each step that asks Linux waits for it; what it refuses in the middle takes back what stood before."""
    router = bench.router
    before = router.ctl("show configuration")
    file = tmp_path / "new.yaml"

    def applied(**more):
        config = yaml.safe_load(router.text)
        config["interfaces"].update(more)
        file.write_text(document(config))
        return done(router, f"configuration apply {file}")

    applied(spare={"mtu": 3000})
    assert "mtu 3000" in bench.inside.ip("link show dev spare").stdout
    with pytest.raises(CtlError, match="nothing was changed.*nobody"):
        applied(spare={"mtu": 4000}, nobody={})
    assert router.interface("spare")["mtu"] == 3000
    assert "mtu 3000" in bench.inside.ip("link show dev spare").stdout
    applied()
    assert router.ctl("show configuration") == before


def test_what_is_being_opened_is_there_once(bench):
    """Whoever names it meanwhile is told so; the others go on."""
    make = "create host-interface name spare"
    first, second, delete, mtu, other = held_up(
        bench.router, make, make, "delete host-interface name spare", "set interface mtu packet 1400 host-spare",
        "set interface description left held")
    assert first.strip() == "host-spare" and other == ""
    for refused in (second, delete, mtu):
        assert "host-spare is being opened: try again" in str(refused)
    assert names(bench.router).count("host-spare") == 1
    done(bench.router, "delete host-interface name spare")
    assert "host-spare" not in names(bench.router)
    # Given back and taken again, in order.
    bench.ctl(make)
    gone, made = held_up(bench.router, "delete host-interface name spare", make)
    assert gone == "" and made.strip() == "host-spare"
    bench.ctl("delete host-interface name spare")


def test_what_linux_refuses_late_is_undone(bench, tmp_path):
    [refused] = held_up(bench.router, "create tap id 4 host-if-name spare")
    assert isinstance(refused, CtlError) and "spare" in str(refused) and "tap4" not in names(bench.router)
    [refused] = held_up(bench.router, "lcp create left host-if spare")
    assert isinstance(refused, CtlError) and "left: no pair" in str(refused), refused
    assert bench.router.json("show lcp")["pairs"] == []
    # A document that gives a pair another name: the one before is made again.
    files = {}
    for host in ("held", "spare", None):
        config = yaml.safe_load(bench.router.text)
        config.update({"linux-cp": {"interfaces": {"left": {"host-if": host}}}} if host else {})
        files[host] = tmp_path / f"{host}.yaml"
        files[host].write_text(document(config))
    bench.ctl(f"configuration apply {files['held']}")
    [refused] = held_up(bench.router, f"configuration apply {files['spare']}")
    assert isinstance(refused, CtlError) and "left: no pair" in str(refused), refused
    wait_for("the pair is back", lambda: "held" in bench.inside.ip("-br link").stdout)
    assert [p["host-if"] for p in bench.router.json("show lcp")["pairs"]] == ["held"]
    bench.ctl(f"configuration apply {files[None]}")


def test_a_late_refusal_leaves_what_others_have_set(bench):
    # A macvlan takes no more than the device below it.
    bench.inside.ip("link add narrow link spare type macvlan")
    bench.inside.ip("link set narrow up")
    bench.ctl("create host-interface name narrow")
    try:
        mtu = lambda: bench.router.interface("host-narrow")["mtu"]
        [too_much] = held_up(bench.router, "set interface mtu packet 3000 host-narrow")
        assert "cannot set the MTU to 3000" in str(too_much) and mtu() == 1500
        too_much, less = held_up(
            bench.router, "set interface mtu packet 3000 host-narrow", "set interface mtu packet 1400 host-narrow")
        assert "cannot set the MTU to 3000" in str(too_much) and less == "" and mtu() == 1400
        assert "what was changed since stays" in bench.router.log()
    finally:
        bench.ctl("delete host-interface name narrow")
        bench.inside.ip("link del narrow")


def test_it_ends_while_it_waits(bench):
    client = Client(bench.router.socket)
    with Rtnl(HELD):
        client.send("create tap id 9 host-if-name ends")
        assert bench.router.ctl("show version")
        assert bench.router.kill(signal.SIGTERM) == 0
    client.close()
    assert "ends" not in bench.inside.ip("-br link").stdout
    bench.router.start()
