"""What Quiver takes from a device Linux does not work on a second time, unless Linux has a use for it."""

import re
import signal

from harness import wait_for
from tools import hears


def seen(ns):
    """IPv4 packets that Linux's own input has seen in a namespace."""
    head, numbers = re.findall(r"^Ip: (.*)$", ns.run("cat /proc/net/snmp").stdout, re.M)
    return int(numbers.split()[head.split().index("InReceives")])


def shared(router):
    return "Linux sees what comes too" in router.ctl("show hardware-interfaces left")


def test_containers_on_the_device(lab, two_hosts):
    """A macvlan device upon the router's is in a namespace of its own, where nobody sees it, and works."""
    a, inside, r = two_hosts.a, two_hosts.inside, two_hosts.r
    box = lab.host("box", ["10.0.1.50/24"])
    inside.ip(f"link add mv0 link left netns {box.name} type macvlan mode bridge")
    box.ip("link set mv0 up")
    box.configure("mv0")
    wait_for("it answers", lambda: hears(a, "10.0.1.50"))
    assert not shared(r) and hears(a, "10.0.2.2")


def test_linux_sees_what_it_has_a_use_for(two_hosts):
    a, inside, r = two_hosts.a, two_hosts.inside, two_hosts.r
    assert hears(a, "10.0.2.2")
    before = seen(inside)
    assert a.ping("10.0.2.2", count=50, extra="-i 0.01") == (50, 50)
    assert seen(inside) == before and not shared(r)
    # An address is a use for it, for as long as it is there.
    a.ip("address add 10.0.9.2/24 dev eth0")
    assert not hears(a, "10.0.9.1")
    inside.ip("address add 10.0.9.1/24 dev left")
    wait_for("Linux answers", lambda: hears(a, "10.0.9.1"))
    assert shared(r) and hears(a, "10.0.2.2")
    inside.ip("address del 10.0.9.1/24 dev left")
    wait_for("it sees no more", lambda: not shared(r))
    before = seen(inside)
    assert a.ping("10.0.2.2", count=50, extra="-i 0.01") == (50, 50)
    assert seen(inside) == before
    # So is a bridge.
    inside.ip("link add br0 type bridge")
    inside.ip("link set left master br0")
    wait_for("the bridge has it", lambda: shared(r))
    inside.ip("link set left nomaster")
    wait_for("the bridge has it no more", lambda: not shared(r))
    # A router that dies leaves nothing behind.
    r.kill(signal.SIGKILL)
    inside.ip("address add 10.0.9.1/24 dev left")
    wait_for("Linux answers alone", lambda: hears(a, "10.0.9.1"))
    r.start()
    assert shared(r) and hears(a, "10.0.2.2")
