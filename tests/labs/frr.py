"""FRR's daemons in a namespace, with what they say."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

from harness import run, wait_for

FRR = "/usr/lib/frr"


class Frr:
    """zebra and others in a namespace, each with a configuration of its own."""

    def __init__(self, netns):
        self.netns, self.running = netns, {}
        self.dir = tempfile.mkdtemp(prefix="quiver-frr-")
        shutil.chown(self.dir, "frr", "frr")

    def start(self, zebra="", fpm=False, **daemons):
        """Starts them, zebra first; what each is to be told by its name."""
        for daemon, lines in {"zebra": zebra, **daemons}.items():
            conf = os.path.join(self.dir, f"{daemon}.conf")
            with open(conf, "w") as f:
                f.write(lines)
            shutil.chown(conf, "frr", "frr")
            words = [f"{FRR}/{daemon}", "-f", conf, "-i", f"{self.dir}/{daemon}.pid", "-z", f"{self.dir}/zserv", "--vty_socket", self.dir,
                     "-P", "0", "--log", f"file:{self.dir}/{daemon}.log"]
            if fpm and daemon == "zebra":
                words += ["-M", "dplane_fpm_nl"]
            if daemon == "bfdd":
                words += ["--bfdctl", f"{self.dir}/bfdd.sock"]
            self.running[daemon] = self.netns.start(words, stdout=subprocess.DEVNULL)
            wait_for(f"{daemon} answers", lambda d=daemon: os.path.exists(f"{self.dir}/{d}.vty"), timeout=20)
        return self

    def configure(self, daemon, *lines):
        """Tells one of them more."""
        words = ["vtysh", "--vty_socket", self.dir, "-d", daemon, "-c", "configure terminal"]
        for line in lines:
            words += ["-c", line]
        return run(words, stdin=subprocess.DEVNULL).stdout

    def ask(self, daemon, line):
        """What `show ...` answers."""
        return run(["vtysh", "--vty_socket", self.dir, "-d", daemon, "-c", line], stdin=subprocess.DEVNULL, check=False).stdout

    def json(self, daemon, line):
        """The same as JSON; nothing where there is none."""
        text = self.ask(daemon, f"{line} json")
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return None

    def log(self, daemon):
        """What it has written."""
        with open(f"{self.dir}/{daemon}.log") as f:
            return f.read()

    def stop(self, how=signal.SIGKILL):
        """Ends them all, zebra last."""
        for p in reversed(self.running.values()):
            p.send_signal(how)
            p.wait(timeout=10)
        self.running = {}
        for name in os.listdir(self.dir):
            if name.endswith((".vty", ".sock", "zserv")):
                os.unlink(os.path.join(self.dir, name))

    def close(self):
        """Ends them, and takes their files away."""
        self.stop()
        shutil.rmtree(self.dir)
