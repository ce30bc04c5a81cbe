"""Devices of DPDK by quiver-dpdk.so, which scripts/dpdk builds: virtual ones, beside Linux hosts, our own memif, and files."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from harness import BINARY, CtlError, run, veth, wait_for
from scapy.all import IP, IPv6, UDP, Ether, Raw, rdpcap, wrpcap
from tools import hears, iperf, iperf_server, tcp

LIBRARY = os.path.join(os.path.dirname(BINARY), "quiver-dpdk.so")

if not os.path.exists(LIBRARY):
    if subprocess.run(["pkg-config", "--exists", "libdpdk"], check=False).returncode != 0:
        pytest.skip("no libdpdk-dev (scripts/setup installs it)", allow_module_level=True)
    repo = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    subprocess.run([os.path.join(repo, "scripts/dpdk"), os.path.dirname(BINARY)], check=True)

QUIET = {"quiver": {"dad": "off"}}


def hardware(router, name):
    rows = router.json(f"show hardware-interfaces {name}")
    return next(r for r in rows if r["name"] == name)


def up(router, *names, timeout=60):
    """The devices run and have link."""
    for name in names:
        wait_for(f"{name} has link:\n", lambda: router.interface(name)["link"], timeout=timeout)


def packets(router, name):
    row = router.interface(name)
    return row["rx"]["packets"], row["tx"]["packets"]


def lent(router):
    return sum(int(pool["devices"]) for pool in router.json("show buffers")["pools"])


def test_null_devices_give_and_take(lab):
    """Frames come without end from one and go to the other, also while devices come, move and go; no buffer is lost."""
    r = lab.router(lab.namespace("r"), {
        "devices": {"one": {"driver": "dpdk", "device": "net_null0,size=128", "rx-queues": 2},
                    "two": {"driver": "dpdk", "device": "net_null1,copy=1"}},
        "interfaces": {"one": {"l2xc": "two"}, "two": {"l2xc": "one"}},
        "quiver": {"workers": 2}})
    up(r, "one", "two")
    wait_for("frames pass", lambda: min(*packets(r, "one"), *packets(r, "two")) > 10000)
    row = hardware(r, "one")
    assert "driver net_null" in row["driver"] and "2 receive queues" in row["driver"], row
    counted = {"rx_good_packets", "tx_good_packets"}
    wait_for("the device's own counts", lambda: {s["name"] for s in hardware(r, "one")["device-statistics"]} >= counted)
    assert "rx_good_packets" in r.ctl("show hardware-interfaces one")
    for worker in (0, 1, 0, 1):
        for queue in (0, 1):
            r.ctl(f"set interface rx-placement one queue {queue} worker {worker}")
        before = packets(r, "one")[0]
        wait_for("they go on", lambda: packets(r, "one")[0] > before + 1000)
    for _ in range(3):
        r.ctl("set interface state one down")
        wait_for("it has stopped", lambda: not r.interface("one")["link"])
        r.ctl("set interface state one up")
        up(r, "one")
    # Made anew under traffic, by a document.
    text = r.ctl("show configuration")
    assert 'device: "net_null0,size=128"' in text or "device: net_null0,size=128" in text, text
    for _ in range(3):
        with open(r.file, "w") as f:
            f.write(r.text.replace("size=128", "size=256"))
        run([BINARY, "apply", "-s", r.socket, r.file])
        up(r, "one")
        with open(r.file, "w") as f:
            f.write(r.text)
        run([BINARY, "apply", "-s", r.socket, r.file])
        up(r, "one")
    for name in ("one", "two"):
        r.ctl(f"set interface l3 {name}")
    for name in ("one", "two"):
        r.ctl(f"delete interface dpdk {name}")
    wait_for("devices have given all back", lambda: lent(r) == 0)
    r.check_quiet()
    assert r.stop() == 0


@pytest.mark.parametrize("size", [64, 1500, 8000])
def test_a_ring_gives_back_what_it_takes(lab, size):
    """What a host sends into net_ring comes back to it, byte by byte, in one buffer or several."""
    inside = lab.namespace("r")
    host = lab.cable(inside, "lan", lab.host("h", []), mtu=9000)
    r = lab.router(inside, {
        "devices": {"ring": {"driver": "dpdk", "device": "net_ring0"}},
        "interfaces": {"lan": {"mtu": 9000, "l2xc": "ring"}, "ring": {"mtu": 9000, "l2xc": "lan"}}, **QUIET})
    up(r, "ring")
    with host.entered():
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("eth0", 0))
    wire.settimeout(5)
    frames = [bytes.fromhex("0200000000aa0200000000bb88b5") + bytes((n + i * 7) % 256 for i in range(size)) for n in range(50)]
    got = []
    for frame in frames:
        wire.send(frame)
        while True:
            bytes_, (_, _, kind, *_) = wire.recvfrom(10000)
            if kind != socket.PACKET_OUTGOING and bytes_[12:14] == b"\x88\xb5":
                got.append(bytes_)
                break
    assert got == frames
    wire.close()
    r.ctl("set interface l3 lan")
    r.ctl("set interface l3 ring")
    r.ctl("delete interface dpdk ring")
    wait_for("devices have given all back", lambda: lent(r) == 0)
    r.check_quiet()


@pytest.mark.parametrize("ours, theirs", [("master", "client"), ("slave", "server")])
def test_memif_by_dpdk_and_by_us(lab, tmp_path, ours, theirs):
    """Hosts behind two routers, one with our memif, the other with DPDK's."""
    file, hosts, routers = str(tmp_path / "m.sock"), [], []
    device = f"net_memif0,role={theirs},id=0,socket={file},socket-abstract=no,rsize=10"
    for n, name in enumerate(("a", "b"), 1):
        inside, other = lab.namespace(name), 3 - n
        host = lab.host(f"h{n}", [f"10.0.{n}.2/24", f"2001:db8:{n}::2/64"], [f"10.0.{n}.1", f"2001:db8:{n}::1"])
        hosts.append(lab.cable(inside, "lan", host))
        between, more = ("memif1/0", {"memifs": {"memif1/0": {"socket": file, "role": ours, "ring-size": 1024}}}) if n == 1 else (
            "dpdk0", {"devices": {"dpdk0": {"driver": "dpdk", "device": device}}})
        routers.append(lab.router(inside, {
            **more,
            "interfaces": {"lan": {"addresses": [f"10.0.{n}.1/24", f"2001:db8:{n}::1/64"]},
                           between: {"addresses": [f"10.9.0.{n}/24", f"2001:db8:9::{n}/64"]}},
            "routes": [{"prefix": f"10.0.{other}.0/24", "via": f"10.9.0.{other}"},
                       {"prefix": f"2001:db8:{other}::/64", "via": f"2001:db8:9::{other}"}], **QUIET}))
    a, b = routers
    up(a, "memif1/0")
    up(b, "dpdk0")
    wait_for("the hosts hear each other", lambda: hears(hosts[0], "10.0.2.2") and hears(hosts[0], "2001:db8:2::2"), timeout=20)
    for host, to in ((hosts[0], "10.0.2.2"), (hosts[1], "10.0.1.2"), (hosts[0], "2001:db8:2::2")):
        host.ping(to, count=20)
        host.ping(to, count=5, size=20000)
    with iperf_server(hosts[1]):
        tcp(hosts[0], "10.0.2.2")
        tcp(hosts[0], "10.0.2.2", "-R")
    # Ours goes and comes back.
    a.ctl("set interface state memif1/0 down")
    wait_for("DPDK knows", lambda: not b.interface("dpdk0")["link"], timeout=20)
    a.ctl("set interface state memif1/0 up")
    up(b, "dpdk0")
    wait_for("the hosts hear each other again", lambda: hears(hosts[0], "10.0.2.2"), timeout=20)
    for r in routers:
        r.check_quiet()


def af_packet(name):
    return {"driver": "dpdk", "device": f"net_af_packet_{name},iface={name}"}


def plain(host):
    """Whole frames, which is all that net_af_packet knows."""
    host.run("ethtool -K eth0 tx off gso off tso off gro off", check=False)


def test_hosts_over_af_packet(lab):
    """Ping and TCP between hosts on veth pairs; a device that is deleted comes back with all that was set for it."""
    inside = lab.namespace("r")
    a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
    b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    plain(a)
    plain(b)
    r = lab.router(inside, {
        "devices": {"left": af_packet("left"), "right": af_packet("right")},
        "interfaces": {"left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                       "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}, **QUIET})
    up(r, "left", "right")
    wait_for("the hosts hear each other", lambda: hears(a, "10.0.2.2") and hears(a, "2001:db8:2::2"))
    for host, to in ((a, "10.0.2.2"), (b, "10.0.1.2"), (a, "2001:db8:2::2"), (b, "2001:db8:1::2")):
        host.ping(to, count=20)
        host.ping(to, count=5, size=1400)
    with iperf_server(b):
        # Its rings are small, and what finds no room is lost.
        assert iperf(a, "10.0.2.2")["sum_received"]["bytes"] > 1e6
    inside.ip("link del right")
    wait_for("the router knows", lambda: not r.interface("right")["link"])
    assert "right: the device is gone: it goes on when that is back" in r.log()
    wait_for("and says so", lambda: "there is no Linux device right" in hardware(r, "right")["driver"])
    veth(inside, "right", b, "eth0")
    b.configure("eth0")
    plain(b)
    up(r, "right")
    wait_for("the hosts hear each other again", lambda: hears(a, "10.0.2.2"), timeout=20)
    # Idle it costs next to nothing, though these devices have no interrupts.
    time.sleep(1)
    before = r.cpu_seconds()
    time.sleep(3)
    assert r.cpu_seconds() - before < 0.6, "it spins"
    r.check_quiet()


def linux(ns, device):
    """MTU, MAC address and flags of a device as Linux has them."""
    words = ns.ip(f"link show {device}").stdout
    return re.search(r"mtu (\d+)", words)[1], re.search(r"link/ether (\S+)", words)[1], "PROMISC" in words, re.findall(r"quiver\.\S+", words)


def test_an_mtu_that_is_refused_leaves_the_interface_as_it_was(lab):
    """One that the device is known not to take at once; one that only trying shows, with a line of the log."""
    inside = lab.namespace("r")
    lab.cable(inside, "left", lab.host("a", []))
    # Linux lets it have no more than what it stands upon.
    inside.ip("link set left mtu 1400")
    inside.ip("link add upon link left type macvlan")
    inside.ip("link set upon up")
    r = lab.router(inside, {"devices": {"upon": af_packet("upon"), "null": {"driver": "dpdk", "device": "net_null0,size=64"}},
                            "interfaces": {"upon": {"addresses": ["10.0.1.1/24"], "mtu": 1400}, "null": {}}, **QUIET})
    up(r, "upon", "null")
    for mtu in (1501, 9000):
        with pytest.raises(CtlError) as e:
            r.ctl(f"set interface mtu packet {mtu} upon")
        assert f"upon: cannot set the MTU to {mtu}: net_af_packet_upon does not take MTU {mtu}: 1500 at most" in str(e.value), e.value
        assert r.interface("upon")["mtu"] == 1400 and r.interface("upon")["link"]
    r.ctl("set interface mtu packet 1450 upon")
    wait_for("it is refused", lambda: "upon: MTU 1450 is refused, and stays 1400: upon does not take MTU 1450" in r.log())
    wait_for("the interface says so", lambda: r.interface("upon")["mtu"] == 1400)
    assert r.interface("upon")["link"] and linux(inside, "upon")[0] == "1400"
    inside.ip("link set left mtu 1450")
    r.ctl("set interface mtu packet 1450 upon")
    wait_for("Linux has it", lambda: linux(inside, "upon")[0] == "1450")
    # Beyond one buffer the device is started anew.
    for mtu in (4000, 9000, 1500):
        r.ctl(f"set interface mtu packet {mtu} null")
        up(r, "null")
    assert (r.interface("upon")["mtu"], r.interface("null")["mtu"]) == (1450, 1500)
    assert r.log().count("is refused") == 1, r.log()


def test_the_linux_device_is_put_back(lab):
    """MAC address, MTU and promiscuous mode: at the end, when the interface goes, and by the next router after one that was killed."""
    inside = lab.namespace("r")
    lab.cable(inside, "left", lab.host("a", []))
    inside.ip("link set left mtu 1400")
    before = linux(inside, "left")
    config = {"devices": {"d": {**af_packet("left"), "promiscuous": True}}, "interfaces": {"d": {"mac": "02:00:00:00:0d:01"}}, **QUIET}

    def taken():
        mtu, mac, promiscuous, notes = linux(inside, "left")
        return (mtu, mac, promiscuous) == ("1500", "02:00:00:00:0d:01", True) and notes
    r = lab.router(inside, config)
    up(r, "d")
    wait_for("it is as it is to be", taken)
    with pytest.raises(CtlError) as e:
        r.ctl("create host-interface name left if-name x")
    assert "left is the device of another interface of this router" in str(e.value)
    r.ctl("delete interface dpdk d")
    wait_for("the device is as it was", lambda: linux(inside, "left") == before)
    r.ctl("create interface dpdk net_af_packet_left,iface=left name d hw-addr 02:00:00:00:0d:01")
    r.ctl("set interface state d up")
    up(r, "d")
    wait_for("it is as it is to be", lambda: linux(inside, "left")[:2] == ("1500", "02:00:00:00:0d:01"))
    assert r.kill(signal.SIGTERM) == 0
    assert linux(inside, "left") == before
    r.start()
    up(r, "d")
    wait_for("it is as it is to be", taken)
    r.kill()
    lab.router(inside, {"interfaces": {}})
    # Promiscuous mode is nothing that is noted.
    wait_for("the device is as it was", lambda: linux(inside, "left")[:2] + linux(inside, "left")[3:] == before[:2] + before[3:])


def test_files_byte_by_byte(lab, tmp_path):
    """What a capture file brings is forwarded as it should be, and what leaves stands in another, each frame whole."""
    come, gone = str(tmp_path / "in.pcap"), str(tmp_path / "out.pcap")
    own, there, next_hop = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
    out = "02:00:00:00:00:04"
    frames, want = [], []
    for n, size in enumerate((0, 1, 46, 500, 1400, 1900)):
        payload = bytes((n * 31 + i * 7) % 256 for i in range(size))
        for ip in (IP(src="10.0.1.2", dst="10.0.2.2", ttl=64, id=n), IPv6(src="2001:db8:1::2", dst="2001:db8:2::2", hlim=64)):
            frames.append(Ether(src=there, dst=own) / ip / UDP(sport=1000 + n, dport=2000) / Raw(payload))
            after = ip.copy()
            setattr(after, "ttl" if ip.version == 4 else "hlim", 63)
            want.append(bytes(Ether(src=out, dst=next_hop) / after / UDP(sport=1000 + n, dport=2000) / Raw(payload)))
    wrpcap(come, frames)
    r = lab.router(lab.namespace("r"), {
        "devices": {"left": {"driver": "dpdk", "device": f"net_pcap0,rx_pcap={come},tx_pcap={tmp_path}/back.pcap"},
                    "right": {"driver": "dpdk", "device": f"net_pcap1,tx_pcap={gone}"}},
        "interfaces": {"left": {"mac": own, "mtu": 9000, "state": "down", "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                       "right": {"mac": out, "mtu": 9000, "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}}, **QUIET})
    up(r, "right")
    for address in ("10.0.2.2", "2001:db8:2::2"):
        r.ctl(f"ip neighbor right {address} {next_hop}")
    r.ctl("set interface state left up")
    wait_for("all have come", lambda: packets(r, "left")[0] >= len(frames), timeout=30)
    r.check_quiet()
    r.ctl("delete interface dpdk right")
    wait_for("the file is closed", lambda: os.path.getsize(gone) > 0 and lent(r) >= 0 and "right" not in [
        row["name"] for row in r.json("show interface")])

    def left():
        got = [bytes(p) for p in rdpcap(gone)]
        return [g for g in got if g[12:14] != b"\x08\x06" and bytes(want[0])[:6] == g[:6]]

    wait_for("all have left", lambda: len(left()) >= len(want))
    # Frames of a flow keep their order; those of two families need not.
    for family in (b"\x08\x00", b"\x86\xdd"):
        assert [f for f in left() if f[12:14] == family] == [f for f in want if f[12:14] == family]


def test_a_tap_has_interrupts_and_offloads(lab):
    """net_tap: a device of Linux's by DPDK, which wakes its worker, and completes checksums for it."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun")
    inside = lab.namespace("r")
    host = lab.cable(inside, "lan", lab.host("h", ["10.0.1.2/24"], ["10.0.1.1"]))
    r = lab.router(inside, {
        "devices": {"tap": {"driver": "dpdk", "device": "net_tap0,iface=dtap0"}},
        "interfaces": {"lan": {"addresses": ["10.0.1.1/24"]}, "tap": {"addresses": ["10.9.0.1/24"]}}, **QUIET})
    up(r, "tap")
    inside.ip("addr add 10.9.0.2/24 dev dtap0")
    inside.ip("link set dtap0 up")
    inside.ip("route add 10.0.1.0/24 via 10.9.0.1 src 10.9.0.2")
    words = hardware(r, "tap")["driver"]
    assert "completes checksums" in words, words
    wait_for("the host hears the TAP", lambda: hears(host, "10.9.0.2"), timeout=20)
    host.ping("10.9.0.2", count=20)
    host.ping("10.9.0.2", count=5, size=4000)
    r.ctl("delete interface dpdk tap")
    wait_for("it is gone", lambda: "dtap0" not in inside.ip("-br link").stdout)
    wait_for("devices have given all back", lambda: lent(r) == 0)
    r.check_quiet()


def test_errors_tell_what_to_do(lab, tmp_path):
    """Without the library, with another version's, and devices that are not there."""
    r = lab.router(lab.namespace("r"), {}, prefix=("env", f"QUIVER_DPDK={tmp_path}/quiver-dpdk.so"))
    for _ in range(2):
        with pytest.raises(CtlError) as e:
            r.ctl("create interface dpdk net_null0")
        assert "install libdpdk-dev" in str(e.value) and "scripts/dpdk" in str(e.value), e.value
    document = tmp_path / "d.yaml"
    document.write_text(r.text + "devices: {d: {driver: dpdk, device: net_null0}}\ninterfaces: {d: {}}\n")
    done = run([BINARY, "apply", "-s", r.socket, str(document)], check=False)
    assert done.returncode != 0 and "scripts/dpdk" in done.stdout + done.stderr, done
    # Another version: the first word of the table says so.
    (tmp_path / "other.c").write_text("const unsigned quiver_dpdk_api[64] = { 4711 };\n")
    run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "quiver-dpdk.so"), str(tmp_path / "other.c")])
    with pytest.raises(CtlError) as e:
        r.ctl("create interface dpdk net_null0")
    assert "version 4711" in str(e.value), e.value
    # It may be put right while the router runs.
    shutil.copy(LIBRARY, tmp_path / "quiver-dpdk.so.new")
    os.replace(tmp_path / "quiver-dpdk.so.new", tmp_path / "quiver-dpdk.so")
    assert r.ctl("create interface dpdk net_af_packet0,iface=nowhere name d").strip() == "d"
    r.ctl("set interface state d up")
    wait_for("it says why", lambda: "d: there is no Linux device nowhere" in r.log(), timeout=30)
    assert r.ctl("create interface dpdk 0000:ff:1f.6").strip() == "0000-ff-1f-6"
    wait_for("it says why", lambda: "0000-ff-1f-6: DPDK does not take 0000:ff:1f.6" in r.log(), timeout=30)
    for line, why in (("create interface dpdk eth0", "is no device of DPDK"),
                      ("create interface dpdk net_af_packet0 name e", "is the device of d already"),
                      ("create interface dpdk net_null0 name d", "there is an interface d already"),
                      ("create interface dpdk net_null0 ring-size 100", "power of two")):
        with pytest.raises(CtlError) as e:
            r.ctl(line)
        assert why in str(e.value), e.value
    r.ctl("delete interface dpdk d")
    r.ctl("delete interface dpdk 0000-ff-1f-6")
    r.check_quiet()
    assert r.log().count("there is no Linux device nowhere") == 1, r.log()
    assert r.stop() == 0
