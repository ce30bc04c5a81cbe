"""Linux devices through AF_XDP: what the device is set to, how it ends, and what is said of it."""

import re
import signal

import pytest
from flows import pass_through
from frames import through4, through6
from harness import Bench, CtlError, Router, wait_for
from harness.host import veth
from harness.router import merged
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw


def driver(*names, **fields):
    return {"devices": {name: {"driver": "af-xdp", **fields} for name in names}}


def forwards(t, count=20):
    for through in (through4, through6):
        sent, want = through(t.ports["left"], t.ports["right"])
        for _ in range(count):
            t.left.send(sent)
            t.right.expect(want)


def hardware(t, name):
    return t.router.json(f"show hardware-interfaces {name}")[0]


def settings(t, device):
    """What the driver changes of a device, and its notes there."""
    def read(name):
        return t.inside.run(f"cat /sys/class/net/{device}/{name}").stdout.strip()
    return read("napi_defer_hard_irqs"), read("gro_flush_timeout"), re.findall(r"quiver\S*|xdp\S*", t.inside.ip(f"link show {device}").stdout)


UNTOUCHED = ("0", "0", [])


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_packets_pass_and_nothing_is_left_behind(mode):
    t = Bench(driver("left", "right", mode=mode), start=False)
    try:
        assert settings(t, "left") == UNTOUCHED
        t.start()
        forwards(t)
        words = t.ctl("show hardware-interfaces left")
        assert f"af-xdp ({mode}, copy) on Linux device left, 1 queue" in words, words
        # Linux sees nothing of what comes, and has as much to receive into as the rings hold.
        assert "Linux sees" not in words
        pool = t.router.json("show buffers")["pools"][0]
        assert int(pool["devices"]) >= 2 * 1000
        t.router.check_quiet()
        defer, flush, notes = settings(t, "left")
        assert (defer, flush) == ("2", "200000") and any(n.startswith("quiver-xdp.") for n in notes)
        # Whoever is killed leaves the settings, which the next start puts back before it looks at them: that of any router on the
        # machine, so nothing is said of how they are until then.
        t.router.kill(signal.SIGKILL)
        wait_for("the program is gone", lambda: not [n for n in settings(t, "left")[2] if n.startswith("xdp")])
        t.router.start()
        forwards(t, 1)
        t.router.stop()
        assert settings(t, "left") == UNTOUCHED and settings(t, "right") == UNTOUCHED
    finally:
        t.close()


def test_what_a_killed_router_left_is_put_back_whatever_runs_then():
    """Of a device that nobody takes over again: interrupts, number of queues, MTU and MAC address."""
    t = Bench(ports=("left",), start=False)
    try:
        t.inside.ip(f"link add spare numrxqueues 2 numtxqueues 2 type veth peer name spare netns {t.outside.name} numrxqueues 2 numtxqueues 2")
        for side in (t.outside, t.inside):
            side.run("ethtool -L spare rx 1 tx 1")
            side.ip("link set spare up")

        def linux():
            words = t.inside.ip("link show spare").stdout
            queues = t.inside.run("ls /sys/class/net/spare/queues").stdout.count("rx-")
            return settings(t, "spare"), queues, re.search(r"mtu (\d+)", words)[1], re.search(r"link/ether (\S+)", words)[1]

        before = linux()
        config = merged(t.config, driver("spare", **{"rx-queues": 2}))
        config["interfaces"]["spare"] = {"mtu": 1600, "mac": "02:00:00:00:0b:01"}
        first = Router(t.inside, config)
        assert linux()[1:] == (2, "1600", "02:00:00:00:0b:01")
        # Another router leaves what belongs to one that lives.
        other = Router(t.outside, {})
        other.stop()
        assert linux()[1:] == (2, "1600", "02:00:00:00:0b:01")
        first.kill(signal.SIGKILL)
        t.start()
        # Any router that starts on the machine may be the one.
        wait_for("it is as it was", lambda: linux() == before)
        t.router.check_quiet()
    finally:
        t.close()


def test_rings_that_would_take_all_buffers_are_refused():
    t = Bench(driver("left", **{"rx-ring": {"slots": 8192}}))
    try:
        forwards(t, 1)
        line = "create interface af_xdp host-if more rx-queue-size 8192"
        with pytest.raises(CtlError) as e:
            t.ctl(line)
        assert "would hold 16384 of the router's 16384 buffers, of which they may have 12288" in str(e.value), e.value
        assert t.router.interface("left")["link"]
    finally:
        t.close()


def test_tagged_and_large_frames(tmp_path):
    t = Bench({"interfaces": {"left": {"l2xc": "right"}, "right": {"l2xc": "left"}}, **driver("left", "right")}, addresses=False, mtu=9000)
    try:
        assert not [line for line in t.router.log().splitlines() if "brings frames of at most" in line]
        for size in (40, 1890, 1900, 1910, 2100, 4000, 8900):
            for tags in ([], [Dot1Q(vlan=7)], [Dot1Q(vlan=7), Dot1Q(vlan=8)]):
                frame = Ether(src=t.ports["left"].host_mac, dst="02:00:00:00:00:99")
                for tag in tags:
                    frame = frame / tag
                frame = frame / Raw(bytes(n % 251 for n in range(size)))
                t.left.send(frame)
                t.right.expect(frame)
        t.router.check_quiet()
    finally:
        t.close()


def test_a_device_that_goes_and_comes_back():
    t = Bench(driver("left"))
    try:
        forwards(t, 1)
        port = t.ports["left"]
        t.inside.ip("link set left down")
        wait_for("no link", lambda: not t.router.interface("left")["link"])
        t.inside.ip("link set left up")
        wait_for("link", lambda: t.router.interface("left")["link"])
        forwards(t, 3)
        t.left.close()
        t.inside.ip("link del left")
        wait_for("the device is gone", lambda: "which is gone" in t.ctl("show hardware-interfaces left"))
        assert "af-xdp on Linux device left, which is gone" in t.ctl("show hardware-interfaces left")
        veth(t.inside, "left", t.outside, "left", mtu=1500, mac_a=port.mac, mac_b=port.host_mac)
        wait_for("it is back", lambda: t.router.interface("left")["link"])
        t.wires["left"] = type(t.right)(t.outside, "left", port.host_mac)
        forwards(t, 3)
        t.router.check_quiet()
    finally:
        t.close()


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_what_is_left_to_linux(mode):
    """An address that Linux has beside the router's answers pings and TCP, in both families; and of the router's own one port."""
    rules = ["10.0.9.9", "2001:db8:9::9", "tcp/2222@10.0.9.8"]
    t = Bench(driver("left", mode=mode, **{"left-to-linux": rules}))
    try:
        for device, n in ((t.inside, 9), (t.outside, 2)):
            device.run("sysctl -qw net.ipv6.conf.left.disable_ipv6=0 net.ipv6.conf.left.accept_dad=0")
            device.ip(f"address add 10.0.9.{n}/24 dev left")
            device.ip(f"address add 2001:db8:9::{n}/64 dev left")
        answers = lambda address: "1 received" in t.outside.run(f"ping -n -c 1 -W 1 {address}", check=False).stdout
        wait_for("Linux answers", lambda: answers("10.0.9.9") and answers("2001:db8:9::9"))
        # One whose ARP is not left to it hears nothing but that port.
        t.inside.ip("address add 10.0.9.8/24 dev left")
        assert not answers("10.0.9.8")
        mac = t.inside.run("cat /sys/class/net/left/address").stdout.strip()
        t.outside.ip(f"neigh replace 10.0.9.8 lladdr {mac} dev left")
        assert not answers("10.0.9.8")
        hears = "import socket,sys; s=socket.create_server((sys.argv[1],2222)); print('up',flush=True); c=s.accept()[0]; c.sendall(b'hello')"
        asks = "import socket; print(socket.create_connection(('{}',2222),5).recv(9))"
        for address in ("10.0.9.9", "10.0.9.8"):
            with t.inside.start(["python3", "-c", hears, address]) as server:
                assert server.stdout.readline() == "up\n"
                assert "hello" in t.outside.run(["python3", "-c", asks.format(address)]).stdout
        # The router's own goes on.
        forwards(t)
        assert "Linux keeps what 3 rules say" in t.ctl("show hardware-interfaces left")
        dumped = re.search(r"left-to-linux:((?:\n\s+- .*)+)", t.ctl("show configuration"))
        assert re.findall(r"- \"?([^\"\n]+)", dumped[1]) == rules, dumped[0]
        t.router.check_quiet()
    finally:
        t.close()


def test_auto_takes_what_suits_the_device_and_says_why():
    t = Bench({"devices": {"left": {"driver": "auto"}}})
    try:
        forwards(t, 1)
        words = t.ctl("show hardware-interfaces left")
        assert "af-packet on Linux device left" in words and "(auto: veth devices bring super-frames" in words, words
        assert "driver: auto" in t.ctl("show configuration")
    finally:
        t.close()


def test_by_command_as_by_document():
    t = Bench(ports=("left", "right", "more"), start=False)
    try:
        del t.config["interfaces"]["more"]
        t.config["neighbors"] = [n for n in t.config["neighbors"] if n["interface"] != "more"]
        ports = t.ports
        t.ports = {n: p for n, p in ports.items() if n != "more"}
        t.start()
        assert t.ctl("create interface af_xdp host-if more name xdp0 rx-queue-size 256 num-rx-queues all native").strip() == "xdp0"
        words = t.ctl("show hardware-interfaces xdp0")
        assert "af-xdp (native, copy) on Linux device more, 1 queue, rings of 256 slots" in words, words
        dumped = t.ctl("show configuration")
        assert re.search(r"xdp0:\n\s+driver: af-xdp\n\s+mode: native\n\s+host: more\n\s+rx-ring: \{slots: 256\}", dumped), dumped
        for line, why in (
            ("create interface af_xdp host-if more name xdp1", "is the device of another interface of this router"),
            ("create interface af_xdp host-if nowhere", "there is no device nowhere"),
            ("create interface af_xdp host-if lo", "is not an Ethernet device"),
            ("create interface af_xdp host-if right name x rx-queue-size 100", "100 is not a power of two: 64 or 128"),
            ("create interface af_xdp host-if more num-rx-queues 65", "1..64"),
            ("create interface af_xdp host-if more left-to-linux tcp/22 ssh", "`ssh` is no protocol"),
            ("create interface af_xdp host-if more left-to-linux " + "ospf " * 65, "64 rules of what is left to Linux are the most"),
            ("create host-interface name more left-to-linux ospf", "what is left to Linux needs AF_XDP, or auto; the driver is af-packet"),
            ("create host-interface name more rx-queue-size 100", "100 is not a power of two: 64 or 128"),
            ("delete interface af_xdp left", "left is not a Linux device through AF_XDP"),
        ):
            with pytest.raises(CtlError) as e:
                t.ctl(line)
            assert why in str(e.value), e.value
        t.ctl("delete interface af_xdp xdp0")
        # The words of one choice are not those of another.
        t.ctl("create host-interface name more driver auto offload on ring v3")
        dumped = t.ctl("show configuration")
        assert re.search(r"host-more:\n\s+driver: auto\n\s+host: more\n\s+rx-ring: \{version: tpacket-v3\}\n\s+offload: true", dumped), dumped
        t.ctl("delete host-interface name more")
        assert settings(t, "more") == UNTOUCHED
        # All that a document can say of a device.
        line = "create host-interface name more rx-queue-size 256 num-rx-queues all driver auto ring v2 left-to-linux 192.0.2.9 tcp/22@192.0.2.1"
        assert t.ctl(line).strip() == "host-more"
        dumped = t.ctl("show configuration")
        section = re.search(r"host-more:\n((?:    .*\n)+)", dumped)[1]
        for part in ("driver: auto", "slots: 256", "- 192.0.2.9", "tcp/22@192.0.2.1"):
            assert part in section, section
        t.ctl("delete host-interface name more")
        t.router.check_quiet()
    finally:
        t.close()


def test_more_workers_than_queues():
    """Those without a queue of the device send by AF_PACKET; flows of both workers leave, in order."""
    t = Bench({"quiver": {"workers": 2}, "devices": {"right": {"driver": "af-xdp"}, "left": {"rx-placement": {0: 1}}}})
    try:
        forwards(t)
        t.ctl("set interface rx-placement left queue 0 worker 0")
        forwards(t)
        t.ctl("set interface rx-placement right queue 0 worker 1")
        sent, want = through4(t.ports["right"], t.ports["left"])
        for _ in range(20):
            t.right.send(sent)
            t.left.expect(want)
        t.router.check_quiet()
    finally:
        t.close()


def test_all_queues_of_a_veth_whose_number_was_set_are_the_routers():
    """A program works only on those that a veth had when it was attached."""
    t = Bench(driver("left", **{"rx-queues": 3}), queues=3)
    try:
        t.outside.run("ethtool -L left tx 3")
        flows = range(4000, 4030)
        assert pass_through(t, flows, range(3)) == {port: [0, 1, 2] for port in flows}
    finally:
        t.close()
