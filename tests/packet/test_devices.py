"""Signals, the log, receive queues, and Linux devices that change, vanish and come back."""

import json
import os
import signal

import pytest
from frames import through4
from harness import Bench, CtlError, Netns, Router, run, wait_for
from harness.host import veth
from harness.wire import Wire


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A router with two workers and a log file."""
    log = tmp_path_factory.mktemp("service") / "router.log"
    t = Bench({"quiver": {"workers": 2, "log": {"file": str(log)}}})
    t.logfile = str(log)
    yield t
    t.close()


def logged(t):
    with open(t.logfile) as f:
        return f.read()


def forwards(t):
    sent, want = through4(t.ports["left"], t.ports["right"])
    t.left.send(sent)
    t.right.expect(want)


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR",
                                  "SIGXFSZ", "SIGXCPU", "SIGRTMIN", "SIGRTMAX"])
def test_signals_that_mean_nothing_do_not_end_it(service, name):
    service.router.process.send_signal(getattr(signal, name))
    forwards(service)
    assert service.router.process.poll() is None


def test_a_limit_of_the_size_of_files_does_not_end_it(tmp_path):
    """`ulimit -f`: what is written beyond it fails, and the kernel sends a signal that ends who does not take it."""
    t = Bench(ports=("left",), start=False)
    try:
        t.router = Router(t.inside, t.config, prefix=["prlimit", "--fsize=65536"])
        t.ctl(f"create pcap-interface name file write {tmp_path}/out.pcap")
        for line in ("state file up", "ip address file 10.9.0.1/24"):
            t.ctl(f"set interface {line}")
        t.ctl("ip neighbor file 10.9.0.2 02:00:00:00:00:02")
        t.router.ctl_raw("ping 10.9.0.2 repeat 60 size 1400 interval 0.01")
        wait_for("the file is full", lambda: t.router.errors().get("tx-error", 0) > 0)
        assert t.router.process.poll() is None and os.path.getsize(tmp_path / "out.pcap") <= 65536
    finally:
        t.close()


def test_sighup_opens_the_log_anew(service):
    os.rename(service.logfile, service.logfile + ".1")
    service.router.process.send_signal(signal.SIGHUP)
    wait_for("the log is there again", lambda: os.path.exists(service.logfile) and "SIGHUP" in logged(service))
    service.ctl("set interface description left again")
    service.ctl("set interface promiscuous on left")
    service.ctl("set interface promiscuous off left")
    wait_for("lines come", lambda: "promiscuous mode on" in logged(service))
    forwards(service)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_an_orderly_stop(how):
    t = Bench(ports=("left",), addresses=False)
    try:
        t.router.process.send_signal(signal.SIGHUP)  # no log file: nothing to do
        wait_for("it is said", lambda: "SIGHUP" in t.router.log())
        assert t.router.kill(how) == 0
        assert f"stops: {how.name}" in t.router.log() and not os.path.exists(t.router.socket)
    finally:
        t.close()


def test_a_ping_that_nobody_answers_fails(service):
    done = service.router.ctl_raw("ping 10.0.2.2 repeat 2 interval 10ms timeout 50ms")
    assert done.returncode == 1 and "2 sent, 0 received" in done.stdout and done.stderr == ""
    done = service.router.ctl_raw("ping 10.0.2.2 repeat 2 interval 10ms timeout 50ms", json_too=True)
    assert done.returncode == 1 and json.loads(done.stdout)["received"] == 0
    assert service.router.ctl_raw("ping 10.0.2.1 repeat 1").returncode == 0
    service.right.drain()


def queues(t):
    return {(q["interface"], q["queue"]): q["worker"] for q in t.router.json("show interface rx-placement")}


def test_queues_are_spread_over_the_workers(service):
    assert sorted(queues(service).values()) == [0, 1]
    text = service.ctl("show interface rx-placement")
    assert text.index("Thread 1 (quiver_wk_0)") < text.index("node af-packet-input") < text.index("Thread 2 (quiver_wk_1)")
    assert "left queue 0 (balanced)" in text and "right queue 0 (balanced)" in text
    service.ctl("set workers polling power worker 1")
    modes = {q["worker"]: q["mode"] for q in service.router.json("show interface rx-placement")}
    service.ctl("set workers polling default worker 1")
    assert modes == {0: "balanced", 1: "power"}
    assert service.ctl("show interface rx-placement right").count("queue") == 1


def test_a_queue_moves_while_packets_flow_and_none_is_lost(service):
    a, b = service.ports["left"], service.ports["right"]
    sent, _ = through4(a, b)
    before = service.router.interface("left")["rx"]["packets"]
    was = queues(service)["left", 0]
    frames, rounds = [bytes(sent)] * 50, 40
    for n in range(rounds):
        service.left.send(*frames)
        service.ctl(f"set interface rx-placement left worker {n % 2}")
        assert queues(service)["left", 0] == n % 2
    total = len(frames) * rounds
    wait_for("all came", lambda: service.router.interface("left")["rx"]["packets"] - before >= total)
    assert service.router.interface("left")["rx"]["packets"] - before == total
    workers = {row["thread"]: {n["name"]: n["vectors"] for n in row["nodes"]} for row in service.router.json("show runtime")}
    assert workers[1]["af-packet-input"] > 100 and workers[2]["af-packet-input"] > 100
    assert "rx-placement: {0: 1}" in service.ctl("show configuration")
    service.ctl("set interface rx-placement left auto")
    assert queues(service)["left", 0] == was and "rx-placement" not in service.ctl("show configuration")
    service.right.drain()


WRONG_PLACES = [
    ("left main", "the main thread takes no packets: say worker N, 0 to 1"),
    ("left worker 2", "left: there is no worker 2, workers 0 to 1"),
    ("left queue 1 worker 0", "left: there is no receive queue 1: it has only queue 0"),
    ("loop7 worker 0", "loop7: there is no receive queue 0: it has no receive queues"),
]


@pytest.mark.parametrize("words, why", WRONG_PLACES)
def test_places_that_are_not_there(service, words, why):
    if "loop7" in words:
        service.ctl("create loopback interface instance 7")
    with pytest.raises(CtlError) as e:
        service.ctl(f"set interface rx-placement {words}")
    assert why in str(e.value)
    if "loop7" in words:
        service.ctl("delete loopback interface loop7")


def test_a_bvi_in_use_is_not_deleted(service):
    service.ctl("create bridge-domain 9")
    service.ctl("create loopback interface instance 9")
    service.ctl("set interface l2 bridge loop9 9 bvi")
    with pytest.raises(CtlError, match="loop9 is the BVI of bridge domain 9.*set interface l3 loop9"):
        service.ctl("delete loopback interface loop9")
    service.ctl("set interface l3 loop9")
    service.ctl("delete loopback interface loop9")
    service.ctl("create bridge-domain 9 del")


def test_a_warning_about_a_device_is_a_line_of_its_own():
    t = Bench(ports=("left",), addresses=False, start=False)
    try:
        t.inside.ip("addr add 192.0.2.1/24 dev left")
        t.start()
        lines = [line for line in t.router.log().splitlines() if "Linux has 192.0.2.1 on left" in line]
        assert len(lines) == 1 and " WARN " in lines[0], t.router.log()
        assert "Warning: Linux has 192.0.2.1" in t.ctl("show hardware-interfaces left")
    finally:
        t.close()


def mtu(t, device):
    return int(t.inside.ip(f"-o link show {device}").stdout.split(" mtu ")[1].split()[0])


def test_what_tags_need_of_a_device_is_put_back():
    """Also after a kill: the next start takes the device's own MTU for the interface's, not the raised one."""
    t = Bench(ports=("left",), addresses=False, mtu=1400, start=False)
    t.config["interfaces"] = {}
    t.config["quiver"]["log"] = {"level": "info"}
    try:
        t.router = Router(t.inside, t.config)
        t.ctl("create host-interface name left")
        t.ctl("create sub-interfaces host-left 10 dot1ad 10 exact-match")
        assert mtu(t, "left") == 1404
        t.ctl("create sub-interfaces host-left 11 dot1ad 11 inner-dot1q 5 exact-match")
        assert mtu(t, "left") == 1408
        t.ctl("delete sub-interface host-left.11")
        assert mtu(t, "left") == 1404
        t.ctl("set interface mac address host-left 02:00:00:00:aa:01")
        # Any router that starts on the machine may put it back, before this one does.
        t.router.kill()
        t.router.start()
        t.ctl("create host-interface name left")
        assert t.router.interface("host-left")["mtu"] == 1400
        assert t.router.interface("host-left")["mac"] == "02:00:00:00:01:01"
        t.ctl("create sub-interfaces host-left 10 dot1ad 10 exact-match")
        t.ctl("set interface mac address host-left 02:00:00:00:aa:02")
        assert mtu(t, "left") == 1404
        t.ctl("delete host-interface name left")
        assert mtu(t, "left") == 1400
        t.ctl("create host-interface name left")
        t.ctl("set interface mtu packet 1500 host-left")
        t.ctl("create sub-interfaces host-left 10 dot1ad 10 exact-match")
        assert mtu(t, "left") == 1504
        assert t.router.kill(signal.SIGTERM) == 0
        shown = t.inside.ip("link show left").stdout
        assert " mtu 1400 " in shown and "02:00:00:00:01:01" in shown and "altname" not in shown
    finally:
        t.close()


@pytest.fixture(scope="module")
def fragile():
    """A router whose Linux devices change and vanish."""
    t = Bench({"interfaces": {"left": {"sub-interfaces": {100: {"addresses": ["10.9.0.1/24"]}}}}})
    yield t
    t.close()


def test_a_change_of_a_device_from_outside_is_told(fragile):
    t = fragile
    t.inside.ip("link set left mtu 1300")
    words = "left: the MTU of Linux device left was changed to 1300; 1500 is the interface's, and larger packets are lost"
    wait_for("it is logged", lambda: words in t.router.log())
    assert any("WARN" in line for line in t.router.log().splitlines() if words in line)
    assert "MTU 1300 is less than the interface's 1500" in t.ctl("show hardware-interfaces left")
    t.inside.ip("link set left mtu 1504")
    wait_for("it is logged", lambda: "changed to 1504" in t.router.log())
    assert "Warning" not in t.ctl("show hardware-interfaces left")
    t.inside.ip("link set left address 02:00:00:00:bb:bb")
    wait_for("it is logged", lambda: "MAC address of Linux device left was changed to 02:00:00:00:bb:bb" in t.router.log())
    assert "02:00:00:00:bb:bb is not the interface's 02:00:00:00:01:01" in t.ctl("show hardware-interfaces left")
    t.inside.ip("link set left address 02:00:00:00:01:01")
    wait_for("as it was", lambda: "Warning" not in t.ctl("show hardware-interfaces left"))


def shown(t, name):
    return next(line.split()[2] for line in t.ctl("show interface").splitlines() if line.split()[:1] == [name])


def test_a_device_that_comes_back_goes_on_under_its_name(fragile):
    t = fragile
    t.ctl("set interface promiscuous on left")
    index = t.inside.ip("-o link show left").stdout.split(":")[0]
    forwards(t)
    t.outside.ip("link set left down")
    wait_for("no link", lambda: shown(t, "left") == shown(t, "left.100") == "up/no-link")
    t.outside.ip("link set left up")
    wait_for("link", lambda: shown(t, "left") == "up")
    before = t.router.interface("left")["rx"]["packets"]
    t.wires.pop("left").close()
    t.inside.ip("link del left")
    wait_for("no device", lambda: shown(t, "left") == shown(t, "left.100") == "up/no-dev")
    assert t.router.interface("left")["device"] == "gone" and shown(t, "right") == "up"
    assert "which is gone" in t.ctl("show hardware-interfaces left")
    t.ctl("set interface mtu packet 1600 left")  # for when it is back

    # Another device with its number is anybody's.
    other = Netns("o")
    t.inside.ip(f"link add other index {index} type veth peer name other-peer netns {other.name}")
    second = Router(t.inside, {"interfaces": {"other": {}}, "quiver": {"dad": "off"}})
    assert second.interface("other")["admin"] == "up"
    second.stop()
    t.inside.ip("link del other")
    other.delete()

    p = t.ports["left"]
    veth(t.inside, "new", t.outside, "left", mtu=1500, mac_a="02:00:00:00:77:77", mac_b=p.host_mac)
    for line in ("set new down", "set new name left"):
        t.inside.ip(f"link {line}")
    t.wires["left"] = Wire(t.outside, "left", p.host_mac)
    wait_for("it is back", lambda: shown(t, "left") == shown(t, "left.100") == "up")
    assert mtu(t, "left") == 1600 and t.router.interface("left")["mac"] == "02:00:00:00:77:77"
    assert t.router.interface("left")["promiscuous"] is True
    assert t.router.interface("left")["rx"]["packets"] >= before
    p.mac = "02:00:00:00:77:77"
    t.ctl(f"ip neighbor left {p.host} {p.host_mac} static")
    forwards(t)
    sent, want = through4(t.ports["right"], p)
    t.right.send(sent)
    t.left.expect(want)
    assert t.router.log().count("Linux device left is back") == 1


def test_the_mac_address_that_a_new_device_gets_a_moment_later_is_followed(bench):
    """Who makes a device anew gives it its address with the next command."""
    t = bench()
    p = t.ports["right"]
    t.wires.pop("right").close()
    t.inside.ip("link del right")
    wait_for("no device", lambda: shown(t, "right") == "up/no-dev")
    veth(t.inside, "right", t.outside, "right", mtu=1500, mac_a="02:00:00:00:77:01", mac_b=p.host_mac)
    t.wires["right"] = Wire(t.outside, "right", p.host_mac)
    wait_for("it is back", lambda: shown(t, "right") == "up")
    assert t.router.interface("right")["mac"] == "02:00:00:00:77:01"
    t.inside.ip("link set right address 02:00:00:00:77:02")
    wait_for("it follows", lambda: t.router.interface("right")["mac"] == "02:00:00:00:77:02")
    p.mac = "02:00:00:00:77:02"
    assert "Warning" not in t.ctl("show hardware-interfaces right")
    t.ctl(f"ip neighbor right {p.host} {p.host_mac} static")
    forwards(t)
    # One that the operator has set stays.
    t.ctl("set interface mac address right 02:00:00:00:77:03")
    t.inside.ip("link set right address 02:00:00:00:77:04")
    wait_for("it is logged", lambda: "changed to 02:00:00:00:77:04" in t.router.log())
    assert t.router.interface("right")["mac"] == "02:00:00:00:77:03"


def test_a_device_with_another_name_is_another(fragile):
    t = fragile
    t.inside.ip("link set right down")
    t.inside.ip("link set right name elsewhere")
    wait_for("no device", lambda: shown(t, "right") == "up/no-dev")
    t.inside.ip("link set elsewhere name right")
    wait_for("it is back", lambda: shown(t, "right") == "up")


def test_a_namespace_that_comes_back():
    t = Bench(ports=("left",), addresses=False, start=False)
    lan, name = Netns("n"), None
    try:
        lan.ip("link add eth0 type veth peer name peer0")
        lan.ip("link set peer0 up")
        t.config["interfaces"] = {"wan": {}}
        t.config["devices"] = {"wan": {"host": "eth0", "namespace": lan.name}}
        t.router = Router(t.inside, t.config)
        wait_for("link", lambda: shown(t, "wan") == "up")
        name = lan.name
        lan.delete()
        wait_for("it went", lambda: shown(t, "wan") == "up/no-dev")
        run(f"ip netns add {name}")
        run(f"ip -n {name} link add eth0 type veth peer name peer0")
        run(f"ip -n {name} link set peer0 up")
        wait_for("it is back", lambda: shown(t, "wan") == "up")
    finally:
        t.close()
        run(f"ip netns del {name}", check=False)


def test_a_deleted_tap_is_made_anew():
    """Its host side is deleted, or its namespace; one that is renamed, or moved to another namespace, goes on."""
    t = Bench(ports=("left",), addresses=False, start=False)
    lan = Netns("n")
    name = lan.name
    t.config["taps"] = {"tap0": {"host": {"name": "lan0", "ip4-address": "10.9.0.2/24"}},
                        "tap1": {"host": {"name": "lan1", "namespace": name, "ip4-address": "10.8.0.2/24"}}}
    t.config["devices"] = {f"tap{n}": {"routed": True} for n in (0, 1)}
    t.config["interfaces"] |= {"tap0": {"addresses": ["10.9.0.1/24"]}, "tap1": {"addresses": ["10.8.0.1/24"]}}

    def answers(address):
        return t.router.ctl_raw(f"ping {address} repeat 1 timeout 1").returncode == 0

    try:
        t.start()
        assert answers("10.9.0.2") and answers("10.8.0.2")
        t.inside.ip("link del lan0")
        wait_for("it is told", lambda: "tap0: Linux device lan0 was deleted" in t.router.log())
        wait_for("it is there again", lambda: answers("10.9.0.2"))
        assert shown(t, "tap0") == "up" and "tap0: Linux device lan0 was made anew" in t.router.log()

        t.inside.ip("link set lan0 name other")
        assert shown(t, "tap0") == "up" and answers("10.9.0.2")
        wait_for("devices were looked for", lambda: answers("10.9.0.2"))

        lan.delete()
        wait_for("no device", lambda: shown(t, "tap1") == "up/no-dev")
        assert "made anew when it can be" in t.ctl("show hardware-interfaces tap1")
        run(f"ip netns add {name}")
        wait_for("it is there again", lambda: shown(t, "tap1") == "up" and answers("10.8.0.2"))
        assert t.router.log().count("tap0: Linux device lan0 was deleted") == 1

        t.inside.ip(f"link set other netns {name}")
        run(f"ip -n {name} address add 10.9.0.2/24 dev other")
        run(f"ip -n {name} link set other up")
        assert answers("10.9.0.2") and shown(t, "tap0") == "up"
        assert t.router.log().count("was deleted") == 1
    finally:
        t.close()
        lan.delete()


def test_a_closed_terminal_does_not_end_it():
    t = Bench(ports=("left",), addresses=False, start=False)
    main, terminal = os.openpty()
    try:
        t.router = Router(t.inside, t.config, wait=False, prefix=["sh", "-c", f'exec "$@" 2>/proc/{os.getpid()}/fd/{terminal}', "sh"])
        t.router.wait_ready()
        assert b"quiver" in os.read(main, 65536)
        os.close(terminal), os.close(main)
        t.router.process.send_signal(signal.SIGHUP)
        for n in range(20):
            t.ctl(f"set interface promiscuous {'on' if n % 2 else 'off'} left")
        assert t.router.process.poll() is None
    finally:
        t.close()
