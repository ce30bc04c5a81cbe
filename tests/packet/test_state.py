"""What is applied survives a restart, and there is a way back: from what was not confirmed, and to what was before."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from harness import BINARY, CtlError, Netns, Router, run, wait_for


class Kept:
    """A router with a state folder and no ports, and the documents that it is given."""

    def __init__(self, tmp_path, folder=None):
        self.tmp, self.ns = tmp_path, Netns("kept")
        self.folder = folder or tmp_path / "state"
        self.router = Router(self.ns, self.text(1))

    def text(self, n, more=""):
        """Document number n: its address says which it is."""
        return (f"# document {n}: a comment of its own\nquiver: {{state: {self.folder}, buffers: {{count: 1024}},"
                f" sockets: {{ctl: \"@socket@\"}}}}\nloopbacks:\n  loop0: {{addresses: [10.0.0.{n}/24]}}\n{more}")

    def file(self, n, more=""):
        path = self.tmp / f"{n}.yaml"
        path.write_text(self.text(n, more).replace("@socket@", self.router.socket))
        return str(path)

    def quiver(self, *words, check=True, through=()):
        done = run([*through, BINARY, words[0], "-s", self.router.socket, *map(str, words[1:])], check=False)
        if check and done.returncode != 0:
            raise CtlError(done.stderr + done.stdout)
        return done

    def runs(self):
        """The number of the document that runs."""
        return self.number(self.quiver("dump").stdout)

    @staticmethod
    def number(dump):
        return int(dump.split("addresses: [10.0.0.")[1].split("/")[0])

    def again(self, how=signal.SIGTERM):
        self.router.kill(how)
        self.router.start()

    def history(self):
        return self.router.json("configuration history")


@pytest.fixture
def kept(tmp_path):
    k = Kept(tmp_path)
    yield k
    assert "panic" not in k.router.log()
    k.router.stop()


def test_what_is_applied_survives_a_restart(kept):
    # Until something is applied, the file counts.
    kept.again()
    assert kept.runs() == 1
    with open(kept.router.file, "w") as f:
        f.write(kept.text(2).replace("@socket@", kept.router.socket))
    kept.again()
    assert kept.runs() == 2
    assert [h["kind"] for h in kept.history()] == ["start", "start"]
    assert kept.quiver("apply", kept.file(3)).stdout == "applied in 2 steps, kept as number 3\n"
    for how in (signal.SIGTERM, signal.SIGKILL):
        kept.again(how)
        assert kept.runs() == 3
        assert f"{kept.router.file} is another document: `quiver diff {kept.router.file}` tells" in kept.router.log()
    # The document is there as it was given, with its comments.
    assert kept.quiver("history", "3", "--document").stdout == open(kept.file(3)).read()
    # What has no other effect than a comment is kept, and only once.
    assert kept.quiver("apply", kept.file(3, "# more\n")).stdout == "nothing differs, kept as number 4\n"
    assert kept.quiver("apply", kept.file(3, "# more\n")).stdout == "nothing differs\n"
    # The file that a start takes may be wrong by then.
    with open(kept.router.file, "w") as f:
        f.write("loopbacks: {loop0: {mtu: 1}}\n")
    kept.router.kill()
    refused = run([BINARY, "run", "-c", kept.router.file], check=False)
    assert refused.returncode == 1 and "error[range]" in refused.stderr, "the folder stands in the file alone"


def test_the_option_names_the_folder_as_well(tmp_path):
    ns, folder = Netns("option"), tmp_path / "state"
    router = Router(ns, {"loopbacks": {"loop0": {}}}, options=("--state", str(folder)))
    try:
        router.ctl("create loopback interface")
        assert router.ctl("show configuration diff").startswith("+ interface loop1\n")
        assert router.ctl("save comment \"two of them\"") == "saved as number 2\n"
        assert router.ctl("save") == "nothing differs from number 2\n"
        assert router.ctl("show configuration diff") == ""
        with open(router.file, "w") as f:
            f.write("no document\n")
        router.kill()
        router.start()
        assert "loop1" in router.ctl("show interface")
        assert f"{router.file} does not load" in router.log()
    finally:
        router.stop()
    router = Router(ns, {"loopbacks": {"loop0": {}}})
    try:
        for line in ("configuration history", "show configuration diff", "save", "configuration rollback"):
            with pytest.raises(CtlError, match="--state FOLDER"):
                router.ctl(line)
    finally:
        router.stop()


def test_what_is_not_confirmed_goes_back(kept):
    apply = ("apply", kept.file(2), "--confirm")
    assert kept.quiver(*apply, 5).stdout == "applied in 2 steps; goes back in 5 s unless `quiver confirm` comes\n"
    assert kept.runs() == 2
    kept.router.ctl("create loopback interface")
    for words in (("apply", kept.file(3)), ("rollback", 1), ("save",)):
        assert "confirm" in kept.quiver(*words, check=False).stderr
    # With what commands did meanwhile.
    wait_for("it goes back", lambda: kept.runs() == 1, timeout=15)
    assert "loop1" not in kept.quiver("dump").stdout
    assert "it was not confirmed in time" in kept.router.log()
    # The log may say so before the last of it is done.
    wait_for("nothing waits", lambda: "nothing waits" in kept.quiver("confirm", check=False).stderr)
    # At once when asked to.
    kept.quiver(*apply, 60)
    assert kept.quiver("rollback").stdout == "went back in 2 steps\n"
    assert kept.runs() == 1
    # A restart is a way back as well, also one that nobody has asked for.
    for how in (signal.SIGTERM, signal.SIGKILL):
        kept.quiver(*apply, 60)
        assert kept.runs() == 2
        kept.again(how)
        assert kept.runs() == 1
    # Each of them is told, with who or what it was, and why.
    told = kept.history()
    assert [(h["number"], h["kind"]) for h in told] == [(5, "back"), (4, "back"), (3, "back"), (2, "back"), (1, "start")]
    assert [h["name"] for h in told[:4]] == ["automatic", "automatic", "root", "automatic"]
    whys = ["the router ended before it was confirmed"] * 2 + ["root (", "it was not confirmed in time"]
    for entry, why in zip(told, whys):
        assert entry["comment"].startswith(why) and entry["comment"].endswith(f": apply of {kept.file(2)}"), entry
        assert entry["source"] == "number 1" and entry["changes"] == 2
    assert kept.router.json("configuration history 5")["diff"] == ["+ interface loop0: address 10.0.0.1/24", "- interface loop0: address 10.0.0.2/24"]
    assert "went back with this start, number 5 of the history" in kept.router.log()
    assert "nothing to go back to" in kept.quiver("rollback", check=False).stderr
    # Confirmed, it stays: past the time, and over a restart.
    kept.quiver(*apply, 3)
    assert kept.quiver("confirm").stdout == "confirmed, kept as number 6\n"
    time.sleep(3.3)
    assert kept.runs() == 2
    kept.again(signal.SIGKILL)
    assert kept.runs() == 2
    # Back to before that, over all that only tells.
    kept.quiver("apply", kept.file(3), "--confirm", 60)
    kept.again(signal.SIGKILL)
    assert kept.runs() == 2 and kept.history()[0]["source"] == "number 6"
    kept.quiver("rollback")
    assert kept.runs() == 1


def test_a_session_that_is_cut_does_not_keep_it_from_going_back(kept):
    many = "".join(f"  - 10.{n // 250}.{n % 250}.0/24 via 10.0.0.99\n" for n in range(20_000))
    client = subprocess.Popen([BINARY, "apply", "-s", kept.router.socket, kept.file(2, "routes:\n" + many), "--confirm", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for("it has begun", lambda: "10.0.0.2/24 added" in kept.router.log(), timeout=20)
    client.kill()
    client.wait()
    wait_for("it goes back", lambda: "as it was not confirmed in time" in kept.router.log(), timeout=20)
    assert kept.runs() == 1 and "routes" not in kept.quiver("dump").stdout
    wait_for("it is told", lambda: kept.history()[0]["kind"] == "back")
    assert kept.history()[0]["name"] == "automatic"


def test_the_history_tells_over_which_session(kept):
    """As the client says it; also where something between the session and the client has taken the variable away."""
    over = ["env", "SSH_CONNECTION=192.0.2.7 50000 192.0.2.1 22"]
    for n, through in enumerate((over, [*over, "sh", "-c", 'env -u SSH_CONNECTION "$@"; exit $?', "sh"]), 2):
        kept.quiver("apply", kept.file(n), through=through)
        assert kept.history()[0]["from"].startswith("ssh 192.0.2.7, "), kept.history()[0]
        assert "(ssh 192.0.2.7, " in kept.router.log()
    kept.quiver("apply", kept.file(4), through=["env", "SSH_CONNECTION=fe80::1%e0 50000 fe80::2%e0 22"])
    assert "ssh" not in kept.history()[0]["from"]


def test_history_and_the_way_back(kept):
    kept.quiver("apply", kept.file(2), "--comment", "new \"uplink\"")
    kept.quiver("apply", kept.file(3))
    last = kept.history()[1]
    assert (last["number"], last["kind"], last["comment"], last["name"], last["user"]) == (2, "apply", "new \"uplink\"", "root", 0)
    assert "quiver[" in last["from"] and last["changes"] == 2 and last["source"].endswith("2.yaml")
    one = kept.router.json("configuration history 2")
    assert one["diff"] == ["- interface loop0: address 10.0.0.1/24", "+ interface loop0: address 10.0.0.2/24"]
    assert kept.quiver("rollback").stdout == "applied in 2 steps, kept as number 4\n"
    assert kept.runs() == 2
    kept.quiver("rollback", 1)
    assert kept.runs() == 1
    kept.again()
    assert kept.runs() == 1
    assert kept.quiver("history", 5, "--document").stdout == open(kept.router.file).read()
    assert "number 99" in kept.quiver("rollback", 99, check=False).stderr
    # In the log, with the author.
    assert "configuration: root (" in kept.router.log() and "apply of" in kept.router.log()
    # Another section `quiver` takes a restart: said so, it comes with that.
    text = open(kept.file(2)).read().replace("count: 1024", "count: 2048")
    (kept.tmp / "more.yaml").write_text(text)
    refused = kept.quiver("apply", kept.tmp / "more.yaml", check=False)
    assert refused.returncode == 1 and "takes a restart" in refused.stderr and kept.runs() == 1
    assert "+ quiver: count: 2048" in kept.quiver("apply", kept.tmp / "more.yaml", "--restart").stdout
    assert kept.runs() == 2
    kept.again()
    assert kept.runs() == 2 and kept.router.json("show buffers")["pools"][0]["total"] == 2048


def test_what_waits_for_the_next_start_is_kept(kept):
    """Whoever saves, applies or goes back does not lose what another has had kept for the next start."""
    more = open(kept.file(2)).read().replace("count: 1024", "count: 2048")
    (kept.tmp / "more.yaml").write_text(more)
    kept.quiver("apply", kept.tmp / "more.yaml", "--restart")
    kept.router.ctl("ip route add 10.9.0.0/16 via 10.0.0.9")
    kept.quiver("save")
    assert "count: 2048" in kept.quiver("history", kept.history()[0]["number"], "--document").stdout
    # What was there before is another section now, and so takes the word.
    refused = kept.quiver("apply", kept.file(2), check=False)
    assert refused.returncode == 1 and "- quiver: count: 2048" in refused.stderr, refused
    assert "takes a restart" in kept.quiver("rollback", 1, check=False).stderr
    # The same once more is no change.
    (kept.tmp / "more.yaml").write_text(more.replace("10.0.0.2/24", "10.0.0.3/24"))
    kept.quiver("apply", kept.tmp / "more.yaml")
    kept.quiver("apply", kept.file(2), "--restart")
    kept.quiver("apply", kept.file(4))
    kept.again()
    assert kept.runs() == 4 and kept.router.json("show buffers")["pools"][0]["total"] == 1024


def test_a_way_back_has_the_rights_of_who_asks(kept, public_binary):
    """A document of root's opens a file that the one who goes back to it may not."""
    private = kept.tmp / "private"
    private.mkdir(mode=0o700)
    roles = {"ctl: \"@socket@\"": "ctl: \"@socket@\", roles: {configure: {users: [nobody]}}"}

    def text(n, more=""):
        path, text = kept.tmp / f"{n}.yaml", kept.text(n, more)
        for old, new in roles.items():
            text = text.replace(old, new)
        path.write_text(text.replace("@socket@", kept.router.socket))
        return path

    kept.quiver("apply", text(2), "--restart")
    kept.again()
    kept.quiver("apply", text(3, f"devices: {{cap0: {{driver: pcap, pcap: {{write: {private}/x.pcap}}}}}}\ninterfaces: {{cap0: {{}}}}\n"))
    kept.quiver("apply", text(4))
    os.remove(private / "x.pcap")
    refused = run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", public_binary, "ctl", "-s", kept.router.socket,
                   "configuration rollback"], check=False)
    assert refused.returncode != 0 and "nothing was changed" in refused.stderr and kept.runs() == 4, refused
    assert not (private / "x.pcap").exists()
    kept.quiver("rollback")
    assert kept.runs() == 3 and (private / "x.pcap").exists()


def test_it_goes_back_while_linux_changes_addresses(kept):
    """What runs is never the same for long: the way back is found, and plans are made."""
    loopbacks = "".join(f"  loop{n}: {{description: \"number {n}\"}}\n" for n in range(10, 310))
    pair = f"{loopbacks}  loop1: {{lcp: lc, addresses: [10.3.0.1/24]}}\n"
    kept.quiver("apply", kept.file(2, pair))
    ended = threading.Event()

    def churn():
        while not ended.is_set():
            for verb in ("add", "del"):
                kept.ns.ip(f"address {verb} 10.30.0.1/24 dev lc")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        kept.quiver("apply", kept.file(3, pair), "--confirm", 2)
        wait_for("it has gone back", lambda: "went back in" in kept.router.log(), timeout=30, every=0.2)
        # Nothing holds the next one up.
        assert "nothing differs" in kept.quiver("plan", kept.file(2, pair)).stdout
    finally:
        ended.set()
        thread.join()
    assert kept.runs() == 2


def test_sighup_applies_a_file_that_was_changed(kept):
    def hup(said):
        before = kept.router.log().count(said)
        kept.router.process.send_signal(signal.SIGHUP)
        wait_for(said, lambda: kept.router.log().count(said) > before)

    hup("is as it was, and not applied")
    kept.quiver("apply", kept.file(2))
    # As when a log is rotated: what was applied since stays.
    hup("is as it was, and not applied")
    assert kept.runs() == 2
    good = kept.text(3).replace("@socket@", kept.router.socket)
    for text, said in ((good.replace("10.0.0.3/24", "10.0.0.3/99"), "error["), (good, "applied in 2 steps, kept as number 3")):
        with open(kept.router.file, "w") as f:
            f.write(text)
        hup(said)
        assert kept.runs() == (3 if text == good else 2)
    kept.again()
    assert kept.runs() == 3 and kept.history()[0]["kind"] == "reload"


def test_state_that_cannot_be_read_is_told(kept):
    kept.quiver("apply", kept.file(2))
    kept.router.kill()
    file = kept.folder / "2.yaml"
    whole = file.read_bytes()

    def refused(why):
        done = run(["ip", "netns", "exec", kept.ns.name, BINARY, "run", "-c", kept.router.file], check=False)
        assert done.returncode == 1 and "panic" not in done.stderr, done.stderr
        assert done.stderr.startswith("quiver: cannot start: ") and why in done.stderr, done.stderr

    for bytes_, why in ((whole[:-3], "bytes in the place of"), (b"", "it is empty"), (whole.replace(b"10.0.0.2", b"10.0.0.7"), "checksum"),
                        (b"\xff\xfe" + whole, "UTF-8"), (whole[:20], "ends in its first line")):
        file.write_bytes(bytes_)
        refused(why)
    file.write_bytes(whole)
    os.chown(file, 4242, 0)
    refused("belongs to user 4242")
    os.chown(file, 0, 0)
    os.chmod(kept.folder, 0o777)
    refused("lets others write")
    os.chmod(kept.folder, 0o700)
    # Moved away as the message says, it is the one before that counts.
    file.rename(kept.tmp / "away")
    kept.router.start()
    assert kept.runs() == 1


def test_a_full_disk_leaves_what_there_was(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "none", str(small)])
    try:
        kept = Kept(tmp_path, small / "state")
        try:
            kept.quiver("apply", kept.file(2))
            before = kept.quiver("dump").stdout
            large = kept.file(3, "# " + "x" * 200_000 + "\n")
            for words in (("apply", large), ("apply", large, "--confirm", 60)):
                done = kept.quiver(*words, check=False)
                assert done.returncode == 1 and "nothing was changed" in done.stderr and "No space left" in done.stderr, done.stderr
                assert kept.quiver("dump").stdout == before
            assert "nothing waits" in kept.quiver("confirm", check=False).stderr
            # What was half written is not in the way.
            kept.quiver("apply", kept.file(4))
            kept.again(signal.SIGKILL)
            assert kept.runs() == 4
        finally:
            kept.router.stop()
    finally:
        run(["umount", "-l", str(small)])


def every_kind(n, folder):
    """Objects of each kind behind the loopbacks of document `n`: all differ from those of other documents, and one kind is missing."""
    mac = lambda kind: f"02:00:00:00:{n:02x}:{kind:02x}"
    ports = {name: {"driver": "pcap", "pcap": {"write": f"{folder}/{name}.pcap"}} for name in ("p0", "p1", "m0", "m1")}
    interfaces = {"p0": {"mac": mac(0), "addresses": [f"10.1.{n}.1/24"], "lcp": f"qk{n}"}, "p1": {"mac": mac(1)}, "m0": {}, "m1": {}}
    kinds = {
        "memifs": ("memif1/0", {"socket": "@kept", "role": "master", "secret": f"s{n}"}),
        "vhost-users": ("VirtualEthernet0/0/0", {"socket": f"@kept-{n}", "role": "server"}),
        "bondethernets": ("BondEthernet0", {"mode": "xor", "load-balance": ("l2", "l23")[n % 2], "interfaces": ["m0", "m1"], "mac": mac(2)}),
        "vxlan_tunnels": ("vxlan_tunnel0", {"local": "10.1.0.1", "remote": f"10.1.0.9{n}", "vni": n}),
    }
    kinds.pop(list(kinds)[n - 2])
    if "bondethernets" not in kinds:
        interfaces |= {name: {"mac": mac(2 + of)} for of, name in enumerate(("m0", "m1"))}
    for kind, (name, _) in kinds.items():
        at = len(interfaces)
        interfaces[name] = {"addresses": [f"10.2{at}.{n}.1/24"]} | ({} if kind == "bondethernets" else {"mac": mac(at)})
    interfaces["mpls-tunnel0"] = {"mac": mac(9)}
    sections = {section: {name: fields} for section, (name, fields) in kinds.items()}
    sections |= {
        "devices": ports, "interfaces": interfaces,
        "span": [{"source": "p0", "destination": "p1", "direction": ("rx", "tx")[n % 2]}],
        "mpls": {"local-labels": [f"10{n} eos via 10.0.0.9{n} out-labels 20{n}"],
                 "tunnels": {"mpls-tunnel0": {"via": f"10.0.0.9{n} loop0 out-labels 30{n}"}}},
        "routes": [f"10.{n}0.0.0/16 via 10.0.0.9{n} mtu 1{n}00", f"10.{n}1.0.0/16 via 10.1.{n}.9 p0 mtu 14{n}0, 10.0.0.9{n} weight 2"],
    }
    return f"  loop{n}: {{mtu: 1{n}00, description: {n}}}\n" + "".join(f"{name}: {json.dumps(of)}\n" for name, of in sections.items())


def test_killed_at_any_moment_the_old_or_the_new_one_is_there(kept, tmp_path):
    draw = random.Random(1)
    files = {n: kept.file(n, every_kind(n, tmp_path)) for n in range(2, 6)}
    now, news, dumps = kept.runs(), 0, {}
    # What a client takes until it is answered: some milliseconds to begin, and the apply as many.
    took = []
    for new in (2, 3, 4, 5, 2):
        began = time.monotonic()
        kept.quiver("apply", files[new])
        took.append(time.monotonic() - began)
        now = new
    whole = sorted(took)[2]
    for _ in range(200):
        new = draw.choice([n for n in files if n != now])
        client = subprocess.Popen([BINARY, "apply", "-s", kept.router.socket, files[new]],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 1.3 * whole))
        kept.router.kill()
        client.wait()
        kept.router.start()
        dump = kept.quiver("dump").stdout
        found = kept.number(dump)
        assert found in (now, new)
        # Whole: all that this document ever made.
        assert dumps.setdefault(found, dump) == dump
        # Of the pairs in Linux those of the other are gone.
        devices = [d["ifname"] for d in json.loads(kept.ns.ip("-j link show").stdout)]
        assert [d for d in devices if d.startswith("qk")] == [f"qk{found}"]
        news += found == new
        now = found
    # Moments of both kinds were among them.
    assert 10 < news < 190, news
    assert kept.history()[0]["kind"] in ("apply", "start")


def test_a_start_says_when_a_restart_forgets(kept, tmp_path):
    """Without a state folder, and with one that cannot be written to: one line; what would have to be kept is refused whole."""
    forgets = "a restart forgets"
    assert forgets not in kept.router.log()
    kept.quiver("apply", kept.file(2))
    kept.router.kill(signal.SIGTERM)
    folder = kept.folder
    folder.mkdir(exist_ok=True)
    run(["mount", "--bind", str(folder), str(folder)])
    try:
        run(["mount", "-o", "remount,bind,ro", str(folder)])
        before = len(kept.router.log())
        kept.router.start()
        log = kept.router.log()[before:]
        assert log.count(forgets) == 1 and log.count(" WARN ") == 1 and "Read-only" in log and str(folder) in log, log
        # What was kept runs, and its history can be read.
        assert kept.runs() == 2 and [h["kind"] for h in kept.history()] == ["apply", "start"]
        kept.quiver("ctl", "create loopback interface instance 7")
        runs = kept.quiver("dump").stdout
        for words in (("apply", kept.file(3)), ("save",), ("apply", kept.file(3), "--confirm", "60"), ("rollback", "1")):
            done = kept.quiver(*words, check=False)
            assert done.returncode == 1 and "Read-only" in done.stderr, (words, done.stderr)
            assert "nothing was changed" in done.stderr or "nothing was saved" in done.stderr, done.stderr
            assert kept.quiver("dump").stdout == runs, words
        kept.router.kill(signal.SIGTERM)
    finally:
        run(["umount", str(folder)])
    before = len(kept.router.log())
    kept.router.start()
    assert forgets not in kept.router.log()[before:] and kept.runs() == 2
    other = Router(kept.ns, {"quiver": {"buffers": {"count": 1024}}})
    try:
        log = other.log()
        assert log.count(forgets) == 1 and "--state" in log, log
    finally:
        other.stop()


def test_comments_are_kept_by_what_is_saved(kept):
    more = "  # spare\n  loop1:\n    mtu: 1500   # as everywhere\n    description: \"old\"  # to be named\n# the way out\nroutes:\n- 10.9.0.0/16 via 10.0.0.9  # for now\n"
    kept.quiver("apply", kept.file(2, more))
    was = open(kept.file(2, more)).read()

    def last():
        return kept.quiver("history", kept.history()[0]["number"], "--document").stdout

    kept.router.ctl("create loopback interface")
    kept.router.ctl("ip route add 10.8.0.0/16 via 10.0.0.8")
    assert "anew" not in kept.quiver("save").stdout
    text = last()
    assert [line for line in was.splitlines() if line not in text.splitlines()] == [], text
    assert "- 10.8.0.0/16 via 10.0.0.8\n" in text and "  loop2:" in text
    # Single places are changed in that text.
    done = kept.router.ctl("configuration set loopbacks.loop1.description \"new\"")
    assert done.startswith("applied in 1 step, kept as number"), done
    assert last() == text.replace("\"old\"", "new")
    kept.router.ctl("configuration edit \"[{delete: loopbacks.loop2}, {delete: interfaces.loop2}]\"")
    kept.router.ctl("ip route del 10.8.0.0/16 via 10.0.0.8")
    kept.quiver("save")
    # But for the order of interfaces, of which the new one was the last.
    was = was.replace("\"old\"", "new").splitlines()
    text = last()
    assert [line for line in text.splitlines() if line in was] == was and "loop2" not in text, text
    kept.again()
    assert kept.runs() == 2 and last() == text
