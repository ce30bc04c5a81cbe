"""Counters as another process reads them: by the words of docs/counters.md, against what the router's commands say."""

import mmap
import os
import re

import pytest
from frames import *  # noqa: F403
from frames import through4
from harness import CtlError
from harness.router import REPO


def reader():
    """The reader that the document shows."""
    with open(os.path.join(REPO, "docs", "counters.md")) as f:
        code = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    names = {}
    exec(code, names)  # noqa: S102
    return names["counters"]


def test_another_process_reads_them_by_name(pair):
    a, b = pair.ports["left"], pair.ports["right"]
    listed = pair.router.json("show counters")
    assert listed["file"].startswith(f"/proc/{pair.router.process.pid}/fd/")
    found, names, value = reader()(listed["file"])
    assert list(found) == [c["name"] for c in listed["counters"]]
    assert all(c["meaning"] and c["unit"] in ("packets", "bytes", "clocks", "times") for c in listed["counters"])
    indexes = {i["name"]: i["index"] for i in pair.router.json("show hardware-interfaces")}
    reason = names["reason"].index("ip4-input/ip4-bad-checksum")

    def counts():
        return (value("interface-rx/packets", indexes[a.name]), value("interface-tx/packets", indexes[b.name]),
                value("interface-drop/packets", indexes[a.name], reason), value("reason", reason))

    before = counts()
    sent, want = through4(a, b)
    broken = bytearray(bytes(sent))
    broken[24] ^= 1
    pair.left.send(*[bytes(broken)] * 7, sent)
    pair.right.expect(want)
    more = [now - then for now, then in zip(counts(), before)]
    # The hosts' own kernels may say something meanwhile.
    assert more[0] >= 8 and more[1] >= 1 and more[2:] == [7, 7], more


def test_a_command_shows_the_values_of_one(pair):
    found, names, value = reader()(pair.router.json("show counters")["file"])
    rows = pair.router.json("show counters punt/passed") + pair.router.json("show counters node/packets")
    assert rows and all(r["value"] == sum(w["value"] for w in r["writers"]) for r in rows)
    assert {r["of"][0]["name"] for r in rows} <= set(names["punt-class"]) | set(names["node"])
    rows = {r["of"][0]["name"]: r["value"] for r in pair.router.json("show counters node/packets")}
    assert value("node/packets", names["node"].index("ip4-input")) >= rows["ip4-input"]
    text = pair.router.ctl("show counters node/packets")
    assert re.search(r"\d+  ip4-input$", text, re.M), text


def test_what_is_unknown_is_refused_and_the_file_cannot_be_written(pair):
    with pytest.raises(CtlError, match="no counter"):
        pair.router.ctl("show counters interface-rx/cakes")
    path = pair.router.json("show counters")["file"]
    with open(path, "rb") as f, pytest.raises(PermissionError):
        mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
