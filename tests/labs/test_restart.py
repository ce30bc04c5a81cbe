"""Pairs in Linux outlive the router: a start finds them as they were left, and what daemons have on them."""

import contextlib
import os
import re
import signal
import subprocess

import pytest
from harness import CtlError, run, veth, wait_for
from tools import hears, seconds


class Site:
    """A router with two pairs and a loopback's in a namespace of their own."""

    def __init__(self, lab, **more):
        self.ports, self.linux = lab.namespace("r"), lab.namespace("cp")
        self.linux.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0")
        self.a = lab.cable(self.ports, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
        self.b = lab.cable(self.ports, "right", lab.host("b", ["10.0.2.2/24", "20.0.0.1/32", "2001:db8:2::2/64"], ["10.0.2.1"]))
        self.config = {
            "interfaces": {"left": {"lcp": "e0", "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                           "right": {"lcp": "e1", "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
            "loopbacks": {"loop0": {"lcp": "lo0", "addresses": ["10.9.9.9/32"]}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True},
            "quiver": {"dad": "off"}}
        self.router = lab.router(self.ports, self.config, **more)

    def numbers(self):
        return {p["host-if"]: p["ifindex"] for p in self.router.json("show lcp")["pairs"]}

    def again(self, how, old="", new=""):
        """Ends it and starts it anew, with another text in its configuration."""
        self.router.kill(how)
        with open(self.router.file) as f:
            text = f.read()
        assert old in text
        with open(self.router.file, "w") as f:
            f.write(text.replace(old, new))
        self.router.start()

    def names(self):
        return {line.split()[0] for line in self.linux.ip("-br link").stdout.splitlines()} - {"lo"}


@pytest.fixture
def site(lab):
    return Site(lab)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_all_is_as_it_was_left(site, how):
    """Numbers, addresses, routes of all kinds; and the order of interfaces, whenever their pairs were made."""
    linux, r = site.linux, site.router
    r.ctl("lcp delete left")
    r.ctl(f"lcp create left host-if e0 netns {linux.name}")
    linux.ip("route add 20.0.0.0/24 via 10.0.2.2 proto bird")
    linux.ip("-6 route add 2001:db8:20::/48 via 2001:db8:1::2 proto bird")
    linux.ip("address add 10.77.0.1/24 dev e1")
    wait_for("it is forwarded by", lambda: hears(site.a, "20.0.0.1"))

    def seen():
        order = [i["name"] for i in r.json("show interface")]
        text = [linux.ip(what).stdout for what in ("-br address show dev e1", "route", "-6 route show dev e0")]
        return site.numbers(), order, text
    before = seen()
    site.again(how)
    wait_for("all is as it was", lambda: seen() == before)
    wait_for("it is forwarded by again", lambda: hears(site.a, "20.0.0.1"))
    assert f"kernel:bird@{linux.name}" in r.ctl("fib why 2001:db8:20::1")
    wait_for("both agree", lambda: r.json("fib diff kernel") == [])
    # Linux speaks on it.
    assert "1 received" in linux.run("ping -c 1 -W 2 10.0.1.2", check=False).stdout


def test_what_is_configured_no_longer_goes(site):
    """Addresses that Quiver gave and pairs that it made; others' addresses stay, and nothing goes with a start that is refused."""
    linux = site.linux
    linux.ip("address add 10.77.0.1/24 dev e1")
    numbers = site.numbers()
    site.router.kill()
    with open(site.router.file, "a") as f:
        f.write("routes: [60.0.0.0/8 via 10.0.2.9 nothing]\n")
    site.router.start(wait=False)
    assert site.router.process.wait(timeout=20) == 1
    assert site.names() == {"e0", "e1", "lo0"}
    site.again(signal.SIGKILL, "routes: [60.0.0.0/8 via 10.0.2.9 nothing]\n")
    assert site.numbers() == numbers
    site.again(signal.SIGKILL, '"10.0.2.1/24"', '"10.0.3.1/24"')
    text = linux.ip("address show dev e1").stdout
    assert "10.0.3.1/24" in text and "10.77.0.1/24" in text and "10.0.2.1" not in text, text
    site.again(signal.SIGTERM, '"lcp": "lo0", ')
    assert site.names() == {"e0", "e1"}
    assert "lo0" in site.router.log()
    site.router.ctl("lcp delete left")
    assert site.names() == {"e1"}
    site.router.ctl("delete host-interface name right")
    assert site.names() == set()


def test_what_is_another_s_is_left_alone(site):
    linux = site.linux
    linux.ip("tuntap add foreign mode tap")
    site.router.ctl("lcp delete left")
    with pytest.raises(CtlError, match="foreign is taken.*has not made"):
        site.router.ctl(f"lcp create left host-if foreign netns {linux.name}")
    site.again(signal.SIGKILL, '"e0"', '"e9"')
    assert site.names() == {"foreign", "e1", "e9", "lo0"}


def test_a_device_that_goes_and_comes_back_works_with_its_pair(site):
    """The port is deleted and made anew, and the pair is, too."""
    s = site
    s.linux.ip("route add 20.0.0.0/24 via 10.0.2.2 proto bird")
    wait_for("it is forwarded by", lambda: hears(s.a, "20.0.0.1"))
    s.ports.ip("link del right")
    wait_for("Linux sees no carrier", lambda: "NO-CARRIER" in s.linux.ip("link show e1").stdout)
    veth(s.ports, "right", s.b, "eth0")
    s.b.configure("eth0")
    wait_for("Linux sees a carrier", lambda: "LOWER_UP" in s.linux.ip("link show e1").stdout)
    wait_for("it is forwarded by again", lambda: hears(s.a, "20.0.0.1"), timeout=20)
    assert "1 received" in s.linux.run("ping -c 1 -W 2 10.0.2.2", check=False).stdout
    number = s.numbers()["e1"]
    s.linux.ip("link del e1")
    wait_for("the pair is made anew", lambda: s.numbers()["e1"] not in (None, number), timeout=20)
    assert "10.0.2.1/24" in wait_for("its address is there", lambda: (t := s.linux.ip("address show e1").stdout) and "10.0.2.1" in t and t)
    s.linux.ip("route add 20.0.0.0/24 via 10.0.2.2 proto bird")
    wait_for("it is forwarded by again", lambda: hears(s.a, "20.0.0.1"), timeout=20)
    # It is found again as any.
    number = s.numbers()["e1"]
    s.again(signal.SIGKILL)
    assert s.numbers()["e1"] == number


BIRD = """
router id 10.0.0.{n};
log "{log}" all;
protocol device {{ scan time 1; }}
protocol static {{ ipv4; {routes} }}
protocol kernel k4 {{ ipv4 {{ export where source != RTS_STATIC; }}; }}
protocol kernel k6 {{ ipv6 {{ export all; }}; }}
protocol ospf v2 o4 {{ ipv4 {{ export none; }}; area 0 {{ interface "{wan}" {{ type ptp; hello 1; dead 10; }}; }}; debug {{ events }}; }}
protocol ospf v3 o6 {{ ipv6 {{ export none; }}; area 0 {{ interface "{wan}" {{ type ptp; hello 1; dead 10; }}; }}; debug {{ events }}; }}
protocol bgp b4 {{
  local 10.0.2.{n} as 6500{n}; neighbor 10.0.2.{other} as 6500{other}; hold time 9; connect delay time 1;
  ipv4 {{ import all; export all; next hop self; }};
}}
"""


@contextlib.contextmanager
def bird(ns, folder, n, wan, routes=""):
    """BIRD number n of two; a function that asks it."""
    conf, socket = folder / f"{n}.conf", folder / f"{n}.ctl"
    conf.write_text(BIRD.format(n=n, other=3 - n, wan=wan, routes=routes, log=folder / f"{n}.log"))
    p = ns.start(["bird", "-f", "-c", str(conf), "-s", str(socket), "-P", str(folder / f"{n}.pid")], stdout=subprocess.DEVNULL)
    try:
        wait_for("BIRD answers", lambda: p.poll() is None and socket.exists())
        yield lambda line: run(["birdc", "-s", str(socket), *line.split()], check=False).stdout
    finally:
        p.send_signal(signal.SIGTERM)
        p.wait(timeout=10)


@pytest.mark.parametrize("how", ["killed", "restarted"])
def test_no_session_of_a_daemon_is_lost(lab, tmp_path, how):
    """BIRD beside Quiver has OSPFv2, OSPFv3 and BGP with a BIRD behind `right`. None of them notices, and traffic is back within a second."""
    s = Site(lab, options=("--supervise",))
    s.b.run("sysctl -qw net.ipv4.ip_forward=1")
    with bird(s.linux, tmp_path, 1, "e1") as here, bird(s.b, tmp_path, 2, "eth0", "route 20.0.0.0/24 unreachable;") as there:
        def up():
            text = here("show protocols")
            full = all("Full/" in here(f"show ospf neighbors {o}") for o in ("o4", "o6"))
            return full and re.search(r"^b4 .*Established", text, re.M)
        wait_for("all sessions are up", up, timeout=30)
        wait_for("what BIRD has learnt answers", lambda: hears(s.a, "20.0.0.1"), timeout=20)

        def since():
            """When the sessions came up on both sides, and how often neighbors have gone."""
            bgp = [seconds(re.search(r"^b4 .*$", ask("show protocols"), re.M)[0].split()[4]) for ask in (here, there)]
            return bgp, [(tmp_path / f"{n}.log").read_text().count("changed state from Full") for n in (1, 2)]
        before, number = since(), s.numbers()
        events = s.linux.start("ip monitor link")
        flood = s.a.start("ping -n -q -i 0.01 -w 6 20.0.0.1")
        supervisor = s.router.process.pid
        with open(f"/proc/{supervisor}/task/{supervisor}/children") as f:
            child = int(f.read())
        if how == "killed":
            os.kill(child, signal.SIGKILL)
        else:
            os.kill(supervisor, signal.SIGUSR1)
        text = flood.communicate(timeout=20)[0]
        sent, received = (int(n) for n in re.findall(r"(\d+) packets transmitted, (\d+)", text)[0])
        events.kill()
        assert received > sent - 100, text
        assert up()
        (came, gone), (came_before, gone_before) = since(), before
        assert came == pytest.approx(came_before, abs=0.1) and gone == gone_before
        assert s.numbers() == number
        assert "NO-CARRIER" not in events.stdout.read()
        wait_for("both agree", lambda: s.router.json("fib diff kernel") == [])
