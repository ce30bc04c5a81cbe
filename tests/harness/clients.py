"""What the tests of all clients stand on: a router with its API, and the common list of cases (clients/conformance.md)."""

import json
import os
import subprocess
import tempfile
import threading

import pytest

from .router import REPO, Bench, Router

CASES = os.path.join(REPO, "clients", "conformance.json")


def documents():
    """The documents of the list, as its rules make them."""
    with open(CASES) as f:
        given = json.load(f)["documents"]

    def text(name):
        d = given[name]
        out = text(d["of"]) if "of" in d else ""
        for old, new in d.get("swap", {}).items():
            assert old in out, f"document {name}: {old} is not in {d['of']}"
            out = out.replace(old, new, 1)
        return out + "".join(line + "\n" for line in (*d.get("lines", ()), *d.get("add", ())))

    return {name: text(name) for name in given}


def names():
    """The names of all cases."""
    with open(CASES) as f:
        return [case["name"] for case in json.load(f)["cases"]]


class ApiBench(Bench):
    """A bench whose router runs on a document of the list, keeps what is applied, and serves its API at `api`."""

    def __init__(self, document="base", more=""):
        self.folder = tempfile.TemporaryDirectory(prefix="quiver-api-")
        self.api = os.path.join(self.folder.name, "api.sock")
        super().__init__(documents()[document] + more, start=False)
        options = ["--state", os.path.join(self.folder.name, "state"), "--api", self.api]
        self.router = Router(self.inside, self.config, options=options)
        self.cases = os.path.join(self.folder.name, "cases.json")
        with open(CASES) as f, open(self.cases, "w") as out:
            out.write(f.read().replace("@socket@", self.router.socket))

    def close(self):
        super().close()
        self.folder.cleanup()


def conform(bench, command, timeout=600, **kwargs):
    """Runs a runner's command through the cases: a mapping of names to `ok`, `FAIL ...` or `skip ...`."""
    runner = subprocess.Popen(
        [*command, bench.api, bench.cases], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    )
    clock = threading.Timer(timeout, runner.kill)
    clock.start()
    results, rest = {}, []
    try:
        for line in runner.stdout:
            word, _, what = line.rstrip("\n").partition(" ")
            if word == "router":
                bench.router.kill() if what == "kill" else bench.router.start()
                runner.stdin.write("done\n")
                runner.stdin.flush()
            elif word in ("ok", "FAIL", "skip"):
                name, _, why = what.partition(": ")
                results[name] = f"{word} {why}".rstrip()
            else:
                rest.append(line)
        status = runner.wait()
    finally:
        clock.cancel()
        runner.kill()
        runner.stdin.close()
        runner.stdout.close()
    failed = any(r.startswith("FAIL") for r in results.values())
    assert status == (1 if failed else 0), f"{' '.join(command)} ended with {status}:\n{''.join(rest)}"
    return results


def check(results, name):
    """Fails, or skips, as a case did."""
    result = results.get(name, "FAIL it was not run")
    if result.startswith("skip"):
        pytest.skip(result.removeprefix("skip "))
    assert result == "ok", result
