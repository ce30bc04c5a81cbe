"""The Rust client: its runner through the cases of all clients, against the running router."""

import os
import shutil

import pytest

from harness import BINARY, run
from harness.clients import ApiBench, check, conform, names
from harness.router import REPO


@pytest.fixture(scope="module")
def built():
    """The folder with the programs of the client's examples, of which `conformance` is one."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo in PATH")
    target = os.path.dirname(os.path.dirname(BINARY))
    run(["cargo", "build", "--quiet", "--package", "quiver-client", "--examples", "--target-dir", target], cwd=REPO, timeout=1800)
    return os.path.join(target, "debug", "examples")


@pytest.fixture(scope="module")
def router():
    bench = ApiBench()
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def results(built, router):
    """What the runner said of all cases."""
    return conform(router, [os.path.join(built, "conformance")])


@pytest.mark.parametrize("name", names())
def test_conforms(results, name):
    check(results, name)
