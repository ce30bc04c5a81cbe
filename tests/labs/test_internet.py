"""The Internet in small: the figures of benchmarks/internet.py with a part of the real table (there the whole is measured)."""

import json
import os
import shutil
import sys

import pytest
from harness import BINARY, run
from harness.router import REPO

TABLES = os.environ.get("QUIVER_TABLES", os.path.join(os.path.dirname(REPO), "shared", "tables"))


@pytest.mark.skipif(not shutil.which("bird"), reason="no BIRD (Debian's bird2)")
@pytest.mark.skipif(not os.path.isdir(TABLES), reason="no tables")
def test_the_table_the_updates_a_kill_and_the_end_of_the_session():
    script = os.path.join(REPO, "benchmarks", "internet.py")
    done = run([sys.executable, script, "--tables", TABLES, "--binary", BINARY, "--share", "0.02", "--updates", "3000",
                "--only", "table,updates,kill,session"], timeout=300)
    found = {f["figure"]: f for f in map(json.loads, done.stdout.splitlines())}
    for name in ("table", "updates", "kill", "session"):
        assert found[name]["agree"], found[name]
    table, updates, kill, session = (found[n] for n in ("table", "updates", "kill", "session"))
    assert table["routes"] > 20_000 and table["forwarded"] is not None
    # What is on its way while the counts are read is no loss.
    assert abs(updates["lost"]) < 1 + updates["sent"] // 1000, updates
    assert kill["session_stays"] and kill["connected"] < 3 and kill["default"] < 3 and kill["all"] < 5, kill
    assert session["left"] <= 1
