"""The Python client: the wheel, built and installed in a fresh environment, against the running router."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

import pytest

from harness import BINARY, Netns, run, tls, wait_for
from harness.clients import ApiBench, check, conform, names
from harness.router import REPO
from harness.tls import TlsRouter

SOURCE = os.path.join(REPO, "clients", "python")
EXAMPLES = os.path.join(SOURCE, "examples")
#: Where scripts/setup puts the packages that building and running takes.
WHEELS = os.environ.get("QUIVER_PYTHON_WHEELS") or os.path.join(os.path.dirname(os.path.dirname(BINARY)), "python-wheels")
PYTHON = sys.executable


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python of a fresh environment in which the wheel is installed, with nothing else of this repository."""
    if not os.path.isdir(WHEELS) or not os.listdir(WHEELS):
        pytest.skip(f"no Python packages in {WHEELS}: scripts/setup could not fetch grpcio and grpcio-tools")
    folder = tmp_path_factory.mktemp("python")
    # The link to the schema becomes a copy; what may have been generated here stays here.
    shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "*_pb2*", "__pycache__"))
    run([PYTHON, "-m", "venv", str(folder / "venv")], timeout=300)
    python = str(folder / "venv" / "bin" / "python")
    offline = ["--no-index", "--find-links", WHEELS, "--disable-pip-version-check", "-q"]
    run([python, "-m", "pip", "wheel", *offline, "--no-deps", "-w", str(folder / "dist"), str(folder / "source")], timeout=600)
    wheels = os.listdir(folder / "dist")
    assert len(wheels) == 1 and wheels[0].endswith("-py3-none-any.whl"), wheels
    run([python, "-m", "pip", "install", *offline, str(folder / "dist" / wheels[0])], timeout=600)
    shutil.rmtree(folder / "source")
    return python


@pytest.fixture(scope="module")
def router():
    bench = ApiBench()
    yield bench
    bench.close()


@pytest.fixture(scope="module", params=["sync", "async"])
def results(request, environment, router):
    """What the runner said of all cases."""
    more = ["--async"] if request.param == "async" else []
    return conform(router, [environment, os.path.join(SOURCE, "conformance.py"), *more])


@pytest.mark.parametrize("name", names())
def test_conforms(results, name):
    check(results, name)


def example(environment, *words, **kwargs):
    return run([environment, *words], timeout=300, **kwargs).stdout


def test_ten_lines(environment, router):
    """The program with which docs/api.md begins, as it stands there."""
    with open(os.path.join(REPO, "docs", "api.md")) as f:
        program = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    with open(os.path.join(EXAMPLES, "show.py")) as f:
        assert program.strip() == f.read().strip(), "docs/api.md and clients/python/examples/show.py differ"
    out = example(environment, os.path.join(EXAMPLES, "show.py"), router.api, "10.0.1.2 left").splitlines()
    assert out[0].startswith("quiver v")
    assert "left up" in out
    assert re.fullmatch(r"203\.0\.113\.0/24 api:example@\S+ 10\.0\.1\.2 left", out[-1]), out


def test_bulk(environment, router):
    """Packed routes come back as they went. It prints rates, which nobody judges here."""
    out = example(environment, os.path.join(EXAMPLES, "bulk.py"), router.api, "10.0.1.2 left", "200000")
    assert [line.split(":")[0] for line in out.splitlines()] == ["set", "read back and compared", "deleted"]


def test_package_is_typed(environment, tmp_path):
    """mypy finds the types of the installed package, errors in a program that uses it, and none in the package."""
    probe = run([environment, "-m", "pip", "install", "--no-index", "--find-links", WHEELS, "-q", "mypy", "types-protobuf"], check=False, timeout=300)
    if probe.returncode != 0:
        pytest.skip("mypy is not among the packages that scripts/setup fetched")
    program = (
        "from quiver import Router\n"
        "router = Router('/x')\n"
        "reveal_type(router.command('x'))\n"
        "reveal_type(router.apply('x').number)\n"
        "reveal_type(next(router.routes()).next_hops[0].address)\n"
        "router.command(1)\n"
    )
    out = run([environment, "-m", "mypy", "--strict", "-c", program], check=False, timeout=300).stdout
    assert 'Revealed type is "quiver.calls.Answer"' in out
    assert re.search(r'Revealed type is "(builtins\.)?int"', out) and re.search(r'Revealed type is "(builtins\.)?str"', out), out
    assert re.search(r':6: error: Argument 1 to "command"', out), out
    assert out.count(" error: ") == 1, out
    package = run([environment, "-c", "import os, quiver; print(os.path.dirname(quiver.__file__))"]).stdout.strip()
    # By itself: mypy takes no file that stands beside it for a module of somebody else's.
    copy = shutil.copytree(package, tmp_path / "quiver")
    done = run([environment, "-m", "mypy", "--config-file", os.path.join(SOURCE, "pyproject.toml"), str(copy)], check=False, timeout=300)
    assert done.returncode == 0 and "no issues found" in done.stdout, done.stdout


class Running:
    """A program whose lines are waited for."""

    def __init__(self, words, **kwargs):
        self.words = words
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.seen = ""

    def read(self):
        try:
            while data := os.read(self.process.stdout.fileno(), 1 << 16):
                self.seen += data.decode()
        except BlockingIOError:
            pass
        return self.seen

    def expect(self, text, timeout=60):
        try:
            wait_for(f"{self.words[1]} says {text!r}", lambda: text in self.read() or self.process.poll() is not None, timeout)
        finally:
            print(self.seen)
        assert text in self.read(), f"it ended with {self.process.poll()}:\n{self.seen}"

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        print(self.read())
        self.process.stdout.close()
        return status


def leads(router, prefix):
    """Next hops of the route of a prefix that is used."""
    answer = router.router.json(f"fib why {prefix.split('/')[0]}")
    return [r["wanted"] for r in answer["routes"] if r["used"]] if answer["prefix"] == prefix else []


def test_health_checker(environment, router):
    """A next hop that stops answering the router loses its routes to the other one, and gets them back."""
    router.outside.ip("addr add 10.0.1.2/24 dev left")
    program = Running([
        environment, os.path.join(EXAMPLES, "healthcheck.py"), router.api, "198.51.100.0/24", "--primary", "10.0.1.2 left", "--backup", "10.0.2.2 right",
        "--every", "0.1", "--grace", "0",
    ])
    try:
        program.expect("1 routes over 10.0.1.2 left")
        router.outside.ip("addr del 10.0.1.2/24 dev left")
        program.expect("10.0.1.2 left is down: over 10.0.2.2 right")
        assert leads(router, "198.51.100.0/24") == ["via 10.0.2.2 right"]
        router.outside.ip("addr add 10.0.1.2/24 dev left")
        program.expect("10.0.1.2 left is up: over 10.0.1.2 left")
        assert leads(router, "198.51.100.0/24") == ["via 10.0.1.2 left"]
    finally:
        router.outside.ip("addr flush dev left")
        assert program.end() == 0
    wait_for("its routes go", lambda: leads(router, "198.51.100.0/24") == [], timeout=20)


BIRD = """
router id 192.0.2.20;
protocol device {}
protocol static four {
    ipv4;
    route 203.0.113.0/24 blackhole;
    route 198.18.0.0/15 blackhole;
}
protocol bgp up {
    local 127.0.0.2 as 64513;
    neighbor 127.0.0.1 as 64512;
    multihop 2;
    passive;
    ipv4 { import none; export all; next hop address 10.0.1.2; };
}
"""


def test_exabgp(environment, router, tmp_path):
    """What BIRD announces to ExaBGP is a route of the router's, until it is withdrawn or the session goes."""
    if not shutil.which("exabgp") or not shutil.which("bird"):
        pytest.skip("no exabgp or no bird: scripts/setup installs both")
    with open(os.path.join(EXAMPLES, "exabgp", "exabgp.conf")) as f:
        text = f.read()
    command = f"run {environment} {os.path.join(EXAMPLES, 'exabgp', 'inject.py')} {router.api};"
    text, found = re.subn(r"run .*;", lambda _: command, text)
    assert found == 1
    text = text.replace("neighbor 127.0.0.1 {", "neighbor 127.0.0.2 {")
    (tmp_path / "exabgp.conf").write_text(text)
    (tmp_path / "bird.conf").write_text(BIRD)
    control = str(tmp_path / "bird.ctl")
    speakers = Netns("bgp")
    settings = {"exabgp.daemon.drop": "false", "exabgp.daemon.user": "root", "exabgp.api.cli": "false", "exabgp.tcp.bind": "", "exabgp.log.all": "false"}
    bird = exabgp = None

    def source(prefix):
        return [(r["source"], r["wanted"]) for r in router.router.json(f"fib why {prefix.split('/')[0]}")["routes"] if r["used"]]

    def learned(prefix):
        return any(s.startswith("api:exabgp@") and "10.0.1.2" in wanted for s, wanted in source(prefix))

    try:
        bird = speakers.start(["bird", "-f", "-c", str(tmp_path / "bird.conf"), "-s", control])
        log = open(tmp_path / "exabgp.log", "w")
        exabgp = speakers.start(["exabgp", str(tmp_path / "exabgp.conf")], env={**os.environ, **settings}, stdout=log)
        try:
            wait_for("both routes come", lambda: learned("203.0.113.0/24") and learned("198.18.0.0/15"), timeout=90, every=0.1)
        except AssertionError:
            log.flush()
            raise AssertionError((tmp_path / "exabgp.log").read_text()) from None
        run(["birdc", "-s", control, "disable", "four"])
        wait_for("they are withdrawn", lambda: not source("203.0.113.0/24") and not source("198.18.0.0/15"), timeout=60, every=0.1)
        run(["birdc", "-s", control, "enable", "four"])
        wait_for("they come again", lambda: learned("203.0.113.0/24"), timeout=60, every=0.1)
        run(["birdc", "-s", control, "disable", "up"])
        wait_for("the session's routes go", lambda: not source("203.0.113.0/24"), timeout=60, every=0.1)
    finally:
        for process in (exabgp, bird):
            if process is not None:
                process.terminate()
                process.wait(timeout=20)
        speakers.delete()


def test_udp_echo(environment, router):
    """A daemon in Python answers a Linux host: the router gives it the datagrams of its port, and sends its answers."""
    host = router.outside
    host.ip("addr add 10.0.1.2/24 dev left")
    daemon = Running([environment, os.path.join(EXAMPLES, "udp_echo.py"), router.api, "7"])
    try:
        daemon.expect("answering")
        with host.entered():
            asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with asker:
            asker.settimeout(60)
            asker.connect(("10.0.1.1", 7))
            # The last one comes in fragments, and so does its answer.
            for question in (b"", b"x", b"hello", bytes(range(256)) * 5, bytes(range(250)) * 20):
                asker.send(question)
                assert asker.recv(65535) == question
            # What nobody has asked for is answered as before.
            asker.connect(("10.0.1.1", 8))
            asker.send(b"nobody")
            with pytest.raises(ConnectionRefusedError):
                asker.recv(100)
    finally:
        host.ip("addr flush dev left")
        daemon.process.terminate()
        daemon.process.wait(timeout=30)
        print(daemon.read())
        daemon.process.stdout.close()


def records(path):
    """The packets of a pcap file: bytes kept, and length."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 24, []
    while at < len(data):
        kept, length = struct.unpack_from("<II", data, at + 8)
        found.append((data[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return found


def test_capture(environment, router, tmp_path):
    """A capture has the bytes that were sent, as the file of `pcap trace` has."""
    frames = [bytes.fromhex("02fe000000ff020000000102") + b"\x88\xb5" + bytes([n]) * size for n, size in enumerate((50, 51, 600, 1486))]
    both = tmp_path / "trace.pcap"
    program = Running([environment, os.path.join(EXAMPLES, "capture.py"), router.api, str(tmp_path / "api.pcap"), "8", "left", "rx", "drop"])
    try:
        program.expect("capturing")
        router.ctl(f"pcap trace rx drop intfc left file {both}")
        for frame in frames:
            router.left.send(frame)
        assert program.process.wait(timeout=60) == 0
    finally:
        program.process.kill()
        print(program.read())
        program.process.stdout.close()
    router.ctl("pcap trace off")
    got = records(tmp_path / "api.pcap")
    assert sorted(got) == sorted([(frame, len(frame)) for frame in frames] * 2)
    assert sorted(got) == sorted(records(both))


def test_trace(environment, router):
    """What nodes do with frames is told as the shell shows it."""
    router.router.ctl("clear trace")
    program = Running([environment, os.path.join(EXAMPLES, "trace.py"), router.api, "1", "af-packet-input"])
    try:
        program.expect("tracing")
        # Not before: until the program is there a packet of somebody else's would be the one.
        router.router.ctl("trace add af-packet-input 1")
        router.left.send(bytes.fromhex("02fe000000ff020000000102") + b"\x88\xb5" + bytes(50))
        assert program.process.wait(timeout=60) == 0
        steps = wait_for("the shell has it", lambda: router.router.json("show trace"))[0]["steps"]
    finally:
        program.process.kill()
        said = program.read()
        program.process.stdout.close()
    assert f"packet 1 of worker 0: {' > '.join(s['node'] for s in steps)}\n" in said
    dropped = [s for s in steps if s["drop"]]
    assert dropped and all(f"  dropped by {s['node']}: {s['drop']['meaning']}\n" in said for s in dropped)


def test_tls(environment, tmp_path):
    """Over a network: certificates on both sides, and why somebody is refused; the limit by rate."""
    router = TlsRouter(tmp_path)
    try:
        def ends(*words):
            done = run([environment, os.path.join(EXAMPLES, "tls.py"), *words], check=False, timeout=120)
            return done.returncode, done.stdout + done.stderr

        told = tls.check(router, ends)
        assert all("UNAVAILABLE" in text for text in told.values()), told
        assert "CERTIFICATE_VERIFY_FAILED" in told["no router to trust"], told
        for what, why in {
            "foreign": "does not take this client's certificate", "expired": "does not take this client's certificate",
            "no router to trust": "none that `ca` vouches for", "another router": "is for another name", "address": "is for another name",
        }.items():
            assert why in told[what], (what, told)
        address, certificate, key, ca, name = router.words()
        program = f"""
import asyncio, quiver, quiver.aio
files = dict(certificate={certificate!r}, key={key!r}, ca={ca!r}, server_name={name!r})

async def there():
    async with quiver.aio.Router({address!r}, **files) as router:
        assert (await router.system()).certificate == "fleet.example.net"

asyncio.run(there())
with quiver.Router({address!r}, **files) as router:
    try:
        for _ in range(100000):
            router.system()
    except quiver.LimitError as e:
        assert e.errors[0].rule == "rate" and 0 < e.retry_after <= 1.1, (e, e.retry_after)
    else:
        raise AssertionError("nothing was refused")
for wrong in ({{}}, dict(ca={ca!r})):
    try:
        quiver.Router({address!r}, **wrong)
    except ValueError as e:
        assert "key" in str(e), e
    else:
        raise AssertionError(wrong)
"""
        run([environment, "-c", program], timeout=300)
    finally:
        router.close()


OLD = """\
system True ROLE_ADMIN
text True ended
json True
refused INVALID_ARGUMENT True
list True
check True
finding ['unknown-field']
plan True
apply True True True
history True
rollback True
counters True True
"""


def test_client_of_the_last_release(environment, tmp_path):
    """Who knows the schema of the last release alone, as that was, is served by the router of now."""
    released, made = os.path.join(REPO, "api", "released"), tmp_path / "old"
    made.mkdir()
    run([environment, "-m", "pip", "install", "--no-index", "--find-links", WHEELS, "--disable-pip-version-check", "-q", "grpcio-tools"], timeout=300)
    folder = os.path.join(released, "quiver", "v1")
    files = sorted(os.path.join(folder, f) for f in os.listdir(folder))
    run([environment, "-m", "grpc_tools.protoc", f"-I{released}", f"--python_out={made}", f"--grpc_python_out={made}", *files])
    # A package, or the installed one of now would be found in its place.
    for package in ("quiver", "quiver/v1"):
        (made / package / "__init__.py").touch()
    bench = ApiBench()
    try:
        program = os.path.join(REPO, "tests", "clients", "old_client.py")
        assert example(environment, program, bench.api, env={**os.environ, "PYTHONPATH": str(made)}) == OLD
    finally:
        bench.close()


def test_units(environment):
    """What needs no router."""
    run([environment, "-m", "unittest", "discover", "-s", os.path.join(SOURCE, "tests")], timeout=600)
