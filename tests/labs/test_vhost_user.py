"""vhost-user: a router beside DPDK's virtio-user, and between two virtual machines.

    host - lan [router] VirtualEthernet0/0/0 === testpmd or a guest
    10.0.1.2            10.9.0.1                 10.9.0.2
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from harness import BINARY, run, wait_for
from harness.guest import Guest, lacks
from tools import hears

NAME = "VirtualEthernet0/0/0"


def vhost(router, name=NAME):
    return next(r for r in router.json("show vhost-user") if r["interface"] == name)


def runs(router, name=NAME, timeout=60):
    wait_for(f"{name} runs", lambda: vhost(router, name)["state"] == "running", timeout=timeout)


def held(router):
    """Descriptors of a router, and what it has mapped of others' memory."""
    pid = router.process.pid
    with open(f"/proc/{pid}/maps") as f:
        maps = sum("nohuge" in line or "memfd" in line and "quiver" not in line for line in f)
    return len(os.listdir(f"/proc/{pid}/fd")), maps


# Takes all of a connection, and sends it back.
ECHO = """
import socket
s = socket.create_server(("10.5.0.9", 5001))
print("listens", flush=True)
c = s.accept()[0]
all = b"".join(iter(lambda: c.recv(65536), b""))
c.sendall(all)
c.close()
"""
TESTPMD = shutil.which("dpdk-testpmd")


@pytest.mark.skipif(TESTPMD is None, reason="no dpdk-testpmd (Debian's dpdk-dev)")
@pytest.mark.parametrize("ours, more", [("server", ""), ("client", ""), ("server", ",mrg_rxbuf=0,in_order=0")])
def test_dpdk(lab, tmp_path, ours, more):
    """testpmd answers ARP and ping for every address of its side."""
    inside, file = lab.namespace("r"), str(tmp_path / "v.sock")
    host = lab.cable(inside, "lan", lab.host("h", ["10.0.1.2/24"], ["10.0.1.1"]))
    r = lab.router(inside, {
        "vhost-users": {NAME: {"socket": file, "role": ours}},
        "interfaces": {"lan": {"addresses": ["10.0.1.1/24"]}, NAME: {"addresses": ["10.9.0.1/24"]}},
        "quiver": {"dad": "off"}})
    more += ",server=1" if ours == "client" else ""

    def testpmd():
        words = [TESTPMD, "--no-huge", "-m", "128", "-l", "0,1", "--no-pci", "--no-telemetry", f"--file-prefix=quiver-{os.getpid()}",
                 f"--vdev=net_virtio_user0,path={file},queues=2,mac=02:00:00:00:00:aa{more}",
                 "--", "--total-num-mbufs=4096", "--rxq=2", "--txq=2", "--forward-mode=icmpecho", "--auto-start", "--stats-period=60"]
        log = open(tmp_path / "testpmd.log", "a")
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    pid, before = r.process.pid, None
    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        other = testpmd()
        try:
            runs(r)
            wait_for("both pairs run", lambda: vhost(r)["pairs"] == 2)
            row = vhost(r)
            assert row["size"] == 256 and row["process"] == other.pid, row
            assert ("mrg-rxbuf" in row["features"]) == ("mrg_rxbuf" not in more), row
            wait_for("testpmd answers", lambda: hears(host, "10.9.0.2"), timeout=20)
            seen = r.interface(NAME)
            host.ping("10.9.0.2", count=20)
            host.ping("10.9.0.3", count=20, size=1400)
            now = r.interface(NAME)
            for way in ("rx", "tx"):
                assert now[way]["packets"] - seen[way]["packets"] >= 40, (seen, now)
            before = before or held(r)
            # The first count may have seen a connection of the test's own.
            wait_for("no descriptors or memory are left", lambda: held(r)[0] <= before[0] and held(r)[1] == before[1])
        finally:
            other.send_signal(how)
            other.wait(timeout=20)
            if ours == "client":
                run(f"rm -f {file}", check=False)
        wait_for("the router knows", lambda: vhost(r)["state"] == "waiting")
        assert not r.interface(NAME)["link"]
    assert r.process.pid == pid
    assert held(r)[1] == 0, "memory is left"
    r.check_quiet()


@pytest.mark.skipif(TESTPMD is None, reason="no dpdk-testpmd (Debian's dpdk-dev)")
def test_bench():
    """The benchmark moves packets over both kinds of devices; how many is not a test."""
    done = run([BINARY, "bench", "io", "--seconds", "1", "--json"], timeout=150)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["device"] for r in rows] == ["memif", "vhost-user"], rows
    assert all(r["mpps"] > 0 and r["mpps_received"] > 0 for r in rows), rows


def test_commands(lab, tmp_path):
    r = lab.router(lab.namespace("r"), {})
    file = str(tmp_path / "c.sock")
    assert r.ctl(f"create vhost-user socket {file} server hwaddr 02:00:00:00:00:07 gso").strip() == NAME
    assert r.ctl("create vhost-user socket @v renumber 7 feature-mask 0x40008000 disable_indirect_desc").strip() == "VirtualEthernet0/0/7"
    assert os.path.exists(file)
    text = r.ctl("show configuration")
    for want in ('mac: "02:00:00:00:00:07"', f"socket: {file}", "role: server", "gso: true", "feature-mask: 1073774592", "indirect-descriptors: false"):
        assert want in text, (want, text)
    for line, why in (
            (f"create vhost-user socket {file} server", "is that of VirtualEthernet0/0/0 already"),
            ("create vhost-user socket @w renumber 7", "there is an interface VirtualEthernet0/0/7 already"),
            ("create vhost-user socket v.sock", "neither the full path of a file nor @NAME"),
            ("create vhost-user socket /nowhere/v.sock server", "the folder of the socket /nowhere/v.sock does not exist"),
            ("create vhost-user socket @x packed", "there are no packed queues"),
            ("create vhost-user socket @x feature-mask none", "'none' is no hexadecimal number"),
            ("delete vhost-user local0", "is not a vhost-user interface"),
            ("show vhost-user local0", "is no vhost-user interface")):
        done = r.ctl_raw(line)
        assert done.returncode != 0 and why in done.stderr + done.stdout, (line, done)
    assert {row["interface"]: row["state"] for row in r.json("show vhost-user")} == {NAME: "waiting", "VirtualEthernet0/0/7": "waiting"}
    r.ctl(f"delete vhost-user {NAME}")
    assert not os.path.exists(file), "the socket goes with its interface"
    r.check_quiet()


@pytest.mark.skipif(lacks() is not None, reason=str(lacks()))
@pytest.mark.parametrize("gso", [False, True])
def test_two_guests_through_a_bridge_domain(lab, tmp_path, gso):
    """Two virtual machines whose cards are ports of a bridge domain, with a host behind a third and the router at its BVI."""
    inside = lab.namespace("r")
    names = [f"VirtualEthernet0/0/{n}" for n in (0, 1)]
    files = [str(tmp_path / f"v{n}.sock") for n in (0, 1)]
    host = lab.cable(inside, "lan", lab.host("h", ["10.5.0.9/24"]))
    r = lab.router(inside, {
        "vhost-users": {name: {"socket": file, "role": "server", "gso": gso} for name, file in zip(names, files)},
        "interfaces": {"lan": {}, **{name: {} for name in names}},
        "loopbacks": {"loop0": {"addresses": ["10.5.0.254/24"]}},
        "bridgedomains": {"bd10": {"interfaces": ["lan", *names], "bvi": "loop0"}},
        "quiver": {"dad": "off"}})
    guests = []
    try:
        for n, file in enumerate(files):
            guests.append(Guest([], vhosts=[(file, f"02:00:00:00:bb:{n:02x}")], memory_mib=256))
            guests[n].run(f"ip addr add 10.5.0.{n + 1}/24 dev eth0; ip link set eth0 up")

        def pass_all():
            for name in names:
                runs(r, name)
            for n, guest in enumerate(guests):
                for to in (f"10.5.0.{2 - n}", "10.5.0.9", "10.5.0.254"):
                    wait_for(f"guest {n} hears {to}", lambda: guest.run(f"ping -c 1 -W 1 {to}", check=False).find(" 0% packet loss") >= 0, timeout=30)
                    text = guest.run(f"ping -c 20 -i 0.05 -s 1400 {to}", check=False, timeout=60)
                    assert "20 packets received" in text, text
            host.ping("10.5.0.2", count=5, size=1400)

        pass_all()
        row = vhost(r, names[0])
        assert {"mrg-rxbuf", "event-idx", "indirect-desc", "version-1", "mq"} <= set(row["features"].split()), row
        assert ("guest-tso4" in row["features"]) == gso, row
        # TCP, of which the driver makes super-frames, and takes them, where it may.
        server = host.start([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
        assert server.stdout.readline() == "listens\n"
        text = guests[0].run("nc 10.5.0.9 5001 < /bin/busybox > /back; md5sum < /back; md5sum < /bin/busybox", timeout=90)
        server.wait(timeout=20)
        assert len(set(text.split()) - {"-"}) == 1, text
        # The router is killed; QEMU connects anew.
        r.kill(signal.SIGKILL)
        r.start()
        pass_all()
        # A driver is taken out and put in again, as at a reboot.
        guests[0].run("echo virtio0 > /sys/bus/virtio/drivers/virtio_net/unbind")
        wait_for("the router knows", lambda: vhost(r, names[0])["state"] == "connected")
        guests[0].run("echo virtio0 > /sys/bus/virtio/drivers/virtio_net/bind; ip addr add 10.5.0.1/24 dev eth0; ip link set eth0 up")
        pass_all()
        reasons = [d["reason"] for name in names for d in r.interface(name)["drops"]["reasons"]]
        assert "bad-descriptor" not in reasons, reasons
    finally:
        for guest in guests:
            guest.stop()
    for name in names:
        wait_for("the guest is gone", lambda name=name: vhost(r, name)["state"] == "waiting")
    assert held(r)[1] == 0, "memory is left"
    r.check_quiet()
