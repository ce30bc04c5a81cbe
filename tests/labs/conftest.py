"""The stage of the labs: Linux hosts around a router, with the offloads that Linux has by default."""

import pytest
from harness import Host, Netns, Router, veth


class Lab:
    """Hosts and routers; everything is gone after the test."""

    def __init__(self):
        self.all, self.routers = [], []

    def host(self, name, addresses, gateways=()):
        h = Host(name, addresses, gateways)
        self.all.append(h)
        return h

    def namespace(self, name):
        n = Netns(name)
        self.all.append(n)
        return n

    def cable(self, ns, device, host, mtu=None, host_device="eth0"):
        """From `device` of the router's namespace to the host, which then takes its addresses."""
        veth(ns, device, host, host_device, mtu=mtu)
        return host.configure(host_device)

    def router(self, netns, config, **more):
        r = Router(netns, config, **more)
        self.routers.append(r)
        return r

    def close(self):
        for r in self.routers:
            r.stop()
        for n in reversed(self.all):
            n.delete()


@pytest.fixture
def lab():
    stage = Lab()
    yield stage
    stage.close()


@pytest.fixture(scope="module")
def module_lab():
    """A stage for all tests of a file."""
    stage = Lab()
    yield stage
    stage.close()


@pytest.fixture
def two_hosts(lab):
    """Host A 10.0.1.2 --- left [Quiver] right --- 10.0.2.2 host B, and the same in IPv6; the file of the demo."""
    inside = lab.namespace("r")
    lab.a = lab.cable(inside, "left", lab.host("a", ["10.0.1.2/24", "2001:db8:1::2/64"], ["10.0.1.1", "2001:db8:1::1"]))
    lab.b = lab.cable(inside, "right", lab.host("b", ["10.0.2.2/24", "2001:db8:2::2/64"], ["10.0.2.1", "2001:db8:2::1"]))
    lab.inside = inside
    lab.r = lab.router(inside, {
        "interfaces": {"left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                       "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
    })
    return lab
