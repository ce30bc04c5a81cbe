"""The Go client: its own tests, and its cases and examples against the running router."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import run, tls, wait_for
from harness.clients import ApiBench, check, conform, names
from harness.router import REPO
from harness.tls import TlsRouter

SOURCE = os.path.join(REPO, "clients", "go")
#: Nothing is fetched here: scripts/setup has done it.
ENV = {**os.environ, "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}


def go(*words, check=True, **kwargs):
    return run(["go", *words], check=check, timeout=900, cwd=SOURCE, env=ENV, **kwargs)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the programs of the module, of which `conformance` is one and each example another."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go in PATH")
    if (able := go("list", "-deps", "-test", "./...", check=False)).returncode != 0:
        pytest.skip("Go cannot build clients/go (scripts/setup fetches the modules): " + " ".join(able.stderr.split()[:40]))
    folder = str(tmp_path_factory.mktemp("go"))
    go("build", "-o", folder + "/", "./conformance", "./examples/...")
    return folder


@pytest.fixture(scope="module")
def router():
    bench = ApiBench()
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def results(built, router):
    """What the runner said of all cases."""
    return conform(router, [os.path.join(built, "conformance")])


def example(built, router, name, *words):
    env = {**os.environ, "QUIVER_API": router.api}
    return run([os.path.join(built, name), *words], timeout=300, env=env).stdout


def test_vet_and_format(built):
    go("vet", "./...")
    assert run(["gofmt", "-l", "."], cwd=SOURCE).stdout == ""


def test_units(built):
    """The client beside a router of routes that forgets, refuses and breaks off: clients/go/*_test.go."""
    go("test", ".")


def test_generated_from_this_schema():
    """clients/go/quiverv1 is what clients/go/generate makes of api/quiver/v1."""
    api = os.path.join(REPO, "api")
    done = run(["sha256sum", "--check", "--quiet", os.path.join(SOURCE, "quiverv1", "SCHEMA")], check=False, cwd=api)
    with open(os.path.join(SOURCE, "quiverv1", "SCHEMA")) as f:
        known = {line.split()[1] for line in f}
    there = {f"quiver/v1/{name}" for name in os.listdir(os.path.join(api, "quiver", "v1")) if name.endswith(".proto")}
    assert done.returncode == 0 and known == there, f"run clients/go/generate\n{done.stdout}{sorted(known ^ there)}"


@pytest.mark.parametrize("name", names())
def test_conforms(results, name):
    check(results, name)


def test_first(built, router):
    """The program with which docs/api.md begins, as it stands there."""
    with open(os.path.join(REPO, "docs", "api.md")) as f:
        program = re.search(r"```go\n(.*?)```", f.read(), re.S).group(1)
    with open(os.path.join(SOURCE, "examples", "first", "main.go")) as f:
        assert program.strip() in f.read(), "docs/api.md and clients/go/examples/first differ"
    out = example(built, router, "first", router.api, "10.0.1.2", "left").splitlines()
    assert out[0].startswith("quiver v")
    assert re.fullmatch(r"203\.0\.113\.0/24 api:example@\S+ \[10\.0\.1\.2 left\]", out[-1]), out


def test_readme(built, router, tmp_path):
    """The program of the README builds and runs in a module of its own."""
    with open(os.path.join(SOURCE, "README.md")) as f:
        program = re.search(r"```go\n(package main\n.*?)```", f.read(), re.S).group(1)
    (tmp_path / "main.go").write_text(program)
    shutil.copy(os.path.join(SOURCE, "go.sum"), tmp_path)
    with open(os.path.join(SOURCE, "go.mod")) as f:
        needs = f.read().replace("module quiver\n", "module example\n").replace("require (", "require (\n\tquiver v0.0.0", 1)
    (tmp_path / "go.mod").write_text(f"{needs}\nreplace quiver => {SOURCE}\n")
    out = run(["go", "run", "."], timeout=900, cwd=tmp_path, env={**ENV, "QUIVER_API": router.api}).stdout
    assert "left" in out and "10.1.0.0/16 static" in out


def test_routes(built, router):
    """Many routes come back as they went. It prints rates, which nobody judges here."""
    for family in [(), ("-6",)]:
        out = example(built, router, "routes", "-count", "100000", *family)
        assert [line.split(" 100000 ")[0] for line in out.splitlines()] == ["set", "read back", "deleted"]


def test_apply(built, router, tmp_path):
    """A document is planned, applied and confirmed; a wrong one is refused with its place, and changes nothing."""
    document = router.router.text
    wanted = tmp_path / "wanted.yaml"
    wanted.write_text(document + "loopbacks: {loop6: {addresses: [10.9.8.7/32]}}\n")
    out = example(built, router, "apply", str(wanted))
    assert "loop6" in out and re.search(r"steps, kept as \d+\n$", out), out
    assert "nothing waits" in router.router.ctl_raw("configuration confirm").stderr
    wanted.write_text(document.replace("10.1.0.0/16", "10.1.0.1/16"))
    done = run([os.path.join(built, "apply"), str(wanted)], check=False, env={**os.environ, "QUIVER_API": router.api})
    assert done.returncode == 1 and "10.1.0.0/16" in done.stderr
    assert router.router.interface("loop6")
    wanted.write_text(document)
    example(built, router, "apply", str(wanted))


def test_watch(built, router):
    """Routes are told as they come and go, also over another start of the router."""
    out = bytearray()
    watch = subprocess.Popen([os.path.join(built, "watch"), "10.77.0.0/16"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "QUIVER_API": router.api})
    os.set_blocking(watch.stdout.fileno(), False)

    def told(text):
        out.extend(watch.stdout.read() or b"")
        return text.encode() in out

    try:
        wait_for("all routes are told", lambda: told("these are all\n"), timeout=30)
        router.ctl("ip route add 10.77.1.0/24 via 10.0.1.2")
        wait_for("a route is told", lambda: told("10.77.1.0/24 static"), timeout=30)
        router.ctl("ip route del 10.77.1.0/24 via 10.0.1.2")
        wait_for("that it has gone", lambda: told("10.77.1.0/24 has gone\n"), timeout=30)
        router.router.kill()
        router.router.start()
        wait_for("all is told anew", lambda: told("all routes follow\nthese are all\n"), timeout=30)
        router.ctl("ip route add 10.77.2.0/24 via 10.0.1.2")
        wait_for("the next route", lambda: told("10.77.2.0/24 static"), timeout=30)
        router.ctl("ip route del 10.77.2.0/24 via 10.0.1.2")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=30) == 0
    finally:
        watch.kill()
        watch.stdout.close()


def test_tls(built, tmp_path):
    """Over a network: certificates on both sides, and why somebody is refused."""
    router = TlsRouter(tmp_path)
    try:
        def ends(*words):
            done = run([os.path.join(built, "tls"), *words], check=False, timeout=120)
            return done.returncode, done.stdout + done.stderr

        told = tls.check(router, ends)
        assert "unknown certificate authority" in told["foreign"], told
        assert "expired certificate" in told["expired"], told
        assert "certificate signed by unknown authority" in told["no router to trust"], told
        assert "not another.example.net" in told["another router"], told
        assert "doesn't contain any IP SANs" in told["address"], told
        status, text = ends(*router.words("nobody"))
        assert status == 1 and "nobody.crt" in text, text
    finally:
        router.close()


def test_no_router(built, tmp_path):
    """Who finds no router is told where it was looked for."""
    done = run([os.path.join(built, "first"), str(tmp_path / "none.sock"), "10.0.1.2", "left"], check=False)
    assert done.returncode == 1 and f"no router at {tmp_path}/none.sock: " in done.stderr, done.stderr
