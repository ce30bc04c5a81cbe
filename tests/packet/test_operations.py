"""What an operator does: commands and their JSON, mistakes, permissions, checks, bad starts, crashes, and doing nothing."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from frames import *  # noqa: F403
from frames import ARP, ICMP, IP, Ether, into, out_of, through4, through6
from harness import BINARY, Bench, CtlError, Netns, Router, run, wait_for
from harness.router import REPO, document

SHOWS = [
    "show version", "show version verbose", "show interface", "show interface left", "show interface addr",
    "show hardware-interfaces", "show runtime", "show runtime max", "show errors", "show errors verbose", "show trace",
    "show buffers", "show ip fib", "show ip fib 10.0.2.2", "show ip fib 10.0.2.0/24", "show ip fib summary",
    "show ip6 fib", "show ip6 fib 2001:db8:2::2", "show ip6 fib summary", "show ip neighbors", "show ip6 neighbors",
    "show adjacency", "show mode", "show threads", "show features", "show features left", "show packet-generator",
    "show graph", "show graph dot", "show node", "show node ip4-input", "pcap trace status",
]


@pytest.fixture(scope="module")
def busy():
    """A router that has something to show everywhere."""
    t = Bench()
    a = t.ports["left"]
    t.ctl("trace add af-packet-input 5")
    t.ctl(f'packet-generator new s1 interface left data "ipv4 src {a.host} dst 10.0.2.2 / udp dport 9" node ip4-input')
    with t.counted("ip4-bad-checksum"):
        t.left.send(into(a) / IP(src=a.host, dst="10.0.2.2", chksum=1))
    yield t
    t.close()


@pytest.mark.parametrize("command", SHOWS)
def test_every_show_has_text_and_json(busy, command):
    assert busy.ctl(command).strip()
    assert busy.router.json(command) not in (None, [], {})


def test_show_runtime_has_what_operators_know(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    pair.ctl("clear runtime")
    sent, want = through4(a, b)
    pair.left.send(*[sent] * 50)
    pair.right.take(50)
    text = pair.ctl("show runtime")
    for word in ("Time", "vector rates in", "out", "drop", "Name", "State", "Calls", "Vectors", "Suspends", "Clocks",
                 "Vectors/Call", "ip4-lookup"):
        assert word in text, text
    thread = pair.router.json("show runtime")[0]
    nodes = {n["name"]: n for n in thread["nodes"]}
    assert nodes["ip4-lookup"]["vectors"] == 50 and nodes["ip4-lookup"]["clocks"] > 0
    assert nodes["ip4-lookup"]["calls"] * nodes["ip4-lookup"]["vectors-per-call"] == pytest.approx(50)


WRONG = [
    ("show interfaec", 5, "interface"), ("shwo version", 0, "show"), ("show", 4, "interface"),
    ("set interface state left sideways", 25, "down"), ("set interface state nowhere up", 20, "nowhere"),
    ("ip route add 10.0.0.0/33 via 10.0.2.2", 13, "10.0.0.0/33"), ("ip route add 10.9.0.0/16 via 10.0.2.2 now", 38, "now"),
    ("set interface mtu 12 left", 18, "128"), ("show version please", 13, "please"),
]


@pytest.mark.parametrize("line, column, word", WRONG)
def test_a_wrong_word_is_answered_with_its_place(pair, line, column, word):
    before = pair.ctl("show ip fib") + pair.ctl("show interface addr")
    with pytest.raises(CtlError) as e:
        pair.ctl(line)
    text = str(e.value)
    caret = next(row for row in text.splitlines() if row.lstrip().startswith("^"))
    assert caret.index("^") in (column, column + 1), text
    assert word in text
    assert before == pair.ctl("show ip fib") + pair.ctl("show interface addr")
    done = pair.router.ctl_raw(line, json_too=True)
    assert done.returncode != 0


def test_help(pair):
    words = pair.ctl("show ?")
    for word in ("version", "interface", "runtime", "errors", "trace", "buffers", "ip", "ip6", "adjacency", "mode",
                 "threads", "features", "packet-generator", "hardware-interfaces"):
        assert word in words
    assert "<interface>" in pair.ctl("show interface ?")


def test_ping_command(bench):
    t = bench()
    a = t.ports["left"]
    process = subprocess.Popen([BINARY, "ctl", "-s", t.router.socket, f"ping {a.host}"], stdout=subprocess.PIPE, text=True)
    answered = 0
    while process.poll() is None:
        frame = t.left.recv(timeout=0.1)
        if frame is None:
            continue
        p = Ether(frame)
        if ICMP in p and p[ICMP].type == 8:
            t.left.send(into(a) / IP(src=a.host, dst=p[IP].src, ttl=64, id=answered)
                        / ICMP(type=0, id=p[ICMP].id, seq=p[ICMP].seq) / bytes(p[ICMP].payload))
            answered += 1
    text = process.stdout.read()
    assert process.returncode == 0 and answered >= 1 and a.host in text and " 0%" in text, text


def test_the_socket_decides_who_may_do_what(bench, public_binary):
    """Mode 0660; SO_PEERCRED: members of the group look, of the admin group change, others are turned away."""
    t = bench({"quiver": {"sockets": {"group": "users", "admin-group": "adm"}}})
    assert oct(os.stat(t.router.socket).st_mode & 0o777) == "0o660"

    def as_nobody(line, *groups):
        gids = [run(f"getent group {g}").stdout.split(":")[2] for g in groups]
        member = ["--groups", ",".join(gids)] if gids else ["--clear-groups"]
        return run(["setpriv", "--reuid=65534", "--regid=65534", *member, public_binary, "ctl", "-s", t.router.socket, line],
                   check=False)

    assert as_nobody("show version").returncode != 0
    assert as_nobody("show version", "users").returncode == 0
    denied = as_nobody("set interface state left down", "users")
    assert denied.returncode != 0 and "this needs the role `configure`, and you have `read`" in denied.stderr
    assert t.router.interface("left")["admin"] == "up"
    assert as_nobody("set interface state left down", "users", "adm").returncode == 0
    assert t.router.interface("left")["admin"] == "down"


def test_roles_say_who_may_do_what(bench, public_binary, tmp_path):
    """By user and group: each role has what those before it have, and who has none is turned away."""
    t = bench({"quiver": {"sockets": {"roles": {
        "read": {"users": ["games"], "groups": ["users"]}, "operate": {"users": ["daemon"]},
        "configure": {"groups": ["mail", "news"]}, "admin": {"users": ["uucp"]}}}}})
    assert oct(os.stat(t.router.socket).st_mode & 0o777) == "0o666"
    file = f"/tmp/quiver-test-roles-{os.getpid()}.yaml"

    def may(user, *groups):
        uid = run(f"id -u {user}").stdout.strip()
        gids = [run(f"getent group {g}").stdout.split(":")[2] for g in groups]
        member = ["--groups", ",".join(gids)] if gids else ["--clear-groups"]

        def gives(line):
            done = run(["setpriv", f"--reuid={uid}", "--regid=65534", *member, public_binary, "ctl", "-s", t.router.socket, line],
                       check=False)
            assert done.returncode == 0 or "you have" in done.stderr or "`admin`" in done.stderr, done.stderr
            return done.returncode == 0

        return [gives(line) for line in ("show version", "clear interfaces", "trace add af-packet-input 1", "set interface mtu 1400 left",
                                         f"configuration apply {file} restart")]

    try:
        with open(file, "w") as f:
            f.write(t.router.ctl("show configuration").replace("quiver:\n", "quiver:\n  state: /tmp\n", 1))
        assert may("games") == [True, False, False, False, False]
        assert may("nobody", "users") == [True, False, False, False, False]
        assert may("daemon") == [True, True, True, False, False]
        assert may("daemon", "users", "news") == [True, True, True, True, False]
        # It may; that there is no folder to keep it in is another matter.
        with pytest.raises(AssertionError, match="keeps no configurations"):
            may("uucp")
        turned_away = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", public_binary, "ctl", "-s", t.router.socket,
                           "show version"], check=False)
        assert turned_away.returncode != 0 and "and have no role" in turned_away.stderr
    finally:
        os.unlink(file)


def test_files_are_opened_with_the_rights_of_who_names_them(bench, public_binary, tmp_path_factory):
    """Members of the admin group read and write what they could without the router, and enter no namespace."""
    t = bench({"quiver": {"sockets": {"group": "users", "admin-group": "adm"}}})
    folder = f"/tmp/quiver-test-files-{os.getpid()}"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o1777)
    try:
        gids = [run(f"getent group {g}").stdout.split(":")[2] for g in ("users", "adm")]

        def as_nobody(line):
            return run(["setpriv", "--reuid=65534", "--regid=65534", "--groups", ",".join(gids), public_binary, "ctl",
                        "-s", t.router.socket, line], check=False)

        secret, mine = f"{folder}/secret", f"{folder}/mine.pcap"
        with open(secret, "w") as f:
            f.write("TheSecret of root\n")
        os.chmod(secret, 0o600)
        for line in (f"exec {secret}", f"pcap trace rx file {secret}", f"pcap trace rx overwrite file {secret}",
                     f"create pcap-interface name p read {secret}", f"create pcap-interface name p overwrite write {secret}"):
            refused = as_nobody(line)
            assert refused.returncode != 0 and "TheSecret" not in refused.stderr + refused.stdout, line
            with open(secret) as f:
                assert f.read() == "TheSecret of root\n", line
        for line in (f"create tap id 7 host-ns {t.outside.name}", f"create host-interface name lo netns {t.outside.name}",
                     "create tap id 7 host-ip4-addr 10.7.0.2/24 host-ip4-gw 10.7.0.1", "create tap id 7 host-ip6-addr 2001:db8:7::2/64",
                     "create tap id 7 host-ip4-addr 10.7.0.2/24", "create tap id 7 host-ip6-gw 2001:db8:7::1"):
            assert "only root" in as_nobody(line).stderr, line
        assert "tap7" not in run(["ip", "-n", t.outside.name, "link"]).stdout + t.ctl("show interface")
        # What such a one may make belongs to that one.
        assert as_nobody(f"pcap trace rx file {mine}").returncode == 0
        assert as_nobody("pcap trace off").returncode == 0
        assert os.stat(mine).st_uid == 65534
        assert "overwrite" in as_nobody(f"pcap trace rx file {mine}").stderr
        # Root is asked nothing, and the router has kept its own rights.
        with open(secret, "w") as f:
            f.write("set interface state left down\n")
        t.ctl(f"exec {secret}")
        assert t.router.interface("left")["admin"] == "down"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_document_of_others_than_root_does_what_their_commands_may(bench, public_binary):
    """Files, namespaces and Linux's addresses that a document brings are root's; those that stay are nobody's business."""
    t = bench({"quiver": {"sockets": {"group": "users", "admin-group": "adm"}}})
    folder = f"/tmp/quiver-test-documents-{os.getpid()}"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    try:
        gids = [run(f"getent group {g}").stdout.split(":")[2] for g in ("users", "adm")]

        def as_nobody(changes):
            document = t.router.json("show configuration")
            for section, entries in changes.items():
                document.setdefault(section, {}).update(entries)
            with open(f"{folder}/d.yaml", "w") as f:
                json.dump(document, f)
            os.chmod(f"{folder}/d.yaml", 0o644)
            return run(["setpriv", "--reuid=65534", "--regid=65534", "--groups", ",".join(gids), public_binary, "ctl",
                        "-s", t.router.socket, f"configuration apply {folder}/d.yaml"], check=False)

        ns, secret = t.outside.name, f"{folder}/secret"
        with open(secret, "w") as f:
            f.write("TheSecret of root\n")
        os.chmod(secret, 0o600)
        before = t.ctl("show configuration")
        tap = lambda **host: {"interfaces": {"tap7": {}}, "taps": {"tap7": {"host": {"name": "quiver7", **host}}}}
        capture = lambda **files: {"interfaces": {"cap": {}}, "devices": {"cap": {"driver": "pcap", "pcap": files}}}
        for changes in (
            capture(read=secret), capture(write=secret), tap(namespace=ns), tap(**{"ip4-address": "10.7.0.2/24"}),
            {"interfaces": {"lo7": {}}, "devices": {"lo7": {"host": "lo", "namespace": ns}}},
            {"linux-cp": {"interfaces": {"left": {"host-if": "e0", "netns": ns}}}}, {"linux-cp": {"default-netns": ns}},
        ):
            refused = as_nobody(changes)
            assert refused.returncode != 0 and "nothing was changed" in refused.stderr and "root" in refused.stderr, (changes, refused)
            assert "TheSecret" not in refused.stderr + refused.stdout
            assert t.ctl("show configuration") == before, changes
        with open(secret) as f:
            assert f.read() == "TheSecret of root\n"
        # What root has made stays, and what is no right of root's may change beside it.
        t.ctl(f"create tap id 7 host-if-name quiver7 host-ns {ns} host-ip4-addr 10.7.0.2/24")
        done = as_nobody({"loopbacks": {"loop7": {}}})
        assert done.returncode == 0, done.stderr
        assert "loop7" in t.ctl("show interface") and "quiver7" in run(["ip", "-n", ns, "link"]).stdout
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_no_file_that_a_command_names_holds_the_router_up(pair, tmp_path):
    """A pipe without a reader, a device, a folder: refused, and commands go on."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for odd in (pipe, "/dev/null", "/dev/tty", str(tmp_path)):
        for line in (f"pcap trace rx file {odd}", f"pcap trace rx overwrite file {odd}", f"exec {odd}",
                     f"create pcap-interface name odd read {odd}", f"create pcap-interface name odd overwrite write {odd}"):
            with pytest.raises(CtlError):
                pair.ctl(line)
    assert "no capture runs" in pair.ctl("pcap trace status")


def test_check_tells_all_errors_with_their_places(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("interfaces:\n  left:\n    mtu: 99\n    colour: red\n    addresses: [10.0.0.1/33]\n"
                    "acls: {}\nroutes:\n  - 10.0.0.0/8 via nowhere\nquiver: {workers: 0}\n")
    done = run([BINARY, "check", str(file)], check=False)
    assert done.returncode == 1
    for place in ("bad.yaml:3:10", "bad.yaml:4:5", "bad.yaml:5:17", "bad.yaml:6:1", "bad.yaml:8:", "bad.yaml:9:"):
        assert place in done.stderr, done.stderr
    assert "note[not-supported-yet]" in done.stderr and "5 errors, 1 note" in done.stderr
    errors = json.loads(run([BINARY, "check", "--json", str(file)], check=False).stdout)
    assert [e["line"] for e in errors] == [3, 4, 5, 6, 8, 9]
    good = tmp_path / "good.yaml"
    good.write_text("interfaces: {left: {}}\n")
    assert run([BINARY, "check", str(good)]).returncode == 0
    assert run([BINARY, "check", str(tmp_path / "none.yaml")], check=False).returncode == 1


def test_check_tells_what_the_devices_say(tmp_path):
    """Linux devices that are not there, or take less than the document says: notes, where they can be looked at."""
    inside = Netns("check")
    try:
        inside.ip("link add short type veth peer name other")
        inside.ip("link set short mtu 1400")
        file = tmp_path / "devices.yaml"
        file.write_text("interfaces:\n  short: {}\n  other: {mtu: 1500}\n  wide:\n    mtu: 9000\n  none: {}\n  lo: {}\n"
                        f"devices:\n  wide: {{host: other, namespace: {inside.name}}}\n  other: {{host: nowhere, namespace: not-here}}\n")
        done = inside.run([BINARY, "check", "--json", str(file)])
        notes = [(n["severity"], n["rule"], n["line"], n["message"]) for n in json.loads(done.stdout)]
        assert [n[:3] for n in notes] == [
            ("note", "device-mtu", 2), ("note", "device-mtu", 5), ("note", "device", 6), ("note", "device", 7), ("note", "device", 10)]
        assert "short takes packets of 1400 bytes, not of 1500" in notes[0][3] and "there is no device none" in notes[2][3]
        assert "not-here" in notes[4][3]
        # Devices are only looked at.
        assert json.loads(inside.run(["ip", "-j", "link", "show", "short"]).stdout)[0]["mtu"] == 1400
        # Who may not enter a namespace is told nothing of its devices, and of the others as before.
        done = inside.run(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", BINARY, "check", "--json", str(file)])
        assert [n["line"] for n in json.loads(done.stdout)] == [2, 6, 7, 10]
    finally:
        inside.delete()


@pytest.mark.parametrize("example", sorted(os.path.basename(f) for f in glob.glob(f"{REPO}/examples/*.yaml")))
def test_examples_are_right(example):
    run([BINARY, "check", f"{REPO}/examples/{example}"])


def start_that_fails(config, prefix=(), devices=("left",)):
    """Starts a router that cannot work; returns its status and what it said. It must leave nothing behind."""
    ns = Netns("f")
    try:
        for d in devices:
            ns.ip(f"link add {d} type veth peer name {d}-peer")
        before = (ns.ip("-br link").stdout, run("ip netns list").stdout)
        r = Router(ns, config, wait=False, prefix=prefix)
        try:
            status = r.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end:\n{r.log()}")
        assert not os.path.exists(r.socket), "the socket is left behind"
        strip = [" ".join(line.split()[:1]) for line in before[0].splitlines()]
        after = [" ".join(line.split()[:1]) for line in ns.ip("-br link").stdout.splitlines()]
        assert strip == after, "a device is left behind"
        assert run("ip netns list").stdout == before[1], "a namespace is left behind"
        return status, r.log()
    finally:
        r.stop()
        ns.delete()


def more_than_fit_in_huge_pages():
    """A number of buffers (over 2 KiB each) that needs more 2 MiB pages than the machine has or may make."""
    def pages(name):
        with open(f"/sys/kernel/mm/hugepages/hugepages-2048kB/{name}") as f:
            return int(f.read())

    return (pages("nr_hugepages") + pages("nr_overcommit_hugepages") + 2) * 1024


BAD_STARTS = {
    "a wrong document": ({"interfaces": {"left": {"mtu": 1}}}, (), "out of range"),
    "a missing device": ({"interfaces": {"left": {}, "missing0": {}}}, (), "missing0"),
    "a missing namespace": ({"interfaces": {"left": {}, "x": {}}, "devices": {"x": {"host": "left", "namespace": "nowhere-at-all"}}},
                            (), "nowhere-at-all"),
    "no permission": ({"interfaces": {"left": {}}}, ("setpriv", "--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"),
                      "CAP_NET_RAW"),
    "no memory": ({"interfaces": {"left": {}}, "quiver": {"buffers": {"count": 16777216}}}, ("prlimit", "--as=3000000000"), "buffers"),
    "no huge pages": ({"interfaces": {"left": {}}, "quiver": {"buffers": {"count": more_than_fit_in_huge_pages(), "huge-pages": "require"}}},
                      (), "huge"),
    "too many queues": ({"interfaces": {"left": {}}, "devices": {"left": {"rx-queues": 65}}}, (), "64"),
    "a TAP, and then a missing device": (
        {"interfaces": {"zz9": {}}, "taps": {"tap0": {"host": {"name": "leftover", "namespace": f"qt{os.getpid()}-made",
                                                               "namespace-create": True}}}}, (), "zz9"),
    "an unknown group": ({"interfaces": {"left": {}}, "quiver": {"sockets": {"group": "no-such-group"}}}, (), "no-such-group"),
    "a CPU that is not there": ({"interfaces": {"left": {}}, "quiver": {"workers": {"cpus": [4000]}}}, (), "4000"),
}


@pytest.mark.parametrize("what", BAD_STARTS)
def test_bad_starts_end_with_a_sentence(what):
    config, prefix, word = BAD_STARTS[what]
    status, said = start_that_fails(config, prefix)
    assert status == 1, f"status {status}: {said}"
    assert word in said and "panic" not in said, said
    assert len(said.splitlines()) < 25, said


def test_a_second_router_on_the_same_socket_is_refused(bench):
    t = bench()
    with open(t.router.log_path) as f:
        f.seek(0, 2)
        done = t.inside.run([BINARY, "run", "-c", t.router.file], check=False)
    assert done.returncode == 1 and "another router is listening" in done.stderr
    assert t.ctl("show version")


def test_a_second_router_on_the_same_devices_is_refused(bench, tmp_path):
    """With a socket of its own, so that it is the devices on which they meet. All are named at once."""
    t = bench()
    config = dict(t.config, quiver={"sockets": {"ctl": str(tmp_path / "ctl")}})
    file = tmp_path / "second.yaml"
    file.write_text(document(config))
    done = t.inside.run([BINARY, "run", "-c", str(file)], check=False)
    assert done.returncode == 1
    for device in ("left", "right"):
        assert f"{device} is in use by another router (process {t.router.process.pid})" in done.stderr, done.stderr
    sent, want = through4(t.ports["left"], t.ports["right"])
    t.left.send(sent)
    t.right.expect(want)


def test_a_start_waits_for_the_end_of_the_one_before(bench):
    """A new router may start while the old one still ends: stopped here, so that it takes its time."""
    t = bench()
    old = t.router.process
    Router.running.remove(t.router)
    old.send_signal(signal.SIGSTOP)
    t.router.start(wait=False)

    def waiting():
        """Connections that the old one has not answered."""
        return sum(int(line.split()[2]) for line in t.inside.run("ss -Hxl").stdout.splitlines() if t.router.socket in line)

    wait_for("the new one has found the socket taken", waiting)
    old.send_signal(signal.SIGTERM)
    old.send_signal(signal.SIGCONT)
    assert old.wait(timeout=10) == 0
    t.router.wait_ready()
    sent, want = through4(t.ports["left"], t.ports["right"])
    wait_for("it has link", lambda: t.router.interface("right")["link"])
    t.left.send(sent)
    t.right.expect(want)


def test_what_a_full_ring_loses_is_shown(bench):
    t = bench({"devices": {"left": {"rx-ring": {"slots": 64}}}})
    sent, _ = through4(t.ports["left"], t.ports["right"])
    t.router.process.send_signal(signal.SIGSTOP)
    t.left.send(*[sent] * 100)
    t.router.process.send_signal(signal.SIGCONT)
    t.right.take(64)
    lost = t.router.interface("left")["device-drops"]
    assert lost == {"packets": 36, "reasons": lost["reasons"]}, lost
    assert {"reason": "rx-ring-full", "packets": 36} in lost["reasons"], lost
    assert re.search(r"device drops +36\n +rx-ring-full +36\n", t.ctl("show interface left")), t.ctl("show interface left")
    assert "Device drops: rx-ring-full 36" in t.ctl("show hardware-interfaces left")
    t.ctl("clear interfaces")
    assert t.router.interface("left")["device-drops"]["packets"] == 0


def test_kill_and_restart_forward_within_a_second(bench):
    """After `kill -9` the next start takes the devices and the socket over; ARP and ND begin anew."""
    t = bench(neighbors=False)
    a, b = t.ports["left"], t.ports["right"]

    def answer(wire, port):
        """Plays the host: answers ARP."""
        frame = wire.recv(timeout=0.005, chatter=True)
        if frame is not None:
            p = Ether(frame)
            if ARP in p and p[ARP].op == 1 and p[ARP].pdst == port.host:
                wire.send(Ether(dst=port.mac, src=port.host_mac) / ARP(
                    op=2, hwsrc=port.host_mac, psrc=port.host, hwdst=port.mac, pdst=port.ip))
            elif IP in p and p.src == port.mac:
                return frame
        return None

    def forwards(within):
        sent, want = through4(a, b)
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            t.left.send(sent)
            for _ in range(4):
                if answer(t.right, b) == bytes(want):
                    return True
        return False

    assert forwards(3)
    for _ in range(3):
        t.router.kill(signal.SIGKILL)
        assert os.path.exists(t.router.socket), "a killed router leaves its socket, and the next one takes it"
        began = time.monotonic()
        t.router.start(wait=False)
        assert forwards(5)
        took = time.monotonic() - began
        assert took < 1.0, f"{took:.2f} s from the start to the first packet"
        t.router.wait_ready()
        for wire in (t.left, t.right):
            wire.drain()


def test_the_end_is_clean(bench):
    t = bench()
    assert t.router.kill(signal.SIGTERM) == 0
    assert not os.path.exists(t.router.socket)
    assert "SIGTERM" in t.router.log()
    t.router.start()
    assert t.router.kill(signal.SIGINT) == 0


def test_an_idle_router_sleeps_and_wakes_at_once(bench):
    """Under 1 % of a core over three seconds, and the first packet after that is through in well under 10 ms."""
    t = bench({"quiver": {"workers": 2}})
    a, b = t.ports["left"], t.ports["right"]
    t.outside.run("true")
    # The announcements of the addresses are over.
    t.settle("left")
    began, used = time.monotonic(), t.router.cpu_seconds()
    while time.monotonic() - began < 3:
        time.sleep(0.1)
    share = (t.router.cpu_seconds() - used) / (time.monotonic() - began)
    assert share < 0.01, f"{share:.1%} of a core"
    sent, want = through4(a, b)
    best = 1.0
    for _ in range(20):
        began = time.monotonic()
        t.left.send(sent)
        t.right.expect(want)
        best = min(best, time.monotonic() - began)
    assert best < 0.005, f"{best * 1000:.1f} ms"


@pytest.mark.parametrize("extra", [
    {"quiver": {"workers": 2}}, {"quiver": {"workers": 4}, "devices": {"left": {"rx-queues": 2}, "right": {"rx-queues": 2}}},
    {"devices": {"left": {"rx-ring": {"version": "tpacket-v2"}}, "right": {"rx-ring": {"version": "tpacket-v3"}}}},
    {"devices": {"left": {"offload": False}, "right": {"offload": False}}},
    {"quiver": {"buffers": {"count": 1024, "huge-pages": "never"}}},
    {"quiver": {"poll": {"spin-us": 0}}},
], ids=lambda e: str(e)[:60])
def test_every_shape_of_router_forwards(bench, extra):
    t = bench(extra)
    a, b = t.ports["left"], t.ports["right"]
    frames = [through4(a, b, id=i, sport=1000 + i) for i in range(100)] + [through6(a, b, fl=i, sport=1000 + i) for i in range(100)]
    t.left.send(*[s for s, _ in frames])
    got = sorted(bytes(f) for f in t.right.take(200))
    assert got == sorted(bytes(w) for _, w in frames)


def test_log_lines_say_what_happened(bench):
    t = bench()
    log = t.router.log()
    for word in ("buffers", "pages", "left", "right", "worker", t.router.socket):
        assert word in log, log
    for line in log.splitlines():
        assert line.startswith("20"), f"not a line of its own: {line}"
    t.outside.ip("link set left down")
    wait_for("the log tells it", lambda: "left" in t.router.log()[len(log):])


def test_log_as_json(bench):
    t = bench({"quiver": {"log": {"format": "json"}}})
    for line in t.router.log().splitlines():
        json.loads(line)


def drawn(page):
    """The edges in the picture of the graph on a page, and the names of its boxes: `arc-x` for `arc-x([x])`."""
    with open(f"{REPO}/{page}") as f:
        picture = f.read().split("<!-- graph -->")[1].split("<!-- /graph -->")[0]
    edges = [tuple(line.split(" --> ")) for line in map(str.strip, picture.splitlines()) if " --> " in line]
    return edges, {tuple(box.split("(")[0] for box in e) for e in edges}


def test_the_picture_of_the_graph_is_right(pair):
    """docs/graph.md shows the graph as it runs."""
    shown, _ = drawn("docs/graph.md")
    arcs = {a["arc"] for a in pair.router.json("show features left")[0]["arcs"]}
    running = {(n["name"], x.replace("@", "arc-")) for n in pair.router.json("show graph") for x in n["next"]}
    running = {e for e in running if e[1] not in ("error-drop", "punt-policer")}
    assert {e for e in shown if not e[0].startswith("arc-")} == running
    ends = {f"arc-{a}([{a}])" for a in arcs}
    assert {e[0] for e in shown if e[0].startswith("arc-")} == ends
    for arc, end in (e for e in shown if e[0].startswith("arc-")):
        name = arc.split("(")[0].removeprefix("arc-")
        assert name in pair.router.json(f"show node {end}")["arcs"], f"{name} does not end at {end}"


def test_the_small_picture_is_a_part_of_the_whole():
    """The README's picture has only edges of docs/graph.md (which is compared with the router), and few enough to be read."""
    small, whole = drawn("README.md")[1], drawn("docs/graph.md")[1]
    assert small and small <= whole, small - whole
    assert len(small) <= 30


def test_the_first_configuration_of_the_readme_is_the_example():
    with open(f"{REPO}/README.md") as f, open(f"{REPO}/examples/two-hosts.yaml") as example:
        assert example.read().strip() in f.read()


def test_hundred_changes_at_once_are_all_or_nothing(bench):
    """Interfaces, addresses and routes change under traffic between two other ports, and nothing is lost there."""
    t = bench(ports=("left", "right", "third"))
    a, b = t.ports["left"], t.ports["right"]
    lines = []
    for i in range(1, 41):
        lines += [f"create sub-interfaces third {i} dot1q {i} exact-match", f"set interface state third.{i} up",
                  f"set interface ip address third.{i} 10.50.{i}.1/24", f"ip route add 10.60.{i}.0/24 via 10.50.{i}.2"]
    undo = []
    for i in range(1, 41):
        undo += [f"ip route del 10.60.{i}.0/24", f"delete sub-interface third.{i}"]
    script = subprocess.Popen([BINARY, "ctl", "-s", t.router.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    script.stdin.write("\n".join((lines + undo) * 2) + "\n")
    script.stdin.close()
    rounds = 0
    while script.poll() is None or rounds < 5:
        frames = [through4(a, b, id=i) for i in range(20)]
        t.left.send(*[s for s, _ in frames])
        t.right.expect(*[w for _, w in frames])
        rounds += 1
    assert script.returncode == 0, script.stdout.read()
    assert "10.60" not in t.ctl("show ip fib")


def test_taps_and_host_interfaces_by_command(bench):
    t = bench(ports=("left", "right"))
    out = t.ctl("create tap id 3 host-if-name tap-host")
    assert "tap3" in out
    assert "tap-host" in t.inside.ip("-br link").stdout
    t.ctl("set interface state tap3 up")
    t.ctl("delete tap tap3")
    assert "tap-host" not in t.inside.ip("-br link").stdout
    t.inside.ip("link add spare type veth peer name spare-peer")
    t.ctl("create host-interface name spare")
    t.ctl("set interface state host-spare up")
    t.ctl("set interface ip address host-spare 192.0.2.1/24")
    assert t.router.interface("host-spare")["state"] == "up"
    t.ctl("delete host-interface name spare")
    assert not [i for i in t.router.json("show interface") if i["name"] == "host-spare"]


def test_fib_why_counts_routes_in_whole_sentences(pair):
    one = pair.ctl("fib why 10.0.2.9")
    assert "10.0.2.0/24 decides, of which there is 1 route\n" in one, one
    pair.ctl("ip route add 10.77.0.0/16 via 10.0.2.2")
    pair.ctl("ip route add 10.77.0.0/16 via 10.0.2.3 preference 200")
    try:
        text = pair.ctl("fib why 10.77.0.1")
        assert "10.77.0.0/16 decides, of which there are 2 routes\n" in text, text
    finally:
        pair.ctl("ip route del 10.77.0.0/16 preference 200")
        pair.ctl("ip route del 10.77.0.0/16")
