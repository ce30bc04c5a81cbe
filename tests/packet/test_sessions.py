"""The sessions in the docs, replayed against a router: each command of a `console` block answers what stands there."""

import os
import re
import subprocess

import pytest
from harness import BINARY, Netns, Router, veth
from harness.router import REPO

# With UPDATE_DOCS the answers are written into the page instead.
UPDATE = os.environ.get("UPDATE_DOCS")

# The document that the router of a page starts with, and the Linux devices that it has.
PAGES = {
    "engine.md": ("running.yaml", []),
    "vppcfg.md": ("hippo.yaml", ["enp3s0f0", "enp3s0f1", "enp12s0f0", "enp12s0f1"]),
}


def sessions(text):
    """The documents of a page by name, and its commands with what they answer."""
    # The comment with its name is a line of the file: errors tell places.
    files = {name: f"# {name}\n{body}" for name, body in re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.S)}
    told = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, answer = part.partition("\n")
            told.append((line, answer))
    return files, told


def plain(text, folder):
    """Times and processes are of each run their own, and so is the width of their columns."""
    text = text.replace(f"{folder}/", "").replace("/etc/quiver/", "")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", re.sub(r"quiver\[\d+\]", "PROCESS", text))
    return [re.sub(r"  +", "  ", line).strip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_the_sessions_of_a_page(page, tmp_path):
    start, devices = PAGES[page]
    with open(f"{REPO}/docs/{page}") as f:
        text = f.read()
    files, told = sessions(text)
    assert start in files and len(told) >= 4
    inside, outside = Netns("r"), Netns("w")
    router = None
    try:
        for device in devices:
            veth(inside, device, outside, device, mtu=9000)
        own = f"quiver: {{state: {tmp_path}/state, sockets: {{ctl: \"@socket@\"}}}}\n"
        router = Router(inside, files[start] + own)
        for name, document in files.items():
            (tmp_path / name).write_text(document + own.replace("@socket@", router.socket))
        (tmp_path / "bin").mkdir()
        command = tmp_path / "bin" / "quiver"
        command.write_text(f'#!/bin/sh\nexec ip netns exec {inside.name} {BINARY} "$@"\n')
        command.chmod(0o755)
        known = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "QUIVER_CTL": router.socket}
        status, at = 0, 0
        for line, answer in told:
            done = subprocess.run(["bash", "-c", f"(exit {status}); {line}"], cwd=tmp_path, env=known, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            status, got = done.returncode, done.stdout.replace(router.file, f"{tmp_path}/{start}")
            if UPDATE:
                at = text.index(f"$ {line}\n", at) + len(f"$ {line}\n")
                text = text[:at] + got.replace(str(tmp_path), "/etc/quiver") + text[at + len(answer):]
            else:
                assert plain(got, tmp_path) == plain(answer, tmp_path), f"$ {line}\n{got}"
        if UPDATE:
            with open(f"{REPO}/docs/{page}", "w") as f:
                f.write(text)
    finally:
        if router:
            router.stop()
        inside.delete()
        outside.delete()
