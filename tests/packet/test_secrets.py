"""Secrets are shown to who may configure, and to nobody else; and who has given commands is told, without their secrets."""

import json
import os
import stat

import pytest
from harness import CtlError, run, wait_for
from test_state import Kept

MEMIF = 'memifs:\n  memif1/0: {socket: "@secrets", secret: s3cret}\n'
READ, OPERATE, CONFIGURE = "games", "daemon", "news"


class Roles(Kept):
    """A router whose roles are those of users of this machine."""

    def text(self, n, more=""):
        roles = ", ".join(f"{role}: {{users: [{user}]}}" for role, user in
                          (("read", READ), ("operate", OPERATE), ("configure", CONFIGURE)))
        return super().text(n, MEMIF + more).replace('ctl: "@socket@"', f'ctl: "@socket@", roles: {{{roles}}}')

    def by(self, user, *words, check=True):
        """What a command says to a user."""
        done = run(["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", self.public, words[0], "-s", self.router.socket, *words[1:]],
                   check=False)
        if check and done.returncode != 0:
            raise CtlError(done.stderr + done.stdout)
        return done.stdout + done.stderr


@pytest.fixture
def roles(tmp_path, public_binary):
    r = Roles(tmp_path)
    r.public = public_binary
    yield r
    assert "panic" not in r.router.log()
    r.router.stop()


def test_no_way_out_shows_a_secret_to_who_may_not_configure(roles):
    roles.quiver("apply", roles.file(2, "# nothing\n"))
    roles.quiver("ctl", "set interface description loop0 changed")
    roles.quiver("save")
    changed = roles.tmp / "changed.yaml"
    changed.write_text(roles.text(3).replace("@socket@", roles.router.socket).replace("s3cret", "other"))
    os.chmod(changed, 0o644)
    public = f"/tmp/quiver-test-secrets-{os.getpid()}.yaml"
    with open(public, "w") as f:
        f.write(changed.read_text())
    ways = [("dump",), ("ctl", "show configuration"), ("ctl", "show configuration --json"), ("ctl", "configuration get"),
            ("ctl", "configuration get memifs"), ("ctl", "configuration get memifs.memif1/0.secret"), ("history", "1", "--document"),
            ("history", "2", "--document"), ("history", "3", "--document"), ("ctl", "configuration history 2 document --json")]
    told = [("history",), ("history", "2"), ("diff", public), ("plan", public), ("ctl", "show configuration diff"), ("ctl", "show memif"),
            ("ctl", f"configuration plan {public} exact --json"), ("ctl", "show interface"), ("ctl", "show hardware-interfaces"), ("ctl", "show log")]
    try:
        for user in (READ, OPERATE):
            for way in ways:
                said = roles.by(user, *way)
                assert "s3cret" not in said and "(hidden)" in said, (user, way, said)
            for way in told:
                assert "s3cret" not in roles.by(user, *way), (user, way)
        for way in ways:
            said = roles.by(CONFIGURE, *way)
            assert "s3cret" in said and "(hidden)" not in said, (way, said)
        # Comments of a document stay as they are.
        assert "# document 2: a comment of its own" in roles.by(READ, "history", "2", "--document")
        # What was shown so is not taken for the secret.
        hidden = roles.by(READ, "dump")
        with open(public, "w") as f:
            f.write(hidden)
        before = roles.quiver("dump").stdout
        for user, verb in ((READ, "plan"), (READ, "diff"), (CONFIGURE, "apply")):
            said = roles.by(user, verb, public, check=False)
            assert "hidden-secret" in said and "memifs.memif1/0.secret" in said, said
        done = roles.by(CONFIGURE, "ctl", "configuration set memifs.memif1/0.secret (hidden)", check=False)
        assert "nothing was changed" in done and "hidden-secret" not in before, done
        done = roles.quiver("ctl", "create interface memif id 3 socket-id 1 secret (hidden)", check=False)
        assert done.returncode != 0 and "stands for a secret" in done.stderr, done.stderr
        assert roles.quiver("dump").stdout == before
    finally:
        os.unlink(public)
    # What is kept has the secret, for the router's user alone.
    files = sorted(roles.folder.glob("*.yaml"))
    assert files and all("s3cret" in f.read_text() and stat.S_IMODE(f.stat().st_mode) == 0o600 for f in files)
    assert stat.S_IMODE(roles.folder.stat().st_mode) == 0o700
    roles.again()
    assert "secret: s3cret" in roles.quiver("dump").stdout


def test_commands_stand_in_log_and_history_with_their_authors_and_without_secrets(roles):
    # Only root may name a socket.
    said = roles.quiver("ctl", "create interface memif id 7 socket-id 1 secret s3cr3t").stdout
    assert "memif1/7" in said
    roles.quiver("ctl", 'configuration set memifs.memif1/8 "{socket: \'@secrets\', secret: s3cr3t}" plan')
    roles.by(READ, "ctl", "set interface state loop0 up", check=False)
    roles.by(READ, "ctl", "show interface")
    roles.by(CONFIGURE, "ctl", "set interface state loop0 up")
    roles.quiver("ctl", "set interface state nowhere up", check=False)
    entries = roles.router.json("show command history")
    assert [(e["name"], e["role"], e["outcome"], e["count"], e["command"]) for e in entries] == [
        ("root", "admin", "done", 1, "create interface memif id 7 socket-id 1 secret (hidden)"),
        ("root", "admin", "done", 1, "configuration set memifs.memif1/8 (hidden) plan"),
        (READ, "read", "refused", 1, "set interface state loop0 up"),
        (CONFIGURE, "configure", "done", 1, "set interface state loop0 up"),
    ], entries
    assert all("quiver[" in e["from"] and e["user"] == int(run(f"id -u {e['name']}").stdout) for e in entries)
    log = roles.router.log()
    uid = run(f"id -u {CONFIGURE}").stdout.strip()
    assert f"command: {CONFIGURE} (uid {uid}, role configure, " in log and "secret (hidden)" in log
    assert f"command refused: {READ} (" in log and "command: root (uid 0, role admin, " in log
    assert "s3cr3t" not in log + json.dumps(entries) + roles.quiver("ctl", "show control").stdout
    # A save says whose commands it keeps, and only since the last one.
    roles.quiver("save")
    saved = roles.router.json("configuration history")[0]
    assert saved["kind"] == "save" and [(c["name"], c["count"]) for c in saved["commands"]] == [("root", 1), (CONFIGURE, 1)], saved
    assert f"with commands of root (1), {CONFIGURE} (1)" in roles.quiver("history", str(saved["number"])).stdout
    roles.quiver("ctl", "set interface state loop0 down")
    roles.quiver("save")
    assert [(c["name"], c["count"]) for c in roles.router.json("configuration history")[0]["commands"]] == [("root", 1)]


def test_a_script_of_very_many_commands_leaves_few_lines(roles):
    script = roles.tmp / "many.cli"
    script.write_text("".join(f"ip route add 10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}/32 via drop\n" for n in range(100_000)))
    before = len(roles.router.log().splitlines())
    roles.quiver("ctl", f"exec {script}")
    # Not those that make routes in one turn, but one by one.
    for n in range(30):
        script.write_text("".join(f"set interface description loop0 n{n}-{i}\n" for i in range(100)))
        roles.quiver("ctl", f"exec {script}")

    def counted():
        entries = roles.router.json("show command history 1200")
        return sum(e["count"] for e in entries) == 100_000 + 1 + 30 * 101 and entries
    entries = wait_for("what was counted is told", counted)
    assert len(entries) < 1000
    log = roles.router.log().splitlines()[before:]
    lines = [line for line in log if "command: root" in line]
    assert len(lines) < 700 and any(" more within " in line for line in lines), lines[:20]
