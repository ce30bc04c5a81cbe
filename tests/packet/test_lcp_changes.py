"""Changes of pairs in Linux: what one that is refused leaves alone, what goes with a pair, and what is said of it."""

import os

import pytest
import yaml
from frames import ARP, Ether
from harness import Bench, CtlError, Netns, run, wait_for
from harness.router import BINARY, document

BIRD = "route add 10.92.0.0/16 via 10.0.1.2 dev e0 proto bird"


class Pairs:
    """A bench whose ports have the pairs e0 and e1 in a namespace."""

    def __init__(self):
        self.linux = Netns("lcp")
        self.bench = Bench({
            "interfaces": {"left": {"lcp": "e0"}, "right": {"lcp": "e1"}},
            "linux-cp": {"default-netns": self.linux.name, "lcp-sync": True}})
        self.router, self.ctl, self.ip = self.bench.router, self.bench.ctl, self.linux.ip
        wait_for("Linux has the addresses", lambda: "10.0.2.1" in self.ip("-4 addr show dev e1").stdout)

    def apply(self, change):
        """Applies the document of the start with a change."""
        new = yaml.safe_load(self.router.text)
        change(new)
        path = os.path.join(self.router.dir, "new.yaml")
        with open(path, "w") as f:
            f.write(document(new))
        return run([BINARY, "apply", "-s", self.router.socket, path], check=False)

    def ifindex(self, device):
        return int(self.ip(f"-o link show {device}").stdout.split(":")[0])

    def has(self, interface, address):
        [i] = [i for i in self.router.json("show interface address") if i["name"] == interface]
        return address in {a["address"] for a in i["addresses"]}

    def close(self):
        self.bench.close()
        self.linux.delete()


@pytest.fixture
def pairs():
    t = Pairs()
    yield t
    t.close()


def bridged(new):
    """e0 goes over to a BVI, and left into its bridge domain."""
    mine = [n for n in new["neighbors"] if n["interface"] != "left"]
    new["neighbors"] = mine
    new["interfaces"]["left"] = {}
    new["loopbacks"] = {"loop0": {"lcp": "e0", "addresses": ["10.0.1.1/24"]}}
    new["bridgedomains"] = {"bd10": {"bvi": "loop0", "interfaces": ["left"]}}


def busy(pairs):
    """Daemons work on e0; what Linux has there."""
    pairs.ip("addr add 10.91.0.1/24 dev e0")
    pairs.ip(BIRD)
    wait_for("the router has the address", lambda: pairs.has("left", "10.91.0.1/24"))
    wait_for("the router has the route", lambda: "10.92.0.0/16" in pairs.ctl("show ip fib"))
    return pairs.ifindex("e0")


def untouched(pairs, was):
    assert pairs.ifindex("e0") == was
    assert "10.91.0.1/24" in pairs.ip("-4 addr show dev e0").stdout
    assert "10.92.0.0/16" in pairs.ip("-4 route").stdout
    wait_for("the router has the address again", lambda: pairs.has("left", "10.91.0.1/24"))
    wait_for("the router has the route again", lambda: "10.92.0.0/16" in pairs.ctl("show ip fib"))
    wait_for("it has a carrier", lambda: "LOWER_UP" in pairs.ip("-o link show e0").stdout)


def test_a_refused_change_leaves_devices_alone(pairs):
    was = busy(pairs)
    # One of the operator's in a prefix of Linux's goes and comes with that.
    pairs.ctl("set ip neighbor left 10.91.0.9 02:00:00:00:00:99")
    runs = pairs.ctl("show configuration")
    assert "10.91.0.9" in runs
    pairs.ip("link add zz type veth peer name zzz")
    done = pairs.apply(lambda new: new["interfaces"]["left"].update(lcp="zz"))
    assert done.returncode == 1 and "taken" in done.stderr + done.stdout, done
    untouched(pairs, was)
    assert pairs.ctl("show configuration") == runs
    pairs.ctl("set ip neighbor del left 10.91.0.9")

    def moved(new):
        bridged(new)
        new["interfaces"]["right"].update(lcp="zz")

    done = pairs.apply(moved)
    assert done.returncode == 1 and "taken" in done.stderr + done.stdout, done
    untouched(pairs, was)
    # The operator alone takes them away.
    pairs.ctl("lcp delete left")
    assert "e0" not in pairs.ip("-o link").stdout
    assert not pairs.has("left", "10.91.0.1/24")


def test_routes_of_a_pair_go_with_it(pairs):
    """A daemon's routes over a pair do not keep its interface from a bridge domain."""
    was = busy(pairs)
    done = pairs.apply(bridged)
    assert done.returncode == 0, done
    assert pairs.ifindex("e0") == was, "the device went over to its new interface"
    [e0] = [p for p in pairs.router.json("show lcp")["pairs"] if p["host-if"] == "e0"]
    assert e0["interface"] == "loop0"
    mac = pairs.router.interface("loop0")["mac"]
    wait_for("Linux has its MAC address", lambda: mac in pairs.ip("-o link show e0").stdout)
    pairs.ctl("lcp delete loop0")
    wait_for("the route is gone", lambda: "10.92.0.0/16" not in pairs.ctl("show ip fib"))


def test_a_static_neighbor_stays(pairs):
    pairs.ctl("set ip neighbor left 10.0.1.90 02:00:00:00:00:90")

    def has(mac):
        return f"lladdr {mac}" in pairs.ip("neigh show 10.0.1.90 dev e0").stdout

    wait_for("Linux has it", lambda: has("02:00:00:00:00:90"))
    pairs.ip("neigh replace 10.0.1.90 lladdr 02:00:00:00:00:91 dev e0 nud permanent")
    wait_for("Linux has it again", lambda: has("02:00:00:00:00:90"))
    pairs.ip("neigh del 10.0.1.90 dev e0")
    pairs.ip("neigh replace 10.0.1.90 lladdr 02:00:00:00:00:92 dev e0 nud permanent")
    wait_for("Linux has it once more", lambda: has("02:00:00:00:00:90"))
    [n] = [n for n in pairs.router.json("show ip neighbors") if n["ip"] == "10.0.1.90"]
    assert (n["ethernet"], n["state"]) == ("02:00:00:00:00:90", "static")


def test_addresses_that_stand_alone(pairs):
    """VRRP daemons add their address without its network."""
    p, left = pairs.bench.ports["left"], pairs.bench.left
    pairs.ip("addr add 10.0.1.4/32 dev e0")
    wait_for("the router has it", lambda: pairs.has("left", "10.0.1.4/24"))
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=p.host_mac) / ARP(hwsrc=p.host_mac, psrc=p.host, pdst="10.0.1.4")
    left.send(bytes(ask) + bytes(18))
    left.wait(lambda f: ARP in f and f[ARP].op == 2 and (f[ARP].psrc, f[ARP].hwsrc) == ("10.0.1.4", p.mac))
    pairs.ip("addr del 10.0.1.4/32 dev e0")
    wait_for("it is gone", lambda: not pairs.has("left", "10.0.1.4/24"))
    # Of another network it has none of these.
    pairs.ip("addr add 10.60.0.4/32 dev e0")
    wait_for("the router has it", lambda: pairs.has("left", "10.60.0.4/32"))

    def pair():
        return next(p for p in pairs.router.json("show lcp")["pairs"] if p["interface"] == "left")

    # What cannot be is shown.
    assert pair()["refused"] == []
    pairs.ip("addr add 10.0.2.9/24 dev e0")
    wait_for("it is refused", lambda: [r["address"] for r in pair()["refused"]] == ["10.0.2.9/24"])
    assert "right" in pair()["refused"][0]["reason"] and "not 10.0.2.9/24" in pairs.ctl("show lcp")


def test_a_pair_is_named_before_what_it_brings(pairs):
    pairs.ctl("set interface ip address del right all")
    pairs.ip("addr add 10.77.0.1/24 dev e1")
    wait_for("the address", lambda: pairs.has("right", "10.77.0.1/24"))
    pairs.ctl("create bridge-domain 20")
    for line in ("set interface l2 bridge right 20", "set interface l2 xconnect right left"):
        with pytest.raises(CtlError, match="lcp delete right"):
            pairs.ctl(line)


def test_an_interface_goes_without_warnings(pairs):
    pairs.ctl("create loopback interface instance 7")
    pairs.ctl("set interface state loop7 up")
    pairs.ctl("lcp create loop7 host-if l7")
    pairs.ip("addr add 10.78.0.1/24 dev l7")
    wait_for("the address", lambda: pairs.has("loop7", "10.78.0.1/24"))
    pairs.ctl("delete loopback interface intfc loop7")
    assert "l7" not in pairs.ip("-o link").stdout
    assert "does not have the address" not in pairs.router.log()


def test_one_name_in_two_namespaces(pairs):
    other = Netns("lcp2")
    try:
        for n in (7, 8):
            pairs.ctl(f"create loopback interface instance {n}")
        pairs.ctl(f"lcp create loop7 host-if e0 netns {other.name}")
        assert other.ip("-o link show e0").stdout
        with pytest.raises(CtlError, match="e0 is the pair of loop7 already"):
            pairs.ctl(f"lcp create loop8 host-if e0 netns {other.name}")
        devices = {p["interface"]: (p["host-if"], p["netns"]) for p in pairs.router.json("show lcp")["pairs"]}
        assert devices["left"] == ("e0", pairs.linux.name) and devices["loop7"] == ("e0", other.name)
        # A document can say it.
        path = os.path.join(pairs.router.dir, "same.yaml")
        with open(path, "w") as f:
            f.write(pairs.ctl("show configuration"))
        done = run([BINARY, "apply", "-s", pairs.router.socket, path], check=False)
        assert done.returncode == 0, done
        pairs.ctl("lcp delete loop7")
        assert "e0" in pairs.ip("-o link").stdout and "e0" not in other.ip("-o link").stdout
    finally:
        other.delete()


def test_a_namespace_that_is_not_there_is_told(pairs):
    told = "there is no network namespace nosuch"
    assert told in pairs.ctl("lcp default netns nosuch")
    wait_for("it is logged", lambda: told in pairs.router.log())
    assert told in pairs.ctl("lcp fpm on netns nosuch")
    assert "no network namespace" not in pairs.ctl(f"lcp default netns {pairs.linux.name}")


def test_zebra_cannot_be_listened_to(pairs):
    pairs.ctl("lcp fpm on address 10.99.99.99")
    wait_for("it is told", lambda: "not on 10.99.99.99:2620 in namespace" in pairs.ctl("show fpm"))
    [fpm] = pairs.router.json("show fpm")
    assert set(fpm) == {"address", "netns", "trouble"} and "10.99.99.99:2620" in fpm["trouble"]
    # It is tried again.
    pairs.ip("addr add 10.99.99.99/32 dev lo")
    pairs.ip("link set lo up")
    wait_for("zebra is listened to", lambda: pairs.router.json("show fpm")[0]["trouble"] is None, timeout=10)
    pairs.ctl("lcp fpm off")
    wait_for("nobody is", lambda: "is off" in pairs.ctl("show fpm"))


def test_words(pairs):
    """The table of routes has room for long sources; a warning names an interface once."""
    pairs.ip(BIRD)
    wait_for("the router has the route", lambda: "10.92.0.0/16" in pairs.ctl("show ip fib"))
    lines = pairs.ctl("show ip fib").splitlines()
    [head] = [line for line in lines if line.startswith("Prefix")]
    [row] = [line for line in lines if line.startswith("10.92.0.0/16")]
    group = row.split()[2]
    # The number of the process stands in the name of its namespace.
    assert row.index(f" {group} ", row.index("kernel:")) + 1 + len(group) == head.index("Group") + len("Group"), lines
    pairs.ctl("lcp lcp-auto-subint on")
    pairs.ctl("create sub-interfaces left 305 dot1q any")
    wait_for("it is told", lambda: "lcp-auto-subint: left.305: takes frames" in pairs.router.log())
