"""Fixtures of all Python tests."""

import os
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import harness  # noqa: E402
from harness.netns import remove_stale  # noqa: E402


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root", 2)
    if not os.access(harness.BINARY, os.X_OK):
        pytest.exit(f"no binary {harness.BINARY}: cargo build --release -p quiver, or set QUIVER_BIN", 2)
    remove_stale()


def pytest_runtest_logreport(report):
    """Names what failed in the file of QUIVER_FAILED, for `scripts/test` to try again alone."""
    if report.failed and (file := os.environ.get("QUIVER_FAILED")):
        with open(file, "a") as f:
            f.write(f"tests/{report.nodeid}\n")


@pytest.fixture(autouse=True)
def every_buffer_comes_back():
    """Before each test the wires are empty; after it the routers that run hold no buffer and have not panicked."""
    for b in harness.Bench.open:
        for wire in b.wires.values():
            wire.drain()
    yield
    for router in list(harness.Router.running):
        router.check_quiet()


@pytest.fixture
def bench(request):
    """Makes a router with its wires; everything is gone after the test."""
    made = []

    def make(*args, **kwargs):
        made.append(harness.Bench(*args, **kwargs))
        return made[-1]

    yield make
    for b in reversed(made):
        b.close()


@pytest.fixture
def public_binary():
    """The binary where everybody may run it."""
    folder = f"/tmp/quiver-test-bin-{os.getpid()}"
    os.makedirs(folder, exist_ok=True)
    shutil.copy(harness.BINARY, folder)
    os.chmod(folder, 0o755)
    os.chmod(f"{folder}/{os.path.basename(harness.BINARY)}", 0o755)
    yield f"{folder}/{os.path.basename(harness.BINARY)}"
    shutil.rmtree(folder)
