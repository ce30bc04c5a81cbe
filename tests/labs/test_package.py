"""The Debian package: installed, run as its unit runs it, upgraded, removed and purged, in a copy of this machine's root that goes
with the test."""

import gzip
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from harness import BINARY, wait_for
from harness.router import REPO

# An overlay over /, with /run, /dev and /proc of its own, and what the test shares with it in /srv.
ROOT = """set -e
mkdir {dir}/m
mount -t tmpfs none {dir}/m
mkdir {dir}/m/upper {dir}/m/work {dir}/m/root
mount -t overlay overlay -o lowerdir=/,upperdir={dir}/m/upper,workdir={dir}/m/work {dir}/m/root
cd {dir}/m/root
mount -t proc none proc
mount -t tmpfs none run
mount -t tmpfs none tmp
mount --bind /dev dev
mount --bind {dir}/shared srv
mkdir run/netns
ip link set lo up
echo ready
exec sleep infinity
"""


class Copy:
    """A root to install into, in mount and network namespaces of its own."""

    def __init__(self, folder):
        self.shared = folder / "shared"
        self.shared.mkdir()
        os.chmod(self.shared, 0o755)
        self.root = f"{folder}/m/root"
        self.holder = subprocess.Popen(["unshare", "--mount", "--net", "bash", "-c", ROOT.format(dir=folder)], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != "ready\n":
            pytest.skip("no overlay over /: " + self.holder.stderr.read())

    def words(self, *words):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-n", "chroot", self.root, *words]

    def run(self, *words, check=True):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, (words, done.stdout + done.stderr)
        return done

    def sh(self, script):
        return self.run("bash", "-c", script).stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Two packages with the binary under test: the second is an upgrade."""
    out = tmp_path_factory.mktemp("packages")
    binary = out / "quiver"
    subprocess.run(["strip", "-o", binary, BINARY], check=True)
    for version in ("1.0", "1.1"):
        subprocess.run([f"{REPO}/scripts/package", "--binary", binary, "--out", out, "--version", version, "--compress", "none"],
                       check=True, capture_output=True, text=True)
    return sorted(out.glob("*.deb"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory, packages):
    c = Copy(tmp_path_factory.mktemp("copy"))
    for package in packages:
        shutil.copy(package, c.shared)
    yield c
    c.holder.kill()
    c.holder.wait()


def install(copy, package):
    copy.run("dpkg", "--no-triggers", "-i", f"/srv/{package.name}")


def test_what_the_package_brings(copy, packages):
    install(copy, packages[0])
    assert copy.run("quiver", "--version").stdout.startswith("quiver ")
    assert copy.sh("stat -c '%U %G %a' /etc/quiver/quiver.yaml") == "root quiver 640\n"
    copy.run("quiver", "check", "/etc/quiver/quiver.yaml")
    assert copy.sh("dpkg --verify quiver") == ""
    # systemd understands the unit: no unknown setting, the binary and the man pages are there.
    said = copy.run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/quiver.service")
    assert "quiver" not in said.stdout + said.stderr, said.stdout + said.stderr


def test_man_pages_say_what_the_definitions_say(copy, packages):
    install(copy, packages[0])
    texts = {}
    for page in ("man8/quiver.8", "man1/quiver-ctl.1", "man5/quiver.yaml.5"):
        roff = gzip.decompress(subprocess.run(copy.words("cat", f"/usr/share/man/{page}.gz"), check=True,
                                              capture_output=True).stdout)
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-cbou"], input=roff, capture_output=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        texts[page] = re.sub(r"\s+", " ", done.stdout.decode())
    with open(f"{REPO}/docs/commands.md") as f:
        commands = re.findall(r"^## (.*)$", f.read(), re.M)
    assert len(commands) > 100 and all(c in texts["man1/quiver-ctl.1"].replace("\u2010", "-") for c in commands)
    with open(f"{REPO}/docs/configuration.md") as f:
        fields = re.findall(r"^\| `([a-z-]+)` \|", f.read(), re.M)
    assert len(fields) > 100 and all(f in texts["man5/quiver.yaml.5"].replace("\u2010", "-") for f in fields)
    for word in ("quiver run", "--config <FILE>", "quiver bench", "NOTIFY_SOCKET", "/etc/quiver/quiver.yaml"):
        assert word in texts["man8/quiver.8"].replace("\u2010", "-"), word


@pytest.mark.parametrize("words, want", [
    (["che"], "check"), (["ctl", "show", "interfa"], "interface"), (["run", "--con"], "--config"),
    (["ctl", "--json", "ip", "route", ""], "add"), (["ctl", "-s", "/x", "set", "interface", "sta"], "state"),
    (["ctl", "set", "interface", "state", ""], None), (["ctl", "set", "bridge-domain", "arp", "entry", "loop0", ""], None),
    (["ctl", "delete", "loopback", ""], "interface"), (["ctl", "exec", "/etc/quiver/qu"], "/etc/quiver/quiver.yaml"),
    (["ctl", "set", "interface", "rx-pl"], "rx-placement"), (["ctl", "show", "ip", "p"], "pmtu"),
])
def test_bash_completes(copy, packages, words, want):
    """The next words, whatever files are in the folder: where a value stands, none."""
    install(copy, packages[0])
    typed = " ".join(f"'{w}'" for w in ["quiver", *words])
    said = copy.sh("cd /etc; source /usr/share/bash-completion/completions/quiver\n"
                   f"COMP_WORDS=({typed}) COMP_CWORD={len(words)}; _quiver; printf '%s\\n' \"${{COMPREPLY[@]}}\"").split()
    assert want in said if want else not said, said
    assert "ra" not in said, "show ip6 is not show ip"


def test_it_runs_as_its_unit_says_without_being_root(copy, packages):
    """The user and the capabilities of the unit are enough to forward between two devices; the manager is told."""
    install(copy, packages[0])
    unit = copy.sh("cat /lib/systemd/system/quiver.service")
    setting = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))
    caps = ",".join("+" + c.removeprefix("CAP_").lower() for c in setting["AmbientCapabilities"].split())
    with open(f"{REPO}/README.md") as f:
        network = f.read().split("## A first configuration")[1].split("```sh\n")[1].split("```")[0]
    copy.sh(network)
    copy.sh("cp /usr/share/doc/quiver/examples/two-hosts.yaml /etc/quiver/quiver.yaml; "
            # What RuntimeDirectory= and StateDirectory= make.
            "install -d -o quiver -g quiver /run/quiver /var/lib/quiver")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(copy.shared / "notify"))
    os.chmod(copy.shared / "notify", 0o777)
    manager.settimeout(30)
    process = subprocess.Popen(
        copy.words("env", "NOTIFY_SOCKET=/srv/notify", "WATCHDOG_USEC=1000000", "setpriv", "--reuid", setting["User"], "--regid",
                   setting["Group"], "--clear-groups", "--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}",
                   "--bounding-set", f"-all,{caps}", "--no-new-privs", *setting["ExecStart"].split()),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        # Where its state is, for who supervises it, may come first.
        said = [manager.recv(4096)]
        while not said[-1].startswith(b"READY=1\n"):
            assert said[-1].startswith(b"X_QUIVER_STATE="), said
            said.append(manager.recv(4096))
        status = dict(re.findall(r"^(\w+):\s*(.*)$", open(f"/proc/{process.pid}/status").read(), re.M))
        assert status["Uid"].split()[0] != "0" and int(status["CapEff"], 16) == int(status["CapBnd"], 16) != 0
        copy.sh("ip netns exec a ping -n -c 3 -i 0.2 -W 5 10.0.2.2")
        assert "left" in copy.run("quiver", "ctl", "show", "interface").stdout
        assert manager.recv(4096) == manager.recv(4096) == b"WATCHDOG=1\n"
    finally:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=30)
        copy.sh("ip netns del a; ip netns del b; rm /srv/notify")
    assert process.returncode == 0, said
    rest = []
    manager.setblocking(False)
    try:
        while True:
            rest.append(manager.recv(4096))
    except BlockingIOError:
        pass
    assert rest[-1] == b"STOPPING=1\n", rest


def test_upgrade_and_removal_keep_the_configuration(copy, packages):
    old, new = packages
    copy.run("dpkg", "--no-triggers", "--purge", "quiver", check=False)
    install(copy, old)
    copy.sh("echo '# mine' >> /etc/quiver/quiver.yaml; chmod 600 /etc/quiver/quiver.yaml")
    install(copy, new)
    assert copy.sh("dpkg-query -W -f '${Version}' quiver") == "1.1"
    assert copy.sh("tail -1 /etc/quiver/quiver.yaml; stat -c %a /etc/quiver/quiver.yaml") == "# mine\n600\n"
    copy.run("dpkg", "--no-triggers", "--remove", "quiver")
    assert copy.sh("ls /usr/bin/quiver /lib/systemd/system/quiver.service 2>/dev/null || true") == ""
    assert "# mine" in copy.sh("cat /etc/quiver/quiver.yaml")
    copy.run("dpkg", "--no-triggers", "--purge", "quiver")
    assert copy.sh("ls -d /etc/quiver /var/lib/quiver 2>/dev/null || true") == ""
    wait_for("dpkg has forgotten it", lambda: copy.run("dpkg", "-s", "quiver", check=False).returncode != 0)
