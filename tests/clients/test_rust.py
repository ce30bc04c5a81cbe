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
    # Where the router was built, if it was: the binary may as well be an installed one, beside which nothing is to be written.
    target = os.path.dirname(os.path.dirname(os.path.abspath(BINARY)))
    if not os.path.exists(os.path.join(target, "CACHEDIR.TAG")):
        target = os.path.join(REPO, "target")
    words = ["--quiet", "--locked", "--package", "quiver-client", "--examples", "--target-dir", target]
    run(["cargo", "build", *words], cwd=REPO, timeout=1800)
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
