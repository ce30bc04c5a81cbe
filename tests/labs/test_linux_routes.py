"""What Linux's routing table says is what Quiver forwards by: routes of `ip`, of BIRD, and by the hundred thousand.

QUIVER_CHANGES is how many changes are made by chance: 50000 without.
"""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import tempfile

import pytest
from harness import run, wait_for
from tools import hears

CHANGES = int(os.environ.get("QUIVER_CHANGES", "50000"))
ROUNDS = 10


class Site:
    """A router between two hosts, with a pair of each port in a namespace of its own."""

    def __init__(self, lab, **more):
        self.ports = lab.namespace("r")
        self.linux = lab.namespace("cp")
        self.linux.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0")
        self.a = lab.cable(self.ports, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
        self.b = lab.cable(self.ports, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
        self.router = lab.router(self.ports, {
            "tables": {10: {"name": "red"}, 20: {"name": "blue"}},
            "interfaces": {
                "left": {"lcp": "e0", "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                "right": {"lcp": "e1", "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]},
            },
            "loopbacks": {"loop0": {"lcp": "lo0", "addresses": ["10.9.9.9/32"]}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True, **more},
        })
        wait_for("Linux has the addresses", lambda: "2001:db8:2::1" in self.linux.ip("-6 addr show dev e1").stdout)
        wait_for("the kernel is followed", lambda: [n for n in self.netlink() if n["synced"] and n["devices"] == 3])

    def netlink(self):
        return self.router.json("show netlink")

    def quiet(self, routes=0):
        """Until the kernel's routes are the router's."""
        def agree():
            known = self.netlink()
            return (all(n["waiting"] == 0 for n in known) and sum(n["routes"] for n in known) >= routes
                    and self.router.json("fib diff kernel") == [])
        wait_for("both agree", agree, timeout=60)

    def batch(self, lines):
        done = run(["ip", "-n", self.linux.name, "-force", "-batch", "-"], input="\n".join(lines) + "\n", check=False)
        assert done.returncode in (0, 1), done.stderr


def test_routes_of_ip_are_forwarded_by(lab):
    s = Site(lab)
    for address in ("20.0.0.1/32", "2001:db8:20::1/128"):
        s.b.ip(f"address add {address} dev lo")
    assert not hears(s.a, "20.0.0.1")
    s.linux.ip("route add 20.0.0.0/24 via 10.0.2.2 proto static")
    s.linux.ip("-6 route add 2001:db8:20::/48 via 2001:db8:2::2 proto bird metric 32")
    for to in ("20.0.0.1", "2001:db8:20::1"):
        wait_for(f"{to} answers", lambda to=to: hears(s.a, to))
    why = s.router.json("fib why 2001:db8:20::1")
    assert f"kernel:bird@{s.linux.name}" in json.dumps(why) and "via 2001:db8:2::2 right" in s.router.ctl("fib why 2001:db8:20::1")
    assert "20.0.0" not in s.router.ctl("show configuration")
    # A better metric takes over, and gives way.
    s.linux.ip("route add blackhole 20.0.0.0/24 metric 5")
    s.linux.ip("route replace unreachable 20.0.0.0/24")
    done = wait_for("it is unreachable", lambda: (d := s.a.run("ping -n -c 1 -W 1 20.0.0.1", check=False)) and "Unreachable" in d.stdout and d)
    assert "10.0.1.1" in done.stdout
    s.linux.ip("route del unreachable 20.0.0.0/24")
    wait_for("the other one drops", lambda: "> " in s.router.ctl("fib why 20.0.0.1") and "drop" in s.router.ctl("fib why 20.0.0.1"))
    # Static routes come first, and what the kernel has waits behind.
    s.router.ctl("ip route add 20.0.0.0/24 via 10.0.2.2 right")
    assert hears(s.a, "20.0.0.1")
    s.quiet()
    s.linux.ip("link set e1 down")
    wait_for("its routes are gone", lambda: not [r for r in s.router.json("fib why 2001:db8:20::1").get("routes", []) if "bird" in json.dumps(r)])
    s.quiet()
    # Of devices that are nobody's pair nothing comes, and what cannot be done is told.
    s.linux.ip("link add name other type veth peer name rehto")
    s.linux.ip("link set other up")
    s.linux.ip("route add 30.0.0.0/24 dev other")
    s.linux.ip("route add 30.0.1.0/24 table 77 via 10.0.1.2 dev e0")
    s.linux.ip("route add 30.0.2.0/24 tos 0x10 via 10.0.1.2 dev e0")
    def told():
        [n] = s.netlink()
        if n["foreign"] != 1 or n["failed"] != 1 or n["unsupported"] != [{"what": "type of service", "routes": 1}]:
            return False
        return "table 77" in n["failures"][0]["reason"] and n["failures"][0]["prefix"] == "30.0.1.0/24"
    wait_for("it is told", told)
    assert s.router.ctl("fib diff kernel") == "- 30.0.1.0/24 table 77 metric 0: via 10.0.1.2 left\n"
    # What was refused for want of a table is made when there is one.
    s.router.ctl("ip table add 77")
    wait_for("it is made", lambda: [n["failed"] for n in s.netlink()] == [0])
    s.quiet()
    # So it is where one is made again that was taken out with its routes.
    s.router.ctl("ip table del 77")
    s.router.ctl("ip table add 77")
    s.quiet()
    assert "via 10.0.1.2 left" in s.router.ctl("fib why 30.0.1.1 table 77")
    s.linux.ip("route del 30.0.1.0/24 table 77")
    # Of several ways those over pairs are taken.
    s.linux.ip("route add 30.0.3.0/24 nexthop via 10.0.1.2 dev e0 weight 3 nexthop dev other weight 1")
    wait_for("a way is taken", lambda: "via 10.0.1.2 left" in s.router.ctl("fib why 30.0.3.1"))
    s.quiet()
    # A route of a kind that is not forwarded by takes the place of one.
    for kind in ("throw 30.0.4.0/24 metric 20", "30.0.4.0/24 dev e0 proto kernel metric 20"):
        s.linux.ip("route add 30.0.4.0/24 via 10.0.1.2 dev e0 metric 20")
        wait_for("it is taken", lambda: "via 10.0.1.2 left" in s.router.ctl("fib why 30.0.4.1"))
        s.linux.ip(f"route replace {kind}")
        wait_for("it is gone", lambda: "30.0.4.0" not in s.router.ctl("fib why 30.0.4.1"))
        s.quiet()
        s.linux.ip(f"route del {kind}")
    # The main table is that of the interfaces: routes go along to another one, and back.
    for lines in (["30.0.5.0/24 via 10.0.1.2 dev e0"], ["30.0.6.0/24", "nexthop via 10.0.1.2 dev e0", "nexthop via 10.0.1.3 dev e0"]):
        s.linux.ip("route add " + " ".join(lines))
    s.quiet()
    for table in (10, 0):
        s.router.ctl("set interface ip address del left all")
        s.router.ctl(f"set interface ip table left {table}")
        s.router.ctl("set interface ip address left 10.0.1.1/24")
        s.linux.ip("route replace 30.0.5.0/24 via 10.0.1.2 dev e0")
        s.linux.ip("route replace 30.0.6.0/24 nexthop via 10.0.1.2 dev e0 nexthop via 10.0.1.3 dev e0")
        wait_for("they are there", lambda table=table: "via 10.0.1.2" in s.router.ctl(f"fib why 30.0.5.1 table {table}"))
        s.quiet()
        assert "30.0.5.0" not in s.router.ctl(f"fib why 30.0.5.1 table {10 - table}")
    # An interface goes at once, with its pair and Linux's routes over it.
    s.linux.ip("route add 50.0.0.0/24 dev lo0")
    wait_for("it is the router's", lambda: "via loop0" in s.router.ctl("fib why 50.0.0.1"))
    s.router.ctl("delete loopback interface intfc loop0")
    wait_for("its route is gone", lambda: "50.0.0.0/24" not in s.router.ctl("fib why 50.0.0.1"))
    # A pair that goes takes its routes along.
    s.linux.ip("route add 40.0.0.0/24 via 10.0.1.2 dev e0")
    s.quiet(1)
    s.router.ctl("lcp delete left")
    s.router.ctl("lcp delete right")
    wait_for("all are gone", lambda: s.netlink() == [] and "kernel:" not in s.router.ctl("show ip fib"))
    # Where nobody is asked nobody agrees.
    assert "nothing is compared" in s.router.ctl("fib diff kernel")


TABLES = {254: 0, 10: 10, 20: 20}  # the kernel's number: Quiver's


def test_the_mtu_of_a_route(lab):
    """What Linux says of a route holds for packets that Quiver forwards by it, and for no others."""
    s = Site(lab)
    for address in ("20.0.0.1/32", "20.0.1.1/32", "2001:db8:20::1/128"):
        s.b.ip(f"address add {address} dev lo")
    s.linux.ip("route add 20.0.0.0/24 via 10.0.2.2 mtu 1300")
    s.linux.ip("route add 20.0.1.0/24 via 10.0.2.2")
    s.linux.ip("-6 route add 2001:db8:20::/48 via 2001:db8:2::2 mtu 1290")
    s.quiet()
    assert "via 10.0.2.2 right mtu 1300" in s.router.ctl("fib why 20.0.0.1")
    def told(to, size, mtu):
        done = s.a.run(f"ping -n -c 1 -W 1 -M do -s {size} {to}", check=False)
        text = done.stdout + done.stderr
        return f"mtu={mtu}" in text or f"mtu = {mtu}" in text
    wait_for("it answers", lambda: hears(s.a, "20.0.0.1") and hears(s.a, "2001:db8:20::1"))
    wait_for("IPv4 is told", lambda: told("20.0.0.1", 1300 - 28 + 1, 1300))
    wait_for("IPv6 is told", lambda: told("2001:db8:20::1", 1290 - 48 + 1, 1290))
    assert s.a.run(f"ping -n -c 1 -W 1 -M do -s {1500 - 28} 20.0.1.1", check=False).returncode == 0
    # Another one, and none.
    s.linux.ip("route replace 20.0.0.0/24 via 10.0.2.2 mtu 1200")
    wait_for("it is another one", lambda: "mtu 1200" in s.router.ctl("fib why 20.0.0.1"))
    s.linux.ip("route replace 20.0.0.0/24 via 10.0.2.2")
    wait_for("there is none", lambda: "right mtu" not in s.router.ctl("fib why 20.0.0.1"))
    s.quiet()


def test_the_peer_of_an_address(lab):
    """A host that is the peer of an address is reached, also when it stands in no prefix of the interface."""
    s = Site(lab)
    s.b.ip("address add 10.77.0.2/32 dev eth0")
    s.b.ip("address add 2001:db8:77::2/128 dev eth0")
    s.b.ip("route add 10.66.0.1 dev eth0 src 10.77.0.2")
    s.b.ip("-6 route add 2001:db8:66::1 dev eth0 src 2001:db8:77::2")
    s.linux.ip("address add 10.66.0.1 peer 10.77.0.2 dev e1")
    s.linux.ip("address add 2001:db8:66::1 peer 2001:db8:77::2 dev e1")
    for to in ("10.77.0.2", "2001:db8:77::2"):
        wait_for(f"{to} has a route", lambda to=to: f"kernel:kernel@{s.linux.name}" in s.router.ctl(f"fib why {to}"))
        wait_for(f"{to} answers", lambda to=to: hears(s.a, to))
    s.quiet()
    # A prefix that holds the address is the interface's.
    s.linux.ip("address add 10.88.0.1 peer 10.88.0.2/24 dev e1")
    wait_for("it has the prefix", lambda: "10.88.0.1/24" in s.router.ctl("show interface address right"))
    s.linux.ip("address del 10.66.0.1 peer 10.77.0.2 dev e1")
    wait_for("the route is gone", lambda: "kernel:kernel" not in s.router.ctl("fib why 10.77.0.2"))
    s.quiet()


def test_routes_of_a_nexthop_object_move_at_once(lab):
    """An object that changes moves its routes by their next-hop group, none by itself."""
    s = Site(lab)
    s.linux.ip("nexthop add id 1 via 10.0.1.2 dev e0")
    s.linux.ip("nexthop add id 2 via 10.0.2.2 dev e1")
    s.linux.ip("nexthop add id 10 group 1")
    s.batch([f"route add 30.{n >> 8}.{n & 255}.0/24 nhid 10" for n in range(2000)])
    s.linux.ip("route add 31.0.0.0/24 via 10.0.1.2 dev e0")
    s.quiet(2001)
    def group(to):
        return s.router.json(f"show ip fib {to}")["group"]
    was = group("30.7.7.7")
    assert was["routes"] == 2000 and group("31.0.0.1")["id"] != was["id"]
    s.linux.ip("nexthop replace id 10 group 2")
    wait_for("it leads elsewhere", lambda: "via 10.0.2.2" in group("30.0.0.1")["wanted"])
    s.quiet(2001)
    now = group("30.7.7.7")
    assert (now["id"], now["routes"]) == (was["id"], 2000), "the group has moved, and no route"
    assert "via 10.0.1.2" in group("31.0.0.1")["wanted"]
    # One of a group's objects.
    s.linux.ip("nexthop replace id 10 group 1/2")
    s.linux.ip("nexthop replace id 2 via 10.0.2.3 dev e1")
    wait_for("both lead on", lambda: all(w in group("30.0.0.1")["wanted"] for w in ("10.0.1.2", "10.0.2.3")))
    assert group("30.0.0.1")["id"] == was["id"]
    s.quiet()


def test_flows_keep_their_way_in_a_resilient_group(lab):
    """A member goes, and its flows alone with it; it comes back, and takes its share."""
    s = Site(lab)
    members = (3, 4, 5)
    mac = lambda n: f"02:00:00:00:02:0{n}"
    for n in members:
        s.linux.ip(f"neighbor replace 10.0.2.{n} lladdr {mac(n)} dev e1 nud permanent")
        s.linux.ip(f"nexthop add id {n} via 10.0.2.{n} dev e1")
    group = "id 20 group {} type resilient buckets 100 idle_timer 60 unbalanced_timer 300"
    if s.linux.run(f"ip nexthop add {group.format('3/4/5')}", check=False).returncode != 0:
        pytest.skip("this kernel has no resilient nexthop groups")
    s.linux.ip("route add 32.0.0.0/24 nhid 20")
    shown = lambda: s.router.json("show ip fib 32.0.0.1")["group"]
    wait_for("it is there", lambda: s.router.json("show ip fib 32.0.0.1").get("group") and shown()["resilient"])
    wait_for("and its neighbors", lambda: [p["state"] for p in shown()["paths"]] == ["complete"] * 3)
    # A power of two.
    assert shown()["buckets"] == 128 and "128 buckets, resilient" in s.router.ctl("fib why 32.0.0.1")
    ports, text = range(20000, 20240), b"which way do I go?"
    with s.b.entered():
        got = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    got.bind(("eth0", 0))
    got.settimeout(5)
    out = []
    with s.a.entered():
        for port in ports:
            out.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            out[-1].bind(("10.0.1.2", port))

    def ways():
        """The member of the group by which each flow goes."""
        seen = {}
        for one in out:
            one.sendto(text, ("32.0.0.1", 9))
        while len(seen) < len(ports):
            frame = got.recv(2000)
            if text in frame:
                seen[int.from_bytes(frame[34:36], "big")] = frame[5]
        return seen

    def leads(*by):
        wait_for(f"it leads by {by}", lambda: [n for n in members if f"10.0.2.{n} " in shown()["wanted"] + " "] == list(by))
        s.quiet()
    before = ways()
    assert set(before.values()) == set(members)
    s.linux.ip("nexthop del id 5")
    leads(3, 4)
    without = ways()
    assert {p: n for p, n in before.items() if n != 5} == {p: n for p, n in without.items() if before[p] != 5}
    assert set(without.values()) == {3, 4}
    s.linux.ip("nexthop add id 5 via 10.0.2.5 dev e1")
    s.linux.ip(f"nexthop replace {group.format('3/4/5')}")
    leads(3, 4, 5)
    again = ways()
    moved = [p for p in ports if again[p] != without[p]]
    assert moved and all(again[p] == 5 for p in moved)
    # Another next hop in the place of a member's: flows of the others stay.
    s.linux.ip("nexthop replace id 4 via 10.0.2.3 dev e1")
    wait_for("it leads by one less", lambda: "10.0.2.4" not in shown()["wanted"])
    assert all(ways()[p] == n for p, n in again.items() if n != 4)
    for one in (got, *out):
        one.close()


def test_host_routes_to_own_addresses(lab):
    """BIRD programs such of its own addresses, on links that are up and on those that went down: Linux never asks them, and neither is anything missing here."""
    s = Site(lab)
    s.linux.ip("route add 10.0.2.1/32 dev e1 proto bird metric 32")
    s.linux.ip("route add 10.9.9.9/32 dev lo0 proto bird metric 32")
    s.linux.ip("-6 route add 2001:db8:2::1/128 dev e1 proto bird metric 32")
    s.linux.ip("route add 20.0.0.0/24 via 10.0.1.2 proto bird")
    s.quiet(4)
    [told] = s.netlink()
    assert told["failed"] == 0 and not told["failures"], told
    assert hears(s.b, "10.0.2.1") and hears(s.b, "2001:db8:2::1")
    s.b.ip("link set eth0 down")
    wait_for("the link is down", lambda: "NO-CARRIER" in s.linux.ip("link show dev e1").stdout)
    s.quiet()
    assert "local" in s.router.ctl("show ip fib 10.0.2.1/32")


def random_lines(seed, count):
    r = random.Random(seed)
    for _ in range(count):
        v6 = r.random() < 0.4
        verb = r.choice(["replace", "replace", "replace", "del", "append", "add"])
        prefix = f"2001:db8:{r.randrange(0x4000, 0x4400):x}::/48" if v6 else f"30.{r.randrange(4)}.{r.randrange(256)}.0/24"

        def one():
            n = r.randrange(2)
            return f"via {('2001:db8:%d::' if v6 else '10.0.%d.') % (n + 1)}{r.randrange(3, 9)} dev e{n}"
        what = r.choice([one(), one(), " ".join(f"nexthop {one()} weight {r.randrange(1, 4)}" for _ in range(r.randrange(2, 5)))])
        if r.random() < 0.05:
            what, prefix = "", f"{r.choice(['blackhole', 'unreachable', 'prohibit'])} {prefix}"
        table = r.choice(list(TABLES))
        yield f"route {verb} {prefix} table {table} metric {r.choice([10, 20])} proto {r.choice(['bird', 'zebra'])} {what}"


def kernels(site, family, table):
    """What `ip` prints of a table's routes of daemons: by prefix, where its packets go. The least metric counts, and of one metric the first."""
    text = run(["ip", "-n", site.linux.name, "-N", "-j", family, "route", "show", "table", str(table)]).stdout
    found, metrics = {}, {}
    for r in json.loads(text):
        metric = r.get("metric", 0)
        if r.get("protocol") not in ("11", "12") or metric >= metrics.get(r["dst"], 1 << 32):
            continue
        ways = collections.Counter()
        for hop in r.get("nexthops", [r] if "gateway" in r else []):
            ways[hop["gateway"], {"e0": "left", "e1": "right"}[hop["dev"]]] += hop.get("weight", 1)
        if len(ways) == 1:
            ways = dict.fromkeys(ways, 1)
        # Its numbers are those of linux/rtnetlink.h.
        discards = {"6": "drop", "7": "unreachable", "8": "prohibit"}
        metrics[r["dst"]], found[r["dst"]] = metric, dict(ways) or discards[r["type"]]
    return found


def quivers(site, family, table):
    """The same as `show ip fib` has it."""
    shown = site.router.json(f"show {'ip6' if family == '-6' else 'ip'} fib table {table} all")
    found = {}
    for r in shown["routes"]:
        if not (r["source"] or "").startswith("kernel:"):
            continue
        wanted = shown["groups"][str(r["group"])]["wanted"]
        if wanted.startswith("via "):
            ways = [way.split() for way in wanted.split(", ")]
            wanted = {(way[1], way[2]): int(way[4]) if way[3:4] == ["weight"] else 1 for way in ways}
        found[r["prefix"]] = wanted
    return found


def compared(site):
    """How many prefixes with routes of daemons there are; both have the same."""
    count = 0
    for family in ("-4", "-6"):
        for table, ours in TABLES.items():
            theirs = kernels(site, family, table)
            assert quivers(site, family, ours) == theirs, f"{family} table {table}"
            count += len(theirs)
    return count


def test_random_changes_in_three_tables(lab):
    """What there is room for of the kernel's messages is little, and in every second round nobody reads them: the buffer runs over."""
    s = Site(lab, **{"nl-rx-buffer-size": 65536})
    for n in range(ROUNDS):
        if n % 2:
            s.router.process.send_signal(signal.SIGSTOP)
        s.batch(random_lines(n, CHANGES // ROUNDS))
        s.router.process.send_signal(signal.SIGCONT)
    s.quiet(500)
    found = compared(s)
    [n] = s.netlink()
    print(f"\n{CHANGES} changes, {n['overflows']} overflows, {n['syncs']} readings of all, {n['repaired']} routes repaired; {found} prefixes compared")
    assert found > 500 and n["overflows"] > 0, n


BIRD = """
log "{dir}/{name}.log" all;
router id {id};
protocol device {{ }}
protocol kernel {{ ipv4 {{ export all; import none; }}; }}
protocol bgp {{ local as {own}; neighbor {peer} as {other}; ipv4 {{ import all; export all; next hop self; }}; hold time 9; connect retry time 1; connect delay time 1; }}
{more}
"""


@contextlib.contextmanager
def bird(ns, folder, name, **words):
    words = {"more": "", **words}
    conf, ctl = os.path.join(folder, f"{name}.conf"), os.path.join(folder, f"{name}.ctl")
    with open(conf, "w") as f:
        f.write(BIRD.format(dir=folder, name=name, **words))
    process = ns.start(["bird", "-f", "-c", conf, "-s", ctl, "-P", os.path.join(folder, f"{name}.pid")])
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


@pytest.mark.skipif(not shutil.which("bird"), reason="no BIRD (Debian's bird2)")
def test_bgp_of_bird_is_forwarded_by(lab):
    """A speaker behind `right` announces networks to BIRD beside Quiver; packets follow while the session lives."""
    s = Site(lab)
    s.b.ip("address add 20.0.0.1/32 dev lo")
    folder = tempfile.mkdtemp(prefix="bird-")
    networks = "\n".join(f"route 20.0.{n}.0/24 unreachable;" for n in range(200))
    static = "protocol static { ipv4; " + networks + " }"
    # The speaker's own routes are not for its kernel, which answers for 20.0.0.1.
    with bird(s.linux, folder, "here", id="10.0.2.1", own=65001, peer="10.0.2.2", other=65002):
        with bird(s.b, folder, "there", id="10.0.2.2", own=65002, peer="10.0.2.1", other=65001, more=static) as there:
            wait_for("what BIRD has learnt answers", lambda: hears(s.a, "20.0.0.1"), timeout=60)
            s.quiet(200)
            assert f"kernel:bird@{s.linux.name}" in s.router.ctl("fib why 20.0.0.1")
            there.kill()
            wait_for("the routes go with the session", lambda: not any(n["routes"] for n in s.netlink()), timeout=60)
            assert not hears(s.a, "20.0.0.1")
    shutil.rmtree(folder)
