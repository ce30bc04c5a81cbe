"""Pairs in Linux (lcp): what hosts and routing daemons have of a router whose own side is Linux.

    host A - lan [one] wan --- wan [two] lan - host B         each router's pairs are in a namespace of its own: `linux`
    10.0.1.2               192.168.12.1  .2       10.0.2.2
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager

import pytest
from harness import run, veth, wait_for
from harness.netns import PREFIX
from harness.router import BINARY, REPO
from tools import iperf_server, seconds, tcp

BIRD = """
router id {id};
log stderr all;
protocol device {{ scan time 1; }}
protocol static s4 {{ ipv4; route 10.99.{n}.0/24 blackhole; }}
protocol static s6 {{ ipv6; route 2001:db8:99:{n}::/64 blackhole; }}
protocol kernel k4 {{ ipv4 {{ export all; }}; }}
protocol kernel k6 {{ ipv6 {{ export all; }}; }}
protocol ospf v2 o4 {{
  ipv4 {{ export where source = RTS_STATIC; }};
  area 0 {{ interface "e-wan" {{ type {kind}; hello 1; dead count 4; }}; interface "e-lan" {{ stub; }}; }};
}}
protocol ospf v3 o6 {{
  ipv6 {{ export where source = RTS_STATIC; }};
  area 0 {{ interface "e-wan" {{ type {kind}; hello 1; dead count 4; }}; interface "e-lan" {{ stub; }}; }};
}}
"""


class Side:
    """A router, number `n`, its pairs, and the host behind it."""

    def __init__(self, lab, n, inside, linux):
        self.n, self.inside, self.linux = n, inside, linux
        self.host = lab.cable(inside, "lan", lab.host(f"h{n}", [f"10.0.{n}.2/24", f"2001:db8:{n}::2/64"],
                                                      [f"10.0.{n}.1", f"2001:db8:{n}::1"]))
        self.router = lab.router(inside, {
            "interfaces": {
                "lan": {"lcp": "e-lan", "addresses": [f"10.0.{n}.1/24", f"2001:db8:{n}::1/64"]},
                "wan": {"lcp": "e-wan", "addresses": [f"192.168.12.{n}/24", f"2001:db8:12::{n}/64"]},
            },
            "linux-cp": {"default-netns": linux.name, "lcp-sync": True},
            "quiver": {"dad": "off"}})

    @contextmanager
    def bird(self, kind):
        """BIRD among the pairs; a function that asks it."""
        with tempfile.TemporaryDirectory() as d:
            conf, socket = os.path.join(d, "bird.conf"), os.path.join(d, "bird.ctl")
            with open(conf, "w") as f:
                f.write(BIRD.format(id=f"192.168.12.{self.n}", n=self.n, kind=kind))
            p = self.linux.start(["bird", "-f", "-c", conf, "-s", socket, "-P", os.path.join(d, "pid")], stdout=subprocess.DEVNULL)
            try:
                wait_for("BIRD answers", lambda: p.poll() is None and os.path.exists(socket))
                yield lambda line: run(["birdc", "-s", socket, *line.split()], check=False).stdout
            finally:
                p.send_signal(signal.SIGTERM)
                p.wait(timeout=10)


class Two:
    """The topology."""

    def __init__(self, lab):
        ns = [lab.namespace(f"r{n}") for n in (1, 2)]
        linux = [lab.namespace(f"l{n}") for n in (1, 2)]
        for n in linux:
            # As a host has it, but for addresses that take a second to be sure of.
            n.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0"
                  " net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0")
        veth(ns[0], "wan", ns[1], "wan")
        self.one, self.two = (Side(lab, n, ns[n - 1], linux[n - 1]) for n in (1, 2))


@pytest.fixture(scope="module")
def two(module_lab):
    return Two(module_lab)


def test_linux_answers(two):
    """`ip` shows the devices as the operator calls them; Linux answers pings and takes TCP."""
    side = two.one
    shown = side.linux.ip("-br address show").stdout
    assert "e-lan" in shown and "10.0.1.1/24" in shown and "2001:db8:1::1/64" in shown, shown
    for address in ("10.0.1.1", "2001:db8:1::1", "192.168.12.1"):
        side.host.ping(address)
    side.host.ping("10.0.1.1", size=4000)
    # It is Linux, indeed.
    side.linux.run("sysctl -qw net.ipv4.icmp_echo_ignore_all=1")
    assert side.host.ping("10.0.1.1", count=2, extra="-W 1", check=False) == (2, 0)
    side.linux.run("sysctl -qw net.ipv4.icmp_echo_ignore_all=0")
    # And it pings.
    wait_for("Linux reaches the host", lambda: "1 received" in side.linux.run("ping -c 1 -W 1 10.0.1.2", check=False).stdout)
    assert "1 received" in side.linux.run("ping -c 1 -W 2 2001:db8:1::2", check=False).stdout
    # Super-frames both ways.
    with iperf_server(side.linux):
        tcp(side.host, "10.0.1.1")
        tcp(side.host, "2001:db8:1::1")
        tcp(side.host, "10.0.1.1", "-R")


def test_two_routers_of_linux(two):
    """Linux beside one router speaks with Linux beside the other, over both."""
    wait_for("they reach each other",
             lambda: "1 received" in two.one.linux.run("ping -c 1 -W 1 192.168.12.2", check=False).stdout)
    assert "3 received" in two.one.linux.run("ping -c 3 -i 0.05 -W 2 2001:db8:12::2", check=False).stdout
    with iperf_server(two.two.linux):
        tcp(two.one.linux, "192.168.12.2")


@pytest.mark.parametrize("kind", ["ptp", "broadcast"])
def test_ospf(two, kind):
    """BIRD on both: OSPFv2 and OSPFv3 come up, and each learns the other's networks; a link that is cut ends it."""
    with ExitStack() as stack:
        ask = {s.n: stack.enter_context(s.bird(kind)) for s in (two.one, two.two)}
        for n, birdc in ask.items():
            for protocol in ("o4", "o6"):
                wait_for(f"{protocol} of router {n} is up",
                         lambda: "Full/" in birdc(f"show ospf neighbors {protocol}"), timeout=60)
            other = 3 - n
            for route in (f"10.99.{other}.0/24", f"10.0.{other}.0/24", f"2001:db8:99:{other}::/64", f"2001:db8:{other}::/64"):
                wait_for(f"router {n} learns {route}", lambda: route in birdc(f"show route {route}"), timeout=30)
        linux = two.one.linux
        wait_for("Linux has it", lambda: "via 192.168.12.2 dev e-wan" in linux.ip("route show 10.99.2.0/24").stdout)
        # A flood of pings takes nothing from it.
        flood = two.one.host.start("ping -q -f -w 6 10.0.1.1")
        flood.wait(timeout=20)
        for birdc in ask.values():
            assert "Full/" in birdc("show ospf neighbors o4") and "Full/" in birdc("show ospf neighbors o6")
        two.one.router.ctl("set interface state wan down")
        wait_for("the neighbor is gone", lambda: "Full/" not in ask[1]("show ospf neighbors o4"), timeout=30)
        wait_for("at the other end, too", lambda: "Full/" not in ask[2]("show ospf neighbors o4"), timeout=30)
        two.one.router.ctl("set interface state wan up")
        for birdc in ask.values():
            wait_for("it is back", lambda: "Full/" in birdc("show ospf neighbors o4"), timeout=60)


def printed(name, netns):
    """What a page of docs has the reader type, block by block, with another name of the namespace."""
    with open(os.path.join(REPO, "docs", name)) as f:
        text = f.read()
    return [block.replace("dataplane", netns) for block in re.findall(r"```console\n(.*?)```", text, re.S)]


def typed(block, folder, **more):
    """Runs it in a folder, in which `quiver` is, perhaps with more in the environment; what it prints."""
    script = "\n".join(line.removeprefix("$ ") for line in block.splitlines())
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **more}
    done = run(["sh", "-ec", script], cwd=folder, env=env, check=False)
    assert done.returncode == 0, done
    return done.stdout


def ends(pidfile):
    """Ends the process that has written the file."""
    with open(pidfile) as f:
        os.kill(int(f.read()), signal.SIGTERM)


def test_the_manual(lab, tmp_path):
    """docs/linux-control-plane.md, as printed but for the name of the namespace."""
    name = f"{PREFIX}{os.getpid()}-manual"
    first, changes, routes, bridges, fpm, bird = printed("linux-control-plane.md", name)
    inside = lab.namespace("r")
    lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24"]))
    router = lab.router(inside, {"interfaces": {"left": {"addresses": ["10.0.1.1/24"]}},
                                 "loopbacks": {"loop0": {"addresses": ["10.9.9.9/32"]}}, "quiver": {"dad": "off"}})
    quiver = tmp_path / "quiver"
    quiver.write_text(f'#!/bin/sh\nshift\nexec {BINARY} ctl -s {router.socket} "$@"\n')
    quiver.chmod(0o755)

    try:
        shown = typed(first, tmp_path)
        assert "inet 10.0.1.1/24" in shown and re.search(r"left +tap\d+ +e0 +\d+", shown), shown
        typed(changes, tmp_path)
        wait_for("what Linux was given is the interface's",
                 lambda: all(w in router.ctl("show lcp") for w in ("mtu 1400", "192.0.2.1/24", "1 neighbors")))
        typed(routes, tmp_path)
        wait_for("the route is Quiver's", lambda: f"kernel:static@{name}" in router.ctl("fib why 198.51.100.1"))
        assert router.json("fib diff kernel") == []
        typed(bridges, tmp_path)
        wait_for("there is a tunnel, and a BVI", lambda: [(b["bvi"] is not None, [e["addresses"] for d in b["vxlan"] for e in d["ends"]])
                                                          for b in router.json("show lcp bridges")["bridges"]] == [(True, [1])])
        typed(fpm, tmp_path)
        wait_for("zebra is listened to", lambda: [f["address"] for f in router.json("show fpm")] == ["127.0.0.1:2620"])
        shown = typed(bird, tmp_path)
        assert "ospf1:" in shown, shown
        ends(tmp_path / "bird.pid")
    finally:
        run(f"ip netns del {name}", check=False)


PROVIDER = """
router id 192.0.2.1;
protocol device {}
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:f::/48 blackhole; }
protocol bgp { local as 64501; neighbor 192.0.2.2 as 64500; ipv4 { import all; export all; }; }
protocol bgp { local as 64501; neighbor 2001:db8:ff::2 as 64500; ipv6 { import all; export all; }; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
protocol kernel { ipv6 { export where source = RTS_BGP; }; }
"""


def asked(folder, name):
    """Whether the sessions are up, and since when one of them is, in seconds: BIRD's word for it, and FRR's."""
    birdc = lambda line: run(["birdc", "-s", f"{folder}/bird.ctl", *line.split()]).stdout
    def frr(line):
        return json.loads(run(["vtysh", "-N", name, "-c", f"{line} json"], stdin=subprocess.DEVNULL).stdout)
    return {
        "bird": (lambda: birdc("show protocols").count("Established") == 2,
                 lambda: seconds(birdc("show protocols provider4").splitlines()[-1].split()[4])),
        "bgp": (lambda: {n["bgpState"] for n in frr("show bgp neighbors").values() if "bgpState" in n} == {"Established"},
                lambda: frr("show bgp neighbors 192.0.2.1")["192.0.2.1"]["connectionsEstablished"]),
    }


@pytest.mark.parametrize("daemon", ["bird", "bgp"])
def test_from_nothing_to_bgp(lab, tmp_path, daemon):
    """docs/first-bgp.md as printed, but for the name of the namespace, with BIRD at the other end."""
    name = f"{PREFIX}{os.getpid()}-{daemon}"
    start, look, bird, frr, shown, change = printed("first-bgp.md", name)
    up, since = asked(tmp_path, name)[daemon]
    inside, provider = lab.namespace("r"), lab.namespace("p")
    provider.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0"
                 " net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    veth(inside, "wan", provider, "wan")
    for address in ("192.0.2.1/24", "2001:db8:ff::1/64"):
        provider.ip(f"address add {address} dev wan")
    for address in ("203.0.113.1/24", "2001:db8:f::1/48"):
        provider.ip(f"address add {address} dev lo")
    provider.ip("link set lo up")
    host = lab.cable(inside, "lan", lab.host("h", ["198.51.100.2/24", "2001:db8:1::2/64"], ["198.51.100.1", "2001:db8:1::1"]))
    (tmp_path / "quiver").symlink_to(BINARY)
    (tmp_path / "provider.conf").write_text(PROVIDER)
    socket = tmp_path / "ctl.sock"
    # The machine is a namespace here, and another router may run beside.
    start = start.replace("quiver run", f"ip netns exec {inside.name} quiver run")
    start = start.replace("interfaces:\n", f"quiver: {{dad: off, sockets: {{ctl: {socket}}}}}\ninterfaces:\n", 1)
    ours = {"QUIVER_CTL": str(socket)}
    supervisor = None
    try:
        provider.run(["bird", "-c", str(tmp_path / "provider.conf"), "-s", str(tmp_path / "p.ctl"), "-P", str(tmp_path / "p.pid")])
        typed(start.replace("quiver.log 2>&1 &", "quiver.log 2>&1 & echo $! > quiver.pid"), tmp_path)
        supervisor = tmp_path / "quiver.pid"
        wait_for("the router answers", lambda: socket.exists() and run([BINARY, "ctl", "-s", str(socket), "show version"], check=False).returncode == 0)
        wait_for("the provider is there", lambda: run(f"ip netns exec {name} ping -c 1 -W 1 192.0.2.1", check=False).returncode == 0)
        said = typed(look, tmp_path)
        assert "192.0.2.2/24" in said and "2001:db8:1::1/64" in said and "1 received" in said, said
        typed(bird if daemon == "bird" else frr, tmp_path)
        wait_for("the sessions are up", up, timeout=60)
        why = lambda to: run([BINARY, "ctl", "-s", str(socket), f"fib why {to}"]).stdout
        for to in ("203.0.113.1", "2001:db8:f::1"):
            wait_for(f"{to} is the daemon's", lambda: f"kernel:{daemon}@{name}" in why(to), timeout=30)
        if daemon == "bgp":
            shown = shown.replace("birdc -s bird.ctl show protocols provider4", f'vtysh -N {name} -c "show bgp ipv4"')
        said = typed(shown, tmp_path, **ours)
        assert ("Established" if daemon == "bird" else "203.0.113.0/24") in said, said
        assert re.search(r"203.0.113.0/24 (nhid \d+ )?via 192.0.2.1 dev wan0", said), said
        for to in ("203.0.113.1", "2001:db8:f::1"):
            wait_for(f"the host reaches {to}", lambda: host.ping(to, count=1, extra="-W 1", check=False)[1] == 1, timeout=30)
        said = typed(change, tmp_path, **ours)
        assert "198.51.100.129/24" in said and "second address" in said, said
        assert "198.51.100.129/24" in run(["ip", "-n", name, "-br", "address"]).stdout
        then = since()
        with open(supervisor) as f:
            os.kill(int(f.read()), signal.SIGUSR1)
        wait_for("the host reaches the provider's network again", lambda: host.ping("203.0.113.1", count=1, extra="-W 1", check=False)[1] == 1, timeout=30)
        assert since() == pytest.approx(then, abs=0.1)
    finally:
        if daemon == "bgp":
            run(["/usr/lib/frr/frrinit.sh", "stop", name], check=False)
            for folder in ("/etc/frr", "/var/run/frr"):
                shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
        for file in ("bird.pid", "p.pid", "quiver.pid"):
            if (tmp_path / file).exists():
                ends(tmp_path / file)
        if supervisor:
            wait_for("the router has ended", lambda: not socket.exists(), timeout=20)
        run(f"ip netns del {name}", check=False)
