"""Network cards of DPDK bound to vfio-pci, behind an IOMMU, with Quiver in the guest that has them.

    host a - c0 === e1000e  [    ] virtio, two queues === c1 - host b
                            [ Quiver ]
    host c - c2 === e1000   [    ]
"""

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import threading

import pytest
from harness import guest, run, wait_for
from harness.guest import Card, Guest
from harness.router import BINARY, document
from harness.wire import Wire
from scapy.all import ICMP, IP, Dot1Q, Ether, Raw
from tools import hears

pytestmark = pytest.mark.skipif(guest.lacks() is not None, reason=f"no Linux in QEMU: {guest.lacks()}")

LIBRARY = os.path.join(os.path.dirname(BINARY), "quiver-dpdk.so")
# All of Debian's drivers stand here, each a file with the version in its name.
DRIVERS = "/usr/lib/x86_64-linux-gnu/dpdk"

if not os.path.exists(LIBRARY):
    if subprocess.run(["pkg-config", "--exists", "libdpdk"], check=False).returncode != 0:
        pytest.skip("no libdpdk-dev (scripts/setup installs it)", allow_module_level=True)
    run([os.path.join(guest.REPO, "scripts/dpdk"), os.path.dirname(BINARY)])

if not os.path.isdir(DRIVERS):
    pytest.skip(f"no drivers of DPDK in {DRIVERS}: scripts/setup installs libdpdk-dev", allow_module_level=True)

PATIENCE = 120
# (interface, model and options in QEMU, queues).
CARDS = (("a", "e1000e", "", 1), ("b", "virtio-net-pci", ",disable-legacy=on,iommu_platform=on,ats=on,mq=on,vectors=6", 2), ("c", "e1000", "", 1))
ADDRESS = {name: f"0000:{n + 1:02x}:00.0" for n, (name, *_) in enumerate(CARDS)}

BIND = """
mount -t devtmpfs dev /dev; mkdir -p /run /tmp /var; ln -s /run /var/run; chmod 755 /; ip link set lo up
for d in /sys/bus/pci/devices/*; do
    [ $(cat $d/class) = 0x020000 ] || continue
    [ ! -e $d/driver ] || echo ${d##*/} > $d/driver/unbind
    echo $(cat $d/vendor) $(cat $d/device) > /sys/bus/pci/drivers/vfio-pci/new_id
done 2> /dev/null
ls /dev/vfio
"""


def drivers():
    """Files of DPDK's that the guest needs beside the libraries of quiver-dpdk.so."""
    folder = os.path.join(DRIVERS, max(f for f in os.listdir(DRIVERS) if f.startswith("pmds-")))
    return [os.path.join(folder, f) for f in os.listdir(folder)
            if re.fullmatch(r"librte_(net_e1000|net_virtio|mempool_ring)\.so\.\d+\.\d+", f)]


class Inside:
    """The guest, Quiver in it, and the hosts at its cards."""

    def __init__(self, lab, tmp):
        self.quiver = os.path.join(tmp, "quiver")
        run(["strip", "-o", self.quiver, BINARY])
        library = os.path.join(tmp, "quiver-dpdk.so")
        run(["cp", LIBRARY, library])
        self.hosts = {}
        for n, (name, *_) in enumerate(CARDS, 1):
            self.hosts[name] = lab.host(name, [f"10.0.{n}.2/24", f"2001:db8:{n}::2/64"], [f"10.0.{n}.1", f"2001:db8:{n}::1"])
        self.guest = Guest([], ["vfio_pci", "vfio_iommu_type1"], memory_mib=768, programs=[self.quiver, library, *drivers()],
                           cards=[Card(self.hosts[name], "eth0", model, more, queues) for name, model, more, queues in CARDS],
                           more="intel_iommu=on hugepages=48")
        lab.routers.append(self.guest)
        for host in self.hosts.values():
            host.configure()
        self.write("/bind", BIND)
        groups = self.run("sh /bind")
        assert len(re.findall(r"\b\d+\b", groups)) == len(CARDS), groups
        self.write("/tmp/quiver.yaml", document({
            "quiver": {"dad": "off", "buffers": {"count": 8192}, "poll": {"mode": "power"}},
            "devices": {name: {"driver": "dpdk", "device": ADDRESS[name], "rx-queues": queues} for name, _, _, queues in CARDS},
            "interfaces": {name: {"addresses": [f"10.0.{n}.1/24", f"2001:db8:{n}::1/64"]} for n, (name, *_) in enumerate(CARDS, 1)}}))
        self.start()

    def run(self, line, check=True):
        return self.guest.run(line, check=check, timeout=PATIENCE)

    def write(self, file, text):
        self.run(f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {file}")

    def start(self):
        # QEMU's emulated AVX2 looks 16 of 20 packets up wrongly; of one at a time nobody asks it.
        self.run(f"(QUIVER_CPU=v2 {self.quiver} run -c /tmp/quiver.yaml >> /tmp/log 2>&1 &)")

        def answers():
            assert self.run("pidof quiver", check=False).strip(), self.log()
            return "local0" in self.ctl("show interface", check=False)
        wait_for("Quiver answers", answers, timeout=PATIENCE, every=0.2)
        self.up(*self.hosts)

    def ctl(self, line, check=True):
        return self.run(f"{self.quiver} ctl {shlex.quote(line)}", check=check)

    def json(self, line):
        return json.loads(self.run(f"{self.quiver} ctl --json {shlex.quote(line)}"))

    def interface(self, name):
        return next(r for r in self.json("show interface") if r["name"] == name)

    def hardware(self, name):
        return next(r for r in self.json(f"show hardware-interfaces {name}") if r["name"] == name)

    def log(self):
        return self.run("cat /tmp/log")

    def up(self, *names):
        """These have link, and say so."""
        for name in names:
            wait_for(f"{name} has link:\n{self.log()}", lambda: self.interface(name)["link"], timeout=PATIENCE, every=0.2)

    def reach(self, *names):
        """Hosts hear each other, in both families, whose neighbours are found by frames to all and to groups."""
        for one, other in zip(names, (*names[1:], names[0])):
            n = [*self.hosts].index(other) + 1
            for to in (f"10.0.{n}.2", f"2001:db8:{n}::2"):
                wait_for(f"{one} hears {to}", lambda: hears(self.hosts[one], to), timeout=PATIENCE)


@pytest.fixture(scope="module")
def inside(module_lab, tmp_path_factory):
    """The guest, which boots once for all tests."""
    return Inside(module_lab, tmp_path_factory.mktemp("guest"))


def burst(one, other, to, count=200, at_once=20):
    """So many datagrams, a few at once: no more than an emulated card holds while its guest is busy. All come."""
    with other.entered():
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with one.entered():
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
        there.bind(("", 7000))
        there.settimeout(60)
        want = [bytes((n + i * 7) % 256 for i in range(500)) for n in range(count)]
        want = [n.to_bytes(2, "big") + payload for n, payload in enumerate(want)]
        for at in range(0, count, at_once):
            some = want[at:at + at_once]
            for datagram in some:
                here.sendto(datagram, (to, 7000))
            assert sorted(there.recv(2000) for _ in some) == some


def echo(one, other, to, size=300000):
    """A TCP connection brings so many bytes there and back."""
    with other.entered():
        listener = socket.create_server(("0.0.0.0", 7001))
    with one.entered():
        here = socket.socket()

    def server():
        there = listener.accept()[0]
        with there:
            for part in iter(lambda: there.recv(65536), b""):
                there.sendall(part)
    thread = threading.Thread(target=server)
    thread.start()
    with listener, here:
        here.settimeout(60)
        here.connect((to, 7001))
        sent = os.urandom(size)
        sender = threading.Thread(target=lambda: (here.sendall(sent), here.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b"".join(iter(lambda: here.recv(65536), b""))
        sender.join()
        thread.join()
    assert got == sent


def test_they_forward(inside):
    """Ping, UDP and TCP between all cards, with what the hosts leave to their cards; what the cards say of themselves."""
    s = inside
    words = {name: s.hardware(name)["driver"] for name in s.hosts}
    assert "driver net_e1000_em" in words["a"] and "driver net_e1000_em" in words["c"], words
    assert "driver net_virtio; 2 receive queues" in words["b"], words
    assert all("checks checksums, completes checksums" in w for w in words.values()), words
    # Receive interrupts of e1000's reach nobody; virtio's do.
    assert "polled" in words["a"] and "polled" in words["c"] and "interrupts" in words["b"], words
    assert "1000 Mbit/s" in words["a"], words
    s.reach("a", "b", "c")
    s.hosts["a"].ping("10.0.2.2", count=10, size=1400)
    s.hosts["b"].ping("10.0.3.2", count=10, size=1400)
    burst(s.hosts["a"], s.hosts["b"], "10.0.2.2")
    burst(s.hosts["b"], s.hosts["c"], "10.0.3.2")
    burst(s.hosts["c"], s.hosts["a"], "10.0.1.2")
    echo(s.hosts["a"], s.hosts["b"], "10.0.2.2")
    echo(s.hosts["b"], s.hosts["c"], "10.0.3.2")

    def counted(name, *stats):
        have = {x["name"]: x["value"] for x in s.hardware(name)["device-statistics"]}
        return all(have.get(stat, 0) >= 200 for stat in stats)
    for name, stats in (("a", ("rx_good_packets", "tx_good_packets")), ("b", ("rx_good_packets", "tx_good_packets", "tx_q0_good_packets"))):
        wait_for(f"{name} counts", lambda: counted(name, *stats), every=0.5, timeout=PATIENCE)


def test_link_events(inside):
    """A wire that is cut and put together again."""
    s = inside
    for up in (False, True):
        for n, _ in enumerate(CARDS):
            s.guest.qemu("set_link", name=f"c{n}", up=up)
        for name in s.hosts:
            wait_for(f"{name} knows", lambda: s.interface(name)["link"] == up, timeout=PATIENCE, every=0.2)
    s.reach("a", "b", "c")


def test_addresses_and_sizes(inside):
    """Frames for others are the card's to leave out, unless it is to take all; another MAC address; long packets; tags."""
    s = inside
    for n, name in ((1, "a"), (2, "b")):
        host, to = s.hosts[name], f"10.0.{n}.1"
        wire = Wire(host, "eth0", None)
        foreign = bytes.fromhex("02990000009902990000009888b5") + bytes(60)

        def taken():
            """How many of ten frames for another station come in; a ping behind them says that they have passed."""
            before = s.interface(name)["rx"]["packets"]
            wire.send(*[foreign] * 10)
            host.ping(to, count=1)
            return wait_for("the ping is counted", lambda: s.interface(name)["rx"]["packets"] - before, timeout=PATIENCE)
        assert taken() < 10
        s.ctl(f"set interface promiscuous on {name}")
        wait_for("it takes all", lambda: taken() >= 10, timeout=PATIENCE)
        s.ctl(f"set interface promiscuous off {name}")
        wait_for("it does not", lambda: taken() < 10, timeout=PATIENCE)
        s.ctl(f"set interface mac address {name} 02:00:00:00:0e:{n:02x}")
        wait_for("the new address is told", lambda: hears(host, to) and f"02:00:00:00:0e:{n:02x}" in host.ip("neigh").stdout, timeout=PATIENCE)
        s.ctl(f"set interface mtu packet 9000 {name}")
        host.ip("link set eth0 mtu 9000")
        s.up(name)
        # One tag, which the card leaves where it is.
        s.ctl(f"create sub-interfaces {name} 100")
        s.ctl(f"set interface ip address {name}.100 10.1{n}.0.1/24")
        s.ctl(f"set interface state {name}.100 up")
        ask = Ether(src="02:00:00:00:00:77", dst=f"02:00:00:00:0e:{n:02x}") / Dot1Q(vlan=100) / IP(src=f"10.1{n}.0.2", dst=f"10.1{n}.0.1") / ICMP() / Raw(b"tagged")
        s.ctl(f"set ip neighbor {name}.100 10.1{n}.0.2 02:00:00:00:00:77")

        def answered():
            wire.send(ask)
            return any(b"tagged" in f and Ether(f)[Dot1Q].vlan == 100 for f in iter(lambda: wire.recv(0.5), None) if f[12:14] == b"\x81\x00")
        wait_for("a tagged ping is answered", answered, timeout=PATIENCE)
        wire.close()
    s.reach("a", "b")
    s.hosts["a"].ping("10.0.2.2", count=5, size=8900)
    s.hosts["b"].ping("10.0.1.2", count=5, size=8900)


def test_workers_and_states(inside):
    """Queues move between workers, interfaces go down and come up, and nothing that is the card's is lost."""
    s = inside
    s.ctl("set workers 2")
    s.ctl("set interface rx-placement b queue 1 worker 1")
    s.reach("a", "b", "c")
    s.ctl("set interface rx-placement b queue 1 auto")
    s.ctl("set workers 1")
    s.reach("a", "b", "c")
    for name in ("a", "b"):
        s.ctl(f"set interface state {name} down")
        wait_for("it is down", lambda: not s.interface(name)["link"], every=0.2, timeout=PATIENCE)
        s.ctl(f"set interface state {name} up")
        s.up(name)
    s.reach("a", "b", "c")


def test_a_card_is_pulled_and_put_back(inside):
    """Linux asks for it, gets it, and the interface goes on when it is back."""
    s = inside
    for n, (name, *_) in enumerate(CARDS[:2]):
        s.guest.pull(n)
        wait_for(f"{name} is gone", lambda: f"{name}: the device is gone: it goes on when that is back" in s.log(), timeout=PATIENCE, every=0.2)
        wait_for("Linux has let go of it", lambda: ADDRESS[name] not in s.run("ls /sys/bus/pci/devices"), timeout=PATIENCE, every=0.2)
        assert not s.interface(name)["link"]
        s.guest.plug(n)
        s.up(name)
    # The same by hand.
    s.run(f"echo {ADDRESS['c']} > /sys/bus/pci/drivers/vfio-pci/unbind")
    wait_for("c is gone", lambda: "c: the device is gone" in s.log() and not s.interface("c")["link"], timeout=PATIENCE, every=0.2)
    s.run(f"echo {ADDRESS['c']} > /sys/bus/pci/drivers/vfio-pci/bind")
    s.up("c")
    s.reach("a", "b", "c")


def test_it_dies_and_ends(inside):
    """Cards are taken over from a router that was killed, and given back by one that ends."""
    s = inside
    s.run("kill -9 $(pidof quiver)")
    s.start()
    s.reach("a", "b", "c")
    # Virtio's alone wakes a worker when something comes, and not in between.
    for name in ("a", "c"):
        s.ctl(f"delete interface dpdk {name}")
    wait_for("they are let go", lambda: "a" not in [r["name"] for r in s.json("show interface")], timeout=PATIENCE, every=0.2)

    def sleeps():
        return s.json("show load")["workers"][0]["sleeps-per-second"]
    wait_for("it sleeps", lambda: sleeps() < 100, timeout=PATIENCE, every=1)
    s.hosts["b"].ping("10.0.2.1", count=10)
    s.ctl("delete interface dpdk b")
    wait_for("devices have given all back", lambda: sum(int(p["devices"]) for p in s.json("show buffers")["pools"]) == 0, timeout=PATIENCE, every=0.5)
    assert "panic" not in s.log()
    s.run("kill $(pidof quiver)")
    wait_for("it has ended", lambda: not s.run("pidof quiver", check=False).strip(), timeout=PATIENCE, every=0.2)
