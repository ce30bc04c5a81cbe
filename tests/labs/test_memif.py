"""memif: two routers side by side over shared memory, and one beside DPDK.

    host A - lan [router a] memif1/0 === memif1/0 [router b] lan - host B
    10.0.1.2            10.9.0.1             10.9.0.2            10.0.2.2
"""

import array
import itertools
import mmap
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from harness import CtlError, run, wait_for
from tools import hears, iperf_server, tcp

CONNECTED = "connected"
# What only a slave may be told.
SLAVES = ("rx-queues", "tx-queues", "ring-size", "buffer-size")


def memif(router, name="memif1/0"):
    rows = router.json("show memif")["interfaces"]
    return next(r for r in rows if r["interface"] == name)


def connected(*routers, name="memif1/0", timeout=10):
    for r in routers:
        wait_for(f"{name} is connected", lambda: memif(r, name)["state"] == CONNECTED, timeout=timeout)


class Two:
    """The topology; `a` is the master."""

    def __init__(self, lab, tmp_path, workers=1, **fields):
        self.lab = lab
        self.file = str(tmp_path / "m.sock")
        self.hosts, self.routers = [], []
        for n, (role, name) in enumerate((("master", "a"), ("slave", "b")), 1):
            inside, other = lab.namespace(name), 3 - n
            host = lab.host(f"h{n}", [f"10.0.{n}.2/24", f"2001:db8:{n}::2/64"], [f"10.0.{n}.1", f"2001:db8:{n}::1"])
            self.hosts.append(lab.cable(inside, "lan", host))
            own = {k: v[n - 1] if isinstance(v, tuple) else v for k, v in fields.items() if role == "slave" or k not in SLAVES}
            self.routers.append(lab.router(inside, {
                "memifs": {"memif1/0": {"socket": self.file, "role": role, **own}},
                "interfaces": {
                    "lan": {"addresses": [f"10.0.{n}.1/24", f"2001:db8:{n}::1/64"]},
                    "memif1/0": {"addresses": [f"10.9.0.{n}/24", f"2001:db8:9::{n}/64"]}},
                "routes": [{"prefix": f"10.0.{other}.0/24", "via": f"10.9.0.{other}"},
                           {"prefix": f"2001:db8:{other}::/64", "via": f"2001:db8:9::{other}"}],
                "quiver": {"dad": "off", "workers": workers}}))
        self.a, self.b = self.routers

    def passes(self, count=20):
        connected(*self.routers)
        one, two = self.hosts
        wait_for("the hosts hear each other", lambda: hears(one, "10.0.2.2") and hears(one, "2001:db8:2::2"))
        for host, to in ((one, "10.0.2.2"), (two, "10.0.1.2"), (one, "2001:db8:2::2"), (two, "2001:db8:1::2")):
            host.ping(to, count=count)
            host.ping(to, count=5, size=20000)


@pytest.mark.parametrize("mode", ["ethernet", "ip"])
@pytest.mark.parametrize("queues, workers, buffer", [(1, 1, 2048), (3, 2, 64)])
def test_two_routers(lab, tmp_path, mode, queues, workers, buffer):
    t = Two(lab, tmp_path, workers, mode=mode, **{"rx-queues": queues, "tx-queues": queues, "buffer-size": buffer, "ring-size": 2048})
    t.passes()
    row = memif(t.a)
    assert (row["rx"], row["tx"], row["slots"], row["peer"], row["program"]) == (queues, queues, 2048, "memif1/0", "Quiver")
    for r in t.routers:
        drops = r.interface("memif1/0")
        assert not [k for k in drops if k.startswith("bad-descriptor")], drops
        r.check_quiet()
        # What runs is what its document says.
        text = r.ctl("show configuration")
        assert "memif1/0" in text and ("mode: ip" in text) == (mode == "ip"), text


def test_tcp_between_hosts(lab, tmp_path):
    # A window of TCP fits in the ring: the hosts send super-frames, which leave as single frames.
    t = Two(lab, tmp_path, **{"ring-size": 8192})
    t.passes(1)
    one, two = t.hosts
    with iperf_server(two):
        tcp(one, "10.0.2.2")
        tcp(one, "10.0.2.2", "-R")


def mapped(router):
    """Regions that a router has mapped, and its descriptors."""
    pid = router.process.pid
    with open(f"/proc/{pid}/maps") as f:
        regions = sum("quiver-memif" in line or "memif_region" in line for line in f)
    return regions, len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("mode", ["ethernet", "ip"])
def test_either_side_is_killed_and_comes_back(lab, tmp_path, mode):
    t = Two(lab, tmp_path, mode=mode)
    t.passes(1)
    before = None
    for n in (1, 0, 1, 0):
        gone, stays = t.routers[n], t.routers[1 - n]
        pid = stays.process.pid
        gone.kill(signal.SIGKILL)
        wait_for("the other side knows", lambda: memif(stays)["state"] != CONNECTED)
        wait_for("and has let go of the memory", lambda: mapped(stays)[0] == 0)
        assert "memif1/0: the connection has ended: the other side has closed it" in stays.log()
        assert not stays.interface("memif1/0")["link"]
        gone.start()
        t.passes(1)
        assert stays.process.pid == pid and mapped(stays)[0] == 1
        if n == 1:
            before = before or mapped(stays)[1]
            assert mapped(stays)[1] == before, "descriptors are left"
    # In order, by either side.
    for r, other in ((t.a, t.b), (t.b, t.a)):
        r.ctl("set interface state memif1/0 down")
        wait_for("the other side knows", lambda: memif(other)["state"] == "waiting")
        assert memif(r)["state"] == "down"
        r.ctl("set interface state memif1/0 up")
        t.passes(1)
    for r in t.routers:
        r.check_quiet()


def test_a_wrong_secret_is_told_on_both_sides(lab, tmp_path):
    t = Two(lab, tmp_path, secret=("right", "wrong"))
    want = f"a connection of process {t.b.process.pid} has failed: memif1/0: the secret is wrong"
    wait_for("the slave says why", lambda: "the other side says: memif1/0: the secret is wrong" in t.b.log())
    wait_for("the master does", lambda: want in t.a.log())
    time.sleep(1.5)  # Three further attempts.
    for r in t.routers:
        assert r.log().count("secret is wrong") == 1, r.log()
        assert "right" not in r.log().replace("the secret", ""), "the secret is in the log"
    assert not t.a.interface("memif1/0")["link"]


def test_why_a_link_waits_is_shown(lab, tmp_path):
    file = str(tmp_path / "m.sock")
    a, b = lab.router(lab.namespace("a"), {}), lab.router(lab.namespace("b"), {})
    b.script(f"create memif socket id 1 filename {file}", "create interface memif socket-id 1 slave")
    row = memif(b)
    assert (row["waits-for"], row["error"], row["error-seconds"]) == ("being set up", None, None), row
    b.ctl("set interface state memif1/0 up")
    wait_for("it was tried", lambda: memif(b)["error"])
    row = memif(b)
    assert row["waits-for"] == f"a master on {file}" and row["error"].startswith("no master listens on") and row["error-seconds"] < 30, row
    assert f"a master on {file}" in b.ctl("show memif")
    a.script(f"create memif socket id 1 filename {file}", "create interface memif socket-id 1 master secret other")
    wait_for("it is refused", lambda: "memif1/0: the interface is down" in memif(b)["error"])
    row = memif(a)
    assert row["waits-for"] == "being set up", row
    a.ctl("set interface state memif1/0 up")
    wait_for("it is refused", lambda: "the secret is wrong" in (memif(a)["error"] or ""))
    assert memif(a)["waits-for"] == f"a slave to ask for number 0 on {file}"
    a.ctl("delete interface memif memif1/0")
    a.script("create interface memif socket-id 1 master", "set interface state memif1/0 up")
    connected(a, b)
    for r in (a, b):
        assert (memif(r)["waits-for"], memif(r)["error"]) == (None, None)


def test_what_other_processes_do_does_not_fill_the_log(lab, tmp_path):
    r, file = lab.router(lab.namespace("r"), {}), str(tmp_path / "m.sock")
    r.script(f"create memif socket id 1 filename {file}", "create interface memif socket-id 1 master", "set interface state memif1/0 up")
    for _ in range(60):
        # Each with another process number in the log's line.
        child = os.fork()
        if child == 0:
            # Whatever happens it ends here: it must not go on as a second run of the tests.
            failed = 1
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                    s.connect(file)
                    s.recv(128)
                failed = 0
            finally:
                os._exit(failed)
        assert os.waitpid(child, 0)[1] == 0

    def count():
        """Lines of their own, not the one that says how many more there were."""
        lines = [line for line in r.log().splitlines() if "has failed: the other side has closed it" in line]
        return sum("the last of them: " not in line for line in lines)
    wait_for("lines come", lambda: count() >= 10)
    r.ctl("show memif")
    assert count() <= 11, r.log()


def test_what_does_not_fit_is_refused(lab, tmp_path):
    r, file = lab.router(lab.namespace("r"), {}), str(tmp_path / "m.sock")
    r.ctl(f"create memif socket id 1 filename {file}")
    r.ctl("create interface memif socket-id 1 slave ring-size 16 buffer-size 64")
    assert r.interface("memif1/0")["mtu"] == 16 * 64 - 22
    for line, why in (
        ("create interface memif id 1 socket-id 1 slave ring-size 1", "2..16384"),
        ("set interface mtu packet 1500 memif1/0", "1002 at most, more with a larger ring-size or buffer-size"),
        ("create interface memif id 2 socket-id 1 master", "memif1/0 is the other side on the socket"),
        ("create memif socket id 2 filename @other", None),
        ("create interface memif socket-id 2 master ring-size 2048", "ring-size is the slave's: a master takes what that has, give it there"),
    ):
        if why is None:
            r.ctl(line)
            continue
        with pytest.raises(CtlError) as e:
            r.ctl(line)
        assert why in str(e.value), e.value


def test_commands(lab, tmp_path):
    r = lab.router(lab.namespace("r"), {})
    file = str(tmp_path / "c.sock")
    r.ctl(f"create memif socket id 3 filename {file} secret abc")
    assert r.ctl("create interface memif id 5 socket-id 3 hw-addr 02:00:00:00:00:07").strip() == "memif3/5"
    assert r.ctl("create interface memif id 6 socket-id 3 mode ip").strip() == "memif3/6"
    assert os.path.exists(file)
    text = r.ctl("show configuration")
    assert 'mac: "02:00:00:00:00:07"' in text, text
    assert f"socket: {file}" in text and "secret: abc" in text and "mode: ip" in text, text
    assert file in r.ctl("show memif") and "abc" not in r.ctl("show memif")
    for line, why in (
            ("create interface memif id 5 socket-id 3", "there is an interface memif3/5 already"),
            ("create interface memif id 1 socket-id 9", "there is no memif socket 9"),
            ("create memif socket id 4 filename m.sock", "neither the full path of a file nor @NAME"),
            (f"create memif socket id 4 filename {file}", "is socket 3 already"),
            ("create memif socket id 4 filename /nowhere/m.sock", None),
            ("create interface memif id 1 socket-id 4", "the folder of the socket /nowhere/m.sock does not exist"),
            ("create interface memif id 1 socket-id 3 slave", "memif3/5 is the other side on the socket"),
            ("create interface memif id 1 socket-id 3 ring-size 1000", "a ring of 1000 slots: a power of two"),
            ("create interface memif id 1 socket-id 3 secret " + "x" * 25, "a secret of 25 bytes"),
            ("delete memif socket id 3", "has interfaces"),
            ("delete interface memif local0", "is not a memif interface")):
        done = r.ctl_raw(line)
        assert (done.returncode == 0) == (why is None) and (why or "") in done.stderr + done.stdout, (line, done)
    r.ctl("delete interface memif memif3/5")
    assert os.path.exists(file)
    r.ctl("delete interface memif memif3/6")
    assert not os.path.exists(file), "the socket goes with its last interface"
    r.check_quiet()


class Mad:
    """A slave that does what it likes with its memory."""

    SIZE, COOKIE, LOG2 = 1 << 18, 0x3E31F20, 8

    def __init__(self, path, ident=0, sealing=True):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(5)
        self.s.connect(path)
        self.hello = self.s.recv(200)
        self.fd = os.memfd_create("memif_region", os.MFD_ALLOW_SEALING if sealing else 0)
        os.ftruncate(self.fd, self.SIZE)
        self.memory = mmap.mmap(self.fd, self.SIZE)
        self.events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2)]
        for at in (0, 8192):
            self.memory[at:at + 4] = struct.pack("=I", self.COOKIE)
        self.ident = ident

    def say(self, kind, body, fd=None):
        along = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.s.sendmsg([(struct.pack("=H", kind) + body).ljust(128, b"\0")], along)
        return self.s.recv(200)

    def steps(self):
        """The handshake, a message at a time; each answers the kind of the answer."""
        yield 3, struct.pack("=HIB", 0x200, self.ident, 0), None
        yield 4, struct.pack("=HQ", 0, self.SIZE), self.fd
        for s2m, at, event in ((1, 0, self.events[0]), (0, 8192, self.events[1])):
            yield 5, struct.pack("=HHHIBH", s2m, 0, 0, at, self.LOG2, 0), event
        yield 6, b"mad0", None

    def join(self, steps=5):
        for kind, body, fd in itertools.islice(self.steps(), steps):
            answer = self.say(kind, body, fd)
            if answer[0] == 8:
                return answer[6:].rstrip(b"\0").decode()
        return None

    def scribble(self, rng, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(200):
                n = rng.choice((1, 2, 4, 16, 64))
                at = rng.choice((0, 6, 64, 128, 8192, 8198, 8256, 8320, 16384)) + rng.randrange(4096)
                self.memory[at:at + n] = rng.randbytes(n)
                for ring in (0, 8192):
                    # Little steps, so that packets are looked at.
                    tail = struct.unpack_from("=H", self.memory, ring + 64)[0]
                    struct.pack_into("=H", self.memory, ring + 6, (tail + rng.randrange(20)) & 0xFFFF)
            os.eventfd_write(self.events[0], 1)

    def close(self):
        self.s.close()
        self.memory.close()
        for fd in (self.fd, *self.events):
            os.close(fd)


def test_a_peer_that_writes_anything_harms_only_itself(lab, tmp_path):
    t = Two(lab, tmp_path)
    t.passes(1)
    file = str(tmp_path / "mad.sock")
    t.a.ctl(f"create memif socket id 2 filename {file}")
    t.a.ctl("create interface memif socket-id 2")
    t.a.ctl("set interface state memif2/0 up")
    t.a.ctl("set interface ip address memif2/0 10.8.0.1/24")
    t.a.ctl("ip neighbor memif2/0 10.8.0.2 02:00:00:00:00:09")
    rng = random.Random(7)
    before = mapped(t.a)
    for steps in range(5):
        mad = Mad(file)
        assert mad.join(steps) is None
        mad.close()
    unsealed = Mad(file, sealing=False)
    assert "F_SEAL_SHRINK" in unsealed.join()
    unsealed.close()
    for _ in range(6):
        mad = Mad(file)
        wait_for("it is let in", lambda: memif(t.a, "memif2/0")["state"] != CONNECTED)
        assert mad.join() is None
        with pytest.raises(OSError):
            os.ftruncate(mad.fd, 0)
        pings = t.hosts[0].start(["ping", "-n", "-q", "-c", "50", "-i", "0.01", "-W", "2", "10.0.2.2"], stdout=subprocess.PIPE)
        flood = t.hosts[0].start(["ping", "-n", "-q", "-f", "-c", "2000", "-s", "4000", "-W", "1", "10.8.0.2"], stdout=subprocess.DEVNULL)
        mad.scribble(rng, 0.7)
        out = pings.communicate(timeout=20)[0]
        assert "50 received" in out, out
        flood.kill()
        flood.wait()
        mad.close()
    wait_for("nothing of it is left", lambda: mapped(t.a)[0] == before[0] and mapped(t.a)[1] <= before[1])
    t.a.ctl("set interface state memif2/0 down")
    t.passes(1)
    t.a.check_quiet()


TESTPMD = shutil.which("dpdk-testpmd")


@pytest.mark.skipif(TESTPMD is None, reason="no dpdk-testpmd (Debian's dpdk-dev)")
@pytest.mark.parametrize("ours, theirs", [("master", "client"), ("slave", "server")])
def test_dpdk(lab, tmp_path, ours, theirs):
    """testpmd answers ARP and ping for every address of its side."""
    inside, file = lab.namespace("r"), str(tmp_path / "d.sock")
    host = lab.cable(inside, "lan", lab.host("h", ["10.0.1.2/24"], ["10.0.1.1"]))
    r = lab.router(inside, {
        "memifs": {"memif1/3": {"socket": file, "role": ours, "secret": "s3cret", "rx-queues": 2, "tx-queues": 2, "ring-size": 512}},
        "interfaces": {"lan": {"addresses": ["10.0.1.1/24"]}, "memif1/3": {"addresses": ["10.9.0.1/24"]}},
        "quiver": {"dad": "off"}})

    def testpmd():
        words = [TESTPMD, "--no-huge", "-m", "128", "-l", "0,1", "--no-pci", "--no-telemetry", f"--file-prefix=quiver-{os.getpid()}",
                 f"--vdev=net_memif0,role={theirs},id=3,socket={file},socket-abstract=no,secret=s3cret,rsize=9,mac=02:00:00:00:00:aa",
                 "--", "--total-num-mbufs=4096", "--rxq=2", "--txq=2", "--forward-mode=icmpecho", "--auto-start", "--stats-period=60"]
        log = open(tmp_path / "testpmd.log", "a")
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    before = None
    for how in (signal.SIGKILL, signal.SIGTERM):
        other = testpmd()
        try:
            connected(r, name="memif1/3", timeout=60)
            row = memif(r, "memif1/3")
            assert (row["rx"], row["tx"], row["slots"]) == (2, 2, 512) and row["program"].startswith("DPDK"), row
            wait_for("testpmd answers", lambda: hears(host, "10.9.0.2"), timeout=20)
            # Through the router, in one buffer of testpmd's and in two of its ring's.
            host.ping("10.9.0.2", count=20)
            host.ping("10.9.0.3", count=20, size=1400)
            before = before or mapped(r)
            assert mapped(r) == before
        finally:
            other.send_signal(how)
            other.wait(timeout=20)
            if theirs == "server":
                run(f"rm -f {file}", check=False)
        wait_for("the router knows", lambda: memif(r, "memif1/3")["state"] != CONNECTED)
    r.check_quiet()
